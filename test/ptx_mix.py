"""Which instructions of a PTX text may give other bits than the graph says?  None should be left."""

from __future__ import annotations

import re

from ptx_text import Instruction, Module

ROUNDS = ("add", "sub", "mul", "div", "fma", "mad", "sqrt", "rcp")  # each says how: `.rn`
NEVER = ("approx", "ftz", "full", "sat", "rz", "rm", "rp", "f16", "f16x2", "bf16", "bf16x2", "noftz")
HARDWARE = ("rsqrt", "sin", "cos", "ex2", "lg2", "tanh", "dp4a", "mma", "wgmma")


def objection(i: Instruction) -> str:
    """Why an instruction is not exact or not reproducible; empty if it is both."""
    name, *rest = i.parts
    floating = any(p in ("f32", "f64") for p in rest)
    if name in HARDWARE:
        return f"`{i}` is the hardware's own function"
    if name in ("atom", "red") and floating:
        return f"`{i}`: the order of floating-point atomics is nobody's"
    if bad := [p for p in rest if p in NEVER]:
        return f"`{i}`: .{bad[0]}"
    if floating and name in ROUNDS and "rn" not in rest:
        return f"`{i}` may be contracted by the assembler: it does not say .rn"
    return ""


def objections(m: Module) -> list[str]:
    return [text for i in m.instructions() if (text := objection(i))]


def fused(m: Module) -> int:
    """Multiplications and additions that are rounded once."""
    return sum(i.op.startswith("fma.rn.f") for i in m.instructions())


def asked_for(llvm: str) -> int:
    """Those that the graph has, from the LLVM IR that was written of it."""
    return len(re.findall(r"call (?:double|float) @llvm\.fma\.f(?:64|32)\(", llvm))
