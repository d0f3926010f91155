"""The pictures of friction and of charges in magnetic fields; tools/pictures.py draws them."""

from __future__ import annotations

import tinyphysics as tp


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
