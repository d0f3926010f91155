"""What a notebook shows of runs and simulations: small, escaped, loading nothing, and costing no replay."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics import fields, particles
from tinyphysics.physics.zoo import ZOO, kepler, pendulum


def drawn(page):
    """The drawing in it, which has to be well-formed."""
    found = re.search(r"<svg.*</svg>", page, re.DOTALL)
    return None if found is None else ET.fromstring(found[0])


@pytest.mark.thin(rows=3)
@pytest.mark.parametrize("name", ZOO)
def test_every_demo_is_a_small_page_with_a_drawing(name):
    d = ZOO[name]
    sim = tp.compile(d.system, d.dt)
    out = sim.evolve(**d.start, steps=100, save_every=1)
    page = out._repr_html_()
    assert len(page) < 12_000 and drawn(page) is not None and "out.plot()" in page
    assert "<Trajectory" not in page and "&lt;Trajectory" in page
    whole = sim._repr_html_()
    assert (
        len(whole) < 20_000 and "<details>" in whole and not re.search("https?:|<script|<link", page + whole)
    )


def test_the_drawing_is_the_run():
    out = tp.compile(kepler, 0.05).evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=100, save_every=2)
    (line,) = [e for e in drawn(out._repr_html_()) if e.tag == "polyline"]
    at = np.array([pair.split(",") for pair in line.get("points").split()], float)
    q = out.q * [1, -1]  # y goes down on a page
    assert len(at) == len(q)
    scale = np.ptp(at, axis=0) / np.ptp(q, axis=0)
    assert scale[0] == pytest.approx(scale[1], rel=0.01)  # a circle is round
    assert (at - at[0]) / scale == pytest.approx(q - q[0], abs=0.01)


def test_what_an_equation_holds_is_escaped():
    @tp.hamiltonian
    def wall(q, p):
        return p**2 / 2 + tp.where(q < 0, 100 * q**2, 0.0)

    page = tp.compile(wall, 0.01)._repr_html_()
    assert "q &lt; 0" in page or "&lt;" in page
    assert "q < 0" not in page


def test_large_ensembles_fields_and_runs_that_are_not_finite_are_small_pages_too():
    rng = np.random.default_rng(0)
    many = tp.compile(pendulum, 0.1).evolve(q=rng.normal(size=50_000), p=rng.normal(size=50_000), steps=2)
    u, v = fields.standing_wave((6, 8))
    sheet = tp.compile(fields.wave, 0.3).evolve(u=u, v=v, steps=4, save_every=2)
    cloud = tp.compile(particles.gravity, 0.01).evolve(
        **particles.plummer(40, seed=1), softening=0.1, steps=2
    )
    lost = tp.compile(kepler, 0.05).evolve(
        q=[[1.0, 0.0], [0.0, 0.0]], p=[[0.0, 1.0], [0.0, 0.0]], steps=4, save_every=1
    )
    for out in (many, sheet, cloud, lost):
        page = out._repr_html_()
        assert len(page) < 25_000 and drawn(page) is not None
    none = tp.compile(kepler, 0.05).evolve(q=np.empty((0, 2)), p=np.empty((0, 2)), steps=3)
    assert drawn(none._repr_html_()) is None


def test_a_simulation_whose_sizes_are_open_says_so():
    assert "sizes still open" in tp.compile(particles.gravity, 0.01)._repr_html_()
