"""How far does rounding alone take the energy?  A model, stated with its numbers, for every precision.

Errors of single roundings are taken as independent and of mean zero, so that they add up as a random walk. Two kinds
count: an update rounds the state itself, by up to half a unit in its last place; and a force, or the increment made of
it, is off by as much of its own, of which dt enters the state. Both are relative to the terms of H, where the state
changes at rates of about 1 per unit of time. What the method does to the energy is not in it, nor are biased roundings.
"""
from __future__ import annotations

import math

from tinyphysics.plan import Goal
from tinyphysics.report import Row
from tinyphysics.step import Block, Step
from tinyphysics.tpir.precision import PRECISIONS, ROUNDING

OF_PAIRS = 2.0**-104  # an operation on pairs of float64: rules/wide.py
RMS = 1 / math.sqrt(3)  # of an error that is anywhere between plus and minus 1


def roundings(precision: str) -> tuple[float, float] | None:
    """The largest relative errors of (a state that is updated, a force); None where a state is no float."""
    p = PRECISIONS[precision]
    if not p.state.is_float:
        return None
    own = ROUNDING[p.state]
    return own if p.low is None else own * ROUNDING[p.low], OF_PAIRS if p.wide else ROUNDING[p.forces]


def updates(step: Step) -> int:
    """How often a state is written in one step."""
    return sum(len(b.shears) if isinstance(b, Block) else 1 for b in step.body)


def per_root_step(step: Step, precision: str, dt: float | None) -> float | None:
    """The expected energy error over the square root of the number of steps, relative to the terms of H."""
    found = roundings(precision)
    if found is None:
        return None
    state, force = found
    return RMS * math.sqrt(updates(step)) * math.hypot(state, force * (1.0 if dt is None else abs(dt)))


def rounding_rows(step: Step, goal: Goal) -> list[Row]:
    walk, found = per_root_step(step, goal.precision, goal.dt), roundings(goal.precision)
    if walk is None or found is None:
        return []
    state, force = (round(math.log2(u)) for u in found)
    return [Row("rounding", f"{walk:.1e} sqrt(n)",
                f"expected relative error of energies after n steps, a random walk: {updates(step)} updates a step round "
                f"states to 2**{state}, forces to 2**{force} times dt")]  # fmt: skip
