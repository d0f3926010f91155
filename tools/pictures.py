"""The pictures of the docs: each family of systems, run and drawn, two systems to a picture; and what methods cost.

python tools/pictures.py [particles charges ...]   needs matplotlib; writes docs/pictures/*.png

Pictures of pages about gradients are drawn by tools/pictures_gradients.py, of what the pages compute.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Annotated

import matplotlib
import numpy as np
from PIL import Image

import tinyphysics as tp
from measure_methods import PROBLEMS, error
from pictures_baths import draw_annealing, draw_argon, draw_baths, draw_how_long
from pictures_contacts import draw_boxes
from pictures_heat import draw_heat
from pictures_parareal import draw_parareal
from pictures_pushers import draw_friction, draw_magnetic, draw_pushers
from pictures_rare import draw_rare
from pictures_rods import draw_pendulum, draw_rods, draw_whip
from pictures_tops import draw_tops
from pictures_walls import draw_walls
from tinyphysics.physics import chains, fields, fluids, molecular, particles
from tinyphysics.physics.starts import lattice, maxwell
from tinyphysics.physics.zoo import henon_heiles, kepler
from tinyphysics.planner.choice.multirate_resonance import grid
from tinyphysics.planner.methods.catalog import METHODS

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

HERE = Path(__file__).parent.parent / "docs" / "pictures"


def keep(figure, name: str, dpi: float = 90) -> None:
    """Writes a figure in 160 colours: a third of the bytes, and no difference to the eye."""
    data = io.BytesIO()
    figure.savefig(data, dpi=dpi)
    Image.open(data).convert("RGB").quantize(160, dither=Image.Dither.NONE).save(
        HERE / f"{name}.png", optimize=True
    )
    print(HERE / f"{name}.png")


def draw_particles(left, right) -> None:
    start = particles.cold_sphere(2_000, seed=3)
    out = tp.compile(particles.gravity, dt=1 / 256).evolve(**start, softening=0.05, steps=512, save_every=128)
    for k, shade in ((0, "0.75"), (2, "tab:orange"), (4, "tab:blue")):
        left.plot(*out.q[k, :, :2].T, ".", ms=0.8, color=shade, label=f"t = {out.t[k]:.1f}")
    left.set(
        title="a cold sphere of 2,000 bodies falls together",
        xlim=(-1.6, 1.6),
        ylim=(-1.6, 1.6),
        aspect="equal",
    )
    left.legend(markerscale=12, loc="upper right")
    draw_orbits(right, OUTER, years=165)
    right.set(title="165 years of the outer planets (au)", xlim=(-36, 36), ylim=(-34, 38))


INNER, OUTER = ("Mercury", "Venus", "Earth", "Mars"), ("Jupiter", "Saturn", "Uranus", "Neptune")
SHADE = dict(
    zip(
        (*INNER, *OUTER),
        ("0.45", "#c9a227", "#2f6db5", "#b23a48", "#d9632a", "#8a6d3b", "#4fb0c6", "#5b5bd6"),
    )
)


def draw_orbits(axis, names, years) -> None:
    """Orbits about the Sun, each with its name beside it."""
    sun = particles.solar_system()
    often = max(1, round(years))  # of two days: some 180 points a year of the innermost
    out = tp.compile(particles.gravity, dt=2.0).evolve(
        **sun, steps=round(365.25 * years / 2), save_every=often, progress=False
    )
    axis.plot(0, 0, "o", color="#f2b90f", ms=5, mec="0.4", mew=0.4)
    for name in names:
        x, y, _ = (out.q[:, particles.BODIES.index(name)] - out.q[:, 0]).T
        axis.plot(x, y, lw=1.1, color=SHADE[name])
        k = np.argmax(y)
        axis.annotate(
            name, (x[k], y[k]), (0, 2), textcoords="offset points", ha="center", color=SHADE[name], fontsize=8
        )
    axis.set(aspect="equal", title=f"{years} years")


def draw_planets(left, right) -> None:
    draw_orbits(left, INNER, years=2)
    left.set(
        title="two years of the inner planets",
        xlabel="x (au)",
        ylabel="y (au)",
        xlim=(-2, 2),
        ylim=(-1.9, 2.1),
    )
    draw_orbits(right, OUTER, years=165)
    right.set(title="165 years of the outer ones", xlabel="x (au)", xlim=(-36, 36), ylim=(-34, 38))


def draw_chains(left, right) -> None:
    n = 31
    period, dt = 2 * np.pi / chains.mode_frequency(n, 1), np.sqrt(1 / 8)
    often = round(period / 4 / dt)
    out = tp.compile(chains.fput, dt).evolve(
        **chains.normal_mode(n), steps=round(170 * period / dt), save_every=often
    )
    share = chains.mode_energies(out.q, out.p) / out.energy[0]
    for mode in range(5):
        left.plot(out.t / period, share[:, mode], lw=0.9, label=f"mode {mode + 1}")
    left.set(
        title="FPUT 1955: the energy comes back",
        xlabel="periods of the first mode",
        ylabel="share of the energy",
    )
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
    bump = np.exp(-((x - 90) ** 2 + (y - 128) ** 2) / 30.0) - np.exp(
        -((x - 166) ** 2 + (y - 128) ** 2) / 30.0
    )
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
    keep(
        tp.compile(particles.gravity, dt=0.5).evolve(**inner, steps=1_400, save_every=2).plot(),
        "plot",
        dpi=80,
    )


def draw_charges(left, right) -> None:
    aim = np.array([*np.linspace(-6, 6, 25)])
    q, p = np.zeros((25, 2, 3)), np.zeros((25, 2, 3))
    q[:, 1, 0], q[:, 1, 1], p[:, 1, 0] = -30.0, aim, np.sqrt(1 - 2 / 30)
    out = tp.compile(particles.coulomb, 0.02).evolve(q=q, p=p, m=[1e9, 1.0], steps=3_000, save_every=10)
    for k in range(len(aim)):
        left.plot(out.q[:, k, 1, 0], out.q[:, k, 1, 1], lw=0.8, color=plt.cm.viridis(abs(aim[k]) / 6))
    left.plot(0, 0, "o", color="tab:red", ms=5)
    left.set(title="Coulomb: charges fly at a nucleus", xlim=(-20, 20), ylim=(-14, 14), aspect="equal")
    sphere = particles.plummer(2_000, seed=1)
    out = tp.compile(particles.gravity, 1 / 64).evolve(**sphere, softening=0.03, steps=640, save_every=320)
    r = np.linspace(0, 3, 200)
    for k, shade in ((0, "tab:orange"), (2, "tab:blue")):
        centre = np.median(out.q[k], axis=0)
        radius = np.sort(np.linalg.norm(out.q[k] - centre, axis=1))
        right.plot(radius, np.arange(1, 2_001) / 2_000, color=shade, lw=1.2, label=f"t = {out.t[k]:.0f}")
    scale = particles.SCALE
    right.plot(r, r**3 / (r**2 + scale**2) ** 1.5, "k--", lw=0.8, label="Plummer's law")
    right.set(
        title="a Plummer sphere stays in equilibrium", xlim=(0, 3), xlabel="radius", ylabel="mass within"
    )
    right.legend(fontsize=7)


def draw_springs(left, right) -> None:
    n, x = 400, np.arange(400)
    packet = np.exp(-((x - 120) ** 2) / 200.0)
    k = 0.9
    omega = 2 * np.sin(k / 2)
    q, p = packet * np.cos(k * x), omega * packet * np.sin(k * x)
    out = tp.compile(chains.oscillators, 0.1).evolve(q=q, p=p, steps=8_000, save_every=20)
    energy = out.p**2 / 2 + np.diff(out.q, prepend=0.0) ** 2 / 2
    left.imshow(np.sqrt(energy), aspect="auto", origin="lower", cmap="magma", extent=(0, n, 0, out.t[-1]))
    left.set(title="coupled oscillators: a packet of waves between walls", xlabel="site", ylabel="t")
    n, often, dt = 127, 4, 0.1
    noise = np.random.default_rng(1).normal(size=(2, n))
    out = tp.compile(chains.oscillators, dt).evolve(
        q=noise[0], p=noise[1], onsite=0.3, steps=8_192, save_every=often
    )
    modes = np.arange(1, n + 1)
    shape = np.sin(np.outer(modes, modes) * np.pi / (n + 1))
    power = np.abs(np.fft.rfft((out.q @ shape)[:-1] * np.hanning(len(out.q) - 1)[:, None], axis=0)) ** 2
    top = 2 * np.pi / (2 * often * dt)
    right.imshow(
        np.log10(power / power.max() + 1e-9),
        aspect="auto",
        origin="lower",
        cmap="magma",
        vmin=-5,
        extent=(0.5, n + 0.5, 0, top),
    )
    right.plot(
        modes,
        chains.mode_frequency(n, modes, onsite=0.3),
        "o",
        color="cyan",
        mfc="none",
        ms=5,
        mew=0.7,
        markevery=6,
        label="mode_frequency",
    )
    right.set(
        title="coupled oscillators: the frequency of each mode",
        xlabel="mode",
        ylabel="frequency",
        ylim=(0, 3),
    )
    right.legend(fontsize=7, loc="upper left")


def vortices(angle) -> np.ndarray:
    """+1 and -1 where the angle turns once around a cell."""
    corners = [angle, np.roll(angle, -1, 1), np.roll(angle, (-1, -1), (0, 1)), np.roll(angle, -1, 0)]
    steps = [(b - a + np.pi) % (2 * np.pi) - np.pi for a, b in zip(corners, corners[1:] + corners[:1])]
    return np.rint(sum(steps) / (2 * np.pi))


def draw_twists(left, right) -> None:
    n, dx, speed = 800, 0.1, 0.2
    one, two = fields.phi4_kink(n, dx, speed, at=-10.0), fields.phi4_kink(n, dx, -speed, at=10.0)
    start = dict(u=one["u"] - two["u"] - 1, v=one["v"] - two["v"])
    out = tp.compile(fields.phi4, 0.05).evolve(**start, dx=dx, steps=3_000, save_every=10)
    image = left.imshow(
        out.u, aspect="auto", origin="lower", cmap="RdBu", vmin=-2, vmax=2, extent=(-40, 40, 0, out.t[-1])
    )
    left.set(
        title="phi**4: kink and antikink bounce twice (speed 0.2)", xlabel="x", ylabel="t", xlim=(-25, 25)
    )
    left.figure.colorbar(image, ax=left, shrink=0.8)
    size = 128
    rng = np.random.default_rng(2)
    k = np.hypot(*np.meshgrid(np.fft.fftfreq(size), np.fft.fftfreq(size)))
    noise = rng.normal(size=(size, size)) + 1j * rng.normal(size=(size, size))
    psi = np.fft.ifft2(np.exp(-((k * 14) ** 2)) * np.fft.fft2(noise))
    out = tp.compile(fields.rotors, 0.1).evolve(angle=np.angle(psi), spin=np.zeros((size, size)), steps=300)
    right.imshow(out.final.angle % (2 * np.pi), cmap="hsv", origin="lower")
    charge = vortices(out.final.angle)
    for sign, mark in ((1, "w^"), (-1, "kv")):
        y, x = np.nonzero(charge == sign)
        right.plot(x + 0.5, y + 0.5, mark, ms=4, mec="0.3", mew=0.4)
    right.set(title="XY model: rotors, vortices (white) and antivortices", xlabel="x", ylabel="y")
    right.set(xlim=(0, size - 1), ylim=(0, size - 1))


def draw_vortices(left, right) -> None:
    n, lid = 34, 0.1
    tau = 0.5 + 3 * lid * (n - 2) / 200
    box = np.ones((n, n, n))
    box[1:-1, 1:-1, 1:-1] = 0.0
    box[1:-1, -1, 1:-1] = 2.0  # the lid is the upper wall
    out = tp.compile(fluids.fluid3).evolve(f=fluids.still(n, n, n), solid=box, tau=tau, lid=lid, steps=3_000)
    w, v, u = fluids.density_and_velocity(out.final.f)[1][:, n // 2, 1:-1, 1:-1] / lid
    x = np.arange(n - 2)
    left.imshow(np.hypot(u, v), origin="lower", cmap="viridis")
    left.streamplot(x, x, u, v, color="white", linewidth=0.5, density=1.3, arrowsize=0.6)
    left.set(
        title="D3Q19: the middle of a cubic cavity, Re = 200",
        xlim=(0, n - 3),
        ylim=(0, n - 3),
        xlabel="x",
        ylabel="y",
    )
    n, tau = 64, 0.8
    out = tp.compile(fluids.fluid).evolve(
        f=fluids.taylor_green(n, n, 0.02), tau=tau, steps=1_200, save_every=20
    )
    speed = [np.sqrt((fluids.density_and_velocity(f)[1] ** 2).mean()) for f in out.f]
    right.semilogy(out.t, np.array(speed) / speed[0], ".", ms=4, label="rms speed, measured")
    rate = 2 * fluids.viscosity(tau) * (2 * np.pi / n) ** 2
    right.semilogy(out.t, np.exp(-rate * out.t), "k-", lw=0.8, label="exp(-viscosity (kx² + ky²) t)")
    right.set(title="Taylor-Green vortices fade", xlabel="t", ylabel="speed / speed at the start")
    right.legend(fontsize=7, loc="lower left")
    vy, ux = fluids.density_and_velocity(out.f[10])[1]
    inset = right.inset_axes([0.56, 0.5, 0.42, 0.44])
    inset.imshow(np.gradient(vy, axis=1) - np.gradient(ux, axis=0), cmap="RdBu", origin="lower")
    inset.set(xticks=[], yticks=[], xlabel="their vorticity")


def draw_molecular(left, right) -> None:
    r = np.linspace(0.3, 2.5, 600)
    curves = {
        "Lennard-Jones": molecular.lennard_jones(r**2),
        "Morse, a = 6, r0 = 1.12": molecular.morse(r**2, 1.0, 6.0, 1.12),
        "Buckingham, C = 2": molecular.buckingham(r**2, 4e4, 11.0, 2.0),
        "shifted charges, -1": molecular.shifted_coulomb(r**2, -1.0, 2.5),
    }
    for name, v in curves.items():
        left.plot(r, v, lw=1.1, label=name)
    left.set(title="energies of a pair", xlabel="r", ylim=(-2.2, 3.5), xlim=(0.3, 2.5))
    left.axhline(0, color="0.8", lw=0.6)
    left.legend(fontsize=7)
    for T, density, hot, name in (
        (0.3, 1.0, 0.6, "crystal"),
        (0.71, 0.839, 3.0, "liquid"),
        (1.5, 0.05, 1.5, "gas"),
    ):
        q, box = lattice("fcc", 5, density=density)
        sim, p = tp.compile(molecular.liquid, 0.005), maxwell(len(q), hot, seed=1)
        for _ in range(30):
            out = sim.evolve(
                q=q, p=p, box=box, steps=100, observe={"T": tp.physics.temperature()}, observe_every=10
            )
            q, p = out.final.q, out.final.p * np.sqrt(T / out["T"][5:].mean())
        out = sim.evolve(q=q, p=p, box=box, steps=3_000, save_every=50)
        at, g = tp.physics.radial_distribution(out.q, box, bins=150, longest=3.9)
        right.plot(at, g, lw=1.1, label=f"{name}, density {density}")
    right.set(title="how often two argon atoms are r apart: g(r)", xlabel="r / sigma", xlim=(0.7, 3.9))
    right.legend(fontsize=7)


OTHERS = ("#2f6db5", "#3a9a6b", "#a34fa0", "#c9a227", "#4fb0c6", "#6b6b6b", "#8a6d3b")


def work_and_error(m, problem) -> tuple[np.ndarray, np.ndarray]:
    """Force evaluations per unit of time, and the error of the state, for ever shorter steps."""
    moves, points, steps = m.sequence(), [], max(2, 60 // m.stages)
    while steps * m.stages < 6_000 and (not points or points[-1][1] > 1e-12):
        points.append((steps * m.stages / PROBLEMS[problem][3], error(moves, problem, steps)))
        steps = max(steps + 1, round(1.2 * steps))
    x, y = np.array(points).T
    return x, y


def draw_methods() -> None:
    """Work and error of every method of order 4 and more: a column for each order, the others in grey behind it."""
    orders = {"order 4": (4,), "order 6": (6,), "orders 8 and 10": (8, 10)}
    chosen = [m for m in METHODS if m.symmetric and m.order >= 4 and m.splits and not m.gradients]
    figure, axes = plt.subplots(2, 3, figsize=(11, 7), layout="constrained", sharex=True, sharey=True)
    for line, problem in zip(axes, ("Hénon–Heiles", "Kepler")):
        measured = {m.name: work_and_error(m, problem) for m in chosen}
        for axis, (title, some) in zip(line, orders.items()):
            for x, y in measured.values():
                axis.loglog(x, y, color="0.88", lw=1, zorder=1)
            others = iter(OTHERS)
            for m in chosen:
                if m.order in some:
                    ours = not m.source
                    axis.loglog(
                        *measured[m.name],
                        color="#d62728" if ours else next(others),
                        lw=2.6 if ours else 1.5,
                        zorder=3 if ours else 2,
                        label=m.name + (" (ours)" if ours else ""),
                    )
            axis.set_title(f"{problem}: {title}", fontsize=11)
            axis.set(ylim=(1e-12, 1), xlim=(1.1, 600))
            axis.grid(color="0.93", lw=0.6)
            axis.legend(fontsize=8.5, loc="lower left", frameon=False)
            axis.tick_params(labelsize=9)
    for axis in axes[1]:
        axis.set_xlabel("force evaluations per unit of time", fontsize=10)
    for axis in axes[:, 0]:
        axis.set_ylabel("error of the state", fontsize=10)
    keep(figure, "methods", dpi=100)


def draw_tongues(left, right) -> None:
    """Where slow kicks feed the fast motion: growth in a step of the model, and what a run of it does."""
    xs, ys = np.linspace(0.01, 2.3, 460), np.linspace(0.0, 0.6, 121)
    radii = np.array(grid([20], [], list(xs), list(ys)))
    shown = left.imshow(
        np.log10(np.maximum(radii - 1, 1e-4)),
        origin="lower",
        aspect="auto",
        cmap="magma",
        extent=(xs[0], xs[-1], ys[0], ys[-1]),
        vmin=-3,
        vmax=0,
    )
    left.axvline(0.8, color="w", lw=0.8, ls="--")
    left.text(0.78, 0.02, "0.8", color="w", ha="right", fontsize=7)
    x_name = "dt over half the fast period"
    left.set(title="growth in a step, inner = 20", xlabel=x_name, ylabel="slow frequency over the fast one")
    left.figure.colorbar(shown, ax=left, label="log10 of the spectral radius less 1")

    @tp.hamiltonian
    def fast(q: tp.Vec[1], p: tp.Vec[1]):
        return p @ p / 2 + q @ q / 2

    @tp.potential
    def slow(q: tp.Vec[1]):
        return 0.1 * (q @ q)

    sim = tp.compile(tp.fast(fast) + tp.slow(slow), dt=1.0, inner=20)
    steps = np.linspace(0.02, 2.3, 600)
    worst = []
    for x in steps:
        out = sim.evolve(q=[1.0], p=[0.0], dt=x * np.pi, steps=100, observe={"E": "energy"}, progress=False)
        worst.append(np.abs(out["E"] - out["E"][0]).max() / out["E"][0])
    right.semilogy(steps, np.minimum(worst, 1e12), lw=0.9, color="tab:blue")
    right.axvline(0.8, color="0.4", lw=0.8, ls="--")
    right.set(title="largest energy error in 100 steps, slow curvature 0.2", xlabel=x_name, ylim=(1e-6, 1e12))


def draw_chaos(left, right) -> None:
    """Hénon and Heiles at E = 1/8: 60 orbits in a section, and MEGNO of 512 x 512 of them."""
    sim = tp.compile(henon_heiles, dt=0.05, order=4, checks="off")

    def at(y, py, energy=1 / 8):
        square = 2 * energy - py**2 - y**2 + 2 * y**3 / 3
        zero, px = np.zeros_like(y), np.sqrt(np.maximum(square, 0.0))
        return {"q": np.stack([zero, y], -1), "p": np.stack([px, py], -1)}, square > 0

    y = np.concatenate([np.linspace(-0.38, 0.62, 40), np.linspace(-0.2, 0.5, 20)])
    py = np.concatenate([np.zeros(40), np.linspace(0.05, 0.3, 20)])
    start, inside = at(y, py)
    start = {name: v[inside] for name, v in start.items()}
    found = tp.chaos.section(sim, lambda q: q[0], **start, until=2500.0)
    left.scatter(found.q[:, 1], found.p[:, 1], c=found.member, s=0.4, cmap="tab20", linewidths=0)
    left.set(
        title="60 orbits where they go through x = 0",
        xlabel="y",
        ylabel="p_y",
        xlim=(-0.5, 0.75),
        ylim=(-0.52, 0.52),
    )
    grid_y, grid_p = np.meshgrid(np.linspace(-0.5, 0.75, 512), np.linspace(-0.52, 0.52, 512))
    start, inside = at(grid_y.ravel(), grid_p.ravel())
    few = {name: v[inside] for name, v in start.items()}
    out = sim.evolve(**few, until=1000.0, observe={"Y": tp.chaos.megno}, observe_every=20_000, frames=2)
    megno = np.full(inside.size, np.nan)
    megno[inside] = out["Y"][-1]
    shown = right.imshow(
        megno.reshape(512, 512),
        origin="lower",
        extent=(-0.5, 0.75, -0.52, 0.52),
        vmin=1,
        vmax=8,
        cmap="magma",
        aspect="auto",
    )
    right.figure.colorbar(shown, ax=right, label="MEGNO at t = 1000")
    right.set(title="512 x 512 orbits: 2 is regular, more is chaos", xlabel="y", ylabel="p_y")


def draw_blew_up(left, right) -> None:
    """A fall into a centre, and an energy that jumps at its cutoff."""

    @tp.hamiltonian
    def falling(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 - 1 / tp.norm(q)

    sim = tp.compile(falling, dt=0.01, method="leapfrog", checks="off")
    out = sim.evolve(q=[1.0, 0.0], p=[0.0, 0.02], steps=200, save_every=1)
    left.plot(*out.q.T, ".-", ms=3, lw=0.7)
    left.plot([0], [0], "+", color="tab:red", ms=12)
    left.set(
        title="a fall past a pole: one step beside it throws the body out",
        xlabel="q[0]",
        ylabel="q[1]",
        xlim=(-2.2, 1.1),
        ylim=(-0.4, 0.1),
    )

    @tp.hamiltonian
    def cut(q, p, end=0.0):
        return p**2 / 2 + tp.where(abs(q) < 1.0, 0.5 * (q**2 - 1) - end, 0.0) + q**4 / 40

    for end, label in ((0.2, "cut off: a jump of 0.2"), (0.0, "shifted: a kink")):
        out = tp.compile(cut, dt=0.01, method="leapfrog", checks="off").evolve(
            q=0.5, p=1.5, end=end, steps=2000, save_every=1
        )
        right.plot(out.t, out.energy - out.energy[0], lw=1, label=label)
    right.set(
        title="the energy jumps where its condition changes",
        xlabel="t",
        ylabel="E - E(0)",
        ylim=(-0.01, 0.27),
    )
    right.legend(loc="upper right", fontsize=8, ncols=2)


def draw_checks(left, right) -> None:
    """An angular momentum and its band, and a shadow energy, each with a fault."""

    @tp.hamiltonian
    def kepler(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 - 1 / tp.norm(q)

    steps, since = 10_000, 6_000
    n = np.arange(steps + 1)
    sim = tp.compile(kepler, dt=0.02, method="leapfrog", checks="off")
    look = {
        "L": lambda q, p: q[0] * p[1] - q[1] * p[0],
        "s": lambda q, p: (q[0] * p[1]) ** 2 + (q[1] * p[0]) ** 2,
    }
    for acts, colour in (
        ({"fault": tp.fault("p", 1, relative=1e-9, since=since)}, "tab:red"),
        (None, "tab:blue"),
    ):
        out = sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=steps, frames=2, observe=look, acts=acts)
        off = np.abs(out["L"] - out["L"][0])
        left.plot(n[1:], np.maximum(off[1:], 2e-17), colour, lw=0.8)
    left.plot(n[1:], 10 * 0.42 * 2.0**-53 * np.sqrt(2 * np.mean(out["s"]) * n[1:]) + 2e-15, "k--", lw=1)
    left.set(yscale="log", xlabel="step", title="angular momentum, with a fault of 1e-9")
    left.set_ylabel("|L - L0|")
    left.text(2000, 1.5e-13, "band: ten walks")

    @tp.hamiltonian
    def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
        return (p @ p + q @ q) / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3

    sim = tp.compile(henon_heiles, dt=0.1, method="leapfrog", checks="off")
    start = {"q": [0.0, -0.016], "p": [0.49974, 0.0]}
    parts = [sim.evolve(**start, steps=500, save_every=1)]
    moved = parts[0].final.p * np.array([1.0002, 1.0])
    parts.append(sim.evolve(q=parts[0].final.q, p=moved, steps=500, save_every=1))
    for name, colour, label in (
        ("energy", "tab:orange", "H"),
        ("shadow_energy", "tab:blue", "shadow energy"),
    ):
        values = np.concatenate([getattr(part, name) for part in parts])
        right.plot(1e4 * (values - values[0]), colour, lw=0.8, label=label)
    right.axvline(500, color="tab:red", lw=0.8)
    right.set(xlabel="step", ylim=(-0.6, 4.8), title="energies of Hénon and Heiles, with a fault of 2e-4")
    right.set_ylabel("change, 1e-4")
    right.legend(loc="upper left")


def draw_units(left, right) -> None:
    """A spring of quantities: what goes in is in cm and ms, what comes out in the units that are asked for."""
    import pint

    u = pint.get_application_registry()

    @tp.hamiltonian
    def spring(
        q: Annotated[float, "m"],
        p: Annotated[float, "kg m/s"],
        m: Annotated[float, "kg"] = 2.0,
        k: float = 3.0,
    ):
        return p**2 / (2 * m) + k * q**2 / 2

    sim = tp.compile(spring, dt=10 * u.ms, method="leapfrog")
    out = sim.evolve(
        q=10 * u.cm, p=0.0, k=3 * u.N / u.m, until=12 * u.s, observe={"T": lambda p, m: p**2 / (2 * m)}
    )
    t = out.quantity("t").to("s").magnitude
    left.plot(t, out.quantity("q").to("cm").magnitude)
    left.set(title='out.quantity("q").to("cm")', xlabel="t (s)", ylabel="q (cm)")
    energy, kinetic = (out.quantity(name).to("mJ").magnitude for name in ("energy", "T"))
    at = np.linspace(0.0, 12.0, len(kinetic))
    right.plot(t, energy, label="energy")
    right.plot(at, kinetic, label="kinetic energy, an observable")
    right.set(title='out.quantity("energy").to("mJ")', xlabel="t (s)", ylabel="mJ", ylim=(0, 20))
    right.legend(loc="upper right", fontsize=8)


def draw_problems() -> None:
    """What bench/problems.py --json docs/pictures/problems.json measured last; ours in red."""
    measured = json.loads((HERE / "problems.json").read_text())
    plt.rcParams.update({"font.size": 8, "axes.titlesize": 9})
    figure, axes = plt.subplots(2, 3, figsize=(9, 5.6), layout="constrained")
    others = {
        "heyoka": "tab:blue",
        "REBOUND IAS15": "tab:green",
        "SciPy DOP853": "tab:purple",
        "diffrax Dopri8": "tab:brown",
    }
    for axis, (title, curves) in zip(axes.flat, measured.items()):
        marks = iter("os^d")
        for name, points in curves.items():
            errors, seconds = zip(*((e, s) for e, s, _ in points))
            shade, mark = (others[name], ".") if name in others else ("tab:red", next(marks))
            label = name.removeprefix("ours, ")
            axis.loglog(errors, np.array(seconds) * 1e6, marker=mark, color=shade, lw=0.9, ms=3, label=label)
        axis.set(
            title=title.replace("_", " "), xlim=(1, 1e-14), ylim=(None, 60 * axis.get_ylim()[1])
        )  # room for the legend
        axis.legend(fontsize=5.5, loc="upper left")
    for axis in axes[1]:
        axis.set(xlabel="error at the end")
    for axis in axes[:, 0]:
        axis.set(ylabel="µs")
    keep(figure, "problems")


def draw_first() -> None:
    """What the first program of the README draws."""
    sim = tp.compile(kepler, dt=0.02)
    out = sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], until=20.0, save_every=1)
    keep(out.plot(), "first")


def draw_swings() -> None:
    """What the tour draws: pendulums that swing, and one that goes over the top."""

    @tp.hamiltonian
    def pendulum(q, p, g: float = 9.81, length: float = 1.0):
        return p**2 / (2 * length**2) - g * length * np.cos(q)

    many = tp.compile(pendulum, dt=0.01).evolve(q=np.linspace(0.5, 3.0, 6), p=0.0, steps=1000, save_every=1)
    keep(many.plot(), "swings")


WHOLE = {
    "plot": draw_plot, "first": draw_first, "swings": draw_swings, "methods": draw_methods, "problems": draw_problems
}  # fmt: skip


def main() -> None:
    HERE.mkdir(exist_ok=True)
    families = {
        "particles": draw_particles,
        "charges": draw_charges,
        "chains": draw_chains,
        "springs": draw_springs,
        "fields": draw_fields,
        "twists": draw_twists,
        "fluids": draw_fluids,
        "vortices": draw_vortices,
        "molecular": draw_molecular,
        "planets": draw_planets,
        "tongues": draw_tongues,
        "chaos": draw_chaos,
        "blew_up": draw_blew_up,
        "checks": draw_checks,
        "units": draw_units,
        "friction": draw_friction,
        "magnetic": draw_magnetic,
        "pushers": draw_pushers,
        "whip": draw_whip,
        "annealing": draw_annealing,
        "parareal": draw_parareal,
    }
    three = {
        "tops": draw_tops,
        "pendulum": draw_pendulum,
        "rods": draw_rods,
        "walls": draw_walls,
        "heat": draw_heat,
        "rare": draw_rare,
        "baths": draw_baths,
        "argon": draw_argon,
        "how_long": draw_how_long,
        "boxes": draw_boxes,
    }
    for name in sys.argv[1:] or [*WHOLE, *families, *three]:
        if name in WHOLE:
            WHOLE[name]()
            continue
        with plt.rc_context({"font.size": 8, "axes.titlesize": 9}):
            count = 3 if name in three else 2
            figure, axes = plt.subplots(
                1, count, figsize=(9, 3.6 if count == 2 else 3.0), layout="constrained"
            )
            (families | three)[name](*axes)
            keep(figure, name)


if __name__ == "__main__":
    main()
