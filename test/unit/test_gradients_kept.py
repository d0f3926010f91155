"""Does a gradient run that is interrupted go on to the same bits, and do snapshots beyond the memory go to files?"""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.measure import past as past_of_a_run
from tinyphysics.runtime.measure.course import Pullback

pytestmark = pytest.mark.requirement("S2-40")
START = dict(q=[0.1, -0.2], p=[0.3, 0.1])


@tp.hamiltonian
def henon(q: tp.Vec[2], p: tp.Vec[2], lam: float = 1.0):
    return (p @ p + q @ q) / 2 + lam * (q[0] ** 2 * q[1] - q[1] ** 3 / 3)


def loss(out):
    return out.final.q @ out.final.q + (out.q[:, 0] * out.p[:, 1]).sum()


MORE = dict(steps=300, save_every=50)


def interrupt_at(monkeypatch, calls):
    """Ctrl-C in that many calls of a step back."""
    step, count = Pullback.step, [0]

    def stopping(self, n, steps=1):
        count[0] += 1
        if count[0] == calls:
            raise KeyboardInterrupt
        step(self, n, steps)

    monkeypatch.setattr(Pullback, "step", stopping)


@pytest.mark.parametrize(
    ("past", "calls", "options"),
    [
        ("store", 120, {}),
        ("checkpoint", 170, dict(snapshots=6)),
        ("reverse", 9, {}),
        ("reverse", 5, dict(precision="lattice")),
    ],
)
def test_a_sweep_that_was_interrupted_goes_on_to_the_same_bits(past, calls, options, monkeypatch, tmp_path):
    own = {k: options.pop(k) for k in ("precision",) if k in options}
    sim = tp.compile(henon, dt=0.05, method="leapfrog", **own)
    monkeypatch.setattr(past_of_a_run, "STRETCH", 40)
    want = sim.value_and_grad(loss, **START, **MORE, past=past, **options)
    path = tmp_path / "gradient.npz"
    with monkeypatch.context() as m:
        interrupt_at(m, calls)
        with pytest.raises(KeyboardInterrupt):
            sim.value_and_grad(loss, **START, **MORE, past=past, **options, checkpoint=path)
    value, grads = sim.value_and_grad(loss, **START, **MORE, past=past, **options, resume=path)
    assert value == want[0]
    for name in grads:
        assert np.array_equal(grads[name], want[1][name]), name


def test_what_is_resumed_is_the_same_run(tmp_path, monkeypatch):
    sim, path = tp.compile(henon, dt=0.05, method="leapfrog"), tmp_path / "gradient.npz"
    with monkeypatch.context() as m:
        interrupt_at(m, 50)
        with pytest.raises(KeyboardInterrupt):
            sim.grad(loss, **START, **MORE, past="store", checkpoint=path)
    for other in (dict(lam=1.1), dict(wrt=["q"])):
        with pytest.raises(tp.StoreError, match="another gradient run"):
            sim.grad(loss, **START, **MORE, past="store", resume=path, **other)
    with pytest.raises(tp.StoreError, match="another gradient run"):
        sim.grad(lambda out: out.final.q[0], **START, steps=300, past="store", resume=path)
    (tmp_path / "no.npz").write_text("no")
    with pytest.raises(tp.StoreError, match="not the checkpoint"):
        sim.grad(loss, **START, **MORE, resume=tmp_path / "no.npz")
    with pytest.raises(tp.StoreError, match="there is no file"):
        sim.grad(loss, **START, **MORE, resume=tmp_path / "none.npz")
    with pytest.raises(tp.InputError, match="there is no folder"):
        sim.grad(loss, **START, **MORE, checkpoint=tmp_path / "none" / "g.npz")


def test_snapshots_beyond_the_memory_are_on_disk():
    sim = tp.compile(henon, dt=0.05, method="rk4")
    few = sim.grad(loss, **START, **MORE, past="checkpoint", snapshots=20, memory=32 * 5)
    all_ = sim.grad(loss, **START, **MORE, past="checkpoint", snapshots=20)
    assert few.report.on_disk == 15 * 32 and few.report.bytes <= 5 * 32 and all_.report.on_disk == 0
    assert few.report.forward_steps == all_.report.forward_steps
    assert all(np.array_equal(few[n], all_[n]) for n in few)
    assert "on disk" in str(few.report)
