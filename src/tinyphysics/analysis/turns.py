"""Is H a sum of parts that turn bodies about their axes, kick them, and let points drift?  Then every part has an exact flow.

A part that holds momenta about one axis alone turns bodies about that axis. What holds no momentum of a body kicks.
"""

from __future__ import annotations

from typing import Any

from tinyphysics.analysis.separable import signed_sum, terms
from tinyphysics.facts import Fact
from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.formulas.turns import speeds
from tinyphysics.rules.identities.real import simplify
from tinyphysics.system import System

AXES = ("x", "y", "z")


def turns(system: System) -> Fact | None:
    """A yes carries `T` of angular momenta, `K` of other momenta and `V` of the rest."""
    assert system.energy is not None
    bodies = [pair for kind in system.structure.turning for pair in kind.bodies]
    momenta, p = frozenset(L for L, _ in bodies), frozenset(system.p)
    rest = frozenset(s.var for s in system.states) - momenta - p

    def mixed(u: UOp) -> bool:
        return sum(bool(u.leaves & held) for held in (momenta, p, rest)) > 1

    T: list[tuple[UOp, bool]] = []
    K: list[tuple[UOp, bool]] = []
    V: list[tuple[UOp, bool]] = []
    for term, minus in terms(system.energy, mixed):
        if mixed(term):
            why = f"{term} holds angular momenta and other states"
            return Fact.no("turns", why, system.sites.get(term) or system.site)
        own = T if term.leaves & momenta else K if term.leaves & p else V
        own.append((term, minus))
    turning = signed_sum(T)
    by = [L for L, _ in bodies]
    slopes = dict(zip(by, simplify(gradient(turning, by))))
    parts: dict[str, Any] = {
        "T": turning,
        "K": signed_sum(K) if K else None,
        "V": signed_sum(V) if V else None,
    }
    for k, name in enumerate(AXES):
        if speeds(slopes, k) is None:
            why = f"dH/dL about the axis {name} is not shown to depend on momenta about {name} alone"
            return Fact.no("turns", why, system.site, **parts)
    because = "the angular momenta enter axis by axis, so that each part turns about one axis"
    return Fact.yes("turns", because, **parts)
