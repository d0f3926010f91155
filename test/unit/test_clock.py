"""Runs whose time is a state: what they give back, where they end, and what is refused."""

import numpy as np
import pytest
import tinyphysics as tp
from here import HERE
from tinyphysics.physics.particles import gravity
from tinyphysics.physics.zoo import kepler, oscillator, pendulum

START = dict(q=[0.1, 0.0], p=[0.0, 19.0**0.5])  # e = 0.9
DT = 2 * np.pi / 32


@pytest.fixture(scope="module")
def sim():
    return tp.compile(kepler, dt=DT, time="logarithmic")


def test_t_and_its_momentum_are_states_that_nobody_sees(sim):
    out = sim.evolve(**START, steps=64, save_every=8)
    assert set(out.frames) == {"q", "p"} and set(out.final.states) == {"q", "p"}
    assert [s.name for s in sim.tpir.states] == ["q", "p", "t", "p_t"]
    assert out.t[0] == 0.0 and out.t[-1] == pytest.approx(4 * np.pi, rel=1e-8) and out.final.t == out.t[-1]
    assert np.all(np.diff(out.t) > 0) and np.ptp(np.diff(out.t)) > 1
    assert out.steps.tolist() == [*range(0, 65, 8)]
    assert np.allclose(out.energy, -0.5, rtol=1e-13)


def test_frames_are_those_of_shorter_runs(sim):
    out = sim.evolve(**START, steps=20, save_every=1)
    for k in (0, 1, 7, 20):
        end = sim.evolve(**START, steps=k)
        assert np.array_equal(end.final.q, out.q[k]) and end.final.t == out.t[k]


def test_observables_know_the_time(sim):
    out = sim.evolve(
        **START,
        steps=20,
        observe={"when": lambda t: t, "r": lambda q: tp.norm(q), "E": "energy"},
        observe_every=5,
    )
    assert np.array_equal(out["when"], out.times("r")) and len(out["r"]) == 5
    assert "time of an observation" not in out.observed
    t, energy, _ = out.every_step("energy")
    assert np.array_equal(t[::5], out["when"]) and np.array_equal(energy[::5], out["E"])
    assert np.array_equal(sim.evolve(**START, steps=20).final.q, out.final.q)  # watching changes nothing


def test_a_run_ends_at_a_time_between_two_steps_and_goes_on_as_if_it_had_not(sim, tmp_path):
    out = sim.evolve(**START, until=10.0, save_every=1, checkpoint=tmp_path / "c")
    end = out.metrics["end"]
    assert (
        out.t[-1] == out.final.t == 10.0
        and out.t[-2] < 10.0
        and 0 < end["fraction"] < 1
        and not end["fed_back"]
    )
    assert out.steps[-1] == out.steps[-2] == end["of_step"] - 1 and len(out.energy) == len(out.t)
    longer = sim.evolve(resume=tmp_path / "c", steps=9)
    assert longer.hash == sim.evolve(**START, steps=int(out.steps[-1]) + 9).hash
    fine = tp.compile(kepler, dt=DT / 4, time="logarithmic", order=8).evolve(**START, until=10.0)
    assert np.abs(fine.final.q - out.final.q).max() < 1e-6
    both = sim.evolve(resume=tmp_path / "c", until=15.0), sim.evolve(**START, until=15.0)
    assert both[0].hash == both[1].hash and both[1].t[-1] == 15.0


def test_backwards_too():
    back = tp.compile(kepler, dt=-DT, time="logarithmic").evolve(**START, until=-3.0)
    there = tp.compile(kepler, dt=DT, time="logarithmic").evolve(**START, until=3.0)
    assert back.t[-1] == pytest.approx(-3.0, abs=1e-15) and np.allclose(
        back.final.q, there.final.q * [1, -1], atol=1e-13
    )


def test_until_where_it_is_already(sim):
    out = sim.evolve(**START, until=2.0, t0=2.0)
    assert out.t.tolist() == [2.0] and out.final.q.tolist() == START["q"]
    with pytest.raises(tp.InputError, match="lies before"):
        sim.evolve(**START, until=1.0, t0=2.0)
    with pytest.raises(tp.InputError, match="not a time"):
        sim.evolve(**START, until="never")


def test_members_have_times_of_their_own(sim):
    e = np.array([0.0, 0.5, 0.9, 0.99])
    start = dict(q=np.stack([1 - e, 0 * e], 1), p=np.stack([0 * e, ((1 + e) / (1 - e)) ** 0.5], 1))
    out = sim.evolve(**start, steps=32, save_every=16)
    assert (
        repr(out) == "<Trajectory of 3 frames, t = 0 .. 6.28319>"
        and out.t.shape == (3, 4)
        and np.allclose(out.t[-1], 2 * np.pi, rtol=1e-6)
        and out.drift("energy").shape == (4,)
    )
    for k in range(4):
        one = sim.evolve(q=start["q"][k], p=start["p"][k], steps=32, save_every=16)
        assert np.array_equal(one.t, out.t[:, k]) and np.array_equal(one.q, out.q[:, k])
    with pytest.raises(tp.PlanError, match="at different times"):
        out.plot()
    with pytest.raises(tp.PlanError, match="different steps"):
        sim.evolve(**start, until=3.0)


@pytest.mark.parametrize("backend", HERE)
def test_every_backend_has_the_same_bits(backend, sim):
    other = tp.compile(kepler, dt=DT, time="logarithmic", backend=backend)
    assert other.evolve(**START, steps=40).hash == sim.evolve(**START, steps=40).hash


@pytest.mark.parametrize(
    "precision, off",
    [("float32", 1e-4), ("mixed", 1e-4), ("compensated", 1e-4), ("dd", 1e-7), ("lattice", 1e-7)],
)
def test_other_precisions(precision, off):
    out = tp.compile(kepler, dt=DT / 2, time="logarithmic", precision=precision).evolve(**START, steps=64)
    assert out.t[-1] == pytest.approx(2 * np.pi, abs=off)
    assert out.drift("energy") < (1e-30 if precision == "dd" else 1e-5)


def test_it_is_saved_loaded_and_rewound(sim, tmp_path):
    out = sim.evolve(**START, steps=50)
    sim.save(tmp_path / "sim.json")
    assert tp.load(tmp_path / "sim.json").evolve(**START, steps=50).hash == out.hash
    assert sim.rewind(out, 20).hash == sim.evolve(**START, steps=30).hash
    lattice = tp.compile(kepler, dt=DT, time="logarithmic", precision="lattice")
    run = lattice.evolve(**START, steps=50)
    back = lattice.rewind(run, 50)
    assert back.metrics["rewind"] == "50 steps taken back" and back.t[-1] == 0.0
    assert np.array_equal(back.final.q, lattice.evolve(**START, steps=0).final.q)


def test_frames_do_not_go_to_a_store_yet(sim, tmp_path):
    with pytest.raises(tp.PlanError, match="save= cannot be combined with time="):
        sim.evolve(**START, steps=40, save=tmp_path / "run.zarr")
    pytest.importorskip("xarray")
    whole = sim.evolve(**START, steps=40, save_every=4, observe={"r": lambda q: tp.norm(q)})
    assert set(whole.to_xarray().data_vars) >= {"q", "p"}
    assert np.array_equal(whole.to_xarray().time, whole.t)


def test_a_size_that_is_open_is_bound_by_the_first_run():
    sim = tp.compile(gravity, dt=0.02, time="logarithmic")
    three = dict(
        m=[3.0, 4.0, 5.0], q=[[1.0, 3.0, 0.0], [-2.0, -1.0, 0.0], [1.0, -1.0, 0.0]], p=np.zeros((3, 3))
    )
    out = sim.evolve(**three, until=1.0)
    plain = tp.compile(gravity, dt=0.002, order=6).evolve(**three, until=1.0)
    assert out.t[-1] == 1.0 and np.abs(out.final.q - plain.final.q).max() < 1e-10


def test_a_stop_says_when():
    """A fall into the centre, which no step can come out of where it is met exactly."""

    @tp.hamiltonian
    def well(q: float, p: float):
        return p * p / 2 - 1 / tp.sqrt(q) - 1 / tp.sqrt(3 - q)

    out = tp.compile(well, dt=0.2, time="logarithmic", method="leapfrog_dkd").evolve(q=1.0, p=0.1, steps=500)
    assert out.stopped is not None and out.stopped.cause == "not finite"
    assert out.stopped.t == out.final.t and 0 < out.final.t < 100


def test_the_plan_says_what_dt_is(sim):
    assert [entry.partition("{")[2].partition(",")[0] for entry in sim.cite()] == [
        "kahan1997",
        "mikkola1999",
        "preto1999",
    ]
    text = str(sim.explain("full"))
    assert (
        "of s, not of t" in text
        and "1/(mu/sqrt" in text
        and "kahan_li6" in text
        and "stay on Kepler orbits" in text
    )
    assert [tp.compile(kepler, dt=DT, time="logarithmic", order=n).built.plan.method for n in (2, 4, 8)] == [
        "leapfrog_dkd",
        "suzuki4",
        "kahan_li8",
    ]


REFUSED = {
    "no time 'log'": dict(time="log"),
    "no time 3": dict(time=3),
    "cannot be combined with error=": dict(time="logarithmic", error=1e-3),
    "cannot be combined with propagator=": dict(time="logarithmic", propagator="exact"),
    "cannot be combined with scale=": dict(time="logarithmic", scale="auto"),
    "one number": dict(time=lambda q: q),
    "does not depend on the positions": dict(time=lambda mu: mu),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_go_is_said(what):
    with pytest.raises(tp.TinyPhysicsError, match=what):
        tp.compile(kepler, dt=0.1, **REFUSED[what])


def test_what_has_no_depth_is_refused(sim):
    for system in (oscillator, pendulum):
        with pytest.raises(tp.PlanError, match="not shown to be negative everywhere"):
            tp.compile(system, dt=0.1, time="logarithmic").evolve(q=0.1, p=0.0, steps=1)
    with pytest.raises(tp.PlanError, match="not shown to be negative everywhere"):
        sim.evolve(**START, mu=-1.0, steps=1)
    with pytest.raises(tp.PlanError, match="not shown to be positive everywhere"):
        tp.compile(kepler, dt=0.1, method="rk4", time=lambda q: q[0]).evolve(**START, steps=1)
    with pytest.raises(tp.InputError, match="not a positive, finite rate"):
        sim.evolve(q=[1.0, 0.0], p=[0.0, 1.0], mu=0.0, steps=1)
    for what in (lambda: sim.minimise(q=START["q"]), lambda: sim.suggest_dt(**START)):
        with pytest.raises(tp.PlanError, match="cannot be combined with time="):
            what()

    @tp.hamiltonian
    def named(q: float, p: float, p_t: float):
        return p * p / 2 - p_t / q

    with pytest.raises(tp.InputError, match="already has a `p_t`"):
        tp.compile(named, dt=0.1, time="logarithmic")

    @tp.forces
    def pull(q: float):
        return -q

    with pytest.raises(tp.PlanError, match="given by its forces"):
        tp.compile(pull, dt=0.1, time="logarithmic")


# --- events ----------------------------------------------------------------------------------------------------
LOOK = {"apsis": lambda q, p: q @ p, "noon": lambda t: t - 1.5}


def same_events(a, b):
    for name in LOOK:
        one, two = a.events(name), b.events(name)
        assert np.array_equal(one.t, two.t) and np.array_equal(one.q, two.q)
        assert np.array_equal(one.rising, two.rising) and np.array_equal(one.member, two.member)


def test_events_have_the_time_of_the_state(sim, tmp_path):
    """Apses of an ellipse are multiples of half its period; a run ends between two steps, and goes on."""
    out = sim.evolve(**START, until=10.0, events=LOOK, checkpoint=tmp_path / "c")
    assert out.hash == sim.evolve(**START, until=10.0).hash
    assert np.abs(out.events("apsis").t - np.pi * np.arange(1, 4)).max() < 1e-7
    assert out.events("noon").t == pytest.approx([1.5], rel=1e-15) and "p_t" not in out.events("noon").states
    (loss,) = out.losses
    steps = sim.evolve(**START, until=10.0, save_every=1).t
    assert np.diff(steps)[:-1].max() <= loss.amount < 1.3 * np.diff(steps).max()  # the last one is cut short
    longer = sim.evolve(**START, until=14.0, events=LOOK)
    then = sim.evolve(resume=tmp_path / "c", until=14.0, events=LOOK)
    assert then.hash == longer.hash and len(longer.events("apsis")) == 4
    joined = np.concatenate([out.events("apsis").t, then.events("apsis").t])
    assert np.array_equal(np.unique(joined), longer.events("apsis").t)
    early = sim.evolve(**START, until=1e-3, events={"soon": lambda t: t - 5e-4})
    assert early.events("soon").t == pytest.approx([5e-4], rel=1e-15) and early.metrics["end"]["of_step"] == 1


def test_events_of_members_and_backends(sim):
    starts = dict(q=[START["q"], [0.2, 0.0]], p=[START["p"], [0.0, 3.0]])
    how = dict(steps=40, events=LOOK)
    out = sim.evolve(**starts, **how)
    assert len(out.events("apsis")) == 4
    for k in range(2):
        alone = sim.evolve(q=starts["q"][k], p=starts["p"][k], **how)
        mine = out.events("apsis")[out.events("apsis").member == k]
        assert np.array_equal(mine.t, alone.events("apsis").t)
    for backend in ("numpy", "python"):
        other = tp.compile(kepler, dt=DT, time="logarithmic", backend=backend).evolve(**starts, **how)
        assert other.hash == out.hash
        same_events(out, other)
    back = tp.compile(kepler, dt=-DT, time="logarithmic").evolve(**START, until=-4.0, events=LOOK)
    assert np.abs(back.events("apsis").t + np.pi).max() < 1e-7


def test_a_run_that_cannot_be_stepped_on_to_its_time_says_that_it_stopped():
    """It ended at t = 1.60 instead, without a word."""

    @tp.hamiltonian
    def flat(q: tp.Vec[3], p: tp.Vec[3], mu: float = 1.0, eps: float = 0.05):
        r2 = q @ q
        return p @ p / 2 - mu / tp.sqrt(r2) - eps * (1 - 3 * q[2] ** 2 / r2) / r2**1.5

    start = dict(
        q=[1.0, 0.07835451, -0.1430873],
        p=[0.1, 0.62241909, 0.0],
        mu=1.0857986285168655,
        eps=0.0158498170689439,
    )
    sim = tp.compile(flat, dt=0.05, time=lambda q: 0.5 + q @ q)
    assert sim.evolve(**start, until=1.5).stopped is None
    out = sim.evolve(**start, until=1.7)
    assert out.stopped.cause == "not solved" and 1.5 < out.stopped.t == out.final.t < 1.7
