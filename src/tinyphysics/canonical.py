"""How does an energy move positions and momenta?  q' = dH/dp, p' = -dH/dq."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinyphysics.ir import UOp
from tinyphysics.poisson import Matrix, Slope, Structure, starts


@dataclass(frozen=True, eq=False)
class Canonical(Structure):
    """Pairs of positions and momenta: q' = dH/dp, p' = -dH/dq."""

    pairs: tuple[tuple[UOp, UOp], ...]
    roles = ("position", "momentum")
    words = ("pass", "negate")
    facts = (
        "linked", "Legendre", "separable", "waves and phases", "shears", "T quadratic", "polynomial", "quadratic",
        "explicit time", "smooth", "even in p", "reads", "pairs", "units",
    )  # fmt: skip

    @classmethod
    def of(cls, groups: Sequence[tuple[UOp, ...]], tensor: tuple[UOp, ...] = ()) -> Canonical:
        return cls(tuple((q, p) for q, p in groups))

    @property
    def states(self) -> tuple[UOp, ...]:
        return tuple(x for pair in self.pairs for x in pair)

    @property
    def by(self) -> tuple[UOp, ...]:
        return (*(p for _, p in self.pairs), *(q for q, _ in self.pairs))  # drifts are written before kicks

    def partner(self, state: UOp) -> UOp | None:
        return next((p if state is q else q for q, p in self.pairs if state is q or state is p), None)

    def flow(self, slopes: Mapping[UOp, Slope]) -> list[tuple[UOp, Slope, str]]:
        drift, kick = self.words
        moves = {p: (q, drift) for q, p in self.pairs} | {q: (p, kick) for q, p in self.pairs}
        return [(moves[x][0], slope, moves[x][1]) for x, slope in slopes.items()]

    def matrix(self, z: Sequence[Any]) -> list[list[Any]]:
        out: list[list[Any]] = [[0] * len(z) for _ in z]
        at = dict(zip(self.states, starts(self.states)))
        for q, p in self.pairs:
            for k in range(q.size):
                out[at[q] + k][at[p] + k], out[at[p] + k][at[q] + k] = 1, -1
        return out

    def mirror(self) -> dict[UOp, UOp]:
        return {p: -p for _, p in self.pairs}

    def defect(
        self, M: Matrix, at: Mapping[UOp, int], z: Sequence[Any], new: Sequence[Any]
    ) -> Iterator[tuple[int, int, list[Any], Any]]:
        """MᵀJM and J, entry by entry."""
        pairs = [(at[q] + k, at[p] + k) for q, p in self.pairs for k in range(q.size)]
        for a in range(len(M)):
            for b in range(a):
                products = [M[q][a] * M[p][b] - M[p][a] * M[q][b] for q, p in pairs]
                yield a, b, products, sum((a == q and b == p) - (a == p and b == q) for q, p in pairs)
