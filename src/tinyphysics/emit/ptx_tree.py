"""How is a tree walked on a CUDA device?  A thread for each point; the eight of a leaf go together, as lanes do elsewhere.

Each of the eight looks at one child of a node, and a vote says which of them are small for their distance. Nodes that are
taken as a whole come first in a sum, then the points of leaves (emit/tree_walk.py), so the tree is walked twice and no list
is kept. What is left of a level is eight bits, and the levels above are in the same word.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyphysics.emit.nest_writer import NestWriter
from tinyphysics.emit.ptx_tree_text import (
    BOXES,
    NODE,
    NODES,
    NUMBERS,
    ORDER,
    ROW,
    ROWS,
    SIDES,
    Numbers,
    looping,
)
from tinyphysics.emit.tree_walk import Lanes
from tinyphysics.tpir.tree import GROUP, MASS, SIZE, levels_of, pull_of

BALLOT = "@llvm.nvvm.vote.ballot.sync"


def walk(f: NestWriter, _: str) -> None:
    """The pull on a point, at its place in the order of the curve; written to its own place."""
    c = Numbers(f)
    n = f.nest.sizes[0]
    numbers = c.row(NUMBERS, 2, "0")
    angle, softening = numbers(0), numbers(1)
    box = c.row(BOXES, SIDES, c.new("lshr i64 %thread, 3"))
    sides = [box(k) for k in range(SIDES)]
    own = c.row(ROWS, ROW, "%thread")
    pulled = Lanes(c, [own(k) for k in range(3)], "%thread", softening)
    sums = ["0.0"] * 3
    for of_leaves in (False, True):
        sums = through(Walk(c, sides, angle, pulled, n), of_leaves, sums)
    f.line(f"br i1 {c.new(f'icmp slt i64 %thread, {n}')}, label %mine, label %leave")
    f.label("mine")
    place = c.new(f"load i32, ptr {c.new(f'getelementptr i32, ptr {c.array(ORDER)}, i64 %thread')}")
    into = pull_of(f.nest.evaluation)
    for k, s in enumerate(sums):
        plane = c.new(f"getelementptr double, ptr {f.pointer[into]}, i64 {k * f.kernel.buffers[into].plane}")
        f.line(f"store double {s}, ptr {c.new(f'getelementptr double, ptr {plane}, i32 {place}')}")


class Walk:
    """Eight threads at one node."""

    def __init__(self, c: Numbers, sides: Sequence[str], angle: str, pulled: Lanes, n: int) -> None:
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
                row = c.row(ROWS, ROW, who)
                sums = self.pulled.point([row(a) for a in range(3)], row(MASS), who, sums)
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
