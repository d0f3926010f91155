"""Which loops run, over what, in which order?  From array expressions to loop nests over buffers.

Arrays that are stored become tasks; neighbouring tasks over the same indices become one nest, cut along its
innermost loop wherever a condition on an index changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from tinyphysics.ir.dtype import i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.tpir.kernels.at_index import AtIndex, Home, NotHere, planes
from tinyphysics.tpir.kernels.double_buffer import assign_buffers
from tinyphysics.tpir.kernels.every_kind import task_of
from tinyphysics.tpir.kernels.index import Cut
from tinyphysics.tpir.kernels.kinds.map import MAP
from tinyphysics.tpir.kernels.layout import component_places, long_axes
from tinyphysics.tpir.kernels.materialise import is_stored, long_sums, short_sums, to_store
from tinyphysics.tpir.kernels.nest_kind import NestKind, Task, Wanted
from tinyphysics.tpir.kernels.nests import Buffer, Nest, Piece, Store, in_memory, kept_as

MOST_PIECES = 16  # of a nest that another task may join: each is a loop of its own
Begun = tuple[list[Task], dict[tuple[int, int], tuple[AtIndex, list[Store]]]]


class NestBuilder:
    """Nests of one section, in order; homes grow as arrays are stored."""

    def __init__(self, homes: dict[UOp, Home], components: int, flat: dict[UOp, str]) -> None:
        self.homes, self.components, self.flat = dict(homes), components, flat
        self.groups: list[list[Task]] = []
        self.nests: list[Nest] = []
        self.begun: Begun = (
            [],
            {},
        )  # the tasks of the nest that was made last, and what was found in its pieces
        self.ends: list[tuple[int, int]] = []  # and where these are
        self.found: dict[tuple[int, int], tuple[AtIndex, list[Store]]] = {}

    def add(self, task: Task) -> None:
        """The task in the last nest, if it has the same loops and needs nothing of it elsewhere; else in a new one."""
        last = self.groups[-1] if self.groups else []
        if last and last[0].like == task.like:
            try:
                nest = task.way.nest(self, [*last, task])
            except NotHere:
                pass
            else:
                if len(nest.pieces) <= max(MOST_PIECES, len(self.nests[-1].pieces)):
                    last.append(task)
                    self.nests[-1] = nest
                    return
        self.close()
        self.groups.append([task])
        self.nests.append(task.way.nest(self, [task]))

    def trial(self, task: Task) -> Nest:
        before = self.homes
        self.homes = before | {t.node: t.home for t in (self.groups[-1] if self.groups else ())}
        try:
            return task.way.nest(self, [task])
        finally:
            self.homes = before

    def close(self) -> None:
        """What the last nest computes is in memory from now on, and nothing joins it."""
        last = self.groups[-1] if self.groups else []
        if last:
            self.nests += last[0].way.after(self, last)
        for t in last:
            if t.node.op is not Ops.VAR:  # a copy has another home already
                self.homes.setdefault(t.node, t.home)
        self.groups.append([])

    def nest_in_pieces(self, tasks: list[Task]) -> Nest:
        first = tasks[0]
        way, sizes, variables = first.way, first.sizes, first.way.variables(first)
        along = (UOp.var("@t", (), i64), first.along) if first.along else None
        cuts = [0, sizes[-1] if sizes else 1]
        if self.joins(tasks):  # the cuts of those that it joins are its own
            cuts = sorted({*cuts, *(lo for lo, _ in self.ends)})
        pieces: dict[tuple[int, int], Piece] = {}
        self.found = {}
        while True:
            ends = list(zip(cuts, cuts[1:]))
            try:
                for lo, hi in ends:
                    if (lo, hi) not in pieces:
                        pieces[lo, hi] = self.piece(tasks, variables, along and along[0], lo, hi)
                kept = tuple(pieces[e] for e in ends)
                self.begun, self.ends = (list(tasks), self.found), ends
                return Nest(way, variables, sizes, kept, along, first.near, first.strided)
            except Cut as cut:
                assert cut.at not in cuts, "a cut that decides nothing"
                cuts = sorted({*cuts, cut.at})

    def joins(self, tasks: list[Task]) -> bool:
        """Is it the nest that was made last, with one task more?  Tasks are only added to a group: two of them tell it."""
        of, _ = self.begun
        return bool(of) and len(of) == len(tasks) - 1 and of[0] is tasks[0] and of[-1] is tasks[-2]

    def piece(
        self, tasks: list[Task], variables: tuple[UOp, ...], turn: UOp | None, lo: int, hi: int
    ) -> Piece:
        """What the tasks store; those of a nest that this task joins are known, since nothing in it reads what it stores."""
        at = tasks[0].way.places(tasks[0], variables, lo, hi)
        new = AtIndex(self.homes, self.components, {}, self.flat)
        before, stores = new, list[Store]()
        if self.joins(tasks) and (lo, hi) in self.begun[1]:
            before, stores = self.begun[1][lo, hi]
        if before.homes is not self.homes:
            before, stores = new, []
        rest = tasks if before is new else tasks[-1:]
        own = {
            t.node: component_places(t.node.shape, self.components, at)[0][1] if t.way.immediate else None
            for t in rest
            if t.node not in self.homes
        }
        pull, stores = before.computing(own), list(stores)
        for t in rest:
            new_stores = t.way.stores(self, t, pull, at, turn)
            stores += [s.kept(in_memory(s.value)) for s in new_stores]
        self.found[lo, hi] = pull, stores
        return Piece(lo, hi, tuple(stores))


@dataclass(frozen=True, eq=False)
class Schedule:
    nests: tuple[Nest, ...]
    swaps: tuple[tuple[str, str], ...]
    buffers: dict[str, Buffer]


def beside(
    way: NestKind, u: UOp, stored: Sequence[UOp], wanted: Collection[UOp], placed: Collection[UOp]
) -> Iterator[UOp]:
    """Other arrays that a pass of this kind computes with u, and which need nothing that is not there."""
    for v in stored:
        if v not in placed and way.together(u, v):
            if all(x in placed for s in v.src for x in toposort([s]) if x in wanted):
                yield v


Marks = Sequence[tuple[str, UOp]]  # (buffer, its new value), in the order in which a program updates them


def schedule(
    marks: Marks,
    homes: dict[UOp, Home],
    components: int,
    prefix: str,
    flat: dict[UOp, str] | None = None,
    apart: bool = False,
) -> Schedule:
    """Nests that give every marked buffer its value; names of new buffers begin with the prefix."""
    short = short_sums([u for _, u in marks], components)
    wanted = [(name, short[u]) for name, u in marks]
    stored = to_store([u for _, u in wanted], homes, components, apart)
    in_turn = long_sums([u for _, u in wanted], components)
    b = NestBuilder(homes, components, flat or {})
    logical: dict[str, UOp] = {}  # a buffer, or a version of one -> what it holds
    target: dict[str, str] = {}  # version -> buffer
    placed: dict[UOp, Home] = dict(homes)

    every = [u for u in toposort([u for _, u in wanted]) if u in stored and is_stored(u)]

    def place(u: UOp, name: str) -> NestKind:
        w = Wanted(u, name, components, is_stored(u), u in in_turn, placed, b)
        task = task_of(w)
        made = task.way.made(w)
        placed.setdefault(u, task.home)
        if task.home.buffer == name:
            logical[name] = u
        if not made:
            b.add(task)
        if task.way.closed:
            b.close()
            b.homes.setdefault(u, task.home)
        return task.way

    below: dict[UOp, None] = {}
    for name, root in wanted:
        for u in toposort([root], below):
            if u in stored and u not in placed and u is not root:
                way = place(u, f"{prefix}{len(logical)}")
                for v in beside(way, u, every, stored, placed) if is_stored(u) else ():
                    place(v, f"{prefix}{len(logical)}")
        version = f"{name}#{sum(t == name for t in target.values()) + 1}"
        unchanged = root in homes and homes[root].buffer == name and name not in target.values()
        if unchanged:
            continue
        target[version] = name
        if root in placed:  # a copy of what is somewhere else
            logical[version] = root
            b.close()
            b.add(Task(root, Home(version), MAP, long_axes(root.shape, components)))
        else:
            place(root, version)
    b.close()
    nests, swaps, physical = assign_buffers(b.nests, target)
    buffers = {}
    for name, u in logical.items():
        parts = placed[u].parts if placed[u].buffer == name else 1
        where = physical.get(name, name)
        buffers[where] = Buffer(
            where, planes(u.shape, components) * parts, long_axes(u.shape, components), kept_as(u.dtype)
        )
    return Schedule(tuple(nests), tuple(swaps), buffers)
