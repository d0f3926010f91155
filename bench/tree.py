"""What does a force of 1/r cost through a tree, and what directly?  Thread CPU time, a body and step, one core.

    python bench/tree.py 4096 65536
    python bench/tree.py 1000000 --budgets 1e-3 --no-direct
    python bench/tree.py 65536 1000000 --backend cuda --steps 50     by the clock on the wall

Runs of one step and of a few take turns; the smallest time of each counts, and their difference is the cost of a step.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import tinyphysics as tp
from tinyphysics.physics.particles import gravity, plummer

STEPS, DT, SOFTENING = 3, 0.01, 0.01


def seconds(sim: tp.Simulation, start: dict, steps: int, clock: Callable[[], float]) -> float:
    began = clock()
    sim.evolve(**start, softening=SOFTENING, steps=steps, frames=2, threads=1)
    return clock() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bodies", nargs="*", type=int, default=[4096])
    parser.add_argument("--budgets", nargs="*", type=float, default=[1e-2, 1e-3, 1e-4])
    parser.add_argument("--no-direct", action="store_true")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--backend", default="llvm")
    parser.add_argument("--steps", type=int, default=STEPS)
    args = parser.parse_args()
    how, clock = (
        dict(dt=DT, backend=args.backend),
        time.perf_counter if args.backend == "cuda" else time.thread_time,
    )
    for n in args.bodies:
        start = plummer(n, seed=1)
        sims = {f"approximate={x:g}": tp.compile(gravity, approximate=x, **how) for x in args.budgets}
        if not args.no_direct:
            sims["direct"] = tp.compile(gravity, **how)
        best = {(name, steps): float("inf") for name in sims for steps in (1, 1 + args.steps)}
        for _ in range(args.turns):
            for name, steps in best:
                best[name, steps] = min(best[name, steps], seconds(sims[name], start, steps, clock))
        for name in sims:
            step = (best[name, 1 + args.steps] - best[name, 1]) / args.steps
            print(f"{n:>9,} bodies  {name:20} {1e9 * step / n:10,.0f} ns")


if __name__ == "__main__":
    main()
