"""Are Taylor coefficients by recurrences those of the function?  Every rule against mpmath's derivatives."""

import mpmath
import pytest

from tinyphysics.ir import Ops, UOp, evaluate
from tinyphysics.rules.calculus.jet import ROUGH, NotSmooth, Series, order_for, rough, solution
from tinyphysics.rules.calculus.partials import PARTIALS

ORDER = 9
A = [0.6, 0.31, -0.2, 0.11, 0.05]  # coefficients of what the functions are of
B = [0.4, -0.22, 0.3, 0.07]
a, b = UOp.var("a"), UOp.var("b")


def polynomial(row):
    return lambda s: sum(mpmath.mpf(c) * s**k for k, c in enumerate(row))


def coefficients(u, rows):
    table = {v: [UOp.const(c) for c in row] for v, row in rows.items()}
    series = Series(table, {})
    found = [series(u, k) for k in range(ORDER + 1)]
    return [0.0 if c is None else evaluate([c], {})[0] for c in found]


x, y = polynomial(A), polynomial(B)
CASES = {
    "neg": (-a, lambda s: -x(s)),
    "add": (a + b, lambda s: x(s) + y(s)),
    "sub": (a - b, lambda s: x(s) - y(s)),
    "mul": (a * b, lambda s: x(s) * y(s)),
    "square": (a * a, lambda s: x(s) ** 2),
    "div": (a / b, lambda s: x(s) / y(s)),
    "number / b": (2.0 / b, lambda s: 2 / y(s)),
    "a / number": (a / 3.0, lambda s: x(s) / 3),
    "fma": (a.fma(b, a), lambda s: x(s) * y(s) + x(s)),
    "sqrt": (a.sqrt(), lambda s: mpmath.sqrt(x(s))),
    "rsqrt": (a.rsqrt(), lambda s: 1 / mpmath.sqrt(x(s))),
    "cbrt": (a.cbrt(), lambda s: mpmath.cbrt(x(s))),
    "pow 2": (a**2.0, lambda s: x(s) ** 2),
    "pow 5": (a**5.0, lambda s: x(s) ** 5),
    "pow -3": (a**-3.0, lambda s: x(s) ** -3),
    "pow 1.5": (a**1.5, lambda s: x(s) ** mpmath.mpf(1.5)),
    "pow of a root": (a.sqrt() ** -3.0, lambda s: x(s) ** mpmath.mpf(-1.5)),
    "pow b": (a**b, lambda s: x(s) ** y(s)),
    "exp": (a.exp(), lambda s: mpmath.exp(x(s))),
    "expm1": (a.expm1(), lambda s: mpmath.expm1(x(s))),
    "log": (a.log(), lambda s: mpmath.log(x(s))),
    "log1p": (a.log1p(), lambda s: mpmath.log(1 + x(s))),
    "sin": (a.sin(), lambda s: mpmath.sin(x(s))),
    "cos": (a.cos(), lambda s: mpmath.cos(x(s))),
    "tan": (a.tan(), lambda s: mpmath.tan(x(s))),
    "asin": (a.asin(), lambda s: mpmath.asin(x(s))),
    "acos": (a.acos(), lambda s: mpmath.acos(x(s))),
    "atan": (a.atan(), lambda s: mpmath.atan(x(s))),
    "atan2": (a.alu(Ops.ATAN2, b), lambda s: mpmath.atan2(x(s), y(s))),
    "hypot": (a.alu(Ops.HYPOT, b), lambda s: mpmath.sqrt(x(s) ** 2 + y(s) ** 2)),
    "sinh": (a.sinh(), lambda s: mpmath.sinh(x(s))),
    "cosh": (a.cosh(), lambda s: mpmath.cosh(x(s))),
    "tanh": (a.tanh(), lambda s: mpmath.tanh(x(s))),
    "erf": (a.erf(), lambda s: mpmath.erf(x(s))),
    "where": ((UOp.var("c") < 1.0).where(a, b), lambda s: x(s)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_rule_gives_the_coefficients_of_mpmath(name):
    u, function = CASES[name]
    u = UOp(Ops.WHERE, u.dtype, (), (UOp.const(True), a, b)) if name == "where" else u
    with mpmath.workdps(60):
        wanted = [float(c) for c in mpmath.taylor(function, 0, ORDER)]
    found = coefficients(u, {a: A, b: B})
    scale = max(abs(c) for c in wanted)
    assert all(abs(c - w) <= 2e-13 * max(abs(w), scale * 1e-3) for c, w in zip(found, wanted)), (
        found,
        wanted,
    )


def test_every_smooth_operation_with_a_derivative_has_a_case_here():
    tested = {u.op for u, _ in CASES.values()}
    # steps have them, and no energy of a user
    oscillators = {Ops.HARMONIC_KICK, Ops.HARMONIC_DRIFT, Ops.HARMONIC_LAG, Ops.HARMONIC_SIGN}
    assert set(PARTIALS) - set(ROUGH) - {Ops.ANGLE, Ops.ANGLE_LOW, Ops.CAST} - oscillators <= tested


def test_what_turns_or_jumps_is_refused():
    for u in (abs(a), a.floor(), a.sign(), a.alu(Ops.MIN, b), (a < 0.0).where(a, b)):
        assert rough([u], frozenset({a, b})) is u
        with pytest.raises(NotSmooth):
            Series({a: [UOp.const(1.0)], b: [UOp.const(1.0)]}, {})(u, 1)
    assert rough([abs(a)], frozenset({b})) is None  # what does not move has a series


def test_a_solution_has_the_coefficients_of_the_exponential():
    (row,), _ = solution([a], [-a], [UOp.const(2.0)], 12)
    assert [evaluate([c], {})[0] for c in row] == pytest.approx(
        [2 * (-1) ** k / float(mpmath.factorial(k)) for k in range(13)]
    )


def test_time_in_the_rates_moves_too():
    t = UOp.var("t")
    (row,), _ = solution([a], [t * t], [UOp.const(0.0)], 5, (t, UOp.const(1.0)))  # (1 + s)**3/3 - 1/3
    assert [evaluate([c], {})[0] for c in row] == pytest.approx([0, 1, 1, 1 / 3, 0, 0])


def test_a_product_with_itself_takes_half_of_the_products():
    def operations(u):
        from tinyphysics.ir import toposort

        rows = {a: [UOp.var(f"a{k}") for k in range(21)], b: [UOp.var(f"b{k}") for k in range(21)]}
        c = Series(rows, {})(u, 20)
        return sum(x.op in (Ops.MUL, Ops.FMA) for x in toposort([c]))

    assert operations(a * b) == 21 and operations(a * a) == 11


def test_the_order_follows_from_the_tolerance():
    assert [order_for(x) for x in (2.0**-52, 1e-12, 1e-8, 1e-2)] == [20, 15, 11, 4]
