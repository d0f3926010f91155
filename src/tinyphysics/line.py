"""A line of a listing, and where it comes from: what `sim.lines(level)` is made of."""

from __future__ import annotations

from dataclasses import dataclass

from tinyphysics.util import Site


@dataclass(frozen=True)
class Line:
    """One line of the text of a level.

    `user` are the lines of your file that it comes from, `above` the numbers (from 0) of lines of the level above, and
    `rule` says what made it. `is_code` holds for what a machine computes, and not for headings, labels and declarations.
    """

    text: str
    user: tuple[Site, ...] = ()
    above: tuple[int, ...] = ()
    rule: str = ""
    is_code: bool = False

    @property
    def has_origin(self) -> bool:
        return bool(self.user or self.above)
