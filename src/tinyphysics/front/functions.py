"""Which functions may an energy use?  tp.* and NumPy's names, on symbols; on numbers they give numbers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from tinyphysics.errors import ShapeError, TraceError
from tinyphysics.ir import Ops, UOp, as_uop, evaluate, i64
from tinyphysics.ir.dtype import DTYPES
from tinyphysics.ir.uop import COMPLEX, NUMPY, axis_of, common_type, is_complex

SHORT = {d.numpy: d for d in DTYPES.values() if d.kind == "i" and d.bits < 64}  # by NumPy's names


def _has_symbol(x: Any) -> bool:
    return isinstance(x, UOp) or isinstance(x, (list, tuple)) and any(map(_has_symbol, x))


def _is_array(x: Any) -> bool:
    return hasattr(x, "tolist") or isinstance(x, (list, tuple)) and any(map(_is_array, x))


def _nested(flat: list[Any], shape: tuple[int, ...]) -> Any:
    if len(shape) <= 1:
        return flat
    rows = len(flat) // max(shape[0], 1)
    return [_nested(flat[i * rows : (i + 1) * rows], shape[1:]) for i in range(shape[0])]


def on_symbols(function: Callable[..., UOp]) -> Callable[..., Any]:
    """The function on symbols if an argument is one, else its value on numbers."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        out = function(*args, **kwargs)
        if any(map(_has_symbol, args)) or any(map(_has_symbol, kwargs.values())):
            return out
        (value,) = evaluate([out], {})
        value = _nested(value, out.shape) if out.shape else value
        numpy = sys.modules.get("numpy")
        return numpy.asarray(value) if numpy is not None and any(map(_is_array, args)) else value

    return call


def _unary(op: Ops) -> Callable[[Any], Any]:
    def function(x: Any) -> UOp:
        return as_uop(x).alu(op)

    function.__name__ = function.__qualname__ = op.value
    function.__doc__ = f"Returns {op.value}(x) of every element of x: a symbol, a number or an array."
    return on_symbols(function)


def _binary(op: Ops) -> Callable[[Any, Any], Any]:
    def function(x: Any, y: Any) -> UOp:
        return as_uop(x).alu(op, y)

    function.__name__ = function.__qualname__ = op.value
    function.__doc__ = (
        f"Returns {op.value}(x, y), element by element; x and y may be symbols, numbers or arrays."
    )
    return on_symbols(function)


sin, cos, tan = _unary(Ops.SIN), _unary(Ops.COS), _unary(Ops.TAN)
arcsin, arccos, arctan = _unary(Ops.ASIN), _unary(Ops.ACOS), _unary(Ops.ATAN)
sinh, cosh, tanh = _unary(Ops.SINH), _unary(Ops.COSH), _unary(Ops.TANH)
exp, expm1, log, log1p = _unary(Ops.EXP), _unary(Ops.EXPM1), _unary(Ops.LOG), _unary(Ops.LOG1P)
sqrt, cbrt, erf = _unary(Ops.SQRT), _unary(Ops.CBRT), _unary(Ops.ERF)
absolute, sign, floor = _unary(Ops.ABS), _unary(Ops.SIGN), _unary(Ops.FLOOR)
minimum, maximum = _binary(Ops.MIN), _binary(Ops.MAX)
hypot, arctan2, power = _binary(Ops.HYPOT), _binary(Ops.ATAN2), _binary(Ops.POW)


@on_symbols
def where(condition: Any, a: Any, b: Any) -> UOp:
    """Returns `a` where the condition holds and `b` elsewhere, as numpy.where does.

    It takes the place of `if` inside a system. The derivative follows the branch that is taken.
    """
    if any(isinstance(x, complex) or hasattr(x, "imag") and is_complex(x) for x in (a, b)):
        return COMPLEX["where"](as_uop(condition), a, b)  # type: ignore[no-any-return]
    return as_uop(condition).where(a, b)


@on_symbols
def cast(x: Any, dtype: Any) -> UOp:
    """Returns x in another type: cast(x, "int8"), cast(x, float), cast(x, bool); x.astype(dtype) is the same.

    Whole numbers wrap. Floats lose their fraction; NaN and numbers that int64 does not hold become 0.
    """
    return as_uop(x).astype(dtype)


@on_symbols
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> UOp:
    """Returns the Euclidean length of x, along `axis` if one is given.

    `keepdims` keeps that axis with length 1. `ord` is None or 2, the Euclidean norm: there is no other.
    """
    u = as_uop(x)
    of_matrix = u.ndim != 1 if axis is None else isinstance(axis, tuple)
    if ord not in (None, 2) or ord == 2 and of_matrix:
        raise TraceError.here(
            f"norm of order {ord!r} is not available on symbols",
            "Only the Euclidean norm is: np.linalg.norm(q).",
        )
    return (u * u).sum(axis, keepdims).sqrt()


@on_symbols
def total(x: Any, axis: Any = None, keepdims: bool = False) -> UOp:
    """Returns the sum of the elements of x, along `axis` if one is given; `keepdims` keeps that axis with length 1."""
    return as_uop(x).sum(axis, keepdims)


@on_symbols
def mean(x: Any, axis: Any = None, keepdims: bool = False) -> UOp:
    """Returns the mean of the elements of x, along `axis` if one is given; `keepdims` keeps that axis with length 1."""
    return as_uop(x).mean(axis, keepdims)


@on_symbols
def prod(x: Any, axis: Any = None) -> UOp:
    """Returns the product of the elements of x, along `axis` if one is given.

    The numbers are multiplied from left to right, so that the derivative is right where one of them is zero.
    """
    x = as_uop(x)
    if x.dtype.kind == "i":  # as NumPy multiplies
        x = x.cast(i64)
    if axis is None:
        x, axis = x.reshape(x.size), 0
    out: UOp | None = None
    at = axis_of(axis, x.ndim)
    for i in range(x.shape[at]):
        part = x[(slice(None),) * at + (i,)]
        out = part if out is None else out * part
    return as_uop(1.0) if out is None else out


@on_symbols
def largest(x: Any, axis: Any = None, keepdims: bool = False) -> UOp:
    return as_uop(x).max(axis, keepdims)


@on_symbols
def smallest(x: Any, axis: Any = None, keepdims: bool = False) -> UOp:
    return as_uop(x).min(axis, keepdims)


@on_symbols
def dot(a: Any, b: Any) -> UOp:
    """Returns the product of two vectors or matrices, `a @ b`; with a scalar it multiplies every element."""
    return as_uop(a).dot(b)


@on_symbols
def vdot(a: Any, b: Any) -> UOp:
    """The sum of products of all elements."""
    return as_uop(a).reshape(-1) @ as_uop(b).reshape(-1)


@on_symbols
def inner(a: Any, b: Any) -> UOp:
    """Sums of products along the last axis of both, for each pair of rows."""
    u, v = as_uop(a), as_uop(b)
    if not u.ndim or not v.ndim:
        return u * v
    rows = u.reshape(*u.shape[:-1], *(1,) * (v.ndim - 1), u.shape[-1])
    return (rows * v).sum(-1)


@on_symbols
def vecdot(a: Any, b: Any, axis: int = -1) -> UOp:
    """The sum of products along one axis, row by row."""
    products: UOp = as_uop(a) * b
    return products.sum(axis)


@on_symbols
def matmul(a: Any, b: Any) -> UOp:
    return as_uop(a) @ as_uop(b)


@on_symbols
def outer(a: Any, b: Any) -> UOp:
    """Returns the matrix of all products a[i]*b[j] of two vectors."""
    u, v = as_uop(a), as_uop(b)
    return u.reshape(u.size, 1) * v.reshape(1, v.size)


@on_symbols
def cross(a: Any, b: Any) -> UOp:
    """Returns the vector product of `a` and `b` along their last axis of length 3; of length 2 it is a scalar."""
    u, v = as_uop(a), as_uop(b)
    if u.shape[-1:] == v.shape[-1:] == (2,):
        return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]
    if u.shape[-1:] != (3,) or v.shape[-1:] != (3,):
        raise ShapeError.here(
            f"cross of shapes {u.shape} and {v.shape}", "Both need a last axis of length 3."
        )
    rows = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        rows.append(u[..., j] * v[..., k] - u[..., k] * v[..., j])
    return _stack(rows, -1)


def _stack(items: Sequence[Any], axis: int = 0) -> UOp:
    rows = [as_uop(x) for x in items]
    shape = rows[0].shape if rows else ()
    if any(r.shape != shape for r in rows):
        raise ShapeError.here(
            f"stack of shapes {', '.join(str(r.shape) for r in rows)}",
            "All must have one shape; np.concatenate joins arrays of different lengths.",
        )
    at = axis_of(axis, len(shape) + 1)
    return _concatenate([r.reshape(*shape[:at], 1, *shape[at:]) for r in rows], at)


def _concatenate(items: Sequence[Any], axis: int | None = 0) -> UOp:
    rows = [as_uop(x) for x in items]
    if axis is None:
        rows, axis = [r.reshape(-1) for r in rows], 0
    dtype = common_type(rows)
    rows = [r.cast(dtype) for r in rows]
    if not rows or any(r.ndim == 0 for r in rows):
        raise ShapeError.here("concatenate needs arrays", "Use np.stack for scalars.")
    at = axis_of(axis, rows[0].ndim)
    rest = {r.shape[:at] + r.shape[at + 1 :] for r in rows}
    if len(rest) > 1:
        raise ShapeError.here(
            f"concatenate of shapes {', '.join(str(r.shape) for r in rows)}",
            "All axes but the joined one must agree.",
        )
    size = sum(r.shape[at] for r in rows)
    shape = (*rows[0].shape[:at], size, *rows[0].shape[at + 1 :])
    if all(r.shape == (1,) for r in rows):
        return UOp.stack([r.reshape(()) for r in rows])
    return UOp(Ops.CONCAT, dtype, shape, tuple(rows), at)


@on_symbols
def stack(items: Any, axis: int = 0) -> UOp:
    """Joins arrays of one shape, or scalars, along a new axis: stack([x, y]) is a vector; `items` is the list of them."""
    return _stack(items, axis)


@on_symbols
def concatenate(items: Any, axis: int | None = 0) -> UOp:
    """Joins arrays along an axis that they have; `items` is the list of them."""
    return _concatenate(items, axis)


@on_symbols
def reshape(x: Any, shape: Any) -> UOp:
    """Returns the elements of x in another shape; one length may be -1, and follows from the others."""
    return as_uop(x).reshape(shape)


@on_symbols
def transpose(x: Any, axes: Any = None) -> UOp:
    """Returns x with its axes in another order, that of `axes`; reversed if none is given."""
    return as_uop(x).transpose(*(axes or ()))


@on_symbols
def take(x: Any, indices: Any, axis: int | None = None) -> UOp:
    """Returns x[indices] along `axis`; without one, x is taken as a single row of elements.

    A table of np.int8, np.int16 or np.int32 keeps that type; other tables of numbers are floats.
    """
    short = SHORT.get(getattr(getattr(x, "dtype", None), "name", ""))
    u = as_uop(x) if short is None else as_uop(x, short)
    if axis is None:
        u, axis = u.reshape(u.size), 0
    return u[(slice(None),) * axis_of(axis, u.ndim) + (indices,)]


@on_symbols
def roll(x: Any, shift: Any, axis: Any = None) -> UOp:
    """Shifts the elements of x by `shift` places along `axis`; those that leave at one end come back at the other."""
    return as_uop(x).roll(shift, axis)


@on_symbols
def diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> UOp:
    """Returns the differences of neighbours in x along `axis`, taken n times.

    `prepend` and `append` are values before the first and behind the last element: prepend=0, append=0 are fixed walls.
    """
    u = as_uop(x)
    at, ndim = axis_of(axis, u.ndim), u.ndim
    edge = (*u.shape[:at], 1, *u.shape[at + 1 :])

    def wall(value: Any) -> UOp:
        one = as_uop(value)
        return one if one.ndim == ndim else one.expand(edge)

    parts = [wall(v) for v in (prepend,) if v is not None] + [u]
    parts += [wall(v) for v in (append,) if v is not None]
    u = _concatenate(parts, at) if len(parts) > 1 else u
    for _ in range(n):
        before = (slice(None),) * at
        u = u[(*before, slice(1, None))] - u[(*before, slice(None, -1))]
    return u


@on_symbols
def clip(x: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> UOp:
    """Returns x, but not less than `a_min` and not more than `a_max`; None is no bound.

    `min` and `max` are other names for the two, as in NumPy.
    """
    low, high = a_min if min is None else min, a_max if max is None else max
    u = as_uop(x)
    u = u if low is None else u.maximum(low)
    return u if high is None else u.minimum(high)


@on_symbols
def einsum(subscripts: str, *operands: Any) -> UOp:
    """Returns the Einstein sum of some arrays, the operands: einsum("ij,j->i", A, x) is A @ x.

    `subscripts` names the axes of each operand by letters; no letter occurs twice in one operand.
    """
    arrays = [as_uop(x) for x in operands]
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    names = left.split(",")
    plain = len(names) == len(arrays) and all(
        len(n) == a.ndim and len(set(n)) == len(n) and n.isalpha() for n, a in zip(names, arrays)
    )
    if not plain or len(set(right)) < len(right) or not set(right) <= set(left) - {","}:
        raise TraceError.here(
            f"einsum({subscripts!r}) is not supported",
            "Use one letter per axis, no letter twice in an operand or in the result, and no ellipsis.",
        )
    letters = "".join(dict.fromkeys("".join(names)))
    for c in letters:
        sizes = {a.shape[n.index(c)] for n, a in zip(names, arrays) if c in n} - {1}
        if len(sizes) > 1:
            raise ShapeError.here(
                f"einsum({subscripts!r}) of shapes {' and '.join(str(a.shape) for a in arrays)}",
                f"Axes of one letter must have one size: `{c}` is {' and '.join(map(str, sorted(sizes)))}.",
            )
    if not arrow:
        right = "".join(sorted(c for c in letters if "".join(names).count(c) == 1))
    order = right + "".join(c for c in letters if c not in right)
    out: UOp | None = None
    for n, a in zip(names, arrays):
        a = a.permute([n.index(c) for c in order if c in n])
        a = a.reshape(tuple(a.shape[[c for c in order if c in n].index(c)] if c in n else 1 for c in order))
        out = a if out is None else out * a
    assert out is not None
    summed = tuple(range(len(right), len(order)))
    return out.sum(summed) if summed else out


# fmt: off
NUMPY.update({
    "add": lambda a, b: as_uop(a) + b,            "subtract": lambda a, b: as_uop(a) - b,
    "multiply": lambda a, b: as_uop(a) * b,       "divide": lambda a, b: as_uop(a) / b,
    "true_divide": lambda a, b: as_uop(a) / b,    "power": power,
    "float_power": power,                         "negative": lambda x: -x,
    "positive": lambda x: x,                      "square": lambda x: x * x,
    "reciprocal": lambda x: 1.0 / x,              "remainder": lambda a, b: as_uop(a) % b,
    "sin": sin, "cos": cos, "tan": tan, "arcsin": arcsin, "arccos": arccos, "arctan": arctan,
    "arctan2": arctan2, "sinh": sinh, "cosh": cosh, "tanh": tanh, "exp": exp, "expm1": expm1,
    "log": log, "log1p": log1p, "sqrt": sqrt, "cbrt": cbrt, "hypot": hypot, "absolute": absolute,
    "fabs": absolute, "abs": absolute, "sign": sign, "floor": floor, "minimum": minimum,
    "maximum": maximum, "where": where, "sum": total, "prod": prod, "mean": mean,
    "add.reduce": lambda x, axis=0, keepdims=False: total(x, axis, keepdims),
    "max": largest, "min": smallest, "amax": largest, "amin": smallest,
    "dot": dot, "vdot": vdot, "inner": inner, "matmul": matmul, "vecdot": vecdot,
    "cross": cross, "outer": outer, "einsum": einsum, "linalg.norm": norm, "linalg.cross": cross,
    "stack": stack, "concatenate": concatenate, "reshape": reshape, "transpose": transpose,
    "roll": roll, "take": take, "diff": diff, "clip": clip,
    "less": lambda a, b: as_uop(a) < b,           "less_equal": lambda a, b: as_uop(a) <= b,
    "greater": lambda a, b: as_uop(a) > b,        "greater_equal": lambda a, b: as_uop(a) >= b,
    "equal": lambda a, b: as_uop(a).eq(b),        "not_equal": lambda a, b: as_uop(a).ne(b),
    "logical_and": lambda a, b: as_uop(a) & b,    "logical_or": lambda a, b: as_uop(a) | b,
    "logical_not": lambda a: ~as_uop(a),          "logical_xor": lambda a, b: as_uop(a) ^ b,
    "bitwise_and": lambda a, b: as_uop(a) & b,    "bitwise_or": lambda a, b: as_uop(a) | b,
    "bitwise_xor": lambda a, b: as_uop(a) ^ b,    "invert": lambda a: ~as_uop(a),
    "bitwise_not": lambda a: ~as_uop(a),          "astype": cast,
    "left_shift": lambda a, b: as_uop(a) << b,    "right_shift": lambda a, b: as_uop(a) >> b,
    "floor_divide": lambda a, b: as_uop(a) // b,  "mod": lambda a, b: as_uop(a) % b,
})
# fmt: on
