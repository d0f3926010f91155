"""Pictures of walls: a ball that comes to rest, and billiards in an ellipse and a stadium."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def ball(q, p, g: float = 9.81):
    return p**2 / 2 + g * q


@tp.hamiltonian
def free(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2


floor = tp.wall(lambda q: q, restitution=0.8, name="floor")
ellipse = tp.wall(lambda q: 1 - q[0] ** 2 / 4 - q[1] ** 2, name="ellipse")
# two half circles of radius 1 about (-1, 0) and (1, 0), and straight lines between them
stadium = tp.wall(lambda q: 1 - tp.maximum(abs(q[0]) - 1, 0.0) ** 2 - q[1] ** 2, name="stadium")
START = dict(q=[0.3, 0.2], p=[1.0, 0.5])


def path(out, name: str) -> np.ndarray:
    return np.vstack([[START["q"]], out.events(name).q])


def draw_walls(left, middle, right) -> None:
    out = tp.compile(ball + floor, dt=0.01).evolve(q=1.0, p=0.0, until=5.0, save_every=1)
    left.plot(out.t, out.q, lw=1.0)
    rest = out.events("floor")[out.events("floor").rested].t[0]
    left.axvline(rest, color="0.6", lw=0.8, ls=":")
    left.text(rest - 0.05, 0.8, f"at rest from\nt = {rest:.7f}", ha="right")
    left.set(title="a ball that loses a fifth of its speed", xlabel="t", ylabel="height")
    angle = np.linspace(0, 2 * np.pi, 400)
    out = tp.compile(free + ellipse, dt=100.0).evolve(**START, steps=3)
    middle.plot(2 * np.cos(angle), np.sin(angle), color="k", lw=1.0)
    middle.plot(*path(out, "ellipse").T, lw=0.4)
    middle.plot([-np.sqrt(3), np.sqrt(3)], [0, 0], "k.", ms=4)
    middle.set(title="an ellipse: paths stay between its foci", xlabel="x", aspect="equal")
    out = tp.compile(free + stadium, dt=0.05).evolve(**START, until=300.0, frames=2)
    x, y = np.cos(angle), np.sin(angle)
    right.plot(x + np.sign(x), y, color="k", lw=1.0)
    right.plot(*path(out, "stadium").T, lw=0.4)
    right.set(title="a stadium: they go everywhere", xlabel="x", aspect="equal")
