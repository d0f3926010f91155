"""Do bodies that turn have the bits of this processor on a GPU?"""

from __future__ import annotations

import numpy as np
import pytest

from bits_there import same
from test_bodies import lagrange
from test_turns import heavy, top
from tinyphysics.physics import rigid


def spread(members: int) -> dict[str, object]:
    """Tops that are tilted and spun in different ways."""
    rng = np.random.default_rng(3)
    R = rng.normal(size=(members, 4))
    return {"R": R / np.linalg.norm(R, axis=1)[:, None], "L": rng.normal(size=(members, 3))}


@pytest.mark.parametrize(
    "method, precision",
    [
        *(("rotations", p) for p in ("float64", "float32", "dd")),
        *(("rotations6", p) for p in ("float64", "float32")),  # its weights are float64
        ("lie_cayley", "float64"),  # what is solved for has no other precision
    ],
)
def test_heavy_tops_have_the_same_bits(gpu, method, precision):
    same(
        lagrange,
        dict(dt=0.05, method=method, precision=precision),
        spread(gpu.members(1000)),
        steps=gpu.steps(40),
    )


def test_momenta_in_the_frames_of_bodies_have_the_same_bits(gpu):
    start = spread(gpu.members(1000))
    for method in ("rotations", "spherical_midpoint"):
        same(top, dict(dt=0.1, method=method), {"L": start["L"]}, steps=gpu.steps(40))
    G = np.random.default_rng(4).normal(size=np.shape(start["L"]))
    same(heavy, dict(dt=0.1), {"L": start["L"], "G": G}, steps=gpu.steps(40))


def test_many_tops_in_one_state_have_the_same_bits(gpu):
    same(rigid.heavy_tops, dict(dt=0.05), spread(gpu.members(1000)), steps=gpu.steps(20))
