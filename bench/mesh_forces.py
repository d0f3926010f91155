"""Three kinds of forces of a mesh that is far too coarse: 64 ions, 20,000 steps; what becomes of energy and momentum.

python bench/mesh_forces.py [--steps 20000] [--draw docs/pictures/mesh_forces.png]
python bench/mesh_forces.py --seeds 4    the default alone, by seeds: does its energy drift?
python bench/mesh_forces.py --pairs 16   charges of 1 and -1, 12 nodes apart on a mesh of 32**3, at so many random places
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


SETTLED = 20.0  # units of time, after which the lattice has taken up its half of the kinetic energy


def by_seeds(seeds, steps):
    """Slopes of the energy of the default, each with other momenta."""
    corner = np.stack(np.meshgrid(*[np.arange(4)] * 3, indexing="ij"), -1).reshape(-1, 3)
    pinned = {"alpha": 2.0, "cutoff": 2.0, "grid": 10, "order": 4}
    sim, slopes = tp.compile(ions, dt=0.02, checks="off", long_range=pinned), []
    for seed in range(1, seeds + 1):
        p = np.random.default_rng(seed).normal(size=(64, 3)) * np.sqrt(0.05)
        start = {"q": corner * 1.0, "p": p - p.mean(0), "c": (-1.0) ** corner.sum(1)}
        out = sim.evolve(**start, steps=steps, threads=1, save_every=100)
        later = out.t > SETTLED
        (slope, _), spread = np.polyfit(out.t[later], out.energy[later], 1, cov=True)
        slopes.append(slope)
        print(f"seed {seed}: {slope:.2e} ± {spread[0, 0] ** 0.5:.1e} per unit of time", flush=True)
    if seeds > 1:
        error = np.std(slopes, ddof=1) / np.sqrt(seeds)
        print(f"mean {np.mean(slopes):.1e} ± {error:.1e}")


@tp.hamiltonian
def charges(q: tp.Array["n", 3], p: tp.Array["n", 3], c: tp.Vec["n"], L: float = 32.0):
    r2 = tp.pair_distance2(q, box=L)
    return (p**2).sum() / 2 + tp.pair_sum(c[:, None] * c[None, :] / np.sqrt(r2))


def of_pairs(count):
    from tinyphysics.runtime.measure.mesh_forces import Charges, Way, far_forces, rms

    rng, n = np.random.default_rng(2), 32  # the other 30 have no charge
    c = np.zeros(n)
    c[:2] = 1.0, -1.0
    places, right = [], []
    for _ in range(count):
        d, first = rng.normal(size=3), rng.uniform(0, 32, 3)
        q = np.array([first, first + 12 * d / np.linalg.norm(d)])
        two = Charges(q, c[:2], 32 * np.eye(3), np.arange(2), np.full(2, 0.5))
        right.append(far_forces(two, Way(0.5, 14.0, (80, 80, 80), 10, 1.0, False)))
        places.append(np.concatenate([q, rng.uniform(0, 32, (n - 2, 3))]))
    for name, more in WAYS.items():
        pinned = {"alpha": 0.5, "cutoff": 11.0, "grid": 32, "order": 6, "switch": 1.0, **more}
        sim = tp.compile(charges, dt=1e-6, checks="off", long_range=pinned)
        found = [sim.evolve(q=q, p=0 * q, c=c, steps=1).final.p[:2] / 1e-6 for q in places]
        off = rms(np.concatenate(found) - np.concatenate(right)) / rms(np.concatenate(right))
        print(f"{name}: rms error of forces {off:.1e} of their rms", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--draw", default="")
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--pairs", type=int, default=0)
    a = parser.parse_args()
    if a.pairs:
        of_pairs(a.pairs)
        return
    if a.seeds:
        by_seeds(a.seeds, a.steps)
        return
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
