"""How large is what a splitting neglects?  The first term of the energy that it keeps, where a run begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.errors import TinyPhysicsError
from tinyphysics.pipeline import Build
from tinyphysics.report import Row
from tinyphysics.rules.calculus.brackets import strang_error
from tinyphysics.runtime.stages.execute import observe_states
from tinyphysics.runtime.state.run import Run

MOST_TERMS, MOST_POSITIONS = 8, 32  # parts and numbers whose brackets are written out


@dataclass(frozen=True)
class Commutators:
    """dt**2 H2 of Strang's product, of the worst member."""

    size: float
    relative: float  # to the sum of the sizes of the parts

    @property
    def told(self) -> dict[str, float]:
        return {"energy": self.size, "relative": self.relative}

    @property
    def row(self) -> Row:
        return Row(
            "commutators",
            f"{self.relative:.1e}",
            f"of the energies at the first state, {self.size:.1e}: dt**2 times "
            "the nested brackets of the parts, by which the energy that the step keeps differs from H",
        )


def commutators(b: Build, r: Run) -> Commutators | None:
    """None where they are not known: of compositions they cancel, and of some functions there is no second derivative."""
    large = len(b.step.terms) > MOST_TERMS or sum(u.size for u in r.system.q) > MOST_POSITIONS
    if b.plan.method != "strang" or large or r.given.members == 0:
        return None
    parts = [term.energy for term in b.step.terms]
    try:
        values = {f"part {k}": u for k, u in enumerate(parts)} | {
            "error": strang_error(parts, r.system.pairs)
        }
    except TinyPhysicsError:
        return None
    found: dict[str, Any] = observe_states(
        r, values, {name: v[None] for name, v in r.given.states.items()}, [r.schedule.first]
    )
    size = np.abs(found["error"][0]) * r.dt**2
    scale = sum(np.abs(found[f"part {k}"][0]) for k in range(len(parts)))
    worst = int(np.argmax(size))
    return Commutators(float(size[worst]), float(size[worst] / scale[worst]) if scale[worst] else 0.0)
