"""Do the indices that a run was given point at something?  Those of parameters alone, before it begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.ir.infix import written
from tinyphysics.ir.neighbours import check_cell, skin_of
from tinyphysics.ir.ops import CHOSEN
from tinyphysics.ir.value import evaluate, source_index
from tinyphysics.rules.formulas.cutoffs import kind_of, rooms, switches
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.tpir.kernels.neighbours import in_order, unordered

LOOKED_AT = CHOSEN | {Ops.WHERE, Ops.NEIGHBOURS}
MOVES = (Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.SLICE, Ops.FLIP, Ops.ROLL, Ops.ELEMENT)


def used(roots: Sequence[UOp], names: frozenset[str]) -> Iterator[tuple[UOp, UOp, int]]:
    """(the array, the index as it was written, how many it chooses from) of indices made of these parameters."""
    seen: dict[tuple[UOp, int], None] = {}
    for u in toposort(roots):
        if u.op not in CHOSEN:
            continue
        axes = u.src[0].shape if u.op is Ops.GATHER else u.shape
        for place, n in zip(u.src[1:], axes):
            index = written(place)
            if (index, n) not in seen and index.leaves and {str(v.arg) for v in index.leaves} <= names:
                seen[index, n] = None
                yield u.src[0], index, n


def values(index: UOp, given: Inputs) -> Any:
    """The numbers of an index: (members or 1, numbers)."""
    chain = [index]
    while chain[-1].op in MOVES:
        chain.append(chain[-1].src[0])
    root = chain.pop()
    if root.op is Ops.VAR:  # a rearranged parameter, of all members at once
        a = given.params[str(root.arg)].reshape(-1, root.size)
        for u in reversed(chain):
            a = a[:, source_index(u)]
        return a
    names = [str(v.arg) for v in toposort([root]) if v.op is Ops.VAR]
    members = max((len(given.params[n]) for n in names), default=1)
    rows = []
    for k in range(members):
        env = {n: (p := given.params[n])[k if len(p) > 1 else 0].ravel().tolist() for n in names}
        env = {n: v if root_shape(root, n) else v[0] for n, v in env.items()}
        rows.append(np.ravel(evaluate([root], env)[0]))
    return np.array(rows, float)


def check_tables(roots: Sequence[UOp], given: Inputs) -> None:
    """An InputError if a table of a sum over neighbours is not symmetric: there a pair has no first particle."""
    gathers = [u for u in toposort(roots) if u.op is Ops.GATHER and len(u.src) == 3]
    by_pairs = [u for u in gathers if any(in_order(s) for s in toposort(u.src[1:]))]
    for table in dict.fromkeys(u.src[0] for u in by_pairs):
        if not {str(v.arg) for v in table.leaves} <= given.params.keys():
            raise InputError(
                f"the table `{table}` depends on the state, so it is not shown to stay symmetric",
                fix="With a cutoff, a table of pairs may depend only on parameters.",
            )
        for row in values(table, given).reshape(-1, *table.shape):
            if not np.array_equal(row, across := np.swapaxes(row, 0, 1), equal_nan=True):
                i, j = (int(x) for x in np.argwhere(row != across)[0][:2])
                raise InputError(
                    f"the table `{table}` is not symmetric: ({i}, {j}) and ({j}, {i}) differ",
                    fix="With a cutoff (i, j) and (j, i) are one pair: give both the same number.",
                )


def check_boxes(roots: Sequence[UOp], given: Inputs) -> None:
    """An InputError if a box has no room at all: what follows from its width would be said to be wrong instead."""
    for box in dict.fromkeys(box for _, box in rooms(roots)):
        if box.shape and all(str(v.arg) in given.params for v in box.leaves):
            d = box.shape[0]
            for row in values(box, given):
                check_cell((row.reshape(d, d) if box.ndim == 2 else np.diag(row)).tolist())


def check_rooms(roots: Sequence[UOp], given: Inputs) -> None:
    """An InputError if a cutoff has no room in its cell; where a list is made, that says so."""
    for cutoff, box in rooms(roots):
        if not all(str(v.arg) in given.params for u in (cutoff, box) for v in u.leaves):
            continue
        lengths = values(cutoff, given)[:, 0]
        if not box.shape:  # open space
            skin_of(float(lengths.min()), 0.0, None)
            continue
        d = box.shape[0]
        for k, row in enumerate(
            np.broadcast_to(b := values(box, given), (max(len(b), len(lengths)), box.size))
        ):
            cell = row.reshape(d, d) if box.ndim == 2 else np.diag(row)
            skin_of(float(lengths[k if len(lengths) > 1 else 0]), 0.0, cell.tolist())


def check_switches(roots: Sequence[UOp], given: Inputs) -> None:
    """An InputError if a switch begins at or beyond its cutoff: the energy would jump there after all."""
    for begins, square in switches(roots):
        if all(str(v.arg) in given.params for u in (begins, square) for v in u.leaves):
            on, whole = values(begins, given)[:, 0], values(square, given)[:, 0]
            if (bad := np.atleast_1d(~(on * on < whole))).any():
                k = int(bad.argmax())
                first, last = (float(x[k if len(x) > 1 else 0]) for x in (on, np.sqrt(whole)))
                raise InputError(
                    f"the switch begins at {first:g}, and the cutoff is {last:g}",
                    fix="The energy goes to zero between the two: start the switch below the cutoff.",
                )


def root_shape(root: UOp, name: str) -> tuple[int, ...]:
    return next(v.shape for v in toposort([root]) if v.op is Ops.VAR and v.arg == name)


def selects(roots: Sequence[UOp]) -> bool:
    """Is there anything in these expressions that `check_indices` looks at?"""
    return any(u.op in LOOKED_AT or kind_of(u) is not None for u in toposort(roots))


def check_indices(roots: Sequence[UOp], given: Inputs) -> None:
    """An InputError that names the parameter if an index of a run chooses nothing."""
    check_tables(roots, given)
    check_boxes(roots, given)
    check_switches(roots, given)
    check_rooms(roots, given)
    for table, index, n in used(unordered(roots), frozenset(given.params)):
        found = values(index, given)
        bad = ~((found == np.floor(found)) & (-n <= found) & (found < n))
        if not bad.any():
            continue
        member, k = (int(i) for i in np.argwhere(bad)[0])
        name = next(str(v.arg) for v in toposort([index]) if v.op is Ops.VAR)
        where = f" of member {member}" if len(found) > 1 else ""
        raise InputError(
            f"the index `{index}` holds {float(found[member, k]):g}{where}, and `{table}` has length {n} there",
            fix=f"`{name}` holds whole numbers from 0 to {n - 1}, or from -{n} to -1 counted from the end.",
        )
