"""The sum of n squared normal numbers, from a number of draws that is known beforehand: for many, a gamma variate.

An attempt of Marsaglia & Tsang (2000) is refused with a probability of 0.6 % at n = 10, and less above it. Each has its
address, whether it is looked at or not, so that what is drawn later does not depend on how many were refused. All eight are
refused in two of 10^18 draws at n = 10, of 10^30 at n = 300; then the number is 2 d = n - 2/3, near the middle of the law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from tinyphysics.ir import UOp

FEW = 9  # squares that are added up
ATTEMPTS = 8


@dataclass(frozen=True)
class SumOfSquares:
    count: int

    @property
    def draws(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """(kind, shape) of what it takes."""
        if self.count <= 0:
            return ()
        if self.count <= FEW:
            return (("normal", (self.count,)),)
        return (("normal", (ATTEMPTS,)), ("uniform", (ATTEMPTS,)))

    def value(self, drawn: Sequence[UOp]) -> UOp:
        if not drawn:
            return UOp.const(0.0)
        if len(drawn) == 1:
            (x,) = drawn
            return UOp.sum_of(x[k] * x[k] for k in range(self.count))
        d = self.count / 2 - 1 / 3
        found = UOp.const(2 * d)
        for k in reversed(range(ATTEMPTS)):
            normal, chance = (u[k] for u in drawn)
            root = 1.0 + normal * (1 / sqrt(9 * d))
            v = root * root * root
            positive = root > 0.0
            rest = 0.5 * normal * normal + d - d * v + d * positive.where(v, 1.0).log()
            accepted = positive & ((-chance).log1p() < rest)  # log of 1 - u, which is not 0
            found = accepted.where(2 * d * v, found)
        return found
