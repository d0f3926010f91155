"""Rods, walls, contacts and hard bodies beside MuJoCo, OpenMM, SciPy and C by hand, in one run; CPU times, one thread.

`python bench/meets.py` runs bench/rods.py, bench/walls.py and bench/hardbody.py, and a stack of boxes beside soft contacts.

What needs a library that is not there is left out with a line; `pip install mujoco openmm scipy` has all of them.
"""

from __future__ import annotations

import sys
import time

import hardbody as discs
import numpy as np
import rods
import walls

import tinyphysics as tp

STEPS = 2_000
BODY = '<body pos="0 0 {z}"><freejoint/><geom type="box" size=".5 .5 .5" mass="1"/></body>'
MODEL = (
    '<mujoco><option timestep="0.01" gravity="0 0 -9.81"/><worldbody><geom type="plane" size="9 9 1"/>'
    f"{''.join(BODY.format(z=z) for z in (0.5, 1.5, 2.5))}</worldbody></mujoco>"
)


@tp.hamiltonian
def boxes(q: tp.Vec[3], p: tp.Vec[3], m: float = 1.0, g: float = 9.81):
    return p @ p / (2 * m) + m * g * q.sum()


def stack(q):
    return tp.concatenate([q[:1] - 0.5, q[1:] - q[:-1] - 1])


def stacks() -> None:
    sim = tp.compile(boxes + tp.contact(stack), dt=0.01, checks="off")
    start = dict(q=[0.5, 1.5, 2.5], p=[0.0, 0.0, 0.0])
    out = sim.evolve(**start, steps=STEPS)
    overlap = -float(out.contacts("stack").gap.min())
    took = rods.timed(lambda: sim.evolve(**start, steps=STEPS, frames=2, threads=1)) / STEPS
    print(f"tinyphysics, 3 boxes      {1e6 * took:8.2f} us a step, overlap {overlap:.1e}")
    try:
        import mujoco
    except ImportError:
        print("MuJoCo is not there")
        return
    model = mujoco.MjModel.from_xml_string(MODEL)
    data = mujoco.MjData(model)
    for _ in range(300):
        mujoco.mj_step(model, data)
    began = time.process_time()
    for _ in range(STEPS):
        mujoco.mj_step(model, data)
    theirs = (time.process_time() - began) / STEPS
    heights = np.array([data.qpos[7 * k + 2] for k in range(3)])
    overlap = max(0.5 - heights[0], *(1 - np.diff(heights)))
    print(
        f"MuJoCo, 3 boxes in space  {1e6 * theirs:8.2f} us a step, overlap {overlap:.1e}; their boxes may turn"
    )


def main() -> None:
    sys.argv[1:] = []
    for title, run in (("rods", rods.main), ("walls", walls.main), ("boxes", stacks), ("discs", discs.main)):
        print(f"--- {title} ---", flush=True)
        run()


if __name__ == "__main__":
    main()
