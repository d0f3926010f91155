"""A field whose sites are all alike: waves of each wavelength are modes, and the Fourier transform finds them.

Frequencies and phases are double-double, the transform is NumPy's: a result is right to rounding, and its last bits
are those of a library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from tinyphysics.device.linear.double_double import (
    DD,
    TWO_PI,
    circle,
    hyperbola,
    of_fraction,
    two_product,
    where,
)
from tinyphysics.device.linear.modes import NoModes, StepMatrix, Unstable, value

Weights = Mapping[tuple[int, ...], Fraction]
Halves = tuple[bool, ...]  # is only half of the waves along an axis looked at?
PHASE = 1e-13  # radians that a run may be wrong by: a transform rounds by as much
BLOCK = 1 << 13
FINE = 512.0  # entries of a table of sines for each radian
BLUR = 2.0**-98  # what a weighted sum of cosines may be wrong by, relative to the sum of the weights


def angles(n: int, shift: int, half: bool) -> DD:
    """2 pi k shift/n for each wave k along an axis, from -pi to pi; of half of them if the field is real."""
    k = np.arange(n // 2 + 1 if half else n) * shift % n
    k = np.where(2 * k > n, k - n, k)
    return DD(TWO_PI[0], TWO_PI[1]) * DD(k.astype(float)) / DD(float(n))


def along(x: DD, axis: int, ndim: int) -> DD:
    shape = [1] * ndim
    shape[axis] = len(x)
    return DD(x.high.reshape(shape), x.low.reshape(shape))


def spectrum(weights: Weights, shape: tuple[int, ...], half: Halves) -> DD:
    """The sum of weight * cos(k.shift) for each wave: of a constant first, then what cosines take from it."""
    ndim = len(shape)
    sizes = sizes_of(shape, half)
    out = DD(*of_fraction(sum(weights.values(), Fraction(0))))
    lines: dict[int, DD] = {}
    for shift, w in weights.items():
        moved = [a for a, s in enumerate(shift) if s]
        weight = DD(*of_fraction(w))
        if len(moved) == 1:
            (a,) = moved
            less = circle(angles(shape[a], shift[a], half[a]))[2] * weight
            lines[a] = lines[a] + less if a in lines else less
        elif moved:
            out = out - crossed(shift, shape, half) * weight
    for a, line in lines.items():
        out = out - along(line, a, ndim)
    return DD(np.broadcast_to(out.high, sizes), np.broadcast_to(out.low, sizes))


def sizes_of(shape: tuple[int, ...], half: Halves) -> list[int]:
    return [n // 2 + 1 if h else n for n, h in zip(shape, half)]


def even_axes(shape: tuple[int, ...], *weights: Weights) -> Halves:
    """Along which axes waves to the left and to the right have one frequency: half of them say all. The last is real."""

    def flipped(shift: tuple[int, ...], axis: int) -> tuple[int, ...]:
        back = [-s if a == axis else s for a, s in enumerate(shift)]
        return tuple((s + n // 2) % n - n // 2 for s, n in zip(back, shape))

    return tuple(
        axis == len(shape) - 1
        or all(w.get(flipped(shift, axis)) == c for w in weights for shift, c in w.items())
        for axis in range(len(shape))
    )


def crossed(shift: tuple[int, ...], shape: tuple[int, ...], half: Halves) -> DD:
    """1 - cos(k.shift) of a shift along several axes."""
    ndim, less, s = len(shape), DD(0.0), DD(0.0)
    for a, by in enumerate(shift):
        if by:
            sine, cosine, l2 = (along(x, a, ndim) for x in circle(angles(shape[a], by, half[a])))
            less, s = less * cosine + l2 + s * sine, s * cosine + (DD(1.0) - less) * sine
    return less


def exact_zeros(weights: Weights, shape: tuple[int, ...], half: Halves) -> Any:
    """Waves along which every site is equal or opposite to the next, whose sum is exactly 0."""
    out = np.zeros(sizes_of(shape, half), bool)
    for corner in product(*((0, n // 2) if n % 2 == 0 else (0,) for n in shape)):
        signs = [sum(s for s, c in zip(shift, corner) if c) % 2 for shift in weights]
        out[corner] = sum((-w if odd else w for odd, w in zip(signs, weights.values())), Fraction(0)) == 0
    return out


@dataclass(frozen=True, eq=False)
class Waves:
    """The frequencies of a lattice, and what a jump makes of its waves."""

    shape: tuple[int, ...]
    half: Halves
    stiffness: DD  # of each wave
    inverse_mass: DD
    square: DD  # omega**2
    zero: Any  # where that is exactly 0
    force: float
    drift: float
    wrong: float  # of omega**2

    def phase_error(self, t: float) -> float:
        """By how many radians a phase may be wrong after a time, at most."""
        size = np.abs(self.square.high)
        least, most = size.min(initial=np.inf, where=~self.zero), size.max(initial=0.0)
        return float(self.wrong * abs(t) / 2.0 / np.sqrt(least) + np.sqrt(most) * abs(t) * 2.0**-100)

    def changes(self, h: Fraction, n: int, m: StepMatrix | None) -> dict[str, Any]:
        """How much of each old wave is in the new ones, in floats."""
        if (phase := self.phase_error(float(n * h))) > PHASE:
            raise NoModes(f"phases would be known to {phase:.0e} only")
        some = self.flowing(n * h) if m is None else self.stepped(m, h, n)
        if self.zero.any():
            drift, kick, fall = (n * h, n * h, (n * h) ** 2 / 2) if m is None else falling(m, h, n)
            for name, x in (("drift", drift), ("kick", kick), ("fall", fall), ("qq", 1), ("pp", 1)):
                some[name][self.zero] = float(x)
        parts = {
            "qq": some["qq"],
            "pp": some["pp"],
            "qp": self.inverse_mass.high * some["drift"],
            "pq": -(self.stiffness.high * some["kick"]),
        }
        return {name: self.unfolded(x) for name, x in parts.items()} | self.constants(some)

    def flowing(self, t: Fraction) -> dict[str, Any]:
        """Of the flow: cos, sin/omega twice, (1 - cos)/omega**2; hyperbolic where waves grow."""
        omega = np.sqrt(np.abs(np.where(self.zero, 1.0, self.square.high)))
        per = of_turns(t)
        (turns,) = in_blocks(lambda square: (rest_of_turns(square.abs(), per),), self.square)
        sine, less = turned(turns)
        ratio, fall = sine / omega, less / omega**2
        growing = (self.square.high < 0.0) & ~self.zero
        if growing.any():
            far = self.square.abs().sqrt() * DD(*of_fraction(abs(t)))
            grown, _, short = hyperbola(where(growing, far, DD(np.zeros(far.shape))))
            ratio = np.where(growing, (grown if t > 0 else -grown).rounded() / omega, ratio)
            fall, less = (
                np.where(growing, x, y)
                for x, y in ((-short.rounded() / omega**2, fall), (short.rounded(), less))
            )
        cosine = 1.0 - less
        return {"qq": cosine, "pp": cosine.copy(), "drift": ratio, "kick": ratio.copy(), "fall": fall}

    def stepped(self, m: StepMatrix, h: Fraction, n: int) -> dict[str, Any]:
        """Of n steps of a splitting; waves that grow are not done so."""
        limit = m.limit()
        if ((self.square.high < 0.0) & ~self.zero).any():
            raise NoModes("some waves grow, which a power of a method is not known for here")
        step, per = DD(*of_fraction(h)), of_turns(Fraction(2 * n))

        def angles(square: DD) -> tuple[Any, Any, Any]:
            x = square * (step * step)
            quarter = (x * value(m.turning, x)).scaled(0.25)  # sin(theta/2)**2
            inside = (quarter.high > 0.0) & (quarter.high < 1.0)
            return x.rounded(), quarter.rounded(), fraction_of(half_angle(quarter, ~inside) * per)

        x, s, turns = in_blocks(angles, self.square)
        if ((s <= 0.0) | (s >= 1.0) | (x >= limit**2))[~self.zero].any():
            raise Unstable(
                f"omega*dt is {float(np.sqrt(x.max())):.4g}, and the method is stable below {limit:.4g} only"
            )
        close = 1.0 / np.sqrt(1.0 - s.max(initial=0.0, where=~self.zero))  # an angle follows omega faster
        if (phase := close * self.phase_error(float(n * h))) > PHASE:
            raise NoModes(f"phases would be known to {phase:.0e} only")
        sine, less = turned(turns)
        p, hh = np.where(self.zero, 1.0, x), float(h)
        ratio = sine / np.where(self.zero, 1.0, 2.0 * np.sqrt(s * (1.0 - s)))
        b, c, skew = (
            np.polyval([float(w) for w in reversed(k)] or [0.0], p) * ratio for k in (m.b, m.c, m.uneven)
        )
        return {
            "qq": 1.0 - less + skew * p,
            "pp": 1.0 - less - skew * p,
            "drift": b * hh,
            "kick": c * hh,
            "fall": (less / p - skew) * hh * hh,
        }

    def unfolded(self, x: Any) -> Any:
        """Of all waves, from half of them along the axes where the others are the same."""
        for axis, n in enumerate(self.shape[:-1]):
            if self.half[axis]:
                k = np.arange(n)
                x = np.take(x, np.minimum(k, n - k), axis=axis)
        return x

    def constants(self, some: Mapping[str, Any]) -> dict[str, float]:
        """What constant forces and drifts add to the mean field and momentum."""
        at = (0,) * len(self.shape)
        w, k = float(self.inverse_mass.high[at]), float(self.stiffness.high[at])
        drift, kick, fall = (float(some[name][at]) for name in ("drift", "kick", "fall"))
        return {
            "q": drift * self.drift - w * fall * self.force,
            "p": -kick * self.force - k * fall * self.drift,
        }

    def apply(self, change: Mapping[str, Any], q: Any, p: Any) -> tuple[Any, Any]:
        """Fields (members, shape...) after the change."""
        axes = tuple(range(1, 1 + len(self.shape)))
        a, b = (np.fft.rfftn(x, axes=axes) for x in (q, p))
        field = a * change["qq"]
        field += b * change["qp"]
        b *= change["pp"]
        a *= change["pq"]
        b += a
        new = [np.fft.irfftn(x, self.shape, axes=axes) for x in (field, b)]
        for x, name in zip(new, "qp"):
            if change[name]:
                x += change[name]
        return new[0], new[1]


# --- phases -------------------------------------------------------------------------------------------------
def of_turns(t: Fraction) -> DD:
    """t/(2 pi), to 106 bits."""
    two_pi = sum((Fraction(w) for w in TWO_PI), Fraction(0))
    return DD(*of_fraction(t / two_pi))


def in_blocks(f: Callable[[DD], tuple[Any, ...]], x: DD) -> tuple[Any, ...]:
    """f of the elements of x, some thousand at a time: what it makes on the way stays in a cache."""
    high, low = np.ravel(x.high), np.ravel(x.low)
    parts = [f(DD(high[k : k + BLOCK], low[k : k + BLOCK])) for k in range(0, len(high), BLOCK)]
    return tuple(np.concatenate(column).reshape(x.shape) for column in zip(*parts))


def rest_of_turns(square: DD, per: DD) -> Any:
    """sqrt(square) * per, less whole turns: the same as by double-double numbers, in a third of the operations."""
    high = np.where(square.high > 0.0, square.high, 1.0)
    r = np.sqrt(high)
    p, e = two_product(r, r)
    low = ((high - p) - e + square.low) / (2.0 * r)  # of the root; the difference is exact
    turns, rest = two_product(r, per.high)
    rest += r * per.low + low * per.high
    turns -= np.rint(turns)
    turns += rest
    return turns


def fraction_of(turns: DD) -> Any:
    return (turns - DD(np.rint(turns.high))).rounded()


def turned(turns: Any) -> tuple[Any, Any]:
    """(sin, 1 - cos) of a number of turns, as floats."""
    half = np.pi * turns
    s = np.sin(half)
    return 2.0 * s * np.cos(half), 2.0 * s * s


def falling(m: StepMatrix, h: Fraction, n: int) -> tuple[Fraction, Fraction, Fraction]:
    """Drift, kick and fall of n steps where nothing pulls back."""
    return n * h * m.drift, n * h * m.kick, h * h * (m.fall * n + m.drift * m.kick * Fraction(n * (n - 1), 2))


def half_angle(square: DD, zero: Any) -> DD:
    """asin of the root of numbers between 0 and 1, by one step of Newton in double-double."""
    safe = where(zero, DD(np.full(square.shape, 0.25)), square)
    s, c = safe.sqrt(), (DD(1.0) - safe).sqrt()
    x = np.arctan2(s.high, c.high)
    sine, cosine = by_table(x)
    return where(zero, DD(np.zeros(square.shape)), DD(x) + (s * cosine - c * sine))


@lru_cache(maxsize=1)
def table() -> tuple[DD, DD]:
    """(sin, cos) of 0, 1/512, 2/512, ... up to a quarter turn."""
    s, c, _ = circle(DD(np.arange(int(FINE * np.pi / 2) + 2) / FINE))
    return s, c


def by_table(x: Any) -> tuple[DD, DD]:
    """(sin, cos) of floats from 0 to pi/2: those of the nearest entry, and a short series of what is left."""
    k = np.rint(x * FINE).astype(int)
    d = x - k / FINE  # exact
    square = DD(*two_product(d, d))
    d4 = square.high * square.high
    s = (
        DD(d)
        - square * (DD(*of_fraction(Fraction(1, 6))) * DD(d))
        + DD(d * d4 * (1 / 120 - square.high / 5040))
    )
    short = DD(square.high * d4 * (1 / 720 - square.high / 40320))
    less = square * (DD(0.5) - square * DD(*of_fraction(Fraction(1, 24)))) + short
    sine, cosine = (entry[k] for entry in table())
    return sine - sine * less + cosine * s, cosine - cosine * less - sine * s


def waves(
    shape: tuple[int, ...], stiffness: Weights, inverse_mass: Weights, force: Fraction, drift: Fraction
) -> Waves:
    """The modes of a lattice; a NoModes where a frequency cannot be told from 0."""
    half = even_axes(shape, stiffness, inverse_mass)
    k, w = spectrum(stiffness, shape, half), spectrum(inverse_mass, shape, half)
    zero = np.zeros(k.shape, bool)
    blurs, clean = [], []
    for sums, weights in ((k, stiffness), (w, inverse_mass)):
        blur = BLUR * float(sum(map(abs, weights.values()), Fraction(0)))
        none = exact_zeros(weights, shape, half)
        if (~none & (np.abs(sums.high) <= 8.0 * blur)).any():
            raise NoModes("the square of a frequency cannot be told from 0")
        zero |= none
        clean.append(where(none, DD(np.zeros(k.shape)), sums))
        blurs.append(blur)
    wrong = blurs[0] * float(np.abs(w.high).max()) + blurs[1] * float(np.abs(k.high).max())
    flat = w.high.min() == w.high.max() == 1.0 and not w.low.any()
    square = clean[0] if flat else clean[0] * clean[1]
    return Waves(shape, half, clean[0], clean[1], square, zero, float(force), float(drift), wrong)
