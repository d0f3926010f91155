"""How good is a scheme?  Its leading error for its price, and what an accuracy costs on three problems."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinyphysics.synth.coefficients.conditions import Conditions, Structure

Moves = Sequence[tuple[str, float]]


def leading_error(moves: Moves, structure: Structure, orders: tuple[int, ...]) -> float:
    """The norm of the first errors that do not vanish, in the Lyndon basis."""
    return math.hypot(
        *Conditions(structure, orders, leading=True).residuals([(part, float(w)) for part, w in moves])
    )


def effective_error(moves: Moves, structure: Structure, order: int, kicks: int) -> float:
    """Kicks times the order-th root of the leading error: at equal work the error is its order-th power.

    >>> from tinyphysics.synth.coefficients.conditions import RKN
    >>> from tinyphysics.synth.coefficients.schemes import drifts_and_kicks
    >>> round(effective_error(drifts_and_kicks("yoshida4"), RKN, 4, 3), 3)
    1.222
    """
    return float(kicks * leading_error(moves, structure, (order,)) ** (1 / order))


# What `effective_error` gives for each method: (T quadratic in p, any T). Orders 8 and 10 take seconds, so they are
# kept here; test/unit/test_schemes.py computes them again.
EFFECTIVE: dict[str, tuple[float, float]] = {
    "leapfrog_kdk": (0.3052, 0.3052),
    "leapfrog_dkd": (0.3052, 0.3052),
    "yoshida4": (1.2277, 1.2282),
    "suzuki4": (0.9998, 1.0681),
    "mclachlan4": (0.5542, 0.5947),
    "blanes_moan4": (0.5390, 0.5664),
    "blanes_moan_nystrom4": (0.2817, 0.7006),
    "nystrom4": (0.3257, 0.7066),
    "yoshida6": (2.1219, 2.1584),
    "kahan_li6": (1.9031, 1.9413),
    "blanes_moan6": (1.3635, 1.3719),
    "blanes_moan_nystrom6": (0.6955, math.inf),
    "blanes_moan_nystrom6_14": (0.6803, math.inf),
    "nystrom6": (0.8051, math.inf),
    "kahan_li8": (3.1097, 3.3262),
    "nystrom8": (2.5590, math.inf),
    "sofroniou_spaletta10": (5.0439, 5.4737),
}

# Force evaluations per unit of time for an error of 1e-9 on Hénon–Heiles, Kepler and pendulum, as tools/measure_methods.py
# prints them. The norm above gives every bracket the same size, and in a problem they differ by orders of magnitude: what
# a method with T quadratic in p costs is measured, and the norm is left for a T of which nothing is known.
WORK: dict[str, tuple[float, float, float]] = {
    "yoshida4": (588.5, 2466.5, 486.3),
    "suzuki4": (344.4, 1151.5, 395.8),
    "mclachlan4": (194.5, 1067.3, 218.9),
    "blanes_moan4": (169.7, 632.1, 238.4),
    "blanes_moan_nystrom4": (148.7, 398.6, 133.7),
    "nystrom4": (122.1, 319.9, 108.4),
    "yoshida6": (165.3, 473.8, 136.9),
    "kahan_li6": (146.0, 352.6, 124.5),
    "blanes_moan6": (59.1, 376.5, 75.2),
    "blanes_moan_nystrom6": (44.9, 246.0, 53.6),
    "blanes_moan_nystrom6_14": (43.2, 183.9, 39.7),
    "nystrom6": (38.1, 143.9, 36.1),
    "kahan_li8": (74.7, 166.4, 63.1),
    "nystrom8": (45.3, 146.6, 41.5),
    "sofroniou_spaletta10": (58.4, 203.9, 78.8),
}


def price(name: str, quadratic: bool) -> float:
    """What methods of one order are compared by: the geometric mean of their work, or for any T the effective error."""
    if quadratic:
        return math.prod(WORK[name]) ** (1 / 3) if name in WORK else math.inf
    return EFFECTIVE.get(name, (math.inf, math.inf))[1]


def told(name: str, quadratic: bool) -> str:
    """The price in words.

    >>> told("kahan_li8", True)
    '92 force evaluations a unit of time for 1e-9 on the test problems'
    """
    if math.isinf(price(name, quadratic)):
        return "not compared with the others"
    if quadratic:
        return f"{price(name, True):.0f} force evaluations a unit of time for 1e-9 on the test problems"
    return f"effective error {price(name, False):.2f}"
