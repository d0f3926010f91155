"""What is said about a run that is over?  Its trajectory, what it took, and what `Diagnostic`s found before and after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tinyphysics.runtime.engines.backend import named_processor, notes, running_on
from tinyphysics.runtime.engines.caller_arrays import return_arrays
from tinyphysics.runtime.stages.bind import Bound
from tinyphysics.runtime.stages.encode import Encoded
from tinyphysics.runtime.stages.origin import CompileRecord
from tinyphysics.runtime.stages.outcome import trajectory
from tinyphysics.runtime.stages.own_time import end_at
from tinyphysics.runtime.stages.place import Placed
from tinyphysics.runtime.stages.resolve import Resolved
from tinyphysics.runtime.stages.run import Ran
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.digest import BITS
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import NearPoles, Run, Watch
from tinyphysics.trajectory import Metrics, Trajectory
from tinyphysics.util import varied


@dataclass(frozen=True, eq=False)
class Finished:
    """A run that is over, and all that is known about it."""

    call: Resolved
    given: Mapping[str, Any]  # states and parameters, in the user's numbers
    run: Run
    ran: Ran
    out: Trajectory
    found: Mapping[str, Any] = field(default_factory=dict)  # by diagnostics before the run, by their names

    @property
    def setup(self) -> Setup:
        return self.call.setup

    @property
    def record(self) -> Record:
        return self.ran.record

    @property
    def failed(self) -> bool:
        """Did a member stop because its numbers are none any more?"""
        return any(s.cause == self.run.encoding.failure for s in self.record.stops)


class Repeated(NamedTuple):
    """A short run that was done like one before it (runtime/stages/short_runs.py)."""

    setup: Setup
    run: Run  # with nothing that looks at its poles
    out: Trajectory
    record: Callable[[], Record]
    poles: NearPoles | None  # what does

    @property
    def whole(self) -> Run:
        return varied(self.run, poles=self.poles)


@dataclass(frozen=True)
class Diagnostic:
    """Something that is measured about a run; the order of their table is that of the keys of out.metrics.

    `before` may refuse a run; `watch` looks inside it and may stop members, and changes no bit; `after` gives entries of
    out.metrics, and may warn or raise. `later` is for what takes as long as a run: it is measured when out.metrics[name] is
    first read, or at once where that is cheap (`now`).
    """

    name: str
    before: Callable[[Setup, Run], Mapping[str, Any]] | None = None
    applies: Callable[[Finished], Any] = lambda f: True
    after: Callable[[Finished], Mapping[str, Any]] | None = None
    later: Callable[[Finished], Callable[[], Any]] | None = None
    now: Callable[[Finished], bool] = lambda f: False
    watch: Callable[[Setup, Run], Sequence[Watch]] | None = None
    poles: Callable[[Setup, Run], NearPoles | None] | None = (
        None  # beside which the loop keeps how near it comes
    )
    # the same of short runs; without it they go the long way, and where it says True
    again: Callable[[Repeated], bool | None] | None = None


def with_watches(setup: Setup, p: Placed, diagnostics: Sequence[Diagnostic]) -> Placed:
    """With all that looks inside the run; how near it comes to poles is known before the watches are chosen.

    Members that change together cannot be replayed alone, and their energies move on purpose.
    """
    if p.run.across is not None:
        return p
    poles = [x for d in diagnostics if d.poles is not None for x in [d.poles(setup, p.run)] if x is not None]
    p = replace(p, run=replace(p.run, poles=poles[0])) if poles else p
    found = tuple(w for d in diagnostics if d.watch is not None for w in d.watch(setup, p.run))
    return replace(p, run=replace(p.run, watches=found)) if found else p


def examine(setup: Setup, one: Run, diagnostics: Sequence[Diagnostic]) -> dict[str, Any]:
    """What is known before a run, by the names of the diagnostics."""
    return {d.name: d.before(setup, one) for d in diagnostics if d.before is not None}


def diagnose(
    r: Resolved,
    e: Encoded,
    b: Bound,
    p: Placed,
    ran: Ran,
    found: Mapping[str, Any],
    diagnostics: Sequence[Diagnostic],
) -> Trajectory:
    setup, one, record = r.setup, p.run, ran.record
    asked = CompileRecord(setup.goal, setup.requested, setup.checks, setup.compiled.known.program, r.seed)
    out = trajectory(one, record, ran.windows, b.values, asked)
    if setup.system.clock is not None and r.until is not None and not out.stops:
        end_at(one, record, out, float(r.until))
    if (arrays := r.arrays or r.lent) is not None:
        return_arrays(out, arrays, here=r.lent is not None)
    if kept := setup.decisions(one.dt):
        out.final = replace(out.final, decided=kept)
    out.metrics.update(costs(r, p, ran))
    finished = Finished(r, e.given, one, ran, out, found)
    for d in diagnostics:
        if not d.applies(finished):
            continue
        if d.after is not None:
            out.metrics |= d.after(finished)
        if d.later is not None and d.now(finished):
            out.metrics[d.name] = d.later(finished)()
        elif d.later is not None and isinstance(out.metrics, Metrics):
            out.metrics.later[d.name] = d.later(finished)
    return out


def costs(r: Resolved, p: Placed, ran: Ran) -> dict[str, Any]:
    """Where a run was done, and what it took."""
    setup, compiled, i, record = r.setup, r.setup.compiled, p.run.given, ran.record
    steps, target = record.last - r.first, p.run.target
    work = steps * max(i.members, 1)
    return {
        "backend": {
            "requested": setup.requested,
            "used": target.backend,
            **({"why": p.why} if p.why else {}),
        },
        "device": running_on(target),
        **({"processor": name} if (name := named_processor(target)) else {}),
        "precision": setup.goal.precision,
        "program": compiled.known.program,
        "bits": BITS,
        "seconds": {
            "plan": compiled.seconds,
            "prepare": ran.prepared,
            "compile": ran.took.compiling,
            "run": ran.running,
        },
        "cache": {
            "plan": compiled.found,
            "code": ran.took.code,
        },  # "made" now, or from the "disk" or "memory"
        "steps": steps,
        "members": i.members,
        "seed": int(r.seed),
        "ns_per_step": 1e9 * ran.running / work if work else 0.0,
        "steps_per_s": work / ran.running if work else 0.0,
        "launches": ran.took.launches,
        **({"cluster": dict(ran.took.told)} if ran.took.told else {}),
        "not_finite": sum(s.cause == compiled.encoding.failure for s in record.stops),
        "notes": (*notes(target), *([compiled.slow] if compiled.slow else [])),
    }
