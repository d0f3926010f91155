"""What does an energy do to the states, and what may one ask of it then?  z' = P(z) dH, and all that follows from P."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tinyphysics.ir import UOp
from tinyphysics.ir.vectors import cross

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

    bracket: str = (
        ""  # the word by which systems and listings declare it; none where the roles of the states say it
    )
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
    def of(cls, groups: Sequence[tuple[UOp, ...]], tensor: tuple[UOp, ...] = ()) -> Structure:
        """That of some groups of states, each with its roles in order; `tensor` is what P is made of besides them."""

    def partner(self, state: UOp) -> UOp | None:
        """The state whose derivative moves this one."""

    def flow(self, slopes: Mapping[UOp, Slope]) -> list[tuple[UOp, Slope, str]]:
        """For each derivative by a state, in order: (the state that it moves, the derivative, the word of POISSON_J)."""

    def rates(self, slopes: Mapping[UOp, UOp]) -> dict[UOp, UOp]:
        """By how much these derivatives move each state."""
        return {state: acted(word, slope) for state, slope, word in self.flow(slopes)}

    def identities(self) -> Iterator[tuple[str, UOp]]:
        """(what it is, an expression): P is a bracket where all of these are zero for every state."""
        return iter(())

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
    def of(cls, groups: Sequence[tuple[UOp, ...]], tensor: tuple[UOp, ...] = ()) -> Nothing:
        return cls()

    def partner(self, state: UOp) -> UOp | None:
        return None

    def flow(self, slopes: Mapping[UOp, Slope]) -> list[tuple[UOp, Slope, str]]:
        return []


# what is asked of a bracket that is no pair of positions and momenta
POISSON = ("poisson", "casimirs", "symmetric", "reversible", "consistent")
WITHOUT_PAIRS = ("linked", "explicit time", "smooth", "units")
ANY_RATES = (
    "Runge–Kutta",
    "Taylor",
    "embedded",
)  # kinds of methods that ask for rates alone; nothing is shown of them


class Poisson(Structure):
    """z' = P(z) dH with a matrix P that depends on the state."""

    claims = POISSON
    facts = WITHOUT_PAIRS
    measured = "|M P(z) Mᵀ - P(z')|"

    def matrix(self, z: Sequence[Any]) -> list[list[Any]]:
        """P, of the numbers of all its states in order."""
        raise NotImplementedError

    def partner(self, state: UOp) -> UOp | None:
        return None

    def flow(self, slopes: Mapping[UOp, Slope]) -> list[tuple[UOp, Slope, str]]:
        """No derivative moves a state alone: each state by all of them."""
        return [(state, rate, FORCE) for state, rate in self.rates(slopes).items()]  # type: ignore[arg-type,misc]

    def defect(
        self, M: Matrix, at: Mapping[UOp, int], z: Sequence[Any], new: Sequence[Any]
    ) -> Iterator[tuple[int, int, list[Any], Any]]:
        """M P(z) Mᵀ and P of the new state, entry by entry."""
        own = [at[s] + k for s in self.states for k in range(s.size)]
        before, after = self.matrix([z[k] for k in own]), self.matrix([new[k] for k in own])
        every = range(len(own))
        for a in every:
            for b in range(a):
                products = [
                    M[own[a]][own[i]] * before[i][j] * M[own[b]][own[j]]
                    for i in every
                    for j in every
                    if not is_nothing(before[i][j])
                ]
                yield a, b, products, after[a][b]


def is_nothing(x: Any) -> bool:
    """Is it the number 0, and no expression?"""
    return isinstance(x, (int, float)) and x == 0


def hat(v: Sequence[Any]) -> list[list[Any]]:
    """The matrix that multiplies from the left as a vector product does: hat(v) w = v x w.

    >>> hat((1, 2, 3))
    [[0, -3, 2], [3, 0, -1], [-2, 1, 0]]
    """
    x, y, z = v
    return [[0, -z, y], [z, 0, -x], [-y, x, 0]]


@dataclass(frozen=True, eq=False)
class BodyFrame(Poisson):
    """Rows of angular momenta as the body sees them: L' = L x dH/dL."""

    vectors: tuple[UOp, ...]
    roles = ("so3",)
    families = ANY_RATES
    unasked = "its states turn, and are no positions and momenta"
    sign = 1

    @classmethod
    def of(cls, groups: Sequence[tuple[UOp, ...]], tensor: tuple[UOp, ...] = ()) -> BodyFrame:
        return cls(tuple(z for (z,) in groups))

    @property
    def states(self) -> tuple[UOp, ...]:
        return self.vectors

    def rates(self, slopes: Mapping[UOp, UOp]) -> dict[UOp, UOp]:
        return {z: cross(z, g) if self.sign > 0 else cross(g, z) for z, g in slopes.items()}

    def matrix(self, z: Sequence[Any]) -> list[list[Any]]:
        out: list[list[Any]] = [[0] * len(z) for _ in z]
        for k in range(0, len(z), 3):
            for i, row in enumerate(hat([self.sign * x for x in z[k : k + 3]])):
                out[k + i][k : k + 3] = row
        return out

    def mirror(self) -> dict[UOp, UOp]:
        return {z: -z for z in self.vectors}

    def casimirs(self) -> dict[str, UOp]:
        return {f"|{z.arg}|": (z * z).sum(-1) for z in self.vectors}


@dataclass(frozen=True, eq=False)
class SpaceFrame(BodyFrame):
    """Rows of spins, or of angular momenta as seen from outside: S' = dH/dS x S."""

    roles = ("spin",)
    sign = -1


# the order of their roles, words and claims is that of the docs; one that moves nothing is what remains
STRUCTURES: tuple[type[Structure], ...] = (Canonical, BodyFrame, SpaceFrame, Nothing)


def in_all(attribute: str) -> Words:
    """The words that all structures have under a name, each once."""
    return tuple(dict.fromkeys(word for s in STRUCTURES for word in getattr(s, attribute)))


ROLES = (*in_all("roles"), *FORMAL)
WORDS = (*in_all("words"), FORCE)
CLAIMS = in_all("claims")
BRACKETS = tuple(s.bracket for s in STRUCTURES if s.bracket)


def word_of(role: str) -> str | None:
    """How P acts on the derivative that moves a state of this role: the word of POISSON_J."""
    return next((word for s in STRUCTURES for own, word in zip(s.roles, s.words) if own == role), None)


def structure_of(states: Sequence[Declared], bracket: str = "", tensor: tuple[UOp, ...] = ()) -> Structure:
    """That of states with these roles: those of a group, such as positions and momenta, are put together in their order.

    A system that declares a `bracket` has the structure of that word, made of `tensor` besides its states.
    """
    found: list[Structure] = []
    for kind in STRUCTURES:
        groups = list(zip(*([s.var for s in states if s.role == role] for role in kind.roles)))
        if groups and kind is not Nothing and kind.bracket == bracket:
            found.append(kind.of(groups, tensor))
    assert len(found) <= 1, "a system of several structures has a product of them, which is not there yet"
    return found[0] if found else Nothing()
