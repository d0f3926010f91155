"""Brackets that a user writes as J(z): proved, refuted with the place, or run without a certificate."""

import numpy as np
import pytest

import tinyphysics as tp


def lotka_volterra(z, k=1.0):
    return [[0.0, k * z[0] * z[1]], [-k * z[0] * z[1], 0.0]]


@tp.hamiltonian(bracket=lotka_volterra)
def prey(z: tp.Vec[2], a=1.0, b=1.0):
    return z[0] - a * tp.log(z[0]) + z[1] - b * tp.log(z[1])


@tp.hamiltonian(bracket=lambda z: [[0.0, 2.0, 0.0], [-2.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
def constant(z: tp.Vec[3]):
    return z @ z / 2 + z[0] ** 4


def refused(J, n=3):
    with pytest.raises(tp.VerifyError) as caught:

        @tp.hamiltonian(bracket=J)
        def energy(z: tp.Vec[n]):
            return z @ z / 2

        tp.compile(energy, dt=0.1)
    return str(caught.value)


def test_v_cross_grad_h_is_a_bracket_only_where_v_has_no_helicity():
    """z' = v x grad H with v = (-y, x, 1): v . curl v = 2."""
    told = refused(lambda z: [[0.0, -1.0, z[0]], [1.0, 0.0, z[1]], [-z[0], -z[1], 0.0]])
    assert "Jacobi's identity" in told and "is -2 for i = 0, j = 1, k = 2" in told


def test_a_matrix_that_is_not_skew_is_refused_with_its_place():
    told = refused(lambda z: [[0.0, z[0]], [z[0], 0.0]], n=2)
    assert "not skew" in told and "2*z[0]" in told and "i = 0, j = 1" in told


def test_an_identity_that_is_proved_is_said_and_the_motion_is_right():
    sim = tp.compile(prey, dt=0.01)
    assert "obeys Jacobi's identity" in str(sim.explain("full"))
    exact = tp.compile(prey, dt=0.1, method="taylor").evolve(z=[1.2, 0.7], steps=20).final.z
    assert np.abs(sim.evolve(z=[1.2, 0.7], steps=200).final.z - exact).max() < 2e-5


def test_a_bracket_that_depends_on_the_state_is_not_certified_and_measured_not_to_be_kept():
    sim = tp.compile(prey, dt=0.05)
    assert not sim.certificate.poisson
    found = sim.check(z=[1.2, 0.7])
    assert not found.symplectic and found.power == pytest.approx(3, abs=0.3)


@pytest.mark.parametrize("method", ["implicit_midpoint", "gauss4"])
def test_a_constant_bracket_is_kept_by_gauss_as_proved_and_as_measured(method):
    sim = tp.compile(constant, dt=0.1, method=method)
    assert sim.certificate.poisson and sim.certificate.symmetric and sim.certificate.consistent
    assert sim.check(z=[0.3, 0.2, 0.5]).symplectic
    out = sim.evolve(z=[0.3, 0.2, 0.5], steps=500)
    assert abs((out.final.z @ [1.0, 0.0, 2.0]) - 1.3) < 1e-13  # its Casimir: J [1, 0, 2] = 0


def test_a_bracket_of_the_wrong_shape_says_which():
    with pytest.raises(tp.ShapeError, match=r"the bracket has shape \(2, 2\), and the state 3 numbers"):

        @tp.hamiltonian(bracket=lambda z: [[0.0, 1.0], [-1.0, 0.0]])
        def energy(z: tp.Vec[3]):
            return z @ z


def test_methods_for_pairs_do_not_apply():
    with pytest.raises(tp.PlanError, match="for positions and momenta"):
        tp.compile(constant, dt=0.1, method="stormer_verlet_implicit")
