"""Who is bonded to whom?  From a list of bonds: chains, angles, dihedrals, and the pairs that do not interact otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.errors import InputError

WHOLE = "Bonds are rows (i, j) of two different indices, counted from 0."


def checked(bonds: Any, n: int | None = None) -> list[tuple[int, int]]:
    """Bonds as pairs of whole numbers: two different ones, below n if it is given."""
    try:
        rows = np.asarray(bonds, float)
    except (TypeError, ValueError):
        raise InputError(f"bonds={bonds!r} is not a list of pairs", fix=WHOLE) from None
    if rows.size == 0:
        return []
    if rows.ndim != 2 or rows.shape[1] != 2:
        raise InputError(f"bonds of shape {rows.shape}", fix=WHOLE)
    for row, (i, j) in enumerate(rows.tolist()):
        if i != i // 1 or j != j // 1 or i == j or min(i, j) < 0:
            raise InputError(f"bond {row} is ({i:g}, {j:g})", fix=WHOLE)
        if n is not None and max(i, j) >= n:
            raise InputError(
                f"bond {row} is ({i:g}, {j:g}), of {n} atoms",
                fix=f"The last atom is {n - 1}: they are counted from 0.",
            )
    return [(int(i), int(j)) for i, j in rows.tolist()]


def neighbours(bonds: Any, n: int | None = None) -> dict[int, list[int]]:
    """For each atom that has a bond those at its other ends, in order."""
    out: dict[int, set[int]] = {}
    for i, j in checked(bonds, n):
        out.setdefault(i, set()).add(j)
        out.setdefault(j, set()).add(i)
    return {i: sorted(out[i]) for i in sorted(out)}


def chains(count: int, length: int) -> Any:
    """The bonds of so many chains of so many atoms, one after the other.

    >>> chains(2, 3).tolist()
    [[0, 1], [1, 2], [3, 4], [4, 5]]
    """
    starts = np.arange(count * length).reshape(count, length)[:, :-1].ravel()
    return np.stack([starts, starts + 1], axis=1)


def rows(found: list[tuple[int, ...]], width: int) -> Any:
    return np.array(found, int).reshape(-1, width)


def angles(bonds: Any) -> Any:
    """All (i, j, k) with bonds i-j and j-k, i < k.

    >>> angles([(0, 1), (1, 2), (1, 3)]).tolist()
    [[0, 1, 2], [0, 1, 3], [2, 1, 3]]
    """
    near = neighbours(bonds)
    return rows([(i, j, k) for j in near for i in near[j] for k in near[j] if i < k], 3)


def dihedrals(bonds: Any) -> Any:
    """All (i, j, k, l) with bonds i-j, j-k and k-l, j < k; no atom twice.

    >>> dihedrals(chains(1, 5)).tolist()
    [[0, 1, 2, 3], [1, 2, 3, 4]]
    """
    near = neighbours(bonds)
    found = [(i, j, k, m) for j in near for k in near[j] if j < k for i in near[j] for m in near[k]]
    return rows([four for four in found if len(set(four)) == 4], 4)


def exclusions(bonds: Any, apart: int = 3) -> Any:
    """All pairs (i, j), i < j, that are at most so many bonds apart: 1 is 1-2, 2 also 1-3, 3 also 1-4.

    >>> exclusions(chains(1, 4), apart=2).tolist()
    [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]]
    """
    near = neighbours(bonds)
    found = set()
    for i in near:
        seen, edge = {i}, {i}
        for _ in range(apart):
            edge = {k for j in edge for k in near[j]} - seen
            seen |= edge
        found |= {(i, j) for j in seen if i < j}
    return rows(sorted(found), 2)


def partners(pairs: Any, n: int) -> Any:
    """Pairs as the table that pair_distance2(exclude=) takes as a parameter: (n, most), -1 where there is none.

    >>> partners([(0, 2), (1, 2)], 4).tolist()
    [[2, -1], [2, -1], [0, 1], [-1, -1]]
    """
    near = neighbours(pairs, n)
    out = np.full((n, max(1, *map(len, near.values())) if near else 1), -1)
    for i, others in near.items():
        out[i, : len(others)] = others
    return out
