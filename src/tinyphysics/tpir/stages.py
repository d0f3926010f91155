"""Does a step repeat itself?  Stages that are equal up to their weights, so that a kernel can loop over them.

A missed yes costs speed and a wrong yes costs bits: the listings of the stages must be the same but for
the names of registers that a stage writes before it reads them, and for what no step changes.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyphysics.tpir.isa import Instruction, Operand, Param, Program, Register, operand_text

Row = tuple[Operand, ...]  # one operand as it stands in each stage


@dataclass(frozen=True)
class Stages:
    """`body` is one stage, in which register W{k} stands for the k-th of the weights."""

    count: int
    body: tuple[Instruction, ...]
    weights: dict[Register, Row]  # what stands for it in each stage: a number, a parameter, a register of `init`


def stages_of(program: Program, fixed: Callable[[Register], bool]) -> Stages | None:
    """The shortest body that makes the step by repetition; `fixed` says what no state and no step changes."""
    step = program.step
    shape = [(i.op, i.type, len(i.operands)) for i in step]
    for length in range(1, len(step) // 2 + 1):
        if len(step) % length == 0 and shape[length:] == shape[:-length]:
            found = repeated(step, length, fixed)
            if found is not None:
                return found
    return None


@dataclass(frozen=True)
class Ends:
    """What `init` does after its first part, and `final` before its last, where those are stages like the step's."""

    init: tuple[Instruction, ...]
    enter: Stages | None
    leave: Stages | None
    final: tuple[Instruction, ...]


def ends_of(program: Program, fixed: Callable[[Register], bool]) -> Ends:
    """A corrector is many stages long: written out, it would be longer than any step."""
    plain = Ends(program.init, None, None, program.final)
    if not any(i.op == "ORBIT" for i in program.init):
        return plain
    found = stages_of(program, fixed)
    length = len(program.step) // (1 if found is None else found.count)
    shape = [(i.op, i.type) for i in program.step[:length]]

    def count(section: tuple[Instruction, ...], step: int) -> int:
        """How many stages there are from one end of a section on; `step` is -1 from its last."""
        n = 0
        while (n + 1) * length <= len(section):
            part = section[n * length : (n + 1) * length] if step > 0 else section[len(section) - (n + 1) * length :][:length]
            if [(i.op, i.type) for i in part] != shape:
                break
            n += 1
        return n

    before, after = count(program.init, -1), count(program.final, 1)
    if before < 2 or after < 2:
        return plain
    cut = len(program.init) - before * length
    enter = repeated(program.init[cut:], length, fixed)
    leave = repeated(program.final[: after * length], length, fixed)
    if enter is None or leave is None:
        return plain
    return Ends(program.init[:cut], enter, leave, program.final[after * length :])


def repeated(step: tuple[Instruction, ...], length: int, fixed: Callable[[Register], bool]) -> Stages | None:
    parts = [step[k : k + length] for k in range(0, len(step), length)]
    written = {i.dst for i in step}
    names: list[dict[Operand, Operand]] = [{} for _ in parts]  # what a stage has written, by the first stage's name
    weights: dict[Row, Register] = {}
    body = []
    for same in zip(*parts):
        arguments: list[Operand] = []
        for row in zip(*(i.args for i in same)):
            own = [isinstance(x, Register) and x.kind != "S" and x in written for x in row]
            if any(own):
                if not all(x in known for x, known in zip(row, names)):
                    return None  # read before this stage has written it
                row = tuple(known[x] for x, known in zip(row, names))
            if all(operand_text(x) == operand_text(row[0]) for x in row):  # -0.0 is not 0.0
                arguments.append(row[0])
            elif all(weighs(x, same[0].op, fixed) for x in row):
                arguments.append(weights.setdefault(row, Register("W", len(weights))))
            else:
                return None
        first = same[0].dst
        for i, known in zip(same, names):
            if isinstance(i.dst, Register) and i.dst.kind == "S":
                if i.dst != first:
                    return None
            elif i.op in ("ACC_GRAD", "UNTIL") and known.get(i.dst) != first:
                return None  # adds to what this stage has not set, or ends what it has not begun
            else:
                known[i.dst] = first
        body.append(Instruction(same[0].op, (first, *arguments), same[0].type))
    return Stages(len(parts), tuple(body), {w: row for row, w in weights.items()})


def weighs(x: Operand, op: str, fixed: Callable[[Register], bool]) -> bool:
    """May the operand differ from stage to stage?  Of the numbers, only the clock's."""
    if isinstance(x, float):
        return op == "TIME"
    return isinstance(x, Param) or (isinstance(x, Register) and fixed(x))
