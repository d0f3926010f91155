"""How does a round from event to event move directions, and pull cotangents back?  The time of what is met moves, too.

A direction d, beside the time l by which the events of this step so far come later: at the guard g, reached with the speed
v by a step of length τ, the event comes δ = -∇g·d / ∇g·v later, and d becomes DR (d + v δ), l becomes l + δ; what is left
of the step is shorter by l. With the speeds of the flow itself that is the saltation matrix, S =
DR + (f⁺ - DR f⁻) ∇gᵀ/(∇g·f⁻)
(numerics.md 25; Aizerman and Gantmakher 1958, Q. J. Mech. Appl. Math. 11, 225). Here v is the derivative of the method's own
step by its length, so that this is the derivative of the run, to rounding, whatever the order of the method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tinyphysics.flows.cotangents import Total
from tinyphysics.flows.map import Assignments
from tinyphysics.ir import UOp, elements, substitute
from tinyphysics.rules.calculus import through_solutions
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.unroll import rolled
from tinyphysics.rules.calculus.vjp import vjp
from tinyphysics.rules.formulas.constraints import dot
from tinyphysics.step import DT
from tinyphysics.synth.methods.event_rounds import GONE, LENGTH, Round
from tinyphysics.synth.methods.meetings import Numbers, const

Derivative = Callable[[Sequence[UOp], Sequence[UOp], Sequence[UOp]], Numbers]


@dataclass(frozen=True, eq=False)
class Stage:
    """What one guard does at the end of a round that jumps."""

    on: UOp  # does it?
    leaves: UOp | None  # or is it left by a body that rested on it?
    piles: UOp | None  # does the body come to rest?
    z: Numbers  # the states before
    v: Numbers  # their derivative by the length of the round
    k: int


def stages(r: Round) -> tuple[list[Stage], Numbers]:
    """(of each guard in their order, the speed after all of them)."""
    m, z, out = r.m, r.there, []
    v = speed(r)
    for k, c in enumerate(m.owners):
        on, piles, leaves = r.happens[k]
        if c.kind == "wall":
            on = on & (m.at([m.slopes[k]], z)[0] < 0.0)
        out.append(Stage(on, leaves, piles, z, v, k))
        after = m.at(m.rates, m.at(m.jumps[k], z))
        if piles is not None:
            flat = moved(r, m.settled(k), m.at(m.jumps[k], z), after)
            after = where(piles, flat, after)
        v, z = where(on, after, v), r.stages[k]
    return out, v


def moved(r: Round, values: Numbers, z: Numbers, d: Numbers) -> Numbers:
    """How some functions of the states change at z along d."""
    symbols = [UOp.var(f"direction {k}") for k in range(len(r.m.z))]
    return substitute(jvp(values, r.m.z, symbols), dict(zip(r.m.z, z)) | dict(zip(symbols, d)))


def through(r: Round) -> tuple[Derivative, Derivative]:
    """(jvp, vjp) of a step that may solve equations."""
    return (through_solutions.pushed, through_solutions.pulled) if r.solves else (jvp, vjp)


def speed(r: Round) -> Numbers:
    """The derivative of the states after a round by its length."""
    v = substitute(through(r)[0](r.after, [LENGTH], [const(1.0)]), {LENGTH: r.length})
    return where(r.length.eq(0.0), r.m.rates, v)


def where(on: UOp, one: Numbers, other: Numbers) -> Numbers:
    return [on.expand(x.shape).where(x, y) for x, y in zip(one, other)]


def along(r: Round, way: Mapping[UOp, UOp], late: UOp) -> Assignments:
    """How a round moves a direction, and by how much later the events of a step come."""
    m = r.m
    states = [s.var for s in m.system.states]
    old = [e for v in states for e in elements(way[v])]
    known = frozenset(states)
    given = [(v, d) for v, d in way.items() if v not in known]  # parameters that move
    own, moves = ([e for pair in given for e in elements(pair[k])] for k in (0, 1))
    inputs, symbols = [*m.z, *own], [UOp.var(f"direction {k}") for k in range(len(m.z))]
    first = substitute(through(r)[0](r.after, inputs, [*old, *moves]), {LENGTH: r.length})
    first = where(
        r.length.eq(0.0), old, first
    )  # in no time nothing moves, whatever the derivative of a quotient is
    d, later = first, late

    def along_at(values: Numbers, z: Numbers, d: Numbers) -> Numbers:
        found = jvp(values, inputs, [*symbols, *moves])
        return substitute(found, dict(zip(m.z, z)) | dict(zip(symbols, d)))

    met, last = stages(r)
    for s in met:
        jump = m.jumps[s.k]
        for on, guard, after in ((s.leaves, m.bends[s.k], None), (s.on, m.guards[s.k], jump)):
            if on is None:
                continue
            (rise,), (rate,) = along_at([guard], s.z, d), moved(r, [guard], s.z, s.v)
            delay = -rise / rate
            shifted = [x + y * delay for x, y in zip(d, s.v)]
            if after is not None:
                shifted = along_at(after, s.z, shifted)
            if after is not None and s.piles is not None:
                shifted = where(s.piles, along_at(m.settled(s.k), m.at(jump, s.z), shifted), shifted)
            d, later = where(on, shifted, d), on.where(later + delay, later)
    going, jumps, takes, over = (r.conditions[name] for name in ("going", "jump", "taken", "over"))
    d = where(over, [x - y * later for x, y in zip(d, last)], d)
    taken = [x - y * late for x, y in zip(first, speed(r))]
    values = where(going, where(jumps, d, where(takes, taken, old)), old)
    shift = going.where(jumps.where(over.where(0.0, later), takes.where(0.0, late)), late)
    directions = [way[v] for v in states]
    return *zip(directions, rolled(values, directions)), (late, shift)


def back(r: Round, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[Assignments, tuple[Total, ...]]:
    """How a round pulls cotangents back: by the transposed matrices of `along`, the last jump first.

    What pulls on the delay of events stands in the cotangent of the time that is gone.
    """
    m = r.m
    states = [s.var for s in m.system.states]
    own = [v for v in sums if v is not DT]
    inputs = [*m.z, *own]
    last = [e for v in states for e in elements(bars[v])]
    search = elements(bars[r.search])
    nothing = [const(0.0).expand(v.shape) for v in own]
    seeds = [UOp.var(f"cotangent {k}") for k in range(len(m.z))]
    met, end = stages(r)

    def pulled(values: Numbers, z: Numbers, w: Numbers) -> tuple[Numbers, Numbers]:
        found = vjp(values, seeds[: len(values)], inputs)
        found = substitute(found, dict(zip(m.z, z)) | dict(zip(seeds, w)))
        return found[: len(m.z)], found[len(m.z) :]

    def added(by: Numbers, on: UOp, more: Numbers) -> Numbers:
        return [x + y for x, y in zip(by, where(on, more, nothing))]

    going, jumps, takes, over = (r.conditions[name] for name in ("going", "jump", "taken", "over"))
    pulls = dot(end, last)
    w, by, delay = last, nothing, over.where(-pulls, search[GONE])
    for s in reversed(met):
        jump = m.jumps[s.k]
        for on, guard, turns in ((s.on, m.guards[s.k], True), (s.leaves, m.bends[s.k], False)):
            if on is None:
                continue
            u, more = w, nothing
            if turns:
                if s.piles is not None:
                    flat, of_flat = pulled(m.settled(s.k), m.at(jump, s.z), u)
                    u, more = where(s.piles, flat, u), where(s.piles, of_flat, more)
                u, of_jump = pulled(jump, s.z, u)
                more = [x + y for x, y in zip(more, of_jump)]
            (rate,) = moved(r, [guard], s.z, s.v)
            push, of_push = pulled([guard], s.z, [-(dot(s.v, u) + delay) / rate])
            w = where(on, [x + y for x, y in zip(u, push)], w)
            by = added(by, on, [x + y for x, y in zip(more, of_push)])
    w, by = where(jumps, w, last), where(jumps, by, nothing)
    first_pull = dot(speed(r), last)
    found = substitute(through(r)[1](r.after, seeds, inputs), {LENGTH: r.length} | dict(zip(seeds, w)))
    still, moves = r.length.eq(0.0), going & (jumps | takes)
    by = added(by, ~still, found[len(m.z) :])
    w = where(moves, where(still, w, found[: len(m.z)]), last)
    delay = going.where(jumps.where(delay, takes.where(-first_pull, search[GONE])), search[GONE])
    directions = [bars[v] for v in states]
    totals = [Total(sums[v], x) for v, x in zip(own, where(moves, by, nothing))]
    if DT in sums:
        of_dt = jumps.where(over.where(pulls, 0.0), takes.where(first_pull, 0.0))
        totals.append(Total(sums[DT], going.where(of_dt, 0.0)))
    new = UOp.stack([delay if k == GONE else x for k, x in enumerate(search)], (len(search),))
    return (*zip(directions, rolled(w, directions)), (bars[r.search], new)), tuple(totals)
