"""How does a curve become text?  As dots in braille cells, between axes with round numbers.

Only the standard library is used. A cell holds 2 by 4 dots, and a character is about twice
as high as wide, so dots are square.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

WIDE, HIGH = 2, 4  # dots in a cell
BRAILLE = 0x2800
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # of a cell, by row and column
UPPER = 0x01 | 0x08 | 0x02 | 0x10  # the dots in the upper half
TINY, HUGE = 1e-250, 8e307  # between them, the length of a range and its ticks are ordinary numbers

Range = tuple[float, float]
Span = tuple[str, int]  # characters, and the colour of what they belong to; 0 is the frame


def span_of(values: Iterable[float], margin: float = 0.04) -> Range:
    """The range of the finite values, a little wider; something sensible if they are one number.

    >>> span_of([0.0, 10.0], margin=0.1)
    (-1.0, 11.0)
    """
    finite = [v for v in values if math.isfinite(v)]
    if not finite:
        return -1.0, 1.0
    low, high = min(finite), max(finite)
    pad = margin * (high - low)
    if not pad > max(1e-12 * max(abs(low), abs(high)), TINY):
        pad = abs(low) / 2 if abs(low) > TINY else 1.0
    return max(low - pad, -HUGE), min(high + pad, HUGE)


def same_scale(x: Range, y: Range, width: int, height: int) -> tuple[Range, Range]:
    """Both ranges, one of them widened, so that a circle is drawn as a circle."""
    unit = max((x[1] - x[0]) / (width * WIDE), (y[1] - y[0]) / (height * HIGH))

    def widened(r: Range, dots: int) -> Range:
        middle, half = (r[0] + r[1]) / 2, unit * dots / 2
        return middle - half, middle + half

    return widened(x, width * WIDE), widened(y, height * HIGH)


@dataclass
class Canvas:
    """Cells over a rectangle of data coordinates; what lies outside is not drawn."""

    width: int  # cells
    height: int
    x: Range
    y: Range
    dots: dict[tuple[int, int], int] = field(default_factory=dict)  # by (row, column) of the cell
    colours: dict[tuple[int, int], int] = field(default_factory=dict)
    marks: dict[tuple[int, int], str] = field(default_factory=dict)  # a character instead of dots

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Where a point lies, in dots from the upper left corner."""
        x, y = (max(-HUGE, min(v, HUGE)) for v in (x, y))
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return across * (self.width * WIDE - 1), (1 - up) * (self.height * HIGH - 1)

    def dot(self, column: int, row: int, colour: int = 1) -> None:
        if not (0 <= column < self.width * WIDE and 0 <= row < self.height * HIGH):
            return
        cell = row // HIGH, column // WIDE
        self.dots[cell] = self.dots.get(cell, 0) | DOTS[row % HIGH][column % WIDE]
        self.colours[cell] = colour

    def points(self, xs: Sequence[float], ys: Sequence[float], colour: int = 1) -> None:
        for x, y in zip(xs, ys):
            if math.isfinite(x) and math.isfinite(y):
                column, row = self.place(x, y)
                if abs(column) < 1e6 and abs(row) < 1e6:
                    self.dot(round(column), round(row), colour)

    def mark(self, x: float, y: float, character: str, colour: int = 1) -> None:
        """A character in the cell of a point."""
        if math.isfinite(x) and math.isfinite(y):
            column, row = (round(v) for v in self.place(x, y))
            cell = row // HIGH, column // WIDE
            if 0 <= cell[0] < self.height and 0 <= cell[1] < self.width:
                self.marks[cell], self.colours[cell] = character, colour

    def line(self, start: tuple[float, float], end: tuple[float, float], colour: int = 1) -> None:
        """A straight line between two points in data coordinates, clipped to the canvas."""
        if not all(map(math.isfinite, (*start, *end))):
            return
        (a, b), (c, d) = self.place(*start), self.place(*end)
        part = clipped((a, b), (c - a, d - b), (self.width * WIDE - 1.0, self.height * HIGH - 1.0))
        if part is None:
            return
        first, last = part
        n = max(1, math.ceil(max(abs(c - a), abs(d - b)) * (last - first)))
        for k in range(n + 1):
            s = first + (last - first) * k / n
            self.dot(round(a + s * (c - a)), round(b + s * (d - b)), colour)

    def curve(self, xs: Sequence[float], ys: Sequence[float], colour: int = 1) -> None:
        """Lines through the points; a point that is not finite is a gap."""
        pairs = list(zip(xs, ys))
        if len(pairs) == 1:
            self.points(xs, ys, colour)
        for start, end in zip(pairs, pairs[1:]):
            self.line(start, end, colour)

    def character(self, row: int, column: int, ascii_only: bool = False) -> str:
        if (row, column) in self.marks:
            return self.marks[row, column]
        dots = self.dots.get((row, column), 0)
        if not dots:
            return " "
        if not ascii_only:
            return chr(BRAILLE | dots)
        return ":" if dots & UPPER and dots & ~UPPER else "'" if dots & UPPER else "."

    def rows(self, ascii_only: bool = False) -> list[list[Span]]:
        """The picture as spans of one colour, row by row."""
        out = []
        for row in range(self.height):
            spans: list[Span] = []
            for column in range(self.width):
                colour = self.colours.get((row, column), 0)
                text = self.character(row, column, ascii_only)
                if spans and spans[-1][1] == colour:
                    spans[-1] = (spans[-1][0] + text, colour)
                else:
                    spans.append((text, colour))
            out.append(spans)
        return out


def clipped(
    start: tuple[float, float], step: tuple[float, float], end: tuple[float, float]
) -> tuple[float, float] | None:
    """The s in 0..1 with start + s*step in the box from 0 to end (Liang and Barsky 1984)."""
    first, last = 0.0, 1.0
    for at, by, wall in zip(start, step, end):
        for distance, toward in ((at + 0.5, -by), (wall + 0.5 - at, by)):
            if toward == 0 and distance < 0:
                return None
            if toward > 0:
                last = min(last, distance / toward)
            elif toward < 0:
                first = max(first, distance / toward)
    return (first, last) if first <= last else None


def ticks(r: Range, most: int) -> list[float]:
    """At most so many round numbers inside a range, evenly spaced.

    >>> ticks((-1.3, 2.2), 5)
    [-1.0, 0.0, 1.0, 2.0]
    """
    rough = (r[1] - r[0]) / max(most, 1)
    if not (math.isfinite(rough) and rough > 0):
        return []
    power = math.floor(math.log10(rough))
    for factor, exponent in ((1, power), (2, power), (5, power), (1, power + 1), (2, power + 1)):
        step = decimal(factor, exponent)
        first, last = math.ceil(r[0] / step - 1e-9), math.floor(r[1] / step + 1e-9)
        if last - first < most:
            return [decimal(n * factor, exponent) for n in range(first, last + 1)]
    return []


def decimal(n: int, exponent: int) -> float:
    """The float nearest to n * 10**exponent: 3/10, which is rounded once, and not 3*0.1."""
    return n * 10.0**exponent if exponent >= 0 else n / 10.0**-exponent


def labels(values: Sequence[float]) -> list[str]:
    """The numbers of an axis, all written with the same digits.

    >>> labels([0.0, 0.5, 1.0])
    ['0.0', '0.5', '1.0']
    >>> labels([-2e-05, 0.0, 2e-05])
    ['-2e-5', '0', '2e-5']
    """
    largest = max(map(abs, values), default=0.0)
    if largest == 0:
        return ["0"] * len(values)
    power = math.floor(math.log10(largest) + 1e-9)
    if -3 <= power < 5:
        return [f"{v:.{places(values)}f}" for v in values]
    mantissas = [v / 10.0**power for v in values]
    return [f"{m:.{places(mantissas)}f}e{power}" if m else "0" for m in mantissas]


def places(values: Sequence[float]) -> int:
    """Decimals that tell the values apart and show each to a hundredth of their spacing."""
    gap = min((abs(b - a) for a, b in zip(values, values[1:])), default=abs(values[0]) or 1.0)
    for n in range(13):
        if all(abs(round(v, n) - v) <= 0.01 * gap for v in values):
            return n
    return 13


# corner, horizontal, vertical, tick on the left, tick below
LINES = {False: tuple("└─│┤┬"), True: tuple("+-|++")}


def framed(
    canvas: Canvas, x_name: str = "x", y_name: str = "y", ascii_only: bool = False
) -> list[list[Span]]:
    """The canvas with axes on the left and below it, their numbers and their names."""
    corner, flat, upright, left, below = LINES[ascii_only]
    at_row = {}
    for value, label in labelled(canvas.y, canvas.height // 2):
        at_row[round(canvas.place(canvas.x[0], value)[1]) // HIGH] = label
    margin = left_margin(canvas.y, canvas.height) - 2
    out: list[list[Span]] = [[(f"{' ' * margin} {y_name}", 0)]]
    for row, spans in enumerate(canvas.rows(ascii_only)):
        edge = left if row in at_row else upright
        out.append([(f"{at_row.get(row, '').rjust(margin)} {edge}", 0), *spans])
    axis, numbers = [flat] * canvas.width, [" "] * (canvas.width + margin + 2)
    room = canvas.width - len(x_name) - 1  # the name of the axis stands at its end
    free = 0
    for value, label in labelled(canvas.x, max(2, canvas.width // 10)):
        column = round(canvas.place(value, canvas.y[0])[0]) // WIDE
        axis[column] = below
        start = max(column + margin + 2 - len(label) // 2, 0)
        if free <= start and start + len(label) <= room + margin + 2:
            numbers[start : start + len(label)] = label
            free = start + len(label) + 1
    out.append([(f"{' ' * margin} {corner}{''.join(axis)}", 0)])
    out.append([(f"{''.join(numbers)[: room + margin + 2].ljust(room + margin + 2)} {x_name}", 0)])
    return out


def left_margin(y: Range, height: int) -> int:
    """Columns that the numbers on the left and the axis take."""
    return max((len(label) for _, label in labelled(y, height // 2)), default=0) + 2


def labelled(r: Range, most: int) -> list[tuple[float, str]]:
    values = ticks(r, most)
    return list(zip(values, labels(values)))


def plain(rows: Iterable[Iterable[Span]]) -> str:
    """The picture without its colours."""
    return "\n".join("".join(text for text, _ in spans).rstrip() for spans in rows)
