"""Which registers do instructions read before they write them?  What an earlier section has to give them."""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.tpir.program.isa import Instruction, Operand, Register


def reads_before_writing(instructions: Sequence[Instruction]) -> dict[Register, None]:
    written: set[Operand] = set()
    out: dict[Register, None] = {}
    for i in instructions:
        for x in i.sources:
            if isinstance(x, Register) and x not in written:
                out[x] = None
        written.add(i.operands[0])
    return out
