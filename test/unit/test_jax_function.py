"""Is a run a function of JAX?  Its derivatives of first and second order by every transformation, batches and jit."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import tinyphysics as tp
from layer_cases import chain, kepler, lorenz, standard

jax = pytest.importorskip("jax", reason="jax is not installed")
jnp = jax.numpy

pytestmark = pytest.mark.requirement("S2-13")


@pytest.fixture(autouse=True)
def in_float64():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def cases(name):
    q, p, k = np.random.default_rng(1).normal(size=(3, 6))
    sim, start = {
        "kepler": (kepler, dict(q=[1.0, 0.1], p=[0.1, 1.2], mu=1.1)),
        "chain": (chain, dict(q=0.3 * q, p=p, k=1 + 0.1 * k, alpha=0.3)),
        "lorenz": (lorenz, dict(x=[1.0, 2.0, 20.0], sigma=9.0)),
        "map": (standard, dict(theta=0.3, p=0.2, K=0.8)),
    }[name]
    method = {"chain": "yoshida4", "lorenz": "rk4", "kepler": "leapfrog"}
    options = {} if name == "map" else dict(dt=0.01, method=method[name])
    sizes = {"sizes": {"n": 6}} if name == "chain" else {}
    return tp.compile(sim, **options, **sizes), {n: jnp.asarray(v, float) for n, v in start.items()}


def test_a_function_has_the_bits_of_the_run_and_its_gradients():
    sim, start = cases("kepler")
    f = tp.jax_function(sim, steps=100)
    plain = {n: np.asarray(v) for n, v in start.items()}
    assert np.array_equal(f(**start).q, sim.evolve(**plain, steps=100).final.q)
    value, grads = sim.value_and_grad(lambda out: out.final.q @ out.final.q, **plain, steps=100)
    found = jax.grad(lambda s: f(**s).q @ f(**s).q)(start)
    assert all(np.allclose(found[n], grads[n], rtol=1e-12) for n in ("q", "p", "mu"))


@pytest.mark.all
@pytest.mark.parametrize("how", [{}, {"save_every": 5}], ids=["end", "frames"])
@pytest.mark.parametrize("name", ["kepler", "chain", "lorenz", "map"])
def test_check_grads_passes_to_second_order(name, how):
    from jax.test_util import check_grads

    sim, start = cases(name)
    steps = 5 if name == "map" else 20  # differences of the map, which is chaotic, lose more digits
    f = tp.jax_function(sim, steps=steps, **how)
    eps = {"eps": 1e-5} if name == "map" else {}  # pure JAX misses its own differences, too, with the default
    check_grads(
        lambda *v: f(**dict(zip(start, v))), tuple(start.values()), order=2, modes=["fwd", "rev"], **eps
    )


@pytest.mark.all
def test_every_way_to_a_hessian_agrees_with_hvp_inside_and_outside_of_jit():
    sim, start = cases("kepler")
    f = tp.jax_function(sim, steps=40)
    plain = {n: np.asarray(v) for n, v in start.items()}
    hvp = sim.hvp(lambda out: out.final.q @ out.final.q, {"q": [1.0, 0.0]}, **plain, steps=40)

    def loss(q):
        return (f(**start | dict(q=q)).q ** 2).sum()

    for outer in (jax.jacfwd, jax.jacrev):
        for inner in (jax.jacfwd, jax.jacrev):
            for way in (outer(inner(loss)), jax.jit(outer(inner(loss)))):
                assert np.allclose(way(start["q"])[0], hvp["q"], rtol=1e-11)
    assert np.allclose(jax.hessian(loss)(start["q"])[0], hvp["q"], rtol=1e-11)


@pytest.mark.all
def test_first_derivatives_agree_with_jvp_and_jacobian():
    sim, start = cases("kepler")
    f = tp.jax_function(sim, steps=40)
    plain = {n: np.asarray(v) for n, v in start.items()}
    v = dict(q=np.array([0.3, -0.1]), p=np.array([0.2, 0.4]), mu=np.array(0.5))
    _, moved = jax.jvp(lambda s: f(**s), (start,), ({n: jnp.asarray(a) for n, a in v.items()},))
    want = sim.jvp(v, **plain, steps=40)
    assert np.array_equal(moved.q, want["q"]) and np.array_equal(moved.p, want["p"])
    J = sim.jacobian(**plain, steps=40)
    for jacobian in (jax.jacfwd, jax.jacrev):
        found = jax.jit(jacobian(lambda s: f(**s)))(start)
        assert all(np.allclose(found.q[n], J["q"][n], rtol=1e-12) for n in start)


@pytest.mark.all
def test_batches_vmap_and_single_runs_are_alike():
    sim, start = cases("kepler")
    f = tp.jax_function(sim, steps=30, save_every=10)
    q, mu, p = jnp.linspace(start["q"], start["q"] * 1.5, 6), jnp.linspace(0.9, 1.1, 6), start["p"]
    whole = f(q, p, mu=mu).q
    assert whole.shape == (6, 4, 2)
    assert np.array_equal(whole, jax.vmap(lambda q, mu: f(q, p, mu=mu).q)(q, mu))
    assert np.array_equal(whole, jax.jit(jax.vmap(lambda q, mu: f(q, p, mu=mu).q, out_axes=0))(q, mu))
    assert np.array_equal(whole, jnp.stack([f(a, p, mu=m).q for a, m in zip(q, mu)]))

    def loss(q, mu):
        return (f(q, p, mu=mu).q ** 2).sum()

    every = jax.vmap(jax.grad(loss))(q, mu)
    assert np.allclose(every, jax.grad(loss)(q, mu), rtol=1e-13)
    assert np.allclose(every[3], jax.grad(loss)(q[3], mu[3]), rtol=1e-13)
    assert f(q[:0], p).q.shape == (0, 4, 2)


@pytest.mark.all
def test_a_jump_has_gradients_and_tangents():
    @tp.hamiltonian
    def oscillator(q, p, k: float = 1.25):
        return p**2 / 2 + k * q**2 / 2

    sim = tp.compile(oscillator, dt=2**-7, propagator="exact")
    f = tp.jax_function(sim, steps=10**9)
    by_k = jax.grad(lambda k: f(q=jnp.array(1.0), p=jnp.array(0.25), k=k).q)(jnp.array(1.25))
    assert np.isclose(by_k, -3263869.3395965, rtol=1e-10)
    _, along_k = jax.jvp(lambda k: f(q=jnp.array(1.0), p=jnp.array(0.25), k=k).q, (1.25,), (1.0,))
    assert np.isclose(along_k, by_k, rtol=1e-12)


@pytest.mark.all
def test_third_derivatives_are_refused():
    sim, start = cases("kepler")
    f = tp.jax_function(sim, steps=5)
    with pytest.raises(tp.PlanError, match="third derivatives"):
        jax.jacrev(jax.jacrev(jax.jacrev(lambda q: (f(q, start["p"]).q ** 3).sum())))(start["q"])


def test_wrong_calls_say_what_to_write():
    sim, start = cases("kepler")
    q, p, mu = start.values()
    f = tp.jax_function(sim, steps=10, wrt=["p", "mu"])
    wrong = [
        (lambda: tp.jax_function(kepler, steps=1), "takes a simulation"),
        (lambda: tp.jax_function(sim), "steps= or until="),
        (lambda: tp.jax_function(sim, steps=10, save_every=3), "does not divide"),
        (lambda: f(q), "`p` is missing"),
        (lambda: f(q, p, nu=mu), "`nu` is no state"),
        (lambda: f(q, p, q=q), "passed twice"),
        (lambda: f(q.astype("float32"), p), "float32"),
        (lambda: f(q[:1], p), "declares"),
        (lambda: jax.grad(lambda q: f(q, p).q[0])(q), "wrt= leaves out"),
    ]
    for call, word in wrong:
        with pytest.raises(tp.TinyPhysicsError, match=word):
            call()
    assert jax.grad(lambda p: f(q, p).q[0])(p).shape == (2,)


def test_without_float64_the_error_says_how_to_turn_it_on():
    sim, _ = cases("kepler")
    f = tp.jax_function(sim, steps=10)
    jax.config.update("jax_enable_x64", False)
    with pytest.raises(tp.InputError, match='jax.config.update\\("jax_enable_x64", True\\)'):
        f(jnp.ones(2), jnp.ones(2))


def test_without_jax_the_error_has_the_pip_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.delitem(sys.modules, "tinyphysics.learn.in_jax", raising=False)
    with pytest.raises(tp.BackendError, match=r'pip install "tinyphysics\[jax\]"'):
        tp.jax_function(cases("kepler")[0], steps=1)


@pytest.mark.all
def test_calls_of_c_and_callbacks_have_the_same_bits_and_messages(monkeypatch):
    from tinyphysics.device.host import cc
    from tinyphysics.learn import in_jax, jax_calls

    sim, start = cases("kepler")
    f = tp.jax_function(sim, steps=20)

    def loss(s):
        return f(**s).q @ f(**s).p

    def every():
        jax.clear_caches()
        wide = {n: jnp.stack([v, 1.01 * v]) for n, v in start.items()}
        found = [
            jax.jit(jax.grad(loss))(start),
            jax.jit(jax.vmap(jax.grad(loss)))(wide),
            jax.jit(jax.hessian(loss))(start),
        ]
        return jax.tree.leaves(found)

    assert jax_calls.handler() == bool(cc.compiler())
    by_c = every()
    with pytest.raises(Exception, match="the initial `q` is not finite"):
        jax.block_until_ready(jax.jit(loss)({**start, "q": jnp.full(2, jnp.nan)}))
    assert "tinyphysics_rows" in jax.jit(loss).lower(start).as_text()
    monkeypatch.setattr(in_jax, "handler", lambda: False)
    by_callback = every()
    assert "tinyphysics_rows" not in jax.jit(loss).lower(start).as_text()
    jax.clear_caches()
    assert all(np.array_equal(a, b) for a, b in zip(by_c, by_callback))
