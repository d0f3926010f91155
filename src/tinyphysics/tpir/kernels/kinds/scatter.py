"""How are items added at places that they choose?  Buffers are cleared; then one item after the other, in loop order.

The order is part of the meaning, so one thread does it all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tinyphysics.ir.dtype import i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.ir.value import NAN
from tinyphysics.tpir.kernels.at_index import AtIndex, inside, is_component, planes
from tinyphysics.tpir.kernels.index import Index, Place, Unsupported, expr
from tinyphysics.tpir.kernels.layout import component_places, long_axes
from tinyphysics.tpir.kernels.loopir import Body, For, Function, Statement, Threads, When, load, number
from tinyphysics.tpir.kernels.loopir import Store as Put
from tinyphysics.tpir.kernels.nest_kind import Builder, PlainKind, Task, Wanted
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest, OnArrays, Piece, Store
from tinyphysics.tpir.kernels.ranges import notes
from tinyphysics.tpir.kernels.sums import joined
from tinyphysics.util import prod

ITEM = UOp.var("@k", (), i64)


class Scatter(PlainKind):
    name, rank, ops = "scatter", 20, frozenset({Ops.SCATTER})

    def task(self, w: Wanted) -> Task | None:
        if w.node.op is not Ops.SCATTER:
            return None
        return Task(w.node, w.home, self, long_axes(w.node.src[0].shape, w.components))

    def extent(self, nest: Nest) -> int:
        return 1

    def nest(self, b: Builder, tasks: list[Task]) -> Nest:
        """Short axes before the loops are taken one after the other, short axes within them at every index."""
        variables, sizes = self.variables(tasks[0]), tasks[0].sizes
        at: list[Place] = [Index(0, n - 1, v) for v, n in zip(variables, sizes)]
        own = {t.node: None for t in tasks if t.node not in b.homes}
        pull = AtIndex(b.homes, b.components, own, b.flat)
        passes: dict[int, list[Store]] = {}
        for t in tasks:
            for turn, store in self.scattered(b, t, pull, at):
                passes.setdefault(turn, []).append(store)
        end = sizes[-1] if sizes else 1
        return Nest(self, variables, sizes, tuple(Piece(0, end, tuple(passes[k])) for k in sorted(passes)))

    def scattered(self, b: Builder, t: Task, pull: AtIndex, at: list[Place]) -> Iterator[tuple[int, Store]]:
        u, c = t.node, b.components
        x, *indices = u.src
        items, axes = indices[0].shape, u.shape[: len(indices)]
        short = [is_component(n, c) for n in items]
        first = short.index(False) if False in short else len(items)
        last = len(items) - short[::-1].index(False) if False in short else len(items)
        if any(short[first:last]):
            raise Unsupported("a scatter along a short axis between long ones")
        planes_behind = planes(u.shape[len(axes) :], c)
        for count, (_, where) in enumerate(component_places(x.shape, c, at)):
            here, rest = where[: len(items)], where[len(items) :]
            index: list[UOp] = []
            shift, outside = UOp.const(0, i64), None
            for k, (i, n) in enumerate(zip(indices, axes)):
                place, bad = inside(pull.at(i, here), n)
                outside = bad if outside is None else outside | bad
                if is_component(n, c):
                    shift = shift + place * UOp.const(planes(axes[k + 1 :], c) * planes_behind, i64)
                else:
                    index.append(place)
            assert outside is not None
            own, plane = [(n, r) for n, r in zip(u.shape[len(axes) :], rest) if is_component(n, c)], 0
            for n, r in own:
                assert isinstance(r, int)
                plane = plane * n + r
            index += [expr(r) for n, r in zip(u.shape[len(axes) :], rest) if not is_component(n, c)]
            value = pull.either(outside, UOp.const(NAN, u.dtype), pull.at(x, where))
            turn = count // (prod(x.shape[k] for k in range(first, x.ndim) if is_component(x.shape[k], c)))
            yield turn, Store(t.home.buffer, plane, tuple(index), value, Ops.ADD, shift)

    def evaluate(self, run: OnArrays, env: dict[UOp, Any]) -> None:
        nest = run.nest
        for name in written(nest):
            run.memory[name][:] = 0
        for p in nest.pieces:
            here = env | run.grid(p)
            shape = list(nest.sizes) or [1]
            for name in dict.fromkeys(s.buffer for s in p.stores):
                own = [s for s in p.stores if s.buffer == name]
                run.add_in_order(own, here, shape)
            run.guards(p, here)

    def ranged(self, nest: Nest, kernel: LoopKernel) -> Function:
        clear = [
            For(ITEM, number(0), number(kernel.buffers[b].size), (zero(kernel, b),)) for b in written(nest)
        ]
        return Function((*clear, *self.added(nest, kernel)))

    def threaded(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        largest = max(kernel.buffers[b].size for b in written(nest))
        clear = tuple(When(ITEM < number(kernel.buffers[b].size), (zero(kernel, b),)) for b in written(nest))
        one = Function(self.added(nest, kernel), Threads((), ()))
        return [Function(clear, Threads((ITEM,), (largest,)), "_clear"), one]

    def added(self, nest: Nest, kernel: LoopKernel) -> Body:
        out: list[Statement] = []
        for p in nest.pieces:
            body: Body = (*(added(kernel, s) for s in p.stores), *notes(p, {}))
            for v, n in reversed(list(zip(nest.variables, nest.sizes))):
                body = (For(v, number(0), number(n), body),)
            out += body
        return tuple(out)


def written(nest: Nest) -> list[str]:
    return list(dict.fromkeys(s.buffer for p in nest.pieces for s in p.stores))


def zero(kernel: LoopKernel, buffer: str) -> Put:
    """The next number of a buffer, whatever it belongs to, cleared."""
    b = kernel.buffers[buffer]
    before = (number(0),) * max(len(b.axes) - 1, 0)
    return Put(buffer, 0, (*before, ITEM), UOp.const(0, b.dtype))


def added(kernel: LoopKernel, s: Store) -> Put:
    """An item where it belongs: so many planes further, which is a distance along the last axis."""
    assert s.shift is not None
    step = s.shift * number(kernel.buffers[s.buffer].plane)
    at = (*s.index[:-1], s.index[-1] + step) if s.index else (step,)
    return Put(s.buffer, s.plane, at, joined(s, load(s.buffer, s.value.dtype, *at, plane=s.plane), s.value))


SCATTER = Scatter()
