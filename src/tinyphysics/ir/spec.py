"""Is a graph well formed for its stage?  One table per stage, checked after every pass in tests."""
from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyphysics.ir.dtype import bool_, i64, u32
from tinyphysics.ir.ops import ARITY, COMPARE, ELEMENTWISE, LEAVES, MINIMAL, MOVEMENT, Ops
from tinyphysics.ir.uop import UOp, broadcast_shape, toposort
from tinyphysics.util import prod

Row = tuple[frozenset[Ops], Callable[[UOp], bool], str]

BITWISE = frozenset({Ops.AND, Ops.OR, Ops.XOR, Ops.NOT})


def same_shapes(u: UOp) -> bool:
    return all(s.shape == u.shape for s in u.src)


def same_dtypes(u: UOp) -> bool:
    data = u.src[1:] if u.op is Ops.WHERE else u.src
    if u.op in COMPARE:
        return u.dtype is bool_ and len({s.dtype for s in data}) == 1
    if u.op is Ops.CAST or u.op is Ops.CUSTOM:
        return True
    if u.op is Ops.BITCAST:
        return u.src[0].dtype.bits == u.dtype.bits
    return all(s.dtype is u.dtype for s in data)


def arity(u: UOp) -> bool:
    return u.op not in ARITY or len(u.src) == ARITY[u.op]


def expands(u: UOp) -> bool:
    return broadcast_shape(u.src[0].shape, u.shape) == u.shape


def reduces(u: UOp) -> bool:
    kind, axes = u.arg
    kept = tuple(n for i, n in enumerate(u.src[0].shape) if i not in axes)
    return kind in ("sum", "max", "min") and kept == u.shape


# fmt: off
SHAPED: list[Row] = [
    (frozenset(Ops),                         arity,                                "the wrong number of sources"),
    (frozenset({Ops.CONST}),                 lambda u: isinstance(u.arg, (int, float)), "no number"),
    (frozenset({Ops.VAR}),                   lambda u: isinstance(u.arg, str),     "no name"),
    (frozenset({Ops.RANGE}),                 lambda u: u.dtype is i64 and len(u.shape) == 1, "not one axis of i64"),
    (ELEMENTWISE,                            same_shapes,                          "sources of other shapes"),
    (ELEMENTWISE,                            same_dtypes,                          "sources of other dtypes"),
    (BITWISE,                                lambda u: not u.dtype.is_float,       "bits of a float"),
    (frozenset({Ops.SHL, Ops.SHR}),          lambda u: u.dtype.is_int,             "a shift of a float"),
    (frozenset({Ops.MULHI}),                 lambda u: u.dtype is u32,             "a high product of other than u32"),
    (frozenset({Ops.WHERE}),                 lambda u: u.src[0].dtype is bool_,    "a condition that is not bool"),
    (frozenset({Ops.RESHAPE}),               lambda u: prod(u.src[0].shape) == prod(u.shape), "another size"),
    (frozenset({Ops.EXPAND}),                expands,                              "a shape that does not broadcast"),
    (frozenset({Ops.REDUCE}),                reduces,                              "a shape that is not the reduced one"),
    (frozenset({Ops.STACK}),                 lambda u: len(u.src) == prod(u.shape), "another number of elements"),
    (MOVEMENT - {Ops.CONCAT, Ops.STACK},     lambda u: u.src[0].dtype is u.dtype,  "another dtype"),
]
LOWERED: list[Row] = [
    *SHAPED,
    (frozenset(Ops) - MINIMAL,               lambda u: False,                      "an operation outside the minimal set"),
]
UNROLLED: list[Row] = [
    *SHAPED,
    (frozenset(Ops) - LEAVES,                lambda u: u.shape == () or u.op is Ops.VAR, "an array"),
]
# fmt: on


def check(roots: Sequence[UOp], spec: list[Row]) -> None:
    """An AssertionError that names the first node that breaks a row of the table."""
    for u in toposort(roots):
        for ops, holds, what in spec:
            if u.op in ops:
                assert holds(u), f"{u.op.value} `{u}` of {u.dtype}{list(u.shape)} has {what}"
