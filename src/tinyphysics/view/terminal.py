"""What does a run look like?  Its orbit or phase portrait, and how well it kept its energy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tinyphysics.report import Report, Summary
from tinyphysics.system import System
from tinyphysics.trajectory import Trajectory
from tinyphysics.view.canvas import HIGH, WIDE, Canvas, framed, left_margin, same_scale, span_of

COLOURS = ("bright_black", "cyan", "magenta", "yellow", "green", "red", "blue")  # the first is the frame
MOST_CURVES = 12  # more than this many bodies or members are a cloud, not curves
SIDE_BY_SIDE = 110  # columns from which two pictures stand beside each other


@dataclass(frozen=True)
class Picture:
    """Curves to be drawn over one pair of axes."""

    title: str
    x_name: str
    y_name: str
    curves: tuple[tuple[Any, Any], ...]  # (xs, ys), each (frames,)
    joined: bool = True  # lines between the frames, or points
    to_scale: bool = False  # one unit of x is as long as one of y


# --- what to draw -----------------------------------------------------------------------------
def portrait(out: Trajectory, system: System) -> Picture:
    """The picture that suits a system: orbit, phase portrait, or a component over time."""
    states = [s for s in system.states if s.role != "momentum" or system.kind == "map"]
    first = states[0]
    shape = first.var.shape
    if len(states) >= 2 and shape == states[1].var.shape == ():
        x, y = (with_members(out, s.name, s.var.shape) for s in states[:2])
        return Picture(
            f"{first.name} and {states[1].name}",
            first.name,
            states[1].name,
            tuple(zip(x.T, y.T)),
            joined=system.kind != "map",
            to_scale=system.kind != "map",
        )
    if shape == (2,) or len(shape) == 2 and shape[1] in (2, 3):
        q = with_members(out, first.name, shape)
        flat = q.reshape(len(q), -1, shape[-1])  # every body of every member
        told = "orbit" if flat.shape[1] == 1 else f"{flat.shape[1]} orbits"
        curves = tuple((flat[:, k, 0], flat[:, k, 1]) for k in range(flat.shape[1]))
        return Picture(told, f"{first.name}[0]", f"{first.name}[1]", curves, to_scale=True)
    momentum = next((s for s in system.states if s.role == "momentum"), None)
    if shape == () and system.kind != "map" and momentum is not None:
        q, p = (with_members(out, s.name, ()) for s in (first, momentum))
        return Picture("phase portrait", first.name, momentum.name, tuple(zip(q.T, p.T)))
    q = with_members(out, first.name, shape).reshape(len(out.t), -1, max(first.var.size, 1))
    name = first.name + "[0" + ", 0" * (len(shape) - 1) + "]" if shape else first.name
    return Picture(f"{name} over time", "t", name, tuple((out.t, q[:, k, 0]) for k in range(q.shape[1])))


def with_members(out: Trajectory, name: str, shape: tuple[int, ...]) -> Any:
    """(frames, members, shape...), with one member where the run had no ensemble axis."""
    a = np.asarray(out.frames[name])
    return a.reshape(len(a), -1, *shape)


def energy_picture(out: Trajectory, system: System) -> Picture | None:
    """(E - E0)/S at every step, S as in `drift`; the energy itself where H depends on t."""
    if system.energy is None or len(out.t) == 0:
        return None
    t, values, scale = out.every_step("energy")
    values, scale = values.reshape(len(t), -1), np.ravel(scale)
    if system.books:
        why = "H(t) does" if system.driven else "friction does"
        return Picture(f"energy, which {why} not conserve", "t", "H", tuple((t, v) for v in values.T))
    # a run that blew up ends in numbers without a difference
    with np.errstate(invalid="ignore", over="ignore"):
        error = (values - values[0]) / scale
    good = np.isfinite(error)
    worst = np.abs(error[good]).max() if good.any() else 0.0
    end = "" if good.all() else ", then not finite"
    curves = tuple((t, e) for e in error.T)
    return Picture(f"energy error, at most {worst:.1e}{end}", "t", "(E - E0)/S", curves)


# --- drawing it -------------------------------------------------------------------------------
def draw_picture(p: Picture, width: int, height: int, ascii_only: bool = False) -> Text:
    """A picture in so many columns and rows, its title and axes included."""
    curves = [(xs.tolist(), ys.tolist()) for xs, ys in p.curves]
    finite = [keep_finite(xs, ys) for xs, ys in curves]
    x, y = span_of(v for xs, _ in finite for v in xs), span_of(v for _, ys in finite for v in ys)
    rows = max(height - 4, 4)  # the title, the axis, its numbers and the name of y take the others
    columns = max(width - left_margin(y, rows), 10)
    if p.to_scale:
        wanted = rows * HIGH / WIDE * (x[1] - x[0]) / (y[1] - y[0])
        columns = round(min(columns, max(wanted, 24)))
        x, y = same_scale(x, y, columns, rows)
    canvas = Canvas(columns, rows, x, y)
    cloud = len(curves) > MOST_CURVES or not p.joined
    for k, (xs, ys) in enumerate(curves):
        (canvas.points if cloud else canvas.curve)(xs, ys, 1 + k % (len(COLOURS) - 1))
    out = Text(p.title, style="bold", no_wrap=True, end="\n")
    for row in framed(canvas, p.x_name, p.y_name, ascii_only):
        out.append("\n").append_text(Text.assemble(*((text, COLOURS[colour]) for text, colour in row)))
    return out


def keep_finite(xs: Sequence[float], ys: Sequence[float]) -> tuple[list[float], list[float]]:
    good = [(x, y) for x, y in zip(xs, ys) if np.isfinite(x) and np.isfinite(y)]
    return [x for x, _ in good], [y for _, y in good]


def draw(out: Trajectory, system: System, width: int = 80, ascii_only: bool = False) -> RenderableType:
    """A run as pictures: side by side where there is room, else one below the other."""
    pictures = [portrait(out, system)]
    energy = energy_picture(out, system)
    if energy is not None:
        pictures.append(energy)
    if len(pictures) == 2 and width >= SIDE_BY_SIDE:
        left = draw_picture(pictures[0], (width - 4) // 2, 22, ascii_only)
        used = max(cell_len(line) for line in left.plain.splitlines())
        grid = Table.grid(padding=(0, 4, 0, 0))
        grid.add_row(left, draw_picture(pictures[1], min(width - used - 4, 80), 22, ascii_only))
        return grid
    heights = (22, 14)
    return Group(*spaced(draw_picture(p, width, h, ascii_only) for p, h in zip(pictures, heights)))


def spaced(texts: Iterator[Text]) -> Iterator[Text]:
    for k, text in enumerate(texts):
        if k:
            yield Text("")
        yield text


def draw_report(report: Report) -> RenderableType:
    """A report whose reasons wrap in their own column."""
    parts: list[RenderableType] = [Text(report.title, style="bold")]
    if isinstance(report, Summary):
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True, style="cyan")
        grid.add_column()
        for r in report.brief.rows:
            grid.add_row(r.name, f"{r.verdict} ({r.where})" if r.where else r.verdict)
        return Group(*parts, Padding(grid, (0, 0, 0, 2)))
    for section in report.sections:
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column(max_width=44)
        grid.add_column(style="bright_black")
        for r in section.rows:
            because = f"{r.because} ({r.where})" if r.where else r.because
            style = {"yes": "green", "no": "yellow", "not shown": "yellow"}.get(r.verdict, "")
            grid.add_row(r.name, Text(r.verdict, style=style), because)
        parts += [Text(section.title, style="cyan"), Padding(grid, (0, 0, 0, 2))]
    return Group(*parts)
