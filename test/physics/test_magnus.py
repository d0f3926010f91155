"""Linear systems with coefficients that depend on time, by exponentials."""

import math

import numpy as np
import pytest
import tinyphysics as tp
from tinyphysics.physics.zoo import pendulum
from tinyphysics.target import BUILT

ORDERS = {"magnus4": 4, "magnus6": 6}


@tp.hamiltonian
def mathieu(q: float, p: float, t: float, a: float = 1.0, e: float = 0.3):
    return p * p / 2 + (a + 2 * e * tp.cos(2 * t)) * q * q / 2


@tp.hamiltonian
def everything(q: float, p: float, t: float):
    """All that an energy of degree 2 may have, each with a time of its own."""
    return (
        (1 + 0.2 * tp.sin(t)) * p * p / 2
        + 0.3 * tp.cos(t) * q * p
        + (1 + 0.6 * tp.cos(2 * t)) * q * q / 2
        - 0.4 * q * tp.sin(1.5 * t)
        + 0.1 * p * tp.cos(t)
    )


@tp.hamiltonian
def two(q: tp.Vec[2], p: tp.Vec[2], t: float):
    coupled = 0.3 * tp.cos(t) * q[0] * q[1] + 0.2 * tp.sin(2 * t) * (q[0] * p[1] - q[1] * p[0])
    return p @ p / 2 + q @ q / 2 + coupled - q[0] * tp.cos(0.7 * t)


RATES = {
    mathieu: lambda m, t, y: [y[1], -(1 + m.mpf("0.6") * m.cos(2 * t)) * y[0]],
    everything: lambda m, t, y: [
        (1 + m.mpf("0.2") * m.sin(t)) * y[1] + m.mpf("0.3") * m.cos(t) * y[0] + m.mpf("0.1") * m.cos(t),
        -m.mpf("0.3") * m.cos(t) * y[1]
        - (1 + m.mpf("0.6") * m.cos(2 * t)) * y[0]
        + m.mpf("0.4") * m.sin(m.mpf("1.5") * t),
    ],
    two: lambda m, t, y: [
        y[2] - m.mpf("0.2") * m.sin(2 * t) * y[1],
        y[3] + m.mpf("0.2") * m.sin(2 * t) * y[0],
        -y[0] - m.mpf("0.3") * m.cos(t) * y[1] - m.mpf("0.2") * m.sin(2 * t) * y[3] + m.cos(m.mpf("0.7") * t),
        -y[1] - m.mpf("0.3") * m.cos(t) * y[0] + m.mpf("0.2") * m.sin(2 * t) * y[2],
    ],
}
STARTS = {mathieu: [1.0, 0.0], everything: [1.0, 0.25], two: [1.0, 0.25, 0.125, -0.25]}
TRUE = {}


def true(system):
    mpmath = pytest.importorskip("mpmath")
    if system not in TRUE:
        with mpmath.workdps(16):
            f = mpmath.odefun(lambda t, y: RATES[system](mpmath, t, y), 0, STARTS[system])
            TRUE[system] = np.array([float(x) for x in f(3)])
    return TRUE[system]


def given(system):
    z = STARTS[system]
    half = len(z) // 2
    return dict(q=z[:half], p=z[half:]) if half > 1 else dict(q=z[0], p=z[1])


@pytest.mark.requirement("S2-46")
@pytest.mark.parametrize("system", RATES, ids=lambda s: s.name)
@pytest.mark.parametrize("method, order", ORDERS.items())
def test_the_order_is_that_of_the_method(system, method, order):
    errors = []
    for n in (12, 24):
        out = tp.compile(system, dt=3 / n, method=method).evolve(**given(system), steps=n)
        errors.append(np.abs(np.append(out.final.q, out.final.p) - true(system)).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.15)
    assert errors[1] < 1e-4


@pytest.mark.parametrize("method", ORDERS)
def test_one_degree_of_freedom_is_shown_to_be_symplectic(method):
    for system in (mathieu, everything):
        c = tp.compile(system, dt=0.1, method=method).certificate
        assert c.symplectic and c.volume_preserving and not c.consistent
    assert not tp.compile(two, dt=0.1, method=method).certificate.symplectic


@pytest.mark.parametrize("method", ORDERS)
def test_more_are_symplectic_too_though_it_is_not_shown(method):
    """The matrix of a step, from runs of its columns."""
    sim = tp.compile(two, dt=0.3, method=method)
    z = np.vstack([np.zeros(4), np.eye(4)])
    out = sim.evolve(q=z[:, :2], p=z[:, 2:], steps=1, t0=0.2)
    new = np.hstack([out.final.q, out.final.p])
    M = (new[1:] - new[0]).T
    J = np.kron([[0, 1], [-1, 0]], np.eye(2))
    assert np.abs(M.T @ J @ M - J).max() < 1e-15 * 8


@pytest.mark.parametrize("method", ORDERS)
def test_without_time_it_is_the_flow_itself(method):
    @tp.hamiltonian
    def still(q: float, p: float, w: float = 1.0):
        return p * p / 2 + w * w * q * q / 2

    @tp.hamiltonian
    def hill(q: float, p: float):
        return p * p / 2 - q * q / 2

    out = tp.compile(still, dt=2.5, method=method).evolve(q=1.0, p=0.0, steps=400)
    assert out.final.q == pytest.approx(math.cos(1000), abs=1e-12) and out.drift("energy") < 1e-13
    out = tp.compile(hill, dt=2.5, method=method).evolve(q=1.0, p=0.0, steps=4)
    assert out.final.q == pytest.approx(math.cosh(10), rel=1e-14)


@pytest.mark.parametrize("backend", BUILT)
@pytest.mark.parametrize("system", [mathieu, two], ids=lambda s: s.name)
def test_every_backend_has_the_same_bits(backend, system):
    try:
        other = tp.compile(system, dt=0.25, method="magnus6", backend=backend)
    except tp.BackendError as error:
        pytest.skip(error.what)
    if BUILT[backend].bit_exact:
        assert (
            other.evolve(**given(system), steps=9).hash
            == tp.compile(system, dt=0.25, method="magnus6").evolve(**given(system), steps=9).hash
        )


@pytest.mark.requirement("S2-46")
def test_the_bound_is_checked_and_reported():
    sim = tp.compile(mathieu, dt=0.1, method="magnus4")
    out = sim.evolve(q=1.0, p=0.0, steps=100)
    assert 0.1 < out.metrics["magnus"]["norm"] < 0.2 and out.metrics["magnus"]["looked_at"] == "every step"
    with pytest.raises(tp.PlanError, match=r"does not converge.* 3\.3.*below pi"):
        sim.evolve(q=1.0, p=0.0, steps=100, a=1100.0)
    with pytest.raises(tp.PlanError, match="of member 2"):
        sim.evolve(q=1.0, p=0.0, steps=100, a=np.array([1.0, 2.0, 2000.0]))
    many = sim.evolve(q=1.0, p=0.0, steps=100_000).metrics["magnus"]
    assert "of 100,000 steps" in many["looked_at"]


def test_each_step_is_judged_by_itself():
    """With omega growing as sqrt(t), omega*dt is 2.53 at most: a run is taken where its halves are."""

    @tp.hamiltonian
    def stiffening(q: float, p: float, t: float):
        return p * p / 2 + t * q * q / 2

    sim, n = tp.compile(stiffening, dt=0.08, method="magnus4"), 12_500
    whole = sim.evolve(q=1.0, p=0.0, steps=n)
    norm = whole.metrics["magnus"]["norm"]
    assert norm == pytest.approx(0.08 * math.sqrt(0.08 * n), rel=1e-3) and norm < math.pi
    half = sim.evolve(q=1.0, p=0.0, steps=n // 2)
    rest = sim.evolve(q=half.final.q, p=half.final.p, t0=0.04 * n, steps=n // 2)
    assert max(h.metrics["magnus"]["norm"] for h in (half, rest)) == norm
    with pytest.raises(tp.PlanError, match="at t = 1599"):  # the last step is always looked at
        sim.evolve(q=1.0, p=0.0, steps=20_000)


def test_the_bound_knows_no_units():
    @tp.hamiltonian
    def ion(q: float, p: float, t: float, m: float = 1e-26, k: float = 1e-2):
        return p * p / (2 * m) + k * (1 + 0.1 * tp.sin(1e12 * t)) * q * q / 2

    out = tp.compile(ion, dt=1e-12, method="magnus4").evolve(q=1e-10, p=0.0, steps=10)
    assert out.metrics["magnus"]["norm"] == pytest.approx(1.0, abs=0.1)


def test_ensembles_and_other_precisions():
    a = np.linspace(0.5, 2.0, 7)
    sim = tp.compile(mathieu, dt=0.1, method="magnus6")
    out = sim.evolve(q=np.ones(7), p=np.zeros(7), a=a, steps=50)
    assert [sim.evolve(q=1.0, p=0.0, a=x, steps=50).final.q for x in a] == out.final.q.tolist()
    for precision in ("float32", "compensated", "mixed", "lattice"):
        short = tp.compile(mathieu, dt=0.1, method="magnus6", precision=precision).evolve(
            q=1.0, p=0.0, steps=50
        )
        assert short.final.q == pytest.approx(sim.evolve(q=1.0, p=0.0, steps=50).final.q, abs=1e-5)


def test_a_goal_of_accuracy_is_met_and_one_of_energy_refused():
    start = dict(q=1.0, p=0.0)
    sim = tp.compile(mathieu, method="magnus6", error=1e-6, pilot=dict(**start, until=5.0))
    out = sim.evolve(**start, until=5.0)
    assert out.metrics["goals"]["met"] and out.metrics["goals"]["error"]["measured"] < 1e-6
    with pytest.raises(tp.PlanError, match=r"H \+ p_t"):
        tp.compile(mathieu, method="magnus6", energy_drift=1e-6, pilot=dict(**start, until=5.0))


def test_what_is_not_linear_is_refused():
    with pytest.raises(tp.PlanError, match="not shown to be of degree 2"):
        tp.compile(pendulum, dt=0.1, method="magnus4")
    with pytest.raises(tp.PlanError, match="accurate to float64"):
        tp.compile(mathieu, dt=0.1, method="magnus4", precision="dd")

    @tp.hamiltonian
    def chain(q: tp.Vec[8], p: tp.Vec[8], t: float):
        return p @ p / 2 + tp.cos(t) * (q @ q)

    with pytest.raises(tp.PlanError, match="too large to write out"):
        tp.compile(chain, dt=0.1, method="magnus4")
    with pytest.raises(tp.PlanError, match=r"H \+ p_t"):
        tp.compile(mathieu, dt=0.1, method="magnus4").evolve(q=1.0, p=0.0, steps=3).drift("energy")
