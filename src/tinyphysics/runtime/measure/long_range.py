"""How are sums over all images done in this run?  Decided at its first state, where the box and the particles are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from tinyphysics.errors import PlanError
from tinyphysics.ir import Ops, UOp
from tinyphysics.ir.neighbours import check_cell
from tinyphysics.planner.systems.long_range import (
    FORCE_ERROR,
    LONG_RANGE,
    Settings,
    asked_of,
    computed,
    mean_of,
    settings_of,
    sums_over_images,
)
from tinyphysics.rules.formulas.ewald import COULOMB, FORMS, GAUSSIAN, SOFTENED
from tinyphysics.runtime.measure.mesh_alone import by_distance
from tinyphysics.runtime.measure.mesh_forces import (
    SHOWN,
    CannotMeet,
    Charges,
    Way,
    chosen,
    converged,
    measured,
)
from tinyphysics.runtime.stages.compiled import Compiled
from tinyphysics.runtime.stages.in_numpy import numbers
from tinyphysics.runtime.stages.resolve import Beginning
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import Inputs, inputs
from tinyphysics.system import System
from tinyphysics.util import one_of


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
    for box in boxes:
        check_cell(box)
    asked: Mapping[str, Any] = asked_of(setup.goal)
    every = [settings_of(sums, asked, box) for box in boxes]
    settings = max(every, key=lambda s: s.waves)
    if settings.alone:
        settings = replace(settings, by_distance=distances(long_range.system, settings, boxes[0], start))
    if FORCE_ERROR in asked:
        settings = with_goal(
            long_range.system, settings, dict(asked.get(LONG_RANGE, ())), asked[FORCE_ERROR], start
        )
    found = (settings.error, settings.by_distance)
    if settings != long_range.settings or found != (
        long_range.settings.error,
        long_range.settings.by_distance,
    ):
        system = computed(long_range.system, settings)
        if beside := setup.system.states[len(system.states) :]:  # directions, of a run that has them
            system = replace(system, states=(*system.states, *beside), axes={})
        setup._compiled = Compiled(system, setup.goal, setup.requested)
    return at.dt


def distances(
    system: System, settings: Settings, box: list[list[float]], i: Inputs
) -> tuple[tuple[float, float], ...] | None:
    """How far a mesh alone is off by distance; None for what is not 1/r or erf(b*r)/r."""
    sums = list(sums_over_images(system).values())
    if any(t.form not in (COULOMB, GAUSSIAN) for t in sums):
        return None
    assert settings.grid is not None
    cell = tuple(tuple(x / n for x in row) for row, n in zip(box, settings.grid))
    (widths, *_) = values_of(system, [t.parameter for t in sums], i)
    each = [
        by_distance(cell, settings.order, settings.alpha, float(b) if t.form == GAUSSIAN else inf)
        for t, b in zip(sums, widths)
    ]
    return max(each, key=lambda found: [e for _, e in reversed(found)])


def with_goal(system: System, given: Settings, pinned: Mapping[str, Any], goal: float, i: Inputs) -> Settings:
    """The cheapest settings whose forces are as right as was asked, measured on some particles of the first member."""
    sums = list(sums_over_images(system).values())
    if any(t.form not in (COULOMB, SOFTENED) for t in sums):
        forms = one_of([FORMS[name].written for name in (COULOMB, SOFTENED)])
        raise PlanError(
            f"force_error= is for sums of {forms}, and `{system.name}` has others",
            fix='Set how they are summed: long_range={"alpha": 1.0, "cutoff": 3.0, "grid": 32}.',
        )
    roots = [
        u
        for t in sums
        for u in (t.points, t.charges, t.factor, t.cell, mean_of(system, t.points), t.parameter)
    ]
    (values, *_) = values_of(system, roots, i)
    charges = []
    for k in range(len(sums)):
        q, c, factor, cell, mean, soft = values[6 * k : 6 * k + 6]
        c = np.asarray(c, float) * np.sqrt(abs(float(factor)))
        shown = np.unique(np.linspace(0, len(c) - 1, min(SHOWN, len(c))).astype(int))
        charges.append(
            Charges(np.asarray(q, float), c, np.array(as_vectors(cell)), shown, np.asarray(mean), float(soft))
        )
    wide = charges[0].wide
    try:
        if "grid" in pinned:
            split, cutoff = given.lengths(wide)
            assert given.grid is not None
            way = Way(split, cutoff, given.grid, given.order, given.switch, given.anchored)
            found = measured(charges, way, converged(charges, goal))
            if found.relative > goal:
                raise CannotMeet(f"the forces of this mesh are off by {found.relative:.2g}")
            return replace(given, error=found.relative, goal=goal)
        found = chosen(charges, goal, given.switch, given.anchored)
    except CannotMeet as error:
        raise PlanError(
            f"force_error={goal:g} for `{system.name}`: {error}",
            fix="Ask for less, leave long_range= out, or enlarge the box.",
        ) from None
    w = found.way
    return replace(
        given,
        alpha=w.alpha * wide,
        cutoff=w.cutoff / wide,
        scaled=True,
        cut_scaled=True,
        grid=w.grid,
        order=w.order,
        error=found.relative,
        goal=goal,
    )
