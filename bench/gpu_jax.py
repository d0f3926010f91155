"""The rows of a GPU with JAX: one jitted loop. Times are the host's, from the call until the result is there."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import gpu_rows as rows
import jax
import jax.numpy as jnp
from jax import lax

jax.config.update("jax_enable_x64", True)
UNROLLED = (1, 10)  # steps in a pass of the loop
TARGETS = 256  # of gravity at once: a table of all pairs would go through memory


def leapfrog(force: Any, dt: float, n: int, unroll: int, q: Any, p: Any) -> tuple[Any, Any]:
    p = p + dt / 2 * force(q)

    def step(_: Any, state: Any) -> Any:
        q, p = state
        q = q + dt * p
        return q, p + dt * force(q)

    q, p = lax.fori_loop(0, n - 1, step, (q, p), unroll=unroll)
    q = q + dt * p
    return q, p + dt / 2 * force(q)


def timed(row: str, precision: str, variant: str, s: rows.Sizes, f: Any, *given: Any) -> None:
    run = jax.jit(f)
    there = [jax.device_put(x) for x in given]
    out = jax.block_until_ready(run(*there))

    def seconds() -> float:
        began = time.perf_counter()
        jax.block_until_ready(run(*there))
        return time.perf_counter() - began

    rows.tell(row, precision, variant, rows.median(seconds), s, out[0] if isinstance(out, tuple) else out)


def pendulum(precision: str, s: rows.Sizes) -> None:
    q, p = (x.astype(precision) for x in rows.pendulums(s))
    for unroll in UNROLLED:
        f = partial(leapfrog, lambda x: -jnp.sin(x), rows.DT, s.steps, unroll)
        timed("pendulum", precision, f"{unroll} steps in a pass", s, f, q, p)


def henon_heiles(precision: str, s: rows.Sizes) -> None:
    x = rows.stars(s).astype(precision)

    def force(q: Any) -> Any:
        x, y = q
        return -jnp.stack([x * (1 + 2 * y), x * x + y * (1 - y)])

    for unroll in UNROLLED:
        f = partial(leapfrog, force, rows.DT, s.steps, unroll)
        timed(
            "henon_heiles",
            precision,
            f"{unroll} steps in a pass",
            s,
            lambda q, p, f=f: f(q, p)[0][0],
            x[:2],
            x[2:],
        )


def gravity(precision: str, s: rows.Sizes) -> None:
    q, v, m = (x.astype(precision) for x in rows.bodies(s))
    mass = jax.device_put(m)

    def force(q: Any) -> Any:
        def of(target: Any) -> Any:
            d = [q[k][None] - target[k][:, None] for k in range(3)]
            r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + rows.SOFTENING**2
            f = mass / (r2 * jnp.sqrt(r2))
            return jnp.stack([(f * x).sum(axis=1) for x in d])

        pulls = lax.map(of, jnp.moveaxis(q.reshape(3, -1, TARGETS), 1, 0))
        return jnp.moveaxis(pulls, 0, 1).reshape(q.shape)

    def steps(q: Any, v: Any) -> Any:
        q = q + rows.LEAP * (v := v + rows.LEAP / 2 * force(q))
        return lax.fori_loop(
            1, s.leaps, lambda _, x: (x[0] + rows.LEAP * (w := x[1] + rows.LEAP * force(x[0])), w), (q, v)
        )

    timed("gravity", precision, f"{TARGETS} targets at once", s, steps, q.T, v.T)


def d2q9(precision: str, s: rows.Sizes) -> None:
    def step(_: Any, f: Any) -> Any:
        return jnp.stack(
            rows.collided([jnp.roll(f[k], (rows.CY[k], rows.CX[k]), (0, 1)) for k in range(9)], rows.OMEGA)
        )

    timed(
        "d2q9",
        precision,
        "",
        s,
        lambda f: lax.fori_loop(0, s.updates, step, f),
        rows.populations(s).astype(precision),
    )


def first(precision: str, s: rows.Sizes) -> None:
    """Of a program that this process has not seen, with a context that is there."""

    def once(c: float) -> float:
        began = time.perf_counter()
        f = jax.jit(partial(leapfrog, lambda x: -c * jnp.sin(x), rows.DT, 100, 1))
        jax.block_until_ready(f(jnp.zeros(1024), jnp.ones(1024)))
        return time.perf_counter() - began

    once(1.0)
    rows.say(
        row="first",
        precision=precision,
        variant="",
        value=min(once(1 + k / 8) for k in (1, 2, 3)),
        unit="seconds",
    )


if __name__ == "__main__":
    asked = rows.arguments(__doc__)
    for row, precision in rows.ROWS:
        if row in globals() and asked.only in row:
            rows.attempt(row, precision, "", partial(globals()[row], precision, asked.sizes))
