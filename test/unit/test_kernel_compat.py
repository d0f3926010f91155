"""Do the names from the source documents still do what they promised?"""

from fractions import Fraction

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.compat import AutoLinearizer, Compiler, Leapfrog, SymplecticEuler, Yoshida4
from tinyphysics.kernel import compile as compile_step
from tinyphysics.tpir import Instruction

RNG = np.random.default_rng(5)
H = 0.01


def fma(a, b, c):
    """a*b + c rounded once, by rational arithmetic."""
    return np.vectorize(lambda x, y, z: float(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))))(
        a, b, c
    )


def leapfrog(q, p, slope, h):
    """Half a kick, a drift, half a kick, as one writes it by hand."""
    p = p - h / 2 * slope(q)
    q = q + h * p
    return q, p - h / 2 * slope(q)


def fused_leapfrog(q, p, slope, h):
    p = fma(-h / 2, slope(q), p)
    q = fma(h, p, q)
    return q, fma(-h / 2, slope(q), p)


def ulps(difference, *numbers):
    """The largest difference, each in units of the last place of the largest of the numbers."""
    return np.max(np.abs(difference) / np.spacing(np.max(np.abs(numbers), axis=0)))


def kepler_slope(q):
    square = q[:, :1] * q[:, :1] + q[:, 1:] * q[:, 1:]
    return q * (1 / (square * np.sqrt(square)))


def kepler(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 - 1 / tp.norm(q)


SYSTEMS = [
    (lambda q, p: p**2 / 2 + q**2 / 2, lambda q: q),
    (lambda q, p: p**2 / 2 - np.cos(q), np.sin),
    (lambda q, p: p**2 / 2 + q**4 / 4, lambda q: q * q * q),
]


@pytest.mark.parametrize("h", [0.1, 0.01, 0.001])
@pytest.mark.parametrize(("energy", "slope"), SYSTEMS[:2])
def test_rounding_products_apart_moves_a_step_by_a_few_ulps(energy, slope, h):
    """By hand, h*f and the sum are rounded one after the other; SYMP_STEP rounds once.

    In ulps of the largest number in the step, one update differs by 3/2: 1/2 for the product, 1/2 for each of
    the two sums. q has one update and inherits h times that of p: at most 2. p has two and inherits, through
    |V''| <= 1, h/2 times that of q and an ulp of the sine: at most 4. One ulp is not to be had this way.
    """
    q, p = np.random.default_rng(0).normal(size=(2, 50_000))
    new_q, new_p = compile_step(energy, method="leapfrog", dt=h)(q, p)
    q_hand, p_hand = leapfrog(q, p, slope, h)
    step = (q, p, q_hand, p_hand, p - h / 2 * slope(q))
    assert ulps(new_q - q_hand, *step) <= 2
    assert ulps(new_p - p_hand, *step) <= 4


@pytest.mark.requirement("S2-72")
@pytest.mark.parametrize(("energy", "slope"), [SYSTEMS[0], SYSTEMS[2], (kepler, kepler_slope)])
def test_a_step_has_the_bits_of_a_leapfrog_with_fused_multiply_adds(energy, slope):
    shape = (100, 2) if energy is kepler else (100,)
    q, p = RNG.normal(size=shape), RNG.normal(size=shape)
    new = compile_step(energy, dt=H)(q, p)
    for mine, hand in zip(new, fused_leapfrog(q, p, slope, H)):
        assert np.array_equal(mine, hand)


@pytest.mark.parametrize("method", [SymplecticEuler, Leapfrog, "leapfrog_dkd", Yoshida4, "rk4", "euler"])
def test_steps_one_by_one_follow_the_run(method):
    step = compile_step(kepler, method=method, dt=H)
    start = dict(q=np.array([1.0, 0.0]), p=np.array([0.0, 1.2]))
    out = tp.compile(tp.hamiltonian(kepler), H, method=method).evolve(**start, steps=50)
    q, p = start["q"], start["p"]
    for _ in range(50):
        q, p = step(q, p)
    assert np.allclose(q, out.final.q, rtol=0, atol=1e-14) and np.allclose(p, out.final.p, rtol=0, atol=1e-14)


def test_every_backend_takes_the_same_step():
    from here import HERE

    q, p = RNG.normal(size=7), RNG.normal(size=7)
    results = [compile_step(SYSTEMS[1][0], dt=H, backend=b)(q, p) for b in HERE]
    for other in results[1:]:
        assert np.array_equal(other[0], results[0][0]) and np.array_equal(other[1], results[0][1])


def test_parameters_and_time_are_keywords():
    @tp.hamiltonian
    def spring(q, p, t, k=1.0):
        return p**2 / 2 + k * q**2 / 2 - q * tp.sin(t)

    step = compile_step(spring, dt=0.1)
    assert step(1.0, 0.0)[1] != step(1.0, 0.0, k=2.0)[1]
    assert step(1.0, 0.0)[1] != step(1.0, 0.0, t=1.0)[1]
    # kicks at t and t + dt: half of each force
    q, p = step(0.0, 0.0, t=1.0)
    half = 0.05 * np.sin(1.0)
    drifted = 0.1 * half
    assert q == pytest.approx(drifted, rel=1e-14)
    assert p == pytest.approx(half + 0.05 * (np.sin(1.1) - drifted), rel=1e-14)


def test_a_step_goes_back_where_it_came_from():
    step, back = (compile_step(kepler, method=Yoshida4, dt=h) for h in (H, -H))
    q, p = back(*step([1.0, 0.0], [0.0, 1.2]))
    assert np.allclose(q, [1.0, 0.0], atol=1e-15) and np.allclose(p, [0.0, 1.2], atol=1e-15)


def test_what_is_not_a_hamiltonian_says_what_to_write():
    with pytest.raises(tp.InputError, match="def H"):
        compile_step(3.0)
    with pytest.raises(tp.PlanError, match="Did you mean `leapfrog`"):
        compile_step(kepler, method="leepfrog")
    with pytest.raises(tp.InputError, match="takes q, p"):
        compile_step(kepler)([1.0, 0.0])


# --- Compiler ---------------------------------------------------------------------------------
def oscillator(q, p):
    return 0.5 * p**2 + 0.5 * q**2


@pytest.mark.requirement("S3-23")
def test_the_compiler_emits_the_list_of_instructions():
    listing = Compiler(oscillator, dt=0.01).emit()
    assert all(isinstance(i, Instruction) for i in listing)
    program = tp.compile(tp.hamiltonian(oscillator), 0.01, method=SymplecticEuler).tpir
    assert listing == [i for _, _, i in program.numbered()]


@pytest.mark.requirement("S3-18", "S3-23")
def test_the_listing_has_one_pass_and_one_negate_and_a_fresh_force():
    lines = [str(i) for i in Compiler(oscillator).emit()]
    assert sum(line.endswith("pass") for line in lines) == 1
    assert sum(line.endswith("negate") for line in lines) == 1
    drift, kick = (
        next(k for k, line in enumerate(lines) if line.startswith(f"SYMP_STEP S{s}")) for s in (0, 1)
    )
    force = next(k for k, line in enumerate(lines) if line.startswith("GRAD_INIT G0"))
    assert drift < force < kick


@pytest.mark.requirement("S2-42")
@pytest.mark.parametrize(("method", "order"), [(SymplecticEuler, 1), (Leapfrog, 2), (Yoshida4, 4)])
def test_the_old_names_are_method_names_of_their_order(method, order):
    sim = tp.compile(tp.hamiltonian(oscillator), 0.01, method=method)
    assert sim.built.plan.order == order
    assert sim.certificate["symplectic"]


# --- AutoLinearizer ---------------------------------------------------------------------------
@pytest.mark.requirement("S2-05", "S2-06")
def test_the_linearizer_extracts_what_is_quadratic_and_says_so(caplog):
    caplog.set_level("INFO", logger="tinyphysics")
    linear = AutoLinearizer(lambda q, p: (p**2).sum() / 4 + (q[0] - q[1]) ** 2, (2,), (2,))
    K, M_inv = linear.check_and_extract()
    assert K.tolist() == [[2.0, -2.0], [-2.0, 2.0]] and M_inv.tolist() == [[0.5, 0.0], [0.0, 0.5]]
    assert caplog.messages == ["[Compiler] System is Linear! Using Matrix Acceleration."]
    assert AutoLinearizer(lambda q, p: p**2 / 2 - tp.cos(q)).check_and_extract() is None
    assert caplog.messages[-1] == "[Compiler] System is Non-Linear. Using Iterative Solver."
    assert (
        AutoLinearizer(lambda q, p: p**2 / 2 + q * p).check_and_extract() is None
    )  # not of the form K, M_inv
    assert AutoLinearizer(lambda q, p: p**2 / 2 + q * p).matrices().rows == [{1: 1}, {0: 1, 1: 1}]


@pytest.mark.requirement("S2-05", "S2-06")
def test_the_linearizer_runs_ahead_and_steps_where_it_must():
    spring = tp.hamiltonian(lambda q, p: p**2 / 2 + q**2 / 2)
    stepped = tp.compile(spring, 0.01, propagator="loop").evolve(q=1.0, p=0.0, steps=10_000).final
    q, p = AutoLinearizer(lambda q, p: p**2 / 2 + q**2 / 2).compile_step(10_000, 0.01)(1.0, 0.0)
    assert abs(q - stepped.q) < 1e-12 and abs(p - stepped.p) < 1e-12
    pendulum = tp.hamiltonian(lambda q, p: p**2 / 2 - tp.cos(q))
    stepped = tp.compile(pendulum, 0.01, propagator="loop").evolve(q=1.0, p=0.0, steps=100).final
    assert AutoLinearizer(lambda q, p: p**2 / 2 - tp.cos(q)).compile_step(100, 0.01)(1.0, 0.0) == (
        stepped.q,
        stepped.p,
    )
