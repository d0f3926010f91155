"""Random walls: what is certain does not depend on dt, nothing gets behind a wall, and no certificate is contradicted."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp

J = np.kron([[0, 1], [-1, 0]], np.eye(2))
SEEDS = [2, 3, *(pytest.param(k, marks=pytest.mark.all) for k in (0, 1, *range(4, 30)))]


def polygon(rng):
    """Planes around the origin, at random angles: a convex polygon, in one wall."""
    sides = int(rng.integers(3, 8))
    angles = 2 * np.pi * (np.arange(sides) + rng.uniform(-0.3, 0.3, sides)) / sides
    far = rng.uniform(0.5, 1.5, sides)
    normals = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return lambda q: far - normals @ q


def closed_curve(rng):
    """x^n/a + y^n/b + c x y <= 1, an ellipse or of degree four, perhaps not convex."""
    n, (a, b), c = int(rng.choice([2, 4])), rng.uniform(0.3, 2.0, 2), rng.uniform(-0.3, 0.3)
    return lambda q: 1 - a * q[0] ** n - b * q[1] ** n - c * q[0] * q[1]


def system(rng, force):
    own = dict(zip("ab", rng.uniform(0.5, 2.0, 2).tolist()), k=float(rng.uniform(0.2, 1.0)) if force else 0.0)

    @tp.hamiltonian
    def body(q: tp.Vec[2], p: tp.Vec[2], a: float = own["a"], b: float = own["b"], k: float = own["k"]):
        return p[0] ** 2 / (2 * a) + p[1] ** 2 / (2 * b) + k * q[1]

    return body


def walled(seed):
    rng = np.random.default_rng(seed)
    shape, force = (polygon, closed_curve)[seed % 2](rng), seed % 4 >= 2
    e = float(rng.choice([1.0, 1.0, rng.uniform(0.3, 1.0)]))
    return system(rng, force), tp.wall(shape, e, name="edge"), e, rng


@pytest.mark.slow("two runs and four tangents of a random wall, each compiled")
@pytest.mark.parametrize("seed", SEEDS)
def test_random_walls(seed):
    body, wall, e, rng = walled(seed)
    start = dict(q=rng.uniform(-0.2, 0.2, 2), p=rng.uniform(0.7, 2.0, 2) * rng.choice([-1, 1], 2))
    sims = [tp.compile(body + wall, dt=dt) for dt in (0.05, 2.0)]
    outs = [sim.evolve(**start, until=4.0, save_every=1) for sim in sims]
    met = [out.events("edge") for out in outs]
    few = min(len(met[0]), len(met[1]), 6)
    assert few and met[0].t[:few] == pytest.approx(met[1].t[:few], abs=1e-9)  # however long a step is
    for out in outs:
        heights = np.array([np.min(wall.function(q)) for q in out.q])
        assert out.stopped is None and heights.min() > -1e-11
        assert out.drift("energy") < 1e-11
        assert (out.ledger["bounces"][-1] > 1e-3) == (e < 1)
    # over a few bounces, before rounding has grown
    short = float(met[0].t[min(3, len(met[0]) - 1)]) + 1e-3
    steps = int(np.ceil(short / 0.05))
    columns = []
    for k in range(4):
        way = np.eye(4)[k]
        moved = sims[0].jvp({"q": way[:2], "p": way[2:]}, **start, steps=steps)
        columns.append(np.concatenate([moved["q"], moved["p"]]))
    M = np.array(columns).T
    defect = np.abs(M.T @ J @ M - J).max() / np.abs(M).max() ** 2
    certified = bool(sims[0].certificate.symplectic)
    assert certified == (e == 1), sims[0].certificate.symplectic.because
    assert defect < 1e-10 if certified else defect > 1e-6


@pytest.mark.parametrize("e", (0.0, 0.5))
def test_members_stop_and_rest_at_times_of_their_own_with_the_bits_that_they_have_alone(e):
    @tp.hamiltonian
    def ball(q, p, g: float = 1.0):
        return p**2 / 2 + g * q

    floor = tp.wall(lambda q: q, e, name="floor")
    high = tp.event(lambda q: q - 2.0, then="stop", direction=1, name="high")
    sim = tp.compile(ball + floor + high, dt=0.1)
    q, p = np.array([0.0, 0.3, 1.0, 1.5]), np.array([1.0, 0.0, 3.0, 1.5])
    every = sim.evolve(q=q, p=p, until=8.0)
    stops = {s.member: s.t for s in every.stops}
    assert set(stops) == {2, 3} and stops[2] != stops[3]
    for k in range(4):
        alone = sim.evolve(q=q[k], p=p[k], until=8.0)
        assert alone.final.q == every.final.q[k] and (alone.stopped is not None) == (k in stops)
    rested = every.events("floor")
    assert sorted(rested.member[rested.rested]) == [0, 1]
