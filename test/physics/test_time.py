"""Steps in another time, judged by when a body is where it should be, not by its energy."""

import numpy as np
import pytest
import tinyphysics as tp
from tinyphysics.physics.particles import gravity
from tinyphysics.physics.zoo import kepler

ECCENTRICITY = 0.99
PERICENTRE = dict(q=[1 - ECCENTRICITY, 0.0], p=[0.0, ((1 + ECCENTRICITY) / (1 - ECCENTRICITY)) ** 0.5])
YEAR = 2 * np.pi  # of an orbit with a = 1
TRIANGLE = dict(
    m=[3.0, 4.0, 5.0], q=[[1.0, 3.0, 0.0], [-2.0, -1.0, 0.0], [1.0, -1.0, 0.0]], p=np.zeros((3, 3))
)


@tp.hamiltonian
def pulled(q: tp.Vec[2], p: tp.Vec[2], t: float, a: float = 0.02):
    """A planet of a star whose mass goes up and down."""
    return p @ p / 2 - (1 + a * tp.sin(t)) / tp.norm(q)


def late(out, steps_a_year):
    """By how much of a period each pericentre of a run comes too late: from states near one, by Kepler's equation."""
    r = np.hypot(*out.q.T)
    E = np.arctan2((out.q * out.p).sum(axis=1), 1 - r)
    near = r < 0.05
    passed = out.t[near] - (E - ECCENTRICITY * np.sin(E))[near]
    orbit = np.round(out.steps[near] / steps_a_year)
    return orbit, passed / YEAR - orbit


@pytest.mark.requirement("S2-12")
def test_a_thousand_orbits_of_eccentricity_099_pass_their_pericentres_in_time():
    """32 steps an orbit; the period is wrong by less than 1e-12, and the energy keeps all its digits but three."""
    sim = tp.compile(kepler, dt=YEAR / 32, time="logarithmic", order=8)
    assert sim.certificate.symplectic and sim.certificate.symmetric and sim.built.plan.method == "kahan_li8"
    out = sim.evolve(**PERICENTRE, steps=32_000, save_every=1)
    orbit, off = late(out, 32)
    assert orbit.max() == 1000 and len(set(orbit)) == 1001
    assert np.abs(off).max() < 2e-9
    assert np.abs(off[orbit == 1]).max() < 2e-12
    assert out.drift("energy") < 1e-12


@pytest.mark.parametrize("order, steps", [(2, (64, 128)), (4, (32, 64)), (6, (32, 64))])
def test_the_error_of_a_period_falls_with_the_order_while_the_energy_has_none(order, steps):
    """The trap: the energy is right to rounding, whatever the period is."""
    errors = []
    for n in steps:
        out = tp.compile(kepler, dt=YEAR / n, time="logarithmic", order=order).evolve(
            **PERICENTRE, steps=10 * n, save_every=1
        )
        assert out.drift("energy") < 1e-13
        errors.append(np.abs(late(out, n)[1]).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.15)


def test_leapfrogs_that_begin_with_a_kick_leave_the_orbit():
    out = tp.compile(kepler, dt=YEAR / 64, time="logarithmic", method="leapfrog_kdk").evolve(
        **PERICENTRE, steps=640
    )
    assert out.drift("energy") > 1e-3


def test_three_bodies_that_meet_come_out_as_they_must():
    """The Pythagorean problem: two come to within 4e-4 of each other at t = 15.83."""
    sim = tp.compile(gravity, dt=0.02, time="logarithmic", sizes={"n": 3}, order=8)
    finer = tp.compile(gravity, dt=0.01, time="logarithmic", sizes={"n": 3}, order=6)
    out, true = (s.evolve(**TRIANGLE, until=20.0) for s in (sim, finer))
    assert out.t[-1] == true.t[-1] == 20.0
    assert np.abs(out.final.q - true.final.q).max() < 1e-10
    assert out.drift("energy") < 1e-11
    scipy = pytest.importorskip("scipy.integrate")

    def rates(t, y):
        x, m = y[:9].reshape(3, 3), np.array(TRIANGLE["m"])
        d = x[None] - x[:, None]
        r = np.sqrt((d**2).sum(-1)) + np.eye(3)
        return np.concatenate([y[9:], (m[None, :, None] * d / r[..., None] ** 3).sum(axis=1).ravel()])

    start = np.concatenate([np.ravel(TRIANGLE["q"]), np.zeros(9)])
    other = scipy.solve_ivp(rates, (0, 20), start, rtol=1e-13, atol=1e-13, method="DOP853").y[:9, -1]
    assert np.abs(out.final.q.ravel() - other).max() < 1e-6  # what is left is the other's


def test_explicit_time_is_that_of_the_state():
    """V may depend on t: then p_t moves, H + p_t is kept, and the end is that of a run in t itself."""
    start = dict(q=[0.5, 0.0], p=[0.0, 1.6])
    plain = tp.compile(pulled, dt=0.0005, method="kahan_li8").evolve(**start, t0=0.3, until=6.3)
    ends, drifts = [], []
    for dt in (0.1, 0.05):
        out = tp.compile(pulled, dt=dt, time="logarithmic", order=6).evolve(**start, t0=0.3, until=6.3)
        ends.append(np.abs(out.final.q - plain.final.q).max())
        drifts.append(out.drift("energy"))
        assert out.t[0] == 0.3 and out.t[-1] == pytest.approx(6.3, abs=1e-15)
    assert ends[1] < 1e-8 and np.log2(ends[0] / ends[1]) > 5
    assert drifts[1] < 1e-8 and np.ptp(out.every_step("energy")[1]) > 1e-3


# --- any dt/ds, by equations that are solved ----------------------------------------------------------------
RATES = {"sundman": "sundman", "distance": lambda q: tp.norm(q), "distance**1.5": lambda q: tp.norm(q) ** 1.5}


@pytest.mark.parametrize("rate", RATES)
def test_any_rate_gives_a_step_that_is_shown_to_be_symplectic(rate):
    sim = tp.compile(kepler, dt=0.1, time=RATES[rate])
    assert sim.built.plan.method == "gauss6" and sim.certificate.symplectic and sim.certificate.symmetric
    assert sim.certificate.consistent


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("order", [2, 4, 6])
def test_the_order_holds_in_any_time(rate, order):
    start = dict(q=[0.5, 0.0], p=[0.0, 3.0**0.5])  # e = 0.5
    true = tp.compile(kepler, dt=YEAR / 512, time="logarithmic", order=8).evolve(**start, until=5.0).final.q
    errors = [
        np.abs(
            tp.compile(kepler, dt=YEAR / n, time=RATES[rate], order=order).evolve(**start, until=5.0).final.q
            - true
        ).max()
        for n in (64, 128)
    ]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.25)


def test_sundman_keeps_the_energy_for_a_thousand_orbits_and_the_time():
    """S2-12: fixed steps of s, a Hamiltonian that does not split, e = 0.99; bounded, and in time."""
    sim = tp.compile(kepler, dt=YEAR / 64, time=RATES["distance**1.5"])
    out, tenth = (sim.evolve(**PERICENTRE, steps=n) for n in (128_000, 12_800))
    r = np.linalg.norm(out.final.q)
    E = np.arctan2(out.final.q @ out.final.p, 1 - r)
    passed = (out.t[-1] - (E - ECCENTRICITY * np.sin(E))) / YEAR
    assert out.stopped is None and round(passed) > 1000 and abs(passed - round(passed)) < 2e-8
    assert out.drift("energy") < 1e-10 and out.drift("energy") < 1.01 * tenth.drift("energy")


def test_explicit_time_with_any_rate():
    start = dict(q=[0.5, 0.0], p=[0.0, 1.6])
    there, other = (
        tp.compile(pulled, dt=0.02, time=time).evolve(**start, t0=0.3, until=6.3)
        for time in ("logarithmic", lambda q: tp.norm(q))
    )
    assert np.abs(there.final.q - other.final.q).max() < 1e-9 and other.drift("energy") < 1e-9


def test_explicit_time_is_followed_where_equations_are_solved():
    @tp.hamiltonian
    def mixed(q: float, p: float, t: float):
        return p * p / 2 * (1 + 0.1 * q * q) - tp.cos(q) - 0.5 * q * tp.cos(1.3 * t)

    for method, order in (("implicit_midpoint", 2), ("gauss4", 4), ("gauss6", 6)):
        found = [
            tp.compile(mixed, dt=dt, method=method).evolve(q=1.0, p=0.0, until=10.0).drift("energy")
            for dt in (0.1, 0.05)
        ]
        assert np.log2(found[0] / found[1]) == pytest.approx(order, abs=0.3)


def test_a_system_that_does_not_split_has_a_time_of_its_own_too():
    @tp.hamiltonian
    def rotating(q: tp.Vec[2], p: tp.Vec[2], w: float = 0.3):
        return p @ p / 2 - w * (q[0] * p[1] - q[1] * p[0]) - 1 / tp.norm(q)

    start = dict(q=[0.5, 0.0], p=[0.0, 1.7])
    with pytest.raises(tp.PlanError, match=r"needs H = T\(p\) \+ V\(q\)"):
        tp.compile(rotating, dt=0.05, time="logarithmic")
    sim = tp.compile(rotating, dt=0.05, time=lambda q: tp.norm(q))
    plain = tp.compile(rotating, dt=0.001, order=6)
    ends = [s.evolve(**start, until=4.0).final.q for s in (sim, plain)]
    assert sim.certificate.symplectic and np.abs(ends[0] - ends[1]).max() < 1e-8


@pytest.mark.parametrize(
    "time", ["logarithmic", "sundman", lambda q: tp.norm(q)], ids=["logarithmic", "sundman", "distance"]
)
def test_the_map_of_the_extended_space_is_symplectic(time):
    """Its matrix by differences, t and p_t among the columns: a step of dt that follows the state would have none such."""
    sim = tp.compile(pulled, dt=0.3, time=time)
    z, h = np.array([0.5, 0.1, -0.2, 1.5, 0.4, 0.9]), 1e-5  # q, p, t, p_t
    rows = np.concatenate([z + h * np.eye(6), z - h * np.eye(6)])
    out = sim.evolve(q=rows[:, :2], p=rows[:, 2:4], t=rows[:, 4], p_t=rows[:, 5], steps=2)
    kept = out.final.kept
    end = np.column_stack([kept["q"], kept["p"], kept["t"], kept["p_t"]])
    M = ((end[:6] - end[6:]) / (2 * h)).T
    J = np.zeros((6, 6))
    for a, b in ((0, 2), (1, 3), (4, 5)):
        J[a, b], J[b, a] = 1, -1
    assert np.abs(M.T @ J @ M - J).max() < 1e-7 and np.abs(M - np.eye(6)).max() > 0.1
