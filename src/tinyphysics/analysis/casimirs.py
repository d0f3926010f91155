"""What does every energy keep in a bracket?  Casimirs, J(z) grad C = 0: polynomials and logarithms, each proved.

Candidates are found where J is evaluated at some places, as combinations of a few functions with simple coefficients; what is
said is what algebra then shows. One that is not found may be there.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tinyphysics.ir import UOp, elements, evaluate
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.identities.real import simplify

PLACES = 12  # at which J is looked at
NOTHING = 1e-9  # of the largest number there
SIMPLE = 64  # the largest denominator of a coefficient


def casimirs(J: UOp, z: UOp) -> tuple[UOp, ...]:
    """Linear ones and sums of logarithms; where there are none, of degree 2."""
    numbers = elements(z)
    products = [a * b for k, a in enumerate(numbers) for b in numbers[k:]]
    for basis in ([*numbers], [x.log() for x in numbers], products):
        if found := tuple(c for c in combined(J, z, basis) if is_kept(J, z, c)):
            return found
    return ()


def combined(J: UOp, z: UOp, basis: list[UOp]) -> list[UOp]:
    """Combinations that are kept as far as is seen."""
    numbers, n = elements(z), z.size
    slopes = [g for u in basis for g in gradient(u, numbers)]
    rng, rows = np.random.default_rng(1), []
    for _ in range(PLACES):
        env = {str(v.arg): rng.uniform(0.5, 2.0, v.shape).tolist() for v in J.leaves | {z}}
        values = np.array(evaluate([*unroll([J])[0], *slopes], env), float)
        rows.append(values[: n * n].reshape(n, n) @ values[n * n :].reshape(len(basis), n).T)
    matrix = np.concatenate(rows)
    if not np.isfinite(matrix).all():
        return []
    out = []
    for row in null_space(matrix):
        simple = [Fraction(float(c)).limit_denominator(SIMPLE) for c in row]
        if max(abs(float(s) - c) for s, c in zip(simple, row)) < NOTHING:
            terms = [u if s == 1 else float(s) * u for s, u in zip(simple, basis) if s]
            out.append(simplify([UOp.sum_of(terms)])[0])
    return out


def null_space(matrix: np.ndarray) -> np.ndarray:
    """Its rows span what the matrix takes to 0, each with a 1 where the others have a 0."""
    _, sizes, rows = np.linalg.svd(matrix)
    rank = int((sizes > NOTHING * max(sizes.max(initial=0.0), 1e-300)).sum())
    out, at = rows[rank:].copy(), 0
    for column in range(out.shape[1]):
        if at == len(out):
            break
        pivot = at + int(np.abs(out[at:, column]).argmax())
        if abs(out[pivot, column]) < NOTHING:
            continue
        out[[at, pivot]] = out[[pivot, at]]
        out[at] /= out[at, column]
        others = [k for k in range(len(out)) if k != at]
        out[others] -= np.outer(out[others, column], out[at])
        at += 1
    return out


def is_kept(J: UOp, z: UOp, c: UOp) -> bool:
    """Is J grad C zero, by algebra?"""
    slopes, n = gradient(c, elements(z)), z.size
    (flat,) = unroll([J])
    rates = simplify([UOp.sum_of([flat[i * n + j] * slopes[j] for j in range(n)]) for i in range(n)])
    normal = Normal()
    return all(normal.is_zero(r) for r in rates)
