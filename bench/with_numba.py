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
        composed(
            a, p.copy(), 0.5 * dt * (weights + np.roll(weights, 1)), dt * weights, 0.5 * dt * weights[0], n
        )
        return a

    return {"numba, own sine": run}


# --- arrays: a call goes on from where it was, and returns what reads the positions ----------------
# error_model: a division that may raise an exception is not turned into vectors
def going_on(f, state, rest, dt, n):
    """Half a kick, then n steps a call; f takes a drift and a kick."""
    own = [np.array(x) for x in state]
    f(*own, *rest, 0.0, 0.5 * dt, 1)

    def run():
        f(*own, *rest, dt, dt, n)
        return lambda: own[0]

    return run


@numba.njit(fastmath=True, error_model="numpy")
def leapfrog_gravity(x, v, m, e2, d, h, n):
    bodies = m.size
    for _ in range(n):
        for c in range(3):
            for i in range(bodies):
                x[c, i] += d * v[c, i]
        for i in range(bodies):  # all pairs: sums by the third law it does not turn into vectors
            xi, yi, zi, sx, sy, sz = x[0, i], x[1, i], x[2, i], 0.0, 0.0, 0.0
            for j in range(bodies):
                dx, dy, dz = x[0, j] - xi, x[1, j] - yi, x[2, j] - zi
                r2 = dx * dx + dy * dy + dz * dz + e2
                f = m[j] / (r2 * math.sqrt(r2))
                sx += f * dx
                sy += f * dy
                sz += f * dz
            v[0, i] += h * sx
            v[1, i] += h * sy
            v[2, i] += h * sz


def gravity(q, v, m, eps, dt, n):
    run = going_on(leapfrog_gravity, (q.T.copy(), v.T.copy()), (m, eps**2), dt, n)

    def turned():
        read = run()
        return lambda: read().T

    return {"numba": turned}


@numba.njit(fastmath=True, error_model="numpy")
def leapfrog_chain(q, p, alpha, d, h, n):
    size = q.size
    for _ in range(n):
        for i in range(size):
            q[i] += d * p[i]
        p[0] += h * ((q[1] - q[0]) * (1.0 + alpha * (q[1] - q[0])) - q[0] * (1.0 + alpha * q[0]))
        for i in range(1, size - 1):
            r, left = q[i + 1] - q[i], q[i] - q[i - 1]
            p[i] += h * (r * (1.0 + alpha * r) - left * (1.0 + alpha * left))
        r, left = -q[size - 1], q[size - 1] - q[size - 2]
        p[size - 1] += h * (r * (1.0 + alpha * r) - left * (1.0 + alpha * left))


def chain(q, p, alpha, dt, n):
    return {"numba": going_on(leapfrog_chain, (q, p), (alpha,), dt, n)}


@numba.njit(fastmath=True, error_model="numpy")
def leapfrog_wave(u, v, d, h, n):
    rows, columns = u.shape
    for _ in range(n):
        for y in range(rows):
            for x in range(columns):
                u[y, x] += d * v[y, x]
        for y in range(rows):
            a, b, c, r = u[y - 1 if y else rows - 1], u[y], u[y + 1 if y < rows - 1 else 0], v[y]
            r[0] += h * (a[0] + c[0] + b[columns - 1] + b[1] - 4.0 * b[0])
            for x in range(1, columns - 1):
                r[x] += h * (a[x] + c[x] + b[x - 1] + b[x + 1] - 4.0 * b[x])
            r[columns - 1] += h * (
                a[columns - 1] + c[columns - 1] + b[columns - 2] + b[0] - 4.0 * b[columns - 1]
            )


def wave(q, p, dt, n):
    return {"numba": going_on(leapfrog_wave, (q, p), (), dt, n)}


@numba.njit(fastmath=True, error_model="numpy", inline="always")
def collided_site(f0, f1, f2, f3, f4, f5, f6, f7, f8, om):
    rho = f0 + (f1 + f3) + (f2 + f4) + (f5 + f6) + (f7 + f8)
    ir = 1.0 / rho
    ux, uy = ((f1 - f3) + ((f5 - f7) + (f8 - f6))) * ir, ((f2 - f4) + ((f5 - f7) - (f8 - f6))) * ir
    w1, c1 = om * rho * (1.0 / 9.0), 1.0 - om
    w2, ux3, uy3, ux2, uy2 = 0.25 * w1, 3.0 * ux, 3.0 * uy, 4.5 * ux * ux, 4.5 * uy * uy
    b = 1.0 - (ux2 + uy2) * (1.0 / 3.0)
    px, py, qx, qy, bb, xy = w1 * (b + ux2), w1 * (b + uy2), w1 * ux3, w1 * uy3, b + ux2 + uy2, ux3 * uy3
    p5, p6, g5, g6 = w2 * (bb + xy), w2 * (bb - xy), w2 * (ux3 + uy3), w2 * (ux3 - uy3)
    return (
        c1 * f0 + 4.0 * w1 * b,
        c1 * f1 + (px + qx),
        c1 * f2 + (py + qy),
        c1 * f3 + (px - qx),
        c1 * f4 + (py - qy),
        c1 * f5 + (p5 + g5),
        c1 * f6 + (p6 - g6),
        c1 * f7 + (p5 - g5),
        c1 * f8 + (p6 + g6),
    )


@numba.njit(fastmath=True, error_model="numpy")
def stream_collide(f, g, om):
    """Every row has a site more at both ends, a copy of the other end: no condition is left in the loop."""
    rows, columns = f.shape[1], f.shape[2] - 2
    for y in range(rows):
        up, down = (y - 1 if y else rows - 1), (y + 1 if y < rows - 1 else 0)
        a0, a1, a2, a3, a4, a5, a6, a7, a8 = (
            f[0, y],
            f[1, y],
            f[2, up],
            f[3, y],
            f[4, down],
            f[5, up],
            f[6, up],
            f[7, down],
            f[8, down],
        )
        b0, b1, b2, b3, b4, b5, b6, b7, b8 = (
            g[0, y],
            g[1, y],
            g[2, y],
            g[3, y],
            g[4, y],
            g[5, y],
            g[6, y],
            g[7, y],
            g[8, y],
        )
        for x in range(1, columns + 1):
            (b0[x], b1[x], b2[x], b3[x], b4[x], b5[x], b6[x], b7[x], b8[x]) = collided_site(
                a0[x], a1[x - 1], a2[x], a3[x + 1], a4[x], a5[x - 1], a6[x + 1], a7[x + 1], a8[x - 1], om
            )
        for k in range(9):
            g[k, y, 0], g[k, y, columns + 1] = g[k, y, columns], g[k, y, 1]


def fluid(f, om, n):
    wide = np.concatenate([f[:, :, -1:], f, f[:, :, :1]], axis=2)
    own = [wide, wide.copy()]

    def run():
        for _ in range(n):
            stream_collide(*own, om)
            own.reverse()
        return lambda: own[0][:, :, 1:-1]

    return {"numba": run}


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
