"""How many divisions does a sum of powers need?  One: 1/x is computed once, and its powers are products.

A derivative of 1/r**12 - 1/r**6 divides by several powers of one number. Divisions are dear, products are not; each
product rounds once more, so a result may differ from the quotient in its last bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.rules.identities.denominators import as_written

Powers = dict[UOp, int]


def factors(u: UOp) -> Powers:
    """A product as powers of what it is made of.

    >>> x, y = UOp.var("x"), UOp.var("y")
    >>> {str(u): k for u, k in factors((x * y) * x).items()}
    {'x': 2, 'y': 1}
    """
    out: Powers = {}
    waiting = [(u, 1)]
    while waiting:
        x, k = waiting.pop()
        if x.op is Ops.MUL and x.dtype.is_float:
            waiting += [(s, k) for s in reversed(x.src)]
        elif x.op is Ops.POW and x.src[1].op is Ops.CONST and x.src[1].arg in range(1, 65):
            waiting.append((x.src[0], k * int(x.src[1].arg)))
        else:
            out[x] = out.get(x, 0) + k
    return out


def power(x: UOp, k: int, memo: dict[tuple[UOp, int], UOp]) -> UOp:
    """x**k by products that other powers can share."""
    if k == 1:
        return x
    if (x, k) not in memo:
        half = power(x, k // 2, memo)
        memo[x, k] = half * half if k % 2 == 0 else power(x, k - 1, memo) * x
    return memo[x, k]


def product_of(powers: Powers) -> UOp | None:
    """What `factors` took apart; None if nothing is left."""
    memo: dict[tuple[UOp, int], UOp] = {}
    out: UOp | None = None
    for x, k in powers.items():
        if k:
            out = power(x, k, memo) if out is None else out * power(x, k, memo)
    return out


def shared_quotients(roots: Sequence[UOp]) -> list[UOp]:
    """Quotients by several powers of one number as products with powers of its reciprocal."""
    # quotient -> base, how often it is divided by, what is left above
    found: dict[UOp, tuple[UOp, int, Powers]] = {}
    order = toposort(roots)
    kept = as_written(order)
    for u in order:
        if u.op is not Ops.DIV or u in kept:
            continue
        below = factors(u.src[1])
        if len(below) != 1:
            continue
        ((x, k),) = below.items()
        above = factors(u.src[0])
        left = k - above.pop(x, 0)
        if x.op is not Ops.CONST and left > 0:
            found[u] = (x, left, above)
    uses: dict[UOp, set[int]] = {}
    for x, k, _ in found.values():
        uses.setdefault(x, set()).add(k)
    new: dict[UOp, UOp] = {}  # all that is below a quotient comes before it
    memo: dict[tuple[UOp, int], UOp] = {}
    for u in order:
        x, k, above = found.get(u, (u, 0, {}))
        if len(uses.get(x, ())) < 2 or u not in found:
            new[u] = u.replace(tuple([new[s] for s in u.src]))
            continue
        out = power(UOp.const(1.0, u.dtype, u.shape) / new[x], k, memo)
        for y, n in above.items():
            if not (y.op is Ops.CONST and y.arg == 1.0):
                out = power(new[y], n, memo) * out
        new[u] = out
    return [new[u] for u in roots]
