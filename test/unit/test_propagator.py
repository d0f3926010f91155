"""Are n steps at once what n steps, or the flow, would be?  Against closed forms, the loop, mpmath and the virtual machine."""

import math
import os
import pickle
import subprocess
import sys
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mpmath
import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.errors import PlanError, VerifyError
from tinyphysics.physics.chains import oscillators
from tinyphysics.physics.fields import wave
from tinyphysics.planner.choice import propagator as planner
from tinyphysics.runtime.engines import propagator as runtime
from tinyphysics.tpir import parse, verify, vm

ROOT = Path(__file__).parents[2]


@tp.hamiltonian
def oscillator(q, p, k: float = 1.0):
    return p**2 / 2 + k * q**2 / 2


@tp.hamiltonian
def free_chain(q: tp.Vec["n"], p: tp.Vec["n"], k: float = 1.0):
    stretch = tp.diff(q)
    return p @ p / 2 + k * (stretch @ stretch) / 2


@tp.hamiltonian
def falling(q: tp.Vec[2], p: tp.Vec[2], g: float = 9.81, m: float = 2.0):
    return p @ p / (2 * m) + m * g * q[1]


@tp.hamiltonian
def rotating(q: tp.Vec[2], p: tp.Vec[2], w: float = 0.5):
    return p @ p / 2 + q @ q / 2 - w * (q[0] * p[1] - q[1] * p[0])


@tp.hamiltonian
def saddle(q, p, k: float = 1.0):
    return p**2 / 2 - k * q**2 / 2


@tp.hamiltonian
def ring(q: tp.Vec["n"], p: tp.Vec["n"], k: float = 1.0, onsite: float = 0.0, f: float = 0.0):
    stretch = tp.roll(q, -1) - q
    return (p @ p + k * (stretch @ stretch) + onsite * (q @ q)) / 2 + f * q.sum()


@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - tp.cos(q)


def exact(system, dt=0.01, **options):
    return tp.compile(system, dt, propagator="exact", **options)


def power(system, dt=0.01, **options):
    return tp.compile(system, dt, propagator="method", **options)


def random_state(n, seed=0):
    rng = np.random.default_rng(seed)
    return {"q": rng.normal(size=n), "p": rng.normal(size=n)}


# --- closed forms ---------------------------------------------------------------------------------------
@pytest.mark.requirement("S2-07")
@pytest.mark.parametrize("steps", [1, 1e6, 1e9, 1e12])
def test_the_oscillator_turns_by_omega_t(steps):
    out = exact(oscillator).evolve(q=1.0, p=0.0, steps=steps)
    with mpmath.workdps(50):
        t = mpmath.mpf(0.01) * int(steps)
        assert out.final.q == float(mpmath.cos(t)) and out.final.p == float(-mpmath.sin(t))
    assert out.final.step == steps


@pytest.mark.requirement("S2-04")
def test_the_method_and_the_flow_part_by_the_phase_error_of_leapfrog():
    a, b = exact(oscillator), power(oscillator)
    x, y = (sim.evolve(q=1.0, p=0.0, steps=1e9).final for sim in (a, b))
    with mpmath.workdps(40):
        h = mpmath.mpf(0.01)
        wanted = 10**9 * (2 * mpmath.asin(h / 2) - h)
    assert abs(float(wanted) - 41.66714) < 1e-5
    found = math.atan2(-y.p, y.q) - math.atan2(-x.p, x.q)
    # of leapfrog an ellipse is drawn, flatter than the circle by (omega dt)**2/8
    assert abs((found - float(wanted) + math.pi) % (2 * math.pi) - math.pi) < 2e-5


def test_a_body_that_falls_does_so_exactly():
    out = exact(falling, dt=0.125).evolve(q=[0.0, 1.0], p=[1.0, 3.0], steps=4096, g=10.0)
    t = 512.0
    assert out.final.q[0] == t / 2 and out.final.q[1] == 1.0 + 1.5 * t - 5 * t * t
    assert out.final.p[1] == 3.0 - 20.0 * t


def test_what_runs_away_does_so_as_the_hyperbola_does():
    out = exact(saddle).evolve(q=1.0, p=0.5, steps=2000, k=2.0)
    with mpmath.workdps(40):
        t, w = mpmath.mpf(0.01) * 2000, mpmath.sqrt(2)
        q = mpmath.cosh(w * t) + mpmath.mpf(0.5) * mpmath.sinh(w * t) / w
    assert out.final.q == pytest.approx(float(q), rel=1e-15)


@pytest.mark.parametrize(("w", "by"), [(0.5, "modes"), (1.0, "modes"), (1.5, "modes"), (0.0, "normal form")])
def test_a_rotating_frame_mixes_q_and_p(w, by):
    """Slower than the oscillator its energy is definite; as fast, it has a zero; faster, it is a saddle that does not run away."""
    sim = exact(rotating)
    out = sim.evolve(q=[1.0, 0.0], p=[0.0, 0.0], steps=10**8, w=w)
    assert out.metrics["propagator"]["by"] == by and out.metrics["propagator"]["area_error"] < 1e-25
    with mpmath.workdps(40):  # an oscillator that is looked at from a frame which turns
        t = mpmath.mpf(0.01) * 10**8
        x = [mpmath.cos(t) * mpmath.cos(w * t), mpmath.cos(t) * mpmath.sin(w * t)]
    off = min(np.abs(out.final.q - np.array([float(x[0]), s * float(x[1])])).max() for s in (1, -1))
    assert off < 1e-15


def test_many_that_are_mixed_go_by_the_normal_form_as_few_do_in_whole_numbers():
    rng = np.random.default_rng(8)
    q, p = rng.normal(size=(2, 3, 30))
    out = exact(whirling).evolve(q=q, p=p, steps=10**7)
    few = exact(whirling).evolve(q=q[:, :5], p=p[:, :5], steps=10**7)
    assert out.metrics["propagator"]["by"] == "normal form"
    assert np.abs(out.final.q[:, :5] - few.final.q).max() < 1e-14  # each turns for itself
    again = vm.run(exact(whirling, sizes={"n": 5}).tpir, {"q": list(q[0, :5]), "p": list(p[0, :5])}, 10**7)
    assert np.abs(np.array(again["q"]) - few.final.q[0]).max() < 1e-15


# --- against the loop -------------------------------------------------------------------------------------
@pytest.mark.requirement("S2-01")
@pytest.mark.parametrize(
    "method", ["leapfrog", "leapfrog_dkd", "symplectic_euler", "yoshida4", "kahan_li6", "kahan_li8"]
)
def test_a_power_is_what_the_loop_gives(method):
    start = random_state(8)
    for system, given in ((oscillators, {"onsite": 0.3}), (free_chain, {}), (ring, {"f": 0.2})):
        loop = tp.compile(system, 0.05, method=method, propagator="loop").evolve(**start, **given, steps=5000)
        jump = power(system, 0.05, method=method).evolve(**start, **given, steps=5000)
        for name in "qp":
            assert np.abs(jump.final[name] - loop.final[name]).max() < 1e-10 * np.abs(loop.q).max(), (
                system,
                name,
            )


@pytest.mark.parametrize("n", [1, 2, 7, 64])
def test_a_million_steps_of_coupled_oscillators_agree_with_the_loop(n):
    start = random_state(n)
    loop = tp.compile(oscillators, 0.01, propagator="loop").evolve(**start, steps=10**6)
    jump = power(oscillators).evolve(**start, steps=10**6)
    assert np.abs(jump.final.q - loop.final.q).max() < 1e-9 * np.abs(loop.final.q).max()


def test_a_system_whose_kinetic_energy_is_indefinite_exchanges_q_and_p():
    @tp.hamiltonian
    def upside_down(q: tp.Vec[2], p: tp.Vec[2]):
        return q @ q / 2 + 3 * q[0] * q[1] / 4 + p[0] ** 2 / 2 - p[1] ** 2 / 3 + q[0] - p[1] / 2

    start = dict(q=[1.0, -0.5], p=[0.2, 0.3])
    loop = tp.compile(upside_down, 0.01, propagator="loop").evolve(**start, steps=300)
    out = power(upside_down).evolve(**start, steps=300)
    assert out.metrics["propagator"]["by"] == "modes"
    assert np.abs(out.final.q - loop.final.q).max() < 1e-11 * np.abs(loop.q).max()


# --- against mpmath ---------------------------------------------------------------------------------------
def reference_chain(q, p, t, free):
    """The chain by its known modes, with 40 digits."""
    n = len(q)
    with mpmath.workdps(40):
        new = [mpmath.mpf(0)] * n
        for j in range(n):
            if free:
                lam = 4 * mpmath.sin(mpmath.pi * j / (2 * n)) ** 2
                v = [mpmath.cos(mpmath.pi * j * (2 * i + 1) / (2 * n)) for i in range(n)]
            else:
                lam = 4 * mpmath.sin(mpmath.pi * (j + 1) / (2 * (n + 1))) ** 2
                v = [mpmath.sin(mpmath.pi * (j + 1) * (i + 1) / (n + 1)) for i in range(n)]
            size = mpmath.fsum(x * x for x in v)
            x, y = (mpmath.fsum(a * mpmath.mpf(float(b)) for a, b in zip(v, z)) / size for z in (q, p))
            w = mpmath.sqrt(lam)
            moved = x + y * t if lam == 0 else x * mpmath.cos(w * t) + y * mpmath.sin(w * t) / w
            new = [a + moved * b for a, b in zip(new, v)]
        return new


@pytest.mark.parametrize("free", [False, True])
def test_64_springs_after_a_billion_steps_are_right_to_the_last_digits(free):
    start = random_state(64, seed=3)
    out = exact(free_chain if free else oscillators).evolve(**start, steps=1e9)
    with mpmath.workdps(40):
        wanted = reference_chain(start["q"], start["p"], mpmath.mpf(0.01) * 10**9, free)
        size = max(map(abs, wanted))
        off = max(abs(mpmath.mpf(float(a)) - b) for a, b in zip(out.final.q, wanted))
        assert off < 1e-14 * size
        centre = mpmath.fsum(mpmath.mpf(float(x)) for x in out.final.q) / mpmath.fsum(wanted)
        assert abs(centre - 1) < 1e-14
    assert out.metrics["propagator"]["zero_modes"] == int(free)


@pytest.mark.slow("a wrong yes costs physics")
def test_a_sample_of_random_energies_is_right_or_refused(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import quadratics

    right, refused, wrong, worst = quadratics.main(25, seed=5, loud=False)
    assert wrong == 0 and right >= 22 and right + refused == 25 and worst < quadratics.RIGHT


def test_springs_whose_sum_would_be_rounded_still_have_a_mode_of_frequency_zero():
    """0.1 + 0.2 is not 0.3 in floats; as rational numbers the rows of the matrix add to nothing."""

    @tp.hamiltonian
    def uneven(q: tp.Vec[3], p: tp.Vec[3], a: float = 0.1, b: float = 0.2, c: float = 0.7):
        return (
            p @ p / 2 + (a * (q[1] - q[0]) ** 2 + b * (q[2] - q[1]) ** 2 + a * c / b * (q[2] - q[0]) ** 2) / 2
        )

    out = exact(uneven).evolve(q=[0.0, 1.0, 0.0], p=[1.0, 1.0, 1.0], steps=1e9)
    assert out.metrics["propagator"]["zero_modes"] == 1
    with mpmath.workdps(40):
        assert abs(out.final.q.mean() / float(mpmath.mpf(0.01) * 10**9 + mpmath.mpf(1) / 3) - 1) < 1e-15


# --- lattices ---------------------------------------------------------------------------------------------
@tp.hamiltonian
def knit(u: tp.Array["h", "w"], v: tp.Array["h", "w"]):
    """Springs along diagonals too, masses that are coupled, a force and a drift."""
    near = [tp.roll(u, -1, 0), tp.roll(u, -1, 1), tp.roll(tp.roll(u, -1, 0), 2, 1)]
    bonds = sum(((x - u) ** 2).sum() for x in near)
    return (v**2).sum() / 2 + (v * tp.roll(v, 1, 1)).sum() / 5 + bonds / 2 + u.sum() / 3 - v.sum() / 7


@tp.hamiltonian
def unstable(u: tp.Array["h", "w"], v: tp.Array["h", "w"]):
    return ((v**2).sum() + ((tp.roll(u, -1, 1) - u) ** 2).sum() - (u**2).sum() / 1000) / 2


CASES = [
    (exact, wave, dict(c=0.7, mass=0.2, dx=0.3)),
    (power, wave, dict(c=0.7, mass=0.2, dx=0.3)),
    (exact, wave, {}),
    (power, wave, {}),
    (exact, knit, {}),
    (power, knit, {}),
    (exact, unstable, {}),
]


@pytest.mark.parametrize(("way", "system", "given"), CASES)
def test_waves_by_a_transform_are_waves_by_modes(way, system, given, monkeypatch):
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(2, 6, 9))
    steps = 10**5
    a = way(system).evolve(u=u, v=v, steps=steps, **given)
    assert a.metrics["propagator"]["by"] == "modes"
    monkeypatch.setattr(planner, "WAVES_FROM", 2)
    monkeypatch.setattr(runtime, "_propagators", OrderedDict())
    b = way(system).evolve(u=u, v=v, steps=steps, **given)
    assert b.metrics["propagator"]["by"] == "waves"
    assert np.abs(a.final.u - b.final.u).max() < 1e-13 * np.abs(a.final.u).max()
    assert np.abs(a.final.v - b.final.v).max() < 1e-13 * np.abs(a.final.v).max()


@pytest.mark.parametrize("n", [129, 130])
def test_a_long_ring_with_a_uniform_force_is_transformed(n):
    rng = np.random.default_rng(1)
    start = dict(q=rng.normal(size=n), p=rng.normal(size=n))
    for given in (dict(f=0.3), dict(f=0.3, onsite=0.5), dict()):
        loop = tp.compile(ring, 0.05, propagator="loop").evolve(**start, **given, steps=2000)
        jump = power(ring, 0.05).evolve(**start, **given, steps=2000)
        assert jump.metrics["propagator"]["by"] == "waves"
        for name in "qp":
            assert np.abs(jump.final[name] - loop.final[name]).max() < 1e-11 * np.abs(loop.final.q).max()
    assert "not in the contract" in str(power(ring, 0.05, sizes={"n": n}).explain("full"))


def test_a_lattice_with_one_site_that_differs_is_not_transformed():
    @tp.hamiltonian
    def pinned(q: tp.Vec["n"], p: tp.Vec["n"]):
        stretch = tp.roll(q, -1) - q
        return (p @ p + stretch @ stretch + q[0] ** 2) / 2

    out = exact(pinned).evolve(q=np.ones(140), p=np.zeros(140), steps=1000)
    assert out.metrics["propagator"]["by"] == "modes"
    loop = tp.compile(pinned, 0.001, propagator="loop").evolve(q=np.ones(140), p=np.zeros(140), steps=10_000)
    assert np.abs(out.final.q - loop.final.q).max() < 1e-6


@tp.hamiltonian
def disorder(q: tp.Vec["n"], p: tp.Vec["n"], k: tp.Vec["n"], m: tp.Vec["n"]):
    stretch = tp.diff(q, append=0.0)
    return (p * p / m).sum() / 2 + (k * stretch * stretch).sum() / 2


def test_a_polynomial_of_the_matrix_agrees_with_its_modes(monkeypatch):
    rng = np.random.default_rng(4)
    n = 40
    start = dict(
        q=rng.normal(size=(2, n)),
        p=rng.normal(size=(2, n)),
        k=rng.uniform(0.5, 2, n),
        m=rng.uniform(0.5, 2, n),
    )
    runs = {}
    for most in (planner.MOST_MODES, 10):
        monkeypatch.setattr(planner, "MOST_MODES", most)
        monkeypatch.setattr(runtime, "_propagators", OrderedDict())
        sim = exact(disorder, sizes={"n": n})
        runs[most] = [sim.evolve(**start, steps=steps) for steps in (1, 100, 30_000)]
    for a, b in zip(runs[512], runs[10]):
        assert (a.metrics["propagator"]["by"], b.metrics["propagator"]["by"]) == ("modes", "polynomials")
        for name in "qp":
            assert (
                np.abs(a.final[name] - b.final[name]).max()
                < max(b.metrics["propagator"]["rounding"], 1e-15) * 5
            )
    assert (
        sim.evolve(q=start["q"][0], p=start["p"][0], k=start["k"], m=start["m"], steps=100).final.q.tobytes()
        == runs[10][1].final.q[0].tobytes()
    )
    with pytest.raises(PlanError, match="20,000 at most"):
        sim.evolve(**start, steps=10**8)


# --- what a run has -----------------------------------------------------------------------------------------
def test_a_frame_is_its_own_jump_bit_for_bit_whatever_is_watched():
    start = random_state(12)
    sim = exact(oscillators)
    out = sim.evolve(
        **start,
        steps=900,
        save_every=300,
        observe={"first": lambda q: q[0]},
        observe_every=100,
        hash_every=450,
    )
    for k, n in enumerate((0, 300, 600, 900)):
        alone = sim.evolve(**start, steps=n)
        assert np.array_equal(out.q[k], alone.final.q) and np.array_equal(out.p[k], alone.final.p)
    assert [n for n, _ in out.hashes] == [450, 900] and len(out["first"]) == 10
    assert out["first"][3] == out.q[1][0]
    assert out.drift("energy") < 1e-14


def test_members_of_an_ensemble_have_the_bits_of_single_runs():
    rng = np.random.default_rng(2)
    q, p = rng.normal(size=(2, 5, 16))
    sim = exact(oscillators)
    together = sim.evolve(q=q, p=p, steps=12345)
    for k in range(5):
        assert np.array_equal(sim.evolve(q=q[k], p=p[k], steps=12345).final.q, together.final.q[k])
    ks = np.array([1.0, 2.0, 0.5])
    own = exact(oscillator).evolve(q=[1.0] * 3, p=[0.0] * 3, k=ks, steps=777)
    for k in range(3):
        assert own.final.q[k] == exact(oscillator).evolve(q=1.0, p=0.0, k=ks[k], steps=777).final.q


def test_a_run_goes_on_from_its_checkpoint_and_comes_back_from_a_store(tmp_path):
    start = random_state(6)
    sim = exact(oscillators)
    whole = sim.evolve(**start, steps=1000)
    sim.evolve(**start, steps=400, checkpoint=tmp_path / "c")
    assert sim.evolve(resume=tmp_path / "c", steps=600).hash == whole.hash
    sim.save(tmp_path / "sim")
    assert tp.load(tmp_path / "sim").evolve(**start, steps=1000).hash == whole.hash
    stored = sim.evolve(**start, steps=1000, save_every=250, save=tmp_path / "run.zarr")
    assert stored.hash == whole.hash and np.array_equal(stored.q[-1], whole.final.q)


def test_a_flow_that_leaves_the_floats_stops_where_it_does():
    out = exact(saddle).evolve(q=1.0, p=0.0, steps=10**6)
    assert out.stopped.cause == "not finite" and 69_000 < out.stopped.step < 72_000
    assert (
        np.isfinite(out.final.q)
        and exact(saddle).evolve(q=1.0, p=0.0, steps=out.stopped.step - 1).stopped is None
    )


def test_backwards_in_time_is_back():
    start = random_state(5)
    out = exact(oscillators).evolve(**start, steps=10**6)
    back = exact(oscillators, dt=-0.01).evolve(q=out.final.q, p=out.final.p, steps=10**6)
    assert np.abs(back.final.q - start["q"]).max() < 1e-14


def test_an_estimate_is_of_a_jump_and_not_of_its_steps():
    sim = exact(oscillators, sizes={"n": 4})
    assert (
        sim.estimate(steps=10**12)["seconds"] < 60
        and sim.estimate(steps=10**12, frames=11)["bytes"] == 11 * 8 * 8
    )


def test_what_jumped_can_be_pickled_and_done_in_threads():
    start = random_state(6)
    sim = exact(oscillators, sizes={"n": 6})
    out = sim.evolve(**start, steps=1000, save_every=500)
    again = pickle.loads(pickle.dumps(out))
    assert again.drift() == out.drift() and np.array_equal(again.energy, out.energy)
    other = pickle.loads(pickle.dumps(sim))
    with ThreadPoolExecutor(4) as pool:
        found = {
            f.result()
            for f in [pool.submit(lambda: other.evolve(**start, steps=1000).hash) for _ in range(12)]
        }
    assert found == {out.hash}


# --- TP-IR ----------------------------------------------------------------------------------------------------
@pytest.mark.requirement("S2-04")
@pytest.mark.parametrize(
    "sim", [exact(oscillator), power(oscillator, method="yoshida4"), exact(rotating)], ids=str
)
def test_the_program_has_one_propagate_and_no_step(sim):
    program = parse(sim.ir())
    assert program.step == () and [i.op for i in program.final].count("PROPAGATE") == 1
    found = verify(program)
    assert found.symplectic and found.symmetric and found.consistent
    state = {s.name: [0.5] * s.var.size if s.var.shape else 0.5 for s in sim.system.states}
    out = sim.evolve(**state, steps=10**7)
    again = vm.run(program, state, 10**7)
    for name in state:
        assert np.array_equal(np.asarray(again[name]), out.final[name])


LISTING = """
program p
claim symplectic consistent
state S0 q f64[] position
state S1 p f64[] momentum of S0
param $dt f64[]
energy:
  {energy}
init:
  LOAD S0, &q
  LOAD S1, &p
step:
{step}
final:
  {jump}
  STORE &q, S0
  STORE &p, S1
"""
GOOD = dict(
    energy="ELEM E0, mul, S0, S0\n  ELEM E1, mul, S1, S1",
    step="",
    jump="PROPAGATE S0, flow, E0, 1.0, E1, 1.0",
)


# fmt: off
@pytest.mark.parametrize(("change", "says"), [
    (dict(jump="PROPAGATE S0, flow, E0, 1.0"),                                             "E1 enters with total weight 0"),
    (dict(jump="PROPAGATE S0, power, E0, 0.9, E1, 1.0"),                                   "E0 enters with total weight 0.9"),
    (dict(jump="PROPAGATE S0, leap, E0, 1.0, E1, 1.0"),                                    "goes the way `leap`"),
    (dict(jump="PROPAGATE S0, flow, E0, 1.0, E2, 1.0"),                                    "no term of the energy"),
    (dict(jump="PROPAGATE S1, flow, E0, 1.0, E1, 1.0"),                                    "writes S1"),
    (dict(energy="ELEM T0, mul, S0, S0\n ELEM E0, mul, T0, S0\n ELEM E1, mul, S1, S1"),    "degree 2 or less"),
    (dict(energy="TIME T0, 0.0\n ELEM E0, mul, S0, T0\n ELEM E1, mul, S1, S1"),            "depends on time"),
    (dict(energy="ELEM E0, mul, S0, S1", jump="PROPAGATE S0, power, E0, 1.0"),             "is not a shear"),
    (dict(step="  GRAD_INIT G1, S1"),                                                      "beside a PROPAGATE"),
    (dict(jump="PROPAGATE S0, flow, E0, 1.0, E1, 1.0\n  PROPAGATE S0, flow, E0, 1.0"),     "one too many"),
])
# fmt: on
def test_what_is_no_jump_is_rejected(change, says):
    assert verify(parse(LISTING.format(**GOOD))).symplectic
    with pytest.raises(VerifyError, match=says):
        verify(parse(LISTING.format(**(GOOD | change))))


# --- what is refused --------------------------------------------------------------------------------------------
@tp.hamiltonian
def driven(q, p, t):
    return p**2 / 2 + q**2 / 2 - q * tp.cos(t)


@tp.hamiltonian
def whirling(q: tp.Vec["n"], p: tp.Vec["n"], b: float = 0.25):
    return p @ p / 2 + q @ q / 2 + b * (q @ p) + q[0] - p[1] / 3


@tp.hamiltonian
def weird(q: tp.Vec["n"], p: tp.Vec["n"], a: float = 0.3):
    return p @ p / 2 + tp.tanh(a) * (q @ q) / 2


@tp.forces
def spring(q):
    return -q


# fmt: off
@pytest.mark.parametrize(("run", "says"), [
    (lambda: exact(pendulum),                                                   "not a polynomial of the state"),
    (lambda: exact(driven),                                                     "depends on t"),
    (lambda: exact(spring),                                                     "given by its forces"),
    (lambda: exact(oscillator, method="leapfrog"),                              "the exact flow of H"),
    (lambda: exact(oscillator, order=4),                                        "the exact flow of H"),
    (lambda: power(oscillator, method="rk4"),                                   "which `rk4` is not"),
    (lambda: power(rotating),                                                   "plain kicks and drifts, which `strang`"),
    (lambda: exact(oscillator, precision="float32"),                            "cannot be combined with precision"),
    (lambda: exact(oscillator, scale="auto"),                                   "cannot be combined with scale"),
    (lambda: power(oscillator, dt=2.0).evolve(q=1.0, p=0.0, steps=3),           "omega\\*dt is 2, and the method is stable below 2"),
    (lambda: power(oscillator, dt=1.6, method="yoshida4").evolve(q=1.0, p=0.0, steps=3), "is stable below 1.57"),
    (lambda: power(ring, dt=1.1, sizes={"n": 130}).evolve(q=np.ones(130), p=np.ones(130), steps=3), "omega\\*dt is 2.2"),
    (lambda: exact(whirling, sizes={"n": 257}),                                 "257 pairs, 256 at most"),
    (lambda: exact(whirling).evolve(q=np.ones(25), p=np.ones(25), steps=9, b=1.5), "H is not shown to be definite"),
    (lambda: exact(weird, sizes={"n": 2}).evolve(q=[1.0, 1.0], p=[0.0, 0.0], steps=3), "`tanh` of a parameter"),
])
# fmt: on
def test_what_cannot_jump_says_why(run, says):
    with pytest.raises(PlanError, match=says):
        run()


def test_of_many_the_default_is_the_loop_with_the_bits_it_had():
    start = random_state(9)
    plain = tp.compile(oscillators, 0.01).evolve(**start, steps=500)
    assert plain.hash == tp.compile(oscillators, 0.01, propagator="loop").evolve(**start, steps=500).hash
    assert "propagator" not in plain.metrics


def test_the_report_compares_the_means():
    text = str(exact(oscillators, sizes={"n": 64}).explain("full"))
    for words in ("propagator", "modes", "chosen", "waves", "whole numbers", "the same on every machine", "from t0 in one jump"):
        assert words in text
    assert "faster than a loop from" in text


def test_a_jump_has_the_same_bits_with_another_number_of_blas_threads():
    code = ("import numpy as np, tinyphysics as tp; from tinyphysics.physics.chains import oscillators\n"
            "rng = np.random.default_rng(0)\n"
            "print(tp.compile(oscillators, 0.01, propagator='exact').evolve(q=rng.normal(size=48), p=rng.normal(size=48), "
            "steps=10**9).hash)")
    found = {subprocess.run([sys.executable, "-c", code], env=os.environ | {"OPENBLAS_NUM_THREADS": n, "OPENBLAS_CORETYPE": core},
                            capture_output=True, text=True, check=True).stdout
             for n, core in (("1", "Haswell"), ("2", "Sandybridge"))}
    assert len(found) == 1


@pytest.mark.parametrize("way", ["flow, E0, 1.0, E1, 1.0", "power, E0, 0.5, E1, 1.0, E0, 0.5"])
def test_an_energy_that_depends_on_dt_does_not_come_back(way):
    text = str(parse(f"""program x
state S0 q f64[] position
state S1 p f64[] momentum of S0
param $dt f64[] = 0.1
energy:
  ELEM T0, mul, S0, S0
  ELEM E0, mul, T0, $dt
  ELEM E1, mul, S1, S1
init:
  LOAD S0, &q
  LOAD S1, &p
step:
final:
  PROPAGATE S0, {way}
  STORE &q, S0
  STORE &p, S1
"""))
    certificate = verify(parse(text))
    assert certificate.symplectic and not any(certificate[n] for n in ("symmetric", "reversible", "consistent"))


@pytest.mark.parametrize("method", ["chin4", "takahashi_imada4"])
def test_kicks_with_force_gradients_are_not_raised_to_a_power(method):
    with pytest.raises(tp.PlanError, match="plain kicks and drifts"):
        tp.compile(oscillator, dt=0.1, method=method, propagator="method")


# --- loops that stay -------------------------------------------------------------------------------------------
def plan_of(sim):
    return [row for section in sim.explain("full").sections if section.title == "plan" for row in section.rows]


def test_a_loop_that_stays_is_compared_with_jumps_and_the_line_to_write_is_given():
    sim = tp.compile(oscillators, 0.1, sizes={"n": 64})
    rows = {(row.name, row.verdict): row.because for row in plan_of(sim)}
    assert "more than 2 ms beyond a short loop" in rows["propagator", "loop"]
    assert 'propagator="exact" deletes it' in rows["propagator", "loop"]
    assert rows["by", "modes"].startswith("it would be") and rows["by", "loop"].startswith("chosen")
    loop = tp.compile(oscillators, 0.1, sizes={"n": 64}, propagator="loop")
    assert sim.tpir.hash == loop.tpir.hash
    assert not any(row.name == "propagator" for row in plan_of(loop) + plan_of(tp.compile(pendulum, 0.1)))


@pytest.mark.parametrize(("options", "said"), [
    (dict(precision="dd"), "cannot be combined with precision='dd'"), (dict(method="takahashi_imada4"), "plain kicks and drifts"),
    (dict(method="leapfrog"), 'propagator="method" deletes it'), (dict(order=4), 'propagator="method" deletes it'),
])
def test_the_report_says_why_a_loop_stays(options, said):
    row = next(row for row in plan_of(tp.compile(oscillator, 0.1, **options)) if row.name == "propagator")
    assert row.verdict == "loop" and said in row.because


def test_a_large_lattice_keeps_its_loop_for_its_bits():
    row = next(row for row in plan_of(tp.compile(wave, 0.1, sizes={"h": 512, "w": 512})) if row.name == "propagator")
    assert "not in the contract" in row.because


def test_what_no_method_steps_is_solved_by_default(tmp_path):
    """A rotating frame mixes q and p: there is no loop that it could be compared with."""
    sim = tp.compile(rotating, 0.1)
    given = dict(q=[1.0, 0.0], p=[0.0, 1.0], steps=100)
    out = sim.evolve(**given, save_every=10, checkpoint=tmp_path / "c")
    assert out.hash == exact(rotating, 0.1).evolve(**given).hash and sim.certificate.symplectic
    assert out.drift("energy") < 1e-15 and sim.rewind(out, 40).final.step == 60
    assert sim.evolve(resume=tmp_path / "c", steps=50).hash == sim.evolve(**given | {"steps": 150}).hash
    assert sim.minimise(q=[1.0, 0.5]).converged
    assert tp.compile(rotating, 0.1, order=4).built.plan.method == "strang4"
    assert tp.compile(rotating, 0.1, propagator="loop").built.plan.method == "strang"


def test_a_long_loop_that_need_not_be_one_is_told(monkeypatch, caplog):
    sim = tp.compile(oscillators, 0.1, sizes={"n": 9})
    start = random_state(9)
    sim.evolve(**start, steps=1000)
    assert not caplog.records
    monkeypatch.setattr("tinyphysics.runtime.stages.compiled.LONG", 1e-6)
    sim.evolve(**start, steps=1000)
    assert 'propagator="exact" makes one jump of them' in caplog.text
