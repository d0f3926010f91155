"""What does a notebook show of a run or a simulation?  A few kilobytes of HTML that load nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol

import numpy as np

from tinyphysics.plan import Goal
from tinyphysics.report import Report
from tinyphysics.system import System
from tinyphysics.target import Target
from tinyphysics.trajectory import Trajectory
from tinyphysics.view.choice import COLOURS, FEW, choose_kind, visible

WIDE, HIGH = 300, 220  # of a picture, in pixels
FEW_SITES = 6  # a chain this short is curves over time
POINTS = 600  # of all curves of a picture
BOX = "font:13px/1.5 system-ui,sans-serif;display:flex;gap:1.4em;flex-wrap:wrap;align-items:flex-start"
CELL = "style='text-align:left;padding:0 1em 0 0'"


@dataclass(frozen=True, eq=False)
class Sketch:
    """Curves or points over one pair of axes."""

    names: tuple[str, str]
    curves: tuple[Any, ...]  # (points, 2) each
    joined: bool = True
    to_scale: bool = False
    dots: bool = True  # where curves end


# --- a run --------------------------------------------------------------------------------------------
def run_page(out: Trajectory) -> str:
    """What a notebook shows of a run: a sketch, its states, and what to ask next."""
    system = None if out.origin is None else out.origin.run.system.seen
    rows = [(name, *told(np.asarray(v))) for name, v in out.frames.items() if is_here(v)]
    rows += [(name, str(tuple(v.shape)), "on a GPU") for name, v in out.frames.items() if not is_here(v)]
    asked = "out.plot() · out.animate()" + (
        " · out.drift()" if system is not None and system.energy is not None else ""
    )
    text = (
        f"<div><b>{escape('run' if system is None else system.name)}</b><br>{escape(repr(out))}"
        f"{table(('state', 'shape', 'at the end'), rows)}<code>{asked}</code></div>"
    )
    picture = sketch(out, system)
    return f'<div style="{BOX}">{"" if picture is None else svg(picture)}{text}</div>'


def is_here(values: Any) -> bool:
    """An array of NumPy, rather than one on a GPU or one still to be read from a file."""
    return isinstance(values, np.ndarray)


def told(values: Any) -> tuple[str, str]:
    """The shape of an array over frames, and its last frame in a few words."""
    last = values[-1] if len(values) else values
    good = last[np.isfinite(last)] if last.ndim else last
    if last.size == 1:
        end = f"{last.reshape(())[()]:.6g}"
    elif 0 < last.size <= 4:
        end = ", ".join(f"{v:.4g}" for v in last.ravel())
    else:
        end = f"{good.min():.4g} to {good.max():.4g}" if good.size else "no finite number"
    return str(values.shape), end


def sketch(out: Trajectory, system: System | None) -> Sketch | None:
    """The picture that suits the run, in few points."""
    if system is None or np.ndim(out.t) != 1 or len(out.t) < 2 or out.metrics.get("members", 1) == 0:
        return None
    states = visible(system)
    first, shape = states[0], states[0].var.shape
    if not all(is_here(out.frames[s.name]) for s in system.states if s.name in out.frames):
        return None
    kind = choose_kind(out, system, None)
    every = math.ceil(len(out.t) / POINTS)

    def rows(name: str, own: tuple[int, ...], each: int = every) -> Any:
        v = out.frames[name][::each]
        return v.reshape(len(v), -1, *own)

    if kind == "chain" and shape[0] <= FEW_SITES:
        x = rows(first.name, shape)[:, 0]
        t = np.broadcast_to(np.asarray(out.t, float)[::every, None], x.shape)
        return few_curves(np.stack([t, x], -1), ("t", first.name))
    if kind == "chain":
        x = rows(first.name, shape, max(len(out.t) - 1, 1))[:, 0]
        return two_frames(x, ("site", f"{first.name}, first and last frame"))
    if kind == "field":
        x = rows(first.name, shape, max(len(out.t) - 1, 1))[:, 0]
        x = x[(slice(None), *(n // 2 for n in shape[:-1]))]
        return two_frames(x, ("last axis", f"{first.name} in the middle, first and last frame"))
    if kind == "phase":
        p = next(s.name for s in system.states if s.role == "momentum")
        return few_curves(np.stack([rows(first.name, ()), rows(p, ())], -1), (first.name, p))
    single = [s.name for s in states if s.var.shape == ()]
    if shape == () and len(single) > 1:
        points = np.stack([rows(name, ()) for name in single[:2]], -1)
        return few_curves(points, (single[0], single[1]), joined=kind != "map")
    if shape == ():
        x = rows(first.name, ())
        t = np.broadcast_to(np.asarray(out.t, float)[::every, None], x.shape)
        return few_curves(np.stack([t, x], -1), ("t", first.name), joined=kind != "map")
    before = ":, " if len(shape) == 2 else ""
    points = rows(first.name, shape).reshape(-(-len(out.t) // every), -1, shape[-1])[..., :2]
    return few_curves(points, (f"{first.name}[{before}0]", f"{first.name}[{before}1]"), to_scale=True)


def two_frames(x: Any, names: tuple[str, str]) -> Sketch:
    """The first and the last row, over the numbers of their columns."""
    site = np.arange(x.shape[1], dtype=float)
    lines = tuple(thin(np.stack([site, x[k]], -1), POINTS // 2) for k in (0, -1))
    return Sketch(names, lines, dots=False)


def few_curves(points: Any, names: tuple[str, str], joined: bool = True, to_scale: bool = False) -> Sketch:
    """(frames, bodies, 2) as curves, or the last frame of many as points."""
    if points.shape[1] > FEW:
        return Sketch(names, (thin(points[-1], POINTS),), False, to_scale)
    each = max(POINTS // max(points.shape[1], 1), 2)
    return Sketch(names, tuple(thin(points[:, k], each) for k in range(points.shape[1])), joined, to_scale)


def thin(points: Any, most: int) -> Any:
    """At most so many of the points that are finite, evenly chosen, the last among them."""
    good = points[np.isfinite(points).all(-1)]
    return good if len(good) <= most else good[np.linspace(0, len(good) - 1, most).astype(int)]


def svg(s: Sketch) -> str:
    """The sketch as a drawing: lines with a dot at their end, the ranges of the axes at its edges."""
    every = np.concatenate([c for c in s.curves if len(c)] or [np.zeros((1, 2))]).astype(float)
    low, high = every.min(0), every.max(0)
    span = np.where(high > low, high - low, 1.0)
    room = np.array([WIDE, HIGH]) - 40.0
    scale = room / span
    if s.to_scale:
        scale = np.full(2, scale.min())
    middle = (low + high) / 2

    def placed(points: Any) -> Any:
        at = (points - middle) * scale * (1, -1) + np.array([WIDE / 2, HIGH / 2])
        return at.round(1)

    parts = []
    for k, points in enumerate(s.curves):
        at, colour = placed(points), COLOURS[k % len(COLOURS)]
        if not s.joined:
            dots = "".join(f"M{x:g} {y:g}h0" for x, y in at)
            parts.append(f'<path d="{dots}" stroke="{colour}" stroke-width="2.2" stroke-linecap="round"/>')
        elif len(at):
            line = " ".join(f"{x:g},{y:g}" for x, y in at)
            parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.2"/>')
        if s.joined and s.dots and len(at):
            parts.append(f'<circle cx="{at[-1][0]:g}" cy="{at[-1][1]:g}" r="3.2" fill="{colour}"/>')
    across, up = (f"{escape(n)}: {a:.4g} to {b:.4g}" for n, a, b in zip(s.names, low, high))
    words = (
        f'<text x="{WIDE / 2:g}" y="{HIGH - 4}" text-anchor="middle">{across}</text>'
        f'<text x="10" y="{HIGH / 2:g}" text-anchor="middle" transform="rotate(-90 10 {HIGH / 2:g})">{up}</text>'
    )
    return (
        f'<svg width="{WIDE}" height="{HIGH}" viewBox="0 0 {WIDE} {HIGH}" role="img" '
        f'style="background:#fff;border:1px solid #d9dde3" font-size="10" font-family="sans-serif">'
        f"{''.join(parts)}<g fill='#3c4048'>{words}</g></svg>"
    )


# --- a simulation -------------------------------------------------------------------------------------
class ShownSimulation(Protocol):
    """What a page needs to know of a simulation."""

    goal: Goal

    @property
    def _compiled(self) -> object | None:
        """None while sizes are not known."""
        ...

    @property
    def compiled(self) -> Any: ...
    @property
    def system(self) -> System: ...
    @property
    def target(self) -> Target: ...
    def explain(self) -> Report: ...


def simulation_page(sim: ShownSimulation) -> str:
    """What a notebook shows of a simulation: its equation, what was chosen and shown, and the report, folded."""
    if sim._compiled is None:
        return f"<pre>{escape(repr(sim))}</pre>"
    system, report = sim.system.seen, sim.explain()
    shown = [
        r.name for s in report.sections if s.title == "certificate" for r in s.rows if r.verdict == "yes"
    ]
    rows = [
        ("method", str(sim.compiled.known.method)),
        ("shown", ", ".join(shown) or "nothing: see the report"),
        ("runs on", f"{sim.target.backend}, {sim.goal.precision}"),
        ("states", ", ".join(with_shape(s.name, s.var.shape) for s in system.states)),
    ]
    if system.parameters:
        rows.append(("parameters", ", ".join(with_default(p) for p in system.parameters)))
    start = ", ".join(f"{s.name}=..." for s in system.states)
    return (
        f'<div style="{BOX}"><div><b>{escape(report.title)}</b>{table((), rows)}'
        f"<code>out = sim.evolve({escape(start)}, steps=1000)</code>"
        f"<details><summary>sim.explain()</summary>{report._repr_html_()}</details></div></div>"
    )


def with_shape(name: str, shape: Sequence[int]) -> str:
    return f"{name} ({' x '.join(map(str, shape))})" if shape else name


def with_default(p: Any) -> str:
    if p.var.shape:
        return with_shape(p.name, p.var.shape)
    return f"{p.name} = {p.default:g}" if isinstance(p.default, (int, float)) else str(p.name)


def table(head: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th {CELL}>{escape(h)}</th>" for h in head)
    lines = ["<tr>" + "".join(f"<td {CELL}>{escape(c)}</td>" for c in row) + "</tr>" for row in rows]
    return f"<table>{f'<tr>{top}</tr>' if top else ''}{''.join(lines)}</table>"
