"""The lid-driven cavity at Re = 100 against Ghia, Ghia & Shin 1982, J. Comput. Phys. 48, 387, tables I and II."""

from __future__ import annotations

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.fluids import cavity, density_and_velocity, fluid, still

# u along the vertical line through the centre, v along the horizontal one; in units of the lid's speed
Y = [
    0.0547,
    0.0625,
    0.0703,
    0.1016,
    0.1719,
    0.2813,
    0.4531,
    0.5,
    0.6172,
    0.7344,
    0.8516,
    0.9531,
    0.9609,
    0.9688,
    0.9766,
]
U = [
    -0.03717,
    -0.04192,
    -0.04775,
    -0.06434,
    -0.10150,
    -0.15662,
    -0.21090,
    -0.20581,
    -0.13641,
    0.00332,
    0.23151,
    0.68717,
    0.73722,
    0.78871,
    0.84123,
]
X = [
    0.0625,
    0.0703,
    0.0781,
    0.0938,
    0.1563,
    0.2266,
    0.2344,
    0.5,
    0.8047,
    0.8594,
    0.9063,
    0.9453,
    0.9531,
    0.9609,
    0.9688,
]
V = [
    0.09233,
    0.10091,
    0.10890,
    0.12317,
    0.16077,
    0.17507,
    0.17527,
    0.05454,
    -0.24533,
    -0.22445,
    -0.16914,
    -0.10313,
    -0.08864,
    -0.07391,
    -0.05906,
]


def test_the_cavity_at_reynolds_number_100_has_the_published_profiles():
    inside, lid, reynolds = 64, 0.1, 100
    n = inside + 2
    tau = 0.5 + 3 * lid * inside / reynolds
    out = tp.compile(fluid).evolve(f=still(n, n), solid=cavity(n, n), tau=tau, lid=lid, steps=8000)
    v, u = density_and_velocity(out.final.f)[1] / lid
    middle = [n // 2 - 1, n // 2]  # the centre lies between two sites
    place = (np.arange(inside) + 0.5) / inside
    assert np.abs(np.interp(Y, place, u[1:-1, middle].mean(axis=1)) - U).max() < 0.01
    assert np.abs(np.interp(X, place, v[middle, 1:-1].mean(axis=0)) - V).max() < 0.01
    assert abs(out.final.f[:, 1:-1, 1:-1].sum() / inside**2 - 1) < 1e-10
