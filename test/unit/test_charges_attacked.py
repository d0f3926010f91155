"""Charges under attack: jumps, quantities that are zero, what is called wrongly, and searches that did not end."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics.particles import gravity


def charges(energy) -> dict[str, str]:
    @tp.hamiltonian
    def system(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + energy(q)

    return {c.name: c.kept for c in tp.compile(system, dt=0.02, method="leapfrog").conserved}


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


# --- jumps -----------------------------------------------------------------------------------------------
JUMPS = {
    "where": lambda q: tp.where(q[0] > 0.3, 1.0, 0.0),
    "floor": lambda q: tp.floor(q[0]),
    "sign": lambda q: tp.sign(q[0]),
    "two conditions": lambda q: tp.where((q[0] > 0.3) & (q[0] < 0.5), 1.0, 0.0),
    "a quotient": lambda q: q[0] / tp.sqrt(q[0] ** 2),
    "two arcs": lambda q: tp.arctan(1 / q[0]) + tp.arctan(q[0]),
}


@pytest.mark.parametrize("name", JUMPS)
def test_a_shift_across_a_jump_is_no_symmetry(name):
    found = charges(JUMPS[name])
    assert "momentum[0]" not in found and "angular_momentum[0, 1]" not in found and "boost[0]" not in found
    assert found["momentum[1]"] == "to rounding"  # along it
    assert found["energy"].startswith("broken by the jump of ")


def test_the_momentum_of_a_run_is_no_sign_of_a_symmetry_across_a_step():
    """The run keeps p and loses energy; the motion of a ball over a step keeps its energy and changes p."""
    stepped = tp.hamiltonian(lambda q, p: p**2 / 2 + tp.where(q > 0.0, 0.3, 0.0))
    out = tp.compile(stepped, dt=0.1, checks="off").evolve(q=-1.0, p=1.0, steps=30)
    assert np.ptp(out.p) == 0.0 and np.ptp(out.energy) == pytest.approx(0.3)
    assert [c.name for c in tp.compile(stepped, dt=0.1).conserved] == ["energy"]


def test_a_rotation_along_a_round_wall_is_a_symmetry():
    found = charges(lambda q: tp.where(q @ q < 1.0, 1.0, 0.0))
    assert found["angular_momentum[0, 1]"] == "to rounding" and "momentum[0]" not in found


def test_a_kink_is_no_jump():
    assert charges(lambda q: tp.maximum(q[0], 0.0))["energy"] == "oscillates"
    assert "angular_momentum[0, 1]" in charges(lambda q: tp.where(q @ q < 1.0, (1.0 - q @ q) ** 3, 0.0))


def test_no_polynomial_is_looked_for_across_a_jump():
    @tp.hamiltonian
    def saw(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + q[0] % 1.0

    with pytest.raises(tp.InputError, match="may jump"):
        tp.compile(saw, dt=0.1).find_invariants(degree=2)


# --- what is zero or a number ------------------------------------------------------------------------------
def test_a_bracket_that_is_zero_is_no_charge():
    @tp.hamiltonian
    def inverse_square(q: tp.Array[2, 2], p: tp.Array[2, 2], m: tp.Vec[2]):
        return ((p**2).sum(-1) / (2 * m)).sum() + 1 / (q**2).sum()

    names = [c.name for c in tp.compile(inverse_square, dt=0.01).conserved]
    assert "scaling" in names and "angular_momentum[0, 1]" in names
    assert not [n for n in names if n.startswith("{angular_momentum[0, 1], scaling}")]


@pytest.mark.parametrize(
    "energy",
    [
        lambda q: tp.hypot(q[0], q[1]),  # whose square is a polynomial
        lambda q: tp.log(q[0] ** 2) - 2 * tp.log(q[0]),  # which is zero
    ],
)
def test_a_number_is_no_invariant(energy):
    @tp.hamiltonian
    def system(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + energy(q)

    sim = tp.compile(system, dt=0.01)
    rng = np.random.default_rng(1)
    states = [{"q": rng.uniform(0.2, 1.0, 2), "p": rng.uniform(-1.0, 1.0, 2)} for _ in range(4)]
    for charge in sim.find_invariants(degree=2):
        assert np.ptp([charge(**z) for z in states]) > 1e-6, charge


# --- wrong calls -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda c: c([1.0, 0.0], [0.0, 1.0]), "by name"),
        (lambda c: c([1.0, 0.0]), "by name"),
        (lambda c: c(q="a", p=[0.0, 1.0]), "it is text"),
        (lambda c: c(q=None, p=[0.0, 1.0]), "it is None"),
        (lambda c: c(q=[0.0, 1j], p=[0.0, 1.0]), "it is complex"),
        (lambda c: c(q=[1.0, 0.0], p=[0.0, 1.0], nu=1.0), "no argument `nu`"),
    ],
)
def test_a_charge_that_is_called_wrongly_says_how(call, says):
    with pytest.raises(tp.InputError, match=says):
        call(tp.compile(kepler, dt=0.02).conserved[1])


def test_a_charge_takes_a_frame_in_each_way():
    sim = tp.compile(kepler, dt=0.02)
    energy, frame = sim.conserved[0], sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=3).final
    assert energy(frame) == energy(**frame) == energy(q=frame.q, p=frame.p)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"nu": 2.0}, "no state or parameter `nu`"),
        ({"q": [1.0, 0.0, 0.0]}, "has shape"),
        ({"q": np.ones((4, 2)), "p": np.ones((4, 2))}, "one state"),
        ({"mu": [1.0, 2.0]}, "has shape"),
    ],
)
def test_verify_symmetries_swallows_nothing(given, says):
    with pytest.raises(tp.InputError, match=says):
        tp.compile(kepler, dt=0.02).verify_symmetries(**given)
    with pytest.raises(tp.InputError, match="3 arrays were passed"):
        tp.compile(kepler, dt=0.02).verify_symmetries([1.0, 0.0], [0.0, 1.0], 1.0)


@pytest.mark.parametrize("mu", [np.nan, np.inf, [1.0, 2.0]])
def test_nothing_is_proved_of_a_parameter_that_is_no_number(mu):
    with pytest.raises(tp.InputError):
        tp.compile(kepler, dt=0.02).find_invariants(degree=3, mu=mu)


def test_charges_and_symmetries_take_quantities(capsys):
    u = pytest.importorskip("pint").get_application_registry()

    @tp.hamiltonian
    def spring(
        q: Annotated[tp.Vec[2], "m"],
        p: Annotated[tp.Vec[2], "kg m/s"],
        m: Annotated[float, "kg"] = 2.0,
        k: float = 3.0,
    ):
        return p @ p / (2 * m) + k * (q @ q) / 2

    sim = tp.compile(spring, dt=0.01)
    assert sim.conserved[0](q=[100 * u.cm, 0 * u.m], p=[0.0, 0.0]) == pytest.approx(1.5)
    sim.verify_symmetries([100 * u.cm, 0 * u.m], [0.0, 0.0])
    assert "Time Symmetry" in capsys.readouterr().out


# --- searches that end ---------------------------------------------------------------------------------------
def test_a_search_among_thousands_of_monomials_ends():
    """Six particles on a chain, degree 4: 1,819 monomials took 40 s, and take 0.4 s with the shortest equation first."""

    @tp.hamiltonian
    def chain(q: tp.Vec[6], p: tp.Vec[6]):
        return p @ p / 2 + tp.sum(tp.diff(q) ** 2) / 2 + tp.sum(tp.diff(q) ** 3) / 3

    found = tp.compile(chain, dt=0.1).find_invariants(degree=4)
    assert [c.name for c in found] == ["energy", "momentum[0]"]


def test_monomials_are_counted_before_a_sum_is_written_out():
    with pytest.raises(tp.InputError, match="6,000 functions has 18,009,000 monomials"):
        tp.compile(gravity, dt=0.01, sizes={"n": 1000}).find_invariants(degree=2)
