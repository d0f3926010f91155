"""The numbers that the debugger is known by: charges, shadow energies, stops, chaos, each beside what it should be.

    python bench/debugger.py [--backend cuda] [--beside llvm] [--short] [--fake] [ROW ...]

A row is printed with what was found, what it should be, and a hash of its numbers: on another backend it is the same.
--beside does each row on a second backend, too, and says whether words and bits are those of the first.
--short leaves out what takes minutes; --fake runs on the driver of the tests that
interprets PTX, with fewer steps in some rows and without those that take long.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import math
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    return (p @ p + q @ q) / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.map
def cat(q, p):
    p = (p + q) % 1.0
    return (q + p) % 1.0, p


@tp.map
def standard(q, p, K=7.0):
    p = p + K * tp.sin(q)
    return (q + p) % (2 * np.pi), p % (2 * np.pi)


@tp.ode
def lorenz(x, y, z, s=10.0, r=28.0, b=8 / 3):
    return s * (y - x), x * (r - z) - y, x * y - b * z


@tp.hamiltonian
def planets(q: tp.Array[3, 2], p: tp.Array[3, 2], m: tp.Vec[3], G: float = 4 * math.pi**2):
    r = tp.sqrt(tp.pair_distance2(q))
    return ((p**2).sum(-1) / (2 * m)).sum() - G * tp.pair_sum(m[:, None] * m[None, :] / r)


FACTS: dict[str, Any] = {"backend": "auto", "fake": False}


def compiled(system: Any, dt: float | None = None, **options: Any) -> Any:
    return tp.compile(system, dt=dt, backend=FACTS["backend"], **options)


def at_energy(y: Any, energy: float = 1 / 8) -> dict[str, Any]:
    y = np.asarray(y, float)
    zero = np.zeros_like(y)
    p = np.sqrt(2 * energy - y**2 + 2 * y**3 / 3)
    return {"q": np.stack([zero, y], -1), "p": np.stack([p, zero], -1)}


Found = tuple[str, str, Any]  # what was found, what it should be, the numbers


def shadow(method: str, dt: float) -> Found:
    sim = compiled(henon_heiles, dt, method=method)
    out = sim.evolve(**at_energy(-0.016), until=100.0, save_every=1)
    values = np.ptp(out.energy), np.ptp(out.shadow_energy), out.shadow(order=8).variation
    want = {
        ("leapfrog", 0.1): "3.80e-4, 1.08e-6, 2.0e-9",
        ("leapfrog", 0.05): "9.51e-5, 6.76e-8, 8.5e-12",
        ("yoshida4", 0.1): "1.63e-6, order 8 2.1e-9",
        ("yoshida4", 0.05): "1.01e-7, order 8 8.5e-12",
    }
    return "energy {:.2e}, shadow {:.2e}, order 8 {:.1e}".format(*values), want[method, dt], out.final.q


def singularity() -> Found:
    sim = compiled(kepler, 0.01, method="leapfrog")
    out = sim.evolve(q=[1.0, 0.0], p=[0.0, 0.0], steps=200)
    return f"{out.stopped.cause} at step {out.stopped.step}", "singularity at step 111", out.final.q


def coarse() -> Found:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        sim = compiled(kepler, 0.02, method="leapfrog")
        out = sim.evolve(q=[1.0, 0.0], p=[0.0, 0.6], steps=200, save_every=1)
    return str(said[0].message)[:60], "step 72", out.final.q


def precession() -> Found:
    sim = compiled(kepler, 0.02, method="leapfrog")
    p = 1.2
    period = 2 * math.pi * (1 / (2 - p * p)) ** 1.5
    observe = {
        "x": lambda q, p: p[1] * (q[0] * p[1] - q[1] * p[0]) - q[0] / tp.norm(q),
        "y": lambda q, p: -p[0] * (q[0] * p[1] - q[1] * p[0]) - q[1] / tp.norm(q),
    }
    run = {"q": [1.0, 0.0], "p": [0.0, p], "steps": 10_000 if FACTS["fake"] else 200_000}
    out = sim.evolve(**run, observe=observe, observe_every=1)
    angle = np.unwrap(np.arctan2(out["y"], out["x"]))
    slope = np.polyfit(out.times("x"), angle, 1)[0] * period
    return f"{slope:.4e} rad an orbit", "-2.205e-4", out.final.q


def walk() -> Found:
    many, n = (16, 2_000) if FACTS["fake"] else (1_000, 1_000_000)
    speeds = np.linspace(0.8, 1.2, many)
    start = {"q": np.tile([1.0, 0.0], (many, 1)), "p": np.stack([0 * speeds, speeds], -1)}
    sim = compiled(
        kepler, 0.02, method="leapfrog", check_every=1 << 18
    )  # asked for, it looks at short runs of a GPU, too
    out = sim.evolve(**start, steps=n, frames=2)
    q, p = out.final.q, out.final.p
    off = q[:, 0] * p[:, 1] - q[:, 1] * p[:, 0] - speeds
    spread = float(np.sqrt(np.mean(off**2))) / (2.0**-53 * math.sqrt(n))
    told = out.metrics.get("checks", {})
    return (
        f"rms {spread:.3f} * 2**-53 * sqrt(n); {told.get('alarms', 'none watched')} alarms, {len(out.stops)} stops",
        "0.52; 0 alarms, 0 stops",
        q,
    )


@tp.hamiltonian
def morse(q: float, p: float):
    return p**2 / 2 + (1 - tp.exp(-q)) ** 2


@tp.hamiltonian
def yukawa(q: tp.Vec[3], p: tp.Vec[3]):
    return p @ p / 2 - tp.exp(-tp.norm(q)) / tp.norm(q)


def vibrations(many: int) -> dict[str, Any]:
    """Below the energy at which a bond breaks."""
    r = np.random.default_rng(3)
    return {"q": r.uniform(-0.3, 1.0, many), "p": r.uniform(-0.3, 0.3, many)}


def screened(many: int) -> dict[str, Any]:
    """Bound orbits in planes of all directions."""
    r = np.random.default_rng(3)
    u, w = r.normal(size=(2, many, 3))
    u /= np.linalg.norm(u, axis=1)[:, None]
    w = np.cross(u, w)
    w /= np.linalg.norm(w, axis=1)[:, None]
    far = r.uniform(0.4, 0.8, many)
    speed = np.sqrt(np.exp(-far) * (1 + 1 / far)) * r.uniform(0.85, 1.0, many)
    assert (speed**2 / 2 < np.exp(-far) / far).all()
    return {"q": u * far[:, None], "p": w * speed[:, None]}


def well(system: Any, dt: float, begin: Callable[[int], dict[str, Any]]) -> Found:
    many, n = (16, 2_000) if FACTS["fake"] else (1_000, 1_000_000)
    alarms, stops, ends = 0, 0, []
    for method in ("leapfrog", "leapfrog_dkd", "yoshida4"):
        out = compiled(system, dt, method=method, check_every=1 << 17).evolve(
            **begin(many), steps=n, frames=2
        )
        alarms, stops = alarms + out.metrics.get("checks", {}).get("alarms", 0), stops + len(out.stops)
        ends.append(out.final.q)
    return f"{3 * many:,} runs: {alarms} alarms, {stops} stops", "0 alarms, 0 stops", np.array(ends)


def sensitivity() -> Found:
    m = np.array([1.0, 1 / 1047.35, 1 / 332946])
    v = np.array([[0.0, 0.0], [0.0, 2 * np.pi / np.sqrt(5.2)], [-2 * np.pi, 0.0]])
    start = {"q": [[0.0, 0.0], [5.2, 0.0], [0.0, 1.0]], "p": m[:, None] * v, "m": m}
    sim = compiled(planets, 0.005, method="yoshida6")
    moved = sim.sensitivity(of="q[2]", to="q[1, 0]", until=100.0, **start)
    seen = sim.sensitivity(of="q[2] - q[0]", to="q[1, 0]", until=100.0, **start)
    values = np.linalg.norm(moved), np.linalg.norm(seen)
    return "{:.5f} mm, {:.6f} mm".format(*values), "0.15380, 0.010309", np.array(values)


def fault() -> Found:
    sim = compiled(kepler, 0.02, method="leapfrog", check_every=64)
    acts = {"fault": tp.fault("p", (1,), relative=1e-3, since=100)}
    out = sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=1000, acts=acts)
    return f"{out.stopped.cause} at step {out.stopped.step}", "integrity within 64 of step 100", out.final.q


def cat_map() -> Found:
    found = compiled(cat, checks="off").lyapunov(q=0.1, p=0.2, steps=200 if FACTS["fake"] else 20_000)
    return f"{found.value:.7f}", "0.9624237", np.array([found.value])


def chaotic() -> Found:
    sim = compiled(henon_heiles, 0.05, order=4, checks="off")
    found = sim.lyapunov(**at_energy(-0.016), until=1e6)
    return f"{found.value:.4f} ± {found.error:.4f}", "0.0446 ± 0.005", np.array([found.value])


def coverage() -> Found:
    sim = compiled(henon_heiles, 0.05, order=4, checks="off")
    many = sim.lyapunov(**at_energy(np.linspace(-0.25, -0.01, 60)), until=1e5)
    some = many.value > 0.01
    held = (np.abs(many.value - many.value[some].mean()) < 2 * many.error)[some].mean()
    return f"{100 * held:.0f} % of {some.sum()}", ">= 85 %", many.value


def kicked(K: float) -> Found:
    found = compiled(standard, checks="off").lyapunov(q=2.0, p=1.0, K=K, steps=10_000_000)
    return f"{found.value:.5f}", f"{ {7.0: 1.2766, 10.0: 1.6200}[K] } ± 0.002", np.array([found.value])


def attractor() -> Found:
    sim = compiled(lorenz, 0.01, method="rk4", checks="off")
    found = sim.lyapunov(x=1.0, y=1.0, z=20.0, until=1e5, spectrum="all", discard=100.0)
    text = ", ".join(f"{x:.4f}" for x in found.spectrum)
    return f"{text}, sum {found.spectrum.sum():.5f}", "0.906, 0, -14.573, sum -13.66656", found.spectrum


def gali() -> Found:
    """Twenty members that begin alike have other directions."""
    sim = compiled(henon_heiles, 0.05, method="yoshida4", checks="off")
    observe = {str(k): tp.chaos.gali(k) for k in (2, 3, 4)}
    run = {"q": np.tile([0.0, 0.55], (20, 1)), "p": np.tile([0.2417, 0.0], (20, 1)), "until": 2e4}
    out = sim.evolve(**run, observe=observe, observe_every=400, frames=2)
    late = (t := out.times("2")) > 200
    slopes = [np.polyfit(np.log(t[late]), np.log(out[k][late]), 1)[0] for k in observe]
    all_of_them = np.stack(slopes, axis=-1)
    off = (np.abs(all_of_them - [0, -2, -4]) < 0.1).sum(axis=0)
    medians = ", ".join(f"{x:.3f}" for x in np.median(all_of_them, axis=0))
    return f"medians {medians}; within 0.1: {off.tolist()} of 20", "0, -2, -4 ± 0.1", all_of_them


def megno() -> Found:
    """Of two hundred: medians of twenty lie within 0.03 of 2 for three draws in four."""
    sim = compiled(henon_heiles, 0.05, order=4, checks="off")
    run = {**at_energy(np.full(200, 0.1)), "until": 1e4}
    out = sim.evolve(**run, observe={"Y": tp.chaos.megno}, observe_every=200_000, frames=2)
    found = np.asarray(out["Y"][-1])
    near = (np.abs(found - 2) < 0.15).sum()
    return f"median {np.median(found):.3f}, {near} of 200 within 0.15", "2.0 ± 0.03, ± 0.15", found


ROWS: dict[str, Callable[[], Found]] = {
    **{
        f"shadow {m} {dt}": (lambda m=m, dt=dt: shadow(m, dt))
        for m in ("leapfrog", "yoshida4")
        for dt in (0.1, 0.05)
    },
    "singularity": singularity,
    "coarse": coarse,
    "fault": fault,
    "precession": precession,
    "cat map": cat_map,
    "sensitivity": sensitivity,
}
LONG: dict[str, Callable[[], Found]] = {
    "healthy": walk,
    "healthy morse": lambda: well(morse, 0.02, vibrations),
    "healthy yukawa": lambda: well(yukawa, 0.005, screened),
    "lyapunov": chaotic,
    "coverage": coverage,
    "standard map 7": lambda: kicked(7.0),
    "standard map 10": lambda: kicked(10.0),
    "lorenz": attractor,
    "gali": gali,
    "megno": megno,
}


@contextlib.contextmanager
def driver(fake: bool) -> Any:
    if not fake:
        yield
        return
    sys.path.insert(0, str(Path(__file__).parent.parent / "test"))
    from fake_cuda import FakeDriver, installed

    with installed(FakeDriver()):
        yield


def main() -> None:
    told = argparse.ArgumentParser(description=__doc__)
    told.add_argument("rows", nargs="*")
    told.add_argument("--backend", default="auto")
    told.add_argument("--beside", default="", help="another backend, whose words and bits are compared")
    told.add_argument("--short", action="store_true")
    told.add_argument("--fake", action="store_true")
    asked = told.parse_args()
    FACTS.update(backend="cuda" if asked.fake else asked.backend, fake=asked.fake)
    rows = ROWS if asked.short or asked.fake else ROWS | LONG
    warnings.simplefilter("ignore", tp.PhysicsWarning)
    differ = 0
    with driver(asked.fake):
        for name, row in rows.items():
            if asked.rows and not any(x in name for x in asked.rows) or asked.fake and row is sensitivity:
                continue
            found, want, bits, took = measured(row)
            beside = ""
            if asked.beside:
                FACTS["backend"], first = asked.beside, FACTS["backend"]
                other, _, those, also = measured(row)
                FACTS["backend"] = first
                same = (found, bits) == (other, those)
                differ += not same
                beside = (
                    f", {asked.beside} {'the same bits' if same else f'OTHERS: {other} {those}'} {also:.1f} s"
                )
            print(f"{name:20} {found:60} must: {want:36} {bits} {took:6.1f} s{beside}", flush=True)
    if asked.beside:
        print(f"{differ} rows differ")
        sys.exit(differ > 0)


def measured(row: Callable[[], Found]) -> tuple[str, str, str, float]:
    """What was found and what it should be, a hash of the numbers, and CPU seconds; on a GPU those of the clock."""
    clock = time.perf_counter if FACTS["backend"] == "cuda" else time.process_time
    began = clock()
    found, want, numbers = row()
    bits = hashlib.sha256(np.ascontiguousarray(numbers).tobytes()).hexdigest()[:12]
    return found, want, bits, clock() - began


if __name__ == "__main__":
    main()
