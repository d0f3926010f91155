"""What moves each state of a program, as an expression of the states as they are then?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels.kernel import Meaning
from tinyphysics.tpir.program.isa import Instruction, Operand, Program, Register


@dataclass(frozen=True, eq=False)
class StateFlow:
    """`value` is what an instruction adds to its state, up to a factor; `now` are the variables of all states then."""

    instruction: Instruction
    value: UOp
    now: dict[Operand, UOp]

    @property
    def is_shear(self) -> bool:
        """Is it made of the other states alone, and as they are now?  Then it can be computed again, and taken back."""
        own = self.now[self.instruction.dst]
        known = frozenset(self.now.values())
        return all(v in known and v is not own for v in self.value.leaves if str(v.arg).startswith("S"))


def flows(program: Program) -> Iterator[StateFlow]:
    """Of every shear s + h*f; a state is another variable whenever it was moved."""
    start = Meaning(program)
    for section in ("init", "step", "final"):
        meaning = start if section == "init" else Meaning(program)
        now: dict[Operand, UOp] = {}
        for k, s in enumerate(program.states):
            now[Register("S", k)] = UOp.var(f"S{k}@{section}", s.type.shape, s.type.dtype)
        if section != "init":
            meaning.env |= start.env | now
        for number, i in enumerate(program.section(section)):
            if i.op == "LOAD":
                meaning.env[i.dst] = now[i.dst]
            elif i.row.numbers == "by_flow":
                yield StateFlow(i, meaning.env[i.args[0]], dict(now))
                old = now[i.dst]
                meaning.env[i.dst] = now[i.dst] = UOp.var(f"{i.dst}@{section}{number}", old.shape, old.dtype)
            else:
                meaning.run([i])
