"""How does an energy move a charge in a magnetic field?  q' = dH/dp, p' = -dH/dq + dH/dp x B, with the kinetic momentum p."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tinyphysics.ir import UOp, elements
from tinyphysics.ir.vectors import columns, cross, from_columns
from tinyphysics.poisson import ANY_RATES, BRACKET, Evaluate, Matrix, Poisson, Slope, starts

WEIGHTS = 2.0**-46  # what the rounding of the weights of a step may change in their sum
DAMPED = ("volume-factor", "symmetric", "reversible", "consistent")


def across(v: UOp, b: UOp) -> UOp:
    """v x B along the last axis; in a plane B is one number, along the axis that is not there."""
    if v.shape[-1] == 3:
        return cross(v, b)
    x, y = columns(v)
    return from_columns([y * b, -(x * b)])


@dataclass(frozen=True, eq=False)
class Magnetic(Poisson):
    """Charges in a field: momenta are kinetic, and their numbers do not commute: {p_x, p_y} = B_z."""

    pairs: tuple[tuple[UOp, UOp], ...]
    fields: tuple[UOp, ...]  # charge times B, where each pair is
    by_numbers: Evaluate | None = None  # how a field is evaluated, where its defect is measured
    bracket = "magnetic"
    roles = ("position", "momentum")
    claims = ("poisson", "volume-preserving", "symmetric", "reversible", "consistent")
    facts = ("linked", "separable", "T quadratic", "explicit time", "smooth", "units")
    families = ("pushers", "axes", *ANY_RATES)
    unasked = "p is the kinetic momentum of a charge in a magnetic field, whose numbers do not commute"

    @classmethod
    def of(cls, groups: Sequence[tuple[UOp, ...]], tensor: tuple[UOp, ...] = ()) -> Magnetic:
        return cls(tuple((q, p) for q, p in groups), tensor)

    @property
    def states(self) -> tuple[UOp, ...]:
        return tuple(x for pair in self.pairs for x in pair)

    @property
    def by(self) -> tuple[UOp, ...]:
        return (*(p for _, p in self.pairs), *(q for q, _ in self.pairs))

    def partner(self, state: UOp) -> UOp | None:
        return next((p if state is q else q for q, p in self.pairs if state is q or state is p), None)

    def rates(self, slopes: Mapping[UOp, UOp]) -> dict[UOp, UOp]:
        out: dict[UOp, UOp] = {}
        for (q, p), b in zip(self.pairs, self.fields):
            v, g = slopes.get(p), slopes.get(q)
            if v is not None:
                out[q] = v
            own = [] if v is None else [across(v, b)]
            own += [] if g is None else [-g]
            if own:
                out[p] = UOp.sum_of(own)
        return out

    def flow(self, slopes: Mapping[UOp, Slope]) -> list[tuple[UOp, Slope, str]]:
        """A drift is what it is without a field, and so is a kick."""
        positions = {q for q, _ in self.pairs}
        if not any(x in positions for x in slopes):
            return [(q, slopes[p], "pass") for q, p in self.pairs if p in slopes]
        if all(x in positions for x in slopes):
            return [(p, slopes[q], "negate") for q, p in self.pairs if q in slopes]
        rates = self.rates(slopes)  # type: ignore[arg-type]
        drifts = [(q, slopes[p], "pass") for q, p in self.pairs if p in slopes]
        return [*drifts, *((p, rates[p], BRACKET) for _, p in self.pairs if p in rates)]  # type: ignore[list-item]

    def evaluated(self, by: Evaluate) -> Magnetic:
        return replace(self, by_numbers=by)

    def matrix(self, z: Sequence[Any]) -> list[list[Any]]:
        out: list[list[Any]] = [[0] * len(z) for _ in z]
        at = dict(zip(self.states, starts(self.states)))
        assert self.by_numbers is not None, "what is measured is evaluated by numbers"
        here = dict(zip((e for s in self.states for e in elements(s)), z))
        for (q, p), b in zip(self.pairs, self.fields):
            field, axes = self.by_numbers(b, here), q.shape[-1]
            for k in range(q.size):
                out[at[q] + k][at[p] + k], out[at[p] + k][at[q] + k] = 1, -1
            for row in range(q.size // axes):
                own = at[p] + axes * row
                if axes == 2:
                    out[own][own + 1], out[own + 1][own] = field[row], -field[row]
                    continue
                x, y, w = field[3 * row : 3 * row + 3]
                for (i, j), c in zip(((1, 2), (2, 0), (0, 1)), (x, y, w)):
                    out[own + i][own + j], out[own + j][own + i] = c, -c
        return out


@dataclass(frozen=True, eq=False)
class DampedCharges(Magnetic):
    """The same with momenta that decay: no bracket is kept, and volumes by a factor."""

    claims = DAMPED  # type: ignore[assignment]
    families = ("pushers", *ANY_RATES)  # type: ignore[assignment]
    measured = "|det M - f|"
    called = "true to the factor of volumes"
    factor: Any = 1  # of volumes in the step that is measured

    def decayed(self, by: Sequence[Any]) -> DampedCharges:
        return replace(self, factor=math.prod(by))

    def defect(
        self, M: Matrix, at: Mapping[UOp, int], z: Sequence[Any], new: Sequence[Any]
    ) -> Iterator[tuple[int, int, list[Any], Any]]:
        found = determinant(M)
        yield 0, 0, [found], but_for_weights(found, self.factor)


def but_for_weights(found: Any, factor: Any) -> Any:
    """The factor of friction in the motion, or that of a step whose weights, which are rounded, do not add up to 1."""
    return found if abs(found - factor) <= WEIGHTS * abs(1 - factor) else factor


def determinant(M: Matrix) -> Any:
    """Of numbers, by elimination."""
    rows, out = [list(row) for row in M], 1
    for k in range(len(rows)):
        at = max(range(k, len(rows)), key=lambda i: abs(rows[i][k]))
        if at != k:
            rows[k], rows[at], out = rows[at], rows[k], -out
        out *= rows[k][k]
        if rows[k][k] == 0:
            return out
        for i in range(k + 1, len(rows)):
            by = rows[i][k] / rows[k][k]
            rows[i] = [a - by * b for a, b in zip(rows[i], rows[k])]
    return out
