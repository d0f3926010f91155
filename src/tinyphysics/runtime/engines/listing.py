"""How does a program read below TP-IR, and how does it lie on this machine?  Kernels as text, and rows of the report."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tinyphysics.context import PROCESSOR
from tinyphysics.device.cuda import nvptx
from tinyphysics.device.host.llvm import assembly, host_cpu
from tinyphysics.device.host.processor import processor
from tinyphysics.device.wasm.module import assembly as wasm_assembly
from tinyphysics.emit.kinds.series.ptx_series import PtxSeriesWriter
from tinyphysics.emit.kinds.series.series import SeriesWriter
from tinyphysics.emit.modules.cloops import complete_loops
from tinyphysics.emit.modules.cuda_nests import complete_cuda_loops
from tinyphysics.emit.modules.nests import module as nests_module
from tinyphysics.emit.modules.opencl_nests import nests_module as opencl_nests_module
from tinyphysics.emit.modules.ptx_nests import nests_module as ptx_nests_module
from tinyphysics.emit.scalar.cmain import complete_program
from tinyphysics.emit.scalar.cuda import complete_cuda
from tinyphysics.emit.scalar.llvm import module as llvm_module
from tinyphysics.emit.scalar.opencl import module as opencl_module
from tinyphysics.emit.scalar.ptx import module as ptx_module
from tinyphysics.emit.scalar.shaders import written
from tinyphysics.emit.scalar.wasm import module as wasm_module
from tinyphysics.emit.text.marks import marked
from tinyphysics.emit.text.records import lines_of, recorded
from tinyphysics.emit.text.shading import WGSL
from tinyphysics.errors import PlanError
from tinyphysics.flows.series import series_of
from tinyphysics.ir.dtype import f32
from tinyphysics.planner.cost.machine import rows
from tinyphysics.planner.cost.target import choose_target, in_loops, in_sandbox
from tinyphysics.report import Row
from tinyphysics.runtime.engines.backend import MAKES_CODE, named_processor, seed_of
from tinyphysics.runtime.engines.loaders import LlvmLoader
from tinyphysics.step import Step
from tinyphysics.synth.methods.taylor import loop_parts, loop_plan
from tinyphysics.target import LLVM, PORTABLE, PTX_RSQRT, Seed, Target, VectorShape
from tinyphysics.tpir.kernels.kernel import Kernel
from tinyphysics.tpir.kernels.loops import build_loops
from tinyphysics.tpir.kernels.nests import LoopKernel
from tinyphysics.tpir.kernels.rows import kernel_of
from tinyphysics.tpir.precision.precision import format_of
from tinyphysics.tpir.program.isa import Program
from tinyphysics.util import without_collections

SECTIONS = ("init", "enter", "step", "leave", "final")
ENSEMBLE = 1 << 16  # members of the runs that are described


def processor_rows(target: Target) -> tuple[Row, ...]:
    """That a processor was named, or what an adapter rounds, for the report on the machine."""
    if target.backend == "webgpu":
        from tinyphysics.runtime.engines.webgpu import machine_rows  # an extra

        return machine_rows()
    name = named_processor(target)
    if not name:
        return ()
    return (Row("processor", name, f"named by TINYPHYSICS_PROCESSOR; this one is {host_cpu().name}"),)


@without_collections()
def layout(target: Target, program: Program) -> tuple[Row, ...]:
    """How an ensemble lies on the processor that code is made for, for backends that make machine code."""
    return laid_out(target, program, PROCESSOR.value)


@lru_cache(maxsize=64)
def laid_out(target: Target, program: Program, name: str) -> tuple[Row, ...]:
    if target.backend not in MAKES_CODE or in_loops(program, ENSEMBLE):  # of its loops the report speaks
        return ()
    try:
        step = kernel_of(program, None, seed_of(target)).section("step")
    except PlanError as error:
        return (Row("kernel", "none", str(error).splitlines()[0]),)
    loader = LlvmLoader()
    found = rows(step, loader.shape(step, ENSEMBLE), loader.core, loader.width(step))
    return tuple(r for r in found if target.backend == "llvm" or r.name not in ("ensembles", "registers"))


def seed_at(level: str) -> Seed:
    """Of a listing; the text of other languages has what every machine has."""
    return (
        PTX_RSQRT
        if level == "ptx"
        else PORTABLE
        if level in ("c", "cuda", "opencl", "wasm", "wgsl")
        else seed_of(LLVM)
    )


def listing(program: Program, level: str, by_number: bool = False) -> str:
    """A program below TP-IR, as text: "kernel", "llvm", "asm", "c", "cuda", "opencl", "wasm", "wgsl" or "ptx".

    With `by_number` it is written out also where runs go in loops.
    """
    if level in ("c", "cuda") and program.math == "fast":
        raise PlanError(
            f'ir("{level}") is the text of a run with math="exact", which has the same hash on every backend',
            fix='Leave math= out to see it; for this simulation see ir("llvm"), ir("ptx") or ir("kernel").',
        )
    if level == "wasm":
        in_sandbox(program, level)
    elif level == "wgsl":
        choose_target(program, "webgpu", precision_of(program))
    elif not by_number and in_loops(program, 1):
        return loop_listing(build_loops(program, seed=seed_at(level)), program, level)
    kernel = kernel_of(program, None, seed_at(level), bytes_too=level not in ("cuda", "ptx"))
    if level == "kernel":
        return str(kernel)
    shared = (False,) * len(kernel.params)
    if level == "c":
        return complete_program(kernel, program)
    if level == "cuda":
        return complete_cuda(kernel, program)
    if level == "opencl":  # a member for each work-item, as on a device with many cores
        written = [kernel.section(name) for name in SECTIONS if kernel.has(name)]
        return opencl_module([(f, VectorShape(1, 1)) for f in written], kernel.params, shared)
    if level == "wgsl":
        return shader_text(kernel)
    text = llvm_text(kernel, level)
    return text if level == "llvm" else machine_code(text, level)


def precision_of(program: Program) -> str:
    """By what a program keeps its states in."""
    if format_of(program) is not f32:
        return "float64"
    return "compensated" if any(s.low_of is not None for s in program.states) else "float32"


def shader_text(kernel: Kernel) -> str:
    """WGSL of all sections; a careful one of each whose guard may fire is made when it does."""
    sections = [kernel.section(name) for name in SECTIONS if kernel.has(name)]
    return written(WGSL, sections, kernel.params, (False,) * len(kernel.params))[0]


def llvm_text(kernel: Kernel, level: str) -> str:
    """The LLVM IR that "llvm" shows, or that "asm", "ptx" and "wasm" are made of."""
    shared = (False,) * len(kernel.params)
    sections = [kernel.section(name) for name in SECTIONS if kernel.has(name)]
    if level == "wasm":
        return wasm_module(sections, kernel.params, shared)
    if level == "ptx":
        return ptx_module([(f, VectorShape(1, 1)) for f in sections], kernel.params, shared)
    loader = LlvmLoader()
    shape = loader.shape(kernel.section("step"), ENSEMBLE)
    parts = [(f, shape if f.loops else VectorShape(shape.width, 1)) for f in sections]
    return llvm_module(parts, kernel.params, shared, loader.cpu.x86)


def machine_code(text: str, level: str) -> str:
    if level == "wasm":
        return wasm_assembly(text)
    return nvptx.compiled(text) if level == "ptx" else assembly(text, LlvmLoader().cpu)


@dataclass(frozen=True)
class MachineCode:
    """Lines of an assembler's text, and of each the line of LLVM IR, from 1, that it was made of; 0: of none."""

    text: list[str]
    lines: list[int]


def recorded_listing(program: Program, level: str) -> tuple[str, MachineCode]:
    """(the LLVM IR of "asm", "ptx" or "wasm", what LLVM makes of it with its line records)."""
    kernel = kernel_of(program, None, seed_at(level), bytes_too=level != "ptx")
    text = llvm_text(kernel, level)
    bare = "\n".join(marked(line)[0] for line in text.split("\n"))
    kind = "DebugDirectivesOnly" if level == "ptx" else "LineTablesOnly"
    plain = machine_code(bare, level)
    return text, MachineCode(
        plain.splitlines(), lines_of(plain.rstrip("\n"), machine_code(recorded(bare, kind), level))
    )


def series_listing(step: Step, level: str) -> str:
    """A Taylor series in loops, as text."""
    if level not in ("llvm", "asm", "ptx"):
        raise PlanError(
            f'ir("{level}"): a Taylor series in loops has no text of that kind',
            fix='See ir("llvm"), ir("ptx") or ir("tpir").',
        )
    plan = loop_plan(series_of(step))
    if level == "ptx":
        return nvptx.compiled(PtxSeriesWriter(plan, *loop_parts(plan)).module())
    cpu = processor()
    text = SeriesWriter(plan, *loop_parts(plan)).module(cpu.x86)
    return text if level == "llvm" else assembly(text, cpu)


def loop_listing(kernel: LoopKernel, program: Program, level: str) -> str:
    if level == "kernel":
        return str(kernel)
    if level == "c":
        return complete_loops(kernel, program)
    if level == "opencl":
        if kernel.lists or kernel.tree is not None:
            raise PlanError("neighbours and trees do not run on OpenCL yet", fix='See sim.ir("llvm").')
        return opencl_nests_module(kernel)
    if level == "ptx":
        return nvptx.compiled(ptx_nests_module(kernel).text)
    if level == "cuda":
        return complete_cuda_loops(kernel, program)
    cpu = processor()
    text = nests_module(kernel, False, cpu.width, cpu.x86)
    return text if level == "llvm" else assembly(text, cpu)
