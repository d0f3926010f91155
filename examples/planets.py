"""The solar system for a century in steps of five days: Kepler orbits are solved exactly, and kicks do the rest."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.particles import BODIES, gravity, solar_system

start = solar_system()  # J2000; au, days, solar masses
dt, CENTURY = 5.0, 36525.0

if __name__ == "__main__":
    sim = tp.compile(gravity, dt, method="wisdom_holman_c5")
    out = sim.evolve(**start, until=CENTURY, observe={"energy": "energy"}, observe_every=487)
    print(sim.explain())
    other = tp.compile(gravity, dt=CENTURY / 5844, method="aba104").evolve(**start, steps=5844)
    away = np.linalg.norm(out.final.q - other.final.q, axis=1)
    print(
        f"{BODIES[away.argmax()]} is {away.max():.1e} au from where a method of order (10, 4) puts it, at twice the cost"
    )
    print(f"energy drift {np.ptp(out['energy'] / out['energy'][0]):.1e}")
    assert away.max() < 5e-8 and np.ptp(out["energy"] / out["energy"][0]) < 1e-9
