"""What does a century of the solar system cost at a given error?  µs per simulated year, on one core.

The Sun and eight planets at J2000 for 36,525 days; the error is the largest distance of any planet at the end from a
reference, a Taylor series of heyoka in 80-bit floats at a tolerance of 1e-19. Times are processor time of this thread, the
shortest of several runs, contenders one after the other in every round; a run is from the state to the state, with
correctors and changes of coordinates, and without compiling.

    python bench/planets_precision.py [rounds]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tinyphysics as tp
from tinyphysics.context import QUICK
from tinyphysics.physics.particles import gravity, solar_system
from tinyphysics.runtime.engines.backend import lane_engine
from tinyphysics.runtime.engines.loaders import LlvmLoader

DAYS, YEARS = 36525.0, 100
Run = Callable[[], Any]
OURS = [
    *[("wisdom_holman", n) for n in (7305, 29220)],
    *[("wisdom_holman_c11", n) for n in (4870, 6087, 7305, 9131, 14610, 29220)],
    *[("saba4", n) for n in (2922, 5844)],
    *[("aba104", n) for n in (1461, 2922, 4870)],
    *[("aba1064", n) for n in (1461, 2922, 4870)],
    *[("kahan_li8", n) for n in (7305, 14610)],
]
WHFAST = [(c, n) for c in (0, 11, 17) for n in (4870, 6087, 7305, 9131, 14610, 29220)]
HEYOKA = (1e-6, 1e-8, 1e-10, 1e-12, 1e-15)


def ours(method: str, n: int) -> Run:
    start = solar_system()
    sim = tp.compile(gravity, DAYS / n, method=method, backend="llvm")
    sim.evolve(**start, steps=1)
    engine = lane_engine(sim.tpir, LlvmLoader(), threads=1)
    params = {"m": start["m"][None], "G": np.array([start["G"]]), "softening": np.zeros(1)}
    state = {name: start[name][None] for name in ("q", "p")}

    def run() -> Any:
        with QUICK(0):
            m = engine.start(state, params, 1, DAYS / n, 0.0)
            engine.advance(m, n)
            return engine.synchronised(m)["q"][0]

    return run


def whfast(corrector: int, n: int) -> Run:
    import rebound

    s = solar_system()
    v = s["p"] / s["m"][:, None]

    def run() -> Any:
        sim = rebound.Simulation()
        sim.G, sim.dt, sim.integrator = s["G"], DAYS / n, "whfast"
        options = getattr(sim, "ri_whfast", sim.integrator)  # where they are depends on the version
        options.safe_mode, options.corrector = 0, corrector
        for m, (x, y, z), (vx, vy, vz) in zip(s["m"], s["q"], v):
            sim.add(m=m, x=x, y=y, z=z, vx=vx, vy=vy, vz=vz)
        sim.steps(n)
        sim.synchronize()
        out = np.empty((9, 3))
        sim.serialize_particle_data(xyz=out)
        return out

    return run


def whfast512() -> str:
    """Why it is not here; empty if it could be."""
    import rebound

    try:
        sim = rebound.Simulation()
        sim.integrator = "whfast512"
        sim.add(m=1.0)
        sim.add(m=1e-3, a=1.0)
        sim.steps(1)
    except Exception as error:
        return str(error)
    return ""


def heyoka(tolerance: float, fp: Any = float) -> Run:
    import heyoka as hy

    s = solar_system()
    state = np.hstack([s["q"], s["p"] / s["m"][:, None]]).ravel().astype(fp)
    pull = hy.model.nbody(9, masses=list(s["m"]), Gconst=float(s["G"]))
    # the reference is needed once: short code is made sooner
    ta = hy.taylor_adaptive(pull, state, tol=fp(tolerance), fp_type=fp, compact_mode=fp is not float)

    def run() -> Any:
        ta.time = fp(0.0)
        ta.state[:] = state
        ta.propagate_until(fp(DAYS))
        return ta.state.reshape(9, 6)[:, :3].astype(float)

    return run


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("rounds", nargs="?", type=int, default=5)
    rounds = options.parse_args().rounds
    truth = heyoka(1e-19, np.longdouble)()
    contenders: dict[str, Run] = {f"tinyphysics {m}, {DAYS / n:.2f} d": ours(m, n) for m, n in OURS}
    contenders |= {f"REBOUND WHFast, corrector {c}, {DAYS / n:.2f} d": whfast(c, n) for c, n in WHFAST}
    contenders |= {f"heyoka, tolerance {t:g}": heyoka(t) for t in HEYOKA}
    best = dict.fromkeys(contenders, float("inf"))
    error = {}
    for _ in range(rounds):
        for name, run in contenders.items():
            began = time.thread_time()
            end = run()
            best[name] = min(best[name], time.thread_time() - began)
            error[name] = float(np.linalg.norm(end - truth, axis=1).max())
    print(f"{'':46} error, au   µs/year")
    for name in contenders:
        print(f"{name:46} {error[name]:9.1e} {best[name] / YEARS * 1e6:9.1f}")
    print("\nthe cheapest of each at an error of at most:")
    for most in (1e-5, 1e-6, 1e-7, 3e-8, 1e-8, 1e-9, 1e-10):
        found = []
        for who in ("tinyphysics", "REBOUND", "heyoka"):
            costs = [(best[n], n) for n in contenders if n.startswith(who) and error[n] <= most]
            found.append(f"{min(costs)[0] / YEARS * 1e6:7.1f} ({min(costs)[1]})" if costs else "      -")
        print(f"{most:7.0e}  " + "  |  ".join(found))
    if why := whfast512():
        print(f"\nWHFast512 is not measured here: {why}")


if __name__ == "__main__":
    main()
