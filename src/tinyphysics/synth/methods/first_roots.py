"""When does a polynomial first fall through zero?  In closed form up to degree 2; beyond, the root is approached from below.

From a time at which the polynomial is b0 + b1 s + b2 s² + ... with b0 > 0, it stays above
R(s) = b0 - |b1⁻| s - |b2⁻| s² - ..., where b⁻ is what is negative. R falls and is concave, so it has one root: Newton's
method comes down to it from beyond, and the chord from s = 0 to such a point crosses zero in front of it. No root is passed,
however near to each other two of them are; near a simple root the steps shorten as those of Newton's method.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir import UOp

FAR = 1e30
LOOKS, NEWTON = 2, 2  # Taylor shifts in one round, and steps towards the root of each bound
ROUNDED = 4.0  # roundings of the sum of all terms: a value that is less, at the end of the time, is zero


def const(x: float) -> UOp:
    return UOp.const(x)


def first_fall(c0: UOp, c1: UOp, c2: UOp) -> UOp:
    """The first t >= 0 at which c0 + c1 t + c2 t² falls through zero, without a difference of nearly equal numbers.

    Where it is not above zero and rises, it must come back first: so a state that a bounce left a rounding behind the wall
    does not bounce twice.
    """
    inside = c1 * c1 - (4.0 * c0) * c2
    root = inside.maximum(0.0).sqrt()
    falling = ((2.0 * c0) / (root - c1)).maximum(0.0)
    later = (c1 + root) / (-2.0 * c2)
    return (c1 < 0.0).where((inside < 0.0).where(FAR, falling), (c2 < 0.0).where(later, FAR))


def shifted(c: Sequence[UOp], t: UOp) -> list[UOp]:
    """The coefficients of the same polynomial about t, by synthetic division."""
    b = list(c)
    for j in range(len(b) - 1):
        for k in range(len(b) - 2, j - 1, -1):
            b[k] = b[k + 1].fma(t, b[k])
    return b


def bound(b0: UOp, falls: Sequence[UOp], s: UOp) -> tuple[UOp, UOp]:
    """(R, its slope) at s."""
    r, slope = const(0.0), const(0.0)
    for x in reversed(falls):
        slope = slope.fma(s, r)
        r = r.fma(s, x)
    return b0 - r * s, -(slope.fma(s, r))


def horner(c: Sequence[UOp], t: UOp) -> UOp:
    out = c[-1]
    for x in reversed(c[:-1]):
        out = out.fma(t, x)
    return out


def root_of(x: UOp, k: int) -> UOp:
    """About the k-th root: where one looks first need not be exact."""
    return x if k == 1 else x.sqrt() if k in (2, 3) else x.sqrt().sqrt() if k < 7 else x.sqrt().sqrt().sqrt()


def approach(
    c: Sequence[UOp], at_zero: UOp, within: UOp, tiny: UOp, rounding: float = 2.0**-52
) -> tuple[UOp, UOp]:
    """(a time before which no root of c0 + c1 t + ... is passed, is it one to rounding?); FAR where there is none in time.

    Where it is at zero that root is divided off, and the next one is meant; where it falls there, that is now.
    """
    p = [at_zero.where(b, a) for a, b in zip(c, [*c[1:], const(0.0)])]
    sizes = [abs(x) for x in p]
    t, before, sure, none = const(0.0), const(0.0), const(0.0) > 1.0, const(0.0) > 1.0
    for _ in range(LOOKS):
        b0, *rest = shifted(p, t)
        falls = [(-x).maximum(0.0) for x in rest]
        left = (within - t).maximum(0.0)
        s = left
        for k, x in enumerate(falls, 1):
            there = x > 0.0
            ratio = there.where(b0.maximum(0.0) / there.where(x, 1.0), FAR)
            s = s.minimum(root_of(ratio, k))
        for _ in range(NEWTON):
            r, slope = bound(b0, falls, s)
            below = r < 0.0
            s = below.where(s - r / below.where(slope, -1.0), s)
        r, _ = bound(b0, falls, s)
        out = r <= (ROUNDED * rounding) * horner(sizes, t + s)
        lost = b0 <= 0.0
        none = ~lost & ~out & (s >= left)
        short = lost.where(0.0, (r < 0.0).where(s * (b0 / (r < 0.0).where(b0 - r, 1.0)), s))
        sure = ~none & (short <= tiny)
        before, t = t, t + short
    # what is not sure ends where it was seen to be above zero: the last step may have come to the root to rounding
    return none.where(FAR, sure.where(t, before)), none | sure
