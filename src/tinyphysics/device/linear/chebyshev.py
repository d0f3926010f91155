"""The flow of many springs, as a polynomial of their matrix that is applied to the state: nothing is taken apart.

With A = L K L of eigenvalues from 0 to `largest`, cos(sqrt(A) t) and sin(sqrt(A) t)/sqrt(A) are series of Chebyshev
polynomials whose coefficients are Bessel functions: as many terms as the fastest mode turns by radians, halved, and some.
A mode of frequency 0 needs no decision: a polynomial of 0 is what it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tinyphysics.device.linear.modes import NoModes

MOST_TERMS = 20_000  # each may round by 2**-51: then a result is right to 1e-11
SMALL = 1e-19  # a coefficient below is left out
Rows = Sequence[Mapping[int, Any]]


def bessel(r: float) -> list[float]:
    """J_0(r), J_1(r), ... down to those that are below SMALL, for r > 0: Miller's recursion from far out."""
    count = int(r + 3.0 * math.sqrt(r) + 60.0)
    first = count + 20 + int(4.0 * math.sqrt(count))
    out, above, here = [0.0] * (first + 1), 0.0, 1e-300
    for k in range(first, 0, -1):
        out[k] = here
        above, here = here, 2.0 * k / r * here - above
        if abs(here) > 1e200:
            above, here = above * 1e-200, here * 1e-200
            for j in range(k, min(k + 400, first) + 1):  # beyond, they are nothing beside these
                out[j] *= 1e-200
            for j in range(k + 400, first + 1):
                if out[j] == 0.0:
                    break
                out[j] = 0.0
    out[0] = here
    norm = math.fsum([out[0], *(2.0 * x for x in out[2::2])])
    values = [x / norm for x in out]
    last = max(k for k, x in enumerate(values) if abs(x) >= SMALL)
    return values[: last + 1]


@dataclass(frozen=True, eq=False)
class Springs:
    """A in rows of one length, and the scale that takes positions and momenta to its coordinates."""

    columns: Any  # (width, n)
    weights: Any
    scale: Any  # (n, 1): sqrt of the inverse masses
    largest: float  # no eigenvalue is above

    def times(self, x: Any) -> Any:
        """A x, each row added in the order of its columns."""
        out = self.weights[0][:, None] * x[self.columns[0]]
        for c, w in zip(self.columns[1:], self.weights[1:]):
            out += w[:, None] * x[c]
        return out

    def series(self, t: float) -> list[float]:
        """The Bessel functions of a time, or a NoModes if there are too many."""
        r = math.sqrt(self.largest) * abs(t)
        if r > 2.0 * MOST_TERMS:
            raise NoModes(f"a polynomial of {r / 2:,.0f} terms, {MOST_TERMS:,} at most")
        return bessel(r) if r > 0.0 else [1.0]

    def apply(self, series: Sequence[float], t: float, q: Any, p: Any) -> tuple[Any, Any]:
        """Positions and momenta (components, members) after a time."""
        members = q.shape[1]
        z = np.concatenate([q / self.scale, p * self.scale], axis=1)
        root = math.sqrt(self.largest)

        def shifted(x: Any) -> Any:
            """(2 A/largest - 1) x: its eigenvalues are from -1 to 1."""
            return (2.0 / self.largest) * self.times(x) - x

        before, now = z, shifted(z) if len(series) > 1 else z  # T_0 z, T_1 z
        odd = z  # V_0 z, where V_k(2 x**2 - 1) = T_(2k+1)(x)/x
        cosine, sine = series[0] * z, (2.0 * series[1] if len(series) > 1 else 0.0) * z
        for k in range(1, (len(series) + 1) // 2):
            sign = -2.0 if k % 2 else 2.0
            cosine += (sign * series[2 * k]) * now
            odd = 2.0 * now - odd
            if 2 * k + 1 < len(series):
                sine += (sign * series[2 * k + 1]) * odd
            before, now = now, 2.0 * shifted(now) - before
        sine *= math.copysign(1.0 / root, t) if root else t
        x = cosine[:, :members] + sine[:, members:]
        y = cosine[:, members:] - self.times(np.ascontiguousarray(sine[:, :members]))
        return x * self.scale, y / self.scale


def springs(k: Rows, w: Rows, n: int) -> Springs:
    """Of a diagonal w above 0 and a k without negative eigenvalues: each row's own weight is no less than all others."""
    masses = []
    for i, row in enumerate(w):
        if set(row) - {i} or row.get(i, 0) <= 0:
            raise NoModes("the matrix of the momenta is not diagonal, with entries above 0")
        masses.append(Fraction(row[i]))
    for i, row in enumerate(k):
        if row.get(i, 0) < sum(abs(c) for j, c in row.items() if j != i):
            raise NoModes(
                f"the springs at {i} are not shown to pull back: other entries of its row outweigh its own"
            )
    largest = max((m * sum(map(abs, row.values())) for m, row in zip(masses, k)), default=Fraction(0))
    width = max((len(row) for row in k), default=0) or 1
    columns, weights = np.zeros((width, n), np.int64), np.zeros((width, n))
    scale = np.array([math.sqrt(m.numerator / m.denominator) for m in masses])
    for i, row in enumerate(k):
        for j, (c, x) in enumerate(sorted(row.items())):
            columns[j, i], weights[j, i] = c, scale[i] * float(x) * scale[c]
    return Springs(columns, weights, scale[:, None], float(largest) * (1.0 + 2.0**-40))
