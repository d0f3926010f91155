"""Would a solve with constant coefficients speed up the rounds of `rodas` on fields?  Rounds and times in NumPy.

    python bench/preconditioners.py [--size 256]

The Brusselator of bench/ode_arrays.py, some way into its run: (1 - h/4 J) d = h f is solved by BiCGStab as it is, divided by
what each place does to its own two numbers (what the library does), and by the mean of the Jacobian over all places, which
Fourier transforms invert. Rounds are those until the residual has fallen by 1e-3 and 1e-6; a round applies the operator and
the preconditioner twice each. At the end what is compiled: a round that divides by nothing, and tp.poisson of both fields.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from ode_arrays import bend

import tinyphysics as tp

Operator = Callable[[Any], Any]  # of both fields
MOST = 500  # rounds


def reaction(u: Any, v: Any) -> Any:
    return np.stack([1 + u * u * v - 4.4 * u, 3.4 * u - u * u * v])


def divided_by(a: Any) -> Operator:
    """By a matrix of 2 x 2 arrays."""
    over = 1 / (a[0][0] * a[1][1] - a[0][1] * a[1][0])
    return lambda x: np.stack([a[1][1] * x[0] - a[0][1] * x[1], a[0][0] * x[1] - a[1][0] * x[0]]) * over


class Fields:
    """The Brusselator's two fields, after 20 steps of 0.005 with the diffusion taken implicitly."""

    def __init__(self, n: int) -> None:
        self.n, self.spread = n, 0.02 * n * n
        z = np.arange(n) / n
        hill = z * (1 - z) ** 1.5
        waves = (
            2 * np.cos(2 * np.pi * np.fft.fftfreq(n))[:, None]
            + 2 * np.cos(2 * np.pi * np.fft.rfftfreq(n))
            - 4
        )
        self.decay = self.spread * waves
        x = np.stack([22 * hill[:, None] + 0 * z, 27 * hill + 0 * z[:, None]])
        for _ in range(20):
            x = self.back(np.fft.rfft2(x + 0.005 * reaction(*x)) / (1 - 0.005 * self.decay))
        u, v = self.x = x
        self.rates = reaction(u, v) + self.spread * np.stack([bend(np, u), bend(np, v)])
        self.own = [[2 * u * v - 4.4, u * u], [3.4 - 2 * u * v, -u * u]]

    def back(self, x: Any) -> Any:
        return np.fft.irfft2(x, (self.n, self.n))

    def operator(self, w: float) -> Operator:
        (a, b), (c, d) = self.own
        return lambda x: np.stack(
            [
                x[0] - w * (a * x[0] + b * x[1] + self.spread * bend(np, x[0])),
                x[1] - w * (c * x[0] + d * x[1] + self.spread * bend(np, x[1])),
            ]
        )

    def matrix(self, w: float, own: Any, diffusion: Any) -> Any:
        return [[(i == k) - w * (own[i][k] + (i == k) * diffusion) for k in range(2)] for i in range(2)]

    def local(self, w: float) -> Operator:
        return divided_by(self.matrix(w, self.own, -4 * self.spread))

    def constant(self, w: float) -> Operator:
        solve = divided_by(self.matrix(w, [[x.mean() for x in row] for row in self.own], self.decay))
        return lambda x: self.back(solve(np.fft.rfft2(x)))


def rounds(operator: Operator, b: Any, divided: Operator, fallen: float) -> int:
    """BiCGStab, as in flows/solvers/krylov.py."""
    r, p, rho = b.copy(), b.copy(), (b * b).sum()
    goal, count = fallen**2 * rho, 0
    while (r * r).sum() > goal and count < MOST:
        v = operator(divided(p))
        alpha = rho / (b * v).sum()
        s = r - alpha * v
        t = operator(divided(s))
        omega = (t * s).sum() / (t * t).sum()
        r = s - omega * t
        rho, before = (b * r).sum(), rho
        p = r + rho / before * (alpha / omega) * (p - omega * v)
        count += 1
    return count


def milliseconds(f: Operator, x: Any, repeat: int = 20) -> float:
    began = time.process_time()
    for _ in range(repeat):
        f(x)
    return (time.process_time() - began) / repeat * 1e3


Field = tp.Array["n", "n"]


@tp.map
def a_round(x: Field, y: Field, r: Field, s: Field, p: Field, q: Field, b: Field, c: Field) -> Any:
    """Of BiCGStab on two fields, as in `rounds`."""

    def operator(a: Any) -> Any:
        return [u - 0.1 * bend(np, u) for u in a]

    def inner(a: Any, b: Any) -> Any:
        return sum((u * v).sum() for u, v in zip(a, b))

    v, rho = operator((p, q)), inner((b, c), (r, s))
    alpha = rho / inner((b, c), v)
    half = [u - alpha * w for u, w in zip((r, s), v)]
    t = operator(half)
    omega = inner(t, half) / inner(t, t)
    rest = [u - omega * w for u, w in zip(half, t)]
    beta = inner((b, c), rest) / rho * (alpha / omega)
    ways = [u + beta * (w - omega * z) for u, w, z in zip(rest, (p, q), v)]
    return x + alpha * p + omega * half[0], y + alpha * q + omega * half[1], *rest, *ways, b, c


@tp.map
def solved(u: Field, v: Field) -> Any:
    return tuple(10.0 * tp.poisson(x, shift=10.0) for x in (u, v))


def compiled(system: Any, n: int, short: int = 2, long: int = 8) -> float:
    """Milliseconds of a step, on one thread."""
    sim = tp.compile(system, sizes={"n": n})
    names = [x.name for x in sim.built.system.states]
    start = dict(zip(names, np.random.default_rng(0).normal(size=(len(names), n, n))))

    def seconds(steps: int) -> float:
        began = time.process_time()
        sim.evolve(**start, steps=steps, frames=2, threads=1)
        return time.process_time() - began

    seconds(short)
    least = [min(seconds(k) for _ in range(9)) for k in (short, long)]
    return (least[1] - least[0]) / (long - short) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=256)
    f = Fields(parser.parse_args().size)
    print(f"{'h':>8} {'h/4 |J|':>8} {'fallen':>8} {'as it is':>9} {'local':>9} {'constant':>9}  rounds")
    for h in (0.003, 0.01, 0.03, 0.1):
        w = h / 4
        ways = (lambda x: x, f.local(w), f.constant(w))
        for fallen in (1e-3, 1e-6):
            found = [rounds(f.operator(w), h * f.rates, way, fallen) for way in ways]
            cells = " ".join(f"{k:9}" for k in found)
            print(f"{h:8} {w * 8 * f.spread:8.1f} {fallen:8g} {cells}")
    times = [milliseconds(way, f.x) for way in (f.operator(0.01), f.local(0.01), f.constant(0.01))]
    print("ms of NumPy's CPU time: operator {:.2f}, local {:.2f}, constant {:.2f}".format(*times))
    own = [compiled(system, f.n) for system in (a_round, solved)]
    print("ms of compiled steps: a round {:.3f}, a solve with constant coefficients {:.3f}".format(*own))


if __name__ == "__main__":
    main()
