"""How do the kinds of nest run in LLVM IR that are not in LoopIR?  Maps, and what hands points to a list or a tree."""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.emit.kinds.nest_near import fold, near
from tinyphysics.emit.kinds.nest_pairs import pairs
from tinyphysics.emit.loops.nest_writer import Names, NestWriter
from tinyphysics.emit.scalar.llvm import TYPE
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.tpir.kernels.nests import Piece
from tinyphysics.tpir.kernels.tree import call_of


def write(f: NestWriter) -> list[str]:
    """The lines of a nest's function."""
    f.line("%seen = alloca i8")
    f.line("store i8 0, ptr %seen")
    match f.nest.kind:
        case "map":
            mapped(f)
        case "list":
            listed(f)
        case "tree":
            pulled(f)
        case "fold":
            fold(f)
        case _ if f.nest.near is not None:
            near(f)
        case _:
            pairs(f)
    f.line("%was = load i8, ptr %seen")
    f.line("%any = icmp ne i8 %was, 0")
    f.line("br i1 %any, label %raise, label %leave")
    f.label("raise")
    f.line("store i8 1, ptr %flags")
    f.line("br label %leave")
    f.label("leave")
    return f.w.lines


def mapped(f: NestWriter) -> None:
    n = f.nest
    if not n.variables:
        f.begin()
        single(f, n.pieces[0])
        return
    x = n.variables[-1]

    def inside() -> None:
        f.rows.clear()
        f.prepare_rows(n.pieces, x)
        for p in n.pieces:
            one_piece(f, p, x)

    f.outer_loops(inside, len(n.variables) - 1)


DRAWN_TOGETHER = 4  # vectors: the ten rounds of a draw wait for each other, and those of another do not


def draws(roots: Sequence[UOp]) -> bool:
    """Are random numbers drawn here?"""
    return any(u.op is Ops.MULHI or u.op is Ops.RANDOM for u in toposort(roots))


def one_piece(f: NestWriter, p: Piece, x: UOp) -> None:
    """One range of the innermost loop: vectors, and what is left over."""
    roots = [s.value for s in p.stores] + list(p.guards)

    def at(i: str, width: int, shared: Names) -> None:
        env, index_env = f.body(roots, x, i, shared, width)
        for s in p.stores:
            f.vector_store(s, f.w.ref(s.value, env), index_env, x)
        f.note_guards(p.guards, env)
        f.w.width = 1

    def lanes_share(width: int) -> Names:
        shared: Names = {}
        f.splats(roots, x, shared, width)
        return shared

    widest = f.width * (DRAWN_TOGETHER if draws(roots) else 1)
    if not f.shared_out:
        for first, last, width in spans(p.lo, p.hi, widest):
            shared = lanes_share(width)
            f.span(first, last, width, lambda i, w=width, s=shared: at(i, w, s))  # type: ignore[misc]
        return
    middle, end = f.bounds(p)
    for width in dict.fromkeys((widest, f.width)):
        if p.hi - p.lo < width:
            continue
        begin = middle
        length = f.new(f"sub i64 {end}, {begin}")
        positive = f.new(f"icmp sgt i64 {length}, 0")
        whole = f.new(f"add i64 {begin}, {f.new(f'and i64 {length}, {-width}')}")
        middle = f.new(f"select i1 {positive}, i64 {whole}, i64 {begin}")
        shared = lanes_share(width)
        f.loop(begin, middle, width, lambda i, w=width, s=shared: at(i, w, s))  # type: ignore[misc]
    f.loop(middle, end, 1, lambda i: at(i, 1, {}))


def spans(lo: int, hi: int, width: int) -> list[tuple[int, int, int]]:
    """A range as (begin, end, width): vectors at multiples of their width, the widest in the middle.

    A vector that lies across two that were just stored waits until both have reached the cache.

    >>> spans(1, 63, 4)
    [(1, 2, 1), (2, 4, 2), (4, 60, 4), (60, 62, 2), (62, 63, 1)]
    """
    if width == 1:
        return [(lo, hi, 1)] if lo < hi else []
    first, last = -(-lo // width) * width, hi // width * width
    if first >= last:
        return spans(lo, hi, width // 2)
    return [*spans(lo, first, width // 2), (first, last, width), *spans(last, hi, width // 2)]


def single(f: NestWriter, p: Piece) -> None:
    """Numbers without a loop."""
    for s in p.stores:
        d = f.kernel.buffers[s.buffer].dtype
        at = f.address(s.buffer, s.plane, s.index, f.scalar)
        f.line(f"store {TYPE[d.name]} {f.w.ref(s.value, f.scalar)}, ptr {at}")
    f.note_guards(p.guards, f.scalar)


def listed(f: NestWriter) -> None:
    """If points have gone too far they are stored, and whoever makes lists is called."""
    n = f.nest
    assert n.when is not None
    f.begin()
    f.line(f"br i1 {f.w.ref(n.when, f.scalar)}, label %make, label %made")
    f.label("make")
    handed_over(f, f"near{n.near}.call")
    f.line("br label %made")
    f.label("made")


def pulled(f: NestWriter) -> None:
    f.begin()
    handed_over(f, call_of(f.nest.evaluation))


def handed_over(f: NestWriter, call: str) -> None:
    """Points are stored, and somebody is called who looks at them."""
    n = f.nest
    x, (piece,) = n.variables[0], n.pieces
    f.prepare_rows(n.pieces, x)

    def at(i: str) -> None:
        env, index_env = f.body([s.value for s in piece.stores], x, i, {}, 1)
        for s in piece.stores:
            f.vector_store(s, f.w.ref(s.value, env), index_env, x)

    f.loop("0", str(n.sizes[0]), 1, at)
    f.line(f"call void {f.array(call)}()")
