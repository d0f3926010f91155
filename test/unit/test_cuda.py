"""Does CUDA give the bits of the other backends?  Its PTX is run by test/ptx_machine.py behind a fake driver."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
import warnings
import time
from functools import lru_cache

import numpy as np
import pytest
from ptx_machine import parsed
from ptx_mix import asked_for, fused, objections

import tinyphysics as tp
from test_loops import SYSTEMS, cluster, mean_field, pendulums, ring, rotors, start_of
from test_loops import compiled as of_loops
from test_parity import SUITE, ensemble, growth, henon_heiles, kepler, pendulum, powers, torture, trig
from tinyphysics.device.cuda import driver as cuda, nvptx
from tinyphysics.device.cuda import rows as cuda_rows
from tinyphysics.device.engines import cuda_lanes, cuda_loops
from tinyphysics.emit.scalar import llvm as emit_llvm
from tinyphysics.emit.scalar import passes
from tinyphysics.emit.scalar import ptx as emit
from tinyphysics.emit.modules import ptx_nests
from tinyphysics.emit.scalar import ptx_tools
from tinyphysics.physics import zoo
from tinyphysics.planner.methods.catalog import METHODS
from tinyphysics.runtime.engines import cuda as loading
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import build_kernel
from tinyphysics.tpir.kernels.loops import build_loops

HERE = ("cuda", "llvm")
SWING = dict(q=1.0, p=0.3)
TRAPPED = dict(q=[0.1, 0.2], p=[0.3, -0.1])
ORBIT = dict(q=[1.0, 0.0], p=[0.0, 1.2])


def both(system, options, start, **how):
    """The runs on the fake device and on this processor."""
    return [tp.compile(system, backend=b, **options).evolve(**start, **how) for b in HERE]


def same(there, ours):
    assert there.metrics["backend"] == {"requested": "cuda", "used": "cuda"}
    assert there.hash == ours.hash and there.hashes == ours.hashes
    assert all(np.array_equal(there.frames[s], ours.frames[s], equal_nan=True) for s in ours.frames)


# --- the same bits ----------------------------------------------------------------------------------------
@pytest.mark.requirement("S3-21", "S4-03")
@pytest.mark.parametrize("name", SUITE)
def test_ensembles_have_the_bits_of_the_processor(fake_cuda, name):
    system, options, start = SUITE[name]
    there, ours = both(system, options, ensemble(start, 7), steps=12, hash_every=4, save_every=5)
    same(there, ours)
    assert there.metrics["device"] == "Fake GPU" and {"step", "final"} <= {k for k, *_ in fake_cuda.launches}


@pytest.mark.parametrize(
    "name, precision",
    [
        *((name, "float32") for name in ("pendulum", "kepler", "growth", "torture", "driven")),
        ("pendulum", "compensated"),
        ("henon_heiles", "compensated"),
        ("pendulum", "dd"),
        ("kepler", "dd"),
        ("rk4", "dd"),
        ("henon_heiles", "lattice"),
    ],
)
def test_every_precision_has_the_bits_of_the_processor(fake_cuda, name, precision):
    system, options, start = SUITE[name]
    options = options | dict(precision=precision)
    same(*both(system, options, ensemble(start, 5), steps=8, hash_every=4, save_every=4))


def test_a_hash_is_that_of_the_virtual_machine(fake_cuda):
    runs = [tp.compile(kepler, dt=0.02, backend=b).evolve(**ORBIT, steps=40) for b in ("cuda", "python")]
    assert runs[0].hash == runs[1].hash and runs[0].metrics["backend"]["used"] == "cuda"


@pytest.mark.parametrize("members", [1, 31, 33, 127, 129, 1000])
def test_ensembles_of_every_size_agree(fake_cuda, members):
    same(*both(pendulum, dict(dt=0.1), ensemble(SWING, members), steps=30))


@pytest.mark.parametrize("most", [1, 2, 4])
def test_steps_written_one_after_the_other_are_the_same_steps(fake_cuda, monkeypatch, most):
    """In a pass of a loop; what is left of them is done one by one."""
    written = []
    monkeypatch.setattr(cuda_lanes, "STEPS", most)
    monkeypatch.setattr(emit_llvm, "passes", lambda *given: written.append(given[3]) or passes.passes(*given))
    soft = tp.hamiltonian(lambda q, p: p**2 / 2 - 1 / tp.sqrt(1 + q**2))
    for steps in (1, 2, 4, 5, 9):
        same(*both(soft, dict(dt=0.1), ensemble(SWING, 40), steps=steps))
    assert {*written} == ({most} if most > 1 else set())


def test_no_member_is_no_work(fake_cuda):
    out = tp.compile(pendulum, dt=0.1, backend="cuda").evolve(q=np.zeros(0), p=np.zeros(0), steps=10)
    assert out.final.q.shape == (0,)


@pytest.mark.requirement("S2-64")
@pytest.mark.parametrize("warps", [False, True], ids=["all at once", "warp by warp"])
def test_neither_the_grid_nor_the_order_of_its_warps_changes_a_bit(fake_cuda, monkeypatch, warps):
    start = ensemble(dict(q=[0.4, 0.5], p=[0.3, -0.7]), 150)
    fake_cuda.warps = warps
    hashes = set()
    for threads, waves in ((128, 32), (32, 1), (64, 1)):
        monkeypatch.setattr(cuda_rows, "THREADS", threads)
        monkeypatch.setattr(cuda_rows, "WAVES", waves)
        hashes.add(tp.compile(trig, dt=0.05, backend="cuda").evolve(**start, steps=5, save_every=5).hash)
    assert ("step", 2, 32) in fake_cuda.launches and ("step", 2, 64) in fake_cuda.launches
    assert hashes == {tp.compile(trig, dt=0.05).evolve(**start, steps=5).hash}


# --- arguments that are too large ---------------------------------------------------------------------------
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_members_whose_arguments_are_too_large_are_done_again_carefully(fake_cuda, precision):
    start = ensemble(SWING, 70)
    start["q"][[3, 4, 5, 69]] = [1e12, -3e15, 1e22, 1e5]
    options = dict(dt=0.1, precision=precision)
    there, ours = both(pendulum, options, start, steps=6, save_every=6)
    same(there, ours)
    assert sum(k == "step" for k, *_ in fake_cuda.launches) == 2, "once for all, and once for those"


def test_what_is_watched_of_them_is_done_again_too(fake_cuda):
    start = ensemble(SWING, 6)
    start["q"][2] = 1e12
    there, ours = both(
        pendulum, dict(dt=0.1), start, steps=6, observe={"c": lambda q: tp.cos(q)}, observe_every=2
    )
    same(there, ours)
    assert np.array_equal(there["c"], ours["c"]) and [k for k, *_ in fake_cuda.launches].count("watch") == 2


def test_arguments_reduced_by_payne_and_hanek_agree(fake_cuda):
    start = dict(q=np.array([1e3, 1e8, 1e15, 1e22, 1e200, -1.7e308]), p=np.zeros(6))
    same(*both(torture, dict(dt=1e-9), start, steps=3))


# --- what runs carry and watch ------------------------------------------------------------------------------
def test_parameters_may_vary_and_observables_are_fused_into_the_loop(fake_cuda):
    how = dict(
        steps=60,
        save_every=2,
        observe={"r": lambda q: tp.norm(q), "E": "energy"},
        observe_every=2,
        mu=np.linspace(0.9, 1.1, 5),
    )
    there, ours = both(kepler, dict(dt=0.02), ensemble(ORBIT, 5), **how)
    same(there, ours)
    assert np.array_equal(there["r"], ours["r"]) and np.array_equal(there["E"], ours["E"])
    assert any(k == "watch" for k, *_ in fake_cuda.launches)
    assert there.drift("energy").tolist() == ours.drift("energy").tolist()


def test_watching_changes_no_bit(fake_cuda):
    sim = tp.compile(pendulum, dt=0.1, backend="cuda")
    start = ensemble(SWING, 9)
    plain = sim.evolve(**start, steps=24)
    watched = sim.evolve(
        **start, steps=24, observe={"x": lambda q: tp.sin(q)}, observe_every=3, save_every=4, hash_every=6
    )
    assert plain.hash == watched.hash


@pytest.mark.parametrize("precision", ["float64", "compensated"])
def test_a_checkpoint_of_the_device_is_resumed_there_and_here_with_the_same_bits(
    fake_cuda, tmp_path, precision
):
    options, start = dict(dt=0.1, precision=precision), ensemble(SWING, 11)
    there, ours = both(pendulum, options, start, steps=40, save_every=10)
    tp.compile(pendulum, backend="cuda", **options).evolve(
        **start, steps=20, save_every=10, checkpoint=tmp_path / "half"
    )
    for backend in HERE:
        on = tp.compile(pendulum, backend=backend, **options).evolve(
            resume=tmp_path / "half", steps=20, save_every=10
        )
        assert on.hash == ours.hash == there.hash and np.array_equal(on.q[-1], ours.q[-1])


def test_a_member_that_fails_is_named_and_the_others_go_on(fake_cuda):
    start = ensemble(ORBIT, 6)
    for k in (1, 4):
        start["q"][k], start["p"][k] = 0.0, 0.0
    there, ours = both(kepler, dict(dt=0.02), start, steps=20, save_every=5, hash_every=10)
    same(there, ours)
    assert there.stopped == ours.stopped and there.stopped.member == 1
    assert there.metrics["not_finite"] == ours.metrics["not_finite"] == 2


def test_a_member_that_fails_late_is_replayed_to_its_step(fake_cuda):
    @tp.map
    def growing(x):
        return x * x

    start = dict(x=np.array([1.0, 1.01, 0.5, 1.3]))
    there, ours = both(growing, {}, start, steps=40, save_every=10)
    assert there.stopped == ours.stopped and there.stopped.step > 1 and there.stopped.cause == "not finite"
    assert there.metrics["not_finite"] == 2
    same(there, ours)


def test_subnormal_numbers_are_kept(fake_cuda):
    @tp.map
    def halve(x):
        return x / 2

    there, ours = both(halve, {}, dict(x=np.array([2.0**-1040, 3.0 * 2.0**-1060, 1.0])), steps=7)
    same(there, ours)
    assert there.final.x[0] == 2.0**-1047 != 0.0


def test_random_draws_are_those_of_the_processor(fake_cuda):
    @tp.map
    def walk(x, y):
        return x + tp.random.normal(), tp.where(
            tp.random.uniform() < 0.5, y + 1, y - tp.random.integers(1, 7)
        )

    there, ours = both(walk, {}, dict(x=np.zeros(9), y=np.zeros(9)), steps=25, save_every=5, seed=7)
    same(there, ours)
    assert len(set(there.final.x.tolist())) == 9


@pytest.fixture
def several(monkeypatch):
    """Threads take several members, also where there are few."""
    monkeypatch.setattr(loading, "FULL", 1)


@pytest.mark.parametrize("name", ["pendulum", "henon_heiles", "growth", "driven", "standard"])
def test_several_members_of_a_thread_have_the_same_bits(fake_cuda, several, name):
    system, options, start = SUITE[name]
    assert (
        loading.CudaLoader().shape(build_kernel(tp.compile(system, **options).tpir).section("step"), 9).lanes
        > 1
    )
    same(*both(system, options, ensemble(start, 9), steps=10, hash_every=5, save_every=5))


def test_several_members_of_a_thread_are_done_again_together_and_fail_alone(fake_cuda, several):
    start = ensemble(SWING, 11)
    start["q"][[2, 9]] = [1e12, -1e22]
    same(*both(pendulum, dict(dt=0.1), start, steps=6, observe={"c": lambda q: tp.cos(q)}))
    start = ensemble(ORBIT, 7)
    start["q"][3], start["p"][3] = 0.0, 0.0
    there, ours = both(kepler, dict(dt=0.02), start, steps=20, save_every=5, mu=np.linspace(0.9, 1.1, 7))
    same(there, ours)
    assert there.stopped == ours.stopped and there.stopped.member == 3


@pytest.mark.parametrize("graphs", [False, True], ids=["launches", "graphs"])
@pytest.mark.parametrize("system", [rotors, mean_field], ids=lambda s: s.name)  # sums in several kernels each
def test_threads_that_run_one_program_do_not_meet(fake_cuda, monkeypatch, system, graphs):
    state, params = start_of(system, 34)
    starts, steps = [state, {k: v + 0.1 for k, v in state.items()}], 6 if graphs else 2
    if graphs:
        monkeypatch.setattr(cuda_loops, "WORTH", 2)
        monkeypatch.setattr(cuda_loops, "NODES", 48)
    sim = tp.compile(system, dt=0.01, sizes={"n": 34}, backend="cuda")
    alone = [sim.evolve(**s, **params, steps=steps).hash for s in starts]
    launch, found = cuda.launch, {}

    def slowly(*args, **more):
        time.sleep(1e-3)  # the other thread's turn
        launch(*args, **more)

    def run(k):
        found[k] = sim.evolve(**starts[k], **params, steps=steps).hash

    monkeypatch.setattr(cuda, "launch", slowly)
    threads = [threading.Thread(target=run, args=(k,)) for k in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [found[0], found[1]] == alone


# --- methods ------------------------------------------------------------------------------------------------
CHOSEN = (
    "symplectic_euler",
    "leapfrog_dkd",
    "blanes_moan_nystrom6",
    "sofroniou_spaletta10",
    "chin4",
    "implicit_midpoint",
    "gauss4",
    "stormer_verlet_implicit4",
    "kick_midpoint",
    "extended_phase_space",
    "avf",
    "gonzalez",
    "itoh_abe",
    "rk4",
    "taylor",
    "interaction4",
    "interaction_mollified",
)


@pytest.mark.parametrize("method", CHOSEN)
def test_methods_have_the_bits_of_the_processor(fake_cuda, method):
    there, ours = both(
        henon_heiles, dict(dt=0.05, method=method), ensemble(TRAPPED, 3), steps=6, save_every=2, hash_every=2
    )
    same(there, ours)


def test_a_solve_that_not_all_members_end_together(fake_cuda):
    """Threads of a warp leave the loop of Newton's method one after another."""
    start = dict(q=np.linspace(0.01, 3.0, 40), p=np.linspace(-2, 2, 40))
    same(*both(zoo.pendulum, dict(dt=0.3, method="implicit_midpoint"), start, steps=4))


# --- what is counted ----------------------------------------------------------------------------------------
@pytest.mark.requirement("S1-57")
@pytest.mark.requirement("S1-50")
@pytest.mark.requirement("S2-30")
def test_a_run_that_says_cuda_did_launch_and_moves_only_what_is_looked_at(fake_cuda):
    sim = tp.compile(pendulum, dt=0.1, backend="cuda")
    start = ensemble(SWING, 100)
    short, long_run = (sim.evolve(**start, steps=n, save_every=n) for n in (10, 60))
    for out in (short, long_run):
        assert out.metrics["launches"] >= 3 and out.metrics["transfers"] > 0
    assert long_run.metrics["transfers"] == short.metrics["transfers"]
    assert long_run.metrics["launches"] == short.metrics["launches"] == 3  # init, all steps, final
    assert long_run.metrics["bytes_moved"] == short.metrics["bytes_moved"] < 100_000
    before = dict(fake_cuda.counts)
    sim.evolve(**start, steps=60, save_every=10)
    assert fake_cuda.counts["cuLaunchKernel"] - before["cuLaunchKernel"] > 6
    other = tp.compile(pendulum, dt=0.1).evolve(**start, steps=10)
    assert "transfers" not in other.metrics


@pytest.mark.requirement("S1-55")
def test_transfers_are_those_that_the_driver_saw(fake_cuda):
    sim = tp.compile(kepler, dt=0.02, backend="cuda")
    before = sum(fake_cuda.counts[f"cuMemcpy{w}Async_v2"] for w in ("HtoD", "DtoH"))
    out = sim.evolve(**ensemble(ORBIT, 8), steps=20, save_every=5)
    seen = sum(fake_cuda.counts[f"cuMemcpy{w}Async_v2"] for w in ("HtoD", "DtoH")) - before
    assert 0 < out.metrics["transfers"] <= seen


def test_machine_code_is_assembled_once(fake_cuda):
    for _ in range(2):
        tp.compile(pendulum, dt=0.1, backend="cuda").evolve(**ensemble(SWING, 3), steps=4)
    assert len(fake_cuda.texts) == len(set(fake_cuda.texts))


def test_all_memory_is_given_back(fake_cuda):
    sim = tp.compile(kepler, dt=0.02, backend="cuda")
    out = sim.evolve(**ensemble(ORBIT, 50), steps=20, save_every=5, observe={"E": "energy"})
    cuda.release()
    kept = fake_cuda.used
    assert kept < 4096, "a run leaves nothing on the device"
    assert out.final.q.shape == (50, 2)


# --- memory -------------------------------------------------------------------------------------------------
@pytest.mark.requirement("S1-49")
def test_an_ensemble_that_does_not_fit_runs_in_parts_with_the_same_bits(fake_cuda):
    members = 2 * 8192 + 5
    start = ensemble(SWING, members)
    fake_cuda.cards[0].memory = 2 * 2**20
    there, ours = both(pendulum, dict(dt=0.1), start, steps=3, save_every=3)
    same(there, ours)
    assert sum(k == "step" for k, *_ in fake_cuda.launches) > 1
    assert fake_cuda.used <= fake_cuda.cards[0].memory


def test_a_device_without_room_says_how_much_is_needed(fake_cuda):
    fake_cuda.cards[0].memory = 40_000
    with pytest.raises(tp.BackendError, match=r"cannot allocate .* MiB more: .* of .* MiB are free"):
        tp.compile(pendulum, dt=0.1, backend="cuda").evolve(**ensemble(SWING, 5000), steps=3)


def test_another_process_on_the_device_does_no_harm(fake_cuda):
    sim, start = tp.compile(pendulum, dt=0.1, backend="cuda"), ensemble(SWING, 500)
    alone = sim.evolve(**start, steps=5).hash
    fake_cuda.outside = fake_cuda.cards[0].memory - fake_cuda.used - 2**18
    assert sim.evolve(**start, steps=5).hash == alone


# --- instructions -------------------------------------------------------------------------------------------
def listings(system, **options):
    """(LLVM IR, PTX) of all sections of a program, quick and careful, with shared and with own parameters."""
    kernel = build_kernel(tp.compile(system, **options).tpir)
    for careful in (False, True):
        parts = [
            (kernel.section(n, careful), VectorShape(1, 1))
            for n in ("init", "enter", "step", "leave", "final")
            if kernel.has(n)
        ]
        for own in {False, bool(kernel.params)}:
            text = emit.module(
                parts, kernel.params, [own and str(p.arg) not in ("$dt", "$t0") for p in kernel.params]
            )
            yield text, nvptx.compiled(text)


ZOO = {
    "kepler": zoo.kepler,
    "pendulum": zoo.pendulum,
    "henon_heiles": zoo.henon_heiles,
    "oscillator": zoo.oscillator,
    "double_well": zoo.double_well,
    "toda": zoo.toda,
    "fput": zoo.fput,
    "driven_pendulum": zoo.driven_pendulum,
    "growth": growth,
    "powers": powers,
    "torture": torture,
    "trig": trig,
}


@pytest.mark.requirement("S3-24")
@pytest.mark.parametrize("precision", ["float64", "float32", "compensated"])
@pytest.mark.parametrize("name", ZOO)
def test_the_ptx_of_the_zoo_rounds_to_nearest_and_fuses_what_the_graph_fuses(name, precision):
    for llvm, text in listings(ZOO[name], dt=0.05, precision=precision, propagator="loop"):
        check(llvm, text)


def check(llvm, text, merged=0):
    module = parsed(text)
    assert objections(module) == []
    assert asked_for(llvm) - merged <= fused(module) <= asked_for(llvm)
    assert not {"atom", "red"} & {i.parts[0] for i in module.instructions()}


@pytest.mark.parametrize(
    "method", [m.name for m in METHODS if m.name in CHOSEN and m.name != "taylor"]
)  # it is long
def test_the_ptx_of_the_methods_rounds_to_nearest_and_fuses_what_the_graph_fuses(method):
    for llvm, text in listings(henon_heiles, dt=0.05, method=method):
        check(llvm, text, merged=4)  # some that are the same after their numbers are known are done once


@pytest.mark.parametrize("system", [*SYSTEMS, ring, pendulums], ids=lambda s: s.name)
def test_the_ptx_of_loop_nests_rounds_to_nearest_and_fuses_what_the_graph_fuses(system):
    for careful in (False, True):
        text = ptx_nests.nests_module(build_loops(of_loops(system, 40).tpir), careful).text
        check(text, nvptx.compiled(text), merged=4)


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas of the CUDA toolkit is not installed")
@pytest.mark.parametrize("capability", [(7, 0), (9, 0)], ids=["sm_70", "sm_90"])
def test_the_assembler_takes_the_text(tmp_path, capability):
    texts = [ptx_tools.module(), ptx_nests.nests_module(build_loops(of_loops(cluster, 40).tpir)).text]
    for system, options in (
        (kepler, dict(dt=0.02)),
        (trig, dict(dt=0.02, precision="float32")),
        (henon_heiles, dict(dt=0.1, method="gauss4")),
    ):
        texts.append(next(listings(system, **options))[0])
    for k, text in enumerate(texts):
        file = tmp_path / f"{k}.ptx"
        file.write_text(nvptx.compiled(text, capability))
        arch = f"-arch=sm_{max(capability[0] * 10 + capability[1], 75)}"  # older ones, today's assembler has forgotten
        done = subprocess.run(
            ["ptxas", arch, str(file), "-o", str(tmp_path / "out")], capture_output=True, text=True
        )
        assert done.returncode == 0 and not done.stderr.strip(), done.stderr


def test_the_tools_compute_nothing():
    module = parsed(nvptx.compiled(ptx_tools.module()))
    assert sorted(module.entries) == sorted(ptx_tools.NAMES)
    assert not any(p in ("f32", "f64") for i in module.instructions() for p in i.parts)


@lru_cache
def of_trig():
    return next(listings(trig, dt=0.05))


@pytest.mark.parametrize("flag", ["contract", "fast"])
def test_control_ptx_that_may_be_contracted_is_noticed(flag):
    """LLVM leaves `.rn` out where an assembler may contract."""
    llvm, good = of_trig()
    assert objections(parsed(good)) == []
    loose = re.sub(r"= (f(?:mul|add|sub)) ", rf"= \1 {flag} ", llvm)
    assert any(".rn" in text for text in objections(parsed(nvptx.compiled(loose))))


def test_control_an_fma_that_the_graph_has_not_is_noticed():
    llvm, _ = of_trig()
    more = re.sub(
        r"= fmul double (\S+), (\S+)",
        r"= call double @llvm.fma.f64(double \1, double \2, double 1.0)",
        llvm,
        count=1,
    )
    assert more != llvm
    assert fused(parsed(nvptx.compiled(more))) == asked_for(llvm) + 1


@pytest.mark.parametrize(
    "good, bad",
    [
        ("add.rn.f64", "add.f64"),
        ("mul.rn.f64", "mul.f64"),
        ("fma.rn.f64", "fma.rz.f64"),
        ("mul.rn.f64", "mul.rn.ftz.f64"),
        ("add.rn.f64", "atom.global.add.f64"),
    ],
)
def test_control_an_instruction_that_is_not_exact_is_noticed(good, bad):
    _, text = of_trig()
    assert good in text
    assert len(objections(parsed(text.replace(good, bad, 1)))) == 1


def test_control_an_fma_of_two_roundings_changes_the_hash(fake_cuda, monkeypatch):
    """The comparison of hashes can fail."""
    start = ensemble(TRAPPED, 8)
    there, ours = both(henon_heiles, dict(dt=0.1), start, steps=30)
    same(there, ours)
    plain = nvptx.compiled

    def split(text, *rest):
        lines = []
        for line in text.splitlines():
            head, call, tail = line.partition(" = call double @llvm.fma.f64(")
            if call:
                a, b, c = (x.strip().removeprefix("double ") for x in tail.rstrip(")").split(","))
                lines += [
                    f"{head}.product = fmul double {a}, {b}",
                    f"{head} = fadd double {head.strip()}.product, {c}",
                ]
            else:
                lines.append(line)
        return plain("\n".join(lines), *rest)

    monkeypatch.setattr(nvptx, "compiled", split)
    monkeypatch.setattr(nvptx, "VERSION", "of two roundings")
    from fake_cuda import FakeDriver, installed

    with installed(FakeDriver()):
        other = tp.compile(henon_heiles, dt=0.1, backend="cuda").evolve(**start, steps=30)
    assert other.hash != ours.hash and np.allclose(other.final.q, ours.final.q, rtol=1e-9)


# --- text and choice ----------------------------------------------------------------------------------------
def test_the_ptx_can_be_read_where_there_is_no_device():
    text = tp.compile(pendulum, dt=0.1).ir("ptx")
    assert ".visible .entry step(" in text and "fma.rn.f64" in text and ".target sm_90" in text
    assert objections(parsed(text)) == []


def test_nobody_gets_cuda_without_asking(fake_cuda):
    assert tp.compile(pendulum, dt=0.1).target.backend == "llvm"
    assert not fake_cuda.counts


@pytest.mark.requirement("S1-52")
def test_without_a_device_compiling_says_what_is_missing(monkeypatch):
    from fake_cuda import FakeDriver, installed

    real = cuda.open_library
    with installed(FakeDriver()):
        monkeypatch.setattr(cuda, "LIBRARY", "libcuda.so.none")
        monkeypatch.setattr(cuda, "open_library", real)
        with pytest.raises(tp.BackendError, match="needs the driver of an NVIDIA GPU(.|\n)*display driver"):
            tp.compile(pendulum, dt=0.1, backend="cuda")


def test_several_runs_share_the_device_and_its_kernels(fake_cuda):
    sims = [tp.compile(system, backend="cuda", dt=0.05) for system in (pendulum, kepler)]
    first = [sims[0].evolve(**SWING, steps=5).hash, sims[1].evolve(**ORBIT, steps=5).hash]
    again = [sims[0].evolve(**SWING, steps=5).hash, sims[1].evolve(**ORBIT, steps=5).hash]
    assert first == again and fake_cuda.counts["cuStreamCreate"] == 1


def test_numbers_that_are_none_have_no_bits_of_their_own(fake_cuda):
    """The device's pattern of what is no number is another than the processor's; hashes do not see it."""

    @tp.map
    def lost(x, y):
        return x, tp.sqrt(x - 2) + y

    there, ours = both(lost, {}, dict(x=np.array([1.0, 3.0]), y=np.zeros(2)), steps=1)
    assert there.stopped == ours.stopped and there.stopped.member == 0 and there.hash == ours.hash
    there, ours = both(
        pendulum, dict(dt=0.1), ensemble(SWING, 3), steps=4, observe={"s": lambda q: tp.sqrt(q - 9)}
    )
    assert np.isnan(there["s"]).all() and np.isnan(ours["s"]).all() and there.hash == ours.hash


def test_members_stop_at_poles_and_few_bytes_say_that_none_is_near(fake_cuda):
    @tp.hamiltonian
    def kepler(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 - 1 / tp.norm(q)

    for slowest in (0.0, 0.9):  # a fall among them, then none
        speeds = np.linspace(slowest, 1.1, 9)
        start = {"q": np.tile([1.0, 0.0], (9, 1)), "p": np.stack([0 * speeds, speeds], -1)}
        found = []
        for backend in ("cuda", "llvm"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                out = tp.compile(kepler, dt=0.01, method="leapfrog", backend=backend).evolve(
                    **start, steps=120
                )
            found.append([[(s.cause, s.member, s.step) for s in out.stops], out.hash])
        assert found[0] == found[1]
        assert bool(found[0][0]) == (slowest == 0.0)
