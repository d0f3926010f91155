"""Does a store hold the run?  The frames, observables and hashes that the run has, whole, and what reproduces them."""

import errno
import json
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import tracemalloc
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

import tinyphysics as tp
from here import HERE
from tinyphysics.errors import InputError, StoreError
from tinyphysics.runtime.storage import writer_thread as stream, zarr3
from tinyphysics.runtime.state import windows
from tinyphysics.runtime.state.digest import state_hash
from tinyphysics.runtime.storage.run_store import open_store

xarray = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")


@tp.hamiltonian
def kepler(q: Annotated[tp.Vec[2], "m"], p: Annotated[tp.Vec[2], "m/s"], mu: Annotated[float, "m3/s2"] = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def chain(q: tp.Vec["n"], p: tp.Vec["n"], k: tp.Vec["n"] = 1.0):
    stretch = tp.roll(q, -1) - q
    return tp.sum(p**2) / 2 + tp.sum(k * stretch**2) / 2 + tp.sum(stretch**4) / 4


@tp.hamiltonian
def steep(q, p):
    """Runs away: the force grows as q**3."""
    return p**2 / 2 - q**4 / 4


START = dict(q=[1.0, 0.0], p=[0.0, 1.2], mu=1.1)
LOOK = {"r": lambda q: tp.norm(q), "twice": lambda p: 2 * p}
RNG = np.random.default_rng(3)


def planet(**options):
    return tp.compile(kepler, dt=0.02, **options)


def same_bits(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def same_run(stored, kept):
    assert (
        same_bits(stored.t, kept.t)
        and same_bits(stored.steps, kept.steps)
        and (stored.hash, stored.hashes) == (kept.hash, kept.hashes)
    )
    for name in kept.frames:
        assert same_bits(stored.frames[name], kept.frames[name]), name
        assert same_bits(stored.final[name], kept.final[name]), name
    assert list(stored.observed) == list(kept.observed)
    for name in kept.observed:
        assert same_bits(stored[name], kept[name]) and same_bits(stored.times(name), kept.times(name)), name
    assert [(s.cause, s.step, s.member) for s in stored.stops] == [
        (s.cause, s.step, s.member) for s in kept.stops
    ]


def same_stores(a, b):
    """Array by array as zarr reads them, and all attributes but those of when it was written."""
    a, b = zarr.open_group(a, mode="r"), zarr.open_group(b, mode="r")
    assert sorted(a.array_keys()) == sorted(b.array_keys())
    for name in a.array_keys():
        assert same_bits(a[name][...], b[name][...]), name
    differing = {k for k in {*a.attrs, *b.attrs} if a.attrs.get(k) != b.attrs.get(k)}
    assert not differing, differing


@pytest.fixture
def small_windows(monkeypatch):
    """Many of them, and no waiting for the disk: these tests are not about power cuts."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(windows, "BYTES", 256)
    monkeypatch.setattr(windows, "FEW", 7)
    monkeypatch.setattr(zarr3, "CHUNK", 256)
    monkeypatch.setattr(zarr3, "LEAST", 3)


OPTIONS = [
    dict(steps=50),
    dict(steps=50, save_every=1),
    dict(steps=53, save_every=7, hash_every=10),
    dict(steps=0),
    dict(steps=1, save_every=3),
    dict(steps=50, save_every=3, observe=LOOK, observe_every=3),
    dict(steps=50, save_every=20, observe=LOOK),
    dict(steps=50, observe=LOOK, observe_every=9),
    dict(steps=200, save_every=2, observe=LOOK, observe_every=6),
]


def options_id(options):
    return " ".join(f"{k}={sorted(v) if isinstance(v, dict) else v}" for k, v in options.items())


# --- the same frames -----------------------------------------------------------------------------------
@pytest.mark.requirement("S1-48")
@pytest.mark.parametrize("options", OPTIONS, ids=options_id)
@pytest.mark.parametrize("small", [False, True], ids=["one window", "many windows"])
def test_a_store_holds_what_the_run_would_have_kept(tmp_path, request, small, options):
    if small:
        request.getfixturevalue("small_windows")
    kept = planet().evolve(**START, **options)
    stored = planet().evolve(**START, **options, save=tmp_path / "run.zarr")
    same_run(stored, kept)
    assert same_bits(stored.energy, kept.energy) and stored.drift("energy") == kept.drift("energy")
    group = zarr.open_group(tmp_path / "run.zarr", mode="r")
    assert same_bits(group["q"][...], kept.q) and same_bits(group["step"][...], kept.steps)
    for k, digest in enumerate(group["hash"][...]):
        assert digest.tobytes().hex() == state_hash({name: v[k] for name, v in kept.frames.items()})
    assert not writing()


def writing():
    """Is a thread of ours still there?"""
    return [t for t in threading.enumerate() if t.name == "tinyphysics store"]


@pytest.mark.parametrize("backend", HERE)
@pytest.mark.parametrize("precision", ["float64", "float32", "mixed", "compensated"])
def test_every_backend_writes_the_same_store(tmp_path, small_windows, backend, precision):
    if backend == "opencl" and precision != "float64":
        pytest.skip("refused")
    options = dict(
        q=np.sin(np.arange(40.0)),
        p=np.zeros(40),
        k=np.linspace(1, 2, 40),
        steps=20,
        save_every=3,
        observe={"x": lambda q: q[0]},
    )
    tp.compile(chain, dt=0.1, backend="llvm", precision=precision).evolve(**options, save=tmp_path / "a.zarr")
    tp.compile(chain, dt=0.1, backend=backend, precision=precision).evolve(
        **options, save=tmp_path / "b.zarr"
    )
    a, b = (zarr.open_group(tmp_path / n, mode="r") for n in ("a.zarr", "b.zarr"))
    for name in a.array_keys():
        assert same_bits(a[name][...], b[name][...]), name
    assert a["q"].dtype == {"compensated": "float32", "mixed": "float64"}.get(precision, precision)
    assert a.attrs["run"] == b.attrs["run"]


@pytest.mark.parametrize("options", OPTIONS, ids=options_id)
def test_ensembles_are_streamed_in_tiles(tmp_path, monkeypatch, small_windows, options):
    from tinyphysics.device.engines.engine import LaneEngine

    monkeypatch.setattr(LaneEngine, "room", 8192)
    monkeypatch.setattr(zarr3, "CHUNK", 1 << 16)
    members = 8192 * 2 + 5
    start = dict(
        q=RNG.normal(size=(members, 2)) + 4, p=RNG.normal(size=(members, 2)), mu=RNG.uniform(1, 2, members)
    )
    kept = planet().evolve(**start, **options)
    same_run(planet().evolve(**start, **options, save=tmp_path / "run.zarr"), kept)
    assert same_bits(zarr.open_group(tmp_path / "run.zarr", mode="r")["mu"][...], start["mu"])


@pytest.mark.parametrize(
    "options",
    [
        dict(steps=150, save_every=5),
        dict(steps=150),
        dict(steps=150, save_every=4, observe={"x": lambda q: q * 2}),
        dict(steps=150, save_every=30, observe={"x": lambda q: q * 2}, observe_every=7),
    ],
    ids=options_id,
)
@pytest.mark.parametrize(
    "q", [[0.01, 2.0, 3.0, 0.02], [2.0, 3.0, 2.5, 1.5], 2.0], ids=["some", "all", "the only one"]
)
def test_members_that_stop_are_stored_as_they_are_kept(tmp_path, small_windows, q, options):
    sim = tp.compile(steep, dt=0.1)
    kept = sim.evolve(q=q, p=0.0, **options)
    assert kept.stops
    same_run(sim.evolve(q=q, p=0.0, **options, save=tmp_path / "run.zarr"), kept)
    told = json.loads(zarr.open_group(tmp_path / "run.zarr", mode="r").attrs["stops"])
    assert [(cause, step) for cause, step, *_ in told] == [(s.cause, s.step) for s in kept.stops]


def test_a_frame_larger_than_a_chunk_lies_in_several(tmp_path, small_windows):
    start = dict(q=RNG.normal(size=(100, 2)) + 4, p=RNG.normal(size=(100, 2)))
    kept = planet().evolve(**start, steps=9, save_every=4)
    same_run(planet().evolve(**start, steps=9, save_every=4, save=tmp_path / "run.zarr"), kept)
    q = zarr.open_group(tmp_path / "run.zarr", mode="r")["q"]
    assert q.chunks == (1, 16, 2) and same_bits(q[...], kept.q)


def test_an_empty_ensemble_is_stored(tmp_path):
    out = planet().evolve(
        q=np.empty((0, 2)), p=np.empty((0, 2)), steps=10, save_every=5, save=tmp_path / "run.zarr"
    )
    assert out.q.shape == (3, 0, 2) and xarray.open_zarr(tmp_path / "run.zarr").q.shape == (3, 0, 2)


# --- reading -------------------------------------------------------------------------------------------
def test_stored_frames_are_read_like_arrays(tmp_path, small_windows):
    kept = planet().evolve(**START, steps=100, save_every=1)
    q = planet().evolve(**START, steps=100, save_every=1, save=tmp_path / "run.zarr").q
    for key in (
        0,
        -1,
        100,
        slice(None),
        slice(3, 40),
        slice(3, 40, 7),
        slice(None, None, -3),
        slice(40, 3),
        (slice(2, 9), 1),
        (-1, 0),
        (..., 0),
        [1, 5, 3],
        np.arange(101) % 2 == 0,
        (slice(None), None),
    ):
        assert same_bits(q[key], kept.q[key]), key
    assert (
        len(q) == 101
        and q.ndim == 2
        and q.nbytes == kept.q.nbytes
        and same_bits(q.mean(axis=0), kept.q.mean(axis=0))
    )
    assert (
        same_bits(2 * q + kept.q, 3 * kept.q)
        and same_bits(np.sqrt(q**2), np.sqrt(kept.q**2))
        and q.tolist() == kept.q.tolist()
    )
    assert (
        sum(1 for _ in q) == 101
        and same_bits(pickle.loads(pickle.dumps(q)), kept.q)
        and "run.zarr" in repr(q)
    )
    with pytest.raises(IndexError):
        q[101]


def test_a_streamed_trajectory_can_be_pickled(tmp_path):
    out = planet().evolve(**START, steps=20, save_every=3, save=tmp_path / "run.zarr")
    again = pickle.loads(pickle.dumps(out))
    assert same_bits(again.q, out.q) and same_bits(again.energy, out.energy)


def test_xarray_opens_it_with_names_units_and_what_reproduces_the_run(tmp_path):
    n = 12
    sim = tp.compile(chain, dt=0.1)
    out = sim.evolve(
        q=RNG.normal(size=(3, n)),
        p=np.zeros((3, n)),
        k=np.ones(n),
        steps=20,
        t0=1.0,
        seed=9,
        save_every=5,
        observe={"e": "energy", "first": lambda q: q[:2]},
        observe_every=4,
        save=tmp_path / "run.zarr",
    )
    with xarray.open_zarr(tmp_path / "run.zarr") as data:
        assert data.q.dims == ("time", "member", "n") and data.k.dims == ("n",)
        assert data.e.dims == ("observed_time", "member") and data["first"].dims == (
            "observed_time",
            "member",
            "axis_2",
        )
        assert same_bits(data.time, out.t) and same_bits(data.step, out.steps) and data.step.dtype == np.int64
        assert set(data.coords) == {"time", "step", "observed_time", "observed_step"}
        assert same_bits(data.sel(time=2.0, method="nearest").q, out.q[2]) and same_bits(
            data.observed_time, out.times("e")
        )
        a = data.attrs
        assert (a["dt"], a["t0"], a["seed"], a["save_every"], a["system"]) == (0.1, 1.0, 9, 5, "chain")
        assert (
            a["program"] == sim.tpir.hash == out.metrics["program"]
            and a["bits"] == out.metrics["bits"]
            and a["tinyphysics"] == tp.__version__
        )
    planet().evolve(**START, steps=3, save=tmp_path / "planet.zarr")
    with xarray.open_zarr(tmp_path / "planet.zarr") as data:
        assert (data.q.attrs["units"], data.p.attrs["units"]) == ("m", "m/s") and json.loads(
            data.attrs["parameters"]
        ) == {"mu": 1.1}
        assert data.q.dims == data.p.dims == ("time", "axis_2")


def test_memory_stays_flat(tmp_path, monkeypatch):
    """A run of 8 MB of frames and 1.6 MB of observables."""
    monkeypatch.setattr(windows, "BYTES", 1 << 16)
    sim = tp.compile(chain, dt=0.1)
    start = dict(q=np.sin(np.arange(1000.0)), p=np.zeros(1000))
    sim.evolve(**start, steps=20, save_every=1, observe={"q2": lambda q: q[:400]}, save=tmp_path / "a.zarr")
    tracemalloc.start()
    try:
        out = sim.evolve(
            **start, steps=500, save_every=1, observe={"q2": lambda q: q[:400]}, save=tmp_path / "b.zarr"
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert out.q.nbytes + out.p.nbytes == 501 * 16_000 and peak < 2.5e6, peak
    assert same_bits(out.q[-1], out.final.q)


# --- interrupted and gone on with ----------------------------------------------------------------------
@pytest.mark.parametrize(
    "options",
    [
        dict(save_every=8, hash_every=6, observe=LOOK, observe_every=3),
        dict(),
        dict(save_every=1, observe=LOOK),
        dict(save_every=10),
        dict(observe=LOOK, observe_every=100),
    ],
    ids=options_id,
)
@pytest.mark.parametrize("ends", [20, 24, 40], ids=str)
def test_a_store_that_is_gone_on_with_is_the_store_of_the_whole_run(tmp_path, small_windows, options, ends):
    planet().evolve(**START, steps=60, **options, save=tmp_path / "whole.zarr")
    path, c = tmp_path / "part.zarr", tmp_path / "c"
    planet().evolve(**START, steps=ends, **options, save=path, checkpoint=c, checkpoint_every=10)
    out = planet().evolve(steps=60 - ends, resume=c, **options, save=path)
    same_stores(path, tmp_path / "whole.zarr")
    same_run(out, planet().evolve(**START, steps=60, **options))


def test_frames_after_the_checkpoint_are_dropped_and_come_again(tmp_path, small_windows):
    path, c = tmp_path / "part.zarr", tmp_path / "c"
    planet().evolve(**START, steps=30, save_every=4, save=path, checkpoint=c)
    kept = c.read_bytes()
    planet().evolve(steps=25, save_every=4, save=path, resume=c, checkpoint=c)
    assert open_store(path).read("step")[-1] == 55
    c.write_bytes(kept)
    planet().evolve(steps=30, save=path, resume=c)
    planet().evolve(**START, steps=60, save_every=4, save=tmp_path / "whole.zarr")
    same_stores(path, tmp_path / "whole.zarr")


def test_a_store_that_is_made_by_a_resumed_run_begins_at_step_0_too(tmp_path, small_windows):
    c = tmp_path / "c"
    planet().evolve(**START, steps=30, save_every=4, checkpoint=c)
    out = planet().evolve(steps=10, resume=c, observe=LOOK, save=tmp_path / "a.zarr")
    assert (
        out.steps.tolist() == [0, 32, 36, 40]
        and len(out["r"]) == 11
        and out.times("r")[0] == pytest.approx(0.6)
    )
    assert same_bits(out.q[0], START["q"]) and same_bits(
        out.q[1:], planet().evolve(**START, steps=40, save_every=4).q[8:]
    )
    planet().evolve(steps=2, resume=c, checkpoint=c)
    with pytest.raises(StoreError, match="no frames up to step 32"):
        planet().evolve(steps=10, resume=c, save_every=1, save=made_with(tmp_path / "b.zarr", c))


def made_with(path, c):
    planet().evolve(**START, steps=5, save_every=1, save=path)
    return path


@pytest.mark.parametrize(
    "options, what",
    [
        (dict(resume=None), "already holds the store of a run"),
        (dict(save_every=3), "save_every=3, but .* has save_every=4"),
        (dict(observe={"r": LOOK["r"]}), "has the observables none; this run has r"),
        (dict(save_every=4), ""),
    ],
    ids=["again", "other frames", "other observables", "the same"],
)
def test_what_does_not_fit_to_a_store_is_refused_and_nothing_is_overwritten(tmp_path, options, what):
    path, c = tmp_path / "run.zarr", tmp_path / "c"
    planet().evolve(**START, steps=12, save_every=4, save=path, checkpoint=c)
    before = {f: f.read_bytes() for f in path.rglob("*") if f.is_file()}
    options = dict(resume=c) | options
    if what:
        with pytest.raises(StoreError, match=what):
            planet().evolve(**(START if options["resume"] is None else {}), steps=12, save=path, **options)
        assert before == {f: f.read_bytes() for f in path.rglob("*") if f.is_file()}
    else:
        planet().evolve(steps=12, save=path, **options)


def test_another_run_and_what_is_no_store_are_left_alone(tmp_path):
    planet().evolve(**START, steps=12, save=tmp_path / "run.zarr", checkpoint=tmp_path / "c")
    planet().evolve(**START | dict(mu=2.0), steps=12, checkpoint=tmp_path / "other")
    with pytest.raises(StoreError, match="store of another run"):
        planet().evolve(steps=1, resume=tmp_path / "other", save=tmp_path / "run.zarr")
    (tmp_path / "notes").write_text("mine")
    (tmp_path / "folder").mkdir()
    zarr.open_group(tmp_path / "theirs.zarr", mode="w").create_array("q", shape=(2,), dtype="f8")
    for name in ("notes", "folder", "theirs.zarr"):
        with pytest.raises(StoreError, match="is not the store of a run"):
            planet().evolve(**START, steps=1, save=tmp_path / name)
    with pytest.raises(StoreError, match="there is no directory"):
        planet().evolve(**START, steps=1, save=tmp_path / "no" / "run.zarr")
    with pytest.raises(InputError, match="save=3 is not a path"):
        planet().evolve(**START, steps=1, save=3)
    assert (tmp_path / "notes").read_text() == "mine" and not list((tmp_path / "folder").iterdir())
    assert sorted(f.name for f in tmp_path.iterdir()) == [
        "c",
        "folder",
        "notes",
        "other",
        "run.zarr",
        "theirs.zarr",
    ]


@pytest.mark.parametrize("name", ["q", "mu", "time", "hash", "a/b", "", "../x"])
def test_names_that_have_no_place_in_a_store_are_said_before_the_run(tmp_path, name):
    with pytest.raises(InputError, match="cannot be stored|would be hidden|is not a name"):
        planet().evolve(**START, steps=1, observe={name: lambda q: q @ q}, save=tmp_path / "run.zarr")
    assert not list(tmp_path.iterdir())


# --- when it cannot be written -------------------------------------------------------------------------
def failing(after, error):
    """Writing to chunks fails after so many calls."""
    real, calls = zarr3.put, [0]

    def put(*arguments):
        calls[0] += 1
        if calls[0] > after:
            raise error
        real(*arguments)

    return put


@pytest.mark.requirement("S0-36")
@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), RuntimeError("a bug")],
    ids=["full disk", "a bug"],
)
@pytest.mark.parametrize("after", [0, 1, 4, 11, 31])
def test_a_full_disk_stops_the_run_and_no_frame_is_lost_or_torn(
    tmp_path, monkeypatch, small_windows, after, error
):
    path, c, sim = tmp_path / "run.zarr", tmp_path / "c", planet()
    monkeypatch.setattr(zarr3, "put", failing(after, error))
    out = sim.evolve(
        **START, steps=100_000, save_every=1, observe=LOOK, save=path, checkpoint=c, checkpoint_every=5
    )
    monkeypatch.undo()
    assert out.stopped.cause == "store" and isinstance(out.stopped.error, StoreError) and not writing()
    assert ("No space left" in str(out.stopped.error)) == isinstance(error, OSError)
    n = out.final.step
    assert 0 <= n < 100_000
    kept = sim.evolve(**START, steps=n, save_every=1, observe=LOOK)
    assert (
        out.hash == kept.hash
        and same_bits(out.q, kept.q)
        and same_bits(out.t, kept.t)
        and same_bits(out["r"], kept["r"])
    )
    with xarray.open_zarr(path) as data:
        whole = len(data.time)
        assert (
            whole <= n + 1
            and same_bits(data.q, kept.q[:whole])
            and same_bits(data.r, kept["r"][: len(data.r)])
        )
    if c.exists():
        sim.evolve(steps=200, resume=c, observe=LOOK, save=path)
        assert same_bits(
            zarr.open_group(path, mode="r")["p"][...],
            sim.evolve(**START, steps=open_store(path).frames - 1, save_every=1).p,
        )


def test_a_disk_that_is_really_full(tmp_path):
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", tmp_path], capture_output=True
    ).returncode:
        pytest.skip("a small disk needs mount, and the right to use it")
    try:
        sim = tp.compile(chain, dt=0.1)
        start = dict(q=np.sin(np.arange(500.0)), p=np.zeros(500))
        out = sim.evolve(
            **start,
            steps=2000,
            save_every=1,
            save=tmp_path / "run.zarr",
            checkpoint=tmp_path / "c",
            checkpoint_every=10,
        )
        assert out.stopped.cause == "store" and "No space left" in str(out.stopped.error)
        kept = sim.evolve(**start, steps=out.final.step, save_every=1)
        assert same_bits(out.q, kept.q) and out.hash == kept.hash
        with xarray.open_zarr(tmp_path / "run.zarr") as data:
            assert len(data.time) > 10 and same_bits(data.q, kept.q[: len(data.time)])
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


def test_no_space_for_the_store_itself_is_said_before_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(
        zarr3,
        "commit",
        lambda *_, **__: (_ for _ in ()).throw(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))),
    )
    with pytest.raises(StoreError, match="could not be created: No space left"):
        planet().evolve(**START, steps=5, save=tmp_path / "run.zarr")
    monkeypatch.undo()
    assert not (tmp_path / "run.zarr").exists()
    planet().evolve(**START, steps=5, save=tmp_path / "run.zarr")
    assert [f.name for f in tmp_path.iterdir()] == ["run.zarr"]


def test_a_damaged_store_says_so(tmp_path):
    out = planet().evolve(**START, steps=5, save_every=1, save=tmp_path / "run.zarr")
    chunk = next(f for f in (tmp_path / "run.zarr" / "q" / "c").rglob("*") if f.is_file())
    chunk.write_bytes(chunk.read_bytes()[:40])
    with pytest.raises(StoreError, match="is damaged: `q` could not be read"):
        np.asarray(out.q)
    (tmp_path / "run.zarr" / "zarr.json").write_text("{")
    with pytest.raises(StoreError, match="is not the store of a run"):
        open_store(tmp_path / "run.zarr")


def test_interrupts_wait_for_the_store(tmp_path, monkeypatch, small_windows):
    from tinyphysics.device.engines.engine import LaneEngine

    watch, calls = LaneEngine.watch, []

    def pressed(self, m, rows, stride):
        calls.append(rows)
        if len(calls) > 5:
            raise KeyboardInterrupt
        return watch(self, m, rows, stride)

    sim, frames = planet(), dict(save_every=70, hash_every=70)
    monkeypatch.setattr(LaneEngine, "watch", pressed)
    out = sim.evolve(**START, steps=1000, **frames, save=tmp_path / "run.zarr", checkpoint=tmp_path / "c")
    monkeypatch.undo()
    assert out.stopped.cause == "interrupted" and out.steps.tolist() == [0, 70, 140, 210, 280, 350]
    sim.evolve(steps=650, resume=tmp_path / "c", save=tmp_path / "run.zarr")
    sim.evolve(**START, steps=1000, **frames, save=tmp_path / "whole.zarr")
    a, b = (zarr.open_group(tmp_path / n, mode="r") for n in ("run.zarr", "whole.zarr"))
    assert all(same_bits(a[n][...], b[n][...]) for n in a.array_keys())


KILLED = """
    import os, random, shutil, signal, sys, time
    from pathlib import Path
    import numpy as np
    import tinyphysics as tp
    from tinyphysics.runtime.state import windows
    from tinyphysics.runtime.storage.checkpoint import read
    from tinyphysics.runtime.storage.run_store import open_store

    @tp.hamiltonian
    def pendulum(q, p):
        return p**2 / 2 - tp.cos(q)

    windows.BYTES = 4000
    os.fsync = lambda handle: None  # what was written outlives the process without it
    STEPS, folder = 40_000, Path(sys.argv[1])
    c, path = folder / "c", folder / "run.zarr"
    sim, draw, r = tp.compile(pendulum, dt=0.01), random.Random(1), {"r": lambda q: q * q}
    options = dict(save_every=10, observe=r, observe_every=25, threads=1, progress=False)
    whole = sim.evolve(q=1.0, p=0.0, steps=STEPS, **options)
    sim.evolve(q=1.0, p=0.0, steps=3000, **options, checkpoint=c, checkpoint_every=1000, save=path)  # all is compiled
    places, killed = set(), 0
    c.unlink()
    while killed < 100:
        if not c.exists():
            shutil.rmtree(path, ignore_errors=True)  # without a checkpoint there is nothing to go on from
        child = os.fork()
        if child == 0:
            done = read(c).step if c.exists() else 0
            begin = dict(resume=c) if c.exists() else dict(q=1.0, p=0.0)
            sim.evolve(**begin, steps=STEPS - done, **options, checkpoint=c, checkpoint_every=500, save=path)
            os._exit(0)
        time.sleep(draw.uniform(0.0, 0.15))
        os.kill(child, signal.SIGKILL)
        killed += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        if path.exists():
            found = open_store(path)
            frames, q, seen = found.frames, found.read("q"), found.read("r")
            assert np.array_equal(q, whole.q[:frames]) and np.array_equal(seen, whole["r"][: found.observed]), "torn"
            if c.exists():
                assert frames > read(c).step // 10, "a checkpoint knows of frames that are not there"
            places.add(frames)
        if c.exists() and read(c).step == STEPS:
            assert frames == len(whole.q)
            c.unlink()
    print(killed, len(places))
"""


@pytest.mark.all
@pytest.mark.requirement("S0-36")
def test_a_hundred_kills_leave_no_torn_frame(tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(textwrap.dedent(KILLED))
    environment = os.environ | {"PYTHONPATH": str(Path(tp.__file__).parents[1])}
    out = subprocess.run(
        [sys.executable, script, tmp_path], capture_output=True, text=True, env=environment, timeout=180
    )
    assert out.returncode == 0, out.stderr
    killed, places = map(int, out.stdout.split())
    assert killed == 100 and places > 10


def test_the_hash_of_a_frame_is_that_of_its_state():
    from tinyphysics.runtime.storage.run_store import hashes

    for shape in ((), (3,), (2, 2), (0,), (20_000,)):
        q, p = RNG.normal(size=(4, *shape)), RNG.normal(size=(4, *shape)).astype(np.float32)
        if shape:
            q[1].flat[:1] = np.nan
        found = hashes({"q": q, "p": p})
        assert [h.tobytes().hex() for h in found] == [state_hash({"q": a, "p": b}) for a, b in zip(q, p)]


def test_a_stream_keeps_the_order_of_what_it_could_not_write(tmp_path, monkeypatch):
    out = planet().evolve(**START, steps=3, save_every=1, save=tmp_path / "run.zarr")
    s = stream.Stream(open_store(tmp_path / "run.zarr"))
    monkeypatch.setattr(s.store, "append", lambda *_: (_ for _ in ()).throw(StoreError("full")))
    for k in range(4):
        window = windows.Window(
            [4 + k], np.array([0.1]), {"q": np.full((1, 2), k), "p": np.zeros((1, 2))}, [], np.empty(0), {}
        )
        try:
            s.put(window, {})
        except StoreError:
            pass
    with pytest.raises(StoreError, match="full"):
        s.settle()
    s.close()
    q = s.reading("q")
    assert (
        same_bits(q[:4], out.q)
        and q[4:, 0].tolist() == [0, 1, 2, 3]
        and s.reading("step").tolist() == [*range(8)]
    )


# --- out.to_xarray() -----------------------------------------------------------------------------------
@pytest.mark.parametrize("save", [None, "run.zarr"], ids=["in memory", "streamed"])
def test_a_trajectory_is_a_dataset_with_names_units_and_attributes(tmp_path, save):
    q = RNG.normal(size=(3, 12))
    sim = tp.compile(chain, dt=0.1, sizes={"n": 12})
    out = sim.evolve(
        q=q,
        p=np.zeros((3, 12)),
        k=np.linspace(1, 2, 12),
        steps=20,
        t0=1.0,
        seed=9,
        save_every=5,
        observe={"e": "energy"},
        observe_every=4,
        save=None if save is None else tmp_path / save,
    )
    data = out.to_xarray()
    assert (
        data.q.dims == ("time", "member", "n")
        and data.k.dims == ("n",)
        and data.e.dims == ("observed_time", "member")
    )
    assert (
        same_bits(data.q, out.q)
        and same_bits(data.time, out.t)
        and same_bits(data.step, out.steps)
        and same_bits(data.e, out["e"])
    )
    assert (data.attrs["dt"], data.attrs["t0"], data.attrs["seed"], data.attrs["program"]) == (
        0.1,
        1.0,
        9,
        sim.tpir.hash,
    )
    planets = (
        planet().evolve(**START, steps=3, save=None if save is None else tmp_path / "planet.zarr").to_xarray()
    )
    assert planets.q.attrs["units"] == "m" and json.loads(planets.attrs["parameters"]) == {"mu": 1.1}
    assert "units" not in tp.compile(steep, dt=0.1).evolve(q=0.1, p=0.0, steps=1).to_xarray().q.attrs
    again = tp.load(written(tmp_path / "sim.json", data.attrs["simulation"]))
    assert again.evolve(q=q, p=np.zeros((3, 12)), k=np.linspace(1, 2, 12), steps=20, t0=1.0).hash == out.hash


def written(path, text):
    path.write_text(text)
    return path


def test_in_memory_and_streamed_datasets_agree_in_all_that_describes_the_run(tmp_path):
    a, b = (
        planet().evolve(**START, steps=9, save_every=2, save=save).to_xarray().attrs
        for save in (None, tmp_path / "run.zarr")
    )
    assert {k: v for k, v in b.items() if k not in ("stops", "coordinates")} == {
        k: v for k, v in a.items() if k != "hash"
    }


def test_without_xarray_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(tp.BackendError, match="pip install"):
        planet().evolve(**START, steps=1).to_xarray()
