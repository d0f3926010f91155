"""Which divisions and roots does math="fast" do without?  Those that a product with something known would replace.

x/(y sqrt y) and x/sqrt y become products with y**-1.5 and y**-0.5 (rules/functions/fast.py has them without a division),
a division by a number or a parameter one with its reciprocal, and what is the same in every step is multiplied together
once. Each product rounds on its own, so a result differs from the exact one in its last bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, substitute, toposort
from tinyphysics.rules.identities.denominators import as_written, product, without
from tinyphysics.rules.identities.fuse import fuse
from tinyphysics.rules.identities.quotients import Powers, factors, power, product_of

ARITHMETIC = frozenset({Ops.ADD, Ops.SUB, Ops.MUL, Ops.FMA})
ROOTS = {-1.5: 3, -0.5: 1}  # exponents, and how many inverse roots they are


def fewer(roots: Sequence[UOp]) -> list[UOp]:
    """The roots with all that this file knows.

    >>> q, p, r, h = (UOp.var(n) for n in ("q", "p", "r", "$h"))
    >>> fewer([p + q / (r * r.sqrt()) * h])
    [fma(q, r**-1.5*$h, p)]
    >>> fewer([q / r.sqrt(), r.sqrt() + 1.0, q / h])
    [q*rsqrt(r), fma(r, rsqrt(r), 1), q*(1/$h)]
    """
    plain = fuse(reciprocals(inverse_roots(roots)))
    together = fuse(constants_together(plain))
    return together if operations(together) <= operations(plain) else plain


def operations(roots: Sequence[UOp]) -> int:
    """How many sums and products a step does; what is fixed is computed before the loop."""
    return sum(u.op in ARITHMETIC and not is_fixed(u) for u in toposort(roots))


# --- roots -----------------------------------------------------------------------------------------
def half_powers(u: UOp) -> Powers:
    """A product as half powers of what it is made of: x sqrt x is x to three halves."""
    out: Powers = {}
    for x, k in factors(u).items():
        base, k = (x.src[0], k) if x.op is Ops.SQRT else (x, 2 * k)
        out[base] = out.get(base, 0) + k
    return out


def written_root(u: UOp) -> int:
    """How many inverse roots of its source a node is already; 0 of others."""
    if u.op is Ops.RSQRT:
        return 1
    return ROOTS.get(u.src[1].arg, 0) if u.op is Ops.POW and u.src[1].op is Ops.CONST else 0


def inverse_roots(roots: Sequence[UOp]) -> list[UOp]:
    """Divisions by roots as products with inverse roots; a root that is left beside its inverse as a product too."""
    order = toposort(roots)
    kept = as_written(order)
    below: dict[UOp, Powers] = {}
    wanted: dict[UOp, set[int]] = {}
    for u in order:
        if not u.dtype.is_float or u in kept:
            continue
        if k := written_root(u):
            wanted.setdefault(u.src[0], set()).add(k)
        elif u.op is Ops.DIV:
            powers = half_powers(u.src[1])
            odd = {x: k for x, k in powers.items() if k % 2}
            below |= {u: powers} if odd else {}
            for x, k in odd.items():
                wanted.setdefault(x, set()).add(k)
    if not wanted:
        return list(roots)
    new: dict[UOp, UOp] = {}
    memo: dict[tuple[UOp, int], UOp] = {}

    def inverse(x: UOp, k: int) -> UOp:
        """x to minus k halves."""
        return new[x] ** -1.5 if wanted[x] == {3} and k == 3 else power(new[x].rsqrt(), k, memo)

    for u in order:
        new[u] = u.replace(tuple(new[s] for s in u.src))
        if (k := written_root(u)) and u not in kept and u.dtype.is_float:
            new[u] = inverse(u.src[0], k)
        elif u in below:
            out = new[u.src[0]]
            for x, k in below[u].items():
                if k % 2 or x in wanted and wanted[x] != {3}:
                    one = out.op is Ops.CONST and out.arg == 1.0
                    out = inverse(x, k) if one else out * inverse(x, k)
            rest = product_of(
                {
                    new[x]: k // 2
                    for x, k in below[u].items()
                    if k % 2 == 0 and (x not in wanted or wanted[x] == {3})
                }
            )
            new[u] = out if rest is None else out / rest
    done = [new[r] for r in roots]
    here = dict.fromkeys(toposort(done))
    beside = {
        u: u.src[0] * u.src[0].rsqrt()
        for u in here
        if u.op is Ops.SQRT and u.src[0].rsqrt() in here and u not in kept
    }
    return substitute(done, beside) if beside else done


# --- what is the same in every step ----------------------------------------------------------------
def is_fixed(u: UOp) -> bool:
    """A number, or made of scalar parameters alone."""
    return all(v.op is Ops.VAR and str(v.arg).startswith("$") and not v.shape for v in u.leaves) and bool(
        u.leaves
    )


def reciprocals(roots: Sequence[UOp]) -> list[UOp]:
    """x/c as x times 1/c, where c is a number or a parameter: computed once, before the loop."""
    order = toposort(roots)
    kept = as_written(order)
    new: dict[UOp, UOp] = {}
    for u in order:
        new[u] = u.replace(tuple(new[s] for s in u.src))
        if u.op is Ops.DIV and u.dtype.is_float and u not in kept:
            a, d = u.src
            if (is_fixed(d) or d.op is Ops.CONST) and not (is_fixed(a) or a.op is Ops.CONST):
                new[u] = new[a] * (a.lift(1.0).expand(a.shape) / new[d])
    return [new[r] for r in roots]


def signed_factors(u: UOp) -> tuple[int, list[UOp]]:
    """(sign, factors) of a product."""
    sign, out, waiting = 1, [], [u]
    while waiting:
        x = waiting.pop()
        if x.op is Ops.NEG:
            sign = -sign
            waiting.append(x.src[0])
        elif x.op is Ops.MUL:
            waiting += reversed(x.src)
        else:
            out.append(x)
    return sign, out


def constants_together(roots: Sequence[UOp]) -> list[UOp]:
    """a*(b*$m)*$h + c as a*(b*($m*$h)) + c: what is fixed is multiplied once, and what several sums share is shared."""
    found: dict[UOp, tuple[int, list[UOp], list[UOp]]] = {}
    order = toposort(roots)
    kept = as_written(order)
    for u in order:
        if u.op is not Ops.FMA or u in kept:
            continue
        sign, parts = signed_factors(u.src[0] * u.src[1])
        fixed = [x for x in parts if is_fixed(x) or x.op is Ops.CONST]
        varying = [x for x in parts if not (is_fixed(x) or x.op is Ops.CONST)]
        if len(varying) > 1 and any(is_fixed(x) for x in fixed):
            found[u] = sign, fixed, varying
    often = Counter((x, tuple(fixed)) for _, fixed, varying in found.values() for x in dict.fromkeys(varying))
    new: dict[UOp, UOp] = {}
    for u in order:
        new[u] = u.replace(tuple(new[s] for s in u.src))
        if u not in found:
            continue
        sign, fixed, varying = found[u]
        own = min(varying, key=lambda x: often[x, tuple(fixed)])
        constant, shared = (product([new[x] for x in xs]) for xs in (fixed, without(varying, [own])))
        new[u] = new[own].fma(shared * (-constant if sign < 0 else constant), new[u.src[2]])
    return [new[r] for r in roots]
