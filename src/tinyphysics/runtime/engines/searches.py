"""Which search finds the events of a run?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction as ExactFraction
from functools import partial
from typing import Any

import numpy as np

from tinyphysics.device.engines.engine import LaneEngine
from tinyphysics.device.engines.host import VmEngine
from tinyphysics.device.protocols import CLOCK as CLOCK_NUMBERS
from tinyphysics.flows.series import series_of
from tinyphysics.ir import UOp, f64
from tinyphysics.runtime.engines.array_curves import TERM, ArrayCurves, curve_program, of_attempts, of_series
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.runtime.engines.dense import LANES, Dense, look_program, scan_program
from tinyphysics.runtime.engines.dense_search import Curves, Searching
from tinyphysics.runtime.engines.event_steps import Followed, Fraction, Shown
from tinyphysics.runtime.engines.jump import Jumped
from tinyphysics.runtime.engines.plans import probe_key
from tinyphysics.runtime.engines.series_curves import SeriesCurves
from tinyphysics.runtime.state.run import LazyProgram, Run
from tinyphysics.runtime.state.schedule import times_at
from tinyphysics.step import Step
from tinyphysics.synth.methods.taylor import CLOCK, LOW
from tinyphysics.system import System
from tinyphysics.tpir.program.isa import FLOW, Program
from tinyphysics.util import digest


def dense_search(r: Run, time: UOp, inner: Any) -> partial[Searching]:
    """Of a run whose steps have curves: (parameters, members, since, is it fresh?) -> Searching."""
    names = [s.name for s in inner.states]
    registers = {name: f"S{k}" for k, name in enumerate(names)}
    clock = registers[CLOCK]
    curves: Curves
    if r.series is not None:
        curves = SeriesCurves(r.system, time, r.events, "S0", series_of(r.series).order)
    else:
        scan, look = (
            engine_for(r.target, programmed(r, time, make, r.events), None, r.threads)
            for make in (scan_program, look_program)
        )
        curves = Dense(scan, look, registers, len(r.events))
    return partial(Searching, list(r.events), curves, clock)


def array_curves(r: Run, time: UOp) -> ArrayCurves:
    """What looks into steps of arrays in loops."""
    events = r.events
    if r.series is not None:
        series = series_of(r.series)
        states, words = of_series(r.system, series.order)
        program: Any = curve_program("curve", events, states, r.system.parameters, words, time)
        engine = engine_for(r.target, program, None, r.threads, r.target.backend != "python")
        return ArrayCurves(engine, partial(terms_of, r.system, series.order), len(events))

    def through_step(events: Mapping[str, UOp], step: Step, time: UOp) -> Program:
        return curve_program("curve", events, step.states, step.parameters, of_attempts(step), time)

    engine = engine_for(r.target, programmed(r, time, through_step, events), None, r.threads, r.loops)
    return ArrayCurves(engine, states_of, len(events))


def states_of(inner: Any, one: Any, names: Iterable[str]) -> dict[str, Any]:
    """Of arrays in loops: the states that are asked for."""
    wanted = set(names)
    return {
        s.name: inner.register(one, f"S{k}")[0].reshape(s.type.shape)
        for k, s in enumerate(inner.states)
        if s.name in wanted
    }


def terms_of(system: System, order: int, inner: Any, one: Any, names: Iterable[str]) -> dict[str, Any]:
    """Of the one register of a series in loops: the terms of each state, and its error words."""
    (numbers,) = inner.registers(one)["S0"]
    table, at = numbers[:-CLOCK_NUMBERS].reshape(order + 2, -1), 0
    out: dict[str, Any] = {}
    for s in system.states:
        rows = table[:, at : at + s.var.size].reshape(order + 2, *s.var.shape)
        out |= {f"{s.name}{TERM}{k}": row for k, row in enumerate(rows[:-1])} | {f"{s.name}{LOW}": rows[-1]}
        at += s.var.size
    return {**out, CLOCK: numbers[-CLOCK_NUMBERS:]}


# --- steps of one length ---------------------------------------------------------------------------------------
def observed_events(events: Mapping[str, UOp]) -> dict[str, UOp]:
    """Under names that are no user's."""
    return {f"event {k}": u for k, u in enumerate(events.values())}


def fractions(r: Run, inner: Any, by_dt: Callable[[float], Mapping[str, Any]]) -> Fraction:
    """What a shorter step of the method leads to: of all hits at once, where members may have steps of their own."""
    flows = any(name.startswith(FLOW) for name in r.given.params)
    at_once = isinstance(inner, (LaneEngine, VmEngine)) and not flows and r.encoding.precision.given is f64
    count, vm = len(r.events), isinstance(inner, VmEngine)

    def together(m: Followed, begin: Shown, who: Any, steps: Any, u: Any) -> tuple[Any, Shown]:
        size = len(u)
        full = np.resize(np.arange(size), size if vm else -(-size // LANES) * LANES)
        own = {name: v[who[full]] if len(v) > 1 else v for name, v in m.params.items()}
        t, dt = times_at(steps[full], m.dt, m.t0), u[full] * m.dt
        seen = shorter({word: v[full] for word, v in begin.items()}, own, len(full), dt, t)
        return seen[0][:, :size], {word: v[:size] for word, v in seen[1].items()}

    def shorter(begin: Shown, own: Mapping[str, Any], size: int, dt: Any, t: Any) -> tuple[Any, Shown]:
        one = inner.start(begin, own, size, dt, t)
        seen = inner.watch(one, 1, 1)
        states = {word: seen[f"frame.{word}"][0] for word in begin if f"frame.{word}" in seen}
        return np.stack([seen[f"event {k}"][0] for k in range(count)]), states or inner.synchronised(one)

    def one_by_one(m: Followed, begin: Shown, who: Any, steps: Any, u: Any) -> tuple[Any, Shown]:
        values, states = [], []
        for k, (j, t) in enumerate(zip(who.tolist(), times_at(steps, m.dt, m.t0).tolist())):
            dt = float(u[k]) * m.dt
            own = {name: v[j : j + 1] if len(v) > 1 else v for name, v in {**m.params, **by_dt(dt)}.items()}
            seen = shorter({word: v[k : k + 1] for word, v in begin.items()}, own, 1, dt, t)
            values.append(seen[0])
            states.append(seen[1])
        joined = {word: np.concatenate([s[word] for s in states]) for word in states[0]}
        return np.concatenate(values, axis=1), joined

    return together if at_once else one_by_one


def jumps(r: Run, inner: Any, look: Any) -> Fraction:
    """The same of a run that jumps: from the first state, or by a step of the method where its power jumps.

    `look` is the engine of the functions, of states alone.
    """
    flow = r.jump.flows(r.given.params, r.dt)

    def at(m: Followed, begin: Shown, who: Any, steps: Any, u: Any) -> tuple[Any, Shown]:
        states: dict[str, list[Any]] = {word: [] for word in begin}
        order = np.argsort(who, kind="stable")
        for j in np.unique(who).tolist():
            mine = np.flatnonzero(who == j)
            one = inner.some(m.inner, [j])
            if flow:
                places = [
                    ExactFraction(int(n)) + ExactFraction(float(x)) for n, x in zip(steps[mine], u[mine])
                ]
                parts = [inner.at(one, places)]
            else:
                parts = [
                    inner.at(
                        Jumped({w: v[k : k + 1] for w, v in begin.items()}, one.params, 1, u[k] * m.dt), [1]
                    )
                    for k in mine.tolist()
                ]
            for word in begin:
                states[word] += [p[word][:, 0] for p in parts]
        back = np.argsort(order, kind="stable")
        found = {word: np.concatenate(v)[back] for word, v in states.items()}
        own = {name: v[who] if len(v) > 1 else v for name, v in m.params.items()}
        t = times_at(steps, m.dt, m.t0) + u * m.dt
        return seen_at(look, found, own, t, len(r.events)), found

    return at


def seen_at(look: Any, states: Shown, params: Mapping[str, Any], t: Any, count: int) -> Any:
    """The functions at some states, each at its time: (functions, states)."""
    if isinstance(look, (LaneEngine, VmEngine)):
        all_: Any = look.start(states, params, len(t), 0.0, t)
        seen = look.synchronised(all_)
        return np.stack([seen[f"event {k}"] for k in range(count)])
    columns = []
    for j, time in enumerate(t.tolist()):
        own = {name: v[j : j + 1] if len(v) > 1 else v for name, v in params.items()}
        one = look.start({word: v[j : j + 1] for word, v in states.items()}, own, 1, 0.0, time)
        seen = look.synchronised(one)
        columns.append([seen[f"event {k}"][0] for k in range(count)])
    return np.array(columns).T


def programmed(r: Run, time: UOp, make: Any, events: Mapping[str, UOp]) -> Program | LazyProgram:
    """A program that looks into the steps of a run; made where its code is not there yet."""

    def now() -> Program:
        step = r.step() if r.step is not None else None
        assert isinstance(step, Step)
        made: Program = make(events, step, time)
        return made

    key = probe_key(r.program.key, r.system, events) if isinstance(r.program, LazyProgram) else None
    return now() if key is None else LazyProgram(digest(f"{key} {make.__name__}".encode()), now)
