"""A ball that bounces, comes to rest after infinitely many bounces, and slides on."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def ball(q: tp.Vec[2], p: tp.Vec[2], g: float = 9.81):
    return p @ p / 2 + g * q[1]


floor = tp.wall(lambda q: q[1], restitution=0.8, name="floor")
bounces = ball + floor
start = dict(q=[0.0, 1.0], p=[0.5, 0.0])
dt = 0.01

if __name__ == "__main__":
    out = tp.compile(bounces, dt).evolve(**start, until=6.0)
    met = out.events("floor")
    (rest,) = met.t[met.rested]
    print(f"{len(met)} records; at rest from t = {rest:.7f}, then it slides: {out.final.p[0]:.1f}")
    print(
        f"bounces took {out.ledger['bounces'][-1]:.4f}; drift of the energy with that: {out.drift('energy'):.0e}"
    )
    assert abs(rest - 9 * np.sqrt(2 / 9.81)) < 1e-7 and out.drift("energy") < 1e-13
