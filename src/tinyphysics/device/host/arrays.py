"""The NumPy backend: an array operation per node, exact to the last bit; transparent and slow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinyphysics.device.numbers import NUMPY_DTYPE
from tinyphysics.device.protocols import Parts
from tinyphysics.ir.dtype import DType, bool_, f32
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.ir.value import SPLIT, fma_exact, fma_fast
from tinyphysics.rules.calculus.solve import STRAYED, part
from tinyphysics.rules.functions.rounds import BEFORE, FIRST, rounds_of
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import NOW, Section

Array = Any
FEW = (
    32  # numbers for which Python's floats are faster than the thirty array operations of a product and a sum
)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    s = a + b
    z = s - a
    return s, (a - (s - z)) + (b - z)


def to_odd(x: Array, rest: Array) -> Array:
    """x moved by one ulp towards the rest where its last bit is even and the rest is not zero."""
    bits = x.view(np.int64)
    even = (rest != 0) & (bits & 1 == 0)
    step = np.where((rest > 0) == (x > 0), 1, -1)
    return np.where(even, bits + step, bits).view(np.float64)


def fma64(a: Array, b: Array, c: Array) -> Array:
    """a*b + c rounded once: error-free products and sums, the rare extreme exponents through rationals."""
    a, b, c = (np.ascontiguousarray(x, np.float64) for x in np.broadcast_arrays(a, b, c))
    p = a * b
    t = SPLIT * a
    ah = t - (t - a)
    al = a - ah
    t = SPLIT * b
    bh = t - (t - b)
    bl = b - bh
    e = ((ah * bh - p) + ah * bl + al * bh) + al * bl
    th, tl = two_sum(c, e)
    vh, vl = two_sum(p, th)
    zh, zl = two_sum(tl, vl)
    out = vh + to_odd(zh, zl)
    size = [np.abs(x) for x in (p, a, b, c)]
    plain = (
        (size[0] > 1e-120)
        & (size[0] < 1e120)
        & (size[1] < 1e120)
        & (size[2] < 1e120)
        & ((c == 0) | (size[3] > 1e-120) & (size[3] < 1e120))
    )
    nothing = (a == 0) | (b == 0)  # then the product is exact, or no number
    if nothing.any():
        out = np.where(nothing, p + c, out)
    for i in zip(*np.nonzero(~(plain | nothing))):
        out[i] = fma_exact(float(a[i]), float(b[i]), float(c[i]))
    return out


def fma_few(a: Array, b: Array, c: Array) -> Array:
    """a*b + c rounded once; of one member or a few, number by number."""
    count = max(a.size, b.size, c.size)
    if count > FEW or not a.ndim == b.ndim == c.ndim == 1:
        return fma64(a, b, c)
    lists = (x.tolist() * (count if x.size == 1 else 1) for x in (a, b, c))
    return np.array([fma_fast(x, y, z) for x, y, z in zip(*lists)])


def fma32(a: Array, b: Array, c: Array) -> Array:
    """The product is exact in float64; its sum is rounded to odd, then once to float32."""
    a, b, c = (np.ascontiguousarray(x, np.float64) for x in np.broadcast_arrays(a, b, c))
    s, rest = two_sum(a * b, c)
    finite = np.isfinite(s)
    rounded: Array = np.where(finite, to_odd(s, np.where(finite, rest, 0.0)), s)
    return rounded.astype(np.float32)


def cast(x: Array, d: DType) -> Array:
    return x.astype(NUMPY_DTYPE[d.name])


def shift(x: Array, n: Array, d: DType, left: bool) -> Array:
    unsigned = np.dtype(f"u{d.bits // 8}")
    bits, places = x.view(unsigned), n.astype(unsigned)
    return (bits << places if left else bits >> places).view(NUMPY_DTYPE[d.name])


BINARY: dict[Ops, Callable[[Array, Array], Array]] = {
    Ops.ADD: np.add,
    Ops.SUB: np.subtract,
    Ops.MUL: np.multiply,
    Ops.DIV: np.divide,
    Ops.LT: np.less,
    Ops.LE: np.less_equal,
    Ops.EQ: np.equal,
    Ops.NE: np.not_equal,
    Ops.AND: np.bitwise_and,
    Ops.OR: np.bitwise_or,
    Ops.XOR: np.bitwise_xor,
    Ops.SAR: np.right_shift,
}


def operation(u: UOp, a: Sequence[Array]) -> Array:
    match u.op:
        case Ops.FMA:
            return fma32(*a) if u.dtype is f32 else fma_few(*a)
        case Ops.SQRT:
            return np.sqrt(a[0])
        case Ops.NEG:
            return np.negative(a[0])
        case Ops.NOT:
            return np.logical_not(a[0]) if u.dtype is bool_ else np.invert(a[0])
        case Ops.WHERE:
            return np.where(a[0], a[1], a[2])
        case Ops.CAST:
            return cast(a[0], u.dtype)
        case Ops.BITCAST:
            return np.ascontiguousarray(a[0]).view(NUMPY_DTYPE[u.dtype.name])
        case Ops.SHL | Ops.SHR:
            return shift(np.ascontiguousarray(a[0]), np.asarray(a[1]), u.dtype, u.op is Ops.SHL)
        case Ops.TDIV:
            down = a[0] // a[1]
            return down + ((down < 0) & (down * a[1] != a[0]))
        case Ops.MULHI:
            return ((a[0].astype(np.uint64) * a[1].astype(np.uint64)) >> np.uint64(32)).astype(np.uint32)
    return BINARY[u.op](a[0], a[1])


class Evaluator:
    """Some roots as a function of named arrays, node by node."""

    def __init__(self, roots: Sequence[UOp], careful: bool = False) -> None:
        self.order, self.roots, self.careful = toposort(roots), roots, careful

    def __call__(self, env: dict[UOp, Array]) -> list[Array]:
        values = dict(env)
        for u in self.order:
            if u.op is Ops.CONST:
                values[u] = np.array([u.arg], NUMPY_DTYPE[u.dtype.name])
            elif u.op is Ops.SOLVED:
                which, n, *_ = u.arg
                call = part(u, -1)
                if call not in values:
                    values[call] = rooted(u, [values[s] for s in u.src], self.careful)
                values[u] = values[call][which] != 0 if which == n + STRAYED else values[call][which]
            elif u.op is not Ops.VAR:
                values[u] = operation(u, [values[s] for s in u.src])
        return [values[r] for r in self.roots]


def rooted(u: UOp, given: Sequence[Array], careful: bool) -> Any:
    """All that a solution gives, a row each: every member goes on until it has arrived."""
    k = rounds_of(u, careful)
    a = np.broadcast_arrays(*given)
    x, known = np.array(a[: k.n], np.float64), dict(zip((*k.scale, *k.given), a[k.n :]))
    one = Evaluator(k.roots, careful)
    active = np.ones(x.shape[1], bool)
    before, left, count, seen = (
        np.full(len(active), FIRST),
        np.zeros(len(active)),
        np.zeros(len(active)),
        ~active,
    )
    for _ in range(k.most):
        values = [np.broadcast_to(v, len(active)) for v in one(dict(zip(k.x, x)) | known | {BEFORE: before})]
        x = np.where(active, values[: k.n], x)
        before, residual, over, *guards = values[k.n :]
        left, count = np.where(active, residual, left), count + active
        for g in guards:
            seen = seen | active & g
        active = active & ~over
        if not active.any():
            break
    return [*np.where(active, np.nan, x), seen, count, left]


class ArraysLoader:
    threads = by_address = False
    passage: Any = None
    quick = None
    made = found = 0

    def shape(self, section: Section, members: int) -> VectorShape:
        return VectorShape(1, 1)

    def load(
        self, parts: Parts, params: Sequence[UOp], varying: tuple[bool, ...], quick: bool = False
    ) -> list[Any]:
        return [self.one(f, params, varying) for f, _ in parts]

    def one(self, f: Section, params: Sequence[UOp], varying: tuple[bool, ...]) -> Any:
        once = Evaluator(list(f.invariants.values()), f.careful)
        step = Evaluator([*f.roots, *f.guards], f.careful)
        tails = [(t.period, Evaluator([*t.roots, *t.guards], f.careful)) for t in f.tails]
        look = Evaluator([*f.watched, *f.watched_guards], f.careful)
        gate = Evaluator([] if f.going is None else [f.going], f.careful)
        weights = [Evaluator([row[k] for row in f.weights.values()]) for k in range(f.stages)]

        def call(
            source: Array,
            out: Array,
            uniform: Array,
            own: Array,
            flags: Array,
            series: Array,
            begin: int,
            end: int,
            members: int,
            first: int,
            rows: int,
            stride: int,
        ) -> None:
            here = slice(begin, end)
            env = {
                p: (own[k, here] if varying[k] else uniform[k : k + 1]).astype(NUMPY_DTYPE[p.dtype.name])
                for k, p in enumerate(params)
            }
            with np.errstate(all="ignore"):
                env |= dict(zip(f.invariants, once(env)))
                stages = [dict(zip(f.weights, w(env))) for w in weights]
                state = [np.array(source[k, here]) for k in range(len(f.loads))]
                seen = np.zeros(end - begin, bool)

                def evaluate(e: Evaluator, n: int, count: int, stage: dict[UOp, Array]) -> list[Array]:
                    now = np.array([float(first + n)])
                    values = e(env | stage | {NOW: now} | dict(zip(f.loads, state)))
                    for g in values[count:]:
                        np.logical_or(seen, g, out=seen)
                    return [np.broadcast_to(v, end - begin) for v in values[:count]]

                if not f.loops:
                    state = evaluate(step, 0, len(f.roots), {})
                for j in range(rows if f.loops else 0):
                    if f.going is not None and not np.any(evaluate(gate, j * stride, 1, {})[0]):
                        break
                    for i in range(stride):
                        for k, stage in enumerate(stages, 1):
                            state = evaluate(step, j * stride + i, len(f.roots), stage)
                            for period, tail in tails:
                                if k % period == 0:
                                    state = evaluate(tail, j * stride + i, len(f.roots), stage)
                    if f.watched:
                        for k, v in enumerate(evaluate(look, (j + 1) * stride, len(f.watched), {})):
                            series[j, k, here] = v
            flags[here] = seen
            for k, v in enumerate(state):
                out[k, here][~seen] = v[~seen]

        return call
