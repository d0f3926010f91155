"""How do members go through a run with no Python between?  By orders, a few members at a time: emit/modules/passage.py.

The numbers of some members are fetched from the arrays that were given, into rows that are small enough for a cache and
belong to one tile. Sections are called on them, they are looked at, and stored. A tile in which a guard fires, or with a
number that is not finite, is not well: it is done again by itself, so nothing is stored where members are fetched from.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# words of the table that a thread is given
ORDERS, COUNT, TILES, COLUMNS, LANES = range(5)
TABLE = 8
# words of an order, and of a tile: its first member, that after its last, its room
KIND, AT, STRIDE, PLACE, OUT, OWN, STEPS, ROWS = range(8)
WORDS = 8
FIRST, END, ROOM = range(3)
TILE = 3
FETCH, STORE, KEEP, CHECK, LEAST, MOST = range(6)  # kinds: each of numbers of 8 bytes, then of 4
KINDS = 6
CALL = 2 * KINDS
NONE = -1  # no row of parameters


@dataclass
class Passage:
    """Orders as they are written down: places are bytes from where the room of a tile begins, with flags there."""

    size: int  # bytes of a number
    columns: int  # members that go together
    words: list[tuple[int, ...]] = field(default_factory=list)
    used: int = 0

    def __post_init__(self) -> None:
        self.used = -(-self.columns // 64) * 64

    def rows(self, count: int) -> int:
        """Room for so many rows."""
        place, self.used = self.used, self.used + count * self.columns * self.size
        return place

    def row(self, kind: int, place: int, k: int, at: int = 0, stride: int = 1, out: int = 0) -> None:
        """Something about row k of those at a place; `at`: numbers of memory that are `stride` numbers apart."""
        kind += KINDS * (self.size == 4)
        self.words.append((kind, at, stride, place + k * self.columns * self.size, out, 0, 0, 0))

    def array(self, kind: int, place: int, at: int, numbers: int) -> None:
        """Fetches or stores an array (members, numbers)."""
        for k in range(numbers):
            self.row(kind, place, k, at + k * self.size, numbers)

    def keep(self, place: int, at: int, numbers: int) -> None:
        """Stores rows where the tile has its part of such an array, one after the other (runtime/state/tiles.py)."""
        for k in range(numbers):
            self.row(KEEP, place, k, at, numbers, k)

    def call(self, f: int, source: int, out: int, own: int, first: int, rows: int) -> None:
        """A section, from rows at a place to rows at another; `own`: those of parameters."""
        self.words.append((CALL, f, 1, source, out, own, first, rows))
