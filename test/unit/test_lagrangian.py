"""Systems given by L(q, v): their energy, momenta and velocities, and methods that step L itself."""

import math

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.pipeline import build
from tinyphysics.planner.choice import lagrangian

G = 9.8


@tp.lagrangian
def double_pendulum(q: tp.Vec[2], v: tp.Vec[2], g: float = G):
    a, b = q
    return v[0] ** 2 + v[1] ** 2 / 2 + v[0] * v[1] * tp.cos(a - b) + 2 * g * tp.cos(a) + g * tp.cos(b)


@tp.hamiltonian
def by_hand(q: tp.Vec[2], p: tp.Vec[2], g: float = G):
    a, b = q
    c = tp.cos(a - b)
    return (p[0] ** 2 / 2 - c * p[0] * p[1] + p[1] ** 2) / (2 - c**2) - 2 * g * tp.cos(a) - g * tp.cos(b)


START = dict(q=[1.0, 0.5], v=[0.1, 0.2])


def acceleration(q, v):
    """The textbook's equations of motion of the double pendulum, rods and masses of 1."""
    d = q[0] - q[1]
    M = np.array([[2.0, math.cos(d)], [math.cos(d), 1.0]])
    right = np.array(
        [-math.sin(d) * v[1] ** 2 - 2 * G * math.sin(q[0]), math.sin(d) * v[0] ** 2 - G * math.sin(q[1])]
    )
    return np.linalg.solve(M, right)


def test_the_energy_is_that_of_the_textbook():
    ours, theirs = tp.compile(double_pendulum, 0.01), tp.compile(by_hand, 0.01)
    p = [0.3, -0.7]
    a, b = (s.evolve(q=[1.0, 0.5], p=p, steps=0).energy[0] for s in (ours, theirs))
    assert a == pytest.approx(b, rel=1e-14)


def test_momenta_follow_from_velocities_and_back():
    out = tp.compile(double_pendulum, 0.01).evolve(**START, steps=20, save_every=1)
    c = math.cos(0.5)
    assert np.allclose(out.p[0], [2 * 0.1 + c * 0.2, 0.2 + c * 0.1], rtol=1e-15)
    assert np.allclose(out.v[0], START["v"], rtol=1e-14)
    middle = (out.v[2:] - out.v[:-2]) / 0.02  # velocities are those of the motion
    assert np.allclose(middle, [acceleration(q, v) for q, v in zip(out.q[1:-1], out.v[1:-1])], atol=2e-2)


def test_an_ensemble_begins_with_velocities_too():
    q = np.linspace(0.1, 1.0, 14).reshape(7, 2)
    out = tp.compile(double_pendulum, 0.01).evolve(q=q, v=[0.1, 0.2], steps=3, save_every=3)
    one = tp.compile(double_pendulum, 0.01).evolve(q=q[3], v=[0.1, 0.2], steps=3)
    assert out.v.shape == (2, 7, 2) and (out.final.p[3] == one.final.p).all()


def test_a_velocity_that_depends_on_time_is_read_at_the_start():
    @tp.lagrangian
    def shaken(q, v, t, w=1.3):
        return v**2 / 2 + v * tp.sin(w * t) - q**2 / 2

    out = tp.compile(shaken, 0.01).evolve(q=1.0, v=0.25, t0=2.0, steps=0)
    assert out.p[0] == pytest.approx(0.25 + math.sin(2.6), rel=1e-15)


def test_constant_masses_give_an_energy_that_splits():
    @tp.lagrangian
    def bodies(x: tp.Array["n", 3], v: tp.Array["n", 3], m: tp.Array["n"]):
        return (m[:, None] * v**2).sum() / 2 - (x**2).sum() / 2

    sim = tp.compile(bodies, 0.01, sizes={"n": 40}, propagator="loop")
    assert sim.explain("full").to_dict()["plan"]["method"]["verdict"] == "leapfrog_kdk"
    m, x = np.linspace(1, 3, 40), np.ones((40, 3))
    out = sim.evolve(x=x, v=0.5 * x, m=m, steps=1)
    assert np.allclose(out.p[0], 0.5 * m[:, None] * x, rtol=1e-15)


def test_several_pairs_have_momenta_of_their_own():
    @tp.lagrangian(pairs=[("x", "v"), ("theta", "w")])
    def cart_pole(x, v, theta, w, g=G):
        return 1.1 * v**2 / 2 + 0.05 * v * w * tp.cos(theta) + 0.025 * w**2 / 2 - 0.05 * g * tp.cos(theta)

    out = tp.compile(cart_pole, 0.01).evolve(x=0.0, v=0.0, theta=0.1, w=0.0, steps=100, save_every=10)
    assert set(out.frames) == {"x", "p_x", "theta", "p_theta"} and out.w.shape == (11,)
    assert np.abs(out.p_x).max() < 1e-14 and abs(out.w[-1]) > 0.1  # from rest: nothing has a size yet


def test_what_cannot_be_transformed_says_why():
    def fast(q, v):
        return -tp.sqrt(1 - v**2)

    with pytest.raises(tp.TraceError, match="not a polynomial of the velocities") as caught:
        tp.lagrangian(fast)
    assert caught.value.site.line == fast.__code__.co_firstlineno + 1
    with pytest.raises(tp.TraceError, match="does not depend on `v`"):
        tp.lagrangian(lambda q, v: q**2)
    with pytest.raises(tp.TraceError, match="does not enter the kinetic energy on its own"):
        tp.lagrangian(pairs=[("x", "v"), ("y", "w")])(lambda x, v, y, w: v * w - x**2)
    with pytest.raises(tp.TraceError, match="enters without its square"):
        tp.lagrangian(lambda q, v: v * q - q**4 / 4)
    with pytest.raises(tp.PlanError, match="given by its Lagrangian"):
        tp.compile(tp.lagrangian(lambda q, v: v**2 / 2 - q**2), 0.01, kinetics="relativistic")
    with pytest.raises(tp.TraceError, match="taken by the momentum"):
        tp.lagrangian(lambda q, v, p: v**2 - q**2 * p)


def test_one_of_velocity_and_momentum_is_given():
    sim = tp.compile(double_pendulum, 0.01)
    with pytest.raises(tp.InputError, match="both `v` and `p`"):
        sim.evolve(**START, p=[0.0, 0.0], steps=1)
    with pytest.raises(tp.InputError, match="neither the initial `v` nor `p`"):
        sim.evolve(q=[0.0, 0.0], steps=1)


def test_saved_renamed_and_linked_it_still_knows_its_velocities(tmp_path):
    sim = tp.compile(double_pendulum, 0.01, method="galerkin4")
    sim.save(tmp_path / "a")
    wanted = sim.evolve(**START, steps=5)
    assert tp.load(tmp_path / "a").evolve(**START, steps=5).hash == wanted.hash
    other = tp.compile(double_pendulum.rename(v="w"), 0.01, method="galerkin4").evolve(
        q=START["q"], w=START["v"], steps=5
    )
    assert other.hash == wanted.hash and (other.w == wanted.v).all()

    @tp.potential
    def spring(q: tp.Vec[2], k: float = 0.0):
        return k * q @ q / 2

    free = tp.compile(double_pendulum + spring, 0.01, method="galerkin4")
    assert np.allclose(free.evolve(**START, steps=5).final.q, wanted.final.q, rtol=1e-13)
    assert not np.allclose(free.evolve(**START, k=10.0, steps=5).final.q, wanted.final.q, rtol=1e-6)


# --- methods ----------------------------------------------------------------------------------------
METHODS = {"variational_midpoint": 2, "variational_trapezoidal": 2, "galerkin4": 4, "galerkin6": 6}


@pytest.mark.requirement("S2-47")
@pytest.mark.parametrize("method", METHODS)
def test_a_method_has_its_order_and_is_symplectic(method):
    true = tp.compile(double_pendulum, 0.001, method="gauss6").evolve(**START, steps=1000).final
    errors = []
    for n in (40, 80):
        sim = tp.compile(double_pendulum, 1 / n, method=method)
        end = sim.evolve(**START, steps=n).final
        errors.append(max(np.abs(end.q - true.q).max(), np.abs(end.p - true.p).max()))
    assert abs(math.log2(errors[0] / errors[1]) - METHODS[method]) < 0.15
    assert tp.measure_symplectic(sim, **START).symplectic


@pytest.mark.parametrize(
    "ours, theirs",
    [("variational_midpoint", "implicit_midpoint"), ("galerkin4", "gauss4"), ("galerkin6", "gauss6")],
)
def test_it_is_the_collocation_of_the_energy(ours, theirs):
    a, b = (
        tp.compile(double_pendulum, 0.05, method=m).evolve(**START, steps=40).final for m in (ours, theirs)
    )
    assert np.allclose(a.q, b.q, atol=1e-12) and np.allclose(a.p, b.p, atol=1e-12)


@pytest.mark.requirement("S2-47")
def test_the_trapezoidal_rule_is_verlet_where_masses_are_constant():
    @tp.lagrangian
    def pendulum(q, v):
        return v**2 / 2 + tp.cos(q)

    ours = tp.compile(pendulum, 0.1, method="variational_trapezoidal").evolve(q=1.0, v=0.0, steps=50).final
    theirs = tp.compile(pendulum, 0.1, method="leapfrog").evolve(q=1.0, v=0.0, steps=50).final
    assert abs(ours.q - theirs.q) < 1e-13 and abs(ours.p - theirs.p) < 1e-13


@pytest.mark.parametrize("method", METHODS)
def test_all_backends_have_the_same_bits(method):
    q = np.random.default_rng(3).normal(size=(9, 2))
    hashes = {
        tp.compile(double_pendulum, 0.05, method=method, backend=b).evolve(q=q, v=[0.0, 0.3], steps=4).hash
        for b in ("python", "numpy", "llvm", "c")
    }
    assert len(hashes) == 1


@pytest.mark.requirement("S2-47")
def test_energy_stays_bounded_for_long():
    out = tp.compile(double_pendulum, 0.02, method="variational_midpoint").evolve(
        **START, steps=100_000, save_every=100
    )
    e = out.energy - out.energy[0]
    early, late = np.abs(e[:100]).max(), np.abs(e[-100:]).max()
    assert late < 2 * early < 0.05


def test_a_method_for_lagrangians_needs_one():
    with pytest.raises(tp.PlanError, match="not given by a Lagrangian"):
        tp.compile(by_hand, 0.01, method="galerkin4")


@pytest.mark.requirement("S2-49")
def test_the_report_says_what_it_was_given_by():
    sim = tp.compile(double_pendulum, 0.01)
    assert double_pendulum.level == 3 and "level 3: given by its Lagrangian" in str(sim.explain("full"))
    assert sim.explain("full").to_dict()["facts"]["Legendre"]["verdict"] == "yes"


# --- by H or by L -------------------------------------------------------------------------------------
def rods(n):
    @tp.lagrangian
    def rods(q: tp.Vec[n], v: tp.Vec[n], g: float = G):
        x = y = height = total = 0.0
        for k in range(n):
            x, y, height = x + v[k] * tp.cos(q[k]), y + v[k] * tp.sin(q[k]), height - tp.cos(q[k])
            total = total + (x**2 + y**2) / 2 - g * height
        return total

    return rods


def test_both_ways_are_counted_and_the_plan_says_so():
    plan = tp.compile(double_pendulum, 0.01).built.plan
    assert plan.method == "implicit_midpoint" and "operations a step by H" in plan.because
    assert plan.not_chosen[0].method == "variational_midpoint" and "of L itself" in plan.not_chosen[0].because


def test_a_constant_mass_matrix_is_stepped_by_kicks_and_drifts():
    spring = tp.lagrangian(lambda q, v, k=1.0: v**2 / 2 - k * q**4)
    plan = tp.compile(spring, 0.01).built.plan
    assert plan.method == "leapfrog_kdk" and plan.not_chosen[0].method == "variational_trapezoidal"


def test_three_rods_are_stepped_as_their_lagrangian_which_is_cheaper_and_certified():
    sim = tp.compile(rods(3), 0.01)
    assert sim.built.plan.method == "variational_midpoint" and sim.certificate.symplectic
    assert any(a.method == "implicit_midpoint" and "by H" in a.because for a in sim.built.plan.not_chosen)


def test_what_is_forbidden_is_not_chosen_for_its_cost():
    plan = tp.compile(double_pendulum, 0.01, forbid=["variational_midpoint"]).built.plan
    assert plan.method == "implicit_midpoint" and "operations a step by H" not in plan.because


def test_l_is_proved_only_where_that_decides(monkeypatch):
    """Of two programs of similar cost that of H is taken if it is certified, whatever is shown of the other."""
    known, asked, real = tp.compile(double_pendulum, 0.01).built, [], lagrangian.certified
    monkeypatch.setattr(lagrangian, "certified", lambda p: asked.append(p.name) or real(p))
    assert build(known.system, known.goal).plan.method == "implicit_midpoint"
    assert asked == ["implicit_midpoint"]


def test_a_program_too_long_to_be_proved_for_a_choice_is_not_chosen(monkeypatch):
    known = tp.compile(double_pendulum, 0.01).built
    monkeypatch.setattr(lagrangian, "MOST_LINES", 10)
    found = build(known.system, known.goal)
    why = next(a.because for a in found.plan.not_chosen if a.method == "implicit_midpoint")
    assert found.plan.method == "variational_midpoint" and found.certificate.symplectic
    assert "too many to be proved for a choice" in why
