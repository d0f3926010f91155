"""One run of a program on an engine, with some values observed: all that decides its bits is in a Run.

What searches events is imported where a run has some: a first result does not wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import here
from tinyphysics.device.engines.host import VmEngine
from tinyphysics.device.engines.loops import NestEngine
from tinyphysics.device.engines.pieces import MemberBatches
from tinyphysics.device.engines.series import SeriesEngine
from tinyphysics.device.host.cores import available
from tinyphysics.device.host.threads import spread
from tinyphysics.ir import UOp, f64
from tinyphysics.rules.functions.random import draws
from tinyphysics.runtime.engines.adaptive import AdaptiveEngine
from tinyphysics.runtime.engines.backend import engine_for, series_engine
from tinyphysics.runtime.engines.engine import States
from tinyphysics.runtime.engines.jump import JumpEngine
from tinyphysics.runtime.engines.plans import probe_key
from tinyphysics.runtime.engines.step_rows import is_narrow
from tinyphysics.runtime.stages.acting import Acts
from tinyphysics.runtime.stages.flow_matrices import with_flows
from tinyphysics.runtime.stages.loop import begin_tiles, go
from tinyphysics.runtime.stages.running import Running, Sink
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import LazyProgram, NearPoles, Run, made
from tinyphysics.runtime.state.schedule import Schedule
from tinyphysics.runtime.state.tiles import Tile, cut
from tinyphysics.runtime.state.windows import FEW, Windows, fitting
from tinyphysics.runtime.storage.resume import Keeps
from tinyphysics.synth.methods.embedded import MOVE
from tinyphysics.system import System
from tinyphysics.tpir.kernels.nearest import NearestOf
from tinyphysics.tpir.precision.probe import probe
from tinyphysics.tpir.program.isa import FLOW, Program

FEW_LOOKS = 8  # into a run whose steps have a curve, for which its steps are not kept
MANY_FRAMES = 4  # beyond, the loop itself observes the states: a block need not end at every frame


def clock_of(system: System) -> UOp:
    """The variable that stands for t0 + n*dt in an observable; where t is a state, it is not needed."""
    if system.clock is not None:
        return UOp.var("steps times dt")
    return UOp.var("t") if system.time is None else system.time


def observer_program(r: Run, values: Mapping[str, UOp]) -> Program | LazyProgram:
    def make() -> Program:
        return probe(r.system.states, r.system.parameters, clock_of(r.system), values, r.encoding.precision)

    if not isinstance(r.program, LazyProgram):
        return make()
    key = key_of_values(r.program.key, r.system, tuple(values), tuple(values.values()))
    return make() if key is None else LazyProgram(key, make)


@lru_cache(maxsize=256)
def key_of_values(
    program: str, system: System, names: tuple[str, ...], values: tuple[UOp, ...]
) -> str | None:
    return probe_key(program, system, dict(zip(names, values)))


def execute(
    r: Run,
    record: Record,
    values: Mapping[str, UOp],
    tick: Callable[[int], None],
    sink: Sink | None = None,
    keeper: Keeps | None = None,
    windows: Windows | None = None,
    poles: NearPoles | None = None,
    observation: Any = None,
) -> tuple[Record, int, float, str]:
    """(what was recorded, how often the engine was launched, seconds it spent compiling, where its code is from)."""
    began = time.perf_counter()
    engine, fused = choose_engine(r, record, values, poles)
    built = time.perf_counter() - began
    if observation is not None:
        engine = observation.engine(engine)

    def beside(found: NearPoles) -> Any:
        other = choose_engine(r, record, values, found)[0]
        return other if observation is None else observation.engine(other)

    launches, compiling, made, loaded = engine.launches, engine.compiling, engine.made, engine.found
    worker = None
    if r.across is not None:
        worker = r.across.start(r, {} if r.begun is None else r.begun.memory)
        given = replace(r.given, params={**r.given.params, **worker.params})
    else:
        given = r.given
    running = Running.of(
        r,
        engine,
        record,
        given=given,
        across=r.across,
        worker=worker,
        look_at_values=partial(look_at_tile, r, values) if values else None,
        sink=sink,
        fused=fused,
        begun=r.begun,
        keeper=keeper,
        windows=windows,
        by_dt=partial(matrices, r),
        acts=Acts(r, partial(look_at_tile, r, values) if values else None) if r.acts else None,
        threads=r.threads or available(),
        watches=r.watches,
        poles=poles,
        engine_beside=beside,
        look=partial(look_at_tile, r, {name: u for w in r.watches for name, u in w.values.items()}),
    )
    record.worker = worker
    if observation is not None:
        observation.watches(running)
    begin_tiles(running)
    for tile in running.tiles:
        engine.expect(tile.members, record.schedule.steps - record.schedule.first)
    if values:
        now_given = replace(r, given=given)
        first = observe_states(
            now_given, values, {n: v[None] for n, v in r.given.states.items()}, [record.schedule.first]
        )
        if sink is not None:
            sink(first, slice(0, r.given.members))
        else:
            now = {name: v[0] for name, v in first.items()}
            record.watch(now, None if windows is None else fitting(list(now.values()), FEW))
    go(running, tick)
    if running.tiles:
        record.shape = engine.told(running.tiles[0].members)
    if r.events and r.until is not None and running.n == record.schedule.steps:
        for tile in running.tiles:
            m = tile.alone if tile.begun else tile.load(running.n)
            engine.search_until(m, r.until)
            if not tile.begun:
                record.found.extend(engine.findings(m)["found"])
    for tile in (tile for tile in running.tiles if tile.begun):
        for name, found in engine.findings(tile.alone).items():
            getattr(record, name).extend(found)
    code = "made" if engine.made > made else "disk" if engine.found > loaded else "memory"
    return record, engine.launches - launches, built + engine.compiling - compiling, code


def look_at_tile(r: Run, values: Mapping[str, UOp], tile: Tile, state: States, n: int) -> dict[str, Any]:
    """What is observed of the members of a tile, in a state at step n."""
    own = replace(r.given, params=tile.params(), members=tile.members)
    seen = observe_states(
        replace(r, given=own), values, {name: here(v)[None] for name, v in state.items()}, [n]
    )
    return {name: v[0] for name, v in seen.items()}


def matrices(r: Run, dt: float, program: Program | None = None) -> dict[str, Any]:
    """The parameters of a run that follow from its step, for another step or program."""
    if not any(name.startswith(FLOW) for name in r.given.params):
        return {}
    found = with_flows(r.given, program or made(r.program), dt, made(r.program)).params
    return {name: v for name, v in found.items() if name.startswith(FLOW)}


def choose_engine(
    r: Run, record: Record, values: Mapping[str, UOp], poles: NearPoles | None = None
) -> tuple[Any, dict[str, str]]:
    """The engine of a run, and the names under which its loop observes the states if many are saved.

    Its loop keeps how near it comes to `poles`.
    """
    near = (
        None
        if poles is None
        else (observer_program(r, poles.values), NearestOf(poles.poles, poles.by_length))
    )
    s, look = record.schedule, partial(observe_states, r, values) if values else None
    if r.engine_by is not None:
        return r.engine_by(r, values), {}
    if r.events:
        from tinyphysics.runtime.engines.events import check_events

        check_events(r.system, clock_of(r.system), r.events)
    if r.events and not r.adaptive:
        return with_events(r, record, values, near)
    if r.system.guards:
        return with_rounds(r, record, look)
    if r.jump is not None:
        fused = {x.name: f"frame.{x.name}" for x in r.system.states}
        fused = fused if record.frames and strides_agree(s) else {}
        return JumpEngine(r.jump, look, fused), fused
    if r.adaptive:
        names = [x.name for x in r.system.states]
        words = [word for name in names for word in r.encoding.precision.names(name)]
        inner, at_once = stepping(r, s)
        fused = {word: f"frame.{word}" for word in words} if at_once and strides_agree(s) else {}
        if r.target.backend == "cuda" and not r.loops:
            inner = MemberBatches(inner)
        search = None
        if (r.events or at_once) and alone(inner, names):
            from tinyphysics.runtime.engines.adaptive_arrays import ArraysAdaptive
            from tinyphysics.runtime.engines.searches import array_curves

            curves = partial(array_curves, r, clock_of(r.system))
            given = (inner, names, look, None, words, r.advice, fused, at_once)
            return ArraysAdaptive(*given, curves=curves, events=list(r.events)), fused
        if r.events:
            from tinyphysics.runtime.engines.searches import dense_search

            search = dense_search(r, clock_of(r.system), inner)
        return AdaptiveEngine(inner, names, look, search, words, r.advice, fused, at_once), fused
    # what is observed is float64, too short for whole numbers
    floats = r.encoding.precision.state.is_float and not r.encoding.whole
    can = r.target.backend != "python" and floats and not r.given.there  # what is observed there comes here
    if record.frames and can and fusible(s):
        kept = [word for x in r.system.states for word in r.encoding.precision.kept(x)]
        engine = engine_for(r.target, r.program, None, r.threads, r.loops) if r.loops and not values else None
        if engine is not None and engine.shows_states:
            fused = {word.name: word.name for word in kept}
        else:
            fused = {word.name: f"frame.{word.name}" for word in kept}
            states = {fused[word.name]: word.var for word in kept}
            shown = observer_program(r, {**values, **states})
            engine = engine_for(r.target, r.program, shown, r.threads, r.loops, None, False, near)
        if s.save_every is not None and engine.block(r.given.members) >= 2 * s.save_every:
            return engine, fused
    seen = observer_program(r, values) if values else None
    engine = engine_for(r.target, r.program, seen, r.threads, r.loops, None, False, near)
    engine.block(r.given.members)  # writes the kernel out
    return engine, {}


def with_rounds(r: Run, record: Record, look: Any) -> tuple[Any, dict[str, str]]:
    """The engine of a run that goes from event to event."""
    s = record.schedule
    words = [word.name for x in r.system.states for word in r.encoding.precision.kept(x)]
    fused = {word: f"frame.{word}" for word in words} if record.frames and strides_agree(s) else {}
    return rounds_engine(r, look, fused), fused


def rounds_engine(r: Run, look: Any = None, fused: Mapping[str, str] | None = None) -> Any:
    from tinyphysics.runtime.engines.rounds import RoundEngine
    from tinyphysics.synth.methods.event_rounds import SEARCH, STOPPED
    from tinyphysics.util import prod

    in_loop = r.encoding.precision.state is f64  # rows of rounds are float64
    inner = engine_for(r.target, r.program, None, r.threads, False, None, in_loop)
    clear = None
    numbers = prod(next(s.type.shape for s in inner.states if s.name == SEARCH))
    if r.clear is not None and r.speculate != 0 and numbers > STOPPED + 1:  # else nothing is searched
        clear = engine_for(r.target, r.clear, None, r.threads, False)
    return RoundEngine(inner, r.system.crossings, look, fused or {}, clear, r.speculate)


def own_steps_engine(r: Run) -> AdaptiveEngine:
    """The engine of a run whose steps have their own lengths, that is looked at now and then, without events."""
    names = [x.name for x in r.system.states]
    words = [word for name in names for word in r.encoding.precision.names(name)]
    inner, _ = stepping(replace(r, events={}), Schedule(1, None, None, None))
    if r.target.backend == "cuda" and not r.loops:
        inner = MemberBatches(inner)
    return AdaptiveEngine(inner, names, None, None, words)


def with_events(
    r: Run, record: Record, values: Mapping[str, UOp], near: tuple[Any, NearestOf] | None
) -> tuple[Any, dict[str, str]]:
    """The engine of a run with steps of one length whose events are searched."""
    from tinyphysics.runtime.engines.event_steps import TIME, EventEngine, JumpEvents
    from tinyphysics.runtime.engines.searches import fractions, jumps, observed_events

    s, events = record.schedule, observed_events(r.events)
    kept = [word for x in r.system.states for word in r.encoding.precision.kept(x)]
    words = {word.name: f"frame.{word.name}" for word in kept}
    in_loop = r.jump is not None or not r.loops  # does it show the states of every step?
    fused = words if record.frames and in_loop and strides_agree(s) and not r.given.there else {}
    look, seen = partial(observe_states, r, values) if values else None, partial(observe_states, r, events)
    inner: Any
    if r.jump is not None:
        inner = JumpEngine(r.jump, seen, words)
        alone = engine_for(r.target, observer_program(r, events), None, r.threads, r.loops)
        by = jumps(r, inner, alone)
        return JumpEvents(inner, list(r.events), words, by, seen, look, fused, in_loop), fused
    shown = {words[word.name]: word.var for word in kept} if in_loop else {}
    time = None
    if r.system.clock is not None:
        time = partial(r.encoding.shown, r.system.clock.time)
        shown |= {TIME: next(x.var for x in r.system.states if x.name == r.system.clock.time)}
    seen_in_loop = observer_program(r, {**events, **shown})
    inner = engine_for(r.target, r.program, seen_in_loop, r.threads, r.loops, None, False, near)
    by = fractions(r, inner, partial(matrices, r))
    return EventEngine(inner, list(r.events), words, by, seen, look, fused, in_loop, time), fused


def stepping(r: Run, s: Schedule) -> tuple[Any, bool]:
    """The engine of a run whose steps have their own lengths; does it write them down, for many times to be looked at?"""
    if r.series is not None:
        return series_engine(r.target, r.series), False
    if r.loops:
        at_once = many_looks(s) and not r.given.there
        return engine_for(r.target, r.program, None, r.threads, r.loops), at_once
    many = many_looks(s) and not r.given.there
    if r.events or many:
        keeping = engine_for(r.target, r.program, None, r.threads, False, None, True)
        at_once = many and is_narrow(keeping.numbers, r.given.members)
        if r.events or at_once:
            return keeping, at_once
    return engine_for(r.target, r.program, None, r.threads), False


def alone(inner: Any, names: Sequence[str]) -> bool:
    """Does an engine go along the arrays of one member after the other?"""
    if isinstance(inner, (NestEngine, SeriesEngine)):
        return True
    return isinstance(inner, VmEngine) and any(s.name == names[0] + MOVE for s in inner.states)


def many_looks(s: Schedule) -> bool:
    """Is a run looked at more than a few times?"""
    return s.kept(s.steps) > FEW_LOOKS or len(s.observed(s.steps)) > FEW_LOOKS


def fusible(s: Schedule) -> bool:
    """Are the frames many, and is one of the strides of frames and observables a multiple of the other?"""
    return strides_agree(s) and s.steps - s.first >= MANY_FRAMES * (s.save_every or 0)


def strides_agree(s: Schedule) -> bool:
    """Are frames saved, and is one of the strides of frames and observables a multiple of the other?"""
    if s.save_every is None:
        return False
    every = s.observe_every or s.save_every
    return s.save_every % every == 0 or every % s.save_every == 0


def observe_states(
    r: Run,
    values: Mapping[str, UOp],
    frames: Mapping[str, Any],
    steps: Sequence[int],
    changed: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Observables of synchronised states (frames, members, shape...) at these steps, by a program of their own.

    `changed` are parameters that were not the same at all of them, (frames, members, shape...).
    """
    now = {name: np.asarray(v) for name, v in (changed or {}).items()}
    engine = engine_for(r.target, observer_program(r, values), None, r.threads, r.loops)
    members, clock = r.given.members, clock_of(r.system)
    out = {name: np.empty((len(steps), members, *u.shape)) for name, u in values.items()}
    timeless = not any(clock in u.leaves or draws(u) for u in values.values())
    span = max(len(steps), 1) if timeless else 1  # frames at once: as many members of one time
    for begin in range(0, len(steps), span):
        look = slice(begin, begin + span)
        state = {n: v[look].reshape(-1, *v.shape[2:]) for n, v in frames.items()}
        into = {n: v[look].reshape(-1, *v.shape[2:]) for n, v in out.items()}
        size = min(v.itemsize for v in state.values())
        parts = cut(span * members, engine.numbers, size, engine.room, engine.workers)

        def one(k: int) -> None:
            here = parts[k]  # noqa: B023
            who = np.arange(here.start, here.stop) % members
            params = {n: v[who] if len(v) > 1 else v for n, v in r.given.params.items()}
            params |= {n: v[look].reshape(-1, *v.shape[2:])[here] for n, v in now.items()}  # noqa: B023
            threads = None if len(parts) == 1 else 1  # noqa: B023
            m = engine.start({n: v[here] for n, v in state.items()}, params, len(who), r.dt, r.t0, threads)  # noqa: B023
            m.steps = steps[begin]  # noqa: B023
            for name, v in engine.synchronised(m).items():
                into[name][here] = v  # noqa: B023

        spread(one, len(parts), engine.workers)
    return out
