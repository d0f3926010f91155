"""How is a chart drawn without a plotting library?  Curves over axes with round numbers, as SVG that loads nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

import numpy as np

from tinyphysics.view.choice import COLOURS

WIDE, HIGH = 460, 260
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 12, 40
MOST_POINTS = 500  # of a curve
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Curve:
    """Numbers over others, with a name for the legend; `style` is "line", "dashed", "points" or "filled"."""

    x: Any
    y: Any
    name: str = ""
    colour: str = ""
    style: str = "line"


@dataclass(frozen=True, eq=False)
class Chart:
    """Curves over one pair of axes."""

    curves: Sequence[Curve]
    names: tuple[str, str]
    log: bool = False  # the second axis
    to_scale: bool = False
    marks: Sequence[float] = field(default_factory=tuple)  # vertical lines, as where a run stopped
    wide: int = WIDE
    high: int = HIGH


def envelope(x: Any, y: Any, most: int = MOST_POINTS) -> tuple[Any, Any]:
    """A curve in few points: of each piece its lowest and its highest, so that no spike is lost."""
    good = np.isfinite(x) & np.isfinite(y)
    x, y = np.asarray(x, float)[good], np.asarray(y, float)[good]
    if len(x) <= most:
        return x, y
    keep: set[int] = {0, len(x) - 1}
    edges = np.linspace(0, len(x), most // 2 + 1).astype(int)
    for a, b in zip(edges, edges[1:]):
        if b > a:
            keep |= {a + int(y[a:b].argmin()), a + int(y[a:b].argmax())}
    at = sorted(keep)
    return x[at], y[at]


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers in a range.

    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not high > low:
        return [low]
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [
        round(k * step, 12 - math.floor(math.log10(step))) for k in range(first, int(high / step + 1e-9) + 1)
    ]


def decades(low: float, high: float) -> list[float]:
    """Powers of ten in a range of logarithms, seven at most."""
    first, last = math.floor(low), math.ceil(high)
    every = max(1, math.ceil((last - first) / 6))
    return [float(k) for k in range(first, last + 1) if k % every == 0]


def label(v: float, log: bool) -> str:
    if log:
        return f"1e{int(v)}" if v else "1"
    return f"{v:.4g}"


def ranges(chart: Chart, data: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    every = [np.concatenate([d[k] for d in data if len(d[k])] or [np.zeros(1)]) for k in (0, 1)]
    every[0] = np.concatenate([every[0], chart.marks])
    low, high = np.array([v.min() for v in every]), np.array([v.max() for v in every])
    if chart.log:
        low[1], high[1] = math.floor(low[1]), math.ceil(high[1] + 1e-9)
    flat = high - low <= 1e-12 * np.maximum(np.abs(high), np.abs(low))
    pad = np.where(flat, np.maximum(np.abs(high), 1e-12) * 0.5, 0.0)
    low, high = low - pad, high + pad
    if not chart.log:
        low[1], high[1] = low[1] - 0.05 * (high[1] - low[1]), high[1] + 0.05 * (high[1] - low[1])
    if chart.to_scale:
        room = np.array([chart.wide - LEFT - RIGHT, chart.high - TOP - BOTTOM], float)
        grow = ((high - low) / room).max() * room * 1.04
        middle = (low + high) / 2
        low, high = middle - grow / 2, middle + grow / 2
    return low, high


def spans_decades(curves: Sequence[Curve]) -> bool:
    """Is a logarithmic axis of use: are there numbers above zero, the largest at least ten times the smallest?"""
    every = np.concatenate([np.ravel(np.asarray(c.y, float)) for c in curves] or [np.zeros(0)])
    good = every[np.isfinite(every) & (every > TINY)]
    return bool(good.size) and bool(good.max() >= 10 * good.min())


def svg(chart: Chart) -> str:
    chart, data = replace(chart, log=chart.log and spans_decades(chart.curves)), []
    for c in chart.curves:
        y = np.asarray(c.y, float)
        if chart.log:
            y = np.where(y > TINY, np.log10(np.maximum(y, TINY)), np.nan)
        good = c.style == "points" or chart.to_scale
        x = np.asarray(c.x, float)
        if good:  # a way in a plane: evenly thinned
            at = np.unique(np.linspace(0, max(len(x) - 1, 0), MOST_POINTS * 2).astype(int))[: len(x)]
            keep = np.isfinite(x[at]) & np.isfinite(y[at])
            data.append((x[at][keep], y[at][keep]))
        else:
            data.append(envelope(x, y))
    low, high = ranges(chart, data)
    room = np.array([chart.wide - LEFT - RIGHT, chart.high - TOP - BOTTOM], float)

    def across(x: Any) -> Any:
        return np.round(LEFT + (np.asarray(x) - low[0]) / (high[0] - low[0]) * room[0], 1)

    def up(y: Any) -> Any:
        return np.round(TOP + (high[1] - np.asarray(y)) / (high[1] - low[1]) * room[1], 1)

    bottom, right = chart.high - BOTTOM, chart.wide - RIGHT
    parts = [f'<rect x="{LEFT}" y="{TOP}" width="{room[0]:g}" height="{room[1]:g}" class="frame"/>']
    for v in decades(low[1], high[1]) if chart.log else ticks(low[1], high[1]):
        if low[1] <= v <= high[1]:
            y = up(v)
            parts.append(f'<path d="M{LEFT} {y:g}H{right}" class="grid"/>')
            parts.append(
                f'<text x="{LEFT - 6}" y="{y + 3.5:g}" text-anchor="end">{label(v, chart.log)}</text>'
            )
    for v in ticks(low[0], high[0]):
        if low[0] <= v <= high[0]:
            x = across(v)
            parts.append(f'<path d="M{x:g} {TOP}V{bottom}" class="grid"/>')
            parts.append(f'<text x="{x:g}" y="{bottom + 14}" text-anchor="middle">{label(v, False)}</text>')
    for mark in chart.marks:
        if low[0] <= mark <= high[0]:
            parts.append(f'<path d="M{across(mark):g} {TOP}V{bottom}" class="mark"/>')
    for k, (c, (x, y)) in enumerate(zip(chart.curves, data)):
        parts.append(drawn(c, across(x), up(y), c.colour or COLOURS[k % len(COLOURS)]))
    parts += legend(chart.curves, chart.wide, chart.high)
    middle = TOP + room[1] / 2
    parts.append(
        f'<text x="{LEFT + room[0] / 2:g}" y="{chart.high - 8}" text-anchor="middle">{escape(chart.names[0])}</text>'
    )
    turned = f'text-anchor="middle" transform="rotate(-90 13 {middle:g})"'
    parts.append(f'<text x="13" y="{middle:g}" {turned}>{escape(chart.names[1])}</text>')
    box = f'viewBox="0 0 {chart.wide} {chart.high}" width="{chart.wide}" height="{chart.high}"'
    return f'<svg {box} role="img">{"".join(parts)}</svg>'


def drawn(c: Curve, x: Any, y: Any, colour: str) -> str:
    if not len(x):
        return ""
    if c.style == "points":
        dots = "".join(f"M{a:g} {b:g}h0" for a, b in zip(x, y))
        return f'<path d="{dots}" stroke="{colour}" stroke-width="2" stroke-linecap="round"/>'
    line = " ".join(f"{a:g},{b:g}" for a, b in zip(x, y))
    dash = ' stroke-dasharray="5 4"' if c.style == "dashed" else ""
    return f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.3"{dash}/>'


def legend(curves: Sequence[Curve], wide: int, high: int) -> list[str]:
    """The names of curves, in a column at the bottom right."""
    named = [(k, c) for k, c in enumerate(curves) if c.name][:6]
    if len(named) < 2:
        return []
    long, tall = max(len(c.name) for _, c in named), 15 * len(named) + 5
    x, top = wide - RIGHT - 14 - 5.6 * long, high - BOTTOM - tall - 6
    width = 5.6 * long + 36
    out = [f'<rect x="{x - 28:g}" y="{top}" width="{width:g}" height="{tall}" class="legend"/>']
    for row, (k, c) in enumerate(named):
        y = top + 14 + 15 * row
        colour = c.colour or COLOURS[k % len(COLOURS)]
        dash = ' stroke-dasharray="5 4"' if c.style == "dashed" else ""
        out.append(f'<path d="M{x - 22:g} {y - 4}h16" stroke="{colour}" stroke-width="2"{dash}/>')
        out.append(f'<text x="{x:g}" y="{y}">{escape(c.name)}</text>')
    return out
