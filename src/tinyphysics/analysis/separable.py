"""Is H = T(p) + V(q)?  The fact every explicit symplectic method rests on.

A missed yes costs speed and a wrong yes costs physics, so anything not shown to split is a no.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tinyphysics.facts import Fact
from tinyphysics.ir import Ops, PatternMatcher, UOp, UPat
from tinyphysics.ir.ops import JOINED, MOVEMENT
from tinyphysics.system import System

x, y, z = (UPat.var(name) for name in "xyz")
n = UPat.const("n")

LINEAR = MOVEMENT - JOINED


# fmt: off
open_product = PatternMatcher([
    (x * (y + z),    lambda x, y, z: x*y + x*z),
    (x * (y - z),    lambda x, y, z: x*y - x*z),
    (x * (-y),       lambda x, y: -(x*y)),
    ((x + y) / z,    lambda x, y, z: x/z + y/z),
    ((x - y) / z,    lambda x, y, z: x/z - y/z),
    ((-x) / z,       lambda x, z: -(x/z)),
    ((x + y) ** 2.0, lambda x, y: x*x + 2*(x*y) + y*y),
    ((x - y) ** 2.0, lambda x, y: x*x - 2*(x*y) + y*y),
    ((x * y) ** n,   lambda x, y, n: x**n * y**n if n.arg % 1 == 0 else None),  # roots have signs
])
# fmt: on


def nothing_whole(u: UOp) -> bool:
    return False


def terms(
    u: UOp,
    mixed: Callable[[UOp], bool],
    minus: bool = False,
    whole: Callable[[UOp], bool] = nothing_whole,
) -> Iterator[tuple[UOp, bool]]:
    """The addends of u, and whether each is subtracted; a product is opened only where it mixes q and p.

    (q1 - q0)**2 stays closed: expanded, an exact difference becomes a cancelling sum. So does a sum that is `whole`.
    """
    waiting = [(u, minus)]  # a sum written as a loop is deeper than Python's stack
    while waiting:
        u, minus = waiting.pop()
        if whole(u):
            yield u, minus
        elif u.op is Ops.ADD or u.op is Ops.SUB:
            waiting += [(u.src[1], minus != (u.op is Ops.SUB)), (u.src[0], minus)]
        elif u.op is Ops.NEG:
            waiting.append((u.src[0], not minus))
        elif not mixed(u):
            yield u, minus
        elif u.op in LINEAR or u.op is Ops.REDUCE and u.arg[0] in ("sum", "pairs"):
            for term, sign in terms(u.src[0], mixed, minus, whole):
                yield u.replace((term, *u.src[1:])), sign
        elif (opened := open_product.rewrite(u)) is not None:
            waiting.append((opened, minus))
        else:
            yield from factored(u, mixed, minus, whole)


def factored(
    u: UOp, mixed: Callable[[UOp], bool], minus: bool, whole: Callable[[UOp], bool]
) -> Iterator[tuple[UOp, bool]]:
    """0.5*(p*p + q*q).sum(), term by term: the addends of the operand that mixes, each times the other."""
    k = int(not mixed(u.src[0])) if u.op is Ops.MUL else 0 if u.op is Ops.DIV else None
    inner = u.src[k] if k is not None else u
    if k is None or not mixed(inner) or u.op is Ops.DIV and mixed(u.src[1]):
        yield u, minus
        return
    for term, sign in terms(inner, mixed, minus, whole):
        if term is inner:  # it has no parts
            yield u, minus
        else:
            part = (term, u.src[1]) if k == 0 else (u.src[0], term)
            yield from terms(u.replace(part), mixed, sign, whole)


def signed_sum(items: list[tuple[UOp, bool]]) -> UOp:
    out: UOp | None = None
    for term, minus in items:
        if out is None:
            out = -term if minus else term
        else:
            out = out - term if minus else out + term
    return UOp.const(0.0) if out is None else out


def mixes(system: System) -> Callable[[UOp], bool]:
    """Does an expression hold both positions and momenta?"""
    q, p = frozenset(system.q), frozenset(system.p)
    return lambda u: bool(u.leaves & q and u.leaves & p)


def separable(system: System) -> Fact:
    assert system.energy is not None
    p, mixed = frozenset(system.p), mixes(system)
    kinetic: list[tuple[UOp, bool]] = []
    potential: list[tuple[UOp, bool]] = []
    for term, minus in terms(system.energy, mixed):
        if mixed(term):
            site = system.sites.get(term)
            return Fact.no("separable", f"{term} mixes q and p", site or system.site)
        (kinetic if term.leaves & p else potential).append((term, minus))
    return Fact.yes("separable", "no term mixes q and p", T=signed_sum(kinetic), V=signed_sum(potential))
