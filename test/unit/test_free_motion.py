"""The motion of a free rigid body in closed form, against published numbers and against steps."""

from fractions import Fraction

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics import tpir
from tinyphysics.physics import rigid
from tinyphysics.device.linear import free_bodies
from tinyphysics.device.linear.double_double import DD, of_fractions
from tinyphysics.tpir.program.free_bodies import free_turn

MOMENTS, L0, ONE = [1.0, 2.0, 3.0], [0.5, 1.1, 0.7], [1.0, 0.0, 0.0, 0.0]


def off(a, b):
    """How far two attitudes are apart: R and -R are one."""
    return min(np.abs(np.asarray(a) - b).max(), np.abs(np.asarray(a) + b).max())


def test_a_free_top_after_ten_thousand_seconds_is_where_it_must_be():
    R, L = rigid.free_motion(ONE, L0, MOMENTS, 1e4)
    assert np.abs(L - [0.513202650691, 1.075403253341, 0.728100873525]).max() < 1e-11
    assert off(R, [0.644370790151, 0.269480793877, 0.596461899679, 0.395473878736]) < 1e-11
    inverse = of_fractions([[1 / Fraction(x)] for x in MOMENTS])
    speed = free_bodies.FreeBodies(inverse, np.array(L0)[:, None]).orbits[3].speed
    assert 2 * np.pi / speed.high[0] == pytest.approx(22.0752803309777, rel=1e-14)


@pytest.mark.parametrize(
    "moments", [[1.0, 2.0, 3.0], [3.0, 1.0, 2.0], [1.0, 1.0, 0.5], [0.5, 1.0, 1.0], [1.0, 0.5, 1.0]]
)
def test_it_agrees_with_steps_whatever_the_order_of_the_moments(moments):
    R0 = np.array([0.5, -0.5, 0.5, 0.5])
    sim = tp.compile(rigid.free_body, dt=0.02, order=8)
    assert sim.built.plan.method == "rotations8"
    for L in ([0.5, 1.1, 0.7], [-1.0, 0.2, -0.3], [0.1, -0.2, 1.5]):
        out = sim.evolve(R=R0, L=L, moments=moments, steps=200).final
        R, now = rigid.free_motion(R0, L, moments, 4.0)
        assert np.abs(now - out.L).max() < 1e-12 and off(R, out.R) < 1e-12


def test_a_body_that_turns_about_one_axis_and_one_that_is_round():
    R, L = rigid.free_motion(ONE, [0.0, 0.0, 2.0], MOMENTS, np.array([0.0, 3.0]))
    assert np.allclose(R[1], [np.cos(1.0), 0.0, 0.0, np.sin(1.0)]) and np.allclose(L, [[0.0, 0.0, 2.0]] * 2)
    R, L = rigid.free_motion(ONE, [0.3, 0.0, 0.4], [1.0, 1.0, 1.0], 2.0)
    assert np.allclose(tp.rotate(R, L), [0.3, 0.0, 0.4], atol=1e-15)


def test_the_momentum_in_space_stays_over_a_million_turns():
    t = np.linspace(0.0, 1e6, 7)
    R, L = rigid.free_motion(ONE, L0, MOMENTS, t)
    assert np.abs(np.asarray(tp.rotate(R, L)) - L0).max() < 1e-14


def test_a_wrong_call_says_what_it_takes():
    with pytest.raises(tp.InputError, match="three positive moments"):
        rigid.free_motion(ONE, L0, [1.0, 1.0, 0.0], 1.0)


# --- as a jump inside evolve ------------------------------------------------------------------------------------------
START = {"R": ONE, "L": L0}


@pytest.fixture(scope="module")
def sim():
    return tp.compile(rigid.free_body, dt=0.01)


@pytest.mark.requirement("S2-24")
def test_a_free_body_is_one_jump_by_default_and_keeps_its_bracket(sim):
    out = sim.evolve(**START, until=1e4)
    assert np.abs(out.final.L - [0.513202650691, 1.075403253341, 0.728100873525]).max() < 1e-11
    assert off(out.final.R, [0.644370790151, 0.269480793877, 0.596461899679, 0.395473878736]) < 1e-11
    assert sim.built.plan.method == "exact_flow" and all(sim.certificate.values())
    assert out.metrics["propagator"]["by"] == "bodies" and out.metrics["propagator"]["phase_error"] < 1e-20
    assert out.drift("energy") < 1e-14
    assert sim.check(**START).symplectic


@pytest.mark.parametrize("backend", ["python", "numpy", "c"])
def test_every_backend_has_the_bits_of_the_others(sim, backend):
    other = tp.compile(rigid.free_body, dt=0.01, backend=backend)
    assert other.evolve(**START, steps=1000, frames=3).hash == sim.evolve(**START, steps=1000, frames=3).hash


def test_a_frame_is_a_jump_of_its_own_and_a_checkpoint_goes_on_from_the_first_state(sim, tmp_path):
    whole = sim.evolve(**START, steps=700, save_every=70)
    for k in (1, 4, 10):
        assert (whole.R[k] == sim.evolve(**START, steps=70 * k).final.R).all()
    sim.evolve(**START, steps=300, checkpoint=tmp_path / "top.ck")
    assert sim.evolve(steps=400, resume=tmp_path / "top.ck").hash == whole.hash
    assert (
        np.abs(
            sim.evolve(**START, until=3.0001).final.L - rigid.free_motion(ONE, L0, MOMENTS, 3.0001)[1]
        ).max()
        < 1e-14
    )


def test_members_of_an_ensemble_have_the_bits_that_they_have_alone(sim):
    rng = np.random.default_rng(3)
    L, moments = rng.normal(size=(40, 3)), rng.uniform(0.5, 3.0, size=(40, 3))
    R = rng.normal(size=(40, 4))
    R /= np.linalg.norm(R, axis=1)[:, None]
    out = sim.evolve(R=R, L=L, moments=moments, steps=12345)
    for k in (0, 17, 39):
        alone = sim.evolve(R=R[k], L=L[k], moments=moments[k], steps=12345).final
        assert (alone.R == out.final.R[k]).all() and (alone.L == out.final.L[k]).all()


@tp.hamiltonian(bracket="so3")
def seen_from_it(L: tp.Vec[3], a: tp.Vec[3] = (1.0, 0.5, 0.25)):
    return (a * L**2).sum() / 2


@tp.hamiltonian(bracket="spin")
def spin(S: tp.Vec[3], a: tp.Vec[3] = (1.0, -0.5, 0.25)):
    return (a * S**2).sum() / 2


@tp.hamiltonian(bracket="se3")
def with_a_vector(L: tp.Vec[3], G: tp.Vec[3], a: tp.Vec[3] = (1.0, 0.5, 0.25)):
    return (a * L**2).sum() / 2


@tp.hamiltonian
def by_matrix(R: tp.Rotation, L: tp.Vec[3], a: tp.Vec[3] = (1.0, 0.5, 0.25)):
    return (a * L**2).sum() / 2


@tp.hamiltonian
def dumbbell(n: tp.Axis, L: tp.Vec[3]):
    return (L**2).sum() / 2


@pytest.mark.parametrize(
    "system, start",
    [
        (seen_from_it, {"L": L0}),
        (spin, {"S": L0}),
        (with_a_vector, {"L": L0, "G": [0.0, 0.6, 0.8]}),
        (by_matrix, {"R": np.eye(3), "L": L0}),
        (dumbbell, {"n": [0.0, 0.0, 1.0], "L": [1.0, 0.5, 0.0]}),
    ],
    ids=["so3", "spin", "se3", "Rotation", "Axis"],
)
def test_every_kind_of_body_jumps_where_its_steps_lead(system, start):
    jump = tp.compile(system, dt=0.01)
    loop = tp.compile(system, dt=0.001, method="rk4", checks="off")
    assert jump.built.plan.method == "exact_flow"
    there, here = (s.evolve(**start, until=5.0).final for s in (jump, loop))
    for name in start:
        assert np.abs(there.states[name] - here.states[name]).max() < 1e-12, name


def test_many_bodies_jump_where_it_is_asked_for():
    @tp.hamiltonian
    def bodies(R: tp.Rotor["n"], L: tp.Array["n", 3], moments: tp.Array["n", 3] = None):
        return (L**2 / moments).sum() / 2

    rng = np.random.default_rng(0)
    L, moments = rng.normal(size=(5, 3)), rng.uniform(1, 3, size=(5, 3))
    asked = tp.compile(bodies, dt=0.1, propagator="exact", sizes={"n": 5})
    out = asked.evolve(R=np.tile(ONE, (5, 1)), L=L, moments=moments, steps=1000).final
    for k in range(5):
        R, now = rigid.free_motion(ONE, L[k], moments[k], Fraction(0.1) * 1000)
        assert np.abs(now - out.L[k]).max() < 1e-13 and off(R, out.R[k]) < 1e-13
    assert tp.compile(bodies, dt=0.1, sizes={"n": 5}).built.plan.method == "rotations"


def test_what_is_no_free_body_keeps_its_loop_and_says_why():
    assert tp.compile(rigid.heavy_top, dt=0.01).built.plan.method == "rotations"
    assert tp.compile(rigid.free_body, dt=0.01, order=4).built.plan.method == "rotations4"
    with pytest.raises(tp.PlanError, match="depends on `R`"):
        tp.compile(rigid.heavy_top, dt=0.01, propagator="exact")

    @tp.hamiltonian(bracket="so3")
    def skewed(L: tp.Vec[3]):
        return (L**2).sum() / 2 + 0.1 * L[0] * L[1]

    with pytest.raises(tp.PlanError, match="products of two numbers"):
        tp.compile(skewed, dt=0.1, propagator="exact")


@pytest.mark.parametrize(
    "L",
    [
        [1.0, 0.3, 1.0],
        [-1.0, 0.3, 1.0],
        [1.0, 0.3, 1.0 + 2**-40],
        [1e-30, 1.0, 1e-30],
        [1e-300, 1e-300, 1e-299],
    ],
    ids=["separatrix", "other side", "near", "nearly still", "small"],
)
def test_bodies_that_turn_over_once_or_nearly_so_are_solved_too(L):
    """Moments 1, 3/2, 3: L1² = L3² is the separatrix; there steps are wrong by e^t and digits have to be bought."""
    moments = [1.0, 1.5, 3.0]
    sim = tp.compile(rigid.free_body, dt=1e-3, checks="off")
    loop = tp.compile(rigid.free_body, dt=1e-3, method="rk4", checks="off")
    there, here = (s.evolve(R=ONE, L=L, moments=moments, steps=2000).final for s in (sim, loop))
    assert np.abs(there.L - here.L).max() < 1e-11 * np.abs(L).max() and off(there.R, here.R) < 1e-11
    assert sim.evolve(R=ONE, L=L, moments=moments, steps=2000).metrics["propagator"]["digits"] == "decimals"


def test_few_bodies_and_many_have_the_same_bits():
    """Constants of a few bodies are computed number by number, and must be those of arrays."""
    rng = np.random.default_rng(7)
    a = of_fractions([[Fraction(1, 3)] * 64, [Fraction(2, 3)] * 64, [Fraction(5, 7)] * 64])
    L, t = rng.normal(size=(3, 64)), DD(np.array([0.1, 1e5]))
    many = free_bodies.FreeBodies(a, L).at(t)
    few = free_bodies.FreeBodies(a[:, :7], np.ascontiguousarray(L[:, :7])).at(t)
    assert all((x[..., :7] == y).all() for x, y in zip(many, few))


def test_floats_agree_with_decimals():
    rng = np.random.default_rng(11)
    for moments in ((1, 2, 3), (2, 1, 1), (1, 1, 2), (2, 2, 2)):
        a = [Fraction(1, x) for x in moments]
        L, t = rng.normal(size=(3, 6)), DD(np.array([0.3, -1e6]))
        body = free_bodies.FreeBodies(of_fractions([[x] * 6 for x in a]), L)
        momenta, turns = body.at(t)
        for f, k in np.ndindex(2, 6):
            momentum, by, _ = free_turn(a, L[:, k], Fraction(float(t.high[f])))
            assert np.abs(momenta[f, :, k] - [float(x) for x in momentum]).max() < 1e-14
            assert np.abs(turns[f, :, k] - [float(x) for x in by]).max() < 1e-14


def test_gradients_go_through_the_jump(sim):
    def loss(out):
        return out.final.R[0] * out.final.L[1] + out.final.R[3] ** 2 * out.final.L[0]

    wrt = ("R", "L", "moments", "dt")
    value, g = sim.value_and_grad(loss, **START, steps=300, wrt=wrt)
    assert abs(g["R"] @ np.array(ONE)) < 1e-15  # a quaternion keeps its length

    def at(**other):
        end = sim.evolve(**START | other, steps=300).final
        return end.R[0] * end.L[1] + end.R[3] ** 2 * end.L[0]

    e = 1e-5
    assert at() == pytest.approx(value, abs=1e-15)
    assert (at(dt=0.01 + e * 1e-2) - at(dt=0.01 - e * 1e-2)) / (2e-2 * e) == pytest.approx(g["dt"], rel=1e-8)
    for name, first in (("L", L0), ("moments", MOMENTS)):
        for k in range(3):
            away = e * np.eye(3)[k]
            slope = (at(**{name: first + away}) - at(**{name: first - away})) / (2 * e)
            assert slope == pytest.approx(g[name][k], abs=1e-9), name


def test_the_listing_of_a_jump_means_the_same_and_is_read_by_the_verifier(sim):
    program = tpir.parse(str(sim.ir("tpir")))
    assert all(tpir.verify(program).values())
    ends = tpir.vm.run(program, START, 700, {"moments": MOMENTS}, 0.01)
    there = sim.evolve(**START, steps=700).final
    assert (
        np.abs(np.array(ends["L"]) - there.L).max() < 1e-15
        and np.abs(np.array(ends["R"]) - there.R).max() < 1e-15
    )
