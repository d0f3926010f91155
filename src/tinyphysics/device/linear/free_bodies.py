"""Free rigid bodies, many members and many frames at once: where each is after a time t.

What phases are made of is computed in double-double, all else in floats. Only + - * / and roots are used, element by
element: a body's bits do not depend on the others, nor a frame's on other frames.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.device.linear.double_double import DD, quick_sum, two_product, two_sum, where
from tinyphysics.device.linear.modes import LARGEST, PHASE
from tinyphysics.device.linear.phases import circle
from tinyphysics.rules.formulas.free_body import (
    CYCLES,
    Orbit,
    Start,
    begun,
    carried,
    elliptic,
    orbit,
    relative,
    turned,
)

ROUNDED = 2.0**-94  # relative error of what is computed in double-double here
NEAREST = 1e-8  # of the separatrix, 1 - m: closer, the series lose digits
RANGE = 2.0**-200, 2.0**200  # of momenta and coefficients
MOST_TERMS = 12  # of the series, at that place
LEAST = 2.0**-60  # of a term that counts
TOGETHER = 1 << 13  # numbers that are computed at once, so that what is between stays in a cache
FEW = 16  # bodies whose constants are computed one by one: arrays of so few cost more
EVEN = np.zeros((3, 3, 3), bool)
for cycle in CYCLES:
    EVEN[cycle] = True


class One:
    """A number in double-double, with the bits that DD has in arrays."""

    __slots__ = ("high", "low")

    def __init__(self, high: float, low: float = 0.0) -> None:
        self.high, self.low = high, low

    def __neg__(self) -> One:
        return One(-self.high, -self.low)

    def __add__(self, other: Any) -> One:
        o = as_one(other)
        s, e = two_sum(self.high, o.high)
        t, f = two_sum(self.low, o.low)
        s, e = quick_sum(s, e + t)
        return One(*quick_sum(s, e + f))

    def __sub__(self, other: Any) -> One:
        return self + -as_one(other)

    def __mul__(self, other: Any) -> One:
        o = as_one(other)
        p, e = two_product(self.high, o.high)
        return One(*quick_sum(p, e + (self.high * o.low + self.low * o.high)))

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Any) -> One:
        o = as_one(other)
        q = self.high / o.high
        rest = self - o * One(q)
        q2 = rest.high / o.high
        rest = rest - o * One(q2)
        return One(*quick_sum(q, q2)) + One(rest.high / o.high)

    def sqrt(self) -> One:
        if self.high == 0.0:
            return One(0.0)
        r = math.sqrt(self.high)
        rest = self - One(*two_product(r, r))
        return One(*quick_sum(r, (rest.high + rest.low) / (2.0 * r)))

    def scaled(self, power: float) -> One:
        return One(self.high * power, self.low * power)


def as_one(x: Any) -> One:
    return x if isinstance(x, One) else One(float(x))


class Pairs:
    """Numbers (rules/formulas/free_body.py) in double-double, alone or in arrays."""

    rounds = 12

    def root(self, x: Any) -> Any:
        return x.sqrt()

    def half(self, x: Any) -> Any:
        return x.scaled(0.5)


class Floats:
    """Plain numbers in arrays."""

    rounds, small = 8, 1e-9

    def root(self, x: Any) -> Any:
        return np.sqrt(x)

    def half(self, x: Any) -> Any:
        return x * 0.5

    def choose(self, condition: Any, a: Any, b: Any) -> Any:
        return np.where(condition, a, b)


def orbits_of(a: list[DD], L: Any, side: Any, gap: DD) -> Orbit:
    """Of all bodies in their own axes; of few one by one, with the same bits."""
    if len(side) > FEW:
        return orbit(Pairs(), a, [DD(x) for x in L], DD(side), gap)
    found = []
    for k in range(len(side)):
        own = [One(float(x.high[k]), float(x.low[k])) for x in (*a, gap)]
        found.append(orbit(Pairs(), own[:3], [One(float(x[k])) for x in L], One(float(side[k])), own[3]))

    def joined(*x: One) -> DD:
        return DD(np.array([n.high for n in x]), np.array([n.low for n in x]))

    A = [joined(*(o.sizes[k] for o in found)) for k in range(3)]
    rest = (joined(*(getattr(o, name) for o in found)) for name in ("speed", "half", "m", "kc"))
    return Orbit((A[0], A[1], A[2]), joined(*(o.length for o in found)), side, *rest)


def picked(x: Any, order: Any) -> list[Any]:
    """The rows of an array (3, bodies), each body's in its own order."""
    if isinstance(x, DD):
        return [DD(h, low) for h, low in zip(picked(x.high, order), picked(x.low, order))]
    return [np.take_along_axis(x, row[None], 0)[0] for row in order]


@dataclass(frozen=True, eq=False)
class FreeBodies:
    """Bodies with inverse moments a, (3, bodies), and momenta L at first, (3, bodies)."""

    a: DD
    L: Any

    @cached_property
    def steady(self) -> Any:
        """Which turn about one axis for ever."""
        out = np.ones(self.L.shape[1], bool)
        for i, j in ((0, 1), (1, 2), (2, 0)):
            same = (self.a.high[i] == self.a.high[j]) & (self.a.low[i] == self.a.low[j])
            out &= same | (self.L[i] == 0.0) | (self.L[j] == 0.0)
        return out

    @cached_property
    def placed(self) -> tuple[Any, Any, Any, DD, Any, Any]:
        """(axes (3, bodies), their signs, side, gap, by how many times its terms are larger, 1 - m)."""
        low, middle, high = np.lexsort((self.a.low, self.a.high), axis=0)
        order = np.stack([high, middle, low])
        a, L = picked(self.a, order), [DD(x) for x in picked(self.L, order)]
        below, above = (a[1] - a[2]) * L[2] * L[2], (a[0] - a[1]) * L[0] * L[0]
        gap = below - above
        falls = gap.high > 0.0
        order = np.where(falls, order, order[::-1])
        first = np.where(EVEN[tuple(order)], 1.0, -1.0)
        other = np.where(picked(self.L, order)[2] < 0.0, -1.0, 1.0)
        with np.errstate(all="ignore"):
            off = (below.high + above.high) / np.abs(gap.high)
            rest = np.abs(gap.high) / np.where(falls, below.high, above.high)
        return order, np.stack([first, other, other]), np.where(falls, 1.0, -1.0), gap.abs(), off, rest

    @cached_property
    def good(self) -> Any:
        """Which are within the range of this file, whatever the time is."""
        fine = np.ones(self.L.shape[1], bool)
        for x in (np.abs(self.L), np.abs(self.a.high)):
            fine &= ((x == 0.0) | ((x >= RANGE[0]) & (x <= RANGE[1]))).all(axis=0)
        return fine & (self.steady | (self.placed[5] >= NEAREST))

    @cached_property
    def error(self) -> Any:
        """How far off a phase may be, in radians for a unit of time."""
        order, _, _, _, off, _ = self.placed
        a = picked(self.a.high, order)
        largest = np.abs(self.a.high).max(axis=0)
        ratio = 1.0 + off
        with np.errstate(all="ignore"):
            for i, j in ((0, 1), (0, 2), (1, 2)):
                ratio = ratio + np.where(a[i] == a[j], 0.0, largest / np.abs(a[i] - a[j]))
        ratio = np.where(self.steady, 1.0, ratio)
        return ROUNDED * largest * np.sqrt((self.L**2).sum(axis=0)) * ratio

    def taken(self, t: Any) -> Any:
        """Where phases are known well enough, (frames, bodies)."""
        size = np.abs(self.a.high).max(axis=0) * np.abs(self.L).sum(axis=0)
        fine = (self.error * np.abs(t)[:, None] <= PHASE) & (size * np.abs(t)[:, None] <= LARGEST)
        return self.good & fine

    @cached_property
    def orbits(self) -> tuple[Any, Any, Any, Orbit, Start, Any]:
        """(which they are, their axes and signs, their constants, where they begin, how many terms each needs)."""
        own = np.flatnonzero(self.good & ~self.steady)
        order, signs, side = (x[..., own] for x in self.placed[:3])
        L = signs * np.stack(picked(self.L[:, own], order))
        o = orbits_of(picked(self.a[:, own], order), L, side, self.placed[3][own])
        A1, A2, A3 = (x.rounded() for x in o.sizes)
        plain = Orbit((A1, A2, A3), o.length.rounded(), side, None, None, o.m.rounded(), o.kc.rounded())
        start = begun(Floats(), plain, L)
        q = start.nome
        terms, power, last = np.full(len(own), 2), q * q, q * q
        for n in range(2, MOST_TERMS):
            terms = np.where(last >= LEAST, n + 1, terms)
            power = power * q * q
            last = last * power
        return own, order, signs, o, start, terms

    def at(self, t: DD) -> tuple[Any, Any]:
        """(momenta (frames, 3, bodies), turns of the bodies as quaternions (frames, 4, bodies)) at the times."""
        frames, bodies = len(t), self.L.shape[1]
        L, turn = np.full((frames, 3, bodies), np.nan), np.full((frames, 4, bodies), np.nan)
        if (still := np.flatnonzero(self.steady & self.good)).size:
            L[:, :, still] = self.L[:, still]
            turn[:, :, still] = self.steady_turns(still, t)
        if not (self.good & ~self.steady).any():
            return L, turn
        own, terms = self.orbits[0], self.orbits[5]
        for count in np.unique(terms).tolist():
            here = np.flatnonzero(terms == count)
            for some in np.array_split(here, -(-len(here) // TOGETHER)):
                along = max(1, TOGETHER // len(some))
                for begin in range(0, frames, along):
                    part = slice(begin, begin + along)
                    L[part, :, own[some]], turn[part, :, own[some]] = self.moved(some, t[part], count)
        return L, turn

    def steady_turns(self, who: Any, t: DD) -> Any:
        w = self.a[:, who] * DD(self.L[:, who])
        speed = (w[0] * w[0] + w[1] * w[1] + w[2] * w[2]).sqrt()
        s, c, _ = circle((speed.scaled(0.5))[None] * t[:, None])
        rest = speed.high == 0.0
        axis = (w / where(rest, DD(np.ones(rest.shape)), speed)[None]).rounded()
        return np.concatenate([c.rounded()[:, None], axis[None] * s.rounded()[:, None]], axis=1)

    def moved(self, who: Any, t: DD, terms: int) -> tuple[Any, Any]:
        """Of some of the orbits: (frames, 3, bodies), (frames, 4, bodies)."""
        _, order, signs, o, start, _ = self.orbits
        order, signs = order[:, who], signs[:, who]
        A1, A2, A3 = (x[who] for x in start.sizes)
        wave = start.wave[0][None, who], start.wave[1][None, who]
        own = Start((A1, A2, A3), start.length[who], start.side[who], wave, start.nome[who], start.shift[who])
        times = t[:, None]
        (s1, c1, _), (s2, c2, _) = (circle(x[who][None] * times) for x in (o.speed, o.half))
        later = turned(wave, (c1.rounded(), s1.rounded()))
        first, now = elliptic(own, wave, terms), elliptic(own, later, terms)
        by = relative(Floats(), own, first, now, (c2.rounded(), s2.rounded()))
        L, turn = np.empty((len(t), 3, len(who))), np.empty((len(t), 4, len(who)))
        turn[:, 0] = by[0]
        columns = np.arange(len(who))
        for k in range(3):
            L[:, order[k], columns] = signs[k] * now[0][k]
            turn[:, 1 + order[k], columns] = signs[k] * by[1 + k]
        return L, turn


def carried_by(half: bool, x: Any, turn: Any) -> Any:
    """What bodies carry, (4 or 3, bodies), after their turns (frames, 4, bodies): (frames, 4 or 3, bodies)."""
    w, a, b, c = (turn[:, k] for k in range(4))
    return np.stack(list(carried(half, [row[None] for row in x], (w, a, b, c))), axis=1)
