"""Processes that share one system have the bits of one, whatever their number; threads stand for them here."""

import threading

import numpy as np
import pytest
from thread_ranks import run_ranks

import tinyphysics as tp
from tinyphysics.cluster.mpi import OnRanks
from tinyphysics.errors import PlanError

LOCK = threading.Lock()


@tp.hamiltonian
def wave(q: tp.Array["n", "m"], p: tp.Array["n", "m"]):
    return ((p**2).sum() + sum(((np.roll(q, -1, axis) - q) ** 2).sum() for axis in (0, 1))) / 2


@tp.hamiltonian
def fixed(q: tp.Array["n", "m"], p: tp.Array["n", "m"]):
    dx, dy = q[1:] - q[:-1], q[:, 1:] - q[:, :-1]
    return ((p**2).sum() + (dx**2).sum() + (dy**2).sum() + (q**4).sum() / 10) / 2


@tp.hamiltonian
def gravity(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"], eps: float = 0.05):
    d = q[:, None] - q[None, :]
    r = np.sqrt((d**2).sum(-1) + eps**2)
    return ((p**2).sum(-1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / r)


@tp.map
def life(c: tp.Array["n", "m"]):
    s = sum(np.roll(c, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - c
    return tp.where((s == 3) | ((s == 2) & (c == 1)), 1.0, 0.0)


@tp.ode
def heat(u: tp.Array["n", "m"]):
    return sum(np.roll(u, k, axis) for k in (-1, 1) for axis in (0, 1)) - 4 * u


def field(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def two(*shape):
    return {"q": field(*shape), "p": field(*shape, seed=1)}


CASES = {
    "waves on a ring": (wave, {"dt": 0.1}, two(300, 64), 9),
    "waves between walls": (fixed, {"dt": 0.1}, two(257, 80), 11),
    "a higher order": (fixed, {"dt": 0.1, "order": 4}, two(200, 96), 7),
    "bodies": (gravity, {"dt": 1e-3}, two(300, 3) | {"m": np.abs(field(300)) / 300}, 8),
    "more bodies": (gravity, {"dt": 1e-3, "order": 4}, two(1200, 3) | {"m": np.abs(field(1200)) / 1200}, 2),
    "cells": (life, {}, {"c": (field(200, 120) > 0).astype(float)}, 12),
    "heat": (heat, {"dt": 0.1, "method": "rk4"}, {"u": field(200, 130)}, 6),
    "short numbers": (fixed, {"dt": 0.1, "precision": "float32"}, two(240, 100), 6),
    "a chain of solves": (heat, {"dt": 0.5, "method": "midpoint"}, {"u": field(64, 300)}, 2),
}  # fmt: skip


def ran(system, options, given, call, size):
    def one(ranks):
        with LOCK:  # compiled by one at a time
            sim = tp.compile(
                system, **({} if system is life else {"propagator": "loop"}), **options, checks="off"
            )
            sim.evolve(**given, steps=1, progress=False)
        out = sim.evolve(**given, **call, progress=False, on=OnRanks(lambda: ranks))
        return out.hash, out.hashes, {n: np.asarray(v) for n, v in out.frames.items()}, out.metrics["cluster"]

    return run_ranks(size, one)


@pytest.mark.parametrize("case", CASES)
def test_any_number_of_processes_has_the_bits_of_one(case):
    system, options, given, steps = CASES[case]
    call = {"steps": steps, "save_every": 3, "hash_every": 2}
    sim = tp.compile(system, **({} if system is life else {"propagator": "loop"}), **options, checks="off")
    whole = sim.evolve(**given, **call, progress=False)
    for size in (1, 2, 3):
        every = ran(system, options, given, call, size)
        for found, hashes, frames, told in every:
            assert found == whole.hash and hashes == whole.hashes
            assert all(np.array_equal(v, whole.frames[n]) for n, v in frames.items())
            assert told["ranks"] == size
        assert (sum(told["bytes"] for *_, told in every) > 0) == (size > 1)


def test_halos_are_all_that_grids_send():
    """Nine steps of 300 rows on 3 ranks: two passes of 4 steps with margins, one step with a row each way, then frames."""
    given, size = two(300, 64), 3
    (_, _, _, told), *_ = ran(wave, {"dt": 0.1}, given, {"steps": 9, "frames": 2}, size)
    row, states = 64 * 8, 2
    frames = (
        2 * 100 * row * states * (size - 1)
    )  # own rows of both states to the others, at the end and where it begins
    assert 0 < told["bytes"] <= frames + 9 * 2 * 2 * 20 * row * states


def test_the_members_of_a_step_that_fail_are_found_by_all():
    sim = tp.compile(fixed, dt=0.1, checks="off", propagator="loop")
    given = two(200, 96)
    given["q"][150, 3] = 1e3  # a quartic that blows up
    whole = sim.evolve(**given, steps=40, frames=3)
    assert whole.stopped is not None

    def one(ranks):
        with LOCK:
            mine = tp.compile(fixed, dt=0.1, checks="off", propagator="loop")
            mine.evolve(**given, steps=1)
        out = mine.evolve(**given, steps=40, frames=3, on=OnRanks(lambda: ranks))
        return out.stopped.step, out.stopped.where, out.hash

    assert run_ranks(2, one) == [(whole.stopped.step, whole.stopped.where, whole.hash)] * 2


@tp.hamiltonian
def pendulum(q: float, p: float):
    return p**2 / 2 - tp.cos(q)


def alone(ranks=None):
    class One:
        rank, size, sent, messages = 0, 2, 0, 0

        def agree(self, word):
            return True

    return One()


@pytest.mark.parametrize(
    "system, options, given, call, words",
    [
        (pendulum, {}, {"q": 0.1, "p": 0.0}, {}, "long loops"),
        (pendulum, {}, {"q": np.zeros(4), "p": np.zeros(4)}, {}, "on=client"),
        (fixed, {}, two(40, 40), {"save": "no.zarr"}, "save="),
        (fixed, {}, two(40, 40), {"events": {"x": lambda q: q[0, 0]}}, "events"),
        (wave, {"propagator": "exact"}, two(20, 20), {}, "propagator="),
        (fixed, {"backend": "numpy"}, two(200, 200), {}, "backend"),
        (gravity, {"approximate": 1e-3}, two(2000, 3) | {"m": np.ones(2000)}, {}, "tree"),
    ],
)
def test_what_processes_do_not_share_is_said(system, options, given, call, words, tmp_path):
    call = {k: tmp_path / v if k == "save" else v for k, v in call.items()}
    sim = tp.compile(system, dt=0.1, **options)
    with pytest.raises(PlanError, match=words):
        sim.evolve(**given, steps=5, **call, on=OnRanks(alone))
    assert not [*tmp_path.iterdir()]
