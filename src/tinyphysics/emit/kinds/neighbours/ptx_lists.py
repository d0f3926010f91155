"""Who is near whom on a CUDA device?  Blocks that are near a block, rows that see one of its points; then rows and columns.

For every block all blocks near it are found from the largest boxes down, in ascending order, and for each of them which rows
have a point of it within reach. By that a row is given its blocks, and a block its rows (emit/kinds/ptx_near.py reads both).
What is found decides no bit: a list may hold too much, never too little. What does not fit is counted and left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tinyphysics.emit.kinds.neighbours import ptx_order, ptx_sort
from tinyphysics.emit.kinds.neighbours.ptx_order import Space
from tinyphysics.emit.scalar.ptx import HEAD
from tinyphysics.emit.text.code import DECLARED, Code, kernel
from tinyphysics.emit.text.lines import Values
from tinyphysics.ir.neighbours import BLOCK
from tinyphysics.tpir.kernels.neighbours import FIRST

LANE = BLOCK.bit_length() - 1
INTRINSICS = [
    "declare double @llvm.rint.f64(double)",
    "declare double @llvm.minnum.f64(double, double)",
    "declare double @llvm.maxnum.f64(double, double)",
    "declare i64 @llvm.ctpop.i64(i64)",
]
INFINITE = {"double": 0x7FF << 52, "float": (0xFF << 23) * ((1 << 32) + 1)}  # in every 64 bits


class Geometry:
    """Which boxes and points are within reach of each other."""

    def __init__(self, c: Code, s: Space) -> None:
        self.c, self.s = c, s
        numbers = [c.get("%numbers", k, "double") for k in range(s.reach + 1)]
        self.length, self.cell, self.reach = numbers[: s.d], numbers[s.d : s.reach], numbers[s.reach]
        self.square = c.new(f"fmul double {self.reach}, {self.reach}")

    def call(self, name: str, *args: str) -> str:
        return self.c.new(f"call double @llvm.{name}.f64({', '.join(f'double {a}' for a in args)})")

    def box(self, node: str) -> Values:
        """The least, then the largest coordinates."""
        at = self.c.times(node, 2 * self.s.d)
        return [self.c.get("%boxes", self.c.add(at, k), "double") for k in range(2 * self.s.d)]

    def close(self, a: Values, b: Values) -> str:
        """May two boxes hold points within reach?"""
        c, d, total = self.c, self.s.d, "0.0"
        for k in range(d):
            x, y = c.new(f"fsub double {a[k]}, {b[d + k]}"), c.new(f"fsub double {b[k]}, {a[d + k]}")
            gap = self.call("maxnum", self.call("maxnum", x, y), "0.0")
            if self.s.periodic:
                back = c.new(f"fadd double 1.0, {self.call('minnum', x, y)}")
                gap = self.call("minnum", gap, self.call("maxnum", back, "0.0"))
            way = c.new(f"fmul double {gap}, {self.length[k]}")
            if self.s.straight:
                total = c.new(f"fadd double {total}, {c.new(f'fmul double {way}, {way}')}")
            else:
                total = self.call("maxnum", total, way)
        return c.new(f"fcmp ole double {total}, {self.square if self.s.straight else self.reach}")

    def within(self, a: Values, b: Values) -> str:
        """Are two points within reach?"""
        c, d, total = self.c, self.s.d, ""
        ways = [c.new(f"fsub double {x}, {y}") for x, y in zip(a, b)]
        if self.s.periodic:
            ways = [c.new(f"fsub double {x}, {self.call('rint', x)}") for x in ways]
        for k in range(d):
            way = ""
            for i in [k] if self.s.straight else range(d):
                term = c.new(f"fmul double {ways[i]}, {self.cell[i * d + k]}")
                way = c.new(f"fadd double {way}, {term}") if way else term
            square = c.new(f"fmul double {way}, {way}")
            total = c.new(f"fadd double {total}, {square}") if total else square
        return c.new(f"fcmp ole double {total}, {self.square}")


# --- blocks near a block ----------------------------------------------------------------------------------
def near(c: Code, s: Space, fill: bool) -> None:
    """From the largest boxes down: (level, box) is where this is, and one that is too far is passed with all it holds."""
    g = Geometry(c, s)
    own = g.box("%thread")
    top = c.sub("%levels", 1)

    def there(v: Values) -> str:
        return c.is_("slt", v[1], c.get("%shape", c.add(c.times(v[0], 2), 1)))

    def look(v: Values) -> Values:
        level, i, found = v
        close = g.close(own, g.box(c.add(c.get("%shape", c.times(level, 2)), i)))
        least = c.is_("eq", level, 0)
        hit = c.both(close, least)
        if fill:
            c.when(
                c.both(hit, c.is_("slt", found, "%room")),
                lambda: c.put("%near", found, c.new(f"trunc i64 {i} to i32"), "i32"),
            )
        down = c.both(close, c.new(f"xor i1 {least}, true"))
        after = c.add(i, 1)
        edge = c.is_("eq", c.new(f"and i64 {after}, {BLOCK - 1}"), 0)
        up = c.both(edge, c.is_("slt", level, top))
        passed_level = c.select(up, c.add(level, 1), level)
        passed = c.select(up, c.new(f"lshr i64 {after}, {LANE}"), after)
        return [
            c.select(down, c.sub(level, 1), passed_level),
            c.select(down, c.times(i, BLOCK), passed),
            c.add(found, c.new(f"zext i1 {hit} to i64")),
        ]

    begin = c.get("%starts", "%thread") if fill else "0"
    found = c.while_(there, [("i64", top), ("i64", "0"), ("i64", begin)], look)[2]
    if not fill:
        c.put("%starts", "%thread", found)


def seen(c: Code, s: Space) -> None:
    """Which rows of a block see a point of one near it, after themselves; it is the one that comes first.

    Eight threads for each block: every eighth of those near it.
    """
    g = Geometry(c, s)
    block = c.new(f"lshr i64 %thread, {LANE}")
    own = [point(c, s, block, str(k)) for k in range(BLOCK)]

    def one(other: str, itself: str, k: str, v: Values) -> Values:
        there, rows = point(c, s, other, k), v[0]
        for row in range(BLOCK):
            later = c.new(f"or i1 {c.new(f'xor i1 {itself}, true')}, {c.is_('ugt', k, row)}")
            sees = c.both(later, g.within(own[row], there))
            rows = c.new(f"or i64 {rows}, {c.select(sees, str(1 << row), '0')}")
        return [rows]

    def found(e: str, other: str) -> None:
        itself = c.is_("eq", other, block)
        rows = c.loop("0", str(BLOCK), [("i64", "0")], partial(one, other, itself))[0]
        c.put("%rows", e, c.new(f"trunc i64 {rows} to i8"), "i8")

    each_eighth(c, block, lambda other: c.is_("sge", other, block), found)


def mirrored(c: Code) -> None:
    """The same of blocks that come before: what they have found of this one, among those near them."""
    block = c.new(f"lshr i64 %thread, {LANE}")

    def look(e: str, other: str) -> None:
        first, end = span(c, other)

        def halved(v: Values) -> Values:
            low, high = v
            middle = c.new(f"lshr i64 {c.add(low, high)}, 1")
            below = c.is_("slt", number(c, middle), block)
            return [c.select(below, c.add(middle, 1), low), c.select(below, high, middle)]

        place = c.while_(lambda v: c.is_("slt", v[0], v[1]), [("i64", first), ("i64", end)], halved)[0]

        def there() -> None:
            same = c.is_("eq", number(c, place), block)
            c.put("%rows", e, c.select(same, c.get("%rows", place, "i8"), "0", "i8"), "i8")

        c.when(c.is_("slt", place, end), there)
        c.when(c.is_("sge", place, end), lambda: c.put("%rows", e, "0", "i8"))  # there was no room for it

    each_eighth(c, block, lambda other: c.is_("slt", other, block), look)


def each_eighth(c: Code, block: str, counts: Callable[[str], str], use: Callable[[str, str], None]) -> None:
    """Of those near a block that count, the ones of this thread: (place, number)."""

    def entry(e: str, _: Values) -> Values:
        other = number(c, e)
        c.when(counts(other), lambda: use(e, other))
        return []

    begin, end = span(c, block)
    c.loop(c.add(begin, c.new(f"and i64 %thread, {BLOCK - 1}")), end, [], entry, BLOCK)


def number(c: Code, e: str) -> str:
    """Of a block that is near another."""
    return c.new(f"sext i32 {c.get('%near', e, 'i32')} to i64")


def point(c: Code, s: Space, block: str, lane: str) -> Values:
    at = c.add(c.times(block, s.d * BLOCK), lane)
    return [c.get("%slots", c.add(at, k * BLOCK), "double") for k in range(s.d)]


def span(c: Code, block: str) -> tuple[str, str]:
    """From where to where blocks near a block are, as far as there was room for them."""
    return c.get("%starts", block), c.minimum(c.get("%starts", c.add(block, 1)), "%room")


# --- rows and columns -------------------------------------------------------------------------------------
def through(
    c: Code, block: str, begin: str, counts: Callable[[str], str], use: Callable[[str, str, str], str]
) -> str:
    """What a number has become after all blocks near a block that count: (their number, rows, what it was)."""

    def entry(e: str, v: Values) -> Values:
        other, rows = number(c, e), c.new(f"zext i8 {c.get('%rows', e, 'i8')} to i64")
        return [use(other, c.select(counts(other), rows, "0"), v[0])]

    return c.loop(*span(c, block), [("i64", begin)], entry)[0]


def kept(c: Code, condition: str, to: str, array: str, value: str, most: str) -> str:
    """A number stored if it counts and there is room; the place of the next."""
    c.when(
        c.both(condition, c.is_("slt", to, most)),
        lambda: c.put(array, to, c.new(f"trunc i64 {value} to i32"), "i32"),
    )
    return c.add(to, c.new(f"zext i1 {condition} to i64"))


def rows(c: Code, fill: bool) -> None:
    """The blocks that a row sees, from its own on."""
    block, lane = c.new(f"lshr i64 %thread, {LANE}"), c.new(f"and i64 %thread, {BLOCK - 1}")

    def use(other: str, rows: str, so_far: str) -> str:
        bit = c.new(f"and i64 {c.new(f'lshr i64 {rows}, {lane}')}, 1")
        if not fill:
            return c.add(so_far, bit)
        return kept(c, c.is_("ne", bit, 0), so_far, "%listed", c.new(f"shl i64 {other}, {FIRST}"), "%most")

    begin = c.get("%out", "%thread") if fill else "0"
    found = through(c, block, begin, lambda other: c.is_("sge", other, block), use)
    if not fill:
        c.put("%out", "%thread", found)


def columns(c: Code, fill: bool) -> None:
    """The rows of a slab that see a block, in ascending order."""
    block, slab = c.new("udiv i64 %thread, %parts"), c.new("urem i64 %thread, %parts")
    low, high = c.get("%cuts", slab), c.get("%cuts", c.add(slab, 1))

    def counts(other: str) -> str:
        inside = c.both(c.is_("sge", other, low), c.is_("slt", other, high))
        return c.both(inside, c.is_("sle", other, block))

    def use(other: str, rows: str, so_far: str) -> str:
        if not fill:
            return c.add(so_far, c.new(f"call i64 @llvm.ctpop.i64(i64 {rows})"))
        first = c.times(other, BLOCK)

        def one(k: str, v: Values) -> Values:
            bit = c.new(f"trunc i64 {c.new(f'lshr i64 {rows}, {k}')} to i1")
            return [kept(c, bit, v[0], "%listed", c.add(first, k), "%most")]

        return c.loop("0", str(BLOCK), [("i64", so_far)], one)[0]

    begin = c.get("%out", "%thread") if fill else "0"
    found = through(c, block, begin, counts, use)
    if not fill:
        c.put("%out", "%thread", found)


# --- beside ------------------------------------------------------------------------------------------------
def totals(c: Code) -> None:
    for k, (array, at) in enumerate((("%near", "%a"), ("%rows", "%b"), ("%columns", "%c"))):
        c.put("%out", k, c.get(array, at))


def kernels(s: Space) -> list[list[str]]:
    listed, points = ["*starts", "*near", "*rows", "room"], ["*points", "plane"]
    of: dict[str, tuple[list[str], Callable[[Code], None]]] = {
        "extremes":      ([*points, "n", "*out"], partial(ptx_order.extremes, s=s)),
        "keys":          ([*points, "*numbers", "*whole", "*images", "*at", "*keys"], partial(ptx_order.keys, s=s)),
        "placed":        (["*keys", "mask", "*at", "*order", "*inverse", "*slots", "n"], partial(ptx_order.placed, s=s)),
        "blocks":        (["*slots", "*boxes"], partial(ptx_order.blocks, s=s)),
        "boxes":         (["*boxes", "from", "n", "to"], partial(ptx_order.boxes, s=s)),
        "near_count":    (["*boxes", "*shape", "levels", "*numbers", *listed], partial(near, s=s, fill=False)),
        "near_fill":     (["*boxes", "*shape", "levels", "*numbers", *listed], partial(near, s=s, fill=True)),
        "seen":          (["*slots", "*numbers", *listed], partial(seen, s=s)),
        "mirrored":      (listed, mirrored),
        "rows_count":    ([*listed, "*out", "*listed", "most"], partial(rows, fill=False)),
        "rows_fill":     ([*listed, "*out", "*listed", "most"], partial(rows, fill=True)),
        "columns_count": ([*listed, "*cuts", "parts", "*out", "*listed", "most"], partial(columns, fill=False)),
        "columns_fill":  ([*listed, "*cuts", "parts", "*out", "*listed", "most"], partial(columns, fill=True)),
        "totals":        (["*near", "a", "*rows", "b", "*columns", "c", "*out"], totals),
        "nowhere":       (["*out"], lambda c: c.put("%out", "%thread", str(INFINITE[s.type]))),
    }  # fmt: skip
    return [kernel(name, arguments, body) for name, (arguments, body) in of.items()]


NAMES = (
    *ptx_sort.NAMES,
    "extremes",
    "keys",
    "placed",
    "blocks",
    "boxes",
    "near_count",
    "near_fill",
    "seen",
    "mirrored",
    "rows_count",
    "rows_fill",
    "columns_count",
    "columns_fill",
    "totals",
    "nowhere",
)


def module(d: int, single: bool, periodic: bool, straight: bool, morton: bool) -> str:
    s = Space(d, single, periodic, straight, morton)
    text = [line for lines in kernels(s) for line in lines]
    return "\n".join(
        [
            HEAD,
            *DECLARED,
            *ptx_order.INTRINSICS,
            *INTRINSICS,
            ptx_sort.BARRIER,
            *ptx_sort.kernels(),
            *text,
            "attributes #0 = { nounwind }",
            "",
        ]
    )
