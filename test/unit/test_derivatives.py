"""Are derivatives right?  Each rule against central differences in 50 digits, vjp against jvp, branches against NaN."""

from __future__ import annotations

import math
import random
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import tinyphysics as tp
from tinyphysics.errors import InputError, TraceError
from tinyphysics.ir import Ops, UOp, as_uop, evaluate, f32, f64, i64, toposort
from tinyphysics.ir.ops import ELEMENTWISE
from tinyphysics.ir.spec import SHAPED, check
from tinyphysics.ir.value import CUSTOM, concat_index, source_index
from tinyphysics.rules.calculus.custom import op as register
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.partials import PARTIALS
from tinyphysics.rules.identities.real import simplify
from tinyphysics.rules.calculus.vjp import gradient, vjp
from tinyphysics.synth.methods.derivative import derivative

mp.dps = 50
x, y, z = (UOp.var(name) for name in "xyz")
v, m = UOp.var("v", (3,)), UOp.var("m", (2, 3))

# fmt: off
EXACT = {
    Ops.NEG: lambda a: -a, Ops.ABS: abs, Ops.SIGN: mpmath.sign, Ops.FLOOR: mpmath.floor, Ops.RINT: mpmath.nint,
    Ops.IMAGE: lambda a, b, s: a - b - s,
    Ops.SQRT: mpmath.sqrt,
    Ops.RSQRT: lambda a: 1 / mpmath.sqrt(a), Ops.CBRT: lambda a: mpmath.sign(a) * mpmath.cbrt(abs(a)),
    Ops.SIN: mpmath.sin, Ops.COS: mpmath.cos, Ops.TAN: mpmath.tan, Ops.ASIN: mpmath.asin, Ops.ACOS: mpmath.acos,
    Ops.ATAN: mpmath.atan, Ops.SINH: mpmath.sinh, Ops.COSH: mpmath.cosh, Ops.TANH: mpmath.tanh, Ops.EXP: mpmath.exp,
    Ops.EXPM1: mpmath.expm1, Ops.LOG: mpmath.log, Ops.LOG1P: mpmath.log1p, Ops.ERF: mpmath.erf,
    Ops.ADD: lambda a, b: a + b, Ops.SUB: lambda a, b: a - b, Ops.MUL: lambda a, b: a * b, Ops.DIV: lambda a, b: a / b,
    Ops.POW: lambda a, b: mpmath.power(a, b), Ops.ATAN2: mpmath.atan2, Ops.HYPOT: mpmath.hypot, Ops.MIN: min, Ops.MAX: max,
    Ops.ANGLE: lambda a, b: a, Ops.ANGLE_LOW: lambda a, b: b,
    Ops.FMA: lambda a, b, c: a * b + c, Ops.WHERE: lambda c, a, b: a if c else b, Ops.LT: lambda a, b: a < b,
    Ops.LE: lambda a, b: a <= b, Ops.EQ: lambda a, b: a == b, Ops.NE: lambda a, b: a != b, Ops.NOT: lambda a: not a,
}
FOLD = {"sum": lambda xs: mpmath.fsum(xs), "max": max, "min": min}
# fmt: on


def groups(u):
    """For each element of a reduction, the indices of the elements that it combines."""
    shape, axes = u.src[0].shape, u.arg[1]
    found = {}
    for i, at in enumerate(product(*map(range, shape))):
        found.setdefault(tuple(k for a, k in enumerate(at) if a not in axes), []).append(i)
    return [found.get(at, []) for at in product(*map(range, u.shape))]


def exactly(roots, env):
    """The graph in 50 digits: flat lists of numbers, by the meaning of each operation."""
    out = {}
    for u in toposort(roots):
        src = [out[s] for s in u.src]
        if u.op is Ops.VAR:
            out[u] = env[u.arg]
        elif u.op is Ops.CONST:
            out[u] = [mpf(u.arg) if u.dtype.is_float else u.arg] * u.size
        elif u.op is Ops.CAST:
            out[u] = [mpf(a) for a in src[0]] if u.dtype.is_float else [bool(a) for a in src[0]]
        elif u.op is Ops.CUSTOM:
            names = [UOp.var(f"x{i}", s.shape) for i, s in enumerate(u.src)]
            (out[u],) = exactly([CUSTOM[u.arg](*names)], {f"x{i}": s for i, s in enumerate(src)})
        elif u.op in ELEMENTWISE:
            out[u] = [EXACT[u.op](*each) for each in zip(*src)]
        elif u.op is Ops.STACK:
            out[u] = [s[0] for s in src]
        elif u.op is Ops.CONCAT:
            out[u] = [src[k][i] for k, i in concat_index(u)]
        elif u.op is Ops.REDUCE:
            out[u] = [FOLD[u.arg[0]]([src[0][i] for i in group]) for group in groups(u)]
        else:
            out[u] = [mpf(0) if i is None else src[0][i] for i in source_index(u)]
    return [out[r] for r in roots]


def close(a, b, tolerance=1e-14):
    return abs(a - b) <= tolerance * (1 + abs(a) + abs(b))


def slope(u, name, env, k=0, h=mpf(10) ** -15):
    """d u / d env[name][k], by central differences: the error is of order 1e-30."""

    def at(step):
        moved = list(env[name])
        moved[k] += step
        return exactly([u], {**env, name: moved})[0][0]

    return (at(h) - at(-h)) / (2 * h)


# --- one rule per operation ------------------------------------------------------------------------
INSIDE = [(0.3, 0.7, -0.4), (0.9, 0.2, 1.3), (-0.35, -0.6, 0.8)]
POSITIVE = [(0.3, 0.7, 0.4), (2.5, 1.2, 1.3), (11.0, 0.05, 3.0)]
# test_oscillator_slopes.py has those
OF_OSCILLATORS = {Ops.HARMONIC_KICK, Ops.HARMONIC_DRIFT, Ops.HARMONIC_LAG, Ops.HARMONIC_SIGN}
POINTS = {op: POSITIVE for op in (Ops.SQRT, Ops.RSQRT, Ops.LOG, Ops.POW)}


@pytest.mark.requirement("S3-12", "S3-17")
@pytest.mark.parametrize(
    "op",
    sorted(set(PARTIALS) - {Ops.CAST, Ops.WHERE} - OF_OSCILLATORS, key=lambda o: o.value),
    ids=lambda o: o.value,
)
def test_each_derivative_is_the_central_difference(op):
    names = [x, y, z][: {Ops.FMA: 3, Ops.IMAGE: 3}.get(op, 2 if op.value in TWO else 1)]
    u = names[0].alu(op, *names[1:])
    first = gradient(u, names)
    second = [gradient(g, names) for g in first]
    directions = [UOp.var(f"d{n.arg}") for n in names]
    (forward,) = jvp([u], names, directions)
    check([*first, *(h for row in second for h in row), forward], SHAPED)
    for point in POINTS.get(op, INSIDE):
        env = {n.arg: [mpf(a)] for n, a in zip(names, point)}
        for i, n in enumerate(names):
            want = slope(u, n.arg, env)
            for g in (first[i], simplify([first[i]])[0]):
                assert close(exactly([g], env)[0][0], want), f"d {u} / d {n} = {g}"
            unit = {d.arg: [mpf(d is directions[i])] for d in directions}
            assert close(exactly([forward], {**env, **unit})[0][0], want)
            for j, other in enumerate(names):
                got = exactly(simplify([second[i][j]]), env)[0][0]
                assert close(got, slope(first[i], other.arg, env)), f"d2 {u} / d {n} d {other}"


TWO = {"add", "sub", "mul", "div", "pow", "atan2", "hypot", "min", "max", "turn", "turn_low"}


@pytest.mark.parametrize("n", [-3.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 7.0])
def test_a_power_by_a_number_is_differentiated_also_at_zero_and_below(n):
    u = x**n
    (g,) = gradient(u, [x])
    for at in (2.5, 0.3, *((-0.7,) if n % 1 == 0 else ())):
        env = {"x": [mpf(at)]}
        for form in (g, simplify([g])[0]):
            assert close(exactly([form], env)[0][0], slope(u, "x", env))
    if n in (0.0, 1.0, 2.0, 3.0):
        for form in (g, simplify([g])[0]):
            assert evaluate([form], {"x": 0.0}) == [1.0 if n == 1.0 else 0.0]


def test_higher_derivatives_of_a_power_end_in_zero_and_not_in_nothing_times_infinity():
    u = x**2.0 + (x - x) ** 1.0 + x**1.0
    for want in (1.0, 2.0, 0.0, 0.0):
        (u,) = gradient(u, [x])
        assert evaluate([u, *simplify([u])], {"x": 0.0}) == [want, want]


def test_conversion_between_floats_is_differentiated_and_through_integers_is_not():
    (wide,) = gradient(x.cast(f32).cast(f64) * 3.0, [x])
    assert evaluate([wide], {"x": 0.5}) == [3.0]
    (whole,) = gradient(x.cast(i64).cast(f64) * 3.0, [x])
    assert evaluate([whole], {"x": 2.5}) == [0.0]


def test_what_does_not_occur_has_derivative_zero_of_its_shape():
    g, h = gradient(x * 2.0, [v, x])
    assert g is UOp.const(0.0, f64, (3,)) and evaluate([h], {"x": 1.0}) == [2.0]


def test_a_node_used_twice_gets_both_contributions():
    s = x * x
    (g,) = gradient(s * s + s, [x])
    assert evaluate([g], {"x": 1.5}) == [4 * 1.5**3 + 2 * 1.5]


def test_a_state_that_is_also_the_answer():
    assert [evaluate([g], {"x": 5.0})[0] for g in gradient(x, [x])] == [1.0]
    (t,) = jvp([x], [x], [y])
    assert t is y


def test_ties_share_or_go_to_the_first():
    (g,) = gradient(v.max(), [v])
    assert evaluate([g], {"v": [2.0, 1.0, 2.0]}) == [[0.5, 0.0, 0.5]]
    g, h = gradient(x.maximum(y), [x, y])
    assert evaluate([g, h], {"x": 1.0, "y": 1.0}) == [1.0, 0.0]


# --- whole graphs ----------------------------------------------------------------------------------
SIZES = {"x": 1, "y": 1, "v": 3, "m": 6, "n": 6}


@st.composite
def graphs(draw, size=12):
    """A smooth-enough graph over scalars and arrays with every movement, reductions, branches."""
    pool = [x, y, v, m, UOp.var("n", (2, 3)), UOp.const(1.5, f64, (3,))]
    for _ in range(draw(st.integers(2, size))):
        a, b = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        axis = draw(st.integers(0, max(a.ndim - 1, 0)))
        kind = draw(st.sampled_from("+-*/wMmhsSXRrfptckexgE"))
        fits = a.shape == b.shape or not a.ndim or not b.ndim
        if kind in "XRfptckSg" and not a.ndim or kind in "+-*/wMmh" and not fits:
            continue
        match kind:
            case "+":
                new = a + b
            case "-":
                new = a - b
            case "*":
                new = a * b
            case "/":
                new = a / (1.5 + b * b)
            case "w":
                new = (a < b).where(a * b, b.sin())
            case "M":
                new = a.maximum(b)
            case "m":
                new = a.minimum(b)
            case "h":
                new = (1.0 + a).hypot(b)
            case "s":
                new = (1.2 + a * a).sqrt()
            case "S":
                new = a.sum(axis)
            case "X":
                new = a.max(axis)
            case "R":
                new = a.min()
            case "r":
                new = a.tanh()
            case "f":
                new = a.flip((axis,))
            case "p":
                new = a.pad([(1, 2, 1)] + [(0, 1, 0)] * (a.ndim - 1))
            case "t":
                new = a.T
            case "c":
                new = UOp(Ops.CONCAT, f64, (2 * a.shape[0], *a.shape[1:]), (a, a * a), 0)
            case "k":
                new = a[(slice(None),) * axis + (slice(None, None, -2),)]
            case "e":
                new = UOp.stack([a.element(0), b.element(b.size - 1), a.element(a.size // 2)])
            case "x":
                new = a.cos()
            case "g":
                new = a.roll(draw(st.integers(-2, 2)), axis)
            case "E":
                new = a.expand((2, *a.shape)) if a.ndim < 3 else a.reshape(a.size)
        if new.size <= 60:
            pool.append(new)
    return pool[-1]


def numbers(names, r):
    return {n: [mpf(r.uniform(-1.5, 1.5)) for _ in range(SIZES[n])] for n in names}


@settings(max_examples=120, deadline=None)
@given(graphs(), st.integers(0, 10**6))
def test_reverse_and_forward_mode_are_adjoint(u, seed):
    r = random.Random(seed)
    inputs = [x, y, v, m, UOp.var("n", (2, 3))]
    seed_var = UOp.var("seed", u.shape)
    directions = [UOp.var(f"d{i.arg}", i.shape) for i in inputs]
    back = vjp([u], [seed_var], inputs)
    (forth,) = jvp([u], inputs, directions)
    check([*back, forth], SHAPED)
    assert [b.shape for b in back] == [i.shape for i in inputs] and forth.shape == u.shape
    env = numbers(SIZES, r)
    env |= {f"d{n}": [mpf(r.uniform(-1, 1)) for _ in range(k)] for n, k in SIZES.items()}
    env["seed"] = [mpf(r.uniform(-1, 1)) for _ in range(u.size)]
    *cotangents, tangent = exactly([*back, forth], env)
    left = mpmath.fsum(s * t for s, t in zip(env["seed"], tangent))
    right = mpmath.fsum(g * d for i, c in zip(inputs, cotangents) for g, d in zip(c, env[f"d{i.arg}"]))
    assert close(left, right, mpf(10) ** -40)
    short = exactly(simplify([*back, forth]), env)
    for old, new in zip([*cotangents, tangent], short):
        assert all(close(a, b, 1e-13) for a, b in zip(old, new))


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(0, 10**6))
def test_the_gradient_of_a_whole_graph_is_the_central_difference(u, seed):
    r = random.Random(seed)
    scalar = (u * u.tanh()).sum() if u.shape else u
    env = numbers(SIZES, r)
    inputs = [x, y, v, m, UOp.var("n", (2, 3))]
    for i, values in zip(inputs, exactly(gradient(scalar, inputs), env)):
        k = r.randrange(SIZES[i.arg])
        assert close(values[k], slope(scalar, i.arg, env, k), 1e-12)


def test_vjp_of_several_outputs_adds_them():
    (g,) = vjp([x * x, x.sin()], [UOp.const(2.0), UOp.const(-1.0)], [x])
    assert evaluate([g], {"x": 0.7})[0] == pytest.approx(4 * 0.7 - math.cos(0.7), rel=1e-15)


# --- branches --------------------------------------------------------------------------------------
def safe(a):
    return a > 0.0


BRANCHES = {
    "a root": (safe(x).where(x.sqrt(), 0.0), 0.0, 0.0),
    "a root below": (safe(x).where(x.sqrt(), 0.0), -1.0, 0.0),
    "a root taken away": (1.0 - safe(x).where(x.sqrt(), 0.0), 0.0, 0.0),
    "a root the other way round": ((x <= 0.0).where(0.0, x.sqrt()), 0.0, 0.0),
    "minus a root the other way round": (-((x <= 0.0).where(0.0, x.sqrt())), 0.0, 0.0),
    "a logarithm": (safe(x).where(x.log(), 0.0), 0.0, 0.0),
    "a logarithm beside a line": (safe(x).where(x.log(), 3.0 * x), -2.0, 3.0),
    "a quotient": (safe(x).where(1.0 / x, 2.0 * x), 0.0, 2.0),
    "a negative power": (safe(x).where(x**-1.5, x), 0.0, 1.0),
    "x log x": (safe(x).where(x * x.log(), 0.0), 0.0, 0.0),
    "a function of a root": (safe(x).where(x.sqrt().sin().exp(), 0.0), 0.0, 0.0),
    "one root in two branches": (
        safe(x).where(x.sqrt(), 0.0) + safe(x).where(x.sqrt() ** 2.0, 0.0),
        0.0,
        0.0,
    ),
    "one root in three branches": (
        safe(x).where(x.sqrt(), 0.0)
        - (x > 1.0).where(x.sqrt().sin(), 0.0)
        + safe(x).where(x.sqrt() ** 3.0, 0.0),
        0.0,
        0.0,
    ),
    "one root in two branches, over": (
        safe(x).where(1.0 / x, 0.0) - (x > 1.0).where(1.0 / x**2.0, 0.0),
        0.0,
        0.0,
    ),
    "a branch in a branch": (safe(x).where((x > 1.0).where(x.log(), x.sqrt()), x), 0.0, 1.0),
    "a scaled branch": (2.5 * safe(x).where(x.sqrt(), 0.0) / 3.0, 0.0, 0.0),
    "a squared branch": (safe(x).where(x.sqrt(), 0.0) ** 2.0, 0.0, 0.0),
    "an inverse sine": ((abs(x) < 1.0).where(x.asin(), 0.0), 1.0, 0.0),
    "a power by a parameter": (safe(x).where(x**y, 0.0), -2.0, 0.0),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_what_a_branch_does_not_choose_does_not_reach_the_derivative(name):
    u, at, want = BRANCHES[name]
    (back,) = simplify(gradient(u, [x]))
    (forth,) = simplify(jvp([u], [x], [UOp.const(1.0)]))
    env = {"x": at, "y": 2.5}
    assert evaluate([back, forth], env) == [want, want]
    away = {"x": [mpf("0.4")], "y": [mpf("2.5")]}
    assert close(exactly([back], away)[0][0], slope(u, "x", away)) and close(
        exactly([forth], away)[0][0], slope(u, "x", away)
    )


def test_a_branch_on_arrays_keeps_its_zeros():
    u = (v > 0.0).where(v.sqrt(), 0.0).sum() - (v > 0.0).where(1.0 / v, 0.0).sum()
    (g,) = simplify(gradient(u, [v]))
    assert evaluate([g], {"v": [0.0, 4.0, -1.0]}) == [[0.0, 0.25 + 1 / 16, 0.0]]


def test_pairs_with_themselves_left_out():
    """The usual way to write a pair sum: the diagonal is 1/0, and is not chosen."""
    q = UOp.var("v", (3,))
    d = q.reshape(3, 1) - q.reshape(1, 3)
    r = (d * d).sqrt()
    u = d.eq(0.0).where(0.0, 1.0 / r).sum() / 2.0
    (g,) = simplify(gradient(u, [q]))
    assert evaluate([g], {"v": [0.0, 1.0, 3.0]})[0] == pytest.approx(
        [1 + 1 / 9, -1 + 1 / 4, -1 / 4 - 1 / 9], rel=1e-15
    )


# --- operations of the user's own ------------------------------------------------------------------
@pytest.mark.requirement("S0-12")
def test_a_registered_operation_is_differentiated_by_its_rule():
    soft = register("soft_test", lambda a: a.exp().log1p(), lambda a: (1.0 / (1.0 + (-a).exp()),))
    u = soft(x * 2.0) * y
    g, h = gradient(u, [x, y])
    env = {"x": [mpf("0.3")], "y": [mpf("1.7")]}
    assert close(exactly([g], env)[0][0], slope(u, "x", env)) and close(
        exactly([h], env)[0][0], slope(u, "y", env)
    )
    (t,) = jvp([u], [x], [UOp.const(1.0)])
    assert close(exactly([t], env)[0][0], slope(u, "x", env))
    w = soft(v).sum()
    (g,) = gradient(w, [v])
    many = {"v": [mpf("0.1"), mpf(-2), mpf(3)]}
    assert all(close(exactly([g], many)[0][k], slope(w, "v", many, k)) for k in range(3))


@pytest.mark.requirement("S0-12")
def test_an_operation_of_two_arguments_broadcasts_and_may_have_constant_partials():
    weighted = register("weighted_test", lambda a, b: 2.0 * a + b * b, lambda a, b: (2.0, 2.0 * b))
    u = weighted(v, x).sum()
    g, h = gradient(u, [v, x])
    assert evaluate([g, h, u], {"v": [1.0, 2.0, 3.0], "x": 0.5}) == [[2.0, 2.0, 2.0], 3.0, 12.75]


@pytest.mark.requirement("S0-12")
def test_an_operation_without_a_rule_is_named_when_it_is_differentiated():
    bare = register("bare_test", lambda a: a * a)
    assert evaluate([bare(x)], {"x": 3.0}) == [9.0]
    for derive in (lambda: gradient(bare(x), [x]), lambda: jvp([bare(x)], [x], [y])):
        with pytest.raises(TraceError, match="bare_test") as caught:
            derive()
        assert "tp.op('bare_test'" in caught.value.fix
    with pytest.raises(TraceError, match="bare_test"):
        tp.compile(tp.hamiltonian(lambda q, p: p * p / 2 + bare(q)), dt=0.1)


@pytest.mark.requirement("S0-12")
def test_registering_again_replaces_the_rule():
    register("twice_test", lambda a: a * a, lambda a: (2.0 * a,))
    again = register("twice_test", lambda a: a * a)
    with pytest.raises(TraceError, match="twice_test"):
        gradient(again(x), [x])


@pytest.mark.parametrize(
    "rule",
    [lambda a, b: (b,), lambda a, b: b, lambda a, b: (b, a, a), lambda a, b: None, lambda a, b: [b, a]],
    ids=["too few", "no tuple", "too many", "nothing", "a list"],
)
def test_a_rule_with_the_wrong_number_of_partials_is_refused_and_not_cut_short(rule):
    wrong = register("wrong_test", lambda a, b: a * b, rule)
    expression = wrong(v, v + 1.0).sum()
    if rule(1, 2) == [2, 1]:  # any sequence of the right length will do
        assert evaluate(gradient(expression, [v]), {"v": [1.0, 2.0, 3.0]}) == [[3.0, 5.0, 7.0]]
        return
    with pytest.raises(TraceError, match="wrong_test") as caught:
        gradient(expression, [v])
    assert "(" in caught.value.fix


@pytest.mark.parametrize("name", ["sin", "add", "not a name", "2x", ""])
def test_a_name_that_is_taken_or_no_name_is_refused(name):
    with pytest.raises(InputError):
        register(name, lambda a: a)


@pytest.mark.requirement("S0-12")
def test_an_energy_with_an_operation_of_ones_own_runs():
    bump = tp.op("bump_test", lambda a: 1.0 / (1.0 + a * a), lambda a: (-2.0 * a / (1.0 + a * a) ** 2.0,))

    @tp.hamiltonian
    def well(q, p):
        return p**2 / 2 - bump(q)

    out = tp.compile(well, dt=0.01, backend="python").evolve(q=0.5, p=0.0, steps=50)
    assert abs(out.energy[-1] - out.energy[0]) < 1e-5


def test_symbols_in_a_definition_may_be_any_shape():
    norm = register(
        "norm_test",
        lambda a, b: (a * a + b * b).sqrt(),
        lambda a, b: (a / (a * a + b * b).sqrt(), b / (a * a + b * b).sqrt()),
    )
    u = norm(m, as_uop(1.0)).sum()
    (g,) = gradient(u, [m])
    env = {"m": [mpf(k) / 3 for k in range(6)]}
    assert all(close(exactly([g], env)[0][k], slope(u, "m", env, k)) for k in range(6))


@pytest.mark.parametrize("precision, most", [("float64", 400), ("dd", 6_000)])
def test_a_product_of_all_numbers_leaves_the_rest_of_an_energy_in_loops(precision, most):
    """Number by number the step was 29,198 instructions in pairs of float64, and compiling them did not end."""

    @tp.hamiltonian
    def system(q: tp.Vec[36], p: tp.Vec[36]):
        return p @ p / 2 + tp.sum(tp.outer(q, tp.sin(q))) - 0.79 * tp.sum(abs(q)) + 0.26 * tp.prod(q)

    step = tp.compile(system, dt=0.01, precision=precision).tpir.step
    whole = [i for i in step if i.op == "ELEM" and str(i.args[0]) in ("sin", "cos", "turn")]
    assert len(step) < most
    assert whole and all(i.type.shape == (36,) for i in whole)


def test_the_gradient_of_a_product_beside_sums_is_that_of_differences():
    q = UOp.var("q", (36,))
    energy = tp.sum(tp.sin(q)) * tp.sum(q) + tp.prod(q + 1.0) + tp.sum(tp.diff(q) ** 2)
    (slope,) = derivative(energy, [q])
    at = np.random.default_rng(2).uniform(-0.4, 0.4, 36)

    def value(x):
        return np.sum(np.sin(x)) * np.sum(x) + np.prod(x + 1.0) + np.sum(np.diff(x) ** 2)

    apart = [(value(at + e) - value(at - e)) / 2e-6 for e in 1e-6 * np.eye(36)]
    assert evaluate([slope], {"q": list(at)})[0] == pytest.approx(apart, abs=1e-8)
