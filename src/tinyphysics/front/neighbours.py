"""How is an energy between neighbours written?  As an expression of the squared distance, zero beyond a cutoff.

`pair_distance2` stands for the distances of all pairs, with the domain that they live in: a box, a cutoff, a list.
What is made of it element by element has the same domain; `pair_sum` consumes it. There the particles are put
in the order of the list, so that neighbours are close together in memory, and the sum is taken in that order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tinyphysics.errors import InputError, ShapeError, TraceError
from tinyphysics.front.dense import inv
from tinyphysics.front.functions import on_symbols
from tinyphysics.front.lattice_sums import all_images, is_periodic
from tinyphysics.ir import Ops, UOp, as_uop, substitute, toposort
from tinyphysics.ir.dtype import i64
from tinyphysics.ir.neighbours import COLUMNS, MORTON
from tinyphysics.ir.ops import ELEMENTWISE
from tinyphysics.ir.reduction import FEW
from tinyphysics.options import heeds
from tinyphysics.rules.equality.normal import same
from tinyphysics.rules.formulas.cutoffs import CUT, SHIFTED, SWITCHED
from tinyphysics.util import one_of

MOST_DIMENSIONS = 3
CURVES = {"columns": COLUMNS, "morton": MORTON}
NO_SKIN = -1.0  # the run chooses it
HOW = "Write r2 = tp.pair_distance2(q, box=L, cutoff=rc) and an energy of r2 for each pair."


def is_distance(u: UOp) -> bool:
    return u.op is Ops.NEIGHBOURS and u.arg[0] == "distance2"


@heeds("pair_distance2", "tp.pair_distance2(q, cutoff=2.5, box=box)")
def pair_distance2(
    q: Any, box: Any = None, cutoff: Any = None, *, skin: Any = None, shift: bool = False, switch: Any = None,
    exclude: Any = None, order: str = "columns",
) -> UOp:  # fmt: skip
    """Returns the squared distances of all pairs of the points q, an array (n, d), each to the nearest image.

    With q alone all pairs count, in open space; with a box and no cutoff all images of it too (docs/long_range.md).

    box      one length for a cube, d lengths, or d vectors as rows; none: open space
    cutoff   pairs farther apart than this are left out of the sum
    skin     how far the neighbour list reaches beyond the cutoff; chosen automatically by default
    shift    subtracts the value at the cutoff from every pair, so that the energy does not jump (the force does)
    switch   from this distance on, the energy goes to zero smoothly: energy, force and its slope are continuous
    order    the order of neighbours in memory and in sums: "columns" or "morton"
    exclude  pairs that do not interact, as (i, j) by index; or for each particle a row of partners, -1 for none
    """
    points = as_uop(q)
    n, d = points.shape if points.ndim == 2 else (0, 0)
    if not 1 <= d <= MOST_DIMENSIONS:
        raise ShapeError.here(
            f"pair_distance2 of shape {points.shape}",
            'Points have shape (n, d) with d from 1 to 3: q: tp.Array["n", 3].',
        )
    if not points.leaves:
        raise TraceError.here(
            "pair_distance2 was called with numbers", "Call it on a state, inside an energy."
        )
    if cutoff is None:
        check_no_cutoff({"skin": skin, "switch": switch, "shift": shift or None})
        if box is not None:
            partners = () if exclude is None else (partner_table(exclude, n),)
            return all_images(points, checked_box(as_uop(box), d), partners)
        check_no_cutoff({"exclude": exclude})
        return squared_distances(points)
    lengths = {"cutoff": cutoff, "skin": NO_SKIN if skin is None else skin, "switch": switch}
    scalars = {name: scalar(name, x) for name, x in lengths.items() if x is not None}
    if switch is not None and shift:
        raise TraceError.here(
            "shift= and switch= cannot be used together",
            "switch= already brings the energy to zero at the cutoff: leave shift= out.",
        )
    cell = () if box is None else (checked_box(as_uop(box), d),)
    sources = (points, scalars["cutoff"], scalars["skin"], *cell)
    extra = () if switch is None else (scalars["switch"],)
    partners = () if exclude is None else (partner_table(exclude, n),)
    if order not in CURVES:
        raise InputError.here(f"order={order!r}", f"It is {one_of([*CURVES])}.")
    what = ("distance2", 0, int(bool(shift)), len(cell), len(extra), len(partners), CURVES[order])
    return UOp(Ops.NEIGHBOURS, points.dtype, (n, n), (*sources, *extra, *partners), what)


def check_no_cutoff(others: Mapping[str, Any]) -> None:
    """A TraceError if something was asked that goes with a cutoff."""
    for name, value in others.items():
        if value is not None:
            raise TraceError.here(
                f"pair_distance2 with {name}= needs cutoff=",
                f"{name}= goes with a cutoff: pass cutoff=2.5. tp.pair_distance2(q) alone is all pairs.",
            )


def squared_distances(points: UOp) -> UOp:
    d = points[:, None] - points[None, :]
    return (d * d).sum(-1)


def scalar(name: str, x: Any) -> UOp:
    u = as_uop(x)
    if u.shape or not u.dtype.is_float:
        raise ShapeError.here(f"{name}={x!r} is not one length", f"Pass {name}=2.5 or a parameter.")
    if u.op is Ops.CONST and not 0.0 <= u.arg < float("inf") and u.arg != NO_SKIN:
        raise InputError.here(f"{name}={x!r} is not a length", f"Pass {name}=2.5.")
    return u


def checked_box(box: UOp, d: int) -> UOp:
    if box.op is Ops.CONST and not (0.0 < float(box.arg) < math.inf):
        raise InputError.here(f"a box of length {float(box.arg):g}", "It is above zero, and finite.")
    if box.shape == ():
        return box.expand((d,))
    if box.shape not in ((d,), (d, d)):
        raise ShapeError.here(
            f"a box of shape {box.shape} for points with {d} coordinates",
            f"Pass one length, {d} lengths, or {d} vectors as rows.",
        )
    return box


def partner_table(exclude: Any, n: int) -> UOp:
    """For each particle the partners that it does not see, -1 where there is none."""
    if isinstance(exclude, UOp):
        if exclude.ndim != 2 or exclude.shape[0] != n:
            raise ShapeError.here(
                f"exclude= of shape {exclude.shape}",
                f"As a parameter it has one row of partners for each of the {n} particles.",
            )
        return exclude
    pairs = exclude.tolist() if hasattr(exclude, "tolist") else list(exclude)
    partners: list[list[float]] = [[] for _ in range(n)]
    for pair in pairs:
        if len(pair) != 2 or any(int(k) != k or not 0 <= k < n for k in pair) or pair[0] == pair[1]:
            raise InputError.here(
                f"exclude= holds {tuple(pair)!r}",
                f"It is a list of pairs (i, j) of two different indices below {n}.",
            )
        i, j = int(pair[0]), int(pair[1])
        for a, b in ((i, j), (j, i)):
            if b not in partners[a]:
                partners[a].append(float(b))
    most = max(1, *map(len, partners)) if partners else 1
    return as_uop([row + [-1.0] * (most - len(row)) for row in partners])


# --- the sum --------------------------------------------------------------------------------------
def near_sum(x: UOp, shift: bool = False, switch: Any = None) -> UOp:
    """The sum over pairs of what was made of a `pair_distance2`."""
    nodes = list(toposort([x]))
    distances = [u for u in nodes if is_distance(u)]
    sums = [u for u in nodes if u.op is Ops.REDUCE and u.shape == distances[0].shape]
    if len(distances) > 1 or sums and any(u is squared_distances(distances[0].src[0]) for u in sums):
        raise TraceError.here(
            "a pair_sum mixes the distances of two pair_distance2 calls",
            "Call pair_distance2 once and use its result throughout, or write one pair_sum for each.",
        )
    (r2,) = distances
    if x.shape != r2.shape:
        raise ShapeError.here(f"pair_sum of shape {x.shape} over pairs of shape {r2.shape}", HOW)
    _, _, own_shift, boxed, switched, excluded, curve = r2.arg
    points, cutoff, skin, *rest = r2.src
    cell, rest = rest[:boxed], rest[boxed:]
    on, partners = rest[:switched], rest[switched:]
    if switch is not None:
        on = [scalar("switch", switch)]
    whole = (cutoff * cutoff).expand(r2.shape)
    kind = SHIFTED if shift or own_shift else SWITCHED if on else CUT
    if kind == SHIFTED:
        x = x - substitute([x], {r2: whole})[0]
    elif kind == SWITCHED:
        x = x * smooth_step(r2, on[0].expand(r2.shape), whole)
    if not same(x, turned(x)):
        raise TraceError.here(
            "the energy of a pair (i, j) is not shown to be that of (j, i)",
            "With a cutoff each pair is counted once, in either order: write m[:, None]*m[None, :], "
            "or m[:, None] + m[None, :].",
        )
    few = points.shape[0] <= FEW
    domain = (points, cutoff, skin, *cell)
    way = (curve,) if curve else ()
    order = UOp(Ops.NEIGHBOURS, i64, points.shape[:1], domain, ("order", 0, *way))
    if few:
        placed = points
    else:
        placed = wrapped(points, domain, way).gather((order,))
    d = nearest(placed[:, None], placed[None, :], cell)
    distance = (d * d).sum(-1)
    arranged = x if few else Arranged(order, r2).at(x, ("i", "j"))
    near = distance < (with_room(cutoff, cell).expand(r2.shape) if few else whole)
    for k in range(partners[0].shape[1] if excluded else 0):
        near = near & apart(partners[0][:, k], order, few)
    (value,) = substitute([arranged], {r2: distance})
    masked: UOp = near.where(value, 0.0)
    return masked.triu(0, 1).sum() if few else masked.triu(0, 1, kind).sum()


def with_room(cutoff: UOp, cell: Sequence[UOp]) -> UOp:
    """The square of a cutoff, with its cell: rules/formulas/cutoffs.py finds both again, and a run sees whether they fit.

    Where there is a list, that looks for itself.
    """
    box = cell[0].max() if cell else UOp.const(0.0)
    return ((0.0 < cutoff) & (box < float("inf"))).where(cutoff * cutoff, float("nan"))


def smooth_step(r2: UOp, on: UOp, whole: UOp) -> UOp:
    """1 up to the squared distance on**2, 0 at the cutoff, with two continuous derivatives between."""
    t = (whole - r2) / (whole - on * on)
    inside = t * t * t * (10.0 + t * (6.0 * t - 15.0))
    return (r2 < on * on).where(1.0, inside)


def wrapped(points: UOp, domain: tuple[UOp, ...], way: tuple[int, ...]) -> UOp:
    """The points in the cell at the origin, or as near to it as they were when the list was made."""
    if len(domain) == 3:
        return points
    box = domain[3]
    images = UOp(Ops.NEIGHBOURS, points.dtype, points.shape, domain, ("images", 0, *way))
    return points - (images * box if box.ndim == 1 else images @ box)


@heeds("separation", "tp.separation(a, b, box)")
@on_symbols
def separation(a: Any, b: Any, box: Any = None) -> UOp:
    """Returns a - b, to the nearest image in a box: what the bond between two points is made of.

    The box is that of `pair_distance2`; the image is the nearest one for all that are nearer than half of its width.
    """
    u, v = as_uop(a), as_uop(b)
    if box is None:
        return u - v
    d = u - v
    return nearest(u, v, (checked_box(as_uop(box), d.shape[-1] if d.ndim else 1),))


def nearest(a: UOp, b: UOp, cell: Sequence[UOp]) -> UOp:
    """a - b to the nearest image; exact for all that are nearer than half the width of the cell."""
    d = a - b
    if not cell:
        return d
    (box,) = cell
    shift = (d / box).rint() * box if box.ndim == 1 else (d @ inv(box)).rint() @ box
    return a.expand(d.shape).image(b.expand(d.shape), shift)


def apart(partner: UOp, order: UOp, few: bool) -> UOp:
    """Is the second of a pair another than the partner of the first?  -1 is no partner."""
    n = partner.shape[0]
    index = UOp.range(n)
    at = partner.cast(i64)
    if not few:
        inverse = UOp(Ops.NEIGHBOURS, i64, order.shape, order.src, ("inverse", *order.arg[1:]))
        nobody, first = UOp.const(-1, i64, at.shape), UOp.const(0, i64, at.shape)
        there = inverse.gather(((at < first).where(first, at),))
        at = (at < first).where(nobody, there).gather((order,))
    return at[:, None].expand((n, n)).ne(index[None, :].expand((n, n)))


# --- one particle at a time -----------------------------------------------------------------------
class Arranged:
    """An expression of pairs with its particles in the order of a list."""

    def __init__(self, order: UOp, r2: UOp) -> None:
        self.order, self.r2 = order, r2
        self.memo: dict[tuple[object, ...], UOp] = {}

    def at(self, u: UOp, labels: tuple[str, ...]) -> UOp:
        if (u, labels) not in self.memo:
            self.memo[u, labels] = self._at(u, labels)
        return self.memo[u, labels]

    def _at(self, u: UOp, labels: tuple[str, ...]) -> UOp:
        named = [k for k, label in enumerate(labels) if label]
        if not named or u is self.r2 or u.op is Ops.CONST:
            return u
        moved = u.src[0] if u.op in (Ops.EXPAND, Ops.RESHAPE) else None
        if moved is not None and (old := before(u, labels)) is not None:
            inside = self.at(moved, old)
            return inside.expand(u.shape) if u.op is Ops.EXPAND else inside.reshape(u.shape)
        if len(named) == 1:
            return gathered(u, named[0], self.order)
        if u.op in ELEMENTWISE:
            return u.replace(tuple(self.at(s, labels) for s in u.src))
        if u.op is Ops.GATHER and all(k < u.src[1].ndim for k in named):
            return u.replace((u.src[0], *(self.at(s, labels[: s.ndim]) for s in u.src[1:])))
        if u.op is Ops.REDUCE and u.arg[0] in ("sum", "max", "min"):
            left = iter(labels)
            inner = tuple("" if k in u.arg[1] else next(left) for k in range(u.src[0].ndim))
            return u.replace((self.at(u.src[0], inner),))
        raise TraceError.here(
            f"`{u}` is a table over all pairs, inside a sum over neighbours",
            "Choose by type, eps[types[:, None], types[None, :]], or build it from one number per particle.",
        )


def before(u: UOp, labels: tuple[str, ...]) -> tuple[str, ...] | None:
    """The labels of the axes that an EXPAND or RESHAPE was made from; None if it mixes them."""
    old, new = u.src[0].shape, u.shape
    if u.op is Ops.EXPAND:
        own = labels[len(new) - len(old) :]
        return tuple(label if n == m else "" for label, n, m in zip(own, old, new[len(new) - len(old) :]))
    kept = [(n, label) for n, label in zip(new, labels) if n != 1]
    if [n for n, _ in kept] != [n for n in old if n != 1]:
        return None
    rest = iter(kept)
    return tuple("" if n == 1 else next(rest)[1] for n in old)


def gathered(u: UOp, axis: int, order: UOp) -> UOp:
    """The items along an axis in the order of the list."""
    if axis == 0:
        return u.gather((order,))
    axes = [axis, *(k for k in range(u.ndim) if k != axis)]
    front = u.permute(axes).gather((order,))
    return front.permute(sorted(range(u.ndim), key=axes.__getitem__))


def turned(x: UOp) -> UOp:
    """An expression of pairs with the two particles exchanged; tables are symmetric, which the run checks."""
    memo: dict[UOp, UOp] = {}

    def turn(u: UOp) -> UOp:
        if u not in memo:
            memo[u] = one(u)
        return memo[u]

    def one(u: UOp) -> UOp:
        if is_distance(u):
            return u
        across = (u.shape[1], u.shape[0], *u.shape[2:])
        if u.op is Ops.CONST:
            return UOp.const(u.arg, u.dtype, across)
        if u.op in ELEMENTWISE:
            return UOp(u.op, u.dtype, across, tuple(map(turn, u.src)), u.arg)
        if u.op is Ops.EXPAND:
            return turn(u.src[0].reshape((1,) * (u.ndim - u.src[0].ndim) + u.src[0].shape)).expand(across)
        if u.op is Ops.GATHER and len(u.src) == 3 and u.src[1].ndim == 2:
            a, b = u.src[1:]
            if turn(a) is b and turn(b) is a:
                return u
            return UOp(u.op, u.dtype, across, (u.src[0], turn(a), turn(b)))
        if u.op is Ops.REDUCE and min(u.arg[1]) > 1:
            return UOp(u.op, u.dtype, across, (turn(u.src[0]),), u.arg)
        if 1 in u.shape[:2]:  # the numbers stay where they are
            return (u.src[0] if u.op is Ops.RESHAPE else u).reshape(across)
        return u.permute((1, 0, *range(2, u.ndim)))

    return turn(x)


def left_over(roots: Sequence[UOp]) -> UOp | None:
    """A `pair_distance2` that no sum has consumed."""
    return next((u for u in toposort(roots) if is_distance(u) or is_periodic(u)), None)
