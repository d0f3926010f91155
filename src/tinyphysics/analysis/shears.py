"""Is H a sum of parts whose flows are shears?  Each moves some numbers by a function of the others, and is done exactly.

T(p) and V(q) are two of them. A product such as x*py is another: it moves y and px, and holds neither. What is a shear is a
question about numbers, not about arrays: w*(q[0]*p[1] - q[1]*p[0]) are two.
"""

from __future__ import annotations

from collections.abc import Iterator

from tinyphysics.analysis.separable import mixes, signed_sum, terms
from tinyphysics.errors import TraceError
from tinyphysics.facts import Fact
from tinyphysics.ir import Ops, UOp, elements, toposort
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import chooses
from tinyphysics.rules.identities.real import simplify
from tinyphysics.system import System
from tinyphysics.util import in_order

# positions of a system whose terms are looked at number by number; the verifier's limit too
MOST_COMPONENTS = 64
Term = tuple[UOp, bool]  # and whether it is subtracted
Held = frozenset[UOp]  # states, or numbers of them


def shears(system: System) -> Fact:
    """A yes carries `parts`: (name, energy) of V, of what mixes q and p, and of T."""
    assert system.energy is not None
    p, mixed = frozenset(system.p), mixes(system)
    partner = conjugates(system)
    kinetic: list[Term] = []
    potential: list[Term] = []
    groups: list[tuple[list[Term], Held]] = []

    def pair_in(held: Held) -> tuple[UOp, UOp] | None:
        return next(((a, b) for a, b in partner.items() if a in held and b in held), None)

    for term, minus in terms(system.energy, mixed):
        if not mixed(term):
            (kinetic if term.leaves & p else potential).append((term, minus))
            continue
        found = list(pieces(term, minus, system, partner))
        if any(is_zero(u) and (pair_in(held) or tangled(u, system)) for u, _, held in found):
            # p[2]*0/r of a vector potential without a third component, or p[2]*0
            found = [piece for piece in found if not is_zero(piece[0])]
        for u, sign, held in found:
            pair = pair_in(held)
            if pair is not None:
                few = ""
                if pair[0].shape:
                    few = f"; beyond {MOST_COMPONENTS} positions numbers are not looked at"
                return Fact.no(
                    "shears", f"{u} holds {pair[0]} and {pair[1]}{few}", system.sites.get(term) or system.site
                )
            if why := tangled(u, system):
                return Fact.no("shears", why, system.sites.get(term) or system.site)
            for k, (items, other) in enumerate(groups):
                both, together = held | other, [*items, (u, sign)]
                if not any(partner[x] in both for x in both) and not tangled(signed_sum(together), system):
                    groups[k] = together, both
                    break
            else:
                groups.append(([(u, sign)], held))
    parts = [("V", signed_sum(potential))] if potential else []
    parts += [(f"M{k}", signed_sum(items)) for k, (items, _) in enumerate(groups)]
    parts += [("T", signed_sum(kinetic))] if kinetic else []
    return Fact.yes(
        "shears",
        f"{len(parts)} parts, each of which moves nothing that it holds: "
        f"{', '.join(name for name, _ in parts)}",
        parts=tuple(parts),
    )


def is_zero(u: UOp) -> bool:
    """Is it 0 whatever the state, because a factor is the number 0?"""
    (found,) = simplify([u])
    return found.op is Ops.CONST and found.arg == 0


def conjugates(system: System) -> dict[UOp, UOp]:
    """Of each state and of each of its numbers the other of the pair."""
    out: dict[UOp, UOp] = {}
    small = sum(u.size for u in system.q) <= MOST_COMPONENTS
    for q, p in system.pairs:
        for a, b in [(q, p), *(zip(elements(q), elements(p)) if small else ())]:
            out[a], out[b] = b, a
    return out


def pieces(
    term: UOp, minus: bool, system: System, partner: dict[UOp, UOp]
) -> Iterator[tuple[UOp, bool, Held]]:
    """The term as it is where its states are no pair; else what it says number by number."""
    whole = term.leaves & frozenset((*system.q, *system.p))
    small = sum(u.size for u in system.q) <= MOST_COMPONENTS and not chooses(term)
    if not small:
        yield term, minus, whole
        return
    numbers = frozenset(partner)
    ((scalar,),) = unroll([term])

    def held(u: UOp) -> Held:
        return frozenset(x for x in toposort([u]) if x in numbers and not x.shape)

    everything = held(scalar)
    if not any(partner[x] in everything for x in everything):
        yield term, minus, everything
        return
    q, p = frozenset(system.q), frozenset(system.p)
    for u, sign in terms(scalar, lambda u: bool(u.leaves & q and u.leaves & p), minus):
        yield u, sign, held(u)


def tangled(energy: UOp, system: System) -> str:
    """Why the flows of a part cannot be applied one state after the other, each with what it was computed from."""
    states = [*system.q, *system.p]
    try:
        slopes = gradient(energy, states)
    except TraceError as error:
        return error.what
    reads = {p: g.leaves for (q, p), g in zip(system.pairs, slopes)} | {
        q: g.leaves for (q, p), g in zip(system.pairs, slopes[len(system.q) :])
    }
    if in_order([s for s, held in reads.items() if held], reads):
        return ""
    return f"in {energy} what moves a position and what moves a momentum hold each other"
