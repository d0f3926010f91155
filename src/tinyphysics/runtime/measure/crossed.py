"""Does an energy jump, or bend, where a condition changes?  It is followed to that place, and both sides are compared.

Between two states of a run the place is found by bisection; before a run, a state is moved to the nearest place by Newton's
method along the slope of the condition. Only what is measured on both sides is named: a choice whose branches meet smoothly
is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.errors import TinyPhysicsError
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.ir.ops import COMPARE, ELEMENTWISE, MOVEMENT
from tinyphysics.ir.value import source_index
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.formulas.cutoffs import cutoffs
from tinyphysics.runtime.measure.causes import CUTOFF, IMAGE, KINK, Finding
from tinyphysics.runtime.measure.first_bad_node import own_pairs
from tinyphysics.runtime.measure.place import WORK, Place
from tinyphysics.runtime.stages.in_numpy import numbers

CHOOSES = COMPARE | {Ops.ABS, Ops.SIGN, Ops.MIN, Ops.MAX, Ops.FLOOR, Ops.RINT}
WHOLE = (Ops.FLOOR, Ops.RINT)
HALVINGS = 45  # of the way between two states
SEEN = 1e-7  # of the energy, or of its slope: a jump below it is none
ASIDE = 1e-5  # of the state: how far the sides are from where a condition changes
BESIDE = 1e-4  # the same, of the way between two states
NARROWER = 64  # what jumps is as large where the sides are this much nearer
NEAREST = 2  # numbers of each condition that are followed
ROUNDS = 12  # of Newton's method
FIX = {
    CUTOFF: "Subtract the energy at the cutoff, pair_distance2(..., shift=True), or let it fade: switch=.",
    IMAGE: "Let the interaction end before half of the box: tp.pair_distance2(q, box=L, cutoff=rc, switch=rs), rc <= L/2.",
    KINK: "Smooth it, as tp.sqrt(x*x + eps*eps) for abs(x), or let it fade: switch=. Orders above 1 are not reached there.",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Border:
    """One number of an operation that chooses, and the value that changes sign there."""

    node: UOp
    at: int

    def signs(self, place: Place) -> Any:
        return choices(self.node, place)[self.at]

    def distance(self, place: Place) -> UOp:
        """What is zero at the nearest place where it changes."""
        u, zero = self.node, UOp.const(0.0)
        if u.op in WHOLE:
            x = float(place.value(u.src[0])[self.at])
            whole = np.floor(x) + 0.5 if u.op is Ops.RINT else np.round(x)
            a, b = u.src[0], UOp.const(float(whole))
        else:
            a, b = (u.src[0], zero) if len(u.src) == 1 else u.src
        return item(a, self.at) - item(b, self.at)


def item(u: UOp, k: int) -> UOp:
    """One number of an array, made of numbers: derivatives do not see the others, as a particle beside itself."""
    if not u.shape:
        return u
    if u.op is Ops.CONST:
        return UOp.const(u.arg, u.dtype)
    if u.op is Ops.STACK:
        return u.src[k]
    if u.op in ELEMENTWISE and all(s.shape == u.shape for s in u.src):
        return UOp(u.op, u.dtype, (), tuple(item(s, k) for s in u.src), u.arg)
    if u.op is Ops.REDUCE and u.arg[0] == "sum":
        shape = u.src[0].shape
        axes = [a % len(shape) for a in u.arg[1]]
        places = np.moveaxis(np.arange(u.src[0].size).reshape(shape), axes, range(len(axes)))
        return UOp.sum_of(item(u.src[0], int(i)) for i in places.reshape(-1, u.size)[:, k])
    if u.op in MOVEMENT and len(u.src) == 1:
        i = source_index(u)[k]
        return UOp.const(0.0) if i is None else item(u.src[0], i)
    return u.element(k)


def choosing(place: Place) -> list[UOp]:
    """The operations of the energy that choose by the state."""
    roots = inline([place.subject.energy] if place.subject.energy is not None else list(place.system.forces))
    return [
        u for u in toposort(roots) if u.op in CHOOSES and u.leaves & place.moving and u.src[0].dtype.is_float
    ]


def choices(u: UOp, place: Place) -> Any:
    if u.op in (Ops.ABS, Ops.SIGN):
        return place.value(u.src[0]) > 0
    if u.op in (Ops.MIN, Ops.MAX):
        return place.value(u.src[0]) > place.value(u.src[1])
    return place.value(u)


@dataclass(frozen=True, eq=False)
class Line:
    """A straight way through states, and where on it a condition changes."""

    origin: Place
    way: Mapping[str, Any]
    crossing: float = 0.0

    def at(self, s: float) -> Place:
        moving = self.origin.moving
        return self.origin.moved(
            {n: self.origin.state(v) + s * self.way[n] for v in moving if (n := str(v.arg)) in self.way}
        )

    def sides(self, width: float) -> tuple[Place, Place]:
        return self.at(self.crossing - width), self.at(self.crossing + width)


def between(one: Place, two: Place) -> list[Finding]:
    """What changed on the way from one state to the next, and does the energy jump or bend there?  The largest first."""
    if one.subject.work > WORK:
        return []
    found: list[tuple[float, Finding]] = []
    line = Line(one, {str(v.arg): two.state(v) - one.state(v) for v in one.moving})
    for u in choosing(one):
        before, after = choices(u, one), choices(u, two)
        own = own_pairs(u)
        changed = (before != after) if own is None else (before != after) & ~own
        for k in np.flatnonzero(changed)[:NEAREST].tolist():
            border, low, high = Border(u, k), 0.0, 1.0
            for _ in range(HALVINGS):
                middle = (low + high) / 2
                same = border.signs(line.at(middle)) == before[k]
                low, high = (middle, high) if same else (low, middle)
            if (met := compared(border, replace(line, crossing=high), BESIDE)) is not None:
                found.append(met)
    return [f for _, f in sorted(found, key=lambda x: -x[0])]


def near(place: Place) -> list[Finding]:
    """What of the kind lies nearest to a state, by moving the positions there; the largest jump of each cause."""
    if place.subject.work > WORK or not place.system.q:
        return []
    found: dict[str, tuple[float, Finding]] = {}
    for u in choosing(place):
        for border in nearest(u, place):
            try:
                line = moved_to(border, place)
                met = None if line is None else compared(border, *line)
            except (TinyPhysicsError, ArithmeticError, ValueError):
                continue
            if met is not None and met[0] > found.get(met[1].cause, (0.0,))[0]:
                found[met[1].cause] = met
    return [f for _, f in found.values()]


def nearest(u: UOp, place: Place) -> Iterator[Border]:
    """Those numbers of an operation that are nearest to a change; a particle and itself are no pair."""
    if u.op in WHOLE:
        x = place.value(u.src[0])
        away = np.abs(x - (np.floor(x) + 0.5 if u.op is Ops.RINT else np.round(x)))
    else:
        a, b = (place.value(u.src[0]), place.value(u.src[1]) if len(u.src) > 1 else 0.0)
        away = np.abs(np.broadcast_to(a - b, (u.size,)))
    own = own_pairs(u)
    away = away if own is None else np.where(own, np.inf, away)
    for k in np.argsort(away, kind="stable")[:NEAREST].tolist():
        if np.isfinite(away[k]):
            yield Border(u, k)


def moved_to(border: Border, place: Place) -> tuple[Line, float] | None:
    """A line through the change, as near to a state as it is found, and how far its sides are from it."""
    q = list(place.system.q)
    g = border.distance(place)
    slopes = gradient(g, q)
    here = place
    for _ in range(ROUNDS):
        value = float(here.value(g)[0])
        way = [np.reshape(here.value(s), x.shape) for s, x in zip(slopes, q)]
        square = sum(float((w * w).sum()) for w in way)
        if not np.isfinite(value) or not np.isfinite(square):
            return None
        if square == 0.0:
            return None
        size = max(float(np.abs(here.state(x)).max(initial=0.0)) for x in q) + 1e-3
        if abs(value) <= 1e-14 * np.sqrt(square) * size:
            break
        here = here.moved({str(x.arg): here.state(x) - value / square * w for x, w in zip(q, way)})
    line = Line(here, {str(x.arg): w for x, w in zip(q, way)})
    width = ASIDE * size / np.sqrt(square)
    low, high = line.sides(width)
    return (line, width) if border.signs(low) != border.signs(high) else None


def compared(border: Border, line: Line, width: float) -> tuple[float, Finding] | None:
    """(size, what is found) where the energy, or its slope, is another on the other side, however near that is."""
    subject = line.origin.subject
    seen = [differences(line.sides(w)) for w in (width, width / NARROWER)]
    if not np.isfinite(seen).all():
        return None
    (_, _, terms, steep), (jump, bend, _, _) = seen[0], seen[1]
    size = max((float(np.abs(line.origin.state(x)).max(initial=0.0)) for x in subject.system.q), default=1.0)
    if subject.energy is not None:  # a force that does nothing to the energy is none
        steep = max(steep, terms / max(size, 1e-3))
    jumps, bends = (
        now > SEEN * max(scale, 1e-300) and now > before / 2
        for before, now, scale in ((seen[0][0], jump, terms), (seen[0][1], bend, steep))
    )
    if not jumps and not bends:
        return None
    cause = IMAGE if border.node.op in WHOLE else CUTOFF if jumps else KINK
    what = f"the energy jumps by {jump:.3g}" if jumps else f"the force jumps by {bend:.3g}"
    because = f"{what} where {condition(border)} changes"
    term = line.origin.term_of(outer(border, line.origin))
    return (jump if jumps else bend), Finding(cause, because, FIX[cause], term, pair_of(border))


def differences(sides: tuple[Place, Place]) -> tuple[float, float, float, float]:
    """Of the energy and of its slope between two states; the sizes of terms and slopes there."""
    subject = sides[0].subject
    slopes = [np.concatenate([x.value(s) for s in subject.pulls]) for x in sides]
    bend = float(np.abs(slopes[1] - slopes[0]).max(initial=0.0))
    steep = max(float(np.abs(s).max(initial=0.0)) for s in slopes)
    if subject.energy is None:
        return 0.0, bend, 1.0, steep
    low, high = (float(numbers([subject.energy], x.env)[0]) for x in sides)
    terms = sum(float(np.abs(sides[0].value(x)).sum()) for x in subject.terms)
    return abs(high - low), bend, terms, steep


def outer(border: Border, place: Place) -> UOp:
    """The operation that is shown: of a sum over neighbours, the sum."""
    energy = place.subject.energy
    inside = (
        []
        if energy is None
        else [s for s in cutoffs([energy]) if border.node in dict.fromkeys(toposort([s]))]
    )
    return inside[0] if inside else border.node


def condition(border: Border) -> str:
    text = str(border.node)
    return text if len(text) <= 80 else "its condition"


def pair_of(border: Border) -> tuple[int, int] | None:
    shape = border.node.shape
    if len(shape) < 2 or shape[0] != shape[1]:
        return None
    i, j = (int(x) for x in np.unravel_index(border.at, shape)[:2])
    return min(i, j), max(i, j)
