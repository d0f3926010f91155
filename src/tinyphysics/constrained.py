"""How does an energy move states that constraints hold?  As without them, on the positions with g(q) = 0.

Momenta are known up to Gᵀλ, with G = dg/dq: on g(q) = 0 the form dq∧dp does not see that part. So what a step keeps is
that form for directions along g(q) = 0, whatever they do to the momenta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tinyphysics.canonical import Canonical
from tinyphysics.ir import UOp, elements
from tinyphysics.poisson import Evaluate, Matrix

BRACKET = "constrained"
Slopes = Callable[[UOp, UOp], Sequence[Sequence[UOp]]]  # the derivatives of each number by those of a state


@dataclass(frozen=True, eq=False)
class Constrained(Canonical):
    """Pairs of positions and momenta, with functions of the positions that stay zero."""

    constraints: tuple[UOp, ...] = ()
    slopes: Mapping[UOp, Sequence[Sequence[UOp]]] | None = None  # of all of them, by each position
    by_numbers: Evaluate | None = None  # how these are evaluated
    bracket = BRACKET
    claims = ("symplectic", "symmetric", "reversible", "consistent")
    facts = (  # type: ignore[assignment]
        "linked", "Legendre", "separable", "T quadratic", "explicit time", "smooth", "even in p", "reads", "units",
    )  # fmt: skip
    families = ("constrained",)
    unasked = "its positions are held by constraints"
    measured = "|(MᵀJM - J) along g = 0|"
    settles = True

    @classmethod
    def of(cls, groups: Sequence[tuple[UOp, ...]], tensor: tuple[UOp, ...] = ()) -> Constrained:
        return cls(tuple((q, p) for q, p in groups), tensor)

    def differentiated(self, by: Slopes) -> Constrained:
        return replace(
            self, slopes={q: [row for g in self.constraints for row in by(g, q)] for q, _ in self.pairs}
        )

    def evaluated(self, by: Evaluate) -> Constrained:
        return replace(self, by_numbers=by)

    def rows(self, at: Mapping[UOp, int], z: Sequence[Any]) -> list[dict[int, Any]]:
        """G at a state, row by row: the number of each component of the positions, by its place in the state."""
        assert self.slopes is not None and self.by_numbers is not None
        known = {e: z[at[s] + k] for s in self.states for k, e in enumerate(elements(s))}
        out: list[dict[int, Any]] = [{} for _ in next(iter(self.slopes.values()))]
        for q, rows in self.slopes.items():
            for found, row in zip(out, rows):
                found |= {at[q] + k: self.by_numbers(u, known)[0] for k, u in enumerate(row)}
        return out

    def defect(
        self, M: Matrix, at: Mapping[UOp, int], z: Sequence[Any], new: Sequence[Any]
    ) -> Iterator[tuple[int, int, list[Any], Any]]:
        """dq∧dp of the images of two directions along g(q) = 0, and of these directions."""
        pairs = [(at[q] + k, at[p] + k) for q, p in self.pairs for k in range(q.size)]
        rows = self.rows(at, z)
        ways = []
        for q, p in pairs:
            ways += [along(rows, {q: 1}), {p: 1}]
        images = [{i: sum(row[k] * x for k, x in way.items()) for i, row in enumerate(M)} for way in ways]
        for a in range(len(ways)):
            for b in range(a):
                yield a, b, area(images[a], images[b], pairs), sum(area(ways[a], ways[b], pairs))


@dataclass(frozen=True, eq=False)
class HeatedConstrained(Constrained):
    """The same at a temperature: what a step keeps is the law exp(-H/k_B T) on g(q) = 0 and the momenta along it."""

    # no state says it: a system has a bath, and a listing has lines of one
    roles = ()  # type: ignore[assignment]
    claims = ("canonical", "symmetric", "consistent")  # type: ignore[assignment]
    families = ("bath along constraints",)
    unasked = "a bath is a part of its step"


def area(u: Mapping[int, Any], v: Mapping[int, Any], pairs: Sequence[tuple[int, int]]) -> list[Any]:
    """dq∧dp of two directions, pair by pair."""
    return [u.get(q, 0) * v.get(p, 0) - u.get(p, 0) * v.get(q, 0) for q, p in pairs]


def along(rows: Sequence[Mapping[int, Any]], way: Mapping[int, Any]) -> dict[int, Any]:
    """A direction of the positions without its part across g(q) = 0."""
    units: list[dict[int, Any]] = []
    for row in rows:
        left = without(row, units)
        size = sum(x * x for x in left.values()) ** 0.5
        units.append({k: x / size for k, x in left.items()})
    return without(way, units)


def without(way: Mapping[int, Any], units: Sequence[Mapping[int, Any]]) -> dict[int, Any]:
    out = dict(way)
    for _ in range(2):  # the second time takes off what rounding left
        for e in units:
            part = sum(out.get(k, 0) * x for k, x in e.items())
            out = {k: out.get(k, 0) - part * e.get(k, 0) for k in {*out, *e}}
    return out
