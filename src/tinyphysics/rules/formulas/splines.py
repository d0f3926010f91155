"""What is a C² function on a grid?  A cubic B-spline of numbers beside the nodes, along one to three axes.

B(x) is the sum of c[j] b(x - j) with the cubic B-spline b, which has two continuous derivatives. Beyond each end of the
grid lies one more number; an axis that is periodic has its first numbers again behind its last. From values g at nodes
c = g - (second difference of g)/6, which gives them back to fourth order (de Boor's quasi-interpolant), with +, - and
* alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinyphysics.ir import UOp, i64

BESIDE = 3  # numbers along an axis besides its cells


def cubics(u: Any) -> list[Any]:
    """The four pieces of a cubic B-spline at u in [0, 1), of the nodes from -1 to 2; of numbers or expressions."""
    v = 1.0 - u
    return [
        v * v * v * (1 / 6),
        (u * u * (3.0 * u - 6.0) + 4.0) * (1 / 6),
        (v * v * (3.0 * v - 6.0) + 4.0) * (1 / 6),
        u * u * u * (1 / 6),
    ]


def spline(grid: UOp, at: Sequence[UOp], axes: Sequence[tuple[float, float, int, bool]]) -> UOp:
    """The spline at a place, NaN off its grid; `axes` are (low, high, cells, periodic), `grid` holds all in a row."""
    inside: UOp | None = None
    terms: list[tuple[UOp, list[UOp]]] = [(UOp.const(0.0), [])]
    for s, (low, high, n, periodic) in zip(at, axes):
        x = (s - low) * (n / (high - low))
        if periodic:
            x = x - n * (x * (1.0 / n)).floor()
        cell = x.floor()
        weights, size = cubics(x - cell), float(n + BESIDE)
        if not periodic:  # nowhere in the table: what is read there is NaN
            on = (x >= UOp.const(0.0)) & (x < UOp.const(float(n)))
            inside = on if inside is None else inside & on
        terms = [
            (index * size + (cell + float(j)), [*own, w])
            for index, own in terms
            for j, w in enumerate(weights)
        ]
    out = []
    for index, weights in terms:
        if inside is not None:
            index = inside.where(index, UOp.const(-1.0))
        value = grid.gather([index.cast(i64)])
        for w in weights:
            value = value * w
        out.append(value)
    return UOp.sum_of(out)
