"""A field whose sites are all alike: waves of each wavelength are modes, and the Fourier transform finds them.

Frequencies and phases are double-double, the transform is NumPy's: a result is right to rounding, and its last bits
are those of a library.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from tinyphysics.device.dd import DD, TWO_PI, as_dd, circle, hyperbola, of_fraction, where
from tinyphysics.device.modes import NoModes, StepMatrix, Unstable, value

Weights = Mapping[tuple[int, ...], Fraction]
PHASE = 1e-13  # radians that a run may be wrong by: a transform rounds by as much
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


def spectrum(weights: Weights, shape: tuple[int, ...]) -> DD:
    """The sum of weight * cos(k.shift) for each wave: of a constant first, then what cosines take from it."""
    ndim = len(shape)
    sizes = [*shape[:-1], shape[-1] // 2 + 1]
    out = DD(*of_fraction(sum(weights.values(), Fraction(0))))
    lines: dict[int, DD] = {}
    for shift, w in weights.items():
        moved = [a for a, s in enumerate(shift) if s]
        weight = DD(*of_fraction(w))
        if len(moved) == 1:
            (a,) = moved
            less = circle(angles(shape[a], shift[a], a == ndim - 1))[2] * weight
            lines[a] = lines[a] + less if a in lines else less
        elif moved:
            out = out - crossed(shift, shape) * weight
    for a, line in lines.items():
        out = out - along(line, a, ndim)
    return DD(np.broadcast_to(out.high, sizes), np.broadcast_to(out.low, sizes))


def crossed(shift: tuple[int, ...], shape: tuple[int, ...]) -> DD:
    """1 - cos(k.shift) of a shift along several axes."""
    ndim, less, s = len(shape), DD(0.0), DD(0.0)
    for a, by in enumerate(shift):
        if by:
            sine, cosine, l2 = (along(x, a, ndim) for x in circle(angles(shape[a], by, a == ndim - 1)))
            less, s = less * cosine + l2 + s * sine, s * cosine + (DD(1.0) - less) * sine
    return less


def exact_zeros(weights: Weights, shape: tuple[int, ...]) -> Any:
    """Waves along which every site is equal or opposite to the next, whose sum is exactly 0."""
    sizes = [*shape[:-1], shape[-1] // 2 + 1]
    out = np.zeros(sizes, bool)
    for corner in product(*((0, n // 2) if n % 2 == 0 else (0,) for n in shape)):
        signs = [sum(s for s, c in zip(shift, corner) if c) % 2 for shift in weights]
        out[corner] = sum((-w if odd else w for odd, w in zip(signs, weights.values())), Fraction(0)) == 0
    return out


@dataclass(eq=False)
class Waves:
    """The frequencies of a lattice, and what a jump makes of its waves."""

    shape: tuple[int, ...]
    stiffness: DD  # of each wave
    inverse_mass: DD
    square: DD  # omega**2
    zero: Any
    force: float
    drift: float
    wrong: float  # of omega**2
    begun: dict[str, Any] = field(default_factory=dict)

    def phase_error(self, t: float) -> float:
        """By how many radians a phase may be wrong after a time, at most."""
        size = np.abs(self.square.high)
        least, most = size.min(initial=np.inf, where=~self.zero), size.max(initial=0.0)
        return float(self.wrong * abs(t) / 2.0 / np.sqrt(least) + np.sqrt(most) * abs(t) * 2.0**-100)

    def changes(self, h: Fraction, n: int, m: StepMatrix | None) -> dict[str, Any]:
        """How much of each old wave is in the new ones, in floats."""
        turning, growing = self.square.high > 0.0, (self.square.high < 0.0) & ~self.zero
        t, step = float(n * h), DD(*of_fraction(h))
        if (phase := self.phase_error(t)) > PHASE:
            raise NoModes(f"phases would be known to {phase:.0e} only")
        if m is None:
            omega = self.square.abs().sqrt()
            safe = np.where(self.zero, 1.0, omega.rounded())
            sine, less = turned(omega, of_turns(n * h))
            ratio, fall = sine / safe, less / safe**2
            size = (self.inverse_mass.high * ratio, self.stiffness.high * ratio)
            cosine = (1.0 - less, 1.0 - less)
        else:
            x = self.square * (step * step)
            quarter = (x * value(m.turning, x)).scaled(0.25)
            limit = m.limit()
            over = turning & ((quarter.high <= 0.0) | (quarter.high >= 1.0) | (x.high >= limit**2)) & ~self.zero
            if over.any():
                raise Unstable(f"omega*dt is {float(np.sqrt(x.high.max())):.4g}, and the method turns below {limit:.4g} only")
            if growing.any():
                raise NoModes("some waves grow, which the power of a method does not do on a lattice yet")
            s = np.clip(quarter.rounded(), 0.0, 1.0)
            half = half_angle(quarter, self.zero)
            sine, less = turned(half, of_turns(Fraction(2 * n)))
            ratio = sine / np.where(self.zero, 1.0, 2.0 * np.sqrt(s * (1.0 - s)))
            p, hh = x.rounded(), float(step.high)
            skew = np.polyval([float(c) for c in reversed(m.uneven)], p) * ratio
            fall = (less / np.where(self.zero, 1.0, p) - skew) * hh * hh
            b, c = (np.polyval([float(c) for c in reversed(k)], p) * ratio * hh for k in (m.b, m.c))
            size = (self.inverse_mass.high * b, self.stiffness.high * c)
            cosine = (1.0 - less + skew * p, 1.0 - less - skew * p)
        if m is None and growing.any():
            grown = self.square.abs().sqrt() * DD(*of_fraction(n * h))
            sh, _, le = hyperbola(where(growing, grown.abs(), DD(np.zeros(grown.shape))))
            sign = np.where(t < 0, -1.0, 1.0)
            ratio = np.where(growing, sign * sh.rounded() / safe, ratio)
            fall = np.where(growing, -le.rounded() / safe**2, fall)
            less = np.where(growing, le.rounded(), less)
            size, cosine = (self.inverse_mass.high * ratio, self.stiffness.high * ratio), (1.0 - less, 1.0 - less)
        if self.zero.any():
            drift, kick, half_t2 = t, t, t * t / 2.0
            if m is not None:
                drift, kick = t * float(m.drift), t * float(m.kick)
                half_t2 = float(h * h * (m.fall * n + m.drift * m.kick * Fraction(n * (n - 1), 2)))
            z = self.zero
            size = (np.where(z, self.inverse_mass.high * drift, size[0]), np.where(z, self.stiffness.high * kick, size[1]))
            cosine = (np.where(z, 1.0, cosine[0]), np.where(z, 1.0, cosine[1]))
            fall = np.where(z, half_t2, fall)
        return {"qq": cosine[0], "qp": size[0], "pq": -size[1], "pp": cosine[1], **self.constants(fall, size)}

    def constants(self, fall: Any, size: Any) -> dict[str, Any]:
        """What constant forces and drifts add to the mean field and momentum."""
        at = (0,) * len(self.shape)
        w, k = float(self.inverse_mass.high[at]), float(self.stiffness.high[at])
        per_force = float(size[1][at]) / k if k else float(size[0][at]) / w if w else 0.0
        per_drift = float(size[0][at]) / w if w else per_force
        return {"q": per_drift * self.drift - w * float(fall[at]) * self.force,
                "p": -per_force * self.force - k * float(fall[at]) * self.drift}  # fmt: skip

    def apply(self, change: Mapping[str, Any], q: Any, p: Any) -> tuple[Any, Any]:
        """Fields (members, shape...) after the change."""
        axes = tuple(range(1, 1 + len(self.shape)))
        a, b = (np.fft.rfftn(x, axes=axes) for x in (q, p))
        field_ = a * change["qq"]
        field_ += b * change["qp"]
        b *= change["pp"]
        a *= change["pq"]
        b += a
        new = [np.fft.irfftn(x, self.shape, axes=axes) for x in (field_, b)]
        for x, name in zip(new, "qp"):
            if change[name]:
                x += change[name]
        return new[0], new[1]


def of_turns(t: Fraction) -> DD:
    """t/(2 pi), to 106 bits."""
    two_pi = sum((Fraction(w) for w in TWO_PI), Fraction(0))
    return DD(*of_fraction(t / two_pi))


def turned(omega: DD, per: DD) -> tuple[Any, Any]:
    """(sin, 1 - cos) of omega times a number of turns, as floats."""
    turns = omega * per
    rest = turns - DD(np.rint(turns.high))
    angle = TWO_PI[0] * rest.rounded()
    half = np.sin(0.5 * angle)
    return np.sin(angle), 2.0 * half * half


def half_angle(square: DD, zero: Any) -> DD:
    """asin of the root of numbers between 0 and 1, by one step of Newton in double-double."""
    safe = where(zero, DD(np.full(square.shape, 0.25)), square)
    s, c = safe.sqrt(), (DD(1.0) - safe).sqrt()
    x = as_dd(np.arctan2(s.high, c.high))
    sine, cosine, _ = circle(x)
    return where(zero, DD(np.zeros(square.shape)), x + (s * cosine - c * sine))


def waves(shape: tuple[int, ...], stiffness: Weights, inverse_mass: Weights, force: Fraction, drift: Fraction) -> Waves:
    """The modes of a lattice; a NoModes where a frequency cannot be told from 0."""
    k, w = spectrum(stiffness, shape), spectrum(inverse_mass, shape)
    zero = np.zeros(k.shape, bool)
    blurs, clean = [], []
    for sums, weights in ((k, stiffness), (w, inverse_mass)):
        blur = BLUR * float(sum(map(abs, weights.values()), Fraction(0)))
        none = exact_zeros(weights, shape)
        if (~none & (np.abs(sums.high) <= 8.0 * blur)).any():
            raise NoModes("the square of a frequency cannot be told from 0")
        zero |= none
        clean.append(where(none, DD(np.zeros(k.shape)), sums))
        blurs.append(blur)
    wrong = blurs[0] * float(np.abs(w.high).max()) + blurs[1] * float(np.abs(k.high).max())
    flat = w.high.min() == w.high.max() == 1.0 and not w.low.any()
    square = clean[0] if flat else clean[0] * clean[1]
    return Waves(shape, clean[0], clean[1], square, zero, float(force), float(drift), wrong)
