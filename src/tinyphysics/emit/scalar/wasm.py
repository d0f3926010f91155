"""A kernel as LLVM IR for WebAssembly: the text of one lane, with an exact fused operation written out.

WebAssembly has no fused multiply-add. A product and a sum would give other bits, so calls of LLVM's operation become calls of
a function that has its rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tinyphysics.emit.scalar.llvm import FunctionFrame, function
from tinyphysics.emit.text.marks import marking
from tinyphysics.emit.text.writer import Writer, lines_for
from tinyphysics.ir import UOp, f32, f64
from tinyphysics.rules.functions import exact_fma
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import Section

ONE = VectorShape(1, 1)  # member after member
FUSED = {"@llvm.fma.f64": "@fused.f64", "@llvm.fma.f32": "@fused.f32"}


def module(sections: Sequence[Section], params: Sequence[UOp], varying: Sequence[bool]) -> str:
    """LLVM IR of some sections, a function each."""
    lines: list[str] = []
    declared: dict[str, str] = {}
    for f in sections:
        text, wants = function(f, params, varying, ONE, FunctionFrame())
        lines += text
        declared |= wants
    return without_fused("\n".join([*declared.values(), *lines, "attributes #0 = { nounwind }"]) + "\n")


def without_fused(text: str) -> str:
    """The text of a module with LLVM's fused operations as functions of its own."""
    own = []
    for name, ours in FUSED.items():
        if name not in text:
            continue
        text = "\n".join(
            line for line in text.split("\n") if not line.startswith("declare") or name not in line
        )
        text = text.replace(name, ours)
        own.append(fused_double() if ours.endswith("f64") else fused_single())
    return "\n".join([*own, text])


@lru_cache(maxsize=1)
def fused_double() -> str:
    """Quick where exponents are usual; a function of its own for the rest, which is long."""
    with marking(None):
        return fused_of_double()


def fused_of_double() -> str:
    x, y, z = arguments = [UOp.var(n) for n in "xyz"]
    rest = leaf("@fused.any", arguments, exact_fma.always(x, y, z))
    w = Writer(1)
    env = {a: f"%{a.arg}" for a in arguments}
    ok = exact_fma.is_usual(x, y, z)
    lines_for(w, [ok], [env])
    w.line(f"br i1 {env[ok]}, label %usual, label %rare")
    w.at("usual")
    value = exact_fma.usual(x, y, z)
    lines_for(w, [value], [env])
    w.line(f"ret double {env[value]}")
    w.at("rare")
    w.line(f"ret double {w.new('call double @fused.any(double %x, double %y, double %z)')}")
    head = "define internal double @fused.f64(double %x, double %y, double %z) nounwind {"
    return "\n".join([rest, head, "entry:", *w.lines, "}"])


@lru_cache(maxsize=1)
def fused_single() -> str:
    with marking(None):
        return fused_of_single()


def fused_of_single() -> str:
    x, y, z = arguments = [UOp.var(n, (), f32) for n in "xyz"]
    return leaf("@fused.f32", arguments, exact_fma.single(x, y, z))


def leaf(name: str, arguments: Sequence[UOp], value: UOp) -> str:
    """A function of numbers that calls nothing."""
    w = Writer(1)
    env = {a: f"%{a.arg}" for a in arguments}
    lines_for(w, [value], [env])
    t = {f64: "double", f32: "float"}[value.dtype]
    head = f"define internal {t} {name}({', '.join(f'{t} {env[a]}' for a in arguments)}) nounwind {{"
    return "\n".join([head, "entry:", *w.lines, f"  ret {t} {w.ref(value, env)}", "}"])
