"""What do the coefficients of a step's stages say?  Symplectic, symmetric, how long: in units of dt, as fractions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tinyphysics.tpir.proof.weights import TOL


@dataclass
class Kick:
    """Momenta moved by a term of positions."""

    term: int
    weight: Fraction
    symplectic = begins = True

    @property
    def length(self) -> Fraction:
        return self.weight

    @property
    def adjoint(self) -> Kick:
        return self

    def same(self, other: object) -> bool:
        return isinstance(other, Kick) and self.term == other.term and abs(self.weight - other.weight) <= TOL


Table = list[list[Fraction]]


@dataclass
class StageTableau:
    """One SOLVE and the moves that it serves, as coefficients in units of dt: those of positions and of momenta."""

    a: Table
    a_p: Table
    b: list[Fraction]
    c: list[Fraction]
    begins: bool  # does the unknown start at the state, as dt vanishes?
    term: int  # of the declared energy; -1 is all of it

    @property
    def symplectic(self) -> bool:
        a, a_p, b, n = self.a, self.a_p, self.b, range(len(self.b))
        return all(abs(b[i] * a_p[i][j] + b[j] * a[j][i] - b[i] * b[j]) <= TOL for i in n for j in n)

    @property
    def length(self) -> Fraction:
        return sum(self.b, Fraction(0))

    @property
    def adjoint(self) -> StageTableau:
        """The step taken back from its end: the same stages, the last first."""
        last, n = len(self.b) - 1, range(len(self.b))
        a, a_p = (
            [[self.b[last - j] - t[last - i][last - j] for j in n] for i in n] for t in (self.a, self.a_p)
        )
        return StageTableau(a, a_p, self.b[::-1], self.c[::-1], self.begins, self.term)

    def same(self, other: object) -> bool:
        if not isinstance(other, StageTableau) or self.term != other.term:
            return False
        mine, theirs = ([x for row in (*s.a, *s.a_p) for x in row] + s.b for s in (self, other))
        return len(mine) == len(theirs) and all(abs(x - y) <= TOL for x, y in zip(mine, theirs))


def mirrored(times: list[Fraction]) -> bool:
    return all(abs(c + d - 1) <= TOL for c, d in zip(times, reversed(times)))
