"""Has a magnetic field no sources?  Only where div B = 0 is its bracket one: Jacobi's identity is that."""

from __future__ import annotations

from tinyphysics.charged import Magnetic
from tinyphysics.facts import Fact
from tinyphysics.ir import Ops, UOp, elements, toposort
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.equality.probe import CLEARLY, POINTS, values_at
from tinyphysics.rules.identities.real import simplify

MOST = 24  # numbers of positions for which it is looked at number by number


def divergences(m: Magnetic) -> list[UOp] | None:
    """Of each field, row by row, and what a row depends on of others; in a plane there is none. None: too many to look at."""
    out: list[UOp] = []
    for (q, _), b in zip(m.pairs, m.fields):
        if q.shape[-1] == 3:
            if q.size > MOST:
                return None
            places, own = elements(q), unroll([b])[0]
            for k in range(0, len(own), 3):
                out.append(UOp.sum_of(gradient(own[k + i], [places[k + i]])[0] for i in range(3)))
    return simplify(out)


def seen_somewhere(u: UOp) -> bool:
    """Is it clearly not zero at two points?"""
    found = [values_at([u], toposort([u]), first) for first in POINTS]
    return all(x is not None and abs(x[0][0]) > CLEARLY for x in found)


def divergence_free(m: Magnetic) -> Fact:
    """Yes where it is proved, no with the residual where that is seen not to be zero or is not known."""
    found = divergences(m)
    if found is None:
        return Fact.no("div B", f"it is looked at for up to {MOST} numbers of positions", seen=False)
    for u in found:
        if not Normal().is_zero(u):
            seen = u.op is Ops.CONST or seen_somewhere(u)
            return Fact.no("div B", f"div B is {u}", residual=u, seen=seen)
    return Fact.yes("div B", "div B = 0")
