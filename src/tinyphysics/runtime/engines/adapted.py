"""What does a run whose steps have their own lengths carry from one time to the next?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tinyphysics.runtime.engines.engine import States


@dataclass(eq=False)
class Adapted:
    """Loop registers of some members, and the step of the grid that they are asked for."""

    inner: Any
    members: int
    dt: float
    t0: float
    steps: int = 0
    params: States = field(default_factory=dict, repr=False)
    # what a run began with: step 0 is its very bits
    start: dict[str, Any] = field(default_factory=dict, repr=False)
    reached: int = 0  # the step of the grid that all have come to
    # the state at this step, once it was asked for
    seen: dict[str, Any] | None = field(default=None, repr=False)
    events: Any = None  # Searching, or ArraySearching, of a run that looks for them
    there: bool = False  # on a GPU, where its states are left
    covered: int = 0  # times so far
