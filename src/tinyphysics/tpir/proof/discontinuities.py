"""Does a declared energy jump somewhere?  Then its derivative is not all of its force."""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir.uop import UOp, substitute
from tinyphysics.rules.formulas.smoothness import jumping
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.program.symbolic import state_of


def jump_in(program: Program, terms: Sequence[UOp]) -> UOp | None:
    """A function of the state in some expressions that is not shown to be continuous, in its own names."""
    states = frozenset(v for u in terms for v in u.leaves if state_of(v) is not None)
    found = jumping(terms, states)
    names = {
        v: UOp.var(program.states[k].name, v.shape, v.dtype) for v in states if (k := state_of(v)) is not None
    }
    return None if found is None else substitute([found], names)[0]
