"""What do engines and the code that they run agree on?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import Section

Parts = Sequence[tuple[Section, VectorShape]]  # sections that are compiled together, each for its shape

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
