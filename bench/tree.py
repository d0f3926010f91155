"""What does a force of 1/r cost through a tree, and what directly?  Thread CPU time, a body and step, one core.

    python bench/tree.py 4096 65536
    python bench/tree.py 1000000 --budgets 1e-3 --no-direct

Runs of one step and of a few take turns; the smallest time of each counts, and their difference is the cost of a step.
"""
from __future__ import annotations

import argparse
import time

import tinyphysics as tp
from tinyphysics.physics.particles import gravity, plummer

STEPS, DT, SOFTENING = 3, 0.01, 0.01


def seconds(sim: tp.Simulation, start: dict, steps: int) -> float:
    began = time.thread_time()
    sim.evolve(**start, softening=SOFTENING, steps=steps, save_every=None, threads=1)
    return time.thread_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bodies", nargs="*", type=int, default=[4096])
    parser.add_argument("--budgets", nargs="*", type=float, default=[1e-2, 1e-3, 1e-4])
    parser.add_argument("--no-direct", action="store_true")
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args()
    for n in args.bodies:
        start = plummer(n, seed=1)
        sims = {f"approximate={x:g}": tp.compile(gravity, dt=DT, approximate=x) for x in args.budgets}
        if not args.no_direct:
            sims["direct"] = tp.compile(gravity, dt=DT)
        best = {(name, steps): float("inf") for name in sims for steps in (1, 1 + STEPS)}
        for _ in range(args.turns):
            for name, steps in best:
                best[name, steps] = min(best[name, steps], seconds(sims[name], start, steps))
        for name in sims:
            step = (best[name, 1 + STEPS] - best[name, 1]) / STEPS
            print(f"{n:>9,} bodies  {name:20} {1e9 * step / n:10,.0f} ns")


if __name__ == "__main__":
    main()
