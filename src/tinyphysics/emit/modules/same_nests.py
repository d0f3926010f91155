"""Which nests of a kernel are the same but for their buffers?  The code of such nests is written and compiled once.

A solver is in a step once for each of its stages, and a level of a reduction once for each right-hand side. A nest like one
before it is a call of that one's function, with its own buffers in the places of the other's.
"""

from __future__ import annotations

from collections.abc import Hashable

from tinyphysics.ir import Ops, UOp, substitute
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest, Piece

MANY = 24  # nests of a kernel, from which on it is worth looking
LIKE = ("map", "lanes", "sequence")  # kinds that are functions of their buffers alone


def looks_for(kernel: LoopKernel) -> bool:
    return sum(len(s.nests) for s in kernel.sections.values()) >= MANY


def form_of(nest: Nest, kernel: LoopKernel) -> tuple[Hashable, tuple[str, ...]] | None:
    """(what is equal in nests that are the same, its buffers in order); None where that is not known."""
    if nest.kind not in LIKE or nest.near is not None or nest.when is not None:
        return None
    loads = list(dict.fromkeys(nest.loads()))
    if any(inner.op is Ops.LOAD for u in loads for i in u.src for inner in nodes(i)):
        return None
    order = dict.fromkeys([s.buffer for p in nest.pieces for s in p.stores] + [u.arg[0] for u in loads])
    place = {name: k for k, name in enumerate(order)}
    renamed = {u: UOp(u.op, u.dtype, u.shape, u.src, (place[u.arg[0]], u.arg[1])) for u in loads}
    pieces = tuple(piece_form(p, place, renamed) for p in nest.pieces)
    buffers = tuple((b.planes, b.axes, b.dtype) for b in (kernel.buffers[name] for name in order))
    own = nest.kind, nest.variables, nest.sizes, nest.along, nest.strided
    return (own, buffers, pieces), tuple(order)


def piece_form(p: Piece, place: dict[str, int], renamed: dict[UOp, UOp]) -> Hashable:
    roots = [*p.roots, *p.plain]
    stores = tuple(
        (place[s.buffer], s.plane, s.combine, s.shift is None, s.joins, len(s.index)) for s in p.stores
    )
    return p.lo, p.hi, stores, len(p.guards), tuple(substitute(roots, renamed))


def nodes(u: UOp) -> list[UOp]:
    found, left = [], [u]
    while left:
        x = left.pop()
        found.append(x)
        left += x.src
    return found


def call_of(name: str, other: str, own: list[int], others: list[int], arguments: str) -> list[str]:
    """The function of a nest that is another's, with its own buffers where that one has its."""
    count = max(others, default=0) + 1
    lines = [
        f'define internal void @"{name}"({arguments}) #0 {{',
        "entry:",
        f"  %table = alloca [{count} x ptr]",
    ]
    for k, (mine, at) in enumerate(zip(own, others)):
        lines += [
            f"  %from{k} = getelementptr ptr, ptr %buffers, i64 {mine}",
            f"  %buffer{k} = load ptr, ptr %from{k}, align 8",
            f"  %to{k} = getelementptr ptr, ptr %table, i64 {at}",
            f"  store ptr %buffer{k}, ptr %to{k}, align 8",
        ]
    passed = arguments.replace("%buffers", "%table")
    return [*lines, f'  call void @"{other}"({passed})', "  ret void", "}"]
