"""The energy of a small system as a function of Python: some microseconds, and nothing to compile.

With it its scale, the sum of the sizes of its terms, and second derivatives, from which the fastest vibration follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tinyphysics.ir import Ops, UOp, elements, substitute, toposort
from tinyphysics.planner.methods.method import BATH, SPLITTING, TABLEAU, Method
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.unroll import stays_whole, unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.runtime.stages.terms import addends
from tinyphysics.system import System

SMALL = 32  # numbers of a state
SHORT = 400  # operations of its energy
WRITTEN = 6_000  # numbers in them, which are written out: sums over many data are not looked at
CURVED = 8  # positions whose second derivatives are written out

Function = Callable[..., tuple[float, ...]]


# fmt: off
BINARY = {Ops.ADD: "+", Ops.SUB: "-", Ops.MUL: "*", Ops.DIV: "/", Ops.POW: "**", Ops.LT: "<", Ops.LE: "<=", Ops.EQ: "==",
          Ops.NE: "!=", Ops.AND: "&", Ops.OR: "|"}
CALLS = {Ops.SQRT: "sqrt", Ops.SIN: "sin", Ops.COS: "cos", Ops.TAN: "tan", Ops.EXP: "exp", Ops.LOG: "log", Ops.TANH: "tanh",
         Ops.SINH: "sinh", Ops.COSH: "cosh", Ops.ATAN: "arctan", Ops.ASIN: "arcsin", Ops.ACOS: "arccos", Ops.EXPM1: "expm1",
         Ops.LOG1P: "log1p", Ops.ABS: "abs", Ops.MIN: "minimum", Ops.MAX: "maximum", Ops.WHERE: "where", Ops.ATAN2: "arctan2",
         Ops.HYPOT: "hypot", Ops.FLOOR: "floor", Ops.CBRT: "cbrt", Ops.SIGN: "sign", Ops.NOT: "invert", Ops.RSQRT: "rsqrt"}
# fmt: on
ON_FLOATS: dict[str, Any] = {
    **{
        name: getattr(math, name)
        for name in ("sqrt", "sin", "cos", "tan", "exp", "log", "tanh", "sinh", "cosh")
    },
    **{name: getattr(math, name) for name in ("expm1", "log1p", "hypot", "floor", "cbrt")},
    "arctan": math.atan,
    "arcsin": math.asin,
    "arccos": math.acos,
    "arctan2": math.atan2,
    "abs": abs,
    "minimum": min,
    "maximum": max,
    "where": lambda c, a, b: a if c else b,
    "invert": lambda c: not c,
    "sign": lambda x: math.copysign(1.0, x) if x else x,
    "rsqrt": lambda x: 1.0 / math.sqrt(x),
}  # fmt: skip
ON_ARRAYS: dict[str, Any] = {name: getattr(np, name) for name in CALLS.values() if hasattr(np, name)}
ON_ARRAYS |= {"abs": np.abs, "invert": np.logical_not, "rsqrt": lambda x: 1.0 / np.sqrt(x)}


def written(roots: Sequence[UOp], arguments: Sequence[UOp]) -> tuple[Function, Function] | None:
    """(on floats, on arrays) a function of numbers for scalar graphs; None where an operation is not in the tables."""
    names: dict[UOp, str] = {u: f"x{k}" for k, u in enumerate(arguments)}
    lines = [f"def look({', '.join(names[u] for u in arguments)}):"]
    for u in toposort(roots):
        if u in names:
            continue
        parts = [names.get(s, "") for s in u.src]
        if u.op is Ops.CONST and u.dtype.is_float and math.isfinite(u.arg):
            names[u] = f"({float(u.arg)!r})"
            continue
        if u.shape or u.op is Ops.VAR or "" in parts:
            return None
        if u.op in BINARY:
            code = f"{parts[0]} {BINARY[u.op]} {parts[1]}"
        elif u.op is Ops.NEG:
            code = f"-{parts[0]}"
        elif u.op in CALLS:
            code = f"{CALLS[u.op]}({', '.join(parts)})"
        else:
            return None
        names[u] = f"v{len(lines)}"
        lines.append(f"    {names[u]} = {code}")
    lines.append(f"    return {', '.join(names[u] for u in roots)},")
    source = compile("\n".join(lines), "<energy>", "exec")
    out = []
    for functions in (ON_FLOATS, ON_ARRAYS):
        space = dict(functions)
        exec(source, space)
        out.append(space["look"])
    return out[0], out[1]


@dataclass(frozen=True)
class Look:
    """The energy of a small system with its scale, and its second derivatives, as functions of the numbers of a state."""

    states: tuple[str, ...]  # the numbers of these are the arguments, then those of parameters
    params: tuple[str, ...]
    source: tuple[Any, ...]  # what it was made of
    energy: tuple[Function, Function]  # on floats, on arrays
    bends: tuple[Function, Function] | None = None  # lower triangles of V'' and T''
    count: int = 0  # of positions

    def __reduce__(self) -> tuple[Any, ...]:
        return made, self.source

    def columns(self, flat: Mapping[str, Any]) -> list[Any]:
        """The arguments of many members: arrays without their last axis."""
        return [flat[n][..., k] for n in (*self.states, *self.params) for k in range(flat[n].shape[-1])]

    def of_one(
        self, states: Mapping[str, Any], params: Mapping[str, Any], rows: Sequence[int]
    ) -> list[list[float]]:
        """The arguments at some frames of a run of one member."""
        given = [x for name in self.params for x in params[name].ravel().tolist()]
        listed = [states[name].reshape(len(states[name]), -1) for name in self.states]
        if len(rows) == len(listed[0]):
            every = [v.tolist() for v in listed]
            return [[x for v in every for x in v[k]] + given for k in rows]
        return [[x for v in listed for x in v[k].tolist()] + given for k in rows]


def computed(both: tuple[Function, Function], at: Sequence[float]) -> tuple[float, ...]:
    try:
        return both[0](*at)
    except (ArithmeticError, ValueError, TypeError):  # floats raise where arrays are infinite or NaN
        with np.errstate(all="ignore"):
            return tuple(map(float, both[1](*map(np.float64, at))))


def look_of(system: System, method: Method | None) -> Look | None:
    """None for a large system, or one whose energy has operations that are not in the tables."""
    if system.energy is None or sum(s.var.size for s in system.states) > SMALL:
        return None
    splits = method is not None and method.family.kind in (SPLITTING, TABLEAU, BATH)
    parameters = tuple(x.var for x in system.parameters)
    if system.driven and system.time is not None:  # the last argument
        parameters = (*parameters, system.time)
    variables = tuple(s.var for s in system.states)
    bends = splits and not system.levels and bool(system.pairs)  # vibrations are of q and p
    return made(system.energy, variables, parameters, system.q, system.p, bends)


@lru_cache(maxsize=256)
def made(
    H: UOp,
    states: tuple[UOp, ...],
    parameters: tuple[UOp, ...],
    q: tuple[UOp, ...],
    p: tuple[UOp, ...],
    bends: bool,
) -> Look | None:
    nodes = toposort([H])
    if len(nodes) > SHORT or sum(u.size for u in nodes) > WRITTEN or stays_whole(nodes):
        return None
    (H,) = inline([H])
    roots = [H, UOp.sum_of(abs(x) for x in addends(H))]
    count = sum(x.size for x in q)
    variables = [e for x in (*states, *parameters) for e in elements(x)]
    single = [UOp.var(f"x{k}") for k in range(len(variables))]
    table = dict(zip(variables, single))
    energy, scale = substitute([u for group in unroll(roots) for u in group], table)
    functions = written([energy, scale], single)
    if functions is None:
        return None
    names = tuple(str(x.arg) for x in states), tuple(str(x.arg) for x in parameters)
    source = H, states, parameters, q, p, bends
    if not bends or count > CURVED:
        return Look(*names, source, functions)
    second: list[UOp] = []
    for side in (q, p):
        each = [table[e] for v in side for e in elements(v)]
        slopes = gradient(energy, each)
        second += [x for j, slope in enumerate(slopes) for x in gradient(slope, each[: j + 1])]
    return Look(*names, source, functions, written(second, single), count)


def fastest(second: Sequence[Any], n: int, enough: float = 0.0) -> float:
    """The highest frequency of small vibrations, from the lower triangles of V'' and T''; or less than `enough`."""
    half = n * (n + 1) // 2
    if n == 1:
        square = second[0] * second[1]
        return math.sqrt(square) if square > 0 else 0.0 if square == square else math.nan
    # no eigenvalue is above the product of both norms: most steps are short, and need no eigenvalues
    largest = 2.0 * math.sqrt(sum(x * x for x in second[:half]) * sum(x * x for x in second[half:]))
    if largest < enough * enough:
        return 0.0
    matrices = []
    for rows in (second[:half], second[half:]):
        m = np.zeros((n, n))
        m[np.tril_indices(n)] = rows
        matrices.append(m + np.tril(m, -1).T)
    with np.errstate(all="ignore"):
        product = matrices[1] @ matrices[0]  # of finite numbers, and yet it may not be
    if not np.isfinite(product).all():
        return math.nan
    square = max(np.linalg.eigvals(product).real)
    return math.sqrt(square) if square > 0 else 0.0
