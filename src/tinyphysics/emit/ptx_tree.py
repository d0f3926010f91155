"""How is a tree walked on a CUDA device?  A thread for each point; the eight of a leaf go together, as lanes do elsewhere.

Each of the eight looks at one child of a node, and a vote says which of them are small for their distance. Nodes that are
taken as a whole come first in a sum, then the points of leaves (emit/tree_walk.py), so the tree is walked twice and no list
is kept. What is left of a level is eight bits, and the levels above are in the same word.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyphysics.emit.nest_writer import NestWriter
from tinyphysics.tpir.tree import BOX, GROUP, MASS, MOMENTS, PLANES, SIZE, TRACE, levels_of, pull_of

ROWS, NODES, BOXES, ORDER = "tree.rows", "tree.nodes", "tree.boxes", "tree.order"
NUMBERS = "tree.numbers"  # the squares of the opening angle and of the softening
ROW, NODE, SIDES = 4, BOX, PLANES - BOX  # numbers of a point, of a node and of a box
BALLOT = "@llvm.nvvm.vote.ballot.sync"
PLANTED = (ROWS, NODES, BOXES, ORDER, NUMBERS)
MOST = 1 << 30  # points, for whose levels a word has bits enough


class Numbers:
    """Operations on numbers, as text."""

    def __init__(self, f: NestWriter) -> None:
        self.f, self.new = f, f.new

    def op(self, name: str, a: str, b: str) -> str:
        return self.new(f"{name} double {a}, {b}")

    def call(self, name: str, *args: str) -> str:
        self.f.w.declared[f"@llvm.{name}.f64"] = f"declare double @llvm.{name}.f64({', '.join(['double'] * len(args))})"
        return self.new(f"call double @llvm.{name}.f64({', '.join(f'double {a}' for a in args)})")

    def fma(self, a: str, b: str, c: str) -> str:
        return self.call("fma", a, b, c)

    def row(self, array: str, width: int, index: str) -> Callable[[int], str]:
        """The numbers of a row, read by twos and where one is first asked for."""
        begin = self.new(f"getelementptr [{width} x double], ptr {self.f.pointer[array]}, i64 {index}")
        found: dict[int, str] = {}

        def number(k: int) -> str:
            if k not in found:
                even = k // 2 * 2
                at = self.new(f"getelementptr double, ptr {begin}, i64 {even}")
                two = self.new(f"load <2 x double>, ptr {at}, align 16")
                found[even], found[even + 1] = (self.new(f"extractelement <2 x double> {two}, i64 {j}") for j in (0, 1))
            return found[k]

        return number

    def table(self, name: str, numbers: Sequence[int], k: str) -> str:
        """One of some whole numbers that are known."""
        items = ", ".join(f"i64 {x}" for x in numbers)
        self.f.w.declared[name] = f"{name} = internal addrspace(4) constant [{len(numbers)} x i64] [{items}]"
        return self.new(f"load i64, ptr addrspace(4) {self.new(f'getelementptr i64, ptr addrspace(4) {name}, i64 {k}')}")

    def ones(self, name: str, x: str) -> str:
        """Zeros before (ctlz) or behind (cttz) the ones of a word that has some."""
        self.f.w.declared[f"@llvm.{name}.i32"] = f"declare i32 @llvm.{name}.i32(i32, i1)"
        return self.new(f"call i32 @llvm.{name}.i32(i32 {x}, i1 true)")


class Pulled:
    """One point and its sums; every operation as in emit/tree_walk.py."""

    def __init__(self, c: Numbers, x: Sequence[str], softening: str) -> None:
        self.c, self.x, self.softening = c, list(x), softening

    def inverse(self, d: Sequence[str]) -> str:
        square = self.softening
        for x in d:
            square = self.c.fma(x, x, square)
        return self.c.op("fdiv", "1.0", self.c.call("sqrt", square))

    def point(self, row: Callable[[int], str], other: str, sums: Sequence[str]) -> list[str]:
        c = self.c
        d = [c.op("fsub", row(k), x) for k, x in enumerate(self.x)]
        r = self.inverse(d)
        pull = c.op("fmul", c.op("fmul", row(MASS), r), c.op("fmul", r, r))
        pull = c.new(f"select i1 {other}, double {pull}, double 0.0")
        return [c.fma(pull, x, a) for x, a in zip(d, sums)]

    def node(self, row: Callable[[int], str], sums: Sequence[str]) -> list[str]:
        c = self.c
        d = [c.op("fsub", row(k), x) for k, x in enumerate(self.x)]
        r = self.inverse(d)
        r2 = c.op("fmul", r, r)
        r3 = c.op("fmul", r, r2)
        r5 = c.op("fmul", r3, r2)
        xx, xy, xz, yy, yz, zz = (row(MOMENTS + k) for k in range(6))
        turned = []
        for line in ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz)):
            turned.append(c.fma(line[2], d[2], c.fma(line[1], d[1], c.op("fmul", line[0], d[0]))))
        along = c.fma(turned[2], d[2], c.fma(turned[1], d[1], c.op("fmul", turned[0], d[0])))
        rest = c.op("fsub", c.op("fmul", c.op("fmul", along, "2.5"), r2), row(TRACE))
        pull = c.fma(r5, rest, c.op("fmul", row(MASS), r3))
        flat = [c.fma(pull, x, a) for x, a in zip(d, sums)]
        minus = c.new(f"fneg double {r5}")
        return [c.fma(minus, x, a) for x, a in zip(turned, flat)]


def looping(
    f: NestWriter, start: Sequence[tuple[str, str]], more: Callable[[list[str]], str], body: Callable[[list[str]], list[str]]
) -> list[str]:
    """While `more` of what is carried; given as (type, first value)."""
    f.labels += 1
    n, before = f.labels, f.block
    names = [f"%w{n}.{k}" for k in range(len(start))]
    f.line(f"br label %while{n}")
    f.label(f"while{n}")
    phis = len(f.w.lines)
    f.w.lines += [""] * len(start)
    f.line(f"br i1 {more(names)}, label %do{n}, label %end{n}")
    f.label(f"do{n}")
    after = body(names)
    for k, ((kind, first), value) in enumerate(zip(start, after)):
        f.w.lines[phis + k] = f"  {names[k]} = phi {kind} [ {first}, %{before} ], [ {value}, %{f.block} ]"
    f.line(f"br label %while{n}")
    f.label(f"end{n}")
    return names


def walk(f: NestWriter, _: str) -> None:
    """The pull on a point, at its place in the order of the curve; written to its own place."""
    c = Numbers(f)
    n = f.nest.sizes[0]
    numbers = c.row(NUMBERS, 2, "0")
    angle, softening = numbers(0), numbers(1)
    box = c.row(BOXES, SIDES, c.new("lshr i64 %thread, 3"))
    sides = [box(k) for k in range(SIDES)]
    own = c.row(ROWS, ROW, "%thread")
    pulled = Pulled(c, [own(k) for k in range(3)], softening)
    sums = ["0.0"] * 3
    for of_leaves in (False, True):
        sums = through(Walk(c, sides, angle, pulled, n), of_leaves, sums)
    f.line(f"br i1 {c.new(f'icmp slt i64 %thread, {n}')}, label %mine, label %leave")
    f.label("mine")
    place = c.new(f"load i32, ptr {c.new(f'getelementptr i32, ptr {f.pointer[ORDER]}, i64 %thread')}")
    into = pull_of(f.nest.evaluation)
    for k, s in enumerate(sums):
        plane = c.new(f"getelementptr double, ptr {f.pointer[into]}, i64 {k * f.kernel.buffers[into].plane}")
        f.line(f"store double {s}, ptr {c.new(f'getelementptr double, ptr {plane}, i32 {place}')}")


class Walk:
    """Eight threads at one node."""

    def __init__(self, c: Numbers, sides: Sequence[str], angle: str, pulled: Pulled, n: int) -> None:
        self.c, self.sides, self.angle, self.pulled, self.levels = c, sides, angle, pulled, levels_of(n)
        f = c.f
        self.lane = c.new(f"and i64 %thread, {GROUP - 1}")
        self.shift = c.new("and i32 %tid, 24")
        self.group = c.new(f"shl i32 255, {self.shift}")
        f.w.declared[BALLOT] = f"declare i32 {BALLOT}(i32, i1)"

    def vote(self, x: str) -> str:
        """Which of the eight say so."""
        c = self.c
        every = c.new(f"call i32 {BALLOT}(i32 {self.group}, i1 {x})")
        return c.new(f"and i32 {c.new(f'lshr i32 {every}, {self.shift}')}, 255")

    def children(self, node: str, level: str) -> tuple[str, str, str, str]:
        """Of a node of a level: (the first child, its place among all nodes, which are taken as a whole, which are not)."""
        c = self.c
        begin = c.table(f"@tree_begins_{self.levels[-1][0]}", [b for b, _ in self.levels], level)
        size = c.table(f"@tree_sizes_{self.levels[0][1]}", [s for _, s in self.levels], level)
        first = c.new(f"shl i64 {node}, 3")
        own = c.new(f"add i64 {first}, {self.lane}")
        there = c.new(f"icmp slt i64 {own}, {size}")
        place = c.new(f"add i64 {begin}, {first}")
        row = c.row(NODES, NODE, c.new(f"add i64 {begin}, {c.new(f'select i1 {there}, i64 {own}, i64 {first}')}"))
        square = "0.0"
        for k in range(3):
            away = c.call("maxnum", c.op("fsub", self.sides[k], row(k)), c.op("fsub", row(k), self.sides[3 + k]))
            away = c.call("maxnum", away, "0.0")
            square = c.fma(away, away, square)
        small = c.new(f"fcmp olt double {row(SIZE)}, {c.op('fmul', self.angle, square)}")
        taken = c.new(f"and i1 {small}, {there}")
        return first, place, self.vote(taken), self.vote(c.new(f"xor i1 {taken}, {there}"))

    def each(self, which: str, sums: list[str], body: Callable[[str, list[str]], list[str]]) -> list[str]:
        """Children that a word has ones for, in ascending order."""
        c = self.c

        def one(names: list[str]) -> list[str]:
            k = c.new(f"zext i32 {c.ones('cttz', names[0])} to i64")
            left = c.new(f"and i32 {names[0]}, {c.new(f'sub i32 {names[0]}, 1')}")
            return [left, *body(k, names[1:])]

        start = [("i32", which), *(("double", s) for s in sums)]
        return looping(c.f, start, lambda names: c.new(f"icmp ne i32 {names[0]}, 0"), one)[1:]

    def as_wholes(self, place: str, which: str, sums: list[str]) -> list[str]:
        c = self.c

        def node(k: str, sums: list[str]) -> list[str]:
            return self.pulled.node(c.row(NODES, NODE, c.new(f"add i64 {place}, {k}")), sums)

        return self.each(which, sums, node)

    def as_points(self, first: str, which: str, sums: list[str]) -> list[str]:
        c = self.c

        def leaf(k: str, sums: list[str]) -> list[str]:
            begin = c.new(f"shl i64 {c.new(f'add i64 {first}, {k}')}, 3")
            for j in range(GROUP):
                who = c.new(f"or i64 {begin}, {j}")
                sums = self.pulled.point(c.row(ROWS, ROW, who), c.new(f"icmp ne i64 {who}, %thread"), sums)
            return sums

        return self.each(which, sums, leaf)


def through(w: Walk, of_leaves: bool, sums: list[str]) -> list[str]:
    """The sums with all nodes that are taken as a whole, or with the points of all leaves that are not.

    Carried are a level, a node above it, whose children in that level are looked at, and which of them wait: eight bits for
    each level, this one's lowest. The last one goes first.
    """
    c, f = w.c, w.c.f
    root = len(w.levels) - 1

    def more(names: list[str]) -> str:
        return c.new(f"icmp ne i64 {names[2]}, 0")

    def body(names: list[str]) -> list[str]:
        level, above, waiting, *sums = names

        def up(names: list[str]) -> list[str]:
            return [c.new(f"add i64 {names[0]}, 1"), c.new(f"lshr i64 {names[1]}, 3"), c.new(f"lshr i64 {names[2]}, 8")]

        def nobody(names: list[str]) -> str:
            return c.new(f"icmp eq i64 {c.new(f'and i64 {names[2]}, 255')}, 0")

        # where nobody waits: up, in this turn still
        level, above, waiting = looping(f, [("i64", level), ("i64", above), ("i64", waiting)], nobody, up)
        here = c.new(f"trunc i64 {c.new(f'and i64 {waiting}, 255')} to i32")
        before = c.ones("ctlz", here)
        last = c.new(f"zext i32 {c.new(f'sub i32 31, {before}')} to i64")
        waiting = c.new(f"xor i64 {waiting}, {c.new(f'shl i64 1, {last}')}")
        node = c.new(f"or i64 {c.new(f'shl i64 {above}, 3')}, {last}")
        below = c.new(f"sub i64 {level}, 1")
        first, place, taken, rest = w.children(node, below)
        leaves = c.new(f"icmp eq i64 {below}, 0")
        if of_leaves:
            sums = w.as_points(first, c.new(f"select i1 {leaves}, i32 {rest}, i32 0"), sums)
        else:
            sums = w.as_wholes(place, taken, sums)
        pushed = c.new(f"or i64 {c.new(f'shl i64 {waiting}, 8')}, {c.new(f'zext i32 {rest} to i64')}")
        return [c.new(f"select i1 {leaves}, i64 {level}, i64 {below}"), c.new(f"select i1 {leaves}, i64 {above}, i64 {node}"),
                c.new(f"select i1 {leaves}, i64 {waiting}, i64 {pushed}"), *sums]  # fmt: skip

    start = [("i64", str(root)), ("i64", "0"), ("i64", "1"), *(("double", s) for s in sums)]
    return looping(f, start, more, body)[3:]
