"""What does one step cost?  Operations counted on the program, not guessed."""

from __future__ import annotations

from collections import Counter

from tinyphysics.ir import Ops
from tinyphysics.ir.dtype import f64
from tinyphysics.ir.fourier import operations as operations_of_transform
from tinyphysics.ir.mesh import INTERPOLATE, SPREAD
from tinyphysics.rules.calculus.elliptic import per_number
from tinyphysics.tpir.program.isa import Instruction, Operand, Program, Word
from tinyphysics.tpir.program.values import FUNCTIONS
from tinyphysics.tpir.program.written import along, numbers_of, of_function, shapes_of
from tinyphysics.util import prod

FREE = ("free", "neg")  # movement, copies and signs


def kind(i: Instruction) -> str:
    """The name under which an instruction is counted."""
    if i.op == "SCALE" and i.args[0] == Word("over"):
        return "div"
    return str(i.args[0]) if i.row.cost == "function" else i.row.cost


NEIGHBOURS = 100  # pairs that a list looks at for each particle: an estimate
CHOSEN = (Word("gather"), Word("scatter"))


def is_constant(index: Operand, program: Program) -> bool:
    """Is an index a list of numbers?  Then what it chooses is known beforehand, and free."""
    return any(
        i.dst == index and i.args[:1] == (Word("stack"),) and all(isinstance(x, float) for x in i.args[1:])
        for _, _, i in program.numbered()
    )


def choices(i: Instruction, shapes: dict[Operand, tuple[int, ...]]) -> int:
    """What choosing costs where it is written out: every item is compared with every index."""
    source, indices = shapes.get(i.args[1], ()), i.args[2:]
    short, long = (i.type.shape, source) if i.args[0] == CHOSEN[1] else (source, i.type.shape)
    return prod(short[: len(indices)]) * prod(long)


def operations(instructions: tuple[Instruction, ...], program: Program) -> Counter[str]:
    """Floating-point operations by name; movement, signs and copies are free."""
    out: Counter[str] = Counter()
    shapes = shapes_of(program)
    lists = [shapes[i.args[1]][0] for i in program.step if i.op == "NEAR"]

    def numbers(shape: tuple[int, ...]) -> int:
        """Of an array; of one over all pairs of a list, those that a row is likely to look at."""
        by_list = len(shape) > 1 and shape[0] == shape[1] and shape[0] in lists
        return shape[0] * min(shape[0], NEIGHBOURS) * prod(shape[2:]) if by_list else prod(shape)

    for i in instructions:
        name = kind(i)
        if i.op == "MOVE" and i.args[0] in CHOSEN and not is_constant(i.args[2], program):
            in_order = any(x.op == "NEAR" and x.dst == i.args[2] for _, _, x in program.numbered())
            out["where"] += 0 if in_order else choices(i, shapes)
            continue
        if name in FREE:
            continue
        size = numbers(i.type.shape)
        if i.op in ("KEPLER", "KEPLER_ALONG", "PULL"):  # of a body; both parts of an orbit are one solution
            size = 0 if i.op != "PULL" and i.args[-1] == (1,) else i.type.shape[0] - 1
        if i.op == "LINE":  # each number of a row is joined by products of a row below, and of its own matrix
            size *= 2 * i.type.shape[0]
        if i.op == "ELLIPTIC":
            size *= per_number(i.type.shape, i.args[-1])
        if i.op == "MESH":
            size = of_mesh(i)
        if i.op == "FOURIER":
            rest, n = along(i)
            size = prod(rest) * operations_of_transform(n) // 2
        if i.op == "LIE_CROSS":  # two products and a difference for each number
            out.update({"mul": 2 * size, "sub": size})
            continue
        if i.row.numbers == "summed":
            size = numbers(shapes.get(i.args[0], ())) - size
        if size:
            out[name] += size
    return out


def of_mesh(i: Instruction) -> int:
    """Operations of particles on a mesh, or of transforms there and back."""
    what, (order, *_, a, b, c) = str(i.args[0]), numbers_of(i.args[3])
    if what == SPREAD:
        return 0  # there are as many interpolations, and of as many particles: the result does not tell them
    if what == INTERPOLATE:
        return 2 * i.type.shape[0] * order**3
    return a * b * c * sum(2 * 5 * n.bit_length() for n in (a, b, c))


DIVISION = 8  # products that take as long as a quotient or a root


def work(program: Program, rounds: int) -> int:
    """Operations of a step as a machine has them: functions by what they are made of, and again in every round of a SOLVE."""
    parts: dict[bool, list[Instruction]] = {False: [], True: []}
    solving = False
    for i in program.step:
        solving = i.row.kind == "open" or solving and i.row.kind != "close"
        parts[solving].append(i)
    once, often = (
        sum(n * dear(name) for name, n in operations(tuple(own), program).items()) for own in parts.values()
    )
    return once + rounds * often


def dear(name: str) -> int:
    """What one operation of a name takes."""
    return DIVISION if FUNCTIONS.get(name) in (Ops.DIV, Ops.SQRT) else of_function(name, f64)


def describe(count: Counter[str]) -> str:
    total = sum(count.values())
    parts = ", ".join(f"{n} {name}" for name, n in sorted(count.items(), key=lambda x: (-x[1], x[0])))
    return f"{total} ({parts})" if total else "0"
