"""Is a part of the energy a sum over pairs of c m_i m_j / sqrt(|q_i - q_j|**2 + e**2)?  What a tree can sum.

The factors are guessed from the graph, put together again, and shown to give what was written; what is not shown is a no.
"""

from __future__ import annotations

from collections.abc import Iterator

from tinyphysics.facts import Fact
from tinyphysics.ir import Ops, UOp, substitute, toposort
from tinyphysics.ir.ops import ELEMENTWISE
from tinyphysics.rules.equality.normal import same
from tinyphysics.rules.identities.real import simplify
from tinyphysics.system import System

NAME = "inverse distance"
FORM = "c*m[i]*m[j]/sqrt(|q[i] - q[j]|**2 + e**2), summed over pairs of points in space"


def addends(u: UOp) -> Iterator[UOp]:
    match u.op:
        case Ops.ADD:
            for s in u.src:
                yield from addends(s)
        case Ops.SUB:
            yield from addends(u.src[0])
            yield from (-x for x in addends(u.src[1]))
        case Ops.NEG:
            yield from (-x for x in addends(u.src[0]))
        case _:
            yield u


def one_number(u: UOp) -> UOp | None:
    """The scalar that an array is everywhere, or None if that cannot be seen."""
    if u.shape == ():
        return u
    if u.op is Ops.CONST:
        return UOp.const(u.arg, u.dtype)
    if u.op in (Ops.EXPAND, Ops.RESHAPE):
        return one_number(u.src[0])
    if u.op not in ELEMENTWISE:
        return None
    parts = [one_number(s) for s in u.src]
    if any(p is None for p in parts):
        return None
    return UOp(u.op, u.dtype, (), tuple(p for p in parts if p is not None), u.arg)


def ones(u: UOp) -> UOp:
    return UOp.const(1.0, u.dtype, u.shape)


def everywhere(u: UOp, n: int) -> UOp:
    return u.expand((n, n))


def roots(x: UOp, q: UOp) -> list[UOp]:
    """What square roots are taken of that hold q."""

    def is_half(u: UOp) -> bool:
        power = u.op is Ops.POW and u.src[1].op is Ops.CONST
        return u.op in (Ops.SQRT, Ops.RSQRT) or power and abs(u.src[1].arg) == 0.5

    halves = [u.src[0] for u in toposort([x]) if is_half(u)]
    return [u for u in dict.fromkeys(halves) if q in u.leaves and u.shape == x.shape]


def weights(w: UOp, n: int) -> tuple[UOp, UOp] | None:
    """(c, m) such that w is c*m[i]*m[j]."""
    columns = [u for u in toposort([w]) if u.shape == (n,) and u.leaves]
    for m in [*reversed(columns), UOp.const(1.0, w.dtype, (n,))]:
        (rest,) = simplify(substitute([w], {m: ones(m)})) if m.leaves else [w]
        c = one_number(rest)
        if c is not None and same(w, everywhere(c, n) * m[:, None] * m[None, :]):
            return c, m
    return None


def attraction(term: UOp, q: UOp, free: frozenset[UOp]) -> Fact | str:
    """A term as one sum over pairs, or why it is not shown to be."""
    n = q.shape[0]
    sums = [u for u in toposort([term]) if u.op is Ops.REDUCE and u.src[0].op is Ops.TRIU and u.shape == ()]
    if len(sums) != 1 or sums[0].arg[0] != "sum":
        return f"{term} is not one sum over pairs"
    (pairs,) = sums
    (outside,) = substitute([term], {pairs: ones(pairs)})
    x = pairs.src[0].src[0]
    if len(pairs.src[0].arg) > 2:
        return f"{term} is a sum over neighbours"
    if x.shape != (n, n) or not outside.leaves <= free or not same(term, outside * pairs):
        return f"{term} is not a factor times a sum over pairs"
    for square in roots(x, q):
        d = q[:, None] - q[None, :]
        distance = (d * d).sum(-1)
        (left,) = simplify(substitute([square], {q: UOp.const(0.0, q.dtype, q.shape)}))
        softening = one_number(left)
        known = softening is not None and softening.leaves <= free
        if softening is None or not known or not same(square, distance + everywhere(softening, n)):
            continue
        (w,) = simplify(substitute([x], {square: ones(square)}))
        if not w.leaves <= free or (found := weights(w, n)) is None:
            return f"{x} is not c*m[i]*m[j] over a distance"
        c, m = found
        if same(x, everywhere(c, n) * m[:, None] * m[None, :] / (distance + everywhere(softening, n)).sqrt()):
            (factor,) = simplify([outside * c])
            masses = f"{m}[i]*{m}[j]" if m.leaves else "1"
            return Fact.yes(
                NAME,
                f"{factor} times the sum over pairs of {masses}/sqrt(r**2 + {softening})",
                factor=factor,
                masses=m,
                softening=softening,
            )
    return f"{x} is not shown to be over the distance of two points"


def inverse_distance(system: System, V: UOp) -> Fact:
    """The one such sum of a potential, with `rest`: what else is in it."""
    if len(system.q) != 1 or system.q[0].ndim != 2 or system.q[0].shape[1] != 3:
        return Fact.no(NAME, 'its positions are not points in space, q: tp.Array["n", 3]')
    (q,) = system.q
    free = frozenset(p.var for p in system.parameters)
    terms = list(addends(V))
    answers = [attraction(t, q, free) for t in terms]
    found = [k for k, a in enumerate(answers) if isinstance(a, Fact)]
    if len(found) != 1:
        why = "there are several" if found else "; ".join(a for a in answers if isinstance(a, str))
        return Fact.no(NAME, why, system.sites.get(V))
    first = answers[found[0]]
    assert isinstance(first, Fact)
    others = [t for k, t in enumerate(terms) if k != found[0]]
    rest = UOp.sum_of(others) if others else None
    return Fact.yes(NAME, first.because, system.sites.get(terms[found[0]]), **first.parts, rest=rest)
