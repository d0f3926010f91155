"""What do languages of the C family share, and what do they say differently?  Types, numbers, one operation, dialects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinyphysics.ir.dtype import DType, bool_, f32
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp

TYPE = {
    "f64": "double",
    "f32": "float",
    "i64": "int64_t",
    "i32": "int32_t",
    "u64": "uint64_t",
    "u32": "uint32_t",
    "bool": "int",
}
PRELUDE = """#include <math.h>
#include <stdint.h>
#include <string.h>
static inline int64_t f64_to_i64(double x) { int64_t b; memcpy(&b, &x, 8); return b; }
static inline double i64_to_f64(int64_t b) { double x; memcpy(&x, &b, 8); return x; }
static inline int32_t f32_to_i32(float x) { int32_t b; memcpy(&b, &x, 4); return b; }
static inline float i32_to_f32(int32_t b) { float x; memcpy(&x, &b, 4); return x; }
#define div_f32(a, b) ((a) / (b))
"""


@dataclass(frozen=True)
class Dialect:
    """What languages of the C family say differently; all else is the same text after their preludes."""

    prelude: str
    function: str  # what stands before the name of a function that the host calls
    space: str  # before a pointer to memory that the host gave
    constant: str  # before a table of constants inside a function
    independent: str  # a line before a loop whose iterations share nothing; empty: none
    load: str  # a local array {a} of {n} numbers, filled from a place {at} in memory
    store: str
    share: str  # which lanes are its own, where a function is called for all at once; {n}: lanes of a chunk
    local: str = "static"  # before a function that only this text calls


C = Dialect(
    PRELUDE,
    "void",
    "",
    "static const",
    "#pragma GCC ivdep",
    "memcpy({a}, {at}, sizeof {a});",
    "memcpy({at}, {a}, sizeof {a});",
    "",
)

INFIX = {
    Ops.ADD: "+",
    Ops.SUB: "-",
    Ops.MUL: "*",
    Ops.DIV: "/",
    Ops.AND: "&",
    Ops.OR: "|",
    Ops.XOR: "^",
    Ops.LT: "<",
    Ops.LE: "<=",
    Ops.EQ: "==",
    Ops.NE: "!=",
}


def literal(u: UOp) -> str:
    if u.dtype.is_float:
        x = float(u.arg)
        if x != x:
            return "NAN"
        if x in (float("inf"), float("-inf")):
            return "INFINITY" if x > 0 else "(-INFINITY)"
        text = x.hex() if u.dtype is not f32 else x.hex() + "f"
        return f"({text})" if x < 0 or text.startswith("-") else text
    if u.dtype is bool_:
        return "1" if u.arg else "0"
    if u.dtype.bits == 64:
        return f"(int64_t)UINT64_C({u.arg % 2**64})" if u.dtype.kind == "i" else f"UINT64_C({u.arg})"
    return f"(int32_t)UINT32_C({u.arg % 2**32})" if u.dtype.kind == "i" else f"UINT32_C({u.arg})"


def bitcast(source: DType, target: DType, a: str) -> str:
    if source.is_float == target.is_float:
        return f"({TYPE[target.name]}){a}"
    if source.is_float:
        return f"({TYPE[target.name]}){source.name}_to_i{source.bits}({a})"
    return f"i{target.bits}_to_{target.name}((int{target.bits}_t){a})"


def expression(u: UOp, a: Sequence[str]) -> str:
    """One operation on named values."""
    t = TYPE[u.dtype.name]
    wide = f"uint{u.dtype.bits}_t"
    match u.op:
        case Ops.FMA:
            return f"{'fmaf' if u.dtype is f32 else 'fma'}({a[0]}, {a[1]}, {a[2]})"
        case Ops.SQRT:
            return f"{'sqrtf' if u.dtype is f32 else 'sqrt'}({a[0]})"
        case Ops.DIV if u.dtype is f32:
            return f"div_f32({a[0]}, {a[1]})"
        case Ops.WHERE:
            return f"{a[0]} ? {a[1]} : {a[2]}"
        case Ops.NEG:
            return f"-{a[0]}" if u.dtype.is_float else f"({t})(0 - ({wide}){a[0]})"
        case Ops.NOT:
            return f"!{a[0]}" if u.dtype is bool_ else f"~{a[0]}"
        case Ops.CAST:
            return f"({t}){a[0]}"
        case Ops.BITCAST:
            return bitcast(u.src[0].dtype, u.dtype, a[0])
        case Ops.SHL | Ops.SHR:
            return f"({t})(({wide}){a[0]} {'<<' if u.op is Ops.SHL else '>>'} {a[1]})"
        case Ops.MULHI:
            return f"(uint32_t)(((uint64_t){a[0]} * {a[1]}) >> 32)"
        case Ops.ADD | Ops.SUB | Ops.MUL if u.dtype.is_int:  # integers wrap
            return f"({t})(({wide}){a[0]} {INFIX[u.op]} ({wide}){a[1]})"
    return f"{a[0]} {INFIX[u.op]} {a[1]}"
