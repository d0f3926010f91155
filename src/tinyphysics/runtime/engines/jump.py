"""A run without a loop: the state at any step is a jump from the first, made when a frame or an observable needs it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tinyphysics.device.linear.few_modes import FewModes
from tinyphysics.device.linear.mixed_modes import MixedModes
from tinyphysics.device.linear.modes import at_times
from tinyphysics.runtime.engines.engine import States
from tinyphysics.runtime.engines.few import Few
from tinyphysics.runtime.engines.on_demand import Look, OnDemandEngine
from tinyphysics.runtime.engines.propagator import Propagator
from tinyphysics.runtime.engines.propagators import flat, unflat
from tinyphysics.runtime.state.schedule import time_at
from tinyphysics.system import System

if TYPE_CHECKING:
    from tinyphysics.runtime.state.run import Run

Solved = FewModes | MixedModes
KEPT = 8  # sets of parameters whose modes are remembered


class Jumping(Protocol):
    """How a system jumps: from the first state to any others."""

    @property
    def quick(self) -> bool: ...
    def flows(self, params: Mapping[str, Any], dt: float) -> bool: ...
    def told(self, r: Run, n: int) -> dict[str, Any]: ...
    def frames(self, m: Jumped, steps: Sequence[int | Fraction]) -> dict[str, Any]: ...


@dataclass(eq=False)
class Jumps:
    """How an energy of degree 2 jumps: small systems with all members and frames at once, others by themselves."""

    system: System
    one: Callable[[Mapping[str, Any], float], Propagator]  # by the parameters of a member, and dt
    find: Callable[[], Few | None]

    known: OrderedDict[Any, Solved] = field(default_factory=OrderedDict, repr=False)

    @cached_property
    def few(self) -> Few | None:
        return self.find()

    @property
    def quick(self) -> bool:
        """Is what is known of a jump known without making it?"""
        return self.few is not None

    def modes(self, params: Mapping[str, Any]) -> Solved:
        """At the parameters of all members; those of the last few runs are remembered."""
        assert self.few is not None
        own = {name: params[name] for name in self.few.parameters}
        if any(len(v) > 1 for v in own.values()):
            return self.few.modes(params)
        key = tuple(v.tobytes() for v in own.values())
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self.few.modes(params)
            while len(self.known) > KEPT:
                self.known.popitem(last=False)
        return found

    def flows(self, params: Mapping[str, Any], dt: float) -> bool:
        """Is it the flow itself that jumps, and not the power of a method?"""
        if self.few is not None or not all(map(len, params.values())):
            return True
        return self.one({name: v[0] for name, v in params.items()}, dt).question.stages is None

    def told(self, r: Run, n: int) -> dict[str, Any]:
        """What is known of a jump of the first member of a run."""
        params, dt = r.given.own, r.dt
        own = {name: v[:1] for name, v in params.items()}
        if self.few is not None:
            t = at_times(dt, [n])
            modes = self.modes(own)
            if modes.taken(t.high).all():
                return modes.told(t)
        return self.one({name: v[0] for name, v in own.items()}, dt).told(n)

    def frames(self, m: Jumped, steps: Sequence[int | Fraction]) -> dict[str, Any]:
        """The states at some steps, none of them the first: (frames, members, shape...)."""
        if self.few is None:
            return self.one_by_one(m, steps)
        if m.modes is None:
            m.modes = self.modes(m.params)
        t = at_times(m.dt, steps)
        taken = np.broadcast_to(m.modes.taken(t.high), (len(steps), m.members))
        system = self.system
        with np.errstate(all="ignore"):
            q, p = m.modes.apply(*flat(system, m.start), t)
        out = split(system, q, p)
        if not taken.all():
            lost = np.broadcast_to(m.modes.lost, m.members)
            for v in out.values():
                v[:, lost] = np.nan  # as a loop would have it
            for k in np.flatnonzero(~taken.all(axis=0) & ~lost).tolist():
                frames = np.flatnonzero(~taken[:, k])
                own = self.one_by_one(m.some([k]), [steps[f] for f in frames.tolist()])
                for name, v in own.items():
                    out[name][frames, k] = v[:, 0]
        return out

    def one_by_one(self, m: Jumped, steps: Sequence[int | Fraction]) -> dict[str, Any]:
        """By the propagator of each member, or of all of them."""
        if all(len(v) == 1 for v in m.params.values()):
            return self.one({name: v[0] for name, v in m.params.items()}, m.dt).jump(m.start, steps)
        out = {name: np.empty((len(steps), *v.shape), v.dtype) for name, v in m.start.items()}
        for k in range(m.members):  # each member has its own matrices
            own = {name: v[k if len(v) > 1 else 0] for name, v in m.params.items()}
            one = {name: v[k : k + 1] for name, v in m.start.items()}
            for name, v in self.one(own, m.dt).jump(one, steps).items():
                out[name][:, k] = v[:, 0]
        return out


@dataclass(eq=False)
class Jumped:
    """The state that a run began with, and how far it has come."""

    start: dict[str, Any]  # (members, shape...)
    params: Mapping[str, Any]
    members: int
    dt: float
    steps: int = 0
    # the state at this step, once it was asked for
    seen: dict[str, Any] | None = field(default=None, repr=False)
    modes: Any = field(default=None, repr=False)  # of the members, once they were needed
    t0: float = 0.0

    def some(self, members: list[int]) -> Jumped:
        own = {name: v[members] if len(v) > 1 else v for name, v in self.params.items()}
        start = {name: v[members] for name, v in self.start.items()}
        return Jumped(start, own, len(members), self.dt, self.steps, t0=self.t0)


class JumpEngine(OnDemandEngine[Jumped]):
    """An engine (runtime/engines/engine.py) whose steps cost nothing."""

    launches, compiling, made, found, numbers, room, workers = 0, 0.0, 0, 0, 0, 0, 1
    free_steps = True

    def __init__(self, jumps: Jumping, look: Look | None, frames: Mapping[str, str] | None = None) -> None:
        self.jumps, self.look = jumps, look
        self.frames = dict(frames or {})  # names under which states are among what is watched

    def start(
        self, state: States, params: States, members: int, dt: float, t0: float, threads: int | None = None
    ) -> Jumped:
        return Jumped({name: np.array(v) for name, v in state.items()}, params, members, dt, t0=t0)

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
        return Jumped({name: np.array(v) for name, v in registers.items()}, params, members, dt, steps, t0=t0)

    def snapshot(self, m: Jumped) -> Jumped:
        return replace(m)

    def some(self, m: Jumped, members: list[int]) -> Jumped:
        return m.some(members)

    def overwrite(self, m: Jumped, members: list[int], well: int) -> None:
        m.start, m.seen, m.modes = {name: v.copy() for name, v in m.start.items()}, None, None
        for v in m.start.values():
            v[members] = v[well]
        own = {name: v.copy() if len(v) > 1 else v for name, v in m.params.items()}
        for v in own.values():
            if len(v) > 1:
                v[members] = v[well]
        m.params = own

    def advance(self, m: Jumped, steps: int) -> None:
        m.steps, m.seen = m.steps + steps, None

    def state(self, m: Jumped) -> dict[str, Any]:
        if m.seen is None:
            m.seen = {name: v[0] for name, v in self.at(m, [m.steps]).items()}
        return m.seen

    def between(self, m: Jumped, t: float) -> dict[str, Any]:
        """Of a flow a jump of its own from the first state; of a method's power a shorter step from the last whole one."""
        if self.jumps.flows(m.params, m.dt):
            n = (Fraction(t) - Fraction(m.t0)) / Fraction(m.dt)
            return {name: v[0] for name, v in self.at(m, [n]).items()}
        now = time_at(m.steps, m.dt, m.t0)
        one = Jumped(self.state(m), m.params, m.members, t - now)
        return {name: v[0] for name, v in self.at(one, [1]).items()}

    def watch(self, m: Jumped, rows: int, stride: int) -> dict[str, Any]:
        """The rows of a piece are made together."""
        steps = [m.steps + stride * (j + 1) for j in range(rows)]
        frames = self.at(m, steps)
        out = {} if self.look is None else self.look(frames, steps)
        out |= {name: frames[state] for state, name in self.frames.items()}
        m.steps, m.seen = steps[-1], {name: v[-1] for name, v in frames.items()}
        return out

    def at(self, m: Jumped, steps: Sequence[int | Fraction]) -> dict[str, Any]:
        """The states at some steps, (frames, members, shape...); those of a flow need not be whole."""
        if 0 in steps:
            rest = [n for n in steps if n]
            later = self.at(m, rest) if rest else {}
            out = {name: np.empty((len(steps), *v.shape), v.dtype) for name, v in m.start.items()}
            moved = np.array(steps) != 0
            for name, v in m.start.items():
                out[name][~moved] = v
                if rest:
                    out[name][moved] = later[name]
            return out
        return self.jumps.frames(m, steps)


def split(system: System, q: Any, p: Any) -> dict[str, Any]:
    """States (frames, members, shape...) of positions and momenta (frames, pairs, members)."""
    frames, _, members = q.shape
    columns = (v.transpose(1, 0, 2).reshape(v.shape[1], frames * members) for v in (q, p))
    out = unflat(system, (next(columns), next(columns)))
    return {name: v.reshape(frames, members, *v.shape[1:]) for name, v in out.items()}
