"""What does a random number depend on beside its own number?  Variables whose values a run knows."""

from __future__ import annotations

from tinyphysics.ir.dtype import i64, u32
from tinyphysics.ir.uop import UOp

SEED = (UOp.var("@seed", (), u32), UOp.var("@seed.high", (), u32))
NOW, MEMBER = UOp.var("@step", (), i64), UOp.var("@member", (), i64)
ADDRESS = frozenset({*SEED, NOW, MEMBER})


def draws(u: UOp) -> bool:
    """Does an expression hold a random number?"""
    return bool(u.leaves & ADDRESS)
