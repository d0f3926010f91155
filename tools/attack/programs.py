"""Which programs are tried?  A table of kinds with their shares; a seed decides everything."""

from __future__ import annotations

import random
from collections.abc import Callable

from attack.arrays import array_map, chain, particles
from attack.case import Case, rng_of
from attack.energies import Draft, lagrangian, mixed, orbits, quadratic, separable, several, timed
from attack.methods import options_of
from attack.others import forces, map_, ode, operations, summed

WRITERS: dict[str, tuple[Callable[[random.Random], Draft], float]] = {
    "separable": (separable, 0.22),
    "timed": (timed, 0.09),
    "mixed": (mixed, 0.16),
    "quadratic": (quadratic, 0.08),
    "lagrangian": (lagrangian, 0.08),
    "forces": (forces, 0.08),
    "ode": (ode, 0.04),
    "map": (map_, 0.04),
    "sum": (summed, 0.06),
    "operation": (operations, 0.04),
    "several": (several, 0.03),
    "orbits": (orbits, 0.03),
    "chain": (chain, 0.04),
    "particles": (particles, 0.03),
    "array map": (array_map, 0.02),
}


def case_of(seed: int) -> Case:
    """The case of a seed."""
    rng = rng_of(seed)
    kind = rng.choices(list(WRITERS), [share for _, share in WRITERS.values()])[0]
    draft = {"head": "", "tail": "", "params": {}, "groups": (), **WRITERS[kind][0](rng)}
    size = sum(n for _, _, n, _ in draft["layout"])  # type: ignore[attr-defined]
    clock = "timed" in draft["groups"]  # type: ignore[operator]
    return Case(
        seed=seed,
        kind=kind,
        options=options_of(rng, kind, size, "paced" in draft["groups"]),  # type: ignore[operator]
        steps=rng.randint(1, 4),
        t0=round(rng.uniform(-1, 1), 2) if clock and rng.random() < 0.7 else 0.0,
        **draft,  # type: ignore[arg-type]
    )
