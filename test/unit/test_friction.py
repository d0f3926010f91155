"""Friction inside splittings: exact factors, a factor of J that is proved and measured, and energies that are booked."""

from __future__ import annotations

import math
import re

import mpmath
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tinyphysics as tp
from tinyphysics import tpir
from tinyphysics.tpir import parse, verify

pytestmark = pytest.mark.requirement("S2-50")


@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - tp.cos(q)


@tp.hamiltonian
def spring(q, p, k: float = 1.0, gamma: float = 0.2):
    return p**2 / 2 + k * q**2 / 2


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + q @ q / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3


@tp.hamiltonian
def driven(q, p, t, gamma: float = 0.3):
    return p**2 / 2 - tp.cos(q) - 0.8 * q * tp.cos(0.6 * t)


@tp.hamiltonian
def rotor(q, p, c: float = 1.0):
    return tp.sqrt(p**2 + 1) - tp.cos(q)


@tp.hamiltonian
def chain(q: tp.Array["n"], p: tp.Array["n"]):  # noqa: F821
    d = q[1:] - q[:-1]
    return p @ p / 2 + (d**2 / 2 + d**4 / 4).sum()


def followed(rates, start, until):
    found = solve_ivp(rates, (0.0, until), start, method="DOP853", rtol=1e-13, atol=1e-13)
    return found.y[:, -1]


def error(system, truth, start, dt, until=30.0, **options):
    out = tp.compile(system, dt=dt, **options).evolve(**start, until=until).final
    return float(np.abs(np.concatenate([np.ravel(out[n]) for n in start]) - truth).max())


TRUTH = followed(lambda t, z: [z[1], -math.sin(z[0]) - 0.1 * z[1]], [2.0, 0.0], 30.0)


# --- accuracy ---------------------------------------------------------------------------------------------
def test_leapfrog_with_half_the_friction_at_both_ends_has_the_errors_of_the_table():
    options = dict(friction=0.1, method="leapfrog_kdk")
    coarse, fine = (error(pendulum, TRUTH, dict(q=2.0, p=0.0), dt, **options) for dt in (0.1, 0.05))
    assert coarse == pytest.approx(3.5e-3, rel=0.01) and fine == pytest.approx(8.7e-4, rel=0.01)


# steps at which the error of a method is neither rounding nor far from its limit
LENGTHS = {
    1: (0.02, "symplectic_euler"),
    2: (0.1, "leapfrog_kdk leapfrog_dkd"),
    4: (0.1, "yoshida4 suzuki4 mclachlan4 blanes_moan4 nystrom4 rk4"),
    6: (0.2, "kahan_li6 yoshida6 blanes_moan6"),
    8: (0.5, "kahan_li8"),
}


SLOW = ("leapfrog_dkd", "suzuki4", "mclachlan4", "rk4", "yoshida6", "blanes_moan6")
CASES = [
    pytest.param(order, name, marks=[pytest.mark.all] if name in SLOW else [])
    for order, (_, names) in LENGTHS.items()
    for name in names.split()
]


@pytest.mark.parametrize(("order", "name"), CASES)
def test_every_splitting_keeps_its_order_with_friction(order, name):
    def rates(t, z):
        x, y, u, v = z
        return [u, v, -x - 2 * x * y - 0.2 * u, -y - x**2 + y**2 - 0.2 * v]

    start, h = dict(q=[0.3, -0.2], p=[0.1, 0.25]), LENGTHS[order][0]
    truth = followed(rates, [0.3, -0.2, 0.1, 0.25], 8.0)
    coarse, fine = (error(henon_heiles, truth, start, x, 8.0, friction=0.2, method=name) for x in (h, h / 2))
    assert math.log2(coarse / fine) == pytest.approx(order, abs=0.35)


def test_time_is_seen_where_the_drifts_have_reached_it():
    def rates(t, z):
        return [z[1], -math.sin(z[0]) + 0.8 * math.cos(0.6 * t) - 0.3 * z[1]]

    truth = followed(rates, [0.5, 0.0], 10.0)
    for name, order in (("leapfrog_kdk", 2), ("leapfrog_dkd", 2), ("yoshida4", 4)):
        errors = [
            error(driven, truth, dict(q=0.5, p=0.0), h, 10.0, friction="gamma", method=name)
            for h in (0.1, 0.05)
        ]
        assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.3)


def test_methods_with_their_own_steps_follow_friction():
    start = dict(q=2.0, p=0.0)
    assert error(pendulum, TRUTH, start, 1.0, friction=0.1, method="taylor") < 1e-12
    assert error(pendulum, TRUTH, start, 1.0, friction=0.1, method="dop853") < 1e-8


def test_the_kinetic_energy_need_not_be_quadratic():
    def rates(t, z):
        return [z[1] / math.sqrt(z[1] ** 2 + 1), -math.sin(z[0]) - 0.1 * z[1]]

    truth, start = followed(rates, [1.0, 0.5], 10.0), dict(q=1.0, p=0.5)
    errors = [error(rotor, truth, start, h, 10.0, friction=0.1, method="leapfrog_kdk") for h in (0.1, 0.05)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.1)


def test_each_momentum_may_have_its_own_rate():
    @tp.hamiltonian
    def free(q: tp.Vec[3], p: tp.Vec[3]):
        return p @ p / 2

    sim = tp.compile(free, dt=0.1, friction=[0.0, 0.5, 2.0])
    out = sim.evolve(q=[0.0, 0.0, 0.0], p=[1.0, 1.0, 1.0], steps=20).final
    assert np.allclose(out.p, np.exp([0.0, -1.0, -4.0]), rtol=1e-14, atol=0)
    assert not sim.certificate.conformally_symplectic and sim.certificate.volume_factor
    assert "one rate" in sim.certificate.conformally_symplectic.because


# --- the proof ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["leapfrog_kdk", "leapfrog_dkd", "yoshida4", "blanes_moan4"])
def test_one_rate_is_proved_to_multiply_J(method):
    c = tp.compile(henon_heiles, dt=0.1, friction=0.1, method=method).certificate
    assert list(c) == ["conformally-symplectic", "volume-factor", "symmetric", "reversible", "consistent"]
    assert c.level == "conformally-symplectic" and "exp(-0.1 dt)" in c.conformally_symplectic.because
    assert "exp(-2*0.1 dt)" in c.volume_factor.because  # two momenta
    assert c.symmetric and c.consistent and not c.reversible


def test_the_factor_of_J_is_measured_too():
    sim = tp.compile(pendulum, dt=0.1, friction=0.1, method="leapfrog_kdk")
    found = sim.check(q=2.0, p=0.3)
    assert found.symplectic and "|MᵀJM - f J|" in str(found)
    h = 1e-6
    ends = [
        [sim.evolve(q=2.0 + s * dq, p=0.3 + s * dp, steps=1).final for s in (-h, h)]
        for dq, dp in ((1, 0), (0, 1))
    ]
    M = np.array([[(b.q - a.q) / (2 * h) for a, b in ends], [(b.p - a.p) / (2 * h) for a, b in ends]])
    assert np.linalg.det(M) == pytest.approx(math.exp(-0.01), abs=1e-9)  # in two dimensions MᵀJM = det M J
    tangents = tangent_matrix(sim, dict(q=2.0, p=0.3))
    J = np.array([[0.0, 1.0], [-1.0, 0.0]])
    assert np.abs(tangents.T @ J @ tangents - math.exp(-0.1 * 0.1) * J).max() < 1e-13


def tangent_matrix(sim, z):
    """The Jacobian of one step, by derivatives of the program."""
    from tinyphysics.runtime.measure.symplecticity import measure_symplectic

    (M, *_), *_ = measure_symplectic(sim, **z).of.jacobians
    return np.array([[float(x) for x in row] for row in M])


def test_method_symplectic_asks_for_the_factor():
    assert tp.compile(pendulum, dt=0.1, friction=0.1, method="symplectic").certificate.conformally_symplectic
    with pytest.raises(tp.PlanError, match="certified conformally-symplectic"):
        tp.compile(henon_heiles, dt=0.1, friction=[0.1, 0.2], method="symplectic")


WRONG = {  # a line, what it becomes, and what is seen of that
    "no decay": (r"(ELEM T\d+), exp,", r"\1, cosh,", "volume_factor", "not shown to be S1 times exp"),
    "half of it": (
        r"mul, (T\d+), \$dt\n(.*neg)",
        r"mul, \1, T3\n\2",
        "consistent",
        "enters with total weight 0.5",
    ),
    "another rate": (
        r"RELAX S1, (T\d+), 0.1(?=.*\n *GRAD)",
        r"RELAX S1, \1, 0.2",
        "consistent",
        "declares another rate",
    ),
    "growth": (
        r"mul, (T\d+), \$dt\n(.*)neg, (T\d+)",
        r"mul, \1, $dt\n\2mul, \3, 1.0",
        "consistent",
        "weight -1",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_factor_is_seen(name):
    line, other, verdict, why = WRONG[name]
    text = tp.compile(pendulum, dt=0.1, friction=0.1, method="leapfrog_kdk").ir("tpir")
    wrong = re.sub(line, other, text)
    assert wrong != text
    found = verify(parse("\n".join(x for x in wrong.splitlines() if not x.startswith("claim"))))
    assert not found[verdict] and why in found[verdict].because


def test_a_flow_that_was_computed_before_friction_is_stale():
    text = """
    program stale
    state S0 q f64[] position
    state S1 p f64[] momentum of S0
    param $dt f64[]
    energy:
      ELEM T0, mul, S1, S1
      ELEM E0, mul, T0, 0.5
    init:
      LOAD S0, &q
      LOAD S1, &p
      ELEM T1, mul, 0.1, $dt
      ELEM T2, neg, T1
      ELEM T3, exp, T2
    step:
      GRAD_INIT G1, S1
      POISSON_J F0, G1, pass
      ELEM T4, mul, S1, T3
      RELAX S1, T4, 0.1
      SYMP_STEP S0, F0, $dt
    final:
      STORE &q, S0
      STORE &p, S1
    """
    found = verify(parse("\n".join(line.strip() for line in text.strip().splitlines())))
    assert not found.volume_factor and not found.conformally_symplectic
    assert "computed from S1@0" in found.conformally_symplectic.because


def test_friction_of_one_momentum_alone_is_no_factor_of_J():
    @tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])
    def two(x, px, y, py):
        return px**2 / 2 + py**2 / 2 + x**2 * y**2

    both = tp.compile(two, dt=0.1, friction=0.1).certificate
    one = tp.compile(two, dt=0.1, friction={"px": 0.1}).certificate
    assert (
        both.conformally_symplectic
        and not one.conformally_symplectic
        and one.volume_factor
        and one.consistent
    )


# --- books --------------------------------------------------------------------------------------------------
def test_energy_and_what_friction_took_are_conserved_together():
    drifts = []
    for dt in (0.1, 0.05):
        out = tp.compile(pendulum, dt=dt, friction=0.1, method="leapfrog_kdk").evolve(
            q=2.0, p=0.0, until=30.0, save_every=1
        )
        drifts.append(out.drift("energy"))
        taken = out.ledger["friction"]
        assert list(out.ledger) == ["friction"] and taken[0] == 0.0 and np.all(np.diff(taken) >= 0)
        assert out.metrics["drift"]["energy"] == "H, and what is booked as friction"
        S = out.every_step("energy")[2]
        assert np.abs(out.energy + taken - out.energy[0]).max() / S == pytest.approx(drifts[-1], rel=1e-9)
    assert drifts[0] < 2e-3 and drifts[0] / drifts[1] == pytest.approx(4, rel=0.1)


def test_a_drive_and_friction_have_books_of_their_own():
    out = tp.compile(driven, dt=0.02, friction="gamma").evolve(q=0.5, p=0.0, until=20.0, frames=11)
    books = out.ledger
    assert list(books) == ["friction", "drive"]
    total = out.energy + books["friction"] - books["drive"]
    assert np.abs(total - total[0]).max() < 2e-3 and out.drift("energy") < 1e-3
    t, values, _ = out.every_step("drive")
    assert len(t) == 1001 and values[-1] == books["drive"][-1]

    def rates(t, z):
        force = 0.8 * math.cos(0.6 * t)
        # H holds -q F(t), so what the drive gives is the integral of -q F'(t)
        return [z[1], -math.sin(z[0]) + force - 0.3 * z[1], 0.3 * z[1] ** 2, 0.48 * math.sin(0.6 * t) * z[0]]

    *_, taken, given = followed(rates, [0.5, 0.0, 0.0, 0.0], 20.0)
    assert books["friction"][-1] == pytest.approx(taken, rel=1e-3)
    assert books["drive"][-1] == pytest.approx(given, abs=1e-3)


def test_a_run_without_friction_and_drive_has_an_empty_ledger():
    assert tp.compile(pendulum, dt=0.1).evolve(q=1.0, p=0.0, steps=3).ledger == {}


def test_a_step_is_measured_against_the_factor_of_the_motion():
    """Of one pair, DΦᵀ J DΦ is some multiple of J for every map: f is exp(-rate*dt), and not what the step happens to have."""
    sim = tp.compile(pendulum, dt=0.4, friction=0.1, method="rk4")

    def step(q, p):
        end = sim.evolve(q=q, p=p, steps=1).final
        return np.array([end.q, end.p])

    e = 1e-4
    M = np.stack([step(1 + e, 0.5) - step(1 - e, 0.5), step(1, 0.5 + e) - step(1, 0.5 - e)], 1) / (2 * e)
    off = np.linalg.det(M) * math.exp(0.04) - 1
    found = sim.check(q=1.0, p=0.5)
    assert off > 1e-6 and not found.symplectic and found.volume_factor[0] == pytest.approx(off, rel=1e-2)
    assert "is not conformally-symplectic" in str(found) and "over the factor of friction, less 1" in str(
        found
    )
    assert list(sim.certificate) == list(tp.compile(pendulum, dt=0.4, friction=0.1).certificate)
    assert not any(sim.certificate.values())


def test_forces_of_no_energy_have_friction_too():
    @tp.forces
    def curl(q: tp.Vec[2]):
        return tp.stack([-q[0] + 0.1 * q[1] ** 2, -q[1] - 0.3 * q[0]])

    sim = tp.compile(curl, dt=0.1, friction=0.1)
    found = sim.check(q=[1.0, 0.3], p=[0.2, 0.1])
    assert sim.certificate.volume_factor and max(map(abs, found.volume_factor)) < 2.0**-90
    assert not sim.certificate.conformally_symplectic and not found.symplectic

    def rates(t, z):
        return [z[2], z[3], -z[0] + 0.1 * z[1] ** 2 - 0.1 * z[2], -z[1] - 0.3 * z[0] - 0.1 * z[3]]

    truth, start = followed(rates, [1.0, 0.3, 0.2, 0.1], 5.0), dict(q=[1.0, 0.3], p=[0.2, 0.1])
    coarse, fine = (error(curl, truth, start, h, 5.0, friction=0.1) for h in (0.1, 0.05))
    assert fine < 1e-3 and 3.9 < coarse / fine < 4.1


def test_runge_kutta_books_what_friction_takes():
    out = tp.compile(pendulum, dt=0.05, friction=0.1, method="rk4").evolve(q=2.0, p=0.0, until=10.0)
    assert out.drift("energy") < 1e-6 and out.ledger["friction"][-1] == pytest.approx(
        out.energy[0] - out.energy[-1], rel=1e-5
    )


def test_explain_and_conserved_say_what_is_booked():
    sim = tp.compile(henon_heiles, dt=0.1, friction=0.1)
    assert "out.ledger" in str(sim.explain()) and sim.conserved == ()


# --- the same bits ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("precision", ["float64", "float32", "mixed", "compensated", "dd"])
def test_all_backends_have_the_same_bits(precision):
    start = dict(q=[[0.3, -0.2], [0.1, 0.1]], p=[[0.1, 0.25], [0.0, -0.3]])
    hashes = {
        b: tp.compile(henon_heiles, dt=0.1, friction=0.1, backend=b, precision=precision)
        .evolve(**start, steps=40)
        .hash
        for b in ("python", "numpy", "llvm", "c")
    }
    assert len(set(hashes.values())) == 1, hashes


def test_arrays_in_loops_have_the_bits_of_numbers():
    rng = np.random.default_rng(3)
    start = dict(q=rng.normal(size=200), p=rng.normal(size=200))
    outs = [
        tp.compile(chain, dt=0.05, friction=0.2, backend=b).evolve(**start, steps=20)
        for b in ("llvm", "numpy", "c")
    ]
    assert len({out.hash for out in outs}) == 1


def test_an_ensemble_over_rates_is_its_members():
    rates = [0.0, 0.1, 0.4]
    sim = tp.compile(spring, dt=0.1, friction="gamma", method="leapfrog_kdk")
    many = sim.evolve(q=[1.0] * 3, p=[0.0] * 3, gamma=rates, steps=50)
    for k, rate in enumerate(rates):
        one = sim.evolve(q=1.0, p=0.0, gamma=rate, steps=50)
        assert many.q[-1][k] == one.q[-1] and many.p[-1][k] == one.p[-1]
    still = tp.compile(spring, dt=0.1, method="leapfrog_kdk").evolve(q=1.0, p=0.0, steps=50)
    assert many.q[-1][0] == pytest.approx(still.q[-1], abs=1e-13)


def test_frames_checkpoints_and_resumed_runs_have_the_bits_of_one_run(tmp_path):
    sim = tp.compile(henon_heiles, dt=0.1, friction=0.1, order=4)
    start, file = dict(q=[0.3, -0.2], p=[0.1, 0.25]), tmp_path / "run.checkpoint"
    whole = sim.evolve(**start, steps=30, save_every=1)
    assert np.array_equal(sim.evolve(**start, steps=17).p[-1], whole.p[17])
    sim.evolve(**start, steps=17, checkpoint=file)
    again = sim.evolve(resume=file, steps=13)
    assert np.array_equal(again.p[-1], whole.p[-1]) and np.array_equal(again.q[-1], whole.q[-1])


def test_a_saved_simulation_keeps_its_friction(tmp_path):
    sim = tp.compile(pendulum, dt=0.1, friction=0.1)
    sim.save(tmp_path / "sim.tp")
    again = tp.load(tmp_path / "sim.tp")
    assert again.tpir.hash == sim.tpir.hash and again.system.friction


def test_the_exponents_of_all_directions_add_up_to_the_rate():
    """Areas shrink as exp(-rate t), whatever an orbit does."""
    found = tp.compile(driven, dt=0.1, friction="gamma").lyapunov(q=0.5, p=0.0, until=100.0, spectrum="all")
    assert np.sum(found.spectrum) == pytest.approx(-0.3, abs=1e-12)


def test_a_step_can_be_taken_back():
    sim = tp.compile(pendulum, dt=0.1, friction=0.1)
    out = sim.evolve(q=2.0, p=0.0, steps=20)
    back = sim.rewind(out, 20)
    assert back.q[-1] == pytest.approx(2.0, abs=1e-12) and back.p[-1] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.all
def test_goals_measure_the_energy_with_its_ledger():
    sim = tp.compile(pendulum, friction=0.1, energy_drift=1e-5, pilot=dict(q=2.0, p=0.0))
    assert sim.evolve(q=2.0, p=0.0, until=20.0).drift("energy") < 1e-5


# --- quadratic energies: one jump -------------------------------------------------------------------------------------
@tp.hamiltonian
def pushed(q, p, m: float = 1.0, k: float = 1.0, f: float = 0.0, gamma: float = 0.1):
    return p**2 / (2 * m) + k * q**2 / 2 + f * q


@tp.hamiltonian
def joined(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + q @ q / 2 + 0.3 * (q[0] - q[1]) ** 2


def in_digits(rows, t, z):
    with mpmath.workdps(40):
        return np.array(
            (mpmath.expm(mpmath.matrix(rows) * mpmath.mpf(t)) * mpmath.matrix(z)).tolist(), float
        )[:, 0]


@pytest.mark.parametrize(
    "k, gamma, f",
    [(1, 0.1, 0), (1, 2, 0), (1, 5, 0.3), (0, 0.5, 0.3), (0, 0, 0.2), (-1, 0.5, 0.1), (1, 2.0000001, 0.2), (1e-3, 3, 0.1)],
)  # fmt: skip
def test_a_damped_oscillator_is_one_jump_whatever_its_damping(k, gamma, f):
    sim = tp.compile(pushed, dt=0.125, friction="gamma")
    assert sim.built.plan.method == "exact_flow" and sim.certificate.conformally_symplectic
    out = sim.evolve(q=1.0, p=0.5, k=k, gamma=gamma, f=f, steps=80).final
    wanted = in_digits([[0, 1, 0], [-k, -gamma, -f], [0, 0, 0]], 10.0, [1.0, 0.5, 1.0])
    assert np.abs([out.q - wanted[0], out.p - wanted[1]]).max() < 1e-15 * max(1.0, np.abs(wanted).max())


def test_members_with_their_own_rates_have_the_bits_that_they_have_alone_and_go_on(tmp_path):
    sim = tp.compile(pushed, dt=0.1, friction="gamma")
    rates = [0.0, 0.1, 2.0, 7.0]
    out = sim.evolve(q=1.0, p=0.5, gamma=rates, steps=90)
    for k, gamma in enumerate(rates):
        assert sim.evolve(q=1.0, p=0.5, gamma=gamma, steps=90).final.q == out.final.q[k]
    sim.evolve(q=1.0, p=0.5, gamma=rates, steps=30, checkpoint=tmp_path / "c")
    assert sim.evolve(steps=60, resume=tmp_path / "c").hash == out.hash


def test_what_has_come_to_rest_stays_there():
    out = tp.compile(pushed, dt=1.0, friction="gamma").evolve(q=1.0, p=0.5, gamma=[0.1, 2.0, 5.0], steps=1e6)
    assert np.isfinite(out.q).all() and (out.final.q == 0.0).all()
    assert np.abs(out.ledger["friction"][-1] - 0.625).max() < 1e-15


def test_the_books_of_a_jump_are_what_is_gone_and_agree_with_those_of_steps():
    out = tp.compile(pushed, dt=0.1, friction="gamma").evolve(q=1.0, p=0.5, steps=100, frames=5)
    loop = tp.compile(pushed, dt=0.01, order=6, friction="gamma").evolve(q=1.0, p=0.5, steps=1000, frames=5)
    assert np.abs(out.ledger["friction"] - loop.ledger["friction"]).max() < 1e-10
    assert out.drift("energy") == 0.0 and "what is gone" in out.metrics["drift"]["energy"]
    assert out.energy[0] == pytest.approx(out.energy[-1] + out.ledger["friction"][-1], rel=1e-15)


def test_coupled_pairs_jump_with_one_rate_and_with_several_where_that_is_asked_for():
    for friction, options, holds in ((0.2, {}, True), ([0.2, 0.5], {"propagator": "exact"}, False)):
        sim = tp.compile(joined, dt=0.125, friction=friction, **options)
        assert sim.built.plan.method == "exact_flow"
        assert bool(sim.certificate.conformally_symplectic) is holds and sim.certificate.volume_factor
        end = sim.evolve(q=[1.0, 0.0], p=[0.0, 0.2], steps=40).final
        g = np.broadcast_to(friction, 2)
        rows = [[0, 0, 1, 0], [0, 0, 0, 1], [-1.6, 0.6, -g[0], 0], [0.6, -1.6, 0, -g[1]]]
        assert np.abs(np.r_[end.q, end.p] - in_digits(rows, 5.0, [1.0, 0.0, 0.0, 0.2])).max() < 1e-15
    assert tp.compile(joined, dt=0.1, friction=[0.2, 0.5]).built.plan.method != "exact_flow"


def test_the_listing_of_a_damped_jump_is_proved_and_means_the_same():
    sim = tp.compile(pushed, dt=0.1, friction="gamma")
    text = str(sim.ir("tpir"))
    program = tpir.parse(text)
    assert tpir.verify(program).conformally_symplectic
    ends = tpir.vm.run(program, {"q": 1.0, "p": 0.5}, 50, {"m": 1.0, "k": 1.0, "f": 0.0, "gamma": 0.1}, 0.1)
    assert abs(ends["q"] - sim.evolve(q=1.0, p=0.5, steps=50).final.q) < 1e-16
    with pytest.raises(tp.VerifyError):
        tpir.verify(tpir.parse(text.replace(", E2, 1.0", ", E2, 2.0")))


def slopes_in_digits(given, t):
    """Of q(t) of `pushed` by everything that it depends on: differences of its matrix in 90 digits."""

    def q_at(x):
        a = mpmath.matrix([[0, 1 / x["m"], 0], [-x["k"], -x["gamma"], -x["f"]], [0, 0, 0]])
        return (mpmath.expm(a * x["t"]) * mpmath.matrix([x["q"], x["p"], 1]))[0]

    with mpmath.workdps(90):
        x, h = {n: mpmath.mpf(v) for n, v in given.items()} | {"t": t}, mpmath.mpf(10) ** -30
        return {n: float((q_at({**x, n: v + h}) - q_at({**x, n: v - h})) / (2 * h)) for n, v in x.items()}


@pytest.mark.requirement("S2-40")
@pytest.mark.parametrize("k, gamma, m", [(1.3, 0.2, 1.5), (1.0, 2.0, 1.0), (0.8, 5.0, 2.0), (0.0, 0.5, 1.0)])
def test_the_gradient_of_a_damped_jump_is_that_of_the_closed_form(k, gamma, m):
    """Damped, critically damped, overdamped, free: by states, the spring, the mass, the force, the rate and dt."""
    given = dict(q=1.0, p=0.3, m=m, k=k, f=0.4, gamma=gamma)
    sim = tp.compile(pushed, dt=0.125, friction="gamma")
    grads = sim.grad(lambda out: out.final.q, **given, steps=80, wrt=[*given, "dt"])
    assert grads.report.past == "jump"
    truth = slopes_in_digits(given, 10)
    for name in given:
        assert grads[name] == pytest.approx(truth[name], rel=1e-15, abs=0.0), name
    assert grads["dt"] == pytest.approx(80 * truth["t"], rel=1e-13)


def test_the_gradient_of_what_has_nearly_come_to_rest_keeps_its_digits():
    given = dict(q=1.0, p=0.3, m=1.0, k=1.3, f=0.0, gamma=0.25)
    sim = tp.compile(pushed, dt=0.125, friction="gamma")
    grads = sim.grad(lambda out: out.final.q, **given, steps=10_000, wrt=["q", "k", "gamma"])
    with mpmath.workdps(120):
        h = mpmath.mpf(10) ** -30

        def q_at(k, gamma):
            d, t = mpmath.sqrt(k - gamma**2 / 4), 1250
            s, c = mpmath.sin(d * t) / d, mpmath.cos(d * t)
            return mpmath.exp(-gamma * t / 2) * (c + (mpmath.mpf(0.3) + gamma / 2) * s)

        k, gamma = mpmath.mpf(1.3), mpmath.mpf(0.25)
        by_k = float((q_at(k + h, gamma) - q_at(k - h, gamma)) / (2 * h))
        by_gamma = float((q_at(k, gamma + h) - q_at(k, gamma - h)) / (2 * h))
    assert 0.0 < abs(by_k) < 1e-60
    assert [grads["k"], grads["gamma"]] == pytest.approx([by_k, by_gamma], rel=1e-15, abs=0.0)


def test_gradients_of_damped_members_frames_and_unequal_rates():
    sim = tp.compile(pushed, dt=0.125, friction="gamma")
    given = dict(q=np.array([1.0, 0.5]), p=np.array([0.3, -0.2]), k=1.3, gamma=np.array([0.2, 3.0]))

    def loss(out):
        return (out.q**2).sum()

    both = sim.grad(loss, **given, until=7.03, save_every=20, per_member=True)
    for i in (0, 1):
        one = {n: v[i] if np.ndim(v) else v for n, v in given.items()}
        alone = sim.grad(loss, **one, until=7.03, save_every=20)
        assert all(both[n][i] == alone[n] for n in ("q", "p", "k", "gamma", "f"))
    pulled = sim.vjp({"q": 1.0, "p": -2.0}, q=1.0, p=0.3, steps=40)
    found = sim.grad(lambda out: out.final.q - 2.0 * out.final.p, q=1.0, p=0.3, steps=40)
    assert all(pulled[n] == found[n] for n in ("q", "p", "k", "gamma"))
    uneven = tp.compile(joined, dt=0.125, friction=[0.2, 0.5], propagator="exact")
    grads = uneven.grad(lambda out: out.final.q[0], q=[1.0, 0.0], p=[0.0, 0.2], steps=40, wrt=["q", "p"])
    columns = [
        uneven.evolve(q=row[:2], p=row[2:], steps=40).final.q[0] for row in np.eye(4)
    ]  # the flow is linear
    assert np.abs(np.r_[grads["q"], grads["p"]] - columns).max() < 1e-15


def test_a_cotangent_that_shrinks_in_a_flow_that_grows_is_not_lost_in_it():
    """k = -2 with a rate of 1 grows as exp(t) and shrinks as exp(-2 t): the cotangent (-1, 1) only shrinks."""
    sim = tp.compile(spring, dt=0.125, friction="gamma")
    pulled = sim.vjp({"q": -1.0, "p": 1.0}, q=1.0, p=3.0, k=-2.0, gamma=1.0, steps=400)
    assert [pulled["q"], pulled["p"]] == pytest.approx([-math.exp(-100), math.exp(-100)], rel=1e-3, abs=0.0)
