"""How is a sparse system of many rows solved in loops?  Rows that are not coupled to each other are eliminated at once.

Which rows, and what is left of the others, is decided by the pattern alone, when a step is made: at every level as many rows
as have few neighbours and are no neighbours of each other. Of a chain or a ring that is every second row, of a tree
its leaves and every second row of its branches: the levels are as many as the logarithm of the length, and the work of all of
them is that of the first, times a constant (George and Liu 1981, Computer Solution of Large Sparse Positive
Definite Systems). Nothing is exchanged: matrices are those of positive forms, or nearly so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from tinyphysics.flows.solvers.supports import Support
from tinyphysics.ir import Ops, UOp
from tinyphysics.ir.dtype import f64, i64

Edge = tuple[int, int]
Name = int | Edge
FEW = 2  # neighbours, up to which a row is eliminated as soon as any
SHARED = 4  # rows of a level that one other row may be coupled to
MOST = 48  # products for each row, in all levels together: a mesh has more


@dataclass(frozen=True)
class Level:
    """Rows that are eliminated together, and what the others are coupled to then."""

    gone: tuple[int, ...]
    rest: tuple[int, ...]
    edges: tuple[Edge, ...]  # (j, k), j not k, that are coupled before
    left: tuple[Edge, ...]  # and those of the rest after it

    @cached_property
    def place(self) -> frozenset[int]:
        return frozenset(self.gone)


@dataclass(frozen=True)
class Elimination:
    """Levels of a pattern, and colours of its columns: no row looks at two of one colour."""

    size: int
    levels: tuple[Level, ...]
    colours: tuple[int, ...]
    told: str = "with G M⁻¹ Gᵀ as a sparse matrix, by elimination of rows that are not coupled to each other"


def pattern(sets: Sequence[Support]) -> list[set[int]]:
    """The neighbours of each row: those it looks at, and those that look at it."""
    near: list[set[int]] = [set() for _ in sets]
    for j, others in enumerate(sets):
        for k in others:
            if j != k:
                near[j].add(k)
                near[k].add(j)
    return near


def planned(sets: Sequence[Support]) -> Elimination | None:
    """How a pattern is eliminated; None where that takes more than MOST products for a row."""
    near = pattern(sets)
    colours = coloured(near)
    now = {j: set(others) for j, others in enumerate(near)}
    levels: list[Level] = []
    products = 0
    while now:
        gone = apart(now)
        products += sum((len(now[i]) + 1) ** 2 for i in gone)
        if products > MOST * len(sets):
            return None
        after = {j: others - gone for j, others in now.items() if j not in gone}
        for i in gone:
            for j in now[i]:
                after[j] |= now[i] - {j}
        levels.append(Level(tuple(sorted(gone)), tuple(after), edges(now), edges(after)))
        now = after
    return Elimination(len(sets), tuple(levels), tuple(colours))


def edges(near: dict[int, set[int]]) -> tuple[Edge, ...]:
    return tuple((j, k) for j, others in near.items() for k in sorted(others))


def apart(near: dict[int, set[int]]) -> set[int]:
    """Rows with few neighbours, none of which is another's: those with the fewest first."""
    least = max(FEW, min(len(others) for others in near.values()))
    gone: set[int] = set()
    shared = dict.fromkeys(near, 0)
    for i in sorted(near, key=lambda j: (len(near[j]), j)):
        if len(near[i]) > least:
            break
        if not near[i] & gone and all(shared[j] < SHARED for j in near[i]):
            gone.add(i)
            for j in near[i]:
                shared[j] += 1
    return gone


def coloured(near: Sequence[set[int]]) -> list[int]:
    """A colour for each column; two that one row looks at have different ones."""
    out: list[int] = []
    for j, others in enumerate(near):
        seen = {j, *others, *chain.from_iterable(near[k] for k in others)}
        taken = {out[k] for k in seen if k < j}
        out.append(next(c for c in range(len(taken) + 1) if c not in taken))
    return out


# --- as expressions ----------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Row:
    """Numbers by their names: those of an array, at places that are known."""

    source: UOp
    places: dict[Name, int]

    def take(self, names: Sequence[Name]) -> UOp:
        """The numbers of these names; 0 where there is none of a name."""
        places = [self.places.get(name, -1) for name in names]
        if places == list(range(self.source.shape[0])):
            return self.source
        at = UOp(Ops.STACK, i64, (len(places),), tuple(UOp.const(max(k, 0), i64) for k in places))
        found = self.source.gather([at])
        if -1 not in places:
            return found
        here = UOp(Ops.STACK, i64, at.shape, tuple(UOp.const(int(k >= 0), i64) for k in places))
        return here.ne(0).where(found, UOp.const(0.0, f64, at.shape))


def named(source: UOp, names: Sequence[Name]) -> Row:
    return Row(source, {name: k for k, name in enumerate(names)})


def numbered(source: UOp) -> Row:
    return named(source, range(source.shape[0]))


def less_sums(u: UOp, what: UOp, groups: Sequence[Sequence[int]]) -> UOp:
    """u less the sums of groups of other numbers."""
    row = numbered(what)
    for m in range(max((len(g) for g in groups), default=0)):
        u = u - row.take([g[m] if m < len(g) else -1 for g in groups])
    return u


def column(plan: Elimination, colour: int) -> UOp:
    """1 at the places of a colour, 0 elsewhere."""
    return UOp(Ops.STACK, f64, (plan.size,), tuple(UOp.const(float(c == colour)) for c in plan.colours))


def joined(parts: Sequence[UOp]) -> UOp:
    if len(parts) == 1:
        return parts[0]
    return UOp(Ops.CONCAT, parts[0].dtype, (sum(u.shape[0] for u in parts),), tuple(parts), 0)


def entries(plan: Elimination, apply: Callable[[UOp], UOp]) -> Row:
    """The entries (j, k) of an operator with that pattern."""
    n, colours = plan.size, plan.colours
    columns = joined([apply(column(plan, c)) for c in range(max(colours) + 1)])
    first = [*((j, j) for j in range(n)), *plan.levels[0].edges]
    return Row(columns, {(j, k): colours[k] * n + j for j, k in first})


def eliminated(plan: Elimination, apply: Callable[[UOp], UOp], right: UOp) -> UOp:
    """The x with A x = right."""
    A, b = entries(plan, apply), numbered(right)
    done: list[tuple[Level, UOp, UOp, Row]] = []
    for level in plan.levels:
        over, own = 1.0 / A.take([(i, i) for i in level.gone]), b.take(level.gone)
        done.append((level, over, own, A))
        if not level.rest:
            break
        # (j, i): a row of the rest looks at one that goes
        down = [(j, i) for j, i in level.edges if i in level.place]
        if down:
            factor = A.take(down) * named(over, level.gone).take([i for _, i in down])
            moved = factor * named(own, level.gone).take([i for _, i in down])
            into: dict[Name, list[int]] = {}
            for m, (j, _) in enumerate(down):
                into.setdefault(j, []).append(m)
            b = named(less_sums(b.take(level.rest), moved, [into.get(j, []) for j in level.rest]), level.rest)
            # every (j, i), (i, k) of one row that goes makes a product
            of: dict[int, list[int]] = {}
            for m, (_, i) in enumerate(down):
                of.setdefault(i, []).append(m)
            pairs = [(m, (i, down[y][0])) for i, group in of.items() for m in group for y in group]
            ends: dict[Edge, list[int]] = {}
            for m, (x, (_, k)) in enumerate(pairs):
                ends.setdefault((down[x][0], k), []).append(m)
            product = numbered(factor).take([m for m, _ in pairs]) * A.take([e for _, e in pairs])
            left = [*((j, j) for j in level.rest), *level.left]
            A = named(less_sums(A.take(left), product, [ends.get(e, []) for e in left]), left)
    found: Row | None = None
    for level, over, own, A in reversed(done):
        up = [(i, j) for i, j in level.edges if i in level.place]
        if found is not None and up:
            pulled = A.take(up) * found.take([j for _, j in up])
            groups: dict[int, list[int]] = {}
            for m, (i, _) in enumerate(up):
                groups.setdefault(i, []).append(m)
            own = less_sums(own, pulled, [groups.get(i, []) for i in level.gone])
        mine = over * own
        names = [*level.gone, *(() if found is None else found.places)]
        found = named(mine if found is None else joined([mine, found.source]), names)
    assert found is not None
    return found.take(range(plan.size))
