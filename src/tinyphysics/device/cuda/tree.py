"""What is known of a tree that lives on a device?  Its angle, which this machine chooses where a run begins.

There the points that were stored are read back once. From then on the device makes its trees alone
(emit/kinds/trees/ptx_tree_build.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.host.cores import available
from tinyphysics.device.host.neighbours import aligned
from tinyphysics.device.host.tree import TreePull, softening_of
from tinyphysics.device.host.tree_nodes import Functions
from tinyphysics.tpir.kernels.nests import LoopKernel
from tinyphysics.tpir.kernels.tree import MASSES, NUMBERS, POINTS


class CudaTree(TreePull):
    """The tree of one member; `own` is where points and masses are read into."""

    looked = False  # at masses, which no step changes
    there = 0.0  # the angle that the device knows

    @property
    def ready(self) -> bool:
        """May an evaluation be queued without a look?"""
        return self.looked and self.there == self.angle > 0.0

    def prepare(self, held: Mapping[str, cuda.Buffer]) -> None:
        """Before a walk, when points and masses have been stored: the angle is chosen if there is none, and sent."""
        if self.ready:
            return
        if not self.looked or self.angle == 0.0:
            self.look(held)
            self.grown()
            self.looked = True
        cuda.write(held[NUMBERS], np.array([self.angle * self.angle, self.softening]))
        self.there = self.angle

    def look(self, held: Mapping[str, cuda.Buffer]) -> None:
        """At the points that were stored last."""
        for name in (POINTS, MASSES):
            cuda.read(held[name], self.own[name])


def seeded(kernel: LoopKernel, given: tuple[Mapping[str, Any], int], f: Functions) -> CudaTree:
    """The tree of a member, whose angle is not chosen yet."""
    own = {name: aligned(kernel.buffers[name]) for name in (POINTS, MASSES)}
    return CudaTree(kernel.tree, softening_of(kernel.tree, *given), own, f, available())
