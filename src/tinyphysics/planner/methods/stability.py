"""How long may a step be?  The largest omega*dt for which a method keeps an oscillator bounded, from its own step matrix.

For H = p*p/2 + q*q/2 a step of length x is a matrix of determinant 1, so powers of it stay bounded as long as
|trace| <= 2. What a Runge-Kutta method multiplies exp(ix) by stays bounded as long as it is no larger than 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyphysics.synth.methods.rungekutta import Tableau

PARTS = ("T", "V", "W")  # drifts, kicks, and kicks by [V, [T, V]] with weight*dt**3
GRID = 1 / 256  # of omega*dt: what happens between two points is looked for where the bound is near
LONGEST = 64.0  # no method of n stages is stable beyond 2n, and few have more than this many
ROUNDING = 1e-12  # of a product of some dozens of matrices


def half_trace(sequence: Sequence[tuple[str, float]], x: float) -> float:
    """Half the trace of the step matrix; cos(x) for an exact flow.

    >>> half_trace([("V", 0.5), ("T", 1.0), ("V", 0.5)], 2.0)
    -1.0
    """
    q, p = (1.0, 0.0), (0.0, 1.0)  # rows of the matrix
    for part, weight in sequence:
        w = float(weight)  # a plain number: a weight that knows more digits is slow
        h = w * x if part != "W" else -2 * w * x**3  # of an oscillator, [V, [T, V]] is -q*q
        if part == "T":
            q = (q[0] + h * p[0], q[1] + h * p[1])
        else:
            p = (p[0] - h * q[0], p[1] - h * q[1])
    return (q[0] + p[1]) / 2


def amplification(tableau: Tableau, x: float) -> float:
    """By how much a Runge-Kutta step of length x makes the oscillation exp(ix) larger."""
    slopes: list[complex] = []
    for weights in tableau.a:
        slopes.append(1j * x * (1 + sum(w * k for w, k in zip(weights, slopes))))
    return abs(1 + sum(b * k for b, k in zip(tableau.b, slopes)))


def first_crossing(excess: Callable[[float], float]) -> float:
    """The largest x up to which excess(x) <= 0 from 0 on.

    A bound that is only touched, or crossed in a window narrower than the grid, shows as a maximum near 0.
    """
    before, here = excess(GRID), excess(2 * GRID)
    if before > ROUNDING:
        return 0.0
    for k in range(2, round(LONGEST / GRID)):
        x, after = k * GRID, excess((k + 1) * GRID)
        top = x
        if here >= before and here >= after:
            top = highest(excess, x - GRID, x + GRID)
        if excess(top) > ROUNDING:
            return bisected(excess, x - GRID, top)
        before, here = here, after
    return LONGEST


def highest(f: Callable[[float], float], a: float, b: float) -> float:
    """Where f is largest between a and b, by thirds."""
    while b - a > 1e-9:
        left, right = a + (b - a) / 3, b - (b - a) / 3
        if f(left) < f(right):
            a = left
        else:
            b = right
    return (a + b) / 2


def bisected(f: Callable[[float], float], good: float, bad: float) -> float:
    while bad - good > 1e-12 * bad:
        middle = (good + bad) / 2
        if not good < middle < bad:
            break
        good, bad = (good, middle) if f(middle) > 0 else (middle, bad)
    return good


def of_splitting(sequence: Sequence[tuple[str, float]]) -> float:
    """Leapfrog: 2. Of a symmetric composition of it with negative weights: less than its stages would let hope."""
    return first_crossing(lambda x: abs(half_trace(sequence, x)) - 1)


def of_tableau(tableau: Tableau) -> float:
    """0 where every step makes oscillations larger, however short it is."""
    return first_crossing(lambda x: amplification(tableau, x) - 1)
