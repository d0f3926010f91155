"""How is a tree walked on a CUDA device?  A thread for each point; the eight of a leaf go together, as lanes do elsewhere.

Each of the eight looks at one child of a node, and a vote says which of them are small for their distance. Nodes that are
taken as a whole come first in a sum, then the points of leaves (emit/kinds/trees/tree_walk.py), so the tree is walked
twice and no list is kept. What is left of a level is eight bits, and the levels above are in the same word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinyphysics.emit.kinds.trees.ptx_tree_text import (
    BOXES,
    NODE,
    NODES,
    ORDER,
    ROW,
    ROWS,
    SIDES,
    Numbers,
)
from tinyphysics.emit.kinds.trees.tree_walk import Lanes
from tinyphysics.emit.loops.nest_writer import NestWriter
from tinyphysics.tpir.kernels.tree import GROUP, MASS, NUMBERS, SIZE, levels_of, pull_of

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
    w = TreeWalk(c, sides, angle, pulled, n)
    sums = with_leaves(w, with_nodes(w, ["0.0"] * 3))
    f.line(f"br i1 {c.new(f'icmp slt i64 %thread, {n}')}, label %mine, label %leave")
    f.label("mine")
    place = c.new(f"load i32, ptr {c.new(f'getelementptr i32, ptr {c.array(ORDER)}, i64 %thread')}")
    into = pull_of(f.nest.evaluation)
    for k, s in enumerate(sums):
        plane = c.new(f"getelementptr double, ptr {f.pointer[into]}, i64 {k * f.kernel.buffers[into].plane}")
        f.line(f"store double {s}, ptr {c.new(f'getelementptr double, ptr {plane}, i32 {place}')}")


class TreeWalk:
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
        row = c.row(
            NODES, NODE, c.new(f"add i64 {begin}, {c.new(f'select i1 {there}, i64 {own}, i64 {first}')}")
        )
        square = "0.0"
        for k in range(3):
            away = c.call(
                "maxnum", c.op("fsub", self.sides[k], row(k)), c.op("fsub", row(k), self.sides[3 + k])
            )
            away = c.call("maxnum", away, "0.0")
            square = c.fma(away, away, square)
        small = c.new(f"fcmp olt double {row(SIZE)}, {c.op('fmul', self.angle, square)}")
        taken = c.new(f"and i1 {small}, {there}")
        return first, place, self.vote(taken), self.vote(c.new(f"xor i1 {taken}, {there}"))

    def as_wholes(self, place: str, which: str, sums: list[str]) -> list[str]:
        """Children that a word has ones for, in ascending order."""
        c = self.c

        def one(names: list[str]) -> list[str]:
            at = c.ints("add", place, c.new(f"zext i32 {c.ones('cttz', names[0])} to i64"))
            left = c.new(f"and i32 {names[0]}, {c.new(f'sub i32 {names[0]}, 1')}")
            return [left, *self.pulled.node(c.row(NODES, NODE, at), names[1:])]

        start = [("i32", which), *(("double", s) for s in sums)]
        return c.f.w.while_(lambda names: c.new(f"icmp ne i32 {names[0]}, 0"), start, one)[1:]

    def as_points(self, leaf: str, sums: list[str]) -> list[str]:
        c = self.c
        begin = c.ints("shl", leaf, "3")
        for j in range(GROUP):
            who = c.ints("or", begin, str(j))
            row = c.row(ROWS, ROW, who)
            sums = self.pulled.point([row(a) for a in range(3)], row(MASS), who, sums)
        return sums


@dataclass(frozen=True)
class WalkStep:
    """A node whose children were looked at: where the walk is then, and what is to be done with them."""

    where: list[str]
    first: str  # child, in its level
    place: str  # of it, among all nodes
    taken: str  # as a whole
    opened: str  # leaves, point by point


def turn(w: TreeWalk, where: list[str]) -> WalkStep:
    """The next node: the last of those that wait. There is one.

    Where a walk is are three numbers: a level, a node above it, whose children in that level were looked at, and which of
    them wait: eight bits for each level, this one's lowest.
    """
    c = w.c

    def up(names: list[str]) -> list[str]:
        return [c.ints("add", names[0], "1"), c.ints("lshr", names[1], "3"), c.ints("lshr", names[2], "8")]

    def nobody(names: list[str]) -> str:
        return c.new(f"icmp eq i64 {c.ints('and', names[2], '255')}, 0")

    level, above, waiting = c.f.w.while_(nobody, [("i64", x) for x in where], up)
    before = c.ones("ctlz", c.new(f"trunc i64 {c.ints('and', waiting, '255')} to i32"))
    last = c.new(f"zext i32 {c.new(f'sub i32 31, {before}')} to i64")
    waiting = c.ints("xor", waiting, c.ints("shl", "1", last))
    node, below = c.ints("or", c.ints("shl", above, "3"), last), c.ints("sub", level, "1")
    first, place, taken, rest = w.children(node, below)
    leaves = c.new(f"icmp eq i64 {below}, 0")
    pushed = c.ints("or", c.ints("shl", waiting, "8"), c.new(f"zext i32 {rest} to i64"))
    then = [c.chosen(leaves, a, b, "i64") for a, b in ((level, below), (above, node), (waiting, pushed))]
    return WalkStep(then, first, place, taken, c.chosen(leaves, rest, "0", "i32"))


def beginning(w: TreeWalk) -> list[tuple[str, str]]:
    """At the root."""
    return [("i64", x) for x in (str(len(w.levels) - 1), "0", "1")]


def with_nodes(w: TreeWalk, sums: list[str]) -> list[str]:
    """The sums with all nodes that are taken as a whole, in each turn those of one node."""
    c = w.c

    def body(names: list[str]) -> list[str]:
        t = turn(w, names[:3])
        return [*t.where, *w.as_wholes(t.place, t.taken, names[3:])]

    start = [*beginning(w), *(("double", s) for s in sums)]
    return c.f.w.while_(lambda names: c.new(f"icmp ne i64 {names[2]}, 0"), start, body)[3:]


def with_leaves(w: TreeWalk, sums: list[str]) -> list[str]:
    """The sums with the points of all leaves that are opened, in each turn one leaf.

    Few nodes have such leaves: each of the groups of a warp looks for its next, and then all have one.
    """
    c = w.c
    found: list[str] = []

    def none_yet(names: list[str]) -> str:
        here = c.new(f"icmp eq i32 {names[4]}, 0")
        return c.new(f"and i1 {here}, {c.new(f'icmp ne i64 {names[2]}, 0')}")

    def look(names: list[str]) -> list[str]:
        t = turn(w, names[:3])
        return [*t.where, t.first, t.opened]

    def more(names: list[str]) -> str:
        found[:] = c.f.w.while_(none_yet, list(zip(("i64", "i64", "i64", "i64", "i32"), names)), look)
        return c.new(f"icmp ne i32 {found[4]}, 0")

    def body(names: list[str]) -> list[str]:
        *where, first, opened = found
        leaf = c.ints("add", first, c.new(f"zext i32 {c.ones('cttz', opened)} to i64"))
        left = c.new(f"and i32 {opened}, {c.new(f'sub i32 {opened}, 1')}")
        return [*where, first, left, *w.as_points(leaf, names[5:])]

    start = [*beginning(w), ("i64", "0"), ("i32", "0"), *(("double", s) for s in sums)]
    return c.f.w.while_(more, start, body)[5:]
