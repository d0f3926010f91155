"""Which kinds of nest are there?  Those of the files of tpir/kernels/kinds/, by their ranks, and what a caller adds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pkgutil import iter_modules

from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels import kinds
from tinyphysics.tpir.kernels.nest_kind import NestKind, Task, Wanted
from tinyphysics.tpir.kernels.nests import LoopKernel


def in_order() -> list[NestKind]:
    files = [import_module(f"{kinds.__name__}.{file.name}") for file in iter_modules(kinds.__path__)]
    own = [x for file in files for x in vars(file).values() if getattr(x, "__module__", "") == file.__name__]
    return sorted((x for x in own if hasattr(x, "rank") and not isinstance(x, type)), key=lambda k: k.rank)


KINDS = in_order()
STORED = {op for kind in KINDS for op in kind.ops}  # nodes of these are always stored


@contextmanager
def registered(kind: NestKind) -> Iterator[None]:
    """With one more kind; programs whose loops were built before keep them."""
    more = kind.ops - STORED
    KINDS.append(kind)
    KINDS.sort(key=lambda k: k.rank)
    STORED.update(more)
    try:
        yield
    finally:
        KINDS.remove(kind)
        STORED.difference_update(more)


def task_of(w: Wanted) -> Task:
    """What is to be done for a node: the first kind that takes it says so."""
    return next(task for kind in KINDS if (task := kind.task(w)) is not None)


def read_beside(u: UOp) -> tuple[UOp, ...]:
    """Constant arrays that the nests of a node read."""
    return tuple(x for kind in KINDS if u.op in kind.ops for x in kind.reads(u))


def written_out(u: UOp, components: int) -> UOp:
    """A node, or what it is where the axis that its kind goes along has few components."""
    return next((kind.written(u, components) for kind in KINDS if u.op in kind.ops), u)


def for_backend(kernel: LoopKernel, backend: str) -> LoopKernel:
    """A kernel under math="fast" as a backend has it."""
    for kind in KINDS:
        kernel = kind.for_backend(kernel, backend)
    return kernel
