"""How good is a scheme?  Its leading error for its price, and the longest step that an oscillator allows."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

from tinyphysics.synth.conditions import RKN, SPLITTING, Conditions, Structure
from tinyphysics.synth.schemes import BY_NAME, sequence, steps

Moves = Sequence[tuple[str, float]]


def leading_error(moves: Moves, structure: Structure, orders: tuple[int, ...]) -> float:
    """The norm of the first errors that do not vanish, in the Lyndon basis."""
    return math.hypot(*Conditions(structure, orders, leading=True).residuals(list(moves)))


def effective_error(moves: Moves, structure: Structure, order: int, kicks: int) -> float:
    """Kicks times the order-th root of the leading error: at equal work the error is its order-th power.

    >>> round(effective_error(drifts_and_kicks("yoshida4"), RKN, 4, 3), 3)
    1.222
    """
    return float(kicks * leading_error(moves, structure, (order,)) ** (1 / order))


def drifts_and_kicks(name: str, outer: str = "T") -> list[tuple[str, float]]:
    """A scheme as a sequence of drifts and kicks; a composition is one of leapfrogs with that part outside."""
    if BY_NAME[name].kind != "composition":
        return sequence(name)
    inner, w = "V" if outer == "T" else "T", steps(name)
    out = [(outer, w[0] / 2)]
    for k, x in enumerate(w):
        out += [(inner, x), (outer, (x + (w[k + 1] if k + 1 < len(w) else 0.0)) / 2)]
    return out


def of_scheme(name: str, quadratic: bool) -> float:
    """The effective error of a scheme for T(p) + V(q), with T quadratic in p or not."""
    s = BY_NAME[name]
    return effective_error(drifts_and_kicks(name), RKN if quadratic else SPLITTING, s.order, s.kicks)


# --- stability ----------------------------------------------------------------------------------
def half_trace(moves: Moves, h: float) -> float:
    """Of one step on q'' = -q: cos of the phase; beyond 1 the step grows."""
    a, b, c, d = 1.0, 0.0, 0.0, 1.0  # columns: what becomes of (q, p)
    for part, w in moves:
        if part == "T":
            a, b = a + h * w * c, b + h * w * d
        else:
            c, d = c - h * w * a, d - h * w * b
    return (a + d) / 2


GRID = 1 / 256
GROWS = 1e-9  # a trace above 1 by less is rounding


def stability_limit(moves: Moves) -> float:
    """The largest omega dt up to which no oscillator grows, looked for in steps of 1/256 and refined.

    >>> round(stability_limit([("V", 0.5), ("T", 1.0), ("V", 0.5)]), 3)
    2.0
    >>> round(stability_limit(drifts_and_kicks("yoshida4")), 3)
    1.573
    """
    def outside(h: float) -> float:
        return abs(half_trace(moves, h)) - 1 - GROWS

    low, values = 0.0, [outside(0.0), outside(GRID)]
    for k in range(2, 64 * 256):
        h = k * GRID
        values.append(outside(h))
        before, here, after = values[-3:]
        if here <= 0 and not (before < here > after and here > -1e-2) and after <= 0:
            low = h - GRID
            continue
        top = _peak(outside, h - 2 * GRID, h) if after <= 0 else h
        if outside(top) > 0:
            return _crossing(outside, low, top)
        low = h - GRID
    return math.inf


def _peak(f: Callable[[float], float], low: float, high: float) -> float:
    for _ in range(60):
        third = (high - low) / 3
        if f(low + third) < f(high - third):
            low += third
        else:
            high -= third
    return (low + high) / 2


def _crossing(f: Callable[[float], float], low: float, high: float) -> float:
    for _ in range(60):
        middle = (low + high) / 2
        if f(middle) > 0:
            high = middle
        else:
            low = middle
    return low


@cache
def limit_of(name: str, outer: str = "T") -> float:
    return stability_limit(drifts_and_kicks(name, outer))
