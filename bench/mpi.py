"""When do processes pay?  Waves on 2,048 x 2,048 on two ranks of MPI and on two threads, by CPU time; and bodies.

python bench/mpi.py [n]    starts mpiexec -n 2 itself; prints processor seconds of all threads or ranks together

The hashes are compared. CPU time says what the halos and the second copy of everything cost, on an idle machine or not.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import tinyphysics as tp

STEPS, REPEAT = 200, 5


@tp.hamiltonian
def wave(q: tp.Array["n", "n"], p: tp.Array["n", "n"]):
    return ((p**2).sum() + sum(((np.roll(q, -1, axis) - q) ** 2).sum() for axis in (0, 1))) / 2


@tp.hamiltonian
def gravity(q: tp.Array["n", 3], p: tp.Array["n", 3], eps: float = 0.05):
    d = q[:, None] - q[None, :]
    return (p**2).sum() / 2 - tp.pair_sum(1 / np.sqrt((d**2).sum(-1) + eps**2)) / 1000


def case(name: str, n: int) -> tuple[Any, dict[str, Any], int]:
    rng = np.random.default_rng(0)
    shape = (n, n) if name == "wave" else (n, 3)
    system, more = (wave, {"propagator": "loop"}) if name == "wave" else (gravity, {})
    sim = tp.compile(system, dt=0.01, checks="off", **more)
    return sim, {"q": rng.normal(size=shape), "p": rng.normal(size=shape)}, STEPS if name == "wave" else 20


def timed(name: str, n: int, **how: Any) -> dict[str, Any]:
    """Processor and wall seconds: of a long run less those of a short one, which has all else; the least of a few."""
    sim, given, steps = case(name, n)
    found: dict[int, list[tuple[float, float]]] = {4: [], steps + 4: []}
    for _ in range(REPEAT + 1):
        for count in found:
            began = time.process_time(), time.perf_counter()
            out = sim.evolve(**given, steps=count, frames=2, progress=False, **how)
            found[count].append((time.process_time() - began[0], time.perf_counter() - began[1]))
    cpu, wall = (min(x[k] for x in found[steps + 4][1:]) - min(x[k] for x in found[4][1:]) for k in (0, 1))
    told = out.metrics.get("cluster", {})
    return {
        "cpu": cpu,
        "wall": wall,
        "hash": out.hash,
        "bytes": told.get("bytes", 0),
        "rank": told.get("rank", 0),
    }


def main() -> None:
    if len(sys.argv) > 2:  # a rank
        name, n, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
        found = timed(name, n, on="mpi")
        (folder / str(found["rank"])).write_text(json.dumps(found))
        return
    sizes = {"wave": int(sys.argv[1]) if len(sys.argv) > 1 else 2048, "gravity": 4000}
    mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if mpiexec is None:
        raise SystemExit('no mpiexec: pip install "tinyphysics[mpi]"')
    for name, n in sizes.items():
        threads = timed(name, n, threads=2)
        with tempfile.TemporaryDirectory() as folder:
            line = [mpiexec, "-n", "2", sys.executable, __file__, name, str(n), folder]
            subprocess.run(line, check=True)
            ranks = [json.loads((Path(folder) / str(k)).read_text()) for k in range(2)]
        assert {r["hash"] for r in ranks} == {threads["hash"]}, "other bits"
        cpu, sent = sum(r["cpu"] for r in ranks), sum(r["bytes"] for r in ranks)
        print(f"{name}, n = {n:,}: same hash")
        print(f"  two threads  {threads['cpu']:6.2f} CPU s, {threads['wall']:6.2f} s")
        print(
            f"  two ranks    {cpu:6.2f} CPU s, {max(r['wall'] for r in ranks):6.2f} s, {sent / 1e6:,.0f} MB sent"
        )
        print(f"  the ranks have {threads['cpu'] / cpu:.2f} of the threads' speed by CPU time")


if __name__ == "__main__":
    main()
