"""How do bodies push and rub that touch?  Impulses on velocities, row by row, for a fixed number of sweeps.

At the middle of a step, after the kick, every gap g_i has a slope J_i = dg_i/dq, and an impulse l_i moves the velocities by
A J_i l_i, with A = d²T/dp². Row by row

    l_i := max(0, l_i - (J_i v + b_i)/(J_i A J_i)),    v moved at once,

where b_i = g_i/h lets a gap close in a step and no further; of a gap that is closed too far a fifth is given back. Along the
surface the impulse makes the slip vanish, as far as Coulomb's cone lets it: |l| <= friction l_i. The first impulses are
those of the step before (Moreau 1999, Comput. Methods Appl. Mech. Eng. 177, 329; Jean 1999, ibid. 235).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.flows.map import Map
from tinyphysics.ir import UOp, elements, graph_rewrite, substitute
from tinyphysics.rules.calculus.linear import ZERO, is_number, times
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.formulas.constraints import Constraints, dot, jacobian, total
from tinyphysics.rules.identities.exact import exact
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import DT, SubFlow
from tinyphysics.structure import FORCE
from tinyphysics.tpir.program.isa import Word
from tinyphysics.tpir.program.lower import ProgramBuilder

GIVEN_BACK = 0.2  # of a gap that is closed too far, in one step
TINY = 2.0**-100  # a size that is not zero, of float32 as well


@dataclass(frozen=True, eq=False)
class Surface:
    """One contact: its gaps, the state of their impulses, and the same of the slips."""

    gap: UOp
    impulse: UOp
    iterations: int
    slip: UOp | None = None
    rub: UOp | None = None
    friction: UOp | None = None

    @property
    def ways(self) -> int:
        return 0 if self.slip is None else self.slip.size // max(self.gap.size, 1)


@dataclass(frozen=True, eq=False)
class Sweep:
    """The velocities, and how an impulse along a row moves them."""

    v: list[UOp]
    A: Sequence[Sequence[UOp]]

    def along(self, row: Sequence[UOp]) -> list[UOp]:
        return [dot(row, [self.A[j][k] for j in range(len(row))]) for k in range(len(self.v))]

    def push(self, moved: Sequence[UOp], impulse: UOp) -> None:
        for k, a in enumerate(moved):
            if not is_number(a, 0.0):
                self.v[k] = self.v[k] + times(a, impulse)


def touched(
    q: tuple[UOp, ...], p: tuple[UOp, ...], kinetic: UOp, velocity: UOp, surfaces: Sequence[Surface]
) -> list[tuple[UOp, list[UOp]]]:
    """(state, its new numbers) of momenta and impulses."""
    c = Constraints(q, p, tuple(s.gap for s in surfaces), kinetic)
    sweep = Sweep(list(c.v), c.A)
    moved, size = c.AG, [d.maximum(TINY) for d in c.d]
    over = [1.0 / d for d in size]
    bias = [g.maximum(0.0) / DT + GIVEN_BACK * g.minimum(0.0) / DT for g in c.g]
    impulse = [x for s in surfaces for x in elements(s.impulse)]
    owner = [s for s in surfaces for _ in range(s.gap.size)]
    own = elements(velocity)
    slips: list[tuple[list[list[UOp]], list[list[UOp]], list[UOp], UOp]] = []  # of each gap that rubs
    places: dict[int, int] = {}
    rubs: list[list[UOp]] = []
    at = 0
    for s in surfaces:
        if s.slip is not None and s.rub is not None:
            values = simplify(unroll([s.slip])[0])
            rows = jacobian(values, own)
            still = substitute(values, dict.fromkeys(own, ZERO))
            for k in range(s.gap.size):
                mine = range(k * s.ways, (k + 1) * s.ways)
                S = [rows[j] for j in mine]
                AS = [sweep.along(row) for row in S]
                # of a vector, the largest sum of a row of S A S bounds its steepest slope
                bound = [total([abs(dot(a, b)) for b in AS]) for a in S]
                steepest = bound[0]
                for other in bound[1:]:
                    steepest = steepest.maximum(other)
                places[at + k] = len(slips)
                slips.append((S, AS, [still[j] for j in mine], 1.0 / steepest.maximum(TINY)))
                rubs.append([elements(s.rub)[j] for j in mine])
        at += s.gap.size
    for k, x in enumerate(impulse):  # as after the last step
        sweep.push(moved[k], x)
    for place in places.values():
        for row, x in zip(slips[place][1], rubs[place]):
            sweep.push(row, x)
    for turn in range(max(s.iterations for s in surfaces)):
        for k, s in enumerate(owner):
            if turn >= s.iterations:
                continue
            new = (impulse[k] - (dot(c.G[k], sweep.v) + bias[k]) * over[k]).maximum(0.0)
            sweep.push(moved[k], new - impulse[k])
            impulse[k] = new
            if k in places:
                rub(sweep, slips[places[k]], rubs[places[k]], s, new)
    pushed = [c.push(c.G, impulse)]
    for place in places.values():
        pushed.append(
            [
                total([times(row[j], x) for row, x in zip(slips[place][0], rubs[place])])
                for j in range(len(c.p))
            ]
        )
    momenta = [total([x, *(part[j] for part in pushed)]) for j, x in enumerate(c.p)]
    out: list[tuple[UOp, list[UOp]]] = []
    for state in p:
        out.append((state, momenta[: state.size]))
        momenta = momenta[state.size :]
    flat = [x for own in rubs for x in own]
    for s in surfaces:
        out.append((s.impulse, impulse[: s.impulse.size]))
        impulse = impulse[s.impulse.size :]
        if s.rub is not None:
            out.append((s.rub, flat[: s.rub.size]))
            flat = flat[s.rub.size :]
    return out


def rub(
    sweep: Sweep,
    slip: tuple[list[list[UOp]], list[list[UOp]], list[UOp], UOp],
    own: list[UOp],
    s: Surface,
    normal: UOp,
) -> None:
    """The impulses along the surface of one gap: within Coulomb's cone."""
    rows, moved, still, over = slip
    assert s.friction is not None
    most = s.friction * normal
    wanted = [x - (dot(row, sweep.v) + x0) * over for x, row, x0 in zip(own, rows, still)]
    if len(wanted) == 1:
        new = [wanted[0].minimum(most).maximum(-most)]
    else:
        size = total([x * x for x in wanted]).maximum(TINY).sqrt()
        part = (most / size).minimum(1.0)
        new = [x * part for x in wanted]
    for row, a, b in zip(moved, own, new):
        sweep.push(row, b - a)
    own[:] = new


def work_taken(
    q: tuple[UOp, ...], p: tuple[UOp, ...], kinetic: UOp, potential: UOp, new: Sequence[UOp]
) -> UOp:
    """By impulses that make momenta new, on the mean of the velocities before the kick and after the impulses.

    With half a drift before the kick and half behind the impulses that mean is what positions move by in a step, so the
    energy and what is booked change as those of leapfrog do.
    """
    rates = simplify(gradient(kinetic, list(p)))
    slopes = gradient(potential, list(q)) if any(x in potential.leaves for x in q) else None
    before = {x: x if slopes is None else x + DT.expand(x.shape) * slopes[k] for k, x in enumerate(p)}
    start, end = substitute(rates, before), substitute(rates, dict(zip(p, new)))
    parts = [(x - y) * (0.5 * (a + b)) for x, y, a, b in zip(p, new, start, end)]
    return UOp.sum_of([u.sum() if u.shape else u for u in parts])


def spared(values: Sequence[UOp]) -> list[UOp]:
    """With what is zero or one left out, and no more: branches in branches in each other would multiply."""
    return graph_rewrite(list(values), exact)


@dataclass(frozen=True, eq=False)
class TouchFlow(SubFlow):
    """New momenta and impulses; the energy that goes is booked."""

    moves: Map
    taken: UOp  # the energy that goes
    ledger: UOp | None = None  # the state that it is booked in
    given: UOp | None = None  # the energy that goes, as it is computed where it is booked
    books = "contacts"
    declares_dt = True
    traits: frozenset[str] = frozenset()

    def writes(self) -> tuple[UOp, ...]:
        return self.moves.writes()

    def expressions(self) -> tuple[UOp, ...]:
        return self.moves.expressions()

    def rebuilt(self, new: Mapping[UOp, UOp]) -> TouchFlow:
        return replace(self, moves=self.moves.rebuilt(new))

    def works(self) -> tuple[UOp, ...]:
        return (self.taken,)

    def followed(self, p_t: UOp, new: Mapping[UOp, UOp]) -> TouchFlow:
        return replace(self, ledger=p_t, given=new[self.taken])

    def tangent(self, ways: Sequence[Mapping[UOp, UOp]]) -> tuple[SubFlow, ...]:
        return self.moves.tangent(ways, spared)

    def adjoint(self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[SubFlow, ...]:
        return self.moves.adjoint(bars, sums, spared)

    def lower(self, b: ProgramBuilder, section: str) -> None:
        if self.ledger is not None and self.given is not None:
            flow = b.versioned("F", b.state(self.ledger).index)
            b.emit(section, "POISSON_J", flow, b.operand(self.given, section), Word(FORCE), u=self.ledger)
            b.emit(section, "SYMP_STEP", b.state(self.ledger), flow, 1.0, u=self.ledger)
            b.rewritten(self.ledger)
        self.moves.lower(b, section)
