"""What does a deleted loop cost, and is it right?  Springs, an oscillator and waves after very many steps.

    python bench/deletion.py                 # everything; about a minute
    python bench/deletion.py small members   # what the default is decided by

Thread CPU time, the smallest of a few; the loop is timed over a few steps and multiplied. References have 40 digits.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import mpmath
import numpy as np

import tinyphysics as tp
from tinyphysics.device.linear.double_double import DD
from tinyphysics.device.linear.phases import circle
from tinyphysics.physics.chains import oscillators
from tinyphysics.physics.fields import wave
from tinyphysics.runtime.engines import propagator

DT, BILLION, MILLION, SHEET, TURNS = 0.01, 10**9, 10**6, 1024, 5


@tp.hamiltonian
def free_chain(q: tp.Vec["n"], p: tp.Vec["n"]):
    stretch = tp.diff(q)
    return p @ p / 2 + stretch @ stretch / 2


def spent(f: Callable[[], Any]) -> float:
    began = time.thread_time()
    f()
    return time.thread_time() - began


def forget() -> None:
    """The next jump builds everything again."""
    propagator._propagators = OrderedDict()


def chain_modes(n: int, free: bool) -> list[tuple[Any, list[Any]]]:
    """(omega**2, vector) of each mode of springs between walls, or with free ends: known in closed form."""
    out = []
    for j in range(n):
        if free:
            square = 4 * mpmath.sin(mpmath.pi * j / (2 * n)) ** 2
            v = [mpmath.cos(mpmath.pi * j * (2 * i + 1) / (2 * n)) for i in range(n)]
        else:
            square = 4 * mpmath.sin(mpmath.pi * (j + 1) / (2 * (n + 1))) ** 2
            v = [mpmath.sin(mpmath.pi * (j + 1) * (i + 1) / (n + 1)) for i in range(n)]
        size = mpmath.sqrt(mpmath.fsum(x * x for x in v))
        out.append((square, [x / size for x in v]))
    return out


def chain_after(q: Any, p: Any, t: Any, free: bool) -> list[Any]:
    new = [mpmath.mpf(0)] * len(q)
    for square, v in chain_modes(len(q), free):
        x, y = (mpmath.fsum(a * mpmath.mpf(float(b)) for a, b in zip(v, z)) for z in (q, p))
        w = mpmath.sqrt(square)
        moved = x + y * t if square == 0 else x * mpmath.cos(w * t) + y * mpmath.sin(w * t) / w
        new = [a + moved * b for a, b in zip(new, v)]
    return new


def springs() -> None:
    rng = np.random.default_rng(0)
    q, p = rng.normal(size=(2, 64))
    for name, system, free in (("between walls", oscillators, False), ("with free ends", free_chain, True)):
        sim = tp.compile(system, DT, propagator="exact", sizes={"n": 64})

        def run(sim: Any = sim) -> Any:
            return sim.evolve(q=q, p=p, steps=BILLION, progress=False, frames=2)

        out = run()
        built = []
        for _ in range(TURNS):
            forget()
            built.append(spent(run))
        applied = min(spent(run) for _ in range(4 * TURNS))
        with mpmath.workdps(40):
            wanted = chain_after(q, p, mpmath.mpf(DT) * BILLION, free)
            size = max(map(abs, wanted))
            off = float(max(abs(mpmath.mpf(float(a)) - b) for a, b in zip(out.final.q, wanted)) / size)
            centre = float(mpmath.fsum(mpmath.mpf(float(x)) for x in out.final.q) / mpmath.fsum(wanted) - 1)
        loop = tp.compile(system, DT, propagator="loop", sizes={"n": 64})

        def stepped(loop: Any = loop) -> Any:
            return loop.evolve(q=q, p=p, steps=20_000, progress=False, frames=2)

        step = min(spent(stepped) for _ in range(TURNS)) / 20_000
        print(
            f"64 springs {name}, 10**9 steps: built in {min(built):.2f} s, applied in {1e3 * applied:.1f} ms; "
            f"the loop would take {step * BILLION:,.0f} s"
        )
        print(f"  error {off:.1e} of the largest amplitude; centre of mass {abs(centre):.1e}")


def oscillator() -> None:
    @tp.hamiltonian
    def one(q, p):
        return p**2 / 2 + q**2 / 2

    ends = {}
    for way in ("exact", "method"):
        sim = tp.compile(one, DT, propagator=way)
        sim.evolve(q=1.0, p=0.0, steps=1, progress=False)
        forget()
        began = time.thread_time()
        ends[way] = sim.evolve(q=1.0, p=0.0, steps=1e9, progress=False, frames=2).final
        print(
            f"oscillator, omega = 1, dt = {DT}, 10**9 steps, {way}: {1e3 * (time.thread_time() - began):.1f} ms"
        )
    with mpmath.workdps(40):
        h = mpmath.mpf(DT)
        whole = BILLION * (2 * mpmath.asin(h / 2) - h)
        flat = mpmath.sqrt(1 - h * h / 4)  # leapfrog draws the ellipse q**2 (1 - h**2/4) + p**2
    found = math.atan2(-ends["method"].p, float(flat) * ends["method"].q) - math.atan2(
        -ends["exact"].p, ends["exact"].q
    )
    turns = round((float(whole) - found) / (2 * math.pi))
    print(
        f"  phase of method minus exact: {found + 2 * math.pi * turns:.5f} rad ({float(whole):.5f} by mpmath)"
    )


def wave_state(shape: tuple[int, int], t: Any, dt: Any) -> tuple[Any, Any]:
    """Some plane waves at a time, their phases with 40 digits; field and momentum. With a dt, as leapfrog has them."""
    h, w = shape
    u, v = np.zeros(shape), np.zeros(shape)
    for down, right, amplitude in (
        (0, 1, 1.0),
        (3, 5, 0.5),
        (100, 211, 0.25),
        (512, 512, 0.125),
        (511, 17, 0.25),
    ):
        square = 4 * (mpmath.sin(mpmath.pi * down / h) ** 2 + mpmath.sin(mpmath.pi * right / w) ** 2)
        omega = mpmath.sqrt(square)
        speed = omega
        if dt is not None:  # sin(omega' dt/2) = omega dt/2, and a momentum is the difference over two steps
            omega = 2 * mpmath.asin(omega * dt / 2) / dt
            speed = mpmath.sin(omega * dt) / dt
        phase = float(mpmath.fmod(omega * t, 2 * mpmath.pi))
        turns = (down * np.arange(h)[:, None] % h) / h + (right * np.arange(w)[None, :] % w) / w
        x = 2 * np.pi * (turns % 1.0) - phase
        u += amplitude * np.cos(x)
        v += amplitude * float(speed) * np.sin(x)
    return u, v


def waves() -> None:
    shape, dt = (SHEET, SHEET), 0.1
    loop = tp.compile(wave, dt, propagator="loop", sizes={"h": SHEET, "w": SHEET})
    found, states, off = {}, {}, {}
    for way in ("exact", "method"):
        with mpmath.workdps(40):
            h = mpmath.mpf(dt)
            u, v = wave_state(shape, mpmath.mpf(0), None if way == "exact" else h)
            wanted = wave_state(shape, h * MILLION, None if way == "exact" else h)[0]
        forget()
        sim = tp.compile(wave, dt, propagator=way, sizes={"h": SHEET, "w": SHEET})
        out = sim.evolve(u=u, v=v, steps=MILLION, progress=False, frames=2)
        off[way] = float(np.abs(out.final.u - wanted).max() / np.abs(u).max())
        found[way], states[way] = next(iter(propagator._propagators.values())), {"u": u[None], "v": v[None]}
    loop.evolve(u=u, v=v, steps=2, progress=False, threads=1, frames=2)
    best: dict[tuple[str, str], float] = {}
    step = float("inf")

    def least(key: tuple[str, str], f: Callable[[], Any]) -> None:
        best[key] = min(best.get(key, float("inf")), spent(f))

    for _ in range(TURNS):
        for way, p in found.items():
            by, change = p.prepared(MILLION)
            least((way, "applied"), partial(by.apply, change, states[way]))
            least((way, "phases"), partial(by.prepared, (MILLION,)))
            least((way, "frequencies"), partial(type(by), p.question))
        few, many = (
            spent(partial(loop.evolve, u=u, v=v, steps=n, progress=False, threads=1)) for n in (8, 72)
        )
        step = min(step, (many - few) / 64)
    whole = step * MILLION
    print(
        f"waves on {SHEET:,} x {SHEET:,}, 10**6 steps: the loop takes {1e3 * step:.2f} ms a step, {whole:,.0f} s"
    )
    for way in found:
        t = 0.0
        for what in ("applied", "phases", "frequencies"):
            t += best[way, what]
            told = what if what == "applied" else f"with its {what} too"
            print(f"  {way}, {told}: {1e3 * t:.0f} ms, {whole / t:,.0f} times faster")
        print(f"  {way}: error {off[way]:.1e} of the largest amplitude")


@tp.hamiltonian
def alone(q: tp.Vec["n"], p: tp.Vec["n"], k: float = 1.0):
    return p @ p / 2 + k * (q @ q) / 2


@tp.hamiltonian
def coupled(q: tp.Vec["n"], p: tp.Vec["n"], k: float = 1.0):
    return p @ p / 2 + k * (tp.diff(q) @ tp.diff(q)) / 2


def small() -> None:
    """The cost model of the default: a run of one member, with parameters that are new to it."""
    count, phases = itertools.count(), np.random.default_rng(0).uniform(0.0, 1e6, 1 << 16)
    best = min(spent(partial(circle, DD(phases))) for _ in range(TURNS))
    print(f"phases: {1e9 * best / len(phases):.0f} ns each")
    for name, system, n in (
        *((f"{n} alone", alone, n) for n in (1, 3, 6, 8)),
        *((f"{n} coupled", coupled, n) for n in (2, 3)),
    ):
        start = dict(q=np.linspace(0.1, 1.0, n), p=np.zeros(n), progress=False)
        sims = {way: tp.compile(system, DT, propagator=way, sizes={"n": n}) for way in ("loop", "exact")}
        told = []
        for what, run in (
            ("2 frames", dict(steps=500, frames=2)),
            ("500 frames", dict(steps=500, save_every=1)),
        ):
            took = {way: float("inf") for way in sims}
            for _ in range(5 * TURNS):
                for way, sim in sims.items():
                    k = 1.0 + next(count) / 997
                    took[way] = min(took[way], spent(lambda: sim.evolve(**start, **run, k=k)))  # noqa: B023
            told.append(
                f"{what} {1e3 * took['loop']:.2f} ms by the loop, {1e3 * took['exact']:.2f} ms by jumps"
            )
        print(f"{name}: {'; '.join(told)}")


def members() -> None:
    """An ensemble of oscillators, of one frequency and of many."""
    rng, many = np.random.default_rng(0), 100_000
    start = dict(q=rng.normal(size=(many, 1)), p=rng.normal(size=(many, 1)), progress=False, threads=1)
    for name, given in (("one k", {}), ("a k of each", {"k": rng.uniform(0.5, 2.0, many)})):
        for way in ("loop", "exact"):
            sim = tp.compile(alone, DT, propagator=way, sizes={"n": 1})
            sim.evolve(**start, **given, steps=1)
            run = partial(sim.evolve, **start, **given, steps=1000, frames=2)
            best = min(spent(run) for _ in range(TURNS))
            print(f"{many:,} oscillators, {name}, 1000 steps, {way}: {1e9 * best / many:.0f} ns a member")


ROWS = {"small": small, "members": members, "springs": springs, "oscillator": oscillator, "waves": waves}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", help=", ".join(ROWS))
    for row in parser.parse_args().rows or ROWS:
        ROWS[row]()
