"""Which part of H is quadratic, and is the rest one of positions?  The fact that the interaction picture rests on.

T and the addends of V that are sums of oscillators, each of one number of q, are solved; whatever else there is in V is
the rest. Addends are not opened further than sums, signs and factors that no state enters: (q*q - 1)**2 is the rest.
"""
from __future__ import annotations

from collections.abc import Iterator

from tinyphysics.analysis.separable import LINEAR, signed_sum
from tinyphysics.facts import Fact, Facts
from tinyphysics.ir import Ops, UOp
from tinyphysics.rules.degree import degrees
from tinyphysics.rules.normal import Normal
from tinyphysics.rules.oscillators import oscillators
from tinyphysics.rules.random import draws
from tinyphysics.system import System

NAME = "quadratic part"
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
    """With the parts `linear`, `rest`, and `oscillators`, one for each pair of states."""
    if system.kind != "hamiltonian":
        return Fact.no(NAME, because=f"it is given by its {system.kind}, not by its energy", site=system.site)
    split = facts["separable"]
    if not split:
        return Fact.no(NAME, because=f"H is not shown to be separable: {split.because}", site=split.site)
    if not facts["T quadratic"]:
        return Fact.no(NAME, because=facts["T quadratic"].because, site=facts["T quadratic"].site)
    q, pairs, normal = frozenset(system.q), list(system.pairs), Normal()
    if oscillators(split.T, pairs, normal) is None:
        return Fact.no(NAME, because="T couples momenta with each other, and only p*p/2m of each number is solved so far",
                       site=system.sites.get(split.T))  # fmt: skip
    solved: list[Addend] = []
    rest: list[Addend] = []
    coupled: UOp | None = None
    for u, minus in addends(split.V, q):
        degree = degrees(u, q)[u]
        fixed = system.time not in u.leaves and not draws(u)
        alone = degree is not None and degree <= 2 and fixed and oscillators(u, pairs, normal) is not None
        if degree == 2 and fixed and not alone:
            coupled = u
        (solved if alone else rest).append((u, minus))
    if not any((degrees(u, q)[u] or 0) == 2 for u, _ in solved):
        why = "no addend of V is quadratic" if coupled is None else (
            f"{coupled} couples positions with each other, and only k*q*q/2 of each number is solved so far")
        return Fact.no(NAME, because=why, site=None if coupled is None else system.sites.get(coupled))
    if not any(u.leaves & q for u, _ in rest):
        return Fact.no(NAME, because='all of H is quadratic: propagator="exact" solves it, in one jump')
    linear = split.T + signed_sum(solved)
    found = oscillators(linear, pairs, normal)
    if found is None:
        return Fact.no(NAME, because="the quadratic addends are not shown to be oscillators together")
    return Fact.yes(NAME, because=f"{signed_sum(solved)} is solved with T; the rest, {signed_sum(rest)}, kicks",
                    linear=linear, rest=signed_sum(rest), oscillators=tuple(found), solved=signed_sum(solved))  # fmt: skip
