"""Do torch and JAX compute the same runs?  To rounding, with what they do not run refused, and what is missing named."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.device.host import libraries
from layer_cases import chain, kepler, lorenz, standard

CHAIN = dict(q=np.sin(np.arange(6.0)) / 3, p=np.cos(np.arange(6.0)), k=np.ones(6))
RUNS = {
    "leapfrog": (kepler, dict(dt=0.01, method="leapfrog"), dict(q=[1.0, 0.0], p=[0.0, 1.2])),
    "yoshida4": (chain, dict(dt=0.05, method="yoshida4", sizes={"n": 6}), CHAIN),
    "implicit_midpoint": (
        kepler,
        dict(dt=0.01, method="implicit_midpoint"),
        dict(q=[1.0, 0.0], p=[0.0, 1.2]),
    ),
    "rk4": (lorenz, dict(dt=0.01, method="rk4"), dict(x=[1.0, 2.0, 20.0])),
    "map": (
        standard,
        {},
        dict(theta=np.linspace(0.1, 1.0, 9), p=np.zeros(9), K=0.2),
    ),  # sines, of an ensemble
}


@pytest.fixture(params=["torch", "jax"])
def backend(request):
    found = pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    if request.param == "jax":
        before = found.config.jax_enable_x64
        found.config.update("jax_enable_x64", True)
        yield request.param
        found.config.update("jax_enable_x64", before)
    else:
        yield request.param


@pytest.mark.all
@pytest.mark.parametrize("name", RUNS)
def test_runs_observables_and_gradients_agree_to_rounding(backend, name):
    system, options, start = RUNS[name]
    sims = [tp.compile(system, **options, backend=b) for b in ("llvm", backend)]
    assert sims[1].target.backend == backend and not sims[1].target.bit_exact
    assert "tolerance" in str(sims[1].explain("full"))
    state = next(iter(start))
    here, there = (s.evolve(**start, steps=60, save_every=20) for s in sims)
    for n in here.frames:
        assert np.allclose(there.frames[n], here.frames[n], rtol=1e-11, atol=1e-13)

    def loss(out):
        x = out.final[state]
        return (x**2).sum() if x.shape else x**2

    one, two = (s.grad(loss, **start, steps=30) for s in sims)
    assert all(np.allclose(two[n], one[n], rtol=1e-10, atol=1e-12) for n in one)


@pytest.mark.all
def test_observables_agree(backend):
    start = dict(q=np.linspace([1.0, 0.0], [1.3, 0.2], 5), p=np.broadcast_to([0.0, 1.1], (5, 2)))
    outs = [
        tp.compile(kepler, dt=0.01, method="leapfrog", backend=b).evolve(
            **start, steps=50, observe={"r2": lambda q: q @ q}, observe_every=10
        )
        for b in ("llvm", backend)
    ]
    assert np.allclose(outs[0]["r2"], outs[1]["r2"], rtol=1e-13)


def test_what_they_do_not_run_is_refused(backend):
    @tp.hamiltonian
    def wall(q: tp.Vec[400], p: tp.Vec[400]):
        d = q[:, None] - q[None, :]
        return p @ p / 2 + tp.exp(-(d**2)).sum()

    wrong = [
        (kepler, dict(dt=0.01, precision="lattice"), "lattice"),
        (kepler, dict(dt=0.01, precision="float32"), "float32"),
        (kepler, dict(method="dop853"), "own steps"),
        (kepler, dict(method="taylor"), "own steps|Taylor"),
        (wall, dict(dt=0.01, method="leapfrog"), "number by number"),
    ]
    for system, options, word in wrong:
        with pytest.raises(tp.BackendError, match=word):
            tp.compile(system, backend=backend, **options)


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_a_library_that_is_not_there_is_an_error_with_the_pip_line(monkeypatch, name):
    libraries.library.cache_clear()
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(tp.BackendError, match=rf'pip install "tinyphysics\[{name}\]"'):
        tp.compile(kepler, dt=0.01, backend=name)
