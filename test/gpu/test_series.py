"""Do methods with steps of their own have the bits of this processor on a real GPU?  Taylor series above all."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinyphysics as tp
from test_taylor import arenstorf, bodies, in_loops, kepler, mixture, pendulum, some_bodies  # noqa: F401
from tinyphysics.device.engines import cuda_series

HERE = ("cuda", "llvm")


def orbits(n):
    e, zero = np.linspace(0.0, 0.9, n), np.zeros(n)
    return dict(q=np.stack([1 - e, zero], 1), p=np.stack([zero, np.sqrt((1 + e) / (1 - e))], 1))


def mixtures(n):
    x = np.linspace(-1.0, 1.5, 6) + 1.1 * np.linspace(0, 1, n)[:, None]
    return dict(x=x, v=np.linspace(0.4, -0.7, 6) + 0 * x, k=np.linspace(0.5, 0.7, n))


def clusters(n, count):
    start, rng = some_bodies(count), np.random.default_rng(5)
    q = start["q"] + 0.1 * rng.normal(size=(n, count, 3))
    return dict(q=q, p=start["p"] + 0 * q, m=start["m"])


def same(system, options, start, **how):
    """The run there; it has the bits of the one here, and every member took the steps that it takes here."""
    there, ours = (tp.compile(system, backend=b, **options).evolve(**start, **how) for b in HERE)
    assert there.metrics["backend"]["used"] == "cuda" and there.metrics["launches"] > 0
    assert there.hash == ours.hash and there.hashes == ours.hashes and there.stops == ours.stops
    assert all(np.array_equal(there.frames[s], ours.frames[s], equal_nan=True) for s in ours.frames)
    for name in how.get("observe", {}):
        assert np.array_equal(there[name], ours[name], equal_nan=True)
    assert np.array_equal(there.metrics["substeps"], ours.metrics["substeps"])
    return there


def tight(gpu, tolerance):
    """Behind the fake driver short series."""
    return tolerance if gpu.real else 1e-3


@pytest.mark.parametrize("method", ["taylor", "dop853", "radau"])
@pytest.mark.parametrize("tolerance", [1e-6, 1e-12])
def test_orbits_of_every_eccentricity(gpu, method, tolerance):
    options = dict(dt=math.pi / 4, method=method, tolerance=tight(gpu, tolerance))
    start, how = orbits(gpu.members(3001)), dict(steps=8 if gpu.real else 1, save_every=1, hash_every=1)
    out = same(kepler, options, start, **how)
    assert not gpu.real or np.ptp(out.metrics["substeps"]) > 10


@pytest.mark.parametrize("method", ["taylor", "dop853"])
def test_orbits_about_that_of_arenstorf(gpu, method):
    off = np.linspace(-1e-4, 1e-4, gpu.members(2000))
    start = dict(
        x=np.array([0.994, 0.0]) + off[:, None], v=np.array([0.0, -2.0015851063790825]) + off[:, None]
    )
    same(arenstorf, dict(method=method, tolerance=tight(gpu, 1e-12)), start, until=17.0 if gpu.real else 0.1)


@pytest.mark.parametrize(
    "system, start",
    [(pendulum, lambda n: dict(q=np.linspace(-3, 3, n), p=np.zeros(n))), (kepler, orbits)],
    ids=["pendulum", "kepler"],
)
def test_thirty_digits(gpu, system, start):
    options = dict(dt=0.5, method="taylor", precision="dd") | ({} if gpu.real else dict(tolerance=1e-17))
    same(system, options, start(gpu.members(100)), steps=4 if gpu.real else 1, save_every=1)


@pytest.mark.parametrize("members", [1, 31, 33, 5001])
def test_series_in_loops(gpu, in_loops, members):  # noqa: F811
    in_loops(mixture, tolerance=1e-3)  # and what is compiled from here on
    options = dict(dt=0.4, method="taylor", tolerance=tight(gpu, 1e-10))
    start, how = mixtures(gpu.members(members)), dict(steps=gpu.steps(6), save_every=2, hash_every=2)
    assert "SERIES" in tp.compile(mixture, **options).ir("tpir")
    same(mixture, options, start, **how, observe={"sum": lambda x: x.sum()}, observe_every=2)


def test_bodies_in_loops(gpu):
    options = dict(dt=0.25, method="taylor", sizes={"n": 6})
    assert "SERIES" in tp.compile(bodies, **options).ir("tpir")
    same(bodies, options, clusters(gpu.members(500), 6), steps=8 if gpu.real else 1, save_every=1)


def test_events_are_those_of_the_processor(gpu, in_loops):  # noqa: F811
    events = {"zero": lambda x: x[2], "late": lambda t: t - 0.7}
    for loops in (True, False):
        runs = [
            in_loops(mixture, loops, dt=0.4, tolerance=1e-3, backend=b).evolve(
                **mixtures(5), steps=3, events=events
            )
            for b in HERE
        ]
        assert runs[0].hash == runs[1].hash
        for name in events:
            found, wanted = (run.events(name) for run in runs)
            assert len(wanted) > 2 and np.array_equal(found.t, wanted.t) and np.array_equal(found.x, wanted.x)


def test_neither_the_grid_nor_the_memory_of_its_threads_change_a_bit(gpu, in_loops, monkeypatch):  # noqa: F811
    start, hashes = mixtures(20_000 if gpu.real else 40), set()
    for threads, resident in ((64, 256), (32, 32), (256, 1024)):
        monkeypatch.setattr(cuda_series, "THREADS", threads)
        monkeypatch.setattr(cuda_series, "RESIDENT", resident)
        hashes.add(
            in_loops(mixture, tolerance=tight(gpu, 1e-8), backend="cuda").evolve(**start, until=0.5).hash
        )
    assert len(hashes) == 1


def test_members_that_meet_a_singularity_stop_alone(gpu, in_loops):  # noqa: F811
    in_loops(bodies, tolerance=1e-3, sizes={"n": 3})
    many = clusters(gpu.members(300) + 3, 3)
    for k in (1, 2):
        many["q"][k, 1] = many["q"][k, 0]
    out = same(
        bodies, dict(dt=0.2, method="taylor", tolerance=1e-3, sizes={"n": 3}), many, steps=2, save_every=1
    )
    assert [s.member for s in out.stops] == [1, 2] and out.stopped.cause == "not finite"


def test_a_checkpoint_goes_on_there_and_here(gpu, in_loops, tmp_path):  # noqa: F811
    start, options = mixtures(gpu.members(100)), dict(dt=0.4, tolerance=tight(gpu, 1e-9))
    whole = in_loops(mixture, **options).evolve(**start, steps=3, save_every=1)
    in_loops(mixture, backend="cuda", **options).evolve(**start, steps=1, checkpoint=tmp_path / "first")
    for backend in HERE:
        on = in_loops(mixture, backend=backend, **options).evolve(
            resume=tmp_path / "first", steps=2, save_every=1
        )
        assert on.hash == whole.hash and np.array_equal(on.x, whole.x[1:])
