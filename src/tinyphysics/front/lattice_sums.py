"""Which sums over pairs go over all images of a periodic box?  Those of c[i]*c[j] times a function that Ewald's method takes.

`pair_distance2(q, box=L)` without a cutoff stands for the distances to all images. `pair_sum` splits what was made of it
into terms of the table FORMS, guessed factor by factor and shown to give what was written. A term is one node, which
planner/systems/long_range.py replaces by sums that converge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from tinyphysics.errors import TraceError
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.ir.ops import ELEMENTWISE
from tinyphysics.rules.equality.normal import same
from tinyphysics.rules.formulas.ewald import COULOMB, DISPERSION, FORMS, GAUSSIAN, SCREENED, SOFTENED
from tinyphysics.rules.identities.real import simplify

DISTANCES, SUM = "images2", "image_sum"  # the first word of a NEIGHBOURS node
HALF = Fraction(1, 2)
Factor = tuple[UOp, Fraction]


def is_periodic(u: UOp) -> bool:
    """Does it stand for the squared distances to all images of a box?"""
    return u.op is Ops.NEIGHBOURS and u.arg[0] == DISTANCES


def all_images(points: UOp, cell: UOp, partners: tuple[UOp, ...]) -> UOp:
    n, d = points.shape
    if d != 3:
        raise TraceError.here(
            f"a periodic sum without a cutoff over points with {d} coordinates",
            "Ewald sums are those of three dimensions. Pass cutoff=2.5, or write points of shape (n, 3).",
        )
    return UOp(Ops.NEIGHBOURS, points.dtype, (n, n), (points, cell, *partners), (DISTANCES, 0, len(partners)))


@dataclass(frozen=True, eq=False)
class LatticeSum:
    """factor times the sum over pairs, and over all images, of c[i]*c[j]*f(r); without the pairs that `partners` names."""

    form: str
    points: UOp
    cell: UOp
    charges: UOp
    factor: UOp
    parameter: UOp  # of the form: a screening length, a width; 0 where it has none
    partners: UOp | None = None

    def node(self) -> UOp:
        p = self.points
        rest = () if self.partners is None else (self.partners,)
        sources = (p, self.cell, self.charges, self.factor, self.parameter, *rest)
        return UOp(Ops.NEIGHBOURS, p.dtype, (), sources, (SUM, 0, self.form))


def is_lattice_sum(u: UOp) -> bool:
    return u.op is Ops.NEIGHBOURS and u.arg[0] == SUM


def lattice_sum(u: UOp) -> LatticeSum:
    assert is_lattice_sum(u)
    points, cell, charges, factor, parameter, *partners = u.src
    return LatticeSum(u.arg[2], points, cell, charges, factor, parameter, partners[0] if partners else None)


def over_images(x: UOp) -> UOp:
    """The sum over all pairs and images of what was made of the distances of a box."""
    nodes = list(toposort([x]))
    distances = [u for u in nodes if is_periodic(u)]
    others = [u for u in nodes if u.op is Ops.NEIGHBOURS and u.shape == x.shape and not is_periodic(u)]
    if len(distances) > 1 or others:
        raise TraceError.here(
            "a pair_sum mixes the distances of two pair_distance2 calls",
            "Write one pair_sum for each of them, and add the sums.",
        )
    (r2,) = distances
    found = [one_sum(term, r2) for term in terms(x, r2)]
    put_together = UOp.sum_of([written(t, r2) for t in found])
    if not same(put_together, x):
        raise refused(x)
    return UOp.sum_of([t.node() for t in found])


def refused(x: UOp, why: str = "") -> TraceError:
    known = ", ".join(f.written for f in FORMS.values())
    return TraceError.here(
        f"`{x}` has no cutoff, and no sum over all images of it is known{why}",
        f"Write factors c[:, None]*c[None, :] times one of {known}, or sums of these; or pass cutoff=2.5.",
    )


def written(t: LatticeSum, r2: UOp) -> UOp:
    """A term as a user would write it."""
    n = t.charges.shape[0]
    f = FORMS[t.form].value(r2, t.parameter.expand(r2.shape))
    return t.factor.expand((n, n)) * t.charges[:, None] * t.charges[None, :] * f


def terms(u: UOp, r2: UOp) -> Iterator[UOp]:
    """The addends, with products of sums opened where the distance is in the sum."""
    match u.op:
        case Ops.ADD:
            for s in u.src:
                yield from terms(s, r2)
        case Ops.SUB:
            yield from terms(u.src[0], r2)
            yield from (-x for x in terms(u.src[1], r2))
        case Ops.NEG:
            yield from (-x for x in terms(u.src[0], r2))
        case Ops.MUL if any(s.op in (Ops.ADD, Ops.SUB) and depends(s, r2) for s in u.src):
            a, b = u.src
            if not (a.op in (Ops.ADD, Ops.SUB) and depends(a, r2)):
                a, b = b, a
            yield from (y for x in terms(a, r2) for y in terms(x * b, r2))
        case Ops.DIV if u.src[0].op in (Ops.ADD, Ops.SUB) and depends(u.src[0], r2):
            yield from (y for x in terms(u.src[0], r2) for y in terms(x / u.src[1], r2))
        case _:
            yield u


def depends(u: UOp, r2: UOp) -> bool:
    return any(v is r2 for v in toposort([u]))


def factors(u: UOp, r2: UOp, power: Fraction = Fraction(1)) -> Iterator[Factor]:
    match u.op:
        case Ops.MUL:
            for s in u.src:
                yield from factors(s, r2, power)
        case Ops.DIV:
            yield from factors(u.src[0], r2, power)
            yield from factors(u.src[1], r2, -power)
        case Ops.NEG:
            yield UOp.const(-1.0, u.dtype, u.shape), power
            yield from factors(u.src[0], r2, power)
        case Ops.SQRT | Ops.RSQRT if u.src[0] is r2 or u.src[0].op is Ops.ADD:
            yield u.src[0], power * (HALF if u.op is Ops.SQRT else -HALF)
        case Ops.POW if u.src[1].op is Ops.CONST:
            exponent = Fraction(u.src[1].arg)
            if exponent.denominator == 1 or u.src[0] is r2 or u.src[0].op in (Ops.ADD, Ops.SQRT):
                yield from factors(u.src[0], r2, power * exponent)
            else:
                yield u, power
        case _:
            yield u, power


def one_sum(x: UOp, r2: UOp) -> LatticeSum:
    """A term of the table, or a TraceError."""
    points, cell, *partners = r2.src
    distance = Fraction(0)
    special: list[Factor] = []
    rows: list[Factor] = []
    columns: list[Factor] = []
    scalars: list[Factor] = []
    for u, power in factors(x, r2):
        if u is r2:
            distance += 2 * power
        elif depends(u, r2):
            special.append((u, power))
        elif (number := one_number(u)) is not None:
            scalars.append((number, power))
        elif (row := along(u, 0)) is not None and (len(rows) <= len(columns) or points.shape[0] > 1):
            rows.append((row, power))
        elif (column := along(u, 1)) is not None:
            columns.append((column, power))
        else:
            raise refused(x, f": `{u}` is no product c[i]*c[j]")
    form, parameter = form_of(x, distance, special, r2)
    n = points.shape[0]
    charges = product(rows, UOp.const(1.0, points.dtype, (n,)))
    if not same(charges, product(columns, UOp.const(1.0, points.dtype, (n,)))):
        raise refused(x, ": its factors of i and of j differ")
    factor = product(scalars, UOp.const(1.0, points.dtype))
    made = LatticeSum(form, points, cell, charges, factor, parameter, partners[0] if partners else None)
    if depends(made.factor, r2) or points.leaves & (charges.leaves | factor.leaves | parameter.leaves):
        raise refused(x, ": its factors depend on positions")
    return made


def form_of(x: UOp, distance: Fraction, special: list[Factor], r2: UOp) -> tuple[str, UOp]:
    """Which row of FORMS powers of the distance and other factors make, and its parameter."""
    zero = UOp.const(0.0, r2.dtype)
    if not special and distance in (-1, -6):
        return (COULOMB if distance == -1 else DISPERSION), zero
    if len(special) == 1:
        (u, power) = special[0]
        if distance == -1 and power == 1 and u.op in (Ops.EXP, Ops.ERF):
            scale = over_distance(u.src[0], r2)
            if scale is not None:
                return (SCREENED, simplify([-scale])[0]) if u.op is Ops.EXP else (GAUSSIAN, scale)
        if distance == 0 and power == -HALF and u.op is Ops.ADD:
            other = u.src[1] if u.src[0] is r2 else u.src[0] if u.src[1] is r2 else None
            square = None if other is None else one_number(other)
            if square is not None:
                return SOFTENED, square
    raise refused(x)


def over_distance(u: UOp, r2: UOp) -> UOp | None:
    """The number that u is of the distance; None if it is no multiple of it."""
    power, scalars = Fraction(0), []
    for v, e in factors(u, r2):
        if v is r2:
            power += 2 * e
        elif (number := one_number(v)) is not None:
            scalars.append((number, e))
        else:
            return None
    return product(scalars, UOp.const(1.0, r2.dtype)) if power == 1 else None


def product(parts: list[Factor], one: UOp) -> UOp:
    out: UOp | None = None
    for u, power in parts:
        v = u if power == 1 else 1.0 / u if power == -1 else u ** float(power)
        out = v if out is None else out * v
    return one if out is None else simplify([out])[0]


def one_number(u: UOp) -> UOp | None:
    """The scalar that an array is everywhere, or None if that cannot be seen."""
    if u.shape == ():
        return u
    if u.op is Ops.CONST:
        return UOp.const(u.arg, u.dtype)
    if u.op in (Ops.EXPAND, Ops.RESHAPE):
        return one_number(u.src[0]) if u.src[0].size == 1 else None
    if u.op not in ELEMENTWISE:
        return None
    parts = [one_number(s) for s in u.src]
    known = [p for p in parts if p is not None]
    return UOp(u.op, u.dtype, (), tuple(known), u.arg) if len(known) == len(parts) else None


def along(u: UOp, axis: int) -> UOp | None:
    """The numbers, one for each particle, that a table over pairs holds along one axis; None if it is no such table."""
    n = u.shape[0]
    source = (
        u if u.op is Ops.RESHAPE else u.src[0] if u.op is Ops.EXPAND else None
    )  # a reshape of one particle
    if source is not None and source.size == n:
        shape = (1,) * (2 - source.ndim) + source.shape
        return source.reshape(n) if shape[axis] == n else None
    if u.op not in ELEMENTWISE:
        return None
    parts = [number.expand((n,)) if (number := one_number(s)) is not None else along(s, axis) for s in u.src]
    known = [p for p in parts if p is not None]
    return UOp(u.op, u.dtype, (n,), tuple(known), u.arg) if len(known) == len(parts) else None
