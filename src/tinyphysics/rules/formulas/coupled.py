"""Where does the flow of a quadratic energy take the states?  Its matrix times them, in two words.

A matrix that is rounded once would turn by a little too much or too little, and grow or shrink by as little, at every step
the same: so what the rounding has lost is handed in as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.rewrite import graph_rewrite
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.identities.exact import exact


def matrix_shape(states: Sequence[UOp]) -> tuple[int, int, int]:
    """(words, numbers of all states, those and 1 for what is constant)."""
    size = sum(u.size for u in states)
    return 2, size, size + 1


def flowed(states: Sequence[UOp], matrix: UOp) -> list[UOp]:
    """The states after the flow: positions and momenta in the order of the matrix."""
    size, flat = sum(u.size for u in states), tuple(u.reshape((u.size,)) for u in states)
    columns = UOp(Ops.CONCAT, matrix.dtype, (size,), flat, 0)
    high, low = (matrix[k, :, :size] for k in range(2))
    row = columns.reshape((1, size)).expand((size, size))
    lost = (low * row).sum((1,)) + matrix[1, :, size]
    new = ((high * row).sum((1,)) + matrix[0, :, size]) + lost
    out, at = [], 0
    for u in states:
        out.append(new[at : at + u.size].reshape(u.shape))
        at += u.size
    return graph_rewrite(out, exact)
