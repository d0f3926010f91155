"""A system that is driven: its order is that of the method, and what is watched is H + p_t."""

import numpy as np
import pytest
import tinyphysics as tp
from tinyphysics.runtime.stages.execute import execute
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.schedule import Schedule

WORKED = {
    "leapfrog_kdk": 2,
    "leapfrog_dkd": 2,
    "yoshida4": 4,
    "chin4": 4,
    "takahashi_imada4": 4,
    "kahan_li6": 6,
    "rk4": 4,
}
STEPS = (0.1, 0.05)


@tp.hamiltonian
def pushed(q: float, p: float, t: float):
    return p * p / 2 - tp.cos(q) - 0.5 * q * tp.cos(1.3 * t)


@tp.hamiltonian
def pumped(q: float, p: float, t: float):
    return (1 + 0.3 * tp.sin(t)) * p * p / 2 - tp.cos(q) - 0.5 * q * tp.cos(1.3 * t)


def reference(until):
    """q and p at the end, by Taylor series: p' = -sin q + cos(1.3 t)/2."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(25):
        solution = mpmath.odefun(
            lambda t, y: [y[1], -mpmath.sin(y[0]) + mpmath.cos(mpmath.mpf("1.3") * t) / 2], 0, [1, 0]
        )
        return np.array([float(x) for x in solution(until)])


def test_yoshida4_on_a_driven_pendulum_has_the_errors_that_it_must_have():
    true = reference(20)
    for dt, expected in ((0.1, 1.73e-4), (0.05, 1.08e-5), (0.025, 6.8e-7)):
        out = tp.compile(pushed, dt=dt, method="yoshida4").evolve(q=1.0, p=0.0, until=20.0)
        assert np.hypot(*(np.array([out.final.q, out.final.p]) - true)) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("method, order", WORKED.items())
def test_the_extended_energy_is_kept_to_the_order_of_the_method(method, order):
    found = [
        tp.compile(pushed, dt=dt, method=method).evolve(q=1.0, p=0.0, until=20.0).drift("energy")
        for dt in STEPS
    ]
    assert np.log2(found[0] / found[1]) == pytest.approx(order, abs=0.75)
    assert found[1] < 1e-3


@pytest.mark.parametrize("method", ["leapfrog_kdk", "leapfrog_dkd", "yoshida4"])
def test_time_in_both_parts_is_followed_too(method):
    found = [
        tp.compile(pumped, dt=dt, method=method).evolve(q=1.0, p=0.0, until=20.0).drift("energy")
        for dt in STEPS
    ]
    assert np.log2(found[0] / found[1]) == pytest.approx(4 if method == "yoshida4" else 2, abs=0.25)


def test_fast_and_slow_parts_are_followed_too():
    @tp.hamiltonian
    def free(q: float, p: float):
        return p * p / 2

    @tp.potential
    def stiff(q: float):
        return 20 * q * q

    @tp.potential
    def drive(q: float, t: float):
        return -0.5 * q * tp.cos(1.3 * t)

    system = tp.fast(free + stiff) + tp.slow(drive)
    found = [
        tp.compile(system, dt=dt, inner=4).evolve(q=1.0, p=0.0, until=10.0).drift("energy") for dt in STEPS
    ]
    assert np.log2(found[0] / found[1]) == pytest.approx(2, abs=0.5)


def test_the_energy_itself_goes_up_and_down():
    out = tp.compile(pushed, dt=0.05, method="yoshida4").evolve(q=1.0, p=0.0, until=20.0, save_every=1)
    t, values, scale = out.every_step("energy")
    assert np.array_equal(values, out.energy) and np.ptp(values) > 0.5
    extended = out.every_step("extended energy")[1]
    assert np.ptp(extended) < 1e-5 and extended[0] == values[0]
    assert abs(out.drift_rate("energy").slope) < 1e-6
    assert np.abs(extended - extended[0]).max() / scale == out.drift("energy")


def test_to_follow_it_changes_no_bit():
    """The replay that follows p_t has the states of the run: its H is the H of the frames."""
    for precision in ("float64", "float32", "mixed", "compensated", "dd", "lattice"):
        out = tp.compile(pushed, dt=0.05, precision=precision).evolve(q=1.0, p=0.0, steps=64, save_every=1)
        system, run = out.origin.run.system, out.origin.extended()
        again, *_ = execute(
            run, Record(Schedule(64, None, 1, None), {}), {"H": system.energy}, lambda n: None
        )
        assert np.array_equal(again.series("H")[:, 0], out.energy), precision
        assert out.drift("energy") < 2e-3


def test_members_are_followed_one_by_one():
    q = np.linspace(0.1, 2.0, 5)
    sim = tp.compile(pushed, dt=0.05)
    together = sim.evolve(q=q, p=np.zeros(5), steps=100).drift("energy")
    alone = [sim.evolve(q=x, p=0.0, steps=100).drift("energy") for x in q]
    assert together.tolist() == alone


def test_what_cannot_be_followed_is_said():
    @tp.hamiltonian
    def shaken(q: float, p: float, t: float):
        return p * p / 2 + q * q / 2 * (1 + 0.1 * tp.cos(t))

    out = tp.compile(shaken, dt=0.05, scale="auto").evolve(q=1.0, p=0.0, steps=10)
    with pytest.raises(tp.PlanError, match=r"H \+ p_t"):
        out.drift("energy")
    assert len(out.every_step("energy")[1]) == 11
