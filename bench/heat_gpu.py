"""Baths on a GPU: double wells beside CUDA by hand, what hills cost 4,000 atoms, and the bits of every bath.

python bench/heat_gpu.py --fill FOLDER   where LLVM is: leaves PTX and the hashes of this processor in the folder
python bench/heat_gpu.py FOLDER          where the GPU is; $HAND is bench/cuda/wells.cu compiled, if it is there
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import tinyphysics as tp
from tinyphysics.device.cuda import driver as cuda
from tinyphysics.physics.starts import lattice
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.runtime.state.ensemble import addressed, inputs

MEMBERS, STEPS, DT, SEED, RUNS, WARM = 1 << 22, 200, 0.05, 7, 7, 0.1
WANTED = 1.15  # of CUDA by hand
warnings.simplefilter("ignore")


@tp.hamiltonian
def wells(q, p):
    return p**2 / 2 + (q**2 - 1) ** 2


@tp.hamiltonian
def liquid(q: tp.Array["n", 3], p: tp.Array["n", 3], box: float = 1.0):  # noqa: F821
    s = 1 / tp.pair_distance2(q, box=box, cutoff=2.5, skin=0.3) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s * s - s))


BATHS: dict[str, dict[str, Any]] = {
    "langevin": {},
    "obabo": {"method": "obabo"},
    "andersen": {"bath": "andersen"},
    "bussi": {"bath": "bussi"},
    "nose_hoover": {"bath": "nose_hoover"},
    "nose_poincare": {"bath": "nose_poincare"},
    "gle": {"bath": tp.gle(kernel=[(1.0, 0.5)])},
    "brownian": {"bath": "brownian"},
}
IN_LOOPS = ("langevin", "andersen", "bussi", "nose_hoover", "nose_poincare")


def atoms(cells: int) -> dict[str, Any]:
    q, box = lattice("fcc", cells, density=0.8)
    p = np.random.default_rng(1).normal(size=q.shape)
    return {"q": q, "p": p - p.mean(0), "box": float(box[0])}


def distance(q: Any) -> Any:
    d = q[1] - q[0]
    return tp.sqrt((d * d).sum() + 1e-6)


def hills() -> Any:
    return tp.metadynamics(distance, width=0.5, height=0.1, every=100, grid=(0.0, 40.0, 200), bias_factor=10)


# --- the same bits -------------------------------------------------------------------------------------
def runs(backend: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """(name, a run) of everything whose bits are compared."""
    start = {"q": np.linspace(-1.0, 1.0, 4_000), "p": 0.5 + np.zeros(4_000)}
    short = {"frames": 2, "progress": False, "seed": SEED}
    for name, more in BATHS.items():
        sim = tp.compile(wells, DT, temperature=1.0, backend=backend, checks="off", **more)
        yield f"wells, {name}", lambda sim=sim: sim.evolve(**start, **short, steps=50)
    for name in IN_LOOPS:
        sim = tp.compile(liquid, 0.004, temperature=1.0, backend=backend, checks="off", **BATHS[name])
        yield f"500 atoms, {name}", lambda sim=sim: sim.evolve(**atoms(5), **short, steps=20)
    biased = tp.compile(liquid, 0.004, temperature=1.0, bias=hills(), backend=backend, checks="off")
    yield "500 atoms, metadynamics", lambda: biased.evolve(**atoms(5), **short, steps=400)
    sim = tp.compile(wells, DT, temperature=1.0, backend=backend, checks="off")
    ladder = np.geomspace(1.0, 8.0, 16)
    begin = {"q": -np.ones(16), "p": np.zeros(16), "temperature": ladder}
    yield "16 replicas", lambda: sim.evolve(**begin, **short, exchange=20, steps=400)
    many = {"q": np.linspace(-1.0, 1.0, MEMBERS), "p": np.zeros(MEMBERS)}
    yield "2²² wells, langevin", lambda: sim.evolve(**many, **short, steps=20)


def compared(folder: Path) -> None:
    known, bad = json.loads((folder / "hashes.json").read_text()), 0
    for name, run in runs("cuda"):
        try:
            found = str(run().hash)
        except tp.TinyPhysicsError as error:
            found = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        if found != known[name]:
            bad += 1
            print(f"  {name}: {found}, and {known[name]} on a processor")
    print(f"bits: {len(known) - bad} of {len(known)} runs have those of a processor", flush=True)


# --- speed -----------------------------------------------------------------------------------------------
def wells_row(fill: bool) -> None:
    """2²² double wells: picoseconds of the device a member and step, steps alone."""
    hand: list[Mapping[str, Any]] = []
    if os.environ.get("HAND") and not fill:
        said = subprocess.run([os.environ["HAND"]], capture_output=True, text=True, timeout=60).stdout
        hand = [json.loads(line) for line in said.splitlines()]
        for row in hand:
            print(f"  CUDA by hand, {row['variant']}: {row['value']:.3f} ps")
    q = np.linspace(-1.0, 1.0, MEMBERS)
    for name, more in (("langevin", {}), ("langevin, math=fast", {"math": "fast"})):
        sim = tp.compile(wells, DT, temperature=1.0, backend="cuda", checks="off", **more)
        encoding = sim.compiled.encoding
        given = inputs(sim.system, {"q": q, "p": np.zeros(MEMBERS)}, encoding)
        given = addressed(given, SEED, encoding.precision.given)
        engine = engine_for(sim.target, sim.tpir, None, None, False)
        first = engine.start(given.states, given.params, MEMBERS, DT, 0.0)
        m = engine.snapshot(first)
        engine.advance(m, STEPS)
        out = engine.synchronised(m)["q"]
        if fill:
            continue
        found: list[float] = []
        spent, timer = 0.0, cuda.Timer()
        while len(found) < RUNS:
            m = engine.snapshot(first)
            with timer:
                engine.advance(m, STEPS)
            spent += timer.milliseconds / 1e3
            if spent > WARM:
                found.append(timer.milliseconds * 1e9 / MEMBERS / STEPS)
        ps, told = statistics.median(found), ""
        if hand:
            least = min(float(row["value"]) for row in hand)
            apart = abs(np.abs(out).sum() - hand[0]["sum"]) / hand[0]["sum"]
            told = f", {ps / least:.3f} of CUDA by hand (wanted {WANTED}); sums of |q| {apart:.1e} apart"
        print(f"  ours, {name}: {ps:.3f} ps a member and step{told}", flush=True)


def hills_row(fill: bool) -> None:
    """4,000 atoms with and without hills: steps a second of whole runs."""
    start = {**atoms(10), "frames": 2, "progress": False}
    sims = {
        "unbiased": tp.compile(liquid, 0.004, temperature=1.0, backend="cuda", checks="off"),
        "metadynamics": tp.compile(
            liquid, 0.004, temperature=1.0, bias=hills(), backend="cuda", checks="off"
        ),
    }
    for sim in sims.values():
        sim.evolve(**start, steps=200)
    if fill:
        return
    # by two lengths of run: what a run begins and ends with is taken off
    best: dict[str, float] = {}
    for _ in range(3):
        for name, sim in sims.items():
            took = {}
            for steps in (500, 4_500):
                began = time.perf_counter()
                sim.evolve(**start, steps=steps)
                took[steps] = time.perf_counter() - began
            best[name] = min(best.get(name, np.inf), (took[4_500] - took[500]) / 4_000)
    for name, s in best.items():
        print(f"  4,000 atoms, {name}: {1e6 * s:.1f} µs a step")
    print(f"  with hills {best['unbiased'] / best['metadynamics']:.3f} of the speed without (wanted 0.90)")


@contextlib.contextmanager
def filling(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
    from gpu_bundle import kept_in
    from gpu_record import recorder

    with kept_in(folder / "cache"), recorder():
        yield


def main() -> None:
    fill, folder = "--fill" in sys.argv, Path(sys.argv[-1])
    if not fill:
        for part in (lambda: wells_row(False), lambda: compared(folder), lambda: hills_row(False)):
            try:
                part()
            except Exception as error:  # the next part may still work
                print(f"  failed: {type(error).__name__}: {error}", flush=True)
        return
    folder.mkdir(parents=True, exist_ok=True)
    known = {name: str(run().hash) for name, run in runs("llvm")}
    (folder / "hashes.json").write_text(json.dumps(known, indent=1))
    with filling(folder):
        wells_row(True)
        hills_row(True)
        for name, run in runs("cuda"):
            try:
                run()
            except tp.TinyPhysicsError as error:
                print(f"{name}: {error}")
    print(f"{len(known)} runs; {len(list((folder / 'cache').iterdir()))} texts")


if __name__ == "__main__":
    main()
