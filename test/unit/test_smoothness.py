"""One answer to "is it smooth?", read by facts, certificates, orders and goals; every yes is looked at in numbers."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.analysis.smooth import smooth
from tinyphysics.errors import PlanError
from tinyphysics.rules.formulas.smoothness import JUMP, KINK, roughest

SOFTPLUS = tp.op("a_softplus", lambda x: tp.log(1 + tp.exp(x)), lambda x: (1 / (1 + tp.exp(-x)),))
STAIR = tp.op("a_stair", lambda x: tp.where(x > 0.3, 0.2, 0.0), lambda x: (0.0 * x,))

# potentials by the derivatives that are continuous; None: smooth wherever they are finite
POTENTIALS = {
    "square": (lambda q: q**2, None),
    "cosine": (lambda q: np.cos(q), None),
    "softened": (lambda q: np.sqrt(q * q + 0.01), None),
    "pole": (lambda q: 1 / q, None),
    "pole of a root": (lambda q: 1 / np.sqrt(q * q), None),
    "Yukawa": (lambda q: np.exp(-np.sqrt(q * q)) / np.sqrt(q * q), None),
    "logarithm": (lambda q: np.log(q), None),
    "arctangent": (lambda q: np.arctan(q), None),
    "small arccosine": (lambda q: np.arccos(np.cos(q) / 2), None),
    "positive second": (lambda q: np.arctan2(q, 1 + q * q), None),
    "user's": (lambda q: SOFTPLUS(q), None),
    "root of a square": (lambda q: np.sqrt(q**2), KINK),
    "root of a product": (lambda q: np.sqrt(q * q - 2 * q + 1), KINK),
    "fourth root": (lambda q: (q**4) ** 0.25, KINK),
    "hypot": (lambda q: tp.hypot(q, 0.0), KINK),
    "cube root": (lambda q: np.cbrt(q) ** 2, KINK),
    "arccosine": (lambda q: np.arccos(np.cos(q)), KINK),
    "arcsine": (lambda q: np.arcsin(np.sin(q)), KINK),
    "absolute": (lambda q: abs(q), KINK),
    "ramp": (lambda q: tp.where(q > 0, q, 0), KINK),
    "wall": (lambda q: tp.where(q > 0.5, (q - 0.5) ** 2, 0), 1),
    "soft wall": (lambda q: tp.where(q > 0.5, (q - 0.5) ** 4, 0), 2),
    "three halves": (lambda q: (q * q) ** 1.5, 1),
    "angle": (lambda q: np.arctan2(np.sin(q), np.cos(q)), JUMP),
    "angle of a tangent": (lambda q: np.arctan(np.tan(q)), JUMP),
    "angle of a pole": (lambda q: np.arctan(1 / q), JUMP),
    "hidden pole": (lambda q: np.tanh(1 / q), JUMP),
    "sign": (lambda q: q / np.sqrt(q**2), JUMP),
    "stair": (lambda q: tp.where(q < 0.3, 0, 0.2), JUMP),
    "condition": (lambda q: (q > 0.3) * 0.2, JUMP),
    "condition as a power": (lambda q: 1.2 ** (q > 0.3), JUMP),
    "remainder": (lambda q: q % 1.0, JUMP),
    "one at a time": (lambda q: tp.where(q > 0, q * (1 / q), 0), JUMP),
    "user's stair": (lambda q: STAIR(q), JUMP),
}


def with_potential(f):
    @tp.hamiltonian
    def h(q: float, p: float):
        return p**2 / 2 + f(q)

    return h


@pytest.mark.parametrize("name", POTENTIALS)
def test_facts_orders_and_certificates_say_the_same(name):
    f, order = POTENTIALS[name]
    system = with_potential(f)
    worst = roughest([system.energy], frozenset(system.q + system.p))
    assert (None if worst is None else worst.order) == order
    assert smooth(system).holds == (order is None)
    for method in ("leapfrog", "implicit_midpoint"):
        sim = tp.compile(system, dt=0.01, method=method)
        assert ("where H is smooth" in str(sim.explain("full"))) == (order is not None)
        assert sim.certificate.consistent.holds == (order is None or order > JUMP)


@pytest.mark.parametrize("name", [n for n, (_, order) in POTENTIALS.items() if order is None])
def test_where_a_yes_is_finite_its_slope_is_continuous(name):
    """Sampled: between two points the slope changes by about as much as between the points half as far apart, twice."""
    f, _ = POTENTIALS[name]

    @tp.map
    def look(q: float):
        return f(q)

    run = tp.compile(look, backend="numpy")

    def values(x):
        return np.asarray(run.evolve(q=x, steps=1).final.q) if len(x) else x

    x = np.linspace(-2.013, 2.017, 4001)
    v = values(x)
    slopes = np.diff(v) / np.diff(x)
    change = np.abs(np.diff(slopes))
    settled = np.isfinite(change) & (np.abs(slopes[1:]) < 30) & (np.abs(slopes[:-1]) < 30)
    assert settled.sum() > 1000 and change[settled].max() < 1.2


def test_what_moves_along_an_axis_is_not_taken_for_what_stands_in_place():
    @tp.hamiltonian
    def shifted(q: tp.Vec[3], p: tp.Vec[3]):
        return p @ p / 2 + tp.where(np.roll(q, 1) > 0, q, 0.0).sum()

    @tp.hamiltonian
    def in_place(q: tp.Vec[3], p: tp.Vec[3]):
        return p @ p / 2 + tp.where(q > 0, q, 0.0).sum()

    orders = [roughest([s.energy], frozenset(s.q + s.p)).order for s in (shifted, in_place)]
    assert orders == [JUMP, KINK]


def test_distances_have_a_kink_where_they_vanish_unless_the_energy_is_infinite_there():
    @tp.hamiltonian
    def spring(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + (tp.norm(q) - 1) ** 2 / 2

    @tp.hamiltonian
    def kepler(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 - 1 / tp.norm(q)

    assert not smooth(spring) and smooth(kepler)


def planets(jump):
    @tp.hamiltonian
    def bodies(q: tp.Array[3, 3], p: tp.Array[3, 3], m: tp.Vec[3] = (1.0, 1e-3, 1e-4)):
        d = q[:, None] - q[None, :]
        r = np.sqrt((d**2).sum(-1))
        kick = 1e-9 * tp.where(q[1, 0] > 0, 1.0, 0.0) if jump else 0.0
        return ((p**2).sum(-1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / r) + kick

    return bodies


@pytest.mark.parametrize("method", ["leapfrog", "wisdom_holman", "saba3", "aba864"])
def test_a_jump_is_not_consistent_whatever_the_method(method):
    q = [[0.0, 0, 0], [1.0, 0, 0], [0, 5.0, 0]]
    p = [[0.0, 0, 0], [0, 1e-3, 0], [-4.5e-5, 0, 0]]
    for jump in (False, True):
        try:
            sim = tp.compile(planets(jump), dt=0.05, method=method)
            sim.evolve(q=q, p=p, steps=1)
        except PlanError:  # what is no sum over pairs may not be on orbits at all
            assert jump
            continue
        assert sim.certificate.consistent.holds == (not jump)


@pytest.mark.parametrize(
    "method", ["stormer_verlet_implicit", "implicit_midpoint", "gauss4", "extended_phase_space4"]
)
def test_equations_across_a_kink_may_have_two_solutions(method):
    """Forth one of them is found, back perhaps the other: (0.46, 0.95) came back 0.15 beside where it began."""

    @tp.hamiltonian
    def edge(q, p):
        return p**2 / 2 + (1 + q**2) * p**2 / 2 + tp.maximum(p, q) ** 2

    @tp.hamiltonian
    def round_edge(q, p):
        return p**2 / 2 + (1 + q**2) * p**2 / 2 + tp.where(q > 0, q**2, 0.0)

    found = tp.compile(edge, dt=0.2, method=method).certificate
    assert not found.symmetric and not found.reversible and "several solutions" in found.symmetric.because
    assert tp.compile(round_edge, dt=0.2, method=method).certificate.symmetric


@pytest.mark.parametrize("rough, is_a_point", [("q[0]**2 + q[1]**2", True), ("q[0]**2 + q[0]**2", False)])
def test_a_length_has_its_kink_at_a_point_which_no_step_goes_across(rough, is_a_point):
    scope = {"tp": tp}
    text = f"@tp.hamiltonian\ndef system(q: tp.Vec[2], p: tp.Vec[2]):\n    return (1 + q @ q) * (p @ p) / 2 + tp.sqrt({rough})"
    exec(text, scope)
    assert bool(tp.compile(scope["system"], dt=0.1).certificate.symmetric) == is_a_point


def test_a_cutoff_of_few_particles_ends_as_one_of_many():
    """They have no list: how the sum ends is read from what was written, whatever its length is made of."""

    def ended(n, **how):
        @tp.hamiltonian
        def gas(q: tp.Array["n", 3], p: tp.Array["n", 3], L: float):
            r2 = tp.pair_distance2(q, box=L, cutoff=0.45 * L, **{k: f(L) for k, f in how.items()})
            return (p**2).sum() / 2 + tp.pair_sum(1 / np.sqrt(r2))

        return tp.compile(gas, dt=0.01, sizes={"n": n})

    switch = {"switch": lambda L: 0.4 * L}
    for n in (2, 8, 20):
        smooth = ended(n, **switch)
        assert smooth.certificate.consistent and "with an error of size dt**2" in str(smooth.explain())
        jumps = ended(n)
        assert not jumps.certificate.consistent and "the energy may jump" in str(jumps.explain())
    q = np.random.default_rng(0).uniform(0, 4, (8, 3))
    with pytest.raises(tp.errors.InputError, match="the switch begins at 2"):
        ended(8, switch=lambda L: 0.5 * L).evolve(q=q, p=0 * q, L=4.0, steps=1)
