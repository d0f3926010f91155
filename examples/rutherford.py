"""Rutherford 1911: charges fired at a heavy nucleus are deflected by an angle that depends only on their aim."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.particles import coulomb

AIM = np.array(
    [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
)  # how far past the nucleus each would fly, in units of k Q q/(m v*v)
FAR = 200.0
q, p = np.zeros((len(AIM), 2, 3)), np.zeros((len(AIM), 2, 3))  # an ensemble: a nucleus and a charge in each
q[:, 1, 0], p[:, 1, 0] = -FAR, np.sqrt(1 - 2 / FAR)  # the speed that is 1 infinitely far away
q[:, 1, 1] = AIM / p[:, 1, 0]
start = dict(q=q, p=p, m=[1e9, 1.0], charge=[1.0, 1.0])
dt, steps = 0.02, 20_000

if __name__ == "__main__":
    out = tp.compile(coulomb, dt).evolve(**start, steps=steps)
    leaving = out.final.p[:, 1]
    angle = np.degrees(np.arctan2(leaving[:, 1], leaving[:, 0]))
    expected = np.degrees(2 * np.arctan(1 / AIM))
    for aim, found, exact in zip(AIM, angle, expected):
        print(f"aimed {aim:4.2f} beside it: turned by {found:6.2f} degrees, by Rutherford's law {exact:6.2f}")
    print(f"energy drift {out.drift('energy').max():.1e}")
    assert np.abs(angle / expected - 1).max() < 0.01 and out.drift("energy").max() < 1e-5
