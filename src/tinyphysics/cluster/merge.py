"""How do blocks of members become one run?  Side by side, in the order of the members, as if they had run together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tinyphysics.cluster.worker import Done, nothing
from tinyphysics.runtime.state.record import Carried, Record
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.storage.resume import joined as side_by_side
from tinyphysics.trajectory import Stop

# members of which nothing came back, why, and their states where the run began or went on from
Missing = Sequence[tuple[slice, Stop, Mapping[str, Any]]]


def merge(
    one: Run, record: Record, done: Sequence[Done], missing: Missing, names: Sequence[str] | None = None
) -> None:
    """All blocks into the record of a run; members of those that are missing have stopped at its beginning.

    Frames and observations are in a store already where the `names` of the latter are given.
    """
    record.last = max((d.record.last for d in done), default=record.schedule.first)
    steps = record.schedule.frames(record.last)[0]
    if names is None:
        frames(record, done, missing, len(steps))
        observations(record, done, missing)
    else:
        record.observed = {name: np.empty((0, one.given.members)) for name in names}
    finals(one, record, done, missing)
    record.stops[:] = sorted(stops_of(one, done, missing), key=lambda s: (s.step, s.member or 0))
    hashes(one, record, done, missing)
    for d in done:
        for name in ("measured", "substeps", "rejected", "met"):
            getattr(record, name).extend(getattr(d.record, name))
        record.found += [shifted(found, d.first) for found in d.record.found]
        record.alarms += d.record.alarms
    record.kept_nearest = bool(done) and all(d.record.kept_nearest for d in done)
    record.came_near = any(d.record.came_near for d in done)
    record.shape = next((d.record.shape for d in done), {})
    record.carried = carried(record, done) if not missing else None


def here(d: Done) -> slice:
    return slice(d.first, d.first + d.members)


def frames(record: Record, done: Sequence[Done], missing: Missing, count: int) -> None:
    """Frames after the end of a block, whose members have all stopped there, show no numbers."""
    s = record.schedule
    for name, v in record.frames.items():
        for gone, _, state in missing:
            v[0, gone] = state[name]
            v[1:count, gone] = nothing(v)
        for d in done:
            own, rows = (
                d.record.frames[name],
                s.complete(d.record.last) if d.record.last < record.last else count,
            )
            rows = min(rows, len(own), count)
            v[:rows, here(d)] = own[:rows]
            if rows < count:
                last = d.record.final[name]
                v[rows:count, here(d)] = nothing(v) if v.dtype.kind == "f" else last


def observations(record: Record, done: Sequence[Done], missing: Missing) -> None:
    if not done:
        return
    members = sum(d.members for d in done) + sum(gone.stop - gone.start for gone, *_ in missing)
    for name, like in done[0].record.observed.items():
        rows = len(record.observed_at)
        out = np.full((rows, members, *like.shape[2:]), np.nan, like.dtype)
        for d in done:
            own = d.record.observed[name][:rows]
            out[: len(own), here(d)] = own
        record.observed[name] = out


def finals(one: Run, record: Record, done: Sequence[Done], missing: Missing) -> None:
    """The last good state of every member; of those that never ran the one that they were given."""
    for name, first in one.given.states.items():
        out = np.array(first)
        for d in done:
            out[here(d)] = d.record.final[name]
        for gone, _, state in missing:
            out[gone] = state[name]
        record.final[name] = out


def stops_of(one: Run, done: Sequence[Done], missing: Missing) -> list[Stop]:
    out = [
        replace(stop, member=k if one.given.is_ensemble else None)
        for gone, stop, _ in missing
        for k in range(gone.start, gone.stop)
    ]
    for d in done:
        out += [s if s.member is None else replace(s, member=s.member + d.first) for s in d.record.stops]
    return out


def hashes(one: Run, record: Record, done: Sequence[Done], missing: Missing) -> None:
    """Of the states of all members at each step that is hashed; a run that lacks some has none."""
    if missing or not record.schedule.hash_every:
        return
    known = [dict(d.record.unhashed or ()) for d in done]
    for n in sorted(set().union(*known)):
        if n > record.last:
            break
        whole = []
        for k, (dtype, shape, _) in enumerate(next(parts[n] for parts in known if n in parts)):
            own = shape[1:] if one.given.is_ensemble else shape
            data = b"".join(
                parts[n][k][2] if n in parts else lost(d, dtype, own, k) for parts, d in zip(known, done)
            )
            array = np.frombuffer(data, dtype).reshape(-1, *own)
            array = array if one.given.is_ensemble else array[0]
            whole.append((dtype, array.shape, record.digest(array)))
        record.hash_parts(n, whole)


def lost(d: Done, dtype: Any, own: tuple[int, ...], k: int) -> bytes:
    """Members that have all stopped: no numbers, or the last that there were."""
    last = list(d.record.final.values())[k]
    gone = np.full((d.members, *own), np.nan, dtype) if dtype.kind == "f" else last
    return bytes(np.ascontiguousarray(gone).tobytes())


def shifted(found: Any, first: int) -> Any:
    """What a search found, by the numbers of all members."""
    return found.shifted(first)


def carried(record: Record, done: Sequence[Done]) -> Carried | None:
    """The loop states of all, to go on from; None where a block has none: a replay computes it."""
    goes = next((d.record.carried for d in done if d.record.carried is not None), None)
    kept = [d.record.carried if goes is None or d.record.carried else ended(d, goes) for d in done]
    if not kept or any(c is None or c.step != record.last or not c.registers for c in kept):
        return None
    registers = side_by_side([c.registers for c in kept if c is not None])
    frozen = {
        k + d.first: (stop if stop.member is None else replace(stop, member=stop.member + d.first), state)
        for d, c in zip(done, kept)
        if c is not None
        for k, (stop, state) in c.frozen.items()
    }
    return Carried(record.last, registers, frozen)


def ended(d: Done, like: Carried) -> Carried | None:
    """Of a block whose members have all stopped: no numbers in the loop, and their last good states."""
    stops = {s.member: s for s in d.record.stops}
    if not all(k in stops for k in range(d.members)):
        return None
    registers = {n: np.zeros((d.members, *v.shape[1:]), v.dtype) for n, v in like.registers.items()}
    frozen = {k: (stops[k], {n: v[k] for n, v in d.record.final.items()}) for k in range(d.members)}
    return Carried(like.step, registers, frozen)
