"""A billiard in an ellipse: free flight goes from bounce to bounce, and keeps what an ellipse keeps."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def free(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2


billiard = free + tp.wall(lambda q: 1 - q[0] ** 2 / 4 - q[1] ** 2, name="ellipse")
start = dict(q=[0.3, 0.2], p=[1.0, 0.5])
dt = 0.02  # flight is exact: it only says when one may look

if __name__ == "__main__":
    out = tp.compile(billiard, dt=100.0).evolve(**start, steps=200)
    met = out.events("ellipse")
    (x, y), (px, py), c = met.q.T, met.p.T, np.sqrt(3.0)
    product = ((x - c) * py - y * px) * ((x + c) * py - y * px)
    print(
        f"{len(met)} bounces: L1 L2 about the foci is the same to {np.abs(product / product[0] - 1).max():.0e}"
    )
    assert np.abs(product / product[0] - 1).max() < 1e-11 and out.drift("energy") < 1e-13
