"""A simulation in a loop of your own: what it shows, and what may be changed between two steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tinyphysics.device.cuda.dlpack import is_there
from tinyphysics.errors import InputError, PlanError, StoreError
from tinyphysics.given import shown, whole
from tinyphysics.options import EVOLVE
from tinyphysics.planner.systems.bias import HILLS
from tinyphysics.runtime.measure.deciders import DECIDERS
from tinyphysics.runtime.measure.diagnostics import DIAGNOSTICS
from tinyphysics.runtime.stages.resolve import Request, resolve
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.stages.stepping import Stepping
from tinyphysics.runtime.state.complex_numbers import WithComplex, in_parts
from tinyphysics.runtime.state.schedule import checked_time
from tinyphysics.system import ComplexNumbers
from tinyphysics.trajectory import Frame, Stop
from tinyphysics.util import did_you_mean

INSTEAD = {
    "steps": "s.step(1000)",
    "until": "while s.t < 10.0: s.step()",
    "resume": "sim.stepper(**out.final)",
}


class Stepper:
    """A simulation that is stepped by a loop of your own: `s = sim.stepper(q=..., p=...)`, `s.step()`, `s.q`.

    After n steps `s.q` has the bits of `sim.evolve(..., steps=n).final.q`, however the steps were divided into calls. It is a
    copy, not to be written to. `s.mu = 2.0` or `s.q = [...]` takes effect at this step; `s["mu"]` is the same, also for names
    that a stepper has itself.
    """

    def __init__(self, loop: Stepping, name: str, complexes: Sequence[ComplexNumbers] = ()) -> None:
        object.__setattr__(self, "_loop", loop)
        object.__setattr__(self, "_complexes", {c.name: c for c in complexes})
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_new", {})
        object.__setattr__(self, "_states", [s.name for s in loop.run.system.seen.states])

    # --- stepping -----------------------------------------------------------------------------
    def step(self, n: int = 1) -> None:
        """Takes n steps. A run that has stopped takes no more: `s.stopped` says why."""
        if type(n) is not int or n < 0:
            n = whole("n", n, 0)
        if self._new:
            self._begin()
        self._loop.step(n)

    def _begin(self) -> None:
        new = dict(self._new)
        self._new.clear()
        self._loop.changed(new)

    @property
    def _now(self) -> Stepping:
        """The loop, with what was changed last."""
        if self._new:
            self._begin()
        loop: Stepping = self._loop
        return loop

    # --- looking ------------------------------------------------------------------------------
    @property
    def steps(self) -> int:
        """The number of steps so far."""
        return int(self._loop.n)

    @property
    def t(self) -> Any:
        """The time: t0 + steps*dt."""
        return self._now.t

    @property
    def dt(self) -> float:
        """The time step."""
        return float(self._loop.run.dt)

    @property
    def frame(self) -> Frame:
        """The state now with its time and parameters, `sim.evolve(**s.frame, steps=100)` begins there."""
        return self._now.frame

    @property
    def stopped(self) -> Stop | None:
        """The first reason why the run, or a member of it, ended early; None if all of it goes on."""
        return self._loop.stops[0] if self._loop.stops else None

    @property
    def stops(self) -> tuple[Stop, ...]:
        """All of them, in an ensemble one for each member that has stopped."""
        return tuple(self._loop.stops)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except InputError as error:
            raise AttributeError(str(error)) from None

    def __getitem__(self, name: str) -> Any:
        """A state or a parameter by its name."""
        loop = self._now
        if name in self._complexes:
            c = self._complexes[name]
            return WithComplex({part: self[part] for part in c.parts}, [c])[name]
        if name in self._states:
            return loop.state(name)
        if name in (known := loop.parameters()):
            return known[name]
        raise self._unknown(name)

    # --- changing -----------------------------------------------------------------------------
    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(getattr(type(self), name, None), property) and name not in self._names():
            raise InputError(
                f"`s.{name} = {shown(value)}`: a stepper counts its own steps",
                fix=f"Begin a new one: s = sim.stepper(**s.frame, {'t0' if name == 't' else 'dt'}={shown(value)})."
                if name in ("t", "dt")
                else "Begin a new one: s = sim.stepper(**s.frame).",
            )
        self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        if name in self._complexes:
            for part, number in in_parts([self._complexes[name]], {name: value}).items():
                self[part] = number
            return
        if name not in self._names():
            raise self._unknown(name)
        loop = self._loop
        c, system = loop.resolved.setup.compiled, loop.run.system
        reasons = {
            "its method chooses its own steps": c.adaptive,
            "its loop is deleted, and every state is a jump from the first": c.jump is not None,
            "its time is a state": system.clock is not None,
            "it holds invariants of its first state": bool(c.goal.project),
        }
        for why, holds in reasons.items():
            if holds:
                raise PlanError(
                    f"`s.{name} = {shown(value)}`: nothing can be changed between the steps of `{self._name}`, because {why}",
                    fix=f"Begin a new one: s = sim.stepper(**s.frame, {name}={shown(value)}).",
                )
        self._new[name] = value

    def _names(self) -> list[str]:
        return [*self._complexes, *self._states, *(p.name for p in self._loop.run.system.seen.parameters)]

    def _unknown(self, name: Any) -> InputError:
        known = self._names()
        return InputError(
            f"a stepper of `{self._name}` has no `{name}`",
            fix=f"{did_you_mean(str(name), [*known, 'step', 'steps', 'frame', 'stopped'])}It has {', '.join(known)}.",
        )

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._names()})

    def _ipython_key_completions_(self) -> list[str]:
        return self._names()

    def __repr__(self) -> str:
        end = f", stopped: {self.stopped.cause} at step {self.stopped.step}" if self.stopped else ""
        return f"<Stepper of {self._name} at step {self.steps:,}, t = {self.t}{end}>"

    def __reduce__(self) -> Any:
        raise StoreError(
            "a stepper cannot be pickled or copied: its state is in the memory of a kernel",
            fix="Keep s.frame, and begin again with sim.stepper(**frame).",
        )


def stepper(
    setup: Setup,
    given: Mapping[str, Any],
    t0: Any,
    seed: Any,
    threads: Any,
    complexes: Sequence[ComplexNumbers] = (),
) -> Stepper:
    own, seed = setup.own_names, whole("seed", seed, 0)
    for name in given:
        if name in EVOLVE and name not in own:
            raise InputError(
                f"stepper does not take {name}=",
                fix=f"Write {INSTEAD[name]}." if name in INSTEAD else f"Write sim.evolve(..., {name}=...).",
            )
    how = getattr(setup.source, "biased_by", None)
    if how and how[0] == HILLS:
        raise PlanError(
            "a stepper leaves no hills: they belong to a run of all walkers",
            fix="Write sim.evolve(..., steps=1000).",
        )
    if setup._compiled is not None and setup.system.barostat:
        raise PlanError("a stepper leaves the box as it is", fix="Write sim.evolve(..., steps=1000).")
    if any(map(is_there, given.values())):
        raise PlanError("a stepper begins with arrays of this machine", fix="Pass NumPy arrays.")
    if setup.goal.is_accurate and setup.goal.decision is None:
        raise InputError(
            "a stepper needs a step, and the step of this simulation is not found yet",
            fix='Pass pilot={"q": ..., "p": ...} to compile, or run it first: sim.evolve(..., until=10.0).',
        )
    if setup._compiled is not None and setup.compiled.adaptive and given.get("dt", setup.goal.dt) is None:
        raise InputError(
            "a stepper of a method that chooses its own steps needs dt, the time from one look to the next",
            fix="Pass it: sim.stepper(..., dt=0.1).",
        )
    count = None if threads is None else whole("threads", threads, 1)
    # a stepper has no end for which the step of a goal could be found: it has that of the last run
    r = resolve(setup, Request(given, steps=1, t0=t0, seed=seed), DECIDERS, setup.goal.is_accurate)
    checked_time(r.t0)
    return Stepper(Stepping(r, count, DIAGNOSTICS), setup.system.name, complexes)
