"""Which engine runs a program on a target?"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

from tinyphysics.context import PROCESSOR, WEBGPU_ADAPTER
from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda.rows import CudaMemory
from tinyphysics.device.engines.cuda_lanes import CudaEngine
from tinyphysics.device.engines.cuda_loops import CudaLoopEngine
from tinyphysics.device.engines.cuda_many import SpreadEngine
from tinyphysics.device.engines.cuda_series import SeriesStream
from tinyphysics.device.engines.engine import LaneEngine
from tinyphysics.device.engines.host import VmEngine
from tinyphysics.device.engines.loops import NestEngine
from tinyphysics.device.engines.series import MemberThreads, SeriesEngine
from tinyphysics.device.host.arrays import ArraysLoader
from tinyphysics.device.host.cores import available
from tinyphysics.device.host.processor import processor, seed_for
from tinyphysics.device.host.series_arrays import series_arrays
from tinyphysics.device.opencl import driver as opencl
from tinyphysics.errors import BackendError
from tinyphysics.flows.series import series_of
from tinyphysics.planner.cost.machine import MOST_UNROLL
from tinyphysics.planner.cost.offload import Work, here, there, worth_a_look
from tinyphysics.runtime.engines.loaders import (
    CLoader,
    CLoops,
    LlvmLoader,
    LlvmLoops,
    list_builder,
    numpy_loops,
    series_code,
    tree_functions,
)
from tinyphysics.runtime.engines.plans import outline
from tinyphysics.runtime.state.device_arrays import tools
from tinyphysics.runtime.state.run import LazyProgram, made
from tinyphysics.step import Step
from tinyphysics.synth.methods.taylor import CLOCK, loop_parts, loop_plan
from tinyphysics.target import BUILT, LIBRARIES, PORTABLE, PTX_RSQRT, Seed, Target
from tinyphysics.tpir.kernels.every_kind import for_backend
from tinyphysics.tpir.kernels.extremes import ExtremesOf
from tinyphysics.tpir.kernels.kernel import RECORDED, build_kernel
from tinyphysics.tpir.kernels.loops import build_loops, components_of
from tinyphysics.tpir.kernels.nearest import NearestOf
from tinyphysics.tpir.kernels.outline import Outline
from tinyphysics.tpir.kernels.rows import kernel_of
from tinyphysics.tpir.program.isa import Program, StateDecl, Type
from tinyphysics.util import digest

LOG = logging.getLogger("tinyphysics")
LONG = 10_000  # instructions of a step that take seconds to compile
LONG_LOOPS = 2_000  # where each is of whole arrays
Source = Program | LazyProgram
# what writes code for GPUs and for OpenCL is imported where a run goes there: it is a tenth of a first result


class Engines:
    """What makes engines: one for the same arguments and processor, and on GPUs one for those that runs are given to."""

    def __init__(self, make: Callable[..., Any], most: int) -> None:
        self.known = lru_cache(maxsize=most)(lambda places, *given: make(*given))
        self.cache_clear = self.known.cache_clear

    def __call__(self, target: Target, *rest: Any) -> Any:
        devices = cuda.taken() if target.backend == "cuda" else ()
        adapter = (WEBGPU_ADAPTER.value,) if target.backend == "webgpu" else ()
        return self.known((PROCESSOR.value, *devices, *adapter), target, *rest)


@lru_cache(maxsize=256)  # said once
def say_if_long(program: Program, backend: str, loops: bool = False) -> Program:
    """The program; compiling a long one is logged."""
    if len(program.step) > (LONG_LOOPS if loops else LONG) and backend != "python":
        LOG.warning(
            "%s: one step is %s instructions; compiling it for %s takes some seconds (Ctrl-C ends it)",
            program.name,
            f"{len(program.step):,}",
            backend,
        )
    return program


def new_engine(
    target: Target,
    program: Source,
    probe: Source | None = None,
    threads: int | None = None,
    loops: bool = False,
    extremes: ExtremesOf | None = None,
    record: bool = False,
    nearest: tuple[Source, NearestOf] | None = None,
) -> Any:
    """The engine of a program; compiled once and shared, since it keeps nothing of a run.

    With `extremes` its loop keeps those of the probe's values, where it can: then they are among its registers.
    With `record` it writes down what it carries after every step, by `record`. With `nearest` its loop keeps how near it
    came to the zeros of another probe's values, where it can.
    """
    if target.backend in LIBRARIES:
        from tinyphysics.device.host.libraries import LibraryLoader  # imported by those who ask for them

        watch = None if probe is None else made(probe)
        whole = say_if_long(made(program), target.backend)
        written_out = kernel_of(whole, watch, PORTABLE, extremes, record, True, written(nearest))
        return LaneEngine(program, written_out, LibraryLoader(target.backend), threads)
    # values of few numbers have no axes, though the step that they are of may sum over waves in loops
    if target.backend == "python" or loops and components_of(made(program)) is not None:
        whole, watch = (
            say_if_long(made(program), target.backend, True),
            None if probe is None else made(probe),
        )
        if target.backend not in LOOPS:
            return VmEngine(whole, watch)
        return nest_engine(whole, LOOPS[target.backend](), threads, watch, seed_of(target), target.backend)

    def kernel() -> Any:
        if (
            target.backend in OUTLINED
            and isinstance(program, LazyProgram)
            and isinstance(probe, LazyProgram | None)
            and (nearest is None or isinstance(nearest[0], LazyProgram))
        ):
            return outlined(program, probe, target, extremes, record, nearest)
        watch = None if probe is None else made(probe)
        whole = say_if_long(made(program), target.backend)
        return kernel_of(
            whole, watch, seed_of(target), extremes, record, target.backend != "cuda", written(nearest)
        )

    if target.backend == "cuda":
        from tinyphysics.runtime.engines.cuda import CudaLoader

        return on_gpus(lambda: CudaEngine(program, kernel(), CudaLoader(), tools(cuda.device())))
    return LaneEngine(program, kernel(), LOADERS[target.backend](), threads)


def lane_engine(program: Program, loader: Any, threads: int | None = None) -> LaneEngine:
    """The engine of a program written out, with a loader of the caller's."""
    return LaneEngine(program, kernel_of(program), loader, threads)


def nest_engine(
    program: Program,
    loader: Any,
    threads: int | None = None,
    probe: Program | None = None,
    seed: Seed = PORTABLE,
    backend: str = "",
) -> NestEngine:
    """The engine of a program in loop nests, and of its observables: these read the states where they lie."""
    kernel = build_loops(program, None, seed)
    kernel = for_backend(kernel, backend) if program.math == "fast" else kernel
    kind = CudaLoopEngine if getattr(loader, "there", False) else NestEngine
    rest = loader, threads, list_builder, tree_functions
    watch = None if probe is None else kind(probe, build_loops(probe, kernel.components, seed), *rest)
    return kind(program, kernel, *rest, watch)


engine_for = Engines(new_engine, 64)


def on_gpus(make: Callable[[], Any]) -> Any:
    """An engine on each device that runs are given to."""
    engines = {}
    for place in cuda.taken():
        with cuda.on(place):
            engines[place] = make()
    return SpreadEngine(engines) if len(engines) > 1 else next(iter(engines.values()))


def seed_of(target: Target) -> Seed:
    """What the roots of math="fast" begin with on a target."""
    if target.backend == "llvm":  # who does not need LLVM may not have it
        return seed_for(processor())
    return PTX_RSQRT if target.backend == "cuda" else PORTABLE


def new_series_engine(target: Target, step: Step) -> Any:
    """The engine of a Taylor series in loops."""
    plan = loop_plan(series_of(step))
    states = [StateDecl(s.name, s.role, Type(s.var.dtype, s.var.shape)) for s in step.states]
    if target.backend == "cuda":
        from tinyphysics.runtime.engines.cuda import series_kernels

        def there() -> SeriesEngine:
            memory = CudaMemory(tools(cuda.device()))
            load = partial(series_kernels, plan, loop_parts(plan))
            return SeriesEngine(plan, states, CLOCK, load, SeriesStream(), memory)

        return on_gpus(there)
    load = series_arrays if target.backend == "numpy" else series_code
    return SeriesEngine(plan, states, CLOCK, lambda: load(plan, loop_parts(plan)), MemberThreads(available()))


series_engine = Engines(new_series_engine, 16)


def written(nearest: tuple[Source, NearestOf] | None) -> tuple[Program, NearestOf] | None:
    return None if nearest is None else (made(nearest[0]), nearest[1])


def outlined(
    program: LazyProgram,
    probe: LazyProgram | None,
    target: Target,
    extremes: ExtremesOf | None,
    record: bool,
    nearest: tuple[Source, NearestOf] | None,
) -> Outline:
    """What the engine needs of the kernel, without the kernel if it was written out before."""
    seed = seed_of(target)
    kept = [] if extremes is None else [repr(extremes)]
    kept += [RECORDED] if record else []
    kept += [] if nearest is None else [getattr(nearest[0], "key", ""), repr(nearest[1])]
    key = digest(" ".join([program.key, "" if probe is None else probe.key, seed.name, *kept]).encode())
    bytes_too = target.backend != "cuda"

    def kernel() -> Any:
        whole = say_if_long(program.program, target.backend)
        watch = None if probe is None else probe.program
        return kernel_of(whole, watch, seed, extremes, record, bytes_too, written(nearest))

    return outline(key, kernel)


def ready(backend: str) -> None:
    """A BackendError, before anything is compiled, if a backend's driver is not there."""
    if backend == "opencl":
        opencl.device()
    if backend == "cuda":
        cuda.device()
    if backend == "wasm":
        from tinyphysics.device.wasm.driver import wasmtime

        wasmtime()
    if backend == "webgpu":
        from tinyphysics.device.webgpu.driver import machine

        machine()
    if backend in LIBRARIES:
        from tinyphysics.device.host.libraries import library

        library(backend)


def resolved(backend: str) -> str:
    """A GPU by the backend that reaches it: NVIDIA's driver, else OpenCL; an error that says what was looked for."""
    if backend != "gpu":
        return backend
    try:
        cuda.device()
        return "cuda"
    except BackendError as none:
        try:
            if not opencl.device().processor:
                return "opencl"
            other = f"OpenCL has `{opencl.device().name}`, a processor"
        except BackendError as error:
            other = error.what
        raise BackendError(f"no GPU was found: {none.what}; {other}", fix="Leave backend= out.") from none


@lru_cache(maxsize=1)
def gpu_here() -> bool:
    """Is there a GPU that a run may be given to?"""
    try:
        cuda.device()
    except BackendError:
        return False
    return True


def choose_place(
    target: Target, requested: str, program: Source, w: tuple[int, int], whole: bool
) -> tuple[Target, str]:
    """(where a run of so many (members, steps) is done, why), if it was not chosen by the user: the bits are the same.

    `whole`: it is an ensemble with steps of one length, in float64 or float32. A run whose bits are its machine's stays here.
    """
    if requested != "auto" or target.backend != "llvm" or not target.bit_exact or not whole:
        return target, ""
    if not worth_a_look(*w):
        return target, ""
    used = cuda.opened.cache_info().currsize > 0
    if not gpu_here():
        return target, ""
    step = build_kernel(made(program)).section("step")
    work = Work(step.operations, *w, len(step.loads))
    cores = available()
    seconds, other = (
        here(work, processor().width * MOST_UNROLL, cores),
        there(work, cuda.device().processors, used),
    )
    told = f"about {seconds:.2g} s on {cores} cores, {other:.2g} s on {cuda.device().name}"
    return (BUILT["cuda"], told) if other < seconds else (target, told)


def running_on(target: Target) -> str:
    """The device of a run, by its own name if it has one."""
    if target.backend == "cuda":
        return ", ".join(cuda.opened(place).name for place in cuda.taken())
    if target.backend == "webgpu":
        from tinyphysics.device.webgpu.driver import machine

        return str(machine().info)
    return opencl.device().name if target.backend == "opencl" else target.device


def transferred(target: Target) -> dict[str, int]:
    """What was copied so far between this machine and a device that keeps a run to itself."""
    if target.backend != "cuda":
        return {}
    every = [cuda.opened(place) for place in cuda.taken()]
    return {"transfers": sum(d.transfers for d in every), "bytes_moved": sum(d.moved for d in every)}


def bytes_read_from(target: Target) -> int:
    """What was copied here so far from devices that keep a run to themselves."""
    return sum(cuda.opened(place).read for place in cuda.taken()) if target.backend == "cuda" else 0


def named(module: str, name: str) -> Callable[[], Any]:
    """What a module makes that is imported when it is first asked for."""
    return lambda: getattr(import_module(f"tinyphysics.runtime.engines.{module}"), name)()


# fmt: off
LOADERS: dict[str, Callable[[], Any]] = {
    "llvm": LlvmLoader, "c": CLoader, "numpy": ArraysLoader, "opencl": named("opencl", "OpenClLoader"),
    "wasm": named("wasm", "WasmLoader"), "webgpu": named("webgpu", "WebGpuLoader"),
}
LOOPS: dict[str, Callable[[], Any]] = {
    "llvm": LlvmLoops, "c": CLoops, "numpy": numpy_loops, "opencl": named("opencl", "OpenClLoops"),
    "cuda": named("cuda", "CudaLoops"),
}
# fmt: on
OUTLINED = ("llvm", "cuda")  # backends that keep what became of a kernel by its outline

MAKES_CODE = ("llvm", "c")  # backends whose code is for the processor that is named
NO_FMA = "this processor has no fused multiply-add: the bits hold, the speed does not"


def notes(target: Target) -> tuple[str, ...]:
    """What a run on this machine should say about itself."""
    if target.backend == "webgpu":
        from tinyphysics.runtime.engines.webgpu import note

        return (note(),)
    compiled = target.backend in MAKES_CODE  # the others never use the processor's own
    return (NO_FMA,) if compiled and not processor().has_fma else ()


def named_processor(target: Target) -> str:
    """The processor that a run's code is made for, if it is not just this one."""
    return PROCESSOR.value if target.backend in MAKES_CODE else ""
