"""What does a step cost whose equations are solved?  Against C by hand, and against SciPy at equal error.

    python bench/implicit.py

H = (1 + q**2) p**2/2 + q**4. The C takes the same midpoint rule to its root by Newton's method with exact slopes, member by
member. Thread CPU time of one core, the smallest of some, variants interleaved.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tinyphysics as tp

DT, MEMBERS, STEPS, REPEAT, UNTIL = 0.05, 8192, 200, 7, 100.0
SOURCE = r"""
#include <math.h>
void midpoint(double *q, double *p, long members, long steps, double h) {
  for (long k = 0; k < members; k++) {
    double a = q[k], b = p[k];
    for (long n = 0; n < steps; n++) {
      double x = a + 0.5*h*(1 + a*a)*b, y = b - 0.5*h*(a*b*b + 4*a*a*a), last = INFINITY;
      for (int round = 0; round < 50; round++) {
        double r = x - a - 0.5*h*(1 + x*x)*y, s = y - b + 0.5*h*(x*y*y + 4*x*x*x);
        double xx = 1 - h*x*y, xy = -0.5*h*(1 + x*x), yx = 0.5*h*(y*y + 12*x*x), yy = 1 + h*x*y;
        double d = 1/(xx*yy - xy*yx), u = (yy*r - xy*s)*d, v = (xx*s - yx*r)*d;
        x -= u; y -= v;
        double change = fabs(u) + fabs(v);
        if (change <= 1e-17 || change >= last) break;
        last = change;
      }
      a += h*(1 + x*x)*y; b -= h*(x*y*y + 4*x*x*x);
    }
    q[k] = a; p[k] = b;
  }
}
"""


@tp.hamiltonian
def curved(q, p):
    return (1 + q**2) * p**2 / 2 + q**4


def by_hand() -> Any:
    folder = Path(tempfile.mkdtemp())
    (folder / "midpoint.c").write_text(SOURCE)
    library, source = str(folder / "midpoint.so"), str(folder / "midpoint.c")
    subprocess.run(
        ["gcc", "-O3", "-march=native", "-fPIC", "-shared", "-o", library, source, "-lm"], check=True
    )
    f = ctypes.CDLL(library).midpoint
    f.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_long] * 2 + [ctypes.c_double]
    return f


def spent(f: Callable[[], Any]) -> float:
    began = time.thread_time()
    f()
    return time.thread_time() - began


def best(rows: dict[str, Callable[[], Any]]) -> dict[str, float]:
    out = dict.fromkeys(rows, float("inf"))
    for _ in range(REPEAT):
        for name, f in rows.items():
            out[name] = min(out[name], spent(f))
    return out


def ensembles() -> None:
    rng = np.random.default_rng(1)
    q, p = rng.uniform(-0.7, 0.7, (2, MEMBERS))
    c, sims = (
        by_hand(),
        {m: tp.compile(curved, dt=DT, method=m) for m in ("implicit_midpoint", "gauss4", "gauss6")},
    )

    def hand() -> tuple[Any, Any]:
        a, b = q.copy(), p.copy()
        c(a.ctypes.data, b.ctypes.data, MEMBERS, STEPS, DT)
        return a, b

    def ours(m: str) -> Any:
        return sims[m].evolve(q=q, p=p, steps=STEPS, threads=1, progress=False, frames=2)

    away = np.abs(ours("implicit_midpoint").final.q - hand()[0]).max()
    rows = {"C by hand, midpoint": hand} | {m: lambda m=m: ours(m) for m in sims}
    print(f"{MEMBERS} members, ns a member and step; ours and the C differ by {away:.0e}")
    for name, seconds in best(rows).items():
        print(f"  {name:22} {seconds / MEMBERS / STEPS * 1e9:7.1f}")


def orbits() -> None:
    from scipy.integrate import solve_ivp

    def slopes(t: float, z: Any) -> list[float]:
        a, b = z
        return [(1 + a * a) * b, -(a * b * b + 4 * a**3)]

    exact = tp.compile(curved, dt=0.01, method="gauss6").evolve(q=0.5, p=0.5, until=UNTIL, frames=2).final.q
    sim = tp.compile(curved, dt=0.05, method="gauss6")
    tolerance = 1e-10

    def ours() -> Any:
        return sim.evolve(q=0.5, p=0.5, until=UNTIL, progress=False, frames=2).final.q

    def scipy() -> Any:
        return solve_ivp(slopes, (0, UNTIL), [0.5, 0.5], "DOP853", rtol=tolerance, atol=tolerance).y[0, -1]

    print(f"one orbit to t = {UNTIL:g}, ms")
    for (name, seconds), f in zip(
        best({"gauss6, dt = 0.05": ours, "SciPy DOP853": scipy}).items(), (ours, scipy)
    ):
        print(f"  {name:22} {seconds * 1e3:7.2f}   error {abs(f() - exact):.0e}")


if __name__ == "__main__":
    ensembles()
    orbits()
