"""How are points handed to a list of neighbours or to a tree?  They are stored, and a function of the host looks at them.

A list is asked only when points have gone too far, a tree at every evaluation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyphysics.ir.dtype import f64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels.at_index import AtIndex, Home
from tinyphysics.tpir.kernels.index import Index
from tinyphysics.tpir.kernels.kinds.map import MAP, at
from tinyphysics.tpir.kernels.loopir import Body, Call, For, Function, When, number
from tinyphysics.tpir.kernels.nest_kind import Builder, PlainKind, Task, Wanted
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest, OnArrays, Piece, Store
from tinyphysics.tpir.kernels.tree import (
    COTANGENTS,
    MASSES,
    POINTS,
    back_call_of,
    back_in,
    back_of,
    call_of,
    evaluation_in,
    goes_back,
    pull_of,
)

# nodes and points that each point of a tree meets, operations for each: guesses, for costs
MET, MEETING = 1000, 20


class HandOver(PlainKind):
    """The one of two that hands points over; `called` says where the address of what is called is."""

    calls = alone = closed = True
    rank = 20
    called: Callable[[Nest], str]

    def evaluate(self, run: OnArrays, env: dict[UOp, Any]) -> None:
        when = run.nest.when
        if when is None or run.evaluate([when], env)[0].any():
            MAP.evaluate(run, env)
            run.call(self.called(run.nest))

    def ranged(self, nest: Nest, kernel: LoopKernel) -> Function:
        (x,), (piece,) = nest.variables, nest.pieces
        stored = For(x, number(0), number(nest.sizes[0]), at(piece, {}), independent=True)
        body: Body = (stored, Call(self.called(nest)))
        return Function(body if nest.when is None else (When(nest.when, body),))

    def threaded(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        """The points alone: what follows is launched by the host."""
        return MAP.threaded(nest, kernel)


class NeighbourList(HandOver):
    name, ops = "list", frozenset({Ops.NEIGHBOURS})

    def called(self, nest: Nest) -> str:
        return f"near{nest.near}.call"

    def task(self, w: Wanted) -> Task | None:
        u = w.node
        if u.op is not Ops.NEIGHBOURS:
            return None
        return Task(u, Home(f"near{u.arg[1]}.{u.arg[0]}"), self, u.shape[:1], near=u.arg[1])

    def made(self, w: Wanted) -> bool:
        """Other arrays of one list are made with it."""
        u = w.node
        return any(v.op is u.op and v.src[0] is u.src[0] and v.arg[1] == u.arg[1] for v in w.placed)

    def nest(self, b: Builder, tasks: list[Task]) -> Nest:
        """The points as they are now, to be stored when the list is made again."""
        (t,) = tasks
        (q, way), (variable,) = t.node.src, self.variables(t)
        at = Index(0, t.sizes[0] - 1, variable, inner=True)
        pull = AtIndex(b.homes, b.components, {}, b.flat)
        stores = tuple(
            Store(f"near{t.near}.points", k, (variable,), pull.at(q, (at, k))) for k in range(q.shape[1])
        )
        limit = UOp(Ops.LOAD, f64, (), (), (f"near{t.near}.limit", 0))
        piece, when = Piece(0, t.sizes[0], stores), limit < pull.at(way, ())
        return Nest(self, (variable,), t.sizes, (piece,), near=t.near, when=when)

    def items(self, nest: Nest) -> int:
        return 0  # seldom

    def summary(self, nest: Nest) -> str:
        return f"list near{nest.near} of {nest.sizes[0]} points, made when {nest.when}"


class Tree(HandOver):
    name, ops = "tree", frozenset({Ops.TREE})

    def called(self, nest: Nest) -> str:
        return call_of(nest.evaluation)

    def task(self, w: Wanted) -> Task | None:
        if w.node.op is not Ops.TREE or goes_back(w.node):
            return None
        home = Home(pull_of(sum(v.op is Ops.TREE and not goes_back(v) for v in w.placed)))
        return Task(w.node, home, self, w.node.shape[:1])

    def nest(self, b: Builder, tasks: list[Task]) -> Nest:
        """Points and masses, to be stored before the tree is asked."""
        (t,) = tasks
        (q, m, *_), (variable,) = t.node.src, self.variables(t)
        at = Index(0, t.sizes[0] - 1, variable, inner=True)
        pull = AtIndex(b.homes, b.components, {}, b.flat)
        stores = [Store(POINTS, k, (variable,), pull.at(q, (at, k))) for k in range(3)]
        stores.append(Store(MASSES, 0, (variable,), pull.at(m, (at,))))
        for bars in t.node.src[3:]:
            stores += [Store(COTANGENTS, k, (variable,), pull.at(bars, (at, k))) for k in range(3)]
        piece = Piece(0, t.sizes[0], tuple(stores))
        return Nest(self, (variable,), t.sizes, (piece,), evaluation=self.number(t.home.buffer))

    def number(self, buffer: str) -> int:
        return evaluation_in(buffer)

    def items(self, nest: Nest) -> int:
        return nest.sizes[0] * MET

    def operations(self, nest: Nest) -> int:
        return MEETING

    def summary(self, nest: Nest) -> str:
        return f"tree of {nest.sizes[0]} points, evaluation {nest.evaluation}"


class TreeBack(Tree):
    """What the points, masses and the softening of a tree hand back, of the cotangents of its pull."""

    name = "tree back"

    def called(self, nest: Nest) -> str:
        return back_call_of(nest.evaluation)

    def task(self, w: Wanted) -> Task | None:
        if not goes_back(w.node):
            return None
        return Task(w.node, Home(back_of(sum(map(goes_back, w.placed)))), self, w.node.shape[:1])

    def number(self, buffer: str) -> int:
        return back_in(buffer)

    def summary(self, nest: Nest) -> str:
        return f"cotangents through a tree of {nest.sizes[0]} points, evaluation {nest.evaluation}"


LIST, TREE, TREE_BACK = NeighbourList(), Tree(), TreeBack()
