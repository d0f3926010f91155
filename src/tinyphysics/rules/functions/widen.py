"""Which float64 graph computes a graph in pairs of float64?  Every number becomes two, every operation several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tinyphysics.errors import PlanError
from tinyphysics.ir import Ops, UOp, f64, toposort
from tinyphysics.ir.ops import CHOSEN, MOVEMENT
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.digits import double_double as wide
from tinyphysics.rules.digits import double_double_functions as wide_functions
from tinyphysics.rules.digits.double_double import Pair, minus
from tinyphysics.rules.digits.double_double_sums import reduced, scattered

# fmt: off
ARITHMETIC: dict[Ops, Callable[..., Pair]] = {
    Ops.NEG:   wide.negative,
    Ops.ABS:   wide.magnitude,
    Ops.SIGN:  lambda x: Pair(x.high.sign()),
    Ops.FLOOR: wide.floor,
    Ops.RINT:  wide.rint,
    Ops.SQRT:  wide.root,
    Ops.ADD:   wide.plus,
    Ops.SUB:   wide.minus,
    Ops.MUL:   wide.times,
    Ops.DIV:   wide.over,
    Ops.FMA:   wide.multiply_add,
    Ops.MIN:   wide.smaller,
    Ops.MAX:   wide.larger,
    Ops.IMAGE: lambda a, b, s: minus(minus(a, s), b),
    Ops.RSQRT: wide_functions.rsqrt,
    Ops.CBRT:  wide_functions.cbrt,
    Ops.SIN:   wide_functions.sin,
    Ops.COS:   wide_functions.cos,
    Ops.TAN:   wide_functions.tan,
    Ops.ASIN:  wide_functions.asin,
    Ops.ACOS:  wide_functions.acos,
    Ops.ATAN:  wide_functions.atan,
    Ops.SINH:  wide_functions.sinh,
    Ops.COSH:  wide_functions.cosh,
    Ops.TANH:  wide_functions.tanh,
    Ops.EXP:   wide_functions.exp,
    Ops.EXPM1: wide_functions.expm1,
    Ops.LOG:   wide_functions.log,
    Ops.LOG1P: wide_functions.log1p,
    Ops.ERF:   wide_functions.erf,
    Ops.POW:   wide_functions.power,
    Ops.ATAN2: wide_functions.atan2,
    Ops.HYPOT: wide_functions.hypot,
}
COMPARISONS: dict[Ops, Callable[[Pair, Pair], UOp]] = {
    Ops.LT: wide.less,
    Ops.LE: wide.less_or_equal,
    Ops.EQ: wide.equal,
    Ops.NE: lambda x, y: ~wide.equal(x, y),
}
# fmt: on
Wide = Pair | UOp  # conditions and whole numbers stay what they are


def widen(roots: Sequence[UOp], known: Mapping[UOp, Wide]) -> list[Wide]:
    """The roots in pairs; `known` says what stands for variables, and for constants that have more digits."""
    table: dict[UOp, Wide] = {}
    for u in toposort(inline(roots)):
        table[u] = known[u] if u in known else one(u, [table[s] for s in u.src])
    return [table[r] for r in inline(roots)]


def one(u: UOp, src: list[Wide]) -> Wide:
    pairs = [s for s in src if isinstance(s, Pair)]
    if not pairs and u.op is not Ops.CAST:
        plain = u.replace(tuple(s for s in src if isinstance(s, UOp)))
        return Pair(plain) if u.dtype.is_float else plain
    if u.op in COMPARISONS:
        return COMPARISONS[u.op](*pairs)
    if u.op in ARITHMETIC:
        return ARITHMETIC[u.op](*pairs)
    if u.op is Ops.WHERE:
        condition = src[0]
        assert isinstance(condition, UOp)
        return wide.chosen(condition, *pairs)
    if u.op is Ops.CAST:
        (x,) = src
        if isinstance(x, UOp):
            return wide.from_whole(x) if u.dtype is f64 else u.replace((x,))
        return x if u.dtype is f64 else wide.cast(x, u.dtype)
    if u.op is Ops.NEIGHBOURS:  # a list is made of first words
        plain = u.replace(tuple(s.high if isinstance(s, Pair) else s for s in src))
        return Pair(plain) if u.dtype.is_float else plain
    if u.op is Ops.REDUCE:
        return reduced(u, pairs[0])
    if u.op in MOVEMENT:
        return moved(u, src)
    of_arrays = {Ops.ELLIPTIC: "Poisson's equation", Ops.MESH: "a sum over images on a mesh"}
    what = of_arrays.get(u.op, f"`{u.op.value}`")
    raise PlanError(
        f"{what} is not defined for pairs of float64",
        fix='Leave it out of the energy, or choose precision="float64".',
    )


def moved(u: UOp, src: list[Wide]) -> Pair:
    """The same arrangement of both words."""
    indices = tuple(s for s in src[1:] if isinstance(s, UOp)) if u.op in CHOSEN else ()
    arrays = [s for s in src if isinstance(s, Pair)]
    if u.op is Ops.SCATTER:
        return scattered(u, arrays[0], indices)
    high = u.replace((*(p.high for p in arrays), *indices))
    if all(p.low is None for p in arrays):
        return Pair(high)
    return Pair(high, u.replace((*(p.rest for p in arrays), *indices)))
