"""How do cotangents go back through a run that meets walls and events?  Round by round, as it went forward.

A run is done again in stretches of rounds from states that were kept. Most rounds only search: they leave the states as they
are, and are passed over. What is looked at joins, of each member, where that member came to the step.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import here
from tinyphysics.errors import PhysicsWarning, PlanError
from tinyphysics.flows.cotangents import BAR, REST
from tinyphysics.front.walls import DRIFT
from tinyphysics.runtime.engines.rounds import FEWEST
from tinyphysics.runtime.measure.cotangent_words import joined, split
from tinyphysics.runtime.measure.course import Course, Key, Pullback
from tinyphysics.runtime.measure.loop_numbers import HOST, zero_exponents
from tinyphysics.runtime.measure.past import Report
from tinyphysics.runtime.measure.plan_past import TOLD, Past, check_past, room_of, snapshots_of
from tinyphysics.runtime.state.schedule import time_at
from tinyphysics.synth.methods.event_rounds import COUNTED, DONE, GONE, GRAZES, LAST, SEARCH, TIES, TOTAL
from tinyphysics.system import System
from tinyphysics.util import frames_to_user, one_of

Arrays = Mapping[str, Any]
STRETCH = 4096  # rounds at most that are written down together


@dataclass(eq=False)
class Walk:
    """The rounds of a run, from the first to the one in which the last member comes to the last step."""

    course: Course
    first: Arrays  # the states that users see there, word by word
    dt: float
    t0: float
    steps: int
    wanted: set[int]  # steps whose states are looked at
    stretch: int
    kept: list[dict[str, Any]] = field(default_factory=list)  # registers where each stretch begins
    rounds: int = 0
    at: dict[int, Any] = field(
        default_factory=dict
    )  # step: (members,) the round after which each member is there

    @property
    def engine(self) -> Any:
        return self.course.engine

    @property
    def params(self) -> dict[str, Any]:
        return {**self.course.run.given.params, str(LAST.arg): np.array([float(self.steps)])}

    @property
    def search(self) -> str:
        return str(self.engine.registers_of[SEARCH])

    def again(self, registers: Arrays) -> Any:
        """A loop of rounds, from its registers."""
        r = self.course.run
        inner = self.engine.inner
        m = inner.restored(registers, self.params, self.course.members, self.dt, self.t0, 0, r.threads)
        inner.tell(m, str(LAST.arg), float(self.steps))
        return m

    def registers(self, m: Any) -> dict[str, Any]:
        return {name: np.array(here(v)) for name, v in self.engine.inner.registers(m).items()}

    def rows(self, registers: Arrays, count: int) -> list[dict[str, Any]]:
        """What the registers are after each of some rounds."""
        m, members = self.again(registers), self.course.members
        table = self.engine.inner.record(m, count)
        names = [self.engine.registers_of[name] for name in self.engine.states]
        columns = {name: np.moveaxis(np.asarray(table[name]), 0, 2)[:, :members] for name in names}
        return [{name: v[k] for name, v in columns.items()} for k in range(count)]

    def go(self) -> None:
        """Forward: a state is kept for each stretch, and it is noted when members come to the steps that are looked at."""
        r = self.course.run
        begun = self.engine.start(self.first, self.params, self.course.members, self.dt, self.t0, r.threads)
        now = self.registers(begun.inner)
        waiting = {n: np.full(self.course.members, -1) for n in self.wanted if n}
        while True:
            self.kept.append(now)
            rows = self.rows(now, self.stretch)
            done = np.stack([row[self.search][:, DONE] for row in rows])
            for n, at in waiting.items():
                there = done == float(n)
                new = (at < 0) & there.any(axis=0)
                at[new] = self.rounds + 1 + there.argmax(axis=0)[new]
            self.rounds += self.stretch
            now = rows[-1]
            if (done[-1] == float(self.steps)).all():
                break
        self.at = waiting


class RoundPullback(Pullback):
    """Cotangents beside the rounds of a run."""

    def told(self, steps: int) -> dict[str, Any]:
        """Parameters; members wait at this step."""
        return {**self.course.run.given.params, str(LAST.arg): np.array([float(steps)])}

    def blank(self, first: Arrays) -> None:
        """No cotangents yet."""
        r, members = self.course.run, self.course.members
        self.exponent = zero_exponents(members)
        given = {s.name: np.zeros((members, *s.type.shape)) for s in self.program.states}
        m = self.engine.start({**given, **first}, self.told(0), members, r.dt, r.t0, r.threads)
        self.state = {name: np.array(here(v)) for name, v in self.engine.registers(m).items()}

    def join(self, bars: Arrays, who: Any) -> None:
        """More cotangents, of the members that have come there."""
        own = {n: np.where(spread(who, v), np.asarray(here(v), float), 0.0) for n, v in bars.items()}
        words = split(self.course.precision, own)
        seed = {self.registers[name]: np.zeros_like(self.state[self.registers[name]]) for name in self.beside}
        for name, v in words.items():
            at = self.registers[name]
            seed[at] = np.reshape(v, seed[at].shape)
        self.add(seed)

    def through(self, before: Arrays, steps: int, dt: float) -> None:
        """Through one round, from the registers that it began with."""
        self.put(before)
        m = self.restored(0, steps, dt)
        self.engine.advance(m, 1)
        self.state = {name: np.array(here(v)) for name, v in self.engine.registers(m).items()}
        self.scale()

    def restored(self, n: int, steps: int = 0, dt: float | None = None) -> Any:
        r, members = self.course.run, self.course.members
        return self.engine.restored(self.state, self.told(steps), members, dt or r.dt, r.t0, n, r.threads)

    @property
    def numbers(self) -> Any:
        return HOST  # rounds are written down on this machine, wherever they run


def spread(a: Any, like: Any) -> Any:
    return np.reshape(a, (len(a), *(1,) * (np.ndim(like) - 1)))


@dataclass(frozen=True, eq=False)
class RoundPast:
    """How the past of a run with walls or events is known."""

    course: Course
    past: Any
    memory: Any
    snapshots: Any

    def swept(
        self, seeds: Mapping[Key, Arrays], looks: Mapping[Key, Arrays], directly: Callable[[str, Any], None]
    ) -> tuple[dict[str, Any], dict[str, Any], RoundPullback, Report]:
        """(cotangents of the first states and sums of parameters, seeds at the start, what pulled them, a report).

        `looks` has the states that users see at steps; `directly` takes gradients by what fractions of a step read.
        """
        c = self.course
        check_past(self.past)
        if c.steps >= COUNTED:
            raise PlanError(
                f"gradients go back over {COUNTED - 1:,} steps with walls or events at most, and this run has {c.steps:,}",
                fix="Choose a longer dt, or go back piece by piece: sim.vjp takes the cotangents of the piece after it.",
            )
        pull, report = RoundPullback(c, c.adjoint_program(False)), Report("checkpoint")
        whole = {n: dict(bars) for n, bars in seeds.items() if isinstance(n, int)}
        for key, bars in seeds.items():
            if isinstance(key, int):
                continue
            n, t = key
            begin = time_at(n, c.run.dt, c.run.t0)
            part = Walk(c, c.first() if n == 0 else looks[n], t - begin, begin, 1, {1}, FEWEST)
            part.go()
            found = self.back(pull, part, {1: bars})
            own, at = pull.exponent, whole.setdefault(n, {})
            for s in c.setup.system.states:
                value = HOST.lowered(joined(found, f"{s.name}{BAR}"), -own)
                at[s.name] = at[s.name] + value if s.name in at else value
            for v in c.wrt:
                name = str(v.arg)
                directly(name, HOST.lowered(joined(found, f"{name}{BAR}") + found[f"{name}{REST}"], -own))
            report.forward_steps += 3
        first = whole.pop(0, {})
        walk = Walk(c, c.first(), c.run.dt, c.run.t0, max(whole, default=0), set(whole), self.stretch)
        walk.go()
        end = self.back(pull, walk, whole)
        report.forward_steps += 3 * walk.steps  # the run, its rounds, and these once more
        report.snapshots = len(walk.kept) + walk.stretch
        report.bytes = sum(v.nbytes for v in walk.kept[0].values()) * report.snapshots
        why = f"{walk.rounds:,} rounds of stepping and searching were done again"
        c.setup._beside[TOLD] = Past("checkpoint", report.snapshots, why, walk.steps, c.bytes)
        tell_of(c, walk)
        return end, first, pull, report

    @property
    def stretch(self) -> int:
        """How many rounds are written down together: as many as fit in memory."""
        most = max(FEWEST, min(STRETCH, 2 * self.course.steps))
        return snapshots_of(self.course.bytes, room_of(self.memory), self.snapshots, most)

    def back(self, pull: RoundPullback, walk: Walk, seeds: Mapping[int, Arrays]) -> dict[str, Any]:
        """From the last round to the first."""
        pull.blank(walk.first)
        pull._sizes = []
        joining: dict[int, list[int]] = {}
        for n in seeds:
            for at in np.unique(walk.at[n]).tolist():
                joining.setdefault(at, []).append(n)
        own = [walk.engine.registers_of[name] for name in walk.engine.own]
        for k in range(len(walk.kept) - 1, -1, -1):
            rows = [walk.kept[k], *walk.rows(walk.kept[k], walk.stretch)]
            for j in range(walk.stretch, 0, -1):
                for n in joining.get(k * walk.stretch + j, ()):
                    pull.join(seeds[n], walk.at[n] == k * walk.stretch + j)
                    pull._sizes = pull._sizes or [(self.course.steps, pull.size)]
                if pull._sizes and moved(walk.search, own, rows[j - 1], rows[j]):
                    pull.through(rows[j - 1], walk.steps, walk.dt)
                    pull.seen(int(rows[j - 1][walk.search][:, DONE].mean()))
        pull._sizes = pull._sizes or [(self.course.steps, pull.size)]
        return pull.end()


def moved(search: str, own: list[str], old: Arrays, new: Arrays) -> bool:
    """Did a round do more than search, for any member?"""
    a, b = old[search], new[search]
    if any((a[:, k] != b[:, k]).any() for k in (DONE, GONE, TOTAL)):
        return True
    return any((old[name] != new[name]).any() for name in own)


def tell_of(course: Course, walk: Walk) -> None:
    last = walk.rows(walk.kept[-1], walk.stretch)[-1][walk.search]
    warn_of_grazes(course.setup.system, last[:, GRAZES], last[:, TIES], course.run.given.is_ensemble)


def warn_of_grazes(system: System, grazes: Any, ties: Any, ensemble: bool) -> None:
    """A derivative is that of the bounces that happened; where their number may change with the start, it says nothing."""
    walls = one_of([c.name for c in system.crossings], "or")
    if any(c.location == DRIFT for c in system.crossings):
        warnings.warn(
            PhysicsWarning(
                f'{system.name}: with location="drift" the derivative is a surrogate: it is that of the steps that ran, in '
                "which a bounce sees no force, and does not become that of the motion as dt falls. Leave location= out "
                "for that one."
            ),
            stacklevel=frames_to_user(),
        )
    for counts, what, why in (
        (grazes, f"{walls} was grazed", "a start next to it bounces more often or less often there"),
        (ties, f"two of {walls} were met at one time", "a start next to it meets them one after the other"),
    ):
        if who := np.flatnonzero(np.atleast_1d(counts) > 0).tolist():
            member = f" of member {who[0]}" if ensemble else ""
            warnings.warn(
                PhysicsWarning(
                    f"{system.name}: {what} in the run{member}: {why}, and the derivative is that of the bounces of this "
                    "run alone. sim.gradcheck compares it with differences."
                ),
                stacklevel=frames_to_user(),
            )
