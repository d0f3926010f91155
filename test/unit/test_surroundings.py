"""Does it stand a bad cache, a missing compiler, other processes, threads and forks?  Never a wrong result."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.engines.backend import lane_engine
from tinyphysics.context import QUICK, REWRITE_LIMIT
from tinyphysics.device import cache
from tinyphysics.device.host import cc
from tinyphysics.device.engines import engine
from tinyphysics.plan import Decision
from tinyphysics.runtime.stages import compiled
from tinyphysics.runtime.engines import plans
from tinyphysics.runtime.engines.backend import engine_for

START = dict(q=[1.0, 0.0], p=[0.0, 1.2])


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


def expected():
    return tp.compile(kepler, dt=0.01, backend="python").evolve(steps=20, **START).hash


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """An empty cache directory, and a process that remembers nothing."""
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(tmp_path / "cache"))
    forget()
    yield tmp_path / "cache"
    forget()


def forget():
    engine_for.cache_clear()
    plans.forget()


def run(backend="llvm"):
    forget()
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
    from tinyphysics.runtime.engines.loaders import LlvmLoader
    from tinyphysics.device.host.processor import named
    from processors import HERE

    program = tp.compile(kepler, dt=0.01).tpir
    arrays = {k: np.array([v]) for k, v in START.items()}
    for cpu in (None, *map(named, HERE)):
        before = len(list(fresh.iterdir())) if fresh.exists() else 0
        lane_engine(program, LlvmLoader(cpu)).start(arrays, {"mu": np.ones(1)}, 1, 0.01, 0.0)
        assert len(list(fresh.iterdir())) > before


# --- plans ------------------------------------------------------------------------------------------
def origins(system=kepler, start=START, **options):
    """Where a run has its plan and its code from."""
    return tp.compile(system, **{"dt": 0.01, **options}).evolve(steps=2, **start).metrics["cache"]


def test_a_plan_is_made_once_then_read_then_remembered(fresh):
    assert origins() == {"plan": "made", "code": "made"}
    assert origins() == {"plan": "memory", "code": "memory"}
    forget()
    assert origins() == {"plan": "disk", "code": "disk"}


def test_a_plan_that_is_known_is_not_made_again_for_a_run(fresh, monkeypatch):
    wanted = run()
    monkeypatch.setattr(compiled, "build", lambda *_: pytest.fail("analysed again"))
    monkeypatch.setattr(cache, "write", lambda *_: pytest.fail("compiled again"))
    assert run() == wanted


@pytest.mark.parametrize(
    "options",
    [
        dict(scale="auto"),
        dict(precision="float32"),
        dict(order=4, precision="float32"),
        dict(scale="auto", precision="float32"),
    ],
    ids=str,
)
def test_plans_in_other_units_and_precisions_are_found_again(fresh, monkeypatch, options):
    """With all that a run asks of them: units, the format of the states, whether there is a clock, weights of stages."""

    @tp.hamiltonian
    def driven(q, p, t, k: float = 1.0):
        return p**2 / 2 + k * q**4 / 4 - q * tp.cos(t)

    def both():
        forget()
        sim = tp.compile(driven, dt=0.01, **options)
        start = dict(q=np.linspace(0.5, 1.5, 9), p=np.zeros(9))
        out = sim.evolve(steps=60, save_every=2, observe={"q2": lambda q: q * q}, **start)
        refused = []
        for wrong in (dict(dt=1e-300), dict(t0=1e9)):
            try:
                refused.append(sim.evolve(steps=1, **start, **wrong).hash)
            except tp.InputError as error:
                refused.append(str(error))
        return out.hash, out.final.q.dtype, out["q2"].tolist(), refused, out.metrics["cache"]["plan"]

    *first, made = both()
    monkeypatch.setattr(compiled, "build", lambda *_: pytest.fail("analysed again"))
    *again, found = both()
    assert first == again and (made, found) == ("made", "disk")
    assert any("out of the range" in str(x) or "cannot be stored" in str(x) for x in first[3])


def test_what_is_said_of_a_known_plan_is_what_is_said_of_a_new_one(fresh):
    def said():
        forget()
        sim = tp.compile(kepler, dt=0.01, order=4)
        levels = [sim.ir(level) for level in ("uop", "tpir", "kernel", "llvm", "asm", "c")]
        return [repr(sim), sim.explain("full"), sim.certificate, sim.cite(), sim.tpir, *levels], sim

    first, new = said()
    again, known = said()
    assert new.compiled.found == "made" and known.compiled.found == "disk"
    assert first == again


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{}", b'{"program": 1}', b"no json", b"\xff"])
@pytest.mark.parametrize("kind", ["plan", "kernel", "note"])
def test_an_entry_that_is_not_what_it_should_be_is_made_again(fresh, kind, body):
    run()
    (file,) = fresh.glob(f"*.{kind}")
    cache.write(file.name, body)  # with a checksum that fits
    assert run() == expected()
    assert run() == expected()


def test_a_plan_for_a_backend_that_does_not_exist_is_made_again(fresh):
    run()
    (file,) = fresh.glob("*.plan")
    cache.write(file.name, cache.read(file.name).replace(b"llvm", b"abacus"))
    assert run() == expected()


def test_a_plan_whose_object_is_gone_is_compiled_again(fresh):
    run()
    for file in fresh.glob("*.o"):
        file.unlink()
    assert run() == expected()
    assert list(fresh.glob("*.o"))


def test_another_version_of_this_package_has_other_plans(fresh, monkeypatch):
    origins()
    forget()
    monkeypatch.setattr(plans, "sources", lambda: "another text")
    assert origins() == {"plan": "made", "code": "disk"}  # the same text of the same module


def test_a_package_whose_text_changed_since_it_was_imported_has_no_plans(fresh, monkeypatch):
    monkeypatch.setattr(plans, "BEGAN", 0.0)
    plans.sources.cache_clear()
    try:
        assert origins()["plan"] == origins()["plan"] == "made"
        assert run() == expected() and not list(fresh.glob("*.plan"))
    finally:
        plans.sources.cache_clear()


def test_a_plan_that_says_another_program_is_found_out(fresh):
    run()
    (file,) = fresh.glob("*.plan")
    text = cache.read(file.name)
    cache.write(file.name, text.replace(b'"program": "', b'"program": "0'))
    forget()
    with pytest.raises(tp.StoreError, match="another program"):
        tp.compile(kepler, dt=0.01, backend="llvm").explain("full")


def test_run_time_values_do_not_decide_a_plan():
    def spring(k):
        def H(q, p, k: float = k):
            return p**2 / 2 + k * q**2 / 2

        return tp.hamiltonian(H)

    first, second = spring(1.0), spring(2.0)
    assert plans.plan_key(first, plans.Goal(0.01), "auto") == plans.plan_key(second, plans.Goal(0.5), "auto")


def test_what_decides_a_plan_is_in_its_key():
    @tp.hamiltonian
    def base(q, p, k: float = 1.0):
        return p**2 / 2 + k * q**2 / 2

    @tp.hamiltonian
    def constant(q, p, k: float = 1.0):
        return p**2 / 2 + k * q**2 / 2.0000000000000004

    @tp.hamiltonian
    def sign(q, p, k: float = 1.0):
        return p**2 / 2 + k * q**2 / -2

    @tp.hamiltonian
    def named(q, p, s: float = 1.0):
        return p**2 / 2 + s * q**2 / 2

    @tp.hamiltonian
    def states(x, v, k: float = 1.0):
        return v**2 / 2 + k * x**2 / 2

    @tp.hamiltonian
    def shaped(q: tp.Vec[1], p: tp.Vec[1], k: float = 1.0):
        return (p[0] ** 2) / 2 + k * q[0] ** 2 / 2

    @tp.hamiltonian
    def timed(q, p, t, k: float = 1.0):
        return p**2 / 2 + k * q**2 / 2

    @tp.hamiltonian(pairs=[("p", "q")])
    def turned(q, p, k: float = 1.0):
        return p**2 / 2 + k * q**2 / 2

    @tp.map
    def swap(x, y):
        return y, x

    @tp.map
    def exchange(x, y):  # its program has another name
        return y, x

    goal = plans.Goal(0.01)
    systems = [swap, exchange, base, constant, sign, named, states, shaped, timed, turned]
    keys = [plans.plan_key(s, goal, "auto") for s in systems]
    keys += [
        plans.plan_key(base, plans.Goal(0.01, **o), "auto")
        for o in (
            dict(method="rk4"),
            dict(order=4),
            dict(forbid=("leapfrog_kdk",)),
            dict(precision="float32"),
            dict(scale="auto"),
            dict(approximate=1e-3),
            dict(precision="lattice"),
            dict(inner=(3,)),
            dict(propagator="exact"),
            dict(precision="lattice", lattice=(("q", 0.5),)),
            dict(precision="lattice", backwards=True),
            dict(energy_drift=1e-6),
            dict(error=1e-6),
            dict(method="taylor", tolerance=1e-9),
            dict(method="radau", absolute=1e-9),
            dict(math="fast"),
            dict(stiff=10.0),
            dict(more=(("cut", "x"),)),
            dict(project=(("energy", "x"),)),
            dict(decision=Decision("yoshida4", 0.1, 1e-7, None, 1.0, 1.0, None)),
        )
    ]
    known = {
        "more",
        "dt",
        "method",
        "order",
        "forbid",
        "precision",
        "scale",
        "approximate",
        "inner",
        "lattice",
        "backwards",
        "energy_drift",
        "error",
        "decision",
        "propagator",
        "hierarchy",
        "tolerance",
        "absolute",
        "stiff",
        "project",
        "math",
        "spectrum",
    }
    assert {f.name for f in fields(plans.Goal)} == known
    keys += [plans.plan_key(base, goal, "numpy")]
    with REWRITE_LIMIT(100):
        keys += [plans.plan_key(base, goal, "auto")]
    assert None not in keys and len(set(keys)) == len(keys)


def test_a_user_operation_is_looked_at_every_time(fresh):
    def moved(factor):
        twice = tp.op("scaled_here", lambda x: x * factor, lambda x: (0 * x + factor,))

        @tp.hamiltonian
        def H(q, p):
            return p**2 / 2 + twice(q)

        assert plans.plan_key(H, plans.Goal(0.1), "auto") is None
        return tp.compile(H, dt=0.1).evolve(q=0.0, p=0.0, steps=1).final.p

    assert moved(1.0) == pytest.approx(-0.1) and moved(2.0) == pytest.approx(-0.2)


def test_lines_are_those_of_the_function_that_was_compiled(fresh):
    def wave(q, p):
        return p**2 / 2 + tp.exp(q)

    first = tp.compile(tp.hamiltonian(wave), dt=0.1)

    def wave(q, p):
        return p**2 / 2 + tp.exp(q)

    again = tp.compile(tp.hamiltonian(wave), dt=0.1)
    assert (first.compiled.found, again.compiled.found) == ("made", "memory")
    line = f"test_surroundings.py:{wave.__code__.co_firstlineno + 1}"
    assert line in again.ir("tpir") and line not in first.ir("tpir")


def test_observables_are_found_again(fresh):
    def look():
        forget()
        out = tp.compile(kepler, dt=0.01).evolve(steps=5, observe={"r": lambda q: tp.norm(q)}, **START)
        return out["r"].tolist(), out.metrics["cache"]["code"]

    (first, made), (again, found) = look(), look()
    assert first == again and (made, found) == ("made", "disk")


# --- code that is made quickly ----------------------------------------------------------------------
@pytest.mark.parametrize("members", [1, 3, 40])
def test_quick_code_and_fast_code_give_the_same_bits(members, monkeypatch):
    """Also where a run begins with the one and ends with the other, and where arguments leave the fast path."""

    @tp.hamiltonian
    def rotor(q, p):
        return p**2 / 2 - tp.cos(q) + tp.exp(-q * q) * tp.sin(3 * q)

    q, p = np.linspace(-2.0, 2.0, members), np.linspace(1.0, 2.0, members)
    q[-1], p[-1] = 1.0, 2.0**31  # its sines need the careful section
    hashes = set()
    for quick, most in ((0, 0.0), (1, 1e9), (1, 3_000.0 * members)):
        monkeypatch.setattr(engine, "QUICK_WORK", most)
        engine_for.cache_clear()
        with QUICK(quick):
            hashes.add(tp.compile(rotor, dt=0.01).evolve(q=q, p=p, steps=200, save_every=10).hash)
    assert hashes == {tp.compile(rotor, dt=0.01, backend="python").evolve(q=q, p=p, steps=200).hash}


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


@pytest.mark.slow("caches are shared")
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
    jobs = [
        subprocess.Popen([sys.executable, str(file)], env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
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
        assert (
            tp.load(tmp_path / "saved.json").evolve(steps=9, **start).hash
            == sim.evolve(steps=9, **start).hash
        )


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
    with pytest.raises(tp.StoreError, match="different bits"):
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
