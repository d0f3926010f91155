"""Which engine runs a program on a target?"""
from __future__ import annotations

from typing import Any

from tinyphysics.device.arrays import ArraysLoader
from tinyphysics.device.cc import CLoader
from tinyphysics.device.cpu import LlvmLoader
from tinyphysics.device.engine import KernelEngine
from tinyphysics.device.host import Host
from tinyphysics.target import Target
from tinyphysics.tpir.isa import Program


def engine_for(
    target: Target, program: Program, probe: Program | None = None, threads: int | None = None
) -> Any:
    match target.backend:
        case "llvm":
            return KernelEngine(program, LlvmLoader(), probe, threads)
        case "c":
            return KernelEngine(program, CLoader(), probe, threads)
        case "numpy":
            return KernelEngine(program, ArraysLoader(), probe, threads)
    return Host(program, probe)
