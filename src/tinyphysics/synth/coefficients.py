"""By which factors is the step of a symmetric second-order method repeated to reach a higher order?"""
from __future__ import annotations


def triple_jump(order: int) -> tuple[float, float, float]:
    """The weights that raise a symmetric method from an even order to the next.

    Yoshida 1990, Phys. Lett. A 150, 262; the negative middle step is the price of order 4.

    >>> [round(w, 3) for w in triple_jump(4)]
    [1.351, -1.702, 1.351]
    """
    w = 1 / (2 - 2 ** (1 / (order - 1)))
    return w, 1 - 2 * w, w


COMPOSITION: dict[int, tuple[float, ...]] = {
    2: (1.0,),
    4: triple_jump(4),
}
