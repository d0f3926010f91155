"""Is a large ensemble run as a small one?  In tiles: the same bits, stops, hashes and frames, and no second copy."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.device.engines.engine import ROOM, LaneEngine
from tinyphysics.device.host.threads import spread
from tinyphysics.errors import InputError
from tinyphysics.physics.zoo import kepler
from tinyphysics.runtime.stages import block, execute, loop
from tinyphysics.runtime.state import tiles, workers
from tinyphysics.runtime.state.digest import LEAF, state_hash
from tinyphysics.runtime.storage.resume import joined

MEMBERS = 3 * 8192 + 77  # three tiles of 8192, the last one longer: a hash has leaves of 8192 doubles


@tp.hamiltonian
def pendulum(q, p, g=1.0):
    return p**2 / 2 - g * tp.cos(q)


@tp.hamiltonian
def driven(q, p, t, a=0.3):
    return p**2 / 2 - tp.cos(q) - a * q * tp.cos(1.3 * t)


@tp.hamiltonian
def steep(q, p):
    """Runs away: the force grows as q**3."""
    return p**2 / 2 - q**4 / 4


@tp.map
def delayed(x, y, z):
    return y, z, 0.9 * x


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(LaneEngine, "room", 8192)


def start(system, members=MEMBERS):
    rng = np.random.default_rng(5)
    if system is kepler:
        return dict(
            q=rng.normal(size=(members, 2)) + [4.0, 0.0],
            p=rng.normal(size=(members, 2)),
            mu=rng.uniform(0.5, 2, members),
        )
    return {s.name: rng.uniform(-1, 1, members) for s in system.states}


def options_id(options):
    return " ".join(f"{k}={sorted(v) if isinstance(v, dict) else v}" for k, v in options.items()) or "plain"


def same_bits(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def same_runs(a, b):
    assert a.steps.tolist() == b.steps.tolist() and same_bits(a.t, b.t)
    for name in a.frames:
        assert same_bits(a.frames[name], b.frames[name]) and same_bits(a.final[name], b.final[name]), name
    assert (a.hash, a.hashes) == (b.hash, b.hashes)
    assert [(s.cause, s.step, s.t, s.member, s.where) for s in a.stops] == [
        (s.cause, s.step, s.t, s.member, s.where) for s in b.stops
    ]
    assert set(a.observed) == set(b.observed)
    for name in a.observed:
        assert same_bits(a[name], b[name]) and same_bits(a.times(name), b.times(name))


def evolve(system, backend="auto", **options):
    sim = tp.compile(system, None if system.kind == "map" else 0.05, backend=backend)
    return sim.evolve(**start(system), **options)


OPTIONS = [
    dict(steps=70),
    dict(steps=200, save_every=60, hash_every=50),
    dict(steps=40, save_every=1, observe={"x": lambda q: q * 2}),
    dict(steps=70, observe={"x": lambda q: q * 2}, observe_every=9, save_every=20),
    dict(steps=1),
    dict(steps=0),
]


# --- cutting -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("members", [1, 10**6, 10**6 + 1, 10**7, 10**7 + 8191])
@pytest.mark.parametrize("numbers", [1, 2, 7, 1000])
@pytest.mark.parametrize("itemsize", [4, 8])
def test_tiles_cover_every_member_once_and_no_leaf_lies_across_two(members, numbers, itemsize):
    parts = tiles.cut(members, numbers, itemsize, ROOM)
    assert parts[0].start == 0 and parts[-1].stop == members
    assert all(a.stop == b.start for a, b in zip(parts, parts[1:]))
    assert all(part.start * itemsize % 65536 == 0 for part in parts)
    sizes = {part.stop - part.start for part in parts[:-1]}
    assert len(sizes) <= 1 and all(
        part.stop - part.start <= max(ROOM // 4 // numbers, 2 * LEAF) for part in parts[1:]
    )


def test_the_last_tiles_are_small_so_that_threads_end_together():
    parts = tiles.cut(4_000_000, 2, 8, ROOM, 16)
    sizes = [part.stop - part.start for part in parts]
    assert parts[0].start == 0 and parts[-1].stop == 4_000_000
    assert all(a.stop == b.start and b.start * 8 % LEAF == 0 for a, b in zip(parts, parts[1:]))
    small = ROOM // 4 // tiles.SMALLEST
    assert sizes[0] == ROOM // 4 and small <= min(sizes[:-1]) and max(sizes[-16:]) < small + LEAF // 8
    assert sum(sizes[-16:]) < 0.07 * sum(sizes)
    # what Python does for a tile is done by one thread at a time
    assert len(sizes) <= 70


def test_the_virtual_machine_keeps_its_own_state():
    assert tiles.cut(10**7, 0, 8, 0) == [slice(0, 10**7)] and tiles.cut(0, 2, 8, ROOM) == []


# --- the same run --------------------------------------------------------------------------------------
@pytest.mark.parametrize("options", OPTIONS, ids=options_id)
@pytest.mark.parametrize("system", [pendulum, kepler, driven], ids=lambda s: s.name)
def test_tiles_change_no_bit(small_tiles, monkeypatch, system, options):
    tiled = evolve(system, threads=2, **options)
    alone = evolve(system, threads=1, **options)
    energy, drift = tiled.energy, tiled.drift("energy")
    monkeypatch.undo()
    whole = evolve(system, **options)
    same_runs(tiled, whole)
    same_runs(alone, whole)
    assert same_bits(energy, whole.energy) and same_bits(drift, whole.drift("energy"))


@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_tiles_change_no_bit_elsewhere(small_tiles, backend):
    same_runs(
        evolve(pendulum, backend, steps=3, save_every=2), evolve(pendulum, "llvm", steps=3, save_every=2)
    )


def test_what_a_loop_carries_beside_its_state_is_kept_too(small_tiles, monkeypatch):
    """A program with more registers than states: the extra rows have memory of their own."""
    options = dict(steps=200, hash_every=70)
    store, rows = tiles.store, []
    monkeypatch.setattr(
        "tinyphysics.runtime.stages.loop.store", lambda slots, n: rows.append(n) or store(slots, n + 3)
    )
    tiled = evolve(delayed, **options)
    assert rows == [3]
    monkeypatch.undo()
    same_runs(tiled, evolve(delayed, **options))


@pytest.mark.parametrize(
    "options",
    [
        dict(steps=150, save_every=5),
        dict(steps=150),
        dict(steps=150, save_every=40, hash_every=40),
        dict(steps=150, save_every=10, observe={"x": lambda q: q * 2}),
    ],
    ids=options_id,
)
def test_members_that_stop_in_a_tile_stop_as_they_do_alone(small_tiles, monkeypatch, options):
    q = np.full(MEMBERS, 0.01)
    q[[0, 5, 9000, 9001, MEMBERS - 1]] = [2.0, 3.0, 1.9, 4.0, 2.5]
    sim = tp.compile(steep, dt=0.1)
    tiled = sim.evolve(q=q, p=0.0, threads=2, **options)
    monkeypatch.undo()
    same_runs(tiled, sim.evolve(q=q, p=0.0, **options))
    assert [s.member for s in sorted(tiled.stops, key=lambda s: s.member)] == [0, 5, 9000, 9001, MEMBERS - 1]
    for s in tiled.stops:
        alone = sim.evolve(q=q[s.member], p=0.0, steps=150)
        assert (alone.stopped.step, alone.stopped.where) == (s.step, s.where)
        assert same_bits(tiled.final.q[s.member], alone.final.q)
        assert np.isnan(tiled.q[tiled.steps >= s.step, s.member]).all()


@pytest.mark.parametrize(
    "options", [dict(), dict(save_every=7), dict(save_every=1, observe={"x": lambda q: q})], ids=options_id
)
def test_a_tile_whose_members_have_all_stopped_leaves_the_others_alone(small_tiles, monkeypatch, options):
    q = np.full(MEMBERS, 0.01)
    q[8192:16384] = np.linspace(2.0, 3.0, 8192)
    sim = tp.compile(steep, dt=0.1)
    out = sim.evolve(q=q, p=0.0, steps=150, **options)
    monkeypatch.undo()
    same_runs(out, sim.evolve(q=q, p=0.0, steps=150, **options))
    assert len(out.stops) == 8192 and np.isnan(out.q[-1, 8192:16384]).all() and np.isfinite(out.final.q).all()


def test_an_ensemble_that_stops_altogether_ends_at_its_last_good_step(small_tiles, monkeypatch):
    q = np.linspace(2.0, 3.0, MEMBERS)
    sim = tp.compile(steep, dt=0.1)
    out = sim.evolve(q=q, p=0.0, steps=150, save_every=4, observe={"x": lambda q: q})
    monkeypatch.undo()
    same_runs(out, sim.evolve(q=q, p=0.0, steps=150, save_every=4, observe={"x": lambda q: q}))
    assert out.final.step == max(s.step for s in out.stops) - 1 and len(out["x"]) == out.final.step + 1


@tp.hamiltonian
def chain(q: tp.Vec[400], p: tp.Vec[400]):
    x = q[1:] - q[:-1]
    return (p**2).sum() / 2 + (x**2 / 2 + x**4 / 4).sum()


@pytest.mark.parametrize("members", [None, 3])
def test_loops_write_the_last_frame_where_it_belongs(monkeypatch, members):
    q = (
        np.sin(np.arange(400.0))
        if members is None
        else np.sin(np.arange(400.0 * members)).reshape(members, 400)
    )
    sim, given = tp.compile(chain, dt=0.01), {"q": q, "p": np.zeros_like(q)}
    at_once, shown = block.shown_at_once, []
    monkeypatch.setattr(block, "shown_at_once", lambda *a: shown.append(at_once(*a)) or shown[-1])
    out = sim.evolve(**given, steps=20, frames=2)
    assert shown == [True]
    monkeypatch.setattr(block, "shown_at_once", lambda *a: False)
    same_runs(out, sim.evolve(**given, steps=20, frames=2))


# --- Ctrl-C --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("call", [1, 2, 3, 5, 9])
def test_ctrl_c_in_a_tile_ends_the_run_with_the_block(small_tiles, monkeypatch, threads, call):
    sim = tp.compile(pendulum, dt=0.05)
    monkeypatch.setattr(LaneEngine, "block", lambda self, members: 64)
    monkeypatch.setattr(loop, "advance_together", lambda *block: None)  # test_passage.py has the others
    whole = sim.evolve(**start(pendulum), steps=64 * 3, frames=2)
    real, calls = LaneEngine.advance, []

    def advance(self, m, steps):
        calls.append(m)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGINT)
        real(self, m, steps)

    monkeypatch.setattr(LaneEngine, "advance", advance)
    out = sim.evolve(**start(pendulum), steps=64 * 10, threads=threads, frames=2)
    monkeypatch.setattr(LaneEngine, "advance", real)
    assert out.stopped.cause == "interrupted" and isinstance(out.stopped.error, KeyboardInterrupt)
    assert out.final.step == out.stopped.step == out.steps[-1] == 64 * -(-call // 3)
    assert out.hash == sim.evolve(**start(pendulum), steps=out.final.step).hash
    assert whole.final.step != out.final.step or out.hash == whole.hash


def test_ctrl_c_waits_for_what_must_be_whole_and_then_does_what_it_did():
    done = []
    with pytest.raises(KeyboardInterrupt):
        with workers.unbroken():
            signal.raise_signal(signal.SIGINT)
            done.append(1)
        done.append(2)
    assert done == [1] and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_in_a_thread_is_raised_here():
    def work(k):
        if k == 3:
            raise RuntimeError("three")
        return k

    with pytest.raises(RuntimeError, match="three"):
        spread(work, 8, 3)
    assert spread(lambda k: k * k, 9, 4) == [k * k for k in range(9)]


# --- frames inside the loop ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "options",
    [
        dict(save_every=1),
        dict(save_every=3),
        dict(save_every=4, observe={"x": lambda q: q}, observe_every=2),
        dict(save_every=2, observe={"x": lambda q: q}, observe_every=6),
        dict(save_every=2, hash_every=7, observe={"seen": lambda p: p}),
    ],
    ids=options_id,
)
@pytest.mark.parametrize("members", [None, 5])
@pytest.mark.parametrize("system", [pendulum, driven, steep], ids=lambda s: s.name)
def test_frames_saved_inside_the_loop_are_those_saved_one_by_one(monkeypatch, system, members, options):
    sim = tp.compile(system, dt=0.1)
    given = dict(q=0.5, p=0.1) if members is None else dict(q=np.linspace(0.1, 3.0, members), p=0.1)
    inside = sim.evolve(**given, steps=101, **options)
    monkeypatch.setattr(execute, "MANY_FRAMES", 10**9)
    same_runs(inside, sim.evolve(**given, steps=101, **options))
    assert (inside.stopped is None) == (system is not steep)


def test_many_frames_are_one_launch():
    sim = tp.compile(pendulum, dt=0.05, backend="llvm")
    assert sim.evolve(q=0.5, p=0.1, steps=10_000, save_every=1).metrics["launches"] <= 3


def test_a_late_failure_is_found_without_walking_there(monkeypatch):
    """The replay takes single steps only in the last stretch."""
    sim = tp.compile(steep, dt=0.001)
    out = sim.evolve(q=0.2, p=0.0, steps=10**6)
    assert out.stopped.step > 5_000
    calls, real = [], LaneEngine.advance
    monkeypatch.setattr(LaneEngine, "advance", lambda *a: calls.append(a) or real(*a))
    again = sim.evolve(q=0.2, p=0.0, steps=10**6)
    assert again.stopped.step == out.stopped.step and again.hash == out.hash
    assert len(calls) < 300 + out.stopped.step // 100


# --- what belongs to whom ----------------------------------------------------------------------------------
@pytest.mark.parametrize("members", [None, 4, MEMBERS])
def test_a_run_does_not_touch_its_input_and_its_frames_cannot_be_touched(small_tiles, members):
    q = np.full(members or (), 0.5)
    before = q.copy()
    out = tp.compile(pendulum, dt=0.05).evolve(
        q=q, p=0.1, steps=70, save_every=1 if members != MEMBERS else None
    )
    assert same_bits(q, before)
    q[...] = 7.0
    assert (out.q[0] == 0.5).all()
    for a in (out.q, *([out.final.q] if members else [])):
        with pytest.raises(ValueError, match="read-only"):
            a[...] = 0.0


def test_more_frames_than_memory_say_so():
    with pytest.raises(InputError, match="more than the available memory") as caught:
        tp.compile(pendulum, dt=0.05).evolve(q=0.5, p=0.1, steps=10**15, save_every=1)
    assert "save_every" in caught.value.fix


def test_a_hash_in_threads_is_the_hash():
    rng = np.random.default_rng(0)
    state = {"q": rng.normal(size=3 * 10**6), "p": rng.normal(size=(70_001, 3)), "x": np.float64(0.5)}
    state["p"][5] = np.nan
    assert state_hash(state, 3) == state_hash(state)


MEMORY = """
import resource, sys
import numpy as np
import tinyphysics as tp

@tp.hamiltonian
def pendulum(q, p, g=1.0):
    return p**2 / 2 - g * tp.cos(q)

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

members, options = int(sys.argv[1]), eval(sys.argv[2])
sim = tp.compile(pendulum, dt=0.05)
few = dict(q=np.linspace(-1, 1, 600_000), p=0.1)
sim.evolve(**few, steps=130, threads=2, **options)  # compiles, and takes the constant
given = dict(q=np.linspace(-1, 1, members), p=np.full(members, 0.1))
for _ in range(2):  # without this the arrays of the first run would pay for the second
    before = peak()
    out = sim.evolve(**given, steps=130, threads=2, **options)
print(before, peak(), out.final.step)
"""


@pytest.mark.thin(rows=1)
@pytest.mark.parametrize("frames, options", [(2, {}), (2, {"hash_every": 60}), (5, {"save_every": 33})])
def test_a_large_ensemble_needs_memory_for_its_frames_and_no_more(tmp_path, frames, options):
    members = 2 * 10**6
    file = tmp_path / "memory.py"
    file.write_text(textwrap.dedent(MEMORY))
    env = os.environ | {"PYTHONPATH": str(Path(tp.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, str(file), str(members), repr(options)],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    before, after, last = map(float, done.stdout.split())
    assert last == 130
    assert after - before < frames * 16 * members / 2**20 + 24, done.stdout


def test_tiles_are_joined_alike_by_any_number_of_threads():
    rng = np.random.default_rng(0)
    parts = [{"q": rng.normal(size=(n, 3)), "k": rng.integers(9, size=n)} for n in (70_000, 1, 40_000, 0)]
    for threads in (1, 3):
        found = joined(parts, threads)
        for name, v in found.items():
            assert v.dtype == parts[0][name].dtype
            assert (v == np.concatenate([p[name] for p in parts])).all()
