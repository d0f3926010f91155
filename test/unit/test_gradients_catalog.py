"""Has every method of the catalogue a gradient?  Tangents, differences and every past decide."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics.particles import gravity
from tinyphysics.planner.methods.catalog import METHODS

pytestmark = pytest.mark.requirement("S2-40")


@tp.hamiltonian
def henon(q: tp.Vec[2], p: tp.Vec[2], lam: float = 1.0):
    return (p @ p + q @ q) / 2 + lam * (q[0] ** 2 * q[1] - q[1] ** 3 / 3)


@tp.hamiltonian
def sheared(q: tp.Vec[2], p: tp.Vec[2], lam: float = 0.7):
    return (p @ p + q @ q) / 2 + lam * q[0] ** 2 * p[1]


@tp.hamiltonian
def linear(q, p, t, k: float = 1.3):
    return p**2 / 2 + k * q**2 * (1 + 0.2 * tp.sin(t)) / 2


@tp.lagrangian
def bead(q: tp.Vec[2], v: tp.Vec[2], m: float = 1.2):
    return m * v @ v / 2 * (1 + 0.1 * q[0] ** 2) - q @ q / 2 - q[0] ** 2 * q[1]


@tp.hamiltonian
def top(R: tp.Rotor, L: tp.Vec[3], inertia: tp.Vec[3] = (1.0, 2.0, 3.0), g: float = 0.5):
    return (L * L / inertia).sum() / 2 + g * tp.rotate(R, [0.0, 0.0, 1.0])[2]


@tp.hamiltonian(bracket="so3")
def spin(L: tp.Vec[3], a: float = 1.3):
    return (L[0] ** 2 + a * L[1] ** 2 / 2 + L[2] ** 2 / 3) / 2 + 0.1 * L[0] * L[1]


@tp.hamiltonian(bracket=tp.magnetic(lambda q: [q[1] * q[2], tp.sin(q[0]), 1 + q[0] * q[1]], charge="e"))
def charge(q: tp.Vec[3], p: tp.Vec[3], e: float = 1.3, m: float = 0.7):
    return p @ p / (2 * m) + q @ q / 2


@tp.hamiltonian(bracket=tp.magnetic(lambda q: [0.0, 0.0, 1.0]))
def beam(q: tp.Vec[3], p: tp.Vec[3], field: float = 0.3):
    return p @ p / 2 - field * q[1]


@tp.hamiltonian(bracket="contact")
def decay(q, p, s, gamma: float = 0.1):
    return p**2 / 2 - tp.cos(q) + gamma * s


@tp.hamiltonian(bracket=lambda z: [[0.0, z[0] * z[1]], [-z[0] * z[1], 0.0]])
def hares(z: tp.Vec[2], a: float = 1.3):
    return z[0] - a * tp.log(z[0]) + z[1] - tp.log(z[1])


@tp.hamiltonian
def bond(q: tp.Vec[2], p: tp.Vec[2], k: float = 40.0):
    return p @ p / 2 + k * (q[0] - q[1]) ** 2 / 2


@tp.hamiltonian
def weak(q: tp.Vec[2], p: tp.Vec[2], lam: float = 0.3):
    return p @ p / 2 + lam * q[0] ** 4 / 4 + q @ q / 2


@tp.hamiltonian
def mass(q: tp.Vec[2], p: tp.Vec[2], m: float = 1.0, g: float = 1.0):
    return p @ p / (2 * m) + m * g * q[1]


@tp.constraint
def rod(q: tp.Vec[2]):
    return q @ q - 1


@tp.hamiltonian
def ring(psi: tp.Complex[4], g: float = 0.7):
    return (abs(tp.dx(psi)) ** 2 + g / 2 * abs(psi) ** 4).sum()


@tp.ode
def wave(u: tp.Vec[6], nu: float = 0.1):
    return nu * tp.dx(u, 2) - tp.dx(u) * u


@tp.hamiltonian
def string(u: tp.Vec[9], v: tp.Vec[9], c: float = 1.0):
    return (v @ v + c**2 * (np.diff(u) ** 2).sum() + (u**4).sum() / 10) / 2


PLANE = dict(q=[0.1, -0.2], p=[0.3, 0.1])
SPACE = dict(q=[0.1, 0.2, -0.3], p=[0.3, -0.2, 0.1])
SUN = dict(
    q=[[0.0, 0, 0], [1.0, 0, 0.1], [0, 2.2, 0]],
    p=[[0.0, 0, 0], [0, 1e-3, 0], [-1.3e-3, 0, 1e-4]],
    m=[1.0, 1e-3, 2e-3],
)
# by the kind of a family: (system, first state, options)
SYSTEMS = {
    "splitting": (henon, PLANE, {}),
    "Runge–Kutta": (henon, PLANE, {}),
    "collocation": (henon, PLANE, {}),
    "doubled": (henon, PLANE, {}),
    "discrete gradient": (henon, PLANE, {}),
    "Taylor": (henon, PLANE, {}),
    "embedded": (henon, PLANE, {}),
    "interaction": (henon, PLANE, {}),
    "paces": (tp.fast(bond) + tp.slow(weak), PLANE, dict(inner=4)),
    "shears": (sheared, PLANE, {}),
    "rotations": (top, dict(R=[0.8, 0.6, 0.0, 0.0], L=[0.1, 0.2, 3.0]), {}),
    "cayley": (top, dict(R=[0.8, 0.6, 0.0, 0.0], L=[0.1, 0.2, 3.0]), {}),
    "spherical midpoint": (spin, dict(L=[0.1, 0.2, 1.0]), {}),
    "pushers": (charge, SPACE, {}),
    "axes": (charge, SPACE, {}),
    "contact": (decay, dict(q=0.4, p=0.3, s=0.1), {}),
    "pieces": (hares, dict(z=[1.25, 0.75]), {}),
    "variational": (bead, PLANE, {}),
    "exponential": (linear, dict(q=0.4, p=0.1), {}),
    "split steps": (ring, dict(psi_q=[0.4, 0.1, -0.2, 0.3], psi_p=[0.0, 0.2, 0.4, -0.1]), {}),
    "exponential in Fourier space": (wave, dict(u=[0.1, 0.4, 0.2, -0.3, 0.0, 0.2]), {}),
    "orbits": (gravity, SUN, {}),
    "bath": (henon, PLANE, dict(temperature=0.1)),
    "bath along constraints": (mass + rod, dict(q=[0.6, -0.8], p=[0.4, 0.3]), dict(temperature=0.1)),
    "bath of bodies": (top, dict(R=[0.8, 0.6, 0.0, 0.0], L=[0.1, 0.2, 3.0]), dict(temperature=0.1)),
    "constrained": (mass + rod, dict(q=[0.6, -0.8], p=[0.4, 0.3]), {}),
    "absorbing layers": (
        string,
        dict(u=[0.0, 0.1, 0.2, 0.4, 0.5, 0.3, 0.2, 0.1, 0.1], v=[0.1] * 9),
        dict(absorb=3),
    ),
    "impulses": (mass + tp.contact(lambda q: q[1]), dict(q=[0.3, 0.004], p=[0.4, -0.9]), {}),
}
FAST = dict(kinetics="relativistic")
BY_NAME = {name: (beam, SPACE, FAST) for name in ("higuera_cary", "vay")}
BY_NAME["brownian"] = (henon, PLANE, dict(temperature=0.1, bath="brownian"))
WRT = dict.fromkeys(
    ("constrained", "bath along constraints"), ["m", "g"]
)  # another beginning would be off the rod
# the flows of wisdom_holman_c3 and more of them: too many for a kernel, and minutes in Python
SAME = {"wisdom_holman_c5", "wisdom_holman_c7", "wisdom_holman_c11", "wisdom_holman_c17"}
QUICK = {
    "suzuki4", "respa", "chin4", "takahashi_imada4", "strang", "spherical_midpoint", "split_step", "boris", "vay", "axes", "contact", "rattle",
    "pieces", "stormer_verlet_implicit", "avf", "variational_midpoint", "interaction", "wisdom_holman",
}  # fmt: skip


def test_a_bath_that_begins_with_an_energy_is_refused():
    sim = tp.compile(henon, dt=0.05, temperature=0.1, bath="nose_poincare", checks="off")
    for asked in (
        lambda: sim.grad(lambda out: out.final.q @ out.final.q, **PLANE, steps=3),
        lambda: sim.jvp({"q": [1.0, 0.0]}, **PLANE, steps=3),
    ):
        with pytest.raises(tp.PlanError, match="the energy of the first state"):
            asked()


def cubes(out, name):
    u = out.final[name]
    return (u**3).sum() if u.shape else u**3


@pytest.mark.parametrize(
    "method",
    [
        m if m.name in QUICK else pytest.param(m, marks=pytest.mark.all)
        for m in METHODS
        if m.name not in (*SAME, "nose_poincare")
    ],
    ids=lambda m: m.name,
)
def test_a_method_has_a_gradient(method):
    system, start, options = BY_NAME.get(method.name, SYSTEMS[method.family.kind])
    sim = tp.compile(system, method=method.name, **({} if method.adaptive else {"dt": 0.05}), **options)
    first = next(iter(start))
    length = dict(until=0.7) if method.adaptive else dict(steps=5)

    def loss(out):
        return cubes(out, first)

    found = sim.gradcheck(loss, **start, **length, wrt=WRT.get(method.family.kind))
    assert found.passed and found.duality < 1e-13 and found.differences < 1e-10


@pytest.mark.parametrize("method", ["interaction", "interaction_mollified"])
@pytest.mark.parametrize("dt", [0.05, 2.5])  # with 2.5, half turns are taken out of the angle
def test_an_exact_turn_has_a_gradient_by_its_own_oscillators_and_by_dt(method, dt):
    @tp.hamiltonian
    def duffing(q: tp.Vec[2], p: tp.Vec[2], k: float = 1.3, w: float = 0.7, f: float = 0.3):
        own = p[0] ** 2 / 2 + w * p[1] ** 2 / 2 + k * q[0] ** 2 / 2 + k * w * q[1] ** 2 / 2 + f * q[0]
        return own + (q[0] ** 2 * q[1] ** 2 + q[0] ** 4) / 40

    sim, start = (
        tp.compile(duffing, dt=dt, method=method, checks="off"),
        dict(q=[0.3, -0.2], p=[0.1, 0.4], steps=20),
    )
    wrt = ["q", "p", "k", "w", "f", "dt"]
    found = sim.gradcheck(lambda out: (out.final.q**3).sum() + out.final.p[0], **start, wrt=wrt)
    assert found.passed and found.duality < 1e-14 and found.differences < 1e-9
    pulled, moved = sim.vjp({"q": [1.0, 2.0]}, **start, wrt=["k"]), sim.jvp({"k": 1.0}, **start)
    assert moved["q"] @ [1.0, 2.0] == pytest.approx(pulled["k"], rel=1e-13)


def test_coupled_oscillators_are_turned_back_by_their_matrix():
    @tp.hamiltonian
    def chain(q: tp.Vec[3], p: tp.Vec[3], k: float = 1.3, eps: float = 0.1):
        return p @ p / 2 + q @ q / 2 + k * ((q[1:] - q[:-1]) ** 2).sum() / 2 + eps * (q**4).sum()

    sim, start = tp.compile(chain, dt=0.3, method="interaction4"), dict(q=[0.3, 0.2, -0.1], p=[0.1, 0.0, 0.2])
    assert "FLOW" in sim.ir("tpir")

    def loss(out):
        return (out.q**3).sum() + out.final.p[0]

    found = sim.gradcheck(loss, **start, steps=20, save_every=5, wrt=["q", "p", "eps", "k", "dt"])
    assert found.passed and found.duality < 1e-13 and found.differences < 1e-9
    found = sim.gradcheck(cubes_of_q, **start, until=5.1)
    assert found.passed and found.duality < 1e-13 and found.differences < 1e-9
    stiff = sim.grad(cubes_of_q, **start, k=np.array([1.3, 1.6]), steps=20, wrt=["q", "eps"])  # a matrix each
    for k, one in zip((1.3, 1.6), stiff["q"]):
        assert one == pytest.approx(sim.grad(cubes_of_q, **start, k=k, steps=20, wrt=["q"])["q"], rel=1e-13)
    way = {"q": [1.0, 0.5, -0.3], "eps": 0.3}
    second = sim.hvp(cubes_of_q, way, **start, steps=20, wrt=["p"])["p"]
    other = sim.hvp(cubes_of_q, {"p": [1.0, 0.0, 0.0]}, **start, steps=20, wrt=["q", "eps"])
    assert second[0] == pytest.approx(other["q"] @ way["q"] + 0.3 * other["eps"], rel=1e-12)
    assert sim.tape(step=0, **start).cotangents["k"] == pytest.approx(
        sim.vjp({"q": np.ones(3), "p": np.ones(3)}, **start, steps=1)["k"], rel=1e-13
    )
    with pytest.raises(tp.PlanError, match="along their parameters is not pulled back"):
        sim.hvp(cubes_of_q, {"k": 1.0}, **start, steps=3)


def cubes_of_q(out):
    return (out.final.q**3).sum()


def test_second_derivatives_go_through_what_has_no_inverse():
    sim = tp.compile(charge, dt=0.05, method="boris")
    start, way = dict(q=[0.1, 0.2, -0.3], p=[0.3, -0.2, 0.1]), np.array([1.0, -0.5, 0.3])

    def slope(h):
        moved = {**start, "q": np.array(start["q"]) + h * way}
        return sim.grad(lambda out: (out.final.q**3).sum(), **moved, steps=5)["q"]

    found = sim.hvp(lambda out: (out.final.q**3).sum(), {"q": way}, **start, steps=5)["q"]
    assert np.allclose(found, (slope(1e-5) - slope(-1e-5)) / 2e-5, rtol=1e-8)


def test_a_stack_of_contacts_has_a_gradient():
    """Branches in branches in each other: each contact is met in every sweep."""

    @tp.hamiltonian
    def boxes(q: tp.Vec[3], p: tp.Vec[3], m: float = 1.0, g: float = 9.81):
        return p @ p / (2 * m) + m * g * q.sum()

    stack = tp.contact(lambda q: tp.concatenate([q[:1] - 0.5, q[1:] - q[:-1] - 1]), name="stack")
    sim = tp.compile(boxes + stack, dt=0.01)
    start = dict(q=[0.501, 1.503, 2.506], p=[-0.9, -1.1, -1.3], steps=4)
    found = sim.gradcheck(lambda out: (out.final.q**2).sum() + (out.final.p**2).sum(), **start)
    assert found.passed and found.duality < 1e-12 and found.differences < 1e-12


@pytest.mark.parametrize("system", ["autonomous", "timed"])
@pytest.mark.parametrize("method", ["leapfrog", "yoshida4", "rk4", "gauss4"])
def test_a_gradient_by_dt_goes_through_stages_and_times(method, system):
    """Through what is looked at on the way, too: the times of steps and of their stages are t0 + (n + c)*dt."""
    sim = tp.compile(driven if system == "timed" else duffing, dt=0.05, method=method)
    more = dict(t0=5.0) if system == "timed" else {}
    found = sim.gradcheck(
        lambda out: (out.t * out.q).sum() + out.final.p**2,
        q=0.4,
        p=0.1,
        steps=20,
        save_every=7,
        wrt=["q", "dt"],
        **more,
    )
    assert found.passed and found.differences < 1e-9


def test_every_family_is_in_the_table():
    assert {m.family.kind for m in METHODS} == set(SYSTEMS)


@tp.map
def noisy(x, y, c: float = 0.9):
    return y + 0.2 * c * tp.random.normal(), c * x - y**3 + 0.1 * x * tp.random.normal()


@tp.hamiltonian
def driven(q, p, t, k: float = 1.3):
    return p**2 / 2 + k * q**2 * (1 + 0.2 * tp.sin(t)) / 2 + 0.1 * q**4


@tp.hamiltonian
def duffing(q, p, k: float = 1.3):
    return p**2 / 2 + k * q**2 / 2 + 0.1 * q**4


@tp.forces
def bent(q: tp.Vec[2], k: float = 1.0, s: float = 0.5):
    return -k * q * (1 + s * q[1])


OTHERS = {
    "noise": (noisy, {}, dict(x=0.3, y=0.2)),
    "time": (driven, dict(dt=0.05, method="yoshida4"), dict(q=0.4, p=0.1)),
    "friction": (henon, dict(dt=0.05, method="yoshida4", friction=0.1), PLANE),
    "forces": (bent, dict(dt=0.05), PLANE),
}


@pytest.mark.parametrize("name", OTHERS)
def test_noise_time_friction_and_forces(name):
    """Random numbers are those of their counters: the same in a run, its differences and its adjoint."""
    system, options, start = OTHERS[name]
    sim, first = tp.compile(system, **options), next(iter(start))
    found = sim.gradcheck(lambda out: cubes(out, first), **start, steps=20, seed=3)
    assert found.passed and found.duality < 1e-13 and found.in_double_double


def test_an_index_has_no_gradient_and_sizes_may_differ_by_far():
    @tp.hamiltonian
    def bonded(q: tp.Vec[3], p: tp.Vec[3], m: tp.Vec[3], ends: tp.Vec[2]):
        return (p * p / m).sum() / 2 + (tp.take(q, ends) ** 2).sum() / 2 + (q**4).sum()

    sim = tp.compile(bonded, dt=0.05, method="leapfrog")
    start = dict(q=[0.3, -0.2, 0.1], p=[1.0, 0.1, 0.2], m=[1e9, 1.0, 2.0], ends=[0, 2])
    found = sim.gradcheck(lambda out: (out.final.q**3).sum(), **start, steps=10)
    assert found.passed and found.differences < 1e-10
    assert "ends" not in sim.grad(lambda out: out.final.q[0], **start, steps=3)
    with pytest.raises(tp.InputError, match="index"):
        sim.grad(lambda out: out.final.q[0], **start, steps=3, wrt=["ends"])
