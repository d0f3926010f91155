"""What do functions become under math="fast"?  Short programs that begin with what a machine has at once.

An instruction gives y, near 1/sqrt x: then x y**2 = 1 - e, and y (1 - e)**-1/2 is a short series in e. How short depends
on the machine, so bits do too; how near the result is does not, and is stated here. Where a machine's instruction is not
for an x, the result is infinite or NaN, and the kernel repeats exactly (rules/functions/transcendental.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction
from functools import lru_cache

from tinyphysics.ir import Ops, PatternMatcher, UOp, UPat, toposort
from tinyphysics.ir.dtype import f32, f64
from tinyphysics.rules.digits.floats import DOUBLE, estrin, flipped, format_of
from tinyphysics.rules.functions import transcendental
from tinyphysics.rules.functions.transcendental import Condition, everywhere, near_only
from tinyphysics.rules.functions.trig import nearest, nearest_half
from tinyphysics.target import Seed

# The largest error in units in the last place, (float64, float32), on every machine; test_fast.py measures this one's
# fmt: off
BOUNDS: dict[str, tuple[float, float]] = {
    "1/sqrt(x)": (1.0, 4.0),
    "x**-1.5":   (2.0, 12.0),
    "sqrt(x)":   (2.0, 4.0),  # where 1/sqrt(x) is needed too
    "sin":       (3.5, 3.0),
    "cos":       (3.5, 3.0),
    "x/y":       (1.5, 1.5),  # where y is a number or made of parameters
}
# fmt: on
# of sin and cos, absolutely: where they are almost 0 this is more than those
NEAR_ZERO = (2.0**-76, 2.0**-31)
WANTED = (2.0**-53, 2.0**-20.7)  # the largest relative error that a series may leave

# on [-1, 1], a power is nearly a sum of lower ones: x**5 = 5/4 x**3 - 5/16 x + T5(x)/16; the last number is what is left.
# A constant is one rounding more, which float64 would feel and needs for no seed: 4 has none.
INSTEAD: dict[int, tuple[dict[int, float], float]] = {
    1: ({}, 1.0),
    2: ({0: 1 / 2}, 1 / 2),
    3: ({1: 3 / 4}, 1 / 4),
    4: ({2: 0.8284}, 0.1716),
    5: ({3: 5 / 4, 1: -5 / 16}, 1 / 16),
}


@lru_cache(maxsize=32)
def series(power: Fraction, reach: float, wanted: float) -> tuple[float, ...]:
    """(1 - e)**-power for |e| <= reach, as few coefficients as leave a relative error of `wanted`.

    >>> series(Fraction(1, 2), 2.0**-10, 2.0**-20.7)
    (1.0000001788139343, 0.5)
    """
    c = [Fraction(1)]
    while len(c) <= max(INSTEAD):
        c.append(c[-1] * (power + len(c) - 1) / len(c))
    for first in sorted(INSTEAD):  # of the powers that are left out
        lower, left = INSTEAD[first]
        if float(c[first]) * reach**first * left <= wanted:
            return tuple(
                float(c[k]) + float(c[first]) * lower.get(k, 0.0) * reach ** (first - k) for k in range(first)
            )
    raise AssertionError(f"no series is short enough for a seed that is off by {reach}")


# --- roots -----------------------------------------------------------------------------------------
def seeded(x: UOp, seed: Seed, told: bool) -> UOp:
    """About 1/sqrt x; with `told` not finite where it is not for x, else possibly 0 there."""
    if seed.name:
        return UOp(Ops.RSQRT_ESTIMATE, x.dtype, x.shape, (x,), (seed.name, told))
    if x.dtype is f32:
        return 1.0 / x.sqrt()
    a = x.cast(f32)
    return (a.sqrt() * (1.0 / a)).cast(f64)  # NaN where float32 does not hold x


def inverse_root(x: UOp, cubed: bool, seed: Seed, told: bool = True) -> tuple[UOp, UOp]:
    """(x**-0.5 or x**-1.5, where it must not be used); the seed has so few digits that its square is exact, or float32.

    Where the seed is not for x, or x**-1.5 leaves the range, the result is infinite or NaN, and that is the condition.
    A seed that says nothing of an x beyond it leaves a finite number, and is found out by e instead: it goes through
    float32, so that nothing made of it leaves float64's range.
    """
    wide = format_of(x) is DOUBLE
    y, reach = seeded(x, seed, told), seed.double if wide else seed.single
    u = y * y
    first = y * u if cubed else y
    c = series(Fraction(3 if cubed else 1, 2), reach, WANTED[0 if wide else 1])
    if len(c) == 1:
        return first, (first - first).ne(0.0)
    e = (-x).fma(u, 1.0)
    out = first * estrin(c, e) if c[0] != 1.0 else (first * e).fma(estrin(c[1:], e), first)
    if wide and seed.silent and not told:
        return out, ~(e * e <= (1.5 * reach) ** 2)  # also where e is NaN
    return out, (out - out).ne(0.0)


def is_root(u: UOp) -> bool:
    """Is it one of those two?"""
    cube = u.op is Ops.POW and u.src[1].op is Ops.CONST and u.src[1].arg == -1.5
    return u.dtype.is_float and (cube or u.op is Ops.RSQRT)


# --- sine and cosine -------------------------------------------------------------------------------
def sin(x: UOp) -> UOp:
    return by_pi(x, *nearest(x))


def cos(x: UOp) -> UOp:
    return by_pi(x, *nearest_half(x))


def by_pi(x: UOp, k: UOp, parity: UOp) -> UOp:
    """As rules/functions/trig.py does it, with two words of pi and one coefficient less."""
    F = format_of(x)
    pi, c = F["pi"], F["sin_short"]
    r = k.fma(-pi[1], k.fma(-pi[0], x))
    u = r * r
    r = flipped(r, parity << (F.dtype.bits - 1))
    return (r * u).fma(u.fma(estrin(c[1:], u), c[0]), r)


# --- all of them -----------------------------------------------------------------------------------
x, y = UPat.var("x"), UPat.var("y")


@lru_cache(maxsize=8)
def table(seed: Seed, told: bool) -> PatternMatcher:
    def cube(x: UOp, y: UOp) -> UOp | None:
        return inverse_root(x, True, seed, told)[0] if is_root(x**y) else None

    return PatternMatcher([
        (x ** y,      cube),
        (x.rsqrt(),   lambda x: inverse_root(x, False, seed, told)[0]),
        (x.sin(),     sin),
        (x.cos(),     cos),
        *near_only,
        *everywhere,
    ])  # fmt: skip


@lru_cache(maxsize=8)
def fails(seed: Seed, cubed: bool, told: bool) -> Condition:
    """Where the seed failed; one function for each kind, because conditions are compared."""
    return lambda x: inverse_root(x, cubed, seed, told)[1]


def guarded(roots: Sequence[UOp], seed: Seed, seen: Collection[UOp] = ()) -> tuple[list[UOp], list[UOp]]:
    """As in rules/functions/transcendental.py, with the functions of this file."""
    told = bool(seen)

    def paths(roots: Sequence[UOp], seen: Collection[UOp]) -> list[tuple[UOp, Condition]]:
        own = dict.fromkeys(u for u in toposort(roots) if is_root(u))
        others = transcendental.fast_paths(roots, own)
        return [*others, *((u.src[0], fails(seed, u.op is Ops.POW, told)) for u in own if u not in seen)]

    return transcendental.guarded(roots, seen, table(seed, told), paths)
