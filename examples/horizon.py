"""A chaotic orbit in float64 and in pairs of float64: how long can you trust each of them?"""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    x, y = q
    return p @ p / 2 + (x * x + y * y) / 2 + x * x * y - y**3 / 3


start = dict(q=[0.0, -0.2], p=[0.4412, 0.1])  # of energy 1/8, and chaotic
dt, until = 1 / 64, 1000.0  # dt is that of float64


def orbit(steps_per_time=64, **options):
    """The positions at t = 0, 1, 2, ..."""
    sim = tp.compile(henon_heiles, dt=1 / steps_per_time, method="kahan_li8", **options)
    return sim.evolve(**start, until=until, save_every=steps_per_time).q


def lost(a, b, by=1e-3):
    """The first time at which two runs are further apart."""
    off = np.abs(a - b).max(axis=1) > by
    return float(np.argmax(off)) if off.any() else until


if __name__ == "__main__":
    finest = orbit(512, precision="dd")
    runs = {"float64": orbit(), "dd, the same dt": orbit(precision="dd"), "dd": orbit(256, precision="dd")}
    ends = {name: lost(run, finest) for name, run in runs.items()}
    for name, end in ends.items():
        print(f"{name:16} t = {end:4.0f}")
    assert ends["float64"] + 200 < ends["dd"]
