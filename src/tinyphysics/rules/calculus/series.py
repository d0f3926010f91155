"""Which operations of a derivative are done side by side?  The plan of a Taylor step whose series are too long to write out.

Sums of products are what a series costs. Those of one kind that do not wait for each other are put into quads, four to a
vector, and their loops run over the coefficients that are there; all else is linear, and written out once for all orders.
An operand's quad keeps every coefficient of its four numbers, so that both factors of a product are read side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort

QUAD = 4
Quad = tuple[UOp, ...]
KINDS = {Ops.MUL: "product", Ops.DIV: "quotient", Ops.SQRT: "root", Ops.POW: "power"}
RECURRENT = ("quotient", "root", "power")  # whose own coefficients enter the next


class TooLong(Exception):
    """What keeps a system from being stepped in loops."""


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums of products of one kind: what comes out in each quad, and the quads that go in."""

    kind: str  # product, square, quotient, root, power
    exponent: Fraction | None
    out: tuple[Quad, ...]
    operands: tuple[tuple[Quad, ...], ...]  # one or two, a quad for each of those


@dataclass(frozen=True, eq=False)
class SeriesPlan:
    states: tuple[UOp, ...]
    rates: tuple[UOp, ...]
    order: int
    constants: tuple[UOp, ...]  # what does not move, in terms of parameters
    linear: tuple[tuple[UOp, ...], ...]  # by level, each after what it is made of
    sums: tuple[tuple[Sums, ...], ...]  # by level, after the linear ones of the same level
    stored: Mapping[Quad, int]  # the quads that keep all their coefficients
    kept: Mapping[UOp, tuple[tuple[int, int], ...]]  # where a number is in them: (quad, lane)
    moving: frozenset[UOp]

    def moves(self, u: UOp) -> bool:
        return bool(u.leaves & self.moving)


def plan_of(states: Sequence[UOp], rates: Sequence[UOp], order: int) -> SeriesPlan:
    """Of scalar derivatives; TooLong if one of their operations has no loop."""
    moving = frozenset(v.src[0] if v.op is Ops.ELEMENT else v for v in states)
    level: dict[UOp, int] = {s: 0 for s in states}
    constants: dict[UOp, None] = {}
    linear: dict[int, list[UOp]] = {}
    groups: dict[tuple[int, str, Fraction | None], list[UOp]] = {}
    known = frozenset(states)
    for u in toposort(rates):
        if u in known or u.op is Ops.VAR or not u.leaves & moving:
            continue
        constants |= {
            s: None for s in u.src if not s.leaves & moving and not (u.op is Ops.POW and s is u.src[1])
        }
        below = max(level[s] for s in u.src if s.leaves & moving)
        fixed = [not s.leaves & moving for s in u.src]
        scaled = u.op is Ops.MUL and any(fixed) or u.op is Ops.DIV and fixed[1]
        if scaled or u.op in (Ops.ADD, Ops.SUB, Ops.NEG):
            level[u] = below
            linear.setdefault(below, []).append(u)
        elif u.op in KINDS and not (u.op is Ops.POW and u.src[1].op is not Ops.CONST):
            kind = "square" if u.op is Ops.MUL and u.src[0] is u.src[1] else KINDS[u.op]
            exponent = Fraction(u.src[1].arg) if u.op is Ops.POW else None
            level[u] = below + 1
            groups.setdefault((below, kind, exponent), []).append(u)
        else:
            raise TooLong(f"`{u.op.value}` has no loop over its coefficients yet")
    constants |= {r: None for r in rates if not r.leaves & moving}
    stored: dict[Quad, int] = {}
    place: dict[UOp, int] = {}
    made: dict[int, list[Sums]] = {}
    for below, kind, exponent in sorted(groups, key=lambda g: (-g[0], g[1], g[2] or 0)):
        nodes = groups[below, kind, exponent]
        rows = [operands(u, kind, level) for u in nodes]
        order_of = arranged(nodes, rows, place)
        nodes, rows = [nodes[k] for k in order_of], [rows[k] for k in order_of]
        into = [quads([row[p] for row in rows]) for p in range(len(rows[0]))]
        out = quads(nodes)
        for group in (*into, *([out] if kind in RECURRENT else [])):
            for q in group:
                stored.setdefault(q, len(stored))
                for u in q:
                    place.setdefault(u, len(place))
        made.setdefault(below, []).insert(0, Sums(kind, exponent, out, tuple(into)))
    kept: dict[UOp, list[tuple[int, int]]] = {}
    for q, number in stored.items():
        for lane, u in enumerate(q):
            kept.setdefault(u, []).append((number, lane))
    levels = range(max([*linear, *made, 0]) + 1)
    return SeriesPlan(
        tuple(states),
        tuple(rates),
        order,
        tuple(constants),
        tuple(tuple(linear.get(n, ())) for n in levels),
        tuple(tuple(made.get(n, ())) for n in levels),
        stored,
        {u: tuple(at) for u, at in kept.items()},
        moving,
    )


def operands(u: UOp, kind: str, level: Mapping[UOp, int]) -> tuple[UOp, ...]:
    """What goes into the sum of u that moves, of a product the factor that is known last before the other.

    Its new coefficient is then the last to be added, and the rest of the sum does not wait for it.
    """
    if kind in ("square", "root", "power"):
        return u.src[:1]
    a, b = u.src
    return (b, a) if kind == "product" and level[b] > level[a] else (a, b)


def arranged(nodes: Sequence[UOp], rows: Sequence[tuple[UOp, ...]], place: Mapping[UOp, int]) -> list[int]:
    """An order in which quads are those that are there already, or that occur again."""
    columns = [nodes, *zip(*rows)]
    for column in columns:
        if all(u in place for u in column):
            return sorted(range(len(nodes)), key=lambda k: place[column[k]])
    column = min(zip(*rows), key=lambda c: len(dict.fromkeys(c)))
    rank = {u: k for k, u in enumerate(dict.fromkeys(column))}
    seen: dict[UOp, int] = {}
    keys = []
    for u in column:
        seen[u] = seen.get(u, -1) + 1
        keys.append((seen[u], rank[u]))
    return sorted(range(len(nodes)), key=keys.__getitem__)


def quads(nodes: Sequence[UOp]) -> tuple[Quad, ...]:
    """Four to a quad; the last number fills the rest."""
    full = [*nodes, *[nodes[-1]] * (-len(nodes) % QUAD)]
    return tuple(tuple(full[k : k + QUAD]) for k in range(0, len(full), QUAD))


def beginning(kind: str, u: UOp, x: Sequence[UOp]) -> list[UOp]:
    """The first coefficient of a sum like u's, from those of what goes into it, and the factor that solves for later ones."""
    if kind in ("product", "square"):
        return [x[0] * x[-1]]
    value = UOp(u.op, u.dtype, (), (x[0], u.src[1]) if kind == "power" else tuple(x))
    return [value, UOp.const(0.5, u.dtype) / value if kind == "root" else UOp.const(1.0, u.dtype) / x[-1]]


def tables(plan: SeriesPlan) -> list[float]:
    """For every order k 1/(k + 1), then 1 where it is even, then for each power the weights of its products, row by row."""
    out = [1 / (k + 1) for k in range(plan.order)] + [1.0 - k % 2 for k in range(plan.order)]
    for exponent in exponents(plan):
        for k in range(plan.order):
            for j in range(plan.order):
                x = (exponent + 1) * j / k - 1 if k else Fraction(0)
                out.append(x.numerator / x.denominator)
    return out


def exponents(plan: SeriesPlan) -> list[Fraction]:
    return list(dict.fromkeys(s.exponent for level in plan.sums for s in level if s.exponent is not None))
