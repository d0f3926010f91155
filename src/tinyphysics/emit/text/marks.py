"""Which node is a line of emitted text?  Comments behind lines while a listing is made, taken off again afterwards.

>>> written = []
>>> with marking(written):
...     lines = ["  %v1 = fmul double %a, %b"]
...     mark(lines, 0, UOp.var("x"))
>>> marked(lines[0]), written
(('  %v1 = fmul double %a, %b', 0), [x])
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from tinyphysics.ir.uop import UOp

WRITTEN: ContextVar[list[UOp] | None] = ContextVar("WRITTEN", default=None)
LLVM, C = "  ;@", "  //@"
MARK = re.compile(r"  (?:;|//)@(\d+)$")


def mark(lines: list[str], begin: int, u: UOp, comment: str = LLVM) -> None:
    """The lines from `begin` on are those of a node, if that is asked."""
    written = WRITTEN.get()
    if written is None:
        return
    for k in range(begin, len(lines)):
        if lines[k] and "\n" not in lines[k] and not MARK.search(lines[k]):
            lines[k] += f"{comment}{len(written)}"
    written.append(u)


@contextmanager
def marking(written: list[UOp] | None) -> Iterator[None]:
    """What is written inside is marked with places in the list; with None it is not, as text that is kept must be."""
    token = WRITTEN.set(written)
    try:
        yield
    finally:
        WRITTEN.reset(token)


def marked(line: str) -> tuple[str, int | None]:
    """(the line as it is without marks, the place that it was marked with)."""
    found = MARK.search(line)
    return (line[: found.start()], int(found[1])) if found else (line, None)


# --- what lines without a mark are for -------------------------------------------------------------
Nodes = frozenset[int]
NONE: Nodes = frozenset()
NAME = {LLVM: re.compile(r"%[vs][\w.]*\d[\w.]*"), C: re.compile(r"\b[vpsonwg]\d+\b")}


def spread(lines: Sequence[str], known: Sequence[Nodes], comment: str) -> list[Nodes]:
    """Lines of one function: what computes an address or passes a value on is for the lines that use it."""
    name, out = NAME[comment], list(known)
    names = [name.findall(line) for line in lines]
    made: dict[str, int] = {}
    for k, (line, found) in enumerate(zip(lines, names)):
        left = line.partition(" = ")[0] if " = " in line else ""
        if found and found[0] in left:
            made.setdefault(found[0], k)
    users: list[list[int]] = [[] for _ in lines]
    sources: list[list[int]] = [[] for _ in lines]
    for k, found in enumerate(names):
        for j in {made[x] for x in found if x in made} - {k}:
            users[j].append(k)
            sources[k].append(j)
    for order, beside in ((range(len(lines) - 1, -1, -1), users), (range(len(lines)), sources)) * 2:
        for k in order:
            if not out[k]:
                out[k] = NONE.union(*(out[j] for j in beside[k]))
    return out
