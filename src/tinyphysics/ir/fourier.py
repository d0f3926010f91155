"""What is a discrete Fourier transform, operation by operation?  Stages of small transforms, decided by the length alone.

X[k] is the sum over j of x[j] exp(sign 2 pi i j k / n), not divided by n. A length is a product of radices; each stage
takes one of them and leaves its results where the next one reads them, so that the last ends in order (Stockham). Every
number is the same expression on every machine: results have the same bits everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ldexp

from tinyphysics.ir.dtype import DType, f32
from tinyphysics.ir.uop import UOp, toposort

Complex = tuple[UOp, UOp]  # real and imaginary part

RADICES = (8, 4, 2, 3, 5, 7, 11, 13)  # in the order in which they are tried
LONGEST = 4096  # of one transform: two copies of a row stay in the second cache; longer ones are made of two
ONE = 1 << 256  # roots of one are whole numbers over this


@lru_cache(maxsize=256)
def radices(n: int) -> tuple[int, ...]:
    """The stages of a transform of this length; none if a prime factor is too large, or there is nothing to do.

    >>> radices(360), radices(32), radices(17)
    ((8, 3, 3, 5), (8, 4), ())
    """
    found: list[int] = []
    for r in RADICES:
        while n % r == 0 and not (r == 8 and n == 16):  # 4*4 has fewer operations than 8*2
            found.append(r)
            n //= r
    return tuple(found) if n == 1 else ()


def has_stages(n: int) -> bool:
    return 1 < n <= LONGEST and bool(radices(n))


@dataclass(frozen=True)
class Stage:
    """For p < parts and q < stride: the items x[q + stride*(p + parts*j)] are transformed, the k-th of the results is
    multiplied by the root number stride*p*k, and goes to q + stride*(radix*p + k)."""

    radix: int
    parts: int
    stride: int


@lru_cache(maxsize=256)
def stages(n: int) -> tuple[Stage, ...]:
    out, stride = [], 1
    for r in radices(n):
        out.append(Stage(r, n // (stride * r), stride))
        stride *= r
    return tuple(out)


# --- roots of one -------------------------------------------------------------------------------------------------------
def arctangent(inverse: int) -> int:
    """arctan(1/inverse) times ONE."""
    term = total = ONE // inverse
    k = 1
    while term:
        term //= -inverse * inverse
        k += 2
        total += term // k
        term += term == -1
    return total


@lru_cache(maxsize=1)
def turn() -> int:
    """2 pi times ONE (Machin)."""
    return 8 * (4 * arctangent(5) - arctangent(239))


@lru_cache(maxsize=32)
def roots_of_one(n: int) -> tuple[tuple[int, int], ...]:
    """(cos, sin) of 2 pi k/n times ONE, right to some 70 digits."""
    angle, sums, term, k = turn() // n, [0, 0], ONE, 0
    while term:
        sums[k % 2] += -term if k % 4 > 1 else term
        k += 1
        term = term * angle // (ONE * k)
    c, s = sums
    out, x, y = [], ONE, 0
    for _ in range(n):
        out.append((x, y))
        x, y = (x * c - y * s) // ONE, (x * s + y * c) // ONE
    return tuple(out)


def rounded(x: int, dtype: DType) -> float:
    """x over ONE as the nearest float; what is zero to 50 digits is zero."""
    bits = abs(x).bit_length() - (24 if dtype is f32 else 53)
    if bits < 40:
        return 0.0
    q = (abs(x) + (1 << (bits - 1))) >> bits
    return ldexp(-q if x < 0 else q, bits - (ONE.bit_length() - 1))


def first_root(n: int, s: Stage) -> int:
    """Where the roots of a stage begin in the tables: for k = 1, 2, ... those of all parts."""
    return n - n // s.stride


@lru_cache(maxsize=64)
def tables(n: int, dtype: DType) -> tuple[UOp, UOp]:
    """Cosines and sines of the angles 2 pi stride p k/n of every stage, in the order in which they are read."""
    roots = roots_of_one(n)
    used = [roots[s.stride * p * k] for s in stages(n) for k in range(1, s.radix) for p in range(s.parts)]
    used.append(roots[0])  # as many as there are numbers
    cos, sin = (UOp.stack([UOp.const(rounded(root[part], dtype), dtype) for root in used]) for part in (0, 1))
    return cos, sin


# --- small transforms -----------------------------------------------------------------------------------------------------
def plus(x: Complex, y: Complex) -> Complex:
    return x[0] + y[0], x[1] + y[1]


def minus(x: Complex, y: Complex) -> Complex:
    return x[0] - y[0], x[1] - y[1]


def quarter(x: Complex, sign: int) -> Complex:
    """x times i, or -i."""
    return (-x[1], x[0]) if sign > 0 else (x[1], -x[0])


def turned(x: Complex, root: Complex, sign: int) -> Complex:
    """x times a root of one, or its conjugate."""
    (a, b), (c, s) = x, root
    if sign > 0:
        return a.fma(c, -(b * s)), b.fma(c, a * s)
    return a.fma(c, b * s), b.fma(c, -(a * s))


def small(x: Sequence[Complex], sign: int) -> list[Complex]:
    """The transform of one radix, written out."""
    match len(x):
        case 2:
            return [plus(*x), minus(*x)]
        case 4:
            (a, b), (c, d) = small(x[::2], sign), small(x[1::2], sign)
            d = quarter(d, sign)
            return [plus(a, c), plus(b, d), minus(a, c), minus(b, d)]
        case 8:
            even, odd = small(x[::2], sign), small(x[1::2], sign)
            half = like(x[0][0], roots_of_one(8)[1][0])
            odd = [
                odd[0],
                eighth(odd[1], half, sign),
                quarter(odd[2], sign),
                eighth(quarter(odd[3], sign), half, sign),
            ]
            return [*map(plus, even, odd), *map(minus, even, odd)]
    return by_symmetry(x, sign)


# of how many floats is a root of one the sum, where a transform is written out?
WORDS: ContextVar[int] = ContextVar("WORDS", default=1)


@contextmanager
def roots_in_words(words: int) -> Iterator[None]:
    """Roots of one with more digits than a float: for what is measured, and not run."""
    before = WORDS.set(words)
    try:
        yield
    finally:
        WORDS.reset(before)


def like(u: UOp, x: int) -> UOp:
    """A number over ONE, in the type and shape of u."""
    out = UOp.const(first := rounded(x, u.dtype), u.dtype, u.shape)
    for _ in range(WORDS.get() - 1):
        x -= int(Fraction(first) * ONE)
        first = rounded(x, u.dtype)
        out = out + UOp.const(first, u.dtype, u.shape)
    return out


def eighth(x: Complex, half: UOp, sign: int) -> Complex:
    """x times (1 + i)/sqrt 2, or its conjugate."""
    a, b = x
    return ((a - b) * half, (a + b) * half) if sign > 0 else ((a + b) * half, (b - a) * half)


def by_symmetry(x: Sequence[Complex], sign: int) -> list[Complex]:
    """Of an odd length: the items j and n - j share cosines, and their sines differ by the sign."""
    n = len(x)
    sums = [plus(x[j], x[n - j]) for j in range(1, n // 2 + 1)]
    differences = [minus(x[j], x[n - j]) for j in range(1, n // 2 + 1)]
    first = x[0]
    for each in sums:
        first = plus(first, each)
    out: list[Complex] = [first] * n
    for k in range(1, n // 2 + 1):
        (re, im), across = x[0], None
        for j, (s, d) in enumerate(zip(sums, differences), 1):
            c, y = (like(re, v) for v in roots_of_one(n)[j * k % n])
            re, im = s[0].fma(c, re), s[1].fma(c, im)
            across = (
                (d[0] * y, d[1] * y) if across is None else (d[0].fma(y, across[0]), d[1].fma(y, across[1]))
            )
        assert across is not None
        beside = quarter(across, sign)
        out[k], out[n - k] = plus((re, im), beside), minus((re, im), beside)
    return out


def results(x: Sequence[Complex], roots: Sequence[Complex], sign: int) -> list[Complex]:
    """One transform of a stage; without roots it is of the last stage."""
    first, *rest = small(x, sign)
    return [first, *(turned(y, w, sign) for y, w in zip(rest, roots))] if roots else [first, *rest]


@lru_cache(maxsize=32)
def written(radix: int, last: bool) -> int:
    """Operations of one small transform."""
    x, roots = (
        [(UOp.var(f"{name}{k}"), UOp.var(f"{name}{k}'")) for k in range(radix)] for name in ("x", "w")
    )
    found = results(x, [] if last else roots[1:], -1)
    return sum(bool(u.src) for u in toposort([u for y in found for u in y]))


def lines(n: int) -> int:
    """Operations that are written for a transform in loops: a small transform for each stage."""
    return sum(written(s.radix, s.parts == 1) for s in stages(n))


def operations(n: int) -> int:
    """Operations of a whole transform; half of them for one part of it, if both are wanted."""
    return sum(written(s.radix, s.parts == 1) * s.parts * s.stride for s in stages(n))


# --- number by number -----------------------------------------------------------------------------------------------------
def constants(n: int, s: Stage, p: int, k: int, of: UOp) -> Complex:
    """The root that the k-th result of a small transform is multiplied by, in the type and shape of a number of it."""
    c, y = roots_of_one(n)[s.stride * p * k]
    return like(of, c), like(of, y)


def places(s: Stage) -> Iterator[tuple[int, int]]:
    return ((p, q) for p in range(s.parts) for q in range(s.stride))


def transform(x: Sequence[Complex], sign: int) -> list[Complex]:
    """All numbers of a transform as expressions of those that are transformed."""
    n, out = len(x), list(x)
    for s in stages(n):
        new = list(out)
        for p, q in places(s):
            items = [out[q + s.stride * (p + s.parts * j)] for j in range(s.radix)]
            roots = [constants(n, s, p, k, items[0][0]) for k in range(1, s.radix)] if s.parts > 1 else []
            for k, y in enumerate(results(items, roots, sign)):
                new[q + s.stride * (s.radix * p + k)] = y
        out = new
    return out
