"""Which part of H is quadratic, and is the rest one of positions?  The fact that the interaction picture rests on.

T and the addends of V that are sums of oscillators, each of one number of q, are solved in closed form. A few numbers that
are coupled, by springs or a magnetic field, are solved as one matrix. Whatever else there is in V is the rest. Addends are
not opened further than sums, signs and factors that no state enters: (q*q - 1)**2 is the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

from tinyphysics.analysis.separable import LINEAR, signed_sum
from tinyphysics.facts import Fact, Facts
from tinyphysics.ir import Ops, UOp
from tinyphysics.rules.calculus.degree import degrees
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.formulas.oscillators import oscillators
from tinyphysics.rules.functions.random import draws
from tinyphysics.system import System

NAME = "quadratic part"
MOST_COUPLED = 8  # numbers of q in one matrix, whose exponential is taken in whole numbers where a run begins
ALL = 'all of H is quadratic: propagator="exact" solves it, in one jump'
Addend = tuple[UOp, bool]  # and whether it is subtracted


def addends(u: UOp, q: frozenset[UOp], minus: bool = False) -> Iterator[Addend]:
    """The addends of V, where it is more than quadratic."""
    waiting = [(u, minus)]
    while waiting:
        u, minus = waiting.pop()
        degree = degrees(u, q)[u]
        if u.op is Ops.ADD or u.op is Ops.SUB:
            waiting += [(u.src[1], minus != (u.op is Ops.SUB)), (u.src[0], minus)]
        elif u.op is Ops.NEG:
            waiting.append((u.src[0], not minus))
        elif degree is not None and degree <= 2:
            yield u, minus
        elif u.op in LINEAR or u.op is Ops.REDUCE and u.arg[0] in ("sum", "pairs"):
            for term, sign in addends(u.src[0], q, minus):
                yield u.replace((term, *u.src[1:])), sign
        elif (k := scaled(u, q)) is not None:
            for term, sign in addends(u.src[k], q, minus):
                yield u.replace((term, u.src[1]) if k == 0 else (u.src[0], term)), sign
        else:
            yield u, minus


def scaled(u: UOp, q: frozenset[UOp]) -> int | None:
    """Which source of a product or a quotient is scaled by one that no position enters."""
    if u.op is Ops.MUL:
        return next((k for k in (0, 1) if not u.src[1 - k].leaves & q), None)
    return 0 if u.op is Ops.DIV and not u.src[1].leaves & q else None


def interaction(system: System, facts: Facts) -> Fact:
    """With the parts `linear`, `rest`, and `oscillators`, one for each pair of states, or none where they are coupled."""
    if system.kind != "hamiltonian":
        return Fact.no(NAME, f"it is given by its {system.kind}, not by its energy", system.site)
    alone = by_numbers(system, facts)
    if alone and alone.coupled is None:
        return alone
    together = coupled(system)
    return together if together else alone


def parted(energy: UOp, states: frozenset[UOp], system: System) -> tuple[list[Addend], list[Addend]]:
    """The addends of degree 2 or less in some states that neither time nor chance changes, and the others."""
    low: list[Addend] = []
    rest: list[Addend] = []
    for u, minus in addends(energy, states):
        degree = degrees(u, states)[u]
        still = system.time not in u.leaves and not draws(u)
        (low if degree is not None and degree <= 2 and still else rest).append((u, minus))
    return low, rest


def by_numbers(system: System, facts: Facts) -> Fact:
    """Oscillators of single numbers; `coupled` is an addend that is quadratic and is none, which then is of the rest."""
    split = facts["separable"]
    if not split:
        return Fact.no(NAME, f"H is not shown to be separable: {split.because}", split.site)
    if not facts["T quadratic"]:
        return Fact.no(NAME, facts["T quadratic"].because, facts["T quadratic"].site)
    q, pairs, normal = frozenset(system.q), list(system.pairs), Normal()
    if oscillators(split.T, pairs, normal) is None:
        return Fact.no(
            NAME,
            f"T couples momenta with each other, which is solved for {MOST_COUPLED} numbers at most",
            system.sites.get(split.T),
        )
    low, rest = parted(split.V, q, system)
    solved = [x for x in low if oscillators(x[0], pairs, normal) is not None]
    tied = [x for x in low if not any(x is y for y in solved)]
    rest = [x for x in addends(split.V, q) if not any(x[0] is y[0] for y in solved)]
    other = tied[0][0] if tied else None
    if not any(degrees(u, q)[u] == 2 for u, _ in solved):
        if other is None:
            return Fact.no(NAME, "no addend of V is quadratic")
        why = f"{other} couples positions with each other, which is solved for {MOST_COUPLED} numbers at most"
        return Fact.no(NAME, why, system.sites.get(other))
    if not any(u.leaves & q for u, _ in rest):
        return Fact.no(NAME, ALL)
    linear = split.T + signed_sum(solved)
    found = oscillators(linear, pairs, normal)
    if found is None:
        return Fact.no(NAME, "the quadratic addends are not shown to be oscillators together")
    return Fact.yes(
        NAME,
        f"{signed_sum(solved)} is solved with T; the rest, {signed_sum(rest)}, kicks",
        linear=linear,
        rest=signed_sum(rest),
        oscillators=tuple(found),
        coupled=other,
    )


def coupled(system: System) -> Fact:
    """All that is quadratic in the state, products of positions and momenta included, as one matrix."""
    assert system.energy is not None
    q, p = frozenset(system.q), frozenset(system.p)
    count = sum(u.size for u in system.q)
    if count > MOST_COUPLED:
        return Fact.no(NAME, f"{count} numbers are coupled, {MOST_COUPLED} at most")
    low, rest = parted(system.energy, q | p, system)
    moving = next((u for u, _ in rest if u.leaves & p), None)
    if moving is not None:
        why = f"{moving} is not quadratic, and no function of positions"
        return Fact.no(NAME, why, system.sites.get(moving))
    if not any(u.leaves & q and degrees(u, q | p)[u] == 2 for u, _ in low):
        return Fact.no(NAME, "no addend with positions is quadratic")
    if not any(u.leaves & q for u, _ in rest):
        return Fact.no(NAME, ALL)
    return Fact.yes(
        NAME,
        f"{signed_sum(low)} is solved as one matrix; the rest, {signed_sum(rest)}, kicks",
        linear=signed_sum(low),
        rest=signed_sum(rest),
        oscillators=(),
        coupled=None,
    )
