"""Do rewrites keep what they promise?  Exact rules every bit, real rules the function, proofs only what is true."""

from __future__ import annotations

import itertools
import math
import random
import struct
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyphysics as tp
from tinyphysics.ir import (
    Ops,
    PatternMatcher,
    UOp,
    as_uop,
    bool_,
    evaluate,
    f32,
    f64,
    graph_rewrite,
    i32,
    i64,
    substitute,
    toposort,
    u32,
)
from tinyphysics.ir.dtype import as_number, i8
from tinyphysics.ir.ops import ARITY, COMMUTATIVE, ELEMENTWISE
from tinyphysics.ir.spec import SHAPED, UNROLLED, WHOLE, check
from tinyphysics.rules.calculus.elliptic import PERIODIC, TRANSFORMS, Elliptic, elliptic
from tinyphysics.rules.identities.exact import exact
from tinyphysics.rules.identities.fuse import fuse
from tinyphysics.rules.identities.invariant import reciprocals
from tinyphysics.rules.equality.normal import Normal, TooLarge, same
from tinyphysics.rules.identities.denominators import one_division
from tinyphysics.rules.identities.real import identities, products, real, simplify, sink
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.tpir.kernels.kernel import build_kernel

x, y, z, w = (UOp.var(name) for name in "xyzw")
v, m = UOp.var("v", (3,)), UOp.var("m", (2, 3))
NASTY = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    3.0,
    5e-324,
    -2.2250738585072014e-308,
    1.7976931348623157e308,
    math.inf,
    -math.inf,
    math.nan,
]
INTEGERS = [0, 1, -1, 2, 7, -(2**31), 2**31 - 1, -(2**63), 2**63 - 1]


def bits(number):
    if isinstance(number, int):
        return number
    return "nan" if number != number else struct.pack("<d", number)


# --- every rule, by itself -------------------------------------------------------------------------
class Opaque(Exception):
    """The pattern says too little to be built from: it is given samples by hand."""


def instance(pattern, leaves, constants, dtype, shape):
    """A node that the pattern matches, over variables of one shape."""
    if pattern.name is not None and pattern.name in leaves:
        return leaves[pattern.name]
    if pattern.src is not None:
        (op, *_) = pattern.op
        first, *rest = (instance(s, leaves, constants, dtype, shape) for s in pattern.src)
        out = first.alu(op, *rest)
    elif pattern.op is None:
        out = UOp.var(pattern.name, shape, dtype)
    elif Ops.CONST in pattern.op:
        value = pattern.value if pattern.value is not None else constants[pattern.name]
        out = UOp.const(value, pattern.dtype or dtype, shape)
    else:
        raise Opaque
    if pattern.name is not None:
        leaves[pattern.name] = out
    return out


def constants_of(pattern):
    own = (
        {pattern.name}
        if pattern.op == frozenset({Ops.CONST}) and pattern.name and pattern.value is None
        else set()
    )
    return own.union(*(constants_of(s) for s in pattern.src or ()))


def variables_of(pattern):
    own = {pattern.name} if pattern.op is None else set()
    return own.union(*(variables_of(s) for s in pattern.src or ()))


def instances(rule, values, dtype, shape):
    names = sorted(constants_of(rule.pattern))
    for chosen in itertools.product(values, repeat=len(names)):
        yield instance(rule.pattern, {}, dict(zip(names, chosen)), dtype, shape)


def grid(rule, numbers):
    """All combinations of the numbers for the variables of a rule, as flat lists by name."""
    names = sorted(variables_of(rule.pattern))
    rows = list(itertools.product(numbers, repeat=len(names)))
    return {n: [row[i] for row in rows] for i, n in enumerate(names)}, (len(rows),)


def is_opaque(rule):
    try:
        next(instances(rule, [1.0], f64, ()), None)
    except Opaque:
        return True
    return False


POWERS = [
    2.0,
    0.5,
    -4.0,
    3.0,
    1.0,
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    2.0**-1023,
    2.0**-1022,
    2.0**1023,
    math.inf,
    math.nan,
]
CLEAR = [r for r in exact.rules if not is_opaque(r)]


@pytest.mark.requirement("S4-05")
@pytest.mark.parametrize("dtype", [f64, f32], ids=str)
@pytest.mark.parametrize("rule", CLEAR, ids=lambda r: r.name)
def test_an_exact_rule_changes_no_bit_of_a_float(rule, dtype):
    small = [2.0**-149, 2.0**-126, 2.0**127, 3.4028234663852886e38] if dtype is f32 else []
    env, shape = grid(rule, [as_number(n, dtype) for n in [*NASTY, *small]])
    fired = 0
    for u in instances(rule, [*POWERS, *small], dtype, shape):
        new = PatternMatcher([rule]).rewrite(u)
        if new is None:
            continue
        fired += 1
        before, after = evaluate([u, new], env)
        for k, (a, b) in enumerate(zip(before, after)):
            assert bits(a) == bits(b), (
                f"{u.replace(u.src)} -> {new} at { ({n: c[k] for n, c in env.items()}) }: {a} {b}"
            )
    assert fired


@pytest.mark.parametrize("dtype", [i32, i64, u32], ids=str)
def test_an_exact_rule_changes_no_bit_of_an_integer(dtype):
    fired = 0
    for rule in CLEAR:
        if bool_ in {s.dtype for s in rule.pattern.src}:
            continue
        env, shape = grid(rule, [as_number(n, dtype) for n in INTEGERS])
        for u in instances(rule, [1, -1, 2], dtype, shape):
            new = PatternMatcher([rule]).rewrite(u)
            if new is not None and u.dtype is dtype:
                fired += 1
                before, after = evaluate([u, new], env)
                assert before == after, f"{rule.name}: {u} -> {new}"
    assert fired > 5


def test_an_exact_rule_chooses_by_a_constant_condition():
    for flag in (True, False):
        u = UOp.const(flag, bool_).where(x, y)
        assert graph_rewrite([u], exact)[0] is (x if flag else y)


@pytest.mark.parametrize(
    "op",
    sorted(
        ELEMENTWISE - {Ops.CUSTOM, Ops.RANDOM, Ops.BITCAST, Ops.CAST, Ops.KEPLER_SLOW}, key=lambda o: o.value
    ),
    ids=str,
)
def test_folding_constants_computes_what_the_operation_means(op):
    numbers = (
        [*NASTY, 0.5, 2.0]
        if op not in {Ops.AND, Ops.OR, Ops.XOR, Ops.NOT, Ops.SHL, Ops.SHR, Ops.MULHI} | WHOLE
        else [0, 1, 7]
    )
    dtype = f64 if isinstance(numbers[0], float) else i8 if op in WHOLE else u32
    arity = ARITY[op]
    for chosen in itertools.product(numbers, repeat=arity):
        names = [UOp.var(f"x{i}", (), dtype) for i in range(arity)]
        u = names[0].alu(op, *names[1:])
        (folded,) = graph_rewrite(
            substitute([u], dict(zip(names, (UOp.const(c, dtype) for c in chosen)))), exact
        )
        assert folded.op is Ops.CONST and folded.dtype is u.dtype
        assert bits(folded.arg) == bits(evaluate([u], {f"x{i}": c for i, c in enumerate(chosen)})[0])


MOVED = {
    "merge_movement": [
        m.reshape(6).reshape(3, 2),
        m.reshape(6).reshape(2, 3),
        v.expand((2, 3)).expand((4, 2, 3)),
        m.T.T,
        m.reshape(1, 2, 3).permute((2, 0, 1)).permute((1, 2, 0)),
        v.flip((0,)).flip((0,)),
        x.reshape(1).expand((3,)),
        x.reshape(1, 1).expand((2, 3)),
        v.reshape(3, 1).expand((3, 2)).expand((4, 3, 2)),
    ],
    "move_constant": [
        UOp(Ops.RESHAPE, f64, (3, 2), (UOp.const(-0.0, f64, (6,)),)),
        UOp.const(math.nan, f64, (3,)).roll(1, 0),
        UOp.const(2.0, f64, (3,)).flip((0,)),
        UOp.const(2.0, f64, (4,)).slice([(1, 3, 1)]),
        UOp.const(2.0, f64, (2, 3)).element(4),
        UOp.const(2.0, f64, (2, 3)).T,
    ],
    "element_of": [
        as_uop([x, y, z]).element(1),
        m.reshape(6).element(4),
        as_uop([[x, y], [z, w]]).element(2),
    ],
}


def numbers_for(names, seed=0, low=-3.0, high=3.0):
    r = random.Random(seed)
    shapes = {"v": 3, "m": 6, "n": 6, "a": 40}
    return {
        n: [r.uniform(low, high) for _ in range(shapes[n])] if n in shapes else r.uniform(low, high)
        for n in names
    }


@pytest.mark.parametrize("name", MOVED)
def test_an_exact_rule_on_arrangements_keeps_every_number(name):
    rule = next(r for r in exact.rules if r.name.endswith(name))
    env = numbers_for("xyzwvm")
    for u in MOVED[name]:
        new = PatternMatcher([rule]).rewrite(u)
        assert new is not None and (new.shape, new.dtype) == (u.shape, u.dtype)
        (a,), (b,) = evaluate([u], env), evaluate([new], env)
        assert list(map(bits, a if u.shape else [a])) == list(map(bits, b if u.shape else [b]))


def test_every_exact_rule_is_tested_above():
    assert {r.name.rsplit(".")[-1] for r in exact.rules if is_opaque(r)} == {*MOVED, "fold"}


def test_what_is_not_exact_is_not_among_the_exact_rules():
    for u in (
        x * 0.0,
        x + 0.0,
        x - x,
        x / x,
        UOp.const(0.0) - x,
        x * y - y * x,
        (x + y) + z,
        x / 3.0,
        x * x / x,
    ):
        assert graph_rewrite([u], exact)[0] is u


# --- rules for real numbers ------------------------------------------------------------------------
SCALARS = [2.0, 3.0, -1.5, 0.5, 1.0, -1.0, 0.25, 7.0, -2.0, 4.0, 1.5, 0.0]
REAL = [*identities.rules, *(r for r in sink.rules if r not in exact.rules)]
REAL_CLEAR = [r for r in REAL if not is_opaque(r)]


@pytest.mark.requirement("S4-05")
@pytest.mark.parametrize(
    "rule", REAL_CLEAR, ids=lambda r: f"{r.name}-{r.pattern.op and sorted(o.value for o in r.pattern.op)}"
)
def test_a_real_rule_keeps_the_function(rule):
    r = random.Random(7)
    names, count = sorted(variables_of(rule.pattern)), 30
    fired = 0
    for low in (0.2, -3.0):
        env = {n: [r.uniform(low, 3.0) for _ in range(count)] for n in names}
        for u in with_branches(instances(rule, SCALARS, f64, (count,))):
            new = PatternMatcher([rule]).rewrite(u)
            if new is None:
                continue
            fired += 1
            assert (new.shape, new.dtype) == (u.shape, u.dtype)
            for a, b in zip(*evaluate([u, new], env)):
                if math.isfinite(a):  # where the old form is defined, the new one is, and agrees
                    assert b == pytest.approx(a, rel=1e-12, abs=1e-12), f"{u} -> {new}"
    assert fired


def with_branches(nodes):
    """Each node, and the same over variables that are zero where a condition fails."""
    for u in nodes:
        yield u
        yield substitute([u], {n: (n < 1.0).where(n, 0.0) for n in toposort([u]) if n.op is Ops.VAR})[0]


def solution(f):
    """The node of the u with -2 u'' + u/2 = f on a circle."""
    return Elliptic(f, UOp.const(0.5), (UOp.const(2.0),), None, 0.0, (PERIODIC,), TRANSFORMS, 0, 0).node


def equations(nodes):
    """Each solution replaced by what it must be a solution of: the operator applied to f, which is as linear."""
    found = [n for n in toposort(nodes) if n.op is Ops.ELLIPTIC]
    return substitute(nodes, {n: elliptic(n).applied(n.src[0]) for n in found})


def test_a_real_rule_on_whole_nodes_keeps_the_function():
    s = UOp.var("s", ())
    square = v.reshape(3, 1) * v.reshape(1, 3) + v.reshape(3, 1)
    triangle = square.triu()
    samples = [
        (2.0 * v).sum(),
        (-m).sum(0),
        (v / 3.0).roll(1, 0),
        (-v)[::-1],
        (2.0 * m).T,
        (m * -1.5)[0, 1:],
        (-v).pad([(1, 1, 0)]),
        (3.0 * m).reshape(6).element(4),
        UOp.const(0.0, f64, (3,)).sum(),
        UOp.const(0.0, f64, (3,)).max(),
        UOp.const(0.0, f64, (3,)).pad([(1, 1, 0)]),
        2.0 * (s.expand((3,)) * v),
        0.25 * ((v + 2.0) * v),
        (v * 5.0 / 3.0).sum(),
        0.5 * y + x * x + 0.5 * y,
        x - y * z + 2.0 * x - 3.0 * x,
        v * 2.0 - v.roll(1, 0) - 2.0 * v,
        x + y - x - y,
        (x * y) * x / (y * x),
        x * x / (x * x * x),
        triangle * square,
        square * triangle,
        triangle / (square + 9.0),
        triangle - square.T.triu(),
        triangle.reshape(3, 3, 1),
        triangle.reshape(3, 1, 3, 1),
        triangle.expand((2, 3, 3)),
        triangle.triu(),
        (-triangle).triu(1, 0),
        (square < 1.0).where(triangle, 0.0),
        (square < 1.0).where(0.0, triangle),
        (square < 1.0).where(triangle, -triangle),
        triangle.reshape(3, 3, 1).triu(0, 1).pad([(0, 0, 0), (0, 0, 0), (2, 1, 0)]),
        triangle.pad([(1, 0, 0), (0, 0, 0)]),
        -triangle,
        2.0 * triangle,
        (2.0 * square).triu().sum(),
        (-square).triu().sum(0),
        (square / 3.0).triu().sum(1),
        solution(s.expand((3,)) * v),
        solution(-v),
    ]
    env = numbers_for("vmsxyz")
    opaque = {r.name for r in REAL if is_opaque(r)}
    seen = set()
    for u in samples:
        for rule in REAL:
            if rule.name in opaque and (hit := PatternMatcher([rule]).fire(u)) is not None:
                seen.add(rule.name)
                (a, b) = evaluate(equations([u, hit[1]]), env)
                assert b == pytest.approx(a, rel=1e-12, abs=1e-14), f"{u} -> {hit[1]}"
    assert seen == opaque


def running(root, env):
    """(value, bound on its rounding error): standard running error analysis, one rounding per operation."""
    ulp = 2.0**-53
    out = {}
    for u in toposort([root]):
        s = [out[a] for a in u.src]
        if u.op is Ops.VAR:
            out[u] = (env[u.arg], 0.0)
            continue
        (value,) = evaluate(
            [UOp(u.op, u.dtype, (), tuple(UOp.const(a[0], c.dtype) for a, c in zip(s, u.src)), u.arg)], {}
        )
        match u.op:
            case Ops.CONST:
                error = abs(value) * ulp  # a folded constant has been rounded
            case Ops.ADD | Ops.SUB:
                error = s[0][1] + s[1][1]
            case Ops.MUL:
                error = abs(s[0][0]) * s[1][1] + abs(s[1][0]) * s[0][1]
            case Ops.FMA:
                error = abs(s[0][0]) * s[1][1] + abs(s[1][0]) * s[0][1] + s[2][1]
            case Ops.DIV:
                error = (s[0][1] + abs(value) * s[1][1]) / max(abs(s[1][0]), 1e-300)
            case Ops.SQRT:
                error = s[0][1] / max(2 * abs(value), 1e-300)
            case Ops.POW:
                error = abs(s[1][0] * value / max(abs(s[0][0]), 1e-300)) * s[0][1]
            case Ops.NEG | Ops.ABS | Ops.SIN | Ops.COS | Ops.ATAN:
                error = s[0][1]
            case Ops.EXP:
                error = abs(value) * s[0][1]
            case Ops.WHERE:
                error = s[1 if s[0][0] else 2][1]
            case Ops.LT:
                error = math.inf if not abs(s[0][0] - s[1][0]) > 8 * (s[0][1] + s[1][1]) else 0.0
        out[u] = (value, error + abs(value) * 2 * ulp)
    if any(u.op is Ops.LT and math.isinf(e) for u, (_, e) in out.items()):
        return out[root][0], math.inf  # undefined, or too close to call, which branch is taken
    return out[root]


def agree(u, new, env, factor=4.0):
    a, ea = running(u, env)
    b, eb = running(new, env)
    if math.isfinite(a) and math.isfinite(ea + eb):
        assert abs(a - b) <= factor * (ea + eb) + 1e-300, f"{u} -> {new}: {a} {b} +- {ea + eb}"


CONSTANTS = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -2.0, 3.0, 0.1, 49.0, 1e-3]


@st.composite
def expressions(draw, size=10, functions=True):
    pool = [
        x,
        y,
        z,
        *(UOp.const(c) for c in draw(st.lists(st.sampled_from(CONSTANTS), min_size=1, max_size=3))),
    ]
    for _ in range(draw(st.integers(1, size))):
        a, b = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        kind = draw(st.sampled_from("++-**//n^^^sr" + "fw" * functions))
        match kind:
            case "+":
                new = a + b
            case "-":
                new = a - b
            case "*":
                new = a * b
            case "/":
                new = a / b
            case "n":
                new = -a
            case "^":
                new = a ** draw(
                    st.sampled_from([-3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0])
                )
            case "s":
                new = a * a
            case "r":
                new = a.sqrt()
            case "f":
                new = a.alu(draw(st.sampled_from([Ops.SIN, Ops.COS, Ops.ABS, Ops.ATAN, Ops.EXP])))
            case "w":
                new = (a < b).where(
                    draw(st.sampled_from([a, b, UOp.const(0.0)])), draw(st.sampled_from(pool))
                )
        pool.append(new)
    return pool[-1]


@settings(max_examples=250, deadline=None)
@given(expressions(), st.integers(0, 10**6))
def test_simplifying_changes_a_value_by_rounding_only(u, seed):
    (new,) = simplify([u])
    check([new], SHAPED)
    for sign in (0.3, -2.0):
        agree(u, new, numbers_for("xyz", seed, sign, 2.5))


@settings(max_examples=100, deadline=None)
@given(expressions())
def test_simplifying_twice_changes_nothing_more(u):
    (new,) = graph_rewrite([u], real)
    assert graph_rewrite([new], real)[0] is new
    (once,) = simplify([u])
    assert graph_rewrite([once], sink)[0] is once


@pytest.mark.parametrize(
    ("u", "at"),
    [
        (1e200 * (1e200 * x), 1e-300),
        (1e-200 * (1e-200 * x), 1e300),
        (x / 1e-310, 1e-200),
        (x / 1.5e308, 1e300),
        (1e-200 * (x / 1e200), 1e300),
        ((1e200 * x) / 1e-200, 1e-300),
        (1e-300 / (1e100 * x), 1e-200),
        (1e200 * (1e200 / x), 1e300),
        (x / 5e-324, 0.0),
        ((x / 1e200) / 1e200, 1e300),
        (x / 2.0**-1030, 2.0**-1040),
    ],
)
def test_constants_are_not_merged_into_infinity_or_nothing(u, at):
    (new,) = simplify([u])
    assert evaluate([new], {"x": at})[0] == pytest.approx(evaluate([u], {"x": at})[0], rel=1e-12)


@pytest.mark.requirement("S3-17")
def test_simplifying_gives_the_short_form():
    q = UOp.var("q")
    table = [
        (0.5 * (2.0 * q), q),
        (q * 1.0 + 0.0, q),
        (q - q, UOp.const(0.0)),
        (-(-q), q),
        (q**1.0, q),
        (q**2.0, q * q),
        (q / q, UOp.const(1.0)),
        (2.0 * (3.0 * q), 6.0 * q),
        (49.0 * (q / 49.0), q),
        (q.sqrt() * q.sqrt(), q),
        (q * 0.0, UOp.const(0.0)),
        (q + q, 2.0 * q),
        (3.0 * q - q, 2.0 * q),
    ]
    for u, want in table:
        assert simplify([u])[0] is want, u


def test_products_are_never_opened():
    assert simplify([(x - y) ** 2.0])[0] is (x - y) * (x - y)


def test_r_to_the_minus_three_is_one_square_root_and_one_division():
    r2 = x * x + y * y
    (u,) = simplify([x * r2**-1.5])
    ops = [n.op for n in toposort([u])]
    assert ops.count(Ops.DIV) == 1 and ops.count(Ops.SQRT) == 1 and Ops.POW not in ops


def test_powers_as_products_keep_everything_else_as_it_was_written():
    assert graph_rewrite([x**2.0 + x * 0.0], products)[0] is x * x + x * 0.0


# --- fusing ----------------------------------------------------------------------------------------
@settings(max_examples=200, deadline=None)
@given(expressions(), st.integers(0, 10**6))
def test_fusing_changes_a_value_by_rounding_only(u, seed):
    (new,) = fuse([u])
    check([new], SHAPED)
    agree(u, new, numbers_for("xyz", seed))


def test_fusing_a_sum_of_two_rounds_exactly_once():
    r = random.Random(3)
    for u, sign in ((x * y + z, 1), (z + x * y, 1), (x * y - z, -1), (z - x * y, 2)):
        (new,) = fuse([u])
        assert [n.op for n in toposort([new])].count(Ops.FMA) == 1
        for _ in range(200):
            env = {n: r.uniform(-1, 1) for n in "xyz"}
            a, b, c = (Fraction(env[n]) for n in "xyz")
            true = {1: a * b + c, -1: a * b - c, 2: c - a * b}[sign]
            assert evaluate([new], env)[0] == true.numerator / true.denominator


def test_a_product_with_two_users_is_computed_once_and_not_fused():
    product = x * y
    sum_, other = fuse([product + z, product.sin()])
    assert sum_ is product + z and other is product.sin()


def test_fusing_does_not_see_what_else_is_alive():
    u = (x * y + z) * (x * w - z) + w
    (before,) = fuse([u])
    watchers = [(x * y).sin(), (x * w).exp(), (x * y + z).sqrt()]  # the same nodes have other users now
    assert fuse([u])[0] is before and len(watchers) == 3


def test_every_product_of_a_sum_joins_it():
    (u,) = fuse([x * y + z * w + x * x + w])
    ops = [n.op for n in toposort([u])]
    assert ops.count(Ops.FMA) == 3 and Ops.MUL not in ops and Ops.ADD not in ops


def test_a_product_with_a_sum_of_one_is_one_operation():
    assert fuse([(y + 1.0) * x])[0] is y.fma(x, x)
    assert fuse([(1.0 - y) * x])[0] is (-y).fma(x, x)
    assert fuse([x * (y - 1.0)])[0] is y.fma(x, -x)
    shared = y + 1.0
    assert fuse([shared * x, shared.sin()])[0] is shared * x  # it is computed anyway
    assert fuse([(y + 1.0) * x + z])[0] is (y + 1.0).fma(x, z)  # the product joins its own sum


def test_twice_is_an_addition():
    assert fuse([(2.0 * y).sin()])[0] is (y + y).sin()
    assert fuse([2.0 * y + x])[0] is UOp.const(2.0).fma(y, x)  # in a sum it is no operation of its own


def test_integers_are_not_fused():
    i, j = UOp.var("i", (), i64), UOp.var("j", (), i64)
    assert fuse([i * j + i])[0] is i * j + i


# --- divisions that no state changes ---------------------------------------------------------------
def test_only_a_division_by_something_fixed_becomes_a_product():
    q, k = UOp.var("q"), UOp.var("k")
    assert reciprocals([q / k], frozenset({q}))[0] is q * (1.0 / k)
    for u in (k / q, q / (q + k), k / (k + 1.0)):
        assert reciprocals([u], frozenset({q}))[0] is u
    a = UOp.var("v", (3,))
    (new,) = reciprocals([a / k], frozenset({a}))
    assert new is a * (1.0 / k).expand((3,))
    (nested,) = reciprocals([(q / k) / k], frozenset({q}))
    assert Ops.DIV not in [n.op for n in toposort([nested]) if n.leaves >= {q}]


# --- unrolling -------------------------------------------------------------------------------------
@st.composite
def arrays(draw, size=10):
    """A float expression over arrays with every kind of movement and reduction."""
    pool = [
        v,
        m,
        x,
        UOp.var("n", (2, 3)),
        UOp.var("a", (40,)),
        UOp.const(draw(st.sampled_from(CONSTANTS)), f64, (3,)),
    ]
    for _ in range(draw(st.integers(1, size))):
        a, b = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        axis = draw(st.integers(0, max(a.ndim - 1, 0)))
        kind = draw(st.sampled_from("+*/srwfmMpxtcke"))
        if kind in "fmMptxck" and not a.ndim or kind in "+*w" and a.shape != b.shape and a.ndim and b.ndim:
            continue
        match kind:
            case "+":
                new = a + b
            case "*":
                new = a * b
            case "/":
                new = 1.0 / a
            case "s":
                new = a.sum(axis) if a.ndim else a
            case "r":
                new = a.roll(draw(st.integers(-3, 3)), axis) if a.ndim else a
            case "w":
                new = (a < b).where(a, b)
            case "f":
                new = a.flip((axis,))
            case "m":
                new = a.max(axis)
            case "M":
                new = a.min()
            case "p":
                new = a.pad([(1, 0, 1)] + [(0, 0, 0)] * (a.ndim - 1))
            case "x":
                new = a.sin()
            case "t":
                new = a.T
            case "c":
                new = UOp(Ops.CONCAT, f64, (2 * a.shape[0], *a.shape[1:]), (a, a), 0)
            case "k":
                new = a[(slice(None),) * axis + (slice(0, None, 2),)]
            case "e":
                new = UOp.stack([a.element(0), b.element(b.size - 1)])
        if new.size <= 200:
            pool.append(new)
    return pool[-1]


@settings(max_examples=150, deadline=None)
@given(arrays(), st.integers(0, 10**6))
def test_unrolling_keeps_every_bit(u, seed):
    (scalars,) = unroll([u])
    check(scalars, UNROLLED)
    env = numbers_for("xvmna", seed)
    (whole,) = evaluate([u], env)
    assert list(map(bits, evaluate(scalars, env))) == list(map(bits, whole if u.shape else [whole]))


def test_unrolling_an_empty_or_a_long_sum():
    a = UOp.var("a", (40,))
    env = numbers_for("a")
    for u in (a.sum(), a[0:0].sum(), (a * a).sum() / 3.0):
        ((scalar,),) = unroll([u])
        assert evaluate([scalar], env) == evaluate([u], env)


# --- are two expressions the same function? ---------------------------------------------------------
SAME = [
    ((x + y) * (x - y), x * x - y * y),
    ((x + y) ** 2.0, x * x + 2.0 * x * y + y * y),
    (x - (y - z), x - y + z),
    ((x * y) ** 3.0, x**3.0 * y**3.0),
    (x / y / z, x / (y * z)),
    (1.0 / x + 1.0 / y, (x + y) / (x * y)),
    ((-x).cos(), x.cos()),
    ((-x).sin(), -x.sin()),
    ((x - y).cos(), (y - x).cos()),
    ((x - y).sin(), -(y - x).sin()),
    (abs(-x), abs(x)),
    ((x * x + y * y).sqrt() ** 2.0, x * x + y * y),
    (x.sqrt() * x.sqrt(), x),
    (x.rsqrt() * x.sqrt(), 1.0 + 0.0 * x),
    (1.0 / (x * x + y * y).sqrt(), (x * x + y * y) ** -0.5),
    (x / (x * x + y * y) + y / (y * y + x * x), (x + y) / (x * x + y * y)),
    (x.fma(y, z), x * y + z),
    (x / x, 1.0 + 0.0 * x),
    (x * 0.1 + x * 0.2, x * 0.30000000000000004),
    (x.exp() * y - y * x.exp(), 0.0 * x),
    ((x * x).sqrt(), (x**2.0) ** 0.5),
    ((v * v).sum(), (v**2.0).sum()),
    ((v * 2.0).sum(), 2.0 * v.sum()),
    (v.roll(1, 0) * v.roll(1, 0), (v * v).roll(1, 0)),
    ((v + v.roll(1, 0)).sum(), v.sum() + v.roll(1, 0).sum()),
    ((v - 1.0)[0], v[0] - 1.0),
    ((x + y).tanh(), (y + x).tanh()),
    ((x * 3.0) ** 2.0, 9.0 * x * x),
    (x**-2.0 * x, 1.0 / x),
    ((x + y) / (x + y), 1.0 + 0.0 * x),
    (abs(x - y), abs(y - x)),
    ((x < y).where(x, y) + (x < y).where(y, x), x + y),
    ((x < y).where(x, 0.0) ** 2.0, (x < y).where(x * x, 0.0)),
    ((x < y).where(x, z) * w, (x < y).where(x * w, z * w)),
    ((x < y).where(1.0, 0.0) * (x < y).where(0.0, 1.0), 0.0 * x),
]

DIFFERENT = [
    ((x**2.0).sqrt(), x),
    ((x * x) ** 0.5, x),
    ((x * x).sqrt(), -x),
    (abs(x), x),
    ((x**4.0) ** 0.25, x),
    ((x**6.0) ** 0.5, x**3.0),
    ((x * y).sqrt(), x.sqrt() * y.sqrt() * -1.0),
    (((x * y) ** 2.0).sqrt(), x * y),
    ((x**2.0 * y**2.0) ** 0.5, x * y),
    ((x * x + 2.0 * x * y + y * y).sqrt(), x + y),
    ((x - y).sqrt(), (y - x).sqrt()),
    ((x * x) ** 1.5, x**3.0),
    ((x**2.0) ** 1.5, x**3.0),
    (x.sin(), (-x).sin()),
    (x.cos(), x.sin()),
    (x.cos(), -((-x).cos())),
    (x.exp(), (-x).exp()),
    (x.tanh(), (-x).tanh()),
    (x.sign(), (-x).sign()),
    ((x - y).sin(), (y - x).sin()),
    (x.log(), (-x).log()),
    ((x * x).log(), x.log()),
    (x.floor(), -((-x).floor())),
    (x * 2.0, x * 2.000001),
    (x * 1.0, x * (1.0 + 1e-12)),
    (x + 1.0, x + 1.0000001),
    (x, x + 1e-30),
    (x * 1e-20, 0.0 * x),
    (x + 1e-17 * y, x),
    (x * y, x + y),
    (x - y, y - x),
    (x / y, y / x),
    (x**2.0, x**3.0),
    (x**0.5, x**0.25),
    (x**y, y**x),
    (x**y, x**z),
    (x.minimum(y), x.maximum(y)),
    (x.atan2(y), y.atan2(x)),
    ((x < y).where(x, y), (x < y).where(y, x)),
    (x, y),
    ((x < 0.0).where(-x, x), x),
    ((x < y).where(x, y), (y < x).where(x, y)),
    (x.cast(f32).cast(f64), x.cast(i64).cast(f64)),
    (x.cast(i64).cast(f64), x.cast(i32).cast(f64)),
    (x.cast(bool_).cast(f64), x),
    (x.cast(f32).cast(f64), x),
    (v.sum(), v.max()),
    (v.max(), v.min()),
    (v.roll(1, 0), v.roll(2, 0)),
    (v.flip((0,)), v),
    (v[0], v[1]),
    (m.sum(0), m[0] + m[0]),
    ((v * v.roll(1, 0)).sum(), (v * v).sum()),
    (v.sum() ** 2.0, (v * v).sum()),
    (v.pad([(1, 0, 0)]), v.pad([(0, 1, 0)])),
    (m.element(1), m.element(2)),
    (m.T.reshape(6), m.reshape(6)),
    (m.sum((0, 1)), m[0].sum()),
    ((v * v).sum(), v.sum() * v[0]),
    (x * math.inf, x),
    (x * math.nan, x * math.inf),
    (UOp.const(math.inf) + x, UOp.const(-math.inf) + x),
    (x * 0.0 + y, x),
    (1e20 * (1.0000000000000002 * x - x), 0.0 * x),
    (1e18 * (0.30000000000000004 * x - 0.3 * x), 0.0 * x),
    ((x < y).where(2.0, 0.0) ** 2.0, (x < y).where(2.0, 0.0)),
    ((x < y).where(1.0, 0.0) + (y < x).where(1.0, 0.0), 1.0 + 0.0 * x),
    ((x < y).where(x, 0.0) * (x < z).where(x, 0.0), (x < y).where(x * x, 0.0)),
    ((x < y).where(x, y) * 2.0, x + y),
    ((x < y).where(4.0, 9.0).sqrt(), (x < y).where(-2.0, 3.0)),
    ((x < y).where(x, y), (y <= x).where(x, y)),
    ((x < y).where(x, 0.0) ** 2.0, (x < y).where(x, 0.0)),
    (x**0.3333333, x ** (1 / 3)),
    ((x**3.0) ** (1 / 3), x),
    (x.bitcast(i64).cast(f64), x.cast(i64).cast(f64)),
    (v.max() - v[0], 0.0 * v[0]),
    (x.hypot(y), x + y),
    (x.erf(), x.tanh()),
]


@pytest.mark.parametrize(("u", "other"), SAME, ids=str)
def test_the_same_function_is_recognised(u, other):
    assert same(u, other) and same(other, u)


@pytest.mark.parametrize(("u", "other"), DIFFERENT, ids=str)
def test_different_functions_are_never_called_the_same(u, other):
    assert not same(u, other) and not same(other, u)


def test_a_huge_exponent_does_not_take_forever():
    assert not same((0.1 * x) ** 1e9, x)
    assert same((x + y) ** 1e9, (y + x) ** 1e9)


@settings(max_examples=25, deadline=None)
@given(st.lists(expressions(size=5), min_size=10, max_size=16), st.integers(0, 10**6))
def test_equal_forms_are_equal_numbers(many, seed):
    """Every pair of random expressions that are called the same is compared on numbers."""
    forms = Normal()
    env = numbers_for("xyz", seed, 0.3, 2.5), numbers_for("xyz", seed + 1)
    pool = [*many, *(simplify([u])[0] for u in many), *(substitute([u], {x: -x})[0] for u in many)]
    for u, other in itertools.combinations(dict.fromkeys(pool), 2):
        if forms.same(u, other):
            for e in env:
                (a, ea), (b, eb) = running(u, e), running(other, e)
                if all(map(math.isfinite, (a, b, ea, eb))):
                    assert abs(a - b) <= 8 * (ea + eb) + 1e-13 * (abs(a) + abs(b)) + 1e-300, (
                        f"{u} is not {other}"
                    )


def test_functions_are_known_at_zero():
    """cos(x - x) is 1 and sin(x - x) is nothing, as in the energy of rods in a row."""
    zero = x * y - y * x
    for f, value in ((UOp.cos, 1.0), (UOp.exp, 1.0), (UOp.sin, 0.0), (UOp.tanh, 0.0), (abs, 0.0)):
        assert same(z + y * f(zero), z + value * y), f
        assert not same(z + y * f(zero + 1e-9), z + value * y), f


def test_denominators_are_not_cleared_where_the_work_would_not_be_done():
    """A sum of 400 terms below another, as far as 300 terms would have to be multiplied by it: it is said at once."""
    many = [UOp.var(f"v{k}") for k in range(400)]
    forms = Normal()
    polys = forms.form(x / UOp.sum_of(many)), forms.form(UOp.sum_of(many[:300]))
    before = forms.work
    with pytest.raises(TooLarge):
        forms.cleared(*polys)
    assert forms.work == before
    few = forms.form(x / UOp.sum_of(many[:9])), forms.form(UOp.sum_of(many[:5]))
    assert [len(p) for p in forms.cleared(*few)] == [1, 25 + 10]


def test_a_ratio_is_a_number_or_nothing():
    forms = Normal()
    assert forms.ratio(3.0 * x * y, x * y) == 3 and forms.ratio(x, y) is None
    assert forms.ratio(0.0 * x, x) == 0 and forms.ratio(x, 0.0 * x) is None
    assert (
        forms.ratio(x + y, x) is None
        and forms.ratio(x, x + y) is None
        and forms.ratio(2.0 * x + y, x + y) is None
    )


def test_a_ratio_of_arrays_is_one_number_for_all_components():
    forms = Normal()
    pair = as_uop([x, y])
    assert forms.ratio(2.0 * v, v) == 2 and forms.ratio(as_uop([3.0 * x, y * 3.0]), pair) == 3
    assert (
        forms.ratio(as_uop([2.0 * x, 3.0 * y]), pair) is None
        and forms.ratio(as_uop([0.0 * x, y]), pair) is None
    )
    assert forms.ratio(pair, as_uop([0.0 * x, y])) is None and forms.ratio(as_uop([y, x]), pair) is None
    assert (
        forms.ratio(v.roll(1, 0), v) is None
        and forms.ratio(v, 0.0 * v) is None
        and forms.ratio(0.0 * v, v) == 0
    )
    padded = v[:1].pad([(0, 2, 0)]) + v[1:].pad([(1, 0, 0)])  # the same numbers, put together from parts
    assert forms.ratio(padded, v) == 1 and forms.ratio(v[:1].pad([(0, 2, 0)]), v) is None


def test_commuting_operations_are_those_that_commute_on_numbers():
    for op in COMMUTATIVE - {Ops.AND, Ops.OR, Ops.XOR, Ops.MULHI}:
        for a, b in itertools.product(NASTY, NASTY):
            (one,) = evaluate([x.alu(op, y)], {"x": a, "y": b})
            (two,) = evaluate([y.alu(op, x)], {"x": a, "y": b})
            assert one == two or one != one and two != two


def test_one_number_for_all_terms_stands_before_a_sum():
    g, x, m = UOp.var("g"), UOp.var("x", (80, 80)), UOp.var("m", (80,))
    for axis in (0, 1, (0, 1)):
        assert same((g * x).sum(axis), g * x.sum(axis)) and same((x / g).sum(axis), x.sum(axis) / g)
        assert not same((g * x).sum(axis), x.sum(axis)) and not same((g * x).sum(axis), g * g * x.sum(axis))
    assert same(x * g.expand((80,)).reshape(1, 80).expand((80, 80)), g * x)
    assert same((m[:, None] * (g * x)).sum(1), g * (m[:, None] * x).sum(1))
    assert not same((m[:, None] * x).sum(0), m * x.sum(0))  # one for each term is not one for all
    assert not same((g * x).sum(0), (g * x).sum(1))


def test_a_ratio_may_be_one_and_three_thirds_in_floats_from_component_to_component():
    x = UOp.var("x", (2,))
    third = 0.1 + 0.2 - 0.3 + 1 / 3  # a few roundings from 1/3
    left, right = UOp.stack([x[0], 3 * third * x[1]]), UOp.stack([x[0], x[1]])
    assert Normal().ratio(left, right) == 1
    assert Normal().ratio(UOp.stack([x[0], (1 + 1e-9) * x[1]]), right) is None


# --- quotients with one denominator -----------------------------------------------------------------
def divisions(roots):
    return sum(u.op is Ops.DIV for u in toposort(roots))


def test_quotients_with_one_denominator_are_one_division():
    d = (x * x + y * y) * (x * x + y * y).sqrt()
    roots = [z * x / d, z * y / d, -(z / d)]
    new = one_division(roots)
    assert divisions(roots) == 3 and divisions(new) == 1
    env = {"x": 0.3, "y": -1.7, "z": 2.5}
    for a, b in zip(evaluate(roots, env), evaluate(new, env)):
        assert math.isclose(a, b, rel_tol=4e-16)


def test_a_lone_quotient_keeps_its_bits():
    roots = [x / y, y / z, x / 3.0, z / 3.0]
    assert all(a is b for a, b in zip(one_division(roots), roots))


def test_what_is_stepped_or_compared_on_is_divided_as_written():
    """49*(1/49) is less than 1."""
    roots = [(x / y).floor() + z / y, (x / y < 1.0).where(z / y, z)]
    new = evaluate(one_division(roots), {"x": 49.0, "y": 49.0, "z": 98.0})
    assert new[0] == 3.0 and new[1] == 98.0


def test_a_pair_of_bodies_is_one_root_and_one_division():
    @tp.hamiltonian
    def bodies(q: tp.Array[3, 3], p: tp.Array[3, 3], m: tp.Vec[3]):
        H = (p**2 / (2 * m[:, None])).sum()
        for k in (1, 2):
            H = H - (m[k:] * m[:-k] / tp.sqrt(((q[k:] - q[:-k]) ** 2).sum(axis=1))).sum()
        return H

    step = build_kernel(tp.compile(bodies, dt=0.01, backend="python").tpir).section("step")
    work = [u.op for u in toposort(step.roots)]
    assert work.count(Ops.SQRT) == 3 and work.count(Ops.DIV) == 3


def test_a_root_times_its_square_is_one_power():
    s = x * x + y * y + 1.0
    assert same(z / (s * s.sqrt()), z * s**-1.5) and same(1.0 / (3.0 * s * s.sqrt()), s**-1.5 / 3.0)
    assert not same(z / (s * s.sqrt()), z * s**-2.5) and not same(z / ((s + 1.0) * s.sqrt()), z * s**-1.5)
