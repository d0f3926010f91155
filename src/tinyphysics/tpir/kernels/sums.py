"""How does a term join a sum, as an expression?  The same for every kind of nest that sums, and for every printer."""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir import reduction
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.ir.value import REDUCTION
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.tpir.kernels.at_index import AtIndex
from tinyphysics.tpir.kernels.index import Place, expr
from tinyphysics.tpir.kernels.layout import component_places
from tinyphysics.tpir.kernels.nest_kind import Builder, Task, Wanted
from tinyphysics.tpir.kernels.nests import Store


def is_sum(w: Wanted) -> bool:
    """Is it a reduction along an axis that a nest has to compute, and not one over pairs?"""
    return w.in_turn or w.stored and w.node.op is Ops.REDUCE and w.node.arg[0] != "pairs"


def summed(b: Builder, t: Task, pull: AtIndex, at: Sequence[Place], inner: Place) -> list[Store]:
    """The item of a reduction at each index, with `inner` along the axis that is summed over."""
    u, (axis,) = t.node, t.node.arg[1]
    out, index = [], tuple(map(expr, at))
    for plane, where in component_places(u.shape, b.components, at):
        value, *other = (pull.at(s, (*where[:axis], inner, *where[axis:])) for s in u.src)
        if other:
            value = UOp(Ops.MUL, u.dtype, (), (value, *other))
        out.append(Store(t.home.buffer, plane, index, value, REDUCTION[u.arg[0]], joins=bool(other)))
    return out


def identity(s: Store) -> UOp:
    """A sum without a term."""
    assert s.combine is not None
    return UOp.const(reduction.identity(s.combine, s.value.dtype), s.value.dtype)


def combined(s: Store, a: UOp, b: UOp) -> UOp:
    """Two partial sums as one."""
    assert s.combine is not None
    if s.combine is Ops.ADD:
        return UOp(Ops.ADD, a.dtype, (), (a, b))
    return lower([a.alu(s.combine, b)])[0]


def joined(s: Store, sum_: UOp, term: UOp) -> UOp:
    """A sum with one more term; a product joins it with one rounding where the store says so."""
    if s.joins and term.op is Ops.MUL:
        return UOp(Ops.FMA, sum_.dtype, (), (*term.src, sum_))
    return combined(s, sum_, term)


def in_halves(s: Store, parts: Sequence[UOp]) -> UOp:
    """Accumulators folded: the order of ir/reduction.py."""
    values = list(parts)
    while len(values) > 1:
        half = len(values) // 2
        values = [combined(s, a, b) for a, b in zip(values, values[half:])]
    return values[0]
