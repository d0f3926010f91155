"""Rows of three numbers, and columns of arrays: products of vectors as expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp


def columns(u: UOp) -> list[UOp]:
    """The numbers along the last axis, each an array of the axes before."""
    return [u[..., k] for k in range(u.shape[-1])]


def from_columns(items: Sequence[UOp]) -> UOp:
    """An array with these along a new last axis."""
    if not items[0].shape:
        return UOp.stack(list(items))
    rows = [x.reshape(*x.shape, 1) for x in items]
    shape = (*items[0].shape, len(items))
    return UOp(Ops.CONCAT, rows[0].dtype, shape, tuple(rows), len(shape) - 1)


def crossed(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    """The vector product of three numbers and three numbers, of any kind.

    >>> crossed((1, 0, 0), (0, 1, 0))
    [0, 0, 1]
    """
    return [a[j] * b[k] - a[k] * b[j] for j, k in ((1, 2), (2, 0), (0, 1))]


def cross(a: UOp, b: UOp) -> UOp:
    """The vector product along the last axis."""
    return from_columns(crossed(columns(a), columns(b)))
