"""How fast is it?  Ours, hand-written C, gcc with fast maths and the peers that are installed, in one run.

Times are CPU times of one thread, the smallest of several interleaved repetitions, as ratios to the
hand-written C; a result is kept as a JSON line in bench/results/.
"""
from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tinyphysics as tp
from tinyphysics.device.cc import compiler
from tinyphysics.device.llvm import host_cpu
from tinyphysics.synth.coefficients import COMPOSITION

HERE = Path(__file__).parent
STRICT = ("-O3", "-march=native", "-ffp-contract=fast", "-std=gnu11", "-shared", "-fPIC")
FAST = ("-O3", "-march=native", "-ffast-math", "-std=gnu11", "-shared", "-fPIC")
MEMBERS, STEPS, DT = 65_536, 1_000, 0.01


@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - tp.cos(q)


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    x, y = q
    return p @ p / 2 + (x * x + y * y) / 2 + x * x * y - y**3 / 3


def library(flags: tuple[str, ...]) -> ctypes.CDLL:
    folder = tempfile.mkdtemp()
    out = Path(folder, "kernels.so")
    subprocess.run([*compiler(), *flags, str(HERE / "kernels.c"), "-o", str(out), "-lmvec", "-lm"], check=True)
    return ctypes.CDLL(str(out))


def call(f, *args):
    """A C function on arrays and numbers."""
    kinds = {float: ctypes.c_double, int: ctypes.c_int64}
    f.restype = None
    f(*(ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else kinds[type(a)](a) for a in args))


def race(rows: dict[str, Callable[[], None]], repeat: int) -> dict[str, float]:
    """The smallest CPU time of each, repetitions interleaved so that all see the same machine."""
    best = dict.fromkeys(rows, float("inf"))
    for _ in range(repeat):
        for name, f in rows.items():
            began = time.thread_time()
            f()
            best[name] = min(best[name], time.thread_time() - began)
    return best


def stepper(system, start: dict, steps: int, **options) -> Callable[[], None]:
    """Our steps alone: state loaded, everything compiled, one thread."""
    from tinyphysics.device.engine import KernelEngine
    from tinyphysics.runtime.loaders import LlvmLoader

    engine = KernelEngine(tp.compile(system, backend="llvm", **options).tpir, LlvmLoader(), threads=1)
    members = len(next(iter(start.values())))
    m = engine.start(start, {}, members, options["dt"], 0.0)
    engine.advance(m, 1)
    return lambda: engine.advance(m, steps)


def port_limit(system, strict, **options) -> float:
    """Nanoseconds a member and step if the ports of this core were always busy, at the clock it runs at now."""
    from tinyphysics.planner.machine import cycles
    from tinyphysics.runtime.loaders import LlvmLoader
    from tinyphysics.tpir.kernel import build_kernel

    loader = LlvmLoader()
    f = build_kernel(tp.compile(system, backend="llvm", **options).tpir).section("step")
    n = 4_000_000
    seconds = race({"clock": lambda: call(strict.clock_chain, n)}, 5)["clock"]
    return cycles(f, loader.core, loader.cpu.width) * seconds / (8 * n) * 1e9


def ensembles(repeat: int, strict, fast) -> list[dict]:
    rng = np.random.default_rng(0)
    q, p = rng.uniform(-2, 2, MEMBERS), rng.uniform(-1, 1, MEMBERS)
    x = rng.uniform(-0.1, 0.1, (4, MEMBERS))
    out = []
    rows = {
        "tinyphysics": stepper(pendulum, {"q": q, "p": p}, STEPS, dt=DT),
        "C by hand": lambda: call(strict.pendulum_hand, q.copy(), p.copy(), MEMBERS, DT, STEPS),
        "gcc fast-math, tiled": lambda: call(fast.pendulum_tiled, q.copy(), p.copy(), MEMBERS, DT, STEPS),
        "gcc fast-math, naive": lambda: call(fast.pendulum_naive, q.copy(), p.copy(), MEMBERS, DT, STEPS),
    }
    rows |= peers_pendulum(q, p)
    limit = port_limit(pendulum, strict, dt=DT)
    out.append(result("65,536 pendulums x 1,000", rows, repeat, MEMBERS * STEPS, limit))
    state = {"q": x[:2].T.copy(), "p": x[2:].T.copy()}
    rows = {
        "tinyphysics": stepper(henon_heiles, state, STEPS, dt=DT),
        "C by hand": lambda: call(strict.henon_hand, *(r.copy() for r in x), MEMBERS, DT, STEPS),
        "gcc fast-math, tiled": lambda: call(fast.henon_tiled, *(r.copy() for r in x), MEMBERS, DT, STEPS),
    }
    limit = port_limit(henon_heiles, strict, dt=DT)
    out.append(result("65,536 Hénon–Heiles x 1,000", rows, repeat, MEMBERS * STEPS, limit))
    return out


def single(repeat: int, strict) -> dict:
    n = 2_000_000
    state = np.array([1.0, 0.3])
    rows = {
        "tinyphysics": stepper(pendulum, {"q": state[:1], "p": state[1:]}, n, dt=DT),
        "C by hand": lambda: call(strict.pendulum_one, state.copy(), DT, n),
    }
    return result("one pendulum, 2e6 steps (C: libm sine)", rows, repeat, n)


def time_to_solution(repeat: int, strict) -> dict:
    """CPU time per unit of time at an error below 1e-9 after T = 100, ours and C with the same order-8 weights."""
    rng = np.random.default_rng(0)
    T, members = 100.0, 65_536
    q, p = rng.uniform(-2, 2, members), rng.uniform(-1, 1, members)
    sample = slice(0, 2_048)
    exact = tp.compile(pendulum, dt=0.025, order=8).evolve(q=q[sample], p=p[sample], until=T)
    weights = np.array(COMPOSITION["kahan_li8"])
    ours = mine = 0.0
    for n in (160, 200, 250, 320, 400, 500, 640, 800, 1000):
        dt = T / n
        run = tp.compile(pendulum, dt=dt, order=8).evolve(q=q[sample], p=p[sample], steps=n)
        if not ours and np.abs(run.final.q - exact.final.q).max() < 1e-9:
            ours = dt
        a, b = q[:2_048].copy(), p[:2_048].copy()
        call(strict.pendulum_composed, a, b, 2_048, weights, len(weights), dt, n)
        count = 2_048 // 96 * 96
        if not mine and np.abs(a[:count] - exact.final.q[:count]).max() < 1e-9:
            mine = dt
    assert ours and mine, "no step met the accuracy"
    n, k = round(T / ours), round(T / mine)
    rows = {
        "tinyphysics": stepper(pendulum, {"q": q, "p": p}, n, dt=ours, order=8),
        "C by hand": lambda: call(strict.pendulum_composed, q.copy(), p.copy(), members, weights, len(weights), mine, k),
    }
    limit = port_limit(pendulum, strict, dt=ours, order=8) * n / T
    return result(f"time to 1e-9, T = 100, order 8 (dt {ours:g} / {mine:g})", rows, repeat, members * int(T), limit)


def first_run() -> dict:
    """Compile and first run in a warm process, without and with the object cache."""
    code = """
import os, sys, tempfile, time
import numpy as np, tinyphysics as tp
H = "def pendulum{k}(q, p):\\n    return p**2/2 - tp.cos(q)*{c}\\n"
def once(k, c):
    space = {"tp": tp}
    exec(H.format(k=k, c=c), space)
    began = time.process_time()
    tp.compile(tp.hamiltonian(space[f"pendulum{k}"]), dt=0.01).evolve(q=np.zeros(64), p=np.ones(64), steps=1, threads=1)
    return (time.process_time() - began) * 1e3
once(0, 1.0)
cold = min(once(k, 1.0 + k/8) for k in range(1, 6))
warm = min(once(9, 1.125) for _ in range(5))
print(cold, warm)
"""
    with tempfile.TemporaryDirectory() as folder:
        env = {"TINYPHYSICS_CACHE": folder, "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
        text = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
        code = "import time; t = time.process_time(); import tinyphysics; print(time.process_time() - t)"
        began = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    cold, warm = map(float, text.split())
    return {"workload": "compile and first run, pendulum (CPU ms)", "cold": cold, "from the cache": warm,
            "import (s)": float(began.stdout)}  # fmt: skip


def peers_pendulum(q, p) -> dict[str, Callable[[], None]]:
    """Numba, if it is installed: the same loop, written as its experts write it."""
    if importlib.util.find_spec("numba") is None:
        return {}
    import math

    import numba

    @numba.njit(fastmath=True)
    def run(q, p, dt, n):
        for o in range(0, q.size, 32):
            for j in range(o, o + 32):
                p[j] -= 0.5 * dt * math.sin(q[j])
            for i in range(n):
                h = 0.5 * dt if i == n - 1 else dt
                for j in range(o, o + 32):
                    q[j] += dt * p[j]
                    p[j] -= h * math.sin(q[j])

    run(q.copy(), p.copy(), DT, 1)
    return {"numba": lambda: run(q.copy(), p.copy(), DT, STEPS)}


def result(
    workload: str, rows: dict[str, Callable[[], None]], repeat: int, work: int, limit: float | None = None
) -> dict:
    best = race(rows, repeat)
    out = {"workload": workload, "ns": {name: 1e9 * t / work for name, t in best.items()}}
    return out if limit is None else out | {"port limit": limit}


def show(rows: list[dict]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("workload", "who", "ns", "x by hand", title="CPU time of one thread, smallest of the repetitions")
    for row in rows:
        if "ns" not in row:
            table.add_row(row["workload"], "", "  ".join(f"{k} {v:.3g}" for k, v in row.items() if k != "workload"), "")
            continue
        reference = row["ns"]["C by hand"]
        for k, (name, ns) in enumerate(row["ns"].items()):
            table.add_row(row["workload"] if k == 0 else "", name, f"{ns:.3f}", f"{ns / reference:.2f}")
        if (limit := row.get("port limit")) is not None:
            reached = f"port limit ({limit / row['ns']['tinyphysics']:.0%} reached)"
            table.add_row("", reached, f"{limit:.3f}", f"{limit / reference:.2f}")
    Console(width=110).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    strict, fast = library(STRICT), library(FAST)
    rows = [*ensembles(repeat, strict, fast), single(repeat, strict), time_to_solution(repeat, strict), first_run()]
    show(rows)
    commit = subprocess.run(["git", "-C", str(HERE), "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    cpu = host_cpu()
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    entry = {"commit": commit, "cpu": cpu.name, "width": cpu.width, "python": platform.python_version(),
             "numpy": np.__version__, "tinyphysics": tp.__version__, "rows": rows}  # fmt: skip
    with (folder / "results.jsonl").open("a") as file:
        file.write(json.dumps(entry) + "\n")
    print(f"{cpu.name}, vectors of {cpu.width} doubles, commit {commit[:12]}; kept in {folder / 'results.jsonl'}")


if __name__ == "__main__":
    main()
