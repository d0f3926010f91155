"""How is a tree made on a CUDA device?  Its frame, keys along the curve, points in their order, then nodes level by level.

Sizes depend on the number of points alone, so all of it is launches without a wait. Every number is that of
device/host/tree.py: sums of eight are taken in turn, and what is the smallest or largest does not depend on an order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from tinyphysics.emit.kinds.trees.ptx_tree import walk
from tinyphysics.emit.kinds.trees.ptx_tree_sort import sorting
from tinyphysics.emit.kinds.trees.ptx_tree_text import (
    BOXES,
    FRAME,
    KEYS,
    NODE,
    NODES,
    ORDER,
    OTHER_REACH,
    PART,
    REACH,
    ROW,
    ROWS,
    SIDES,
    Numbers,
    in_eights,
)
from tinyphysics.emit.kinds.trees.tree_walk import along_the_curve
from tinyphysics.emit.loops.nest_writer import NestWriter
from tinyphysics.emit.loops.ptx_threads import Threads
from tinyphysics.tpir.kernels.loopir import WORKSPACE
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest
from tinyphysics.tpir.kernels.tree import (
    BITS,
    GROUP,
    MASS,
    MASSES,
    MOMENTS,
    NOWHERE,
    NUMBERS,
    POINTS,
    SECOND,
    SIZE,
    TRACE,
    levels_of,
    pull_of,
)

INFINITE = f"0x{0x7FF << 52:016X}"
MINUS_INFINITE = f"0x{0xFFF << 52:016X}"
Body = Callable[[NestWriter, str], None]


def constant(x: float) -> str:
    return f"{x:.17e}"


def planting(kernel: LoopKernel, nest: Nest, name: str) -> list[Threads]:
    """What is launched after points and masses have been stored."""
    n = nest.sizes[0]

    def threads(what: str, count: int, body: Body, *buffers: str) -> Threads:
        return Threads(kernel, nest, f"{name}_{what}", count, [*buffers, WORKSPACE], body)

    out = [threads(f"reach{k}", count, body, POINTS) for k, (count, body) in enumerate(reaching(n))]
    out.append(threads("keys", n, keys, POINTS))
    out += [threads(what, count, body) for what, count, body in sorting(n)]
    out.append(threads("rows", -(-n // GROUP) * GROUP, rows, POINTS, MASSES))
    out += [threads(f"level{k}", count, joining(k)) for k, (_, count) in enumerate(levels_of(n))]
    out.append(threads("walk", -(-n // GROUP) * GROUP, walk, pull_of(nest.evaluation), NUMBERS))
    return out


def coordinate(c: Numbers, k: int, index: str) -> str:
    plane = k * c.f.kernel.buffers[POINTS].plane
    return c.get(POINTS, c.ints("add", index, str(plane)) if plane else index, "double")


# --- the frame --------------------------------------------------------------------------------
def reaching(n: int) -> Iterator[tuple[int, Body]]:
    """The box of all points that are somewhere, from boxes of parts; the last thread makes the frame of it."""
    count, source, out = n, "", REACH
    while True:
        many, count = count, -(-count // PART)
        yield count, reach(many, count, source, out)
        if count == 1:
            return
        source, out = out, OTHER_REACH if out == REACH else REACH


def reach(many: int, threads: int, source: str, out: str) -> Body:
    """Every so manieth of the points, or of boxes."""

    def body(f: NestWriter, _: str) -> None:
        c = Numbers(f)
        start = [("double", x) for x in [INFINITE] * 3 + [MINUS_INFINITE] * 3]

        def read(i: str) -> tuple[list[str], list[str]]:
            if source:
                row = c.row(source, SIDES, i)
                return [row(k) for k in range(3)], [row(3 + k) for k in range(3)]
            at = [coordinate(c, k, i) for k in range(3)]
            return at, at

        def some(places: list[str], box: list[str]) -> list[str]:
            for low, high in [read(i) for i in places]:
                if not source:  # a point that is nowhere does not count
                    there = [c.finite(x) for x in low]
                    low = [c.chosen(t, x, INFINITE) for t, x in zip(there, low)]
                    high = [c.chosen(t, x, MINUS_INFINITE) for t, x in zip(there, high)]
                lows, highs = zip(box, low), zip(box[3:], high)
                box = [*(c.extreme("lt", a, b) for a, b in lows), *(c.extreme("gt", a, b) for a, b in highs)]
            return box

        box = in_eights(f, "%thread", str(many), start, some, threads)
        if threads == 1:
            frame(c, box)
        else:
            c.put_row(out, "%thread", box)

    return body


def frame(c: Numbers, box: list[str]) -> None:
    """The corner, and how many cells of the curve are a unit of length; none if points are all in one place or nowhere."""
    widths = [c.op("fsub", b, a) for a, b in zip(box, box[3:])]
    width = c.extreme("gt", c.extreme("gt", widths[0], widths[1]), widths[2])
    wide = c.new(f"and i1 {c.finite(width)}, {c.new(f'fcmp ogt double {width}, 0.0')}")
    scale = c.op("fdiv", constant(2.0**BITS), width)
    scale = c.chosen(c.new(f"and i1 {wide}, {c.finite(scale)}"), scale, "0.0")
    c.put_row(FRAME, "0", [*(c.chosen(c.finite(x), x, "0.0") for x in box[:3]), scale])


def keys(f: NestWriter, _: str) -> None:
    c = Numbers(f)
    corner = c.row(FRAME, ROW, "0")
    x = []
    for k in range(3):
        at = c.op("fmul", c.op("fsub", coordinate(c, k, "%thread"), corner(k)), corner(3))
        at = c.call("minnum", c.call("maxnum", at, "0.0"), constant(2**BITS - 1))
        x.append(c.new(f"fptosi double {at} to i64"))
    c.put(KEYS, "%thread", along_the_curve(c, x))
    c.put(ORDER, "%thread", "%thread", "i32")


# --- points and nodes -------------------------------------------------------------------------
def rows(f: NestWriter, _: str) -> None:
    """The points in their order; what fills the last leaf up pulls no point."""
    c, n = Numbers(f), f.nest.sizes[0]
    there = c.new(f"icmp slt i64 %thread, {n}")
    who = c.get(ORDER, c.chosen(there, "%thread", "0", "i64"), "i32")
    values = [*(coordinate(c, k, who) for k in range(3)), c.get(MASSES, who, "double")]
    c.put_row(
        ROWS,
        "%thread",
        [c.chosen(there, x, nothing) for x, nothing in zip(values, [constant(NOWHERE)] * 3 + ["0.0"])],
    )


def in_turn(c: Numbers, values: list[str]) -> str:
    total = values[0]
    for x in values[1:]:
        total = c.op("fadd", total, x)
    return total


def joining(level: int) -> Body:
    """A thread for each node: what its children are together."""

    def body(f: NestWriter, _: str) -> None:
        c = Numbers(f)
        begin, _size = levels_of(f.nest.sizes[0])[level]
        first = c.ints("shl", "%thread", "3")
        at, mass, moments, low, high = zip(
            *(child(c, level, c.ints("or", first, str(k))) for k in range(GROUP))
        )
        lows, highs = list(low[0]), list(high[0])
        for a, b in zip(low[1:], high[1:]):
            lows = [c.extreme("lt", x, y) for x, y in zip(lows, a)]
            highs = [c.extreme("gt", x, y) for x, y in zip(highs, b)]
        whole = in_turn(c, list(mass))
        heavy = c.new(f"fcmp ogt double {whole}, 0.0")
        divisor = c.chosen(heavy, whole, "1.0")
        centre = []
        for k in range(3):
            moment = in_turn(c, [c.op("fmul", m, x[k]) for m, x in zip(mass, at)])
            middle = c.op("fmul", "0.5", c.op("fadd", lows[k], highs[k]))
            centre.append(c.chosen(heavy, c.op("fdiv", moment, divisor), middle))
        d = [[c.op("fsub", x, y) for x, y in zip(place, centre)] for place in at]
        second = []
        for k, (a, b) in enumerate(SECOND):
            parts = [c.op("fmul", "3.0", c.op("fmul", c.op("fmul", m, x[a]), x[b])) for m, x in zip(mass, d)]
            second.append(in_turn(c, [c.op("fadd", p, m[k]) for p, m in zip(parts, moments)]))
        trace = c.op("fmul", "0.5", in_turn(c, [second[0], second[3], second[5]]))
        reach = [
            c.extreme("gt", c.op("fsub", x, a), c.op("fsub", b, x)) for x, a, b in zip(centre, lows, highs)
        ]
        size = in_turn(c, [c.op("fmul", x, x) for x in reach])
        place = c.ints("add", "%thread", str(begin))
        c.put_row(NODES, place, [*centre, whole, *second, trace, size])
        c.put_row(BOXES, place, [*lows, *highs])

    return body


assert (MASS, MOMENTS, TRACE, SIZE) == (3, 4, 10, 11), "the order in which a row is written"


def child(c: Numbers, level: int, index: str) -> tuple[list[str], str, list[str], list[str], list[str]]:
    """(place, mass, second moments, low, high) of a leaf's point or a node of the level below, also where there is none."""
    n = c.f.nest.sizes[0]
    if level == 0:  # the last point stands for those that are missing
        there = c.new(f"icmp slt i64 {index}, {n}")
        row = c.row(ROWS, ROW, c.less(index, str(n - 1)))
        at = [row(k) for k in range(3)]
        return at, c.chosen(there, row(MASS), "0.0"), ["0.0"] * 6, at, at
    begin, count = levels_of(n)[level - 1]
    there = c.new(f"icmp slt i64 {index}, {count}")
    place = c.ints("add", c.less(index, str(count - 1)), str(begin))
    row, box = c.row(NODES, NODE, place), c.row(BOXES, SIDES, place)
    values = [c.chosen(there, row(k), "0.0") for k in range(MOMENTS + 6)]
    low, high = (
        [c.chosen(there, box(s + k), edge) for k in range(3)]
        for s, edge in ((0, INFINITE), (3, MINUS_INFINITE))
    )
    return values[:3], values[MASS], values[MOMENTS:], low, high


assert math.isinf(2.0 * NOWHERE * NOWHERE), "their distance is infinite"
