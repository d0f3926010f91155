"""What does a call cost beside its steps?  Runs that are so short that the way to the kernel and back can be seen.

    python bench/calls.py [rounds]

CPU time of the thread, the least of many rounds and their median, variants interleaved.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from taylor import arenstorf, pendulum

import tinyphysics as tp
from tinyphysics.context import QUICK
from tinyphysics.runtime.engines.adaptive import AdaptiveEngine
from tinyphysics.runtime.engines.backend import lane_engine
from tinyphysics.runtime.engines.loaders import LlvmLoader

PERIOD = 17.0652165601579625588917206249
ORBIT = dict(x=[0.994, 0.0], v=[0.0, -2.00158510637908252240537862224])
PLANET = dict(q=[1.0, 0.0], p=[0.0, 1.1])
MEMBERS, STEPS = 64, 100
WARM = 16  # calls in a row: of so many short runs one is looked at


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0) -> Any:
    return p @ p / 2 - mu / tp.norm(q)


def engine_call(
    sim: Any, start: dict[str, Any], params: dict[str, Any], until: float
) -> Callable[[], dict[str, float]]:
    """By the engine alone, as bench/problems.py runs it: what steps, and what of that is not the kernel."""
    inner = lane_engine(sim.tpir, LlvmLoader(), threads=1)
    engine = AdaptiveEngine(inner, list(start), None)
    given, own = ({name: np.asarray(v, float)[None] for name, v in x.items()} for x in (start, params))
    spent, launch = [0.0], inner.launch

    def timed(*args: Any) -> None:
        began = time.thread_time()
        launch(*args)
        spent[0] += time.thread_time() - began

    inner.launch = timed  # type: ignore[method-assign]

    def run() -> dict[str, float]:
        with QUICK(0):
            m = engine.start(given, own, 1, until, 0.0, 1)
            engine.advance(m, 1)
            spent[0], began = 0.0, time.thread_time()
            engine.reach(m)
            whole = time.thread_time() - began
        return {"the call that steps": whole, "without its kernel": whole - spent[0]}

    return run


def evolve_call(sim: Any, **given: Any) -> Callable[[], dict[str, float]]:
    def run() -> dict[str, float]:
        sim.evolve(progress=False, threads=1, **given, frames=2)  # what ran between is out of the caches
        began = time.thread_time()
        for _ in range(WARM):
            sim.evolve(progress=False, threads=1, **given, frames=2)
        return {"evolve": (time.thread_time() - began) / WARM}

    return run


def stepper_call(sim: Any, **given: Any) -> Callable[[], dict[str, float]]:
    s = sim.stepper(**given)

    def run() -> dict[str, float]:
        began = time.thread_time()
        for _ in range(100):
            s.step()
        stepped = time.thread_time()
        for _ in range(100):
            s.step()
            s.q  # noqa: B018
        looked = time.thread_time()
        return {"stepper: step()": (stepped - began) / 100, "and a look at q": (looked - stepped) / 100}

    return run


def main(rounds: int) -> None:
    orbit = tp.compile(arenstorf, tolerance=1e-12, backend="llvm")
    swing = tp.compile(pendulum, method="taylor", backend="llvm")
    steps = tp.compile(pendulum, dt=0.01, backend="llvm")
    planet = tp.compile(kepler, dt=0.01, backend="llvm")
    many = np.linspace(0.1, 1.0, MEMBERS)
    calls = {
        "Kepler, 10 steps": evolve_call(planet, **PLANET, steps=10),
        "Kepler, 10 steps, another mu": evolve_call(planet, **PLANET, mu=1.1, steps=10),
        "Kepler": stepper_call(planet, **PLANET),
        "Arenstorf, a period at 1e-12": engine_call(orbit, ORBIT, {"mu": 0.012277471}, PERIOD),
        "Arenstorf, a hundredth": engine_call(orbit, ORBIT, {"mu": 0.012277471}, PERIOD / 100),
        "Arenstorf, a period": evolve_call(orbit, **ORBIT, until=PERIOD),
        "Arenstorf, until 0.01": evolve_call(orbit, **ORBIT, until=0.01),
        "pendulum by its series, until 0.1": evolve_call(swing, q=1.0, p=0.0, until=0.1),
        f"{MEMBERS} pendulums, {STEPS} steps": evolve_call(steps, q=many, p=many, steps=STEPS),
        f"{MEMBERS} pendulums, 1 step": evolve_call(steps, q=many, p=many, steps=1),
    }
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for name, call in calls.items():
            for what, seconds in call().items():
                found.setdefault((name, what), []).append(1e6 * seconds)
    for (name, what), micros in found.items():
        print(f"{name:36} {what:28} {min(micros):10.1f} µs, median {median(micros):.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
