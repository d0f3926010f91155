"""How does the drift of a step reflect at walls?  Kick, flight from wall to wall, kick: the flow of a billiard in between.

Rounds go from wall to wall as in free flight (synth/methods/event_rounds.py); the first one of a step begins with a kick, the
last one ends with one. All three are symplectic, and each is its own mirror image, so the step is, too. But a bounce sees no
force, and one in the middle of a step is wrong by a part of the step: the run is of first order, and its derivative is not
that of the motion (numerics.md 25).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from tinyphysics.flows.cotangents import Total
from tinyphysics.flows.map import Assignments
from tinyphysics.ir import UOp, elements, substitute
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.unroll import rolled, unroll
from tinyphysics.rules.calculus.vjp import vjp
from tinyphysics.step import DT
from tinyphysics.synth.methods import saltation
from tinyphysics.synth.methods.event_rounds import COUNT, DONE, GONE, LAST, Round
from tinyphysics.synth.methods.meetings import Meetings, Numbers, const

HALF = 0.5  # of dt: a kick


class KickedRound:
    """Rounds of free flight, the first and the last of a step with a kick."""

    def __init__(self, m: Meetings, flight: Meetings, precision: str) -> None:
        self.m = m
        states = [s.var for s in m.system.states]
        drifted = [x + DT * v for x, v in zip(flight.z, flight.rates)]
        drift = dict(zip((s.name for s in m.system.states), rolled(drifted, states)))
        self.r = Round(flight, drift, precision)
        own = self.r.assignments()
        new = substitute([u for _, u in own], self.kicked)
        self.inner: Numbers = [
            x for group in unroll(new[: len(states)]) for x in group
        ]  # before the last kick
        going, taken, over = (self.r.conditions[name] for name in ("going", "taken", "over"))
        (self.ends,) = substitute([going & (taken | over)], self.kicked)
        last = self.where(self.ends, self.kick_at(self.inner), self.inner)
        self.values: Assignments = (
            *zip(states, rolled(last, states)),
            *zip([v for v, _ in own[len(states) :]], new[len(states) :]),
        )

    @cached_property
    def kick(self) -> Numbers:
        m = self.m
        return m.with_momenta([p + (HALF * DT) * m.rates[m.places[p]] for p in m.p])

    def kick_at(self, z: Numbers) -> Numbers:
        return self.m.at(self.kick, z)

    @cached_property
    def begins(self) -> UOp:
        """Is this the first round of a step?"""
        o = self.r.old
        return ~o[DONE].eq(LAST) & o[GONE].eq(0.0) & o[COUNT].eq(0.0)

    @cached_property
    def first(self) -> Numbers:
        """The states from which this round flies."""
        return self.where(self.begins, self.kick, self.m.z)

    @cached_property
    def kicked(self) -> dict[UOp, UOp]:
        return dict(zip(self.m.z, self.first))

    def where(self, on: UOp, one: Numbers, other: Numbers) -> Numbers:
        return [y if x is y else on.expand(x.shape).where(x, y) for x, y in zip(one, other)]

    def taken(self) -> UOp:
        """The energy that a bounce takes in this round: rounding."""
        r, m = self.r, self.m
        assert m.system.energy is not None, "a wall has masses, and so an energy"
        (energy,) = unroll([m.system.energy])[0]
        before, after = m.at([energy], r.there)[0], m.at([energy], r.jumped[0])[0]
        took = (r.conditions["going"] & r.conditions["jump"]).where(before - after, 0.0)
        return substitute([took], self.kicked)[0]

    # --- derivatives: of this map, kick by kick and bounce by bounce ---------------------------------------------
    def along(self, way: Mapping[UOp, UOp], late: UOp) -> Assignments:
        m = self.m
        states = [s.var for s in m.system.states]
        old = [e for v in states for e in elements(way[v])]
        given = [(v, d) for v, d in way.items() if v not in frozenset(states)]
        own, moves = ([e for pair in given for e in elements(pair[k])] for k in (0, 1))
        inputs = [*m.z, *own]
        begun = jvp(self.first, inputs, [*old, *moves])
        flown = saltation.along(self.r, way, late)
        table = self.kicked | dict(zip(old, begun))
        new = substitute([u for _, u in flown], table)
        d = [x for group in unroll(new[: len(states)]) for x in group]
        symbols = [UOp.var(f"direction {k}") for k in range(len(m.z))]
        ended = substitute(
            jvp(self.kick, inputs, [*symbols, *moves]), dict(zip(m.z, self.inner)) | dict(zip(symbols, d))
        )
        directions = [way[v] for v in states]
        return (*zip(directions, rolled(self.where(self.ends, ended, d), directions)), (late, new[-1]))

    def back(self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[Assignments, tuple[Total, ...]]:
        m = self.m
        states, own = [s.var for s in m.system.states], list(sums)
        last = [e for v in states for e in elements(bars[v])]
        seeds = [UOp.var(f"cotangent {k}") for k in range(len(m.z))]
        inputs = [*m.z, *own]
        n = len(m.z)
        ended = substitute(vjp(self.kick, seeds, inputs), dict(zip(m.z, self.inner)) | dict(zip(seeds, last)))
        w = self.where(self.ends, ended[:n], last)
        nothing = [const(0.0).expand(v.shape) for v in own]
        more = self.where(self.ends, ended[n:], nothing)
        pulled, totals = saltation.back(self.r, bars, sums)
        table = self.kicked | dict(zip(last, w))
        new = substitute([u for _, u in pulled], table)
        added = dict(zip((t.total for t in totals), substitute([t.value for t in totals], table)))
        w = [x for group in unroll(new[: len(states)]) for x in group]
        begun = substitute(vjp(self.first, seeds, inputs), dict(zip(seeds, w)))
        directions = [bars[v] for v in states]
        found = tuple(Total(sums[v], added[sums[v]] + x + y) for v, x, y in zip(own, more, begun[n:]))
        return (*zip(directions, rolled(begun[:n], directions)), (pulled[-1][0], new[-1])), found
