"""How does everything change along one direction?  Forward mode, as a graph: one rule per op."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from tinyphysics.errors import PlanError
from tinyphysics.ir.ops import CHOSEN, ELEMENTWISE, MOVEMENT, Ops
from tinyphysics.ir.uop import UOp, substitute, toposort
from tinyphysics.rules.calculus.elliptic import check_moving, elliptic, names
from tinyphysics.rules.calculus.linear import solved
from tinyphysics.rules.calculus.mesh import pushed
from tinyphysics.rules.calculus.partials import partials, times
from tinyphysics.rules.calculus.solve import equations, part


def reduce(u: UOp, t: UOp) -> UOp:
    kind, axes, *_ = u.arg
    if kind in ("sum", "pairs"):
        return u.replace((t,))
    x = u.src[0]
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    zero, one = UOp.const(0.0, u.dtype, x.shape), UOp.const(1.0, u.dtype, x.shape)
    share = x.eq(u.reshape(kept).expand(x.shape)).where(one, zero)  # as in vjp: ties share
    return (share * t).sum(axes) / share.sum(axes)


def push(u: UOp, tangents: Sequence[UOp | None]) -> UOp | None:
    """The tangent of u, given those of its sources; None is zero."""
    if all(t is None for t in tangents):
        return None
    if u.op in ELEMENTWISE:
        out: UOp | None = None
        for t, d in zip(tangents, partials(u)):
            if t is not None and d is not None:
                out = times(t, d) if out is None else out + times(t, d)
        return out
    if u.op is Ops.SOLVED:
        return along_root(u, tuple(tangents))
    if u.op is Ops.ELLIPTIC:
        return along_elliptic(u, tangents)
    if u.op is Ops.TREE:
        raise PlanError("a sum through a tree has no tangents", fix="Leave approximate= out.")
    if u.op is Ops.MESH:
        return pushed(u, list(tangents))
    if u.op is Ops.NEIGHBOURS:  # an order jumps, and images with it
        return None
    if u.op in CHOSEN:  # an index does not move
        return None if tangents[0] is None else u.replace((tangents[0], *u.src[1:]))
    full = tuple(UOp.const(0.0, s.dtype, s.shape) if t is None else t for s, t in zip(u.src, tangents))
    return u.replace(full) if u.op in MOVEMENT or u.op is Ops.FOURIER else reduce(u, full[0])


def along_elliptic(u: UOp, tangents: Sequence[UOp | None]) -> UOp:
    """A u' = f' - A' u."""
    check_moving(u, [t is not None for t in tangents])
    e, free = elliptic(u), names(u)
    right = UOp.const(0.0, u.dtype, u.shape) if tangents[0] is None else tangents[0]
    moving = [(x, t) for x, t in zip(free, tangents[1:]) if t is not None]
    if moving:
        applied = elliptic(u.replace((e.f, *free))).applied(u)
        (moved,) = jvp([applied], [x for x, _ in moving], [t for _, t in moving if t is not None])
        right = right - substitute([moved], dict(zip(free, u.src[1:])))[0]
    return replace(e, f=right).node


def along_root(u: UOp, tangents: tuple[UOp | None, ...]) -> UOp | None:
    """The tangent of a root: residuals stay zero. Where it starts and how it is found do not matter."""
    which, n = int(u.arg[0]), int(u.arg[1])
    moving = tangents[2 * n :]
    if which >= n or all(t is None for t in moving):
        return None
    found = _along(part(u, 0), moving)
    return found[which]


@lru_cache(maxsize=64)
def _along(u: UOp, moving: tuple[UOp | None, ...]) -> list[UOp]:
    eq = equations(u)
    n = eq.n
    by_unknown = [
        jvp(eq.residuals, eq.unknowns, [UOp.const(float(j == k)) for j in range(n)]) for k in range(n)
    ]
    ways = [
        UOp.const(0.0, y.dtype) if t is None else UOp.var(f"d{k}", (), y.dtype)
        for k, (y, t) in enumerate(zip(eq.given, moving))
    ]
    by_known = jvp(eq.residuals, eq.given, ways)
    matrix = [[by_unknown[k][i] for k in range(n)] for i in range(n)]
    table = {x: part(u, k) for k, x in enumerate(eq.unknowns)} | dict(zip(eq.given, u.src[2 * n :]))
    table |= {way: t for way, t in zip(ways, moving) if t is not None}
    # as they are: rules round constants
    flat = substitute([*(x for row in matrix for x in row), *by_known], table)
    rows = [flat[i * n : (i + 1) * n] for i in range(n)]
    return [-row[0] for row in solved(rows, [[x] for x in flat[n * n :]])]


def jvp(outputs: Sequence[UOp], inputs: Sequence[UOp], tangents: Sequence[UOp]) -> list[UOp]:
    """The derivative of the outputs when the inputs move along the tangents.

    >>> q = UOp.var("q")
    >>> jvp([q.sin()], [q], [UOp.var("dq")])
    [dq*cos(q)]
    """
    given = dict(zip(inputs, tangents))
    tangent: dict[UOp, UOp | None] = {}
    for u in toposort(outputs):
        tangent[u] = given[u] if u in given else push(u, [tangent[s] for s in u.src])
    return [UOp.const(0.0, u.dtype, u.shape) if (t := tangent[u]) is None else t for u in outputs]
