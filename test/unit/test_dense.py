"""Small linear systems inside an energy: as accurate as their condition allows, with exact derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.ir import UOp, evaluate
from tinyphysics.rules.calculus.vjp import gradient

EPS = 2.0**-52


def matrix(n, condition, seed):
    rng = np.random.default_rng([n, seed])
    u, _ = np.linalg.qr(rng.normal(size=(n, n)))
    v, _ = np.linalg.qr(rng.normal(size=(n, n)))
    return u @ np.diag(np.geomspace(1, 1 / condition, n)) @ v


@pytest.mark.parametrize("n", range(2, 7))
@pytest.mark.parametrize("condition", [1.0, 1e4, 1e8, 1e12])
def test_the_error_is_that_of_the_condition(n, condition):
    a = UOp.var("a", (n, n))
    roots = [np.linalg.solve(a, UOp.var("b", (n,))), np.linalg.inv(a), np.linalg.det(a)]
    for seed in range(10):
        m = matrix(n, condition, seed)
        x = np.random.default_rng(seed).normal(size=n)
        got = evaluate(roots, {"a": m.ravel().tolist(), "b": (m @ x).tolist()})
        for value, exact in zip(got, (np.linalg.solve(m, m @ x), np.linalg.inv(m), np.linalg.det(m))):
            assert (
                np.abs(np.reshape(value, np.shape(exact)) - exact).max()
                <= 16 * n * condition * EPS * np.abs(exact).max()
            )


def test_a_pivot_of_zero_is_exchanged():
    m = np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, 2]])
    a = UOp.var("a", (3, 3))
    env = {"a": m.ravel().tolist()}
    assert evaluate([np.linalg.det(a)], env) == [-2.0]
    assert np.array_equal(np.reshape(evaluate([np.linalg.inv(a)], env)[0], (3, 3)), np.linalg.inv(m))


@pytest.mark.parametrize("n", [2, 3, 5])
def test_derivatives_are_those_of_the_textbook(n):
    """d det = det * inv^T, and d (c . inv b) = -(inv^T c)(inv b)^T."""
    m = matrix(n, 10.0, 0)
    a, b, c = UOp.var("a", (n, n)), np.arange(1.0, n + 1), np.ones(n)
    env = {"a": m.ravel().tolist()}
    (slope,) = gradient(np.linalg.det(a), [a])
    assert np.allclose(
        np.reshape(evaluate([slope], env)[0], (n, n)), np.linalg.det(m) * np.linalg.inv(m).T, rtol=1e-12
    )
    (slope,) = gradient((np.linalg.solve(a, b) * c).sum(), [a])
    expected = -np.outer(np.linalg.solve(m.T, c), np.linalg.solve(m, b))
    assert np.allclose(np.reshape(evaluate([slope], env)[0], (n, n)), expected, rtol=1e-11)


def test_several_right_sides_and_matrices():
    a = UOp.var("a", (3, 3))
    m = matrix(3, 10.0, 1)
    x = np.linalg.solve(a, np.arange(6.0).reshape(3, 2))
    assert np.allclose(
        np.reshape(evaluate([x], {"a": m.ravel().tolist()})[0], (3, 2)),
        np.linalg.solve(m, np.arange(6.0).reshape(3, 2)),
    )
    many = np.stack([m, matrix(3, 10.0, 2)])
    d = np.linalg.det(UOp.var("a", (2, 3, 3)))
    assert np.allclose(evaluate([d], {"a": many.ravel().tolist()})[0], np.linalg.det(many))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: np.linalg.det(UOp.var("a", (2, 3))),
        lambda: np.linalg.inv(UOp.var("a", (7, 7))),
        lambda: np.linalg.solve(UOp.var("a", (3, 3)), np.ones(2)),
    ],
)
def test_what_is_not_written_out_is_an_error(wrong):
    with pytest.raises(tp.ShapeError):
        wrong()


def test_a_mass_matrix_of_two_angles_leaves_the_energy_smooth():
    @tp.hamiltonian
    def double_pendulum(q: tp.Vec[2], p: tp.Vec[2]):
        c = np.cos(q[0] - q[1])
        mass = np.stack([np.stack([2 + 0 * c, c]), np.stack([c, 1 + 0 * c])])
        return p @ np.linalg.solve(mass, p) / 2 - 2 * np.cos(q[0]) - np.cos(q[1])

    q = [0.3, 0.4]
    c = np.cos(q[0] - q[1])
    mass = np.array([[2.0, c], [c, 1.0]])
    (value,) = evaluate([double_pendulum.energy], {"q": q, "p": [1.0, 2.0]})
    expected = np.array([1.0, 2.0]) @ np.linalg.solve(mass, [1.0, 2.0]) / 2 - 2 * np.cos(0.3) - np.cos(0.4)
    assert abs(value - expected) < 1e-14
