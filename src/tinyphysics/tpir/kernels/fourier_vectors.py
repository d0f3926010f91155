"""How is a row transformed by vectors along itself?  For rows whose numbers are neighbours in memory.

The first stage has vectors of its parts, and its results are woven into each other where they are stored. All later ones
have vectors of numbers of one part. So nothing is gathered, and one row is in a cache at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir.fourier import Complex, Stage, results, stages
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels.fourier_rows import P, Q, Transform, at, behind, copy_of, named, stored_at
from tinyphysics.tpir.kernels.loopir import (
    Body,
    For,
    Let,
    Note,
    Statement,
    Woven,
    load,
    number,
    replaced,
    shifted,
)
from tinyphysics.tpir.kernels.loopir import Store as Put
from tinyphysics.tpir.kernels.nests import Nest, Piece
from tinyphysics.tpir.kernels.ranges import LANE, notes, turning_points, within

MOST_SEGMENTS = 6  # of the parts of a stage: each is written on its own
WOVEN = (4, 8)  # radices of a first stage: as many vectors are woven into each other


def lanes_along(nest: Nest, lanes: int) -> int:
    """How many numbers of a row a vector has; 0 if rows lie otherwise, or have another first stage."""
    assert nest.along is not None
    turn, n = nest.along
    row = stages(n)
    beside = all(turn in s.index[-1].leaves for p in nest.pieces for s in p.stores)
    if len(row) < 2 or not beside or row[0].radix not in WOVEN:
        return 0
    own = min(lanes, row[0].radix)
    while own > row[0].parts:
        own //= 2
    return own if own > 1 else 0


def along_row(turn: UOp, n: int, every: Sequence[Transform], p: Piece, lanes: int) -> Body:
    """All transforms of a row: what they read is read once, in the first stage of all."""
    out = first(turn, n, every, p, lanes)
    for g, t in enumerate(every):
        for k, s in enumerate(stages(n)[1:], 1):
            out = (*out, *later(turn, n, g, t, s, k, lanes))
    return out


def vectors(lanes: int, body: Body) -> Body:
    return (For(LANE, number(0), number(lanes), body, lanes, lanes=lanes),)


def found(t: Transform, turn: UOp, n: int, s: Stage, part: UOp, read: Sequence[Complex]) -> list[UOp]:
    """Real and imaginary parts in turn."""
    return [u for y in results(read, t.roots(turn, n, s, part), t.sign) for u in y]


def first(turn: UOp, n: int, every: Sequence[Transform], piece: Piece, lanes: int) -> Body:
    """Vectors of parts, range by range: in most of them it is known which side of a condition on the index holds."""
    s = stages(n)[0]
    body: list[Statement] = []
    for lo, hi in segments(turn, s, every, lanes):
        one: list[Statement] = []
        for g, t in enumerate(every):
            one += vector_of(turn, n, g, t, piece, lo, hi, noted=not g)
        body.append(For(P, number(lo), number(hi), vectors(lanes, tuple(one)), lanes))
    return tuple(body)


def segments(turn: UOp, s: Stage, every: Sequence[Transform], lanes: int) -> list[tuple[int, int]]:
    """Ranges of parts, in whole vectors: a condition changes in short ones only. The last does some parts again."""
    middle = s.parts // lanes * lanes
    ends = {0, middle}
    for i in turning_points(turn, [u for t in every for u in (t.re, t.im)]):
        for at_part in (i - s.parts * j for j in range(s.radix)):
            ends |= (
                {at_part // lanes * lanes, -(-at_part // lanes) * lanes} if 0 < at_part < middle else set()
            )
    if len(ends) > MOST_SEGMENTS:
        ends = {0, middle}
    row = sorted(ends)
    return [*zip(row, row[1:]), *([(s.parts - lanes, s.parts)] if middle < s.parts else [])]


def vector_of(turn: UOp, n: int, g: int, t: Transform, piece: Piece, lo: int, hi: int, noted: bool) -> Body:
    """The small transforms of a vector of parts, which is in a range."""
    s = stages(n)[0]
    own = P + LANE
    read: list[Complex] = []
    for j in range(s.radix):
        known = within(turn, lo + s.parts * j, hi - 1 + s.parts * j, [t.re, t.im])
        re, im = replaced(known, {turn: shifted(own, s.parts * j)})
        read.append((re, im))
    values = found(t, turn, n, s, own, read)
    names = named(values)
    places = [shifted(own, s.parts * j) for j in range(s.radix)]
    guards: list[Note] = [note for i in places if noted for note in notes(piece, {turn: i})]
    seen = tuple(UOp.var(f"@seen{k}", (), c.condition.dtype) for k, c in enumerate(guards))
    out: list[Statement] = [Let((*names, *seen), (*values, *(c.condition for c in guards)))]
    for part, name in enumerate(("re", "im")):
        at_first = own * number(s.radix)
        rows = [
            Put(f"{copy_of(g, 0)}_{name}", 0, (shifted(at_first, j),), y)
            for j, y in enumerate(names[part::2])
        ]
        out.append(Woven(tuple(rows)))
    return (*out, *(Note(c) for c in seen))


def later(turn: UOp, n: int, g: int, t: Transform, s: Stage, k: int, lanes: int) -> Body:
    own, part = Q + LANE, P if s.parts > 1 else number(0)
    source, target = copy_of(g, k - 1), copy_of(g, k)
    read = [
        (load(f"{source}_re", t.dtype, i), load(f"{source}_im", t.dtype, i))
        for i in (at(s, j, part, own) for j in range(s.radix))
    ]
    values = found(t, turn, n, s, part, read)
    places = [behind(s, j, part, own) for j in range(s.radix)]
    puts: list[Put] = []
    names: tuple[UOp, ...]
    if s.parts == 1:
        wanted = {store.value.arg[0] for store in t.stores}
        kept = [u for j, u in enumerate(values) if j % 2 in wanted]
        names = named(kept)
        by = iter(names)
        puts = stored_at(
            t, turn, places, [next(by) if j % 2 in wanted else u for j, u in enumerate(values)], {}
        )
    else:
        names, kept = named(values), values
        for j, y in enumerate(names):
            puts.append(Put(f"{target}_{('re', 'im')[j % 2]}", 0, (places[j // 2],), y))
    body: Body = (
        For(Q, number(0), number(s.stride), vectors(lanes, (Let(names, tuple(kept)), *puts)), lanes),
    )
    return (For(P, number(0), number(s.parts), body),) if s.parts > 1 else body
