"""Liquid argon at 85 K, melted from a crystal: its energy, its pressure, and how far apart its atoms are."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.molecular import lennard_jones, lennard_jones_tail, liquid
from tinyphysics.physics.starts import lattice, maxwell

KELVIN, ANGSTROM = 119.8, 3.405  # epsilon/kB and sigma of argon; below, both are 1
T, density, cutoff = 0.71, 0.83918, 3.0  # the liquid that boils at 85 K
# whole potential, by NIST: SAT-TMMC, liquid-vapor coexistence properties, long-range corrections
ENERGY, PRESSURE = -6.0621, 0.0016
measured = {"T": tp.physics.temperature(), "P": tp.physics.pressure(), "V": tp.physics.potential_energy()}
often = {"observe": measured, "observe_every": 10}
q, box = lattice("fcc", 4, density=density)
n, dt, given = len(q), 0.005, {"box": box, "cutoff": cutoff}
p = maxwell(n, 3.0, seed=3)  # hot: the crystal melts
start = dict(q=q, p=p, **given)

if __name__ == "__main__":
    sim = tp.compile(liquid, dt)
    for _ in range(40):  # and is cooled down
        melt = sim.evolve(q=q, p=p, **given, steps=100, **often)
        q, p = melt.final.q, melt.final.p * np.sqrt(T / melt["T"][5:].mean())
    out = sim.evolve(q=q, p=p, **given, steps=5000, save_every=50, **often)

    r, g = tp.physics.radial_distribution(out.q, box, bins=100)
    near = r < cutoff
    shift = lennard_jones(cutoff**2) * 2 * np.pi * density * (g * r**2)[near].sum() * (r[1] - r[0])
    beyond = lennard_jones_tail(density, cutoff)  # the published values are of the whole potential
    energy, pressure = out["V"].mean() / n + shift + beyond[0], out["P"].mean() + beyond[1]
    drift = np.ptp(out.energy) / abs(out.energy[0])  # of the frames; out.drift("energy") looks at every step
    moved = np.sqrt(tp.physics.msd(out.q)[-1])
    print(
        f"at {out['T'].mean() * KELVIN:.1f} K, energy drift {drift:.0e}, an atom has gone {moved:.1f} sigma"
    )
    print(
        f"energy of an atom {energy:.3f} (NIST {ENERGY:.3f}), pressure {pressure:.3f} (NIST {PRESSURE:.3f})"
    )
    print(
        f"neighbours are {r[g.argmax()] * ANGSTROM:.2f} angstrom apart (Rahman 1964: 3.7), g = {g.max():.2f}"
    )
    assert abs(out["T"].mean() - T) < 0.04 and drift < 1e-3
    assert (
        abs(energy - ENERGY) < 0.06 and abs(pressure - PRESSURE) < 0.3 and moved > 1
    )  # what 256 atoms can tell
    assert abs(r[g.argmax()] * ANGSTROM - 3.7) < 0.1 and 2.8 < g.max() < 3.2
