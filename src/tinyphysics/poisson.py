"""What does an energy do to the states?  z' = P(z) dH: the protocol that every structure answers, and matrices P(z)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from tinyphysics.ir import UOp

Slope = TypeVar("Slope")
Evaluate = Callable[[UOp, Mapping[UOp, Any]], Sequence[Any]]
Words = tuple[str, ...]
Matrix = Sequence[Sequence[Any]]  # of numbers of any precision, or of expressions
FORCE = "force"  # the word of POISSON_J for what moves a state as it is: no derivative of an energy is named
BRACKET = "bracket"  # the word for P(z) times derivatives of an energy, as it is
COTANGENT = "cotangent"  # the role of what is pulled back through a step, and of sums of gradients
FORMAL = ("auxiliary", "error", COTANGENT)  # roles of states that no structure moves: p_t, and error words
# what is asked of canonical pairs, of maps and of rates; the first is what `method="symplectic"` asks for
FIVE = ("symplectic", "volume-preserving", "symmetric", "reversible", "consistent")


def acted(word: str, slope: UOp) -> UOp:
    """What a derivative moves its state by."""
    return -slope if word == "negate" else slope


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
    keeps_energy: bool = True  # is an energy without explicit time conserved?
    measured: str = "|MᵀJM - J|"  # what is zero where the Jacobian M of a step keeps P
    called: str = ""  # what a step without a defect is; the headline where it is empty
    settles: bool = False  # does a step end on a surface, off which a rounded state is?

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

    def rates_by(self, energy: UOp, slopes: Mapping[UOp, UOp]) -> dict[UOp, UOp]:
        """How fast an energy with these derivatives moves each state; few structures ask for the energy itself."""
        return self.rates(slopes)

    @property
    def turning(self) -> tuple[Any, ...]:
        """The bodies in it that turn, as turning.py has them."""
        return ()

    def matrix(self, z: Sequence[Any]) -> list[list[Any]]:
        """P, of the numbers of all its states in order."""
        return []

    @property
    def reads_as(self) -> Mapping[str, str]:
        """Claims that are shown by what a reader of another structure calls by another name."""
        return {}

    def differentiated(self, by: Any) -> Structure:
        """As its defect is measured: `by` gives the derivatives of each number of an expression by those of a state."""
        return self

    def evaluated(self, by: Evaluate) -> Structure:
        """As its defect is measured: `by` gives the numbers of an expression, at those of the states."""
        return self

    def decayed(self, by: Sequence[Any]) -> Structure:
        """As its defect is measured over a step in which friction multiplies each number of the momenta by one of these."""
        return self

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


# what is asked of a bracket that is no pair of positions and momenta
POISSON = ("poisson", "casimirs", "symmetric", "reversible", "consistent")
WITHOUT_PAIRS = ("linked", "turns", "explicit time", "smooth", "units")
ANY_RATES = (
    "Runge–Kutta",
    "Taylor",
    "embedded",
)  # kinds of methods that ask for rates alone; nothing is shown of them


class Poisson(Structure):
    """z' = P(z) dH with a matrix P that depends on the state."""

    claims: Words = POISSON
    facts: Words = WITHOUT_PAIRS
    measured = "|M P(z) Mᵀ - P(z')|"

    def partner(self, state: UOp) -> UOp | None:
        return None

    def flow(self, slopes: Mapping[UOp, Slope]) -> list[tuple[UOp, Slope, str]]:
        """No derivative moves a state alone: each state by all of them."""
        return [(state, rate, BRACKET) for state, rate in self.rates(slopes).items()]  # type: ignore[arg-type,misc]

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


def starts(states: Sequence[UOp]) -> list[int]:
    """Where the numbers of each begin, one after the other."""
    sizes = [s.size for s in states]
    return [sum(sizes[:k]) for k in range(len(sizes))]
