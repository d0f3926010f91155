"""Are gradients right?  The same steps written by hand in JAX and in torch, and differentiated by those libraries."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp

pytestmark = [pytest.mark.requirement("S2-13"), pytest.mark.all]


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2], lam: float = 1.0):
    return (p @ p + q @ q) / 2 + lam * (q[0] ** 2 * q[1] - q[1] ** 3 / 3)


@tp.hamiltonian
def fput(q: tp.Vec[64], p: tp.Vec[64], alpha: float = 0.25):
    d = tp.diff(tp.concatenate([np.zeros(1), q, np.zeros(1)]))
    return p @ p / 2 + (d**2 / 2 + alpha * d**3 / 3).sum()


@tp.hamiltonian
def bodies(q: tp.Array[8, 3], p: tp.Array[8, 3], m: tp.Vec[8]):
    d = q[:, None] - q[None, :]
    pairs = m[:, None] * m[None, :] / tp.sqrt((d**2).sum(-1) + 0.01)
    return (p**2 / m[:, None]).sum() / 2 - tp.pair_sum(pairs)


def potentials(xp):
    """The same potential energies, in the language of a library."""

    def chain(q, alpha):
        zero = xp.zeros(1) if xp.__name__ == "jax.numpy" else xp.zeros(1, dtype=q.dtype)
        q = xp.concatenate([zero, q, zero])
        d = q[1:] - q[:-1]
        return (d**2 / 2 + alpha * d**3 / 3).sum()

    def gravity(q, m):
        i, j = np.triu_indices(8, 1)
        return -(m[i] * m[j] / xp.sqrt(((q[i] - q[j]) ** 2).sum(-1) + 0.01)).sum()

    return {
        "henon_heiles": lambda q, lam: q @ q / 2 + lam * (q[0] ** 2 * q[1] - q[1] ** 3 / 3),
        "fput": chain,
        "bodies": gravity,
    }


def cases():
    draw = np.random.default_rng(2)
    i = np.arange(1, 65)
    return {
        "henon_heiles": (henon_heiles, 0.01, 500, dict(q=[0.1, -0.2], p=[0.3, 0.1], lam=1.0)),
        "fput": (fput, 0.05, 300, dict(q=2 * np.sin(np.pi * i / 65), p=np.zeros(64), alpha=0.25)),
        "bodies": (
            bodies,
            0.01,
            100,
            dict(q=draw.normal(size=(8, 3)), p=draw.normal(size=(8, 3)) / 8, m=np.full(8, 1 / 8)),
        ),
    }


def loss(out):
    return (out.final.q**2).sum() / 2 + out.final.p.sum()


def ours(name):
    system, dt, steps, start = cases()[name]
    sim = tp.compile(system, dt=dt, method="leapfrog")
    value, grads = sim.value_and_grad(loss, **start, steps=steps)
    return value, [np.asarray(grads[n]) for n in start], start, dt, steps


def apart(mine, other):
    return max(np.abs(a - b).max() / np.abs(b).max() for a, b in zip(mine, other))


@pytest.mark.parametrize("name", ["henon_heiles", "fput", "bodies"])
def test_jax_differentiates_the_same_steps_to_the_same_gradient(name):
    jax = pytest.importorskip("jax", reason="jax is not installed")
    value, mine, start, dt, steps = ours(name)
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        jnp = jax.numpy
        V = potentials(jnp)[name]

        def end(q, p, c):
            mass = c[:, None] if name == "bodies" else 1.0

            def step(state, _):
                q, p = state
                p = p - dt / 2 * jax.grad(V)(q, c)
                q = q + dt * p / mass
                return (q, p - dt / 2 * jax.grad(V)(q, c)), None

            (q, p), _ = jax.lax.scan(step, (q, p), None, length=steps)
            return (q**2).sum() / 2 + p.sum()

        there, theirs = jax.value_and_grad(end, (0, 1, 2))(*(jnp.asarray(v, float) for v in start.values()))
        theirs = [np.asarray(g) for g in theirs]
    finally:
        jax.config.update("jax_enable_x64", before)
    assert np.isclose(value, there, rtol=1e-11) and apart(mine, theirs) < 1e-10


@pytest.mark.parametrize("name", ["henon_heiles", "fput", "bodies"])
def test_torch_differentiates_the_same_steps_to_the_same_gradient(name):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    value, mine, start, dt, steps = ours(name)
    V = potentials(torch)[name]
    first = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in start.values()]
    q, p, c = first
    mass = c[:, None] if name == "bodies" else 1.0

    def force(q):
        x = q if q.requires_grad else q.detach().requires_grad_()
        return -torch.autograd.grad(V(x, c), x, create_graph=True)[0]

    for _ in range(steps):
        p = p + dt / 2 * force(q)
        q = q + dt * p / mass
        p = p + dt / 2 * force(q)
    there = (q**2).sum() / 2 + p.sum()
    theirs = [g.numpy() for g in torch.autograd.grad(there, first)]
    assert np.isclose(value, there.item(), rtol=1e-11) and apart(mine, theirs) < 1e-10
