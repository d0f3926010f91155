"""How does a contact energy move its states?  q' = dH/dp, p' = -dH/dq - p dH/ds, s' = p.dH/dp - H."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinyphysics.ir import UOp
from tinyphysics.poisson import Matrix, Slope, Structure


@dataclass(frozen=True, eq=False)
class Contact(Structure):
    """Positions, momenta and a number s: the form ds - p.dq is multiplied by a factor, and H' = -H dH/ds."""

    q: UOp
    p: UOp
    s: UOp
    bracket = "contact"
    roles = ("position", "momentum", "action")
    claims = ("contact", "symmetric", "reversible", "consistent")
    facts = ("linked", "explicit time", "smooth", "units")
    families = ("contact", "Taylor", "embedded")
    unasked = "its states are positions, momenta and s"
    keeps_energy = False
    measured = "|Mᵀη' - f η|"

    @classmethod
    def of(cls, groups: Sequence[tuple[UOp, ...]], tensor: tuple[UOp, ...] = ()) -> Contact:
        ((q, p, s),) = groups
        return cls(q, p, s)

    @property
    def states(self) -> tuple[UOp, ...]:
        return self.q, self.p, self.s

    def partner(self, state: UOp) -> UOp | None:
        return {self.q: self.p, self.p: self.q}.get(state)

    def flow(self, slopes: Mapping[UOp, Slope]) -> list[tuple[UOp, Slope, str]]:
        return []

    def rates_by(self, energy: UOp, slopes: Mapping[UOp, UOp]) -> dict[UOp, UOp]:
        q, p, s = self.states
        v, g = slopes[p], slopes[s]
        lost = p * g.expand(p.shape)
        return {q: v, p: -slopes[q] - lost, s: (p * v).sum() - energy if p.shape else p * v - energy}

    def mirror(self) -> dict[UOp, UOp]:
        return {self.p: -self.p, self.s: -self.s}

    def defect(
        self, M: Matrix, at: Mapping[UOp, int], z: Sequence[Any], new: Sequence[Any]
    ) -> Iterator[tuple[int, int, list[Any], Any]]:
        """The form ds - p.dq pulled back, and a multiple of itself, by the factor that ds has."""
        n, q, p, s = self.q.size, at[self.q], at[self.p], at[self.s]

        def pulled(a: int) -> list[Any]:
            return [M[s][a], *(-new[p + k] * M[q + k][a] for k in range(n))]

        factor = sum(pulled(s))
        for k in range(n):
            yield q + k, s, pulled(q + k), -z[p + k] * factor
            yield p + k, s, pulled(p + k), 0
