"""How does one get to the lowest place near a point?  L-BFGS on functions of many variables, many at once, with equal bits.

Each member goes its own way: it tries a point, accepts it or comes nearer, and stops where the force is small. The
energy never rises. Nothing moves further than `move` at once, and where the energy is not finite, the components in
trouble are shaken until it is. Sums are folded in halves and shaking is drawn by Philox, so that the result does not
depend on the machine, nor on who runs beside a member.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from tinyphysics.physics.draws import uniform

HISTORY = 8  # pairs that the curvature is remembered by
DECREASE = 1e-4  # of what the slope promises: Armijo 1966
LEVEL = 1e-12  # changes of the energy that may be its rounding: then the force decides
SHORTEN = 0.25
SHORTEST = 1e-14  # of `move`; a step that is shorter changes nothing
TINY, FLAT = 1e-6, 1e-4  # of `move`, and of the force before a step: then the history is of no use
CONVEX = 1e-12  # the cosine between a step and the change of the gradient from which on a pair is remembered

Evaluate = Callable[[Any, Any], tuple[Any, Any]]  # (members, their positions in a row) -> energies, gradients


# --- numbers of each member, in a row ----------------------------------------------------------------
def total(a: Any) -> Any:
    """Sums of rows, folded in halves: an order that no library decides."""
    if a.shape[1] == 0:
        return np.zeros(len(a))
    while a.shape[1] > 1:
        half = a.shape[1] // 2
        folded = a[:, :half] + a[:, half : 2 * half]
        a = np.concatenate([folded, a[:, 2 * half :]], axis=1)
    return a[:, 0]


def dot(a: Any, b: Any) -> Any:
    return total(a * b)


def largest(a: Any) -> Any:
    """Of all components, without their signs; a NaN is the largest."""
    return np.abs(a).max(axis=1, initial=0.0)


def pick(condition: Any, yes: Any, no: Any) -> Any:
    return np.where(condition[:, None], yes, no)


# --- the search ---------------------------------------------------------------------------------------
@dataclass
class LineSearch:
    """Members that are on their way, a row each: where they are, and where they try next (x + t*d)."""

    who: Any
    x: Any
    move: Any
    d: Any = None
    g: Any = None
    S: list[Any] = field(default_factory=list)  # steps and changes of the gradient, newest first
    Y: list[Any] = field(default_factory=list)
    r: list[Any] = field(default_factory=list)  # 1/(s.y), 0 where there is no such pair
    unit: Any = None  # (s.y)/(y.y) of the newest pair, 0 if there is none
    f: Any = None
    t: Any = None
    slope: Any = None
    begun: Any = None  # the energy has been finite
    ended: Any = None  # nothing is lower along the slope

    def __post_init__(self) -> None:
        if self.d is None:
            k, zeros = len(self.x), np.zeros_like(self.x)
            self.d, self.g = zeros, zeros
            self.S, self.Y = [zeros] * HISTORY, [zeros] * HISTORY
            self.r, self.unit = [np.zeros(k)] * HISTORY, np.zeros(k)
            self.f, self.t, self.slope = np.zeros(k), np.zeros(k), np.zeros(k)
            self.begun, self.ended = np.zeros(k, bool), np.zeros(k, bool)

    @property
    def trial(self) -> Any:
        return self.x + self.t[:, None] * self.d

    def some(self, keep: Any) -> LineSearch:
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        return LineSearch(
            **{n: [a[keep] for a in v] if isinstance(v, list) else v[keep] for n, v in parts.items()}
        )

    def descent(self) -> Any:
        """Minus the inverse Hessian, as the pairs know it, times the gradient: the two loops of Nocedal 1980."""
        d, weights = -self.g, []
        for s, y, r in zip(self.S, self.Y, self.r):
            weights.append(r * dot(s, d))
            d = d - weights[-1][:, None] * y
        d = self.unit[:, None] * d
        for s, y, r, w in reversed(list(zip(self.S, self.Y, self.r, weights))):
            d = d + (w - r * dot(y, d))[:, None] * s
        return d

    def step(self, f: Any, g: Any, attempt: int) -> None:
        """What the energy and the gradient at the trial points lead to."""
        finite = np.isfinite(f) & np.isfinite(g).all(axis=1)
        # what is promised may be below rounding
        lower = (f <= self.f + DECREASE * self.t * self.slope) & (f < self.f)
        level = (f <= self.f + LEVEL * np.abs(self.f)) & (largest(g) < largest(self.g))
        accept = finite & (~self.begun | lower | level)
        shake, old = ~self.begun & ~finite, largest(self.g)
        length = self.t * largest(self.d)
        convex = self.remember(accept & self.begun, g)
        self.x = pick(accept | shake, self.trial, self.x)
        self.g, self.f = pick(accept, g, self.g), np.where(accept, f, self.f)
        # what was learnt of a steep place says nothing about a flat one
        astray = (largest(self.g) < FLAT * old) | ~convex & (length < TINY * self.move)
        stuck = self.begun & ~accept & (length < SHORTEST * self.move)
        forget = (stuck | accept & self.begun & astray) & (self.unit > 0)
        self.ended = stuck & ~forget  # already down the slope
        self.forget(forget)
        again = self.begun & ~accept & ~forget  # the same direction, not so far
        self.aim(again)
        if shake.any():
            self.d, self.t = pick(shake, self.anywhere(g, attempt), self.d), np.where(shake, 1.0, self.t)
        self.begun = self.begun | finite

    def remember(self, accept: Any, g: Any) -> Any:
        """A pair of the history, where the energy is convex along the step that is accepted."""
        s, y = self.t[:, None] * self.d, g - self.g
        sy, yy = dot(s, y), dot(y, y)
        convex = accept & (sy > CONVEX * np.sqrt(yy) * np.sqrt(dot(s, s)))
        self.S = [pick(convex, new, one) for new, one in zip([s, *self.S], self.S)]
        self.Y = [pick(convex, new, one) for new, one in zip([y, *self.Y], self.Y)]
        self.r = [np.where(convex, new, one) for new, one in zip([1.0 / sy, *self.r], self.r)]
        self.unit = np.where(convex, sy / yy, self.unit)
        return convex

    def forget(self, who: Any) -> None:
        self.r = [np.where(who, 0.0, r) for r in self.r]
        self.unit = np.where(who, 0.0, self.unit)

    def aim(self, again: Any) -> None:
        """The next direction and how far along it."""
        newton = self.descent()
        downhill = dot(self.g, newton)
        good = (downhill < 0) & (self.unit > 0)
        slope = np.where(good, downhill, -dot(self.g, self.g))
        d = pick(good, newton, -self.g)
        furthest = self.move / np.maximum(largest(d), np.finfo(float).tiny)
        t = np.where(good, np.minimum(1.0, furthest), furthest)
        self.t = np.where(again, SHORTEN * self.t, t)
        self.d, self.slope = pick(again, self.d, d), np.where(again, self.slope, slope)

    def anywhere(self, g: Any, attempt: int) -> Any:
        """A place near for the components without a force; for all, if each has one."""
        bad = ~np.isfinite(g)
        bad |= ~bad.any(axis=1)[:, None]
        # a member's own, whoever runs beside it
        noise = 2.0 * uniform(g.shape[1], seed=0, step=attempt)[:, 0] - 1.0
        return np.where(bad, self.move[:, None] * noise, 0.0)


def search(x: Any, move: Any, evaluate: Evaluate, steps: int, force: float) -> tuple[Any, Any, Any, Any]:
    """(positions, energies, largest forces, evaluations) of each member where it arrived."""
    n = len(x)
    found, energy, left, count = np.array(x), np.full(n, np.nan), np.full(n, np.inf), np.zeros(n, int)
    going = LineSearch(np.arange(n), found.copy(), move)
    with np.errstate(all="ignore"):
        for attempt in range(steps):
            if not len(going.who):
                break
            going.step(*evaluate(going.who, going.trial), attempt)
            who, well = going.who, going.begun
            count[who] += 1
            found[who] = going.x
            energy[who[well]], left[who[well]] = going.f[well], largest(going.g)[well]
            on = ~going.ended & (left[who] > force)
            if not on.all():
                going = going.some(on)
    return found, energy, left, count
