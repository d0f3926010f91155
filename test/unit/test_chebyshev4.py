"""Is `rock4` of order 4, stable as far as it says, and as accurate within its steps as at their ends?"""

import itertools
import math

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.synth.coefficients.abdulle import ERROR, RECURRENCE, STAGES, WEIGHTS
from tinyphysics.synth.methods.chebyshev4 import recurrence

EDGE = 559.0


def trees(order):
    """Rooted trees as sorted tuples of their branches, by the number of nodes."""
    found = {1: [()]}
    for n in range(2, order + 1):
        parts = {
            tuple(sorted(branches))
            for count in range(1, n)
            for sizes in itertools.combinations_with_replacement(range(1, n), count)
            if sum(sizes) == n - 1
            for branches in itertools.product(*(found[k] for k in sizes))
        }
        found[n] = sorted(parts)
    return found


EVERY = {t: n for n, group in trees(5).items() for t in group}


def density(t):
    return EVERY[t] * math.prod(density(b) for b in t)


def of_trees():
    """The weights of a step in the series of its trees; and those of the error estimate."""

    def slope(g):
        return {t: math.prod(g[b] for b in t) for t in EVERY}

    before = last = dict.fromkeys(EVERY, 0.0)
    for a, b in RECURRENCE:
        f = slope(last)
        before, last = last, {t: a * f[t] + b * last[t] + (1 - b) * before[t] for t in EVERY}
    slopes = []
    for row in STAGES:
        slopes.append(slope({t: last[t] + sum(a * f[t] for a, f in zip(row, slopes)) for t in EVERY}))
    end = {t: last[t] + sum(w * f[t] for w, f in zip(WEIGHTS, slopes)) for t in EVERY}
    slopes.append(slope(end))
    return end, {t: sum(w * f[t] for w, f in zip(ERROR, slopes)) for t in EVERY}


def test_a_step_satisfies_the_conditions_of_order_4_and_its_estimate_those_of_order_3():
    end, error = of_trees()
    assert [len(group) for group in trees(5).values()] == [1, 1, 2, 4, 9]
    for t, n in EVERY.items():
        if n <= 4:
            assert end[t] == pytest.approx(1 / density(t), abs=2e-15)
        if n <= 3:
            assert abs(error[t]) < 1e-15
    fourth = [abs(error[t]) for t, n in EVERY.items() if n == 4]
    assert max(fourth) == pytest.approx(1 / 384) and max(abs(end[t] * density(t) - 1) for t in EVERY) < 0.2


def grown(z):
    """The stability polynomial of the stages: x' = z x, h = 1; and how far the estimate is off."""
    before = last = 0.0
    for r in recurrence():
        before, last = last, r.slope * z * (1 + last) + r.last * last + r.before * before
    slopes = []
    for row in STAGES:
        slopes.append(z * (1 + last + sum(a * f for a, f in zip(row, slopes))))
    return 1 + last + sum(w * f for w, f in zip(WEIGHTS, slopes))


def test_it_is_stable_and_damps_as_far_as_it_says():
    assert max(abs(grown(-z)) for z in np.linspace(6.0, EDGE, 20_000)) < 0.9501
    assert abs(grown(-1.05 * EDGE)) > 1.0
    assert recurrence()[-1].place + sum(WEIGHTS) == pytest.approx(1.0, abs=1e-15)


def bend(u):
    return sum(tp.roll(u, s, a) for s in (1, -1) for a in (0, 1)) - 4 * u


@tp.ode
def brusselator(u: tp.Array["n", "n"], v: tp.Array["n", "n"], spread: float = 1300.0):
    return 1 + u * u * v - 4.4 * u + spread * bend(u), 3.4 * u - u * u * v + spread * bend(v)


def start(n):
    x = np.arange(n) / n
    hill = x * (1 - x) ** 1.5
    return {"u": 22 * hill[:, None] + 0 * x, "v": 27 * hill + 0 * x[:, None]}


def ends(method, tolerance, at, n=12):
    sim = tp.compile(brusselator, method=method, tolerance=tolerance, absolute=tolerance, sizes={"n": n})
    out = sim.evolve(**start(n), until=at[-1], save_at=at)
    return out, np.stack([out.u, out.v])


@pytest.mark.requirement("S2-41")
@pytest.mark.slow("a stiff field beside another method")
def test_a_stiff_field_is_followed_to_the_tolerance_with_few_slopes():
    """Frames lie within steps, which are a hundred times as long as the explicit pair's."""
    at = np.linspace(0.05, 1.0, 20)
    exact, there = ends("dopri5", 1e-8, at)
    out, here = ends("rock4", 1e-5, at)
    slopes = 40 * (out.metrics["substeps"] + out.metrics["rejected"])
    assert np.abs(here - there).max() < 1e-4
    assert 5 * slopes < 6 * exact.metrics["substeps"]


def test_its_error_falls_with_the_fourth_power_of_the_step():
    @tp.ode
    def lorenz(x, y, z):
        return 10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z

    begin = dict(x=1.0, y=2.0, z=20.0, until=1.0)
    exact = tp.compile(lorenz, method="dop853", tolerance=1e-13).evolve(**begin).final
    errors, steps = [], []
    for tolerance in (1e-6, 1e-9):
        out = tp.compile(lorenz, method="rock4", tolerance=tolerance).evolve(**begin)
        errors.append(abs(out.final.x - exact.x))
        steps.append(out.metrics["substeps"])
    assert np.log(errors[0] / errors[1]) / np.log(steps[1] / steps[0]) == pytest.approx(4.0, abs=0.8)


@pytest.mark.parametrize(
    "backend",
    ["numpy", pytest.param("c", marks=pytest.mark.all), pytest.param("python", marks=pytest.mark.all)],
)
def test_it_has_the_bits_of_every_backend(backend):
    found = {
        b: tp.compile(brusselator, method="rock4", tolerance=1e-3, sizes={"n": 9}, backend=b)
        .evolve(**start(9), until=0.1, frames=2)
        .hash
        for b in ("llvm", backend)
    }
    assert len(set(found.values())) == 1, found
