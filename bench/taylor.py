"""What does an accurate trajectory cost?  Taylor series against heyoka, SciPy's DOP853 and REBOUND's IAS15, on one core.

A pendulum, the orbit of Arenstorf, the seven stars of the Pleiades (Hairer, Norsett and Wanner, Solving Ordinary Differential
Equations I), and the Sun with eight planets for a century. Every contender gets the same tolerance; its error at the end is
beside its time. Times are processor time of this thread, the shortest of several rounds, contenders one after the other in
every round; a run is from the state to the state, without compiling. Of a short run most is the way from Python to
the kernel and back; what the kernel itself takes is in a row of its own.

    python bench/taylor.py [rounds] [pendulum] [arenstorf] [pleiades] [planets]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import tinyphysics as tp
from tinyphysics.context import QUICK
from tinyphysics.physics.particles import gravity, solar_system
from tinyphysics.runtime.engines.adaptive import AdaptiveEngine
from tinyphysics.runtime.engines.backend import engine_for, series_engine

Run = Callable[
    [], tuple[Any, int]
]  # (the state at the end, steps); a run that knows its own time gives that too
YEARS = 100
DAYS = 365.25 * YEARS


@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - tp.cos(q)


@tp.ode
def arenstorf(x: tp.Vec[2], v: tp.Vec[2], mu: float = 0.012277471):
    a, b = x
    earth = ((a + mu) ** 2 + b * b) ** 1.5
    moon = ((a - (1 - mu)) ** 2 + b * b) ** 1.5
    return v, tp.stack(
        [
            a + 2 * v[1] - (1 - mu) * (a + mu) / earth - mu * (a - (1 - mu)) / moon,
            b - 2 * v[0] - (1 - mu) * b / earth - mu * b / moon,
        ]
    )


@tp.hamiltonian
def stars(q: tp.Array[7, 2], p: tp.Array[7, 2], m: tp.Vec[7]):
    d = q[:, None] - q[None, :]
    return ((p * p).sum(1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / tp.sqrt((d * d).sum(2)))


def ours(
    sim: Any, states: Mapping[str, Any], params: Mapping[str, Any], until: float, kernel: bool = False
) -> Run:
    """From the state to the state, by the engine of the simulation."""
    c = sim.compiled
    inner = (
        engine_for(sim.target, c.program, None, 1)
        if c.series is None
        else series_engine(sim.target, c.series)
    )
    engine = AdaptiveEngine(inner, list(states), None)
    given = {name: np.asarray(v, float)[None] for name, v in states.items()}
    own = {name: np.asarray(v, float)[None] for name, v in params.items()}

    def run() -> Any:
        with QUICK(0):
            m = engine.start(given, own, 1, until, 0.0, 1)
            engine.advance(m, 1)
            began = time.thread_time()
            if kernel:
                engine.reach(m)
            spent = time.thread_time() - began
            end = engine.synchronised(m)
            found = np.concatenate([v.ravel() for v in end.values()]), int(engine.taken(m)[0])
            return (*found, spent) if kernel else found

    return run


def heyoka(equations: Any, start: Any, until: float, tolerance: float | None, fp: Any = float) -> Run:
    import heyoka as hy

    tol = {} if tolerance is None else {"tol": fp(tolerance)}
    ta = hy.taylor_adaptive(equations, np.asarray(start, fp), fp_type=fp, compact_mode=fp is not float, **tol)

    def run() -> tuple[Any, int]:
        ta.time = fp(0.0)
        ta.state[:] = start
        steps = ta.propagate_until(fp(until))[3]
        return ta.state.astype(float), steps

    return run


def scipy(f: Callable[..., Any], start: Any, until: float, tolerance: float) -> Run:
    from scipy.integrate import solve_ivp

    def run() -> tuple[Any, int]:
        out = solve_ivp(f, (0.0, until), start, method="DOP853", rtol=tolerance, atol=tolerance)
        return out.y[:, -1], len(out.t) - 1

    return run


def compare(
    title: str,
    contenders: Mapping[str, Run],
    error: Callable[[str, Any], float],
    unit: float,
    of: str,
    rounds: int,
) -> None:
    best, found = dict.fromkeys(contenders, float("inf")), {}
    for _ in range(rounds):
        for name, run in contenders.items():
            began = time.thread_time()
            end, steps, *own = run()
            best[name] = min(best[name], own[0] if own else time.thread_time() - began)
            found[name] = error(name, end), steps
    print(f"\n{title:44} {of:>14}      error     steps   to ours")
    first = best[next(iter(best))]
    for name in contenders:
        e, steps = found[name]
        print(
            f"  {name:42} {best[name] / unit:14.1f} {e:10.1e} {steps:9} {best[name] / first:8.2f}x",
            flush=True,
        )


def of_pendulum(rounds: int) -> None:
    import heyoka as hy
    from scipy.special import ellipj, ellipk

    until, k2 = 10_000.0, np.sin(0.5) ** 2
    sn, cn, _, _ = ellipj(ellipk(k2) - until, k2)
    truth = np.array([2 * np.arcsin(np.sqrt(k2) * sn), -2 * np.sqrt(k2) * cn])
    q, p = hy.make_vars("q", "p")
    for tolerance in (1e-8, None):
        sim = tp.compile(pendulum, method="taylor", tolerance=tolerance, backend="llvm")
        contenders = {
            "tinyphysics": ours(sim, dict(q=1.0, p=0.0), {}, until),
            "heyoka": heyoka([(q, p), (p, -hy.sin(q))], [1.0, 0.0], until, tolerance),
        }
        compare(
            f"a pendulum, tolerance {tolerance or 2.2e-16:g}",
            contenders,
            lambda n, e: float(np.abs(e - truth).max()),
            until * 1e-9,
            "ns/unit time",
            rounds,
        )


def of_arenstorf(rounds: int) -> None:
    import heyoka as hy

    mu, until = 0.012277471, 17.0652165601579625588917206249
    start = [0.994, 0.0, 0.0, -2.00158510637908252240537862224]
    x, y, u, v = hy.make_vars("x", "y", "u", "v")

    def rates(x: Any, y: Any, u: Any, v: Any) -> list[Any]:
        earth, moon = ((x + mu) ** 2 + y * y) ** 1.5, ((x - (1 - mu)) ** 2 + y * y) ** 1.5
        return [
            u,
            v,
            x + 2 * v - (1 - mu) * (x + mu) / earth - mu * (x - (1 - mu)) / moon,
            y - 2 * u - (1 - mu) * y / earth - mu * y / moon,
        ]

    sim = tp.compile(arenstorf, tolerance=1e-12, backend="llvm")
    contenders = {
        "tinyphysics": ours(sim, dict(x=start[:2], v=start[2:]), dict(mu=mu), until),
        "tinyphysics, the kernel": ours(sim, dict(x=start[:2], v=start[2:]), dict(mu=mu), until, kernel=True),
        "heyoka": heyoka(list(zip((x, y, u, v), rates(x, y, u, v))), start, until, 1e-12),
        "SciPy DOP853": scipy(lambda t, s: rates(*s), start, until, 1e-12),
    }
    compare(
        "the orbit of Arenstorf, tolerance 1e-12",
        contenders,
        lambda n, e: float(np.abs(e[:2] - start[:2]).max()),
        1e-6,
        "µs/period",
        rounds,
    )


def of_pleiades(rounds: int) -> None:
    import heyoka as hy

    q = np.array([[3, 3], [3, -3], [-1, 2], [-3, 0], [2, 0], [-2, -4], [2, 4]], float)
    v = np.array([[0, 0], [0, 0], [0, 0], [0, -1.25], [0, 1], [1.75, 0], [-1.5, 0]])
    m = np.arange(1.0, 8.0)
    names = [hy.make_vars(f"x{i}", f"y{i}", f"u{i}", f"v{i}") for i in range(7)]
    pull: list[tuple[list[Any], list[Any]]] = [([], []) for _ in range(7)]
    for i in range(7):
        for j in range(i):
            d = [names[i][c] - names[j][c] for c in range(2)]
            r3 = (d[0] ** 2 + d[1] ** 2) ** -1.5
            for c in range(2):
                pull[i][c].append(-m[j] * (d[c] * r3))
                pull[j][c].append(m[i] * (d[c] * r3))
    equations = [
        e
        for i, (x, y, u, w) in enumerate(names)
        for e in ((x, u), (y, w), (u, hy.sum(pull[i][0])), (w, hy.sum(pull[i][1])))
    ]

    def rates(t: float, s: Any) -> Any:
        x, u = s[:14].reshape(7, 2), s[14:]
        d = x[None] - x[:, None]
        r2 = (d * d).sum(2) + np.eye(7)
        return np.concatenate([u, (m[None, :, None] * d / (r2 * np.sqrt(r2))[:, :, None]).sum(1).ravel()])

    places = np.array([0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25])  # of heyoka's state
    truth = heyoka(equations, np.hstack([q, v]).ravel(), 3.0, 1e-19, np.longdouble)()[0][places]
    sim = tp.compile(stars, method="taylor", tolerance=1e-12, backend="llvm")
    contenders = {
        "tinyphysics": ours(sim, dict(q=q, p=m[:, None] * v), dict(m=m), 3.0),
        "tinyphysics, the kernel": ours(sim, dict(q=q, p=m[:, None] * v), dict(m=m), 3.0, kernel=True),
        "heyoka": heyoka(equations, np.hstack([q, v]).ravel(), 3.0, 1e-12),
        "SciPy DOP853": scipy(rates, np.concatenate([q.ravel(), v.ravel()]), 3.0, 1e-12),
    }

    def error(name: str, end: Any) -> float:
        return float(np.abs((end[places] if name == "heyoka" else end[:14]) - truth).max())

    compare("the Pleiades to t = 3, tolerance 1e-12", contenders, error, 1e-6, "µs", rounds)


def of_planets(rounds: int) -> None:
    import heyoka as hy
    from planets_precision import ours as stepped

    s = solar_system()
    state = np.hstack([s["q"], s["p"] / s["m"][:, None]]).ravel()
    system = hy.model.nbody(9, masses=list(s["m"]), Gconst=float(s["G"]))
    truth = heyoka(system, state, DAYS, 1e-19, np.longdouble)()[0].reshape(9, 6)[:, :3]
    params = dict(m=s["m"], G=s["G"], softening=0.0)
    contenders: dict[str, Run] = {}
    for tolerance in (None, 1e-15):
        sim = tp.compile(gravity, method="taylor", tolerance=tolerance, backend="llvm", sizes={"n": 9})
        contenders[f"tinyphysics, tolerance {tolerance or 2.2e-16:g}"] = ours(
            sim, dict(q=s["q"], p=s["p"]), params, DAYS
        )
    for tolerance in (None, 1e-15):
        contenders[f"heyoka, tolerance {tolerance or 2.2e-16:g}"] = heyoka(system, state, DAYS, tolerance)
    for method, n in (("aba1064", 14610), ("aba1064", 29220), ("nystrom8", 29220)):
        one = stepped(method, n)
        contenders[f"tinyphysics {method}, {DAYS / n:.2f} d"] = lambda one=one, n=n: (one(), n)  # type: ignore[misc]
    contenders |= ias15(s)

    def error(name: str, end: Any) -> float:
        q = end.reshape(9, 6)[:, :3] if name.startswith("heyoka") else end.reshape(-1)[:27].reshape(9, 3)
        return float(np.linalg.norm(q - truth, axis=1).max())

    compare("the Sun and eight planets, a century", contenders, error, YEARS * 1e-6, "µs/year", rounds)


def ias15(s: Mapping[str, Any]) -> dict[str, Run]:
    try:
        import rebound
    except ImportError:
        return {}

    def run() -> tuple[Any, int]:
        sim = rebound.Simulation()
        sim.G, sim.integrator = float(s["G"]), "ias15"
        for m, x, v in zip(s["m"], s["q"], s["p"] / s["m"][:, None]):
            sim.add(m=m, x=x[0], y=x[1], z=x[2], vx=v[0], vy=v[1], vz=v[2])
        sim.integrate(DAYS)
        return np.array([[p.x, p.y, p.z] for p in sim.particles]), int(sim.steps_done)

    return {"REBOUND IAS15": run}


if __name__ == "__main__":
    counts = [int(a) for a in sys.argv[1:] if a.isdigit()]
    rows = {
        "pendulum": of_pendulum,
        "arenstorf": of_arenstorf,
        "pleiades": of_pleiades,
        "planets": of_planets,
    }
    for name in [a for a in sys.argv[1:] if a in rows] or rows:
        rows[name](counts[0] if counts else 10)
