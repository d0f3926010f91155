"""Are two expressions the same function?  Shown by a canonical polynomial form over rational numbers.

One-sided: equal forms prove equality wherever both sides are defined; unequal forms prove nothing.
Constants are the exact rationals that their bits are, compared to within a few roundings: taken for simple
fractions, 1e20*(1.0000000000000002*x - x) would be nothing. Exponents are taken for simple fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from typing import Any

from tinyphysics.ir.ops import CHOSEN, Ops
from tinyphysics.ir.rewrite import graph_rewrite
from tinyphysics.ir.uop import Shape, UOp, component, toposort
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.equality.probe import seen_to_be_no_multiples, seen_to_be_something, seen_to_differ
from tinyphysics.rules.identities.exact import exact
from tinyphysics.rules.identities.quotients import factors

Exponent = int | Fraction  # equal ones are one key of a dictionary; that of a whole number is found faster
Monomial = tuple[tuple[int, Exponent], ...]  # (atom, exponent), by atom
Poly = dict[Monomial, Fraction]
Key = tuple[tuple[Monomial, Fraction], ...]

ONE = Fraction(1)
WHOLE = frozenset({int})
MOST_TERMS = 4_000  # an expanded product larger than this stays closed: no proof, and no explosion
MOST_WORK = 100_000  # products of two terms for all that is asked of one numbering: about a second, then no more proofs
SMALL = 4  # such a product is never too much: what is asked after a long proof is not refused for it
MOST_BITS = 8_000  # of a common denominator: beyond it coefficients are kept apart
LARGEST_POWER = 12
LARGEST_EXPONENT = 1_000  # of a coefficient: 0.1**1000 has 56,000 bits
MOST_COMPONENTS = 64
MOST_NUMBERS = 200_000  # of all that arrays are made of which are compared number by number: about a second
FEW = 4  # terms of a sum that is written out: it may be compared with one that was
MOST_DENOMINATORS = 6  # sums that are multiplied out to compare two fractions
TOL = Fraction(1, 2**48)  # a derivative's constants are rounded a few times: 16 ulp
ODD = (Ops.SIN, Ops.TAN, Ops.ASIN, Ops.ATAN, Ops.SINH, Ops.TANH, Ops.ERF, Ops.CBRT, Ops.SIGN)
EVEN = (Ops.COS, Ops.COSH, Ops.ABS)
AT_ZERO = dict.fromkeys(ODD, 0) | {Ops.COS: 1, Ops.COSH: 1, Ops.EXP: 1, Ops.ABS: 0}
SPREADS = (Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.SLICE, Ops.FLIP, Ops.ROLL, Ops.ELEMENT, Ops.GATHER)


class TooLarge(Exception):
    """The expanded form would be too long to be worth it."""


def monomial(exponents: dict[int, Exponent]) -> Monomial:
    if WHOLE.issuperset(map(type, exponents.values())) and 0 not in exponents.values():
        return tuple(sorted(exponents.items()))
    return tuple(sorted((a, e if e.denominator > 1 else int(e)) for a, e in exponents.items() if e))


def key(p: Poly) -> Key:
    return tuple(sorted(p.items()))


def add(p: Poly, q: Poly, factor: Fraction = ONE) -> Poly:
    out = dict(p)
    if factor != 1:
        q = {m: -c for m, c in q.items()} if factor == -1 else {m: factor * c for m, c in q.items()}
    for m, c in q.items():
        if m not in out:
            if c:
                out[m] = c
        elif total := out[m] + c:
            out[m] = total
        else:
            del out[m]
    return out


def difference(p: Poly, q: Poly) -> Poly:
    """p - q, where coefficients that agree to the rounding of a constant agree."""
    out = add(p, q, Fraction(-1))
    zero = Fraction(0)
    return {m: c for m, c in out.items() if abs(c) > TOL * (abs(p.get(m, zero)) + abs(q.get(m, zero)))}


def snapped(r: Fraction) -> Fraction:
    """The simple fraction that r is, to within a few roundings: 3*(1/3) in floats is 1."""
    simple = r.limit_denominator(4096)
    return simple if abs(simple - r) <= TOL * abs(r) else r


def quotient(p: Poly, q: Poly) -> Fraction | None:
    """The number r with p = r*q, term by term."""
    m = next((m for m in q if m in p), None)
    if m is None:
        return None
    r = p[m] / q[m]
    return None if difference(p, add({}, q, r)) else r


MOST_TRANSFORMED = 8  # numbers of a transform that is looked at number by number


def chooses(u: UOp) -> bool:
    """Is an item chosen by an index that is not known?  Number by number that is a choice among all: no proof.

    Nor is there one of a sum through a tree, whose numbers are not written out, and of a Fourier transform that is long:
    every number of it is a sum of all.
    """
    return any(
        x.op in (Ops.TREE, Ops.ELLIPTIC, Ops.MESH)
        or x.op is Ops.FOURIER
        and x.shape[x.arg[2]] > MOST_TRANSFORMED
        or x.op in CHOSEN
        and any(s.leaves for s in x.src[1:])
        for x in toposort([u])
    )


def denominator(p: Poly) -> int:
    """A common one, of all coefficients."""
    return math.lcm(*{c.denominator for c in p.values()})


def whole(p: Poly) -> dict[Monomial, int]:
    """The coefficients over their common denominator."""
    below = denominator(p)
    return {m: c.numerator * (below // c.denominator) for m, c in p.items()}


class Normal:
    """Normal forms that share one numbering of atoms, so that they can be compared."""

    most_work = MOST_WORK

    def __init__(self) -> None:
        self.atoms: dict[Any, int] = {}
        self.sums: dict[int, Poly] = {}  # atoms that stand for a whole sum, raised to some power
        self.filled: dict[int, int] = {}  # arrays that hold one number throughout, and which
        self.choices: set[int] = set()  # atoms that are 1 where a condition holds, and 0 elsewhere
        self.memo: dict[UOp, Poly] = {}
        self.zeros: dict[UOp, bool] = {}  # what was asked: a step of many stages asks the same of each
        self.alike: dict[tuple[UOp, UOp], bool] = {}
        self.ratios: dict[tuple[UOp, UOp], Fraction | None] = {}
        self.work = 0  # products of two terms so far

    # --- polynomials --------------------------------------------------------------------------
    def atom(self, name: Any) -> int:
        return self.atoms.setdefault(name, len(self.atoms))

    def single(self, name: Any) -> Poly:
        return {((self.atom(name), 1),): Fraction(1)}

    def multiply(self, p: Poly, q: Poly) -> Poly:
        self.work += len(p) * len(q)
        if (size := len(p) * len(q)) > MOST_TERMS or self.work > self.most_work and size > SMALL:
            raise TooLarge
        if len(p) == 1 or len(q) == 1 or (below := denominator(p) * denominator(q)) >> MOST_BITS:
            return self.term_by_term_product(p, q)
        # over one denominator, the products of two long sums are those of whole numbers, and are not reduced one by one
        left, right = whole(p), whole(q)
        total: dict[Monomial, int] = {}
        others: Poly = {}
        for m, c in left.items():
            for n, d in right.items():
                k = self.plain_product(m, n)
                if k is not None:
                    total[k] = total.get(k, 0) + c * d
                else:
                    for k, e in self.product(m, n).items():
                        others[k] = others.get(k, Fraction(0)) + c * d * e
        out = {m: Fraction(c, below) for m, c in total.items() if c}
        return add(out, others, Fraction(1, below)) if others else out

    def term_by_term_product(self, p: Poly, q: Poly) -> Poly:
        out: Poly = {}
        for m, c in p.items():
            one = c == 1
            for n, d in q.items():
                x = d if one else c * d
                k = self.plain_product(m, n)
                found = self.product(m, n) if k is None else {k: ONE}
                for k, e in found.items():
                    y = x if e == 1 else x * e
                    out[k] = out[k] + y if k in out else y
        return {m: c for m, c in out.items() if c}

    def plain_product(self, m: Monomial, n: Monomial) -> Monomial | None:
        """The product of two monomials; None where a sum is opened or a choice squared: then it may be several."""
        exponents: dict[int, Exponent] = dict(m)
        for a, e in n:
            if a in exponents:
                exponents[a] += e
            else:
                exponents[a] = e
        sums, choices, plain = self.sums, self.choices, True
        for a, e in exponents.items():
            if a in sums and 1 <= e <= LARGEST_POWER or a in choices and e > 1:
                return None
            if e.__class__ is not int or not e:
                plain = False
        return tuple(sorted(exponents.items())) if plain else monomial(exponents)

    def product(self, m: Monomial, n: Monomial) -> Poly:
        exponents = dict(m)
        for a, e in n:
            exponents[a] = exponents.get(a, 0) + e
        # the whole part of a positive power of a sum is opened, and 0 or 1 squared is itself
        whole = {a: int(e) for a, e in exponents.items() if a in self.sums and 1 <= e <= LARGEST_POWER}
        for a, times in whole.items():
            exponents[a] -= times
        for a in self.choices & exponents.keys():
            exponents[a] = min(exponents[a], 1)
        out: Poly = {monomial(exponents): Fraction(1)}
        for a, times in whole.items():
            for _ in range(times):
                out = self.multiply(out, self.sums[a])
        return out

    def power(self, p: Poly, e: Fraction) -> Poly:
        if e.denominator == 1 and 0 <= e <= LARGEST_POWER:
            out: Poly = {(): Fraction(1)}
            for _ in range(int(e)):
                out = self.multiply(out, p)
            return out
        if len(p) == 1:
            ((m, c),) = p.items()
            plain = c == 1 and len(m) == 1 and m[0][1] == 1
            if plain:
                return {monomial({m[0][0]: e}): c}
            # (x**2)**(1/2) is |x|, not x: roots of products stay closed
            if e.denominator == 1 and abs(e) <= LARGEST_EXPONENT:
                return {monomial({a: k * e for a, k in m}): c ** int(e)}
        if not p:
            raise TooLarge  # a power of zero: leave it to the caller's opaque form
        whole = self.power_of_a_sum(p)
        if whole is not None and e.denominator == 1 and abs(e) <= LARGEST_EXPONENT:
            factor, a, k = whole
            return {monomial({a: k * e}): factor ** int(e)}
        base = self.atom(("sum", key(p)))
        self.sums[base] = p
        return {monomial({base: e}): Fraction(1)}

    def power_of_a_sum(self, p: Poly) -> tuple[Fraction, int, Exponent] | None:
        """(r, a, k) if p, opened, is r*a**k for a sum a and a k between 1 and 2: s*sqrt(s) is s**1.5."""
        first = dict(next(iter(p)))
        for a in [a for a, k in first.items() if a in self.sums and 0 < k < 1]:
            if all(dict(m).get(a) == first[a] for m in p):
                rest = {tuple(x for x in m if x[0] != a): c for m, c in p.items()}
                if (r := quotient(rest, self.sums[a])) is not None:
                    return r, a, first[a] + 1
        return None

    # --- graphs -------------------------------------------------------------------------------
    def form(self, root: UOp) -> Poly:
        if root in self.memo:
            return self.memo[root]
        for u in toposort([root]):
            if u not in self.memo:
                try:
                    self.memo[u] = self._form(u, [self.memo[s] for s in u.src])
                except (TooLarge, ZeroDivisionError):
                    self.memo[u] = self.opaque(u)
        return self.memo[root]

    def opaque(self, u: UOp) -> Poly:
        return self.single((u.op, u.arg, u.dtype, u.shape, tuple(key(self.memo[s]) for s in u.src)))

    def _form(self, u: UOp, src: list[Poly]) -> Poly:
        match u.op:
            case Ops.CONST if u.dtype.is_float and math.isfinite(u.arg):
                return {(): Fraction(u.arg)} if u.arg else {}
            case Ops.ADD:
                return add(src[0], src[1])
            case Ops.SUB:
                return add(src[0], src[1], Fraction(-1))
            case Ops.NEG:
                return add({}, src[0], Fraction(-1))
            case Ops.MUL if u.dtype.is_float:
                return self.multiply(src[0], src[1])
            case Ops.FMA:
                return add(self.multiply(src[0], src[1]), src[2])
            case Ops.DIV:
                out = src[0]  # by factor, so that (1/x)**2 is 1/x**2 whatever x is made of
                for x, k in factors(u.src[1]).items():
                    out = self.multiply(out, self.power(self.memo[x], Fraction(-k)))
                return out
            case Ops.SQRT:
                return self.power(src[0], Fraction(1, 2))
            case Ops.RSQRT:
                return self.power(src[0], Fraction(-1, 2))
            case Ops.POW if src[1].keys() <= {()}:  # the exponent is a number
                return self.power(src[0], snapped(src[1].get((), Fraction(0))))
            case Ops.SCATTER:
                return self.sum_over((Ops.SCATTER, self.indices(u)), u, src[0])
            case op if op in SPREADS:
                return self.spread(u, src[0])
            case Ops.WHERE if u.dtype.is_float:  # c*a + (1 - c)*b
                c = self.single((Ops.WHERE, u.shape, key(src[0])))
                self.choices.add(next(iter(c))[0][0])
                return add(src[2], self.multiply(c, add(src[1], src[2], Fraction(-1))))
            case Ops.TRIU:  # 1 where it keeps, 0 elsewhere
                return self.triangle(u.arg, u.shape, src[0])
            case Ops.PAD:
                return self.term_by_term(src[0], lambda m: ("pad", u.arg, u.shape, m))
            case Ops.ELLIPTIC:  # of each term of f
                rest = tuple(key(p) for p in src[1:])
                return self.term_by_term(src[0], lambda m: (Ops.ELLIPTIC, u.arg, u.shape, rest, m))
            case Ops.REDUCE if u.arg[0] == "pairs":
                kept = self.triangle(u.arg[2], u.src[0].shape, src[0])
                return self.sum_over(("sum", u.arg[1]), u, kept)
            case Ops.REDUCE if (
                u.arg[0] == "sum" and len(u.arg[1]) == 1 and u.src[0].shape[u.arg[1][0]] <= FEW
            ):
                (axis,), x = u.arg[1], u.src[0]
                return reduce(add, (self.form(component(x, axis, k)) for k in range(x.shape[axis])), {})
            case Ops.REDUCE if u.arg[0] == "sum":
                return self.sum_over(u.arg, u, src[0])
            case op if op in AT_ZERO and not src[0]:  # cos(x - x) is 1
                return {(): ONE} if AT_ZERO[op] else {}
            case op if op in ODD or op in EVEN:
                p = src[0]
                if p and key(p)[0][1] < 0:
                    flipped = self.single((op, None, u.shape, (key(add({}, p, Fraction(-1))),)))
                    return flipped if op in EVEN else add({}, flipped, Fraction(-1))
                return self.single((op, None, u.shape, (key(p),)))
        return self.opaque(u)

    def triangle(self, axes: tuple[int, int], shape: Shape, p: Poly) -> Poly:
        kept = self.single((Ops.TRIU, axes, shape))
        self.choices.add(next(iter(kept))[0][0])
        return self.multiply(kept, p)

    def spread(self, u: UOp, p: Poly) -> Poly:
        """A rearrangement of a polynomial is the polynomial of the rearranged atoms."""
        out: Poly = {}
        for m, c in p.items():
            moved = {self.moved(a, u): e for a, e in m}
            out = add(out, {monomial(moved): c})
        return out

    def indices(self, u: UOp) -> tuple[Key, ...]:
        """By what a GATHER or SCATTER chooses."""
        return tuple(key(self.memo[s]) for s in u.src[1:])

    def moved(self, a: int, u: UOp) -> int:
        one = a if u.src[0].shape == () else self.filled.get(a)
        if one is None:
            return self.atom(("move", u.op, u.arg, u.shape, u.src[0].shape, a, self.indices(u)))
        return self.everywhere(one, u.shape)  # wherever its elements go, they are one number

    def everywhere(self, one: int, shape: Shape) -> int:
        """The array of a shape that holds one number throughout."""
        if shape == ():
            return one
        a = self.atom(("everywhere", shape, one))
        self.filled[a] = one
        return a

    def sum_over(self, how: Any, u: UOp, p: Poly) -> Poly:
        """Term by term; a factor that is one number for all terms of the sum stands before it."""
        out: Poly = {}
        for m, c in p.items():
            before = {self.everywhere(self.filled[a], u.shape): e for a, e in m if a in self.filled}
            inside = tuple((a, e) for a, e in m if a not in self.filled)
            total = self.single(("sum over", how, u.src[0].shape, inside))
            out = add(out, self.multiply({monomial(before): c}, total))
        return out

    def term_by_term(self, p: Poly, name: Callable[[Monomial], Any]) -> Poly:
        out: Poly = {}
        for m, c in p.items():
            out = add(out, self.single(name(m)), c)
        return out

    # --- questions ----------------------------------------------------------------------------
    def cleared(self, *polys: Poly) -> list[Poly]:
        """All of them times one common denominator."""
        below = {a for p in polys for m in p for a, e in m if a in self.sums and e < 0}
        if len(below) > MOST_DENOMINATORS:
            raise TooLarge
        out = list(polys)
        for a in sorted(self.sums, reverse=True):  # a sum may hold sums that were named before it
            low = min((e for p in out for m in p for b, e in m if b == a), default=Fraction(0))
            if low < 0:
                if self.work + sum(self.opening(p, a, -low) for p in out) > self.most_work:
                    raise TooLarge  # said now, since it would be said in the end
                out = [self.multiply(p, {monomial({a: -low}): Fraction(1)}) for p in out]
        return out

    def opening(self, p: Poly, a: int, e: Exponent) -> int:
        """Products of two terms, at least, that p times the sum a to the power e takes."""
        opened = sum(1 <= dict(m).get(a, 0) + e <= LARGEST_POWER for m in p)
        return len(p) + opened * len(self.sums[a])

    def same(self, u: UOp, v: UOp) -> bool:
        if (u, v) not in self.alike:
            self.alike[u, v] = self._same(u, v)
        return self.alike[u, v]

    def _same(self, u: UOp, v: UOp) -> bool:
        if u is v or seen_to_differ(u, v):
            return u is v
        p, q = self.form(u), self.form(v)
        try:
            return not difference(p, q) or not difference(*self.cleared(p, q))
        except TooLarge:
            return False

    def is_zero(self, u: UOp) -> bool:
        """Shown to be nothing?"""
        if u not in self.zeros:
            self.zeros[u] = not seen_to_be_something(u) and not self.form(u)
        return self.zeros[u]

    def ratio(self, u: UOp, v: UOp) -> Fraction | None:
        """The number r with u = r*v as functions, if there is one and v is not zero.

        Arrays that say the same in different words (sums of padded parts, stacked components) are
        compared number by number.
        """
        if (u, v) not in self.ratios:
            self.ratios[u, v] = self.ratio_of(u, v)
        return self.ratios[u, v]

    def ratio_of(self, u: UOp, v: UOp) -> Fraction | None:
        if u is v and seen_to_be_something(v):
            return Fraction(1)
        if seen_to_be_no_multiples(u, v) or self.is_zero(v):
            return None
        found = self._ratio(u, v)
        if found is not None or not 1 < u.size <= MOST_COMPONENTS or any(map(chooses, (u, v))):
            return found
        if sum(x.size for x in toposort([u, v])) > MOST_NUMBERS:
            return None
        ratios = set()
        # indices are numbers here
        for x, y in zip(*(graph_rewrite(numbers, exact) for numbers in unroll([u, v]))):
            if not self.form(y):
                if self.form(x):
                    return None
                continue
            r = self._ratio(x, y)
            ratios.add(r if r is None else snapped(r))  # 1, and 3*(1/3) in floats, are one number
        return ratios.pop() if len(ratios) == 1 else None

    def _ratio(self, u: UOp, v: UOp) -> Fraction | None:
        p, q = self.form(u), self.form(v)
        if not p:
            return Fraction(0)
        if (r := quotient(p, q)) is None:  # fractions in other words: over one denominator they may agree
            try:
                r = quotient(*self.cleared(p, q))
            except TooLarge:
                return None
        return r


def same(u: UOp, v: UOp) -> bool:
    """Shown to be the same function?

    >>> q, p = UOp.var("q"), UOp.var("p")
    >>> same((q + p) * (q - p), q * q - p * p), same((q * q).sqrt(), q)
    (True, False)
    """
    return Normal().same(u, v)
