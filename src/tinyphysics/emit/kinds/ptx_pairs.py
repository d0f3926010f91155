"""How does a nest over pairs run on a CUDA device?  A thread owns one point and sums what all others give it.

A pair is computed twice, once for each of its points, so that no thread adds to another's sum. Point k as i: its pairs with
all j > k, in eight accumulators. Point k as j: its pairs with all i < k, slab by slab. Each sum is taken in the nest's
order. All threads of a warp are at the same partner, which they read together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tinyphysics.emit.kinds.ptx_rounded import Sums, is_special
from tinyphysics.emit.loops.nest_writer import Names, NestWriter
from tinyphysics.emit.loops.ptx_threads import BLOCK, TOGETHER, any_of, begun, note, put, several
from tinyphysics.emit.scalar.llvm import TYPE
from tinyphysics.emit.text.writer import BYTES
from tinyphysics.ir.dtype import bool_, f32
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.reduction import PAIR_LANES, slabs
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.tpir.kernels.nests import Nest, Store

WARP = 32
RESIDENT = (
    512  # threads for which a processor must have registers: what 65,536 points give each of an H200's 132
)
LARGE = 256  # threads of a block where float32 is rounded side by side: 1.20, 1.14, 1.14 ps a pair with 128, 256, 512
SPREAD = 1 << 14  # points; fewer are spread over more processors, a warp each
VECTOR = 16  # bytes that one load brings
AT_A_TIME = 1024  # partners whose sums are computed again if one of them is in doubt
MOST_WORDS, FEWER = (
    40,
    2,
)  # registers of accumulators beside which TOGETHER partners fit into 128; else so many


def rounds(nest: Nest) -> bool:
    """Has a sum over all pairs roots or quotients that can be rounded side by side?"""
    return (
        nest.kind == "pairs"
        and nest.near is None
        and any(is_special(u) for u in toposort(nest.pieces[0].roots))
    )


def pair_block(nest: Nest, estimates: bool) -> int:
    if nest.sizes[0] < SPREAD:
        return WARP
    narrow = all(s.value.dtype is f32 for s in nest.pieces[0].stores)
    return LARGE if estimates and narrow and rounds(nest) else BLOCK


@dataclass
class Side:
    """The sums of one point: `own` is its variable, `other` that of its partners."""

    f: NestWriter
    own: UOp
    other: UOp
    stores: list[Store]
    guards: tuple[UOp, ...]
    estimates: bool = False  # do those of the device serve (ptx_rounded.py)?

    def __post_init__(self) -> None:
        parts = [
            apart(s.value, self.other) if self.f.kernel.contracts and s.combine is Ops.ADD else (s.value, [])
            for s in self.stores
        ]
        self.stores = [replace(s, value=value) for s, (value, _) in zip(self.stores, parts)]
        self.factors = [own for _, own in parts]
        self.special = Sums(self.stores, self.guards)
        self.roots = self.special.roots
        self.point: Names = dict(self.f.scalar)
        self.point[self.own] = "%thread"
        everything = toposort([*self.roots, *(u for own in self.factors for u in own)])
        several(
            self.f,
            [u for u in everything if self.own in u.leaves and self.other not in u.leaves],
            [self.point],
        )
        self.kinds = [TYPE[s.value.dtype.name] for s in self.stores]

    def whole(self, k: int, total: str) -> str:
        """A sum, times what all of its items have."""
        for u in self.factors[k]:
            total = self.f.new(f"fmul {self.kinds[k]} {total}, {self.f.w.ref(u, self.point)}")
        return total

    @property
    def nothing(self) -> list[str]:
        """Eight accumulators of each sum without a partner, and no guard seen."""
        return [x for s in self.stores for x in [self.f.identity(s)] * PAIR_LANES] + ["false"]

    def partners(self, first: str, end: str | None) -> tuple[list[Names], list[str]]:
        """Eight from `first` on, a multiple of eight: what is known of each, and whether it counts, if one may not."""
        f, envs, inside = self.f, [], []
        for r in range(PAIR_LANES):
            at = f.new(f"add i64 {first}, {r}") if r else first
            if end is not None:
                counts = f.new(f"icmp slt i64 {at}, {end}")
                if self.own is f.nest.variables[0]:
                    counts = f.new(f"and i1 {counts}, {f.new(f'icmp sgt i64 {at}, %thread')}")
                inside.append(counts)
                at = f.new(f"select i1 {counts}, i64 {at}, i64 0")
            envs.append(dict(self.point) | {self.other: at})
        return envs, inside

    def read(self, first: str, envs: Sequence[Names], some: range) -> None:
        """What lies in a row is read as vectors; behind the last point there is room enough."""
        f = self.f
        for u in toposort(self.roots):
            if u.op is Ops.LOAD and len(u.src) == 1 and u.src[0] is self.other:
                t, n = TYPE[u.dtype.name], min(VECTOR // BYTES[u.dtype.name], len(some))
                row = f.address(u.arg[0], u.arg[1], u.src, {self.other: first})
                for r in range(some.start, some.stop, n):
                    at = f.new(f"getelementptr {t}, ptr {row}, i64 {r}")
                    vector = f.new(f"load <{n} x {t}>, ptr {at}, align {n * BYTES[u.dtype.name]}")
                    for k in range(n):
                        envs[r + k][u] = f.new(f"extractelement <{n} x {t}> {vector}, i64 {k}")

    def block(
        self, first: str, end: str | None, sums: list[str], lanes: int, doubt: str | None = None
    ) -> list[str]:
        """The sums after eight partners; partner r goes to accumulator r modulo `lanes`.

        With a `doubt` they are rounded side by side, and what is returned ends with whether that has to be done again.
        """
        f, out = self.f, list(sums)
        envs, inside = self.partners(first, end)
        words = lanes * sum(s.value.dtype.bits // 32 for s in self.stores)
        together = TOGETHER if words <= MOST_WORDS else FEWER
        for begin in range(0, PAIR_LANES, together):
            some = range(begin, begin + together)
            self.read(first, envs, some)
            here = [envs[r] for r in some]
            if doubt is None:
                several(f, self.roots, here)
            else:
                for found in self.special.side_by_side(f, here):
                    doubt = f.new(f"or i1 {doubt}, {found}")
            for r in some:
                for k, s in enumerate(self.stores):
                    place = k * lanes + r % lanes
                    if not inside:
                        out[place] = f.joined(s, out[place], envs[r], f.kernel.contracts)
                        continue
                    t, value = self.kinds[k], f.w.ref(s.value, envs[r])
                    value = f.new(f"select i1 {inside[r]}, {t} {value}, {t} {f.identity(s)}")
                    out[place] = f.combined(s, out[place], value)
                seen = any_of(f, self.guards, envs[r])
                if seen != "false":
                    seen = f.new(f"and i1 {seen}, {inside[r]}") if inside else seen
                    out[-1] = f.new(f"or i1 {out[-1]}, {seen}")
        return out if doubt is None else [*out, doubt]

    def over(self, begin: str, stop: str, end: str | None, sums: list[str], lanes: int) -> list[str]:
        """Blocks of eight partners from `begin` to `stop`; with an `end`, those that do not count are left out."""
        kinds = [t for t in self.kinds for _ in range(lanes)] + [TYPE[bool_.name]]
        return self.f.carrying(
            begin,
            stop,
            PAIR_LANES,
            list(zip(kinds, sums)),
            lambda first, sums: self.block(first, end, sums, lanes),
        )

    def over_all(self, begin: str, stop: str, sums: list[str], lanes: int) -> list[str]:
        """Likewise, of partners that all count: where the device's estimates serve, some at a time, and again if in doubt."""
        if not self.estimates or not self.special.special:
            return self.over(begin, stop, None, sums, lanes)
        f, flag = self.f, TYPE[bool_.name]
        kinds = [t for t in self.kinds for _ in range(lanes)] + [flag]

        def some(first: str, sums: list[str]) -> list[str]:
            beyond = f.new(f"add i64 {first}, {AT_A_TIME}")
            last = f.new(f"select i1 {f.new(f'icmp slt i64 {beyond}, {stop}')}, i64 {beyond}, i64 {stop}")
            *quick, doubt = f.carrying(
                first,
                last,
                PAIR_LANES,
                [*zip(kinds, sums), (flag, "false")],
                lambda at, found: self.block(at, None, found[:-1], lanes, found[-1]),
            )
            for t, total in zip(kinds[:-1], quick):  # infinity less itself is no number, either
                nothing = f.new(f"fsub {t} {total}, {total}")
                doubt = f.new(f"or i1 {doubt}, {f.new(f'fcmp uno {t} {nothing}, {nothing}')}")
            return f.w.either(doubt, kinds, lambda: self.over(first, last, None, sums, lanes), lambda: quick)

        return f.carrying(begin, stop, AT_A_TIME, list(zip(kinds, sums)), some)


def apart(u: UOp, other: UOp) -> tuple[UOp, list[UOp]]:
    """A product without the factors that no partner enters, and those factors: a mass is taken out of a sum."""
    if u.op is not Ops.MUL:
        return u, []
    (a, found), (b, more) = (apart(s, other) for s in u.src)
    for x, y in ((a, b), (b, a)):
        if other not in x.leaves and other in y.leaves:
            return y, [*found, *more, x]
    return (a * b if found or more else u), [*found, *more]


def pairs(f: NestWriter, _: str, estimates: bool = False) -> None:
    (size,), (piece,) = f.nest.sizes, f.nest.pieces
    i, j = f.nest.variables
    f.begin()
    f.line(f"%warp = and i64 %thread, {-WARP}")
    if rows := [s for s in piece.stores if s.index[0] is i]:
        as_first(Side(f, i, j, rows, piece.guards, estimates), size)
    if columns := [s for s in piece.stores if s.index[0] is j]:
        as_second(Side(f, j, i, columns, () if rows else piece.guards, estimates), size)


def as_first(side: Side, size: int) -> None:
    """Over all j > i: blocks around the warp's own points, whole blocks, and what is left."""
    f, end, sums = side.f, str(size), side.nothing
    past = f.new(f"add i64 %warp, {WARP}")
    last = size // PAIR_LANES * PAIR_LANES
    beyond = f.new(f"icmp slt i64 {past}, {last}")
    stop = f.new(f"select i1 {beyond}, i64 {past}, i64 {-(-size // PAIR_LANES) * PAIR_LANES}")
    sums = side.over("%warp", stop, end, sums, PAIR_LANES)
    sums = side.over_all(stop, str(last), sums, PAIR_LANES)
    if size % PAIR_LANES:
        tail = f.new(f"select i1 {beyond}, i64 {last}, i64 {stop}")
        sums = side.over(tail, end, end, sums, PAIR_LANES)
    finish(side, sums)


def finish(side: Side, sums: list[str]) -> None:
    """The eight accumulators of each sum, folded in halves and stored."""
    f = side.f
    if side.guards:
        note(f, sums[-1])
    for k, s in enumerate(side.stores):
        lanes = sums[k * PAIR_LANES : (k + 1) * PAIR_LANES]
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = [f.combined(s, a, b) for a, b in zip(lanes, lanes[half:])]
        put(f, s, side.whole(k, lanes[0]), side.point)


def as_second(side: Side, size: int) -> None:
    """Over all i < j, in slabs with planes of their own: whole blocks, then those around the warp's own points."""
    f, cuts = side.f, slabs(size)
    name, count = f"@cuts_{size}", len(cuts)
    numbers = ", ".join(f"i64 {c}" for c in cuts)
    f.w.declared[name] = f"{name} = internal addrspace(4) constant [{count} x i64] [{numbers}]"

    def cut(k: str) -> str:
        return f.new(
            f"load i64, ptr addrspace(4) {f.new(f'getelementptr i64, ptr addrspace(4) {name}, i64 {k}')}"
        )

    def less(a: str, b: str, how: str = "slt") -> str:
        return f.new(f"select i1 {f.new(f'icmp {how} i64 {a}, {b}')}, i64 {a}, i64 {b}")

    def slab(k: str) -> None:
        low, high = cut(k), cut(f.new(f"add i64 {k}, 1"))
        whole, end = less(low, less(high, "%warp"), "sgt"), less(high, "%thread")
        sums = side.over_all(low, whole, begun(f, side.stores), 1)
        sums = side.over(whole, end, end, sums, 1)
        if side.guards:
            note(f, sums[-1])
        for n, (s, total) in enumerate(zip(side.stores, sums)):
            planes = f.kernel.buffers[s.buffer].planes // (count - 1)
            plane = f.new(f"add i64 {f.new(f'mul i64 {k}, {planes}')}, {s.plane}")
            t = TYPE[s.value.dtype.name]
            f.line(f"store {t} {side.whole(n, total)}, ptr {f.address(s.buffer, plane, s.index, side.point)}")

    f.loop("0", str(count - 1), 1, slab)
