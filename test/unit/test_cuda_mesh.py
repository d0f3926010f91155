"""Meshes on a CUDA device: a thread for each column of nodes adds what reaches it, with the bits of the processor."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp


@tp.hamiltonian
def salt(q: tp.Array["n", 3], p: tp.Array["n", 3], c: tp.Vec["n"], L: float):
    r2 = tp.pair_distance2(q, box=L)
    return (p**2).sum() / 2 + tp.pair_sum(c[:, None] * c[None, :] / np.sqrt(r2))


@pytest.mark.requirement("S2-18")
@pytest.mark.slow("a mesh on a device that is played by the processor")
@pytest.mark.parametrize("pinned", [{"cutoff": 0, "grid": (6, 7, 8), "order": 3}, pytest.param({"alpha": 2.0, "cutoff": 1.4, "grid": (6, 7, 8), "order": 3}, marks=pytest.mark.all)])  # fmt: skip
def test_a_mesh_has_the_bits_of_the_processor(fake_cuda, pinned):
    g = np.stack(np.meshgrid(*[np.arange(3)] * 3, indexing="ij"), -1).reshape(-1, 3)
    q = g + np.random.default_rng(5).uniform(-0.2, 0.2, g.shape)
    start = {"q": q, "p": 0 * q, "c": (-1.0) ** g.sum(1), "L": 3.0}
    found = {}
    for backend in ("cuda", "llvm"):
        out = tp.compile(salt, dt=0.02, backend=backend, long_range=pinned).evolve(
            **start, steps=1, threads=2
        )
        found[out.metrics["backend"]["used"]] = out.hash
    assert set(found) == {"cuda", "llvm"} and found["cuda"] == found["llvm"]
