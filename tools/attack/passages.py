"""Are the events of arrays those of the solution?  SciPy's DOP853, with its dense output, on the same equations in NumPy."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import tinyphysics as tp
from attack.case import Case
from attack.findings import Tally
from attack.plain import Functions

CLOSE = 2e-6  # between two times, at the tolerances below
STEEP = 0.02  # a function that changes more slowly than that touches zero, or nearly so
APART = 0.05  # between two events, or one and an end: both are found, or neither is judged
EQUATIONS = (
    "0.5*(tp.roll(u, 1) - 2*u + tp.roll(u, -1)) + u - u**3",
    "0.8*(tp.roll(u, 1) - u) + tp.cos(u)",
    "tp.sin(tp.roll(u, 2) - u) + 0.7",
    "u*(1 - u) + 0.3*tp.roll(u, 1) - 0.2*tp.mean(u)",
    "tp.where(u > 0, -u, 0.5*u) + 0.9*tp.roll(u, 1)",
)
FUNCTIONS = ("u[3] - {c}", "u[0] - u[7]", "tp.sum(u*u) - {s}", "tp.mean(u) - {c}", "u[2]*u[5] - {c}")


def check(case: Case, t: Tally) -> None:
    rng = random.Random(f"passages {case.seed}")
    n, until = rng.choice([200, 300]), rng.choice([2.0, 4.0])
    u = np.random.default_rng([case.seed, 62]).uniform(-1.0, 1.0, n)
    rate = rng.choice(EQUATIONS)
    event = rng.choice(FUNCTIONS).format(
        c=round(rng.uniform(-0.3, 0.6), 2), s=round(float(u @ u) * rng.uniform(0.6, 1.4), 2)
    )
    method = rng.choice(["dop853", "dopri5"])
    plain = {"tp": Functions, "np": np}
    f, g = eval(f"lambda u: {rate}", plain), eval(f"lambda u: {event}", plain)
    system = tp.ode(written(f"def system(u: tp.Vec[{n}]):\n    return {rate}\n", "system"))
    watched = written(f"def watched(u):\n    return {event}\n", "watched")
    out = tp.compile(system, method=method, tolerance=1e-11).evolve(
        u=u, until=until, events={"g": watched}, progress=False
    )
    t.shares["passages"] += 1
    found = np.asarray(out.events("g").t)
    true = solve_ivp(
        lambda _, y: f(y),
        (0, until),
        u,
        "DOP853",
        rtol=1e-11,
        atol=1e-12,
        events=lambda _, y: g(y),
        dense_output=True,
        max_step=0.01,  # SciPy compares signs at the ends of its steps: two events within one hide each other (1503457)
    )
    if out.stopped is not None or not true.success:  # a solution that ends before the run does: seed 3001109
        t.unclear["passages"] += 1
        return
    times = np.asarray(true.t_events[0])
    looks = np.linspace(0, until, 2001)
    values = np.array([float(g(true.sol(x))) for x in looks])
    slopes = np.gradient(values, looks)
    near = np.abs(values) < 2 * STEEP * APART
    gaps = np.diff([0.0, *times, until])
    if (np.abs(slopes[near]) < STEEP).any() or gaps.min(initial=1.0) < APART or not np.isfinite(values).all():
        t.unclear["passages"] += 1
        return
    same = len(found) == len(times)
    off = float(np.abs(found - times).max(initial=0.0)) if same else np.inf
    told = f"{len(found)} events of {event} with {method}, u' = {rate}"
    t.check(
        case.seed, "passages", off > CLOSE, told, f"SciPy has {len(times)}, and times differ by {off:.1e}"
    )


def written(text: str, name: str) -> Any:
    """A function of a text."""
    scope: dict[str, Any] = {"tp": tp, "np": np}
    exec(text, scope)
    return scope[name]
