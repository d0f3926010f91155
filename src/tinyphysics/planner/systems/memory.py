"""Is a matrix, or a kernel, that of a bath with a memory?  tp.gle([[0.0, 1.0], [-1.0, 2.0]])."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.front.baths import Bath
from tinyphysics.given import shown
from tinyphysics.options import heeds
from tinyphysics.rules.formulas.memory import GLE, Rows, noise_of, transposed, unit

LARGEST = 5  # rows of a matrix


@heeds("gle", "tp.gle([[0.0, 1.0], [-1.0, 2.0]])")
def gle(A: Any = None, C: Any = None, *, kernel: Any = None) -> Bath:
    """A generalised Langevin bath, (p, s)' = -A (p, s) + noise: fast modes are damped strongly and slow ones weakly, say.

    A           a matrix whose first row and column are those of the momentum
    C           the matrix of the law of (p, s) at mass 1; k_BT times 1 where it is left out. Another one is not canonical
    kernel      in place of A: [(weight, time), ...], the memory K(t) = sum of weight*exp(-t/time)
    """
    example = "tp.gle([[0.0, 1.0], [-1.0, 2.0]]), or tp.gle(kernel=[(1.0, 0.5)])."
    if (A is None) == (kernel is None):
        raise InputError("tp.gle takes a matrix A or a kernel", fix=f"Pass one of them: {example}")
    if kernel is not None:
        A = of_kernel(kernel, example)
    rows = matrix("A", A, example)
    n = len(rows)
    if not 2 <= n <= LARGEST:
        raise InputError(
            f"A has {n} rows", fix=f"One to {LARGEST - 1} numbers beside a momentum; for none pass friction=."
        )
    numbers = np.array([[float(x) for x in row] for row in rows])
    if np.linalg.eigvals(numbers).real.min() <= 0:
        raise InputError(
            "the matrix A is not stable: an eigenvalue has no positive real part, and momenta would grow or never forget",
            fix=f"Every eigenvalue of A needs a positive real part: {example}",
        )
    law = unit(n) if C is None else matrix("C", C, example)
    noise = noise_of(rows, law)
    least = np.linalg.eigvalsh(np.array([[float(x) for x in row] for row in noise])).min()
    if (
        len(law) != n
        or law != transposed(law)
        or least < -1e-12 * float(max(abs(x) for r in noise for x in r))
    ):
        raise InputError(
            "there is no noise for this A and C: AC + CAᵀ has a negative eigenvalue, or C is not symmetric",
            fix="Leave C= out, with A + Aᵀ without negative eigenvalues.",
        )
    return Bath(GLE, 0, rows, law)


def matrix(name: str, given: Any, example: str) -> Rows:
    try:
        numbers = np.zeros(()) if np.iscomplexobj(given) else np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.zeros(())
    if numbers.ndim != 2 or numbers.shape[0] != numbers.shape[1] or not np.isfinite(numbers).all():
        raise InputError(
            f"{name}={shown(given)} is not a square matrix of finite numbers", fix=f"Pass {example}"
        )
    return tuple(tuple(Fraction(float(x)) for x in row) for row in numbers)


def of_kernel(kernel: Any, example: str) -> Any:
    """p' = -sum s, s' = weight p - s/time, with s in units in which both couple by the same root."""
    try:
        pairs = [(float(weight), float(time)) for weight, time in kernel]
    except (TypeError, ValueError):
        pairs = []
    if not pairs or any(not 0 < x < np.inf for pair in pairs for x in pair):
        raise InputError(
            f"kernel={shown(kernel)} is not a list of positive (weight, time)", fix=f"Pass {example}"
        )
    A = np.zeros((len(pairs) + 1,) * 2)
    for k, (weight, time) in enumerate(pairs, 1):
        A[0, k], A[k, 0], A[k, k] = weight**0.5, -(weight**0.5), 1 / time
    return A
