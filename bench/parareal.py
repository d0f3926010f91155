"""Slices of time beside pySDC: a planet on an ellipse for 20 slices of 1, ours with leapfrog and theirs with PFASST.

python bench/parareal.py    prints forces in a row (what cannot be done side by side), the error at t = 20, and CPU seconds

pySDC's parallel-in-time method is PFASST: parareal whose fine and coarse propagators are sweeps of one collocation step on
many and few nodes. Slices run one after the other here, so CPU time is of all of them. The last row is one serial method.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import tinyphysics as tp

SLICES, START = 20, {"q": [1.0, 0.0], "p": [0.0, 1.2]}


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


def exact() -> Any:
    return tp.compile(kepler, method="taylor", tolerance=1e-15).evolve(**START, until=float(SLICES)).final.q


def row(name: str, forces: float, q: Any, truth: Any, seconds: float) -> None:
    error = float(np.max(np.abs(np.asarray(q) - truth)))
    print(f"  {name:44s} {forces:10,.0f} {error:10.1e} {seconds:9.2f}")


def ours(truth: Any) -> None:
    sim = tp.compile(kepler, dt=1e-3)
    for sweeps in (2, 3):
        plan = tp.Parareal(slices=SLICES, coarse={"dt": 0.1}, sweeps=sweeps)
        call = {**START, "steps": 20_000, "parallel": plan}
        sim.evolve(**call)
        began = time.process_time()
        out = sim.evolve(**call)
        took = time.process_time() - began
        # a sweep: a slice of 1,000 fine steps, then all coarse ones of 10, one after the other
        forces = sweeps * 1000 + (sweeps + 1) * SLICES * 10
        row(f"tinyphysics, leapfrog 1e-3 and 0.1, {sweeps} sweeps", forces, out.final.q, truth, took)


def pysdc(truth: Any, nodes: tuple[int, int], most: int) -> None:
    from pySDC.core.problem import Problem
    from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI
    from pySDC.implementations.datatype_classes.particles import acceleration, particles
    from pySDC.implementations.sweeper_classes.verlet import verlet
    from pySDC.implementations.transfer_classes.TransferParticles_NoCoarse import particles_to_particles

    class Planet(Problem):  # type: ignore[misc]
        dtype_u, dtype_f = particles, acceleration
        calls = 0

        def __init__(self) -> None:
            super().__init__((2, None, np.dtype("float64")))

        def eval_f(self, u: Any, t: float) -> Any:
            Planet.calls += 1
            me = self.dtype_f(self.init)
            me[:] = -u.pos / float(u.pos @ u.pos) ** 1.5
            return me

        def u_exact(self, t: float) -> Any:
            me = self.dtype_u(self.init)
            me.pos[:], me.vel[:] = START["q"], START["p"]
            return me

    described = {
        "problem_class": Planet,
        "problem_params": {},
        "sweeper_class": verlet,
        "sweeper_params": {"quad_type": "LOBATTO", "num_nodes": list(nodes), "initial_guess": "spread"},
        "level_params": {"restol": 1e-8, "dt": 1.0},
        "step_params": {"maxiter": most},
        "space_transfer_class": particles_to_particles,
        "base_transfer_params": {"finter": True},
    }
    controller = controller_nonMPI(SLICES, {"logger_level": 40}, described)
    first = controller.MS[0].levels[0].prob.u_exact(0.0)
    began = time.process_time()
    end, stats = controller.run(u0=first, t0=0.0, Tend=float(SLICES))
    took = time.process_time() - began
    from pySDC.helpers.stats_helper import get_sorted

    sweeps = max(int(n) for _, n in get_sorted(stats, type="niter"))
    # each slice has a copy of the class; the last one does most, and waits for those before it on the coarse level
    kinds = [{type(level.prob) for level in step.levels} for step in controller.MS]
    forces = max(sum(kind.calls for kind in found) for found in kinds)
    waits = SLICES * nodes[1]
    row(
        f"pySDC, PFASST {nodes[0]} and {nodes[1]} nodes, {sweeps} iterations",
        forces + waits,
        end.pos,
        truth,
        took,
    )


def serial(truth: Any) -> None:
    sim = tp.compile(kepler, dt=0.625, method="nystrom6")
    call = {**START, "steps": 32}
    sim.evolve(**call)
    began = time.process_time()
    out = sim.evolve(**call)
    row("tinyphysics, nystrom6 at 0.625, no slices", 416, out.final.q, truth, time.process_time() - began)


def main() -> None:
    truth = exact()
    print(f"  {'20 slices of 1':44s} {'forces':>10s} {'error':>10s} {'CPU s':>9s}")
    ours(truth)
    try:
        import pySDC  # noqa: F401
    except ImportError:
        print("  pySDC is not installed: pip install pySDC")
    else:
        for nodes, most in (((7, 3), 20), ((9, 4), 20)):
            pysdc(truth, nodes, most)
    serial(truth)


if __name__ == "__main__":
    main()
