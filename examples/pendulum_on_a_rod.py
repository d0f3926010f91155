"""A pendulum in x and y: a mass on a rod, without an angle."""

import tinyphysics as tp


@tp.hamiltonian
def mass(q: tp.Vec[2], p: tp.Vec[2], g: float = 1.0):
    return p @ p / 2 + g * q[1]


@tp.constraint
def rod(q: tp.Vec[2]):
    return q @ q - 1


pendulum = mass + rod
start = dict(q=[1.0, 0.0], p=[0.0, 0.0])
dt = 0.01

if __name__ == "__main__":
    out = tp.compile(pendulum, dt).evolve(**start, until=20.0)
    print(f"length {abs(out.final.q @ out.final.q) ** 0.5:.12f}, energy drift {out.drift('energy'):.0e}")
    assert abs(out.final.q @ out.final.q - 1) < 1e-14 and out.drift("energy") < 1e-4
