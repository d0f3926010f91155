"""Is a step that a user writes as a map proved symplectic where it is, and never where it is not?"""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.tpir.program.text import parse
from tinyphysics.tpir.verifier import verify


@tp.map(pairs=[("q", "p")])
def leapfrog(q, p, h=0.05):
    p = p - h / 2 * np.sin(q)
    q = q + h * p
    p = p - h / 2 * np.sin(q)
    return q, p


@tp.map(pairs=[("q", "p")])
def slip(q, p, h=0.05):
    half = p - h / 2 * np.sin(q)
    return q + h * half, half - h / 2 * np.sin(q)


def test_a_leapfrog_of_ones_own_is_proved_symplectic_though_half_of_h_is_computed_before_the_loop():
    sim = tp.compile(leapfrog)
    assert sim.certificate.symplectic and sim.certificate.volume_preserving
    assert any(i.op == "ELEM" for i in sim.tpir.init)


def test_a_kick_by_the_old_position_is_not():
    assert not tp.compile(slip).certificate.symplectic
    with pytest.raises(tp.TinyPhysicsError, match="not symplectic"):
        tp.assert_symplectic(slip, q=1.0, p=0.3)


def test_what_is_computed_before_the_loop_must_not_change_in_it():
    text = tp.compile(leapfrog).ir("tpir")
    line = next(i for i in tp.compile(leapfrog).tpir.init if i.op == "ELEM")
    changed = text.replace("final:", f"  ELEM {line.dst}, mul, S0, S0\nfinal:").replace(
        "claim symplectic\n", ""
    )
    assert changed != text
    try:
        shown = bool(verify(parse(changed)).symplectic)
    except tp.VerifyError:
        shown = False
    assert not shown


# --- measured ---------------------------------------------------------------------------------------
@tp.map(pairs=[("q", "p")], step="h")
def kdk(q, p, h=0.05):
    p = p - h / 2 * np.sin(q)
    q = q + h * p
    return q, p - h / 2 * np.sin(q)


@tp.map(pairs=[("q", "p")], step="h")
def euler(q, p, h=0.05):
    return q + h * p, p - h * np.sin(q)


@tp.map(pairs=[("q", "p")], step="h", unsafe="friction")
def damped(q, p, h=0.05, gamma=0.1):
    p = (p - h * np.sin(q)) * (1 - h * gamma)
    return q + h * p, p


@tp.map(pairs=[("q", "p")], step="h")
def rk4(q, p, h=0.05):
    def rate(q, p):
        return p, -np.sin(q)

    a = rate(q, p)
    b = rate(q + h / 2 * a[0], p + h / 2 * a[1])
    c = rate(q + h / 2 * b[0], p + h / 2 * b[1])
    d = rate(q + h * c[0], p + h * c[1])
    return q + h / 6 * (a[0] + 2 * b[0] + 2 * c[0] + d[0]), p + h / 6 * (a[1] + 2 * b[1] + 2 * c[1] + d[1])


@tp.map(pairs=[("q", "p")], step="h")
def symplectic_euler(q, p, h=0.05):
    p = p - h * np.sin(q)
    return q + h * p, p


@pytest.mark.requirement("S2-57")
def test_a_step_of_ones_own_is_measured_symplectic_reversible_and_of_its_order():
    found = tp.compile(kdk).check(q=1.0, p=0.3)
    assert found.symplectic and found.volume_preserving and found.reversible and found.power is None
    assert abs(found.order - 2) < 0.05
    assert str(found).startswith("Function kdk is symplectic: |MᵀJM - J|/|M|² is rounding at h, 2 h and 4 h")
    one = tp.compile(symplectic_euler).check(q=1.0, p=0.3)
    assert one.symplectic and not one.reversible and abs(one.order - 1) < 0.05


@pytest.mark.requirement("S2-57")
@pytest.mark.parametrize("step, power, order", [(euler, 2, 1), (rk4, 6, 4)])
def test_a_step_that_is_not_symplectic_is_an_error_that_names_the_function(step, power, order):
    sim = tp.compile(step)
    with pytest.raises(tp.VerifyError, match=f"Function {step.name} is not symplectic: ") as told:
        sim.check(q=1.0, p=0.3, h=0.01)
    assert "falls as h^" in str(told.value) and "unsafe=" in str(told.value)
    assert "energy" not in str(told.value).lower()  # not symplectic does not say that the energy drifts
    found = tp.measure_symplectic(sim, q=1.0, p=0.3, h=0.01)
    assert abs(found.power - power) < 0.15 and abs(found.order - order) < 0.1 and not found.reversible
    with pytest.raises(tp.VerifyError, match=f"Function {step.name} is not symplectic"):
        tp.assert_symplectic(sim, q=1.0, p=0.3, h=0.01)


def test_friction_waives_the_claim_and_is_printed():
    sim = tp.compile(damped)
    found = sim.check(q=1.0, p=0.3)
    assert not found.symplectic and not found.volume_preserving
    # det M = 1 - h gamma, at h, 2 h and 4 h
    assert np.allclose(found.determinant, [-0.005, -0.01, -0.02], rtol=0, atol=1e-15)
    assert "unsafe='friction'" in str(found) and "friction" in str(sim.explain("full"))
    assert not sim.certificate.symplectic


def test_what_a_map_says_of_itself_must_be_so():
    with pytest.raises(tp.TinyPhysicsError, match="step='k' of `f` is not a parameter"):

        @tp.map(pairs=[("q", "p")], step="k")
        def f(q, p, h=0.1):
            return q, p

    with pytest.raises(tp.TinyPhysicsError, match="there are no pairs"):

        @tp.map(unsafe="friction")
        def g(q, p):
            return q, p

    with pytest.raises(tp.TinyPhysicsError, match="is not a reason"):

        @tp.map(pairs=[("q", "p")], unsafe=True)
        def k(q, p):
            return q, p


def test_a_step_keeps_its_name_in_a_file_and_under_new_names(tmp_path):
    tp.compile(damped).save(tmp_path / "own.json")
    again = tp.load(tmp_path / "own.json")
    assert again.system.step == "h" and again.system.unsafe == "friction"
    assert damped.rename(h="step_length").step == "step_length"


@tp.hamiltonian
def chain(q: tp.Vec["n"], p: tp.Vec["n"]):
    d = q[1:] - q[:-1]
    return p @ p / 2 + (d**2).sum() / 2 + (d**4).sum() / 4


@pytest.mark.parametrize("method, is_symplectic", [("leapfrog", True), ("rk4", False)])
def test_large_states_are_measured_along_random_directions(method, is_symplectic):
    rng = np.random.default_rng(3)
    start = {"q": 0.2 * rng.normal(size=18), "p": 0.2 * rng.normal(size=18)}  # 36 numbers
    found = tp.measure_symplectic(tp.compile(chain, dt=0.05, method=method, sizes={"n": 18}), **start)
    assert (
        found.symplectic is is_symplectic and found.determinant is None and found.reversible is is_symplectic
    )
    if not is_symplectic:
        assert found.power > 3 and found.values[0] > 1e-12


@tp.hamiltonian
def swing(q: tp.Vec[2], p: tp.Vec[2]):
    return (p @ p + q @ q) / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3


@tp.hamiltonian
def mixed(q, p):
    return p**2 * (1 + 0.1 * q**2) / 2 + tp.cos(q)


@tp.hamiltonian
def driven(q, p, t):
    return p**2 / 2 + q**2 * (1 + 0.2 * tp.sin(t)) / 2


@tp.lagrangian
def rod(q, v):
    return v**2 * (1 + 0.1 * q**2) / 2 - tp.cos(q)


@tp.potential
def stiff(q: tp.Vec[2]):
    return 8 * q @ q


ONE = {"q": 0.4, "p": 0.7}
TWO = {"q": [0.1, 0.3], "p": [0.2, -0.4]}
SYSTEMS = [(swing, TWO), (mixed, ONE), (driven, ONE), (rod, ONE), (tp.fast(stiff) + tp.slow(swing), TWO)]
CHOSEN = (
    "symplectic_euler",
    "leapfrog_dkd",
    "yoshida4",
    "chin4",
    "rk4",
    "euler",
    "gauss4",
    "gonzalez",
    "interaction",
    "magnus4",
)


def agrees(method):
    """Is what is certified what is measured?  None of a method that has no step here."""
    for system, state in SYSTEMS:
        try:
            sim = tp.compile(system, dt=0.1, method=method, propagator="loop")
            found = tp.measure_symplectic(sim, **state)
        except tp.TinyPhysicsError:
            continue
        c = sim.certificate
        # what is shown is so; what is not shown of these systems is not so
        assert bool(c.symplectic) == found.symplectic, method
        assert not c.volume_preserving or found.volume_preserving, method
        assert not c.reversible or found.reversible is not False, method
        order = sim.built.plan.order
        if found.order is not None and order:
            assert found.order > order - 0.3, (method, found.order)
        return True
    return None


@pytest.mark.parametrize("method", CHOSEN)
def test_measurements_agree_with_certificates(method):
    assert agrees(method)


@pytest.mark.all
def test_measurements_agree_with_every_certificate_of_the_catalogue():
    from tinyphysics.planner.methods.catalog import METHODS

    measured = [m.name for m in METHODS if m.name not in CHOSEN and agrees(m.name)]
    assert len(measured) > 44, {m.name for m in METHODS} - {*measured}


def test_a_step_with_noise_is_not_measured():
    noisy = tp.map(pairs=[("q", "p")])(lambda q, p: (q + p, p + tp.random.normal()))
    with pytest.raises(tp.InputError, match="draws random numbers"):
        tp.compile(noisy).check(q=0.5, p=0.3)


def test_a_map_that_does_not_follow_its_step_has_no_order():
    still = tp.map(pairs=[("q", "p")], step="h")(lambda q, p, h=0.01: (q + p, p))
    assert "order         none" in str(tp.compile(still).check(q=1.0, p=0.3))
