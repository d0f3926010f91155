"""What does it cost to write every 100th frame to a store?  CPU and wall time beside the same run without saving.

The runs take turns, and the smallest time of each counts; the thread that writes is part of the CPU time.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from liquid import DT, liquid, start

import tinyphysics as tp


@tp.hamiltonian
def repelling(q: tp.Array["n", 3], p: tp.Array["n", 3]):
    """Particles that push each other away in a trap: all pairs."""
    r2 = tp.sum((q[:, None] - q[None]) ** 2, axis=-1)
    return tp.sum(p**2) / 2 + tp.sum(q**2) / 2 + tp.pair_sum(1 / (r2 + 0.1) ** 3)


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 - 1 / tp.norm(q)


@tp.hamiltonian
def waves(q: tp.Vec["n"], p: tp.Vec["n"]):
    """A field on a ring: few operations for each number that is written."""
    return tp.sum(p**2) / 2 + tp.sum((tp.roll(q, -1) - q) ** 2) / 2


def cases() -> dict[str, tuple[tp.Simulation, dict, int]]:
    rng = np.random.default_rng(1)

    def cloud(n: int, d: int) -> dict:
        return dict(q=rng.normal(size=(n, d)) * 9, p=rng.normal(size=(n, d)))

    q, p, box = start(10)
    return {
        "Lennard-Jones liquid, 4000 atoms": (tp.compile(liquid, DT), dict(q=q, p=p, L=box), 2_000),
        "1000 particles, all pairs": (tp.compile(repelling, 0.001), cloud(1000, 3), 2_000),
        "400 particles, all pairs": (tp.compile(repelling, 0.001), cloud(400, 3), 10_000),
        "4096 planets": (tp.compile(kepler, 0.01), cloud(4096, 2), 50_000),
        "one planet": (tp.compile(kepler, 0.01), dict(q=[1.0, 0.0], p=[0.0, 1.2]), 50_000_000),
        "a field of 24,000 numbers": (
            tp.compile(waves, 0.1),
            dict(q=rng.normal(size=24_000), p=np.zeros(24_000)),
            50_000,
        ),
    }


def spent(f: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    f()
    return time.perf_counter() - wall, time.process_time() - cpu


def measure(repeat: int, every: int, only: str = "") -> list[dict]:
    out = []
    folder = Path(tempfile.mkdtemp())
    try:
        for name, (sim, given, steps) in cases().items():
            if only not in name:
                continue
            path = folder / "run.zarr"

            def plain() -> object:
                return sim.evolve(**given, steps=steps, threads=1, progress=False, frames=2)

            def saved() -> object:
                shutil.rmtree(path, ignore_errors=True)
                return sim.evolve(
                    **given,
                    steps=steps,
                    threads=1,
                    progress=False,
                    save_every=every,
                    save=path,
                )

            assert plain().hash == saved().hash
            best = {f: (float("inf"), float("inf")) for f in (plain, saved)}
            for _ in range(repeat):
                for f in best:
                    best[f] = tuple(map(min, best[f], spent(f)))  # type: ignore[assignment]
            (wall, cpu), (saved_wall, saved_cpu) = best[plain], best[saved]
            size = sum(x.stat().st_size for x in path.rglob("*") if x.is_file()) / 1e6
            out.append(
                {
                    "run": name,
                    "frames": steps // every + 1,
                    "MB": size,
                    "wall": wall,
                    "cpu": cpu,
                    "slower": saved_wall / wall - 1,
                    "more cpu": saved_cpu / cpu - 1,
                }
            )
    finally:
        shutil.rmtree(folder)
    return out


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--repeat", type=int, default=7)
    p.add_argument("--every", type=int, default=100)
    p.add_argument("--only", default="", help="rows whose names hold this")
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    rows = measure(args.repeat, args.every, args.only)
    if args.json:
        print(json.dumps(rows, indent=1))
        return
    for r in rows:
        print(
            f"{r['run']:<34}{r['frames']:>8,} frames {r['MB']:>8.1f} MB {r['wall']:>8.3f} s "
            f"{100 * r['slower']:>+7.1f} % slower {100 * r['more cpu']:>+7.1f} % more CPU"
        )


if __name__ == "__main__":
    main()
