"""One or two pairs of q and p in an energy that mixes them, many members and many frames at once: after a time t.

The motion is z' = A z + g, and A**2 has one eigenvalue m for each pair: with one pair exp(t A) = c + s A, where c and s are
cos and sin/omega of -m = omega**2. With two, z is the sum of (A**2 - m2) z/(m1 - m2) and (m1 - A**2) z/(m1 - m2), which move
by themselves. Element by element, as in few_modes.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.device.linear.bounded import Bounded
from tinyphysics.device.linear.double_double import DD, expm1, hyperbola, where
from tinyphysics.device.linear.few_modes import TOGETHER, error_of_phases
from tinyphysics.device.linear.modes import LARGEST, PHASE
from tinyphysics.device.linear.phases import circle, product, total, words

SURE = 2.0**-93  # relative error of what the difference of the eigenvalues is the root of
APART = 2.0**-20  # of the two eigenvalues, relative to their size: closer ones are left to others
RELATIVE = 2.0**-91  # error of an eigenvalue


def product_with(a: DD, z: DD) -> DD:
    """(rows, members) of (rows, columns, members) and (columns, members)."""
    terms = a * z[None]
    out = terms[:, 0]
    for k in range(1, terms.shape[1]):
        out = out + terms[:, k]
    return out


def eigenvalues(trace: Bounded, det: Bounded, det_is_zero: Any) -> tuple[DD, Any]:
    """(both m of m**2 - trace m + det = 0, (2, width), and where they are known)."""
    four = Bounded(DD(-4.0))
    square = trace * trace + det * four
    root = where(square.value.high > 0.0, square.value, DD(np.ones_like(square.value.high))).sqrt()
    t = trace.value
    large = where(t.high < 0.0, t - root, t + root).scaled(0.5)
    small = where(det_is_zero, DD(np.zeros_like(large.high)), det.value / large)
    known = square.off <= SURE * square.value.high
    apart = root.high >= APART * (np.abs(t.high) + root.high)
    values = DD(np.stack([large.high, small.high]), np.stack([large.low, small.low]))
    return values, known & apart


@dataclass(frozen=True, eq=False)
class MixedModes:
    """(size, size, width) of A, (size, width) of g, (pairs, width) of -m; width is that of the members or 1."""

    a: DD
    g: DD | None
    values: DD
    zero: Any  # where a value is exactly 0
    good: Any
    lost: Any

    @property
    def size(self) -> int:
        return len(self.values)

    @property
    def width(self) -> int:
        return len(self.good)

    def phase_error(self, t: Any) -> Any:
        """By how many radians a phase may be wrong after times (frames,), at most: (frames, members or 1)."""
        return error_of_phases(self.values, self.zero, np.abs(self.values.high) * RELATIVE, t)

    def taken(self, t: Any) -> Any:
        """Where phases are known well enough, (frames, members or 1)."""
        return (self.phase_error(t) <= PHASE) & self.good

    def parts(self, z: DD, m: slice) -> tuple[DD, DD]:
        """What moves with each eigenvalue, (pairs, size, members), and A times that."""
        a = self.a[..., m]
        once = product_with(a, z)
        if self.size == 1:
            return z[None], once[None]
        twice = product_with(a, once)
        thrice = product_with(a, twice)
        first, second = (-self.values[k][None, m] for k in (0, 1))
        inverse = DD(1.0) / (first - second)
        out = []
        for v, w in ((z, twice), (once, thrice)):
            one, other = (w - second * v) * inverse, (first * v - w) * inverse
            out.append(DD(np.stack([one.high, other.high]), np.stack([one.low, other.low])))
        return out[0], out[1]

    def waves(self, t: DD, m: slice) -> tuple[Any, Any, DD, DD, DD, DD, DD]:
        """(what runs away, backwards, growth, omega, cos, sin/omega, (1 - cos)/omega**2), (pairs, 1, frames, width)."""
        values, zero = self.values[:, None, None, m], self.zero[:, None, None, m]
        good = self.good[None, None, None, m]
        omega = where(zero | ~good, DD(np.ones(values.shape)), values.abs()).sqrt()
        turning, times = values.high > 0.0, t[None, None, :, None]
        x = omega * times
        moves = turning & ~zero & (np.abs(x.high) <= LARGEST)
        s, c, less = circle(where(moves, x, DD(np.zeros(x.shape))))
        runs = np.broadcast_to(~turning & ~zero, x.shape)
        grown = DD(np.ones((1, 1, 1, 1)))
        if runs.any():
            away = where(runs, x.abs(), DD(np.zeros(x.shape)))
            grown = expm1(away) + 1.0
            sinh, _, other = hyperbola(away)
            s, less = where(runs, where(x.high < 0.0, -sinh, sinh), s), where(runs, -other, less)
        inverse = DD(1.0) / omega
        s, fall = s * inverse, less * inverse * inverse
        if zero.any():
            c, s = where(zero, DD(np.ones((1, 1, 1, 1))), c), where(zero, times, s)
            fall = where(zero, (times * times).scaled(0.5), fall)
        return runs, x.high < 0.0, grown, omega, c, s, fall

    def apply(self, q: Any, p: Any, t: DD) -> tuple[Any, Any]:
        """States (pairs, members) at the times: (frames, pairs, members) each, rounded once."""
        frames, members, n = len(t), q.shape[1], len(q)
        out = np.empty((2, frames, n, members))
        across = max(1, min(members, TOGETHER // (2 * n)))
        along = max(1, TOGETHER // (2 * n * across))
        own = self.width > 1
        for first in range(0, members, across):
            m = slice(first, first + across)
            z = DD(np.concatenate([q[:, m], p[:, m]]))
            which = m if own else slice(None)
            v, w = self.parts(z, which)
            for begin in range(0, frames, along):
                f = slice(begin, begin + along)
                new = self.moved(t[f], which, v, w)
                out[:, f, :, m] = new.reshape(2, n, *new.shape[1:]).transpose(0, 2, 1, 3)
        return out[0], out[1]

    def moved(self, t: DD, m: slice, v: DD, w: DD) -> Any:
        """(size, frames, members), rounded."""
        runs, backwards, grown, omega, c, s, fall = self.waves(t, m)
        v, w = v[:, :, None], w[:, :, None]  # (pairs, size, 1, members)

        def times(a: DD, b: DD) -> tuple[Any, Any]:
            return product(words(a.high, a.low), words(b.high, b.low))

        both = total(times(c, v), times(s, w))
        if runs.any():
            over, shrunk = w / omega, DD(1.0) / grown
            up, down = v + over, v - over
            up, down = where(backwards, down, up), where(backwards, up, down)
            sides = []
            for u, factor in ((up, grown), (down, shrunk)):
                x = times(u, factor.scaled(0.5))
                sides.append((np.where(u.high == 0.0, 0.0, x[0]), np.where(u.high == 0.0, 0.0, x[1])))
            away = total(sides[0], sides[1])
            both = np.where(runs, away[0], both[0]), np.where(runs, away[1], both[1])
        if self.g is not None:
            g, ag = self.parts(self.g[:, m] if self.g.shape[1] > 1 else self.g, m)
            both = total(both, times(s, g[:, :, None]))
            both = total(both, times(fall, ag[:, :, None]))
        out = both[0][0], both[1][0]
        for k in range(1, self.size):
            out = total(out, (both[0][k], both[1][k]))
        return out[0]

    def told(self, t: DD) -> dict[str, Any]:
        """What is known of the jump of one member over one time."""
        with np.errstate(all="ignore"):
            runs, _, grown, _, c, s, _ = self.waves(t, slice(None))
            off = (c * c + self.values[:, None, None] * s * s - 1.0).high
            off = np.where(runs, (grown * (DD(1.0) / grown) - 1.0).high, off)
        return {
            "by": "modes",
            "modes": self.size,
            "zero_modes": int(self.zero.sum()),
            "phase_error": float(self.phase_error(t.high).max()),
            "area_error": float(np.nanmax(np.abs(off), initial=0.0)),
        }
