"""Which two particles met?  The first pair whose force is not finite, where a run stopped for that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tinyphysics.device.host.arrays import operation
from tinyphysics.device.numbers import NUMPY_DTYPE
from tinyphysics.ir import Ops, UOp, graph_rewrite, toposort
from tinyphysics.ir.dtype import i64
from tinyphysics.ir.reduction import COMPONENTS
from tinyphysics.ir.value import evaluate
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.rules.identities.real import pairwise, simplify
from tinyphysics.system import System
from tinyphysics.tpir.kernels.at_index import AtIndex, Home, is_component
from tinyphysics.tpir.kernels.index import Index, Unsupported
from tinyphysics.tpir.kernels.layout import component_places
from tinyphysics.tpir.kernels.materialise import is_stored, short_sums
from tinyphysics.tpir.kernels.neighbours import unordered

BLOCK = 1 << 20  # pairs that are looked at together
Pair = tuple[int, int]


def pair_sums(system: System) -> list[UOp]:
    """The sums over pairs in what moves the states."""
    roots = [*system.forces, *system.update]
    if system.energy is not None:
        roots += simplify(gradient(system.energy, system.q))
    return [
        u
        for u in toposort(unordered(graph_rewrite(roots, pairwise)))
        if u.op is Ops.REDUCE and u.arg[0] == "pairs"
    ]


def colliding_pair(sums: Sequence[UOp], values: Mapping[str, Any]) -> Pair | None:
    """The first (i, j), i < j, at which a term of one of the sums is not finite."""
    found = []
    for u in sums:
        if all(np.isfinite(values[str(v.arg)]).all() for v in u.leaves):
            pair = first_bad(u, values)
            found += [] if pair is None else [pair]
    return min(found, default=None)


def first_bad(u: UOp, values: Mapping[str, Any]) -> Pair | None:
    x, (a, b) = u.src[0], u.arg[2][:2]
    n = x.shape[a]
    if n <= COMPONENTS:
        env = {
            str(v.arg): np.ravel(values[str(v.arg)]).tolist() if v.shape else float(values[str(v.arg)])
            for v in u.leaves
        }
        whole = np.reshape(evaluate([x], env)[0], x.shape)
        return earliest(0, ~np.isfinite(np.moveaxis(whole, (a, b), (0, 1))).reshape(n, n, -1).all(2))
    x = short_sums([x])[x]
    if any(is_stored(s) for s in toposort([x])):
        return None
    try:
        return in_blocks(x, a, b, values)
    except Unsupported:
        return None


def earliest(begin: int, bad: Any) -> Pair | None:
    """The first pair of some rows, from row `begin` on."""
    rows = np.arange(begin, begin + len(bad))[:, None]
    at = np.argwhere(bad & (np.arange(bad.shape[1]) > rows))
    return (begin + int(at[0][0]), int(at[0][1])) if len(at) else None


def in_blocks(x: UOp, a: int, b: int, values: Mapping[str, Any]) -> Pair | None:
    """Row by row, as the loops would: no array of all pairs is made."""
    n = x.shape[a]
    arrays = [v for v in toposort([x]) if v.op is Ops.VAR and v.shape]
    i, j = UOp.var("@i", (), i64), UOp.var("@j", (), i64)
    pull = AtIndex({v: Home(str(v.arg)) for v in arrays}, COMPONENTS)
    places = [Index(0, n - 1, v) for v in ((i, j) if a < b else (j, i))]
    roots = lower(inline([pull.at(x, where) for _, where in component_places(x.shape, COMPONENTS, places)]))
    memory = {
        str(v.arg): np.moveaxis(np.asarray(values[str(v.arg)]), short(v), range(len(short(v))))
        for v in arrays
    }
    memory = {name: m.reshape(-1, *m.shape[len(short(v)) :]) for v, (name, m) in zip(arrays, memory.items())}
    scalars = {
        v: np.array([values[str(v.arg)]])
        for v in toposort(roots)
        if v.op is Ops.VAR and v is not i and v is not j
    }
    for begin in range(0, n, rows := max(1, BLOCK // n)):
        env = scalars | {i: np.arange(begin, min(begin + rows, n))[:, None], j: np.arange(n)[None, :]}
        bad = np.zeros((min(begin + rows, n) - begin, n), bool)
        for v in evaluated(roots, env, memory):
            bad |= ~np.isfinite(v)
        if (pair := earliest(begin, bad)) is not None:
            return pair
    return None


def short(v: UOp) -> list[int]:
    return [k for k, n in enumerate(v.shape) if is_component(n, COMPONENTS)]


def evaluated(roots: Sequence[UOp], env: Mapping[UOp, Any], memory: Mapping[str, Any]) -> Iterator[Any]:
    done = dict(env)
    with np.errstate(all="ignore"):
        for u in toposort(roots):
            if u.op is Ops.CONST:
                done[u] = np.array([u.arg], NUMPY_DTYPE[u.dtype.name])
            elif u.op is Ops.LOAD:
                done[u] = memory[u.arg[0]][(u.arg[1], *(done[s] for s in u.src))]
            elif u not in done:
                done[u] = operation(u, [done[s] for s in u.src])
    yield from (done[r] for r in roots)
