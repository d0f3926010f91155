"""What can be done with a kernel on this machine, target by target: is it written, compiled, executed?"""

from __future__ import annotations

from dataclasses import dataclass

from tinyphysics.errors import BackendError
from tinyphysics.runtime.engines.backend import ready
from tinyphysics.runtime.engines.emissions import EMISSIONS, Emission


@dataclass(frozen=True)
class TargetRow:
    """A target of `sim.kernel`: what is written for it, and what compiles and executes that here; empty: nothing."""

    name: str
    emitted: str
    compiled: str
    executed: str
    missing: str = ""  # what is not here that would execute it


def row_of(e: Emission) -> TargetRow:
    if not e.executed:
        return TargetRow(e.name, e.emitted, e.compiled, "")
    try:
        ready(e.backend)
    except BackendError as error:
        return TargetRow(e.name, e.emitted, "", "", error.what)
    return TargetRow(e.name, e.emitted, e.compiled, e.executed)


def target_table() -> tuple[TargetRow, ...]:
    return tuple(row_of(e) for e in EMISSIONS.values())
