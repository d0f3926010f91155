"""Rigid bodies: attitudes as quaternions, matrices and axes, torques from the energy, and what a wrong start is told."""

import mpmath
import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics import tpir
from tinyphysics.physics import rigid

ONE, L0 = [1.0, 0.0, 0.0, 0.0], [0.5, 1.1, 0.7]
NUTATION, PRECESSION = 2.624100220, 0.970169865  # of the Lagrange top below


@tp.hamiltonian
def free(R: tp.Rotor, L: tp.Vec[3], moments: tp.Vec[3] = (1.0, 2.0, 3.0)):
    return (L**2 / moments).sum() / 2


@tp.hamiltonian
def lagrange(R: tp.Rotor, L: tp.Vec[3], moments: tp.Vec[3] = (1.0, 1.0, 0.5), mgl=1.0):
    return (L**2 / moments).sum() / 2 + mgl * tp.rotate(R, [0.0, 0.0, 1.0])[2]


@tp.hamiltonian
def by_matrix(R: tp.Rotation, L: tp.Vec[3], moments: tp.Vec[3] = (1.0, 1.0, 0.5), mgl=1.0):
    return (L**2 / moments).sum() / 2 + mgl * tp.rotate(R, [0.0, 0.0, 1.0])[2]


@tp.hamiltonian
def dumbbell(n: tp.Axis, L: tp.Vec[3], moment=1.0, field=0.5):
    return L @ L / (2 * moment) - field * n[2]


@tp.hamiltonian
def molecules(
    x: tp.Array["n", 3],  # noqa: F821
    p: tp.Array["n", 3],  # noqa: F821
    R: tp.Rotor["n"],  # noqa: F821
    L: tp.Array["n", 3],  # noqa: F821
    moments: tp.Vec[3] = (1.0, 1.0, 0.5),
):
    tip = x + tp.rotate(R, [0.0, 0.0, 0.3])
    r2 = ((tip[:, None] - tip[None, :]) ** 2).sum(-1)
    return (L**2 / moments).sum() / 2 + (p**2).sum() / 2 + tp.pair_sum(1 / tp.sqrt(r2 + 0.1))


def tilted(angle):
    return [np.cos(angle / 2), np.sin(angle / 2), 0.0, 0.0]


TOP = dict(R=tilted(0.5), L=[0.0, 0.0, 3.0])
MATRIX = [[1.0, 0.0, 0.0], [0.0, np.cos(0.5), -np.sin(0.5)], [0.0, np.sin(0.5), np.cos(0.5)]]
START = dict(n=[1.0, 0.0, 0.0], L=[0.0, 0.0, 1.0])


# --- attitudes --------------------------------------------------------------------------------------------------
@pytest.mark.requirement("S4-20")
def test_a_rotor_and_its_negative_are_one_attitude():
    R = np.array(tilted(0.7))
    v = [0.3, -0.2, 0.9]
    there = tp.rotate(R, v)
    assert np.allclose(there, tp.rotate(-R, v), atol=1e-15)
    assert np.allclose(tp.unrotate(R, there), v, atol=1e-15)
    assert np.allclose(tp.rotate(MATRIX, v), tp.rotate(tilted(0.5), v), atol=1e-15)
    assert np.allclose(tp.unrotate(MATRIX, tp.rotate(MATRIX, v)), v, atol=1e-15)


def test_rotors_of_many_bodies_turn_a_vector_each_or_one_for_all():
    R = np.array([tilted(0.1), tilted(0.2)])
    v = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    each = tp.rotate(R, v)
    assert np.allclose(each[1], tp.rotate(R[1], v[1])) and each.shape == (2, 3)
    assert np.allclose(tp.rotate(R, [0.0, 1.0, 0.0])[1], tp.rotate(R[1], [0.0, 1.0, 0.0]))


# --- motion -----------------------------------------------------------------------------------------------------
def test_a_free_body_keeps_its_momentum_in_space():
    out = tp.compile(free, dt=0.1).evolve(R=ONE, L=L0, steps=300, save_every=10)
    assert np.abs(tp.rotate(out.R, out.L) - np.array(L0)).max() < 2e-14
    assert np.abs(np.linalg.norm(out.R, axis=-1) - 1).max() < 1e-15 * 3


@pytest.mark.all
def test_a_million_steps_keep_the_momentum_in_space():
    out = tp.compile(free, dt=0.01).evolve(R=ONE, L=L0, steps=1_000_000, save_every=10_000)
    assert np.abs(np.asarray(tp.rotate(out.R, out.L)) - np.array(L0)).max() < 1e-11
    assert np.abs((out.L**2).sum(-1) / np.dot(L0, L0) - 1).max() < 1e-12


def nutation_by_elliptic_integrals():
    """(time, precession, f'(u) as a function) of the heavy top below, in 30 digits: u = cos(tilt) obeys u'^2 = f(u), a cubic."""
    with mpmath.workdps(30):
        spin, about, energy = (
            mpmath.mpf(3),
            3 * mpmath.cos(0.5),
            mpmath.cos(0.5),
        )  # of L_3, of L_z; without the spin's
        cubic = [2, -2 * energy - spin**2, 2 * spin * about - 2, 2 * energy - about**2]
        low, high, beyond = sorted(mpmath.re(u) for u in mpmath.polyroots(cubic, maxsteps=200, extraprec=100))
        m, scale = (high - low) / (beyond - low), 4 / mpmath.sqrt(2 * (beyond - low))
        north = (about - spin) / 2 / (1 - low) * mpmath.ellippi((high - low) / (1 - low), m)
        south = (about + spin) / 2 / (1 + low) * mpmath.ellippi(-(high - low) / (1 + low), m)
        slope = [float(3 * cubic[0]), float(2 * cubic[1]), float(cubic[2])]
        return float(scale * mpmath.ellipk(m)), float(scale * (north + south)), lambda u: np.polyval(slope, u)


@pytest.mark.parametrize(
    "order, steps, off", [(6, 128, 1e-9), (6, 256, 1.6e-11), (4, 256, 2e-8), (8, 128, 1e-12)]
)
def test_a_lagrange_top_nutates_and_precesses(order, steps, off):
    nutation, precession, slope = nutation_by_elliptic_integrals()
    assert (nutation, precession) == pytest.approx((NUTATION, PRECESSION), abs=6e-10)
    out = tp.compile(lagrange, dt=nutation / steps, order=order).evolve(**TOP, steps=steps).final
    axis, was = np.array(tp.rotate(out.R, [0.0, 0.0, 1.0])), np.array(tp.rotate(TOP["R"], [0.0, 0.0, 1.0]))
    turned = (np.arctan2(axis[1], axis[0]) - np.arctan2(was[1], was[0])) % (2 * np.pi)
    rates = np.cross(tp.rotate(out.R, out.L / np.array([1.0, 1.0, 0.5])), axis)
    late = -rates[2] / (slope(axis[2]) / 2)  # until u' = 0, where a nutation ends: u'' = f'(u)/2
    assert abs(late) < off and turned == pytest.approx(precession, abs=off)


def test_a_quaternion_and_a_matrix_turn_alike():
    one = tp.compile(lagrange, dt=0.05).evolve(**TOP, steps=100).final
    other = tp.compile(by_matrix, dt=0.05).evolve(R=MATRIX, L=TOP["L"], steps=100).final
    assert np.abs(one.L - other.L).max() < 1e-13
    assert np.abs(np.array(tp.rotate(one.R, np.eye(3))).T - other.R).max() < 1e-13


def test_a_dumbbell_swings_as_a_pendulum_does():
    sim = tp.compile(dumbbell, dt=0.05, order=4)
    out = sim.evolve(n=[np.sin(0.4), 0.0, np.cos(0.4)], L=[0.0, 0.0, 0.0], steps=100).final
    pendulum = tp.compile(
        tp.physics.zoo.pendulum, dt=0.05 * np.sqrt(0.5), order=6
    )  # its g is 1, here it is 1/2
    angle = pendulum.evolve(q=0.4, p=0.0, steps=100).final.q
    assert np.arctan2(out.n[0], out.n[2]) == pytest.approx(float(angle), abs=1e-7)
    assert abs(out.n @ out.L) < 1e-15 and abs(np.linalg.norm(out.n) - 1) < 1e-14


@pytest.mark.parametrize(
    "system, start", [(lagrange, TOP), (by_matrix, dict(R=MATRIX, L=TOP["L"])), (dumbbell, START)]
)
def test_bodies_are_poisson_as_proved_and_as_measured(system, start):
    sim = tp.compile(system, dt=0.1)
    assert all(sim.certificate.values()) and sim.check(**start).symplectic


def test_bodies_with_positions_are_stepped_together():
    rng = np.random.default_rng(0)
    R = rng.normal(size=(3, 4))
    R /= np.linalg.norm(R, axis=1)[:, None]
    start = dict(x=rng.normal(size=(3, 3)), p=rng.normal(size=(3, 3)), R=R, L=rng.normal(size=(3, 3)))
    sim = tp.compile(molecules, dt=0.02, sizes={"n": 3})
    out = sim.evolve(**start, steps=100)
    assert all(sim.certificate.values()) and out.drift("energy") < 1e-4
    total = start["p"].sum(0)
    assert np.abs(out.final.p.sum(0) - total).max() < 1e-13
    spin = np.cross(start["x"], start["p"]).sum(0) + np.array(tp.rotate(R, start["L"])).sum(0)
    now = np.cross(out.final.x, out.final.p).sum(0) + np.array(tp.rotate(out.final.R, out.final.L)).sum(0)
    assert np.abs(now - spin).max() < 1e-12  # torques and forces come from one energy


@pytest.mark.parametrize("precision", ["float64", "float32", pytest.param("dd", marks=pytest.mark.all)])
def test_bodies_have_the_same_bits_on_every_backend(precision):
    runs = [
        tp.compile(lagrange, dt=0.1, precision=precision, backend=backend).evolve(**TOP, steps=5).hash
        for backend in ("python", "numpy", "llvm", "c")
    ]
    assert len(set(runs)) == 1


# --- wrong starts and wrong functions ---------------------------------------------------------------------------
def test_a_quaternion_of_length_zero_says_nothing():
    with pytest.raises(tp.InputError, match="length 0.*unit quaternion"):
        tp.compile(free, dt=0.1).evolve(R=[0.0] * 4, L=L0, steps=1)
    sim = tp.compile(free, dt=0.1)
    sim.evolve(R=ONE, L=L0, steps=1)
    with pytest.raises(tp.InputError, match=r"length 1.41421"):  # also in a short run of a form that was seen
        sim.evolve(R=[1.0, 1.0, 0.0, 0.0], L=L0, steps=1)


def test_a_zero_moment_of_inertia_points_to_an_axis():
    with pytest.raises(tp.InputError, match=r"`moments\[2\]` is 0.*\n.*tp.Axis"):
        tp.compile(free, dt=0.1).evolve(R=ONE, L=L0, moments=[1.0, 1.0, 0.0], steps=1)


def test_a_matrix_that_is_no_rotation_is_refused():
    with pytest.raises(tp.InputError, match="not a rotation matrix"):
        tp.compile(by_matrix, dt=0.1).evolve(R=np.diag([1.0, 1.0, -1.0]), L=L0, steps=1)


def test_an_attitude_needs_its_momentum():
    with pytest.raises(tp.TraceError, match="an attitude without an angular momentum"):

        @tp.hamiltonian
        def alone(R: tp.Rotor):
            return R[0]

    with pytest.raises(tp.ShapeError, match="instead of"):

        @tp.hamiltonian
        def flat(R: tp.Rotor, L: tp.Vec[2]):
            return L @ L


# --- ready-made bodies --------------------------------------------------------------------------------------------
def test_many_heavy_tops_in_one_state_turn_as_one_does():
    rigid = tp.physics.rigid
    start = rigid.tilted(0.5, spin=3.0)
    one = tp.compile(rigid.heavy_top, dt=0.05).evolve(**start, steps=20).final
    many = tp.compile(rigid.heavy_tops, dt=0.05).evolve(
        R=np.tile(start["R"], (4, 1)), L=np.tile(start["L"], (4, 1)), steps=20
    )
    assert np.abs(many.final.L - one.L).max() < 1e-14 and np.abs(many.final.R - one.R).max() < 1e-14


def test_a_gyroscope_with_its_centre_on_the_axis_is_a_heavy_top():
    rigid = tp.physics.rigid
    start = rigid.tilted(0.5, spin=3.0)
    one = tp.compile(rigid.heavy_top, dt=0.05).evolve(**start, steps=20).final
    other = tp.compile(rigid.gyroscope, dt=0.05).evolve(**start, steps=20).final
    assert np.abs(one.L - other.L).max() < 1e-13


def test_rigid_sites_of_one_molecule_never_meet():
    rigid = tp.physics.rigid
    bent = [[0.0, 0.0, 0.0], [0.5, 0.3, 0.0], [-0.5, 0.3, 0.0]]
    liquid = rigid.rigid_liquid(bent, lambda r2: 1 / r2)
    far = dict(x=[[0.0, 0.0, 0.0], [1e6, 0.0, 0.0]], p=np.zeros((2, 3)), R=[ONE, ONE], L=np.zeros((2, 3)))
    assert abs(tp.compile(liquid, dt=0.01).evolve(**far, steps=1).energy[0]) < 1e-10
    near = far | dict(x=[[0.0, 0.0, 0.0], [3.0, 0.0, 0.0]])
    out = tp.compile(liquid, dt=0.01).evolve(**near, steps=50)
    assert out.drift("energy") < 1e-5 and np.abs(out.final.p.sum(0)).max() < 1e-14
    with pytest.raises(tp.InputError, match="tp.Axis"):
        rigid.rigid_liquid([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], lambda r2: r2)


# --- derivatives --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["rotations", "lie_cayley"])
def test_gradients_go_back_through_turns(method):
    sim = tp.compile(lagrange, dt=0.05, method=method)
    start = TOP | {"L": [0.1, 0.2, 2.0]}

    def loss(out):
        return out.final.L[0] + 2 * out.final.L[1]

    def value(**changed):
        L = sim.evolve(**{**start, **changed}, steps=20).final.L
        return L[0] + 2 * L[1]

    _, grads = sim.value_and_grad(loss, **start, steps=20, wrt=["L", "mgl"])
    eps = 1e-6
    for k, e in enumerate(np.eye(3) * eps):
        slope = (value(L=np.add(start["L"], e)) - value(L=np.subtract(start["L"], e))) / (2 * eps)
        assert grads["L"][k] == pytest.approx(slope, abs=1e-8)
    slope = (value(mgl=1.0 + eps) - value(mgl=1.0 - eps)) / (2 * eps)
    assert grads["mgl"] == pytest.approx(slope, abs=1e-8)


# --- sums -----------------------------------------------------------------------------------------------------------
@tp.potential
def weight(R: tp.Rotor, mgl=1.0):
    return mgl * tp.rotate(R, [0.0, 0.0, 1.0])[2]


@tp.hamiltonian
def point(x: tp.Vec[3], p: tp.Vec[3]):
    return p @ p / 2


@tp.potential(positions=["x", "R"])
def spring(x: tp.Vec[3], R: tp.Rotor):
    return ((x + tp.rotate(R, [0.0, 0.0, 1.0])) ** 2).sum() / 2


def test_a_body_and_a_potential_of_its_attitude_are_a_top_to_the_last_bit():
    moments = [1.0, 1.0, 0.5]
    one = tp.compile(free + weight, dt=0.05).evolve(**TOP, moments=moments, steps=20).final
    other = tp.compile(lagrange, dt=0.05).evolve(**TOP, steps=20).final
    assert (one.L == other.L).all() and (one.R == other.R).all()


def test_a_body_is_tied_to_a_point_by_a_potential_of_both():
    sim = tp.compile(point + free + spring, dt=0.02)
    out = sim.evolve(x=[1.0, 0.0, 0.0], p=[0.0, 1.0, 0.0], **TOP, steps=100)
    assert all(sim.certificate.values()) and out.drift("energy") < 1e-4

    def spin(f):
        return np.cross(f.x, f.p) + np.array(tp.rotate(f.R, f.L))

    assert (
        np.abs(
            np.diff([spin(out.final), np.array(tp.rotate(TOP["R"], TOP["L"])) + [0, 0, 1.0]], axis=0)
        ).max()
        < 1e-13
    )


def test_molecules_of_many_sites_are_certified_without_multiplying_sums_out():
    liquid = rigid.rigid_liquid(
        [[0.0, 0.0, 0.0], [0.5, 0.3, 0.0], [-0.5, 0.3, 0.0]], lambda r2: (1 / r2) ** 3
    )
    sim = tp.compile(liquid, dt=0.005, sizes={"n": 2})
    assert all(sim.certificate.values())
    plain = [x for x in sim.ir("tpir").splitlines() if not x.startswith("claim")]
    torque = max(
        k
        for k, x in enumerate(plain)
        if x.startswith("  ELEM") and x.endswith(" 0.5") and k < plain.index("final:")
    )
    plain[torque] = plain[torque].replace(" 0.5", " 0.500001")
    assert not tpir.verify(tpir.parse("\n".join(plain))).poisson


@tp.hamiltonian
def rail(s, v):
    return v**2 / 2 + s**2


@tp.potential(positions=["s", "R"])
def tilts(s, R: tp.Rotor):
    return s * tp.rotate(R, [1.0, 0.0, 0.0])[2]


def test_a_body_is_tied_to_a_position_of_one_number():
    sim = tp.compile(rail + free + tilts, dt=0.02)
    start = dict(s=0.3, v=0.1, **TOP)
    assert all(sim.certificate.values()) and sim.check(**start).symplectic

    @tp.potential
    def alone(s, R: tp.Rotor):  # R is a parameter of it
        return s * tp.rotate(R, [1.0, 0.0, 0.0])[2]

    with pytest.raises(tp.PlanError, match=r'positions=\["s", "R"\]'):
        tp.compile(rail + free + alone, dt=0.02)


def test_a_top_goes_on_from_a_checkpoint_with_the_bits_of_one_run(tmp_path):
    sim = tp.compile(rigid.heavy_top, dt=0.01)
    whole = sim.evolve(**rigid.tilted(0.5, 3.0), steps=90)
    sim.evolve(**rigid.tilted(0.5, 3.0), steps=40, checkpoint=tmp_path / "top")
    assert sim.evolve(steps=50, resume=tmp_path / "top").hash == whole.hash
