"""What is the Poisson bracket of two functions of the state?  And what does a splitting conserve instead of its energy?"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, elements, toposort
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.real import simplify

Pairs = Sequence[tuple[UOp, UOp]]
PIECES = frozenset({Ops.PAD, Ops.CONCAT, Ops.STACK, Ops.ELEMENT})  # what indexing leaves in a derivative
FEW = 32  # numbers of a state that are then looked at one by one


def bracket(f: UOp, g: UOp, pairs: Pairs) -> UOp:
    """{f, g} = sum of df/dq dg/dp - df/dp dg/dq."""
    states = [s for pair in pairs for s in pair]
    slopes = [gradient(u, states) for u in (f, g)]
    if (
        any(u.op in PIECES for u in toposort([x for s in slopes for x in s]))
        and sum(s.size for s in states) <= FEW
    ):
        states = [x for q, p in pairs for both in zip(elements(q), elements(p)) for x in both]
        slopes = [gradient(unroll([u])[0][0], states) for u in (f, g)]  # number by number the zeros disappear
    products = []
    for k in range(0, len(states), 2):
        (f_q, f_p), (g_q, g_p) = (s[k : k + 2] for s in slopes)
        product = f_q * g_p - f_p * g_q
        products.append(product.sum())
    (out,) = simplify([UOp.sum_of(products)])
    return out


def strang_error(parts: Sequence[UOp], pairs: Pairs) -> UOp:
    """H2, where Strang's product of some parts is the flow of H + dt**2 H2 + O(dt**4).

    Half of A, all of R, half of A gives -{A, {A, R}}/24 + {R, {R, A}}/12, with R the rest, which is such a product again.
    """
    terms = []
    for k in range(len(parts) - 1):
        a, rest = parts[k], UOp.sum_of(list(parts[k + 1 :]))
        between = bracket(a, rest, pairs)
        terms += [bracket(a, between, pairs) * (-1 / 24), bracket(rest, between, pairs) * (-1 / 12)]
    (out,) = simplify([UOp.sum_of(terms)])
    return out
