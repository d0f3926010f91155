"""Where is a run done if nobody says it?  Where it is estimated to end sooner; the bits are the same."""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.errors import BackendError
from tinyphysics.planner.cost import offload
from tinyphysics.planner.cost.offload import Work, here, there
from tinyphysics.runtime.engines import backend


@tp.hamiltonian
def pendulum(q, p):
    return p * p / 2 - tp.cos(q)


@pytest.fixture
def looked_again():
    backend.gpu_here.cache_clear()
    yield
    backend.gpu_here.cache_clear()


def test_large_ensembles_are_sooner_done_on_a_gpu_and_small_ones_here():
    lanes, cores, processors = 32, 2, 132
    large, one, few = Work(24, 1 << 22, 1000, 2), Work(24, 1, 10**6, 2), Work(24, 100, 1000, 2)
    assert there(large, processors) < here(large, lanes, cores)
    assert there(one, processors) > here(one, lanes, cores)  # nothing hides the time that an operation takes
    assert there(few, processors) > here(few, lanes, cores)  # a kernel has to be made
    assert there(large, processors, used=False) > there(large, processors)  # and a context


def test_a_run_goes_where_it_is_cheaper_and_says_why(fake_cuda, looked_again, monkeypatch):
    state = {"q": np.linspace(-1, 1, 50), "p": np.zeros(50)}
    sim = tp.compile(pendulum, dt=0.01)
    assert (
        "why" not in sim.evolve(**state, steps=20).metrics["backend"] and not fake_cuda.counts["cuInit"]
    )  # nobody asked
    for name, value in (("LEAST", 1), ("FEWEST", 1)):
        monkeypatch.setattr(offload, name, value)
    stays = sim.evolve(**state, steps=20)
    assert stays.metrics["backend"]["used"] == "llvm" and "Fake GPU" in stays.metrics["backend"]["why"]
    for name, value in (("LAUNCH", 0.0), ("LATENCY", 0.0), ("COPY_RATE", 1e30), ("PROCESSOR_RATE", 1e30)):
        monkeypatch.setattr(offload, name, value)
    goes = tp.compile(pendulum, dt=0.01).evolve(
        **state, steps=20
    )  # a run like one before it goes where that went
    assert goes.metrics["backend"] | {"why": ""} == {"requested": "auto", "used": "cuda", "why": ""}
    assert goes.metrics["device"] == "Fake GPU" and goes.metrics["launches"] > 0
    assert goes.hash == stays.hash and goes.drift("energy").shape == (50,)


def test_what_is_asked_for_is_done_there(fake_cuda, looked_again, monkeypatch):
    monkeypatch.setattr(offload, "LAUNCH", -1e9)
    out = tp.compile(pendulum, dt=0.01, backend="llvm").evolve(q=1.0, p=0.0, steps=5)
    assert out.metrics["backend"] == {"requested": "llvm", "used": "llvm"}


def test_gpu_is_the_one_that_is_here(fake_cuda):
    out = tp.compile(pendulum, dt=0.01, backend="gpu").evolve(q=np.zeros(3), p=np.ones(3), steps=5)
    assert out.metrics["backend"]["used"] == "cuda"


def test_gpu_without_one_is_an_error(monkeypatch):
    def nothing():
        raise BackendError("no driver")

    monkeypatch.setattr(backend.cuda, "device", nothing)
    monkeypatch.setattr(backend.opencl, "device", nothing)
    with pytest.raises(BackendError, match="no GPU"):
        tp.compile(pendulum, dt=0.01, backend="gpu")
