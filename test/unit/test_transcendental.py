"""Are the elementary functions within their stated bounds, right at the edges, and free of context?"""

from __future__ import annotations

import math
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tinyphysics.ir import DType, Ops, UOp, f32, f64, i32, toposort
from tinyphysics.ir.ops import MINIMAL
from tinyphysics.ir.value import evaluate as define
from tinyphysics.rules.digits import coefficients
from tinyphysics.rules.functions import trig
from tinyphysics.rules.digits.floats import format_of
from tinyphysics.rules.functions.transcendental import BOUNDS, guarded, lower

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tools")]
import arrays  # noqa: E402, I001
import ulp  # noqa: E402

FLOATS = pytest.mark.parametrize("dtype", [f64, f32], ids=str)
INF, NAN, PI = math.inf, math.nan, math.pi
POWERS = [f"pow:{n}" for n in (-12, -3, -2, -1.5, -0.5, 0.5, 1.5, 2.5, 4, 7)]


def at(root: UOp, *points: object) -> np.ndarray:
    """The values of a lowered function of x and y."""
    real = ulp.TYPES[root.dtype]
    return arrays.evaluate([root], {n: np.asarray(p, real) for n, p in zip("xy", points)})[0]


def lowered(name: str, dtype: DType) -> UOp:
    return lower([ulp.graph(name, dtype)])[0]


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Equal bits, any NaN being equal to any other."""
    return (np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b)))


# --- accuracy --------------------------------------------------------------------------------------
@FLOATS
@pytest.mark.parametrize("name", [*BOUNDS, *POWERS])
def test_the_error_is_within_the_stated_bound(name, dtype):
    points = ulp.points(name, dtype, 1500 if name in ulp.TWO_ARGUMENTS else 2500)
    error, i = ulp.worst_ulp(name, dtype, points, at(lowered(name, dtype), *points))
    bound = BOUNDS[name.partition(":")[0]][dtype is f32]
    assert error <= bound, f"{error} ulp at {[float(p[i]).hex() for p in points]}"


@FLOATS
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_a_sine_is_never_above_one(name, dtype):
    near_zero = 2.0 ** -np.linspace(5, 40, 4000)
    turns = (np.arange(0, 400) + (0.5 if name == "sin" else 0.0)) * PI
    y = at(lowered(name, dtype), np.concatenate([near_zero if name == "cos" else [], turns]))
    assert np.max(np.abs(y)) == 1.0


@FLOATS
def test_cosines_of_small_angles_have_no_bias(dtype, monkeypatch):
    """A body that turns by them would gain or lose angular momentum in proportion to time."""
    monkeypatch.setattr(ulp, "run", lambda root, points: at(root, *points))
    mean, _ = ulp.bias("cos", dtype, 1e-3, 0.1, 3000)
    assert abs(mean) < 0.08


def test_the_third_word_of_pi_is_needed(monkeypatch):
    points = [ulp.beside(ulp.right_angles(200, f64), f64)]
    points = [p[np.abs(p) < 2.0**30] for p in points]
    a, b, _ = coefficients.F64["pi"]
    monkeypatch.setitem(coefficients.F64, "pi", (a, b, 0.0))
    assert ulp.worst_ulp("sin", f64, points, at(lowered("sin", f64), *points))[0] > 100


def test_a_wrong_coefficient_is_seen(monkeypatch):
    first, *rest = coefficients.F64["exp"]
    monkeypatch.setitem(coefficients.F64, "exp", (first * (1 + 2.0**-46), *rest))
    points = ulp.points("exp", f64, 1000)
    assert ulp.worst_ulp("exp", f64, points, at(lowered("exp", f64), *points))[0] > BOUNDS["exp"][0]


# --- special values --------------------------------------------------------------------------------
# fmt: off
SPECIAL: list[tuple[str, tuple[float, ...], float]] = [
    ("sin",   (-0.0,), -0.0), ("sin",   (0.0,), 0.0),   ("sin",   (INF,), NAN),  ("sin",   (NAN,), NAN),
    ("cos",   (0.0,), 1.0),   ("cos",   (-0.0,), 1.0),  ("cos",   (-INF,), NAN), ("cos",   (NAN,), NAN),
    ("tan",   (-0.0,), -0.0), ("tan",   (0.0,), 0.0),   ("tan",   (INF,), NAN),  ("tan",   (NAN,), NAN),
    ("asin",  (-0.0,), -0.0), ("asin",  (1.0,), PI/2),  ("asin",  (1.5,), NAN),  ("asin",  (-1.0,), -PI/2),
    ("acos",  (1.0,), 0.0),   ("acos",  (-1.0,), PI),   ("acos",  (0.0,), PI/2), ("acos",  (-1.5,), NAN),
    ("atan",  (-0.0,), -0.0), ("atan",  (INF,), PI/2),  ("atan",  (-INF,), -PI/2), ("atan", (NAN,), NAN),
    ("exp",   (-0.0,), 1.0),  ("exp",   (INF,), INF),   ("exp",   (-INF,), 0.0), ("exp",   (NAN,), NAN),
    ("exp",   (1e4,), INF),   ("exp",   (-1e4,), 0.0),  ("exp",   (1e38,), INF), ("exp",   (-1e38,), 0.0),
    ("expm1", (-0.0,), -0.0), ("expm1", (INF,), INF),   ("expm1", (-INF,), -1.0), ("expm1", (-1e4,), -1.0),
    ("log",   (1.0,), 0.0),   ("log",   (0.0,), -INF),  ("log",   (-0.0,), -INF), ("log",  (-1.0,), NAN),
    ("log",   (INF,), INF),   ("log",   (-INF,), NAN),  ("log",   (NAN,), NAN),
    ("log1p", (-0.0,), -0.0), ("log1p", (-1.0,), -INF), ("log1p", (-2.0,), NAN), ("log1p", (INF,), INF),
    ("sinh",  (-0.0,), -0.0), ("sinh",  (-INF,), -INF), ("sinh",  (1e4,), INF),  ("sinh",  (NAN,), NAN),
    ("cosh",  (-0.0,), 1.0),  ("cosh",  (-INF,), INF),  ("cosh",  (1e4,), INF),  ("cosh",  (NAN,), NAN),
    ("tanh",  (-0.0,), -0.0), ("tanh",  (-INF,), -1.0), ("tanh",  (1e30,), 1.0), ("tanh",  (NAN,), NAN),
    ("erf",   (-0.0,), -0.0), ("erf",   (-INF,), -1.0), ("erf",   (1e30,), 1.0), ("erf",   (NAN,), NAN),
    ("rsqrt", (0.0,), INF),   ("rsqrt", (-0.0,), -INF), ("rsqrt", (INF,), 0.0),  ("rsqrt", (-1.0,), NAN),
    ("cbrt",  (-0.0,), -0.0), ("cbrt",  (-INF,), -INF), ("cbrt",  (-27.0,), -3.0), ("cbrt", (NAN,), NAN),
    ("hypot", (INF, NAN), INF),    ("hypot", (NAN, -INF), INF),   ("hypot", (NAN, 0.0), NAN),
    ("hypot", (3.0, -4.0), 5.0),   ("hypot", (-0.0, -0.0), 0.0),  ("hypot", (3e38, 0.0), 3e38),
    ("atan2", (0.0, -0.0), PI),    ("atan2", (-0.0, -0.0), -PI),  ("atan2", (-0.0, 0.0), -0.0),
    ("atan2", (0.0, -1.0), PI),    ("atan2", (-0.0, 1.0), -0.0),  ("atan2", (1.0, 0.0), PI/2),
    ("atan2", (-1.0, -0.0), -PI/2), ("atan2", (INF, INF), PI/4),  ("atan2", (-INF, -INF), -3*PI/4),
    ("atan2", (1.0, -INF), PI),    ("atan2", (1.0, INF), 0.0),    ("atan2", (INF, 1.0), PI/2),
    ("pow",   (NAN, 0.0), 1.0),    ("pow",   (1.0, NAN), 1.0),    ("pow",   (-1.0, INF), 1.0),
    ("pow",   (-1.0, -INF), 1.0),  ("pow",   (-8.0, 1/3), NAN),   ("pow",   (-2.0, 3.0), -8.0),
    ("pow",   (-2.0, 2.0), 4.0),   ("pow",   (0.0, -3.0), INF),   ("pow",   (-0.0, -3.0), -INF),
    ("pow",   (-0.0, -2.0), INF),  ("pow",   (-0.0, 3.0), -0.0),  ("pow",   (-0.0, 0.5), 0.0),
    ("pow",   (0.5, -INF), INF),   ("pow",   (2.0, -INF), 0.0),   ("pow",   (0.5, INF), 0.0),
    ("pow",   (-INF, -3.0), -0.0), ("pow",   (-INF, 3.0), -INF),  ("pow",   (-INF, 2.5), INF),
    ("pow",   (INF, -1e-3), 0.0),  ("pow",   (2.0, 1e30), INF),   ("pow",   (-2.0, 1e30), INF),
    ("pow",   (-2.0, 16777217.0), -INF), ("pow", (NAN, 1.0), NAN), ("pow",  (-1.0, NAN), NAN),
]
# fmt: on


@FLOATS
@pytest.mark.parametrize("name, x, want", SPECIAL, ids=lambda v: str(v))
def test_special_values(name, x, want, dtype):
    if dtype is f32 and x[-1] == 16777217.0:
        pytest.skip("not a float32")
    want = np.asarray([want], ulp.TYPES[dtype])
    got = at(lowered(name, dtype), *([v] for v in x))
    ordinary = np.isfinite(want) & (want != 0)  # pi/2 and the like may be one float off
    with np.errstate(invalid="ignore"):
        near = np.where(ordinary, np.abs(got - want) <= np.spacing(np.abs(want)), same(got, want))
    assert near.all(), f"{got} is not {want}"


POSITIVE = [2.0**-149, 2.0**-126, 1e-3, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 10.0, 2.0**25, 2.0**127, 3.4028234e38]
EDGES = [NAN, *(sign * x for sign in (1, -1) for x in (0.0, *POSITIVE, INF))]


@FLOATS
@pytest.mark.parametrize("name", [*BOUNDS, "pow:0", "pow:1", *POWERS])
def test_zeros_infinities_and_nans_are_those_of_the_definition(name, dtype):
    root = ulp.graph(name, dtype)
    grid = list(product(EDGES, EDGES)) if name in ulp.TWO_ARGUMENTS else [(x,) for x in EDGES]
    points = [np.array(column, ulp.TYPES[dtype]) for column in zip(*grid)]
    got = at(lower([root])[0], *points)
    for i, x in enumerate(zip(*(p.tolist() for p in points))):
        want = define([root], dict(zip("xy", x)))[0]
        assert math.isnan(want) == math.isnan(got[i]), (x, want, got[i])
        if not math.isnan(want):
            # a result beside the largest or the smallest float may round either way
            assert math.isinf(want) == math.isinf(got[i]) or abs(got[i]) > 3e38, (x, want, got[i])
            assert (want == 0) == (got[i] == 0) or abs(got[i]) < 2.0**-125, (x, want, got[i])
            assert math.copysign(1, want) == math.copysign(1, got[i]), (x, want, got[i])


# --- comparisons and rounding ----------------------------------------------------------------------
@FLOATS
def test_abs_sign_floor_min_and_max_are_those_of_the_definition(dtype):
    x, y = UOp.var("x", dtype=dtype), UOp.var("y", dtype=dtype)
    values = [*EDGES, 0.3, -0.3, 2.5, -2.5, 2.0**22 + 0.5, -(2.0**22) - 0.5]
    for root in (abs(x), x.sign(), x.floor(), x.minimum(y), x.maximum(y)):
        columns = [np.array(c, ulp.TYPES[dtype]) for c in zip(*product(values, values))]
        want = [define([root], dict(zip("xy", p)))[0] for p in zip(*(c.tolist() for c in columns))]
        got = at(lower([root])[0], *columns)
        assert same(got, np.array(want, got.dtype)).all(), root


def test_abs_sign_min_and_max_of_integers():
    x, y = UOp.var("x", dtype=i32), UOp.var("y", dtype=i32)
    for root in (abs(x), x.sign(), x.minimum(y), x.maximum(y)):
        for a, b in product((-3, 0, 5), repeat=2):
            assert define(lower([root]), {"x": a, "y": b}) == define([root], {"x": a, "y": b})


# --- the graph -------------------------------------------------------------------------------------
NAMES = [*BOUNDS, *POWERS, "sign", "floor", "__abs__"]


@FLOATS
@pytest.mark.parametrize("name", NAMES)
def test_only_the_minimal_operators_are_left(name, dtype):
    nodes = toposort([lowered(name, dtype)])
    assert {u.op for u in nodes} <= MINIMAL
    if dtype is f32:
        assert {u.dtype.name for u in nodes} <= {"f32", "i32", "u32", "bool"}


def test_no_float_becomes_an_integer_by_value():
    for name, dtype in product(NAMES, (f64, f32)):
        for u in toposort([lowered(name, dtype)]):
            assert u.op is not Ops.CAST or not u.src[0].dtype.is_float or u.dtype.is_float


def test_a_function_does_not_depend_on_its_company():
    x, y = UOp.var("x"), UOp.var("y")
    roots = [x.sin(), x.cos(), x.tan(), x.exp(), x.expm1(), x.log(), x**y, x.sinh(), x.cosh(), x.sin() * y]
    assert all(a is lower([r])[0] for a, r in zip(lower(roots), roots))
    assert all(a is guarded([r])[0][0] for a, r in zip(guarded(roots)[0], roots))


def test_the_argument_of_a_function_is_lowered_too():
    x = UOp.var("x")
    assert lower([x.exp().sin()])[0] is lower([lower([x.exp()])[0].sin()])[0]


def test_an_array_is_lowered_element_by_element():
    q = UOp.var("q", (2, 3))
    root = lower([(q.sin() + 2.0) ** 0.3])[0]
    values = [0.1, -2.0, 1e9, -0.0, 3e200, 7.0]
    assert root.shape == lower([q**0.0])[0].shape == (2, 3)
    one = lower([(UOp.var("q").sin() + 2.0) ** 0.3])
    assert define([root], {"q": values})[0] == [define(one, {"q": v})[0] for v in values]


@FLOATS
@pytest.mark.parametrize("name", [*BOUNDS, *POWERS])
def test_the_array_evaluator_agrees_with_the_definition_of_each_operation(name, dtype):
    root = lowered(name, dtype)
    points = [p[::97][:12] for p in ulp.points(name, dtype, 600)]
    want = [define([root], dict(zip("xy", p)))[0] for p in zip(*(c.tolist() for c in points))]
    assert same(at(root, *points), np.array(want, points[0].dtype)).all()


# --- the guard -------------------------------------------------------------------------------------
@FLOATS
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_the_fast_path_has_the_same_bits_where_its_condition_allows_it(name, dtype):
    root = ulp.graph(name, dtype)
    points = ulp.points(name, dtype, 2000)[0]
    edge = trig.limit(format_of(root))
    extra = np.array([edge, -edge, np.nextafter(edge, 0), INF, NAN, -0.0], points.dtype)
    points = np.concatenate([points, extra])
    (fast,), (condition,) = guarded([root])
    (forbidden,) = arrays.evaluate([condition], {"x": points})
    assert same(at(fast, points), at(lower([root])[0], points))[~forbidden].all()
    assert (forbidden == (np.abs(points) > edge)).all()
    assert 0.05 < forbidden.mean() < 0.95


def test_there_is_one_condition_for_each_argument():
    x, y = UOp.var("x"), UOp.var("y", (4,))
    roots, conditions = guarded([x.sin() * x.cos(), x.tan() + y.sin(), (x * 1.0).exp()])
    assert [c.shape for c in conditions] == [(), (4,)]
    assert all(c.dtype.name == "bool" for c in conditions)
    assert len(roots) == 3
    assert guarded([x.exp()])[1] == []


# --- x**-1.5 by float32 ------------------------------------------------------------------------------
EDGES = np.array(
    [
        0.0,
        -0.0,
        5e-324,
        1e-300,
        2.0**-150,
        2.0**-140,
        2.0**-128,
        2.0**-127,
        2.0**-126,
        1.0,
        2.0**126,
        2.0**127,
        np.nextafter(2.0**128, 0),
        2.0**128,
        1e300,
        INF,
        -INF,
        NAN,
        -1.0,
        -1e-40,
        -1e300,
    ]
)


def test_the_fast_inverse_cube_is_right_or_not_finite():
    x = UOp.var("x")
    (near,), (guard,) = guarded([x**-1.5])
    points = np.concatenate([EDGES, 2.0 ** np.random.default_rng(0).uniform(-160, 160, 20_000)])
    fast, any_x, forbidden = arrays.evaluate([near, *lower([x**-1.5]), guard], {"x": points})
    assert np.array_equal(forbidden, ~np.isfinite(fast))
    assert np.all(same(fast, any_x)[~forbidden])
    assert not forbidden[(2.0**-126 <= points) & (points <= 2.0**127)].any()
    assert forbidden[(points <= 2.0**-129) | ~(points < 2.0**128)].all()


def test_the_fast_inverse_cube_is_within_one_ulp():
    x = UOp.var("x")
    points = [
        2.0 ** np.random.default_rng(1).uniform(-126, 127, 4_000),
        np.random.default_rng(2).uniform(1, 4, 4_000),
    ]
    points = [np.concatenate(points)]
    assert ulp.worst_ulp("pow:-1.5", f64, points, at(guarded([x**-1.5])[0][0], *points))[0] < 1.0
