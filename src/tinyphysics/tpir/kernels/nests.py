"""The loops of an array program, as values: what a backend renders, and what the NumPy engine interprets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from tinyphysics.ir.dtype import DType, bool_, i8
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.reduction import slabs
from tinyphysics.ir.text import dump
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.tpir.kernels.loopir import Function
from tinyphysics.util import prod

ROUNDS = 10  # of a loop that ends by itself: a guess, for costs
STORED = {bool_: i8}  # types that have no size in memory lie there as another: true is 1
LINKS = 8  # parts of a slab of pairs: their rows add to the same columns, so that one follows the other
PAD = 8  # numbers behind every plane, so that a last vector may be loaded whole
SHORT_PAD = 64  # of numbers shorter than 32 bits, of which a vector has more


def kept_as(dtype: DType) -> DType:
    """The type of numbers in memory."""
    return STORED.get(dtype, dtype)


def load(dtype: DType, index: tuple[UOp, ...], buffer: str, plane: int) -> UOp:
    """A number of a buffer, in the type that expressions know it by."""
    kept = kept_as(dtype)
    found = UOp(Ops.LOAD, kept, (), index, (buffer, plane))
    return found if kept is dtype else found.ne(UOp.const(0, kept))


def in_memory(value: UOp) -> UOp:
    """A value as it is kept in a buffer."""
    kept = kept_as(value.dtype)
    if kept is value.dtype:
        return value
    return UOp(Ops.WHERE, kept, (), (value, UOp.const(1, kept), UOp.const(0, kept)))


@dataclass(frozen=True)
class Buffer:
    """Planes of numbers, one behind the other, each row-major along the long axes."""

    name: str
    planes: int
    axes: tuple[int, ...]
    dtype: DType

    def __post_init__(self) -> None:
        assert self.dtype.bits >= 8, f"{self.dtype} has no size in bytes: {self.name}"

    @cached_property
    def plane(self) -> int:
        """Numbers from one plane to the next: an odd number of cache lines, so that planes do not collide."""
        unit = PAD if self.dtype.bits >= 32 else SHORT_PAD
        lines = -(-(prod(self.axes) + unit) // unit)
        return (lines | 1) * unit if self.axes else unit

    @property
    def size(self) -> int:
        return self.planes * self.plane


@dataclass(frozen=True, eq=False)
class Store:
    buffer: str
    plane: int
    index: tuple[UOp, ...]
    value: UOp
    combine: Ops | None = None  # of a reduction: how items are combined
    shift: UOp | None = None  # of a scatter: how many planes further
    joins: bool = False  # does a product join its sum with one rounding?

    def kept(self, value: UOp) -> Store:
        """The store of another value in its place."""
        return self if value is self.value else replace(self, value=value)


@dataclass(frozen=True, eq=False)
class Piece:
    """A range of the innermost variable in which no condition on it is left."""

    lo: int
    hi: int
    stores: tuple[Store, ...]
    guards: tuple[UOp, ...] = ()
    plain: tuple[UOp, ...] = ()  # the values of the stores where no pair reaches across the edge of a cell

    @property
    def inside(self) -> Piece:
        """As it is where no pair reaches across the edge of a cell."""
        if not self.plain:
            return self
        return replace(self, stores=tuple(replace(s, value=v) for s, v in zip(self.stores, self.plain)))

    @property
    def roots(self) -> list[UOp]:
        shifts = [s.shift for s in self.stores if s.shift is not None]
        return [
            *(s.value for s in self.stores),
            *(i for s in self.stores for i in s.index),
            *shifts,
            *self.guards,
        ]

    @cached_property
    def _loads(self) -> tuple[UOp, ...]:
        return tuple(u for u in toposort(self.roots) if u.op is Ops.LOAD)

    def loads(self) -> tuple[UOp, ...]:
        return self._loads


def whole_numbers(p: Piece) -> list[UOp]:
    """What a piece computes, without addresses, if all of it is whole numbers and conditions; else nothing."""
    seen: dict[UOp, None] = {}
    left = [s.value for s in p.stores] + list(p.guards)
    while left:
        u = left.pop()
        if u not in seen:
            seen[u] = None
            left += () if u.op is Ops.LOAD else u.src
    return [] if any(u.dtype.is_float for u in seen) else list(seen)


class OnArrays(Protocol):
    """What the NumPy engine offers to a kind: the index space of a nest as arrays, node by node."""

    nest: Nest
    memory: dict[str, Any]

    def evaluate(self, roots: Sequence[UOp], env: Mapping[UOp, Any]) -> list[Any]: ...
    def grid(self, p: Piece) -> dict[UOp, Any]: ...
    def place(self, buffer: str, plane: int, index: Sequence[Any]) -> Any: ...
    def guards(self, p: Piece, env: Mapping[UOp, Any]) -> None: ...
    def join(self, s: Store, total: Any, env: Mapping[UOp, Any]) -> Any: ...
    def numbers(self, begin: int, end: int) -> Any: ...
    def write(self, buffer: str, at: Any, value: Any, shape: Sequence[int]) -> None: ...
    def join_lanes(self, s: Store, sums: Any, env: Mapping[UOp, Any], p: Piece) -> None: ...
    def add_in_order(self, stores: Sequence[Store], env: Mapping[UOp, Any], shape: Sequence[int]) -> None: ...
    def array(self, buffer: str) -> Any: ...
    def planes(self, buffer: str) -> Any: ...
    def call(self, buffer: str) -> None: ...
    def combine(self, s: Store, a: Any, b: Any) -> Any: ...
    def pairs(self, env: dict[UOp, Any]) -> None: ...
    def blank(self, shape: Sequence[int], dtype: DType) -> Any: ...
    def nothing(self, s: Store, shape: Sequence[int]) -> Any: ...
    def fold(self, s: Store, acc: Any) -> Any: ...


class Way(Protocol):
    """How a nest goes over its indices: what costs, printers and engines ask of its kind (tpir/kernels/kinds)."""

    name: str
    calls: bool  # does it call a function of the host?  Then threads do not share it
    links: int  # neighbours in its range that have to be done one after the other, by any threads: links of a chain

    def extent(self, nest: Nest) -> int:
        """How far the range goes that threads share out."""
        ...

    def items(self, nest: Nest) -> int:
        """How often its body is done: for costs."""
        ...

    def operations(self, nest: Nest) -> int:
        """Of one item, in the longest piece."""
        ...

    def summary(self, nest: Nest) -> str:
        """All of it in one line; "" if its loops and stores are to be shown."""
        ...

    def evaluate(self, run: OnArrays, env: dict[UOp, Any]) -> None:
        """With NumPy: the meaning, written apart from the printers on purpose."""
        ...

    def ranged(self, nest: Nest, kernel: LoopKernel) -> Function:
        """Plain loops over a range of the outermost one, to be read: C, OpenCL, and whole threads of a processor."""
        ...

    def tiled(self, nest: Nest, kernel: LoopKernel, lanes: int, every: bool = False) -> Function:
        """The same for vectors of so many lanes: other statements, same bits, chosen for speed.

        With `every`, all of a short nest whatever range is asked for, so that bounds are numbers.
        """
        ...

    def threaded(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        """One thread for each index, or several launches after each other; no thread waits for another."""
        ...

    def blocked(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        """The same for blocks of threads that share memory: other statements, same bits, chosen for speed."""
        ...

    def host(self, nest: Nest, array: Callable[[str], Any], numpy: Any) -> None:
        """What the function does whose address is in the buffer `called`, on whole buffers."""
        ...


@dataclass(frozen=True, eq=False)
class Nest:
    """Loops over `sizes`, one variable each, the innermost cut in pieces; its kind says what is done at each index."""

    way: Way
    variables: tuple[UOp, ...]
    sizes: tuple[int, ...]
    pieces: tuple[Piece, ...]
    along: tuple[UOp, int] | None = None  # what is summed over at every index, and how many items that are
    near: int | None = None  # the list of neighbours that pairs are taken from, or that is made
    strided: bool = False  # of a product: in the accumulators of a long sum
    evaluation: int = 0  # of a tree: which one of its section
    when: UOp | None = None  # of a list: the condition under which it is made again
    called: str = ""  # the buffer with the address of what is called, if its kind says what that does
    detail: Any = None  # what only its kind knows

    @property
    def kind(self) -> str:
        return self.way.name

    @property
    def extent(self) -> int:
        return self.way.extent(self)

    @property
    def links(self) -> int:
        return self.way.links

    @property
    def order(self) -> str:
        """In which the items of a sum join it."""
        return "in strides" if self.strided else "in turn"

    @property
    def parts(self) -> int:
        """Slabs of rows of a sum over pairs."""
        return len(slabs(self.sizes[0], self.near is not None)) - 1

    @cached_property  # asked for at every call of a kernel: how many threads are worth it
    def operations(self) -> int:
        return self.way.operations(self)

    @property
    def items(self) -> int:
        return self.way.items(self)

    def loads(self) -> Iterator[UOp]:
        for p in self.pieces:
            yield from p.loads()
        if self.when is not None:
            yield from (u for u in toposort([self.when]) if u.op is Ops.LOAD)

    def __str__(self) -> str:
        if summary := self.way.summary(self):
            return summary
        loops = " x ".join(f"{v.arg} < {n}" for v, n in zip(self.variables, self.sizes))
        by = "" if self.near is None else f" in near{self.near}"
        lines = [
            f"{self.kind} {loops}{by}"
            + (f", {self.along[0].arg} < {self.along[1]} {self.order}" if self.along else "")
        ]
        for p in self.pieces:
            if len(self.pieces) > 1:
                lines.append(f"  {p.lo} <= {self.variables[-1].arg} < {p.hi}")
            for s in p.stores:
                at = ", ".join(map(str, s.index))
                lines.append(
                    f"    {s.buffer}.{s.plane}[{at}] {'<-' if s.combine is None else s.combine.value + '<-'}"
                )
            lines += ["    " + line for line in dump(p.roots).splitlines()]
        return "\n".join(lines)


@dataclass(frozen=True)
class Round:
    """The nests from one to another, then `swaps` exchanges what two buffers hold; after every `period` passes.

    Where the number in the buffer `going` is 0 then, the loop around it ends: that over steps, or a `Repeat`.
    """

    begin: int
    end: int
    swaps: tuple[tuple[str, str], ...] = ()
    period: int = 1
    going: str = ""


@dataclass(frozen=True)
class Repeat:
    """Turns that are done again and again, until one of them ends the loop, `most` times at most."""

    turns: tuple[Turn, ...]
    most: int


Turn = Round | Repeat


def rounds(turns: Iterable[Turn]) -> Iterator[Round]:
    """The turns of a tree, each once, in order."""
    for t in turns:
        if isinstance(t, Repeat):
            yield from rounds(t.turns)
        else:
            yield t


@dataclass(frozen=True, eq=False)
class LoopSection:
    """Nests in order, as often as `passes` says, each turn after so many of them: a loop within the loop over steps."""

    name: str
    nests: tuple[Nest, ...]
    turns: tuple[Turn, ...]
    passes: int = 1

    @property
    def swaps(self) -> tuple[tuple[str, str], ...]:
        """Of every turn."""
        return tuple(pair for t in rounds(self.turns) for pair in t.swaps)

    @property
    def rolled(self) -> bool:
        return self.passes > 1

    @property
    def ends_early(self) -> bool:
        """Is there a turn that may end the loop around it?"""
        return any(t.going for t in rounds(self.turns))

    @property
    def repeats(self) -> bool:
        """Has a step loops that end by themselves?"""
        return any(isinstance(t, Repeat) for t in self.turns)

    def times(self) -> Iterator[tuple[Round, int]]:
        """The turns of one step, and how often each is done: by estimate, in a loop that ends by itself."""

        def of(turns: Iterable[Turn], times: int) -> Iterator[tuple[Round, int]]:
            for t in turns:
                if isinstance(t, Repeat):
                    yield from of(t.turns, times * min(t.most, ROUNDS))
                else:
                    yield t, times // t.period

        return of(self.turns, self.passes)

    @property
    def work(self) -> int:
        """Operations of one step."""
        return sum(
            times * n.items * n.operations for t, times in self.times() for n in self.nests[t.begin : t.end]
        )

    def sequence(self) -> Iterator[Round]:
        """The turns of one step, which has no loops but its passes."""
        for k in range(1, self.passes + 1):
            yield from (t for t in rounds(self.turns) if k % t.period == 0)

    def run(self, do: Callable[[Round], bool]) -> bool:
        """One step: `do` does a turn, and says whether the loop around it goes on. Does the loop over steps go on?"""

        def of(turns: Iterable[Turn]) -> bool:
            for t in turns:
                if isinstance(t, Round):
                    if not do(t):
                        return False
                    continue
                for _ in range(t.most):
                    if not of(t.turns):
                        break
            return True

        if not self.rolled:
            return of(self.turns)
        return all(do(t) for t in self.sequence())


class Later(Mapping[str, LoopSection]):
    """Sections that are made when one is first asked for: few runs need the careful form of theirs."""

    def __init__(self, names: Iterable[str], make: Callable[[], dict[str, LoopSection]]) -> None:
        self.names, self.make = tuple(names), make

    @cached_property
    def made(self) -> dict[str, LoopSection]:
        return self.make()

    def __getitem__(self, name: str) -> LoopSection:
        return self.made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.made,)


@dataclass(eq=False)
class LoopKernel:
    """A program as loop nests over buffers."""

    name: str
    params: tuple[UOp, ...]  # scalars that all nests share
    buffers: dict[str, Buffer]
    sections: dict[str, LoopSection]
    careful: Mapping[str, LoopSection]
    inputs: dict[str, str]  # state -> the buffer that it is loaded into
    arrays: dict[str, str]  # array parameter -> its buffer
    outputs: dict[str, tuple[str, DType, tuple[int, ...]]]  # name -> buffer, dtype, shape
    components: int
    constants: dict[str, UOp] = field(default_factory=dict)  # buffer -> the numbers in it, one node each
    # lists of neighbours, by number: tpir/kernels/neighbours.py
    lists: dict[int, Any] = field(default_factory=dict)
    # array parameter -> a buffer with all its axes in a row
    flat: dict[str, str] = field(default_factory=dict)
    tree: Any = None  # the tree that it sums through, if it does: tpir/kernels/tree.py
    counts: tuple[str, ...] = ()  # buffers of states of whole numbers, of which every one is good
    contracts: bool = False  # does a product join a sum over pairs with one rounding?  Under math="fast"

    def place(self, name: str) -> str:
        """The buffer in whose memory another lies: what a section needs for itself, where an earlier one had its own.

        Only one section runs at a time.
        """
        return self.places.get(name, name)

    @cached_property
    def places(self) -> dict[str, str]:
        """Of buffers of sections: the first that is like it and as many behind the first of its section."""
        own: dict[tuple[object, ...], dict[str, list[str]]] = {}  # by what is alike, and by section
        for name, b in self.buffers.items():
            section, dot, _ = name.partition(".")
            if dot and section in self.sections:
                own.setdefault((b.planes, b.axes, b.dtype), {}).setdefault(section, []).append(name)
        found: dict[str, str] = {}
        for rows in own.values():
            in_order = [rows[section] for section in self.sections if section in rows]
            for names in in_order:
                found |= {n: next(r[k] for r in in_order if len(r) > k) for k, n in enumerate(names)}
        return found

    @property
    def bytes(self) -> int:
        """Of all buffers, those in one place counted once."""
        places = {self.place(name) for name in self.buffers}
        return sum(b.size * b.dtype.bits // 8 for name, b in self.buffers.items() if name in places)

    @cached_property
    def guarded(self) -> bool:
        return any(p.guards for s in self.sections.values() for n in s.nests for p in n.pieces)

    @cached_property
    def called(self) -> dict[str, Nest]:
        """The nests whose kind says what they call, by the buffers with the addresses."""
        found = {n.called: n for s in self.sections.values() for n in s.nests if n.called}
        if not found:  # both forms call the same
            return found
        return found | {n.called: n for s in self.careful.values() for n in s.nests if n.called}

    def __str__(self) -> str:
        out = [f"kernel {self.name}"]
        out += [
            f"  buffer {b.name} {b.dtype} {b.planes} planes of {list(b.axes)}" for b in self.buffers.values()
        ]
        for section in self.sections.values():
            out.append(f"{section.name}:")
            out += [f"  {section.passes} passes:"] if section.rolled else []
            out += turn_lines(section, section.turns)
        return "\n".join(out)


def turn_lines(section: LoopSection, turns: Iterable[Turn]) -> list[str]:
    out: list[str] = []
    for t in turns:
        if isinstance(t, Repeat):
            out += [f"  repeat, {t.most} times at most:", *("  " + x for x in turn_lines(section, t.turns))]
            continue
        out += [f"  after every {t.period}:"] if t.period > 1 else []
        out += ["  " + line for n in section.nests[t.begin : t.end] for line in str(n).splitlines()]
        out += [f"  swap {a}, {b}" for a, b in t.swaps]
        out += [f"  end the loop if {t.going} is 0"] if t.going else []
    return out
