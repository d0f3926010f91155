"""What does math="fast" gain, and what does it cost?  Times of a step and energies after many, beside the exact ones.

Times are CPU seconds of this thread, the two interleaved, the smallest counts; with --backend cuda seconds of the clock,
until the device is done. Energies are those of a small ensemble,
looked at every 997 steps: the largest |E - E0| over the largest sum of |terms of H|.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.zoo import henon_heiles, kepler, pendulum
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.runtime.state.ensemble import inputs

DT = 0.01
LOOK = 997  # steps; no divisor of a period


@tp.hamiltonian
def gravity(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Array["n"], eps: float = 0.01):
    d2 = ((q[:, None] - q[None, :]) ** 2).sum(-1) + eps * eps
    return ((p * p).sum(-1) / m).sum() / 2 - tp.pair_sum(m[:, None] * m[None, :] / np.sqrt(d2))


def orbits(n: int) -> dict[str, Any]:
    e = np.linspace(0.02, 0.5, n)
    return {"q": np.stack([1 - e, 0 * e], 1), "p": np.stack([0 * e, np.sqrt((1 + e) / (1 - e))], 1)}


def swings(n: int) -> dict[str, Any]:
    return {"q": np.linspace(-2.5, 2.5, n), "p": np.linspace(0.1, 0.3, n)}


def stars(n: int) -> dict[str, Any]:
    e = np.linspace(0.01, 0.3, n)
    return {"q": np.stack([e, 0.1 + 0 * e], 1), "p": np.stack([0.2 + 0 * e, 0.3 - 0.5 * e], 1)}


def cluster(n: int) -> dict[str, Any]:
    g = np.random.default_rng(0)
    return {"q": g.normal(size=(n, 3)), "p": g.normal(size=(n, 3)) / n**1.5, "m": np.full(n, 1.0 / n)}


# system, where it begins, members or bodies, steps of a block
SYSTEMS: dict[str, tuple[Any, Callable[[int], dict[str, Any]], int, int]] = {
    "pendulum": (pendulum, swings, 4096, 100),
    "kepler": (kepler, orbits, 4096, 100),
    "henon_heiles": (henon_heiles, stars, 4096, 100),
    "kepler, one orbit": (kepler, orbits, 1, 20_000),
    "pendulum, one": (pendulum, swings, 1, 20_000),
    "gravity": (gravity, cluster, 1024, 2),
}
MATHS = ("exact", "fast")


def times(
    name: str, precision: str, repeat: int, backend: str = "llvm", bodies: int | None = None
) -> dict[str, float]:
    """Nanoseconds of a member and step; of a pair and step, for bodies that attract each other."""
    system, start, count, steps = SYSTEMS[name]
    many = system is gravity
    count = bodies or count if many or count > 1 else count
    clock = time.thread_time if backend in ("llvm", "c", "numpy") else time.perf_counter
    running = {}
    for math in MATHS:
        options = {"sizes": {"n": count}} if many else {}
        sim = tp.compile(
            system, dt=DT, method="leapfrog", precision=precision, math=math, backend=backend, **options
        )
        given = start(count) if many or count > 1 else {k: v[0] for k, v in start(1).items()}
        i = inputs(sim.system, given, sim.compiled.encoding)
        engine = engine_for(sim.target, sim.tpir, None, 1, many)
        m = engine.start(i.states, i.params, i.members, DT, 0.0, 1)
        for _ in range(4):
            engine.advance(m, steps)  # compiles, the good code too
        running[math] = engine, m
    best = dict.fromkeys(running, float("inf"))
    for _ in range(repeat):
        for math, (engine, m) in running.items():
            began = clock()
            engine.advance(m, steps)
            engine.bad(m)  # reads what the last step gave
            best[math] = min(best[math], clock() - began)
    work = steps * (count * (count - 1) // 2 if many else count)
    return {math: 1e9 * t / work for math, t in best.items()}


def energies(name: str, precision: str, steps: int) -> dict[str, float]:
    """The largest energy error of an ensemble, rms over its members; relative to the largest kinetic energy."""
    system, start, _, _ = SYSTEMS[name]
    out = {}
    for math in MATHS:
        sim = tp.compile(system, dt=DT, method="kahan_li8", precision=precision, math=math)
        run = sim.evolve(
            **start(64),
            steps=steps,
            observe={"energy": "energy"},
            observe_every=LOOK,
            progress=False,
            frames=2,
        )
        worst = np.abs(run["energy"] - run["energy"][0]).max(axis=0) / np.abs(run["energy"][0])
        out[math] = float(np.sqrt((worst**2).mean()))
    return out


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--repeat", type=int, default=30)
    options.add_argument("--steps", type=int, default=20_000, help="of the runs whose energies are looked at")
    options.add_argument("--json", action="store_true")
    options.add_argument("--only", choices=SYSTEMS, action="append", help="this row; may be given again")
    options.add_argument(
        "--backend", default="llvm", help="llvm, c, or cuda: then with many bodies or members"
    )
    options.add_argument(
        "--bodies", type=int, help="bodies, or members of an ensemble, instead of what stands in the file"
    )
    given = options.parse_args()
    rows = []
    for name in given.only or SYSTEMS:
        for precision in ("float64", "float32"):
            t = times(name, precision, given.repeat, given.backend, given.bodies)
            rows.append({"system": name, "precision": precision, **t, "ratio": t["exact"] / t["fast"]})
            if not given.json:
                print(
                    f"{name:18} {precision:8} exact {t['exact']:8.5f} ns  fast {t['fast']:8.5f} ns  "
                    f"{rows[-1]['ratio']:.2f} times"
                )
    if given.only:
        return
    drifts = [
        {"system": name, **energies(name, "float64", given.steps)}
        for name in ("pendulum", "kepler", "henon_heiles")
    ]
    if given.json:
        print(json.dumps({"times": rows, "energies": drifts}, indent=1))
        return
    for row in drifts:
        print(
            f"{row['system']:18} energy error, {given.steps} steps of kahan_li8: "
            f"exact {row['exact']:.1e}  fast {row['fast']:.1e}"
        )


if __name__ == "__main__":
    main()
