"""How many operations would be written down for a program?  Counted on its instructions, before anything is expanded.

Written out number by number, an array counts with all its numbers. In loops it counts with the axes that are no loops:
a nest has a line for each combination of components, whatever the length of its loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tinyphysics.ir import fourier
from tinyphysics.ir.dtype import DType, i64, u32
from tinyphysics.ir.ops import ARITY, BINARY, UNARY
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.calculus.elliptic import per_number
from tinyphysics.rules.functions.random import drawn
from tinyphysics.rules.functions.transcendental import weight
from tinyphysics.tpir.program.isa import Instruction, Operand, Param, Program, Register, Word
from tinyphysics.tpir.program.values import FUNCTIONS
from tinyphysics.util import prod

Shapes = dict[Operand, tuple[int, ...]]
# one from several, by the place
CHOICES = (Word("pad"), Word("concat"), Word("roll"), Word("gather"), Word("scatter"))


@lru_cache(maxsize=256)
def of_function(name: str, dtype: DType) -> int:
    """Operations of the minimal set that a function of one number is made of."""
    op = FUNCTIONS.get(name)
    if op is None or op not in UNARY | BINARY:
        return 1
    return weight(UOp(op, dtype, (), tuple(UOp.var(f"x{k}", (), dtype) for k in range(ARITY[op]))))


@lru_cache(maxsize=8)
def of_noise(kind: str, dtype: DType) -> int:
    address = [UOp.var(name, (), t) for name, t in (("low", u32), ("high", u32), ("n", i64), ("m", i64))]
    return weight(drawn(kind, (0, 1), dtype, UOp.var("k", (), i64), address))


@lru_cache(maxsize=8)
def shapes_of(program: Program) -> Shapes:
    """Of parameters, of states and of all that is computed; not to be changed."""
    shapes: Shapes = {Param(p.name): p.type.shape for p in program.params}
    shapes |= {Register("S", k): s.type.shape for k, s in enumerate(program.states)}
    return shapes | {i.dst: i.type.shape for _, _, i in program.numbered()}


def axes_of(program: Program) -> frozenset[int]:
    """The lengths of all axes in a program: of states, of parameters, and of what is computed on the way."""
    return frozenset(n for shape in shapes_of(program).values() for n in shape)


def along(i: Instruction) -> tuple[tuple[int, ...], int]:
    """Of a FOURIER: the axes that it does not go along, and the length of the one that it does."""
    numbers, shape = i.args[2], i.type.shape
    assert isinstance(numbers, tuple) and isinstance(numbers[2], int)
    axis = numbers[2]
    return shape[:axis] + shape[axis + 1 :], shape[axis]


def numbers_of(x: Operand) -> tuple[int, ...]:
    """The operand that holds whole numbers."""
    assert isinstance(x, tuple)
    return tuple(n for n in x if isinstance(n, int))


def lines(program: Program, instructions: Sequence[Instruction], components: int | None = None) -> int:
    """Operations of the minimal set that are written for some instructions.

    Axes longer than `components` are loops, of which the body counts once; None: all is written out.
    """
    shapes = shapes_of(program)

    def numbers(shape: Sequence[int]) -> int:
        return prod(n for n in shape if components is None or n <= components)

    total = 0
    for i in instructions:
        size = numbers(i.type.shape)
        if i.op == "ELLIPTIC":
            total += size * per_number(i.type.shape, i.args[-1])
        elif i.op == "MESH":
            total += 200
        elif i.op == "FOURIER":
            rest, n = along(i)
            in_loops = components is not None and n > components
            total += numbers(rest) * (fourier.lines if in_loops else fourier.operations)(n) // 2
        elif i.row.numbers == "summed":
            total += numbers(shapes.get(i.args[0], ()))
        elif i.row.cost == "function" and isinstance(i.args[0], Word):
            total += size * of_function(i.args[0].text, i.type.dtype)
        elif i.op == "LINE":
            total += 2 * i.type.shape[0] * size
        elif i.row.numbers == "drawn" and isinstance(i.args[0], Word):
            total += size * of_noise(i.args[0].text, i.type.dtype)
        elif i.row.written or components is not None and i.op == "MOVE" and i.args[0] in CHOICES:
            total += size
    return total
