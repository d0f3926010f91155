"""How does a program become kernels of an OpenCL device?  Text from emit/, built and called by device/."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinyphysics.device.opencl import driver as device
from tinyphysics.device.protocols import Parts
from tinyphysics.emit.kinds.cnests import touched
from tinyphysics.emit.modules.opencl_nests import nests_module, part_name
from tinyphysics.emit.scalar import opencl as emit
from tinyphysics.emit.scalar.c import CHUNK
from tinyphysics.ir.uop import UOp
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import Section
from tinyphysics.tpir.kernels.nests import LoopKernel


class OpenClLoader:
    """Members as work-items: one each on many small cores, a chunk each on a processor with vectors."""

    by_address = False
    passage: Any = None
    threads = False  # the driver has its own
    quick = None
    made = found = 0

    def shape(self, section: Section, members: int) -> VectorShape:
        return VectorShape(CHUNK if members > 1 and device.device().processor else 1, 1)

    def load(
        self, parts: Parts, params: Sequence[UOp], varying: tuple[bool, ...], quick: bool = False
    ) -> list[Any]:
        kernels = device.build(emit.module(parts, params, varying), [emit.section_name(f) for f, _ in parts])
        return [device.on_lanes(kernel, shape.lanes) for kernel, (_, shape) in zip(kernels, parts)]


class OpenClLoops:
    """Loop nests as kernels, queued in order."""

    threads = False
    made = found = 0

    def load(self, kernel: LoopKernel, careful: bool) -> dict[str, Any]:
        sections = (kernel.careful if careful else kernel.sections).values()
        names = [part_name(s.name, k) for s in sections for k in range(len(s.nests))]
        built = dict(zip(names, device.build(nests_module(kernel, careful), names)))
        return {
            s.name: device.on_loops(
                [built[part_name(s.name, k)] for k in range(len(s.nests))],
                kernel.buffers,
                s,
                [touched(n) for n in s.nests],
            )
            for s in sections
        }
