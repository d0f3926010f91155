"""A double pendulum from its Lagrangian: no forces, no momenta, no mass matrix written by hand."""

import numpy as np

import tinyphysics as tp


@tp.lagrangian
def double_pendulum(q: tp.Vec[2], v: tp.Vec[2], g: float = 9.81):
    a, b = q
    kinetic = v[0] ** 2 + v[1] ** 2 / 2 + v[0] * v[1] * tp.cos(a - b)
    return kinetic + 2 * g * tp.cos(a) + g * tp.cos(b)


start = dict(q=[2.0, 2.5], v=[0.0, 0.0])
dt = 0.01

if __name__ == "__main__":
    sim = tp.compile(double_pendulum, dt, method="galerkin4")
    print(sim.explain())
    out = sim.evolve(**start, steps=10_000, save_every=100)
    print(f"energy within {np.ptp(out.energy):.1e} for {out.t[-1]:g} s of tumbling")
    assert np.ptp(out.energy) < 1e-3
