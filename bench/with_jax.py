"""The workloads with JAX: double precision, one jitted loop, tiles of the ensemble one after the other.

XLA calls the C library's sine for every number; a polynomial written with jax.numpy becomes vectors, so
both are measured.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_cpu_enable_async_dispatch", False)  # on the calling thread, where it is timed
TILE = 1_024  # of 64 to 65,536 lanes the fastest


def sine(x):
    m = jnp.round(x * 0.31830988618379067154)
    r = (x - m * 3.141592653589793116) - m * 1.2246467991473531772e-16
    sign = 1.0 - 4.0 * jnp.abs(0.5 * m - jnp.round(0.5 * m))
    u = r * r
    y = u * 2.7313658674940167149e-15 - 7.6439639659253566632e-13
    for a in (
        1.6058977114074673292e-10,
        -2.5052107613934760316e-8,
        2.7557319219139182201e-6,
        -0.00019841269841254884688,
        0.0083333333333333157466,
        -0.16666666666666666633,
    ):
        y = u * y + a
    return sign * (r * u * y + r)


def leapfrog(force, q, p, dt, n):
    """Half kicks merged; q and p are arrays of one shape."""
    p = p + 0.5 * dt * force(q)

    def step(_, state):
        q, p = state
        q = q + dt * p
        return q, p + dt * force(q)

    q, p = lax.fori_loop(0, n - 1, step, (q, p))
    q = q + dt * p
    return q, p + 0.5 * dt * force(q)


def tiled(f, *state):
    """f on tiles of the last axis, one after the other."""
    cut = [jnp.moveaxis(s.reshape(*s.shape[:-1], -1, TILE), -2, 0) for s in state]
    return [jnp.moveaxis(s, 0, -2).reshape(*s.shape[1:-1], -1) for s in lax.map(lambda s: f(*s), tuple(cut))]


def ready(f, *arguments):
    """f compiled once, its arguments on the device; what it returns is a NumPy array."""
    f, arguments = jax.jit(f), [jnp.asarray(a) for a in arguments]
    return lambda: np.asarray(jax.block_until_ready(f(*arguments)))


def pendulums(q, p, dt, n):
    def of(sin):
        return ready(lambda q, p: tiled(lambda q, p: leapfrog(lambda x: -sin(x), q, p, dt, n), q, p)[0], q, p)

    return {"jax": of(jnp.sin), "jax, own sine": of(sine)}


def stars(x, dt, n):
    def force(q):
        x, y = q
        return jnp.stack([-(x + 2 * x * y), -(y + x * x - y * y)])

    return {
        "jax": ready(lambda q, p: tiled(lambda q, p: leapfrog(force, q, p, dt, n), q, p)[0][0], x[:2], x[2:])
    }


def one_pendulum(q, p, dt, n):
    return {"jax": ready(lambda q, p: leapfrog(lambda x: -jnp.sin(x), q, p, dt, n)[0], q, p)}


def pull(m):
    """The accelerations of bodies at q under their gravity."""

    def force(q):
        d = q[None] - q[:, None]
        r2 = (d * d).sum(axis=2) + jnp.eye(len(m))  # a body does not pull itself: d is 0
        return (d * (m[None] / (r2 * jnp.sqrt(r2)))[:, :, None]).sum(axis=1)

    return force


def planets(q, v, m, dt, n):
    return {"jax": ready(lambda q, v, m: leapfrog(pull(m), q, v, dt, n)[0], q, v, m)}


def solvers(T, weights):
    """The same composition of order 8, its stages written out; a rung is a number of steps."""

    def solve(q, p, n):
        dt = T / n

        def step(_, state):
            q, p = state
            for k, a in enumerate(weights):
                q = q + 0.5 * dt * (a + weights[k - 1] * (k > 0)) * p
                p = p - dt * a * sine(q)
            return q + 0.5 * dt * weights[-1] * p, p

        return tiled(lambda q, p: lax.fori_loop(0, n, step, (q, p)), q, p)[0]

    jitted = jax.jit(solve, static_argnums=2)
    return {"jax, own sine": lambda q, p, n: np.asarray(jitted(q, p, n))}


# --- arrays: a call goes on from where it was, and returns what reads the positions ----------------
def going_on(force, q, p, dt, n):
    """Half a kick, then n steps a call; buffers are given away, so that XLA may write in place."""

    def steps(q, p):
        def step(_, state):
            q, p = state
            q = q + dt * p
            return q, p + dt * force(q)

        return lax.fori_loop(0, n, step, (q, p))

    jitted = jax.jit(steps, donate_argnums=(0, 1))
    state = [jnp.array(q), jnp.asarray(p) + 0.5 * dt * force(jnp.asarray(q))]

    def run():
        state[:] = jax.block_until_ready(jitted(*state))
        return lambda: np.asarray(state[0])

    return run


def gravity(q, v, m, eps, dt, n):
    """All pairs, some rows at a time: tables of N by N would go through memory."""
    mass = jnp.asarray(m)

    def force(q):
        def of(rows):
            x, y, z = (q[k][None] - rows[k][:, None] for k in range(3))
            r2 = x * x + y * y + z * z + eps**2
            f = mass / (r2 * jnp.sqrt(r2))
            return jnp.stack([(f * x).sum(axis=1), (f * y).sum(axis=1), (f * z).sum(axis=1)])

        pulls = lax.map(of, jnp.moveaxis(q.reshape(3, -1, 16), 1, 0))
        return jnp.moveaxis(pulls, 0, 1).reshape(q.shape)

    run = going_on(force, q.T, v.T, dt, n)

    def turned():
        read = run()
        return lambda: read().T

    return {"jax": turned}


def chain(q, p, alpha, dt, n):
    def force(q):
        r = jnp.diff(q, prepend=0.0, append=0.0)
        return jnp.diff(r * (1 + alpha * r))

    return {"jax": going_on(force, q, p, dt, n)}


def wave(q, p, dt, n):
    def force(u):
        return jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u

    return {"jax": going_on(force, q, p, dt, n)}


def fluid(f, om, n):
    from array_systems import CX, CY, collided

    def step(_, f):
        return jnp.stack(collided([jnp.roll(f[k], (CY[k], CX[k]), (0, 1)) for k in range(9)], om))

    jitted = jax.jit(lambda f: lax.fori_loop(0, n, step, f), donate_argnums=0)
    state = [jnp.array(f)]

    def run():
        state[0] = jax.block_until_ready(jitted(state[0]))
        return lambda: np.asarray(state[0])

    return {"jax": run}


FIRST = """
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
def once(c):
    @jax.jit
    def run(q, p):
        def step(_, s):
            q = s[0] + 0.01 * s[1]
            return q, s[1] - 0.01 * c * jnp.sin(q)
        return jax.lax.fori_loop(0, 1, step, (q, p))
    jax.block_until_ready(run(np.zeros(64), np.ones(64)))
"""
