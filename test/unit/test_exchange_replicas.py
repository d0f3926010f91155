"""Replica exchange: acceptance in closed form, laws at every temperature, and the same bits in pieces and everywhere."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp


@tp.hamiltonian
def springs(q: tp.Vec[10], p: tp.Vec[10]):
    return (p @ p + q @ q) / 2


@tp.hamiltonian
def double_well(q, p):
    return p**2 / 2 + 5 * (q**2 - 1) ** 2


LADDER = np.array([1.0, 1.7, 3.0, 5.0])
START = dict(q=np.ones(4), p=np.zeros(4), temperature=LADDER, exchange=10, seed=3)


def compiled(backend="llvm", **how):
    return tp.compile(double_well, dt=0.05, temperature=1.0, backend=backend, **how)


def acceptance_of(d, R):
    from scipy.special import betainc

    return 2 * betainc(d / 2, d / 2, 1 / (1 + R))


def test_two_replicas_of_springs_exchange_as_often_as_they_must():
    assert acceptance_of(10, 1.5) == pytest.approx(0.53314, abs=1e-5)
    check_springs(30_000, 0.06)


def test_exp_of_a_few_numbers_has_the_bits_of_many():
    from tinyphysics.runtime.state.host_exp import FEW, exp

    x = np.r_[-np.random.default_rng(0).exponential(40.0, 500), -708.0, -708.1, -800.0, 0.0, -0.0, 3.5]
    few = np.concatenate([exp(part) for part in np.array_split(x, len(x) // FEW + 1)])
    assert np.array_equal(few, exp(x)) and exp(-1.0) == exp(x * 0 - 1.0)[0]
    assert exp(x[x > -700]) == pytest.approx(np.exp(x[x > -700]), rel=1e-15)


@pytest.mark.all("four million steps: 0.005")
@pytest.mark.requirement("S2-23")
def test_the_row_of_the_table():
    check_springs(4_000_000, 0.005)


def check_springs(steps, tolerance):
    z = np.zeros((2, 10))
    sim = tp.compile(springs, dt=0.2, temperature=1.0)
    out = sim.evolve(q=z, p=z, temperature=[1.0, 1.5], exchange=25, steps=steps, save_every=25, seed=1)
    assert out.exchange.acceptance[0] == pytest.approx(0.53314, abs=tolerance)
    for T in (1.0, 1.5):
        q2 = (out.at(temperature=T).q[20:] ** 2).mean()
        assert q2 == pytest.approx(T, rel=0.05)


@pytest.mark.all("a cold replica to 2 %")
@pytest.mark.requirement("S2-23")
def test_a_cold_replica_of_a_double_well_has_boltzmanns_populations():
    """V tilted: the left well holds a share that is known; alone, the cold replica would stay where it began."""

    @tp.hamiltonian
    def tilted(q, p):
        return p**2 / 2 + 10 * (q**2 - 1) ** 2 + 0.5 * q

    T = np.geomspace(1.0, 10.0, 6)
    out = tp.compile(tilted, dt=0.05, temperature=1.0).evolve(
        q=np.ones(6), p=np.zeros(6), temperature=T, exchange=20, steps=2_000_000, save_every=20, seed=2
    )
    x = np.linspace(-2, 2, 4001)
    w = np.exp(-(10 * (x**2 - 1) ** 2 + 0.5 * x))
    left = (out.at(temperature=1.0).q < 0).mean()
    assert left == pytest.approx(w[x < 0].sum() / w.sum(), abs=0.02)
    assert out.exchange.round_trips.sum() > 100


@pytest.mark.parametrize("backend", ["python", pytest.param("c", marks=pytest.mark.all), "numpy"])
def test_replicas_have_the_same_bits_on_every_backend(backend):
    one, two = (compiled(b).evolve(**START, steps=120) for b in ("llvm", backend))
    assert one.hash == two.hash and np.array_equal(one.exchange.walker, two.exchange.walker)
    assert one.exchange.accepted.sum() > 3


def test_a_run_in_two_pieces_has_the_bits_of_the_whole(tmp_path):
    sim = compiled()
    whole = sim.evolve(**START, steps=300, observe={"q2": lambda q: q**2})
    part = sim.evolve(**START, steps=130, observe={"q2": lambda q: q**2}, checkpoint=tmp_path / "c")
    for resumed in (sim.evolve(resume=part, steps=170), sim.evolve(resume=tmp_path / "c", steps=170)):
        assert resumed.hash == whole.hash
        assert np.array_equal(resumed.exchange.attempts, whole.exchange.attempts)
        assert np.array_equal(resumed.exchange.walker, whole.exchange.walker[13:])
        assert np.array_equal(resumed.at(temperature=1.0).q[-1], whole.at(temperature=1.0).q[-1])
    assert sim.rewind(whole, 170).hash == part.hash


@pytest.mark.parametrize("precision", ["float32", "mixed", "compensated", "dd"])
def test_replicas_exchange_in_every_precision(precision):
    sim = compiled(precision=precision)
    out = sim.evolve(**START, steps=100)
    assert not out.stops and out.exchange.accepted.sum() > 2
    part = sim.evolve(**START, steps=50)
    assert sim.evolve(resume=part, steps=50).hash == out.hash


def test_frames_and_observables_change_no_bit_and_show_the_state_after_the_exchange():
    sim = compiled()
    plain = sim.evolve(**START, steps=200)
    seen = sim.evolve(**START, steps=200, save_every=5, observe={"p1": lambda p: p}, observe_every=5)
    assert plain.hash == seen.hash and np.array_equal(seen["p1"], seen.p)


def test_the_books_hold_what_comes_with_a_temperature():
    out = compiled().evolve(**START, steps=400)
    change = out.energy[-1] - out.energy[0]
    assert np.allclose(change, out.heat[-1] + out.shadow_work[-1], atol=1e-12)
    assert np.abs(out.shadow_work).max() < 0.8  # the swaps are in the heat: momenta of 5 to 1 are more


def test_a_parameter_is_exchanged_with_all_four_energies():
    @tp.hamiltonian
    def spring(q, p, k=1.0):
        return p**2 / 2 + k * q**2 / 2

    n = 3
    k = np.array([0.5, 1.0, 4.0])
    sim = tp.compile(spring, dt=0.2, temperature=1.0)
    out = sim.evolve(
        q=np.zeros(n), p=np.zeros(n), k=k, exchange=tp.exchange("k", every=10), steps=20_000, save_every=10
    )
    for x in k:
        assert (out.at(k=x).q ** 2).mean() == pytest.approx(1 / x, rel=0.15)
    assert (out.exchange.acceptance > 0.5).all() and out.exchange.round_trips.sum() > 8


def test_a_ladder_of_springs_has_the_ratio_of_its_acceptance():
    sim = tp.compile(springs, dt=0.2, temperature=1.0)
    T = tp.ladder(sim, 1.0, 10.0, acceptance=0.3, q=np.zeros(10), p=np.zeros(10), steps=6000)
    assert T[0] == 1.0 and T[-1] == pytest.approx(10.0)
    ratios = T[1:] / T[:-1]
    assert all(0.2 < acceptance_of(10, R) < 0.6 for R in ratios)


@pytest.mark.parametrize(
    "wrong, said",
    [
        (dict(temperature=1.0), "one value"),
        (dict(exchange=0), "exchange=0"),
        (dict(exchange="often"), "not a number of steps"),
        (dict(exchange=tp.exchange("mu", every=5)), "no parameter"),
        (dict(temperature=[1.0, 0.0, 2.0, 3.0]), "temperature"),
    ],
)
def test_wrong_exchanges_are_refused(wrong, said):
    with pytest.raises(tp.TinyPhysicsError, match=said):
        compiled().evolve(**(START | wrong), steps=20)
    with pytest.raises(tp.TinyPhysicsError, match="no bath"):
        tp.compile(double_well, dt=0.05).evolve(q=np.ones(2), p=np.ones(2), exchange=5, steps=20)


@tp.hamiltonian
def sprung(q, p, k=1.0):
    return p**2 / 2 + k * q**2 / 2


def test_energies_of_frames_are_those_of_the_values_of_their_time():
    """An energy computed with the first values of an exchanged parameter would be another replica's."""
    sim = tp.compile(sprung, dt=0.1, temperature=1.0)
    out = sim.evolve(
        q=np.ones(2), p=np.zeros(2), k=[1.0, 4.0], exchange=tp.exchange("k", every=10), steps=200, save_every=10,
        observe={"H": lambda q, p, k: p**2 / 2 + k * q**2 / 2}, observe_every=10,
    )  # fmt: skip
    assert out.exchange.accepted[0] > 3
    assert np.array_equal(out.energy, out["H"])
    assert np.abs(out.shadow_work).max() < 0.2
    again = sim.evolve(**out.final, steps=0)
    assert np.array_equal(again.energy[0], out.energy[-1])


@tp.hamiltonian
def scaled(q, p, T: float = 2.0):
    return p**2 / 2 + T * q**2 / 2


@tp.hamiltonian
def plain_spring(q, p, a: float = 1.0):
    return p**2 / 2 + q**2 / 2


def test_an_energy_that_depends_on_the_temperature_is_exchanged_with_all_four():
    """U/T is the same at every temperature: all are accepted, and q has the same law at all."""
    sim = tp.compile(scaled, 0.1, temperature="T")
    out = sim.evolve(
        q=np.zeros(2), p=np.zeros(2), T=[1.0, 4.0], exchange=10, steps=20_000, save_every=10, seed=1
    )
    assert out.exchange.acceptance[0] == 1.0
    for T in (1.0, 4.0):
        assert (out.at(T=T).q ** 2).mean() == pytest.approx(1.0, abs=0.15)
    gap = out.energy - out.energy[0] - out.heat - out.shadow_work
    assert np.abs(gap).max() < 1e-10 and np.abs(out.shadow_work).max() < 4.0
    assert np.abs(np.diff(out.heat, axis=0)).sum() > 1000.0


def test_a_temperature_that_is_a_function_of_what_is_exchanged():
    sim = tp.compile(plain_spring, 0.1, temperature=lambda t, a: a**2)
    out = sim.evolve(
        q=np.zeros(2), p=np.zeros(2), a=[1.0, 1.8], exchange=tp.exchange("a", every=10), steps=30_000,
        save_every=10, seed=1,
    )  # fmt: skip
    assert out.exchange.acceptance[0] == pytest.approx(acceptance_of(1, 1.8**2), abs=0.06)
    for a in (1.0, 1.8):
        assert (out.at(a=a).p ** 2).mean() / a**2 == pytest.approx(1.0, abs=0.12)


@tp.hamiltonian
def heavy(q, p, T: float = 2.0):
    return p**2 / (2 * T) + q**2 / 2


def test_a_kinetic_energy_that_depends_on_the_temperature_is_refused():
    sim = tp.compile(heavy, 0.1, temperature="T")
    with pytest.raises(tp.PlanError, match="in the kinetic energy"):
        sim.evolve(q=np.zeros(2), p=np.zeros(2), T=[1.0, 4.0], exchange=10, steps=20)
