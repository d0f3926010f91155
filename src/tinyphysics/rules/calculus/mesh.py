"""What are the derivatives of particles on a mesh?  Of the same kind: slopes of splines are splines, and waves are linear."""

from __future__ import annotations

from tinyphysics.ir.mesh import AXES, CONVOLVE, ENERGY, INTERPOLATE, SPECTRUM, SPREAD, Along
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import Shape, UOp

PLAIN: Along = (0, 0, 0)


def spread(f: UOp, c: UOp, order: int, grid: Shape, along: Along = PLAIN) -> UOp:
    """What each node has of the charges c at the places f."""
    return UOp(Ops.MESH, c.dtype, grid, (f, c), (SPREAD, order, along, grid))


def interpolate(f: UOp, values: UOp, order: int, along: Along = PLAIN) -> UOp:
    """What each particle has of the nodes; a number that all nodes share stays outside."""
    n, grid = f.shape[0], values.shape
    while (
        values.op is Ops.MUL
        and (k := next((k for k in (0, 1) if one_number(values.src[k])), None)) is not None
    ):
        factor, rest = values.src[k], values.src[1 - k]
        while factor.op in (Ops.EXPAND, Ops.RESHAPE):
            factor = factor.src[0]
        inside = interpolate(f, rest, order, along)
        number = UOp.const(factor.arg, factor.dtype) if factor.op is Ops.CONST else factor
        return inside * number.expand((n,))
    return UOp(Ops.MESH, values.dtype, (n,), (f, values), (INTERPOLATE, order, along, grid))


def one_number(u: UOp) -> bool:
    while u.op in (Ops.EXPAND, Ops.RESHAPE):
        u = u.src[0]
    return u.size == 1 or u.op is Ops.CONST


def convolve(values: UOp, waves: UOp) -> UOp:
    """The sum over waves of the transform of the nodes, times a number for each wave, times the wave; real."""
    return UOp(Ops.MESH, values.dtype, values.shape, (values, waves), (CONVOLVE, 0, PLAIN, values.shape))


def half_square(values: UOp, waves: UOp) -> UOp:
    """Half the sum over waves of a number for each times the square of the transform."""
    return UOp(Ops.MESH, values.dtype, (), (values, waves), (ENERGY, 0, PLAIN, values.shape))


def steeper(along: Along, axis: int) -> Along:
    a, b, c = (d + (k == axis) for k, d in enumerate(along))
    return a, b, c


def side_by_side(columns: list[UOp]) -> UOp:
    n = columns[0].shape[0]
    return UOp(Ops.CONCAT, columns[0].dtype, (n, len(columns)), tuple(c.reshape(n, 1) for c in columns), 1)


def spectrum(x: UOp, y: UOp) -> UOp:
    """For each wave Re(conj X Y): what its number weighs."""
    return UOp(Ops.MESH, x.dtype, x.shape, (x, y), (SPECTRUM, 0, PLAIN, x.shape))


def pulled(u: UOp, g: UOp) -> tuple[UOp | None, ...]:
    """The cotangents of both sources."""
    what, order, along, grid = u.arg
    x, y = u.src
    match what:
        case _ if what == SPREAD:
            slopes = [y * interpolate(x, g, order, steeper(along, a)) for a in range(AXES)]
            return side_by_side(slopes), interpolate(x, g, order, along)
        case _ if what == INTERPOLATE:
            slopes = [g * interpolate(x, y, order, steeper(along, a)) for a in range(AXES)]
            return side_by_side(slopes), spread(x, g, order, grid, along)
        case _ if what == CONVOLVE:
            return convolve(g, y), spectrum(x, g)
        case _ if what == ENERGY:
            return convolve(x, y) * g.expand(grid), spectrum(x, x) * (g * 0.5).expand(grid)
    return convolve(y, g), convolve(x, g)


def pushed(u: UOp, tangents: list[UOp | None]) -> UOp:
    what, order, along, grid = u.arg
    (x, y), (dx, dy) = u.src, tangents
    terms = []
    match what:
        case _ if what == SPREAD:
            if dx is not None:
                terms += [spread(x, y * dx[:, a], order, grid, steeper(along, a)) for a in range(AXES)]
            if dy is not None:
                terms.append(spread(x, dy, order, grid, along))
        case _ if what == INTERPOLATE:
            if dx is not None:
                terms += [dx[:, a] * interpolate(x, y, order, steeper(along, a)) for a in range(AXES)]
            if dy is not None:
                terms.append(interpolate(x, dy, order, along))
        case _ if what == CONVOLVE:
            if dx is not None:
                terms.append(convolve(dx, y))
            if dy is not None:
                terms.append(convolve(x, dy))
        case _ if what == ENERGY:
            if dx is not None:
                terms.append((dx * convolve(x, y)).sum())
            if dy is not None:
                terms.append(half_square(x, dy))
        case _:
            if dx is not None:
                terms.append(spectrum(dx, y))
            if dy is not None:
                terms.append(spectrum(x, dy))
    return UOp.sum_of(terms)
