"""A system and what was decided about it: known from the caches, or built now; looked into only where asked."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from tinyphysics.errors import InputError, StoreError
from tinyphysics.ir import UOp, parse
from tinyphysics.pipeline import Build, build, follows_time_momentum, lowered, stepped, with_time_momentum
from tinyphysics.plan import Goal
from tinyphysics.planner.choice.propagator import few, loop_seconds, seconds
from tinyphysics.planner.choice.stiff import stiffest
from tinyphysics.planner.cost.target import FEW_MEMBERS, loops_refuse
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.runtime.engines.few import Few, few_of
from tinyphysics.runtime.engines.free_jump import FreeJumps
from tinyphysics.runtime.engines.jump import Jumping, Jumps
from tinyphysics.runtime.engines.plans import PlanSummary, find, keep, known_of, plan_key
from tinyphysics.runtime.engines.propagator import Propagator, propagator
from tinyphysics.runtime.stages.energies import Look, look_of
from tinyphysics.runtime.stages.terms import poles_of
from tinyphysics.runtime.state.encoding import Encoding
from tinyphysics.runtime.state.indices import selects
from tinyphysics.runtime.state.run import LazyProgram
from tinyphysics.runtime.state.schedule import YEAR
from tinyphysics.step import Scale, Step
from tinyphysics.synth.methods.cut_steps import clear_step
from tinyphysics.system import System
from tinyphysics.target import LIBRARIES, SANDBOXED
from tinyphysics.tpir.precision.precision import PRECISIONS
from tinyphysics.tpir.precision.probe import probe
from tinyphysics.tpir.program.isa import Program
from tinyphysics.util import digest

NUMBER_BY_NUMBER = ("python", *LIBRARIES, *SANDBOXED)  # backends without loops along the axes of states

LOG = logging.getLogger("tinyphysics")
LIFETIME = 100 * YEAR  # of a loop, beyond which it is not begun
FIRST_FEW, ONE_IN = 8, 16  # of many short runs, which are looked at
LONG = 60.0  # seconds of a loop, from which on it is said that it need not be one


class Compiled:
    """What a run needs is in `known` and `program`; facts, plan, certificate and report are made by `built`."""

    def __init__(self, system: System, goal: Goal, requested: str) -> None:
        began = time.perf_counter()
        goal = replace(goal, stiff=stiffest(system, goal))
        self.system, self.goal, self.requested = system, goal, requested
        self._built: Build | None = None
        self.short_runs = 0  # so far
        self.coarse_runs = 0  # whose shadow energy went far from H
        self.key = plan_key(system, goal, requested)
        known, self.found = find(self.key)
        self.known = self.build() if known is None else known
        if self.slow:
            LOG.warning("%s: %s", system.name, self.slow)
        self.seconds = time.perf_counter() - began

    def build(self) -> PlanSummary:
        """Analysed, planned, lowered and verified now, and kept for the next time."""
        b = self._built = build(self.system, self.goal, self.requested)
        known = known_of(b)
        keep(self.key, known)
        return known

    @property
    def slow(self) -> str:
        """What a run says if it is not compiled: the bits are the same, the time is not."""
        return f"it runs in Python, slowly, with the same bits: {self.known.slow}" if self.known.slow else ""

    @property
    def built(self) -> Build:
        if self._built is None:
            b = build(self.system, self.goal, self.requested)
            if b.program.hash != self.known.program:
                raise StoreError(
                    "the plan cache holds another program for this system than it compiles to now",
                    fix="Empty the cache directory that `tp doctor` names.",
                )
            self._built = b
        return self._built

    @cached_property
    def program(self) -> Program | LazyProgram:
        """The program, or a promise of it: its code may be there already."""
        return self.built.program if self.key is None else LazyProgram(self.key, lambda: self.built.program)

    @cached_property
    def clear(self) -> Program | LazyProgram | None:
        """Of a system with walls or events: the steps in which nothing is met."""
        if not self.system.crossings:
            return None

        def make() -> Program:
            return lowered(self.built, clear_step(self.built.step))

        return make() if self.key is None else LazyProgram(f"{self.key} clear", make)

    @cached_property
    def encoding(self) -> Encoding:
        """How the states are kept."""
        whole = {s.name: s.var.dtype for s in self.system.states if not s.var.dtype.is_float}
        precision = replace(PRECISIONS[self.goal.precision], units=self.goal.lattice)
        return Encoding(precision, self.known.solves, whole)

    @cached_property
    def scales(self) -> tuple[Scale, ...]:
        """The units that a run keeps its states in."""
        states = {str(s.var.arg): s.var for s in self.system.states}
        return tuple(Scale(states[name], *parse(factor)) for name, factor in self.known.scales)

    @cached_property
    def jump(self) -> Jumping | None:
        """What jumps, if the loop was deleted."""
        if self.known.way == "loop":
            return None
        if self.system.structure.turning:
            return FreeJumps(self.system)
        return Jumps(self.system, self.propagator, self.few)

    def propagator(self, parameters: Mapping[str, Any], dt: float) -> Propagator:
        b = self.built
        return propagator(b.system, b.facts, b.step, self.known.program, parameters, dt)

    def is_of_its_loop(self, program: str) -> bool:
        """Is that the program of the loop that was deleted here by default?"""
        default = self.known.way != "loop" and self.goal.propagator is None
        return default and stepped(self.built).program.hash == program

    def few(self) -> Few | None:
        """A small system, whose members and frames jump together."""
        found = few(self.system) if self.known.way == "exact" else None
        return None if found is None else few_of(self.system, found)

    def check_length(self, steps: int, members: int, dt: float) -> None:
        """A run that no one will see the end of is refused, with what it would take."""
        estimate = max(steps * members, steps) * self.step_seconds
        if self.known.way == "loop" and estimate > LIFETIME:
            raise InputError(
                f"{float(steps):.3g} steps take about {estimate / YEAR:.2g} years, at "
                f"{1e9 * self.step_seconds:.2g} ns each",
                fix=f'Pass fewer steps; propagator="{self.known.instead}" makes one jump of them.'
                if self.known.instead
                else "Pass fewer steps; sim.estimate(steps=1_000_000) tells what a run takes.",
            )

    def tell_of_length(self, steps: int, members: int) -> None:
        """Whoever waits for a loop that can be deleted should know."""
        estimate = steps * members * self.step_seconds
        if self.known.instead and estimate > LONG:
            LOG.warning(
                '%s: %s steps one by one take %s or more; propagator="%s" makes one jump of them',
                self.system.name,
                f"{steps:,}",
                seconds(estimate),
                self.known.instead,
            )

    @cached_property
    def step_seconds(self) -> float:
        """About what a step of one member takes."""
        return loop_seconds(0, self.known.operations)

    @cached_property
    def poles(self) -> bool:
        """Has its energy a pole that a drift may pass?"""
        return bool(poles_of(self.system.seen))

    @cached_property
    def look(self) -> Look | None:
        """The energy as a function of Python, where it is a short one."""
        return look_of(self.system, BY_NAME.get(self.known.method))

    def looked_at(self) -> bool:
        """Is this one of the short runs that are looked at?  The first few, then one in some."""
        self.short_runs += 1
        return self.short_runs <= FIRST_FEW or self.short_runs % ONE_IN == 0

    def warned_of_shadow(self) -> bool:
        """Is this one of the runs that are warned about their shadow energy?  A step to take is measured for each."""
        self.coarse_runs += 1
        return self.coarse_runs <= FIRST_FEW or self.coarse_runs % ONE_IN == 0

    @cached_property
    def adaptive(self) -> bool:
        """Does the method choose its own steps?"""
        return self.known.method in BY_NAME and BY_NAME[self.known.method].adaptive

    @cached_property
    def selects(self) -> bool:
        """Has it indices, cutoffs or tables that are checked before a run?"""
        return selects(self.system.equations)

    def step(self) -> Step:
        """The step that its program says."""
        return self.built.step

    @property
    def series(self) -> Step | None:
        """The step, if it is a Taylor series in loops."""
        return self.built.step if self.known.series else None

    @property
    def follows_energy(self) -> bool:
        """Can what its energy should be be followed?  H itself, or H + p_t where it depends on t."""
        return not self.system.books or follows_time_momentum(self.built)

    def watching(self, name: str, books: str = "") -> Program | LazyProgram:
        """The program that follows what is booked beside the energy too, as a state of that name."""
        of = f" {books}" if books else ""
        key = None if self.key is None else digest(f"{self.key} with {name}{of}".encode())
        if key is None:
            return with_time_momentum(self.built, name, books)
        return LazyProgram(key, lambda: with_time_momentum(self.built, name, books))

    @cached_property
    def energy_in_loops(self) -> bool:
        """Can the energy be computed along the axes of the states?"""
        s = self.system
        assert s.energy is not None
        clock = UOp.var("t") if s.time is None else s.time
        program = probe(s.states, s.parameters, clock, {"energy": s.energy}, self.encoding.precision)
        return not loops_refuse(program)

    def in_loops(self, members: int) -> bool:
        """Does a run of so many members go along the axes of its states?"""
        k = self.known
        if self.known.way != "loop":  # only energies and observables are computed so
            return k.backend not in NUMBER_BY_NUMBER and self.energy_in_loops
        if k.backend in NUMBER_BY_NUMBER:
            return False
        few, many = k.loops
        return few if members <= FEW_MEMBERS else many

    def __getstate__(self) -> dict[str, Any]:
        """With everything made, and without the key: elsewhere it may mean another program."""
        made = {name: v for name, v in self.__dict__.items() if name != "jump"}
        return made | {"_built": self.built, "key": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """What is known of a plan is read off it again: an older release kept less of it."""
        b = state["_built"]
        if "coordinates" not in vars(b.step):  # a step of before 0.2
            b = replace(b, step=build(state["system"], state["goal"], state["requested"]).step)
        self.__dict__.update(state, _built=b, known=known_of(b), short_runs=0, coarse_runs=0)
