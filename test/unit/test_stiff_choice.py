"""method="auto" looks at the Jacobian where a run begins, and keeps what it has chosen."""

import numpy as np
import pytest
from here import HERE

import tinyphysics as tp
from tinyphysics.planner.choice.stiff_rates import fitted
from tinyphysics.runtime.measure.stiffness import decide, measured
from tinyphysics.runtime.state.ensemble import inputs


@tp.ode
def heat(u: tp.Vec["n"], d: float = 1.0):
    return d * (np.roll(u, 1) + np.roll(u, -1) - 2 * u)


@tp.ode
def kuramoto(x: tp.Vec["n"], w: tp.Vec["n"], k: float = 2.0):
    return w + k / x.shape[0] * np.sin(x[None, :] - x[:, None]).sum(1)


def bend(u):
    return sum(np.roll(u, s, axis) for s in (1, -1) for axis in (0, 1)) - 4 * u


@tp.ode
def damped_wave(u: tp.Array["n", "n"], v: tp.Array["n", "n"], drag: float = 0.1):
    return v, bend(u) - drag * v - u**3


@tp.ode
def brusselator(u: tp.Array["n", "n"], v: tp.Array["n", "n"], spread: float = 1300.0):
    return 1 + u * u * v - 4.4 * u + spread * bend(u), 3.4 * u - u * u * v + spread * bend(v)


@tp.ode
def reacting(u: tp.Array["n", "n"], v: tp.Array["n", "n"], k: float = 1e4):
    return k * (v - u) + bend(u), k * (u - v * v) + bend(v)


@tp.ode
def van_der_pol(x, v, eps: float = 1e-6):
    return v, ((1 - x * x) * v - x) / eps


@tp.ode
def robertson(a, b, c):
    slow, middle, fast = 0.04 * a, 1e4 * b * c, 3e7 * b * b
    return -slow + middle, slow - middle - fast, fast


@tp.ode
def spring(x, v, w: float = 1e6):
    return v, -w * w * x


@tp.ode
def saddle(x, v, w: float = 1e6):
    return v, w * w * x


@tp.ode
def drained(x: tp.Vec[5], y: tp.Vec[30], k: float = 1e9):
    return -k * x, -k * y


def hill(n):
    return np.exp(-(((np.arange(n) - n / 2) / (n / 10)) ** 2))


CHOICES = {
    "heat, a short run": (heat, {"n": 2000}, {"u": hill(2000)}, 20.0, 1e-6, "dopri5"),
    "heat, a long run": (heat, {"n": 2000}, {"u": hill(2000)}, 2e4, 1e-6, "rodas"),
    "Kuramoto": (
        kuramoto,
        {"n": 70},
        {"x": np.sin(np.arange(70.0) ** 2), "w": np.cos(np.arange(70.0))},
        1e3,
        1e-6,
        "dopri5",
    ),
    "damped wave": (
        damped_wave,
        {"n": 40},
        {"u": hill(40)[:, None] * hill(40), "v": np.zeros((40, 40))},
        1e4,
        1e-6,
        "dopri5",
    ),
    "Brusselator, few digits": (
        brusselator,
        {"n": 24},
        {"u": 4 * hill(24)[:, None] + 0 * hill(24), "v": np.ones((24, 24))},
        1.0,
        1e-4,
        "rkc",
    ),
    "Brusselator, small": (
        brusselator,
        {"n": 12},
        {"u": 4 * hill(12)[:, None] + 0 * hill(12), "v": np.ones((12, 12))},
        1.0,
        1e-5,
        "rock4",
    ),
    "Brusselator, very stiff": (
        brusselator,
        {"n": 12},
        {"u": 4 * hill(12)[:, None] + 0 * hill(12), "v": np.ones((12, 12)), "spread": 1e6},
        1.0,
        1e-5,
        "rodas",
    ),
    "a reaction": (
        reacting,
        {"n": 12},
        {"u": 4 * hill(12)[:, None] + 0 * hill(12), "v": np.ones((12, 12))},
        1.0,
        1e-5,
        "rodas",
    ),
    "Van der Pol": (van_der_pol, None, {"x": 2.0, "v": 0.0}, 2.0, None, "radau"),
    "Van der Pol, barely": (van_der_pol, None, {"x": 2.0, "v": 0.0, "eps": 0.1}, 2.0, None, "taylor"),
    "Robertson to the end": (robertson, None, {"a": 1.0, "b": 0.0, "c": 0.0}, 1e11, None, "radau"),
    "Robertson, at first": (robertson, None, {"a": 1.0, "b": 0.0, "c": 0.0}, 1.0, None, "taylor"),
    "what oscillates is followed": (spring, None, {"x": 1.0, "v": 0.0}, 100.0, None, "taylor"),
    "what runs away is followed": (saddle, None, {"x": 1e-9, "v": 0.0}, 1e-5, 1e-6, "taylor"),
    "several shapes": (drained, None, {"x": np.ones(5), "y": np.ones(30)}, 1.0, 1e-6, "rock4"),
}


def decided(name, **options):
    """A simulation that has looked at its first state, without the run."""
    system, sizes, start, until, tolerance, _ = CHOICES[name]
    more = {} if sizes is None else {"sizes": sizes}
    sim = tp.compile(system, tolerance=tolerance, **more, **options)
    decide(sim, inputs(sim.system, start, sim.compiled.encoding), 0.0, until)
    return sim


@pytest.mark.requirement("S2-41")
@pytest.mark.parametrize("name", CHOICES)
def test_the_method_follows_from_size_structure_and_stiffness(name):
    sim = decided(name)
    assert sim.built.plan.method == CHOICES[name][-1]
    rows = {r.name: r for r in sim.explain("full").only("plan").sections[0].rows}
    assert rows["stiff"].verdict == ("yes" if sim.goal.spectrum.method else "not shown")
    assert "the Jacobian at the first state" in rows["stiff"].because


def test_the_largest_eigenvalue_is_that_of_the_matrix():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(6, 6)) - 4 * np.diag([0, 0, 0, 0, 0, 5.0])

    @tp.ode
    def linear(x: tp.Vec[6]):
        return tp.stack([sum(A[i, j] * x[j] for j in range(6)) for i in range(6)])

    sim = tp.compile(linear)
    found, uniform = measured(sim.compiled, inputs(sim.system, {"x": np.ones(6)}), 0.0)
    values = np.linalg.eigvals(A)
    assert abs(found - values[np.argmax(abs(values))]) < 0.05 * abs(found)
    assert uniform == pytest.approx(np.abs(A.sum(1)).max(), rel=5e-3)


def test_a_pair_of_eigenvalues_is_found_by_three_powers():
    a, b, c = np.array([1.0, 2.0]), None, None
    J = np.array([[-1.0, 5.0], [-5.0, -1.0]])
    b = J @ a
    c = J @ b
    assert abs(fitted(a @ a, a @ b, b @ b, a @ c, b @ c) - (-1 + 5j)) < 1e-12
    assert fitted(1.0, -3.0, 9.0, 9.0, -27.0) == -3.0
    assert fitted(0.0, 0.0, 0.0, 0.0, 0.0) == 0.0


def test_the_choice_is_the_same_on_every_backend():
    found = [decided("heat, a long run", backend=b) for b in HERE if b != "python"]
    assert {s.goal.spectrum for s in found} == {found[0].goal.spectrum}
    numbers = {(s.goal.spectrum.real, s.goal.spectrum.imaginary) for s in found}
    assert len(numbers) == 1 and {s.built.plan.method for s in found} == {"rodas"}


def test_shorter_runs_and_resumed_ones_have_the_method(tmp_path):
    start, path = {"u": hill(100)}, tmp_path / "heat.checkpoint"
    sim = tp.compile(heat, sizes={"n": 100}, tolerance=1e-5, dt=1000.0)
    whole = sim.evolve(**start, steps=20, save_every=1)
    assert sim.built.plan.method == "rodas"
    one = tp.compile(heat, sizes={"n": 100}, tolerance=1e-5, dt=1000.0).evolve(**start, steps=1)
    assert one.hash == sim.evolve(**start, steps=1).hash and one.final.u.tobytes() == whole.u[1].tobytes()
    sim.evolve(**start, steps=10, checkpoint=path)
    again = tp.compile(heat, sizes={"n": 100}, tolerance=1e-5, dt=1000.0)
    rest = again.evolve(resume=path, steps=1)
    assert again.built.plan.method == "rodas"
    assert rest.final.u.tobytes() == whole.u[11].tobytes()
    said = {r.name: r.because for r in again.explain("full").only("plan").sections[0].rows}
    assert "checkpoint" in said["stiff"]


def test_a_run_that_was_not_stiff_goes_on_as_it_began(tmp_path):
    path = tmp_path / "heat.checkpoint"
    sim = tp.compile(heat, sizes={"n": 100}, tolerance=1e-5, dt=0.5)
    sim.evolve(u=hill(100), steps=4, checkpoint=path)
    again = tp.compile(heat, sizes={"n": 100}, tolerance=1e-5, dt=0.5)
    again.evolve(resume=path, steps=40_000 // 4)
    assert again.built.plan.method == sim.built.plan.method != "rodas"


def test_a_saved_simulation_has_the_method_that_was_chosen(tmp_path):
    sim = decided("heat, a long run")
    sim.save(tmp_path / "heat.json")
    read = tp.load(tmp_path / "heat.json")
    assert read.built.plan.method == "rodas" and read.goal.spectrum.real == sim.goal.spectrum.real


def test_of_an_ensemble_the_stiffest_decides():
    sim = tp.compile(van_der_pol)
    out = sim.evolve(x=[2.0, 2.0], v=[0.0, 0.0], eps=np.array([1.0, 1e-6]), until=2.0)
    assert sim.built.plan.method == "radau" and not out.stops


@pytest.mark.all
def test_what_is_named_forbidden_or_not_finite_is_not_decided():
    named = tp.compile(heat, sizes={"n": 400}, method="dopri5")
    named.evolve(u=hill(400), until=1.0)
    assert named.goal.spectrum is None and named.built.plan.method == "dopri5"
    assert decided("heat, a long run", forbid=["rodas"]).built.plan.method == "rock4"
    sim = tp.compile(van_der_pol)
    decide(sim, inputs(sim.system, {"x": 1e200, "v": 0.0}, sim.compiled.encoding), 0.0, 1.0)
    assert sim.built.plan.method == "taylor" and "not finite" in str(sim.explain("full"))


def test_a_goal_is_met_by_the_method_for_stiff_systems():
    sim = tp.compile(van_der_pol, error=1e-4)
    out = sim.evolve(x=2.0, v=0.0, until=0.5)
    assert sim.built.plan.method == "radau" and out.metrics["goals"]["met"]
