"""Do loop nests on a CUDA device have the bits of the processor?  The same LLVM IR here, and its PTX in a machine that runs it."""
from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
import test_gather
from ptx_on_host import OnHost
from test_loops import SYSTEMS, carried, cluster, compiled, fput, loops, pendulums, ring, rotors, shifted, start_of, wave

import tinyphysics as tp
from tinyphysics.device import cuda, cuda_loops, nvptx
from tinyphysics.emit import ptx_nests
from tinyphysics.errors import BackendError
from tinyphysics.runtime import backend
from tinyphysics.runtime.loaders import LlvmLoops
from tinyphysics.tpir.loops import build_loops


def agree(sim, state, params, steps, loader=OnHost):
    out, expected = (loops(sim, load(), state, params, steps) for load in (loader, LlvmLoops))
    return all(np.array_equal(out[k], expected[k]) for k in state)


# --- threads of this processor -----------------------------------------------------------------------------
@pytest.mark.parametrize("system", [*SYSTEMS, ring, pendulums, carried], ids=lambda s: s.name)
@pytest.mark.parametrize("n", [33, 40])
def test_every_nest_has_the_bits_of_the_processor(system, n):
    assert agree(compiled(system, n), *start_of(system, n), 2)


@pytest.mark.parametrize("n", [34, 63, 65, 260, 520])  # 512 points and more are several slabs
def test_a_thread_that_owns_a_point_sums_in_the_order_of_slabs(n):
    assert agree(compiled(cluster, n), *start_of(cluster, n), 1)


@pytest.mark.parametrize("system", [test_gather.molecule, test_gather.mixture, test_gather.ends, test_gather.cells],
                         ids=lambda s: s.name)  # fmt: skip
def test_what_is_gathered_and_scattered_has_the_bits_of_the_processor(system):
    state, params, sizes = test_gather.start_of(system, 40, 45)
    assert agree(test_gather.compiled(system, sizes), state, params, 2)


def test_a_sum_in_chunks_has_the_bits_of_the_processor():
    @tp.hamiltonian
    def mean(q: tp.Vec["n"], p: tp.Vec["n"]):
        return (p**2).sum() / 2 + q.sum() ** 2 / 2

    n = (1 << 16) + 70
    sim = tp.compile(mean, dt=0.01, sizes={"n": n}, backend="llvm")
    rng = np.random.default_rng(0)
    assert agree(sim, dict(q=rng.normal(size=n), p=rng.normal(size=n)), {}, 1)


@pytest.fixture
def on_host(monkeypatch):
    """The backend `c` is these kernels."""
    monkeypatch.setitem(backend.LOOPS, "c", OnHost)
    backend.engine_for.cache_clear()
    yield
    backend.engine_for.cache_clear()


@pytest.mark.parametrize("precision", ["float32", "mixed", "compensated", "lattice", "dd"])
@pytest.mark.parametrize("system", [fput, cluster], ids=lambda s: s.name)
def test_every_precision_has_the_bits_of_the_processor(on_host, system, precision):
    state, params = start_of(system, 40)
    how = dict(dt=0.01, sizes={"n": 40}, precision=precision)
    ours, expected = (tp.compile(system, backend=b, **how).evolve(**state, **params, steps=2) for b in ("c", "llvm"))
    assert ours.hash == expected.hash
