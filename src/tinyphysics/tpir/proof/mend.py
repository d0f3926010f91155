"""A program whose flow is stale, with the flow computed again where it is used: the listing that was meant."""

from __future__ import annotations

from dataclasses import replace

from tinyphysics.tpir.program.bare import needed, reads
from tinyphysics.tpir.program.isa import Instruction, Program


def fresh(program: Program, stale: Instruction) -> Program:
    """What its flow is computed by goes directly before it; what nothing else reads is taken away where it was."""
    step = list(program.step)
    at = next(k for k, i in enumerate(step) if i is stale)
    own = sorted(needed(step[: at + 1], [stale]) - {at})
    own = [k for k in own if step[k].row.numbers != "by_flow"]
    again = [step[k] for k in own]
    others = [i for k, i in enumerate(step) if k not in own and k != at]
    left = [
        i for k, i in enumerate(step[:at]) if k not in own or any(i.dst in reads(other) for other in others)
    ]
    return replace(program, step=(*left, *again, stale, *step[at + 1 :]))
