"""What do fast and slow paces save?  A chain of Lennard-Jones beads on stiff bonds, against one pace at equal drift.

    python bench/multirate.py                # 64 beads, 10**4 outer steps; some minutes
    python bench/multirate.py --steps 1000

The bond constant is 1e4, epsilon 0.1 and the temperature 0.6: as for carbon atoms of a chain at room temperature, in
kcal/mol. Drift is the largest |E - E0| at the times of the outer steps, for both over the same time; single-rate leapfrog
takes as few steps to an outer one as keep its drift below. Pair forces are counted in the programs that ran. Times are
thread CPU time of runs without observables, the smallest of a few, interleaved.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.bonding import chains, exclusions, partners
from tinyphysics.physics.molecular import harmonic_bonds, lennard_jones
from tinyphysics.tpir.kernels.loops import build_loops

BEADS, DT, EPSILON, TEMPERATURE = 64, 0.008, 0.1, 0.6
TURNS, TIMED = 5, 1000  # runs that are timed, and their outer steps


@tp.hamiltonian
def backbone(q: tp.Array["n", 3], p: tp.Array["n", 3], bonds: tp.Array["b", 2], k: float = 1e4):
    return (p**2).sum() / 2 + harmonic_bonds(q, bonds, k, 1.0).sum()


@tp.potential
def pairs(q: tp.Array["n", 3], bonded: tp.Array["n", "m"], epsilon: float = EPSILON):
    return tp.pair_sum(lennard_jones(tp.pair_distance2(q, cutoff=2.5, switch=2.0, exclude=bonded), epsilon))


def at_rest(n: int) -> dict[str, Any]:
    """A helix, and who is bonded to whom."""
    turn = 0.66 * np.arange(n)
    q = np.stack([1.5 * np.cos(turn), 1.5 * np.sin(turn), 0.35 * np.arange(n)], -1)
    bonds = chains(1, n)
    return dict(
        q=q / np.linalg.norm(q[1] - q[0]), bonds=bonds, bonded=partners(exclusions(bonds, apart=1), n)
    )


def warmed(plain: Any, n: int, steps: int = 10_000) -> dict[str, Any]:
    """The chain after it has been let go with momenta of the temperature."""
    given = at_rest(n)
    given["q"] = plain.minimise(**given, steps=1000, force=1e-2).q
    p = np.random.default_rng(3).normal(size=(n, 3)) * np.sqrt(TEMPERATURE)
    out = plain.evolve(**given, p=p - p.mean(0), dt=0.001, steps=steps, progress=False, frames=2).final
    return given | dict(q=out.q, p=out.p)


def pair_forces(sim: Any) -> int:
    """Sums over pairs in one step of a program."""
    step = build_loops(sim.tpir).sections["step"]
    return sum(step.nests[k].kind == "pairs" for turn in step.sequence() for k in range(turn.begin, turn.end))


def largest(sim: Any, start: dict[str, Any], dt: float, steps: int, every: int) -> float:
    """|E - E0| at its largest."""
    out = sim.evolve(
        **start, dt=dt, steps=steps, observe={"E": "energy"}, observe_every=every, progress=False, frames=2
    )
    return float(np.abs(out["E"] - out["E"][0]).max()) if not out.stops else np.inf


def shortest(
    plain: Any, start: dict[str, Any], steps: int, drift: float, most: int = 32
) -> tuple[int, float]:
    """(how few single-rate steps to an outer one drift no more, their drift)."""
    bad, good, found = 1, most, np.inf
    while good - bad > 1:
        n = (good + bad) // 2
        seen = largest(plain, start, DT / n, steps * n, n)
        bad, good, found = (bad, n, seen) if seen <= drift else (n, good, found)
    return good, found


def seconds(runs: dict[str, tuple[Any, float, int]], start: dict[str, Any]) -> dict[str, float]:
    """Of an outer step."""
    best = dict.fromkeys(runs, np.inf)
    for _ in range(TURNS):
        for name, (sim, dt, n) in runs.items():
            began = time.thread_time()
            sim.evolve(**start, dt=dt, steps=TIMED * n, threads=1, progress=False, frames=2)
            best[name] = min(best[name], (time.thread_time() - began) / TIMED)
    return best


def compared(n: int, steps: int) -> dict[str, float]:
    plain = tp.compile(backbone + pairs, dt=0.001)
    start = warmed(plain, n)
    paced = tp.compile(tp.fast(backbone) + tp.slow(pairs), dt=DT, pilot=start)
    drift = largest(paced, start, DT, steps, 1)
    fewest, other = shortest(plain, start, steps, drift)
    spent = seconds({"paced": (paced, DT, 1), "plain": (plain, DT / fewest, fewest)}, start)
    kinetic = 1.5 * TEMPERATURE * n
    return {
        "inner": paced.goal.inner[0],
        "plain steps": fewest,
        "paced drift": drift / kinetic,
        "plain drift": other / kinetic,
        "paced pair forces": pair_forces(paced) * steps,
        "plain pair forces": pair_forces(plain) * fewest * steps,
        "paced us": 1e6 * spent["paced"],
        "plain us": 1e6 * spent["plain"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10_000, help="outer steps")
    parser.add_argument("--beads", type=int, default=BEADS)
    given = parser.parse_args()
    found = compared(given.beads, given.steps)
    print(
        f"{given.beads} beads, bond constant 1e4, {given.steps:,} outer steps of {DT:g}; drift over 3/2 N T"
    )
    print(f"{'':24}{'fast and slow':>16}{'leapfrog':>16}{'ratio':>8}")
    rows = [
        ("steps to an outer one", found["inner"], found["plain steps"], ""),
        ("largest |E - E0|", found["paced drift"], found["plain drift"], ""),
        ("pair forces", found["paced pair forces"], found["plain pair forces"], "ratio"),
        ("us an outer step", found["paced us"], found["plain us"], "ratio"),
    ]
    for name, a, b, ratio in rows:
        print(f"{name:24}{a:>16.4g}{b:>16.4g}" + (f"{b / a:>8.2f}" if ratio else ""))


if __name__ == "__main__":
    main()
