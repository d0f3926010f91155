"""What does a cluster cost?  An ensemble on two threads, on two Dask workers here, and as dask.delayed over Numba.

python bench/cluster.py [seconds]    so many processor seconds of steps; 0: only what a block costs

Wall-clock times need two idle processors, and blocks of a second or more: 8 seconds at least.

The hashes of the first two are compared. Numba's leapfrog has the same steps in another order of operations.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tinyphysics as tp

MEMBERS, STEP, BLOCKS = 65_536, 0.05, 8


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + q @ q / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3


def timed(f: Callable[[], Any], client: Any = None) -> tuple[float, float, Any]:
    """(wall-clock seconds, processor seconds of this process and the workers, what it returns)."""

    def used() -> float:
        return time.process_time() + (0.0 if client is None else sum(client.run(time.process_time).values()))

    f()  # compiles
    began, before = time.perf_counter(), used()
    found = f()
    return time.perf_counter() - began, used() - before, found


def with_numba(client: Any, start: dict[str, Any], steps: int) -> Callable[[], Any] | None:
    try:
        import dask
        import numba
    except ImportError:
        return None

    def run(x: Any, y: Any, u: Any, v: Any) -> Any:
        @numba.njit(fastmath=True)
        def loop(x: Any, y: Any, u: Any, v: Any, n: int, h: float) -> None:
            for k in range(len(x)):
                a, b, c, d = x[k], y[k], u[k], v[k]
                for _ in range(n):
                    c -= h / 2 * (a + 2 * a * b)
                    d -= h / 2 * (b + a * a - b * b)
                    a += h * c
                    b += h * d
                    c -= h / 2 * (a + 2 * a * b)
                    d -= h / 2 * (b + a * a - b * b)
                x[k], y[k], u[k], v[k] = a, b, c, d

        # compiled once in each worker: what Dask sends is another function each time
        numba.__dict__.setdefault("henon_heiles", loop)(x, y, u, v, steps, STEP)
        return np.stack([x, y, u, v])

    def all_of_them() -> Any:
        parts = np.array_split(np.arange(MEMBERS), BLOCKS)
        jobs = [
            dask.delayed(run)(*(start[n][part, k].copy() for n in ("q", "p") for k in (0, 1)))
            for part in parts
        ]
        return client.gather(client.compute(jobs))

    return all_of_them


def cost_of_a_block(blocks: int = 1000) -> None:
    """Processor time of the scheduler and of the client for a block, beside what the sizes of blocks are chosen with."""
    from distributed import Client

    from tinyphysics.cluster.blocks import SCHEDULER

    folder = Path(tempfile.mkdtemp())
    file, own = folder / "scheduler.json", ["--no-dashboard", "--host", "127.0.0.1"]
    lines = [["scheduler", "--port", "0"]] + [["worker", "--nthreads", "1", "--no-nanny"]] * 2
    begun = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{what}", *more, "--scheduler-file", str(file), *own],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for what, *more in lines
    ]  # fmt: skip
    try:
        with Client(scheduler_file=str(file), set_as_default=False, timeout=60) as client:
            client.wait_for_workers(2, timeout=60)
            sim, start = tp.compile(henon_heiles, dt=STEP), {n: np.full((blocks, 2), 0.1) for n in ("q", "p")}

            def used() -> tuple[float, float]:
                return client.run_on_scheduler(time.process_time), time.process_time()

            for count in (10, blocks):  # the first compiles
                before = used()
                sim.evolve(**start, steps=10, frames=2, on=tp.on(client, blocks=count), progress=False)
                there, here = ((b - a) / count * 1e3 for a, b in zip(before, used()))
        print(f"{blocks:,} short blocks: {there:.2f} ms of the scheduler for each, {here:.2f} ms of this process;"
              f" sizes are chosen with {SCHEDULER * 1e3:.2f} ms")  # fmt: skip
    finally:
        for process in begun:
            process.terminate()
            process.wait(30)
        shutil.rmtree(folder)


def main() -> None:
    from distributed import Client, LocalCluster

    cost_of_a_block()
    if sys.argv[1:] == ["0"]:
        return

    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 8.0
    rng = np.random.default_rng(0)
    start = {n: rng.uniform(-0.1, 0.1, (MEMBERS, 2)) for n in ("q", "p")}
    sim = tp.compile(henon_heiles, dt=STEP)
    call = {"frames": 2, "progress": False}
    _, one, _ = timed(lambda: sim.evolve(**start, steps=5000, threads=1, **call))
    steps = max(200, round(5000 * seconds / one))
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1", silence_logs=50
    )
    with cluster, Client(cluster, set_as_default=False) as client:
        threads, cpu, here = timed(lambda: sim.evolve(**start, steps=steps, threads=2, **call))
        workers, own, there = timed(
            lambda: sim.evolve(**start, steps=steps, on=tp.on(client, blocks=BLOCKS), **call), client
        )
        assert here.hash == there.hash, "other bits"
        print(f"{MEMBERS:,} Hénon–Heiles, {steps:,} steps, {BLOCKS} blocks")
        print(f"  two threads           {threads:6.2f} s, {cpu:6.2f} CPU s")
        speeds = f"{threads / workers:.2f} of the threads' speed, {cpu / own:.2f} by CPU time; same hash"
        print(f"  two workers           {workers:6.2f} s, {own:6.2f} CPU s   {speeds}")
        if (peer := with_numba(client, start, steps)) is None:
            print("  dask.delayed + Numba  not installed")
        else:
            took, theirs, _ = timed(peer, client)
            ours = f"{took / workers:.2f} times ours, {theirs / own:.2f} times by CPU time"
            print(f"  dask.delayed + Numba  {took:6.2f} s, {theirs:6.2f} CPU s   {ours}")


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    main()
