"""Forces through a tree on a CUDA device, behind a driver that interprets PTX: the bits, stops and errors of the processor."""
from __future__ import annotations

import re

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.device import tree
from tinyphysics.errors import InputError, PlanError
from tinyphysics.physics.particles import cold_sphere, coulomb, gravity, plummer
from tinyphysics.tpir.tree import levels_of

HOW = dict(dt=0.02, approximate=1e-3)


def both(start, options=HOW, system=gravity, **how):
    """The run there; it is the one here in every bit."""
    there, ours = (tp.compile(system, backend=b, **options).evolve(**start, **how) for b in ("cuda", "llvm"))
    assert there.metrics["backend"]["used"] == "cuda" and there.metrics["launches"] > 0
    assert there.hash == ours.hash and there.stopped == ours.stopped
    assert all(np.array_equal(there.frames[s], ours.frames[s], equal_nan=True) for s in ours.frames)
    assert there.metrics["approximate"] == ours.metrics["approximate"] or there.stopped is not None
    return there


@pytest.mark.parametrize("method", ("leapfrog", "leapfrog_dkd", "yoshida4"))
@pytest.mark.parametrize("n", (9, 65))
def test_every_splitting_has_the_bits_of_the_processor(fake_cuda, method, n):
    both(plummer(n, seed=1), HOW | {"method": method}, softening=0.1, steps=4, save_every=2)


@pytest.mark.parametrize("budget", (1e-2, 1e-4))
def test_several_levels_are_walked(fake_cuda, budget):
    assert len(levels_of(520)) == 4
    both(plummer(520, seed=1), dict(dt=0.02, approximate=budget), softening=0.05, steps=1)


def test_warps_in_another_order_make_the_same_bits(fake_cuda):
    fake_cuda.warps = True
    both(plummer(100, seed=2), softening=0.1, steps=1)


def test_many_steps_and_what_is_looked_at(fake_cuda):
    look = dict(softening=0.1, steps=12, save_every=3, observe={"x": lambda q, p: q.sum(), "E": "energy"}, observe_every=2)
    for method in ("leapfrog", "leapfrog_dkd"):
        there, ours = (tp.compile(gravity, backend=b, method=method, **HOW).evolve(**plummer(40, seed=4), **look)
                       for b in ("cuda", "llvm"))  # fmt: skip
        plain = tp.compile(gravity, backend="cuda", method=method, **HOW).evolve(**plummer(40, seed=4), softening=0.1, steps=12)
        assert there.hash == ours.hash and np.array_equal(there["E"], ours["E"]) and np.array_equal(there["x"], ours["x"])
        assert np.array_equal(plain.final.q, there.final.q) and plain.metrics["approximate"] == there.metrics["approximate"]


def test_every_member_has_its_own_tree_and_angle(fake_cuda):
    starts = [plummer(60, seed=1), cold_sphere(60, seed=2)]
    both({name: np.stack([s[name] for s in starts]) for name in ("q", "p")} | {"m": starts[0]["m"]}, softening=0.1, steps=3)


@pytest.mark.parametrize("method", ("leapfrog", "leapfrog_dkd"))
def test_a_checkpoint_goes_on_there_and_here(fake_cuda, tmp_path, method):
    s, options = cold_sphere(60, seed=1), dict(dt=0.05, approximate=3e-3, method=method)
    whole = tp.compile(gravity, **options).evolve(**s, softening=0.05, steps=9)
    tp.compile(gravity, backend="cuda", **options).evolve(**s, softening=0.05, steps=5, checkpoint=tmp_path / "c")
    for backend in ("cuda", "llvm"):
        again = tp.compile(gravity, backend=backend, **options).evolve(resume=tmp_path / "c", steps=4)
        assert np.array_equal(again.final.q, whole.final.q) and again.metrics["approximate"] == whole.metrics["approximate"]


@pytest.mark.parametrize("method", ("leapfrog", "leapfrog_dkd"))
def test_a_point_that_goes_nowhere_stops_the_run_as_it_does_here(fake_cuda, method):
    s = plummer(30, seed=1)
    s["p"][3, 1] = 1.5e308
    out = both(s, HOW | {"method": method}, softening=0.1, steps=9)
    assert out.stopped is not None


def test_two_bodies_in_one_place_stop_the_run_as_they_do_here(fake_cuda):
    s = plummer(40, seed=1)
    s["q"][7] = s["q"][31]
    assert both(s, steps=3).stopped is not None


@pytest.mark.parametrize("q", [
    np.zeros((40, 3)), np.repeat(np.eye(3), 20, 0), np.linspace(0, 1, 50)[:, None] * [1.0, 0.0, 0.0],
    np.concatenate([np.random.default_rng(0).normal(size=(50, 3)), [[1e12, 0, 0]]]),
    -1e9 + np.random.default_rng(1).normal(size=(60, 3)),
], ids=("one place", "three places", "a line", "one far away", "far from the origin"))  # fmt: skip
def test_points_that_lie_badly_have_the_bits_of_the_processor(fake_cuda, q):
    both(dict(q=q, p=np.zeros_like(q), m=np.where(np.arange(len(q)) % 3, 1.0, 0.0)), softening=0.1, steps=2)


def test_what_a_tree_cannot_do_is_said_there_too(fake_cuda, monkeypatch):
    s = plummer(40, seed=1)
    with pytest.raises(InputError, match="the mass of body 0 is -1"):
        charge = np.where(np.arange(40) % 2, 1.0, -1.0)
        tp.compile(coulomb, backend="cuda", **HOW).evolve(q=s["q"], p=s["p"], charge=charge, steps=1)
    monkeypatch.setattr(tree, "NARROWEST", 1.0)
    with pytest.raises(PlanError, match="approximate=1e-17 is not met"):
        tp.compile(gravity, dt=0.02, approximate=1e-17, backend="cuda").evolve(**plummer(300, seed=1), softening=0.1, steps=1)


def test_the_text_rounds_to_nearest_and_contracts_nothing():
    text = tp.compile(gravity, sizes={"n": 300}, **HOW).ir("ptx")
    assert ".entry part_step_" in text and not re.findall(r"\.(?:approx|ftz|full)\b", text)
    assert {"vote.sync.ballot.b32"} == set(re.findall(r"\bvote\.[\w.]+", text))
    assert all(".rn." in x for x in re.findall(r"\b(?:add|sub|mul|div|fma|sqrt|rcp)\.[\w.]*f64", text))
