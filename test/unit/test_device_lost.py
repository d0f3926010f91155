"""What is left of a run whose device fails?  All that was saved before, and the reason."""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.device.cuda import driver as cuda, dlpack as exchange
from tinyphysics.device.cuda.driver import DeviceError
from tinyphysics.device.engines.cuda_lanes import CudaEngine

STATE = {"q": np.linspace(-1, 1, 9), "p": np.zeros(9)}


@tp.hamiltonian
def pendulum(q, p):
    return p * p / 2 - tp.cos(q)


def run(**options):
    return tp.compile(pendulum, dt=0.01, backend="cuda").evolve(**STATE, steps=40, **options)


@pytest.fixture
def failing(monkeypatch):
    """The device fails for good in the step after this one."""

    def at(step):
        call = CudaEngine.call

        def broken(self, name, m, *rest, **options):
            if m.steps >= step and name in ("step", "watch"):
                raise DeviceError("CUDA's cuLaunchKernel failed: CUDA_ERROR_LAUNCH_FAILED", 719)
            call(self, name, m, *rest, **options)

        monkeypatch.setattr(CudaEngine, "call", broken)
        monkeypatch.setattr(CudaEngine, "block", lambda self, members: 5)

    return at


@pytest.mark.parametrize("every, last", [(10, 20), (4, 24), (None, 0)])
def test_frames_that_were_saved_are_there(fake_cuda, failing, every, last):
    frames = {"frames": 2} if every is None else {"save_every": every}
    whole = run(save_every=every or 4)
    failing(24)
    out = run(**frames)
    assert [s.cause for s in out.stops] == ["device"] and isinstance(out.stops[0].error, DeviceError)
    assert out.final.step == last == out.steps[-1]
    assert np.array_equal(out.q, whole.q[: len(out.q)]) and np.array_equal(out.final.q, out.q[-1])
    assert len(out.q) == (last // every + 1 if every else 1)


def test_observables_up_to_there(fake_cuda, failing):
    whole = run(save_every=5, observe={"square": lambda q: q * q}, observe_every=5)
    failing(25)
    out = run(save_every=5, observe={"square": lambda q: q * q}, observe_every=5)
    assert out.stopped.cause == "device" and out.steps[-1] == 25 and len(out["square"]) == 6
    assert np.array_equal(out["square"], whole["square"][: len(out["square"])])


def test_frames_on_the_device_are_there_unless_it_is_lost(fake_cuda, failing, monkeypatch):
    """No memory for more: what was saved is well. With a context that is lost the arrays are, too."""
    given = {name: exchange.sent(v) for name, v in STATE.items()}
    whole = run(save_every=10)
    sim = tp.compile(pendulum, dt=0.01, backend="cuda")
    failing(24)
    out = sim.evolve(**given, steps=40, save_every=10)
    assert (
        out.stopped.cause == "device" and out.steps[-1] == 20 and np.array_equal(out.q.numpy(), whole.q[:3])
    )

    def lost():
        raise DeviceError("CUDA's cuStreamSynchronize failed: CUDA_ERROR_LAUNCH_FAILED", 719)

    monkeypatch.setattr(cuda, "synchronise", lost)
    with pytest.raises(DeviceError, match="LAUNCH_FAILED"):
        sim.evolve(**given, steps=40, save_every=10)


def test_a_device_that_fails_at_once_is_an_error(fake_cuda, failing):
    failing(0)
    with pytest.raises(DeviceError, match="LAUNCH_FAILED"):
        run()


def test_a_store_has_what_was_written_before(fake_cuda, failing, tmp_path):
    failing(24)
    out = run(save_every=4, save=tmp_path / "run.zarr")
    assert [s.cause for s in out.stops] == ["device"]
    assert len(out.q) == 7 and np.isfinite(np.asarray(out.q)).all()
