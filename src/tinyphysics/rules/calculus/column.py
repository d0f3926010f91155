"""What is one column of an array?  The same operations on columns of what it is made of, as far as they can be told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinyphysics.ir import Ops, UOp
from tinyphysics.ir.ops import ELEMENTWISE

Known = Mapping[UOp, Sequence[UOp]]  # arrays whose columns have names of their own
PLAIN: Known = {}


def column(u: UOp, k: int, known: Known = PLAIN) -> UOp:
    """u[..., k] with the choice of a column moved to the arrays that it reads.

    >>> x, m = UOp.var("x", (4, 3)), UOp.var("m", (3,))
    >>> column(x / m.expand((4, 3)), 1)
    x[:, 1]/m[1]
    """
    if u in known:
        return known[u][k]
    shape, last = u.shape[:-1], u.ndim - 1
    if u.op is Ops.CONST:
        return UOp.const(u.arg, u.dtype, shape)
    if u.op in ELEMENTWISE:
        return UOp(u.op, u.dtype, shape, tuple(column(s, k, known) for s in u.src), u.arg)
    if u.op is Ops.STACK and u.ndim == 1:
        return u.src[k]
    if u.op is Ops.EXPAND:
        (x,) = u.src
        return column(x, k if x.shape[-1] > 1 else 0, known).expand(shape) if x.shape else x.expand(shape)
    if u.op is Ops.RESHAPE and u.src[0].shape[-1:] == u.shape[-1:]:
        return column(u.src[0], k, known).reshape(shape)
    if u.op is Ops.RESHAPE and u.shape[-1] == 1:
        return u.src[0].reshape(shape)
    if u.op is Ops.CONCAT and u.arg == last:
        for x in u.src:
            if k < x.shape[-1]:
                return column(x, k, known)
            k -= x.shape[-1]
    if u.op is Ops.CONCAT:
        return UOp(u.op, u.dtype, shape, tuple(column(x, k, known) for x in u.src), u.arg)
    if u.op is Ops.SLICE:
        first, _, step = u.arg[last]
        return column(u.src[0], first + k * step, known).slice(u.arg[:-1])
    if u.op is Ops.PAD and not u.arg[last][2]:
        before, n = u.arg[last][0], u.src[0].shape[-1]
        if not before <= k < before + n:
            return UOp.const(0.0, u.dtype, shape)
        return column(u.src[0], k - before, known).pad(u.arg[:-1])
    if u.op is Ops.ROLL and all(axis != last for _, axis in u.arg):
        return UOp(u.op, u.dtype, shape, (column(u.src[0], k, known),), u.arg)
    if u.op is Ops.REDUCE and u.arg[0] == "sum" and len(u.arg) == 2 and last + 1 not in u.arg[1]:
        if u.src[0].shape[-1:] == u.shape[-1:] and u.src[0].ndim - 1 not in u.arg[1]:
            return column(u.src[0], k, known).sum(u.arg[1])
    return u[..., k]
