"""How does a term join a sum, as an expression?  The same for every kind of nest that sums, and for every printer."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.tpir.kernels.nests import Store

IDENTITY = {Ops.ADD: -0.0, Ops.MAX: -math.inf, Ops.MIN: math.inf}  # x + -0.0 is x, bit for bit


def identity(s: Store) -> UOp:
    """A sum without a term."""
    assert s.combine is not None
    return UOp.const(IDENTITY[s.combine], s.value.dtype)


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
