"""What is the gradient of a loss by states and parameters?  The exact adjoint of the steps that ran, with its report.

A gradient has the shape of its argument. Of an ensemble the states and each member's own parameters have a gradient for each
member; that of a shared parameter is summed over the members, correctly rounded, so that their order does not matter.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import here
from tinyphysics.errors import InputError, PhysicsWarning, PlanError
from tinyphysics.flows.cotangents import BAR, REST
from tinyphysics.flows.solvers.products import ROUNDS
from tinyphysics.ir import UOp, substitute
from tinyphysics.rules.calculus.vjp import vjp
from tinyphysics.rules.identities.real import simplify
from tinyphysics.runtime.measure.act_past import ActPast, Passed
from tinyphysics.runtime.measure.beginnings import through_beginning
from tinyphysics.runtime.measure.cotangent_words import joined
from tinyphysics.runtime.measure.course import Course, Key, Pullback
from tinyphysics.runtime.measure.horizon import Horizon, horizon
from tinyphysics.runtime.measure.jump_gradients import look, pull_back
from tinyphysics.runtime.measure.loop_numbers import HOST, is_zero, zero_exponents
from tinyphysics.runtime.measure.loss_function import FINAL, FRAMES, SEEN, TIMES, Loss, Symbols, evaluate
from tinyphysics.runtime.measure.own_steps import OwnPast, OwnPullback
from tinyphysics.runtime.measure.past import Looks, Report, checkpointed, reversed_, stored
from tinyphysics.runtime.measure.plan_past import Past
from tinyphysics.runtime.measure.round_past import RoundPast
from tinyphysics.runtime.measure.sweep_file import SweepFile
from tinyphysics.runtime.stages.execute import clock_of
from tinyphysics.runtime.stages.observed import traced
from tinyphysics.step import DT, SOLVES
from tinyphysics.target import NUMPY
from tinyphysics.util import did_you_mean, frames_to_user, one_of

Arrays = Mapping[str, Any]
PIECE = 1 << 15  # numbers
HELD = 1000  # powers of two that float64 has, with some for what is smaller


@dataclass(frozen=True, eq=False)
class Gradients(Mapping[str, Any]):
    """Gradients by name: `grads["q"]`, `grads["mu"]`; `grads.words("q")` is (mantissa, exponent), where they outgrow float64.

    `grads.report` says how the past was known, `grads.horizon` how far the answer means anything.
    """

    mantissas: Mapping[str, Any]
    exponents: Mapping[str, Any]  # of the shape of a mantissa without the axes of the argument
    report: Report
    _horizon: Callable[[], Horizon] = field(repr=False)
    _start: Arrays = field(default_factory=dict, repr=False)

    @cached_property
    def horizon(self) -> Horizon:
        """How far the answer means anything."""
        return self._horizon()

    @cached_property
    def start(self) -> Arrays:
        """What the states were taken back to, word by word."""
        return {name: here(v) for name, v in self._start.items()}

    def words(self, name: str) -> tuple[Any, Any]:
        """(mantissa, exponent): the gradient is mantissa * 2**exponent."""
        self._known(name)
        return self.mantissas[name], self.exponents[name]

    def __getitem__(self, name: str) -> Any:
        self._known(name)
        m, e = np.asarray(self.mantissas[name]), np.asarray(self.exponents[name])
        if is_zero(e):
            return m.copy() if m.ndim else float(m)
        with np.errstate(over="ignore", under="ignore"):
            out = np.ldexp(m, e.reshape(e.shape + (1,) * (m.ndim - e.ndim)))
        if np.isinf(out).any() and np.isfinite(m).all():
            warnings.warn(
                f"the gradient by `{name}` is larger than any float64; grads.words({name!r}) has it as mantissa and exponent",
                RuntimeWarning,
                stacklevel=2,
            )
        return out if out.ndim else float(out)

    def _known(self, name: str) -> None:
        if name not in self.mantissas:
            known = list(self.mantissas)
            raise InputError(
                f"there is no gradient by `{name}`",
                fix=f"{did_you_mean(str(name), known)}It has {', '.join(known)}; ask for others by wrt=[...].",
            )

    def __contains__(self, name: object) -> bool:
        return name in self.mantissas

    def __iter__(self) -> Iterator[str]:
        return iter(self.mantissas)

    def __len__(self) -> int:
        return len(self.mantissas)

    def __repr__(self) -> str:
        return f"<Gradients by {', '.join(self)}: {self.report}>"


# --- what a loss reads ------------------------------------------------------------------------------
class Readings:
    """The values of a run that a loss reads, and what their cotangents are of states and parameters."""

    def __init__(self, course: Course, looks: Looks) -> None:
        self.course, self.looks = course, looks
        system = course.setup.system
        self.time = UOp.var("t") if system.clock is None else clock_of(system)
        clock = {clock_of(system): self.time}
        self.values = {
            name: substitute([traced(system, f, name)], clock)[0]
            for name, f in course.scheduled.watched.items()
        }
        self.direct: dict[str, Any] = {}  # gradients by parameters that observables read themselves

    def symbols(self, frames: bool) -> Symbols:
        c = self.course
        return Symbols(
            {s.name: s.var.shape for s in c.setup.system.seen.states},
            {name: u.shape for name, u in self.values.items()},
            len(c.frames) if frames else 0,
            len(c.observed),
        )

    def state(self, key: Key, name: str) -> Any:
        words = self.course.first() if key == 0 else self.looks.seen[key]
        return self.course.shown(words)[name]

    def rows(self, keys: Sequence[Key], name: str) -> Any:
        """(members, steps, shape...)."""
        return np.stack([here(self.state(key, name)) for key in keys], axis=1)

    def environment(self) -> dict[str, Any]:
        """Of observables: as many members as there are members and steps."""
        c, system = self.course, self.course.setup.system
        count = len(c.observed)
        env = {}
        for s in system.states:
            rows = self.rows(c.observed, s.name)
            env[str(s.var.arg)] = rows.reshape(-1, *s.var.shape)
        for p in system.parameters:
            v = np.broadcast_to(c.run.given.params[p.name], (c.members, *p.var.shape))
            env[str(p.var.arg)] = np.repeat(v, count, axis=0)
        env[str(self.time.arg)] = np.tile(c.times(c.observed), c.members)
        return env

    def given(self, reads: Sequence[UOp]) -> dict[str, Any]:
        """The values of what a loss reads, (members, shape...)."""
        c, out = self.course, {}
        series: dict[str, Any] = {}
        for v in reads:
            kind, _, name = str(v.arg).partition(".")
            if kind == FINAL:
                out[str(v.arg)] = self.state(c.last, name)
            elif kind == FRAMES:
                out[str(v.arg)] = self.rows(c.frames, name)
            elif kind == TIMES and (clock := c.setup.system.clock) is not None:
                out[TIMES] = self.rows(c.frames, clock.time)
            elif kind == TIMES:
                t = c.times(c.frames)
                out[TIMES] = np.broadcast_to(t, (c.members, len(t)))
            elif kind == SEEN:
                if not series:
                    series = evaluate(self.values, self.environment(), c.members * len(c.observed))
                shape = (c.members, len(c.observed), *self.values[name].shape)
                out[str(v.arg)] = series[name].reshape(shape)
        return out

    def seeds(self, slopes: Arrays) -> dict[Key, dict[str, Any]]:
        """Cotangents of the states at some steps, from the derivatives of a loss by what it reads."""
        c, out = self.course, dict[Key, dict[str, Any]]()

        def add(key: Key, name: str, value: Any) -> None:
            own = out.setdefault(key, {})
            own[name] = c.numbers.add(own[name], value) if name in own else value

        for key, d in slopes.items():
            kind, _, name = key.partition(".")
            if kind == FINAL:
                add(c.last, name, d)
            elif kind == FRAMES:
                for k, frame in enumerate(c.frames):
                    add(frame, name, d[:, k])
            elif kind == TIMES and (clock := c.setup.system.clock) is not None:
                for k, frame in enumerate(c.frames):
                    add(frame, clock.time, d[:, k])
            elif kind == TIMES:  # t0 + n*dt
                self.directly("dt", (d * c.by_step(c.frames)).sum(axis=1))
            elif kind == SEEN:
                for other, value in self.pulled(name, d).items():
                    for k, n in enumerate(c.observed):
                        add(n, other, value[:, k])
        return out

    def at_whole_steps(self, seeds: Mapping[Key, Arrays]) -> dict[int, dict[str, Any]]:
        """Those of times between two steps, pulled back through their shorter steps to the whole ones before."""
        c = self.course
        out = {n: dict(bars) for n, bars in seeds.items() if isinstance(n, int)}
        parts = {key: bars for key, bars in seeds.items() if isinstance(key, tuple)}
        if not parts:
            return out
        pull = self.to_a_time if c.ends_in_time else c.adjoint(False).part
        for (n, t), bars in parts.items():
            before = c.first() if n == 0 else self.looks.seen[n]
            found = pull(before, self.looks.seen[n, t], bars, n, t)
            at = out.setdefault(n, {})
            for s in c.setup.system.states:
                value = joined(found, f"{s.name}{BAR}")
                at[s.name] = c.numbers.add(at[s.name], value) if s.name in at else value
            for v in c.wrt:
                name = str(v.arg)
                self.directly(
                    name, joined(found, f"{name}{BAR}") + np.asarray(here(found[f"{name}{REST}"]), float)
                )
        return out

    def to_a_time(self, before: Arrays, after: Arrays, bars: Arrays, n: int, t: float) -> dict[str, Any]:
        """The same where time is a state: how long the shorter step is follows from its time, which is held."""
        c, clock = self.course, self.course.setup.system.clock
        assert clock is not None
        pull = Pullback(c, c.adjoint_program(False, more=(DT,)))
        found = pull.part(before, after, bars, n, t)
        later = pull.part(before, after, {clock.time: np.ones(c.members)}, n, t)
        high, low = f"{DT.arg}{BAR}", f"{DT.arg}{REST}"
        ratio, pace = (joined(x, high) + np.asarray(here(x[low]), float) for x in (found, later))
        return {name: v - spread(ratio / pace, later[name]) * later[name] for name, v in found.items()}

    def directly(self, name: str, value: Any) -> None:
        self.direct[name] = self.direct.get(name, 0.0) + value

    def pulled(self, name: str, d: Any) -> dict[str, Any]:
        """Cotangents of states at all observed steps, from those of an observable; parameters are summed up."""
        c, system = self.course, self.course.setup.system
        u = self.values[name]
        seed = UOp.var("cotangent", u.shape)
        states = {s.name: s.var for s in system.states if s.var in u.leaves}
        parameters = {p.name: p.var for p in system.parameters if p.var in u.leaves}
        clocked = self.time in u.leaves and system.clock is None
        inputs = {**states, **parameters, **({"t": self.time} if clocked else {})}
        if not inputs:
            return {}
        wanted = dict(zip(inputs, simplify(vjp([u], [seed], list(inputs.values())))))
        env = self.environment() | {"cotangent": d.reshape(-1, *u.shape)}
        found = evaluate(wanted, env, c.members * len(c.observed))
        each = {n: v.reshape(c.members, len(c.observed), *v.shape[1:]) for n, v in found.items()}
        for p in parameters:
            self.directly(p, each[p].sum(axis=1))
        if "t" in each and c.setup.system.clock is None:
            self.directly("dt", (each["t"] * c.by_step(c.observed)).sum(axis=1))
        return {n: each[n] for n in states}


# --- sweeping ---------------------------------------------------------------------------------------
def sweep(course: Course, looks: Looks, seeds: Any, past: Past, file: SweepFile) -> tuple[Pullback, Report]:
    report = Report(past.kind)
    for angles in course.decided.values():
        report.approximate = float(angles[:, 1].max())
    try:
        if past.kind == "store":
            return stored(course, looks, seeds, report, file), report
        if past.kind == "reverse":
            return reversed_(course, looks, seeds, report, file), report
        return checkpointed(course, looks, seeds, report, past.snapshots, past.room, file), report
    except KeyboardInterrupt:
        file.interrupted()
        raise


def swept(
    course: Course,
    readings: Readings,
    slopes_of: Any,
    past: Past | OwnPast | RoundPast | ActPast,
    wrt: Sequence[str],
    per_member: bool,
    file: SweepFile | None = None,
) -> Gradients:
    """The gradients of what gives `slopes_of` when the run is at its end; `file` keeps a sweep that is interrupted."""
    looks, first = readings.looks, dict[str, Any]()
    if isinstance(past, OwnPast):
        if not looks.seen:
            looks.along()
        joining = readings.seeds(slopes_of())
        first.update(joining.pop(0, {}))
        own, report = past.swept(joining)
        return gathered(course, readings, own.bars, own.exponent, first, report, own, wrt, per_member)

    if isinstance(past, RoundPast):
        looks.go(course.begin(), 0, course.steps)
        ends, begun, back, report = past.swept(readings.seeds(slopes_of()), looks.seen, readings.directly)
        return gathered(course, readings, ends, back.exponent, begun, report, back, wrt, per_member)

    if isinstance(past, ActPast):
        past.forward(looks)
        whole = readings.at_whole_steps(readings.seeds(slopes_of()))
        first.update(whole.pop(0, {}))
        pulled, passed, report = past.back(whole, sweep)
        return gathered(course, readings, pulled, passed.exponent, first, report, passed, wrt, per_member)

    def seeds() -> dict[int, dict[str, Any]]:
        found = readings.at_whole_steps(readings.seeds(slopes_of()))
        first.update(found.pop(0, {}))
        if course.steps == 0:
            return {}
        return found

    if course.steps == 0:
        looks.seen[0] = course.first()
        looks.look_between(0)
        seeds()
        zeros = {s.name: np.zeros((course.members, *s.var.shape)) for s in course.setup.system.states}
        end = {f"{n}{BAR}": v for n, v in zeros.items()}
        return gathered(
            course,
            readings,
            end,
            zero_exponents(course.members),
            first,
            Report(past.kind),
            None,
            wrt,
            per_member,
        )
    if course.run.jump is not None:
        look(course, looks)
        joining = readings.seeds(slopes_of())
        first.update(joining.pop(0, {}))
        end = {f"{n}{BAR}": v for n, v in pull_back(course, joining, wrt).items()}
        none = zero_exponents(course.members)
        return gathered(course, readings, end, none, first, Report(past.kind), None, wrt, per_member)
    pull, report = sweep(course, looks, seeds, past, file or SweepFile(None, None))
    return gathered(course, readings, pull.end(), pull.exponent, first, report, pull, wrt, per_member)


def gathered(
    course: Course,
    readings: Readings,
    end: Arrays,
    exponent: Any,
    first: Arrays,
    report: Report,
    pull: Pullback | OwnPullback | Passed | None,
    wrt: Sequence[str],
    per_member: bool,
) -> Gradients:
    ensemble, states = course.run.given.is_ensemble, {s.name for s in course.setup.system.states}
    exponent = here(exponent)
    end = through_beginning(course, end, exponent, readings.direct, first)
    mantissas: dict[str, Any] = {}
    exponents: dict[str, Any] = {}
    for name in wrt:
        if name in states or name in course.velocities:
            value = joined(end, f"{name}{BAR}")
            if name in first:
                value = value + HOST.lowered(here(first[name]), exponent)
            mantissas[name], exponents[name] = value, exponent
        else:
            high = joined({f"{name}{BAR}": np.zeros(course.members), **end}, f"{name}{BAR}")
            low = joined({f"{name}{REST}": np.zeros_like(high), **end}, f"{name}{REST}")
            if name in readings.direct:
                high, more = HOST.two_sum(high, HOST.lowered(readings.direct[name], exponent))
                low = low + more
            own = name != "dt" and len(course.run.given.params[name]) > 1
            if own or per_member and ensemble:
                mantissas[name], exponents[name] = high + low, exponent
            else:
                mantissas[name], exponents[name] = total(high, low, exponent)
                continue
        if not ensemble:
            mantissas[name], exponents[name] = mantissas[name][0], exponents[name][0]
    for name in mantissas:
        mantissas[name], exponents[name] = normal(mantissas[name], exponents[name])
    start = {} if pull is None else {n: v for n, v in end.items() if not n.endswith((BAR, REST))}
    if lost := [n for n, m in mantissas.items() if not np.isfinite(m).all()]:
        say_no_number(course, lost)
    last = readings.looks.seen.get(course.steps, {})
    end_of = course.shown(last) if last and course.setup.system.clock is not None else {}
    return Gradients(mantissas, exponents, report, lambda: horizon(course, pull, end_of), start)


def say_no_number(course: Course, names: Sequence[str]) -> None:
    """A gradient that is no number is a warning, or an error under checks="strict"; one of a failed run is that run's."""
    if not all(np.isfinite(here(v)).all() for v in course.shown(course.first()).values()):
        return
    setup, step = course.setup, course.setup.built.step
    solves = any(SOLVES in f.traits for f in step.body)
    why = "a derivative in the steps or in the loss is infinite or does not exist at a state of this run"
    if solves:
        why = f"the transposed equations of `{step.name}` were not solved in their {ROUNDS} rounds, or {why}"
    what = f"{setup.system.name}: the gradient by {one_of(names, 'and')} is not a number: {why}"
    fix = "sim.gradcheck compares it with differences; a shorter dt makes equations easier to solve."
    if setup.checks == "strict":
        raise PlanError(what, fix=fix)
    warnings.warn(PhysicsWarning(f"{what}. {fix}"), stacklevel=frames_to_user())


def normal(mantissa: Any, exponent: Any) -> tuple[Any, Any]:
    """One form of a gradient, however often it was scaled: exponent 0 where float64 holds it, else numbers below 1."""
    m, e = np.asarray(mantissa, float), np.asarray(exponent, np.int64)
    if is_zero(e) and is_plain(m):
        return m, e
    own = m.reshape(e.shape + (-1,))
    largest = np.abs(own).max(axis=-1, initial=0.0)
    power = np.where(np.isfinite(largest) & (largest > 0), np.frexp(largest)[1] + e, 0)
    new = np.where(
        (np.abs(power) > HELD) | ~np.isfinite(largest), np.where(np.isfinite(largest), power, e), 0
    )
    return np.ldexp(own, (e - new)[..., None]).reshape(m.shape), new


def is_plain(m: Any) -> bool:
    """Is every number 0, or far from the ends of the range of float64?  Piece by piece, as a cache holds them."""
    flat = m.reshape(-1)
    for k in range(0, flat.size, PIECE):
        a = np.abs(flat[k : k + PIECE])
        if not a.max() < 2.0**HELD or a.min() < 2.0**-HELD and (a[a > 0] < 2.0**-HELD).any():
            return False
    return True


def spread(exponent: Any, value: Any) -> Any:
    return exponent.reshape(exponent.shape + (1,) * (np.ndim(value) - 1))


def total(high: Any, low: Any, exponent: Any) -> tuple[Any, Any]:
    """The sum over members, rounded once."""
    most = int(exponent.max(initial=0))
    parts = [np.ldexp(x, spread(exponent - most, x)).reshape(len(x), -1) for x in (high, low)]
    columns = np.concatenate(parts).T
    sums = [math.fsum(c) if np.isfinite(c).all() else float(c.sum()) for c in columns]
    return np.array(sums).reshape(high.shape[1:]), np.int64(most)


def value_of(loss: Loss, readings: Readings) -> tuple[Any, dict[str, Any]]:
    c = readings.course
    return loss(readings.given(loss.reads), c.members, c.run.target if c.numbers.there else NUMPY)
