"""How does a section become a function?  Rendered as text by emit/, compiled and loaded by device/."""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from tinyphysics.device.cc import build, load_library
from tinyphysics.device.engine import Parts, calling, pointer
from tinyphysics.device.llvm import SIGNATURE, Cpu, compile_text, host_cpu
from tinyphysics.emit import c as emit_c
from tinyphysics.emit import cnests as emit_cnests
from tinyphysics.emit import llvm as emit_llvm
from tinyphysics.emit import nests as emit_nests
from tinyphysics.ir.uop import UOp
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernel import Section
from tinyphysics.tpir.nests import LoopKernel
from tinyphysics.tpir.wavefront import wavefront

# Vectors side by side: enough to hide latency, few enough that the state stays in registers and the loop in
# the cache of decoded operations. Measured on AVX2; on AVX-512 the first bound is the one that acts.
MOST_UNROLL = 6
LEAST_UNROLL = 2
MOST_CODE = 1_700  # operations in a loop body


def per_double(section: Section) -> int:
    """How many of its numbers take the room of one double."""
    return 64 // section.loads[0].dtype.bits if section.loads else 1


class LlvmLoader:
    """For this processor, with vectors as wide as it has."""

    threads = True

    def __init__(self, cpu: Cpu | None = None, shape: VectorShape | None = None) -> None:
        self.cpu = host_cpu() if cpu is None else cpu
        self.fixed = shape

    def shape(self, section: Section, members: int) -> VectorShape:
        """One lane for one member; else full vectors, as many side by side as the registers hold."""
        if self.fixed is not None:
            return self.fixed
        if members == 1:
            return VectorShape(1, 1)
        width = self.cpu.width * per_double(section)
        enough = -(-members // width)
        if not section.loops:
            return VectorShape(width, 1)
        registers = 32 if self.cpu.width == 8 else 16
        fitting = min(registers // max(len(section.loads), 1), MOST_CODE // max(section.operations, 1))
        return VectorShape(width, min(enough, max(LEAST_UNROLL, min(MOST_UNROLL, fitting))))

    def load(self, parts: Parts, params: Sequence[UOp], varying: tuple[bool, ...]) -> list[Any]:
        text = emit_llvm.module(parts, params, varying, self.cpu.x86)
        compiled = compile_text(text, [f.name for f, _ in parts], self.cpu)
        return [calling(f) for f in compiled]


class CLoader:
    """Through the C compiler that is there."""

    threads = True

    def shape(self, section: Section, members: int) -> VectorShape:
        return VectorShape(1, 1) if members == 1 else VectorShape(emit_c.CHUNK * per_double(section), 1)

    def load(self, parts: Parts, params: Sequence[UOp], varying: tuple[bool, ...]) -> list[Any]:
        library = load_library(build(emit_c.module(parts, params, varying)))
        return [calling(SIGNATURE((f.name, library))) for f, _ in parts]


SECTION = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)
PART = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3)


def on_arrays(f: Any, owner: Any) -> Any:
    """A C function as one that takes arrays; it keeps alive what its code lives in."""

    def call(table: Any, uniform: Any, flags: Any, *numbers: int) -> None:
        f(pointer(table), pointer(uniform), pointer(flags), *numbers)

    call.owner = owner  # type: ignore[attr-defined]
    return call


def function_names(kernel: LoopKernel) -> dict[str, Any]:
    """Every function of a kernel's module, with its signature."""
    out: dict[str, Any] = {}
    for section in kernel.sections.values():
        out[section.name] = SECTION
        out |= {f"part.{section.name}.{k}": PART for k in range(len(section.nests))}
        if wavefront(section, kernel.buffers) is not None:
            out |= {f"part.{half}.{section.name}": PART for half in ("sweep", "edge")}
    return out


class LlvmLoops:
    """Loop nests for this processor."""

    threads = True

    def __init__(self, cpu: Cpu | None = None, width: int | None = None) -> None:
        self.cpu = host_cpu() if cpu is None else cpu
        self.width = self.cpu.width if width is None else width

    def load(self, kernel: LoopKernel, careful: bool) -> dict[str, Any]:
        names = function_names(kernel)
        compiled = compile_text(emit_nests.module(kernel, careful, self.width, self.cpu.x86), list(names), self.cpu)
        return {n: on_arrays(signature(ctypes.cast(f, ctypes.c_void_p).value), f)
                for (n, signature), f in zip(names.items(), compiled)}  # fmt: skip


class CLoops:
    """Loop nests through the C compiler that is there."""

    threads = True

    def load(self, kernel: LoopKernel, careful: bool) -> dict[str, Any]:
        library = load_library(build(emit_cnests.module(kernel, careful)))
        return {n: on_arrays(signature((n.replace(".", "_"), library)), library)
                for n, signature in function_names(kernel).items()}  # fmt: skip
