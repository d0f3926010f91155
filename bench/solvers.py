"""How does each contender run a problem of bench/problems.py?  A ladder of settings for each, the coarsest first.

A setting is begun, stepped and read: only the middle is timed.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import tinyphysics as tp
from tinyphysics.runtime.engines.adaptive import AdaptiveEngine
from tinyphysics.runtime.engines.backend import engine_for, lane_engine, series_engine
from tinyphysics.runtime.engines.loaders import LlvmLoader

TOLERANCES = tuple(10.0**-k for k in range(3, 16))
SERIES = (
    1e-3,
    1e-5,
    1e-7,
    1e-9,
    *TOLERANCES[8:],
    2.0**-52,
)  # each is compiled: fewer where they differ little
RUNGS = 1.3  # a ladder of steps: each this many times the last
MOST = 400_000  # kicks, or slopes of stages, of one run


@dataclass(frozen=True)
class Setting:
    words: str
    begin: Callable[[], Any]
    go: Callable[[Any], Any]
    positions: Callable[[Any], Any]  # of what begin gave, once gone

    def end(self) -> Any:
        m = self.begin()
        return self.positions(m if (done := self.go(m)) is None else done)


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


# --- ours -----------------------------------------------------------------------------------------
def members(values: Any) -> dict[str, Any]:
    return {name: np.asarray(v, float)[None] for name, v in values.items()}


def by_series(p: Any, tolerance: float, method: str = "taylor") -> Setting:
    """Or by another method that chooses its own steps."""
    system, start = p.series
    sim = tp.compile(system, method=method, tolerance=tolerance, backend="llvm", **p.options)
    c = sim.compiled
    inner = (
        engine_for(sim.target, c.program, None, 1)
        if c.series is None
        else series_engine(sim.target, c.series)
    )
    engine = AdaptiveEngine(inner, list(start), None)
    given = members({x.name: x.default for x in sim.built.system.parameters} | dict(p.parameters))

    def begin() -> Any:
        m = engine.start(members(start), given, 1, p.until, 0.0, 1)
        engine.advance(m, 1)
        return m

    return Setting(
        f"tolerance {tolerance:.0e}",
        begin,
        engine.reach,
        lambda m: engine.synchronised(m)[next(iter(start))].ravel(),
    )


def ours_taylor(p: Any) -> Iterator[Setting]:
    for tolerance in SERIES:
        yield by_series(p, tolerance)


def ours_embedded(p: Any, method: str) -> Iterator[Setting]:
    for tolerance in TOLERANCES[:-1] if method == "dop853" else TOLERANCES[:9]:
        yield by_series(p, tolerance, method)


def ours_fixed(p: Any, method: str) -> Iterator[Setting]:
    system, start, steps = p.stepped[method]
    sim = tp.compile(system, method=method, dt=p.until / steps, backend="llvm", **p.options)
    engine = lane_engine(sim.tpir, LlvmLoader(), threads=1)
    given = members(p.parameters)
    while steps * sim.built.step.evaluations < MOST:

        def begin(steps: int = steps) -> Any:
            return engine.start(members(start), given, 1, p.until / steps, 0.0)

        yield Setting(
            f"{steps} steps",
            begin,
            lambda m, steps=steps: engine.advance(m, steps),  # type: ignore[misc]
            lambda m: engine.synchronised(m)["q"].ravel(),
        )
        steps = math.ceil(steps * RUNGS)


# --- the others -----------------------------------------------------------------------------------
def with_heyoka(p: Any, tolerance: float, fp: Any = float, careful: bool = False) -> Setting:
    import heyoka as hy

    class Functions:
        sin, cos, sqrt, sum = hy.sin, hy.cos, hy.sqrt, hy.sum

    names = hy.make_vars(*(f"s{k:02}" for k in range(len(p.start))))
    equations = list(zip(names, p.rates(names, Functions)))
    ta = hy.taylor_adaptive(
        equations,
        np.asarray(p.start, fp),
        fp_type=fp,
        tol=fp(tolerance),
        compact_mode=fp is not float,
        high_accuracy=careful,
    )

    def begin() -> None:
        ta.time = fp(0.0)
        ta.state[:] = p.start

    def go(_: None) -> None:
        ta.propagate_until(fp(p.until))

    words = f"tolerance {tolerance:.0e}{', compensated' if careful else ''}"
    return Setting(words, begin, go, lambda _: ta.state[: len(p.start) // 2].astype(float))


def heyoka(p: Any) -> Iterator[Setting]:
    for tolerance in SERIES:
        yield with_heyoka(p, tolerance)
    for tolerance in (1e-14, SERIES[-1]):
        yield with_heyoka(p, tolerance, careful=True)


def reference(p: Any) -> tuple[Any, str]:
    """The positions at the end, and who says so."""
    if installed("heyoka"):
        return with_heyoka(p, 1e-19, np.longdouble).end(), "heyoka in 80 bits at 1e-19"
    return by_series(p, SERIES[-1]).end(), "our series to rounding"


def scipy(p: Any) -> Iterator[Setting]:
    from scipy.integrate import solve_ivp

    class Functions:
        sin, cos, sqrt, sum = math.sin, math.cos, math.sqrt, sum

    def rates(t: float, s: Any) -> Any:
        return (
            p.rates(s.tolist(), Functions) if p.arrays is None else p.arrays(s, np)
        )  # floats beat arrays of four

    for tolerance in TOLERANCES[:-1]:

        def go(_: Any, tolerance: float = tolerance) -> Any:
            goal = dict(rtol=max(tolerance, 3e-14), atol=tolerance)
            return solve_ivp(rates, (0.0, p.until), p.start, "DOP853", t_eval=(p.until,), **goal)

        yield Setting(
            f"tolerance {tolerance:.0e}", lambda: None, go, lambda out: out.y[: len(p.start) // 2, -1]
        )


def diffrax(p: Any) -> Iterator[Setting]:
    import diffrax as dfx
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def field(t: Any, s: Any, _: Any) -> Any:
        return jnp.stack(p.rates(tuple(s), jnp)) if p.arrays is None else p.arrays(s, jnp)

    @jax.jit
    def solve(s: Any, tolerance: Any) -> Any:
        control = dfx.PIDController(rtol=tolerance, atol=tolerance)
        return dfx.diffeqsolve(
            dfx.ODETerm(field),
            dfx.Dopri8(),
            0.0,
            p.until,
            None,
            s,
            max_steps=None,
            saveat=dfx.SaveAt(t1=True),
            stepsize_controller=control,
        ).ys[0]

    start = jnp.asarray(p.start)
    for tolerance in TOLERANCES[:-1:2]:
        yield Setting(
            f"tolerance {tolerance:.0e}",
            lambda: None,
            lambda _, t=tolerance: solve(start, t).block_until_ready(),  # type: ignore[misc]
            lambda out: np.asarray(out)[: len(p.start) // 2],
        )


def rebound(p: Any) -> Iterator[Setting]:
    """IAS15: its epsilon is the share of the last term of a step, not an error; errors fall as about its seventh power."""
    import rebound as rb

    n = len(p.masses)
    q, v = (s.reshape(n, -1) for s in np.split(p.start, 2))
    for epsilon in (10.0 ** -(k / 2) for k in range(0, 19)):

        def begin(epsilon: float = epsilon) -> Any:
            sim = rb.Simulation()
            sim.integrator = "ias15"
            (
                sim.ri_ias15 if hasattr(sim, "ri_ias15") else sim.integrator
            ).epsilon = epsilon  # before version 5, or since
            for m, x, u in zip(p.masses, q, v):
                sim.add(m=m, x=x[0], y=x[1], vx=u[0], vy=u[1])
            return sim

        yield Setting(
            f"epsilon {epsilon:.0e}",
            begin,
            lambda sim: sim.integrate(p.until),
            lambda sim: np.array([[b.x, b.y] for b in sim.particles]).ravel(),
        )


PEERS: dict[str, tuple[str, Callable[[Any], Iterator[Setting]]]] = {
    "heyoka": ("heyoka", heyoka),
    "REBOUND IAS15": ("rebound", rebound),
    "SciPy DOP853": ("scipy", scipy),
    "diffrax Dopri8": ("diffrax", diffrax),
}
