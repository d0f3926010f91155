"""Which engine runs a program on a target?"""
from __future__ import annotations

from functools import lru_cache
from typing import Any

from tinyphysics.device.arrays import ArraysLoader
from tinyphysics.device.engine import KernelEngine, kernel_of
from tinyphysics.device.host import Host
from tinyphysics.device.llvm import assembly
from tinyphysics.emit.cmain import complete_program
from tinyphysics.emit.llvm import module as llvm_module
from tinyphysics.runtime.loaders import CLoader, LlvmLoader
from tinyphysics.runtime.plans import Recipe, made, outline
from tinyphysics.target import Target, VectorShape
from tinyphysics.tpir.isa import Program
from tinyphysics.tpir.kernel import build_kernel
from tinyphysics.tpir.outline import Outline
from tinyphysics.util import digest

Source = Program | Recipe


@lru_cache(maxsize=64)
def engine_for(target: Target, program: Source, probe: Source | None = None, threads: int | None = None) -> Any:
    """The engine of a program; compiled once and shared, since it keeps nothing of a run."""
    if target.backend == "llvm" and isinstance(program, Recipe) and (probe is None or isinstance(probe, Recipe)):
        return KernelEngine(program, LlvmLoader(), None, threads, outlined(program, probe))
    whole, watch = made(program), None if probe is None else made(probe)
    match target.backend:
        case "llvm":
            return KernelEngine(whole, LlvmLoader(), watch, threads)
        case "c":
            return KernelEngine(whole, CLoader(), watch, threads)
        case "numpy":
            return KernelEngine(whole, ArraysLoader(), watch, threads)
    return Host(whole, watch)


def outlined(program: Recipe, probe: Recipe | None) -> Outline:
    """What the engine needs of the kernel, without the kernel if it was written out before."""
    key = program.key if probe is None else digest(f"{program.key} {probe.key}".encode())
    return outline(key, lambda: kernel_of(program.program, None if probe is None else probe.program))


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
