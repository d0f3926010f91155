"""Which weights satisfy the order conditions?  Newton's method from a start, in 60 digits, to a residual below 1e-45.

Where there are more weights than conditions the correction of least norm is taken, so that a start of many digits
keeps them. A weight that ends elsewhere than its digits said, or a residual that stays, is an error: a wrong digit
in a table is found here and not in somebody's orbits.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext

from tinyphysics.synth.coefficients.conditions import Conditions

DIGITS, RESIDUAL = 60, Decimal("1e-45")
MOST_ITERATIONS = 60
NEAR = 1e-6  # from here on the derivatives of the first such point do
SLACK = 60  # in units of the last digit given: the solution may lie that far from its start

Layout = Sequence[tuple[str, int]]  # (move, which of the unknowns is its number), in the order of the step


class Unsolved(ValueError):
    """The start leads to no solution near it."""


def decimals(text: str) -> int:
    """Digits after the point.

    >>> decimals("-0.0420"), decimals("1")
    (4, 0)
    """
    return len(text.partition(".")[2])


def solve(conditions: Conditions, layout: Layout, start: Sequence[str]) -> tuple[Decimal, ...]:
    """The weights near a start that satisfy all conditions.

    >>> from tinyphysics.synth.coefficients.conditions import composition
    >>> w = solve(Conditions(composition(4), (4,)), [("S", 0), ("S", 1), ("S", 0)], ["1.35", "-1.70"])
    >>> print(f"{w[0]:.30f}")
    1.351207191959657634047687808971
    """
    with localcontext() as context:
        context.prec = DIGITS
        x = [Decimal(text) for text in start]
        slopes: list[list[Decimal]] = []
        near = False
        for _ in range(MOST_ITERATIONS):
            left = conditions.residuals([(move, x[k]) for move, k in layout])
            size = max(map(abs, left))
            if size < RESIDUAL:
                break
            if not near:
                near = size < NEAR
                slopes = derivatives(conditions, layout, [float(v) for v in x])
            x = [v - d for v, d in zip(x, least_norm(slopes, left))]
        else:
            raise Unsolved(f"a residual of {size:.1e} is left after {MOST_ITERATIONS} iterations")
        for k, (text, v) in enumerate(zip(start, x)):
            if abs(Decimal(text) - v) > SLACK * Decimal(10) ** -decimals(text):
                raise Unsolved(f"weight {k} starts at {text} and ends at {v:.20f}")
        return tuple(x)


def derivatives(conditions: Conditions, layout: Layout, x: Sequence[float]) -> list[list[Decimal]]:
    """One row for each condition, by central differences: good to nine digits, and each iteration gains as many."""
    columns = []
    for j in range(len(x)):
        h = 1e-5
        ends = [
            conditions.residuals([(move, x[k] + (side if k == j else 0.0)) for move, k in layout])
            for side in (h, -h)
        ]
        columns.append([Decimal((up - down) / (2 * h)) for up, down in zip(*ends)])
    return [list(row) for row in zip(*columns)]


def least_norm(rows: Sequence[Sequence[Decimal]], right: Sequence[Decimal]) -> list[Decimal]:
    """The shortest x with rows x = right: x = rows' y, rows rows' y = right."""
    n = len(rows)
    system = [
        [sum((a * b for a, b in zip(p, q)), Decimal(0)) for q in rows] + [r] for p, r in zip(rows, right)
    ]
    for k in range(n):
        best = max(range(k, n), key=lambda i: abs(system[i][k]))
        system[k], system[best] = system[best], system[k]
        pivot = system[k][k]
        if not pivot:
            raise Unsolved("the conditions are dependent at this start")
        for i in range(k + 1, n):
            if factor := system[i][k] / pivot:
                system[i] = [a - factor * b for a, b in zip(system[i], system[k])]
    y = [Decimal(0)] * n
    for k in reversed(range(n)):
        y[k] = (system[k][n] - sum((system[k][j] * y[j] for j in range(k + 1, n)), Decimal(0))) / system[k][k]
    return [sum((row[j] * v for row, v in zip(rows, y)), Decimal(0)) for j in range(len(rows[0]))]
