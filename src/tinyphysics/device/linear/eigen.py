"""Eigenvalues and vectors of a symmetric matrix to 30 digits, clusters included, with a bound of what is wrong.

Vectors in floats are refined in double-double: all separated pairs at once (Ogita and Aishima 2018), then what is left
between neighbours by rotations (Jacobi 1846), which need no gap. Up to MOST_ROTATED rows the floats are from rotations
too, and the bits of a result depend on the matrix alone; beyond, they are LAPACK's, products are made to the digits that
count, and each cluster is a smaller matrix of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.device.linear.double_double import BITS, DD, Sliced, gram, matmul, where

MOST_ROTATED = 96
SWEEPS = 30  # more than any matrix was seen to need; a bound tells if they were too few
REFINEMENTS = 5
LARGEST_TURN = (
    2.0**-20
)  # of a vector towards another in one refinement: what would turn by more is left to rotations


@dataclass(frozen=True, eq=False)
class Eigen:
    values: DD  # (n,), in the order of growing
    vectors: DD  # (n, n), columns
    wrong: float  # a symmetric matrix with exactly these pairs differs from the given one by no more, in norm
    askew: float  # the norm of vectors^T vectors - 1 is no larger


def rounds(n: int) -> Iterator[tuple[Any, Any]]:
    """Disjoint pairs of rows, so that n - 1 rounds (n, if n is odd) meet every pair once: a tournament."""
    ring = [*range(n), *([-1] if n % 2 else [])]
    half = len(ring) // 2
    for _ in range(len(ring) - 1):
        pairs = [(a, b) for a, b in zip(ring[:half], ring[: half - 1 : -1]) if a >= 0 and b >= 0]
        yield np.array([min(p) for p in pairs]), np.array([max(p) for p in pairs])
        ring = [ring[0], ring[-1], *ring[1:-1]]


def plain(x: Any) -> Any:
    return x.high if isinstance(x, DD) else x


def turn(a: Any, i: Any, j: Any, c: Any, s: Any) -> None:
    """Rows i and j of a, turned against each other."""
    x, y = a[i], a[j]
    a[i], a[j] = c * x - s * y, s * x + c * y


def sweep(a: Any, v: Any) -> None:
    """One rotation for every pair of rows; a becomes more diagonal, v (rows are vectors) follows. In place.

    The angle may be rough: what must be exact is that it is a rotation.
    """
    for i, j in rounds(len(a)):
        off, gap = plain(a[i, j]), plain(a[j, j] - a[i, i])  # a gap may be in the low words alone
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            tau = gap / (2.0 * off)
            t = np.where(tau >= 0.0, 1.0, -1.0) / (np.abs(tau) + np.sqrt(1.0 + tau * tau))
        t = np.where((off == 0.0) | ~np.isfinite(t), 0.0, t)[:, None]
        if isinstance(a, DD):
            c: Any = DD(1.0) / (DD(t) * DD(t) + 1.0).sqrt()
        else:
            c = 1.0 / np.sqrt(1.0 + t * t)
        s = c * t
        turn(a, i, j, c, s)
        b = a.T() if isinstance(a, DD) else a.T.copy()
        turn(b, i, j, c, s)
        if isinstance(a, DD):
            a.high[:], a.low[:] = b.high, b.low  # the transpose of a symmetric matrix
        else:
            a[:] = b
        turn(v, i, j, c, s)


def off_diagonal(a: Any) -> float:
    p = np.abs(plain(a))
    np.fill_diagonal(p, 0.0)
    return float(p.max()) if p.size else 0.0


def rotated(a: Any, v: Any, small: float) -> None:
    """Sweeps until nothing larger is left beside the diagonal, or sweeping no longer helps."""
    best = np.inf
    for _ in range(SWEEPS):
        left = off_diagonal(a)
        if left <= small or left >= best and best < 1e3 * small:
            return
        best = left
        sweep(a, v)


def beginning(a: Any) -> Any:
    """Vectors of a float matrix, as columns."""
    work, v = a.copy(), np.eye(len(a))
    rotated(work, v, 2.0**-51 * float(np.abs(a).max(initial=0.0)))
    return v.T.copy()


def correction(s: DD, r: DD) -> DD:
    """How vectors x have to change (Ogita and Aishima), with s = x^T a x and r = 1 - x^T x.

    What is too close to be told apart is only made orthogonal.
    """
    n = len(s)
    diagonal = np.arange(n)
    value = s[diagonal, diagonal] / (DD(1.0) - r[diagonal, diagonal])
    gap = value[None, :] - value[:, None]
    size = float(np.abs(value.high).max(initial=0.0))
    blur = 2.0 * n * (off_diagonal(s) + size * float(np.abs(r.high).max(initial=0.0)))
    part = s + value[None, :] * r
    near = (np.abs(gap.high) <= blur) | (np.abs(part.high) > LARGEST_TURN * np.abs(gap.high))
    safe = where(near, DD(np.ones((n, n))), gap)
    return where(near, r.scaled(0.5), part / safe)


def refined(a: DD, x: DD) -> DD:
    """One step of refinement."""
    r, s = DD(np.eye(len(a))) - gram(x), matmul(x.T(), matmul(a, x))
    return x + matmul(x, correction(s, r))


def orthogonal(x: DD) -> DD:
    """Nearly orthogonal vectors, made orthogonal (Newton and Schulz)."""
    for _ in range(SWEEPS):
        skew = DD(np.eye(len(x))) - gram(x)
        x = x + matmul(x, skew.scaled(0.5))
        if np.abs(skew.high).max(initial=0.0) < 2.0**-56:  # its square is what is left
            return x
    return x


# --- many rows ------------------------------------------------------------------------------------------------
FLOOR = 2.0**-104  # of products of unit vectors
CLOSE = 2.0**-10  # values of a cluster, over the largest
SETTLED = 2.0**-64  # a correction below it leaves its square, which is rounding


def rotation(s: DD, r: DD, rounding: float) -> DD:
    """As `correction`, in two parts: what makes vectors orthogonal, and turns that are opposite for the two of a pair.

    Rounding that is divided by a small gap then turns vectors, and does not make them skew.
    """
    n = len(s)
    diagonal = np.arange(n)
    value = s[diagonal, diagonal] / (DD(1.0) - r[diagonal, diagonal])
    gap, mean = value[None, :] - value[:, None], (value[None, :] + value[:, None]).scaled(0.5)
    part = s + mean * r
    part = (part + part.T()).scaled(0.5)
    blur = 2.0 * n * (off_diagonal(part) + rounding)
    near = (np.abs(gap.high) <= blur) | (np.abs(part.high) > LARGEST_TURN * np.abs(gap.high))
    near |= np.abs(part.high) <= rounding
    turn = part / where(near, DD(np.ones((n, n))), gap)
    return where(near, DD(np.zeros((n, n))), turn) + r.scaled(0.5)


def quickly_refined(a: DD, x: DD, small: float) -> DD:
    """Vectors of floats made right in double-double, but for turns within clusters."""
    one, whole = DD(np.eye(len(a))), Sliced(a)
    for _ in range(REFINEMENTS):
        change = rotation(Sliced(x.T()) @ (whole @ x), one - gram(x), small / len(a))
        largest = float(np.abs(change.high).max(initial=0.0))
        x = x + Sliced(x).times(change, max(1, BITS + 4 + math.frexp(largest)[1]))  # of 106 bits, the last
        if largest < SETTLED:
            break
    return x


def column_sums(x: DD) -> DD:
    while len(x) > 1:
        half = len(x) // 2
        rest = x[2 * half :]
        x = x[:half] + x[half : 2 * half]
        if len(rest):
            x[:1] = x[:1] + rest
    return x[0]


def groups(linked: Any) -> Iterator[Any]:
    """Rows that hang together, each group of two or more."""
    left = set(np.flatnonzero(linked.any(axis=1)).tolist())
    while left:
        found, waiting = set(), [left.pop()]
        while waiting:
            k = waiting.pop()
            found.add(k)
            new = [j for j in np.flatnonzero(linked[k]).tolist() if j in left]
            left.difference_update(new)
            waiting += new
        yield np.array(sorted(found))


def parted(a: DD, x: DD, small: float) -> DD:
    """Vectors of clusters turned within them: there the matrix less its common value is a small one of its own scale."""
    s = matmul(x.T(), matmul(a, x))
    s = (s + s.T()).scaled(0.5)
    linked = np.abs(s.high) > small
    np.fill_diagonal(linked, False)
    for group in groups(linked):
        inner = np.ix_(group, group)
        own = DD(s.high[inner], s.low[inner]) - DD(np.eye(len(group))) * s[group[0], group[0]]
        if np.abs(own.high).max() > CLOSE * np.abs(s.high).max():
            continue  # no cluster: it is left to rotations
        x[:, group] = matmul(x[:, group], eigen(own).vectors)
    return x


def judged(a: DD, x: DD, values: DD, ax: DD) -> tuple[Eigen, float]:
    """(the pairs in their order with the bounds of what is wrong, the largest number of a x - x values)."""
    n = len(a)
    order = np.argsort(values.high, kind="stable")
    values, x, ax = values[order], x[:, order], ax[:, order]
    rest, skew = ax - x * values[None, :], gram(x) - DD(np.eye(n))
    floor = n * n * FLOOR  # of the products that measure it
    whole = float(np.abs(a.high).sum(axis=1).max(initial=0.0))  # a bound of the norm
    askew = float(np.sqrt((skew.high**2).sum())) + floor
    wrong = float(np.sqrt((rest.high**2).sum())) + floor * whole + 2 * askew * whole
    return Eigen(values, x, wrong, askew), float(np.abs(rest.high).max(initial=0.0))


def large(a: DD, small: float) -> tuple[Eigen | None, DD]:
    """(the pairs of a matrix of many rows, None if something is left beside the diagonal; the vectors so far)."""
    x = quickly_refined(a, DD(np.linalg.eigh(a.high)[1]), small)
    for again in (True, False):
        ax = matmul(a, x)
        found, left = judged(a, x, column_sums(x * ax) / column_sums(x * x), ax)
        if left <= 2 * small and found.askew <= 2 * len(a) ** 2 * FLOOR:
            return found, x
        if again:
            x = orthogonal(parted(a, x, small) if left > 2 * small else x)
    return None, x


def eigen(a: DD) -> Eigen:
    """The eigenpairs of a symmetric matrix; of `wrong` it is known that it holds."""
    n, size = len(a), float(np.abs(a.high).max(initial=0.0))
    small = n * size * 2.0**-104
    if n > MOST_ROTATED:
        found, x = large(a, small)
        if found is not None:
            return found
    else:
        x = orthogonal(DD(beginning(a.high)))
    for _ in range(REFINEMENTS):
        if off_diagonal(matmul(x.T(), matmul(a, x))) <= small:
            break
        x = refined(a, x)
    x = orthogonal(x)
    s = matmul(x.T(), matmul(a, x))
    s = (s + s.T()).scaled(0.5)
    if off_diagonal(s) > small:
        v = DD(np.eye(n))
        rotated(s, v, small)
        x = orthogonal(matmul(x, v.T()))
        s = matmul(x.T(), matmul(a, x))
    diagonal = np.arange(n)
    return judged(a, x, s[diagonal, diagonal], matmul(a, x))[0]
