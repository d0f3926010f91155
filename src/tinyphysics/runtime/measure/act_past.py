"""How do cotangents go back through acts?  From one act to the one before it as through a run; through an act by its map.

A run with acts is a loop of runs and maps. It is done forward once, and the states that each stretch begins with are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import here
from tinyphysics.errors import InputError, PlanError
from tinyphysics.flows.cotangents import BAR, REST
from tinyphysics.ir import UOp, toposort
from tinyphysics.ir.ops import Ops
from tinyphysics.rules.calculus.vjp import vjp
from tinyphysics.rules.identities.real import simplify
from tinyphysics.runtime.measure.act_ways import check_smooth
from tinyphysics.runtime.measure.cotangent_words import joined
from tinyphysics.runtime.measure.course import Course, Pullback, Size
from tinyphysics.runtime.measure.loop_numbers import HOST
from tinyphysics.runtime.measure.loss_function import evaluate
from tinyphysics.runtime.measure.past import Looks, Report
from tinyphysics.runtime.measure.plan_past import TOLD, Past, choose_past
from tinyphysics.runtime.measure.sweep_file import SweepFile
from tinyphysics.runtime.stages.acting import Acts
from tinyphysics.runtime.state.run import BoundAct
from tinyphysics.runtime.state.tiles import Tile
from tinyphysics.step import DT

Arrays = Mapping[str, Any]
Sweep = Callable[[Course, Looks, Any, Past, SweepFile], tuple[Pullback, Report]]


@dataclass(frozen=True)
class Slopes:
    """The cotangents of what a map reads, from those of the states that it changes."""

    reads: tuple[UOp, ...]
    seeds: tuple[UOp, ...]
    values: tuple[UOp, ...]


def slopes_of(a: BoundAct) -> Slopes:
    """An error where a map has no derivative, by its line."""
    s = a.system
    if not a.inside:
        check_smooth(a.name, s)
    reads = (*(x.var for x in s.states), *(p.var for p in s.parameters if p.dtype.is_float))
    reads += () if s.time is None else (s.time,)
    seeds = tuple(UOp.var(f"cotangent of {x.name}", x.var.shape) for x in s.states)
    values = tuple(simplify(vjp(list(s.equations), list(seeds), list(reads))))
    if any(u.op is Ops.RANDOM for u in toposort(list(values))):
        raise PlanError(
            f"acts[{a.name!r}] multiplies what it reads by random numbers, and its adjoint is not there yet",
            fix="Let the map add its random numbers, or leave the act out.",
        )
    return Slopes(reads, seeds, values)


@dataclass(eq=False)
class Passed:
    """How large cotangents were on their way back through all stretches: what grads.horizon asks for."""

    course: Course
    exponent: Any
    history: list[tuple[int, Any]] = field(default_factory=list)  # (step, logarithms of sizes)

    @property
    def began(self) -> Any:
        return self.history[0][1]

    @property
    def sizes(self) -> Any:
        return self.history[-1][1]

    def growth(self) -> Any:
        with np.errstate(invalid="ignore"):
            grown = self.sizes - self.began
        return np.where(np.isfinite(grown), grown, 0.0)

    def note(self, n: int, bars: Arrays) -> None:
        self.history.append((n, Size(HOST.largest(list(bars.values())), self.exponent).logarithm))


@dataclass(eq=False)
class ActPast:
    """How the past of a run with acts is known."""

    course: Course
    past: Any
    memory: Any
    snapshots: Any
    begins: dict[int, dict[str, Any]] = field(default_factory=dict)  # states after the acts of a step
    between: dict[int, list[dict[str, Any]]] = field(default_factory=dict)  # before each act of a step

    @cached_property
    def acts(self) -> Acts:
        return Acts(self.course.run)

    @cached_property
    def tile(self) -> Tile:
        r = self.course.run
        return Tile(slice(0, self.course.members), self.course.engine, r.given, r.dt, r.t0, None)

    @cached_property
    def slopes(self) -> dict[str, Slopes]:
        return {a.name: slopes_of(a) for a in self.course.run.acts}

    def due(self, n: int) -> list[BoundAct]:
        return [a for a in self.course.run.acts if a.due(n)]

    @cached_property
    def ends(self) -> list[int]:
        """The steps at which stretches end."""
        steps = self.course.steps
        return [n for n in range(1, steps + 1) if n == steps or self.acts.due(n)]

    @property
    def stretches(self) -> Iterator[tuple[int, int]]:
        return zip([0, *self.ends], self.ends)

    def stretch(self, a: int, b: int) -> Course:
        c = self.course
        given = replace(c.run.given, states=self.begins[a])
        return replace(c, run=replace(c.run, given=given, acts=()), origin=a, length=b - a)

    def forward(self, looks: Looks) -> None:
        """The run once; `looks` sees it as users do, after the acts of a step."""
        c = self.course
        assert self.slopes is not None  # what has no derivative is refused before anything runs
        self.begins[0] = c.first()
        looks.look_between(0)
        for a, b in self.stretches:
            one = self.stretch(a, b)
            inside = Looks(one, {n - a for n in looks.steps if a < n < b})
            m = one.begin()
            inside.go(m, 0, b - a)
            one.check(m, b - a)
            for n, words in inside.seen.items():
                assert isinstance(n, int)
                looks.seen[a + n] = words
                looks.look_between(a + n)
            self.begins[b] = self.acted(one.seen(m), b)
            looks.seen[b] = self.begins[b]
            looks.look_between(b)

    def acted(self, words: Arrays, n: int) -> dict[str, Any]:
        state = {name: np.array(here(v)) for name, v in words.items()}
        self.between[n] = []
        for a in self.due(n):
            self.between[n].append(state)
            state = {
                **state,
                **{w: np.array(here(v)) for w, v in self.acts.done(a, self.tile, state, n).items()},
            }
            if not all(np.isfinite(v).all() for v in self.course.shown(state).values()):
                raise InputError(
                    f"acts[{a.name!r}] made a number that is none, after step {n}",
                    fix="Leave the act out, or begin with another state.",
                )
        return state

    # --- backward -----------------------------------------------------------------------------
    def back(self, seeds: Mapping[int, Arrays], sweep: Sweep) -> tuple[dict[str, Any], Passed, Report]:
        """(cotangents of the first states and sums of parameters, their sizes on the way, a report)."""
        c, members = self.course, self.course.members
        states = {s.name: s.var.shape for s in c.setup.system.states}
        passed = Passed(c, np.zeros(members, np.int64))
        bars = {name: np.zeros((members, *shape)) for name, shape in states.items()}
        sums = {str(v.arg): Sum(np.zeros((members, *v.shape)), members) for v in c.wrt}
        report = Report("", forward_steps=c.steps)
        for a, b in reversed(list(self.stretches)):
            bars = self.joined(bars, seeds.get(b, {}), passed.exponent)
            if b == c.steps:
                passed.note(b, bars)
            for act, state in reversed(list(zip(self.due(b), self.between[b]))):
                bars = self.through(act, state, b, bars, sums, passed.exponent)
            one = self.stretch(a, b)
            chosen = choose_past(c.setup, b - a, c.bytes, self.past, self.memory, self.snapshots)
            own = {n - a: self.joined({}, w, passed.exponent) for n, w in seeds.items() if a < n < b}
            own[b - a] = bars
            pull, found = sweep(one, Looks(one, set(own)), partial(dict, own), chosen, SweepFile(None, None))
            end = {name: here(v) for name, v in pull.end().items()}
            passed.exponent = passed.exponent + np.asarray(here(pull.exponent))
            bars = {name: joined(end, f"{name}{BAR}") for name in states}
            for name, total in sums.items():
                if f"{name}{BAR}" in end:
                    total.add(joined(end, f"{name}{BAR}"), joined(end, f"{name}{REST}"), passed.exponent)
            if (time := c.setup.built.step.time) is not None and (dt := str(DT.arg)) in sums:
                # a stretch counts its steps from its beginning, which moves with dt as well
                high, low = (joined(end, f"{time.arg}{word}") for word in (BAR, REST))
                sums[dt].add(a * high, a * low, passed.exponent)
            passed.note(a, bars)
            join(report, found)
        report.snapshots += len(self.begins)
        report.bytes += sum(v.nbytes for words in self.begins.values() for v in words.values())
        why = f"between {len(self.ends):,} stretches the maps of acts are pulled back"
        c.setup._beside[TOLD] = Past(report.past, report.snapshots, why, c.steps, c.bytes, before=c.steps)
        out = {f"{name}{BAR}": v for name, v in bars.items()}
        for name, total in sums.items():
            out |= {f"{name}{BAR}": total.high, f"{name}{REST}": total.low}
        return out, passed, report

    def joined(self, bars: Arrays, more: Arrays, exponent: Any) -> dict[str, Any]:
        out = dict(bars)
        for name, v in more.items():
            low = HOST.lowered(np.asarray(here(v), float), exponent)
            out[name] = out[name] + low if name in out else low
        return out

    def through(
        self, a: BoundAct, state: Arrays, n: int, bars: Arrays, sums: Mapping[str, Sum], exponent: Any
    ) -> dict[str, Any]:
        """Cotangents of the states before an act; those of parameters are summed up."""
        c, s, members = self.course, self.slopes[a.name], self.course.members
        given = {**c.run.given.params, **a.own, **c.shown(state)}
        named = {str(x.var.arg): x.name for x in a.system.states}
        named |= {str(p.var.arg): p.name for p in a.system.parameters}
        env = {
            arg: np.broadcast_to(given[name], (members, *np.shape(given[name])[1:]))
            for arg, name in named.items()
        }
        if a.system.time is not None:
            env[str(a.system.time.arg)] = np.full(members, c.now(n))
        env |= {str(v.arg): bars[x.name] for v, x in zip(s.seeds, a.system.states)}
        found = evaluate(dict(zip((named.get(str(v.arg), "t") for v in s.reads), s.values)), env, members)
        out = {**bars, **{x.name: np.zeros_like(bars[x.name]) for x in a.system.states}}
        none = np.zeros(())
        for name, v in found.items():
            if name in out:
                out[name] = out[name] + v
            elif name in sums:
                sums[name].add(v, none, exponent)
        if a.system.time is not None and (dt := str(DT.arg)) in sums:
            sums[dt].add(found["t"] * n, none, exponent)
        return out


@dataclass
class Sum:
    """A gradient by a parameter, of each member: two words, times two to a power."""

    high: Any
    members: int
    low: Any = None
    exponent: Any = None

    def __post_init__(self) -> None:
        self.low, self.exponent = np.zeros_like(self.high), np.zeros(self.members, np.int64)

    def add(self, high: Any, low: Any, exponent: Any) -> None:
        """Of later terms, whose power of two is the larger one."""
        shift = exponent - self.exponent
        self.high, rest = HOST.two_sum(HOST.lowered(self.high, shift), high)
        self.low = HOST.lowered(self.low, shift) + low + rest
        self.exponent = exponent


def join(report: Report, other: Report) -> None:
    report.past = report.past or other.past
    report.forward_steps += other.forward_steps
    report.snapshots = max(report.snapshots, other.snapshots)
    report.anchors += other.anchors
    report.miss = max(report.miss, other.miss)
    report.bytes = max(report.bytes, other.bytes)
    report.on_disk = max(report.on_disk, other.on_disk)
