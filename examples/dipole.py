"""A charge in the field of a magnetic dipole circles the field lines and turns back near the poles; H mixes q and p."""

import tinyphysics as tp


@tp.hamiltonian
def dipole(q: tp.Vec[3], p: tp.Vec[3], moment: float = 60.0):
    """Mass and charge 1; A = moment (-y, x, 0)/r**3."""
    x, y, z = q
    a = moment / (x * x + y * y + z * z) ** 1.5
    return ((p[0] + a * y) ** 2 + (p[1] - a * x) ** 2 + p[2] ** 2) / 2


def turning(q, p):
    """The canonical angular momentum about the axis: a quadratic invariant, which collocation keeps."""
    return q[0] * p[1] - q[1] * p[0]


start = dict(q=[3.0, 0.0, 0.0], p=[0.0, 0.45 + 60.0 / 9, 0.3])
dt = 0.02
sim = tp.compile(dipole, dt=dt, order=4)
print(sim.built.plan.method, "|", sim.certificate.symplectic.because)
out = sim.evolve(**start, steps=40_000, save_every=20, observe={"turning": turning})
solver = out.metrics["solver"]
z = out.q[:, 2]
bounces = int(((z[1:] > 0) != (z[:-1] > 0)).sum())
print(f"{bounces} times through the equator, never further out than {abs(z).max():.2f}")
L = out["turning"]
lost = abs(L - L[0]).max() / abs(L[0])
print(f"energy drift {out.drift('energy'):.1e}, of the angular momentum {lost:.1e}")
print(f"{solver['rounds']:.1f} rounds a step, residuals up to {solver['residual']:.0e}")
assert bounces > 10 and out.drift("energy") < 1e-5 and lost < 1e-12 and solver["residual"] < 1e-13
