"""The vortices of Taylor and Green: they keep their shape, and their decay rate gives the viscosity."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.fluids import density_and_velocity, fluid, taylor_green, viscosity

n, tau = 48, 0.8
start = dict(f=taylor_green(n, n, speed=0.01), tau=tau)
steps = 400

if __name__ == "__main__":
    out = tp.compile(fluid).evolve(**start, steps=steps, save_every=50)
    flows = [density_and_velocity(f)[1] for f in out.f]
    speeds = np.array([np.sqrt((u**2).mean()) for u in flows])
    for t, speed in zip(out.t, speeds):
        print(f"t = {t:4.0f}  " + "#" * round(50 * speed / speeds[0]))
    rate = -np.polyfit(out.t[1:], np.log(speeds[1:]), 1)[0]
    measured = rate / (2 * (2 * np.pi / n) ** 2)  # it fades as exp(-viscosity (kx**2 + ky**2) t)
    shape = (flows[0] * flows[-1]).sum() / np.sqrt((flows[0] ** 2).sum() * (flows[-1] ** 2).sum())
    print(
        f"viscosity {measured:.5f}, promised {viscosity(tau):.5f}; overlap of first and last flow {shape:.6f}"
    )
    assert abs(measured / viscosity(tau) - 1) < 0.01 and shape > 0.9999
