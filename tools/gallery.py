"""Write the gallery page of the docs: every example with its picture and its run time.

python tools/gallery.py                 writes docs/gallery.md from the stored pictures and times
python tools/gallery.py kepler ising    draws and measures these again; `all` does so for every example

A picture is made from what `tp run` reads of an example: its system, start, dt and steps. It is small, in few colours, and
kept beside the page, so that building the docs runs nothing. Times are processor seconds of `python examples/NAME.py`,
with an empty cache of kernels: what a first try costs.
"""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

import tinyphysics as tp  # noqa: E402
from tinyphysics.cli import load  # noqa: E402
from tinyphysics.physics import chains, fluids  # noqa: E402

PAGE, HERE = ROOT / "docs" / "gallery.md", ROOT / "docs" / "pictures" / "gallery"
TIMES = HERE / "times.json"
FRAMES = 1_000
SIZE, DPI, SHADES = (4.4, 3.2), 100, 64


@dataclass(frozen=True)
class Row:
    """How an example is drawn: what differs from `tp run` and from `out.plot()`."""

    steps: int | None = None  # default: those of the file, else 1000
    dt: float | None = None
    kind: str | None = None
    axes: Callable[[Any], dict[str, Any]] | None = None  # x=, y=, z= of the run
    draw: Callable[[Any, Any], None] | None = None  # (axes, run): a picture of its own
    start: dict[str, Any] = field(default_factory=dict)  # in place of what the file has
    options: dict[str, Any] = field(default_factory=dict)  # of compile
    limits: tuple[float, float] | None = None  # of both axes
    run: dict[str, Any] = field(default_factory=dict)  # of evolve


def tip(out: Any) -> dict[str, Any]:
    """Of a double pendulum, where its end is."""
    a, b = out.q.T
    return {"x": np.sin(a) + np.sin(b), "y": -np.cos(a) - np.cos(b)}


def bands(ax: Any, out: Any) -> None:
    """Of z = W z + b, the energy of four bands at every twentieth step."""
    w, b, z, rows = out.w[0], out.b[0], np.ones(len(out.b[0])), []
    for n in range(6_000):
        z = w @ z + b
        if n % 20 == 0:
            rows.append((z.reshape(4, -1) ** 2).sum(1))
    ax.imshow(np.log(np.array(rows).T), aspect="auto", extent=(0, 6_000, 4, 0))
    ax.set(xlabel="step", ylabel="band", yticks=[])


def learning(ax: Any, out: Any) -> None:
    """The loss of a matrix that is learned from what another does."""
    n = out.row.shape[-1]
    rng, learned, losses = np.random.default_rng(1), np.zeros((n, n)), []
    true, sim = rng.normal(size=(n, n)) / np.sqrt(n), tp.compile(out.origin.run.system.seen)
    for _ in range(100):
        z = rng.normal(size=n)
        end = sim.evolve(row=learned, y=true @ z, loss=np.zeros(n), z=z, steps=1).final
        learned = end.row
        losses.append(end.loss.sum())
    ax.semilogy(losses)
    ax.set(xlabel="step", ylabel="loss")


def from_above(out: Any) -> dict[str, Any]:
    """Of a pendulum that swings in two directions."""
    return {"x": np.sin(out.theta) * np.cos(out.phi), "y": np.sin(out.theta) * np.sin(out.phi)}


def axis_of_a_top(out: Any) -> dict[str, Any]:
    """Where its third axis points, from above."""
    x, y, _ = np.asarray(tp.rotate(out.R, [0.0, 0.0, 1.0])).T
    return {"x": x, "y": y}


def along_z(out: Any) -> dict[str, Any]:
    """Of an ion that spirals along an axis: that axis, and one across."""
    return {"x": out.q[:, 2], "y": out.q[:, 0]}


def profile(ax: Any, out: Any) -> None:
    """Of a channel: the speed across it."""
    u = fluids.density_and_velocity(out.final.f, (0.0, 1e-5))[1][1][1:-1, 0]
    ax.plot(u, np.arange(len(u)) + 0.5, "o-")
    ax.set(xlabel="speed", ylabel="y", xlim=(0, None))


def across(ax: Any, out: Any) -> None:
    """Of a duct: the speed in its cross-section."""
    u = fluids.density_and_velocity(out.final.f, (0.0, 0.0, 1e-6))[1][2, 1:-1, 1:-1, 0]
    ax.figure.colorbar(ax.imshow(u, origin="lower", cmap="magma"), ax=ax, label="speed")


def curl(ax: Any, out: Any) -> None:
    """Of vortices: how fast the fluid turns."""
    v, u = fluids.density_and_velocity(out.f[len(out.f) // 4])[1]
    turn = np.gradient(v, axis=1) - np.gradient(u, axis=0)
    most = np.abs(turn).max()
    ax.figure.colorbar(
        ax.imshow(turn, origin="lower", cmap="RdBu_r", vmin=-most, vmax=most), ax=ax, label="vorticity"
    )


def modes(ax: Any, out: Any) -> None:
    """Of Fermi's chain: the energies of its first modes."""
    share = chains.mode_energies(out.q, out.p) / out.energy[0]
    for k in range(4):
        ax.plot(out.t, share[:, k], lw=1, label=f"mode {k + 1}")
    ax.set(xlabel="t", ylabel="share of the energy")
    ax.legend(fontsize=7, frameon=False, ncols=2)


def spins(ax: Any, out: Any) -> None:
    ax.imshow(out.final.s, cmap="binary", interpolation="nearest")
    ax.set(xticks=[], yticks=[])


def patch() -> Any:
    """A world small enough for its cells to be seen."""
    return (np.random.default_rng(1).random((96, 96)) < 0.3).astype(np.int8)


def cells(ax: Any, out: Any) -> None:
    ax.imshow(out.final.cells, cmap="binary", interpolation="nearest")
    ax.set(xticks=[], yticks=[])


def density(ax: Any, out: Any) -> None:
    """Of a gas on a lattice: particles a site, over squares of four by four."""
    n = out.final.f.shape[0] // 4
    count = sum((out.final.f >> k) & 1 for k in range(4)).reshape(n, 4, n, 4).mean((1, 3))
    ax.figure.colorbar(ax.imshow(count, origin="lower", cmap="magma"), ax=ax, label="particles a site")


def twists(ax: Any, out: Any) -> None:
    """Of rotors on a sheet: which way each fourth one points."""
    angle = out.final.angle[::4, ::4]
    ax.quiver(
        np.cos(angle), np.sin(angle), angle % (2 * np.pi), cmap="twilight", pivot="mid", width=0.006, scale=14
    )
    ax.set(xticks=[], yticks=[])


def bonds(ax: Any, out: Any) -> None:
    """Of a polymer: its beads in a row."""
    ax.plot(*out.final.q[:, :2].T, "o-", ms=3, lw=0.8)
    ax.set(aspect="equal", xlabel="x", ylabel="y")


LOGARITHMIC = {"time": "logarithmic", "order": 8}
# fmt: off
GROUPS: dict[str, dict[str, Row]] = {
    "Planets, stars and charges": {
        "kepler":           Row(),
        "accuracy":         Row(steps=5_000, kind="energy"),
        "observables":      Row(),
        "horizon":          Row(steps=6_000),
        "arenstorf":        Row(steps=1_000, dt=17.0652165601579625588917206249 / 1000, kind="orbit"),
        "close_encounter":  Row(steps=16_000, dt=0.02, options=LOGARITHMIC, kind="orbit", limits=(-5, 5)),
        "solar_system":     Row(kind="orbit", limits=(-2, 2)),
        "planets":          Row(steps=12_000, kind="orbit", limits=(-32, 32)),
        "perihelion":       Row(steps=2_000, dt=0.5, kind="orbit", limits=(-0.6, 0.6)),
        "rotating_frame":   Row(steps=20_000),
        "dust":             Row(steps=600, kind="3d"),
        "star_cluster":     Row(steps=600, run={"softening": 0.15}),
        "plummer":          Row(run={"softening": 0.05}, kind="3d"),
        "rutherford":       Row(axes=lambda out: {"x": "q[1, 0]", "y": "q[1, 1]"}, limits=(-25, 25)),
        "dipole":           Row(steps=9_000),
        "magnetic_bottle":  Row(steps=6_000, axes=along_z),
        "valgrind":         Row(steps=700, kind="orbit"),
        "stiff_trap":       Row(steps=400, axes=lambda out: {"y": "q[:, 0]"}),
    },
    "Pendulums and single particles": {
        "pendulum_ensemble": Row(kind="phase", start={"q": np.linspace(0.2, 3.0, 8), "p": np.zeros(8)}),
        "damped_pendulum":  Row(steps=3_000, kind="phase", options={"friction": "gamma"}),
        "double_pendulum":  Row(steps=1_500, axes=tip),
        "pendulum_on_a_rod": Row(steps=250),
        "boxes":            Row(steps=150, kind="time"),
        "rods":             Row(steps=3_000, options={"order": 4}, axes=lambda out: {"x": "q[1, 0]", "y": "q[1, 1]"}),
        "bounces":          Row(steps=600),
        "billiard":         Row(steps=2_000),
        "spherical_pendulum": Row(steps=2_000, axes=from_above),
        "cart_pole":        Row(steps=2_000, axes=lambda out: {"y": "theta"}),
        "hoop":             Row(steps=2_000, kind="phase"),
        "harness":          Row(steps=500, kind="phase"),
        "links":            Row(steps=1_000, kind="time"),
        "custom_op":        Row(steps=2_000, kind="phase"),
        "forces":           Row(steps=3_000),
        "henon_heiles":     Row(steps=3_000),
        "spinning_top":     Row(steps=800, axes=axis_of_a_top),
        "tennis_racket":    Row(steps=3_000, axes=lambda out: {"y": "L[1]"}),
    },
    "Chains and fields": {
        "coupled_oscillators": Row(kind="time"),
        "fput":             Row(draw=modes),
        "toda":             Row(steps=2_000),
        "normal_modes":     Row(steps=2_000, dt=0.1),
        "trapped_chain":    Row(steps=3_000),
        "long_run":         Row(steps=8_000),
        "kink":             Row(),
        "phi4":             Row(),
        "waves":            Row(steps=40, kind="field", start={"member": 2}),
        "xy_model":         Row(draw=twists),
    },
    "Fluids": {
        "channel_flow":     Row(draw=profile),
        "duct_flow":        Row(draw=across),
        "taylor_green":     Row(draw=curl),
    },
    "Molecules and liquids": {
        "argon":            Row(steps=400, kind="3d"),
        "salt":             Row(steps=400, kind="3d"),
        "reversible":       Row(steps=300, kind="3d"),
        "polymer":          Row(steps=200, draw=bonds),
    },
    "Maps and random numbers": {
        "standard_map":     Row(run={"K": 0.97}, kind="map"),
        "operator_loop":    Row(steps=1, draw=bands),
        "operator_train":   Row(steps=1, draw=learning),
        "ising":            Row(steps=400, run={"seed": 1}, start={"T": 2.3}, draw=spins),
        "life":             Row(steps=300, start={"cells": patch()}, draw=cells),
        "lattice_gas":      Row(steps=120, draw=density),
    },
}
# fmt: on
ROWS = {name: row for group in GROUPS.values() for name, row in group.items()}


def example(name: str) -> Path:
    return ROOT / "examples" / f"{name}.py"


def about(name: str) -> str:
    """The first sentence of an example: its docstring."""
    return example(name).read_text(encoding="utf-8").split('"""')[1].strip()


# --- drawing and measuring ----------------------------------------------------------------------------
def run_of(name: str, row: Row) -> Any:
    loaded = load(str(example(name)))
    start = dict(loaded.start)
    member = row.start.get("member")
    if member is not None:
        start = {k: v[member] for k, v in start.items()}
    start |= {k: v for k, v in row.start.items() if k != "member"}
    steps = row.steps or loaded.steps or 1_000
    system: Any = loaded.system
    dt = row.dt if row.dt is not None else loaded.dt
    sim = tp.compile(system, *([] if dt is None else [dt]), **row.options)
    return sim.evolve(**start, **row.run, steps=steps, save_every=max(1, steps // FRAMES), progress=False)


def draw(name: str) -> None:
    from matplotlib.figure import Figure
    from PIL import Image

    from tinyphysics.view.panels import dressed

    row = ROWS[name]
    out = run_of(name, row)
    figure = Figure(figsize=SIZE, layout="constrained")
    if row.draw is not None:
        ax = figure.add_subplot()
        row.draw(ax, out)
        dressed(ax)
    else:
        kind = row.kind or next(k for k in kinds(out))
        out.plot(figure=figure, **(row.axes(out) if row.axes else {"kind": kind}))
    if row.limits is not None:
        figure.axes[0].set(xlim=row.limits, ylim=row.limits)
    figure.suptitle("")
    figure.axes[0].set_title("")
    data = io.BytesIO()
    figure.savefig(data, dpi=DPI)
    picture = Image.open(data).convert("RGB").quantize(SHADES, dither=Image.Dither.NONE)
    picture.save(HERE / f"{name}.png", optimize=True)


def kinds(out: Any) -> list[str]:
    """The kind that suits a run, as out.plot() chooses it."""
    from tinyphysics.view.choice import choose_kind

    return [choose_kind(out, out.origin.run.system.seen, None)]


def measure(name: str) -> float:
    """Processor seconds of the example as a program of its own, nothing compiled before."""
    with tempfile.TemporaryDirectory() as cache:
        os.chmod(cache, 0o700)
        env = os.environ | {"PYTHONPATH": str(ROOT / "src"), "TINYPHYSICS_CACHE": cache}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, str(example(name))], env=env, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# --- the page -----------------------------------------------------------------------------------------
def page() -> str:
    times = json.loads(TIMES.read_text(encoding="utf-8"))
    parts = [
        "# Gallery",
        "",
        "Here is every program in the folder `examples/`. They are short, assert what they claim, and run in the tests.",
        "`python examples/kepler.py` runs one; `tp explain examples/kepler.py` shows what the compiler makes of it. Times",
        "are CPU seconds of a first run on a Zen 4, compile time included. `python tools/gallery.py` writes this page.",
    ]
    for title, rows in GROUPS.items():
        parts += ["", f"## {title}", "", '<div class="gallery">']
        for name in rows:
            parts += [
                f'<figure><img src="pictures/gallery/{name}.png" alt="{escape(name.replace("_", " "))}" loading="lazy">',
                f"<figcaption><code>{name}.py</code> · {times[name]:.1f} s<br>{escape(about(name))}</figcaption></figure>",
            ]
        parts.append("</div>")
    return "\n".join(parts) + "\n"


def main() -> None:
    HERE.mkdir(parents=True, exist_ok=True)
    times = json.loads(TIMES.read_text(encoding="utf-8")) if TIMES.exists() else {}
    for name in ROWS if sys.argv[1:] == ["all"] else sys.argv[1:]:
        draw(name)
        times[name] = round(measure(name), 1)
        print(f"{name}: {times[name]} s, {(HERE / f'{name}.png').stat().st_size:,} bytes", flush=True)
        TIMES.write_text(json.dumps(dict(sorted(times.items())), indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
