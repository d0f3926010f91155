"""Where does a*b + c become one operation with one rounding?  Decided here, on the step, and nowhere else.

Users of a node are counted below the given roots alone, so nothing that is attached later (an
observable, a check) can change what is fused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import RECORD, UOp, component, toposort

Rebuild = Callable[[UOp, dict[UOp, UOp], dict[UOp, int]], UOp | None]


SHORT = 4  # components of a product that is summed: written out, each but the first joins by one fma


def short_dots(roots: Sequence[UOp]) -> list[UOp]:
    """Sums of products along an axis of a few components, written out so that the products can join the sum.

    >>> q = UOp.var("q", (2,))
    >>> short_dots([(q * q).sum()])
    [q[0]*q[0] + q[1]*q[1]]
    """
    return _walk(roots, _dot)


def _dot(u: UOp, new: dict[UOp, UOp], users: dict[UOp, int]) -> UOp | None:
    if u.op is not Ops.REDUCE or u.arg[0] != "sum" or len(u.arg[1]) != 1 or not u.dtype.is_float:
        return None
    x, (axis,) = u.src[0], u.arg[1]
    if x.op is not Ops.MUL or users[x] > 1 or not 1 < x.shape[axis] <= SHORT:
        return None
    factors = [new[s] for s in x.src]
    parts = [[component(f, axis, k) for f in factors] for k in range(x.shape[axis])]
    return UOp.sum_of(a * b for a, b in parts)


def long_dots(roots: Sequence[UOp]) -> list[UOp]:
    """Sums of products along an axis that is not written out, as one operation: each product joins with one rounding.

    >>> q, m = UOp.var("q", (9,)), UOp.var("m", (9,))
    >>> long_dots([(q * m).sum()])
    [dot(q, m)]
    """
    return _walk(roots, _long_dot)


def _long_dot(u: UOp, new: dict[UOp, UOp], users: dict[UOp, int]) -> UOp | None:
    x = u.src[0] if u.op is Ops.REDUCE and u.arg[0] == "sum" and len(u.arg[1]) == 1 else None
    if x is None or x.op is not Ops.MUL or users[x] > 1 or not u.dtype.is_float:
        return None
    if x.shape[u.arg[1][0]] <= SHORT:
        return None
    return UOp(Ops.REDUCE, u.dtype, u.shape, tuple(new[s] for s in x.src), ("dot", u.arg[1]))


def fuse(roots: Sequence[UOp]) -> list[UOp]:
    """The roots with every product whose single user is a sum merged into that sum.

    >>> x, y, z = (UOp.var(n) for n in "xyz")
    >>> fuse([x * y - z * z + x])
    [fma(-z, z, fma(x, y, x))]
    >>> fuse([(2.0 * y + 1.0) * x])
    [fma(y + y, x, x)]
    """
    return _walk(_walk(roots, _products_last), _multiply_add)


def _walk(roots: Sequence[UOp], rebuild: Rebuild) -> list[UOp]:
    order = toposort(roots)
    users: dict[UOp, int] = dict.fromkeys(roots, 1)
    for u in order:
        for s in u.src:
            users[s] = users.get(s, 0) + 1
    sites = RECORD.get()
    new: dict[UOp, UOp] = {}
    for u in order:
        if sites is not None:
            sites.current = sites.table.get(u)
        changed = rebuild(u, new, users)
        new[u] = u.replace(tuple(new[s] for s in u.src)) if changed is None else changed
    if sites is not None:
        sites.current = None
    return [new[r] for r in roots]


def _addends(u: UOp, users: dict[UOp, int]) -> list[tuple[UOp, bool]]:
    """(addend, is it subtracted?) of a sum, through inner sums that nothing else uses."""
    out: list[tuple[UOp, bool]] = []
    stack = [(u, False, True)]
    while stack:
        x, minus, root = stack.pop()
        if x.op in (Ops.ADD, Ops.SUB) and (root or users[x] == 1):
            stack.append((x.src[1], minus != (x.op is Ops.SUB), False))
            stack.append((x.src[0], minus, False))
        else:
            out.append((x, minus))
    return out


def _products_last(u: UOp, new: dict[UOp, UOp], users: dict[UOp, int]) -> UOp | None:
    """A sum of three or more with its plain addends first: then every product joins by one fma."""
    if u.op not in (Ops.ADD, Ops.SUB) or not u.dtype.is_float:
        return None
    terms = _addends(u, users)
    if len(terms) < 3:
        return None

    def lone_product(x: UOp) -> bool:
        return x.op is Ops.MUL and users[x] == 1

    terms.sort(key=lambda t: (lone_product(t[0]), t[1]) if not lone_product(t[0]) else (True, False))
    first, minus = terms[0]
    out = -new[first] if minus else new[first]
    for x, minus in terms[1:]:
        out = out - new[x] if minus else out + new[x]
    return out


def _multiply_add(u: UOp, new: dict[UOp, UOp], users: dict[UOp, int]) -> UOp | None:
    if u.op is Ops.MUL and u.dtype.is_float:
        return _alone(u, new, users)
    if u.op not in (Ops.ADD, Ops.SUB) or not u.dtype.is_float:
        return None
    a, b = u.src
    minus = u.op is Ops.SUB
    if b.op is Ops.MUL and users[b] == 1:  # c + x*y, c - x*y: a chain of sums becomes a chain of fma
        x, y = (new[s] for s in b.src)
        return (-x if minus else x).fma(y, new[a])
    if a.op is Ops.MUL and users[a] == 1:  # x*y + c, x*y - c
        x, y = (new[s] for s in a.src)
        return x.fma(y, -new[b] if minus else new[b])
    return None


def _alone(u: UOp, new: dict[UOp, UOp], users: dict[UOp, int]) -> UOp | None:
    """A product that joins no sum: (y + 1)*x is one operation too, and twice is an addition, bit for bit."""
    for a, x in (u.src, u.src[::-1]):
        if a.op is Ops.CONST and a.arg == 2 and x.op is not Ops.CONST:
            return new[x] + new[x]
        if a.op in (Ops.ADD, Ops.SUB) and users[a] == 1:
            y, one = a.src
            if _is_one(one):
                return new[y].fma(new[x], -new[x] if a.op is Ops.SUB else new[x])
            if _is_one(y):
                return (-new[one] if a.op is Ops.SUB else new[one]).fma(new[x], new[x])
    return None


def _is_one(u: UOp) -> bool:
    return u.op is Ops.CONST and u.arg == 1
