"""How do loop nests run?  Buffers for each member, nests handed out to threads by ranges of their outermost loop.

A run whose guard fired is done again from where it began, with the nests that are right for any argument.
"""
from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tinyphysics.device.host import NUMPY_DTYPE
from tinyphysics.tpir.isa import Program
from tinyphysics.tpir.kernel import ORIGIN, STEP
from tinyphysics.tpir.loops import build_loops
from tinyphysics.tpir.nests import Buffer, LoopKernel
from tinyphysics.tpir.pull import is_component
from tinyphysics.util import prod

Arrays = Mapping[str, Any]
BLOCK_WORK = 4e8  # operations in a block of time: some tenths of a second
THREAD_WORK = 2e6  # operations of a step that are worth a second thread
PARTS_PER_THREAD = 4


class LoopLoader(Protocol):
    """What a backend offers: every function of a kernel, by name."""

    threads: bool

    def load(self, kernel: LoopKernel, careful: bool) -> Mapping[str, Any]: ...


def to_planes(a: Any, b: Buffer, components: int, out: Any) -> None:
    """An array into its buffer: components in front."""
    short = [k for k, n in enumerate(a.shape) if is_component(n, components)]
    long = [k for k in range(a.ndim) if k not in short]
    size = prod(b.axes)
    out.reshape(b.planes, b.plane)[:, :size] = np.transpose(a, [*short, *long]).reshape(b.planes, size)


def from_planes(data: Any, b: Buffer, shape: tuple[int, ...], components: int) -> Any:
    short = [k for k, n in enumerate(shape) if is_component(n, components)]
    long = [k for k in range(len(shape)) if k not in short]
    order = [*short, *long]
    size = prod(b.axes)
    rows = data.reshape(b.planes, b.plane)[:, :size].reshape([shape[k] for k in order])
    return np.ascontiguousarray(np.transpose(rows, np.argsort(order))) if order else rows.reshape(())


@dataclass
class Memory:
    """The buffers of one member: what a run changes, and a table of where everything is."""

    own: dict[str, Any]
    table: Any  # addresses, in the order of the kernel's buffers
    uniform: Any

    def copy(self) -> Memory:
        own = {name: a.copy() for name, a in self.own.items()}
        moved = {a.ctypes.data: own[name].ctypes.data for name, a in self.own.items()}
        table = np.array([moved.get(int(p), int(p)) for p in self.table], np.uintp)
        return Memory(own, table, self.uniform)

    def at(self, slot: int) -> Any:
        """The array that a slot of the table points to."""
        return next(a for a in self.own.values() if a.ctypes.data == int(self.table[slot]))


@dataclass
class Grids:
    members: list[Memory]
    steps: int


class LoopEngine:
    def __init__(
        self, program: Program, loader: LoopLoader, probe: Program | None = None, threads: int | None = None
    ) -> None:
        self.program, self.loader = program, loader
        self.kernel = build_loops(program)
        self.slots = {name: k for k, name in enumerate(self.kernel.buffers)}
        self.threads = len(os.sched_getaffinity(0)) if threads is None else threads
        self.probe = None if probe is None else LoopEngine(probe, loader, None, threads)
        self.launches = 0
        self.compiling = 0.0
        self._functions: dict[bool, Mapping[str, Any]] = {}
        # what one step or frame needs and nobody keeps is shared by all members
        kept = {*self.kernel.inputs.values(), *(b for b in self.kernel.buffers if b.startswith(("K", "T", "G", "F", "E")))}
        kept |= {x for s in self.kernel.sections["step"].swaps for x in s}
        kept |= {x for s in self.kernel.sections["init"].swaps for x in s}
        self.kept = [n for n in self.kernel.buffers if n in kept]
        self._scratch: dict[str, Any] = {}

    def functions(self, careful: bool) -> Mapping[str, Any]:
        if careful not in self._functions:
            began = time.perf_counter()
            self._functions[careful] = self.loader.load(self.kernel, careful)
            self.compiling += time.perf_counter() - began
        return self._functions[careful]

    # --- memory -------------------------------------------------------------------------------
    def allocate(self, names: Sequence[str]) -> dict[str, Any]:
        return {n: aligned(self.kernel.buffers[n]) for n in names}

    def memory(self, state: Arrays, params: Arrays, k: int, dt: float, t0: float) -> Memory:
        kernel = self.kernel
        own = self.allocate(self.kept)
        arrays = {name: v[k if len(v) > 1 else 0] for name, v in params.items()}
        for name, buffer in kernel.arrays.items():
            own[buffer] = aligned(kernel.buffers[buffer])
            to_planes(arrays[name], kernel.buffers[buffer], kernel.components, own[buffer])
        for name, buffer in kernel.inputs.items():
            to_planes(state[name][k], kernel.buffers[buffer], kernel.components, own[buffer])
        missing = [n for n in kernel.buffers if n not in own and n not in self._scratch]
        self._scratch |= self.allocate(missing)
        table = np.array([(own[n] if n in own else self._scratch[n]).ctypes.data for n in kernel.buffers], np.uintp)
        uniform = np.zeros(len(kernel.params))
        for slot, p in enumerate(kernel.params):
            uniform[slot] = dt if p is STEP else t0 if p is ORIGIN else arrays[str(p.arg)[1:]]
        return Memory(own, table, uniform)

    # --- calls --------------------------------------------------------------------------------
    def run(self, section: str, m: Memory, first: int, steps: int, careful: bool = False) -> bool:
        """Some steps of a section; was every argument small enough?"""
        f = self.functions(careful)
        flags = np.zeros(8, np.int8)
        nests = self.kernel.sections[section].nests
        work = sum(n.items * n.operations for n in nests)
        workers = min(self.threads, int(work // THREAD_WORK)) if self.loader.threads else 1
        self.launches += 1
        if workers <= 1:
            f[section](m.table, m.uniform, flags, first, steps)
        else:
            with ThreadPoolExecutor(workers) as pool:
                for k in range(steps):
                    self.step(section, m, first + k, flags, pool, workers, careful)
        return not flags[0]

    def step(self, section: str, m: Memory, now: int, flags: Any, pool: Any, workers: int, careful: bool) -> None:
        s = self.kernel.sections[section]
        f = self.functions(careful)
        for k, nest in enumerate(s.nests):
            call, end = f[f"part.{section}.{k}"], nest.extent
            pieces = min(end, workers * PARTS_PER_THREAD) if nest.items * nest.operations > THREAD_WORK / 4 else 1
            cuts = [end * i // pieces for i in range(pieces + 1)]
            if pieces == 1:
                call(m.table, m.uniform, flags, 0, end, now)
                continue
            jobs = [pool.submit(call, m.table, m.uniform, flags, a, b, now) for a, b in zip(cuts, cuts[1:])]
            for job in jobs:
                job.result()
        for a, b in s.swaps:
            i, j = self.slots[a], self.slots[b]
            m.table[i], m.table[j] = m.table[j], m.table[i]

    def careful_run(self, section: str, m: Memory, first: int, steps: int) -> None:
        before = m.copy() if self.kernel.guarded else None
        if not self.run(section, m, first, steps):
            assert before is not None
            m.own, m.table = before.own, before.table
            self.run(section, m, first, steps, careful=True)

    # --- what the runtime asks ----------------------------------------------------------------
    def block(self, members: int) -> int:
        self.functions(False)
        work = sum(n.items * n.operations for n in self.kernel.sections["step"].nests)
        return max(1, int(BLOCK_WORK / (work * max(members, 1) + 1)))

    def start(self, state: Arrays, params: Arrays, members: int, dt: float, t0: float) -> Grids:
        m = Grids([self.memory(state, params, k, dt, t0) for k in range(members)], 0)
        for one in m.members:
            self.careful_run("init", one, 0, 1)
        return m

    def snapshot(self, m: Grids) -> Grids:
        return Grids([one.copy() for one in m.members], m.steps)

    def member(self, m: Grids, k: int) -> Grids:
        return Grids([m.members[k].copy()], m.steps)

    def put(self, m: Grids, k: int, alone: Grids) -> None:
        m.members[k] = alone.members[0].copy()

    def advance(self, m: Grids, steps: int) -> None:
        for one in m.members:
            self.careful_run("step", one, m.steps, steps)
        m.steps += steps

    def watch(self, m: Grids, rows: int, stride: int) -> dict[str, Any]:
        """Advances rows*stride steps; the observables after every stride: (rows, members, shape...)."""
        assert self.probe is not None
        out: dict[str, list[Any]] = {name: [] for name in self.probe.kernel.outputs}
        for _ in range(rows):
            self.advance(m, stride)
            for one in m.members:
                for name, value in self.observe(one, m.steps).items():
                    out[name].append(value)
        return {name: np.array(v).reshape(rows, len(m.members), *np.shape(v[0])) for name, v in out.items()}

    def observe(self, one: Memory, steps: int) -> dict[str, Any]:
        p = self.probe
        assert p is not None
        self.careful_run("final", one, steps, 1)
        table = self.watching(one)
        p.careful_run("final", table, steps, 1)
        return p.outputs(table)

    def watching(self, one: Memory) -> Memory:
        """The probe's memory, with the synchronised state where it lies."""
        p = self.probe
        assert p is not None
        k = p.kernel
        own = {}
        for name, buffer in k.inputs.items():
            own[buffer] = self._scratch[f"&{name}"]
        for buffer in k.arrays.values():
            own[buffer] = one.own[buffer]
        missing = [n for n in k.buffers if n not in own and n not in p._scratch]
        p._scratch |= p.allocate(missing)
        table = np.array([(own[n] if n in own else p._scratch[n]).ctypes.data for n in k.buffers], np.uintp)
        values = dict(zip(self.kernel.params, one.uniform))
        return Memory(own, table, np.array([values[q] for q in k.params]))

    def outputs(self, one: Memory) -> dict[str, Any]:
        k = self.kernel
        return {name: from_planes(self._scratch[buffer], k.buffers[buffer], shape, k.components)
                for name, (buffer, _, shape) in k.outputs.items()}  # fmt: skip

    def bad(self, m: Grids) -> list[int]:
        """The members with a number that is not finite."""
        return [k for k, one in enumerate(m.members) if self.first_bad(Grids([one], m.steps)) is not None]

    def first_bad(self, m: Grids) -> tuple[str, int] | None:
        """(state, index) of the first bad number of a lone member."""
        one, k = m.members[0], self.kernel
        for s in self.program.states:
            b = k.buffers[k.inputs[s.name]]
            data = one.at(self.slots[b.name])
            rows = data.reshape(b.planes, b.plane)[:, : prod(b.axes)]
            if not np.isfinite(rows).all():
                whole = from_planes(data, b, s.type.shape, k.components)
                return s.name, int(np.flatnonzero(~np.isfinite(whole))[0])
        return None

    def synchronised(self, m: Grids) -> dict[str, Any]:
        found = []
        for one in m.members:
            self.careful_run("final", one, m.steps, 1)
            found.append(self.outputs(one))
        return {name: np.stack([f[name] for f in found]) for name in self.kernel.outputs}


def aligned(b: Buffer) -> Any:
    """Zeros that begin at a cache line."""
    dtype = np.dtype(NUMPY_DTYPE[b.dtype.name])
    raw = np.zeros(b.size + 64 // dtype.itemsize, dtype)
    shift = -raw.ctypes.data % 64 // dtype.itemsize
    return raw[shift : shift + b.size]
