"""Steps of turning bodies that are solved for: they keep the bracket, the midpoint rule does not."""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.tpir import parse, verify

L0, MOMENTS = np.array([0.5, 1.1, 0.7]), np.array([1.0, 2.0, 3.0])


@tp.hamiltonian(bracket="so3")
def top(L: tp.Vec[3], moments: tp.Vec[3] = (1.0, 2.0, 3.0)):
    return (L**2 / moments).sum() / 2


@tp.hamiltonian(bracket="so3")
def coupled(L: tp.Vec[3]):
    return L @ L / 2 + L[0] * L[1] * L[2] + L[0] ** 2


@tp.hamiltonian(bracket="spin")
def anisotropic(S: tp.Array[2, 3]):
    return -((S[0] @ S[1]) ** 2) - 0.3 * S[0, 2] * S[1, 0] * S[0, 1]


@tp.hamiltonian
def heavy(R: tp.Rotor, L: tp.Vec[3], moments: tp.Vec[3] = (1.0, 1.3, 0.5), mgl=1.0):
    return (L**2 / moments).sum() / 2 + mgl * tp.rotate(R, [0.0, 0.0, 1.0])[2]


HEAVY = dict(R=[np.cos(0.25), np.sin(0.25), 0.0, 0.0], L=[0.1, 0.2, 2.0])


def hat(v):
    return np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])


def midpoint(L, h):
    new = L
    for _ in range(200):
        m = (L + new) / 2
        new = L + h * np.cross(m, m / MOMENTS)
    return new


def defect(step, L, h):
    """max |DΦ L̂ DΦᵀ - Φ̂|, by central differences of a step in float64."""
    eps = 1e-6
    D = np.stack([(step(L + eps * e, h) - step(L - eps * e, h)) / (2 * eps) for e in np.eye(3)], axis=1)
    return np.abs(D @ hat(L) @ D.T - hat(step(L, h))).max()


def test_the_midpoint_rule_keeps_momentum_and_energy_and_is_not_poisson():
    new = midpoint(L0, 0.2)
    assert new @ new == pytest.approx(L0 @ L0, rel=1e-15)
    assert (new**2 / MOMENTS).sum() == pytest.approx((L0**2 / MOMENTS).sum(), rel=1e-15)
    assert defect(midpoint, L0, 0.2) == pytest.approx(9.35e-5, rel=2e-3)
    assert defect(midpoint, L0, 0.1) == pytest.approx(1.17e-5, rel=4e-3)


@pytest.mark.parametrize("method", ["spherical_midpoint", "lie_cayley", "spherical_midpoint4", "lie_cayley4"])
def test_the_steps_that_are_solved_for_are_poisson_as_proved_and_as_measured(method):
    sim = tp.compile(top, dt=0.1, method=method)
    assert all(sim.certificate.values()) and "residual" in sim.certificate.poisson.because
    assert max(sim.check(L=L0).values) < 1e-20
    order = 4 if method.endswith("4") else 2
    assert sim.check(L=L0).order == pytest.approx(order, abs=0.1)


def test_the_spherical_midpoint_keeps_quadratic_energies_too():
    out = tp.compile(top, dt=0.1, method="spherical_midpoint").evolve(L=L0, steps=2_000)
    assert out.drift("energy") < 1e-13 and abs(out.final.L @ out.final.L - L0 @ L0) < 1e-13


@pytest.mark.requirement("S2-20")
def test_cayley_s_turn_has_no_sines_and_the_right_half():
    sim = tp.compile(heavy, dt=0.1, method="lie_cayley")
    assert all(sim.certificate.values()) and sim.check(**HEAVY).symplectic
    text = str(sim.tpir)
    assert not any(word in text for word in ("ELEM T0, sin", ", sin,", ", cos,", ", tan,"))
    spun = tp.compile(heavy, dt=0.1, method="lie_cayley").evolve(
        R=[1.0, 0.0, 0.0, 0.0], L=[0.0, 0.0, 0.5], mgl=0.0, steps=1
    )
    angle = 2 * np.arctan2(spun.final.R[3], spun.final.R[0])
    speed = next(
        x.real for x in np.roots([0.1**2 / 4, 0, 1, -1]) if abs(x.imag) < 1e-12
    )  # of I x + (h²/4) I x³ = L
    assert angle == pytest.approx(2 * np.arctan(0.05 * speed), rel=1e-13)  # with a half: C-27


def test_repeated_steps_that_are_solved_for_are_not_one_long_step():
    text = str(tp.compile(top, dt=0.1, method="lie_cayley4").tpir)
    assert text.count("  UNTIL ") == 5


def test_an_energy_that_does_not_split_is_solved_for_by_default():
    sim = tp.compile(coupled, dt=0.1)
    assert "spherical_midpoint" in str(sim.explain()) and sim.certificate.poisson
    assert sim.check(L=L0).symplectic
    many = tp.compile(anisotropic, dt=0.05)
    assert many.certificate.poisson and many.check(S=[[0.6, 0.0, 0.8], [0.0, 1.0, 0.0]]).symplectic


def test_a_residual_with_another_mean_is_refused():
    """Cayley at the mean of the speeds, or the plain midpoint, keep |L| and are no steps of the bracket."""
    text = str(tp.compile(top, dt=0.1, method="spherical_midpoint").tpir)
    roots = [line for line in text.splitlines() if ", sqrt, " in line]
    name = roots[0].split()[1].split(",")[0].split(":")[0]
    changed = text.replace(roots[0], f"  ELEM {name}, mul, 1.0, 1.0")
    with pytest.raises(tp.VerifyError, match="is not shown to turn"):
        verify(parse(changed))


@pytest.mark.parametrize("method", ["spherical_midpoint", "lie_cayley"])
def test_what_is_solved_for_has_the_same_bits_on_every_backend(method):
    runs = [
        tp.compile(top, dt=0.1, method=method, backend=backend).evolve(L=L0, steps=7).hash
        for backend in ("python", "numpy", "llvm", "c")
    ]
    assert len(set(runs)) == 1
