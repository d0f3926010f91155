"""Small systems of springs and constant forces, many members and many frames at once: after a time t, mode by mode.

A pair (q, p) that is coupled with no other moves by q' = w p + b, p' = -k q - f, and needs no more than one sine and cosine.
Two pairs that are coupled are turned into such pairs first, with w = 1. Members and frames are axes of arrays, and
everything is done element by element: a member's bits do not depend on the others, nor a frame's on other frames.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.device.linear.double_double import DD, expm1, hyperbola, where
from tinyphysics.device.linear.modes import LARGEST, PHASE
from tinyphysics.device.linear.phases import Words, circle, product, total, words

WRONG = 2.0**-92  # of the norm of a matrix, that its eigenvalues may be wrong by
RELATIVE = 2.0**-94  # error of the square of a frequency of a pair that is alone
TOGETHER = 1 << 13  # numbers that are computed at once, so that what is between stays in a cache

Two = tuple[Any, Any]  # high and low words


def turned(a: DD, b: DD) -> tuple[DD, DD, Any]:
    """(values (2, ...), vectors (2, 2, ...) as columns, what the values may be wrong by) of [[a0, b], [b, a1]].

    By one rotation (Jacobi 1846). What is wrong is bounded by what is left of the eigenvalue equations.
    """
    one = DD(np.ones_like(b.high))
    still = b.high == 0.0
    tau = (a[1] - a[0]) / where(still, one, b).scaled(2.0)
    t = one / (tau.abs() + (tau * tau + 1.0).sqrt())
    side = np.where(still, 0.0, np.where(tau.high < 0.0, -1.0, 1.0))
    t = DD(t.high * side, t.low * side)
    c = one / (t * t + 1.0).sqrt()
    s, tb = c * t, t * b
    values = a + DD(np.stack([-tb.high, tb.high]), np.stack([-tb.low, tb.low]))
    vectors = DD(
        *(np.stack([np.stack([x, y]), np.stack([-y, x])]) for x, y in ((c.high, s.high), (c.low, s.low)))
    )
    swapped = vectors[::-1]  # rows of the other pair
    left = (a[:, None] * vectors + b * swapped - vectors * values).high
    skew = np.abs((c * c + s * s - 1.0).high) + 2.0**-100
    whole = np.abs(a.high).max(axis=0) + np.abs(b.high)
    wrong = np.abs(left).sum(axis=(0, 1)) + 2.0 * skew * whole + whole * 2.0**-93
    return values, vectors, np.where(wrong <= WRONG * whole, wrong, np.inf)


@dataclass(frozen=True, eq=False)
class Away:
    """Modes that run away: x + (w/omega) y grows by a factor, x - (w/omega) y shrinks by it."""

    runs: Any  # which
    slope: Two  # w/omega
    inverse: Two
    grown: DD
    shrunk: DD
    backwards: Any  # in time

    def of(self, x: Words, y: Words) -> tuple[Two, Two]:
        up = product(words(*self.slope), y)
        parts = []
        for side, factor in ((1.0, self.grown), (-1.0, self.shrunk)):
            u = total(x[:2], (side * up[0], side * up[1]))
            other = total(x[:2], (-side * up[0], -side * up[1]))
            u = np.where(self.backwards, other[0], u[0]), np.where(self.backwards, other[1], u[1])
            z = product(words(*u), words(*two(factor.scaled(0.5))))
            parts.append((np.where(u[0] == 0.0, 0.0, z[0]), np.where(u[0] == 0.0, 0.0, z[1])))
        one, other = parts
        less = total(one, (-other[0], -other[1]))
        less = np.where(self.backwards, -less[0], less[0]), np.where(self.backwards, -less[1], less[1])
        return total(one, other), product(words(*self.inverse), words(*less))


@dataclass(frozen=True, eq=False)
class Change:
    """New x = xx x + xy y + x1, new y = yx x + xx y + y1, of modes that turn or fall; others run away."""

    xx: Two
    xy: Two
    yx: Two
    x1: Two | None
    y1: Two | None
    away: Away | None

    def of(self, x: Words, y: Words) -> tuple[Two, Two]:
        xx, xy, yx = (words(*part) for part in (self.xx, self.xy, self.yx))
        new_x, new_y = total(product(xx, x), product(xy, y)), total(product(yx, x), product(xx, y))
        if self.away is not None:
            runs = self.away.runs
            new_x, new_y = (
                (np.where(runs, a[0], b[0]), np.where(runs, a[1], b[1]))
                for a, b in zip(self.away.of(x, y), (new_x, new_y))
            )
        if self.x1 is not None and self.y1 is not None:
            new_x, new_y = total(new_x, self.x1), total(new_y, self.y1)
        return new_x, new_y

    @property
    def area(self) -> float:
        """By how much a mode changes areas, at most: 0 in exact arithmetic."""
        xx, xy, yx = (DD(*part) for part in (self.xx, self.xy, self.yx))
        off = (xx * xx - xy * yx - 1.0).high
        if self.away is not None:
            off = np.where(self.away.runs, (self.away.grown * self.away.shrunk - 1.0).high, off)
        return float(np.nanmax(np.abs(off), initial=0.0))


@dataclass(frozen=True, eq=False)
class FewModes:
    """Modes x' = w y + b, y' = -k x - f, (modes, members or 1) each: single pairs first, then both modes of coupled ones."""

    single: Any  # numbers of pairs that are alone
    coupled: Any  # (2, components): of those that are not
    back: tuple[DD, DD]  # from modes to positions and to momenta, (2, 2, components, members or 1)
    w: DD
    k: DD
    f: DD | None  # None: there are no constant forces, in any member
    b: DD | None
    zero: Any  # where k*w is exactly 0
    values: DD  # k*w
    wrong: Any  # of the values, at most
    good: Any  # (members or 1,): which of them are known well enough
    lost: Any  # and which have coefficients that are no numbers

    @property
    def size(self) -> int:
        return len(self.values)

    @property
    def width(self) -> int:
        """Members that have modes of their own; 1 if all have the same."""
        return len(self.good)

    @cached_property
    def rates(self) -> tuple[DD, DD, DD, DD]:
        """(omega, 1/omega, w/omega, k/omega), with omega**2 = |k*w|, and 1 where that is 0."""
        safe = where(self.zero | ~self.good, DD(np.ones(self.values.shape)), self.values.abs())
        omega = safe.sqrt()
        inverse = DD(1.0) / omega
        return omega, inverse, self.w * inverse, self.k * inverse

    def phase_error(self, t: Any) -> Any:
        """By how many radians a phase of a member may be wrong after times (frames,), at most: (frames, members or 1)."""
        return error_of_phases(self.values, self.zero, self.wrong, t)

    def taken(self, t: Any) -> Any:
        """Where phases are known well enough, (frames, members or 1)."""
        return (self.phase_error(t) <= PHASE) & self.good

    def changes(self, t: DD, m: slice = slice(None)) -> Change:
        """(modes, frames, members or 1)."""
        omega, inverse, by_w, by_k = (x[:, None, m] for x in self.rates)
        zero, turning = self.zero[:, None, m], self.values.high[:, None, m] > 0.0
        times = t[None, :, None]
        phase = omega * times
        moves = turning & ~zero & (np.abs(phase.high) <= LARGEST)
        if not moves.all():
            phase = where(moves, phase, DD(np.zeros(phase.shape)))
        s, c, less = circle(phase) if moves.any() else (phase, phase, phase)
        runs, away = ~turning & ~zero, None
        if runs.any():
            x = where(runs, omega * times, DD(np.zeros(phase.shape)))
            grown = expm1(x.abs()) + 1.0
            away = Away(runs, two(by_w), two(DD(1.0) / by_w), grown, DD(1.0) / grown, x.high < 0.0)
            if self.f is not None:
                sinh, _, other = hyperbola(x.abs())
                sinh = where(x.high < 0.0, -sinh, sinh)
                s, less = where(runs, sinh, s), where(runs, -other, less)
        xy, yx = s * by_w, -(s * by_k)
        some = zero.any()
        if some:
            c = where(zero, DD(np.ones((1, 1, 1))), c)
            xy, yx = (
                where(zero, self.w[:, None, m] * times, xy),
                where(zero, -(self.k[:, None, m] * times), yx),
            )
        if self.f is None or self.b is None:
            return Change(two(c), two(xy), two(yx), None, None, away)
        f, b = (x[:, None, m] if x.shape[1] > 1 else x[:, None] for x in (self.f, self.b))
        s, fall = s * inverse, less * inverse * inverse
        if some:
            s, fall = where(zero, times, s), where(zero, (times * times).scaled(0.5), fall)
        x1, y1 = s * b - self.w[:, None, m] * fall * f, -(s * f) - self.k[:, None, m] * fall * b
        return Change(two(c), two(xy), two(yx), two(x1), two(y1), away)

    def apply(self, q: Any, p: Any, t: DD) -> tuple[Any, Any]:
        """States (pairs, members) at the times: (frames, pairs, members) each, rounded once."""
        frames, members = len(t), q.shape[1]
        out = np.empty((2, frames, len(q), members))
        across = max(1, min(members, TOGETHER // len(q)))
        along = max(1, TOGETHER // (len(q) * across))
        own = self.width > 1
        for begin in range(0, frames, along):
            f = slice(begin, begin + along)
            change = None if own else self.changes(t[f])
            for first in range(0, members, across):
                m = slice(first, first + across)
                x, y = self.into(q[:, m], p[:, m], m if own else slice(None))
                new = (change or self.changes(t[f], m)).of(x, y)
                for whole, rows in zip(out, self.out(*new, m if own else slice(None))):
                    for pairs, part in rows:
                        whole[f, pairs, m] = part.transpose(1, 0, 2)
        return out[0], out[1]

    def told(self, t: DD) -> dict[str, Any]:
        """What is known of the jump of one member over one time."""
        with np.errstate(all="ignore"):
            area = self.changes(t).area
            lengths = (self.back[0] * self.back[1]).rounded().sum(axis=0) - 1.0
        return {
            "by": "modes",
            "modes": self.size,
            "zero_modes": int(self.zero.sum()),
            "phase_error": float(self.phase_error(t.high).max()),
            "area_error": area,
            "skew": float(np.abs(lengths).max(initial=0.0)),
        }

    def into(self, q: Any, p: Any, m: slice) -> tuple[Words, Words]:
        """Modes (modes, 1, members) of states (pairs, members)."""
        out = []
        for v, back in ((q, self.back[1]), (p, self.back[0])):  # the transposed is the inverse of the other
            high, low = [v[self.single]], [np.zeros((len(self.single), v.shape[1]))]
            if self.coupled.size:
                one, other = (DD(v[self.coupled[i]]) for i in (0, 1))
                for j in (0, 1):
                    z = back[0, j][:, m] * one + back[1, j][:, m] * other
                    high.append(z.high)
                    low.append(z.low)
            out.append(words(np.concatenate(high)[:, None], np.concatenate(low)[:, None]))
        return out[0], out[1]

    def out(self, x: Two, y: Two, m: slice) -> Iterator[list[tuple[Any, Any]]]:
        """(pairs, rounded positions or momenta), of modes (modes, frames, members)."""
        n, count = len(self.single), self.coupled.shape[1]
        for (high, low), back in zip((x, y), self.back):
            rows = [(self.single, high[:n])]
            if count:
                one = words(high[n : n + count], low[n : n + count])
                other = words(high[n + count :], low[n + count :])
                for i in (0, 1):
                    a, b = (words(*two(back[i, j][:, None, m])) for j in (0, 1))
                    rows.append((self.coupled[i], total(product(a, one), product(b, other))[0]))
            yield rows


def error_of_phases(values: DD, zero: Any, wrong: Any, t: Any) -> Any:
    """By how many radians phases of members may be wrong after times (frames,), at most: (frames, members or 1).

    `wrong` is that of the values, the squares of frequencies. What runs away has no phase: before its error is seen it has
    left the floats.
    """
    turning = ~zero & (values.high > 0.0)
    omega = np.where(turning, np.sqrt(np.abs(values.high)), 0.0)
    safe = np.where(turning, omega, np.inf)
    rate = (wrong / (2.0 * safe)).max(axis=0) + omega.max(axis=0) * 2.0**-102
    fixed = (wrong / safe**2).max(axis=0)
    t = np.abs(np.asarray(t))[:, None]
    return np.where(omega.max(axis=0) * t > LARGEST, np.inf, rate * t + fixed)


def two(x: DD) -> Two:
    return x.high, x.low
