"""Which parts of a sum, or terms of an energy, are fast at a state?  A proposal of tp.fast and tp.slow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tinyphysics.analysis.separable import signed_sum, terms
from tinyphysics.errors import InputError, PlanError
from tinyphysics.ir import UOp
from tinyphysics.planner.choice.multirate import Piece, Split, proposed
from tinyphysics.runtime.measure.frequency import frequency
from tinyphysics.runtime.measure.multirate import kinetic_of
from tinyphysics.runtime.stages.compiled import Compiled
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import Inputs, inputs, sizes_from
from tinyphysics.system import SizedFamily

LONGEST_NAME = 60  # of a term that is shown


def suggest_split(sim: Setup, given: Mapping[str, Any], t0: float) -> Split:
    """What `sim.suggest_split` returns: the parts of a sum, or the terms of one energy, by how fast each is at a state."""
    if isinstance(sim.source, SizedFamily):
        sim.bind(sim.source, sizes_from(sim.source, given))
    compiled, system = sim.compiled, sim.system
    if system.kind != "hamiltonian":
        raise PlanError(
            f"`{system.name}` is given by its {system.kind}, which has no separate terms to kick with",
            fix="Write its energy: @tp.hamiltonian.",
        )
    kinetic_of(compiled)
    i = inputs(system, given, compiled.encoding)
    if not i.members:
        raise InputError(
            "an empty ensemble has no state from which the speed of its parts could be measured",
            fix="Give it members.",
        )
    pieces = pieces_of(compiled, i, t0)
    if not pieces:
        raise PlanError(
            f"there is no force in `{system.name}`: its potential does not depend on a position",
            fix="There is nothing to split.",
        )
    bad = next((p for p in pieces if not math.isfinite(p.frequency)), None)
    if bad is not None:
        raise PlanError(
            f"the force of {bad.name} is not finite at this state",
            fix="Choose a state away from the singularity.",
        )
    return proposed(pieces, sim.goal.dt, len(system.parts) > 1)


def look_for_paces(sim: Setup, i: Inputs, t0: float) -> None:
    """What a pilot does for a sum at one pace: which of its parts are fast is said in explain(), if it is known."""
    if len(sim.system.parts) > 1 and sim.built.facts["separable"]:
        pieces = pieces_of(sim.compiled, i, t0)
        known = all(math.isfinite(p.frequency) for p in pieces)
        sim.split = proposed(pieces, sim.goal.dt, True) if known else None


def pieces_of(compiled: Compiled, i: Inputs, t0: float) -> list[Piece]:
    """The parts of a sum, or the terms of one potential, each by itself."""
    system = compiled.system
    parts: Sequence[tuple[str, UOp]] = system.parts
    if len(parts) < 2:
        V = compiled.built.facts["separable"].V
        parts = [(shortened(str(signed_sum([t]))), signed_sum([t])) for t in terms(V, lambda _: False)]
        parts = [(name, u) for name, u in parts if u.leaves & frozenset(system.q)]
    return [Piece(name, frequency(compiled, compiled.built.facts, i, t0, u).rate) for name, u in parts]


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 3]}..."
