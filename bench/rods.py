"""Rods beside MuJoCo and OpenMM: double pendulums, and chains of links; CPU time of one run, one thread each.

`python bench/rods.py` needs `pip install mujoco openmm`, and leaves out what is not there. MuJoCo steps a model of two
hinges with its RK4, by its `rollout`. OpenMM holds a chain with its own constraints, to 1e-6, on its Reference platform.
Links are compared by how far their lengths are off after the run.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def masses(q: tp.Array[2, 2], p: tp.Array[2, 2]):
    return (p * p).sum() / 2 + q[:, 1].sum()


@tp.constraint
def rods(q: tp.Array[2, 2]):
    between = q[1] - q[0]
    return tp.stack([q[0] @ q[0] - 1, between @ between - 1])


@tp.hamiltonian
def chain(q: tp.Array["n", 2], p: tp.Array["n", 2]):
    return (p * p).sum() / 2 + q[:, 1].sum()


@tp.constraint
def links(q: tp.Array["n", 2]):
    d = tp.concatenate([q[:1], q[1:] - q[:-1]])
    return (d * d).sum(-1) - 1


MODEL = """<mujoco><option timestep="0.01" gravity="0 0 -1" integrator="RK4"/>
<default><geom contype="0" conaffinity="0"/></default><worldbody><body><joint type="hinge" axis="0 1 0"/>
<inertial pos="0 0 -1" mass="1" diaginertia="1e-9 1e-9 1e-9"/><geom type="sphere" size="0.01" mass="0"/>
<body pos="0 0 -1"><joint type="hinge" axis="0 1 0"/><inertial pos="0 0 -1" mass="1" diaginertia="1e-9 1e-9 1e-9"/>
<geom type="sphere" size="0.01" mass="0"/></body></body></worldbody></mujoco>"""


def timed(function, times=3):
    function()
    best = np.inf
    for _ in range(times):
        began = time.process_time()
        function()
        best = min(best, time.process_time() - began)
    return best


def pendulums(n: int, steps: int) -> None:
    angles = np.random.default_rng(0).uniform(0.5, 2.5, (n, 2))
    arms = np.stack([np.sin(angles), -np.cos(angles)], axis=-1)
    start = dict(q=np.cumsum(arms, axis=1), p=np.zeros((n, 2, 2)))
    sim = tp.compile(masses + rods, dt=0.01, checks="off")
    assert not sim.evolve(**start, steps=steps, frames=2).stops
    ours = timed(lambda: sim.evolve(**start, steps=steps, frames=2, threads=1)) / (n * steps)
    print(f"tinyphysics, RATTLE   {1e9 * ours:8.1f} ns a double pendulum and step ({n:,} of them)")
    try:
        import mujoco
        from mujoco import rollout
    except ImportError:
        print("MuJoCo is not there")
        return
    model = mujoco.MjModel.from_xml_string(MODEL)
    data, few = mujoco.MjData(model), min(n, 256)
    size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    initial = np.zeros((few, size))
    initial[:, 1] = angles[:few, 0]
    initial[:, 2] = angles[:few, 1] - angles[:few, 0]
    theirs = timed(lambda: rollout.rollout(model, data, initial, nstep=steps)) / (few * steps)
    print(f"MuJoCo, RK4, rollout  {1e9 * theirs:8.1f} ns ({few} of them): {theirs / ours:.0f} times as long")


def whip(n: int, steps: int) -> float:
    sim = tp.compile(chain + links, dt=0.01, checks="off")
    start = dict(q=np.stack([np.arange(1.0, n + 1), np.zeros(n)], axis=1), p=np.zeros((n, 2)))
    out = sim.evolve(**start, steps=steps, frames=2)
    off = np.abs(np.linalg.norm(np.diff(out.final.q, axis=0, prepend=0.0), axis=1) - 1).max()
    took = timed(lambda: sim.evolve(**start, steps=steps, frames=2, threads=1)) / steps
    print(f"tinyphysics, {n:5,} links  {1e3 * took:8.4f} ms a step, lengths to {off:.0e}")
    return took


def in_openmm(n: int, steps: int) -> float | None:
    try:
        import openmm
    except ImportError:
        print("OpenMM is not there")
        return None
    system = openmm.System()
    system.addParticle(1e12)  # constraints need a mass
    for k in range(n):
        system.addParticle(1.0)
        system.addConstraint(k, k + 1, 1.0)
    gravity = openmm.CustomExternalForce("y")
    for k in range(1, n + 1):
        gravity.addParticle(k)
    system.addForce(gravity)
    integrator = openmm.VerletIntegrator(0.01)
    integrator.setConstraintTolerance(1e-6)
    context = openmm.Context(system, integrator, openmm.Platform.getPlatformByName("Reference"))
    places = np.stack([np.arange(0.0, n + 1), np.zeros(n + 1), np.zeros(n + 1)], axis=1)
    context.setPositions(places)
    integrator.step(10)
    began = time.process_time()
    integrator.step(steps)
    took = (time.process_time() - began) / steps
    q = context.getState(getPositions=True).getPositions(asNumpy=True)._value
    off = np.abs(np.linalg.norm(np.diff(q, axis=0), axis=1) - 1).max()
    print(f"OpenMM,      {n:5,} links  {1e3 * took:8.4f} ms a step, lengths to {off:.0e}")
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pendulums", type=int, default=65_536)
    parser.add_argument("--steps", type=int, default=200)
    asked = parser.parse_args()
    pendulums(asked.pendulums, asked.steps)
    hundred, thousand = whip(100, 1000), whip(1000, 1000)
    print(f"1,000 links take {thousand / hundred:.1f} times as long as 100")
    if (theirs := in_openmm(1000, 100)) is not None:
        print(f"OpenMM takes {theirs / thousand:.0f} times as long")


if __name__ == "__main__":
    main()
