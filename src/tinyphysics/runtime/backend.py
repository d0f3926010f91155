"""Which engine runs a program on a target?"""
from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tinyphysics.device import opencl
from tinyphysics.device.arrays import ArraysLoader
from tinyphysics.device.engine import KernelEngine
from tinyphysics.device.host import Host
from tinyphysics.device.llvm import assembly, host_cpu
from tinyphysics.device.loops import LoopEngine
from tinyphysics.device.nests import ArrayLoops
from tinyphysics.emit.cmain import complete_program
from tinyphysics.emit.cnests import module as cnests_module
from tinyphysics.emit.llvm import module as llvm_module
from tinyphysics.emit.nests import module as nests_module
from tinyphysics.emit.opencl import module as opencl_module
from tinyphysics.emit.opencl import nests_module as opencl_nests_module
from tinyphysics.planner.target import in_loops
from tinyphysics.runtime.loaders import CLoader, CLoops, LlvmLoader, LlvmLoops
from tinyphysics.runtime.opencl import OpenClLoader, OpenClLoops
from tinyphysics.target import Target, VectorShape
from tinyphysics.tpir.isa import Program
from tinyphysics.tpir.kernel import build_kernel
from tinyphysics.tpir.loops import build_loops
from tinyphysics.tpir.nests import LoopKernel


@lru_cache(maxsize=64)
def engine_for(
    target: Target, program: Program, probe: Program | None = None, threads: int | None = None, loops: bool = False
) -> Any:
    """The engine of a program; compiled once and shared, since it keeps nothing of a run."""
    if loops and target.backend in LOOPS:
        return LoopEngine(program, LOOPS[target.backend](), probe, threads)
    match target.backend:
        case "llvm":
            return KernelEngine(program, LlvmLoader(), probe, threads)
        case "c":
            return KernelEngine(program, CLoader(), probe, threads)
        case "numpy":
            return KernelEngine(program, ArraysLoader(), probe, threads)
        case "opencl":
            return KernelEngine(program, OpenClLoader(), probe, threads)
    return Host(program, probe)


def ready(backend: str) -> None:
    """A BackendError, before anything is compiled, if a backend's driver is not there."""
    if backend == "opencl":
        opencl.device()


def running_on(target: Target) -> str:
    """The device of a run, by its own name if it has one."""
    return opencl.device().name if target.backend == "opencl" else target.device


LOOPS: dict[str, Callable[[], Any]] = {"llvm": LlvmLoops, "c": CLoops, "numpy": ArrayLoops, "opencl": OpenClLoops}

NO_FMA = "this processor has no fused multiply-add: the bits hold, the speed does not"


def notes(target: Target) -> tuple[str, ...]:
    """What a run on this machine should say about itself."""
    compiled = target.backend in ("llvm", "c")  # the others never use the processor's own
    return (NO_FMA,) if compiled and not host_cpu().has_fma else ()


SECTIONS = ("init", "step", "final")


def listing(program: Program, level: str) -> str:
    """A program below TP-IR, as text: "kernel", "llvm", "asm", "c" or "opencl", for an ensemble on this processor."""
    if in_loops(program, 1):
        return loop_listing(build_loops(program), level)
    kernel = build_kernel(program)
    if level == "kernel":
        return str(kernel)
    shared = (False,) * len(kernel.params)
    if level == "c":
        return complete_program(kernel, program)
    if level == "opencl":  # a member for each work-item, as on a device with many cores
        return opencl_module([(kernel.section(name), VectorShape(1, 1)) for name in SECTIONS], kernel.params, shared)
    loader = LlvmLoader()
    shape = loader.shape(kernel.section("step"), 1 << 16)
    sections = [kernel.section(name) for name in SECTIONS]
    parts = [(f, shape if f.loops else VectorShape(shape.width, 1)) for f in sections]
    text = llvm_module(parts, kernel.params, shared, loader.cpu.x86)
    return text if level == "llvm" else assembly(text, loader.cpu)


def loop_listing(kernel: LoopKernel, level: str) -> str:
    if level == "kernel":
        return str(kernel)
    if level == "c":
        return cnests_module(kernel)
    if level == "opencl":
        return opencl_nests_module(kernel)
    cpu = host_cpu()
    text = nests_module(kernel, False, cpu.width, cpu.x86)
    return text if level == "llvm" else assembly(text, cpu)
