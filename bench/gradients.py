"""What does a gradient cost?  Beside the run itself, C by hand, and JAX where it is installed; one thread, CPU time.

    python bench/gradients.py                    # chain, pendulums, gravity
    python bench/gradients.py chain --repeat 5

`chain` is FPUT with 64 masses, through steps that are taken back; `pendulums` are 65,536 of them, 1,000 steps, a gradient
each; `gravity` has 1,024 bodies and 100 steps. bench/gradients.c is compiled with gcc -O3 -march=native -ffast-math. Runs
take turns, and the smallest time of each counts; `away` is how far our gradient is from that of the C, relative to its
largest number.
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

import tinyphysics as tp

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


def fastest(repeat: int, *runs: Callable[[], Any]) -> list[float]:
    """CPU seconds of each, in turns."""
    best = [np.inf] * len(runs)
    for _ in range(repeat):
        for k, f in enumerate(runs):
            began = time.thread_time()
            f()
            best[k] = min(best[k], time.thread_time() - began)
    return best


def told(name: str, unit: str, per: float, times: dict[str, float], away: float | None) -> None:
    cost = ", ".join(f"{who} {seconds / per:.4g}" for who, seconds in times.items())
    ratio = times["gradient"] / times["forward"]
    by_hand = f", {times['gradient'] / times['C gradient']:.2f} of C" if "C gradient" in times else ""
    far = "" if away is None else f"; away {away:.1e}"
    print(f"{name}: {unit}: {cost}; {ratio:.2f} of forward{by_hand}{far}", flush=True)


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
    found = fastest(
        repeat,
        forward,
        lambda: ours(every),
        lambda: ours(["q", "p"]),
        lambda: by_hand(False),
        lambda: by_hand(True),
    )
    names = ("forward", "gradient", "gradient without alpha", "C forward", "C gradient")
    qb = by_hand(True)[0]
    away = float(np.abs(grads["q"] - qb).max() / np.abs(qb).max())
    told(f"chain, {steps:,} steps", "ns a step", steps * 1e-9, dict(zip(names, found)), away)
    print(f"  {grads.report}")


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
    found = dict(zip(runs, fastest(repeat, *runs.values())))
    told(
        f"{members:,} pendulums, {steps:,} steps", "ns a step and member", steps * members * 1e-9, found, None
    )


def jax_pendulums(q: Any, p: Any, steps: int) -> Callable[[], Any] | None:
    try:
        import jax
    except ImportError:
        print("  JAX is not installed: pip install jax")
        return None
    jax.config.update("jax_enable_x64", True)

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
    found = fastest(repeat, forward, ours, lambda: by_hand(False), lambda: by_hand(True))
    away = float(np.abs(grads["q"] - qb).max() / np.abs(qb).max())
    names = ("forward", "gradient", "C forward", "C gradient")
    told(f"gravity of {n:,}, {steps} steps", "ms a step", steps * 1e-3, dict(zip(names, found)), away)


ROWS = {"chain": chains, "pendulums": pendulums, "gravity": bodies}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "rows", nargs="*", metavar="ROW", help=f"some of {', '.join(ROWS)}; all if none is given"
    )
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = built(folder)
        for name in asked.rows or ROWS:
            ROWS[name](library, asked.repeat)


if __name__ == "__main__":
    main()
