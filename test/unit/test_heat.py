"""An energy at a temperature: the law that a step keeps, the books of heat, and noise that only its address decides."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from scipy.stats import kstest

import tinyphysics as tp
from tinyphysics.philox import counter_words, key_words, philox4x32, unit_interval
from tinyphysics.rules.formulas.baths import stream_of
from tinyphysics.analysis.separable import separable
from tinyphysics.physics.starts import lattice
from tinyphysics.planner.systems.heat import with_bath
from tinyphysics.synth.methods.splitting import split_step
from tinyphysics.tpir import parse, verify
from tinyphysics.tpir.program.lower import lower

pytestmark = pytest.mark.requirement("S2-59")


@tp.hamiltonian
def spring(q, p, k: float = 1.0, m: float = 1.0):
    return p**2 / (2 * m) + k * q**2 / 2


@tp.hamiltonian
def quartic(q, p):
    return p**2 / 2 + q**4 / 4


@tp.hamiltonian
def well(q, p, m: float = 1.5):
    return p**2 / (2 * m) + (q**2 - 1) ** 2


@tp.hamiltonian
def chain(q: tp.Array["n"], p: tp.Array["n"], m: tp.Array["n"]):  # noqa: F821
    d = q[1:] - q[:-1]
    return (p**2 / m).sum() / 2 + (d**2 / 2 + d**4 / 4).sum() + (q**2).sum() / 8


@tp.hamiltonian
def plane(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + q[0] ** 2 / 2 + 2 * q[1] ** 2 + q[0] ** 2 * q[1] ** 2 / 4


def second_moments(system, dt, temperature=1.0, members=2000, steps=400, skip=40, seed=1, **options):
    """<q²>, <p²> at frames and right after the bath, over members and steps."""
    sim = tp.compile(system, dt, temperature=temperature, **options)
    zeros = np.zeros(members)
    out = sim.evolve(q=zeros, p=zeros, steps=steps, seed=seed, frames=2, observe={
        "q2": lambda q: q**2, "p2": lambda p: p**2, "bath": tp.physics.temperature(at="bath"),
    })  # fmt: skip
    return tuple(float(np.asarray(out[name])[skip:].mean()) for name in ("q2", "p2", "bath"))


# --- the law ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", [1, 2])
def test_positions_of_an_oscillator_are_exact_and_momenta_low_by_a_quarter_at_frames(seed):
    q2, p2, bath = second_moments(spring, 1.0, members=4000, steps=500, seed=seed)
    assert q2 == pytest.approx(1.0, abs=6e-3)
    assert p2 == pytest.approx(0.75, abs=4e-3)  # 1 - omega² dt²/4
    assert bath == pytest.approx(1.0, abs=6e-3)


@pytest.mark.all("a long run: errors of 1e-3")
def test_the_moments_of_an_oscillator_to_a_thousandth():
    q2, p2, bath = second_moments(spring, 1.0, members=100_000, steps=500)
    assert (q2, p2, bath) == pytest.approx((1.0, 0.75, 1.0), abs=1e-3)
    q2, _, _ = second_moments(spring, 1.0, members=100_000, steps=500, method="obabo")
    assert q2 == pytest.approx(4 / 3, abs=2e-3)


@pytest.mark.all("a long run: errors of 3e-4")
@pytest.mark.parametrize("dt, q2, p2", [(0.25, 0.674292, 0.968227), (0.125, 0.675579, 0.992073)])
def test_the_bias_of_a_quartic_well_is_that_of_the_step(dt, q2, p2):
    steps = round(600 / dt)
    found = second_moments(quartic, dt, members=100_000, steps=steps, skip=round(10 / dt))
    assert found[:2] == pytest.approx((q2, p2), abs=3e-4)


def test_obabo_has_other_errors_of_the_same_order():
    """Of an oscillator <q²> = 1/(1 - dt²/4): canonical to O(dt²) as well, and far from exact."""
    q2, _, _ = second_moments(spring, 1.0, members=4000, steps=500, method="obabo")
    assert q2 == pytest.approx(4 / 3, abs=1e-2)


def test_a_mass_and_a_constant_of_boltzmann_enter_as_they_should():
    sim = tp.compile(spring, 0.2, temperature=3.0, kB=0.5, friction=2.0)
    zeros = np.zeros(4000)
    out = sim.evolve(q=zeros, p=zeros, m=4.0, k=9.0, steps=400, frames=2,
                     observe={"q2": lambda q: q**2, "p2": lambda p: p**2})  # fmt: skip
    assert np.asarray(out["q2"])[100:].mean() == pytest.approx(1.5 / 9, rel=0.01)
    assert np.asarray(out["p2"])[100:].mean() == pytest.approx(1.5 * 4 * (1 - 9 / 4 * 0.04 / 4), rel=0.01)


def test_every_member_may_have_a_temperature_and_a_rate_of_its_own():
    sim = tp.compile(spring, 0.5, temperature=1.0)
    T, rate = np.repeat([0.5, 1.0, 2.0], 2000), np.tile([0.5, 2.0], 3000)
    zeros = np.zeros(6000)
    out = sim.evolve(
        q=zeros, p=zeros, temperature=T, friction=rate, steps=300, frames=2, observe={"q2": lambda q: q**2}
    )
    found = np.asarray(out["q2"])[60:].mean(0).reshape(3, 2000).mean(1)
    assert found == pytest.approx([0.5, 1.0, 2.0], rel=0.02)
    alone = sim.evolve(q=np.zeros(3), p=np.zeros(3), temperature=T[:3], friction=rate[:3], steps=300)
    assert np.array_equal(alone.final.q, out.final.q[:3])


def test_rates_number_by_number_leave_the_law_as_it_is():
    sim = tp.compile(plane, 0.1, temperature=0.5, friction=[0.2, 5.0])
    out = sim.evolve(
        q=np.zeros((4000, 2)), p=np.zeros((4000, 2)), steps=500, frames=2, observe={"p2": lambda p: p**2}
    )
    assert np.asarray(out["p2"])[200:].mean((0, 1)) == pytest.approx(
        [0.5 * (1 - 0.0025), 0.5 * (1 - 0.01)], rel=0.02
    )
    assert sim.certificate.canonical


@tp.hamiltonian
def balls(q: tp.Array["n", 3], p: tp.Array["n", 3], m: float = 2.0):  # noqa: F821
    return (p**2).sum() / (2 * m) + (q**2).sum() / 2


def test_collisions_draw_all_numbers_of_a_body_anew_and_keep_the_law():
    sim = tp.compile(balls, 0.2, temperature=0.5, bath="andersen", friction=1.0)
    n = 20_000
    first = sim.evolve(q=np.zeros((n, 3)), p=np.zeros((n, 3)), steps=1, seed=2).final.p
    hit = (first != 0).all(1)
    assert ((first == 0).all(1) | hit).all()  # a body collides as a whole
    assert hit.mean() == pytest.approx(1 - math.exp(-0.2), abs=0.01)
    assert first[hit].var() == pytest.approx(2.0 * 0.5, rel=0.06)
    out = sim.evolve(q=np.zeros((n, 3)), p=np.zeros((n, 3)), steps=100, seed=2).final
    assert out.q.var() == pytest.approx(0.5, rel=0.02)
    assert sim.certificate.canonical and "exactly" in sim.certificate.canonical.because


@pytest.mark.parametrize("backend", ["python", "numpy", "c"])
def test_collisions_have_the_same_bits(backend):
    start = dict(q=np.zeros((4, 3)), p=np.ones((4, 3)), steps=9, seed=3)

    def run(where):
        return tp.compile(balls, 0.2, temperature=0.5, bath="andersen", backend=where).evolve(**start).hash

    assert run(backend) == run("llvm")


def test_a_collision_has_no_derivative():
    sim = tp.compile(well, 0.1, temperature=1.0, bath="andersen")
    with pytest.raises(tp.PlanError, match="collides"):
        sim.grad(lambda out: out.final.q, q=0.1, p=0.0, steps=5, wrt=["q"])
    with pytest.raises(tp.PlanError, match="derivative"):
        sim.lyapunov(q=0.1, p=0.0, steps=50)


@pytest.mark.all("108 atoms for 15,000 steps")
@pytest.mark.requirement("S2-21")
@pytest.mark.parametrize("bath", ["langevin", "andersen"])
def test_argon_at_300_kelvin(bath):
    """2K/(g k_B) to 1 %, and velocities with Maxwell's law, for any bath."""

    @tp.hamiltonian
    def argon(q: tp.Array["n", 3], p: tp.Array["n", 3], box: float = 1.0):  # noqa: F821
        s = 1 / tp.pair_distance2(q, box=box, cutoff=2.5, skin=0.3, switch=2.0) ** 3
        return (p**2).sum() / 2 + tp.pair_sum(4 * (s * s - s))

    kB = 1.380649e-23 / 1.65e-21  # in units of the depth of argon's well
    q, box = lattice("fcc", 3, density=0.6)
    sim = tp.compile(argon, 0.004, temperature=300.0, kB=kB, friction=5.0, bath=bath)
    out = sim.evolve(q=q, p=0 * q, box=float(box[0]), steps=15_000, frames=60, observe_every=10, seed=1,
                     observe={"T": tp.physics.temperature(kB=kB, at="bath")})  # fmt: skip
    found = tp.statistics(out["T"])
    assert found.converged and abs(found.mean - 300.0) < 3.0 + 2 * found.error and found.error < 2.0
    v = np.asarray(out.p)[20:].ravel() / np.sqrt(300 * kB)
    assert kstest(v[::7], "norm").pvalue > 1e-3


# --- one step, by hand --------------------------------------------------------------------------------------
def noise(steps, seed):
    """The normal numbers of the bath, one a step, all at once."""
    counter = counter_words(stream_of(0, 0), np.arange(steps, dtype=np.int64), np.zeros(steps, np.int64))
    words = tuple(np.broadcast_to(np.asarray(w, np.uint64), (steps,)) for w in counter)
    a, b, c, d = (w.astype(np.int64) for w in philox4x32(words, key_words(seed)))
    u, v = unit_interval(a, b), unit_interval(c, d)
    return np.sqrt(-2 * np.log1p(-u)) * np.cos(2 * np.pi * v)


def by_hand(q, p, dt, T, rate, m, steps, seed, force):
    c, width = math.exp(-rate * dt), math.sqrt(-math.expm1(-2 * rate * dt) * T * m)
    heat = []
    for xi in noise(steps, seed).tolist():
        p += dt / 2 * force(q)
        q += dt / 2 * p / m
        before = p * p / (2 * m)
        p = c * p + width * xi
        heat.append(p * p / (2 * m) - before)
        q += dt / 2 * p / m
        p += dt / 2 * force(q)
    return q, p, heat


def test_a_run_is_that_of_ten_lines_of_python():
    out = tp.compile(well, 0.1, temperature=0.7, friction=1.3).evolve(q=0.2, p=0.1, steps=50, seed=9)
    q, p, heat = by_hand(0.2, 0.1, 0.1, 0.7, 1.3, 1.5, 50, 9, lambda q: -4 * q * (q * q - 1))
    assert (out.final.q, out.final.p) == pytest.approx((q, p), rel=1e-10)
    assert out.heat[-1] == pytest.approx(math.fsum(heat), rel=1e-9)


def test_the_force_is_evaluated_once_a_step():
    assert "1 force evaluation a step" in str(tp.compile(well, 0.1, temperature=0.7).explain())


# --- bits ---------------------------------------------------------------------------------------------------
PRECISIONS = ("float64", "float32", "mixed", "compensated", "dd")


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("backend", ["python", "numpy", "c"])
def test_backends_draw_the_same_noise(backend, precision):
    def run(where):
        sim = tp.compile(well, 0.1, temperature=0.7, backend=where, precision=precision)
        return sim.evolve(
            q=[0.1, 0.2, 0.3], p=[0.0, 0.0, 0.1], temperature=[0.5, 0.6, 0.7], steps=12, seed=3
        ).hash

    assert run(backend) == run("llvm")


@pytest.mark.parametrize("precision", ["float64", "float32", "mixed"])
@pytest.mark.parametrize("backend", ["python", "numpy", "c"])
def test_noise_in_loops_has_the_same_bits(backend, precision):
    n = 150
    start = dict(q=np.linspace(-1, 1, n), p=np.zeros(n), m=np.linspace(1, 2, n))

    def run(where):
        sim = tp.compile(chain, 0.1, temperature=0.7, friction=0.3, backend=where, precision=precision)
        return sim.evolve(**start, steps=4, seed=3).hash

    assert run(backend) == run("llvm")


def test_frames_observers_threads_resume_and_other_members_change_no_bit():
    sim = tp.compile(well, 0.1, temperature=0.7)
    q = np.linspace(-1, 1, 40)
    whole = sim.evolve(q=q, p=0 * q, steps=60, seed=5)
    assert (
        sim.evolve(
            q=q, p=0 * q, steps=60, seed=5, save_every=7, observe={"T": lambda p: p**2}, threads=2
        ).hash
        == whole.hash
    )
    first = sim.evolve(q=q, p=0 * q, steps=23, seed=5)
    assert sim.evolve(resume=first, steps=37).hash == whole.hash
    assert np.array_equal(sim.evolve(q=q[:3], p=0 * q[:3], steps=60, seed=5).final.q, whole.final.q[:3])
    assert sim.evolve(q=q, p=0 * q, steps=60, seed=6).hash != whole.hash
    s = sim.stepper(q=q, p=0 * q, seed=5)
    s.step(60)
    assert np.array_equal(s.q, whole.final.q)


def test_a_run_is_rewound_by_a_replay():
    sim = tp.compile(well, 0.1, temperature=0.7)
    out = sim.evolve(q=0.1, p=0.0, steps=60, seed=5)
    assert sim.rewind(out, 20).final.q == sim.evolve(q=0.1, p=0.0, steps=40, seed=5).final.q


# --- the certificate ----------------------------------------------------------------------------------------
def test_what_is_proved_of_baoab():
    verdict = tp.compile(well, 0.1, temperature=1.0).certificate
    assert list(verdict) == ["canonical", "symmetric", "consistent"] and all(verdict.values())
    assert verdict.canonical.because.startswith("canonical to O(dt²)")
    assert "positions of a quadratic energy have it exactly" in verdict.canonical.because
    other = tp.compile(well, 0.1, temperature=1.0, method="obabo").certificate.canonical
    assert other and "exactly have" not in other.because and "positions" not in other.because


def listing(system=quartic, **options):
    text = str(tp.compile(system, 0.1, temperature=1.0, backend="python", **options).tpir)
    return re.sub(r"^(claims?|certif\w*) .*\n", "", text, flags=re.M)


def certified(*moves):
    """The certificate of other orders of kicks V, drifts T and the bath F."""
    system = with_bath(quartic.bind(), 1.0, None, 1.0, 1.0)
    split = separable(system)
    return verify(lower(split_step("test", system, split.T, split.V, list(moves), ())))


def test_a_kick_a_drift_and_a_bath_in_a_row_are_first_order():
    found = certified(("V", 1.0), ("T", 1.0), ("F", 1.0))
    assert found.consistent and not found.symmetric and not found.canonical
    assert "to O(dt) only" in found.canonical.because


@pytest.mark.parametrize("moves, holds", [
    ([("T", 0.5), ("V", 0.5), ("F", 1.0), ("V", 0.5), ("T", 0.5)], True),
    ([("T", 0.5), ("F", 0.5), ("V", 1.0), ("F", 0.5), ("T", 0.5)], True),
    ([("V", 0.5), ("T", 0.5), ("F", 1.0), ("T", 0.5), ("V", 0.4)], False),
    ([("V", 0.5), ("T", 0.5), ("F", 0.9), ("T", 0.5), ("V", 0.5)], False),
    ([("V", 0.5), ("F", 1.0), ("T", 1.0), ("V", 0.5)], False),
])  # fmt: skip
def test_a_palindrome_of_whole_weights_is_canonical(moves, holds):
    found = certified(*moves).canonical
    assert bool(found) is holds and "quadratic" not in found.because


@pytest.mark.parametrize("old, new, why", [
    (r"expm1, (T\d+)", r"exp, \1", "not shown to be what a bath makes"),
    (r"normal, 0.0", "uniform, 0.0", "not shown to be what a bath makes"),
    (r"langevin, 1.0,", "langevin, 0.5,", "not shown to be what a bath makes"),
    (r"NOISE T(\d+), normal, 0.0", r"NOISE T\1, normal, 1.0", "not a normal number"),
])  # fmt: skip
def test_a_bath_that_is_another_is_not_canonical(old, new, why):
    changed, count = re.subn(old, new, listing())
    found = verify(parse(changed))
    assert count == 1 and not found.canonical and why in found.canonical.because


def test_noise_that_is_used_twice_is_seen():
    text = str(lower(with_two_pieces()))
    streams = re.findall(r"\((\d+),1\)", text)
    assert len(set(streams)) == 2 and verify(parse(text)).canonical
    found = verify(parse(text.replace(streams[1], streams[0])))
    assert not found.canonical and "its noise is that of another line" in found.canonical.because


def with_two_pieces():
    system = with_bath(quartic.bind(), 1.0, None, 1.0, 1.0)
    split = separable(system)
    moves = [("F", 0.5), ("V", 0.5), ("T", 1.0), ("V", 0.5), ("F", 0.5)]
    return split_step("test", system, split.T, split.V, moves, ())


def test_a_mass_that_is_not_that_of_the_energy_is_seen():
    """Noise for the mass 2 keeps a law of its own, and it is not that of this energy."""
    text = listing()
    bath = re.search(r"  BATH .*", text)[0]
    assert bath.count("1.0") == 2  # the weight, and 1/m
    rewritten = re.sub(r"div, (T\d+), 1.0", r"div, \1, 0.5", text)
    head, _, tail = rewritten.partition(bath)
    found = verify(parse(head + bath.replace("$temperature, 1.0", "$temperature, 0.5") + tail))
    assert not found.canonical and "1/w is not shown to be the mass" in found.canonical.because


def test_an_energy_that_depends_on_time_has_no_law_that_stays():
    @tp.hamiltonian
    def driven(q, p, t):
        return p**2 / 2 + q**2 / 2 - q * tp.cos(t)

    sim = tp.compile(driven, 0.1, temperature=1.0)
    assert not sim.certificate.canonical and "depends on t" in sim.certificate.canonical.because
    assert sim.certificate.consistent


# --- the books ----------------------------------------------------------------------------------------------
def test_the_energy_is_heat_and_the_work_of_the_step():
    out = tp.compile(chain, 0.05, temperature=1.0).evolve(
        q=np.zeros(30), p=np.zeros(30), m=np.ones(30), steps=400, seed=2
    )
    assert out.heat[0] == 0.0 and out.heat[-1] > 5.0
    gap = out.energy - out.energy[0] - out.heat - out.shadow_work
    assert np.abs(gap).max() < 1e-12 * np.abs(out.energy).max()
    assert np.array_equal(out.extended_energy, out.energy - out.heat)
    assert out.ledger["heat"][-1] == out.heat[-1]
    out.drift("energy")
    assert out.metrics["drift"]["energy"] == "H, and what is booked as heat"


def test_the_work_of_the_step_falls_as_its_square():
    works = []
    for dt in (0.1, 0.05):
        sim = tp.compile(well, dt, temperature=1.0)
        out = sim.evolve(q=np.zeros(200), p=np.zeros(200), until=5.0, frames=6, seed=1)
        works.append(np.abs(out.shadow_work[-1]).mean())
    assert 3.0 < works[0] / works[1] < 5.0


@pytest.mark.all("a million steps in Python")
def test_a_million_steps_are_booked_to_twelve_digits():
    steps, dt, seed = 1_000_000, 0.1, 3
    out = tp.compile(spring, dt, temperature=1.0).evolve(q=1.0, p=0.0, steps=steps, frames=2, seed=seed)
    q, p, heat = by_hand(1.0, 0.0, dt, 1.0, 1.0, 1.0, steps, seed, lambda q: -q)
    exact = math.fsum(heat)
    size = float(np.abs(out.energy).max()) + math.fsum(map(abs, heat))
    assert abs(out.heat[-1] - exact) < 1e-12 * size
    assert abs(out.energy[-1] - out.energy[0] - exact - out.shadow_work[-1]) < 1e-12 * size


def test_no_alarm_is_raised_by_heat(recwarn):
    out = tp.compile(well, 0.05, temperature=2.0).evolve(
        q=np.linspace(-1, 1, 50), p=np.zeros(50), steps=2000, seed=1
    )
    assert out.stopped is None and not out.metrics.get("notes") and not recwarn


def test_a_step_beyond_stability_is_told():
    with pytest.warns(tp.PhysicsWarning, match="beyond the stability limit of baoab"):
        tp.compile(spring, 2.5, temperature=1.0).evolve(q=1.0, p=0.0, steps=20)


# --- what users write ---------------------------------------------------------------------------------------
def test_a_simulation_is_set_to_another_temperature():
    sim = tp.compile(well, 0.1, temperature=1.0)
    sim.temperature = 300
    start = dict(q=0.1, p=0.0, steps=10)
    assert sim.temperature == 300.0
    assert sim.evolve(**start).hash == tp.compile(well, 0.1, temperature=300.0).evolve(**start).hash
    assert (
        sim.evolve(**start, temperature=2.0).hash
        == tp.compile(well, 0.1, temperature=2.0).evolve(**start).hash
    )
    sized = tp.compile(chain, 0.1, temperature=1.0)
    sized.temperature = 2.0
    assert sized.evolve(q=[0.0, 0.1], p=[0.0, 0.0], m=[1.0, 1.0], steps=2) and sized.temperature == 2.0


def test_a_simulation_without_a_bath_says_what_to_write():
    sim = tp.compile(well, 0.1)
    with pytest.raises(tp.PlanError, match=r"has no bath.*\n.*tp.compile\(system, dt, temperature=300.0\)"):
        sim.temperature = 300
    with pytest.raises(tp.PlanError, match="without a bath"):
        _ = sim.evolve(q=0.1, p=0.0, steps=3).heat
    with pytest.raises(tp.InputError, match="compile"):
        sim.evolve(q=0.1, p=0.0, steps=3, temperature=1.0)


@tp.hamiltonian
def relativistic(q, p):
    return tp.sqrt(1 + p**2) + q**2


@tp.hamiltonian
def twisted(q, p):
    return p**2 * (1 + q**2) / 2


@pytest.mark.parametrize("system, options, match", [
    (well, {"temperature": 0.0}, "not above zero"),
    (well, {"temperature": -1.0}, "not above zero"),
    (well, {"temperature": math.nan}, "not above zero"),
    (well, {"temperature": True}, "not a temperature"),
    (well, {"temperature": [1.0, 2.0]}, "has the shape"),
    (well, {"temperature": "T"}, "no parameter of that name"),
    (well, {"temperature": 1.0, "friction": -1.0}, "negative"),
    (well, {"temperature": 1.0, "bath": "langevn"}, "Did you mean `langevin`"),
    (well, {"bath": "langevin"}, "without a temperature"),
    (well, {"temperature": 1.0, "kB": 0.0}, "not above zero"),
    (well, {"temperature": 1.0, "method": "leapfrog"}, "a bath is a part of its step"),
    (well, {"temperature": 1.0, "precision": "lattice"}, "random numbers"),
    (well, {"temperature": 1.0, "energy_drift": 1e-6, "pilot": {"q": 0.1, "p": 0.0}}, "draws random numbers"),
    (well, {"method": "baoab"}, "it has no bath"),
    (relativistic, {"temperature": 1.0}, r"p/sqrt\(1 \+ p\*p\) is not proportional to p"),
    (twisted, {"temperature": 1.0}, "mixes q and p"),
])  # fmt: skip
def test_what_has_no_temperature_is_refused(system, options, match):
    with pytest.raises(tp.TinyPhysicsError, match=match):
        tp.compile(system, 0.1, **options).built  # noqa: B018


def test_a_temperature_that_is_a_parameter_of_the_energy_is_that_one():
    @tp.hamiltonian
    def mine(q, p, temperature: float = 2.0, gamma: float = 0.5):
        return p**2 / 2 + temperature * q**2 / 2

    named = tp.compile(mine, 0.1, temperature="temperature", friction="gamma")
    plain = tp.compile(spring, 0.1, temperature=2.0, friction=0.5)
    assert named.evolve(q=0.1, p=0.0, steps=9).final.q == plain.evolve(q=0.1, p=0.0, k=2.0, steps=9).final.q
    other = tp.compile(mine, 0.1, temperature=1.0)
    assert [x.name for x in other.system.parameters][2:] == ["bath_temperature", "friction"]


def test_gradients_see_the_same_noise():
    sim = tp.compile(well, 0.1, temperature=1.0)
    assert sim.gradcheck(lambda out: out.final.q, q=0.1, p=0.0, steps=6, wrt=["q", "m", "temperature"])


def test_a_saved_simulation_has_its_bath(tmp_path):
    sim = tp.compile(well, 0.1, temperature=1.0, friction=0.4)
    sim.save(tmp_path / "well.json")
    start = dict(q=0.1, p=0.0, steps=9)
    assert tp.load(tmp_path / "well.json").evolve(**start).hash == sim.evolve(**start).hash


def test_degrees_of_freedom_are_told_and_are_those_of_the_temperature():
    sim = tp.compile(plane, 0.05, temperature=0.5)
    (row,) = [r for s in sim.explain("full").sections for r in s.rows if r.name == "degrees of freedom"]
    assert row.verdict == "2"
    out = sim.evolve(q=[0.0, 0.0], p=[1.0, 2.0], steps=0, observe={"T": tp.physics.temperature()})
    assert out["T"][0] == 2.5


# --- GPUs ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("bath", ["langevin", "andersen"])
def test_a_gpu_draws_the_same_noise_for_members(fake_cuda, bath):
    q = np.linspace(-1, 1, 9)

    def run(where):
        sim = tp.compile(well, 0.1, temperature=0.7, bath=bath, backend=where)
        return sim.evolve(q=q, p=0 * q, temperature=0.5 + q**2, steps=12, seed=3).hash

    assert run("cuda") == run("llvm")


def test_a_gpu_draws_the_same_noise_in_loops(fake_cuda):
    n = 150
    start = dict(q=np.linspace(-1, 1, n), p=np.zeros(n), m=np.linspace(1, 2, n))

    def run(where):
        return tp.compile(chain, 0.1, temperature=0.7, backend=where).evolve(**start, steps=3, seed=3).hash

    assert run("cuda") == run("llvm")
