"""Which numbers does an update move, and which does it read?  An array may be moved by others of its own numbers."""

from __future__ import annotations

from collections.abc import Callable

from tinyphysics.ir.ops import ELEMENTWISE, MOVEMENT, Ops
from tinyphysics.ir.uop import UOp, elements, toposort
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.equality.normal import MOST_COMPONENTS, chooses
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.program.symbolic import state_var
from tinyphysics.tpir.proof.units import moving

PLAIN = ELEMENTWISE | MOVEMENT | {Ops.VAR, Ops.CONST, Ops.REDUCE}
MOST_OPERATIONS = (
    4000  # in a flow that is looked at number by number: those of stages hold each other, and are long
)
Numbers = frozenset[tuple[int, int]]  # (state, place in it)


def numbers(
    program: Program, state: int, flow: UOp, moves: Callable[[UOp], bool]
) -> tuple[Numbers, Numbers] | None:
    """(those that are moved, those that are read); None where that is not looked at. `moves` says what is not zero."""
    held = moving(flow)
    known: dict[UOp, tuple[int, int]] = {}
    for s in held:
        variable = state_var(program, s, 0)
        if variable not in flow.leaves or variable.size > MOST_COMPONENTS:
            return None
        known |= {x: (s, k) for k, x in enumerate(elements(variable))}
    if flow.size > MOST_COMPONENTS or chooses(flow) or any(u.op not in PLAIN for u in toposort([flow])):
        return None
    each = unroll([flow])[0]
    if len(toposort(each)) > MOST_OPERATIONS:
        return None
    moved, read = set(), set()
    for k, x in enumerate(each):
        if moves(x):
            moved.add((state, k))
            read |= {known[y] for y in toposort([x]) if y in known}
    return frozenset(moved), frozenset(read)
