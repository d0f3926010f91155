"""How sure is an average?  Its error where numbers that follow one another are alike, by a window and by blocks.

The error of the mean of n numbers with variance s² is s sqrt(2 tau/n), with the correlation time tau = 1/2 + sum of the
autocorrelations, summed up to a window of six tau (Sokal 1997, Wolff 2004). Blocks of numbers, long enough to be
independent (Lee, Ceperley and others 2011), have the same error if the series is long enough: where the two differ, or
copies that should be alike are not, the average has not converged, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.errors import InputError

WINDOW = 6.0  # correlation times that are summed: the rest is exp(-6) of them
FEWEST = 16  # numbers of a series
ENOUGH = 50.0  # independent numbers, below which an error says little about itself
APART = 0.35  # how far the two errors may be from each other, of the larger: that of 50 numbers is known to a tenth
FAR = 4.0  # standard deviations at which a part at the beginning is no part of the rest
PARTS = 40  # of the series, that are looked at where it begins


@dataclass(frozen=True)
class Statistics:
    """A mean with its error: one standard deviation of the mean, not of the numbers."""

    mean: float
    error: float
    tau: float  # correlation time, in numbers of the series: 1/2 where they are independent
    effective: float  # how many independent numbers would have this error
    start: int  # numbers at the beginning that are left out: the series had not settled
    trouble: str = ""  # why the error is not to be trusted; empty if it is

    @property
    def converged(self) -> bool:
        return not self.trouble

    def __str__(self) -> str:
        told = f" (not converged: {self.trouble})" if self.trouble else ""
        return f"{self.mean:.6g} ± {self.error:.2g}{told}"


def statistics(array: Any, members: bool = False) -> Any:
    """The mean of a series along its first axis, and how sure it is; `str()` prints both.

    array    numbers in the order of time; of more axes, an object array of Statistics, one for each place
    members  is the second axis one of copies of the same system?  Then all of them are one average

    Numbers at the beginning that are far from the second half are left out, and `start` says how many.
    """
    try:
        if array is None or np.iscomplexobj(array):
            raise TypeError
        x = np.asarray(array, float)
    except (TypeError, ValueError):
        raise InputError(
            "statistics of what is no array of real numbers", fix='Pass a series: out["name"]; of z, z.real.'
        ) from None
    if x.ndim < 1 or len(x) < FEWEST:
        raise InputError(
            f"statistics of {len(x) if x.ndim else 1} numbers: an error needs {FEWEST} or more",
            fix='Pass a longer series: out["name"] of a run that observes every step.',
        )
    if not np.isfinite(x).all():
        raise InputError("statistics of numbers that are not finite", fix="Leave them out.")
    rows = x[:, None] if not members else x
    if members and x.ndim < 2:
        raise InputError("members=True for a series without a second axis", fix="Leave members= out.")
    places = rows.shape[2:]
    if not places:
        return of_copies(rows)
    out = np.empty(places, object)
    for k in np.ndindex(places):
        out[k] = of_copies(rows[(slice(None), slice(None), *k)])
    return out


def of_copies(x: Any) -> Statistics:
    """Of (numbers, copies)."""
    start = settled(x)
    x = x[start:]
    n, copies = x.shape
    mean = float(x.mean())
    tau, variance = correlation_time(x - mean)
    error = float(np.sqrt(2.0 * tau * variance / x.size))
    effective = x.size / (2.0 * tau)
    return Statistics(mean, error, tau, effective, start, trouble_of(x, mean, error, tau, effective))


def correlation_time(y: Any) -> tuple[float, float]:
    """(tau, variance) of numbers without their mean, copies taken together."""
    n = len(y)
    size = 1 << (2 * n - 1).bit_length()
    found = np.zeros(size // 2 + 1)
    for k in range(y.shape[1]):
        found += np.abs(np.fft.rfft(y[:, k], size)) ** 2
    rho = np.fft.irfft(found, size)[:n] / (y.shape[1] * np.arange(n, 0, -1))
    variance = float(rho[0])
    if not variance > 0.0:
        return 0.5, 0.0
    sums = 0.5 + np.cumsum(rho[1:] / variance)
    windows = np.arange(1, n)
    if rho[1] < 0.0:  # they alternate: pairs of them do not
        pairs = rho[: n - n % 2].reshape(-1, 2).sum(1)
        sums, windows = np.cumsum(pairs) / variance - 0.5, np.arange(1, len(pairs) + 1)
        memory = np.cumsum(pairs) / pairs[0] - 0.5 if pairs[0] > 0 else np.full(len(pairs), np.inf)
        ends = np.flatnonzero(windows >= WINDOW * memory)
    else:
        ends = np.flatnonzero(windows >= WINDOW * sums)
    w = int(ends[0]) if len(ends) else len(sums) - 1
    lost = 1.0 + (2 * (w + 1) + 1) / (n * y.shape[1])  # the mean is that of the same numbers
    return max(float(sums[w]) * lost, 0.5 / n), variance


def settled(x: Any) -> int:
    """Where a series begins to be like its second half."""
    n, copies = x.shape
    half = x[n // 2 :]
    tau, variance = correlation_time(half - half.mean())
    size = max(n // PARTS, 1)
    each = np.sqrt(variance * min(2.0 * tau / size, 1.0) / copies)
    late = np.sqrt(2.0 * tau * variance / half.size)
    start = 0
    while start + size <= n // 2:
        if abs(x[start : start + size].mean() - half.mean()) <= FAR * np.hypot(each, late):
            break
        start += size
    return start


def blocked(x: Any) -> float:
    """The error of the mean by blocks: twice as long ones until they are independent."""
    first, size, y = x.var(), 1, x
    while len(y) >= 2 * FEWEST:
        squares = y.var(ddof=1) / y.size
        if not first or size**3 > 2 * x.size * (squares / (first / x.size)) ** 2:
            return float(np.sqrt(squares))
        y = (y[: len(y) // 2 * 2 : 2] + y[1 : len(y) // 2 * 2 : 2]) / 2
        size *= 2
    return float(np.sqrt(y.var(ddof=1) / y.size)) if y.size > 1 else float("inf")


def trouble_of(x: Any, mean: float, error: float, tau: float, effective: float) -> str:
    if error == 0.0:
        return ""
    if effective < ENOUGH:
        return f"{effective:.0f} independent numbers"
    by_blocks = blocked(x)
    if abs(by_blocks - error) > APART * max(by_blocks, error):
        return f"blocks give an error of {by_blocks:.2g}, a window {error:.2g}"
    if x.shape[1] >= 8:
        spread = x.mean(0).std(ddof=1) / np.sqrt(x.shape[1])
        if spread > 2.0 * error:
            return f"copies differ by {spread / error:.1f} times what their noise explains"
    return ""
