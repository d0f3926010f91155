"""The step of a method for a system with walls or events: rounds that go from one to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from tinyphysics.flows.rounds import Rounds, clear_of
from tinyphysics.ir import UOp
from tinyphysics.report import Row
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.step import Step
from tinyphysics.synth.methods import saltation
from tinyphysics.synth.methods.event_rounds import LAST, Round
from tinyphysics.synth.methods.meetings import Meetings
from tinyphysics.system import Parameter, State


def cut_step(step: Step, program: Mapping[str, UOp], m: Meetings, precision: str) -> Step:
    """The step as rounds; `program` is its map from whole step to whole step."""
    system = m.system
    r = Round(m, program, precision)
    values = r.assignments()
    taken = None
    if system.energy is not None:
        (energy,) = unroll([system.energy])[0]
        before, after = m.at([energy], r.there)[0], m.at([energy], r.jumped[0])[0]
        taken = (r.conditions["going"] & r.conditions["jump"]).where(before - after, 0.0)
    told = Row("walls and events", how_found(r), "")
    along = None if r.solves else partial(saltation.along, r)
    back = None if r.solves else partial(saltation.back, r)
    flow = Rounds(values, taken, along, back, (told,), clear=r.clear if r.searches and not r.solves else None)
    states = tuple(State(str(v.arg), v, "auxiliary") for v in (r.search, r.fired, r.rests))
    return replace(
        step,
        states=(*step.states, *states),
        parameters=(*step.parameters, Parameter(str(LAST.arg), LAST)),
        claims=(),
        init=(),
        body=(flow,),
        final=(),
    )


def how_found(r: Round) -> str:
    if r.flies:
        return "certain: flight is exact, and the first root of each guard is known in closed form"
    return "sampled: signs are compared at the ends of steps, and of walls where they are nearest in between"


def clear_step(step: Step) -> Step:
    """The steps in which rounds would find nothing, as a step of their own; one that does nothing where there are none."""
    (flow,) = step.body
    return replace(step, name=f"{step.name}_clear", body=(clear_of(flow),))
