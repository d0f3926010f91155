"""Is math="fast" within its stated errors on a real GPU?  Nothing is promised for its float64 instruction: this measures it."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from test_fast import cluster, errors_of, orbits, stars
from test_parity import kepler
from tinyphysics.rules.functions.fast import BOUNDS


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_functions_are_within_their_bounds(gpu, precision):
    found = errors_of("cuda", precision, gpu.members(1_000_003))
    assert all(found[name] <= BOUNDS[name][precision == "float32"] for name in found), found


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(
    ("system", "start", "options"),
    [(kepler, orbits(50), {}), (cluster, stars(300), {"sizes": {"n": 300}})],
    ids=["kepler", "cluster"],
)
def test_a_fast_run_stays_beside_the_exact_one_and_repeats(gpu, system, start, options, precision):
    if not gpu.real and system is cluster:
        start, options = stars(40), {"sizes": {"n": 40}}
    options = options | {"dt": 0.01, "precision": precision}
    steps = gpu.steps(200)
    exact = tp.compile(system, **options).evolve(**start, steps=steps)
    one, two = (
        tp.compile(system, math="fast", backend="cuda", **options).evolve(**start, steps=steps)
        for _ in range(2)
    )
    assert one.hash == two.hash and one.hash.startswith("fast:")
    assert np.abs(one.final.q - exact.final.q).max() < (1e-11 if precision == "float64" else 1e-3)
