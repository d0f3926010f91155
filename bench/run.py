"""How fast is it?  Ours, hand-written C, gcc with fast maths and the peers that are installed, in one run.

Times are CPU times of one thread, the smallest of several interleaved repetitions, as ratios to the
hand-written C; a result is kept as a JSON line in bench/results/. `pip install .[bench]` brings the peers.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import array_rows
import numpy as np
import workloads as w
from measure import Row, cycle, race, start_up
from peers import PEERS, module_of
from table import keep, show, surroundings
from workloads import Contender, c, fewest_cycles, library, ours

import tinyphysics as tp
from tinyphysics.planner.methods.catalog import BY_NAME

FLAGS = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
WHOLE = w.MEMBERS // 96 * 96  # the C by hand leaves out the members after the last whole group of its vectors


def pin() -> None:
    """One processor and no threads beside ours; decided before a peer is imported and starts its own."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ |= {"XLA_FLAGS": FLAGS, "NUMBA_NUM_THREADS": "1"}


def peers(row: str, *arguments: Any) -> dict[str, Contender | None]:
    """What each peer has for a row; None where it is not installed or the row makes no sense for it."""
    found: dict[str, Contender | None] = {}
    for name in PEERS:
        make = getattr(module_of(name), row, None)
        found |= make(*arguments) if make else {name: None}
    return found


def ensemble_of_pendulums(repeat: int, strict, fast) -> Row:
    q, p = w.pendulums()
    rows = {
        "tinyphysics": ours(w.pendulum, {"q": q, "p": p}, w.STEPS, dt=w.DT),
        "tinyphysics, float32": ours(w.pendulum, {"q": q, "p": p}, w.STEPS, dt=w.DT, precision="float32"),
        "C by hand": c(strict.pendulum_hand, (q, p), w.MEMBERS, w.DT, w.STEPS),
        "gcc fast-math, tiled": c(fast.pendulum_tiled, (q, p), w.MEMBERS, w.DT, w.STEPS),
        "gcc fast-math, naive": c(fast.pendulum_naive, (q, p), w.MEMBERS, w.DT, w.STEPS),
        **peers("pendulums", q, p, w.DT, w.STEPS),
    }
    limits = {"tinyphysics": fewest_cycles(w.pendulum, dt=w.DT) * cycle(strict.clock_chain)}
    return race("65,536 pendulums x 1,000, leapfrog", rows, repeat, w.MEMBERS * w.STEPS, WHOLE, limits=limits)


def ensemble_of_stars(repeat: int, strict, fast) -> Row:
    x = w.stars()
    state = {"q": x[:2].T.copy(), "p": x[2:].T.copy()}
    ensemble, scaled = (ours(w.henon_heiles, state, w.STEPS, dt=w.DT, scale=s) for s in ("off", "auto"))
    single = ours(w.henon_heiles, state, w.STEPS, dt=w.DT, precision="float32")
    rows = {
        "tinyphysics": lambda: ensemble()[:, 0],
        "tinyphysics, scaled": lambda: scaled()[:, 0],
        "tinyphysics, float32": lambda: single()[:, 0],
        "C by hand": c(strict.henon_hand, tuple(x), w.MEMBERS, w.DT, w.STEPS),
        "gcc fast-math, tiled": c(fast.henon_tiled, tuple(x), w.MEMBERS, w.DT, w.STEPS),
        **peers("stars", x, w.DT, w.STEPS),
    }
    ns = cycle(strict.clock_chain)
    limits = {
        name: fewest_cycles(w.henon_heiles, dt=w.DT, scale=s) * ns
        for name, s in (("tinyphysics", "off"), ("tinyphysics, scaled", "auto"))
    }
    return race(
        "65,536 Hénon–Heiles x 1,000, leapfrog", rows, repeat, w.MEMBERS * w.STEPS, WHOLE, limits=limits
    )


def one_pendulum(repeat: int, strict, fast) -> Row:
    state = np.array([1.0, 0.3])
    rows = {
        "tinyphysics": ours(w.pendulum, {"q": state[:1], "p": state[1:]}, w.ONE, dt=w.DT),
        "C by hand": c(strict.pendulum_one, (state,), w.DT, w.ONE),
        **peers("one_pendulum", 1.0, 0.3, w.DT, w.ONE),
    }
    return race("one pendulum, 5e5 steps (C: libm sine)", rows, repeat, w.ONE, 1)


def sun_and_planets(repeat: int, strict, fast) -> Row:
    q, v, m = w.solar_system()
    rows = {
        "tinyphysics": ours(
            w.planets, {"q": q[None], "p": (m[:, None] * v)[None]}, w.YEARS, {"m": m}, dt=w.DT
        ),
        "C by hand": c(strict.planets_hand, (q, v), m, w.DT, w.YEARS),
        "C, plain loops": c(strict.planets_plain, (q, v), m, w.DT, w.YEARS),
        "gcc fast-math, plain loops": c(fast.planets_plain, (q, v), m, w.DT, w.YEARS),
        **peers("planets", q, v, m, w.DT, w.YEARS),
    }
    return race("Sun and eight planets x 20,000, leapfrog", rows, repeat, w.YEARS, q.size)


def time_to_solution(repeat: int, strict, fast) -> Row:
    """CPU time per member and unit of time at an error below 1e-9 after T = 100, each at its cheapest setting."""
    q, p = w.pendulums()
    few = q[: w.SAMPLE].copy(), p[: w.SAMPLE].copy()
    whole = w.SAMPLE // 96 * 96
    exact = (
        tp.compile(w.pendulum, dt=0.025, method="kahan_li8")
        .evolve(q=few[0], p=few[1], until=w.T, frames=2)
        .final.q
    )

    def enough(solve: Callable[[Any], Any], rungs: tuple) -> Any:
        """The cheapest setting that is accurate enough."""
        met = (rung for rung in rungs if np.abs(solve(rung) - exact)[:whole].max() < w.ERROR)
        rung = next(met, None)
        assert rung is not None, f"none of {rungs} meets {w.ERROR:g}"
        return rung

    def our_q(n: int, method: str) -> Any:
        return (
            tp.compile(w.pendulum, dt=w.T / n, method=method)
            .evolve(q=few[0], p=few[1], steps=n, frames=2)
            .final.q
        )

    def c_solver(state: tuple, n: int) -> Contender:
        return c(strict.pendulum_composed, state, len(state[0]), w.WEIGHTS, len(w.WEIGHTS), w.T / n, n)

    tried = {m: enough(lambda n, m=m: our_q(n, m), w.OUR_RUNGS) for m in w.OURS}
    method = min(tried, key=lambda m: tried[m] * BY_NAME[m].stages)
    n, k = tried[method], enough(lambda n: c_solver(few, n)(), w.RUNGS)
    rows: dict[str, Contender | None] = {
        "tinyphysics": ours(w.pendulum, {"q": q, "p": p}, n, dt=w.T / n, method=method),
        "C by hand": c_solver((q, p), k),
    }
    settings, work = {"tinyphysics": f"{method}, dt {w.T / n:g}", "C by hand": f"dt {w.T / k:g}"}, {}
    for peer in PEERS:
        module = module_of(peer)
        solvers = module.solvers(w.T, w.WEIGHTS) if hasattr(module, "solvers") else {}
        if not solvers:
            rows[peer] = None
        for name, solve in solvers.items():
            rungs = getattr(module, "RUNGS", w.RUNGS)
            rung = enough(lambda rung, solve=solve: solve(*few, rung), rungs)
            members = getattr(module, "SOLVED", w.MEMBERS)
            rows[name] = lambda solve=solve, rung=rung, m=members: solve(q[:m], p[:m], rung)
            work[name] = members * w.T
            settings[name] = f"tolerance {rung:g}" if isinstance(rung, float) else f"dt {w.T / rung:g}"
    per_step = fewest_cycles(w.pendulum, dt=w.T / n, method=method) * cycle(strict.clock_chain)
    limits = {"tinyphysics": per_step * n / w.T}
    return race(
        "65,536 pendulums to 1e-9 at T = 100", rows, repeat, w.MEMBERS * w.T, whole, work, settings, limits
    )


ROWS = (ensemble_of_pendulums, ensemble_of_stars, one_pendulum, sun_and_planets, time_to_solution)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", default="", help="rows whose name contains this, for instance gravity")
    asked = parser.parse_args()
    pin()
    where = surroundings()  # of what is about to run, whatever is committed meanwhile
    kernels, arrays = (
        [library(flags, name) for flags in (w.STRICT, w.FAST)] for name in ("kernels.c", "arrays.c")
    )
    rows = [row(asked.repeat, *kernels) for row in ROWS if asked.only in row.__name__]
    rows += start_up() if asked.only in "start_up" else []
    rows += [row(asked.repeat, *arrays, peers) for row in array_rows.ROWS if asked.only in row.__name__]
    show(rows)
    keep(rows, where)


if __name__ == "__main__":
    main()
