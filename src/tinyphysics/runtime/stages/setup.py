"""What is known before a run, and what runs have decided: a system, what was asked of it, and what it was compiled to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

from tinyphysics.constrained import BRACKET as CONSTRAINED
from tinyphysics.errors import PlanError, ShapeError
from tinyphysics.pipeline import Build, on_orbits
from tinyphysics.plan import Decision, Goal
from tinyphysics.planner.choice.multirate import Split
from tinyphysics.planner.conflicts import CONSTRAINTS, MET, Ask, check
from tinyphysics.planner.systems.long_range import with_long_range
from tinyphysics.report import Row
from tinyphysics.runtime.engines.plans import plan_key
from tinyphysics.runtime.stages.compiled import Compiled
from tinyphysics.runtime.stages.order_bodies import check_orbits
from tinyphysics.runtime.state.first_state import FirstState
from tinyphysics.system import SizedFamily, System, in_words_of_users
from tinyphysics.target import TARGETS, Target
from tinyphysics.tpir.program.isa import Program
from tinyphysics.trajectory import Frame, Trajectory

MOST_DECIDED = 16  # programs that a simulation remembers
# decided at a state for steps of one length: a run from a frame agrees with the run of the frame to rounding
CARRIED = ("inner", "hierarchy")


class Measured(Protocol):
    """What was measured at a state, as explain() shows it."""

    @property
    def row(self) -> Row: ...


@dataclass(eq=False, repr=False)
class Setup:
    """A Simulation without what users call.

    The first run decides sizes that were left open, and later runs keep them. What else was left open (the order of bodies,
    inner steps, the method of a goal) is decided by every run at its own first state, whatever ran before; a setup shows what
    the last run has decided.
    """

    source: System | SizedFamily
    goal: Goal
    requested: str
    checks: str = "on"
    thresholds: Mapping[str, float] = field(default_factory=dict)  # of what is watched besides
    check_every: int | None = None  # steps between two looks of watches; None: so that they cost little
    monitors: dict[str, Callable[..., Any]] = field(default_factory=dict)
    frequency: float | None = None  # of the fastest vibration at the state of a pilot
    commutators: Measured | None = None  # of the parts of a splitting, at the first state of the first run
    paces: object = None  # of fast and slow parts, what was measured at a state: runtime/measure/multirate.py
    split: Split | None = None  # of a sum at one pace: which parts are fast at the state of a pilot
    began: FirstState | None = None  # the state of a pilot, or of the first run
    _rounding: tuple[Any, Row | None] | None = None  # what it was measured of, and what was found
    _compiled: Compiled | None = None
    _sizes: dict[str, int] = field(default_factory=dict)
    _bodies: System | None = None  # whose order is not known yet
    _acts: str = ""  # of the last run
    _forms: dict[Any, Any] = field(default_factory=dict)  # patterns of short runs, by the form of their calls
    _beside: dict[Any, Any] = field(default_factory=dict)  # the same with directions beside the states
    _asked: tuple[Goal, Compiled | None] | None = None  # as compile left it, where a run has decided more
    _decided: dict[str, tuple[Goal, Compiled]] = field(
        default_factory=dict
    )  # by runs, for resume=: by programs

    def __post_init__(self) -> None:
        if isinstance(self.source, System):
            if on_orbits(self.goal) and self.goal.hierarchy is None:
                with in_words_of_users(self.source):
                    check_orbits(self.source, self.goal)  # the rest is decided at the first state
                return
            self._compiled = Compiled(with_long_range(self.source, self.goal), self.goal, self.requested)

    def variant(self, goal: Goal, backend: str | None = None) -> Setup:
        """The same system with another goal, for trial runs that are not judged."""
        return type(self)(self.system, goal, backend or self.requested, "off")

    def evolve(self, **given: Any) -> Trajectory:
        """A run, as users call it: `Simulation` has it, and trial runs are made with it."""
        raise NotImplementedError

    # --- looking ------------------------------------------------------------------------------
    @property
    def own_names(self) -> list[str]:
        """States and parameters of the system."""
        if isinstance(self.source, SizedFamily):
            return list(self.source.shapes)
        return [*(s.name for s in self.source.states), *(p.name for p in self.source.parameters)]

    @property
    def compiled(self) -> Compiled:
        """The stages of the compiler for this system; an error while a size is still open."""
        if self._compiled is None and isinstance(self.source, System):
            raise PlanError(
                f"`{self.source.name}` is not compiled yet: the order of its bodies depends on the initial state",
                fix="Run it first: sim.evolve(...).",
            )
        if self._compiled is None:
            assert isinstance(self.source, SizedFamily)
            letters = ", ".join(self.source.letters)
            raise ShapeError(
                f"`{self.source.name}` is not compiled yet: its size {letters} is unknown",
                fix=f"Pass sizes={{{self.source.letters[0]!r}: 16}} to compile, or run it first.",
            )
        return self._compiled

    @property
    def built(self) -> Build:
        """Facts, plan, step, program and certificate."""
        return self.compiled.built

    @property
    def system(self) -> System:
        """The system with its sizes."""
        return self.compiled.system

    @property
    def tpir(self) -> Program:
        """The program, instruction by instruction."""
        return self.built.program

    @property
    def target(self) -> Target:
        """Where it runs."""
        found = TARGETS[self.compiled.known.backend]
        return found if self.goal.math == "exact" else replace(found, bit_exact=False)

    def in_own_time(self, what: str) -> None:
        """An error if a call cannot be combined with a time of its own."""
        known = self.source if self._compiled is None else self.system
        clock = known.clock if isinstance(known, System) else None
        held = isinstance(known, System) and known.bracket == CONSTRAINED
        met = getattr(known, "contacts", ())
        check("call", Ask({"time": clock}, traits={what: True, CONSTRAINTS: held, MET: met}))

    # --- deciding -----------------------------------------------------------------------------
    def bind(self, source: SizedFamily, sizes: dict[str, int]) -> None:
        """The first run decides the sizes; later ones must agree."""
        if self._compiled is None and not self._sizes:
            system, self._sizes = with_long_range(source.bind(sizes), self.goal), sizes
            if on_orbits(self.goal):
                check_orbits(system, self.goal)
                self._bodies = system
            else:
                self._compiled = Compiled(system, self.goal, self.requested)
        for letter, n in self._sizes.items():
            if sizes[letter] != n:
                raise ShapeError(
                    f"`{letter}` is {n} since the first run of this simulation; this run has {sizes[letter]}",
                    fix="Compile the system again for another size.",
                )

    def reopen(self) -> None:
        """What earlier runs have decided is open again."""
        if self._asked is not None:
            (self.goal, self._compiled), self._asked = self._asked, None

    def decide_at(self, given: Mapping[str, Any]) -> None:
        """What was left open, decided at a state without a step: for what looks at a simulation before it runs it."""
        self.reopen()
        unknown = self._compiled is None or self.goal.is_accurate and self.goal.decision is None
        if unknown or self.system.levels and not self.goal.inner:
            self.evolve(**given, steps=0, frames=2)

    def keep_asked(self) -> None:
        """Before a run decides something: what compile left."""
        if self._asked is None:
            self._asked = self.goal, self._compiled

    def keep_decided(self) -> None:
        """What a run has decided, for those that go on from it."""
        if len(self._decided) >= MOST_DECIDED:
            self._decided.clear()
        self._decided[self.compiled.known.program] = self.goal, self.compiled

    def take_decided(self, program: str) -> bool:
        """The decisions of an earlier run with that program, if there was one."""
        if program in self._decided:
            self.keep_asked()
            self.goal, self._compiled = self._decided[program]
            self.paces = None
        return program in self._decided

    def decisions(self, dt: float) -> Mapping[str, Any]:
        """What the last run has decided about its steps of this length, for a run that begins at one of its frames."""
        if self._asked is None:
            return {}
        asked, found = self._asked[0], {name: getattr(self.goal, name) for name in CARRIED}
        found = {name: v for name, v in found.items() if v and not getattr(asked, name)}
        return {"key": plan_key(self.system, asked, "auto"), "dt": dt, **found} if found else {}

    def continue_from(self, frame: Frame, given: Mapping[str, Any], dt: Any) -> None:
        """A run from a frame, with nothing changed, has the steps of the run that the frame is of."""
        known, begun = dict(frame.decided), {**frame.given, **frame.states}
        if not known or known.pop("dt") != dt or any(v is not begun.get(name) for name, v in given.items()):
            return
        system = self._bodies or self.source if self._compiled is None else self.system
        if not isinstance(system, System):
            return
        key = plan_key(system, self.goal, "auto")
        if key is not None and known.pop("key") == key:
            self.keep_asked()
            self.goal, self.paces = replace(self.goal, **known), None
            self._compiled = Compiled(system, self.goal, self.requested)

    def settled(self, goal: Goal | None = None) -> Self:
        """A copy that decides nothing anew, for what runs it many times; with the goal of a run that is over."""
        new = copy(self)
        new._asked = None
        if goal is not None and goal != self.goal:
            new.goal = goal
            new.compile_again()
        return new

    def decide(self, decision: Decision) -> None:
        """The method that pilots have chosen."""
        found = self.goal.tolerance if decision.tolerance is None else decision.tolerance
        self.goal = replace(self.goal, decision=decision, tolerance=found)
        self.compile_again()

    def certify_again(self) -> None:
        """After something was found out that certificates have to know."""
        if self._asked is not None and self._asked[1] is not None:
            self._asked = self._asked[0], Compiled(self.system, self._asked[0], self.requested)
        self.compile_again()

    def compile_again(self, goal: Goal | None = None) -> None:
        """After something was decided; for a goal that is not its own, where a run says more."""
        self._compiled = Compiled(self.system, self.goal if goal is None else goal, self.requested)
