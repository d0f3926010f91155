"""What do two words buy, and float32 forces cost?  `mixed` and `compensated`: the same bits everywhere, and which digits."""

from __future__ import annotations

import pickle
import subprocess
from fractions import Fraction

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.engines.backend import lane_engine
from tinyphysics import tpir
from tinyphysics.context import C_LEVEL
from tinyphysics.device.host.cc import compiler
from tinyphysics.device.engines.engine import LaneEngine
from tinyphysics.errors import InputError, PlanError
from tinyphysics.ir import Ops, f32, toposort
from tinyphysics.physics.zoo import kepler, pendulum
from tinyphysics.planner.cost.target import choose_target
from tinyphysics.runtime.state.digest import state_hash
from tinyphysics.runtime.state.ensemble import inputs
from tinyphysics.runtime.engines.loaders import LlvmLoader
from tinyphysics.runtime.api.verify_store import replay
from tinyphysics.runtime.measure.symplecticity import measure_symplectic
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import build_kernel
from tinyphysics.tpir.precision.precision import in_precision

BACKENDS = ("python", "llvm", "c", "numpy")
MODES = ("mixed", "compensated")
RNG = np.random.default_rng(5)
START = dict(q=[1.0, 0.1], p=[0.05, 1.2])


@tp.hamiltonian
def driven(q, p, t, m: float = 2.0):
    return p**2 / (2 * m) + tp.cos(q) * (1 + 0.1 * tp.sin(3 * t))


@tp.hamiltonian
def bodies(q: tp.Array["n", 2], p: tp.Array["n", 2], m: tp.Vec["n"]):
    d = q[:, None] - q[None, :]
    pull = m[:, None] * m[None, :] / tp.sqrt((d * d).sum(-1) + 0.1)
    return (p**2 / (2 * m[:, None])).sum() - tp.pair_sum(pull)


@tp.hamiltonian
def springs(q: tp.Vec["n"], p: tp.Vec["n"], k: float = 0.7):
    d = tp.roll(q, -1, 0) - q
    return p @ p / 2 + (k * d**2 / 2 + 0.1 * d**4).sum()


@tp.hamiltonian
def liquid(q: tp.Array["n", 3], p: tp.Array["n", 3], box: float = 6.0):
    s = 1 / tp.pair_distance2(q, box=box, cutoff=2.0, skin=0.4) ** 3
    return (p * p).sum() / 2 + tp.pair_sum(4 * (s * s - s))


@tp.forces
def field(q: tp.Vec[2], mass=2.0):
    return tp.stack([-q[0], tp.sin(q[0] + q[1])])


@tp.hamiltonian
def moons(q: tp.Array["n", 2], p: tp.Array["n", 2], m: tp.Vec["n"], mu: float = 1.1):
    """A pull that differs from body to body: the step goes into one number of each."""
    return (p * p / m[:, None]).sum() / 2 - (mu * m / tp.sqrt((q * q).sum(1))).sum()


@tp.map
def standard(x, y, k=0.9):
    new = y + k * tp.sin(x)
    return x + new, new


def bodies_start(n, members=()):
    return dict(
        q=RNG.normal(size=(*members, n, 2)),
        p=0.1 * RNG.normal(size=(*members, n, 2)),
        m=np.linspace(0.5, 1, n) / n,
    )


def liquid_start():
    places = np.stack(np.meshgrid(*[np.arange(4)] * 3), -1).reshape(-1, 3) * 1.5
    return dict(q=places + 0.05 * RNG.normal(size=(64, 3)), p=0.3 * RNG.normal(size=(64, 3)))


CASES = {
    "kepler": (kepler, dict(dt=0.02, order=4), START),
    "pendulums": (pendulum, dict(dt=0.1), dict(q=RNG.normal(size=7), p=RNG.normal(size=7))),
    "driven": (driven, dict(dt=0.1), dict(q=0.3, p=RNG.normal(size=3), m=np.array([1.0, 2.0, 0.7]))),
    "bodies": (bodies, dict(dt=0.01), bodies_start(40)),
    "clusters": (bodies, dict(dt=0.01), bodies_start(5, (4,))),
    "springs": (springs, dict(dt=0.1), dict(q=RNG.normal(size=40), p=RNG.normal(size=40))),
    "field": (field, dict(dt=0.1, method="rk4"), dict(q=[0.3, 0.4], p=[0.1, 0.2])),
    "scaled": (kepler, dict(dt=0.02, scale="auto"), START),
    "moons": (
        moons,
        dict(dt=0.02),
        dict(q=RNG.normal(size=(5, 2)) + 2, p=RNG.normal(size=(5, 2)), m=np.linspace(0.5, 1, 5)),
    ),
    "euler": (kepler, dict(dt=0.02, method="euler"), START),
    "map": (standard, {}, dict(x=RNG.normal(size=3), y=0.2)),
}


# --- the same bits --------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("precision", MODES)
def test_all_backends_give_the_same_bits(case, precision):
    system, options, start = CASES[case]
    found = {}
    for backend in BACKENDS:
        sim = tp.compile(system, precision=precision, backend=backend, **options)
        out = sim.evolve(**start, steps=6, save_every=2, hash_every=2)
        found[backend] = (out.hash, tuple(out.hashes), *(v.tobytes() for v in out.frames.values()))
    assert len(set(found.values())) == 1, {b: f[0] for b, f in found.items()}
    exact = tp.compile(system, **options).evolve(**start, steps=6).final
    assert all(np.allclose(v, exact[name], rtol=1e-6, atol=1e-6) for name, v in out.final.states.items())


STALE = """program stale
state S0 q f64[] position
state S1 p f64[] momentum of S0
param $dt f64[]
init:
  LOAD S0, &q
  LOAD S1, &p
step:
  GRAD_INIT G1, S1
  POISSON_J F0, G1, pass
  GRAD_INIT G0, S0
  POISSON_J F1, G0, negate
  SYMP_STEP S1, F1, $dt
  SYMP_STEP S0, F0, $dt
final:
  STORE &q, S0
  STORE &p, S1
"""


def test_a_flow_is_what_it_was_when_it_was_computed():
    """Explicit Euler with both flows from the old state, p first: q moves by the old p."""
    program = tpir.parse(STALE)
    for precision in MODES:
        made = in_precision(program, precision)
        start = {"q": 1.0, "p": 0.25} | ({"q.low": 0.0, "p.low": 0.0} if precision == "compensated" else {})
        end = tpir.vm.run(made, start, 1, dt=0.5)
        assert (end["q"], end["p"]) == (1.125, -0.25)


@pytest.mark.parametrize("precision", MODES)
def test_lists_of_neighbours_have_the_same_bits(precision):
    start = liquid_start()
    start["q"] += 6.0 * RNG.integers(
        -50, 50, (64, 3)
    )  # unwrapped: whole boxes away, where one word has few digits left
    ends = [
        tp.compile(liquid, dt=0.005, precision=precision, backend=b).evolve(**start, steps=4)
        for b in ("llvm", "c", "numpy")
    ]
    assert len({out.hash for out in ends}) == 1
    exact = tp.compile(liquid, dt=0.005).evolve(**start, steps=4).final
    assert 0 < abs(ends[0].final.p - exact.p).max() < 2e-6 * abs(exact.p).max()


MANY = np.random.default_rng(7).normal(size=(2, 70))


@pytest.mark.parametrize("precision", MODES)
def test_every_width_and_number_of_threads_gives_the_same_bits(precision):
    sim = tp.compile(kepler, dt=0.02, precision=precision, backend="llvm")
    start = dict(q=RNG.normal(size=(29, 2)) + 2, p=RNG.normal(size=(29, 2)) / 2)
    i = inputs(sim.system, start, sim.compiled.encoding)
    wanted = sim.evolve(**start, steps=9, threads=1).hash
    assert sim.evolve(**start, steps=9, threads=2).hash == wanted
    for shape in (VectorShape(1, 1), VectorShape(4, 1), VectorShape(8, 3), VectorShape(8, 2, in_turn=True)):
        engine = lane_engine(sim.tpir, LlvmLoader(shape=shape))
        m = engine.start(i.states, i.params, 29, 0.02, 0.0)
        engine.advance(m, 9)
        assert state_hash(engine.synchronised(m)) == wanted, shape


def test_c_keeps_the_float32_of_a_constant():
    """With vectors of single numbers gcc 12 took (double)(float)x for x, and the second words of weights were zero."""

    @tp.hamiltonian
    def hill(q, p):
        return p**2 / 2 - 0.7 * tp.cosh(0.7 * q) + q**2 / 2

    options, ends = dict(dt=0.05, method="force_gradient6", precision="compensated"), []
    for backend in ("llvm", "c"):
        with C_LEVEL(3):
            ends.append(
                tp.compile(hill, backend=backend, **options).evolve(q=MANY[0], p=MANY[1], steps=5).hash
            )
    assert ends[0] == ends[1]


@pytest.mark.parametrize("precision", MODES)
def test_watching_changes_nothing_and_a_frame_is_the_end_of_a_shorter_run(precision):
    sim = tp.compile(kepler, dt=0.02, precision=precision)
    plain = sim.evolve(**START, steps=60)
    seen = sim.evolve(**START, steps=60, save_every=1, observe={"r": lambda q: tp.norm(q)})
    assert plain.hash == seen.hash
    for k in (0, 7, 31):
        short = sim.evolve(**START, steps=k)
        assert all(np.array_equal(a, b) for a, b in zip(seen.words("q")[k], short.final.words("q")))
        assert np.array_equal(seen.p[k], short.final.p)
    assert seen["r"][31] == pytest.approx(np.hypot(*seen.q[31]), rel=1e-15)


@pytest.mark.parametrize("precision", MODES)
def test_the_c_listing_prints_the_hash(precision, tmp_path):
    sim = tp.compile(kepler, dt=0.02, precision=precision)
    (tmp_path / "run.c").write_text(sim.ir("c"))
    flags = ["-O1", "-ffp-contract=off", "-fwrapv", "-Wall", "-Werror"]
    subprocess.run([*compiler(), *flags, "run.c", "-o", "run", "-lm"], cwd=tmp_path, check=True)
    for steps in (0, 25):
        command = [tmp_path / "run", str(steps), "0.02", "0.5", "1.3", "1.0", "0.1", "0.05", "1.2"]
        text = subprocess.run(command, capture_output=True, text=True, check=True)
        assert text.stdout.splitlines()[-1] == sim.evolve(steps=steps, t0=0.5, mu=1.3, **START).hash


# --- what is kept and what is shown -----------------------------------------------------------------------
def test_frames_are_values_and_words_are_what_is_kept():
    sim = tp.compile(kepler, dt=0.02, precision="compensated")
    out = sim.evolve(**START, steps=100, save_every=10)
    high, low = out.words("q")
    assert high.dtype == low.dtype == np.float32 and high.shape == low.shape == out.q.shape == (11, 2)
    assert out.q.dtype == out.final.q.dtype == np.float64
    assert np.array_equal(out.q, high.astype(float) + low.astype(float))
    assert np.array_equal(out.q.astype(np.float32), high) and abs(low).max() > 0
    names = ("q", "p")
    kept = [w for name in names for w in out.final.words(name)]
    assert out.hash == state_hash(dict(enumerate(kept)))
    energy = (out.p**2).sum(1) / 2 - 1 / np.sqrt((out.q**2).sum(1))
    assert np.allclose(out.energy, energy, rtol=1e-15)
    with pytest.raises(InputError, match="no state `r`"):
        out.words("r")
    (only,) = tp.compile(kepler, dt=0.02).evolve(**START, steps=1).words("q")
    assert only.dtype == np.float64


def test_no_step_returns_the_input_rounded_to_two_words():
    x = np.array([[np.pi, 1e-9], [-1e5 / 3, 7.0]])
    out = tp.compile(kepler, dt=0.02, precision="compensated").evolve(q=x, p=x[::-1], steps=0)
    high, low = out.final.words("q")
    assert np.array_equal(high, x.astype(np.float32)) and np.array_equal(low, (x - high).astype(np.float32))
    assert abs(out.final.q / x - 1).max() < 2.0**-48
    mixed = tp.compile(kepler, dt=0.02, precision="mixed").evolve(q=x, p=x[::-1], steps=0)
    assert (
        np.array_equal(mixed.final.q, x)
        and mixed.hash == tp.compile(kepler, dt=0.02).evolve(q=x, p=x[::-1], steps=0).hash
    )


def test_a_run_can_begin_with_the_words_of_another():
    sim = tp.compile(
        kepler, dt=0.02, precision="compensated", method="symplectic_euler"
    )  # nothing to synchronise
    half = sim.evolve(**START, steps=50).final
    whole = sim.evolve(**START, steps=100)
    assert sim.evolve(q=half.words("q"), p=half.words("p"), steps=50).hash == whole.hash
    with pytest.raises(InputError, match="is kept as q float64"):
        tp.compile(kepler, dt=0.02).evolve(q=half.words("q"), p=half.p, steps=1)
    with pytest.raises(InputError, match="not finite in float32"):
        sim.evolve(q=[1e39, 0.0], p=[0.0, 1.0], steps=1)


def test_simulations_and_trajectories_are_saved_pickled_streamed_and_replayed(tmp_path):
    sim = tp.compile(kepler, dt=0.02, precision="compensated")
    kept = sim.evolve(**START, steps=100, save_every=10, observe={"r": lambda q: tp.norm(q)})
    sim.save(tmp_path / "kepler")
    for again in (tp.load(tmp_path / "kepler"), pickle.loads(pickle.dumps(sim))):
        assert again.evolve(**START, steps=100).hash == kept.hash
    assert np.array_equal(pickle.loads(pickle.dumps(kept)).q, kept.q)
    out = sim.evolve(
        **START, steps=100, save_every=10, observe={"r": lambda q: tp.norm(q)}, save=tmp_path / "run.zarr"
    )
    assert out.hash == kept.hash and np.array_equal(out.q[:], kept.q) and out.q.dtype == np.float64
    assert np.array_equal(out.words("q").arrays["q.low"][:], kept.words("q").arrays["q.low"])
    assert np.array_equal(out.energy, kept.energy) and out.drift("energy") == kept.drift("energy")
    assert replay(tmp_path / "run.zarr").difference is None


def test_datasets_have_values(tmp_path):
    pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    sim = tp.compile(kepler, dt=0.02, precision="compensated")
    kept = sim.evolve(**START, steps=20, save_every=10)
    for out in (kept, sim.evolve(**START, steps=20, save_every=10, save=tmp_path / "run.zarr")):
        found = out.to_xarray()
        assert "q.low" not in found and all(
            np.array_equal(found[name].values, v) for name, v in kept.frames.items()
        )


def test_a_member_that_fails_stops_alone_and_says_where():
    sim = tp.compile(kepler, dt=0.02, precision="compensated")
    q, p = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 0.5]]), np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 0.9]])
    out = sim.evolve(q=q, p=p, steps=40, save_every=4)
    assert [s.member for s in out.stops] == [1] and out.stopped.where[0] in ("q", "p")
    assert (
        np.isfinite(out.q[:, [0, 2]]).all()
        and np.isnan(out.q[1:, 1]).all()
        and np.array_equal(out.final.q[1], [0, 0])
    )


@pytest.mark.parametrize("precision", MODES)
def test_two_tiles_are_one_ensemble(precision, monkeypatch):
    members = 2 * 16384 + 5
    start = dict(q=RNG.normal(size=members), p=RNG.normal(size=members))
    sim = tp.compile(pendulum, dt=0.1, precision=precision)
    whole = sim.evolve(**start, steps=20, save_every=10)
    monkeypatch.setattr(LaneEngine, "room", 8192)
    parts = sim.evolve(**start, steps=20, save_every=10)
    assert parts.hash == whole.hash and np.array_equal(parts.q, whole.q)


# --- exact updates ----------------------------------------------------------------------------------------
def test_an_update_is_exact_whatever_is_larger():
    """What is added is in both words afterwards, to the last bit: also where the increment is larger than the state."""

    @tp.hamiltonian
    def free(q, p):
        return p**2 / 2

    rng = np.random.default_rng(0)
    q = rng.normal(size=2000) * 10.0 ** rng.integers(-12, 12, 2000)
    p = (rng.normal(size=2000) * 10.0 ** rng.integers(-6, 6, 2000)).astype(np.float32)
    sim = tp.compile(free, dt=1.0, precision="compensated")  # h*p is p itself
    out = sim.evolve(q=q.astype(np.float32), p=p, steps=1)
    high, low = out.final.words("q")
    for a, b, h, e in zip(q.astype(np.float32).tolist(), p.tolist(), high.tolist(), low.tolist()):
        assert Fraction(a) + Fraction(b) == Fraction(h) + Fraction(e)
    naive = low - (
        (p - (high - q.astype(np.float32))).astype(np.float32)
    )  # control: three operations are not enough
    assert np.count_nonzero(naive) > 100


@pytest.mark.requirement("C-107")
def test_nothing_simplifies_a_two_sum():
    """Five operations after the sum, for each number and each update, in the kernel that is run."""
    section = build_kernel(tp.compile(kepler, dt=0.02, precision="compensated").tpir).section("step")
    ops = [u for u in toposort(section.roots) if u.op in (Ops.ADD, Ops.SUB)]
    assert len(ops) == 4 * 6 and all(u.dtype is f32 for u in ops)
    high, low = section.roots[0], section.roots[2]  # of q0
    assert high.op is Ops.ADD and low.op is Ops.ADD
    z = [u for u in toposort([low]) if u.op is Ops.SUB and u.src[0] is high]
    assert len(z) == 2  # t - q and t - (t - q)


@pytest.mark.requirement("S3-22")
def test_states_are_words_and_forces_float32_in_the_listing():
    text = tp.compile(kepler, dt=0.02, precision="compensated").ir("tpir")
    assert "state S1 q.low f32[2] error of S0" in text and "state S2 p f32[2] momentum of S0" in text
    program = tpir.parse(text)
    assert str(program) == text and tpir.verify(program)
    mixed = tp.compile(kepler, dt=0.02, precision="mixed")
    assert "sqrt, T" in mixed.ir("tpir") and "SYMP_STEP S0:f64[2]" in mixed.ir("tpir")
    assert tpir.verify(tpir.parse(mixed.ir("tpir"))).symplectic  # rounding is no part of a certificate


@pytest.mark.parametrize("precision", MODES)
def test_certificates_and_defects_are_those_of_the_step(precision):
    sim = tp.compile(kepler, dt=0.02, precision=precision)
    assert sim.certificate.symplectic and measure_symplectic(sim, **START).symplectic


# --- digits -------------------------------------------------------------------------------------------------
def orbits(n, e=0.1):
    """One ellipse, turned."""
    a = np.linspace(0, 2 * np.pi, n, endpoint=False)
    x, y = np.stack([np.cos(a), np.sin(a)], 1), np.stack([-np.sin(a), np.cos(a)], 1)
    return dict(q=(1 - e) * x, p=np.sqrt((1 + e) / (1 - e)) * y)


@pytest.mark.requirement("S2-25", "C-07", "C-33")
def test_kepler_is_a_hundred_times_better_than_float32_and_as_good_as_mixed():
    start, away = orbits(32), {}
    exact = tp.compile(kepler, dt=0.005).evolve(**start, steps=200_000).final.q
    for precision in ("float32", *MODES):
        end = tp.compile(kepler, dt=0.005, precision=precision).evolve(**start, steps=200_000).final.q
        away[precision] = np.sqrt(((end - exact) ** 2).mean())
    assert away["compensated"] < away["float32"] / 100 and away["mixed"] < away["float32"] / 100, away
    assert 1 / 2.5 < away["compensated"] / away["mixed"] < 2.5, away


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_pair_differences_use_both_words(offset):
    """numerics 22: a binary far from the origin, whose differences are small."""

    @tp.hamiltonian
    def binary(q: tp.Array[2, 2], p: tp.Array[2, 2]):
        return (p * p).sum() / 2 - 1 / tp.norm(q[0] - q[1])

    start = dict(q=np.array([[0.5, 0.0], [-0.5, 0.0]]) + offset, p=[[0.0, 0.6], [0.0, -0.6]])
    runs = {
        p: tp.compile(binary, dt=0.001, precision=p).evolve(**start, steps=20_000, save_every=100)
        for p in ("float64", "float32", *MODES)
    }
    away = {p: abs(out.energy - runs["float64"].energy).max() / abs(out.energy[0]) for p, out in runs.items()}
    assert away["mixed"] < 5e-7 and away["compensated"] < 5e-7, away
    assert offset == 0.0 or away["float32"] > 1e-4


def test_sums_of_states_with_a_large_offset_keep_their_digits():
    """A chain that has drifted away: 2*q1 - q0 - q2, fused into one sum, is a difference too."""
    start = dict(q=1000 + np.sin(np.arange(20.0)), p=np.zeros(20))
    exact, *others = (
        tp.compile(springs, dt=0.05, precision=p).evolve(**start, steps=200).final
        for p in ("float64", *MODES, "float32")
    )
    away = [abs(x.p - exact.p).max() for x in others]
    assert away[0] < 1e-6 and away[1] < 2e-6 and away[2] > 1e-4, away


def test_mixed_angles_may_turn_many_times():
    start = dict(q=2 * np.pi * 1e6 + 0.5, p=0.1)
    exact, mixed = (
        tp.compile(pendulum, dt=0.05, precision=p).evolve(**start, steps=100).final
        for p in ("float64", "mixed")
    )
    assert abs(mixed.q - exact.q) < 1e-6


def test_what_no_state_enters_is_float64():
    """Long after the beginning, where float32 cannot tell one step from the next, a drive has its phase."""
    sims = [tp.compile(driven, dt=0.1, precision=p) for p in ("float64", *MODES)]
    exact, *others = (sim.evolve(q=0.3, p=0.1, t0=1e7, steps=200).final for sim in sims)
    assert all(abs(x.q - exact.q) < 1e-4 for x in others)
    with pytest.raises(InputError, match="cannot distinguish t from"):
        tp.compile(driven, dt=0.1, precision="float32").evolve(q=0.3, p=0.1, t0=1e7, steps=200)


# --- what is refused ------------------------------------------------------------------------------------------
def test_what_does_not_go_is_refused():
    for precision in MODES:
        with pytest.raises(PlanError, match=f"approximate= cannot be combined with precision='{precision}'"):
            tp.compile(bodies, dt=0.01, precision=precision, approximate=1e-3, sizes={"n": 100})

    @tp.hamiltonian
    def steep(q, p):
        return p**2 / 2 + 1e-60 * tp.exp(q)

    for precision in MODES:
        with pytest.raises(PlanError, match="1e-60.* which is out of the range"):
            tp.compile(steep, dt=0.01, precision=precision)


@pytest.mark.parametrize("precision", MODES)
def test_opencl_runs_neither(precision):
    program = tp.compile(kepler, dt=0.01, precision=precision).tpir
    with pytest.raises(PlanError, match=f"does not run {precision}: its results there would differ"):
        choose_target(program, "opencl", precision)
    assert choose_target(tp.compile(kepler, dt=0.01).tpir, "opencl")[0].backend == "opencl"
