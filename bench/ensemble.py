"""What does a large ensemble cost?  Seconds with one thread and with two, and memory beyond input and frames.

Every run is a process of its own, so that its peak is its own; threads take turns and the smallest time of
each counts. The second thread can only help if its core is free: the load of the machine is part of a row.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import tinyphysics as tp

HERE = Path(__file__).parent


@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - tp.cos(q)


def peak() -> float:
    """The largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def one_run(members: int, steps: int, threads: int) -> dict:
    """In a process of its own: wall and CPU seconds, and MB beyond what was given and what came back."""
    sim = tp.compile(pendulum, dt=0.01)
    sim.evolve(q=np.linspace(-2, 2, 4_096), p=0.1, steps=steps, threads=threads, frames=2)  # compiles
    given = {"q": np.linspace(-2, 2, members), "p": np.full(members, 0.1)}
    before = peak()
    wall, cpu = time.perf_counter(), time.process_time()
    out = sim.evolve(**given, steps=steps, threads=threads, frames=2)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    returned = sum(v.nbytes for v in out.frames.values()) / 1e6
    return {"wall": wall, "cpu": cpu, "beyond": peak() - before - returned, "hash": out.hash}


def ensemble(members: int, steps: int, repeat: int) -> dict:
    best: dict[int, dict] = {}
    for _ in range(repeat):
        for threads in (1, 2):
            command = [
                sys.executable,
                __file__,
                "--one",
                str(threads),
                "--members",
                str(members),
                "--steps",
                str(steps),
            ]
            run = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            run["load"] = os.getloadavg()[0]
            if threads not in best or run["wall"] < best[threads]["wall"]:
                best[threads] = run
    assert best[1]["hash"] == best[2]["hash"]
    return {
        "workload": f"{members:,} pendulums x {steps}",
        "one thread": best[1],
        "two threads": best[2],
        "speed-up": best[1]["wall"] / best[2]["wall"],
    }


def frames(steps: int, repeat: int) -> dict:
    """One trajectory, every step a frame: CPU time of a frame, and of its energy."""
    sim = tp.compile(pendulum, dt=0.01)
    saved = asked = float("inf")
    for _ in range(repeat):
        began = time.thread_time()
        out = sim.evolve(q=1.0, p=0.1, steps=steps, save_every=1)
        then = time.thread_time()
        assert len(out.energy) == steps + 1
        saved, asked = min(saved, then - began), min(asked, time.thread_time() - then)
    return {
        "workload": f"one pendulum, {steps:,} frames",
        "us a frame": 1e6 * saved / steps,
        "us an energy": 1e6 * asked / steps,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=10**7)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--one", type=int, help="one run with so many threads, as JSON")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(one_run(args.members, args.steps, args.one)))
        return
    row, single = ensemble(args.members, args.steps, args.repeat), frames(100_000, args.repeat)
    print(row["workload"])
    for name in ("one thread", "two threads"):
        r = row[name]
        print(
            f"  {name:11}  {r['wall']:6.2f} s  {r['cpu']:6.2f} s of CPU  {r['beyond']:5.0f} MB beyond input and frames"
            f"  load {r['load']:.1f}"
        )
    print(f"  two threads are {row['speed-up']:.2f} times as fast")
    print(
        f"{single['workload']}: {single['us a frame']:.2f} us a frame, {single['us an energy']:.2f} us an energy"
    )
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    with (folder / "ensemble.jsonl").open("a") as file:
        file.write(json.dumps({"tinyphysics": tp.__version__, "rows": [row, single]}) + "\n")


if __name__ == "__main__":
    main()
