"""Energies in which q and p mix: vector potentials, rotating frames, relativity, curved space, by every method for them."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp

SOLVED = ("implicit_midpoint", "gauss4", "gauss6")
HALVES = ("stormer_verlet_implicit", "stormer_verlet_implicit4", "stormer_verlet_implicit6")
KICKED = ("kick_midpoint", "kick_midpoint4", "kick_midpoint6")
COPIES = ("extended_phase_space", "extended_phase_space4", "extended_phase_space6")


@tp.hamiltonian
def magnetic(q: tp.Vec[2], p: tp.Vec[2], B: float = 0.7):
    """A charge in a field that grows outwards, and in a trap."""
    A = 0.5 * B * (1 + 0.2 * (q @ q)) * np.array([-1.0, 1.0]) * np.stack([q[1], q[0]])
    v = p - A
    return v @ v / 2 + q @ q / 2


@tp.hamiltonian
def rotating(q: tp.Vec[2], p: tp.Vec[2], omega: float = 0.5):
    """Two wells that turn, seen from a frame that turns with them."""
    well = -1 / tp.sqrt((q[0] - 1) ** 2 + q[1] ** 2 + 1) - 1 / tp.sqrt((q[0] + 1) ** 2 + q[1] ** 2 + 1)
    return p @ p / 2 - omega * (q[0] * p[1] - q[1] * p[0]) + well


@tp.hamiltonian
def fast_charge(q: tp.Vec[2], p: tp.Vec[2], c: float = 2.0):
    """A relativistic charge in a magnetic field, along a hill."""
    v = p - 0.5 * np.stack([-q[1], q[0]])
    return c**2 * tp.sqrt(1 + (v @ v) / c**2) + q @ q / 2


@tp.hamiltonian
def curved(q, p):
    return (1 + q**2) * p**2 / 2 + q**4


SYSTEMS = {
    "magnetic": (magnetic, {"q": [0.5, 0.1], "p": [0.2, 0.6]}),
    "rotating": (rotating, {"q": [0.4, 0.2], "p": [0.1, 0.5]}),
    "fast_charge": (fast_charge, {"q": [0.5, 0.1], "p": [0.3, 1.0]}),
    "curved": (curved, {"q": 0.5, "p": 0.5}),
}
UNTIL = 3.0


@pytest.fixture(scope="module")
def ends():
    """Where the motions end, to the last digits."""
    return {
        name: tp.compile(system, dt=0.01, method="gauss6").evolve(**start, until=UNTIL).final.q
        for name, (system, start) in SYSTEMS.items()
    }


@pytest.mark.requirement("S2-38")
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("family", [SOLVED, HALVES, COPIES, KICKED], ids=lambda f: f[0])
def test_errors_fall_as_the_orders_say(ends, name, family):
    system, start = SYSTEMS[name]
    orders = (2, 4, 6) if name == "curved" or family is SOLVED else (2, 4)  # the rest is long to compile
    for method, order, dt in zip(family, orders, (0.1, 0.1, 0.2)):
        sim = tp.compile(system, dt=dt, method=method)
        coarse, fine = (
            np.linalg.norm(sim.evolve(**start, until=UNTIL, dt=h).final.q - ends[name]) for h in (dt, dt / 2)
        )
        assert order - 0.4 < np.log2(coarse / fine) < order + 0.5, method


@pytest.mark.requirement("S2-38")
@pytest.mark.parametrize("name", SYSTEMS)
def test_steps_are_symplectic_where_they_are_measured(name):
    """And shown to be."""
    system, start = SYSTEMS[name]
    for method in (
        "implicit_midpoint",
        "gauss4",
        "stormer_verlet_implicit",
        "kick_midpoint",
        "extended_phase_space",
    ):
        sim = tp.compile(system, dt=0.1, method=method)
        assert tp.measure_symplectic(sim, **start).symplectic, method
        assert sim.certificate.symplectic and sim.certificate.symmetric and sim.certificate.consistent, method


@pytest.mark.parametrize("name", ["magnetic", "curved"])
@pytest.mark.parametrize("method", ["stormer_verlet_implicit4", "kick_midpoint", "extended_phase_space"])
def test_every_backend_has_the_same_bits(name, method):
    system, start = SYSTEMS[name]
    many = {
        k: np.asarray(v) * np.linspace(0.2, 1.2, 5).reshape(-1, *[1] * np.ndim(v)) for k, v in start.items()
    }
    found = {
        b: tp.compile(system, dt=0.1, method=method, backend=b).evolve(**many, steps=5).hash
        for b in ("python", "numpy", "llvm", "c")
    }
    assert len(set(found.values())) == 1


def test_energies_are_bounded_for_a_long_time():
    for name, (system, start) in SYSTEMS.items():
        out = tp.compile(system, dt=0.1, method="implicit_midpoint").evolve(**start, steps=20_000)
        assert out.stopped is None and out.drift("energy") < 0.01, name
        assert out.metrics["solver"]["residual"] < 1e-13 and out.metrics["solver"]["most_rounds"] < 12, name


def test_reversing_the_momenta_does_not_bring_a_charge_back_and_reversing_the_field_too_does():
    """Symmetric is not reversible (numerics, 5)."""
    sim = tp.compile(magnetic, dt=0.05, order=4)
    assert sim.certificate.symmetric and not sim.certificate.reversible
    out = sim.evolve(q=[0.5, 0.1], p=[0.2, 0.6], steps=100)
    missed = sim.evolve(q=out.final.q, p=-out.final.p, steps=100).final
    back = sim.evolve(q=out.final.q, p=-out.final.p, B=-0.7, steps=100).final
    assert np.abs(back.q - [0.5, 0.1]).max() < 1e-13 < 1e-2 < np.abs(missed.q - [0.5, 0.1]).max()


# --- relativity --------------------------------------------------------------------------------------------
@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], m: float = 2.0):
    return p @ p / (2 * m) - 1 / tp.norm(q)


@pytest.mark.requirement("S2-61")
def test_slow_particles_are_those_of_newton_to_order_one_over_c_squared():
    start = {"q": [1.0, 0.0], "p": [0.0, 1.5]}
    slow = tp.compile(kepler, dt=0.01).evolve(**start, until=5.0).final.q
    sim = tp.compile(kepler, dt=0.01, kinetics="relativistic")
    away = [np.linalg.norm(sim.evolve(**start, until=5.0, c=c).final.q - slow) for c in (20.0, 40.0, 80.0)]
    assert np.allclose(np.log2(away[:2]) - np.log2(away[1:]), 2.0, atol=0.02)
    assert sim.certificate.symplectic and sim.certificate.reversible


@pytest.mark.requirement("S2-61")
def test_nothing_is_faster_than_light():
    @tp.hamiltonian
    def pushed(q, p, m: float = 1.0, c: float = 1.0):
        return p**2 / (2 * m) - 50.0 * q

    out = tp.compile(pushed, dt=0.01, kinetics="relativistic").evolve(q=0.0, p=0.0, steps=10_000)
    way = np.diff(out.q) / np.diff(out.t)
    assert 0.9 < way[-1] <= 1.0 + 1e-12 and out.p[-1] > 1000


@pytest.mark.requirement("S2-61")
def test_a_slow_energy_keeps_its_digits():
    """sqrt(p**2 c**2 + m**2 c**4) - m c**2 would have none at all here."""

    @tp.hamiltonian
    def free(q: tp.Vec[3], p: tp.Vec[3], m: float = 1.0, c: float = 299_792_458.0):
        return p @ p / (2 * m)

    out = tp.compile(free, dt=0.1, kinetics="relativistic").evolve(q=[0.0] * 3, p=[3.0, 0.0, 4.0], steps=1)
    assert abs(out.energy[0] / 12.5 - 1) < 1e-15


def test_particles_of_different_masses_each_have_their_own_energy():
    @tp.hamiltonian
    def many(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Array["n"]):
        return (p * p / (2 * m[:, None])).sum() + (q * q).sum() / 2

    sim = tp.compile(many, dt=0.01, kinetics="relativistic")
    p, m, c = np.array([[3.0, 0.0, 4.0], [0.0, 1.0, 0.0]]), np.array([1.0, 5.0]), 2.0
    energy = sim.evolve(q=np.zeros((2, 3)), p=p, m=m, c=c, steps=1).energy[0]
    assert np.isclose(energy, (np.sqrt((p**2).sum(1) * c**2 + m**2 * c**4) - m * c**2).sum(), rtol=1e-14)


@pytest.mark.parametrize(
    "system, why",
    [
        (curved, "is not shown to be T\\(p\\) \\+ V\\(q\\)"),
        (tp.forces(lambda q: -q), "it is given by its forces"),
        (tp.hamiltonian(lambda q, p: p**4 + q**2), "is not proportional to p"),
    ],
)
def test_what_has_no_mass_is_refused(system, why):
    with pytest.raises(tp.PlanError, match=why):
        tp.compile(system, dt=0.1, kinetics="relativistic")


# --- signs -------------------------------------------------------------------------------------------------
def fast_many():
    @tp.hamiltonian
    def many(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Array["n"], k: float = 1.0):
        return (p * p / (2 * m[:, None])).sum() + k * (q * q).sum() / 2

    return tp.compile(many, dt=0.01, kinetics="relativistic", sizes={"n": 2})


@pytest.mark.parametrize(
    "given, message",
    [
        ({"c": 0.0}, r"`c` is 0, and must be positive"),
        ({"c": -2.0}, r"`c` is -2, and must be positive"),
        ({"c": [1.0, 2.0, -1.0]}, r"`c` is -1 for member 2, and must be positive"),
        ({"m": [1.0, -3.0]}, r"`m\[1\]` is -3, and must be not negative"),
        ({"m": [[1.0, 1.0], [-0.5, 1.0]]}, r"`m\[0\]` is -0.5 for member 1, and must be not negative"),
    ],
)
def test_a_speed_of_light_or_a_mass_of_the_wrong_sign_is_refused(given, message, tmp_path):
    sim = fast_many()
    start = {"q": np.zeros((2, 3)), "p": np.ones((2, 3)), "m": [1.0, 2.0]}
    sim.evolve(**start, k=-1.0, steps=1)  # nothing is demanded of the others
    with pytest.raises(tp.InputError, match=message):
        sim.evolve(**start | given, steps=1)
    sim.save(tmp_path / "fast.json")
    with pytest.raises(tp.InputError, match=message):
        tp.load(tmp_path / "fast.json").evolve(**start | given, steps=1)


def test_what_has_no_mass_may_move_at_the_speed_of_light():
    out = tp.compile(kepler, dt=0.01, kinetics="relativistic").evolve(
        q=[5.0, 0.0], p=[0.0, 30.0], m=0.0, c=2.0, steps=1
    )
    assert np.isclose(out.q[1, 1], 0.02, rtol=1e-4)


def test_a_mass_is_positive_if_the_parameters_that_it_is_made_of_are():
    squared = tp.hamiltonian(lambda q, p, a=-1.0, b=2.0: p**2 / (2 * a * a * b) + q**2)
    sim = tp.compile(squared, dt=0.1, kinetics="relativistic")
    assert [x.name for x in sim.system.parameters if x.sign == "not negative"] == ["b"]
    for wrong in (lambda q, p, a=3.0, b=1.0: p**2 / (2 * (a - b)) + q**2, lambda q, p: q**2 - p**2 / 2):
        with pytest.raises(tp.PlanError, match="is not shown to be positive"):
            tp.compile(tp.hamiltonian(wrong), dt=0.1, kinetics="relativistic")
