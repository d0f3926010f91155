"""Which operations of one system are alike, so that a vector does them together?  Bodies side by side, not members.

A scalar graph that was written out of arrays does the same for each row of them. From what becomes of the rows at the end,
operations are followed down as long as all rows have the same one; pairs of bodies are put together where they divide; and
what combines packs lane by lane is a pack again. A pack holds operations of which none needs another, so that every lane
has the bits that it had alone. What does not fit stays a scalar: a missed pack costs speed, and no grouping can cost bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tinyphysics.ir.dtype import f64
from tinyphysics.ir.ops import MINIMAL, Ops
from tinyphysics.ir.uop import UOp, toposort

WIDE = 8  # lanes at most: two vectors of AVX2, one of AVX-512
LEAVES = (Ops.CONST, Ops.VAR)
SLOW = {
    Ops.DIV: 8,
    Ops.SQRT: 16,
}  # as long as that many other operations keep their port; about, on all cores
GAIN = 0.75  # of the time of scalars, at most, that packs are worth their moves for
Pack = tuple[UOp, ...]


@dataclass
class Packs:
    """`lane` says where a node is in which pack."""

    roots: Sequence[UOp]
    signed: bool = False  # sums and differences side by side, and operands of which some are negated
    lane: dict[UOp, tuple[Pack, int]] = field(default_factory=dict)
    refused: set[Pack] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.order = toposort(self.roots)
        bit = {u: 1 << k for k, u in enumerate(self.order)}
        self.bit, self.below = bit, dict[UOp, int]()  # all that a node needs, as a set
        for u in self.order:
            needs = 0
            for s in u.src:
                needs |= bit[s] | self.below[s]
            self.below[u] = needs

    def fits(self, p: Pack) -> bool:
        """Are they one operation, new, and independent of each other?"""
        u = p[0]
        if u.op in LEAVES or u.op not in MINIMAL or len(set(p)) < len(p) or any(x in self.lane for x in p):
            return False
        kinds = {
            (self.kind(x), x.dtype, x.arg if x.op is not Ops.CAST else None, tuple(s.dtype for s in x.src))
            for x in p
        }
        mask = sum(self.bit[x] for x in p)
        return len(kinds) == 1 and not any(self.below[x] & mask for x in p)

    def kind(self, u: UOp) -> Ops:
        return Ops.ADD if self.signed and u.op is Ops.SUB and u.dtype is f64 else u.op

    def down(self, seed: Pack) -> None:
        """The seed, and what its operands are made of."""
        waiting = [seed]
        while waiting:
            p = waiting.pop()
            if not self.fits(p) or p in self.refused:
                if self.signed and any(map(is_negation, p)):
                    waiting.append(unsigned(p))
                continue
            for k, u in enumerate(p):
                self.lane[u] = (p, k)
            waiting += [tuple(u.src[j] for u in p) for j in range(len(p[0].src))]

    def up(self) -> None:
        """What all lanes of packs are combined to in the same way, until there is no more."""
        again = True
        while again:
            again = False
            groups: dict[tuple[object, ...], dict[int, UOp]] = {}
            for u in self.order:
                if u in self.lane or u.op in LEAVES or u.op not in MINIMAL:
                    continue
                at = [self.lane.get(s) for s in u.src]
                lanes = {x[1] for x in at if x is not None}
                first = next((x[0] for x in at if x is not None), None)
                if first is None or len(lanes) != 1:
                    continue
                same = tuple(s if x is None else x[0] for s, x in zip(u.src, at))
                groups.setdefault((u.op, u.dtype, len(first), *same), {}).setdefault(lanes.pop(), u)
            for key, found in groups.items():
                count = key[2]
                p = tuple(found[k] for k in range(count) if k in found) if isinstance(count, int) else ()
                if len(p) == count and p not in self.refused and self.fits(p):
                    again = True
                    for k, u in enumerate(p):
                        self.lane[u] = (p, k)

    def found(self) -> list[Pack]:
        return list(dict.fromkeys(p for p, _ in self.lane.values()))

    def drop(self, p: Pack) -> None:
        self.refused.add(p)
        for u in p:
            self.lane.pop(u, None)

    def circle(self) -> Pack | None:
        """A pack that waits for itself, through another pack."""
        state: dict[object, int] = {}
        for root in self.order:
            stack: list[tuple[object, int]] = [(self.unit(root), 0)]
            while stack:
                unit, k = stack.pop()
                needs = self.needs(unit)
                if k == 0:
                    if state.get(unit) == 2:
                        continue
                    state[unit] = 1
                if k == len(needs):
                    state[unit] = 2
                    continue
                stack.append((unit, k + 1))
                other = needs[k]
                if state.get(other) == 1:
                    return next(u for u in (unit, other, *(x for x, _ in stack)) if isinstance(u, tuple))
                if other not in state:
                    stack.append((other, 0))
        return None

    def unit(self, u: UOp) -> object:
        return self.lane[u][0] if u in self.lane else u

    def gains(self) -> bool:
        """Is there much less to do in vectors?  What is put together from several of them counts as an operation each."""
        packs = self.found()
        alone = sum(SLOW.get(u.op, 1) for u in self.order if u.op not in LEAVES)
        saved = sum(SLOW.get(p[0].op, 1) * (len(p) - 1) for p in packs)
        moves = sum(len({self.unit(u.src[j]) for u in p}) - 1 for p in packs for j in range(len(p[0].src)))
        return alone - saved + moves < GAIN * alone

    def needs(self, unit: object) -> list[object]:
        nodes = unit if isinstance(unit, tuple) else (unit,)
        return list(dict.fromkeys(self.unit(s) for u in nodes for s in u.src))


def is_negation(u: UOp) -> bool:
    return u.op is Ops.NEG and u.dtype is f64


def unsigned(p: Pack) -> Pack:
    """Without the negations in front of some lanes."""
    return tuple(u.src[0] if is_negation(u) else u for u in p)


def chunks(nodes: Sequence[UOp]) -> list[Pack]:
    return [tuple(nodes[k : k + WIDE]) for k in range(0, len(nodes), WIDE)]


def packs_of(seeds: Sequence[Pack], roots: Sequence[UOp]) -> Packs:
    """The packs below some seeds, of divisions that are left, and of what is made of both."""
    packs = Packs(roots)
    for p in seeds:
        packs.down(p)
    left = [u for u in packs.order if u.op is Ops.DIV and u not in packs.lane]
    for p in chunks(left):
        if len(p) > 1:
            packs.down(p)
    packs.up()
    while (waits := packs.circle()) is not None:
        packs.drop(waits)
    return packs


def packs_of_pairs(seeds: Sequence[Pack], roots: Sequence[UOp], wide: int) -> Packs:
    """The packs of bodies that act on each other: where they are, what divides for a pair, sums over pairs."""
    packs = Packs(roots, signed=True)
    divisions = sum(packs.bit[u] for u in packs.order if u.op is Ops.DIV)
    here: list[Pack] = []
    later: list[Pack] = []
    for p in seeds:
        (later if any(packs.below[u] & divisions for u in p) else here).append(p)
    for p in here:
        packs.down(p)
    place = {u: k for k, u in enumerate(roots) if not packs.below[u] & divisions}
    alike: dict[object, list[UOp]] = {}
    form: dict[UOp, int] = {}
    forms: dict[object, int] = {}
    for u in packs.order:
        if u in place or u.op in LEAVES:
            form[u] = -1
        else:
            form[u] = forms.setdefault((u.op, u.dtype, *(form[s] for s in u.src)), len(forms))
        if u.op is Ops.DIV and u not in packs.lane:
            alike.setdefault(form[u], []).append(u)

    def pair(u: UOp) -> list[int]:
        return sorted(k for x, k in place.items() if packs.below[u] & packs.bit[x])

    for found in alike.values():
        nodes = sorted(found, key=pair)
        for k in range(0, len(nodes), wide):
            if len(nodes[k : k + wide]) > 1:
                packs.down(tuple(nodes[k : k + wide]))
    packs.up()
    for p in later:
        packs.down(p)
    packs.up()
    while (waits := packs.circle()) is not None:
        packs.drop(waits)
    return packs
