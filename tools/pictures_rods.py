"""Pictures of motion with constraints."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def masses(q: tp.Array[2, 2], p: tp.Array[2, 2]):
    return (p * p).sum() / 2 + q[:, 1].sum()


@tp.constraint
def rods(q: tp.Array[2, 2]):
    between = q[1] - q[0]
    return tp.stack([q[0] @ q[0], between @ between]) - 1


ANGLES = np.array([2.0, 2.5])
START = dict(q=np.cumsum(np.stack([np.sin(ANGLES), -np.cos(ANGLES)], axis=1), axis=0), p=np.zeros((2, 2)))


def draw_rods(left, middle, right) -> None:
    out = tp.compile(masses + rods, dt=0.01, order=4).evolve(**START, until=30.0, save_every=1)
    left.plot(*out.q[:, 1].T, lw=0.7, color="tab:blue")
    for k in (0, 400, 800):
        left.plot(*np.vstack([[0, 0], out.q[k]]).T, "o-", color=str(0.6 - k / 2000), ms=4, lw=1.2)
    left.set(title="a double pendulum on two rods", xlabel="x", ylabel="y", aspect="equal")
    tension = 2 * out.multipliers("rods")
    for k, name in enumerate(("upper rod", "lower rod")):
        middle.plot(out.t, tension[:, k], lw=0.8, label=name)
    middle.axhline(0, color="0.7", lw=0.7)
    middle.set(title="tension; below 0 a rod is pushed", xlabel="t")
    middle.legend(loc="upper right")
    for name in ("rattle", "rattle4", "rattle6"):
        run = tp.compile(masses + rods, dt=0.01, method=name).evolve(**START, until=100.0, frames=2)
        t, energy, _ = run.every_step("energy")
        off = np.maximum.accumulate(np.abs(energy - energy[0]))
        right.semilogy(t[1:], np.maximum(off[1:], 1e-16), lw=1.0, label=name)
    right.set(title="largest energy error so far", xlabel="t")
    right.legend(loc="lower right")
