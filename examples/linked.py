"""Systems from the library, added: a flattened star that shines, a chain in a trap, molecules with bonds and charges."""
import numpy as np

import tinyphysics as tp
from tinyphysics.physics.additions import bonds, charges, oblateness, radiation_pressure, trap
from tinyphysics.physics.chains import mode_frequency, normal_mode, oscillators
from tinyphysics.physics.molecular import liquid
from tinyphysics.physics.particles import gravity

# --- gravity + oblateness + radiation_pressure: a grain of dust about a flat planet in its own light -------------
tilt, beta, J2, radius, turns = 0.4, 0.2, 1e-4, 0.5, 20
speed = np.sqrt(1 - beta)  # on a circle: light takes a fifth of the weight
momentum = speed * 1e-9 * np.array([0, np.cos(tilt), np.sin(tilt)])
grain = dict(q=[[0, 0, 0], [1, 0, 0]], p=[[0, 0, 0], momentum], m=[1.0, 1e-9])
period = 2 * np.pi / speed
sim = tp.compile(gravity + oblateness + radiation_pressure, dt=period / 200, order=4)
out = sim.evolve(**grain, J2=J2, radius=radius, beta=[0.0, beta], steps=200 * turns)
normal = np.cross(out.final.q[1] - out.final.q[0], out.final.p[1])
node = np.arctan2(normal[0], -normal[1])
# J2 pulls with the whole mass, and the light takes its part from the rest
expected = -1.5 * J2 * radius**2 * np.cos(tilt) * 2 * np.pi * turns / (1 - beta)
print(f"dust: the node went back by {-node:.3e} rad, expected {-expected:.3e}")
assert abs(node / expected - 1) < 5e-3

# --- chain + trap: every mode is stiffer -------------------------------------------------------------------------
n, k = 24, 0.7
sim = tp.compile(oscillators + trap, dt=0.01)
out = sim.evolve(**normal_mode(n, mode=3), stiffness=k, steps=5000, save_every=1)
first = out.q[:, 0]
swings = np.count_nonzero(first[1:] * first[:-1] < 0)
omega = np.sqrt(mode_frequency(n, 3) ** 2 + k)
print(f"chain: {swings} swings in {out.final.t:g}, expected {omega * out.final.t / np.pi:.1f}")
assert abs(swings - omega * out.final.t / np.pi) <= 1

# --- liquid + bonds + charges: pairs of opposite charges on springs ------------------------------------------------
side, count = 1.3, 216
sites = np.stack(np.meshgrid(*[np.arange(6) * side] * 3, indexing="ij"), -1).reshape(-1, 3)
pairs = [(i, i + 1) for i in range(0, count, 2)]
charge = np.where(np.arange(count) % 2, 0.3, -0.3)
p = np.random.default_rng(0).normal(size=(count, 3))
sim = tp.compile(liquid + bonds + charges, dt=0.002)
given = dict(box=[6 * side] * 3, bonds=pairs, k_bond=200.0, r0=side, charge=charge, cutoff=2.5)
out = sim.evolve(q=sites, p=p - p.mean(axis=0), **given, steps=500)
stretch = np.linalg.norm(out.final.q[1::2] - out.final.q[::2], axis=1)
print(f"molecules: {sim.system.linked}")
print(f"energy drift {out.drift('energy'):.1e}, bonds of {stretch.mean():.3f} +- {stretch.std():.3f}")
assert out.drift("energy") < 1e-3 and abs(stretch.mean() - side) < 0.1
assert sim.certificate.level == "symplectic"
