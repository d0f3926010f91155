"""Does a run whose steps have their own lengths get anywhere?  Whoever waits for it is told, once for each reason."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

LOG = logging.getLogger("tinyphysics")
MANY = 1e6  # steps, after which it is worth a look what they do
ENDLESS = 1e8  # steps that are left: minutes at least
WORTH_A_LOOK = 1e4  # attempts, from which the pace of a run is estimated
HARDLY = 1e-3  # of the state: a step that moves it by less is not kept short by what the solution does
FIRST_FRAMES = 64  # of a run, before the first check for Ctrl-C
BLOCK_SECONDS = 0.05  # between two such checks


class FramesAhead:
    """Times that are looked at in some hundredths of a second, as far as that is known by now."""

    def __init__(self) -> None:
        self.frames, self.since = FIRST_FRAMES, 0.0

    def count(self) -> int:
        now = time.perf_counter()
        if now - self.since < BLOCK_SECONDS:
            self.frames *= 2
        elif self.frames > FIRST_FRAMES and now - self.since > 4 * BLOCK_SECONDS:
            self.frames //= 2
        self.since = now
        return self.frames


class StepPace:
    """Clocks are rows of numbers, one of each member: (time in two words, length of a step, steps, ..., attempts)."""

    def __init__(self, advice: str) -> None:
        """`advice` is what to write where steps are short for nothing."""
        self.advice, self.told = advice, False
        self.looked: tuple[Any, Any] | None = None  # the times and attempts of all members, some time ago

    def tell_of_many(self, clocks: Any, until: float, moved: Callable[[int, float], float]) -> None:
        """Of many steps in which hardly anything happens: measured, at the member with most."""
        if clocks[3].max(initial=0.0) < MANY:
            return
        k = int(np.argmax(clocks[3]))
        with np.errstate(all="ignore"):
            part = moved(k, clocks[2, k])
        if 0.0 < part < HARDLY:
            LOG.warning(
                "%s steps up to t = %g of %g, and the last one changed the state by only %.0e of its size: %s",
                f"{int(clocks[3, k]):,}",
                clocks[0, k],
                until,
                part,
                self.advice,
            )
            self.advice = ""

    def tell_of_the_end(self, clocks: Any, until: float) -> None:
        """Of steps that have become so short that a run would take minutes or years.

        By what many attempts have gained, not by the length of one: at a corner a few are short.
        """
        high, tried = clocks[0], clocks[5 if len(clocks) > 5 else 3]
        if self.looked is None or len(self.looked[0]) != len(high):
            self.looked = high.copy(), tried.copy()
        gained, attempts = high - self.looked[0], tried - self.looked[1]
        k = int(np.argmax(attempts))
        if self.told or attempts[k] < WORTH_A_LOOK:
            return
        self.looked = None
        left = (until - high[k]) * attempts[k] / gained[k] if gained[k] > 0.0 else math.inf
        if left > ENDLESS:
            self.told = True
            LOG.warning(
                "%s steps up to t = %g, and the last %s led %.1e further: at this pace, t = %g takes %.0e more steps. "
                "The solution changes this fast there; it may run away. Ctrl-C ends the run: look at it up to t = %g.",
                f"{int(clocks[3, k]):,}",
                high[k],
                f"{int(attempts[k]):,}",
                gained[k],
                until,
                left,
                high[k],
            )
