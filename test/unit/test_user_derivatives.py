"""A certificate speaks of a user's operation only where its derivative is that of its definition."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp

RIGHT = {
    "product": tp.op("ud_product", lambda x, y: x * y, lambda x, y: (y, x)),
    "softplus": tp.op(
        "ud_softplus", lambda x, y: tp.log(1 + tp.exp(x)) + y, lambda x, y: (1 / (1 + tp.exp(-x)), 1.0)
    ),
    "erf": tp.op(
        "ud_erf",
        lambda x, y: tp.erf(x) * y,
        lambda x, y: (1.1283791670955126 * tp.exp(-x * x) * y, tp.erf(x)),
    ),
    "root": tp.op("ud_root", lambda x, y: tp.sqrt(x) + y, lambda x, y: (0.5 / tp.sqrt(x), 1.0)),
}
WRONG = {
    "twice": tp.op("ud_twice", lambda x, y: x * y, lambda x, y: (y, 2 * x)),
    "nearly": tp.op("ud_nearly", lambda x, y: tp.exp(x) + y, lambda x, y: ((1 + 1e-10) * tp.exp(x), 1.0)),
    "here and there": tp.op("ud_far", lambda x, y: tp.where(x > 5, 2 * x, x) + y, lambda x, y: (1.0, 1.0)),
    "too few": tp.op("ud_few", lambda x, y: x + y, lambda x, y: (1.0,)),
}
METHODS = ["leapfrog", "yoshida4", "implicit_midpoint"]


def with_operation(o):
    @tp.hamiltonian
    def h(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + q @ q / 2 + 0.1 * o(q[0], q[1])

    return h


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_derivative_is_believed(name, method):
    sim = tp.compile(with_operation(RIGHT[name]), dt=0.05, method=method)
    assert sim.certificate.symplectic
    if name != "root":
        defect = tp.measure_symplectic(sim, q=[0.3, 0.2], p=[0.1, 0.4])
        assert (
            sim.certificate.consistent and max(defect.values) < 1e-17
        )  # constants in a derivative are float64


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", [n for n in WRONG if n != "too few"])
def test_a_wrong_derivative_is_named(name, method):
    c = tp.compile(with_operation(WRONG[name]), dt=0.05, method=method).certificate
    for verdict in (c.symplectic, c.consistent):
        assert not verdict and "not that of its definition" in verdict.because


def test_an_operation_is_compared_again_when_it_is_registered_again():
    for factor, right in ((2.0, True), (3.0, False), (2.0, True)):
        o = tp.op("ud_again", lambda x, y: x * x + y, lambda x, y, f=factor: (f * x, 1.0))
        assert tp.compile(with_operation(o), dt=0.05, method="leapfrog").certificate.symplectic.holds == right


# --- forces --------------------------------------------------------------------------------------------------
def test_a_force_with_a_jump_is_not_shown_to_be_a_gradient():
    @tp.forces
    def kicked(q: tp.Vec[2]):
        return -q + np.stack([0.0 * q[0], 0.2 * np.sign(q[0])])

    sim = tp.compile(kicked, dt=0.05)
    assert not sim.certificate.symplectic and "jump" in sim.certificate.symplectic.because
    assert sim.certificate.volume_preserving
    assert "2 where the forces are smooth" in str(sim.explain("full"))
    out = sim.evolve(q=[1.0, 0.5], p=[0.3, 1.0], until=200.0)
    p, q = np.asarray(out.final.p), np.asarray(out.final.q)
    assert (p @ p + q @ q) / 2 > 20  # from less than 2: no energy has this force


def test_forces_without_a_jump_keep_their_certificate():
    @tp.forces
    def pulled(q: tp.Vec[2]):
        return -q / tp.norm(q) ** 3

    @tp.forces
    def stepwise(q: float):
        return -np.sign(q)

    assert tp.compile(pulled, dt=0.05).certificate.symplectic
    assert tp.compile(stepwise, dt=0.05).certificate.symplectic  # of one number: it has an integral


# --- at the states of pilots ---------------------------------------------------------------------------------
def only_near_two(name):
    """Right everywhere but between 2 and 2.05, where no point of the table lies."""
    within = lambda x: (x > 2.0) & (x < 2.05)  # noqa: E731
    return tp.op(
        name, lambda x, y: tp.sin(x) + y, lambda x, y: (tp.where(within(x), 0.9, 1.0) * tp.cos(x), 1.0)
    )


@pytest.mark.parametrize("at, right", [(1.0, True), (2.02, False)])
def test_a_derivative_is_looked_at_where_the_pilot_is(at, right):
    system = with_operation(only_near_two(f"ud_near_two_{right}"))
    assert tp.compile(system, dt=0.05).certificate.symplectic
    c = tp.compile(system, dt=0.05, pilot={"q": [at, 0.1], "p": [0.0, 0.2]}).certificate
    assert bool(c.symplectic) == bool(c.consistent) == right
    if not right:
        assert "at (2.02, 0.1)" in c.symplectic.because


def test_goals_are_refused_where_a_derivative_is_wrong():
    system = with_operation(only_near_two("ud_near_two_goal"))
    with pytest.raises(tp.PlanError, match="not that of its definition"):
        tp.compile(system, error=1e-3).evolve(q=[2.02, 0.1], p=[0.0, 0.2], until=1.0)


@pytest.mark.parametrize("at", [0.0, 1e-9, 0.3])
def test_a_kink_at_the_state_of_a_pilot_is_no_wrong_derivative(at):
    o = tp.op("ud_kinked", lambda x, y: tp.abs(x) + y, lambda x, y: (tp.where(x >= 0, 1.0, -1.0), 1.0))
    sim = tp.compile(with_operation(o), dt=0.05, pilot={"q": [at, 0.1], "p": [0.0, 0.2]})
    assert "not that of its definition" not in str(sim.explain())


def test_no_order_is_claimed_of_a_wrong_derivative():
    row = tp.compile(with_operation(WRONG["twice"]), dt=0.05).explain().to_dict()["plan"]["order"]
    assert row["verdict"] == "not shown" and "not that of its definition" in row["because"]


@pytest.mark.parametrize("method", ["leapfrog", "rk4"])
def test_the_short_form_claims_no_order_of_a_wrong_derivative_either(method):
    report = tp.compile(with_operation(WRONG["twice"]), dt=0.05, method=method).explain()
    said = next(row.verdict for row in report.brief.rows if row.name == "accuracy")
    assert said.startswith("order not shown: ") and "not that of its definition" in said


def test_an_operation_without_a_derivative_is_named_with_its_line():
    o = tp.op("ud_without", lambda x, y: tp.tanh(x) * y)
    with pytest.raises(
        tp.TraceError, match=r"`ud_without` has no derivative rule \(test_user_derivatives.py:\d+\)"
    ):
        tp.compile(with_operation(o), dt=0.05)
