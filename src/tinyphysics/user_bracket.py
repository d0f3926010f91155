"""What is a bracket that a user writes?  z' = J(z) dH with a matrix J of the state, which must be skew and obey Jacobi."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tinyphysics.ir import UOp, elements, substitute
from tinyphysics.poisson import ANY_RATES, Evaluate, Poisson, Words


@dataclass(frozen=True, eq=False)
class UserBracket(Poisson):
    """z' = J(z) dH, of one vector of states."""

    z: UOp
    J: UOp
    by_numbers: Evaluate | None = None  # how J is evaluated, where its defect is measured
    bracket = "poisson"
    roles = ("poisson",)
    claims = ("poisson", "casimirs", "symmetric", "consistent")
    facts = ("linked", "bracket", "explicit time", "smooth", "units")
    unasked = "its bracket is written by a user: no states are positions and momenta"

    @classmethod
    def of(cls, groups: Sequence[tuple[UOp, ...]], tensor: tuple[UOp, ...] = ()) -> UserBracket:
        ((z,),), (J,) = groups, tensor
        return cls(z, J)

    @property
    def families(self) -> Words:  # type: ignore[override]
        """Exact pieces where there are; what keeps a constant J, or the energy where J depends on the state."""
        solved = "collocation", "discrete gradient"
        return "pieces", *(solved if self.z not in self.J.leaves else solved[::-1]), *ANY_RATES

    @property
    def states(self) -> tuple[UOp, ...]:
        return (self.z,)

    @property
    def reads_as(self) -> Mapping[str, str]:
        """Where J is constant, what keeps J of positions and momenta keeps it, and linear Casimirs too."""
        return {} if self.z in self.J.leaves else {"poisson": "symplectic", "casimirs": "symplectic"}

    def rates(self, slopes: Mapping[UOp, UOp]) -> dict[UOp, UOp]:
        n = self.z.size
        return {self.z: (self.J * slopes[self.z].reshape(1, n).expand((n, n))).sum(-1)} if slopes else {}

    def evaluated(self, by: Evaluate) -> UserBracket:
        return replace(self, by_numbers=by)

    def matrix(self, z: Sequence[Any]) -> list[list[Any]]:
        n = self.z.size
        at = dict(zip(elements(self.z), z))
        if all(isinstance(x, UOp) for x in z):
            (J,) = substitute([self.J], {self.z: UOp.stack(list(z))})
            return [[J[i, j] for j in range(n)] for i in range(n)]
        assert self.by_numbers is not None, "what is measured is evaluated by numbers"
        flat = self.by_numbers(self.J, at)
        return [list(flat[i * n : (i + 1) * n]) for i in range(n)]
