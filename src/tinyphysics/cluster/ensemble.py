"""How does an ensemble run on many machines?  Block by block: submitted, gathered, done again where a worker died or lied.

The result has the bits of one machine, whatever the workers are, however many, and in whatever order they end.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tinyphysics.cluster.blocks import cut, equal, first_size, sizes
from tinyphysics.cluster.journal import Journal
from tinyphysics.cluster.merge import merge
from tinyphysics.cluster.one_store import OneStore
from tinyphysics.cluster.parcel import Block, Parcel, block, parcel
from tinyphysics.cluster.worker import Done, run_block
from tinyphysics.errors import BackendError, InputError, StoreError, TinyPhysicsError
from tinyphysics.runtime.stages.bind import Bound
from tinyphysics.runtime.stages.elsewhere import Left
from tinyphysics.runtime.stages.resolve import Resolved
from tinyphysics.runtime.state.record import Carried, Record
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.schedule import Schedule
from tinyphysics.runtime.storage.checkpoint import write
from tinyphysics.runtime.storage.resume import Keeper
from tinyphysics.trajectory import Stop

AT_HAND = 2  # blocks of each slot of a worker: the one that runs, and the next


@dataclass(frozen=True, eq=False)
class Answer:
    """What became of a block."""

    number: int
    worker: str
    done: Done | None
    died: str = ""  # why there is no answer: the workers that had it died
    refused: str = ""  # why this worker cannot do it: it has no such backend, or another program


class Pool(Protocol):
    """Machines that run blocks; cluster/dask_pool.py has those of Dask."""

    name: str

    def workers(self) -> Sequence[str]: ...
    def slots(self) -> int: ...  # blocks at a time
    def busy(self) -> float: ...  # processor seconds of what hands them out, since it began
    def send(self, parcel: Parcel) -> None: ...
    def submit(self, number: int, block: Block, only: Sequence[str] = ()) -> None: ...
    def answers(self) -> Iterator[Answer]: ...  # of all that were submitted, also while it is iterated
    def retire(self, worker: str) -> None: ...
    def stop(self) -> None: ...


@dataclass
class Told:
    """What is said of a run on many machines, in out.metrics["cluster"]."""

    workers: list[str] = field(default_factory=list)
    blocks: int = 0
    computed: int = 0  # blocks, those that were computed again among them
    verified: int = 0
    liars: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # workers that cannot do it, and why
    kept: int = 0  # blocks that were there from an earlier run
    seconds: float = 0.0  # of all workers together
    backends: list[str] = field(default_factory=list)
    scheduler: float | None = None  # share of the run in which it was busy
    note: str = ""


@dataclass
class Job:
    """A run that is spread over machines.

    A worker has a block, and the next one at hand. The others wait here: what a worker holds counts as there when it dies.
    """

    pool: Pool
    one: Run
    share: float  # of the blocks, that a second worker computes too
    waiting: deque[int] = field(default_factory=deque)  # blocks, by number
    out: int = 0  # blocks that are with workers
    slots: int = 1
    answers: int = 0  # since the slots were counted
    where: list[slice] = field(default_factory=list)  # by the number of a block: its members
    found: dict[int, Answer] = field(default_factory=dict)
    asked: dict[int, list[Answer]] = field(default_factory=dict)  # blocks that others compute too
    told: Told = field(default_factory=Told)
    key: str = ""
    parcel: Any = None
    journal: Journal | None = None
    store: OneStore | None = None
    make: Callable[[Run, slice], Block] = block  # some members, as a worker gets them

    def remember(self, done: Done) -> None:
        """A block that is there from before."""
        self.found[len(self.where)] = Answer(len(self.where), "", done)
        self.where.append(slice(done.first, done.first + done.members))
        self.told.kept += 1

    @property
    def grain(self) -> int:
        """Blocks end at multiples of so many members."""
        return 1 if self.store is None else max(1, self.store.rows.grain)

    def accept(self, a: Answer) -> None:
        if self.store is not None and a.done is not None:
            a = replace(a, done=self.store.put(a.done))
        self.found[a.number] = a
        if self.journal is not None and a.done is not None:
            self.journal.keep(a.done)

    def reject(self, a: Answer) -> None:
        if self.store is not None and a.done is not None:
            self.store.drop(a.done)

    def free(self) -> list[tuple[int, int]]:
        """Members that no block has, from and to."""
        there = np.zeros(self.one.given.members, bool)
        for part in self.where:
            there[part] = True
        edges = np.flatnonzero(np.diff(np.concatenate([[1], there.astype(int), [1]])))
        return list(zip(edges[::2].tolist(), edges[1::2].tolist()))

    def add(self, parts: Sequence[slice]) -> list[slice]:
        """These blocks are to be done; nothing is left of them."""
        for part in parts:
            self.waiting.append(len(self.where))
            self.where.append(part)
        self.hand_out()
        return []

    def hand_out(self) -> None:
        """As many blocks as the workers can have."""
        while self.waiting and self.out < AT_HAND * self.slots:
            self.submit(self.waiting.popleft(), self.others() if self.told.refused else ())

    def submit(self, number: int, only: Sequence[str]) -> None:
        self.out += 1
        self.pool.submit(number, self.make(self.one, self.where[number]), only)

    # --- answers --------------------------------------------------------------------------------------
    def take(self, a: Answer) -> None:
        """A block came back, and the next ones go out."""
        self.out, self.answers = self.out - 1, self.answers + 1
        if self.answers >= self.slots:
            self.slots, self.answers = max(1, self.pool.slots()), 0  # workers come and go
        self.judge(a)
        self.hand_out()

    def judge(self, a: Answer) -> None:
        """It counts, or another worker is asked too."""
        if a.refused:
            self.refuse(a)
            return
        self.told.computed += 1
        if a.done is not None:
            self.told.seconds += a.done.seconds
        if a.worker in self.told.liars:
            self.reject(a)
            self.again(a.number)
        elif a.number in self.asked:
            self.compare(a)
        elif a.done is not None and self.is_verified(a.number):
            self.asked[a.number] = [a]
            self.again(a.number, but=a.worker)
        else:
            self.accept(a)

    def others(self, but: str = "") -> list[str]:
        """The workers that may be asked."""
        told = self.told
        return [w for w in self.pool.workers() if w != but and w not in told.liars and w not in told.refused]

    def refuse(self, a: Answer) -> None:
        """A worker cannot do it: others are asked, if there are some."""
        self.told.refused[a.worker] = a.refused
        if not self.others():
            raise BackendError(
                f"{self.pool.name}: no worker can do it. {a.worker}: {a.refused}",
                fix="Install the same tinyphysics and the same backend on all machines, or leave on= out.",
            )
        self.again(a.number, self.asked[a.number][0].worker if a.number in self.asked else "")

    def is_verified(self, number: int) -> bool:
        """Is a second worker asked?  The number of the block and the key of the run decide it, not the workers."""
        if not self.share:
            return False
        h = hashlib.blake2b(f"{self.key} {number}".encode(), digest_size=8).digest()
        return int.from_bytes(h, "big") < self.share * 2**64

    def again(self, number: int, but: str = "") -> None:
        others = self.others(but)
        if not others:
            raise BackendError(
                "verify= needs a second worker, and there is one", fix="Start another, or leave verify= out."
            )
        self.submit(number, others)

    def compare(self, second: Answer) -> None:
        """Two workers have one block: if they differ, this process decides."""
        first = self.asked.pop(second.number)[0]
        assert first.done is not None
        if second.done is None:
            self.accept(first)
            return
        self.told.verified += 1
        self.reject(second)
        if first.done.digest == second.done.digest:
            self.accept(first)
            return
        self.reject(first)
        mine = run_block(self.parcel, self.make(self.one, self.where[second.number]))
        self.accept(Answer(second.number, "this process", mine))
        wrong = [a.worker for a in (first, second) if a.done is not None and a.done.digest != mine.digest]
        for worker in wrong:
            self.expel(worker)

    def expel(self, worker: str) -> None:
        """A worker that computes wrongly: all that it has done is done again."""
        if worker in self.told.liars:
            return
        self.told.liars.append(worker)
        self.pool.retire(worker)
        for number, a in [*self.found.items()]:
            if a.worker == worker:
                del self.found[number]
                if self.journal is not None and a.done is not None:
                    self.journal.forget(a.done)
                self.again(number)
        for number, (a, *_) in [*self.asked.items()]:
            if a.worker == worker:
                del self.asked[number]
                self.again(number)


def execute(
    make: Callable[[], Pool],
    r: Resolved,
    b: Bound,
    one: Run,
    tick: Callable[[int], None],
    count: int | None = None,
    share: float = 0.0,
    keep: Path | None = None,
    left: Left = Left(),  # noqa: B008  (it is frozen)
) -> tuple[Told, Sequence[Done]]:
    """A run, spread over a pool; its record is filled in. The blocks come back in the order of their members."""
    common = replace(parcel(r, b, one), carries=left.keeper is not None)
    store = None if left.windows is None else OneStore.opened(one, left.windows, list(b.values))
    common = common if store is None else replace(common, rows=store.rows)
    try:
        folder, own = folder_of(r, keep, left)
        journal = None if folder is None else Journal.opened(folder, common.key, b.record.schedule)
        pool = make()
    except BaseException:
        if store is not None:
            store.discard()
        raise
    try:
        job = Job(pool, one, share, key=common.key, parcel=common, journal=journal, store=store)
        if left.keeper is not None:
            begin(left.keeper, one, b.record)
        missing = collect(job, r, tick, count)
    except TinyPhysicsError:
        if store is not None and journal is None:
            store.discard()
        raise
    finally:
        pool.stop()
    done = sorted((a.done for a in job.found.values() if a.done is not None), key=lambda d: d.first)
    nowhere = [(part, stop, state_of(job, part)) for part, stop in missing]
    merge(one, b.record, done, nowhere, None if store is None else list(b.values))
    try:
        if store is not None:
            store.finish(nowhere)
        if left.keeper is not None and b.record.carried is not None:
            left.keeper.keep(b.record.carried, b.record)
            if own and journal is not None:
                journal.remove()
    except StoreError as error:
        b.record.stops.append(Stop("store", b.record.last, one.t0 + b.record.last * one.dt, error=error))
    job.told.blocks, job.told.backends = len(job.where), sorted({d.backend for d in done})
    return job.told, done


def folder_of(r: Resolved, keep: Path | None, left: Left) -> tuple[Path | None, bool]:
    """(the folder into which blocks are written, does it go when all are done?): that of a checkpoint lies beside it."""
    if keep is not None:
        return keep, False
    if left.keeper is not None:
        return beside(left.keeper.path), True
    if isinstance(r.request.resume, (str, PathLike)) and (found := beside(Path(r.request.resume))).is_dir():
        return found, False
    return None, False


def beside(checkpoint: Path) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}.blocks")


def begin(keeper: Keeper, one: Run, record: Record) -> None:
    """A checkpoint of the beginning: with the blocks that lie beside it, a run goes on from there."""
    if one.begun is None:
        keeper.keep(Carried(0, {}, {}), record)
    elif not keeper.path.exists():
        write(one.begun, keeper.path)


def collect(
    job: Job, r: Resolved, tick: Callable[[int], None], count: int | None
) -> list[tuple[slice, Stop]]:
    """All blocks, as they come; the members of which nothing came back, and why."""
    pool, one, members, s = job.pool, job.one, job.one.given.members, job.one.schedule
    for d in () if job.journal is None else job.journal.blocks():
        if job.store is None or job.store.holds(d):
            job.remember(d)
    pool.send(job.parcel)
    job.told.workers, slots = list(pool.workers()), max(1, pool.slots())
    job.slots = slots
    began, busy = time.perf_counter(), pool.busy()
    if not job.told.workers:
        raise BackendError(f"{pool.name} has no workers", fix="Start one, or leave on= out.")
    if job.share and len(job.told.workers) < 2:
        raise BackendError(
            "verify= needs a second worker, and there is one", fix="Start another, or leave verify= out."
        )
    guess = r.setup.compiled.step_seconds * max(s.steps - s.first, 1) / 8
    most = members if job.store is None else job.store.most
    size = max(1, -(-members // count)) if count is not None else min(first_size(members, slots, guess), most)
    grain, whole = job.grain, count is not None and not job.where
    parts = equal(members, count or 1, grain) if whole else within(job.free(), size, grain)
    measured = len(parts) if count is not None else slots
    job.add(parts[:measured])
    rest, missing = parts[measured:], list[tuple[slice, Stop]]()
    try:
        for a in pool.answers():
            job.take(a)
            if rest and a.done is not None:
                left = sum(part.stop - part.start for part in rest)
                took = sizes(left, slots, a.done.seconds / max(a.done.members, 1))
                job.told.note = took.note
                rest = job.add(within(job.free(), min(took.members, most), grain))
            ready = sum(job.where[k].stop - job.where[k].start for k in job.found)
            tick(s.first + (s.steps - s.first) * ready // max(members, 1))
        job.told.scheduler = (pool.busy() - busy) / (time.perf_counter() - began)
    except KeyboardInterrupt as stop:
        missing += unfinished(job, "interrupted", stop)
    except (BackendError, StoreError) as error:
        if not job.found:
            raise
        missing += unfinished(job, "store" if isinstance(error, StoreError) else "device", error)
    for k, a in job.found.items():
        if a.done is None:
            why = BackendError(a.died, fix="Run these members again.")
            missing.append((job.where[k], Stop("worker", s.first + 1, one.t0, error=why)))
    return missing


def state_of(job: Job, part: slice) -> dict[str, Any]:
    """Where members are of which nothing came back: at the beginning of the run, or where it went on from."""
    if job.one.begun is None:
        return {name: v[part] for name, v in job.one.given.states.items()}
    first = job.one.schedule.first
    standing = replace(
        job.parcel,
        schedule=Schedule(first, None, None, None, first),
        values={},
        events={},
        looks=0,
        rows=None,
    )
    return run_block(replace(standing, key=f"{job.key} at its beginning"), block(job.one, part)).record.final


def unfinished(job: Job, cause: str, error: BaseException) -> list[tuple[slice, Stop]]:
    """The members of which nothing came back."""
    job.where = [job.where[k] for k in job.found]
    job.found = dict(enumerate(job.found.values()))
    stop = Stop(cause, job.one.schedule.first + 1, job.one.t0, error=error)
    return [(slice(a, b), stop) for a, b in job.free()]


def within(ranges: Sequence[tuple[int, int]], size: int, grain: int = 1) -> list[slice]:
    """Blocks of about so many members, in each of these ranges."""
    return [part for a, b in ranges for part in cut(a, b, size, grain)]


def checked_share(verify: Any) -> float:
    if verify is None:
        return 0.0
    if isinstance(verify, bool) or not isinstance(verify, (int, float)) or not 0 <= verify <= 1:
        raise InputError(
            f"verify={verify!r} is not a share of the blocks", fix="Pass verify=0.01, or 1 for all."
        )
    return float(verify)
