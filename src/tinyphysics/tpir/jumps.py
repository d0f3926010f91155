"""Does a declared energy jump somewhere?  Then its derivative is not all of its force."""
from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, substitute, toposort
from tinyphysics.rules.cutoffs import CUT, cutoffs, within_cutoffs
from tinyphysics.rules.ranges import range_of
from tinyphysics.tpir.isa import Program
from tinyphysics.tpir.symbolic import state_var
from tinyphysics.tpir.units import moving

JUMPS = (Ops.SIGN, Ops.FLOOR, Ops.RINT, Ops.WHERE)  # where its branches meet is not examined


def is_cut(u: UOp) -> bool:
    """Is it an angle that may jump by 2 pi?  Where its second argument is not shown to be positive."""
    return u.op is Ops.ATAN2 and not range_of(u.src[1], {})[0] > 0.0


def jump_in(program: Program, terms: Sequence[UOp]) -> UOp | None:
    """A function of the state in the declared energy that is not shown to be continuous, in its own names."""
    cut = [u for u, kind in cutoffs(terms).items() if kind == CUT and moving(u)]
    jumps = [u for u in toposort(within_cutoffs(terms)) if (u.op in JUMPS or is_cut(u)) and moving(u)]
    found = next(iter([*jumps, *cut]), None)
    names = {state_var(program, i, 0): UOp.var(s.name, s.type.shape, s.type.dtype) for i, s in enumerate(program.states)}
    return None if found is None else substitute([found], names)[0]
