"""Do some of many constraints say what others say?  G M⁻¹ Gᵀ at the start, eliminated row by row: a pivot vanishes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.flows.solvers.elimination import Elimination
from tinyphysics.ir import UOp
from tinyphysics.rules.formulas.constraints import ArrayConstraints
from tinyphysics.runtime.stages.in_numpy import numbers

VANISHED = 1e-13  # of a diagonal entry, where rounding is all that is left of it
FIX = "Leave it out, or write it as a length that is not zero."


def matrix_of(c: ArrayConstraints, plan: Elimination, env: Mapping[str, Any]) -> dict[tuple[int, int], float]:
    """The entries of G M⁻¹ Gᵀ at a state: products with a column for each colour."""
    row = UOp.var("row of constraints", c.g.shape)
    product = c.slope(c.moved(c.pushed(row)))
    colours = np.array(plan.colours)
    columns = [
        numbers((product,), {**env, str(row.arg): (colours == k).astype(float)})[0].ravel()
        for k in range(colours.max() + 1)
    ]
    edges = [*((j, j) for j in range(plan.size)), *plan.levels[0].edges]
    return {(j, k): float(columns[colours[k]][j]) for j, k in edges}


def check_rows(c: ArrayConstraints, plan: Elimination, env: Mapping[str, Any], named: Sequence[str]) -> None:
    """An InputError that names a row which the others imply at a state, or which vanishes there."""
    A = matrix_of(c, plan, env)
    sizes = [A[j, j] for j in range(plan.size)]
    for row, size in enumerate(sizes):
        if not size > 0:
            raise InputError(f"{named[row]} has no slope at the start: nothing would hold it", fix=FIX)
    near: dict[int, set[int]] = {j: set() for j in range(plan.size)}
    for j, k in plan.levels[0].edges:
        near[j].add(k)
    for i in (i for level in plan.levels for i in level.gone):
        pivot = A[i, i]
        if not pivot > VANISHED * sizes[i]:
            raise InputError(
                f"{named[i]} says nothing that other rows do not say at the start: it is redundant", fix=FIX
            )
        for j in near[i]:
            near[j].discard(i)
            factor = A[j, i] / pivot
            for k in near[i]:
                A[j, k] = A.get((j, k), 0.0) - factor * A[i, k]
                if k != j:
                    near[j].add(k)
