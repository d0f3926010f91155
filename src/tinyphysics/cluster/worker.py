"""What does a worker do?  It compiles the system of a parcel once, checks its program, and runs blocks of members.

What it computes depends on the members of a block alone, not on how many they are, nor on the worker.
"""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.cluster.parcel import Block, Parcel, Stretch, with_lines
from tinyphysics.errors import BackendError
from tinyphysics.ir import parse
from tinyphysics.runtime.api.simulation import Simulation
from tinyphysics.runtime.api.simulation_file import rebuilt
from tinyphysics.runtime.measure.diagnostics import DIAGNOSTICS
from tinyphysics.runtime.stages.acts import bind_acts
from tinyphysics.runtime.stages.bind import Bound
from tinyphysics.runtime.stages.description import system_of
from tinyphysics.runtime.stages.diagnose import with_watches
from tinyphysics.runtime.stages.execute import choose_engine, execute
from tinyphysics.runtime.stages.going_on import Catch
from tinyphysics.runtime.stages.place import place
from tinyphysics.runtime.stages.resolve import Request, Resolved
from tinyphysics.runtime.stages.schedule import Scheduled
from tinyphysics.runtime.state.acts import Act
from tinyphysics.runtime.state.digest import BITS
from tinyphysics.runtime.state.frames import wanted
from tinyphysics.runtime.state.record import Record, beginning
from tinyphysics.runtime.state.run import Run
from tinyphysics.version import __version__

MOST = 8  # systems that a worker keeps compiled
compiled: dict[tuple[str, int], Simulation] = {}  # by parcels and threads: a simulation is of one thread


@dataclass(frozen=True, eq=False)
class Done:
    """A block that has been run."""

    first: int
    record: Record
    gaps: tuple[Any, Any, Any] | None  # of the shadow energy, where it was watched
    seconds: float
    compiling: float
    launches: int
    code: str
    backend: str
    digest: str  # of all its numbers: two workers agree in it
    mark: str = ""  # under which its frames lie beside their place in a store
    stored: str = ""  # the digest of those

    @property
    def members(self) -> int:
        return int(next(iter(self.record.frames.values())).shape[1])


def run_block(parcel: Parcel, block: Block) -> Done:
    """Runs the members of a block."""
    began = time.perf_counter()
    sim = simulation(parcel)
    if block.stretch is not None:
        return stretched(sim, parcel, block, block.stretch)
    one, record = run_of(sim, parcel, block)
    values = {name: parse(text)[0] for name, text in parcel.values.items()}
    record.unhashed = []
    catch = Catch() if parcel.carries else None
    record, launches, compiling, code = execute(
        one, record, values, lambda n: None, keeper=catch, poles=one.poles
    )
    if catch is not None and catch.found is not None:
        record.carried = catch.found
    interrupted = next((s.error for s in record.stops if isinstance(s.error, KeyboardInterrupt)), None)
    if interrupted is not None:
        raise interrupted
    trim(record)
    gaps = next((w.gaps() for w in one.watches if w.gaps is not None), None)
    seconds = time.perf_counter() - began - compiling
    took = seconds, compiling, launches, code, one.target.backend
    done = Done(block.first, record, gaps, *took, digest_of(record))
    if parcel.rows is None or not parcel.rows.reachable:
        return done
    here, mark = slice(block.first, block.first + block.members), uuid.uuid4().hex
    stored = parcel.rows.write(all_rows(record, parcel.rows.taken), here, mark)
    return without_rows(replace(done, mark=mark, stored=stored))


def stretched(sim: Simulation, parcel: Parcel, block: Block, s: Stretch) -> Done:
    """Some steps of a loop: its registers after them are the `final` of what comes back, the looks its observations."""
    began = time.perf_counter()
    one, record = run_of(sim, parcel, block)
    values = {name: parse(text)[0] for name, text in parcel.values.items()}
    engine, _ = choose_engine(one, Record(record.schedule, {}), values)
    i = one.given
    m = engine.restored(s.registers, i.params, i.members, one.dt, one.t0, s.step)
    record.frames, record.observed = {"member": np.arange(i.members)[None]}, {}
    compiled_for, launches = engine.compiling, engine.launches
    if s.rows:
        record.observed = {name: np.asarray(v) for name, v in engine.watch(m, s.rows, s.stride).items()}
    else:
        engine.advance(m, s.stride)
    record.final = {name: np.asarray(v) for name, v in engine.registers(m).items()}
    record.last = s.step + max(s.rows, 1) * s.stride
    compiling = engine.compiling - compiled_for
    seconds = time.perf_counter() - began - compiling
    took = seconds, compiling, engine.launches - launches, "memory", one.target.backend
    return Done(block.first, record, None, *took, digest_of(record))


def all_rows(record: Record, taken: Mapping[str, Any]) -> dict[str, Any]:
    """The frames and observations of these numbers; after the end of a block there are no numbers."""
    s, out = record.schedule, {}
    for name, numbers in taken.items():
        v = record.frames[name] if name in record.frames else record.observed[name]
        count = len(v)
        if name in record.frames and record.last < s.steps:
            count = min(count, s.complete(record.last))
        rows = np.empty((len(numbers), *v.shape[1:]), v.dtype)
        inside = numbers < count
        rows[inside] = v[numbers[inside]]
        rows[~inside] = record.final[name] if name in record.final and v.dtype.kind != "f" else nothing(v)
        out[name] = rows
    return out


def nothing(v: Any) -> Any:
    """What is shown where there is nothing: no number, or where there is no such thing the number 0."""
    return np.nan if v.dtype.kind == "f" else 0


def without_rows(d: Done) -> Done:
    """A block whose rows are in a store; the last frame stays, which a run that ends early has beside them."""
    frames = {name: v[-1:].copy() for name, v in d.record.frames.items()}
    observed = {name: v[:0].copy() for name, v in d.record.observed.items()}
    return replace(d, record=replace(d.record, frames=frames, observed=observed))


def simulation(parcel: Parcel) -> Simulation:
    """The system of a parcel, compiled; an error if it is another program here."""
    key = parcel.key, threading.get_ident()
    if key in compiled:
        return compiled[key]
    if parcel.bits != BITS:
        raise BackendError(
            f"this worker has tinyphysics {__version__} with bits {BITS}, and the client {parcel.version} with {parcel.bits}",
            fix="Install one version on all machines.",
        )
    sim = rebuilt(dict(parcel.described))
    if sim.system.clock is None:  # of one with a time of its own the text is that of the energy before
        sim = replace(sim, source=with_lines(sim.system, parcel.lines), _compiled=None)
    sim.thresholds = dict(parcel.thresholds)
    if sim.compiled.known.program != parcel.described["program"]:
        raise BackendError(
            f"this worker compiles `{sim.system.name}` to the program {sim.compiled.known.program}, "
            f"and the client to {parcel.described['program']}",
            fix="Install one version of tinyphysics on all machines.",
        )
    while len(compiled) >= MOST:
        compiled.pop(next(iter(compiled)))
    compiled[key] = sim
    return sim


def run_of(sim: Simulation, parcel: Parcel, block: Block) -> tuple[Run, Record]:
    """The run of a block, with its watches and poles, and where it is recorded."""
    given = block.given
    acts = {name: Act(every, system_of(data), *since) for name, every, data, *since in parcel.acts}
    call = Request({}, seed=parcel.seed, speculate=parcel.speculate, acts=acts or None)
    r = Resolved(
        sim, call, {}, wanted(None, None, None), parcel.dt, parcel.t0, parcel.until, parcel.seed,
        parcel.schedule.hash_every, block.begun, gridless=parcel.gridless,
    )  # fmt: skip
    bound = tuple(
        replace(act, own=own)
        for act, own in zip(bind_acts(r, given) if acts else (), block.acts, strict=True)
    )
    record = beginning(given, parcel.schedule)
    if block.begun is None:
        for name, v in record.frames.items():
            v[0] = given.states[name]
    else:
        given = replace(given, states={name: v.copy() for name, v in given.states.items()})
    b = Bound(given, record, {}, bound)
    placed = place(r, Scheduled(parcel.schedule, {}, 1, None), b)
    events = {name: parse(text)[0] for name, text in parcel.events.items()}
    one = replace(placed.run, events=events, looks=parcel.looks, first_member=block.first)
    return with_watches(sim, replace(placed, run=one), DIAGNOSTICS).run, record


def trim(record: Record) -> None:
    """Without the memory of frames and observations that were not reached, and what only this process can read."""
    count = len(record.schedule.frames(record.last)[0])
    record.frames = {name: v[:count].copy() for name, v in record.frames.items()}
    record.observed = {name: record.series(name).copy() for name in record.observed}
    record.worker = None
    record.stops[:] = [replace(s, of=None) for s in record.stops]


def digest_of(record: Record) -> str:
    """Of what a block has computed: its frames, observations, hashes and stops."""
    h = hashlib.blake2b(digest_size=16)
    arrays: list[Mapping[str, Any]] = [record.frames, record.observed, record.final]
    for v in (v for part in arrays for v in part.values()):
        h.update(f"{v.dtype.str}{v.shape}".encode())
        h.update(v.tobytes())
    h.update(repr([(s.cause, s.step, s.t, s.member, s.where) for s in record.stops]).encode())
    for n, parts in record.unhashed or ():
        for dtype, shape, data in parts:
            h.update(f"{n} {np.dtype(dtype).str}{shape}".encode() + data)
    return h.hexdigest()
