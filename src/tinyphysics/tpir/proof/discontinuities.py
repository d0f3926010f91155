"""Does a declared energy jump somewhere, or its slope?  A jump is not in the force; at a kink there may be two solutions."""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir.uop import UOp, substitute
from tinyphysics.rules.formulas.smoothness import JUMP, KINK, roughest
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.program.symbolic import state_of


def rough_in(program: Program, terms: Sequence[UOp], order: int) -> UOp | None:
    """A function of the state in some expressions with no more than so many continuous derivatives, in its own names."""
    states = frozenset(v for u in terms for v in u.leaves if state_of(v) is not None)
    worst = roughest(terms, states)
    names = {
        v: UOp.var(program.states[k].name, v.shape, v.dtype) for v in states if (k := state_of(v)) is not None
    }
    return None if worst is None or worst.order > order else substitute([worst.node], names)[0]


def jump_in(program: Program, terms: Sequence[UOp]) -> UOp | None:
    """What is not shown to be continuous."""
    return rough_in(program, terms, JUMP)


def kink_in(program: Program, terms: Sequence[UOp]) -> UOp | None:
    """What is not shown to have continuous slopes."""
    return rough_in(program, terms, KINK)
