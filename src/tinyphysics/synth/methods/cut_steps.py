"""The step of a method for a system with walls or events: rounds that go from one to the next."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from tinyphysics.flows.rounds import Rounds, clear_of
from tinyphysics.ir import UOp
from tinyphysics.report import Row
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.equality.ranges import range_of
from tinyphysics.step import Step
from tinyphysics.synth.methods import saltation
from tinyphysics.synth.methods.drift_rounds import KickedRound
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
    along, back = partial(saltation.along, r), partial(saltation.back, r)
    clear = r.clear if r.searches and not r.solves else None
    return in_rounds(step, r, Rounds(values, taken, along, back, partial(how_found, r), clear=clear))


def reflecting_step(step: Step, m: Meetings, flight: Meetings, precision: str) -> Step:
    """Kick, flight from wall to wall, kick; `flight` is that of no force."""
    k = KickedRound(m, flight, precision)
    return in_rounds(step, k.r, Rounds(k.values, k.taken(), k.along, k.back, in_drift))


def in_rounds(step: Step, r: Round, flow: Rounds) -> Step:
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


IN_DRIFT = (
    "in the drift: between two kicks it is free flight, and the first root of each wall is known in closed form; a bounce "
    "sees no force, so runs are of first order, and their derivatives are surrogates"
)


def in_drift() -> Row:
    return Row("walls and events", IN_DRIFT, "")


def how_found(r: Round) -> Row:
    """How sure is it that what is met is found?"""
    if r.flies:
        how = "certain: flight is exact, and the first root of each guard is known in closed form"
        if r.hops:
            degree = max(len(c) for c in r.m.flights or ()) - 1
            root = f"the first root of each guard, of degree {degree} in time, is approached from below"
            how = f"certain: flight is exact, and {root}"
        return Row("walls and events", how, "")
    looks = "signs are compared at the ends of steps, and of walls where they are nearest in between"
    most, of_defaults = bend(r.m)
    if math.isinf(most):
        return Row("walls and events", f"sampled: {looks}", "")
    at = ", at the defaults of its parameters" if of_defaults else ""
    if most == 0.0:
        return Row(
            "walls and events", f"bounded: {looks}; no wall is reached and left between two looks{at}", ""
        )
    depth = f"what may be missed goes no deeper than {most / 8:.3g} dt**2{at}"
    return Row("walls and events", f"bounded: {looks}; {depth}", "")


def bend(m: Meetings) -> tuple[float, bool]:
    """(the largest second derivative of a guard in time, whatever the state is; are parameters taken at their defaults?).

    Where g is not negative at both ends of a time h and its second derivative is b at most, g is not below -b h²/8 between.
    """
    found = [most_of(m, {})]
    if math.isinf(found[0]):
        own = {p.var: p.default for p in m.system.parameters if isinstance(p.default, float | int)}
        found.append(most_of(m, {e: (float(x), float(x)) for e, x in own.items()}))
    return found[-1], len(found) > 1


def most_of(m: Meetings, known: Mapping[UOp, tuple[float, float]]) -> float:
    most = 0.0
    for c, b in zip(m.owners, m.bends):
        low, high = range_of(b, known)
        most = max(most, high, *(() if c.kind == "wall" else (-low,)))
    return most


def clear_step(step: Step) -> Step:
    """The steps in which rounds would find nothing, as a step of their own; one that does nothing where there are none."""
    (flow,) = step.body
    return replace(step, name=f"{step.name}_clear", body=(clear_of(flow),))
