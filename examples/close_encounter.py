"""Three bodies fall together, two almost collide, and one is ejected: the Pythagorean problem (Burrau 1913)."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.particles import gravity

start = dict(m=[3.0, 4.0, 5.0], q=[[1.0, 3.0, 0.0], [-2.0, -1.0, 0.0], [1.0, -1.0, 0.0]], p=np.zeros((3, 3)))
dt, steps = 1e-4, 200_000  # of t
PAIRS = ([0, 0, 1], [1, 2, 2])


def closest(q):
    return tp.sqrt(((q[PAIRS[0], :] - q[PAIRS[1], :]) ** 2).sum(axis=1).min())


if __name__ == "__main__":
    # in steps of t, however short, the closest encounter ends it
    plain = tp.compile(gravity, dt, order=8, checks="off").evolve(**start, steps=steps)
    print(f"dt = {dt}: energy drift {plain.drift('energy'):.0e} by t = 20")

    # in steps of s, where dt = ds/(-V), bodies that meet take more of them
    sim = tp.compile(gravity, dt=0.02, time="logarithmic", order=8)
    out = sim.evolve(**start, until=63.0, save_every=1, observe={"r": closest})
    t, r = out.times("r"), out["r"]
    print(
        f"ds = 0.02: energy drift {out.drift('energy'):.0e} by t = {out.t[-1]:g}, in {out.steps[-1]:,} steps"
    )
    print(f"closest at t = {t[r.argmin()]:.4f}, at a distance of {r.min():.1e}")
    print(f"steps of t between {np.diff(out.t).min():.0e} and {np.diff(out.t)[:-1].max():.0e}")

    finer = tp.compile(gravity, dt=0.01, time="logarithmic", order=10).evolve(**start, until=63.0)
    off = np.abs(out.final.q - finer.final.q).max()
    print(f"at t = 63 the bodies are {off:.0e} from where smaller steps bring them: what rounding became")
    x = out.final.q - out.final.q[[1, 2]].mean(axis=0)
    print(
        f"the lightest is {np.linalg.norm(x[0]):.1f} from the others, which stay {np.linalg.norm(x[1] - x[2]):.2f} apart"
    )
    assert out.drift("energy") < 1e-11 < plain.drift("energy") and abs(t[r.argmin()] - 15.8299) < 1e-3
    assert r.min() < 5e-4 and off < 1e-3
