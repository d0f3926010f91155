"""A nest that follows another some rows behind: when it may, when not, and the same bits when it does."""
from __future__ import annotations

import numpy as np
import pytest
from test_loops import SYSTEMS, compiled, fput, loops, start_of, wave

from tinyphysics.device.nests import ArrayLoops
from tinyphysics.emit import nest_follow
from tinyphysics.emit.nest_follow import lag
from tinyphysics.emit.nest_kinds import spans
from tinyphysics.ir import Ops, UOp
from tinyphysics.ir.dtype import f64, i64
from tinyphysics.runtime.loaders import LlvmLoops
from tinyphysics.tpir.loops import build_loops
from tinyphysics.tpir.nests import Nest, Piece, Store

N = 40
x, y = UOp.var("@i0", (), i64), UOp.var("@i1", (), i64)


def shifted(c):
    return x + UOp.const(c, i64) if c else x


def periodic(c):
    """x + c, and round the edge."""
    there = shifted(c)
    if c < 0:
        return UOp(Ops.WHERE, i64, (), (there < UOp.const(0, i64), shifted(c + N), there))
    return UOp(Ops.WHERE, i64, (), (there < UOp.const(N, i64), there, shifted(c - N)))


def nest(stores, *reads, row=x):
    """A map on N x N that stores a buffer from others, each read at a row."""
    value = UOp.const(0.0, f64)
    for buffer, at in reads:
        value = value + UOp(Ops.LOAD, f64, (), (at, y), (buffer, 0))
    return Nest("map", (x, y), (N, N), (Piece(0, N, (Store(stores, 0, (row, y), value),)),))


# fmt: off
CASES = [
    ("it reads the same row",           nest("a"),               nest("b", ("a", x)),                                      0),
    ("it reads nothing of the first",   nest("a"),               nest("b", ("c", shifted(20))),                            0),
    ("neighbours",                      nest("a", ("b", x)),     nest("b", ("a", shifted(-1)), ("a", shifted(2))),         2),
    ("neighbours round the edge",       nest("a", ("b", x)),     nest("b", ("a", periodic(-1)), ("a", periodic(3))),       3),
    ("it reads far away",               nest("a"),               nest("b", ("a", shifted(20))),                         None),
    ("far away, round the edge",        nest("a"),               nest("b", ("a", periodic(20))),                        None),
    ("it reads backwards",              nest("a"),               nest("b", ("a", UOp.const(N - 1, i64) - x)),           None),
    ("every row reads one",             nest("a"),               nest("b", ("a", UOp.const(3, i64))),                   None),
    ("the first reads what it stores",  nest("a", ("b", shifted(-1))),  nest("b", ("a", x)),                            None),
    ("both store one",                  nest("a"),               nest("a", ("c", x)),                                   None),
    ("it stores other rows",            nest("a"),               nest("b", ("a", x), row=shifted(1)),                   None),
]
# fmt: on


@pytest.mark.parametrize("name, first, second, expected", CASES, ids=[c[0] for c in CASES])
def test_a_nest_may_follow_if_its_rows_are_ready(name, first, second, expected):
    assert lag(first, second) == expected


@pytest.fixture
def everywhere(monkeypatch):
    """Small nests in small blocks as well."""
    monkeypatch.setattr(nest_follow, "LARGE", 0)
    monkeypatch.setattr(nest_follow, "AT_ONCE", 1)


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda s: s.name)
@pytest.mark.parametrize("n", [40, 43])
def test_the_bits_are_those_of_one_nest_after_the_other(everywhere, system, n):
    state, params = start_of(system, n)
    sim = compiled(system, n)
    whole, blocks = (loops(sim, loader, state, params, 3) for loader in (ArrayLoops(), LlvmLoops()))
    assert all(np.array_equal(whole[k], blocks[k]) for k in whole)


def test_a_drift_and_a_kick_of_a_field_follow_each_other(everywhere):
    for system in (wave, fput):
        kernel = build_loops(compiled(system, N).tpir)
        drift, kick = kernel.sections["step"].nests
        assert lag(drift, kick) == 1
        assert nest_follow.following(kernel, drift, kick) is not None


def test_a_lag_that_is_too_short_is_seen(everywhere, monkeypatch):
    monkeypatch.setattr(nest_follow, "lag", lambda *_: 0)
    state, params = start_of(wave, N)
    sim = compiled(wave, N)
    whole, blocks = (loops(sim, loader, state, params, 3) for loader in (ArrayLoops(), LlvmLoops()))
    assert not np.array_equal(whole["pi"], blocks["pi"])


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_spans_cover_a_range_once_at_multiples_of_their_width(width):
    for lo in range(10):
        for hi in range(lo, 40):
            found = spans(lo, hi, width)
            assert [i for a, b, _ in found for i in range(a, b)] == list(range(lo, hi))
            assert all(a % w == 0 and (b - a) % w == 0 and w <= width for a, b, w in found)
