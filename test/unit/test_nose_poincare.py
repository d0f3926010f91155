"""The thermostat of Nosé and Poincaré: its Hamiltonian, what is proved of it, its books, and what it refuses."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.tpir import parse, verify

pytestmark = [
    pytest.mark.requirement("S2-59"),
    pytest.mark.filterwarnings("ignore:.*a Nosé-Poincaré thermostat alone"),
]
BATH = "nose_poincare"


@tp.hamiltonian
def quartic(q, p):
    return p**2 / 2 + q**4 / 4


@tp.hamiltonian
def spring(q, p):
    return p**2 / 2 + q**2 / 2


@tp.hamiltonian
def knot(q: tp.Vec[3], p: tp.Vec[3], m: float = 1.3):
    x, y, z = q[0], q[1], q[2]
    return p @ p / (2 * m) + (x**4 + y**4 + z**4) / 4 + (x**2 * y**2 + y**2 * z**2) / 2


@tp.hamiltonian
def free_chain(q: tp.Array["n", 1], p: tp.Array["n", 1], m: tp.Array["n"]):  # noqa: F821
    d = q[1:] - q[:-1]
    return (p[:, 0] ** 2 / m).sum() / 2 + (d**2 / 2 + d**4 / 4).sum()


def test_the_extended_energy_begins_at_zero_and_has_order_two():
    errors = []
    for dt in (0.1, 0.05, 0.025):
        out = tp.compile(quartic, dt, temperature=0.8, bath=BATH, tau=0.9).evolve(q=1.0, p=0.3, until=20.0)
        own = out.energy + out.p_eta**2 / (2 * 0.8 * 0.81) + 0.8 * out.eta
        assert own[0] == pytest.approx(0.0, abs=1e-15)
        assert out.extended_energy - out.extended_energy[0] == pytest.approx(own, abs=1e-13)
        assert out.energy - out.energy[0] == pytest.approx(out.heat + out.shadow_work, abs=1e-13)
        errors.append(abs(own).max())
    assert np.diff(np.log(errors)) / math.log(0.5) == pytest.approx([2.0, 2.0], abs=0.15)
    out.drift("energy")
    assert out.metrics["drift"]["energy"] == "H, and what is booked as heat"


def test_a_step_keeps_the_form_of_its_hamiltonian():
    """dq∧d(s p) + ds∧dp_eta with s = e^eta, by differences of fourth order over 20 steps of 0.2."""
    sim = tp.compile(knot, 0.2, temperature=0.7, bath=BATH, tau=0.6)
    start = np.array([0.4, -0.7, 1.0, 0.3, 0.6, -0.2, 0.8, 0.3])  # q, s p, s, p_eta

    def image(z):
        begin = dict(q=z[:, :3], p=z[:, 3:6] / z[:, 6:7], eta=np.log(z[:, 6]), p_eta=z[:, 7])
        out = sim.evolve(**begin, steps=20).final
        s = np.exp(out.eta)
        return np.column_stack([out.q, out.p * s[:, None], s, out.p_eta])

    def columns(h):
        shifts = h * np.eye(8)
        return (image(start + shifts) - image(start - shifts)).T / (2 * h)

    M = (4 * columns(1e-4) - columns(2e-4)) / 3
    J = np.zeros((8, 8))
    for a, b in ((0, 3), (1, 4), (2, 5), (6, 7)):
        J[a, b], J[b, a] = 1.0, -1.0
    assert abs(M.T @ J @ M - J).max() < 1e-7 * abs(M).max() ** 2
    canonical = M[:6, :6].T @ J[:6, :6] @ M[:6, :6] - J[:6, :6]
    assert abs(canonical).max() > 0.1  # it is not that of q and p alone


def test_it_goes_back_and_goes_on_from_another_run():
    sim = tp.compile(knot, 0.1, temperature=0.7, bath=BATH)
    start = dict(q=[0.3, -0.2, 0.9], p=[0.1, 0.7, -0.4])
    end = sim.evolve(**start, steps=50).final
    begin = dict(q=end.q, p=-end.p, eta=end.eta, p_eta=-end.p_eta)
    back = sim.evolve(**begin, steps=50).final
    assert back.q == pytest.approx(start["q"], abs=1e-12) and -back.p == pytest.approx(start["p"], abs=1e-12)
    again = sim.evolve(q=end.q, p=end.p, eta=end.eta, p_eta=end.p_eta, steps=30).final
    assert again.q == pytest.approx(sim.evolve(**start, steps=80).final.q, abs=1e-11)
    on, whole = sim.evolve(resume=sim.evolve(**start, steps=50), steps=30), sim.evolve(**start, steps=80)
    assert np.array_equal(on.final.q, whole.final.q) and on.final.eta == whole.final.eta
    reverse = tp.compile(knot, -0.1, temperature=0.7, bath=BATH)
    assert reverse.evolve(q=end.q, p=end.p, eta=end.eta, p_eta=end.p_eta, steps=50).final.q == pytest.approx(
        start["q"], abs=1e-12
    )


def test_each_member_begins_at_its_own_energy():
    sim = tp.compile(spring, 0.05, temperature=1.0, bath=BATH)
    q, T = np.array([0.1, 1.0, 2.0]), np.array([1.0, 0.5, 2.0])
    out = sim.evolve(q=q, p=0 * q, temperature=T, steps=10)
    assert out.eta[0] == pytest.approx(-(q**2) / 2 / T, rel=1e-15)
    one = sim.evolve(q=1.0, p=0.0, temperature=0.5, steps=10)
    assert one.final.q == out.final.q[1] and one.final.eta == out.final.eta[1]


def test_what_runs_inside_begins_there_too(tmp_path):
    sim = tp.compile(quartic, 0.05, temperature=1.0, bath=BATH)
    start = dict(q=0.8, p=0.2)
    assert sim.suggest_dt(**start, until=3.0) > 1e-3  # a trial from eta = 0 follows another motion
    assert float(sim.stepper(**start).eta) == sim.evolve(**start, steps=1).eta[0]
    rest = sim.minimise(**start)
    assert "eta" not in rest.states
    again = sim.evolve(**{**rest.states, "p": 1.0}, steps=1)
    assert again.eta[0] == pytest.approx(-0.5 - again.q[0] ** 4 / 4)
    sim.save(tmp_path / "np.json")
    assert tp.load(tmp_path / "np.json").evolve(**start, steps=20).hash == sim.evolve(**start, steps=20).hash


def test_the_motion_of_the_whole_is_left_as_it_is():
    sim = tp.compile(free_chain, 0.02, temperature=0.7, bath=BATH, sizes={"n": 6})
    rng = np.random.default_rng(1)
    start = dict(q=np.cumsum(rng.normal(size=(6, 1)), 0), m=rng.uniform(0.5, 2.0, 6))
    p = rng.normal(size=(6, 1))
    slow, fast = (sim.evolve(**start, p=p + v * start["m"][:, None], steps=300) for v in (0.0, 3.0))
    assert fast.final.p.sum() == pytest.approx(p.sum() + 3.0 * start["m"].sum(), rel=1e-12)
    assert np.diff(fast.final.q, axis=0) == pytest.approx(np.diff(slow.final.q, axis=0), abs=1e-11)
    assert fast.eta[0] == pytest.approx(slow.eta[0], rel=1e-13)
    assert "relative to the centre of mass" in sim.certificate.symplectic.because
    assert abs(fast.extended_energy - fast.extended_energy[0]).max() < 0.02
    assert "5 " in str(sim.explain("full")).split("degrees of freedom")[1][:10]


def test_averages_of_an_anharmonic_trap_are_canonical():
    start = np.random.default_rng(0).normal(size=(2, 40, 3))
    found = {}
    for bath, more in ((BATH, {"tau": 0.7}), ("langevin", {})):
        sim = tp.compile(knot, 0.1, temperature=0.8, bath=bath, **more)
        out = sim.evolve(q=start[0], p=start[1], steps=12_000, frames=2, observe_every=4, observe={
            "q2": lambda q: q @ q, "T": tp.physics.temperature(at="bath")})  # fmt: skip
        found[bath] = [float(np.asarray(out[name])[100:].mean()) for name in ("q2", "T")]
    assert found[BATH][1] == pytest.approx(0.8, rel=0.01)
    assert found[BATH] == pytest.approx(found["langevin"], rel=0.015)


def test_it_warns_and_is_not_called_canonical():
    """An oscillator stays on curves of its own: <q²> depends on where it begins."""
    with pytest.warns(tp.PhysicsWarning, match="Nosé-Poincaré thermostat alone is not ergodic"):
        sim = tp.compile(spring, 0.05, temperature=1.0, bath=BATH)
    out = sim.evolve(q=[0.3, 2.5], p=[0.0, 0.0], steps=20_000, frames=2, observe={"q2": lambda q: q**2})
    inside, outside = np.asarray(out["q2"]).mean(0)
    assert abs(inside - outside) > 0.2
    verdicts = sim.certificate
    assert list(verdicts) == ["symplectic", "canonical", "symmetric", "reversible", "consistent"]
    assert not verdicts.canonical and "not ergodic" in verdicts.canonical.because
    assert all(verdicts[name] for name in verdicts if name != "canonical")


@pytest.mark.parametrize("precision", ["float64", "float32", "dd"])
def test_backends_agree_to_the_last_bit(precision):
    hashes = {
        tp.compile(
            quartic, 0.1, temperature=1.0, bath=BATH, backend=backend, precision=precision
        ).evolve(q=[0.2, 1.4], p=[0.5, -0.3], steps=12).hash
        for backend in ("python", "llvm")
    }  # fmt: skip
    assert len(hashes) == 1


# --- the proof ----------------------------------------------------------------------------------------------
def listing(system=quartic, **more):
    text = str(tp.compile(system, 0.1, temperature=1.0, bath=BATH, **more).tpir)
    return "\n".join(line for line in text.splitlines() if not line.startswith("claim"))


def verdicts_of(text):
    return verify(parse(text))


def test_a_listing_shows_what_the_simulation_does():
    found = verdicts_of(listing())
    assert [bool(found[name]) for name in found] == [True, False, True, True, True]


CHANGES = {
    "p_eta is pushed by another potential": ("mul, T5, 0.25", "mul, T5, 0.26", "symplectic"),
    "the drift pushes p_eta by T twice": ("mul, 0.5, T9", "mul, 1.0, T9", "symplectic"),
    "k_BT without 1 + eta": ("add, 1.0, S2", "add, 0.0, S2", "symplectic"),
    "another mass of the thermostat": ("mul, 1.0, T15", "mul, 2.0, T15", "symplectic"),
    "g is miscounted": ("$tau, 1.0, 1.0, ()", "$tau, 1.0, 2.0, ()", "symplectic"),
    "the bath for half a step": ("nose_poincare, 1.0", "nose_poincare, 0.5", "symplectic"),
    "eta grows by half": ("mul, 2.0, T23", "mul, 1.0, T23", "symplectic"),
    "momenta shrink once": ("mul, T19, T19", "mul, T19, 1.0", "symplectic"),
    "a kick that is too long": ("SYMP_STEP S1, F1.1, $dt", "SYMP_STEP S1, F1.1, T8", "symplectic"),
    "p_eta is not pushed by the kick": ("  SYMP_STEP S3, F3.3, $dt\n", "", "symplectic"),
    "friction beside it": (
        "  SYMP_STEP S1, F1.1, $dt\n",
        "  SYMP_STEP S1, F1.1, $dt\n  ELEM T90, exp, T42\n  ELEM T91, mul, S1, T90\n  RELAX S1, T91, 0.5\n",
        "symplectic",
    ),
    "no second half of the drift": ("  SYMP_STEP S0, F0.1, T8\n  SYMP_STEP S3, F3.2, T8\n", "", "consistent"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_listing_that_is_changed_is_not_believed(name):
    text = listing()
    old, new, lost = CHANGES[name]
    assert old in text, "the listing has other names now"
    found = verdicts_of(text.replace(old, new))
    assert not found[lost], found[lost].because
    assert not found.canonical


# --- refusals -----------------------------------------------------------------------------------------------
@tp.hamiltonian
def driven(q, p, t):
    return p**2 / 2 + q**2 / 2 - q * tp.cos(t)


def test_what_does_not_go_with_it_is_refused_with_what_to_write():
    with pytest.raises(tp.PlanError, match=r"would not stay at zero together[\s\S]*nose_hoover"):
        tp.compile(spring, 0.1, temperature=lambda t: 2.0 - 0.1 * t, bath=BATH)
    with pytest.raises(tp.PlanError, match="nose_poincare: H depends on t"):
        tp.compile(driven, 0.1, temperature=1.0, bath=BATH)
    with pytest.raises(tp.PlanError, match="has no rate but a time"):
        tp.compile(spring, 0.1, temperature=1.0, bath=BATH, friction=1.0)
    with pytest.raises(tp.PlanError, match="made for it: leave method= out"):
        tp.compile(spring, 0.1, temperature=1.0, bath=BATH, method="baoab")
    with pytest.raises(tp.PlanError, match='its bath is not that of Nosé and Poincaré: bath="nose_poincare"'):
        tp.compile(spring, 0.1, temperature=1.0, method=BATH)
    with pytest.raises(tp.PlanError, match="barostat='rescale' with bath='nose_poincare'"):
        tp.compile(spring, 0.1, temperature=1.0, bath=BATH, pressure=1.0)
    sim = tp.compile(spring, 0.1, temperature=1.0, bath=BATH)
    with pytest.raises(tp.PlanError, match=r"acts= cannot be combined with bath='nose_poincare'"):
        sim.evolve(q=1.0, p=0.0, steps=10, acts={"kick": tp.act(every=5, map=lambda p: p + 1.0)})
    with pytest.raises(tp.PlanError, match="begins with the energy of the first state"):
        sim.grad(lambda out: out.final.q, q=1.0, p=0.0, steps=3, wrt=["q"])
    with pytest.raises(tp.PlanError, match="has numbers of its own"):
        sim.evolve(q=[0.0, 0.0], p=[0.0, 0.0], temperature=[1.0, 2.0], exchange=5, steps=10)
    with pytest.raises(tp.PlanError, match="is not a shear"):
        tp.compile(spring, 0.1, temperature=1.0, bath=BATH, precision="lattice")


def test_a_step_that_is_too_long_for_tau_stops_the_run():
    """1 + h p_eta/2Q below zero has no logarithm: eta is no number, and the run stops there."""
    sim = tp.compile(quartic, 0.5, temperature=1.0, bath=BATH, tau=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = sim.evolve(q=1.0, p=2.0, steps=200)
    assert out.stopped is not None
