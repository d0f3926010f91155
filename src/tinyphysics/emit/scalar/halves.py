"""How does a loop of a GPU keep the least numbers that it has seen?  By the first half of their bits: one instruction.

What is kept is no more than the least number, and less by a millionth of it at most: a bound of how near a pole came.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.emit.text.writer import Writer
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import NEAREST, Section


def halves(f: Section, shape: VectorShape) -> dict[int, list[UOp]]:
    """The slots of a loop that it keeps so, and the numbers of which each is the least."""
    if not shape.words or shape.width > 1 or not f.loops or f.tails or f.stages > 1:
        return {}
    near = (k for k, v in enumerate(f.loads) if str(v.arg).startswith(f"{NEAREST}."))
    found = {k: least_of(f.roots[k], f.loads[k]) for k in near}
    return {k: us for k, us in found.items() if us}


def least_of(u: UOp, v: UOp) -> list[UOp] | None:
    """The numbers of which u is the least, together with v; None if it is something else."""
    if u is v:
        return []
    if u.op is not Ops.WHERE or u.src[0].op is not Ops.LT or u.src[0].src != u.src[1:]:
        return None
    rest = least_of(u.src[2], v)
    return None if rest is None else [*rest, u.src[1]]


def first_half(w: Writer, x: str) -> str:
    whole = w.new(f"bitcast double {x} to i64")
    return w.new(f"trunc i64 {w.new(f'lshr i64 {whole}, 32')} to i32")


def with_half(w: Writer, x: str) -> str:
    """The number that has these first bits and no others: none that begins like it is nearer to zero."""
    whole = w.new(f"zext i32 {x} to i64")
    return w.new(f"bitcast i64 {w.new(f'shl i64 {whole}, 32')} to double")


def lower(w: Writer, least: str, of: Sequence[str]) -> str:
    """The least of some numbers and of what was the least so far, by their first bits."""
    for x in of:
        half = first_half(w, x)
        which = w.new(f"icmp slt i32 {half}, {least}")
        least = w.new(f"select i1 {which}, i32 {half}, i32 {least}")
    return least
