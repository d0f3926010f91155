"""What are the Taylor coefficients of an expression along a solution?  One recurrence for each operation.

If a = a0 + a1 s + a2 s**2 + ..., then (ab)_k is a sum of products, (a/b)_k and roots solve such a sum for their last
term, and any other function u of a has u' = g a' with g the row of rules/calculus/partials.py: k u_k is a sum of products
of g and j a_j. Expressions are scalars, and shared ones are computed once, because equal nodes are one object.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from tinyphysics.ir.ops import CHOSEN, Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.rules.calculus.partials import partials

# what has corners or jumps, where a series of one side is not that of the other
ROUGH = frozenset({Ops.ABS, Ops.SIGN, Ops.FLOOR, Ops.RINT, Ops.MIN, Ops.MAX, Ops.IMAGE})
REFUSED = (
    ROUGH
    | CHOSEN
    | {Ops.RANDOM, Ops.NEIGHBOURS, Ops.TREE, Ops.KEPLER_SLOW, Ops.WHERE_RARELY, Ops.ANGLE, Ops.ANGLE_LOW}
)
LATENCY = dict.fromkeys((Ops.ADD, Ops.SUB, Ops.MUL, Ops.FMA), 4)
LATENCY |= {Ops.NEG: 1, Ops.WHERE: 2, Ops.DIV: 14, Ops.SQRT: 20}
OF_A_FUNCTION = 80  # cycles, of sin, exp and the like
CHAINS = (4, 12)  # products beyond which a sum is done in two, and in three parts
Coefficient = UOp | None  # None is zero, and costs nothing
Product = tuple[UOp, UOp]
WEIGHT = "@weight "  # the name of what stands for a constant of a recurrence, followed by its value


class NotSmooth(Exception):
    """An operation that has no Taylor series everywhere."""

    def __init__(self, u: UOp) -> None:
        super().__init__(f"`{u.op.value}` has no Taylor series where it jumps or turns")
        self.node = u


def rough(roots: Sequence[UOp], moving: frozenset[UOp]) -> UOp | None:
    """The first node that has no series: a corner, or a choice by something that moves."""
    for u in toposort(roots):
        chooses = u.op is Ops.WHERE and bool(u.src[0].leaves & moving)
        if chooses or u.op in REFUSED and bool(u.leaves & moving):
            return u
    return None


class Series:
    """Coefficients of scalar expressions in time, computed in ascending order from those of the variables that move."""

    def __init__(
        self, moving: Mapping[UOp, list[Coefficient]], rates: Mapping[UOp, UOp], opened: bool = True
    ) -> None:
        self.rates, self.opened = rates, opened
        self.known: dict[tuple[UOp, int], Coefficient] = {}
        self.variables = moving  # a list that grows: the solution is only known to the order that was reached
        self.leaves = frozenset(v.src[0] if v.op is Ops.ELEMENT else v for v in moving)
        self.depth: dict[UOp, int] = {}
        self.weights: dict[float, Fraction] = {}  # what the constants of recurrences stand for

    def __call__(self, u: UOp, k: int) -> Coefficient:
        """The k-th coefficient of u."""
        if u in self.variables:
            row = self.variables[u]
            return row[k] if k < len(row) else None
        if not u.leaves & self.leaves:
            return u if k == 0 else None
        if (u, k) not in self.known:
            for x in toposort([u]):  # sources first, so that no recursion is deep
                if (x, k) not in self.known and x not in self.variables and x.leaves & self.leaves:
                    self.known[x, k] = self.one(x, k)
        return self.known[u, k]

    def one(self, u: UOp, k: int) -> Coefficient:
        if u.op in REFUSED or u.op is Ops.WHERE and u.src[0].leaves & self.leaves:
            raise NotSmooth(u)
        if u.op in RULES:
            return RULES[u.op](self, u, k)
        if k == 0:
            return self.value(u)
        parts = [
            self.along(s, g, k)
            for s, g in zip(u.src, partials(u))
            if g is not None and s.leaves & self.leaves
        ]
        return self.times(self.dot([p for part in parts for p in part]), Fraction(1, k))

    def along(self, a: UOp, g: UOp, k: int) -> list[Product]:
        """The products of (g a')_(k-1): j a_j and g_(k-j)."""
        out = []
        for j in range(1, k + 1):
            slope, x = self.slope(a, j), self(g, k - j)
            if slope is not None and x is not None:
                out.append((slope, x))
        return out

    def slope(self, a: UOp, j: int) -> Coefficient:
        """j a_j: of a state, the coefficient of its rate."""
        return self(self.rates[a], j - 1) if a in self.rates else self.times(self(a, j), Fraction(j))

    def value(self, u: UOp) -> UOp:
        """The operation itself, on the first coefficients."""
        zero = UOp.const(0.0, u.dtype)
        return UOp(u.op, u.dtype, (), tuple(zero if (x := self(s, 0)) is None else x for s in u.src), u.arg)

    # --- arithmetic on coefficients -----------------------------------------------------------------------
    def constant(self, x: Fraction, like: UOp) -> UOp:
        if not self.opened:
            return UOp.var(f"{WEIGHT}{x}", (), like.dtype)
        value = x.numerator / x.denominator
        self.weights[value] = x
        return UOp.const(value, like.dtype)

    def times(self, a: Coefficient, x: Fraction) -> Coefficient:
        if a is None or x == 0:
            return None
        if x in (1, -1):
            return a if x == 1 else -a
        return a * self.constant(x, a)

    def products(self, a: UOp, b: UOp, k: int, first: int = 0, last: int | None = None) -> list[Product]:
        """a_j and b_(k-j) for j from first to last."""
        out = []
        for j in range(first, (k if last is None else last) + 1):
            x, y = self(a, j), self(b, k - j)
            if x is not None and y is not None:
                out.append((x, y))
        return out

    def square(self, a: UOp, k: int, first: int = 0) -> list[Product]:
        """The products of (aa)_k with j and k-j from `first` on: each pair once, doubled."""
        out = []
        for j in range(first, k // 2 + 1):
            x, y = self(a, j), self(a, k - j)
            if k - j >= first and x is not None and y is not None:
                out.append((x, y) if 2 * j == k else (x + x, y))
        return out

    def dot(self, products: Sequence[Product], start: Coefficient = None) -> Coefficient:
        """A sum of products by fused multiply-adds: what is known last is added last, the rest in parts side by side."""
        if not products:
            return start
        if not self.opened:
            return summed(products, start)
        *early, (x, y) = sorted(products, key=lambda p: max(self.when(p[0]), self.when(p[1])))
        late_start = start is not None and self.when(start) > max(self.when(x), self.when(y))
        begin = None if late_start else start
        count = 1 + sum(len(early) > n for n in CHAINS)
        chains: list[Coefficient] = [begin, *[None] * (count - 1)]
        for n, (a, b) in enumerate(early):
            c = chains[n % count]
            chains[n % count] = a * b if c is None else a.fma(b, c)
        total: Coefficient = None
        for c in chains:
            total = plus(total, c)
        total = x * y if total is None else x.fma(y, total)
        return plus(total, start) if late_start else total

    def when(self, u: UOp) -> int:
        """Cycles after which a number is known, if nothing else keeps a machine busy."""
        waiting = [u]
        while waiting:
            x = waiting[-1]
            below = [] if x in self.depth else [s for s in x.src if s not in self.depth]
            if below:
                waiting += below
                continue
            waiting.pop()
            own = LATENCY.get(x.op, OF_A_FUNCTION) if x.src and x.op is not Ops.ELEMENT else 0
            self.depth[x] = own + max((self.depth[s] for s in x.src), default=0)
        return self.depth[u]


def summed(products: Sequence[Product], start: Coefficient) -> UOp:
    """A sum of products as one node."""
    return UOp.stack([x for pair in products for x in pair] + ([] if start is None else [start])).sum()


def products_of(u: UOp) -> tuple[list[Product], Coefficient] | None:
    """The products and what they are added to, of a node that stands for such a sum."""
    if u.op is not Ops.REDUCE or u.src[0].op is not Ops.STACK:
        return None
    given = u.src[0].src
    return list(zip(given[0::2], given[1::2])), given[-1] if len(given) % 2 else None


def weight_of(u: UOp) -> Fraction | None:
    """The constant that a variable stands for."""
    return Fraction(u.arg.removeprefix(WEIGHT)) if u.op is Ops.VAR and str(u.arg).startswith(WEIGHT) else None


def plus(a: Coefficient, b: Coefficient) -> Coefficient:
    return b if a is None else a if b is None else a + b


def minus(a: Coefficient, b: Coefficient) -> Coefficient:
    return a if b is None else -b if a is None else a - b


# --- a row for each operation -------------------------------------------------------------------------------
def product(s: Series, u: UOp, k: int) -> Coefficient:
    """a*b, or a*b + c."""
    a, b, *c = u.src
    return s.dot(s.square(a, k) if a is b else s.products(a, b, k), *(s(x, k) for x in c))


def quotient(s: Series, u: UOp, k: int) -> Coefficient:
    """b u = a, solved for u_k."""
    a, b = u.src
    if k == 0:
        return s.value(u)
    if not b.leaves & s.leaves:
        x = s(a, k)
        return None if x is None else x / b
    rest = minus(s(a, k), s.dot(s.products(b, u, k, 1)))
    return None if rest is None else rest * inverse(s, b)


def inverse(s: Series, b: UOp) -> UOp:
    first = s(b, 0)
    assert first is not None
    return UOp.const(1.0, first.dtype) / first


def root(s: Series, u: UOp, k: int) -> Coefficient:
    """u u = a, solved for u_k."""
    if k == 0:
        return s.value(u)
    rest = minus(s(u.src[0], k), s.dot(s.square(u, k, 1)))
    first = s(u, 0)
    assert first is not None
    return None if rest is None else rest * (UOp.const(0.5, first.dtype) / first)


def power_of(s: Series, u: UOp, a: UOp, exponent: Fraction, k: int) -> Coefficient:
    """a u' = n a' u, solved for u_k: k a0 u_k is the sum of ((n + 1) j - k) a_j u_(k-j)."""
    if k == 0:
        return s.value(u)
    products = []
    for j in range(1, k + 1):
        x, y = s.times(s(a, j), (exponent + 1) * j / k - 1), s(u, k - j)
        if x is not None and y is not None:
            products.append((x, y))
    total = s.dot(products)
    return None if total is None else total * inverse(s, a)


def power(s: Series, u: UOp, k: int) -> Coefficient:
    a, n = u.src
    if n.op is not Ops.CONST:
        whole = (n * a.log()).exp()
        return s.value(u) if k == 0 else s(whole, k)
    if n.arg == 0:
        return s.value(u) if k == 0 else None
    if float(n.arg).is_integer() and 0 < n.arg <= 64:  # a power that is there also where a is zero
        half = a ** (n.arg // 2) if n.arg > 3 else a
        whole = a if n.arg == 1 else half * half if n.arg % 2 == 0 else half * half * a
        return s.value(u) if k == 0 else s(whole, k)
    inner, exponent = (a.src[0], Fraction(n.arg) / 2) if a.op is Ops.SQRT else (a, Fraction(n.arg))
    return power_of(s, u, inner, exponent, k)


def logarithm(s: Series, u: UOp, k: int) -> Coefficient:
    """a u' = a', solved for u_k."""
    if k == 0:
        return s.value(u)
    a = u.src[0]
    known = []
    for j in range(1, k):
        x, y = s.times(s(u, j), Fraction(j, k)), s(a, k - j)
        if x is not None and y is not None:
            known.append((x, y))
    rest = minus(s(a, k), s.dot(known))
    return None if rest is None else rest * inverse(s, a)


def cosine(s: Series, u: UOp, k: int) -> Coefficient:
    if k == 0:
        return s.value(u)
    return s.times(s.dot(s.along(u.src[0], u.src[0].sin(), k)), Fraction(-1, k))


def chosen(s: Series, u: UOp, k: int) -> Coefficient:
    condition, a, b = u.src
    x, y = s(a, k), s(b, k)
    if x is None and y is None:
        return None
    zero = UOp.const(0.0, u.dtype)
    return condition.where(zero if x is None else x, zero if y is None else y)


# fmt: off
RULES: dict[Ops, Callable[[Series, UOp, int], Coefficient]] = {
    Ops.NEG:    lambda s, u, k: minus(None, s(u.src[0], k)),
    Ops.ADD:    lambda s, u, k: plus(s(u.src[0], k), s(u.src[1], k)),
    Ops.SUB:    lambda s, u, k: minus(s(u.src[0], k), s(u.src[1], k)),
    Ops.MUL:    product,
    Ops.FMA:    product,
    Ops.DIV:    quotient,
    Ops.SQRT:   root,
    Ops.RSQRT:  lambda s, u, k: power_of(s, u, u.src[0], Fraction(-1, 2), k),
    Ops.CBRT:   lambda s, u, k: power_of(s, u, u.src[0], Fraction(1, 3), k),
    Ops.POW:    power,
    Ops.LOG:    logarithm,
    Ops.COS:    cosine,
    Ops.HYPOT:  lambda s, u, k: s.value(u) if k == 0 else s((u.src[0] * u.src[0] + u.src[1] * u.src[1]).sqrt(), k),
    Ops.WHERE:  chosen,
}
# fmt: on


def with_powers(roots: Sequence[UOp], moving: frozenset[UOp]) -> list[UOp]:
    """x*sqrt(x) and quotients by roots as powers of x, whose series is one sum: 1/(x*sqrt(x)) is x**-1.5."""
    table: dict[UOp, UOp] = {}

    def power_in(u: UOp) -> tuple[UOp, float] | None:
        if not u.leaves & moving:
            return None
        if u.op is Ops.SQRT:
            return u.src[0], 0.5
        return (u.src[0], float(u.src[1].arg)) if u.op is Ops.POW and u.src[1].op is Ops.CONST else None

    for u in toposort(roots):
        src = tuple(table[s] for s in u.src)
        new = u if all(a is b for a, b in zip(src, u.src)) else UOp(u.op, u.dtype, u.shape, src, u.arg)
        if u.op is Ops.MUL:
            for a, b in (src, src[::-1]):
                found = power_in(b)
                if found is not None and found[0] is a and not found[1].is_integer():
                    new = a ** (found[1] + 1.0)
        elif u.op is Ops.POW and src[0].op is Ops.SQRT and src[1].op is Ops.CONST and u.leaves & moving:
            new = src[0].src[0] ** (src[1].arg / 2)
        elif u.op is Ops.DIV and (found := power_in(src[1])) is not None and not found[1].is_integer():
            inverse_ = found[0] ** -found[1]
            new = inverse_ if src[0].op is Ops.CONST and src[0].arg == 1 else src[0] * inverse_
        table[u] = new
    return [table[r] for r in roots]


def solution(
    states: Sequence[UOp],
    rates: Sequence[UOp],
    start: Sequence[UOp],
    order: int,
    clock: tuple[UOp, UOp] | None = None,
    opened: bool = True,
) -> tuple[list[list[UOp]], Series]:
    """The coefficients 0 to `order` of each state along the solution of state' = rate that begins at `start`.

    `clock` is the variable that stands for time in the rates, and the time now. If they are not opened, sums of products are
    nodes (`products_of`) and constants variables (`weight_of`), for whoever computes them with other numbers.
    """
    rows: dict[UOp, list[Coefficient]] = {s: [x] for s, x in zip(states, start)}
    if clock is not None:
        rows[clock[0]] = [clock[1], UOp.const(1.0, clock[1].dtype)]
    series = Series(rows, dict(zip(states, rates)), opened)
    for k in range(order):
        new = [series.times(series(r, k), Fraction(1, k + 1)) for r in rates]
        for s, x in zip(states, new):
            rows[s].append(x)
    full = [[UOp.const(0.0, x.dtype) if c is None else c for c in rows[s]] for s, x in zip(states, start)]
    return full, series


def order_for(tolerance: float, decay: float = 2.0) -> int:
    """The order at which terms that fall by e**-decay reach the tolerance; 2 makes the cheapest step: Jorba and Zou 2005."""
    return max(4, math.ceil(1 - math.log(tolerance) / decay))
