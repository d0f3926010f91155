"""What is a run?  A program, what it is given, and where it goes on from: enough to do it again, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.ir import UOp
from tinyphysics.runtime.state.across import Across
from tinyphysics.runtime.state.encoding import Encoding
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.runtime.state.schedule import Schedule
from tinyphysics.step import NO_ENERGY, Step
from tinyphysics.system import System
from tinyphysics.target import Target
from tinyphysics.tpir.program.isa import Program, StateDecl
from tinyphysics.trajectory import Stop
from tinyphysics.util import digest


@dataclass(frozen=True, eq=False)
class LazyProgram:
    """A program that is made when it is first read; those with one key are one program."""

    key: str
    make: Callable[[], Program]

    @property
    def program(self) -> Program:
        return self.make()

    @property
    def states(self) -> tuple[StateDecl, ...]:
        return self.program.states

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LazyProgram) and self.key == other.key

    def __reduce__(self) -> tuple[Any, ...]:
        return made, (self.program,)  # elsewhere the key may mean something else


def made(program: Program | LazyProgram) -> Program:
    return program if isinstance(program, Program) else program.program


@dataclass(frozen=True, eq=False)
class BoundAct:
    """An act of a run: its map, compiled for the states of the system."""

    name: str
    every: int
    system: System  # the map
    program: Program | LazyProgram
    hash: str  # of that program
    loops: bool  # along the axes of its states
    words: tuple[str, ...]  # of the states that it changes, in its own order
    reads: tuple[str, ...]  # states that it only reads
    shared: tuple[str, ...]  # parameters of the system
    own: Mapping[str, Any]  # (members or 1, shape...) of its own parameters
    inside: bool = (
        False  # on what the loop carries: the states of the system keep the bits that they have without it
    )
    since: int | None = None  # a fault: the first step that has it
    skips: int | None = None  # of a replay: a step at which it is left out

    def due(self, n: int) -> bool:
        return n > 0 and n % self.every == 0 and n >= (self.since or 0) and n != self.skips

    def next(self, n: int) -> int:
        """The first step after n at which it is due."""
        return max(n - n % self.every + self.every, self.since or 0)


def told(acts: Sequence[BoundAct], across: Across | None = None) -> str:
    """Which acts a run has, in their order: with this two runs have the same."""
    own = [
        f"{a.name} every {a.every}{'' if a.since is None else f' since {a.since}'}: {a.hash}" for a in acts
    ]
    return "; ".join([*own, *([] if across is None else [across.told])])


def next_act(acts: Sequence[BoundAct | Watch | Across], n: int, last: int) -> int:
    """The first step after n with an act; the last step if there is none before it."""
    return min([last, *(a.next(n) for a in acts)])


HALF_WAY = (
    0.25  # of the square of a distance: whoever is far from a pole there, too, is not asked again until then
)
Found = Mapping[int, tuple[Stop, Mapping[str, Any]]]  # by members: why they stop, and their last good states


@dataclass(frozen=True, eq=False)
class Watch:
    """What is looked at inside a run, every so many steps; it changes no bit, and may stop members.

    Members that look wrong stop at the look itself, or, where `find` is given, at the step that a replay finds; members for
    which it finds none go on.
    """

    name: str
    values: Mapping[str, UOp]
    every: int
    begin: Callable[
        [slice, Mapping[str, Any]], None
    ]  # (which members, their first values), before their first look
    # (which members, their values now, the step) -> which of them look wrong
    bad: Callable[[slice, Mapping[str, Any], int], Any]
    cause: str
    # (members that look wrong, the step of the look before, this step) -> those that stop
    find: Callable[[Sequence[int], int, int], Found] | None = None
    told: tuple[str, ...] = ()  # what it looks at, in words
    # over all looks, of every member: the largest distance of the shadow energy from H, the step of it, the largest scale
    gaps: Callable[[], tuple[Any, Any, Any]] | None = None

    def next(self, n: int) -> int:
        """The first step after n at which it looks."""
        return n - n % self.every + self.every


@dataclass(frozen=True, eq=False)
class NearPoles:
    """Poles of an energy, beside which the loop keeps how near each step comes to them; it changes no bit."""

    values: Mapping[str, UOp]  # linear functions of the positions
    poles: tuple[tuple[str, ...], ...]  # which of them are zero at each
    # (first states of some members, their parameters, least squares of distances (poles, members)) -> which of them may
    # have passed a pole
    suspects: Callable[[Mapping[str, Any], Mapping[str, Any], Any], Any]
    # (members, the step up to which none of them passed a pole, this step) -> those that stop
    find: Callable[[Sequence[int], int, int], Found]
    by_distance: bool = True  # no step passes a pole that stays further away than one that did not
    by_length: bool = False  # does the loop keep ends of ways and the longest one?
    # (first states of all members, parameters, such distances (rows, 1) of all) -> may no member have passed a pole?
    calm: Callable[[Mapping[str, Any], Mapping[str, Any], Any], bool] = lambda first, own, near: False
    replays: bool = False  # the loop keeps nothing: every member is done again

    @property
    def by_distances(self) -> NearPoles:
        """The same for a loop that keeps distances themselves, where lengths of steps say too little."""
        return replace(self, by_length=False)

    def wider(self, near: Any) -> Any:
        """What members may come to without being asked again: a quarter of squares of distances, four times those of ways."""
        if not self.by_length:
            return HALF_WAY * near
        poles = len(self.poles)
        return np.concatenate([HALF_WAY * near[:poles], near[poles:] / HALF_WAY])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()  # a run that is over needs none


@dataclass(frozen=True)
class Identity:
    """Which run is it?  All that decides its bits; two runs that agree in this are one."""

    system: str
    program: str  # the hash of the program
    bits: int
    dt: float
    t0: float
    seed: int
    start: Mapping[str, str]  # hashes of the initial states
    given: str  # of the parameters
    acts: str = ""  # between steps: their names, strides and programs, in order

    @property
    def key(self) -> str:
        known = [self.program, self.bits, self.dt, self.t0, self.seed, dict(self.start), self.given]
        return digest(repr([*known, self.acts] if self.acts else known).encode())


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A run between two steps."""

    run: Identity
    version: str  # of the package
    step: int
    save_every: int | None
    hash_every: int | None
    members: int
    is_ensemble: bool
    params: Mapping[str, Any]  # (members or 1, shape...)
    start: Mapping[str, Any]  # (members, shape...) of the states at step 0, where replays begin
    # (members, ...) of all that an engine has to keep to go on; at step 0 nothing
    registers: Mapping[str, Any]
    hashes: list[tuple[int, str]] = field(default_factory=list)
    stopped: Mapping[int, Stop] = field(default_factory=dict)  # by the number of the member
    last: Mapping[str, Any] = field(default_factory=dict)  # (stopped, shape...): their last good states
    acts: Sequence[Any] = ()  # [name, every, the map as data] of each, as JSON holds them
    across: Any = None  # what changes all members together, as JSON holds it
    memory: Mapping[str, Any] = field(default_factory=dict)  # of that

    @cached_property
    def frozen(self) -> dict[int, tuple[Stop, dict[str, Any]]]:
        """Why a member stopped, and its last good state."""
        return {
            k: (stop, {name: v[at] for name, v in self.last.items()})
            for at, (k, stop) in enumerate(self.stopped.items())
        }


@dataclass(frozen=True, eq=False)
class Run:
    """Enough to do a run again, bit for bit."""

    program: Program | LazyProgram
    system: System
    target: Target
    given: Inputs
    schedule: Schedule
    dt: float
    t0: float
    threads: int | None
    encoding: Encoding  # how the states are kept
    loops: bool  # along the axes of a system, instead of number by number
    begun: Checkpoint | None = None  # where it goes on from
    jump: Any = None  # Jumps (runtime/engines/jump.py); None: a loop
    series: Step | None = None  # a Taylor series in loops
    events: Mapping[str, UOp] = field(default_factory=dict)  # functions whose changes of sign are looked for
    adaptive: bool = False  # are its steps only the times at which values are read?
    # the program with p_t as a state of that name, and of which flows it is: runtime/stages/origin.py
    watching: Callable[..., Program | LazyProgram] | None = None
    advice: str = ""  # for who takes very many steps of their own lengths
    gridless: bool = False  # adaptive, and without dt: its frames alone say which times are looked at
    acts: tuple[BoundAct, ...] = ()  # that change its states between two steps
    across: Across | None = None  # that changes all members together
    watches: tuple[Watch, ...] = ()  # that may stop it
    poles: NearPoles | None = None  # beside which it stops; replays pass them
    traits: tuple[str, ...] = ()  # of its step
    step: Callable[[], Step] | None = None  # adaptive: the step, made when it is first read
    # where time is a state: events are looked for up to there, after the last step too
    until: float | None = None
    clear: Program | LazyProgram | None = None  # the steps of `program` in which no wall and no event is met
    speculate: int | None = None  # how many of them are tried at once
    inner: tuple[int, ...] = ()  # kicks of each faster level between two of the next slower one
    # of some members of a larger ensemble: steps between two looks of the watches of all of it; 0: it has none
    looks: int | None = None
    first_member: int = 0  # which of them its first one is
    # (the run, what is observed) -> its engine, where the steps are not done by this process alone
    engine_by: Callable[[Run, Mapping[str, UOp]], Any] | None = None

    @property
    def keeps_energy(self) -> bool:
        """Does an energy that moves say something about the step?"""
        kept = self.system.structure.keeps_energy and NO_ENERGY not in self.traits
        return self.system.energy is not None and kept
