"""How do shading languages say one operation?  Types, numbers and words of WGSL and GLSL, as dialects of one text."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinyphysics.emit.text.dialects import INFIX
from tinyphysics.ir.dtype import DType, bool_, f32, i32, u32
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp

WORDS = (f32, i32, u32, bool_)  # all numbers that these languages have everywhere
LEAST = 2.0**-126


@dataclass(frozen=True, eq=False)
class Shading:
    """What shading languages say differently."""

    name: str
    types: Mapping[str, str]
    constant: str  # a name for a value: {n}, {t}, {x}
    variable: str
    choice: str  # {a} where {c} holds, else {b}
    bits: Mapping[tuple[str, str], str]  # the bits of a number as one of another type, by both types
    helper: str  # the head of a function {name} of {given}, with a result {t}
    argument: str
    private: str  # a variable of one call, outside of its functions
    own: str  # a switch {name} that is set when a pipeline is made, number {k}
    head: str  # before everything; {T}: what a state is kept in
    entry: str  # the head of the function {name} that is called for each member
    member: str  # the number of the call


def bits_of(x: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", x))[0])


def literal(d: Shading, u: UOp) -> str:
    if u.dtype is bool_:
        return "true" if u.arg else "false"
    if u.dtype is i32:
        return str(u.arg) if u.arg > -(2**31) else as_bits(d, u32, i32, f"{u.arg % 2**32}u")
    if u.dtype is u32:
        return f"{u.arg}u"
    x = float(u.arg)
    if not math.isfinite(x) or abs(x) < LEAST:
        # a compiler may refuse it, or take it for 0
        plain = x == 0 and math.copysign(1, x) > 0
        return "0.0" if plain else as_bits(d, u32, f32, f"(0x{bits_of(x):08x}u | call.zero)")
    text = repr(float(f"{x:.9g}"))
    return text if "e" not in text or "." in text else text.replace("e", ".0e")


def as_bits(d: Shading, source: DType, target: DType, a: str) -> str:
    if source is target:
        return a
    return d.bits[source.name, target.name].format(a=a)


# operations on floats, as functions of the text: what a machine's own do is found out (device/webgpu/probe.py)
ROUNDED = {
    Ops.FMA: "fused", Ops.DIV: "quotient", Ops.SQRT: "root", Ops.ADD: "plus", Ops.SUB: "minus", Ops.MUL: "times",
    Ops.LT: "below", Ops.LE: "atmost", Ops.EQ: "same", Ops.NE: "!same",
}  # fmt: skip


def expression(d: Shading, u: UOp, a: Sequence[str], plainly: bool = False) -> str:
    """One operation on named values; `plainly` as the machine's own."""
    t = d.types[u.dtype.name]
    if u.op in ROUNDED and u.src[0].dtype is f32 and not plainly:
        return f"{ROUNDED[u.op]}({', '.join(a)})"
    match u.op:
        case Ops.MULHI:
            return f"mulhi({a[0]}, {a[1]})"
        case Ops.WHERE:
            return d.choice.format(c=a[0], a=a[1], b=a[2])
        case Ops.NEG:
            if u.dtype is f32:  # a machine may make 0 of a small number
                return f"opposite({a[0]})"
            return f"-{a[0]}" if u.dtype is not u32 else f"0u - {a[0]}"
        case Ops.NOT:
            return f"!{a[0]}" if u.dtype is bool_ else f"~{a[0]}"
        case Ops.CAST if u.dtype is f32 and u.src[0].dtype in (i32, u32) and not plainly:
            return f"from_{u.src[0].dtype.name}({a[0]})"  # a machine may round it twice
        case Ops.CAST:
            return f"{t}({a[0]})"
        case Ops.BITCAST:
            return as_bits(d, u.src[0].dtype, u.dtype, a[0])
        case Ops.SHL:
            return f"{a[0]} << {places(d, u, a[1])}"
        case Ops.SHR if u.dtype is i32:
            shifted = f"({as_bits(d, i32, u32, a[0])} >> {places(d, u, a[1])})"
            return as_bits(d, u32, i32, shifted)
        case Ops.SHR | Ops.SAR:
            return f"{a[0]} >> {places(d, u, a[1])}"
        case Ops.SQRT:
            return f"sqrt({a[0]})"
        case Ops.TDIV:
            return f"{a[0]} / {a[1]}"
        case Ops.AND | Ops.OR if u.dtype is bool_:
            return f"{a[0]} {INFIX[u.op] * 2} {a[1]}"
        case Ops.XOR if u.dtype is bool_:
            return f"{a[0]} != {a[1]}"
    return f"{a[0]} {INFIX[u.op]} {a[1]}"


def places(d: Shading, u: UOp, n: str) -> str:
    """By how many places, as a number without a sign."""
    if u.src[1].op is Ops.CONST:
        return f"{u.src[1].arg}u"
    return n if u.src[1].dtype is u32 else f"{d.types['u32']}({n})"


# --- the dialects -----------------------------------------------------------------------------------
WGSL_TYPES = {"f32": "f32", "i32": "i32", "u32": "u32", "bool": "bool"}
GLSL_TYPES = {"f32": "float", "i32": "int", "u32": "uint", "bool": "bool"}
WGSL = Shading(
    "wgsl", WGSL_TYPES,
    "let {n}: {t} = {x};", "var {n}: {t} = {x};", "select({b}, {a}, {c})",
    {(a, b): f"bitcast<{b}>({{a}})" for a in ("f32", "i32", "u32") for b in ("f32", "i32", "u32")},
    "fn {name}({given}) -> {t} {{", "{n}: {t}", "var<private> {n}: {t} = {x};",
    "override {name}: bool = false;",
    """struct Call {{ begin: u32, end: u32, members: u32, steps: u32, zero: u32 }}
@group(0) @binding(0) var<storage, read> source: array<{T}>;  // a row for each number, a column for each member
@group(0) @binding(1) var<storage, read_write> becomes: array<{T}>;
@group(0) @binding(2) var<storage, read> alike: array<u32>;  // what is the same for all members
@group(0) @binding(3) var<storage, read> own: array<u32>;  // a row for each number, a column for each member
@group(0) @binding(4) var<storage, read> clock: array<u32>;  // a row for each number, a column for each step
@group(0) @binding(5) var<storage, read_write> flags: array<u32>;  // 1: to be done again, carefully
@group(0) @binding(6) var<uniform> call: Call;""",
    "@compute @workgroup_size(64)\nfn {name}(@builtin(global_invocation_id) at: vec3<u32>) {{",
    "at.x",
)  # fmt: skip
GLSL = Shading(
    "glsl", GLSL_TYPES,
    "precise {t} {n} = {x};", "precise {t} {n} = {x};", "({c} ? {a} : {b})",
    {("f32", "u32"): "floatBitsToUint({a})", ("f32", "i32"): "floatBitsToInt({a})",
     ("u32", "f32"): "uintBitsToFloat({a})", ("i32", "f32"): "intBitsToFloat({a})",
     ("i32", "u32"): "uint({a})", ("u32", "i32"): "int({a})"},
    "{t} {name}({given}) {{", "{t} {n}", "{t} {n} = {x};",
    "layout(constant_id = {k}) const bool {name} = false;",
    """layout(local_size_x = 64) in;
layout(std430, set = 0, binding = 0) readonly buffer Source {{ {T} source[]; }};
layout(std430, set = 0, binding = 1) buffer Becomes {{ {T} becomes[]; }};
layout(std430, set = 0, binding = 2) readonly buffer Alike {{ uint alike[]; }};
layout(std430, set = 0, binding = 3) readonly buffer Own {{ uint own[]; }};
layout(std430, set = 0, binding = 4) readonly buffer Clock {{ uint clock[]; }};
layout(std430, set = 0, binding = 5) buffer Flags {{ uint flags[]; }};
layout(std140, set = 0, binding = 6) uniform Call {{ uint begin, end, members, steps, zero; }} call;""",
    "void {name}() {{",
    "gl_GlobalInvocationID.x",
)  # fmt: skip
