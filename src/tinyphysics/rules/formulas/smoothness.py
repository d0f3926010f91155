"""How many derivatives of an expression are continuous, where are they not, and why?

The one answer to this question: facts, certificates, claims of order and goals read it. One-sided: what is not shown to be
smooth is named, whether or not it is smooth. Where an expression is infinite it is not asked: a run stops there, or its
energy shows it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tinyphysics.errors import TraceError
from tinyphysics.ir.mesh import INTERPOLATE, SPREAD
from tinyphysics.ir.ops import COMPARE, ELEMENTWISE, FUNCTIONS, LEAVES, MOVEMENT, Ops
from tinyphysics.ir.uop import UOp, substitute, toposort
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import Normal, TooLarge
from tinyphysics.rules.equality.poles import PoleSearch, exponent, merged, searched
from tinyphysics.rules.equality.ranges import Range, ranges_of
from tinyphysics.rules.formulas.cutoffs import (
    CUT,
    SHIFTED,
    SWITCHED,
    endings,
    first,
    is_switch,
    square_of,
    within_cutoffs,
)

JUMP, KINK = -1, 0
MOST_DERIVATIVES = 2  # that are compared where the branches of a choice meet
AT_CUTOFF = {CUT: JUMP, SHIFTED: KINK, SWITCHED: 2}
# smooth wherever they are finite; the poles of some are followed in rules/equality/poles.py
ANALYTIC = LEAVES | FUNCTIONS - {Ops.SQRT, Ops.CBRT, Ops.ASIN, Ops.ACOS}
ANALYTIC |= {Ops.NEG, Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.FMA, Ops.IMAGE}
ANALYTIC |= {Ops.JACOBI, Ops.RANDOM, Ops.NEIGHBOURS}
ROOTED = frozenset({Ops.SQRT, Ops.CBRT, Ops.POW, Ops.HYPOT})  # rough where their argument is zero
# rough where something is made of them: a choice or a number
LOGIC = COMPARE | {Ops.AND, Ops.OR, Ops.NOT, Ops.XOR}


@dataclass(frozen=True)
class Rough:
    """A place where an expression is not shown to be smooth."""

    order: int  # derivatives that are shown to be continuous there; JUMP: the value itself is not
    node: UOp
    cutoff: int | None = None  # of a sum over neighbours: how it ends

    @property
    def is_a_point(self) -> bool:
        """Is it at one value of several numbers, as of the length of a vector where that vanishes?"""
        u = self.node
        while u.op is Ops.SQRT:
            u = u.src[0]
        return u is not self.node and len(squares(u)) > 1

    def what(self, of_energy: bool = True) -> str:
        """What it does, as the end of a sentence about its node."""
        if self.order < 0:
            return "may jump, and a jump exerts no force" if of_energy else "may jump, where the order drops"
        if self.order == 0:
            return "may have a kink, where the order drops"
        return f"is shown to have {self.order} continuous derivative{'s' * (self.order > 1)}, where the order drops"


def squares(u: UOp) -> set[UOp]:
    """The numbers of a state in u = x*x + y*y + ...; none where it is another sum."""
    if u.op is Ops.ADD:
        parts = [squares(x) for x in u.src]
        return set[UOp]().union(*parts) if all(parts) else set()
    if u.op is Ops.REDUCE and u.arg[0] == "sum":
        inner = squares(u.src[0])
        return {x.element(k) for x in inner for k in range(x.size)} if len(inner) == 1 else set()
    if u.op is Ops.FMA:
        return squares(u.src[0] * u.src[1] + u.src[2])
    if u.op is Ops.MUL and u.src[0] is u.src[1]:
        x = u.src[0]
        while x.op in MOVEMENT and len(x.src) == 1:
            x = x.src[0]
        return {u.src[0]} if x.op is Ops.VAR else set()
    return set()


def roughest(roots: Sequence[UOp], moving: frozenset[UOp]) -> Rough | None:
    """The place with the fewest continuous derivatives; None: all are smooth wherever they are finite."""
    return min(rough_places(roots, moving), key=lambda r: r.order, default=None)


def rough_places(roots: Sequence[UOp], moving: frozenset[UOp]) -> list[Rough]:
    """All of them, in the order in which they are computed."""
    plain = inline(roots)
    inside = within_cutoffs(plain)
    ranges = ranges_of(inside, {})
    out = [
        Rough(order, u)
        for u in toposort(inside)
        if u.leaves & moving and (order := own_order(u, ranges, moving)) is not None
    ]
    for u, kind in endings(plain).items():
        if u.leaves & moving:
            out.append(Rough(AT_CUTOFF[kind] if kind == CUT or ends_at_zero(u, kind) else JUMP, u, kind))
    return out + at_zeros(inside, moving)


def own_order(u: UOp, ranges: dict[UOp, Range], moving: frozenset[UOp]) -> int | None:
    """What an operation does to derivatives, wherever its arguments may be; None: nothing."""
    if u.op in ANALYTIC or u.op in ROOTED or u.op in LOGIC:
        return None
    lows, highs = zip(*(ranges[s] for s in u.src)) if u.src else ((), ())
    match u.op:
        case Ops.GATHER | Ops.SCATTER:
            chosen = any(s.leaves & moving and s.op is not Ops.NEIGHBOURS for s in u.src[1:])
            return JUMP if chosen else None
        case op if op in MOVEMENT or op in (Ops.FOURIER, Ops.ELLIPTIC):
            return None
        case (
            Ops.MESH
        ):  # a spline has order - 2 continuous derivatives, and each that is taken already costs one
            what, order, along, _ = u.arg
            return (
                order - 2 - sum(along) if what in (SPREAD, INTERPOLATE) and u.src[0].leaves & moving else None
            )
        case Ops.REDUCE:
            return None if u.arg[0] in ("sum", "pairs") or u.src[0].size == u.size else KINK
        case Ops.CAST:
            return None if u.src[0].dtype.is_float else JUMP
        case Ops.ABS:
            return None if lows[0] >= 0.0 or highs[0] <= 0.0 else KINK
        case Ops.MIN | Ops.MAX:
            return None if highs[0] <= lows[1] or highs[1] <= lows[0] else KINK
        case Ops.SIGN:
            return None if lows[0] > 0.0 or highs[0] < 0.0 else JUMP
        case Ops.ASIN | Ops.ACOS:
            return None if lows[0] > -1.0 and highs[0] < 1.0 else KINK
        case Ops.ATAN2:  # it is cut along the negative part of its second axis
            return None if lows[1] > 0.0 or lows[0] > 0.0 or highs[0] < 0.0 else JUMP
        case Ops.FLOOR | Ops.RINT:
            f = math.floor if u.op is Ops.FLOOR else round
            known = math.isfinite(lows[0]) and math.isfinite(highs[0])
            return None if known and f(lows[0]) == f(highs[0]) else JUMP
        case Ops.WHERE | Ops.WHERE_RARELY:
            return None if not u.src[0].leaves & moving else where_branches_meet(u, moving)
    return JUMP  # whatever it is, it is not shown to be continuous


# --- roots ---------------------------------------------------------------------------------------------------
def at_zeros(roots: Sequence[UOp], moving: frozenset[UOp]) -> list[Rough]:
    """Roots of what may be zero, and quotients that may jump there; not where the sum of all is infinite."""
    named, back, search, hidden = searched(roots, moving)
    if hidden is not None:
        return [Rough(JUMP, hidden)]
    assert search is not None
    infinite = merged(*(search.poles[u] for u in named))
    out = []
    for u in toposort(named):
        if u.op not in ROOTED or not u.leaves & search.moving:
            continue
        order, zeros = root_order(u, search)
        if order is not None and not (zeros and all(z in infinite for z in zeros)):
            out.append(Rough(order, substitute([u], back)[0]))
    return out


def root_order(u: UOp, search: PoleSearch) -> tuple[int | None, list[UOp]]:
    """(derivatives that are continuous where its argument is zero, what is zero there); None: it never is, or all are."""
    if u.op is Ops.HYPOT:
        return (None, []) if any(map(search.is_apart, u.src)) else (KINK, [u])
    x = u.src[0]
    low, _ = search.ranges[x]
    if low > 0.0 or u.op is Ops.CBRT and search.is_apart(x):
        return None, []
    if u.op is Ops.POW:
        e = exponent(u)
        if e is None:
            moves = bool(u.src[1].leaves & search.moving)
            return (JUMP if moves else KINK), [*search.zeros(x)]
        if e.denominator == 1 or e < 0:  # smooth, or infinite
            return None, []
        return math.ceil(e) - 1, [*search.zeros(x)]
    return KINK, [*search.zeros(x)]


# --- choices -------------------------------------------------------------------------------------------------
def where_branches_meet(u: UOp, moving: frozenset[UOp]) -> int:
    """How many derivatives of the two branches of a choice are shown to agree where its conditions change."""
    borders = [c for c in conditions(u.src[0]) if c.leaves & moving]
    difference, out = u.src[1] - u.src[2], MOST_DERIVATIVES
    for c in borders:
        if c.op not in COMPARE or c.src[0].shape and not in_place(difference, moving):
            return JUMP
        out = min(out, meets(difference, c, moving))
    return out


def conditions(u: UOp) -> list[UOp]:
    """The comparisons that a condition is made of; one number for all, or one for each."""
    spread = u.op in (Ops.EXPAND, Ops.RESHAPE) and u.src[0].size == 1
    if u.op in (Ops.AND, Ops.OR, Ops.NOT, Ops.XOR) or spread:
        return [c for s in u.src for c in conditions(s)]
    return [u]


def in_place(u: UOp, moving: frozenset[UOp]) -> bool:
    """Is each number of it made of numbers of the same place?  Then what holds at a border holds for it alone."""
    return all(x.op in ELEMENTWISE or x.op is Ops.VAR for x in toposort([u]) if x.leaves & moving)


def meets(difference: UOp, border: UOp, moving: frozenset[UOp]) -> int:
    """How often a difference can be differentiated until it is not shown to be zero where a comparison changes."""
    a, b = border.src
    table = {a: b} if a.leaves & moving else {b: a}
    found, parts = JUMP, [difference]
    try:
        while found < MOST_DERIVATIVES:
            if any(is_undefined(x) for x in substitute(parts, table)):
                return found
            if not all(is_zero(x, table) for x in parts):
                return found
            found += 1
            variables = sorted((v for v in difference.leaves & moving), key=lambda v: str(v.arg))
            if any(x.shape for x in (*parts, *variables)) or found == MOST_DERIVATIVES:
                return found
            parts = [g for x in parts for g in gradient(x, variables)]
    except (TooLarge, TraceError):
        pass
    return found


def is_undefined(u: UOp) -> bool:
    """Does it divide by what is zero, or take the logarithm of it?"""
    below = {Ops.DIV: 1, Ops.RSQRT: 0, Ops.LOG: 0, Ops.POW: 0}
    kinds = [x for x in toposort([u]) if x.op in below and not (0 < (exponent(x) or 0))]
    return any(not Normal().form(x.src[below[x.op]]) for x in kinds)


def is_zero(u: UOp, table: dict[UOp, UOp]) -> bool:
    """Of an expression with other variables; a sum over itself is 1."""
    (there,) = substitute([u], table)
    ones = {
        x: UOp.const(1.0, x.dtype, x.shape)
        for x in toposort([there])
        if x.op is Ops.DIV and Normal().same(*x.src)
    }
    return not Normal().form(substitute([there], ones)[0])


def ends_at_zero(u: UOp, kind: int) -> bool:
    """Is what a sum over neighbours adds shown to be zero at the cutoff?  Its tag says so, and anybody can write a tag."""
    mask = u.src[0]
    if mask.op is not Ops.WHERE or mask.src[2].op is not Ops.CONST or mask.src[2].arg != 0.0:
        return False
    near, value = first(mask.src[0]), mask.src[1]
    if near.op is not Ops.LT:
        return False
    distance, whole = near.src[0], square_of(near.src[1])
    if kind != SWITCHED:
        return is_zero(value, {distance: whole})
    if value.op is not Ops.MUL or not is_switch(value.src[1]) or value.src[1].src[0].src[0] is not distance:
        return False
    begins, _, fading = value.src[1].src
    return is_zero(fading, {distance: whole}) and is_zero(fading - 1.0, {distance: begins.src[1]})
