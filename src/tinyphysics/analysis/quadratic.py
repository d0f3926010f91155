"""Is H a polynomial of the state, and of which degree?  Degree 2 or less can be solved, not stepped.

The degree is an upper bound: terms that cancel are still counted. For degree <= 2 the whole Hessian
(cross terms of q and p included), the linear part and the constant are given as functions of the
parameters.
"""

from __future__ import annotations

from tinyphysics.facts import Fact
from tinyphysics.ir import UOp, elements, substitute, toposort
from tinyphysics.rules.calculus.degree import degrees
from tinyphysics.rules.calculus.unroll import stays_whole, unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.real import simplify
from tinyphysics.system import System

MOST_COMPONENTS = 32  # the Hessian is written out entry by entry


def polynomial(system: System) -> Fact:
    assert system.energy is not None
    found = degrees(system.energy, frozenset(system.q + system.p))
    degree = found[system.energy]
    if degree is None:
        culprit = next(u for u in toposort([system.energy]) if found[u] is None)
        return Fact.no("polynomial", f"{culprit} is not a polynomial of the state", system.sites.get(culprit))
    return Fact.yes("polynomial", f"degree {degree} at most", degree=degree)


def quadratic(system: System) -> Fact:
    assert system.energy is not None
    bound = polynomial(system)
    if not bound:
        return Fact.no("quadratic", bound.because, bound.site)
    if bound.degree > 2:
        return Fact.no("quadratic", f"the degree may be {bound.degree}")
    count = sum(u.size for u in (*system.q, *system.p))
    if count > MOST_COMPONENTS:
        return Fact.no("quadratic", f"degree 2 at most, but {count} components are too many to write out")
    if stays_whole(toposort([system.energy])):
        return Fact.no("quadratic", "degree 2 at most, but a solution of tp.poisson is not written out")
    states = [e for u in (*system.q, *system.p) for e in elements(u)]
    ((energy,),) = unroll([system.energy])
    slope = gradient(energy, states)
    hessian = [simplify(gradient(g, states)) for g in slope]
    origin = {s: UOp.const(0.0) for s in states}
    linear = simplify(substitute(slope, origin))
    (constant,) = simplify(substitute([energy], origin))
    moving = frozenset(system.q + system.p)
    if any(u.leaves & moving for row in [*hessian, linear, [constant]] for u in row):
        return Fact.no("quadratic", "the second derivatives could not be shown to be constant")
    clocked = any(system.time in u.leaves for row in hessian for u in row)
    return Fact.yes(
        "quadratic",
        f"degree {bound.degree} at most: Hessian of {len(states)} x "
        f"{len(states)}, {'a function of t' if clocked else 'constant'}",
        hessian=hessian,
        linear=linear,
        constant=constant,
    )
