"""What is a method?  A name, an order and a family, which says how its step is made and answers all that depends on that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tinyphysics.errors import PlanError
from tinyphysics.facts import Fact, Facts
from tinyphysics.plan import Goal
from tinyphysics.planner.conflicts import EXPONENTIAL, GRADIENTS, NOT_SPLIT, SHEARS, Ask, check
from tinyphysics.planner.methods.bibliography import work
from tinyphysics.report import Row
from tinyphysics.step import Step
from tinyphysics.synth.methods.given_length import OfGivenLength
from tinyphysics.system import System

Sequence_ = list[tuple[str, float]]
SYMPLECTIC = "symplectic"  # of canonical pairs; a structure has its own word for steps that keep it
MET = ("guards", "jumps")  # roots of a system that any step is cut for: planner/methods/meetings.py
ROUNDS = 6  # of a solution, about, the last look at its slopes included

# kinds of families
SPLITTING, TABLEAU, PARTS, LEVELS = "splitting", "Runge–Kutta", "shears", "paces"
ORBITS, INTERACTION, COLLOCATION, DOUBLED = "orbits", "interaction", "collocation", "doubled"
VARIATIONAL, DISCRETE_GRADIENT, MAGNUS = "variational", "discrete gradient", "exponential"
PUSHERS, AXES, CONTACT, CONSTRAINED = "pushers", "axes", "contact", "constrained"
PIECES, BATH, IMPULSES = "pieces", "bath", "impulses"
HELD_BATH, BODIES_BATH = "bath along constraints", "bath of bodies"
ROTATIONS, SPHERICAL, CAYLEY = "rotations", "spherical midpoint", "cayley"
TAYLOR, EMBEDDED, AS_WRITTEN, EXACT_FLOW = "Taylor", "embedded", "map", "flow"
SPECTRAL, LAYERS, PHASES = "exponential in Fourier space", "absorbing layers", "split steps"


@dataclass(frozen=True, eq=False)
class Job:
    """A system, what is known about it, the method that was chosen, and what was asked for."""

    system: System
    facts: Facts
    method: Method
    goal: Goal

    @property
    def claims(self) -> tuple[str, ...]:
        """What the verifier is asked to show, in the words of the system's structure."""
        headline = self.system.structure.headline
        return tuple(headline if claim == SYMPLECTIC else claim for claim in self.method.keeps)


class Family(Protocol):
    """What methods that are made alike have in common: planner/methods/families/ has one file for each."""

    kind: str  # one of those above
    adaptive: bool = False  # does it choose its own steps?  Then dt is between times at which one may look
    each_number: bool = False  # is the error of a step that of each number, in parts of itself?
    mollified: bool = False  # do kicks see means of positions?
    conserves: bool = False  # does it keep the energy, to the residual of its equations?
    symplectic: bool = False  # is it made of exact flows of parts of the energy, or solved for symmetrically?
    kicks_once: bool = False  # are forces evaluated outside of the equations that it solves?
    unrounded: bool = False  # are constants kept as they are until a program is made of them?
    # the roots of a system (system.py) that its steps follow: one that it does not know is not left out silently
    takes: tuple[str, ...] = ("energy", "forces", "update", "levels", "motion", "absorbed")

    def step(self, job: Job) -> Step:
        """The step of a method."""

    def of_given_length(self, job: Job) -> OfGivenLength | None:
        """The same of a method that chooses its own steps, whose length is a parameter; None where it is too long."""
        return None

    def rows(self, method: Method, facts: Facts) -> list[Row]:
        """What explain() says of it."""
        return []

    def lacking(self, system: System, facts: Facts) -> str | None:
        """Why no step of it can be made, where what it requires is met."""
        return None

    def more(self, system: System, facts: Facts) -> tuple[Fact, ...]:
        """What it must know of a system besides the facts that are always looked for."""
        return ()

    def keeps(self, method: Method) -> tuple[str, ...]:
        """What the verifier is asked to show about a program of this method, given an energy."""
        shown = (SYMPLECTIC, "consistent", "symmetric") if method.symmetric else (SYMPLECTIC, "consistent")
        return shown if self.symplectic else ()

    def requires(self, method: Method) -> tuple[str, ...]:
        """Rows of planner/methods/needs.py: what must be shown about a system before it is stepped so."""
        return method.needs

    def sequence(self) -> Sequence_:
        """The kicks and drifts of a splitting."""
        return []

    def in_three_parts(self) -> bool:
        """Is it a splitting that may have time as a third part?"""
        return False

    def tolerance(self, precision: str) -> float:
        """The error of a step that chooses its own length, if none is asked for."""
        return 0.0

    @property
    def stages(self) -> int:
        """Kicks, or slopes, in one step: what it costs."""
        return 1

    @property
    def limit(self) -> float | None:
        """The largest omega*dt at which oscillations stay bounded; None for what is not made of kicks and drifts."""
        return None

    @property
    def processed(self) -> bool:
        """Is a state changed before the first step, and that undone where one looks?"""
        return False


@dataclass(frozen=True)
class Method:
    name: str
    order: int
    summary: str
    family: Family
    symmetric: bool = False
    source: str = ""  # a key of planner/methods/bibliography.py
    needs: tuple[str, ...] = ()  # rows of planner/methods/needs.py; its family may have more

    @property
    def splits(self) -> bool:
        return self.family.kind == SPLITTING

    @property
    def solves(self) -> bool:
        """Does it step any energy, by stages that are solved for?"""
        return self.family.kind == COLLOCATION

    @property
    def gradients(self) -> bool:
        """Does it kick by [V, [T, V]] too?"""
        return "force gradients" in self.needs

    @property
    def adaptive(self) -> bool:
        return self.family.adaptive

    @property
    def keeps(self) -> tuple[str, ...]:
        return self.family.keeps(self)

    @property
    def requires(self) -> tuple[str, ...]:
        return self.family.requires(self)

    @property
    def stages(self) -> int:
        return self.family.stages

    @property
    def limit(self) -> float | None:
        return self.family.limit

    def sequence(self) -> Sequence_:
        return self.family.sequence()

    @property
    def reference(self) -> str:
        """Where it is from, in one line: the source is a work of planner/methods/bibliography.py, by its key or its line."""
        return work(self.source).short if self.source else ""


def not_taken(m: Method, system: System) -> str | None:
    """What a system is given by that steps of a method would leave out, or None."""
    left = next((name for name in system.roots if name not in (*m.family.takes, *MET)), None)
    return None if left is None else f"its steps would leave out the {left} of `{system.name}`"


def tolerance_of(m: Method, goal: Goal) -> float:
    """The error of a step that a method with its own steps is asked for: rounding, where it can do that."""
    return goal.tolerance or m.family.tolerance(goal.precision)


def step_of(job: Job) -> Step:
    method, kind = job.method, job.method.family.kind
    traits = {
        NOT_SPLIT: not method.splits,
        GRADIENTS: method.gradients,
        SHEARS: kind == PARTS,
        EXPONENTIAL: kind == MAGNUS,
    }
    check("family", Ask.of(job.goal, job.system, traits, method.name))
    of_images = job.system.long_range
    if of_images is not None and of_images.settings.by_waves and (not method.splits or method.gradients):
        raise PlanError(
            f'long_range: forces="ik" cannot be combined with the method {method.name}',
            fix='They go with kicks and drifts, method="leapfrog"; or leave forces= out of long_range=.',
        )
    return method.family.step(job)
