"""How large is the energy of a pair at its cutoff?  The largest of all pairs and members, computed with the run's parameters.

Pairs of equal particles have equal energies: one pair is looked at for every two kinds of particle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tinyphysics.ir import Ops, UOp, substitute, toposort
from tinyphysics.ir.ops import ELEMENTWISE
from tinyphysics.ir.value import scalar

KINDS = 48  # of particles in a system, beyond which no pair is looked at
MOST = 1 << 14  # pairs that are looked at, over all members
Index = tuple[int, ...]


class NotKnown(Exception):
    """Why there is no number."""


def largest_at(u: UOp, parameters: Mapping[str, Any]) -> float:
    """The largest |u[i, j]| over the pairs i < j, with these parameters (members or 1, shape...)."""
    nodes, n = toposort([u]), u.shape[0]
    by_index = any(x.op is Ops.RANGE for x in nodes)
    # of the particles, which changes no pair
    order = {x: UOp.range(n) for x in nodes if x.op is Ops.NEIGHBOURS}
    (u,) = substitute([u], order)
    missing = sorted({str(x.arg) for x in u.leaves} - set(parameters))
    if missing:
        raise NotKnown(f"it depends on {', '.join(f'`{name}`' for name in missing)}, not known here")
    own = {name: np.asarray(parameters[name]) for name in sorted({str(x.arg) for x in u.leaves})}
    members = max((len(v) for v in own.values()), default=1)
    found, looked = [0.0], 0
    for k in range(members):
        values = {name: v[min(k, len(v) - 1)] for name, v in own.items()}
        pairs = pairs_of_kinds(values, n, by_index)
        looked += len(pairs)
        if looked > MOST:
            raise NotKnown(f"there are more than {MOST:,} different pairs")
        elements = Elements(values)
        found += [abs(float(elements.at(u, pair))) for pair in pairs]
    if not all(map(math.isfinite, found)):
        raise NotKnown("it is not finite")
    return max(found)


def pairs_of_kinds(values: Mapping[str, Any], n: int, by_index: bool) -> list[Index]:
    """One pair of particles for every two kinds; particles are of one kind if all their parameters are equal."""
    rows = [v.reshape(n, -1) for v in values.values() if v.ndim and len(v) == n]
    if n < 2 or not rows and not by_index:
        return [(0, 1)] if n > 1 else []
    if by_index or any(n in v.shape[1:] for v in values.values()):
        kinds = np.arange(n)
    else:
        kinds = np.ravel(np.unique(np.hstack(rows), axis=0, return_inverse=True)[1])
    if kinds.max() >= KINDS:
        raise NotKnown(f"there are more than {KINDS} kinds of particle")
    two = [i for kind in range(kinds.max() + 1) for i in np.flatnonzero(kinds == kind)[:2].tolist()]
    seen: dict[tuple[int, int], Index] = {}
    for i in two:
        for j in two:
            if i != j:
                seen.setdefault((kinds[i], kinds[j]), (i, j))
    return list(seen.values())


class Elements:
    """Single elements of expressions of parameters; only what they are made of is computed."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values, self.seen = values, dict[tuple[UOp, Index], Any]()

    def at(self, u: UOp, index: Index) -> Any:
        if (u, index) not in self.seen:
            self.seen[u, index] = self.computed(u, index)
        return self.seen[u, index]

    def computed(self, u: UOp, index: Index) -> Any:
        if u.op is Ops.CONST:
            return u.arg
        if u.op is Ops.VAR:
            return self.values[str(u.arg)][index].item()
        if u.op is Ops.RANGE:
            return index[0]
        if u.op in ELEMENTWISE and u.op not in (Ops.CUSTOM, Ops.RANDOM, Ops.KEPLER_SLOW):
            return scalar(u.op, u.dtype, [s.dtype for s in u.src])(*(self.at(s, index) for s in u.src))
        if u.op is Ops.GATHER:
            count = u.src[1].ndim
            places = (int(self.at(s, index[:count])) for s in u.src[1:])
            return self.at(u.src[0], (*places, *index[count:]))
        if u.op in BEFORE:
            return self.at(u.src[0], tuple(int(i) for i in BEFORE[u.op](u, index)))
        raise NotKnown(f"`{u.op.value}` is not computed for one pair")


# where an element of a movement comes from
BEFORE: dict[Ops, Callable[[UOp, Index], Sequence[Any]]] = {
    Ops.RESHAPE: lambda u, at: np.unravel_index(
        np.ravel_multi_index(at, u.shape) if at else 0, u.src[0].shape
    ),
    Ops.EXPAND: lambda u, at: [0 if n == 1 else i for i, n in zip(at[-u.src[0].ndim :], u.src[0].shape)],
    Ops.PERMUTE: lambda u, at: [at[tuple(u.arg).index(axis)] for axis in range(u.ndim)],
    Ops.SLICE: lambda u, at: [start + i * step for i, (start, _, step) in zip(at, u.arg)],
}
