"""What are the values of expressions at one state, soon?  In NumPy's order of operations, to be looked at and not to be kept.

A diagnosis needs no exact bits: sums are folded as NumPy does it. What has no form here is computed by the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tinyphysics.ir import Ops, UOp, substitute, toposort
from tinyphysics.ir.mesh import INTERPOLATE, SPREAD
from tinyphysics.ir.ops import MOVEMENT
from tinyphysics.ir.value import CUSTOM, node, source_index
from tinyphysics.rules.calculus.solve import array_solution, outer_solution
from tinyphysics.rules.formulas import elliptic, mesh

# fmt: off
ELEMENTS: dict[Ops, Callable[..., Any]] = {
    Ops.NEG: np.negative, Ops.ABS: np.abs, Ops.SIGN: np.sign, Ops.FLOOR: np.floor, Ops.RINT: np.rint, Ops.SQRT: np.sqrt,
    Ops.RSQRT: lambda x: 1.0 / np.sqrt(x), Ops.CBRT: np.cbrt, Ops.SIN: np.sin, Ops.COS: np.cos, Ops.TAN: np.tan,
    Ops.ASIN: np.arcsin, Ops.ACOS: np.arccos, Ops.ATAN: np.arctan, Ops.SINH: np.sinh, Ops.COSH: np.cosh,
    Ops.TANH: np.tanh, Ops.EXP: np.exp, Ops.EXPM1: np.expm1, Ops.LOG: np.log, Ops.LOG1P: np.log1p, Ops.NOT: np.logical_not,
    Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply, Ops.DIV: np.divide, Ops.POW: np.power,
    Ops.ATAN2: np.arctan2, Ops.HYPOT: np.hypot, Ops.MIN: np.minimum, Ops.MAX: np.maximum,
    Ops.LT: np.less, Ops.LE: np.less_equal, Ops.EQ: np.equal, Ops.NE: np.not_equal,
    Ops.FMA: lambda a, b, c: a * b + c, Ops.IMAGE: lambda a, b, s: (a - s) - b,
    Ops.WHERE: np.where, Ops.WHERE_RARELY: np.where,
}
# fmt: on
OF_FLOATS = frozenset(ELEMENTS) - {Ops.NOT, Ops.LT, Ops.LE, Ops.EQ, Ops.NE, Ops.WHERE, Ops.WHERE_RARELY}
FOLDS: dict[str, Callable[..., Any]] = {"sum": np.sum, "max": np.max, "min": np.min}


def numbers(roots: Sequence[UOp], env: Mapping[str, Any]) -> list[Any]:
    """The values of the roots as arrays of their shapes; env has numbers, or flat lists."""
    values: dict[UOp, Any] = {}
    with np.errstate(all="ignore"):
        for u in toposort(roots):
            if u.op is Ops.VAR:
                values[u] = np.asarray(env[str(u.arg)]).reshape(u.shape)
            else:
                values[u] = value_of(u, [values[s] for s in u.src])
    return [values[r] for r in roots]


def with_rounds(root: UOp, env: Mapping[str, Any]) -> tuple[Any, int]:
    """(an expression that may hold a solution of whole arrays, the rounds of that)."""
    known, count = dict(env), 0

    def evaluate(roots: Sequence[UOp], more: Mapping[UOp, Any]) -> list[Any]:
        return numbers(roots, known | {str(v.arg): y for v, y in more.items()})

    while (u := outer_solution([root])) is not None:
        value, rounds = array_solution(u, evaluate)
        found = UOp.var(f"found {len(known)}", u.shape, u.dtype)
        known[str(found.arg)] = value
        (root,), count = substitute([root], {u: found}), count + rounds
    return evaluate([root], {})[0], count


def value_of(u: UOp, x: list[Any]) -> Any:
    if u.op is Ops.CONST:
        return np.full(u.shape, u.arg)
    if u.op is Ops.CUSTOM:
        names = [UOp.var(f"x{i}", s.shape, s.dtype) for i, s in enumerate(u.src)]
        return numbers([CUSTOM[u.arg](*names)], {str(n.arg): v for n, v in zip(names, x)})[0]
    if u.op in ELEMENTS and (u.op not in OF_FLOATS or u.dtype.is_float):
        return ELEMENTS[u.op](*x)
    if u.op is Ops.STACK:
        return np.array(x).reshape(u.shape)
    if u.op is Ops.CONCAT:
        return np.concatenate(x, axis=u.arg)
    if u.op is Ops.REDUCE and u.arg[0] in FOLDS and u.arg[1] and x[0].size:
        return np.asarray(FOLDS[u.arg[0]](x[0], axis=tuple(u.arg[1]))).reshape(u.shape)
    if u.op is Ops.ELLIPTIC or u.op is Ops.MESH and u.arg[0] not in (SPREAD, INTERPOLATE):
        given = tuple(UOp.var(f"x{k}", s.shape, s.dtype) for k, s in enumerate(u.src))
        made = mesh.expand(elliptic.expand(UOp(u.op, u.dtype, u.shape, given, u.arg)))
        return with_rounds(made, {str(v.arg): y for v, y in zip(given, x)})[0]
    if u.op is Ops.FOURIER:
        part, sign, axis = u.arg
        z = (np.fft.fft if sign < 0 else np.fft.ifft)(x[0] + 1j * x[1], axis=axis)
        z = z if sign < 0 else z * u.shape[axis]
        return z.imag if part else z.real
    if u.op is Ops.EXPAND:
        return np.broadcast_to(x[0], u.shape)
    if u.op is Ops.RESHAPE:
        return x[0].reshape(u.shape)
    if u.op is Ops.PERMUTE:
        return np.transpose(x[0], u.arg)
    if u.op is Ops.SLICE:
        return x[0][tuple(slice(a, b, c) for a, b, c in u.arg)]
    if u.op is Ops.GATHER and all(inside(i, n) for i, n in zip(x[1:], u.src[0].shape)):
        return x[0][tuple(x[1:])]
    if u.op is Ops.SCATTER and u.dtype.is_float and all(inside(i, n) for i, n in zip(x[1:], u.shape)):
        out = np.zeros(u.shape)
        np.add.at(out, tuple(x[1:]), x[0])
        return out
    if u.op in MOVEMENT and len(u.src) == 1:
        at = places(u)
        flat = np.append(np.ravel(x[0]), 0)  # the last is what comes from nowhere
        return flat[at].reshape(u.shape)
    return np.asarray(
        node(u)(*(v.ravel().tolist() if s.shape else v.item() for s, v in zip(u.src, x)))
    ).reshape(u.shape)


def inside(index: Any, size: int) -> bool:
    return bool(index.size) and bool(index.min() >= 0) and bool(index.max() < size)


@lru_cache(maxsize=256)
def places(u: UOp) -> Any:
    """Of a movement: where each number comes from; -1 is zero."""
    return np.array([-1 if i is None else i for i in source_index(u)])
