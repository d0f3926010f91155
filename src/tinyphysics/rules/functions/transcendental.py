"""What is left of sin, exp, pow and the others on a machine that has none of them?

Every function becomes a short program in the minimal operator set (ir/ops.py), so all backends compute
the same bits. What a node becomes depends on the node alone, never on what else is in the graph: adding
an observable changes no trajectory. float32 functions use 32-bit operations only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache

from tinyphysics.ir import Ops, PatternMatcher, UOp, UPat, graph_rewrite, toposort
from tinyphysics.ir.ops import HARMONIC, MINIMAL
from tinyphysics.rules.calculus import solve
from tinyphysics.rules.digits.floats import bits, format_of, magnitude
from tinyphysics.rules.formulas import harmonic as arc
from tinyphysics.rules.formulas import kepler
from tinyphysics.rules.functions import angle_reduction as turn
from tinyphysics.rules.functions import explog, inverse, power, random, trig
from tinyphysics.rules.identities.exact import exact

# The largest error in units in the last place, (float64, float32), a little above what tools/ulp.py finds:
# against mpmath on its points, and in float32 for every argument of the functions that have one.
# fmt: off
BOUNDS: dict[str, tuple[float, float]] = {
    "sqrt":  (0.5, 0.5),
    "sin":   (2.0, 2.0),
    "cos":   (2.0, 2.0),
    "tan":   (4.0, 4.0),
    "asin":  (2.5, 2.5),
    "acos":  (1.5, 1.5),
    "atan":  (2.0, 2.0),
    "atan2": (2.0, 2.0),
    "exp":   (1.5, 1.5),
    "expm1": (2.0, 2.0),
    "log":   (1.0, 1.0),
    "log1p": (2.0, 2.0),
    "pow":   (2.0, 2.0),
    "rsqrt": (1.5, 1.5),
    "cbrt":  (1.0, 1.0),
    "sinh":  (3.0, 3.0),
    "cosh":  (2.0, 2.0),
    "tanh":  (3.0, 3.0),
    "erf":   (2.0, 2.0),
    "hypot": (1.5, 1.5),
}
# fmt: on


# --- what comparisons and bits are enough for -------------------------------------------------------
def absolute(x: UOp) -> UOp:
    if x.dtype.is_float:
        return magnitude(x)
    return x if x.dtype.kind == "u" else (x < 0).where(-x, x)


def sign(x: UOp) -> UOp:
    """-1, 0 or 1; a NaN stays one."""
    zero = x.eq(0).where(x.lift(0), x) if x.dtype.is_float else x.lift(0)
    negative = zero if x.dtype.kind == "u" else (x < 0).where(x.lift(-1), zero)
    return (0 < x).where(x.lift(1), negative)


def floor(x: UOp) -> UOp:
    """Rounded to nearest by adding and taking away 2**mantissa, one less if that went up; -0 gives 0."""
    F = format_of(x)
    base = 2.0**F.mantissa
    c = ((bits(x) & F.sign) | F.pattern(base)).bitcast(x.dtype)
    nearest = (x + c) - c
    below = nearest - (x < nearest).where(x.lift(1.0), x.lift(0.0))
    return (magnitude(x) < base).where(below, x)


def rint(x: UOp) -> UOp:
    """Rounded to nearest by adding and taking away 2**mantissa; -0 and what rounds to it give 0."""
    F = format_of(x)
    base = 2.0**F.mantissa
    c = ((bits(x) & F.sign) | F.pattern(base)).bitcast(x.dtype)
    return (magnitude(x) < base).where((x + c) - c, x)


def minimum(x: UOp, y: UOp) -> UOp:
    """A NaN on either side wins, as in NumPy."""
    first = (x < y) | x.ne(x) if x.dtype.is_float else x < y
    return first.where(x, y)


def maximum(x: UOp, y: UOp) -> UOp:
    first = (y < x) | x.ne(x) if x.dtype.is_float else y < x
    return first.where(x, y)


def floor_division(x: UOp, y: UOp) -> UOp:
    """Rounded down, as machines shift; by another number than a power of two, as they divide, one less below zero."""
    if power_of_two(y):
        return x.alu(Ops.SAR, x.lift(int(y.arg).bit_length() - 1))
    odd = y.eq(0) | y.eq(-1)  # where machines have no quotient
    divisor = odd.where(1, y)
    quotient = x.alu(Ops.TDIV, divisor)
    rest = x - quotient * divisor
    down = rest.ne(0) & ((rest < 0) ^ (divisor < 0))
    return odd.where(y.eq(0).where(x.lift(0), -x), quotient - down.cast(x.dtype))


def modulo(x: UOp, y: UOp) -> UOp:
    """What floor division leaves, with the sign of the divisor; of 0 it is 0."""
    if power_of_two(y):
        return x & (y - 1)
    return y.eq(0).where(x.lift(0), x - floor_division(x, y) * y)


def power_of_two(y: UOp) -> bool:
    return y.op is Ops.CONST and y.arg > 0 and y.arg & (y.arg - 1) == 0


# --- the tables ------------------------------------------------------------------------------------
x, y, z = UPat.var("x"), UPat.var("y"), UPat.var("z")

Rows = list[tuple[UPat, Callable[..., UOp | None]]]

# fmt: off
everywhere: Rows = [
    (abs(x),           absolute),
    (x.sign(),         sign),
    (x.floor(),        floor),
    (x.rint(),         rint),
    (x.image(y, z),    lambda x, y, z: (x - z) - y),
    (x.minimum(y),     minimum),
    (x.maximum(y),     maximum),
    (UPat(Ops.FLOORDIV, src=(x, y)), floor_division),
    (UPat(Ops.MOD, src=(x, y)), modulo),
    (x.asin(),         inverse.asin),
    (x.acos(),         inverse.acos),
    (x.atan(),         inverse.atan),
    (y.atan2(x),       inverse.atan2),
    (x.exp(),          explog.exp),
    (x.expm1(),        explog.expm1),
    (x.sinh(),         explog.sinh),
    (x.cosh(),         explog.cosh),
    (x.tanh(),         explog.tanh),
    (x.log(),          explog.log),
    (x.log1p(),        explog.log1p),
    (x.erf(),          explog.erf),
    (x ** y,           power.power),
    (x.rsqrt(),        power.rsqrt),
    (x.cbrt(),         power.cbrt),
    (x.hypot(y),       power.hypot),
    (UPat(Ops.RANDOM, name="u"), random.random),
    (UPat(Ops.KEPLER_SLOW, name="u"), lambda u: kepler.far(u.src)[u.arg]),
    (UPat(Ops.WHERE_RARELY, name="u"), lambda u: u.src[0].where(u.src[1], u.src[2])),
    (UPat(tuple(HARMONIC), name="u"), arc.expand),
]
near_and_far: Rows = [
    (x.sin(),          trig.sin),
    (x.cos(),          trig.cos),
    (x.tan(),          trig.tan),
    (x.turn(y),        turn.turn),
    (x.turn_low(y),    turn.turn_low),
]
near_only: Rows = [
    (x ** y,           power.near_power),
    (x.sin(),          trig.near_sin),
    (x.cos(),          trig.near_cos),
    (x.tan(),          trig.near_tan),
    (x.turn(y),        lambda x, y: x),
    (x.turn_low(y),    lambda x, y: y),
]
# fmt: on
any_argument = PatternMatcher(everywhere + near_and_far)
small_arguments = PatternMatcher(near_only + everywhere)
chosen = PatternMatcher(
    [
        (UPat(Ops.WHERE_RARELY, name="u"), lambda u: u.src[0].where(u.src[1], u.src[2])),
        # four of them are one computation
        (UPat(Ops.KEPLER_SLOW, name="u"), lambda u: kepler.far(u.src)[u.arg]),
    ]
)
usually = PatternMatcher([(UPat(Ops.WHERE_RARELY, name="u"), lambda u: u.src[2])])
PERIODIC = frozenset({Ops.SIN, Ops.COS, Ops.TAN})


def lower(roots: Sequence[UOp]) -> list[UOp]:
    """The roots in the minimal operator set.

    >>> lower([abs(UOp.var("q"))])
    [bitcast(bitcast(q) & 9223372036854775807)]
    """
    return graph_rewrite(roots, any_argument)


Condition = Callable[[UOp], UOp]


def fast_paths(roots: Sequence[UOp], seen: Collection[UOp] = ()) -> list[tuple[UOp, Condition]]:
    """The arguments of functions that have one, each with the condition that forbids it; without those in `seen`."""
    found: dict[tuple[UOp, Condition], None] = {}
    for u in toposort(roots):
        if u.op in PERIODIC:
            found[u.src[0], trig.too_large] = None
        elif u.op in HARMONIC:
            found[arc.turned_by(u), trig.too_large] = None
        elif u.op in (Ops.ANGLE, Ops.ANGLE_LOW):
            found[u.src[0], turn.too_large] = None
        elif power.is_inverse_cube(u) and u not in seen:
            found[u.src[0], power.too_far] = None
        # one of its rounds may have forbidden it
        elif u.op is Ops.SOLVED and fast_paths(solve.equations(u).roots):
            found[solve.part(u, 0), solve.strayed] = None
    return list(found)


def usual(roots: Sequence[UOp]) -> tuple[list[UOp], list[UOp]]:
    """The roots without what is needed seldom, and the conditions under which it is."""
    rare = list(dict.fromkeys(u.src[0] for u in toposort(roots) if u.op is Ops.WHERE_RARELY))
    if not rare:
        return list(roots), []
    new = graph_rewrite([*roots, *rare], usually)
    return new[: len(roots)], new[len(roots) :]


def always(roots: Sequence[UOp]) -> list[UOp]:
    """The roots with what is needed seldom, computed everywhere."""
    if all(u.op is not Ops.WHERE_RARELY for u in toposort(roots)):
        return list(roots)
    return graph_rewrite(roots, chosen)


def conditions(roots: Sequence[UOp]) -> list[UOp]:
    """Where the fast path of a function below the roots must not be used: one for each argument."""
    return [forbids(a) for a, forbids in fast_paths(roots)]


def alone(u: UOp) -> UOp:
    """A function of variables x0, x1, ...: what it becomes depends on the function, and on operands that are numbers."""
    return u.replace(
        tuple(s if s.op is Ops.CONST else UOp.var(f"x{k}", (), s.dtype) for k, s in enumerate(u.src))
    )


@lru_cache(maxsize=256)
def expanded(u: UOp, careful: bool) -> UOp:
    """What a function becomes; without `careful`, for arguments that no condition forbids."""
    return graph_rewrite(graph_rewrite([u], any_argument if careful else small_arguments), exact)[0]


def weight(u: UOp) -> int:
    """How many operations of the minimal set a node stands for."""
    if u.op is Ops.SOLVED:
        return _rounds(u.arg[3]) // int(u.arg[1])
    return u.op not in (Ops.CONST, Ops.VAR) if u.op in MINIMAL else _weight(alone(u))


@lru_cache(maxsize=256)
def _weight(u: UOp) -> int:
    return sum(x.op not in (Ops.CONST, Ops.VAR) for x in toposort([expanded(u, False)]))


@lru_cache(maxsize=64)
def _rounds(text: str) -> int:
    return solve.USUAL * sum(map(weight, toposort(solve.read(text))))


Paths = Callable[[Sequence[UOp], Collection[UOp]], list[tuple[UOp, Condition]]]


def guarded(
    roots: Sequence[UOp],
    seen: Collection[UOp] = (),
    near: PatternMatcher = small_arguments,
    paths: Paths = fast_paths,
) -> tuple[list[UOp], list[UOp]]:
    """As `lower`, but with fast paths alone where functions have one, and the conditions that forbid it.

    Where no condition is true, the bits are those of `lower`; a kernel keeps the conditions while it runs and
    repeats with `lower` if one was ever true. There is one condition for each argument, and none for functions in
    `seen`: what becomes of them is seen.
    """
    plain, rare = usual(roots)
    roots = [*plain, *rare]
    found = paths(roots, seen)
    new = graph_rewrite([*roots, *(a for a, _ in found)], near)
    conditions = [forbids(a) for a, forbids in dict.fromkeys(zip(new[len(roots) :], (f for _, f in found)))]
    return new[: len(plain)], list(dict.fromkeys([*conditions, *new[len(plain) : len(roots)]]))
