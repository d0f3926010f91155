"""Is H of degree 2 or less, and with which matrix?  A table of energies, and what each becomes."""

from fractions import Fraction

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.analysis.quadratic import polynomial, quadratic
from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.affine import Affine, NotAffine, affine
from tinyphysics.rules.calculus.hessian import hessian
from tinyphysics.runtime.engines import propagators


def scalar(f):
    def H(q, p, a: float = 2.0, b: float = 3.0):
        return f(q, p, a, b)

    return tp.hamiltonian(H)


# fmt: off
DEGREES = [
    (lambda q, p, a, b: a + 0 * q,                          1),   # an upper bound: what cancels is still counted
    (lambda q, p, a, b: q,                                  1),
    (lambda q, p, a, b: q + p,                              1),
    (lambda q, p, a, b: a * q - b * p,                      1),
    (lambda q, p, a, b: q / a,                              1),
    (lambda q, p, a, b: -q,                                 1),
    (lambda q, p, a, b: tp.sin(a) * q,                      1),   # a sine of what is no state has degree 0
    (lambda q, p, a, b: tp.exp(tp.sqrt(a) + b) * p,         1),
    (lambda q, p, a, b: tp.where(a < b, a, b) * q,          1),
    (lambda q, p, a, b: q * p,                              2),
    (lambda q, p, a, b: q**2,                               2),
    (lambda q, p, a, b: (q + p)**2,                         2),
    (lambda q, p, a, b: (q - a) * (p + b),                  2),
    (lambda q, p, a, b: p**2 / 2 + a * q**2 / 2,            2),
    (lambda q, p, a, b: p**2 / (2 * a) - b * q,             2),
    (lambda q, p, a, b: (q * a)**2 / b,                     2),
    (lambda q, p, a, b: q * q + a**1.5 * p,                 2),
    (lambda q, p, a, b: (p - tp.log(a) * q)**2,             2),
    (lambda q, p, a, b: q**1 * p**1 + q**0,                 2),
    (lambda q, p, a, b: q**3,                               3),
    (lambda q, p, a, b: q**3 - q**3,                        3),   # and so is a missed yes possible, never a wrong one
    (lambda q, p, a, b: q**2 * p,                           3),
    (lambda q, p, a, b: q**2 * p**2,                        4),
    (lambda q, p, a, b: (q**2)**2 / 4,                      4),
    (lambda q, p, a, b: tp.sin(q),                       None),
    (lambda q, p, a, b: 1 / q,                           None),
    (lambda q, p, a, b: q**0.5,                          None),
    (lambda q, p, a, b: q**-1,                           None),
    (lambda q, p, a, b: tp.exp(p) + q**2,                None),
    (lambda q, p, a, b: abs(q),                          None),
    (lambda q, p, a, b: a**q,                            None),
    (lambda q, p, a, b: tp.where(q < 1, q, p),           None),
    (lambda q, p, a, b: tp.sqrt(p**2 + 1),               None),
]
# fmt: on


@pytest.mark.requirement("S2-02")
@pytest.mark.parametrize(("f", "degree"), DEGREES)
def test_the_degree_is_bounded_or_none(f, degree):
    system = scalar(lambda q, p, a, b: f(q, p, a, b) + 0 * p * a)  # without a momentum nothing would move
    found = polynomial(system)
    assert bool(found) == (degree is not None)
    if degree is not None:
        assert found.degree == degree
    assert bool(quadratic(system)) == (degree is not None and degree <= 2)


@tp.hamiltonian
def whole(q: tp.Vec[2], p: tp.Vec[2], a: float = 0.1, b: float = 0.3):
    return a * q[0] ** 2 + (q[0] - 2 * p[1]) ** 2 / 2 + b * q[1] * p[0] + p @ p / 3 + 5 * q[1] - p[0] / b + 7


@pytest.mark.requirement("S2-03")
def test_the_hessian_has_its_cross_blocks_and_the_linear_part_exactly():
    a, b = Fraction(0.1), Fraction(0.3)
    h = hessian(whole.energy, whole.q, whole.p, {"a": [0.1], "b": [0.3]})
    third = Fraction(2, 3)
    assert h.rows == [{0: 2 * a + 1, 3: -2}, {2: b}, {1: b, 2: third}, {0: -2, 3: 4 + third}]
    assert h.linear == [0, 5, -1 / b, 0]
    symbolic = quadratic(whole)
    assert symbolic and len(symbolic.hessian) == 4  # and as expressions of the parameters, for few components


@tp.hamiltonian
def arrays(u: tp.Array[3, 4], v: tp.Array[3, 4], k: tp.Vec[4]):
    bonds = u[1:] - u[:-1]
    return (
        (v**2).sum() / 2
        + (bonds**2).sum() / 2
        + (k * (u[:, 1:] - u[:, :-1]).sum() ** 2).sum()
        + (u[0] * k).sum()
    )


@pytest.mark.requirement("S2-03")
def test_the_hessian_of_arrays_is_that_of_finite_differences():
    """Of a quadratic energy differences are exact but for rounding."""
    k = np.array([0.5, 1.0, 2.0, 0.25])
    h = hessian(arrays.energy, arrays.q, arrays.p, {"k": list(k)})
    sim = tp.compile(arrays, 0.1, propagator="loop")
    rng = np.random.default_rng(0)
    z, e = rng.normal(size=(2, 24))

    def energy(x):
        return sim.evolve(u=x[:12].reshape(3, 4), v=x[12:].reshape(3, 4), k=k, steps=0).energy[0]

    second = energy(z + e) - 2 * energy(z) + energy(z - e)
    wanted = sum(float(c) * e[i] * e[j] for i, row in enumerate(h.rows) for j, c in row.items())
    assert second == pytest.approx(wanted, rel=1e-12)
    first = (energy(e) - energy(-e)) / 2
    assert first == pytest.approx(sum(float(c) * x for c, x in zip(h.linear, e)), rel=1e-12)


@pytest.mark.parametrize(
    "f", [lambda q, p, a, b: q**3, lambda q, p, a, b: -tp.cos(q), lambda q, p, a, b: -1 / q]
)
def test_what_is_not_quadratic_has_no_constant_hessian(f):
    system = scalar(lambda q, p, a, b: p**2 / 2 + f(q, p, a, b))
    assert not quadratic(system)
    with pytest.raises(NotAffine):
        hessian(system.energy, system.q, system.p, {"a": [2.0], "b": [3.0]})


def test_many_modes_are_announced(caplog):
    n = propagators.MANY

    @tp.hamiltonian
    def chain(q: tp.Vec[n], p: tp.Vec[n]):
        d = q[1:] - q[:-1]
        return p @ p / 2 + d @ d / 2 + q[0] ** 2 / 2

    sim = tp.compile(chain, dt=0.1, propagator="exact")
    for _ in range(2):
        sim.evolve(q=np.ones(n), p=np.zeros(n), steps=10, frames=2)
    told = [r.message for r in caplog.records if "modes of" in r.message]
    assert len(told) == 1 and "takes some seconds (Ctrl-C ends it)" in told[0]


def test_a_sum_of_forms_is_exact_in_any_order():
    a, b = UOp.var("a", shape=(7, 40)), UOp.var("b", shape=(40,))
    numbers = [Fraction(k * k % 17 - 8, 3 + k % 5) for k in range(280)]
    env = {"a": numbers, "b": [Affine(k, {k % 3: 1}) for k in range(40)]}
    products = a * b.expand((7, 40))
    (found,) = affine([products.sum(1)], env)
    for i, form in enumerate(found):
        row = [(numbers[40 * i + k], k) for k in range(40)]
        terms = {j: sum(x for x, k in row if k % 3 == j) for j in range(3)}
        assert form.constant == sum(x * k for x, k in row)
        assert form.terms == {j: c for j, c in terms.items() if c}
