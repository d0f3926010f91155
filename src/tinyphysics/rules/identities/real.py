"""Which rewrites hold for real numbers?  They make derivatives short, and they may change the last bit.

They are applied to derivatives once, on the step, before anything watches it: what comes out is the
program whose bits are promised. Products are never opened: (q1 - q0)**2 expanded is a cancelling sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from tinyphysics.ir.dtype import f64
from tinyphysics.ir.ops import JOINED, MOVEMENT, Ops
from tinyphysics.ir.pattern import PatternMatcher, UPat
from tinyphysics.ir.rewrite import Fired, graph_rewrite
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.identities.exact import ROUNDED, exact, fold, is_power_of_two
from tinyphysics.rules.identities.quotients import factors, product_of

x, y, z, w = (UPat.var(name) for name in "xyzw")
a, b = UPat.const("a"), UPat.const("b")

MOVES = MOVEMENT - JOINED - {Ops.TRIU}
MOST_ADDENDS = 32
LARGEST_PRODUCT = 12  # 1/x**12 is one division; larger powers are left to the power function


def zero_like(u: UOp) -> UOp:
    return UOp.const(0.0, u.dtype, u.shape)


def constant(u: UOp) -> bool:
    return u.op is Ops.CONST


def merged(c: UOp) -> UOp | None:
    """An operation on constants as one, if it neither overflows nor loses digits to underflow."""
    out = fold(c)
    if out is None:  # it would be rounded
        return None
    smallest = 2.0**-1022 if c.dtype is f64 else 2.0**-126
    return out if smallest <= abs(out.arg) < math.inf else None


def scaled(c: UOp, x: UOp) -> UOp | None:
    return None if (factor := merged(c)) is None else factor * x


def divided(c: UOp, x: UOp) -> UOp | None:
    return None if (factor := merged(c)) is None else factor / x


def power(x: UOp, a: UOp) -> UOp | None:
    """Integer and half-integer powers as products, roots and one division."""
    n: float = a.arg
    if n < 0 and -n <= LARGEST_PRODUCT:
        return UOp.const(1.0, x.dtype, x.shape) / x ** (-n)
    if n == 0:
        return UOp.const(1.0, x.dtype, x.shape)
    if n == 0.5:
        return x.sqrt()
    if n in (1.5, 2.5):
        return x ** (n - 0.5) * x.sqrt()
    if n in (2, 3, 4):
        return x * x if n == 2 else (x * x) * x if n == 3 else (x * x) * (x * x)
    return None


def number_out(u: UOp) -> UOp | None:
    """What f is multiplied by, where that is one number, or a sign: it multiplies the solution."""
    inner, rest = u.src[0], u.src[1:]
    if inner.op is Ops.MUL:
        for factor, f in (inner.src, inner.src[::-1]):
            if constant(factor) or factor.op is Ops.EXPAND and factor.src[0].size == 1:
                return factor * u.replace((f, *rest))
    return move_factor(u)


def move_factor(u: UOp) -> UOp | None:
    """A constant factor or sign inside a movement or a sum comes out of it."""
    inner, indices = u.src[0], u.src[1:]
    if inner.op is Ops.NEG:
        return -u.replace((inner.src[0], *indices))
    if inner.op is Ops.MUL and any(constant(s) for s in inner.src):
        factor, rest = inner.src if constant(inner.src[0]) else reversed(inner.src)
        return UOp.const(factor.arg, u.dtype, u.shape) * u.replace((rest, *indices))
    if inner.op is Ops.DIV and constant(inner.src[1]):
        divisor: float = inner.src[1].arg
        return u.replace((inner.src[0], *indices)) / divisor
    return None


def quotient(x: UOp, a: UOp, b: UOp) -> UOp | None:
    """(b*x)/a with b/a rounded once: 49*(x/49) is x, 49*((1/49)*x) is not."""
    return scaled(b / a, x)


def coefficient(u: UOp) -> tuple[float, UOp]:
    """u as number*rest."""
    if u.op is Ops.NEG:
        c, rest = coefficient(u.src[0])
        return -c, rest
    if u.op is Ops.MUL and constant(u.src[0]) != constant(u.src[1]):
        factor, rest = u.src if constant(u.src[0]) else (u.src[1], u.src[0])
        return float(factor.arg), rest
    return 1.0, u


def collect_like_terms(u: UOp) -> UOp | None:
    """0.5*y + x*x + 0.5*y -> y + x*x: equal terms of a sum that are not neighbours."""
    if not u.dtype.is_float:
        return None
    terms: dict[UOp, float] = {}
    stack, count = [(u, 1.0)], 0
    while stack:
        x, sign = stack.pop()
        if x.op in (Ops.ADD, Ops.SUB):
            stack += [(x.src[1], -sign if x.op is Ops.SUB else sign), (x.src[0], sign)]
            continue
        count += 1
        if count > MOST_ADDENDS:
            return None
        c, rest = coefficient(x)
        before = terms.get(rest, 0.0)
        terms[rest] = before + sign * c
        if not ROUNDED.get() and Fraction(before) + Fraction(sign * c) != Fraction(terms[rest]):
            return None
    if len(terms) == count:
        return None
    out: UOp | None = None
    for rest, c in terms.items():
        if c == 0:
            continue
        part = rest if abs(c) == 1 else abs(c) * rest
        if out is None:
            out = -part if c < 0 else part
        else:
            out = out - part if c < 0 else out + part
    return zero_like(u) if out is None else out


def cancelled(u: UOp) -> UOp | None:
    """x**2/x**6 -> 1/x**4: what is above and below the line."""
    above, below = (factors(s) for s in u.src)
    common = [v for v in below if v in above and not constant(v)]
    if not common:
        return None
    for v in common:
        k = min(above[v], below[v])
        above[v] -= k
        below[v] -= k
    top, bottom = product_of(above), product_of(below)
    one = UOp.const(1.0, u.dtype, u.shape)
    return (one if top is None else top) if bottom is None else (one if top is None else top) / bottom


def masked(u: UOp) -> bool:
    """A sum of branches that are zero where they are not taken: what a derivative of tp.where looks like."""
    waiting = [u]
    while waiting:
        x = waiting.pop()
        if x.op in (Ops.ADD, Ops.SUB, Ops.NEG):
            waiting.extend(x.src)
        elif x.op is not Ops.WHERE or not any(constant(s) and s.arg == 0 for s in x.src[1:]):
            return False
    return True


def into_branches(x: UOp, y: UOp, z: UOp) -> UOp | None:
    """(branch + branch)*factor, factor by factor: each keeps its own zero."""
    if not masked(x) or not masked(y) or constant(z):
        return None
    return x * z + y * z


def over_branches(x: UOp, y: UOp, z: UOp) -> UOp | None:
    return None if not masked(x) or not masked(y) or constant(z) else x / z + y / z


def triangle(u: UOp, x: UOp, y: UOp) -> UOp | None:
    """triu(x)*y is triu(x*y): what is not a pair must not reach the result, however large y is there."""
    return u.replace((x.src[0], y) if u.src[0] is x else (y, x.src[0])).triu(*x.arg)


def sum_of_triangle(u: UOp, x: UOp) -> UOp | None:
    """A constant factor or sign comes out of a sum over a triangle."""
    inner = move_factor(x)
    if inner is None:
        return None
    if inner.op is Ops.NEG:
        return -u.replace((inner.src[0],))
    factor, rest = inner.src
    if inner.op is Ops.DIV:
        divisor: float = rest.arg
        return u.replace((factor,)) / divisor
    return UOp.const(factor.arg, u.dtype, u.shape) * u.replace((rest,))


def chosen_triangle(u: UOp) -> UOp | None:
    """A branch that is a triangle, beside another one or zero: the choice is made inside."""
    condition, *branches = u.src
    found = [b for b in branches if b.op is Ops.TRIU]
    if not found or any(
        b.arg != found[0].arg if b.op is Ops.TRIU else not (constant(b) and b.arg == 0) for b in branches
    ):
        return None
    yes, no = (b.src[0] if b.op is Ops.TRIU else b for b in branches)
    return condition.where(yes, no).triu(*found[0].arg)


def triangle_spread(u: UOp, x: UOp) -> UOp | None:
    """Axes of length 1 added or expanded: the triangle comes out, with its axes where they now are."""
    old, new = x.shape, u.shape
    if u.op is Ops.EXPAND:
        shift = len(new) - len(old)
        places = [shift + i for i in range(len(old))]
    else:
        places, at = [], 0
        for n in old:
            while at < len(new) and new[at] != n and new[at] == 1:
                at += 1
            if at == len(new) or new[at] != n:
                return None
            places.append(at)
            at += 1
    (a, b), near = (places[i] for i in x.arg[:2]), x.arg[2:]
    return u.replace((x.src[0],)).triu(a, b, *near) if new[a] == old[x.arg[0]] > 1 else None


def triangle_padded(u: UOp, x: UOp) -> UOp | None:
    """Zeros along other axes than those of the pair: the triangle comes out."""
    return u.replace((x.src[0],)).triu(*x.arg) if all(not any(u.arg[k]) for k in x.arg) else None


# fmt: off
identities = PatternMatcher([
    (x * 0.0,                         lambda x: zero_like(x)),
    (x * -0.0,                        lambda x: zero_like(x)),
    (x + 0.0,                         lambda x: x),
    (UPat(Ops.CONST, value=0.0) - x,  lambda x: -x),
    (UPat(Ops.CONST, value=0.0) / x,  lambda x: zero_like(x)),
    (x - x,                           lambda x: zero_like(x)),
    (x + x,                           lambda x: None if constant(x) else 2.0 * x),
    (x / x,                           lambda x: UOp.const(1.0, x.dtype, x.shape)),
    (x ** a,                          power),
    (x ** a * x ** b,                 lambda x, a, b: x ** (a + b)),
    (x ** a * x,                      lambda x, a: x ** (a + 1.0)),
    (x ** a / x ** b,                 lambda x, a, b: x ** (a - b)),
    (x.sqrt() * x.sqrt(),             lambda x: x),
    (x / x.sqrt(),                    lambda x: x.sqrt()),
    # constants come to the front, where they meet
    (a * (b * x),                     lambda x, a, b: scaled(a * b, x)),
    (-(a * x),                        lambda x, a: (-a) * x),
    (b * (x / a),                     quotient),
    ((b * x) / a,                     quotient),
    (-(x / a),                        lambda x, a: x / -a),
    (x * (a * y),                     lambda x, y, a: None if constant(x) or constant(y) else a * (x * y)),
    ((a * x) / y,                     lambda x, y, a: None if constant(x) or constant(y) else a * (x / y)),
    (x / (a * y),                     lambda x, y, a: None if constant(y) or a.arg == 0 else (x / y) / a),
    (a / (b * x),                     lambda x, a, b: divided(a / b, x)),
    (a * (b / x),                     lambda x, a, b: divided(a * b, x)),
    (a * x + b * x,                   lambda x, a, b: (a + b) * x),
    (a * x - b * x,                   lambda x, a, b: (a - b) * x),
    (x + a * x,                       lambda x, a: (a + 1.0) * x),
    (a * x - x,                       lambda x, a: (a - 1.0) * x),
    (x - a * x,                       lambda x, a: (1.0 - a) * x),
    (UPat((Ops.ADD, Ops.SUB), name="u"), collect_like_terms),
    (x * (-y),                        lambda x, y: -(x * y)),
    ((-x) / y,                        lambda x, y: -(x / y)),
    (x / (-y),                        lambda x, y: -(x / y)),
    ((-x) - y,                        lambda x, y: -(x + y)),
    # one division instead of several: r**-3 is one square root and one division
    ((x / y) / z,                     lambda x, y, z: None if constant(z) and not constant(y) else x / (y * z)),
    (UPat(Ops.DIV, name="u"),         cancelled),
    (x / (y / z),                     lambda x, y, z: (x * z) / y),
    (x * (y / z),                     lambda x, y, z: None if constant(x) else (x * y) / z),
    # what a branch does not choose must not reach the result: 0*inf is NaN
    (z.where(x, 0.0) * y,             lambda x, y, z: z.where(x * y, zero_like(x))),
    (z.where(UPat(Ops.CONST, value=0.0), x) * y, lambda x, y, z: z.where(zero_like(x), x * y)),
    (z.where(x, 0.0) / y,             lambda x, y, z: z.where(x / y, zero_like(x))),
    (z.where(UPat(Ops.CONST, value=0.0), x) / y, lambda x, y, z: z.where(zero_like(x), x / y)),
    (-(z.where(x, y)),                lambda x, y, z: z.where(-x, -y)),
    (z.where(x, -0.0),                lambda x, z: z.where(x, zero_like(x))),
    (z.where(UPat(Ops.CONST, value=-0.0), x), lambda x, z: z.where(zero_like(x), x)),
    (z.where(x, 0.0) + z.where(y, 0.0), lambda x, y, z: z.where(x + y, zero_like(x))),
    ((x + y) * z,                     into_branches),
    ((x - y) * z,                     lambda x, y, z: into_branches(x, -y, z)),
    ((x + y) / z,                     over_branches),
    ((x - y) / z,                     lambda x, y, z: over_branches(x, -y, z)),
    # what is no pair must not reach the result either
    (UPat(Ops.MUL, name="u", src=(UPat(Ops.TRIU, name="x"), y)), triangle),
    (UPat(Ops.DIV, name="u", src=(UPat(Ops.TRIU, name="x"), y)), triangle),
    (UPat(Ops.NEG, src=(UPat(Ops.TRIU, name="x"),)), lambda x: (-x.src[0]).triu(*x.arg)),
    (UPat(Ops.WHERE, name="u"),       chosen_triangle),
    (UPat(Ops.REDUCE, name="u", src=(UPat(Ops.TRIU, name="x"),), when=lambda u: u.arg[0] == "sum"), sum_of_triangle),
    (UPat((Ops.ADD, Ops.SUB), name="u", src=(UPat(Ops.TRIU, name="x"), UPat(Ops.TRIU, name="y"))),
     lambda u, x, y: u.replace((x.src[0], y.src[0])).triu(*x.arg) if x.arg == y.arg else None),
    (UPat((Ops.RESHAPE, Ops.EXPAND), name="u", src=(UPat(Ops.TRIU, name="x"),)), triangle_spread),
    (UPat(Ops.PAD, name="u", src=(UPat(Ops.TRIU, name="x"),)), triangle_padded),
    (UPat(Ops.TRIU, name="u", src=(UPat(Ops.TRIU, name="x"),)), lambda u, x: x if u.arg == x.arg else None),
    (UPat(MOVES, name="u"),           move_factor),
    (UPat(Ops.REDUCE, name="u", when=lambda u: u.arg[0] in ("sum", "pairs")), move_factor),
    (UPat(Ops.ELLIPTIC, name="u"),    number_out),
    (UPat((*MOVES, Ops.TRIU, Ops.REDUCE, Ops.ELLIPTIC), name="u"),
     lambda u: zero_like(u) if constant(u.src[0]) and u.src[0].arg == 0 else None),
])
# fmt: on

real = exact + identities


def over_pairs(u: UOp, x: UOp) -> UOp | None:
    """A sum over a triangle as a sum over pairs, which has an order of its own; the rest of the axes after it."""
    kind, axes = u.arg[:2]
    own = [a for a in axes if a in x.arg[:2]]
    if kind != "sum" or not own or len(own) < len(axes):
        return None
    axis = max(own, key=x.arg.index)  # over j, if over both
    inner = UOp(
        Ops.REDUCE, u.dtype, x.shape[:axis] + x.shape[axis + 1 :], (x.src[0],), ("pairs", (axis,), x.arg)
    )
    left = tuple(a - (a > axis) for a in axes if a != axis)
    return inner.sum(left) if left else inner


pairwise = PatternMatcher([(UPat(Ops.REDUCE, name="u", src=(UPat(Ops.TRIU, name="x"),)), over_pairs)])
products = exact + pairwise + PatternMatcher([(x**a, power)])  # for what is evaluated as it was written


def into_scalar(u: UOp, a: UOp, y: UOp) -> UOp | None:
    """a * (expand(s) * v) -> expand(a*s) * v: one multiplication instead of one per element."""
    s = u.src[0]
    return None if s.size >= u.size else (UOp.const(a.arg, s.dtype, s.shape) * s).expand(u.shape) * y


# fmt: off
sink = exact + PatternMatcher([
    (x / a,                                 lambda x, a: scaled(1.0 / a, x)),
    # 2*(y + 1/2) -> 2*y + 1: multiplying by a power of two rounds nothing, so nothing is lost
    (a * ((x + b) * y),                     lambda x, y, a, b: (a * (x + b)) * y if is_power_of_two(a) else None),
    (a * (x + b),                           lambda x, a, b: a * x + a * b if is_power_of_two(a) else None),
    (a * (UPat(Ops.EXPAND, name="u") * y),  into_scalar),
])
# fmt: on


def simplify(roots: Sequence[UOp], fired: Fired | None = None) -> list[UOp]:
    """Short forms of derivatives, equal to the originals as real functions.

    >>> q = UOp.var("q")
    >>> simplify([0.5 * (2.0 * q)])
    [q]
    """
    return graph_rewrite(graph_rewrite(roots, real, fired), sink, fired)
