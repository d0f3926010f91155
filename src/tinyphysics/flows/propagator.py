"""How are the n steps of a run done at once?  By the matrix of a quadratic energy or of a step, or as free bodies turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.step import JUMPS, Step, SubFlow
from tinyphysics.structure import Canonical, Structure
from tinyphysics.tpir.program.isa import Register, Word
from tinyphysics.tpir.program.lower import ProgramBuilder


@dataclass(frozen=True, eq=False)
class LinearPropagator(SubFlow):
    """All states after n steps: then nothing else in a step moves one, and it is the one entry of `final`.

    `flow`: of the sum of the terms, for n*dt. `damped`: the same with friction, whose function is the last term. `power`:
    the n-th power of the flows of terms one after the other, each for its weight times dt.
    """

    way: str
    parts: tuple[tuple[int, float], ...]  # (number of the term, weight)
    pairs: tuple[tuple[UOp, UOp], ...]  # (q, p)
    energies: tuple[UOp, ...]  # of the terms
    traits = frozenset({JUMPS})

    def writes(self) -> tuple[UOp, ...]:
        return tuple(x for pair in self.pairs for x in pair)

    def reads(self) -> frozenset[UOp]:
        return frozenset(v for u in self.energies for v in u.leaves)

    def lower(self, b: ProgramBuilder, section: str) -> None:
        parts = [x for k, w in self.parts for x in (Register("E", k), float(w))]
        first = self.writes()[0]
        b.emit(section, "PROPAGATE", b.state(first), Word(self.way), *parts, u=first, note=" ")

    def field(self) -> Mapping[UOp, UOp]:
        """Of one step."""
        terms = [weight * self.energies[k] for k, weight in self.parts]
        lost = terms.pop() if self.way == "damped" else None
        slopes = gradient(UOp.sum_of(terms), list(self.writes()))
        rates = Canonical(self.pairs).rates(dict(zip(self.writes(), slopes)))
        if lost is None:
            return rates
        momenta = [p for _, p in self.pairs]
        return rates | {p: rates[p] - g for p, g in zip(momenta, gradient(lost, momenta))}


@dataclass(frozen=True, eq=False)
class FreeBodyPropagator(SubFlow):
    """All states of free rigid bodies after n steps: the one entry of `final`, as above."""

    structure: Structure
    energy: UOp
    traits = frozenset({JUMPS})

    def writes(self) -> tuple[UOp, ...]:
        return self.structure.states

    def reads(self) -> frozenset[UOp]:
        return frozenset(self.energy.leaves) | frozenset(self.writes())

    def lower(self, b: ProgramBuilder, section: str) -> None:
        first = self.writes()[0]
        parts = Register("E", 0), 1.0
        b.emit(section, "PROPAGATE", b.state(first), Word("bodies"), *parts, u=first, note=" ")

    def field(self) -> Mapping[UOp, UOp]:
        """Of one step."""
        by = list(self.structure.by)
        return self.structure.rates(dict(zip(by, gradient(self.energy, by))))


def propagator_of(step: Step) -> LinearPropagator:
    (found,) = step.final
    assert isinstance(found, LinearPropagator)
    return found
