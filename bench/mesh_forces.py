"""Three kinds of forces of a mesh that is far too coarse: 64 ions, 20,000 steps; what becomes of energy and momentum.

python bench/mesh_forces.py [--steps 20000] [--draw docs/pictures/mesh_forces.png]
"""

import argparse
import time

import numpy as np

import tinyphysics as tp

WAYS = {"differentiated waves": {"forces": "ik"}, "gradient": {"anchored": False}, "gradient, anchored": {}}


@tp.hamiltonian
def ions(q: tp.Array["n", 3], p: tp.Array["n", 3], c: tp.Vec["n"], L: float = 4.0, rc: float = 2.0):
    """Rock salt with a repulsion 0.1/r**8 whose force is shifted to zero at rc."""
    r2 = tp.pair_distance2(q, box=L)
    near = tp.pair_distance2(q, box=L, cutoff=rc, skin=0.0)
    repulsion = 0.1 * (1 / near**4 - 1 / rc**8 + 8 / rc**9 * (np.sqrt(near) - rc))
    return (p**2).sum() / 2 + tp.pair_sum(c[:, None] * c[None, :] / np.sqrt(r2)) + tp.pair_sum(repulsion)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--draw", default="")
    a = parser.parse_args()
    corner = np.stack(np.meshgrid(*[np.arange(4)] * 3, indexing="ij"), -1).reshape(-1, 3)
    p = np.random.default_rng(1).normal(size=(64, 3)) * np.sqrt(0.05)
    start = {"q": corner * 1.0, "p": p - p.mean(0), "c": (-1.0) ** corner.sum(1)}
    found = {}
    for name, more in WAYS.items():
        began = time.process_time()
        pinned = {"alpha": 2.0, "cutoff": 2.0, "grid": 10, "order": 4, **more}
        sim = tp.compile(ions, dt=0.02, checks="off", long_range=pinned)
        every = {"observe": {"momentum": lambda p: p.sum(0)}, "observe_every": 100, "save_every": 100}
        out = sim.evolve(**start, steps=a.steps, threads=1, **every)
        t, energy = out.t, out.energy - out.energy[0]
        momentum = np.linalg.norm(out["momentum"], axis=-1)
        found[name] = t, energy, momentum
        (slope, _), spread = np.polyfit(t, energy, 1, cov=True)
        print(
            f"{name}: energy gained {energy[-1]:.3g} (slope {slope:.1e} ± {spread[0, 0] ** 0.5:.1e} per unit of time),"
        )
        print(
            f"  kinetic energy at the end {(out.final.p**2).sum() / 2:.2f}, momentum {momentum[-1]:.2g}; ",
            end="",
        )
        print(
            f"symplectic {bool(sim.certificate.symplectic)}, CPU {time.process_time() - began:.0f} s",
            flush=True,
        )
    if a.draw:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), constrained_layout=True)
        for name, (t, energy, momentum) in found.items():
            left.plot(t, energy, label=name)
            right.semilogy(t, np.maximum(momentum, 1e-17), label=name)
        left.set(xlabel="time", ylabel="energy gained")
        right.set(xlabel="time", ylabel="|momentum|")
        left.legend(frameon=False)
        figure.savefig(a.draw, dpi=100)


if __name__ == "__main__":
    main()
