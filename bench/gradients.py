"""What does a gradient cost?  Beside the run itself, C by hand, and JAX where it is installed; one thread, CPU time.

    python bench/gradients.py                    # chain, pendulums, gravity, argon, memory
    python bench/gradients.py chain --repeat 5
    python bench/gradients.py gpu                # 2**22 pendulums on an NVIDIA GPU

`chain` is FPUT with 64 masses, through steps that are taken back; `pendulums` are 65,536 of them, 1,000 steps, a gradient
each; `gravity` has 1,024 bodies and 100 steps; `argon` is a liquid of 4,096 atoms through lists of neighbours. `memory` is
the chain through 1,000 and 10,000,000 steps. bench/gradients.c is compiled with gcc -O3 -march=native -ffast-math. Runs take
turns, and the smallest time of each counts; `away` is how far our gradient is from that of the C or of JAX, relative to its
largest number. JAX runs on one thread, of the chain and of gravity through a tenth of the steps.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tinyphysics as tp
from tinyphysics.runtime.engines.backend import transferred

HERE = Path(__file__).parent
FLAGS = ("-O3", "-march=native", "-ffast-math", "-shared", "-fPIC")
ALPHA, H, E2 = 0.25, 0.05, 0.01


@tp.hamiltonian
def chain(q: tp.Vec[64], p: tp.Vec[64], alpha: float = ALPHA):
    x = tp.concatenate([np.zeros(1), q, np.zeros(1)])
    d = x[1:] - x[:-1]
    return p @ p / 2 + (d**2 / 2 + alpha * d**3 / 3).sum()


@tp.hamiltonian
def pendulum(q, p, k: float = 1.0):
    return p**2 / 2 - k * tp.cos(q)


@tp.hamiltonian
def gravity(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Array["n"]):
    d = q[:, None] - q[None, :]
    return (p**2 / m[:, None]).sum() / 2 - tp.pair_sum(m[:, None] * m[None, :] / tp.sqrt((d**2).sum(-1) + E2))


def built(folder: str) -> ctypes.CDLL:
    library = Path(folder) / "gradients.so"
    subprocess.run(["gcc", *FLAGS, "-o", str(library), str(HERE / "gradients.c"), "-lm"], check=True)
    return ctypes.CDLL(str(library))


def at(a: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(a.ctypes.data)


def fastest(repeat: int, runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """CPU seconds of each, in turns: of this thread, and of all threads for JAX, which has its own."""
    best = dict.fromkeys(runs, np.inf)
    for _ in range(repeat):
        for name, f in runs.items():
            clock = time.process_time if name.startswith("JAX") else time.thread_time
            began = clock()
            f()
            best[name] = min(best[name], clock() - began)
    return best


def with_jax() -> Any:
    """JAX in float64 on one thread, or None where it is not installed."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    try:
        import jax
    except ImportError:
        print("  JAX is not installed: pip install jax")
        return None
    jax.config.update("jax_enable_x64", True)
    return jax


def told(name: str, unit: str, per: float, times: dict[str, float], away: float | None) -> None:
    cost = ", ".join(f"{who} {seconds / per:.4g}" for who, seconds in times.items())
    ratio = times["gradient"] / times["forward"]
    by_hand = f", {times['gradient'] / times['C gradient']:.2f} of C" if "C gradient" in times else ""
    far = "" if away is None else f"; away {away:.1e}"
    peer = next((t / times["gradient"] for who, t in times.items() if who.startswith("JAX")), None)
    faster = "" if peer is None else f", {peer:.1f} times faster than JAX"
    print(f"{name}: {unit}: {cost}; {ratio:.2f} of forward{by_hand}{faster}{far}", flush=True)


def chains(library: ctypes.CDLL, repeat: int, steps: int = 1_000_000) -> None:
    sim = tp.compile(chain, dt=H, method="leapfrog")
    q0, p0 = 2 * np.sin(np.pi * np.arange(1, 65) / 65), np.zeros(64)

    def loss(out: Any) -> Any:
        return 0.5 * (out.final.q @ out.final.q) + out.final.p.sum()

    def by_hand(gradient: bool) -> list[Any]:
        q, p, qb, pb, ab = q0.copy(), p0.copy(), np.zeros(64), np.zeros(64), np.zeros(1)
        numbers = ctypes.c_double(ALPHA), ctypes.c_double(H), ctypes.c_int64(steps)
        if gradient:
            library.chain_gradient(at(q), at(p), at(qb), at(pb), at(ab), *numbers)
        else:
            library.chain_forward(at(q), at(p), *numbers)
        return [qb, pb, ab]

    def ours(wrt: list[str]) -> Any:
        return sim.grad(loss, q=q0, p=p0, steps=steps, threads=1, wrt=wrt)

    def forward() -> Any:
        return sim.evolve(q=q0, p=p0, steps=steps, frames=2, threads=1, progress=False)

    every, grads = ["q", "p", "alpha"], ours(["q", "p", "alpha"])
    forward()
    ours(["q", "p"])
    runs: dict[str, Callable[[], Any]] = {
        "forward": forward,
        "gradient": lambda: ours(every),
        "gradient without alpha": lambda: ours(["q", "p"]),
        "C forward": lambda: by_hand(False),
        "C gradient": lambda: by_hand(True),
    }
    if (peer := jax_chain(q0, p0, steps // 10)) is not None:
        peer()
        runs["JAX scan"] = peer
    times = fastest(repeat, runs)
    if "JAX scan" in times:
        times["JAX scan"] *= 10
    qb = by_hand(True)[0]
    away = float(np.abs(grads["q"] - qb).max() / np.abs(qb).max())
    told(f"chain, {steps:,} steps", "ns a step", steps * 1e-9, times, away)
    print(f"  {grads.report}")


def jax_chain(q: Any, p: Any, steps: int) -> Callable[[], Any] | None:
    if (jax := with_jax()) is None:
        return None
    np_ = jax.numpy

    def end(q: Any, p: Any, alpha: Any) -> Any:
        def force(q: Any) -> Any:
            d = np_.diff(np_.pad(q, 1))
            return np_.diff(d + alpha * d * d)

        def step(z: Any, _: Any) -> Any:
            q, p = z
            q = q + H * p
            return (q, p + H * force(q)), None

        q, p = jax.lax.scan(step, (q, p + H / 2 * force(q)), None, length=steps)[0]
        return 0.5 * (q @ q) + (p - H / 2 * force(q)).sum()

    f = jax.jit(jax.grad(end, argnums=(0, 1, 2)))
    return lambda: jax.block_until_ready(f(q, p, ALPHA))


def pendulums(library: ctypes.CDLL, repeat: int, members: int = 65_536, steps: int = 1000) -> None:
    sim = tp.compile(pendulum, dt=H, method="leapfrog")
    q, p = np.linspace(-2.0, 2.0, members), np.zeros(members)

    def forward() -> Any:
        return sim.evolve(q=q, p=p, steps=steps, frames=2, threads=1, progress=False)

    def ours() -> Any:
        return sim.grad(lambda out: out.final.q**2, q=q, p=p, steps=steps, threads=1, wrt=["q", "p"])

    runs: dict[str, Callable[[], Any]] = {"forward": forward, "gradient": ours}
    if (peer := jax_pendulums(q, p, steps)) is not None:
        runs["JAX vmap(grad)"] = peer
    for f in runs.values():
        f()
    found = fastest(repeat, runs)
    told(
        f"{members:,} pendulums, {steps:,} steps", "ns a step and member", steps * members * 1e-9, found, None
    )


def jax_pendulums(q: Any, p: Any, steps: int) -> Callable[[], Any] | None:
    if (jax := with_jax()) is None:
        return None

    def end(q: Any, p: Any) -> Any:
        def step(z: Any, _: Any) -> Any:
            x, v = z
            v = v - H / 2 * jax.numpy.sin(x)
            x = x + H * v
            return (x, v - H / 2 * jax.numpy.sin(x)), None

        return jax.lax.scan(step, (q, p), None, length=steps)[0][0] ** 2

    f = jax.jit(jax.vmap(jax.grad(end, argnums=(0, 1))))
    return lambda: jax.block_until_ready(f(q, p))


def bodies(library: ctypes.CDLL, repeat: int, n: int = 1024, steps: int = 100) -> None:
    sim = tp.compile(gravity, dt=1e-3, method="leapfrog")
    rng = np.random.default_rng(0)
    q0, p0, m = rng.normal(size=(n, 3)), rng.normal(size=(n, 3)) / n, np.full(n, 1 / n)

    def by_hand(gradient: bool) -> Any:
        q, p, qb, pb = q0.copy(), p0.copy(), np.zeros((n, 3)), np.zeros((n, 3))
        first = (
            ctypes.c_int64(n),
            at(q),
            at(p),
            at(m),
            ctypes.c_double(E2),
            ctypes.c_double(1e-3),
            ctypes.c_int64(steps),
        )
        if gradient:
            library.gravity_gradient(*first, at(qb), at(pb))
        else:
            library.gravity_forward(*first, None)
        return qb

    def forward() -> Any:
        return sim.evolve(q=q0, p=p0, m=m, steps=steps, frames=2, threads=1, progress=False)

    def ours() -> Any:
        return sim.grad(
            lambda out: (out.final.q**2).sum(), q=q0, p=p0, m=m, steps=steps, threads=1, wrt=["q", "p"]
        )

    forward()
    grads, qb = ours(), by_hand(True)
    runs: dict[str, Callable[[], Any]] = {
        "forward": forward,
        "gradient": ours,
        "C forward": lambda: by_hand(False),
        "C gradient": lambda: by_hand(True),
    }
    if (peer := jax_gravity(q0, p0, m, steps // 10)) is not None:
        peer()
        runs["JAX checkpointed"] = peer
    times = fastest(repeat, runs)
    if "JAX checkpointed" in times:
        times["JAX checkpointed"] *= 10
    away = float(np.abs(grads["q"] - qb).max() / np.abs(qb).max())
    told(f"gravity of {n:,}, {steps} steps", "ms a step", steps * 1e-3, times, away)


def jax_gravity(q: Any, p: Any, m: Any, steps: int) -> Callable[[], Any] | None:
    if (jax := with_jax()) is None:
        return None
    np_, h = jax.numpy, 1e-3

    def force(q: Any) -> Any:
        d = q[:, None] - q[None, :]
        r2 = (d * d).sum(-1) + E2
        return -((m[:, None] * m[None, :] / (r2 * np_.sqrt(r2)))[..., None] * d).sum(1)

    def end(q: Any, p: Any) -> Any:
        @jax.checkpoint
        def step(z: Any, _: Any) -> Any:
            q, p = z
            q = q + h * p / m[:, None]
            return (q, p + h * force(q)), None

        q, _ = jax.lax.scan(step, (q, p + h / 2 * force(q)), None, length=steps)[0]
        return (q * q).sum()

    f = jax.jit(jax.grad(end, argnums=(0, 1)))
    return lambda: jax.block_until_ready(f(q, p))


@tp.hamiltonian
def argon(q: tp.Array["n", 3], p: tp.Array["n", 3], box: float, rc: float = 2.5):
    s6 = 1 / tp.pair_distance2(q, box=box, cutoff=rc) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s6 * s6 - s6))


def liquids(library: ctypes.CDLL, repeat: int, n: int = 4096, steps: int = 200) -> None:
    sim = tp.compile(argon, dt=0.004, method="leapfrog")
    rng, side = np.random.default_rng(0), round(n ** (1 / 3))
    box = (n / 0.8) ** (1 / 3)
    grid = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)
    q, p = (grid + rng.uniform(-0.07, 0.07, (n, 3))) * (box / side), rng.normal(size=(n, 3))
    given = dict(q=q, p=p, box=box, steps=steps, threads=1)

    def forward() -> Any:
        return sim.evolve(**given, frames=2, progress=False)

    def ours() -> Any:
        return sim.grad(lambda out: (out.final.q**2).sum(), **given, wrt=["q", "p"])

    forward(), ours()
    times = fastest(repeat, {"forward": forward, "gradient": ours})
    told(f"argon of {n:,}, {steps} steps", "ms a step", steps * 1e-3, times, None)


def memories(library: ctypes.CDLL, repeat: int, few: int = 1000, many: int = 10_000_000) -> None:
    """How much the largest memory of this process grows from a short run to a long one."""
    q = 2 * np.sin(np.pi * np.arange(1, 65) / 65)
    for precision in ("float64", "lattice"):
        sim, peaks = tp.compile(chain, dt=H, method="leapfrog", precision=precision), []
        for steps in (few, few, many):
            grads = sim.grad(
                lambda out: out.final.q @ out.final.q, q=q, p=np.zeros(64), steps=steps, past="reverse"
            )
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        grown = (peaks[2] - peaks[1]) / 1024
        print(
            f"memory, {precision}: {grown:.3f} MiB more for {many:,} steps than for {few:,}; {grads.report}"
        )


def on_a_gpu(library: ctypes.CDLL, repeat: int, members: int = 1 << 22, steps: int = 1000) -> None:
    """Wall time; the bits of some members beside those of the processor."""
    sim = tp.compile(pendulum, dt=H, method="leapfrog", backend="cuda")
    q, p = np.linspace(-2.0, 2.0, members), np.zeros(members)

    def ours(s: Any, k: int = 1) -> Any:
        return s.grad(lambda out: out.final.q**2, q=q[::k], p=p[::k], steps=steps, wrt=["q", "p"])

    def forward() -> Any:
        return sim.evolve(q=q, p=p, steps=steps, frames=2, progress=False)

    def read() -> Any:
        grads = ours(sim)
        return grads, grads["q"], grads["p"]

    runs, best = {"forward": forward, "gradient": read}, dict[str, float]()
    there = [f() for f in runs.values()][1][0]
    before = transferred(sim.target)["bytes_moved"]
    read()
    moved = transferred(sim.target)["bytes_moved"] - before
    for _ in range(repeat):
        for name, f in runs.items():
            began = time.perf_counter()
            f()
            best[name] = min(best.get(name, np.inf), time.perf_counter() - began)
    here = ours(tp.compile(pendulum, dt=H, method="leapfrog", backend="llvm"), 4096)
    same = all(np.array_equal(there[n][::4096], here[n]) for n in ("q", "p"))
    name = f"{members:,} pendulums on a GPU, {steps:,} steps, wall time"
    told(name, "ns a step and member", steps * members * 1e-9, best, None)
    print(f"  {there.report}; {moved:,} bytes between host and device; bits of the processor: {same}")


ROWS = {"chain": chains, "pendulums": pendulums, "gravity": bodies, "argon": liquids, "memory": memories}
MORE = {"gpu": on_a_gpu}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "rows",
        nargs="*",
        metavar="ROW",
        help=f"some of {', '.join([*ROWS, *MORE])}; {', '.join(ROWS)} if none is given",
    )
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = built(folder)
        for name in asked.rows or ROWS:
            (ROWS | MORE)[name](library, asked.repeat)


if __name__ == "__main__":
    main()
