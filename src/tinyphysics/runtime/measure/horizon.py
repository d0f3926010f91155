"""How far does a gradient mean anything?  Until rounding, or the error of the method, has grown to the size of the state.

The growth of the cotangents on their way back is the finite-time exponent of the run. In regular motion they grow by a power
of the time, and there is no horizon; what is no more than that, or has not grown at an even rate, is not called chaos.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import here
from tinyphysics.runtime.measure.act_past import Passed
from tinyphysics.runtime.measure.cotangent_words import rounding_of
from tinyphysics.runtime.measure.course import Course, Pullback
from tinyphysics.runtime.measure.lyapunov import POWERS, method_error
from tinyphysics.runtime.measure.own_steps import OwnPullback

EVEN = 3.0  # by which the growth of the later half may differ from that of the earlier one


@dataclass(frozen=True, eq=False)
class Horizon:
    """How far a gradient means something: cotangents grow by `exponent` per unit of time."""

    exponent: Any  # of a finite time; of an ensemble one for each member
    t: Any  # after which rounding has grown to the size of the state; inf where nothing grows exponentially
    error: Callable[[], float] = field(
        default=float, repr=False
    )  # relative, of the method, while errors grow by e
    why: str = "cotangents do not grow exponentially"  # there is none

    @cached_property
    def method(self) -> Any:
        """The time after which the error of the method has grown to the size of the state; two short runs measure it."""
        chaotic = np.isfinite(self.t)
        if not np.any(chaotic):
            return self.t
        delta = min(max(self.error(), 1e-300), 0.5)
        t = np.where(chaotic, -math.log(delta) / np.where(chaotic, self.exponent, 1.0), np.inf)
        return np.minimum(t, self.t) if np.ndim(self.t) else float(min(t, self.t))

    def __str__(self) -> str:
        t = np.min(self.t)
        if not np.isfinite(t):
            return self.why
        rate = float(np.max(np.where(np.isfinite(self.t), self.exponent, 0.0)))
        first = f"gradients beyond t = {t:.3g} are noise (cotangents grow by {rate:.3g} per unit of time)"
        if (lost := float(np.min(self.method))) < t:
            first += f"; by the error of the method they leave those of the equations at t = {lost:.3g}"
        return first

    __repr__ = __str__


def horizon(course: Course, pull: Pullback | OwnPullback | Passed | None, last: Mapping[str, Any]) -> Horizon:
    """From the growth of the cotangents; `last` are the states at the end, of which time may be one."""
    clock = course.setup.system.clock
    span: Any = abs(course.steps * course.run.dt)
    if clock is not None and last:
        span = np.abs(np.asarray(here(last[clock.time]), float).reshape(-1) - course.run.t0)
    if pull is None or not np.all(span):
        none = "no horizon: " + ("the exact flow is linear" if np.all(span) else "no step was done")
        return Horizon(0.0, math.inf, why=none)
    grown = pull.growth()
    rate = np.maximum(grown, 0.0) * math.log(2) / span
    chaotic = (grown * math.log(2) > POWERS) & is_even(pull, grown)
    delta = rounding_of(course.precision, course.setup.goal.lattice)
    with np.errstate(divide="ignore"):
        t = np.where(chaotic, -math.log(delta) / np.where(chaotic, rate, 1.0), np.inf)

    def error() -> float:
        if clock is not None:  # neighbours of such a run are not known
            return 0.0
        states = course.shown(course.first())
        given = {**states, **course.run.given.params}
        ensemble = course.run.given.is_ensemble
        one = {n: v if ensemble and len(v) > 1 else v[0] for n, v in given.items()}
        r, most = course.run, float(np.max(rate[chaotic]))
        dt, steps = (min(1.0 / most, span), 1) if r.adaptive else (r.dt, course.steps)
        return method_error(course.setup, one, dt, r.t0, most, steps, not ensemble)

    if course.run.given.is_ensemble:
        return Horizon(rate, t, error)
    return Horizon(float(rate[0]), float(t[0]), error)


def is_even(pull: Pullback | OwnPullback | Passed, grown: Any) -> Any:
    """Have cotangents grown in the first half of their way about as much as in the second?  Not where that is not known."""
    at = np.array([n for n, _ in pull.history], float)
    if len(at) < 3:
        return np.zeros(np.shape(grown), bool)
    half = pull.course.steps / 2
    k = min(int(np.searchsorted(-at, -half)), len(at) - 1)  # the first that is not later than the middle
    (later, before), (earlier, after) = pull.history[max(k - 1, 0)], pull.history[k]
    share = (later - half) / (later - earlier) if later > earlier else 0.0
    with np.errstate(invalid="ignore"):
        middle = before + share * (after - before)
        one, two = middle - pull.began, pull.sizes - middle
        return (one > 0) & (two > 0) & (one < EVEN * two) & (two < EVEN * one)
