"""Friction of tops, and energies of tops that depend on time: what is proved of such steps, and what they do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tinyphysics as tp
from tinyphysics.tpir import parse, verify

pytestmark = pytest.mark.requirement("S2-20", "S2-50")
LEANING = [np.cos(0.25), np.sin(0.25), 0.0, 0.0]
MOMENTS = np.array([1.0, 2.0, 3.0])


@tp.hamiltonian
def top(
    R: tp.Rotor, L: tp.Vec[3], moments: tp.Vec[3] = (1.0, 2.0, 3.0), mgl: float = 1.0, gamma: float = 0.1
):
    return (L**2 / moments).sum() / 2 + mgl * tp.rotate(R, [0.0, 0.3, 1.0])[2]


@tp.hamiltonian(bracket="so3")
def free(L: tp.Vec[3], moments: tp.Vec[3] = (1.0, 2.0, 3.0)):
    return (L**2 / moments).sum() / 2


@tp.hamiltonian(bracket="se3")
def heavy(L: tp.Vec[3], G: tp.Vec[3], moments: tp.Vec[3] = (1.0, 2.0, 3.0)):
    return (L**2 / moments).sum() / 2 + G[2] - 0.3 * G[0]


@tp.hamiltonian
def dumbbell(n: tp.Axis, L: tp.Vec[3]):
    return L @ L / 2 + n[2]


@tp.hamiltonian
def kite(x: tp.Vec[3], p: tp.Vec[3], R: tp.Rotor, L: tp.Vec[3]):
    pull = x + tp.rotate(R, [0.0, 0.0, 0.5])
    return p @ p / 4 + L[0] ** 2 / 2 + L[1] ** 2 / 4 + L[2] ** 2 / 6 + pull @ pull / 2


@tp.hamiltonian(bracket="spin")
def spin(S: tp.Vec[3]):
    return -S[2]


STARTS = {
    "top": dict(R=LEANING, L=[0.3, 0.2, 3.0]),
    "free": dict(L=[0.5, 1.1, 0.7]),
    "heavy": dict(L=[0.3, 0.2, 2.0], G=[0.6, 0.0, 0.8]),
    "dumbbell": dict(n=[0.6, 0.0, 0.8], L=[0.0, 0.7, 0.0]),
    "kite": dict(x=[0.4, 0.1, -0.2], p=[0.1, 0.3, 0.2], R=LEANING, L=[0.3, 0.2, 0.9]),
}
SYSTEMS = [top, free, heavy, dumbbell, kite]


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda s: s.name)
def test_one_rate_multiplies_the_bracket_by_a_factor(system):
    sim, start = tp.compile(system, dt=0.05, friction=0.3), STARTS[system.name]
    assert sim.certificate.level == "conformally-poisson"
    assert [bool(v) for v in sim.certificate.values()] == [True, True, True, False, True]
    assert "f = exp(-0.3 dt)" in sim.certificate.conformally_poisson.because
    found = sim.check(**start)
    assert found.symplectic and found.order == pytest.approx(2, abs=0.05)


def test_the_length_of_a_momentum_falls_by_its_law():
    """|L|² is multiplied by exp(-2 rate dt) in every step, exactly; L·G of se3 by exp(-rate dt), and |G| is kept."""
    sim = tp.compile(free, dt=0.02, friction=0.1)
    assert "|L|² falls by exp(-2*0.1 dt)" in sim.certificate.conformally_poisson.because
    out = sim.evolve(**STARTS["free"], steps=5_000, save_every=1_000)
    squares = (out.L**2).sum(-1)
    assert squares / squares[0] == pytest.approx(np.exp(-0.2 * out.t), rel=1e-11)
    sim = tp.compile(heavy, dt=0.02, friction=0.1)
    assert "L·G falls by exp(-0.1 dt)" in sim.certificate.conformally_poisson.because
    out = sim.evolve(**STARTS["heavy"], steps=1_000, save_every=100)
    along = (out.L * out.G).sum(-1)
    assert along / along[0] == pytest.approx(np.exp(-0.1 * out.t), rel=1e-11)
    assert (out.G**2).sum(-1) == pytest.approx(1.0, rel=1e-12)


def equations(t: float, y: np.ndarray) -> np.ndarray:
    """`heavy` with friction 0.3, written by hand."""
    L, G = y[:3], y[3:]
    w, g = L / MOMENTS, np.array([-0.3, 0.0, 1.0])
    return np.concatenate([np.cross(L, w) + np.cross(G, g) - 0.3 * L, np.cross(G, w)])


@pytest.mark.parametrize(
    "method, order", [("rotations", 2), ("rotations4", 4), ("lie_cayley", 2), ("lie_cayley4", 4), ("rk4", 4)]
)
def test_a_damped_top_converges_to_its_equations(method, order):
    start = STARTS["heavy"]
    known = solve_ivp(equations, (0, 2), np.concatenate([*start.values()]), rtol=1e-12, atol=1e-13).y[:, -1]
    errors = []
    for dt in (0.1, 0.05):
        end = tp.compile(heavy, dt=dt, friction=0.3, method=method).evolve(**start, until=2.0).final
        errors.append(np.abs(np.concatenate([end.L, end.G]) - known).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.25)


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda s: s.name)
def test_what_friction_takes_of_bodies_is_booked(system):
    sim, start = tp.compile(system, dt=0.02, friction=0.3, order=4), STARTS[system.name]
    out = sim.evolve(**start, until=4.0)
    taken = out.ledger["friction"]
    assert out.energy[-1] < out.energy[0] and taken[-1] > 0
    assert out.energy + taken == pytest.approx(out.energy[0], abs=1e-7)
    assert out.drift("energy") < 1e-7 and "friction" in out.metrics["drift"]["energy"]


def test_several_rates_keep_the_factor_of_volumes_alone():
    for rates in ([0.1, 0.2, 0.3], {"L": 0.1}):
        system = kite if isinstance(rates, dict) else free
        sim = tp.compile(system, dt=0.05, friction=rates)
        assert not sim.certificate.conformally_poisson and sim.certificate.volume_factor
        assert "one rate" in sim.certificate.conformally_poisson.because
        found = sim.check(**STARTS[system.name])
        assert not found.symplectic and found.order == pytest.approx(2, abs=0.05)


def test_friction_that_is_not_what_it_says_is_seen():
    text = tp.compile(free, dt=0.05, friction=0.3).ir("tpir")
    plain = "\n".join(x for x in text.splitlines() if not x.startswith("claim"))
    relax = next(x for x in plain.splitlines() if "RELAX" in x and "step" not in x)
    assert verify(parse(plain)).conformally_poisson
    target = relax.split()[1].split(":")[0]
    kept = plain.replace(relax, relax.replace(relax.split(", ")[1], target), 1)
    assert not verify(parse(kept)).volume_factor


@tp.hamiltonian(bracket="contact")
def contact(q, p, s, gamma: float = 0.1):
    return p**2 / 2 + gamma * s


@tp.hamiltonian(bracket=lambda z: [[0.0, z[0] * z[1]], [-z[0] * z[1], 0.0]])
def hares(z: tp.Vec[2]):
    return z[0] + z[1]


# --- time ------------------------------------------------------------------------------------------
@tp.hamiltonian
def shaken(R: tp.Rotor, L: tp.Vec[3], t):
    """A potential that depends on t."""
    swings = 1 + 0.5 * tp.sin(2 * t)
    return L[0] ** 2 / 2 + L[1] ** 2 / 4 + L[2] ** 2 / 6 + swings * tp.rotate(R, [0.0, 0.3, 1.0])[2]


@tp.hamiltonian
def opening(R: tp.Rotor, L: tp.Vec[3], t):
    """Two of three moments that depend on t, and a part of the energy that is none of momenta."""
    swings = 1 + 0.3 * tp.cos(t)
    return (L[0] ** 2 / 2 + L[1] ** 2 / 4) * swings + L[2] ** 2 / 6 + tp.rotate(R, [0.0, 0.3, 1.0])[2]


@tp.hamiltonian
def all_of_it(R: tp.Rotor, L: tp.Vec[3], t):
    swings, slow = 1 + 0.5 * tp.sin(2 * t), 1 + 0.3 * tp.cos(t)
    turns = (L[0] ** 2 + 1) / 2 + L[1] ** 2 / 4 + L[2] ** 2 / 6
    return slow * turns + swings * tp.rotate(R, [0.0, 0.3, 1.0])[2]


@tp.hamiltonian(bracket="spin")
def resonance(S: tp.Vec[3], t, b: float = 0.5):
    return -S[2] - b * (S[0] * tp.cos(2 * t) + S[1] * tp.sin(2 * t)) + 0.2 * S[2] ** 2


TIMED = [shaken, opening, all_of_it, resonance]


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("system", TIMED, ids=lambda s: s.name)
def test_turns_in_fields_that_depend_on_time_have_their_order(system, order):
    """With t frozen in a step, order 4 would have slope 1 (numerics: 13)."""
    start = dict(S=[0.6, 0.0, 0.8]) if system is resonance else STARTS["top"]
    known = tp.compile(system, dt=0.002, method="rk4").evolve(**start, until=2.0).final
    errors = []
    for dt in (0.1, 0.05):
        sim = tp.compile(system, dt=dt, order=order)
        out = sim.evolve(**start, until=2.0)
        errors.append(max(np.abs(out.final[name] - known[name]).max() for name in start))
        assert out.drift("energy") < 2e-3 * dt**order * 10**order and out.metrics["drift"]["energy"] != "H"
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.2)
    assert sim.certificate.poisson and sim.certificate.symmetric and sim.certificate.consistent
    assert not sim.certificate.reversible and sim.check(**start).symplectic


def test_a_turn_that_sees_the_wrong_time_is_seen():
    text = tp.compile(opening, dt=0.1).ir("tpir")
    plain = "\n".join(x for x in text.splitlines() if not x.startswith("claim"))
    frozen = plain.replace(", 0.5  ; t", ", 0.25  ; t")
    assert frozen != plain
    found = verify(parse(frozen))
    assert not found.symmetric and not found.consistent


def test_a_shaken_top_with_friction_books_both():
    sim = tp.compile(shaken, dt=0.02, friction=0.2, order=4)
    out = sim.evolve(**STARTS["top"], until=4.0)
    whole = out.energy + out.ledger["friction"] - out.ledger["drive"]
    assert sim.certificate.conformally_poisson and whole == pytest.approx(whole[0], abs=1e-6)
    assert np.ptp(out.energy) > 0.1


@pytest.mark.parametrize(
    "system, words, fix",
    [
        (spin, "Gilbert damping", "@tp.ode"),
        (contact, "contact energy", "gamma*s"),
        (hares, "no momenta", "@tp.ode"),
        (all_of_it, "kinetic energy depends on t", "potential"),
    ],
    ids=["spin", "contact", "J(z)", "T(L, t)"],
)
def test_what_friction_would_mean_elsewhere_is_said(system, words, fix):
    with pytest.raises(tp.PlanError) as error:
        tp.compile(system, dt=0.1, friction=0.1)
    assert words in str(error.value) and fix in error.value.fix


# --- what is given up ------------------------------------------------------------------------------
@pytest.mark.requirement("S3-20")
def test_energy_that_friction_takes_is_a_loss_with_its_amount():
    sim = tp.compile(top, dt=0.02, friction="gamma")
    (before,) = sim.explain("full").only("losses").sections[-1].rows
    assert before.name == "energy of the motion" and "booked in a run" in before.because
    out = sim.evolve(**STARTS["top"], gamma=[0.05, 0.1], steps=100)
    (loss,) = out.losses
    assert loss.amount == out.ledger["friction"][-1].max() and "friction=" in loss.restores


def test_a_pusher_says_that_it_gives_the_bracket_up_and_what_keeps_it():
    @tp.hamiltonian(bracket=tp.magnetic(lambda q: 1 + q[0] / 2))
    def charge(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2

    start = dict(q=[0.1, 0.2], p=[1.0, 0.0])
    (loss,) = tp.compile(charge, dt=0.1).evolve(**start, steps=3).losses
    assert loss.what == "the bracket of the motion" and loss.restores == 'method="symplectic"'
    assert tp.compile(charge, dt=0.1, method="symplectic").evolve(**start, steps=3).losses == ()
