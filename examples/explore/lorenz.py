"""Can a butterfly change the weather?  Two starts a millionth apart part after thirty turns."""

import numpy as np

import tinyphysics as tp


@tp.ode
def lorenz(z: tp.Vec[3], sigma: float = 10.0, rho: float = 28.0):
    x, y, w = z
    turn = sigma * (y - x)
    drive = x * (rho - w) - y
    decay = x * y - 8 / 3 * w
    return np.stack([turn, drive, decay])


sim = tp.compile(lorenz, dt=0.01, method="rk4")
start = dict(z=[1.0, 1.0, 20.0])
steps = 1200
