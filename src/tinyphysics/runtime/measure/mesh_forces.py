"""How far are the forces of a mesh from those of a sum over all images?  In NumPy, for some of the particles.

Of charges in a box: near forces pair by pair, far ones on a mesh, written apart from the kernels. With a finer split and mesh
it is the converged sum that others are compared with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import erfc, pi, sqrt
from typing import Any

import numpy as np

Array = Any
# of the force of neighbours: below this all forces cancel, and what errors are then relative to
CANCELLED, OF_A_PAIR = 1e-3, 0.1
FEW = 4096  # particles whose softening is summed over the images next to the box
SHOWN = 256  # particles that are looked at
ERFC = np.frompyfunc(erfc, 1, 1)
SMOOTH = (2, 3, 5, 7)
# by order, of forces by differentiated waves; those of a gradient are some times as far off
FIRST = {4: 1.52e-2, 5: 6.56e-3, 6: 3.18e-3, 7: 1.70e-3, 8: 9.2e-4, 9: 5.0e-4, 10: 2.7e-4, 12: 8e-5}
OF_GRADIENT = 5.0


@dataclass(frozen=True)
class Way:
    """How a sum is done: lengths in units of the box."""

    alpha: float
    cutoff: float
    grid: tuple[int, int, int]
    order: int
    switch: float  # of the cutoff
    anchored: bool = True
    plain: bool = False  # all waves as they are, and splines not corrected for: a mesh alone


@dataclass(frozen=True, eq=False)
class Charges:
    """Particles in a box, and which of them are looked at."""

    q: Array
    c: Array
    cell: Array  # vectors as rows
    shown: Array
    mean: Array  # weights of a mean position
    soft: float = 0.0  # 1/sqrt(r² + this)

    @property
    def volume(self) -> float:
        return float(abs(np.linalg.det(self.cell)))

    @property
    def wide(self) -> float:
        return float(1 / np.linalg.norm(np.linalg.inv(self.cell), axis=0).max())

    @property
    def squares(self) -> float:
        return float((self.c**2).sum())


def slope_of_near(r: Array, way: Way, soft: float) -> Array:
    """-dE/dr of the near part of two unit charges, ended by its switch."""
    a, x = way.alpha, way.alpha * r
    far = 2 * a / sqrt(pi) * np.exp(-x * x) / r
    damped = ERFC(x).astype(float) / r
    force, value = damped / r + far, damped
    if soft:
        s = np.sqrt(r * r + soft)
        force, value = force + r / s**3 - 1 / r**2, value + 1 / s - 1 / r
    if way.switch >= 1.0:
        return force
    whole, on = way.cutoff**2, (way.switch * way.cutoff) ** 2
    t = np.clip((whole - r * r) / (whole - on), 0.0, 1.0)
    fade, slope = t**3 * (10 + t * (6 * t - 15)), 30 * t * t * (1 - t) ** 2 * (-2 * r / (whole - on))
    return force * fade - value * slope


def near_forces(s: Charges, way: Way) -> Array:
    """Of those that are shown; the cutoff is at most half the width of the box."""
    out, back = np.zeros((len(s.shown), 3)), np.linalg.inv(s.cell)
    for k, i in enumerate(s.shown):
        d = s.q[i] - s.q
        d -= np.rint(d @ back) @ s.cell
        r = np.sqrt((d * d).sum(1))
        near = (r < way.cutoff) & (np.arange(len(r)) != i)
        r, d = r[near], d[near]
        out[k] = s.c[i] * ((s.c[near] * slope_of_near(r, way, s.soft) / r)[:, None] * d).sum(0)
    return out


def splines(u: Array, order: int) -> tuple[Array, Array]:
    """Weights (n, order) and their derivatives."""
    w = np.stack([1 - u, u], -1)
    before = w
    for k in range(3, order + 1):
        before, new = w, np.zeros((len(u), k))
        for j in range(k):
            if j:
                new[:, j] += (u + k - 1 - j) * w[:, j - 1]
            if j < k - 1:
                new[:, j] += (j + 1 - u) * w[:, j]
        w = new / (k - 1)
    zero = np.zeros((len(u), 1))
    if order == 2:
        before = np.ones((len(u), 1))
    return w, np.concatenate([zero, before], 1) - np.concatenate([before, zero], 1)


def on_grid(s: Charges, way: Way, which: Array) -> tuple[Array, list[Array], list[Array], list[Array]]:
    """For each axis the nodes, weights and their derivatives of some particles."""
    q = s.q - (s.mean[:, None] * s.q).sum(0) if way.anchored else s.q
    f = (q[which] @ np.linalg.inv(s.cell)) * np.array(way.grid)
    below = np.floor(f)
    nodes, weights, slopes = [], [], []
    for a, n in enumerate(way.grid):
        w, dw = splines(f[:, a] - below[:, a], way.order)
        nodes.append((below[:, a].astype(int)[:, None] - (way.order - 1) + np.arange(way.order)) % n)
        weights.append(w)
        slopes.append(dw)
    return f, nodes, weights, slopes


def numbers_of_mesh(s: Charges, way: Way) -> Array:
    from tinyphysics.planner.systems.mesh import deconvolved

    m = [np.fft.fftfreq(n, 1 / n) for n in way.grid]
    k = np.stack(np.meshgrid(*m, indexing="ij"), -1) @ (2 * pi * np.linalg.inv(s.cell).T)
    k2 = (k * k).sum(-1)
    k2[0, 0, 0] = 1.0
    g = 4 * pi / s.volume * np.exp(-k2 / (4 * way.alpha**2)) / k2
    g[0, 0, 0] = 0.0
    for a, n in enumerate(() if way.plain else way.grid):
        g = g * np.array(deconvolved(way.order, n)).reshape([-1 if b == a else 1 for b in range(3)])
    return g


def far_forces(s: Charges, way: Way) -> Array:
    from tinyphysics.planner.systems.mesh import overlap

    everyone = np.arange(len(s.q))
    _, nodes, w, _ = on_grid(s, way, everyone)
    mesh = np.zeros(int(np.prod(way.grid)))
    K = way.grid
    for i in range(way.order):
        for j in range(way.order):
            ab = s.c * w[0][:, i] * w[1][:, j]
            row = (nodes[0][:, i] * K[1] + nodes[1][:, j]) * K[2]
            at = row[:, None] + nodes[2]
            mesh += np.bincount(at.ravel(), (ab[:, None] * w[2]).ravel(), len(mesh))
    g = numbers_of_mesh(s, way)
    seen = np.fft.ifftn(np.fft.fftn(mesh.reshape(K)) * g).real.ravel() * np.prod(K)
    # the sum of all forces is needed where positions are relative to a mean
    which = everyone if way.anchored else s.shown
    f, nodes, w, dw = on_grid(s, way, which)
    out = np.zeros((len(which), 3))
    for i in range(way.order):
        for j in range(way.order):
            row = (nodes[0][:, i] * K[1] + nodes[1][:, j]) * K[2]
            v = seen[row[:, None] + nodes[2]]
            line, slope = (w[2] * v).sum(1), (dw[2] * v).sum(1)
            out[:, 0] += dw[0][:, i] * w[1][:, j] * line
            out[:, 1] += w[0][:, i] * dw[1][:, j] * line
            out[:, 2] += w[0][:, i] * w[1][:, j] * slope
    force = -s.c[which, None] * out
    if way.anchored:
        plain = [np.array(overlap(way.order, n, 0)) for n in K]
        for a, n in enumerate(K):
            for h in (1, 2):
                parts = [np.array(overlap(way.order, n, h)) if b == a else plain[b] for b in range(3)]
                size = float((g * parts[0][:, None, None] * parts[1][:, None] * parts[2]).sum())
                force[:, a] -= s.c[which] ** 2 * size * 2 * pi * h * np.sin(2 * pi * h * f[:, a])
    force = force @ (np.array(K)[:, None] * np.linalg.inv(s.cell).T)
    if way.anchored:
        force = (force - s.mean[:, None] * force.sum(0))[s.shown]
    return force


def forces(s: Charges, way: Way) -> Array:
    return near_forces(s, way) + far_forces(s, way)


def rms(x: Array) -> float:
    return float(np.sqrt((x * x).sum(-1).mean()))


# --- estimates -------------------------------------------------------------------------------------------------------------
def near_error(s: Charges, way: Way) -> float:
    """Of random charges: what the end of the near part leaves out (Kolafa & Perram 1992), with its switch."""
    r = np.linspace(way.switch * way.cutoff, way.cutoff * 1.5, 200)
    plain = slope_of_near(r, replace(way, switch=1.0), 0.0)
    ended = np.where(r < way.cutoff, slope_of_near(r, way, 0.0), 0.0)
    if s.soft:
        plain = plain - np.where(r > way.cutoff, 1.5 * s.soft / r**4, 0.0)
    inside = 4 * pi * r * r * (plain - ended) ** 2
    tail = 4 * pi * (1.5 * s.soft) ** 2 / (5 * r[-1] ** 5) if s.soft else 0.0
    total = float(((inside[1:] + inside[:-1]) / 2 * np.diff(r)).sum()) + tail
    return float(s.squares / sqrt(len(s.q) * s.volume) * sqrt(total))


def mesh_error(s: Charges, way: Way) -> float:
    """Of random charges on a mesh: it falls like (alpha*h)**order (Deserno & Holm 1998, first term)."""
    side = s.volume ** (1 / 3)
    h = max(np.linalg.norm(s.cell, axis=1) / np.array(way.grid))
    p = way.order
    density = sqrt(way.alpha * side * sqrt(2 * pi)) * s.squares / sqrt(len(s.q)) / side**2
    return float(OF_GRADIENT * FIRST[p] * (way.alpha * h) ** p * density)


def sizes(least: float) -> int:
    """The next number of nodes with small prime factors."""
    n = max(4, int(np.ceil(least)))
    while True:
        m = n
        for p in SMOOTH:
            while m % p == 0:
                m //= p
        if m == 1 and n % 2 == 0:
            return n
        n += 1


def cost(s: Charges, way: Way) -> float:
    """About the nanoseconds of a force on one core with vectors of eight numbers (bench/long_range.py)."""
    n = len(s.q)
    pairs = n * n / s.volume * 2 / 3 * pi * (1.1 * way.cutoff) ** 3
    nodes = float(np.prod(way.grid))
    return float(5.8 * pairs + n * (0.6 * way.order**3 + 210) + nodes * 0.55 * np.log2(nodes))


def candidates(s: Charges, near: float, far: float, switch: float, anchored: bool, orders: Any) -> list[Way]:
    """For some cutoffs and orders the largest split and the coarsest mesh with these errors, the cheapest first."""
    out: list[Way] = []
    spacing = (s.volume / len(s.q)) ** (1 / 3)
    for cutoff in np.geomspace(min(1.2 * spacing, 0.45 * s.wide), 0.45 * s.wide, 24):
        low, high = 0.1 / cutoff, 12.0 / cutoff
        for _ in range(40):
            middle = (low + high) / 2
            wide = near_error(s, Way(middle, float(cutoff), (4, 4, 4), 4, switch)) > near
            low, high = (middle, high) if wide else (low, middle)
        if near_error(s, Way(high, float(cutoff), (4, 4, 4), 4, switch)) > 1.01 * near:
            continue  # what softening leaves beyond the cutoff is more
        for order in orders:
            h = spacing * 4
            way = Way(float(high), float(cutoff), (4, 4, 4), order, switch, anchored)
            while h > spacing / 64:
                a, b, c = (sizes(max(x / h, 2 * order)) for x in np.linalg.norm(s.cell, axis=1))
                way = replace(way, grid=(a, b, c))
                if mesh_error(s, way) <= far:
                    out.append(way)
                    break
                h /= 1.06
    return sorted(out, key=lambda w: cost(s, w))


@dataclass(frozen=True)
class Found:
    """A way that was measured: the rms error of forces, and their own rms."""

    way: Way
    error: float
    size: float

    @property
    def relative(self) -> float:
        return self.error / self.size


ORDERS = (4, 5, 6, 7, 8)
CONVERGED, SHARE, ROUNDS = 200.0, 0.55, 8  # times as exact as the goal; what each part may have of it; tries


def converged(sums: list[Charges], goal: float) -> Array:
    """The forces of a finer way, on those that are shown."""
    out = 0.0
    for s in sums:
        spacing = (s.volume / len(s.q)) ** (1 / 3)
        typical = s.squares / len(s.q) / spacing**2
        error = max(goal / CONVERGED, 2e-13) * typical
        plain = replace(s, soft=0.0)
        found = candidates(plain, error, error, 1.0, False, (8, 10, 12))
        if not found:
            raise CannotMeet(f"no mesh is fine enough to measure {goal:g} against")
        out = out + forces(plain, found[0]) + (softening(s) if s.soft else 0.0)
    return out


def softening(s: Charges) -> Array:
    """What 1/sqrt(r² + soft) adds to the forces of 1/r: of all pairs and the next images, where they are not too many."""
    back, out = np.linalg.inv(s.cell), np.zeros((len(s.shown), 3))
    next_to = [(a, b, c) for a in (-1, 0, 1) for b in (-1, 0, 1) for c in (-1, 0, 1)]
    images = np.array(next_to if len(s.q) <= FEW else [(0, 0, 0)], float) @ s.cell
    for k, i in enumerate(s.shown):
        nearest = s.q[i] - s.q
        nearest -= np.rint(nearest @ back) @ s.cell
        for shift in images:
            d = nearest + shift
            r2 = (d * d).sum(1)
            there = r2 > 0.0
            d, r2 = d[there], r2[there]
            out[k] += s.c[i] * ((s.c[there] * ((r2 + s.soft) ** -1.5 - r2**-1.5))[:, None] * d).sum(0)
    return out


class CannotMeet(Exception):
    """No way has this error; the text says what was tried."""


def measured(sums: list[Charges], way: Way, right: Array) -> Found:
    total = sum(forces(s, way) for s in sums)
    return Found(way, rms(total - right), size_of(sums, right))


def size_of(sums: list[Charges], right: Array) -> float:
    """The rms of forces; where they cancel, as in a crystal at rest, a tenth of that of neighbours."""
    pair = sqrt(sum((s.squares / len(s.q) ** (1 / 3) / s.volume ** (2 / 3)) ** 2 for s in sums))
    own = rms(right)
    return own if own > CANCELLED * pair else OF_A_PAIR * pair


def chosen(sums: list[Charges], goal: float, switch: float, anchored: bool) -> Found:
    """The cheapest way whose forces, measured on some particles, are within the goal, and not far below."""
    right = converged(sums, goal)
    size, near, far, best = size_of(sums, right), 1.0, 1.0, None
    largest = max(sums, key=lambda s: s.squares)
    for _ in range(ROUNDS):
        each = SHARE * goal * size / sqrt(len(sums))
        ways = candidates(largest, each / near, each / far, switch, anchored, ORDERS)
        if not ways:
            break
        found = measured(sums, ways[0], right)
        if found.relative <= goal and (best is None or found.relative > best.relative):
            best = found
        if 0.25 * goal <= found.relative <= 0.97 * goal:
            break
        own, mesh = near_error(largest, ways[0]) * near, mesh_error(largest, ways[0]) * far
        rest = found.error**2 - own**2
        if rest > 0.25 * found.error**2:
            far *= min(max(sqrt(rest) / mesh, 0.1), 10.0)
        else:
            near *= min(max(found.error / sqrt(own**2 + mesh**2), 0.3), 3.0)
            far *= min(max(found.error / sqrt(own**2 + mesh**2), 0.3), 3.0)
    if best is None:
        raise CannotMeet(f"no mesh was found whose forces are right to {goal:g}")
    return best
