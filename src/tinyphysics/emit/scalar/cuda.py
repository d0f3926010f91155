"""Kernels as readable CUDA C: the text of the C renderer after another prelude, a thread for each member.

What runs is PTX made from LLVM IR (emit/scalar/ptx.py); this is the same kernel to be read, and through nvcc it has the
same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.emit.scalar.c import function
from tinyphysics.emit.scalar.cmain import Host, complete_program
from tinyphysics.emit.text.dialects import Dialect
from tinyphysics.ir.uop import UOp
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import Kernel, Section
from tinyphysics.tpir.program.isa import Program

COMMAND = (
    "nvcc -O3 -fmad=false -ftz=false -prec-div=true -prec-sqrt=true this.cu"  # nothing that changes a number
)
PRELUDE = """#include <math.h>
#include <stdint.h>
#include <string.h>
#define f64_to_i64 __double_as_longlong
#define i64_to_f64 __longlong_as_double
#define f32_to_i32 __float_as_int
#define i32_to_f32 __int_as_float
#define div_f32(a, b) ((a) / (b))
"""
CUDA = Dialect(
    PRELUDE,
    'extern "C" __global__ void',
    "",
    "const",
    "",
    "for (int l = 0; l < {n}; l++) {a}[l] = ({at})[l];",
    "for (int l = 0; l < {n}; l++) ({at})[l] = {a}[l];",
    "const int64_t mine = start + ((int64_t)blockIdx.x*blockDim.x + threadIdx.x)*{n};\n"
    "  const int64_t begin = mine, end = mine < stop ? mine + {n} : mine;",
    "static __device__",
)


def section_name(name: str) -> str:
    return f"section_{name}"


def module(
    parts: Sequence[tuple[Section, VectorShape]], params: Sequence[UOp], varying: Sequence[bool]
) -> str:
    """CUDA C of some sections, a kernel each: a thread does a member for a whole block of time."""
    texts = [function(f, params, varying, shape.lanes, section_name(f.name), CUDA) for f, shape in parts]
    return PRELUDE + "\n".join(texts) + "\n"


def complete_cuda(k: Kernel, program: Program) -> str:
    """A program that runs one member on a GPU and prints its state and hash, like that of emit/scalar/cmain.py."""
    wait = '\n    if (cudaDeviceSynchronize() != cudaSuccess) { fprintf(stderr, "the device failed\\n"); return 1; }'
    return complete_program(
        k, program, Host(COMMAND, module, "static __managed__", "section_{name}<<<1, 1>>>(", wait)
    )
