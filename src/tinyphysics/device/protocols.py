"""What do engines and the code that they run agree on?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import Section

Parts = Sequence[tuple[Section, VectorShape]]  # sections that are compiled together, each for its shape


class PlainEngine:
    """What an engine answers about itself and a run, unless it knows more."""

    shows_states = False  # does its loop give the states of every row by itself?
    free_steps = False  # does a step cost nothing, however far away it is?

    def expect(self, members: int, steps: int) -> None:
        """A run of so many steps is about to begin."""

    def told(self, members: int) -> dict[str, Any]:
        """How so many members lay on a device last, for out.metrics."""
        return {}

    def findings(self, m: Any) -> Mapping[str, Iterable[Any]]:
        """What it found out in a run, by the names that a record has for it."""
        return {}

    def rows_of(self, m: Any, name: str) -> Any:
        """Where a register of all members is on a device; None if it is nowhere in one piece."""
        return None


# --- a Taylor step in loops: device/engines/series.py ---------------------------------------------------
CLOCK = 4  # numbers: time in two words, the length of the next step, steps done
Function = Callable[[Any, Any, Any, Any, float, int], None]  # state, constants, tables, scratch, until, count


@dataclass(frozen=True)
class Code:
    """What a backend makes of a plan."""

    advance: Function
    look: Function  # the states at a time, into the scratch
    scratch: int  # numbers of it
    made: int = 0  # modules compiled for it
    found: int = 0
