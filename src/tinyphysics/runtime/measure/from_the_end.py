"""How are gradients known from the end of a run alone?  On a lattice its steps are taken back, bit by bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import here
from tinyphysics.errors import InputError, PlanError
from tinyphysics.flows.adjoint import irreversible
from tinyphysics.given import whole
from tinyphysics.runtime.measure.differentiate import prepared
from tinyphysics.runtime.measure.past import Backward, Looks, take_back
from tinyphysics.runtime.stages.resolve import Request
from tinyphysics.runtime.stages.setup import Setup


def taken_back(
    setup: Setup, end: Mapping[str, Any], steps: int, cotangents: Mapping[str, Any]
) -> tuple[Any, ...]:
    """The states so many steps earlier, then their cotangents, each in the order of the system.

    The state at the end has to be one of the lattice, as the run gave it.
    """
    steps = whole("steps", steps, 1)
    if setup.goal.precision != "lattice":
        raise PlanError(
            "a run is taken back from its end alone on a lattice only: elsewhere its past is lost by rounding",
            fix='Compile it with precision="lattice".',
        )
    step = setup.built.step
    if (found := irreversible(step)) is not None:
        raise PlanError(
            f"a {type(found).__name__} of `{step.name}` has no inverse", fix="Choose another method."
        )
    course, _, _ = prepared(setup, Request(given=dict(end), steps=steps), [], "evolve_adjoint")
    if course.run.given.is_ensemble:
        raise PlanError("evolve_adjoint is that of one run", fix="Call it for each member.")
    m = course.begin()
    looks = Looks(course, set())
    looks.seen[steps] = course.first()
    shapes = {s.name: s.var.shape for s in setup.system.states}
    bars: dict[str, Any] = {}
    for name, bar in cotangents.items():
        a = np.asarray(bar, float)
        if a.shape != shapes[name]:
            raise InputError(
                f"the cotangent of `{name}` has shape {a.shape}",
                fix=f"It has the shape of `{name}`: {shapes[name]}.",
            )
        bars[name] = a[None]
    back = Backward(course, True, looks)
    back.turn(course.kept(m), {steps: bars})
    take_back(back, 0, steps)
    found_there = {name: here(v) for name, v in back.pull.end().items()}
    exponent = int(here(back.pull.exponent)[0])
    first = course.shown({n: v for n, v in found_there.items() if n in course.words})
    pulled = [np.ldexp(np.asarray(found_there[f"{n}.bar"], float)[0], exponent) for n in shapes]
    return (*(first[n][0] for n in shapes), *pulled)
