"""Which nests of a kernel are the same but for their buffers and numbers?  Their code is written and compiled once.

A solver is in a step once for each of its stages, and a level of a reduction once for each right-hand side. A nest like one
before it is a call of that one's function, with its own buffers in the places of the other's. The stages of a Chebyshev
method differ in their weights too: those are read from one more buffer, a constant of the module.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from tinyphysics.ir import Ops, UOp, f64, substitute, toposort
from tinyphysics.ir.dtype import i64
from tinyphysics.tpir.kernels.nests import Buffer, LoopKernel, Nest, Piece

MANY = 24  # nests of a kernel, from which on it is worth looking
LIKE = ("map", "lanes", "sequence")  # kinds that are functions of their buffers alone
NUMBERS = "@numbers"  # the buffer of what differs between nests that are otherwise the same
READ = {Ops.ADD, Ops.SUB, Ops.MUL, Ops.FMA, Ops.DIV}  # operations whose numbers may come from memory as well


@dataclass(frozen=True)
class Shared:
    """A nest as a function that others may have as well."""

    nest: Nest
    kernel: LoopKernel  # with the buffer of its numbers
    key: Hashable  # equal for nests that one function does
    buffers: tuple[str, ...]  # in the order of the key
    numbers: tuple[UOp, ...]


class SameNests:
    """The nests of a module in groups whose functions differ in buffers and numbers alone."""

    def __init__(self, kernel: LoopKernel, nests: Iterable[Nest]) -> None:
        self.kernel = kernel
        self.known: dict[
            Nest, tuple[Hashable, tuple[UOp, ...]]
        ] = {}  # with all numbers in a buffer, and these
        self.groups: dict[Hashable, set[tuple[UOp, ...]]] = {}
        for nest in nests if looks_for(kernel) else ():
            own = numbers_of(nest)
            form = form_of(*reading(nest, own, self.kernel))
            if form is not None:
                self.known[nest] = form[0], own
                self.groups.setdefault(form[0], set()).add(own)

    def shared(self, nest: Nest) -> Shared | None:
        """The nest with those numbers in a buffer that are others elsewhere; None if it is written by itself."""
        if nest not in self.known:
            return None
        key, own = self.known[nest]
        differing = [len(set(each)) > 1 for each in zip(*self.groups[key])]
        numbers = tuple(u for u, d in zip(own, differing) if d)
        nest, kernel = reading(nest, numbers, self.kernel)
        # the key with all numbers does: those that are left in the text are equal in the whole group
        return Shared(nest, kernel, key, tuple(order_of(nest)), numbers)


def numbers_of(nest: Nest) -> tuple[UOp, ...]:
    """The constants of a map that may be read from memory, in the order of its expressions."""
    if nest.kind != "map":
        return ()
    order = toposort([u for p in nest.pieces for u in (*p.roots, *p.plain)])
    bound = {s for u in order if u.op not in READ for s in u.src}
    bound |= {u for p in nest.pieces for u in (*p.roots, *p.plain)}
    return tuple(u for u in order if u.op is Ops.CONST and u.dtype is f64 and u not in bound)


def reading(nest: Nest, numbers: Sequence[UOp], kernel: LoopKernel) -> tuple[Nest, LoopKernel]:
    """The nest with these constants read from a buffer, which its kernel has then."""
    if not numbers:
        return nest, kernel
    table = {u: UOp(Ops.LOAD, u.dtype, (), (UOp.const(k, i64),), (NUMBERS, 0)) for k, u in enumerate(numbers)}

    def with_loads(p: Piece) -> Piece:
        count = len(p.stores)
        values = substitute([*(s.value for s in p.stores), *p.guards, *p.plain], table)
        stores = tuple(replace(s, value=v) for s, v in zip(p.stores, values))
        guards, plain = values[count : count + len(p.guards)], values[count + len(p.guards) :]
        return replace(p, stores=stores, guards=tuple(guards), plain=tuple(plain))

    more = Buffer(NUMBERS, 1, (len(numbers),), f64)
    pieces = tuple(with_loads(p) for p in nest.pieces)
    return replace(nest, pieces=pieces), replace(kernel, buffers={**kernel.buffers, NUMBERS: more})


def looks_for(kernel: LoopKernel) -> bool:
    return sum(len(s.nests) for s in kernel.sections.values()) >= MANY


def order_of(nest: Nest) -> dict[str, None]:
    """The buffers of a nest, those that it stores to first."""
    return dict.fromkeys([s.buffer for p in nest.pieces for s in p.stores] + [u.arg[0] for u in nest.loads()])


def form_of(nest: Nest, kernel: LoopKernel) -> tuple[Hashable, tuple[str, ...]] | None:
    """(what is equal in nests that are the same, its buffers in order); None where that is not known."""
    if nest.kind not in LIKE or nest.near is not None or nest.when is not None:
        return None
    loads = list(dict.fromkeys(nest.loads()))
    if any(inner.op is Ops.LOAD for u in loads for i in u.src for inner in nodes(i)):
        return None
    order = order_of(nest)
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


def call_of(
    name: str, other: str, own: Sequence[int | str], others: Sequence[int], arguments: str
) -> list[str]:
    """The function of a nest that is another's, with its own buffers, or constants, where that one has its."""
    count = max(others, default=0) + 1
    lines = [
        f'define internal void @"{name}"({arguments}) #0 {{',
        "entry:",
        f"  %table = alloca [{count} x ptr]",
    ]
    for k, (mine, at) in enumerate(zip(own, others)):
        buffer = f"%buffer{k}" if isinstance(mine, int) else f'@"{mine}"'
        if isinstance(mine, int):
            lines += [
                f"  %from{k} = getelementptr ptr, ptr %buffers, i64 {mine}",
                f"  {buffer} = load ptr, ptr %from{k}, align 8",
            ]
        lines += [
            f"  %to{k} = getelementptr ptr, ptr %table, i64 {at}",
            f"  store ptr {buffer}, ptr %to{k}, align 8",
        ]
    passed = arguments.replace("%buffers", "%table")
    return [*lines, f'  call void @"{other}"({passed})', "  ret void", "}"]
