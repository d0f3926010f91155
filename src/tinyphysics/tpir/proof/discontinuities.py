"""Does a declared energy jump somewhere?  Then its derivative is not all of its force."""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, substitute, toposort
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.equality.poles import hidden_pole
from tinyphysics.rules.equality.ranges import range_of
from tinyphysics.rules.formulas.cutoffs import CUT, SWITCHED, cutoffs, is_switch, within_cutoffs
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.program.symbolic import state_of, state_var
from tinyphysics.tpir.proof.units import moving

JUMPS = (Ops.SIGN, Ops.FLOOR, Ops.RINT, Ops.WHERE)  # where its branches meet is not examined


def is_cut(u: UOp) -> bool:
    """Is it an angle that may jump by 2 pi?  Where its second argument is not shown to be positive."""
    return u.op is Ops.ATAN2 and not range_of(u.src[1], {})[0] > 0.0


def ends_at_zero(u: UOp, kind: int) -> bool:
    """Is what a sum over neighbours adds shown to be zero at the cutoff?  Its tag says so, and anybody can write a tag."""
    mask = u.src[0]
    if mask.op is not Ops.WHERE or mask.src[2].op is not Ops.CONST or mask.src[2].arg != 0.0:
        return False
    near, value, _ = mask.src
    while near.op is Ops.AND:  # excluded pairs are left out behind it
        near = near.src[0]
    if near.op is not Ops.LT:
        return False
    distance, whole = near.src
    if kind != SWITCHED:
        return is_zero(value, {distance: whole})
    if value.op is not Ops.MUL or not is_switch(value.src[1]) or value.src[1].src[0].src[0] is not distance:
        return False
    begins, _, fading = value.src[1].src
    return is_zero(fading, {distance: whole}) and is_zero(fading - 1.0, {distance: begins.src[1]})


def is_zero(u: UOp, table: dict[UOp, UOp]) -> bool:
    """Of an expression with other variables; a sum over itself is 1."""
    (there,) = substitute([u], table)
    ones = {
        x: UOp.const(1.0, x.dtype, x.shape)
        for x in toposort([there])
        if x.op is Ops.DIV and Normal().same(*x.src)
    }
    return not Normal().form(substitute([there], ones)[0])


def jump_in(program: Program, terms: Sequence[UOp]) -> UOp | None:
    """A function of the state in the declared energy that is not shown to be continuous, in its own names."""
    cut = [
        u for u, kind in cutoffs(terms).items() if moving(u) and (kind == CUT or not ends_at_zero(u, kind))
    ]
    inside = within_cutoffs(terms)
    jumps = [u for u in toposort(inside) if (u.op in JUMPS or is_cut(u)) and moving(u)]
    states = frozenset(v for u in inside for v in u.leaves if state_of(v) is not None)
    found = next(iter([*jumps, *cut]), None)
    if found is None:
        found = hidden_pole(inside, states)
    names = {
        state_var(program, i, 0): UOp.var(s.name, s.type.shape, s.type.dtype)
        for i, s in enumerate(program.states)
    }
    return None if found is None else substitute([found], names)[0]
