"""Do all backends give the same bits?  Hashes of whole runs, and controls that show that a hash can differ."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.engines.backend import lane_engine
from tinyphysics.context import C_LEVEL, PROCESSOR, QUICK
from tinyphysics.device.engines import engine
from tinyphysics.device.host import cc, llvm
from tinyphysics.device.host.arrays import ArraysLoader
from tinyphysics.runtime.engines import backend as engines
from tinyphysics.runtime.engines.loaders import CLoader
from tinyphysics.runtime.engines.loaders import LlvmLoader
from tinyphysics.device.host.processor import named, processor
from tinyphysics.target import VectorShape
from tinyphysics.runtime.state.digest import state_hash
from tinyphysics.tpir.program.isa import Instruction, Program, Register, Word
from tinyphysics.physics.zoo import henon_heiles, kepler, pendulum
import processors

BACKENDS = ("python", "llvm", "c", "numpy")


@pytest.fixture(params=["float64", "float32"])
def precision(request):
    return request.param


@tp.hamiltonian
def trig(q: tp.Vec[2], p: tp.Vec[2]):
    return tp.sqrt(1 + p @ p) + tp.sin(q[0]) * tp.cos(3 * q[1]) + tp.arctan(q[0]) + tp.tan(q[1] / 4)


@tp.hamiltonian
def growth(q: tp.Vec[2], p: tp.Vec[2], a: float = 0.3):
    x, y = q
    V = a * tp.exp(-x * x) + tp.log(2 + y * y) + tp.tanh(x) + tp.expm1(y / 9) + tp.log1p(x * x)
    return tp.cosh(p[0]) + p[1] ** 2 / 2 + V + tp.sinh(x / 5) + tp.erf(y)


@tp.hamiltonian
def powers(q: tp.Vec[2], p: tp.Vec[2]):
    x, y = q
    V = (1 + x * x) ** 1.7 + tp.cbrt(2 + y * y) + tp.hypot(x, 1 + y) + tp.arctan2(y, 2 + x * x)
    return p @ p / 2 + V + tp.arcsin(x / 9) + tp.arccos(y / 9) + tp.where(x < y, x * x, y * y)


@tp.hamiltonian
def torture(q, p):
    return p**2 / 2 + tp.sin(1e6 * q) + tp.cos(1e12 * q**3) + 1 / (2 + q * q)


@tp.hamiltonian
def driven(q, p, t, m: float = 2.0):
    return p**2 / (2 * m) + tp.cos(q) * (1 + 0.1 * tp.sin(t))


@tp.map
def standard(theta, p, K: float = 0.9):
    new = p + K * tp.sin(theta)
    return theta + new, new


SUITE = {
    "pendulum": (pendulum, dict(dt=0.1), dict(q=1.0, p=0.3)),
    "henon_heiles": (henon_heiles, dict(dt=0.1, order=4), dict(q=[0.1, 0.2], p=[0.3, -0.1])),
    "kepler": (kepler, dict(dt=0.02), dict(q=[1.0, 0.0], p=[0.0, 1.2])),
    "trig": (trig, dict(dt=0.05), dict(q=[0.4, 0.5], p=[0.3, -0.7])),
    "growth": (growth, dict(dt=0.05, method="leapfrog_dkd"), dict(q=[0.4, 0.5], p=[0.3, -0.7])),
    "powers": (powers, dict(dt=0.05, method="symplectic_euler"), dict(q=[0.4, 0.5], p=[0.3, -0.7])),
    "torture": (torture, dict(dt=1e-9), dict(q=1.0, p=0.3)),
    "driven": (driven, dict(dt=0.05, order=4), dict(q=1.0, p=0.1)),
    "rk4": (kepler, dict(dt=0.05, method="rk4"), dict(q=[1.0, 0.0], p=[0.0, 1.2])),
    "standard": (standard, dict(), dict(theta=0.4, p=2.0)),
}


@pytest.fixture(autouse=True)
def fast_code():
    """The code of long runs, also where runs are short."""
    with QUICK(0):
        yield


def ensemble(start, members, seed=0):
    rng = np.random.default_rng(seed)
    return {k: np.asarray(v) + 0.02 * rng.normal(size=(members, *np.shape(v))) for k, v in start.items()}


def run(name, backend, precision, steps=12, members=None, **extra):
    system, options, start = SUITE[name]
    start = start if members is None else ensemble(start, members)
    sim = tp.compile(system, backend=backend, precision=precision, **options)
    return sim.evolve(steps=steps, **start, **extra)


@pytest.mark.requirement("S0-02", "S0-04", "S0-08", "S1-60", "S4-02", "S0-30", "S0-10")
@pytest.mark.parametrize("name", SUITE)
def test_every_backend_gives_the_hash_of_the_virtual_machine(name, precision):
    runs = {b: run(name, b, precision, save_every=5, hash_every=4) for b in BACKENDS}
    reference = runs["python"]
    for backend, out in runs.items():
        assert out.metrics["backend"]["used"] == backend
        assert out.hash == reference.hash, backend
        assert out.hashes == reference.hashes, backend
        assert all(np.array_equal(out.frames[s], reference.frames[s]) for s in out.frames), backend
        assert all(
            out.frames[s].dtype == precision and out.final[s].dtype == precision for s in out.frames
        ), backend


@pytest.mark.parametrize("name", SUITE)
def test_code_that_is_made_quickly_gives_the_same_bits(name, precision):
    options = dict(members=5, steps=10, hash_every=1)
    fast = run(name, "llvm", precision, **options)
    with QUICK(1):
        assert run(name, "llvm", precision, **options).hashes == fast.hashes


def test_quick_code_does_all_the_work_where_it_is_told_to(monkeypatch, tmp_path):
    """QUICK=2, for pilots of long steps: no good code is made, whatever the work."""
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(tmp_path))
    monkeypatch.setattr(engine, "QUICK_WORK", 1.0)
    levels, stored = [], llvm.stored

    def seen(name, text, cpu, level=llvm.OPTIMISATION):
        levels.append(level)
        return stored(name, text, cpu, level)

    monkeypatch.setattr(llvm, "stored", seen)
    ends = []
    for value in (1, 2):
        levels.clear()
        system = tp.hamiltonian(lambda q, p: p**2 / 2 + value * tp.cos(q) / 7)
        with QUICK(value):
            tp.compile(system, 0.1).evolve(q=np.ones(5), p=np.zeros(5), steps=9)
        ends.append(set(levels))
    assert llvm.OPTIMISATION in ends[0] and ends[1] == {llvm.QUICK}


@pytest.mark.thin(strength=2)
@pytest.mark.parametrize("name", ["pendulum", "torture", "growth", "driven"])
@pytest.mark.parametrize("members", [1, 2, 3, 5, 8, 31, 33, 64, 100])
def test_ensembles_of_every_size_agree(name, members, precision):
    hashes = {b: run(name, b, precision, steps=5, members=members).hash for b in ("llvm", "c", "numpy")}
    assert len(set(hashes.values())) == 1, hashes


@pytest.mark.requirement("S2-64")
def test_an_ensemble_is_its_members_run_alone(precision):
    start = ensemble(SUITE["trig"][2], 7)
    sim = tp.compile(trig, dt=0.05, precision=precision)
    together = sim.evolve(steps=20, **start)
    for k in range(7):
        alone = sim.evolve(steps=20, **{n: v[k] for n, v in start.items()})
        assert np.array_equal(alone.final.q, together.final.q[k])
        assert np.array_equal(alone.final.p, together.final.p[k])


def test_a_large_ensemble_agrees_for_every_thread_count(precision):
    start = ensemble(dict(q=1.0, p=0.3), 65_537)
    sims = {b: tp.compile(pendulum, dt=0.1, backend=b, precision=precision) for b in ("llvm", "c")}
    hashes = {
        (b, threads): sim.evolve(steps=40, threads=threads, **start).hash
        for b, sim in sims.items()
        for threads in (1, 2, 3)
    }
    assert len(set(hashes.values())) == 1, hashes


def engine_hash(system, options, start, loader, steps, precision):
    program = tp.compile(system, backend="python", precision=precision, **options).tpir
    engine = lane_engine(program, loader)
    arrays = {k: np.asarray(v, float) for k, v in start.items()}
    members = len(next(iter(arrays.values())))
    params = {p.name: np.array([p.default]) for p in system.parameters}
    m = engine.start(arrays, params, members, options.get("dt", 1.0), 0.0)
    engine.advance(m, steps)
    return state_hash(engine.synchronised(m))


@pytest.mark.parametrize("name", ["pendulum", "henon_heiles", "kepler", "torture", "powers"])
def test_vector_widths_and_interleaving_change_nothing(name, precision):
    system, options, start = SUITE[name]
    start = ensemble(start, 29)
    shapes = [(1, 1), (2, 3), (4, 1), (4, 5), (8, 1), (8, 4), (16, 2)]
    loaders = {s: LlvmLoader(shape=VectorShape(*s)) for s in shapes} | {"numpy": ArraysLoader()}
    hashes = {s: engine_hash(system, options, start, loader, 9, precision) for s, loader in loaders.items()}
    assert len(set(hashes.values())) == 1, hashes


@pytest.mark.parametrize("name", processors.HERE)
def test_older_processors_give_the_same_bits(name, precision):
    system, options, start = SUITE["pendulum"]
    start = ensemble(start, 13)
    cpus = (processor(), named(name))
    hashes = [engine_hash(system, options, start, LlvmLoader(cpu), 6, precision) for cpu in cpus]
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("name", processors.HERE)
def test_a_run_notes_that_the_processor_has_no_fused_multiply_add(name):
    here = run("pendulum", "llvm", "float64")
    with PROCESSOR(name):
        there = {backend: run("pendulum", backend, "float64") for backend in BACKENDS}
    assert {r.hash for r in there.values()} == {here.hash}
    assert here.metrics["notes"] == (() if processor().has_fma else (engines.NO_FMA,))
    for backend, r in there.items():
        noted = backend in ("llvm", "c") and not named(name).has_fma
        assert r.metrics["notes"] == ((engines.NO_FMA,) if noted else ()), backend


def test_arguments_beyond_the_fast_path_are_done_again_carefully(precision):
    """1e12*q**3 leaves the range of the fast sine, in some members and not in others."""
    start = dict(q=np.linspace(1e-4, 2.0, 41), p=np.zeros(41))
    sims = {b: tp.compile(torture, dt=1e-9, backend=b, precision=precision) for b in BACKENDS}
    runs = {b: sim.evolve(steps=4, **start) for b, sim in sims.items()}
    assert len({r.hash for r in runs.values()}) == 1
    assert np.isfinite(runs["llvm"].final.p).all()


def test_observables_cost_no_bit_and_agree_everywhere(precision):
    watch = {"r": lambda q: tp.norm(q), "both": lambda q, p, t: tp.stack([q[0] * p[1], tp.sin(t)])}
    plain = run("kepler", "llvm", precision, steps=30)
    runs = {b: run("kepler", b, precision, steps=30, observe=watch, observe_every=4) for b in BACKENDS}
    for out in runs.values():
        assert out.hash == plain.hash
        assert np.array_equal(out["both"], runs["python"]["both"])
        assert np.array_equal(out["r"], runs["python"]["r"])
    assert runs["llvm"]["both"].shape == (8, 2)
    saved = [run("kepler", b, precision, save_every=3) for b in BACKENDS]
    assert all(
        np.array_equal(out.energy, saved[0].energy) and out.drift() == saved[0].drift() for out in saved
    )


def test_members_may_have_parameters_of_their_own(precision):
    mu = np.linspace(0.8, 1.2, 11)
    start = ensemble(SUITE["kepler"][2], 11)
    sims = [tp.compile(kepler, dt=0.02, backend=b, precision=precision) for b in BACKENDS]
    runs = [sim.evolve(steps=10, mu=mu, **start) for sim in sims]
    assert len({r.hash for r in runs}) == 1
    alone = sims[1].evolve(steps=10, mu=mu[3], **{k: v[3] for k, v in start.items()})
    assert np.array_equal(alone.final.q, runs[0].final.q[3])


# --- controls: the comparison can fail ---------------------------------------------------------------
def unfused(program: Program) -> Program:
    """The same program with every FMA written as a product and a sum."""
    out = []
    for k, i in enumerate(program.step):
        if i.op == "FMA":
            t = Register("T", 1000 + k)
            out.append(Instruction("ELEM", (t, Word("mul"), *i.args[:2]), i.type))
            out.append(
                Instruction("ELEM", (i.dst, Word("add"), t, i.args[2]), i.type)
                if i.dst.kind != "G"
                else Instruction("FMA", (i.dst, 1.0, t, i.args[2]), i.type)
            )
        else:
            out.append(i)
    return Program(
        program.name,
        (),
        program.states,
        program.params,
        program.energy,
        program.init,
        tuple(out),
        program.final,
    )


def program_hash(program, start, loader, dt=0.1):
    engine = lane_engine(program, loader)
    m = engine.start({k: np.asarray(v) for k, v in start.items()}, {}, len(start["q"]), dt, 0.0)
    engine.advance(m, 50)
    return state_hash(engine.synchronised(m))


def test_control_separate_roundings_change_the_hash(precision):
    start = ensemble(dict(q=[0.1, 0.2], p=[0.3, -0.1]), 8)
    program = tp.compile(henon_heiles, dt=0.1, precision=precision).tpir
    split = unfused(program)
    assert split != program
    assert program_hash(program, start, LlvmLoader()) != program_hash(split, start, LlvmLoader())
    assert program_hash(split, start, LlvmLoader()) == program_hash(split, start, ArraysLoader())


@pytest.mark.skipif(not processor().has_fma, reason="contraction needs a fused multiply-add")
def test_control_a_compiler_that_contracts_changes_the_hash(monkeypatch, precision):
    start = ensemble(dict(q=[0.1, 0.2], p=[0.3, -0.1]), 8)
    split = unfused(tp.compile(henon_heiles, dt=0.1, precision=precision).tpir)
    strict = program_hash(split, start, CLoader())
    flags = tuple("-ffp-contract=fast" if f == "-ffp-contract=off" else f for f in cc.FLAGS)
    monkeypatch.setattr(cc.build, "__defaults__", (flags,))
    with C_LEVEL(3):  # below -O2 nothing is contracted
        assert program_hash(split, start, CLoader()) != strict


def test_observables_may_be_conditions_constants_and_parameters(precision):
    watch = {
        "one": lambda q: 1.0,
        "right": lambda q: q > 0,
        "mu": lambda mu: mu,
        "size": lambda q: q.shape[0],
    }
    runs = {b: run("kepler", b, precision, steps=60, observe=watch, observe_every=20) for b in BACKENDS}
    for out in runs.values():
        assert out["right"].shape == (4, 2) and set(out["right"].ravel()) == {0.0, 1.0}
        assert np.array_equal(out["right"], runs["python"]["right"])
        assert (
            out["one"].tolist() == [1.0] * 4
            and out["mu"].tolist() == [1.0] * 4
            and out["size"].tolist() == [2.0] * 4
        )
