"""What does an energy do to the states, and what may one ask of it then?  z' = P(z) dH, and all that follows from P."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tinyphysics.canonical import Canonical as Canonical
from tinyphysics.charged import DampedCharges, Magnetic, but_for_weights
from tinyphysics.constrained import Constrained, HeatedConstrained
from tinyphysics.contact_form import Contact
from tinyphysics.ir import UOp
from tinyphysics.poisson import ANY_RATES, Matrix, Poisson, Slope, Words
from tinyphysics.poisson import BRACKET as BRACKET
from tinyphysics.poisson import COTANGENT as COTANGENT
from tinyphysics.poisson import FIVE as FIVE
from tinyphysics.poisson import FORCE as FORCE
from tinyphysics.poisson import FORMAL as FORMAL
from tinyphysics.poisson import Structure as Structure
from tinyphysics.poisson import acted as acted
from tinyphysics.touching import Touching
from tinyphysics.turning import Axes, BodyFrame, HeavyTop, Rotations, Rotors, SpaceFrame, Turning
from tinyphysics.user_bracket import UserBracket


class Declared(Protocol):
    """A state of a system, of a step or of a listing."""

    @property
    def var(self) -> UOp: ...
    @property
    def role(self) -> str: ...


@dataclass(frozen=True, eq=False)
class Damped(Canonical):
    """Pairs whose momenta decay besides: p' = -dH/dq - rate*p. One rate for all multiplies J by a factor in every step."""

    # no state says it: a system has friction, and a listing has RELAX
    roles = ()  # type: ignore[assignment]
    claims = ("conformally-symplectic", "volume-factor", "symmetric", "reversible", "consistent")
    measured = "|MᵀJM - f J|"
    factor: Any = 1  # f of the step that is measured: exp(-rate*dt), of the first momentum

    def decayed(self, by: Sequence[Any]) -> Damped:
        return replace(self, factor=by[0])

    def defect(
        self, M: Matrix, at: Mapping[UOp, int], z: Sequence[Any], new: Sequence[Any]
    ) -> Iterator[tuple[int, int, list[Any], Any]]:
        """MᵀJM and f J, entry by entry, with the f of the motion: of one pair, MᵀJM is a multiple of J in any case."""
        entries = list(Canonical(self.pairs).defect(M, at, z, new))
        _, _, products, sign = next(e for e in entries if e[3])
        f = but_for_weights(sum(products) * sign, self.factor)
        return ((a, b, own, wanted * f) for a, b, own, wanted in entries)


@dataclass(frozen=True, eq=False)
class Heated(Canonical):
    """Pairs at a temperature: a bath gives momenta heat and takes it. What a step keeps is the law exp(-H/k_B T)."""

    # no state says it: a system has a bath, and a listing has BATH
    roles = ()  # type: ignore[assignment]
    claims = ("canonical", "symmetric", "consistent")
    families = ("bath",)
    unasked = "a bath is a part of its step"


@dataclass(frozen=True, eq=False)
class Chained(Heated):
    """Pairs in a chain of thermostats, which draws no random numbers: the law is kept with the states of the chain."""

    claims = (  # type: ignore[assignment]
        "canonical", "measure-preserving", "symmetric", "reversible", "consistent",
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Stretched(Heated):
    """Pairs with one thermostat whose energy and theirs are a Hamiltonian together: Nosé and Poincaré's."""

    claims = (  # type: ignore[assignment]
        "symplectic", "canonical", "symmetric", "reversible", "consistent",
    )  # fmt: skip


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


@dataclass(frozen=True, eq=False)
class Product(Poisson):
    """Several structures, each over its own states."""

    factors: tuple[Structure, ...]
    families = ("rotations", "cayley", *ANY_RATES)
    unasked = "some of its states turn, and are no positions and momenta"

    @classmethod
    def of(cls, groups: Sequence[tuple[UOp, ...]], tensor: tuple[UOp, ...] = ()) -> Product:
        raise TypeError("a product is made of structures")

    @property
    def states(self) -> tuple[UOp, ...]:
        return tuple(s for f in self.factors for s in f.states)

    @property
    def by(self) -> tuple[UOp, ...]:
        return tuple(s for f in self.factors for s in f.by)

    @property
    def turning(self) -> tuple[Turning, ...]:
        return tuple(t for f in self.factors for t in f.turning)

    def partner(self, state: UOp) -> UOp | None:
        return next((found for f in self.factors if (found := f.partner(state)) is not None), None)

    def flow(self, slopes: Mapping[UOp, Slope]) -> list[tuple[UOp, Slope, str]]:
        own = [{x: g for x, g in slopes.items() if any(x is s for s in f.states)} for f in self.factors]
        return [move for f, held in zip(self.factors, own) for move in f.flow(held)]

    def rates(self, slopes: Mapping[UOp, UOp]) -> dict[UOp, UOp]:
        return {state: acted(word, slope) for state, slope, word in self.flow(slopes)}

    def mirror(self) -> dict[UOp, UOp]:
        return {x: new for f in self.factors for x, new in f.mirror().items()}

    def casimirs(self) -> dict[str, UOp]:
        return {name: u for f in self.factors for name, u in f.casimirs().items()}

    def matrix(self, z: Sequence[Any]) -> list[list[Any]]:
        out: list[list[Any]] = [[0] * len(z) for _ in z]
        first = 0
        for f in self.factors:
            size = sum(s.size for s in f.states)
            for k, row in enumerate(f.matrix(z[first : first + size])):
                out[first + k][first : first + size] = row
            first += size
        return out


@dataclass(frozen=True, eq=False)
class DampedBodies(Product):
    """Bodies whose momenta decay besides: L' = L x dH/dL - rate*L. One rate for all multiplies P by a factor in every step.

    P is linear in the momenta where it holds two of them, and does not hold them elsewhere: with all of them f times as
    long, M P(z) Mᵀ is f P(z').
    """

    roles = ()
    claims = ("conformally-poisson", "volume-factor", "symmetric", "reversible", "consistent")
    families = ("rotations", "cayley", *ANY_RATES)
    measured = "|M P(z) Mᵀ - f P(z')|"
    factor: Any = 1  # f of the step that is measured: exp(-rate*dt), of the first momentum

    def decayed(self, by: Sequence[Any]) -> DampedBodies:
        return replace(self, factor=by[0])

    def casimirs(self) -> dict[str, UOp]:
        """Those that hold no momentum; the others decay."""
        momenta = {L for kind in self.turning for L, _ in kind.bodies}
        return {name: u for name, u in Product.casimirs(self).items() if not u.leaves & momenta}

    def defect(
        self, M: Matrix, at: Mapping[UOp, int], z: Sequence[Any], new: Sequence[Any]
    ) -> Iterator[tuple[int, int, list[Any], Any]]:
        """M P(z) Mᵀ and f P(z'), entry by entry, with the f of the motion."""
        entries = list(Product.defect(self, M, at, z, new))
        _, _, products, largest = max(entries, key=lambda e: abs(e[3]))
        f = but_for_weights(sum(products) / largest, self.factor) if largest else self.factor
        return ((a, b, own, wanted * f) for a, b, own, wanted in entries)


@dataclass(frozen=True, eq=False)
class HeatedBodies(Product):
    """Bodies at a temperature: a bath gives their angular momenta heat and takes it. Their law is exp(-H/k_B T)."""

    roles = ()
    claims = ("canonical", "symmetric", "consistent")
    families = ("bath of bodies",)  # type: ignore[assignment]
    unasked = "a bath is a part of its step"

    def casimirs(self) -> dict[str, UOp]:
        """Those that hold no momentum; the others change."""
        momenta = {L for kind in self.turning for L, _ in kind.bodies}
        return {name: u for name, u in Product.casimirs(self).items() if not u.leaves & momenta}


# the order of their roles, words and claims is that of the docs; one that moves nothing is what remains
STRUCTURES: tuple[type[Structure], ...] = (
    Canonical, Damped, Heated, Chained, Stretched, Constrained, Touching, Magnetic, Contact, BodyFrame, SpaceFrame, HeavyTop,
    Rotors, Rotations, Axes, DampedBodies, UserBracket, Nothing,
)  # fmt: skip


def in_all(attribute: str) -> Words:
    """The words that all structures have under a name, each once."""
    return tuple(dict.fromkeys(word for s in STRUCTURES for word in getattr(s, attribute)))


ROLES = (*in_all("roles"), *FORMAL)
WORDS = (*in_all("words"), BRACKET, FORCE)
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
    if len(found) > 1:
        return Product(tuple(found))
    return found[0] if found else Nothing()


def damped(structure: Structure) -> Structure:
    """The structure of the same states where momenta decay."""
    if isinstance(structure, Magnetic):
        return DampedCharges(structure.pairs, structure.fields)
    if structure.turning:
        return DampedBodies(structure.factors if isinstance(structure, Product) else (structure,))
    return Damped(structure.pairs) if isinstance(structure, Canonical) else structure


def heated(structure: Structure, bath: str) -> Structure:
    """The structure of the same states in a bath of that name."""
    if isinstance(structure, Constrained):
        return HeatedConstrained(
            structure.pairs, structure.constraints, structure.slopes, structure.by_numbers
        )
    if structure.turning:
        return HeatedBodies(structure.factors if isinstance(structure, Product) else (structure,))
    if not isinstance(structure, Canonical):
        return structure
    kind = {"nose_hoover": Chained, "nose_poincare": Stretched}.get(bath, Heated)
    return kind(structure.pairs)
