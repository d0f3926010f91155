"""Does every scheme have its order?  Slopes of the state error on Hénon–Heiles, in 50 digits, weights unrounded."""

from __future__ import annotations

import functools
import math

import mpmath
import pytest

from tinyphysics.planner.methods.stability import half_trace, of_splitting
from tinyphysics.synth.coefficients.schemes import SCHEMES, palindrome

T = 2  # the time of all runs
START = ("0.1", "0.3", "0.2", "-0.4")  # q, p: energy 0.14, bounded
DIGITS = 50


def force(x, y):
    return -x - 2 * x * y, -y - x * x + y * y


def gradient_of_force(x, y):
    """grad(F . F) = 2 F' F."""
    f, g = force(x, y)
    return 2 * ((-1 - 2 * y) * f - 2 * x * g), 2 * (-2 * x * f + (-1 + 2 * y) * g)


def moves_of(name):
    """A composition is taken of drift-kick-drift leapfrogs."""
    out = []
    for move, w in palindrome(name):
        w = mpmath.mpf(str(w))
        out += [("T", w / 2), ("V", w), ("T", w / 2)] if move == "S" else [(move, w)]
    return out


def run(moves, steps, eps=1):
    """The state after T; A is the oscillators of x**2 + y**2 in p and q, B the cubic terms times eps."""
    x, y, u, v = map(mpmath.mpf, START)
    h = mpmath.mpf(T) / steps
    turns = {w: (mpmath.cos(w * h), mpmath.sin(w * h)) for move, w in moves if move == "A"}
    for _ in range(steps):
        for move, w in moves:
            if move == "T":
                x, y = x + h * w * u, y + h * w * v
            elif move == "V":
                f, g = force(x, y)
                u, v = u + h * w * f, v + h * w * g
            elif move == "W":
                f, g = gradient_of_force(x, y)
                u, v = u + h**3 * w * f, v + h**3 * w * g
            elif move == "A":
                c, s = turns[w]
                x, y, u, v = c * x + s * u, c * y + s * v, c * u - s * x, c * v - s * y
            else:
                u, v = u - h * w * eps * 2 * x * y, v - h * w * eps * (x * x - y * y)
    return x, y, u, v


@functools.cache
def exact():
    return run(moves_of("sofroniou_spaletta10"), 48)


def slope(errors):
    return math.log2(errors[0] / errors[1])


@pytest.mark.requirement("S2-42")
@pytest.mark.parametrize("scheme", [s for s in SCHEMES if s.kind != "near-integrable"], ids=lambda s: s.name)
def test_the_state_error_falls_with_the_order(scheme):
    with mpmath.workdps(DIGITS):
        moves, finest = moves_of(scheme.name), {2: 64, 4: 24, 6: 12, 8: 8, 10: 8}[scheme.order]
        errors = [max(abs(a - b) for a, b in zip(run(moves, n), exact())) for n in (finest, 2 * finest)]
    assert scheme.order - 0.2 <= slope(errors) <= scheme.order + 0.5, errors


@pytest.mark.parametrize("scheme", [s for s in SCHEMES if s.kind == "near-integrable"], ids=lambda s: s.name)
def test_the_error_of_a_small_perturbation_falls_with_its_own_order(scheme):
    """With eps = 1e-20 the error over eps falls as h**n1; with eps = 1 it falls as the last of the orders."""
    with mpmath.workdps(80):
        moves = moves_of(scheme.name)
        for eps, order, n in [
            (mpmath.mpf("1e-20"), scheme.orders[0], 4),
            (mpmath.mpf(1), scheme.orders[-1], 16),
        ]:
            best = run(moves_of("aba1064") if order > 4 else moves, 8 * n, eps)
            errors = [max(abs(a - b) for a, b in zip(run(moves, m, eps), best)) / eps for m in (n, 2 * n)]
            assert order - 0.2 <= slope(errors) <= order + 0.5, (eps, errors)


def test_a_gradient_of_the_wrong_sign_has_the_order_of_its_kicks_only():
    with mpmath.workdps(DIGITS):
        moves = [(move, -w if move == "W" else w) for move, w in moves_of("chin4a")]
        errors = [max(abs(a - b) for a, b in zip(run(moves, n), exact())) for n in (24, 48)]
    assert slope(errors) == pytest.approx(2, abs=0.2)


@pytest.mark.parametrize("name", ["blanes_moan4", "blanes_moan_nystrom6", "kahan_li8"])
def test_an_oscillator_grows_above_the_limit_and_not_below(name):
    """High orders first grow near half a period a step, in a narrow band of steps."""
    moves = [(m, float(w)) for m, w in moves_of(name)]
    limit = of_splitting(moves)
    assert max(abs(half_trace(moves, limit * k / 5_000)) for k in range(5_000)) <= 1 + 1e-9
    assert abs(half_trace(moves, limit * (1 + 1e-7))) > 1
