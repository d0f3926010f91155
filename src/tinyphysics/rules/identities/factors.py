"""Which addends share a factor?  2*a + b - 2*c is 2*(a - c) + b, and x*a + x is x*(a + 1): a product less.

Derivatives are full of them: each addend has the factor that is pulled back.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort


def common_numbers(roots: Sequence[UOp]) -> list[UOp]:
    """The roots with numbers that are factors of several addends taken out of their sum; equal as real functions."""
    inside = {s for u in toposort(roots) if u.op in (Ops.ADD, Ops.SUB) for s in u.src}
    ends = set(roots)
    uses: dict[UOp, int] = {}
    for u in toposort(roots):
        for s in u.src:
            uses[s] = uses.get(s, 0) + 1
    new: dict[UOp, UOp] = {}
    for u in toposort(roots):
        whole = u.op is Ops.ADD and (u not in inside or u in ends or uses[u] > 1)
        new[u] = gathered(u, new, uses) if whole else u.replace(tuple(new[s] for s in u.src))
    return [new[r] for r in roots]


def addends(u: UOp, uses: dict[UOp, int], top: bool = True) -> list[UOp]:
    if u.op is Ops.ADD and (top or uses[u] == 1):
        return [x for s in u.src for x in addends(s, uses, False)]
    return [u]


def number_of(u: UOp) -> tuple[float, UOp] | None:
    """(c, x) of c*x, where c is a number."""
    if u.op is Ops.MUL:
        for c, x in (u.src, u.src[::-1]):
            if c.op is Ops.CONST and x.op is not Ops.CONST:
                return float(c.arg), x
    return None


def gathered(u: UOp, new: dict[UOp, UOp], uses: dict[UOp, int]) -> UOp:
    parts = addends(u, uses)
    groups: dict[float, list[tuple[bool, UOp]]] = {}
    for x in parts:
        found = number_of(x)
        if found is not None and abs(found[0]) not in (0.0, 1.0):
            groups.setdefault(abs(found[0]), []).append((found[0] < 0.0, found[1]))
    several = {
        c: group for c, group in groups.items() if len(group) > 1 and any(not minus for minus, _ in group)
    }
    if not several:
        return u.replace(tuple(new[s] for s in u.src))
    rest = [x for x in parts if (n := number_of(x)) is None or abs(n[0]) not in several]
    out: UOp | None = None
    for x in rest:
        out = new[x] if out is None else out + new[x]
    for c, group in several.items():
        plus = [new[x] for minus, x in group if not minus]
        inner = UOp.sum_of(plus)
        for minus, x in group:
            inner = inner - new[x] if minus else inner
        product = UOp.const(c, u.dtype, u.shape) * inner
        out = product if out is None else out + product
    assert out is not None
    return out


def common_cotangents(roots: Sequence[UOp], cotangents: Set[UOp]) -> list[UOp]:
    """The roots with x*a + x as x*(a + 1), where x is made of cotangents: what a leaves of parameters is computed once."""
    uses: dict[UOp, int] = {}
    for u in toposort(roots):
        for s in u.src:
            uses[s] = uses.get(s, 0) + 1
    new: dict[UOp, UOp] = {}
    for u in toposort(roots):
        new[u] = u.replace(tuple(new[s] for s in u.src))
        if u.op is Ops.ADD:
            for product, x in (u.src, u.src[::-1]):
                found = factors(product, uses) if x.leaves & cotangents else []
                which = next((k for k, f in enumerate(found) if f is x), None)
                if len(found) > 1 and which is not None:
                    rest = [new[f] for k, f in enumerate(found) if k != which]
                    new[u] = new[x] * (ordered(rest) + UOp.const(1.0, u.dtype, u.shape))
                    break
    return [new[r] for r in roots]


def factors(u: UOp, uses: dict[UOp, int]) -> list[UOp]:
    """Of a product that nothing else reads."""
    if u.op is Ops.MUL and uses.get(u, 0) == 1:
        return [f for s in u.src for f in factors(s, uses)]
    return [u]


def ordered(parts: list[UOp]) -> UOp:
    """Their product: numbers first, then what depends on least."""
    parts = sorted(parts, key=lambda f: len(f.leaves))
    out = parts[0]
    for f in parts[1:]:
        out = out * f
    return out
