"""A Poincaré section of Hénon and Heiles: where the orbit crosses x = 0."""

import tinyphysics as tp


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    x, y = q
    return (p @ p + q @ q) / 2 + x**2 * y - y**3 / 3


sim = henon_heiles.compile(method="taylor")
out = sim.evolve(q=[0.0, 0.1], p=[0.45, 0.1], until=60.0, events={"section": lambda q: q[0]})
found = out.events("section")
print("crossings:", len(found.t))
print("all on x = 0:", bool(abs(found.q[:, 0]).max() < 1e-12))

# prints: crossings: 18
# prints: all on x = 0: True
