"""The functions phi_k of exponential integrators, of complex numbers in two parts: accurate for small and large arguments.

phi_0(z) = exp z and phi_k(z) = (phi_{k-1}(z) - 1/(k-1)!)/z. The quotients cancel where |z| is small: there the Taylor series
is summed instead, to its last digit.
"""

from __future__ import annotations

from fractions import Fraction
from math import factorial

from tinyphysics.ir import UOp

Part = UOp | None  # None is zero
Number = tuple[Part, Part]

SMALL = 2.0  # largest of the sizes of both parts for which the series is summed
TERMS = 30  # 2.9**30/33! is below 1e-22


def add(a: Part, b: Part) -> Part:
    return b if a is None else a if b is None else a + b


def neg(a: Part) -> Part:
    return None if a is None else -a


def mul(a: Part, b: Part) -> Part:
    return None if a is None or b is None else a * b


def sum_of(*zs: Number) -> Number:
    re: Part = None
    im: Part = None
    for z in zs:
        re, im = add(re, z[0]), add(im, z[1])
    return re, im


def minus(z: Number) -> Number:
    return neg(z[0]), neg(z[1])


def times(a: Number, b: Number) -> Number:
    return add(mul(a[0], b[0]), neg(mul(a[1], b[1]))), add(mul(a[0], b[1]), mul(a[1], b[0]))


def scaled(z: Number, x: UOp | float) -> Number:
    return tuple(None if p is None else p * x for p in z)  # type: ignore[return-value]


def over(a: Number, b: Number) -> Number:
    if b[1] is None:
        assert b[0] is not None
        return tuple(None if p is None else p / b[0] for p in a)  # type: ignore[return-value]
    if b[0] is None:  # (x + iy)/(is) = y/s - ix/s
        return tuple(None if p is None else p / b[1] for p in (a[1], neg(a[0])))  # type: ignore[return-value]
    size = b[0] * b[0] + b[1] * b[1]
    top = times(a, (b[0], neg(b[1])))
    return tuple(None if p is None else p / size for p in top)  # type: ignore[return-value]


def exponential(z: Number) -> Number:
    x, y = z
    size = None if x is None else x.exp()
    if y is None:
        return size, None
    c, s = y.cos(), y.sin()
    return (c, s) if size is None else (size * c, size * s)


def series(k: int, z: Number) -> Number:
    """The Taylor series of phi_k."""
    total: Number = (UOp.const(float(Fraction(1, factorial(TERMS + k)))), None)
    for j in range(TERMS - 1, -1, -1):
        total = sum_of(times(total, z), (UOp.const(float(Fraction(1, factorial(j + k)))), None))
    return total


def phis(z: Number, most: int = 3) -> list[Number]:
    """exp z, phi_1(z), ..."""
    parts = [p for p in z if p is not None]
    if not parts:
        return [(UOp.const(float(Fraction(1, factorial(k)))), None) for k in range(most + 1)]
    shape = parts[0].shape
    small = None
    for p in parts:
        here = abs(p) < SMALL
        small = here if small is None else small & here
    assert small is not None
    near: Number = tuple(None if p is None else small.where(p, 0.0) for p in z)  # type: ignore[assignment]
    unit = z[0] is None
    far: Number = (
        (None, small.where(1.0, z[1]))
        if unit
        else (small.where(1.0, z[0]), None if z[1] is None else small.where(0.0, z[1]))
    )
    out = [exponential(z)]
    quotient = exponential(far)
    for k in range(1, most + 1):
        summed = series(k, near)
        quotient = over(sum_of(quotient, (UOp.const(-float(Fraction(1, factorial(k - 1)))), None)), far)
        out.append(
            tuple(  # type: ignore[arg-type]
                None if a is None and b is None else small.where(filled(a, shape), filled(b, shape))
                for a, b in zip(summed, quotient)
            )
        )
    return out


def filled(p: Part, shape: tuple[int, ...]) -> UOp:
    return (UOp.const(0.0) if p is None else p).expand(shape)
