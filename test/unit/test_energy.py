"""Is an energy kept to rounding by discrete gradients, the same everywhere, and is it said what that costs?"""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.errors import PlanError
from tinyphysics.ir import UOp, substitute
from tinyphysics.physics.zoo import driven_pendulum, henon_heiles, kepler
from tinyphysics.synth.methods.discrete_gradient import StepEnds, mean_gradient, quadrature
from tinyphysics.synth.methods.implicit import VectorField
from tinyphysics.tpir import vm

METHODS = ("avf", "gonzalez", "itoh_abe")
BACKENDS = ("python", "numpy", "llvm", "c")


@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 + 1 - tp.cos(q)


@tp.hamiltonian
def quartic(q, p):
    return p**2 / 2 + q**4 / 4


@tp.hamiltonian
def curved(q, p):
    return (1 + q**2) * p**2 / 2 + q**4


@tp.hamiltonian
def chain(q: tp.Vec[3], p: tp.Vec[3]):
    """Nothing outside pulls at it."""
    return p @ p / 2 + (q[1] - q[0]) ** 4 / 4 + (q[2] - q[1]) ** 4 / 4


SWING, TRAPPED, BENT = {"q": 1.0, "p": 1.2}, {"q": [0.1, 0.2], "p": [0.3, -0.2]}, {"q": 0.5, "p": 0.5}
KEPT = [
    (m, s, start) for m in METHODS for s, start in ((quartic, SWING), (henon_heiles, TRAPPED), (curved, BENT))
] + [
    (m, s, start)
    for m in METHODS[1:]
    for s, start in ((pendulum, SWING), (kepler, {"q": [1.0, 0.0], "p": [0.0, 1.2]}))
]


# --- the energy ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "method, system, start", KEPT, ids=lambda x: getattr(x, "name", x if isinstance(x, str) else "")
)
def test_the_energy_is_kept_to_rounding(method, system, start):
    out = tp.compile(system, dt=0.1, method=method).evolve(**start, steps=10_000)
    without = tp.compile(system, dt=0.1, method="implicit_midpoint", propagator="loop").evolve(
        **start, steps=1000
    )
    assert out.stopped is None and out.drift("energy") < 5e-14 and without.drift("energy") > 5e-5
    assert out.metrics["solver"]["residual"] < 1e-13


@tp.hamiltonian
def two_wells(q, p):
    return p**2 / 2 + (q**2 - 1) ** 2


@tp.hamiltonian
def hill(q, p):
    return p**2 / 2 + tp.exp(-q * q)


@tp.hamiltonian
def top(q, p):
    return p**2 / 2 + tp.cos(q)


@pytest.mark.parametrize("system", [two_wells, hill, top], ids=lambda s: s.name)
def test_on_a_hilltop_the_way_is_short_and_the_energy_is_kept(system):
    """H is of size 1 there, and what moves is small: its rounding is not to be taken for what the way has changed."""
    q = np.array([0.04205518621289839, 1e-3, -5e-2, 2e-4, 0.3])
    p = np.array([0.08582014127704884, 2e-3, 1e-2, 1e-4, 0.1])
    for dt in (0.02, 0.1, 0.2):
        out = tp.compile(system, dt=dt, method="gonzalez").evolve(q=q, p=p, until=40.0)
        assert not out.stops and out.drift("energy").max() < 1e-13, dt


def test_two_wells_with_long_steps():
    out = tp.compile(two_wells, dt=0.4, method="gonzalez").evolve(
        q=0.04205518621289839, p=0.08582014127704884, steps=500
    )
    assert out.stopped is None and out.drift("energy") < 2e-14


@pytest.mark.parametrize("dt", [1e-5, 1e-3, 0.5])
@pytest.mark.parametrize("method", METHODS[1:])
def test_steps_may_be_short_or_long(method, dt):
    out = tp.compile(pendulum, dt=dt, method=method).evolve(q=2.0, p=0.0, steps=20_000)
    assert out.stopped is None and out.drift("energy") < 5e-14


@pytest.mark.parametrize(
    "method, system, start", KEPT, ids=lambda x: getattr(x, "name", x if isinstance(x, str) else "")
)
def test_the_error_falls_as_dt_squared(method, system, start):
    exact = tp.compile(system, dt=0.01, method="gauss6").evolve(**start, until=4.0).final.q
    coarse, fine = (
        np.abs(tp.compile(system, dt=dt, method=method).evolve(**start, until=4.0).final.q - exact).max()
        for dt in (0.1, 0.05)
    )
    assert 1.9 < np.log2(coarse / fine) < 2.1


def test_energy_is_not_accuracy():
    out = tp.compile(pendulum, dt=0.5, method="gonzalez").evolve(**SWING, until=100.0)
    exact = tp.compile(pendulum, dt=0.01, method="gauss6").evolve(**SWING, until=100.0)
    assert out.drift("energy") < 1e-14 and abs(out.final.q - exact.final.q) > 0.1
    sim = tp.compile(pendulum, method="gonzalez", error=1e-3, pilot=SWING)
    assert sim.built.plan.decision.dt < 0.1


# --- where there is nothing to divide by ---------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS[1:])
@pytest.mark.parametrize("start", [(0.0, 0.0), (1e-9, 0.0), (1e-170, 1e-170)])
def test_at_rest_and_close_to_it_a_step_is_finite(method, start):
    q, p = start
    out = tp.compile(pendulum, dt=0.1, method=method).evolve(q=q, p=p, steps=1000)
    assert out.stopped is None and np.hypot(out.final.q, out.final.p) == pytest.approx(
        np.hypot(q, p), rel=1e-9, abs=0.0
    )


def test_a_polynomial_stays_at_its_minimum():
    out = tp.compile(quartic, dt=0.1, method="avf").evolve(q=0.0, p=0.0, steps=100)
    assert out.stopped is None and out.final.q == 0.0 and out.final.p == 0.0


# --- the quadrature ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", range(1, 13))
def test_a_quadrature_is_exact_to_its_degree_and_no_further(n):
    rule = quadrature(n)
    errors = [abs(sum(w * c**k for c, w in rule) * (k + 1) - 1) for k in range(2 * n + 1)]
    assert max(errors[: 2 * n]) < 1e-14
    if n < 8:
        assert errors[2 * n] > 1e-10
    assert all(c + d == 1.0 and v == w for (c, v), (d, w) in zip(rule, reversed(rule)))


@pytest.mark.parametrize("system, degree", [(curved, 4), (henon_heiles, 3)])
def test_the_mean_is_exact_for_its_degree_and_with_a_point_less_it_is_not(system, degree):
    flow = VectorField(system, system.energy)
    z = [UOp.var(f"z{k}") for k in range(len(flow.z))]
    y = [UOp.var(f"y{k}") for k in range(len(flow.z))]
    ends = StepEnds(system, flow, z)
    rng = np.random.default_rng(5)
    numbers = [float(x) for x in rng.normal(size=2 * len(z))]

    def missed(degree):
        found = UOp.sum_of([g * d for g, d in zip(mean_gradient(ends, degree), ends.way)])
        (after,) = ends.at([ends.energy], z)
        roots = substitute([found, after - ends.energy], dict(zip(ends.y, y)))
        along, change = vm.Expression(roots, [str(u.arg) for u in (*y, *z)])(*numbers)
        return abs(along - change) / abs(change)

    assert missed(degree) < 1e-13 < 1e-3 < missed(degree - 2)


# --- what it costs -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
def test_it_is_not_symplectic_and_nobody_says_so(method):
    sim = tp.compile(henon_heiles, dt=0.1, method=method)
    assert not tp.measure_symplectic(sim, **TRAPPED).symplectic
    assert not sim.certificate.symplectic and not sim.certificate["volume-preserving"]
    told = str(sim.explain("full"))
    assert "the energy" in told and "gives up" in told and "error=" in told and '"solver"' in told


def test_linear_momentum_is_kept_by_the_mean_alone():
    start = {"q": [0.0, 1.0, 1.7], "p": [0.3, 0.5, -0.2]}
    lost = {}
    for method in METHODS:
        out = tp.compile(chain, dt=0.2, method=method).evolve(**start, steps=1000)
        assert out.drift("energy") < 5e-13  # of a chain that goes far away
        lost[method] = abs(out.final.p.sum() - 0.6)
    assert lost["avf"] < 1e-13 < 1e-8 < min(lost["gonzalez"], lost["itoh_abe"])


@pytest.mark.parametrize(
    "method, system, why",
    [
        ("avf", pendulum, "is not a polynomial"),
        ("gonzalez", driven_pendulum, "depends on t"),
        ("itoh_abe", tp.forces(lambda q: -q), "not given by an energy"),
    ],
)
def test_what_it_needs_is_asked_for(method, system, why):
    with pytest.raises(PlanError, match=why):
        tp.compile(system, dt=0.1, method=method)


def test_many_numbers_have_too_many_quotients():
    @tp.hamiltonian
    def many(q: tp.Vec[40], p: tp.Vec[40]):
        return p @ p / 2 + (q**4).sum()

    with pytest.raises(PlanError, match="80 numbers"):
        tp.compile(many, dt=0.1, method="itoh_abe")


# --- the same bits everywhere ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "method, system", [("avf", curved), ("gonzalez", pendulum), ("itoh_abe", pendulum), ("itoh_abe", curved)]
)
def test_every_backend_has_the_same_bits(method, system):
    start = {"q": np.linspace(-1, 1, 13), "p": np.linspace(0.0, 1.2, 13)}
    found = set()
    for b in BACKENDS:
        out = tp.compile(system, dt=0.1, method=method, backend=b).evolve(**start, steps=7)
        found.add(out.final.q.tobytes() + out.final.p.tobytes())
    assert len(found) == 1


def test_a_quotient_on_a_way_of_middle_length_is_kept_as_well():
    """Momenta are small there beside the sizes of the terms, so that the divisor is held where slopes still vary."""

    @tp.hamiltonian
    def trapped(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + 1.44 / q[0] ** 2 + tp.exp(tp.sin(0.8 * q[0]) * q[0]) + q @ q / 2

    out = tp.compile(trapped, dt=0.2, method="itoh_abe").evolve(q=[0.9, -0.2], p=[0.37, 0.98], steps=200)
    assert out.drift("energy") < 5e-14
