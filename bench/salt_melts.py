"""Salt that melts: 512 ions in a periodic box are heated at constant volume; displacement from the lattice, order, pictures.

python bench/salt_melts.py [--steps 6000] [--draw docs/pictures/salt_melts.png]
"""

import argparse
import time

import numpy as np

import tinyphysics as tp

COLD, HOT = 0.005, 0.08  # in units of q²/distance


@tp.hamiltonian
def salt(q: tp.Array["n", 3], p: tp.Array["n", 3], c: tp.Vec["n"], L: float = 8.0, rc: float = 2.5):
    """Charges with a repulsion 0.1/r**8 that ends smoothly."""
    r2 = tp.pair_distance2(q, box=L)
    near = tp.pair_distance2(q, box=L, cutoff=rc, switch=2.0)
    return (p**2).sum() / 2 + tp.pair_sum(c[:, None] * c[None, :] / np.sqrt(r2)) + tp.pair_sum(0.1 / near**4)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--draw", default="")
    a = parser.parse_args()
    sites = np.stack(np.meshgrid(*[np.arange(8)] * 3, indexing="ij"), -1).reshape(-1, 3) + 0.5
    charge = (-1.0) ** np.floor(sites).sum(1)
    dt = 0.04
    end = a.steps * dt
    sim = tp.compile(
        salt,
        dt=dt,
        temperature=lambda t: COLD + (HOT - COLD) * t / end,
        friction=0.2,
        force_error=1e-3,
        checks="off",
    )
    began = time.process_time()
    out = sim.evolve(q=sites, p=np.zeros((512, 3)), c=charge, steps=a.steps, frames=61, seed=1, threads=1)
    kT = COLD + (HOT - COLD) * np.asarray(out.t) / end
    moved = np.sqrt(((out.q - sites) ** 2).sum(-1).mean(-1))
    waves = np.exp(2j * np.pi * np.asarray(out.q)).mean(
        1
    )  # of the lattice: 1 in a crystal, about 0.04 in a liquid
    order = np.abs(waves).mean(-1)
    print(f"{out.metrics['long_range']}, CPU {time.process_time() - began:.0f} s")
    for k in range(0, len(kT), 6):
        print(f"kT = {kT[k]:.4f}: displacement {moved[k]:.3f}, order {order[k]:.3f}")
    melted = next((kT[k] for k in range(len(kT)) if order[k] < 0.5 * order[1]), None)
    print(f"order has fallen to half of what it was in the cold at kT = {melted}")
    if a.draw:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(1, 3, figsize=(9, 3), constrained_layout=True)
        for axis, k in zip(axes, (6, len(kT) - 1)):
            q = np.asarray(out.q[k]) % 8.0
            thin = q[:, 2] < 2.0
            for sign, colour in ((1, "tab:blue"), (-1, "tab:orange")):
                own = thin & (charge == sign)
                axis.scatter(q[own, 0], q[own, 1], s=20, c=colour)
            axis.set(
                xlim=(0, 8), ylim=(0, 8), xticks=[], yticks=[], aspect="equal", title=f"kT = {kT[k]:.3f}"
            )
        axes[2].plot(kT, moved, label="displacement")
        axes[2].plot(kT, order, label="order of the lattice")
        axes[2].set(xlabel="kT", ylim=(0, 2))
        axes[2].legend(frameon=False)
        figure.savefig(a.draw, dpi=100)


if __name__ == "__main__":
    main()
