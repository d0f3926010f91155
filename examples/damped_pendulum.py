"""A driven pendulum with friction settles on an orbit; what the drive gives and friction takes is booked."""

import tinyphysics as tp


@tp.hamiltonian
def pendulum(q, p, t, gamma: float = 0.5):
    return p**2 / 2 - tp.cos(q) - 0.6 * q * tp.cos(2 * t / 3)


start = dict(q=0.2, p=0.0)
dt = 0.02
sim = tp.compile(pendulum, dt=dt, friction="gamma")
print(sim.certificate.level, "|", sim.certificate.conformally_symplectic.because)
out = sim.evolve(**start, until=60.0, frames=4)
books = out.ledger
for t, energy, taken, given in zip(out.t, out.energy, books["friction"], books["drive"]):
    print(
        f"t = {t:2.0f}: energy {energy:6.3f} + friction {taken:5.3f} - drive {given:5.3f} = {energy + taken - given:.4f}"
    )
print(f"drift of the sum, at every step: {out.drift('energy'):.0e}")
assert out.drift("energy") < 1e-3
