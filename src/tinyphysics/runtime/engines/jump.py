"""A run without a loop: the state at any step is a jump from the first, made when somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tinyphysics.runtime.engines.engine import States
from tinyphysics.runtime.engines.on_demand import Look, LookedAt
from tinyphysics.runtime.engines.propagator import Propagator
from tinyphysics.runtime.state.schedule import time_at


@dataclass(eq=False)
class Jumped:
    """The state that a run began with, and how far it has come."""

    start: dict[str, Any]  # (members, shape...)
    params: Mapping[str, Any]
    members: int
    dt: float
    t0: float = 0.0
    steps: int | Fraction = 0
    seen: dict[str, Any] | None = field(
        default=None, repr=False
    )  # the state at this step, once it was asked for


class JumpEngine(LookedAt[Jumped]):
    """An engine (runtime/engines/engine.py) whose steps cost nothing."""

    launches, compiling, made, found, numbers, room, workers = 0, 0.0, 0, 0, 0, 0, 1

    def __init__(
        self, propagator: Callable[[Mapping[str, Any], float], Propagator], look: Look | None
    ) -> None:
        self.propagator, self.look = propagator, look

    def start(
        self, state: States, params: States, members: int, dt: float, t0: float, threads: int | None = None
    ) -> Jumped:
        return Jumped({name: np.array(v) for name, v in state.items()}, params, members, dt, t0)

    def held(self, m: Jumped) -> Any:
        raise AssertionError("a jump has no rows to hold")

    def resume(
        self, rows: Any, params: States, members: int, dt: float, t0: float, steps: int, threads: int | None
    ) -> Any:
        raise AssertionError("a jump has no rows to resume from")

    def registers(self, m: Jumped) -> dict[str, Any]:
        """What a checkpoint holds: jumps go on from where the run began."""
        return dict(m.start)

    def restored(
        self,
        registers: States,
        params: States,
        members: int,
        dt: float,
        t0: float,
        steps: int,
        threads: int | None = None,
    ) -> Jumped:
        return Jumped({name: np.array(v) for name, v in registers.items()}, params, members, dt, t0, steps)

    def snapshot(self, m: Jumped) -> Jumped:
        return replace(m)

    def some(self, m: Jumped, members: list[int]) -> Jumped:
        own = {name: v[members] if len(v) > 1 else v for name, v in m.params.items()}
        return Jumped(
            {name: v[members] for name, v in m.start.items()}, own, len(members), m.dt, m.t0, m.steps
        )

    def overwrite(self, m: Jumped, members: list[int], well: int) -> None:
        m.start, m.seen = {name: v.copy() for name, v in m.start.items()}, None
        for v in m.start.values():
            v[members] = v[well]

    def advance(self, m: Jumped, steps: int) -> None:
        m.steps, m.seen = m.steps + steps, None

    def state(self, m: Jumped) -> dict[str, Any]:
        if m.seen is None:
            m.seen = self.jumped(m)
        return m.seen

    def between(self, m: Jumped, t: float) -> dict[str, Any]:
        """Of a flow a jump of its own from the first state; of a method's power a shorter step from the last whole one."""
        n = (Fraction(t) - Fraction(m.t0)) / Fraction(m.dt)
        if self.flows(m):
            return self.jumped(replace(m, steps=n, seen=None))
        now = time_at(m.steps, m.dt, m.t0)
        return self.jumped(Jumped(self.state(m), m.params, m.members, t - now, now, 1))

    def flows(self, m: Jumped) -> bool:
        """Is it the flow itself that jumps?"""
        if not m.members:
            return True
        own = {name: v[0] for name, v in m.params.items()}
        return self.propagator(own, m.dt).question.stages is None

    def jumped(self, m: Jumped) -> dict[str, Any]:
        if m.steps == 0:
            return m.start
        if all(len(v) == 1 for v in m.params.values()):
            return self.propagator({name: v[0] for name, v in m.params.items()}, m.dt).jump(m.start, m.steps)
        out = {name: np.empty_like(v) for name, v in m.start.items()}
        for k in range(m.members):  # each member has its own matrices
            own = {name: v[k if len(v) > 1 else 0] for name, v in m.params.items()}
            one = {name: v[k : k + 1] for name, v in m.start.items()}
            for name, v in self.propagator(own, m.dt).jump(one, m.steps).items():
                out[name][k] = v[0]
        return out
