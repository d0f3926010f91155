"""How far does rounding alone take the energy?  A model, stated with its numbers, for every precision.

Errors of single roundings are taken as independent and of mean zero, so that they add up as a random walk. Two kinds
count: an update rounds the state itself, by up to half a unit in its last place; and a force, or the increment made of
it, is off by as much of its own, of which dt enters the state. Both are relative to the terms of H, where the state
changes at rates of about 1 per unit of time. What the method does to the energy is not in it, nor are biased roundings.
"""

from __future__ import annotations

import math

from tinyphysics.ir import Ops, toposort
from tinyphysics.plan import Goal
from tinyphysics.report import Row
from tinyphysics.step import Block, Shear, Solve, Step, Turn
from tinyphysics.tpir.precision.lattice import FORCE, UNIT, Units
from tinyphysics.tpir.precision.precision import PRECISIONS, ROUNDING

OF_PAIRS = 2.0**-104  # an operation on pairs of float64: rules/digits/double_double.py
RMS = 1 / math.sqrt(3)  # of an error that is anywhere between plus and minus 1


def roundings(precision: str, units: Units = ()) -> tuple[float, float]:
    """The largest relative errors of (a state that is updated, a force).

    On a lattice that of a state is a unit, for states of about 1: what moves by even numbers is off by up to one.
    """
    p = PRECISIONS[precision]
    if not p.state.is_float:
        return max((unit for name, unit in units if name != FORCE), default=UNIT), ROUNDING[p.forces]
    own = ROUNDING[p.state]
    return own if p.low is None else own * ROUNDING[p.low], OF_PAIRS if p.wide else ROUNDING[p.forces]


def updates(step: Step) -> int:
    """How often a state is written in one step."""
    blocks = [b.moves if isinstance(b, Solve) else b for b in step.body]
    return sum(
        len(b.shears)
        if isinstance(b, Block)
        else len(b)
        if isinstance(b, tuple)
        else 3
        if isinstance(b, Turn)
        else 1
        for b in blocks
    )


def per_root_step(step: Step, precision: str, dt: float | None, units: Units = ()) -> float:
    """The expected energy error over the square root of the number of steps, relative to the terms of H."""
    state, force = roundings(precision, units)
    return RMS * math.sqrt(updates(step)) * math.hypot(state, force * (1.0 if dt is None else abs(dt)))


def by_lists(step: Step) -> bool:
    """Does it sum over neighbours?"""
    flows = [s.covector for b in step.body if isinstance(b, Block) for s in b.shears if isinstance(s, Shear)]
    return any(u.op is Ops.NEAR for u in toposort(flows))


def rounding_rows(step: Step, goal: Goal) -> list[Row]:
    if goal.precision == "lattice" and by_lists(
        step
    ):  # pair forces are rounded too, to a unit that the size decides
        return []
    walk, found = (
        per_root_step(step, goal.precision, goal.dt, goal.lattice),
        roundings(goal.precision, goal.lattice),
    )
    state, force = (round(math.log2(u)) for u in found)
    return [
        Row(
            "rounding",
            f"{walk:.1e} sqrt(n)",
            f"expected relative error of energies after n steps, a random walk: {updates(step)} updates a step round "
            f"states to 2**{state}, forces to 2**{force} times dt",
        )
    ]
