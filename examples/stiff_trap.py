"""Ions in a stiff trap that repel each other: the trap is solved exactly, and one step spans many oscillations."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def ions(q: tp.Array[4, 2], p: tp.Array[4, 2], w: float = 2000.0):
    axial, radial = q[:, 0], q[:, 1]
    d = q[:, None] - q[None, :]
    repulsion = tp.pair_sum(1 / tp.sqrt((d * d).sum(-1) + 0.01))
    return (p * p).sum() / 2 + (axial @ axial) / 2 + w**2 * (radial @ radial) / 2 + repulsion


start = dict(q=[[-1.5, 1e-3], [-0.5, 0.0], [0.6, -1e-3], [1.4, 5e-4]], p=np.zeros((4, 2)))
dt, T = 0.0205, 8.2

if __name__ == "__main__":
    sim = tp.compile(ions, dt)  # leapfrog would need w dt < 2
    print(sim.explain())
    out = sim.evolve(**start, until=T)
    fine = tp.compile(ions, dt / 32, method="interaction", order=4).evolve(**start, until=T)
    miss = np.abs(out.final.q - fine.final.q)[:, 0].max()
    print(
        f"w dt = {2000 * dt:.0f}, energy drift {out.drift('energy'):.1e}; {miss:.1e} from a run that is 32 times as fine"
    )
    assert sim.built.plan.method == "interaction" and miss < 2e-3 and out.drift("energy") < 1e-4
