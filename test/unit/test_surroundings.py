"""Does it stand a bad cache, a missing compiler, other processes, threads and forks?  Never a wrong result."""
from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.device import cache, cc
from tinyphysics.runtime.backend import engine_for

START = dict(q=[1.0, 0.0], p=[0.0, 1.2])


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


def expected():
    return tp.compile(kepler, dt=0.01, backend="python").evolve(steps=20, **START).hash


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """An empty cache directory, and engines that have not been built."""
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(tmp_path / "cache"))
    engine_for.cache_clear()
    yield tmp_path / "cache"
    engine_for.cache_clear()


def run(backend="llvm"):
    engine_for.cache_clear()
    return tp.compile(kepler, dt=0.01, backend=backend).evolve(steps=20, **START).hash


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_objects_are_kept_and_found_again(fresh, backend, monkeypatch):
    assert run(backend) == expected()
    files = sorted(fresh.iterdir())
    assert files
    monkeypatch.setattr(cache, "write", lambda *_: pytest.fail("compiled again"))
    assert run(backend) == expected()


def test_the_cache_is_private(fresh):
    run()
    assert fresh.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_a_damaged_object_is_compiled_again(fresh, backend, damage):
    run(backend)
    for file in fresh.iterdir():
        body = file.read_bytes()
        file.write_bytes(body[: len(body) // 2] if damage is None else damage)
    assert run(backend) == expected()


def test_a_cache_of_another_owner_or_open_to_others_is_not_used(fresh):
    run()
    fresh.chmod(0o777)
    assert cache.directory() is None
    assert run() == expected()


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(tmp_path / "file"))
    assert cache.directory() is None
    assert run() == expected()


def test_a_full_disk_costs_nothing_but_time(fresh, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.tempfile, "mkstemp", full)
    assert run() == expected()


def test_the_cache_forgets_the_oldest_first(fresh, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT", 3_000)
    for k in range(5):
        cache.write(f"key{k}", bytes(1_000))
        os.utime(fresh / f"key{k}", (k, k))
    left = sorted(p.name for p in fresh.iterdir())
    assert "key0" not in left and "key4" in left


def test_an_object_for_another_processor_has_another_name(fresh):
    from tinyphysics.runtime.loaders import LlvmLoader
    from tinyphysics.device.engine import KernelEngine
    from tinyphysics.device.llvm import Cpu, host_cpu

    host = host_cpu()
    program = tp.compile(kepler, dt=0.01).tpir
    arrays = {k: np.array([v]) for k, v in START.items()}
    for cpu in (host, Cpu(host.name, host.features + ",+slow", host.triple)):
        before = len(list(fresh.iterdir())) if fresh.exists() else 0
        KernelEngine(program, LlvmLoader(cpu)).start(arrays, {"mu": np.ones(1)}, 1, 0.01, 0.0)
        assert len(list(fresh.iterdir())) > before


def test_a_missing_compiler_is_an_error_that_says_so(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(cc, "find_spec", lambda name: None)
    cc.compiler.cache_clear()
    try:
        with pytest.raises(tp.BackendError, match="no C compiler"):
            cc.compiler()
    finally:
        cc.compiler.cache_clear()


def test_a_compiler_that_fails_is_an_error_with_its_words(fresh, monkeypatch, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'internal compiler error' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(cc, "compiler", lambda: (str(broken),))
    cc.version.cache_clear()
    with pytest.raises(tp.BackendError, match="internal compiler error"):
        run("c")
    cc.version.cache_clear()


def test_two_processes_compiling_the_same_thing_agree(tmp_path):
    code = textwrap.dedent("""
        import tinyphysics as tp
        @tp.hamiltonian
        def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
            return p @ p / 2 - mu / tp.norm(q)
        print(tp.compile(kepler, dt=0.01).evolve(steps=20, q=[1.0, 0.0], p=[0.0, 1.2]).hash)
    """)
    file = tmp_path / "both.py"
    file.write_text(code)
    source = str(Path(tp.__file__).parents[1])
    env = os.environ | {"TINYPHYSICS_CACHE": str(tmp_path / "cache"), "PYTHONPATH": source}
    jobs = [subprocess.Popen([sys.executable, str(file)], env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert {job.communicate()[0].strip() for job in jobs} == {expected()}


@pytest.mark.requirement("S4-07")
def test_eight_threads_compile_and_run_the_same_thing():
    """The graph is shared and immutable; a lock is held while nodes are made and objects built, not in a run."""

    def one(k):
        sim = tp.compile(kepler, dt=0.01, order=2 if k % 2 else 4)
        return k % 2, sim.evolve(steps=20, **START).hash, str(sim.tpir)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(one, range(16)))
    assert len(set(results)) == 2


def child(queue, sim):
    queue.put(sim.evolve(steps=20, **START).hash)


def test_a_forked_process_can_run_what_its_parent_compiled():
    sim = tp.compile(kepler, dt=0.01)
    sim.evolve(steps=1, **START)
    context = get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue, sim))
    process.start()
    assert queue.get(timeout=60) == expected()
    process.join(60)


# --- simulations that outlive their process ----------------------------------------------------------
def test_simulations_and_trajectories_can_be_pickled():
    sim = tp.compile(kepler, dt=0.01)
    out = sim.evolve(steps=20, save_every=5, **START)
    again, twin = pickle.loads(pickle.dumps(sim)), pickle.loads(pickle.dumps(out))
    assert again.evolve(steps=20, **START).hash == out.hash == twin.hash
    assert np.array_equal(twin.energy, out.energy)
    assert twin.drift("energy") == out.drift("energy")


def reach(q):
    return tp.norm(q)


def test_a_monitor_that_cannot_be_pickled_is_named():
    sim = tp.compile(kepler, dt=0.01)
    sim.monitor(reach)
    again = pickle.loads(pickle.dumps(sim))
    assert np.array_equal(again.evolve(steps=5, **START)["reach"], sim.evolve(steps=5, **START)["reach"])
    sim.monitor(lambda q: q[0], name="left")
    with pytest.raises(tp.StoreError, match="monitor `left` cannot be pickled") as caught:
        pickle.dumps(sim)
    assert "observe=" in caught.value.fix
    twin = copy.deepcopy(sim)  # a copy stays in this process
    twin.monitor(reach, name="far")
    assert "left" in twin.monitors and "far" not in sim.monitors


def test_letter_sizes_are_pickled_once_they_are_bound():
    @tp.hamiltonian
    def gas(q: tp.Array["n", 2], p: tp.Array["n", 2]):
        return (p**2).sum() / 2 + (q**2).sum() / 2

    sim = tp.compile(gas, dt=0.1)
    with pytest.raises(tp.ShapeError, match="its size n is unknown"):
        pickle.dumps(sim)
    start = dict(q=np.ones((3, 2)), p=np.zeros((3, 2)))
    out = sim.evolve(steps=5, **start)
    assert pickle.loads(pickle.dumps(sim)).evolve(steps=5, **start).hash == out.hash


@pytest.mark.parametrize("options", [dict(dt=0.01), dict(dt=0.01, method="rk4"), dict(dt=0.01, order=8)])
def test_a_saved_simulation_gives_the_same_bits(tmp_path, options):
    sim = tp.compile(kepler, **options)
    sim.save(tmp_path / "kepler.json")
    again = tp.load(tmp_path / "kepler.json")
    assert again.tpir == sim.tpir
    assert again.evolve(steps=20, mu=1.1, **START).hash == sim.evolve(steps=20, mu=1.1, **START).hash


def test_maps_and_forces_can_be_saved(tmp_path):
    @tp.map
    def henon(x, y, a: float = 1.4):
        return 1 - a * x * x + y, 0.3 * x

    @tp.forces
    def spring(q: tp.Vec[2], k: float = 2.0):
        return -k * q

    for system, options, start in ((henon, {}, dict(x=0.1, y=0.1)), (spring, dict(dt=0.1), START)):
        sim = tp.compile(system, **options)
        sim.save(tmp_path / "saved.json")
        assert tp.load(tmp_path / "saved.json").evolve(steps=9, **start).hash == sim.evolve(steps=9, **start).hash


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"tinyphysics": 99}', '{"tinyphysics": 1}', "not json"])
def test_a_file_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(tp.StoreError):
        tp.load(tmp_path / "bad.json")


def test_a_file_whose_program_has_changed_is_refused(tmp_path):
    sim = tp.compile(kepler, dt=0.01)
    sim.save(tmp_path / "kepler.json")
    text = (tmp_path / "kepler.json").read_text().replace(sim.tpir.hash, "0" * 32)
    (tmp_path / "kepler.json").write_text(text)
    with pytest.raises(tp.StoreError, match="other bits"):
        tp.load(tmp_path / "kepler.json")


def test_an_unwritable_place_is_a_store_error(tmp_path):
    with pytest.raises(tp.StoreError):
        tp.compile(kepler, dt=0.01).save(tmp_path / "nowhere" / "kepler.json")
    with pytest.raises(tp.StoreError):
        tp.load(tmp_path / "missing.json")


def test_an_estimate_is_positive_and_grows_with_the_run():
    sim = tp.compile(kepler, dt=0.01)
    small, large = sim.estimate(steps=100_000), sim.estimate(steps=100_000, members=64)
    assert 0 < small["seconds"] < 60 and large["bytes"] > small["bytes"]
