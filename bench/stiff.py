"""What does it save to solve a stiff quadratic part instead of stepping it, and is it right?

    python bench/stiff.py                    # everything; about a minute
    python bench/stiff.py trap frequency

The trap p**2/2 + w**2 q**2/2 + q**4/4 is solved by an elliptic function, in 40 digits; errors are in (q, p/w). Evaluations
are those of the force. Times are thread CPU time, the smallest of a few.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import mpmath
import numpy as np

import tinyphysics as tp

ASKED = 1e-6


@tp.hamiltonian
def trap(q, p, w: float = 1e4):
    return p**2 / 2 + w**2 * q**2 / 2 + q**4 / 4


@tp.hamiltonian
def pendulum_on_a_rod(q: tp.Vec[2], p: tp.Vec[2], w: float = 1e6):
    """A fast stretch x of amplitude 1/w, and a slow y that feels it."""
    x, y = q
    return p @ p / 2 + w**2 * x**2 / 2 + (1 + x) * (1 - tp.cos(y))


@tp.hamiltonian
def swing(q, p, w: float = 1.0, e: float = 1.0):
    return p**2 / 2 + w**2 * q**2 / 2 + e * (1 - tp.cos(q))


def exactly(w: float, t: float) -> tuple[Any, Any]:
    with mpmath.workdps(40):
        fast = mpmath.sqrt(mpmath.mpf(w) ** 2 + 1)
        cn, sn, dn = (
            mpmath.ellipfun(name, fast * mpmath.mpf(t), m=1 / (2 * fast**2)) for name in ("cn", "sn", "dn")
        )
        return cn, -fast * sn * dn


def error(method: str, n: int, w: float) -> float:
    out = (
        tp.compile(trap, dt=1 / n, method=method)
        .evolve(q=1.0, p=0.0, w=w, steps=n, progress=False, frames=2)
        .final
    )
    q, p = exactly(w, n * (1 / n))
    return float(max(abs(out.q - q), abs(out.p - p) / w))


def fewest(method: str, w: float, n: int, factor: float) -> tuple[int, float]:
    """The first of n, n*factor, ... steps that reaches what is asked, and what it reaches."""
    while (found := error(method, n, w)) > ASKED:
        n = math.ceil(n * factor)
    return n, found


def of_trap() -> None:
    w = 1e4
    begin = math.ceil(w / math.sqrt(24 * ASKED / w))  # its phase error is w T (w dt)**2/24
    n, found = fewest("leapfrog", w, begin, 1.05)
    print(f"trap, w = {w:g}, T = 1: leapfrog reaches {found:.1e} with {n:,} evaluations")
    for method in ("interaction", "interaction4", "interaction6", "interaction_aba84"):
        m, reached = fewest(method, w, 2, 1.25)
        kicks = m * tp.compile(trap, dt=1.0, method=method).built.step.evaluations
        print(
            f"  {method:18} {reached:.1e} with {kicks:4} evaluations: {n / kicks:,.0f} times fewer (at least 100 asked)"
        )
    cost = {}
    for method in ("leapfrog", "interaction", "interaction4"):
        sim = tp.compile(trap, dt=1e-5, method=method)
        sim.evolve(q=1.0, p=0.0, steps=100, progress=False, frames=2)
        cost[method] = min(cpu(sim) for _ in range(5))
    print(
        "  ns of CPU a step:",
        ", ".join(f"{name} {1e9 * seconds / 1e6:.1f}" for name, seconds in cost.items()),
    )
    out = tp.compile(trap, dt=1e-3 * math.e, method="interaction").evolve(
        q=1.0, p=0.0, steps=10**7, progress=False, frames=2
    )
    print(f"  energy in 10**7 steps of w dt = {10 * math.e:.4g}: off by {out.drift('energy'):.1e} at most")


def cpu(sim: Any) -> float:
    began = time.thread_time()
    sim.evolve(q=1.0, p=0.0, steps=10**6, threads=1, progress=False, frames=2)
    return time.thread_time() - began


def of_frequency() -> None:
    print("a fast stretch and a slow pendulum, dt = 0.05, T = 10: error of the pendulum")
    for w in (1e2, 1e3, 1e4, 1e6, 1e8):
        start = {"q": [0.0, 1.0], "p": [1.0, 0.0], "w": w}
        ends = [
            tp.compile(pendulum_on_a_rod, dt=10 / n, method=m).evolve(
                **start, steps=n, progress=False, frames=2
            )
            for m, n in (("interaction", 200), ("interaction4", 6_400))
        ]
        off = abs(float(ends[0].final.q[1] - ends[1].final.q[1]))
        print(f"  w = {w:.0e}, w dt = {w * 0.05:.0e}: {off:.2e}")
    print("the trap with w = 1e6, w dt = 1e4: error in (q, p/w)", f"{error('interaction', 100, 1e6):.1e}")


def of_resonance() -> None:
    print("growth of a small swing in 1000 steps at w dt = k pi - 0.01, where the rest has the curvature 1")
    for k in (1, 2, 5, 10):
        w = k * math.pi - 0.01
        sizes = []
        for method in ("interaction", "interaction_mollified", "interaction_mollified4"):
            sim = tp.compile(swing, dt=1.0, method=method)
            sim.checks = "off"
            out = sim.evolve(q=1e-9, p=0.0, w=w, steps=1000, save_every=1, progress=False)
            sizes.append(np.abs(out.q).max() / 1e-9)
        print(
            f"  k = {k}: "
            + ", ".join(f"{name} {x:.3g}" for name, x in zip(("plain", "mollified", "order 4"), sizes))
        )


ROWS = {"trap": of_trap, "frequency": of_frequency, "resonance": of_resonance}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", help=", ".join(ROWS))
    for row in parser.parse_args().rows or ROWS:
        ROWS[row]()
