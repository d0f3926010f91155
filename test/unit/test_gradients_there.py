"""Do gradients on a GPU stay there?  Bits of the processor, and bytes that do not grow with the steps (the fake driver counts)."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.engines.backend import transferred
from tinyphysics.runtime.measure import loss_function
from tinyphysics.runtime.measure.loop_numbers import GPU, HOST
from tinyphysics.target import BUILT

pytestmark = pytest.mark.requirement("S2-40")
MEMBERS = 40


@tp.hamiltonian
def pendulum(q, p, k: float = 1.0):
    return p**2 / 2 - k * tp.cos(q)


@tp.hamiltonian
def chain(q: tp.Vec[20], p: tp.Vec[20], alpha: float = 0.25):
    d = q[1:] - q[:-1]
    return p @ p / 2 + (d**2 / 2 + alpha * d**3 / 3).sum() + q @ q / 2


def both(system, dt=0.05, **options):
    return [tp.compile(system, dt=dt, method="leapfrog", backend=b, **options) for b in ("llvm", "cuda")]


def start(members=MEMBERS):
    return dict(q=np.linspace(-2.0, 2.0, members), p=np.linspace(0.5, 0.0, members))


def moved(run):
    before = transferred(BUILT["cuda"])["bytes_moved"]
    run()
    return transferred(BUILT["cuda"])["bytes_moved"] - before


def curved(out):
    return tp.sin(out.final.q) * out.final.p + tp.exp(out.final.q)


PASTS = {"reverse": {}, "store": {}, "checkpoint": {"snapshots": 4}}


@pytest.mark.parametrize(
    "past, precision",
    [
        ("reverse", "float64"),
        *(
            pytest.param(past, precision, marks=pytest.mark.all)
            for past in PASTS
            for precision in ("float64", "lattice")
            if (past, precision) != ("reverse", "float64")
        ),
    ],
)
def test_states_snapshots_and_cotangents_stay_there(fake_cuda, monkeypatch, past, precision):
    monkeypatch.setattr(loss_function, "MANY", 1)
    sims = both(pendulum, precision=precision)
    how = dict(**start(), past=past, **PASTS[past], wrt=["q", "p"])
    here, there = (sim.value_and_grad(curved, **how, steps=24) for sim in sims)
    assert np.array_equal(here[0], there[0])
    assert all(np.array_equal(here[1][n], there[1][n]) for n in ("q", "p"))
    assert np.array_equal(here[1].horizon.t, there[1].horizon.t)

    def run(steps):
        return lambda: sims[1].value_and_grad(curved, **how, steps=steps)

    short, long = moved(run(24)), moved(run(48))
    one = 8 * MEMBERS
    # two states there; the value and two gradients back; a few words to decide how it goes on, each less than a state
    assert short < 5 * one + 24 * 2 * 300 and long - short < 24 * 2 * 300
    if past == "reverse":
        assert long - short < one


@pytest.mark.all
def test_cotangents_of_frames_join_there(fake_cuda):
    sims = both(pendulum)
    how = dict(**start(), steps=20, save_every=5, observe={"u": lambda q, p, k: k * q * p})

    def loss(out):
        return (out.q**3).sum() + (out["u"] ** 2).sum()

    here, there = (sim.grad(loss, **how, per_member=True) for sim in sims)
    assert all(np.array_equal(here[n], there[n]) for n in ("q", "p", "k"))


@pytest.mark.all
def test_each_member_has_its_parameters_there(fake_cuda):
    sims = both(pendulum)
    how = dict(**start(), k=np.linspace(0.5, 1.5, MEMBERS), steps=30)
    here, there = (sim.grad(lambda out: out.final.q**2, **how) for sim in sims)
    assert all(np.array_equal(here[n], there[n]) for n in ("q", "p", "k"))


@pytest.mark.parametrize("past", ["reverse", pytest.param("checkpoint", marks=pytest.mark.all)])
def test_cotangents_that_outgrow_their_format_are_scaled_there(fake_cuda, past):
    sims = both(pendulum, dt=0.3, precision="float32")
    how = dict(q=[3.1, 0.1, 3.14159], p=[0.0, 0.2, 0.01], steps=120, past=past, **PASTS[past], wrt=["q", "p"])
    here, there = (sim.grad(lambda out: 2.0**30 * out.final.q**2, **how) for sim in sims)
    for name in ("q", "p"):
        assert all(np.array_equal(a, b) for a, b in zip(here.words(name), there.words(name)))


@pytest.mark.all
def test_a_chain_in_loops_stays_there(fake_cuda):
    sims = both(chain)
    how = dict(q=np.sin(np.arange(20.0)), p=np.zeros(20))
    here, there = (sim.grad(lambda out: out.final.q @ out.final.q, **how, steps=12) for sim in sims)
    assert all(np.array_equal(here[n], there[n]) for n in ("q", "p", "alpha"))
    first, second = (
        moved(lambda: sims[1].grad(lambda out: out.final.q @ out.final.q, **how, steps=n)) for n in (12, 24)
    )
    assert second - first < 8 * 20


def test_what_is_computed_there_has_the_bits_of_numpy(fake_cuda):
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32):
        a, b, low, less = (rng.normal(size=(7, 3)).astype(dtype) for _ in range(4))
        a[3, 1] = np.inf
        sizes = HOST.largest([b])
        assert np.array_equal(HOST.largest([a, b]), GPU.largest([a, b]).numpy())
        assert np.array_equal(
            HOST.largest([b], 0.7 * sizes + 0.5), GPU.largest([b], 0.7 * sizes + 0.5).numpy()
        )
        assert HOST.apart([(b, less, sizes)]) == GPU.apart([(b, less, sizes)])
        assert HOST.apart([(b, less, low, a, sizes)]) == GPU.apart([(b, less, low, a, sizes)]) == np.inf
        assert HOST.apart([(b, less, low, b, sizes)]) == GPU.apart([(b, less, low, b, sizes)])
        assert GPU.apart([(b, b, 0 * sizes)]) == 0 and GPU.apart([(b, less, 0 * sizes)]) == np.inf
        for one, two in ((b, low), (b, b * 2.0**-20)):
            found = GPU.two_sum(one, two)
            assert all(np.array_equal(x, y.numpy()) for x, y in zip(HOST.two_sum(one, two), found))
            assert np.array_equal(one + two, GPU.add(one, two).numpy())
        exponent = np.array([0, 1, 30, 127, 149, 1074, 5000])
        assert np.array_equal(HOST.lowered(b, exponent), GPU.lowered(b, exponent).numpy())
    whole = rng.integers(-(2**50), 2**50, (5, 4))
    assert np.array_equal(HOST.largest([whole]), GPU.largest([whole]).numpy())
    now, before = np.array([1.0, 0.0, 8.0, 3.0]), np.array([2.0, 0.0, 2.0, 3.0])
    assert HOST.growth(now, before) == GPU.growth(now, before) == 4.0
    large = np.array([2.0**300, 1.0, np.inf, 1.5 * 2.0**1023])
    for x, y in zip(
        HOST.shifts(large, np.array([1, 2, 3, 4]), 256.0), GPU.shifts(large, np.array([1, 2, 3, 4]), 256.0)
    ):
        assert np.array_equal(x, y.numpy())
    huge = np.array([[2.0**1000], [2.0**1023], [2.0**1000], [2.0**-30]])
    exponent = np.array([1900, 2090, 2075, 1050])
    assert np.array_equal(HOST.lowered(huge, exponent), GPU.lowered(huge, exponent).numpy())
