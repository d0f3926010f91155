"""The Fourier transform of any length, of transforms that have stages: longer ones in two steps, primes by chirps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import isqrt

from tinyphysics.errors import ShapeError
from tinyphysics.ir.dtype import DType
from tinyphysics.ir.fourier import ONE, Complex, has_stages, radices, roots_of_one, rounded
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp

LARGEST = 16384  # of one axis: roots of one for the second step are a table


def transform(x: Complex, sign: int, axis: int) -> Complex:
    """X[k] = sum over j of x[j] exp(sign 2 pi i j k/n), along an axis."""
    n = x[0].shape[axis]
    if n <= 1:
        return x
    if has_stages(n):
        return tuple(UOp(Ops.FOURIER, x[0].dtype, x[0].shape, x, (part, sign, axis)) for part in (0, 1))  # type: ignore[return-value]
    if n > LARGEST:
        raise ShapeError.here(
            f"a Fourier transform of {n} numbers along one axis",
            f"One axis has {LARGEST} at most.",
        )
    first = divisor(n) if radices(n) else None
    return by_chirps(x, sign, axis) if first is None else in_two_steps(x, sign, axis, first)


def divisor(n: int) -> int | None:
    """A factor near the square root, so that both steps have stages."""
    found = [m for m in range(isqrt(n), 1, -1) if n % m == 0 and has_stages(m) and has_stages(n // m)]
    return found[0] if found else None


def table(values: Sequence[tuple[int, int]], dtype: DType, shape: tuple[int, ...]) -> Complex:
    """Complex constants, over ONE."""
    re, im = (
        UOp.stack([UOp.const(rounded(v[part], dtype), dtype) for v in values], shape) for part in (0, 1)
    )
    return re, im


def times(x: Complex, y: Complex) -> Complex:
    (a, b), (c, d) = x, (w.expand(x[0].shape) for w in y)
    return a.fma(c, -(b * d)), a.fma(d, b * c)


def conjugate(x: Complex, sign: int) -> Complex:
    return x if sign > 0 else (x[0], -x[1])


def in_two_steps(x: Complex, sign: int, axis: int, first: int) -> Complex:
    """Of n = first*second: columns, roots of one, rows."""
    shape = x[0].shape
    n = shape[axis]
    second = n // first
    before, after = shape[:axis], shape[axis + 1 :]
    columns: Complex = tuple(u.reshape(*before, first, second, *after) for u in x)  # type: ignore[assignment]
    a = transform(columns, sign, axis)
    roots = conjugate(twiddles(n, first, x[0].dtype), sign)
    cos, sin = (w.reshape(first, second, *(1,) * len(after)) for w in roots)
    b = transform(times(a, (cos, sin)), sign, axis + 1)
    order = [*range(axis), axis + 1, axis, *range(axis + 2, len(shape) + 1)]
    re, im = (u.permute(order).reshape(shape) for u in b)
    return re, im


@lru_cache(maxsize=8)
def twiddles(n: int, first: int, dtype: DType) -> Complex:
    """The root number j*k, for k < first and j < n/first."""
    roots = roots_of_one(n)
    return table([roots[j * k] for k in range(first) for j in range(n // first)], dtype, (first, n // first))


def by_chirps(x: Complex, sign: int, axis: int) -> Complex:
    """Of any length (Bluestein): 2jk = j² + k² - (k - j)², so that the sum is a convolution, which is two transforms."""
    shape, dtype = x[0].shape, x[0].dtype
    n = shape[axis]
    m = next(m for m in range(2 * n - 1, 4 * n) if smooth(m))
    if m > LARGEST:
        raise ShapeError.here(
            f"a Fourier transform of {n} numbers along one axis",
            f"With a prime factor above 13 it has {LARGEST // 2} at most, else {LARGEST}.",
        )
    chirp, spectrum = chirps(n, m, dtype)
    along = (-1, *(1,) * (len(shape) - axis - 1))
    own = conjugate(tuple(u.reshape(along) for u in chirp), sign)  # type: ignore[arg-type]
    widths = [(0, m - n, 0) if a == axis else (0, 0, 0) for a in range(len(shape))]
    y = transform(tuple(u.pad(widths) for u in times(x, own)), sign, axis)  # type: ignore[arg-type]
    product = times(y, conjugate(tuple(u.reshape(along) for u in spectrum), sign))  # type: ignore[arg-type]
    back = transform(product, -sign, axis)
    kept = [(0, n, 1) if a == axis else (0, k, 1) for a, k in enumerate(back[0].shape)]
    return times(tuple(u.slice(kept) for u in back), own)  # type: ignore[arg-type]


def smooth(m: int) -> bool:
    """A length with stages, or with two steps, whose stages are of radices 2 to 5."""
    if not set(radices(m)) <= {2, 3, 4, 5, 8}:
        return False
    return has_stages(m) or bool(radices(m)) and divisor(m) is not None


@lru_cache(maxsize=8)
def chirps(n: int, m: int, dtype: DType) -> tuple[Complex, Complex]:
    """exp(pi i j²/n) for j < n; and the transform of its conjugates along a circle of m, over m."""
    roots = roots_of_one(2 * n)
    own = [roots[j * j % (2 * n)] for j in range(n)]
    circle = [(0, 0)] * m
    for j, (c, s) in enumerate(own):
        circle[j] = circle[-j] = (c, -s)
    spectrum = [(c // m, s // m) for c, s in exactly(circle, roots_of_one(m))]
    return table(own, dtype, (n,)), table(spectrum, dtype, (m,))


def exactly(x: Sequence[tuple[int, int]], roots: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The transform of whole numbers over ONE, to some 70 digits: a factor of the length at a time."""
    n = len(x)
    if n == 1:
        return list(x)
    r = next(p for p in range(2, n + 1) if n % p == 0)
    parts = [exactly(x[j::r], roots[::r]) for j in range(r)]
    out = []
    for k in range(n):
        re = im = 0
        for j in range(r):
            (a, b), (c, s) = parts[j][k % (n // r)], roots[j * k % n]
            re, im = re + (a * c - b * s) // ONE, im + (a * s + b * c) // ONE
        out.append((re, im))
    return out
