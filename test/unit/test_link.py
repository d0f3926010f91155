"""Do sums of systems run as the one system that they are?  With the same bits, and kinetic energy counted once."""

from dataclasses import fields

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.errors import InputError, PlanError, ShapeError
from tinyphysics.physics.particles import coulomb, gravity
from tinyphysics.system import OPTIONS, SHOWN
from tinyphysics.trajectory import Frame, Trajectory


@tp.hamiltonian
def chain(q: tp.Vec["n"], p: tp.Vec["n"], alpha: float = 0.25):
    s = tp.diff(q, prepend=0.0, append=0.0)
    return p @ p / 2 + (s**2 / 2 + alpha * s**3 / 3).sum()


@tp.potential
def trap(q: tp.Vec["m"], k: float = 0.5):
    return k * (q @ q) / 2


@tp.hamiltonian
def quartic(q: tp.Vec["n"], p: tp.Vec["n"], c: float = 0.1):
    return 0.5 * (p**2).sum() + c * (q**4).sum()


@tp.hamiltonian
def whole(q: tp.Vec["n"], p: tp.Vec["n"], alpha: float = 0.25, k: float = 0.5, c: float = 0.1):
    s = tp.diff(q, prepend=0.0, append=0.0)
    return p @ p / 2 + (s**2 / 2 + alpha * s**3 / 3).sum() + k * (q @ q) / 2 + c * (q**4).sum()


@tp.hamiltonian
def pendulum(x, y, g=1.0):
    return y**2 / 2 - g * tp.cos(x)


Q = np.sin(np.arange(24.0))


@pytest.mark.requirement("S2-58")
@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("backend", ["python", "numpy", "llvm"])
def test_a_sum_has_the_bits_of_one_energy(order, backend):
    given = dict(q=Q, p=0 * Q, k=0.3, c=0.2, steps=20)
    sums = tp.compile(chain + trap + quartic, dt=0.1, order=order, backend=backend)
    assert (
        sums.evolve(**given).hash
        == tp.compile(whole, dt=0.1, order=order, backend=backend).evolve(**given).hash
    )
    assert sums.certificate.symplectic and sums.certificate.consistent


@pytest.mark.requirement("S2-58")
def test_kinetic_energy_counts_once():
    out = tp.compile(chain + quartic, dt=0.1).evolve(q=Q, p=np.ones(24), steps=0)
    assert out.energy[0] == pytest.approx(
        12
        + (np.diff(Q, prepend=0, append=0) ** 2 / 2).sum()
        + 0.25 * (np.diff(Q, prepend=0, append=0) ** 3).sum() / 3
        + 0.1 * (Q**4).sum()
    )


def test_particles_with_masses_attract_and_repel():
    """Both have sum p**2/(2 m), with m an array."""
    rng = np.random.default_rng(1)
    x, m, charge = rng.normal(size=(12, 3)), rng.uniform(1, 2, 12), rng.normal(size=12)
    sim = tp.compile(gravity + coulomb, dt=0.01)
    out = sim.evolve(q=x, p=0 * x, m=m, charge=charge, softening=0.2, steps=1)
    d = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1) + 0.04)
    i, j = np.triu_indices(12, 1)
    assert out.energy[0] == pytest.approx(((charge[i] * charge[j] - m[i] * m[j]) / d[i, j]).sum(), rel=1e-12)
    assert (
        "the kinetic energy of `p` counted once" in str(sim.explain("full"))
        and "`softening`" in sim.system.linked
    )


def test_separate_states_stay_separate():
    sim = tp.compile(pendulum + pendulum.rename(x="u", y="v", g="g2"), dt=0.1)
    both = sim.evolve(x=1.0, y=0.0, u=0.5, v=0.2, g=1.3, g2=0.7, steps=50)
    for names, start, g in ((("x", "y"), (1.0, 0.0), 1.3), (("u", "v"), (0.5, 0.2), 0.7)):
        alone = tp.compile(pendulum, dt=0.1).evolve(x=start[0], y=start[1], g=g, steps=50)
        assert [getattr(both.final, n) for n in names] == [alone.final.x, alone.final.y]


def test_a_class_a_time_and_a_part_that_is_there_twice():
    class Well(tp.PhysicsSystem):
        depth = 2.0

        def energy(self, q, p):
            return p**2 / 2 + self.depth * q**2 / 2

    @tp.potential
    def drive(q, t, a=0.3):
        return -a * q * tp.cos(t)

    sim = tp.compile(Well() + drive + drive, dt=0.05)
    assert str(sim.system.energy) == "p**2/2 + depth*q**2/2 + -a*q*cos(t) + -a*q*cos(t)"
    one = tp.compile(Well() + drive, dt=0.05).evolve(q=0.1, p=0.0, a=0.6, steps=100).final
    assert sim.evolve(q=0.1, p=0.0, a=0.3, steps=100).final.q == pytest.approx(one.q, rel=1e-12)
    assert tp.compile(Well().rename(q="x") + pendulum.rename(x="z", y="w"), dt=0.1).system.q[0].arg == "x"


def test_renaming_changes_no_bit():
    other = tp.compile(pendulum.rename(x="angle", g="pull"), dt=0.1).evolve(
        angle=1.0, y=0.1, pull=2.0, steps=30
    )
    same = tp.compile(pendulum, dt=0.1).evolve(x=1.0, y=0.1, g=2.0, steps=30)
    assert (other.final.angle, other.final.y) == (same.final.x, same.final.y)


@tp.potential
def of_x(x, k=1.0):
    return k * x**2


@tp.potential
def of_a_plane(x: tp.Vec[2]):
    return x @ x


@tp.hamiltonian
def relativistic(x, y):
    return tp.sqrt(1 + y**2)


@tp.forces
def pull(x):
    return -x


@tp.hamiltonian
def turned(y, x):
    return x**2 / 2 + y**2


@pytest.mark.parametrize(
    "make, error, said",
    [
        (lambda: trap, PlanError, "without a kinetic energy nothing moves"),
        (lambda: trap + trap, PlanError, "nothing moves in `trap \\+ trap`"),
        (lambda: of_x + of_x, PlanError, "nothing moves"),
        (lambda: pendulum + pull, PlanError, "`pull` is given by its forces"),
        (
            lambda: pendulum + relativistic,
            PlanError,
            "move `y` in different ways: y\\*\\*2/2 and sqrt\\(1 \\+ y\\*\\*2\\)",
        ),
        (lambda: pendulum + turned, PlanError, "goes with"),
        (lambda: pendulum + of_a_plane, ShapeError, "1 axes in `of_a_plane`"),
        (lambda: pendulum + of_x.rename(x="z"), PlanError, "no part of the sum has a kinetic energy for it"),
        (lambda: pendulum + of_x.rename(k="y"), PlanError, "`y` is a parameter of `of_x` and a state"),
        (lambda: pendulum + trap.rename(q="x"), ShapeError, "`x` has 1 axes in `trap` and 0 elsewhere"),
        (lambda: pendulum + of_x.rename(k="g") + relativistic, PlanError, "different ways"),
        (lambda: pendulum.rename(z="w"), InputError, "has no `z` to rename"),
        (lambda: pendulum.rename(x="y"), InputError, "two arguments named `y`"),
        (lambda: pendulum.rename(x="t"), InputError, "cannot be a name"),
        (lambda: pendulum.rename(g="threads"), InputError, "cannot be a name"),
        (lambda: pendulum.rename(x="seed"), InputError, "cannot be a name"),
        (
            lambda: tp.hamiltonian(lambda seed, p: p**2 / 2 + seed**2),
            tp.TraceError,
            "`seed` means an option of evolve",
        ),
    ],
)
def test_what_cannot_be_linked_is_refused(make, error, said):
    with pytest.raises(error, match=said):
        tp.compile(make(), dt=0.1, sizes=None)


def test_a_state_cannot_have_a_name_that_a_trajectory_has():
    """out.energy is the energy of every frame, whatever a state is called."""
    for make in (
        lambda: tp.hamiltonian(lambda energy, p: p**2 / 2 + energy**2),
        lambda: pendulum.rename(x="hash"),
    ):
        with pytest.raises((tp.TraceError, InputError), match="would be hidden: out"):
            make()
    known = {
        n
        for c in (Trajectory, Frame)
        for n in [*vars(c), *(f.name for f in fields(c))]
        if not n.startswith("_")
    }
    later = {
        "keys",
        "given",
        "quantity",
        "multipliers",
        "contacts",
        "decided",
        "heat",
        "shadow_work",
        "extended_energy",
        "mean",
    }  # than 0.1: they take no name away, and out["keys"] is the state of that name
    assert known - {*OPTIONS} - later == {*SHOWN}
    assert tp.compile(pendulum.rename(g="energy"), 0.1).evolve(
        x=1.0, y=0.0, energy=2.0, steps=1
    ).energy.shape == (2,)


def test_one_name_with_two_defaults_is_two_things():
    with pytest.raises(
        PlanError, match=r"`g` has the default 2.0 in `spring` and 1.0 elsewhere.*\n.*rename\(g="
    ):

        @tp.potential
        def spring(x, g=2.0):
            return g * x**2

        tp.compile(pendulum + spring, dt=0.1)


def test_sizes_are_those_of_the_arrays_that_parts_share():
    @tp.hamiltonian
    def three(q: tp.Vec[3], p: tp.Vec[3]):
        return p @ p / 2

    for sums in (three + trap, trap + three, three + trap + quartic):
        assert tp.compile(sums, dt=0.1).evolve(q=[1.0, 2.0, 3.0], p=[0.0] * 3, steps=0).energy[0] >= 3.5
    assert tp.compile(trap + chain, dt=0.1).source.letters == ("m",)
    assert tp.compile(chain + trap, dt=0.1, sizes={"n": 5}).system.q[0].shape == (5,)


def test_a_sum_is_saved_and_loaded(tmp_path):
    sim = tp.compile(pendulum + of_x, dt=0.1)
    sim.save(tmp_path / "s")
    assert (
        tp.load(tmp_path / "s").evolve(x=1.0, y=0.0, steps=9).hash == sim.evolve(x=1.0, y=0.0, steps=9).hash
    )


@pytest.mark.parametrize(
    "energy",
    [
        lambda q, p: (z := tp.concatenate([p, q])) @ z / 2,
        lambda q, p: tp.norm(tp.concatenate([p, q])) ** 2 / 2,
        lambda q, p: tp.maximum((p @ p + q @ q) / 2, -1.0),
    ],
)
def test_a_kinetic_energy_that_cannot_be_told_from_the_potential_is_not_counted_once(energy):
    """Counted once, the potential energy of the second part would be lost with it."""

    @tp.hamiltonian
    def one_piece(q: tp.Vec[2], p: tp.Vec[2]):
        return energy(q, p)

    with pytest.raises(PlanError, match="potential energy would be lost"):
        tp.compile(one_piece + one_piece, dt=0.1, method="rk4")


def test_what_vanishes_with_the_momenta_is_counted_once():
    @tp.hamiltonian
    def turning(q: tp.Vec[2], p: tp.Vec[2], w: float = 0.3):
        return p @ p / 2 - w * (q[0] * p[1] - q[1] * p[0]) + q @ q

    sim = tp.compile(turning + turning, dt=0.01, method="rk4")
    assert sim.evolve(q=[1.0, 2.0], p=[0.5, 0.25], steps=0).energy[0] == pytest.approx(
        0.15625 - 0.3 * (0.25 - 1.0) + 10
    )
