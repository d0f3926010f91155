"""What does a gradient run go along?  The loop states of a run, forward step by step, and cotangents beside them backward.

A loop state is what a step leaves to the next one, word by word. The states that users see are made of it by `final`, on a
copy, as in every run.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import here
from tinyphysics.errors import InputError, PlanError
from tinyphysics.flows.adjoint import loses
from tinyphysics.flows.cotangents import BAR
from tinyphysics.ir import UOp
from tinyphysics.pipeline import adjoint
from tinyphysics.planner.cost.target import approximates, in_loops
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.runtime.measure.cotangent_words import added, beside, range_of, split, zeros
from tinyphysics.runtime.measure.deciders import DECIDERS
from tinyphysics.runtime.measure.loop_numbers import HOST, Numbers, numbers_of, zero_exponents
from tinyphysics.runtime.measure.sweep_file import Mark
from tinyphysics.runtime.stages.bind import bind
from tinyphysics.runtime.stages.encode import encode
from tinyphysics.runtime.stages.execute import matrices, own_steps_engine, rounds_engine
from tinyphysics.runtime.stages.own_time import ended
from tinyphysics.runtime.stages.place import place
from tinyphysics.runtime.stages.resolve import Request, resolve
from tinyphysics.runtime.stages.schedule import Scheduled, schedule
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.run import Run, made
from tinyphysics.runtime.state.schedule import Schedule, time_at
from tinyphysics.step import DT
from tinyphysics.target import BUILT
from tinyphysics.tpir.kernels.kernel import LARGEST, build_kernel
from tinyphysics.tpir.program.isa import Operand, Program, Register, Type, kept_name
from tinyphysics.util import prod

Arrays = Mapping[str, Any]
LOG = logging.getLogger("tinyphysics")
OF_AN_ORBIT = 40  # operations at least, for either half
SHORT = 200  # instructions, which are few operations in any case
SEEN = 64  # times on their way back when it is looked at how large cotangents are
Key = int | tuple[int, float]  # a step; or a time between it and the next one


@dataclass(frozen=True, eq=False)
class Course:
    """A run that is differentiated: all that decides its bits, and when it is looked at."""

    setup: Setup
    run: Run
    scheduled: Scheduled
    wrt: tuple[UOp, ...]  # parameters, and dt
    origin: int = 0  # the step of the run that it begins with: its own are counted from there
    length: int | None = None  # steps of a stretch between two acts
    velocities: Arrays = field(default_factory=dict)  # (members, shape...), where momenta follow from them

    @property
    def schedule(self) -> Schedule:
        return self.scheduled.schedule

    @property
    def steps(self) -> int:
        return self.schedule.steps if self.length is None else self.length

    def now(self, n: int) -> float:
        """The time of a step."""
        return time_at(n + self.origin, self.run.dt, self.run.t0)

    @property
    def members(self) -> int:
        return self.run.given.members

    @property
    def precision(self) -> str:
        return self.setup.goal.precision

    @cached_property
    def words(self) -> dict[str, str]:
        """The registers of the words of each state."""
        return {s.name: f"S{k}" for k, s in enumerate(made(self.run.program).states)}

    @cached_property
    def frames(self) -> list[Key]:
        """The frames that a user asked for."""
        steps, times = self.schedule.frames(self.steps)
        if times is None:
            keys: list[Key] = [int(n) for n in steps]
            keys += [self.last] if isinstance(self.last, tuple) else []
        else:
            keys = [int(n) if np.isnan(t) else (int(n), float(t)) for n, t in zip(steps, times)]
        shown = self.schedule.shown
        return keys if shown is None else [keys[k] for k in shown]

    @cached_property
    def observed(self) -> list[Key]:
        """Without a grid there are no steps to observe: its frames are observed instead."""
        if self.run.gridless and self.scheduled.watched:
            return self.frames
        return list(self.schedule.observed(self.steps))

    @property
    def last(self) -> Key:
        """Where the run ends; one in a time of its own, with a part of a step."""
        if self.ends_in_time:
            return self.steps, float(self.run.until or 0.0)
        return self.steps if self.schedule.end is None else (self.steps, self.schedule.end)

    @property
    def ends_in_time(self) -> bool:
        """Is its time a state, and does it end where that is as large as was asked for?"""
        return self.run.system.clock is not None and self.run.until is not None

    def time(self, key: Key) -> float:
        return key[1] if isinstance(key, tuple) else self.now(key)

    def times(self, keys: Sequence[Key]) -> Any:
        return np.array([self.time(key) for key in keys], float)

    def by_step(self, keys: Sequence[Key]) -> Any:
        """How their times change with dt; one between two steps is given, and a gradient by dt is refused then."""
        return np.array([0.0 if isinstance(key, tuple) else float(key) for key in keys])

    @cached_property
    def bytes(self) -> int:
        """Of a loop state."""
        return loop_bytes(self.setup, self.members)

    # --- forward ------------------------------------------------------------------------------
    @cached_property
    def engine(self) -> Any:
        r = self.run
        if r.adaptive:
            return own_steps_engine(r)
        if r.system.crossings:
            return rounds_engine(r)
        return engine_for(r.target, r.program, None, r.threads, r.loops)

    def begin(self) -> Any:
        r = self.run
        self.engine.expect(self.members, self.steps)
        m = self.engine.start(r.given.states, r.given.params, self.members, r.dt, self.now(0), r.threads)
        return self.at(self.kept(m), 0) if self.origin else m

    def at(self, state: Arrays, n: int) -> Any:
        """A loop that is at step n, from its loop state."""
        r, n = self.run, n + self.origin
        return self.engine.restored(state, r.given.params, self.members, r.dt, r.t0, n, r.threads)

    def advance(self, m: Any, steps: int) -> None:
        size = max(self.engine.block(self.members), 1)
        while steps > 0:
            self.engine.advance(m, min(steps, size))
            steps -= size

    @cached_property
    def numbers(self) -> Numbers:
        """Where loop states are; a jump has no loop."""
        return HOST if self.run.jump is not None else numbers_of(self.engine)

    def kept(self, m: Any) -> dict[str, Any]:
        """The loop state, by the names of the registers."""
        return self.numbers.registers(self.engine, m)

    def seen(self, m: Any) -> dict[str, Any]:
        """What users see of it, word by word."""
        return self.numbers.synchronised(self.engine, m)

    def check(self, m: Any, n: int) -> None:
        """A run that has failed has no gradient."""
        if bad := self.engine.bad(m):
            who = f" of member {bad[0]}" if self.run.given.is_ensemble else ""
            raise InputError(
                f"the run{who} stopped before step {n + self.origin} (t = {self.now(n):g}): "
                f"{self.run.encoding.failure}",
                fix="Shorten dt, or begin with another state.",
            )

    @cached_property
    def lengths(self) -> dict[Key, float]:
        """Of shorter steps to a time that is a state, as they were found."""
        return {}

    def shorter(self, state: Arrays, n: int, t: float) -> float:
        """Of the shorter step from the state that users see at step n to a time t."""
        if not self.ends_in_time:
            return t - self.now(n)
        if (n, t) not in self.lengths:
            own = {name: np.array(here(v)) for name, v in state.items()}
            self.lengths[n, t] = ended(self.run, own, t).fraction * self.run.dt
        return self.lengths[n, t]

    def between(self, state: Arrays, n: int, t: float) -> Any:
        """A loop of one shorter step from the state that users see at step n, as a run shows the time t."""
        r, now, h = self.run, self.now(n), self.shorter(state, n, t)
        params = {**r.given.params, **matrices(r, h)}
        return self.engine.start(state, params, self.members, h, now, r.threads, **self.decided)

    @cached_property
    def decided(self) -> dict[str, Any]:
        """What a run decides where it begins, and a loop that begins within it is given: the angles of trees."""
        if not approximates(made(self.run.program)):
            return {}
        m = self.begin()
        if not self.kept(m)["tree"][:, 0].all():  # the first force is that of the first step
            self.advance(m, 1)
        return {"chosen": self.kept(m)["tree"]}

    def check_values(self, words: Arrays, key: Key) -> None:
        """The same of a state that was made for a look."""
        if not all(np.isfinite(here(v)).all() for v in self.shown(words).values()):
            raise InputError(
                f"the run has no finite state at t = {self.time(key):g}: {self.run.encoding.failure}",
                fix="Shorten dt or the tolerance, or begin with another state.",
            )

    def shown(self, words: Arrays) -> dict[str, Any]:
        """What users see of states, (members, shape...)."""
        return self.run.encoding.values(words)

    def first(self) -> dict[str, Any]:
        return {name: np.asarray(v) for name, v in self.run.given.states.items()}

    # --- backward -----------------------------------------------------------------------------
    def adjoint(self, reverse: bool) -> Pullback:
        """The program that pulls cotangents back: by inverse steps, or from the state that each step began with."""
        return Pullback(self, self.adjoint_program(reverse))

    def adjoint_program(self, reverse: bool, of_final: bool = False, more: tuple[UOp, ...] = ()) -> Program:
        wrt = (*self.wrt, *more)
        key = "adjoint", self.setup.goal, reverse, of_final, tuple(str(v.arg) for v in wrt)
        known = self.setup._beside
        if key not in known:
            known[key] = adjoint(self.setup.built, wrt, reverse, of_final)
        found: Program = known[key]
        return found


class Pullback:
    """Cotangents beside loop states, on their way back. `state` is all that its loop carries, by register.

    Cotangents and sums of gradients are those numbers times two to the power `exponent`, one for each member.
    """

    def __init__(self, course: Course, program: Program) -> None:
        self.course, self.program = course, program
        self.exponent: Any = None
        self._sizes: list[
            tuple[int, Size | KnownSize]
        ] = []  # where it began, before and after the middle, and later
        self._state: dict[str, Any] | None = {}
        self._loop: Any = None  # of the engine, while nothing else has changed the state
        self._old: Any = None  # the one before, to be filled again
        self._largest: Any = None  # cotangents of the state, once they were looked at

    @property
    def state(self) -> dict[str, Any]:
        if self._state is None:
            self._state = self.numbers.registers(self.engine, self._loop)
        return self._state

    @state.setter
    def state(self, new: dict[str, Any]) -> None:
        self._old = self._old if self._loop is None else self._loop
        self._state, self._loop, self._largest = new, None, None

    @property
    def now(self) -> tuple[Any, ...]:
        """All that a stretch changes, to be put back before it is done again."""
        return dict(self.state), self.exponent, list(self._sizes)

    @now.setter
    def now(self, then: tuple[Any, ...]) -> None:
        self.state, self.exponent, self._sizes = then

    @cached_property
    def engine(self) -> Any:
        r, loops = self.course.run, in_loops(self.program, self.course.members)
        target = r.target if loops or fits(self.program) else BUILT["python"]
        return engine_for(target, self.program, None, r.threads, loops and target.backend != "python")

    @cached_property
    def numbers(self) -> Numbers:
        return numbers_of(self.engine)

    @cached_property
    def registers(self) -> dict[str, str]:
        """The register of each state, word by word."""
        return {s.name: f"S{k}" for k, s in enumerate(self.program.states)}

    @cached_property
    def beside(self) -> list[str]:
        return beside(self.program)

    @cached_property
    def cotangents(self) -> list[str]:
        own = {s.name for s in self.course.setup.system.states}
        return [name for name in self.beside if name.removesuffix(BAR) in own]

    @cached_property
    def own(self) -> dict[str, str]:
        """Registers of the run, by those that the same words have in it."""
        return {at: self.registers[name] for name, at in self.course.words.items()}

    @cached_property
    def params(self) -> dict[str, Any]:
        """Those of the run, with the matrices that this program asks for."""
        return self.params_of(self.course.run.dt)

    def params_of(self, h: float) -> dict[str, Any]:
        """The same for a step of another length."""
        r = self.course.run
        return {**r.given.params, **matrices(r, h, self.program)}

    def put(self, state: Arrays) -> None:
        """The loop state of the run that the next step begins with."""
        state = state if self.numbers.there else {name: here(v) for name, v in state.items()}
        lists = {name: v for name, v in state.items() if name not in self.own}
        self.state = {**self.state, **lists, **{here: state[there] for there, here in self.own.items()}}

    def taken_back(self) -> dict[str, Any]:
        """The loop state of the run."""
        return {there: self.state[here] for there, here in self.own.items()}

    # --- seeds --------------------------------------------------------------------------------
    def seeded(self, state: Arrays, words: Arrays, bars: Arrays, n: int) -> dict[str, Any]:
        """Registers of cotangents of a loop state, from those of the states that users see at step n."""
        r, members = self.course.run, len(next(iter(words.values())))
        if loses(self.course.setup.built.step):
            at = n + self.course.origin
            return self.through_final(state, bars, (self.params, members, r.dt, r.t0, at, r.threads))
        given = {**words, **zeros(self.program, members), **split(self.course.precision, bars)}
        params = self.params
        if members != self.course.members:  # frames side by side
            times = members // self.course.members
            params = {k: np.concatenate([v] * times) if len(v) > 1 else v for k, v in params.items()}
        m = self.engine.start(
            given, params, members, r.dt, self.course.now(n), r.threads, **self.decided(members)
        )
        found = self.numbers.registers(self.engine, m)
        return {self.registers[name]: found[self.registers[name]] for name in self.beside}

    def decided(self, members: int) -> dict[str, Any]:
        """Of frames side by side, for each of them."""
        times = members // self.course.members
        return {name: np.concatenate([v] * times) for name, v in self.course.decided.items()}

    def through_final(self, state: Arrays, bars: Arrays, call: tuple[Any, ...]) -> dict[str, Any]:
        """The same at the loop state itself, where the states that users see do not lead back to it."""
        own, members = Pullback(self.course, self.course.adjoint_program(False, of_final=True)), call[1]
        words = {**zeros(own.program, members), **split(self.course.precision, bars)}
        there = {own.registers[name]: np.reshape(v, (members, -1)) for name, v in words.items()}
        there |= {place: state[at] for at, place in own.own.items()}
        there |= {name: v for name, v in state.items() if name not in own.own}
        m = own.engine.restored(there, *call)
        own.engine.advance(m, 1)
        found = own.numbers.registers(own.engine, m)
        return {self.registers[name]: found[own.registers[name]] for name in self.beside}

    def part(self, before: Arrays, after: Arrays, bars: Arrays, n: int, t: float) -> dict[str, Any]:
        """Cotangents of the states that users see at step n, and sums, from those after a shorter step to the time t."""
        c, r = self.course, self.course.run
        now, h = c.now(n), c.shorter(before, n, t)
        params = self.params_of(h)
        call = (params, c.members, h, now)
        loop = c.between(before, n, t)
        begun = c.kept(loop)
        if loses(c.setup.built.step):
            c.engine.advance(loop, 1)
            state = self.through_final(c.kept(loop), bars, (*call, 1, r.threads))
        else:
            given = {**after, **zeros(self.program, c.members), **split(c.precision, bars)}
            end = self.engine.start(given, params, c.members, h, t, r.threads, **c.decided)
            state = self.numbers.registers(self.engine, end)
        state |= {place: begun[at] for at, place in self.own.items()}
        one = self.engine.restored(state, *call, 0, r.threads)
        self.engine.advance(one, 1)
        begins = self.numbers.registers(self.engine, one)
        found = self.engine.synchronised(self.engine.restored(begins, *call, 0, r.threads))
        return {name: np.array(found[name]) for name in self.beside}

    def begin(self, state: Arrays, words: Arrays, bars: Arrays) -> None:
        """At the end of the run."""
        members = self.course.members
        self.exponent = zero_exponents(members)
        self.state = self.seeded(state, words, bars, self.course.steps)
        self.put(state)
        self.engine.expect(members, self.course.steps)
        self.scale()
        self._sizes = [(self.course.steps, self.size)]

    def kept(self) -> dict[str, Any]:
        """All that a sweep goes on with, for a file."""
        out = {f"state {name}": here(v) for name, v in self.state.items()}
        at, sizes = zip(*self.history)
        return {
            **out,
            "exponent": here(self.exponent),
            "history at": np.array(at),
            "history": np.array(sizes),
        }

    def resume(self, mark: Mark) -> None:
        """Goes on from a file."""
        found = mark.numbers
        self.state = {name[6:]: v for name, v in found.items() if name.startswith("state ")}
        self.exponent = found["exponent"]
        self._sizes = list(zip(found["history at"].tolist(), map(KnownSize, found["history"])))

    def add(self, seed: Arrays) -> None:
        """More cotangents of the loop state where it is now, which no power of two multiplies."""
        at = {name: self.registers[name] for name in self.beside}
        new = {name: self.numbers.lowered(seed[r], self.exponent) for name, r in at.items()}
        found = added({name: self.state[r] for name, r in at.items()}, new, self.numbers)
        self.state = {**self.state, **{at[name]: v for name, v in found.items()}}
        self.scale()

    # --- how large cotangents are ---------------------------------------------------------------
    @property
    def largest(self) -> Any:
        """Of the cotangents of each member; what is no number counts as infinite."""
        if self._largest is None:
            self._largest = self.numbers.largest([self.state[self.registers[n]] for n in self.cotangents])
        return self._largest

    @property
    def size(self) -> Size:
        return Size(self.largest, self.exponent)

    @property
    def sizes(self) -> Any:
        return self.size.logarithm

    @property
    def began(self) -> Any:
        """The sizes at the end of the run."""
        return self._sizes[0][1].logarithm

    @property
    def history(self) -> list[tuple[int, Any]]:
        """(step, sizes) on the way."""
        return [(n, size.logarithm) for n, size in self._sizes]

    def growth(self) -> Any:
        """By which power of two cotangents have grown since the end of the run; 0 where there were none."""
        with np.errstate(invalid="ignore"):
            grown = self.sizes - self.began
        return np.where(np.isfinite(grown), grown, 0.0)

    def scale(self) -> None:
        """Cotangents that have grown are divided by a power of two, which is kept."""
        allowed = range_of(self.course.precision).most
        if self.numbers.most(self.largest) < 2.0**allowed:
            return
        exponent, shift = self.numbers.shifts(self.largest, self.exponent, allowed)
        at = [self.registers[name] for name in self.beside]
        self.state = {**self.state, **{r: self.numbers.lowered(self.state[r], shift) for r in at}}
        self.exponent = exponent

    def seen(self, n: int) -> None:
        """How large cotangents are at step n: before and after the middle of the run."""
        last, half = self._sizes[-1][0], self.course.steps / 2
        if last - n < max(self.course.steps // SEEN, 1) or last <= half and len(self._sizes) > 2:
            return
        if len(self._sizes) > 1 and n > half:
            self._sizes.pop()
        self._sizes.append((n, self.size))

    # --- steps --------------------------------------------------------------------------------
    def step(self, n: int, count: int = 1) -> None:
        """Through so many steps of the run, the last of which begins at step n."""
        if self._loop is None:
            self._loop = self.restored(n)
        self._loop.steps = n + self.course.origin
        size = max(self.engine.block(self.course.members), 1)
        while count > 0:
            self.engine.advance(self._loop, min(count, size))
            count -= size
        self._state, self._largest = None, None

    def restored(self, n: int) -> Any:
        r, refill = self.course.run, getattr(self.engine, "refill", None)
        n += self.course.origin
        if self._old is not None and refill is not None and refill(self._old, self.state, n):
            return self._old
        return self.engine.restored(self.state, self.params, self.course.members, r.dt, r.t0, n, r.threads)

    @property
    def overflowed(self) -> bool:
        """Have cotangents, or sums of gradients, left the range of their format?"""
        sums = [self.state[self.registers[name]] for name in self.beside if name not in self.cotangents]
        largest = self.numbers.largest(sums, self.largest) if sums else self.largest
        return not np.isfinite(self.numbers.most(largest))

    def end(self) -> dict[str, Any]:
        """The states and cotangents at the beginning of the run, by name. It has nothing but its sizes after that."""
        self._largest = self.largest
        found = self.numbers.synchronised(self.engine, self.restored(0))
        self._state, self._loop, self._old = {}, None, None
        return found


@lru_cache(maxsize=64)  # said once
def fits(program: Program) -> bool:
    """Is it short enough to be written out number by number?  If not it runs in Python, to the same bits."""
    sections = ("init", "step", "final")
    if sum(len(getattr(program, name)) for name in sections) < SHORT:
        return True
    try:
        for name in sections:
            check_length(program, name)
        kernel = build_kernel(program)
        for name in sections:
            kernel.section(name)
    except PlanError as why:
        LOG.warning("%s, too many to compile: gradients run in Python, slowly", str(why).rstrip("."))
        return False
    return True


def check_length(program: Program, section: str) -> None:
    """An error where a section is longer than that in any case, before it is written out."""
    least = sum(
        i.type.shape[0] * OF_AN_ORBIT if i.op == "KEPLER" else prod(i.type.shape)
        for i in getattr(program, section)
    )
    if least > LARGEST:
        raise PlanError(
            f"one {section} of `{program.name}` is more than {least:,} operations when written out"
        )


@dataclass(frozen=True, eq=False)
class Size:
    """How large the cotangents of each member are: times two to a power."""

    largest: Any
    exponent: Any

    @property
    def logarithm(self) -> Any:
        """To base 2."""
        with np.errstate(divide="ignore"):
            return np.log2(here(self.largest)) + here(self.exponent)


@dataclass(frozen=True, eq=False)
class KnownSize:
    """The same of a sweep that goes on."""

    logarithm: Any


def loop_bytes(setup: Setup, members: int) -> int:
    """The size of a loop state: all words of the states, and the points that each list of neighbours was made of."""
    program = setup.built.program
    states = [s.type for s in program.states]
    types: dict[Operand, Type] = {Register("S", k): t for k, t in enumerate(states)}
    types |= {i.dst: i.type for i in program.step if i.op != "NEAR"}
    lists = {i.args[-1]: types[i.args[1]] for i in program.step if i.op == "NEAR"}
    return members * sum(int(prod(t.shape)) * t.dtype.bits // 8 for t in (*states, *lists.values()))


# --- beginning ----------------------------------------------------------------------------------
def course_of(setup: Setup, request: Request, wrt: Sequence[str], what: str) -> Course:
    """Everything decided that a first state decides; an error where the run has no adjoint yet."""
    setup.in_own_time(what)
    resolved = resolve(setup, request, DECIDERS)
    encoded = encode(resolved)
    scheduled = schedule(resolved, encoded)
    bound = bind(resolved, encoded, scheduled)
    run = place(resolved, scheduled, bound).run
    parameters = {p.name: p.var for p in setup.system.parameters}
    held = (UOp.var(kept_name(k)) for k, _ in enumerate(setup.goal.project))  # by the first state
    return Course(setup, run, scheduled, (*(DT if n == "dt" else parameters[n] for n in wrt), *held))
