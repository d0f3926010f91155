"""Are many phases at once right to 30 digits, and coefficients exact where they must be?"""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.device.linear.bounded import Bounded
from tinyphysics.device.linear.double_double import DD
from tinyphysics.device.linear.few_modes import turned
from tinyphysics.device.linear.phases import BLOCK, PARTS, circle, table
from tinyphysics.rules.calculus.laurent import curvatures, rank


def exactly(x, k):
    return mpmath.mpf(float(x.high[k])) + mpmath.mpf(float(x.low[k]))


@pytest.mark.parametrize("size", [1e-12, 1e-3, 1.0, 1e3, 1e9, 2.0**44])
def test_a_phase_of_any_size_has_its_sine_and_cosine(size):
    rng = np.random.default_rng(0)
    high = rng.uniform(-size, size, 40)
    x = DD(high, high * rng.uniform(-1, 1, 40) * 2.0**-54)
    found = circle(x)
    with mpmath.workdps(60):
        for k in range(40):
            phase = exactly(x, k)
            off = 2.0**-104 + abs(phase) * 2.0**-106
            for part, wanted in zip(found, (mpmath.sin(phase), mpmath.cos(phase), 1 - mpmath.cos(phase))):
                assert abs(exactly(part, k) - wanted) < off
            if size < 1:  # small ones are right relative to themselves
                assert abs(exactly(found[2], k) / (1 - mpmath.cos(phase)) - 1) < 2.0**-96


def test_every_part_of_a_turn_is_in_the_table():
    with mpmath.workdps(50):
        for j in range(0, PARTS, 7):
            a = 2 * mpmath.pi * j / PARTS
            rows = table()[:, j]
            for k, wanted in enumerate((mpmath.sin(a), mpmath.cos(a), 1 - mpmath.cos(a))):
                assert abs(mpmath.mpf(rows[2 * k]) + mpmath.mpf(rows[2 * k + 1]) - wanted) < 2.0**-105


def test_a_phase_has_the_same_bits_wherever_it_stands():
    x = np.random.default_rng(1).uniform(0, 1e6, 2 * BLOCK + 3)
    s, c, less = circle(DD(x))
    for k in (0, BLOCK - 1, BLOCK, 2 * BLOCK + 2):
        one = circle(DD(x[k : k + 1]))
        assert all(a.high[k] == b.high[0] and a.low[k] == b.low[0] for a, b in zip((s, c, less), one))
    shaped = circle(DD(x[:12].reshape(3, 4)))
    assert np.array_equal(shaped[0].low, s.low[:12].reshape(3, 4))


def test_two_by_two_matrices_are_taken_apart():
    rng = np.random.default_rng(2)
    a, b = DD(rng.normal(size=(2, 50))), DD(rng.normal(size=50))
    b.high[:3] = 0.0
    a.high[1, 3], b.high[3] = a.high[0, 3], 1e-20  # equal, and nearly uncoupled
    values, vectors, wrong = turned(a, b)
    assert np.isfinite(wrong).all()
    with mpmath.workdps(50):
        for k in range(50):
            m = mpmath.matrix([[a.high[0, k], b.high[k]], [b.high[k], a.high[1, k]]])
            exact = sorted(mpmath.eigsy(m, eigvals_only=True))
            found = sorted(exactly(values[j], k) for j in (0, 1))
            assert max(abs(x - y) for x, y in zip(exact, found)) <= wrong[k]
            v = mpmath.matrix(2, 2)
            for i in (0, 1):
                for j in (0, 1):
                    v[i, j] = exactly(vectors[i, j], k)
            assert mpmath.mnorm(v.T * v - mpmath.eye(2)) < 2.0**-98


def test_a_bound_holds_and_a_sum_that_cancels_is_not_known():
    x, y = Bounded(DD(np.array([0.1, 3.0]))), Bounded(DD(np.array([0.2, 3.0])))
    z = (x * x + y.inverse()) * y.root()
    with mpmath.workdps(50):
        for k in (0, 1):
            a, b = mpmath.mpf(float(x.value.high[k])), mpmath.mpf(float(y.value.high[k]))
            assert abs(exactly(z.value, k) - (a * a + 1 / b) * mpmath.sqrt(b)) <= z.off[k]
    assert z.known.all()
    less = y + x * Bounded.of(Fraction(-1))
    assert less.known.tolist() == [True, False]


def test_coefficients_are_sums_of_products_of_powers():
    @tp.hamiltonian
    def linked(q: tp.Vec[3], p: tp.Vec[3], a: float = 1.0, b: float = 2.0, m: tp.Vec[3] = (1.0, 1.0, 1.0)):
        ends = a * (q[1] - q[0]) ** 2 + tp.sqrt(b) * (q[2] - q[1]) ** 2 + a * b / (a + b) * (q[2] - q[0]) ** 2
        return (p * p / m).sum() / 2 + ends / 2 + b * q[0]

    found = curvatures(linked.energy, linked.q, linked.p, [x.var for x in linked.parameters])
    assert found.components() == [[0, 1, 2]] and found.masses_apart()
    assert found.still([0, 1, 2]) == 1  # it flies as a whole, whatever the springs are
    assert (found.inverse_mass[1][1] - 1 / found.inverse_mass[1][1].raised(-1)) == 0
    assert rank([[Fraction(1), Fraction(2)], [Fraction(2), Fraction(4)]]) == 1


def test_what_is_no_such_sum_is_left_to_others():
    @tp.hamiltonian
    def odd(q, p, a: float = 1.0):
        return p**2 / 2 + tp.tanh(a) * q**2 / 2

    assert curvatures(odd.energy, odd.q, odd.p, [x.var for x in odd.parameters]) is None
    assert tp.compile(odd, 0.1).compiled.known.way == "loop"
