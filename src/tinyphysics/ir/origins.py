"""Where does a node come from, while a pass is run again?  Items of the level above, kept beside the graph.

A pass says on which node it works (`Sites.current`), and what it makes meanwhile has the origins of that node. A pass that
does not say so makes nodes that have the origins of what they are made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import RECORD, Sites, UOp, toposort

Items = frozenset[int]
NONE: Items = frozenset()
LEAVES = (Ops.CONST, Ops.VAR)


def is_leaf(u: UOp) -> bool:
    """Numbers, variables and their components belong to every expression that has them."""
    return u.op in LEAVES or u.op is Ops.ELEMENT and u.src[0].op is Ops.VAR


class Origins(Sites):
    """Of each node the items it comes from: more than one where several made the same node."""

    table: dict[UOp, Items]  # type: ignore[assignment]
    current: Items | None  # type: ignore[assignment]

    def __init__(
        self, known: Mapping[UOp, Items] | None = None, items: Mapping[Any, Items] | None = None
    ) -> None:
        super().__init__()
        self.table, self.tracing, self.current = dict(known or {}), False, None
        self.items = dict(items or {})  # by what a pass begins with, such as an instruction

    def note(self, u: UOp) -> None:
        if is_leaf(u):
            return
        found = self.current or self.of_sources(u)
        if found:
            self.table[u] = self.table.get(u, NONE) | found

    def begin(self, item: object) -> None:
        self.current = None if item is None else self.items.get(id(item)) or self.items.get(item)

    def of_sources(self, u: UOp) -> Items:
        return NONE.union(*(self.table.get(s, NONE) for s in u.src))

    def everywhere(self, roots: Sequence[UOp]) -> dict[UOp, Items]:
        """The origins of all nodes below some roots: what was not noted has those of the nodes that use it."""
        order = toposort(roots)
        out = {u: found for u in order if (found := self.table.get(u))}
        wanted: dict[UOp, set[int]] = {}
        for u in reversed(order):
            own = out.get(u) or frozenset(wanted.get(u, ()))
            if not own:
                continue
            out[u] = own
            for s in u.src:
                if s not in self.table:
                    wanted.setdefault(s, set()).update(own)
        return out


class OriginNotes(Mapping[UOp, Any]):
    """Origins as what is written beside an instruction: `@3,7`."""

    def __init__(self, origins: Origins) -> None:
        self.origins = origins

    def __getitem__(self, u: UOp) -> str:
        return "@" + ",".join(map(str, sorted(self.origins.table[u])))

    def __contains__(self, u: object) -> bool:
        return u in self.origins.table

    def __iter__(self) -> Iterator[UOp]:
        return iter(self.origins.table)

    def __len__(self) -> int:
        return len(self.origins.table)


@contextmanager
def originating(origins: Origins) -> Iterator[Origins]:
    """What passes make inside has its origins noted."""
    token = RECORD.set(origins)
    try:
        yield origins
    finally:
        RECORD.reset(token)
