"""Is a step too long for the curvature that a run met?  Its shadow energy beside H, at frames and at the looks of watches.

Of leapfrog the distance is dt**2 |H2|, a function of Python for small systems; of other splittings the energy says whether a
closer look is worth it. Where one of these passes the threshold, the member is done again from its beginning, bit for bit,
until the first step that does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from tinyphysics.ir import UOp, elements, substitute, toposort
from tinyphysics.planner.methods.catalog import method_of
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.unroll import stays_whole, unroll
from tinyphysics.runtime.measure.alarms import at_rest
from tinyphysics.runtime.measure.part_again import begun_at, compiled, every_step, part_of
from tinyphysics.runtime.measure.shadow import FIRST_TERM, ORDER, first_change, refusal, sequence_of
from tinyphysics.runtime.measure.shadow_alarm import Gap, bends, gap_of, tell
from tinyphysics.runtime.stages.energies import SHORT, SMALL, WRITTEN, Function, written
from tinyphysics.runtime.stages.glance import drift_over_frames
from tinyphysics.runtime.stages.origin import Origin
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.stages.terms import addends
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import Run
from tinyphysics.system import System
from tinyphysics.trajectory import Trajectory

THRESHOLD = 1e-3  # of the largest sum of |terms of H| so far
STATES = 4096  # frames and members that are looked at
MEMBERS = 64  # of an ensemble
AGAIN = 4  # members that are done again, those that looked worst
PIECE = 1024  # steps that are done again together at first, then twice as many
FURTHEST = 1 << 20  # steps that are done again at all
MEASURED = 20_000  # steps over which the step that is proposed is measured
PART = 0.25  # of the largest scale of the run, which no step has less than: the terms of H may all be zero at the first state
CURVED = 0.25  # of the threshold: below it, a constant force makes the gap, which is then a constant
SMOOTH = 4  # times the operations of an energy, which its second derivatives may have


@dataclass(frozen=True)
class Glance:
    """Members that passed the threshold: their largest gaps, a step at which one was seen, and their largest scales."""

    largest: Mapping[int, float]
    steps: Mapping[int, int]
    scales: Mapping[int, float]


@lru_cache(maxsize=64)
def gap_function(system: System, parts: tuple[str, ...]) -> Function | None:
    """(H2, sum of |terms of H|, sum of |v V'' v|) of the numbers of states and parameters; None of a large system."""
    if sum(s.var.size for s in system.states) > SMALL or parts not in FIRST_TERM:
        return None
    H = system.energy
    assert H is not None
    nodes = toposort([H])
    if len(nodes) > SHORT or sum(u.size for u in nodes) > WRITTEN or stays_whole(nodes):
        return None
    change = first_change(system, parts)
    assert change is not None
    roots = inline([change, UOp.sum_of(abs(x) for x in addends(H)), UOp.sum_of(bends(system))])
    nodes = toposort(roots)
    if len(nodes) > SMOOTH * SHORT or sum(u.size for u in nodes) > SMOOTH * WRITTEN:
        return None
    given = *(s.var for s in system.states), *(x.var for x in system.parameters)
    variables = [e for x in given for e in elements(x)]
    single = [UOp.var(f"x{k}") for k in range(len(variables))]
    both = written(
        substitute([u for group in unroll(roots) for u in group], dict(zip(variables, single))), single
    )
    return None if both is None else both[1]


def evenly(n: int, most: int) -> Any:
    """Some of n indices, the first and the last among them; all, if they are no more."""
    return np.arange(n) if n <= most else np.unique(np.linspace(0, n - 1, most).astype(int))


def at_frames(r: Run, record: Record, parts: tuple[str, ...]) -> Glance | None:
    """By the frames that a run has in memory; None where nothing is known of them."""
    count = record.schedule.complete(record.last)
    if not record.frames or count < 2:
        return None
    look = gap_function(r.system, parts)
    if look is None:
        return None
    some = min(r.given.members, MEMBERS)
    members, rows = evenly(r.given.members, some), evenly(count, max(2, STATES // some))
    shape: tuple[int, ...] = len(rows), len(members)
    # of few members, no copy of all
    kept = {n: v if v.shape[:2] == shape else v[np.ix_(rows, members)] for n, v in record.frames.items()}
    flat = {n: np.asarray(v, float).reshape(*shape, -1) for n, v in r.encoding.values(kept).items()}
    own = {n: v[members] if len(v) > 1 else v for n, v in r.given.own.items()}
    flat |= {n: v.reshape(1, len(v), -1) for n, v in own.items()}
    names = [*(s.name for s in r.system.states), *(x.name for x in r.system.parameters)]
    with np.errstate(all="ignore"):
        change, scale, bend = (
            x if np.shape(x) == shape else np.broadcast_to(x, shape)
            for x in look(*(flat[n][..., k] for n in names for k in range(flat[n].shape[-1])))
        )
        most = np.fmax.reduce(scale, axis=0)
        gap = r.dt**2 * np.abs(change) / np.maximum.accumulate(np.fmax(scale, PART * most), axis=0)
        curved = np.fmax.reduce(r.dt**2 * bend / 12, axis=0) > CURVED * THRESHOLD * most
    far = (gap > THRESHOLD) & np.isfinite(gap)
    if not (far & curved).any():
        return Glance({}, {}, {})
    gap, steps = np.where(np.isfinite(gap), gap, 0.0), np.asarray(record.steps)[rows]
    found = np.flatnonzero(far.any(axis=0) & curved).tolist()
    return Glance(
        {int(members[j]): float(gap[:, j].max()) for j in found},
        {int(members[j]): int(steps[int(np.argmax(gap[:, j] > THRESHOLD))]) for j in found},
        {int(members[j]): float(most[j]) for j in found},
    )


def at_looks(r: Run) -> Glance | None:
    """By what the watch of the energy saw on its stride."""
    for w in r.watches:
        if w.gaps is not None:
            largest, steps, scales = w.gaps()
            found = np.flatnonzero(largest > THRESHOLD).tolist()
            return Glance(*({k: v[k] for k in found} for v in (largest, steps, scales)))
    return None


def glance(setup: Setup, r: Run, record: Record, out: Trajectory, in_memory: bool) -> None:
    """A warning about a run whose shadow energy went further from H than the threshold."""
    method, origin = setup.compiled.known.method, out.origin
    if r.jump is not None or not isinstance(origin, Origin) or refusal(r.system, setup.goal, method):
        return
    parts = tuple(part for part, _ in sequence_of(method))
    if parts not in FIRST_TERM:
        return other_splitting(setup, r, record, out, origin, in_memory)
    both = at_looks(r), at_frames(r, record, parts) if in_memory else None
    seen = [g for g in both if g is not None and g.largest]
    if not seen or not setup.compiled.warned_of_shadow():
        return
    largest = {k: max(g.largest.get(k, 0.0) for g in seen) for g in seen for k in g.largest}
    steps = {k: min(g.steps[k] for g in seen if k in g.steps) for k in largest}
    some = sorted(largest, key=lambda k: (steps[k], -largest[k]))[:AGAIN]
    scales = [max(g.scales.get(k, 0.0) for g in seen) for k in some]
    found = first_beyond(origin, method, some, max(steps[k] for k in some), PART * np.array(scales))
    worst = max(largest.values())
    if found is None and max(steps[k] for k in some) <= FURTHEST:
        return  # a constant force, and no curvature
    if found is None:
        found = Gap(worst, steps[some[0]], some[0], largest[some[0]])
    if at_rest(r, record, found.member or 0, in_memory):
        return
    found = replace(found, largest=max(worst, found.largest))
    span = min(origin.last, max(4 * (found.step or 0), MEASURED))
    out.metrics |= tell(setup, out, origin, found, THRESHOLD, span)


def other_splitting(
    setup: Setup, r: Run, record: Record, out: Trajectory, origin: Origin, in_memory: bool
) -> None:
    """The same of splittings whose shadow energy needs consecutive steps: where the energy of one system has moved so far."""
    one = r.given.members == 1 and ORDER < record.last <= MEASURED
    if (
        setup.compiled.look is None
        or not in_memory
        or not one
        or method_of(setup.compiled.known.method).order < 2
    ):
        return
    off = drift_over_frames(
        r, {n: v[: record.schedule.complete(record.last)] for n, v in record.frames.items()}
    )
    if off is None or not THRESHOLD < off or not setup.compiled.warned_of_shadow():
        return
    found = gap_of(origin, setup.goal, setup.compiled.known.method, THRESHOLD)
    if found.step is not None and not at_rest(r, record, 0, in_memory):
        out.metrics |= tell(setup, out, origin, found, THRESHOLD)


def first_beyond(origin: Origin, method: str, members: Sequence[int], last: int, scale: Any) -> Gap | None:
    """The first step of some members at which the threshold is passed, by doing them again from the beginning."""
    run, system = origin.run, origin.run.system
    change = first_change(system, tuple(part for part, _ in sequence_of(method)))
    assert change is not None
    H = origin.energy()
    values = {"gap": UOp.const(run.dt**2) * change, "scale": UOp.sum_of(abs(x) for x in addends(H))}
    values |= {f"bend{k}": u for k, u in enumerate(bends(system))}
    part, first, size = compiled(part_of(run, members)), 0, PIECE
    while first < min(last, FURTHEST):
        end = min(first + size, last)
        seen = every_step(part, end, values)
        with np.errstate(all="ignore"):
            sizes = np.fmax.accumulate(np.vstack([scale, seen["scale"]]), axis=0)[1:]
            gap = np.abs(seen["gap"]) / sizes
            bent = run.dt**2 / 12 * sum(seen[name] for name in values if name.startswith("bend"))
            bad = (gap > THRESHOLD) & (bent.max(axis=0) > CURVED * THRESHOLD * sizes[-1])
        if bad.any():
            row = int(np.argmax(bad.any(axis=1)))
            k = int(np.argmax(bad[row]))
            curved = [float(seen[name][row, k]) for name in values if name.startswith("bend")]
            term = int(np.argmax(curved)) if curved else 0
            worst = float(np.max(gap[np.isfinite(gap)]))
            return Gap(worst, first + row, members[k], float(gap[row, k]), term)
        part, first, size, scale = begun_at(part, end), end, 2 * size, sizes[-1]
    return None
