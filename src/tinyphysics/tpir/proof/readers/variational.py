"""Does a step make the sum of some function stationary?  Then it is symplectic, whoever wrote it.

Unknowns V are solved for so that r(q, p, V) = 0; then q' = q + dt sum b_j V_j and p' = p + f(q, V). Symplectic it is if the
one-form p' dq' - p dq + dt sum b_j r_j dV_j is closed, for all q, p and V: at the root r and its differential vanish, and the
rest is the differential of a function, the action of the step (Marsden & West 2001). That is looked at, derivative by
derivative; no Lagrangian is declared, and none is believed. What the declared energy has to do with it is the last question:
as dt vanishes, V must be dH/dp and f/dt must be -dH/dq, at the momenta that r asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, elements, substitute, toposort
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.formulas.smoothness import JUMP, rough_places
from tinyphysics.rules.identities.real import simplify
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.program.symbolic import CLOCK, clocks, state_of
from tinyphysics.tpir.proof.units import DT
from tinyphysics.tpir.proof.weights import TOL

NOW = UOp.var(f"{CLOCK}@0.0")
LINEAR = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.FMA, Ops.NEG)
MOST_NUMBERS = 40  # positions and unknowns, whose derivatives are compared two by two
# a position q_k, moved by multiples of dt and of the unknowns of the same k
Place = tuple[int, tuple[Fraction, ...]]


class NotStationary(Exception):
    """Why it is not shown."""


@dataclass
class Stationary:
    """A step that was shown to be symplectic in this way, with what else is known of it."""

    length: Fraction
    mirrored: bool
    even: bool  # negating momenta, unknowns and dt gives the same equations
    continuous: bool  # are its equations?  Then what it makes stationary has no kink, whatever the energy has
    of_energy: str  # why it is not that of the declared energy; empty if it is
    term: int = -1
    begins: bool = True
    symplectic: bool = True
    c: list[Fraction] = field(default_factory=list)

    @property
    def adjoint(self) -> Stationary:
        return self

    def same(self, other: object) -> bool:
        return self is other and self.mirrored


@dataclass
class VariationalReader:
    """One SOLVE and the moves that it serves: numbers q, p, V, and what is computed of them."""

    q: list[UOp]
    p: list[UOp]
    unknowns: list[UOp]
    residuals: list[UOp]
    weights: list[Fraction]  # b, by stage
    pushes: list[UOp]  # f, what is added to each p
    normal: Normal = field(default_factory=Normal)  # a fresh one for each question: its work is bounded
    places: dict[UOp, Place] = field(default_factory=dict)  # of the names that positions of stages have here

    @property
    def n(self) -> int:
        return len(self.q)

    @property
    def stages(self) -> int:
        return len(self.weights)

    def check_momenta(self) -> None:
        """p enters each residual once, as -p, and nothing else."""
        if any(frozenset(self.p_leaves) & f.leaves for f in self.pushes):
            raise NotStationary("momenta are moved by what depends on momenta")
        for i, r in enumerate(self.residuals):
            for k, slope in enumerate(gradient(r, self.p)):
                wanted = UOp.const(-1.0 if k == i % self.n else 0.0)
                if not self.normal.same(slope, wanted):
                    raise NotStationary(
                        f"residual {i} is not a function of positions and unknowns less a momentum"
                    )

    @property
    def p_leaves(self) -> list[UOp]:
        return [v for x in self.p for v in x.leaves]

    # --- names for positions of stages, which keep what is made of them short ----------------------
    def name_places(self) -> None:
        table: dict[UOp, UOp] = {}
        for u in toposort([*self.residuals, *self.pushes]):
            if u.shape or u.op not in LINEAR or not self.is_linear(u):
                continue
            place = self.place(u)
            if place is not None:
                table[u] = self.name(place)
        self.residuals, self.pushes = (substitute(x, table) for x in (self.residuals, self.pushes))

    def is_linear(self, u: UOp) -> bool:
        return all(x.op in LINEAR or x.op in (Ops.CONST, Ops.VAR, Ops.ELEMENT) for x in toposort([u]))

    def place(self, u: UOp) -> Place | None:
        by_q = gradient(u, self.q)
        own = [k for k, g in enumerate(by_q) if self.normal.form(g)]
        if len(own) != 1 or not self.normal.same(by_q[own[0]], UOp.const(1.0)):
            return None
        k, moves = own[0], []
        for i, g in enumerate(gradient(u, self.unknowns)):
            ratio = self.normal.ratio(g, DT) if self.normal.form(g) else Fraction(0)
            if ratio is None or ratio and i % self.n != k:
                return None
            if i % self.n == k:
                moves.append(ratio)
        return (k, tuple(moves)) if self.normal.same(u, self.written((k, tuple(moves)))) else None

    def written(self, place: Place) -> UOp:
        k, moves = place
        return self.q[k] + UOp.sum_of(
            number(c) * (DT * self.unknowns[j * self.n + k]) for j, c in enumerate(moves)
        )

    def name(self, place: Place) -> UOp:
        k, moves = place
        if all(abs(c) <= TOL for c in moves):
            return self.q[k]
        for name, (other, theirs) in self.places.items():
            if other == k and all(abs(c - d) <= TOL for c, d in zip(moves, theirs)):
                return name
        name = UOp.var(f"place {len(self.places)}")
        self.places[name] = place
        return name

    # --- derivatives ------------------------------------------------------------------------------
    def slopes(self, u: UOp) -> list[UOp]:
        """By all positions, then by all unknowns, through the positions of stages."""
        names = list(self.places)
        found = gradient(u, [*self.q, *self.unknowns, *names])
        by, through = found[: self.n + len(self.unknowns)], found[self.n + len(self.unknowns) :]
        sums = [[g] for g in by]
        for name, g in zip(names, through):
            k, moves = self.places[name]
            if g.op is Ops.CONST and g.arg == 0:
                continue
            sums[k].append(g)
            for j, c in enumerate(moves):
                if c:
                    sums[self.n + j * self.n + k].append(number(c) * (DT * g))
        return [UOp.sum_of(s) for s in sums]

    def check_closed(self) -> None:
        """The derivatives of the one-form, two by two. It holds no dp: that was seen first."""
        self.normal = Normal()
        still = dict.fromkeys(self.p, UOp.const(0.0))
        form = list(self.pushes)
        for i, r in enumerate(substitute(self.residuals, still)):
            b = self.weights[i // self.n]
            form.append(number(b) * (DT * (self.pushes[i % self.n] + r)))
        rows = [self.slopes(u) for u in form]
        for i in range(len(rows)):
            for j in range(i):
                if not self.normal.same(rows[i][j], rows[j][i]):
                    raise NotStationary(
                        "p dq does not change by the differential of a function in a step: derivatives "
                        f"{i} and {j} of what would be its action differ"
                    )

    # --- the way back -----------------------------------------------------------------------------
    def swapped(self, i: int) -> int:
        """The same number of the stage that is as far from the end."""
        return (self.stages - 1 - i // self.n) * self.n + i % self.n

    def is_mirrored(self) -> bool:
        """From the end of the step, with -dt, the same equations: the last stage first."""
        self.normal = Normal()
        table = {DT: -DT, NOW: NOW + DT}
        table |= {v: self.unknowns[self.swapped(i)] for i, v in enumerate(self.unknowns)}
        table |= {p: p + f for p, f in zip(self.p, self.pushes)}
        ends = tuple(self.weights)
        here = {q: (k, (Fraction(0),) * self.stages) for k, q in enumerate(self.q)}
        for name, (k, moves) in [*self.places.items(), *here.items()]:
            table[name] = self.name((k, tuple(b - c for b, c in zip(ends, reversed(moves)))))
        back = substitute([*self.residuals, *self.pushes], table)
        wanted = [self.residuals[self.swapped(i)] for i in range(len(self.residuals))] + [
            -f for f in self.pushes
        ]
        # not all positions were found as such
        written = {name: self.written(place) for name, place in self.places.items()}
        return ends == ends[::-1] and all(
            self.normal.same(x, y) or self.normal.same(*substitute([x, y], written))
            for x, y in zip(back, wanted)
        )

    def is_continuous(self) -> bool:
        """Are its equations shown to be?"""
        every = [*self.residuals, *self.pushes]
        moving = frozenset(v for u in every for v in u.leaves if v is not DT)
        return not any(r.order <= JUMP for r in rough_places(every, moving))

    def is_even(self) -> bool:
        """With -p, -V and -dt the equations are what they were: then negating momenta reverses a symmetric step."""
        self.normal = Normal()
        table = {x: -x for x in (*self.p, *self.unknowns, DT)}
        back = substitute([*self.residuals, *self.pushes], table)
        wanted = [-u for u in (*self.residuals, *self.pushes)]
        timed = any(NOW in u.leaves for u in wanted)
        return not timed and all(self.normal.same(x, y) for x, y in zip(back, wanted))

    # --- the declared energy ----------------------------------------------------------------------
    def not_of(self, energy: UOp) -> str:
        """Why it is not that of an energy of q and p, as dt vanishes; empty if it is."""
        self.normal = Normal()
        v = [UOp.var(f"velocity {k}") for k in range(self.n)]
        table = {name: self.q[k] for name, (k, _) in self.places.items()}
        table |= {u: v[i % self.n] for i, u in enumerate(self.unknowns)}
        rates = [
            substitute([g], table | {DT: UOp.const(0.0)})[0] for f in self.pushes for g in gradient(f, [DT])
        ]
        still = table | {DT: UOp.const(0.0)} | dict.fromkeys(self.p, UOp.const(0.0))
        momenta = substitute(self.residuals, still)
        for k in range(self.n):
            if not all(self.normal.same(momenta[j * self.n + k], momenta[k]) for j in range(self.stages)):
                return "its stages do not ask for the same momenta as dt vanishes"
        by_p, by_q = (simplify(gradient(energy, x)) for x in (self.p, self.q))
        if not all(map(self.normal.same, substitute(by_p, dict(zip(self.p, momenta))), v)):
            return "the momenta that its equations ask for are not shown to be those of the declared energy"
        # then dH/dv = v dp/dv along p(q, v), and the action has an L with dL/dv = p: H is v p - L, but for what depends on q
        rest = dict.fromkeys(v, UOp.const(0.0))
        at_rest = dict(zip(self.p, substitute(momenta, rest)))
        forces = [-g for g in substitute(by_q, at_rest)]
        if not all(map(self.normal.same, forces, substitute(rates, rest))):
            return "what moves its momenta at rest is not shown to be the force of the declared energy"
        return ""


def number(c: Fraction) -> UOp:
    return UOp.const(float(c))


Moved = Sequence[tuple[int, UOp, Fraction | None]]  # (state, flow, length in units of dt)


def reader(program: Program, root: UOp, moves: Moved, states: Sequence[UOp]) -> VariationalReader | None:
    """What a SOLVE and some moves compute, if positions move by its unknowns themselves and all read the same states."""
    places = [k for k, s in enumerate(program.states) if s.role == "position"]
    pairs = [j for k in places if (j := program.conjugate(k)) is not None]
    q, p = ([e for k in own for e in elements(states[k])] for own in (places, pairs))
    n = len(q)
    if len(pairs) < len(places) or 2 * len(places) != len(states) or root.shape[0] % n:
        return None
    unknown = UOp.var(root.arg[0], root.shape)
    every = substitute([root.src[2], *(flow for _, flow, _ in moves)], {root: unknown})
    if any(state_of(v) is not None and all(v is not s for s in states) for u in every for v in u.leaves):
        return None
    unknowns, residuals, flows = elements(unknown), *unroll(every[:1]), unroll(every[1:])
    weights: dict[tuple[int, int], Fraction] = {}  # by stage and number
    pushes: list[list[UOp]] = [[] for _ in range(n)]
    first = {k: sum(states[j].size for j in own[:m]) for own in (places, pairs) for m, k in enumerate(own)}
    for (state, _, h), flow in zip(moves, flows):
        if h is None:
            return None
        for k, f in enumerate(flow, first[state]):
            if state in pairs:
                pushes[k].append(number(h) * (DT * f))
                continue
            i = next((i for i, v in enumerate(unknowns) if v is f), None)
            if i is None or i % n != k:
                return None
            weights[i // n, k] = weights.get((i // n, k), Fraction(0)) + h
    b = [weights.get((j, 0), Fraction(0)) for j in range(len(unknowns) // n)]
    if any(abs(weights.get((j, k), Fraction(0)) - b[j]) > TOL for j in range(len(b)) for k in range(n)):
        return None
    return VariationalReader(q, p, unknowns, list(residuals), b, [UOp.sum_of(x) for x in pushes])


def stationary(reader: VariationalReader, energy: UOp) -> Stationary:
    """Of what was read; NotStationary if it is not shown."""
    every = [*reader.residuals, *reader.pushes, energy]
    if any(c for u in every for c in clocks(u)):
        raise NotStationary("it sees a time that is not that of a step's beginning")
    if reader.n + len(reader.unknowns) > MOST_NUMBERS:
        raise NotStationary(f"{reader.n + len(reader.unknowns)} numbers are too many to compare two by two")
    reader.check_momenta()
    reader.name_places()
    reader.check_closed()
    length = sum(reader.weights, Fraction(0))
    why = (
        f"velocities enter with total weight {float(length):g} instead of 1" if abs(length - 1) > TOL else ""
    )
    return Stationary(
        length, reader.is_mirrored(), reader.is_even(), reader.is_continuous(), why or reader.not_of(energy)
    )
