"""Galaxies gather in a box that expands: masses from a = 0.05 to 1 on a mesh alone, and the time of a step.

python bench/galaxy_box.py [--side 32] [--grid 64] [--steps 60] [--draw docs/pictures/galaxy_box.png]
"""

import argparse
import time

import numpy as np

import tinyphysics as tp
from tinyphysics.physics import cosmology


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--grid", type=int, default=64)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--draw", default="")
    a = parser.parse_args()
    first, n = 0.05, a.side**3
    places = cosmology.lattice(a.side, 1.0)
    move = cosmology.random_displacement(a.side, 1.0, 0.05, seed=3, index=-1.5)
    m = np.full(n, 1.0 / n)
    start = cosmology.zeldovich(places, move, first, m)
    h = -np.log(first) / a.steps
    sim = tp.compile(
        cosmology.comoving,
        dt=h,
        method="leapfrog_dkd",
        long_range={"cutoff": 0, "grid": a.grid, "order": 4},
        backend=a.backend,
        checks="off",
    )
    given = dict(**start, m=m, L=1.0, h=h, t0=np.log(first), steps=a.steps, save_every=max(1, a.steps // 3))
    began, wall = time.process_time(), time.perf_counter()
    out = sim.evolve(**given)
    print(
        f"{n} masses, mesh {a.grid}: first run {time.perf_counter() - wall:.1f} s, CPU {time.process_time() - began:.1f} s"
    )
    began, wall = time.process_time(), time.perf_counter()
    out = sim.evolve(**given)
    spent, wall = time.process_time() - began, time.perf_counter() - wall
    print(
        f"  again {wall:.2f} s, CPU {spent:.2f} s, {1e9 * wall / a.steps / n:.0f} ns of wall time a mass and step; {out.hash}"
    )
    print(
        f"  momentum {abs(out.final.p.sum(0)).max() / abs(out.final.p).sum():.1e} of the sum of all; {sim.certificate.level}"
    )
    if a.draw:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(1, 3, figsize=(9, 3.1), constrained_layout=True)
        for axis, k in zip(axes, (0, len(out.t) // 2, len(out.t) - 1)):
            q = np.asarray(out.q[k]) % 1.0
            thin = q[:, 2] < 0.25
            density, *_ = np.histogram2d(q[thin, 0], q[thin, 1], bins=64, range=[[0, 1], [0, 1]])
            axis.imshow(
                np.log1p(density.T),
                origin="lower",
                extent=(0, 1, 0, 1),
                cmap="magma",
                interpolation="bilinear",
            )
            axis.set_title(f"a = {np.exp(out.t[k]):.2f}", fontsize=9)
            axis.set_xticks([])
            axis.set_yticks([])
        figure.savefig(a.draw, dpi=100)


if __name__ == "__main__":
    main()
