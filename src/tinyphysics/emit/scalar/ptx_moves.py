"""Arrays of a user's on a GPU, into the order of loop nests and back; into two words, or whole numbers, and back.

An array lies row by row, and a buffer of loop nests in planes of components (device/host/memory.py); strides say where.
"""

from __future__ import annotations

from tinyphysics.emit.scalar.ptx import ATTRIBUTES, HEAD, SPECIAL
from tinyphysics.emit.scalar.ptx_tools import at, kernel, load, store


def strided(name: str, word: str, into: bool) -> list[str]:
    """Numbers of an array with some axes to where strides say, or from there."""
    source, out = ("%k", "%to") if into else ("%to", "%k")
    body = [
        "br label %head",
        "head:",
        "%axis = phi i64 [ %axes, %one ], [ %axis.next, %turn ]",
        "%left = phi i64 [ %k, %one ], [ %left.next, %turn ]",
        "%to = phi i64 [ 0, %one ], [ %to.next, %turn ]",
        "%more.axes = icmp sgt i64 %axis, 0",
        "br i1 %more.axes, label %turn, label %move",
        "turn:",
        "%axis.next = sub i64 %axis, 1",
        at("n.at", "i64", "shape", "%axis.next"),
        load("n", "i64"),
        at("s.at", "i64", "strides", "%axis.next"),
        load("s", "i64"),
        "%left.next = udiv i64 %left, %n",
        "%whole = mul i64 %left.next, %n",
        "%here = sub i64 %left, %whole",
        "%far = mul i64 %here, %s",
        "%to.next = add i64 %to, %far",
        "br label %head",
        "move:",
        at("x.at", word, "source", source),
        load("x", word),
        at("y.at", word, "out", out),
        store(word),
        "br label %next",
    ]
    given = "ptr %source, ptr %out, ptr %shape, ptr %strides, i64 %axes, i64 %count"
    return kernel(f"{name}_{word}", given, "%count", body)


# the nearest float32, and the float32 nearest to what is left
SPLIT = kernel(
    "split",
    "ptr %source, ptr %high, ptr %low, i64 %count",
    "%count",
    [
        at("x.at", "double", "source", "%k"),
        "%x = load double, ptr %x.at, align 8",
        "%h = fptrunc double %x to float",
        "%h.wide = fpext float %h to double",
        "%rest = fsub double %x, %h.wide",
        "%l = fptrunc double %rest to float",
        at("h.at", "float", "high", "%k"),
        "store float %h, ptr %h.at, align 4",
        at("l.at", "float", "low", "%k"),
        "store float %l, ptr %l.at, align 4",
        "br label %next",
    ],
)


def total(kind: str) -> list[str]:
    """Two words as one float64."""
    word, size = ("double", 8) if kind == "f64" else ("float", 4)
    wide = [f"%{x}.wide = fpext float %{x} to double" for x in "hl"] if kind == "f32" else []
    h, low = ("%h.wide", "%l.wide") if wide else ("%h", "%l")
    return kernel(
        f"total_{kind}",
        "ptr %high, ptr %low, ptr %out, i64 %count",
        "%count",
        [
            at("h.at", word, "high", "%k"),
            f"%h = load {word}, ptr %h.at, align {size}",
            at("l.at", word, "low", "%k"),
            f"%l = load {word}, ptr %l.at, align {size}",
            *wide,
            f"%sum = fadd double {h}, {low}",
            at("y.at", "double", "out", "%k"),
            "store double %sum, ptr %y.at, align 8",
            "br label %next",
        ],
    )


# the nearest whole number of units, which are powers of two: so that a product with the inverse is the quotient
WHOLE = kernel(
    "whole",
    "ptr %source, ptr %out, i64 %inverse, i64 %range, i64 %lost, i64 %count",
    "%count",
    [
        at("x.at", "double", "source", "%k"),
        "%x = load double, ptr %x.at, align 8",
        "%per = bitcast i64 %inverse to double",
        "%most = bitcast i64 %range to double",
        "%u = fmul double %x, %per",
        "%n = call double @llvm.rint.f64(double %u)",
        "%up = fcmp olt double %n, %most",
        "%down = fneg double %most",
        "%above = fcmp ogt double %n, %down",
        "%in = and i1 %up, %above",
        "%safe = select i1 %in, double %n, double 0.0",
        "%whole = fptosi double %safe to i64",
        "%y = select i1 %in, i64 %whole, i64 %lost",
        at("y.at", "i64", "out", "%k"),
        "store i64 %y, ptr %y.at, align 8",
        "br label %next",
    ],
)

VALUE = kernel(
    "value",
    "ptr %source, ptr %out, i64 %unit, i64 %lost, i64 %count",
    "%count",
    [
        at("n.at", "i64", "source", "%k"),
        load("n", "i64"),
        "%per = bitcast i64 %unit to double",
        "%x = sitofp i64 %n to double",
        "%v = fmul double %x, %per",
        "%gone = icmp eq i64 %n, %lost",
        "%y = select i1 %gone, double 0x7FF8000000000000, double %v",
        at("y.at", "double", "out", "%k"),
        "store double %y, ptr %y.at, align 8",
        "br label %next",
    ],
)


# does the step of any member end before a time?  Its clock is the time in two words, then the length of its step
BEHIND = kernel(
    "behind",
    "ptr %rows, i64 %stride, i64 %bits, i64 %members, ptr %word",
    "%members",
    [
        at("high.at", "double", "rows", "%k"),
        "%high = load double, ptr %high.at, align 8",
        at("low.at", "double", "high.at", "%stride"),
        "%low = load double, ptr %low.at, align 8",
        at("h.at", "double", "low.at", "%stride"),
        "%h = load double, ptr %h.at, align 8",
        "%until = bitcast i64 %bits to double",
        "%to = fsub double %until, %high",
        "%left = fsub double %to, %low",
        "%on = fcmp ogt double %left, %h",
        "br i1 %on, label %set, label %next",
        "set:",
        "store i32 1, ptr %word",
        "br label %next",
    ],
)


def module() -> str:
    lines = [*SPLIT, *BEHIND, *WHOLE, *VALUE, *total("f64"), *total("f32")]
    for word in ("i32", "i64"):
        lines += [*strided("into", word, True), *strided("from", word, False)]
    return (
        "\n".join([HEAD, *SPECIAL.values(), "declare double @llvm.rint.f64(double)", *lines, ATTRIBUTES])
        + "\n"
    )


NAMES = (
    "split",
    "behind",
    "whole",
    "value",
    "total_f64",
    "total_f32",
    "into_i32",
    "into_i64",
    "from_i32",
    "from_i64",
)
