"""sim.minimise: known minima, bad starts, ensembles, the same bits everywhere, and what it says when it fails."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics.chains import fput
from tinyphysics.physics.starts import random_liquid
from tinyphysics.runtime.measure.descent import search, total

GOLDEN = (1 + math.sqrt(5)) / 2
LJ13 = -44.326801  # Hoare & Pal 1971; the Cambridge Cluster Database


@tp.hamiltonian
def bowl(q: tp.Vec[4], p: tp.Vec[4], k: tp.Vec[4] = 1.0, centre: float = 1.0):
    return p @ p / 2 + (k * (q - centre) ** 2).sum() / 2


@tp.hamiltonian
def cluster(q: tp.Array["n", 3], p: tp.Array["n", 3]):
    d = q[:, None] - q[None, :]
    s = 1 / (d**2).sum(-1) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s * s - s))


def icosahedron():
    ends = [(0, a, b * GOLDEN) for a in (-1, 1) for b in (-1, 1)]
    corners = [np.roll(end, k) for end in ends for k in range(3)]
    return 1.1 / math.sqrt(1 + GOLDEN**2) * np.array([[0, 0, 0], *corners])


def noise(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


# --- minima -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(4))
def test_thirteen_atoms_become_an_icosahedron(seed):
    found = tp.compile(cluster, dt=0.001).minimise(q=icosahedron() + 0.1 * noise(13, 3, seed=seed))
    assert found.converged and abs(found.energy - LJ13) < 1e-6 and found.force <= 1e-6
    assert found.evaluations < 100 and "converged to 1e-06" in str(found)
    again = tp.compile(cluster, dt=0.001).minimise(q=found.q, force=1e-9)  # from there it is near
    assert again.converged and again.evaluations < 40 and again.energy <= found.energy


def test_a_bowl_of_very_different_curvatures():
    k = np.array([1.0, 10.0, 1e3, 1e5])
    found = tp.compile(bowl, dt=0.1).minimise(q=[0.0, 5.0, -3.0, 2.0], k=k, force=1e-10, centre=0.5)
    assert found.converged and np.allclose(found.q, 0.5, rtol=0, atol=1e-10) and found.energy < 1e-20
    assert np.array_equal(found.p, np.zeros(4))


def test_the_number_does_not_depend_on_units():
    counts = set()
    for unit in (1e-10, 1.0, 1e10):  # of length; forces scale as its inverse
        found = tp.compile(bowl, dt=0.1).minimise(
            q=unit * np.array([0.0, 5.0, -3.0, 2.0]),
            k=np.array([1, 5, 20, 80]) / unit**2,
            centre=unit,
            force=1e-8 / unit,
        )
        counts.add(found.evaluations)
        assert found.converged and np.allclose(found.q / unit, 1)
    assert max(counts) - min(counts) <= 2


def test_a_lone_coordinate_and_a_start_at_the_minimum():
    @tp.hamiltonian
    def well(q, p):
        return p**2 / 2 + q**4 / 4 - q**2 / 2

    sim = tp.compile(well, dt=0.1)
    found = sim.minimise(q=0.3)
    assert found.converged and abs(found.q - 1) < 1e-6 and abs(found.energy + 0.25) < 1e-12
    there = sim.minimise(q=1.0)
    assert there.converged and there.evaluations == 1 and there.q == 1.0


def test_several_pairs_time_and_momenta_that_stay():
    @tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])
    def two(x: tp.Vec[2], px: tp.Vec[2], y, py, t):
        return (px @ px + py**2) / 2 + ((x - t) ** 2).sum() + (y - x[0]) ** 2

    found = tp.compile(two, dt=0.1).minimise(x=[0.0, 0.0], y=5.0, px=[1.0, 2.0], t0=3.0, force=1e-9)
    assert np.allclose(found.x, 3, rtol=0, atol=1e-8) and abs(found.y - 3) < 1e-8
    assert found.px.tolist() == [1.0, 2.0] and found.py == 0.0 and abs(found.energy - 2.5) < 1e-15


# --- bad starts -------------------------------------------------------------------------------------
def test_atoms_in_one_place_are_pushed_apart_and_not_away():
    q = icosahedron()
    q[3] = q[4]  # an infinite force
    q[5] = q[6] + 1e-5  # a force of 1e63
    sim = tp.compile(cluster, dt=0.002)
    found = sim.minimise(q=q)
    assert found.converged and found.energy < -38 and np.abs(found.q).max() < 3
    assert sim.evolve(**found.states, steps=2000).drift("energy") < 1e-4  # and nothing explodes
    one = sim.minimise(q=np.zeros((13, 3)))  # all of them
    assert one.converged and one.energy < -30


def test_a_dense_start_is_a_liquid_afterwards():
    q, _ = random_liquid(60, 0.9, 0.2, seed=3)
    sim = tp.compile(cluster, dt=0.002)
    before = sim.minimise(q=q, steps=1)
    found = sim.minimise(q=q, force=1e-3)
    assert before.energy > 1e6 and not before.converged and found.converged and found.energy < -200


def test_no_coordinate_moves_further_than_it_may():
    q = np.array([[0.0, 0.0, 0.0], [1e-3, 0.0, 0.0]])
    sim = tp.compile(cluster, dt=0.002)
    for n in (1, 2, 5):
        found = sim.minimise(q=q, steps=n, move=0.01)
        assert np.abs(found.q - q).max() <= 0.01 * n * (1 + 1e-12)
    assert sim.minimise(q=q, move=0.01).converged


def test_the_energy_never_rises():
    """On a valley that bends, and one with many minima."""

    def rosenbrock(x):
        a, b = x[:, ::2], x[:, 1::2]
        g = np.empty_like(x)
        g[:, ::2], g[:, 1::2] = -400 * a * (b - a * a) - 2 * (1 - a), 200 * (b - a * a)
        return (100 * (b - a * a) ** 2 + (1 - a) ** 2).sum(1), g

    def rough(x):
        return (x * x + 2 * np.cos(5 * x)).sum(1), 2 * x - 10 * np.sin(5 * x)

    for function in (rosenbrock, rough):
        start = 2 * noise(5, 6)
        energies = [
            search(start, np.full(5, 0.3), lambda _, x: function(x), n, 1e-8)[1] for n in range(1, 60)
        ]  # noqa: B023
        assert (np.diff(energies, axis=0) <= 1e-12 * np.abs(energies[:-1])).all()
        x, _, left, count = search(start, np.full(5, 0.3), lambda _, x: function(x), 1000, 1e-8)  # noqa: B023
        assert (left <= 1e-8).all() and count.max() < 400
        if function is rosenbrock:
            assert np.allclose(x, 1, atol=1e-6) or (np.abs(x[:, 0] - 1) > 1).any()


# --- ensembles and bits -------------------------------------------------------------------------------
def test_a_member_arrives_where_it_arrives_alone():
    q = icosahedron() + 0.15 * noise(5, 13, 3)
    q[2, 3] = q[2, 4]  # one of them is in trouble
    sim = tp.compile(cluster, dt=0.001)
    found = sim.minimise(q=q)
    assert found.q.shape == (5, 13, 3) and found.converged.all() and found.p.shape == (5, 13, 3)
    assert len(set(found.evaluations.tolist())) > 1
    for k in range(5):
        alone = sim.minimise(q=q[k])
        assert np.array_equal(alone.q, found.q[k]) and alone.evaluations == found.evaluations[k]
        assert alone.energy == found.energy[k]


def test_parameters_of_each_member():
    k = np.array([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0], [1e3, 1.0, 1e-3, 1.0]])
    found = tp.compile(bowl, dt=0.1).minimise(
        q=np.zeros((3, 4)), k=k, centre=np.array([1.0, 2.0, 3.0]), force=1e-9
    )
    assert found.converged.all() and np.allclose(found.q, [[1], [2], [3]], atol=1e-5)
    none = tp.compile(bowl, dt=0.1).minimise(q=np.zeros((0, 4)))
    assert none.q.shape == (0, 4) and none.energy.shape == (0,)


def test_every_backend_finds_the_same_bits():
    q = icosahedron() + 0.1 * noise(13, 3)
    runs = [
        tp.compile(cluster, dt=0.001, backend=b).minimise(q=q, steps=12)
        for b in ("python", "numpy", "llvm", "c")
    ]
    assert len({r.q.tobytes() for r in runs}) == 1 and len({r.energy for r in runs}) == 1
    chain = [
        tp.compile(fput, dt=0.1, backend=b).minimise(q=noise(100), steps=20) for b in ("numpy", "llvm", "c")
    ]
    assert len({r.q.tobytes() for r in chain}) == 1


def test_sums_are_folded_in_halves():
    assert total(np.array([[1e16, 1.0, -1e16, 1.0, 3.0]])).tolist() == [5.0]  # (1e16 - 1e16) + (1 + 1) + 3
    assert total(np.zeros((2, 0))).tolist() == [0.0, 0.0]


# --- failures -----------------------------------------------------------------------------------------
def test_it_says_that_it_did_not_converge():
    sim = tp.compile(cluster, dt=0.001)
    q = icosahedron() + 0.1 * noise(13, 3)
    found = sim.minimise(q=q, steps=5)
    assert not found.converged and found.evaluations == 5 and found.force > 1e-6
    assert "not converged after 5 evaluations" in str(found) and "1e-06" in str(found)
    both = sim.minimise(q=np.stack([q, q]), steps=5)
    assert "2 of 2 members not converged" in str(both)
    end = sim.minimise(q=q, force=1e-30)  # below rounding: it gives up by itself
    assert not end.converged and end.evaluations < 500 and abs(end.energy - LJ13) < 1e-6 and end.force < 1e-9
    nothing = sim.minimise(q=q, steps=0)
    assert not nothing.converged and np.array_equal(nothing.q, q)


def test_an_energy_without_a_minimum_is_followed_and_left():
    @tp.hamiltonian
    def fall(q, p):
        return p**2 / 2 - q**3

    found = tp.compile(fall, dt=0.1).minimise(q=1.0, steps=40, move=0.5)
    assert not found.converged and 1 < found.q <= 21


@pytest.mark.parametrize(
    "given, what",
    [
        (dict(), "initial `q` is missing"),
        (dict(q=np.zeros(3)), "shape"),
        (dict(q=np.full(4, np.nan)), "not finite"),
        (dict(q=np.zeros(4), force=0.0), "force"),
        (dict(q=np.zeros(4), move=-1.0), "move"),
        (dict(q=np.zeros(4), steps=-1), "steps"),
        (dict(q=np.zeros(4), z=1.0), "no state or parameter `z`"),
    ],
)
def test_what_is_wrong_is_named(given, what):
    with pytest.raises(tp.TinyPhysicsError, match=what):
        tp.compile(bowl, dt=0.1).minimise(**given)


def test_only_an_energy_can_be_lowered():
    @tp.forces
    def spring(q):
        return -q

    with pytest.raises(tp.PlanError, match="no known energy(.|\n)*Hamiltonian"):
        tp.compile(spring, dt=0.1).minimise(q=1.0)
    found = tp.compile(bowl, dt=0.1).minimise(q=np.zeros(4))
    with pytest.raises(AttributeError, match="no state `z`"):
        found.z
    with pytest.raises(AttributeError, match="minimise"):
        tp.nothing_like_minimise
