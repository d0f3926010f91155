"""Small systems of springs with friction, many members and many frames at once: after a time t, mode by mode.

x' = w y + b, y' = -k x - g y - f. With B = A + g/2 the square of B is -D = g²/4 - k w times 1, so exp(A t) is exp(-g t/2)
(C + S B) with C = cos(sqrt(D) t) and S = sin(sqrt(D) t)/sqrt(D), or with exponentials where D is negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.device.linear.double_double import DD, expm1, where
from tinyphysics.device.linear.few_modes import FewModes, two
from tinyphysics.device.linear.modes import LARGEST, PHASE
from tinyphysics.device.linear.phases import Words, circle, product, total, words

ROUNDED = 2.0**-94  # relative error of the squares of frequencies and rates
SHORT = 1e-4  # of D t²: below, C and S are short series
WEAK = 1e-12  # of k w beside g²: below, what a constant force does is not known well enough here
SERIES = 6

Two = tuple[Any, Any]


def fading(x: DD) -> DD:
    """e**x - 1; -1 where e**x would be below the floats that have all their digits."""
    gone = x.high < -700.0
    return where(gone, DD(np.full(x.shape, -1.0)), expm1(where(gone, DD(np.zeros(x.shape)), x)))


@dataclass(frozen=True, eq=False)
class DampedChange:
    """New x = xx x + xy y + x1, new y = yx x + yy y + y1."""

    xx: Two
    xy: Two
    yx: Two
    yy: Two
    x1: Two | None
    y1: Two | None

    def of(self, x: Words, y: Words) -> tuple[Two, Two]:
        xx, xy, yx, yy = (words(*part) for part in (self.xx, self.xy, self.yx, self.yy))
        new_x, new_y = total(product(xx, x), product(xy, y)), total(product(yx, x), product(yy, y))
        if self.x1 is not None and self.y1 is not None:
            new_x, new_y = total(new_x, self.x1), total(new_y, self.y1)
        return new_x, new_y

    @property
    def area(self) -> float:
        """By how much the factor by which modes shrink areas differs from the first mode's, at most."""
        xx, xy, yx, yy = (DD(*part) for part in (self.xx, self.xy, self.yx, self.yy))
        found = xx * yy - xy * yx
        return float(np.nanmax(np.abs((found - found[:1]).high), initial=0.0))


@dataclass(frozen=True, eq=False)
class DampedModes(FewModes):
    """The modes of few_modes.py, whose momenta decay at rates g, (modes, members or 1)."""

    g: DD

    def phase_error(self, t: Any) -> Any:
        size = np.abs(self.values.high) + self.g.high**2
        omega = np.sqrt(np.abs(self.values.high - 0.25 * self.g.high**2))
        t = np.abs(np.asarray(t))[:, None, None]
        with np.errstate(all="ignore"):
            longest = np.where(omega * t > 1.0, t / omega, t * t)
        error = (self.wrong + size * ROUNDED) * longest
        return np.where(omega * t > LARGEST, np.inf, error).max(axis=1)

    def taken(self, t: Any) -> Any:
        weak = (np.abs(self.values.high) < WEAK * self.g.high**2) & ~self.zero
        forced = np.zeros_like(self.good) if self.f is None else weak.any(axis=0)
        return (self.phase_error(t) <= PHASE) & self.good & ~forced

    def changes(self, t: DD, m: slice = slice(None)) -> DampedChange:  # type: ignore[override]
        """(modes, frames, members or 1)."""
        w, k, g, kw = (x[:, None, m] for x in (self.w, self.k, self.g, self.values))
        times, half = t[None, :, None], g.scaled(0.5)
        ec, es = self.waves(kw - half * half, half, kw, times)
        turn, xy, yx = half * es, w * es, -(k * es)
        xx, yy = ec + turn, ec - turn
        if self.f is None or self.b is None:
            return DampedChange(two(xx), two(xy), two(yx), two(yy), None, None)
        f, b = (x[:, None, m] if x.shape[1] > 1 else x[:, None] for x in (self.f, self.b))
        none, flat = self.zero[:, None, m], g.high == 0.0
        safe = where(none, DD(np.ones(kw.shape)), kw)
        less, more = xx - 1.0, yy - 1.0
        # A^-1 (exp(A t) - 1) (b, -f), with A^-1 = [[-g, -w], [k, 0]]/(k w)
        first, second = less * b - xy * f, yx * b - more * f
        x1, y1 = -(g * first + w * second) / safe, k * first / safe
        if none.any():  # k or w is 0: x' = w y + b, y' = -k x - g y - f without a frequency
            slow = where(flat, DD(np.ones(g.shape)), g)
            gone = where(
                flat, times + DD(np.zeros(xx.shape)), -fading(-(g * times)) / slow
            )  # of exp(-g s) over the time
            twice = where(flat, (times * times).scaled(0.5) + DD(np.zeros(xx.shape)), (times - gone) / slow)
            x1 = where(none, b * times - w * f * twice, x1)
            y1 = where(none, -(f * gone) - k * b * twice, y1)
        return DampedChange(two(xx), two(xy), two(yx), two(yy), two(x1), two(y1))

    def waves(self, D: DD, half: DD, kw: DD, t: DD) -> tuple[DD, DD]:
        """exp(-g t/2) times C and S."""
        zero = DD(np.zeros(np.broadcast_shapes(D.shape, t.shape)))
        squares = D * t * t + zero
        short = np.abs(squares.high) < SHORT
        turning = (D.high > 0.0) & ~short
        safe = where(short, DD(np.ones(zero.shape)), D.abs() + zero)
        omega = safe.sqrt()
        decay = fading(-(half * t) + zero) + 1.0
        phase = where(turning & (np.abs((omega * t).high) <= LARGEST), omega * t, zero)
        s, c, _ = circle(phase)
        c, s = decay * c, decay * s / omega
        c0, s0 = DD(np.ones(zero.shape)), DD(np.ones(zero.shape))
        for n in range(SERIES, 0, -1):
            c0 = 1.0 - squares * c0 / float((2 * n - 1) * (2 * n))
            s0 = 1.0 - squares * s0 / float((2 * n) * (2 * n + 1))
        c, s = where(short, decay * c0, c), where(short, decay * s0 * t, s)
        runs = ~turning & ~short
        if not runs.any():
            return c, s
        fast = half + omega
        slow = where(
            half.high + zero.high >= 0.0, -(kw / where(runs, fast, DD(np.ones(zero.shape)))), omega - half
        )
        one = fading(where(runs, slow * t, zero)) + 1.0
        gone = fading(where(runs, -(omega * t).scaled(2.0), zero))
        difference = -(one * gone) / omega.scaled(2.0)
        sum_ = (one * (gone + 2.0)).scaled(0.5)
        return where(runs, sum_, c), where(runs, difference, s)

    def told(self, t: DD) -> dict[str, Any]:
        return super().told(t) | {"rates": int((self.g.high != 0.0).any(axis=1).sum())}
