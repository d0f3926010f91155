"""Are gradients right where a method chooses its own steps, and where a run ends between two?  Closed forms and differences."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.measure.along_own_steps import moved_starts, walked
from tinyphysics.runtime.measure.differentiate import prepared
from tinyphysics.runtime.stages.resolve import Request
from tinyphysics.tpir.program.isa import Program

pytestmark = pytest.mark.requirement("S2-40")
ORBIT = dict(q=[1.0, 0.0], p=[0.0, 1.2])
OWN = ("taylor", "dop853", "dopri5", "radau", "rkc", "rock4", "rodas")


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.ode
def driven(x: tp.Vec[2], t, k: float = 1.3, w: tp.Vec[2] = (0.4, 2.0)):
    return tp.stack([x[1], -k * tp.sin(x[0]) + w[0] * tp.cos(w[1] * t)])


@tp.hamiltonian
def quartic(q, p, k: float = 1.3):
    return p**2 / 2 + k * q**2 / 2 + q**4 / 4


def first(out):
    return out.final.q[0]


def test_kepler_by_its_series_has_the_derivatives_of_the_orbit():
    """Of the closed form, to ten digits: the tolerance of the series is rounding."""
    sim = tp.compile(kepler, method="taylor")
    grads = sim.grad(first, **ORBIT, until=20.0)
    assert grads["p"][1] == pytest.approx(34.529257594, rel=1e-10)
    assert grads["mu"] == pytest.approx(-24.551709399, rel=1e-10)
    assert "steps that the method chose" in str(grads.report) and grads.report.own_steps > 20
    assert "with their lengths held" in str(sim.explain("full"))
    some = sim.grad(first, **ORBIT, until=20.0, past="checkpoint", snapshots=6)
    assert some.report.past == "checkpoint" and some.report.snapshots == 6
    assert all(np.array_equal(some[n], grads[n]) for n in grads)


@pytest.mark.parametrize(
    "method", [m if m in ("taylor", "dopri5") else pytest.param(m, marks=pytest.mark.all) for m in OWN]
)
def test_every_method_with_its_own_steps_has_a_gradient(method):
    """Tangents, differences at the steps that ran, and pasts agree; frames lie within steps, and the rates ask for the time."""
    sim = tp.compile(driven, method=method, tolerance=1e-6)
    given = dict(x=[1.0, 0.2], until=2.0)
    at = dict(save_at=[0.013, 0.7, 1.1, 2.0])
    found = sim.gradcheck(lambda out: (out.t * out.x[:, 0]).sum() + out.final.x[1] ** 2, **given, **at)
    assert found.passed and found.duality < 1e-13 and found.differences < 1e-9


def test_the_steps_of_given_length_are_those_of_the_run():
    """What is differentiated is what ran: from the same beginning they lead to the same state."""
    for method, close in (("taylor", 1e-14), ("dop853", 1e-14), ("radau", 1e-8)):
        sim = tp.compile(kepler, method=method, tolerance=1e-7)
        course, _, _ = prepared(sim, Request(given=ORBIT, until=3.0), [], "grad")
        start = {n: np.asarray(v)[None] for n, v in ORBIT.items()}
        end = moved_starts(course, [course.last], start, {})[course.last]
        out = sim.evolve(**ORBIT, until=3.0)
        assert np.allclose(end["q"][0], out.final.q, rtol=0, atol=close)
        assert len(walked(course, [course.last]).rows) > 3


def test_dop853_has_the_derivative_of_its_tableau_at_its_steps():
    """By imaginary steps of 1e-30 through SciPy's coefficients, at the lengths that ran: an independent program."""
    table = pytest.importorskip("scipy.integrate._ivp.dop853_coefficients")
    sim = tp.compile(kepler, method="dop853", tolerance=1e-5)
    course, _, _ = prepared(sim, Request(given=ORBIT, until=6.0), [], "grad")
    rows = walked(course, [course.last]).rows
    steps = [float(r.length[0]) for r in rows if r.length[0] > 0]
    began = [float(r.when[0]) for r in rows if r.length[0] > 0]

    def rates(z, mu):
        r = (z[0] ** 2 + z[1] ** 2) ** 1.5
        return np.array([z[2], z[3], -mu * z[0] / r, -mu * z[1] / r])

    def stages(z, mu, h):
        k = np.zeros((table.N_STAGES_EXTENDED, 4), complex)
        k[0] = rates(z, mu)
        for s in range(1, table.N_STAGES):
            k[s] = rates(z + h * (table.A[s, :s] @ k[:s]), mu)
        return k

    def end(z, mu):
        for h, t in zip(steps, began):
            k = stages(z, mu, h)
            move = h * (table.B @ k[: table.N_STAGES])
            if t + h < 6.0:
                z = z + move
                continue
            k[table.N_STAGES] = rates(z + move, mu)
            for s in range(table.N_STAGES + 1, table.N_STAGES_EXTENDED):
                k[s] = rates(z + h * (table.A[s, :s] @ k[:s]), mu)
            F = [move, h * k[0] - move, 2 * move - h * (k[table.N_STAGES] + k[0]), *(h * (table.D @ k))]
            x, y = (6.0 - t) / h, 0
            for i, f in enumerate(reversed(F)):
                y = (y + f) * (x if i % 2 == 0 else 1 - x)
            return (z + y)[0]

    z, tiny = np.array([1.0, 0.0, 0.0, 1.2], complex), 1e-30j
    want = [end(z + tiny * unit, 1.0).imag / 1e-30 for unit in np.eye(4)]
    want.append(end(z, 1.0 + tiny).imag / 1e-30)
    grads = sim.grad(first, **ORBIT, until=6.0)
    assert np.allclose([*grads["q"], *grads["p"], grads["mu"]], want, rtol=1e-11)
    assert first(sim.evolve(**ORBIT, until=6.0)) == pytest.approx(end(z, 1.0).real, rel=1e-13)


def test_members_choose_their_own_steps_and_have_the_gradients_that_they_have_alone():
    sim = tp.compile(kepler, method="taylor")
    q, p = [[1.0, 0.0], [0.7, 0.1], [1.5, -0.2]], [[0.0, 1.2], [0.2, 0.9], [0.0, 0.7]]
    more = dict(until=7.0, save_at=[1.0, 2.5, 7.0])

    def loss(out):
        return out.final.q[0] + (out.q[:, 1] ** 2).sum()

    value, grads = sim.value_and_grad(loss, q=q, p=p, **more, per_member=True)
    for k in range(3):
        v, alone = sim.value_and_grad(loss, q=q[k], p=p[k], **more)
        assert value[k] == v and all(np.array_equal(grads[n][k], alone[n]) for n in alone)


def test_second_derivatives_at_the_steps_that_ran():
    sim = tp.compile(quartic, method="taylor")
    start, way, h = dict(q=0.7, p=0.2), dict(q=0.3, k=0.7), 1e-5

    def loss(out):
        return out.final.q * out.final.p

    found, at = sim.hvp(loss, way, **start, until=4.0), {**start, "k": 1.3}
    ends = [
        sim.grad(loss, **{**at, **{n: np.add(at[n], s * h * np.asarray(way[n])) for n in way}}, until=4.0)
        for s in (1, -1)
    ]
    for n in found:
        assert np.allclose(found[n], (np.asarray(ends[0][n]) - ends[1][n]) / (2 * h), rtol=1e-7, atol=1e-8)


@tp.hamiltonian
def pushed(q, p, t, k: float = 1.3):
    return p**2 / 2 * (1 + 0.3 * tp.cos(t)) + k * q**2 / 2 + q * tp.sin(2 * t)


@pytest.mark.parametrize(
    ("system", "method"),
    [
        (quartic, "leapfrog"),
        (quartic, "rk4"),
        (quartic, "implicit_midpoint"),
        (pushed, "leapfrog"),
        (pushed, "yoshida4"),
    ],
    ids=lambda x: x if isinstance(x, str) else x.name,
)
def test_a_frame_between_two_steps_is_pulled_back_through_its_shorter_step(system, method):
    """The end of a run, too: a last step that is shorter, and not fed back. The rates may ask for the time."""
    sim = tp.compile(system, dt=0.05, method=method)
    more = dict(until=0.537, save_at=[0.02, 0.11, 0.25, 0.537])

    def loss(out):
        return (out.t * out.q**2).sum() + out.final.p * out.final.q

    value, grads = sim.value_and_grad(loss, q=0.7, p=0.2, **more)
    assert value == pytest.approx(loss(sim.evolve(q=0.7, p=0.2, **more)), rel=1e-14)
    at, h = dict(q=0.7, p=0.2, k=1.3), 1e-5

    def change(name):
        ends = [loss(sim.evolve(**{**at, name: at[name] + s * h}, **more)) for s in (1, -1, 2, -2)]
        return (8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / (12 * h)

    for name in at:
        assert grads[name] == pytest.approx(change(name), rel=1e-8, abs=1e-9), name
    other = sim.grad(loss, q=0.7, p=0.2, past="checkpoint", snapshots=3, **more)
    assert other["k"] == pytest.approx(grads["k"], rel=1e-13)


def test_a_deleted_loop_ends_where_it_is_asked_to():
    @tp.hamiltonian
    def oscillator(q, p, k: float = 1.25):
        return p**2 / 2 + k * q**2 / 2

    sim = tp.compile(oscillator, dt=0.25)
    grads = sim.grad(lambda out: out.final.q, q=1.0, p=0.25, until=3.3)
    w, t = np.sqrt(1.25), 3.3
    by_w = -t * np.sin(w * t) + 0.25 * (t * np.cos(w * t) / w - np.sin(w * t) / w**2)
    assert [grads["q"], grads["p"], grads["k"]] == pytest.approx(
        [np.cos(w * t), np.sin(w * t) / w, by_w / (2 * w)], rel=1e-13
    )


@pytest.mark.parametrize("wrong", [dict(past="reverse"), dict(wrt=["dt"])])
def test_what_steps_of_their_own_length_do_not_have_is_said(wrong):
    with pytest.raises(tp.PlanError, match="chooses"):
        tp.compile(kepler, method="dop853", dt=0.1).grad(first, **ORBIT, steps=10, **wrong)


def test_the_curve_of_a_chebyshev_step_is_made_of_shorter_steps():
    """It passes through their ends, so that no program holds three steps: gradients compile in a fifth of the time."""
    sim = tp.compile(quartic, method="rock4", tolerance=1e-5)
    given, at = dict(q=1.0, p=0.2), dict(save_at=[0.011, 0.5, 0.9, 1.0], until=1.0)
    course, _, _ = prepared(sim, Request(given=given, **at), [], "grad")
    start = {n: np.array([v]) for n, v in given.items()}
    ends = moved_starts(course, course.frames, start, {})
    out = sim.evolve(**given, **at)
    assert np.allclose([ends[k]["q"][0] for k in course.frames], out.q, rtol=0, atol=1e-13)
    assert sim.gradcheck(lambda out: out.q.sum(), **given, **at).passed
    programs = [p for p in sim._beside.values() if isinstance(p, Program)]
    assert programs and max(len(p.step) for p in programs) < 1_500
