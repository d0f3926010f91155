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
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernel import Section

MOST_UNROLL = 6
REGISTERS = 60  # more than there are: a few spills cost less than the latency that they hide


def live_values(f: Section) -> int:
    """The most values that are alive at once in one copy of the section, aside from what never changes."""
    moving = dict.fromkeys(f.loads)
    order = [u for u in toposort(f.everything) if u.op not in (Ops.CONST, Ops.VAR) or u in moving]
    last: dict[UOp, int] = {}
    for at, u in enumerate(order):
        for s in u.src:
            last[s] = at
    for u in (*f.roots, *f.loads):
        last[u] = len(order)
    alive, most = 0, 0
    ends: dict[int, int] = {}
    for at, u in enumerate(order):
        alive += 1
        if u in last:
            ends[last[u]] = ends.get(last[u], 0) + 1
        most = max(most, alive)
        alive -= ends.get(at, 0)
    return most


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
        width = self.cpu.width * (2 if section.loads and section.loads[0].dtype is f32 else 1)
        enough = -(-members // width)
        if not section.loops:
            return VectorShape(width, 1)
        fitting = REGISTERS // max(live_values(section), 1)
        return VectorShape(width, max(1, min(MOST_UNROLL, enough, fitting)))

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
