"""What do double pendulums cost that are given by their Lagrangian?  Ours beside JAX and diffrax, at equal error.

    python bench/lagrangian.py [--members 65536] [--repeat 3]

All run the same members (angles within 1.5, at rest) to T = 1, on one core. A contender is run with more and more steps, on
some members until they meet an error, then on all; the error is the largest of any angle against order 6 with a small step,
and its cost the CPU time for one member and unit of time at the first number of steps that meets it. JAX derives the
equations of motion from the same L by its own differentiation: the implicit midpoint rule is solved by Newton's method with
as many rounds as the error needs, and diffrax takes constant steps of Dopri8 and Tsit5, the explicit equivalents.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from measure import spent

import tinyphysics as tp

T, G = 1.0, 9.81
SOME = 2_048  # members that are tried first
ERRORS = (1e-4, 1e-6, 1e-8)
Run = Callable[[], Any]


@tp.lagrangian
def double_pendulum(q: tp.Vec[2], v: tp.Vec[2], g: float = G):
    a, b = q
    return v[0] ** 2 + v[1] ** 2 / 2 + v[0] * v[1] * tp.cos(a - b) + 2 * g * tp.cos(a) + g * tp.cos(b)


def ours(method: str, q: Any, steps: int) -> Run:
    sim = tp.compile(double_pendulum, T / steps, method=method)
    return lambda: sim.evolve(q=q, v=np.zeros(2), steps=steps, threads=1, progress=False, frames=2).final.q


def with_jax(q: Any) -> dict[str, Callable[[int], Run]]:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def L(q: Any, v: Any) -> Any:
        a, b = q
        return v[0] ** 2 + v[1] ** 2 / 2 + v[0] * v[1] * jnp.cos(a - b) + 2 * G * jnp.cos(a) + G * jnp.cos(b)

    def accelerated(q: Any, v: Any) -> Any:
        mass = jax.hessian(L, 1)(q, v)
        mixed = jax.jacfwd(jax.grad(L, 1), 0)(q, v)
        return jnp.linalg.solve(mass, jax.grad(L, 0)(q, v) - mixed @ v)

    def field(y: Any) -> Any:
        return jnp.concatenate([y[2:], accelerated(y[:2], y[2:])])

    def midpoint(q: Any, steps: int, rounds: int) -> Any:
        """q moves by u in a step; D1 and D2 of the discrete Lagrangian h L(q + u/2, u/h)."""
        h = T / steps
        Ld = lambda a, b: h * L((a + b) / 2, (b - a) / h)  # noqa: E731
        first, last = jax.grad(Ld, 0), jax.grad(Ld, 1)

        def step(_: Any, state: Any) -> Any:
            q, p, u = state

            def correct(_: Any, x: Any) -> Any:
                return x - jnp.linalg.solve(jax.jacfwd(first, 1)(q, x), p + first(q, x))

            new = jax.lax.fori_loop(0, rounds, correct, q + u)
            return new, last(q, new), new - q

        return jax.lax.fori_loop(0, steps, step, (q, jax.grad(L, 1)(q, jnp.zeros(2)), jnp.zeros(2)))[0]

    def run(one: Callable[[Any], Any]) -> Run:
        whole = jax.jit(jax.vmap(one))
        whole(q).block_until_ready()
        return lambda: np.asarray(whole(q).block_until_ready())

    out: dict[str, Callable[[int], Run]] = {
        "JAX, variational midpoint": lambda steps: run(lambda x: midpoint(x, steps, 4)),
    }
    if importlib.util.find_spec("diffrax"):
        import diffrax

        def solved(solver: Any, steps: int) -> Run:
            def one(x: Any) -> Any:
                return diffrax.diffeqsolve(
                    diffrax.ODETerm(lambda t, y, _: field(y)),
                    solver,
                    0.0,
                    T,
                    T / steps,
                    jnp.concatenate([x, jnp.zeros(2)]),
                    max_steps=None,
                    saveat=diffrax.SaveAt(t1=True),
                ).ys[0][:2]

            return run(one)

        out["diffrax, Tsit5"] = lambda steps: solved(diffrax.Tsit5(), steps)
        out["diffrax, Dopri8"] = lambda steps: solved(diffrax.Dopri8(), steps)
    return out


def more(first: int, most: int) -> Iterator[int]:
    steps = first
    while steps <= most:
        yield steps
        steps = math.ceil(steps * 1.4)


Contenders = dict[str, Callable[[int], Run]]
METHODS = ("variational_midpoint", "implicit_midpoint", "galerkin4", "gauss4", "galerkin6", "gauss6")


def made(q: Any) -> tuple[Contenders, Contenders]:
    """(ours, theirs) for these members."""
    mine = {m: lambda steps, m=m: ours(m, q, steps) for m in METHODS}  # type: ignore[misc]
    return mine, with_jax(q) if importlib.util.find_spec("jax") else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--members", type=int, default=65_536)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    q = np.random.default_rng(1).uniform(-1.5, 1.5, (args.members, 2))
    true = ours("gauss6", q, 400)()
    mine, theirs = made(q)
    first = {name: make for group in made(q[:SOME]) for name, make in group.items()}
    best: dict[str, dict[float, float]] = {}
    for name, make in (mine | theirs).items():
        open_ = list(ERRORS)
        for steps in more(8 if name[-1] in "68" else 20, 1500):
            if np.abs(first[name](steps)() - true[:SOME]).max() > open_[0]:
                continue
            run = make(steps)
            error = float(np.abs(run() - true).max())
            met = [e for e in open_ if error <= e]
            if met:
                cost = min(spent(run) for _ in range(args.repeat)) / args.members / T * 1e9
                best.setdefault(name, {}).update(dict.fromkeys(met, cost))
                open_ = [e for e in open_ if e not in met]
            if not open_:
                break
    print(f"{args.members} double pendulums, ns of CPU for one and a unit of time, at an error of")
    print(f"{'':28}" + "".join(f"{e:>10.0e}" for e in ERRORS))
    for name, costs in best.items():
        print(f"{name:28}" + "".join(f"{costs[e]:10.0f}" if e in costs else f"{'-':>10}" for e in ERRORS))
    for e in ERRORS:
        ours_ = min((c[e], n) for n, c in best.items() if n in mine and e in c)
        others = sorted((c[e], n) for n, c in best.items() if n in theirs and e in c)
        if others:
            print(f"{e:.0e}: {ours_[1]} is {others[0][0] / ours_[0]:.1f} times faster than {others[0][1]}")


if __name__ == "__main__":
    main()
