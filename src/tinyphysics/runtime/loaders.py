"""How does a section become a function?  Rendered as text by emit/, compiled and loaded by device/."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinyphysics.device.cc import build, load_library
from tinyphysics.device.engine import Parts, calling
from tinyphysics.device.llvm import SIGNATURE, Cpu, compile_text, host_cpu
from tinyphysics.emit import c as emit_c
from tinyphysics.emit import llvm as emit_llvm
from tinyphysics.ir.dtype import f32
from tinyphysics.ir.uop import UOp
from tinyphysics.planner.machine import shape_for
from tinyphysics.target import VectorShape, core_of
from tinyphysics.tpir.kernel import Section


class LlvmLoader:
    """For this processor, with vectors as wide as it has."""

    threads = True

    def __init__(self, cpu: Cpu | None = None, shape: VectorShape | None = None) -> None:
        self.cpu = host_cpu() if cpu is None else cpu
        self.core = core_of(self.cpu.name, self.cpu.width)
        self.fixed = shape

    def shape(self, section: Section, members: int) -> VectorShape:
        if self.fixed is not None:
            return self.fixed
        width = self.cpu.width * (2 if section.loads and section.loads[0].dtype is f32 else 1)
        return shape_for(section, members, self.core, width)

    def load(self, parts: Parts, params: Sequence[UOp], varying: tuple[bool, ...]) -> list[Any]:
        text = emit_llvm.module(parts, params, varying, self.cpu.x86)
        compiled = compile_text(text, [f.name for f, _ in parts], self.cpu)
        return [calling(f) for f in compiled]


class CLoader:
    """Through the C compiler that is there."""

    threads = True

    def shape(self, section: Section, members: int) -> VectorShape:
        return VectorShape(1, 1) if members == 1 else VectorShape(emit_c.CHUNK, 1)

    def load(self, parts: Parts, params: Sequence[UOp], varying: tuple[bool, ...]) -> list[Any]:
        library = load_library(build(emit_c.module(parts, params, varying)))
        return [calling(SIGNATURE((f.name, library))) for f, _ in parts]
