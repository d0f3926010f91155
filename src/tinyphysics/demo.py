"""What does `tp demo` say besides its pictures?  How fast a system runs, which demos there are, and what to type next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tinyphysics.device.host.cores import available
from tinyphysics.physics.zoo import ZOO, Demo
from tinyphysics.runtime.api.simulation import Simulation
from tinyphysics.trajectory import Trajectory
from tinyphysics.util import plural

FIRST = 1_000  # steps of the first try
MOST = 10**9  # steps of the last: where a loop was deleted, no number of them would take long
MEMBERS = 4_096  # of the ensemble
APART = 1e-6  # relative, from the first member to the last: none of them leaves the motion that is shown


def long_run(sim: Simulation, start: Mapping[str, Any], seconds: float) -> Trajectory:
    """A run that takes about so many seconds: tries get longer until one does."""
    steps = FIRST
    while True:
        out = sim.evolve(**start, steps=steps, save_every=steps, progress=False)
        took = max(out.metrics["seconds"]["run"], 1e-6)
        if took >= seconds / 2 or steps >= MOST or out.stops:
            return out
        steps = min(MOST, max(round(steps * min(seconds / took, 100.0)), 2 * steps))


def ensemble(demo: Demo) -> dict[str, Any]:
    """Many starts beside the one of the demo."""
    share = np.linspace(0.0, APART, MEMBERS)
    return {
        name: np.asarray(v, float)[None] * (1 + share.reshape(-1, *[1] * np.ndim(v)))
        for name, v in demo.start.items()
    }


def speed(sim: Simulation, demo: Demo, seconds: float) -> Iterator[str]:
    """Lines that say how fast one run and an ensemble are, measured now."""
    yield "how fast it runs, measured now"
    one = long_run(sim, demo.start, seconds / 2)
    steps, took = one.metrics["steps"], one.metrics["seconds"]["run"]
    yield row(
        "one run",
        f"{steps:,} steps in {took:.2g} s: {rate(steps / took)} a second, {each(took / steps)} a step",
    )
    many = long_run(sim, ensemble(demo), seconds / 2)
    steps, took = many.metrics["steps"] * MEMBERS, many.metrics["seconds"]["run"]
    cores = plural(available(), "core")
    yield row(
        f"{MEMBERS:,} runs", f"{steps:,} steps in {took:.2g} s: {rate(steps / took)} a second, on {cores}"
    )
    system = sim.system.seen
    if system.energy is not None and not system.books:
        first, last = (float(e) for e in np.asarray(one.energy)[[0, -1]])
        off = abs(last - first) / (abs(first) or 1.0)
        yield row("energy", f"off by {off:.1g} of itself after {one.metrics['steps']:,} steps")


def row(name: str, words: str) -> str:
    return f"  {name.ljust(12)}{words}"


def rate(steps: float) -> str:
    """A number of steps in words.

    >>> rate(2.53e6), rate(1.2e9), rate(40_000)
    ('2.53 million steps', '1.2 billion steps', '40,000 steps')
    """
    for size, word in ((1e9, "billion "), (1e6, "million ")):
        if steps >= size:
            if steps < 10 * size:
                return f"{steps / size:,.3g} {word}steps"
            return f"{steps / size:,.0f} {word}steps"
    return f"{steps:,.0f} steps"


def each(seconds: float) -> str:
    """
    >>> each(1.84e-8), each(3.2e-5)
    ('18 ns', '32 µs')
    """
    for size, word in ((1e-6, "ns"), (1e-3, "µs"), (1.0, "ms")):
        if seconds < size:
            return f"{seconds / size * 1e3:.2g} {word}"
    return f"{seconds:.2g} s"


def listing() -> Iterator[str]:
    """The demos, a line each."""
    width = max(map(len, ZOO))
    for name, demo in ZOO.items():
        yield f"  {name.ljust(width)}  {demo.about}"


def program(name: str) -> str:
    """The demo as a program that draws it."""
    return f"""\
import tinyphysics as tp
from tinyphysics.physics.zoo import ZOO

demo = ZOO["{name}"]
out = tp.compile(demo.system, demo.dt).evolve(**demo.start, steps=demo.steps, save_every=1)
out.plot().savefig("{name}.png")      # pip install "tinyphysics[plot]"
"""


def what_next(name: str) -> Iterator[str]:
    """Lines to type after a demo."""
    other = next(n for n in ["henon_heiles", "kepler"] if n != name)
    yield "what to type next"
    yield "  tp demo --list".ljust(28) + "the other demos"
    yield f"  tp demo {other}".ljust(28) + ZOO[other].about
    yield "  tp doctor".ljust(28) + "what this machine can run"
    yield "or, in Python:"
    yield from (f"    {line}".rstrip() for line in program(name).splitlines())
