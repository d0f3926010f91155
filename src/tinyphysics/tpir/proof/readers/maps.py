"""Is an explicit map symplectic?  Its Jacobian M by exact derivatives, and M^T J M - J by algebra: all of it must be zero.

For programs that declare pairs and no energy, and whose step is MAP alone. What jumps is not shown: where a floor or a branch
jumps there is no derivative, and M^T J M = J beside it says nothing about it. A measured defect never certifies.
"""

from __future__ import annotations

from collections.abc import Mapping

from tinyphysics.errors import TraceError
from tinyphysics.ir.uop import UOp, elements, substitute
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import chooses
from tinyphysics.rules.identities.real import simplify
from tinyphysics.tpir.program.isa import Instruction, Program, Register
from tinyphysics.tpir.program.symbolic import state_var
from tinyphysics.tpir.proof.blocks import Blocks
from tinyphysics.tpir.proof.certificate import Verdict, five
from tinyphysics.tpir.proof.walk import Walk, jump_in
from tinyphysics.tpir.proof.weights import not_symmetric
from tinyphysics.util import prod

MOST_COMPONENTS = 16  # numbers of all states: the Jacobian is written out
NO_ENERGY = "an explicit map has no energy to be consistent with"


def maps_pairs(program: Program) -> bool:
    """Is it an explicit map of canonical pairs, and nothing else?"""
    return (
        not program.energy
        and any(i.row.reader == "maps" for i in program.step)
        and not any("maps" in i.row.no_part_of for i in program.step)
        and all(i.op == "LOAD" or constant(i) for i in program.init)
        and {i.dst for i in program.init}.isdisjoint(i.dst for i in program.step if i.op != "MAP")
        and all(i.op == "STORE" for i in program.final)
        and bool(program.states)
        and all(program.conjugate(k) is not None for k in range(len(program.states)))
    )


def constant(i: Instruction) -> bool:
    """Is it computed once for all steps, from parameters and numbers alone?"""
    return i.op == "ELEM" and not any(isinstance(x, Register) and x.kind != "T" for x in i.args)


class MapReader:
    """An explicit map of canonical pairs."""

    name, refusal, by_derivatives = "maps", "is no part of an explicit map", True
    rank = 50

    def __init__(self, program: Program) -> None:
        self.program = program
        self.blocks = Blocks(program)  # malformed lines are said first
        self.walk = Walk(program, self.blocks.terms)
        self.normal = self.walk.normal
        self.written: dict[UOp, UOp] = {}  # what a state is, as a function of the old ones
        self.walk.read(self)

    @staticmethod
    def has(program: Program) -> bool:
        return maps_pairs(program)

    def take(self, walk: Walk, i: Instruction) -> bool:
        if i.op != "MAP":
            return False
        assert isinstance(i.dst, Register)
        symbolic = walk.symbolic
        value = substitute([symbolic.read(i.args[0], i.type, walk.where)], self.written)[0]
        symbolic.load(i.dst.index)
        self.written[symbolic.current(i.dst.index)] = value
        return True

    def close(self, walk: Walk) -> None:
        pass  # nothing is done in parts

    def new_states(self) -> list[UOp]:
        """What a step makes of the states, as functions of the old ones; a state that nothing writes stays."""
        new = [self.walk.symbolic.current(k) for k in range(len(self.program.states))]
        return [self.written.get(u, u) for u in new]

    def not_symplectic(self) -> str:
        """Why M^T J M = J is not shown; empty if it is."""
        program = self.program
        if self.walk.trouble:
            return self.walk.trouble
        if program.draws:
            return "it draws random numbers: every step is another map"
        new = self.new_states()
        size = sum(u.size for u in new)
        if size > MOST_COMPONENTS:
            return f"{size} components are too many to write the Jacobian out; {MOST_COMPONENTS} are the most"
        if any(map(chooses, new)):
            return "an index that is not known chooses what it reads"
        if (jump := jump_in(program, new)) is not None:
            return f"{jump} in the map may jump, and there it has no Jacobian"
        x = [e for k in range(len(new)) for e in elements(state_var(program, k, 0))]
        try:
            numbers = [u for group in unroll(new) for u in group]
            rows = [simplify(gradient(u, x)) for u in numbers]
        except TraceError as error:  # an operation without a derivative
            return f"its Jacobian could not be written out: {error.what}"
        return self.defect(rows, x, numbers)

    def defect(self, rows: list[list[UOp]], z: list[UOp], new: list[UOp]) -> str:
        """Which entry of M^T J M - J is not shown to be zero."""
        names = [
            f"{s.name}[{c}]" if s.type.shape else s.name
            for s in self.program.states
            for c in range(prod(s.type.shape))
        ]
        sizes = [prod(s.type.shape) for s in self.program.states]
        at = {state_var(self.program, k, 0): sum(sizes[:k]) for k in range(len(sizes))}
        for a, b, products, wanted in self.walk.structure.defect(rows, at, z, new):
            if not self.normal.is_zero(UOp.sum_of(products) - float(wanted)):
                return f"M^T J M - J is not shown to be 0: the entry for {names[b]} and {names[a]}"
        return ""

    def verdicts(self) -> Mapping[str, Verdict]:
        why = self.not_symplectic()
        if why:
            symplectic = volume = Verdict(False, why)
        else:
            symplectic = Verdict(True, "M^T J M - J of its Jacobian M is 0 for every state, by algebra")
            volume = Verdict(True, "it is symplectic: the determinant of its Jacobian is 1")
        no = Verdict(False, self.blocks.maps[0] if self.blocks.maps else "nothing moves")
        return five(symplectic, volume, no, Verdict(False, not_symmetric(no)), Verdict(False, NO_ENERGY))
