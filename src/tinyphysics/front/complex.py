"""Complex numbers of a traced function: two symbols, a real and an imaginary part, with Python's and NumPy's operations.

Derivatives are those of the two parts: an energy is real, and what is differentiated are real states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyphysics.errors import TraceError
from tinyphysics.ir import UOp, as_uop
from tinyphysics.ir.math import Arithmetic
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import COMPLEX, NUMPY, broadcast_shape, toposort

REAL = "Take a real part of it: z.real, z.imag or abs(z)**2."


class Complex(Arithmetic):
    """re + i im, of one shape."""

    __slots__ = ("real", "imag")
    __hash__ = object.__hash__

    def __init__(self, real: Any, imag: Any = 0.0) -> None:
        re, im = as_uop(real), as_uop(imag)
        shape = broadcast_shape(re.shape, im.shape)
        self.real, self.imag = ((u if u.dtype.is_float else u * 1.0).expand(shape) for u in (re, im))

    # --- what it is -----------------------------------------------------------------------------------
    @property
    def shape(self) -> tuple[int, ...]:
        return self.real.shape

    @property
    def ndim(self) -> int:
        return self.real.ndim

    @property
    def size(self) -> int:
        return self.real.size

    def __len__(self) -> int:
        return len(self.real)

    def __repr__(self) -> str:
        return f"({self.real}) + i({self.imag})"

    def both(self, f: Callable[[UOp], UOp]) -> Complex:
        """The same done to both parts."""
        return Complex(f(self.real), f(self.imag))

    # --- operations -----------------------------------------------------------------------------------
    def lift(self, x: Any) -> Complex:
        return as_complex(x)

    def alu(self, op: Ops, *others: Any) -> Any:
        if op in OPERATIONS:
            return OPERATIONS[op](self, *map(as_complex, others))
        if op is Ops.POW:
            return power(self, others[0])
        if op is Ops.ABS:
            return absolute(self)
        raise TraceError.here(f"`{op.value}` of complex numbers", REAL)

    def conj(self) -> Complex:
        return Complex(self.real, -self.imag)

    conjugate = conj

    def __getitem__(self, key: Any) -> Complex:
        return self.both(lambda u: u[key])

    def reshape(self, *shape: Any) -> Complex:
        return self.both(lambda u: u.reshape(*shape))

    def transpose(self, *axes: Any) -> Complex:
        return self.both(lambda u: u.transpose(*axes))

    @property
    def T(self) -> Complex:
        return self.transpose()

    def ravel(self) -> Complex:
        return self.both(lambda u: u.ravel())

    def sum(self, axis: Any = None, keepdims: bool = False) -> Complex:
        return self.both(lambda u: u.sum(axis, keepdims))

    def mean(self, axis: Any = None, keepdims: bool = False) -> Complex:
        return self.both(lambda u: u.mean(axis, keepdims))

    def __matmul__(self, other: Any) -> Complex:
        return matrix_product(self, other)

    def __rmatmul__(self, other: Any) -> Complex:
        return matrix_product(other, self)

    def exp(self) -> Complex:
        size = self.real.exp()
        return Complex(size * self.imag.cos(), size * self.imag.sin())

    # --- what Python and NumPy may ask -------------------------------------------------------------------
    def __eq__(self, other: object) -> Any:
        raise TraceError.here("complex symbols are compared", "Compare parts: z.real < 1, abs(z)**2 < 1.")

    def __bool__(self) -> bool:
        raise TraceError.here("a complex symbol has no truth value while tracing", REAL)

    def __float__(self) -> float:
        raise TraceError.here("a complex symbol is no real number", REAL)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TraceError.here(
            "a complex symbol cannot be stored in a NumPy array",
            "Write np.stack([a, b]), not np.array([a, b]).",
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return on_complex(
            ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}", inputs, kwargs
        )

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        module = func.__module__.removeprefix("numpy").removeprefix(".")
        return on_complex(f"{module}.{func.__name__}" if module == "fft" else func.__name__, args, kwargs)


def as_complex(x: Any) -> Complex:
    """A number, an array or a symbol as a complex one."""
    if isinstance(x, Complex):
        return x
    if isinstance(x, complex) or getattr(getattr(x, "dtype", None), "kind", "") == "c":
        return Complex(x.real, x.imag)
    if isinstance(x, (list, tuple)):
        return stacked([as_complex(item) for item in x])
    return Complex(x, 0.0)


def stacked(items: Any, axis: int = 0) -> Complex:
    stack = NUMPY["stack"]
    parts = [as_complex(x) for x in items]
    return Complex(stack([z.real for z in parts], axis), stack([z.imag for z in parts], axis))


def joined(items: Any, axis: int = 0) -> Complex:
    join = NUMPY["concatenate"]
    parts = [as_complex(x) for x in items]
    return Complex(join([z.real for z in parts], axis), join([z.imag for z in parts], axis))


def absolute(x: Any) -> UOp:
    z = as_complex(x)
    return (z.real * z.real + z.imag * z.imag).sqrt()


def times(a: Complex, b: Complex) -> Complex:
    """A factor that is real, or imaginary, costs no sum."""
    re, im = product(a.real, b.real), product(a.real, b.imag)
    minus, more = product(a.imag, b.imag), product(a.imag, b.real)
    re = re if nothing(minus) else -minus if nothing(re) else re - minus
    out = Complex(re, more if nothing(im) else im if nothing(more) else im + more)
    shape = broadcast_shape(a.shape, b.shape)
    return out if out.shape == shape else out.both(lambda u: u.expand(shape))  # zeros are as many


def product(x: UOp, y: UOp) -> UOp:
    return UOp.const(0.0) if nothing(x) or nothing(y) else x * y


def nothing(u: UOp) -> bool:
    while u.op in (Ops.EXPAND, Ops.RESHAPE):
        u = u.src[0]
    return u.op is Ops.CONST and u.arg == 0


def without_roots(u: UOp) -> UOp:
    """abs(z)**2 is no root: even powers of the root of a sum of squares are powers of the sum."""
    new: dict[UOp, UOp] = {}
    for x in toposort([u]):
        y = x.replace(tuple(new[s] for s in x.src))
        root = y.src[0] if y.src else y
        n = even(y.src[1]) if y.op is Ops.POW else 2 if y.op is Ops.MUL and y.src[0] is y.src[1] else 0
        if n and root.op is Ops.SQRT and is_square(root.src[0]):
            y = root.src[0] if n == 2 else root.src[0] ** (n // 2)
        new[x] = y.expand(x.shape)
    return new[u]


def even(u: UOp) -> int:
    """The even whole number above 0 that an exponent is, or 0."""
    while u.op in (Ops.EXPAND, Ops.RESHAPE):
        u = u.src[0]
    known = u.op is Ops.CONST and u.arg > 0 and u.arg % 2 == 0
    return int(u.arg) if known else 0


def is_square(u: UOp) -> bool:
    """Is it x*x + y*y, which is not negative?"""
    return u.op is Ops.ADD and all(s.op is Ops.MUL and s.src[0] is s.src[1] for s in u.src)


def over(a: Complex, b: Complex) -> Complex:
    if nothing(b.imag):
        return Complex(a.real / b.real, a.imag / b.real)
    size = b.real * b.real + b.imag * b.imag
    top = times(a, b.conj())
    return Complex(top.real / size, top.imag / size)


def logarithm(z: Complex) -> Complex:
    """The principal one."""
    return Complex(0.5 * (z.real * z.real + z.imag * z.imag).log(), NUMPY["arctan2"](z.imag, z.real))


def root(z: Complex) -> Complex:
    """The principal one: of the sum that does not cancel, the other part follows from the product."""
    x, y = z.real, z.imag
    larger = ((absolute(z) + abs(x)) * 0.5).sqrt()
    smaller = abs(y) / larger.eq(0.0).where(1.0, 2.0 * larger)
    re, im = (x >= 0.0).where(larger, smaller), (x >= 0.0).where(smaller, larger)
    return Complex(re, (y < 0.0).where(-im, im))


def sine(z: Complex) -> Complex:
    return Complex(z.real.sin() * z.imag.cosh(), z.real.cos() * z.imag.sinh())


def cosine(z: Complex) -> Complex:
    return Complex(z.real.cos() * z.imag.cosh(), -(z.real.sin() * z.imag.sinh()))


def hyperbolic_sine(z: Complex) -> Complex:
    return Complex(z.real.sinh() * z.imag.cos(), z.real.cosh() * z.imag.sin())


def hyperbolic_cosine(z: Complex) -> Complex:
    return Complex(z.real.cosh() * z.imag.cos(), z.real.sinh() * z.imag.sin())


def matrix_product(a: Any, b: Any) -> Complex:
    a, b = as_complex(a), as_complex(b)
    re = a.real @ b.real if nothing(a.imag) or nothing(b.imag) else a.real @ b.real - a.imag @ b.imag
    if nothing(a.imag):
        return Complex(re, 0.0 if nothing(b.imag) else a.real @ b.imag)
    return Complex(re, a.imag @ b.real if nothing(b.imag) else a.real @ b.imag + a.imag @ b.real)


def power(z: Complex, exponent: Any) -> Complex:
    if isinstance(exponent, (float, complex, Complex, UOp)) and not (
        isinstance(exponent, float) and exponent.is_integer()
    ):
        return (logarithm(z) * as_complex(exponent)).exp()
    exponent = int(exponent) if isinstance(exponent, float) else exponent
    if not isinstance(exponent, int) or abs(exponent) > 64:
        raise TraceError.here(
            "a complex number to a power that is neither a number nor a symbol", "Write z**2, or np.exp(...)."
        )
    out, base, n = Complex(UOp.const(1.0, z.real.dtype, z.shape)), z, abs(exponent)
    first = True
    while n:
        if n & 1:
            out, first = (base if first else times(out, base)), False
        n >>= 1
        base = times(base, base) if n else base
    return over(Complex(1.0), out) if exponent < 0 else out


OPERATIONS: dict[Ops, Callable[..., Complex]] = {
    Ops.ADD: lambda a, b: Complex(a.real + b.real, a.imag + b.imag),
    Ops.SUB: lambda a, b: Complex(a.real - b.real, a.imag - b.imag),
    Ops.MUL: times,
    Ops.DIV: over,
    Ops.NEG: lambda a: Complex(-a.real, -a.imag),
}


def on_complex(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One of NumPy's functions, with a complex number among its arguments."""
    if name not in COMPLEX:
        raise TraceError.here(f"np.{name} is not defined on complex symbols", REAL)
    return COMPLEX[name](*args, **{k: v for k, v in kwargs.items() if v is not None or k == "axis"})


# fmt: off
COMPLEX.update({
    "complex": lambda x, y=None: as_complex(x) if y is None else Complex(x, y),
    "add": lambda a, b: as_complex(a) + b,        "subtract": lambda a, b: as_complex(a) - b,
    "multiply": lambda a, b: as_complex(a) * b,   "divide": lambda a, b: as_complex(a) / b,
    "true_divide": lambda a, b: as_complex(a) / b, "power": lambda a, n: as_complex(a) ** n,
    "log": lambda z: logarithm(z),                "sqrt": lambda z: root(z),
    "sin": lambda z: sine(z),                     "cos": lambda z: cosine(z),
    "sinh": lambda z: hyperbolic_sine(z),         "cosh": lambda z: hyperbolic_cosine(z),
    "matmul": matrix_product,                     "dot": matrix_product,
    "vdot": lambda a, b: matrix_product(as_complex(a).conj(), b),
    "negative": lambda z: -z,                     "positive": lambda z: z,
    "square": lambda z: z * z,                    "exp": lambda z: z.exp(),
    "conjugate": lambda z: z.conj(),              "conj": lambda z: z.conj(),
    "real": lambda z: z.real,                     "imag": lambda z: z.imag,
    "absolute": absolute,                         "abs": absolute,
    "angle": lambda z: NUMPY["arctan2"](z.imag, z.real),
    "sum": lambda z, axis=None, keepdims=False: z.sum(axis, keepdims),
    "mean": lambda z, axis=None, keepdims=False: z.mean(axis, keepdims),
    "stack": lambda items, axis=0: stacked(items, axis),
    "concatenate": lambda items, axis=0: joined(items, axis),
    "reshape": lambda z, shape: z.reshape(shape), "transpose": lambda z, axes=None: z.transpose(*([axes] if axes else [])),
    "roll": lambda z, shift, axis=None: z.both(lambda u: NUMPY["roll"](u, shift, axis)),
    "where": lambda c, a, b: Complex(NUMPY["where"](c, as_complex(a).real, as_complex(b).real),
                                     NUMPY["where"](c, as_complex(a).imag, as_complex(b).imag)),
})
NUMPY.update({"real": lambda x: as_uop(x), "imag": lambda x: as_uop(x) * 0.0, "conjugate": lambda x: as_uop(x),
              "conj": lambda x: as_uop(x)})
# fmt: on
