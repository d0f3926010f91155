"""With which coefficients are kicks with their force gradients put together?  (numerics: 17)

A row is (part, weight, gradient): a kick of weight*dt*V and gradient*dt**3*[V, [T, V]]. Only the first half of a
palindrome is written down, with its middle. Where T is quadratic, [V, [T, V]] is a function of the positions alone, so
that the kick is exact; with it order 4 needs no step backwards.
"""
from __future__ import annotations

from fractions import Fraction
from math import sqrt

Row = tuple[str, float, float]

ROOT = 1 / sqrt(3)


def rounded(digits: str) -> float:
    return float(Fraction(digits))


# Chin 1997, Phys. Lett. A 226, 344; 4A is also Suzuki's of 1995
CHIN_4A: tuple[Row, ...] = (("V", 1 / 6, 0), ("T", 1 / 2, 0), ("V", 2 / 3, 1 / 72))
CHIN_4B: tuple[Row, ...] = (("T", (1 - ROOT) / 2, 0), ("V", 1 / 2, (2 - sqrt(3)) / 48), ("T", ROOT, 0))
CHIN_4C: tuple[Row, ...] = (("T", 1 / 6, 0), ("V", 3 / 8, 0), ("T", 1 / 3, 0), ("V", 1 / 4, 1 / 192))
# Takahashi and Imada 1984, J. Phys. Soc. Jpn. 53, 3765: order 4 for a trace, or with a processor
TAKAHASHI_IMADA: tuple[Row, ...] = (("T", 1 / 2, 0), ("V", 1.0, 1 / 24))
# the one-parameter family of order 6 with five kicks, at the drift backwards of 1/4 where its error on Hénon–Heiles is least
FORCE_GRADIENT_6: tuple[Row, ...] = (
    ("T", rounded("0.36184008985416513379914237408497"), 0),
    ("V", rounded("0.011083749745459415510796304713772"), rounded("-0.00028685420412354918539970825786473")),
    ("T", -1 / 4, 0),
    ("V", rounded("0.27514181110740149101001036720995"), rounded("0.0013238869686698126762334886012167")),
    ("T", rounded("0.38815991014583486620085762591503"), 0),
    ("V", rounded("0.42754887829427818695838665615255"), rounded("0.0046982333455612493270165172764643")),
)
# exp(-dt**2 [T, V]/24) up to dt**4: weights a and b with a*b = 1/96, so that what is left of order 3 cancels
A, B = 1 / 12, 1 / 8
PROCESSOR = (("T", -A), ("V", B), ("T", 2 * A), ("V", -2 * B), ("T", -2 * A), ("V", B), ("T", A))


def with_gradients(half: tuple[Row, ...]) -> list[tuple[str, float]]:
    """The palindrome about the last row, its gradients as parts W beside their kicks.

    >>> with_gradients(TAKAHASHI_IMADA)
    [('T', 0.5), ('V', 1.0), ('W', 0.041666666666666664), ('T', 0.5)]
    """
    out: list[tuple[str, float]] = []
    for part, weight, gradient in (*half, *reversed(half[:-1])):
        out += [(part, weight), *([("W", gradient)] if gradient else [])]
    return out
