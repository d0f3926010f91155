"""Is the algebra of compositions right?  Identities, dimensions from the literature, and matrices that do not commute."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import mpmath
import pytest

from tinyphysics.synth.coefficients.bch import bch, log_product, symmetric_bch
from tinyphysics.synth.coefficients.lie import (
    NYSTROM,
    THREE,
    TWO,
    add,
    basis,
    bracket,
    coordinates,
    expanded,
    ideal,
    independent,
    letter,
    modulo,
    multiply,
    nested,
    symmetric_powers,
)


def lie_element(rng, alphabet, weight):
    out = {}
    for w in basis(alphabet, weight):
        out = add(out, expanded(w), Fraction(rng.randint(-9, 9), rng.randint(1, 5)))
    return out


@pytest.mark.parametrize("alphabet", [TWO, THREE, symmetric_powers(6)])
def test_brackets_are_antisymmetric_and_satisfy_jacobi(alphabet):
    rng = random.Random(1)
    for weights in [(1, 1, 1), (1, 3, 1), (3, 1, 2)]:
        x, y, z = (lie_element(rng, alphabet, n) for n in weights)
        assert add(bracket(x, y), bracket(y, x)) == {}
        turns = [bracket(a, bracket(b, c)) for a, b, c in ((x, y, z), (y, z, x), (z, x, y))]
        assert add(add(turns[0], turns[1]), turns[2]) == {}


@pytest.mark.parametrize("alphabet", [TWO, THREE])
def test_coordinates_give_the_element_back(alphabet):
    rng = random.Random(2)
    for n in range(1, 6):
        x = lie_element(rng, alphabet, n)
        back = {}
        for w, c in coordinates(x).items():
            back = add(back, expanded(w), c)
        assert back == x
        assert nested(coordinates(x), 1) == coordinates(bracket(x, letter(1)))


def test_what_is_no_lie_polynomial_has_no_coordinates():
    with pytest.raises(ValueError, match="not a Lie polynomial"):
        coordinates(multiply(letter(1), letter(0)))


def moebius(n):
    out, k = 1, 2
    while n > 1:
        if n % k == 0:
            n //= k
            out = -out
            if n % k == 0:
                return 0
        k += 1
    return out


@pytest.mark.parametrize("alphabet, letters", [(TWO, 2), (THREE, 3)])
def test_the_dimensions_are_those_of_witt(alphabet, letters):
    for n in range(1, 8 if letters == 2 else 6):
        witt = sum(moebius(d) * letters ** (n // d) for d in range(1, n + 1) if n % d == 0) // n
        assert len(basis(alphabet, n)) == witt


def test_the_dimensions_for_a_quadratic_kinetic_energy_are_the_published_ones():
    """McLachlan and Murua 2019, J. Comput. Dyn. 6, 345: 2, 1, 2, 2, 4, 5, 10, 14, 25."""
    assert [len(independent(NYSTROM, n)) for n in range(1, 10)] == [2, 1, 2, 2, 4, 5, 10, 14, 25]


def test_the_dimensions_for_symmetric_compositions_are_the_published_ones():
    """Conditions of odd weight, 1, 1, 2, 4, 8: orders 4, 6, 8, 10 need 2, 4, 8, 16 (McLachlan 1995)."""
    assert [len(basis(symmetric_powers(10), n)) for n in (1, 3, 5, 7, 9)] == [1, 1, 2, 4, 8]


def test_three_kicks_of_one_drift_vanish_and_so_does_what_contains_them():
    t, v = letter(0), letter(1)
    three = bracket(v, bracket(v, bracket(v, t)))
    assert modulo(NYSTROM, coordinates(three)) == {} != modulo(TWO, coordinates(three))
    around = bracket(t, bracket(bracket(t, v), three))
    assert coordinates(around) and modulo(NYSTROM, coordinates(around)) == {}
    assert modulo(NYSTROM, coordinates(bracket(v, bracket(v, t)))) != {}
    for n in range(2, 8):  # the rows of the ideal themselves
        assert all(modulo(NYSTROM, dict(row)) == {} for _, row in ideal(NYSTROM, n))


# --- the series ---------------------------------------------------------------------------------------
def test_the_series_has_the_coefficients_of_the_literature():
    """[A, [A, B]]/12 + [[A, B], B]/12 + [A, [[A, B], B]]/24, and of weight 5 Goldberg's -1/720."""
    series = {w: c for w, c in bch(5).items()}
    third = {(0, 0, 1): Fraction(1, 12), (0, 1, 1): Fraction(1, 12)}
    assert {w: c for w, c in series.items() if len(w) == 3} == third
    assert {w: c for w, c in series.items() if len(w) == 4} == {(0, 0, 1, 1): Fraction(1, 24)}
    assert series[(0, 0, 0, 0, 1)] == series[(0, 1, 1, 1, 1)] == Fraction(-1, 720)


def test_the_symmetric_series_has_odd_weights_only():
    series = symmetric_bch(6)
    assert {len(w) for w in series} == {1, 3, 5}
    assert series[(0, 0, 1)] == Fraction(-1, 24) and series[(0, 1, 1)] == Fraction(1, 12)
    assert series[(0, 0, 0, 0, 1)] == Fraction(7, 5760) and series[(0, 1, 1, 1, 1)] == Fraction(-1, 720)


def test_what_was_multiplied_cancels():
    x = {(0,): Fraction(1), (1,): Fraction(-2, 3)}
    minus = {w: -c for w, c in x.items()}
    assert log_product(TWO, [letter(1), x, minus], 6) == letter(1)


def matrix(x, images):
    """A noncommutative polynomial with matrices for its letters."""
    out = mpmath.zeros(3)
    for w, c in x.items():
        term = mpmath.eye(3)
        for k in w:
            term = term * images[k]
        out += mpmath.mpf(c.numerator) / c.denominator * term
    return out


def test_the_series_agrees_with_exponentials_of_matrices():
    rng = random.Random(3)
    with mpmath.workdps(60):
        a, b = (
            mpmath.matrix(
                3,
                3,
            )
            for _ in range(2)
        )
        for m, i, j in itertools.product((a, b), range(3), range(3)):
            m[i, j] = rng.randint(-9, 9)
        misses = []
        for h in (mpmath.mpf(1) / 2000, mpmath.mpf(1) / 4000):
            images = [a * h, b * h]
            product = mpmath.expm(images[0], method="taylor") * mpmath.expm(images[1], method="taylor")
            one = {}
            for w, c in bch(6).items():
                one = add(one, expanded(w), c)
            misses.append(mpmath.mnorm(mpmath.expm(matrix(one, images), method="taylor") - product))
        assert misses[0] > 1e-30  # there is something to see
        assert mpmath.log(misses[0] / misses[1], 2) == pytest.approx(7, abs=0.1)
