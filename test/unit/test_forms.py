"""Written out or in loops: decided once for a step, by what would be written; the bits are the same either way."""

import itertools
import logging
import re
from dataclasses import replace

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.device.host import arrays, nests
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.ir.value import fma_exact
from tinyphysics.planner.cost import target
from tinyphysics.planner.cost.target import MOST_LINES, in_loops, written
from tinyphysics.system import State
from tinyphysics.tpir.kernels import materialise as stored
from tinyphysics.tpir.kernels.kernel import LARGEST
from tinyphysics.tpir.kernels.loops import _planned, build_loops, components_of, follows, planned_loops
from tinyphysics.tpir.precision.probe import probe
from tinyphysics.tpir.program.isa import Instruction, Register, Word
from tinyphysics.tpir.program.written import lines

rng = np.random.default_rng(7)


def inside(n, m):
    """Only the inside of a sheet moves by its neighbours, as NumPy's users write it."""

    @tp.hamiltonian
    def f(q: tp.Array[n, m], p: tp.Array[n, m]):
        around = q[2:, 1:-1] + q[:-2, 1:-1] + q[1:-1, 2:] + q[1:-1, :-2] - 4 * q[1:-1, 1:-1]
        return (p * p).sum() / 2 + (around * around).sum() / 2

    return f


def field(*shape):
    @tp.hamiltonian
    def f(q: tp.Array[shape], p: tp.Array[shape]):
        slopes = sum(((tp.roll(q, -1, a) - q) ** 2).sum() for a in range(len(shape)))
        return (p * p).sum() / 2 + slopes / 2 + (q**4).sum() / 4

    return f


def curved(n, m):
    @tp.hamiltonian
    def f(q: tp.Array[n, m], p: tp.Array[n, m]):
        return (p * p).sum() / 2 + tp.cosh(tp.sin(q[1:] - q[:-1])).sum()

    return f


def fitted(n):
    """The energy of two numbers, a sum over many data."""

    @tp.hamiltonian
    def f(q: tp.Vec[2], p: tp.Vec[2], x: tp.Vec[n], y: tp.Vec[n]):
        return p @ p / 2 + ((y - q[0] * tp.exp(-q[1] * x)) ** 2).sum() / n

    return f


def noisy(n):
    @tp.map
    def f(x: tp.Vec[n]):
        return 0.9 * x + 0.1 * tp.random.normal(shape=(n,))

    return f


SHAPES = {
    "33 x 34": (33, 34),
    "34 x 34": (34, 34),
    "32 x 40": (32, 40),
}
SYSTEMS = {
    **{f"inside of {name}": inside(*shape) for name, shape in SHAPES.items()},
    "8 x 8 x 8": field(8, 8, 8),
    "3 x 3 x 3 x 3 x 3 x 3": field(3, 3, 3, 3, 3, 3),
    "12 x 12 x 12": field(12, 12, 12),
    "functions on 33 x 34": curved(33, 34),
}


def body(kernel):
    """Operations in all bodies of a kernel."""
    return sum(
        u.op not in (Ops.CONST, Ops.VAR, Ops.LOAD)
        for section in kernel.sections.values()
        for nest in section.nests
        for piece in nest.pieces
        for u in toposort(piece.roots)
    )


@pytest.mark.parametrize("name", SYSTEMS)
def test_bodies_of_loops_stay_short(name):
    sim = tp.compile(SYSTEMS[name], dt=0.01)
    assert sim.target.backend == "llvm" and sim.compiled.in_loops(1) and sim.compiled.in_loops(100)
    assert body(build_loops(sim.tpir)) < 6_000


def test_the_count_can_fail():
    """With every axis up to 32 written out, 32 beside 34 is a thousand lines for each one."""
    program = tp.compile(SYSTEMS["inside of 33 x 34"], dt=0.01, backend="python").tpir
    assert components_of(program) == 8
    every = (*program.init, *program.step, *program.final)
    assert lines(program, every, 32) > 20 * lines(program, every, 8)


@pytest.mark.parametrize("name", SYSTEMS)
def test_loops_over_short_axes_have_the_bits_of_the_vm(name):
    system = SYSTEMS[name]
    shape = system.states[0].var.shape
    start = dict(q=rng.normal(size=shape), p=rng.normal(size=shape))
    outs = [
        tp.compile(system, dt=0.01, backend=b).evolve(**start, steps=2) for b in ("python", "llvm", "numpy")
    ]
    assert len({out.hash for out in outs}) == 1
    assert len({np.asarray(out.energy).tobytes() for out in outs}) == 1


@pytest.mark.parametrize("precision", ["float32", "compensated", "dd", "lattice"])
def test_in_every_precision(precision):
    start = dict(q=rng.normal(size=(4, 4, 4, 4)), p=np.zeros((4, 4, 4, 4)))
    sims = [
        tp.compile(field(4, 4, 4, 4), dt=0.01, precision=precision, backend=b) for b in ("python", "llvm")
    ]
    assert sims[1].compiled.in_loops(1)
    one, other = (sim.evolve(**start, steps=2) for sim in sims)
    assert one.hash == other.hash and np.array_equal(one.energy, other.energy)


def test_sums_of_sums_are_no_long_expressions(monkeypatch):
    """The energy of 12 x 12 x 12 numbers is one sum, and not 1,728 lines."""
    system = field(12, 12, 12)
    states = system.states
    program = probe(states, system.parameters, UOp.var("t"), {"energy": system.energy})
    _planned.cache_clear()
    assert body(planned_loops(program)()) < 2_000
    monkeypatch.setattr(stored, "MOST_SUMMED", 10**9)
    _planned.cache_clear()
    assert body(planned_loops(program)()) > 5_000
    _planned.cache_clear()


@tp.hamiltonian
def mixed(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + q @ q / 2 + tp.sin(q[1]) * p[0] + tp.tan(0.3 * q[1]) - 0.26 * tp.sin(p[0])


@pytest.mark.parametrize("make", [
    lambda: tp.compile(mixed, dt=0.2, order=2, precision="dd"),
    lambda: tp.compile(field(4, 4), dt=0.1),
    lambda: tp.compile(inside(6, 7), dt=0.1, order=4),
    lambda: tp.compile(curved(5, 6), dt=0.1),
    lambda: tp.compile(field(3, 3, 3), dt=0.1, precision="compensated"),
])  # fmt: skip
def test_where_instructions_show_that_loops_follow_they_do(make):
    program = make().tpir
    assert follows(program)
    _planned.cache_clear()
    planned_loops(program, 1)


def test_large_arrays_and_scatters_are_planned_to_know_it():
    assert not follows(tp.compile(field(12, 12), dt=0.1).tpir)
    program = tp.compile(field(4, 4), dt=0.1).tpir
    line = Instruction("MOVE", (Register("T", 999), Word("scatter")), program.step[0].type)
    assert follows(program) and not follows(replace(program, final=(*program.final, line)))


def test_a_long_step_is_planned_when_it_runs_and_says_what_is_waited_for(monkeypatch, caplog):
    """14,000 lines in pairs of float64: the plan of their loops takes longer than all the rest."""
    monkeypatch.setattr(
        target, "planned_loops", lambda program: pytest.fail("planned only to know whether it can be")
    )
    sim = tp.compile(mixed, dt=0.2, order=4, precision="dd", backend="numpy")
    assert sim.compiled.in_loops(1) and written(sim.tpir).lines > MOST_LINES
    with caplog.at_level(logging.WARNING, "tinyphysics"):
        outs = [sim.evolve(q=[0.1, 0.2], p=[0.3, 0.1], steps=1, progress=False) for _ in range(2)]
    (said,) = [x for x in caplog.messages if "instructions" in x]
    assert f"{len(sim.tpir.step):,} instructions; compiling it for numpy" in said and "Ctrl-C" in said
    assert outs[0].hash == outs[1].hash


def test_a_sum_over_data_is_a_loop_along_them():
    short, long = (tp.compile(fitted(n), dt=0.01) for n in (20, 1_500))
    assert not short.compiled.in_loops(1) and not short.compiled.in_loops(100)
    assert long.compiled.in_loops(1) and long.compiled.in_loops(100)
    assert len(long.tpir.step) < len(short.tpir.step)
    assert long.certificate.symplectic and long.certificate.consistent
    x = np.linspace(0, 1, 1_500)
    start = dict(q=[1.0, 0.5], p=[0.0, 0.1], x=x, y=np.exp(-x))
    outs = [
        tp.compile(fitted(1_500), dt=0.01, backend=b).evolve(**start, steps=3) for b in ("python", "llvm")
    ]
    assert outs[0].hash == outs[1].hash and np.array_equal(outs[0].energy, outs[1].energy)


def test_an_ensemble_of_noisy_arrays_runs_as_one_member_does():
    sim = tp.compile(noisy(100))
    count = written(sim.tpir)
    assert (
        count.lines > LARGEST > MOST_LINES and count.operations < 1_000
    )  # a random number is hundreds of operations
    many = sim.evolve(x=np.zeros((16, 100)), steps=3, seed=5)
    assert (
        many.hash
        == tp.compile(noisy(100), backend="python").evolve(x=np.zeros((16, 100)), steps=3, seed=5).hash
    )


def test_a_look_at_many_numbers_of_one_run_is_done_in_loops():
    """A loss, an energy: its program has no step at all, and that is not a step of single numbers."""
    state = State("v", UOp.var("v", (1024, 3)), "field")
    look = probe([state], (), UOp.var("no time"), {"loss": (state.var**2).sum(), "slope": 2 * state.var})
    assert not look.step and in_loops(look, 1)


def test_what_is_short_stays_written_out():
    for system in (field(5, 5), fitted(20)):
        sim = tp.compile(system, dt=0.01)
        assert (
            written(sim.tpir).is_short and not sim.compiled.in_loops(1) and not sim.compiled.in_loops(1_000)
        )


def test_a_run_in_python_that_nobody_asked_for_is_a_warning(caplog, monkeypatch):
    """Equations that are too long to be written out: loops have no solvers."""

    @tp.hamiltonian
    def slow_one(q: tp.Vec[3], p: tp.Vec[3]):
        return p @ p / 2 + (q * q).sum() * (p * p).sum()

    monkeypatch.setattr(target, "MOST_OPERATIONS", 20)
    with caplog.at_level(logging.WARNING, "tinyphysics"):
        sim = tp.compile(slow_one, dt=0.01, method="implicit_midpoint")
    assert sim.target.backend == "python"
    assert "runs in Python" in caplog.text and "too long to be written out" in caplog.text
    out = sim.evolve(q=[0.1, 0.2, 0.3], p=[0.0, 0.1, 0.0], steps=1)
    assert any("runs in Python" in note for note in out.metrics["notes"])
    caplog.clear()
    out = tp.compile(slow_one, dt=0.01, method="implicit_midpoint", backend="python").evolve(
        q=[0.1, 0.2, 0.3], p=[0.0, 0.1, 0.0], steps=1
    )
    assert "runs in Python" not in caplog.text and not out.metrics["notes"]


def heat(n):
    @tp.ode
    def warm(u: tp.Vec[n]):
        return tp.roll(u, 1) - 2 * u + tp.roll(u, -1)

    return warm


def phases(n):
    @tp.ode
    def kuramoto(a: tp.Vec[n], k: float = 1.0):
        return k / n * tp.sin(a[None, :] - a[:, None]).sum(1)

    return kuramoto


def chain(n):
    @tp.hamiltonian
    def springs(q: tp.Vec[n], p: tp.Vec[n]):
        d = q[1:] - q[:-1]
        return p @ p / 2 + (d * d / 2 + d**4 / 4).sum()

    return springs


@pytest.mark.parametrize("system", [heat(64), heat(5_000), phases(100), phases(3_000)], ids=lambda s: s.name)
def test_fixed_steps_of_arrays_run_in_loops_at_any_size(system):
    sim = tp.compile(system, dt=0.01, method="rk4")
    assert sim.compiled.in_loops(1) and body(build_loops(sim.tpir)) < 2_000
    assert len(sim.tpir.step) == len(
        tp.compile(heat(40) if system.name == "warm" else phases(40), dt=0.01, method="rk4").tpir.step
    )


REFUSED = {
    "taylor with sines": (phases(100), dict(method="taylor")),
    "a long linear series": (heat(10_000), dict(method="taylor")),
    "radau": (heat(400), dict(method="radau")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_written_out_is_counted_before_it_is(name, monkeypatch):
    """The refusal names the count and a line that works, and no expression was taken apart for it."""
    system, options = REFUSED[name]
    for module in ("taylor", "implicit", "rates"):
        monkeypatch.setattr(f"tinyphysics.synth.{module}.unroll", nothing_is_unrolled, raising=False)
    with pytest.raises(tp.PlanError, match="operations|elimination") as refused:
        tp.compile(system, **options)
    named = re.findall(r'method="(\w+)"', str(refused.value))
    assert named
    tp.compile(system, dt=0.01, method=named[0])


def nothing_is_unrolled(*_):
    raise AssertionError("written out before it was counted")


def test_a_linear_series_of_many_numbers_runs_in_loops_over_its_orders():
    few, many = (tp.compile(heat(n)) for n in (8, 64))
    assert "SERIES" not in few.ir("tpir") and "SERIES" in many.ir("tpir")
    u = rng.normal(size=64)
    spectrum = np.fft.fft(u) * np.exp(0.7 * (2 * np.cos(2 * np.pi * np.arange(64) / 64) - 2))
    assert np.allclose(many.evolve(u=u, until=0.7).final.u, np.fft.ifft(spectrum).real, atol=1e-13)


def test_what_takes_seconds_to_compile_is_told(caplog, monkeypatch, tmp_path):
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(tmp_path))  # what was compiled before takes no seconds
    with caplog.at_level(logging.WARNING, "tinyphysics"):
        tp.compile(chain(6), dt=0.01, method="gauss4")
    assert "some seconds" not in caplog.text
    with caplog.at_level(logging.WARNING, "tinyphysics"):
        tp.compile(heat(45), method="dop853")
    assert "some seconds" in caplog.text


@tp.hamiltonian
def cluster(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"]):
    d = q[:, None] - q[None, :]
    r = tp.sqrt((d * d).sum(-1) + 1e-4)
    return ((p * p).sum(-1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / r)


@pytest.mark.parametrize("at_once", [1, 50, 700, 1 << 15])
def test_pairs_by_numpy_have_the_same_bits_however_many_rows_are_done_at_once(at_once, monkeypatch):
    monkeypatch.setattr(nests, "AT_ONCE", at_once)
    n = 61
    start = dict(q=rng.normal(size=(n, 3)), p=rng.normal(size=(n, 3)), m=rng.random(n) + 1.0)
    start["q"][7] = start["q"][40]  # a distance of 0 in every component
    sims = [tp.compile(cluster, dt=0.01, sizes={"n": n}, backend=b) for b in ("llvm", "numpy")]
    one, other = (sim.evolve(**start, steps=2) for sim in sims)
    assert one.hash == other.hash and np.array_equal(one.energy, other.energy)


def test_pairs_by_numpy_take_a_block_of_rows_in_each_call(monkeypatch):
    calls = []
    block = nests.Interpreter.block
    monkeypatch.setattr(
        nests.Interpreter, "block", lambda self, *a: calls.append(len(a[-1])) or block(self, *a)
    )
    n = 256
    sim = tp.compile(cluster, dt=0.01, sizes={"n": n}, backend="numpy")
    sim.evolve(q=rng.normal(size=(n, 3)), p=np.zeros((n, 3)), m=np.ones(n), steps=1)
    assert calls and len(calls) < 20 and max(calls) == 128


EDGES = [
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    2.2e-308,
    1e-160,
    -3e-121,
    1.0,
    -1.0,
    1 + 2**-52,
    0.1,
    1e121,
    1.7e308,
    np.inf,
    -np.inf,
    np.nan,
]


@pytest.mark.parametrize("at_once", [None, arrays.FEW])
def test_a_fused_product_by_numpy_is_rounded_once_at_every_edge(at_once):
    a, b, c = (np.array(x) for x in zip(*itertools.product(EDGES, repeat=3)))
    every = range(0, len(a), at_once or len(a))
    with np.errstate(all="ignore"):
        parts = [[x[k : k + at_once] if at_once else x for x in (a, b, c)] for k in every]
        found = np.concatenate([arrays.fma_few(*part) for part in parts])
    wanted = np.array([fma_exact(*map(float, x)) for x in zip(a, b, c)])
    same = (found == wanted) & (np.signbit(found) == np.signbit(wanted)) | np.isnan(found) & np.isnan(wanted)
    assert same.all(), [(x, y, z) for x, y, z, ok in zip(a, b, c, same) if not ok][:5]


def test_a_zero_in_a_vector_potential_does_not_cost_the_splitting():
    @tp.hamiltonian
    def stacked(q: tp.Vec[3], p: tp.Vec[3], B: float = 1.0):
        x, y, z = q
        a = B * np.stack([-y * y, 0.0, 0.0]) * tp.exp(-z * z)
        return (p - a) @ (p - a) / 2

    @tp.hamiltonian
    def by_hand(q: tp.Vec[3], p: tp.Vec[3], B: float = 1.0):
        x, y, z = q
        return ((p[0] + B * y * y * tp.exp(-z * z)) ** 2 + p[1] ** 2 + p[2] ** 2) / 2

    one, other = (tp.compile(s, dt=0.01) for s in (stacked, by_hand))
    assert one.compiled.known.method == other.compiled.known.method == "strang"
    assert one.compiled.known.operations <= 1.2 * other.compiled.known.operations
    assert one.certificate.symplectic and one.certificate.consistent
    start = dict(q=[0.5, 0.3, 0.2], p=[0.0, 1.0, 0.1], steps=100)
    assert np.allclose(one.evolve(**start).final.q, other.evolve(**start).final.q, rtol=1e-12)


def test_a_zero_beside_linear_components_does_not_cost_the_splitting():
    """The potential of a uniform field, in one plane: p[2]*0 holds no pair, and moves nothing."""

    def bent(a):
        def H(q: tp.Vec[3], p: tp.Vec[3]):
            return (p - a(q)) @ (p - a(q)) / 2 + tp.cos(q[0])

        return tp.compile(tp.hamiltonian(H), dt=0.01)

    one, other = (
        bent(lambda q: np.stack([-q[1], q[0], 0.0]) / 2),
        bent(lambda q: np.stack([-q[1], q[0], 0 * q[0]]) / 2),
    )
    assert one.compiled.known.method == other.compiled.known.method == "strang"
    assert one.certificate.symplectic and one.certificate.consistent
    start = dict(q=[0.5, 0.3, 0.2], p=[0.0, 1.0, 0.1], steps=100)
    assert np.allclose(one.evolve(**start).final.q, other.evolve(**start).final.q, rtol=1e-12)
