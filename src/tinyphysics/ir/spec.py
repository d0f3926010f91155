"""Is a graph well formed for its stage?  One table per stage, checked after every pass in tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyphysics.ir.dtype import bool_, i64, u32
from tinyphysics.ir.fourier import has_stages
from tinyphysics.ir.mesh import AXES, CONVOLVE, ENERGY, INTERPOLATE, SPECTRUM, SPREAD
from tinyphysics.ir.ops import (
    ARITY,
    CHOSEN,
    COMPARE,
    DRAWN,
    ELEMENTWISE,
    LEAVES,
    MINIMAL,
    MOVEMENT,
    ORBITS,
    Ops,
)
from tinyphysics.ir.uop import Shape, UOp, toposort
from tinyphysics.util import prod

Row = tuple[frozenset[Ops], Callable[[UOp], bool], str]

CHOICES = frozenset({Ops.WHERE, Ops.WHERE_RARELY})
BITWISE = frozenset({Ops.AND, Ops.OR, Ops.XOR, Ops.NOT})
WHOLE = frozenset({Ops.FLOORDIV, Ops.MOD, Ops.TDIV, Ops.SAR})


def same_dtypes(u: UOp) -> bool:
    data = u.src[1:] if u.op in CHOICES else u.src
    if u.op in COMPARE:
        return u.dtype is bool_ and len({s.dtype for s in data}) == 1
    if u.op is Ops.CAST or u.op is Ops.CUSTOM:
        return True
    if u.op is Ops.RANDOM:
        return u.dtype.is_float and [s.dtype for s in u.src] == [u32, u32, i64, i64, i64]
    if u.op is Ops.BITCAST:
        return u.src[0].dtype.bits == u.dtype.bits
    return all(s.dtype is u.dtype for s in data)


def expands(u: UOp) -> bool:
    old, new = u.src[0].shape, u.shape
    return len(old) <= len(new) and all(n in (1, m) for n, m in zip(reversed(old), reversed(new)))


def permutes(u: UOp) -> bool:
    old = u.src[0].shape
    return sorted(u.arg) == list(range(len(old))) and u.shape == tuple(old[a] for a in u.arg)


def slices(u: UOp) -> bool:
    old, bounds = u.src[0].shape, u.arg
    inside = all(
        0 <= a and step > 0 and (a >= b or range(a, b, step)[-1] < n) for (a, b, step), n in zip(bounds, old)
    )
    return inside and len(bounds) == len(old) and u.shape == tuple(len(range(*b)) for b in bounds)


def pads(u: UOp) -> bool:
    old, widths = u.src[0].shape, u.arg
    return len(widths) == len(old) and all(
        min(w) >= 0 and m == w[0] + w[1] + n + w[2] * max(n - 1, 0) for w, n, m in zip(widths, old, u.shape)
    )


def keeps(u: UOp) -> bool:
    """FLIP and ROLL: the same shape, along axes that are there."""
    axes = [move[1] for move in u.arg] if u.op is Ops.ROLL else u.arg
    return u.shape == u.src[0].shape and all(0 <= a < len(u.shape) for a in axes)


def triangular(u: UOp) -> bool:
    (a, b, *_), shape = u.arg, u.src[0].shape
    return u.shape == shape and a != b and max(a, b) < len(shape) and shape[a] == shape[b]


def joins(u: UOp) -> bool:
    def rest(shape: Shape) -> Shape:
        return shape[: u.arg] + shape[u.arg + 1 :]

    at_axis = sum(s.shape[u.arg] for s in u.src)
    return u.shape[u.arg] == at_axis and all(rest(s.shape) == rest(u.shape) for s in u.src)


def chooses(u: UOp) -> bool:
    """GATHER and SCATTER: as many indices as leading axes, of one shape, and the rest of the axes kept."""
    x, indices = u.src[0], u.src[1:]
    if not indices or any(i.dtype is not i64 or i.shape != indices[0].shape for i in indices):
        return False
    short, long = (u.shape, x.shape) if u.op is Ops.SCATTER else (x.shape, u.shape)
    axes, at = short[: len(indices)], indices[0].shape
    return len(axes) == len(indices) and 0 not in axes and long == at + short[len(axes) :]


def draws(u: UOp) -> bool:
    kind, stream, count = u.arg
    return kind in DRAWN and 0 <= stream < 1 << 32 and count > 0


def stacks(u: UOp) -> bool:
    return len(u.src) == prod(u.shape) and all(s.shape == () for s in u.src)


def lists(u: UOp) -> bool:
    """NEAR: points, two lengths, and perhaps a cell; distances of all pairs have more sources."""
    q, d = u.src[0], u.src[0].shape[-1] if u.src[0].shape else 0
    if q.ndim != 2 or u.arg[0] == "distance2":
        return q.ndim == 2 and u.shape == (q.shape[0],) * 2
    if len(u.src) not in (3, 4) or any(s.shape for s in u.src[1:3]):
        return False
    boxed = len(u.src) == 3 or u.src[3].shape in ((d,), (d, d))
    return boxed and (
        u.shape == q.shape and u.dtype is q.dtype
        if u.arg[0] == "images"
        else u.shape == q.shape[:1] and u.dtype is i64
    )


def fits(u: UOp, shapes: list[Shape]) -> bool:
    """Are these the shapes of the sources, all of one dtype with what is made of them?"""
    return [s.shape for s in u.src] == shapes and all(s.dtype is u.dtype for s in u.src)


def orbits(u: UOp) -> bool:
    """JACOBI, KEPLER, KEPLER_ALONG, PULL: rows of points in space, and a number for each of them."""
    n = u.shape[0] if len(u.shape) == 2 and u.shape[1] == 3 else 0
    if u.op is Ops.JACOBI and sorted(u.arg[1:]) != list(range(n)):
        return False
    if u.op in (Ops.KEPLER, Ops.KEPLER_ALONG) and u.arg not in ((0,), (1,)):
        return False
    after: dict[Ops, list[Shape]] = {
        Ops.JACOBI: [(n,)],
        Ops.KEPLER: [u.shape, (n,), ()],
        Ops.KEPLER_ALONG: [u.shape, (n,), (), u.shape, u.shape, (n,)],
        Ops.PERTURBATION: [u.shape, (n,)],
    }
    return n > 1 and fits(u, [u.shape, *after[u.op]])


def transforms(u: UOp) -> bool:
    """FOURIER: two arrays of one shape, along an axis whose length is made of small primes."""
    part, sign, axis = u.arg
    known = part in (0, 1) and sign in (-1, 1) and 0 <= axis < len(u.shape)
    return known and has_stages(u.shape[axis]) and fits(u, [u.shape, u.shape])


def meshed(u: UOp) -> bool:
    """MESH: places and charges, places and nodes, or two arrays of nodes."""
    what, order, along, grid = u.arg
    n = u.src[0].shape[0] if u.src[0].shape else 0
    shapes: dict[str, tuple[list[Shape], Shape]] = {
        SPREAD: ([(n, AXES), (n,)], grid),
        INTERPOLATE: ([(n, AXES), grid], (n,)),
        CONVOLVE: ([grid, grid], grid),
        ENERGY: ([grid, grid], ()),
        SPECTRUM: ([grid, grid], grid),
    }
    known = what in shapes and len(grid) == AXES and order >= 0 and all(d >= 0 for d in along)
    return known and fits(u, shapes[what][0]) and u.shape == shapes[what][1]


def elliptic(u: UOp) -> bool:
    """ELLIPTIC: an array of 1 to 3 axes; s, 1/h² along each, perhaps k; an end for each, method, cycles, smoother."""
    (tolerance, numbers), n = u.arg, len(u.shape)
    known = 1 <= n <= 3 and len(numbers) == n + 3 and 0.0 <= tolerance < 1.0
    if not known or len(u.src) not in (n + 2, n + 3) or not u.dtype.is_float:
        return False
    *ends, method, cycles, smoother = numbers
    chosen = set(ends) <= {0, 1, 2} and method in (0, 1) and cycles >= 0 and smoother in (0, 1, 2)
    more: list[Shape] = [u.shape] * (len(u.src) - n - 2)
    numbers_only = u.src[1].shape == ()
    return chosen and fits(u, [u.shape, () if numbers_only else u.shape, *[()] * n, *more])


def pulls(u: UOp) -> bool:
    """TREE: points in space, a mass for each, one number; with cotangents of the pull five numbers for each point."""
    if len(u.shape) != 2:
        return False
    n, points = u.shape[0], (u.shape[0], 3)
    if u.shape[1] == 5:
        return fits(u, [points, (n,), (), points])
    return u.shape == points and fits(u, [points, (n,), ()])


def lines(u: UOp) -> bool:
    """LINE: three square matrices and some columns of as many rows, along an axis."""
    if len(u.shape) < 3 or len(u.arg) != 2 or u.shape[1] <= u.shape[0] or u.dtype.name != "f64":
        return False
    n, wide, *rest = u.shape
    square: Shape = (n, n, *rest)
    most = 1 << n * n
    return all(0 <= m < most for m in u.arg) and fits(u, [square, square, square, (n, wide - n, *rest)])


def solves(u: UOp) -> bool:
    """SOLVE: vectors of one length, and perhaps a square matrix; or arrays of one shape, and perhaps a correction of it."""
    n, (_, rounds) = u.shape, u.arg
    correction = n + n if len(n) == 1 else n
    return bool(n) and rounds > 0 and fits(u, [n, n, n, *([correction] if len(u.src) == 4 else [])])


def reduces(u: UOp) -> bool:
    kind, axes, *pairs = u.arg
    old = u.src[0].shape
    if len(u.src) != (2 if kind == "dot" else 1) or any(s.shape != old for s in u.src):
        return False
    kept = tuple(n for i, n in enumerate(old) if i not in axes)
    if kind == "pairs":
        a, b, *_ = pairs[0] if len(pairs) == 1 and len(pairs[0]) in (2, 3) else (0, 0)
        square = a != b and max(a, b) < len(old) and old[a] == old[b]
        return square and len(axes) == 1 and axes[0] in (a, b) and kept == u.shape
    return (
        not pairs and kind in ("sum", "max", "min", "dot") and kept == u.shape and len(set(axes)) == len(axes)
    )


# fmt: off
SHAPED: list[Row] = [
    (frozenset(ARITY),                       lambda u: len(u.src) == ARITY[u.op],  "the wrong number of sources"),
    (frozenset({Ops.CONST}),                 lambda u: isinstance(u.arg, (int, float)), "no number"),
    (frozenset({Ops.VAR}),                   lambda u: isinstance(u.arg, str),     "no name"),
    (frozenset({Ops.RANGE}),                 lambda u: u.dtype is i64 and len(u.shape) == 1, "not one axis of i64"),
    (ELEMENTWISE,                            lambda u: all(s.shape == u.shape for s in u.src), "sources of other shapes"),
    (ELEMENTWISE,                            same_dtypes,                          "sources of other dtypes"),
    (frozenset({Ops.RANDOM}),                draws,                                "no kind, stream and count"),
    (BITWISE,                                lambda u: not u.dtype.is_float,       "bits of a float"),
    (frozenset({Ops.SHL, Ops.SHR}),          lambda u: u.dtype.is_int,             "a shift of a float"),
    (WHOLE,                                  lambda u: u.dtype.kind == "i",        "other than signed whole numbers"),
    (frozenset({Ops.MULHI}),                 lambda u: u.dtype is u32,             "a high product of other than u32"),
    (CHOICES,                                lambda u: u.src[0].dtype is bool_,    "a condition that is not bool"),
    (frozenset({Ops.RESHAPE}),               lambda u: prod(u.src[0].shape) == prod(u.shape), "another size"),
    (frozenset({Ops.EXPAND}),                expands,                              "a shape that does not broadcast"),
    (frozenset({Ops.REDUCE}),                reduces,                              "a shape that is not the reduced one"),
    (frozenset({Ops.PERMUTE}),               permutes,                             "axes that are no permutation"),
    (frozenset({Ops.SLICE}),                 slices,                               "bounds that do not fit"),
    (frozenset({Ops.PAD}),                   pads,                                 "widths that do not fit"),
    (frozenset({Ops.FLIP, Ops.ROLL}),        keeps,                                "an axis or a shape that does not fit"),
    (frozenset({Ops.TRIU}),                  triangular,                           "axes that are no square"),
    (frozenset({Ops.NEIGHBOURS}),                  lists,                                "points or a cell that do not fit"),
    (frozenset({Ops.TREE}),                  pulls,                                "points or masses that do not fit"),
    (frozenset({Ops.LINE}),                  lines,                                "matrices or columns that do not fit"),
    (frozenset({Ops.FOURIER}),               transforms,                           "parts or a length that do not fit"),
    (frozenset({Ops.MESH}),                  meshed,                               "particles or a mesh that do not fit"),
    (frozenset({Ops.ELLIPTIC}),              elliptic,                             "a grid, ends or a way that do not fit"),
    (ORBITS,                                 orbits,                               "bodies or masses that do not fit"),
    (frozenset({Ops.SOLVE}),                 solves,                               "equations that do not fit"),
    (frozenset({Ops.CONCAT}),                joins,                                "pieces that do not join"),
    (frozenset({Ops.STACK}),                 stacks,                               "other than one scalar per element"),
    (frozenset({Ops.ELEMENT}),               lambda u: not u.shape and 0 <= u.arg < u.src[0].size, "no such element"),
    (CHOSEN,                                 chooses,                              "indices that do not fit"),
    (CHOSEN,                                 lambda u: u.src[0].dtype is u.dtype,  "another dtype"),
    (MOVEMENT - CHOSEN | {Ops.REDUCE},       lambda u: all(s.dtype is u.dtype for s in u.src), "another dtype"),
]
LOWERED: list[Row] = [
    *SHAPED,
    (frozenset(Ops) - MINIMAL,               lambda u: False,                      "an operation outside the minimal set"),
]
UNROLLED: list[Row] = [
    *SHAPED,
    (frozenset(Ops) - LEAVES,                lambda u: u.shape == () or u.op is Ops.VAR, "an array"),
]
# fmt: on


def check(roots: Sequence[UOp], spec: list[Row]) -> None:
    """An AssertionError that names the first node that breaks a row of the table."""
    for u in toposort(roots):
        for _, _, what in (row for row in spec if u.op in row[0] and not row[1](u)):
            sources = ", ".join(f"`{s}`" for s in u.src)  # these are well formed: u itself may not print
            raise AssertionError(f"{u.op.value} {u.dtype}{list(u.shape)} of {sources or u.arg} has {what}")
