"""The planets with REBOUND: its leapfrog and its direct sum; it knows no other forces than gravity, and compiles nothing."""

from __future__ import annotations

import numpy as np
import rebound

NOTE = (
    "REBOUND: a code for bodies under gravity, so only in the row of the planets; it has nothing to compile"
)


def planets(q, v, m, dt, n):
    def run():
        sim = rebound.Simulation()
        sim.integrator, sim.dt = "leapfrog", dt
        for mass, (x, y, z), (vx, vy, vz) in zip(m, q, v):
            sim.add(m=mass, x=x, y=y, z=z, vx=vx, vy=vy, vz=vz)
        sim.steps(n)
        out = np.empty((len(m), 3))
        sim.serialize_particle_data(xyz=out)
        return out

    return {"REBOUND": run}
