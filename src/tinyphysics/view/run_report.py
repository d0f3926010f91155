"""What does the page of a run look like?  One HTML file that loads nothing: charts, tables and an autopsy, below 1 MB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from tinyphysics.view.charts import Chart, svg

CSS = """
:root { color-scheme: light dark; --ink: #1f242c; --faint: #6a717d; --line: #dfe3e8; --paper: #ffffff; --card: #f7f8fa;
  --good: #1d7a4c; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7ec; --faint: #9aa3b0; --line: #3a414c; --paper: #16191e; --card: #1f242b; --good: #5fc48f;
    --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 1020px; padding: 28px 20px 60px; }
h1 { font-size: 25px; margin: 0 0 2px; }
h2 { font-size: 17px; margin: 34px 0 8px; border-bottom: 1px solid var(--line); padding-bottom: 4px; }
p { margin: 6px 0; } .faint { color: var(--faint); } code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 12px 14px;
  white-space: pre-wrap; overflow-wrap: anywhere; }
table { border-collapse: collapse; margin: 8px 0; width: 100%; }
td, th { text-align: left; padding: 4px 14px 4px 0; vertical-align: top; border-bottom: 1px solid var(--line); }
td { overflow-wrap: anywhere; } th { font-weight: 600; color: var(--faint); white-space: nowrap; }
td:first-child, td:nth-child(2) { overflow-wrap: normal; }
.row { display: flex; flex-wrap: wrap; gap: 18px; align-items: flex-start; } figure { margin: 0; }
figcaption { color: var(--faint); font-size: 13px; max-width: 460px; margin-top: 2px; }
.verdict { display: inline-block; border-radius: 6px; padding: 3px 12px; margin: 8px 0; font-weight: 600; }
.good { color: var(--good); border: 1px solid var(--good); } .bad { color: var(--bad); border: 1px solid var(--bad); }
svg { max-width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: var(--faint); }
svg .grid { stroke: var(--line); fill: none; } svg .frame { fill: var(--card); stroke: var(--line); }
svg .mark { stroke: var(--bad); stroke-dasharray: 2 3; }
svg .legend { fill: var(--paper); stroke: var(--line); opacity: 0.85; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 10px; margin: 14px 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 8px 12px; }
.tile b { display: block; font-size: 17px; overflow-wrap: anywhere; }
.tile span { color: var(--faint); font-size: 12.5px; }
"""


@dataclass(frozen=True)
class Figure:
    chart: Chart
    caption: str


@dataclass(frozen=True)
class Part:
    """A section of the page: words, pictures, a table, and text as it is printed."""

    title: str
    words: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    text: str = ""


@dataclass(frozen=True)
class Page:
    title: str
    formula: str
    verdict: str
    good: bool
    tiles: Sequence[tuple[str, str]]  # (what, value)
    parts: Sequence[Part]
    notes: Sequence[str] = field(default_factory=tuple)
    footer: str = ""


def html(page: Page) -> str:
    tiles = "".join(
        f"<div class=tile><b>{escape(v)}</b><span>{escape(n)}</span></div>" for n, v in page.tiles
    )
    notes = "".join(f"<li>{escape(n)}</li>" for n in page.notes)
    body = [
        f"<h1>{escape(page.title)}</h1><p class=faint><code>{escape(page.formula)}</code></p>",
        f"<div class='verdict {'good' if page.good else 'bad'}'>{escape(page.verdict)}</div>",
        f"<ul>{notes}</ul>" if notes else "",
        f"<div class=tiles>{tiles}</div>",
        *map(part, page.parts),
        f"<p class=faint style='margin-top:40px'>{escape(page.footer)}</p>",
    ]
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>{escape(page.title)}</title><style>{CSS}</style></head><body>{''.join(body)}</body></html>\n"
    )


def part(p: Part) -> str:
    out = [f"<section><h2>{escape(p.title)}</h2>"]
    out += [f"<p>{escape(w)}</p>" for w in p.words]
    if p.figures:
        drawn = "".join(
            f"<figure>{svg(f.chart)}<figcaption>{escape(f.caption)}</figcaption></figure>" for f in p.figures
        )
        out.append(f"<div class=row>{drawn}</div>")
    if p.rows:
        head = "".join(f"<th>{escape(h)}</th>" for h in p.head)
        lines = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in p.rows)
        out.append(f"<table>{f'<tr>{head}</tr>' if head else ''}{lines}</table>")
    if p.text:
        out.append(f"<pre>{escape(p.text)}</pre>")
    return "".join([*out, "</section>"])
