"""How do loop nests run on a GPU?  As on a processor (device/engines/loops.py), with all buffers there and nests as launches.

Many steps are queued as one graph; since buffers change places, a graph is of as many steps as bring them back. Only what
is read comes here: frames, observables, a flag that says whether a guard fired or a number is none.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda.ahead import LookAhead, acts, place_of, swapped
from tinyphysics.device.cuda.dlpack import DeviceArray, empty
from tinyphysics.device.cuda.neighbours import DeviceList
from tinyphysics.device.cuda.tree import CudaTree, seeded
from tinyphysics.device.engines.loops import NestEngine
from tinyphysics.device.host.memory import (
    FIXED,
    Arrays,
    MemberBuffers,
    NestState,
    Scratch,
    strides_of,
    to_planes,
)
from tinyphysics.device.host.neighbours import aligned, domain_of
from tinyphysics.device.numbers import NUMPY_DTYPE
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import toposort
from tinyphysics.tpir.kernels.neighbours import MADE
from tinyphysics.tpir.kernels.nests import Buffer, LoopSection, Round
from tinyphysics.tpir.kernels.rounds import ON
from tinyphysics.tpir.kernels.tree import NUMBERS
from tinyphysics.util import prod

BLOCK_WORK = 1e12  # operations in a block of time: some tenths of a second
BLOCK_LAUNCHES = 1e5  # of kernels, likewise
NODES = 256  # launches of a graph at most
WORTH = 16  # launches of a graph at least
GRAPHS = 8  # that a member keeps
ATTEMPTS = 4  # of a step that chooses its own length, between two looks at its clock
LOOK = 3  # rounds of a solution between two looks at whether it has arrived
FEW = 8  # members with nothing to step that stay there, if they begin again
CLOCK = 16  # bytes: the step that a graph begins with, and where a run waits for a list of neighbours


@dataclass(frozen=True)
class Call:
    """A kernel as it is launched: the names of the buffers that are its first arguments."""

    function: cuda.Function
    blocks: int
    block: int
    buffers: tuple[str, ...]
    clocked: bool


@dataclass(frozen=True)
class Loaded:
    """The kernels of all sections, nest by nest; `tick` counts steps, `look` finds numbers that are none."""

    sections: Mapping[str, Sequence[Sequence[Call]]]
    look: Sequence[Sequence[Call]]
    tick: cuda.Function
    workspace: cuda.Buffer  # where accumulators wait for each other
    halt: cuda.Function | None = None  # if a list of neighbours is asked for, nothing runs until it is made
    go_on: cuda.Function | None = None


def copied(b: cuda.Buffer) -> cuda.Buffer:
    return cuda.copy(b, cuda.Buffer(b.size))


@dataclass
class Place(MemberBuffers):
    """The buffers of one member on the device; `held` is what each name stands for, after so many swaps."""

    held: dict[str, cuda.Buffer] = field(default_factory=dict)
    shared: Any = None  # `uniform` on the device
    flags: Any = None
    clock: Any = None
    time: int = 0  # what the clock says
    graphs: dict[Any, cuda.Graph] = field(default_factory=dict)
    looking: dict[str, cuda.Buffer] = field(default_factory=dict)  # array parameters as a probe wants them
    pace: LookAhead = field(default_factory=LookAhead)

    def copy(self, threads: int = 1) -> Place:
        own = {
            name: b if name.startswith(FIXED) or name in self.fixed else copied(b)
            for name, b in self.own.items()
        }
        moved = {id(b): own[name] for name, b in self.own.items()}
        held = {name: moved.get(id(b), b) for name, b in self.held.items()}
        lists = {k: near.copy() for k, near in self.lists.items()}
        held |= {near.spec.name("asked"): cuda.zero(cuda.Buffer(8)) for near in lists.values()}
        tree = None if self.tree is None else self.tree.copy(self.tree.own)
        clock = cuda.zero(cuda.Buffer(CLOCK))
        return replace(
            self,
            own=own,
            held=held,
            lists=lists,
            tree=tree,
            clock=clock,
            time=0,
            flags=cuda.Buffer(8),
            graphs={},
            pace=replace(self.pace),
        )

    def lent(self) -> Place:
        """The member itself, with all that it has; a copy of it stays here."""
        lists = {k: near.apart() for k, near in self.lists.items()}
        kept, live = self.copy(), replace(self)
        for number, near in lists.items():
            if near is not None:
                self.lists[number].alone, kept.lists[number] = True, near
                kept.show(number)
        self.__dict__.update(kept.__dict__)
        return live

    def put(self, other: MemberBuffers) -> None:
        assert isinstance(other, Place)
        self.own, self.held, self.lists, self.tree = other.own, other.held, other.lists, other.tree

    @property
    def tree_is_new(self) -> bool:
        return isinstance(self.tree, CudaTree) and not self.tree.ready

    def show(self, number: int) -> None:
        """A list, where the kernels that read it find it."""
        self.held |= self.lists[number].made

    def swap(self, section: LoopSection) -> None:
        """After one step."""
        for turn in section.sequence():
            for a, b in turn.swaps:
                self.held[a], self.held[b] = self.held[b], self.held[a]


class CudaLoopEngine(NestEngine):
    """An engine (runtime/engines/engine.py)."""

    shows_states = False

    def loaded(self, careful: bool) -> Loaded:
        found: Any = self.functions(careful)
        assert isinstance(found, Loaded)
        return found

    # --- memory -------------------------------------------------------------------------------
    def zeros(self, b: Buffer) -> cuda.Buffer:
        return cuda.zero(cuda.Buffer(b.size * b.dtype.bits // 8))

    def looking(self, one: MemberBuffers) -> dict[str, Any]:
        assert isinstance(one, Place)
        if not one.looking:
            one.looking = self.parameters(*one.given)
        return one.looking

    def parameters(self, params: Arrays, k: int) -> dict[str, Any]:
        return {name: cuda.upload(a) for name, a in super().parameters(params, k).items()}

    def placed(self, own: dict[str, Any], scratch: Scratch, uniform: Any, given: tuple[Arrays, int]) -> Place:
        made = {s.name(what) for s in self.kernel.lists.values() for what in (*MADE, "call")}
        held = {n: own[n] if n in own else scratch[n] for n in self.kernel.buffers if n not in made}
        shared = cuda.upload(uniform) if uniform.size else cuda.Buffer(8)
        clock = cuda.zero(cuda.Buffer(CLOCK))
        m = Place(
            own,
            None,
            uniform,
            given,
            held=held,
            shared=shared,
            flags=cuda.Buffer(8),
            clock=clock,
            fixed=self.fixed,
        )
        self.listed(m, scratch)
        return m

    def listed(self, m: MemberBuffers, scratch: Scratch) -> MemberBuffers:
        """With the lists of neighbours that the kernel asks for, still to be made."""
        assert isinstance(m, Place)
        for number, spec in self.kernel.lists.items():
            near = DeviceList(spec, domain_of(spec, *m.given), self.loader.lists)  # type: ignore[attr-defined]
            m.lists[number] = near
            cuda.write(m.held[spec.name("limit")], near.limit)
            m.held[spec.name("asked")] = cuda.zero(cuda.Buffer(8))
            m.show(number)
        if self.kernel.tree is not None:
            assert self.trees_by is not None
            m.tree = seeded(self.kernel, m.given, self.trees_by())
            m.own[NUMBERS] = m.held[NUMBERS] = cuda.Buffer(16)
        return m

    def relist(self, f: Loaded, m: Place, number: int) -> None:
        """A new list of points that have gone too far; what was queued after it was asked for has done nothing."""
        near: DeviceList = m.lists[number]
        before = cuda.device().launches
        near.make(m.held[near.spec.name("points")])
        m.show(number)
        assert f.go_on is not None
        cuda.launch(f.go_on, 1, 1, [m.clock, m.held[near.spec.name("asked")]])
        self.launches += cuda.device().launches - before

    def contents(self, one: MemberBuffers, name: str) -> Any:
        assert isinstance(one, Place)
        return read(one.held[name], self.kernel.buffers[name])

    def fill(self, one: MemberBuffers, name: str, values: Any) -> None:
        assert isinstance(one, Place)
        b = self.kernel.buffers[name]
        if isinstance(values, DeviceArray):
            strides = strides_of(b, values.shape, self.kernel.components)
            return self.loader.moves.planes(values, one.held[name], strides, True)  # type: ignore[attr-defined, no-any-return]
        here = aligned(b)
        to_planes(values, b, self.kernel.components, here)
        cuda.write(one.held[name], here)

    # --- calls --------------------------------------------------------------------------------
    def launch(
        self, calls: Sequence[Call], m: Place, workspace: cuda.Buffer, ahead: int, flags: Any = None
    ) -> None:
        with (
            cuda.device().lock
        ):  # runs of other threads use the workspace, too: between two nests, not within one
            for c in calls:
                buffers = [m.held.get(name, workspace) for name in c.buffers]
                given = [
                    *buffers,
                    m.shared,
                    m.flags if flags is None else flags,
                    m.clock,
                    ctypes.c_int64(ahead),
                ]
                cuda.launch(c.function, c.blocks, c.block, given)
        self.launches += len(calls)

    def run(self, section: str, m: MemberBuffers, first: int, steps: int, careful: bool = False) -> bool:
        """Some steps of a section; was every argument small enough?"""
        assert isinstance(m, Place)
        f = self.loaded(careful)
        s = (self.kernel.careful if careful else self.kernel.sections)[section]
        guarded = any(p.guards for n in s.nests for p in n.pieces)
        if guarded:
            cuda.zero(m.flags)
        clocked = bool(m.lists) or any(c.clocked for nest in f.sections[section] for c in nest)
        if clocked:
            self.tick(f, m, first - m.time)
        if s.repeats:
            for k in range(steps):
                self.step_in_rounds(f, s, m, k)
            return not (guarded and cuda.read(m.flags, np.zeros(8, np.int8))[0])
        if m.tree_is_new and not m.lists and steps > 1:  # this machine looks at its first evaluation
            self.step_once(f, s, m, 0)
            if clocked:
                self.tick(f, m, 1)
            steps -= 1
        count = 0 if m.lists else self.together(f, s, m, steps)
        graph = self.graph(f, s, m, count, careful, clocked) if count and steps >= count else None
        for _ in range(steps // count if graph else 0):
            graph.launch()  # type: ignore[union-attr]
            self.launches += 1
            m.time += count if clocked else 0
        if m.lists:
            self.run_ahead(f, s, m, first, steps, careful)
        else:
            for k in range(steps % count if count else steps):
                self.step_once(f, s, m, k)
        return not (guarded and cuda.read(m.flags, np.zeros(8, np.int8))[0])

    def tick(self, f: Loaded, m: Place, steps: int) -> None:
        """The clock of a member, set forward or back."""
        if steps:
            cuda.launch(f.tick, 1, 1, [m.clock, ctypes.c_int64(steps)])
            m.time += steps

    def step_once(self, f: Loaded, s: LoopSection, m: Place, ahead: int, begin: int = 0) -> None:
        """A step, or what is left of it."""
        for number, act in enumerate(acts(s)[begin:], begin):
            for a, b in act.swaps:
                m.held[a], m.held[b] = m.held[b], m.held[a]
            if act.nest is None:
                continue
            nest, calls = s.nests[act.nest], f.sections[s.name][act.nest]
            if nest.kind == "tree" and m.tree_is_new:
                assert isinstance(m.tree, CudaTree)
                if m.lists and cuda.read(m.clock, np.zeros(2, np.int64))[1]:
                    return  # a list is waited for: there is nothing to look at yet
                self.launch(calls[:1], m, f.workspace, ahead)
                if (
                    m.lists and cuda.read(m.clock, np.zeros(2, np.int64))[1]
                ):  # a list is waited for: nothing was stored
                    return
                m.tree.prepare(m.held)
                calls = calls[1:]
            self.launch(calls, m, f.workspace, ahead)
            if nest.kind == "list":
                assert nest.near is not None and f.halt is not None
                asked = m.held[m.lists[nest.near].spec.name("asked")]
                cuda.launch(f.halt, 1, 1, [m.clock, asked, ctypes.c_int64(ahead), ctypes.c_int64(number)])
                self.launches += 1

    def step_in_rounds(self, f: Loaded, s: LoopSection, m: Place, ahead: int) -> None:
        """A step with loops that end by themselves: rounds after the last change nothing, so this machine looks seldom."""
        done: dict[str, int] = {}

        def do(turn: Round) -> bool:
            for k in range(turn.begin, turn.end):
                self.launch(f.sections[s.name][k], m, f.workspace, ahead)
            for a, b in turn.swaps:
                m.held[a], m.held[b] = m.held[b], m.held[a]
            if not turn.going.endswith(ON):
                return True
            done[turn.going] = done.get(turn.going, 0) + 1
            if done[turn.going] % LOOK:
                return True
            return bool(read(m.held[turn.going], self.kernel.buffers[turn.going])[0])

        s.run(do)

    def run_ahead(self, f: Loaded, s: LoopSection, m: Place, first: int, steps: int, careful: bool) -> None:
        """Steps with lists of neighbours, some at a time; the clock tells where they wait for one (device/cuda/ahead.py)."""
        if s.name == "final":  # to look at a state must not change what follows: its lists are kept
            for near in m.lists.values():
                near.alone = False
        done, begin, period = 0, 0, self.period(s, m)
        while done < steps:
            before, count = dict(m.held), m.pace.ahead(steps - done)
            graphs = steps > WORTH and not m.tree_is_new
            self.queue_ahead(f, s, m, first + done, begin, count, period if graphs else count + 1, careful)
            m.time, word = cuda.read(m.clock, np.zeros(2, np.int64)).tolist()
            if not word:
                done, begin = done + count, 0
                m.pace.went(count)
                continue
            step, number = place_of(word)
            m.held = swapped(before, acts(s), begin, step - first - done, number)
            m.pace.stopped(step - first - done)
            nest = s.nests[acts(s)[number].nest or 0]
            assert nest.near is not None
            self.relist(f, m, nest.near)
            done, begin = step - first, number + 1

    def queue_ahead(
        self,
        f: Loaded,
        s: LoopSection,
        m: Place,
        now: int,
        begin: int,
        count: int,
        period: int,
        careful: bool,
    ) -> None:
        """So many steps, the first of them from its act `begin` on; by graphs where as many are left as one has."""
        k = 0
        if begin:
            self.step_once(f, s, m, now - m.time, begin)
            k = 1
        if count - k >= period:
            self.tick(f, m, now + k - m.time)
            graph = self.graph(f, s, m, period, careful, True)
        while count - k >= period:
            graph.launch()  # after it buffers are under their names again
            self.launches += 1
            m.time += period
            k += period
        for ahead in range(now + k - m.time, now + count - m.time):
            self.step_once(f, s, m, ahead)

    def together(self, f: Loaded, s: LoopSection, m: Place, steps: int) -> int:
        """Steps of a graph that runs at least twice, after which every buffer is under its name again; 0: no graph."""
        each, period = self.launches_of(f, s), self.period(s, m)
        count = min(NODES // max(each, 1), steps // 2) // period * period
        return count if count * each >= WORTH else 0

    def graph(
        self, f: Loaded, s: LoopSection, m: Place, count: int, careful: bool, clocked: bool
    ) -> cuda.Graph:
        """So many steps, from where the buffers lie now."""
        key = (s.name, careful, count, *(b.pointer for b in m.held.values()))
        if key not in m.graphs:
            if len(m.graphs) >= GRAPHS:
                m.graphs.clear()
            launches, time = self.launches, m.time
            m.graphs[key] = cuda.Graph(lambda: self.queue(f, s, m, count, clocked))
            self.launches, m.time = launches, time  # nothing has run yet
        return m.graphs[key]

    def queue(self, f: Loaded, s: LoopSection, m: Place, count: int, clocked: bool) -> None:
        """What a graph is made of."""
        for k in range(count):
            self.step_once(f, s, m, k)
        if clocked:
            self.tick(f, m, count)

    def launches_of(self, f: Loaded, s: LoopSection) -> int:
        """Of one step."""
        return sum(len(nest) for turn in s.sequence() for nest in f.sections[s.name][turn.begin : turn.end])

    def period(self, s: LoopSection, m: Place) -> int:
        """After how many steps is every buffer under its name again?"""
        trial, steps = replace(m, held=dict(m.held)), 0
        while True:
            trial.swap(s)
            steps += 1
            if all(trial.held[name] is b for name, b in m.held.items()):
                return steps

    # --- what the runtime asks ----------------------------------------------------------------
    def measured(self, m: NestState) -> list[dict[str, float]]:
        for one in m.members:
            if isinstance(one, Place) and isinstance(one.tree, CudaTree) and one.tree.angle > 0.0:
                one.tree.look(one.held)
        return super().measured(m)

    def block(self, members: int) -> int:
        each = self.launches_of(self.loaded(False), self.kernel.sections["step"])
        most = (
            BLOCK_WORK / (self.work("step") * max(members, 1) + 1),
            BLOCK_LAUNCHES / (each * max(members, 1) + 1),
        )
        return max(1, int(min(most)))

    def left(self, scratch: Scratch, buffer: str) -> Any:
        return read(scratch[buffer], self.kernel.buffers[buffer])

    def synchronised_there(self, m: NestState) -> dict[str, DeviceArray]:
        """Each output on the device, (members, shape...)."""
        k, count = self.kernel, len(m.members) or m.count
        out = {name: empty((count, *shape), NUMPY_DTYPE[d.name]) for name, (_, d, shape) in k.outputs.items()}
        for j, one in enumerate(m.each()):
            self.careful_run("final", one, m.steps, 1)
            for name, (buffer, _, shape) in k.outputs.items():
                strides = strides_of(k.buffers[buffer], shape, k.components)
                self.loader.moves.planes(out[name][j], m.scratch[buffer], strides, False)  # type: ignore[attr-defined]
        return out

    @property
    def keeps_there(self) -> bool:
        """Are all registers numbers that can be left there?  Lists and trees remember points on this machine."""
        return not self.kernel.lists and self.kernel.tree is None and bool(self.kernel.sections["step"].nests)

    def registers_there(self, m: NestState) -> dict[str, DeviceArray]:
        """A copy of all that the loop carries, by the names of the program: (members, numbers)."""
        out, count = {}, len(m.members)
        for name, shape in self.shapes.items():
            b = self.kernel.buffers[name]
            out[name] = a = empty((count, prod(shape)), NUMPY_DTYPE[b.dtype.name])
            strides = strides_of(b, shape, self.kernel.components)
            for j, one in enumerate(m.members):
                assert isinstance(one, Place)
                self.loader.moves.planes(a[j].reshape(shape), one.held[name], strides, False)  # type: ignore[attr-defined]
        return out

    def hand_on(self, m: NestState, to: NestState) -> None:
        """Lists in a loop that begins again last about as long as those before."""
        for old, new in zip(m.members, to.members):
            assert isinstance(old, Place) and isinstance(new, Place)
            new.pace = LookAhead(0, old.pace.lasted)

    @cached_property
    def lists_follow(self) -> frozenset[str]:
        """The parameters that lists of neighbours are made by."""
        lengths = [u for s in self.kernel.lists.values() for u in (s.cutoff, s.skin, s.cell) if u is not None]
        return frozenset(str(u.arg)[1:] for u in toposort(lengths) if u.op is Ops.VAR)

    def begin_again(
        self, m: NestState, state: Arrays, params: Arrays, members: int, dt: float, t0: float
    ) -> NestState:
        """In the same buffers, so that graphs go on finding them, if only array parameters have changed."""
        before = m.members[0].given[0] if m.members else {}
        others = {name for name, v in params.items() if v is not before.get(name)}
        varies = any(len(params[name]) > 1 for name in self.kernel.arrays)
        if (
            not others <= {*self.kernel.arrays}
            or others & self.lists_follow
            or varies
            or self.kernel.tree is not None
            or len(m.members) != members
        ):
            new: NestState = super().begin_again(m, state, params, members, dt, t0)
            if new.later is not None and m.later is not None and members <= FEW:  # who asks again keeps them
                return NestState([new.later(k) for k in range(members)], 0, new.scratch)
            return new
        given = NestEngine.parameters(self, params, 0) if others else {}
        for k, one in enumerate(m.members):
            assert isinstance(one, Place)
            one.given, one.looking = (params, k), {}
            for name, b in one.own.items():
                if name in given:
                    cuda.write(b, given[name])
                elif not name.startswith(FIXED):
                    cuda.zero(b)
            for near in one.lists.values():
                near.forget()
                cuda.write(one.held[near.spec.name("limit")], near.limit)
                cuda.zero(one.held[near.spec.name("asked")])
            for number in one.lists:
                one.show(number)
            for name, buffer in self.kernel.inputs.items():
                self.fill(one, buffer, state[name][k])
            one.pace = LookAhead(0, one.pace.lasted)
            self.careful_run("init", one, 0, 1)
        m.steps = 0
        return m

    def lent(self, m: NestState) -> NestState:
        """What goes on has the buffers, and so the graphs; the copy stays."""
        return replace(m, members=[one.lent() for one in m.members if isinstance(one, Place)])

    # --- for a run whose steps have their own lengths (runtime/engines/adaptive.py) -------------------
    def tell(self, m: NestState, name: str, value: float) -> None:
        super().tell(m, name, value)
        for one in m.members:
            assert isinstance(one, Place)
            one.shared, one.graphs = cuda.upload(one.uniform), {}

    def patience(self, m: NestState, work: float) -> int:
        """Attempts that are queued before the clock is looked at: one after the last does nothing, and takes its time."""
        return ATTEMPTS

    def named_there(self, m: NestState, names: Sequence[str]) -> dict[str, DeviceArray]:
        """Of what `final` gives, that of these names, on the device."""
        return {name: v for name, v in self.synchronised_there(m).items() if name in names}

    def bad(self, m: NestState) -> list[int]:
        """The members with a number that is not finite: a flag each, read at once."""
        if not m.members:
            return []
        f, count = self.loaded(False), len(m.members)
        flags = cuda.zero(cuda.Buffer(count))
        for k, one in enumerate(m.members):
            assert isinstance(one, Place)
            for nest in f.look:
                self.launch(nest, one, f.workspace, 0, ctypes.c_uint64(flags.pointer + k))
        return np.flatnonzero(cuda.read(flags, np.zeros(count, np.int8))).tolist()


def read(source: cuda.Buffer, b: Buffer) -> Any:
    """A buffer of the device, here."""
    return cuda.read(source, np.empty(b.size, NUMPY_DTYPE[b.dtype.name]))
