"""The Sun and eight planets for four years: their periods match the almanac, and the Sun wobbles."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.particles import BODIES, gravity, solar_system

start = solar_system()  # J2000; au, days, solar masses
dt, steps = 1.0, 1461
ALMANAC = {"Mercury": 87.97, "Venus": 224.70, "Earth": 365.26, "Mars": 686.98}

if __name__ == "__main__":
    sim = tp.compile(gravity, dt)
    out = sim.evolve(**start, steps=steps, save_every=1)
    print(sim.explain())
    for name, days in ALMANAC.items():
        x, y, _ = (out.q[:, BODIES.index(name)] - out.q[:, 0]).T
        turns = np.unwrap(np.arctan2(y, x)) / (2 * np.pi)
        whole = np.floor(turns[-1] - turns[0])
        year = np.interp(whole, turns - turns[0], out.t) / whole
        print(f"{name}: {year:.2f} days, the almanac says {days:.2f}")
        assert abs(year / days - 1) < 3e-3
    wobble = np.linalg.norm(out.q[:, 0], axis=1).max() * 1.495978707e8 / 6.957e5
    print(f"the Sun is up to {wobble:.2f} of its radii away from the centre of mass")
    print(
        f"energy drift {out.drift('energy'):.1e}, total momentum {np.abs(out.final.p.sum(axis=0)).max():.1e}"
    )
    assert out.drift("energy") < 5e-6 and 0.5 < wobble < 2.2
