"""Do bodies that touch have the same bits on a GPU?"""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp

pytestmark = pytest.mark.gpu


@tp.hamiltonian
def block(q: tp.Vec[2], p: tp.Vec[2], g: float = 9.81):
    return p @ p / 2 + g * q[1]


def test_contacts_have_the_same_bits():
    floor = tp.contact(lambda q: q[1], slip=lambda v: v[0], friction=0.3, name="floor")
    start = dict(
        q=np.array([[0.0, 0.01], [0.0, 0.02], [0.0, 0.0]]), p=np.array([[2.0, 0.0], [1.0, 0.0], [0.5, 0.0]])
    )
    here, there = (
        tp.compile(block + floor, dt=0.01, backend=b).evolve(**start, steps=20) for b in ("llvm", "cuda")
    )
    assert here.hash == there.hash
