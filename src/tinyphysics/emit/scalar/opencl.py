"""Kernels as OpenCL C: the text of the C renderer after another prelude, each work-item with lanes of its own.

Contraction is off, and the double division, square root and fma of OpenCL are correctly rounded, so a
device that has them gives the bits of every other backend.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.emit.scalar.c import function
from tinyphysics.emit.text.dialects import Dialect
from tinyphysics.ir.uop import UOp
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import Section

PRELUDE = """#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
typedef long int64_t;
typedef ulong uint64_t;
typedef int int32_t;
typedef uint uint32_t;
#define UINT64_C(x) x##UL
#define UINT32_C(x) x##U
#define f64_to_i64 as_long
#define i64_to_f64 as_double
/* float32 of OpenCL need not be exact; a double has more than twice its digits, so rounding twice is rounding once */
#define div_f32(a, b) ((float)((double)(a) / (double)(b)))
#define sqrtf(x) ((float)sqrt((double)(x)))
#if defined(__clang__) && defined(__FMA__)  /* instructions of this processor, where PoCL calls a library */
#undef fma
#define fma __builtin_fma
#undef sqrt
#define sqrt __builtin_sqrt
#endif
"""
OPENCL = Dialect(
    PRELUDE,
    "__kernel void",
    "__global ",
    "__constant",
    "",
    "for (int l = 0; l < {n}; l++) {a}[l] = ({at})[l];",
    "for (int l = 0; l < {n}; l++) ({at})[l] = {a}[l];",
    "const int64_t begin = start + (int64_t)get_global_id(0)*{n}, end = min(begin + {n}, stop);",
)


def section_name(f: Section) -> str:
    return f"section_{f.name}"  # `step` alone is a function of OpenCL


def module(
    parts: Sequence[tuple[Section, VectorShape]], params: Sequence[UOp], varying: Sequence[bool]
) -> str:
    """OpenCL C of some sections, a kernel each: a work-item does a chunk of members for a whole block of time."""
    texts = [function(f, params, varying, shape.lanes, section_name(f), OPENCL) for f, shape in parts]
    return PRELUDE + "\n".join(texts) + "\n"
