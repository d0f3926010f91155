"""Does gradcheck pass on every example?  On short runs of its first simulations, from their own first states."""

from __future__ import annotations

import contextlib
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.api.simulation import Simulation

pytestmark = [pytest.mark.requirement("S2-40"), pytest.mark.all]
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
MOST, STEPS, PART = (
    2,
    12,
    0.02,
)  # simulations of an example; steps of a run, or its part where it chooses its own
RUN = ("t0", "seed", "acts")
OTHER = "steps until save_every save_at frames observe observe_every hash_every progress threads speculate save checkpoint "
OTHER += "checkpoint_every resume events exchange options"
# where gradients are refused by name: states of whole numbers
REFUSED = {
    "life": "whole numbers",
    "lattice_gas": "whole numbers",
}
FEW = {"planets": 2}  # steps: the adjoint of one of 99,000 operations runs in Python
APART = {  # its own first state lies on the floor, where a slope jumps
    "boxes": dict(q=[0.501, 1.503, 2.506], p=[-0.9, -1.1, -1.3])
}


class Enough(Exception):
    """All that is asked of an example is done."""


def checked(sim: Simulation, asked: dict[str, object], steps: int = STEPS) -> None:
    given = {k: v for k, v in asked.items() if k not in (*RUN, *OTHER.split())}
    more = {k: asked[k] for k in RUN if asked.get(k) is not None}
    end = {"until": 0.01} if sim.goal.is_accurate else {"steps": 0}
    out = sim.evolve(**given, **more, **end, frames=2)
    shapes = {x.name: len(x.var.shape) for x in (*sim.system.seen.states, *sim.system.parameters)}
    given = {n: v[0] if n in shapes and np.ndim(v) > shapes[n] else v for n, v in given.items()}

    def loss(out):
        states = [out.final[s.name] for s in sim.system.seen.states]
        return sum((u * u).sum() + u.sum() if u.shape else u * u + u for u in states)

    long = asked.get("until") or 10.0
    own = sim.goal.is_accurate or sim.compiled.adaptive
    length = {"until": float(out.t[0]) + PART * (long - float(out.t[0]))} if own else {"steps": steps}
    assert sim.gradcheck(loss, **given, **more, **length).passed


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_gradcheck_passes_on_an_example(path, monkeypatch):
    seen: list[Simulation] = []
    plain, busy = Simulation.evolve, []

    def evolve(sim, **asked):
        if busy or any(sim is s for s in seen) or asked.get("resume") is not None or sim.goal.backwards:
            return plain(sim, **asked)
        seen.append(sim)
        busy.append(True)
        why = REFUSED.get(path.stem)
        with pytest.raises(tp.PlanError, match=why) if why else contextlib.nullcontext():
            checked(sim, {**asked, **APART.get(path.stem, {})}, FEW.get(path.stem, STEPS))
        busy.clear()
        if len(seen) == MOST or path.stem in FEW:
            raise Enough
        return plain(sim, **asked)

    monkeypatch.setattr(Simulation, "evolve", evolve)
    monkeypatch.setattr(sys, "argv", [str(path)])
    with contextlib.suppress(Enough):
        runpy.run_path(str(path), run_name="__main__")
    assert seen
