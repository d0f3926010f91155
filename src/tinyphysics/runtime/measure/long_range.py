"""How are sums over all images done in this run?  Decided at its first state, where the box and the particles are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tinyphysics.ir import Ops, UOp
from tinyphysics.planner.systems.long_range import asked_of, computed, settings_of, sums_over_images
from tinyphysics.runtime.stages.compiled import Compiled
from tinyphysics.runtime.stages.in_numpy import numbers
from tinyphysics.runtime.stages.resolve import Beginning
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import Inputs, inputs
from tinyphysics.system import System


def is_open(setup: Setup, at: Beginning) -> bool:
    """Does it depend on the state?  Not of plain sums in a cube."""
    if setup._compiled is None or setup.system.long_range is None:
        return False
    written = setup.system.long_range.system
    cubes = all(t.cell.op is Ops.EXPAND for t in sums_over_images(written).values())
    return bool(asked_of(setup.goal)) or not cubes


def values_of(system: System, roots: list[UOp], i: Inputs) -> list[list[Any]]:
    """Of each member."""
    out = []
    for k in range(i.members):
        env = {name: a[k if len(a) > 1 else 0] for name, a in {**i.states, **i.params}.items()}
        out.append(numbers(roots, env))
    return out


def as_vectors(cell: Any) -> list[list[float]]:
    a = np.asarray(cell, float)
    return [[float(x) for x in row] for row in (np.diag(a) if a.ndim == 1 else a)]


def decide(setup: Setup, at: Beginning) -> Any:
    """Settings for the boxes of all members: the one with the longest vectors has the most waves."""
    long_range = setup.system.long_range
    assert long_range is not None
    c = at.begun
    start = (
        inputs(setup.system, at.on_host)
        if c is None
        else Inputs(dict(c.start), dict(c.params), c.members, c.is_ensemble)
    )
    sums = sums_over_images(long_range.system)
    cells = list(dict.fromkeys(t.cell for t in sums.values()))
    boxes = [as_vectors(cell) for found in values_of(long_range.system, cells, start) for cell in found]
    asked: Mapping[str, Any] = asked_of(setup.goal)
    every = [settings_of(sums, asked, box) for box in boxes]
    settings = max(every, key=lambda s: s.waves)
    if settings != long_range.settings:
        system = computed(long_range.system, settings)
        setup._compiled = Compiled(system, setup.goal, setup.requested)
    return at.dt
