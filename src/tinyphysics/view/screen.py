"""Which characters must be sent so that a terminal shows a picture?  Those of the cells that changed, and little else."""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.view.canvas import Span

Cell = tuple[str, int]  # a character, and the colour of the palette
BLANK: Cell = (" ", 0)
# Select Graphic Rendition of each colour: the frame, then curves in turn
PALETTE = ("90", "36", "35", "33", "32", "31", "34", "1", "0")
HEADING, TEXT = 7, 8  # bold, and the colour of the terminal itself
ESC = "\x1b["
ENTER = f"{ESC}?1049h{ESC}?25l{ESC}2J"  # the other screen of the terminal, without its cursor
LEAVE = f"{ESC}0m{ESC}?25h{ESC}?1049l"


class Screen:
    """What a terminal of so many columns and rows shows, as far as it was sent."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.cells = [[BLANK] * width for _ in range(height)]
        self.at = (-1, -1)  # of the cursor, row and column; unknown at first
        self.colour = -1

    def changes(self, rows: Sequence[Sequence[Span]]) -> str:
        """What brings the terminal from what it shows to these rows; what they do not reach is blank."""
        out: list[str] = []
        for r in range(self.height):
            wanted = self.spread(rows[r] if r < len(rows) else ())
            shown = self.cells[r]
            c = 0
            while c < self.width:
                if wanted[c] == shown[c]:
                    c += 1
                    continue
                c = self.run(r, c, wanted, out)
        return "".join(out)

    def spread(self, spans: Sequence[Span]) -> list[Cell]:
        """A row as cells, cut at the edge; blanks have no colour."""
        cells = [(x, colour) if x != " " else BLANK for text, colour in spans for x in text][: self.width]
        return cells + [BLANK] * (self.width - len(cells))

    def run(self, r: int, c: int, wanted: Sequence[Cell], out: list[str]) -> int:
        """Sends the changed cells that follow each other from (r, c) on; the column behind them."""
        shown = self.cells[r]
        out.append(self.move(r, c))
        while c < self.width and wanted[c] != shown[c]:
            character, colour = wanted[c]
            if character != " " and colour != self.colour:
                out.append(f"{ESC}0;{PALETTE[colour]}m")
                self.colour = colour
            out.append(character)
            shown[c] = wanted[c]
            c += 1
        # behind the last column a terminal may wait or wrap: the place is taken as unknown
        self.at = (r, c) if c < self.width else (-1, -1)
        return c

    def move(self, r: int, c: int) -> str:
        """The shortest way of the cursor to a place."""
        y, x = self.at
        if (y, x) == (r, c):
            return ""
        ways = [f"{ESC}{r + 1};{c + 1}H" if c else f"{ESC}{r + 1}H" if r else f"{ESC}H"]
        if (y, x) != (-1, -1):
            ways.append(steps(r - y, "B", "A") + steps(c - x, "C", "D"))
            ways.append("\r" + steps(r - y, "B", "A") + steps(c, "C", "D"))
        return min(ways, key=len)


def steps(n: int, forward: str, back: str) -> str:
    """Relative moves; one to the left is a backspace."""
    if n == 0:
        return ""
    if (n, back) == (-1, "D"):
        return "\b"
    count = "" if abs(n) == 1 else str(abs(n))
    return f"{ESC}{count}{forward if n > 0 else back}"
