"""boundary="periodic", box=L: a sum over pairs in open space goes over all images of a box, as if it was written so."""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.errors import InputError, PlanError
from tinyphysics.physics.particles import gravity


@tp.hamiltonian
def plain(q: tp.Array["n", 3], p: tp.Array["n", 3], c: tp.Vec["n"], L: float):
    d = q[:, None] - q[None, :]
    springs = (q**2).sum() * 0.0 * L
    return (p**2).sum() / 2 + tp.pair_sum(c[:, None] * c[None, :] / np.sqrt((d**2).sum(-1))) + springs


@tp.hamiltonian
def written(q: tp.Array["n", 3], p: tp.Array["n", 3], c: tp.Vec["n"], L: float):
    r2 = tp.pair_distance2(q, box=L)
    return (p**2).sum() / 2 + tp.pair_sum(c[:, None] * c[None, :] / np.sqrt(r2)) + (q**2).sum() * 0.0 * L


@pytest.mark.slow("sums over images, twice")
def test_a_box_gives_the_bits_of_the_sum_that_is_written_in_it():
    g = np.stack(np.meshgrid([0, 1], [0, 1], [0, 1], indexing="ij"), -1).reshape(-1, 3)
    start = {
        "q": g + 0.1 * np.sin(np.arange(24.0).reshape(8, 3)),
        "p": 0.0 * g,
        "c": (-1.0) ** g.sum(1),
        "L": 2.0,
    }
    pinned = {"long_range": {"cutoff": 0, "grid": 8}}
    inside = tp.compile(plain, dt=1e-3, boundary="periodic", box="L", **pinned).evolve(**start, steps=3)
    assert inside.hash == tp.compile(written, dt=1e-3, **pinned).evolve(**start, steps=3).hash
    number = tp.compile(plain, dt=1e-3, boundary="periodic", box=[2.0, 2.0, 2.0], **pinned)
    assert np.allclose(number.evolve(**start, steps=3).final.p, inside.final.p, rtol=1e-12)


def test_what_has_no_box_is_refused():
    for more, match in (
        ({"boundary": "periodic"}, "without a box"),
        ({"box": 1.0}, "without a boundary"),
        ({"boundary": "periodic", "box": "K"}, "no parameter"),
        ({"boundary": "periodic", "box": -1.0}, "is not a box"),
        ({"boundary": "periodic", "box": [1.0, 2.0]}, "is not a box"),
        ({"boundary": "periodic", "box": "p", "sizes": {"n": 4}}, "is a state"),
    ):
        with pytest.raises(InputError, match=match):
            tp.compile(plain, dt=0.01, **more)
    with pytest.raises(PlanError, match="no boundary 'reflecting'"):
        tp.compile(plain, dt=0.01, boundary="reflecting", box=1.0)
    with pytest.raises(PlanError, match="no sum over all pairs"):
        tp.compile(lambda q, p: p * p / 2 + q * q / 2, dt=0.1, boundary="periodic", box=1.0)

    @tp.hamiltonian
    def beside(q: tp.Array["n", 3], p: tp.Array["n", 3]):
        r2 = ((q[:, None] - q[None, :]) ** 2).sum(-1)
        return (p**2).sum() / 2 + tp.pair_sum(1 / np.sqrt(r2)) + r2.max()

    with pytest.raises(PlanError, match="outside of its sums over pairs"):
        tp.compile(beside, dt=0.1, boundary="periodic", box=1.0, sizes={"n": 4})


@pytest.mark.slow("a mesh chosen for a goal")
def test_a_goal_of_a_softened_sum_is_measured_against_what_was_written():
    """Where softening reaches beyond every cutoff the goal is refused; before, it was measured against a wrong sum."""
    rng = np.random.default_rng(0)
    g = np.stack(np.meshgrid(*[np.arange(4)] * 3, indexing="ij"), -1).reshape(-1, 3) / 4
    q, m, soft = g + rng.uniform(-0.05, 0.05, (64, 3)), rng.uniform(1, 2, 64), 0.002
    sim = tp.compile(gravity, dt=1e-6, boundary="periodic", box=1.0, force_error=1e-3)
    start = {"q": q, "p": 0 * q, "m": m}
    found = sim.evolve(**start, softening=soft, steps=1).final.p / 1e-6
    # waves and images of 1/r, and what softening changes, summed here
    from scipy.special import erfc

    a = 8.0
    near = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3, indexing="ij"), -1).reshape(-1, 3)
    d = q[:, None, None] - q[None, :, None] + near
    r = np.sqrt((d**2).sum(-1))
    there = r > 1e-9
    r = np.where(there, r, 1.0)
    slope = erfc(a * r) / r**3 + 2 * a / np.sqrt(np.pi) * np.exp(-((a * r) ** 2)) / r**2
    slope = np.where(there, slope + (r * r + soft**2) ** -1.5 - r**-3, 0.0)
    right = -m[:, None] * ((m[None, :, None] * slope)[..., None] * d).sum((1, 2))
    k = np.stack(np.meshgrid(*[np.arange(-14, 15)] * 3, indexing="ij"), -1).reshape(-1, 3)
    k = 2 * np.pi * k[(k**2).sum(1) > 0]
    k2 = (k**2).sum(1)
    phase = np.exp(1j * q @ k.T)
    right -= m[:, None] * ((phase.conj() * (m @ phase)).imag * (-4 * np.pi * np.exp(-k2 / 4 / a**2) / k2)) @ k
    error = np.sqrt(((found - right) ** 2).sum() / (right**2).sum())
    assert 1e-4 < error < 1e-3
    with pytest.raises(PlanError, match="no mesh was found"):
        sim.evolve(**start, softening=0.2, steps=1)
