"""How are the stages of a step solved for where there are too many to write out?  As whole arrays, with a linear solver.

The equations are those of synth/methods/implicit.py. The unknown is one array: the states of the first stage, then those of
the next. A stage is corrected by d_i - h sum_j l_ij f' d_j = r_i, one after the other, where l is the lower factor of the
coefficients a = l u with ones on the diagonal of u (van der Houwen & de Swart 1997, SIAM J. Sci. Comput. 18, 41). For one
stage that is Newton's method. For two and three stages it leaves 0.15 and 0.31 of the error at most, whatever the frequency
of an oscillation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinyphysics.flows.implicit import ImplicitFlow
from tinyphysics.flows.shears import Shear, ShearFlow, along
from tinyphysics.flows.solvers import lines
from tinyphysics.flows.solvers.banded import BandedMomenta, BlockElimination, band_of, band_of_momenta
from tinyphysics.flows.solvers.cyclic import CyclicReduction, couples_neighbours
from tinyphysics.flows.solvers.krylov import ConjugateGradients, StabilizedGradients
from tinyphysics.flows.solvers.solver import Arrays, LinearSolver, Slopes, plus, stacked, unstacked
from tinyphysics.flows.solvers.stencil import diagonal_of_momenta, local_part
from tinyphysics.ir import Ops, UOp, substitute, toposort
from tinyphysics.ir.dtype import f64
from tinyphysics.rules.calculus.solve import ROUNDS
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import DT, WORK, Step, Term
from tinyphysics.structure import acted
from tinyphysics.synth.methods.derivative import derivative, power
from tinyphysics.synth.methods.implicit import GOLDEN, NEGLIGIBLE, SHAKEN, TINY, Collocation, less_known
from tinyphysics.system import System

WRITTEN = 96  # unknowns that are written out, and compared one by one in a proof


def in_arrays(system: System, stages: int) -> bool:
    """Are there so many equations that they stay arrays?  All states have one shape then, and no list or tree of points."""
    shapes = {s.var.shape for s in system.states}
    numbers = sum(s.var.size for s in system.states)
    if system.kind != "hamiltonian" or len(shapes) != 1 or not all(shapes) or numbers * stages <= WRITTEN:
        return False
    assert system.energy is not None
    return not any(u.op in (Ops.NEIGHBOURS, Ops.TREE) for u in toposort([system.energy]))


class ArrayField:
    """The motion of a Hamiltonian as arrays: dz/dt of each state."""

    def __init__(self, system: System, energy: UOp) -> None:
        self.system, self.energy = system, energy
        self.z: Arrays = list(system.structure.states)
        by = [x for pair in zip(system.p, system.q) for x in pair]
        moves = {s: (g, word) for s, g, word in system.structure.flow(dict(zip(by, derivative(energy, by))))}
        self.covector = [moves[s][0] for s in self.z]
        self.words = [moves[s][1] for s in self.z]
        self.slopes = simplify([acted(word, g) for g, word in zip(self.covector, self.words)])

    def table(self, z: Sequence[UOp], after: float) -> dict[UOp, UOp]:
        t = self.system.time
        return dict(zip(self.z, z)) | ({t: t + after * DT} if t is not None and after else {})

    def at(self, z: Sequence[UOp], after: float = 0.0) -> Arrays:
        return substitute(self.slopes, self.table(z, after))

    def covectors(self, z: Sequence[UOp], after: float) -> list[tuple[UOp, UOp, str]]:
        """(state, covector, how J acts) at other values."""
        found = self.at(z, after)
        values = [simplify([-v])[0] if word == "negate" else v for v, word in zip(found, self.words)]
        return list(zip(self.z, values, self.words))

    def works(self, z: Sequence[UOp], after: float, weight: float) -> list[Shear]:
        """What moves the energy of the clock, where there is one."""
        if not self.system.driven:
            return []
        (lost,) = substitute([-power(self.energy, self.system.time)], self.table(z, after))
        return [Shear(WORK, lost, "force", weight)]

    def shaken(self, h: UOp) -> Arrays:
        """What a step makes of numbers of the state that are wrong by a part that is negligible, as VectorField has it."""
        moved = [z - z * (SHAKEN * parts(z.shape)) for z in self.z]
        return [less_known(h * (b - a)) for a, b in zip(self.at(self.z), self.at(moved))]

    def places(self, states: Sequence[UOp]) -> tuple[int, ...]:
        return tuple(k for k, s in enumerate(self.z) if any(s is x for x in states))

    def sizes(self, groups: Sequence[Sequence[UOp]]) -> Arrays:
        """One over the size of each state, positions and momenta apart."""
        out: dict[int, UOp] = {}
        for states in (self.system.q, self.system.p):
            own = self.places(states)
            found = [largest_of([abs(group[k]).max() for group in groups]) for k in own]
            least = largest_of(found) * NEGLIGIBLE
            out |= {k: 1.0 / x.maximum(least).maximum(TINY) for k, x in zip(own, found)}
        return [out[k] for k in range(len(self.z))]


def parts(shape: tuple[int, ...]) -> UOp:
    """Between a half and 1, for each number along the last axis another."""
    turns = (UOp.range(shape[-1]).cast(f64) + 1.0) * GOLDEN
    return ((turns - turns.floor()) * 0.5 + 0.5).expand(shape)


def largest_of(items: Sequence[UOp]) -> UOp:
    out = items[0]
    for x in items[1:]:
        out = out.maximum(x)
    return out


def solver_of(field: ArrayField, at: Sequence[UOp], after: float, sizes: Sequence[UOp]) -> LinearSolver:
    """By the structure of the slopes: a chain of neighbours, positions and momenta apart, or neither."""
    t = field.system.time
    slopes = field.slopes if t is None else substitute(field.slopes, {t: t + after * DT})
    f = Slopes(tuple(field.z), tuple(slopes), tuple(at))
    q, p = field.places(field.system.q), field.places(field.system.p)
    apart = not any(field.z[k] in field.slopes[m].leaves for own in (q, p) for k in own for m in own)
    if not apart:
        if (band := band_of(f)) is not None:
            return BlockElimination(f, band)
        if (band := band_of(f, lines.MOST)) is not None and lines.goes_along(band, f.states[0].shape[0]):
            return lines.LineElimination(f, band)
        return StabilizedGradients(f, tuple(sizes), local=local_part(f))
    if couples_neighbours(f, q, p):
        return CyclicReduction(f, q, p)
    band = band_of_momenta(f, q, p)
    if band is not None:
        return BandedMomenta(f, q, p, band=band)
    band = band_of_momenta(f, q, p, lines.MOST)
    if band is not None and lines.goes_along(band, f.states[0].shape[0]):
        return lines.LineMomenta(f, q, p, band=band)
    return ConjugateGradients(f, q, p, diagonal=diagonal_of_momenta(f, q, p))


def lower_factor(a: Sequence[Sequence[float]]) -> list[list[float]]:
    """l of a = l u, where u has ones on its diagonal."""
    n = len(a)
    low, up = ([[0.0] * n for _ in range(n)] for _ in range(2))
    for j in range(n):
        for i in range(j, n):
            low[i][j] = a[i][j] - sum(low[i][k] * up[k][j] for k in range(j))
        for i in range(j + 1, n):
            up[j][i] = (a[j][i] - sum(low[j][k] * up[k][i] for k in range(j))) / low[j][j]
    return low


@dataclass(frozen=True, eq=False)
class StageSolver:
    """Stage by stage, with what the corrections of earlier ones do to it."""

    by: LinearSolver
    lower: list[list[float]]

    def correction(self, h: UOp, residuals: Sequence[Arrays]) -> list[Arrays]:
        out: list[Arrays] = []
        for r, row in zip(residuals, self.lower):
            own = list(r)
            for d, weight in zip(out, row):
                own = plus(own, weight * h, self.by.f.along(d))
            out.append(self.by.correction(row[len(out)] * h, own))
        return out


def stages_of_arrays(field: ArrayField, method: Collocation, weight: float, name: str) -> ImplicitFlow:
    """The stages of a step of length weight*dt, and the moves that they are for."""
    z, s, h = field.z, method.stages, DT if weight == 1.0 else weight * DT
    n = len(z)
    unknown = UOp.var(name, (n * s, *z[0].shape))
    every = unstacked(unknown)
    Y = [every[k * n : (k + 1) * n] for k in range(s)]
    f = field.at(z)
    ahead = plus(z, 0.5 * h, f)
    g = field.at(ahead, 0.5)
    beyond = plus(z, h, g)
    start = [x + (c * h) * ((1.0 - c) * v + c * w) for c in method.c for x, v, w in zip(z, f, g)]
    at = [field.at(y, c) for y, c in zip(Y, method.c)]
    residuals = [[y - x - (0.5 * h) * v for y, x, v in zip(Y[0], z, at[0])]]
    if s > 1:
        moves = [[(b * h) * v for v in slopes] for b, slopes in zip(method.b, at)]
        residuals = [
            [
                UOp.sum_of([Y[i][k] - z[k], *(-method.mu[i][j] * moves[j][k] for j in range(s))])
                for k in range(n)
            ]
            for i in range(s)
        ]
    sizes = field.sizes([z, ahead, beyond, field.shaken(h)])
    middle = [x + (0.25 * h) * (v + w) for x, v, w in zip(z, f, g)]
    by = solver_of(field, middle, 0.5, sizes)
    found = StageSolver(by, lower_factor(method.a)).correction(h, residuals)
    shears: list[Shear] = []
    for j in range(s):
        shears += along(field.covectors(Y[j], method.c[j]), weight * method.b[j])
    works = [x for b, c, y in zip(method.b, method.c, Y) for x in field.works(y, c, weight * b)]
    return ImplicitFlow(
        unknown,
        stacked(start),
        stacked([r for row in residuals for r in row]),
        stacked([u.expand(z[0].shape) for u in sizes] * s),
        ShearFlow(tuple(shears), work=tuple(works)),
        stacked([d for row in found for d in row]),
        ROUNDS,
        by,
    )


def collocate_arrays(name: str, system: System, method: Collocation, claims: tuple[str, ...]) -> Step:
    assert system.energy is not None
    solve = stages_of_arrays(ArrayField(system, system.energy), method, 1.0, "?stages")
    return Step.of(system, name, (Term("H", system.energy),), claims, method.stages, body=(solve,))
