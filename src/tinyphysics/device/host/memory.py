"""What do loop nests of one member read and write?  Buffers in planes, a table of where they are, lists and trees to call.

Components of points are planes of their own, so that a loop along the points reads neighbours in memory.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np

from tinyphysics.device.host.copies import copied, copy
from tinyphysics.device.host.neighbours import NearList, aligned
from tinyphysics.device.host.nests import view
from tinyphysics.device.host.tree import TreePull
from tinyphysics.tpir.kernels.at_index import is_component
from tinyphysics.tpir.kernels.nests import Buffer, LoopKernel, Nest
from tinyphysics.tpir.kernels.tree import back_call_of, back_of, call_of, pull_of
from tinyphysics.util import prod

Arrays = Mapping[str, Any]
FIXED = ("$", "flat.", "list.")  # buffers that no step writes
CALL = ctypes.CFUNCTYPE(None)  # a list must be made again


@lru_cache(maxsize=1024)
def order_of(shape: tuple[int, ...], components: int) -> tuple[int, ...]:
    """The axes of an array as its buffer has them: components in front."""
    short = [k for k, n in enumerate(shape) if is_component(n, components)]
    return (*short, *(k for k in range(len(shape)) if k not in short))


def to_planes(a: Any, b: Buffer, components: int, out: Any, threads: int = 1) -> None:
    """An array into its buffer: components in front."""
    order = order_of(a.shape, components)
    size = prod(b.axes)
    into = out.reshape(b.planes, b.plane)[:, :size]
    moved = a if order == tuple(range(a.ndim)) else np.transpose(a, order)
    copy(moved.reshape(b.planes, size), into, threads)


def from_planes(data: Any, b: Buffer, shape: tuple[int, ...], components: int) -> Any:
    """The array of a buffer, as a copy: the next step writes over the buffer."""
    return np.array(in_planes(data, b, shape, components), order="C")


def in_planes(data: Any, b: Buffer, shape: tuple[int, ...], components: int) -> Any:
    """The same where it lies, until the next step."""
    order = order_of(shape, components)
    rows = data.reshape(b.planes, b.plane)[:, : prod(b.axes)]
    if order == tuple(range(len(shape))):
        return rows.reshape(shape)
    return np.transpose(rows.reshape([shape[k] for k in order]), np.argsort(order))


def seen_as(rows: Any, b: Buffer, shape: tuple[int, ...], components: int) -> Any:
    """Arrays (rows, members, shape...) with the axes of each in the order that a buffer has them in."""
    return np.transpose(rows, [0, 1, *(k + 2 for k in order_of(shape, components))])


def strides_of(b: Buffer, shape: tuple[int, ...], components: int) -> list[int]:
    """Where the numbers of an array are in its buffer, axis by axis."""
    short = [k for k, n in enumerate(shape) if is_component(n, components)]
    long = [k for k in range(len(shape)) if k not in short]
    out = [0] * len(shape)
    for axes, unit in ((short, b.plane), (long, 1)):
        for k in reversed(axes):
            out[k], unit = unit, unit * shape[k]
    return out


@dataclass
class MemberBuffers:
    """The buffers of one member: what a run changes, and a table of where everything is."""

    own: dict[str, Any]
    table: Any  # addresses, in the order of the kernel's buffers
    uniform: Any
    given: tuple[Arrays, int] = field(
        default_factory=lambda: ({}, 0)
    )  # all parameters, and which member this is
    # device/host/neighbours.py, or device/cuda/neighbours.py
    lists: dict[int, Any] = field(default_factory=dict)
    tree: TreePull | None = None
    calls: list[Any] = field(
        default_factory=list
    )  # what nests call when a list must be made; kept alive here
    slots: Mapping[str, int] = field(default_factory=dict)
    stopped: BaseException | None = None  # what went wrong in a call
    kernel: LoopKernel | None = None  # whose nests call what their kinds say
    places: dict[int, Any] = field(
        default_factory=dict, repr=False
    )  # arrays by where they are, once asked for
    # of one of several processes: by buffer, which part each of them has (tpir/kernels/ranked.py); else all of it
    held: dict[str, Any] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()  # what no step writes: copies share it

    def copy(self, threads: int = 1) -> MemberBuffers:
        own = {
            name: a if name.startswith(FIXED) or name in self.fixed else copied(a, threads)
            for name, a in self.own.items()
        }
        moved = {a.ctypes.data: own[name].ctypes.data for name, a in self.own.items()}
        table = np.array([moved.get(int(p), int(p)) for p in self.table], np.uintp)
        new = MemberBuffers(own, table, self.uniform, self.given, fixed=self.fixed)
        for k, near in self.lists.items():
            new.attach(k, near.copy(), self.slots)
        if self.tree is not None:
            new.plant(self.tree.copy(own), self.slots)
        if self.kernel is not None:
            new.look_up(self.kernel, self.slots)
        new.held = dict(self.held)
        return new

    def put(self, other: MemberBuffers) -> None:
        """Becomes what a copy was; what nests call is called here from now on, not there."""
        self.own, self.table, self.calls, self.places = other.own, other.table, [], {}
        self.held = dict(other.held)
        for number, near in other.lists.items():
            self.attach(number, near, other.slots)
        if other.tree is not None:
            self.plant(other.tree, other.slots)
        if other.kernel is not None:
            self.look_up(other.kernel, other.slots)

    def attach(self, number: int, near: NearList, slots: Mapping[str, int]) -> None:
        """A list, where the nests that read it find it."""
        self.slots, self.lists[number] = slots, near

        def make(m: MemberBuffers) -> None:
            m.lists[number].make()
            m.show(number)

        self.answer(near.spec.name("call"), make)
        self.show(number)

    def plant(self, tree: TreePull, slots: Mapping[str, int]) -> None:
        """A tree, where the nests that ask it find it."""
        self.slots, self.tree = slots, tree

        def make(into: str, m: MemberBuffers) -> None:
            assert m.tree is not None
            m.tree.make(into)

        for k in range(tree.spec.count):
            self.answer(call_of(k), partial(make, pull_of(k)))

        def make_back(into: str, m: MemberBuffers) -> None:
            assert m.tree is not None
            m.tree.make_back(into)

        for k in range(tree.spec.back):
            self.answer(back_call_of(k), partial(make_back, back_of(k)))

    def look_up(self, kernel: LoopKernel, slots: Mapping[str, int]) -> None:
        """What nests call whose kind says what that does, on the buffers that the table points to by then."""
        if not kernel.called:
            return
        self.slots, self.kernel = slots, kernel

        def array(m: MemberBuffers, name: str) -> Any:
            b = kernel.buffers[name]
            numbers = view(int(m.table[slots[name]]), b)
            planes = numbers.reshape(b.planes, b.plane)[:, : prod(b.axes)].reshape(b.planes, *b.axes)
            return planes[0] if b.planes == 1 else planes

        def host(nest: Nest, m: MemberBuffers) -> None:
            nest.way.host(nest, partial(array, m), np)

        for name, nest in kernel.called.items():
            self.answer(name, partial(host, nest))

    def answer(self, name: str, make: Callable[[MemberBuffers], None]) -> None:
        """What a nest calls; what goes wrong in it is raised when the section is done."""
        here = weakref.ref(self)  # else nothing would be freed before the collector of garbage comes

        def call() -> None:
            m = here()
            while m is not None:
                try:
                    make(m)
                    return
                except KeyboardInterrupt as stop:  # a step is not left half done: later
                    m.stopped = stop
                except Exception as error:
                    m.stopped = error
                    return

        pointer = CALL(call)
        self.calls.append(pointer)
        self.table[self.slots[name]] = ctypes.cast(pointer, ctypes.c_void_p).value

    def show(self, number: int) -> None:
        """Where the arrays of a list are, which are others each time that it is made."""
        near = self.lists[number]
        for what, array in near.made.items():
            self.table[self.slots[near.spec.name(what)]] = array.ctypes.data

    def at(self, slot: int) -> Any:
        """The array that a slot of the table points to."""
        if not self.places:
            self.places = {a.ctypes.data: a for a in self.own.values()}
        return self.places[int(self.table[slot])]


@dataclass
class Scratch:
    """Buffers that are not kept beyond a step or a frame: one set for all members of a run."""

    kernel: LoopKernel
    made: Callable[[Buffer], Any] = aligned
    buffers: dict[str, Any] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)  # by name, of several in one place too

    def __getitem__(self, name: str) -> Any:
        if name not in self.known:
            place = self.kernel.place(name)
            if place not in self.buffers:
                self.buffers[place] = self.made(self.kernel.buffers[place])
            self.known[name] = self.buffers[place]
        return self.known[name]


@dataclass
class NestState:
    """A run between two blocks. With nothing to step, members come into memory one at a time, when asked for."""

    members: list[MemberBuffers]
    steps: int
    scratch: Scratch
    later: Callable[[int], MemberBuffers] | None = None
    count: int = 0
    watching: Scratch | None = None

    def each(self) -> Iterator[MemberBuffers]:
        yield from self.members if self.later is None else map(self.later, range(self.count))
