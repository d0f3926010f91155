"""What does a kind of nest have to say?  One file of emit/kinds answers it; no printer and no engine knows a kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tinyphysics.emit.text.loopir import Function
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest, Piece, Store


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
    def nothing(self, s: Store, shape: Sequence[int]) -> Any: ...
    def fold(self, s: Store, acc: Any) -> Any: ...


class NestKind(Protocol):
    """A way to go over indices."""

    name: str

    def evaluate(self, run: OnArrays, env: dict[UOp, Any]) -> None:
        """With NumPy: the meaning, written apart from the printers on purpose."""
        ...

    def ranged(self, nest: Nest, kernel: LoopKernel) -> Function:
        """Plain loops over a range of the outermost one, to be read: C, OpenCL, and whole threads of a processor."""
        ...

    def tiled(self, nest: Nest, kernel: LoopKernel, lanes: int) -> Function:
        """The same for vectors of so many lanes: other statements, same bits, chosen for speed."""
        ...

    def threaded(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        """One thread for each index, or several launches after each other."""
        ...
