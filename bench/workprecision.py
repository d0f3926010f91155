"""What does an accuracy cost?  Hénon–Heiles orbits to 1e-3 ... 1e-12: our schemes, and those who choose their steps.

    python bench/workprecision.py [--members 4096] [--repeat 3] [--json FILE]

Every contender runs the same orbits (energies up to 1/8, so some are chaotic) to T = 20 at many settings; its error is
the largest of any coordinate of any orbit, against order 10 at a small step. What is printed is the CPU time of one
thread per orbit and unit of time at the cheapest setting that meets an error, for each error, and who is lowest.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from measure import spent
from workloads import henon_heiles, ours

import tinyphysics as tp
from tinyphysics.planner.methods.catalog import METHODS

T = 20.0
DECADES = tuple(10.0**-k for k in range(3, 13))
TOLERANCES = tuple(10.0**-k for k in range(2, 16))
SAMPLE = 64  # orbits of a solver that steps them one by one in Python
Setting = tuple[
    str, Callable[[], Any], int
]  # (in words, the run that gives the last positions, orbits that it runs)


def orbits(members: int) -> tuple[Any, Any]:
    """Positions and momenta, (members, 2) each, of energies up to 1/8 inside the well."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-0.5, 0.5, (40 * members, 4))
    q = x[:, :2]
    energy = (x**2).sum(1) / 2 + q[:, 0] ** 2 * q[:, 1] - q[:, 1] ** 3 / 3
    keep = x[(energy < 1 / 8) & (q[:, 1] < 0.9)][:members]
    assert len(keep) == members
    return keep[:, :2].copy(), keep[:, 2:].copy()


# --- who ----------------------------------------------------------------------------------------
def scheme(name: str, kicks: int, order: int) -> Callable[[Any, Any], Iterator[Setting]]:
    def settings(q: Any, p: Any) -> Iterator[Setting]:
        steps = max(4, math.ceil(40 / kicks))
        while steps * kicks < 6_000 * (1 + (order <= 4) * 4):
            yield (
                f"{steps} steps",
                ours(henon_heiles, {"q": q, "p": p}, steps, dt=T / steps, method=name),
                len(q),
            )
            steps = math.ceil(steps * 1.12)

    return settings


def heyoka(q: Any, p: Any) -> Iterator[Setting]:
    import heyoka as hy

    x, y, u, v = hy.make_vars("x", "y", "u", "v")
    field = [(x, u), (y, v), (u, -x - 2 * x * y), (v, -y - x * x + y * y)]
    lanes = hy.recommended_simd_size()
    start = np.concatenate([q, p], axis=1).T
    for tolerance in TOLERANCES:
        ta = hy.taylor_adaptive_batch(field, np.zeros((4, lanes)), tol=tolerance, fast_math=True)

        def run(ta: Any = ta) -> Any:
            out, state = np.empty_like(q), ta.state
            for o in range(0, len(q) - lanes + 1, lanes):
                ta.set_time(0.0)
                state[:] = start[:, o : o + lanes]
                ta.propagate_until(T)
                out[o : o + lanes] = state[:2].T
            return out

        yield f"tolerance {tolerance:.0e}", run, len(q)


def scipy(q: Any, p: Any) -> Iterator[Setting]:
    from scipy.integrate import solve_ivp

    def field(t: float, s: Any) -> Any:
        x, y, u, v = s
        return [u, v, -x - 2 * x * y, -y - x * x + y * y]

    for tolerance in TOLERANCES[:-2]:

        def run(tolerance: float = tolerance) -> Any:
            goal = dict(rtol=max(tolerance, 3e-14), atol=tolerance)
            return np.array(
                [
                    solve_ivp(field, (0, T), [*a, *b], "DOP853", **goal).y[:2, -1]
                    for a, b in zip(q[:SAMPLE], p)
                ]
            )

        yield f"tolerance {tolerance:.0e}", run, SAMPLE


def diffrax(q: Any, p: Any) -> Iterator[Setting]:
    import diffrax as dfx
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def field(t: Any, s: Any, _: Any) -> Any:
        x, y, u, v = s
        return u, v, -x - 2 * x * y, -y - x * x + y * y

    def member(s: Any, tolerance: Any) -> Any:
        control = dfx.PIDController(rtol=tolerance, atol=tolerance)
        out = dfx.diffeqsolve(
            dfx.ODETerm(field),
            dfx.Dopri8(),
            0.0,
            T,
            None,
            tuple(s),
            max_steps=None,
            saveat=dfx.SaveAt(t1=True),
            stepsize_controller=control,
        ).ys
        return jnp.stack([out[0][0], out[1][0]])

    jitted = jax.jit(jax.vmap(member, (0, None)))
    few = min(len(q), 512)
    start = np.concatenate([q, p], axis=1)[:few]
    for tolerance in TOLERANCES[:-2]:
        yield f"tolerance {tolerance:.0e}", lambda t=tolerance: np.asarray(jitted(start, t)), few


def contenders() -> dict[str, Callable[[Any, Any], Iterator[Setting]]]:
    out = {m.name: scheme(m.name, m.stages, m.order) for m in METHODS if m.symmetric}
    peers = (
        ("heyoka", "heyoka", heyoka),
        ("SciPy DOP853", "scipy", scipy),
        ("diffrax Dopri8", "diffrax", diffrax),
    )
    for name, package, settings in peers:
        if importlib.util.find_spec(package):
            out[name] = settings
        else:
            print(f"{name} is not installed here")
    return out


# --- what it costs --------------------------------------------------------------------------------
def curve(settings: Iterator[Setting], exact: Any, repeat: int) -> list[tuple[float, float, str]]:
    """(error, ns per orbit and unit of time, setting), until rounding stops the error."""
    out: list[tuple[float, float, str]] = []
    for words, run, members in settings:
        with np.errstate(all="ignore"):
            found = run()
            error = float(np.abs(found - exact[: len(found)])[: members // 16 * 16].max())
        if not math.isfinite(error) or error > 1.0:
            continue
        if (
            out
            and error < 1e-13
            or len(out) > 3
            and min(e for e, _, _ in out[-3:]) < 1e-11
            and error > 2 * out[-1][0]
        ):
            break
        out.append((error, 1e9 * min(spent(run) for _ in range(repeat)) / members / T, words))
    return out


def cheapest(points: list[tuple[float, float, str]], error: float) -> tuple[float, str] | None:
    return min(((cost, words) for e, cost, words in points if e <= error), default=None)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--members", type=int, default=4096)
    arguments.add_argument("--repeat", type=int, default=3)
    arguments.add_argument("--only", nargs="*", help="these contenders")
    arguments.add_argument("--json", help="write all points there")
    args = arguments.parse_args()
    q, p = orbits(args.members)
    exact = tp.compile(henon_heiles, dt=T / 400, order=10).evolve(q=q, p=p, steps=400, frames=2).final.q
    curves = {}
    for name, settings in contenders().items():
        if not args.only or name in args.only:
            curves[name] = curve(settings(q, p), exact, args.repeat)
    print(f"ns of CPU per orbit and unit of time; {args.members} orbits to T = {T:g}, one thread")
    print("error".ljust(26), *(f"{d:8.0e}" for d in DECADES))
    for name, points in curves.items():
        costs = [cheapest(points, d) for d in DECADES]
        print(name.ljust(26), *(f"{c[0]:8.1f}" if c else "       -" for c in costs))
    mine = [m.name for m in METHODS if m.name in curves]
    for label, names in (("lowest of ours", mine), ("lowest of all", list(curves))):
        best = [
            min(((c[0], n) for n in names if (c := cheapest(curves[n], d))), default=None) for d in DECADES
        ]
        print(label.ljust(26), *(f"{b[0]:8.1f}" if b else "       -" for b in best))
        print(" " * 26, ", ".join(f"{d:.0e} {b[1]}" for d, b in zip(DECADES, best) if b))
    if args.json:
        with open(args.json, "w") as file:
            json.dump({name: points for name, points in curves.items()}, file)


if __name__ == "__main__":
    main()
