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


@tp.hamiltonian
def mass(q: tp.Vec[2], p: tp.Vec[2], g: float = 1.0):
    return p @ p / 2 + g * q[1]


@tp.constraint
def rod(q: tp.Vec[2]):
    return q @ q - 1


def draw_pendulum(left, middle, right) -> None:
    start = dict(q=[np.sin(2), -np.cos(2)], p=[0.0, 0.0])
    out = tp.compile(mass + rod, dt=0.01).evolve(**start, until=20.0, save_every=1)
    first = out.t <= 2.2
    left.plot(*out.q[first].T, color="0.8", lw=0.8)
    for k in range(0, int(first.sum()), 40):
        left.plot(*np.vstack([[0, 0], out.q[k]]).T, "o-", color=str(0.8 - k / 300), ms=4, lw=1.0)
    left.set(title="a mass on a rod falls from 2 rad", xlabel="x", ylabel="y", aspect="equal")
    middle.plot(out.t, 2 * out.multipliers("rod"), lw=1.0)
    middle.axhline(0, color="0.7", lw=0.7)
    middle.set(title="tension; below 0 the rod pushes", xlabel="t")
    for dt in (0.04, 0.02, 0.01):
        run = tp.compile(mass + rod, dt=dt).evolve(**start, until=20.0, frames=2)
        t, energy, _ = run.every_step("energy")
        right.semilogy(t[1:], np.maximum(np.abs(energy - energy[0])[1:], 1e-9), lw=0.9, label=f"dt = {dt}")
    right.set(title="error of the energy: falls as dt squared", xlabel="t", ylim=(1e-8, 3e-2))
    right.legend(loc="upper right", ncol=3, fontsize=7, handlelength=1.0, columnspacing=0.8)


@tp.hamiltonian
def chain(q: tp.Array["n", 2], p: tp.Array["n", 2]):
    return (p * p).sum() / 2 + q[:, 1].sum()


@tp.constraint
def links(q: tp.Array["n", 2]):
    d = tp.concatenate([q[:1], q[1:] - q[:-1]])
    return (d * d).sum(-1) - 1


def draw_whip(left, right) -> None:
    n = 1000
    level = dict(q=np.stack([np.arange(1.0, n + 1), np.zeros(n)], axis=1), p=np.zeros((n, 2)))
    out = tp.compile(chain + links, dt=0.01).evolve(**level, until=40.0, save_every=800)
    tension = 2 * out.multipliers("links")
    for k, t in enumerate(out.t):
        shade = (0.75 - 0.75 * k / len(out.t),) * 3
        left.plot(*np.vstack([[0, 0], out.q[k]]).T, lw=1.1, color=shade)
        left.annotate(f"{t:.0f}", out.q[k, -1], fontsize=7)
        right.plot(np.arange(n), tension[k], lw=1.0, color=shade, label=f"t = {t:.0f}")
    left.set(title="1,000 links, level at first", xlabel="x", ylabel="y", aspect="equal")
    right.set(title="tension along the chain", xlabel="link")
    right.legend(loc="upper right", ncols=2)
