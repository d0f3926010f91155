"""How is the pull of many masses summed through a tree?  Keys along a curve, a walk for eight points at once, as LLVM IR.

The points lie along Hilbert's curve, eight to a leaf, eight leaves or nodes to a node (device/host/tree.py makes them).
For the eight points of a leaf the tree is walked once: a node that is small for its distance is taken as a whole, mass
and second moments; of the others the children are looked at, and of leaves the points. All of it is part of the meaning
of a program: it has one order, whatever runs it and on however many threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyphysics.emit.text.code import Arithmetic, B, V, Vectors, W, function
from tinyphysics.tpir.kernels.tree import BITS, BOX, MASS, MOMENTS, SIZE, TRACE

LANES = ", ".join(f"i64 {k}" for k in range(8))


class Writer(Vectors):
    """With loops that carry some vectors in registers."""

    def plane(self, array: str, stride: str, k: int, index: str) -> str:
        """Where the number with an index is in a plane."""
        at = self.new(f"add i64 {self.new(f'mul i64 {stride}, {k}')}, {index}")
        return self.new(f"getelementptr double, ptr {array}, i64 {at}")

    def wide(self, array: str, stride: str, k: int, index: str) -> str:
        """One number, for all lanes."""
        return self.splat(self.new(f"load double, ptr {self.plane(array, stride, k, index)}"))

    def carrying(
        self, end: str, start: Sequence[str], body: Callable[[str, list[str]], list[str]]
    ) -> list[str]:
        """A loop from 0 whose body is one block."""
        before, inside, out = (self.label(k) for k in ("before", "turn", "done"))
        self.line(f"br label %{before}")
        self.at(before)
        self.line(f"br i1 {self.new(f'icmp sgt i64 {end}, 0')}, label %{inside}, label %{out}")
        self.at(inside)
        number = self.label("i")
        names = [self.label("c") for _ in start]
        place = len(self.lines)
        new = body(f"%{number}", [f"%{x}" for x in names])
        following = self.new(f"add i64 %{number}, 1")
        self.lines[place:place] = [
            f"  %{number} = phi i64 [ 0, %{before} ], [ {following}, %{inside} ]",
            *(
                f"  %{x} = phi {V} [ {a}, %{before} ], [ {b}, %{inside} ]"
                for x, a, b in zip(names, start, new)
            ),
        ]
        self.line(f"br i1 {self.new(f'icmp slt i64 {following}, {end}')}, label %{inside}, label %{out}")
        self.at(out)
        return [self.new(f"phi {V} [ {a}, %{before} ], [ {b}, %{inside} ]") for a, b in zip(start, new)]


class Lanes:
    """Points that are pulled, and how."""

    def __init__(self, c: Arithmetic, x: Sequence[str], ids: str, softening: str) -> None:
        self.c, self.x, self.ids, self.softening = c, list(x), ids, softening

    def inverse(self, d: Sequence[str]) -> str:
        """1/s with s**2 = d**2 + softening**2."""
        c, s2 = self.c, self.softening
        for x in d:
            s2 = c.fma(x, x, s2)
        root = c.root(s2)
        return c.op("fdiv", c.splat("1.0"), root)

    def point(self, source: Sequence[str], mass: str, who: str, sums: Sequence[str]) -> list[str]:
        """With one more point, which does not pull itself."""
        c = self.c
        d = [c.op("fsub", a, b) for a, b in zip(source, self.x)]
        r = self.inverse(d)
        pull = c.op("fmul", c.op("fmul", mass, r), c.op("fmul", r, r))
        pull = c.unless_own(self.ids, who, pull)
        return [c.fma(pull, x, a) for x, a in zip(d, sums)]

    def node(self, field: Callable[[int], str], sums: Sequence[str]) -> list[str]:
        """With a node as a whole: mass m and three times the second moments Q about its centre of mass.

        The field of m/s + (3 dQd/s**5 - tr Q/s**3)/2, softened as that of a point is.
        """
        c = self.c
        d = [c.op("fsub", field(k), x) for k, x in enumerate(self.x)]
        r = self.inverse(d)
        r2 = c.op("fmul", r, r)
        r3 = c.op("fmul", r, r2)
        r5 = c.op("fmul", r3, r2)
        xx, xy, xz, yy, yz, zz = (field(MOMENTS + k) for k in range(6))
        turned = []
        for row in ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz)):
            turned.append(c.fma(row[2], d[2], c.fma(row[1], d[1], c.op("fmul", row[0], d[0]))))
        along = c.fma(turned[2], d[2], c.fma(turned[1], d[1], c.op("fmul", turned[0], d[0])))
        rest = c.op("fsub", c.op("fmul", c.op("fmul", along, c.splat("2.5")), r2), field(TRACE))
        pull = c.fma(r5, rest, c.op("fmul", field(MASS), r3))
        flat = [c.fma(pull, x, a) for x, a in zip(d, sums)]
        minus = c.minus(r5)
        return [c.fma(minus, x, a) for x, a in zip(turned, flat)]


def along_the_curve(c: Arithmetic, x: list[str]) -> str:
    """Where points with whole coordinates are along Hilbert's curve: Skilling 2004, AIP Conference Proceedings 707, 381."""
    bits = [1 << k for k in reversed(range(1, BITS))]
    for bit in bits:
        for k in range(3):
            below = c.whole(bit - 1)
            swap = c.ints("and", c.ints("xor", x[0], x[k]), below)
            turned = c.if_set(x[k], bit, c.ints("xor", x[0], below), c.ints("xor", x[0], swap))
            if k:
                x[k] = c.if_set(x[k], bit, x[k], c.ints("xor", x[k], swap))
            x[0] = turned
    x[1] = c.ints("xor", x[1], x[0])
    x[2] = c.ints("xor", x[2], x[1])
    turn = c.whole(0)
    for bit in bits:
        turn = c.if_set(x[2], bit, c.ints("xor", turn, c.whole(bit - 1)), turn)
    x = [c.ints("xor", a, turn) for a in x]
    key = c.whole(0)
    for k in reversed(range(BITS)):
        for a in x:
            one = c.ints("and", c.ints("lshr", a, c.whole(k)), c.whole(1))
            key = c.ints("or", c.ints("shl", key, c.whole(1)), one)
    return key


def keys(c: Writer) -> list[str]:
    """Where points are along the curve, eight at a time."""

    def eight(b: str) -> None:
        first = c.new(f"shl i64 {b}, 3")
        x = []
        for k in range(3):
            low, scale = (c.splat(c.get("%numbers", str(k + 3 * j), "double")) for j in (0, 1))
            at = c.op("fmul", c.op("fsub", c.vector(c.plane("%p", "%stride", k, first)), low), scale)
            at = c.call("maxnum", at, "zeroinitializer")
            at = c.call("minnum", at, c.splat(f"{float(2**BITS - 1)!r}"))
            x.append(c.new(f"fptosi {V} {at} to {W}"))
        key = along_the_curve(c, x)
        c.line(f"store {W} {key}, ptr {c.new(f'getelementptr i64, ptr %out, i64 {first}')}, align 8")

    c.each(c.variable("0"), "0", "%blocks", eight)
    c.line("ret void")
    return function("void", "keys", "ptr %p, i64 %stride, i64 %blocks, ptr %numbers, ptr %out", c)


def direct(c: Writer) -> list[str]:
    """Eight points at a time, pulled by every other one after the other."""
    softening = c.splat("%softening")

    def eight(b: str) -> None:
        first = c.new(f"shl i64 {b}, 3")
        x = [c.vector(c.plane("%targets", "%room", k, first)) for k in range(3)]
        ids = c.vector(c.new(f"getelementptr i64, ptr %ids, i64 {first}"), W)
        lanes = Lanes(c, x, ids, softening)

        def turn(j: str, sums: list[str]) -> list[str]:
            return lanes.point(
                [c.wide("%p", "%stride", k, j) for k in range(3)], c.wide("%p", "%stride", 3, j), j, sums
            )

        sums = c.carrying("%n", ["zeroinitializer"] * 3, turn)
        for k, s in enumerate(sums):
            c.line(f"store {V} {s}, ptr {c.plane('%out', '%room', k, first)}, align 8")

    c.each(c.variable("0"), "0", "%blocks", eight)
    c.line("ret void")
    return function(
        "void",
        "direct",
        "ptr %p, i64 %stride, i64 %n, ptr %targets, ptr %ids, i64 %room, i64 %blocks, "
        "double %softening, ptr %out",
        c,
    )


def each_group(c: Writer, met: Callable[[str, str, str], None]) -> str:
    """For the groups from %from to %to of a list: what it meets in %whole and %opened, then `met`, with how many they are.

    Returns where it counts the nodes and points that were met.
    """
    angle = c.splat("%angle")
    waiting, whole, opened, total = (c.variable("0") for _ in range(4))

    def group(i: str) -> None:
        g = c.get("%groups", i)
        first = c.new(f"shl i64 {g}, 3")
        box = [c.wide("%nodes", "%wide", BOX + k, g) for k in range(6)]
        c.set(whole, "0")
        c.set(opened, "0")
        c.line("store i64 %root, ptr %stack")
        c.set(waiting, "1")
        look, found, out = (c.label(k) for k in ("look", "found", "out"))
        c.line(f"br label %{look}")
        c.at(look)
        left = c.value(waiting)
        c.line(f"br i1 {c.new(f'icmp sgt i64 {left}, 0')}, label %{found}, label %{out}")
        c.at(found)
        left = c.new(f"sub i64 {left}, 1")
        children(box, left)
        c.line(f"br label %{look}")
        c.at(out)
        nodes, leaves = c.value(whole), c.value(opened)
        met(first, nodes, leaves)
        many = c.new(f"add i64 {nodes}, {c.new(f'shl i64 {leaves}, 3')}")
        c.set(total, c.new(f"add i64 {c.value(total)}, {many}"))

    def children(box: list[str], left: str) -> None:
        """Which children of a waiting node are small for their distance, and what becomes of the others."""
        kids = c.get("%kids", c.get("%stack", left))
        first, count = c.new(f"ashr i64 {kids}, 4"), c.new(f"and i64 {kids}, 15")
        square = "zeroinitializer"
        for k in range(3):
            at = c.vector(c.plane("%nodes", "%wide", k, first))
            away = c.call("maxnum", c.op("fsub", box[k], at), c.op("fsub", at, box[3 + k]))
            away = c.call("maxnum", away, "zeroinitializer")
            square = c.fma(away, away, square)
        size = c.vector(c.plane("%nodes", "%wide", SIZE, first))
        small = c.new(f"fcmp olt {V} {size}, {c.op('fmul', angle, square)}")
        there = c.new(f"icmp slt {W} <{LANES}>, {c.splat(count, 'i64')}")
        taken = c.new(f"and {B} {small}, {there}")
        rest = c.new(f"xor {B} {taken}, {there}")
        index = c.new(f"add {W} {c.splat(first, 'i64')}, <{LANES}>")
        so_far, open_ = c.value(whole), c.value(opened)
        c.set(whole, c.new(f"add i64 {so_far}, {pressed(index, '%whole', so_far, taken)}"))
        are_leaves = c.new(f"icmp slt i64 {first}, %leaves")
        array = c.new(f"select i1 {are_leaves}, ptr %opened, ptr %stack")
        many = pressed(index, array, c.new(f"select i1 {are_leaves}, i64 {open_}, i64 {left}"), rest)
        more = c.new(f"select i1 {are_leaves}, i64 {many}, i64 0")
        c.set(opened, c.new(f"add i64 {open_}, {more}"))
        c.set(waiting, c.new(f"add i64 {left}, {c.new(f'sub i64 {many}, {more}')}"))

    def pressed(values: str, array: str, begin: str, mask: str) -> str:
        """Appends the values that a mask chooses; how many."""
        place = c.new(f"getelementptr i64, ptr {array}, i64 {begin}")
        c.line(f"call void @llvm.masked.compressstore.v8i64({W} {values}, ptr {place}, {B} {mask})")
        ones = c.new(f"call i8 @llvm.ctpop.i8(i8 {c.new(f'bitcast {B} {mask} to i8')})")
        return c.new(f"zext i8 {ones} to i64")

    c.each(c.variable("0"), "%from", "%to", group)
    return total


def ids_of(c: Writer, first: str) -> str:
    """The numbers of the eight points of a group."""
    return c.new(f"add {W} {c.splat(first, 'i64')}, <{LANES}>")


def walk(c: Writer) -> list[str]:
    """The groups from %from to %to of a list; the number of nodes and points that a group was pulled by, summed."""
    softening = c.splat("%softening")

    def met(first: str, nodes: str, leaves: str) -> None:
        x = [c.vector(c.plane("%p", "%stride", k, first)) for k in range(3)]
        lanes = Lanes(c, x, ids_of(c, first), softening)

        def as_a_whole(k: str, sums: list[str]) -> list[str]:
            at = c.get("%whole", k)
            return lanes.node(lambda f: c.wide("%nodes", "%wide", f, at), sums)

        def point_by_point(k: str, sums: list[str]) -> list[str]:
            leaf = c.new(f"shl i64 {c.get('%opened', k)}, 3")
            for j in range(8):
                who = c.new(f"add i64 {leaf}, {j}")
                at = [c.wide("%p", "%stride", a, who) for a in range(4)]
                sums = lanes.point(at[:3], at[3], who, sums)
            return sums

        sums = c.carrying(nodes, ["zeroinitializer"] * 3, as_a_whole)
        sums = c.carrying(leaves, sums, point_by_point)
        for k, s in enumerate(sums):
            c.line(f"store {V} {s}, ptr {c.plane('%out', '%stride', k, first)}, align 8")

    c.line(f"ret i64 {c.value(each_group(c, met))}")
    return function(
        "i64",
        "walk",
        "ptr %p, i64 %stride, ptr %nodes, i64 %wide, i64 %leaves, i64 %root, ptr %kids, "
        "double %angle, double %softening, ptr %groups, i64 %from, i64 %to, ptr %out, ptr %stack, "
        "ptr %whole, ptr %opened",
        c,
    )
