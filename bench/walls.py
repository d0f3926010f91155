"""What do bounces cost?  Ours beside SciPy's events and C by hand, in one run.

    python bench/walls.py [billiard slope many] [--rounds 5]

`billiard` is an ellipse with semi-axes 2 and 1: bounces in free flight, all of them recorded. `slope` is H = p²/2 + q +
0.3 sin 2q over a floor, from (1, 0) to t = 20, with 7 bounces; SciPy's DOP853 stops at each event and begins again, at the
tolerance that gives the error of Yoshida's method at dt = 0.02. `many` is the same of 1,000 starts; SciPy runs 4 of them.
Times are CPU times of a call, in a process that has run it before: the least of some rounds.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import tinyphysics as tp

BOUNCES, MANY = 100_000, 1_000
IN_C = r"""
#include <math.h>
long billiard(double *s, long bounces, double *t, double *states) {
  double x = s[0], y = s[1], u = s[2], v = s[3], now = 0;
  for (long n = 0; n < bounces; n++) {
    double c0 = 1 - x * x / 4 - y * y, c1 = -x * u / 2 - 2 * y * v, c2 = -u * u / 4 - v * v;
    double root = sqrt(fmax(c1 * c1 - 4 * c0 * c2, 0)), tau = c1 < 0 ? 2 * c0 / (root - c1) : (c1 + root) / (-2 * c2);
    if (tau < 0) tau = 0;
    x += tau * u; y += tau * v; now += tau;
    double a = -x / 2, b = -2 * y, f = 2 * (a * u + b * v) / (a * a + b * b);
    u -= f * a; v -= f * b;
    t[n] = now;
    double *z = states + 4 * n;
    z[0] = x; z[1] = y; z[2] = u; z[3] = v;
  }
  return bounces;
}
"""


@tp.hamiltonian
def free(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2


@tp.hamiltonian
def slope(q, p):
    return p**2 / 2 + q + 0.3 * tp.sin(2 * q)


ellipse = tp.wall(lambda q: 1 - q[0] ** 2 / 4 - q[1] ** 2, name="ellipse")
floor = tp.wall(lambda q: q, name="floor")


def spent(f: Callable[[], Any], rounds: int) -> float:
    f()
    times = []
    for _ in range(rounds):
        began = time.process_time()
        f()
        times.append(time.process_time() - began)
    return min(times)


def rate(t: float, z: Any) -> list[float]:
    return [z[1], -1 - 0.6 * np.cos(2 * z[0])]


def straight(t: float, z: Any) -> list[float]:
    return [z[2], z[3], 0.0, 0.0]


def touches(g: Callable[[Any], float]) -> Callable[[float, Any], float]:
    def event(t: float, z: Any) -> float:
        return g(z)

    event.terminal, event.direction = True, -1  # type: ignore[attr-defined]
    return event


def in_scipy(
    f: Any, z: Any, end: float, g: Any, reflect: Any, most: int = 1 << 60, **options: Any
) -> tuple[Any, int]:
    t, count, hit = 0.0, 0, touches(g)
    while t < end and count < most:
        run = solve_ivp(f, (t, end), z, method="DOP853", events=hit, **options)
        t, z = run.t[-1], run.y[:, -1]
        if run.status != 1:
            break
        z, count = reflect(z), count + 1
    return z, count


def on_slope(q: float, rtol: float) -> tuple[Any, int]:
    return in_scipy(
        rate, [q, 0.0], 20.0, lambda z: z[0], lambda z: [max(z[0], 1e-15), -z[1]], rtol=rtol, atol=rtol
    )


def turned(z: Any) -> Any:
    n = np.array([-z[0] / 2, -2 * z[1]])
    return np.concatenate([z[:2], z[2:] - 2 * (n @ z[2:]) / (n @ n) * n])


def compiled_c() -> Any:
    folder = Path(tempfile.mkdtemp())
    source, library = folder / "billiard.c", folder / "billiard.so"
    source.write_text(IN_C)
    subprocess.run(
        ["gcc", "-O3", "-march=native", "-shared", "-fPIC", "-o", library, source, "-lm"], check=True
    )
    call = ctypes.CDLL(str(library)).billiard
    call.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    return call


def billiard(rounds: int) -> None:
    sim, start = tp.compile(free + ellipse, dt=1000.0), dict(q=[0.3, 0.2], p=[1.0, 0.5])
    steps = BOUNCES // 511
    count = len(sim.evolve(**start, steps=steps, frames=2).events("ellipse"))
    ours = spent(lambda: sim.evolve(**start, steps=steps, frames=2), rounds)
    call, t, states = compiled_c(), np.empty(count), np.empty((count, 4))
    by_hand = spent(
        lambda: call(np.array([0.3, 0.2, 1.0, 0.5]).ctypes.data, count, t.ctypes.data, states.ctypes.data),
        rounds,
    )
    few, z = 50, np.array([0.3, 0.2, 1.0, 0.5])
    theirs = spent(
        lambda: in_scipy(
            straight, z, 1e9, lambda z: 1 - z[0] ** 2 / 4 - z[1] ** 2, turned, few, rtol=1e-12, max_step=0.5
        ),
        1,
    )
    print(f"{count:,} bounces in an ellipse, µs each")
    for name, seconds, n in (
        ("ours, recorded", ours, count),
        ("C by hand", by_hand, count),
        ("SciPy DOP853", theirs, few),
    ):
        print(f"  {name:16} {1e6 * seconds / n:10.3f}")


def one_slope(rounds: int) -> None:
    exact = (
        tp.compile(slope + floor, dt=0.001, method="yoshida4")
        .evolve(q=1.0, p=0.0, until=20.0, frames=2)
        .final
    )
    rows = []
    for method, dt in (("leapfrog", 0.01), ("yoshida4", 0.04), ("yoshida4", 0.02)):
        sim = tp.compile(slope + floor, dt=dt, method=method)
        end = sim.evolve(q=1.0, p=0.0, until=20.0, frames=2).final
        error = max(abs(end.q - exact.q), abs(end.p - exact.p))
        seconds = spent(lambda: sim.evolve(q=1.0, p=0.0, until=20.0, frames=2), rounds)  # noqa: B023
        rows.append((f"{method}, dt = {dt}", error, seconds))
    for rtol in (1e-6, 1e-8):
        run = partial(on_slope, 1.0, rtol)
        end, _ = run()
        rows.append(
            (f"SciPy, rtol = {rtol:g}", max(abs(end[0] - exact.q), abs(end[1] - exact.p)), spent(run, 1))
        )
    print("7 bounces under a force, to t = 20: largest error, ms")
    for name, error, seconds in rows:
        print(f"  {name:22} {error:9.1e} {1e3 * seconds:9.2f}")


def many(rounds: int) -> None:
    sim, q = tp.compile(slope + floor, dt=0.02, method="yoshida4"), np.linspace(0.2, 2.0, MANY)
    ours = spent(lambda: sim.evolve(q=q, p=np.zeros(MANY), until=20.0, frames=2), rounds)
    few = q[:: MANY // 4]
    theirs = spent(lambda: [on_slope(x, 1e-8) for x in few], 1)
    print(f"{MANY:,} starts to t = 20: ours {ours:.3f} s, SciPy {theirs / len(few) * MANY:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["billiard", "slope", "many"])
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    for name in given.what:
        {"billiard": billiard, "slope": one_slope, "many": many}[name](given.rounds)


if __name__ == "__main__":
    main()
