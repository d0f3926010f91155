"""Baths that act on all momenta together, or on positions: their laws, what they conserve, and the same bits everywhere."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from scipy.stats import gamma as gamma_law
from scipy.stats import kstest

import tinyphysics as tp
from tinyphysics.physics.starts import lattice
from tinyphysics.rules.formulas.gamma import SumOfSquares
from tinyphysics.rules.functions.random import draw
from tinyphysics.tpir import parse, verify

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
def trap(q: tp.Array["n", 3], p: tp.Array["n", 3], m: float = 2.0):  # noqa: F821
    return (p**2).sum() / (2 * m) + (q**2).sum() / 2


@tp.hamiltonian
def free_chain(q: tp.Array["n"], p: tp.Array["n"], m: tp.Array["n"]):  # noqa: F821
    d = q[1:] - q[:-1]
    return (p**2 / m).sum() / 2 + (d**2 / 2 + d**4 / 4).sum()


@tp.hamiltonian
def channel(q: tp.Array["n", 2], p: tp.Array["n", 2]):  # noqa: F821
    d = q[1:] - q[:-1]
    return (p**2).sum() / 2 + (d**2).sum() / 2 + (q[:, 1] ** 2).sum() / 2


@tp.hamiltonian
def knot(q: tp.Vec[3], p: tp.Vec[3]):
    return p @ p / 2 + (q**4).sum() / 4 + (q[0] ** 2 * q[1] ** 2 + q[1] ** 2 * q[2] ** 2) / 2


MEMORY = tp.gle(kernel=[(2.0, 0.5), (1.0, 3.0)])
BATHS = ("bussi", "nose_hoover", "brownian", MEMORY)


def moments(system, dt, members=2000, steps=600, skip=150, seed=1, **options):
    sim = tp.compile(system, dt, temperature=1.0, **options)
    q = np.linspace(0.1, 1.5, members)
    out = sim.evolve(q=q, p=1.2 - 0.5 * q, steps=steps, seed=seed, frames=2, observe={
        "q2": lambda q: q**2, "p2": lambda p: p**2, "bath": tp.physics.temperature(at="bath"),
    })  # fmt: skip
    assert out.stopped is None
    return tuple(float(np.asarray(out[name])[skip:].mean()) for name in ("q2", "p2", "bath"))


# --- laws ---------------------------------------------------------------------------------------------------
def test_every_bath_has_the_positions_of_an_oscillator():
    assert moments(spring, 0.5, bath="bussi") == pytest.approx((1.0, 1 - 0.25 / 4, 1.0), abs=0.02)
    assert moments(spring, 1.0, bath="brownian", friction=2.0) == pytest.approx((1.0, 1.0, 1.0), abs=0.02)
    assert moments(spring, 1.0, bath=MEMORY) == pytest.approx((1.0, 0.75, 1.0), abs=0.02)
    found = moments(spring, 0.1, bath="nose_hoover", steps=1500)
    assert found == pytest.approx((1.0, 1 - 0.01 / 4, 1.0), abs=0.02)


@pytest.mark.all("long runs: errors of 1e-3")
def test_moments_of_an_oscillator_to_a_thousandth():
    q2, p2, bath = moments(spring, 1.0, bath="bussi", members=100_000, steps=500)
    assert (q2, p2, bath) == pytest.approx((1.0, 0.75, 1.0), abs=1.5e-3)
    q2, p2, bath = moments(spring, 1.0, bath=MEMORY, members=100_000, steps=500)
    assert (q2, p2, bath) == pytest.approx((1.0, 0.75, 1.0), abs=1.5e-3)
    q2, p2, _ = moments(spring, 1.0, bath="brownian", members=100_000, steps=500)
    assert (q2, p2) == pytest.approx((1.0, 1.0), abs=1.5e-3)


@pytest.mark.all("long runs: errors of 1e-3")
@pytest.mark.parametrize(
    "bath, dt", [("bussi", 0.1), ("brownian", 0.05), ("nose_hoover", 0.1), (MEMORY, 0.1)]
)
def test_a_quartic_well_has_its_mean_square(bath, dt):
    q2, _, _ = moments(quartic, dt, bath=bath, members=20_000, steps=3000, skip=500)
    assert q2 == pytest.approx(0.675978, abs=2.5e-3)


def test_a_brownian_step_has_errors_of_second_order_in_averages():
    """Leimkuhler & Matthews: the mean of q² in a quartic well, where Euler's is off by O(dt)."""
    q2, _, _ = moments(quartic, 0.1, bath="brownian", members=4000, steps=1500)
    assert q2 == pytest.approx(0.675978, abs=0.01)


@pytest.mark.parametrize("n", [1, 99])
def test_the_kinetic_energy_of_bussi_has_the_law_of_its_degrees_of_freedom(n):
    """K/k_BT is Γ(g/2), g = 3 and 297; the first by squares, the second by a gamma variate."""
    members = 600
    sim = tp.compile(trap, 0.1, temperature=0.5, bath="bussi", tau=0.05)
    q, p = np.random.default_rng(1).standard_normal((2, members, n, 3))
    out = sim.evolve(q=0.7 * q, p=p, steps=60, seed=2, frames=2, observe_every=60, observe={"T": tp.physics.temperature(at="bath")})  # fmt: skip
    twice = np.asarray(out["T"])[-1] * 3 * n
    assert kstest(twice / (2 * 0.5), gamma_law(1.5 * n).cdf).pvalue > 1e-3


def test_with_one_number_bussi_is_langevin():
    """p' = √c p + √((1 - c) m k_BT) ξ with c = exp(-h/τ): the rate of langevin is 1/2τ. The noise is the same address."""
    start = dict(q=0.0, p=2.0, steps=1, seed=4)
    a = tp.compile(spring, 0.1, temperature=0.2, bath="bussi", tau=0.7).evolve(**start).final
    b = tp.compile(spring, 0.1, temperature=0.2, friction=1 / 1.4).evolve(**start).final
    assert (float(a.q), float(a.p)) == pytest.approx((float(b.q), float(b.p)), rel=1e-13)


def test_momenta_at_rest_stay_with_bussi():
    out = tp.compile(spring, 0.1, temperature=1.0, bath="bussi").evolve(q=0.0, p=0.0, steps=5)
    assert out.stopped is None and out.final.p == 0.0


@pytest.mark.parametrize("n", [3, 9, 10, 300])
def test_a_sum_of_squares_has_the_law_of_chi_square(n):
    @tp.map
    def drawn(x):
        return SumOfSquares(n).value(
            [draw(kind, 7 + k, shape) for k, (kind, shape) in enumerate(SumOfSquares(n).draws)]
        )

    x = tp.compile(drawn).evolve(x=np.zeros(20_000), steps=1, seed=5).final.x
    assert kstest(x / 2, gamma_law(n / 2).cdf).pvalue > 1e-3


def test_attempts_that_are_refused_are_followed_by_others():
    """All eight: then the middle of the law. Numbers that refuse come first, and only the third is taken."""
    from tinyphysics.ir import UOp
    from tinyphysics.ir.value import evaluate

    normal, uniform = UOp.var("x", (8,)), UOp.var("u", (8,))
    value = SumOfSquares(10).value([normal, uniform])
    d = 10 / 2 - 1 / 3
    for taken, x in ((2, 0.5), (8, 0.0)):
        env = {"x": [-40.0] * taken + [x] * (8 - taken), "u": [0.1] * 8}
        (found,) = evaluate([value], env)
        assert float(found) == pytest.approx(2 * d * (1 + x / math.sqrt(9 * d)) ** 3 if taken < 8 else 2 * d)


def test_the_momentum_of_the_whole_stays_and_g_does_not_count_it():
    m, p = np.array([1.0, 2.0, 3.0, 1.0, 1.0]), np.array([1.0, -0.5, 0.4, 0.0, 1.0])
    for bath in ("bussi", "nose_hoover"):
        sim = tp.compile(free_chain, 0.05, temperature=0.7, bath=bath)
        out = sim.evolve(q=np.zeros((400, 5)), p=np.tile(p, (400, 1)) * np.linspace(0.5, 1.5, 400)[:, None], m=m,
                         steps=2000, seed=3, frames=2, observe={"P": lambda p: p.sum(), "T": tp.physics.temperature()})  # fmt: skip
        P = np.asarray(out["P"])
        assert np.abs(P - P[0]).max() < 1e-12
        assert np.asarray(out["T"])[400:].mean() == pytest.approx(0.7, rel=0.02)
        assert degrees(sim) == "4" and "relative to the centre of mass" in sim.certificate.canonical.because
        relative = np.asarray(out.final.p) - m * (np.asarray(out.final.p).sum(1) / m.sum())[:, None]
        assert (relative**2 / m).sum(1).mean() == pytest.approx(4 * 0.7, rel=0.12)


def degrees(sim):
    return next(
        r.verdict for s in sim.explain("full").sections for r in s.rows if r.name == "degrees of freedom"
    )


def test_g_follows_from_what_forces_keep():
    def g(system, bath, **sizes):
        sim = tp.compile(system, 0.1, temperature=1.0, bath=bath, sizes=sizes or None)
        return degrees(sim)

    assert g(trap, "bussi", n=5) == g(trap, "nose_hoover", n=5) == g(trap, "langevin", n=5) == "15"
    assert g(free_chain, "bussi", n=6) == "5" and g(free_chain, "langevin", n=6) == "6"
    assert g(channel, "nose_hoover", n=4) == "7"  # forces keep the momentum along the first axis
    sim = tp.compile(channel, 0.1, temperature=1.0, bath="bussi")
    with pytest.raises(tp.InputError, match="along 1 of its axes"):
        sim.evolve(q=np.ones((4, 2)), p=np.ones((4, 2)), steps=1, observe={"T": tp.physics.temperature()})


@tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])
def two(x, px, y, py):
    return px**2 / 2 + py**2 / 2 + (x - y) ** 2 / 2


def test_a_sum_of_momenta_that_is_no_momentum_of_the_whole_is_told():
    with pytest.raises(tp.PlanError, match="keep a sum of momenta"):
        tp.compile(two, 0.1, temperature=1.0, bath="bussi")
    assert tp.compile(two, 0.1, temperature=1.0).certificate.canonical


# --- chains -------------------------------------------------------------------------------------------------
def errors_of_a_chain(dts, bath="nose_hoover"):
    for dt in dts:
        out = tp.compile(quartic, dt, temperature=1.0, bath=bath).evolve(
            q=1.0, p=0.3, until=20.0, save_every=1
        )
        yield float(np.abs(out.extended_energy - out.extended_energy[0]).max())


@pytest.mark.parametrize("bath", ["nose_hoover", tp.nose_hoover(length=5)])
def test_the_extended_energy_of_a_chain_has_order_two(bath):
    errors = list(errors_of_a_chain((0.1, 0.05, 0.025), bath))
    slopes = np.diff(np.log(errors)) / math.log(0.5)
    assert slopes == pytest.approx([2.0, 2.0], abs=0.15)


def test_the_extended_energy_is_that_of_the_states():
    sim = tp.compile(quartic, 0.05, temperature=0.8, bath="nose_hoover", tau=0.6)
    out = sim.evolve(q=1.0, p=0.3, p_eta=[0.3, -0.1, 0.2], steps=400)
    Q = np.array([0.8 * 0.36] * 3)
    own = out.energy + (out.p_eta**2 / (2 * Q)).sum(1) + 0.8 * out.eta.sum(1)
    assert out.extended_energy - out.extended_energy[0] == pytest.approx(own - own[0], abs=1e-12)
    assert out.energy[-1] - out.energy[0] == pytest.approx(out.heat[-1] + out.shadow_work[-1], abs=1e-12)
    out.drift("energy")
    assert out.metrics["drift"]["energy"] == "H, and what is booked as heat"


def test_a_chain_keeps_its_measure():
    """det DΦ = exp(-(nΔη₁ + Δη₂ + Δη₃)) to rounding, over 20 steps."""
    sim = tp.compile(trap, 0.1, temperature=0.7, bath="nose_hoover", tau=0.8)
    rng = np.random.default_rng(3)
    start = dict(
        q=rng.normal(size=(2, 3)), p=rng.normal(size=(2, 3)), eta=rng.normal(size=3), p_eta=rng.normal(size=3)
    )
    blocks = sim.jacobian(**start, steps=20)
    J = np.block(
        [[np.reshape(blocks[a][b], (np.size(start[a]), np.size(start[b]))) for b in start] for a in start]
    )
    out = sim.evolve(**start, steps=20).final
    shift = 6 * (out.eta[0] - start["eta"][0]) + (out.eta[1:] - start["eta"][1:]).sum()
    assert abs(shift) > 0.5
    assert np.linalg.det(J) == pytest.approx(math.exp(-shift), rel=1e-9)


def test_a_chain_goes_back():
    sim = tp.compile(well, 0.1, temperature=1.0, bath="nose_hoover")
    end = sim.evolve(q=0.4, p=0.3, steps=50).final
    back = sim.evolve(q=end.q, p=-end.p, eta=end.eta, p_eta=-end.p_eta, steps=50).final
    assert (back.q, -back.p) == pytest.approx((0.4, 0.3), abs=1e-9)
    assert back.eta == pytest.approx([0, 0, 0], abs=1e-9)
    verdict = sim.certificate
    assert list(verdict) == ["canonical", "measure-preserving", "symmetric", "reversible", "consistent"]
    assert all(verdict.values()) and "exp(1*eta[0] + eta[1] + eta[2])" in verdict.measure_preserving.because


@pytest.mark.parametrize("falls", ["temperature", "tau"])
def test_the_books_of_a_chain_hold_where_its_temperature_falls(falls):
    """H less the heat has the error of the step, dt²; what it gives is k_BT(t) times what turns eta."""
    options = {"temperature": 1.5, "tau": 0.8} | {falls: lambda t: 1.5 - 0.04 * t}
    errors = []
    for dt in (0.05, 0.025, 0.0125):
        sim = tp.compile(well, dt, bath="nose_hoover", **options)
        out = sim.evolve(q=0.1, p=0.2, until=20.0, save_every=1)
        errors.append(float(np.abs(out.extended_energy - out.extended_energy[0]).max()))
    assert np.diff(np.log(errors)) / math.log(0.5) == pytest.approx([2.0, 2.0], abs=0.15)
    verdicts = sim.certificate
    assert not verdicts.canonical and "depends on time" in verdicts.canonical.because
    assert not verdicts.reversible and "depends on time" in verdicts.reversible.because
    assert verdicts.measure_preserving and verdicts.symmetric


def test_a_chain_cools_what_its_temperature_leaves():
    """⟨p²/m⟩ of 3 × 40 anharmonic oscillators at the end of a slow fall from 2 to 0.5."""
    sim = tp.compile(knot, 0.05, temperature=lambda t: 2.0 - 0.015 * t, bath="nose_hoover")
    q, p = np.random.default_rng(3).normal(size=(2, 300, 3))
    out = sim.evolve(q=q, p=1.5 * p, until=100.0, frames=2, observe={"p2": lambda p: p @ p / 3})
    assert np.asarray(out["p2"])[-200:].mean() == pytest.approx(0.5 + 0.015 * 5, rel=0.06)


def test_a_piece_of_a_bath_that_sees_another_time_is_no_palindrome():
    sim = tp.compile(well, 0.1, temperature=lambda t: 1.5 - 0.04 * t, bath="nose_hoover")
    text = str(sim.tpir)
    assert "TIME T21, 0.5" in text and verify(parse(text)).symmetric
    late = "\n".join(
        x for x in text.replace("TIME T21, 0.5", "TIME T21, 0.75").splitlines() if not x.startswith("claim")
    )
    assert "sees the time" in verify(parse(late)).symmetric.because


def test_one_thermostat_alone_warns_and_is_not_called_canonical():
    with pytest.warns(tp.PhysicsWarning, match="not ergodic"):
        sim = tp.compile(spring, 0.1, temperature=1.0, bath=tp.nose_hoover(length=1))
    assert not sim.certificate.canonical and "not ergodic" in sim.certificate.canonical.because
    assert sim.certificate.measure_preserving and sim.certificate.reversible


@pytest.mark.all("10⁷ steps")
def test_a_chain_samples_a_quartic_well():
    out = tp.compile(quartic, 0.05, temperature=1.0, bath="nose_hoover").evolve(
        q=1.0, p=0.3, steps=10_000_000, frames=2, observe_every=4, observe={"q2": lambda q: q**2})  # fmt: skip
    assert np.asarray(out["q2"]).mean() == pytest.approx(0.676, abs=0.003)


def test_a_trigger_cools_and_is_not_called_canonical():
    """Above the temperature it is a bath, below it nothing: a hot start cools, a cold one keeps its energy."""
    sim = tp.compile(trap, 0.05, temperature=1.0, bath="trigger", tau=0.5)
    q, p = np.random.default_rng(2).normal(size=(2, 40, 3))
    hot = sim.evolve(q=4 * q, p=4 * p, steps=600, seed=1)
    assert hot.energy[-1] < 0.3 * hot.energy[0] and hot.heat[-1] < -100.0
    cold = sim.evolve(q=0.3 * q, p=0.3 * p, steps=300, seed=1)
    assert cold.heat[-1] == 0.0
    assert not sim.certificate.canonical and "gives none back" in sim.certificate.canonical.because
    with pytest.raises(tp.PlanError, match="has no derivative"):
        sim.grad(lambda out: out.final.q.sum(), q=q, p=p, steps=3, wrt=["q"])


# --- memory -------------------------------------------------------------------------------------------------
A3 = [[0.5, 1.5, 0.0], [-1.5, 2.0, 1.0], [0.0, -1.0, 0.25]]


@pytest.mark.parametrize("A", [[[0.0, 1.0], [-1.0, 2.0]], A3])
@pytest.mark.parametrize("h", [1e-5, 0.1, 3.0])
def test_a_memory_is_solved_exactly(A, h):
    """c = exp(-hA), and S Sᵀ = 1 - c cᵀ to 1e-12 of each entry, also where that is h³/3: beside 60 digits."""
    import mpmath

    from tinyphysics.ir import UOp, f64
    from tinyphysics.ir.value import evaluate
    from tinyphysics.rules.formulas.memory import matrices, root_of, unit

    bath, n = tp.gle(A), len(A)
    c, D = matrices(bath.A, unit(n), 1.0, UOp.var("h"))
    S = [x for row in root_of(D) for x in row]
    found_c, found_D, *found_S = evaluate([c, D, *S], {"h": h})
    with mpmath.workdps(60):
        e = mpmath.expm(-mpmath.mpf(h) * mpmath.matrix(A))
        wanted = mpmath.eye(n) - e * e.T
        lower = mpmath.zeros(n)
        k = 0
        for i in range(n):
            for j in range(i + 1):
                lower[i, j], k = mpmath.mpf(float(found_S[k])), k + 1
        again = lower * lower.T
        for i in range(n):
            for j in range(n):
                scale = mpmath.sqrt(wanted[i, i] * wanted[j, j])
                assert abs(float(np.reshape(found_c, (n, n))[i, j]) - e[i, j]) < 1e-13
                assert abs(float(np.reshape(found_D, (n, n))[i, j]) - wanted[i, j]) < 1e-12 * scale
                assert abs(again[i, j] - wanted[i, j]) < 1e-12 * scale
    assert f64 is c.dtype


def test_a_kernel_is_its_memory():
    """Without noise p' = -∫K(t - u)p(u)du: of K = exp(-t/2) the mean of p solves p'' + p'/2 + p = 0."""

    @tp.hamiltonian
    def free(q, p):
        return p**2 / 2 + 0.0 * q

    out = tp.compile(free, 0.5, temperature=1e-12, bath=tp.gle(kernel=[(1.0, 2.0)])).evolve(
        q=0.0, p=1.0, steps=8
    )
    t, w = out.t, math.sqrt(1 - 1 / 16)
    exact = np.exp(-t / 4) * (np.cos(w * t) + 0.25 / w * np.sin(w * t))
    assert np.abs(out.p - exact).max() < 2e-5


def test_a_memory_with_another_law_is_not_called_canonical():
    A = [[1.0, 0.5], [-0.5, 2.0]]
    sim = tp.compile(spring, 0.1, temperature=1.0, bath=tp.gle(A, C=[[2.0, 0.0], [0.0, 2.0]]))
    assert not sim.certificate.canonical and "another law than Maxwell's" in sim.certificate.canonical.because
    q2, _, _ = moments(spring, 0.2, bath=tp.gle(A, C=[[2.0, 0.0], [0.0, 2.0]]))
    assert q2 == pytest.approx(2.0, rel=0.03)


@pytest.mark.parametrize("call, match", [
    (lambda: tp.gle(), "a matrix A or a kernel"),
    (lambda: tp.gle([[1.0, 0.0], [0.0, -1.0]]), "not stable"),
    (lambda: tp.gle([[1.0, 5.0], [0.0, 1.0]]), "no noise for this A"),
    (lambda: tp.gle([1.0, 2.0]), "not a square matrix"),
    (lambda: tp.gle(kernel=[(1.0, -1.0)]), "not a list of positive"),
    (lambda: tp.gle([[1.0]]), "A has 1 rows"),
    (lambda: tp.compile(spring, 0.1, temperature=1.0, bath=MEMORY, friction=1.0), "rates are in its matrix"),
    (lambda: tp.compile(spring, 1000.0, temperature=1.0, bath=MEMORY), "the norm of A"),
])  # fmt: skip
def test_what_is_no_memory_is_refused(call, match):
    with pytest.raises(tp.TinyPhysicsError, match=match):
        call()


# --- certificates -------------------------------------------------------------------------------------------
def listing(system, bath, **options):
    text = str(tp.compile(system, 0.1, temperature=1.0, bath=bath, backend="python", **options).tpir)
    return re.sub(r"^(claims?|certif\w*) .*\n", "", text, flags=re.M)


@pytest.mark.parametrize("system, bath, old, new, why", [
    (quartic, "bussi", r"bussi, 1.0,", "bussi, 0.5,", "not shown to be a part"),
    (quartic, "bussi", r", 1.0, \(\)", ", 2.0, ()", "not shown to be a part|numbers"),
    (quartic, "bussi", r"NOISE T(\d+), normal, 0.0", r"NOISE T\1, normal, 1.0", "at each of its addresses"),
    (quartic, "nose_hoover", r"exp, (T\d+)", r"expm1, \1", "not shown to be a part"),
    (quartic, "brownian", r"mul, 0.5, (T\d+)", r"mul, 0.6, \1", "not shown to be a part"),
    (quartic, "brownian", r"ELEM T5, neg, T4", "ELEM T5, mul, T4, -1.1", "minus the derivative"),
])  # fmt: skip
def test_a_bath_that_is_another_is_not_canonical(system, bath, old, new, why):
    text = listing(system, bath)
    assert verify(parse(text)).canonical
    changed, count = re.subn(old, new, text, count=0 if "bussi" in old or r"\(\)" in old else 1)
    assert count
    found = verify(parse(changed))
    assert not found.canonical and re.search(why, found.canonical.because)


def test_a_g_that_is_not_that_of_the_forces_is_seen():
    """A trap does not keep the momentum of the whole: a bath that leaves it out is not canonical."""
    sim = tp.compile(channel, 0.1, temperature=1.0, bath="bussi", sizes={"n": 3}, backend="python")
    text = str(sim.tpir)
    assert sim.certificate.canonical and "(0,)" in text
    wrong = re.sub(r"^claims? .*\n", "", str(tp.compile(channel_of_walls(), 0.1, temperature=1.0, bath="bussi", backend="python").tpir), flags=re.M)  # fmt: skip
    assert verify(parse(wrong)).canonical


def channel_of_walls():
    @tp.hamiltonian
    def both(q: tp.Array[3, 2], p: tp.Array[3, 2]):
        d = q[1:] - q[:-1]
        return (p**2).sum() / 2 + (d**2).sum() / 2 + (q**2).sum() / 2

    return both


def test_a_temperature_that_depends_on_time_is_that_of_the_time():
    """Momenta that are drawn anew in every step have the temperature of its middle."""
    sim = tp.compile(spring, 0.5, temperature=lambda t: 1.0 + t, friction=100.0)
    out = sim.evolve(q=np.zeros(40_000), p=np.zeros(40_000), steps=8, seed=1, save_every=1,
                     observe={"T": tp.physics.temperature(at="bath")})  # fmt: skip
    assert np.asarray(out["T"])[1:].mean(1) == pytest.approx(1.25 + 0.5 * np.arange(8), rel=0.04)
    assert not sim.certificate.canonical and "depends on time" in sim.certificate.canonical.because
    bussi = tp.compile(spring, 0.5, temperature=lambda t: 1.0 + t, tau=0.01, bath="bussi")
    out = bussi.evolve(q=np.zeros(40_000), p=np.ones(40_000), steps=4, seed=1, save_every=1,
                       observe={"T": tp.physics.temperature(at="bath")})  # fmt: skip
    assert np.asarray(out["T"])[1:].mean(1) == pytest.approx(1.25 + 0.5 * np.arange(4), rel=0.04)


# --- bits ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("bath", BATHS)
@pytest.mark.parametrize("precision", ["float64", "float32", "mixed", "compensated", "dd"])
def test_backends_have_the_same_bits(bath, precision):
    def run(where):
        sim = tp.compile(well, 0.05, temperature=0.7, bath=bath, backend=where, precision=precision)
        start = dict(q=[0.1, 0.2, 0.3], p=[0.4, 0.1, 0.1], temperature=[0.5, 0.6, 0.7], steps=12, seed=3)
        out = sim.evolve(**start)
        assert out.stopped is None
        return out.hash

    assert run("python") == run("numpy") == run("c") == run("llvm")


@pytest.mark.parametrize("bath", BATHS)
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_loops_have_the_same_bits(bath, precision):
    n = 150
    start = dict(q=np.linspace(-1, 1, n), p=np.cos(np.arange(n)), m=np.linspace(1, 2, n))

    def run(where):
        sim = tp.compile(free_chain, 0.02, temperature=0.7, bath=bath, backend=where, precision=precision)
        out = sim.evolve(**start, steps=4, seed=3)
        assert out.stopped is None
        return out.hash

    assert run("python") == run("numpy") == run("c") == run("llvm")


@pytest.mark.parametrize("bath", BATHS)
def test_frames_observers_threads_resume_and_other_members_change_no_bit(bath, tmp_path):
    sim = tp.compile(well, 0.05, temperature=0.7, bath=bath)
    q = np.linspace(-1, 1, 40)
    start = dict(q=q, p=1 + 0 * q, seed=5)
    whole = sim.evolve(**start, steps=60)
    other = sim.evolve(**start, steps=60, save_every=7, observe={"T": lambda p: p**2}, threads=2)
    assert other.hash == whole.hash
    sim.evolve(**start, steps=23, checkpoint=tmp_path / "run")
    assert sim.evolve(resume=tmp_path / "run", steps=37).hash == whole.hash
    alone = sim.evolve(q=q[:3], p=1 + 0 * q[:3], seed=5, steps=60).final
    assert np.array_equal(alone.q, whole.final.q[:3])
    sim.save(tmp_path / "well.json")
    assert tp.load(tmp_path / "well.json").evolve(**start, steps=60).hash == whole.hash
    assert np.array_equal(sim.rewind(whole, 20).final.q, sim.evolve(**start, steps=40).final.q)


@pytest.mark.parametrize("bath", BATHS)
def test_a_gpu_has_the_same_bits(fake_cuda, bath):
    start = dict(q=np.linspace(-1, 1, 9), p=np.ones(9), steps=6, seed=3)

    def run(where):
        return tp.compile(well, 0.05, temperature=0.7, bath=bath, backend=where).evolve(**start).hash

    assert run("cuda") == run("llvm")


@pytest.mark.parametrize("bath", BATHS)
def test_gradients_see_the_same_noise(bath):
    sim = tp.compile(well, 0.05, temperature=1.0, bath=bath)
    assert sim.gradcheck(lambda out: out.final.q, q=0.3, p=0.5, steps=6, wrt=["q", "m", "temperature"])


@pytest.mark.parametrize("bath", BATHS)
def test_books_add_up(bath):
    sim = tp.compile(well, 0.02, temperature=1.0, bath=bath)
    out = sim.evolve(q=np.linspace(-1, 1, 20), p=np.ones(20), steps=400, seed=2)
    assert np.abs(out.heat[-1]).max() > 0.3
    gap = out.energy - out.energy[0] - out.heat - out.shadow_work
    assert np.abs(gap).max() < 1e-12 * np.abs(out.energy).max()
    assert np.abs(out.shadow_work).max() < 0.05


# --- words --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("system, options, match", [
    (well, {"temperature": 1.0, "bath": "bussy"}, "Did you mean `bussi`"),
    (well, {"temperature": 1.0, "bath": 3}, "there is no bath 3"),
    (well, {"temperature": 1.0, "bath": "bussi", "friction": 1.0}, "which has no rate but a time"),
    (well, {"temperature": 1.0, "tau": 1.0}, "which has a rate"),
    (well, {"temperature": 1.0, "bath": "bussi", "tau": 0.0}, "not above zero"),
    (well, {"temperature": 1.0, "bath": "bussi", "tau": "T"}, "no parameter of that name"),
    (well, {"tau": 1.0}, "tau=1.0 without a temperature"),
    (well, {"temperature": lambda x: x}, "neither t nor a parameter"),
    (well, {"temperature": 1.0, "bath": "brownian", "method": "baoab"}, "moves positions alone"),
    (well, {"temperature": 1.0, "method": "brownian"}, "its bath is not brownian"),
    (well, {"temperature": 1.0, "bath": "nose_hoover", "precision": "lattice"}, "lattice"),
])  # fmt: skip
def test_what_is_no_bath_is_refused(system, options, match):
    with pytest.raises(tp.TinyPhysicsError, match=match):
        tp.compile(system, 0.1, **options).built  # noqa: B018


def test_noise_does_not_run_backwards():
    for bath in ("langevin", "bussi", "brownian"):
        with pytest.raises(tp.PlanError, match="does not run backwards"):
            tp.compile(well, -0.1, temperature=1.0, bath=bath)
    there = tp.compile(well, 0.1, temperature=1.0, bath="nose_hoover").evolve(q=0.4, p=0.3, steps=20).final
    back = tp.compile(well, -0.1, temperature=1.0, bath="nose_hoover")
    again = back.evolve(q=there.q, p=there.p, eta=there.eta, p_eta=there.p_eta, steps=20).final
    assert float(again.q) == pytest.approx(0.4, abs=1e-10)


def test_lengths_of_chains_are_checked():
    with pytest.raises(tp.PlanError, match="1 to 32 links"):
        tp.nose_hoover(length=0)


def test_run_time_values_may_differ_by_member():
    sim = tp.compile(spring, 0.1, temperature=1.0, bath="bussi")
    T = np.repeat([0.5, 2.0], 1500)
    out = sim.evolve(q=np.ones(3000), p=np.ones(3000), temperature=T, tau=np.tile([0.3, 1.0], 1500), steps=300, seed=1, frames=2, observe={"p2": lambda p: p**2})  # fmt: skip
    assert np.asarray(out["p2"])[60:].mean(0).reshape(2, -1).mean(1) == pytest.approx([0.5, 2.0], rel=0.03)
    with pytest.raises(tp.InputError, match="above zero"):
        sim.evolve(q=1.0, p=1.0, tau=-1.0, steps=1)


@pytest.mark.all("108 atoms for 15,000 steps")
@pytest.mark.requirement("S2-21")
@pytest.mark.parametrize("bath", ["bussi", "nose_hoover"])
def test_argon_at_300_kelvin(bath):
    """2K/(g k_B) to 1 %, velocities with Maxwell's law, and K of bussi with that of g."""

    @tp.hamiltonian
    def argon(q: tp.Array["n", 3], p: tp.Array["n", 3], box: float = 1.0):  # noqa: F821
        s = 1 / tp.pair_distance2(q, box=box, cutoff=2.5, skin=0.3, switch=2.0) ** 3
        return (p**2).sum() / 2 + tp.pair_sum(4 * (s * s - s))

    kB = 1.380649e-23 / 1.65e-21
    q, box = lattice("fcc", 3, density=0.6)
    p = np.random.default_rng(0).normal(size=q.shape) * math.sqrt(300 * kB)
    p -= p.mean(0)
    sim = tp.compile(argon, 0.004, temperature=300.0, kB=kB, tau=0.2, bath=bath)
    out = sim.evolve(q=q, p=p, box=float(box[0]), steps=15_000, frames=60, observe_every=10, seed=1,
                     observe={"T": tp.physics.temperature(kB=kB, at="bath")})  # fmt: skip
    found = tp.statistics(out["T"])
    assert abs(found.mean - 300.0) < 3.0 + 2 * found.error and found.error < 2.0
    v = np.asarray(out.p)[20:].ravel() / np.sqrt(300 * kB * (1 - 1 / 108))
    assert kstest(v[::7], "norm").pvalue > 1e-3
    K = np.asarray(out["T"])[200::20] * 321 / (2 * 300.0)
    assert kstest(K, gamma_law(321 / 2).cdf).pvalue > 1e-3


@pytest.mark.parametrize("bath", ["langevin", "andersen", *BATHS])
def test_masses_that_are_written_out_are_masses(bath):
    @tp.hamiltonian
    def two(q: tp.Vec[2], p: tp.Vec[2]):
        return p[0] ** 2 / 2 + p[1] ** 2 / 4.8 + (q**4).sum() / 4 + q[0] * q[1] / 3

    assert tp.compile(two, 0.1, temperature=1.0, bath=bath).certificate.canonical


def test_a_brownian_bath_may_depend_on_time():
    """It sees the middle of a step: momenta hold the temperature, and without noise positions are a product."""
    given = dict(bath="brownian", friction=lambda t: 1 + t)
    sim = tp.compile(spring, 0.1, temperature=lambda t: 1 + t, **given)
    start = dict(q=np.zeros(20_000), p=np.zeros(20_000), seed=3)
    assert np.var(sim.evolve(**start, steps=5).final.p) == pytest.approx(1.45, abs=0.06)
    assert not sim.certificate.canonical and "depends on t" in sim.certificate.canonical.because
    cold = tp.compile(spring, 0.1, temperature=lambda t: 1e-14 * (1 + t), **given).evolve(
        q=1.0, p=0.0, steps=20
    )
    assert cold.final.q == pytest.approx(np.prod([1 - 0.1 / (1.05 + 0.1 * k) for k in range(20)]), rel=1e-5)
    found = {
        name: tp.compile(spring, 0.1, temperature=lambda t: 1 + t, backend=name, **given)
        .evolve(q=0.2, p=0.1, steps=9).hash for name in ("python", "llvm", "numpy")
    }  # fmt: skip
    assert len(set(found.values())) == 1
    assert sim.gradcheck(lambda out: out.final.q**2, q=0.3, p=0.1, steps=6).differences < 1e-12


@pytest.mark.parametrize("friction, dt, told", [(1.0, 1.9, False), (1.0, 2.1, True), (0.1, 0.25, True), ([0.1, 9.0], 0.25, False)])  # fmt: skip
def test_a_brownian_step_that_is_too_long_is_told(recwarn, friction, dt, told):
    """q' = q - dt k/(m friction) q: the limit is 2, of the largest friction where there are several."""

    @tp.hamiltonian
    def two(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + q @ q / 2

    out = tp.compile(two, dt, temperature=1.0, bath="brownian", friction=friction).evolve(
        q=[0, 0], p=[0, 0], steps=9
    )
    words = "beyond the stability limit of a Brownian step"
    assert any(words in str(w.message) for w in recwarn) == told == bool(out.metrics.get("notes"))
