"""The pictures of the pages about gradients at work: each page runs, and what it computed is drawn.

python tools/pictures_gradients.py [aim_ball aim_probe ...]   needs matplotlib; writes docs/pictures/*.png
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from docs import blocks, run_block
from pictures import HERE, keep, plt

PAGES = Path(__file__).parent.parent / "docs"


def computed(page: str) -> dict[str, Any]:
    """The names of a page after its blocks have run."""
    names: dict[str, Any] = {"__name__": "__docs__"}
    for block in blocks((PAGES / f"{page}.md").read_text(encoding="utf-8")):
        if block.language == "python" and block.skip is None:
            run_block(block, f"{page}.md", names)
    return names


def draw_aim_ball(n: dict[str, Any], left, right) -> None:
    for k, p in enumerate(n["throws"]):
        q = n["sim"].evolve(q=[0.0, 2.0], p=p, steps=1_000_000, frames=60).q
        last = k == len(n["throws"]) - 1
        left.plot(*q.T, color="tab:red" if last else "0.75", lw=1.4 if last else 0.8)
    left.plot(*n["basket"], "o", ms=8, mfc="none", color="black")
    left.set(title=f"{len(n['throws'])} throws, the last one in red", xlabel="m", ylabel="m")
    right.loglog(n["counts"], n["theirs"], "s--", label="JAX, lax.scan")
    right.loglog(n["counts"], n["ours"], "o-", color="tab:red", label="here")
    right.set(title="bytes for the past of a gradient", xlabel="steps")
    right.legend()


def draw_aim_probe(n: dict[str, Any], left, right) -> None:
    first = n["sim"].evolve(**n["start"], until=8.0, frames=400)
    stars = 2 * np.pi / 3 * np.arange(3)
    for axes, run, title in ((left, first, "the first guess"), (right, n["path"], "the fit")):
        axes.plot(*run.q.T, color="tab:red", lw=1.2)
        axes.plot(np.cos(8.0 + stars), np.sin(8.0 + stars), "*", color="tab:orange", ms=9)
        circle = np.linspace(0, 2 * np.pi, 100)
        axes.plot(np.cos(circle), np.sin(circle), ":", color="0.7", lw=0.8)
        axes.plot(*n["target"], "x", color="black", ms=8)
        axes.set(title=title, aspect="equal", xlim=(-4.5, 6.0), ylim=(-2.5, 3.5))


def draw_weigh_planets(n: dict[str, Any], left, right) -> None:
    found, m = n["found"], n["m"]
    orbits = n["sim"].evolve(**found.values, until=30.0, frames=600).q
    for k, name in ((1, "jupiter"), (2, "saturn")):
        left.plot(*orbits[:, k].T, lw=0.8, color="0.5")
        left.plot(*n["seen"][:, k].T, ".", ms=3, label=name)
    left.set(title="positions that were seen, and the orbits", xlabel="au", ylabel="au", aspect="equal")
    left.legend(loc="upper right")
    two = [found.names.index(f"m[{k}]") for k in (1, 2)]
    values, vectors = np.linalg.eigh(found.covariance[np.ix_(two, two)])
    circle = np.stack([np.cos(a := np.linspace(0, 2 * np.pi, 100)), np.sin(a)])
    for size in (1, 2):
        x, y = 1e6 * (vectors @ (size * np.sqrt(values)[:, None] * circle) + found.values["m"][1:, None])
        right.plot(x, y, color="tab:red", lw=1.6 - size / 2, label=f"{size} sigma")
    right.plot(*(1e6 * found.values["m"][1:]), "+", color="tab:red", label="fit")
    right.plot(*(1e6 * m[1:]), "o", color="black", label="truth")
    right.set(title="masses, millionths of the sun", xlabel="jupiter", ylabel="saturn")
    right.legend(loc="lower right")


def draw_learn_potential(n: dict[str, Any], left, right) -> None:
    x, first = n["x"], n["first"]
    began = (first["c"] * np.tanh(x[:, None] * first["w"] + first["b"])).sum(1)
    left.plot(x, began + (n["true"] - began).mean(), color="0.7", label="first weights")
    left.plot(x, n["true"], color="black", lw=3, alpha=0.3, label="true")
    left.plot(x, n["learnt"], color="tab:red", lw=1.2, label="learnt")
    left.set(title="the potential", xlabel="q", ylim=(-0.3, 2.6))
    left.legend()
    right.semilogy(n["losses"], color="tab:red", lw=1.0)
    right.set(title="the loss", xlabel="gradients")


def draw_swing_up(n: dict[str, Any], left, right) -> None:
    out = n["out"]
    left.plot(out.t, out.q[:, 0] / np.pi, color="tab:red")
    left.axhline(1.0, color="0.7", lw=0.8)
    left.set(title="the angle, in units of pi", xlabel="t")
    right.plot(out.t, n["push"], color="tab:blue")
    for y in (-1, 1):
        right.axhline(y, color="0.7", lw=0.8)
    right.set(title="the push; grey: the weight", xlabel="t")


def draw_galaxies_back(n: dict[str, Any], left, middle, right) -> None:
    seen = (
        (n["out"].q[0], "the start"),
        (n["out"].q[-1], "after 1,024 steps"),
        (n["back"].final.q, "run back"),
    )
    for axes, (q, title) in zip((left, middle, right), seen):
        axes.plot(*q[:101, :2].T, ".", ms=2.5, color="tab:blue")
        axes.plot(*q[101:, :2].T, ".", ms=2.5, color="tab:orange")
        axes.set(title=title, xlim=(-3.4, 3.4), ylim=(-2.6, 2.6), aspect="equal")


def draw_gradient_in_chaos(n: dict[str, Any], left, middle, right) -> None:
    near = np.linspace(-2e-3, 2e-3, 801)
    for axes, t in zip((left, middle, right), (20, 200, 2000)):
        ends, slope = n["ends_of"](near, t), n["slopes"][t]
        axes.plot(1e3 * near, ends, ".", ms=1.5, color="0.4")
        low, high = ends.min(), ends.max()
        line = ends[400] + slope * np.linspace(near[0], near[-1], 4001)
        inside = (line > low - 0.1) & (line < high + 0.1)
        at = 1e3 * np.linspace(near[0], near[-1], 4001)
        if abs(slope) > 1e6:
            axes.axvline(0.0, color="tab:red", lw=1.2)
        else:
            axes.plot(at[inside], line[inside], color="tab:red", lw=1.2)
        axes.set(title=f"t = {t}", xlabel="change of the start, in 0.001")
    left.set_ylabel("q[0] at the end")


TWO = {
    "aim_ball": draw_aim_ball, "aim_probe": draw_aim_probe, "weigh_planets": draw_weigh_planets,
    "learn_potential": draw_learn_potential, "swing_up": draw_swing_up,
}  # fmt: skip
THREE = {"galaxies_back": draw_galaxies_back, "gradient_in_chaos": draw_gradient_in_chaos}


def main() -> None:
    HERE.mkdir(exist_ok=True)
    for name in sys.argv[1:] or [*TWO, *THREE]:
        count = 2 if name in TWO else 3
        with plt.rc_context({"font.size": 8, "axes.titlesize": 9}):
            figure, axes = plt.subplots(
                1, count, figsize=(9, 3.6 if count == 2 else 2.6), layout="constrained"
            )
            (TWO | THREE)[name](computed(name), *axes)
            keep(figure, name)


if __name__ == "__main__":
    main()
