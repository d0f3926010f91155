"""What are the exact coefficients of an expression that is affine in some variables?  Rational numbers, not rounded.

A float is a rational number, so sums, products and quotients of parameters are known exactly: whether a matrix has a
null space is decided, not guessed. Roots and functions of parameters are rational numbers of 60 digits, each of which
is computed once: what cancels whatever their values are still cancels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Context, Decimal, DivisionByZero, InvalidOperation, Overflow
from fractions import Fraction
from typing import Any

from tinyphysics.ir.dtype import as_number
from tinyphysics.ir.ops import ELEMENTWISE, Ops
from tinyphysics.ir.reduction import Tree, along, trees
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.ir.value import COMPARISON, REDUCTION, RING, node

DIGITS = 60
CONTEXT = Context(prec=DIGITS, Emin=-10_000, Emax=10_000, traps=[InvalidOperation, DivisionByZero, Overflow])
Rational = Any  # int or Fraction


class NotAffine(ValueError):
    """Why an expression has no exact affine form."""


class Symbol:
    """A number that is not known yet; what has no meaning for it is a NotAffine."""

    def raised(self, n: Rational) -> Any:
        raise NotAffine(f"the power {n} of a parameter")

    def function(self, op: Ops) -> Any:
        raise NotAffine(f"`{op.value}` of a parameter")

    def __int__(self) -> int:
        raise NotAffine("a parameter as a whole number")


class Affine:
    """constant + sum of coefficient * variable, the variables by their numbers."""

    __slots__ = ("constant", "terms")

    def __init__(self, constant: Rational = 0, terms: dict[int, Rational] | None = None) -> None:
        self.constant, self.terms = constant, terms or {}

    def __add__(self, other: Any) -> Affine:
        o = lifted(other)
        if not o.terms:
            return Affine(self.constant + o.constant, self.terms)
        terms = dict(self.terms)
        for k, c in o.terms.items():
            terms[k] = terms.get(k, 0) + c
        return Affine(self.constant + o.constant, {k: c for k, c in terms.items() if c})

    def __neg__(self) -> Affine:
        return Affine(-self.constant, {k: -c for k, c in self.terms.items()})

    def __sub__(self, other: Any) -> Affine:
        return self + -lifted(other)

    def __rsub__(self, other: Any) -> Affine:
        return lifted(other) + -self

    def __mul__(self, other: Any) -> Affine:
        a, b = self, lifted(other)
        if a.terms and b.terms:
            raise NotAffine("two factors hold the state")
        if a.terms:
            a, b = b, a
        x, y = a.constant, b.constant
        if not x:
            return Affine(x * y)
        if len(b.terms) == 1 and not y and type(x) is Fraction:  # a number of a matrix times one of the state
            ((k, c),) = b.terms.items()
            return Affine(0, {k: x if c == 1 else x * c})
        return Affine(x * y, {k: x * c for k, c in b.terms.items()})

    def __truediv__(self, other: Any) -> Affine:
        o = lifted(other)
        if o.terms:
            raise NotAffine("a divisor holds the state")
        if o.constant == 0:
            raise NotAffine("a divisor is 0")
        return self * Affine(Fraction(1) / o.constant)

    __radd__, __rmul__ = __add__, __mul__

    def __rtruediv__(self, other: Any) -> Affine:
        return lifted(other) / self


def lifted(x: Any) -> Affine:
    if isinstance(x, Affine):
        return x
    if isinstance(x, float) and not math.isfinite(x):
        raise NotAffine(f"a number is {x}")
    return Affine(Fraction(x) if isinstance(x, float) and x % 1 else int(x) if isinstance(x, float) else x)


def total(forms: Iterable[Any]) -> Affine:
    """The sum of forms, in one go: they are exact, so that their order is free."""
    constant: Rational = 0
    terms = dict[int, Rational]()
    for form in map(lifted, forms):
        constant = constant + form.constant if form.constant else constant
        for k, c in form.terms.items():
            terms[k] = terms[k] + c if k in terms else c
    return Affine(constant, {k: c for k, c in terms.items() if c})


def items_of(tree: Tree | None) -> Iterator[int]:
    if isinstance(tree, int):
        yield tree
    elif tree is not None:
        for part in tree[1]:
            yield from items_of(part)


def sums(u: UOp, values: Sequence[Sequence[Any]]) -> Any:
    """A sum along axes, or of products along one."""
    if u.arg[0] == "dot":
        x, y = values
        out = [total(x[k] * y[k] for k in items_of(tree)) for tree in trees(u)]
    else:
        (out,) = map(list, values)
        for axis in along(u) if u.arg[1] else ():
            out = [total(out[k] for k in items_of(tree)) for tree in trees(axis)]
    return out if u.shape else out[0]


# --- functions of parameters ------------------------------------------------------------------------
def decimal(x: Rational) -> Decimal:
    f = Fraction(x)
    return CONTEXT.divide(Decimal(f.numerator), Decimal(f.denominator))


def series(x: Fraction, first: Fraction, k: int) -> Fraction:
    """x**k/k! - x**(k+2)/(k+2)! + ..., of an |x| that is no larger than 10."""
    out, term, small = Fraction(0), first, Fraction(1, 10 ** (DIGITS + 6))
    while abs(term) > small:
        out += term
        k += 2
        term = -(Fraction(round(term * x * x * 10 ** (DIGITS + 12)), 10 ** (DIGITS + 12)) / ((k - 1) * k))
    return out


def sine(x: Rational, k: int) -> Rational:
    if abs(x) > 10:
        raise NotAffine("the sine or cosine of a parameter beyond 10")
    f = Fraction(x)
    return series(f, f if k else Fraction(1), k)


def power(x: Rational, y: Rational) -> Rational:
    if isinstance(y, Symbol):
        raise NotAffine("a power that is a parameter")
    if isinstance(x, Symbol):
        return x.raised(y)
    if Fraction(y).denominator == 1 and abs(y) <= 64:
        if x == 0 and y < 0:
            raise NotAffine("a divisor is 0")
        return Fraction(x) ** int(y)
    if x == 0 and y > 0:
        return 0
    if x <= 0:
        raise NotAffine("the power of a number that is not above 0")
    if y == Fraction(1, 2):
        return root(x)
    return Fraction(CONTEXT.exp(CONTEXT.multiply(decimal(y), CONTEXT.ln(decimal(x)))))


def root(x: Rational) -> Rational:
    if x < 0:
        raise NotAffine("the root of a negative number")
    f = Fraction(x)
    a, b = math.isqrt(f.numerator), math.isqrt(f.denominator)
    if a * a == f.numerator and b * b == f.denominator:
        return Fraction(a, b)
    return Fraction(CONTEXT.sqrt(decimal(x)))


def logarithm(x: Rational) -> Rational:
    if x <= 0:
        raise NotAffine("the logarithm of a number that is not above 0")
    return Fraction(CONTEXT.ln(decimal(x)))


FUNCTIONS: dict[Ops, Callable[..., Any]] = COMPARISON | {
    Ops.SQRT: root,
    Ops.RSQRT: lambda x: Fraction(1) / root(x),
    Ops.EXP: lambda x: Fraction(CONTEXT.exp(decimal(x))),
    Ops.LOG: logarithm,
    Ops.SIN: lambda x: sine(x, 1),
    Ops.COS: lambda x: sine(x, 0),
    Ops.TAN: lambda x: sine(x, 1) / Fraction(sine(x, 0)),
    Ops.POW: power,
    Ops.ABS: abs,
    Ops.MIN: min,
    Ops.MAX: max,
    Ops.SIGN: lambda x: (x > 0) - (x < 0),
    Ops.FLOOR: math.floor,
    Ops.WHERE: lambda c, a, b: a if c else b,
}


def constant(x: Any) -> Any:
    """The number that an element is, if no variable is in it."""
    if isinstance(x, Affine):
        if x.terms:
            raise NotAffine("a function of the state")
        return x.constant
    return x


def of_constants(u: UOp) -> Callable[..., Any]:
    f = FUNCTIONS.get(u.op)
    if f is None:
        raise NotAffine(f"`{u.op.value}` of a parameter is not known to more digits than a float has")

    def one(*x: Any) -> Any:
        symbols = [v for v in map(constant, x) if isinstance(v, Symbol)]
        if symbols:
            return lifted(symbols[0].function(u.op if len(x) == 1 else Ops.POW))
        try:
            out = f(*map(constant, x))
        except (InvalidOperation, DivisionByZero, Overflow, ZeroDivisionError) as error:
            raise NotAffine(f"`{u.op.value}` of {', '.join(str(constant(v)) for v in x)}") from error
        return lifted(out) if u.dtype.is_float else out

    return one


def whole_power(u: UOp) -> Callable[..., Any]:
    def one(x: Any, y: Any) -> Any:
        base, n = lifted(x), constant(lifted(y))
        if not base.terms:
            return Affine(power(base.constant, n))
        if n not in (0, 1):
            raise NotAffine(f"the power {n} of the state")
        return base if n == 1 else Affine(1)

    return one


OF_FORMS: dict[Ops, Callable[..., Any]] = RING | {
    Ops.DIV: lambda a, b: lifted(a) / b,
    Ops.FMA: lambda a, b, c: a * b + c,
    Ops.IMAGE: lambda a, b, s: (a - s) - b,
}


def element_wise(u: UOp) -> Callable[..., Any]:
    if u.op is Ops.CAST:
        if u.dtype.is_float:
            return lambda x: lifted(x)
        return lambda x: as_number(int(constant(x)), u.dtype)
    if u.op is Ops.POW:
        return whole_power(u)
    return OF_FORMS[u.op] if u.op in OF_FORMS else of_constants(u)


def affine(roots: Sequence[UOp], env: Mapping[str, Sequence[Any]]) -> list[list[Affine]]:
    """The elements of each root, row-major; env holds flat lists of numbers and of forms, by the names of variables.

    A NotAffine says which operation has no exact meaning.
    """
    values: dict[UOp, Any] = {}
    for u in toposort(roots):
        if u.op is Ops.VAR:
            if u.arg not in env:
                raise NotAffine(f"`{u.arg}` is not known")
            flat = [lifted(x) for x in env[u.arg]]
            values[u] = flat if u.shape else flat[0]
        elif u.op is Ops.CONST and u.dtype.is_float:
            one = lifted(u.arg)
            values[u] = [one] * u.size if u.shape else one
        elif u.op in ELEMENTWISE and u.dtype.is_float or u.op is Ops.CAST or u.src and u.op in FUNCTIONS:
            if u.op in (Ops.CUSTOM, Ops.RANDOM):
                raise NotAffine(f"`{u.op.value}` has no exact value")
            f, src = element_wise(u), [values[s] for s in u.src]
            values[u] = list(map(f, *src)) if u.shape else f(*src)
        elif u.op is Ops.REDUCE and u.dtype.is_float and REDUCTION[u.arg[0]] is Ops.ADD:
            values[u] = sums(u, [values[s] for s in u.src])
        elif u.op in (Ops.NEIGHBOURS, Ops.TREE):
            raise NotAffine(f"`{u.op.value}` depends on where the points are")
        else:
            values[u] = node(u)(*(values[s] for s in u.src))
    return [[lifted(x) for x in (values[r] if r.shape else [values[r]])] for r in roots]
