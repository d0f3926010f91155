"""Loop nests as LLVM IR: a function for each nest over a range of its outermost loop, one for each section.

Threads share a nest by its range; the function of a section runs all its nests for as many steps as asked.
Nothing here decides a bit: what a number is was written down in the nest.
"""
from __future__ import annotations

from tinyphysics.emit.llvm import RESTORE_MODE, SET_MODE
from tinyphysics.emit.nest_kinds import write
from tinyphysics.emit.nest_writer import NestWriter
from tinyphysics.ir.reduction import slabs
from tinyphysics.tpir.nests import LoopKernel, LoopSection
from tinyphysics.tpir.wavefront import Wavefront, wavefront

NEST_ARGUMENTS = "ptr %buffers, ptr %uniform, ptr %flags, i64 %lo, i64 %hi, i64 %now"


def function_name(section: LoopSection, k: int) -> str:
    return f"{section.name}.{k}"


def call(section: LoopSection, k: int, lo: str, hi: str, now: str = "%now") -> str:
    given = f"ptr %buffers, ptr %uniform, ptr %flags, i64 {lo}, i64 {hi}, i64 {now}"
    return f'  call void @"{function_name(section, k)}"({given})'


def driver(kernel: LoopKernel, section: LoopSection, slots: dict[str, int], x86: bool) -> list[str]:
    """All nests of a section in turn, as often as asked; several steps in one pass where they can follow each other."""
    given = "ptr %buffers, ptr %uniform, ptr %flags, i64 %first, i64 %steps"
    lines = [f"define void @{section.name}({given}) #0 {{", "entry:"]
    lines += [SET_MODE] if x86 else []
    wave = wavefront(section, kernel.buffers)
    if wave is None:
        lines += ["  br label %rest", "rest:"]
        begin = ("0", "%rest")
    else:
        lines += passes(section, wave)
        begin = ("%g", "%rest")
    lines += ["  br label %head", "head:", f"  %k = phi i64 [ {begin[0]}, {begin[1]} ], [ %k.next, %body ]",
              "  %more = icmp slt i64 %k, %steps", "  br i1 %more, label %body, label %exit", "body:",
              "  %now = add i64 %first, %k"]  # fmt: skip
    for k, nest in enumerate(section.nests):
        lines.append(call(section, k, "0", str(nest.extent)))
    for k, (a, b) in enumerate(section.swaps):
        for name, slot in (("a", slots[a]), ("b", slots[b])):
            lines += [f"  %{name}{k} = getelementptr ptr, ptr %buffers, i64 {slot}",
                      f"  %{name}v{k} = load ptr, ptr %{name}{k}"]  # fmt: skip
        lines += [f"  store ptr %bv{k}, ptr %a{k}", f"  store ptr %av{k}, ptr %b{k}"]
    lines += ["  %k.next = add i64 %k, 1", "  br label %head", "exit:"]
    return [*lines, *([RESTORE_MODE] if x86 else []), "  ret void", "}"]


def passes(section: LoopSection, wave: Wavefront) -> list[str]:
    """Whole passes of several steps; %g is how many steps they have done."""
    lines = ["  br label %group", "group:", "  %g = phi i64 [ 0, %entry ], [ %g.next, %edge ]",
             f"  %g.next = add i64 %g, {wave.steps}", "  %fits = icmp sle i64 %g.next, %steps",
             "  br i1 %fits, label %sweep, label %rest", "sweep:"]  # fmt: skip
    for k in range(wave.steps):
        lines += [f"  %at{k} = add i64 %g, {k}", f"  %now{k} = add i64 %first, %at{k}"]
    lines += ["  br label %tick", "tick:", "  %t = phi i64 [ 0, %sweep ], [ %t.next, %tock ]",
              f"  %going = icmp slt i64 %t, {wave.ticks}", "  br i1 %going, label %stage0, label %edge"]  # fmt: skip
    for s in range(wave.stages):
        low, high = wave.sweep(s)
        lag = s * wave.reach
        lines += [f"stage{s}:", f"  %a{s} = mul i64 %t, {wave.rows}", f"  %b{s} = sub i64 %a{s}, {lag}",
                  f"  %c{s} = add i64 %b{s}, {wave.rows}",
                  f"  %under{s} = icmp slt i64 %b{s}, {low}", f"  %lo{s} = select i1 %under{s}, i64 {low}, i64 %b{s}",
                  f"  %over{s} = icmp sgt i64 %c{s}, {high}", f"  %hi{s} = select i1 %over{s}, i64 {high}, i64 %c{s}",
                  f"  %some{s} = icmp slt i64 %lo{s}, %hi{s}"]  # fmt: skip
        following = f"stage{s + 1}" if s + 1 < wave.stages else "tock"
        lines += [f"  br i1 %some{s}, label %do{s}, label %{following}", f"do{s}:",
                  call(section, s % wave.nests, f"%lo{s}", f"%hi{s}", f"%now{s // wave.nests}"),
                  f"  br label %{following}"]  # fmt: skip
    lines += ["tock:", "  %t.next = add i64 %t, 1", "  br label %tick", "edge:"]
    for s in range(1, wave.stages):
        low, high = wave.sweep(s)
        now = f"%now{s // wave.nests}"
        lines += [call(section, s % wave.nests, str(high), str(wave.extent), now)] if high < wave.extent else []
        lines.append(call(section, s % wave.nests, "0", str(low), now))
    return [*lines, "  br label %group", "rest:"]


def part(section: LoopSection, k: int, x86: bool) -> list[str]:
    """One nest over a range, called from outside."""
    lines = [f'define void @"part.{function_name(section, k)}"({NEST_ARGUMENTS}) #0 {{', "entry:"]
    lines += [SET_MODE] if x86 else []
    lines.append(call(section, k, "%lo", "%hi"))
    return [*lines, *([RESTORE_MODE] if x86 else []), "  ret void", "}"]


def module(kernel: LoopKernel, careful: bool, width: int, x86: bool) -> str:
    """Every section of a kernel as one module."""
    slots = {name: k for k, name in enumerate(kernel.buffers)}
    declared: dict[str, str] = {}
    text: list[str] = []
    sizes: dict[int, None] = {}
    sections = kernel.careful if careful else kernel.sections
    for section in sections.values():
        for k, nest in enumerate(section.nests):
            doubles = all(kernel.buffers[s.buffer].dtype.bits == 64 for p in nest.pieces for s in p.stores)
            w = NestWriter(kernel, slots, nest, width if doubles else 2 * width)
            body = write(w)
            text += [f'define internal void @"{function_name(section, k)}"({NEST_ARGUMENTS}) #0 {{', "entry:",
                     *body, "  ret void", "}"]  # fmt: skip
            text += part(section, k, x86)
            declared |= w.w.declared
            if nest.kind == "pairs":
                sizes[nest.sizes[0]] = None
        text += driver(kernel, section, slots, x86)
    if x86:
        declared["ld"] = "declare void @llvm.x86.sse.ldmxcsr(ptr)"
        declared["st"] = "declare void @llvm.x86.sse.stmxcsr(ptr)"
    for n in sizes:
        cuts = ", ".join(f"i64 {c}" for c in slabs(n))
        declared[f"cuts{n}"] = f"@cuts.{n} = internal constant [{len(slabs(n))} x i64] [{cuts}]"
    attributes = 'attributes #0 = { nounwind "stackrealign" "prefer-vector-width"="512" }'
    return "\n".join([*declared.values(), *text, attributes, ""])


