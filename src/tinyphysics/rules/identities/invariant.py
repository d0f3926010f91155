"""What can be done once instead of at every step?  What no state changes, and divisions by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, substitute, toposort
from tinyphysics.rules.identities.denominators import factors, in_all, product, without


def reciprocals(roots: Sequence[UOp], states: frozenset[UOp]) -> list[UOp]:
    """x/m as x*(1/m) where m holds no state: the reciprocal is computed before the loop.

    >>> p, m = UOp.var("p"), UOp.var("m")
    >>> reciprocals([p / m], frozenset({p}))
    [p*(1/m)]
    """
    new: dict[UOp, UOp] = {}
    for u in toposort(roots):
        src = tuple(new[s] for s in u.src)
        if u.op is Ops.DIV and u.src[0].leaves & states and not u.src[1].leaves & states:
            # an expanded scalar is inverted before it is expanded
            below = src[1].src[0] if src[1].op is Ops.EXPAND else src[1]
            new[u] = src[0] * (1.0 / below).expand(u.shape)
        else:
            new[u] = u.replace(src)
    return [new[r] for r in roots]


def set_aside(roots: Sequence[UOp], states: frozenset[UOp]) -> tuple[list[UOp], dict[UOp, UOp]]:
    """The roots with what no state changes behind names, and what the names stand for.

    A sum with a fixed product is then a sum: as an fma it would do the product again at every step.

    >>> q, k = UOp.var("q"), UOp.var("k")
    >>> set_aside([q + k * k], frozenset({q}))
    ([q + once0], {once0: k*k})
    """
    fixed = {u: bool(u.src) and not u.leaves & states for u in toposort(roots)}
    outermost = [u for u in roots if fixed[u]]
    outermost += [s for u in fixed if not fixed[u] for s in u.src if fixed[s]]
    names = {u: UOp.var(f"once{k}", u.shape, u.dtype) for k, u in enumerate(dict.fromkeys(outermost))}
    return substitute(roots, names), {v: u for u, v in names.items()}


def fixed_first(values: Sequence[UOp], moves: Callable[[UOp], bool]) -> list[UOp]:
    """Products with what does not move multiplied together first, then what all of them share, then what some do.

    >>> x, y, r, k, h = (UOp.var(n) for n in "xyrkh")
    >>> fixed_first([-3.0 * (r * (x * y)) * k * h, -3.0 * (r * (y * y)) * k * h], lambda u: bool(u.leaves & {x, y, r}))
    [k*h*-3*r*y*x, k*h*-3*r*y*y]
    """
    apart: list[tuple[list[UOp], list[UOp]]] = []  # what is fixed, numbers last; what moves
    for u in values:
        own = factors(u)
        names, numbers = [x for x in own if x.leaves], [x for x in own if not x.leaves]
        apart.append(([x for x in names if not moves(x)] + numbers, [x for x in names if moves(x)]))
    every = in_all([moving for _, moving in apart])
    out = []
    for fixed, moving in apart:
        alike = [without(x, every) for other, x in apart if [*map(id, other)] == [*map(id, fixed)]]
        shared = [*every, *in_all(alike)]
        first = [product(fixed)] if fixed else []
        out.append(product([*first, *shared, *without(moving, shared)]))
    return out
