"""Absorbing layers: what comes back, what the inside does, energy that left, lattices with ends, bits, what is refused."""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics.fields import wave


def pulse(n, sigma):
    x = np.arange(n) - n / 2
    return np.exp(-(x[:, None] ** 2 + x[None, :] ** 2) / 2 / sigma**2)


def free_wave(u, dt, steps):
    """Drift, kick, drift on a lattice so large that nothing comes back."""
    v = 0 * u
    for _ in range(steps):
        u = u + dt / 2 * v
        v = v + dt * sum(np.roll(u, 1, a) + np.roll(u, -1, a) - 2 * u for a in (0, 1))
        u = u + dt / 2 * v
    return u


@pytest.mark.requirement("S2-33")
@pytest.mark.slow("the free wave needs a lattice of 400 x 400")
def test_a_wave_leaves_and_nothing_comes_back():
    u = pulse(120, 4.0)
    out = tp.compile(wave, dt=0.6, absorb=20).evolve(u=u, v=0 * u, until=120.0, frames=2)
    free = free_wave(pulse(400, 4.0), 0.6, 200)[160:240, 160:240]
    back = ((out.final.u[20:100, 20:100] - free) ** 2).sum() / (u**2).sum()
    assert back <= 1e-14
    (left,) = (x for x in out.losses if x.what == "energy that left")
    energy = (((np.roll(u, -1, 0) - u) ** 2).sum() + ((np.roll(u, -1, 1) - u) ** 2).sum()) / 2
    assert 0.9 * energy < left.amount <= energy * (1 + 1e-9)


@tp.hamiltonian
def string(u: tp.Vec["n"], v: tp.Vec["n"], c: float = 1.0, mass: float = 0.0):
    return (v @ v + c**2 * (np.diff(u) ** 2).sum() + mass**2 * (u**4).sum()) / 2


def bump(n, at, sigma=4.0):
    return np.exp(-((np.arange(n) - at) ** 2) / 2 / sigma**2)


def test_the_inside_is_leapfrog_until_something_comes_back():
    u = bump(90, 45)
    runs = [tp.compile(string, dt=0.5, **o).evolve(u=u, v=0 * u, mass=0.3, steps=16).final.u
            for o in (dict(absorb=20), dict(method="leapfrog_dkd"))]  # fmt: skip
    assert abs(runs[0] - runs[1])[30:60].max() < 1e-12


@pytest.mark.parametrize(
    ("options", "most"), [(dict(absorb=20), 1e-6), (dict(absorb={"width": 8, "left": 1e-3}), 3e-3)]
)
def test_a_string_with_free_ends_is_still_after_a_while(options, most):
    """What is left in the middle after a wave went to the ends and would have come back, at another speed too."""
    u = bump(100, 50)
    out = tp.compile(string, dt=0.25, **options).evolve(u=u, v=0 * u, c=2.0, until=60.0, frames=2)
    held = tp.compile(string, dt=0.25, method="leapfrog_dkd").evolve(
        u=u, v=0 * u, c=2.0, until=60.0, frames=2
    )
    assert abs(np.diff(out.final.u[30:70])).max() < most * abs(np.diff(held.final.u)).max()


def test_one_axis_alone_absorbs():
    u = np.ones((30, 1)) * bump(30, 15, 3.0)[None, :]
    ends = {}
    for axes in (0, 1):
        sim = tp.compile(wave, dt=0.5, absorb={"width": 8, "axes": axes})
        ends[axes] = sim.evolve(u=u, v=0 * u, until=40.0, frames=2).final.u
    assert abs(np.diff(ends[0][15])).max() > 0.05  # it goes round
    assert abs(np.diff(ends[1][15])).max() < 0.01


def test_runs_with_layers_have_the_same_bits_everywhere_and_go_on(tmp_path):
    u = bump(24, 10, 2.0)
    ends = {
        b: tp.compile(string, dt=0.5, absorb=5, backend=b).evolve(u=u, v=0 * u, steps=12).hash
        for b in ("llvm", "numpy", "c", "python")
    }
    assert len(set(ends.values())) == 1
    sim = tp.compile(string, dt=0.5, absorb=5)
    sim.evolve(u=u, v=0 * u, steps=5, checkpoint=tmp_path / "c")
    assert sim.evolve(resume=tmp_path / "c", steps=7).hash == ends["llvm"]


def test_gradients_go_through_layers():
    u = bump(16, 8, 2.0)
    sim = tp.compile(string, dt=0.5, absorb=4)
    assert sim.gradcheck(lambda out: (out.final.u**2).sum(), u=u, v=0 * u, steps=4)


def joined_far(u: tp.Vec[40], v: tp.Vec[40]):
    return (v @ v + ((np.roll(u, -2) - u) ** 2).sum()) / 2


def alone(u: tp.Vec[40], v: tp.Vec[40]):
    return (v @ v + u @ u) / 2


def mixed(u: tp.Vec[40], v: tp.Vec[40]):
    return ((v * u) ** 2).sum() + (np.diff(u) ** 2).sum()


@pytest.mark.parametrize(
    ("energy", "options", "told"),
    [
        (joined_far, dict(absorb=4), "joins nodes"),
        (alone, dict(absorb=4), "no difference of neighbours"),
        (mixed, dict(absorb=4), "mix"),
        (alone, dict(absorb=0), "number of cells"),
        (alone, dict(absorb={"cells": 4}), "width"),
        (alone, dict(absorb={"left": 2.0}), "between"),
        (alone, dict(absorb=4, friction=0.1), "friction"),
    ],
)
def test_what_layers_do_not_follow_is_refused(energy, options, told):
    with pytest.raises(tp.TinyPhysicsError, match=told):
        tp.compile(tp.hamiltonian(energy), dt=0.1, **options)


def test_a_lattice_must_have_an_inside():
    with pytest.raises(tp.InputError, match="thinner layers"):
        tp.compile(string, dt=0.1, absorb=20, sizes={"n": 40})
    with pytest.raises(tp.InputError, match="axis"):
        tp.compile(wave, dt=0.1, absorb={"width": 2, "axes": 5}, sizes={"h": 9, "w": 9})
