"""How far do steps with lists of neighbours go without the host?  They are queued ahead; a list that is asked for stops them.

When points have gone too far, a word on the device says in which step and where in it. Every kernel looks at the word first
and does nothing while it is set: what was queued behind is as if it had not been. The host looks at it now and
then, makes the list, and goes on from there; so a list is made exactly when it would be if the host looked every time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tinyphysics.tpir.kernels.neighbours import WITHIN
from tinyphysics.tpir.kernels.nests import LoopSection

MOST = 64  # steps that are queued before the word is looked at


@dataclass(frozen=True)
class StepAction:
    """A nest of a step by its number, or buffers that change places."""

    nest: int | None
    swaps: tuple[tuple[str, str], ...] = ()


@lru_cache(maxsize=64)
def acts(section: LoopSection) -> tuple[StepAction, ...]:
    """All that is done in one step, in order."""
    out: list[StepAction] = []
    for turn in section.sequence():
        out += [StepAction(k) for k in range(turn.begin, turn.end)]
        out += [StepAction(None, turn.swaps)] if turn.swaps else []
    return tuple(out)


def swapped(
    held: Mapping[str, Any], every: Sequence[StepAction], begin: int, steps: int, end: int
) -> dict[str, Any]:
    """What names stand for so many steps later, from one place in a step to another."""
    out = dict(held)
    done = (
        [*every[begin:], *(a for _ in range(steps - 1) for a in every), *every[:end]]
        if steps
        else every[begin:end]
    )
    for act in done:
        for a, b in act.swaps:
            out[a], out[b] = out[b], out[a]
    return out


def place_of(word: int) -> tuple[int, int]:
    """(the step, the number of the act) that a run stopped at."""
    return (word - 1) >> WITHIN, (word - 1) & ((1 << WITHIN) - 1)


@dataclass
class LookAhead:
    """How many steps are queued at once: most of what the last list lasted for, then a few at a time."""

    since: int = 0  # steps since a list was made
    lasted: int = 0  # steps that the last one was good for

    def ahead(self, left: int) -> int:
        likely = 3 * self.lasted // 4 - self.since
        return max(1, min(left, MOST, likely if likely > 0 else self.since // 4))

    def went(self, steps: int) -> None:
        self.since += steps

    def stopped(self, steps: int) -> None:
        self.since, self.lasted = 0, self.since + steps
