"""What are the cotangents of a pull that was summed through a tree?  The same walk, with what each source hands back.

The derivative is that of the approximate pull: which nodes are taken as a whole does not change, and their centres and
moments do. What falls to the points below a node is the task of device/host/tree_back.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyphysics.emit.kinds.trees.tree_walk import Lanes, Writer, each_group, ids_of
from tinyphysics.emit.text.code import Arithmetic, V, function
from tinyphysics.tpir.kernels.tree import MASS, MOMENTS, SECOND, TRACE


class Pulls(Lanes):
    """Points whose pull has cotangents g; each source has its own cotangents, in every lane."""

    def __init__(self, c: Arithmetic, x: Sequence[str], g: Sequence[str], ids: str, softening: str) -> None:
        super().__init__(c, x, ids, softening)
        self.g = list(g)

    def dot(self, a: Sequence[str], b: Sequence[str]) -> str:
        c = self.c
        return c.fma(a[2], b[2], c.fma(a[1], b[1], c.op("fmul", a[0], b[0])))

    def joined(self, sums: Sequence[str], by_place: Sequence[str], by_softening: str) -> list[str]:
        """The cotangents of the points and of the square of the softening, with one more source."""
        c = self.c
        places = [c.op("fsub", a, x) for a, x in zip(sums, by_place)]
        return [*places, c.op("fadd", sums[3], by_softening)]

    def back_point(
        self, source: Sequence[str], mass: str, who: str, sums: Sequence[str]
    ) -> tuple[list[str], list[str]]:
        """(sums, cotangents of the place and the mass of one more point)."""
        c = self.c
        d = [c.op("fsub", a, b) for a, b in zip(source, self.x)]
        r = c.unless_own(self.ids, who, self.inverse(d))
        r3 = c.op("fmul", r, c.op("fmul", r, r))
        w = self.dot(self.g, d)
        by_mass = c.op("fmul", r3, w)
        pull = c.op("fmul", mass, r3)
        along = c.op("fmul", c.op("fmul", c.splat("-3.0"), c.op("fmul", mass, by_mass)), c.op("fmul", r, r))
        place = [c.fma(along, x, c.op("fmul", pull, g)) for x, g in zip(d, self.g)]
        softening = c.op("fmul", c.splat("0.5"), along)
        return self.joined(sums, place, softening), [*place, by_mass]

    def back_node(self, field: Callable[[int], str], sums: Sequence[str]) -> tuple[list[str], list[str]]:
        """(sums, cotangents of the centre, the mass and the moments of a node), for g.A of `node`.

        With w = g.d, t = Q d, h = Q g, z = g.t, P = m/s**3 + 2.5 dQd/s**7 - (tr Q)/s**5/2 it is P w - z/s**5. The trace
        is half of that of Q, so that its cotangent is added to those of the moments.
        """
        c = self.c
        d = [c.op("fsub", field(k), x) for k, x in enumerate(self.x)]
        r = self.inverse(d)
        r2 = c.op("fmul", r, r)
        r3 = c.op("fmul", r, r2)
        r5 = c.op("fmul", r3, r2)
        r7 = c.op("fmul", r5, r2)
        xx, xy, xz, yy, yz, zz = (field(MOMENTS + k) for k in range(6))
        rows = ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))
        turned, other = [self.dot(row, d) for row in rows], [self.dot(row, self.g) for row in rows]
        w, along, z = self.dot(self.g, d), self.dot(turned, d), self.dot(self.g, turned)
        parts = (
            c.op("fmul", field(MASS), r3),
            c.op("fmul", c.op("fmul", c.splat("2.5"), along), r7),
            c.minus(c.op("fmul", field(TRACE), r5)),
        )
        pull = c.op("fadd", parts[0], c.op("fadd", parts[1], parts[2]))
        slope = c.op("fmul", c.splat("3.0"), parts[0])
        slope = c.fma(c.splat("7.0"), parts[1], slope)
        slope = c.fma(c.splat("5.0"), parts[2], slope)
        r5z = c.op("fmul", r5, z)
        # -r**3 times the derivative by r, which d and the softening change
        closer = c.op("fmul", r2, c.fma(c.splat("5.0"), r5z, c.minus(c.op("fmul", w, slope))))
        r7w = c.op("fmul", c.op("fmul", c.splat("2.5"), r7), w)
        twice = c.op("fadd", r7w, r7w)
        minus = c.minus(r5)
        place = []
        for g, t, h, x in zip(self.g, turned, other, d):
            place.append(c.fma(closer, x, c.fma(minus, h, c.fma(twice, t, c.op("fmul", pull, g)))))
        by_trace = c.op("fmul", c.splat("0.5"), c.op("fmul", minus, w))
        moments = []
        for a, b in SECOND:
            if a == b:
                own = c.fma(c.op("fmul", r7w, d[a]), d[a], by_trace)
                moments.append(c.fma(c.op("fmul", minus, self.g[a]), d[a], own))
            else:
                sheared = c.fma(self.g[a], d[b], c.op("fmul", self.g[b], d[a]))
                moments.append(c.fma(c.op("fmul", twice, d[a]), d[b], c.op("fmul", minus, sheared)))
        by_mass = c.op("fmul", r3, w)
        softening = c.op("fmul", c.splat("0.5"), closer)
        return self.joined(sums, place, softening), [*place, by_mass, *moments]


def back(c: Writer) -> list[str]:
    """The cotangents of points and of what pulls them, from those of the pull, by the same walk in the same order.

    %out has those of the points that are pulled and of the square of the softening; %by_point and %by_node those of the
    sources, with a vector of lanes for each number.
    """
    softening = c.splat("%softening")
    wide, stride = c.new("shl i64 %wide, 3"), c.new("shl i64 %stride, 3")

    def add(array: str, planes: str, at: str, values: Sequence[str]) -> None:
        place = c.new(f"shl i64 {at}, 3")
        for k, v in enumerate(values):
            here = c.plane(array, planes, k, place)
            c.line(f"store {V} {c.op('fadd', c.vector(here), v)}, ptr {here}, align 8")

    def met(first: str, nodes: str, leaves: str) -> None:
        x, g = (
            [c.vector(c.plane(array, "%stride", k, first)) for k in range(3)]
            for array in ("%targets", "%cotangents")
        )
        lanes = Pulls(c, x, g, ids_of(c, first), softening)

        def as_a_whole(k: str, sums: list[str]) -> list[str]:
            at = c.get("%whole", k)
            sums, own = lanes.back_node(lambda f: c.wide("%nodes", "%wide", f, at), sums)
            add("%by_node", wide, at, own)
            return sums

        def point_by_point(k: str, sums: list[str]) -> list[str]:
            leaf = c.new(f"shl i64 {c.get('%opened', k)}, 3")
            for j in range(8):
                who = c.new(f"add i64 {leaf}, {j}")
                at = [c.wide("%p", "%stride", a, who) for a in range(4)]
                sums, own = lanes.back_point(at[:3], at[3], who, sums)
                add("%by_point", stride, who, own)
            return sums

        sums = c.carrying(nodes, ["zeroinitializer"] * 4, as_a_whole)
        sums = c.carrying(leaves, sums, point_by_point)
        for k, s in enumerate(sums):
            c.line(f"store {V} {s}, ptr {c.plane('%out', '%stride', k, first)}, align 8")

    c.line(f"ret i64 {c.value(each_group(c, met))}")
    return function(
        "i64",
        "back",
        "ptr %p, i64 %stride, ptr %nodes, i64 %wide, i64 %leaves, i64 %root, ptr %kids, "
        "double %angle, double %softening, ptr %groups, i64 %from, i64 %to, ptr %targets, ptr %cotangents, "
        "ptr %out, ptr %by_point, ptr %by_node, ptr %stack, ptr %whole, ptr %opened",
        c,
    )
