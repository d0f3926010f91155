"""What are the second derivatives of an energy as functions of its parameters?  Sums of products of their powers.

They are found once for a system. A vector that the coefficients of every product annihilate is annihilated whatever the
parameters are: so zero modes of all members of an ensemble are known exactly, without looking at one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.calculus.affine import Affine, NotAffine, Symbol, affine
from tinyphysics.rules.calculus.hessian import unknowns
from tinyphysics.rules.calculus.vjp import gradient

MOST_TERMS = 64  # of one coefficient; more are not multiplied out
# (an atom, its power); an atom is (name, index) of a parameter, or a function of polynomials
Factor = tuple[Any, int]
Product = tuple[Factor, ...]


@dataclass(frozen=True, eq=False)
class Laurent(Symbol):
    """A sum of rational numbers times products of powers of atoms."""

    terms: Mapping[Product, Fraction]

    @property
    def key(self) -> tuple[Any, ...]:
        return tuple(sorted(self.terms.items(), key=repr))

    def __add__(self, other: Any) -> Any:
        out = dict(self.terms)
        for product, c in lift(other).terms.items():
            out[product] = out.get(product, Fraction(0)) + c
        return made(out)

    def __neg__(self) -> Any:
        return Laurent({product: -c for product, c in self.terms.items()})

    def __sub__(self, other: Any) -> Any:
        return self + -lift(other)

    def __rsub__(self, other: Any) -> Any:
        return lift(other) + -self

    def __mul__(self, other: Any) -> Any:
        out: dict[Product, Fraction] = {}
        for a, x in self.terms.items():
            for b, y in lift(other).terms.items():
                product = merged(a, b)
                out[product] = out.get(product, Fraction(0)) + x * y
        return made(out)

    def __truediv__(self, other: Any) -> Any:
        return self * lift(other).raised(-1)

    def __rtruediv__(self, other: Any) -> Any:
        return lift(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: object) -> bool:
        return not self.terms if other == 0 else self is other

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> bool:
        return bool(self.terms)

    def raised(self, n: Any) -> Any:
        if Fraction(n).denominator != 1:
            return self.function(Ops.SQRT) if n == Fraction(1, 2) else super().raised(n)
        n = int(n)
        if len(self.terms) == 1:
            ((product, c),) = self.terms.items()
            return Laurent({tuple((atom, k * n) for atom, k in product if k * n): c**n})
        if n >= 0:
            out: Any = Laurent({(): Fraction(1)})
            for _ in range(n):
                out = out * self
            return out
        return Laurent({(((Ops.DIV, self.key), -n),): Fraction(1)})  # powers of 1/self

    def function(self, op: Ops) -> Any:
        if op is Ops.SQRT:
            return Laurent({(((Ops.SQRT, self.key), 1),): Fraction(1)})
        if op is Ops.RSQRT:
            return Laurent({(((Ops.SQRT, self.key), -1),): Fraction(1)})
        return super().function(op)


def merged(a: Product, b: Product) -> Product:
    powers = dict(a)
    for atom, k in b:
        powers[atom] = powers.get(atom, 0) + k
    return tuple(sorted(((atom, k) for atom, k in powers.items() if k), key=repr))


def made(terms: Mapping[Product, Fraction]) -> Any:
    if len(terms) > MOST_TERMS:
        raise NotAffine("a coefficient has too many terms")
    return Laurent({product: c for product, c in terms.items() if c})


def lift(x: Any) -> Laurent:
    return x if isinstance(x, Laurent) else Laurent({(): Fraction(x)} if x else {})


@dataclass(frozen=True, eq=False)
class Curvatures:
    """The second derivatives of an energy, {column: Laurent} by rows, and its linear parts."""

    stiffness: tuple[Mapping[int, Laurent], ...]
    inverse_mass: tuple[Mapping[int, Laurent], ...]
    force: tuple[Laurent, ...]
    drift: tuple[Laurent, ...]
    mixed: tuple[Mapping[int, Laurent], ...] = ()  # by q, then p; none where H = T(p) + V(q)

    @property
    def pairs(self) -> int:
        return len(self.force)

    def components(self) -> list[list[int]]:
        """Pairs of q and p that have to do with each other, directly or through others."""
        owner = list(range(self.pairs))

        def find(i: int) -> int:
            while owner[i] != i:
                i = owner[i]
            return i

        for rows in (self.stiffness, self.inverse_mass):
            for i, row in enumerate(rows):
                for j in row:
                    owner[max(find(i), find(j))] = min(find(i), find(j))
        groups: dict[int, list[int]] = {}
        for i in range(self.pairs):
            groups.setdefault(find(i), []).append(i)
        return list(groups.values())

    def generator(self) -> tuple[list[list[Laurent]], list[Laurent]]:
        """A and g of z' = A z + g, with z all of q, then all of p."""
        n, nothing = self.pairs, lift(0)
        mixed = self.mixed or ({},) * n
        rows = [
            [mixed[j].get(i, nothing) for j in range(n)]
            + [self.inverse_mass[i].get(j, nothing) for j in range(n)]
            for i in range(n)
        ]
        rows += [
            [-self.stiffness[i].get(j, nothing) for j in range(n)]
            + [-mixed[i].get(j, nothing) for j in range(n)]
            for i in range(n)
        ]
        return rows, [*self.drift, *(-x for x in self.force)]

    def has_invariants(self) -> bool:
        """Are those of the generator sums that can be written out?"""
        try:
            invariants(self.generator()[0])
        except NotAffine:
            return False
        return True

    def masses_apart(self) -> bool:
        """Is T a sum of squares of single momenta?"""
        return all(set(row) <= {i} for i, row in enumerate(self.inverse_mass))

    def still(self, component: Sequence[int]) -> int:
        """Directions of a component in which there is no stiffness, whatever the parameters are."""
        products = sorted(
            {p for i in component for x in self.stiffness[i].values() for p in x.terms}, key=repr
        )
        rows = [
            [lift(self.stiffness[i].get(j, 0)).terms.get(product, Fraction(0)) for j in component]
            for product in products
            for i in component
        ]
        return len(component) - rank(rows)


def invariants(a: Sequence[Sequence[Any]]) -> tuple[Any, Any]:
    """(sum, product) of the eigenvalues of a**2, each of which it has twice; with one pair, that eigenvalue alone."""
    n = range(len(a))
    square = [[sum((a[i][k] * a[k][j] for k in n), start=0 * a[0][0]) for j in n] for i in n]
    half = Fraction(1, 2)
    trace = sum((square[i][i] for i in n), start=0 * a[0][0]) * half
    if len(a) == 2:
        return trace, 0 * trace
    fourth = sum((square[i][k] * square[k][i] for i in n for k in n), start=0 * a[0][0]) * half
    return trace, (trace * trace - fourth) * half


def rank(rows: list[list[Fraction]]) -> int:
    """Of a small matrix of rational numbers."""
    out, rows = 0, [list(r) for r in rows]
    for c in range(len(rows[0]) if rows else 0):
        k = next((i for i in range(out, len(rows)) if rows[i][c]), None)
        if k is None:
            continue
        rows[out], rows[k] = rows[k], rows[out]
        for row in rows[out + 1 :]:
            if row[c]:
                f = row[c] / rows[out][c]
                row[:] = [a - f * b for a, b in zip(row, rows[out])]
        out += 1
    return out


def curvatures(
    energy: UOp, q: Sequence[UOp], p: Sequence[UOp], parameters: Sequence[UOp]
) -> Curvatures | None:
    """Of an energy of degree 2 at most; None where a coefficient is no such sum."""
    states = [*q, *p]
    env: dict[str, Sequence[Any]] = {}
    for u in parameters:
        name = str(u.arg)
        env[name] = [Affine(Laurent({(((name, k), 1),): Fraction(1)})) for k in range(u.size)]
    try:
        forms = [form for part in affine(gradient(energy, states), env | unknowns(states)) for form in part]
    except NotAffine:
        return None
    n = len(forms) // 2
    mixed = tuple({k - n: lift(x) for k, x in form.terms.items() if k >= n} for form in forms[:n])
    return Curvatures(
        tuple({k: lift(x) for k, x in form.terms.items() if k < n} for form in forms[:n]),
        tuple({k - n: lift(x) for k, x in form.terms.items() if k >= n} for form in forms[n:]),
        tuple(lift(form.constant) for form in forms[:n]),
        tuple(lift(form.constant) for form in forms[n:]),
        mixed if any(mixed) else (),
    )
