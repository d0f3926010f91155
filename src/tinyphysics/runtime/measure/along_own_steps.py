"""How does a run that chose its own steps change along a direction?  The same steps of the system with the direction in it.

The derivative of a step of given length along a direction is a step of the equation x' = f(x), v' = f'(x) v: differentiating
a series, or the stages of a method, commutes with making them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from tinyphysics.errors import PlanError
from tinyphysics.ir import UOp
from tinyphysics.planner.methods.families.rates import rates_of
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.identities.real import simplify
from tinyphysics.runtime.measure.course import Course, Key
from tinyphysics.runtime.measure.own_steps import Row, StepProgram, Walk, method_of, spread
from tinyphysics.runtime.measure.plan_past import MEMORY
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.system import Parameter, State, System
from tinyphysics.tpir.program.lower import DIRECTION

Arrays = Mapping[str, Any]


def with_way(system: System, by: Sequence[str]) -> System:
    """The equation of the states and of a direction; that of a parameter is a parameter."""
    rates, _ = rates_of(system)
    ways = {s.var: UOp.var(DIRECTION.format(0, s.name), s.var.shape) for s in system.states}
    own = {
        p.var: UOp.var(DIRECTION.format(0, p.name), p.var.shape) for p in system.parameters if p.name in by
    }
    slopes = simplify(jvp(rates, [*ways, *own], [*ways.values(), *own.values()]))
    states = (*system.states, *(State(str(v.arg), v, "field") for v in ways.values()))
    parameters = (*system.parameters, *(Parameter(str(v.arg), v) for v in own.values()))
    update = tuple(u.expand(s.var.shape) for u, s in zip((*rates, *slopes), states))
    return System(f"{system.name}_along", "ode", states, parameters, system.time, update=update)


def with_direction(course: Course, first: Arrays) -> Course:
    """The same run with a direction beside its states: those of states first, then those of parameters."""
    setup, given = course.setup, course.run.given
    own = {s.name for s in setup.system.states}
    by = tuple(p.name for p in setup.system.parameters if DIRECTION.format(0, p.name) in first)
    key = "with a way", setup.goal, by
    if key not in setup._beside:
        setup._beside[key] = extended(setup, by)
    ways = {DIRECTION.format(0, name) for name in own}
    states = {**given.states, **{n: v for n, v in first.items() if n in ways}}
    params = {**given.params, **{n: v for n, v in first.items() if n not in ways}}
    return replace(
        course,
        setup=setup._beside[key],
        run=replace(course.run, given=replace(given, states=states, params=params)),
    )


def extended(setup: Setup, by: Sequence[str]) -> Setup:
    """A setup whose steps of given length are those of the system with a direction; its runs are those of the system."""
    out, compiled, system = copy(setup), copy(setup.compiled), with_way(setup.system, by)
    compiled.system, compiled._built = system, replace(setup.built, system=system)
    out._compiled, out._beside = compiled, {}
    return out


class Forward:
    """Numbers beside the steps of a run, on their way from its beginning."""

    def __init__(self, walk: Walk, along: Course, first: Arrays) -> None:
        self.walk = walk
        self.made = made = method_of(along)
        self.step = StepProgram(along, lambda: made.step, "forward step")
        curve = made.curve
        self.curve = None if curve is None else StepProgram(along, lambda: curve, "forward curve")
        self.now = dict(first)
        self.seen: dict[Key, dict[str, Any]] = {}

    def on(self, row: Row, later: Row) -> None:
        moved = (row.attempt != later.attempt) & (row.length > 0)
        length = np.where(moved, row.length, 0.0)
        if length.any():
            found = self.step(row, self.now, length)
            self.now = {name: found[name] for name in self.now}

    def look(self, n: int, row: Row) -> None:
        for key, at in self.walk.covering.items():
            here = at == n
            if not here.any():
                continue
            length = np.where(row.length > 0, row.length, 0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                part = np.where(
                    length > 0, row.left(self.walk.times[key]) / np.where(length > 0, length, 1.0), 0.0
                )
            part = np.where(here, part, 0.0)
            if self.curve is None:
                found = self.between(row, length, part)
            else:
                found = self.curve(row, self.now, length, part)
            old = self.seen.get(key, self.now)
            self.seen[key] = {
                name: np.where(spread(here, v), found[name], old[name]) for name, v in self.now.items()
            }

    def between(self, row: Row, length: Any, part: Any) -> dict[str, Any]:
        """After a part of a step, from the ends of shorter ones."""
        steps = self.made.steps_to(part)
        rest = 1.0 - sum(weight for weight, _ in steps)
        found = {name: spread(rest, v) * v for name, v in self.now.items()}
        for weight, end in steps:
            new = self.step(row, self.now, length * end)
            found = {name: v + spread(weight, v) * new[name] for name, v in found.items()}
        return found

    def go(self, keep: bool = False) -> None:
        """Along all rows; `keep` puts what is beside them into the rows."""
        rows = self.walk.rows
        assert rows is not None
        for n, row in enumerate(rows):
            if keep:
                row.state.update(self.now)
            self.look(n, row)
            if n + 1 < len(rows):
                self.on(row, rows[n + 1])


def tangents(course: Course, keys: Sequence[Key], first: Arrays) -> dict[Key, dict[str, Any]]:
    """The direction at some times."""
    walk = walked(course, keys)
    along = with_direction(course, first)
    ways = {DIRECTION.format(0, s.name) for s in course.setup.system.states}
    forward = Forward(walk, along, {n: v for n, v in first.items() if n in ways})
    forward.go()
    return {**forward.seen, 0: {n: first[n] for n in ways}}


def walked(course: Course, keys: Sequence[Key]) -> Walk:
    walk = Walk(course, {key: course.time(key) for key in keys if key != 0})
    if walk.times:
        walk.first(MEMORY)
    if walk.rows is None and walk.times:
        raise PlanError(
            f"the {walk.attempts:,} steps of this run take more than {MEMORY:,} bytes, which tangents need",
            fix="Shorten the run, or choose a larger tolerance.",
        )
    return walk


def put_beside(along: Course, first: Arrays, walk: Walk) -> None:
    """A direction into the rows of a run."""
    Forward(walk, along, first).go(keep=True)


def moved_starts(
    course: Course, keys: Sequence[Key], states: Arrays, params: Arrays
) -> dict[Key, dict[str, Any]]:
    """The states at some times of a run that begins elsewhere, by the steps of this one."""
    walk = walked(course, keys)
    given = replace(course.run.given, params={**course.run.given.params, **params})
    own = replace(course, run=replace(course.run, given=given))
    forward = Forward(walk, own, states)
    forward.go()
    return {**forward.seen, 0: dict(states)}
