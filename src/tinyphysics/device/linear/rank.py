"""How many dimensions does the null space of a matrix of rational numbers have, exactly?

The rank modulo a prime is never above the true one; vectors that the prime suggests are tried in whole numbers. Where
both agree the answer is proved; else the matrix is eliminated in whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

PRIME = 2_147_483_629  # below 2**31: a product of two residues fits into 64 bits
MOST = 96  # rows that are eliminated in whole numbers
Sparse = Sequence[Mapping[int, Any]]  # rows: {column: number}


class Undecided(ArithmeticError):
    """A null space that is too large a task to decide."""


def whole(rows: Sparse) -> list[dict[int, int]]:
    """Each row times a number, so that its entries are whole: the null space is the same."""
    out = []
    for row in rows:
        entries = {k: Fraction(x) for k, x in row.items() if x}
        common = math.lcm(*(x.denominator for x in entries.values()))
        numbers = {k: int(x * common) for k, x in entries.items()}
        shared = math.gcd(*numbers.values())
        out.append({k: x // shared for k, x in numbers.items()})
    return out


def echelon(a: Any) -> list[int]:
    """The columns of the pivots; a becomes its reduced row echelon form modulo the prime, in place."""
    n, pivots, r = len(a), [], 0
    for c in range(a.shape[1]):
        found = np.flatnonzero(a[r:, c])
        if not len(found):
            continue
        k = r + int(found[0])
        a[[r, k]] = a[[k, r]]
        a[r] = a[r] * pow(int(a[r, c]), -1, PRIME) % PRIME
        others = np.flatnonzero(a[:, c])
        others = others[others != r]
        there = np.flatnonzero(a[r])  # where the row is 0 nothing is taken away
        rest = np.ix_(others, there)
        a[rest] = (a[rest] - a[others, c][:, None] * a[r, there] % PRIME) % PRIME
        pivots.append(c)
        r += 1
        if r == n:
            break
    return pivots


def rank(a: Any) -> int:
    """Modulo the prime, by elimination downwards alone; a is used up."""
    r = 0
    for c in range(a.shape[1]):
        found = np.flatnonzero(a[r:, c])
        if not len(found):
            continue
        k = r + int(found[0])
        a[[r, k]] = a[[k, r]]
        below = r + found[1:] if k == r else r + np.flatnonzero(a[r + 1 :, c]) + 1
        there = np.flatnonzero(a[r, c:]) + c
        row = a[r, there] * pow(int(a[r, c]), -1, PRIME) % PRIME
        rest = np.ix_(below, there)
        a[rest] = (a[rest] - a[below, c][:, None] * row) % PRIME
        r += 1
        if r == len(a):
            break
    return r


def fraction(x: int) -> Fraction | None:
    """The small fraction with this residue, if there is one."""
    most = math.isqrt(PRIME // 2)
    a, b, u, v = PRIME, x % PRIME, 0, 1
    while b > most:
        q = a // b
        a, b, u, v = b, a - q * b, v, u - q * v
    return Fraction(b, v) if v and abs(v) <= most else None


def vanishes(rows: list[dict[int, int]], v: Mapping[int, Fraction]) -> bool:
    return all(sum((x * v[k] for k, x in row.items() if k in v), Fraction(0)) == 0 for row in rows)


def rank_in_whole_numbers(rows: list[dict[int, int]], n: int) -> int:
    """By elimination without fractions (Bareiss 1968)."""
    a = [[row.get(k, 0) for k in range(n)] for row in rows]
    r, last = 0, 1
    for c in range(n):
        k = next((i for i in range(r, len(a)) if a[i][c]), None)
        if k is None:
            continue
        a[r], a[k] = a[k], a[r]
        top, pivot = a[r], a[r][c]
        for row in a[r + 1 :]:
            x = row[c]
            for j in range(c + 1, n):
                row[j] = (pivot * row[j] - x * top[j]) // last
            row[c] = 0
        last = pivot
        r += 1
    return r


def nullity(rows: Sparse, n: int) -> int:
    """Of a square matrix of n rows.

    >>> nullity([{0: 1, 1: -1}, {0: -1, 1: 1}], 2)
    1
    """
    numbers = whole(rows)
    a = np.zeros((n, n), np.int64)
    for i, row in enumerate(numbers):
        for k, x in row.items():
            a[i, k] = x % PRIME
    if rank(a.copy()) == n:
        return 0
    pivots = echelon(a)
    free = [c for c in range(n) if c not in set(pivots)]
    for c in free:
        v = {p: fraction(-int(a[i, c])) for i, p in enumerate(pivots) if a[i, c]} | {c: Fraction(1)}
        known = {k: x for k, x in v.items() if x is not None}
        if len(known) < len(v) or not vanishes(numbers, known):
            if n > MOST:
                raise Undecided(f"the null space of {n} rows")
            return n - rank_in_whole_numbers(numbers, n)
    return len(free)
