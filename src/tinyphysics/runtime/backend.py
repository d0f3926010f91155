"""Which engine runs a program on a target?"""
from __future__ import annotations

from functools import lru_cache
from typing import Any

from tinyphysics.device.arrays import ArraysLoader
from tinyphysics.device.engine import KernelEngine
from tinyphysics.device.host import Host
from tinyphysics.device.llvm import assembly, host_cpu
from tinyphysics.emit.cmain import complete_program
from tinyphysics.emit.llvm import module as llvm_module
from tinyphysics.errors import PlanError
from tinyphysics.planner.machine import rows
from tinyphysics.report import Row
from tinyphysics.runtime.loaders import CLoader, LlvmLoader
from tinyphysics.target import Target, VectorShape
from tinyphysics.tpir.isa import Program
from tinyphysics.tpir.kernel import build_kernel


@lru_cache(maxsize=64)
def engine_for(
    target: Target, program: Program, probe: Program | None = None, threads: int | None = None
) -> Any:
    """The engine of a program; compiled once and shared, since it keeps nothing of a run."""
    match target.backend:
        case "llvm":
            return KernelEngine(program, LlvmLoader(), probe, threads)
        case "c":
            return KernelEngine(program, CLoader(), probe, threads)
        case "numpy":
            return KernelEngine(program, ArraysLoader(), probe, threads)
    return Host(program, probe)


NO_FMA = "this processor has no fused multiply-add: the bits hold, the speed does not"


def notes(target: Target) -> tuple[str, ...]:
    """What a run on this machine should say about itself."""
    compiled = target.backend in ("llvm", "c")  # the others never use the processor's own
    return (NO_FMA,) if compiled and not host_cpu().has_fma else ()


@lru_cache(maxsize=64)
def layout(target: Target, program: Program) -> tuple[Row, ...]:
    """How an ensemble lies on this processor, for backends that make machine code."""
    if target.backend not in ("llvm", "c"):
        return ()
    try:
        step = build_kernel(program).section("step")
    except PlanError as error:
        return (Row("kernel", "none", str(error).splitlines()[0]),)
    loader = LlvmLoader()
    found = rows(step, loader.shape(step, 1 << 16), loader.core, loader.width(step))
    return tuple(r for r in found if target.backend == "llvm" or r.name not in ("ensembles", "registers"))


SECTIONS = ("init", "step", "final")


def listing(program: Program, level: str) -> str:
    """A program below TP-IR, as text: "kernel", "llvm", "asm" or "c", for an ensemble on this processor."""
    kernel = build_kernel(program)
    if level == "kernel":
        return str(kernel)
    shared = (False,) * len(kernel.params)
    if level == "c":
        return complete_program(kernel, program)
    loader = LlvmLoader()
    shape = loader.shape(kernel.section("step"), 1 << 16)
    sections = [kernel.section(name) for name in SECTIONS]
    parts = [(f, shape if f.loops else VectorShape(shape.width, 1)) for f in sections]
    text = llvm_module(parts, kernel.params, shared, loader.cpu.x86)
    return text if level == "llvm" else assembly(text, loader.cpu)
