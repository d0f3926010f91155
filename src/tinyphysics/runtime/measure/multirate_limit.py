"""How long may a step of fast and slow parts be?  Up to where its linearised matrix makes larger what the motion does not.

No number of a table says it: it depends on the curvatures of all levels, and on how many fast kicks there are to a slow one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinyphysics.errors import TinyPhysicsError
from tinyphysics.ir import UOp
from tinyphysics.planner.choice.multirate_resonance import grows
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.planner.methods.families.multirate import weights_of
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.real import simplify
from tinyphysics.runtime.measure.multirate import Linear, symmetric
from tinyphysics.runtime.measure.place import Place
from tinyphysics.runtime.state.run import Run

GRID = 64  # steps up to the run's own, among which the first that grows is looked for
HALVINGS = 20


def with_limit(place: Place, r: Run, method: str) -> Place:
    """The place with the limit of dt times its fastest frequency; none where the step of the run is bounded."""
    about = linear_at(place, r.system.seen.levels)
    if about is None or not about.is_finite:
        return replace(place, limit=math.inf)
    h = longest_step(about, r.inner, weights_of(BY_NAME[method]), abs(r.dt))
    return replace(place, limit=h * place.omega if math.isfinite(h) else math.inf)


def linear_at(place: Place, levels: Sequence[UOp]) -> Linear | None:
    """The energy about a state, level by level; None where its second derivatives are too many to be written out."""
    if not place.subject.is_small:
        return None
    q, p = list(place.system.q), list(place.system.p)
    try:
        bends = [gradient(simplify(unroll([V])[0])[0], q) for V in levels]
        with np.errstate(all="ignore"):
            mobility = place.matrix(place.subject.slopes[1], p)
            return Linear(symmetric(mobility), tuple(symmetric(place.matrix(b, q)) for b in bends))
    except (TinyPhysicsError, ArithmeticError):
        return None


def longest_step(about: Linear, inner: Sequence[int], weights: Sequence[float], dt: float) -> float:
    """The step up to which none grows, from 0 on; infinite where this one is bounded, also beyond a resonance."""

    def long(h: float) -> bool:
        return grows(about.radius(inner, h, weights), math.exp(min(about.escape * h, 700.0)))

    if not long(dt):
        return math.inf
    bad = next(k for k in range(1, GRID + 1) if long(dt * k / GRID)) * dt / GRID
    good = bad - dt / GRID
    for _ in range(HALVINGS):
        middle = (good + bad) / 2
        good, bad = (good, middle) if long(middle) else (middle, bad)
    return good
