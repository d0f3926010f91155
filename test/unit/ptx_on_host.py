"""Kernels of a CUDA device run on this processor: the same LLVM IR, its threads one after the other.

What a thread reads of itself are two global numbers, set before it is called. No thread of these kernels waits for another,
so their order is free; here it is backwards, to show that.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np

from tinyphysics.device.host import llvm
from tinyphysics.device.engines.engine import pointer
from tinyphysics.device.host.llvm import host_cpu
from tinyphysics.device.host.nests import view
from tinyphysics.emit.modules.ptx_nests import nests_module
from tinyphysics.tpir.kernels.loopir import WORKSPACE
from tinyphysics.emit.loops.ptx_threads import Launch
from tinyphysics.ir.dtype import i32, i64
from tinyphysics.ir.neighbours import BLOCK
from tinyphysics.ir.reduction import slabs
from tinyphysics.tpir.kernels.neighbours import FIRST
from tinyphysics.tpir.kernels.nests import Buffer, LoopKernel, Nest

HEAD = re.compile(r"^define ptx_kernel void @(\w+)\((.*)\)([^)]*)\{$", re.M)
SPECIAL = re.compile(r"^declare i32 @llvm\.nvvm\.read\.ptx\.sreg\.(\w+)\.x\(\)$", re.M)


ESTIMATES = re.compile(r"^declare float @llvm\.nvvm\.(rsqrt|rcp)\.approx\.ftz\.f\(float\)$", re.M)
# numbers near 1/sqrt x and 1/x: many are not the nearest, and all are within 2^-22.9, which is what PTX promises
ESTIMATE = """define internal float @near.NAME(float %x) {
  %wide = fpext float %x to double
  %root = call double @llvm.sqrt.f64(double %wide)
  %exact = fdiv double 1.0, OF
  %nearest = fptrunc double %exact to float
  %bits = bitcast float %nearest to i32
  %odd = and i32 %bits, 1
  %next = add i32 %bits, %odd
  %moved = bitcast i32 %next to float
  %there = fpext float %moved to double
  %off = fsub double %there, %exact
  %size = call double @llvm.fabs.f64(double %off)
  %most = fmul double %exact, 0x3E8125E000000000
  %well = fcmp ole double %size, %most
  %out = select i1 %well, float %moved, float %nearest
  ret float %out
}"""
USED = ("@llvm.sqrt.f64", "@llvm.fabs.f64")


def with_estimates(text: str) -> str:
    """The instructions of a device that estimate, as functions."""
    found = ESTIMATES.findall(text)
    text = ESTIMATES.sub("", text)
    text = re.sub(r"@llvm\.nvvm\.(rsqrt|rcp)\.approx\.ftz\.f\b", r"@near.\1", text)
    own = [
        ESTIMATE.replace("NAME", name).replace("OF", "%root" if name == "rsqrt" else "%wide")
        for name in found
    ]
    own += [
        f"declare double {name}(double)" for name in USED if found and f"declare double {name}(" not in text
    ]
    return "\n".join([text, *own])


def host_text(text: str) -> str:
    """The module for this processor, with a function all_* for each kernel that runs all of its threads."""
    text = with_estimates(re.sub(r"^target triple.*$", "", text, flags=re.M))
    text = SPECIAL.sub(r"define internal i32 @special.\1() { %v = load i32, ptr @\1  ret i32 %v }", text)
    text = re.sub(r"@llvm\.nvvm\.read\.ptx\.sreg\.(\w+)\.x\(\)", r"@special.\1()", text)
    loops = []
    for name, given, _ in HEAD.findall(text):
        loops.append(f"""define void @all_{name}(i32 %blocks, i32 %threads, {given}) {{
entry:
  %count = mul i32 %blocks, %threads
  br label %head
head:
  %k = phi i32 [ %count, %entry ], [ %less, %body ]
  %more = icmp sgt i32 %k, 0
  br i1 %more, label %body, label %exit
body:
  %less = sub i32 %k, 1
  %t = urem i32 %less, %threads
  %c = udiv i32 %less, %threads
  store i32 %t, ptr @tid
  store i32 %c, ptr @ctaid
  call void @{name}({given})
  br label %head
exit:
  ret void
}}""")
    text = HEAD.sub(r"define internal void @\1(\2) nounwind {", text)
    return "\n".join(["@tid = internal global i32 0", "@ctaid = internal global i32 0", text, *loops])


CALL = ctypes.CFUNCTYPE(None)


def turned(starts: Any, blocks: Any, n: int) -> tuple[Any, Any]:
    """A list by columns: (where the rows of each block and slab begin, all rows)."""
    cuts = slabs(n, True)
    parts, owner = len(cuts) - 1, np.repeat(np.arange(n), np.diff(starts[: n + 1]))
    key = (blocks[: starts[n]].astype(np.int64) >> FIRST) * parts + np.searchsorted(cuts, owner, "right") - 1
    counts = np.bincount(key, minlength=-(-n // BLOCK) * parts)
    return np.concatenate([[0], np.cumsum(counts)]), np.append(
        owner[np.argsort(key, kind="stable")], 0
    ).astype(np.int32)


def beside(nest: Nest, table: Any, slots: dict[str, int]) -> dict[str, Any]:
    """What a device has of a list of neighbours that a processor has not."""
    n, name = nest.sizes[0], f"near{nest.near}."
    if nest.kind == "list":
        return {name + "asked": np.zeros(8, np.int8)}
    starts = view(int(table[slots[name + "starts"]]), Buffer("starts", 1, (n + 1,), i64))
    blocks = view(int(table[slots[name + "blocks"]]), Buffer("blocks", 1, (int(starts[n]),), i32))
    columns, rows = turned(starts, blocks, n)
    return {name + "columns": columns, name + "rows": rows}


class OnHost:
    """What device/engines/loops.py calls a loader."""

    threads = by_address = False
    passage: Any = None
    made = found = 0
    estimates = False

    def load(self, kernel: LoopKernel, careful: bool) -> dict[str, Any]:
        module = nests_module(kernel, careful, self.estimates, blocks=False)
        text, cpu = host_text(module.text), host_cpu()
        launches = {launch.name: launch for s in module.launches.values() for nest in s for launch in nest}
        signatures = {
            f"all_{n}": ctypes.CFUNCTYPE(
                None, *[ctypes.c_int32] * 2, *[ctypes.c_void_p] * (len(x.buffers) + 3), ctypes.c_int64
            )
            for n, x in launches.items()
        }
        functions = llvm.link(llvm.compile_text(text, cpu), signatures)
        slots = {name: k for k, name in enumerate(kernel.buffers)}
        room = np.zeros(module.workspace // 8 + 8)
        sections = kernel.careful if careful else kernel.sections

        def section(name: str) -> Any:
            s = sections[name]

            def call(table: Any, uniform: Any, flags: Any, first: int, steps: int) -> None:
                clock = np.array([first, 0])

                def launch(nest: Nest, x: Launch, k: int) -> None:
                    there = {b: int(table[slots[b]]) for b in x.buffers if b in slots} | {
                        WORKSPACE: pointer(room)
                    }
                    extra = beside(nest, table, slots) if nest.near is not None else {}
                    there |= {b: pointer(a) for b, a in extra.items()}
                    given = [there[b] for b in x.buffers]
                    functions[f"all_{x.name}"](
                        x.blocks, x.block, *given, pointer(uniform), pointer(flags), pointer(clock), k
                    )
                    if nest.kind == "list" and extra[f"near{nest.near}.asked"][0]:
                        CALL(int(table[slots[f"near{nest.near}.call"]]))()

                for k in range(steps):
                    for turn in s.sequence():
                        for n in range(turn.begin, turn.end):
                            for x in module.launches[name][n]:
                                launch(s.nests[n], x, k)
                        for a, b in turn.swaps:
                            i, j = slots[a], slots[b]
                            table[i], table[j] = table[j], table[i]

            return call

        return {name: section(name) for name in sections}


class OnHostFromEstimates(OnHost):
    """Where those of the device serve."""

    estimates = True
