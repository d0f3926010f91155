"""The pictures of friction and of charges in magnetic fields; tools/pictures.py draws them."""

from __future__ import annotations

import numpy as np

import tinyphysics as tp
from tinyphysics import plasma


@tp.hamiltonian
def driven(q, p, t, gamma: float = 0.5):
    return p**2 / 2 - tp.cos(q) - 0.6 * q * tp.cos(2 * t / 3)


def draw_friction(left, right) -> None:
    out = tp.compile(driven, dt=0.02, friction="gamma").evolve(q=0.2, p=0.0, until=120.0, save_every=5)
    late = out.t > 100
    left.plot(out.q, out.p, color="0.75", lw=0.7)
    left.plot(out.q[late], out.p[late], color="tab:blue", lw=1.8)
    left.set(title="a driven and damped pendulum settles on an orbit", xlabel="q", ylabel="p")
    books, early = out.ledger, out.t <= 60
    curves = {
        "given by the drive": (books["drive"], "tab:green"),
        "taken by friction": (books["friction"], "tab:red"),
        "energy": (out.energy, "tab:blue"),
        "energy + friction - drive": (out.energy + books["friction"] - books["drive"], "black"),
    }
    for name, (values, shade) in curves.items():
        right.plot(out.t[early], values[early], color=shade, lw=1.3, label=name)
    right.set(title="its books", xlabel="t")
    right.legend(loc="upper left")


def draw_magnetic(left, right) -> None:
    field = plasma.mirror()
    sim = tp.compile(plasma.System(B_field=field), dt=0.05)
    moment = plasma.magnetic_moment(field)
    out = sim.evolve(q=[0.1, 0.0, 0.0], p=[0.0, 0.1, 0.05], until=150.0, save_every=1, observe={"mu": moment})
    left.plot(out.q[:, 2], out.q[:, 0], lw=0.6, color="tab:blue")
    z = np.linspace(-0.6, 0.6, 200)
    for r in (-0.3, -0.2, -0.1, 0.1, 0.2, 0.3):
        left.plot(z, r / np.sqrt(1 + z * z), color="0.8", lw=0.8, zorder=0)
    left.set(title="an ion in a magnetic bottle, and field lines", xlabel="z", ylabel="x")
    right.plot(out.t, out.q[:, 2], lw=1.0, label="z")
    right.plot(out.t, out["mu"] / out["mu"][0], lw=1.0, label="magnetic moment, relative")
    right.set(title="it bounces; its moment stays", xlabel="t", ylim=(-0.7, 1.8))
    right.legend(loc="upper center", ncols=2)


@tp.hamiltonian(bracket=tp.magnetic(lambda q: 1 + q[0] / 2 + q[1] ** 2 / 5))
def charge(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + (q @ q) ** 2 / 8


@tp.hamiltonian(bracket=tp.magnetic(lambda q: [0.0, 0.0, 1.0]))
def beam(q: tp.Vec[3], p: tp.Vec[3]):
    return p @ p / 2 - 0.9 * q[1]


def draw_pushers(left, right) -> None:
    for method, shade in (
        ("boris", "tab:orange"),
        ("boris_exact", "tab:green"),
        ("axes", "tab:blue"),
        ("rk4", "0.6"),
    ):
        sim = tp.compile(charge, dt=0.25, method=method, checks="off")
        out = sim.evolve(q=[0.3, -0.2], p=[0.9, 0.4], until=4000.0, frames=600)
        left.plot(out.t, (out.energy - out.energy[0]) / out.energy[0], ".", ms=1.2, color=shade, label=method)
    left.set(
        title="energy over 4000 units of time, dt = 0.25", xlabel="t", ylabel="(E - E0)/E0", ylim=(-0.15, 0.1)
    )
    left.legend(markerscale=8, loc="lower left")
    u = 0.9 / np.sqrt(1 - 0.9**2)
    for method, shade in (("boris", "tab:orange"), ("higuera_cary", "tab:blue"), ("vay", "tab:red")):
        sim = tp.compile(beam, dt=1.0, kinetics="relativistic", method=method, checks="off")
        out = sim.evolve(q=[0.0] * 3, p=[u, 0.0, 0.0], steps=200, save_every=1)
        style = "--" if method == "vay" else "-"
        right.plot(out.t, np.linalg.norm(out.p - [u, 0, 0], axis=1), style, lw=1.2, color=shade, label=method)
    right.set(title="E = -v x B, v = 0.9: how far u moves", xlabel="t", ylim=(-0.02, 0.55))
    right.legend(loc="upper center", ncols=3)
