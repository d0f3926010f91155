"""What is the same of all programs that solve equations in a step?

Is the scale of a solution one over the size of the states?  Else its rounds may end anywhere, far from the root. That is
shown of quotients c / max(|...|, ...) whose denominator holds the states, number by number; c is a positive constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinyphysics.errors import TraceError
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, elements, substitute, toposort
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.structure import acted, word_of
from tinyphysics.tpir.program.isa import GOING, Pointer, Program
from tinyphysics.tpir.program.symbolic import structure_at
from tinyphysics.tpir.proof.certificate import Verdict, five
from tinyphysics.tpir.proof.units import moving
from tinyphysics.tpir.proof.walk import NotShown, Walk
from tinyphysics.tpir.proof.weights import not_symmetric
from tinyphysics.user_bracket import UserBracket

RESIDUAL = "to the residual of its equations: rounding, as a rule"


def solves(program: Program) -> bool:
    return any(i.row.reader == "stages" for _, _, i in program.numbered())


def has_own_steps(program: Program) -> bool:
    return any(i.dst == Pointer(GOING) for i in program.step)


def numbers_moved(program: Program, states: Sequence[UOp], slopes: Mapping[UOp, UOp]) -> list[UOp]:
    """What derivatives by the numbers of some states move those numbers by, of states in pairs."""
    structure, out = structure_at(program, states), []
    if isinstance(structure, UserBracket):
        rates = structure.rates({z: UOp.stack([slopes[e] for e in elements(z)]) for z in structure.states})
        return [u for s in structure.states for u in unroll([rates[s]])[0]]
    for k, state in enumerate(states):
        by, word = structure.partner(state), word_of(program.states[k].role)
        if by is None or word is None:
            raise NotShown(f"S{k} has no conjugate")
        out += [acted(word, slopes[e]) for e in elements(by)]
    return out


def is_over_size(scale: UOp) -> bool:
    return all(map(one_over, unroll([scale])[0]))


def one_over(u: UOp) -> bool:
    if u.op is not Ops.DIV or u.src[0].op is not Ops.CONST or not u.src[0].arg > 0:
        return False
    size = u.src[1]
    return size.op is Ops.MAX and bool(moving(size)) and any(x.op is Ops.ABS for x in toposort([size]))


def too_much(error: Exception) -> str:
    if isinstance(error, TraceError):
        return f"the energy could not be differentiated twice: {error.what}"
    return "its expressions are too long to be compared"


def refused(trouble: str) -> Mapping[str, Verdict]:
    no = Verdict(False, trouble)
    return five(no, no, no, Verdict(False, not_symmetric(no)), no)


def solved_alike(walk: Walk, symmetric: Verdict) -> Verdict:
    """Forth and back the same solution is found where there is but one: where slopes jump there may be several."""
    return Verdict(False, why) if symmetric and (why := walk.kink) else symmetric


def energy_reversible(walk: Walk, symmetric: Verdict) -> Verdict:
    """Of a step of slopes of the whole energy."""
    if not symmetric:
        return Verdict(False, not_symmetric(symmetric))
    energy = UOp.sum_of(walk.terms)
    if not walk.normal.same(substitute([energy], walk.mirror)[0], energy):
        return Verdict(False, "the energy is not shown to be even in the momenta")
    return Verdict(True, "symmetric, and the energy is even in the momenta")
