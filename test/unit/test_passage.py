"""Tiles that go through a block with no Python between have the bits of those that are done one by one."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.device.engines import passages
from tinyphysics.device.engines.engine import LaneEngine
from tinyphysics.runtime.stages import loop

MEMBERS = 40_011  # three tiles and more, the last one no whole number of vectors


@tp.hamiltonian
def pendulum(q: float, p: float):
    return p**2 / 2 - tp.cos(q)


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def well(q: tp.Vec[3], p: tp.Vec[3], k: float, g: tp.Vec[3]):
    return p @ p / 2 + k * (q @ q) ** 2 / 4 + g @ q


def rows(n: int, *shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(n, *shape))


def orbits(n: int) -> dict[str, Any]:
    x = np.linspace(1.0, 1.5, n)
    return {"q": np.stack([x, 0 * x], 1), "p": np.stack([0 * x, x**-0.5], 1)}


CASES = {
    "numbers": (pendulum, {}, {"q": np.linspace(0.1, 2.0, MEMBERS), "p": np.zeros(MEMBERS)}),
    "guards": (pendulum, {}, {"q": np.linspace(1e6, 1e9, MEMBERS), "p": np.zeros(MEMBERS)}),
    "orbits": (kepler, {}, orbits(MEMBERS)),
    "parameters": (
        well,
        {},
        {"q": rows(MEMBERS, 3), "p": rows(MEMBERS, 3, seed=1), "k": 1.0, "g": rows(MEMBERS, 3, seed=2)},
    ),
    "float32": (
        well,
        {"precision": "float32"},
        {"q": rows(MEMBERS, 3), "p": rows(MEMBERS, 3, seed=1), "k": 1.0, "g": [0.1, 0.2, 0.3]},
    ),
}
RUNS = {
    "the end": {"steps": 30, "frames": 2},
    "frames": {"steps": 90, "save_every": 45},
    "none": {"steps": 200},
}


def both(monkeypatch: Any, system: Any, options: Any, given: Any, **run: Any) -> tuple[Any, Any, int]:
    """(tile by tile, with no Python between, blocks that were), of an engine with small tiles."""
    monkeypatch.setattr(LaneEngine, "room", 3 * 8192)
    sim, whole, taken = tp.compile(system, dt=0.01, **options), loop.advance_together, []
    monkeypatch.setattr(loop, "advance_together", lambda *a: None)
    one = sim.evolve(**given, **run, progress=False, threads=2)
    take = passages.take
    monkeypatch.setattr(loop, "advance_together", whole)
    monkeypatch.setattr(passages, "take", lambda *a: (taken.append(1), take(*a))[1])
    return one, sim.evolve(**given, **run, progress=False, threads=2), len(taken)


def agree(one: Any, other: Any) -> None:
    assert one.hash == other.hash
    for name in ("q", "p"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert str(one.stopped) == str(other.stopped)


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("case", CASES)
def test_no_bit_depends_on_who_goes_through_the_tiles(monkeypatch: Any, case: str, backend: str) -> None:
    system, options, given = CASES[case]
    one, other, taken = both(monkeypatch, system, {**options, "backend": backend}, given, **RUNS["the end"])
    assert taken == 1
    agree(one, other)


@pytest.mark.parametrize("run", RUNS)
def test_frames_and_what_goes_on_is_the_same(monkeypatch: Any, run: str) -> None:
    one, other, taken = both(monkeypatch, kepler, {"backend": "llvm"}, orbits(MEMBERS), **RUNS[run])
    assert taken == 1
    agree(one, other)


def test_a_run_goes_on_from_what_it_carries(monkeypatch: Any) -> None:
    one, other, taken = both(
        monkeypatch, pendulum, {"backend": "llvm"}, CASES["numbers"][2], steps=30, frames=2
    )
    sim = tp.compile(pendulum, dt=0.01, backend="llvm")
    assert taken == 1
    agree(sim.evolve(resume=one, steps=50), sim.evolve(resume=other, steps=50))


@tp.hamiltonian
def steep(q: float, p: float):
    return p**2 / 2 - q**4 / 4


@pytest.mark.parametrize("steps", [150, 400])
def test_members_that_fail_stop_where_they_do_alone(monkeypatch: Any, steps: int) -> None:
    given = {"q": np.full(MEMBERS, 1e-3), "p": np.zeros(MEMBERS)}
    given["q"][[5, 20_000, 40_000]] = 3.0, 2.0, 2.5
    one, other, taken = both(monkeypatch, steep, {"backend": "llvm"}, given, steps=steps, frames=2)
    assert taken == 1 and len(one.stops) == 3
    assert [(s.step, s.member, s.cause) for s in one.stops] == [
        (s.step, s.member, s.cause) for s in other.stops
    ]
    agree(one, other)


def test_a_member_that_falls_into_a_pole_is_found(monkeypatch: Any) -> None:
    given = orbits(MEMBERS)
    given["p"][10] = 0.0
    one, other, taken = both(monkeypatch, kepler, {"backend": "llvm"}, given, steps=150, frames=2)
    assert taken == 1 and [s.member for s in one.stops] == [s.member for s in other.stops] == [10]
    agree(one, other)


def test_ctrl_c_ends_the_run_with_the_block(monkeypatch: Any) -> None:
    monkeypatch.setattr(LaneEngine, "room", 3 * 8192)
    monkeypatch.setattr(LaneEngine, "block", lambda self, members: 64)
    sim, take = tp.compile(pendulum, dt=0.05), passages.take

    def pressed(*a: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return take(*a)

    given = CASES["numbers"][2]
    monkeypatch.setattr(passages, "take", pressed)
    out = sim.evolve(**given, steps=640, threads=2, frames=2)
    monkeypatch.setattr(passages, "take", take)
    assert out.stopped.cause == "interrupted" and out.final.step == out.stopped.step == 64
    assert out.hash == sim.evolve(**given, steps=64).hash


def test_what_is_looked_at_on_the_way_is_done_tile_by_tile(monkeypatch: Any) -> None:
    given = CASES["numbers"][2]
    for run in (
        {"observe": {"x": lambda q, p: q}, "observe_every": 10},
        {"hash_every": 10},
        {"until": 0.305},
    ):
        _, _, taken = both(
            monkeypatch,
            pendulum,
            {"backend": "llvm"},
            given,
            **{"steps": 30, **run} if "until" not in run else run,
        )
        assert taken == 0, run
        monkeypatch.undo()
