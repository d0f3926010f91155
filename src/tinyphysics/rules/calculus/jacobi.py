"""When is z' = J(z) dH a bracket?  Where J is skew and obeys Jacobi's identity: expressions that must be zero."""

from __future__ import annotations

from collections.abc import Iterator

from tinyphysics.ir import UOp, elements
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.real import simplify


def identities(J: UOp, z: UOp) -> Iterator[tuple[str, tuple[int, ...], UOp]]:
    """(what, places, an expression that must be zero), skewness first; only places that are not equal by it."""
    n = z.size
    (flat,) = unroll([J])
    entry = [flat[i * n : (i + 1) * n] for i in range(n)]
    for i in range(n):
        for j in range(i + 1):
            (sum_,) = simplify([entry[i][j] + entry[j][i]])
            yield "J[i, j] + J[j, i]", (j, i), sum_
    numbers = elements(z)
    slopes = {(i, j): simplify(gradient(entry[i][j], numbers)) for i in range(n) for j in range(n) if i != j}
    for i in range(n):
        for j in range(i + 1, n):
            for k in range(j + 1, n):
                terms = []
                for a, b, c in ((i, j, k), (j, k, i), (k, i, j)):
                    terms += [entry[a][m] * slopes[b, c][m] for m in range(n)]
                (cyclic,) = simplify([UOp.sum_of(terms)])
                yield "the cyclic sum of J[i, m] dJ[j, k]/dz[m]", (i, j, k), cyclic
