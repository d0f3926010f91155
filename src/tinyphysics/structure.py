"""What does an energy do to the states, and what may one ask of it then?  z' = P(z) dH, and all that follows from P."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tinyphysics.ir import UOp

Slope = TypeVar("Slope")
Words = tuple[str, ...]
Matrix = Sequence[Sequence[Any]]  # of numbers of any precision, or of expressions
FORCE = "force"  # the word of POISSON_J for what moves a state as it is: no derivative of an energy is named
FORMAL = ("auxiliary", "error")  # roles of states that no structure moves: p_t, and error words
# what is asked of canonical pairs, of maps and of rates; the first is what `method="symplectic"` asks for
FIVE = ("symplectic", "volume-preserving", "symmetric", "reversible", "consistent")


def acted(word: str, slope: UOp) -> UOp:
    """What a derivative moves its state by."""
    return -slope if word == "negate" else slope


class Declared(Protocol):
    """A state of a system, of a step or of a listing."""

    @property
    def var(self) -> UOp: ...
    @property
    def role(self) -> str: ...


class Structure(Protocol):
    """Which derivative moves which state. All that another file would ask about its kind, it answers itself."""

    roles: Words = ()  # of its states, as listings have them; their number is that of one group
    words: Words = ()  # of POISSON_J, for each role; none where what moves a state is no derivative alone
    claims: Words = FIVE  # the verdicts that have a meaning, in the order of a certificate
    facts: Words = ()  # rows of analysis/analyse.py that are asked of an energy, in the order of the report
    unasked: str = ""  # why no other fact holds; empty where each would have been asked
    families: Words = ()  # kinds of methods that step it, the default first; none: all whose needs are met
    measured: str = "|MᵀJM - J|"  # what is zero where the Jacobian M of a step keeps P

    @property
    def headline(self) -> str:
        """The verdict that a step is asked for first: long runs are as good as that."""
        return self.claims[0]

    @property
    def states(self) -> tuple[UOp, ...]:
        """Those that it moves."""

    @property
    def by(self) -> tuple[UOp, ...]:
        """The states that an energy is derived by, in the order in which a step computes its slopes."""
        return self.states

    @classmethod
    def of(cls, groups: Sequence[tuple[UOp, ...]]) -> Structure:
        """That of some groups of states, each with its roles in order."""

    def partner(self, state: UOp) -> UOp | None:
        """The state whose derivative moves this one."""

    def flow(self, slopes: Mapping[UOp, Slope]) -> list[tuple[UOp, Slope, str]]:
        """For each derivative by a state, in order: (the state that it moves, the derivative, the word of POISSON_J)."""

    def rates(self, slopes: Mapping[UOp, UOp]) -> dict[UOp, UOp]:
        """By how much these derivatives move each state."""
        return {state: acted(word, slope) for state, slope, word in self.flow(slopes)}

    def mirror(self) -> dict[UOp, UOp]:
        """The reversing symmetry: motion seen backwards is motion, of an energy that is even under it."""
        return {}

    def casimirs(self) -> dict[str, UOp]:
        """What every energy keeps, by the name that users read; a reader that shows it of a step says `casimirs`."""
        return {}

    def defect(
        self, M: Matrix, at: Mapping[UOp, int], z: Sequence[Any], new: Sequence[Any]
    ) -> Iterator[tuple[int, int, list[Any], Any]]:
        """(a, b, products, wanted): the products add up to what is wanted where the Jacobian M of a map keeps P.

        M[i][a] is d(new number i)/d(old number a); `at` says where the numbers of a state begin, `z` and `new` are the
        numbers of the state before and after.
        """
        return iter(())


@dataclass(frozen=True, eq=False)
class Canonical(Structure):
    """Pairs of positions and momenta: q' = dH/dp, p' = -dH/dq."""

    pairs: tuple[tuple[UOp, UOp], ...]
    roles = ("position", "momentum")
    words = ("pass", "negate")
    facts = (
        "linked", "Legendre", "separable", "shears", "T quadratic", "polynomial", "quadratic", "explicit time", "smooth",
        "even in p", "reads", "pairs", "units",
    )  # fmt: skip

    @classmethod
    def of(cls, groups: Sequence[tuple[UOp, ...]]) -> Canonical:
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


class Nothing(Structure):
    """No energy moves a state: maps, and systems of derivatives."""

    roles = ("field",)
    facts = ("explicit time", "smooth", "random numbers", "reads", "units")
    states = ()

    @classmethod
    def of(cls, groups: Sequence[tuple[UOp, ...]]) -> Nothing:
        return cls()

    def partner(self, state: UOp) -> UOp | None:
        return None

    def flow(self, slopes: Mapping[UOp, Slope]) -> list[tuple[UOp, Slope, str]]:
        return []


# the order of their roles, words and claims is that of the docs; one that moves nothing is what remains
STRUCTURES: tuple[type[Structure], ...] = (Canonical, Nothing)


def in_all(attribute: str) -> Words:
    """The words that all structures have under a name, each once."""
    return tuple(dict.fromkeys(word for s in STRUCTURES for word in getattr(s, attribute)))


ROLES = (*in_all("roles"), *FORMAL)
WORDS = (*in_all("words"), FORCE)
CLAIMS = in_all("claims")


def word_of(role: str) -> str | None:
    """How P acts on the derivative that moves a state of this role: the word of POISSON_J."""
    return next((word for s in STRUCTURES for own, word in zip(s.roles, s.words) if own == role), None)


def structure_of(states: Sequence[Declared]) -> Structure:
    """That of states with these roles: those of a group, such as positions and momenta, are put together in their order."""
    found: list[Structure] = []
    for kind in STRUCTURES:
        groups = list(zip(*([s.var for s in states if s.role == role] for role in kind.roles)))
        found += [kind.of(groups)] if groups and kind is not Nothing else []
    assert len(found) <= 1, "a system of several structures has a product of them, which is not there yet"
    return found[0] if found else Nothing()
