"""Loops whose code is made quickly first: the same bits, one thread, and good code once it is worth it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.context import QUICK
from tinyphysics.device.engines import loops
from tinyphysics.device.host import llvm
from tinyphysics.runtime.engines import loaders, tiers


def fields(feed):
    """Two fields that react; another number is another program, which no test has an engine of."""

    @tp.ode
    def reaction(u: tp.Array[40, 40], v: tp.Array[40, 40]):
        def around(z):
            return tp.roll(z, 1, 0) + tp.roll(z, -1, 0) + tp.roll(z, 1, 1) + tp.roll(z, -1, 1) - 4 * z

        return feed + u * u * v - 4.4 * u + around(u), 3.4 * u - u * u * v + around(v)

    return reaction


rng = np.random.default_rng(4)
START = dict(u=1 + 0.1 * rng.random((40, 40)), v=3 + 0.1 * rng.random((40, 40)))


@pytest.fixture
def levels(monkeypatch, tmp_path):
    """The levels at which modules are made, each time into a cache that is empty."""
    monkeypatch.setattr(loaders, "LONG_NESTS", 0)
    found, stored = [], llvm.stored

    def seen(name, text, cpu, level=llvm.OPTIMISATION):
        found.append(level)
        return stored(name, text, cpu, level)

    def emptied():
        found.clear()
        monkeypatch.setenv("TINYPHYSICS_CACHE", str(tmp_path / str(next(count))))
        return found

    count = itertools.count()
    monkeypatch.setattr(llvm, "stored", seen)
    return emptied


def hash_of(feed, method="rk4", **given):
    options, length = (dict(dt=0.01), dict(steps=6)) if method == "rk4" else ({}, dict(until=0.01))
    sim = tp.compile(fields(feed), method=method, **options)
    return sim.evolve(**START, **length, **given, frames=2, progress=False).hash


@pytest.mark.parametrize("method", ["rk4", pytest.param("rock4", marks=pytest.mark.all)])
def test_quick_code_of_loops_has_the_bits_of_good_code(method, levels):
    found = levels()
    with QUICK(0):
        good = hash_of(1.0, method)
    assert set(found) == {llvm.OPTIMISATION}
    levels()
    with QUICK(2):
        assert hash_of(1.0, method) == good
    assert set(found) == {llvm.QUICK}


@pytest.mark.parametrize("enough, wanted", [(1.0, {llvm.QUICK}), (0.0, {llvm.QUICK, llvm.OPTIMISATION})])
def test_good_code_is_made_once_the_quick_code_has_run_for_as_long(enough, wanted, levels, monkeypatch):
    monkeypatch.setattr(loaders, "PER_LINE_OF_NESTS", enough)
    found = levels()
    with QUICK(1):
        hash_of(2.0 + enough)
    assert set(found) == wanted


@pytest.mark.parametrize("most, wanted", [(1e9, {llvm.QUICK}), (1.0, {llvm.QUICK, llvm.OPTIMISATION})])
def test_threads_call_good_code_alone(most, wanted, levels, monkeypatch):
    """Quick code is run by one thread, and a call that is long for it is worth good code at once."""
    monkeypatch.setattr(loops, "THREAD_WORK", 1.0)
    monkeypatch.setattr(tiers, "MOST_QUICK", most)
    found = levels()
    with QUICK(1):
        quick = hash_of(4.0 + most, threads=2)
    assert set(found) - {None} >= wanted and (llvm.OPTIMISATION in found) == (llvm.OPTIMISATION in wanted)
    with QUICK(0):
        assert hash_of(4.0 + most, threads=2) == quick
