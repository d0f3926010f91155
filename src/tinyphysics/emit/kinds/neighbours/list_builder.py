"""How is a list of neighbours made?  Boxes of 512, 64 and 8 points that follow each other, then the points, as LLVM IR.

For every 64 points: which 512 are near, which 64 of those; then for each 8 of them, which 8; then for each point, which
8 hold one within reach. A row is given blocks in ascending order, from its own on, each with what is to be heeded
in it (tpir/kernels/neighbours.py). Nothing here is part of the meaning of a program: a list may hold too much.
"""

from __future__ import annotations

from tinyphysics.emit.text.code import B, V, Vectors, W, function
from tinyphysics.emit.text.code import module as module_of
from tinyphysics.tpir.kernels.neighbours import FIRST, MASKED, MIXED, NOT_ACROSS, WAY

ARGUMENTS = (
    "ptr %f, i64 %stride, i64 %n, ptr %b1, ptr %b2, ptr %b3, i64 %n1, i64 %n2, i64 %n3, ptr %numbers, "
    "ptr %c2, ptr %c1, ptr %seen, ptr %ways, ptr %starts, ptr %blocks, i64 %room, i64 %from, i64 %to"
)


class Geometry:
    """Which boxes and points are near each other, in one kind of space.

    The numbers are: lengths of the axes, the cell row by row, the reach, and for each axis how far two points may
    come together while the list is in use, as a part of it.
    """

    def __init__(self, c: Vectors, d: int, periodic: bool, straight: bool) -> None:
        self.c, self.d, self.periodic, self.straight = c, d, periodic, straight
        axes = range(d)
        names = [
            *(f"length{k}" for k in axes),
            *(f"cell{k}" for k in range(d * d)),
            "reach",
            *(f"way{k}" for k in axes),
        ]
        self.number = {name: c.get("%numbers", str(k), "double") for k, name in enumerate(names)}
        self.square = c.new(f"fmul double {self.number['reach']}, {self.number['reach']}")
        self.wide = {name: self.c.splat(x) for name, x in self.number.items()}
        self.wide_square = self.c.splat(self.square)
        self.far, self.three = self.c.splat("1.0e3"), self.c.splat("3.0")

    def box(self, array: str, count: str, i: str) -> list[str]:
        """low and high of a box along each axis; arrays lie one behind the other."""
        places = [
            self.c.new(f"add i64 {self.c.new(f'mul i64 {count}, {k}')}, {i}") for k in range(2 * self.d)
        ]
        return [self.c.get(array, p, "double") for p in places]

    def close(self, a: list[str], b: list[str]) -> str:
        """May two boxes hold points within reach?"""
        c, d, total = self.c, self.d, "0.0"
        for k in range(d):
            x = c.new(f"fsub double {a[k]}, {b[d + k]}")
            y = c.new(f"fsub double {b[k]}, {a[d + k]}")
            gap = c.call("maxnum", c.call("maxnum", x, y, t="double"), "0.0", t="double")
            if self.periodic:
                back = c.new(f"fadd double 1.0, {c.call('minnum', x, y, t='double')}")
                gap = c.call("minnum", gap, c.call("maxnum", back, "0.0", t="double"), t="double")
            way = c.new(f"fmul double {gap}, {self.number[f'length{k}']}")
            if self.straight:
                total = c.new(f"fadd double {total}, {c.new(f'fmul double {way}, {way}')}")
            else:
                total = c.call("maxnum", total, way, t="double")
        return c.new(f"fcmp ole double {total}, {self.square if self.straight else self.number['reach']}")

    def apart(self, a: list[str], b: list[str]) -> str:
        """May two boxes hold points that are nearer across an edge of the cell, now or while the list is in use?"""
        c, d, found = self.c, self.d, "false"
        for k in range(d):
            x = c.new(f"fsub double {a[d + k]}, {b[k]}")
            y = c.new(f"fsub double {b[d + k]}, {a[k]}")
            span = c.new(f"fadd double {c.call('maxnum', x, y, t='double')}, {self.number[f'way{k}']}")
            found = c.new(f"or i1 {found}, {c.new(f'fcmp oge double {span}, 0.5')}")
        return found

    def rows(self, own: list[str], j: str, across: bool) -> tuple[str, str]:
        """For eight rows and eight points: (has a row one within reach?  the way across the edge, or MIXED)."""
        c, d = self.c, self.d
        some, least, most = (
            f"<{', '.join(['i1 false'] * 8)}>",
            self.far,
            c.new(f"fneg {V} {self.far}") if across else "",
        )
        beyond = most
        for other in range(8):
            parts, code = [], ""
            for k in range(d):
                start = c.new(f"add i64 {c.new(f'mul i64 %stride, {k}')}, {c.new(f'add i64 {j}, {other}')}")
                x = c.new(f"fsub {V} {own[k]}, {c.splat(c.get('%f', start, 'double'))}")
                if across:
                    turn = c.call("rint", x)
                    x = c.new(f"fsub {V} {x}, {turn}")  # the code is 9*kx + 3*ky + kz
                    code = (
                        turn
                        if not code
                        else c.new(f"fadd {V} {c.new(f'fmul {V} {code}, {self.three}')}, {turn}")
                    )
                parts.append(x)
            total = ""
            for k in range(d):
                way = ""
                for i in [k] if self.straight else range(d):
                    term = c.new(f"fmul {V} {parts[i]}, {self.wide[f'cell{i * d + k}']}")
                    way = c.new(f"fadd {V} {way}, {term}") if way else term
                square = c.new(f"fmul {V} {way}, {way}")
                total = c.new(f"fadd {V} {total}, {square}") if total else square
            near = c.new(f"fcmp ole {V} {total}, {self.wide_square}")
            some = c.new(f"or {B} {some}, {near}")
            if across and self.straight:
                least = c.call("minnum", least, c.new(f"select {B} {near}, {V} {code}, {V} {self.far}"))
                most = c.call("maxnum", most, c.new(f"select {B} {near}, {V} {code}, {V} {beyond}"))
        mask = c.new(f"zext i8 {c.new(f'bitcast {B} {some} to i8')} to i64")
        if not across:
            return mask, ""
        if not self.straight:
            return mask, self.c.whole(NOT_ACROSS << WAY | MIXED)
        one = c.new(f"fcmp oeq {V} {least}, {most}")
        number = c.new(f"add {W} {c.new(f'fptosi {V} {least} to {W}')}, {self.c.whole(NOT_ACROSS)}")
        way = c.new(f"shl {W} {number}, {self.c.whole(WAY)}")
        return mask, c.new(f"select {B} {one}, {W} {way}, {W} {self.c.whole(NOT_ACROSS << WAY | MIXED)}")


def module(d: int, periodic: bool, straight: bool) -> str:
    """`build` fills starts and blocks for rows of some groups of 64, and returns how many blocks these have.

    That many also if there was no room for them. Starts are counted from the first block of these rows.
    """
    c = Vectors()
    g = Geometry(c, d, periodic, straight)
    many2, many1, many, group, k, block, row = (c.variable("0") for _ in range(7))

    def sixty_four(s: str) -> None:
        own = g.box("%b2", "%n2", s)
        c.set(many2, "0")

        def five_hundred(t: str) -> None:
            def those() -> None:
                first = c.maximum(c.new(f"mul i64 {t}, 8"), s)
                last = c.minimum(c.new(f"add i64 {c.new(f'mul i64 {t}, 8')}, 8"), "%n2")
                c.each(k, first, last, one_of_them)

            def one_of_them(u: str) -> None:
                c.when(g.close(own, g.box("%b2", "%n2", u)), lambda: c.append("%c2", many2, u))

            c.when(g.close(own, g.box("%b3", "%n3", t)), those)

        c.each(group, c.new(f"sdiv i64 {s}, 8"), "%n3", five_hundred)
        first = c.new(f"mul i64 {s}, 8")
        c.each(block, first, c.minimum(c.new(f"add i64 {first}, 8"), "%n1"), eight)

    def eight(b: str) -> None:
        own = g.box("%b1", "%n1", b)
        c.set(many1, "0")

        def near_64(q: str) -> None:
            t = c.new(f"mul i64 {c.get('%c2', q)}, 8")
            last = c.minimum(c.new(f"add i64 {t}, 8"), "%n1")
            c.each(k, c.maximum(t, b), last, lambda u: near_box(u, g.box("%b1", "%n1", u)))

        def near_box(u: str, box: list[str]) -> None:
            def keep() -> None:
                apart = c.new(f"zext i1 {g.apart(own, box)} to i64") if periodic else "0"
                c.append("%c1", many1, c.new(f"or i64 {c.new(f'shl i64 {u}, 1')}, {apart}"))

            c.when(g.close(own, box), keep)

        c.each(group, "0", c.value(many2), near_64)
        first = c.new(f"mul i64 {b}, 8")
        places = [c.new(f"add i64 {c.new(f'mul i64 %stride, {a}')}, {first}") for a in range(d)]
        rows = [
            c.new(f"load {V}, ptr {c.new(f'getelementptr double, ptr %f, i64 {at}')}, align 8")
            for at in places
        ]

        def look(q: str, j: str, across: bool) -> None:
            mask, way = g.rows(rows, c.new(f"shl i64 {j}, 3"), across)
            c.line(f"store i64 {mask}, ptr {c.new(f'getelementptr i64, ptr %seen, i64 {q}')}")
            if way:
                eighth = c.new(f"shl i64 {q}, 3")
                c.line(
                    f"store {W} {way}, ptr {c.new(f'getelementptr i64, ptr %ways, i64 {eighth}')}, align 8"
                )

        def points(q: str) -> None:
            found = c.get("%c1", q)
            j, apart = c.new(f"ashr i64 {found}, 1"), c.new(f"trunc i64 {found} to i1")
            c.when(c.new(f"xor i1 {apart}, true"), lambda: look(q, j, False))
            if periodic:
                c.when(apart, lambda: look(q, j, True))

        c.each(k, "0", c.value(many1), points)
        c.each(row, first, c.minimum(c.new(f"add i64 {first}, 8"), "%n"), one)

    def one(i: str) -> None:
        """A row: what it sees of what its block sees."""
        c.line(f"store i64 {c.value(many)}, ptr {c.new(f'getelementptr i64, ptr %starts, i64 {i}')}")
        place, after = c.new(f"and i64 {i}, 7"), c.new(f"ashr i64 {c.new(f'add i64 {i}, 1')}, 3")

        def entry(q: str) -> None:
            found = c.get("%c1", q)
            j = c.new(f"ashr i64 {found}, 1")
            seen = c.get("%seen", q)
            bit = c.new(f"trunc i64 {c.new(f'lshr i64 {seen}, {place}')} to i1")

            def keep() -> None:
                begin = c.new(f"shl i64 {j}, 3")
                end = c.new(f"add i64 {begin}, 8")
                cut = c.new(
                    f"or i1 {c.new(f'icmp sle i64 {begin}, {i}')}, {c.new(f'icmp sgt i64 {end}, %n')}"
                )
                way = c.get("%ways", c.new(f"add i64 {c.new(f'shl i64 {q}, 3')}, {place}"))
                way = c.new(
                    f"select i1 {c.new(f'trunc i64 {found} to i1')}, i64 {way}, i64 {NOT_ACROSS << WAY}"
                )
                flags = c.new(f"or i64 {c.new(f'select i1 {cut}, i64 {MASKED}, i64 0')}, {way}")
                value = c.new(f"or i64 {c.new(f'shl i64 {j}, {FIRST}')}, {flags}")
                so_far = c.value(many)
                c.when(
                    c.new(f"icmp slt i64 {so_far}, %room"),
                    lambda: c.line(
                        f"store i32 {c.new(f'trunc i64 {value} to i32')}, ptr "
                        f"{c.new(f'getelementptr i32, ptr %blocks, i64 {so_far}')}"
                    ),
                )
                c.set(many, c.new(f"add i64 {so_far}, 1"))

            c.when(c.new(f"and i1 {bit}, {c.new(f'icmp sge i64 {j}, {after}')}"), keep)

        c.each(k, "0", c.value(many1), entry)

    outer = c.variable("0")
    c.each(outer, "%from", "%to", sixty_four)
    c.line(f"ret i64 {c.value(many)}")
    return module_of([function("i64", "build", ARGUMENTS, c)], list(c.declared.values()))
