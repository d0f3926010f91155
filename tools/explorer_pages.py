"""The explorer's gallery as static pages of the docs: python tools/explorer_pages.py FOLDER writes them.

The build of the docs calls `write` and `listing` (tools/mkdocs_hooks.py). Each system of examples/explore/ becomes an HTML
file, which computes in the browser, and a small picture (SVG) of its run. None of them is kept in the repository.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT / "src") not in sys.path:
    sys.path.insert(0, str(ROOT / "src"))

from tinyphysics.cli import Loaded, load, simulation_of  # noqa: E402
from tinyphysics.explorer.open import explore  # noqa: E402
from tinyphysics.explorer.state import question  # noqa: E402
from tinyphysics.view.terminal import portrait  # noqa: E402

SYSTEMS = ROOT / "examples" / "explore"
HERE = "explore"  # the folder of the pages, beside the others
MARK = "<!-- the explorer's gallery -->"
WIDE, HIGH, EDGE = 320, 220, 14  # of a picture
POINTS = 400  # of a curve in a picture, at most
SHADES = ("#3f78d0", "#c2571a", "#1c7c4a", "#8a4fa0")
STEPS = 600


def files() -> list[Path]:
    return sorted(SYSTEMS.glob("*.py"), key=lambda f: (f.stem not in ("pendulum", "kepler"), f.stem))


def asks(found: Loaded) -> str:
    return str(question(found.system.bind({})))


def picture(out: Any, system: Any) -> str:
    """The portrait of a run as SVG: curves, or points where there are many."""
    curves = [(np.asarray(x, float), np.asarray(y, float)) for x, y in portrait(out, system).curves]
    curves = [(x[g], y[g]) for x, y in curves for g in [np.isfinite(x) & np.isfinite(y)]]
    curves = [c for c in curves if len(c[0])]
    every = [np.concatenate([c[k] for c in curves]) for k in (0, 1)]
    low, size = [float(v.min()) for v in every], [float(np.ptp(v)) or 1.0 for v in every]

    def places(x: Any, y: Any) -> list[str]:
        some = np.unique(np.linspace(0, len(x) - 1, min(len(x), POINTS)).astype(int))
        px = EDGE + (x[some] - low[0]) / size[0] * (WIDE - 2 * EDGE)
        py = HIGH - EDGE - (y[some] - low[1]) / size[1] * (HIGH - 2 * EDGE)
        return [f"{a:.1f},{b:.1f}" for a, b in zip(px, py)]

    drawn = []
    dots = len(curves) > 12
    for k, (x, y) in enumerate(curves):
        colour, at = SHADES[k % len(SHADES)], places(x, y)
        if dots or len(at) < 3:
            cx, cy = at[-1].split(",")
            drawn.append(f'<circle cx="{cx}" cy="{cy}" r="2" fill="{SHADES[0] if dots else colour}"/>')
        else:
            drawn.append(
                f'<polyline points="{" ".join(at)}" fill="none" stroke="{colour}" stroke-width="1.3"/>'
            )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" width="{WIDE}" height="{HIGH}">'
        f'<rect width="{WIDE}" height="{HIGH}" rx="8" fill="#8884" fill-opacity=".18"/>{"".join(drawn)}</svg>\n'
    )


def write(folder: Path) -> dict[str, int]:
    """The pages and their pictures; bytes of each page."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {}
    for file in files():
        found = load(str(file))
        sim = simulation_of(found, {})
        made = explore(sim, found.start, folder / f"{file.stem}.html", STEPS)
        sizes[file.stem] = made.stat().st_size
        out = sim.evolve(**found.start, steps=STEPS)
        (folder / f"{file.stem}.svg").write_text(picture(out, sim.system.seen), encoding="utf-8")
    return sizes


def listing() -> str:
    """The gallery as HTML: each system with its picture and its question."""
    rows = []
    for file in files():
        found = load(str(file))
        name, where = escape(found.name.replace("_", " ")), f"{HERE}/{file.stem}"
        rows.append(
            f'<figure><a href="{where}.html"><img src="{where}.svg" alt="a run of {name}" loading="lazy"></a>'
            f'<figcaption><a href="{where}.html"><b>{name}</b></a><br>{escape(asks(found))}</figcaption></figure>'
        )
    return f'<div class="gallery">{"".join(rows)}</div>'


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site" / HERE
    for system, size in write(target).items():
        print(f"{system}: {size // 1024} KiB")
