"""What does an autopsy print?  Cause, place, the last steps as a table with a small plot, and what to write instead."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tinyphysics.trajectory import Stop

BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class LastStep:
    step: int
    t: float
    largest: float  # number of the state, by size
    energy: float
    pace: float  # dt times the frequency of the fastest vibration
    own: float = math.nan  # the number that was bad first, or the distance of the two particles


@dataclass(frozen=True)
class Autopsy:
    """What `out.stopped.report()` found: print it."""

    cause: str  # in two or three words
    because: str
    fix: str
    stop: Stop
    term: str = ""  # of the energy, with the line where it was written
    flow: str = ""  # the sub-flow that failed
    rows: tuple[LastStep, ...] = ()
    where: Any = None  # (i, j) of two particles, where they are the cause

    number: str = ""  # of the state, that was bad first, as users write it

    @property
    def place(self) -> str:
        """The first bad number, or the pair, in words; empty if neither is known."""
        pair = next((w for w in (self.where, self.stop.where) if is_pair(w)), None)
        return f"particles {pair[0]} and {pair[1]}" if pair is not None else self.number

    @property
    def header(self) -> str:
        """Of the column of the number, or of the distance of two particles."""
        return self.number or ("distance" if is_pair(self.stop.where) else "")

    def __str__(self) -> str:
        s = self.stop
        who = "" if s.member is None else f", member {s.member}"
        lines = [f"stopped at step {s.step:,} (t = {s.t:g}{who}): {self.cause}", f"  {self.because}"]
        if self.flow:
            lines.append(f"  in the {self.flow}")
        if self.place:
            lines.append(
                f"  {'between' if self.place.startswith('particles') else 'first bad number:'} {self.place}"
            )
        if self.term:
            lines.append(f"  term: {self.term}")
        if self.rows:
            title = f"{self.header:>13}" if self.header else ""
            lines.append(f"      step           t   largest number        energy   dt*omega{title}")
            for row in self.rows:
                own = f" {row.own:>12.4e}" if self.header else ""
                lines.append(
                    f"{row.step:>10,} {row.t:>11.6g} {row.largest:>16.3e} {row.energy:>13.4e} {row.pace:>10.3g}{own}"
                )
            lines.append(f"  largest number: {bars([row.largest for row in self.rows])}")
        lines.append(f"  {self.fix}")
        return "\n".join(lines)


def is_pair(where: Any) -> bool:
    return isinstance(where, tuple) and len(where) == 2 and not isinstance(where[0], str)


def bars(values: Sequence[float]) -> str:
    """Numbers as bars of the logarithm of their size."""
    logs = [math.log10(max(x, 1e-300)) if math.isfinite(x) else math.inf for x in values]
    finite = [x for x in logs if math.isfinite(x)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    span = max(high - low, 1e-9)
    return "".join(BARS[-1] if not math.isfinite(x) else BARS[int(7 * (x - low) / span)] for x in logs)
