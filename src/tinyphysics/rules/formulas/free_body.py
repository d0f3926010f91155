"""How does a free rigid body move?  Jacobi's functions for its momentum, and a theta function for its attitude.

L' = L x aL, with the inverse moments a. In axes in which the momentum stays on one side of the third it is
(A1 cn, A2 sn, A3 dn) of u0 + r t. The attitude turns about L at a mean speed, and by the phase of a theta function of a
complex argument (Jacobi 1850; van Zon and Schofield 2007). On the separatrix cn = dn = sech and sn = tanh.

All is written for numbers of any kind: floats in arrays, pairs of them, and decimal numbers of any length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Wave = tuple[Any, Any]  # cosine and sine
Four = tuple[Any, Any, Any, Any]
CYCLES = ((0, 1, 2), (1, 2, 0), (2, 0, 1))


class Numbers(Protocol):
    """What is computed with besides + - * /."""

    rounds: int  # of arithmetic-geometric means, which double their digits in each

    def root(self, x: Any) -> Any: ...
    def half(self, x: Any) -> Any: ...


class PlainNumbers(Numbers, Protocol):
    """What is no part of a phase: floats have digits enough for it."""

    small: Any  # a modulus whose square is nothing beside 1

    def choose(self, condition: Any, a: Any, b: Any) -> Any: ...


@dataclass(frozen=True)
class Orbit:
    """The motion of a body in its own axes: constants."""

    sizes: tuple[Any, Any, Any]  # A1, A2, A3
    length: Any
    side: Any  # the sign of a1 - a3
    speed: Any  # of the phase v of the momentum; v is pi/2K times u, and u itself on the separatrix
    half: Any  # half of the mean speed at which the body turns about L
    m: Any
    kc: Any  # the root of 1 - m


@dataclass(frozen=True)
class Start:
    """Where a motion begins, and its series: plain numbers."""

    sizes: tuple[Any, Any, Any]
    length: Any
    side: Any
    wave: Wave  # cosine and sine of v at first
    nome: Any = None
    shift: Any = None  # exp(-2e), with the complex shift ie of the theta function


def orbit(kit: Numbers, a: Sequence[Any], L: Sequence[Any], side: Any, gap: Any) -> Orbit:
    """Of a body in axes along which a falls (side 1) or rises (-1), with L[2] > 0.

    The gap, |a2 - a3| L3² - |a1 - a2| L1², is positive: L stays on one side of the third axis.
    """
    (A1, A2, A3), length, rate, d12, d13, d23 = sizes(kit, a, L, side)
    low = d23 * A3 * A3
    m, kc = d12 * A1 * A1 / low, kit.root(gap / low)
    one, about = means(kit, kc, length / A3)
    half = kit.half(length * (a[0] - side * d13 * about))
    return Orbit((A1, A2, A3), length, side, rate * one, half, m, kc)


def means(kit: Numbers, kc: Any, p: Any) -> tuple[Any, Any]:
    """pi/2K by the arithmetic-geometric mean, and the mean of 1/(cn² + p² sn²) over a period by Bulirsch's cel."""
    one = kc * 0 + 1
    a, b, e, m, q = one, one / p, kc, one, kc
    mean, other = one, kc
    for _ in range(kit.rounds):
        mean, other = kit.half(mean + other), kit.root(mean * other)
        g = e / p
        a, b, p, m = a + b / p, b + a * g, g + p, m + q
        b = b + b
        q = kit.root(e)
        q = q + q
        e = q * m
    return mean, mean * (b + a * m) / (m * (m + p))


def begun(kit: PlainNumbers, o: Orbit, L: Sequence[Any]) -> Start:
    """The first phase, the nome and the shift, by Landen's steps: in each the modulus k becomes about k²/4."""
    A1, A2, A3 = o.sizes
    c, s, high = L[0] / A1, L[1] / A2, A3 / A1  # cn, sn and -i sn(ie)
    k, kc = kit.root(o.m), o.kc
    nome = k * k / 16
    for n in range(kit.rounds):
        went_on = k >= kit.small
        k, kc = k / (1 + kc) * (k / (1 + kc)), 2 * kit.root(kc) / (1 + kc)
        value = k / 4  # the nome to the power of 2**n
        for _ in range(n):
            value = kit.root(value)
        nome = kit.choose(went_on, value, nome)
        more = 1 + k
        high = 2 * high / (more + kit.root(more * more + 4 * k * high * high))
        s = 2 * s / (more + kit.root((1 - k) * (1 - k) + 4 * k * c * c))
        c = c * (1 + k * s * s) / kit.root(1 - k * k * s * s)
    e = high + kit.root(1 + high * high)
    size = kit.root(c * c + s * s)
    return Start(o.sizes, o.length, o.side, (c / size, s / size), nome, 1 / (e * e))


def sizes(kit: Numbers, a: Sequence[Any], L: Sequence[Any], side: Any) -> tuple[Any, ...]:
    """(A1, A2, A3), |L|, the rate of u, and the differences of a, which are positive but for the first, which may be 0."""
    d12, d13, d23 = ((a[i] - a[j]) * side for i, j in ((0, 1), (0, 2), (1, 2)))
    x, y, z = (n * n for n in L)
    A1, A3 = kit.root(x + d23 / d13 * y), kit.root(z + d12 / d13 * y)
    A2 = side * kit.root(y + d13 / d23 * x)
    return (A1, A2, A3), kit.root(x + y + z), kit.root(d13 * d23) * A3, d12, d13, d23


def separatrix(kit: Numbers, a: Sequence[Any], L: Sequence[Any], side: Any) -> tuple[Orbit, Any]:
    """The same where the gap is 0, and tanh u at first."""
    (A1, A2, A3), length, rate, *_ = sizes(kit, a, L, side)
    none = length * 0
    return Orbit((A1, A2, A3), length, side, rate, kit.half(a[1] * length), none + 1, none), L[1] / A2


def elliptic(o: Start, wave: Wave, terms: int) -> tuple[tuple[Any, Any, Any], Wave]:
    """(L, the turn as a complex number), at a phase v: thetas by their series in powers of the nome."""
    (c, s), q, x = wave, o.nome, o.shift
    one, none = c * 0 + 1, c * 0
    by = turned(wave, wave)
    n = even = odd = turn = one, none
    two = three = four = q * 0 + 1  # at 0
    dn = bottom = one
    power, square, up, down, sign = two, two, two, two, 1
    for _ in range(terms):
        n = turned(n, by)  # exp(2inv)
        down = down * power * power * x
        before, power, sign = power, power * q, -sign
        square, up = square * before * power, up * power * (power / x)  # q^(n²), q^(n(n+1))/x^n
        between = square * power
        even = even[0] + between * n[0], even[1] + between * n[1]
        odd = odd[0] + sign * between * n[0], odd[1] + sign * between * n[1]
        dn, bottom = dn + 2 * square * n[0], bottom + 2 * sign * square * n[0]
        turn = turn[0] + sign * (up + down) * n[0], turn[1] + sign * (down - up) * n[1]
        two, three, four = two + between, three + 2 * square, four + 2 * sign * square
    A1, A2, A3 = o.sizes
    cn, sn = (even[0] * c - even[1] * s) * four / two, (odd[0] * s + odd[1] * c) * three / two
    return (A1 * cn / bottom, A2 * sn / bottom, A3 * (dn * four / three) / bottom), turn


def turned(one: Wave, other: Wave) -> Wave:
    """The wave of the sum of two angles."""
    return one[0] * other[0] - one[1] * other[1], one[0] * other[1] + one[1] * other[0]


def once_over(kit: Any, o: Start, tanh: Any, u: Any) -> tuple[tuple[Any, Any, Any], Wave]:
    """The same on the separatrix, u after a time at which tanh was this."""
    e = kit.exp(-abs(u))
    later = (1 - e * e) / (1 + e * e)
    later = -later if u < 0 else later
    bottom = 1 + tanh * later
    sn = (tanh + later) / bottom
    cn = kit.root((1 - tanh) * (1 + tanh)) * 2 * e / (1 + e * e) / bottom  # without the difference 1 - sn²
    A1, A2, A3 = o.sizes
    return (A1 * cn, A2 * sn, A3 * cn), (A3, -A1 * sn)


def half(kit: Any, c: Any, s: Any) -> Wave:
    """Cosine and sine of half the angle of a complex number, less than a quarter turn from 1."""
    size = kit.root(c * c + s * s)
    cosine = kit.root((1 + c / size) / 2)
    return cosine, s / size / (2 * cosine)


def pose(kit: Any, L: Sequence[Any], length: Any) -> Four:
    """The turn from a frame whose third axis is along L, and whose first is near that of the body."""
    high = kit.root(L[1] * L[1] + L[2] * L[2])
    ca, sa = half(kit, L[2], -L[1])
    cb, sb = half(kit, high, L[0])
    return ca * cb, sa * cb, ca * sb, sa * sb


def times(a: Sequence[Any], b: Sequence[Any]) -> Four:
    """The product of quaternions."""
    w, x, y, z = a
    s, t, u, v = b
    return (
        w * s - x * t - y * u - z * v, w * t + x * s + y * v - z * u,
        w * u - x * v + y * s + z * t, w * v + x * u - y * t + z * s,
    )  # fmt: skip


def relative(
    kit: Any, o: Start, first: tuple[Sequence[Any], Wave], now: tuple[Sequence[Any], Wave], by: Wave
) -> Four:
    """The turn of the body since the first time, as a quaternion; `by` is the wave of the mean speed."""
    (L0, turn0), (L, turn) = first, now
    (c0, s0), (c1, s1) = half(kit, *turn0), half(kit, *turn)
    w, z = turned(by, (c1 * c0 + s1 * s0, o.side * (s1 * c0 - c1 * s0)))
    a, b, d, e = pose(kit, L, o.length)
    start = pose(kit, L0, o.length)
    f, g, h, i = start
    return times((f * w - i * z, g * w + h * z, h * w - g * z, i * w + f * z), (a, -b, -d, -e))


def carried(kind_half: bool, x: Sequence[Any], by: Four) -> Sequence[Any]:
    """An attitude (w, x, y, z), or a vector that is fixed in space as the body sees it, after a turn of the body."""
    if kind_half:
        return times(x, by)
    w, a, b, c = by
    p, q, r = x
    # v - 2w (u x v) + 2 u x (u x v), with the turn undone
    s, t, u = b * r - c * q, c * p - a * r, a * q - b * p
    return (
        p - 2 * (w * s - (b * u - c * t)), q - 2 * (w * t - (c * s - a * u)), r - 2 * (w * u - (a * t - b * s)),
    )  # fmt: skip


def axes(
    inverse: Sequence[Any], L: Sequence[Any]
) -> tuple[tuple[int, int, int], tuple[int, int, int], int, Any]:
    """(numbers of the axes, their signs, side, gap) of one body, in numbers that are compared exactly."""
    high, middle, low = sorted(range(3), key=lambda k: -inverse[k])
    gap = (inverse[middle] - inverse[low]) * L[low] ** 2 - (inverse[high] - inverse[middle]) * L[high] ** 2
    order, side = ((high, middle, low), 1) if gap > 0 else ((low, middle, high), -1)
    first = 1 if order in CYCLES else -1
    other = -1 if L[order[2]] < 0 else 1
    if not gap and first * L[order[0]] < 0:  # there it stays on one side of the first axis too
        return order, (-first, -other, other), side, gap
    return order, (first, other, other), side, abs(gap)
