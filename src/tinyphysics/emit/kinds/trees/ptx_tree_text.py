"""What are the kernels of a tree written with, and where is what they hand to each other?  Lines and rows of numbers.

All but the opening angle lies in the workspace that nests share: a tree lives as long as one evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyphysics.emit.loops.nest_writer import NestWriter
from tinyphysics.emit.text.code import Arithmetic
from tinyphysics.tpir.kernels.loopir import WORKSPACE
from tinyphysics.tpir.kernels.tree import BOX, GROUP, PLANES, levels_of
from tinyphysics.util import prod

ROWS, NODES, BOXES = "rows", "nodes", "boxes"  # points in their order, nodes, and what these reach across
ORDER, OTHER_ORDER, KEYS, OTHER_KEYS = (
    "order",
    "other order",
    "keys",
    "other keys",
)  # sorted from one into the other
FRAME, REACH, OTHER_REACH = (
    "frame",
    "reach",
    "other reach",
)  # where keys are counted from; the boxes of parts of the points
COUNTERS = "counters"
ROW, NODE, SIDES, CORNER = 4, BOX, PLANES - BOX, 4  # numbers of a point, of a node, of a box and of the frame
LINE = 256  # bytes that arrays are aligned to
MOST = 1 << 30  # points: for so many a word has bits of all levels
PART = 64  # numbers that a thread sums up
DIGIT, DIGITS = 6, 64  # bits of a pass of the sort
OWN, THREADS = 16, 1 << 14  # numbers that a thread sorts at least, threads at most
TOGETHER = 8  # numbers that are read before one is used
RANKED = 8192  # points, up to which counting who comes before is sooner than passes


def ranked(n: int) -> bool:
    return n <= RANKED


def shares(n: int) -> tuple[int, int]:
    """(numbers that a thread sorts, threads)."""
    each = max(OWN, -(-n // THREADS))
    return each, -(-n // each)


def parts_of(count: int) -> list[int]:
    """Numbers, sums of parts of them, sums of parts of those; until one thread has all."""
    out = [count]
    while out[-1] > PART:
        out.append(-(-out[-1] // PART))
    return out


def arrays_of(n: int) -> tuple[dict[str, int], int]:
    """(where in the workspace each array is, bytes of all)."""
    wide = levels_of(n)[-1][0] + GROUP
    around, reach = -(-n // GROUP) * GROUP, 8 * SIDES * -(-n // PART)
    sizes = {
        ROWS: 8 * ROW * around,
        NODES: 8 * NODE * wide,
        BOXES: 8 * SIDES * wide,
        ORDER: 4 * n,
        KEYS: 8 * n,
        FRAME: 8 * CORNER,
        REACH: reach,
        OTHER_REACH: reach,
    }
    if not ranked(n):
        sizes |= {OTHER_ORDER: 4 * n, OTHER_KEYS: 8 * n}
        sizes |= {f"{COUNTERS}{k}": 4 * size for k, size in enumerate(parts_of(DIGITS * shares(n)[1]))}
    out, at = {}, 0
    for name, size in sizes.items():
        out[name] = at
        at += -(-size // LINE) * LINE
    return out, at


class Numbers(Arithmetic):
    """Lines of one thread; arithmetic as emit/kinds/trees/tree_walk.py has it for eight."""

    def __init__(self, f: NestWriter) -> None:
        self.f, self.new, self.declared = f, f.new, f.w.declared
        places, _ = arrays_of(
            prod(f.nest.sizes)
        )  # here, where every path comes by; what is not used leaves no trace
        self.arrays = {
            x: self.new(f"getelementptr i8, ptr {f.pointer[WORKSPACE]}, i64 {at}") for x, at in places.items()
        }

    def less(self, a: str, b: str) -> str:
        """Of whole numbers."""
        return self.chosen(self.new(f"icmp slt i64 {a}, {b}"), a, b, "i64")

    def finite(self, x: str) -> str:
        return self.new(f"fcmp ord double {self.op('fsub', x, x)}, 0.0")

    def extreme(self, how: str, a: str, b: str) -> str:
        """The smaller ("lt") or larger ("gt") of two; what is no number stays."""
        better = self.new(
            f"or i1 {self.new(f'fcmp o{how} double {b}, {a}')}, {self.new(f'fcmp uno double {b}, {b}')}"
        )
        return self.chosen(better, b, a)

    def ones(self, name: str, x: str) -> str:
        """Zeros before (ctlz) or behind (cttz) the ones of a word that has some."""
        self.f.w.declared[f"@llvm.{name}.i32"] = f"declare i32 @llvm.{name}.i32(i32, i1)"
        return self.new(f"call i32 @llvm.{name}.i32(i32 {x}, i1 true)")

    # --- memory -------------------------------------------------------------------------------
    def array(self, name: str) -> str:
        """Where an array begins, or a buffer of its own."""
        return self.arrays[name] if name in self.arrays else self.f.pointer[name]

    def at(self, array: str, index: str, t: str) -> str:
        return self.new(f"getelementptr {t}, ptr {self.array(array)}, i64 {index}")

    def get(self, array: str, index: str, t: str = "i64") -> str:
        """A number of 32 bits becomes one of 64."""
        found = self.new(f"load {t}, ptr {self.at(array, index, t)}")
        return self.new(f"zext i32 {found} to i64") if t == "i32" else found

    def put(self, array: str, index: str, value: str, t: str = "i64") -> None:
        if t == "i32":
            value = self.new(f"trunc i64 {value} to i32")
        self.f.line(f"store {t} {value}, ptr {self.at(array, index, t)}")

    def row(self, array: str, width: int, index: str) -> Callable[[int], str]:
        """The numbers of a row, read by twos and where one is first asked for."""
        begin = self.new(f"getelementptr [{width} x double], ptr {self.array(array)}, i64 {index}")
        found: dict[int, str] = {}

        def number(k: int) -> str:
            if k not in found:
                even = k // 2 * 2
                at = self.new(f"getelementptr double, ptr {begin}, i64 {even}")
                two = self.new(f"load <2 x double>, ptr {at}, align 16")
                found[even], found[even + 1] = (
                    self.new(f"extractelement <2 x double> {two}, i64 {j}") for j in (0, 1)
                )
            return found[k]

        return number

    def put_row(self, array: str, index: str, values: Sequence[str]) -> None:
        begin = self.new(f"getelementptr [{len(values)} x double], ptr {self.array(array)}, i64 {index}")
        for k, x in enumerate(values):
            self.f.line(f"store double {x}, ptr {self.new(f'getelementptr double, ptr {begin}, i64 {k}')}")

    def table(self, name: str, numbers: Sequence[int], k: str) -> str:
        """One of some whole numbers that are known."""
        items = ", ".join(f"i64 {x}" for x in numbers)
        self.f.w.declared[name] = f"{name} = internal addrspace(4) constant [{len(numbers)} x i64] [{items}]"
        return self.new(
            f"load i64, ptr addrspace(4) {self.new(f'getelementptr i64, ptr addrspace(4) {name}, i64 {k}')}"
        )


def in_eights(
    f: NestWriter,
    begin: str,
    end: str,
    start: Sequence[tuple[str, str]],
    body: Callable[[list[str], list[str]], list[str]],
    step: int = 1,
) -> list[str]:
    """A loop in which the loads of eight turns wait beside each other; the body has the numbers of some turns."""
    kinds = [kind for kind, _ in start]

    def some(many: int) -> Callable[[str, list[str]], list[str]]:
        def turns(i: str, carried: list[str]) -> list[str]:
            after = f.new(f"add i64 {i}, {many * step}")
            return [
                after,
                *body([f.new(f"add i64 {i}, {k * step}") if k else i for k in range(many)], carried[1:]),
            ]

        return turns

    last = f.new(f"sub i64 {end}, {(TOGETHER - 1) * step}")
    on, *values = f.carrying(begin, last, TOGETHER * step, [("i64", begin), *start], some(TOGETHER))
    return f.carrying(on, end, step, [("i64", on), *zip(kinds, values)], some(1))[1:]
