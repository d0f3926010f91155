"""Loop nests as LLVM IR: a function for each nest over a range of its outermost loop, one for each section.

Threads share a nest by its range; the function of a section runs all its nests for as many steps as asked.
Nothing here decides a bit: what a number is was written down in the nest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from tinyphysics.emit.kinds import nest_registers
from tinyphysics.emit.kinds.nest_kinds import write
from tinyphysics.emit.loops.nest_writer import NestWriter
from tinyphysics.emit.modules.same_nests import NUMBERS, SameNests, call_of
from tinyphysics.emit.scalar.llvm import RESTORE_MODE, SET_MODE
from tinyphysics.emit.text.print_llvm import host_lines
from tinyphysics.emit.text.writer import literal
from tinyphysics.ir.reduction import slabs
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels.nests import (
    LoopKernel,
    LoopSection,
    Nest,
    Repeat,
    Round,
    Turn,
    rounds,
    whole_numbers,
)
from tinyphysics.tpir.kernels.wavefront import Wavefront, wavefront

SHORT = (
    4096  # a map along one axis that is not longer has a second form, for the whole of it: bounds are numbers
)
MOST_WRITTEN_TWICE = (
    96  # nests of a section; above, rodas on 100 places runs 10 % longer and compiles in two thirds
)
NEST_ARGUMENTS = "ptr %buffers, ptr %uniform, ptr %flags, i64 %lo, i64 %hi, i64 %now"


def function_name(section: LoopSection, k: int) -> str:
    return f"{section.name}.{k}"


def is_short(section: LoopSection, nest: Nest) -> bool:
    """Solvers have many nests: there a second form of each would take longer to compile than it saves."""
    few = len(section.nests) <= MOST_WRITTEN_TWICE
    return few and nest.kind == "map" and len(nest.variables) == 1 and nest.sizes[0] <= SHORT


def call(name: str, lo: str, hi: str, now: str = "%now") -> str:
    return f'  call void @"{name}"(ptr %buffers, ptr %uniform, ptr %flags, i64 {lo}, i64 {hi}, i64 {now})'


def driver(kernel: LoopKernel, section: LoopSection, slots: dict[str, int], x86: bool) -> list[str]:
    """All nests of a section in turn, as often as asked; several steps in one pass where they can follow each other."""
    given = "ptr %buffers, ptr %uniform, ptr %flags, i64 %first, i64 %steps"
    lines = [f"define void @{section.name}({given}) #0 {{", "entry:"]
    lines += [SET_MODE] if x86 else []
    wave = wavefront(section, kernel.buffers)
    if wave is None:
        lines += ["  br label %rest", "rest:"]
    else:
        lines += [
            "  br label %group",
            "group:",
            "  %g = phi i64 [ 0, %entry ], [ %g.next, %pass ]",
            f"  %g.next = add i64 %g, {wave.steps}",
            "  %fits = icmp sle i64 %g.next, %steps",
            "  br i1 %fits, label %pass, label %rest",
            "pass:",
            "  %g.now = add i64 %first, %g",
            call(f"sweep.{section.name}", "0", str(wave.extent), "%g.now"),
            call(f"edge.{section.name}", "0", "0", "%g.now"),
            "  br label %group",
            "rest:",
        ]
    done = "0" if wave is None else "%g"
    latch = "stepped" if section.rolled or section.ends_early else "body"
    lines += [
        "  br label %head",
        "head:",
        f"  %k = phi i64 [ {done}, %rest ], [ %k.next, %{latch} ]",
        "  %more = icmp slt i64 %k, %steps",
        "  br i1 %more, label %body, label %exit",
        "body:",
        "  %now = add i64 %first, %k",
    ]
    if section.ends_early:
        lines += [
            *ending_lines(section, section.turns, slots, "exit", count()),
            "  br label %stepped",
            "stepped:",
        ]
    else:
        lines += passes(section, slots) if section.rolled else turn_lines(section, one(section.turns), slots)
    lines += ["  %k.next = add i64 %k, 1", "  br label %head", "exit:"]
    lines += [*([RESTORE_MODE] if x86 else []), "  ret void", "}"]
    if wave is not None:
        lines += [*sweep(section, wave), *edge(section, wave)]
        lines += [*outside(f"sweep.{section.name}", x86), *outside(f"edge.{section.name}", x86)]
    return lines


def turn_lines(section: LoopSection, turn: Round, slots: dict[str, int], which: str = "") -> list[str]:
    """Some nests, one after the other; then buffers change places."""
    lines = []
    for k in range(turn.begin, turn.end):
        nest = section.nests[k]
        lines.append(
            call(
                function_name(section, k) + (".whole" if is_short(section, nest) else ""),
                "0",
                str(nest.extent),
            )
        )
    for k, (a, b) in enumerate(turn.swaps):
        for name, slot in ((f"a{which}", slots[a]), (f"b{which}", slots[b])):
            lines += [
                f"  %{name}{k} = getelementptr ptr, ptr %buffers, i64 {slot}",
                f"  %{name}v{k} = load ptr, ptr %{name}{k}",
            ]
        lines += [
            f"  store ptr %b{which}v{k}, ptr %a{which}{k}",
            f"  store ptr %a{which}v{k}, ptr %b{which}{k}",
        ]
    return lines


def one(turns: tuple[Turn, ...]) -> Round:
    (turn,) = rounds(turns)
    return turn


def ending_lines(
    section: LoopSection, turns: Iterable[Turn], slots: dict[str, int], out: str, names: Iterator[int]
) -> list[str]:
    """Turns of a loop that ends where a number says so; then the label `out` is next."""
    lines: list[str] = []
    for turn in turns:
        k = next(names)
        if isinstance(turn, Repeat):
            inner = ending_lines(section, turn.turns, slots, f"done{k}", names)
            lines += [
                f"  br label %enter{k}",
                f"enter{k}:",
                f"  br label %again{k}",
                f"again{k}:",
                f"  %round{k} = phi i64 [ 1, %enter{k} ], [ %round{k}.next, %went{k} ]",
                *inner,
                f"  br label %went{k}",
                f"went{k}:",
                f"  %round{k}.next = add i64 %round{k}, 1",
                f"  %left{k} = icmp sle i64 %round{k}.next, {turn.most}",
                f"  br i1 %left{k}, label %again{k}, label %done{k}",
                f"done{k}:",
            ]
            continue
        lines += turn_lines(section, turn, slots, f"{k}.")
        if turn.going:
            lines += [
                f"  %at{k} = getelementptr ptr, ptr %buffers, i64 {slots[turn.going]}",
                f"  %number{k} = load ptr, ptr %at{k}",
                f"  %going{k} = load i32, ptr %number{k}",
                f"  %goes{k} = icmp ne i32 %going{k}, 0",
                f"  br i1 %goes{k}, label %on{k}, label %{out}",
                f"on{k}:",
            ]
    return lines


def passes(section: LoopSection, slots: dict[str, int]) -> list[str]:
    """A step that is a loop itself, in which some turns come less often."""
    every = list(rounds(section.turns))
    last = f"turned{len(every) - 1}"
    lines = [
        "  br label %pass.head",
        "pass.head:",
        f"  %pass = phi i64 [ 1, %body ], [ %pass.next, %{last} ]",
    ]
    for k, turn in enumerate(every):
        if turn.period > 1:
            lines += [
                f"  %turn{k} = urem i64 %pass, {turn.period}",
                f"  %due{k} = icmp eq i64 %turn{k}, 0",
                f"  br i1 %due{k}, label %doing{k}, label %turned{k}",
                f"doing{k}:",
            ]
        lines += [*turn_lines(section, turn, slots, f"{k}."), f"  br label %turned{k}", f"turned{k}:"]
    return [
        *lines,
        "  %pass.next = add i64 %pass, 1",
        f"  %passing = icmp sle i64 %pass.next, {section.passes}",
        "  br i1 %passing, label %pass.head, label %stepped",
        "stepped:",
    ]


def sweep(section: LoopSection, wave: Wavefront) -> list[str]:
    """Several steps on a slab of rows, each nest some rows behind the one before it."""
    lines = [f'define internal void @"sweep.{section.name}"({NEST_ARGUMENTS}) #0 {{', "entry:"]
    for k in range(wave.steps):
        lines.append(f"  %now{k} = add i64 %now, {k}")
    lines += [
        "  br label %tick",
        "tick:",
        "  %r = phi i64 [ %lo, %entry ], [ %r.next, %tock ]",
        "  %going = icmp slt i64 %r, %hi",
        "  br i1 %going, label %stage0, label %exit",
    ]
    for s in range(wave.stages):
        lag = wave.lag(s)
        lines += [
            f"stage{s}:",
            f"  %b{s} = sub i64 %r, {lag}",
            f"  %c{s} = add i64 %b{s}, {wave.rows}",
            f"  %low{s} = add i64 %lo, {lag}",
            f"  %high{s} = sub i64 %hi, {lag}",
            f"  %under{s} = icmp slt i64 %b{s}, %low{s}",
            f"  %from{s} = select i1 %under{s}, i64 %low{s}, i64 %b{s}",
            f"  %over{s} = icmp sgt i64 %c{s}, %high{s}",
            f"  %to{s} = select i1 %over{s}, i64 %high{s}, i64 %c{s}",
            f"  %some{s} = icmp slt i64 %from{s}, %to{s}",
        ]
        following = f"stage{s + 1}" if s + 1 < wave.stages else "tock"
        lines += [
            f"  br i1 %some{s}, label %do{s}, label %{following}",
            f"do{s}:",
            call(function_name(section, s % wave.nests), f"%from{s}", f"%to{s}", f"%now{s // wave.nests}"),
            f"  br label %{following}",
        ]
    return [
        *lines,
        "tock:",
        f"  %r.next = add i64 %r, {wave.rows}",
        "  br label %tick",
        "exit:",
        "  ret void",
        "}",
    ]


def edge(section: LoopSection, wave: Wavefront) -> list[str]:
    """The rows around the edge at %lo that the sweeps of both sides have left, stage by stage."""
    lines = [
        f'define internal void @"edge.{section.name}"({NEST_ARGUMENTS}) #0 {{',
        "entry:",
        "  %zero = icmp eq i64 %lo, 0",
        f"  %end = select i1 %zero, i64 {wave.extent}, i64 %lo",
    ]
    for s in range(1, wave.stages):
        lag = wave.lag(s)
        lines += [
            f"  %a{s} = sub i64 %end, {lag}",
            f"  %b{s} = add i64 %lo, {lag}",
            f"  %now{s} = add i64 %now, {s // wave.nests}",
        ]
        name = function_name(section, s % wave.nests)
        lines += [call(name, f"%a{s}", "%end", f"%now{s}"), call(name, "%lo", f"%b{s}", f"%now{s}")]
    return [*lines, "  ret void", "}"]


def outside(name: str, x86: bool) -> list[str]:
    """A function over a range, as it is called from outside."""
    lines = [f'define void @"part.{name}"({NEST_ARGUMENTS}) #0 {{', "entry:", *([SET_MODE] if x86 else [])]
    lines.append(call(name, "%lo", "%hi"))
    return [*lines, *([RESTORE_MODE] if x86 else []), "  ret void", "}"]


def lanes_of(kernel: LoopKernel, nest: Nest, width: int) -> int:
    """Of a vector as wide as `width` doubles: bytes where all is bytes."""
    whole = [whole_numbers(p) for p in nest.pieces]
    if all(whole):
        return width * 64 // max(8, *(u.dtype.bits for found in whole for u in found))
    doubles = all(kernel.buffers[s.buffer].dtype.bits == 64 for p in nest.pieces for s in p.stores)
    return width if doubles else 2 * width


def nest_lines(
    kernel: LoopKernel, slots: dict[str, int], nest: Nest, lanes: int, whole: bool
) -> tuple[list[str], dict[str, str]]:
    """(the body of a nest's function, what it needs declared)."""
    if nest.kind == "pairs":
        w = NestWriter(kernel, slots, nest, lanes)
        return write(w), w.w.declared
    return host_lines(kernel, slots, nest.way.tiled(nest, kernel, lanes, whole))


def constant_numbers(name: str, numbers: Sequence[UOp]) -> str:
    """A constant of the module."""
    kept = ", ".join(f"double {literal(u)}" for u in numbers)
    return f'@"{name}" = internal constant [{len(numbers)} x double] [{kept}]'


def module(kernel: LoopKernel, careful: bool, width: int, x86: bool) -> str:
    """Every section of a kernel as one module."""
    slots = {name: k for k, name in enumerate(kernel.buffers)}
    declared: dict[str, str] = {}
    text: list[str] = []
    sizes: dict[tuple[int, bool], None] = {}
    known: dict[
        Any, tuple[str, list[int]]
    ] = {}  # functions that several nests have, and the slots of its buffers
    sections = kernel.careful if careful else kernel.sections
    same = SameNests(kernel, (nest for section in sections.values() for nest in section.nests))
    for section in sections.values():
        lanes = [lanes_of(kernel, nest, width) for nest in section.nests]
        held = bool(lanes) and nest_registers.fits(kernel, section, max(lanes))
        for k, nest in enumerate(section.nests):
            shared = same.shared(nest)
            for whole in (False, True) if is_short(section, nest) and not held else (False,):
                name = body = function_name(section, k) + (".whole" if whole else "")
                of, at, new = kernel, slots, True
                if shared is not None:
                    of, at = shared.kernel, {**slots, NUMBERS: len(slots)}
                    places = [at[b] for b in shared.buffers]
                    key = shared.key, lanes[k], whole
                    new = key not in known
                    body, others = known.setdefault(key, (f"{name}.any" if shared.numbers else name, places))
                    own = [f"numbers.{name}" if b == NUMBERS else slots[b] for b in shared.buffers]
                    if body != name:
                        text += call_of(name, body, own, others, NEST_ARGUMENTS)
                    if shared.numbers:
                        declared[f"numbers.{name}"] = constant_numbers(f"numbers.{name}", shared.numbers)
                if new:
                    lines, wants = nest_lines(of, at, shared.nest if shared else nest, lanes[k], whole)
                    head = f'define internal void @"{body}"({NEST_ARGUMENTS}) #0 {{'
                    text += [head, "entry:", *lines, "  ret void", "}"]
                    declared |= wants
            text += outside(function_name(section, k), x86)
            if nest.kind == "pairs":
                sizes[nest.sizes[0], nest.near is not None] = None
        if held:
            lines, wants = nest_registers.driver(kernel, section, slots, max(lanes), x86)
            text += lines
            declared |= wants
        else:
            text += driver(kernel, section, slots, x86)
    if x86:
        declared["ld"] = "declare void @llvm.x86.sse.ldmxcsr(ptr)"
        declared["st"] = "declare void @llvm.x86.sse.stmxcsr(ptr)"
    for n, near in sizes:
        cuts, name = slabs(n, near), f"near.cuts.{n}" if near else f"cuts.{n}"
        declared[name] = (
            f"@{name} = internal constant [{len(cuts)} x i64] [{', '.join(f'i64 {c}' for c in cuts)}]"
        )
    attributes = 'attributes #0 = { nounwind "stackrealign" "prefer-vector-width"="512" }'
    return "\n".join([*declared.values(), *text, attributes, ""])
