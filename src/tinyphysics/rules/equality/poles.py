"""Where a denominator is zero, is a quotient infinite?  Or is it x/|x|, which jumps there and goes on.

What is infinite stops a run, or is seen in its energy; what jumps is not. So each denominator that may be zero is a pole, of
some order, and it is followed from there to the energy: sums keep the highest, a factor that may be zero in the same place
takes its order off, and a function that is bounded, or has different limits, hides it. A pole whose order is not shown to be
above zero in the end is a complaint. That two poles of one sum cancel is not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from tinyphysics.ir.ops import CHOSEN, JOINED, MOVEMENT, Ops
from tinyphysics.ir.uop import UOp, elements, substitute, toposort
from tinyphysics.rules.calculus.degree import degrees
from tinyphysics.rules.calculus.unroll import stays_whole, unroll
from tinyphysics.rules.equality.normal import Normal, TooLarge
from tinyphysics.rules.equality.ranges import ranges_of
from tinyphysics.rules.identities.real import simplify

Order = Fraction | None  # at least so fast it grows; None if that is only known to be above zero
Poles = dict[UOp, Order]  # by what is zero there

ONE, HALF = Fraction(1), Fraction(1, 2)
LOST = Fraction(-1_000_000)  # nothing is known of its order
MOST_NUMBERS = 24  # of all that moves, up to which arrays are taken apart
ROOTS = {Ops.SQRT: HALF, Ops.CBRT: Fraction(1, 3)}
SAME = MOVEMENT - CHOSEN - JOINED - {Ops.PAD, Ops.TRIU} | {Ops.NEG, Ops.ABS, Ops.CAST}
SUMS = (Ops.ADD, Ops.SUB, Ops.HYPOT, Ops.IMAGE)
SLOWER = (Ops.LOG, Ops.LOG1P, Ops.SINH, Ops.COSH)  # infinite where its argument is, whichever sign that has
MOST_COMPONENTS = 16  # of a variable that is tried at one and zero
MOST_WRITTEN = 10_000  # numbers of expressions that are looked at one by one


class Hidden(Exception):
    """A pole that is not shown to be infinite."""


def hidden_pole(roots: Sequence[UOp], moving: frozenset[UOp]) -> UOp | None:
    """An expression in some roots that may jump where it is not defined."""
    return searched(roots, moving)[3]


def searched(
    roots: Sequence[UOp], moving: frozenset[UOp]
) -> tuple[list[UOp], dict[UOp, UOp], PoleSearch | None, UOp | None]:
    """(the roots, number by number where they are few; how to undo that; their poles; what may jump at one)."""
    every = toposort(roots)
    written = sum(u.size for u in every)
    if not stays_whole(every) and sum(x.size for x in moving) <= MOST_NUMBERS and written <= MOST_WRITTEN:
        roots = [u for group in unroll(roots) for u in group]
    named, back = apart(cancelled(roots), moving)
    found = PoleSearch(named, moving | frozenset(back))
    first: dict[UOp, UOp] = {}  # where the order of a pole was lost
    for u in toposort(named):
        try:
            found.poles[u] = found.of(u)
        except Hidden:
            return named, back, None, substitute([u], back)[0]
        for z, order in found.poles[u].items():
            if is_lost(order):
                first.setdefault(z, u)
    left = [first[z] for u in named for z, order in found.poles[u].items() if is_lost(order)]
    return named, back, found, substitute(left[:1], back)[0] if left else None


def cancelled(roots: Sequence[UOp]) -> list[UOp]:
    """Products a*(b + c/a) as a*b + c: what is zero there and what is infinite are one expression."""
    table: dict[UOp, UOp] = {}
    for u in toposort(roots):
        for a, b in (u.src, u.src[::-1]) if u.op is Ops.MUL else ():
            parts, terms = factors(a), summands(b)
            below = [t.src[1] for _, t in terms if t.op is Ops.DIV]
            if len(terms) > 1 and any(d is x for d in below for x in parts):
                found = [times(parts, t) * sign for sign, t in terms]
                table[u] = sum(found[1:], found[0])
                break
    return substitute(list(roots), table)


def times(parts: Sequence[UOp], t: UOp) -> UOp:
    """Their product, without what stands above and below."""
    at = next((k for k, x in enumerate(parts) if t.op is Ops.DIV and t.src[1] is x), None)
    left, out = (list(parts), t) if at is None else ([*parts[:at], *parts[at + 1 :]], t.src[0])
    for x in left:
        out = out * x
    return out


def factors(u: UOp) -> list[UOp]:
    return [*factors(u.src[0]), *factors(u.src[1])] if u.op is Ops.MUL else [u]


def summands(u: UOp, sign: float = 1.0) -> list[tuple[float, UOp]]:
    """(sign, term) of a sum."""
    match u.op:
        case Ops.ADD:
            return [*summands(u.src[0], sign), *summands(u.src[1], sign)]
        case Ops.SUB:
            return [*summands(u.src[0], sign), *summands(u.src[1], -sign)]
        case Ops.FMA:
            return [(sign, u.src[0] * u.src[1]), *summands(u.src[2], sign)]
        case Ops.NEG:
            return summands(u.src[0], -sign)
    return [(sign, u)]


def is_lost(order: Order) -> bool:
    return order is not None and order <= 0


def apart(roots: Sequence[UOp], moving: frozenset[UOp]) -> tuple[list[UOp], dict[UOp, UOp]]:
    """The roots with a variable for each number of an array that is only seen number by number, and how to undo that."""
    whole: set[UOp] = set()
    single: dict[UOp, list[UOp]] = {}
    for u in toposort(roots):
        for s in u.src:
            if s.op is Ops.VAR and s in moving:
                if u.op is Ops.ELEMENT:
                    single.setdefault(s, []).append(u)
                else:
                    whole.add(s)
    to = {
        e: UOp.var(f"{x.arg}[{e.arg}]", (), x.dtype)
        for x, own in single.items()
        if x not in whole
        for e in own
    }
    return substitute(list(roots), to), {v: e for e, v in to.items()}


class PoleSearch:
    def __init__(self, roots: Sequence[UOp], moving: frozenset[UOp]) -> None:
        self.moving, self.ranges = moving, ranges_of(roots, {})
        self.degrees = {k: d for r in roots for k, d in degrees(r, moving).items()}
        self.poles: dict[UOp, Poles] = {}

    def of(self, u: UOp) -> Poles:
        """The poles of a node whose sources are known."""
        if not u.leaves & self.moving:
            return {}
        src = [self.poles[s] for s in u.src]
        match u.op:
            case Ops.DIV:
                return self.quotient(*u.src)
            case Ops.MUL:
                return self.product(*u.src)
            case Ops.FMA:
                return merged(self.product(*u.src[:2]), src[2])
            case Ops.RSQRT:
                return scaled(self.zeros(u.src[0]), HALF)
            case Ops.POW if (e := exponent(u)) is not None:
                return scaled(src[0], e) if e > 0 else scaled(self.zeros(u.src[0]), -e) if e else {}
            case Ops.POW if not any(src):  # the exponent may be negative
                return dict.fromkeys(self.zeros(u.src[0]))
            case op if op in ROOTS:
                return scaled(src[0], ROOTS[op])
            case Ops.GATHER | Ops.SCATTER:
                return src[0]
            case Ops.ELLIPTIC if not any(src[1:]):
                return src[0]
            case op if (
                op in SUMS
                or op in SAME
                or op in MOVEMENT
                or op in (Ops.FOURIER, Ops.MESH)
                or op is Ops.REDUCE
                and u.arg[0] in ("sum", "pairs")
            ):
                return merged(*src)
            case op if op in SLOWER:
                ends = self.zeros(u.src[0]) if op is Ops.LOG else {u: None} if op is Ops.LOG1P else {}
                return dict.fromkeys([*src[0], *ends])
            case Ops.TAN if not src[0]:
                return {u: None}
        if any(src):
            raise Hidden
        return {}

    def quotient(self, a: UOp, b: UOp) -> Poles:
        if self.poles[b] and (self.poles[a] or any(map(is_lost, self.poles[b].values()))):
            raise Hidden
        return together(self.poles[a], {z: self.less(order, a, z) for z, order in self.zeros(b).items()})

    def product(self, a: UOp, b: UOp) -> Poles:
        sides = [
            {z: self.less(order, y, z) for z, order in self.poles[x].items()} for x, y in ((a, b), (b, a))
        ]
        return together(*sides)

    def less(self, order: Order, factor: UOp, zero: UOp) -> Order:
        """What is left of a pole where a factor may be zero too."""
        common = zero.leaves & self.moving
        taken = self.most(factor, zero, common)
        if taken and (order is None or taken >= order):
            taken = Fraction(0) if self.lasts(factor, zero, common) else taken
        if taken is None:
            return LOST
        return order - taken if order is not None else None if not taken else LOST

    def most(self, u: UOp, zero: UOp, common: frozenset[UOp]) -> Fraction | None:
        """A bound on the order to which u is zero where another is; None if there is none."""
        if not u.leaves & common or self.is_apart(u) or zero in self.poles[u] or u.op is Ops.EXP:
            return Fraction(0)
        if (degree := degrees(u, common)[u]) is not None:
            return Fraction(degree)
        match u.op:
            case Ops.MUL:
                both = [self.most(s, zero, common) for s in u.src]
                return None if None in both else sum((x for x in both if x is not None), Fraction(0))
            case Ops.DIV if not self.poles[u.src[1]]:
                return self.most(u.src[0], zero, common)
            case op if op in SAME or op is Ops.GATHER:
                return self.most(u.src[0], zero, common)
        e = ROOTS.get(u.op) or exponent(u)
        inner = self.most(u.src[0], zero, common) if e is not None and e > 0 else None
        return (
            Fraction(0) if self.lasts(u, zero, common) else None if inner is None or e is None else inner * e
        )

    def lasts(self, u: UOp, zero: UOp, common: frozenset[UOp]) -> bool:
        """Is u another number than zero there?  At least for some values of what the zero does not depend on."""
        (there,) = simplify(substitute([u], {zero: UOp.const(0.0, zero.dtype, zero.shape)}))
        if not there.leaves & common:
            return is_number(there)
        others = sorted(there.leaves & self.moving - common, key=lambda x: str(x.arg))
        if any(x.size > MOST_COMPONENTS for x in others):
            return False
        for y, k in [(x, k) for x in others for k in range(x.size)]:
            (at,) = simplify(substitute([there], {x: filled(x, k if x is y else None) for x in others}))
            if not at.leaves & self.moving and is_number(at):
                return True
        return False

    def is_apart(self, u: UOp) -> bool:
        """Is it shown that u is not zero?"""
        low, high = self.ranges[u]
        return low > 0.0 or high < 0.0

    def zeros(self, u: UOp) -> Poles:
        """Where u may be zero, and to which order it then is at least."""
        if not u.leaves & self.moving or self.is_apart(u):
            return {}
        if u.op is Ops.ADD and u.src[0] is u.src[1]:
            return self.zeros(u.src[0])
        if self.is_squares(u):
            return {u: Fraction(2)}
        match u.op:
            case Ops.MUL:
                return together(self.zeros(u.src[0]), self.zeros(u.src[1]))
            case Ops.DIV if not self.poles[u.src[1]]:
                return self.zeros(u.src[0])
            case Ops.POW if (e := exponent(u)) is not None and e > 0:
                return scaled(self.zeros(u.src[0]), e)
            case op if op in ROOTS:
                return scaled(self.zeros(u.src[0]), ROOTS[op])
            case op if op in SAME or op is Ops.GATHER:
                return self.zeros(u.src[0])
            case Ops.HYPOT if all(map(self.is_linear, u.src)):
                return {u: ONE}
        return {u: ONE if self.is_linear(u) else None}

    def is_squares(self, u: UOp) -> bool:
        """A sum of squares of what is linear: zero to order 2 where they all are."""
        match u.op:
            case Ops.ADD:
                return all(map(self.is_squares, u.src))
            case Ops.FMA:
                return u.src[0] is u.src[1] and self.is_linear(u.src[0]) and self.is_squares(u.src[2])
            case Ops.REDUCE:
                return u.arg[0] == "sum" and self.is_squares(u.src[0])
            case Ops.RESHAPE | Ops.EXPAND | Ops.PERMUTE:
                return self.is_squares(u.src[0])
            case Ops.MUL:
                return u.src[0] is u.src[1] and self.is_linear(u.src[0])
            case Ops.POW:
                return u.src[1].op is Ops.CONST and u.src[1].arg == 2 and self.is_linear(u.src[0])
        return False

    def is_linear(self, u: UOp) -> bool:
        return self.degrees[u] == 1


def exponent(u: UOp) -> Fraction | None:
    """Of a power, if it is a number."""
    known = u.op is Ops.POW and u.src[1].op is Ops.CONST and math.isfinite(u.src[1].arg)
    return Fraction(u.src[1].arg) if known else None


def is_number(u: UOp) -> bool:
    """Is it shown to be finite, and not zero whatever its parameters are?"""
    bad = [x for x in toposort([u]) if x.op is Ops.CONST and x.dtype.is_float and not math.isfinite(x.arg)]
    able = [x for x in toposort([u]) if x.op in (Ops.DIV, Ops.POW, Ops.RSQRT, Ops.LOG)]
    zero = [x for x in able if any(s.op is Ops.CONST and s.arg == 0 for s in x.src)]
    try:
        return not bad and not zero and bool(Normal().form(u))
    except TooLarge:
        return False


def filled(x: UOp, at: int | None) -> UOp:
    """An array of zeros with a one, if there is any."""
    numbers = [UOp.const(1.0 if k == at else 0.0, x.dtype) for k in range(len(elements(x)))]
    return UOp.stack(numbers, x.shape) if x.shape else numbers[0]


def scaled(poles: Poles, by: Fraction) -> Poles:
    return {z: None if order is None else order * by for z, order in poles.items()}


def merged(*several: Poles) -> Poles:
    """Of a sum: the fastest of each place."""
    out: Poles = {}
    for poles in several:
        for z, order in poles.items():
            known = out.get(z)
            out[z] = order if known is None else known if order is None else max(known, order)
    return out


def together(a: Poles, b: Poles) -> Poles:
    """Of a product."""
    out = dict(a)
    for z, order in b.items():
        known = out.get(z, Fraction(0))
        if known is not None and order is not None:
            out[z] = known + order
        else:
            out[z] = LOST if is_lost(known or order) else None
    return out
