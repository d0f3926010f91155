"""What the user wrote, as a value: states, parameters, and the energy, forces or map as a graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tinyphysics.errors import InputError, PlanError
from tinyphysics.given import shown
from tinyphysics.ir import UOp, bool_, f64, i64, substitute
from tinyphysics.ir.dtype import DType
from tinyphysics.options import EVOLVE, LATER, heeds
from tinyphysics.util import Site, a_kind, did_you_mean, one_of

if TYPE_CHECKING:
    from tinyphysics.structure import Structure

GIVEN_BY = {  # the field with what a system of a kind is given by
    "forces": "forces",
    "hamiltonian": "energy",
    "potential": "energy",
    "map": "update",
    "ode": "update",
    "constraint": "tensor",
}
KINDS = {  # what a system is given by, and the level of the input ladder that it stands on
    "forces": 0,
    "hamiltonian": 1,
    "potential": 1,  # the part of an energy that another system adds to its own
    "map": 0,
    "ode": 0,
    "constraint": 1,  # what an energy is added to
}
LAGRANGIAN = 3  # the level of an energy that was found from a Lagrangian


OPTIONS = tuple(name for name in EVOLVE if name not in (*LATER, "options"))
# what a Trajectory or a Frame has under a name: a state of that name could not be seen as out.name
SHOWN = (
    "animate", "drift", "drift_rate", "energy", "every_step", "final", "found", "frames", "hash", "hash_of", "hashes",
    "kept", "ledger", "losses", "metrics", "observed", "origin", "plot", "report", "states", "step", "stopped", "stops", "t",
    "times", "to_xarray", "words",
)  # fmt: skip
OF_A_RUN = (  # what a user reads of a run by its name: an observable of that name would look like it
    "t", "energy", "final", "drift", "drift_rate", "hash", "hashes", "stopped", "stops", "metrics", "losses", "ledger",
    "steps", "times", "words", "events", "plot", "animate", "report", "to_xarray",
)  # fmt: skip
RESERVED = {"dt": "the step", "self": "the simulation"} | dict.fromkeys(OPTIONS, "an option of evolve()")

SIGNS = {
    "positive": "above zero",
    "not negative": "zero or above",
    "moment": "above zero: a body without a moment of inertia about an axis is a tp.Axis",
}  # that a parameter may have to have


@dataclass(frozen=True, eq=False)
class State:
    name: str
    var: UOp
    role: str  # position, momentum, field
    unit: str | None = None
    start: float | None = None  # what each number of it begins with, where a run does not give it


@dataclass(frozen=True, eq=False)
class Parameter:
    name: str
    var: UOp
    default: Any = None  # a number, a (nested) list, or None: then a run must give it
    unit: str | None = None
    sign: str = ""  # what a run demands of its numbers: a key of SIGNS, or nothing
    dtype: DType = f64  # what functions see; a run keeps all parameters as floats

    @property
    def symbol(self) -> UOp:
        """The parameter as functions see it; every whole number that a run takes is a float64 too."""
        if self.dtype is bool_:
            return self.var.ne(0.0)
        return self.var if self.dtype.is_float else self.var.cast(i64).cast(self.dtype)


@dataclass(frozen=True, eq=False)
class Clock:
    """Of a system that is stepped in another time s: its own time and the momentum of that are states."""

    way: str  # logarithmic, sundman, or function
    time: str  # the names of the two states
    momentum: str
    rate: UOp  # dt/ds, on the solution
    system: System  # as it was written, which is what users see


@dataclass(frozen=True, eq=False)
class LongRange:
    """Of a system with sums over all images of a box: how it was written, and what the sums are computed by."""

    system: System
    settings: Any  # planner/systems/long_range.py


@dataclass(frozen=True, eq=False)
class Motion:
    """Of a system that was given by a Lagrangian: how velocities and momenta go with each other."""

    lagrangian: UOp
    v: tuple[UOp, ...]  # the velocity of each position
    momenta: tuple[UOp, ...]  # dL/dv, of positions and velocities
    velocities: tuple[UOp, ...]  # of positions and momenta

    @property
    def roots(self) -> tuple[UOp, ...]:
        return self.lagrangian, *self.v, *self.momenta, *self.velocities

    @classmethod
    def of(cls, roots: Iterable[UOp]) -> Motion:
        L, *rest = roots
        n = len(rest) // 3
        return cls(L, tuple(rest[:n]), tuple(rest[n : 2 * n]), tuple(rest[2 * n :]))


@dataclass(frozen=True)
class Crossing:
    """Something that happens where guards of a system change sign: which of them, and what is done then."""

    name: str
    kind: str  # wall or event
    rows: int  # how many of the guards are its own, in their order
    restitution: float = 1.0  # wall: the part of the speed across it that is left
    direction: int = 0  # event: 1 where the guard rises, -1 where it falls, 0 both
    writes: tuple[str, ...] = ()  # event: the states that get new values, in the order of `jumps`
    stops: bool = False  # event: does the member stop there?
    location: str = "step"  # wall: is the step cut there, or does its drift reflect?


@dataclass(frozen=True)
class Touch:
    """A contact of a system: how many of its gaps and slips are its own, and how its impulses are found."""

    name: str
    shape: tuple[int, ...]  # of its gaps
    ways: int  # slips of each gap: 0 without friction
    iterations: int


@dataclass(frozen=True)
class ComplexNumbers:
    """A complex state or parameter of a system: the names of the two real ones that are its parts.

    The second real one is `scale` times the imaginary part: 2 of a canonical pair, since i psi' = dH/d(conjugate of psi)
    makes Re psi and 2 Im psi a position and its momentum.
    """

    name: str
    parts: tuple[str, str]
    scale: float = 1.0
    is_state: bool = True


class Meeting:
    """A wall, an event or a contact that is still to be added to a system: front/walls.py, front/contacts.py."""

    name: str
    kind: str

    def __add__(self, other: Any) -> Sum:
        if not isinstance(other, Sum | Summand) and not hasattr(other, "traced"):
            raise InputError(
                f"{self.name} + {other.name if isinstance(other, Meeting) else shown(other)}: neither is a system",
                fix=f"Add them to one, one by one: tp.compile(ball + {self.name}, dt=0.01).",
            )
        return other + self  # type: ignore[no-any-return]

    def __radd__(self, other: Any) -> Sum:
        return self.__add__(other)


# --- the list of what holds expressions in a system: keys, saved files, sums and new names are made from it ---------------
@dataclass(frozen=True)
class Root:
    """How expressions are taken out of a field of System, and put into it."""

    take: Callable[[Any], tuple[UOp, ...]] = tuple
    put: Callable[[Iterable[UOp]], Any] = tuple
    is_equation: bool = True  # is a system given by it?  Else it is known besides


def root(default: Any, **how: Any) -> Any:
    """A field of expressions."""
    return field(default=default, metadata={"root": Root(**how)})


def roots_in(kind: type[System]) -> dict[str, Root]:
    """The fields of expressions, by name."""
    return {f.name: f.metadata["root"] for f in fields(kind) if "root" in f.metadata}


def of_one(u: UOp | None) -> tuple[UOp, ...]:
    return () if u is None else (u,)


def of_motion(m: Motion | None) -> tuple[UOp, ...]:
    return () if m is None else m.roots


class Summand:
    """What can be made ready to run, alone or with others."""

    @heeds("compile", 'system.compile(dt=0.01, method="leapfrog")')
    def compile(self, dt: float | None = None, **options: Any) -> Any:
        """Makes it ready to run with the step `dt`, as tp.compile does; `options` are those of tp.compile."""
        from tinyphysics import up

        return up.compile(self, dt, **options)

    def __add__(self: Any, other: Any) -> Sum:
        return Sum((self,)).__add__(other)

    def __radd__(self: Any, other: Any) -> Sum:
        return Sum((self,)).__radd__(other)

    def _only_added(self: Any, other: Any = None) -> Any:
        """Energies add up; what else is done to one is written inside its function."""
        raise InputError(
            f"`{self.name}` can only be added to other systems",
            fix="Write factors and signs inside the function: return 2 * (p @ p / 2 + q @ q / 2).",
        )

    __mul__ = __rmul__ = __sub__ = __rsub__ = __truediv__ = __rtruediv__ = __pow__ = __neg__ = _only_added


@dataclass(frozen=True, eq=False)
class System(Summand):
    """A system as the compiler sees it: states, parameters, and the energy, forces or map as an expression.

    The decorators make it: @tp.hamiltonian, @tp.lagrangian, @tp.forces, @tp.ode, @tp.map and @tp.potential.
    `system.compile(dt)` makes it ready to run, and `a + b` links two of them. `states` and `parameters` have a name,
    a unit and a shape each; `energy`, `forces` and `update` are expressions, of which a system has one.
    """

    name: str
    kind: str
    states: tuple[State, ...]
    parameters: tuple[Parameter, ...]
    time: UOp | None = None  # the variable of explicit time, if the function has one
    energy: UOp | None = root(None, take=of_one, put=lambda new: next(iter(new)))  # hamiltonian
    forces: tuple[UOp, ...] = root(())  # forces: one per position
    tensor: tuple[UOp, ...] = root(())  # hamiltonian: what its bracket is made of besides the states
    update: tuple[UOp, ...] = root(())  # map: the new value of each state; ode: its derivative
    sites: Mapping[UOp, Site] = field(default_factory=dict)
    site: Site | None = None  # where the function is defined
    function: Callable[..., Any] | None = None
    # shapes with letters, as annotated
    axes: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    complexes: tuple[
        ComplexNumbers, ...
    ] = ()  # states and parameters that users give and see as complex numbers
    linked: str = ""  # of a sum: what its parts have in common
    # of a sum of fast and slow parts: their potentials, the fastest first
    levels: tuple[UOp, ...] = root((), is_equation=False)
    motion: Motion | None = root(None, take=of_motion, put=Motion.of, is_equation=False)  # of a Lagrangian
    friction: tuple[UOp, ...] = root(
        (), is_equation=False
    )  # the rate at which each momentum decays: p' = ... - rate*p
    # of a bath: the thermal energy k_B T, then what its word says; () without one
    heat: tuple[UOp, ...] = root((), is_equation=False)
    # of a bias: the energy without it, its own, and its collective variables; () without one
    bias: tuple[UOp, ...] = root((), is_equation=False)
    # of constraints in place of springs k g**2/2, in the order of `tensor`: k, or 0 of the others
    stiffness: tuple[UOp, ...] = root((), is_equation=False)
    fixman: tuple[UOp, ...] = root(
        (), is_equation=False
    )  # the thermal energy whose ln det(G M⁻¹ Gᵀ) joined the potential
    # of absorbing layers: the energy without them, its positions, and sigma of each memory
    absorbed: tuple[UOp, ...] = root((), is_equation=False)
    guards: tuple[UOp, ...] = root((), is_equation=False)  # of walls and events: numbers whose signs decide
    jumps: tuple[UOp, ...] = root(
        (), is_equation=False
    )  # of events: new values of states, one event after the other
    crossings: tuple[Crossing, ...] = ()  # which guards and jumps are whose
    gaps: tuple[UOp, ...] = root(
        (), is_equation=False
    )  # of contacts: distances that stay positive, each an array
    slips: tuple[UOp, ...] = root((), is_equation=False)  # velocities along the surfaces, of those that rub
    rubs: tuple[UOp, ...] = root((), is_equation=False)  # and their coefficients of friction
    contacts: tuple[Touch, ...] = ()  # whose they are
    parts: tuple[tuple[str, UOp], ...] = ()  # of a sum: the potential of each part, by its name
    clock: Clock | None = None  # where it is stepped in another time
    time_unit: str | None = None  # as annotated
    velocity_units: tuple[str | None, ...] = ()  # of a Lagrangian, as annotated
    step: str = ""  # of a map: the parameter that is its time step
    unsafe: str = ""  # of a map of pairs: why it is not meant to be symplectic
    bath: str = ""  # how heat comes and goes: a word of planner/systems/heat.py
    biased_by: tuple[Any, ...] = ()  # how a bias is made: planner/systems/bias.py
    barostat: tuple[Any, ...] = ()  # how a box changes its size: planner/systems/pressure.py
    bracket: str = ""  # the word of its structure, where the roles of its states do not say it
    held: tuple[str, ...] = ()  # of constraints: the name of each, in the order of `tensor`
    long_range: LongRange | None = None  # where sums over all images were replaced

    @property
    def seen(self) -> System:
        """As the user wrote it."""
        if self.bias:
            return self._unbiased
        return self if self.clock is None else self.clock.system

    @cached_property
    def _unbiased(self) -> System:
        return replace(self, energy=self.bias[0], bias=(), biased_by=())

    @property
    def roots(self) -> dict[str, tuple[UOp, ...]]:
        """All its expressions, by the name of the field that has them."""
        held = {name: r.take(getattr(self, name)) for name, r in roots_in(type(self)).items()}
        return {name: us for name, us in held.items() if us}

    @property
    def equations(self) -> list[UOp]:
        """The expressions that it is given by."""
        how = roots_in(type(self))
        return [u for name, us in self.roots.items() if how[name].is_equation for u in us]

    @property
    def q(self) -> tuple[UOp, ...]:
        """The positions, as symbols."""
        return tuple(s.var for s in self.states if s.role == "position")

    @property
    def p(self) -> tuple[UOp, ...]:
        """The momenta, as symbols."""
        return tuple(s.var for s in self.states if s.role == "momentum")

    @property
    def hidden(self) -> tuple[UOp, ...]:
        """Of a bath: the states that it has itself."""
        return tuple(s.var for s in self.states if s.role == "field") if self.heat else ()

    @property
    def momenta(self) -> tuple[UOp, ...]:
        """What friction acts on: the momenta, and the angular momenta of bodies; not spins, whose length is fixed."""
        turning = {L for kind in self.structure.turning if kind.decays for L, _ in kind.bodies}
        return tuple(s.var for s in self.states if s.role == "momentum" or s.var in turning)

    @property
    def pairs(self) -> tuple[tuple[UOp, UOp], ...]:
        """Each position with its momentum."""
        return tuple(zip(self.q, self.p))

    @property
    def structure(self) -> Structure:
        """How an energy moves its states."""
        from tinyphysics.structure import (
            damped,
            heated,
            structure_of,
        )  # who defines a system does not need it yet

        found = structure_of(self.states, self.bracket, self.tensor)
        if self.heat:
            return heated(found, self.bath)
        return damped(found) if self.friction else found

    @property
    def driven(self) -> bool:
        """Does its energy depend on time explicitly?  Then H is not conserved, but H + p_t."""
        return self.energy is not None and self.time is not None and self.time in self.energy.leaves

    @property
    def books(self) -> bool:
        """Is its energy conserved only together with what is booked beside it: a drive, friction, heat, bounces?"""
        return self.energy is not None and (self.driven or self.is_open or bool(self.crossings))

    @property
    def is_open(self) -> bool:
        """Does its energy change on purpose: by friction, contacts, or the heat of a bath?"""
        return bool(self.friction or self.heat or self.contacts)

    @property
    def level(self) -> int:
        """Where it stands on the ladder of inputs: 0 forces and maps, 1 energies, 3 Lagrangians."""
        return KINDS[self.kind] if self.motion is None else LAGRANGIAN

    def bind(self, sizes: Mapping[str, int] | None = None) -> System:
        """Returns the system itself: its sizes are known already."""
        return self

    def rename(self, **names: str) -> System:
        """Returns the system with other `names` for some states and parameters: `trap.rename(k="stiffness")`."""
        names = in_real_names(self.complexes, names)
        known = {s.name: s.var for s in self.states} | {x.name: x.var for x in self.parameters}
        if self.motion is not None:
            known |= {str(v.arg): v for v in self.motion.v}
        check_names(self.name, list(known), names)
        for name in (names.get(s.name, "") for s in self.states):
            if name in SHOWN:
                raise InputError(
                    f"a state named `{name}` would be hidden: out.{name} already means something else",
                    fix=other_name(name),
                )
        to = {known[old]: UOp.var(new, known[old].shape, known[old].dtype) for old, new in names.items()}
        held, parts = self.roots, [u for _, u in self.parts]
        new = iter(substitute([*(u for us in held.values() for u in us), *parts, *self.sites], to))
        roots = {name: roots_in(type(self))[name].put([next(new) for _ in us]) for name, us in held.items()}
        return replace(
            self,
            **roots,
            parts=tuple((name, next(new)) for name, _ in self.parts),
            sites=dict(zip(new, self.sites.values())),
            states=tuple(
                replace(s, name=names.get(s.name, s.name), var=to.get(s.var, s.var)) for s in self.states
            ),
            parameters=tuple(
                replace(x, name=names.get(x.name, x.name), var=to.get(x.var, x.var)) for x in self.parameters
            ),
            axes={names.get(name, name): shape for name, shape in self.axes.items()},
            step=names.get(self.step, self.step),
            complexes=renamed(self.complexes, names),
        )

    def __getstate__(self) -> dict[str, Any]:
        """All but the user's function, which may live nowhere that another process can import."""
        return self.__dict__ | {"function": None}

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}({', '.join(s.name for s in self.states)})>"


SMALLEST_SAMPLE = 4  # more than the neighbours of a stencil, and less than a screen


@dataclass(frozen=True, eq=False)
class SizedFamily(Summand):
    """One function for every size: the letters in its shapes are still to be bound."""

    name: str
    kind: str
    letters: tuple[str, ...]
    build: Callable[[Mapping[str, int]], System]
    shapes: Mapping[str, tuple[int | str, ...]]  # of each argument, as annotated
    complexes: tuple[ComplexNumbers, ...] = ()  # which of them are parts of complex ones
    # what has been traced, by its sizes
    bound: dict[Any, System] = field(default_factory=dict, init=False, repr=False)

    def bind(self, sizes: Mapping[str, int] | None = None) -> System:
        """The system of some sizes, traced once: sums of it use the graph that is there."""
        key = tuple(sorted((sizes or {}).items()))
        if key not in self.bound:
            self.bound[key] = replace(self.build(sizes or {}), axes=self.shapes)
        return self.bound[key]

    def rename(self, **names: str) -> SizedFamily:
        """The same family with other names for some states and parameters."""
        given, names = names, in_real_names(self.complexes, names)
        check_names(self.name, list(self.shapes), names)
        shapes = {names.get(name, name): shape for name, shape in self.shapes.items()}
        return replace(
            self,
            build=lambda sizes: self.bind(sizes).rename(**given),
            shapes=shapes,
            complexes=renamed(self.complexes, names),
        )

    def __getattr__(self, name: str) -> Any:
        if not hasattr(System, name) and name not in System.__dataclass_fields__:
            raise AttributeError(f"a system has no `{name}`")
        raise AttributeError(
            f"`{self.name}` has no `{name}` before its size {', '.join(self.letters)} is known: "
            f"write {self.name}.bind({{{self.letters[0]!r}: 16}}).{name}"
        )

    @property
    def signature(self) -> str:
        """Its arguments with their shapes."""
        arguments = ", ".join(f"{n}[{', '.join(map(str, shape))}]" for n, shape in self.shapes.items())
        return f"{self.name}({arguments}) for every {', '.join(self.letters)}"

    @property
    def sample(self) -> dict[str, int]:
        """Small sizes, another for each letter, to show what the graph looks like."""
        return {letter: SMALLEST_SAMPLE + k for k, letter in enumerate(self.letters)}

    def __repr__(self) -> str:
        return f"<{self.name} for every {', '.join(self.letters)}>"


@dataclass(frozen=True, eq=False)
class Sum(Summand):
    """Systems to be linked: their energies add, and what moves is counted once (planner/systems/link.py)."""

    parts: tuple[System | SizedFamily, ...]
    ranks: tuple[int | None, ...] = (None,)  # how slow each part is, where that was said: 0 is the fastest
    apart: bool = False  # kinetic energies that differ add up, instead of being refused
    meetings: tuple[Meeting, ...] = ()  # walls, events and contacts

    def __add__(self, other: Any) -> Sum:
        other = other.traced() if hasattr(other, "traced") else other  # a model given by its class
        if isinstance(other, (System, SizedFamily)):
            return replace(self, parts=(*self.parts, other), ranks=(*self.ranks, None))
        if isinstance(other, Meeting):
            return replace(self, meetings=(*self.meetings, other))
        if not isinstance(other, Sum):
            raise InputError(
                f"{self.name} + {shown(other)}: the second is not a system",
                fix="Add systems made with @tp.hamiltonian or @tp.potential; add a number inside the function.",
            )
        met = self.meetings + other.meetings
        return Sum(self.parts + other.parts, self.ranks + other.ranks, self.apart or other.apart, met)

    def __radd__(self, other: Any) -> Sum:
        if isinstance(other, int) and other == 0:  # where sum([a, b]) begins
            return self
        raise InputError(
            f"{getattr(other, '__name__', shown(other))} + {self.name}: the first is not a system",
            fix="Add systems made with @tp.hamiltonian or @tp.potential; pass an initial state such as solar_system() "
            "to evolve: evolve(**solar_system(), ...).",
        )

    @property
    def name(self) -> str:
        return " + ".join(part.name for part in (*self.parts, *self.meetings))

    def __repr__(self) -> str:
        return f"<{self.name}>"


def not_changed(self: Any, name: str, value: Any) -> None:
    """Systems are values: what is set on one would be kept, and read by nothing."""
    own = (
        {x.name for x in self.states} | {x.name for x in self.parameters} if isinstance(self, System) else ()
    )
    raise InputError(
        f"`{self.name}.{name} = {shown(value)}`: a system cannot be changed after it is defined",
        fix=f"Pass it to each run: sim.evolve({name}={shown(value)}, ...)."
        if name in own
        else "Change the function instead; parameters can be passed to each run.",
    )


for _kind in (System, SizedFamily, Sum):  # frozen dataclasses would raise an error that names no remedy
    _kind.__setattr__ = not_changed  # type: ignore[method-assign]


@heeds("split", "tp.split(a, b)")
def split(*parts: Any) -> Sum:
    """Adds systems whose kinetic energies differ: the energies of all parts add up, and each part has its own flow.

    `parts` are two or more systems. A kinetic energy that several of them have in common still counts once.
    """
    if not parts:
        raise InputError("tp.split() has nothing to split", fix="Pass systems: tp.split(kepler, rotation).")
    whole = Sum((), ())
    for part in parts:
        whole = whole + checked_sum(part)
    if any(rank is not None for rank in whole.ranks):
        raise InputError(
            "tp.split does not take fast and slow parts", fix="Add them with +: tp.fast(a) + tp.slow(b)."
        )
    return Sum(whole.parts, whole.ranks, apart=True)


@heeds("fast", "tp.fast(part)")
def fast(part: Any) -> Sum:
    """Marks the part of a sum whose forces change fastest: tp.fast(bonds) + tp.slow(rest).

    `part` is a system or a sum; its kick is applied in every inner step (docs/multirate.md).
    """
    return with_level(part, 0)


@heeds("slow", "tp.slow(part)")
def slow(part: Any, rank: int = 1) -> Sum:
    """Marks a part of a sum whose forces change slowly: it is applied once in a step.

    `part` is a system or a sum. With several slow parts, the one of the highest `rank` is the slowest.
    """
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
        raise InputError(
            f"slow(..., {rank!r}): this is not a rank", fix="Ranks are 1, 2, ...; the highest is the slowest."
        )
    return with_level(part, rank)


def checked_sum(part: Any) -> Sum:
    """A system, a model given by its class, or a sum, as a sum."""
    whole = Sum((part.traced() if hasattr(part, "traced") else part,)) if not isinstance(part, Sum) else part
    if not all(isinstance(x, (System, SizedFamily)) for x in whole.parts):
        raise InputError(
            f"{a_kind(part)} is not a system", fix="Pass a system made with @tp.hamiltonian or @tp.potential."
        )
    return whole


def with_level(part: Any, rank: int) -> Sum:
    whole = checked_sum(part)
    return Sum(whole.parts, (rank,) * len(whole.parts), whole.apart)


def other_name(hidden: str) -> str:
    return f'Choose another name, such as "{hidden}_".'


def in_real_names(complexes: Sequence[ComplexNumbers], names: Mapping[str, str]) -> dict[str, str]:
    """New names of complex numbers as those of their parts."""
    out = dict(names)
    for c in complexes:
        if c.name in out:
            new = out.pop(c.name)
            out |= {part: new + part[len(c.name) :] for part in c.parts}
    return out


@contextmanager
def in_words_of_users(system: System) -> Iterator[None]:
    """A refusal speaks of the parts of complex numbers as a user has them: psi.real, 2*psi.imag."""
    try:
        yield
    except PlanError as error:
        what, fix = error.what, error.fix or ""
        for c in system.complexes:
            imaginary = f"{c.name}.imag" if c.scale == 1.0 else f"(2*{c.name}.imag)"
            for part, words in zip(c.parts, (f"{c.name}.real", imaginary)):
                what, fix = (re.sub(rf"(?<![\w.]){re.escape(part)}(?!\w)", words, x) for x in (what, fix))
        if (what, fix) == (error.what, error.fix or "") or type(error) is not PlanError:
            raise
        raise PlanError(what, site=error.site, fix=fix or None) from None


def renamed(complexes: Sequence[ComplexNumbers], names: Mapping[str, str]) -> tuple[ComplexNumbers, ...]:
    out = []
    for c in complexes:
        first, second = (names.get(part, part) for part in c.parts)
        ends = c.parts[0][len(c.name) :]
        out.append(
            replace(
                c, name=first.removesuffix(ends) if first != c.parts[0] else c.name, parts=(first, second)
            )
        )
    return tuple(out)


def check_names(system: str, known: Sequence[str], names: Mapping[str, str]) -> None:
    """An InputError unless `names` gives new names to some that a system has, and to each its own."""
    for old, new in names.items():
        if old not in known:
            raise InputError(
                f"`{system}` has no `{old}` to rename",
                fix=f"{did_you_mean(old, known)}It has {one_of(known)}.",
            )
        if not isinstance(new, str) or not new.isidentifier() or new == "t" or new in RESERVED:
            raise InputError(f"`{new!r}` cannot be a name", fix=f'Write rename({old}="{old}_2").')
    after = [names.get(name, name) for name in known]
    if twice := next((name for name in after if after.count(name) > 1), None):
        raise InputError(
            f"`{system}` would have two arguments named `{twice}`", fix="Give each a different name."
        )
