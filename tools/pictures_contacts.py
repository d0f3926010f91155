"""Pictures of contacts and hard bodies: boxes that are dropped on each other, what they weigh, and a gas of discs."""

import numpy as np

import tinyphysics as tp
from tinyphysics import hardbody


@tp.hamiltonian
def boxes(q: tp.Vec[3], p: tp.Vec[3], m: float = 1.0, g: float = 9.81):
    return p @ p / (2 * m) + m * g * q.sum()


def stack(q):
    return tp.concatenate([q[:1] - 0.5, q[1:] - q[:-1] - 1])


def draw_boxes(left, middle, right) -> None:
    sim = tp.compile(boxes + tp.contact(stack), dt=0.002)
    out = sim.evolve(q=[0.5, 2.0, 4.0], p=[0.0, 0.0, 0.0], until=1.0, save_every=1)
    for k, name in enumerate(("lowest", "middle", "highest")):
        (line,) = left.plot(out.t, out.q[:, k], lw=1.2)
        left.fill_between(
            out.t, out.q[:, k] - 0.5, out.q[:, k] + 0.5, color=line.get_color(), alpha=0.15, lw=0
        )
        left.text(0.99, out.final.q[k] + 0.08, name, ha="right", va="bottom", color=line.get_color())
    left.set(title="three boxes, dropped from 0, 0.5 and 1.5", xlabel="t", ylabel="height")
    force = out.contacts("stack").force / 9.81
    for k, name in enumerate(("floor", "lower gap", "upper gap")):
        middle.plot(out.t, force[:, k], lw=0.8, label=name)
    middle.set(title="force across each gap, in weights of a box", xlabel="t", ylim=(-0.2, 6))
    middle.legend(loc="upper left")
    start = hardbody.lattice(1024, packing=0.55, seed=1)
    side = start["box"][0]
    gas = hardbody.Gas(box=start.pop("box")).evolve(**start, collisions=50_000, frames=2)
    speed = np.linalg.norm(gas.v[-1], axis=1)
    from matplotlib.collections import EllipseCollection

    discs = EllipseCollection(
        1.0, 1.0, 0.0, units="xy", offsets=np.mod(gas.q[-1], side), transOffset=right.transData,
        array=speed, cmap="viridis", lw=0,
    )  # fmt: skip
    right.add_collection(discs)
    right.figure.colorbar(discs, ax=right, label="speed", shrink=0.8)
    right.set(title="1,024 hard discs, packing 0.55", xlim=(0, side), ylim=(0, side), aspect="equal")
    right.set(xticks=[], yticks=[])
