"""How does a state move by what must first be solved for?  Unknowns are found round by round; then states are moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tinyphysics.flows.cotangents import Cotangents, Total
from tinyphysics.flows.map import Map
from tinyphysics.flows.solvers.products import solve_by_products
from tinyphysics.flows.solvers.solver import LinearSolver
from tinyphysics.flows.together import Together
from tinyphysics.ir import Ops, UOp, substitute, toposort
from tinyphysics.report import Row
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.linear import solved
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import vjp
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import SOLVES, SubFlow
from tinyphysics.tpir.program.lower import ProgramBuilder
from tinyphysics.util import plural

MOST_ELIMINATED = 24  # unknowns whose derivative is written out


@dataclass(frozen=True, eq=False)
class ImplicitFlow(SubFlow):
    """A vector of unknowns that makes residuals vanish; then states are moved by what it is.

    `start`, `scale` and `matrix` are functions of the states, residuals and moves of the unknown too. The matrix makes
    corrections of residuals; without one they are the correction. Of whole arrays, `matrix` is the correction itself, as
    `by`, a LinearSolver of flows/solvers/, has made it. `scale` is one over the size of each unknown.
    """

    unknown: UOp  # a variable whose name begins with ?
    start: UOp
    residual: UOp
    scale: UOp
    moves: SubFlow  # shears or a map, all evaluated before the first is applied
    matrix: UOp | None = None
    rounds: int = 50
    by: LinearSolver | None = None  # of whole arrays: what makes corrections
    # equations of the same solution that are shorter to differentiate, and their unknown as this one gives it
    plain: ImplicitFlow | None = None
    plain_unknown: UOp | None = None
    traits = frozenset({SOLVES})

    @property
    def equations(self) -> tuple[UOp, ...]:
        return (self.start, self.residual, self.scale, *(() if self.matrix is None else (self.matrix,)))

    @property
    def clock(self) -> float:
        return self.moves.clock

    def writes(self) -> tuple[UOp, ...]:
        return self.moves.writes()

    def reads(self) -> frozenset[UOp]:
        return frozenset(v for v in super().reads() if not str(v.arg).startswith("?"))

    def expressions(self) -> tuple[UOp, ...]:
        return (*self.equations, *self.moves.expressions())

    def works(self) -> tuple[UOp, ...]:
        return self.moves.works()

    def rebuilt(self, new: Mapping[UOp, UOp]) -> ImplicitFlow:
        return replace(
            self,
            start=new[self.start],
            residual=new[self.residual],
            scale=new[self.scale],
            moves=self.moves.rebuilt(new),
            matrix=None if self.matrix is None else new[self.matrix],
        )

    def followed(self, p_t: UOp, new: Mapping[UOp, UOp]) -> ImplicitFlow:
        return replace(self, moves=self.moves.followed(p_t, new))

    def weights(self) -> Iterator[float]:
        return self.moves.weights()

    def lower(self, b: ProgramBuilder, section: str) -> None:
        """An unknown between SOLVE and UNTIL; what does not hold it is computed before."""
        start, residual, scale, *matrix = (b.at(u, self.clock) for u in self.equations)
        b.solution(self.unknown, start, residual, scale, matrix, self.rounds, section)
        self.moves.lower(b, section)
        b.current.forget(self.unknown)

    def field(self) -> dict[UOp, UOp] | None:
        """With the unknowns where the search for them begins, which is as good as what it finds where dt is short."""
        found = self.moves.field()
        if found is None:
            return None
        return dict(zip(found, substitute(list(found.values()), {self.unknown: self.start})))

    def tangent(self, ways: Sequence[Mapping[UOp, UOp]]) -> tuple[SubFlow, ...] | None:
        """Residuals stay zero: that says how the unknowns move with the states, where they are found."""
        if self.unknown.size > MOST_ELIMINATED and self.by is None:
            return None
        along = [jvp([self.residual], list(way), list(way.values()))[0] for way in ways]
        found = self.moving(along)
        named = [UOp.var(f"?moving {k}", u.shape) if self.branches else u for k, u in enumerate(found)]
        moved: list[Mapping[UOp, UOp]] = [{**way, self.unknown: u} for way, u in zip(ways, named)]
        own = self.moves.tangent(moved)
        if own is None or len(own) < 2:
            return None if own is None else (self,)
        moves = own[0].joined(own[1])
        old = list(moves.expressions())
        known = substitute(old, dict(zip(named, found))) if self.branches else old
        return (replace(self, moves=moves.rebuilt(dict(zip(old, known)))),)

    def adjoint(self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[SubFlow, ...] | None:
        """By the implicit function theorem, where the unknowns are found: the transposed matrix of the residuals, once."""
        if self.plain is not None and self.plain_unknown is not None:
            shorter = self.plain.adjoint(bars, sums)
            if shorter is None:
                return None
            assert isinstance(shorter[0], ImplicitFlow)
            pulled = shorter[0].moves
            old = list(pulled.expressions())
            known = substitute(old, {self.plain.unknown: self.plain_unknown})
            return (replace(self, moves=pulled.rebuilt(dict(zip(old, known)))),)
        if self.unknown.size > MOST_ELIMINATED and self.by is None or self.clock:
            return None
        pull = UOp.var(
            "?pull", self.unknown.shape
        )  # of the unknowns: what the moves say of it is not a state
        moved = self.moves.adjoint({**bars, self.unknown: pull}, sums)
        if moved is None:
            return None
        slopes = {v: UOp.const(0.0, v.dtype, v.shape) for v in (*bars, self.unknown, *sums)}
        back = {bar: x for x, bar in (*bars.items(), (self.unknown, pull), *sums.items())}
        for bar, value in (pair for f in moved for pair in f.added()):
            slopes[back[bar]] = slopes[back[bar]] + value
        (found,) = substitute([slopes[self.unknown]], {pull: UOp.const(0.0, pull.dtype, pull.shape)})
        multipliers = self.multipliers(-found)
        inputs = [*bars, *sums]
        # branches within a solution would be multiplied with each other: it is a name while the rest is made short
        name = UOp.var("?multipliers", multipliers.shape) if self.branches else multipliers
        more = dict(zip(inputs, vjp([self.residual], [name], inputs)))

        def short(roots: list[UOp]) -> list[UOp]:
            return substitute(simplify(roots), {name: multipliers}) if self.branches else simplify(roots)

        totals = tuple(Total(sums[v], x) for v in sums for x in short([slopes[v] + more[v]]))
        new = zip(bars.values(), short([bar + slopes[x] + more[x] for x, bar in bars.items()]))
        moves = Together(((Cotangents((), totals),) if totals else ()) + (Map(tuple(new)),))
        return (replace(self, moves=moves),)

    def moving(self, along: Sequence[UOp]) -> list[UOp]:
        """How the unknowns move where residuals move so with the states."""
        if self.by is not None:
            return [
                solve_by_products(self.unknown, self.residual, -way, f"tangent {k}", False)
                for k, way in enumerate(along)
            ]
        n, columns = self.unknown.size, self.columns()
        matrix = [[columns[k][i] for k in range(n)] for i in range(n)]
        rows = [unroll([way])[0] for way in along]
        found = solved(matrix, [[-way[i] for way in rows] for i in range(n)])
        return [self.stacked([row[k] for row in found], self.unknown.shape) for k in range(len(along))]

    def stacked(self, solution: list[UOp], shape: tuple[int, ...]) -> UOp:
        return UOp.stack(solution if self.branches else simplify(solution), shape)

    @cached_property
    def branches(self) -> bool:
        """Do the equations choose between expressions?"""
        return any(u.op is Ops.WHERE for u in toposort([x for column in self.written for x in column]))

    @cached_property
    def written(self) -> list[list[UOp]]:
        return [unroll(jvp([self.residual], [self.unknown], [unit]))[0] for unit in self.units()]

    def columns(self) -> list[list[UOp]]:
        """How the residuals move with each unknown."""
        return [simplify(column) for column in self.written] if self.branches else self.written

    def units(self) -> list[UOp]:
        n = self.unknown.size
        return [UOp.stack([UOp.const(float(j == k)) for j in range(n)], self.unknown.shape) for k in range(n)]

    @property
    def without_adjoint(self) -> str:
        if self.clock:
            return "its equations depend on t"
        told = f"{plural(self.unknown.size, 'equation')} of it are written out number by number"
        return f"{told}, and {MOST_ELIMINATED} at most are solved backward"

    def multipliers(self, right: UOp) -> UOp:
        """What the transposed matrix of the residuals makes `right` of."""
        if self.by is not None:
            return solve_by_products(self.unknown, self.residual, right, "multipliers", True)
        found = solved(self.columns(), [[x] for x in unroll([right])[0]])
        return self.stacked([row[0] for row in found], self.residual.shape)

    def updates(self) -> int:
        return self.moves.updates()

    def count(self, alike: int) -> str:
        return plural(self.unknown.size, "unknown") + (f", {alike} times" if alike > 1 else "")

    def rows(self, alike: int, tried: bool = False) -> list[Row]:
        if tried:
            how = "by Newton's method, with the exact Jacobian at the start of each attempt"
            again = (
                f"an attempt that is not solved in {self.rounds} iterations is repeated with a shorter step"
            )
            return [Row("equations", self.count(alike), f"{how}; {again}")]
        how = (
            f"by Newton's method, {self.by.told}"
            if self.by is not None
            else "by Newton's method, with the Jacobian at one state per step"
            if self.matrix is not None
            else "by fixed-point iteration, which needs dt times the steepest slope to be below 1"
        )
        until = f"until corrections stop shrinking, {self.rounds} iterations at most"
        return [Row("equations", self.count(alike), f"{how}; {until}")]
