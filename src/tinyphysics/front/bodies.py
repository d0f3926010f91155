"""How are vectors turned by an attitude?  tp.rotate from the body to space, tp.unrotate back."""

from __future__ import annotations

from typing import Any

from tinyphysics.errors import ShapeError
from tinyphysics.front.functions import on_symbols
from tinyphysics.ir import UOp, as_uop
from tinyphysics.ir.vectors import cross
from tinyphysics.options import heeds


def broadcast(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """Both with the same axes before their last."""
    n = max(a.ndim, b.ndim)
    a, b = (u.reshape(*[1] * (n - u.ndim), *u.shape) for u in (a, b))
    rows = tuple(max(x, y) for x, y in zip(a.shape[:-1], b.shape[:-1]))
    if any(x not in (1, n) for u in (a, b) for x, n in zip(u.shape[:-1], rows)):
        raise ShapeError.here(
            f"attitudes of shape {a.shape} and vectors of shape {b.shape} do not go together",
            "Give one vector for all bodies, or one for each: R[:, None] for several vectors of each.",
        )
    return a.expand((*rows, a.shape[-1])), b.expand((*rows, b.shape[-1]))


def turned(R: Any, v: Any, back: bool) -> UOp:
    r, u = as_uop(R), as_uop(v)
    if u.shape[-1:] != (3,):
        raise ShapeError.here(f"a vector of shape {u.shape}", "Its last axis has length 3.")
    if r.shape[-1:] == (4,):
        r, u = broadcast(r, u)
        w, axis = r[..., :1].expand(u.shape), r[..., 1:]
        t = 2.0 * (cross(u, axis) if back else cross(axis, u))
        return u + w * t + (cross(t, axis) if back else cross(axis, t))
    if r.shape[-2:] != (3, 3):
        raise ShapeError.here(
            f"an attitude of shape {r.shape}", "It is a unit quaternion (w, x, y, z), or a 3x3 matrix."
        )
    matrix = r if not back else r.permute((*range(r.ndim - 2), r.ndim - 1, r.ndim - 2))
    flat, u = broadcast(matrix.reshape(*r.shape[:-2], 9), u)
    rows = flat.reshape(*flat.shape[:-1], 3, 3)
    return (rows * u.reshape(*u.shape[:-1], 1, 3).expand(rows.shape)).sum(-1)


@heeds("rotate", "tp.rotate(R, v)")
@on_symbols
def rotate(R: Any, v: Any) -> UOp:
    """Returns the vector `v` of the body's frame in the frame of space: `R` is a unit quaternion (w, x, y, z) or a matrix.

    >>> rotate([0.5, 0.5, 0.5, 0.5], [1.0, 0.0, 0.0])
    [0.0, 1.0, 0.0]
    """
    return turned(R, v, back=False)


@heeds("unrotate", "tp.unrotate(R, v)")
@on_symbols
def unrotate(R: Any, v: Any) -> UOp:
    """Returns the vector `v` of the frame of space as the body with the attitude `R` sees it.

    >>> unrotate([0.5, 0.5, 0.5, 0.5], [0.0, 1.0, 0.0])
    [1.0, 0.0, 0.0]
    """
    return turned(R, v, back=True)
