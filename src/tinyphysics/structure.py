"""What does an energy do to the states?  z' = P dH: each state is moved by a derivative of the energy by another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tinyphysics.ir import UOp

Slope = TypeVar("Slope")
# how P acts on the derivative that moves a state: the words of POISSON_J
WORDS = {"position": "pass", "momentum": "negate"}


def acted(word: str, slope: UOp) -> UOp:
    """What a derivative moves its state by."""
    return -slope if word == "negate" else slope


class Structure(Protocol):
    """Which derivative moves which state."""

    @property
    def states(self) -> tuple[UOp, ...]:
        """Those that it moves."""

    def partner(self, state: UOp) -> UOp | None:
        """The state whose derivative moves this one."""

    def flow(self, slopes: Mapping[UOp, Slope]) -> list[tuple[UOp, Slope, str]]:
        """For each derivative by a state, in order: (the state that it moves, the derivative, how P acts)."""

    def rates(self, slopes: Mapping[UOp, UOp]) -> dict[UOp, UOp]:
        """By how much these derivatives move each state."""
        return {state: acted(word, slope) for state, slope, word in self.flow(slopes)}


@dataclass(frozen=True, eq=False)
class Canonical(Structure):
    """Pairs of positions and momenta: q' = dH/dp, p' = -dH/dq."""

    pairs: tuple[tuple[UOp, UOp], ...]

    @property
    def states(self) -> tuple[UOp, ...]:
        return tuple(x for pair in self.pairs for x in pair)

    def partner(self, state: UOp) -> UOp | None:
        return next((p if state is q else q for q, p in self.pairs if state is q or state is p), None)

    def flow(self, slopes: Mapping[UOp, Slope]) -> list[tuple[UOp, Slope, str]]:
        moves = {p: (q, WORDS["position"]) for q, p in self.pairs}
        moves |= {q: (p, WORDS["momentum"]) for q, p in self.pairs}
        return [(moves[x][0], slope, moves[x][1]) for x, slope in slopes.items()]


class Nothing(Structure):
    """No energy moves a state: maps, and systems of derivatives."""

    states = ()

    def partner(self, state: UOp) -> UOp | None:
        return None

    def flow(self, slopes: Mapping[UOp, Slope]) -> list[tuple[UOp, Slope, str]]:
        return []


def structure_of(states: Iterable[Any]) -> Structure:
    """That of states with these roles: positions and momenta are paired in their order."""
    q, p = ([s.var for s in states if s.role == role] for role in ("position", "momentum"))
    return Canonical(tuple(zip(q, p))) if q and p else Nothing()
