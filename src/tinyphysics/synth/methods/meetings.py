"""How is a step cut where a wall or an event is met?  Φ(h - τ) ∘ jump ∘ Φ(τ), with τ searched in rounds.

A round evaluates one step Φ(z, L) of the method from the state z that is held, and then decides: the step is taken; or
guards have changed their signs, and a bracket for the first of them gets narrower; or the bracket is closed, and z jumps.
What it has to remember stands in a few numbers beside the states. So members of an ensemble, each with events of its own, do
the same arithmetic at the same time, and no round costs more than a step.

Where flight is exact and guards are polynomials of degree 2 in time, the first root is known in closed form, and each round
goes from one event to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tinyphysics.flows.map import Assignments
from tinyphysics.flows.rounds import Rounds
from tinyphysics.ir import Ops, UOp, elements, graph_rewrite, substitute, toposort
from tinyphysics.report import Row
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.linear import solved
from tinyphysics.rules.calculus.unroll import rolled, unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import same
from tinyphysics.rules.formulas.constraints import dot, jacobian, total
from tinyphysics.rules.identities.exact import exact
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import DT, Step
from tinyphysics.system import Crossing, Parameter, State, System

SEARCH, FIRED, RESTS = (
    "run.search",
    "run.fired",
    "run.rests",
)  # states of a run; no name of a user's has a dot
LAST = UOp.var("last step")  # a parameter that the engine tells: members that have come there wait
LENGTH = UOp.var("length of a round")
COUNTED = 1 << 20  # steps are counted modulo this
# numbers of SEARCH: the time gone in this step, steps done, what is tried, a bracket and the values at its ends, the next
# length, room for a guess, crossings in this step, ties and grazes so far, the time that is left of bounces that pile up,
# all crossings, and whether the member stops
GONE, DONE, MODE, A, AT_A, B, AT_B, NEXT, ROOM, COUNT, TIES, GRAZES, TAIL, TOTAL, STOPPED = range(15)
NUMBERS = 15
WHOLE, NARROW, NEAREST, AGAIN, JUMP = 0.0, 1.0, 2.0, 3.0, 4.0  # what a round tries
FINE = {"float64": 2.0**-52, "float32": 2.0**-23, "dd": 2.0**-100}  # of dt: places that are nearer are one
SLACK = 2.0**11  # as runtime/engines/roots.py has it: rounds more than halving would need
BENT = 0.2
PILED = 2.0**-24  # of dt: bounces that are over in this time are one rest
GRAZING = 2.0**-26  # of the speed, across a wall
FAR = 1e30
MOST = 2.0**23  # crossings in one step; then something is wrong, and the member stops
FELL, RESTED, ROSE = 1.0, 2.0, 3.0  # in FIRED

Numbers = list[UOp]


def const(x: float) -> UOp:
    return UOp.const(x)


def any_of(conditions: Sequence[UOp]) -> UOp:
    out = conditions[0]
    for c in conditions[1:]:
        out = out | c
    return out


def least(values: Sequence[UOp]) -> UOp:
    out = values[0]
    for v in values[1:]:
        out = (v < out).where(v, out)
    return out


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
        moving = frozenset(s.var for s in self.system.states)
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
            if not same(self.along_flow(bend), const(0.0)):
                return None
            out.append((g, slope, simplify([0.5 * bend])[0]))
        return out


def first_fall(c0: UOp, c1: UOp, c2: UOp) -> UOp:
    """The first t >= 0 at which c0 + c1 t + c2 t² falls through zero, without a difference of nearly equal numbers.

    Where it is not above zero and rises, it must come back first: so a state that a bounce left a rounding behind the wall
    does not bounce twice.
    """
    inside = c1 * c1 - (4.0 * c0) * c2
    root = inside.maximum(0.0).sqrt()
    falling = ((2.0 * c0) / (root - c1)).maximum(0.0)
    later = (c1 + root) / (-2.0 * c2)
    return (c1 < 0.0).where((inside < 0.0).where(FAR, falling), (c2 < 0.0).where(later, FAR))


class Round:
    """One round as expressions; `step` is that of the method, from whole step to whole step."""

    def __init__(self, m: Meetings, step: Mapping[str, UOp], precision: str) -> None:
        self.m, self.fine = m, FINE[precision]
        self.n = len(m.guards)
        every = [step[s.name] for s in m.system.states]
        self.solves = any(u.op is Ops.SOLVE for u in toposort(every))  # what is solved for stays an array
        self.flat = [x for group in (map(elements, every) if self.solves else unroll(every)) for x in group]
        self.search = UOp.var(SEARCH, (NUMBERS,))
        self.fired, self.rests = UOp.var(FIRED, (self.n,)), UOp.var(RESTS, (self.n,))
        self.old = elements(self.search)
        self.hit, self.rest = elements(self.fired), elements(self.rests)
        self.resting = [k for k in range(self.n) if m.can_rest(k)]
        self.flies = m.parabolas is not None
        self.happens: list[tuple[UOp, UOp | None]] = []  # of each guard: does it jump, and come to rest then?
        self.stages: list[Numbers] = []  # the states after the jump of each guard
        self.conditions: Mapping[str, UOp] = {}

    # --- what is tried -------------------------------------------------------------------------
    @cached_property
    def left(self) -> UOp:
        return DT - self.old[GONE]

    @cached_property
    def scale(self) -> UOp:
        """About dt, to measure lengths by: a coefficient times dt itself would have to be known to all digits."""
        return self.old[GONE] + self.left

    @cached_property
    def at_rest(self) -> UOp | None:
        """Does the member rest on some wall?"""
        return any_of([self.rest[k] > 0.0 for k in self.resting]) if self.resting else None

    @cached_property
    def meets(self) -> Numbers:
        """In flight: when each guard falls next."""
        assert self.m.parabolas is not None
        out = []
        for k, (c0, c1, c2) in enumerate(self.m.parabolas):
            c = self.m.owners[k]
            if c.kind == "wall":
                out.append(first_fall(c0, c1, c2))
                continue
            just = self.hit[k] > 0.0  # it is at its zero, and has to come back first
            ways = []
            for sign, wanted in ((1.0, c.direction <= 0), (-1.0, c.direction >= 0)):
                a, b, d = sign * c0, sign * c1, sign * c2
                back = ((b > 0.0) & (d < 0.0)).where(b / (-d), FAR)
                ways.append(
                    just.where(back, (a > 0.0).where(first_fall(a, b, d), FAR)) if wanted else const(FAR)
                )
            out.append(ways[0].minimum(ways[1]))
        return out

    @cached_property
    def length(self) -> UOp:
        """Of the step that this round tries."""
        mode = self.old[MODE]
        whole = self.left
        if self.flies:
            flight = least([self.left, *self.meets])
            whole = flight if self.at_rest is None else self.at_rest.where(self.left, flight)
        tries_all = (mode.eq(WHOLE)) | (mode.eq(AGAIN))
        return tries_all.where(whole, self.old[NEXT])

    @cached_property
    def there(self) -> Numbers:
        """The states at the end of it."""
        return substitute(self.after, {LENGTH: self.length})

    @cached_property
    def after(self) -> Numbers:
        """The states after a step of a length."""
        z = substitute(self.flat, {DT: LENGTH})
        z = [LENGTH.eq(0.0).where(x, u) for x, u in zip(self.m.z, z)]
        for k in self.resting:  # along the wall, one after the other
            settled = self.m.at(self.m.settled(k), z)
            z = [(self.rest[k] > 0.0).where(s, u) for s, u in zip(settled, z)]
        return z

    # --- guards at both ends -------------------------------------------------------------------
    @cached_property
    def values(self) -> tuple[Numbers, Numbers]:
        """Of each guard, at both ends, a number that becomes negative where it is crossed; FAR where it cannot be."""
        m, begin, end = self.m, [], []
        for k, c in enumerate(m.owners):
            g0 = m.guards[k]
            (g1,) = m.at([g0], self.there)
            if c.kind == "wall":
                a, b = g0.maximum(0.0), g1 - g0.minimum(0.0)
                if k in self.resting:
                    pull0 = -m.bends[k]
                    (pull1,) = m.at([pull0], self.there)
                    rest = self.rest[k] > 0.0
                    a, b = rest.where(pull0.maximum(0.0), a), rest.where(pull1 - pull0.minimum(0.0), b)
            else:
                falls, rises = (const(FAR) if c.direction == s else None for s in (1, -1))
                down = falls if falls is not None else g1
                up = rises if rises is not None else -g1
                first = [x if y is None else y for x, y in ((g0, falls), (-g0, rises))]
                a = (g0 > 0.0).where(first[0], (g0 < 0.0).where(first[1], FAR))
                b = (g0 > 0.0).where(down, (g0 < 0.0).where(up, FAR))
            begin.append(a)
            end.append(b)
        return begin, end

    @cached_property
    def crossed(self) -> Numbers:
        return [v < 0.0 for v in self.values[1]]

    @cached_property
    def nearest(self) -> tuple[UOp, UOp] | None:
        """(is a wall approached and left in this step, when it is nearest by a cubic through values and slopes)."""
        walls = [k for k, c in enumerate(self.m.owners) if c.kind == "wall"]
        if not walls:
            return None
        m, wanted, place, lowest = self.m, [], const(0.0), const(FAR)
        slopes = m.at([m.slopes[k] for k in walls], self.there)
        guards = m.at([m.guards[k] for k in walls], self.there)
        for k, s1, g1 in zip(walls, slopes, guards):
            g0, d0, d1 = m.guards[k], self.length * m.slopes[k], self.length * s1
            turns = (d0 < 0.0) & (d1 > 0.0)
            if k in self.resting:
                turns = turns & (self.rest[k].eq(0.0))
            rise = g1 - g0
            c2, c3 = 3.0 * rise - 2.0 * d0 - d1, d0 + d1 - 2.0 * rise
            x = -d0 / (c2 + (c2 * c2 - (3.0 * c3) * d0).maximum(0.0).sqrt())
            low = g0 + x * (d0 + x * (c2 + x * c3))
            better = turns & (low < lowest) & (x > 0.0) & (x < 1.0)
            wanted.append(turns & (x > 0.0) & (x < 1.0))
            place, lowest = better.where(x * self.length, place), better.where(low, lowest)
        return any_of(wanted), place

    # --- jumps ---------------------------------------------------------------------------------
    def fires(self) -> Numbers:
        """Which guards jump, in a round that does."""
        if not self.flies:
            return [h > 0.0 for h in self.hit]
        last = self.length + (8.0 * self.fine) * self.scale
        flying = [t <= last for t in self.meets]
        if self.at_rest is None:
            return flying
        searched = self.old[MODE].eq(JUMP)
        return [searched.where(h > 0.0, f & ~self.at_rest) for h, f in zip(self.hit, flying)]

    def along(self, way: Mapping[UOp, UOp]) -> Assignments:
        """How a round moves a direction: by the derivative of the step, and at a crossing by the saltation matrix.

        S = DR + (f⁺ - DR f⁻) ∇gᵀ/(∇g·f⁻), with the rates of the whole system before and after (numerics.md 25; Aizerman and
        Gantmakher 1958, Q. J. Mech. Appl. Math. 11, 225): the time of a crossing moves with the state.
        """
        m = self.m
        states = [s.var for s in m.system.states]
        old = [e for v in states for e in elements(way[v])]
        known = frozenset(states)
        given = [(v, d) for v, d in way.items() if v not in known]  # parameters that move
        own, moves = ([e for pair in given for e in elements(pair[k])] for k in (0, 1))
        moved = jvp(self.after, [*m.z, *own], [*old, *moves])
        d = taken = substitute(moved, {LENGTH: self.length})
        symbols = [UOp.var(f"direction {k}") for k in range(len(m.z))]
        z = self.there
        for k, c in enumerate(m.owners):
            on, piles = self.happens[k]
            jump, rate = m.jumps[k], m.slopes[k]
            new = jvp(jump, [*m.z, *own], [*symbols, *moves])
            (height,) = jvp([m.guards[k]], [*m.z, *own], [*symbols, *moves])
            turned, after = jvp(jump, m.z, m.rates), m.at(m.rates, jump)
            salt = [x + (a - b) * (height / rate) for x, a, b in zip(new, after, turned)]
            if c.kind == "wall":
                on = on & (m.at([rate], z)[0] < 0.0)
            at = dict(zip(m.z, z)) | dict(zip(symbols, d))
            found = substitute(salt, at)
            if piles is not None:
                landed = m.at(jump, z)
                flat = jvp(m.settled(k), [*m.z, *own], [*symbols, *moves])
                settled = substitute(flat, dict(zip(m.z, landed)) | dict(zip(symbols, found)))
                found = [piles.where(s, x) for s, x in zip(settled, found)]
            d = [on.where(x, y) for x, y in zip(found, d)]
            z = self.stages[k]
        going, jumps, takes = (self.conditions[name] for name in ("going", "jump", "taken"))
        values = [going.where(jumps.where(x, takes.where(y, o)), o) for x, y, o in zip(d, taken, old)]
        directions = [way[v] for v in states]
        return tuple(zip(directions, rolled(values, directions)))

    @cached_property
    def jumped(self) -> tuple[Numbers, Numbers, Numbers, UOp, UOp]:
        """(states after all jumps, FIRED, RESTS, how long what is left of bounces takes, do some graze?)"""
        m, z = self.m, self.there
        fired, rests, tail = [const(0.0)] * self.n, list(self.rest), const(0.0)
        grazes: Numbers = []
        fires = self.fires()
        for k, c in enumerate(m.owners):
            on = fires[k]
            after = m.at(m.jumps[k], z)
            code = (m.at([m.slopes[k]], z)[0] > 0.0).where(ROSE, const(FELL))
            piles: UOp | None = None
            if c.kind == "wall":
                rate, speed = m.at([m.slopes[k], self.across(k)], z)
                grazes.append(on & (abs(rate) <= GRAZING * speed))
                on_wall = on
                if k in self.resting:
                    leaves = self.rest[k] > 0.0
                    on_wall = on & ~leaves
                    u, bend = m.at([m.slopes[k], m.bends[k]], after)
                    hop = (2.0 * u) / (-bend)
                    part = max(PILED * (1.0 - c.restitution), 16.0 * self.fine)
                    low = 0.25 * (u * hop) <= (16.0 * self.fine) * m.at([m.size(k)], after)[0]
                    piles = on_wall & (bend < 0.0) & ((hop <= part * self.scale) | low)
                    settled = m.at(m.settled(k), after)
                    after = [piles.where(s, x) for s, x in zip(settled, after)]
                    tail = piles.where(hop / (1.0 - c.restitution) if c.restitution < 1.0 else 0.0, tail)
                    rests[k] = piles.where(1.0, (on & leaves).where(0.0, rests[k]))
                    code = piles.where(RESTED, code)
                on = on_wall
            z = [on.where(x, old) for x, old in zip(after, z)]
            fired[k] = on.where(code, 0.0)
            self.happens.append((on, piles))
            self.stages.append(z)
        return z, fired, rests, tail, any_of(grazes) if grazes else const(1.0) < 0.0

    def across(self, k: int) -> UOp:
        """The speed that would be all across a wall: of dg/dt at most."""
        m = self.m
        n, _, size = m.normal(k)
        v = [m.rates[m.places[q]] for q in m.q]
        return (size * abs(dot(m.p, v))).sqrt()

    # --- what follows ----------------------------------------------------------------------------
    def assignments(self) -> Assignments:
        """New values of all states."""
        o, L = self.old, self.length
        mode = o[MODE]
        going = ~(o[DONE].eq(LAST) & mode.eq(WHOLE) & o[GONE].eq(0.0))
        begin, end = self.values
        at_begin, at_end = least(begin), least(end)
        found = at_end < 0.0
        tries_all = mode.eq(WHOLE)
        flying = self.flies
        # in flight a round that ends at an event jumps at once
        lands: UOp | None = None
        if flying:
            lands = tries_all & any_of([t <= L for t in self.meets])
            if self.at_rest is not None:
                lands = lands & ~self.at_rest
        jump = mode.eq(JUMP) if lands is None else mode.eq(JUMP) | lands
        searching = mode.eq(NARROW)
        starts = (tries_all | mode.eq(NEAREST)) & found
        if lands is not None:
            starts = starts & ~lands
            if self.at_rest is not None:  # what flight has shown needs no search
                starts = starts & (mode.eq(NEAREST) | self.at_rest)
            else:
                starts = starts & mode.eq(NEAREST)
        looks: UOp | None = None
        place = const(0.0)
        if self.nearest is not None and (not flying or self.at_rest is not None):
            turns, place = self.nearest
            looks = tries_all & ~found & turns
            if flying:
                assert self.at_rest is not None
                looks = looks & self.at_rest
        # a bracket: begun here, or made narrower
        a = searching.where(found.where(o[A], L), 0.0)
        at_a = searching.where(found.where(o[AT_A], at_end), at_begin)
        b = searching.where(found.where(L, o[B]), L)
        at_b = searching.where(found.where(at_end, o[AT_B]), at_end)
        room = searching.where(0.5 * o[ROOM], SLACK * L)
        middle = a + 0.5 * (b - a)
        closed = (b - a <= self.fine * self.scale) | ~((a < middle) & (middle < b))
        hits = [
            searching.where(found.where(c.where(1.0, 0.0), h), c.where(1.0, 0.0))
            for c, h in zip(self.crossed, self.hit)
        ]
        inside = [
            (h > 0.0) & (self.rest[k].eq(0.0)) if k in self.resting else h > 0.0
            for k, h in enumerate(hits)
            if self.m.owners[k].kind == "wall"
        ]
        # a wall is met before it is crossed, and all else after
        last = any_of(inside).where(a, b) if inside else b
        following = closed.where(last, self.guess(a, b, at_a, at_b, middle, room))
        narrows = searching | starts
        after, fired, rests, tail, grazes = self.jumped
        gone = o[GONE] + L
        over = jump & (DT - gone <= self.fine * self.scale)
        taken = (tries_all & ~starts) | mode.eq(AGAIN)
        if looks is not None:
            taken = taken & ~looks
        if lands is not None:
            taken = taken & ~lands
        again = mode.eq(NEAREST) & ~found
        ends = taken | over
        fires = [f > 0.0 for f in fired]
        count = o[COUNT] + jump.where(1.0, 0.0)
        stopped = o[STOPPED] > 0.0  # the round before has shown where
        lost = (count > MOST) | stopped
        several = const(0.0)
        for f in fires:
            several = several + f.where(1.0, 0.0)
        ties = jump & (several > 1.0)

        def move(value: UOp, old: UOp) -> UOp:
            return going.where(value, old)

        new = list(o)
        new[GONE] = ends.where(0.0, jump.where(gone, o[GONE]))
        stepped = o[DONE] + 1.0
        new[DONE] = ends.where(stepped.eq(float(COUNTED)).where(0.0, stepped), o[DONE])
        mode_next = narrows.where(closed.where(JUMP, NARROW), const(WHOLE))
        mode_next = again.where(AGAIN, mode_next)
        if looks is not None:
            mode_next = looks.where(NEAREST, mode_next)
        new[MODE] = mode_next
        new[A], new[B] = narrows.where(a, 0.0), narrows.where(b, 0.0)
        new[AT_A], new[AT_B] = narrows.where(at_a, 0.0), narrows.where(at_b, 0.0)
        nxt = narrows.where(following, const(0.0))
        new[NEXT] = looks.where(place, nxt) if looks is not None else nxt
        new[ROOM] = narrows.where(room, 0.0)
        new[COUNT] = ends.where(0.0, count)
        new[TIES] = o[TIES] + ties.where(1.0, 0.0)
        new[GRAZES] = o[GRAZES] + (jump & grazes).where(1.0, 0.0)
        new[TAIL] = jump.where(tail, 0.0)
        counted = o[TOTAL] + jump.where(1.0, 0.0)
        new[TOTAL] = counted.eq(float(COUNTED)).where(0.0, counted)
        stops = [f for f, c in zip(fires, self.m.owners) if c.stops]
        if stops:
            new[STOPPED] = (jump & any_of(stops)).where(1.0, o[STOPPED])
            new[DONE] = stopped.where(LAST, new[DONE])
            for k in (GONE, MODE):
                new[k] = stopped.where(0.0, new[k])
            going = going | stopped
        nan = const(float("nan"))
        z = [
            lost.where(nan, jump.where(j, taken.where(t, x))) for x, t, j in zip(self.m.z, self.there, after)
        ]
        z = [move(v, x) for v, x in zip(z, self.m.z)]
        hit = [jump.where(f, narrows.where(h, 0.0)) for f, h in zip(fired, hits)]
        search = UOp.stack([move(v, x) for v, x in zip(new, o)], (NUMBERS,))
        fired_new = UOp.stack([move(v, self.hit[k]) for k, v in enumerate(hit)], (self.n,))
        rests_new = UOp.stack([move(jump.where(r, x), x) for r, x in zip(rests, self.rest)], (self.n,))
        states = [s.var for s in self.m.system.states]
        values = (
            *zip(states, rolled(z, states)),
            (self.search, search),
            (self.fired, fired_new),
            (self.rests, rests_new),
        )
        self.conditions = {"going": going, "jump": jump, "taken": taken}
        return tuple(values)

    def guess(self, a: UOp, b: UOp, at_a: UOp, at_b: UOp, middle: UOp, room: UOp) -> UOp:
        """The next place to look at: runtime/engines/roots.py in the language of expressions."""
        width = b - a
        secant = a + width * (at_a / (at_a - at_b))
        secant = ((a <= secant) & (secant <= b)).where(secant, middle)
        off = middle - secant
        to = (off > 0.0).where(1.0, (off < 0.0).where(-1.0, const(0.0)))
        bent = (BENT * (width * (width / self.scale))).maximum((2.0 * self.fine) * self.scale)
        x = (bent <= abs(off)).where(secant + to * bent, middle)
        wide = (room - 0.5 * width).maximum(0.0)
        x = (abs(x - middle) <= wide).where(x, middle - to * wide)
        return ((a < x) & (x < b)).where(x, middle)


def cut_step(step: Step, program: Mapping[str, UOp], m: Meetings, precision: str) -> Step:
    """The step as rounds; `program` is its map from whole step to whole step."""
    system = m.system
    r = Round(m, program, precision)
    values = r.assignments()
    taken = None
    if system.energy is not None:
        (energy,) = unroll([system.energy])[0]
        before, after = m.at([energy], r.there)[0], m.at([energy], r.jumped[0])[0]
        taken = (r.conditions["going"] & r.conditions["jump"]).where(before - after, 0.0)
    told = Row("walls and events", how_found(r), "")
    flow = Rounds(values, taken, None if r.solves else r.along, (told,))
    states = tuple(State(str(v.arg), v, "auxiliary") for v in (r.search, r.fired, r.rests))
    return replace(
        step,
        states=(*step.states, *states),
        parameters=(*step.parameters, Parameter(str(LAST.arg), LAST)),
        claims=(),
        init=(),
        body=(flow,),
        final=(),
    )


def how_found(r: Round) -> str:
    if r.flies:
        return "certain: flight is exact, and the first root of each guard is known in closed form"
    return "sampled: signs are compared at the ends of steps, and of walls where they are nearest in between"
