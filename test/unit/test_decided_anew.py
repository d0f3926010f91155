"""What compile left open is decided by every run for itself: no run depends on the runs before it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics.particles import gravity
from tinyphysics.physics.zoo import kepler

NEAR, FAR = dict(q=0.1, p=0.0), dict(q=3.0, p=0.0)
QUIET = dict(checks="off")


@tp.hamiltonian
def stiffening(q, p):
    return p**2 / 2 + 50 * q**2 * (1 + q**2)


@tp.hamiltonian
def swing(q, p):
    return p**2 / 2 - tp.cos(q)


@tp.ode
def two_rates(x, k: float = 1.0):
    return -k * (x - tp.cos(x))


@tp.hamiltonian
def spring(q, p):
    return p**2 / 2 + 50 * q**2 + q**4 / 4


def levels(**options):
    return tp.compile(tp.fast(stiffening) + tp.slow(swing), dt=0.02, **QUIET, **options)


# (a simulation, a call of it, another one in between)
TABLE = {
    "inner steps": (levels, dict(FAR, steps=50), dict(NEAR, steps=50)),
    "the plan of a goal": (
        lambda: tp.compile(kepler, error=1e-5),
        dict(q=[1.0, 0.0], p=[0.0, 0.5], until=3.0),
        dict(q=[1.0, 0.0], p=[0.0, 1.0], until=1.0),
    ),
    "the method of rates": (
        lambda: tp.compile(two_rates, tolerance=1e-4),
        dict(x=1.0, k=1.0, until=1.0),
        dict(x=1.0, k=1e6, until=1.0),
    ),
    "a step that came with the run": (
        lambda: tp.compile(spring, **QUIET),
        dict(q=1.0, p=0.0, dt=0.01, steps=20),
        dict(q=1.0, p=0.0, dt=0.3, steps=20),
    ),
}


@pytest.mark.parametrize("what", TABLE)
def test_a_run_does_not_depend_on_the_runs_before_it(what):
    make, call, other = TABLE[what]
    alone, after = make(), make()
    want = alone.evolve(**call)
    between = after.evolve(**other)
    assert alone.compiled.known.program != after.compiled.known.program or alone.goal != after.goal
    out = after.evolve(**call)
    assert (out.hash, out.metrics["program"]) == (want.hash, want.metrics["program"])
    assert pickle.loads(pickle.dumps(after)).evolve(**other).hash == between.hash


def test_a_run_that_goes_on_has_the_steps_of_the_run_that_it_goes_on_from(tmp_path):
    """Restarting from a frame agrees to rounding; a checkpoint is continued bit for bit, whatever ran in between."""
    sim = levels()
    whole = sim.evolve(**FAR, steps=60)
    half = sim.evolve(**FAR, steps=30, checkpoint=tmp_path / "half", save_every=10)
    assert half.final.decided["inner"] == sim.goal.inner
    sim.evolve(**NEAR, steps=10)
    assert sim.evolve(resume=tmp_path / "half", steps=30).hash == whole.hash
    for begin in (half.final, half[3], pickle.loads(pickle.dumps(half.final))):
        for one in (sim, levels()):
            again = one.evolve(**begin, steps=30)
            assert again.metrics["program"] == whole.metrics["program"]
            assert abs(again.final.q - whole.final.q) < 1e-11
            assert again.metrics["paces"]["inner"] == half.final.decided["inner"]
    moved = sim.evolve(**{**half.final, "q": 0.1, "p": 0.0}, steps=1)
    assert moved.metrics["program"] != whole.metrics["program"]  # it is another state


def test_a_pilot_decides_for_all_runs():
    sim = levels(pilot=FAR)
    inner = sim.goal.inner
    sim.evolve(**NEAR, steps=5)
    assert sim.goal.inner == inner


def test_a_run_is_rewound_by_its_own_steps():
    sim = levels()
    out = sim.evolve(**FAR, steps=20, save_every=1)
    sim.evolve(**NEAR, steps=5)
    assert sim.rewind(out, 5).final.q == out.q[15]


def test_differences_are_taken_of_the_steps_of_one_state():
    """A state that is moved a little may ask for another number of kicks; a derivative is not about that."""
    sim = levels()
    sim.evolve(**NEAR, steps=5)
    want = levels().grad(lambda out: out.final.q, **FAR, steps=5)
    found = sim.grad(lambda out: out.final.q, **FAR, steps=5)
    assert np.asarray(found["q"]) == np.asarray(want["q"])
    assert sim.gradcheck(lambda out: out.final.q, **FAR, steps=5).passed


def test_the_order_of_bodies_is_that_of_the_state():
    m = np.array([1.0, 1e-4, 1e-4])

    def begin(inner, outer):
        q, p = np.zeros((3, 3)), np.zeros((3, 3))
        for body, r in ((1, inner), (2, outer)):
            q[body, 0], p[body, 1] = r, m[body] / np.sqrt(r)
        return dict(q=q, p=p, m=m)

    alone, after = (tp.compile(gravity, dt=0.01, method="wisdom_holman") for _ in range(2))
    after.evolve(**begin(1.0, 3.0), steps=5)
    assert after.goal.hierarchy.order == (0, 1, 2)
    out = after.evolve(**begin(3.0, 1.0), steps=5)
    assert after.goal.hierarchy.order == (0, 2, 1)
    assert out.hash == alone.evolve(**begin(3.0, 1.0), steps=5).hash
    assert after.evolve(**out.final, steps=5).metrics["program"] == out.metrics["program"]


@tp.hamiltonian
def well(q, p):
    return p**2 / 2 + q**4 / 4


def test_a_saved_simulation_decides_anew_and_goes_on_with_the_run_that_it_was_saved_after(tmp_path):
    sim = tp.compile(well, energy_drift=1e-4)
    short = sim.evolve(q=1.0, p=0.0, until=2.0)
    sim.save(tmp_path / "well.json")
    loaded = tp.load(tmp_path / "well.json")
    assert loaded.tpir.hash == sim.tpir.hash
    wild = {"q": 8.0, "p": 0.0, "until": 2.0}  # needs a shorter step
    assert loaded.evolve(**wild).hash == tp.compile(well, energy_drift=1e-4).evolve(**wild).hash
    assert loaded.evolve(resume=short, steps=3).hash == sim.evolve(resume=short, steps=3).hash
