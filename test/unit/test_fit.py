"""Does tp.fit find what made the data, with the right errors?  Reference numbers, noise draws, what data do not determine."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import tinyphysics as tp

pytestmark = pytest.mark.requirement("S2-40")
START = dict(q=[1.0, 0.0], p=[0.0, 1.2], mu=1.0)
ERRORS = [2.187e-4, 8.494e-4, 6.812e-4, 1.729e-4, 3.741e-4]  # of q, p, mu, from an independent computation
TIMES = np.arange(1.0, 21.0)
NEAR = dict(q=[1.01, 0.01], p=[0.01, 1.19], mu=1.02)


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def spring(q, p, m: float = 2.0, k: float = 1.0):
    return p**2 / (2 * m) + k * q**2 / 2


def flat(values):
    return np.concatenate([np.ravel(values[name]) for name in ("q", "p", "mu")])


def seen(sim, times=TIMES, **start):
    return sim.evolve(**{**START, **start}, until=float(times[-1]), save_at=times).q


def test_an_orbit_comes_back_with_the_errors_of_its_jacobian():
    sim = tp.compile(kepler, dt=0.01)
    found = tp.fit(sim, data={"q": seen(sim)}, t=TIMES, sigma=1e-3, wrt=["q", "p", "mu"], start=NEAR)
    assert np.allclose(flat(found.values), [1.0, 0.0, 0.0, 1.2, 1.0], rtol=0, atol=1e-10)
    assert np.allclose(flat(found.errors), ERRORS, rtol=0.01, atol=0)
    assert found.chi2 < 1e-12 and found.dof == 35 and found.report.by == "jvp" and found.report.converged
    assert found.names == ("q[0]", "q[1]", "p[0]", "p[1]", "mu") and "mu = 1 +- 0.00037" in str(found)


@pytest.mark.all
def test_noise_spreads_fits_by_their_covariance():
    """The mean of 200 values of chi2 with 5 degrees of freedom is 5 +- 0.22."""
    sim = tp.compile(kepler, dt=0.01)
    y, rng, truth = seen(sim), np.random.default_rng(5), flat(START)
    apart, left = [], []
    for _ in range(200):
        noisy = y + 1e-3 * rng.normal(size=y.shape)
        found = tp.fit(sim, data={"q": noisy}, t=TIMES, sigma=1e-3, start=NEAR)
        d = flat(found.values) - truth
        apart.append(d @ np.linalg.solve(found.covariance, d))
        left.append(found.chi2)
    assert abs(np.mean(apart) - 5) < 0.7 and abs(np.mean(left) - 35) < 2


def test_without_sigma_errors_are_scaled_by_what_is_left_over():
    sim = tp.compile(kepler, dt=0.01)
    y = seen(sim) + 1e-3 * np.random.default_rng(1).normal(size=(20, 2))
    one = tp.fit(sim, data={"q": y}, t=TIMES, start=NEAR)
    two = tp.fit(sim, data={"q": y}, t=TIMES, sigma=1e-3, start=NEAR)
    assert np.allclose(flat(one.values), flat(two.values), rtol=0, atol=1e-8)
    assert one.chi2 == pytest.approx(1e-6 * two.chi2)
    assert np.allclose(flat(one.errors), flat(two.errors) * np.sqrt(two.chi2 / two.dof), rtol=1e-6)


@pytest.mark.parametrize("precision", ["float64", "lattice"])
def test_cotangents_are_taken_where_they_are_cheaper_or_the_only_way(precision):
    sim = tp.compile(kepler, dt=0.01, method="leapfrog", precision=precision)
    t = [3.0] if precision == "float64" else TIMES[:6]
    wrt = ["q", "p", "mu"] if precision == "float64" else ["mu"]
    y = seen(sim, np.array(t))
    given = dict(data={"q": y}, t=t, sigma=1e-3, wrt=wrt, start={**START, "mu": 1.02})
    found = tp.fit(sim, **given)
    assert found.report.by == "vjp"
    if precision == "lattice":
        assert found.values["mu"] == pytest.approx(1.0, abs=1e-8)
        other = tp.fit(tp.compile(kepler, dt=0.01, method="leapfrog"), **given)
        assert other.report.by == "jvp" and found.errors["mu"] == pytest.approx(other.errors["mu"], rel=1e-6)
    else:
        assert found.dof == 0 and len(found.report.undetermined) == 3


def test_what_the_data_do_not_determine_is_named_and_has_no_error_bar():
    """q(t) of a spring depends on k/m and p/m alone: m, k and p may grow together."""
    sim = tp.compile(spring, dt=0.01, propagator="loop")
    t = np.arange(1.0, 11.0)
    y = sim.evolve(q=1.0, p=0.5, until=10.0, save_at=t).q
    found = tp.fit(sim, data={"q": y}, t=t, sigma=1e-3, start=dict(q=1.0, p=0.5, m=2.0, k=1.0))
    (way,) = found.report.undetermined
    assert way.parts == pytest.approx({"p": 0.25, "m": 1.0, "k": 0.5}, rel=1e-6)
    assert np.isnan([found.errors[n] for n in ("p", "m", "k")]).all() and 0 < found.errors["q"] < 1e-3
    assert found.dof == 7 and "do not determine" in str(found)
    fixed = tp.fit(sim, data={"q": y}, t=t, sigma=1e-3, wrt=["q", "p", "k"], start=dict(q=1.0, p=0.5, k=1.1))
    assert fixed.values["k"] == pytest.approx(1.0) and not fixed.report.undetermined
    assert found.errors["q"] == pytest.approx(fixed.errors["q"], rel=1e-6)


def test_values_are_left_out_repeated_and_taken_in_any_order():
    sim = tp.compile(kepler, dt=0.01)
    y, sigma = seen(sim), np.full((20, 2), 1e-3)
    want = tp.fit(sim, data={"q": y}, t=TIMES, sigma=np.sqrt(0.5) * sigma, start=NEAR)
    order = np.random.default_rng(2).permutation(np.r_[np.arange(20), np.arange(20)])
    twice = tp.fit(sim, data={"q": y[order]}, t=TIMES[order], sigma=1e-3, start=NEAR)
    assert np.allclose(twice.covariance, want.covariance, rtol=1e-6) and twice.dof == 75
    y, sigma = np.r_[y, [[np.nan, np.nan]]], np.r_[sigma, [[np.inf, np.inf]]]
    some = tp.fit(sim, data={"q": y}, t=[*TIMES, 4.0], sigma={"q": sigma}, start=NEAR)
    assert np.allclose(flat(some.errors), ERRORS, rtol=0.01) and some.dof == 35


def test_bounds_hold_and_an_outlier_counts_less():
    sim = tp.compile(kepler, dt=0.01)
    y = seen(sim)
    given = dict(t=TIMES, sigma=1e-3, wrt=["p", "mu"], start=NEAR | {"q": START["q"]})
    held = tp.fit(sim, data={"q": y}, **given, bounds={"mu": (1.01, 1.5)})
    assert held.values["mu"] == pytest.approx(1.01) and held.report.at_bounds == ("mu",)
    assert np.isnan(held.errors["mu"]) and np.isfinite(held.errors["p"]).all()
    y = y + 0.5 * ((np.arange(20) == 7)[:, None] & (np.arange(2) == 1))
    plain, robust = (tp.fit(sim, data={"q": y}, **given, loss=loss) for loss in ("linear", "soft_l1"))
    off = [abs(f.values["mu"] - 1) for f in (plain, robust)]
    assert off[1] < 3e-4 < 3e-3 < off[0]


# fmt: off
WRONG = {
    "between steps":    (dict(t=[0.005, 2.0]),                  r"t\[0\]=0.005 lies between two steps"),
    "before":           (dict(t=[-1.0, 2.0]),                   "before the run begins"),
    "no times":         (dict(t=[]),                            "not a list of times"),
    "shape":            (dict(data={"q": np.ones((3, 2))}),     r"shape \(3, 2\).*\(2, 2\)"),
    "no state":         (dict(data={"r": np.ones((2, 2))}),     "no state"),
    "no dict":          (dict(data=np.ones((2, 2))),            "not a dict"),
    "not finite":       (dict(data={"q": np.full((2, 2), np.nan)}), "np.inf at values that are missing"),
    "unknown wrt":      (dict(wrt=["nu"]),                      "wrt names 'nu'"),
    "the step":         (dict(wrt=["dt"]),                      "dt"),
    "sigma":            (dict(sigma=0.0),                       "not above zero"),
    "sigma of shape":   (dict(sigma=np.ones(7)),                "sigma has shape"),
    "sigma without":    (dict(sigma={"p": 1.0}),                "sigma has no `q`"),
    "nothing counts":   (dict(sigma=np.inf),                    "no value of the data counts"),
    "bounds":           (dict(bounds={"mu": (2.0, 3.0)}),       "starts at 1, and its bounds"),
    "bounds of others": (dict(bounds={"nu": (2.0, 3.0)}),       "not fitted"),
    "no pair":          (dict(bounds={"mu": 2.0}),              r"not \(least, most\)"),
    "loss":             (dict(loss="cubic"),                    "loss may be"),
    "robust, no sigma": (dict(loss="huber", sigma=None),        "needs sigma="),
    "members":          (dict(start=dict(q=np.ones((3, 2)), p=np.ones((3, 2)))), "one run"),
    "no start":         (dict(start={}),                        "start="),
}
# fmt: on


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_says_what_to_write(name):
    more, said = WRONG[name]
    given = dict(data={"q": np.ones((2, 2))}, t=[1.0, 2.0], sigma=1e-3, start=START) | more
    with pytest.raises(tp.TinyPhysicsError, match=f"(?s){said}"):
        tp.fit(tp.compile(kepler, dt=0.01), **given)


def test_without_scipy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(tp.BackendError, match=r"tinyphysics\[fit\]"):
        tp.fit(tp.compile(kepler, dt=0.01), {"q": np.ones((1, 2))}, t=[1.0], start=START)


@pytest.mark.parametrize("options", [{}, {"dt": 0.1}])
def test_a_method_with_its_own_steps_is_refused_as_such(options):
    sim = tp.compile(kepler, method="taylor", **options)
    with pytest.raises(tp.PlanError, match="a method that chooses its own steps"):
        tp.fit(sim, data={"q": np.ones((1, 2))}, t=[1.0], wrt=["mu"], start=dict(q=[1.0, 0.0], p=[0.0, 1.2]))


def test_what_a_fit_or_a_loss_is_not():
    sim, start = tp.compile(kepler, dt=0.1), dict(q=[1.0, 0.0], p=[0.0, 1.2])
    with pytest.raises(tp.InputError, match="wrt names nothing"):
        tp.fit(sim, data={"q": np.ones((1, 2))}, t=[1.0], wrt=[], start=start)
    with pytest.raises(tp.InputError, match="takes one argument, the run"):
        sim.grad(lambda q, p: q @ q, **start, steps=2)
    with pytest.raises(tp.InputError, match="reads frames, and this run keeps none"):
        sim.grad(lambda out: out.q, **start, steps=2)


def test_a_fit_of_a_run_with_noise_has_its_derivatives():
    """All unknowns are moved in the run that is compared, with its random numbers."""

    @tp.hamiltonian
    def well(q, p, k: float = 1.0):
        return p**2 / 2 + k * q**2 / 2 + q**4 / 10

    sim, start = tp.compile(well, dt=0.05, temperature=0.05, friction=0.5), dict(q=0.5, p=0.1)
    t = np.arange(1, 9) / 2
    y = np.array([sim.evolve(**start, k=1.3, until=x, frames=2).final.q for x in t])
    found = tp.fit(sim, data={"q": y}, t=t, wrt=["k", "q"], start={**start, "k": 1.0})
    assert found.values["k"] == pytest.approx(1.3, rel=1e-9) and found.values["q"] == pytest.approx(
        0.5, rel=1e-9
    )
