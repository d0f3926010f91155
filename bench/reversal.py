"""Do a million steps on a lattice come back, in a thousand pieces?  And what does that cost, against float64?

    python bench/reversal.py                             # everything, a million steps there and back
    python bench/reversal.py liquid --steps 20000 --pieces 100

Forward in random pieces, each from what the one before has shown; back in other pieces by sim.rewind. The last column is
thread CPU time of a step of one member, over that of float64; runs take turns, the smallest time of each counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

import tinyphysics as tp
from tinyphysics.physics import starts
from tinyphysics.physics.molecular import lennard_jones
from tinyphysics.physics.zoo import henon_heiles, kepler

MEMBERS, STEPS, TURNS = 1024, 2000, 5
Case = tuple[
    Any, float, dict[str, Any], Mapping[str, Any], Mapping[str, Any]
]  # system, dt, options, state, parameters


@tp.hamiltonian
def liquid(q: tp.Array["n", 3], p: tp.Array["n", 3], box: float):
    r2 = tp.pair_distance2(q, box=box, cutoff=2.0, skin=0.3)
    return (p * p).sum() / 2 + tp.pair_sum(lennard_jones(r2))


def cases() -> dict[str, Case]:
    chaotic = dict(q=[0.0, 0.1], p=[0.5, 0.1])
    atoms, box = starts.lattice("fcc", 3, density=0.8)
    p = np.random.default_rng(3).normal(size=atoms.shape)
    start = dict(q=atoms, p=p - p.mean(0))
    orders = (1, 2, 4, 6, 8, 10)
    out: dict[str, Case] = {
        f"henon_heiles order {n}": (henon_heiles, 0.1, dict(order=n), chaotic, {}) for n in orders
    }
    out["kepler order 4"] = (kepler, 0.02, dict(order=4), dict(q=[1.0, 0.0], p=[0.0, 1.2]), {})
    return out | {"liquid, 108 atoms, lists": (liquid, 0.005, {}, start, dict(box=float(box[0])))}


def pieces(steps: int, count: int, seed: int) -> list[int]:
    cuts = np.sort(np.random.default_rng(seed).integers(0, steps + 1, count - 1))
    return [int(n) for n in np.diff([0, *cuts, steps])]


def there_and_back(
    sim: tp.Simulation, state: Mapping[str, Any], given: Mapping[str, Any], steps: int, count: int
) -> bool:
    """Is every bit what it was, and the way there the same in one piece?"""
    begin = sim.evolve(**state, **given, steps=0, progress=False)
    out = begin
    for n in pieces(steps, count, 1):
        now = {name: out.final[name] for name in state}
        out = sim.evolve(**now, **given, steps=n, progress=False, frames=2)
    whole = sim.evolve(**state, **given, steps=steps, progress=False, frames=2)
    if whole.stopped is not None or out.hash != whole.hash or whole.hash == begin.hash:
        return False
    for n in pieces(steps, count, 2):
        whole = sim.rewind(whole, n)
    return whole.hash == begin.hash


def cost(
    sims: Mapping[str, tp.Simulation], state: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, float]:
    """Seconds of a step of one member: small systems in an ensemble, which is what fills the lanes of a processor."""
    members = 1 if np.ndim(state["q"]) > 1 else MEMBERS
    many = (
        {name: np.broadcast_to(x, (members, *np.shape(x))) for name, x in state.items()}
        if members > 1
        else state
    )
    best = {(name, n): float("inf") for name in sims for n in (STEPS, 3 * STEPS)}
    for _ in range(TURNS):
        for name, n in best:
            began = time.thread_time()
            sims[name].evolve(**many, **given, steps=n, progress=False, threads=1, frames=2)
            best[name, n] = min(best[name, n], time.thread_time() - began)
    return {name: (best[name, 3 * STEPS] - best[name, STEPS]) / (2 * STEPS * members) for name in sims}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="beginnings of names; all if none is given")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--pieces", type=int, default=1000)
    args = parser.parse_args()
    for name, (system, dt, options, state, given) in cases().items():
        if args.names and not any(name.startswith(x) for x in args.names):
            continue
        sims = {p: tp.compile(system, dt=dt, precision=p, **options) for p in ("lattice", "float64")}
        began = time.perf_counter()
        good = there_and_back(sims["lattice"], state, given, args.steps, args.pieces)
        took = time.perf_counter() - began
        each = cost(sims, state, given)
        told = "every bit" if good else "LOST"
        print(
            f"{name:28} {args.steps:,} steps, {args.pieces:,} pieces: {told}, {took:.0f} s; "
            f"{1e9 * each['lattice']:.0f} ns a step, {each['lattice'] / each['float64']:.2f} of float64",
            flush=True,
        )
        assert good


if __name__ == "__main__":
    main()
