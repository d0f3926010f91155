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
from functools import cached_property
from typing import NamedTuple

from tinyphysics.flows.map import Assignments
from tinyphysics.ir import Ops, UOp, elements, substitute, toposort
from tinyphysics.rules.calculus.unroll import rolled, unroll
from tinyphysics.rules.formulas.constraints import dot
from tinyphysics.step import DT
from tinyphysics.synth.methods.first_roots import FAR, approach, first_fall
from tinyphysics.synth.methods.meetings import Meetings, Numbers, const

SEARCH, FIRED, RESTS = (
    "run.search",
    "run.fired",
    "run.rests",
)  # states of a run; no name of a user's has a dot
LAST = UOp.var("last step")  # a parameter that the engine tells: members that have come there wait
LENGTH = UOp.var("length of a round")
COUNTED = 1 << 20  # steps are counted modulo this
# numbers of SEARCH: the time gone in this step, steps done, crossings in this step, all of them, ties and grazes so far, the
# time that is left of bounces that pile up, and whether the member stops
GONE, DONE, COUNT, TOTAL, TIES, GRAZES, TAIL, STOPPED = range(8)
# where something has to be searched: what is tried, a bracket and the values at its ends, the next length, room for a guess
MODE, A, AT_A, B, AT_B, NEXT, ROOM = range(8, 15)
WHOLE, NARROW, NEAREST, AGAIN, JUMP, BEFORE = 0.0, 1.0, 2.0, 3.0, 4.0, 5.0  # what a round tries
FINE = {"float64": 2.0**-52, "float32": 2.0**-23, "dd": 2.0**-100}  # of dt: places that are nearer are one
SLACK = 2.0**11  # as runtime/engines/roots.py has it: rounds more than halving would need
BENT = 0.2
PILED = 2.0**-24  # of dt: bounces that are over in this time are one rest
GRAZING = 2.0**-26  # of the speed, across a wall
# where bodies rest on each other they would push each other to and fro without end: so short a flight, in parts of dt, counts
# as many crossings
SHORT, AT_ONCE = 2.0**-20, 2.0**12
MOST = 2.0**23  # crossings in one step; then something is wrong, and the member stops
BEHIND = (
    2.0**-33
)  # of the size of its terms, by which an event may put a body behind a wall; then the member stops
FELL, RESTED, ROSE = 1.0, 2.0, 3.0  # in FIRED


def any_of(conditions: Sequence[UOp]) -> UOp:
    out = conditions[0]
    for c in conditions[1:]:
        out = out | c
    return out


def yes(condition: UOp | None) -> UOp:
    return const(1.0) > 0.0 if condition is None else condition


def least(values: Sequence[UOp]) -> UOp:
    out = values[0]
    for v in values[1:]:
        out = (v < out).where(v, out)
    return out


class Decision(NamedTuple):
    """What a round does."""

    jump: UOp
    taken: UOp  # is the step taken?
    hits: Numbers  # of a bracket: which guards are crossed in it
    kept: dict[int, UOp]  # numbers of SEARCH that a search remembers


class Round:
    """One round as expressions; `step` is that of the method, from whole step to whole step."""

    def __init__(self, m: Meetings, step: Mapping[str, UOp], precision: str) -> None:
        self.m, self.fine = m, FINE[precision]
        self.n = len(m.guards)
        every = [step[s.name] for s in m.system.states]
        self.solves = any(u.op is Ops.SOLVE for u in toposort(every))  # what is solved for stays an array
        self.flat = [x for group in (map(elements, every) if self.solves else unroll(every)) for x in group]
        self.flies = m.flights is not None
        self.hops = self.flies and m.parabolas is None  # rounds that go nearer to a root, and meet nothing
        self.resting = [k for k in range(self.n) if m.can_rest(k)]
        self.searches = not self.flies or bool(self.resting)
        self.search = UOp.var(SEARCH, (ROOM + 1 if self.searches else STOPPED + 1,))
        self.fired, self.rests = UOp.var(FIRED, (self.n,)), UOp.var(RESTS, (self.n,))
        self.old = elements(self.search)
        self.hit, self.rest = elements(self.fired), elements(self.rests)
        # of each guard: does it jump, does the body come to rest then, does it leave the wall on which it rested?
        self.happens: list[tuple[UOp, UOp | None, UOp | None]] = []
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
        """In flight: when each guard falls next; or a time before which it does not, where roots are approached."""
        return [t for t, _ in self.reaches]

    @cached_property
    def reaches(self) -> list[tuple[UOp, UOp | None]]:
        """In flight, of each guard: (a time, does it fall there?); None: it does."""
        assert self.m.flights is not None
        out = []
        for k, c in enumerate(self.m.flights):
            crossing = self.m.owners[k]
            if crossing.kind == "wall":
                out.append(self.reach(c, None))
                continue
            just = self.hit[k] > 0.0  # it is at its zero, and has to come back first
            ways = [
                self.reach([sign * x for x in c], just) if wanted else (const(FAR), None)
                for sign, wanted in ((1.0, crossing.direction <= 0), (-1.0, crossing.direction >= 0))
            ]
            (t0, sure0), (t1, sure1) = ways
            both = None if sure0 is None and sure1 is None else (t0 <= t1).where(yes(sure0), yes(sure1))
            out.append((t0.minimum(t1), both))
        return out

    def reach(self, c: Numbers, just: UOp | None) -> tuple[UOp, UOp | None]:
        """When a polynomial falls; `just`: was it met in the round before?"""
        if len(c) == 3:
            c0, c1, c2 = c
            if just is None:
                return first_fall(c0, c1, c2), None
            back = ((c1 > 0.0) & (c2 < 0.0)).where(c1 / (-c2), FAR)
            return just.where(back, (c0 > 0.0).where(first_fall(c0, c1, c2), FAR)), None
        if just is None:
            return approach(c, c[0] <= 0.0, self.left, self.fine * self.scale, self.fine)
        t, sure = approach(c, just, self.left, self.fine * self.scale, self.fine)
        comes = just.where((c[1] > 0.0).where(1.0, 0.0), (c[0] > 0.0).where(1.0, 0.0)) > 0.0
        return comes.where(t, FAR), sure

    @cached_property
    def length(self) -> UOp:
        """Of the step that this round tries."""
        whole = self.left
        if self.flies:
            flight = least([self.left, *self.meets])
            whole = flight if self.at_rest is None else self.at_rest.where(self.left, flight)
        if not self.searches:
            return whole
        mode = self.old[MODE]
        tries_all = (mode.eq(WHOLE)) | (mode.eq(AGAIN))
        return tries_all.where(whole, self.old[NEXT])

    @cached_property
    def there(self) -> Numbers:
        """The states at the end of it."""
        return substitute(self.after, {LENGTH: self.length})

    @cached_property
    def after(self) -> Numbers:
        """The states after a step of a length; on the walls on which the member rests."""
        # equations have no solution in no time, and what is not chosen must be a number
        z = substitute(self.flat, {DT: LENGTH.eq(0.0).where(self.scale, LENGTH) if self.solves else LENGTH})
        z = [LENGTH.eq(0.0).where(x, u) for x, u in zip(self.m.z, z)]
        for k in self.resting:  # one after the other
            held = self.m.kept_on(k, z, LENGTH)
            moves = (self.rest[k] > 0.0) & ~LENGTH.eq(0.0)
            z = [moves.where(s, u) for s, u in zip(held, z)]
        return z

    # --- guards at both ends -------------------------------------------------------------------
    @cached_property
    def values(self) -> tuple[Numbers, Numbers]:
        """Of each guard, at both ends, a number that becomes negative where it is crossed; FAR where it cannot be."""
        return self.ends_at(self.there)

    def ends_at(self, there: Numbers) -> tuple[Numbers, Numbers]:
        m, begin, end = self.m, [], []
        for k, c in enumerate(m.owners):
            g0 = m.guards[k]
            (g1,) = m.at([g0], there)
            if c.kind == "wall":
                a, b = g0.maximum(0.0), g1 - g0.minimum(0.0)
                if k in self.resting:
                    pull0 = -m.bends[k]
                    (pull1,) = m.at([pull0], there)
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
        return self.nearest_in(self.there, self.length)

    def nearest_in(self, there: Numbers, length: UOp) -> tuple[UOp, UOp] | None:
        walls = [k for k, c in enumerate(self.m.owners) if c.kind == "wall"]
        if not walls:
            return None
        m, wanted, place, lowest = self.m, [], const(0.0), const(FAR)
        slopes = m.at([m.slopes[k] for k in walls], there)
        guards = m.at([m.guards[k] for k in walls], there)
        for k, s1, g1 in zip(walls, slopes, guards):
            g0, d0, d1 = m.guards[k], length * m.slopes[k], length * s1
            turns = (d0 < 0.0) & (d1 > 0.0)
            if k in self.resting:
                turns = turns & (self.rest[k].eq(0.0))
            rise = g1 - g0
            c2, c3 = 3.0 * rise - 2.0 * d0 - d1, d0 + d1 - 2.0 * rise
            x = -d0 / (c2 + (c2 * c2 - (3.0 * c3) * d0).maximum(0.0).sqrt())
            low = g0 + x * (d0 + x * (c2 + x * c3))
            better = turns & (low < lowest) & (x > 0.0) & (x < 1.0)
            wanted.append(turns & (x > 0.0) & (x < 1.0))
            place, lowest = better.where(x * length, place), better.where(low, lowest)
        return any_of(wanted), place

    def clear(self) -> Assignments:
        """A whole step in which a round would find nothing, and no step where it might.

        It has the bits of the step that rounds take: between two whole steps nothing is remembered, no wall is rested on, no
        guard changes its sign, and no wall is approached and left: the least value of a wall in the step is one of its ends.
        """
        o = self.old
        length = self.left
        waits = o[DONE].eq(LAST) | ~o[GONE].eq(0.0) | ~o[MODE].eq(WHOLE) | ~o[STOPPED].eq(0.0)
        for x in (*self.hit, *(self.rest[k] for k in self.resting)):
            waits = waits | ~x.eq(0.0)
        there = substitute(self.flat, {DT: length})
        ends = self.ends_at(there)[1]
        turned = [s1 > 0.0 for s1 in self.m.at(self.m.slopes, there)]
        for k, c in enumerate(self.m.owners):
            waits = waits | ~(ends[k] >= 0.0)
            if c.kind == "wall":
                waits = waits | ((self.m.slopes[k] < 0.0) & turned[k])
        on = ~waits
        stepped = o[DONE] + 1.0
        done = on.where(stepped.eq(float(COUNTED)).where(0.0, stepped), o[DONE])
        search = UOp.stack([done if k == DONE else x for k, x in enumerate(o)], (len(o),))
        states = [s.var for s in self.m.system.states]
        z = [on.where(x, old) for x, old in zip(there, self.m.z)]
        return (*zip(states, rolled(z, states)), (self.search, search))

    # --- jumps ---------------------------------------------------------------------------------
    def fires(self) -> Numbers:
        """Which guards jump, in a round that does."""
        if not self.flies:
            return [h > 0.0 for h in self.hit]
        last = self.length + (8.0 * self.fine) * self.scale
        flying = [t <= last if sure is None else (t <= last) & sure for t, sure in self.reaches]
        if self.at_rest is None:
            return flying
        searched = self.old[MODE].eq(JUMP) | self.old[MODE].eq(BEFORE)
        return [searched.where(h > 0.0, f & ~self.at_rest) for h, f in zip(self.hit, flying)]

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
            leaving: UOp | None = None
            if c.kind == "wall":
                rate, speed = m.at([m.slopes[k], self.across(k)], z)
                grazed = on & (abs(rate) <= GRAZING * speed)
                on_wall = on
                if k in self.resting:
                    leaves = self.rest[k] > 0.0
                    on_wall, leaving = on & ~leaves, on & leaves
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
                    grazed = grazed & ~piles & ~leaves
                    if c.restitution < 1.0:  # pressed on the wall it will bounce on, less and less
                        grazed = grazed & ~(bend < 0.0)
                grazes.append(grazed)
                on = on_wall
            elif c.writes and (walls := [j for j, o in enumerate(m.owners) if o.kind == "wall"]):
                heights = m.at([m.guards[j] for j in walls], after)
                sizes = m.at([m.size(j) for j in walls], after)
                lost = any_of([g < -BEHIND * size for g, size in zip(heights, sizes)])
                after = [lost.where(float("nan"), x) for x in after]
            z = [on.where(x, old) for x, old in zip(after, z)]
            fired[k] = on.where(code, 0.0)
            self.happens.append((on, piles, leaving))
            self.stages.append(z)
        return z, fired, rests, tail, any_of(grazes) if grazes else const(1.0) < 0.0

    def across(self, k: int) -> UOp:
        """The speed that would be all across a wall: of dg/dt at most."""
        m = self.m
        n, _, size = m.normal(k)
        v = [m.rates[m.places[q]] for q in m.q]
        return (size * abs(dot(m.p, v))).sqrt()

    @cached_property
    def turns_back(self) -> UOp | None:
        """Does an event send its number back, past the zero that it has just crossed?  That would be an event again."""
        m, found = self.m, []
        for k, c in enumerate(m.owners):
            if c.kind != "wall" and c.writes and c.direction == 0:
                (before,) = m.at([m.slopes[k]], self.there)
                (after,) = m.at([m.slopes[k]], m.at(m.jumps[k], self.there))
                found.append((self.hit[k] > 0.0) & (before * after < 0.0))
        return any_of(found) if found else None

    # --- what follows ----------------------------------------------------------------------------
    @cached_property
    def lands(self) -> UOp:
        """In flight: does this round end at an event?  Then it jumps at once."""
        lands = any_of([t <= self.length for t in self.meets])
        return lands if self.at_rest is None else lands & ~self.at_rest

    @cached_property
    def hopped(self) -> UOp | None:
        """Does this round only go nearer to a root?"""
        if not self.hops:
            return None
        met = any_of(
            [t <= self.length if sure is None else (t <= self.length) & sure for t, sure in self.reaches]
        )
        nearer = self.lands & ~met
        return nearer & self.old[MODE].eq(WHOLE) if self.searches else nearer

    def flown(self) -> Decision:
        """Where flight is exact and no wall can be rested on."""
        return Decision(self.lands, ~self.lands, [], {})

    def searched(self) -> Decision:
        """By the signs of guards."""
        o, L, mode = self.old, self.length, self.old[MODE]
        begin, end = self.values
        at_begin, at_end = least(begin), least(end)
        found = at_end < 0.0
        tries_all, searching = mode.eq(WHOLE), mode.eq(NARROW)
        jump = mode.eq(JUMP)
        back = None if self.turns_back is None else jump & self.turns_back
        if back is not None:  # it is met before it is crossed
            jump = (jump & ~back) | mode.eq(BEFORE)
        starts = (tries_all | mode.eq(NEAREST)) & found
        taken = tries_all
        turns, place = (None, const(0.0)) if self.nearest is None else self.nearest
        looks = None if turns is None else tries_all & ~found & turns
        if self.flies:
            assert self.at_rest is not None
            lands = tries_all & self.lands
            jump = jump | lands
            starts = (
                starts & ~lands & (mode.eq(NEAREST) | self.at_rest)
            )  # what flight has shown needs no search
            looks = None if looks is None else looks & self.at_rest
            taken = taken & ~lands
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
        taken = (taken & ~starts) | mode.eq(AGAIN)
        if looks is not None:
            taken = taken & ~looks
        mode_next = narrows.where(closed.where(JUMP, NARROW), const(WHOLE))
        mode_next = (mode.eq(NEAREST) & ~found).where(AGAIN, mode_next)
        if looks is not None:
            mode_next = looks.where(NEAREST, mode_next)
        nxt = narrows.where(following, const(0.0))
        kept = {A: a, AT_A: at_a, B: b, AT_B: at_b, ROOM: room}
        kept = {k: narrows.where(u, 0.0) for k, u in kept.items()}
        nxt = nxt if looks is None else looks.where(place, nxt)
        hits = [narrows.where(h, 0.0) for h in hits]
        if back is not None:
            mode_next, nxt = back.where(BEFORE, mode_next), back.where(o[A], nxt)
            hits = [back.where(old, new) for old, new in zip(self.hit, hits)]
        return Decision(jump, taken, hits, kept | {MODE: mode_next, NEXT: nxt})

    def assignments(self) -> Assignments:
        """New values of all states."""
        o, L = self.old, self.length
        going = ~(o[DONE].eq(LAST) & o[GONE].eq(0.0))
        if self.searches:
            going = ~(o[DONE].eq(LAST) & o[MODE].eq(WHOLE) & o[GONE].eq(0.0))
        jump, taken, hits, kept = self.searched() if self.searches else self.flown()
        after, fired, rests, tail, grazes = self.jumped
        met = jump if self.hopped is None else jump & ~self.hopped
        gone = o[GONE] + L
        over = jump & (DT - gone <= self.fine * self.scale)
        ends = taken | over
        fires = [f > 0.0 for f in fired]
        weight = (L <= SHORT * self.scale).where(AT_ONCE, const(1.0)) if self.resting else const(1.0)
        count = o[COUNT] + jump.where(weight, 0.0)
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
        for place, value in kept.items():
            new[place] = value
        new[COUNT] = ends.where(0.0, count)
        new[TIES] = o[TIES] + ties.where(1.0, 0.0)
        new[GRAZES] = o[GRAZES] + (jump & grazes).where(1.0, 0.0)
        new[TAIL] = jump.where(tail, 0.0)
        counted = o[TOTAL] + met.where(1.0, 0.0)
        new[TOTAL] = counted.eq(float(COUNTED)).where(0.0, counted)
        stops = [f for f, c in zip(fires, self.m.owners) if c.stops]
        if stops:
            new[STOPPED] = (jump & any_of(stops)).where(1.0, o[STOPPED])
            new[DONE] = stopped.where(LAST, new[DONE])
            for k in (GONE, MODE) if self.searches else (GONE,):
                new[k] = stopped.where(0.0, new[k])
            going = going | stopped
        nan = const(float("nan"))
        z = [
            lost.where(nan, jump.where(j, taken.where(t, x))) for x, t, j in zip(self.m.z, self.there, after)
        ]
        z = [move(v, x) for v, x in zip(z, self.m.z)]
        hit = [jump.where(f, h) for f, h in zip(fired, hits or [const(0.0)] * self.n)]
        search = UOp.stack([move(v, x) for v, x in zip(new, o)], (len(o),))
        fired_new = UOp.stack([move(v, self.hit[k]) for k, v in enumerate(hit)], (self.n,))
        rests_new = UOp.stack([move(jump.where(r, x), x) for r, x in zip(rests, self.rest)], (self.n,))
        states = [s.var for s in self.m.system.states]
        values = (
            *zip(states, rolled(z, states)),
            (self.search, search),
            (self.fired, fired_new),
            (self.rests, rests_new),
        )
        self.conditions = {"going": going, "jump": jump, "taken": taken, "over": over}
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
