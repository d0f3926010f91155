"""A run on a GPU beside the same run on this processor: for the tests of test/gpu."""

from __future__ import annotations

import numpy as np

import tinyphysics as tp
from tinyphysics.device.cuda import driver as cuda

HERE = ("cuda", "llvm")


def same(system, options, start, **how):
    """The run there; it has the bits of the one here, and did launch."""
    there, ours = (tp.compile(system, backend=b, **options).evolve(**start, **how) for b in HERE)
    assert there.metrics["backend"]["used"] == "cuda" and there.metrics["launches"] > 0
    assert there.metrics["device"] == cuda.device().name
    assert there.hash == ours.hash and there.hashes == ours.hashes
    assert all(np.array_equal(there.frames[s], ours.frames[s], equal_nan=True) for s in ours.frames)
    for name in how.get("observe", {}):
        assert np.array_equal(there[name], ours[name], equal_nan=True)
    assert there.stopped == ours.stopped
    return there
