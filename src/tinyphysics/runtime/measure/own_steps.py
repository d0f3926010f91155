"""How do cotangents go back through steps that a run chose itself?  At the steps that it took, with their lengths held.

A run of attempts is written down once: where each step began, when, and how long it was. Cotangents then go back through
these steps, and those of a state that was looked at join where the step began that covers its time, through its curve.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.errors import PlanError
from tinyphysics.flows.cotangents import BAR
from tinyphysics.ir import UOp
from tinyphysics.pipeline import lowered, of_given_length
from tinyphysics.planner.cost.target import in_loops
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.runtime.measure.cotangent_words import added, range_of
from tinyphysics.runtime.measure.course import Course, Key
from tinyphysics.runtime.measure.past import Report, actions
from tinyphysics.runtime.measure.plan_past import TOLD, UNBOUNDED, Past, check_past, room_of, snapshots_of
from tinyphysics.step import Step
from tinyphysics.structure import COTANGENT
from tinyphysics.synth.methods.given_length import LENGTH, PART, WHEN, OfGivenLength
from tinyphysics.synth.methods.taylor import UNTIL
from tinyphysics.target import BUILT
from tinyphysics.tpir.kernels.kernel import LARGEST

LOG = logging.getLogger("tinyphysics")
Arrays = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Row:
    """The step that each member is at: where and when it began, how long it is, and which attempt made it."""

    state: dict[str, Any]  # (members, shape...)
    when: Any  # (members,), and the low words of that
    low: Any
    length: Any
    attempt: Any

    @property
    def bytes(self) -> int:
        return sum(v.nbytes for v in (*self.state.values(), self.when, self.low, self.length, self.attempt))

    def left(self, t: float) -> Any:
        """The time from the beginning of the step, as a run computes it."""
        return (t - self.when) - self.low


@dataclass(eq=False)
class Walk:
    """The attempts of a run, from the first to the one that covers the last time; all members side by side."""

    course: Course
    times: dict[Key, float]  # that are looked at
    attempts: int = 0
    rows: list[Row] | None = None  # all, where they fit
    covering: dict[Key, Any] = field(default_factory=dict)  # (members,): the attempt whose step covers a time
    steps: Any = None  # (members,) that were taken

    @property
    def last(self) -> float:
        return max(self.times.values())

    @cached_property
    def engine(self) -> Any:
        return self.course.engine

    def begin(self) -> Any:
        m = self.course.begin()
        self.engine.inner.tell(m.inner, str(UNTIL.arg), self.last)
        return m

    def at(self, registers: Arrays) -> Any:
        """An attempt that is under way, from its registers."""
        r = self.course.run
        given = {**r.given.params, str(UNTIL.arg): np.array([self.last])}
        m = self.begin()
        m.inner = self.engine.inner.restored(registers, given, self.course.members, r.dt, r.t0, 0, r.threads)
        self.engine.inner.tell(m.inner, str(UNTIL.arg), self.last)
        return m

    def registers(self, m: Any) -> dict[str, Any]:
        return {name: np.array(v) for name, v in self.engine.inner.registers(m.inner).items()}

    def row(self, m: Any) -> Row:
        e, members = self.engine, self.course.members
        clock = np.array(e.clocks(m))[:, :members]
        shapes = {name: e.states[name] for name in e.names}
        if e.in_loops:
            numbers, at, state = np.array(e.inner.coefficients(m.inner)[0][:, 0]), 0, {}
            for name, shape in shapes.items():
                size = int(np.prod(shape, dtype=int))
                state[name], at = numbers[:members, at : at + size].reshape(members, *shape), at + size
        else:
            places = {name: f"S{list(e.states).index(name)}" for name in shapes}
            state = {
                name: np.array(e.inner.register(m.inner, places[name]))[:members].reshape(members, *shape)
                for name, shape in shapes.items()
            }
        return Row(state, clock[0], clock[1], clock[2], clock[5 if len(clock) > 5 else 3])

    def first(self, room: int) -> None:
        """The run itself: rows are kept as long as they fit."""
        m = self.begin()
        self.rows, self.attempts, self.covering, kept = [], 0, {}, 0
        waiting = dict(self.times)
        while True:
            row = self.row(m)
            for key, t in list(waiting.items()):
                at = self.covering.setdefault(key, np.full(self.course.members, -1))
                with np.errstate(invalid="ignore"):
                    at[(at < 0) & (row.left(t) <= row.length)] = self.attempts
                if (at >= 0).all():
                    del waiting[key]
            if self.rows is not None:
                self.rows.append(row)
                kept += row.bytes
                if kept > room:
                    self.rows = None
            if not waiting or not self.engine.unfinished(m, self.last):
                break
            self.engine.inner.advance(m.inner, 1)
            self.attempts += 1
        self.steps = self.engine.taken(m)


@dataclass(frozen=True, eq=False)
class OwnPast:
    """How the past is known of a run that chooses its own steps: decided when it is known how many these are."""

    course: Course
    past: Any
    memory: Any
    snapshots: Any
    fill: Callable[[Walk], None] | None = None  # puts more into the rows, which are all kept then

    def swept(self, seeds: Mapping[Key, Arrays]) -> tuple[OwnPullback, Report]:
        """After the states at these keys were looked at, which shows a run that has failed."""
        c = self.course
        check_past(self.past)
        room = room_of(self.memory)
        walk = Walk(c, {key: c.time(key) for key in seeds})
        if not seeds:
            return OwnPullback(c), Report("store")
        walk.first(room if self.past != "checkpoint" else 0)
        size = sum(int(v.nbytes) for v in walk.registers(walk.begin()).values())
        kind = self.past
        if kind == "auto":
            kind = "checkpoint" if walk.rows is None else "store"
        if kind == "store" and walk.rows is None:
            walk.first(UNBOUNDED)
        kept = (
            len(walk.rows or ())
            if kind == "store"
            else snapshots_of(size, room, self.snapshots, walk.attempts + 1)
        )
        each = walk.rows[0].bytes if kind == "store" and walk.rows else size
        if self.fill is not None:
            if walk.rows is None:
                walk.first(UNBOUNDED)
            kind = "store"
            self.fill(walk)
        taken = int(np.sum(walk.steps))
        why = f"the {taken:,} steps that ran, with their lengths held"
        c.setup._beside[TOLD] = Past(kind, kept, why, walk.attempts + 1, each, before=walk.attempts)
        report = Report(kind)
        return back_along(walk, seeds, report, kept), report


# --- programs ---------------------------------------------------------------------------------------
def method_of(course: Course) -> OfGivenLength:
    known, key = course.setup._beside, ("of given length", course.setup.goal)
    if key not in known:
        known[key] = of_given_length(course.setup.built)
    found: OfGivenLength | None = known[key]
    if found is None:
        system = course.setup.system
        raise PlanError(
            f"the adjoint of `{course.setup.compiled.known.method}` is not known for the "
            f"{sum(s.var.size for s in system.states)} numbers of `{system.name}`: written out, a step is too long",
            fix='Choose a method with steps of one length: dt=..., method="leapfrog", method="rk4".',
        )
    return found


class StepProgram:
    """A program that moves some states by one step, of a length that it is given."""

    def __init__(self, course: Course, make: Callable[[], Step], key: Any) -> None:
        known = course.setup._beside
        full = ("pulled", course.setup.goal, key)
        if full not in known:
            known[full] = lowered(course.setup.built, make())
        self.course, self.program = course, known[full]
        r = course.run
        target = r.target if len(self.program.step) <= LARGEST else BUILT["python"]
        if target is not r.target:
            LOG.warning(
                "%s: one step is %s instructions, too many to compile; it runs in Python, slowly",
                self.program.name,
                f"{len(self.program.step):,}",
            )
        loops = in_loops(self.program, course.members) and target.backend != "python"
        self.engine = engine_for(target, self.program, None, r.threads, loops)

    def __call__(self, row: Row, beside: Arrays, length: Any, part: Any = 1.0) -> dict[str, Any]:
        """What is beside the states of a row after a step; the states themselves, if nothing is."""
        r, members = self.course.run, self.course.members
        own = {
            str(LENGTH.arg): length,
            str(WHEN.arg): row.when,
            str(PART.arg): np.broadcast_to(part, members),
        }
        params = {**r.given.params, **{n: np.array(v, float) for n, v in own.items()}}
        m = self.engine.start({**row.state, **beside}, params, members, 1.0, 0.0, r.threads)
        self.engine.advance(m, 1)
        return {name: np.array(v) for name, v in self.engine.synchronised(m).items()}

    @property
    def beside(self) -> dict[str, tuple[int, ...]]:
        return {s.name: s.type.shape for s in self.program.states if s.role == COTANGENT}


class OwnPullback:
    """Cotangents on their way back; like those of steps of one length they carry a power of two for each member."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self.made = made = method_of(course)
        names = tuple(str(v.arg) for v in course.wrt)
        by: Sequence[UOp] = course.wrt
        self.step = StepProgram(course, lambda: made.pull_step(by), ("step", names))
        curve = made.pull_curve
        self.curve = None if curve is None else StepProgram(course, lambda: curve(by), ("curve", names))
        self.exponent = np.zeros(course.members, np.int64)
        self.bars = self.zeros()
        self.began: Any = None
        self.history: list[
            tuple[float, Any]
        ] = []  # (time in steps of the grid, logarithms of sizes) on the way

    def zeros(self) -> dict[str, Any]:
        return {name: np.zeros((self.course.members, *shape)) for name, shape in self.step.beside.items()}

    @property
    def own(self) -> list[str]:
        return [f"{s.name}{BAR}" for s in self.course.setup.system.states]

    @property
    def largest(self) -> Any:
        members = self.course.members
        return np.max(
            [np.abs(self.bars[n]).reshape(members, -1).max(axis=1, initial=0.0) for n in self.own], axis=0
        )

    @property
    def sizes(self) -> Any:
        with np.errstate(divide="ignore"):
            return np.log2(self.largest) + self.exponent

    def growth(self) -> Any:
        if self.began is None:
            return np.zeros(self.course.members)
        with np.errstate(invalid="ignore"):
            grown = self.sizes - self.began
        return np.where(np.isfinite(grown), grown, 0.0)

    def through(self, row: Row, moved: Any) -> None:
        """Through the step of a row, of the members that have moved on from it."""
        length = np.where(moved & (row.length > 0), row.length, 0.0)
        if not length.any():
            return
        r = self.course.run
        self.history.append((float(np.mean(row.when + row.length) - r.t0) / r.dt, self.sizes))
        found = self.step(row, self.bars, length)
        self.bars = {name: found[name] for name in self.bars}
        power = np.where((self.largest > 0) & np.isfinite(self.largest), np.frexp(self.largest)[1], 0)
        shift = np.where(power > range_of("float64").most, power, 0)
        if shift.any():
            self.bars = {n: np.ldexp(v, -spread(shift, v)) for n, v in self.bars.items()}
            self.exponent = self.exponent + shift

    def join(self, row: Row, here: Any, t: float, seed: Arrays) -> None:
        """The cotangents of states at a time that the step of a row covers, of some members."""
        length = np.where(here & (row.length > 0), row.length, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(length > 0, row.left(t) / np.where(length > 0, length, 1.0), 0.0)
        own = self.zeros()
        for name, v in seed.items():
            own[f"{name}{BAR}"] = np.where(spread(here, v), v, 0.0)
        for found in self.between(row, own, length, part):
            new = {n: np.ldexp(found[n], -spread(self.exponent, found[n])) for n in self.bars}
            self.bars = added(self.bars, new)
        if self.began is None:
            self.began = self.sizes

    def between(self, row: Row, own: Arrays, length: Any, part: Any) -> Iterator[Arrays]:
        """What the cotangents of a state within a step are at its beginning, in pieces."""
        if self.curve is not None:
            yield self.curve(row, own, length, part)
            return
        steps = self.made.steps_to(part)
        for weight, end in steps:
            seed = {name: spread(weight, v) * v for name, v in own.items()}
            yield self.step(row, seed, length * end)
        rest = 1.0 - sum(weight for weight, _ in steps)
        if np.any(rest != 0.0):
            yield {name: spread(rest, v) * v for name, v in own.items()}


def spread(a: Any, like: Any) -> Any:
    return np.reshape(a, np.shape(a) + (1,) * (np.ndim(like) - 1)) if np.ndim(a) else a


def back_along(walk: Walk, seeds: Mapping[Key, Arrays], report: Report, snapshots: int) -> OwnPullback:
    """From the last attempt to the first; rows that were not kept are made again, from checkpoints."""
    pull = OwnPullback(walk.course)
    at: dict[int, list[Key]] = {}
    for key in seeds:
        for n in np.unique(walk.covering[key]).tolist():
            at.setdefault(n, []).append(key)

    def visit(n: int, row: Row, later: Row | None) -> None:
        if later is not None:
            pull.through(row, row.attempt != later.attempt)
        for key in at.get(n, ()):
            pull.join(row, walk.covering[key] == n, walk.times[key], seeds[key])

    later: Row | None = None
    report.own_steps = int(np.sum(walk.steps))
    report.forward_steps += 2 * walk.attempts  # the run, and once more to write its steps down
    if report.past == "store":
        assert walk.rows is not None
        report.snapshots, report.bytes = len(walk.rows), sum(row.bytes for row in walk.rows)
        for n in range(walk.attempts, -1, -1):
            visit(n, walk.rows[n], later)
            later = walk.rows[n]
        return pull
    m = walk.begin()
    kept = {0: walk.registers(m)}
    report.snapshots = min(snapshots, walk.attempts + 1)
    report.bytes = report.snapshots * sum(int(v.nbytes) for v in kept[0].values())
    for what, a, b in actions(walk.attempts + 1, snapshots):
        if what == "from":
            m = walk.at(kept[a])
        elif what == "run":
            walk.engine.inner.advance(m.inner, b - a)
            report.forward_steps += b - a
        elif what == "keep":
            kept[a] = walk.registers(m)
        elif what == "drop":
            del kept[a]
        elif what == "back":
            row = walk.row(m)
            visit(a, row, later)
            later = row
    return pull
