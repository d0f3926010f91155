"""The pictures of docs/physics.md: each family of systems, run and drawn.

    python tools/pictures.py [particles chains ...]   needs matplotlib; writes docs/pictures/*.png
"""
from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np

import tinyphysics as tp
from tinyphysics.physics import chains, fields, fluids, particles

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

HERE = Path(__file__).parent.parent / "docs" / "pictures"


def draw_particles(left, right) -> None:
    start = particles.cold_sphere(2_000, seed=3)
    out = tp.compile(particles.gravity, dt=1 / 256).evolve(**start, softening=0.05, steps=512, save_every=128)
    for k, shade in ((0, "0.75"), (2, "tab:orange"), (4, "tab:blue")):
        left.plot(*out.q[k, :, :2].T, ".", ms=0.8, color=shade, label=f"t = {out.t[k]:.1f}")
    left.set(title="a cold sphere of 2,000 bodies falls together", xlim=(-1.6, 1.6), ylim=(-1.6, 1.6), aspect="equal")
    left.legend(markerscale=12, loc="upper right")
    sun = particles.solar_system()
    out = tp.compile(particles.gravity, dt=2.0).evolve(**sun, steps=6_000, save_every=10)
    for k, name in enumerate(particles.BODIES):
        right.plot(out.q[:, k, 0], out.q[:, k, 1], lw=0.8, label=name)
    right.set(title="32 years of the solar system (au)", aspect="equal")
    right.legend(fontsize=6, loc="upper right")


def draw_chains(left, right) -> None:
    n = 31
    period, dt = 2 * np.pi / chains.mode_frequency(n, 1), np.sqrt(1 / 8)
    often = round(period / 4 / dt)
    out = tp.compile(chains.fput, dt).evolve(**chains.normal_mode(n), steps=round(170 * period / dt), save_every=often)
    share = chains.mode_energies(out.q, out.p) / out.energy[0]
    for mode in range(5):
        left.plot(out.t / period, share[:, mode], lw=0.9, label=f"mode {mode + 1}")
    left.set(title="FPUT 1955: the energy comes back", xlabel="periods of the first mode", ylabel="share of the energy")
    left.legend(fontsize=7)
    n, x = 512, np.arange(512)
    kick = 2.0 * np.exp(-((x - 60) ** 2) / 40.0)
    out = tp.compile(chains.toda, 0.05).evolve(q=np.zeros(n), p=kick, steps=8_000, save_every=40)
    right.imshow(out.p, aspect="auto", origin="lower", cmap="magma", extent=(0, n, 0, out.t[-1]))
    right.set(title="Toda lattice: a kick becomes solitons", xlabel="site", ylabel="t")


def draw_fields(left, right) -> None:
    n, dx = 800, 0.1
    one, two = fields.sine_gordon_kink(n, dx, 0.6, at=-20.0), fields.sine_gordon_kink(n, dx, -0.6, at=20.0)
    start = {name: one[name] - two[name] for name in "uv"}
    out = tp.compile(fields.sine_gordon, 0.05).evolve(**start, dx=dx, steps=1_400, save_every=10)
    left.imshow(out.u, aspect="auto", origin="lower", cmap="twilight", extent=(-40, 40, 0, out.t[-1]))
    left.set(title="sine-Gordon: kink and antikink pass each other", xlabel="x", ylabel="t")
    size = 256
    y, x = np.mgrid[:size, :size]
    bump = np.exp(-((x - 90) ** 2 + (y - 128) ** 2) / 30.0) - np.exp(-((x - 166) ** 2 + (y - 128) ** 2) / 30.0)
    out = tp.compile(fields.wave, 0.5).evolve(u=bump, v=0 * bump, steps=180)
    high = np.abs(out.final.u).max()
    right.imshow(out.final.u, cmap="RdBu", vmin=-high, vmax=high)
    right.set(title="wave equation: two sources of opposite sign", xlabel="x", ylabel="y")


def draw_fluids(left, right) -> None:
    n, lid = 98, 0.1
    tau = 0.5 + 3 * lid * (n - 2) / 400
    box = fluids.cavity(n, n)
    out = tp.compile(fluids.fluid).evolve(f=fluids.still(n, n), solid=box, tau=tau, lid=lid, steps=20_000)
    v, u = fluids.density_and_velocity(out.final.f)[1][:, 1:-1, 1:-1] / lid
    x = np.arange(n - 2)
    left.imshow(np.hypot(u, v), origin="lower", cmap="viridis")
    left.streamplot(x, x, u, v, color="white", linewidth=0.5, density=1.6, arrowsize=0.6)
    left.set(title="a cavity whose lid slides, Re = 400", xlim=(0, n - 3), ylim=(0, n - 3))
    h, w = 120, 360
    y, x = np.mgrid[:h, :w]
    solid = fluids.channel(h, w)
    solid = np.where((x - 70) ** 2 + (y - 62) ** 2 < 12**2, 1.0, solid)
    out = tp.compile(fluids.fluid).evolve(f=fluids.still(h, w), solid=solid, tau=0.53, gx=8e-6, steps=30_000)
    vy, ux = fluids.density_and_velocity(out.final.f, (0.0, 8e-6))[1]
    curl = np.gradient(vy, axis=1) - np.gradient(ux, axis=0)
    curl[solid > 0.5] = np.nan
    right.imshow(curl, origin="lower", cmap="RdBu", vmin=-0.01, vmax=0.01)
    right.set(title="vorticity behind a cylinder in a channel")


def draw_plot() -> None:
    """out.plot() as it comes."""
    start = particles.solar_system()
    inner = {name: start[name][:5] if name in "qpm" else start[name] for name in start}
    tp.compile(particles.gravity, dt=0.5).evolve(**inner, steps=1_400, save_every=2).plot().savefig(HERE / "plot.png", dpi=80)
    print(HERE / "plot.png")


def main() -> None:
    if sys.argv[1:] in ([], ["plot"]):
        draw_plot()
    if sys.argv[1:] == ["plot"]:
        return
    HERE.mkdir(exist_ok=True)
    plt.rcParams.update({"font.size": 8, "axes.titlesize": 9})
    families = {"particles": draw_particles, "chains": draw_chains, "fields": draw_fields, "fluids": draw_fluids}
    for name in sys.argv[1:] or families:
        figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
        families[name](*axes)
        figure.savefig(HERE / f"{name}.png", dpi=90)
        print(HERE / f"{name}.png")


if __name__ == "__main__":
    main()
