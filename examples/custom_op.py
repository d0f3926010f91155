"""An operation of your own, with its derivative: a box with soft walls, and a law for its pressure."""

import numpy as np

import tinyphysics as tp

softplus = tp.op(
    "softplus",
    lambda x: tp.maximum(x, 0.0) + tp.log1p(tp.exp(-abs(x))),  # no overflow on either side
    lambda x: (1 / (1 + tp.exp(-x)),),
)


@tp.hamiltonian
def box(q, p, width=1.0, steep=40.0):
    return p**2 / 2 + softplus(steep * (abs(q) - width))


start = dict(q=0.0, p=1.5)
dt, steps = 0.002, 20_000

if __name__ == "__main__":
    out = tp.compile(box, dt).evolve(**start, steps=steps, save_every=10)
    print(f"energy drift {out.drift('energy'):.1e}; the particle stays within {np.abs(out.q).max():.3f}")
    force = (abs(out.p[1:] - out.p[:-1]).sum()) / (2 * out.t[-1])  # on one of the two walls
    print(f"mean force on a wall {force:.3f}; p*p/length would be {1.5**2 / 2:.3f} between hard walls")
    assert out.drift("energy") < 1e-3
    assert abs(force / (1.5**2 / 2) - 1) < 0.1
