"""How do bodies look from the centre of mass of those within?  Jacobi coordinates, a linear canonical change.

Of bodies in an order, innermost first, body k is seen from the centre of mass of those before it; row 0 is the centre
of mass of all. Their velocities go with them: the momentum that belongs to row k is its velocity times m_k M_(k-1)/M_k,
where M_k is the mass of the first k + 1. Both ways are chains of one multiplication and one addition per body.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.formulas import kepler, kepler_slopes

# from what is given to what it becomes: the first two into Jacobi coordinates, the others back
WAYS = {"positions": "places", "velocities": "momenta", "places": "positions", "momenta": "velocities"}


def in_rows(rows: Sequence[UOp]) -> UOp:
    shape = (len(rows), *rows[0].shape)
    return UOp(Ops.CONCAT, rows[0].dtype, shape, tuple(r.reshape((1, *r.shape)) for r in rows), 0)


def spread(a: UOp, shape: tuple[int, ...]) -> UOp:
    return a.expand(shape)


def cumulated(m: UOp, order: Sequence[int]) -> tuple[list[UOp], list[UOp]]:
    """(the masses in their order, M_0, M_1, ...)."""
    masses = [m[k] for k in order]
    total = [masses[0]]
    for x in masses[1:]:
        total.append(total[-1] + x)
    return masses, total


def change(way: str, x: UOp, m: UOp, order: Sequence[int]) -> UOp:
    """The rows of x the other way."""
    masses, total = cumulated(m, order)
    n, shape = len(order), x.shape[1:]
    share = [spread(masses[k] / total[k], shape) for k in range(n)]
    if way == "positions":
        first = x[order[0]]
        rows, centre = [first], first
        for k in range(1, n):
            rows.append(x[order[k]] - centre)
            centre = share[k].fma(rows[k], centre)
        return in_rows([centre, *rows[1:]])
    if way == "velocities":  # of momenta, or of forces
        inverse = [spread(1.0 / a, shape) for a in masses]
        within = [spread(1.0 / a, shape) for a in total]
        rows, p = [x[order[0]]], x[order[0]]
        for k in range(1, n):
            rows.append(x[order[k]].fma(inverse[k], -(p * within[k - 1])))
            p = p + x[order[k]]
        return in_rows([p * within[n - 1], *rows[1:]])
    centre = x[0]
    back: dict[int, UOp] = {}
    for k in range(n - 1, 0, -1):
        centre = (-share[k]).fma(x[k], centre)
        back[order[k]] = x[k] + centre
    back[order[0]] = centre
    if way == "momenta":
        mass = dict(zip(order, masses))
        back = {i: spread(mass[i], shape) * row for i, row in back.items()}
    return in_rows([back[i] for i in range(n)])


def columns(x: UOp) -> tuple[UOp, UOp, UOp]:
    """Components of all rows but the first, one array each."""
    a, b, c = (x[1:, k] for k in range(3))
    return a, b, c


def below(first: UOp, rows: Sequence[UOp]) -> UOp:
    """An array from its first row and the columns of the others."""
    n = rows[0].shape[0]
    others = UOp(Ops.CONCAT, first.dtype, (n, len(rows)), tuple(r.reshape((n, 1)) for r in rows), 1)
    return UOp(Ops.CONCAT, first.dtype, (n + 1, len(rows)), (first.reshape((1, len(rows))), others), 0)


def drifted(which: int, q: UOp, v: UOp, gm: UOp, h: UOp) -> UOp:
    """Positions (0) or velocities (1) a time h later: row 0 goes straight on, the others on their Kepler orbits."""
    x, y = columns(q), columns(v)
    n = q.shape[0] - 1
    moved = kepler.flow(x, y, gm[1:], h.expand((n,)))[which]
    return below(v[0] if which else v[0].fma(h.expand(v.shape[1:]), q[0]), moved)


def drifted_along(which: int, q: UOp, v: UOp, gm: UOp, h: UOp, dq: UOp, dv: UOp, dgm: UOp) -> UOp:
    """How these change along a direction."""
    n = q.shape[0] - 1
    orbit = (columns(q), columns(v), gm[1:], h.expand((n,)))
    moved = kepler_slopes.flow_along(*orbit, columns(dq), columns(dv), dgm[1:])[which]
    return below(dv[0] if which else dv[0].fma(h.expand(dv.shape[1:]), dq[0]), moved)


def pulled(a: UOp, q: UOp, gm: UOp) -> UOp:
    """a without the pull of the centres: what is left of an acceleration that a Kepler orbit does not know."""
    x = columns(q)
    near = gm[1:] * kepler.dot(x, x) ** -1.5
    return below(a[0], [near.fma(r, b) for r, b in zip(x, columns(a))])


def expand(u: UOp) -> UOp:
    """One of these nodes as what it is made of."""
    match u.op:
        case Ops.JACOBI:
            x, m = u.src
            return change(u.arg[0], x, m, u.arg[1:])
        case Ops.KEPLER:
            return drifted(u.arg[0], *u.src)
        case Ops.KEPLER_ALONG:
            return drifted_along(u.arg[0], *u.src)
        case Ops.PERTURBATION:
            return pulled(*u.src)
    return u
