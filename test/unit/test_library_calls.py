"""Products of matrices that a library does: only under math="fast", where that pays, and never in silence."""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.tpir.kernels.every_kind import for_backend
from tinyphysics.tpir.kernels.kinds.call import LEAST
from tinyphysics.tpir.kernels.library import handed_over
from tinyphysics.tpir.kernels.loops import build_loops


@tp.map
def turned(z: tp.Array["m", "n"], A: tp.Array["m", "m"]):
    return A.T @ z


@tp.map
def times_itself(z: tp.Array["n", "n"], A: tp.Array["n", "n"]):
    return np.tanh(A @ z.T) + 0.5 * (z @ A)


def made(system, backend, sizes, math="fast"):
    return tp.compile(system, backend=backend, sizes=sizes, math=math)


@pytest.fixture
def counted(monkeypatch):
    calls = []
    matmul = np.matmul
    monkeypatch.setattr(
        np, "matmul", lambda a, b, out=None: (calls.append((a.shape, b.shape)), matmul(a, b, out=out))[1]
    )
    return calls


@pytest.mark.parametrize("backend", ["numpy", pytest.param("c", marks=pytest.mark.all)])
def test_a_library_multiplies_under_fast_math_alone(backend, counted, monkeypatch):
    monkeypatch.setitem(LEAST, backend, 32**3)
    z, a = np.cos(np.arange(40.0 * 48).reshape(40, 48)), np.sin(np.arange(1600.0).reshape(40, 40)) / 7
    sizes = {"m": 40, "n": 48}
    exact = made(turned, backend, sizes, "exact").evolve(z=z, A=a, steps=3)
    assert not counted and not exact.losses
    fast = made(turned, backend, sizes).evolve(z=z, A=a, steps=3)
    assert counted == [((40, 40), (40, 48))] * 3
    assert np.allclose(fast.final.z, a.T @ (a.T @ (a.T @ z)), rtol=1e-13, atol=1e-15)
    (loss,) = [x for x in fast.losses if x.what == "order of sums in products"]
    assert loss.amount == 40 * 2.0**-53 and loss.restores == 'math="exact"'
    assert "library call" in str(made(turned, backend, sizes).explain("full"))
    assert fast.metrics["math"] == "fast"


def test_copies_of_a_run_have_their_own_matrices(counted):
    """Members, snapshots and frames: what is called looks where the buffers of its own member are by then."""
    n = 40
    start = np.stack([np.eye(n), np.cos(np.arange(float(n * n)).reshape(n, n)), np.ones((n, n))])
    a = np.sin(np.arange(float(n * n)).reshape(n, n)) / 9
    sim = made(times_itself, "numpy", {"n": n})
    out = sim.evolve(z=start, A=a, steps=4, save_every=1)
    assert len(counted) == 4 * 3 * 2
    for k in range(3):
        z = start[k]
        for j in range(4):
            z = np.tanh(a @ z.T) + 0.5 * (z @ a)
            assert np.abs(out.z[j + 1, k] - z).max() < 1e-12
        assert np.array_equal(sim.evolve(z=start[k], A=a, steps=4).final.z, out.z[-1, k])


def test_backends_that_cannot_call_keep_their_product_and_say_so():
    sim = made(turned, "llvm", {"m": 160, "n": 160})
    assert not handed_over(sim.built.program, "llvm") and handed_over(sim.built.program, "c")
    told = str(sim.explain("full"))
    assert "`llvm` multiplies matrices itself" in told and "order of sums" not in told
    kernel = build_loops(sim.built.program)
    for backend in ("llvm", "opencl", "cuda"):
        assert for_backend(kernel, backend) is kernel
    assert not handed_over(made(turned, "numpy", {"m": 12, "n": 12}).built.program, "numpy")  # too small
