"""Are pairs of float64 what they should be?  Arithmetic, functions and sums against mpmath, and what no rule may touch."""

from __future__ import annotations

import math
import random
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from tinyphysics.errors import PlanError
from tinyphysics.ir import UOp, f64, graph_rewrite, i64
from tinyphysics.ir.ops import HARMONIC, ELEMENTWISE, Ops
from tinyphysics.ir.angle_reduction import within
from tinyphysics.ir.value import evaluate
from tinyphysics.rules.digits import double_double_functions as wide_functions
from tinyphysics.rules.identities.exact import exact, unrounded
from tinyphysics.rules.identities.real import simplify
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.digits.double_double import Pair, two_sum, words
from tinyphysics.rules.functions.widen import ARITHMETIC, COMPARISONS, widen

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tools")]
import wide_ulp  # noqa: E402, I001
from test_transcendental import SPECIAL  # noqa: E402

X, Y = UOp.var("x"), UOp.var("y")


def pair_of(u, shape=()):
    """u(x, y) in pairs, as a function of their words."""
    known = {v: Pair(v, UOp.var(f"{v.arg}.low", v.shape)) for v in u.leaves}
    (p,) = widen([u], known)
    roots = [p] if isinstance(p, UOp) else [p.high, p.rest]
    return lambda **env: evaluate(
        graph_rewrite(roots, exact), {k.replace("_", "."): v for k, v in env.items()}
    )


# --- functions ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", wide_functions.BOUNDS)
def test_the_error_is_within_the_stated_bound(name):
    error, at = wide_ulp.worst(name, 40 if name in ("erf", *wide_ulp.PERIODIC) else 120)
    assert error <= wide_functions.BOUNDS[name], f"{error} units at {at}"


def test_a_coefficient_without_its_second_word_is_seen(monkeypatch):
    short = [Fraction(float(c)) for c in wide_functions.EXP]
    monkeypatch.setattr(wide_functions, "EXP", short)
    wide_ulp.compiled.cache_clear()
    assert wide_ulp.worst("exp", 60)[0] > 10 * wide_functions.BOUNDS["exp"]
    wide_ulp.compiled.cache_clear()


@pytest.mark.parametrize("name, x, want", SPECIAL, ids=str)
def test_special_values_are_those_of_float64(name, x, want):
    given = [v for w in x for v in (w, 0.0)]
    high, low = wide_ulp.compiled(name)(*given, *[0.0] * (4 - len(given)))
    if math.isfinite(want) and want:
        assert abs(high - want) <= math.ulp(want) and abs(low) <= math.ulp(high)
    else:
        assert (
            high == want
            and math.copysign(1.0, high) == math.copysign(1.0, want)
            or high != high
            and want != want
        )
        assert low == 0.0 or high != high


def test_every_function_of_the_front_end_has_one_for_pairs():
    on_numbers = ELEMENTWISE - {
        Ops.CUSTOM,
        Ops.RANDOM,
        Ops.KEPLER_SLOW,
        Ops.WHERE_RARELY,
        Ops.CAST,
        Ops.BITCAST,
        Ops.WHERE,
        Ops.ANGLE,
        Ops.ANGLE_LOW,
        Ops.AND,
        Ops.OR,
        Ops.XOR,
        Ops.NOT,
        Ops.SHL,
        Ops.SHR,
        Ops.MULHI,
        *HARMONIC,
    }
    assert set(ARITHMETIC) | set(COMPARISONS) == on_numbers


def test_a_large_angle_keeps_both_words():
    assert within(0.5, 1e-20) == (0.5, 1e-20) and within(2.0**29, 1.0) == (2.0**29, 1.0)
    high, low = within(2.0**400, 3.0)
    assert abs(high) <= math.pi and 0 < abs(low) <= math.ulp(high)
    near, far = (math.fsum(within(h, low)) for h, low in ((2.0**30, 0.25), (2.0**30, 0.5)))
    assert (far - near) % (2 * math.pi) == pytest.approx(0.25, abs=1e-14)


# --- numbers -----------------------------------------------------------------------------------------
CLOSE = [1.0, 1.0 + 2.0**-52, -1.0, 0.0, 0.5, 1.5, 2.5, -2.5, 3.0, 2.0**53, -7.0]
LOWS = [0.0, 2.0**-60, -(2.0**-60)]


@pytest.mark.parametrize("how", ["lt", "le", "eq", "ne"])
def test_comparisons_look_at_both_words(how):
    compare = {"lt": X < Y, "le": X <= Y, "eq": X.eq(Y), "ne": X.ne(Y)}[how]
    means = {
        "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b,
        "eq": lambda a, b: a == b,
        "ne": lambda a, b: a != b,
    }[how]
    f = pair_of(compare)
    for a in CLOSE[:4]:
        for b in CLOSE[:4]:
            for c in LOWS:
                for d in LOWS:
                    want = means(Fraction(a) + Fraction(c), Fraction(b) + Fraction(d))
                    assert f(x=a, x_low=c, y=b, y_low=d) == [want]


def test_a_nan_is_less_than_nothing_and_wins_a_minimum():
    assert pair_of(X < Y)(x=math.nan, x_low=0.0, y=1.0, y_low=0.0) == [False]
    assert pair_of(X.ne(Y))(x=math.nan, x_low=0.0, y=1.0, y_low=0.0) == [True]
    for u in (X.minimum(Y), X.maximum(Y)):
        for x, y in ((math.nan, 1.0), (1.0, math.nan)):
            assert math.isnan(pair_of(u)(x=x, x_low=0.0, y=y, y_low=0.0)[0])


def rounded(x):
    below = math.floor(x)
    rest = x - below
    return below + (rest > Fraction(1, 2) or rest == Fraction(1, 2) and below % 2)


@pytest.mark.parametrize(
    "u, means",
    [
        (X.floor(), math.floor),
        (X.rint(), rounded),
        (abs(X), abs),
        (X.cast(i64), math.trunc),
        (X.sign(), lambda x: (x > 0) - (x < 0)),
        (X.minimum(1.0), lambda x: min(x, 1)),
        (X.maximum(1.0), lambda x: max(x, 1)),
    ],
    ids=["floor", "rint", "abs", "cast", "sign", "min", "max"],
)
def test_whole_numbers_and_signs_see_the_second_word(u, means):
    f = pair_of(u)
    for high in CLOSE:
        for low in LOWS:
            if high + low == high:
                assert sum(map(Fraction, f(x=high, x_low=low))) == means(Fraction(high) + Fraction(low)), (
                    high,
                    low,
                )


def test_a_fraction_has_two_words():
    high, low = words(Fraction(1, 3))
    assert high == 1 / 3 and abs(Fraction(high) + Fraction(low) - Fraction(1, 3)) < Fraction(1, 2**108)


# --- sums --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [1, 7, 32, 33, 200, 3000])
def test_a_sum_is_right_to_the_last_bits_of_its_magnitudes(n):
    """Small and large, of both signs, most of which cancel."""
    draw = random.Random(n)
    high = [draw.gauss(0, 1) * 10.0 ** draw.randint(-18, 18) for _ in range(n)]
    high[n // 2 : n // 2 * 2] = [-x * (1 + 2.0**-40) for x in high[: n // 2]]
    low = [x * draw.uniform(-1, 1) * 2.0**-54 for x in high]
    x = UOp.var("x", (n,))
    got = sum(map(Fraction, pair_of(x.sum())(x=high, x_low=low)))
    size = sum(abs(Fraction(v)) for v in high)
    assert abs(got - sum(map(Fraction, high + low))) <= size * Fraction(n if n <= 32 else 1, 2**105)


@pytest.mark.parametrize("n", [5, 40])
def test_sums_over_pairs_take_each_pair_once(n):
    draw = random.Random(n)
    x = UOp.var("x", (n, n))
    high = [draw.gauss(0, 1) if i != j else math.nan for i in range(n) for j in range(n)]
    low = [h * 2.0**-55 for h in high]
    for axis in (0, 1):
        u = UOp(Ops.REDUCE, f64, (n,), (x,), ("pairs", (axis,), (0, 1)))
        got = pair_of(u)(x=high, x_low=low)
        for k in range(n):
            pairs = [(k, j) for j in range(k + 1, n)] if axis else [(i, k) for i in range(k)]
            want = sum((Fraction(high[i * n + j]) + Fraction(low[i * n + j]) for i, j in pairs), Fraction(0))
            assert abs(Fraction(got[0][k]) + Fraction(got[1][k]) - want) < Fraction(n, 2**100)


def test_the_largest_of_pairs_is_decided_by_the_second_words():
    x = UOp.var("x", (40,))
    high, low = [1.0] * 40, [0.0] * 40
    low[17], low[23] = 2.0**-60, -(2.0**-60)
    assert pair_of(x.max())(x=high, x_low=low) == [1.0, 2.0**-60]
    assert pair_of(x.min())(x=high, x_low=low) == [1.0, -(2.0**-60)]


# --- what no rule may touch ----------------------------------------------------------------------------
def test_rules_that_hold_for_every_float_leave_the_error_of_a_sum_alone():
    """(a - (s - t)) + (b - t) is 0 in real numbers: those rules would remove it, and run before, never after."""
    error = two_sum(X, Y).rest
    assert graph_rewrite([error], exact)[0] is error
    (gone,) = simplify([error])
    env = {"x": 1.0, "y": 2.0**-60}
    assert evaluate([error], env) == [2.0**-60] != evaluate([gone], env)


def test_constants_are_not_rounded_where_the_program_has_more_digits():
    u = X**3 / 3.0 + 0.1 * (0.2 * X)
    (plain,) = simplify(gradient(u, [X]))
    with unrounded():
        (exact_one,) = simplify(gradient(u, [X]))
    known = {X: Pair(X, UOp.var("x.low"))}
    (p,) = widen([exact_one], known)
    want = Fraction(0.3) ** 2 + Fraction(0.1) * Fraction(0.2)
    got = sum(map(Fraction, evaluate(graph_rewrite([p.high, p.rest], exact), {"x": 0.3, "x.low": 0.0})))
    assert abs(got - want) < Fraction(1, 2**105)
    assert abs(Fraction(evaluate([plain], {"x": 0.3})[0]) - want) > Fraction(1, 2**70)


def test_a_third_and_a_power_of_a_tenth_stay_what_they_are():
    with unrounded():
        for u, at, want in (
            (X.cbrt(), 8.0, Fraction(1, 12)),
            (X**0.1, 1.0, Fraction(0.1)),
            (X.erf(), 0.0, None),
        ):
            (d,) = simplify(gradient(u, [X]))
            (p,) = widen([d], {X: Pair(X, UOp.var("x.low"))})
            roots = graph_rewrite([p.high, p.rest], exact)
            got = sum(map(Fraction, evaluate(roots, {"x": at, "x.low": 0.0})))
            if want is None:  # 2/sqrt(pi): its square is 4/pi
                assert abs(got * got * wide_functions.PI - 4) < Fraction(1, 2**100)
            else:
                assert abs(got - want) < Fraction(1, 2**100) * want


def test_what_has_no_pair_is_refused():
    with pytest.raises(PlanError, match="`bitcast` is not defined for pairs"):
        widen([X.bitcast(i64)], {X: Pair(X, Y)})
