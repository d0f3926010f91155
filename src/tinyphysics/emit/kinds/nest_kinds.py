"""How does each kind of nest run in LLVM IR?  Maps, sums in strided accumulators, sums one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.emit.kinds.nest_near import fold, near
from tinyphysics.emit.kinds.nest_pairs import pairs
from tinyphysics.emit.loops.nest_writer import BYTES, Names, NestWriter, value_nodes
from tinyphysics.emit.scalar.llvm import TYPE
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.reduction import LANES
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.tpir.kernels.nests import Piece, Store
from tinyphysics.tpir.kernels.tree import call_of


def write(f: NestWriter) -> list[str]:
    """The lines of a nest's function."""
    f.line("%seen = alloca i8")
    f.line("store i8 0, ptr %seen")
    match f.nest.kind:
        case "map":
            mapped(f)
        case "lanes":
            lanes(f)
        case "sequence":
            sequence(f)
        case "scatter":
            scatter(f)
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


def lanes(f: NestWriter) -> None:
    n = f.nest
    x = n.variables[-1]
    stores = n.pieces[0].stores
    for k, s in enumerate(stores):
        f.line(f"%acc{k} = alloca [{LANES} x {TYPE[s.value.dtype.name]}], align 64")

    def inside() -> None:
        f.rows.clear()
        for p in n.pieces:
            for u in value_nodes([s.value for s in p.stores] + list(p.guards)):
                if u.op is Ops.LOAD and f.contiguous(u.src, x):
                    f.row(u.arg[0], u.arg[1], u.src)
        f.w.width = 1
        for k, s in enumerate(stores):
            t = TYPE[s.value.dtype.name]
            for lane in range(LANES):
                at = f.new(f"getelementptr {t}, ptr %acc{k}, i64 {lane}")
                f.line(f"store {t} {f.identity(s)}, ptr {at}")
        for p in n.pieces:
            accumulate(f, p, x)
        f.w.width = 1
        for k, s in enumerate(stores):
            at = f.address(s.buffer, s.plane, s.index, f.scalar)
            f.line(f"store {TYPE[s.value.dtype.name]} {f.fold(s, f'%acc{k}', LANES)}, ptr {at}")

    # with one variable the whole sum is one piece of work: it is not shared out
    f.outer_loops(inside, len(n.variables) - 1)


def accumulate(f: NestWriter, p: Piece, x: UOp) -> None:
    roots = [s.value for s in p.stores] + list(p.guards)
    shared: Names = {}
    f.splats(roots, x, shared, f.width)

    def step(i: str, width: int) -> None:
        env, _ = f.body(roots, x, i, shared, width)
        lane = f.new(f"and i64 {i}, {LANES - 1}")
        for k, s in enumerate(p.stores):
            t = f.w.type(s.value.dtype)
            at = f.new(f"getelementptr {TYPE[s.value.dtype.name]}, ptr %acc{k}, i64 {lane}")
            old = f.new(f"load {t}, ptr {at}, align {BYTES[s.value.dtype.name]}")
            value = f.joined(s, old, env)
            f.line(f"store {t} {value}, ptr {at}, align {BYTES[s.value.dtype.name]}")
        f.note_guards(p.guards, env)
        f.w.width = 1

    first = min(-(-p.lo // f.width) * f.width, p.hi)
    last = max(first, p.hi // f.width * f.width)
    f.loop(str(p.lo), str(first), 1, lambda i: step(i, 1))
    f.loop(str(first), str(last), f.width, lambda i: step(i, f.width))
    f.loop(str(last), str(p.hi), 1, lambda i: step(i, 1))


def sequence(f: NestWriter) -> None:
    n = f.nest
    assert n.along is not None
    x, (t_var, count) = n.variables[-1], n.along

    def inside() -> None:
        f.rows.clear()
        for p in n.pieces:
            begin, end = f.bounds(p)
            f.loop(begin, end, 1, lambda i, p=p: one(i, p))  # type: ignore[misc]

    def one(i: str, p: Piece) -> None:
        """One index, in turn: the lanes of a wider form would be neighbours of x."""
        env = dict(f.scalar)
        env[x] = i
        for k, s in enumerate(p.stores):
            f.line(f"store {TYPE[s.value.dtype.name]} {f.identity(s)}, ptr %acc{k}")

        def item(t: str) -> None:
            own = dict(env)
            own[t_var] = t
            for u in toposort([s.value for s in p.stores] + list(p.guards)):
                if u not in own and u.op is not Ops.CONST:
                    f.one(u, own)
            for k, s in enumerate(p.stores):
                kind = TYPE[s.value.dtype.name]
                old = f.new(f"load {kind}, ptr %acc{k}")
                f.line(f"store {kind} {f.joined(s, old, own)}, ptr %acc{k}")
            f.note_guards(p.guards, own)

        f.loop("0", str(count), 1, item)
        for k, s in enumerate(p.stores):
            kind = TYPE[s.value.dtype.name]
            for j in s.index:
                f.index_value(j, env)
            at = f.address(s.buffer, s.plane, s.index, env)
            f.line(f"store {kind} {f.new(f'load {kind}, ptr %acc{k}')}, ptr {at}")

    for k, s in enumerate(n.pieces[0].stores):
        f.line(f"%acc{k} = alloca {TYPE[s.value.dtype.name]}, align 64")
    f.outer_loops(inside, len(n.variables) - 1)


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


def scatter(f: NestWriter) -> None:
    """Buffers are cleared; then items are added one after the other, in an order that is part of the meaning."""
    n = f.nest
    f.begin()
    for name in dict.fromkeys(s.buffer for p in n.pieces for s in p.stores):
        b = f.kernel.buffers[name]
        t = TYPE[b.dtype.name]

        def clear(i: str, name: str = name, t: str = t) -> None:
            f.line(
                f"store {t} zeroinitializer, ptr {f.new(f'getelementptr {t}, ptr {f.pointer[name]}, i64 {i}')}"
            )

        f.loop("0", str(b.size), 1, clear)
    outside = dict(f.scalar)

    def at(p: Piece, k: int) -> None:
        if k == len(n.variables):
            for s in p.stores:
                add(f, s)
            f.note_guards(p.guards, f.scalar)
            return

        def body(i: str) -> None:
            f.scalar[n.variables[k]] = i
            f.scalars(toposort(p.roots), k + 1)
            at(p, k + 1)

        f.loop("0", str(n.sizes[k]), 1, body)

    for p in n.pieces:
        f.scalar = dict(outside)
        at(p, 0)


def add(f: NestWriter, s: Store) -> None:
    assert s.shift is not None
    t = TYPE[s.value.dtype.name]
    plane = f.new(f"add i64 {f.w.ref(s.shift, f.scalar)}, {s.plane}")
    at = f.address(s.buffer, plane, s.index, f.scalar)
    total = f.combined(s, f.new(f"load {t}, ptr {at}"), f.w.ref(s.value, f.scalar))
    f.line(f"store {t} {total}, ptr {at}")
