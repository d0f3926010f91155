"""Has every precision a gradient, with as many digits as its steps, and the same bits on every backend?"""

from __future__ import annotations

import numpy as np
import pytest

from here import need

import tinyphysics as tp
from tinyphysics.runtime.measure.cotangent_words import added
from tinyphysics.runtime.measure.loop_numbers import HOST

pytestmark = pytest.mark.requirement("S2-40")
PRECISIONS = ("float32", "mixed", "compensated", "dd", "lattice")
DIGITS = {"float32": 2e-5, "mixed": 2e-7, "compensated": 2e-6, "dd": 1e-12, "lattice": 1e-10}
START = dict(q=[0.1, -0.2], p=[0.3, 0.1])
# from an independent computation in 50 digits: value, d/dq, d/dp, d/dlambda (as in test_gradients.py)
HENON = [
    0.04186448506308,
    0.3213045277363,
    0.04206814987213,
    -0.3050650018455,
    0.08577010437926,
    -0.1429546374427,
]
CHAOS = dict(q=[0.0, -0.016], p=[np.sqrt(0.25 - 0.016**2 - 2 * 0.016**3 / 3), 0.0])  # E = 1/8


@tp.hamiltonian
def henon(q: tp.Vec[2], p: tp.Vec[2], lam: float = 1.0):
    return (p @ p + q @ q) / 2 + lam * (q[0] ** 2 * q[1] - q[1] ** 3 / 3)


@tp.hamiltonian
def chain(q: tp.Vec[40], p: tp.Vec[40], alpha: float = 0.25):
    x = tp.concatenate([np.zeros(1), q, np.zeros(1)])
    d = x[1:] - x[:-1]
    return p @ p / 2 + (d**2 / 2 + alpha * d**3 / 3).sum()


@tp.hamiltonian
def bodies(q: tp.Array["N", 2], p: tp.Array["N", 2], m: tp.Array["N"], g: float = 1.0):
    d = q[:, None] - q[None, :]
    return (p**2 / m[:, None]).sum() / 2 - g * tp.pair_sum(
        m[:, None] * m[None, :] / tp.sqrt((d**2).sum(-1) + 0.1)
    )


def quadratic(out):
    return out.final.q @ out.final.q + out.final.p[0] * out.final.q[1]


def squares(out):
    return (out.final.q**2).sum() + (out.final.p * out.final.q).sum()


CHAIN = dict(q=2 * np.sin(np.pi * np.arange(1, 41) / 41) + 0.1 * np.cos(np.arange(40)), p=np.zeros(40))
BODIES = dict(q=np.random.default_rng(2).normal(size=(5, 2)), p=np.zeros((5, 2)), m=np.linspace(0.5, 1.0, 5))
SYSTEMS = {
    "lanes": (henon, quadratic, START),
    "chain": (chain, squares, CHAIN),
    "pairs": (bodies, squares, BODIES),
}


@pytest.mark.parametrize("past", ["reverse", "store", "checkpoint"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_gradient_has_the_digits_of_its_steps(precision, past):
    sim = tp.compile(henon, dt=0.01, method="leapfrog", precision=precision)
    value, grads = sim.value_and_grad(quadratic, **START, steps=1000, past=past, snapshots=30)
    got = np.array([value, *grads["q"], *grads["p"], grads["lam"]])
    assert np.allclose(got, HENON, rtol=DIGITS[precision], atol=0)
    assert grads.report.past == past


@pytest.mark.parametrize(
    "name", ["lanes", *(pytest.param(n, marks=pytest.mark.all) for n in ("chain", "pairs"))]
)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_tangents_and_differences_agree_in_every_precision(precision, name):
    system, loss, start = SYSTEMS[name]
    found = tp.compile(system, dt=0.02, method="leapfrog", precision=precision).gradcheck(
        loss, **start, steps=20
    )
    assert found.passed and found.in_double_double


def bits(backend, precision, system, loss, start, **more):
    sim = tp.compile(system, dt=0.02, method="leapfrog", precision=precision, backend=backend)
    return sim.grad(loss, **start, steps=5, wrt=[*start, "dt"], **more)


BACKENDS = ("numpy", "llvm", "c", "opencl")
FEW = {("lanes", b) for b in BACKENDS} | {("chain", "llvm"), ("pairs", "llvm")}
ROWS = [pytest.param(n, b, marks=() if (n, b) in FEW else pytest.mark.all) for n in SYSTEMS for b in BACKENDS]


@pytest.mark.parametrize("name, backend", ROWS)
@pytest.mark.parametrize("precision", ["float64", *PRECISIONS])
def test_every_backend_has_the_bits_of_the_virtual_machine(precision, name, backend):
    if backend == "opencl":
        need("opencl")
        if precision in ("float32", "mixed", "compensated"):  # outside its contract: test_opencl.py
            with pytest.raises(tp.PlanError, match=f"does not run {precision}"):
                bits(backend, precision, *SYSTEMS[name], past="reverse")
            return
    for past in ("reverse", "store"):
        a, b = (bits(x, precision, *SYSTEMS[name], past=past) for x in ("python", backend))
        assert all(np.array_equal(a[n], b[n]) for n in a)


@pytest.mark.parametrize("name", ["lanes", "chain"])
@pytest.mark.parametrize("precision", ["float64", *PRECISIONS])
def test_a_gpu_has_the_bits_of_the_processor(fake_cuda, precision, name):
    system, loss, start = SYSTEMS[name]
    if name == "lanes":
        start = {n: np.multiply.outer([1.0, 0.7, -0.3], v) for n, v in start.items()}
    a, b = (bits(x, precision, system, loss, start) for x in ("llvm", "cuda"))
    assert fake_cuda.launches and all(np.array_equal(a[n], b[n]) for n in a)


def test_cotangents_that_outgrow_float32_keep_their_exponent():
    sim = tp.compile(henon, dt=0.1, method="leapfrog", precision="float32")
    grads = sim.grad(quadratic, **CHAOS, steps=100_000)
    mantissa, exponent = grads.words("q")
    size = exponent + np.log2(np.abs(mantissa).max())
    assert np.isfinite(mantissa).all() and 200 < size < 1000  # of float32 the largest is 2**128
    assert np.isfinite(grads["q"]).all() and np.isfinite(grads["lam"])


def test_words_are_added_to_words():
    a = {"q.bar": np.array([1.0]), "q.bar.low": np.array([2.0**-60])}
    b = {"q.bar": np.array([-1.0 + 2.0**-50]), "q.bar.low": np.array([2.0**-70])}
    found = added(a, b)
    assert found["q.bar"][0] + found["q.bar.low"][0] == 2.0**-50 + 2.0**-60 + 2.0**-70
    high, low = HOST.two_sum(np.float32(1.0), np.float32(2.0**-30))
    assert (high, low) == (1.0, 2.0**-30)
    total = added({"k.bar": np.array([1.0]), "k.rest": np.array([0.0])}, {"k.bar": np.array([2.0**-60])})
    assert total["k.bar"][0] == 1.0 and total["k.rest"][0] == 2.0**-60


# --- how far it means anything ------------------------------------------------------------------------
def test_regular_motion_has_no_horizon():
    sim = tp.compile(henon, dt=0.01, method="leapfrog")
    grads = sim.grad(quadratic, q=[0.1, 0.0], p=[0.1, 0.1], steps=50_000)
    assert grads.horizon.t == np.inf and str(grads.horizon) == "cotangents do not grow exponentially"

    @tp.hamiltonian
    def free(q, p):
        return p**2 / 2

    # a million times as large after t = 1e6, and yet no chaos
    far = tp.compile(free, dt=1.0, method="leapfrog", propagator="loop")
    assert far.grad(lambda out: out.final.q, q=0.0, p=1.0, steps=10**6).horizon.t == np.inf


def test_chaos_says_when_gradients_are_noise_and_when_they_leave_the_equations():
    sim = tp.compile(henon, dt=0.1, method="leapfrog")
    horizon = sim.grad(quadratic, **CHAOS, steps=100_000).horizon
    with pytest.warns(tp.PhysicsWarning, match="Lyapunov"):
        measured = sim.lyapunov(**CHAOS, steps=100_000)
    assert horizon.exponent == pytest.approx(measured.value, rel=0.5)
    assert horizon.t == pytest.approx(53 * np.log(2) / horizon.exponent)
    assert str(horizon).startswith(f"gradients beyond t = {horizon.t:.3g} are noise")
    assert 0.3 < horizon.method / measured.horizon < 3.0 and horizon.method < horizon.t
    assert f"the error of the method they leave those of the equations at t = {horizon.method:.3g}" in str(
        horizon
    )


@pytest.mark.all
def test_reverse_and_store_are_bit_equal_through_a_hundred_thousand_chaotic_steps_of_a_lattice():
    sim = tp.compile(henon, dt=0.01, method="leapfrog", precision="lattice")
    back, kept = (sim.grad(quadratic, **CHAOS, steps=10**5, past=past) for past in ("reverse", "store"))
    for name in ("q", "p", "lam"):
        assert np.array_equal(back.words(name)[0], kept.words(name)[0])
        assert np.array_equal(back.words(name)[1], kept.words(name)[1])


@pytest.mark.all
def test_a_million_chaotic_steps_on_a_lattice_come_back_and_grow_by_thousands_of_powers_of_two():
    sim = tp.compile(henon, dt=0.1, method="leapfrog", precision="lattice")
    back = sim.grad(quadratic, **CHAOS, steps=10**6)
    exponent = back.words("q")[1]
    assert 5500 < exponent < 8500 and back.horizon.exponent == pytest.approx(
        exponent * np.log(2) / 1e5, rel=1e-2
    )
    assert back.horizon.t == pytest.approx(45 * np.log(2) / back.horizon.exponent)  # units of 2**-44
    first = sim.evolve(**CHAOS, steps=0, frames=2).final
    for name in ("q", "p"):
        (words,) = first.words(name)
        assert np.array_equal(back.start[name][0], words)
