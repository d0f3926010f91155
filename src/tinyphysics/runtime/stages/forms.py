"""When are two calls of evolve alike?  If they differ in the values of states and parameters alone.

Names, shapes, options and what was compiled are then the same: the form of a call. Of the second call of a form a `Pattern`
is kept, with all that the next one need not find out again (runtime/stages/short_runs.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import NoneType
from typing import Any

import numpy as np

from tinyphysics.context import PROCESSOR
from tinyphysics.device.engines.engine import THREAD_WORK
from tinyphysics.device.engines.lane_call import Journey, LaneCall, callable_by_address
from tinyphysics.device.host.cores import available
from tinyphysics.plan import Goal
from tinyphysics.runtime.stages.bind import Bound
from tinyphysics.runtime.stages.compiled import Compiled
from tinyphysics.runtime.stages.diagnose import Diagnostic, Finished, Repeated, costs
from tinyphysics.runtime.stages.elsewhere import HERE
from tinyphysics.runtime.stages.execute import choose_engine
from tinyphysics.runtime.stages.origin import CompileRecord
from tinyphysics.runtime.stages.place import Placed
from tinyphysics.runtime.stages.resolve import Request, Resolved
from tinyphysics.runtime.stages.run import Ran
from tinyphysics.runtime.stages.schedule import Scheduled
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import OF_LENGTH, Inputs
from tinyphysics.runtime.state.from_frame import Unsaid
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.schedule import times_of
from tinyphysics.system import Parameter
from tinyphysics.tpir.kernels.kernel import NEAREST
from tinyphysics.trajectory import Trajectory
from tinyphysics.util import prod, varied

SIMPLE = frozenset((int, float, str, bool, NoneType, Unsaid))  # types of options that a form is made of
MOST = 64  # forms that a simulation remembers
Form = tuple[Any, ...]


def form_of(setup: Setup, r: Request) -> Form | None:
    """The form of a call; None if it asks for more than frames."""
    elsewhere = r.on is not None or r.verify is not None or HERE.get() is not None
    if elsewhere or r.view is not None or r.observation is not None:
        return None
    if r.observe or r.events or setup.monitors or r.options or r.acts is not None or r.save_at is not None:
        return None
    made = setup.source if setup._compiled is None else setup.system
    if r.exchange is not None or getattr(made, "biased_by", None) or getattr(made, "barostat", None):
        return None
    if r.save is not None or r.checkpoint is not None or r.resume is not None or r.hash_every is not None:
        return None
    said = (
        r.steps, r.until, r.t0, r.save_every, r.frames, r.seed, r.progress, r.threads, r.observe_every,
        r.checkpoint_every,
    )  # fmt: skip
    types = tuple(map(type, said))
    if not SIMPLE.issuperset(types) or math.copysign(1.0, r.t0) < 0:  # -0.0 == 0.0
        return None
    return (said, types, *r.given)


@dataclass(frozen=True, eq=False)
class GivenState:
    name: str
    shape: tuple[int, ...]  # as the user gives it
    own: tuple[int, ...]  # of a member
    size: int  # numbers of one
    rows: slice  # where it is among those that the loop shows, or `final`


@dataclass(frozen=True, eq=False)
class GivenParameter:
    name: str
    parameter: Parameter
    slots: Sequence[int]  # of its numbers among those of the kernel


@dataclass(frozen=True, eq=False)
class Pattern:
    """A run that went well, for others of its form."""

    compiled: Compiled
    goal: Goal
    checks: str
    processor: str
    run: Run  # without states
    call: LaneCall
    states: tuple[GivenState, ...]
    params: tuple[GivenParameter, ...]
    every: int  # steps from one frame to the next
    fused: bool  # does the loop show the frames?
    steps: Any  # of the frames
    t: Any
    threads: int
    asked: CompileRecord
    metrics: Mapping[str, Any]
    diagnostics: Sequence[Callable[[Repeated], bool | None]]
    far: dict[
        Any, Any
    ]  # by the values of parameters: least squares of distances that are known to pass no pole

    @cached_property
    def plain(self) -> Run:
        """The run, with nothing that looks at its poles."""
        return varied(self.run, poles=None)

    @cached_property
    def last(self) -> int:
        """The step of the last frame,"""
        return int(self.steps[-1])

    @cached_property
    def end(self) -> float:
        """and its time."""
        return float(self.t[-1])

    @cached_property
    def lengths(self) -> list[tuple[str, str]]:
        """The states whose lengths are looked at, and what they are."""
        return [(s.name, s.role) for s in self.compiled.system.states if s.role in OF_LENGTH]

    @cached_property
    def journey(self) -> Journey | None:
        """All of a run in one call, where it has two frames."""
        return None if self.fused or len(self.steps) != 2 else self.call.journey(self.every)

    @cached_property
    def in_block(self) -> list[tuple[GivenState, Any, slice]]:
        """Where the first and the last numbers of each state are in the block of one member."""
        shown = self.call.places["shown"].start
        ends = [slice(shown + x.rows.start, shown + x.rows.stop) for x in self.states]
        return list(zip(self.states, self.call.inputs, ends))

    @cached_property
    def near(self) -> tuple[slice, list[float]]:
        """Where the block of one member has how near it came to poles, and the sign of each number."""
        engine, first = self.call.engine, self.call.places["carried"].start
        assert engine.beside is not None
        signs = engine.signed(np.ones((len(engine.lengths), 1)))[:, 0].tolist()
        return slice(first + engine.beside.start, first + engine.beside.stop), signs

    def holds(self, setup: Setup) -> bool:
        """Is the simulation still what it was?"""
        same = setup._compiled is self.compiled and setup.goal is self.goal and setup.checks == self.checks
        plain = setup.frequency is None and setup.paces is None and not setup._acts
        return same and plain and PROCESSOR.value == self.processor


def is_plain(r: Resolved, s: Scheduled, b: Bound, p: Placed, ran: Ran) -> bool:
    """A run of steps of one length in float64, that begins with what was given and kept frames on a stride, if any."""
    c, sched, run = r.setup.compiled, s.schedule, p.run
    stays = r.begun is None and r.arrays is None and r.lent is None and ran.windows is None
    steps = run.jump is None and not run.adaptive and not run.loops and not r.decided
    looks = not (b.values or run.events or run.acts or run.watches) and sched.checkpoint_every is None
    plain = c.system.clock is None and c.system.motion is None and not c.system.guards
    starts = plain and not c.scales and not c.selects and not c.known.draws
    frames = sched.steps > 0 and sched.marks is None and sched.end is None and sched.shown is None
    own = {x.name for x in c.system.parameters}
    names = own.union(x.name for x in c.system.states).issuperset(r.request.given)
    plain = c.encoding.precision.name == "float64" and names and run.given.params.keys() == own
    return stays and steps and looks and starts and frames and plain and run.given.members > 0


def pattern_of(
    r: Resolved, s: Scheduled, b: Bound, p: Placed, ran: Ran, out: Trajectory, found: Mapping[str, Any],
    diagnostics: Sequence[Diagnostic],
) -> Pattern | None:  # fmt: skip
    """What another call of this form need not find out; None where it has to."""
    setup, run, c, i, given = r.setup, p.run, r.setup.compiled, p.run.given, r.request.given
    if not is_plain(r, s, b, p, ran) or any(found.values()):
        return None
    asked = [d for d in diagnostics if d.applies(Finished(r, given, run, ran, out, found))]
    engine, fused = choose_engine(run, ran.record, {}, run.poles)
    run = run if NEAREST in getattr(engine, "places", {}) else varied(run, poles=None)
    if not all(d.again for d in asked) or not callable_by_address(engine):
        return None
    steps, every = s.schedule.steps, s.schedule.save_every or s.schedule.steps
    call = LaneCall(engine, [x.var.size for x in c.system.states], i.params, i.members, run.dt, run.t0)
    span, rows = (steps, steps // every) if fused else (every, 1)
    short = call.entries["watch" if fused else "step"].work * span < 2 * THREAD_WORK and span <= engine.block(
        i.members
    )
    fits = rows <= engine.rows(call.loop_state(call.pattern, 0)) and i.members * engine.numbers <= engine.room
    if steps % every or not short or not fits or any(call.mask):
        return None
    lead = (i.members,) if i.is_ensemble else ()
    where = places(engine.kernel.observed if fused else engine.kernel.outputs)
    states = []
    for x in c.system.states:
        place, shape = where[fused[x.name] if fused else x.name], x.var.shape
        states.append(GivenState(x.name, (*lead, *shape), shape, x.var.size, place))
    asked_for = [x for x in c.system.parameters if x.name in given]
    slots = [[engine.slots[word] for word in words(x) if word in engine.slots] for x in asked_for]
    params = [GivenParameter(x.name, x, own) for x, own in zip(asked_for, slots)]
    if any(x.name not in given or np.shape(given[x.name]) != x.shape for x in states):
        return None
    if any(np.shape(given[x.name]) != x.parameter.var.shape for x in params):
        return None
    if any(len(x.slots) < x.parameter.var.size for x in params):
        return None
    at = s.schedule.frames(steps)[0]
    return Pattern(
        c, setup.goal, setup.checks, PROCESSOR.value, varied(run, given=Inputs({}, i.params, i.members, i.is_ensemble)),
        call, tuple(states), tuple(params), every, bool(fused), at, times_of((at, None), run.dt, run.t0),
        run.threads or available(), CompileRecord(setup.goal, setup.requested, setup.checks, c.known.program, r.seed),
        {**costs(r, p, ran), "steps": steps, "not_finite": 0}, [d.again for d in asked if d.again is not None], {},
    )  # fmt: skip


def places(values: Mapping[str, tuple[Any, tuple[int, ...]]]) -> dict[str, slice]:
    """The rows of each value, which lie one after the other."""
    out, at = {}, 0
    for name, (_, shape) in values.items():
        out[name] = slice(at, at + prod(shape))
        at += prod(shape)
    return out


def words(p: Parameter) -> list[str]:
    """The numbers of a parameter, as kernels call them."""
    return [f"${p.name}.{k}" for k in range(p.var.size)] if p.var.shape else [f"${p.name}"]
