"""What do events and dense output cost?  Ours beside SciPy's DOP853 and a leapfrog in C, in one run.

    python bench/events.py [section ensemble frames arrays] [--rounds 5]

`section` is where an orbit of Hénon and Heiles with E = 1/12 crosses x = 0, up to t = 2,000. The error is the largest of all
crossing times, against a run in double-double. For each of our settings SciPy's is the cheapest one that is as accurate.
`ensemble` is the same of 1,000 orbits up to t = 100; SciPy runs 4 of them, and its time is that of 1,000. `frames` are 20,001
states along one orbit. `arrays` is a heat equation of 100,000 points up to t = 20, with SciPy, by tolerances and the error of
the event's time. Times are CPU times of a call, in a process that has run it before: the least of some rounds.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import tinyphysics as tp

END, MANY, MANY_END, FRAMES = 2000.0, 1000, 100.0, 20_001
SETTINGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("taylor, to rounding", {"method": "taylor"}),
    ("taylor, 1e-10", {"method": "taylor", "tolerance": 1e-10}),
    ("dop853, 1e-12", {"method": "dop853", "tolerance": 1e-12}),
    ("dop853, 1e-9", {"method": "dop853", "tolerance": 1e-9}),
    ("yoshida4, dt = 0.05", {"method": "yoshida4", "dt": 0.05}),
    ("leapfrog, dt = 0.01", {"method": "leapfrog", "dt": 0.01}),
)
IN_C = r"""
#include <math.h>
static void step(double *s, double h) {
  double x = s[0], y = s[1], u = s[2], v = s[3];
  u -= 0.5 * h * (x + 2 * x * y); v -= 0.5 * h * (y + x * x - y * y);
  x += h * u; y += h * v;
  u -= 0.5 * h * (x + 2 * x * y); v -= 0.5 * h * (y + x * x - y * y);
  s[0] = x; s[1] = y; s[2] = u; s[3] = v;
}
int section(double *s, double h, long steps, double *t) {
  int found = 0;
  for (long n = 0; n < steps; n++) {
    double next[4] = {s[0], s[1], s[2], s[3]};
    step(next, h);
    if ((s[0] > 0) != (next[0] > 0) && !(n == 0 && s[0] == 0)) {
      double a = 0, b = h;
      for (int k = 0; k < 52; k++) {
        double m = 0.5 * (a + b), part[4] = {s[0], s[1], s[2], s[3]};
        step(part, m);
        if ((part[0] > 0) == (s[0] > 0)) a = m; else b = m;
      }
      t[found++] = n * h + b;
    }
    for (int k = 0; k < 4; k++) s[k] = next[k];
  }
  return found;
}
"""


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    x, y = q
    return (p @ p + q @ q) / 2 + x**2 * y - y**3 / 3


def rates(t: float, s: Any) -> list[float]:
    x, y, u, v = s
    return [u, v, -x - 2 * x * y, -y - x * x + y * y]


def across(t: float, s: Any) -> float:
    return float(s[0])


def start(y: float, v: float, energy: float = 1 / 12) -> dict[str, list[float]]:
    """On x = 0, with this y and its momentum."""
    return {"q": [0.0, y], "p": [float(np.sqrt(2 * (energy - y * y / 2 + y**3 / 3) - v * v)), v]}


ORBIT, CROSSING = start(0.1, 0.05), {"x": lambda q: q[0]}


def least(rounds: int, run: Callable[[], Any]) -> tuple[float, Any]:
    """(seconds, the result) of the fastest of some calls."""
    best, out = np.inf, run()
    for _ in range(rounds):
        began = time.process_time()
        out = run()
        best = min(best, time.process_time() - began)
    return best, out


def with_scipy(rtol: float, end: float = END, first: Any = None) -> Any:
    s = ORBIT if first is None else first
    return solve_ivp(
        rates, (0.0, end), [*s["q"], *s["p"]], "DOP853", rtol=rtol, atol=rtol * 1e-3, events=across
    )


def crossings_of(found: Any) -> Any:
    t = found.t_events[0]
    return t[t > 1e-9]  # it counts the zero where a run begins


def off(t: Any, wanted: Any) -> float:
    return float(np.abs(t - wanted).max()) if len(t) == len(wanted) else np.inf


def section(rounds: int) -> None:
    exact = tp.compile(henon_heiles, method="taylor", precision="dd", tolerance=1e-22)
    wanted = exact.evolve(**ORBIT, until=END, frames=2, events=CROSSING).events("x").t
    print(f"section: {len(wanted)} crossings up to t = {END:g}")
    theirs = []
    for rtol in (1e-5, 1e-7, 1e-9, 1e-11, 1e-13):
        seconds, found = least(1, lambda: with_scipy(rtol))  # noqa: B023
        theirs.append((off(crossings_of(found), wanted), seconds))
        print(f"  SciPy DOP853, rtol {rtol:5.0e}  {1e3 * seconds:9.2f} ms   error {theirs[-1][0]:.0e}")
    for name, options in SETTINGS:
        sim = tp.compile(henon_heiles, **options)
        plain, _ = least(rounds, lambda: sim.evolve(**ORBIT, until=END, frames=2))  # noqa: B023
        seconds, out = least(rounds, lambda: sim.evolve(**ORBIT, until=END, frames=2, events=CROSSING))  # noqa: B023
        error = off(out.events("x").t, wanted)
        as_good = [s for e, s in theirs if e <= error] or [theirs[-1][1]]
        print(
            f"  {name:25}  {1e3 * seconds:9.2f} ms   error {error:.0e}   SciPy / ours {min(as_good) / seconds:6.0f}"
            f"   without the event {1e3 * plain:.2f} ms"
        )
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "section.c"), Path(folder, "section.so")
        source.write_text(IN_C)
        subprocess.run(
            ["gcc", "-O3", "-march=native", "-shared", "-fPIC", "-o", library, source, "-lm"], check=True
        )
        call = ctypes.CDLL(str(library)).section
        call.argtypes = [ctypes.c_void_p, ctypes.c_double, ctypes.c_long, ctypes.c_void_p]

        def by_hand() -> Any:
            state, times = np.array([*ORBIT["q"], *ORBIT["p"]]), np.empty(10_000)
            return times[: call(state.ctypes.data, 0.01, 200_000, times.ctypes.data)].copy()

        seconds, t = least(rounds, by_hand)
        print(f"  {'leapfrog in C, 0.01':25}  {1e3 * seconds:9.2f} ms   error {off(t, wanted):.0e}")


def ensemble(rounds: int) -> None:
    every = [start(y, v) for y, v in np.random.default_rng(1).uniform(-0.15, 0.15, (MANY, 2))]
    states = {name: np.array([s[name] for s in every]) for name in ("q", "p")}
    seconds, _ = least(1, lambda: [with_scipy(1e-9, MANY_END, s) for s in every[:4]])
    theirs = seconds * MANY / 4
    print(
        f"ensemble: {MANY} orbits up to t = {MANY_END:g}\n  SciPy DOP853, rtol 1e-09  {1e3 * theirs:9.0f} ms"
    )
    for name, options in SETTINGS:
        sim = tp.compile(henon_heiles, **options)
        seconds, out = least(rounds, lambda: sim.evolve(**states, until=MANY_END, frames=2, events=CROSSING))  # noqa: B023
        plain, _ = least(rounds, lambda: sim.evolve(**states, until=MANY_END, frames=2))  # noqa: B023
        print(
            f"  {name:25}  {1e3 * seconds:9.1f} ms   {len(out.events('x')):,} crossings   SciPy / ours"
            f" {theirs / seconds:6.0f}   without the event {1e3 * plain:.1f} ms"
        )


def frames(rounds: int) -> None:
    print(f"frames: {FRAMES:,} states up to t = {END:g}")
    times = np.linspace(0.0, END, FRAMES)
    s = [*ORBIT["q"], *ORBIT["p"]]
    seconds, _ = least(1, lambda: solve_ivp(rates, (0.0, END), s, "DOP853", t_eval=times, rtol=1e-9))
    theirs = seconds
    print(f"  SciPy DOP853, rtol 1e-09  {1e3 * seconds:9.2f} ms   {1e6 * seconds / FRAMES:6.2f} us a frame")
    for name, options in SETTINGS[:4]:
        sim = tp.compile(henon_heiles, **options, dt=END / (FRAMES - 1))
        seconds, _ = least(rounds, lambda: sim.evolve(**ORBIT, until=END, save_every=1))  # noqa: B023
        print(
            f"  {name:25}  {1e3 * seconds:9.2f} ms   {1e6 * seconds / FRAMES:6.2f} us a frame"
            f"   SciPy / ours {theirs / seconds:6.0f}"
        )


@tp.ode
def heat(u: tp.Vec["n"]):
    return np.roll(u, 1) - 2 * u + np.roll(u, -1)


def arrays(rounds: int, n: int = 100_000, end: float = 20.0) -> None:
    first, tolerance = np.exp(-(((np.arange(n) - n / 2) / 5.0) ** 2)), 1e-9
    sim = tp.compile(heat, method="dop853", sizes={"n": n}, tolerance=tolerance)
    looks: tuple[tuple[str, dict[str, Any]], ...] = (
        ("no events", {"save_at": [end]}),
        ("one point", {"save_at": [end], "events": {"low": lambda u: u[n // 2] - 0.5}}),
        ("all squares", {"save_at": [end], "events": {"norm": lambda u: (u * u).sum() - 4.5}}),
        ("100 frames", {"save_at": np.linspace(end / 100, end, 100)}),
    )
    print(f"\nheat equation of {n:,} points with dop853, 1e-9: ms")
    for name, how in looks:
        ours, _ = least(rounds, lambda: sim.evolve(u=first, until=end, threads=1, **how))  # noqa: B023
        print(f"  {name:12} {1e3 * ours:8.0f}")
    waves = np.abs(np.fft.rfft(first)) ** 2 * np.where(np.arange(n // 2 + 1) % (n // 2) == 0, 1.0, 2.0) / n
    decay = 4.0 - 4.0 * np.cos(2.0 * np.pi * np.arange(n // 2 + 1) / n)
    exact = brentq(lambda t: float((waves * np.exp(-decay * t)).sum()) - 4.5, 0.0, end, xtol=1e-14)
    print(f"all squares, by the error of the time of the event, {exact:.6f}")

    def ours(rtol: float) -> tuple[float, float]:
        sim = tp.compile(heat, method="dop853", sizes={"n": n}, tolerance=rtol)
        seconds, out = least(rounds, lambda: sim.evolve(u=first, until=end, threads=1, **looks[2][1]))
        return seconds, out.events("norm").t[0]

    def by_scipy(rtol: float) -> tuple[float, float]:
        rates, y = lambda t, u: np.roll(u, 1) - 2 * u + np.roll(u, -1), first
        how: Any = {"events": [lambda t, u: (u * u).sum() - 4.5], "rtol": rtol, "atol": rtol}
        seconds, out = least(rounds, lambda: solve_ivp(rates, (0.0, end), y, "DOP853", **how))
        return seconds, out.t_events[0][0]

    for name, run in (("ours", ours), ("SciPy", by_scipy)):
        cells = []
        for rtol in (1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12):
            seconds, t = run(rtol)
            cells.append(f"{rtol:.0e}: {1e3 * seconds:.0f} ms, {abs(t - exact):.1e}")
        print(f"  {name:6}" + "; ".join(cells), flush=True)


ROWS = {"section": section, "ensemble": ensemble, "frames": frames, "arrays": arrays}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", default=list(ROWS))
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    for row in asked.rows:
        ROWS[row](asked.rounds)
