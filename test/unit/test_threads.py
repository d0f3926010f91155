"""Threads that take pieces of work: every piece once, errors come back, none is left behind."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from typing import Any

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.context import QUICK
from tinyphysics.device.engines import loops
from tinyphysics.device.host import neighbours, threads
from tinyphysics.device.host.copies import (
    PIECE,
    all_finite,
    copied,
    copy,
    copy_all,
    in_pieces,
    pieces_of,
)
from tinyphysics.device.host.threads import Plan, Threads, spread
from tinyphysics.runtime.engines.loaders import PART, LlvmLoops, c_team
from tinyphysics.runtime.state.digest import LEAF, joined, leaves, state_hash
from tinyphysics.tpir.kernels.nests import LINKS
from tinyphysics.tpir.kernels.shares import Shares


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_every_piece_is_done_once_and_in_its_place(count: int) -> None:
    done: list[int] = []
    assert spread(lambda k: (done.append(k), k * k)[1], 100, count) == [k * k for k in range(100)]
    assert sorted(done) == list(range(100))


def test_calls_inside_of_calls_and_beside_each_other_end() -> None:
    def inner(k: int) -> int:
        return sum(spread(lambda j: j + k, 20, 4))

    found: list[list[int]] = []
    callers = [
        threading.Thread(target=lambda: found.append(spread(inner, 20, 4)), daemon=True) for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=60)
    assert found == [[190 + 20 * k for k in range(20)]] * 4


def test_threads_have_the_flags_of_the_caller() -> None:
    with QUICK(2):
        assert set(spread(lambda k: (time.sleep(0.001), QUICK.value)[1], 16, 4)) == {2}


def test_the_first_error_is_raised_when_all_have_ended() -> None:
    running: list[int] = []

    def work(k: int) -> None:
        running.append(k)
        time.sleep(0.002)
        running.remove(k)
        if k == 3:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        spread(work, 50, 4)
    assert not running


def test_threads_go_when_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[threading.Thread] = []

    class Counted(threading.Thread):
        def start(self) -> None:
            made.append(self)
            super().start()

    monkeypatch.setattr(threads, "IDLE", 0.02)
    monkeypatch.setattr(threads, "helpers", threads.Helpers())
    monkeypatch.setattr(threading, "Thread", Counted)
    spread(lambda k: time.sleep(0.005), 8, 4)
    assert len(made) == 3
    for thread in made:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in made) and threads.helpers.free == 0
    assert spread(lambda k: k, 8, 4) == list(range(8))  # and come again
    assert len(made) == 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own() -> None:
    spread(lambda k: time.sleep(0.001), 8, 4)
    child = os.fork()
    if child == 0:
        os._exit(0 if spread(lambda k: k, 100, 4) == list(range(100)) else 1)
    assert os.waitpid(child, 0)[1] == 0


SHAPES = [(3,), (5 * PIECE + 17,), (1, 3 * PIECE), (3, PIECE), (PIECE, 3), (1, 700, 600), (0,), ()]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pieces_cover_an_array_and_copies_agree(shape: tuple[int, ...]) -> None:
    a = np.arange(int(np.prod(shape)), dtype=float).reshape(shape)
    seen = np.zeros(shape, int)
    for cut in pieces_of(a):
        seen[cut] += 1
    assert (seen == 1).all()
    assert np.array_equal(copied(a, 3), a) and copied(a, 3).flags.owndata
    out = np.empty(shape)
    copy(1.5, out, 3)
    assert (out == 1.5).all()
    assert all_finite(a, 3)
    if a.size:
        a[(-1,) * a.ndim] = np.nan
        assert not all_finite(a, 3)
    halves = in_pieces(lambda x: {"half": (x / 2).astype(np.float32), "sign": x > 1}, a, 3)
    assert halves["half"].dtype == np.float32 and np.array_equal(
        halves["half"], (a / 2).astype(np.float32), True
    )
    assert np.array_equal(halves["sign"], a > 1)
    assert in_pieces(lambda x: {"same": x}, a, 3)["same"] is a


@pytest.mark.parametrize("sizes", [(3, 0, 7), (3, 9 * PIECE, 0, 2 * PIECE + 1)])
def test_several_arrays_at_once(sizes: tuple[int, ...]) -> None:
    arrays = [np.arange(n, dtype=float) for n in sizes]
    outs = [np.empty_like(a) for a in arrays]
    assert copy_all(list(zip(arrays, outs)), 3) == [True] * len(sizes)
    assert all(map(np.array_equal, arrays, outs))
    arrays[0][1] = arrays[-1][-2] = np.inf
    doubtful = [k > 0 for k in range(len(sizes))]
    assert copy_all(list(zip(arrays, outs)), 3, doubtful) == [k < len(sizes) - 1 for k in range(len(sizes))]


@pytest.mark.parametrize("name", ["q", "p"])
def test_a_large_state_that_is_not_finite_is_named(name: str) -> None:
    start = {"q": np.zeros(2 * PIECE), "p": np.zeros(2 * PIECE)}
    start[name][PIECE + 1] = np.nan
    sim = tp.compile(tp.hamiltonian(lambda q, p: p**2 / 2 - tp.cos(q)), dt=0.1)
    with pytest.raises(tp.InputError, match=f"the initial `{name}` is not finite"):
        sim.evolve(**start, steps=1)


def test_a_hash_does_not_depend_on_the_threads() -> None:
    r = np.random.default_rng(0)
    state = {"q": r.normal(size=3 * LEAF + 5), "p": r.normal(size=(2, LEAF)), "n": np.arange(7)}
    expected = joined((v.dtype, v.shape, leaves(v)) for v in state.values())
    assert {state_hash(state, n) for n in (1, 2, 7)} == {expected}


# --- teams (emit/modules/team.py) ---------------------------------------------------------------------
def teams() -> dict[str, Any]:
    return {"llvm": LlvmLoops().team, "c": c_team()}


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_a_team_does_every_piece_once_after_those_before_its_call_and_links_in_turn(backend: str) -> None:
    begun: list[tuple[str, int, int]] = []
    ended: list[tuple[str, int, int]] = []

    def part(name: str) -> Any:
        def call(table: int, uniform: int, flags: int, lo: int, hi: int, now: int) -> None:
            before = set(ended)
            begun.append((name, lo, now))
            time.sleep(0.0003)
            earlier = {"map": [], "chain": [("map", k, now) for k in range(5)]}[name]
            earlier += [("chain", k, now - 2) for k in range(3 * LINKS)] if now > 7 else []
            earlier += [("chain", lo - 1, now)] if name == "chain" and lo % LINKS else []
            assert before.issuperset(earlier)
            ended.append((name, lo, now))

        return PART(call)

    calls = {"part.map": part("map"), "part.chain": part("chain")}
    places = {name: ctypes.cast(f, ctypes.c_void_p).value or 0 for name, f in calls.items()}
    made = Shares(4, 1.0, places, {})
    made.call(places["part.map"], [(k, k + 1) for k in range(5)])
    made.chain(places["part.chain"], 3 * LINKS)
    made.pieces.append((0, 0, 1, len(made.pieces), -1, 0))
    table = np.array([11, 22], np.uintp)
    Threads(4, teams()[backend], table, np.zeros(1), np.zeros(8, np.int8)).run(Plan.of(made), 7, 3, 2)
    every = [("map", k, now) for now in (7, 9, 11) for k in range(5)]
    every += [("chain", k, now) for now in (7, 9, 11) for k in range(3 * LINKS)]
    assert sorted(ended) == sorted(every) and len(begun) == len(ended)
    assert table.tolist() == [22, 11]  # three exchanges


def test_links_let_seven_threads_share_sixteen_slabs_nearly_evenly() -> None:
    """In whole slabs the busiest of seven threads would have three of sixteen: 5.33 times as fast at most."""
    made = Shares(7, 1.0, {}, {})
    made.chain(1, 16 * LINKS)
    busy, ends = [0.0] * 7, {-1: 0.0}
    for _, lo, _, before, chain, place in made.pieces:  # each takes as long
        k = busy.index(min(busy))
        begins = max(busy[k], ends.get((chain, place - 1), 0.0))
        busy[k] = ends[chain, place] = begins + 1.0
        assert before == 0 and lo == chain * LINKS + place
    assert 16 * LINKS / max(busy) > 6.7


@tp.hamiltonian
def liquid(q: tp.Array["n", 3], p: tp.Array["n", 3], box: tp.Vec[3]):  # noqa: F821
    s6 = 1 / tp.pair_distance2(q, box=box, cutoff=2.5) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s6 * s6 - s6))


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_neighbours_have_the_bits_of_one_thread(backend: str, monkeypatch: Any) -> None:
    """In two slabs of rows, with lists that are made by several threads."""
    monkeypatch.setattr(loops, "THREAD_WORK", 1.0)
    monkeypatch.setattr(neighbours, "WORTH_A_PART", 100)
    k = np.arange(13.0)
    q = np.stack(np.meshgrid(k, k, k, indexing="ij"), -1).reshape(-1, 3) * 1.2
    start = {"q": q, "p": np.random.default_rng(3).normal(size=q.shape), "box": np.full(3, 13 * 1.2)}
    sim = tp.compile(liquid, dt=0.004, backend=backend)
    outs = [sim.evolve(**start, steps=12, threads=n) for n in (1, 3, 7)]
    assert len({out.hash for out in outs}) == 1 and np.isfinite(outs[0].final.q).all()
