"""Is the kinetic energy the sum of p**2/2m, and what are the masses?  Read off dT/dp, whatever they are called.

Shown by dT/dp = w p with w free of the state: then w is 1/m, number by number. Anything else is a no.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.facts import Fact
from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.identities.real import simplify
from tinyphysics.system import System


def masses(system: System, kinetic: UOp, of: Sequence[UOp] | None = None) -> Fact:
    """Of all momenta; or of those that are named, such as angular momenta, whose masses are moments of inertia."""
    momenta = list(system.p if of is None else of)
    slopes = simplify(gradient(kinetic, momenta))
    ones = [UOp.const(1.0, p.dtype, p.shape) for p in momenta]
    inverse = simplify(jvp(slopes, momenta, ones))
    state = frozenset(s.var for s in system.states)
    for p, slope, w in zip(momenta, slopes, inverse):
        if w.leaves & state:
            return Fact.no("masses", f"the velocity {slope} is not proportional to {p.arg}")
        if Normal().ratio(slope, w * p) != 1:
            return Fact.no("masses", f"the velocity {slope} is not shown to be {p.arg}/m")
    return Fact.yes("masses", "dT/dp = p/m", inverse=tuple(inverse))
