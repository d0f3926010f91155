"""How do loop nests run?  Member by member, nests handed out to threads by ranges of their outermost loop.

A run whose guard fired is done again from where it began, with the nests that are right for any argument.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from tinyphysics.device.host.copies import all_finite, copy
from tinyphysics.device.host.cores import available
from tinyphysics.device.host.memory import (
    Arrays,
    MemberBuffers,
    NestState,
    Scratch,
    from_planes,
    in_planes,
    seen_as,
    to_planes,
)
from tinyphysics.device.host.neighbours import Builder, NearList, aligned, domain_of
from tinyphysics.device.host.threads import Plan, Threads
from tinyphysics.device.host.tree import TreePull, softening_of
from tinyphysics.device.host.tree_nodes import Functions
from tinyphysics.device.numbers import NUMPY_DTYPE, finite
from tinyphysics.device.protocols import PlainEngine
from tinyphysics.tpir.kernels.kernel import loop_registers
from tinyphysics.tpir.kernels.neighbours import MADE
from tinyphysics.tpir.kernels.nests import Buffer, LoopKernel, Round
from tinyphysics.tpir.kernels.shares import Shares
from tinyphysics.tpir.kernels.wavefront import Wavefront, wavefront
from tinyphysics.tpir.program.isa import Program
from tinyphysics.util import prod

BLOCK_WORK = 4e8  # operations in a block of time: some tenths of a second
THREAD_WORK = 2e6  # operations of a step that are worth a second thread
COPIED = 80.0  # operations of a block for each number that is copied and looked at in it: ten times what that takes
ROWS_BYTES = 4e6  # of observables that one call fills
FRAMES_BYTES = 2e5  # of states, which are copied from there: memory that is used again is there at once


class LoopLoader(Protocol):
    """What a backend offers: every function of a kernel, by name."""

    threads: bool
    team: Any  # what each of several threads calls (emit/modules/team.py), if it has a use for them
    made: int  # modules compiled
    found: int  # modules that were there already

    def load(self, kernel: LoopKernel, careful: bool) -> Mapping[str, Any]: ...


def is_quick(f: Any, work: float) -> bool:
    """Does so much work begin with code that was made quickly?  One thread runs that: others call the good code."""
    return hasattr(f, "quick") and bool(f.quick(work))


class NestEngine(PlainEngine):
    numbers = room = 0  # the engine keeps the states of its members
    shows_states = True
    workers = 1  # and spreads each nest over threads by itself

    def __init__(
        self,
        program: Program,
        kernel: LoopKernel,
        loader: LoopLoader,
        threads: int | None = None,
        lists: Builder | None = None,
        trees: Callable[[], Functions] | None = None,
        probe: NestEngine | None = None,
    ) -> None:
        """The probe's kernel has buffers of the same layout: it reads the states where they lie."""
        self.program, self.kernel, self.loader, self.probe = program, kernel, loader, probe
        self.lists_by, self.trees_by = lists, trees
        self.slots = {name: k for k, name in enumerate(kernel.buffers)}
        self.threads = available() if threads is None else threads
        # the probe's too: it may draw where a step does not
        self.scalars = tuple(
            dict.fromkeys((*self.kernel.params, *(self.probe.kernel.params if self.probe else ())))
        )
        self.launches = 0
        self.compiling = 0.0
        self._functions: dict[bool, Mapping[str, Any]] = {}
        self._work: dict[str, float] = {}
        self._waves: dict[str, Wavefront | None] = {}
        self._plans: dict[Any, Plan] = {}
        self._lock = threading.RLock()
        stored = {s.buffer for n in self.kernel.sections["init"].nests for p in n.pieces for s in p.stores}
        swapped = {x for name in ("init", "step") for s in self.kernel.sections[name].swaps for x in s}
        kept = {
            *self.kernel.inputs.values(),
            *swapped,
            *(b for b in stored if not b.startswith(("init.", "near"))),
            *(s.name(what) for s in self.kernel.lists.values() for what in ("limit", "shifts")),
            *(b.name for b in (self.kernel.tree.buffers() if self.kernel.tree else ())),
        }
        self.kept = [n for n in self.kernel.buffers if n in kept]
        self.fixed = self.unchanged()

    @property
    def made(self) -> int:
        """Modules compiled so far."""
        return self.loader.made

    @property
    def found(self) -> int:
        """Modules that were compiled before and kept."""
        return self.loader.found

    def functions(self, careful: bool) -> Mapping[str, Any]:
        with self._lock:
            if careful not in self._functions:
                began = time.perf_counter()
                self._functions[careful] = self.loader.load(self.kernel, careful)
                self.compiling += time.perf_counter() - began
            return self._functions[careful]

    # --- memory -------------------------------------------------------------------------------
    def zeros(self, b: Buffer) -> Any:
        """MemberBuffers for a buffer."""
        return aligned(b)

    def contents(self, one: MemberBuffers, name: str) -> Any:
        """What a buffer of a member holds now."""
        return one.at(self.slots[name])

    def fill(self, one: MemberBuffers, name: str, values: Any) -> None:
        """An array into a buffer of a member."""
        b, out = self.kernel.buffers[name], one.at(self.slots[name])
        to_planes(values, b, self.kernel.components, out, self.threads)

    def parameters(self, params: Arrays, k: int) -> dict[str, Any]:
        """The array parameters of a member, in their layout; what all share is laid out once."""
        out = {}
        for name, buffer in self.kernel.arrays.items():
            b = self.kernel.buffers[buffer]
            out[buffer] = aligned(b)
            to_planes(params[name][k if len(params[name]) > 1 else 0], b, self.kernel.components, out[buffer])
        return out | self.tables(out)

    def tables(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Array parameters once more, all their axes in a row; and lists of numbers."""
        kernel, out = self.kernel, dict(self.lists)
        for name, buffer in kernel.flat.items():
            b, source = kernel.buffers[buffer], kernel.arrays[name]
            out[buffer] = aligned(b)
            to_planes(
                from_planes(given[source], kernel.buffers[source], b.axes, kernel.components),
                b,
                0,
                out[buffer],
            )
        return out

    @cached_property
    def lists(self) -> dict[str, Any]:
        out = {}
        for name, u in self.kernel.constants.items():
            b = self.kernel.buffers[name]
            numbers: Any = np.array([x.arg for x in u.src], NUMPY_DTYPE[b.dtype.name]).reshape(u.shape)
            out[name] = aligned(b)
            to_planes(numbers, b, self.kernel.components, out[name])
        return out

    def unchanged(self) -> frozenset[str]:
        """What `init` computes of parameters alone and no step writes: copies of a run share it."""
        k = self.kernel
        init, step = k.sections["init"], k.sections["step"]  # careful forms write the same registers
        changed = {
            *k.inputs.values(),
            *(name for part in (init, step) for pair in part.swaps for name in pair),
        }
        changed |= {s.buffer for n in step.nests for p in n.pieces for s in p.stores}
        found: set[str] = set()
        for n in init.nests:
            stores = {s.buffer for p in n.pieces for s in p.stores}
            of_states = k.called or any(u.arg[0] in changed for u in n.loads())
            changed |= stores if of_states else set()
            found |= stores
        return frozenset(x for x in self.kept if x in found and x not in changed)

    def memory(
        self, state: Arrays, params: Arrays, k: int, dt: float, t0: float, scratch: Scratch, shared: dict[str, Any]
    ) -> MemberBuffers:  # fmt: skip
        kernel = self.kernel
        own = {n: self.zeros(kernel.buffers[n]) for n in self.kept}
        varies = any(len(params[name]) > 1 for name in kernel.arrays)
        own |= self.parameters(params, k) if varies else shared
        m = self.placed(own, scratch, self.uniform(params, k, dt, t0), (params, k))
        for name, buffer in kernel.inputs.items():
            self.fill(m, buffer, state[name][k])
        return m

    def placed(
        self, own: dict[str, Any], scratch: Scratch, uniform: Any, given: tuple[Arrays, int]
    ) -> MemberBuffers:
        """The buffers of a member, with a table of where each is; a list says itself where it has what it made."""
        made = {s.name(what) for s in self.kernel.lists.values() for what in MADE}
        places = []
        for n, b in self.kernel.buffers.items():
            there = None if n in made else own[n] if n in own else scratch[n]
            assert there is None or there.nbytes >= b.size * b.dtype.bits // 8, (
                f"{n} has not the room it needs"
            )
            places.append(0 if there is None else there.ctypes.data)
        return self.listed(
            MemberBuffers(own, np.array(places, np.uintp), uniform, given, fixed=self.fixed), scratch
        )

    def uniform(self, params: Arrays, k: int, dt: float, t0: float) -> Any:
        """The scalars of a member."""
        out = np.zeros(len(self.scalars))
        for slot, p in enumerate(self.scalars):
            name = str(p.arg)[1:]
            out[slot] = (
                dt
                if name == "dt"
                else t0
                if name == "t0"
                else params[name][k if len(params[name]) > 1 else 0]
            )
        return out

    def listed(self, m: MemberBuffers, scratch: Scratch) -> MemberBuffers:
        """With the lists of neighbours and the tree that the kernel asks for, still to be made."""
        for number, spec in self.kernel.lists.items():
            assert self.lists_by is not None
            names = {what: spec.name(what) for what in ("limit", "shifts", "points")}
            own = {what: m.own[n] if n in m.own else scratch[n] for what, n in names.items()}
            m.attach(
                number,
                NearList(spec, domain_of(spec, *m.given), own, self.lists_by, self.threads),
                self.slots,
            )
        if (spec := self.kernel.tree) is not None:
            assert self.trees_by is not None
            softening = softening_of(spec, *m.given)
            m.plant(TreePull(spec, softening, m.own, self.trees_by(), self.threads), self.slots)
        m.look_up(self.kernel, self.slots)
        return m

    # --- calls --------------------------------------------------------------------------------
    def run(self, section: str, m: MemberBuffers, first: int, steps: int, careful: bool = False) -> bool:
        """Some steps of a section; was every argument small enough?"""
        f = self.functions(careful)
        flags = np.zeros(8, np.int8)
        workers = self.helpers(self.work(section))
        self.launches += 1
        if workers <= 1 or is_quick(f[section], self.work(section) * steps):
            f[section](m.table, m.uniform, flags, first, steps)
        else:
            self.share(section, m, first, steps, flags, workers, careful)
        return not flags[0]

    def helpers(self, work: float) -> int:
        """The threads that share so many operations."""
        return min(self.threads, int(work // THREAD_WORK)) if self.loader.threads else 1

    def share(
        self, section: str, m: MemberBuffers, first: int, steps: int, flags: Any, workers: int, careful: bool
    ) -> None:
        """Some steps by threads, all of them in one call where no nest calls Python and no loop ends by itself."""
        s, f = self.kernel.sections[section], self.functions(careful)
        threads = Threads(workers, self.loader.team, m.table, m.uniform, flags)

        def cut(turns: Any, make: Callable[[Shares], Any]) -> Plan:
            known = section, careful, workers, turns
            if known not in self._plans:
                places = {name: call.at for name, call in f.items()}
                made = Shares(workers, THREAD_WORK / 256, places, self.slots)
                make(made)
                self._plans[known] = Plan.of(made)
            return self._plans[known]

        def together(turn: Round, now: int) -> None:
            threads.run(cut(turn, lambda c: c.turn(s, turn)), now, 1)

        def do(turn: Round, now: int) -> bool:
            begin = turn.begin
            for k in range(turn.begin, turn.end):
                if s.nests[k].way.calls:
                    together(Round(begin, k), now)
                    f[f"part.{section}.{k}"](m.table, m.uniform, flags, 0, 1, now)
                    begin = k + 1
            together(replace(turn, begin=begin), now)
            if not turn.going:
                return True
            return bool(ctypes.c_int32.from_address(int(m.table[self.slots[turn.going]])).value)

        if not s.ends_early and not any(n.way.calls for n in s.nests):
            wave, done = self.wave(section), 0
            if wave is not None and f"part.sweep.{section}" in f:
                groups = steps // wave.steps
                threads.run(cut("sweep", lambda c: c.sweep(section, wave)), first, groups, wave.steps)
                done = groups * wave.steps
            every = cut("", lambda c: [c.turn(s, turn) for turn in s.sequence()])
            threads.run(every, first + done, steps - done)
            return
        for now in range(first, first + steps):
            if not s.run(partial(do, now=now)):
                return

    def wave(self, section: str) -> Wavefront | None:
        """The pass through several steps at once that a section allows."""
        if section not in self._waves:
            self._waves[section] = wavefront(self.kernel.sections[section], self.kernel.buffers)
        return self._waves[section]

    def work(self, section: str) -> float:
        """Operations of one run of a section."""
        if section not in self._work:
            self._work[section] = float(self.kernel.sections[section].work)
        return self._work[section]

    def careful_run(self, section: str, m: MemberBuffers, first: int, steps: int) -> None:
        before = m.copy(self.threads) if self.kernel.guarded else None
        made = {k: near.made for k, near in m.lists.items() if section == "final"}
        chosen = m.tree.chosen if m.tree is not None and section == "final" else None
        if not self.run(section, m, first, steps):
            assert before is not None
            m.put(before)
            self.run(section, m, first, steps, careful=True)
        for k, before_it in made.items():  # to look at a state must not change what follows
            m.lists[k].made = before_it
            m.show(k)
        if chosen is not None:
            assert m.tree is not None
            m.tree.chosen = chosen
        if (stop := m.stopped) is not None:
            m.stopped = None
            raise stop

    # --- what the runtime asks ----------------------------------------------------------------
    def block(self, members: int) -> int:
        self.functions(False)
        work, kept = (
            self.work("step"),
            sum(self.kernel.buffers[n].size for n in self.kept if n not in self.fixed),
        )
        shared = BLOCK_WORK * max(self.helpers(work), 1) / (work * max(members, 1) + 1)
        return max(1, int(max(shared, COPIED * kept / (work + 1))))

    def rows(self, m: NestState) -> int:
        outputs = self.kernel.outputs if self.probe is None else self.probe.kernel.outputs
        one = sum(prod(shape) * d.bits // 8 for _, d, shape in outputs.values())
        most = FRAMES_BYTES if self.probe is None else ROWS_BYTES
        return max(1, int(most / (one * max(len(m.members), 1) + 1)))

    def start(
        self,
        state: Arrays,
        params: Arrays,
        members: int,
        dt: float,
        t0: float,
        threads: int | None = None,
        chosen: Any = None,
    ) -> NestState:
        """Members at the beginning of a run; `chosen` is what trees chose when it really began."""
        scratch = Scratch(self.kernel, self.zeros)
        varies = any(len(params[name]) > 1 for name in self.kernel.arrays)
        shared = {} if varies else self.parameters(params, 0)

        def one(k: int) -> MemberBuffers:
            m = self.memory(state, params, k, dt, t0, scratch, shared)
            if chosen is not None:
                assert m.tree is not None
                m.tree.chosen = chosen[k]
            self.careful_run("init", m, 0, 1)
            return m

        if not self.kernel.sections["step"].nests:
            return NestState([], 0, scratch, one, members)
        return NestState([one(k) for k in range(members)], 0, scratch)

    def snapshot(self, m: NestState) -> NestState:
        return self.some(m, range(len(m.members)))

    def some(self, m: NestState, members: Sequence[int]) -> NestState:
        chosen = [m.members[k].copy(self.threads) for k in members] if m.members else []
        return replace(m, members=chosen)

    def overwrite(self, m: NestState, members: Sequence[int], well: int) -> None:
        for k in members:
            m.members[k] = m.members[well].copy()

    def advance(self, m: NestState, steps: int) -> None:
        for one in m.members:
            self.careful_run("step", one, m.steps, steps)
        m.steps += steps

    def watch(self, m: NestState, rows: int, stride: int) -> dict[str, Any]:
        """Advances rows*stride steps; the observables after every stride: (rows, members, shape...).

        Without any they are the synchronised states.
        """
        if self.probe is None:
            return self.frames(m, rows, stride)
        k = self.probe.kernel
        out: dict[str, list[Any]] = {name: [] for name in k.outputs}
        for _ in range(rows):
            self.advance(m, stride)
            for one in m.members:
                for name, value in self.observe(m, one).items():
                    out[name].append(value)
        return {
            name: np.array(v, NUMPY_DTYPE[k.outputs[name][1].name]).reshape(
                rows, len(m.members), *k.outputs[name][2]
            )
            for name, v in out.items()
        }

    def frames(self, m: NestState, rows: int, stride: int) -> dict[str, Any]:
        out = self.empty_frames(rows, len(m.members))
        for row in range(rows):
            self.advance(m, stride)
            for j, one in enumerate(m.members):
                self.careful_run("final", one, m.steps, 1)
                self.show(m, out, row, j)
        return out

    def observe(self, m: NestState, one: MemberBuffers) -> dict[str, Any]:
        """The probe's values, from the synchronised state where it lies."""
        p = self.probe
        assert p is not None
        self.careful_run("final", one, m.steps, 1)
        if m.watching is None:
            m.watching = Scratch(p.kernel, p.zeros)
        own = {buffer: m.scratch[f"&{name}"] for name, buffer in p.kernel.inputs.items()} | p.looking(one)
        values = dict(zip(self.scalars, one.uniform))
        look = p.placed(own, m.watching, np.array([values[q] for q in p.kernel.params]), one.given)
        p.careful_run("init", look, m.steps, 1)
        p.careful_run("final", look, m.steps, 1)
        return p.outputs(m.watching)

    def looking(self, one: MemberBuffers) -> dict[str, Any]:
        """The array parameters of a member as a probe wants them."""
        own = {buffer: one.own[buffer] for buffer in self.kernel.arrays.values()}
        return own | self.tables(own)

    def outputs(self, scratch: Scratch) -> dict[str, Any]:
        k = self.kernel
        return {
            name: from_planes(self.left(scratch, buffer), k.buffers[buffer], shape, k.components)
            for name, (buffer, _, shape) in k.outputs.items()
        }

    def bad(self, m: NestState) -> list[int]:
        """The members with a number that is not finite."""
        return [k for k in range(len(m.members)) if self.first_bad(m, k) is not None]

    def first_bad(self, m: NestState, k: int) -> tuple[str, int] | None:
        """(state, index) of the first bad number of a member."""
        kernel = self.kernel
        for s in self.program.states:
            if s.counts:
                continue
            b = kernel.buffers[kernel.inputs[s.name]]
            data = self.contents(m.members[k], b.name)
            rows = data.reshape(b.planes, b.plane)[:, : prod(b.axes)]
            if not all_finite(rows, self.threads):
                whole = from_planes(data, b, s.type.shape, kernel.components)
                return s.name, int(np.flatnonzero(~finite(whole))[0])
        return None

    def synchronised(self, m: NestState) -> dict[str, Any]:
        count = len(m.members) if m.later is None else m.count
        out = {name: v[0] for name, v in self.empty_frames(1, count).items()}
        self.synchronised_into(m, out)
        return out

    def synchronised_into(self, m: NestState, out: Mapping[str, Any]) -> bool:
        if out.keys() != self.kernel.outputs.keys():
            return False
        rows = {name: v[None] for name, v in out.items()}
        for j, one in enumerate(m.each()):
            self.careful_run("final", one, m.steps, 1)
            self.show(m, rows, 0, j)
        return True

    def empty_frames(self, rows: int, members: int) -> dict[str, Any]:
        """MemberBuffers for what `final` gives: (rows, members, shape...)."""
        return {
            name: np.empty((rows, members, *shape), NUMPY_DTYPE[d.name])
            for name, (_, d, shape) in self.kernel.outputs.items()
        }

    def left(self, scratch: Scratch, buffer: str) -> Any:
        """What a scratch buffer holds now."""
        return scratch[buffer]

    def show(self, m: NestState, out: Mapping[str, Any], row: int, j: int) -> None:
        """What `final` left of a member, into its place."""
        k = self.kernel
        for name, (buffer, _, shape) in k.outputs.items():
            b = k.buffers[buffer]
            place = seen_as(out[name], b, shape, k.components)[row, j, ...]
            data = self.left(m.scratch, buffer).reshape(b.planes, b.plane)[:, : prod(b.axes)]
            copy(data.reshape(place.shape), place, self.threads)

    # --- for a run whose steps have their own lengths (runtime/engines/adaptive.py) -------------------
    @property
    def states(self) -> Any:
        return self.program.states

    def tell(self, m: NestState, name: str, value: float) -> None:
        """Another value of a parameter that all members share, for these loops alone."""
        slot = next(k for k, p in enumerate(self.scalars) if p.arg == f"${name}")
        for one in m.members:
            one.uniform = one.uniform.copy()
            one.uniform[slot] = value

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of all that the loop carries."""
        return {name: shape for name, (_, shape) in loop_registers(self.program).items()}

    def register(self, m: NestState, name: str) -> Any:
        """A register of all members: (members, numbers)."""
        k, shape = self.kernel, self.shapes[name]
        b = k.buffers[name]
        rows = [in_planes(self.contents(one, name), b, shape, k.components) for one in m.members]
        return np.array(rows).reshape(len(rows), prod(shape))

    def patience(self, m: NestState, work: float) -> int:
        """Steps of so many operations."""
        return max(1, int(work / (self.work("step") * max(len(m.members), 1) + 1)))

    def named(self, m: NestState, names: Sequence[str]) -> dict[str, Any]:
        """Of what `final` gives, that of these names."""
        return {name: v for name, v in self.synchronised(m).items() if name in names}

    def again(self, m: NestState, state: Arrays) -> None:
        for name, values in state.items():
            self.fill(m.members[0], self.kernel.inputs[name], values[0])
        self.careful_run("init", m.members[0], 0, 1)

    def only(self, m: NestState, k: int) -> NestState:
        return replace(m, members=m.members[k : k + 1])

    def registers(self, m: NestState) -> dict[str, Any]:
        """All that the loop carries, by the names of the program: (members, numbers)."""
        k, out = self.kernel, {name: self.register(m, name) for name in self.shapes}
        points = {
            f"near{number}": [one.lists[number].points.T.ravel() for one in m.members] for number in k.lists
        }
        trees = (
            {} if k.tree is None else {"tree": [one.tree.chosen for one in m.members if one.tree is not None]}
        )
        return out | {name: np.array(rows) for name, rows in (points | trees).items()}

    def findings(self, m: NestState) -> dict[str, Any]:
        return {"measured": self.measured(m)}

    def measured(self, m: NestState) -> list[dict[str, float]]:
        """What is to be said of the tree of each member that has asked one."""
        return [one.tree.measured() for one in m.members if one.tree is not None and one.tree.angle > 0.0]

    def restored(
        self,
        registers: Arrays,
        params: Arrays,
        members: int,
        dt: float,
        t0: float,
        steps: int,
        threads: int | None = None,
    ) -> NestState:
        """A loop from its registers after so many steps; what depends on parameters alone is computed again."""
        whole = {name: registers[name].reshape(members, *shape) for name, shape in self.shapes.items()}
        state = {s.name: whole[f"S{i}"] for i, s in enumerate(self.program.states)}
        m = self.start(state, params, members, dt, t0, threads, registers.get("tree"))
        for j, one in enumerate(m.members):
            for name, values in whole.items():
                self.fill(one, name, values[j])
            for number, near in one.lists.items():
                near.make_at(registers[f"near{number}"][j].reshape(near.spec.shape).T)
                one.show(number)
        m.steps = steps
        return m

    def refill(self, m: NestState, registers: Arrays, steps: int) -> bool:
        """Other registers in a loop that is there; not where lists or trees remember where points were."""
        if self.kernel.lists or self.kernel.tree is not None or not m.members:
            return False
        for j, one in enumerate(m.members):
            for name, shape in self.shapes.items():
                self.fill(one, name, registers[name][j].reshape(shape))
        m.steps = steps
        return True
