"""Loop nests as OpenCL C, a kernel each, every work-item with rows of its own.

Nothing is shared between work-items but a flag that all of them may raise: sums are taken in the order that
the nest spells out.
"""

from __future__ import annotations

from tinyphysics.emit.kinds.cnests import touched
from tinyphysics.emit.scalar.opencl import OPENCL, PRELUDE
from tinyphysics.emit.text.print_c import CPrinter, c_name
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest


def part_name(section: str, k: int) -> str:
    return f"part_{section}_{k}"


def part(kernel: LoopKernel, nest: Nest, name: str) -> str:
    """One nest as a kernel: a work-item does `span` indices of the outermost loop, or slabs of pairs."""
    text = CPrinter(kernel, OPENCL)
    given = [text.pointer(b) for b in touched(nest)]
    given += ["__global const double *uniform", "__global signed char *flags", "int64_t span", "int64_t now"]
    text.line("const int64_t lo = (int64_t)get_global_id(0)*span;")
    text.line(f"const int64_t hi = min(lo + span, (int64_t){nest.extent});")
    text.line("if (lo >= hi) return;")
    body = text.written(nest.way.ranged(nest, kernel))
    return "\n".join([f"__kernel void {c_name(name)}({', '.join(given)}) {{", *body, "}"])


def nests_module(kernel: LoopKernel, careful: bool = False) -> str:
    """OpenCL C of every nest; their order, and which buffers change places after a step, is the host's."""
    sections = kernel.careful if careful else kernel.sections
    texts = [
        part(kernel, nest, part_name(s.name, k)) for s in sections.values() for k, nest in enumerate(s.nests)
    ]
    return "\n".join([PRELUDE, *texts]) + "\n"
