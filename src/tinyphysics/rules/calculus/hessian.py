"""What are the second derivatives of an energy of degree 2 or less, at given parameters?  Exact rational numbers.

The gradient is affine in the state, so it is read off once, for all rows. Cross terms of q and p, the linear part and
arrays of any shape are included.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tinyphysics.ir.uop import UOp
from tinyphysics.rules.calculus.affine import Affine, affine
from tinyphysics.rules.calculus.vjp import gradient

Row = dict[int, Any]  # {column: coefficient}, without the zeros


@dataclass(frozen=True)
class Hessian:
    """Rows and columns are the components of all positions, then those of all momenta."""

    rows: list[Row]
    linear: list[Any]

    @property
    def pairs(self) -> int:
        return len(self.rows) // 2

    def block(self, first: bool, second: bool) -> list[Row]:
        """Of (first, second), where False stands for positions and True for momenta."""
        n = self.pairs
        own, other = n * first, n * second
        return [
            {k - other: x for k, x in row.items() if other <= k < other + n}
            for row in self.rows[own : own + n]
        ]

    @property
    def mixes(self) -> bool:
        """Are there products of a position and a momentum?"""
        return any(self.block(False, True))

    def generator(self) -> list[list[Fraction]]:
        """A with (z, 1)' = A (z, 1): J times the Hessian and the linear part, and a row of zeros."""
        n, size = self.pairs, len(self.rows)
        out = []
        for i in range(size):
            other, sign = (i + n, 1) if i < n else (i - n, -1)
            row = [Fraction(0)] * (size + 1)
            for k, x in self.rows[other].items():
                row[k] = Fraction(sign * x)
            row[size] = Fraction(sign * self.linear[other])
            out.append(row)
        return [*out, [Fraction(0)] * (size + 1)]


def dense(rows: Sequence[Row], n: int) -> list[list[Fraction]]:
    nothing = Fraction(0)  # one object for most of them
    return [[Fraction(row[k]) if k in row else nothing for k in range(n)] for row in rows]


def unknowns(states: Sequence[UOp]) -> dict[str, Sequence[Any]]:
    """The numbers of some states as affine forms, counted through all of them."""
    count = itertools.count()
    return {str(u.arg): [Affine(0, {next(count): 1}) for _ in range(u.size)] for u in states}


def hessian(
    energy: UOp, q: Sequence[UOp], p: Sequence[UOp], parameters: Mapping[str, Sequence[float]]
) -> Hessian:
    """Of an energy whose degree was shown to be 2 at most; a NotAffine where a coefficient is not known exactly."""
    states = [*q, *p]
    forms = [
        form for part in affine(gradient(energy, states), {**parameters, **unknowns(states)}) for form in part
    ]
    return Hessian([form.terms for form in forms], [form.constant for form in forms])
