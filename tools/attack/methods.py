"""How is a program compiled?  A random method that may apply to its kind, a step, a precision, a backend."""

from __future__ import annotations

import random
from typing import Any

SPLITTINGS = (
    "symplectic_euler leapfrog leapfrog_kdk leapfrog_dkd yoshida4 suzuki4 mclachlan4 blanes_moan4 "
    "blanes_moan_nystrom4 nystrom4 yoshida6 kahan_li6 blanes_moan6 nystrom6 kahan_li8 nystrom8 "
    "chin4a chin4b chin4 takahashi_imada4 force_gradient6"
).split()
SOLVED = (
    "implicit_midpoint gauss4 gauss6 stormer_verlet_implicit stormer_verlet_implicit4 kick_midpoint "
    "kick_midpoint4 extended_phase_space extended_phase_space4"
).split()
PARTS = "strang strang4 strang6".split()
CONSERVING = "avf gonzalez itoh_abe".split()
SLOPES = "euler midpoint rk4".split()
ADAPTIVE = "dop853 radau taylor".split()
VARIATIONAL = "variational_midpoint variational_trapezoidal galerkin4 galerkin6".split()
ORBITS = "wisdom_holman wisdom_holman_c3 saba2 saba3 saba4 aba84 aba864 aba104 aba1064".split()
TURNS = (
    "interaction interaction4 interaction6 interaction_saba3 interaction_aba84 interaction_mollified "
    "interaction_mollified4"
).split()
MAGNUS = "magnus4 magnus6".split()
CHOSEN = ["auto", "auto", "symplectic"]

# the groups of methods that a kind is tried with, and how often
TABLE: dict[str, tuple[tuple[list[str], float], ...]] = {
    "separable": (
        (CHOSEN, 3),
        (SPLITTINGS, 6),
        (SOLVED, 2),
        (CONSERVING, 1),
        (SLOPES, 0.5),
        (TURNS, 1),
        (PARTS, 0.5),
    ),
    "timed": ((CHOSEN, 3), (SPLITTINGS, 6), (SOLVED, 2), (SLOPES, 1), (ADAPTIVE, 0.3)),
    "mixed": ((CHOSEN, 3), (PARTS, 3), (SOLVED, 5), (CONSERVING, 1), (SLOPES, 0.5), (ADAPTIVE, 0.2)),
    "quadratic": ((CHOSEN, 4), (SPLITTINGS, 3), (MAGNUS, 3), (SOLVED, 2), (TURNS, 1), (PARTS, 1)),
    "lagrangian": ((CHOSEN, 3), (VARIATIONAL, 4), (SOLVED, 2), (SPLITTINGS, 1)),
    "forces": ((CHOSEN, 3), (SPLITTINGS, 5), (SLOPES, 1)),
    "ode": ((CHOSEN[:1], 1), (SLOPES, 4), (ADAPTIVE, 2)),
    "map": ((CHOSEN[:1], 1),),
    "array map": ((CHOSEN[:1], 1),),
    "sum": ((CHOSEN, 4), (SPLITTINGS, 5), (SOLVED, 1)),
    "operation": ((CHOSEN, 3), (SPLITTINGS, 3), (SOLVED, 2)),
    "several": ((CHOSEN, 3), (SPLITTINGS, 4), (SOLVED, 2)),
    "orbits": ((CHOSEN, 2), (ORBITS, 5), (SPLITTINGS, 1)),
    "chain": ((CHOSEN, 3), (SPLITTINGS, 4), (TURNS, 1), (SLOPES, 1)),
    "particles": ((CHOSEN, 3), (SPLITTINGS, 4), (SLOPES, 1)),
}
PRECISIONS = {
    "float64": 0.86,
    "float32": 0.03,
    "mixed": 0.03,
    "compensated": 0.03,
    "dd": 0.02,
    "lattice": 0.03,
}
LARGE = 24  # numbers; beyond, explicit methods only


def options_of(rng: random.Random, kind: str, size: int, paced: bool) -> dict[str, Any]:
    """The keywords of tp.compile; refusals are counted, so that a wrong combination costs little."""
    groups, shares = zip(*TABLE[kind])
    method = rng.choice(rng.choices(groups, shares)[0])
    if size > LARGE and method in (*SOLVED, *CONSERVING, *ADAPTIVE):
        method = "leapfrog"
    if paced:
        method = rng.choice(["auto", "respa", "respa4"])
    out: dict[str, Any] = {}
    if "map" not in kind:
        out["dt"] = rng.choice([0.3, 0.2, 0.1, 0.05]) * rng.choice([1, 1, 1, -1])
    if method != "auto":
        out["method"] = method
    elif kind not in ("map", "array map", "ode") and not paced and rng.random() < 0.2:
        out["order"] = rng.choice([1, 2, 4, 6, 8])
    precision = rng.choices(list(PRECISIONS), list(PRECISIONS.values()))[0]
    if precision != "float64":
        out["precision"] = precision
    if kind == "quadratic" and rng.random() < 0.5:
        out["propagator"] = rng.choice(["exact", "method", "loop"])
    if precision == "float64" and rng.random() < 0.1:
        out["scale"] = "auto"
    if paced and rng.random() < 0.5:
        out["inner"] = rng.choice([2, 3, 5])
    out["backend"] = rng.choices(["llvm", "numpy", "python", "c"], [0.86, 0.07, 0.05, 0.02])[0]
    return out
