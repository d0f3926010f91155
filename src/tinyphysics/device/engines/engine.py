"""How does a kernel run an ensemble?  Components as rows, members as lanes, chunks handed out to threads.

The same for every backend that can call a section of a kernel: a `Loader` turns a section into a function, a `Memory` says
what is done with rows. A chunk in which a guard fired has stored nothing; it is done again with the careful section.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from ctypes import addressof
from ctypes import c_char as Byte
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np

from tinyphysics.context import QUICK
from tinyphysics.device.host.cores import available
from tinyphysics.device.host.rows import HOST, as_numbers, as_rows, fill, observed
from tinyphysics.device.host.threads import spread
from tinyphysics.device.numbers import NUMPY_DTYPE, finite
from tinyphysics.device.protocols import Memory, Parts, PlainEngine, StepRows
from tinyphysics.ir.uop import UOp
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.extremes import own_numbers
from tinyphysics.tpir.kernels.kernel import BESIDE, LONGEST, NEAREST, RECORDED, Section
from tinyphysics.tpir.kernels.nearest import BEFORE
from tinyphysics.util import prod

Arrays = Mapping[str, Any]
BLOCK_WORK = 2e8  # operations of a thread in a block of time: some tens of milliseconds
LEAST_BLOCK = 64  # steps: fewer, and a large ensemble would go through memory at every step
THREAD_WORK = 4e6  # operations that are worth a second thread
CHUNKS_PER_THREAD = 8  # the slower core takes fewer
ROOM = 1 << 19  # numbers in the loop states that run as one tile: some megabytes, which a cache holds
ROWS_BYTES = 4e6  # of observables that one call fills
QUICK_WORK = (
    4e6  # operations done by code that is made quickly: a few milliseconds, less than good code takes to make
)


class Loader(Protocol):
    """What a backend offers: a shape of vectors, and functions of sections."""

    threads: bool
    by_address: bool  # have its functions one that takes addresses, `at`?
    made: int  # modules compiled
    found: int  # modules that were there already

    @property
    def passage(self) -> Any: ...  # what threads call for whole tiles (passages.py): (team, passage), or None
    @property
    def quick(self) -> VectorShape | None: ...  # of code that is made sooner and runs slower
    def shape(self, section: Section, members: int) -> VectorShape: ...
    def load(
        self, parts: Parts, params: Sequence[UOp], varying: tuple[bool, ...], quick: bool = False
    ) -> list[Any]: ...


@dataclass
class LaneState:
    """A run between two blocks: `carried` has a row per component and a column per member."""

    carried: Any
    steps: int
    members: int
    uniform: Any
    varying: Any
    mask: tuple[bool, ...]  # which parameters vary from member to member
    threads: int | None = None  # None: as many as the engine has
    shared: Any = None  # `uniform`, where the rows are
    form: Any = None  # how members are laid over the threads of a device


class LaneEngine(PlainEngine):
    room = ROOM

    def __init__(
        self, program: Any, kernel: Any, loader: Loader, threads: int | None = None, memory: Memory = HOST
    ) -> None:
        """Of a kernel (tpir/kernels/rows.py: kernel_of) or its outline; of the program it asks the states alone."""
        self.program, self.kernel, self.loader, self.memory = program, kernel, loader, memory
        assert len({v.dtype for v in self.kernel.carried}) <= 1, "a row for each number: all have one type"
        self.threads = available() if threads is None else threads
        self.workers = self.threads if loader.threads else 1  # threads that may call at once
        self.by_address = loader.by_address
        self.numbers = len(self.kernel.carried)
        self.moved = own_numbers(self.kernel.carried)  # of these, what a step moves: extremes may be infinite
        self._functions: dict[Any, Any] = {}
        self._ready: dict[
            Any, tuple[Any, VectorShape]
        ] = {}  # the same by what a call knows of itself: found sooner
        self._lock = threading.RLock()
        self._shapes: dict[int, VectorShape] = {}  # by the number of members
        self._work: dict[str, float] = {}  # operations done so far, by section
        self.launches = 0
        self.compiling = 0.0  # seconds

    @property
    def made(self) -> int:
        """Modules compiled so far."""
        return self.loader.made

    @property
    def found(self) -> int:
        """Modules that were compiled before and kept."""
        return self.loader.found

    # --- functions ----------------------------------------------------------------------------
    def function(
        self, name: str, careful: bool, m: LaneState, quick: VectorShape | None
    ) -> tuple[Any, VectorShape]:
        """A section as a function, and its shape. A run needs several, and one module is cheaper than many."""
        known = (name, careful, m.mask, m.members, quick is None)
        if known not in self._ready:
            self._ready[known] = self.loaded(name, careful, m, quick)
        return self._ready[known]

    def loaded(
        self, name: str, careful: bool, m: LaneState, quick: VectorShape | None
    ) -> tuple[Any, VectorShape]:
        def shape(loops: bool) -> VectorShape:
            return quick or self.shape_of(m, loops)

        key = (name, careful, m.mask, shape(self.kernel.section(name).loops), quick is None)
        with self._lock:  # tiles of an ensemble ask at the same time
            if key not in self._functions:
                began = time.perf_counter()
                loop = "watch" if self.kernel.watched else "step"
                usual = ("init", "final", loop) if self.kernel.section(loop).operations else ("init", "final")
                # what is hot is compiled for itself: the others of its module may never be
                alone = careful or name not in usual or quick is None and self.loader.quick is not None
                sections = [self.kernel.section(n, careful) for n in ((name,) if alone else usual)]
                parts = [(f, shape(f.loops)) for f in sections]
                calls = self.loader.load(parts, self.kernel.params, m.mask, quick is not None)
                for (f, s), call in zip(parts, calls):
                    self._functions[f.name, careful, m.mask, s, quick is None] = call
                self.compiling += time.perf_counter() - began
            return self._functions[key], key[3]

    def shape(self, members: int, loops: bool = True) -> VectorShape:
        """One for all sections that loop, so that chunks agree; the others need no interleaving."""
        if members not in self._shapes:
            loop = self.kernel.section("watch" if self.kernel.watched else "step")
            self._shapes[members] = self.loader.shape(loop, max(members, 1))
        widest = self._shapes[members]
        return widest if loops else VectorShape(widest.width, 1)

    def shape_of(self, m: LaneState, loops: bool) -> VectorShape:
        return self.shape(m.members, loops)

    def call(
        self, name: str, m: LaneState, source: Any, out: Any, rows: int, stride: int = 1, series: Any = None
    ) -> None:
        """One section on every member; chunks whose guard fires again, carefully."""
        if not m.members:  # the loop over lanes runs at least once
            return
        section = self.kernel.section(name)
        flags = np.zeros(source.shape[1], np.int8)
        work = section.operations * source.shape[1] * rows * stride
        quick = self.quick_for(name, work)
        f, shape = self.function(name, False, m, quick)
        self.spread(f, shape, m, source, out, flags, rows, stride, series, work)
        if np.count_nonzero(flags):
            f, _ = self.function(name, True, m, quick)
            for begin, end in stretches(np.flatnonzero(flags), shape.lanes):
                self.launch(f, m, source, out, flags, begin, end, rows, stride, series)

    def quick_for(self, name: str, work: float) -> VectorShape | None:
        """The shape of code that is made sooner, while a section has done little; so much more is about to be done."""
        with self._lock:
            done = self._work[name] = self._work.get(name, 0) + work
        return self.loader.quick if QUICK.value and (done <= QUICK_WORK or QUICK.value > 1) else None

    def spread(
        self,
        f: Any,
        shape: VectorShape,
        m: LaneState,
        source: Any,
        out: Any,
        flags: Any,
        rows: int,
        stride: int,
        series: Any,
        work: float,
    ) -> None:
        chunks = source.shape[1] // shape.lanes
        workers = (
            1 if work < 2 * THREAD_WORK else min(m.threads or self.workers, chunks, int(work // THREAD_WORK))
        )
        if workers <= 1:
            self.launch(f, m, source, out, flags, 0, source.shape[1], rows, stride, series)
            return
        pieces = min(chunks, workers * CHUNKS_PER_THREAD)
        cuts = [chunks * k // pieces * shape.lanes for k in range(pieces + 1)]

        def one(k: int) -> None:
            self.launch(f, m, source, out, flags, cuts[k], cuts[k + 1], rows, stride, series)

        spread(one, pieces, workers)

    def launch(
        self,
        f: Any,
        m: LaneState,
        source: Any,
        out: Any,
        flags: Any,
        begin: int,
        end: int,
        rows: int,
        stride: int,
        series: Any,
    ) -> None:
        with self._lock:
            self.launches += 1
        numbers = begin, end, source.shape[1], m.steps, rows, stride
        f(source, out, m.uniform, m.varying, flags, series, *numbers)

    # --- what the runtime asks ----------------------------------------------------------------
    def block(self, members: int) -> int:
        """Steps of some tens of milliseconds: vectors do many members at once, and threads share what is long."""
        lanes = self.shape(members).lanes
        return max(
            LEAST_BLOCK * self.workers,
            int(
                self.workers * lanes * BLOCK_WORK / (self.kernel.section("step").moving * max(members, 1) + 1)
            ),
        )

    def rows(self, m: LaneState) -> int:
        """Rows of observables that one call should fill, so that they stay in a cache."""
        return max(1, int(ROWS_BYTES // (8 * max(len(self.kernel.watched), 1) * m.carried.shape[1])))

    # --- loop states, wherever their rows are ----------------------------------------------------
    def lanes(self, members: int) -> int:
        """Columns for so many members: a whole number of what a function does at once."""
        one = self.shape(members).lanes
        return -(-members // one) * one

    def at_once(self, m: LaneState) -> int:
        """Members that a function does at once."""
        return self.shape(m.members).lanes

    def layout(self, members: int, mask: tuple[bool, ...]) -> Any:
        """How members are laid over the threads of a device, if that is to be chosen."""
        return None

    def begun(
        self, carried: Any, params: Arrays, members: int, dt: Any, t0: Any, steps: int, threads: int | None
    ) -> LaneState:
        uniform, varying, mask = parameters(self.kernel.params, params, dt, t0, members, carried.shape[1])
        own, shared = None if varying is None else self.memory.put(varying), self.memory.put(uniform)
        form = self.layout(members, mask)
        return LaneState(carried, steps, members, uniform, own, mask, threads, shared, form)

    def start(
        self, state: Arrays, params: Arrays, members: int, dt: float, t0: float, threads: int | None = None
    ) -> LaneState:
        k, lanes = self.kernel, self.lanes(members)
        dtype: Any = NUMPY_DTYPE[k.inputs[0].dtype.name] if k.inputs else np.float64
        carried = self.memory.empty((len(k.carried), lanes), dtype)
        m = self.begun(carried, params, members, dt, t0, 0, threads)
        if members:
            source = self.memory.encode(state, len(k.inputs), members, lanes, dtype)
            self.call("init", m, source, m.carried, 1)
            if k.has("enter"):
                self.call("enter", m, m.carried, m.carried, 1)
        return m

    def held(self, m: LaneState) -> Any:
        """All that the loop carries, a row per number."""
        return self.memory.get(m.carried)[:, : m.members]

    def resume(
        self, rows: Sequence[Any], params: Arrays, members: int, dt: float, t0: float, steps: int,
        threads: int | None,
    ) -> LaneState:  # fmt: skip
        """A loop from what was held of it after so many steps."""
        carried: Any = np.empty((len(rows), self.lanes(members)), rows[0].dtype)
        for k, row in enumerate(rows):
            carried[k, :members] = row
        fill(carried, members)
        return self.begun(self.memory.put(carried), params, members, dt, t0, steps, threads)

    def registers(self, m: LaneState) -> dict[str, Any]:
        """All that the loop carries, by the names of the program: (members, numbers)."""
        here, own = self.held(m), (x for x in self.places.items() if x[0] not in (BEFORE, *BESIDE))
        return {name: self.numbers_in(here[rows].T, rows) for name, rows in own}

    def nearest(self, m: LaneState) -> Any:
        """(rows, members) least squares of distances so far, where the loop keeps them: the less, the nearer.

        Where it keeps how long steps are, rows of their squares come after these, with a minus.
        """
        at = self.beside
        return (
            None if at is None else self.signed(self.memory.get(m.carried, at.start, at.stop)[:, : m.members])
        )

    def nearest_of_all(self, m: LaneState) -> Any:
        """(rows, 1) of a member that came as near as any, and whose longest step is as long as any."""
        if (at := self.beside) is None or not m.members:
            return None
        found = self.memory.extremes(m.carried, at.start, at.stop, m.members, self.lengths)
        return self.signed(found[:, None])

    @cached_property
    def beside(self) -> slice | None:
        """The rows that keep how near a member came to poles."""
        near = self.places.get(NEAREST)
        return None if near is None else slice(near.start, self.places.get(LONGEST, near).stop)

    @cached_property
    def forgets(self) -> int:  # type: ignore[override]
        """How many of its rows, the last ones, begin anew in each block of time: how near a pole was is asked of each."""
        rows = self.beside
        return 0 if rows is None or rows.stop < len(self.kernel.carried) else rows.stop - rows.start

    def fresh(self, members: int) -> list[Any]:
        """These rows at the beginning of a block; they take no memory."""
        if not self.forgets:
            return []
        return [np.broadcast_to(0.0 if far else np.inf, (members,)) for far in self.lengths]

    @cached_property
    def lengths(self) -> Any:
        """Which of these are of the lengths of steps."""
        assert self.beside is not None
        return np.arange(self.beside.start, self.beside.stop) >= self.places[NEAREST].stop

    def signed(self, rows: Any) -> Any:
        return np.where(self.lengths[:, None], -rows, rows) if LONGEST in self.places else rows

    def numbers_in(self, rows: Any, at: slice) -> Any:
        """Numbers of the loop in their own type."""
        kinds = self.kernel.kinds
        return as_numbers(rows, kinds[at.start]) if kinds else np.ascontiguousarray(rows)

    def restored(
        self, registers: Arrays, params: Arrays, members: int, dt: float, t0: float, steps: int,
        threads: int | None = None,
    ) -> LaneState:  # fmt: skip
        """A loop from its registers after so many steps."""
        dtype = NUMPY_DTYPE[self.kernel.carried[0].dtype.name]
        for name, none in ((BEFORE, np.inf), (NEAREST, np.inf), (LONGEST, 0.0)):  # of the steps to come alone
            if (beside := self.places.get(name)) is not None:
                registers = {**registers, name: np.full((members, beside.stop - beside.start), none)}
        given = {name: as_rows(registers[name], dtype).reshape(members, -1) for name in self.places}
        rows = [row for name in self.places for row in given[name].T]
        return self.resume(rows, params, members, dt, t0, steps, threads)

    def register(self, m: LaneState, name: str) -> Any:
        here = self.places[name]
        return self.memory.get(m.carried, here.start, here.stop)[:, : m.members].T

    def tell(self, m: LaneState, name: str, value: float) -> None:
        """Another value of a parameter that all members share, for this loop alone."""
        m.uniform = m.uniform.copy()
        m.uniform[self.slots[f"${name}"]] = value
        m.shared = self.memory.put(m.uniform)

    def snapshot(self, m: LaneState) -> LaneState:
        return replace(m, carried=self.memory.copy(m.carried))

    def some(self, m: LaneState, members: Sequence[int]) -> LaneState:
        """Some members alone, to be replayed; the bits are those that they have among the others.

        As many as one function does at once, which is there already: the last one fills the rest.
        """
        who = [*members, *[members[-1]] * (-len(members) % self.at_once(m))]
        take = self.memory.take
        own = None if m.varying is None else take(m.varying, who)
        return replace(m, carried=take(m.carried, who), members=len(who), varying=own, threads=1)

    def apart(self, m: LaneState, members: Sequence[int]) -> LaneState:
        """Some members, to go on alone for a while; `put` brings them back."""
        return replace(self.some(m, members), threads=m.threads)

    def put(self, m: LaneState, members: Sequence[int], those: LaneState) -> None:
        """What members that went on alone have come to."""
        m.carried[:, members] = those.carried[:, : len(members)]

    def overwrite(self, m: LaneState, members: Sequence[int], well: int) -> None:
        self.memory.fill(m.carried, members, well)

    @cached_property
    def places(self) -> dict[str, slice]:
        """The rows of each register."""
        out: dict[str, slice] = {}
        for k, v in enumerate(self.kernel.carried):
            name = str(v.arg).partition(".")[0]
            out[name] = slice(out[name].start if name in out else k, k + 1)
        return out

    # --- for a run whose steps have their own lengths (runtime/engines/adaptive.py) -------------------
    @cached_property
    def states(self) -> Any:
        return self.program.states

    @cached_property
    def slots(self) -> dict[str, int]:
        """Where a parameter is among those of the kernel."""
        return {str(p.arg): k for k, p in enumerate(self.kernel.params)}

    def patience(self, m: LaneState, work: float) -> int:
        """Steps of so many operations."""
        return max(LEAST_BLOCK, int(work / (self.kernel.section("step").operations * max(m.members, 1) + 1)))

    def advance(self, m: LaneState, steps: int) -> None:
        self.call("step", m, m.carried, m.carried, steps)
        m.steps += steps

    def watch(self, m: LaneState, rows: int, stride: int) -> dict[str, Any]:
        """Advances rows*stride steps; the observables after every stride: (rows, members, shape...)."""
        k, lanes = self.kernel, m.carried.shape[1]
        if not k.has("look"):
            return observed(self.seen_in_loop(m, rows, stride), k.observed, m.members)
        width = sum(prod(shape) for _, shape in k.observed.values())
        series, out = np.empty((rows, width, lanes)), self.memory.empty((width, lanes), np.float64)
        for row in series:
            self.advance(m, stride)
            self.call("look", m, self.left(m), out, 1)
            row[:] = self.memory.get(out)
        return observed(series, k.observed, m.members)

    def seen_in_loop(self, m: LaneState, rows: int, stride: int) -> Any:
        """What the loop itself observes after every stride: (rows, numbers, lanes)."""
        shape = rows, len(self.kernel.watched), m.carried.shape[1]
        series = self.memory.empty(shape, np.float64)
        self.call("watch", m, m.carried, m.carried, rows, stride, series)
        m.steps += rows * stride
        return self.memory.get(series).reshape(shape)

    def record(self, m: LaneState, rows: int) -> StepRows:
        """In the loop, where the kernel was made for it."""
        if RECORDED not in self.kernel.observed:
            return super().record(m, rows)
        series = self.seen_in_loop(m, rows, 1)
        table = series[:, :, : m.members].transpose(1, 0, 2)
        # of one member some steps are sooner turned than all
        return StepRows(table if series.shape[2] == 1 else np.ascontiguousarray(table), self.places)

    def bad(self, m: LaneState) -> list[int]:
        """The members with a number that is not finite."""
        if not self.counts:
            return self.memory.bad(m.carried[: self.moved], m.members)
        # rows of several types, which are told apart here
        here: Any = self.held(m) if self.lossy else None
        return sorted({k for rows in self.lossy for k in self.bad_in(here[rows], rows)})

    @cached_property
    def counts(self) -> bool:
        """Are some states whole numbers, of which every one is good?"""
        if all(v.dtype.is_float for v in self.kernel.carried):  # then nothing is asked of the program
            return False
        return any(s.counts for s in self.program.states)

    @cached_property
    def lossy(self) -> list[slice]:
        """The rows of states that may have numbers that are none."""
        out, at = [], 0
        for s in self.program.states:
            out += [] if s.counts else [slice(at, at + prod(s.type.shape))]
            at += prod(s.type.shape)
        return out

    def bad_in(self, rows: Any, at: slice) -> Any:
        return np.flatnonzero(~finite(self.numbers_in(rows, at)).all(axis=0)).tolist()

    def first_bad(self, m: LaneState, k: int) -> tuple[str, int] | None:
        """(state, index) of the first bad number of a member."""
        return self.bad_place(self.memory.get(self.memory.take(m.carried, [k]))[:, 0])

    def bad_place(self, numbers: Any) -> tuple[str, int] | None:
        """Of all that a member carries, the states first."""
        at = 0
        for s in self.program.states:
            here = slice(at, at + prod(s.type.shape))
            good = finite(self.numbers_in(numbers[here], here)) if not s.counts else np.ones(1, bool)
            if not good.all():
                return s.name, int(np.flatnonzero(~good)[0])
            at += prod(s.type.shape)
        return None

    def left(self, m: LaneState) -> Any:
        """What is carried, as `final` takes it."""
        if not self.kernel.has("leave"):
            return m.carried
        out = self.memory.empty(m.carried.shape, m.carried.dtype)
        self.call("leave", m, m.carried, out, 1)
        return out

    def final(self, m: LaneState) -> Any:
        """What `final` gives, a row per number."""
        out = self.memory.empty((self.shown, m.carried.shape[1]), self.output_type)
        self.call("final", m, self.left(m), out, 1)
        return out

    def synchronised(self, m: LaneState) -> dict[str, Any]:
        return self.named(m, list(self.kernel.outputs))

    def named(self, m: LaneState, names: Sequence[str]) -> dict[str, Any]:
        """Of what `final` gives, that of these names."""
        k = self.kernel
        return self.memory.decode(self.final(m), k.outputs, m.members, names, bool(k.kinds))

    def named_at(
        self, rows: StepRows, params: Arrays, dt: float, t0: float, names: Sequence[str]
    ) -> dict[str, Any]:
        """The registers are read where they are, if they are a whole number of vectors."""
        lanes = rows.table.shape[1]
        if lanes % self.shape(lanes).lanes or self.memory is not HOST:
            return super().named_at(rows, params, dt, t0, names)
        return self.named(self.begun(rows.table, params, lanes, dt, t0, 0, None), names)

    @cached_property
    def output_type(self) -> Any:
        """Of the rows that `final` fills: states, or what a probe makes of them."""
        k = self.kernel
        gives = k.kinds and all(name in [s.name for s in self.program.states] for name in k.outputs)
        return NUMPY_DTYPE[(k.carried[0].dtype if gives else next(iter(k.outputs.values()))[0]).name]

    @cached_property
    def shown(self) -> int:
        """Numbers of what `final` gives."""
        return sum(prod(shape) for _, shape in self.kernel.outputs.values())


def stretches(starts: Any, lanes: int) -> list[tuple[int, int]]:
    """(begin, end) of chunks that lie side by side."""
    cuts = np.flatnonzero(np.diff(starts) != lanes) + 1
    return [(int(part[0]), int(part[-1]) + lanes) for part in np.split(starts, cuts)]


FEW = 8  # numbers of a parameter, that are put in their places one by one


@lru_cache(maxsize=64)
def by_name(params: tuple[UOp, ...]) -> list[tuple[str, list[int], list[int]]]:
    """For each name its slots, and which number of the parameter is in each.

    dt is there twice if the states are not float64: for them, and for the clock.
    """
    found: dict[str, list[tuple[int, int]]] = {}
    for slot, p in enumerate(params):
        name, _, index = str(p.arg)[1:].partition(".")
        found.setdefault(name, []).append((slot, int(index or 0)))
    return [(name, [s for s, _ in places], [k for _, k in places]) for name, places in found.items()]


def parameters(
    params: Sequence[UOp], given: Arrays, dt: Any, t0: Any, members: int, lanes: int
) -> tuple[Any, Any, tuple[bool, ...]]:
    """(values that all share, a row per parameter or None, which vary); dt and t0 may be those of each member."""
    uniform = np.zeros(len(params))
    rows: dict[int, Any] = {}
    for name, slots, numbers in by_name(params if isinstance(params, tuple) else tuple(params)):
        own = np.reshape(dt if name == "dt" else t0, (-1, 1)) if name in ("dt", "t0") else given[name]
        table = own.reshape(len(own), -1)
        if len(table) > 1:
            rows |= {slot: table[:, k] for slot, k in zip(slots, numbers)}
        elif len(slots) < FEW:
            for slot, k in zip(slots, numbers):
                uniform[slot] = table[0, k]
        else:
            uniform[slots] = table[0, numbers]
    if not rows:
        return uniform, None, (False,) * len(params)
    mask = tuple(slot in rows for slot in range(len(params)))
    varying: Any = np.zeros((len(params), lanes), NUMPY_DTYPE[params[min(rows)].dtype.name])
    for slot, values in rows.items():
        varying[slot, :members] = values
    fill(varying, members)
    return uniform, varying, mask


def pointer(a: Any) -> Any:
    """Where the numbers of an array are; what `a.ctypes` knows takes longer to ask."""
    if a is None:
        return None
    try:
        return addressof(Byte.from_buffer(a))
    except (TypeError, ValueError):  # not to be written to, or empty
        return a.ctypes.data


def calling(f: Callable[..., None]) -> Callable[..., None]:
    """A C function as one that takes arrays."""

    def call(
        source: Any, out: Any, uniform: Any, varying: Any, flags: Any, series: Any, *numbers: int
    ) -> None:
        given = pointer(source)
        f(
            given,
            given if out is source else pointer(out),
            pointer(uniform),
            pointer(varying),
            pointer(flags),
            pointer(series),
            *numbers,
        )

    call.at = f  # type: ignore[attr-defined]  # for those who know the addresses
    return call
