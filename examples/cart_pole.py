"""A pole falls over on a cart: two coordinates with coupled velocities, starting from rest."""

import numpy as np

import tinyphysics as tp


@tp.lagrangian(pairs=[("x", "v"), ("theta", "w")])
def cart_pole(x, v, theta, w, cart=1.0, pole=0.1, length=0.5, g=9.81):
    tip = pole * length * tp.cos(theta)
    return (cart + pole) * v**2 / 2 + tip * v * w + pole * length**2 * w**2 / 2 - g * tip


start = dict(x=0.0, v=0.0, theta=0.1, w=0.0)
dt = 0.002

if __name__ == "__main__":
    out = tp.compile(cart_pole, dt).evolve(**start, steps=2_000, save_every=20)
    middle = out.x + 0.1 * 0.5 / 1.1 * np.sin(out.theta)
    print(f"the cart moves by {np.ptp(out.x):.3f}, the centre of mass by {np.ptp(middle):.1e}")
    assert np.ptp(out.x) > 0.05 and np.ptp(middle) < 1e-4 and np.ptp(out.p_x) < 1e-12
