"""H = (p W p + q K q)/2 + b.p + f.q, with W definite: after n steps, mode by mode.

With W = L L^T and L^T K L = Q diag(lambda) Q^T each mode is x' = y, y' = -lambda x - g: it turns, runs away or, where
lambda is exactly 0, falls as t**2/2. What a splitting makes of it in n steps is the n-th power of a two by two matrix,
whose angle is known from its trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.device.linear.double_double import (
    DD,
    Sliced,
    angle,
    area,
    as_dd,
    hyperbola,
    matmul,
    of_fraction,
    of_fractions,
    two_product,
    where,
)
from tinyphysics.device.linear.eigen import Eigen, eigen
from tinyphysics.device.linear.phases import circle

Polynomial = list[Fraction]
Stages = Sequence[tuple[str, Fraction]]  # ("V", 1/2) is half a kick
PHASE = 1e-14  # that a run may be wrong by, in radians
LARGEST = 2.0**45  # radians: beyond, a phase of 106 bits has fewer than 61 after the point


class NoModes(ArithmeticError):
    """Why a system is not taken apart into modes."""


class Unstable(ArithmeticError):
    """A step that the method does not bear."""


# --- polynomials of lambda*dt**2 ----------------------------------------------------------------------------
def plus(a: Polynomial, b: Polynomial) -> Polynomial:
    n = max(len(a), len(b))
    return [x + y for x, y in zip(a + [Fraction(0)] * (n - len(a)), b + [Fraction(0)] * (n - len(b)))]


def value(p: Polynomial, x: DD) -> DD:
    out = DD(np.zeros(x.shape))
    for c in reversed(p):
        out = out * x + DD(*of_fraction(c))
    return out


@dataclass(frozen=True)
class StepMatrix:
    """[[a, b], [-x c, d]] of one step on (x, dt*y), as polynomials of x = lambda*dt**2."""

    a: Polynomial
    b: Polynomial
    c: Polynomial
    d: Polynomial
    drift: Fraction  # sums of the weights
    kick: Fraction
    fall: Fraction  # of each drift's weight times the kicks before it

    @cached_property
    def turning(self) -> Polynomial:
        """(2 - trace)/x: no power of x is lost to it."""
        trace = plus(self.a, self.d)
        assert trace[0] == 2
        return [-c for c in trace[1:]]

    @cached_property
    def uneven(self) -> Polynomial:
        """(a - d)/(2x); nothing for a palindrome."""
        return [c / 2 for c in plus(self.a, [-c for c in self.d])[1:]]

    def limit(self) -> float:
        """The first omega*dt, on a fine grid, at which the step no longer turns."""
        x = np.linspace(0.0, 4.0, 8001)[1:] * max(len(self.a), 1)
        p = np.polyval([float(c) for c in reversed(self.turning)], x * x) * x * x
        bad = np.flatnonzero((p <= 0.0) | (p >= 4.0))
        return float(x[bad[0]]) if len(bad) else float("inf")


def step_matrix(stages: Stages) -> StepMatrix:
    """Of kicks and drifts, one after the other."""
    one, none = [Fraction(1)], [Fraction(0)]
    a, b, c, d = one, none, none, one  # c without its factor -x
    drift, kick, fall = Fraction(0), Fraction(0), Fraction(0)
    for part, w in stages:
        if part == "T":
            moved = [w * x for x in c], [w * x for x in d]
            a, b = plus(a, [Fraction(0), *(-x for x in moved[0])]), plus(b, moved[1])
            drift, fall = drift + w, fall + w * kick
        else:
            c, d = plus(c, [w * x for x in a]), plus(d, [Fraction(0), *(-w * x for x in b)])
            kick += w
    return StepMatrix(a, b, c, d, drift, kick, fall)


@dataclass(frozen=True, eq=False)
class Change:
    """New (x, y) of every mode from the old and from its constant force g, (modes, frames) each."""

    xx: DD
    xy: DD
    xg: DD
    yx: DD
    yy: DD
    yg: DD

    @property
    def parts(self) -> tuple[DD, ...]:
        return self.xx, self.xy, self.xg, self.yx, self.yy, self.yg

    @property
    def area(self) -> float:
        """By how much a mode changes areas, at most, where that can be told: 0 in exact arithmetic."""
        with np.errstate(invalid="ignore", over="ignore"):
            off = np.abs((self.xx * self.yy - self.xy * self.yx - 1.0).high) / np.maximum(
                1.0, self.xx.high**2
            )
        return float(np.nanmax(off, initial=0.0))


@dataclass(frozen=True, eq=False)
class Modes:
    """The eigenvalues, those that are exactly 0, and how to get there and back."""

    values: DD
    zero: Any  # which of them
    scale: DD  # q is scale * back x, p is back y / scale
    into: tuple[Sliced, Sliced]  # of positions, of momenta
    back: tuple[Sliced, Sliced]
    constant: tuple[DD, DD]  # (b, f) as the modes see them
    wrong: float  # of the values, in absolute terms
    swapped: bool = False
    skew: float = 0.0  # of the vectors: how far from orthogonal they are, at most

    @property
    def size(self) -> int:
        return len(self.values)

    @cached_property
    def roots(self) -> DD:
        """|omega| of each mode."""
        return self.values.abs().sqrt()

    def phase_error(self, t: float) -> float:
        """By how many radians a phase may be wrong after a time, at most."""
        moving = self.roots.high[~self.zero]
        if not len(moving):
            return 0.0
        least = float(moving.min())
        return (
            self.wrong * (abs(t) / (2.0 * least) + 1.0 / least**2) + float(moving.max()) * abs(t) * 2.0**-102
        )

    def exact(self, h: Fraction, n: Any) -> Change:
        """Of the flow after times n*h, for the steps n of some frames."""
        t = at_times(h, n)[None, :]
        largest = float((self.roots.high[:, None] * np.abs(t.high)).max(initial=0.0))
        self.check(largest, float(np.abs(t.high).max(initial=0.0)))
        zero, values = self.zero[:, None], self.values[:, None]
        omega = where(zero, DD(np.ones((self.size, 1))), self.roots[:, None])
        turning = (values.high > 0.0) | zero
        x = where(zero, DD(np.zeros((self.size, 1))), omega * t)
        s, c, less = both(np.broadcast_to(turning, x.shape), x)
        square = omega * omega
        s, fall = s / omega, where(turning, less / square, -(less / square))
        half = t * t * DD(0.5)
        ones = DD(np.ones(x.shape))
        s, c, fall = where(zero, ones * t, s), where(zero, ones, c), where(zero, ones * half, fall)
        value = where(zero, DD(np.zeros((self.size, 1))), values)
        return Change(c, s, -fall, -(value * s), c, -s)

    def check(self, largest: float, t: float) -> None:
        if (self.values.high > 0.0).any() and largest > LARGEST or self.phase_error(t) > PHASE:
            raise NoModes(
                f"a phase of up to {largest:.1e} radians would be known to {self.phase_error(t):.0e} only"
            )

    def method(self, m: StepMatrix, h: Fraction, n: Any) -> Change:
        """Of n steps of a splitting, for the steps n of some frames."""
        step = DD(*of_fraction(h))
        x = where(self.zero, DD(np.ones(self.size)), self.values) * (step * step)
        turning = self.values.high > 0.0
        quarter = (x * value(m.turning, x)).scaled(0.25)  # sin(theta/2)**2
        stuck = turning & ~self.zero & ((quarter.high <= 0.0) | (quarter.high >= 1.0))
        beyond = turning & ~self.zero & (self.roots.high * abs(step.high) >= m.limit())
        if (stuck | beyond).any():
            worst = float((self.roots.high * abs(step.high))[stuck | beyond].max())
            raise Unstable(f"omega*dt is {worst:.4g}, and the method is stable below {m.limit():.4g} only")
        if (~turning & ~self.zero & (quarter.high >= 0.0)).any():
            raise Unstable("a mode that runs away would turn: the step is too long for it")
        size = quarter.abs()
        s, c = size.sqrt(), where(turning, DD(1.0) - size, DD(1.0) + size).sqrt()
        safe_s, safe_c = (
            where(turning, s, DD(np.full(self.size, 0.6))),
            where(turning, c, DD(np.full(self.size, 0.8))),
        )
        half = where(turning, angle(safe_s, safe_c), area(where(turning, DD(np.ones(self.size)), s)))
        theta = half.scaled(2.0)[:, None] * DD(np.asarray(n, np.float64))[None, :]
        close = float(
            (1.0 / c.high[~self.zero]).max(initial=1.0)
        )  # near the limit an angle follows omega faster
        last = float(max(n) * abs(h))
        self.check(float(np.abs(theta.high[~self.zero]).max(initial=0.0)), close * last)
        sn, cn, less = both(np.broadcast_to((turning & ~self.zero)[:, None], theta.shape), theta)
        ratio = sn / (s * c).scaled(2.0)[:, None]  # sin(n theta)/sin(theta)
        skew = value(m.uneven, x)
        b, c1 = value(m.b, x)[:, None] * ratio, value(m.c, x)[:, None] * ratio
        grown = skew[:, None] * ratio - less / x[:, None]  # (a_n - 1)/x
        lean = (skew * x)[:, None] * ratio
        change = Change(
            cn + lean, b * step, grown * step * step, -(c1 * x[:, None]) / step, cn - lean, -(c1 * step)
        )
        return self.falling(change, m, h, n) if self.zero.any() else change

    def falling(self, change: Change, m: StepMatrix, h: Fraction, n: Any) -> Change:
        """The same, with the modes that are exactly 0 as n steps of the method leave them."""
        steps = [int(k) for k in n]
        ones = DD(np.ones((self.size, len(steps))))

        def numbers(x: Sequence[Fraction]) -> DD:
            return ones * of_fractions(x)[None, :]

        falls = [h * h * (m.fall * k + m.drift * m.kick * Fraction(k * (k - 1), 2)) for k in steps]
        still = Change(
            ones,
            numbers([k * h * m.drift for k in steps]),
            numbers([-x for x in falls]),
            DD(np.zeros(ones.shape)),
            ones,
            numbers([-k * h * m.kick for k in steps]),
        )
        zero = self.zero[:, None]
        return Change(*(where(zero, a, b) for a, b in zip(still.parts, change.parts)))

    def apply(self, change: Change, q: Any, p: Any) -> tuple[Any, Any]:
        """States of all members, (components, members), after each change: (components, frames*members), rounded once."""
        if self.swapped:
            q, p = p, -q
        column = (slice(None), None)
        b, f = self.constant
        scale = self.scale[column]
        x, y = self.seen(as_dd(q) / scale, as_dd(p) * scale)
        y, g = y + b[column], f[column]
        with np.errstate(over="ignore", invalid="ignore"):
            xx, xy, xg, yx, yy, yg = (part[:, :, None] for part in change.parts)
            u, v, g, b = x[:, None], y[:, None], g[:, None], b[:, None, None]
            new_x = flat(xx * u + xy * v + xg * g)
            new_y = flat(yx * u + yy * v + yg * g - b)
            q = ((self.back[0] @ new_x) * scale).rounded()
            p = ((self.back[1] @ new_y) / scale).rounded()
        return (-p, q) if self.swapped else (q, p)

    def seen(self, q: DD, p: DD) -> tuple[DD, DD]:
        """Positions and momenta, scaled, as the modes see them."""
        return self.into[0] @ q, self.into[1] @ p


def flat(x: DD) -> DD:
    """(modes, frames, members) as columns."""
    return DD(x.high.reshape(len(x), -1), x.low.reshape(len(x), -1))


def at_times(h: Fraction | float, steps: Any) -> DD:
    """steps*h of a float h, exactly; of parts of a step as near as two words are."""
    if any(isinstance(n, Fraction) for n in steps):
        pairs = [of_fraction(Fraction(n) * Fraction(h)) for n in steps]
        return DD(np.array([a for a, _ in pairs]), np.array([b for _, b in pairs]))
    return DD(*two_product(np.asarray(steps, np.float64), np.float64(float(h))))


def both(turning: Any, x: DD) -> tuple[DD, DD, DD]:
    """(sin, cos, 1 - cos) where it turns, (sinh, cosh, 1 - cosh) where it runs away."""
    still = DD(np.zeros(x.shape))
    rotating = circle(where(turning, x, still))
    if turning.all():
        return rotating
    growing = hyperbola(where(turning, still, x.abs()))
    s, c, less = (where(turning, r, g) for r, g in zip(rotating, growing))
    return where(turning | (x.high >= 0.0), s, -s), c, less


# --- how to get there ---------------------------------------------------------------------------------------
def root_of(w: DD) -> tuple[DD, DD, float]:
    """(L, its inverse, the relative error of L L^T) of a matrix that is shown to be definite; else NoModes."""
    e = eigen(w)
    least = float(e.values.high.min())
    if least <= 4.0 * e.wrong:
        raise NoModes(
            f"the matrix of the momenta is not shown to be definite: its least eigenvalue is {least:.3g}"
        )
    r = e.values.sqrt()
    return e.vectors * r[None, :], (e.vectors / r[None, :]).T(), 4.0 * e.wrong / least


def modes(
    k: Sequence[Sequence[Fraction]],
    w: Sequence[Sequence[Fraction]],
    f: Sequence[Fraction],
    b: Sequence[Fraction],
    nullity: int,
    swapped: bool = False,
) -> Modes:
    """The modes of a system whose w is definite; `nullity` of them are known to be exactly 0."""
    n = len(w)
    diagonal = not any(x for i, row in enumerate(w) for j, x in enumerate(row) if i != j)
    stiff, inverse_mass = of_fractions(k), of_fractions(w)
    if diagonal:
        d = inverse_mass[np.arange(n), np.arange(n)]
        if not (d.high > 0.0).all():
            raise NoModes("the matrix of the momenta is not definite: an entry is not above 0")
        scale, off = d.sqrt(), 2.0**-100
        a = scale[:, None] * stiff * scale[None, :]
    else:
        L, inverse, off = root_of(inverse_mass)
        scale = DD(np.ones(n))
        a = matmul(L.T(), matmul(stiff, L))
    a = (a + a.T()).scaled(0.5)
    e: Eigen = eigen(a)
    whole = float(np.abs(a.high).sum(axis=1).max(initial=0.0))
    wrong = e.wrong + whole * (off + n * 2.0**-100)
    zero = np.zeros(n, bool)
    zero[np.argsort(np.abs(e.values.high), kind="stable")[:nullity]] = True
    for here, too in (
        (np.abs(e.values.high[zero]) > wrong, "is not close to 0, though it is 0"),
        (np.abs(e.values.high[~zero]) < 8.0 * wrong, "cannot be told from 0"),
    ):
        if here.any():
            raise NoModes(f"the square of a frequency {too}: it is known to {wrong:.0e}")
    values = where(zero, DD(np.zeros(n)), e.values)
    v = e.vectors
    if diagonal:
        one, other = Sliced(v.T()), Sliced(v)
        into, back = (one, one), (other, other)
    else:
        into = Sliced(matmul(v.T(), inverse)), Sliced(matmul(v.T(), L.T()))
        back = Sliced(matmul(L, v)), Sliced(matmul(inverse.T(), v))
    column = (slice(None), 0)
    drift = (into[0] @ (of_fractions([[x] for x in b]) / scale[:, None]))[column]
    force = (into[1] @ (of_fractions([[x] for x in f]) * scale[:, None]))[column]
    return Modes(values, zero, scale, into, back, (drift, force), wrong, swapped, e.askew)
