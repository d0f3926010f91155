"""How does a section become a function?  Rendered as text by emit/, compiled and loaded by device/."""
from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tinyphysics.device import cache, llvm
from tinyphysics.device.cc import build, load_library
from tinyphysics.device.engine import Parts, calling
from tinyphysics.device.llvm import SIGNATURE, Cpu, host_cpu
from tinyphysics.emit import c as emit_c
from tinyphysics.emit import llvm as emit_llvm
from tinyphysics.ir.dtype import f32
from tinyphysics.ir.uop import UOp
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernel import Section
from tinyphysics.tpir.outline import SectionOutline
from tinyphysics.util import digest

# Vectors side by side: enough to hide latency, few enough that the state stays in registers and the loop in
# the cache of decoded operations. Measured on AVX2; on AVX-512 the first bound is the one that acts.
MOST_UNROLL = 6
LEAST_UNROLL = 2
MOST_CODE = 1_700  # operations in a loop body
OBJECT = re.compile(r"[0-9a-f]{32}\.o")  # names that `object_name` gives


class LlvmLoader:
    """For this processor, with vectors as wide as it has."""

    threads = True

    def __init__(self, cpu: Cpu | None = None, shape: VectorShape | None = None) -> None:
        self.cpu = host_cpu() if cpu is None else cpu
        self.fixed = shape
        self.quick = VectorShape(1, 1) if shape is None else None
        self.made = self.found = 0  # modules compiled, and taken from the cache

    def shape(self, section: Section, members: int) -> VectorShape:
        """One lane for one member; else full vectors, as many side by side as the registers hold."""
        if self.fixed is not None:
            return self.fixed
        if members == 1:
            return VectorShape(1, 1)
        width = self.cpu.width * (2 if section.loads and section.loads[0].dtype is f32 else 1)
        enough = -(-members // width)
        if not section.loops:
            return VectorShape(width, 1)
        registers = 32 if self.cpu.width == 8 else 16
        fitting = min(registers // max(len(section.loads), 1), MOST_CODE // max(section.operations, 1))
        return VectorShape(width, min(enough, max(LEAST_UNROLL, min(MOST_UNROLL, fitting))))

    def load(
        self, parts: Parts, params: Sequence[UOp], varying: tuple[bool, ...], quick: bool = False
    ) -> list[Any]:
        level = llvm.QUICK if quick else llvm.OPTIMISATION
        note = self.note(parts, varying, level)
        name = (cache.read(note) or b"").decode("ascii", "replace") if note else ""
        code = cache.read(name) if OBJECT.fullmatch(name) else None
        found = code is not None
        if code is None:
            whole = [(f.written(quick) if isinstance(f, SectionOutline) else f, shape) for f, shape in parts]
            text = emit_llvm.module(whole, params, varying, self.cpu.x86)
            named = llvm.object_name(text, self.cpu, level)
            code, found = llvm.stored(named, text, self.cpu, level)
            if note:
                cache.write(note, named.encode())
        self.found += found
        self.made += not found
        return [calling(f) for f in llvm.link(code, [f.name for f, _ in parts])]

    def note(self, parts: Parts, varying: tuple[bool, ...], level: int) -> str | None:
        """Where it is noted which object these sections became; None for sections without a key."""
        known = [(f.key, f.name, f.careful, shape) for f, shape in parts if isinstance(f, SectionOutline)]
        if len(known) < len(parts):
            return None
        return digest(repr([known, varying, level, llvm.llvm_version(), self.cpu]).encode()) + ".note"


class CLoader:
    """Through the C compiler that is there."""

    threads = True
    quick = None
    made = found = 0

    def shape(self, section: Section, members: int) -> VectorShape:
        return VectorShape(1, 1) if members == 1 else VectorShape(emit_c.CHUNK, 1)

    def load(
        self, parts: Parts, params: Sequence[UOp], varying: tuple[bool, ...], quick: bool = False
    ) -> list[Any]:
        library = load_library(build(emit_c.module(parts, params, varying)))
        return [calling(SIGNATURE((f.name, library))) for f, _ in parts]
