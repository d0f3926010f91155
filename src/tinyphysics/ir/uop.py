"""The node of the expression graph: immutable, shaped, hash-consed, so equal graphs are one object.

The user holds these nodes while a function is traced, so everything Python or NumPy may try on them
is either right or raises a TraceError that says what to write instead.
"""

from __future__ import annotations

import inspect
import operator
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, cast
from weakref import WeakValueDictionary

from tinyphysics.errors import ShapeError, TraceError
from tinyphysics.given import NO_UNITS, quantity
from tinyphysics.ir import integers
from tinyphysics.ir.dtype import DType, Number, as_number, bool_, f64, i64, promote
from tinyphysics.ir.infix import infix
from tinyphysics.ir.math import Arithmetic
from tinyphysics.ir.ops import COMPARE, FUNCTIONS, HARMONIC, Ops
from tinyphysics.util import WITH_OTHERS, Site, a_kind, did_you_mean, prod, user_site

Shape = tuple[int, ...]


class Sites:
    """Which line of the user's file a node comes from; kept beside the graph, never part of it."""

    def __init__(self) -> None:
        self.table: dict[UOp, Site] = {}
        self.tracing = True  # while the user's function runs; afterwards new nodes inherit
        self.current: Site | None = None  # the line of the node that a pass is working on

    def note(self, u: UOp) -> None:
        if u not in self.table:
            site = user_site() if self.tracing else self.current
            if site is not None:
                self.table[u] = site

    def begin(self, item: object) -> None:
        """What follows is made for an item of the level above: ir/origins.py counts them."""

    def of(self, u: UOp) -> Site | None:
        """The line of u, or of the nearest node below it that has one."""
        return next((self.table[x] for x in reversed(toposort([u])) if x in self.table), None)


RECORD: ContextVar[Sites | None] = ContextVar("RECORD", default=None)


def tracing() -> bool:
    """Does a function of the user's run now?"""
    sites = RECORD.get()
    return sites is not None and sites.tracing


NUMPY: dict[str, Callable[..., Any]] = {}  # NumPy's functions on symbols, by name; filled by front/

# the same on complex arguments; and `complex`, from anything to one
COMPLEX: dict[str, Callable[..., Any]] = {}
NOT_REAL = "a complex number where a real one belongs"


_cache: WeakValueDictionary[tuple[Any, ...], UOp] = WeakValueDictionary()
_known: dict[tuple[Any, ...], Any] = _cache.data  # type: ignore[attr-defined]  # its references: a get without a call
_lock = threading.Lock()


_put = object.__setattr__
NO_LEAVES: frozenset[UOp] = frozenset()


def _arg_key(arg: Any) -> Any:
    if arg is None or type(arg) is str:  # no other key is one of these
        return arg
    if isinstance(arg, float):  # -0.0 and NaN have identities of their own
        return struct.pack("<d", arg)
    return (type(arg), arg)


class UOp(Arithmetic):
    __slots__ = ("op", "dtype", "shape", "src", "arg", "_leaves", "__weakref__")
    op: Ops
    dtype: DType
    shape: Shape
    src: tuple[UOp, ...]
    arg: Any
    _leaves: frozenset[UOp] | None

    def __new__(
        cls, op: Ops, dtype: DType, shape: Shape = (), src: tuple[UOp, ...] = (), arg: Any = None
    ) -> UOp:
        key = (op, dtype, shape, tuple(map(id, src)), _arg_key(arg))
        found = _known.get(key)
        u: UOp | None = None if found is None else found()
        if u is None:
            with _lock:
                u = _cache.get(key)
                if u is None:
                    u = object.__new__(cls)
                    _put(u, "op", op)
                    _put(u, "dtype", dtype)
                    _put(u, "shape", shape)
                    _put(u, "src", src)
                    _put(u, "arg", arg)
                    _put(u, "_leaves", None)
                    _cache[key] = u
        if (sites := RECORD.get()) is not None:
            sites.note(u)
        return u

    def __setattr__(self, name: str, value: Any) -> None:
        raise TraceError.here(
            f"a symbol cannot be changed: `.{name} = ...`", "Keep the value in a variable of your own."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return UOp, (self.op, self.dtype, self.shape, self.src, self.arg)

    def __copy__(self) -> UOp:
        return self

    def __deepcopy__(self, memo: Any) -> UOp:
        return self

    # --- building -----------------------------------------------------------------------------
    @staticmethod
    def const(value: Number, dtype: DType = f64, shape: Shape = ()) -> UOp:
        return UOp(Ops.CONST, dtype, shape, (), as_number(value, dtype))

    @staticmethod
    def var(name: str, shape: Shape = (), dtype: DType = f64) -> UOp:
        return UOp(Ops.VAR, dtype, shape, (), name)

    @staticmethod
    def range(n: int) -> UOp:
        return UOp(Ops.RANGE, i64, (n,))

    @staticmethod
    def stack(items: Sequence[UOp], shape: Shape | None = None) -> UOp:
        """Scalars, row-major, as an array."""
        shape = (len(items),) if shape is None else shape
        assert prod(shape) == len(items) and all(s.shape == () for s in items)
        dtype = common_type(items)
        return UOp(Ops.STACK, dtype, shape, tuple(s.cast(dtype) for s in items))

    @staticmethod
    def sum_of(items: Iterable[UOp]) -> UOp:
        """The items added from left to right; zero if there is none."""
        out: UOp | None = None
        for x in items:
            out = x if out is None else out + x
        return UOp.const(0.0) if out is None else out

    def replace(self, src: tuple[UOp, ...]) -> UOp:
        same = len(src) == len(self.src) and all(map(operator.is_, src, self.src))
        if same:
            return self
        sites = RECORD.get()
        if sites is None or sites.current is not None:
            return UOp(self.op, self.dtype, self.shape, src, self.arg)
        sites.current = sites.table.get(self)  # what it becomes is from the same line
        new = UOp(self.op, self.dtype, self.shape, src, self.arg)
        sites.current = None
        return new

    def lift(self, x: Any) -> UOp:
        try:
            return as_uop(x, self.dtype)
        except TraceError as error:
            if error.what != NOT_REAL:
                raise
            out: UOp = COMPLEX["complex"](x)
            return out

    def alu(self, op: Ops, *others: Any) -> UOp:
        dtype, shape = self.dtype, self.shape
        try:
            operands = [self, *[x if isinstance(x, UOp) else as_uop(x, dtype) for x in others]]
        except TraceError as error:
            if error.what != NOT_REAL:
                raise
            out: UOp = COMPLEX["complex"](self).alu(op, *others)
            return out
        if dtype.kind == "f" and op not in BITS and op is not Ops.WHERE:
            for x in operands:
                if x.dtype is not dtype or x.shape != shape:
                    break
            else:  # nothing to promote, cast or expand
                return UOp(op, bool_ if op in COMPARE else dtype, shape, tuple(operands))
        if op is Ops.WHERE:  # a number of the user's has the type of the symbol beside it
            like = next((x.dtype for x in others if isinstance(x, UOp) and x.dtype.is_int), None)
            if like is not None:
                operands = [self, *[as_uop(x, like) for x in others]]
        data = operands[1:] if op is Ops.WHERE else operands
        dtype = data[0].dtype
        for x in data[1:]:
            dtype = promote(dtype, x.dtype)
        if dtype.kind in "iuf" and tracing():
            integers.check_types(op, operands, op in FLOAT_ONLY)
        if op in FLOAT_ONLY and not dtype.is_float:
            dtype = f64
        op = _on_dtype(op, dtype)
        shape = broadcast_shape(*(x.shape for x in operands))
        operands = [
            x.cast(bool_ if op is Ops.WHERE and i == 0 else dtype).expand(shape)
            for i, x in enumerate(operands)
        ]
        return UOp(op, bool_ if op in COMPARE else dtype, shape, tuple(operands))

    def cast(self, dtype: DType) -> UOp:
        if self.dtype is dtype:
            return self
        if self.op is Ops.CONST:
            return UOp.const(self.arg, dtype, self.shape)
        if dtype is bool_ and self.dtype.is_int:
            return self.ne(UOp.const(0, self.dtype))
        return UOp(Ops.CAST, dtype, self.shape, (self,))

    def astype(self, dtype: Any) -> UOp:
        """In another type: x.astype("int8"), x.astype(float)."""
        out: UOp = integers.cast(self, integers.dtype_of(dtype))
        return out

    def bitcast(self, dtype: DType) -> UOp:
        return self if dtype is self.dtype else UOp(Ops.BITCAST, dtype, self.shape, (self,))

    # --- movement -----------------------------------------------------------------------------
    def expand(self, shape: Shape) -> UOp:
        if shape == self.shape:
            return self
        if self.op is Ops.CONST:
            return UOp.const(self.arg, self.dtype, shape)
        return UOp(Ops.EXPAND, self.dtype, shape, (self,))

    def reshape(self, *shape: Any) -> UOp:
        given = shape[0] if len(shape) == 1 and hasattr(shape[0], "__iter__") else shape
        new = tuple(operator.index(n) for n in given)
        if -1 in new:
            known = prod(n for n in new if n != -1)
            new = tuple(self.size // max(known, 1) if n == -1 else n for n in new)
        if prod(new) != self.size:
            raise ShapeError.here(
                f"{self.size} numbers of shape {self.shape} do not fit {new}",
                "The sizes must multiply to the same number; one of them may be -1.",
            )
        return self if new == self.shape else UOp(Ops.RESHAPE, self.dtype, new, (self,))

    def ravel(self) -> UOp:
        return self.reshape(self.size)

    flatten = ravel

    def permute(self, axes: Sequence[int]) -> UOp:
        axes = tuple(axis_of(a, self.ndim) for a in axes)
        if sorted(axes) != list(range(self.ndim)):
            raise ShapeError.here(f"axes {axes} of an array with {self.ndim}", "Name every axis once.")
        if axes == tuple(range(self.ndim)):
            return self
        return UOp(Ops.PERMUTE, self.dtype, tuple(self.shape[a] for a in axes), (self,), axes)

    def transpose(self, *axes: Any) -> UOp:
        given = axes[0] if len(axes) == 1 and hasattr(axes[0], "__iter__") else axes
        return self.permute(tuple(given) if given else tuple(reversed(range(self.ndim))))

    @property
    def T(self) -> UOp:
        return self.transpose()

    def flip(self, axes: Sequence[int]) -> UOp:
        return UOp(Ops.FLIP, self.dtype, self.shape, (self,), tuple(axes)) if axes else self

    def pad(self, widths: Sequence[tuple[int, int, int]]) -> UOp:
        """Zeros (before, after, between) the entries of each axis."""
        shape = tuple(
            lo + hi + (n + between * (n - 1) if n else 0) for n, (lo, hi, between) in zip(self.shape, widths)
        )
        return self if shape == self.shape else UOp(Ops.PAD, self.dtype, shape, (self,), tuple(widths))

    def slice(self, bounds: Sequence[tuple[int, int, int]]) -> UOp:
        shape = tuple(len(range(*b)) for b in bounds)
        return self if shape == self.shape else UOp(Ops.SLICE, self.dtype, shape, (self,), tuple(bounds))

    def roll(self, shift: Any, axis: Any = None) -> UOp:
        if axis is None:
            return self.reshape(self.size).roll(shift, 0).reshape(self.shape)
        shifts = shift if isinstance(shift, tuple) else (shift,)
        axes = axis if isinstance(axis, tuple) else (axis,)
        n = broadcast_shape((len(shifts),), (len(axes),))[0]  # one shift for all axes, or one each
        pairs = zip(shifts * (n // len(shifts)), axes * (n // len(axes)))
        at = [(operator.index(s), axis_of(a, self.ndim)) for s, a in pairs]
        moves = tuple((s % max(self.shape[a], 1), a) for s, a in at)
        return UOp(Ops.ROLL, self.dtype, self.shape, (self,), moves)

    def triu(self, a: int = -2, b: int = -1, *near: int) -> UOp:
        """Zero where the index along axis a is not below that along b: each pair once; with a third number, by a list."""
        a, b = axis_of(a, self.ndim), axis_of(b, self.ndim)
        if self.shape[a] != self.shape[b]:
            raise ShapeError.here(
                f"pairs of shape {self.shape}", "A pair expression is square: q[:, None] - q[None, :]."
            )
        return UOp(Ops.TRIU, self.dtype, self.shape, (self,), (a, b, *near))

    def gather(self, indices: Sequence[UOp]) -> UOp:
        """The items at places along the leading axes, in the shape of the indices."""
        shape = indices[0].shape + self.shape[len(indices) :]
        return UOp(Ops.GATHER, self.dtype, shape, (self, *indices))

    def scatter(self, indices: Sequence[UOp], axes: Shape) -> UOp:
        """The items added to zeros at places along leading axes of these lengths."""
        shape = axes + self.shape[indices[0].ndim :]
        return UOp(Ops.SCATTER, self.dtype, shape, (self, *indices))

    def element(self, index: int) -> UOp:
        """The number at a row-major index."""
        return self if self.shape == () else UOp(Ops.ELEMENT, self.dtype, (), (self,), index)

    def reduce(self, kind: str, axis: Any = None, keepdims: bool = False) -> UOp:
        if self.dtype is bool_:  # conditions are counted
            return self.cast(f64).reduce(kind, axis, keepdims)
        if kind == "sum" and self.dtype.kind == "i" and self.dtype.bits < 64:  # as NumPy sums
            return self.cast(i64).reduce(kind, axis, keepdims)
        axes = range(self.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        normal = tuple(sorted(axis_of(a, self.ndim) for a in axes))
        if len(set(normal)) < len(normal) or kind != "sum" and not self.size:
            raise ShapeError.here(
                f"{kind} of shape {self.shape} along axes {normal}",
                "Name each axis once; a minimum or maximum needs at least one number.",
            )
        shape = tuple(n for i, n in enumerate(self.shape) if i not in normal)
        out = UOp(Ops.REDUCE, self.dtype, shape, (self,), (kind, normal)) if normal else self
        if keepdims:
            out = out.reshape(tuple(1 if i in normal else n for i, n in enumerate(self.shape)))
        return out

    def sum(self, axis: Any = None, keepdims: bool = False) -> UOp:
        return self.reduce("sum", axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> UOp:
        return self.reduce("max", axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> UOp:
        return self.reduce("min", axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> UOp:
        total = self.sum(axis, keepdims)
        return (total.cast(f64) if total.dtype.is_int else total) / (self.size // max(total.size, 1))

    def __matmul__(self, o: Any) -> UOp:
        return matmul(self, self.lift(o))

    def __rmatmul__(self, o: Any) -> UOp:
        return matmul(self.lift(o), self)

    def dot(self, o: Any) -> UOp:
        other = self.lift(o)
        if max(self.ndim, other.ndim) > 2:
            raise ShapeError.here(
                f"dot of shapes {self.shape} and {other.shape}", "Write a @ b, or np.einsum."
            )
        return self * other if () in (self.shape, other.shape) else matmul(self, other)

    def __mod__(self, o: Any) -> UOp:
        other = self.lift(o)
        if self.dtype.is_int or other.dtype.is_int:
            return self.alu(Ops.MOD, other)
        return self - (self / other).floor() * other

    def __rmod__(self, o: Any) -> UOp:
        return self.lift(o) % self

    def __floordiv__(self, o: Any) -> UOp:
        other = self.lift(o)
        if self.dtype.is_float and other.dtype.is_float:
            raise TraceError(
                f"`{self} // {other}` of floats", site=user_site(), fix=f"Write np.floor({self} / {other})."
            )
        return self.alu(Ops.FLOORDIV, other)

    def __rfloordiv__(self, o: Any) -> UOp:
        return self.lift(o) // self

    def __pow__(self, o: Any) -> UOp:
        if self.dtype.is_int and tracing():
            out: UOp = integers.power(self, self.lift(o))
            return out
        return self.alu(Ops.POW, o)

    def __lshift__(self, o: Any) -> UOp:
        return self._shifted(Ops.SHL, o)

    def __rlshift__(self, o: Any) -> UOp:
        return self.lift(o)._shifted(Ops.SHL, self)

    def __rshift__(self, o: Any) -> UOp:
        return self._shifted(Ops.SHR, o)

    def __rrshift__(self, o: Any) -> UOp:
        return self.lift(o)._shifted(Ops.SHR, self)

    def __rxor__(self, o: Any) -> UOp:
        return self.lift(o).alu(Ops.XOR, self)

    def _shifted(self, op: Ops, o: Any) -> UOp:
        other = self.lift(o)
        if not tracing() or not self.dtype.is_int or not other.dtype.is_int:
            return self.alu(op, other)
        out: UOp = integers.shift(self, other, Ops.SAR if op is Ops.SHR else op)
        return out

    # --- what Python and NumPy may ask ----------------------------------------------------------
    @property
    def real(self) -> UOp:
        return self

    @property
    def imag(self) -> UOp:
        return UOp.const(0.0, self.dtype if self.dtype.is_float else f64, self.shape)

    def conj(self) -> UOp:
        return self

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TraceError.here(
                f"`{self}` is a scalar and has no length",
                "Annotate the argument: tp.Vec[3] has three elements.",
            )
        return self.shape[0]

    def __iter__(self) -> Iterator[UOp]:
        if not self.shape:
            raise TraceError.here(
                f"`{self}` is a scalar and cannot be iterated",
                "Annotate the argument: tp.Vec[3] has three elements.",
            )
        return (self[i] for i in range(self.shape[0]))

    def __getitem__(self, key: Any) -> UOp:
        return index(self, key if isinstance(key, tuple) else (key,))

    def __eq__(self, o: Any) -> UOp:  # type: ignore[override]
        return self.eq(o)

    def __ne__(self, o: Any) -> UOp:  # type: ignore[override]
        return self.ne(o)

    __hash__ = object.__hash__  # equal nodes are one object

    def __bool__(self) -> bool:
        raise TraceError.here(
            f"`{self}` has no truth value while tracing",
            f"Write tp.where({self}, a, b) instead of `if {self}`; "
            "np.minimum, np.maximum, np.clip instead of min() and max(); & and | instead of and, or.",
        )

    def _no_number(self, what: str) -> TraceError:
        return TraceError.here(
            f"{what} needs a number, but `{self}` is a symbol while tracing",
            "Use the functions of tp or NumPy: np.sin(q), not math.sin(q); np.stack([a, b]) makes an array; "
            "tp.take(table, i) reads table[i] from an array of numbers.",
        )

    def __float__(self) -> float:
        raise self._no_number("float()")

    def __int__(self) -> int:
        raise self._no_number("int()")

    def __complex__(self) -> complex:
        raise self._no_number("complex()")

    def __index__(self) -> int:
        raise self._no_number("an index or range()")

    def __round__(self, digits: int = 0) -> float:
        raise self._no_number("round()")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TraceError.here(
            f"`{self}` is a symbol, and cannot be stored in a NumPy array",
            "Write np.stack([a, b]) or tp.stack([a, b]) instead of np.array([a, b]); "
            "sum(list) instead of np.sum(list).",
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        return _numpy(name, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        module = func.__module__.removeprefix("numpy").removeprefix(".")
        name = f"{module}.{func.__name__}" if module in ("linalg", "fft", "random") else func.__name__
        return _numpy(name, args, kwargs)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TraceError.here(
            f"`{self}[...] = ...` writes into a symbol",
            "Symbols are immutable: build the new array with np.stack, np.concatenate or tp.where.",
        )

    # --- walking ------------------------------------------------------------------------------
    @property
    def leaves(self) -> frozenset[UOp]:
        """The variables below this node. Do not iterate: sets have no order."""
        waiting = [self] if self._leaves is None else []
        while waiting:  # sources first, and nothing below those that are known
            u = waiting[-1]
            if below := [s for s in u.src if s._leaves is None]:
                waiting += below
                continue
            waiting.pop()
            found = frozenset((u,)) if u.op is Ops.VAR else NO_LEAVES
            for s in u.src:
                more = cast(frozenset[UOp], s._leaves)
                if not more <= found:  # most nodes have the leaves of one of their sources
                    found = more if found <= more else found | more
            object.__setattr__(u, "_leaves", found)
        return cast(frozenset[UOp], self._leaves)

    def __repr__(self) -> str:
        return infix(self)


BITS = {Ops.AND: "&", Ops.OR: "|", Ops.XOR: "^", Ops.NOT: "~", Ops.SHL: "<<", Ops.SHR: ">>"}
ON_CONDITIONS = {Ops.MUL: Ops.AND, Ops.MIN: Ops.AND, Ops.MAX: Ops.OR}  # numbers 0 and 1 agree


def _on_dtype(op: Ops, dtype: DType) -> Ops:
    """The operation that op is on operands of dtype, if it is one."""
    if op in BITS and dtype.is_float:
        raise TraceError.here(
            f"`{BITS[op]}` works on conditions, not on numbers",
            "Bracket the comparisons: (q > 0) & (q < 1). A power is q**2.",
        )
    if dtype is bool_ and op not in BITS and op not in COMPARE and op is not Ops.WHERE:
        if op not in ON_CONDITIONS:
            raise TraceError.here(
                f"`{op.value}` of conditions",
                'Make them numbers first: tp.where(q > 0, 1.0, 0.0), or .astype("int8").',
            )
        return ON_CONDITIONS[op]
    return op


FLOAT_ONLY = (
    FUNCTIONS | HARMONIC | {Ops.DIV, Ops.POW, Ops.ATAN2, Ops.HYPOT, Ops.FMA, Ops.FLOOR, Ops.RINT, Ops.IMAGE}
)


def common_type(items: Sequence[UOp]) -> DType:
    """The type of all items of an array."""
    own = items
    # a whole number of the user's has the type of the others
    if tracing() and any(x.dtype.is_int for x in items):
        own = [x for x in items if not integers.is_written(x)]
        integers.check_types(Ops.STACK, own, False)
    dtype = own[0].dtype if own else f64
    for x in own:
        dtype = promote(dtype, x.dtype)
    return dtype


def as_uop(x: Any, dtype: DType = f64) -> UOp:
    """A symbol, number, (nested) list or array as a node."""
    if isinstance(x, UOp):
        return x
    if isinstance(x, bool):
        return UOp.const(x, bool_)
    if isinstance(x, (int, float)):
        whole = dtype.is_int and not isinstance(x, float)
        if whole and tracing():
            integers.check_fits(int(x), dtype)
        return UOp.const(x, dtype if dtype.is_float or whole else f64)
    if isinstance(x, (list, tuple)):
        rows = [as_uop(item, dtype) for item in x]
        shape = rows[0].shape if rows else ()
        if any(r.shape != shape for r in rows):
            raise ShapeError.here(
                f"a list of shapes {', '.join(str(r.shape) for r in rows)}",
                "All rows of an array must have the same shape.",
            )
        return UOp.stack([e for r in rows for e in elements(r)], (len(rows), *shape))
    if isinstance(x, complex) or hasattr(x, "imag") and is_complex(x):
        raise TraceError.here(
            NOT_REAL,
            "Take a real part of it: z.real, z.imag or abs(z)**2. Of complex symbols write np.exp(z), not tp.exp(z).",
        )
    if (found := quantity(x)) is not None:
        raise TraceError.here(f"{found[0]} cannot be part of an energy", f"{NO_UNITS} x.{found[1]}.")
    if getattr(x, "mask", None) is not None and hasattr(x, "filled") and bool(x.mask.any()):
        raise TraceError.here(
            "a masked array cannot be part of an energy: some of its numbers are missing",
            "Fill in the missing numbers: x.filled(0.0).",
        )
    if hasattr(x, "tolist"):  # a NumPy array or number
        two = None if dtype.is_int else two_values(x)
        if two is None:
            return as_uop(x.tolist(), dtype)
        return on_diagonal(x.shape, *(as_uop(v, dtype) for v in two))
    raise TraceError.here(
        f"{a_kind(x)} cannot be part of an energy",
        "Use numbers, arrays of numbers, and the arguments of the function.",
    )


def is_complex(x: Any) -> bool:
    """An array of complex numbers, or complex symbols."""
    dtype = getattr(x, "dtype", None)
    return isinstance(x.imag, UOp) if dtype is None else getattr(dtype, "kind", "") == "c"


def two_values(x: Any) -> tuple[Any, Any] | None:
    """What an array holds on and off its diagonal, if it is made of np.eye(n): two numbers, one of them 0."""
    sizes = [n for n in getattr(x, "shape", ()) if n != 1]
    plain = getattr(x.dtype, "kind", "") in "biuf" and x.itemsize <= 8
    if len(sizes) != 2 or sizes[0] != sizes[1] or not plain:
        return None
    n, values = sizes[0], x.reshape(-1)
    on, off = values[0].item(), values[1].item()
    if on and off:
        return None
    bits = values.copy().view(f"u{x.itemsize}")
    for part in (bits[:: n + 1], bits[:-1].reshape(n - 1, n + 1)[:, 1:]):
        if part.min() != part.max():
            return None
    return on, off


def on_diagonal(shape: Shape, on: UOp, off: UOp) -> UOp:
    """One number where the row is the column and another elsewhere, of a square with axes of length 1: not written out."""
    if on is off:
        return on.expand(shape)
    (a, n), (b, _) = ((k, size) for k, size in enumerate(shape) if size != 1)
    i, j = (UOp.range(n).reshape(tuple(n if k == axis else 1 for k in range(len(shape)))) for axis in (a, b))
    if on.dtype is bool_:
        return i.eq(j) if on.arg else i.ne(j)
    return i.eq(j).where(on, off)


def elements(u: UOp) -> list[UOp]:
    """The numbers of u, row-major, as scalar nodes."""
    if u.shape == ():
        return [u]
    if u.op is Ops.STACK:
        return list(u.src)
    if u.op is Ops.CONST:
        return [UOp.const(u.arg, u.dtype)] * u.size
    return [u.element(i) for i in range(u.size)]


def component(u: UOp, axis: int, k: int) -> UOp:
    """u at one place of an axis; an axis that it is the same along is not looked at."""
    if u.op is Ops.CONST:
        return UOp.const(u.arg, u.dtype, u.shape[:axis] + u.shape[axis + 1 :])
    shape = u.shape[:axis] + u.shape[axis + 1 :]
    if u.ndim == 1:
        return u.element(k)
    return u.slice([(k, k + 1, 1) if a == axis else (0, n, 1) for a, n in enumerate(u.shape)]).reshape(shape)


def broadcast_shape(*shapes: Shape) -> Shape:
    first = shapes[0] if shapes else ()
    if all([s == first for s in shapes]):
        return first
    out: list[int] = []
    for i in range(1, max((len(s) for s in shapes), default=0) + 1):
        sizes = {s[-i] for s in shapes if len(s) >= i} - {1}
        if len(sizes) > 1:
            raise ShapeError.here(
                f"shapes {' and '.join(str(s) for s in shapes)} do not fit together",
                "Sizes must be equal or 1, aligned from the right; add an axis with x[:, None].",
            )
        out.append(sizes.pop() if sizes else 1)
    return tuple(reversed(out))


def axis_of(axis: int, ndim: int) -> int:
    """The axis, counted from the front."""
    if not -ndim <= axis < ndim:
        raise ShapeError.here(
            f"axis {axis} of a {ndim}-dimensional array", "Axes are counted from 0, or from -1 at the end."
        )
    return operator.index(axis) % ndim


def _is_index(k: Any) -> bool:
    if isinstance(k, (UOp, bool)) or getattr(k, "ndim", False):
        return False
    try:
        return operator.index(k) is not None
    except TypeError:
        return False


def index(u: UOp, keys: tuple[Any, ...]) -> UOp:
    """NumPy's indexing: integers, slices, None, an ellipsis, and arrays or symbols of whole numbers."""
    keys = tuple(part for k in keys for part in _index_keys(u, k))
    used = sum(k is not None and k is not Ellipsis for k in keys)
    if used > u.ndim:
        raise ShapeError.here(
            f"`{u}` has shape {u.shape}, but is given {used} {'index' if used == 1 else 'indices'}",
            "Annotate the argument with its shape, for example tp.Vec[3].",
        )
    if not any(k is Ellipsis for k in keys):
        keys = (*keys, Ellipsis)
    at = next(i for i, k in enumerate(keys) if k is Ellipsis)
    keys = (*keys[:at], *([slice(None)] * (u.ndim - used)), *keys[at + 1 :])
    if any(isinstance(k, UOp) for k in keys):
        return _chosen(u, keys)
    bounds, flips, shape, axis = [], [], [], 0
    for k in keys:
        if k is None:
            shape.append(1)
            continue
        n = u.shape[axis]
        if isinstance(k, slice):
            start, stop, step = k.indices(n)
            r = range(start, stop, step)
            if step < 0:
                r = range(r[-1], r[0] + 1, -step) if len(r) else range(0)
                flips.append(axis)
            bounds.append((r.start, r.stop, r.step))
            shape.append(len(r))
        else:
            i = int(k)
            if not -n <= i < n:
                raise ShapeError.here(
                    f"index {i} is out of range for `{u}`, whose length there is {n}",
                    f"Indices go from 0 to {n - 1}, or from -{n} to -1.",
                )
            bounds.append((i % n, i % n + 1, 1))
        axis += 1
    return u.slice(bounds).flip(flips).reshape(tuple(shape))


FARTHEST = 2**52  # no array is so long; whole numbers below it are floats, and those of float32 among them


def _index_keys(u: UOp, k: Any) -> tuple[Any, ...]:
    """A key of an index as integers, slices, None, an ellipsis, and nodes where there is an array."""
    if k is None or k is Ellipsis or isinstance(k, slice) or _is_index(k):
        return (k,)
    if isinstance(k, UOp) and k.dtype is not bool_:
        return (k,)
    if isinstance(k, list) and k:
        return (as_uop([_index_keys(u, i)[0] for i in k], i64),)
    mask = isinstance(k, UOp)
    kind = "" if mask else getattr(getattr(k, "dtype", None), "kind", "")
    if kind == "b" and k.ndim:  # a mask of constants is the list of where it holds
        return tuple(as_uop(i, i64) for i in k.nonzero())
    if kind in ("i", "u"):
        return (as_uop(k, i64),)
    raise TraceError.here(
        f"`{u}` is indexed with a {'condition' if mask else type(k).__name__}",
        "A condition chooses between values: tp.where(q > 0, q, 0.0)."
        if mask
        else "Indices are whole numbers, slices, and arrays or symbols of whole numbers.",
    )


def places(k: UOp, n: int, u: UOp) -> UOp:
    """An index as i64, counted from the front; what is no whole number is outside."""
    if k.op is Ops.STACK and all(x.op is Ops.CONST for x in k.src):
        known = [int(x.arg) for x in k.src]
        if bad := [i for i in known if not -n <= i < n]:
            raise ShapeError.here(
                f"index {bad[0]} is out of range for `{u}`, whose length there is {n}",
                f"Indices go from 0 to {n - 1}, or from -{n} to -1.",
            )
        return UOp.stack([UOp.const(i % n, i64) for i in known], k.shape)
    if k.dtype.is_float:
        near = (-float(FARTHEST) < k) & (k < float(FARTHEST))
        whole = near.where(k, float(FARTHEST)).cast(i64)
        k = whole.cast(k.dtype).eq(k).where(whole, UOp.const(FARTHEST, i64))
    k = k.cast(i64)
    return (k < UOp.const(0, i64)).where(k + UOp.const(n, i64), k)


def _chosen(u: UOp, keys: tuple[Any, ...]) -> UOp:
    """Some keys are arrays: what they choose stands where the first of them does, or in front if they are apart."""
    v = index(u, tuple(slice(None) if isinstance(k, UOp) else k for k in keys))
    axes, at = [], 0
    for k in keys:
        if isinstance(k, UOp):
            axes.append(at)
        at += not _is_index(k)
    chooses = [i for i, k in enumerate(keys) if isinstance(k, UOp) or _is_index(k)]
    together = chooses[-1] - chooses[0] == len(chooses) - 1
    arrays = [k for k in keys if isinstance(k, UOp)]
    shape = broadcast_shape(*(k.shape for k in arrays))
    rest = [a for a in range(v.ndim) if a not in axes]
    if len(axes) == 1 and (run := _run(arrays[0], v.shape[axes[0]])) is not None:  # evenly spaced: a slice
        step = slice(run.start, run.stop if run.stop >= 0 else None, run.step)
        return v[(*[slice(None)] * axes[0], step)]
    chosen = v.permute([*axes, *rest]).gather(
        [places(k, v.shape[a], u).expand(shape) for k, a in zip(arrays, axes)]
    )
    before = axes[0] if together else 0
    new = len(shape)
    order = [*range(new, new + before), *range(new), *range(new + before, chosen.ndim)]
    return chosen.permute(order)


def _run(k: UOp, n: int) -> range | None:
    """The range that a constant index is, if it is one."""
    if k.op is not Ops.STACK or k.ndim != 1 or not all(x.op is Ops.CONST for x in k.src):
        return None
    items = [int(x.arg) for x in k.src]
    if not all(0 <= i < n for i in items):
        return None
    step = items[1] - items[0] if len(items) > 1 else 1
    found = range(items[0], items[-1] + (1 if step > 0 else -1), step) if step else None
    return found if found is not None and list(found) == items else None


def matmul(a: UOp, b: UOp) -> UOp:
    if not a.ndim or not b.ndim:
        raise ShapeError.here(f"`@` of shapes {a.shape} and {b.shape}", "Use * for scalars.")
    m, n = a.shape[-1], b.shape[-2 if b.ndim > 1 else 0]
    if m != n:
        other = "last but one of the right" if b.ndim > 1 else "axis of the right"
        raise ShapeError.here(
            f"`@` of shapes {a.shape} and {b.shape}",
            f"The last axis of the left and the {other} are summed together: {m} and {n} differ.",
        )
    for m, n in zip(a.shape[-3::-1], b.shape[-3::-1]):
        if m != n and 1 not in (m, n):
            raise ShapeError.here(
                f"`@` of shapes {a.shape} and {b.shape}",
                f"The axes before the last two number matrices, and must be equal or 1: {m} and {n} differ.",
            )
    if a.dtype.is_int and b.dtype.is_int:  # as NumPy: in the type of the operands
        out: UOp = integers.product(a, b)
        return out
    if b.ndim == 1:
        return (a * b).sum(-1)
    if a.ndim == 1:
        return (a.reshape(*a.shape, 1) * b).sum(-2)
    return (a.reshape(*a.shape, 1) * b.reshape(*b.shape[:-2], 1, *b.shape[-2:])).sum(-2)


def _numpy(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return _on_symbols(name, args, kwargs)
    except TraceError as error:
        if error.what != NOT_REAL or name not in COMPLEX:
            raise
        return COMPLEX[name](*args, **kwargs)


def _on_symbols(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if (function := NUMPY.get(name)) is None:
        raise TraceError.here(
            f"np.{name} is not defined on symbols",
            f"Write {WITH_OTHERS[name]}."
            if name in WITH_OTHERS
            else did_you_mean(name, NUMPY).strip() or "Write it with operators and the functions of tp.",
        )
    given = {k: v for k, v in kwargs.items() if v is not None or k == "axis"}
    takes = inspect.signature(function)
    try:
        takes.bind(*args, **given)
    except TypeError as error:
        build = "Symbols are not written into arrays: build the array with np.stack, or write a + b."
        raise TraceError.here(
            f"np.{name}: {error}", build if "out" in given else f"On symbols it takes {takes}."
        ) from None
    return function(*args, **given)


def toposort(roots: Sequence[UOp], before: dict[UOp, None] | None = None) -> list[UOp]:
    """Every node below the roots once, sources before users, in an order that only the graph decides.

    What is in `before`, with all that is below it, is left out; what is found is put there.
    """
    order: dict[UOp, None] = {} if before is None else before
    found: list[UOp] = []
    opened: list[UOp] = []  # all that is below the last of them lies on the stack, above its mark
    stack: list[UOp | None] = list(reversed(roots))
    while stack:
        u = stack.pop()
        if u is None:
            u = opened.pop()
        elif u in order:
            continue
        elif u.src:
            opened.append(u)
            stack.append(None)
            stack += u.src[::-1]
            continue
        order[u] = None
        found.append(u)
    return found


def substitute(roots: Sequence[UOp], table: dict[UOp, UOp]) -> list[UOp]:
    """The roots with some nodes replaced by others of the same shape."""
    if not table:
        return list(roots)
    new: dict[UOp, UOp] = {}
    sites = RECORD.get()
    for u in toposort(roots):
        found = table.get(u)
        if found is None:
            found = u
            for s in u.src:
                if new[s] is not s:  # most nodes of a graph stay as they are
                    if sites is not None:
                        sites.current = sites.table.get(u)
                    found = UOp(u.op, u.dtype, u.shape, tuple([new[s] for s in u.src]), u.arg)
                    break
        new[u] = found
    if sites is not None:
        sites.current = None
    return [new[u] for u in roots]
