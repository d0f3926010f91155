"""How is a short run done like one before it?  By its pattern: states and parameters are put in, and the kernel is called.

Whatever is not as usual goes the ordinary way, from the beginning: a wrong argument, a guard that fires, a number that is not
finite. `again` then returns None, and nothing has happened.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tinyphysics.device.engines.engine import pointer
from tinyphysics.device.engines.lane_call import Traveller
from tinyphysics.errors import InputError
from tinyphysics.runtime.stages.diagnose import Repeated
from tinyphysics.runtime.stages.forms import MOST, Pattern
from tinyphysics.runtime.stages.origin import Origin
from tinyphysics.runtime.stages.outcome import sealed
from tinyphysics.runtime.stages.resolve import Request
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.digest import state_hash
from tinyphysics.runtime.state.ensemble import Inputs, check_sign, number_array, off_length
from tinyphysics.runtime.state.record import Record
from tinyphysics.trajectory import Frame, Metrics, Trajectory
from tinyphysics.util import record_of, varied

F64 = np.dtype(np.float64)
NOTHING = Trajectory(None, None, {}, Frame({}, 0, 0.0), str)  # what is not said about a run


class Took(NamedTuple):
    """Seconds of a run by stage, and where its code is from."""

    prepare: float
    compile: float
    run: float
    code: str


def again(p: Pattern, setup: Setup, request: Request, began: float) -> Trajectory | None:
    """The run of a call that has the form of the pattern."""
    given, call = request.given, p.call
    for name, role in p.lengths:
        if off_length(role, given[name]) is not None:
            return None
    try:
        states = [numbers(x.name, given[x.name]) for x in p.states]
        params = [numbers(x.name, given[x.name]) for x in p.params]
    except InputError:
        return None
    for x, a in zip(p.states, states):
        if a.shape != x.shape:
            return None
    journey = p.journey
    if journey is None:
        traveller, (block, at) = None, call.block()
    else:
        traveller = journey.traveller()
        block, at = traveller.block, traveller.at
    call.put(block, states)
    own = p.run.given.params
    if params:
        own = dict(own)
        for y, a in zip(p.params, params):
            if a.shape != y.parameter.var.shape or y.parameter.sign and not right_sign(y.parameter, a):
                return None
            own[y.name] = a[None].copy()
            block[y.slots] = a.ravel()
    engine = call.engine
    compiling, made, found = engine.compiling, engine.made, engine.found
    ready = time.perf_counter()
    if traveller is None:
        frames = computed(p, block, at, states)
    else:
        frames = (
            travelled(p, traveller, states)
            if not params or all_finite(block[call.places["uniform"]])
            else None
        )
    if frames is None or p.run.poles is not None and came_near(p, block, frames, own, params):
        return None
    compiling = engine.compiling - compiling
    running = max(time.perf_counter() - ready - compiling, 1e-9)
    code = "made" if engine.made > made else "disk" if engine.found > found else "memory"
    if traveller is not None and journey is not None:
        journey.free.append(traveller)
    first = {name: v[0] for name, v in frames.items()}
    i = record_of(
        Inputs,
        {"states": first, "params": own, "members": call.members, "is_ensemble": p.run.given.is_ensemble},
    )
    return trajectory(p, setup, i, frames, Took(ready - began, compiling, running, code))


def came_near(
    p: Pattern, block: Any, frames: Mapping[str, Any], own: Mapping[str, Any], params: list[Any]
) -> bool:
    """May a step have passed a pole?  Then it is found out the ordinary way."""
    call, key = p.call, tuple([a.tobytes() for a in params]) if params else ()
    if call.lanes == 1 and (known := p.far.get(key)) is not None:
        here, signs = p.near
        values = block[here].tolist()
        if all([s * v >= far for s, v, far in zip(signs, values, known[:, 0].tolist())]):
            return False
    near = call.engine.signed(call.rows(block, "carried")[call.engine.beside, : call.members])
    far = p.far.get(key)
    if far is not None and (near >= far).all():
        return False
    assert p.run.poles is not None
    first = {name: v[0] for name, v in frames.items()}
    poles, wide = p.run.poles, p.run.poles.wider(near)
    if not poles.suspects(first, own, wide).any():
        near = wide
    elif poles.suspects(first, own, near).any():
        return True
    if len(p.far) >= MOST:
        p.far.clear()
    if poles.by_distance:
        both = near if far is None else np.fmin(near, far)
        alone = far is None or not poles.by_length or not poles.suspects(first, own, both).any()
        p.far[key] = both if alone else near
    return False


def numbers(name: str, value: Any) -> Any:
    """As an array of float64; most are one, or a list of floats."""
    kind = type(value)
    if kind is np.ndarray and value.dtype is F64:
        return value
    plain = kind is float or kind is list and set(map(type, value)) == {float}
    return np.asarray(value) if plain else number_array(name, value)


def right_sign(p: Any, a: Any) -> bool:
    try:
        check_sign(p, a[None], False)
    except InputError:
        return False
    return True


def computed(p: Pattern, block: Any, at: int, states: list[Any]) -> dict[str, Any] | None:
    """The frames of all states, (frames, members, shape...); None if something is not as usual."""
    call, count, members = p.call, len(p.steps), p.call.members
    call.call("init", at, "source", "carried")
    frames = {x.name: np.empty((count, members, *x.own)) for x in p.states}
    for v, a in zip(frames.values(), states):
        v[0] = a
    if p.fused:
        series = np.empty((count - 1, len(call.engine.kernel.watched), call.lanes))
        call.call("watch", at, "carried", "carried", 0, count - 1, p.every, pointer(series))
        if not all_finite(series):
            return None
        for x, v in zip(p.states, frames.values()):
            if members == 1:
                v.reshape(count, x.size)[1:] = series[:, x.rows, 0]
            else:
                v.reshape(count, members, x.size)[1:] = series[:, x.rows, :members].transpose(0, 2, 1)
    for k in range(0 if p.fused else count - 1):
        call.call("step", at, "carried", "carried", k * p.every, p.every)
        if k < count - 2 and not (call.went_well(block) and all_finite(block[call.moved])):
            return None  # the last is looked at below
        call.call("final", at, "carried", "shown", (k + 1) * p.every)
        shown = call.rows(block, "shown")
        for x, v in zip(p.states, frames.values()):
            v[k + 1].reshape(members, x.size)[...] = shown[x.rows, :members].T
    # parameters, the first state and that of the loop
    if not call.went_well(block) or not all_finite(block[: call.moved.stop]):
        return None
    for v in frames.values():
        v.flags.writeable = False
    return frames


def travelled(p: Pattern, traveller: Traveller, states: list[Any]) -> dict[str, Any] | None:
    """The same of a run with two frames, in one call."""
    if not traveller.go():
        return None
    call, block, members, frames = p.call, traveller.block, p.call.members, {}
    if call.lanes == 1:
        for x, began, ended in p.in_block:
            frames[x.name] = v = np.empty((2, 1, *x.own))
            first, last = block[began], block[ended]
            v[0], v[1] = (first, last) if len(x.own) < 2 else (first.reshape(x.own), last.reshape(x.own))
            v.flags.writeable = False
        return frames
    shown = call.rows(block, "shown")
    for x, a in zip(p.states, states):
        frames[x.name] = v = np.empty((2, members, *x.own))
        v[0] = a
        v[1].reshape(members, x.size)[...] = shown[x.rows, :members].T
        v.flags.writeable = False
    return frames


def all_finite(a: Any) -> bool:
    return bool(np.count_nonzero(np.isfinite(a)) == a.size)  # sooner than .all(), of few


def trajectory(p: Pattern, setup: Setup, i: Inputs, frames: dict[str, Any], took: Took) -> Trajectory | None:
    one, last, ensemble = varied(p.plain, given=i), p.last, i.is_ensemble
    final: Mapping[str, Any] = {name: v[-1] if ensemble else v[-1, 0] for name, v in frames.items()}
    kept = frames if ensemble else {name: v[:, 0] for name, v in frames.items()}
    ends = {n: v if isinstance(v, np.ndarray) else sealed(np.asarray(v)) for n, v in final.items()}
    steps = p.steps.copy()
    out = varied(
        NOTHING,
        t=p.t.copy(),
        steps=steps,
        frames=dict(kept),
        kept=kept,
        final=Frame(ends, last, p.end, final, not_the_default(p, i)),
        hash_of=partial(state_hash, final, p.threads),
        hashes=[],
        metrics=measured(p, took),
        origin=Origin(one, frames, steps, last, {}, p.asked),
        observed={},
        found={},
        _cache={},
        _acts={},
    )
    repeated = Repeated(setup, one, out, partial(recorded, p, frames), p.run.poles)
    for look in p.diagnostics:
        if look(repeated):
            return None
    return out


def recorded(p: Pattern, frames: dict[str, Any]) -> Record:
    return Record(p.run.schedule, frames, last=p.last, final={name: v[-1] for name, v in frames.items()})


def not_the_default(p: Pattern, i: Inputs) -> dict[str, Any]:
    own = {x.name: (i.params[x.name][0], x.parameter.default) for x in p.params}
    return {name: a for name, (a, usual) in own.items() if usual is None or not same(a, usual)}


def same(a: Any, b: Any) -> bool:
    """Are the numbers of an array those of a default?"""
    return bool(a == b) if type(b) is float and a.ndim == 0 else np.array_equal(a, b)


def measured(p: Pattern, took: Took) -> Metrics:
    """As costs() of diagnose has it."""
    out = Metrics(p.metrics)
    work = out["steps"] * p.call.members
    out["seconds"] = {
        "plan": p.compiled.seconds,
        "prepare": took.prepare,
        "compile": took.compile,
        "run": took.run,
    }
    out["cache"] = {"plan": p.compiled.found, "code": took.code}
    out["ns_per_step"], out["steps_per_s"] = 1e9 * took.run / work, work / took.run
    out["launches"] = 2 if p.fused else 1 + 2 * (len(p.steps) - 1)
    return out
