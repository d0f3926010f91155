"""How many steps has one pass of a GPU's loop?  Several, written one after the other, where a short step divides.

What counts passes, compares and jumps takes as long as half an operation of float64 each, and a number that goes round a loop
is moved. The assembler writes loops out by itself, and better, but those with divisions and roots, which have jumps of their
own. No operation on floats changes, so no bit does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyphysics.emit.text.writer import Writer
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import toposort
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import Section

ROOM = 640  # operations that a pass may have
JUMPS = {Ops.DIV, Ops.SQRT}  # to what is done with numbers of unusual size
Step = Callable[[list[list[str]]], list[list[str]]]


def steps_of(f: Section, shape: VectorShape) -> int:
    """A power of two, at most what the shape asks for."""
    steps = shape.steps if any(u.op in JUMPS for u in toposort(f.roots)) else 1
    while steps > 1 and steps * shape.unroll * max(f.operations, 1) > ROOM:
        steps //= 2
    return steps


def passes(
    w: Writer, types: Sequence[str], start: list[list[str]], steps: int, step: Step, before: str, count: str
) -> list[list[str]]:
    """All passes that leave at least one step to be done: what goes round is after them. `%i.begun` steps are done.

    `step` writes one step of all copies: what becomes of what goes round. `count`, an integer with its type, are due where
    `before` ends.
    """
    copies, number = range(len(start[0])), count.partition(" ")[0]
    w.lines += [
        f"  %i.last = sub {count}, 1",
        f"  %i.whole = and {number} %i.last, {-steps}",
        f"  %i.any = icmp sgt {number} %i.whole, 0",
        "  br i1 %i.any, label %pass, label %rest",
        "pass:",
        f"  %i.pass = phi {number} [ 0, %{before} ], [ %i.passed, %pass ]",
    ]
    at = len(w.lines)
    now = [[f"%a{k}.{r}" for r in copies] for k in range(len(types))]
    w.lines += [""] * (len(types) * len(copies))
    values = now
    for _ in range(steps):
        values = step(values)
    for k, t in enumerate(types):
        for r in copies:
            line = f"  {now[k][r]} = phi {t} [ {start[k][r]}, %{before} ], [ {values[k][r]}, %pass ]"
            w.lines[at + k * len(copies) + r] = line
    w.lines += [
        f"  %i.passed = add {number} %i.pass, {steps}",
        f"  %i.more = icmp slt {number} %i.passed, %i.whole",
        "  br i1 %i.more, label %pass, label %rest",
        "rest:",
        f"  %i.begun = phi {number} [ 0, %{before} ], [ %i.whole, %pass ]",
    ]
    return [
        [w.new(f"phi {t} [ {start[k][r]}, %{before} ], [ {values[k][r]}, %pass ]") for r in copies]
        for k, t in enumerate(types)
    ]
