"""Are invariants held where a run began, and is it said what that breaks?"""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics import tpir
from tinyphysics.errors import InputError, PlanError
from tinyphysics.physics.particles import gravity
from tinyphysics.physics.zoo import driven_pendulum, kepler, pendulum

START = {"q": [1.0, 0.0], "p": [0.0, 1.2]}
MANY = {"q": np.linspace(0.5, 1.0, 26).reshape(13, 2), "p": np.linspace(1.0, 0.1, 26).reshape(13, 2)}
BACKENDS = ("python", "numpy", "llvm", "c")


def angular(q, p):
    return q[0] * p[1] - q[1] * p[0]


def moved(out):
    seen = out.observed["L"][1]
    return np.abs(seen / seen[0] - 1).max()


@pytest.mark.requirement("S2-11")
@pytest.mark.parametrize(
    "method", ["leapfrog", "yoshida4", "takahashi_imada4", "rk4", "implicit_midpoint", "gonzalez"]
)
def test_the_energy_is_held_in_every_step(method):
    """A thousand times better at least, and no drift; angular momentum is what it costs."""
    plain, held = (
        tp.compile(kepler, dt=0.05, method=method, project=p).evolve(
            **START, steps=10_000, observe={"L": angular}
        )
        for p in (None, "energy")
    )
    assert held.stopped is None and held.drift("energy") < 1e-15
    if method != "gonzalez":
        assert plain.drift("energy") > 1e3 * held.drift("energy")
    if method in ("leapfrog", "implicit_midpoint"):
        assert moved(plain) < 2e-14 < 1e-4 < moved(held)


@pytest.mark.requirement("S2-11")
def test_invariants_of_the_user_are_held_too():
    for project in ({"energy": "energy", "L": angular}, {"L": angular}):
        out = tp.compile(kepler, dt=0.05, method="rk4", project=project).evolve(
            **START, steps=10_000, observe={"L": angular}
        )
        assert out.stopped is None and moved(out) < 1e-15
        assert (out.drift("energy") < 1e-15) == ("energy" in project)


def test_the_order_stays():
    exact = tp.compile(kepler, dt=0.002, method="gauss6").evolve(**START, until=5.0).final.q
    for method, order in (("leapfrog", 2), ("yoshida4", 4)):
        coarse, fine = (
            np.abs(
                tp.compile(kepler, dt=dt, method=method, project="energy").evolve(**START, until=5.0).final.q
                - exact
            ).max()
            for dt in (0.05, 0.025)
        )
        assert order - 0.3 < np.log2(coarse / fine) < order + 0.5


@pytest.mark.requirement("S2-11")
def test_where_the_gradient_vanishes_nothing_moves():
    out = tp.compile(pendulum, dt=0.1, project="energy").evolve(
        q=np.array([0.0, 0.0, 1.0]), p=np.array([0.0, 1.0, 0.0]), steps=1000
    )
    assert not out.stops and out.final.q[0] == 0.0 == out.final.p[0] and np.isfinite(out.final.q).all()
    assert np.max(out.drift("energy")) < 1e-15


def test_two_names_of_one_invariant_are_not_solved_for_silently():
    out = tp.compile(kepler, dt=0.1, project={"a": "energy", "b": "energy"}).evolve(**START, steps=10)
    assert out.stopped.cause == "not solved"


@pytest.mark.requirement("S2-11")
def test_it_is_not_symplectic_and_it_is_said():
    sim = tp.compile(kepler, dt=0.05, project="energy")
    assert not any(bool(v) for _, v in sim.certificate.items())
    assert not tp.measure_symplectic(sim, **START).symplectic
    assert tp.measure_symplectic(tp.compile(kepler, dt=0.05), **START).symplectic
    told = str(sim.explain("full"))
    assert "project" in told and "its price" in told and "not symplectic" in told and "error=" in told


# --- the same bits everywhere ----------------------------------------------------------------------------
def test_every_backend_has_the_same_bits():
    sims = [tp.compile(kepler, dt=0.05, project={"E": "energy", "L": angular}, backend=b) for b in BACKENDS]
    assert len({s.evolve(**MANY, steps=7).hash for s in sims}) == 1
    assert tpir.parse(str(sims[0].tpir)) == sims[0].tpir


def test_a_member_is_held_at_its_own_and_has_the_bits_that_it_has_alone():
    sim = tp.compile(kepler, dt=0.05, project="energy")
    together = sim.evolve(**MANY, steps=50)
    for k in (0, 5, 12):
        alone = sim.evolve(q=MANY["q"][k], p=MANY["p"][k], steps=50)
        assert (alone.final.q == together.final.q[k]).all() and (alone.final.p == together.final.p[k]).all()


def test_a_run_that_is_resumed_is_held_where_it_began(tmp_path):
    sim = tp.compile(kepler, dt=0.05, project="energy")
    whole = sim.evolve(**START, steps=40)
    sim.evolve(**START, steps=25, checkpoint=tmp_path / "run.checkpoint")
    assert sim.evolve(steps=15, resume=tmp_path / "run.checkpoint").hash == whole.hash


# --- what does not go ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "system, options, why",
    [
        (driven_pendulum, {}, "depends on t"),
        (tp.forces(lambda q: -q), {}, "given by its forces"),
        (gravity, {}, "sizes"),
        (kepler, {"method": "taylor"}, "do not end with the states q and p"),
        (kepler, {"precision": "float32"}, "solves equations"),
        (pendulum, {"propagator": "exact"}, "propagator"),
    ],
)
def test_what_does_not_go_with_it_is_refused(system, options, why):
    with pytest.raises(PlanError, match=why):
        tp.compile(system, dt=0.1, project="energy", **options).explain("full")


@tp.hamiltonian
def bead(q: tp.Vec[2], p: tp.Vec[2], g=9.81):
    return p @ p / 2 + g * q[1]


@tp.hamiltonian
def two_springs(q: tp.Vec[2], p: tp.Vec[2], a=1.0, b=1.0):
    return p @ p / 2 + a * q[0] ** 2 / 2 + b * q[1] ** 2 / 2


@tp.hamiltonian
def toda(q: tp.Vec[3], p: tp.Vec[3]):
    return p @ p / 2 + tp.exp(q[0] - q[1]) + tp.exp(q[1] - q[2]) + tp.exp(q[2] - q[0])


# fmt: off
KEPT = [
    (kepler,      lambda q, p: q[0] * p[1] - q[1] * p[0]),
    (kepler,      lambda q, p: p[1] * (q[0] * p[1] - q[1] * p[0]) - q[0] / tp.norm(q)),    # Laplace, Runge, Lenz
    (kepler,      lambda q, p: tp.exp(p @ p / 2 - 1 / tp.norm(q))),
    (bead,        lambda p: p[0]),
    (toda,        lambda p: p.sum()),
    (toda,        lambda q, p: p[0]*p[1]*p[2] - p[0]*tp.exp(q[1]-q[2]) - p[1]*tp.exp(q[2]-q[0]) - p[2]*tp.exp(q[0]-q[1])),
    (two_springs, lambda q, p: q[0] * p[1] - q[1] * p[0]),                                 # for its default parameters
    (two_springs, lambda q, p, a: p[0] ** 2 + a * q[0] ** 2),
]
NOT_KEPT = [
    (bead,        lambda q: q @ q),
    (bead,        lambda q: tp.norm(q)),
    (bead,        lambda q, p: q @ p),
    (kepler,      lambda q, p: q[0] * p[1]),
    (kepler,      lambda q, p: q[0] * p[1] - (1 + 1e-12) * q[1] * p[0]),
    (toda,        lambda p: p[0]),
    (toda,        lambda q, p: p.sum() + 1e-15 * q[0] * p[0]),
]
# fmt: on


@pytest.mark.parametrize("system, function", KEPT)
def test_what_is_conserved_may_be_held(system, function):
    assert tp.compile(system, dt=0.1, project={"I": function}).goal.project


@pytest.mark.parametrize("system, function", NOT_KEPT)
def test_what_is_not_conserved_is_refused_with_what_to_write(system, function):
    with pytest.raises(PlanError, match="does not conserve `I`") as found:
        tp.compile(system, dt=0.1, project={"I": function})
    assert "such as an angle" in found.value.fix and found.value.site is not None


def test_what_only_some_parameters_conserve_is_asked_again_for_those_of_a_run():
    L = KEPT[0][1]
    sim = tp.compile(two_springs, dt=0.1, project={"L": L})
    start = {"q": [1.0, 0.0], "p": [0.0, 1.0], "steps": 3}
    assert sim.evolve(**start).stopped is None
    assert sim.evolve(**start, a=2.0, b=2.0).stopped is None
    for given in ({"a": 2.0}, {"a": [1.0, 1.0, 2.0]}, {"a": 1.0 + 1e-12}):
        with pytest.raises(PlanError, match="does not conserve `L`"):
            sim.evolve(**start, **given)


def test_a_parameter_without_a_default_is_asked_for_in_the_run():
    @tp.hamiltonian
    def springs(q: tp.Vec[2], p: tp.Vec[2], a, b):
        return p @ p / 2 + a * q[0] ** 2 / 2 + b * q[1] ** 2 / 2

    sim = tp.compile(springs, dt=0.1, project={"L": KEPT[0][1]})
    start = {"q": [1.0, 0.0], "p": [0.0, 1.0], "steps": 3}
    assert sim.evolve(**start, a=3.0, b=3.0).stopped is None
    with pytest.raises(PlanError, match="does not conserve `L`"):
        sim.evolve(**start, a=3.0, b=4.0)


def test_where_nothing_is_finite_a_pilot_says_where_to_look():
    @tp.hamiltonian
    def far(q, p):
        return p**2 / 2 + tp.sqrt(q - 100) + tp.log(q - 100)

    @tp.hamiltonian
    def free(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + tp.sqrt(q[0] - 100)

    with pytest.raises(PlanError, match="could not be measured"):
        tp.compile(far, dt=0.1, project={"I": lambda q, p: q * p})
    assert tp.compile(free, dt=0.1, project={"I": lambda p: p[1]}).goal.project  # shown: nothing is measured


@pytest.mark.parametrize("project", [3, {}, {"a": lambda q: 1.0}, {"a": lambda q: q}, "momentum"])
def test_what_is_no_invariant_is_refused(project):
    with pytest.raises(InputError):
        tp.compile(kepler, dt=0.1, project=project)


def test_what_is_held_is_saved_with_the_simulation(tmp_path):
    @tp.hamiltonian
    def plane(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 - 1 / tp.norm(q)

    held = {"energy": "energy", "L": lambda q, p: q[0] * p[1] - q[1] * p[0]}
    sim = tp.compile(plane, dt=0.05, project=held)
    sim.save(tmp_path / "plane.json")
    start = dict(q=[1.0, 0.0], p=[0.0, 1.2], steps=20)
    assert tp.load(tmp_path / "plane.json").evolve(**start).hash == sim.evolve(**start).hash
