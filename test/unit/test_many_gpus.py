"""Is an ensemble the same on several GPUs?  Each has its part of the members; through the fake driver, with two and three cards."""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.context import CUDA_DEVICE
from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.engines.cuda_many import SpreadEngine
from tinyphysics.errors import BackendError, PlanError
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.runtime.engines.cuda import CudaLoader
from tinyphysics.target import VectorShape


@tp.hamiltonian
def pendulum(q, p, k=1.0):
    return p * p / 2 - k * tp.cos(q)


@tp.hamiltonian
def falls(q, p):
    return p * p / 2 - q**4


@pytest.fixture(params=[2, 3])
def cards(request, tmp_path, monkeypatch):
    from fake_cuda import Card, FakeDriver, installed

    tmp_path.chmod(0o700)
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(tmp_path))
    with installed(FakeDriver(*(Card(f"card {k}") for k in range(request.param)))) as driver, CUDA_DEVICE(-1):
        yield driver
    assert driver.faults == []


def start(members):
    rng = np.random.default_rng(3)
    return {"q": rng.uniform(-2, 2, members), "p": rng.uniform(-1, 1, members)}


@pytest.mark.thin(rows=2)
@pytest.mark.parametrize("members", [1, 2, 17, 64])
def test_the_bits_are_those_of_one(cards, members):
    state, k = start(members), np.linspace(1, 2, members)
    options = dict(
        steps=20, save_every=5, observe={"square": lambda q: q * q}, observe_every=4, hash_every=10
    )
    out = tp.compile(pendulum, dt=0.01, backend="cuda").evolve(**state, k=k, **options)
    here = tp.compile(pendulum, dt=0.01).evolve(**state, k=k, **options)
    assert (
        out.hash == here.hash and out.hashes == here.hashes and np.array_equal(out["square"], here["square"])
    )
    assert np.array_equal(out.q, here.q) and np.array_equal(out.energy, here.energy)


def test_every_card_has_launched(cards):
    sim = tp.compile(pendulum, dt=0.01, backend="cuda")
    out = sim.evolve(**start(30), steps=10, frames=2)
    places = cuda.taken()
    assert isinstance(engine_for(sim.target, sim.compiled.program), SpreadEngine)
    assert all(cuda.opened(p).launches > 0 for p in places) and all(
        f"card {p}" in out.metrics["device"] for p in places
    )
    assert out.metrics["launches"] >= 3 * len(places)


def test_members_that_fail_are_named_on_whichever_card_they_are(cards):
    state = {"q": np.linspace(0.1, 3, 23), "p": np.zeros(23)}
    out = tp.compile(falls, dt=0.05, backend="cuda").evolve(**state, steps=60, save_every=20)
    here = tp.compile(falls, dt=0.05).evolve(**state, steps=60, save_every=20)
    assert 0 < len(here.stops) < 23 and out.stops == here.stops
    assert np.array_equal(out.q, here.q, equal_nan=True) and np.array_equal(out.final.q, here.final.q)


def test_a_checkpoint_goes_on_with_another_number_of_cards(cards, tmp_path):
    state, file = start(19), tmp_path / "half"
    sim = tp.compile(pendulum, dt=0.01, backend="cuda")
    sim.evolve(**state, steps=10, checkpoint=file)
    whole = tp.compile(pendulum, dt=0.01).evolve(**state, steps=20)
    assert sim.evolve(resume=file, steps=10).hash == whole.hash
    with CUDA_DEVICE(1):
        assert sim.evolve(resume=file, steps=10).hash == whole.hash


@pytest.mark.parametrize("options", [dict(dt=0.01), dict(dt=0.5, method="taylor")], ids=str)
def test_a_run_is_done_by_those_that_are_taken_now(cards, options):
    sim = tp.compile(pendulum, backend="cuda", **options)
    expected, places = tp.compile(pendulum, **options).evolve(**start(7), steps=2).hash, cuda.taken()
    for taken in (0, 1, -1, 0):
        before = [cuda.opened(p).launches for p in places]
        with CUDA_DEVICE(taken):
            assert sim.evolve(**start(7), steps=2).hash == expected
        busy = [p for p, n in zip(places, before) if cuda.opened(p).launches > n]
        assert busy == (places if taken < 0 else [taken])


def test_registers_of_a_few_are_theirs_where_threads_have_several_members(cards, monkeypatch):
    """Those of a card are filled up to what its threads take."""
    monkeypatch.setattr(CudaLoader, "shape", lambda self, section, members: VectorShape(1, 2))
    sim, state = tp.compile(pendulum, dt=0.01, backend="cuda"), start(9)
    sim.evolve(**state, steps=1)
    engine = engine_for(sim.target, sim.compiled.program)
    m = engine.start(state, {"k": np.ones(1)}, 9, 0.01, 0.0)
    name, all_of_them = next(iter(engine.registers(m).items()))
    few = engine.some(m, [0, 8])
    assert np.array_equal(engine.registers(few)[name], all_of_them[[0, 8]])
    assert np.array_equal(engine.register(few, name), all_of_them[[0, 8]])


def test_methods_with_steps_of_their_own(cards):
    state = start(7)
    out = tp.compile(pendulum, dt=0.5, method="taylor", backend="cuda").evolve(**state, steps=3)
    assert out.hash == tp.compile(pendulum, dt=0.5, method="taylor").evolve(**state, steps=3).hash


def test_arrays_on_one_card_stay_there(cards):
    from tinyphysics.device.cuda.dlpack import DeviceArray

    buffer = cuda.upload(np.zeros(4))
    there = DeviceArray(buffer.pointer, (4,), np.float64, buffer)
    with pytest.raises(PlanError, match="several GPUs"):
        tp.compile(pendulum, dt=0.01, backend="cuda").evolve(q=there, p=there, steps=2)


def test_a_card_that_is_not_there(cards):
    with CUDA_DEVICE(9), pytest.raises(BackendError, match="no CUDA device 9"):
        tp.compile(pendulum, dt=0.01, backend="cuda")
