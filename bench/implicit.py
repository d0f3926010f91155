"""What does a step cost whose equations are solved?  Against C by hand, and against SciPy at equal error.

    python bench/implicit.py

First H = (1 + q**2) p**2/2 + q**4, then a ring of springs with a quartic part. The C takes the same midpoint rule to its root
by Newton's method: member by member with exact slopes, on the ring by elimination with those of one state a step. Thread CPU
time of one core, the smallest of some, variants interleaved.
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

/* a ring of n springs, V(d) = d*d/2 + B*d^4/4: Newton's method by elimination, with the slopes at one state a step */
static double force(double d, double B) { return d + B*d*d*d; }
static double slope(double d, double B) { return 1 + 3*B*d*d; }
int ring(double *q, double *p, long n, long steps, double h, double B, double *w) {
  double *x = w, *y = w + n, *k = w + 2*n, *c = w + 3*n, *d = w + 4*n, *u = w + 5*n, *v = w + 6*n, *g = w + 7*n;
  const double a = 0.25*h*h;
  int rounds = 0;
  for (long s = 0; s < steps; s++) {
    for (long i = 0; i < n; i++) {  /* where Euler's method sees the middle */
      long l = i ? i - 1 : n - 1, r = i + 1 < n ? i + 1 : 0;
      g[i] = force(q[r] - q[i], B) - force(q[i] - q[l], B);
      x[i] = q[i] + 0.5*h*p[i]; y[i] = p[i] + 0.5*h*g[i];
    }
    for (long i = 0; i < n; i++) k[i] = slope(x[i] - x[i ? i - 1 : n - 1], B);
    /* (1 + a K) on the ring: the corner by Sherman and Morrison */
    double corner = -a*k[0], gamma = -(1 + a*(k[0] + k[1]));
    for (long i = 0; i < n; i++) {
      double m = 1 + a*(k[i] + k[i + 1 < n ? i + 1 : 0]), e = i ? -a*k[i] : 0, f = i + 1 < n ? -a*k[i + 1] : 0;
      if (i == 0) m -= gamma;
      if (i == n - 1) m -= corner*corner/gamma;
      double o = 1/(m - (i ? e*c[i - 1] : 0));
      c[i] = f*o; d[i] = o;
      u[i] = ((i == 0 ? gamma : i == n - 1 ? corner : 0) - (i ? e*u[i - 1] : 0))*o;
    }
    for (long i = n - 2; i >= 0; i--) u[i] -= c[i]*u[i + 1];
    double below = 1 + u[0] + corner/gamma*u[n - 1], last = INFINITY, size = 0;
    for (long i = 0; i < n; i++) size = fmax(size, fmax(fabs(q[i]), fabs(p[i])));
    for (int round = 0; round < 50; round++) {
      rounds++;
      for (long i = 0; i < n; i++) g[i] = force(x[i] - x[i ? i - 1 : n - 1], B);
      for (long i = 0; i < n; i++) {
        long l = i ? i - 1 : n - 1, r = i + 1 < n ? i + 1 : 0;
        double rq = x[i] - q[i] - 0.5*h*y[i], rp = y[i] - p[i] - 0.5*h*(g[r] - g[i]);
        (void)l;
        v[i] = rq + 0.5*h*rp;
      }
      for (long i = 0; i < n; i++) v[i] = (v[i] + (i ? a*k[i]*v[i - 1] : 0))*d[i];
      for (long i = n - 2; i >= 0; i--) v[i] -= c[i]*v[i + 1];
      double t = (v[0] + corner/gamma*v[n - 1])/below, change = 0;
      for (long i = 0; i < n; i++) {
        double dq = v[i] - t*u[i], rq = x[i] - q[i] - 0.5*h*y[i], dp = (dq - rq)*(2/h);
        x[i] -= dq; y[i] -= dp;
        change = fmax(change, fmax(fabs(dq), fabs(dp)));
      }
      if (change <= 1e-17*size || (change >= 0.875*last && last < 1e-11*size)) break;
      last = change;
    }
    for (long i = 0; i < n; i++) g[i] = force(x[i] - x[i ? i - 1 : n - 1], B);
    for (long i = 0; i < n; i++) { q[i] += h*y[i]; p[i] += h*(g[i + 1 < n ? i + 1 : 0] - g[i]); }
  }
  return rounds;
}
"""


@tp.hamiltonian
def curved(q, p):
    return (1 + q**2) * p**2 / 2 + q**4


SITES, RING_STEPS, RING_DT = 100_000, 20, 0.5


@tp.hamiltonian
def ring(q: tp.Vec[SITES], p: tp.Vec[SITES], B: float = 0.3):
    d = q - tp.roll(q, 1)
    return p @ p / 2 + d @ d / 2 + B * tp.sum(d**4) / 4


@tp.hamiltonian
def sine_gordon(q: tp.Array[316, 316], p: tp.Array[316, 316]):
    x, y = q - tp.roll(q, 1, 0), q - tp.roll(q, 1, 1)
    return tp.sum(p * p) / 2 + tp.sum(x * x + y * y) / 2 + tp.sum(1 - tp.cos(q))


def by_hand() -> Any:
    folder = Path(tempfile.mkdtemp())
    (folder / "midpoint.c").write_text(SOURCE)
    library, source = str(folder / "midpoint.so"), str(folder / "midpoint.c")
    subprocess.run(
        ["gcc", "-O3", "-march=native", "-fPIC", "-shared", "-o", library, source, "-lm"], check=True
    )
    both = ctypes.CDLL(library)
    both.midpoint.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_long] * 2 + [ctypes.c_double]
    both.ring.argtypes = [*both.midpoint.argtypes, ctypes.c_double, ctypes.c_void_p]
    return both


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
        by_hand().midpoint,
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


def waves(n: int) -> tuple[Any, Any]:
    """Some waves of a ring, long and short."""
    x = 2 * np.pi * np.arange(n) / n
    q = np.sin(3 * x) * 20 + 0.3 * np.sin(n // 7 * x)
    return q, 0.3 * np.cos(n // 5 * x)


def chains() -> None:
    """A ring of 100,000 springs, and a field of as many numbers, one core."""
    c, (q, p) = by_hand().ring, waves(SITES)
    work = np.zeros(8 * SITES)
    sims = {m: tp.compile(ring, dt=RING_DT, method=m) for m in ("implicit_midpoint", "gauss4")}
    field = tp.compile(sine_gordon, dt=RING_DT, method="implicit_midpoint")
    f, g = 0.5 * np.random.default_rng(0).normal(size=(2, 316, 316))

    def hand() -> tuple[Any, Any, int]:
        a, b = q.copy(), p.copy()
        rounds = c(a.ctypes.data, b.ctypes.data, SITES, RING_STEPS, RING_DT, 0.3, work.ctypes.data)
        return a, b, rounds

    def ours(m: str) -> Any:
        return sims[m].evolve(q=q, p=p, steps=RING_STEPS, threads=1, progress=False, frames=2)

    out, (a, _, rounds) = ours("implicit_midpoint"), hand()
    told = out.metrics["solver"]["rounds"]
    away = np.abs(out.final.q - a).max() / np.abs(a).max()
    rows: dict[str, Callable[[], Any]] = {"C by hand, midpoint": hand}
    rows |= {f"ring, {m}": lambda m=m: ours(m) for m in sims}
    rows["field, implicit_midpoint"] = lambda: field.evolve(
        q=f, p=g, steps=RING_STEPS, threads=1, progress=False, frames=2
    )
    print(
        f"{SITES:,} springs, ms a step; {told:.1f} rounds, the C {rounds / RING_STEPS:.1f}; they differ by {away:.0e}"
    )
    for name, seconds in best(rows).items():
        print(f"  {name:26} {seconds / RING_STEPS * 1e3:7.2f}")


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
    chains()
    orbits()
