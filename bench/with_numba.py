"""The workloads with Numba: loops over tiles of lanes, time inside, one thread.

Its sine is the C library's, one number at a time, unless Intel's SVML is installed; an expert who wants
vectors writes the polynomial out, so both are measured. The polynomial leaves out `reassoc`, which would
cancel the constant that rounds.
"""
from __future__ import annotations

import math

import numba
import numpy as np

NOTE = "Numba's vector mathematics (SVML) is " + ("used" if numba.config.USING_SVML else "not installed")
CAREFUL = {"contract", "nsz", "arcp", "nnan", "ninf"}
TILE = 1_024  # of 16 to 1,024 lanes the fastest with the polynomial; the state of a tile stays in the first cache
ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer


@numba.njit(fastmath=CAREFUL, inline="always")
def sine(x):
    m = (x * 0.31830988618379067154 + ROUND) - ROUND
    r = (x - m * 3.141592653589793116) - m * 1.2246467991473531772e-16
    half = 0.5 * m
    sign = 1.0 - 4.0 * abs(half - ((half + ROUND) - ROUND))  # of an odd m
    u = r * r
    y = u * 2.7313658674940167149e-15 - 7.6439639659253566632e-13
    y = u * y + 1.6058977114074673292e-10
    y = u * y - 2.5052107613934760316e-8
    y = u * y + 2.7557319219139182201e-6
    y = u * y - 0.00019841269841254884688
    y = u * y + 0.0083333333333333157466
    y = u * y - 0.16666666666666666633
    return sign * (r * u * y + r)


@numba.njit(fastmath=True)
def leapfrog_library(Q, P, dt, n):
    q, p = np.empty(32), np.empty(32)
    for o in range(0, Q.size, 32):
        for j in range(32):
            q[j], p[j] = Q[o + j], P[o + j] - 0.5 * dt * math.sin(Q[o + j])
        for i in range(n):
            h = 0.5 * dt if i == n - 1 else dt
            for j in range(32):
                q[j] += dt * p[j]
                p[j] -= h * math.sin(q[j])
        for j in range(32):
            Q[o + j], P[o + j] = q[j], p[j]


@numba.njit(fastmath=CAREFUL)
def composed(Q, P, drifts, kicks, last, n):
    """Drifts and kicks in turn, n times over, then the last drift."""
    q, p = np.empty(TILE), np.empty(TILE)
    for o in range(0, Q.size, TILE):
        for j in range(TILE):
            q[j], p[j] = Q[o + j], P[o + j]
        for i in range(n):
            for k in range(kicks.size):
                d, h = (last if i == 0 and k == 0 else drifts[k]), kicks[k]
                for j in range(TILE):
                    x = q[j] + d * p[j]
                    q[j] = x
                    p[j] -= h * sine(x)
        for j in range(TILE):
            Q[o + j], P[o + j] = q[j] + last * p[j], p[j]


@numba.njit(fastmath=CAREFUL)
def leapfrog(Q, P, dt, n):
    q, p = np.empty(TILE), np.empty(TILE)
    for o in range(0, Q.size, TILE):
        for j in range(TILE):
            q[j], p[j] = Q[o + j], P[o + j]
        for i in range(n + 1):
            d, h = (dt if i else 0.0), (dt if 0 < i < n else 0.5 * dt)
            for j in range(TILE):
                x = q[j] + d * p[j]
                q[j] = x
                p[j] -= h * sine(x)
        for j in range(TILE):
            Q[o + j], P[o + j] = q[j], p[j]


def pendulums(q, p, dt, n):
    def run(f):
        a = q.copy()
        f(a, p.copy(), dt, n)
        return a

    return {"numba": lambda: run(leapfrog_library), "numba, own sine": lambda: run(leapfrog)}


@numba.njit(fastmath=True)
def leapfrog_stars(X, Y, A, B, dt, n):
    x, y, a, b = np.empty(32), np.empty(32), np.empty(32), np.empty(32)
    for o in range(0, X.size, 32):
        for j in range(32):
            x[j], y[j], a[j], b[j] = X[o + j], Y[o + j], A[o + j], B[o + j]
        for i in range(n + 1):
            d, h = (dt if i else 0.0), (dt if 0 < i < n else 0.5 * dt)
            for j in range(32):
                x[j] += d * a[j]
                y[j] += d * b[j]
                a[j] -= h * (x[j] + 2.0 * x[j] * y[j])
                b[j] -= h * (y[j] + x[j] * x[j] - y[j] * y[j])
        for j in range(32):
            X[o + j], Y[o + j], A[o + j], B[o + j] = x[j], y[j], a[j], b[j]


def stars(x, dt, n):
    def run():
        rows = [row.copy() for row in x]
        leapfrog_stars(*rows, dt, n)
        return rows[0]

    return {"numba": run}


@numba.njit(fastmath=True)
def leapfrog_one(q, p, dt, n):
    p -= 0.5 * dt * math.sin(q)
    for _ in range(n - 1):
        q += dt * p
        p -= dt * math.sin(q)
    q += dt * p
    return q, p - 0.5 * dt * math.sin(q)


def one_pendulum(q, p, dt, n):
    return {"numba": lambda: leapfrog_one(q, p, dt, n)[0]}


@numba.njit(fastmath=True)
def leapfrog_planets(x, v, m, dt, n):
    bodies = m.size
    a = np.empty((bodies, 3))
    for s in range(n + 1):
        h = dt if 0 < s < n else 0.5 * dt
        if s:
            x += dt * v
        a[:] = 0.0
        for i in range(bodies):
            for j in range(i):
                dx, dy, dz = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
                r2 = dx * dx + dy * dy + dz * dz
                f = 1.0 / (r2 * math.sqrt(r2))
                fi, fj = m[j] * f, m[i] * f
                a[i, 0] -= fi * dx
                a[i, 1] -= fi * dy
                a[i, 2] -= fi * dz
                a[j, 0] += fj * dx
                a[j, 1] += fj * dy
                a[j, 2] += fj * dz
        for i in range(bodies):
            for c in range(3):
                v[i, c] += h * a[i, c]


def planets(q, v, m, dt, n):
    def run():
        x = q.copy()
        leapfrog_planets(x, v.copy(), m, dt, n)
        return x

    return {"numba": run}


def solvers(T, weights):
    """The same composition of order 8; a rung is a number of steps."""

    def run(q, p, n):
        dt = T / n
        a = q.copy()
        composed(a, p.copy(), 0.5 * dt * (weights + np.roll(weights, 1)), dt * weights, 0.5 * dt * weights[0], n)
        return a

    return {"numba, own sine": run}


FIRST = """
import numba, numpy as np, math
def once(c):
    @numba.njit(fastmath=True)
    def run(q, p, dt, n):
        for i in range(n):
            for j in range(q.size):
                q[j] += dt * p[j]
                p[j] -= dt * c * math.sin(q[j])
    run(np.zeros(64), np.ones(64), 0.01, 1)
"""
