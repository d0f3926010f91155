"""A satellite between the Earth and the Moon, written as a differential equation: its orbit closes to ten digits."""

import numpy as np

import tinyphysics as tp


@tp.ode
def satellite(x: tp.Vec[2], v: tp.Vec[2], mu: float = 0.012277471):
    """In the frame that turns with the Moon: the Earth at (-mu, 0), the Moon at (1 - mu, 0)."""
    a, b = x
    earth = ((a + mu) ** 2 + b * b) ** 1.5
    moon = ((a - (1 - mu)) ** 2 + b * b) ** 1.5
    return v, tp.stack(
        [
            a + 2 * v[1] - (1 - mu) * (a + mu) / earth - mu * (a - (1 - mu)) / moon,
            b - 2 * v[0] - (1 - mu) * b / earth - mu * b / moon,
        ]
    )


# Arenstorf 1963, in the digits of Hairer, Norsett and Wanner, Solving Ordinary Differential Equations I
start = dict(x=[0.994, 0.0], v=[0.0, -2.00158510637908252240537862224])
period = 17.0652165601579625588917206249
dt = period / 100  # of frames: steps have their own lengths

if __name__ == "__main__":
    sim = tp.compile(satellite, dt)
    print(sim.explain())
    out = sim.evolve(**start, until=period, save_every=1)
    miss = np.abs(out.final.x - out.x[0]).max()
    print(
        f"{out.metrics['substeps']} steps of their own, 100 frames; it misses its starting point by {miss:.1e}"
    )
    assert miss < 1e-10
