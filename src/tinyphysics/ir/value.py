"""What every operation means, on plain numbers: the definition that all else is compared with.

A scalar is a Python number, an array a flat row-major list. Nothing here raises on data: division
by zero, overflow and domains outside the reals give the IEEE answers, as they do on hardware.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from operator import add, and_, eq, invert, le, lt, mul, ne, neg, not_, or_, sub, xor
from typing import Any

from tinyphysics.errors import PlanError
from tinyphysics.ir.angle_reduction import within
from tinyphysics.ir.dtype import DType, Number, as_number, bitcast, bool_, f32, round_f32, wrap
from tinyphysics.ir.fourier import places, results, roots_of_one, rounded, stages
from tinyphysics.ir.harmonic import drift_time, kick_time, lag, sign_of
from tinyphysics.ir.mesh import INTERPOLATE, SPREAD, Arithmetic, at_nodes, of_particle
from tinyphysics.ir.neighbours import arranged
from tinyphysics.ir.ops import ELEMENTWISE, Ops
from tinyphysics.ir.reduction import along, fold, fold_products, trees
from tinyphysics.ir.uop import Shape, UOp, toposort
from tinyphysics.philox import normal_pair, uniform_pair
from tinyphysics.util import prod

Value = Any  # a number, or a flat list of numbers

INF, NAN = math.inf, math.nan


# --- floating-point operations where Python raises and hardware does not ---------------------------
def div(a: float, b: float) -> float:
    if b != 0.0:
        return a / b
    if a == 0.0 or a != a or b != b:
        return NAN
    return math.copysign(INF, a) * math.copysign(1.0, b)


def sqrt(x: float) -> float:
    return math.sqrt(x) if x >= 0.0 or x == 0.0 else NAN


def guarded(f: Callable[..., float], overflow: float = INF) -> Callable[..., float]:
    def call(*x: float) -> float:
        try:
            return f(*x)
        except ValueError:
            return NAN
        except OverflowError:
            return overflow

    return call


def power(x: float, y: float) -> float:
    if x == 0.0 and y < 0.0:
        return math.copysign(INF, x) if y % 2 == 1 else INF
    try:
        return math.pow(x, y)
    except ValueError:
        return NAN
    except OverflowError:  # the sign of an odd power is that of its base
        return -INF if x < 0 and y % 2 == 1 else INF


def fma_exact(a: float, b: float, c: float) -> float:
    """a*b + c rounded once, through whole numbers."""
    plain = a * b + c
    if not (math.isfinite(a) and math.isfinite(b)):
        return plain
    if not math.isfinite(c):  # a*b may overflow on its own
        return c
    (n, d), (m, e), (k, f) = a.as_integer_ratio(), b.as_integer_ratio(), c.as_integer_ratio()
    exact, below = n * m * f + k * d * e, d * e * f
    if exact == 0:
        return plain if a * b == 0.0 and c == 0.0 else 0.0
    try:
        return exact / below  # int/int is correctly rounded
    except OverflowError:
        return INF if exact > 0 else -INF


SPLIT = 134217729.0  # 2**27 + 1, Veltkamp


def fma_fast(a: float, b: float, c: float) -> float:
    """fma by error-free transformations; the exact route where an exponent is extreme.

    Dekker's product and Knuth's sum leave three words; rounding the middle one to odd makes the
    last addition correct (Boldo and Melquiond 2008).
    """
    p = a * b
    if c == 0.0 and p != 0.0:
        return p
    # the last bit of a*b, 106 places below p, is a float, and nothing overflows on the way
    if not (1e-250 < abs(p) < 1e290 and abs(a) < 1e290 and abs(b) < 1e290 and abs(c) < 1e290):
        return p + c if a == 0.0 or b == 0.0 else fma_exact(a, b, c)
    t = SPLIT * a
    ah = t - (t - a)
    al = a - ah
    t = SPLIT * b
    bh = t - (t - b)
    bl = b - bh
    e = ((ah * bh - p) + ah * bl + al * bh) + al * bl
    th = c + e
    z = th - c
    tl = (c - (th - z)) + (e - z)
    vh = p + th
    z = vh - p
    vl = (p - (vh - z)) + (th - z)
    zh = tl + vl
    z = zh - tl
    zl = (tl - (zh - z)) + (vl - z)
    if zl != 0.0:
        mantissa = math.frexp(zh)[0]
        if int(mantissa * 9007199254740992.0) % 2 == 0:  # even: move one ulp towards zl
            zh = math.nextafter(zh, INF if zl > 0.0 else -INF)
    return vh + zh


fma: Callable[[float, float, float], float] = getattr(math, "fma", fma_fast)


def fma32(a: float, b: float, c: float) -> float:
    """fma of float32 values, rounded once to float32."""
    p = a * b  # exact: 48 bits
    s = p + c
    if not math.isfinite(s):
        return round_f32(s)
    z = s - p
    error = (p - (s - z)) + (c - z)
    if error != 0.0 and int(math.frexp(s)[0] * 9007199254740992.0) % 2 == 0:
        s = math.nextafter(s, INF if error > 0.0 else -INF)  # round to odd, then once to float32
    return round_f32(s)


# of numbers of any kind
RING: dict[Ops, Callable[..., Any]] = {Ops.NEG: neg, Ops.ADD: add, Ops.SUB: sub, Ops.MUL: mul}
COMPARISON: dict[Ops, Callable[[Any, Any], bool]] = {Ops.LT: lt, Ops.LE: le, Ops.EQ: eq, Ops.NE: ne}
LOGIC: dict[Ops, Callable[..., Any]] = {Ops.AND: and_, Ops.OR: or_, Ops.XOR: xor, Ops.NOT: not_}
FLOAT: dict[Ops, Callable[..., Any]] = RING | {
    Ops.ABS: abs,
    Ops.SIGN: lambda x: x if x != x else float((x > 0) - (x < 0)),
    Ops.FLOOR: lambda x: float(math.floor(x)) if math.isfinite(x) else x,
    Ops.RINT: lambda x: float(round(x)) + 0.0 if math.isfinite(x) else x,
    Ops.SQRT: sqrt,
    Ops.RSQRT: lambda x: div(1.0, sqrt(x)),
    Ops.CBRT: math.cbrt,
    Ops.SIN: guarded(math.sin),
    Ops.COS: guarded(math.cos),
    Ops.TAN: guarded(math.tan),
    Ops.ASIN: guarded(math.asin),
    Ops.ACOS: guarded(math.acos),
    Ops.ATAN: math.atan,
    Ops.SINH: lambda x: guarded(math.sinh, math.copysign(INF, x))(x),
    Ops.COSH: guarded(math.cosh),
    Ops.TANH: math.tanh,
    Ops.EXP: guarded(math.exp),
    Ops.EXPM1: guarded(math.expm1),
    Ops.LOG: lambda x: -INF if x == 0.0 else guarded(math.log)(x),
    Ops.LOG1P: lambda x: -INF if x == -1.0 else guarded(math.log1p)(x),
    Ops.ERF: math.erf,
    Ops.IMAGE: lambda a, b, s: (a - s) - b,
    Ops.DIV: div,
    Ops.POW: power,
    Ops.ATAN2: math.atan2,
    Ops.HYPOT: math.hypot,
    Ops.ANGLE: lambda high, low: within(high, low)[0],
    Ops.ANGLE_LOW: lambda high, low: within(high, low)[1],
    Ops.MIN: lambda a, b: a if a < b or a != a else b,  # a NaN on either side wins, as in NumPy
    Ops.MAX: lambda a, b: a if a > b or a != a else b,
    Ops.FMA: fma,
    Ops.HARMONIC_SIGN: sign_of,
    Ops.HARMONIC_DRIFT: drift_time,
    Ops.HARMONIC_KICK: kick_time,
    Ops.HARMONIC_LAG: lag,
}


def tdiv(a: int, b: int) -> int:
    """The quotient towards zero; no machine is asked for one by 0."""
    if b == 0:
        return 0
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGER: dict[Ops, Callable[..., Any]] = (
    RING | LOGIC | {Ops.NOT: invert, Ops.ABS: abs, Ops.MIN: min, Ops.MAX: max}
)
INTEGER[Ops.SIGN] = lambda x: (x > 0) - (x < 0)
INTEGER |= {
    Ops.FLOORDIV: lambda a, b: a // b if b else 0,
    Ops.MOD: lambda a, b: a % b if b else 0,
    Ops.TDIV: tdiv,
}


def scalar(op: Ops, dtype: DType, sources: Sequence[DType]) -> Callable[..., Number]:
    """The function on numbers that an element-wise operation is."""
    if op in COMPARISON:
        return COMPARISON[op]
    if op is Ops.WHERE or op is Ops.WHERE_RARELY:
        return lambda c, a, b: a if c else b
    if op is Ops.CAST:
        return lambda x: as_number(x, dtype)
    if op is Ops.BITCAST:
        return lambda x: bitcast(x, sources[0], dtype)
    if dtype is bool_:
        return LOGIC[op]
    if dtype.is_int:
        bits, mask = dtype.bits, (1 << dtype.bits) - 1
        if op is Ops.SHL:
            return lambda x, n: wrap(x << n if 0 <= n < bits else 0, dtype)
        if op is Ops.SHR:
            return lambda x, n: wrap((x & mask) >> n if 0 <= n < bits else 0, dtype)
        if op is Ops.SAR:
            return lambda x, n: x >> (n if 0 <= n < bits else bits - 1)
        if op is Ops.MULHI:
            return lambda a, b: wrap(((a & mask) * (b & mask)) >> bits, dtype)
        integer = INTEGER[op]
        return lambda *x: wrap(integer(*x), dtype)
    if dtype is f32:
        if op is Ops.FMA:
            return fma32
        wide = FLOAT[op]  # one rounding of the float64 result is right for + - * / sqrt
        return lambda *x: round_f32(wide(*x))
    return FLOAT[op]


# --- arrays ----------------------------------------------------------------------------------------
def drawn(u: UOp) -> Callable[..., Number]:
    """The number at an address."""
    kind, stream, count = u.arg

    def one(low: int, high: int, step: int, member: int, index: int) -> Number:
        address = (high << 32 | low, stream, step, member * count + index)
        if kind == "normal":
            return as_number(normal_pair(*address)[0], u.dtype)
        x = uniform_pair(*address)[0]
        return math.floor(x * 2.0**24) * 2.0**-24 if u.dtype is f32 else x  # rounded, it might be 1

    return one


def strides(shape: Shape) -> tuple[int, ...]:
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def source_index(u: UOp) -> list[int | None]:
    """For each element of a one-source movement, the row-major index that it comes from; None is zero."""
    shape, old = u.shape, u.src[0].shape
    step = strides(old)
    where = product(*(range(n) for n in shape))
    match u.op:
        case Ops.RESHAPE:
            return list(range(u.size))
        case Ops.ELEMENT:
            return [u.arg]
        case Ops.EXPAND:
            new = len(shape) - len(old)
            return [sum(i * s for i, s, n in zip(at[new:], step, old) if n != 1) for at in where]
        case Ops.PERMUTE:
            return [sum(i * step[a] for i, a in zip(at, u.arg)) for at in where]
        case Ops.SLICE:
            return [sum((b[0] + i * b[2]) * s for i, b, s in zip(at, u.arg, step)) for at in where]
        case Ops.FLIP:
            return [
                sum((n - 1 - i if a in u.arg else i) * s for a, (i, n, s) in enumerate(zip(at, old, step)))
                for at in where
            ]
        case Ops.ROLL:
            shift = dict.fromkeys(range(len(old)), 0)
            for s, a in u.arg:
                shift[a] += s
            return [sum((i - shift[a]) % old[a] * step[a] for a, i in enumerate(at)) for at in where]
        case Ops.TRIU:
            a, b = u.arg[:2]
            return [i if at[a] < at[b] else None for i, at in enumerate(where)]
        case Ops.PAD:
            return [_unpadded(at, u.arg, old, step) for at in where]
    raise AssertionError(f"{u.op} is not a movement of one array")


def _unpadded(
    at: tuple[int, ...], widths: Sequence[tuple[int, int, int]], old: Shape, step: Sequence[int]
) -> int | None:
    out = 0
    for i, (lo, _, between), n, s in zip(at, widths, old, step):
        k, rest = divmod(i - lo, between + 1)
        if rest or not 0 <= k < n:
            return None
        out += k * s
    return out


def concat_index(u: UOp) -> list[tuple[int, int]]:
    """For each element of a CONCAT, (which source, row-major index in it)."""
    out = []
    for at in product(*(range(n) for n in u.shape)):
        i, k = at[u.arg], 0
        while i >= u.src[k].shape[u.arg]:
            i -= u.src[k].shape[u.arg]
            k += 1
        here = (*at[: u.arg], i, *at[u.arg + 1 :])
        out.append((k, sum(a * s for a, s in zip(here, strides(u.src[k].shape)))))
    return out


def chosen_rows(axes: Shape, indices: Sequence[Value], scalar_index: bool) -> list[int | None]:
    """The row of leading axes that each combination of indices chooses; None where one is outside."""
    lists = [[i] for i in indices] if scalar_index else indices
    step = strides(axes)
    return [
        sum(i * s for i, s in zip(at, step)) if all(0 <= i < n for i, n in zip(at, axes)) else None
        for at in zip(*lists)
    ]


def gathered(u: UOp) -> Callable[..., Value]:
    table, scalar_index = u.src[0], not u.src[1].shape
    axes = table.shape[: len(u.src) - 1]
    width = prod(table.shape[len(axes) :])
    outside = [as_number(NAN, u.dtype)] * width

    def take(x: Sequence[Number], *indices: Value) -> Value:
        rows = chosen_rows(axes, indices, scalar_index)
        out = [v for k in rows for v in (outside if k is None else x[k * width : (k + 1) * width])]
        return out if u.shape else out[0]

    return take


def scattered(u: UOp) -> Callable[..., Value]:
    values, scalar_index = u.src[0], not u.src[1].shape
    axes = u.shape[: len(u.src) - 1]
    width = prod(values.shape[u.src[1].ndim :])
    add, nothing, outside = scalar(Ops.ADD, u.dtype, ()), as_number(0, u.dtype), as_number(NAN, u.dtype)

    def put(x: Value, *indices: Value) -> Value:
        flat = x if values.shape else [x]
        out = [nothing] * u.size
        for item, k in enumerate(chosen_rows(axes, indices, scalar_index)):
            for c in range(width):
                at = (k or 0) * width + c
                out[at] = add(out[at], outside if k is None else flat[item * width + c])
        return out

    return put


REDUCTION = {"sum": Ops.ADD, "dot": Ops.ADD, "pairs": Ops.ADD, "max": Ops.MAX, "min": Ops.MIN}


def empty(u: UOp) -> Number:
    """What a reduction of nothing is; of no pair -0.0, which changes nothing that it is added to."""
    return as_number({"sum": 0.0, "dot": 0.0, "pairs": -0.0}.get(u.arg[0], NAN), u.dtype)


def reduction(u: UOp) -> Callable[[Sequence[Number]], Value]:
    """A reduction as a function of the elements of its source."""
    if not u.arg[1]:
        return lambda x: x
    combine = scalar(REDUCTION[u.arg[0]], u.dtype, ())
    plans = [(trees(axis), empty(axis)) for axis in along(u)]

    def apply(x: Sequence[Number]) -> Value:
        for plan, nothing in plans:
            values = [fold(tree, combine, x.__getitem__) for tree in plan]
            x = [nothing if v is None else v for v in values]
        return x if u.shape else x[0]

    return apply


def dotted(u: UOp) -> Callable[[Sequence[Number], Sequence[Number]], Value]:
    """A sum of products along one axis."""
    add, join, times = (scalar(op, u.dtype, ()) for op in (Ops.ADD, Ops.FMA, Ops.MUL))
    plan, nothing = trees(u), empty(u)

    def apply(x: Sequence[Number], y: Sequence[Number]) -> Value:
        values = [fold_products(tree, add, join, times, lambda k: (x[k], y[k])) for tree in plan]
        out = [nothing if v is None else v for v in values]
        return out if u.shape else out[0]

    return apply


def meshed(u: UOp) -> Callable[[Sequence[Number], Sequence[Number]], Value]:
    """Particles on a mesh, one after the other."""
    what, order, along, grid = u.arg
    if what not in (SPREAD, INTERPOLATE):  # what they are made of: rules/formulas/mesh.py
        raise PlanError("waves of a mesh are no single node", fix="Run a program that sums them.")
    add, join, times = (scalar(op, u.dtype, ()) for op in (Ops.ADD, Ops.FMA, Ops.MUL))
    weights = Prepared(at_nodes(of_particle(u.dtype), order, grid, (along,)))
    numbers = Arithmetic(add, times, join, weights)
    return lambda f, x: (numbers.spread if what == SPREAD else numbers.interpolate)(f, x, order, grid)


def transformed(u: UOp) -> Callable[[Sequence[Number], Sequence[Number]], Value]:
    """A part of the transforms along an axis, stage by stage, all small transforms of a stage together."""
    part, sign, axis = u.arg
    n, d = u.shape[axis], u.dtype
    inner = prod(u.shape[axis + 1 :])
    rows = [k for k in range(u.size) if k // inner % n == 0]

    def apply(re: Sequence[Number], im: Sequence[Number]) -> Value:
        x = [[[source[r + j * inner] for r in rows] for j in range(n)] for source in (re, im)]
        for s in stages(n):
            here = list(places(s))
            shape = (len(here) * len(rows),)
            names = [(UOp.var(f"re{j}", shape, d), UOp.var(f"im{j}", shape, d)) for j in range(s.radix)]
            roots = [(UOp.var(f"cos{k}", shape, d), UOp.var(f"sin{k}", shape, d)) for k in range(1, s.radix)]
            env: dict[str, Value] = {}
            for j, pair in enumerate(names):
                for v, numbers in zip(pair, x):
                    at = (q + s.stride * (p + s.parts * j) for p, q in here)
                    env[str(v.arg)] = [value for i in at for value in numbers[i]]
            for k, pair in enumerate(roots, 1):
                for v, c in zip(pair, (0, 1)):
                    table = [rounded(roots_of_one(n)[s.stride * p * k][c], d) for p in range(s.parts)]
                    env[str(v.arg)] = [table[p] for p, _ in here for _ in rows]
            wanted = results(names, roots if s.parts > 1 else [], sign)
            found = evaluate([w for pair in wanted for w in pair], env)
            for c in (0, 1):
                new: list[list[Number]] = [[]] * n
                for k in range(s.radix):
                    numbers = found[2 * k + c]
                    for m, (p, q) in enumerate(here):
                        new[q + s.stride * (s.radix * p + k)] = numbers[m * len(rows) : (m + 1) * len(rows)]
                x[c] = new
        out: list[Number] = [0.0] * u.size
        for j in range(n):
            for r, value in zip(rows, x[part][j]):
                out[r + j * inner] = value
        return out

    return apply


def near_value(u: UOp, q: Sequence[float], *rest: Value) -> Value:
    """What a list of neighbours says of points, made for them."""
    n, d = u.src[0].shape
    order, periods = arranged([q[i * d : (i + 1) * d] for i in range(n)], cell_of(u, rest[2:]), *u.arg[2:])
    match u.arg[0]:
        case "order":
            return order
        case "inverse":
            return sorted(range(n), key=order.__getitem__)
        case "images":
            return [as_number(x, u.dtype) for p in periods for x in p]
    raise AssertionError(f"{u.arg[0]} of a list")


def cell_of(u: UOp, given: Sequence[Value]) -> list[list[float]] | None:
    """The vectors of the cell that a list lives in: lengths are a diagonal."""
    if not given:
        return None
    (box,), d = given, u.src[0].shape[1]
    if u.src[3].ndim == 2:
        return [box[i * d : (i + 1) * d] for i in range(d)]
    return [[box[i] if i == k else 0.0 for k in range(d)] for i in range(d)]


# a user's operations, as expressions; see rules/calculus/custom.py
CUSTOM: dict[str, Callable[..., UOp]] = {}


def node(u: UOp) -> Callable[..., Value]:
    """The function from the values of u's sources to the value of u."""
    if u.op is Ops.CONST:
        constant: Value = [u.arg] * u.size if u.shape else u.arg
        return lambda: constant
    if u.op is Ops.RANGE:
        return lambda: list(range(u.shape[0]))
    if u.op is Ops.CUSTOM:
        names = [UOp.var(f"x{i}", s.shape, s.dtype) for i, s in enumerate(u.src)]
        body = CUSTOM[u.arg](*names)
        return lambda *x: evaluate([body], dict(zip((str(n.arg) for n in names), x)))[0]
    if u.op in ELEMENTWISE:
        f = drawn(u) if u.op is Ops.RANDOM else scalar(u.op, u.dtype, [s.dtype for s in u.src])
        return (lambda *x: list(map(f, *x))) if u.shape else f
    if u.op is Ops.STACK:
        return lambda *x: list(x)
    if u.op is Ops.CONCAT:
        pieces = concat_index(u)
        return lambda *x: [x[k][i] for k, i in pieces]
    if u.op is Ops.REDUCE:
        return dotted(u) if u.arg[0] == "dot" else reduction(u)
    if u.op is Ops.FOURIER:
        return transformed(u)
    if u.op is Ops.MESH:
        return meshed(u)
    if u.op is Ops.GATHER:
        return gathered(u)
    if u.op is Ops.NEIGHBOURS:
        return partial(near_value, u)
    if u.op is Ops.SCATTER:
        return scattered(u)
    if u.op is Ops.TREE:
        # its order of operations is that of emit/kinds/trees/tree_walk.py, and of nothing else
        raise PlanError("sums with a tree code need a compiled backend", fix="Leave approximate= out.")
    if (
        u.op is Ops.LINE
    ):  # its places are expressions: rules/calculus/lines.py, and tpir/program/vm.py for their values
        raise PlanError("equations along a line are no single node", fix="Run a program that solves them.")
    if u.op is Ops.ELLIPTIC:  # what it is made of: rules/formulas/elliptic.py
        raise PlanError("Poisson's equation is no single node", fix="Run a program that solves it.")
    origin = source_index(u)
    zero = as_number(0, u.dtype)

    def move(x: Value) -> Value:
        flat = x if u.src[0].shape else [x]
        out = [zero if i is None else flat[i] for i in origin]
        return out if u.shape else out[0]

    return move


def evaluate(roots: Sequence[UOp], env: Mapping[str, Value]) -> list[Value]:
    """The values of the roots where each variable has the value that env gives to its name.

    >>> q = UOp.var("q", (2,))
    >>> evaluate([(q * q).sum()], {"q": [3.0, 4.0]})
    [25.0]
    """
    return Prepared(roots)(env)


class Prepared:
    """Some roots to be evaluated again and again; what is `known` is given as values."""

    def __init__(self, roots: Sequence[UOp], known: Sequence[UOp] = ()) -> None:
        self.roots = roots
        order = toposort(roots, dict.fromkeys(known))
        self.names = [u for u in order if u.op is Ops.VAR]
        self.order = [(u, node(u), u.src) for u in order if u.op is not Ops.VAR]

    def values(self, env: Mapping[str, Value], known: Mapping[UOp, Value]) -> dict[UOp, Value]:
        found: dict[UOp, Value] = {**known, **{u: env[u.arg] for u in self.names}}
        for u, f, sources in self.order:
            found[u] = f(*[found[s] for s in sources])
        return found

    def __call__(self, env: Mapping[str, Value], known: Mapping[UOp, Value] | None = None) -> list[Value]:
        found = self.values(env, known or {})
        return [found[r] for r in self.roots]
