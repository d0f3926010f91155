"""Is a run as accurate as was asked?  Goals, against integrations by other people's code."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tinyphysics as tp
from tinyphysics.physics.chains import fput
from tinyphysics.physics.molecular import lennard_jones
from tinyphysics.physics.zoo import henon_heiles, kepler, pendulum


def reference(force, q, p, until):
    """The state at the end by DOP853, for unit masses; q and p of any shape."""
    q, p = np.asarray(q, float), np.asarray(p, float)

    def slope(t, y):
        x, v = np.split(y, 2)
        return np.concatenate([v, np.ravel(force(x.reshape(q.shape)))])

    out = solve_ivp(
        slope, (0.0, until), np.concatenate([q.ravel(), p.ravel()]), method="DOP853", rtol=1e-13, atol=1e-15
    )
    x, v = np.split(out.y[:, -1], 2)
    size = [np.abs(part).max() for part in np.split(out.y, 2)]
    return x.reshape(q.shape), v.reshape(q.shape), size


def measured(out, force, until):
    """The error of the last state as goals are meant: relative to the size of q, and of p."""
    x, v, (size_q, size_p) = reference(force, out.q[0], out.p[0], until)
    return max(np.abs(out.final.q - x).max() / size_q, np.abs(out.final.p - v).max() / size_p)


def pull_kepler(q):
    return -q / (q @ q) ** 1.5


def pull_henon_heiles(q):
    x, y = q
    return np.array([-x - 2 * x * y, -y - x * x + y * y])


@pytest.mark.parametrize("error", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize(
    "system, force, start, until",
    [
        (kepler, pull_kepler, {"q": [1.0, 0.0], "p": [0.0, 1.2]}, 60.0),
        (henon_heiles, pull_henon_heiles, {"q": [0.1, 0.2], "p": [0.3, 0.0]}, 100.0),
    ],
    ids=["kepler", "henon_heiles"],
)
def test_a_run_is_as_accurate_as_was_asked(system, force, start, until, error):
    sim = tp.compile(system, error=error)
    out = sim.evolve(**start, until=until)
    assert out.final.t == pytest.approx(until, rel=1e-15) and out.metrics["goals"]["met"]
    true = measured(out, force, until)
    assert true < error
    assert out.metrics["goals"]["error"]["measured"] > 0.3 * true  # what the run says of itself is no smaller


def test_less_error_is_more_work_and_not_much_more_than_is_needed():
    """From 1e-4 to 1e-8 the step of whatever method is chosen grows shorter, and the error stays near what was asked."""
    found = []
    for error in (1e-4, 1e-6, 1e-8):
        sim = tp.compile(henon_heiles, error=error, pilot={"q": [0.1, 0.2], "p": [0.3, 0.0], "until": 100.0})
        d = sim.goal.decision
        assert 0.02 * error < d.error <= error
        found.append(next(t.work for t in d.trials if t.method == d.method))
    assert found == sorted(found)


def test_energy_is_held_to_what_was_asked_in_every_step():
    sim = tp.compile(kepler, energy_drift=1e-9, error=1e-6)
    out = sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], until=50.0, observe={"E": "energy"})
    x, y = out["E"], np.abs(out["E"])
    assert len(x) == out.steps[-1] + 1  # every step
    assert out.drift("energy") < 1e-9 and np.abs(x - x[0]).max() / y.max() < 1e-8
    assert out.metrics["goals"]["energy_drift"]["measured"] == out.drift("energy")
    assert measured(out, pull_kepler, 50.0) < 1e-6


def test_an_ensemble_of_pendulums_meets_the_goal_with_its_worst_member():
    q, p = np.linspace(-2.5, 2.5, 40), np.linspace(0.0, 1.5, 40)
    out = tp.compile(pendulum, error=1e-7).evolve(q=q, p=p, until=40.0)
    assert out.metrics["goals"]["met"] and len(out.metrics["goals"]["members"]) == 16
    x, v, _ = reference(lambda q: -np.sin(q), q, p, 40.0)
    size = [np.maximum(np.abs(s), 0.5) for s in (q, p)]  # each has swung so far
    assert max((np.abs(out.final.q - x) / size[0]).max(), (np.abs(out.final.p - v) / size[1]).max()) < 1e-6


def test_a_chain_and_the_fastest_of_its_modes():
    n = 16
    sim = tp.compile(fput, energy_drift=1e-8, error=1e-6)
    start = {"q": 2.0 * np.sin(np.pi * np.arange(1, n + 1) / (n + 1)), "p": np.zeros(n)}
    out = sim.evolve(**start, until=60.0)

    def force(q):
        d = np.diff(q, prepend=0.0, append=0.0)
        s = d + 0.25 * d * d
        return s[1:] - s[:-1]

    assert measured(out, force, 60.0) < 1e-6 and out.drift("energy") < 1e-8
    assert sim.goal.decision.frequency == pytest.approx(2.0, rel=0.5)  # the springs are bent


@tp.hamiltonian
def cluster(q: tp.Array[7, 3], p: tp.Array[7, 3]):
    d = q[:, None] - q[None, :]
    return (p**2).sum() / 2 + tp.pair_sum(lennard_jones((d**2).sum(-1)))


def pull_lennard_jones(q):
    d = q[:, None] - q[None, :]
    r2 = (d**2).sum(-1) + np.eye(len(q))
    s6 = r2**-3
    size = 24 * (2 * s6 * s6 - s6) / r2 * (1 - np.eye(len(q)))
    return (size[:, :, None] * d).sum(1)


def test_a_lennard_jones_cluster():
    turn = 2 * math.pi / 5
    ring = np.array([[0.95 * math.cos(k * turn), 0.95 * math.sin(k * turn), 0.0] for k in range(5)])
    q = np.concatenate(
        [ring, [[0.0, 0.0, 0.6], [0.0, 0.0, -0.6]]]
    )  # a pentagonal bipyramid, not quite at rest
    out = tp.compile(cluster, energy_drift=1e-7, error=1e-5).evolve(q=q, p=np.zeros((7, 3)), until=3.0)
    assert measured(out, pull_lennard_jones, 3.0) < 1e-5 and out.drift("energy") < 1e-7
    assert out.metrics["goals"]["met"]


def test_chaos_that_no_pilot_has_seen_is_said_by_the_run(caplog):
    """Planned on a regular orbit, run on a chaotic one: energy is kept, the state is not, and the run says so."""
    sim = tp.compile(henon_heiles, error=1e-6, pilot={"q": [0.1, 0.2], "p": [0.3, 0.0]})
    out = sim.evolve(q=[0.0, -0.2], p=[0.4524, 0.0], until=500.0)
    assert out.drift("energy") < 1e-6
    assert out.metrics["goals"]["met"] is False and out.metrics["goals"]["error"]["measured"] > 1e-2
    assert "a goal was not met in the run: error" in caplog.text
    sim.checks = "strict"
    with pytest.raises(tp.PhysicsIntegrityError, match="a goal was not met") as caught:
        sim.evolve(q=[0.0, -0.2], p=[0.4524, 0.0], until=500.0)
    assert caught.value.out.hash == out.hash


# --- suggest_dt -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["leapfrog", "yoshida4", "rk4"])
def test_a_suggested_step_gives_the_error_that_was_asked_for(method):
    sim = tp.compile(kepler, dt=1.0, method=method)
    start = {"q": [1.0, 0.0], "p": [0.0, 1.2]}
    dt = sim.suggest_dt(error=1e-4, **start, until=20.0)
    out = sim.evolve(**start, dt=dt, until=20.0)
    assert 1e-6 < measured(out, pull_kepler, 20.0) < 1e-4
    longer = sim.evolve(**start, dt=20.0 / round(20.0 / (2.5 * dt)), until=20.0)
    assert measured(longer, pull_kepler, 20.0) > 1e-4


# --- frequencies ----------------------------------------------------------------------------------------------
def frequency(system, **given):
    return tp.compile(system, dt=0.01, pilot=given).frequency


def test_the_fastest_vibration_is_that_of_the_hessian():
    assert frequency(kepler, q=[0.5, 0.0], p=[0.0, 1.0]) == pytest.approx(math.sqrt(8.0), rel=1e-5)
    n = 24
    exact = 2 * math.sin(math.pi * n / (2 * (n + 1)))  # of the linear chain
    assert frequency(fput, q=np.zeros(n), p=np.zeros(n)) == pytest.approx(exact, rel=1e-3)


def test_masses_count_and_the_worst_member_does():
    @tp.hamiltonian
    def unequal(q: tp.Vec[3], p: tp.Vec[3], m: tp.Vec[3], k: float = 4.0):
        return (p**2 / (2 * m)).sum() + k * (q**2).sum() / 2

    assert frequency(unequal, q=np.ones(3), p=np.zeros(3), m=[1.0, 4.0, 0.25]) == pytest.approx(4.0, rel=1e-5)
    assert frequency(pendulum, q=[3.0, 0.0, 1.0], p=[0.0, 0.0, 0.0]) == pytest.approx(1.0, rel=1e-5)


def test_what_does_not_split_and_what_has_no_energy_has_a_frequency_too():
    @tp.hamiltonian
    def bead(q, p):
        return p**2 / (2 * (1 + 4 * q**2)) + q**2

    @tp.forces
    def spring(q: tp.Vec[2], mass: float = 2.0):
        return -8 * q

    assert tp.compile(bead, dt=0.01, method="rk4", pilot={"q": 0.0, "p": 0.0}).frequency == pytest.approx(
        math.sqrt(2), rel=1e-3
    )
    assert frequency(spring, q=[1.0, 0.0], p=[0.0, 1.0]) == pytest.approx(2.0, rel=1e-3)
