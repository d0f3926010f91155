"""What do the stages of a Fourier transform read and store?  Stores of a row that are parts of one transform, and one
small transform of a stage as statements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinyphysics.ir.dtype import DType, i64
from tinyphysics.ir.fourier import Complex, Stage, first_root, results
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels.loopir import Body, For, Let, Note, number, replaced, shifted
from tinyphysics.tpir.kernels.loopir import Store as Put
from tinyphysics.tpir.kernels.nests import Piece, Store
from tinyphysics.tpir.kernels.ranges import notes

P, Q = (UOp.var(f"@{n}", (), i64) for n in ("part", "stride"))


@dataclass(frozen=True, eq=False)
class Transform:
    """Stores of one row that are parts of one transform."""

    re: UOp
    im: UOp
    cos: UOp
    sin: UOp
    sign: int
    stores: tuple[Store, ...]

    @property
    def dtype(self) -> DType:
        return self.re.dtype

    def read(self, turn: UOp, i: UOp, here: dict[UOp, UOp]) -> Complex:
        """The item that is transformed."""
        re, im = replaced([self.re, self.im], {**here, turn: i})
        return re, im

    def roots(self, turn: UOp, n: int, s: Stage, p: UOp) -> list[Complex]:
        """What the results of a small transform are multiplied by, behind the first of them."""
        if s.parts == 1:
            return []
        places = [shifted(p, first_root(n, s) + s.parts * k) for k in range(s.radix - 1)]
        return [(cos, sin) for cos, sin in (replaced([self.cos, self.sin], {turn: i}) for i in places)]


def transforms(p: Piece) -> list[Transform]:
    """What is stored in a piece, transform by transform."""
    groups: dict[tuple[tuple[UOp, ...], int], list[Store]] = {}
    for s in p.stores:
        groups.setdefault((s.value.src, s.value.arg[1]), []).append(s)
    return [
        Transform(re, im, cos, sin, sign, tuple(own)) for ((re, im, cos, sin), sign), own in groups.items()
    ]


def copy_of(g: int, k: int) -> str:
    """Where the results of stage k of transform g wait."""
    return "odd" if k % 2 else f"even{g}"


def at(s: Stage, j: int, p: UOp, q: UOp) -> UOp:
    """Where the j-th item of a small transform is."""
    return shifted(p * number(s.stride) + q, s.stride * s.parts * j)


def behind(s: Stage, k: int, p: UOp, q: UOp) -> UOp:
    """Where its k-th result goes."""
    return shifted(p * number(s.stride * s.radix) + q, s.stride * k)


def over(s: Stage, body: Callable[[UOp, UOp], Body]) -> Body:
    """All small transforms of a stage."""
    p, q = P if s.parts > 1 else number(0), Q if s.stride > 1 else number(0)
    inner = body(p, q)
    if s.stride > 1:
        inner = (For(Q, number(0), number(s.stride), inner, independent=True),)
    if s.parts > 1:
        inner = (For(P, number(0), number(s.parts), inner, independent=True),)
    return inner


def named(values: Sequence[UOp]) -> tuple[UOp, ...]:
    return tuple(UOp.var(f"@y{k}", (), u.dtype) for k, u in enumerate(values))


def stored_at(
    t: Transform, turn: UOp, places: Sequence[UOp], values: Sequence[UOp], here: dict[UOp, UOp]
) -> list[Put]:
    """What is wanted of some results, real and imaginary parts in turn, at their places."""
    return [
        Put(s.buffer, s.plane, tuple(replaced(s.index, {**here, turn: i})), values[2 * k + s.value.arg[0]])
        for k, i in enumerate(places)
        for s in t.stores
    ]


def one(
    t: Transform,
    turn: UOp,
    n: int,
    s: Stage,
    p: UOp,
    q: UOp,
    read: Callable[[UOp], Complex],
    write: Callable[[UOp, int, UOp], Put],
    first: Piece | None,
    here: dict[UOp, UOp],
) -> Body:
    """One small transform of a stage; the last stage stores what is wanted of it."""
    last = s.parts == 1
    places = [at(s, j, p, q) for j in range(s.radix)]
    found = results([read(i) for i in places], t.roots(turn, n, s, p), t.sign)
    guards: list[Note] = []
    for i in places if first is not None else ():
        guards += notes(first, {**here, turn: i})  # type: ignore[arg-type]
    values = [y for pair in found for y in pair]
    if last:
        wanted = sorted({store.value.arg[0] for store in t.stores})
        values = [y if k % 2 in wanted else number(0) for k, y in enumerate(values)]
    names = named(values)
    if last:
        puts = stored_at(t, turn, [behind(s, k, p, q) for k in range(s.radix)], names, here)
    else:
        puts = [write(behind(s, k // 2, p, q), k % 2, y) for k, y in enumerate(names)]
    seen = tuple(UOp.var(f"@seen{k}", (), g.condition.dtype) for k, g in enumerate(guards))
    return (
        Let((*names, *seen), (*values, *(g.condition for g in guards))),
        *puts,
        *(Note(g) for g in seen),
    )
