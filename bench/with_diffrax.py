"""The workloads with diffrax: leapfrog for the loops, Dopri8 with error control for the solution.

Its symplectic Euler drifts and then kicks; between two half kicks that is leapfrog.
"""

from __future__ import annotations

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from with_jax import pull, ready, tiled

NOTE = (
    "diffrax: SemiImplicitEuler between half kicks, which is leapfrog; Dopri8 in the row of a given accuracy"
)


def leapfrog(force, q, p, dt, n):
    terms = (diffrax.ODETerm(lambda t, p, _: p), diffrax.ODETerm(lambda t, q, _: force(q)))
    solution = diffrax.diffeqsolve(
        terms,
        diffrax.SemiImplicitEuler(),
        0.0,
        n * dt,
        dt,
        (q, p + 0.5 * dt * force(q)),
        max_steps=None,
        saveat=diffrax.SaveAt(t1=True),
    )
    q, p = solution.ys[0][0], solution.ys[1][0]
    return q, p - 0.5 * dt * force(q)


def pendulums(q, p, dt, n):
    return {
        "diffrax": ready(
            lambda q, p: tiled(lambda q, p: leapfrog(lambda x: -jnp.sin(x), q, p, dt, n), q, p)[0], q, p
        )
    }


def stars(x, dt, n):
    def force(q):
        x, y = q
        return jnp.stack([-(x + 2 * x * y), -(y + x * x - y * y)])

    return {
        "diffrax": ready(
            lambda q, p: tiled(lambda q, p: leapfrog(force, q, p, dt, n), q, p)[0][0], x[:2], x[2:]
        )
    }


def one_pendulum(q, p, dt, n):
    return {"diffrax": ready(lambda q, p: leapfrog(lambda x: -jnp.sin(x), q, p, dt, n)[0], q, p)}


def planets(q, v, m, dt, n):
    return {"diffrax": ready(lambda q, v, m: leapfrog(pull(m), q, v, dt, n)[0], q, v, m)}


def solvers(T, weights):
    """Every member with steps of its own; a rung is a tolerance."""
    term = diffrax.ODETerm(lambda t, y, _: (y[1], -jnp.sin(y[0])))

    def member(q, p, tolerance):
        return diffrax.diffeqsolve(
            term,
            diffrax.Dopri8(),
            0.0,
            T,
            None,
            (q, p),
            max_steps=None,
            saveat=diffrax.SaveAt(t1=True),
            stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=tolerance),
        ).ys[0][0]

    jitted = jax.jit(
        lambda q, p, tol: tiled(lambda q, p: (jax.vmap(member, (0, 0, None))(q, p, tol),), q, p)[0]
    )
    return {"diffrax": lambda q, p, tolerance: np.asarray(jitted(q, p, tolerance))}


RUNGS = (1e-8, 1e-9, 1e-10, 1e-11, 1e-12)
SOLVED = 4_096  # members: more take minutes, and cost the same each

FIRST = """
import jax, jax.numpy as jnp, numpy as np, diffrax
jax.config.update("jax_enable_x64", True)
def once(c):
    terms = (diffrax.ODETerm(lambda t, p, _: p), diffrax.ODETerm(lambda t, q, _: -c * jnp.sin(q)))
    @jax.jit
    def run(q, p):
        return diffrax.diffeqsolve(terms, diffrax.SemiImplicitEuler(), 0.0, 0.01, 0.01, (q, p), max_steps=None).ys
    jax.block_until_ready(run(np.zeros(64), np.ones(64)))
"""
