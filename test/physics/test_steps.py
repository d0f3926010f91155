"""Do force-gradient, processed and three-part steps have the order they claim?  Slopes, in 40 digits where needed."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import mpmath
import tinyphysics as tp
from tools_of import tool
from tinyphysics.physics.zoo import henon_heiles
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.tpir import lower, vm

GRADIENTS = [name for name, m in BY_NAME.items() if m.gradients]


@tp.hamiltonian
def coupled(q: tp.Vec[2], p: tp.Vec[2], m: float = 1.7):
    """Masses that differ and a kinetic energy with a product, so that the metric of the gradient shows."""
    return (
        p[0] ** 2 / (2 * m)
        + 0.25 * p[0] * p[1]
        + p[1] ** 2
        - tp.cos(q[0] - q[1])
        + tp.exp(-(q[0] ** 2))
        + q[1] ** 4 / 4
    )


@tp.hamiltonian
def driven(q, p, t):
    return p**2 / 2 + q**4 / 4 - tp.cos(q) * (1 + 0.3 * tp.sin(2 * t))


@tp.hamiltonian
def both(q, p, t):
    """T and V depend on t."""
    return p**2 / (2 + tp.cos(t)) + q**2 / 2 + q**4 / 4 - 0.8 * q * tp.sin(1.7 * t)


RATES = {  # written down by hand
    "driven": lambda t, z: [z[1], -(z[0] ** 3) - np.sin(z[0]) * (1 + 0.3 * np.sin(2 * t))],
    "both": lambda t, z: [2 * z[1] / (2 + np.cos(t)), -z[0] - z[0] ** 3 + 0.8 * np.sin(1.7 * t)],
    "coupled": lambda t, z: [
        z[2] / 1.7 + 0.25 * z[3],
        0.25 * z[2] + 2 * z[3],
        -np.sin(z[0] - z[1]) + 2 * z[0] * np.exp(-(z[0] ** 2)),
        np.sin(z[0] - z[1]) - z[1] ** 3,
    ],
}


def slopes(system, method, steps, start, t0=0.7, until=4.7):
    true = solve_ivp(RATES[system.name], (t0, until), start, method="DOP853", rtol=1e-13, atol=1e-15).y[:, -1]
    half, errors = len(start) // 2, []
    q, p = (start[:half], start[half:]) if half > 1 else start
    for dt in steps:
        end = tp.compile(system, dt=dt, method=method).evolve(q=q, p=p, t0=t0, until=until).final
        errors.append(abs(np.concatenate([np.ravel(end.q), np.ravel(end.p)]) - true).max())
    return np.log2(np.divide(errors[:-1], errors[1:]))


@pytest.mark.requirement("S2-41", "S2-42")
@pytest.mark.parametrize("method", GRADIENTS)
def test_the_state_error_of_a_force_gradient_step_falls_with_its_order(method):
    orders = tool("orders")
    with mpmath.workdps(40):
        start = [mpmath.mpf(x) for x in (0.1, 0.3, 0.2, -0.4)]
        exact = orders.solution(henon_heiles, start, Fraction(3, 2))
        run = orders.in_digits(tp.compile(henon_heiles, dt=0.1, method=method).tpir)
        errors = [
            float(orders.distance(run(start, round(1.5 / dt), mpmath.mpf(dt)), exact)) for dt in (0.25, 0.125)
        ]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(BY_NAME[method].order, abs=0.1), errors


@pytest.mark.parametrize("method", GRADIENTS)
def test_the_metric_of_the_masses_is_that_of_the_kinetic_energy(method):
    order = BY_NAME[method].order
    found = slopes(coupled, method, [0.1, 0.05, 0.025] if order == 4 else [0.2, 0.1], [0.4, 0.9, 0.5, -0.2])
    assert found == pytest.approx(order, abs=0.2), found


@pytest.mark.parametrize("method", GRADIENTS)
def test_a_potential_that_depends_on_t_keeps_the_order(method):
    order = BY_NAME[method].order
    found = slopes(driven, method, [0.1, 0.05, 0.025] if order == 4 else [0.2, 0.1], [0.4, 0.3])
    assert found == pytest.approx(order, abs=0.2), found


@pytest.mark.requirement("S2-41")
@pytest.mark.parametrize(
    "method, order, steps",
    [
        ("symplectic_euler", 1, [1 / 160, 1 / 320]),
        ("leapfrog_kdk", 2, [0.05, 0.025]),
        ("leapfrog_dkd", 2, [0.05, 0.025]),
        ("yoshida4", 4, [0.05, 0.025]),
        ("kahan_li6", 6, [0.1, 0.05]),
        ("kahan_li8", 8, [0.2, 0.1]),
    ],
)
def test_time_as_a_third_part_keeps_the_order_where_both_depend_on_t(method, order, steps):
    """numerics: 13"""
    assert slopes(both, method, steps, [0.9, 0.2]) == pytest.approx(order, abs=0.12)
    certificate = tp.compile(both, dt=0.1, method=method).certificate
    assert certificate.symplectic and certificate.consistent
    assert bool(certificate.symmetric) is BY_NAME[method].symmetric and not certificate.reversible


@pytest.mark.parametrize("method", ["leapfrog_kdk", "leapfrog_dkd", "yoshida4", "kahan_li6"])
def test_three_parts_take_one_kick_for_each_leapfrog_and_a_negative_step_retraces_them(method):
    sim = tp.compile(both, dt=0.05, method=method)
    assert sim.built.step.evaluations == BY_NAME[method].stages
    there = sim.evolve(q=0.9, p=0.2, until=5.0).final
    back = tp.compile(both, dt=-0.05, method=method).evolve(q=there.q, p=there.p, t0=5.0, until=0.0).final
    assert [back.q, back.p] == pytest.approx([0.9, 0.2], abs=1e-12)


@pytest.mark.requirement("S2-57")
@pytest.mark.parametrize("method", GRADIENTS)
@pytest.mark.parametrize(
    "system, start",
    [
        (henon_heiles, dict(q=[0.1, 0.3], p=[0.2, -0.4])),
        (driven, dict(q=0.7, p=0.4)),
        (coupled, dict(q=[0.4, 0.9], p=[0.5, -0.2])),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_what_is_certified_is_measured_to_be_symplectic(system, start, method):
    sim = tp.compile(system, dt=0.1, method=method)
    assert sim.certificate.symplectic and sim.certificate.consistent
    assert bool(sim.certificate.symmetric) is BY_NAME[method].symmetric
    assert tp.assert_symplectic(sim, **start).symplectic


def test_without_its_processor_takahashi_and_imada_have_order_2_and_without_the_gradient_too():
    """The kernel is only conjugate to order 4: what undoes the processor is what a frame needs."""
    start = [0.4, 0.9, 0.5, -0.2]
    assert slopes(coupled, "takahashi_imada4", [0.05, 0.025], start) == pytest.approx(4, abs=0.1)
    program = tp.compile(coupled, dt=0.1, method="takahashi_imada4").built.step
    true = solve_ivp(RATES["coupled"], (0, 4), start, method="DOP853", rtol=1e-13, atol=1e-15).y[:, -1]
    errors = []
    for dt in (0.05, 0.025):  # its first and last half drifts are left in place
        bare = lower(replace(program, init=program.init[-1:], final=program.final[:1]))
        end = vm.run(bare, {"q": start[:2], "p": start[2:]}, round(4 / dt), {"m": 1.7}, dt=dt)
        errors.append(abs(np.concatenate([end["q"], end["p"]]) - true).max())
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.1)


# --- arrays ---------------------------------------------------------------------------------------------
@tp.hamiltonian
def stars(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Array["n"] = 1.0, soft: float = 1.0):
    d = q[:, None] - q[None, :]
    pull = m[:, None] * m[None, :] / tp.sqrt((d * d).sum(-1) + soft**2)
    return (p * p / (2 * m[:, None])).sum() - pull.sum() / 2


@pytest.mark.parametrize("n", [4, 24])
def test_sums_over_pairs_have_force_gradients(n):
    """Few bodies are written out, more are loops over pairs: errors against half the step fall with the order."""
    rng = np.random.default_rng(n)
    start = dict(q=rng.normal(size=(n, 3)) * 3, p=rng.normal(size=(n, 3)) * 0.3, m=rng.uniform(0.1, 0.4, n))
    sim = tp.compile(stars, dt=0.1, method="chin4", sizes={"n": n})
    assert sim.certificate.symplectic and sim.certificate.symmetric and sim.certificate.consistent
    ends = [sim.evolve(**start, dt=dt, until=0.5).final.q for dt in (0.05, 0.025, 0.0125)]
    errors = [abs(a - b).max() for a, b in zip(ends, ends[1:])]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(4, abs=0.2), errors
