"""Loop nests: what they compute is what the VM computes, bit for bit, in every rendering, width and thread count."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.engines.backend import nest_engine
from tinyphysics.device.engines import loops as device_loops
from tinyphysics.device.host.cc import compiler
from tinyphysics.device.host.memory import from_planes, to_planes
from tinyphysics.emit.kinds import nest_registers
from tinyphysics.ir import UOp
from tinyphysics.ir.dtype import f64
from tinyphysics.ir.uop import toposort
from tinyphysics.runtime.engines.loaders import CLoops, LlvmLoops, numpy_loops
from tinyphysics.tpir import parse
from tinyphysics.tpir.kernels import wavefront
from tinyphysics.tpir.kernels.index import Cut, Index, Unsupported, rolled
from tinyphysics.tpir.kernels.loops import build_loops, components_of
from tinyphysics.tpir.kernels.nests import Buffer


@tp.hamiltonian
def fput(q: tp.Vec["n"], p: tp.Vec["n"], beta: float = 0.7):
    d = np.diff(q, prepend=0, append=0)
    return (p**2).sum() / 2 + (d**2 / 2 + beta * d**4 / 4).sum()


@tp.hamiltonian
def wave(phi: tp.Array["n", "n"], pi: tp.Array["n", "n"]):
    return (pi**2).sum() / 2 + sum(((np.roll(phi, 1, axis) - phi) ** 2).sum() for axis in (0, 1)) / 2


@tp.hamiltonian
def cluster(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"], eps: float = 0.01):
    d = q[:, None] - q[None, :]
    r = np.sqrt((d**2).sum(-1) + eps**2)
    return ((p**2).sum(-1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / r)


@tp.hamiltonian
def rotors(q: tp.Array["n", 40], p: tp.Array["n", 40], k: tp.Array["n", 40], t):
    """Sums along both axes, a largest element, functions, a clock."""
    column, row = q.sum(0), q.sum(1)
    return (
        (p**2).sum() / 2
        + (k * (1 - np.cos(q))).sum()
        + (column**2).sum() / 2
        + np.max(q) * np.cos(t) / 10
        + np.sin(row).sum()
    )


@tp.hamiltonian
def mean_field(q: tp.Vec["n"], p: tp.Vec["n"]):
    """Everything meets everything through two sums: a scalar that a whole array is computed from."""
    n = 40.0
    return (p**2).sum() / 2 - (np.cos(q).sum() ** 2 + np.sin(q).sum() ** 2) / (2 * n)


@tp.hamiltonian
def reversed_ends(q: tp.Vec["n"], p: tp.Vec["n"]):
    """Flips, strided slices, pads: indices that do not run along."""
    return (
        (p**2).sum() / 2 + ((q - q[::-1]) ** 2).sum() / 4 + (q[::2] ** 4).sum() / 4 + (q[3:-2] * q[5:]).sum()
    )


@tp.hamiltonian
def in_a_row(q: tp.Array["n", 36], p: tp.Array["n", 36], k: tp.Array["n", 36]):
    """Rows that follow each other: axes merged, rolled and split again, and every third number."""
    flat = q.reshape(-1)
    return (
        (p**2).sum() / 2
        + ((np.roll(flat, 1) - flat) ** 2).sum() / 2
        + (k * q**4).sum() / 4
        + np.cos(flat[1::3]).sum()
    )


@tp.map
def shifted(x: tp.Array[4, "n", "n"], y: tp.Array["n", "n"], a: float = 0.3):
    """Planes that stream away after a common collision, and a state that takes another's place."""
    total = x.sum(0)
    after = [x[k] + a * (total / 4 - x[k]) for k in range(4)]
    return np.stack([np.roll(after[k], (k - 1, 2 - k), (0, 1)) for k in range(4)]), total.T + y


@tp.hamiltonian
def ring(q: tp.Vec["n"], p: tp.Vec["n"], m: tp.Vec["n"], k: float = 0.7):
    """Sites with masses of their own, neighbours all the way round."""
    d = np.roll(q, -1) - q
    return (p**2 / (2 * m)).sum() + (np.cosh(d) + k * (q - np.roll(q, 3)) ** 2).sum()


@tp.hamiltonian
def pendulums(q: tp.Vec["n"], p: tp.Vec["n"]):
    """A function with a fast path, and ends that are not like the middle."""
    return (p**2).sum() / 2 + (np.diff(q) ** 2).sum() / 2 - np.cos(q).sum()


@tp.map
def carried(u: tp.Vec["n"], w: tp.Vec["n"], c: float = 0.3):
    """An upwind step: the old values are read while the new ones are stored."""
    new = u - c * (u - np.roll(u, 1))
    return new, w + u * np.roll(w, -2)


def normal(rng, *shape):
    return rng.normal(size=shape)


def start_of(system, n):
    rng = np.random.default_rng(n)
    r = lambda *shape: normal(rng, *shape)  # noqa: E731
    return {
        "fput": lambda: (dict(q=r(n), p=r(n)), dict(beta=0.7)),
        "wave": lambda: (dict(phi=r(n, n), pi=r(n, n)), {}),
        "cluster": lambda: (dict(q=r(n, 3), p=r(n, 3)), dict(m=rng.uniform(1, 2, n), eps=0.01)),
        "rotors": lambda: (dict(q=r(n, 40), p=r(n, 40)), dict(k=rng.uniform(1, 2, (n, 40)))),
        "mean_field": lambda: (dict(q=r(n), p=r(n)), {}),
        "reversed_ends": lambda: (dict(q=r(n), p=r(n)), {}),
        "in_a_row": lambda: (dict(q=r(n, 36), p=r(n, 36)), dict(k=rng.uniform(1, 2, (n, 36)))),
        "shifted": lambda: (dict(x=r(4, n, n), y=r(n, n)), dict(a=0.3)),
        "ring": lambda: (dict(q=r(n), p=r(n)), dict(m=rng.uniform(1, 2, n), k=0.7)),
        "pendulums": lambda: (dict(q=r(n), p=r(n)), {}),
        "carried": lambda: (dict(u=r(n), w=r(n)), dict(c=0.3)),
    }[system.name]()


LOADERS = {
    "llvm": lambda: LlvmLoops(),
    "scalar": lambda: LlvmLoops(width=1),
    "two": lambda: LlvmLoops(width=2),
    "eight": lambda: LlvmLoops(width=8),
    "c": lambda: CLoops(),
    "numpy": numpy_loops,
}
SYSTEMS = [fput, wave, cluster, rotors, mean_field, reversed_ends, in_a_row, shifted]


def compiled(system, n):
    dt = {} if system in (shifted, carried) else {"dt": 0.01}
    return tp.compile(system, **dt, sizes={"n": n}, backend="python")


def loops(sim, loader, state, params, steps, threads=1):
    engine = nest_engine(sim.tpir, loader, threads)
    given = {k: np.asarray(v, float)[None] for k, v in params.items()}
    m = engine.start({k: v[None] for k, v in state.items()}, given, 1, 0.01, 0.25)
    engine.advance(m, steps)
    return {k: v[0] for k, v in engine.synchronised(m).items()}


@pytest.mark.thin(rows=8)
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda s: s.name)
@pytest.mark.parametrize("n", [33, 40])
def test_every_rendering_has_the_bits_of_the_vm(system, n):
    state, params = start_of(system, n)
    sim = compiled(system, n)
    expected = sim.evolve(**state, **params, steps=2, t0=0.25).final
    for name, loader in LOADERS.items():
        out = loops(sim, loader(), state, params, 2)
        for k in state:
            assert np.array_equal(out[k], getattr(expected, k)), (name, k)


@pytest.mark.parametrize("system", [fput, ring, pendulums, carried], ids=lambda s: s.name)
@pytest.mark.parametrize("n", [33, 47, 64])
def test_a_chain_in_registers_has_the_bits_of_the_vm(system, n):
    steps = 3
    state, params = start_of(system, n)
    sim = compiled(system, n)
    expected = sim.evolve(**state, **params, steps=steps, t0=0.25).final
    for name in ("llvm", "scalar", "two", "eight"):
        out = loops(sim, LOADERS[name](), state, params, steps)
        for k in state:
            assert np.array_equal(out[k], getattr(expected, k)), (name, k)


def test_a_short_chain_stays_in_registers_and_a_long_one_does_not():
    def held(system, n, width):
        kernel = build_loops(compiled(system, n).tpir)
        return nest_registers.fits(kernel, kernel.sections["step"], width)

    assert held(fput, 64, 4) and held(fput, 64, 8) and held(fput, 33, 4)
    assert held(carried, 64, 8) and held(ring, 40, 8) and held(pendulums, 40, 8)
    assert not held(fput, 1_000, 8) and not held(fput, 64, 1)
    assert not held(wave, 40, 4) and not held(mean_field, 40, 4)


@tp.hamiltonian
def second(q: tp.Vec["n"], p: tp.Vec["n"], beta: float = 0.7):
    x = tp.concatenate([np.zeros(2), q, np.zeros(2)])
    d = x[2:] - x[:-2]
    return p @ p / 2 + (d**2 / 2 + beta * d**4 / 4).sum()


@pytest.mark.parametrize("system", [fput, second], ids=lambda s: s.name)
@pytest.mark.parametrize("n", [33, 47, 64])
def test_sums_beside_a_chain_stay_in_registers_with_the_bits_of_a_loop(n, system):
    """The gradient by a parameter: a sum along the chain, added to two words that the loop carries."""
    sim = compiled(system, n)
    program = sim.adjoint(wrt=["q", "p", "beta", "dt"]).program
    kernel = build_loops(program)
    assert {x.kind for x in kernel.sections["step"].nests} == {"map", "lanes"}
    assert nest_registers.fits(kernel, kernel.sections["step"], 8)
    rng, (state, params) = np.random.default_rng(n), start_of(fput, n)
    state |= {f"{x}.bar": rng.normal(size=n) for x in ("q", "p")}
    state |= {f"{x}.{word}": rng.normal() * np.ones(()) for x in ("beta", "dt") for word in ("bar", "rest")}
    want = loops(SimpleNamespace(tpir=program), numpy_loops(), state, params, 3)
    for name in ("llvm", "scalar", "two", "eight"):
        out = loops(SimpleNamespace(tpir=program), LOADERS[name](), state, params, 3)
        assert all(np.array_equal(out[k], want[k]) for k in state), name


@pytest.mark.parametrize("inner", [2, 5])
def test_a_chain_in_registers_that_is_kicked_twice_in_one_nest_has_the_bits_of_the_vm(inner):
    @tp.hamiltonian
    def soft(q: tp.Vec["n"], p: tp.Vec["n"]):
        return (p**2).sum() / 2 + (q**4).sum() / 4

    n = 40
    state, _ = start_of(fput, n)
    sim = tp.compile(tp.fast(fput) + tp.slow(soft), dt=0.01, inner=inner, sizes={"n": n}, backend="python")
    kernel = build_loops(sim.tpir)
    assert nest_registers.fits(kernel, kernel.sections["step"], 8)
    rows = [[(s.buffer, s.plane) for s in x.pieces[0].stores] for x in kernel.sections["step"].nests]
    assert any(len(set(r)) < len(r) for r in rows)  # by what is fast, then by what is slow
    expected = sim.evolve(**state, beta=0.7, steps=3, t0=0.25).final
    for name in ("llvm", "scalar", "two", "eight"):
        out = loops(sim, LOADERS[name](), state, dict(beta=0.7), 3)
        assert all(np.array_equal(out[k], getattr(expected, k)) for k in state), name


def test_a_chain_in_registers_whose_argument_is_too_large_is_done_again():
    n = 40
    state, params = start_of(pendulums, n)
    state["q"][n - 1] = 1e12
    sim = compiled(pendulums, n)
    expected = sim.evolve(**state, steps=2, t0=0.25).final
    assert np.isfinite(expected.q).all()
    for name in ("llvm", "two", "eight"):
        out = loops(sim, LOADERS[name](), state, params, 2)
        assert np.array_equal(out["q"], expected.q) and np.array_equal(out["p"], expected.p), name


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda s: s.name)
@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_do_not_change_a_bit(system, threads, monkeypatch):
    monkeypatch.setattr(device_loops, "THREAD_WORK", 1)
    state, params = start_of(system, 300 if system in (fput, mean_field, reversed_ends, cluster) else 40)
    sim = compiled(system, len(next(iter(state.values()))) if system is not shifted else 40)
    one = loops(sim, LlvmLoops(), state, params, 3)
    many = loops(sim, LlvmLoops(), state, params, 3, threads)
    for k in state:
        assert np.array_equal(one[k], many[k])


def test_the_comparison_can_fail():
    """Summed in another order, the force has other bits."""
    state, params = start_of(cluster, 64)
    q, m = state["q"], params["m"]
    d = q[:, None] - q[None, :]
    w = m[:, None] * m[None, :] / ((d**2).sum(-1) + 1e-4) ** 1.5
    plain = -(w[..., None] * d).sum(1)
    out = loops(compiled(cluster, 64), LlvmLoops(), state, params, 1)
    half = state["p"] + 0.005 * plain
    assert np.allclose(out["q"], q + 0.01 * half / m[:, None], rtol=1e-12, atol=1e-12)
    assert not np.array_equal(out["q"], q + 0.01 * half / m[:, None])


def test_no_array_is_stored_that_is_as_large_as_all_pairs():
    kernel = build_loops(compiled(cluster, 200).tpir)
    assert max(b.size for b in kernel.buffers.values()) < 200 * 200
    assert [n.kind for n in kernel.sections["step"].nests] == ["map", "pairs", "map"]


def test_one_pass_for_a_stencil_and_one_for_streaming():
    assert len(build_loops(compiled(wave, 64).tpir).sections["step"].nests) == 2  # drift, kick
    kernel = build_loops(compiled(shifted, 64).tpir)
    assert kernel.sections["step"].swaps  # the old planes are still read where new ones are stored
    assert len(kernel.sections["step"].nests) <= 3


def test_a_long_sum_goes_through_chunks():
    n = 2 * 65_536 + 77

    @tp.hamiltonian
    def soft(q: tp.Vec["n"], p: tp.Vec["n"]):
        return (p**2).sum() / 2 + np.sqrt((q**2).sum() + 1)

    rng = np.random.default_rng(3)
    state = dict(q=rng.normal(size=n), p=rng.normal(size=n))
    sim = tp.compile(soft, dt=0.01, sizes={"n": n}, backend="python")
    out = [
        loops(sim, loader(), state, {}, 1) for loader in (LOADERS["llvm"], LOADERS["c"], LOADERS["scalar"])
    ]
    assert all(np.array_equal(out[0]["p"], o["p"]) for o in out)
    expected = state["p"] - 0.005 * state["q"] / np.sqrt((state["q"] ** 2).sum() + 1)
    assert np.allclose(
        out[0]["p"] + 0.005 * out[0]["q"] / np.sqrt((out[0]["q"] ** 2).sum() + 1), expected, atol=1e-12
    )


def test_arguments_too_large_for_the_fast_path_are_done_again():
    n = 40
    state, params = start_of(mean_field, n)
    state["q"][7] = 1e12
    sim = compiled(mean_field, n)
    expected = sim.evolve(**state, steps=2, t0=0.25).final
    for name, loader in LOADERS.items():
        out = loops(sim, loader(), state, params, 2)
        assert np.array_equal(out["q"], expected.q) and np.array_equal(out["p"], expected.p), name


def bonded():
    """Constant index lists, and a table that lies flat."""

    @tp.hamiltonian
    def system(q: tp.Array["n", 3], p: tp.Array["n", 3], kind: tp.Vec["n"], k: tp.Array[3, 3]):
        a, b = np.random.default_rng(1).integers(0, 40, (2, 50))
        d = q[a] - q[b]
        return (p**2).sum() / 2 + (d**2).sum() / 2 + (k[kind, kind[::-1]] * (q**2).sum(-1)).sum()

    return system


@pytest.mark.requirement("S0-22")
@pytest.mark.parametrize("system", [wave, cluster, rotors, shifted, bonded()], ids=lambda s: s.name)
def test_the_c_listing_of_an_array_program_prints_its_hash(system, tmp_path):
    n = 40
    rng = np.random.default_rng(5)
    if system.name == "system":
        state = dict(q=rng.normal(size=(n, 3)), p=rng.normal(size=(n, 3)))
        params = dict(kind=rng.integers(0, 3, n).astype(float), k=rng.uniform(1, 2, (3, 3)))
    else:
        state, params = start_of(system, n)
    sim = tp.compile(system, **({} if system is shifted else {"dt": 0.01}), sizes={"n": n})
    (tmp_path / "run.c").write_text(sim.ir("c"))
    flags = ["-O1", "-ffp-contract=off", "-fwrapv", "-Wall", "-Werror", "-Wno-unknown-pragmas"]
    subprocess.run([*compiler(), *flags, "run.c", "-o", "run", "-lm"], cwd=tmp_path, check=True)
    arrays = [np.asarray(v, float) for v in (*params.values(), *state.values()) if np.ndim(v)]
    words = [str(v) for v in params.values() if not np.ndim(v)]
    for steps in (0, 3):
        done = subprocess.run(
            [tmp_path / "run", str(steps), "0.01", "0.25", *words],
            input=b"".join(a.tobytes() for a in arrays),
            capture_output=True,
            check=True,
        )
        assert done.stdout.decode().strip() == sim.evolve(**state, **params, steps=steps, t0=0.25).hash
    assert subprocess.run([tmp_path / "run"], capture_output=True).returncode == 2
    assert (
        subprocess.run(
            [tmp_path / "run", "1", "0.01", "0", *words], input=b"", capture_output=True
        ).returncode
        == 3
    )


# --- what explain() says ------------------------------------------------------------------------------
def machine_rows(system, n):
    report = tp.compile(system, dt=0.01, sizes={"n": n}).explain("full")
    return {r.name: r for s in report.sections if s.machine for r in s.rows}


def test_a_report_counts_nests_operations_bytes_and_memory():
    n = 2048
    rows = machine_rows(wave, n)
    assert rows["loop nests"].verdict == "2"
    steps = int(rows["steps in a pass"].verdict)
    bytes_ = 2 * 2 * 8 * n * n // steps  # both fields read and written once in a pass
    assert f" {bytes_:,} bytes" in rows["a step"].verdict
    operations = int(rows["a step"].verdict.split()[0].replace(",", ""))
    assert operations == 9 * n * n  # fma; sub, add, sub, sub, sub, fma, neg, fma
    state = 2 * 8 * n * n
    assert (
        2 * state <= int(rows["in memory"].verdict.split()[0].replace(",", "")) < 2.1 * state
    )  # and a frame


def test_what_sections_need_for_themselves_lies_in_one_place():
    kernel = build_loops(compiled(cluster, 1_024).tpir)
    own = [name for name in kernel.buffers if name.partition(".")[0] in kernel.sections]
    assert len({kernel.place(name) for name in own}) == len(own) / 3  # beginning, step and end have the same
    engine = nest_engine(compiled(cluster, 1_024).tpir, LlvmLoops(), 1)
    state, params = start_of(cluster, 1_024)
    m = engine.start(
        {k: v[None] for k, v in state.items()},
        {k: np.asarray(v, float)[None] for k, v in params.items()},
        1,
        0.01,
        0,
    )
    engine.advance(m, 1)
    engine.synchronised(m)
    held = sum(a.nbytes for a in (*m.members[0].own.values(), *m.scratch.buffers.values()))
    assert held == kernel.bytes


# --- indices ----------------------------------------------------------------------------------------
def test_a_roll_and_its_inverse_are_nothing():
    v = UOp.var("@i", (), f64)
    i = Index(0, 99, v)
    there = rolled(i, 3, 100)
    assert there.base is not None
    back = rolled(there, -3, 100)
    assert back.key == i.key


def test_the_innermost_loop_is_cut_where_a_condition_changes():
    i = Index(0, 99, UOp.var("@x", (), f64), inner=True)
    with pytest.raises(Cut) as cut:
        rolled(i, 3, 100)
    assert cut.value.at == 3
    assert rolled(Index(3, 99, i.var, inner=True), 3, 100).offset == -3


def test_a_movement_that_loops_do_not_follow_is_named():
    @tp.hamiltonian
    def picked(q: tp.Vec["n"], p: tp.Vec["n"]):
        far = np.stack([q[7 * k % 70] for k in range(70)])
        return (p**2).sum() / 2 + (far * np.sin(q)).sum()

    with pytest.raises(Unsupported, match="array of scalars along a long axis"):
        build_loops(compiled(picked, 70).tpir)


@pytest.mark.parametrize("shape", [(5,), (3,), (40,), (40, 3), (3, 40), (9, 40, 50), (40, 3, 50), ()])
def test_layouts_are_inverses(shape):
    a = np.random.default_rng(0).normal(size=shape)
    short = [n for n in shape if n <= 32]
    b = Buffer("x", int(np.prod(short)), tuple(n for n in shape if n > 32), f64)
    data = np.zeros(b.size)
    to_planes(a, b, 32, data)
    assert np.array_equal(from_planes(data, b, shape, 32), a)


@pytest.mark.parametrize("system", [fput, wave, cluster], ids=lambda s: s.name)
def test_a_system_of_any_size_is_certified(system):
    """Proved on whole arrays: nothing is written out number by number."""
    c = tp.compile(system, dt=0.01, sizes={"n": 1_000}).certificate
    assert c.symplectic and c.consistent and c.symmetric and c.reversible


def test_what_is_observed_reads_the_states_as_they_lie():
    """A sheet whose shorter axis is long enough to be a loop of the step, and short enough to be written out in a sum."""
    u, v = tp.physics.fields.standing_wave((30, 40), (1, 1))
    out = tp.compile(tp.physics.fields.wave, 0.3).evolve(
        u=u, v=v, steps=3, save_every=1, observe={"E": "energy"}
    )
    assert np.array_equal(out["E"], out.energy)


def test_observables_of_neighbouring_steps_are_their_own():
    """What a step observes is copied before the next one writes over it."""
    state, params = start_of(fput, 300)
    look = {"energy": "energy", "first": lambda q: q[0], "all": lambda q: q}
    runs = [
        tp.compile(fput, dt=0.01, sizes={"n": 300}, backend=b).evolve(
            **state, **params, steps=5, observe=look
        )
        for b in ("python", "llvm")
    ]
    for name in look:
        series = [r.observed[name][1] for r in runs]
        assert np.array_equal(*series) and len({row.tobytes() for row in series[1]}) == 6


# --- several steps in one pass ------------------------------------------------------------------------
@pytest.mark.parametrize("caches", [(6_500,), (9_000,), (12_000, 40_000)])
@pytest.mark.parametrize("steps", [1, 2, 5, 16])
def test_steps_that_go_through_memory_together_have_the_same_bits(caches, steps, monkeypatch):
    for system, n in ((wave, 97), (fput, 3_000)):
        state, params = start_of(system, n)
        sim = compiled(system, n)
        monkeypatch.setattr(wavefront, "CACHES", (1 << 40,))
        assert (
            wavefront.wavefront(build_loops(sim.tpir).sections["step"], build_loops(sim.tpir).buffers) is None
        )
        plain = loops(sim, LlvmLoops(), state, params, steps)
        monkeypatch.setattr(wavefront, "CACHES", caches)
        assert (
            wavefront.wavefront(build_loops(sim.tpir).sections["step"], build_loops(sim.tpir).buffers)
            is not None
        )
        monkeypatch.setattr(device_loops, "THREAD_WORK", 1)
        for loader, threads in ((LlvmLoops(), 1), (LlvmLoops(), 3), (CLoops(), 1), (CLoops(), 2)):
            together = loops(sim, loader, state, params, steps, threads)
            assert all(np.array_equal(plain[k], together[k]) for k in state)


def test_a_pass_covers_every_row_of_every_stage_once():
    """And never before what it reads, nor after what it reads has been replaced: on a table of versions."""
    w = wavefront.Wavefront(extent=120, reach=2, rows=3, steps=2, nests=2)
    for cuts in ([0, 120], w.slabs(4)):
        version = [-1] * w.extent

        def do(s, rows):
            for r in rows:
                near = [version[(r + k) % w.extent] for k in range(-w.reach, w.reach + 1)]  # noqa: B023
                assert version[r % w.extent] == s - 1 and all(s - 1 <= v <= s for v in near)  # noqa: B023
                version[r % w.extent] = s  # noqa: B023

        for lo, hi in zip(cuts, cuts[1:]):
            for r in range(lo, hi, w.rows):
                for s in range(w.stages):
                    begin, lag = r - w.lag(s), w.lag(s)
                    do(s, range(max(begin, lo + lag), min(begin + w.rows, hi - lag)))
        for c in cuts[:-1]:
            for s in range(1, w.stages):
                do(s, range(c - w.lag(s), c + w.lag(s)))
        assert version == [w.stages - 1] * w.extent


def test_what_is_no_stencil_takes_one_step_at_a_time():
    for system in (cluster, mean_field, rotors):
        kernel = build_loops(compiled(system, 300 if system is not rotors else 40).tpir)
        assert wavefront.wavefront(kernel.sections["step"], kernel.buffers) is None


def test_a_clock_in_float32_compiles_as_c():
    """Its kernel has two parameters of one name: dt in float32 for steps, in float64 for times."""
    state, params = start_of(rotors, 34)
    sims = [tp.compile(rotors, 0.01, sizes={"n": 34}, precision="float32", backend=b) for b in ("c", "llvm")]
    assert len({sim.evolve(**state, **params, steps=3).hash for sim in sims}) == 1


@tp.map
def shifted_few(x: tp.Array[4, 3, "n"], a: float = 0.3):
    """Rolled along an axis of 3 too: stores that do not go where the loop goes."""
    total = x.sum(0)
    return np.stack([np.roll(x[k] + a * total, (k - 1, 2 - k), (0, 1)) for k in range(4)])


def test_stores_at_shifted_places_are_not_kept_in_registers():
    x = np.random.default_rng(1).normal(size=(4, 3, 34))
    sims = [tp.compile(shifted_few, sizes={"n": 34}, backend=b) for b in ("llvm", "numpy")]
    assert len({sim.evolve(x=x, steps=3).hash for sim in sims}) == 1


def test_pairs_of_three_bodies_in_long_steps_are_written_out():
    """Three bodies in three dimensions have no axis that could be a loop alone."""

    @tp.hamiltonian
    def three(q: tp.Array[3, 3], p: tp.Array[3, 3]):
        r2 = ((q[:, None] - q[None, :]) ** 2).sum(-1)
        return (p**2).sum() / 2 - 0.7 * tp.sum(tp.sin(q)) - 0.6 * tp.pair_sum((1 - r2) ** 3)

    sim = tp.compile(three, dt=0.1, method="kahan_li8", scale="auto", backend="numpy")
    assert components_of(parse(str(sim.tpir))) is None


def test_what_is_below_earlier_roots_is_left_out():
    x, y = UOp.var("x"), UOp.var("y")
    roots, seen = [x * y, x + y, (x * y) / (x + y), x], {}
    parts = [toposort([u], seen) for u in roots]
    assert [u for part in parts for u in part] == toposort(roots) and parts[1] == [roots[1]] and not parts[3]


@tp.ode
def drawn_together(x: tp.Vec["n"], y: tp.Vec["n"]):
    d, e = x[:, None] - x[None, :], y[:, None] - y[None, :]
    w = 1 / (1 + d**2 + e**2)
    return (w * d).sum(1), (w * e).sum(1)


def test_stages_that_sum_one_array_twice_do_not_store_it_for_all_pairs():
    kernel = build_loops(tp.compile(drawn_together, method="dop853", sizes={"n": 200}).tpir)
    assert max(b.size for b in kernel.buffers.values()) < 200 * 200
