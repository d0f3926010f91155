"""How does a program become kernels of an NVIDIA GPU?  LLVM IR from emit/, PTX and machine code by device/."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tinyphysics.device import cache
from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda import nvptx
from tinyphysics.device.cuda.neighbours import space_of
from tinyphysics.device.cuda.rows import Tools
from tinyphysics.device.cuda.sort import Kernels
from tinyphysics.device.engines.cuda_loops import Call, Loaded
from tinyphysics.device.protocols import Code, Parts
from tinyphysics.emit.kinds.neighbours import ptx_lists
from tinyphysics.emit.kinds.series import ptx_series
from tinyphysics.emit.modules import ptx_nests
from tinyphysics.emit.scalar import ptx as emit
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.calculus.series import SeriesPlan
from tinyphysics.runtime.engines.estimates import serve
from tinyphysics.runtime.state.device_arrays import moves
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import Section, is_beside
from tinyphysics.tpir.kernels.neighbours import ListSpec
from tinyphysics.tpir.kernels.nests import LoopKernel
from tinyphysics.tpir.kernels.outline import SectionOutline
from tinyphysics.util import digest

# measured on an H200: pendulums are fastest by fours (2.01, 1.75, 1.61 ps a step), Hénon–Heiles by twos (0.59, 0.52, 0.61)
STATE = 16  # registers of 32 bits that the states of a thread's members may fill
MOST = 4  # members of a thread
FULL = 2048  # threads that a processor holds


class CudaLoader:
    """Members as threads."""

    by_address = False
    passage: Any = None
    threads = False  # the device has its own
    quick = None

    def __init__(self) -> None:
        self.made = self.found = 0
        self.guarded: dict[str, bool] = {}  # whether a section can mark members, by name

    def shape(self, section: Section, members: int) -> VectorShape:
        """Members side by side in a thread, as far as the registers of their states go, and threads for all of the device."""
        words = sum(v.dtype.bits for v in section.loads if not is_beside(v)) // 32
        enough = members // (cuda.device().processors * FULL)
        return VectorShape(1, max(1, min(MOST, STATE // max(words, 1), enough)))

    def load(
        self, parts: Parts, params: Sequence[UOp], varying: tuple[bool, ...], quick: bool = False
    ) -> list[Any]:
        text, kept, guarded = self.noted(parts, varying) or self.written(parts, params, varying)
        self.guarded |= guarded
        functions, found = cuda.load(text, [f.name for f, _ in parts])
        self.found += kept and found
        self.made += not (kept and found)
        return functions

    def written(
        self, parts: Parts, params: Sequence[UOp], varying: tuple[bool, ...]
    ) -> tuple[str, bool, dict[str, bool]]:
        """(PTX, whether it was made before, which sections have guards)."""
        capability, note = cuda.device().capability, self.note(parts, varying)
        whole = [(f.written(False) if isinstance(f, SectionOutline) else f, shape) for f, shape in parts]
        llvm = emit.module(whole, params, varying)
        text, kept = nvptx.ptx(llvm, capability)
        guarded = {f.name: f.guarded for f, _ in whole if not f.careful}
        if note:
            cache.write(note, json.dumps([nvptx.key_of(llvm, capability), guarded]).encode())
        return text, kept, guarded

    def noted(self, parts: Parts, varying: tuple[bool, ...]) -> tuple[str, bool, dict[str, bool]] | None:
        """The same of what became of these sections before, if that was kept."""
        note = self.note(parts, varying)
        try:
            key, guarded = json.loads((cache.read(note) if note else None) or b"null")
            text = cache.read(key) if nvptx.NAME.fullmatch(key) else None
            return (
                None if text is None else (text.decode(), True, {str(k): bool(v) for k, v in guarded.items()})
            )
        except (ValueError, TypeError, AttributeError):
            return None

    def note(self, parts: Parts, varying: tuple[bool, ...]) -> str | None:
        """Where it is noted which PTX these sections became; None for sections without a key."""
        known = [(f.key, f.name, f.careful, shape) for f, shape in parts if isinstance(f, SectionOutline)]
        if len(known) < len(parts):
            return None
        made_by = (nvptx.processor(cuda.device().capability), nvptx.VERSION)
        return digest(repr(["cuda", known, varying, made_by]).encode()) + ".note"


def series_kernels(plan: SeriesPlan, parts: Any) -> Code:
    """A Taylor series in loops."""
    w = ptx_series.PtxSeriesWriter(plan, *parts)
    text, kept = nvptx.ptx(w.module(), cuda.device().capability)
    (advance, look), found = cuda.load(text, ptx_series.NAMES)
    there = kept and found
    return Code(advance, look, w.scratch, int(not there), int(there))


def list_kernels(spec: ListSpec) -> Kernels:
    """What makes a list of neighbours on this thread's device."""
    return kernels_of(cuda.device(), space_of(spec))


@lru_cache(maxsize=32)
def kernels_of(device: cuda.Device, space: tuple[int, bool, bool, bool, bool]) -> Kernels:
    return Kernels(ptx_lists.module(*space), ptx_lists.NAMES)


class CudaLoops:
    """Loop nests as kernels, queued in order."""

    threads, team, there = False, None, True
    lists = staticmethod(list_kernels)

    def __init__(self) -> None:
        self.made = self.found = 0

    @property
    def moves(self) -> Tools:
        return moves(cuda.device())

    def load(self, kernel: LoopKernel, careful: bool) -> Any:
        estimates = ptx_nests.wants_estimates(kernel) and serve(cuda.device())
        module = ptx_nests.nests_module(kernel, careful, estimates)
        text, kept = nvptx.ptx(module.text, cuda.device().capability)
        beside = [ptx_nests.TICK, *([ptx_nests.HALT, ptx_nests.GO_ON] if kernel.lists else [])]
        names = [*beside, *module.names]
        built, found = cuda.load(text, names)
        self.found += kept and found
        self.made += not (kept and found)
        functions = dict(zip(names, built))
        calls = {
            section: [
                [Call(functions[x.name], x.blocks, x.block, x.buffers, x.clocked) for x in nest]
                for nest in nests
            ]
            for section, nests in module.launches.items()
        }
        return Loaded(
            calls,
            calls.pop(ptx_nests.LOOK),
            functions[ptx_nests.TICK],
            cuda.Buffer(max(module.workspace, 8)),
            *(functions[name] for name in beside[1:]),
        )
