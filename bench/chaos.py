"""What does one direction beside the states cost?  65,536 orbits of Hénon and Heiles, ours beside C by hand and peers.

    python bench/chaos.py [--members 65536] [--steps 4000] [--rounds 9] [--threads 1] [--peers venv/bin/python]

Leapfrog with dt = 0.05; the direction is made a unit vector again every 500 steps, and what it has grown by is added up.
"plain" is the run without a direction. C is compiled with gcc -O3 -ffast-math -march=native, both with a direction and
without; its loop over orbits is inside the loop over a chunk of steps, so that the compiler can use vectors. Times are the
least of some rounds, taken one after the other in turn, on one thread by default. JAX (by jvp) is run by another Python, if
one is given that has it; with --planets that Python runs MEGNO of the Sun and four planets by REBOUND and by heyoka, beside
ours, and with --planets only nothing else is run.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tinyphysics as tp
from tinyphysics.runtime.measure.tangents import GROWTH, Wanted, run_with_directions
from tinyphysics.tpir.program.lower import DIRECTION

DT, STRIDE = 0.05, 500
OURS = 0.8  # step of the planets, in years
IN_C = r"""
#include <math.h>
#define LANES 64
void plain(long n, double *restrict z, double h, long steps) {
  for (long b = 0; b < n; b += LANES) {
    double x[LANES], y[LANES], u[LANES], v[LANES];
    for (int i = 0; i < LANES; i++) { x[i] = z[b+i]; y[i] = z[n+b+i]; u[i] = z[2*n+b+i]; v[i] = z[3*n+b+i]; }
    for (int i = 0; i < LANES; i++) { u[i] -= 0.5*h*(x[i] + 2*x[i]*y[i]); v[i] -= 0.5*h*(y[i] + x[i]*x[i] - y[i]*y[i]); }
    for (int g = 0; g < LANES; g += GROUP) {
      double X[GROUP], Y[GROUP], U[GROUP], V[GROUP];
      for (int i = 0; i < GROUP; i++) { X[i] = x[g+i]; Y[i] = y[g+i]; U[i] = u[g+i]; V[i] = v[g+i]; }
      for (long k = 0; k < steps; k++)
        for (int i = 0; i < GROUP; i++) {
          X[i] += h*U[i]; Y[i] += h*V[i];
          U[i] -= h*(X[i] + 2*X[i]*Y[i]); V[i] -= h*(Y[i] + X[i]*X[i] - Y[i]*Y[i]);
        }
      for (int i = 0; i < GROUP; i++) { x[g+i] = X[i]; y[g+i] = Y[i]; u[g+i] = U[i]; v[g+i] = V[i]; }
    }
    for (int i = 0; i < LANES; i++) { u[i] += 0.5*h*(x[i] + 2*x[i]*y[i]); v[i] += 0.5*h*(y[i] + x[i]*x[i] - y[i]*y[i]); }
    for (int i = 0; i < LANES; i++) { z[b+i] = x[i]; z[n+b+i] = y[i]; z[2*n+b+i] = u[i]; z[3*n+b+i] = v[i]; }
  }
}
void tangent(long n, double *restrict z, double *restrict w, double *restrict growth, double h, long steps, long every) {
  for (long b = 0; b < n; b += GROUP) {
    double X[GROUP], Y[GROUP], U[GROUP], V[GROUP], a[GROUP], c[GROUP], d[GROUP], e[GROUP], s[GROUP];
    for (int i = 0; i < GROUP; i++) {
      X[i] = z[b+i]; Y[i] = z[n+b+i]; U[i] = z[2*n+b+i]; V[i] = z[3*n+b+i];
      a[i] = w[b+i]; c[i] = w[n+b+i]; d[i] = w[2*n+b+i]; e[i] = w[3*n+b+i]; s[i] = 0;
      d[i] -= 0.5*h*((1 + 2*Y[i])*a[i] + 2*X[i]*c[i]); e[i] -= 0.5*h*(2*X[i]*a[i] + (1 - 2*Y[i])*c[i]);
      U[i] -= 0.5*h*(X[i] + 2*X[i]*Y[i]); V[i] -= 0.5*h*(Y[i] + X[i]*X[i] - Y[i]*Y[i]);
    }
    for (long k = 0; k < steps; k += every) {
      for (long m = 0; m < every; m++)
        for (int i = 0; i < GROUP; i++) {
          X[i] += h*U[i]; Y[i] += h*V[i]; a[i] += h*d[i]; c[i] += h*e[i];
          d[i] -= h*((1 + 2*Y[i])*a[i] + 2*X[i]*c[i]); e[i] -= h*(2*X[i]*a[i] + (1 - 2*Y[i])*c[i]);
          U[i] -= h*(X[i] + 2*X[i]*Y[i]); V[i] -= h*(Y[i] + X[i]*X[i] - Y[i]*Y[i]);
        }
      for (int i = 0; i < GROUP; i++) {
        double r = sqrt(a[i]*a[i] + c[i]*c[i] + d[i]*d[i] + e[i]*e[i]);
        s[i] += log(r); a[i] /= r; c[i] /= r; d[i] /= r; e[i] /= r;
      }
    }
    for (int i = 0; i < GROUP; i++) {
      d[i] += 0.5*h*((1 + 2*Y[i])*a[i] + 2*X[i]*c[i]); e[i] += 0.5*h*(2*X[i]*a[i] + (1 - 2*Y[i])*c[i]);
      U[i] += 0.5*h*(X[i] + 2*X[i]*Y[i]); V[i] += 0.5*h*(Y[i] + X[i]*X[i] - Y[i]*Y[i]);
      z[b+i] = X[i]; z[n+b+i] = Y[i]; z[2*n+b+i] = U[i]; z[3*n+b+i] = V[i];
      w[b+i] = a[i]; w[n+b+i] = c[i]; w[2*n+b+i] = d[i]; w[3*n+b+i] = e[i]; growth[b+i] += s[i];
    }
  }
}
"""
IN_JAX = r"""
import json, sys, time, numpy as np
import jax, jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
given = json.load(open(sys.argv[1]))
z, h, steps, rounds = jnp.array(given["z"]), given["dt"], given["steps"], given["rounds"]
def step(s):
    x, y, u, v = s
    x = x + h*u; y = y + h*v
    return (x, y, u - h*(x + 2*x*y), v - h*(y + x*x - y*y))
plain = jax.jit(lambda s: jax.lax.fori_loop(0, steps, lambda k, s: step(s), s))
def both(k, a):
    s, w = a
    return jax.jvp(step, (s,), (w,))
moved = jax.jit(lambda s, w: jax.lax.fori_loop(0, steps, both, (s, w)))
s = tuple(z); w = tuple(jnp.ones_like(x) for x in z)
times = {"plain": [], "tangent": []}
for r in range(rounds + 1):
    t = time.perf_counter(); jax.block_until_ready(plain(s)); times["plain"].append(time.perf_counter() - t)
    t = time.perf_counter(); jax.block_until_ready(moved(s, w)); times["tangent"].append(time.perf_counter() - t)
print(json.dumps({k: min(v[1:]) for k, v in times.items()}))
"""

IN_REBOUND = r"""
import json, sys, time, rebound
given = json.load(open(sys.argv[1]))
best = 1e9
for r in range(given["rounds"]):
    sim = rebound.Simulation()
    sim.G = given["G"]
    for m, q, v in zip(given["m"], given["q"], given["v"]):
        sim.add(m=m, x=q[0], y=q[1], z=q[2], vx=v[0], vy=v[1], vz=v[2])
    sim.move_to_com()
    sim.integrator, sim.dt = "whfast", given["dt"]
    sim.init_megno(seed=r + 1)
    t = time.perf_counter(); sim.integrate(given["until"], exact_finish_time=0); best = min(best, time.perf_counter() - t)
print(json.dumps([sim.megno(), best, sim.t / sim.dt]))
"""
# the direction as more variables of the differential equations, and the two integrals of MEGNO; steps of its own at 1e-12
IN_HEYOKA = r"""
import json, sys, time, numpy as np, heyoka as hy
given = json.load(open(sys.argv[1]))
m, q, v, G = given["m"], np.array(given["q"]), np.array(given["v"]), given["G"]
n = len(m)
total = sum(m)
q = q - np.array(m) @ q / total
v = v - np.array(m) @ v / total
names = [f"{a}{c}{i}" for a in "xv" for i in range(n) for c in "xyz"]
x = hy.make_vars(*names)
Q, V = [x[3 * i : 3 * i + 3] for i in range(n)], [x[3 * n + 3 * i : 3 * n + 3 * i + 3] for i in range(n)]
rhs = [V[i][c] for i in range(n) for c in range(3)]
acc = [[0.0] * 3 for _ in range(n)]
for i in range(n):
    for j in range(n):
        if i != j:
            d = [Q[j][c] - Q[i][c] for c in range(3)]
            r3 = hy.sum([y * y for y in d]) ** -1.5
            for c in range(3):
                acc[i][c] = acc[i][c] + G * m[j] * d[c] * r3
rhs += [acc[i][c] for i in range(n) for c in range(3)]
w = hy.make_vars(*[f"d{name}" for name in names])
dw = [hy.sum([hy.diff(f, y) * u for y, u in zip(x, w)]) for f in rhs]
area, mean = hy.make_vars("area", "mean")
square = hy.sum([u * u for u in w])
rate = hy.sum([u * du for u, du in zip(w, dw)]) / square * hy.time
system = list(zip(x, rhs)) + list(zip(w, dw)) + [(area, rate), (mean, 2.0 * area / hy.time)]
rng = np.random.default_rng(1)
first = rng.normal(size=6 * n); first /= np.linalg.norm(first)
start = np.concatenate([q.ravel(), v.ravel(), first, [0.0, 0.0]])
t = time.perf_counter(); ta = hy.taylor_adaptive(system, start, tol=1e-12, compact_mode=True); made = time.perf_counter() - t
best = 1e9
for r in range(given["rounds"]):
    ta.state[:] = start; ta.time = 1.0  # area/t has no series at t = 0: a year of 10**5 is left out
    t = time.perf_counter(); steps = ta.propagate_until(given["until"])[3]; best = min(best, time.perf_counter() - t)
print(json.dumps([ta.state[-1] / given["until"], best, steps, made]))
"""
# the Sun and four planets, in the plane: m, and x, y, vx, vy in astronomical units and years
PLANETS = (
    (1.0, -0.003992, -0.003598, 0.0014052, -0.0027911),
    (9.54e-4, 4.690767, 1.604924, -0.8931137, 2.7404923),
    (2.86e-4, 3.392172, 8.699279, -1.8977223, 0.8497693),
    (4.36e-5, -9.614921, 17.090187, -1.2518276, -0.6368286),
    (5.15e-5, -20.079517, -22.649942, 0.8575159, -0.7503455),
)


@tp.hamiltonian
def bodies(q: tp.Array[5, 3], p: tp.Array[5, 3], m: tp.Vec[5], G=4 * np.pi**2):
    r = tp.sqrt(((q[:, None] - q[None, :]) ** 2).sum(-1))
    return ((p**2).sum(-1) / (2 * m)).sum() - G * tp.pair_sum(m[:, None] * m[None, :] / r)


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    x, y = q
    return (p @ p + q @ q) / 2 + x**2 * y - y**3 / 3


def in_c() -> list[ctypes.CDLL]:
    """The program in C, with as many orbits side by side as some machines like."""
    found = []
    folder = Path(tempfile.mkdtemp())
    for group in (8, 16, 32, 64):
        source, library = folder / f"hh{group}.c", folder / f"hh{group}.so"
        source.write_text(IN_C.replace("GROUP", str(group)))
        flags = ["-O3", "-ffast-math", "-march=native", "-shared", "-fPIC"]
        subprocess.run(["gcc", *flags, "-o", str(library), str(source), "-lm"], check=True)
        found.append(ctypes.CDLL(str(library)))
    return found


def pointer(a: Any) -> Any:
    return a.ctypes.data_as(ctypes.c_void_p)


def least(calls: dict[str, Callable[[], Any]], rounds: int, threads: int = 1) -> dict[str, float]:
    """The least time of each call, in turn: what disturbs one disturbs all. CPU seconds, where all is done by one thread."""
    clock = time.process_time if threads == 1 else time.perf_counter
    times = dict.fromkeys(calls, np.inf)
    for k in range(rounds + 1):
        for name, call in calls.items():
            began = clock()
            call()
            if k:
                times[name] = min(times[name], clock() - began)
    return times


def by_peer(name: str, python: str, program: str, given: dict[str, Any]) -> Any:
    """What a program of another Python prints; None if it cannot be run, which is said."""
    with tempfile.TemporaryDirectory() as folder:
        data, script = Path(folder) / "given.json", Path(folder) / "program.py"
        data.write_text(json.dumps(given))
        script.write_text(program)
        done = subprocess.run([python, str(script), str(data)], capture_output=True, text=True)
    if done.returncode:
        print(f"{name}: not run ({done.stderr.strip().splitlines()[-1] if done.stderr else 'no message'})")
        return None
    return json.loads(done.stdout.splitlines()[-1])


def planets(python: str, rounds: int, until: float = 1e5) -> None:
    """MEGNO of the Sun and four planets, each with directions of its own.

    Steps are such that energies are kept alike: ours by nystrom4 with dt = 0.8 to 2.9e-7 of |T| + |V| in 2,000 years,
    REBOUND's by WHFast with 0.4 to 4.8e-7; heyoka's Taylor series are accurate to 1e-12.
    """
    m, plane = np.array([x[0] for x in PLANETS]), np.array([x[1:] for x in PLANETS])
    q, v = (np.concatenate([plane[:, k : k + 2], np.zeros((5, 1))], axis=1) for k in (0, 2))
    sim = tp.compile(bodies, dt=OURS, method="nystrom4", checks="off")
    ends: list[float] = []
    observe = {"Y": tp.chaos.megno}
    every = int(until / OURS)

    def ours() -> None:
        out = sim.evolve(
            q=q, p=m[:, None] * v, m=m, until=until, observe=observe, observe_every=every, frames=2
        )
        ends.append(float(out["Y"][-1]))

    seconds = least({"ours": ours}, rounds)["ours"]
    print(f"\nthe Sun and four planets, {until:g} years")
    print(
        f"ours     {sim.built.plan.method}, dt = {OURS}: "
        f"MEGNO {ends[-1]:.3f}, {seconds:.2f} s, {1e9 * seconds / (until / OURS):.0f} ns a step"
    )
    if python:
        given = {
            "m": m.tolist(),
            "q": q.tolist(),
            "v": v.tolist(),
            "G": 4 * np.pi**2,
            "dt": 0.4,
            "until": until,
            "rounds": rounds,
        }
        found = by_peer("REBOUND", python, IN_REBOUND, given)
        if found is not None:
            value, best, steps = found
            print(
                f"REBOUND  whfast, dt = 0.4: MEGNO {value:.3f}, {best:.2f} s, {1e9 * best / steps:.0f} ns a step"
            )
        found = by_peer("heyoka", python, IN_HEYOKA, given)
        if found is not None:
            value, best, steps, made = found
            print(
                f"heyoka   Taylor series to 1e-12, {steps:,} steps: MEGNO {value:.3f}, {best:.2f} s, "
                f"{1e9 * best / steps:.0f} ns a step; compiled in {made:.1f} s"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--members", type=int, default=65_536)
    parser.add_argument("--steps", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peers", default="")
    parser.add_argument("--planets", nargs="?", const="too", choices=["too", "only"])
    a = parser.parse_args()
    if a.planets == "only":
        planets(a.peers, 3)
        return
    rng = np.random.default_rng(0)
    q, p = rng.uniform(-0.2, 0.2, (2, a.members, 2))
    sim = tp.compile(henon_heiles, dt=DT, method="leapfrog", checks="off", backend="llvm")
    r = run_with_directions(sim, Wanted(), {"q": q, "p": p}, 0.0, 0, "the bench")
    z = np.ascontiguousarray(np.concatenate([q.T, p.T]))
    w = np.concatenate([np.asarray(r.given[DIRECTION.format(0, n)]).T for n in ("q", "p")])
    h, n = ctypes.c_double(DT), ctypes.c_long(a.members)
    steps, every = ctypes.c_long(a.steps), ctypes.c_long(STRIDE)
    libraries, ends = in_c(), {}

    def by_hand(library: ctypes.CDLL, name: str) -> Callable[[], Any]:
        def call() -> None:
            s, d, g = z.copy(), np.ascontiguousarray(w), np.zeros(a.members)
            if name == "plain":
                library.plain(n, pointer(s), h, steps)
            else:
                library.tangent(n, pointer(s), pointer(d), pointer(g), h, steps, every)
                ends["C"] = s, g + 0.5 * np.log((d**2).sum(axis=0))

        return call

    def ours() -> None:
        ends["ours"] = r.evolve(STRIDE, steps=a.steps, frames=2, threads=a.threads, progress=False)

    calls: dict[str, Callable[[], Any]] = {
        "plain": lambda: sim.evolve(q=q, p=p, steps=a.steps, frames=2, threads=a.threads, progress=False),
        "tangent": ours,
    }
    for k, library in enumerate(libraries):
        calls |= {f"C plain {k}": by_hand(library, "plain"), f"C tangent {k}": by_hand(library, "tangent")}
    times = least(calls, a.rounds, a.threads)
    for kind in ("plain", "tangent"):
        times[f"C {kind}"] = min(times.pop(f"C {kind} {k}") for k in range(len(libraries)))
    s, g = ends["C"]
    final = ends["ours"].final
    grown = final[GROWTH][:, 0].sum(-1) + 0.5 * np.log(
        sum((final[DIRECTION.format(0, x)] ** 2).sum(-1) for x in ("q", "p"))
    )
    off = np.abs(final.q.T - s[:2]).max(), np.abs(grown - g).max()
    print(f"{a.members:,} orbits, {a.steps:,} steps, {a.threads} of our threads; C has one")
    print(f"ours and C differ by {off[0]:.1e} in q and {off[1]:.1e} in the logarithm of the growth\n")
    if a.peers:
        given = {"z": z.tolist(), "dt": DT, "steps": a.steps, "rounds": a.rounds}
        times |= {f"JAX {kind}": x for kind, x in (by_peer("JAX", a.peers, IN_JAX, given) or {}).items()}
    work = a.members * a.steps
    for name, x in times.items():
        print(f"{name:12} {x:8.3f} s  {1e9 * x / work:6.3f} ns an orbit and step")
    print(f"\none direction: {times['tangent'] / times['plain']:.2f} plain runs", end="")
    print(f" (C {times['C tangent'] / times['C plain']:.2f}", end="")
    print(f", JAX {times['JAX tangent'] / times['JAX plain']:.2f})" if "JAX plain" in times else ")")
    ratios = [times[kind] / times[f"C {kind}"] for kind in ("plain", "tangent")]
    print(f"ours / C: plain {ratios[0]:.2f}, with a direction {ratios[1]:.2f}")
    if a.planets:
        planets(a.peers, 3)


if __name__ == "__main__":
    main()
