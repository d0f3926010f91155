"""How is an instruction for 1/sqrt x written in LLVM IR, for any number of lanes?  By the intrinsics of each machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from tinyphysics.ir.dtype import DType, f32, f64
from tinyphysics.ir.uop import UOp


class Writing(Protocol):
    """What emit/text/writer.py offers."""

    width: int
    declared: dict[str, str]

    def new(self, text: str) -> str: ...
    def type(self, d: DType) -> str: ...
    def cast(self, source: DType, d: DType, a: str) -> str: ...
    def call(self, name: str, u: UOp, args: Any) -> str: ...


def seed(w: Writing, u: UOp, a: str) -> str:
    """About 1/sqrt of a value: full lanes of some width, or one number."""
    name, told = u.arg
    return WAYS[name](w, u.dtype, a, told)


# --- x86 -----------------------------------------------------------------------------------------
def lanes(w: Writing, element: str, a: str, full: int, call: Callable[[str], str]) -> str:
    """An instruction of `full` lanes on a value of any power of two of them."""
    vector = f"<{full} x {element}>"
    if w.width == full:
        return call(a)
    if w.width == 1:
        one = w.new(f"insertelement {vector} zeroinitializer, {element} {a}, i64 0")
        return w.new(f"extractelement {vector} {call(one)}, i64 0")
    own = f"<{w.width} x {element}>"
    if w.width < full:
        wider = ", ".join(f"i32 {k}" for k in range(full))  # what is beyond its lanes comes from the zeros
        wide = w.new(f"shufflevector {own} {a}, {own} zeroinitializer, <{full} x i32> <{wider}>")
        less = ", ".join(f"i32 {k}" for k in range(w.width))
        return w.new(f"shufflevector {vector} {call(wide)}, {vector} poison, <{w.width} x i32> <{less}>")
    assert w.width & (w.width - 1) == 0, "halves are joined"
    pieces = []
    for begin in range(0, w.width, full):
        part = ", ".join(f"i32 {begin + k}" for k in range(full))
        pieces.append(call(w.new(f"shufflevector {own} {a}, {own} poison, <{full} x i32> <{part}>")))
    while len(pieces) > 1:
        half = f"<{w.width // len(pieces)} x {element}>"
        both = ", ".join(f"i32 {k}" for k in range(2 * w.width // len(pieces)))
        pieces = [
            w.new(f"shufflevector {half} {x}, {half} {y}, <{2 * w.width // len(pieces)} x i32> <{both}>")
            for x, y in zip(pieces[0::2], pieces[1::2])
        ]
    return pieces[0]


def rsqrtps(w: Writing, d: DType, a: str, told: bool, most: int = 8) -> str:
    """Of float32; float64 goes there and back: what is too large for that gives 0, or NaN where it must be told."""
    x = a if d is f32 else w.cast(f64, f32, a)
    full = 8 if w.width >= 8 and most == 8 else 4
    name = "@llvm.x86.avx.rsqrt.ps.256" if full == 8 else "@llvm.x86.sse.rsqrt.ps"
    t = f"<{full} x float>"
    w.declared[name] = f"declare {t} {name}({t})"
    y = lanes(w, "float", x, full, lambda v: w.new(f"call {t} {name}({t} {v})"))
    if d is f32:
        return y
    if told:  # infinity times 0
        y = w.call("fma", UOp.var("y", (), f32), [x, "0.0" if w.width == 1 else "zeroinitializer", y])
    return w.cast(f32, f64, y)


def rsqrt14(w: Writing, d: DType, a: str, told: bool) -> str:
    element, name, most = ("double", "pd", 8) if d is f64 else ("float", "ps", 16)
    least = most // 4
    full = max(least, min(w.width, most))
    bits = full * d.bits
    function = f"@llvm.x86.avx512.rsqrt14.{name}.{bits}"
    t, mask = f"<{full} x {element}>", f"i{max(full, 8)}"
    w.declared[function] = f"declare {t} {function}({t}, {t}, {mask})"
    call = f"call {t} {function}({t} {{}}, {t} zeroinitializer, {mask} -1)"
    return lanes(w, element, a, full, lambda v: w.new(call.format(v)))


# --- NVIDIA --------------------------------------------------------------------------------------
def ptx(w: Writing, d: DType, a: str, told: bool) -> str:
    assert w.width == 1, "a thread has one lane"
    t, name = (
        ("double", "@llvm.nvvm.rsqrt.approx.ftz.d")
        if d is f64
        else ("float", "@llvm.nvvm.rsqrt.approx.ftz.f")
    )
    w.declared[name] = f"declare {t} {name}({t})"
    return w.new(f"call {t} {name}({t} {a})")


WAYS: dict[str, Callable[[Writing, DType, str, bool], str]] = {
    "rsqrtps": rsqrtps,
    "rsqrtps4": partial(rsqrtps, most=4),
    "rsqrt14": rsqrt14,
    "ptx": ptx,
}
