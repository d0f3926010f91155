"""What is the value of an element-wise graph at many points at once?  ir/value.py, on NumPy arrays.

Slow beside a kernel and fast beside Python numbers; fma is rounded once without help of the hardware.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tinyphysics.ir import Ops, UOp, bool_, f32, toposort
from tinyphysics.ir.value import fma_exact

Array = np.ndarray[Any, Any]
TYPES = {
    "f64": np.float64,
    "f32": np.float32,
    "i64": np.int64,
    "i32": np.int32,
    "u64": np.uint64,
    "u32": np.uint32,
    "bool": np.bool_,
}
SPLIT = 134217729.0  # 2**27 + 1, Veltkamp


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    s = a + b
    z = s - a
    return s, (a - (s - z)) + (b - z)


def to_odd(high: Array, low: Array) -> Array:
    """high, moved to its neighbour with an odd last bit where low is not zero (Boldo and Melquiond 2008)."""
    i = np.ascontiguousarray(high).view(np.int64)
    move = (low != 0) & (i & 1 == 0)
    return (i + np.where(move, np.where((low > 0) == (high > 0), 1, -1), 0)).view(np.float64)


def fma64(a: Array, b: Array, c: Array) -> Array:
    a, b, c = (np.ascontiguousarray(v) for v in np.broadcast_arrays(a, b, c))
    p = a * b
    plain = p + c
    t = SPLIT * a
    ah = t - (t - a)
    t = SPLIT * b
    bh = t - (t - b)
    e = ((ah * bh - p) + ah * (b - bh) + (a - ah) * bh) + (a - ah) * (b - bh)
    th, tl = two_sum(c, e)
    vh, vl = two_sum(p, th)
    out = vh + to_odd(*two_sum(tl, vl))
    out = np.where((a == 0) | (b == 0) | ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)), plain, out)
    ea, eb, ec = ((v.view(np.int64) >> 52) & 0x7FF for v in (a, b, c))
    ep = ea + eb - 1023
    extreme = (ea > 1990) | (eb > 1990) | (ep > 2000) | (ec > 2000)
    extreme |= (ep < 120) | (ea < 30) | (eb < 30) | ((ec < 120) & (ep < 240))
    extreme &= (ea < 2047) & (eb < 2047) & (ec < 2047) & (a != 0) & (b != 0)
    for i in np.flatnonzero(extreme):
        out[i] = fma_exact(float(a[i]), float(b[i]), float(c[i]))
    return out


def fma32(a: Array, b: Array, c: Array) -> Array:
    p, wide = np.broadcast_arrays(a.astype(np.float64) * b, c.astype(np.float64))  # the product is exact
    s, error = two_sum(p, wide)
    return np.where(np.isfinite(s), to_odd(s, error), s).astype(np.float32)


def shifted_right(a: Array, n: Array) -> Array:
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return (a.view(unsigned) >> n.astype(unsigned)).view(a.dtype)


def high_half(a: Array, b: Array) -> Array:
    return (a.astype(np.uint64) * b.astype(np.uint64) >> np.uint64(32)).astype(np.uint32)


FUNCTIONS: dict[Ops, Callable[..., Array]] = {
    Ops.ADD: np.add,
    Ops.SUB: np.subtract,
    Ops.MUL: np.multiply,
    Ops.DIV: np.divide,
    Ops.NEG: np.negative,
    Ops.SQRT: np.sqrt,
    Ops.LT: np.less,
    Ops.LE: np.less_equal,
    Ops.EQ: np.equal,
    Ops.NE: np.not_equal,
    Ops.AND: np.bitwise_and,
    Ops.OR: np.bitwise_or,
    Ops.XOR: np.bitwise_xor,
    Ops.NOT: np.invert,
    Ops.SHL: np.left_shift,
    Ops.SHR: shifted_right,
    Ops.MULHI: high_half,
    Ops.WHERE: np.where,
}


def value(u: UOp, s: Sequence[Array]) -> Array:
    match u.op:
        case Ops.CONST:
            return np.array([u.arg]).astype(TYPES[u.dtype.name])
        case Ops.FMA:
            return fma32(*s) if u.dtype is f32 else fma64(*s)
        case Ops.CAST:
            return s[0].astype(TYPES[u.dtype.name])
        case Ops.BITCAST:
            return np.ascontiguousarray(s[0]).view(TYPES[u.dtype.name])
        case Ops.NOT if u.dtype is bool_:
            return np.logical_not(s[0])
    return FUNCTIONS[u.op](*s)


def evaluate(roots: Sequence[UOp], points: Mapping[str, Array]) -> list[Array]:
    """The roots, scalars in the graph, where each variable runs through its array."""
    values: dict[UOp, Array] = {}
    size = max(len(p) for p in points.values())
    with np.errstate(all="ignore"):
        for u in toposort(roots):
            values[u] = points[u.arg] if u.op is Ops.VAR else value(u, [values[s] for s in u.src])
    return [np.broadcast_to(values[r], (size,)) for r in roots]
