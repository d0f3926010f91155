"""Is one long expression a multiple of another?  By normal forms that multiply no two sums out.

A sum that is multiplied by another, or raised to a power, becomes a name, and equal sums have one name. So forces of many
sites on rigid bodies are compared in about the time that it takes to read them; what is equal only after sums are multiplied
out is not shown.
"""

from __future__ import annotations

from fractions import Fraction

from tinyphysics.ir.rewrite import graph_rewrite
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.equality.normal import (
    LARGEST_EXPONENT,
    Exponent,
    Normal,
    Poly,
    chooses,
    key,
    monomial,
    snapped,
)
from tinyphysics.rules.equality.probe import seen_to_be_no_multiples
from tinyphysics.rules.identities.exact import exact

LONGEST = 3_000  # nodes of both: about a second


class ClosedSums(Normal):
    """Normal forms in which a product of two sums is a product of two names."""

    most_work = 10 * Normal.most_work  # sums are not multiplied out, and all of them are short

    def named(self, p: Poly) -> tuple[Fraction, dict[int, Exponent]]:
        """(r, exponents) with p = r times a product: of what all its terms share, and of the sum that is left."""
        first, *rest = (dict(m) for m in p)
        shared = {a: min([e, *(m[a] for m in rest)]) for a, e in first.items() if all(a in m for m in rest)}
        left = {monomial({a: e - shared.get(a, 0) for a, e in m}): c for m, c in p.items()}
        r = left[min(left)]
        name = self.atom(("closed sum", key({m: c / r for m, c in left.items()})))
        return r, {**shared, name: 1}

    def multiply(self, p: Poly, q: Poly) -> Poly:
        if len(p) < 2 or len(q) < 2:
            return super().multiply(p, q)
        (r, own), (s, other) = self.named(p), self.named(q)
        return {monomial({a: own.get(a, 0) + other.get(a, 0) for a in {**own, **other}}): r * s}

    def power(self, p: Poly, e: Fraction) -> Poly:
        if len(p) < 2:
            return super().power(p, e)
        r, own = self.named(p)
        if e.denominator == 1 and abs(e) <= LARGEST_EXPONENT:
            return {monomial({a: k * e for a, k in own.items()}): r ** int(e)}
        if r == 1 and len(own) == 1:
            return {monomial(dict.fromkeys(own, e)): r}
        return self.single(("power of a sum", key(p), e))


def multiple(u: UOp, v: UOp) -> Fraction | None:
    """The number r with u = r*v, number by number; None if that is not shown.

    >>> x, y, z = (UOp.var(name) for name in "xyz")
    >>> multiple(2.0 * ((x + y) * (y + z)) ** 9, ((y + x) * (z + y)) ** 9)
    Fraction(2, 1)
    """
    if len(toposort([u, v])) > LONGEST or any(map(chooses, (u, v))) or seen_to_be_no_multiples(u, v):
        return None
    normal, ratios = ClosedSums(), set()
    for x, y in zip(*(graph_rewrite(numbers, exact) for numbers in unroll([u, v]))):
        if normal.form(y) or normal.form(x):
            r = normal.ratio(x, y)
            ratios.add(r if r is None else snapped(r))
    return ratios.pop() if len(ratios) == 1 else None
