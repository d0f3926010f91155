"""What do operators mean on whole numbers inside a user's function?  What they mean in NumPy; floats are never mixed in.

Overflow wraps. Here `x >> n` copies the sign; rules on the bits of floats want zeros, and they write SHR themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinyphysics.errors import TraceError
from tinyphysics.ir.dtype import DTYPES, DType, bool_, f64, i64, promote
from tinyphysics.ir.infix import SYMBOL
from tinyphysics.ir.ops import Ops
from tinyphysics.util import one_of, user_site

SIGNS = {op: sign for op, (sign, _) in SYMBOL.items()} | {Ops.XOR: "^", Ops.SHL: "<<", Ops.SHR: ">>"}
NAMED = {d.numpy: d for d in DTYPES.values() if d.kind in "ib"} | {
    "int": i64, "float": f64, "float64": f64, "bool_": bool_,
}  # fmt: skip
LARGEST_POWER = 64
SHOWN = 40  # characters of an operand


def dtype_of(given: Any) -> DType:
    """The type that a user names: "int8", np.int8, int, float or bool."""
    name = given if isinstance(given, str) else getattr(given, "__name__", None) or getattr(given, "name", "")
    if name not in NAMED:
        types = ["float", "bool", "int8", "int16", "int32", "int64"]
        raise TraceError(
            f"{given!r} is not a type that symbols can have",
            site=user_site(),
            fix=f'Write one of {one_of(types)}: x.astype("int8").',
        )
    return NAMED[name]


def shown(u: Any) -> str:
    text = str(u)
    return text if len(text) <= SHOWN else "..."


def written(op: Ops, operands: Sequence[Any]) -> str:
    if op in SIGNS and len(operands) == 2:
        return f"{shown(operands[0])} {SIGNS[op]} {shown(operands[1])}"
    return f"{op.value}({', '.join(map(shown, operands))})"


def check_types(op: Ops, operands: Sequence[Any], float_only: bool) -> None:
    """A TraceError at the user's line where whole numbers meet floats, or a function that only floats have."""
    data = operands[1:] if op is Ops.WHERE else operands
    whole = next((x for x in data if x.dtype.is_int), None)
    if whole is None:
        return
    kind, text = whole.dtype.numpy, written(op, operands)
    if any(x.dtype.is_float for x in data):
        other = next(x for x in data if x.dtype.is_float)
        raise TraceError(
            f"`{text}` mixes {kind} with float64",
            site=user_site(),
            fix=f'Write {shown(whole)}.astype(float), or {shown(other)}.astype("{kind}"), which drops the fraction.'
            if other.op is not Ops.CONST
            else f"Write {shown(whole)}.astype(float), or a whole number instead of {shown(other)}.",
        )
    if float_only:
        told = f"{shown(data[0])} // {shown(data[1])}, or " if op is Ops.DIV else ""
        raise TraceError(
            f"`{text}` is not a whole number, and its operands are",
            site=user_site(),
            fix=f"Write {told}{shown(whole)}.astype(float).",
        )


def check_fits(x: int, dtype: DType) -> None:
    low, high = dtype.limits
    if not low <= x <= high:
        fitting = [d for d in NAMED.values() if d.kind == "i" and d.limits[0] <= x <= d.limits[1]]
        wider = min(fitting, key=lambda d: d.bits).numpy if fitting else ""
        raise TraceError(
            f"the number {x} does not fit {dtype.numpy}, which goes from {low} to {high}",
            site=user_site(),
            fix=f'Compute in a wider type: x.astype("{wider}").' if wider else "Write a smaller number.",
        )


def known(n: Any) -> int | None:
    """The one number that an operand is."""
    return int(n.arg) if n.op is Ops.CONST else None


def shift(x: Any, n: Any, op: Ops) -> Any:
    """By less than 0 or by all bits and more: to the left 0, to the right copies of the sign, as in NumPy."""
    last = x.dtype.bits - 1
    places = known(n)
    if places is not None and 0 <= places <= last:
        return x.alu(op, n)
    outside = (n < 0) | (n > last)
    if op is Ops.SAR:
        return x.alu(op, outside.where(last, n))
    return outside.where(0, x.alu(op, outside.where(0, n)))


def power(x: Any, n: Any) -> Any:
    """Products; the exponent is a number of the user's file."""
    k = known(n)
    if k is None or not 0 <= k <= LARGEST_POWER:
        raise TraceError(
            f"`{written(Ops.POW, [x, n])}` is a power of a whole number",
            site=user_site(),
            fix=f"Its exponent is a number from 0 to {LARGEST_POWER}; or write {shown(x)}.astype(float).",
        )
    out, square = None, x
    while k:
        if k & 1:
            out = square if out is None else out * square
        k >>= 1
        square = square * square if k else square
    return x * 0 + 1 if out is None else out


def product(a: Any, b: Any) -> Any:
    """a @ b in the wider type of the two; summed in int64, whose lower bits are the same."""
    dtype = promote(a.dtype, b.dtype)
    a, b = a.cast(i64), b.cast(i64)
    if b.ndim == 1:
        total = (a * b).sum(-1)
    else:
        rows = b.reshape(*b.shape[:-2], *(1,) * (a.ndim > 1), *b.shape[-2:])
        total = (a.reshape(*a.shape, 1) * rows).sum(-2)
    return total.cast(dtype)


def is_written(x: Any) -> bool:
    """Is it a whole number that stands in the user's file?"""
    return x.op is Ops.CONST and x.dtype.is_float and x.arg == x.arg and float(x.arg).is_integer()


def cast(x: Any, dtype: DType) -> Any:
    """x in another type. Floats lose their fraction and wrap; NaN and what int64 does not hold is 0, on every machine."""
    if x.dtype is dtype:
        return x
    if dtype is bool_:
        return x.ne(0)
    if not x.dtype.is_float or dtype.is_float:
        return x.cast(dtype)
    # tp.where(c, 1, 0): no float is needed
    if x.op is Ops.WHERE and all(s.op is Ops.CONST for s in x.src[1:]):
        return x.src[0].where(cast(x.src[1], dtype), cast(x.src[2], dtype))
    if x.op is Ops.CONST:
        inside = x.arg == x.arg and -(2.0**63) <= x.arg < 2.0**63
        return x.lift(0.0).cast(dtype).expand(x.shape) if not inside else x.cast(dtype)
    inside = (-(2.0**63) <= x) & (x < 2.0**63)
    return inside.where(x, 0.0).cast(i64).cast(dtype)
