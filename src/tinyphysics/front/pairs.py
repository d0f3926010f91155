"""How is an energy between all pairs written?  As an expression of i and j, summed over i < j; never stored."""

from __future__ import annotations

from typing import Any

from tinyphysics.errors import ShapeError, TraceError
from tinyphysics.front.functions import on_symbols
from tinyphysics.front.lattice_sums import is_periodic, over_images
from tinyphysics.front.neighbours import left_over, near_sum
from tinyphysics.ir import UOp, as_uop
from tinyphysics.ir.uop import NUMPY
from tinyphysics.options import heeds

SQUARE = "Write it with d = q[:, None] - q[None, :], which has one row and one column for each particle."


@heeds("pair_sum", "tp.pair_sum(1 / r2)")
@on_symbols
def pair_sum(x: Any, *, shift: bool = False, switch: Any = None) -> UOp:
    """Sums a matrix x of pair energies over i < j: each pair once, the diagonal never.

    Where x was made of a `pair_distance2`, it is the sum over the neighbours within the cutoff; `shift` and `switch` then
    mean what they mean there.

    >>> pair_sum([[9.0, 1.0], [5.0, 9.0]])
    1.0
    """
    u: UOp = as_uop(x)
    if u.ndim != 2 or u.shape[0] != u.shape[1]:
        raise ShapeError.here(f"pair_sum of shape {u.shape}", SQUARE)
    if (distances := left_over([u])) is not None:
        if not is_periodic(distances):
            return near_sum(u, shift, switch)
        if not shift and switch is None:
            return over_images(u)
    if shift or switch is not None:
        raise TraceError.here(
            "shift= and switch= need a cutoff", "Write r2 = tp.pair_distance2(q, cutoff=2.5)."
        )
    return u.triu().sum()


@on_symbols
def triu(x: Any, k: int = 0) -> UOp:
    """NumPy's upper triangle, without the diagonal: np.triu(x, 1)."""
    u: UOp = as_uop(x)
    if k != 1 or u.ndim < 2:
        raise ShapeError.here(
            f"triu(x, {k}) of shape {u.shape}",
            "Only np.triu(x, 1) of a square array is supported: the pairs i < j.",
        )
    return u.triu()


NUMPY["triu"] = triu
