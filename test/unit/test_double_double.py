"""Is what a jump is made of right?  Double-double numbers, eigenpairs, exact ranks and coefficients, matrices with a bound."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.analysis.stencil import stencils, uniform
from tinyphysics.device.linear import double_double as dd
from tinyphysics.device.linear.chebyshev import bessel
from tinyphysics.device.linear.double_double import DD
from tinyphysics.device.linear.eigen import eigen
from tinyphysics.device.linear.modes import step_matrix
from tinyphysics.device.linear.spectral import by_table
from tinyphysics.device.linear.rank import nullity, rank_in_whole_numbers, whole
from tinyphysics.physics.fields import wave
from tinyphysics.rules.calculus.affine import NotAffine
from tinyphysics.rules.calculus.hessian import hessian
from tinyphysics.rules.calculus.matrices import TooMany, exponential, power, sheared

ROOM = 2.0**-98


def of(x):
    """The numbers of a DD, with 60 digits."""
    return [mpmath.mpf(float(a)) + mpmath.mpf(float(b)) for a, b in zip(np.ravel(x.high), np.ravel(x.low))]


def numbers(rng, n, scale=1.0):
    return DD(*dd.two_sum(scale * rng.normal(size=n), scale * 2.0**-54 * rng.normal(size=n)))


# --- numbers --------------------------------------------------------------------------------------------
FUNCTIONS = {
    "add": (lambda a, b: a + b, lambda x, y: x + y),
    "sub": (lambda a, b: a - b, lambda x, y: x - y),
    "mul": (lambda a, b: a * b, lambda x, y: x * y),
    "div": (lambda a, b: a / b, lambda x, y: x / y),
    "sqrt": (lambda a, b: a.abs().sqrt(), lambda x, y: mpmath.sqrt(abs(x))),
    "sin": (lambda a, b: dd.circle(a)[0], lambda x, y: mpmath.sin(x)),
    "cos": (lambda a, b: dd.circle(a)[1], lambda x, y: mpmath.cos(x)),
    "1 - cos": (lambda a, b: dd.circle(a)[2], lambda x, y: 1 - mpmath.cos(x)),
    "sinh": (lambda a, b: dd.hyperbola(a.abs())[0], lambda x, y: mpmath.sinh(abs(x))),
    "1 - cosh": (lambda a, b: dd.hyperbola(a.abs())[2], lambda x, y: 1 - mpmath.cosh(abs(x))),
    "expm1": (lambda a, b: dd.expm1(a), lambda x, y: mpmath.expm1(x)),
    "area": (lambda a, b: dd.area(a.abs()), lambda x, y: mpmath.asinh(abs(x))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("scale", [0.7, 1e-6])
def test_a_function_has_thirty_digits(name, scale):
    rng = np.random.default_rng(0)
    a, b = numbers(rng, 200, scale), numbers(rng, 200, scale)
    ours, theirs = FUNCTIONS[name]
    with mpmath.workdps(60):
        for got, x, y in zip(of(ours(a, b)), of(a), of(b)):
            wanted = theirs(x, y)
            assert abs(got - wanted) <= ROOM * max(abs(wanted), abs(x) if name in ("add", "sub") else 0), (
                name,
                x,
                y,
            )


def test_an_angle_of_many_turns_is_reduced_without_a_loss():
    rng = np.random.default_rng(1)
    x = numbers(rng, 300, 1e10)
    rest = dd.turns(x)
    assert np.abs(rest.high).max() < 3.1416
    with mpmath.workdps(60):
        assert max(abs(mpmath.sin(a) - mpmath.sin(b)) for a, b in zip(of(rest), of(x))) < 1e-21


def test_an_angle_is_found_from_its_sine_and_cosine():
    with mpmath.workdps(60):
        wanted = [mpmath.mpf(k) / 100 for k in range(1, 157)]
        s, c = (
            DD(*map(np.array, zip(*(dd.of_fraction(Fraction(int(f(x) * 2**160), 2**160)) for x in wanted))))
            for f in (mpmath.sin, mpmath.cos)
        )
        assert max(abs(a - b) for a, b in zip(of(dd.angle(s, c)), wanted)) < 1e-30


def test_a_table_of_sines_and_a_short_series_have_thirty_digits():
    x = np.random.default_rng(3).uniform(0, np.pi / 2, 500)
    with mpmath.workdps(60):
        for found, f in zip(by_table(x), (mpmath.sin, mpmath.cos)):
            assert max(abs(a - f(mpmath.mpf(float(b)))) for a, b in zip(of(found), x)) < 1e-29


def test_a_product_of_matrices_is_exact_to_thirty_digits():
    rng = np.random.default_rng(2)
    a, b = numbers(rng, (7, 40)), numbers(rng, (40, 9), 1e8)
    with mpmath.workdps(60):
        A, B = mpmath.matrix(7, 40), mpmath.matrix(40, 9)
        for m, x in ((A, a), (B, b)):
            for k, v in enumerate(of(x)):
                m[k // x.shape[1], k % x.shape[1]] = v
        C = A * B
        for product in (dd.matmul(a, b), dd.dot(a, b)):
            assert max(abs(v - C[k // 9, k % 9]) for k, v in enumerate(of(product))) < 1e-20


# --- eigenpairs --------------------------------------------------------------------------------------------
def rotated(values, seed):
    q = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values),) * 2))[0]
    a = q @ np.diag(values) @ q.T
    return (a + a.T) / 2


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0, 3.0],
        [1.0, 1.0, 1.0, 2.0],
        [1.0, 1.0 + 1e-15, 1.0 + 1e-12, 1.0 + 1e-9, 5.0, 5.0],
        [0.0] * 5,
        [-3.0, 0.0, 0.0, 1e-8, 7.0],
        [4.0],
        list(np.linspace(1, 2, 33)),
        [1.0] * 20 + [1.0 + 1e-13] * 13,
    ],
)
def test_eigenpairs_are_right_to_twenty_six_digits_clusters_included(values):
    a = rotated(values, len(values))
    e = eigen(DD(a))
    assert e.wrong <= 1e-26 * max(1.0, np.abs(a).max()) and e.askew < 1e-26
    back = dd.matmul(e.vectors * e.values[None, :], e.vectors.T()) - DD(a)
    assert np.abs(back.high).max() <= max(e.wrong, 1e-300)
    assert (np.diff(e.values.high) >= 0).all()


def test_no_cluster_is_left_half_refined():
    """Three equal values and one apart, in many positions: some of them were off in the seventeenth digit."""
    for seed in range(120):
        a = rotated([1.0, 1.0, 1.0, 2.0] if seed % 2 else [1.0] * 5 + [1.0 + 1e-15], seed)
        e = eigen(DD(a))
        assert e.wrong < 1e-27 and e.askew < 1e-28


LARGE = {
    "apart": list(np.linspace(1, 2, 120)),
    "clusters": [1.0] * 40 + [1.0 + 1e-13] * 30 + [2.0] * 20 + list(np.linspace(3, 4, 30)),
    "one cluster of many": [1.0] * 110 + [2.0, 3.0],
    "all one": [1.0] * 100,
    "of many sizes": list(10.0 ** np.linspace(-6, 2, 110)),
}


@pytest.mark.parametrize("values", LARGE)
def test_matrices_of_many_rows_are_right_too(values):
    """Beyond the rows that are rotated: corrections with fewer products, and clusters as matrices of their own."""
    a = rotated(LARGE[values], 3)
    e = eigen(DD(a))
    size = max(LARGE[values])
    assert e.wrong <= 3e-26 * size and e.askew < 1e-26
    back = dd.matmul(e.vectors * e.values[None, :], e.vectors.T()) - DD(a)
    assert np.abs(back.high).max() <= e.wrong and (np.diff(e.values.high) >= 0).all()
    assert np.abs(e.values.high - np.sort(LARGE[values])).max() < 1e-13 * size


def test_a_gram_matrix_has_the_bits_of_the_product():
    rng = np.random.default_rng(4)
    x = DD(rng.normal(size=(30, 17)), 1e-17 * rng.normal(size=(30, 17)))
    one, other = dd.gram(x), dd.matmul(x.T(), x)
    assert np.array_equal(one.high, other.high) and np.array_equal(one.low, other.low)


# --- exact -------------------------------------------------------------------------------------------------
def test_a_null_space_is_counted_exactly():
    chain = [{0: 0.1, 1: -0.1}, {0: -0.1, 1: Fraction(0.1) + Fraction(0.2), 2: -0.2}, {1: -0.2, 2: 0.2}]
    assert nullity(chain, 3) == 1
    chain[1][1] = 0.1 + 0.2  # rounded: no longer the sum of its neighbours
    assert nullity(chain, 3) == 0
    assert nullity([{}] * 4, 4) == 4 and nullity([{0: 1}], 1) == 0
    big = [
        {0: 10**12 + 39, 1: 3 * 10**12 + 7},
        {0: 2 * 10**12 + 78, 1: 6 * 10**12 + 14},
    ]  # its vector is no small fraction
    assert nullity(big, 2) == 1
    rng = np.random.default_rng(0)
    for rank in (1, 3, 5):
        left, right = rng.integers(-3, 4, size=(2, 6, rank))
        a = left @ right.T
        rows = [{k: int(x) for k, x in enumerate(row) if x} for row in a]
        assert nullity(rows, 6) == 6 - np.linalg.matrix_rank(a) == 6 - rank_in_whole_numbers(whole(rows), 6)


@tp.hamiltonian
def everything(q: tp.Vec[3], p: tp.Vec[3], k: tp.Vec[3], a: float = 2.0):
    return (
        p @ p / (2 * a)
        + (k * q * q).sum() * tp.sqrt(a)
        + (q @ p) / 3
        + 3 * q[0]
        + tp.sin(a) * p[1]
        + a**1.5 * q[0] * q[1]
    )


def test_coefficients_are_exact_and_functions_of_parameters_have_sixty_digits():
    h = hessian(everything.energy, everything.q, everything.p, {"k": [1.0, 2.0, 0.1], "a": [4.0]})
    assert h.rows[3] == {0: Fraction(1, 3), 3: Fraction(1, 4)} or h.rows[3][3] == Fraction(1, 4)
    assert h.rows[2][2] == 4 * Fraction(0.1) and h.rows[0][1] == 8 and h.mixes
    assert h.linear[0] == 3 and h.linear[2] == 0
    with mpmath.workdps(70):
        assert (
            abs(mpmath.mpf(h.linear[4].numerator) / h.linear[4].denominator - mpmath.sin(4))
            < mpmath.mpf(10) ** -55
        )
        root = hessian(
            everything.energy, everything.q, everything.p, {"k": [1.0, 2.0, 3.0], "a": [2.0]}
        ).rows[0][0]
        assert abs(mpmath.mpf(root.numerator) / root.denominator - 2 * mpmath.sqrt(2)) < mpmath.mpf(10) ** -55


@pytest.mark.parametrize(
    ("a", "says"),
    [
        (-1.0, "power of a number that is not above 0|root of a negative"),
        (0.0, "a divisor is 0"),
        (20.0, "beyond 10"),
    ],
)
def test_what_has_no_exact_coefficient_is_refused(a, says):
    with pytest.raises(NotAffine, match=says):
        hessian(everything.energy, everything.q, everything.p, {"k": [1.0, 2.0, 3.0], "a": [a]})


def test_a_stencil_is_a_row_of_the_hessian():
    system = wave.bind({"h": 4, "w": 6})
    given = {"c": [0.7], "mass": [0.2], "dx": [0.3]}
    found = stencils(uniform(system), system, given)
    rows = hessian(system.energy, system.q, system.p, given).rows
    site = {(i % 4) * 6 + j % 6: w for (i, j), w in found.stiffness.items()}
    assert site == rows[0] and found.inverse_mass == {(0, 0): 1} and found.force == 0


# --- matrices in whole numbers -----------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(6))
def test_an_exponential_and_a_power_keep_their_bounds(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    a = rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-3, 1)
    if seed == 3:
        a = np.triu(a, 1)  # a power of it is 0
    t = Fraction(float(rng.choice([0.25, 3.0, 60.0])))
    exact = [[Fraction(float(x)) for x in row] for row in a]
    with mpmath.workdps(400):
        A = mpmath.matrix([[mpmath.mpf(float(x)) for x in row] for row in a])
        for got, wanted in (
            (exponential(exact, t), mpmath.expm(A * (mpmath.mpf(t.numerator) / t.denominator))),
            (power([sheared(exact, Fraction(1, 64))] * 2, 77), (mpmath.eye(n) + A / 64) ** 154),
        ):
            assert got.error * 2**160 <= 2**got.bits
            off = max(
                abs(mpmath.mpf(got.rows[i][j]) / mpmath.mpf(2) ** got.bits - wanted[i, j])
                for i in range(n)
                for j in range(n)
            )
            assert off <= mpmath.mpf(got.error) / mpmath.mpf(2) ** got.bits


def test_what_needs_too_many_bits_says_so():
    with pytest.raises(TooMany):
        exponential([[Fraction(1)]], Fraction(10**9))


# --- small parts ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("r", [0.01, 1.0, 30.0, 1000.0])
def test_bessel_functions(r):
    found = bessel(r)
    with mpmath.workdps(30):
        for k in {0, 1, 2, len(found) // 2, len(found) - 1}:
            assert abs(found[k] - mpmath.besselj(k, r)) < 1e-14 * max(1.0, r / 30)


@pytest.mark.parametrize(
    ("sequence", "limit"),
    [
        ([("V", 0.5), ("T", 1.0), ("V", 0.5)], 2.0),
        ([("T", 1.0), ("V", 1.0)], 2.0),
        ([("V", 0.25), ("T", 0.5), ("V", 0.5), ("T", 0.5), ("V", 0.25)], 4.0),
    ],
)
def test_the_limit_of_a_method_is_where_it_stops_turning(sequence, limit):
    m = step_matrix([(part, Fraction(w)) for part, w in sequence])
    assert m.limit() == pytest.approx(limit, abs=2e-3)
