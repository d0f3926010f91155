"""Which products of matrices does a library's routine do?  Under math="fast", those for which that pays on a backend.

A library sums in an order of its own, which depends on its release, the machine and its threads: such a run is not
bit-exact, and says so (planner/cost/fast.py, runtime/measure/losses.py). The routine is called by the address in a
buffer: it finds its arrays and leaves its result by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tinyphysics.ir.dtype import i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels.loopir import Call, Function
from tinyphysics.tpir.kernels.nest_kind import PlainKind
from tinyphysics.tpir.kernels.nests import Buffer, LoopKernel, LoopSection, Nest, OnArrays

# multiplications from which a call is faster, by backend (bench/products.py calls): those of `llvm` are as fast as a
# library's. OpenCL and GPUs have no function of the host to call, and a file of C (sim.executable) has no library.
LEAST = {"numpy": 32**3, "c": 128**3}


@dataclass(frozen=True)
class LibraryProduct:
    """into = left @ right, of whole buffers; each as it lies, or turned."""

    left: str
    left_turned: bool
    right: str
    right_turned: bool
    into: str
    terms: int  # of each sum


class LibraryCall(PlainKind):
    """No node is one: products become calls once a backend is known."""

    name, rank, calls = "call", 100, True

    def for_backend(self, kernel: LoopKernel, backend: str) -> LoopKernel:
        """The kernel with its large products as calls."""
        if backend not in LEAST:
            return kernel
        found: list[str] = []

        def section(s: LoopSection) -> LoopSection:
            nests = []
            for nest in s.nests:
                large = nest.kind == "product" and nest.items >= LEAST[backend]
                product = product_of(nest, kernel) if large else None
                if product is not None:
                    found.append(f"call{len(found)}")
                    nest = replace(nest, way=self, called=found[-1], detail=product)
                nests.append(nest)
            return replace(s, nests=tuple(nests))

        sections = {name: section(s) for name, s in kernel.sections.items()}
        if not found:
            return kernel
        careful = {name: section(s) for name, s in kernel.careful.items()}
        buffers = {**kernel.buffers, **{name: Buffer(name, 1, (), i64) for name in found}}
        return replace(kernel, buffers=buffers, sections=sections, careful=careful)

    def evaluate(self, run: OnArrays, env: dict[UOp, Any]) -> None:
        run.call(run.nest.called)

    def ranged(self, nest: Nest, kernel: LoopKernel) -> Function:
        return Function((Call(nest.called),))

    def host(self, nest: Nest, array: Callable[[str], Any], numpy: Any) -> None:
        """NumPy's product of the matrices that the table points to by then."""
        p: LibraryProduct = nest.detail
        left, right = array(p.left), array(p.right)
        with numpy.errstate(all="ignore"):
            numpy.matmul(
                left.T if p.left_turned else left, right.T if p.right_turned else right, out=array(p.into)
            )


def product_of(nest: Nest, kernel: LoopKernel) -> LibraryProduct | None:
    """What a nest multiplies, if that is two whole matrices as they lie in memory."""
    if len(nest.variables) != 2 or len(nest.pieces) != 1 or nest.along is None:
        return None
    (i, j), (t, _), (piece,) = nest.variables, nest.along, nest.pieces
    if len(piece.stores) != 1 or piece.guards:
        return None
    (s,) = piece.stores
    factors = s.value.src if s.value.op is Ops.MUL else ()
    if (
        not at(s.index, i, j)
        or not all(matrix(u, kernel) for u in factors)
        or not matrix_of(s.buffer, kernel)
    ):
        return None
    for a, b in (factors, factors[::-1]) if factors else ():
        turned = at(a.src, t, i), at(b.src, j, t)
        if (turned[0] or at(a.src, i, t)) and (turned[1] or at(b.src, t, j)):
            left, right = str(a.arg[0]), str(b.arg[0])
            if kernel.buffers[s.buffer].dtype is a.dtype is b.dtype and s.buffer not in (left, right):
                return LibraryProduct(left, turned[0], right, turned[1], s.buffer, nest.along[1])
    return None


def at(index: Sequence[UOp], first: UOp, second: UOp) -> bool:
    """Are these the two variables?"""
    return len(index) == 2 and index[0] is first and index[1] is second


def matrix(u: UOp, kernel: LoopKernel) -> bool:
    """Is it read from a matrix that lies in one plane, at two plain indices?"""
    return u.op is Ops.LOAD and len(u.src) == 2 and u.dtype.is_float and matrix_of(str(u.arg[0]), kernel)


def matrix_of(buffer: str, kernel: LoopKernel) -> bool:
    b = kernel.buffers[buffer]
    return b.planes == 1 and len(b.axes) == 2


CALL = LibraryCall()
