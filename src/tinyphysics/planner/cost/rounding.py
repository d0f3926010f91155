"""What does explain() say of rounding before a state is known?  What is rounded to what, and why there is no number yet.

How far rounding takes an energy depends on the sizes and rates of a state: runtime/measure/rounding.py measures it, at the
state of a pilot or of the first run.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from tinyphysics.facts import Facts
from tinyphysics.plan import Goal
from tinyphysics.report import Row
from tinyphysics.step import DRAWS, NO_ENERGY, Step
from tinyphysics.system import System
from tinyphysics.tpir.precision.lattice import FORCE, UNIT
from tinyphysics.tpir.precision.precision import PRECISIONS, ROUNDING
from tinyphysics.tpir.precision.rewriter import Units

OF_PAIRS = 2.0**-104  # an operation on pairs of float64: rules/digits/double_double.py
NAME, NOT_ESTIMATED = "rounding", "not estimated"


def roundings(precision: str, units: Units = ()) -> tuple[float, float]:
    """The largest errors of (a state that is updated, a force), relative to themselves; on a lattice, of a state, a unit."""
    p = PRECISIONS[precision]
    if not p.state.is_float:
        return max((unit for name, unit in units if name != FORCE), default=UNIT), ROUNDING[p.forces]
    own = ROUNDING[p.state]
    return own if p.low is None else own * ROUNDING[p.low], OF_PAIRS if p.wide else ROUNDING[p.forces]


def never(system: System, goal: Goal, facts: Facts, traits: Collection[str]) -> str:
    """Why no state would tell: rounding does not add up to a random walk of an energy there; empty if it may."""
    if system.energy is None:
        return f"it is an error of energies, and `{system.name}` is given by its {system.kind}: none is known"
    if system.clock is not None:
        return "steps are of another time, and lengths of t are rounded too"
    if system.driven:
        return "H depends on t: what rounding adds to it does not stay as it is"
    if system.heat:
        return "heat moves energies by more than rounding"
    if system.friction:
        return "friction takes energy, and what rounding adds to it too"
    if DRAWS in traits:
        return "forces are drawn at random: energies move by more than rounding"
    if NO_ENERGY in traits:
        return "a step changes the energy on purpose, by more than rounding"
    if goal.project:
        return "every step is put back to its invariants, so that rounding does not add up"
    if goal.approximate is not None:
        return f"forces have errors of {goal.approximate:g}, beside which rounding is nothing"
    if "smooth" in facts and not facts["smooth"]:
        return f"H is not shown to be smooth, so that neighbours tell more than rounding: {facts['smooth'].because}"
    return ""


def rounding_rows(system: System, step: Step, goal: Goal, facts: Facts) -> list[Row]:
    if why := never(system, goal, facts, step.traits):
        return [Row(NAME, NOT_ESTIMATED, why)]
    state, force = (round(math.log2(u)) for u in roundings(goal.precision, goal.lattice))
    return [
        Row(
            NAME,
            NOT_ESTIMATED,
            "it depends on the sizes and rates of a state: run it first, or compile with pilot={...}; "
            f"{sum(f.updates() for f in step.body)} updates a step round states to 2**{state}, forces to 2**{force} times dt",
        )
    ]
