"""Three boxes fall on each other, and lie in a stack."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def boxes(q: tp.Vec[3], p: tp.Vec[3], m: float = 1.0, g: float = 9.81):
    return p @ p / (2 * m) + m * g * q.sum()


stack = tp.contact(lambda q: tp.concatenate([q[:1] - 0.5, q[1:] - q[:-1] - 1]), name="stack")
boxes_on_a_floor = boxes + stack
start = dict(q=[0.5, 2.0, 4.0], p=[0.0, 0.0, 0.0])
dt = 0.01

if __name__ == "__main__":
    out = tp.compile(boxes_on_a_floor, dt).evolve(**start, until=3.0)
    touch = out.contacts("stack")
    print(
        "forces in weights of a box:", np.round(touch.force[-1] / 9.81, 6), "heights:", out.final.q.round(4)
    )
    assert np.allclose(touch.force[-1] / 9.81, [3, 2, 1], atol=1e-6) and touch.gap.min() > -1e-3
