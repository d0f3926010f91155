"""Equations of whole arrays: implicit steps of chains and fields, against closed forms, and with the same bits everywhere."""

import re
from dataclasses import replace

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.flows.solvers.banded import BlockElimination
from tinyphysics.flows.solvers.cyclic import CyclicReduction, colours, reach
from tinyphysics.flows.solvers.krylov import ConjugateGradients, StabilizedGradients
from tinyphysics.ir import UOp
from tinyphysics.tpir import parse, vm
from tinyphysics.tpir.kernels.loops import build_loops
from tinyphysics.tpir.kernels.nests import Repeat

N = 70


def ring(n=N, name="ring"):
    def energy(q: tp.Vec[n], p: tp.Vec[n], k: float = 1.0, b: float = 0.0):
        d = q - tp.roll(q, 1)
        return p @ p / 2 + k * (d @ d) / 2 + b * tp.sum(d**4) / 4

    energy.__name__ = name
    return tp.hamiltonian(energy)


@tp.hamiltonian
def open_chain(q: tp.Vec[N], p: tp.Vec[N], k: float = 1.0):
    d = q[1:] - q[:-1]
    return p @ p / 2 + k * (d @ d) / 2 + k * (q[0] ** 2 + q[N - 1] ** 2) / 2


@tp.hamiltonian
def sine_gordon(q: tp.Array[9, 35], p: tp.Array[9, 35]):
    x, y = q - tp.roll(q, 1, 0), q - tp.roll(q, 1, 1)
    return tp.sum(p * p) / 2 + tp.sum(x * x + y * y) / 2 + tp.sum(1 - tp.cos(q))


@tp.hamiltonian
def curved(q: tp.Vec[N], p: tp.Vec[N]):
    d = q - tp.roll(q, 1)
    return tp.sum((1 + q**2) * p * p) / 2 + d @ d / 2 + tp.sum(q**4)


@tp.hamiltonian
def driven(q: tp.Vec[N], p: tp.Vec[N], t, w: float = 2.0):
    d = q - tp.roll(q, 1)
    return p @ p / 2 + d @ d / 2 + tp.sum(q**4) / 4 - tp.cos(w * t) * tp.sum(q)


@tp.hamiltonian
def curved_field(q: tp.Array[9, 12], p: tp.Array[9, 12]):
    x, y = q - tp.roll(q, 1, 0), q - tp.roll(q, 1, 1)
    return tp.sum((1 + q**2) * p * p) / 2 + tp.sum(x * x + y * y) / 2 + tp.sum(q**4)


SYSTEMS = {
    "ring": ring(),
    "open": open_chain,
    "field": sine_gordon,
    "mixed": curved,
    "driven": driven,
    "mixed field": curved_field,
}
SHAPES = {"field": (9, 35), "mixed field": (9, 12)}
SOLVERS = {
    "ring": CyclicReduction,
    "open": CyclicReduction,
    "field": ConjugateGradients,
    "mixed": BlockElimination,
    "driven": CyclicReduction,
    "mixed field": StabilizedGradients,
}


def start(name="ring", size=0.5, seed=1):
    q, p = size * np.random.default_rng(seed).normal(size=(2, *SHAPES.get(name, (N,))))
    return dict(q=q, p=p)


def stiffness(n, closed):
    """Of a chain with unit springs, between walls where it is not a ring."""
    k = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    if closed:
        k[0, -1] = k[-1, 0] = -1
    return k


def pade(method, a):
    """The step of a linear system with the matrix a = dt J S: numerator and denominator."""
    one, b = np.eye(len(a)), a @ a
    even = {"implicit_midpoint": one, "gauss4": one + b / 12, "gauss6": one + b / 10}[method]
    odd = {"implicit_midpoint": a / 2, "gauss4": a / 2, "gauss6": a / 2 + a @ b / 120}[method]
    return even + odd, even - odd


# --- closed forms ---------------------------------------------------------------------------------
FIRST = [("implicit_midpoint", "ring", 0.3), ("gauss4", "ring", 20.0), ("implicit_midpoint", "open", 20.0)]
EVERY = [
    (m, name, dt)
    for m in ("implicit_midpoint", "gauss4", "gauss6")
    for name in ("ring", "open")
    for dt in (0.3, 20.0)
]


def in_all(rows, first):
    """Rows of a test, of which only the first belong to the shorter tiers."""
    return [*first, *(pytest.param(*row, marks=pytest.mark.all) for row in rows if row not in first)]


@pytest.mark.parametrize("method, name, dt", in_all(EVERY, FIRST))
def test_a_linear_chain_steps_by_the_rational_function_of_its_method(method, name, dt):
    begin, steps = start(name), 4
    out = tp.compile(SYSTEMS[name], dt=dt, method=method).evolve(**begin, steps=steps)
    a = dt * np.block([[np.zeros((N, N)), np.eye(N)], [-stiffness(N, name == "ring"), np.zeros((N, N))]])
    top, bottom = pade(method, a)
    z = np.concatenate([begin["q"], begin["p"]])
    for _ in range(steps):
        z = np.linalg.solve(bottom, top @ z)
    assert out.stopped is None
    assert np.abs(np.concatenate([out.final.q, out.final.p]) - z).max() < 1e-11 * np.abs(z).max()


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_solver_is_chosen_by_structure(name):
    flow = tp.compile(SYSTEMS[name], dt=0.1, method="implicit_midpoint").built.step.body[0]
    assert type(flow.by) is SOLVERS[name]


def test_the_energy_of_a_quadratic_chain_is_kept_to_rounding():
    out = tp.compile(ring(), dt=0.5, method="implicit_midpoint").evolve(**start(), steps=500)
    assert out.drift("energy") < 2e-14


SLOPES = [
    (name, *m) for name in ("field", "mixed", "driven") for m in (("implicit_midpoint", 2), ("gauss4", 4))
]


@pytest.mark.parametrize("name, method, order", in_all(SLOPES, [SLOPES[0]]))
def test_errors_fall_as_the_order_says(name, method, order):
    begin = start(name, 0.3)

    def end(dt, method=method):
        return tp.compile(SYSTEMS[name], dt=dt, method=method).evolve(**begin, until=0.8).final.q

    exact = end(0.02, "gauss6")
    errors = [np.abs(end(dt) - exact).max() for dt in (0.1, 0.05)]
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.25


# --- proofs ---------------------------------------------------------------------------------------
STAGES = [(name, m) for name in SYSTEMS for m in ("implicit_midpoint", "gauss4", "gauss6")]
FEW_STAGES = [
    ("ring", "gauss6"),
    ("mixed", "implicit_midpoint"),
    ("driven", "gauss4"),
    ("open", "implicit_midpoint"),
]


@pytest.mark.parametrize("name, method", in_all(STAGES, FEW_STAGES))
def test_stages_of_arrays_are_certified(name, method):
    c = tp.compile(SYSTEMS[name], dt=0.1, method=method).certificate
    assert c.symplectic and c.symmetric and c.consistent and bool(c.reversible) == (name != "driven")
    assert "to the residual" in c.symplectic.because


def test_a_wrong_coefficient_of_a_stage_is_no_proof():
    program = tp.compile(ring(), dt=0.1, method="gauss4").built.program
    text = str(replace(program, claims=()))
    assert tp.tpir.verify(parse(text)).symplectic
    found = 0
    for constant in sorted(set(re.findall(r"-0\.\d+", text[text.index("SOLVE") :]))):
        at = text.index("UNTIL")
        wrong = parse(text[:at].replace(f", {constant}", f", {float(constant) * 1.01!r}") + text[at:])
        if wrong.hash != program.hash:
            c = tp.tpir.verify(wrong)
            found += not (c.symplectic and c.consistent)
    assert found, "coefficients of stages are among them"


def test_the_step_is_measured_to_be_symplectic():
    sim = tp.compile(ring(40), dt=0.2, method="gauss4")
    q, p = 0.5 * np.random.default_rng(3).normal(size=(2, 40))
    out = {}
    for k in range(4):  # two tangents, by differences: their symplectic product is kept
        d = 1e-6 * np.random.default_rng(k).normal(size=(2, 40))
        plus, minus = (sim.evolve(q=q + s * d[0], p=p + s * d[1], steps=1, b=1.0).final for s in (1, -1))
        out[k] = d, (np.stack([plus.q, plus.p]) - np.stack([minus.q, minus.p])) / 2
    (a, x), (b, y) = out[0], out[1]
    before, after = (u[0] @ v[1] - u[1] @ v[0] for u, v in ((a, b), (x, y)))
    assert abs(before - after) < 1e-6 * abs(before)


# --- bits -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name", ["ring", "mixed", *(pytest.param(n, marks=pytest.mark.all) for n in ("open", "field", "driven"))]
)
def test_every_backend_has_the_bits_of_the_virtual_machine(name):
    method = "implicit_midpoint" if name in ("open", "mixed") else "gauss4"
    hashes = {
        backend: tp.compile(SYSTEMS[name], dt=0.2, method=method, backend=backend)
        .evolve(**start(name, 0.4), steps=2)
        .hash
        for backend in ("python", "numpy", "llvm", "c")
    }
    assert len(set(hashes.values())) == 1, hashes


@pytest.mark.parametrize("name", ["mixed", pytest.param("ring", marks=pytest.mark.all)])
def test_a_gpu_has_the_same_bits(fake_cuda, name):
    here, there = (
        tp.compile(SYSTEMS[name], dt=0.02, method="implicit_midpoint", backend=backend).evolve(
            **start(name, 0.4), steps=1
        )
        for backend in ("llvm", "cuda")
    )
    assert here.hash == there.hash and there.metrics["device"] == "Fake GPU"


def test_members_of_an_ensemble_have_the_bits_that_they_have_alone():
    sim = tp.compile(ring(), dt=0.2, method="gauss4")
    every = [start(size=s, seed=k) for k, s in enumerate((0.1, 0.5, 1.0))]
    together = sim.evolve(q=[x["q"] for x in every], p=[x["p"] for x in every], b=[0.0, 0.5, 1.0], steps=3)
    for k, (x, b) in enumerate(zip(every, (0.0, 0.5, 1.0))):
        alone = sim.evolve(**x, b=b, steps=3).final
        assert np.array_equal(alone.q, together.final.q[k]) and np.array_equal(alone.p, together.final.p[k])


def test_threads_change_no_bit():
    n = 30_000
    sim = tp.compile(ring(n, "long_ring"), dt=0.2, method="implicit_midpoint")
    q, p = np.random.default_rng(0).normal(size=(2, n))
    assert sim.evolve(q=q, p=p, steps=2, threads=1).hash == sim.evolve(q=q, p=p, steps=2, threads=2).hash


def test_a_run_goes_on_from_a_checkpoint_with_the_same_bits(tmp_path):
    sim = tp.compile(sine_gordon, dt=0.2, method="implicit_midpoint")
    whole = sim.evolve(**start("field"), steps=6)
    path = tmp_path / "run.ckpt"
    sim.evolve(**start("field"), steps=3, checkpoint=path)
    assert sim.evolve(resume=path, steps=3).hash == whole.hash


# --- what happens in rounds -----------------------------------------------------------------------
def test_the_rounds_of_a_solution_in_another_are_loops_in_its_loop():
    kernel = build_loops(tp.compile(sine_gordon, dt=0.1, method="implicit_midpoint").built.program)
    (outer,) = (t for t in kernel.sections["step"].turns if isinstance(t, Repeat))
    (inside,) = (t for t in outer.turns if isinstance(t, Repeat))
    assert outer.most == 50 and inside.most > outer.most


def test_a_step_that_is_not_solved_stops_its_member_with_the_residuals():
    sim = tp.compile(ring(), dt=2.0, method="implicit_midpoint")
    mild, wild = start(size=0.1), start(size=30.0)
    out = sim.evolve(q=[mild["q"], wild["q"]], p=[mild["p"], wild["p"]], b=1.0, steps=3)
    stop = out.stopped
    assert stop.cause == "not solved" and stop.member == 1 and stop.step == 1
    assert "residuals, in parts of the state, are" in str(stop.error) and "Shorten dt" in str(stop.error)
    assert np.array_equal(out.final.q[1], wild["q"]), "the last good state is kept"
    assert np.array_equal(out.final.q[0], sim.evolve(**mild, b=1.0, steps=3).final.q)


def test_metrics_say_how_many_rounds_there_were_and_what_they_left():
    found = tp.compile(ring(), dt=0.2, method="gauss4").evolve(**start(), b=0.3, steps=4).metrics["solver"]
    assert 2 <= found["rounds"] <= found["most_rounds"] <= 50 and found["residual"] < 1e-14


def test_explain_names_the_solver():
    text = str(tp.compile(sine_gordon, dt=0.1, method="implicit_midpoint").explain("full"))
    assert "conjugate gradients" in text and "630 unknowns" in text


def test_what_needs_every_number_written_out_says_so():
    with pytest.raises(tp.PlanError, match="equations of whole arrays run in loops"):
        tp.measure_symplectic(tp.compile(ring(), dt=0.1, method="implicit_midpoint"), **start())


# --- the parts ------------------------------------------------------------------------------------
PROGRAM = """
program root
state S0 a f64[2,3] field
init:
  LOAD S0:f64[2,3], &a
step:
  MOVE T0:f64[2,3], expand, 1.0
  SOLVE T1:f64[2,3], T0
  ELEM T2:f64[2,3], mul, T1, T1
  ELEM T3:f64[2,3], sub, T2, S0
  ELEM T4:f64[2,3], mul, T1, 2.0
  ELEM T5:f64[2,3], div, T3, T4
  UNTIL T1:f64[2,3], T3, T5, T0, (50,)
  MAP S0:f64[2,3], T1
final:
  STORE &a, S0
"""


def test_a_correction_may_stand_where_a_matrix_does():
    a = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert np.allclose(vm.run(parse(PROGRAM), {"a": a}, steps=1)["a"], np.sqrt(a), rtol=4e-16)
    assert parse(str(parse(PROGRAM))).hash == parse(PROGRAM).hash


def test_what_takes_too_many_rounds_is_none():
    out = vm.run(parse(PROGRAM.replace("(50,)", "(2,)")), {"a": [[1.0] * 3, [50.0] * 3]}, steps=1)["a"]
    assert np.isnan(out).all(), "of an array all numbers are found together"


def test_colours_are_apart_on_every_ring():
    for n in range(33, 45):
        of = {i: k for k, (first, count) in enumerate(colours(n)) for i in range(first, first + 3 * count, 3)}
        assert sorted(of) == list(range(n))
        assert all(len({of[(i + k) % n] for k in (-1, 0, 1)}) == 3 for i in range(n))


def test_the_reach_of_slopes_is_read_off_their_movement():
    q = UOp.var("q", (50,))
    assert reach([q + q.roll(1, 0)], [q]) == {0, -1}
    assert reach([q * q.sum()], [q]) is None


def test_large_arrays_are_no_more_instructions_than_small_ones():
    small, large = (
        tp.compile(ring(n), dt=0.1, method="implicit_midpoint").built.program for n in (3_000, 99_999)
    )
    assert len(small.step) == len(large.step)
    nests = [len(build_loops(p).sections["step"].nests) for p in (small, large)]
    assert nests[1] <= nests[0] + 25, "but for sums, which are taken chunk by chunk"


# --- stiff rates ----------------------------------------------------------------------------------
@tp.ode
def heat(u: tp.Vec["n"]):
    return np.roll(u, 1) + np.roll(u, -1) - 2 * u


@tp.ode
def brusselator(u: tp.Array["n", "n"], v: tp.Array["n", "n"]):
    def bend(x):
        return np.roll(x, 1, 0) + np.roll(x, -1, 0) + np.roll(x, 1, 1) + np.roll(x, -1, 1) - 4 * x

    return 1 + u * u * v - 4.4 * u + 50.0 * bend(u), 3.4 * u - u * u * v + 50.0 * bend(v)


@tp.ode
def relaxing(x: tp.Vec[40], w: tp.Vec[40], t):
    """To a moving goal, at rates from 1 to 1e5."""
    return -w * (x - tp.cos(t)) - tp.sin(t), 0 * w


@tp.ode
def van_der_pol(x, v, mu: float = 100.0):
    return v, mu * ((1 - x * x) * v) - x


@pytest.mark.parametrize("n", [50, pytest.param(128, marks=pytest.mark.all)])
def test_heat_on_a_ring_follows_its_modes_with_long_steps(n):
    u = np.exp(-100 * (np.arange(n) / n - 0.5) ** 2)
    until = 0.1 * n * n
    decay = np.exp(until * (2 * np.cos(2 * np.pi * np.fft.rfftfreq(n)) - 2))
    out = tp.compile(heat, method="rodas", sizes={"n": n}, tolerance=1e-5).evolve(u=u, until=until)
    assert np.abs(out.final.u - np.fft.irfft(np.fft.rfft(u) * decay, n)).max() < 1e-6
    assert 2 * out.metrics["substeps"] < until, "an explicit step is shorter than 1"


@pytest.mark.all
def test_stiff_numbers_arrive_whatever_their_rates_are():
    w = np.logspace(0, 5, 40)
    sim = tp.compile(relaxing, method="rodas", tolerance=1e-6)
    out = sim.evolve(x=np.ones(40), w=w, until=3.0)
    assert np.abs(out.final.x - np.cos(3.0)).max() < 2e-5 and out.metrics["substeps"] < 400


def test_few_numbers_are_eliminated():
    ends = [
        tp.compile(van_der_pol, method=method, tolerance=tolerance).evolve(x=2.0, v=0.0, until=100.0).final.x
        for method, tolerance in (("rodas", 1e-7), ("radau", 1e-9))
    ]
    assert abs(ends[0] - ends[1]) < 1e-7


@pytest.mark.all
def test_errors_of_a_stiff_field_follow_the_tolerance():
    x = np.arange(12) / 12
    begin = dict(
        u=2 + np.sin(2 * np.pi * x)[:, None] + 0 * x, v=1.5 + np.cos(2 * np.pi * x)[None, :] + 0 * x[:, None]
    )

    def end(method, tolerance):
        sim = tp.compile(brusselator, method=method, sizes={"n": 12}, tolerance=tolerance)
        return sim.evolve(**begin, until=1.0).final.u

    exact = end("dopri5", 1e-10)
    errors = [np.abs(end("rodas", tolerance) - exact).max() for tolerance in (1e-3, 1e-5)]
    assert errors[0] < 1e-2 and errors[1] < 1e-4 and errors[1] < 0.2 * errors[0]


@pytest.mark.parametrize("system", [heat, pytest.param(brusselator, marks=pytest.mark.all)])
def test_stiff_steps_have_the_bits_of_the_virtual_machine(system):
    n = 40 if system is heat else 10
    u = 1 + np.linspace(0, 1, n) ** 2
    begin = dict(u=u) if system is heat else dict(u=np.outer(u, u), v=3 + np.zeros((n, n)))
    hashes = {
        backend: tp.compile(system, method="rodas", sizes={"n": n}, tolerance=1e-2, backend=backend)
        .evolve(**begin, until=0.01, frames=3)
        .hash
        for backend in ("python", "llvm", *(() if system is heat else ("numpy", "c")))
    }
    assert len(set(hashes.values())) == 1, hashes


def test_states_of_several_shapes_are_refused():
    @tp.ode
    def two(x: tp.Vec[40], y: tp.Vec[50]):
        return -x, -y

    with pytest.raises(tp.PlanError, match=r"arrays of one shape: `x` \[40\] and `y` \[50\] are not"):
        tp.compile(two, method="rodas").built


@pytest.mark.parametrize("method", ["implicit_midpoint", "gauss4"])
def test_a_chain_at_rest_is_solved(method):
    """Springs of 0.1 from 0 to 30: forces are what rounding of the positions leaves of them."""

    @tp.hamiltonian
    def springs(q: tp.Vec["n"], p: tp.Vec["n"]):
        return p @ p / 2 + tp.sum((tp.diff(q) - 0.1) ** 2) / 2

    q = 0.1 * np.arange(300)
    out = tp.compile(springs, dt=0.05, method=method).evolve(q=q, p=np.zeros(300), steps=20)
    assert out.stopped is None and abs(out.final.q - q).max() < 1e-13
