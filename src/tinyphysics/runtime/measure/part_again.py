"""How is a part of a run done again, bit for bit?  Some members, from the loop state at a step, with values at every step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import here
from tinyphysics.ir import UOp
from tinyphysics.runtime.stages.execute import execute
from tinyphysics.runtime.stages.going_on import Catch
from tinyphysics.runtime.state.record import Record, beginning
from tinyphysics.runtime.state.run import Checkpoint, Identity, Run, made
from tinyphysics.runtime.state.schedule import Schedule
from tinyphysics.target import INTERPRETED, TARGETS
from tinyphysics.version import __version__

LONG = 10_000  # instructions of a step that take seconds to compile


def nothing(n: int) -> None:
    """No bar."""


def part_of(r: Run, members: Sequence[int]) -> Run:
    """The run of some of its members, unwatched and without events."""
    i, c, some = r.given, r.begun, list(members)

    def own(rows: Mapping[str, Any]) -> dict[str, Any]:
        return {name: np.asarray(here(v))[some] for name, v in rows.items()}

    def shared(rows: Mapping[str, Any]) -> dict[str, Any]:
        return {name: v[some] if len(v) > 1 else v for name, v in rows.items()}

    given = replace(i, states=own(i.states), params=shared(i.params), members=len(some))
    acts = tuple(replace(a, own=shared(a.own)) for a in r.acts)
    if c is not None:
        number = {k: at for at, k in enumerate(some)}
        stopped = {number[k]: stop for k, stop in c.stopped.items() if k in number}
        rows = [at for at, k in enumerate(c.stopped) if k in number]
        last = {name: v[rows] for name, v in c.last.items()}
        c = replace(
            c,
            members=len(some),
            params=shared(c.params),
            start=own(c.start),
            registers=own(c.registers),
            stopped=stopped,
            last=last,
        )
    return replace(r, given=given, acts=acts, begun=c, watches=(), events={})


def compiled(r: Run) -> Run:
    """A run that is interpreted, to be done again by compiled code: it has the same bits. Very long steps take longer so."""
    slow = r.target.backend in INTERPRETED and r.target.bit_exact
    if not slow or not r.loops and len(made(r.program).step) > LONG:
        return r
    return replace(r, target=TARGETS["llvm"])


def fresh(r: Run) -> Run:
    """With first states of its own: a run that goes on writes into them."""
    states = {name: np.array(v) for name, v in r.given.states.items()}
    return replace(r, given=replace(r.given, states=states))


def started(r: Run) -> Run:
    """The run from its very beginning, without acts."""
    c = r.begun
    states = r.given.states if c is None else dict(c.start)
    return replace(r, begun=None, acts=(), given=replace(r.given, states=states))


def begun_at(r: Run, n: int) -> Run:
    """The run as it goes on from step n, to be done again from there."""
    c, first = r.begun, 0 if r.begun is None else r.begun.step
    if n <= first:
        return r
    one, catch = fresh(r), Catch()
    record = Record(Schedule(n, None, None, None, first), {})
    execute(one, record, {}, nothing, keeper=catch)[0].raise_error()
    assert catch.found is not None
    start = dict(r.given.states if c is None else c.start)
    own = Identity(r.system.name, "", 0, r.dt, r.t0, 0, {}, "")
    i = r.given
    return replace(
        r,
        begun=Checkpoint(
            own, __version__, n, None, None, i.members, i.is_ensemble, i.own, start, catch.found.registers
        ),
    )


def every_step(r: Run, last: int, values: Mapping[str, UOp]) -> dict[str, Any]:
    """(steps, members, ...) of values, from the step that a run begins with to the last one."""
    first = 0 if r.begun is None else r.begun.step
    parts: dict[str, list[Any]] = {name: [] for name in values}

    def keep(seen: Mapping[str, Any], part: slice) -> None:
        for name, v in seen.items():
            parts[name].append((part, np.array(v)))

    record = Record(Schedule(last, None, 1, None, first), {})
    execute(fresh(r), record, values, nothing, keep)[0].raise_error()
    out = {}
    for name, u in values.items():
        whole = np.full((last - first + 1, r.given.members, *u.shape), np.nan)
        at = np.zeros(r.given.members, int)
        for part, v in parts[name]:
            row = int(at[part][0]) if at[part].size else 0
            whole[row : row + len(v), part] = v
            at[part] += len(v)
        out[name] = whole
    return out


def state_at(r: Run, n: int) -> dict[str, Any]:
    """(members, ...) of the states at step n, after its acts; as they are kept."""
    first = 0 if r.begun is None else r.begun.step
    if n == first and r.begun is None:
        return dict(r.given.states)
    one = fresh(r)
    schedule = Schedule(n, None, None, None, first)
    record = beginning(one.given, schedule)
    execute(one, record, {}, nothing)[0].raise_error()
    return {name: np.array(here(v)) for name, v in record.final.items()}
