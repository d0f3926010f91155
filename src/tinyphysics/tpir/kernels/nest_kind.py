"""What does a kind of nest have to say?  One file of tpir/kernels/kinds answers it; no printer and no engine knows a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tinyphysics.ir.dtype import i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.tpir.kernels.at_index import AtIndex, Home
from tinyphysics.tpir.kernels.index import Index, Place
from tinyphysics.tpir.kernels.loopir import Function
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest, Store, Way, whole_numbers
from tinyphysics.util import prod


@dataclass(eq=False)
class Task:
    """One array to be stored: its node, where it goes, and the loops over it."""

    node: UOp
    home: Home
    way: NestKind
    sizes: tuple[int, ...]
    along: int = 0  # length of the axis that is summed over in turn
    near: int | None = None  # the list of neighbours that it goes by, or that it is
    strided: bool = False  # of a product

    @property
    def like(self) -> tuple[object, ...]:
        """What tasks of one nest have in common."""
        own = id(self.node) if self.way.alone else None
        return (self.way.name, self.sizes, self.along, self.near, own)


class Builder(Protocol):
    """What the scheduler offers to a kind: where arrays are, and nests of some tasks."""

    homes: dict[UOp, Home]
    components: int
    flat: dict[UOp, str]

    def nest_in_pieces(self, tasks: list[Task]) -> Nest:
        """The loops over the sizes of the tasks, cut wherever a condition on the innermost index changes."""
        ...

    def trial(self, task: Task) -> Nest:
        """The nest that a task would be with all that was computed so far in memory."""
        ...


@dataclass(frozen=True)
class Wanted:
    """A node that is to be stored, of which each kind is asked whether it is one for it."""

    node: UOp
    name: str  # of the buffer, unless the kind has one already
    components: int
    stored: bool  # may no other nest compute it where it is read?
    in_turn: bool  # is it a short sum that is a loop, and not written out?
    placed: Mapping[UOp, Home]  # what is somewhere
    builder: Builder

    @property
    def home(self) -> Home:
        return Home(self.name)


class NestKind(Way, Protocol):
    """A way to go over indices, and what the scheduler asks of it."""

    rank: int  # kinds are asked in this order whether a node is one of theirs
    ops: frozenset[Ops]  # nodes of these operations are always stored, by nests of this kind
    alone: bool  # is each of its tasks a nest of its own?
    closed: bool  # is what it computes in memory for whatever comes next, and nothing joins it?
    immediate: bool  # may other tasks of a nest read its value at the same index?

    def task(self, w: Wanted) -> Task | None:
        """What is to be done for a node, if it is one for this kind."""
        ...

    def made(self, w: Wanted) -> bool:
        """Is it in memory already, because another node was?"""
        ...

    def reads(self, u: UOp) -> tuple[UOp, ...]:
        """Constant arrays that nests of a node read, beside what the node is made of."""
        ...

    def written(self, u: UOp, components: int) -> UOp:
        """A node of these operations as an expression, if it is so short that it is written out."""
        ...

    def together(self, u: UOp, v: UOp) -> bool:
        """Does one pass compute v with u?  Both are stored."""
        ...

    def nest(self, b: Builder, tasks: list[Task]) -> Nest:
        """Tasks that are alike as one nest."""
        ...

    def variables(self, t: Task) -> tuple[UOp, ...]: ...
    def places(self, t: Task, variables: tuple[UOp, ...], lo: int, hi: int) -> list[Place]: ...

    def stores(self, b: Builder, t: Task, pull: AtIndex, at: list[Place], turn: UOp | None) -> list[Store]:
        """What is stored at an index, or summed over what is there."""
        ...

    def after(self, b: Builder, tasks: list[Task]) -> list[Nest]:
        """Nests that have to follow before anything reads what these tasks computed."""
        ...

    def for_backend(self, kernel: LoopKernel, backend: str) -> LoopKernel:
        """A kernel under math="fast", with nests of this kind where a backend is better off with them."""
        ...


class PlainKind:
    """What a kind answers unless it knows more: every index on its own, a range of the outermost loop for a thread."""

    name, rank = "", 0
    calls = alone = closed = immediate = False
    links = 1
    ops = frozenset[Ops]()
    ranged: Callable[[Nest, LoopKernel], Function]
    stores: Callable[..., list[Store]]

    def extent(self, nest: Nest) -> int:
        return nest.sizes[0] if nest.sizes and not self.calls else 1

    def items(self, nest: Nest) -> int:
        return prod(nest.sizes) * (nest.along[1] if nest.along else 1)

    def operations(self, nest: Nest) -> int:
        longest = max(nest.pieces, key=lambda p: p.hi - p.lo)
        sums = sum(s.combine is not None for s in longest.stores)
        if whole := whole_numbers(longest):
            return sums + max(1, len(whole) * max(u.dtype.bits for u in whole) // 64)
        return sums + sum(
            u.op not in (Ops.CONST, Ops.VAR, Ops.LOAD) and u.dtype.is_float for u in toposort(longest.roots)
        )

    def summary(self, nest: Nest) -> str:
        return ""

    def tiled(self, nest: Nest, kernel: LoopKernel, lanes: int, every: bool = False) -> Function:
        return self.ranged(nest, kernel)

    def threaded(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        raise AssertionError(f"a thread of a GPU does not run a nest of kind {self.name}")

    def blocked(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        return self.threaded(nest, kernel)

    def host(self, nest: Nest, array: Callable[[str], Any], numpy: Any) -> None:
        raise AssertionError(f"a nest of kind {self.name} calls nothing that it knows")

    # --- scheduling -------------------------------------------------------------------------------
    def task(self, w: Wanted) -> Task | None:
        return None

    def made(self, w: Wanted) -> bool:
        return False

    def reads(self, u: UOp) -> tuple[UOp, ...]:
        return ()

    def written(self, u: UOp, components: int) -> UOp:
        return u

    def together(self, u: UOp, v: UOp) -> bool:
        return False

    def nest(self, b: Builder, tasks: list[Task]) -> Nest:
        return b.nest_in_pieces(tasks)

    def variables(self, t: Task) -> tuple[UOp, ...]:
        return tuple(UOp.var(f"@i{k}", (), i64) for k in range(len(t.sizes)))

    def places(self, t: Task, variables: tuple[UOp, ...], lo: int, hi: int) -> list[Place]:
        at: list[Place] = [Index(0, n - 1, v) for v, n in zip(variables, t.sizes)]
        if at:
            at[-1] = Index(lo, hi - 1, variables[-1], inner=True)
        return at

    def after(self, b: Builder, tasks: list[Task]) -> list[Nest]:
        return []

    def for_backend(self, kernel: LoopKernel, backend: str) -> LoopKernel:
        return kernel
