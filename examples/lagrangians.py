"""Five machines from their Lagrangians: no forces, no momenta, no mass matrix written by hand."""
import numpy as np

import tinyphysics as tp


@tp.lagrangian
def double_pendulum(q: tp.Vec[2], v: tp.Vec[2], g: float = 9.81):
    a, b = q
    kinetic = v[0] ** 2 + v[1] ** 2 / 2 + v[0] * v[1] * tp.cos(a - b)
    return kinetic + 2 * g * tp.cos(a) + g * tp.cos(b)


@tp.lagrangian(pairs=[("theta", "w"), ("phi", "u")])
def spherical_pendulum(theta, w, phi, u, g=9.81):
    return (w**2 + (u * tp.sin(theta)) ** 2) / 2 + g * tp.cos(theta)


@tp.lagrangian(pairs=[("x", "v"), ("theta", "w")])
def cart_pole(x, v, theta, w, cart=1.0, pole=0.1, length=0.5, g=9.81):
    tip = pole * length * tp.cos(theta)
    return (cart + pole) * v**2 / 2 + tip * v * w + pole * length**2 * w**2 / 2 - g * tip


@tp.lagrangian
def chain(q: tp.Vec[5], v: tp.Vec[5], g: float = 9.81):
    """Five rods of length 1 with a mass of 1 at the end of each."""
    height = x = y = total = 0.0
    for k in range(5):
        x, y = x + v[k] * tp.cos(q[k]), y + v[k] * tp.sin(q[k])
        height = height - tp.cos(q[k])
        total = total + (x**2 + y**2) / 2 - g * height
    return total


@tp.lagrangian
def hoop(q, v, spin=5.0, radius=1.0, g=9.81):
    """A bead on a hoop that is turned about a vertical diameter."""
    return radius**2 * (v**2 + (spin * tp.sin(q)) ** 2) / 2 + radius * g * tp.cos(q)


sim = tp.compile(double_pendulum, dt=0.01, method="galerkin4")
out = sim.evolve(q=[2.0, 2.5], v=[0.0, 0.0], steps=10_000, save_every=100)
print(f"double pendulum: energy within {np.ptp(out.energy):.1e} for {out.t[-1]:g} s")
assert np.ptp(out.energy) < 1e-3

out = tp.compile(spherical_pendulum, dt=0.01).evolve(theta=1.0, w=0.0, phi=0.0, u=2.0, steps=5_000, save_every=10)
print(f"spherical pendulum: angular momentum {out.p_phi[0]:.6f}, changed by {np.ptp(out.p_phi):.1e}")
assert np.ptp(out.p_phi) < 1e-12

out = tp.compile(cart_pole, dt=0.002).evolve(x=0.0, v=0.0, theta=0.1, w=0.0, steps=2_000, save_every=20)
middle = out.x + 0.1 * 0.5 / 1.1 * np.sin(out.theta)
print(f"cart and pole: the centre of mass stays within {np.ptp(middle):.1e} while the cart moves by {np.ptp(out.x):.2f}")
assert np.ptp(middle) < 1e-4 and np.ptp(out.p_x) < 1e-12

out = tp.compile(chain, dt=0.005, method="variational_midpoint").evolve(
    q=np.linspace(0.4, 0.8, 5), v=np.zeros(5), steps=2_000, save_every=20)  # fmt: skip
print(f"five links: energy {out.energy[0]:.3f}, within {np.ptp(out.energy):.1e}")
assert np.ptp(out.energy) < 2e-2

rest = np.arccos(9.81 / 5.0**2)  # where the bead can stay, away from the lowest point
out = tp.compile(hoop, dt=0.01).evolve(q=rest + 0.01, v=0.0, steps=2_000, save_every=1)
print(f"bead on a hoop: it swings about {np.degrees(out.q.mean()):.2f} degrees, where it is at rest: {np.degrees(rest):.2f}")
assert abs(out.q.mean() - rest) < 1e-3
