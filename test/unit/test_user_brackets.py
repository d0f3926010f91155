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
    assert sim.built.plan.method == "pieces" and all(sim.certificate.values())
    assert "obeys Jacobi's identity" in str(sim.explain("full"))
    exact = tp.compile(prey, dt=0.1, method="taylor").evolve(z=[1.2, 0.7], steps=20).final.z
    assert np.abs(sim.evolve(z=[1.2, 0.7], steps=200).final.z - exact).max() < 2e-5


def test_a_bracket_that_depends_on_the_state_is_not_certified_and_measured_not_to_be_kept():
    sim = tp.compile(prey, dt=0.05, method="implicit_midpoint")
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


def cycle(z):
    c = [[0.0, 1.0, -1.0], [-1.0, 0.0, 1.0], [1.0, -1.0, 0.0]]
    return [[c[i][j] * z[i] * z[j] for j in range(3)] for i in range(3)]


@tp.hamiltonian(bracket=cycle)
def predators(z: tp.Vec[3]):
    return z[0] + z[1] + z[2]


@tp.hamiltonian(bracket=lambda z: [[0.0, -z[2], z[1]], [z[2], 0.0, -z[0]], [-z[1], z[0], 0.0]])
def by_hand(z: tp.Vec[3]):
    return z[0] ** 2 / 2 + z[1] ** 2 / 4 + z[2] ** 2 / 6 + z[0] ** 4 / 10


def kept(sim):
    return [str(c) for c in sim.built.facts["bracket"].casimirs]


@pytest.mark.parametrize("order", [2, 4])
def test_lotka_and_volterra_are_stepped_by_exact_pieces_that_keep_the_bracket_and_its_casimir(order):
    sim = tp.compile(predators, dt=0.05, order=order)
    assert all(sim.certificate.values()) and kept(sim) == ["log(z[0]) + log(z[1]) + log(z[2])"]
    found = sim.check(z=[1.2, 0.7, 0.9])
    assert found.symplectic and found.order == pytest.approx(order, abs=0.1)
    out = sim.evolve(z=[1.2, 0.7, 0.9], steps=2000)
    assert (
        abs(np.prod(out.final.z) / (1.2 * 0.7 * 0.9) - 1) < 1e-12
    )  # its Casimir is the logarithm of the product
    assert out.drift("energy") < 1e-4


def test_a_constant_bracket_is_stepped_by_shears_and_its_casimir_is_found():
    sim = tp.compile(constant, dt=0.1)
    assert sim.built.plan.method == "pieces" and all(sim.certificate.values())
    assert kept(sim) == ["z[0] + 2*z[2]"] and sim.check(z=[0.3, 0.2, 0.5]).symplectic


def test_what_has_no_exact_pieces_keeps_its_energy_by_a_discrete_gradient_and_says_what_it_gives_up():
    sim = tp.compile(by_hand, dt=0.05)
    assert sim.built.plan.method == "gonzalez" and not sim.certificate.poisson
    assert kept(sim) == ["z[0]*z[0] + z[1]*z[1] + z[2]*z[2]"]
    assert "gives up" in str(sim.explain("full"))
    out = sim.evolve(z=[0.5, 1.1, 0.7], steps=2000)
    assert out.drift("energy") < 1e-13 and not sim.check(z=[0.5, 1.1, 0.7]).symplectic
    there = tp.compile(by_hand, dt=0.1, method="taylor").evolve(z=[0.5, 1.1, 0.7], until=5.0).final.z
    off = [
        np.abs(tp.compile(by_hand, dt=dt).evolve(z=[0.5, 1.1, 0.7], until=5.0).final.z - there).max()
        for dt in (0.05, 0.025)
    ]
    assert off[0] / off[1] == pytest.approx(4, abs=0.2)


def test_an_identity_that_is_not_shown_runs_without_a_certificate():
    @tp.hamiltonian(bracket=lambda z: [[0.0, tp.sin(z[0] + 1) ** 2 + tp.cos(1 + z[0]) ** 2], [-1.0, 0.0]])
    def doubtful(z: tp.Vec[2]):
        return z @ z / 2

    sim = tp.compile(doubtful, dt=0.1)
    assert not sim.built.facts["bracket"]
    assert not sim.certificate.poisson and np.isfinite(sim.evolve(z=[1.0, 0.0], steps=10).final.z).all()


@pytest.mark.parametrize("backend", ["python", "numpy", "c"])
@pytest.mark.parametrize("precision", ["float64", "float32", "dd"])
def test_pieces_have_the_same_bits_on_every_backend(backend, precision):
    here, there = (
        tp.compile(predators, dt=0.05, backend=b, precision=precision).evolve(z=[1.2, 0.7, 0.9], steps=5).hash
        for b in ("llvm", backend)
    )
    assert here == there


def test_gradients_go_through_pieces():
    sim = tp.compile(prey, dt=0.05)
    value, g = sim.value_and_grad(lambda out: out.final.z[0], z=[1.2, 0.7], steps=20, wrt=("z", "a"))
    e = 1e-6
    ends = [sim.evolve(z=[1.2, 0.7], a=1.0 + x, steps=20).final.z[0] for x in (e, -e)]
    assert (ends[0] - ends[1]) / (2 * e) == pytest.approx(float(g["a"]), rel=1e-6)
