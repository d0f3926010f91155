"""Numbers, graph, time, pictures and provenance in one process, without a compiler: NumPy and Python alone do it.

python examples/harness.py
"""

import numpy as np

import tinyphysics as tp
from tinyphysics.view.terminal import draw_picture, portrait


class Pendulum(tp.PhysicsSystem):
    """A class; its energy is traced once, into a graph of expressions."""

    length = 1.0

    def energy(self, q, p):
        return p**2 / (2 * self.length**2) - 9.81 * self.length * tp.cos(q)


pendulum = Pendulum()
start = dict(q=1.0, p=0.0)
dt = 0.02

if __name__ == "__main__":
    # Graph: what the class became, and the dataflow of a step, in the order in which it is done.
    sim = tp.compile(pendulum, dt=dt, backend="numpy")
    print(sim.ir("tpir"))
    # Numbers: one program on Python's numbers and on arrays, with the same bits.
    runs = {b: tp.compile(pendulum, dt=dt, backend=b).evolve(**start, steps=500) for b in ("python", "numpy")}
    hashes = {b: out.hash for b, out in runs.items()}
    print(hashes)
    assert len(set(hashes.values())) == 1
    # Time: the longest step that keeps the energy to 1e-3, found in trial runs.
    print(f"dt for an energy drift of 1e-3: {sim.suggest_dt(energy_drift=1e-3, until=5.0, **start):.3g}")
    # Pictures: characters here, and declarations of buffers for a shader.
    print(draw_picture(portrait(runs["numpy"], sim.system), 72, 16).plain)
    print(tp.operators.REGISTRY["add"].header("glsl"))
    # Provenance: every line of the kernel has the lines of the class that it comes from.
    lines = sim.lines("kernel")
    known = [line for line in lines if line.user]
    print(
        f"{len(known)} of {sum(line.is_code for line in lines)} lines of the kernel come from a line of the class"
    )
    assert known and np.isfinite(runs["numpy"].energy).all()
