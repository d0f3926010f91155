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


# Kahan and Li 1997, Math. Comp. 66, 1089 (order 6 with 9 stages, order 8 with 17); their 26 digits continued to the
# solution of the order conditions beside them, so that they are enough for a run with 32 digits
KAHAN_LI_6 = (
    (
        "0.392161444007314139279250557422671404567677126",
        "0.332599136789359438599748637500049645921909675",
        "-0.706246172557639359809964819549256459420859369",
        "0.082213596293550800231490448102056331325576988",
    ),
    "0.798543990934829963398950353048958155211391159",
)
KAHAN_LI_8 = (
    (
        "0.130202483088890080878817632096700553878201675",
        "0.561162981775108384561964407700150567539026157",
        "-0.389474962644847286408078598235248466891736587",
        "0.158841906555155600896210745707152466821590499",
        "-0.395903894133237577336231539347938874115514152",
        "0.184539640978315707091832541533375435296811863",
        "0.258374387686322047293979109994939446248644388",
        "0.295011723609310298870966240218228165004297805",
    ),
    "-0.605508533830034511698921079334718587562643298",
)

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
