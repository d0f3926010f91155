"""Which products of matrices are handed to a library?  Under math="fast", those for which that pays on a backend.

A library sums in an order of its own, which depends on its release, the machine and its threads: such a run is not
bit-exact, and says so (planner/explain.py, runtime/measure/losses.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tinyphysics.ir.dtype import i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels.index import Unsupported
from tinyphysics.tpir.kernels.loops import build_loops
from tinyphysics.tpir.kernels.nests import Buffer, LoopKernel, LoopSection, Nest
from tinyphysics.tpir.program.isa import Program

# multiplications from which a call is faster, by backend (bench/products.py calls): those of `llvm` are as fast as a
# library's. OpenCL and GPUs have no function of the host to call, and a file of C (sim.executable) has no library.
LEAST = {"numpy": 32**3, "c": 128**3}


@dataclass(frozen=True)
class LibraryProduct:
    """into = left @ right, of whole buffers; each as it lies, or turned."""

    name: str  # of the buffer with the address of what is called
    left: str
    left_turned: bool
    right: str
    right_turned: bool
    into: str
    terms: int  # of each sum


def with_library(kernel: LoopKernel, backend: str) -> LoopKernel:
    """The kernel with its large products as nests of kind `call`."""
    if backend not in LEAST:
        return kernel
    found: dict[str, LibraryProduct] = {}

    def section(s: LoopSection) -> LoopSection:
        nests = []
        for nest in s.nests:
            name = f"call{len(found)}"
            product = None if work_of(nest) < LEAST[backend] else product_of(nest, kernel, name)
            if product is not None:
                found[name] = product
                nest = replace(nest, kind="call", called=name)
            nests.append(nest)
        return replace(s, nests=tuple(nests))

    sections, careful = (
        {name: section(s) for name, s in group.items()} for group in (kernel.sections, kernel.careful)
    )
    if not found:
        return kernel
    buffers = {**kernel.buffers, **{name: Buffer(name, 1, (), i64) for name in found}}
    return replace(kernel, buffers=buffers, sections=sections, careful=careful, library=found)


def work_of(nest: Nest) -> int:
    """Multiplications."""
    return nest.items if nest.kind == "product" else 0


def product_of(nest: Nest, kernel: LoopKernel, name: str) -> LibraryProduct | None:
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
                return LibraryProduct(name, left, turned[0], right, turned[1], s.buffer, nest.along[1])
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


def handed_over(program: Program, backend: str) -> list[LibraryProduct]:
    """The products of a program that a library does on a backend, in loops."""
    if program.math != "fast" or backend not in LEAST:
        return []
    try:
        found = with_library(build_loops(program), backend).library.values()
    except Unsupported:
        return []
    return list({(p.left, p.right, p.into): p for p in found}.values())  # careful sections say them again
