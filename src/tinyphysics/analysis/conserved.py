"""Is a function of the state constant along the motion?  Its Poisson bracket with the energy, in symbols or in numbers.

Shown where the bracket is zero in symbols. Measured where it is rounding beside its own terms at states drawn at random, in
double-double: a coupling of 1e-20 is seen. What is neither is not conserved, as far as is known here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.ir.value import Value, evaluate
from tinyphysics.rules.calculus.brackets import bracket
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.digits.double_double import Pair
from tinyphysics.rules.equality.normal import same
from tinyphysics.rules.equality.probe import number
from tinyphysics.rules.functions.widen import widen
from tinyphysics.system import System

ROUNDING = 1e-24  # of a sum of some thousand products in pairs of float64, relative to their sizes
SCALES = (1.0, 1.0, 0.3, 3.0)  # of the numbers of a state; the first has no negative ones
ENOUGH = 2  # states at which the energy is finite
SHORT = 400  # nodes of a bracket that are compared in symbols

Numbers = Mapping[str, Sequence[float]]  # of a state or a parameter, row-major


@dataclass(frozen=True)
class Rate:
    """How fast a function of the state changes, relative to the terms of its rate."""

    value: float  # 0.0: shown; nan: nothing could be measured
    how: str  # "shown", "measured", or "not finite"

    @property
    def conserved(self) -> bool:
        return self.how == "shown" or self.how == "measured" and self.value <= ROUNDING


def conserved(
    f: UOp, system: System, parameters: Numbers | None = None, states: Sequence[Numbers] = ()
) -> Rate:
    """Of a function of the state of a Hamiltonian, for any parameters or for those given; also at `states`, if any."""
    H = system.energy
    assert H is not None
    if f is H:
        return Rate(0.0, "shown")
    b = bracket(f, H, system.pairs)
    if b.op is Ops.CONST and b.arg == 0:
        return Rate(0.0, "shown")
    if len(toposort([b])) <= SHORT and same(b, UOp.const(0.0)):
        return Rate(0.0, "shown")
    return measured(f, system, parameters, states)


def terms_of_bracket(f: UOp, system: System) -> tuple[UOp, UOp]:
    """(the bracket with the energy, the sum of the sizes of its products), not simplified."""
    assert system.energy is not None
    variables = [s for pair in system.pairs for s in pair]
    slopes = [gradient(u, variables) for u in (f, system.energy)]
    total, size = [], []
    for k in range(0, len(variables), 2):
        (f_q, f_p), (g_q, g_p) = (s[k : k + 2] for s in slopes)
        for sign, product in ((1.0, f_q * g_p), (-1.0, f_p * g_q)):
            total.append((sign * product).sum())
            size.append(abs(product).sum())
    return UOp.sum_of(total), UOp.sum_of(size)


def measured(f: UOp, system: System, parameters: Numbers | None, states: Sequence[Numbers]) -> Rate:
    roots = [u for group in unroll(terms_of_bracket(f, system)) for u in group]
    leaves = [u for u in toposort(roots) if u.op in (Ops.VAR, Ops.ELEMENT)]
    names = {u: (u if u.op is Ops.VAR else u.src[0]) for u in leaves}
    single = {u: UOp.var(f"@{k}") for k, u in enumerate(leaves) if u.op is Ops.ELEMENT or u.shape == ()}
    zero = UOp.const(0.0)
    wide = widen(roots, {u: Pair(x, zero) for u, x in single.items()})
    values = [word for pair in wide if isinstance(pair, Pair) for word in (pair.high, pair.rest)]
    own = {s.name: s.var.size for s in system.states} | {p.name: p.var.size for p in system.parameters}
    found = []
    for point in points(system, own, parameters, states):
        env: dict[str, Value] = {
            str(x.arg): float(point[str(names[u].arg)][u.arg if u.op is Ops.ELEMENT else 0])
            for u, x in single.items()
        }
        numbers = finite(values, env)
        if numbers is not None:
            rate, size = numbers[0] + numbers[1], numbers[2] + numbers[3]
            found.append(abs(rate) / size if size else 0.0)
    if len(found) < ENOUGH:
        return Rate(math.nan, "not finite")
    return Rate(max(found), "measured")


def finite(values: Sequence[UOp], env: Mapping[str, Value]) -> list[float] | None:
    try:
        out: list[Any] = evaluate(values, env)
    except (ArithmeticError, ValueError):
        return None
    return [float(x) for x in out] if all(math.isfinite(x) for x in out) else None


def points(
    system: System, sizes: Mapping[str, int], parameters: Numbers | None, states: Sequence[Numbers]
) -> Iterator[Numbers]:
    """Where the bracket is looked at: at states drawn at random, and at those given."""
    for k, scale in enumerate(SCALES):
        at, out = 1009 * k + 1, {}
        for name, n in sizes.items():
            # a sign that follows no pattern, but for the first point: roots and logarithms may want positive numbers
            signs = [1.0 if k == 0 or number(7 * (at + j)) > 1.0 else -1.0 for j in range(n)]
            own = {s.name for s in system.states}
            out[name] = [scale * number(at + j) * (s if name in own else 1.0) for j, s in enumerate(signs)]
            at += n
        yield out | dict(parameters or {})
    for given in states:
        yield (
            {name: [number(k + 1) for k in range(n)] for name, n in sizes.items()}
            | dict(parameters or {})
            | dict(given)
        )
