"""Which engine runs a program on a target?"""
from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tinyphysics.device import opencl
from tinyphysics.device.arrays import ArraysLoader
from tinyphysics.device.engine import KernelEngine, kernel_of
from tinyphysics.device.host import Host
from tinyphysics.device.llvm import assembly, host_cpu, seed_for
from tinyphysics.device.loops import LoopEngine
from tinyphysics.device.nests import ArrayLoops
from tinyphysics.device.series import SeriesEngine
from tinyphysics.device.series_arrays import series_arrays
from tinyphysics.emit.cloops import complete_loops
from tinyphysics.emit.cmain import complete_program
from tinyphysics.emit.llvm import module as llvm_module
from tinyphysics.emit.nests import module as nests_module
from tinyphysics.emit.opencl import module as opencl_module
from tinyphysics.emit.opencl import nests_module as opencl_nests_module
from tinyphysics.emit.series import SeriesWriter
from tinyphysics.errors import PlanError
from tinyphysics.planner.machine import rows
from tinyphysics.planner.target import in_loops
from tinyphysics.report import Row
from tinyphysics.runtime.loaders import (
    CLoader,
    CLoops,
    LlvmLoader,
    LlvmLoops,
    list_builder,
    series_code,
    tree_functions,
)
from tinyphysics.runtime.opencl import OpenClLoader, OpenClLoops
from tinyphysics.runtime.plans import Recipe, made, outline
from tinyphysics.step import Step
from tinyphysics.synth.taylor import CLOCK, loop_parts, loop_plan
from tinyphysics.target import LLVM, PORTABLE, PTX_RSQRT, Seed, Target, VectorShape
from tinyphysics.tpir.isa import Program, StateDecl, Type
from tinyphysics.tpir.kernel import build_kernel
from tinyphysics.tpir.loops import build_loops
from tinyphysics.tpir.nests import LoopKernel
from tinyphysics.tpir.outline import Outline
from tinyphysics.util import digest

Source = Program | Recipe


@lru_cache(maxsize=64)
def engine_for(
    target: Target, program: Source, probe: Source | None = None, threads: int | None = None, loops: bool = False
) -> Any:
    """The engine of a program; compiled once and shared, since it keeps nothing of a run."""
    if target.backend == "llvm" and not loops and isinstance(program, Recipe) and isinstance(probe, Recipe | None):
        return KernelEngine(program, LlvmLoader(), None, threads, outlined(program, probe))
    whole, watch, seed = made(program), None if probe is None else made(probe), seed_of(target)
    if loops and target.backend in LOOPS:
        return LoopEngine(whole, LOOPS[target.backend](), watch, threads, list_builder, tree_functions, seed)
    match target.backend:
        case "llvm":
            return KernelEngine(whole, LlvmLoader(), watch, threads, seed=seed)
        case "c":
            return KernelEngine(whole, CLoader(), watch, threads)
        case "numpy":
            return KernelEngine(whole, ArraysLoader(), watch, threads)
        case "opencl":
            return KernelEngine(whole, OpenClLoader(), watch, threads)
    return Host(whole, watch)


def seed_of(target: Target) -> Seed:
    """What the roots of math="fast" begin with on a target."""
    return seed_for(host_cpu()) if target.backend == "llvm" else SEEDS.get(target.backend, PORTABLE)


@lru_cache(maxsize=16)
def series_engine(target: Target, step: Step) -> SeriesEngine:
    """The engine of a Taylor series in loops."""
    assert step.loops is not None
    plan = loop_plan(step.states, step.loops)
    states = [StateDecl(s.name, s.role, Type(s.var.dtype, s.var.shape)) for s in step.states]
    load = series_arrays if target.backend == "numpy" else series_code
    return SeriesEngine(plan, states, CLOCK, lambda: load(plan, loop_parts(plan)), len(os.sched_getaffinity(0)))


def outlined(program: Recipe, probe: Recipe | None) -> Outline:
    """What the engine needs of the kernel, without the kernel if it was written out before."""
    key = program.key if probe is None else digest(f"{program.key} {probe.key}".encode())
    return outline(key, lambda: kernel_of(program.program, None if probe is None else probe.program, seed_of(LLVM)))


def ready(backend: str) -> None:
    """A BackendError, before anything is compiled, if a backend's driver is not there."""
    if backend == "opencl":
        opencl.device()


def running_on(target: Target) -> str:
    """The device of a run, by its own name if it has one."""
    return opencl.device().name if target.backend == "opencl" else target.device


LOOPS: dict[str, Callable[[], Any]] = {"llvm": LlvmLoops, "c": CLoops, "numpy": ArrayLoops, "opencl": OpenClLoops}

SEEDS = {"cuda": PTX_RSQRT, "ptx": PTX_RSQRT}  # of backends and listings, where it is not that of this processor

NO_FMA = "this processor has no fused multiply-add: the bits hold, the speed does not"


def notes(target: Target) -> tuple[str, ...]:
    """What a run on this machine should say about itself."""
    compiled = target.backend in ("llvm", "c")  # the others never use the processor's own
    return (NO_FMA,) if compiled and not host_cpu().has_fma else ()


SECTIONS = ("init", "enter", "step", "leave", "final")
ENSEMBLE = 1 << 16  # members of the runs that are described


@lru_cache(maxsize=64)
def layout(target: Target, program: Program) -> tuple[Row, ...]:
    """How an ensemble lies on this processor, for backends that make machine code."""
    if target.backend not in ("llvm", "c") or in_loops(program, ENSEMBLE):  # of its loops the report speaks
        return ()
    try:
        step = build_kernel(program, seed_of(target)).section("step")
    except PlanError as error:
        return (Row("kernel", "none", str(error).splitlines()[0]),)
    loader = LlvmLoader()
    found = rows(step, loader.shape(step, ENSEMBLE), loader.core, loader.width(step))
    return tuple(r for r in found if target.backend == "llvm" or r.name not in ("ensembles", "registers"))


def seed_at(level: str) -> Seed:
    """Of a listing: the text of other languages has what every machine has."""
    return SEEDS.get(level, PORTABLE if level in ("c", "opencl") else seed_of(LLVM))


def listing(program: Program, level: str) -> str:
    """A program below TP-IR, as text: "kernel", "llvm", "asm", "c" or "opencl", for an ensemble on this processor."""
    if level == "c" and program.math == "fast":
        raise PlanError('ir("c") is a complete program, and prints the hash that every exact backend has',
                        fix='Leave math= out to see it; ir("llvm") and ir("kernel") show math="fast".')  # fmt: skip
    if in_loops(program, 1):
        return loop_listing(build_loops(program, seed=seed_at(level)), program, level)
    kernel = build_kernel(program, seed_at(level))
    if level == "kernel":
        return str(kernel)
    shared = (False,) * len(kernel.params)
    if level == "c":
        return complete_program(kernel, program)
    if level == "opencl":  # a member for each work-item, as on a device with many cores
        written = [kernel.section(name) for name in SECTIONS if kernel.has(name)]
        return opencl_module([(f, VectorShape(1, 1)) for f in written], kernel.params, shared)
    loader = LlvmLoader()
    shape = loader.shape(kernel.section("step"), ENSEMBLE)
    sections = [kernel.section(name) for name in SECTIONS if kernel.has(name)]
    parts = [(f, shape if f.loops else VectorShape(shape.width, 1)) for f in sections]
    text = llvm_module(parts, kernel.params, shared, loader.cpu.x86)
    return text if level == "llvm" else assembly(text, loader.cpu)


def series_listing(step: Step, level: str) -> str:
    """A Taylor series in loops, as text."""
    if level not in ("llvm", "asm"):
        raise PlanError(f'ir("{level}"): a Taylor series in loops has no such form', fix='Look at ir("llvm") or ir("tpir").')
    assert step.loops is not None
    plan = loop_plan(step.states, step.loops)
    text = SeriesWriter(plan, *loop_parts(plan)).module(host_cpu().x86)
    return text if level == "llvm" else assembly(text, host_cpu())


def loop_listing(kernel: LoopKernel, program: Program, level: str) -> str:
    if level == "kernel":
        return str(kernel)
    if level == "c":
        return complete_loops(kernel, program)
    if level == "opencl":
        if kernel.lists or kernel.tree is not None:
            raise PlanError("neighbours and trees do not run on OpenCL yet", fix='Look at sim.ir("llvm").')
        return opencl_nests_module(kernel)
    cpu = host_cpu()
    text = nests_module(kernel, False, cpu.width, cpu.x86)
    return text if level == "llvm" else assembly(text, cpu)
