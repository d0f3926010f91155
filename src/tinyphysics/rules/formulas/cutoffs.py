"""What happens to an energy at its cutoff?  It jumps, or only its force does, or two derivatives are continuous.

A sum over neighbours says which, as the third number of its axes: front/neighbours.py builds it so, and tests measure it.
Elsewhere it is as smooth as what was written; how many periods there are to the nearest image moves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tinyphysics.ir import Ops, UOp, substitute, toposort

CUT, SHIFTED, SWITCHED = 1, 2, 3


def kind_of(u: UOp) -> int | None:
    """How a sum over neighbours, or its triangle, ends at the cutoff; None if it is neither."""
    if u.op is Ops.TRIU:
        return u.arg[2] if len(u.arg) > 2 else None
    if u.op is Ops.REDUCE and u.arg[0] == "pairs":
        return u.arg[2][2] if len(u.arg[2]) > 2 else None
    return None


def cutoffs(roots: Sequence[UOp]) -> dict[UOp, int]:
    """The sums over neighbours in expressions, and how each of them ends."""
    return {u: kind for u in toposort(roots) if (kind := kind_of(u)) is not None}


def endings(roots: Sequence[UOp]) -> dict[UOp, int]:
    """How sums over pairs with a cutoff end; for few particles, which have no list, how they are written."""
    return {u: kind for u in toposort(roots) if (kind := ending(u)) is not None}


def ending(u: UOp) -> int | None:
    if (kind := kind_of(u)) is not None:
        return kind
    of_pairs = u.op is Ops.TRIU or u.op is Ops.REDUCE and u.arg[0] == "pairs"
    if not of_pairs or u.src[0].op is not Ops.WHERE:
        return None
    near, value = first(u.src[0].src[0]), u.src[0].src[1]
    if near.op is not Ops.LT or not is_room(of_all(near.src[1])):
        return None
    if value.op is Ops.MUL and is_switch(value.src[1]):
        return SWITCHED
    return SHIFTED if value.op is Ops.SUB else CUT


def first(near: UOp) -> UOp:
    """The comparison with the cutoff; excluded pairs are left out behind it."""
    while near.op is Ops.AND:
        near = near.src[0]
    return near


def square_of(limit: UOp) -> UOp:
    """The square of the cutoff that squared distances are compared with."""
    whole = of_all(limit)
    return (whole.src[1] if is_room(whole) else whole).expand(limit.shape)


def within_cutoffs(roots: Sequence[UOp]) -> list[UOp]:
    """The expressions without what a sum over neighbours does by itself: leave out, switch off, look for images."""
    new: dict[UOp, UOp] = {}
    for u, kind in endings(roots).items():
        mask = u.src[0]
        if mask.op is not Ops.WHERE:
            continue
        value = mask.src[1]
        if kind == SWITCHED and value.op is Ops.MUL and is_switch(value.src[1]):
            value = value.src[0] * value.src[1].src[2]
        new[mask] = value
    for u in toposort(roots):
        if u.op is Ops.IMAGE:
            new[u] = u.src[0] - u.src[1]
    return through(roots, new)


def switches(roots: Sequence[UOp]) -> list[tuple[UOp, UOp]]:
    """(where it begins, the squared cutoff) of the switch of each sum over neighbours that has one."""
    found: dict[tuple[UOp, UOp], None] = {}
    for u, kind in endings(roots).items():
        mask = u.src[0]
        if kind != SWITCHED or mask.op is not Ops.WHERE:
            continue
        near, value = first(mask.src[0]), mask.src[1]
        if near.op is Ops.LT and value.op is Ops.MUL and is_switch(value.src[1]):
            begins = value.src[1].src[0].src[1]
            found[of_all(begins.src[0]), of_all(square_of(near.src[1]))] = None
    return list(found)


def at_cutoffs(roots: Sequence[UOp]) -> Iterator[tuple[int, UOp, UOp]]:
    """(how it ends, the square of its cutoff, what its pairs would have there) of every sum over pairs with a cutoff.

    What a pair would have is without the shift or switch. Sums over few particles count too.
    """
    for u in toposort(roots):
        if u.op is not Ops.TRIU or u.src[0].op is not Ops.WHERE:
            continue
        near, value = first(u.src[0].src[0]), u.src[0].src[1]
        if near.op is not Ops.LT:
            continue
        distance, limit = near.src[0], of_all(near.src[1])
        if kind_of(u) is None:
            if not is_room(limit):  # a condition of the user's own
                continue
            limit = limit.src[1]
        there = {distance: limit.expand(distance.shape)}
        kind = CUT
        if value.op is Ops.SUB and substitute(value.src[:1], there)[0] is value.src[1]:
            kind, value = SHIFTED, value.src[0]
        elif value.op is Ops.MUL and is_switch(value.src[1]):
            kind, value = SWITCHED, value.src[0]
        yield kind, limit, substitute([value], there)[0]


def of_all(u: UOp) -> UOp:
    """The number that all pairs share."""
    while u.op in (Ops.EXPAND, Ops.RESHAPE):
        u = u.src[0]
    return u


def is_switch(u: UOp) -> bool:
    """The factor that a sum over neighbours was given: 1 near by, else a polynomial."""
    return u.op is Ops.WHERE and u.src[1].op is Ops.CONST and u.src[1].arg == 1.0 and u.src[0].op is Ops.LT


def through(roots: Sequence[UOp], new: dict[UOp, UOp]) -> list[UOp]:
    """Every node replaced, also within what replaces another."""
    out = list(roots)
    while new and any(u in new for u in toposort(out)):
        out = substitute(out, new)
    return out


def rooms(roots: Sequence[UOp]) -> list[tuple[UOp, UOp]]:
    """(cutoff, cell) of sums over few particles, which have no list that would look at them; no cell is a number."""
    out = []
    for u in filter(is_room, toposort(roots)):
        cutoff, box = u.src[0].src[0].src[1], u.src[0].src[1].src[0]
        out.append((cutoff, box.src[0] if box.op is Ops.REDUCE else box))
    return out


def is_room(u: UOp) -> bool:
    """Is it the square of a cutoff, with its cell, as front/neighbours.py writes it?"""
    if u.op is not Ops.WHERE or u.shape or u.src[2].op is not Ops.CONST or u.src[2].arg == u.src[2].arg:
        return False
    return u.src[0].op is Ops.AND and all(s.op is Ops.LT for s in u.src[0].src)
