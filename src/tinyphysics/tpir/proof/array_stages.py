"""Which stages does a program solve for that are whole arrays?  Their coefficients, read off normal forms of arrays.

The unknown is one array whose rows are the states of the first stage, then of the next. A row of the residuals must be
Y - y less multiples of dt and of the slopes of the declared energy: a multiple is found where a term of a slope occurs, and
then all of the row is compared. Nothing is taken number by number, so the size of the arrays does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import Shape, UOp, component, substitute
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.identities.real import simplify
from tinyphysics.structure import acted, word_of
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.program.symbolic import structure_at
from tinyphysics.tpir.proof.solutions import one_over
from tinyphysics.tpir.proof.units import DT
from tinyphysics.tpir.proof.walk import NotShown

WHAT = "Y - y less multiples of dt and of the slopes of the declared energy"
MOVED = (Ops.RESHAPE, Ops.EXPAND, Ops.SLICE)


def rows_of(u: UOp, shape: Shape) -> list[UOp]:
    """The arrays that another is stacked of."""
    rows = u.src if u.op is Ops.CONCAT and u.arg == 0 else (u,)
    if any(r.shape != (1, *shape) for r in rows):
        raise NotShown("the equations of its stages are not arrays of the shape of the states")
    return [r.src[0] if r.op is Ops.RESHAPE and r.src[0].shape == shape else r.reshape(shape) for r in rows]


def is_array_over_size(scale: UOp) -> bool:
    """Is every number of an array one over the size of a state?"""
    left = [scale]
    while left:
        u = left.pop()
        if u.op is Ops.CONCAT or u.op in MOVED:
            left += u.src
        elif u.shape or not one_over(u):
            return False
    return True


def slopes_of_arrays(program: Program, states: Sequence[UOp], energy: UOp) -> list[UOp]:
    """J dH of an energy at these states, one array for each."""
    structure = structure_at(program, states)
    slopes = dict(zip(states, simplify(gradient(energy, list(states)))))
    out = []
    for k, state in enumerate(states):
        by, word = structure.partner(state), word_of(program.states[k].role)
        if by is None or word is None:
            raise NotShown(f"S{k} has no conjugate")
        out.append(simplify([acted(word, slopes[by])])[0])
    return out


@dataclass
class ArrayStages:
    """The unknowns as the states of stages, each under a name of its own."""

    normal: Normal
    states: Sequence[UOp]
    unknown: UOp
    root: UOp
    slopes: Sequence[UOp]

    def __post_init__(self) -> None:
        m, shape = len(self.states), self.states[0].shape
        if any(s.shape != shape for s in self.states) or self.unknown.shape[1:] != shape:
            raise NotShown("its unknowns are not arrays of the shape of the states")
        if self.unknown.shape[0] % m:
            raise NotShown(
                f"{self.unknown.shape[0]} arrays of unknowns for {m} states are not read as stages"
            )
        self.count = self.unknown.shape[0] // m
        names = [UOp.var(f"Y{i}", shape, self.unknown.dtype) for i in range(self.unknown.shape[0])]
        self.named = {component(self.unknown, 0, i): y for i, y in enumerate(names)}
        self.Y = [names[j * m : (j + 1) * m] for j in range(self.count)]

    def open(self, roots: Sequence[UOp]) -> list[UOp]:
        """Expressions of the unknown, or of the root, as those of the stages."""
        out = substitute(substitute(list(roots), {self.root: self.unknown}), self.named)
        if any(self.unknown in u.leaves for u in out):
            raise NotShown("its unknowns are not read one stage after the other")
        return out

    def at(self, now: UOp, times: Sequence[UOp]) -> list[list[UOp]]:
        """The slopes at each stage."""
        return [
            substitute(list(self.slopes), dict(zip(self.states, y)) | {now: t}) for y, t in zip(self.Y, times)
        ]

    def coefficients(self, residual: UOp, at: Sequence[Sequence[UOp]]) -> list[list[Fraction]]:
        m = len(self.states)
        rows = rows_of(residual, self.states[0].shape)
        opened = self.open(rows)
        if len(opened) != m * self.count:
            raise NotShown("there are not as many equations as unknowns")
        table: list[list[Fraction]] = []
        for i in range(self.count):
            moved = [(self.Y[i][k] - z) - opened[i * m + k] for k, z in enumerate(self.states)]
            row = [self.multiple(moved, at, j) for j in range(self.count)]
            for k in range(m):
                whole = UOp.sum_of(UOp.const(float(a)) * (DT * at[j][k]) for j, a in enumerate(row))
                if not self.normal.same(moved[k], whole):
                    raise NotShown(f"an equation of stage {i} is not that of a stage: {WHAT}")
            table.append(row)
        return table

    def multiple(self, moved: Sequence[UOp], at: Sequence[Sequence[UOp]], j: int) -> Fraction:
        """How often dt times the slopes of stage j are in what a stage moves by."""
        for k, move in enumerate(moved):
            mine = self.normal.form(DT * at[j][k])
            others = [self.normal.form(DT * f[k]) for i, f in enumerate(at) if i != j]
            own = next((t for t in mine if not any(t in other for other in others)), None)
            if own is not None:
                return self.normal.form(move).get(own, Fraction(0)) / mine[own]
        raise NotShown(
            "no slope of the declared energy tells its stages apart: there is nothing to solve for"
        )

    def begins(self, start: UOp) -> bool:
        """Does the unknown start at the state, as dt vanishes?"""
        (first,) = substitute([start], {DT: UOp.const(0.0)})
        rows = rows_of(first, self.states[0].shape)
        wanted = list(self.states) * self.count
        return len(rows) == len(wanted) and all(self.normal.same(r, z) for r, z in zip(rows, wanted))

    def weights(
        self, moves: Sequence[tuple[int, UOp, Fraction, str]], at: Sequence[Sequence[UOp]]
    ) -> list[list[Fraction]]:
        """b of each state, from (state, flow, weight, line)."""
        found: list[dict[int, Fraction]] = [{} for _ in self.states]
        for k, flow, weight, where in moves:
            (opened,) = self.open([flow])
            j = next(
                (j for j, f in enumerate(at) if j not in found[k] and self.normal.same(opened, f[k])), None
            )
            if j is None:
                raise NotShown(f"{where} is not the slope of the declared energy at a stage")
            found[k][j] = weight
        return [
            [b.get(j, Fraction(0)) for j in range(self.count)]
            for k, b in enumerate(found)
            if b or not all(self.normal.is_zero(f[k]) for f in at)
        ]
