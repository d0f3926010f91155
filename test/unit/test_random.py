"""Random numbers in programs: the host's bits on every backend, one address for one number, the right statistics."""

from __future__ import annotations

import math
import subprocess

import numpy as np
import pytest
from here import need
from scipy import stats

import tinyphysics as tp
from tinyphysics import tpir
from tinyphysics.context import QUICK
from tinyphysics.device.host.cc import compiler
from tinyphysics.front.random import AUTOMATIC, OBSERVED
from tinyphysics.ir import Ops, UOp, evaluate, graph_rewrite, i64, toposort, u32
from tinyphysics.ir.ops import MINIMAL
from tinyphysics.philox import normal_pair, uniform_pair
from tinyphysics.physics import draws
from tinyphysics.rules.functions import random as rules
from tinyphysics.rules.identities.exact import exact
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.tpir.kernels.index import Index, same

BACKENDS = ("python", "numpy", "llvm", "c")
SEED = (7 << 32) + 3


@tp.map
def dice(x, y, z):
    return tp.random.uniform(), tp.random.normal(), tp.random.integers(1, 7)


@tp.map
def walk(x: tp.Array["n", 3], y: tp.Vec["n"], s: float = 0.5):
    """Noise beside the state, in a choice, and moved along a long axis."""
    u = tp.random.uniform(y.shape)
    return x + s * tp.random.normal(x.shape), tp.where(u < 0.5, y + 1, np.roll(u, 1))


def start(n, members=None):
    lead = () if members is None else (members,)
    return {"x": np.zeros((*lead, n, 3)), "y": np.zeros((*lead, n))}


# --- bits -------------------------------------------------------------------------------------------
ONES = 0xFFFFFFFF
PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)


@pytest.mark.parametrize(
    "counter, key, words",
    [
        ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((ONES,) * 4, (ONES,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (*PI, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_the_rounds_in_the_ir_give_the_published_answers(counter, key, words):
    """Random123's kat_vectors, through operations of the minimal set alone."""
    names = [UOp.var(name, (), u32) for name in "abcdkl"]
    roots = rules.philox4x32(tuple(names[:4]), tuple(names[4:]))
    assert {u.op for u in toposort(roots)} == {Ops.VAR, Ops.CONST, Ops.ADD, Ops.MUL, Ops.MULHI, Ops.XOR}
    found = evaluate(roots, dict(zip("abcdkl", (*counter, *key))))
    assert " ".join(f"{w:08x}" for w in found) == words


@pytest.mark.parametrize("kind, host", [("uniform", uniform_pair), ("normal", normal_pair)])
def test_a_number_in_the_minimal_set_has_the_bits_of_the_host(kind, host):
    names = [UOp.var(f"x{k}", (), t) for k, t in enumerate((u32, u32, i64, i64, i64))]
    u = rules.drawn(kind, (5, 10), UOp.const(0.0).dtype, names[-1], names[:-1])
    (root,) = lower([u])
    assert all(x.op in MINIMAL for x in toposort([root]))
    for seed, step, member, index in [
        (0, 0, 0, 0),
        (2**64 - 1, 2**48 - 1, 2**40, 9),
        (SEED, 2**33, 3, 1),
        (1, 1, 1, 1),
    ]:
        env = dict(zip(("x0", "x1", "x2", "x3", "x4"), (seed & ONES, seed >> 32, step, member, index)))
        wanted = host(seed, 5, step, 10 * member + index)[0]
        assert evaluate([root], env) == evaluate([u], env) == [wanted]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_member_draws_what_the_host_draws_at_its_address(backend):
    out = tp.compile(dice, backend=backend).evolve(
        x=np.zeros(5), y=np.zeros(5), z=np.zeros(5), steps=4, save_every=1, seed=SEED
    )
    for n in range(4):
        own = [(SEED, AUTOMATIC + stream, n, m) for stream in range(3) for m in range(5)]
        assert out.x[n + 1].tolist() == [uniform_pair(*a)[0] for a in own[:5]]
        assert out.y[n + 1].tolist() == [normal_pair(*a)[0] for a in own[5:10]]
        assert out.z[n + 1].tolist() == [1 + math.floor(6 * uniform_pair(*a)[0]) for a in own[10:]]


@pytest.mark.parametrize("precision", ["float64", "float32", "mixed", "compensated"])
@pytest.mark.parametrize("n, members", [(3, None), (3, 5), (40, None), (40, 2)])
@pytest.mark.requirement("C-95")
def test_all_backends_draw_the_same_bits(n, members, precision):
    """Written out and in loops, one system and ensembles, in steps and in observables."""

    def run(backend, threads=None):
        out = tp.compile(walk, backend=backend, precision=precision).evolve(
            **start(n, members),
            steps=3,
            seed=SEED,
            threads=threads,
            observe={"w": lambda x: x + tp.random.normal(x.shape), "v": lambda: tp.random.uniform()},
        )
        return out.hash, out["w"].tobytes(), out["v"].tobytes()

    wanted = run("python")
    for backend in BACKENDS[1:]:
        assert run(backend) == run(backend, threads=2) == wanted, backend


def test_a_gpu_draws_the_same_bits(fake_cuda):
    """By estimates of quotients and roots there, and cosines of all quarters."""
    n = 4000
    runs = [
        tp.compile(dice, backend=b).evolve(x=np.zeros(n), y=np.zeros(n), z=np.zeros(n), steps=3, seed=SEED)
        for b in ("cuda", "llvm")
    ]
    assert runs[0].hash == runs[1].hash


def test_a_lattice_that_is_updated_in_halves_has_the_same_bits():
    """What the second half reads of the first is at other indices than those at which it is computed."""

    @tp.map
    def halves(s: tp.Array["n", "n"], black: tp.Array["n", "n"]):
        for half in (black, 1 - black):
            around = sum(np.roll(s, shift, axis) for shift in (1, -1) for axis in (0, 1))
            s = tp.where((half > 0.5) & (tp.random.uniform(s.shape) < tp.exp(-s * around)), -s, s)
        return s

    given = dict(s=np.ones((40, 40)), black=np.indices((40, 40)).sum(0) % 2, steps=3, seed=1)
    runs = {b: tp.compile(halves, backend=b).evolve(**given).hash for b in BACKENDS}
    assert len(set(runs.values())) == 1
    u, v = UOp.var("u", (), i64), UOp.var("v", (), i64)
    assert not same(Index(0, 3, u), Index(0, 3, base=v)) and same(
        Index(0, 3, u, base=v), Index(0, 5, u, base=v)
    )


def test_opencl_draws_the_same_bits():
    need("opencl")
    for n, members in [(3, 5), (40, None)]:
        runs = [
            tp.compile(walk, backend=b).evolve(**start(n, members), steps=3, seed=1).hash
            for b in ("opencl", "llvm")
        ]
        assert runs[0] == runs[1]


def test_loops_draw_what_the_host_draws():
    out = tp.compile(walk).evolve(**start(5000), steps=1, seed=3)
    assert tp.compile(walk, sizes={"n": 5000}).compiled.in_loops(1)
    assert np.array_equal(
        out.final.x, 0.5 * draws.normal(15000, seed=3, stream=AUTOMATIC + 1)[:, 0].reshape(5000, 3)
    )


def test_a_member_of_many_draws_what_it_draws_among_few():
    """Across tiles and chunks of threads: the address is the member's number, not its place in a tile."""
    many = 70_000
    a, b = (
        tp.compile(dice).evolve(x=np.zeros(m), y=np.zeros(m), z=np.zeros(m), steps=70, seed=1).final.y
        for m in (many, 300)
    )
    assert np.array_equal(a[:300], b)
    assert np.array_equal(a, draws.normal(many, seed=1, stream=AUTOMATIC + 1, step=69)[:, 0])


def test_quick_code_and_good_code_draw_the_same():
    def run():
        return tp.compile(dice).evolve(x=np.zeros(9), y=np.zeros(9), z=np.zeros(9), steps=9, seed=1).hash

    with QUICK(0):
        good = run()
    with QUICK(1):
        assert run() == good


def test_a_frame_is_where_a_shorter_run_ends():
    sim = tp.compile(walk)
    out = sim.evolve(**start(3), steps=40, save_every=1, seed=9)  # frames from inside the loop
    for k in (0, 1, 17, 40):
        assert np.array_equal(out.x[k], sim.evolve(**start(3), steps=k, seed=9).final.x)


def test_an_observable_changes_neither_the_run_nor_another_observable():
    sim = tp.compile(walk)
    noise = {"a": lambda: tp.random.normal()}
    alone = sim.evolve(**start(3), steps=20, seed=2)
    one = sim.evolve(**start(3), steps=20, seed=2, observe=noise)
    two = sim.evolve(**start(3), steps=20, seed=2, observe={"b": lambda: tp.random.normal(), **noise})
    assert alone.hash == one.hash == two.hash
    assert np.array_equal(one["a"], two["a"]) and not np.array_equal(two["a"], two["b"])
    every = sim.evolve(**start(3), steps=20, seed=2, observe=noise, observe_every=5)
    assert np.array_equal(every["a"], one["a"][::5])  # the step, not the count of looks


def test_a_saved_simulation_draws_the_same(tmp_path):
    sim = tp.compile(dice)
    sim.save(tmp_path / "dice.json")
    given = dict(x=0.0, y=0.0, z=0.0, steps=5, seed=4)
    assert tp.load(tmp_path / "dice.json").evolve(**given).hash == sim.evolve(**given).hash


def test_the_seed_is_a_value_of_the_run():
    sim = tp.compile(dice)
    given = dict(x=0.0, y=0.0, z=0.0, steps=5)
    first = sim.evolve(**given)
    assert first.metrics["seed"] == 0 and first.hash == sim.evolve(**given, seed=0).hash
    other = sim.evolve(**given, seed=2**64 - 1)
    assert other.hash != first.hash and other.metrics["seed"] == 2**64 - 1
    assert other.metrics["cache"]["code"] == "memory"  # nothing was compiled again
    assert len({sim.evolve(**given, seed=s).hash for s in (0, 1, 2**32, 2**32 + 1)}) == 4
    for bad in (-1, 2**64, 0.5, "x"):
        with pytest.raises(tp.InputError, match="seed"):
            sim.evolve(**given, seed=bad)


def test_the_listing_reads_back_and_runs():
    sim = tp.compile(dice)
    program = tpir.parse(sim.ir("tpir"))
    assert program == sim.tpir and "NOISE T1, normal, 0.0, (2147483649,1)" in sim.ir("tpir")
    end = tpir.vm.run(program, {"x": 0.0, "y": 0.0, "z": 0.0}, 3, seed=SEED)
    out = sim.evolve(x=0.0, y=0.0, z=0.0, steps=3, seed=SEED)
    assert end == {name: float(v) for name, v in out.final.states.items()}


def test_the_complete_c_program_draws_the_same(tmp_path):
    need("c")
    sim = tp.compile(dice)
    (tmp_path / "dice.c").write_text(sim.ir("c"))
    binary = tmp_path / "dice"
    flags = ["-O2", "-ffp-contract=off", "-fwrapv"]
    subprocess.run([*compiler(), *flags, tmp_path / "dice.c", "-lm", "-o", binary], check=True)
    usage = sim.ir("c").split("usage: ")[1].split(" */")[0].split()
    values = {"STEPS": 5, "DT": 1, "T0": 0, "seed:low": SEED & ONES, "seed:high": SEED >> 32}
    said = subprocess.run(
        [binary, *(str(values.get(name, 0)) for name in usage)], capture_output=True, text=True, check=True
    )
    assert said.stdout.split()[-1] == sim.evolve(x=0.0, y=0.0, z=0.0, steps=5, seed=SEED).hash


def test_the_complete_c_program_of_an_array_draws_the_same(tmp_path):
    need("c")
    sim = tp.compile(walk, sizes={"n": 40})
    (tmp_path / "walk.c").write_text(sim.ir("c"))
    flags = ["-O1", "-ffp-contract=off", "-fwrapv", "-Wall", "-Werror", "-Wno-unknown-pragmas"]
    subprocess.run([*compiler(), *flags, "walk.c", "-o", "walk", "-lm"], cwd=tmp_path, check=True)
    arrays = b"".join(a.tobytes() for a in start(40).values())
    words = ["3", "1", "0", "0.5", str(SEED & ONES), str(SEED >> 32), "0", "0"]
    said = subprocess.run([tmp_path / "walk", *words], input=arrays, capture_output=True, check=True)
    assert said.stdout.decode().strip() == sim.evolve(**start(40), steps=3, seed=SEED).hash


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_member_that_fails_is_replayed_with_its_own_numbers(backend):
    @tp.map
    def fragile(x):
        return x + 1 / (0.01 <= tp.random.uniform())

    out = tp.compile(fragile, backend=backend).evolve(x=np.zeros(40), steps=60, seed=3)
    first = {
        m: next((n + 1 for n in range(60) if uniform_pair(3, AUTOMATIC, n, m)[0] < 0.01), None)
        for m in range(40)
    }
    assert {s.member: s.step for s in out.stops} == {m: n for m, n in first.items() if n} and len(
        out.stops
    ) > 9
    assert all(out.final.x[m] == (n - 1 if n else 60) for m, n in first.items())


def test_float32_numbers_are_the_float64_ones_to_its_precision():
    a, b = (
        tp.compile(dice, precision=p)
        .evolve(x=np.zeros(20_000), y=np.zeros(20_000), z=np.zeros(20_000), steps=1, seed=1)
        .final
        for p in ("float64", "float32")
    )
    assert np.array_equal(np.floor(a.x * 2**24) / 2**24, b.x)
    assert b.y.dtype == np.float32 and np.median(np.abs(a.y - b.y)) < 2e-7
    assert np.abs(a.y - b.y).max() < 3e-4  # near 0: the root of a rounding


# --- streams ----------------------------------------------------------------------------------------
def test_calls_differ_and_a_stream_pins_them():
    @tp.map
    def pinned(a, b, c, d):
        return tp.random.normal(), tp.random.normal(), tp.random.normal(stream=5), tp.random.normal(stream=5)

    end = tp.compile(pinned).evolve(a=0.0, b=0.0, c=0.0, d=0.0, steps=3, seed=1).final
    assert end.a != end.b and end.c == end.d == normal_pair(1, 5, 2, 0)[0]
    assert end.a == normal_pair(1, AUTOMATIC, 2, 0)[0] and end.b == normal_pair(1, AUTOMATIC + 1, 2, 0)[0]


def test_a_stream_of_the_users_own_is_below_the_automatic_ones():
    for bad in (-1, AUTOMATIC, 0.5, True):
        with pytest.raises(tp.InputError, match="stream"):
            tp.map(lambda x: tp.random.normal(stream=bad))
    assert OBSERVED > AUTOMATIC


def test_an_array_draws_one_number_for_each_of_its_own():
    @tp.map
    def both(x: tp.Array[2, 3], y):
        noise = tp.random.uniform((2, 3), stream=1)
        return noise, noise[1, 2]

    end = tp.compile(both).evolve(x=np.zeros((2, 3)), y=0.0, steps=1, seed=8).final
    assert (
        np.array_equal(end.x, draws.uniform(6, seed=8, stream=1)[:, 0].reshape(2, 3)) and end.y == end.x[1, 2]
    )


def test_bounds_scale_what_is_drawn():
    @tp.map
    def scaled(x: tp.Vec[9], y: tp.Vec[9], z: tp.Vec[9], top: float = 4.0):
        return (
            tp.random.uniform(9, low=-1.0, high=top, stream=0),
            tp.random.normal(9, mean=top, std=0.5, stream=0),
            tp.random.integers(-2, top, 9, stream=0),
        )

    end = tp.compile(scaled).evolve(x=np.zeros(9), y=np.zeros(9), z=np.zeros(9), steps=1).final
    u, g = draws.uniform(9, seed=0)[:, 0], draws.normal(9, seed=0)[:, 0]
    assert np.allclose(end.x, -1 + 5 * u, rtol=0, atol=1e-15) and np.allclose(
        end.y, 4 + 0.5 * g, rtol=0, atol=1e-15
    )
    assert np.array_equal(end.z, np.floor(6 * u) - 2)


# --- statistics -------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def sample():
    """(steps, members) of each kind."""
    n = 4000
    out = tp.compile(dice).evolve(
        x=np.zeros(n), y=np.zeros(n), z=np.zeros(n), steps=100, save_every=1, seed=2024
    )
    return out.x[1:], out.y[1:], out.z[1:]


def test_moments(sample):
    u, g, k = (x.ravel() for x in sample)
    n = len(u)
    for x, mean, variance, fourth in [(u, 1 / 2, 1 / 12, 1 / 80), (g, 0, 1, 3), (k, 3.5, 35 / 12, 707 / 48)]:
        centred = x - mean
        assert abs(x.mean() - mean) < 5 * math.sqrt(variance / n)
        assert abs((centred**2).mean() - variance) < 5 * math.sqrt((fourth - variance**2) / n)
    assert abs((g**3).mean()) < 5 * math.sqrt(15 / n) and abs((g**4).mean() - 3) < 5 * math.sqrt(96 / n)
    assert u.min() >= 0 and u.max() < 1 and set(k) == {1, 2, 3, 4, 5, 6}


def test_distributions(sample):
    u, g, k = (x.ravel() for x in sample)
    assert stats.kstest(u, "uniform").pvalue > 1e-3 and stats.kstest(g, "norm").pvalue > 1e-3
    assert stats.chisquare(np.bincount(k.astype(int), minlength=7)[1:]).pvalue > 1e-3
    assert stats.chisquare(np.histogram(u, 256, (0, 1))[0]).pvalue > 1e-3
    low_bits = (u * 2**53).astype(np.int64) & 255
    assert stats.chisquare(np.bincount(low_bits, minlength=256)).pvalue > 1e-3
    tail = (np.abs(g) > 3).sum()
    assert abs(tail - len(g) * math.erfc(3 / math.sqrt(2))) < 5 * math.sqrt(
        len(g) * math.erfc(3 / math.sqrt(2))
    )


def test_a_float32_sample_has_the_same_distribution():
    n = 200_000
    end = (
        tp.compile(dice, precision="float32")
        .evolve(x=np.zeros(n), y=np.zeros(n), z=np.zeros(n), steps=1, seed=5)
        .final
    )
    assert (
        stats.kstest(end.x.astype(float), "uniform").pvalue > 1e-3
        and stats.kstest(end.y.astype(float), "norm").pvalue > 1e-3
    )
    assert end.x.max() < 1


def test_streams_members_and_steps_are_not_correlated(sample):
    _, g, _ = sample
    steps, n = g.shape

    def small(x, y):
        return abs(np.mean(x * y)) < 5 / math.sqrt(x.size)

    assert small(g[1:], g[:-1]) and small(g[:, 1:], g[:, :-1]) and small(g[1:, 1:], g[:-1, :-1])
    assert small(sample[0] - 0.5, g) and small(sample[0] - 0.5, sample[2] - 3.5)
    other = (
        tp.compile(dice)
        .evolve(x=np.zeros(n), y=np.zeros(n), z=np.zeros(n), steps=steps, save_every=1, seed=2025)
        .y[1:]
    )
    assert small(g, other)
    assert len(np.unique(g)) == g.size  # no number twice: nobody shares an address


# --- where noise does not belong ----------------------------------------------------------------------
def test_an_energy_and_a_force_may_not_draw():
    with pytest.raises(tp.TraceError, match="a force its derivative(.|\n)*@tp.map"):

        @tp.hamiltonian
        def noisy(q, p):
            return p**2 / 2 + tp.random.normal() * q

    with pytest.raises(tp.TraceError, match="several times in a step(.|\n)*@tp.map"):

        @tp.forces
        def kicked(q):
            return -q + tp.random.normal()

    class Noisy(tp.PhysicsSystem):
        def energy(self, q, p):
            return p**2 / 2 + tp.random.uniform() * q

    with pytest.raises(tp.TraceError, match="a force its derivative"):
        tp.compile(Noisy(), dt=0.1)


def test_outside_of_a_function_there_is_nothing_to_draw_from():
    with pytest.raises(tp.TraceError, match="outside(.|\n)*physics.draws.normal"):
        tp.random.normal()
    for shape in ((0,), "n", 1.5):
        with pytest.raises(tp.ShapeError):
            tp.map(lambda x: x + tp.random.normal(shape))


def test_an_energy_may_be_observed_with_noise():
    @tp.hamiltonian
    def spring(q, p):
        return p**2 / 2 + q**2 / 2

    out = tp.compile(spring, dt=0.1).evolve(
        q=np.ones(3),
        p=np.zeros(3),
        steps=10,
        seed=6,
        observe={"seen": lambda q: q + 0.1 * tp.random.normal(stream=0)},
    )
    wanted = [[0.1 * normal_pair(6, 0, n, m)[0] for m in range(3)] for n in range(11)]
    plain = tp.compile(spring, dt=0.1).evolve(q=np.ones(3), p=np.zeros(3), steps=10, save_every=1)
    assert np.allclose(out["seen"] - plain.q, wanted, rtol=0, atol=1e-15) and out.hash == plain.hash


# --- certificates -------------------------------------------------------------------------------------
NOISY = """program kicked
claim {claim}
state S0 q f64[] position
state S1 p f64[] momentum of S0
param $dt f64[]
energy:
  ELEM E0, mul, S1, S1
init:
  LOAD S0, &q
  LOAD S1, &p
step:
  NOISE T0, normal, 0.0, (0,1)
  POISSON_J F1, T0, force
  SYMP_STEP S1, F1, $dt
final:
  STORE &q, S0
  STORE &p, S1
"""


def test_noise_is_not_a_term_of_the_energy_nor_its_own_inverse():
    certificate = tpir.verify(tpir.parse(NOISY.replace("claim {claim}\n", "")))
    assert certificate.symplectic  # for every sequence of numbers it is a translation of the momentum
    assert not certificate.symmetric and not certificate.reversible and not certificate.consistent
    for claim in ("symmetric", "reversible", "consistent"):
        with pytest.raises(tp.VerifyError):
            tpir.verify(tpir.parse(NOISY.format(claim=claim)))


@pytest.mark.parametrize(
    "line, why",
    [
        ("NOISE T0, poisson, 0.0, (0,1)", "poisson"),
        ("NOISE T0, normal, 0.0, (0,)", "stream, count"),
        ("NOISE T0, normal, 0.0, (0,0)", "no kind, stream and count"),
        ("NOISE T0, normal, 0.0, (4294967296,1)", "no kind, stream and count"),
        ("NOISE T0, normal, (0,1)", "wrong operands"),
        ("NOISE T0, normal, S0, (0,1)", "other dtypes"),
    ],
)
def test_a_draw_that_means_nothing_is_refused(line, why):
    text = NOISY.replace("claim {claim}\n", "").replace("NOISE T0, normal, 0.0, (0,1)", line)
    with pytest.raises(tp.VerifyError, match=why):
        tpir.verify(tpir.parse(text))


def test_a_map_with_noise_says_where_it_draws_and_claims_nothing():
    report = str(tp.compile(dice).explain("full"))
    assert "random numbers" in report and "y draws from stream 2147483649" in report
    assert tp.compile(dice).certificate.level == "none"


def test_a_draw_is_not_folded_away():
    """Two calls are two numbers even where their sources would be constants."""
    zero = [UOp.const(0, t) for t in (u32, u32, i64, i64)]
    u = rules.drawn("uniform", (0, 1), UOp.const(0.0).dtype, UOp.const(0, i64), zero)
    assert graph_rewrite([u], exact) == [u]


def test_a_resumed_run_draws_on(tmp_path):
    @tp.map
    def walk(x: tp.Vec[16]):
        return x + tp.random.normal(shape=(16,))

    sim, x = tp.compile(walk), np.zeros((5, 16))
    whole = sim.evolve(x=x, steps=20, seed=7)
    sim.evolve(x=x, steps=8, seed=7, checkpoint=tmp_path / "run")
    assert sim.evolve(steps=12, resume=tmp_path / "run").hash == whole.hash


SHAPES = [(67,), *(pytest.param(s, marks=pytest.mark.all) for s in ((33,), (131,), (5, 37), (3, 70)))]


@pytest.mark.parametrize("shape", SHAPES)
def test_draws_side_by_side_are_those_of_single_ones(shape):
    """A loop draws several vectors at once; what is left over at its end is drawn in fewer."""

    @tp.map
    def line(x: tp.Vec["n"]):
        return x + tp.random.normal(x.shape) * tp.random.uniform(x.shape)

    @tp.map
    def sheet(x: tp.Array["n", "m"]):
        return tp.roll(x, 1, 1) + tp.random.normal(x.shape) * tp.random.uniform(x.shape)

    start = dict(x=np.zeros(shape), steps=3, seed=5)
    runs = [
        tp.compile(line if len(shape) == 1 else sheet, backend=b).evolve(**start) for b in ("llvm", "numpy")
    ]
    assert runs[0].hash == runs[1].hash and np.unique(runs[0].final.x).size == runs[0].final.x.size
