"""A Taylor step in loops, with NumPy: each operation that emit/kinds/series/series.py writes, to the last bit; slow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinyphysics.device.host.arrays import Evaluator, fma64
from tinyphysics.device.protocols import CLOCK, Code
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.calculus.series import QUAD, Quad, SeriesPlan, Sums, beginning, exponents
from tinyphysics.rules.functions.transcendental import lower

LINEAR = {Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply, Ops.DIV: np.divide}


class Orders:
    """The coefficients of one step, as they become known."""

    def __init__(self, plan: SeriesPlan, constants: Any, tables: Any) -> None:
        self.plan, self.tables = plan, tables
        self.constant = dict(zip(plan.constants, constants))
        self.known: dict[UOp, list[Any]] = {}
        self.inverse: dict[Quad, Any] = {}

    def quad(self, q: Quad, k: int) -> Any:
        return np.array([self.known[u][k] for u in q])

    def put(self, u: UOp, x: Any, k: int) -> None:
        row = self.known.setdefault(u, [])
        if len(row) == k:
            row.append(np.float64(x))

    def rates(self, states: Sequence[Any], k: int) -> list[Any]:
        """The k-th coefficients of the rates from those of the states."""
        for s, x in zip(self.plan.states, states):
            self.put(s, x, k)
        for linear, sums in zip(self.plan.linear, self.plan.sums):
            for u in linear:
                self.put(u, self.combined(u, k), k)
            for group in sums:
                for n, q in enumerate(group.out):
                    for u, x in zip(q, self.first(group, n) if k == 0 else self.later(group, n, k)):
                        self.put(u, x, k)
        return [
            self.known[r][k] if self.plan.moves(r) else self.constant[r] if k == 0 else np.float64(0.0)
            for r in self.plan.rates
        ]

    def combined(self, u: UOp, k: int) -> Any:
        scales = u.op in (Ops.MUL, Ops.DIV)
        a: list[Any] = [
            self.known[s][k] if self.plan.moves(s) else self.constant[s] if k == 0 or scales else None
            for s in u.src
        ]
        if u.op is Ops.NEG or u.op is Ops.SUB and a[0] is None:
            return -a[-1]
        if any(x is None for x in a):
            return next(x for x in a if x is not None)
        return LINEAR[u.op](a[0], a[1])

    def first(self, s: Sums, n: int) -> Any:
        names = [UOp.var(f"x{k}") for k in range(len(s.operands))]
        env = {v: self.quad(group[n], 0) for v, group in zip(names, s.operands)}
        value, *inverse = Evaluator(lower(beginning(s.kind, s.out[n][0], names)))(env)
        if inverse:
            self.inverse[s.out[n]] = inverse[0]
        return value

    def later(self, s: Sums, n: int, k: int) -> Any:
        order, total = self.plan.order, np.zeros(QUAD)
        if s.kind in ("square", "root"):
            row = s.operands[0][n] if s.kind == "square" else s.out[n]
            for j in range((k + 1) // 2 - 1, -1 if s.kind == "square" else 0, -1):
                total = fma64(self.quad(row, j), self.quad(row, k - j), total)
            centre = self.quad(row, k // 2)
            total = fma64(self.tables[order + k] * centre, centre, total + total)
            return (
                total
                if s.kind == "square"
                else (self.quad(s.operands[0][n], k) - total) * self.inverse[s.out[n]]
            )
        if s.kind == "product":
            a, b = s.operands
            for j in range(k + 1):
                total = fma64(self.quad(a[n], j), self.quad(b[n], k - j), total)
            return total
        if s.kind == "quotient":
            a, b = s.operands
            for j in range(1, k + 1):
                total = fma64(self.quad(b[n], j), self.quad(s.out[n], k - j), total)
            return (self.quad(a[n], k) - total) * self.inverse[s.out[n]]
        assert s.exponent is not None
        table = 2 * order + exponents(self.plan).index(s.exponent) * order**2 + k * order
        for j in range(1, k + 1):
            total = fma64(
                self.tables[table + j] * self.quad(s.operands[0][n], j), self.quad(s.out[n], k - j), total
            )
        return total * self.inverse[s.out[n]]


def series_arrays(plan: SeriesPlan, parts: tuple[list[UOp], UOp, list[UOp], UOp]) -> Code:
    update, look, time, length = (Evaluator(lower(p if isinstance(p, list) else [p])) for p in parts)
    size, order = len(plan.states), plan.order
    padded = -(-size // QUAD) * QUAD
    names = [*(UOp.var(f"c{k}") for k in range(order + 1)), UOp.var("low")]
    wanted = sorted(parts[3].leaves - {UOp.var("now")}, key=lambda v: str(v.arg))

    def rows(state: Any) -> Any:
        return state[:-CLOCK].reshape(order + 2, padded)

    def advance(state: Any, constants: Any, tables: Any, scratch: Any, until: float, count: int) -> None:
        x, clock = rows(state), state[-CLOCK:]
        with np.errstate(all="ignore"):
            for _ in range(count):
                high, low, h, _ = clock
                if not h < (until - high) - low:
                    return
                x[0], x[-1] = update(dict(zip(names, x)) | {UOp.var("h"): np.array([h])})
                env = {UOp.var("high"): high, UOp.var("low"): low, UOp.var("h"): h}
                clock[:2] = [np.ravel(t)[0] for t in time({v: np.array([t]) for v, t in env.items()})]
                clock[3] += 1.0
                orders = Orders(plan, constants, tables)
                for k in range(order):
                    found = orders.rates(x[k], k)
                    x[k + 1, :size] = found if k == 0 else [r * tables[k] for r in found]
                env = {UOp.var("now"): clock[:1]}
                for v in wanted:
                    k, i = map(int, str(v.arg)[1:].split("."))
                    env[v] = x[k, i : i + 1]
                clock[2] = np.ravel(length(env)[0])[0]

    def looking(state: Any, constants: Any, tables: Any, scratch: Any, until: float, count: int) -> None:
        high, low, h, _ = state[-CLOCK:]
        left = (until - high) - low
        with np.errstate(all="ignore"):
            at = np.array([left if left <= h else np.nan])
            scratch[:padded] = look(dict(zip(names, rows(state))) | {UOp.var("h"): at})[0]

    return Code(advance, looking, padded)
