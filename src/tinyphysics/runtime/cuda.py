"""How does a program become kernels of an NVIDIA GPU?  LLVM IR from emit/, PTX and machine code by device/."""
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tinyphysics.device import cuda, nvptx
from tinyphysics.device.cuda_lanes import Tools
from tinyphysics.device.cuda_loops import Call, Loaded
from tinyphysics.device.engine import Parts, pointer
from tinyphysics.emit import ptx as emit
from tinyphysics.emit import ptx_nests, ptx_tools
from tinyphysics.ir.uop import UOp
from tinyphysics.runtime.loaders import list_columns
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernel import Section
from tinyphysics.tpir.nests import LoopKernel


class CudaLoader:
    """Members as threads."""

    threads = False  # the device has its own
    quick = None

    def __init__(self) -> None:
        self.made = self.found = 0

    def shape(self, section: Section, members: int) -> VectorShape:
        return VectorShape(1, 1)

    def load(
        self, parts: Parts, params: Sequence[UOp], varying: tuple[bool, ...], quick: bool = False
    ) -> list[Any]:
        text, kept = nvptx.ptx(emit.module(parts, params, varying), cuda.device().capability)
        functions, found = cuda.load(text, [f.name for f, _ in parts])
        self.found += kept and found
        self.made += not (kept and found)
        return functions


@lru_cache(maxsize=1)
def tools(device: cuda.Device) -> Tools:
    return Tools(ptx_tools.module(), ptx_tools.NAMES)


def turned_list(starts: Any, blocks: Any, n: int, parts: int, *more: Any) -> None:
    """A list of neighbours by columns, on this machine."""
    cuts, places, rows, fill = more
    list_columns()(pointer(starts), pointer(blocks), n, parts, pointer(cuts), pointer(places), pointer(rows), fill)


class CudaLoops:
    """Loop nests as kernels, queued in order."""

    threads = False
    turn = staticmethod(turned_list)

    def __init__(self) -> None:
        self.made = self.found = 0

    def load(self, kernel: LoopKernel, careful: bool) -> Any:
        module = ptx_nests.nests_module(kernel, careful)
        text, kept = nvptx.ptx(module.text, cuda.device().capability)
        names = [ptx_nests.TICK, *module.names]
        built, found = cuda.load(text, names)
        self.found += kept and found
        self.made += not (kept and found)
        functions = dict(zip(names, built))
        calls = {section: [[Call(functions[x.name], x.blocks, x.block, x.buffers, x.clocked) for x in nest] for nest in nests]
                 for section, nests in module.launches.items()}  # fmt: skip
        return Loaded(calls, calls.pop(ptx_nests.LOOK), functions[ptx_nests.TICK], cuda.Buffer(max(module.workspace, 8)))
