"""Is what the verifier certifies also what a measurement finds?  Jacobians of whole steps, in 106 bits."""

from __future__ import annotations

import math

import mpmath
import pytest

import tinyphysics as tp
from tinyphysics.runtime.measure.precise import precise
from tinyphysics.tpir.kernels.kernel import build_kernel
from tinyphysics.physics.zoo import henon_heiles


@tp.hamiltonian
def oscillator(q, p):
    return p**2 / 2 + q**2 / 2


@tp.hamiltonian
def rotor(q: tp.Vec[2], p: tp.Vec[2], m: float = 1.7):
    return tp.sqrt(1 + p @ p / m) - tp.cos(q[0] - q[1]) + tp.exp(-(q[0] ** 2))


@tp.hamiltonian
def driven(q, p, t):
    return p**2 / 2 - tp.cos(q) * (1 + 0.3 * tp.sin(2 * t))


STARTS = {
    oscillator: dict(q=0.7, p=0.4),
    henon_heiles: dict(q=[0.1, 0.3], p=[0.2, -0.4]),
    rotor: dict(q=[0.4, 1.1], p=[0.5, -0.2]),
    driven: dict(q=0.7, p=0.4),
}
SPLITTINGS = ("symplectic_euler", "leapfrog_kdk", "leapfrog_dkd", "yoshida4", "kahan_li6", "kahan_li8")


@pytest.mark.requirement("S2-57", "S2-42", "S3-14")
@pytest.mark.parametrize("method", SPLITTINGS)
@pytest.mark.parametrize("system", STARTS, ids=lambda s: s.name)
def test_a_splitting_is_symplectic_to_rounding(system, method):
    sim = tp.compile(system, dt=0.1, method=method)
    assert sim.certificate.symplectic
    found = tp.assert_symplectic(sim, **STARTS[system])
    assert found.symplectic and found.power is None and "is symplectic" in str(found)


@pytest.mark.requirement("S2-57")
@pytest.mark.parametrize("method, power", [("euler", 2), ("midpoint", 4), ("rk4", 6)])
def test_a_runge_kutta_step_is_not_and_the_message_names_it(method, power):
    sim = tp.compile(oscillator, dt=0.01, method=method)
    assert not sim.certificate.symplectic
    found = tp.measure_symplectic(sim, **STARTS[oscillator])
    assert found.power == pytest.approx(power, abs=0.1)
    with pytest.raises(tp.VerifyError, match=f"`{method} of oscillator` is not symplectic"):
        tp.assert_symplectic(sim, **STARTS[oscillator])


def test_rk4_fails_although_its_defect_would_be_lost_in_double_precision():
    """numerics: 1.39e-14 at dt = 0.01 on the oscillator."""
    sim = tp.compile(oscillator, dt=0.01, method="rk4")
    assert tp.measure_symplectic(sim, **STARTS[oscillator]).values[0] == pytest.approx(1.39e-14, rel=0.01)


def test_a_map_of_two_states_is_one_of_a_pair_and_of_one_state_of_none():
    @tp.map
    def henon(x, y):
        return 1 - 1.4 * x * x + y, 0.3 * x

    with pytest.raises(tp.InputError, match="has no dt"):
        tp.measure_symplectic(tp.compile(henon), dt=0.1, x=0.1, y=0.1)
    found = tp.measure_symplectic(tp.compile(henon), x=0.1, y=0.1)
    assert not found.symplectic and found.power is None
    with pytest.raises(tp.InputError, match="no momenta"):
        tp.measure_symplectic(tp.map(lambda x: 4 * x * (1 - x)), x=0.1)


def final_state(method, dt, steps):
    """A run of Hénon–Heiles in 40 digits: the program's own expressions, without its roundings."""
    kernel = build_kernel(tp.compile(henon_heiles, dt=dt, method=method).tpir)
    numbers = STARTS[henon_heiles]["q"] + STARTS[henon_heiles]["p"]
    with mpmath.workdps(40):
        given = {p: mpmath.mpf(dt) for p in kernel.params}
        step = kernel.whole_step()
        carried = precise(kernel.functions["init"], given | dict(zip(kernel.inputs, numbers)), mpmath)
        for _ in range(steps):
            carried = precise(step, given | dict(zip(kernel.carried, carried)), mpmath)
        return precise(kernel.functions["final"], given | dict(zip(kernel.carried, carried)), mpmath)


@pytest.mark.requirement("S2-42")
@pytest.mark.parametrize(
    "method, order", [("leapfrog_kdk", 2), ("yoshida4", 4), ("kahan_li6", 6), ("kahan_li8", 8)]
)
def test_the_state_error_falls_with_the_order(method, order):
    """In double precision order 8 meets rounding before it shows; in 40 digits only its weights are rounded."""
    exact = final_state("kahan_li8", 1 / 32, 96)  # T = 3
    errors = [
        float(max(abs(a - b) for a, b in zip(final_state(method, dt, round(3 / dt)), exact)))
        for dt in (0.25, 0.125)
    ]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.5), errors
