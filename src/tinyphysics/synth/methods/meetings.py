"""What are the walls and events of a system, number by number?  Their slopes, jumps, and how a body rests on them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tinyphysics.ir import UOp, elements, graph_rewrite, substitute
from tinyphysics.rules.calculus.degree import degrees
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.linear import solved
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import same
from tinyphysics.rules.formulas.constraints import dot, jacobian, total
from tinyphysics.rules.identities.exact import exact
from tinyphysics.rules.identities.real import simplify
from tinyphysics.system import Crossing, System

Numbers = list[UOp]
MOST_DEGREE = 8  # in time, of a guard along a flight


def const(x: float) -> UOp:
    return UOp.const(x)


@dataclass(frozen=True, eq=False)
class Meetings:
    """Walls and events of a system, number by number, as functions of its states."""

    system: System
    free_rates: tuple[UOp, ...]  # of the states, number by number, without what constraints add
    held: tuple[UOp, ...] = ()  # constraints
    exact_flight: bool = True  # is a step exact where forces are constant?

    @cached_property
    def rates(self) -> Numbers:
        """Of the states, number by number."""
        rates = graph_rewrite(list(self.free_rates), exact)
        if not self.held:
            return rates
        # multipliers keep the second derivative of each constraint zero
        v = [rates[self.places[q]] for q in self.q]
        rows = [simplify(gradient(u, self.q)) for u in self.held_numbers]
        moved = [[dot(row, n) for row in jacobian(v, self.p)] for n in rows]
        bends = simplify(jvp(simplify(jvp(self.held_numbers, self.z, rates)), self.z, rates))
        found = solved([[dot(a, b) for b in moved] for a in rows], [[b] for b in bends])
        push = {p: total([c * row[k] for (c,), row in zip(found, rows)]) for k, p in enumerate(self.p)}
        return [u - push[x] if x in push else u for x, u in zip(self.z, rates)]

    @cached_property
    def z(self) -> Numbers:
        return [e for s in self.system.states for e in elements(s.var)]

    @cached_property
    def places(self) -> dict[UOp, int]:
        return {e: k for k, e in enumerate(self.z)}

    @cached_property
    def q(self) -> Numbers:
        return [e for v in self.system.q for e in elements(v)]

    @cached_property
    def p(self) -> Numbers:
        return [e for v in self.system.p for e in elements(v)]

    @cached_property
    def guards(self) -> Numbers:
        return graph_rewrite([u for group in unroll(self.system.guards) for u in group], exact)

    @cached_property
    def owners(self) -> list[Crossing]:
        """Whose each guard is."""
        return [c for c in self.system.crossings for _ in range(c.rows)]

    def at(self, roots: Sequence[UOp], z: Sequence[UOp]) -> Numbers:
        return substitute(list(roots), dict(zip(self.z, z)))

    def along_flow(self, u: UOp) -> UOp:
        """du/dt on a solution."""
        return simplify(jvp([u], self.z, self.rates))[0]

    @cached_property
    def slopes(self) -> Numbers:
        return [self.along_flow(u) for u in self.guards]

    @cached_property
    def bends(self) -> Numbers:
        """d²g/dt² on a solution that meets no wall: where it is negative the wall pushes."""
        return [self.along_flow(u) for u in self.slopes]

    @cached_property
    def mobility(self) -> list[Numbers]:
        """d²H/dp²."""
        return jacobian([self.rates[self.places[q]] for q in self.q], self.p)

    @cached_property
    def quadratic(self) -> bool:
        return not any(x.leaves & frozenset(self.system.p) for row in self.mobility for x in row)

    def normal(self, k: int) -> tuple[Numbers, Numbers, UOp]:
        """(dg/dq, that times d²H/dp², both multiplied) of a wall, without what constraints hold."""
        n = simplify(gradient(self.guards[k], self.q))
        if self.held:
            rows = [simplify(gradient(u, self.q)) for u in self.held_numbers]
            moved = [self.moved(row) for row in rows]
            matrix = [[dot(a, b) for b in moved] for a in rows]
            found = solved(matrix, [[dot(a, self.moved(n))] for a in rows])
            for row, (c,) in zip(rows, found):
                n = [x - c * y for x, y in zip(n, row)]
        moved_n = self.moved(n)
        return n, moved_n, dot(n, moved_n)

    @cached_property
    def held_numbers(self) -> Numbers:
        return simplify([u for group in unroll(self.held) for u in group])

    def size(self, k: int) -> UOp:
        """Of the terms of a guard: what is less than its rounding is not seen in it."""
        return total([abs(d * x) for d, x in zip(simplify(gradient(self.guards[k], self.q)), self.q)])

    def moved(self, n: Sequence[UOp]) -> Numbers:
        return [dot(row, n) for row in self.mobility]

    def with_momenta(self, p: Sequence[UOp]) -> Numbers:
        return self.with_values(dict(zip(self.p, p)))

    def with_values(self, new: Mapping[UOp, UOp]) -> Numbers:
        return [new.get(x, x) for x in self.z]

    def reflected(self, k: int) -> Numbers:
        """The states after a bounce, in the metric of the masses; as they are where the wall is left already."""
        n, _, size = self.normal(k)
        rate = self.slopes[k]
        impulse = ((1.0 + self.owners[k].restitution) * rate.minimum(0.0)) / size
        return self.with_momenta([p - impulse * x for p, x in zip(self.p, n)])

    def settled(self, k: int) -> Numbers:
        """The states on a wall, with a velocity along it."""
        q = self.q
        for _ in range(2):
            n, moved, size = self.normal(k)
            at = dict(zip(self.q, q))
            found = substitute([self.guards[k], size, *moved], at)
            q = [x - (found[0] / found[1]) * m for x, m in zip(q, found[2:])]
        n, _, size = self.normal(k)
        impulse = self.slopes[k] / size
        p = substitute([x - impulse * y for x, y in zip(self.p, n)], dict(zip(self.q, q)))
        return self.with_values(dict(zip(self.q, q)) | dict(zip(self.p, p)))

    def kept_on(self, k: int, z: Sequence[UOp], length: UOp) -> Numbers:
        """The states z after a free step of a length, back on a wall on which the body rested at its beginning.

        The wall pushes along its normal at the beginning, as in SHAKE, and what is left across it is taken off at the end: of
        second order, on curved walls too.
        """
        at = dict(zip(self.z, z))
        n, moved, _ = self.normal(k)
        q, pushed = [at[x] for x in self.q], const(0.0)
        for _ in range(3):
            there = dict(zip(self.q, q))
            height, *slope = substitute([self.guards[k], *simplify(gradient(self.guards[k], self.q))], there)
            part = height / self.divisor(dot(slope, moved))
            q, pushed = [x - part * m for x, m in zip(q, moved)], pushed + part
        share = pushed / self.divisor(length)
        p = [at[x] - share * y for x, y in zip(self.p, n)]
        there = at | dict(zip(self.q, q)) | dict(zip(self.p, p))
        rate, size, *normal = substitute([self.slopes[k], self.normal(k)[2], *self.normal(k)[0]], there)
        p = [x - (rate / self.divisor(size)) * y for x, y in zip(p, normal)]
        return [(dict(zip(self.q, q)) | dict(zip(self.p, p))).get(x, at[x]) for x in self.z]

    def divisor(self, x: UOp) -> UOp:
        """Rods may hold a body across a wall, where none of its normal is left: that is not used, and must be a number."""
        return x.eq(0.0).where(1.0, x) if self.held else x

    @cached_property
    def jumps(self) -> list[Numbers]:
        """What each guard does to the states where it is crossed."""
        given = iter(self.system.jumps)
        states = {s.name: s.var for s in self.system.states}
        out: list[Numbers] = []
        for c in self.system.crossings:
            if c.kind == "wall":
                out += [self.reflected(len(out) + k) for k in range(c.rows)]
                continue
            new: dict[UOp, UOp] = {}
            for name in c.writes:
                new |= dict(zip(elements(states[name]), unroll([next(given)])[0]))
            out.append(self.with_values(new))
        return out

    def can_rest(self, k: int) -> bool:
        c = self.owners[k]
        return c.kind == "wall" and (c.restitution < 1.0 or not self.free)

    @cached_property
    def free(self) -> bool:
        """Does no force act?"""
        return all(same(self.rates[self.places[p]], const(0.0)) for p in self.p)

    @cached_property
    def parabolas(self) -> list[tuple[UOp, UOp, UOp]] | None:
        """The guards along a flight, c0 + c1 t + c2 t²; None where they are not shown to be that, or flight is not exact."""
        found = self.flights
        if found is None or any(len(c) > 3 for c in found):
            return None
        return [(c0, c1, c2) for c0, c1, c2 in found]

    @cached_property
    def flights(self) -> list[Numbers] | None:
        """The guards along a flight, as polynomials of time; None where that is not shown, or flight is not exact."""
        # fields change in events alone
        moving = frozenset(s.var for s in self.system.states if s.role != "field")
        if self.system.kind != "hamiltonian" or self.held or self.system.friction or not self.quadratic:
            return None
        if not (self.exact_flight or self.free):
            return None
        if any(x.leaves & moving for row in self.mobility for x in row):
            return None
        if any(self.rates[self.places[p]].leaves & moving for p in self.p):
            return None
        v = [self.rates[self.places[q]] for q in self.q]
        if any(x.leaves & frozenset(self.system.q) for x in v):
            return None
        out = []
        for g, slope, bend in zip(self.guards, self.slopes, self.bends):
            found = [g, slope, simplify([0.5 * bend])[0]]
            rate = self.along_flow(bend)
            while not same(rate, const(0.0)):
                if degrees(g, frozenset(self.z))[g] is None or len(found) > MOST_DEGREE:
                    return None
                found.append(simplify([rate * (1.0 / math.factorial(len(found)))])[0])
                rate = self.along_flow(rate)
            out.append(found)
        return out
