"""How does a moment of a run look in a terminal?  Rows of coloured characters: a picture, and a line below it."""

from __future__ import annotations

from tinyphysics.view.canvas import HIGH, WIDE, Canvas, Span, framed, left_margin, same_scale
from tinyphysics.view.moment import State
from tinyphysics.view.screen import HEADING, TEXT
from tinyphysics.view.terminal import MOST_CURVES

CURVES = 6  # colours that take turns
AROUND = 5  # rows that are not the picture's: title, name of y, axis, its numbers, the line below
LEAST = (24, 10)  # columns and rows below which nothing can be seen


def rows_of(state: State, width: int, height: int, ascii_only: bool = False) -> list[list[Span]]:
    """A picture of so many columns and rows; a smaller terminal shows the line below alone."""
    below: list[Span] = [(line(state)[:width], TEXT)]
    if width < LEAST[0] or height < LEAST[1]:
        return [below]
    x, y = state["ranges"]
    rows = height - AROUND
    columns = max(width - left_margin(y, rows), 10)
    if state["to_scale"]:
        wanted = rows * HIGH / WIDE * (x[1] - x[0]) / (y[1] - y[0])
        columns = round(min(columns, max(wanted, LEAST[0])))
        x, y = same_scale(x, y, columns, rows)
    canvas = Canvas(columns, rows, x, y)
    for k, (xs, ys) in enumerate(state["curves"]):
        colour = 1 + k % CURVES
        (canvas.points if state["points"] else canvas.curve)(xs, ys, colour)
        if len(state["curves"]) <= MOST_CURVES and xs:
            canvas.mark(xs[-1], ys[-1], "o" if ascii_only else "●", colour)
    return [[(state["title"][:width], HEADING)], *framed(canvas, state["x"], state["y"], ascii_only), below]


def line(state: State) -> str:
    """What stands below: where the run is, and what is known about it."""
    words = [f"step {state['step']:,}", f"t = {state['t']:.6g}", state["told"], state["help"]]
    return "   ".join(filter(None, words))
