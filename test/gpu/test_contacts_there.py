"""Do bodies that touch have the bits of this processor on a real GPU?"""

from __future__ import annotations

import numpy as np

from bits_there import same
from test_constraints import chain, circle, ring
from test_contacts import FALLING, SLIDING, STACKED, block, boxes, floor, stack

import tinyphysics as tp


def test_contacts(gpu):
    n = gpu.members(1000)
    many = dict(q=np.stack([np.zeros(n), np.linspace(0.0, 0.1, n)], axis=1), p=np.tile([1.0, 0.0], (n, 1)))
    same(block + floor(), dict(dt=0.01), many, steps=gpu.steps(50))
    same(block + floor(), dict(dt=0.01), FALLING, steps=gpu.steps(100))
    same(block + floor(), dict(dt=0.01), SLIDING, steps=gpu.steps(100))
    same(boxes + tp.contact(stack), dict(dt=0.01), STACKED, steps=gpu.steps(50))


def test_a_ring_of_rods_in_loops(gpu):
    same(
        chain + ring,
        dict(dt=0.01, sizes={"n": 20}),
        dict(q=circle(20), p=np.zeros((20, 2))),
        steps=gpu.steps(10),
    )
