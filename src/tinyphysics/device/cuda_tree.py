"""How does a device see a tree?  Made on this machine (device/tree.py) over points that are read back, and sent there."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tinyphysics.device import cuda
from tinyphysics.device.near import aligned
from tinyphysics.device.tree import Functions, TreePull, softening_of
from tinyphysics.tpir.nests import LoopKernel
from tinyphysics.tpir.tree import BOX, MASSES, POINTS


def seeded(kernel: LoopKernel, given: tuple[Mapping[str, Any], int], f: Functions) -> TreePull:
    """The tree of a member, not grown yet."""
    own = {name: aligned(kernel.buffers[name]) for name in (POINTS, MASSES)}
    return TreePull(kernel.tree, softening_of(kernel.tree, *given), own, f, 1)


def looked_at(tree: TreePull, held: Mapping[str, cuda.Buffer]) -> TreePull:
    """With the points that were stored last, here."""
    for name in (POINTS, MASSES):
        cuda.read(held[name], tree.own[name])
    return tree


def planted_there(tree: TreePull, held: Mapping[str, cuda.Buffer]) -> dict[str, cuda.Buffer]:
    """The tree over the points that were stored last, on the device: by the names of its buffers."""
    t = looked_at(tree, held).grown()
    arrays = {"rows": t.points.T, "nodes": t.nodes[:BOX].T, "boxes": t.nodes[BOX:, : t.leaves].T,
              "order": t.order.astype(np.int32), "numbers": np.array([tree.angle * tree.angle, tree.softening])}  # fmt: skip
    return {f"tree.{name}": cuda.upload(a) for name, a in arrays.items()}
