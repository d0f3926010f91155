"""Which parts of an energy have exact flows in a bracket that a user wrote?  Those that move each number alone.

A part of some numbers that commute with each other, J[a, b] = 0, leaves these as they are. It moves another one by a rate
that stays the same meanwhile, z + h r, or by one that is proportional to it, z exp(h r). So constant brackets shear, and
those of Lotka and Volterra, J[i, j] = c z[i] z[j], grow and shrink.
"""

from __future__ import annotations

from tinyphysics.analysis.separable import signed_sum, terms
from tinyphysics.facts import Facts
from tinyphysics.flows.closed_form import Values
from tinyphysics.ir import UOp, elements, substitute
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import ExactPart
from tinyphysics.synth.methods.closed_forms import part
from tinyphysics.system import System
from tinyphysics.user_bracket import UserBracket

MOST = 12  # numbers of a state that are written out
Moves = dict[int, tuple[UOp, bool]]  # number: its rate, and is it multiplied by the number itself?


def bracket_parts(system: System, facts: Facts) -> list[ExactPart] | str:
    """A part for every set of numbers that occurs in a term of the energy; or why there is no closed form."""
    s = system.structure
    if not isinstance(s, UserBracket):
        return "it is made for brackets J(z): @tp.hamiltonian(bracket=J)"
    if s.z.size > MOST:
        return f"{s.z.size} numbers are too many to write out: {MOST} at most"
    assert system.energy is not None
    if system.time is not None and system.time in system.energy.leaves | s.J.leaves:
        return "the energy or the bracket depends on t"
    numbers, names = elements(s.z), [UOp.var(f"#{k}") for k in range(s.z.size)]
    away, back = dict(zip(numbers, names)), dict(zip(names, numbers))
    ((energy,), J) = (substitute(unroll([u])[0], away) for u in (system.energy, s.J))
    place = {v: k for k, v in enumerate(names)}
    held: dict[frozenset[UOp], list[tuple[UOp, bool]]] = {}
    all_ = frozenset(names)
    for term, minus in terms(energy, lambda u: len(u.leaves & all_) > 1):
        held.setdefault(term.leaves & all_, []).append((term, minus))
    out: list[ExactPart] = []
    for own in sorted((x for x in held if x), key=lambda x: sorted(place[v] for v in x)):
        U = signed_sum(held[own])
        moves = moved(U, own, names, J)
        if isinstance(moves, str):
            return moves
        (whole,) = substitute([U], back)
        label = "".join(str(k) for k in sorted(place[v] for v in own))
        out.append(part(len(out), f"H{label}", whole, of(s.z, moves, names, back)))
    return out


def moved(U: UOp, own: frozenset[UOp], names: list[UOp], J: list[UOp]) -> Moves | str:
    """By what a part moves each number; or why that has no closed form."""
    n, normal = len(names), Normal()
    inside = [k for k, v in enumerate(names) if v in own]
    if not all(normal.is_zero(J[a * n + b]) for a in inside for b in inside):
        return f"numbers of {U} do not commute"
    slopes = dict(zip(inside, gradient(U, [names[a] for a in inside])))
    rates = {j: UOp.sum_of([J[j * n + a] * slopes[a] for a in inside]) for j in range(n) if j not in inside}
    rates = {j: simplify([r])[0] for j, r in rates.items() if not normal.is_zero(r)}
    moving, out = frozenset(names[j] for j in rates), {}
    for j, r in rates.items():
        if not r.leaves & moving:
            out[j] = (r, False)
            continue
        (factor,) = gradient(r, [names[j]])
        (factor,) = simplify([factor])
        if factor.leaves & moving or not normal.same(factor * names[j], r):
            return f"{U} moves z[{j}] by a rate that changes meanwhile"
        out[j] = (factor, True)
    return out


def of(z: UOp, moves: Moves, names: list[UOp], back: dict[UOp, UOp]) -> Values:
    def values(h: UOp) -> tuple[tuple[UOp, UOp], ...]:
        new = list(names)
        for j, (rate, times) in moves.items():
            new[j] = names[j] * (rate * h).exp() if times else names[j] + rate * h
        return ((z, UOp.stack(substitute(new, back), z.shape)),)

    return values
