"""The picture of tops and spins; tools/pictures.py draws it."""

from __future__ import annotations

import numpy as np

import tinyphysics as tp
from tinyphysics.physics import rigid


@tp.hamiltonian(bracket="spin")
def spin(S: tp.Vec[3], B: tp.Vec[3] = (0.0, 0.0, 1.0)):
    return -S @ B


def draw_tops(left, middle, right) -> None:
    """Dzhanibekov's flip, the cusps of a top, and spins in a field."""
    out = tp.compile(rigid.free_body, dt=0.02, order=4).evolve(
        R=[1.0, 0.0, 0.0, 0.0], L=[0.02, 2.0, 0.02], until=60.0, save_every=5
    )
    axis = np.asarray(tp.rotate(out.R, [0.0, 1.0, 0.0]))
    for k, name in enumerate("xyz"):
        left.plot(
            out.t, axis[:, k], lw=1.2 if name == "y" else 0.7, label=name, color=("0.7", "tab:red", "0.5")[k]
        )
    left.set(title="the middle axis turns over", xlabel="t", ylabel="where it points")
    left.legend(loc="lower left", ncols=3)
    start = rigid.tilted(0.8, spin=3.0)
    run = tp.compile(rigid.heavy_top, dt=0.01, order=4).evolve(**start, until=16.0, save_every=2)
    x, y, _ = np.asarray(tp.rotate(run.R, [0.0, 0.0, 1.0])).T
    middle.plot(x, y, color="tab:blue", lw=1.2)
    middle.set(title="the axis of a top, from above: cusps", xlabel="x", ylabel="y", aspect="equal")
    for tilt, shade in ((0.4, "tab:blue"), (0.9, "tab:orange"), (1.4, "tab:green")):
        s = tp.compile(spin, dt=0.05).evolve(S=[np.sin(tilt), 0.0, np.cos(tilt)], steps=100)
        right.plot(s.S[:, 0] + 0.35 * s.S[:, 1], s.S[:, 2] + 0.2 * s.S[:, 1], color=shade, lw=1.2)
        for k in range(0, 100, 12):
            tip = s.S[k]
            right.plot([0, tip[0] + 0.35 * tip[1]], [0, tip[2] + 0.2 * tip[1]], color=shade, lw=0.5)
    right.set(title="spins precess about a field", xticks=[], yticks=[], aspect="equal")
