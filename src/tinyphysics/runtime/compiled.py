"""A system and what was decided about it: known from the caches, or built now; looked into only where asked."""
from __future__ import annotations

import time
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from tinyphysics.errors import StoreError
from tinyphysics.ir import UOp, parse
from tinyphysics.ir.reduction import FEW
from tinyphysics.pipeline import Build, build
from tinyphysics.plan import Goal
from tinyphysics.planner.target import lanes_enough, loops_refuse
from tinyphysics.runtime.encoding import Encoding
from tinyphysics.runtime.plans import Known, Recipe, find, keep, known_of, plan_key
from tinyphysics.runtime.propagator import propagator
from tinyphysics.step import Scale
from tinyphysics.system import System
from tinyphysics.tpir.isa import Program
from tinyphysics.tpir.loops import FEW_OF_PAIRS
from tinyphysics.tpir.precision import PRECISIONS
from tinyphysics.tpir.probe import probe


class Compiled:
    """What a run needs is in `known` and `program`; facts, plan, certificate and report are made by `built`."""

    def __init__(self, system: System, goal: Goal, requested: str) -> None:
        began = time.perf_counter()
        self.system, self.goal, self.requested = system, goal, requested
        self._built: Build | None = None
        self.key = plan_key(system, goal, requested)
        known, self.found = find(self.key)
        self.known = self.build() if known is None else known
        self.seconds = time.perf_counter() - began

    def build(self) -> Known:
        """Analysed, planned, lowered and verified now, and kept for the next time."""
        b = self._built = build(self.system, self.goal, self.requested)
        known = known_of(b)
        keep(self.key, known)
        return known

    @property
    def built(self) -> Build:
        if self._built is None:
            b = build(self.system, self.goal, self.requested)
            if b.program.hash != self.known.program:
                raise StoreError("the plan cache knows this system by another program than it compiles to",
                                 fix="Empty the cache directory that `tp doctor` names.")  # fmt: skip
            self._built = b
        return self._built

    @property
    def program(self) -> Program | Recipe:
        """The program, or a promise of it: its code may be there already."""
        return self.built.program if self.key is None else Recipe(self.key, lambda: self.built.program)

    @property
    def encoding(self) -> Encoding:
        """How the states are kept."""
        return Encoding(replace(PRECISIONS[self.goal.precision], units=self.goal.lattice), self.known.solves)

    @property
    def scales(self) -> tuple[Scale, ...]:
        """The units that a run keeps its states in."""
        states = {str(s.var.arg): s.var for s in self.system.states}
        return tuple(Scale(states[name], *parse(factor)) for name, factor in self.known.scales)

    @property
    def jump(self) -> Any:
        """What jumps by parameters and dt, if the loop was deleted."""
        if self.goal.propagator == "loop":
            return None
        b = self.built
        return partial(propagator, b.system, b.facts, b.step, self.known.program)

    @cached_property
    def energy_in_loops(self) -> bool:
        """Can the energy be computed along the axes of the states?"""
        s = self.system
        assert s.energy is not None
        clock = UOp.var("t") if s.time is None else s.time
        return not loops_refuse(probe(s.states, s.parameters, clock, {"energy": s.energy}, self.encoding.precision))

    def in_loops(self, members: int) -> bool:
        """Does a run of so many members go along the axes of its states?"""
        k = self.known
        if self.goal.propagator != "loop":  # only energies and observables are computed so
            return k.backend != "python" and self.energy_in_loops
        if k.backend == "python":
            return False
        short = FEW_OF_PAIRS if PRECISIONS[self.goal.precision].wide else FEW
        return not lanes_enough(k.axis, k.written, members, short) and not loops_refuse(self.built.program)

    def __getstate__(self) -> dict[str, Any]:
        """With everything made, and without the key: elsewhere it may mean another program."""
        return self.__dict__ | {"_built": self.built, "key": None}
