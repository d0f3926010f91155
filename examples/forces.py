"""A force that has no energy: a spring that also pushes sideways spirals outwards at a known rate."""

import numpy as np

import tinyphysics as tp


@tp.forces
def swirl(q: tp.Vec[2], c: float = 0.02, mass: float = 1.0):
    x, y = q
    return -q + c * np.stack([-y, x])


# on x + iy the force is -(1 - ic): the frequency is sqrt(1 - ic), and its imaginary part is the growth
rate = -np.sqrt(1 - 0.02j).imag
start = dict(q=[1.0, 0.0], p=[-rate, 1.0])
dt, steps = 0.01, 10_000

if __name__ == "__main__":
    sim = tp.compile(swirl, dt)
    print(sim.explain())
    out = sim.evolve(**start, steps=steps, save_every=100)
    radius = np.linalg.norm(out.q, axis=1)
    fitted = np.polyfit(out.t, np.log(radius), 1)[0]
    print(f"the radius grows as exp({fitted:.6f} t); exactly exp({rate:.6f} t)")
    assert abs(fitted / rate - 1) < 1e-3
    try:
        print(out.energy)
    except tp.PlanError as error:
        print(f"no energy: {error}")
