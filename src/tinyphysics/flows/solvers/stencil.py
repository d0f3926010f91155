"""Which neighbours does a rate look at, and how much does it change with each?  The Jacobian of arrays by its diagonals.

A walk over the expression: what is computed element by element has the partial derivatives of its operation, and what is
rolled, sliced, padded or joined has those of its source, moved. du[i] is the sum of c[i] dz[i + s] over states and shifts s.
What is summed over an axis, or moved in another way, is not followed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinyphysics.flows.solvers.solver import Slopes
from tinyphysics.ir import Ops, UOp, substitute
from tinyphysics.ir.ops import ELEMENTWISE
from tinyphysics.ir.uop import toposort
from tinyphysics.rules.calculus.linear import ZERO
from tinyphysics.rules.calculus.partials import partials, times
from tinyphysics.rules.identities.real import simplify

Shift = tuple[int, ...]
Diagonals = dict[tuple[int, Shift], UOp]  # by the number of a state and the shift
MOST = 64  # diagonals of one expression


def diagonals_of(roots: Sequence[UOp], states: Sequence[UOp]) -> list[Diagonals] | None:
    """Of expressions with the shape of the states; None where one is not followed."""
    shape = states[0].shape
    place = {s: k for k, s in enumerate(states)}
    known: dict[UOp, Diagonals] = {}
    for u in toposort(list(roots)):
        found = follow(u, known, place, len(shape))
        if found is None or len(found) > MOST:
            return None
        known[u] = found
    if any(u.shape != shape for u in roots):
        return None
    out = [around(known[u], shape) for u in roots]
    flat = simplify([c for row in out for c in row.values()])
    rest = iter(flat)
    return [{key: c for key in row if not is_zero(c := next(rest))} for row in out]


def is_zero(u: UOp) -> bool:
    return u.op is Ops.CONST and u.arg == 0.0


def added(into: Diagonals, key: tuple[int, Shift], c: UOp) -> None:
    into[key] = into[key] + c if key in into else c


def around(row: Diagonals, shape: Shift) -> Diagonals:
    """Shifts on a torus, each the shorter way."""
    out: Diagonals = {}
    for (state, shift), c in row.items():
        added(out, (state, tuple((s + n // 2) % n - n // 2 for s, n in zip(shift, shape))), c)
    return out


def follow(u: UOp, known: Mapping[UOp, Diagonals], place: Mapping[UOp, int], axes: int) -> Diagonals | None:
    if u in place:
        return {(place[u], (0,) * axes): UOp.const(1.0, u.dtype, u.shape)}
    if not any(known[s] for s in u.src):
        return {}
    out: Diagonals = {}
    if u.op in ELEMENTWISE:
        for s, d in zip(u.src, partials(u)):
            if d is not None:
                for key, c in known[s].items():
                    added(out, key, times(c, d))
        return out
    by: Shift | None
    if axes == 1 and u.size == 1 and u.op in (Ops.ELEMENT, Ops.RESHAPE) and len(u.src[0].shape) <= 1:
        by = (u.arg if u.op is Ops.ELEMENT else 0,)  # one number: its place is that of a slice
    elif len(u.shape) != axes:
        return None
    else:
        by = moved_by(u)
    if u.op is Ops.CONCAT:
        begin = 0
        for s in u.src:
            for (state, shift), c in known[s].items():
                before = [begin if k == u.arg else 0 for k in range(axes)]
                after = [n - m - b for n, m, b in zip(u.shape, s.shape, before)]
                moved = tuple(x - b for x, b in zip(shift, before))
                added(out, (state, moved), c.pad([(b, a, 0) for b, a in zip(before, after)]))
            begin += s.shape[u.arg]
        return out
    if by is None:
        return None
    for (state, shift), c in known[u.src[0]].items():
        added(out, (state, tuple(x + b for x, b in zip(shift, by))), u.replace((c,)))
    return out


def moved_by(u: UOp) -> Shift | None:
    """Where the element of a movement at index 0 comes from; None where others do not follow it."""
    out = [0] * len(u.shape)
    if u.op is Ops.ROLL:
        for k, axis in u.arg:
            out[axis] -= k
    elif u.op is Ops.SLICE and all(step == 1 for _, _, step in u.arg):
        out = [begin for begin, _, _ in u.arg]
    elif u.op is Ops.PAD and all(between == 0 for _, _, between in u.arg):
        out = [-before for before, _, _ in u.arg]
    else:
        return None
    return tuple(out)


def moved_to(c: UOp, shift: Shift) -> UOp:
    """What is at i + shift, at i."""
    for axis, s in enumerate(shift):
        c = c.roll(-s, axis) if s else c
    return c


def product(first: Sequence[Diagonals], second: Sequence[Diagonals], shape: Shift) -> list[Diagonals]:
    """Of two operators, the second applied before."""
    out = []
    for row in first:
        into: Diagonals = {}
        for (state, s), c in row.items():
            for (other, t), d in second[state].items():
                added(into, (other, tuple(a + b for a, b in zip(s, t))), c * moved_to(d, s))
        out.append(around(into, shape))
    return out


def at(rows: Sequence[Diagonals], table: Mapping[UOp, UOp]) -> list[Diagonals]:
    """With other values for the states."""
    flat = iter(substitute([c for row in rows for c in row.values()], dict(table)))
    return [{key: next(flat) for key in row} for row in rows]


def width(rows: Sequence[Diagonals]) -> int:
    """How far the farthest neighbour is, along any axis."""
    return max((abs(x) for row in rows for _, shift in row for x in shift), default=0)


def closes(roots: Sequence[UOp]) -> bool:
    """May an end be coupled to the other?  Only by what is rolled."""
    return any(u.op is Ops.ROLL for u in toposort(list(roots)))


def local_part(f: Slopes, most: int = 3) -> list[list[UOp]] | None:
    """What each place does to its own numbers, a row for each state; None if that is not known, or the same everywhere.

    Where it is the same everywhere, dividing by it changes no direction of a solver.
    """
    rows = diagonals_of(list(f.slopes), list(f.states)) if len(f.states) <= most else None
    if rows is None:
        return None
    here = (0,) * len(f.states[0].shape)
    found = [[row.get((k, here), ZERO) for k in range(len(rows))] for row in rows]
    differs = any(v.op is Ops.VAR and v.shape for row in found for u in row for v in u.leaves)
    if not differs:
        return None
    flat = iter(substitute([u for row in found for u in row], dict(zip(f.states, f.at))))
    return [[next(flat) for _ in row] for row in found]


def diagonal_of_momenta(f: Slopes, q: Sequence[int], p: Sequence[int]) -> list[UOp] | None:
    """Of V'' T'', where masses or springs are given place by place and T'' is one number at each; else None."""
    first = diagonals_of([f.slopes[k] for k in p], [f.states[k] for k in q])
    second = diagonals_of([f.slopes[k] for k in q], [f.states[k] for k in p])
    here = (0,) * len(f.states[0].shape)
    if first is None or second is None or any(set(row) != {(k, here)} for k, row in enumerate(second)):
        return None
    given = [row[k, here] * second[k][k, here] for k, row in enumerate(first) if (k, here) in row]
    own = frozenset(f.states)
    if len(given) < len(p) or not any(v.shape and v not in own for u in given for v in u.leaves):
        return None
    return substitute(given, dict(zip(f.states, f.at)))
