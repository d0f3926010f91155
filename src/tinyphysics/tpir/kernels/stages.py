"""Does a step repeat itself?  Stages that are equal up to their weights, so that a kernel can loop over them.

Between some of them may come what is done less often: a slow kick after so many fast ones.

A missed yes costs speed and a wrong yes costs bits: the listings of the stages must be the same but for
the names of registers that a stage writes before it reads them, and for what no step changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinyphysics.tpir.program.isa import Instruction, Operand, Param, Program, Register, Word
from tinyphysics.tpir.program.liveness import reads_before_writing

Row = tuple[Operand, ...]  # one operand as it stands in each stage


@dataclass(frozen=True)
class Tail:
    """What is done after every so many stages, by what the states are then."""

    period: int
    body: tuple[Instruction, ...]


@dataclass(frozen=True)
class RolledStep:
    """`body` is one stage, in which register W{k} stands for the k-th of the weights."""

    count: int
    body: tuple[Instruction, ...]
    # what stands for it in each stage: a number, a parameter, a register of `init`
    weights: dict[Register, Row]
    tails: tuple[Tail, ...] = ()  # in their order; a period divides the next one

    @property
    def length(self) -> int:
        """Instructions that are written."""
        return len(self.body) + sum(len(t.body) for t in self.tails)


def stages_of(program: Program, fixed: Callable[[Register], bool]) -> RolledStep | None:
    """The shortest body that makes the step by repetition; `fixed` says what no state and no step changes."""
    step = program.step
    shape = [(i.op, i.type, len(i.operands)) for i in step]
    for length in range(1, len(step) // 2 + 1):
        if len(step) % length == 0 and shape[length:] == shape[:-length]:
            found = repeated(step, length, fixed)
            if found is not None:
                return found
    return None


def rolled_up(program: Program, fixed: Callable[[Register], bool]) -> RolledStep | None:
    """The stages of a step, with tails where it is not all one repetition, or where a stage repeats itself within."""
    found, nested = stages_of(program, fixed), with_tails(program.step, fixed)
    if found is None or nested is None:
        return nested if found is None else found
    return nested if 2 * nested.length <= found.length else found


# --- what is done less often ------------------------------------------------------------------------
WORTH = 0.75  # of a step: a loop that is written in more than that is not worth it
Nest = list[tuple[int, int]]  # (repetitions, length of the tail behind them), the innermost first


def with_tails(step: tuple[Instruction, ...], fixed: Callable[[Register], bool]) -> RolledStep | None:
    """A step that repeats itself but for tails: ((stage * n, tail) * m, tail), to any depth."""
    if not all(i.row.rolls for i in step):  # laid out in ways of its own
        return None
    numbers: dict[tuple[object, ...], int] = {}
    found = folded([numbers.setdefault(kind_of(i), len(numbers)) for i in step])
    if found is None:
        return None
    length, nest = found
    starts, ends = [0], [length]  # of the stages, and behind each of them
    tails: list[list[tuple[int, int]]] = []  # for each depth: (begin, end) of its tails
    size = length
    for count, tail in nest:
        starts = [k * size + s for k in range(count) for s in starts]
        tails = [[(k * size + a, k * size + b) for k in range(count) for a, b in depth] for depth in tails]
        size = count * size + tail
        tails.append([(size - tail, size)])
    ends = [s + length for s in starts]
    written = frozenset(i.dst for i in step)
    weights: dict[Row, Register] = {}
    body = alike([step[a:b] for a, b in zip(starts, ends)], written, fixed, weights)
    if body is None or not any(is_state(i.dst) for i in body):
        return None
    out: list[Tail] = []
    for depth in tails:
        if depth[0][0] == depth[0][1]:
            continue  # nothing is done at this depth
        parts = [with_sources(step, a, b, written) for a, b in depth]
        period = len(starts) // len(depth)
        known = [p for p in parts if p is not None]
        if len(known) < len(parts) or (one := alike(known, written, fixed, weights, period)) is None:
            return None
        out.append(Tail(period, one))
    stages = RolledStep(len(starts), body, {w: row for row, w in weights.items()}, tuple(out))
    return stages if stages.length <= WORTH * len(step) else None


def kind_of(i: Instruction) -> tuple[object, ...]:
    """What instructions that are one stage have in common: states are the same ones, and so are words.

    A kick of p by q and a drift of q by p may have the same operations; their states tell them apart.
    """
    return i.op, i.type, *(x if is_state(x) or isinstance(x, Word) else None for x in i.operands)


def folded(shape: Sequence[int]) -> tuple[int, Nest] | None:
    """(length of a stage, how it is nested), by numbers for the shapes of instructions; that with the shortest tail."""
    n, best = len(shape), None
    for length in range(1, n // 2 + 1):
        if best is not None and length % best[1] == 0:
            continue  # as far as the shorter one, and no further
        end = length
        while end < n and shape[end] == shape[end - length]:
            end += 1
        tail = n - end // length * length
        if end >= 2 * length and (best is None or tail < best[0]):
            best = tail, length, end // length
    if best is None:
        return None
    tail, length, count = best
    within = folded(shape[:length])
    return (length, [(count, tail)]) if within is None else (within[0], [*within[1], (count, tail)])


def with_sources(
    step: tuple[Instruction, ...], begin: int, end: int, written: frozenset[Operand]
) -> tuple[Instruction, ...] | None:
    """Part of a step, and before it what it reads of earlier ones, done again; None if that has changed since."""
    first = reads_before_writing(step[begin:end])
    wanted: set[Operand] = {x for x in first if x in written and not is_state(x)}
    moved: set[Operand] = set()  # states that were updated between there and here
    again: list[Instruction] = []
    for i in reversed(step[:begin]):
        if not wanted:
            break
        if is_state(i.dst):
            moved.add(i.dst)
        elif i.dst in wanted:
            if i.row.reads_own or i.row.kind in ("open", "close") or any(x in moved for x in i.args):
                return None  # more than one line makes it
            again.append(i)
            wanted.discard(i.dst)
            wanted |= {x for x in i.args if isinstance(x, Register) and x in written and not is_state(x)}
    return None if wanted else (*reversed(again), *step[begin:end])


def is_state(x: Operand) -> bool:
    return isinstance(x, Register) and x.kind == "S"


@dataclass(frozen=True)
class RolledEnds:
    """What `init` does after its first part, and `final` before its last, where those are stages like the step's."""

    init: tuple[Instruction, ...]
    enter: RolledStep | None
    leave: RolledStep | None
    final: tuple[Instruction, ...]


def ends_of(program: Program, fixed: Callable[[Register], bool]) -> RolledEnds:
    """A corrector is many stages long: written out, it would be longer than any step."""
    plain = RolledEnds(program.init, None, None, program.final)
    if not any(i.op == "ORBIT" for i in program.init):
        return plain
    found = stages_of(program, fixed)
    length = len(program.step) // (1 if found is None else found.count)
    shape = [(i.op, i.type) for i in program.step[:length]]

    def count(section: tuple[Instruction, ...], step: int) -> int:
        """How many stages there are from one end of a section on; `step` is -1 from its last."""
        n = 0
        while (n + 1) * length <= len(section):
            first = n * length if step > 0 else len(section) - (n + 1) * length
            part = section[first : first + length]
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
    return RolledEnds(program.init[:cut], enter, leave, program.final[after * length :])


def repeated(
    step: tuple[Instruction, ...], length: int, fixed: Callable[[Register], bool]
) -> RolledStep | None:
    parts = [step[k : k + length] for k in range(0, len(step), length)]
    weights: dict[Row, Register] = {}
    body = alike(parts, frozenset(i.dst for i in step), fixed, weights)
    return None if body is None else RolledStep(len(parts), body, {w: row for row, w in weights.items()})


def same_operand(x: Operand, y: Operand) -> bool:
    """As they are written: 0.0 is not -0.0."""
    return (
        repr(x) == repr(y) if isinstance(x, float) and isinstance(y, float) else type(x) is type(y) and x == y
    )


def alike(
    parts: list[tuple[Instruction, ...]],
    written: frozenset[Operand],
    fixed: Callable[[Register], bool],
    weights: dict[Row, Register],
    times: int = 1,
) -> tuple[Instruction, ...] | None:
    """One part that stands for all of them, if they are equal up to weights, which are added to those that are known.

    Each is done after so many stages: a weight has a value for every stage.
    """
    if len({len(part) for part in parts}) > 1:
        return None
    # what a stage has written, by the first stage's name
    names: list[dict[Operand, Operand]] = [{} for _ in parts]
    body = []
    for same in zip(*parts):
        if len({(i.op, i.type, len(i.operands)) for i in same}) > 1:
            return None
        arguments: list[Operand] = []
        for row in zip(*(i.args for i in same)):
            own = [isinstance(x, Register) and x.kind != "S" and x in written for x in row]
            if any(own):
                if not all(x in known for x, known in zip(row, names)):
                    return None  # read before this stage has written it
                row = tuple(known[x] for x, known in zip(row, names))
            if all(x is row[0] or same_operand(x, row[0]) for x in row):
                arguments.append(row[0])
            elif all(weighs(x, same[0].op, fixed) for x in row):
                row = tuple(x for x in row for _ in range(times))
                arguments.append(weights.setdefault(row, Register("W", len(weights))))
            else:
                return None
        first = same[0].dst
        for i, known in zip(same, names):
            if isinstance(i.dst, Register) and i.dst.kind == "S":
                if i.dst != first:
                    return None
            elif (i.row.reads_own or i.row.kind == "close") and known.get(i.dst) != first:
                return None  # adds to what this stage has not set, or ends what it has not begun
            else:
                known[i.dst] = first
        body.append(Instruction(same[0].op, (first, *arguments), same[0].type))
    return tuple(body)


def weighs(x: Operand, op: str, fixed: Callable[[Register], bool]) -> bool:
    """May the operand differ from stage to stage?  Of the numbers, only the clock's."""
    if isinstance(x, float):
        return op == "TIME"
    return isinstance(x, Param) or (isinstance(x, Register) and fixed(x))
