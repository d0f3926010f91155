"""By which factors is the step of a symmetric second-order method repeated to reach a higher order?"""
from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

from tinyphysics.step import Weight

DIGITS = Context(prec=60)  # of coefficients that are no fractions


def triple_jump(order: int) -> tuple[Weight, Weight, Weight]:
    """The weights that raise a symmetric method from an even order to the next.

    Yoshida 1990, Phys. Lett. A 150, 262; the negative middle step is the price of order 4.

    >>> [round(w, 3) for w in triple_jump(4)]
    [1.351, -1.702, 1.351]
    """
    root = DIGITS.power(Decimal(2), DIGITS.divide(Decimal(1), Decimal(order - 1)))
    exact = Fraction(DIGITS.divide(Decimal(1), DIGITS.subtract(Decimal(2), root)))
    w = Weight(1 / (2 - 2 ** (1 / (order - 1))), exact)
    return w, 1 - 2 * w, w


def rounded(exact: Fraction) -> Weight:
    return Weight(float(exact), exact)


def mirrored(half: tuple[str, ...], middle: str) -> tuple[Weight, ...]:
    """A palindrome from its first half and its middle weight, each rounded once."""
    first = tuple(rounded(Fraction(w)) for w in half)
    return (*first, rounded(Fraction(middle)), *reversed(first))


# Kahan and Li 1997, Math. Comp. 66, 1089 (order 6 with 9 stages, order 8 with 17)
KAHAN_LI_6 = (
    "0.39216144400731413927925056", "0.33259913678935943859974864", "-0.70624617255763935980996482",
    "0.08221359629355080023149045",
), "0.79854399093482996339895035"  # fmt: skip
KAHAN_LI_8 = (
    "0.13020248308889008087881763", "0.56116298177510838456196441", "-0.38947496264484728640807860",
    "0.15884190655515560089621075", "-0.39590389413323757733623154", "0.18453964097831570709183254",
    "0.25837438768632204729397911", "0.29501172360931029887096624",
), "-0.60550853383003451169892108"  # fmt: skip

COMPOSITION: dict[str, tuple[float, ...]] = {
    "leapfrog": (1.0,),
    "yoshida4": triple_jump(4),
    "kahan_li6": mirrored(*KAHAN_LI_6),
    "kahan_li8": mirrored(*KAHAN_LI_8),
}


def residuals(weights: tuple[float, ...], order: int) -> list[float]:
    """Sum w = 1 and sum w**3 = sum w**5 = ... = 0: necessary for a symmetric composition of that order.

    >>> max(map(abs, residuals(COMPOSITION["kahan_li8"], 8))) < 1e-15
    True
    """
    exact = [Fraction(w) for w in weights]
    return [float(sum(w**k for w in exact) - (k == 1)) for k in range(1, order, 2)]
