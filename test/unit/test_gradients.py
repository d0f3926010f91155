"""Is what sim.value_and_grad returns the gradient of the steps that ran?  Reference numbers, duality, differences, every past."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.flows.shears import ShearFlow
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.ir.value import evaluate
from tinyphysics.rules.identities.factors import common_cotangents
from tinyphysics.runtime.measure import gradcheck, jump_gradients
from tinyphysics.runtime.measure import past as past_of_a_run
from tinyphysics.runtime.measure.differentiate import value_and_grad
from tinyphysics.runtime.measure.gradcheck import agreed
from tinyphysics.runtime.measure.no_gradient import ROWS, table
from tinyphysics.runtime.measure.past import actions, cost
from tinyphysics.tpir import parse

pytestmark = pytest.mark.requirement("S2-40")
START = dict(q=[0.1, -0.2], p=[0.3, 0.1])
# from an independent computation in 50 digits: value, d/dq, d/dp, d/dlambda
HENON = [
    0.04186448506308,
    0.3213045277363,
    0.04206814987213,
    -0.3050650018455,
    0.08577010437926,
    -0.1429546374427,
]
FPUT = [4.1936910873065, 104.63882890375, -2.3928392343153]  # |d/dq|, |d/dp|, d/dalpha


@tp.hamiltonian
def henon(q: tp.Vec[2], p: tp.Vec[2], lam: float = 1.0):
    return (p @ p + q @ q) / 2 + lam * (q[0] ** 2 * q[1] - q[1] ** 3 / 3)


@tp.hamiltonian
def chain(q: tp.Vec[64], p: tp.Vec[64], alpha: float = 0.25):
    x = tp.concatenate([np.zeros(1), q, np.zeros(1)])
    d = x[1:] - x[:-1]
    return p @ p / 2 + (d**2 / 2 + alpha * d**3 / 3).sum()


@tp.hamiltonian
def driven(q, p, t, k: float = 1.3):
    return p**2 / 2 + k * q**2 * (1 + 0.2 * tp.sin(t)) / 2 + 0.1 * q**4


@tp.hamiltonian
def mixed(q: tp.Vec[2], p: tp.Vec[2], lam: float = 1.0):
    return (p @ p + q @ q) / 2 + lam * q[0] ** 2 * q[1] * (1 + 0.1 * p[0] ** 2)


@tp.ode
def predators(x, y, a: float = 0.7):
    return a * x - x * y, x * y - y


@tp.map
def turn(x, y, c: float = 0.9):
    return y, c * x - y**3


@tp.hamiltonian
def bodies(q: tp.Array["N", 2], p: tp.Array["N", 2], m: tp.Array["N"], g: float = 1.0):
    d = q[:, None] - q[None, :]
    return (p**2 / m[:, None]).sum() / 2 - g * tp.pair_sum(
        m[:, None] * m[None, :] / tp.sqrt((d**2).sum(-1) + 0.1)
    )


def quadratic(out):
    return out.final.q @ out.final.q + out.final.p[0] * out.final.q[1]


def found(value, grads):
    return np.array([value, *grads["q"], *grads["p"], grads["lam"]])


@pytest.mark.parametrize("past", ["reverse", "store", "checkpoint"])
def test_henon_heiles_has_the_gradient_of_its_map(past):
    sim = tp.compile(henon, dt=0.01, method="leapfrog")
    got = found(*sim.value_and_grad(quadratic, **START, steps=1000, past=past, snapshots=100))
    assert np.allclose(got, HENON, rtol=1e-12, atol=0)


@pytest.mark.requirement("S2-13")
def test_on_a_lattice_reverse_and_store_are_bit_equal_and_the_start_comes_back():
    sim = tp.compile(henon, dt=0.01, method="leapfrog", precision="lattice")
    value, back = sim.value_and_grad(quadratic, **START, steps=1000, past="reverse")
    kept = sim.grad(quadratic, **START, steps=1000, past="store")
    some = sim.grad(quadratic, **START, steps=1000, past="checkpoint", snapshots=30)
    assert np.allclose(found(value, back), HENON, rtol=1e-10, atol=0)
    for name in ("q", "p", "lam"):
        assert np.array_equal(np.asarray(back[name]), np.asarray(kept[name]))
        assert np.array_equal(np.asarray(back[name]), np.asarray(some[name]))
    first = sim.evolve(**START, steps=0, frames=2)
    for name in ("q", "p"):
        (words,) = first.final.words(name)
        assert np.array_equal(back.start[name][0], words)


@pytest.mark.all
def test_chaos_on_a_lattice_comes_back_through_a_hundred_thousand_steps():
    p0 = np.sqrt(0.25 - 0.016**2 - 2 * 0.016**3 / 3)  # E = 1/8
    sim = tp.compile(henon, dt=0.01, method="leapfrog", precision="lattice")
    given = dict(q=[0.0, -0.016], p=[p0, 0.0], steps=100_000)
    back, kept = (sim.grad(quadratic, **given, past=past) for past in ("reverse", "store"))
    for name in ("q", "p", "lam"):
        assert all(np.array_equal(a, b) for a, b in zip(back.words(name), kept.words(name)))


def test_cotangents_that_outgrow_float64_keep_their_exponent():
    p0 = np.sqrt(0.25 - 0.016**2 - 2 * 0.016**3 / 3)  # E = 1/8
    sim = tp.compile(henon, dt=0.1, method="leapfrog", precision="lattice")
    given = dict(q=[0.0, -0.016], p=[p0, 0.0], steps=1_000_000, wrt=["q"])
    grads = sim.grad(quadratic, **given)
    mantissa, exponent = grads.words("q")
    assert np.isfinite(mantissa).all() and 6000 < exponent < 8000
    first = sim.evolve(q=given["q"], p=given["p"], steps=0, frames=2).final
    for name in ("q", "p"):  # it comes back to its start, bit for bit
        (words,) = first.words(name)
        assert np.array_equal(grads.start[name][0], words)
    with pytest.warns(RuntimeWarning, match="larger than any float64"):
        assert np.isinf(grads["q"]).any()
    assert 500 < grads.horizon.t < 1200


@pytest.mark.parametrize("past", ["reverse", "store", "checkpoint"])
def test_a_chain_in_loops_has_the_same_gradient_whatever_is_known_of_the_past(past):
    sim = tp.compile(chain, dt=0.05, method="leapfrog")
    q = 2 * np.sin(np.pi * np.arange(1, 65) / 65)
    given = dict(q=q, p=np.zeros(64), past=past, snapshots=10)

    def loss(out):
        return 0.5 * (out.final.q @ out.final.q) + out.final.p.sum()

    grads = sim.grad(loss, **given, steps=100)
    h = 1e-4
    ends = []
    for sign in (1, -1):
        f = sim.evolve(q=q, p=np.zeros(64), alpha=0.25 + sign * h, steps=100).final
        ends.append(0.5 * f.q @ f.q + f.p.sum())
    assert np.isclose(grads["alpha"], (ends[0] - ends[1]) / (2 * h), rtol=1e-5)
    other = sim.grad(loss, q=q, p=np.zeros(64), steps=100, past="reverse")
    assert np.allclose(grads["q"], other["q"], rtol=1e-12, atol=1e-13)


@pytest.mark.all
@pytest.mark.requirement("S2-13")
@pytest.mark.parametrize("precision", ["float64", "lattice"])
def test_memory_does_not_grow_with_the_steps(precision):
    """In bytes of Python's and NumPy's arrays: loop states that are kept, and all besides."""
    sim = tp.compile(chain, dt=0.05, method="leapfrog", precision=precision)
    q, peaks = 2 * np.sin(np.pi * np.arange(1, 65) / 65), []

    def run(steps):
        return sim.grad(
            lambda out: out.final.q @ out.final.q, q=q, p=np.zeros(64), steps=steps, wrt=["q", "p"]
        )

    run(1000)
    for steps in (1000, 10**7):
        tracemalloc.start()
        assert run(steps).report.past == "reverse"
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 2**20


@pytest.mark.all
@pytest.mark.parametrize("past", ["reverse", "store", "checkpoint"])
def test_the_gradient_of_fput_through_ten_thousand_steps(past):
    sim = tp.compile(chain, dt=0.05, method="leapfrog")
    q = 2 * np.sin(np.pi * np.arange(1, 65) / 65)
    grads = sim.grad(
        lambda out: 0.5 * (out.final.q @ out.final.q) + out.final.p.sum(),
        q=q, p=np.zeros(64), steps=10_000, past=past, snapshots=100,
    )  # fmt: skip
    got = [np.linalg.norm(grads["q"]), np.linalg.norm(grads["p"]), grads["alpha"]]
    assert np.allclose(got, FPUT, rtol=1e-11, atol=0)


SYSTEMS = {
    "leapfrog": (henon, dict(method="leapfrog"), START),
    "yoshida4": (henon, dict(method="yoshida4"), START),
    "euler": (henon, dict(method="symplectic_euler"), START),
    "rk4": (henon, dict(method="rk4"), START),
    "driven": (driven, dict(method="leapfrog"), dict(q=0.4, p=0.1)),
    "implicit": (mixed, dict(method="implicit_midpoint"), START),
    "ode": (predators, dict(method="rk4"), dict(x=0.7, y=0.4)),
    "map": (turn, {}, dict(x=0.3, y=0.2)),
    "bodies": (
        bodies,
        dict(method="leapfrog"),
        dict(
            q=[[1.0, 0.0], [-1.0, 0.2], [0.1, 0.7]],
            p=[[0.0, 0.4], [0.1, -0.5], [0.0, 0.1]],
            m=[1.0, 0.8, 0.5],
        ),
    ),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_cotangents_and_tangents_are_dual(name):
    """<w, M v> = <M^T w, v>, with both computed by programs of their own."""
    system, options, start = SYSTEMS[name]
    sim = tp.compile(system, **({} if name == "map" else {"dt": 0.05}), **options)
    rng = np.random.default_rng(7)
    sim.evolve(**start, steps=1)
    states = [s.name for s in sim.system.states]
    floats = [*states, *(p.name for p in sim.system.parameters)]
    given = {**{p.name: p.default for p in sim.system.parameters}, **start}
    v = {n: rng.normal(size=np.shape(given[n])) for n in floats}
    w = {n: rng.normal(size=np.shape(given[n])) for n in states}
    moved = sim.jvp(v, **start, steps=40)
    forward = sum(np.sum(w[n] * moved[n]) for n in states)
    for past in ("auto", "store", "checkpoint"):
        pulled = sim.vjp(w, **start, steps=40, past=past, snapshots=3)
        assert np.isclose(sum(np.sum(pulled[n] * v[n]) for n in floats), forward, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", SYSTEMS)
def test_differences_in_double_double_agree(name):
    system, options, start = SYSTEMS[name]
    sim = tp.compile(system, **({} if name == "map" else {"dt": 0.05}), **options)
    first = next(iter(start))
    found = sim.gradcheck(
        lambda out: (out.final[first] ** 2).sum() if np.ndim(start[first]) else out.final[first] ** 2,
        **start,
        steps=30,
    )
    assert found.passed and found.differences < 1e-10 and found.in_double_double is (name != "implicit")


@tp.hamiltonian
def network(q: tp.Vec[2], p: tp.Vec[2], W: tp.Array[8, 2], b: tp.Vec[8], W2: tp.Array[8, 8], v: tp.Vec[8]):
    return p @ p / 2 + q @ q / 2 + v @ tp.tanh(W2 @ tp.tanh(W @ q + b))


@tp.ode
def products(z: tp.Vec[40], A: tp.Array[40, 40]):
    return A @ z - 0.1 * z**3


@pytest.mark.parametrize("name", ["network", pytest.param("products", marks=pytest.mark.all)])
def test_products_and_networks_have_gradients_by_their_weights(name):
    rng = np.random.default_rng(4)
    if name == "network":
        system, how = network, dict(method="leapfrog")
        shapes = dict(q=2, p=2, W=(8, 2), b=8, W2=(8, 8), v=8)
    else:
        system, how, shapes = products, dict(method="rk4"), dict(z=40, A=(40, 40))
    given = {n: 0.3 * rng.normal(size=shape) for n, shape in shapes.items()}
    first = next(iter(given))
    found = tp.compile(system, dt=0.05, **how).gradcheck(
        lambda out: (out.final[first] ** 2).sum(), **given, steps=20, wrt=[*given]
    )
    assert found.passed and found.duality < 1e-13 and found.differences < 1e-10 and found.in_double_double


def test_a_wrong_gradient_fails_its_check(monkeypatch):
    monkeypatch.setattr(ShearFlow, "adjoint", lambda self, bars, sums: ())  # momenta never pull on positions
    sim = tp.compile(henon, dt=0.02, method="leapfrog")
    with pytest.raises(tp.VerifyError, match="FAILED"):
        sim.gradcheck(quadratic, **START, steps=20)


@pytest.mark.parametrize("method", ["leapfrog", "rk4"])
def test_second_derivatives_are_those_of_the_gradient(method):
    sim = tp.compile(henon, dt=0.01, method=method)
    way = dict(q=[0.3, 0.2], p=[-0.1, 0.5], lam=0.7)
    found, h = sim.hvp(quadratic, way, **START, steps=100), 1e-5
    at = {**START, "lam": 1.0}
    ends = [
        sim.grad(quadratic, **{n: np.add(at[n], s * h * np.asarray(way[n])) for n in way}, steps=100)
        for s in (1, -1)
    ]
    for n in way:
        assert np.allclose(
            found[n], (np.asarray(ends[0][n]) - np.asarray(ends[1][n])) / (2 * h), rtol=1e-7, atol=1e-9
        )


def test_friction_has_a_gradient_by_its_rate():
    @tp.hamiltonian
    def pendulum(q, p, rate: float = 0.1):
        return p**2 / 2 - tp.cos(q)

    sim = tp.compile(pendulum, dt=0.05, method="leapfrog", friction="rate")

    def loss(out):
        return out.final.q**2 + out.final.p * out.final.q

    grads = sim.grad(loss, q=1.0, p=0.3, steps=100)
    ends = [loss(sim.evolve(q=1.0, p=0.3, rate=0.1 + s, steps=100)) for s in (1e-5, -1e-5)]
    assert grads["rate"] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-8)
    moved, f = sim.jvp({"rate": 1.0}, q=1.0, p=0.3, steps=100), sim.evolve(q=1.0, p=0.3, steps=100).final
    assert 2 * f.q * moved["q"] + f.p * moved["q"] + f.q * moved["p"] == pytest.approx(
        grads["rate"], rel=1e-12
    )


def test_a_top_turns_its_cotangents():
    @tp.hamiltonian
    def top(R: tp.Rotor, L: tp.Vec[3], inertia: tp.Vec[3], g: float = 0.5):
        return (L * L / inertia).sum() / 2 + g * tp.rotate(R, [0.0, 0.0, 1.0])[2]

    sim = tp.compile(top, dt=0.01)
    given = dict(R=[np.cos(0.3), np.sin(0.3), 0.0, 0.0], L=[0.1, 0.2, 3.0], inertia=[1.0, 2.0, 3.0])
    assert sim.gradcheck(
        lambda out: out.final.R[0] * out.final.L[1], **given, steps=20, wrt=["L", "inertia", "g"]
    ).passed


def test_frames_observables_and_times_join_on_the_way_back():
    sim = tp.compile(henon, dt=0.01, method="leapfrog")
    more = dict(
        steps=100,
        save_every=10,
        observe={"r": lambda q, p, lam, t: lam * q[0] * p[1] * t + t},
        observe_every=7,
    )

    def loss(out):
        return 0.1 * (out.q**2).sum() + (out["r"] * out["r"]).sum() + (out.t * out.p[:, 0]).sum()

    value, grads = sim.value_and_grad(loss, **START, **more)
    assert value == pytest.approx(loss(sim.evolve(**START, **more)), rel=1e-14)

    def at(lam=1.0, dq=0.0):
        q = np.array(START["q"]) + [dq, 0.0]
        return loss(sim.evolve(q=q, p=START["p"], lam=lam, **more))

    h = 1e-5
    assert grads["lam"] == pytest.approx((at(1 + h) - at(1 - h)) / (2 * h), rel=1e-8)
    assert grads["q"][0] == pytest.approx((at(dq=h) - at(dq=-h)) / (2 * h), rel=1e-8)
    for past in ("store", "checkpoint"):
        other = sim.grad(loss, **START, **more, past=past, snapshots=4)
        assert np.allclose(other["q"], grads["q"], rtol=1e-13)


def test_a_loss_reads_the_frames_that_were_asked_for_and_no_first_one():
    sim = tp.compile(henon, dt=0.01, method="leapfrog")
    more = dict(until=1.0, save_at=[0.3, 1.0])

    def loss(out):
        return (out.t * out.q[:, 0]).sum()

    value, grads = sim.value_and_grad(loss, **START, **more)
    assert value == pytest.approx(loss(sim.evolve(**START, **more)), rel=1e-14)
    moved = sim.jvp({"q": [1.0, 0.0]}, **START, **more)["q"]
    assert grads["q"][0] == pytest.approx(np.sum([0.3, 1.0] * moved[:, 0]), rel=1e-13)


def test_differences_in_double_double_get_finer_where_a_pair_crosses_a_cutoff():
    """Steps of 1e-5 move two of these across it, where the force jumps by little beside the rest; a gradient holds on one side."""

    @tp.hamiltonian
    def drops(q: tp.Array["n", 2], p: tp.Array["n", 2]):
        r2 = ((q[:, None] - q[None, :]) ** 2).sum(-1)
        return (p**2).sum() / 2 + 1e-3 * tp.pair_sum(tp.where(r2 < 0.36, 1.0 / (r2 + 0.1), 0.0))

    q = 3.0 * np.arange(20)[:, None] + np.array([0.3, -0.2])
    q[1] = q[0] + [0.6 - 1e-7, 0.0]
    sim = tp.compile(drops, dt=0.1, method="leapfrog")
    found = sim.gradcheck(lambda out: (out.final.q**2).sum(), q=q, p=np.zeros((20, 2)), steps=2)
    assert found.passed and found.differences < 1e-12


def test_the_step_has_a_gradient_too():
    sim = tp.compile(henon, dt=0.01, method="leapfrog")
    grads = sim.grad(quadratic, **START, steps=100, wrt=["dt"])
    ends = [quadratic(sim.evolve(**START, steps=100, dt=0.01 + s)) for s in (1e-6, -1e-6)]
    assert grads["dt"] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-7)

    def timed(out):
        return (out.t * out.q[:, 0]).sum() + out["x"].sum()

    more = dict(steps=100, save_every=10, observe={"x": lambda q, t: q[1] * t})
    ends = [timed(sim.evolve(**START, **more, dt=0.01 + s)) for s in (1e-6, -1e-6)]
    assert sim.grad(timed, **START, **more, wrt=["dt"])["dt"] == pytest.approx(
        (ends[0] - ends[1]) / 2e-6, rel=1e-7
    )


def test_a_member_has_the_gradient_that_it_has_alone_and_shared_parameters_are_summed():
    sim = tp.compile(henon, dt=0.01, method="leapfrog")
    rng = np.random.default_rng(3)
    q, p = 0.2 * rng.normal(size=(2, 5, 2))
    value, grads = sim.value_and_grad(quadratic, q=q, p=p, steps=50)
    alone = [sim.value_and_grad(quadratic, q=q[k], p=p[k], steps=50) for k in range(5)]
    assert value.shape == (5,) and np.array_equal(grads["q"], [g["q"] for _, g in alone])
    assert np.isclose(grads["lam"], sum(g["lam"] for _, g in alone), rtol=1e-15)
    each = sim.grad(quadratic, q=q, p=p, steps=50, per_member=True)["lam"]
    own = sim.grad(quadratic, q=q, p=p, lam=np.ones(5), steps=50)["lam"]
    assert np.array_equal(each, [g["lam"] for _, g in alone]) and np.array_equal(own, each)


@pytest.mark.parametrize("backend", ["python", "numpy", "llvm", "c"])
@pytest.mark.parametrize("precision", ["float64", "lattice"])
def test_every_backend_has_the_bits_of_the_virtual_machine(backend, precision):
    want = tp.compile(henon, dt=0.01, method="leapfrog", precision=precision, backend="python")
    sim = tp.compile(henon, dt=0.01, method="leapfrog", precision=precision, backend=backend)
    a, b = (s.grad(quadratic, **START, steps=10, wrt=["q", "p", "lam", "dt"]) for s in (want, sim))
    assert all(np.array_equal(a[n], b[n]) for n in a)


def test_the_adjoint_is_a_program_that_reads_back():
    adjoint = tp.compile(henon, dt=0.01, method="leapfrog").adjoint()
    text = adjoint.ir("tpir")
    lines = [line for line in text.splitlines() if "ACC_GRAD" in line]
    assert any("test_gradients.py" in line for line in lines) and "state S2 q.bar f64[2] cotangent" in text
    assert parse(text).text(notes=False) == adjoint.program.text(notes=False)
    assert all(adjoint.ir(level) for level in ("kernel", "llvm", "c"))


def test_a_step_of_many_stages_keeps_all_of_their_states_for_the_way_back():
    @tp.hamiltonian
    def drops(q: tp.Array[4, 2], p: tp.Array[4, 2]):
        r2 = ((q[:, None] - q[None, :]) ** 2).sum(-1)
        return (p**2).sum() / 2 + 0.5 * tp.pair_sum(tp.where(r2 < 1.0, (1.0 - r2) ** 3, 0.0))

    start = {"q": np.random.default_rng(1).uniform(-1, 1, (4, 2)), "p": np.zeros((4, 2))}
    sim = tp.compile(drops, dt=0.3, method="kahan_li6")
    found = [
        sim.grad(lambda out: (out.final.q**2).sum(), **start, steps=12, past=past)["q"]
        for past in ("store", "checkpoint", "reverse")
    ]
    assert np.array_equal(found[0], found[1]) and np.allclose(found[0], found[2], rtol=1e-12)


def test_differences_that_show_rounding_say_nothing_and_a_wrong_gradient_is_as_far_from_all():
    assert agreed([3e-8], 1e-7) == 3e-8 and agreed([2e-6, 9e-8], 1e-7) == 9e-8
    assert agreed([3e-7, 1e-4], 1e-7) is None and agreed([], 1e-7) is None
    assert agreed([1e-6, 1.1e-6, 1.3e-6], 1e-7) == 1e-6
    # rounding shows at the shortest lengths, and the bend of a run at the longest; those between agree
    assert agreed([1e-5, 1.02e-5, 4e-3, -0.1], 1e-7) == 1e-5 and agreed([-3e-2, 2e-6, 2.1e-6], 1e-7) == 2e-6
    assert agreed([1e-5, -1e-5, 4e-4], 1e-7) is None
    assert agreed([-1e-2], 1e-7, 1e-3) == 1e-2 and agreed([1e-5], 1e-7, 1e-3) is None


@pytest.mark.parametrize("off", [1e-2, 1e-5, 1e-6])
def test_a_gradient_that_is_slightly_wrong_fails_its_check_in_the_precision_of_a_run(monkeypatch, off):
    """Of steps of their own lengths, which have no double-double."""

    @tp.ode
    def turning(x: tp.Vec[2], k: float = 1.3):
        return np.stack([x[1], -k * np.sin(x[0])])

    sim = tp.compile(turning, method="dop853", tolerance=1e-8)
    asked = dict(x=[1.0, 0.2], until=3.0)
    assert sim.gradcheck(lambda out: out.final.x[0] ** 2, **asked).passed

    def planted(*args):
        value, grads = value_and_grad(*args)
        return value, replace(grads, mantissas={n: m * (1 + off) for n, m in grads.mantissas.items()})

    monkeypatch.setattr(gradcheck, "value_and_grad", planted)
    with pytest.raises(tp.VerifyError, match="FAILED"):
        sim.gradcheck(lambda out: out.final.x[0] ** 2, **asked)


def test_a_loss_reads_the_run_and_has_derivatives():
    sim = tp.compile(henon, dt=0.02, method="leapfrog")
    with pytest.raises(tp.InputError, match="the loss is 3, whatever the run does"):
        sim.grad(lambda out: 3.0, **START, steps=4)
    with pytest.raises(tp.InputError, match="the loss returns a dict"):
        sim.grad(lambda out: {"a": out.final.q[0]}, **START, steps=4)
    with pytest.raises(tp.InputError, match="derivative of the loss by out.final.q is not finite"):
        sim.grad(lambda out: np.sqrt(out.final.q[0] * 0.0), **START, steps=4)


def test_a_loss_of_many_numbers_on_short_axes_is_computed_in_loops():
    @tp.map
    def mixed_up(f: tp.Array[19, 22, 22], c: float = 0.3):
        return f + c * (tp.roll(f, 1, 1) - f)

    f = np.random.default_rng(0).normal(size=(19, 22, 22))
    grads = tp.compile(mixed_up).grad(lambda out: (out.final.f**2).sum() / 2, f=f, c=0.3, steps=1)
    end = f + 0.3 * (np.roll(f, 1, 1) - f)
    assert np.allclose(grads["f"], 0.7 * end + 0.3 * np.roll(end, -1, 1), rtol=1e-14, atol=1e-15)
    assert grads["c"] == pytest.approx((end * (np.roll(f, 1, 1) - f)).sum(), rel=1e-12)


def test_a_jacobian_of_scalars_is_a_number_and_a_deleted_loop_has_no_pasts_to_compare():
    sim = tp.compile(driven, dt=0.01)
    J = sim.jacobian(of="q", wrt=["q", "p", "k"], q=1.0, p=0.2, steps=20)["q"]
    moved = sim.jvp({"q": 1.0}, q=1.0, p=0.2, steps=20)["q"]
    assert all(np.shape(x) == () for x in J.values()) and J["q"] == pytest.approx(float(moved), rel=1e-12)

    @tp.hamiltonian
    def spring(q, p):
        return p**2 / 2 + q**2 / 2

    found = tp.compile(spring, dt=0.1).gradcheck(lambda out: out.final.q**2, q=1.0, p=0.2, steps=5)
    assert found.passed and not found.pasts and found.duality < 1e-14 and "of one jump" in str(found)


def test_a_jacobian_is_symplectic_and_agrees_with_sensitivities():
    sim = tp.compile(henon, dt=0.01, method="leapfrog")
    J = sim.jacobian(**START, steps=100)
    M = np.block([[J[a][b] for b in ("q", "p")] for a in ("q", "p")])
    omega = np.block([[np.zeros((2, 2)), np.eye(2)], [-np.eye(2), np.zeros((2, 2))]])
    assert np.allclose(M.T @ omega @ M, omega, atol=1e-13)
    assert J["q"]["q"][1, 0] == pytest.approx(
        sim.sensitivity(of="q[1]", to="q[0]", **START, steps=100), rel=1e-13
    )


def test_chaotic_motion_is_run_again_from_anchors_in_float64(monkeypatch):
    monkeypatch.setattr(past_of_a_run, "ANCHORS", 2)
    p0 = np.sqrt(0.25 - 0.016**2 - 2 * 0.016**3 / 3)
    sim = tp.compile(henon, dt=0.1, method="leapfrog")
    given = dict(q=[0.0, -0.016], p=[p0, 0.0], steps=9000)
    back, kept = (sim.grad(quadratic, **given, past=past) for past in ("reverse", "store"))
    assert back.report.miss < 1e-11 and back.report.forward_steps > 9000
    # a difference of 1e-12 in a state grows with the cotangents on their way
    assert np.allclose(back["q"], kept["q"], rtol=1e-6)


def test_the_schedule_of_checkpoints_is_the_shortest():
    """Griewank and Walther (2000): r*n - C(s + r, r - 1) steps, and one for the end of the first run."""
    assert 1 + cost(10**6, 100) == 3_817_897
    assert 1 + cost(10**6, 50) == 4_658_946
    for steps, snapshots in ((1, 1), (17, 1), (50, 3), (400, 5), (1000, 10)):
        done, kept, most, back = 0, {0}, 1, []
        for what, a, b in actions(steps, snapshots):
            done += b - a if what in ("run", "turn") else 0
            kept |= {a} if what == "keep" else set()
            kept -= {a} if what == "drop" else set()
            back += [a] if what == "back" else []
            most = max(most, len(kept))
        assert done == 1 + cost(steps, snapshots) and most <= snapshots
        assert back == list(range(steps - 1, -1, -1))


def test_a_deleted_loop_is_pulled_back_in_one_jump():
    @tp.hamiltonian
    def oscillator(q, p, k: float = 1.25):
        return p**2 / 2 + k * q**2 / 2

    sim = tp.compile(oscillator, dt=2.0**-7)
    grads = sim.grad(lambda out: out.final.q, q=1.0, p=0.25, steps=10**9, wrt=["q", "p", "k", "dt"])
    w, t = np.sqrt(1.25), 10**9 / 128
    assert grads["k"] == pytest.approx(-3263869.3395965, rel=1e-10)
    assert [grads["q"], grads["p"]] == pytest.approx(
        [np.cos(w * t), np.sin(w * t) / w], rel=1e-8
    )  # w*t is rounded
    end = sim.evolve(q=1.0, p=0.25, steps=10**9, frames=2).final
    assert grads["dt"] == pytest.approx(1e9 * end.p, rel=1e-12) and grads.report.past == "jump"


def test_a_jump_has_second_derivatives():
    @tp.hamiltonian
    def oscillator(q, p, k: float = 1.25, f: float = 0.1):
        return p**2 / 2 + k * q**2 / 2 + f * q

    def loss(out):
        return (out.q**3).sum() + (out.t * out.q).sum() + out.final.p**2

    sim, start = tp.compile(oscillator, dt=0.1), dict(q=0.3, p=0.2, k=1.25, f=0.1)
    assert sim.compiled.jump is not None
    way = dict(q=0.4, p=-0.3, k=0.2, f=0.7)
    found = sim.hvp(loss, way, **start, steps=300, save_every=100)

    def along(h):
        moved = {name: v + h * way[name] for name, v in start.items()}
        return np.array(list(sim.grad(loss, **moved, steps=300, save_every=100).values()))

    h = 1e-3
    slopes = (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h)
    assert list(found.values()) == pytest.approx(slopes, rel=1e-6)
    one = sim.hvp(loss, {"q": 1.0}, **start, steps=300, save_every=100, wrt=["p", "k"])
    other = sim.hvp(loss, {"p": 1.0}, **start, steps=300, save_every=100, wrt=["q"])
    assert one["p"] == pytest.approx(other["q"], rel=1e-10)  # it is symmetric


def test_rows_of_a_jacobian_have_the_random_numbers_of_the_run():
    """Members of an ensemble draw numbers of their own, and all rows are derivatives of one run."""
    sim = tp.compile(henon, dt=0.05, temperature=0.01, friction=0.5)
    noisy = {
        "noise": tp.act(every=5, map=lambda p, q: 0.9 * p + tp.sin(q) / 10 + tp.random.normal((2,)) / 10)
    }
    for run, more in ((sim, {}), (tp.compile(henon, dt=0.05, method="leapfrog"), {"acts": noisy})):
        rows = run.jacobian(of="q", **START, steps=20, seed=5, **more)["q"]
        for k, e in enumerate(np.eye(2)):
            pulled = run.vjp({"q": e}, **START, steps=20, seed=5, **more)
            assert rows["q"][k] == pytest.approx(pulled["q"], rel=1e-14)
            assert rows["lam"][k] == pytest.approx(pulled["lam"], rel=1e-14)


@pytest.mark.parametrize("method", ["leapfrog", "rk4"])
def test_a_tangent_of_dt_is_the_jacobian_times_it(method):
    @tp.hamiltonian
    def driven(q: tp.Vec[2], p: tp.Vec[2], t, a: float = 0.3):
        return (p @ p + q @ q) / 2 + a * q[0] * q[1] ** 2 * tp.cos(1.3 * t)

    sim, start = (
        tp.compile(driven, dt=0.05, method=method),
        dict(q=[1.0, 0.1], p=[0.1, 0.9], t0=2.0, steps=40),
    )
    moved = sim.jvp({"q": [0.1, 0.2], "a": 0.3, "dt": 0.7}, **start)
    w = {"q": [0.3, -0.4], "p": [0.7, 0.2]}
    pulled = sim.vjp(w, **start, wrt=["q", "a", "dt"])
    there = pulled["q"] @ [0.1, 0.2] + 0.3 * pulled["a"] + 0.7 * pulled["dt"]
    assert moved["q"] @ w["q"] + moved["p"] @ w["p"] == pytest.approx(there, rel=1e-13)
    with pytest.raises(tp.PlanError, match="the end of a jvp alone"):
        sim.jvp({"dt": 1.0}, **start, save_every=10)


def test_springs_under_a_load_have_the_gradient_of_their_jump():
    @tp.hamiltonian
    def springs(q: tp.Vec[3], p: tp.Vec[3], k: tp.Vec[4], f: float = 0.3, m: float = 1.2):
        x = tp.concatenate([np.zeros(1), q, np.zeros(1)])
        d = x[1:] - x[:-1]
        return p @ p / (2 * m) + (k * d * d).sum() / 2 - f * q[1]

    sim = tp.compile(springs, dt=0.1, propagator="exact")
    rng = np.random.default_rng(1)
    given = dict(q=rng.normal(size=3), p=rng.normal(size=3), k=1 + 0.1 * rng.random(4), f=0.3, m=1.2)

    def loss(out):
        return (out.q**2).sum() + (out.final.p**3).sum()

    grads, h = sim.grad(loss, **given, steps=200, save_every=50), 1e-4
    for name, v in given.items():
        way = rng.normal(size=np.shape(v))
        ends = [
            loss(sim.evolve(**{**given, name: v + s * h * way}, steps=200, save_every=50)) for s in (1, -1)
        ]
        assert np.sum(grads[name] * way) == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5, abs=1e-6)


def test_the_choice_of_the_past_is_said_before_and_after():
    sim = tp.compile(henon, dt=0.01, method="leapfrog")
    told = sim.estimate(steps=10_000, gradient=True)
    assert told["past"] == "reverse" and told["forward_steps"] == 10_000 and told["bytes"] < 10_000
    assert (
        sim.estimate(steps=10**6, gradient=True, past="checkpoint", snapshots=100)["forward_steps"]
        == 3_817_897
    )
    sim.grad(quadratic, **START, steps=10)
    assert 'past="reverse"' in str(sim.explain("full")) and "every sub-flow has an inverse" in str(
        sim.explain("full")
    )
    kutta = tp.compile(henon, dt=0.01, method="rk4")
    grads = kutta.grad(quadratic, **START, steps=10)
    assert grads.report.past == "store" and "has no inverse" in str(kutta.explain("full"))
    assert kutta.estimate(steps=10**6, gradient=True, memory=3200)["snapshots"] == 100
    with pytest.raises(tp.PlanError, match="checkpoint"):
        kutta.grad(quadratic, **START, steps=10, past="reverse")


WRONG = {
    "no scalar": (lambda out: out.final.q, {}, "shape"),
    "a jump": (lambda out: tp.floor(out.final.q[0]), {}, "not differentiable"),
    "frames that are not kept": (lambda out: out.q.sum(), {}, "frames"),
    "unknown": (quadratic, {"wrt": ["mu"]}, "wrt names"),
    "dt of a run that asks for times": (
        quadratic,
        {"steps": None, "until": 0.1, "wrt": ["dt"]},
        "number of steps",
    ),
    "unknown past": (quadratic, {"past": "often"}, "past"),
    "no room": (quadratic, {"past": "checkpoint", "memory": 8}, "Pass memory=32"),
    "not observed": (lambda out: out["r"].sum(), {}, "not observed"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_says_what_to_write(name):
    loss, more, said = WRONG[name]
    with pytest.raises(tp.TinyPhysicsError, match=said):
        tp.compile(henon, dt=0.01).value_and_grad(loss, **{**START, "steps": 10, **more})


def test_what_has_no_adjoint_yet_is_named():
    with pytest.raises(tp.PlanError, match="adjoint"):
        tp.compile(henon, dt=0.1, scale="auto").grad(quadratic, **START, until=1.0)


def test_a_factor_that_is_pulled_back_is_taken_out_of_a_sum():
    """w + 2*a*d*w is w*(1 + 2*a*d): a product less for each bond of a chain, to the same gradient."""
    w, d, a = (UOp.var(name) for name in "wda")
    (found,) = common_cotangents([2.0 * (w * a * d) + w], {w})
    ops = [u.op for u in toposort([found])]
    assert ops.count(Ops.MUL) == 3 and str(found).count("w") == 1
    for values in ({"w": 0.3, "d": -1.7, "a": 0.25}, {"w": -2.0, "d": 0.1, "a": 3.0}):
        whole = 2 * values["w"] * values["a"] * values["d"] + values["w"]
        assert evaluate([found], values)[0] == pytest.approx(whole, rel=1e-15)
    (kept,) = common_cotangents([2.0 * (w * a * d) + w], {d})  # w is no cotangent
    assert kept is common_cotangents([kept], {d})[0] and str(kept).count("w") == 2


@pytest.mark.parametrize("members", [1, 3])
def test_a_jump_carries_tangents_as_it_pulls_cotangents_back(members):
    @tp.hamiltonian
    def springs(q: tp.Vec[2], p: tp.Vec[2], k: float = 1.25, f: float = 0.3):
        return p @ p / 2 + k * (q @ q) / 2 + 0.2 * (q[0] - q[1]) ** 2 + f * q[0]

    sim, rng = tp.compile(springs, dt=0.1), np.random.default_rng(1)
    assert sim.compiled.jump is not None
    axes = () if members == 1 else (members,)
    q, p, v, w = (rng.normal(size=(*axes, 2)) for _ in range(4))
    way = {"q": v, "k": 0.7, "f": -0.4}
    moved = sim.jvp(way, q=q, p=p, steps=1000)
    pulled = sim.vjp({"q": w}, q=q, p=p, steps=1000)
    by_way = (pulled["q"] * v).sum() + 0.7 * pulled["k"] - 0.4 * pulled["f"]
    assert (moved["q"] * w).sum() == pytest.approx(by_way, rel=1e-12)
    frames = sim.jvp(way, q=q, p=p, steps=1000, save_every=500)
    assert np.array_equal(frames["q"][0], v) and np.array_equal(frames["q"][-1], moved["q"])


def test_a_gradient_by_a_parameter_of_a_long_jump_is_that_of_its_matrix(monkeypatch):
    """Of more than 12 pairs the state and its derivative have no jump of their own: exponentials in whole numbers."""

    @tp.hamiltonian
    def ring(q: tp.Vec[13], p: tp.Vec[13], k: float = 0.5, f: float = 0.2):
        return (p @ p + q @ q + k * ((q - tp.roll(q, 1)) ** 2).sum()) / 2 + f * q[3]

    asked = dict(q=np.eye(13)[0], p=np.zeros(13), steps=100)
    sim = tp.compile(ring, dt=0.1, propagator="exact")
    found = sim.gradcheck(lambda out: (out.final.q**3).sum(), **asked, wrt=["q", "k", "dt"])
    assert found.passed and found.duality < 1e-14 and found.differences < 1e-9
    asked = dict(q=np.eye(13)[0], p=np.zeros(13), steps=10)
    loop = tp.compile(ring, dt=0.1 / 16, method="yoshida6", propagator="loop")
    exact, stepped = (
        s.grad(lambda out: (out.final.q**3).sum(), **{**asked, "steps": n})
        for s, n in ((sim, 10), (loop, 160))
    )
    assert exact["k"] == pytest.approx(stepped["k"], rel=1e-9)
    monkeypatch.setattr(jump_gradients, "WORK", 10)
    with pytest.raises(tp.PlanError, match="in whole numbers, which would take minutes"):
        sim.grad(lambda out: out.final.q[1], **asked)


def test_the_tangent_of_a_damped_jump_is_refused_by_name():
    @tp.hamiltonian
    def oscillator(q, p, k: float = 1.0):
        return p**2 / 2 + k * q**2 / 2

    sim = tp.compile(oscillator, dt=0.1, friction=0.1, propagator="exact")
    with pytest.raises(tp.PlanError, match="friction"):
        sim.jvp({"q": 1.0}, q=1.0, p=0.0, steps=10)


def test_the_page_lists_what_the_code_refuses():
    page = (Path(__file__).parents[2] / "docs" / "gradients.md").read_text(encoding="utf-8")
    assert table() in page


def test_a_refusal_is_a_row_of_the_table():
    @tp.hamiltonian
    def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
        return p @ p / 2 - mu / tp.norm(q)

    sim = tp.compile(kepler, dt=0.02, scale="auto")
    with pytest.raises(tp.PlanError) as refused:
        sim.grad(lambda out: out.final.q[0], q=[1.0, 0.0], p=[0.0, 1.1], steps=3)
    assert any(row.why in str(refused.value) and row.fix in str(refused.value) for row in ROWS)


@tp.hamiltonian
def branching(q: tp.Vec[3], p: tp.Vec[3], k: float = 1.0):
    return (
        p @ p / 2
        + k * tp.where(q[0] > q[1], q[0] ** 2, 0.5 * q[0])
        + q @ q / 2
        + tp.maximum(q[2], q[1]) ** 2 / 10
    )


BETWEEN = dict(q=[-0.8, 1.0, -0.7], p=[0.7, -0.9, -0.7])


def test_a_discrete_gradient_with_branches_has_a_gradient():
    """Each divisor is a branch, and elimination would multiply them if its results were made short again."""
    sim = tp.compile(branching, dt=0.05, method="gonzalez", backend="python")
    w, v = {"q": [1.0, 0.3, -0.4]}, {"q": [0.2, -0.5, 0.7], "k": 0.3}
    pulled, moved = sim.vjp(w, **BETWEEN, steps=4), sim.jvp(v, **BETWEEN, steps=4)
    assert moved["q"] @ w["q"] == pytest.approx(pulled["q"] @ v["q"] + 0.3 * pulled["k"], rel=1e-13)

    def end(k):
        return sim.evolve(**BETWEEN, k=k, steps=4).final.q @ w["q"]

    h = 1e-3
    slope = (8 * (end(1 + h) - end(1 - h)) - (end(1 + 2 * h) - end(1 - 2 * h))) / (12 * h)
    assert pulled["k"] == pytest.approx(slope, rel=1e-9)


@pytest.mark.all("the rewriting that does not end takes 10 s of CPU")
def test_branches_that_multiply_are_refused_in_words():
    sim = tp.compile(branching, dt=0.05, method="gonzalez")
    with pytest.raises(tp.PlanError, match="too many branches to be written out"):
        sim.hvp(lambda out: (out.final.q**2).sum(), {"k": 1.0}, **BETWEEN, steps=4)
