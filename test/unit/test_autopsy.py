"""Is the cause of a run that stopped named right?  One planted bug for each cause."""

import numpy as np
import pytest

import tinyphysics as tp

pytestmark = pytest.mark.filterwarnings("ignore::tinyphysics.PhysicsWarning")


@tp.hamiltonian
def spring(q, p, k=1.0, m=1.0):
    return p**2 / (2 * m) + k * q**2 / 2


@tp.hamiltonian
def hill(q, p):
    return p**2 / 2 - q**4 / 4


@tp.hamiltonian
def quartic(q, p):
    return p**2 / 2 + q**4 / 4


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu=1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def root(q, p):
    return p**2 / 2 + tp.sqrt(q)


@tp.hamiltonian
def bodies(q: tp.Array[3, 2], p: tp.Array[3, 2], m: tp.Vec[3]):
    r = tp.sqrt(((q[:, None] - q[None, :]) ** 2).sum(-1))
    return ((p**2).sum(-1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / r)


@tp.hamiltonian
def mixed(q, p):
    return p**2 * (1 + q**2) / 2 + tp.cosh(q)


THREE = {"q": [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]], "p": np.zeros((3, 2)), "m": [1.0, 1.0, 1.0]}
PLANTED = {  # system, options, run: the cause, and words of the report
    "linear": (
        spring,
        {"dt": 2.5},
        {"q": 1.0, "p": 0.0, "steps": 2000},
        "dt above the limit",
        "dt*omega is 2.5",
    ),
    "steep": (quartic, {"dt": 0.5}, {"q": 20.0, "p": 0.0, "steps": 2000}, "dt above the limit", "q**4"),
    "hill": (hill, {"dt": 0.05}, {"q": 1.0, "p": 1.0, "steps": 2000}, "overflow", "q**4"),
    "at a pole": (kepler, {"dt": 0.01}, {"q": [0.0, 0.0], "p": [0.0, 1.0], "steps": 9}, "pole", "mu/sqrt"),
    "through a pole": (
        kepler,
        {"dt": 0.5, "method": "leapfrog_dkd"},
        {"q": [0.5, 0.0], "p": [-2.0, 0.0], "steps": 9},
        "pole",
        'time="logarithmic"',
    ),
    "a root": (root, {"dt": 0.01}, {"q": 0.1, "p": -1.0, "steps": 200}, "root of a negative", "sqrt(q)"),
    "a mass": (spring, {"dt": 0.01}, {"q": 1.0, "p": 0.0, "m": 0.0, "steps": 20}, "mass zero", "`m` is zero"),
    "overlap": (bodies, {"dt": 0.01}, {**THREE, "steps": 20}, "overlap at the start", "particles 1 and 2"),
    "equations": (
        mixed,
        {"dt": 30.0, "method": "gauss4"},
        {"q": 3.0, "p": 4.0, "steps": 50},
        "equations not solved",
        "Shorten dt",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_named(name):
    system, options, given, cause, words = PLANTED[name]
    sim = tp.compile(system, **{"method": "leapfrog", "propagator": "loop", **options}, checks="off")
    out = sim.evolve(**given)
    assert out.stopped is not None, "the run did not stop"
    found = out.stopped.report()
    assert found.cause == cause, str(found)
    assert words in str(found)
    assert f"step {out.stopped.step:,}" in str(found)


def test_a_report_has_the_line_and_the_last_eight_steps():
    sim = tp.compile(root, dt=0.01, method="leapfrog", checks="off")
    out = sim.evolve(q=0.1, p=-1.0, steps=200)
    found = out.stopped.report()
    assert "test_autopsy.py:" in found.term and len(found.rows) == 9
    assert found.rows[-1].step == out.stopped.step and found.flow.startswith("kick of `p`")
    # the rows are the states of the run itself
    again = sim.evolve(q=0.1, p=-1.0, steps=out.stopped.step - 1)
    assert found.rows[-2].largest == max(abs(float(again.final.q)), abs(float(again.final.p)))


def test_a_member_of_an_ensemble_is_examined_for_itself():
    sim = tp.compile(spring, dt=2.5, method="leapfrog", propagator="loop", checks="off")
    out = sim.evolve(q=[0.0, 1.0], p=[0.0, 0.0], k=[1e-3, 1.0], steps=2000)
    found = out.stopped.report()
    assert out.stopped.member == 1 and found.cause == "dt above the limit" and "member 1" in str(found)


def test_a_stop_alone_says_where_to_ask():
    with pytest.raises(tp.InputError, match="out.stopped.report"):
        tp.Stop("not finite", 1, 0.1).report()
    assert "interrupted" in str(tp.Stop("interrupted", 1, 0.1).report())


# --- poles that a run passed ------------------------------------------------------------------------
@tp.hamiltonian
def soft(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 - 1 / tp.sqrt(q @ q + 0.01)


@pytest.mark.filterwarnings("default::tinyphysics.PhysicsWarning")
def test_a_fall_into_a_centre_is_named_at_its_step():
    sim = tp.compile(kepler, dt=0.01, method="leapfrog")
    with pytest.warns(
        tp.PhysicsWarning,
        match=r"step 111 .* passes a pole of mu/sqrt\(sum\(q\*q\)\) \(test_autopsy.py:",
    ):
        out = sim.evolve(q=[1.0, 0.0], p=[0.0, 0.0], steps=300)
    found = out.metrics["singularity"]
    # r = (mu dt**2/2)**(1/3) is where dt**2 V'' is 4
    assert found["step"] == 111 and found["distance"] < (0.01**2 / 2) ** (1 / 3)
    assert out.stopped.cause == "singularity" and out.stopped.report().cause == "pole"


@pytest.mark.filterwarnings("default::tinyphysics.PhysicsWarning")
def test_two_bodies_that_meet_between_two_steps_are_named():
    start = {"q": [[0.0, 0.0], [1.0, 0.0], [5.0, 0.0]], "p": np.zeros((3, 2)), "m": [1.0, 1.0, 1.0]}
    with pytest.warns(tp.PhysicsWarning, match="between particles 0 and 1"):
        out = tp.compile(bodies, dt=0.01, method="leapfrog").evolve(**start, steps=300)
    # both fall towards each other for a time of pi/4
    assert out.metrics["singularity"]["step"] == 79 and out.metrics["singularity"]["where"] == (0, 1)


def test_no_pole_no_alarm():
    for system, start in (
        (kepler, {"q": [1.0, 0.0], "p": [0.0, 0.6]}),
        (soft, {"q": [1.0, 0.0], "p": [0.0, 0.0]}),
    ):
        out = tp.compile(system, dt=0.01, method="leapfrog").evolve(**start, steps=2000)
        assert "singularity" not in out.metrics
    # an energy that moves without a pole
    out = tp.compile(spring, dt=1.99, method="leapfrog", propagator="loop").evolve(q=1.0, p=0.0, steps=100)
    assert "singularity" not in out.metrics


@pytest.mark.parametrize("backend", ["llvm", "python", "numpy"])
@pytest.mark.parametrize(
    "system, start, cause",
    [(hill, {"q": 1.0, "p": 1.0}, "overflow"), (root, {"q": 0.1, "p": -1.0}, "root of a negative")],
)
def test_a_run_with_walls_is_looked_at_like_one_without(backend, system, start, cause):
    """Its loop keeps a search beside the state, which a replay has to begin with."""
    walled = system + tp.wall(lambda q: q + 9.0, name="floor")
    out = tp.compile(walled, dt=0.01, backend=backend).evolve(**start, steps=2000)
    assert cause in str(out.stopped.report()).splitlines()[0]


def test_every_member_that_stopped_has_a_report():
    out = tp.compile(root, dt=0.01).evolve(q=[0.1, 50.0, 0.2], p=[-1.0, 0.0, -1.0], steps=300)
    assert [s.member for s in out.stops] == [0, 2]
    assert all("root of a negative" in str(s.report(out)).splitlines()[0] for s in out.stops)
    with pytest.raises(tp.InputError, match=r"out.stops\[0\].report\(out\)"):
        out.stops[0].report()


def test_a_rod_to_a_body_without_mass_is_refused_for_its_mass():
    @tp.constraint
    def rod(q: tp.Array[2, 2]):
        return (q[1] - q[0]) @ (q[1] - q[0]) - 1

    def two(q: tp.Array[2, 2], p: tp.Array[2, 2], m: tp.Vec[2]):
        return ((p**2).sum(-1) / (2 * m)).sum()

    sim = tp.compile(tp.hamiltonian(two) + rod, dt=0.01)
    with pytest.raises(tp.InputError, match="masses above zero"):
        sim.evolve(q=[[0.0, 0.0], [1.0, 0.0]], p=np.zeros((2, 2)), m=[1.0, 0.0], steps=3)


def test_a_stiff_spring_in_a_bath_is_stepped_and_its_step_is_named():
    sim = tp.compile(spring, dt=3.0, temperature=0.1, bath="andersen", friction=0.1)
    out = sim.evolve(q=1.0, p=0.0, steps=3000)
    assert "dt above the limit" in str(out.stopped.report()).splitlines()[0]
