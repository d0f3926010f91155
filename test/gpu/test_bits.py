"""Does a real GPU give the bits of this processor?  The acceptance suite: `make test-gpu`."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import tinyphysics as tp
from bits_there import HERE, same
from test_loops import SYSTEMS, carried, cluster, pendulums, ring, shifted, start_of
from test_near import lennard_jones
from test_parity import SUITE, ensemble, henon_heiles, kepler, pendulum, torture, trig
from test_rounded import sharp
from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda import rows as cuda_rows
from tinyphysics.errors import PlanError
from tinyphysics.physics.particles import cold_sphere, gravity, plummer
from tinyphysics.planner.methods.catalog import METHODS
from tinyphysics.runtime.engines import cuda as loading
from tinyphysics.runtime.engines import estimates
from tinyphysics.runtime.engines.backend import engine_for

SWING, ORBIT, TRAPPED = (
    dict(q=1.0, p=0.3),
    dict(q=[1.0, 0.0], p=[0.0, 1.2]),
    dict(q=[0.1, 0.2], p=[0.3, -0.1]),
)


# --- ensembles --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("precision", ["float64", "float32", "compensated", "dd", "lattice"])
@pytest.mark.parametrize("name", SUITE)
def test_ensembles_of_every_precision(gpu, name, precision):
    system, options, start = SUITE[name]
    options = options | dict(precision=precision)
    try:
        tp.compile(system, **options)
    except PlanError:
        pytest.skip(f"{name} has no {precision}")
    same(system, options, ensemble(start, gpu.members(1000)), steps=gpu.steps(40), hash_every=4, save_every=2)


@pytest.mark.parametrize("members", [1, 2, 31, 33, 127, 129, 4097, 100_003])
def test_ensembles_of_every_size(gpu, members):
    same(pendulum, dict(dt=0.1), ensemble(SWING, gpu.members(members)), steps=gpu.steps(100))


@pytest.mark.parametrize("method", [m.name for m in METHODS])
def test_every_method(gpu, method):
    options = dict(dt=0.05, method=method)
    try:
        tp.compile(henon_heiles, **options)
    except PlanError as error:
        pytest.skip(str(error.what))
    same(
        henon_heiles,
        options,
        ensemble(TRAPPED, gpu.members(300)),
        steps=gpu.steps(20),
        save_every=2,
        hash_every=2,
    )


def test_a_hash_is_that_of_the_virtual_machine(gpu):
    runs = [
        tp.compile(kepler, dt=0.02, backend=b).evolve(**ORBIT, steps=gpu.steps(200))
        for b in ("cuda", "python")
    ]
    assert runs[0].hash == runs[1].hash


def test_neither_the_grid_nor_the_members_of_a_thread_change_a_bit(gpu, monkeypatch):
    start = ensemble(dict(q=[0.4, 0.5], p=[0.3, -0.7]), gpu.members(5000))
    hashes = set()
    for threads, waves, full in ((128, 32, 2048), (32, 1, 2048), (256, 4, 1), (64, 1, 1)):
        monkeypatch.setattr(cuda_rows, "THREADS", threads)
        monkeypatch.setattr(cuda_rows, "WAVES", waves)
        monkeypatch.setattr(loading, "FULL", full)
        hashes.add(tp.compile(trig, dt=0.05, backend="cuda").evolve(**start, steps=gpu.steps(50)).hash)
    assert len(hashes) == 1


# --- numbers of every kind --------------------------------------------------------------------------------
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_arguments_that_are_too_large_for_the_fast_path(gpu, precision):
    start = ensemble(SWING, gpu.members(1000) + 6)
    start["q"][:6] = [1e12, -3e15, 1e22, 1e5, 7e9, -1e18]
    same(
        pendulum,
        dict(dt=0.1, precision=precision),
        start,
        steps=gpu.steps(30),
        observe={"c": lambda q: tp.cos(q)},
    )


def test_arguments_reduced_by_payne_and_hanek(gpu):
    size = 10.0 ** np.linspace(-5, 308, gpu.members(4000))
    same(torture, dict(dt=1e-9), dict(q=size, p=np.zeros_like(size)), steps=gpu.steps(10))


def test_subnormal_numbers_are_kept(gpu):
    @tp.map
    def halve(x):
        return x / 2

    out = same(halve, {}, dict(x=np.array([2.0**-1040, 3.0 * 2.0**-1060, 1.0, 5e-324])), steps=4)
    assert out.final.x[0] == 2.0**-1044 != 0.0
    single = same(halve, dict(precision="float32"), dict(x=np.array([2.0**-140, 1.0])), steps=4)
    assert single.final.x[0] == 2.0**-144 != 0.0


def test_members_that_fail_are_named_and_the_others_go_on(gpu):
    start = ensemble(ORBIT, gpu.members(500) + 3)
    for k in (1, 2):
        start["q"][k], start["p"][k] = 0.0, 0.0
    out = same(kepler, dict(dt=0.02), start, steps=gpu.steps(60), save_every=2, hash_every=2)
    assert out.stopped.member == 1 and out.metrics["not_finite"] == 2


def test_random_draws(gpu):
    @tp.map
    def walk(x, y):
        return x + tp.random.normal(), tp.where(
            tp.random.uniform() < 0.5, y + 1, y - tp.random.integers(1, 7)
        )

    n = gpu.members(2000)
    same(walk, {}, dict(x=np.zeros(n), y=np.zeros(n)), steps=gpu.steps(50), save_every=2, seed=7)


def test_parameters_of_each_member_and_observables(gpu):
    n = gpu.members(777)
    how = dict(
        observe={"r": lambda q: tp.norm(q), "E": "energy"},
        observe_every=2,
        save_every=2,
        mu=np.linspace(0.9, 1.1, n),
    )
    same(kepler, dict(dt=0.02), ensemble(ORBIT, n), steps=gpu.steps(100), **how)


@pytest.mark.parametrize("precision", ["float64", "dd"])
def test_a_checkpoint_goes_on_there_and_here(gpu, tmp_path, precision):
    options, start, half = dict(dt=0.1, precision=precision), ensemble(SWING, gpu.members(321)), gpu.steps(20)
    whole = same(pendulum, options, start, steps=2 * half)
    tp.compile(pendulum, backend="cuda", **options).evolve(**start, steps=half, checkpoint=tmp_path / "half")
    for backend in HERE:
        on = tp.compile(pendulum, backend=backend, **options).evolve(resume=tmp_path / "half", steps=half)
        assert on.hash == whole.hash


# --- arrays -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("system", [*SYSTEMS, ring, pendulums, carried], ids=lambda s: s.name)
def test_loop_nests(gpu, system):
    n = 200 if gpu.real else 33
    state, params = start_of(system, n)
    options = dict(sizes={"n": n}) | ({} if system in (shifted, carried) else {"dt": 0.01})
    steps = gpu.steps(30) if gpu.real or system is not cluster else 1
    same(system, options, state | params, steps=steps, t0=0.25)


def test_many_pairs(gpu):
    n = 2048 if gpu.real else 34
    state, params = start_of(cluster, n)
    same(cluster, dict(dt=0.01, sizes={"n": n}), state | params, steps=2 if gpu.real else 1)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_many_pairs_are_the_same_with_and_without_estimates(gpu, monkeypatch, precision):
    """Masses that are zero and points that are far away are done again."""
    n = gpu.members(3000)
    rng = np.random.default_rng(0)
    m = np.where(np.arange(n) % 5, rng.uniform(1, 2, n), 0.0) + 1e-30 * (np.arange(n) % 7 == 0)
    q = rng.normal(size=(n, 3)) * 2.0 ** (np.arange(n) % 40 - 20)[:, None]
    for serves in (True, False):
        monkeypatch.setattr(loading, "serve", lambda device, serves=serves: serves)
        engine_for.cache_clear()
        same(
            sharp,
            dict(dt=1e-30, sizes={"n": n}, precision=precision),
            dict(q=q, p=np.zeros((n, 3)), m=m),
            steps=2,
        )
    engine_for.cache_clear()


def test_the_estimates_of_this_device_serve(gpu, tmp_path, monkeypatch):
    """All of them are looked at; where they do not, sums over pairs of float32 are slower and this fails, so that we hear of it."""
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(tmp_path))
    if gpu.real:
        estimates.serve.cache_clear()
        assert estimates.serve(cuda.device())


def test_neighbours(gpu):
    side = 12 if gpu.real else 4
    rng = np.random.default_rng(1)
    lines = (np.arange(side) + 0.5) * 1.5
    q = np.stack(np.meshgrid(lines, lines, lines, indexing="ij"), -1).reshape(-1, 3) + 0.05 * rng.normal(
        size=(side**3, 3)
    )
    box = np.full(3, 1.5 * side if gpu.real else 8.0)
    same(
        lennard_jones,
        dict(dt=0.005),
        dict(q=q, p=rng.normal(size=q.shape), box=box),
        steps=gpu.steps(60),
        save_every=2,
    )


@pytest.mark.parametrize(
    ("n", "method"), [(9, "leapfrog"), (70, "leapfrog_dkd"), (5003, "leapfrog"), (70_000, "yoshida4")]
)
def test_forces_through_a_tree(gpu, n, method):
    start = plummer(n if gpu.real else min(n, 70), seed=1)
    options = dict(dt=0.02, approximate=1e-3, method=method)
    out = same(gravity, options, start, softening=0.1, steps=gpu.steps(6), save_every=2)
    ours = tp.compile(gravity, backend="llvm", **options).evolve(
        **start, softening=0.1, steps=gpu.steps(6), save_every=2
    )
    assert out.metrics["approximate"] == ours.metrics["approximate"]


def test_trees_of_several_members_and_a_checkpoint(gpu, tmp_path):
    n = 3000 if gpu.real else 40
    starts = [plummer(n, seed=1), cold_sphere(n, seed=2)]
    start = {name: np.stack([s[name] for s in starts]) for name in ("q", "p")} | {
        "m": starts[0]["m"],
        "softening": 0.1,
    }
    whole = same(gravity, dict(dt=0.02, approximate=1e-3), start, steps=8)
    sim = tp.compile(gravity, dt=0.02, approximate=1e-3, backend="cuda")
    sim.evolve(**start, steps=5, checkpoint=tmp_path / "c")
    assert sim.evolve(resume=tmp_path / "c", steps=3).hash == whole.hash


# --- the device -------------------------------------------------------------------------------------------
def test_what_a_run_moves_does_not_grow_with_its_steps(gpu):
    sim, start = tp.compile(pendulum, dt=0.1, backend="cuda"), ensemble(SWING, gpu.members(1000))
    runs = [sim.evolve(**start, steps=n) for n in (10, 10 * gpu.steps(20))]
    assert runs[0].metrics["bytes_moved"] == runs[1].metrics["bytes_moved"] > 0


def test_machine_code_is_found_again(gpu, tmp_path, monkeypatch):
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(tmp_path))
    ptx = tp.compile(pendulum, dt=0.1).ir("ptx")
    assert cuda.load(ptx, ["step"])[1] is False
    (step,), found = cuda.load(ptx, ["step"])
    assert found and 0 < step.registers <= 255


def test_too_much_memory_is_said_and_the_device_goes_on(gpu):
    free, whole = cuda.memory()
    assert 0 < free <= whole
    with pytest.raises(cuda.DeviceError, match=r"cannot allocate .* MiB more: .* MiB are free") as error:
        cuda.Buffer(whole + 2**20)
    assert error.value.code == cuda.OUT_OF_MEMORY
    same(pendulum, dict(dt=0.1), ensemble(SWING, 5), steps=3)


def test_a_text_that_is_no_ptx_is_refused_in_the_words_of_the_assembler(gpu):
    ptx = tp.compile(pendulum, dt=0.1).ir("ptx")
    with pytest.raises(cuda.DeviceError, match="did not assemble the kernel"):
        cuda.load(ptx + "nonsense", ["step"])


def test_a_clock_of_the_device_runs(gpu):
    with cuda.Timer() as timer:
        tp.compile(pendulum, dt=0.1, backend="cuda").evolve(
            **ensemble(SWING, gpu.members(1000)), steps=gpu.steps(100)
        )
    assert timer.milliseconds > 0


def test_threads_share_the_device(gpu):
    start, hashes = ensemble(SWING, gpu.members(500)), []

    def work():
        hashes.append(tp.compile(pendulum, dt=0.1, backend="cuda").evolve(**start, steps=gpu.steps(50)).hash)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(hashes) == 4 and len(set(hashes)) == 1


SECOND = """
import numpy as np, tinyphysics as tp
from tinyphysics.physics.zoo import pendulum
start = dict(q=np.linspace(-1, 1, 20_000), p=np.zeros(20_000))
print(tp.compile(pendulum, dt=0.1, backend="{}").evolve(**start, steps=2000).hash)
"""


def test_a_second_process_on_the_device_does_no_harm(gpu):
    if not gpu.real:
        pytest.skip("another process has no fake driver")
    several = [
        subprocess.Popen([sys.executable, "-c", SECOND.format(b)], stdout=subprocess.PIPE, text=True)
        for b in ("cuda", "cuda", "llvm")
    ]
    out = [p.communicate(timeout=300)[0].strip() for p in several]
    assert len(set(out)) == 1 and out[0]
