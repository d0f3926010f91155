"""Which state on the constraints is nearest to one that a user has?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tinyphysics.errors import InputError
from tinyphysics.runtime.stages.constraints import holds, nearest
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import inputs


def consistent(setup: Setup, given: Mapping[str, Any]) -> dict[str, Any]:
    """States on the constraints, and the parameters that were given."""
    system = setup.system
    if not holds(system):
        raise InputError(
            f"`{system.name}` has no constraints: every state of it is consistent",
            fix="Add one with @tp.constraint: energy + rod.",
        )
    own = {s.name for s in system.states}
    return {n: v for n, v in given.items() if n not in own} | nearest(system, inputs(system, given))
