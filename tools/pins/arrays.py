"""Systems of many numbers: chains, fields, bodies, neighbours, sums of systems."""

from __future__ import annotations

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def fput(q: tp.Vec["n"], p: tp.Vec["n"], beta: float = 0.75):
    d = np.diff(q, prepend=0, append=0)
    return (p**2).sum() / 2 + (d**2 / 2 + beta * d**4 / 4).sum()


@tp.hamiltonian
def wave(phi: tp.Array["n", "m"], pi: tp.Array["n", "m"]):
    return (pi**2).sum() / 2 + sum(((np.roll(phi, 1, axis) - phi) ** 2).sum() for axis in (0, 1)) / 2


@tp.hamiltonian
def cluster(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"], eps: float = 0.0625):
    d = q[:, None] - q[None, :]
    r = np.sqrt((d**2).sum(-1) + eps**2)
    return ((p**2).sum(-1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / r)


@tp.hamiltonian
def rotors(q: tp.Array["n", 34], p: tp.Array["n", 34], k: tp.Array["n", 34], t):
    """Sums along both axes, a largest element, functions, a clock."""
    column, row = q.sum(0), q.sum(1)
    return (
        (p**2).sum() / 2
        + (k * (1 - np.cos(q))).sum()
        + (column**2).sum() / 2
        + np.max(q) * np.cos(t) / 10
        + np.sin(row).sum()
    )


@tp.hamiltonian
def mean_field(q: tp.Vec["n"], p: tp.Vec["n"]):
    return (p**2).sum() / 2 - (np.cos(q).sum() ** 2 + np.sin(q).sum() ** 2) / 80


@tp.hamiltonian
def reversed_ends(q: tp.Vec["n"], p: tp.Vec["n"]):
    """Flips, strided slices, pads: indices that do not run along."""
    return (
        (p**2).sum() / 2 + ((q - q[::-1]) ** 2).sum() / 4 + (q[::2] ** 4).sum() / 4 + (q[3:-2] * q[5:]).sum()
    )


@tp.hamiltonian
def in_a_row(q: tp.Array["n", 36], p: tp.Array["n", 36], k: tp.Array["n", 36]):
    """Axes merged, rolled and split again, and every third number."""
    flat = q.reshape(-1)
    return (
        (p**2).sum() / 2
        + ((np.roll(flat, 1) - flat) ** 2).sum() / 2
        + (k * q**4).sum() / 4
        + np.cos(flat[1::3]).sum()
    )


@tp.hamiltonian
def ring(q: tp.Vec["n"], p: tp.Vec["n"], m: tp.Vec["n"], k: float = 0.75):
    d = np.roll(q, -1) - q
    return (p**2 / (2 * m)).sum() + (np.cosh(d) + k * (q - np.roll(q, 3)) ** 2).sum()


@tp.hamiltonian
def pendulums(q: tp.Vec["n"], p: tp.Vec["n"]):
    return (p**2).sum() / 2 + (np.diff(q) ** 2).sum() / 2 - np.cos(q).sum()


@tp.map
def shifted(x: tp.Array[4, "n", "m"], y: tp.Array["n", "m"], a: float = 0.25):
    total = x.sum(0)
    after = [x[k] + a * (total / 4 - x[k]) for k in range(4)]
    return np.stack([np.roll(after[k], (k - 1, 2 - k), (0, 1)) for k in range(4)]), total[::-1] + y


@tp.map
def carried(u: tp.Vec["n"], w: tp.Vec["n"], c: float = 0.25):
    """An upwind step: the old values are read while the new ones are stored."""
    return u - c * (u - np.roll(u, 1)), w + u * np.roll(w, -2)


@tp.map
def walk(x: tp.Array["n", 2], D: float = 0.5):
    return x + np.sqrt(2 * D) * tp.random.normal(x.shape)


@tp.map
def ising(spin: tp.Array["n", "n"], flip: tp.Array["n", "n"], beta: float = 0.5):
    field = sum(np.roll(spin, k, axis) for axis in (0, 1) for k in (1, -1))
    turned = tp.where(tp.random.uniform(spin.shape) < tp.exp(-2 * beta * spin * field), -spin, spin)
    return tp.where(flip > 0, turned, spin), -flip


@tp.hamiltonian
def curved_row(q: tp.Vec["n"], p: tp.Vec["n"]):
    """Does not split: equations are solved in loops."""
    return ((1 + q**2 / 8) * p**2).sum() / 2 + (np.diff(q) ** 2).sum() / 2


# --- neighbours -------------------------------------------------------------------------------------
@tp.hamiltonian
def liquid(q: tp.Array["n", 3], p: tp.Array["n", 3], L: float = 8.0, rc: float = 2.5):
    s6 = 1 / tp.pair_distance2(q, box=L, cutoff=rc) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s6 * s6 - s6))


@tp.hamiltonian
def switched(q: tp.Array["n", 3], p: tp.Array["n", 3], box: tp.Vec[3] = (8.0, 9.0, 10.0)):
    s6 = 1 / tp.pair_distance2(q, box=box, cutoff=2.5, switch=2.0) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s6 * s6 - s6))


@tp.hamiltonian
def tilted(q: tp.Array["n", 3], p: tp.Array["n", 3], cell: tp.Array[3, 3]):
    s6 = 1 / tp.pair_distance2(q, box=cell, cutoff=2.5) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s6 * s6 - s6))


@tp.hamiltonian
def open_space(q: tp.Array["n", 3], p: tp.Array["n", 3], rc: float = 2.5):
    s6 = 1 / tp.pair_distance2(q, cutoff=rc, shift=True) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s6 * s6 - s6))


@tp.hamiltonian
def flat_liquid(q: tp.Array["n", 2], p: tp.Array["n", 2], m: tp.Vec["n"], L: float = 8.0):
    r2 = tp.pair_distance2(q, box=L, cutoff=2.0)
    return ((p**2).sum(-1) / (2 * m)).sum() + tp.pair_sum(tp.exp(-r2))


# --- sums -------------------------------------------------------------------------------------------
@tp.hamiltonian
def chain(q: tp.Vec["n"], p: tp.Vec["n"]):
    stretch = np.diff(q)
    return p @ p / 2 + (stretch**2 / 2 + stretch**4 / 4).sum()


@tp.potential
def trap(q: tp.Vec["n"], k: float = 0.125):
    return k * (q @ q) / 2


@tp.potential
def lamps(q: tp.Vec["n"], t, a: float = 0.25):
    return a * tp.cos(t) * q.sum()


@tp.hamiltonian
def spring(q: tp.Vec[1], p: tp.Vec[1]):
    return p @ p / 2 + q @ q / 2


@tp.potential
def weak(q: tp.Vec[1], c: float = 0.25):
    return c * (q @ q) / 2


@tp.hamiltonian
def backbone(q: tp.Array["n", 3], p: tp.Array["n", 3], k: float = 100.0):
    d = q[1:] - q[:-1]
    return (p**2).sum() / 2 + k * ((np.sqrt((d**2).sum(1)) - 1) ** 2).sum() / 2


@tp.potential
def beads(q: tp.Array["n", 3], epsilon: float = 0.125):
    s6 = 1 / (tp.pair_distance2(q, cutoff=2.5) + 0.5) ** 3
    return tp.pair_sum(epsilon * s6)


# --- series in loops ----------------------------------------------------------------------------------
@tp.hamiltonian
def bodies(q: tp.Array["n", 2], p: tp.Array["n", 2], m: tp.Vec["n"]):
    d = q[:, None] - q[None, :]
    return ((p * p).sum(1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / tp.sqrt((d * d).sum(2)))
