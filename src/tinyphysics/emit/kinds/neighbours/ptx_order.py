"""How are points brought into the order of a list on a CUDA device?  Places along the axes, keys, blocks of eight and boxes.

The order decides bits: it is that of ir/neighbours.py, made of the same operations, each rounded to nearest.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tinyphysics.emit.text.code import Code
from tinyphysics.emit.text.lines import Values
from tinyphysics.ir.neighbours import BLOCK, INSIDE

EXPONENT = 0x7FF << 52  # all ones: not a number, or infinite
INSIDE_BITS = f"0x{struct.unpack('>Q', struct.pack('>d', INSIDE))[0]:016X}"
INFINITE, MINUS, NO_NUMBER = "0x7FF0000000000000", "0xFFF0000000000000", "0x7FF8000000000000"
INTRINSICS = ["declare double @llvm.floor.f64(double)"]


@dataclass(frozen=True)
class Space:
    """What the kernels of a list depend on, and where their numbers lie: first lengths, then the cell, reach and ways."""

    d: int  # coordinates of a point
    single: bool  # in float32?
    periodic: bool  # is there a cell?
    straight: bool  # along the axes?
    morton: bool  # which order?

    @property
    def type(self) -> str:
        return "float" if self.single else "double"

    @property
    def reach(self) -> int:
        return self.d + self.d * self.d

    @property
    def ways(self) -> int:
        """From a point to places along the axes: the inverse of the cell; in open space the least, then the lengths."""
        return self.reach + 1


def coordinate(c: Code, s: Space, k: int, i: str) -> str:
    """Of a point; what is none is zero."""
    x = c.get("%points", c.add(c.times("%plane", k), i), s.type)
    x = c.new(f"fpext float {x} to double") if s.single else x
    exponent = c.new(f"and i64 {c.new(f'bitcast double {x} to i64')}, {EXPONENT}")
    return c.select(c.is_("ne", exponent, EXPONENT), x, "0.0", "double")


def extremes(c: Code, s: Space) -> None:
    """The least and the largest coordinates of some points."""

    def one(i: str, v: Values) -> Values:
        xs = [coordinate(c, s, k, i) for k in range(s.d)]
        low = [c.select(c.new(f"fcmp olt double {x}, {a}"), x, a, "double") for x, a in zip(xs, v)]
        high = [c.select(c.new(f"fcmp ogt double {x}, {a}"), x, a, "double") for x, a in zip(xs, v[s.d :])]
        return [*low, *high]

    start = [("double", INFINITE)] * s.d + [("double", MINUS)] * s.d
    found = c.loop("%thread", "%n", start, one, "%count")
    first = c.times("%thread", 2 * s.d)
    for k, x in enumerate(found):
        c.put("%out", c.add(first, k), x, "double")


def keys(c: Code, s: Space) -> None:
    """Of each point its places, how many periods it is from the origin, and its key."""
    xs = [coordinate(c, s, k, "%thread") for k in range(s.d)]
    at = []
    for k in range(s.d):
        x = inside(c, s, xs, k) if s.periodic else between(c, s, xs[k], k)
        at.append(c.select(c.new(f"fcmp olt double {x}, {INSIDE_BITS}"), x, INSIDE_BITS, "double"))
        c.put("%at", c.add(c.times("%count", k), "%thread"), at[-1], "double")
    depth, index = c.get("%whole", s.d - 1), c.get("%whole", s.d)
    key = morton(c, at, depth) if s.morton else furrows(c, at, depth)
    c.put("%keys", "%thread", c.new(f"or i64 {c.new(f'shl i64 {key}, {index}')}, %thread"))


def between(c: Code, s: Space, x: str, k: int) -> str:
    low, length = (c.get("%numbers", s.ways + part * s.d + k, "double") for part in range(2))
    return c.new(f"fdiv double {c.new(f'fsub double {x}, {low}')}, {length}")


def inside(c: Code, s: Space, xs: list[str], k: int) -> str:
    x = ""
    for i, y in enumerate(xs):
        term = c.new(f"fmul double {y}, {c.get('%numbers', s.ways + i * s.d + k, 'double')}")
        x = c.new(f"fadd double {x}, {term}") if x else term
    periods = c.new(f"call double @llvm.floor.f64(double {x})")
    stored = c.new(f"fptrunc double {periods} to float") if s.single else periods
    c.put("%images", c.add(c.times("%plane", k), "%thread"), stored, s.type)
    return c.new(f"fsub double {x}, {periods}")


def part(c: Code, x: str, parts: str) -> str:
    """Which of so many parts of an axis a place is in."""
    scaled = c.new(f"fmul double {x}, {c.new(f'sitofp i64 {parts} to double')}")
    return c.new(f"fptosi double {scaled} to i64")


def furrows(c: Code, at: list[str], depth: str) -> str:
    """Columns that follow each other like the furrows of a field, and so do points in them."""

    def turned(column: str, place: str, last: str) -> str:
        odd = c.new(f"trunc i64 {column} to i1")
        return c.select(odd, c.sub(last, place), place)

    column = "0"
    for k, x in enumerate(at[:-1]):
        parts = c.get("%whole", k)
        last = c.sub(parts, 1)
        place = c.minimum(part(c, x, parts), last)
        column = c.add(c.times(column, parts), turned(column, place, last))
    whole = c.new(f"shl i64 1, {depth}")
    along = turned(column, part(c, at[-1], whole), c.sub(whole, 1))
    return c.new(f"or i64 {c.new(f'shl i64 {column}, {depth}')}, {along}")


def morton(c: Code, at: list[str], depth: str) -> str:
    """The bits of the places along each axis in turn."""
    places = [part(c, x, c.new(f"shl i64 1, {depth}")) for x in at]

    def level(k: str, v: Values) -> Values:
        key, shift = v[0], c.sub(c.sub(depth, 1), k)
        for x in places:
            bit = c.new(f"and i64 {c.new(f'lshr i64 {x}, {shift}')}, 1")
            key = c.new(f"or i64 {c.new(f'shl i64 {key}, 1')}, {bit}")
        return [key]

    return c.loop("0", depth, [("i64", "0")], level)[0]


def placed(c: Code, s: Space) -> None:
    """The order, its inverse, and places in that order by blocks: eight along an axis, then eight along the next."""
    there = c.is_("slt", "%thread", "%n")
    block, lane = c.new(f"lshr i64 %thread, {BLOCK.bit_length() - 1}"), c.new(f"and i64 %thread, {BLOCK - 1}")
    first = c.add(c.times(block, s.d * BLOCK), lane)

    def point() -> None:
        i = c.new(f"and i64 {c.get('%keys', '%thread')}, %mask")
        c.put("%order", "%thread", i)
        c.put("%inverse", i, "%thread")
        for k in range(s.d):
            c.put(
                "%slots",
                c.add(first, k * BLOCK),
                c.get("%at", c.add(c.times("%n", k), i), "double"),
                "double",
            )

    def nobody() -> None:
        for k in range(s.d):
            c.put("%slots", c.add(first, k * BLOCK), NO_NUMBER, "double")

    c.when(there, point)
    c.when(c.new(f"xor i1 {there}, true"), nobody)


def extended(c: Code, v: Values, xs: list[str], which: str) -> Values:
    """Least or largest numbers, and others; what is none counts for nothing."""
    return [c.select(c.new(f"fcmp {which} double {x}, {a}"), x, a, "double") for x, a in zip(xs, v)]


def stored(c: Code, s: Space, box: Values, first: str) -> None:
    at = c.times(c.add(first, "%thread"), 2 * s.d)
    for k, x in enumerate(box):
        c.put("%boxes", c.add(at, k), x, "double")


def blocks(c: Code, s: Space) -> None:
    """The boxes of eight points."""
    start = c.times("%thread", s.d * BLOCK)
    low, high = [INFINITE] * s.d, [MINUS] * s.d
    for lane in range(BLOCK):
        xs = [c.get("%slots", c.add(start, k * BLOCK + lane), "double") for k in range(s.d)]
        low, high = extended(c, low, xs, "olt"), extended(c, high, xs, "ogt")
    stored(c, s, [*low, *high], "0")


def boxes(c: Code, s: Space) -> None:
    """The boxes of eight boxes, as far as there are so many."""
    start = c.times("%thread", BLOCK)

    def one(i: str, v: Values) -> Values:
        at = c.times(c.add("%from", i), 2 * s.d)
        xs = [c.get("%boxes", c.add(at, k), "double") for k in range(2 * s.d)]
        return [*extended(c, v[: s.d], xs[: s.d], "olt"), *extended(c, v[s.d :], xs[s.d :], "ogt")]

    nothing = [("double", INFINITE)] * s.d + [("double", MINUS)] * s.d
    stored(c, s, c.loop(start, c.minimum(c.add(start, BLOCK), "%n"), nothing, one), "%to")
