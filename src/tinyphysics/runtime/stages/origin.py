"""What can still be asked of a finished run?  Its energies, and by a bit-equal replay, every step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, PlanError
from tinyphysics.ir import UOp
from tinyphysics.plan import Goal
from tinyphysics.runtime.stages.drift_of_values import Excursion
from tinyphysics.runtime.stages.execute import clock_of, execute, observe_states
from tinyphysics.runtime.stages.extremes import Extremes, kept_in_the_loop, only
from tinyphysics.runtime.stages.glance import drift_over_frames
from tinyphysics.runtime.stages.own_time import AT, with_times
from tinyphysics.runtime.stages.running import Sink
from tinyphysics.runtime.stages.terms import CANCELLED as CANCELLED
from tinyphysics.runtime.stages.terms import addends as addends
from tinyphysics.runtime.stages.terms import made_of
from tinyphysics.runtime.state.across import History
from tinyphysics.runtime.state.record import Carried, Record
from tinyphysics.runtime.state.run import Run, made
from tinyphysics.runtime.state.schedule import Schedule, time_at, times_at, times_of
from tinyphysics.system import State
from tinyphysics.touching import IMPULSE, RUB
from tinyphysics.tpir.precision.probe import REST
from tinyphysics.trajectory import Touched
from tinyphysics.util import did_you_mean, plural

EXTENDED = "extended energy"  # H + p_t: what is conserved where H depends on t
P_T = "p_t"
# what may be booked beside the energy: what friction, contacts and bounces took, the heat that came in, what a drive gave
BOOKS = ("friction", "contacts", "heat", "drive", "bounces")
GIVEN = ("heat", "drive")  # of these, what adds to the energy
TERMS = "largest sum of |terms of H|"
SLOPES = "largest sum of |z dH/dz| over the states z in the frames"
SUSPICIOUS = 1e-6  # a drift above it may be one over a scale that is itself rounding
LOOKS = 499  # times at which a run without a grid is looked at, after the first: as many as it has frames
PIECE = 1 << 28  # bytes of frames that are looked at together


def looking_between(
    run: Run,
    values: Mapping[str, UOp],
    frames: Mapping[str, Any],
    steps: list[int],
    times: Any,
    changed: Mapping[str, Any],
) -> dict[str, Any]:
    """Values of some frames; those between two steps have times of their own, which are not NaN."""
    out, clock = observe_states(run, values, frames, steps, changed), clock_of(run.system)
    if times is None or not any(clock in u.leaves for u in values.values()):
        return out
    for k in np.flatnonzero(~np.isnan(times)).tolist():
        one = {name: v[k : k + 1] for name, v in frames.items()}
        own = {name: v[k : k + 1] for name, v in changed.items()}
        for name, v in observe_states(replace(run, t0=float(times[k])), values, one, [0], own).items():
            out[name][k] = v[0]
    return out


@dataclass(frozen=True)
class CompileRecord:
    """What a run was compiled from."""

    goal: Goal
    backend: str
    checks: str
    program: str  # its hash
    seed: int


@dataclass(frozen=True, eq=False)
class Wandering:
    """How far an energy went, over which scale, and the first step whose energy is not finite."""

    drift: Any  # by member
    scale: Any
    of: str
    bad: int | None
    is_ensemble: bool
    what: str = "the energy"
    cancels: Any = None  # by member: is its scale that of the slopes?

    @property
    def value(self) -> Any:
        return self.drift if self.is_ensemble else float(self.drift[0])

    @property
    def note(self) -> str:
        """What a user must know besides the number; empty if it is that of the terms of H."""
        if self.bad is not None:
            return f"{self.what} is not finite at step {self.bad}: its drift is NaN"
        if self.of == SLOPES:
            where = f" in {plural(int(self.cancels.sum()), 'member')}" if self.is_ensemble else ""
            return f"the terms of H cancel{where}: the drift is relative to {self.largest:.3g}, the {SLOPES}"
        return ""

    @property
    def largest(self) -> float:
        """Of the scales that `of` names."""
        return float((self.scale[self.cancels] if self.of == SLOPES else self.scale).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class Origin:
    run: Run
    frames: Mapping[str, Any]  # (frames, members, shape...)
    steps: Any
    last: int
    values: Mapping[str, UOp] = field(default_factory=dict)  # that were observed
    asked: CompileRecord | None = None
    between: Any = None  # (frames,): the times of those between two steps; NaN: the step itself
    rows: Any = None  # of the frames, those that the user sees; None: all
    carried: Carried | None = None  # the loop state at the end
    # what was changed together with the states: runtime/state/across.py
    changed: Mapping[str, History] = field(default_factory=dict)

    @property
    def is_ensemble(self) -> bool:
        return self.run.given.is_ensemble

    def energy(self) -> UOp:
        system = self.run.system.seen
        if system.energy is None:
            raise PlanError(
                f"`{system.name}` is given by its {system.kind}: no energy is known for it",
                fix="Write it as a Hamiltonian, or observe a function of your own.",
            )
        return system.energy

    def energies(self) -> Any:
        """The energy of every frame."""
        return self.seen(self.looked({"energy": self.energy()})["energy"])

    def seen(self, values: Any) -> Any:
        """Values of every frame, as a user sees them."""
        out = values if self.rows is None else values[self.rows]
        return out if self.run.given.is_ensemble else out[:, 0]

    @property
    def velocities(self) -> dict[str, UOp]:
        """Of a Lagrangian: its velocities as functions of the states, by their names."""
        motion = self.run.system.motion
        return {} if motion is None else {str(v.arg): u for v, u in zip(motion.v, motion.velocities)}

    def velocity(self, name: str) -> Any:
        """One of them, at every frame."""
        return self.seen(self.looked({name: self.velocities[name]})[name])

    def multipliers(self, name: str) -> Any:
        """Of a constraint, at every frame."""
        from tinyphysics.runtime.stages.constraints import multipliers  # most systems have none

        value = multipliers(self.run.system, made(self.run.program).name, self.run.dt, name)
        return self.seen(self.looked({name: value})[name])

    def contacts(self, name: str) -> Touched:
        """Of a contact, at every frame."""
        s = self.run.system
        names = [c.name for c in s.contacts]
        if name not in names:
            known = ", ".join(f"`{n}`" for n in names) or "none"
            raise InputError(
                f"there is no contact `{name}`", fix=f"{did_you_mean(name, names)}It has {known}."
            )
        k = names.index(name)
        dt = UOp.const(abs(self.run.dt))
        states = {x.name: x.var for x in s.states}
        found = {"gap": s.gaps[k]}
        for key, end in (("force", IMPULSE), ("rub", RUB)):
            if (u := states.get(name + end)) is not None:
                found[key] = u / dt.expand(u.shape)
        return Touched(**{key: self.seen(v) for key, v in self.looked(found).items()})

    def looked(self, values: Mapping[str, UOp]) -> dict[str, Any]:
        """Values of every frame."""
        steps = [int(n) for n in self.steps]
        size = max(1, PIECE // max(sum(v[:1].nbytes for v in self.frames.values()), 1))
        parts = []
        for k in range(0, len(steps), size):  # frames may be more than the available memory
            some = {name: v[k : k + size] for name, v in self.frames.items()}
            times = None if self.between is None else np.asarray(self.between)[k : k + size]
            now = {name: h.at(steps[k : k + size]) for name, h in self.changed.items()}
            parts.append(looking_between(self.run, values, some, steps[k : k + size], times, now))
        if len(parts) == 1:
            return parts[0]
        return {name: np.concatenate([part[name] for part in parts]) for name in values}

    def watched(self, name: str) -> dict[str, UOp]:
        if self.observes(name):
            return self.watched_value(self.values[name])
        if name in self.booked() and self.run.system.clock is None:
            value = UOp.var(self.momentum)
            return self.watched_value(0.0 - value if name in GIVEN else value, self.energy())
        if name not in ("energy", EXTENDED):
            known = ", ".join(("energy", *self.values))
            raise InputError(
                f"the drift of `{name}` is not known: it was not observed in this run",
                fix=f"{did_you_mean(name, ['energy', *self.values])}Known: {known}. "
                f"To record it, pass observe={{{name!r}: lambda q, p: ...}} to evolve.",
            )
        energy = self.energy()
        system = self.run.system
        momentum = self.momentum if system.clock is None else system.clock.momentum
        value = energy + UOp.var(momentum) if name == EXTENDED and system.seen.books else energy
        return self.watched_value(value, energy)

    def booked(self) -> tuple[str, ...]:
        """What is booked beside the energy."""
        s = self.run.system.seen
        has = {
            "friction": bool(s.friction),
            "heat": bool(s.heat),
            "contacts": bool(s.contacts),
            "drive": s.driven,
            "bounces": bool(s.crossings),
        }
        return tuple(name for name in BOOKS if s.energy is not None and has[name])

    def ledger(self) -> dict[str, Any]:
        """What friction and contacts have taken, and a bath and a drive have given up to each frame."""
        out = {}
        for name in self.booked():
            _, values, _ = self.series(name)
            if self.run.jump is not None:  # every frame has its own
                out[name] = values if self.rows is None else values[self.rows]
                continue
            rows = np.asarray([int(n) for n in self.steps])
            found = np.asarray(values)[rows]
            if self.between is not None:
                found = np.where(np.isnan(self.between).reshape(-1, *[1] * (found.ndim - 1)), found, np.nan)
            out[name] = found if self.rows is None else found[self.rows]
        return out

    def observes(self, name: str) -> bool:
        """Is it an observable of the run?  Its energy is more: what a drive has done is taken away from it."""
        return name in self.values and name != "energy"

    def watched_value(self, value: UOp, terms: UOp | None = None) -> dict[str, UOp]:
        """A value, and the sum of the sizes of its terms."""
        sizes = UOp.sum_of(abs(x) for x in addends(value if terms is None else terms))
        rest = {f"{REST}value": value} if self.run.encoding.precision.wide else {}
        return with_times(self.run.system, {"value": value, "scale": sizes, **rest})

    def times(self, again: Record) -> Any:
        """When something was observed."""
        if self.run.system.clock is None:
            return times_at(again.observed_at, self.on_grid(self.run).dt, self.run.t0)
        t = again.series(AT)
        return t if self.run.given.is_ensemble else t[:, 0]

    @property
    def momentum(self) -> str:
        """A name for the momentum of explicit time that the system has not used."""
        s = self.run.system
        taken = {x.name for x in s.states} | {x.name for x in s.parameters}
        return next(name for k in range(len(taken) + 1) if (name := P_T + "_" * k) not in taken)

    def extended(self, books: str = "") -> Run:
        """The run with what is booked as one more state, from 0 on; the others have the bits that they had."""
        run, name = self.run, self.momentum
        assert run.watching is not None
        zeros = run.encoding.stored(name, np.zeros(run.given.members))
        system = replace(run.system, states=(*run.system.states, State(name, UOp.var(name), "auxiliary")))
        given = replace(run.given, states={**run.given.states, **zeros})
        return replace(run, program=run.watching(name, books), system=system, given=given)

    def replayed(self, name: str) -> Run:
        if name in self.booked() and not self.observes(name):
            return self.extended(name if len(self.booked()) > 1 else "")
        return self.extended() if name == EXTENDED and self.run.system.books else self.run

    def again(self, name: str, sink: Sink | None = None, run: Run | None = None) -> Record:
        """The run again, bit for bit; every step is observed, and nothing else kept."""
        run = self.on_grid(self.replayed(name) if run is None else run)
        steps = min(self.last * LOOKS, LOOKS) if run.gridless else self.last
        nothing = Record(Schedule(steps, None, 1, None), {})
        out, *_ = execute(run, nothing, self.watched(name), lambda n: None, sink)
        out.raise_error()
        return out

    def on_grid(self, run: Run) -> Run:
        """Without a grid of its own a run is looked at in equal parts: no time that is looked at changes its steps."""
        return replace(run, dt=self.span / LOOKS) if run.gridless else run

    @property
    def span(self) -> float:
        """How long the run took, from its very beginning."""
        end = self.run.schedule.end
        whole = time_at(self.last, self.run.dt, self.run.t0)
        return (whole if end is None or self.last < self.run.schedule.steps else end) - self.run.t0

    def series(self, name: str) -> tuple[Any, Any, Any]:
        """(times, values, scale) over every step."""
        if self.run.jump is not None:  # there are no steps between its frames
            return self.of_frames(name)
        again = self.again(name)
        values, scale = again.series("value"), np.maximum.reduce(again.series("scale"), axis=0)
        t = self.times(again)
        return (t, values, scale) if self.run.given.is_ensemble else (t, values[:, 0], scale[0])

    def changes(self, name: str) -> tuple[Any, Any]:
        """(times, values) over every step; of a run in pairs of float64, less the first, which would hide the changes."""
        name = EXTENDED if name == "energy" else name
        if not self.run.encoding.precision.wide:
            return self.series(name)[:2]
        again = self.again(name)
        high, low = again.series("value"), again.series(f"{REST}value")
        off = (high - high[0]) + (low - low[0])
        t = self.times(again)
        return t, off if self.run.given.is_ensemble else off[:, 0]

    def of_frames(self, name: str) -> tuple[Any, Any, Any]:
        """(times, values, scale) of a deleted loop: over its frames, which is all that it has."""
        seen = self.in_frames(name)
        values, scale = seen["value"], np.maximum.reduce(seen["scale"], axis=0)
        t = times_of((self.steps, self.between), self.run.dt, self.run.t0)
        return (t, values, scale) if self.run.given.is_ensemble else (t, values[:, 0], scale[0])

    def in_frames(self, name: str) -> dict[str, Any]:
        """What is watched in the frames of a deleted loop. Its friction has taken the energy that is gone: that is exact."""
        if not self.run.system.friction or self.observes(name) or name == "energy":
            return self.looked(self.watched(name))
        seen = self.looked(self.watched("energy"))
        first = seen["value"][:1]
        gone = first - seen["value"]
        return seen | {"value": first + 0.0 * gone if name == EXTENDED else gone}

    def drift(self, name: str) -> Wandering:
        """Largest |E - E0| / S over every step, per member; nothing but the extremes is kept."""
        if self.observes(name):
            return self.drift_of_value(name)
        name = EXTENDED if name == "energy" else name
        wide = self.run.encoding.precision.wide
        seen = Extremes(self.run.given.members, wide)
        if self.run.jump is not None:
            seen.add(self.in_frames(name), slice(None))
            return self.judged(seen, {})
        run = self.replayed(name)
        kept = kept_in_the_loop(run, self.last, self.watched(name))
        if kept is None:
            return self.judged(seen, self.ends(self.again(name, seen.add)))
        seen, apart = kept
        if not len(apart):
            return self.judged(seen, {})
        few = Extremes(len(apart), wide)
        again = self.again(name, few.add, only(run, apart))
        seen.put(apart, few)
        return self.judged(seen, {int(apart[k]): step for k, step in self.ends(again).items()})

    def ends(self, again: Record) -> dict[int, int]:
        """Where members of the run stopped: not for the momentum of time, which only the replay has."""
        return {s.member or 0: s.step for s in again.stops if s.where is None or s.where[0] != self.momentum}

    def drift_of_value(self, name: str) -> Wandering:
        """The same of an observable, S the run's largest sum of |terms|; of an array, over all its numbers."""
        seen, stops = Excursion(self.run.given.members, self.run.encoding.precision.wide), []
        if self.run.jump is not None:
            seen.add(self.looked(self.watched(name)), slice(None))
        else:
            stops = self.again(name, seen.add).stops
        drift, bad = seen.over({stop.member or 0: stop.step for stop in stops})
        of, many = f"largest sum of |terms of {name}|", self.run.given.is_ensemble
        return Wandering(drift, seen.scale, of, bad, many, f"`{name}`")

    def judged(self, seen: Extremes, stopped: Mapping[int, int]) -> Wandering:
        """Extremes over their scale; NaN where an energy was not finite before its member stopped."""
        end = np.full(len(seen.bad), np.iinfo(np.int64).max)
        for member, step in stopped.items():
            end[member] = step
        failed = seen.bad < end
        scale = seen.scale.copy()
        with np.errstate(invalid="ignore", divide="ignore"):
            out = seen.worst / np.where(scale > 0, scale, 1.0)
            suspicious = ~failed & (out > SUSPICIOUS)  # by member: no drift depends on another member
            cancels = np.zeros_like(failed)
            if suspicious.any():
                size = self.slopes_seen()
                cancels = suspicious & (scale <= CANCELLED * size)
                scale, out = np.where(cancels, size, scale), np.where(cancels, seen.worst / size, out)
        out[failed] = np.nan
        first = int(seen.bad[failed].min()) if failed.any() else None
        of = SLOPES if cancels.any() else TERMS
        return Wandering(out, scale, of, first, self.run.given.is_ensemble, cancels=cancels)

    def glance(self) -> float | None:
        """The drift of the energy over the frames, where it is known at once."""
        return drift_over_frames(self.run, self.frames)

    def slopes_seen(self) -> Any:
        """The size of sum |z dH/dz| in the frames: what the terms of H are made of, also where they cancel."""
        states = [s.var for s in self.run.system.seen.states]
        found = self.looked({"size": made_of(self.energy(), states)})["size"]
        return np.fmax.reduce(np.where(np.isfinite(found), found, 0.0), axis=0)
