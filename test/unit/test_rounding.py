"""Is the rounding that `explain()` expects the rounding that a run has?"""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from rounding_table import CASES, LONG, ROWS, digits, measured

import tinyphysics as tp
from tinyphysics.physics.zoo import driven_pendulum, kepler, pendulum
from tinyphysics.planner.cost.rounding import NOT_ESTIMATED
from tinyphysics.runtime.measure import rounding, roughness
from tinyphysics.runtime.measure.rounding import Rounding, estimate
from tinyphysics.runtime.state.first_state import MEMBERS, NUMBERS, first_state
from tinyphysics.tpir.precision.precision import FLOAT64

WITHIN = 4.0  # what an estimate is promised to
IN_MAKE_TEST = {
    ("shifted", "float64"),
    ("omega=100 dt=0.001", "compensated"),
    ("omega=100 dt=0.001", "lattice"),
    ("quartic", "mixed"),
    ("kepler", "float32"),
    ("pendulum", "float64"),
    ("henon_heiles of order 4", "mixed"),
}
START = dict(q=[1.0, 0.0], p=[0.0, 1.2])
long = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="no longer numbers here")


def row(sim):
    return sim.explain("full").to_dict()["plan"]["rounding"]


def expected(found, steps):
    assert isinstance(found, Rounding), found
    return math.sqrt(found.constant**2 + found.walk**2 * steps)


# --- the table --------------------------------------------------------------------------------------------
def test_the_table_has_more_than_sixty_rows():
    assert len(ROWS) > 60


@long
@pytest.mark.parametrize(
    "name, precision",
    [r if r in IN_MAKE_TEST else pytest.param(*r, marks=pytest.mark.all) for r in ROWS],
)
def test_it_is_the_measured_one_to_a_factor_of_four(name, precision):
    steps = 1000
    error, sim = measured(CASES[name], precision, LONG, steps)
    found = expected(estimate(sim.compiled, sim.began), steps)
    assert error / WITHIN < found < WITHIN * error, (found / error, row(sim))


@pytest.mark.all
@pytest.mark.parametrize("name", ["omega=10 dt=0.01", "pendulum", "kepler", "henon_heiles of order 4"])
def test_in_pairs_it_is_the_measured_one_to_a_factor_of_four(name):
    steps = 100
    with pytest.importorskip("mpmath").workdps(50):
        error, sim = measured(CASES[name], "dd", digits(), steps)
    found = expected(estimate(sim.compiled, sim.began), steps)
    assert error / WITHIN < found < WITHIN * error, (found / error, row(sim))


@long
@pytest.mark.all
@pytest.mark.parametrize("precision", ["float64", "float32", "mixed", "lattice"])
@pytest.mark.parametrize("name", ["omega=1 dt=0.01", "shifted", "kepler", "quartic"])
def test_it_grows_as_a_random_walk(name, precision):
    error, sim = measured(CASES[name], precision, LONG, steps := 16_000)
    found = expected(estimate(sim.compiled, sim.began), steps)
    assert error / WITHIN < found < WITHIN * error, (found / error, row(sim))


# --- what is said -----------------------------------------------------------------------------------------
def test_without_a_state_it_is_not_estimated():
    found = row(tp.compile(kepler, dt=0.01))
    assert found["verdict"] == NOT_ESTIMATED and "run it first, or compile with pilot=" in found["because"]
    assert "2 updates a step round states to 2**-53, forces to 2**-53 times dt" in found["because"]


@pytest.mark.parametrize("precision, told", [("float64", "e-17 sqrt(n)"), ("compensated", "e-11 sqrt(n)")])
def test_the_first_run_or_a_pilot_gives_the_state(precision, told):
    after = tp.compile(kepler, dt=0.01, precision=precision)
    after.evolve(**START, steps=1000)
    before = tp.compile(kepler, dt=0.01, precision=precision, pilot=dict(START, until=10.0))
    assert row(after) == row(before)  # of the same 1000 steps
    assert told in row(after)["verdict"] and "along 1,000 steps" in row(after)["because"]


def test_it_is_measured_once_when_somebody_asks(monkeypatch):
    calls = []
    sim = tp.compile(pendulum, dt=0.01)
    monkeypatch.setattr(rounding, "estimate", lambda *args: calls.append(1) or "for a test")
    sim.evolve(q=1.0, p=0.0, steps=10)
    assert not calls
    assert row(sim)["because"] == row(sim)["because"] == "for a test" and len(calls) == 1


def test_it_is_the_same_on_every_backend():
    found = []
    for backend in ("llvm", "numpy", "python"):
        sim = tp.compile(kepler, dt=0.05, method="implicit_midpoint", backend=backend)
        sim.evolve(**START, steps=2)
        found.append(row(sim))
    assert found[0] == found[1] == found[2] and found[0]["verdict"] != NOT_ESTIMATED


def test_without_llvm_it_is_not_estimated_in_python(monkeypatch):
    monkeypatch.setattr(roughness, "find_spec", lambda name: None)
    sim = tp.compile(kepler, dt=0.05, backend="python")
    sim.evolve(**START, steps=2)
    assert row(sim)["verdict"] == NOT_ESTIMATED and "too slow in Python" in row(sim)["because"]


def test_units_of_a_length_do_not_change_it():
    """The same pendulum in metres and in millimetres; a state that is far from zero does."""

    def of(length, away=0.0):
        @tp.hamiltonian
        def spring(q, p):
            return p**2 / 2 + (q - away) ** 2 / 2

        sim = tp.compile(spring, dt=0.01, propagator="loop")
        sim.evolve(q=away + length, p=0.3 * length, steps=1000)
        return estimate(sim.compiled, sim.began).walk

    assert 0.5 < of(1.0) / of(1000.0) < 2 and of(1.0, away=1e6) > 1e5 * of(1.0)


# --- where it does not hold -------------------------------------------------------------------------------
@tp.hamiltonian
def spring(q, p, k: float = 1.0):
    return p**2 / 2 + k * q**2 / 2


@tp.ode
def decay(x):
    return -x


@tp.hamiltonian
def creased(q, p):
    return p**2 / 2 + abs(q)


@tp.hamiltonian
def bounded(q, p):
    return p**2 / 2 + tp.log(q)


@pytest.mark.parametrize(
    "system, start, options, why",
    [
        (decay, dict(x=1.0), dict(method="rk4"), "`decay` is given by its ode: none is known"),
        (driven_pendulum, dict(q=0.1, p=0.0), {}, "H depends on t"),
        (pendulum, dict(q=1.0, p=0.0), dict(project="energy"), "put back to its invariants"),
        (spring, dict(q=1.0, p=0.0, k=1e4), {}, "a state is where it was after 6 steps"),
        (spring, dict(q=0.0, p=0.0), {}, "the energy is zero"),
        (spring, dict(q=1.0, p=0.0, k=4e4), dict(method="euler"), "stopped at step|the energy itself is off"),
        (creased, dict(q=1.0, p=0.0), {}, "abs(q) may have a kink"),
        (bounded, dict(q=-1.0, p=0.0), {}, "the energy is not finite"),
    ],
)  # fmt: skip
def test_it_says_why_it_is_not_estimated(system, start, options, why):
    loop = {} if system.kind == "ode" else {"propagator": "loop"}
    sim = tp.compile(system, dt=0.01, checks="off", **options, **loop)
    sim.evolve(**start, steps=300)
    found = row(sim)
    assert found["verdict"] == NOT_ESTIMATED
    assert any(part in found["because"] for part in why.split("|")), found


def test_a_large_state_is_not_kept():
    sim = tp.compile(pendulum, dt=0.01)
    sim.evolve(q=np.linspace(0, 1, 100), p=np.zeros(100), steps=1)
    assert sim.began.given.members == MEMBERS
    assert np.array_equal(sim.began.given.states["q"][[0, -1]], [0.0, 1.0])
    i = sim.began.given
    states = {name: np.zeros((1, NUMBERS)) for name in i.states}
    assert first_state(type(i)(states, {}, 1, False), 0.01) is None


def test_states_in_loops_have_fewer_samples():
    """They go one after the other: 64 states with 96 copies each would take seconds."""

    @tp.hamiltonian
    def trap(q: tp.Vec[3], p: tp.Vec[3]):
        return p @ p / 2 + q @ q / 2 - 0.7 * (q[2] + q[0]) * (q[2] - q[0]) - 0.7 * tp.exp(-(q[0] ** 2))

    sim = tp.compile(trap, dt=0.3, method="interaction6")
    sim.evolve(q=[-0.1, 0.459, 0.35], p=[0.661, -0.187, 0.812], steps=2)
    assert sim.compiled.in_loops(rounding.COPIES)
    samples = int(re.search(r"measured at (\d+) states", row(sim)["because"])[1])
    assert samples * 2 * rounding.COPIES * len(FLOAT64.lines) <= rounding.IN_LOOPS
