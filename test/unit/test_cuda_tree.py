"""Forces through a tree on a CUDA device, behind a driver that interprets PTX: the bits, stops and errors of the processor."""

from __future__ import annotations

import re

import numpy as np
import ptx_machine
import pytest
from test_exchange import there
from test_near import spread

import tinyphysics as tp
from tinyphysics.device.cuda import nvptx
from tinyphysics.device.host import tree
from tinyphysics.emit.modules import ptx_nests
from tinyphysics.emit.kinds.trees import ptx_tree_text
from tinyphysics.tpir.kernels.loopir import WORKSPACE
from tinyphysics.errors import BackendError, InputError, PlanError
from tinyphysics.physics.particles import cold_sphere, coulomb, gravity, plummer
from tinyphysics.runtime.engines.loaders import tree_functions
from tinyphysics.tpir.kernels.loops import build_loops
from tinyphysics.tpir.kernels.tree import BOX, GROUP, MASSES, PLANES, POINTS, levels_of

HOW = dict(dt=0.02, approximate=1e-3)


def both(start, options=HOW, system=gravity, **how):
    """The run there; it is the one here in every bit."""
    there, ours = (tp.compile(system, backend=b, **options).evolve(**start, **how) for b in ("cuda", "llvm"))
    assert there.metrics["backend"]["used"] == "cuda" and there.metrics["launches"] > 0
    assert there.hash == ours.hash and there.stopped == ours.stopped
    assert all(np.array_equal(there.frames[s], ours.frames[s], equal_nan=True) for s in ours.frames)
    assert there.metrics["approximate"] == ours.metrics["approximate"] or there.stopped is not None
    return there


# --- the tree -------------------------------------------------------------------------------------
def grown_there(q, m):
    """The arrays of the workspace after all launches of an evaluation but the walk."""
    n = len(q)
    kernel = build_loops(tp.compile(gravity, sizes={"n": n}, **HOW).tpir)
    made = ptx_nests.nests_module(kernel)
    text = nvptx.compiled(made.text)
    section, nests = next(
        (s.name, s.nests) for s in kernel.sections.values() if any(x.kind == "tree" for x in s.nests)
    )
    _, *launches, walk = made.launches[section][next(k for k, x in enumerate(nests) if x.kind == "tree")]
    assert "walk" in walk.name
    points, masses = kernel.buffers[POINTS], kernel.buffers[MASSES]
    held = {
        POINTS: np.zeros((3, points.plane)),
        MASSES: np.zeros(masses.plane),
        WORKSPACE: np.zeros(made.workspace, np.uint8),
    }
    held[POINTS][:, :n], held[MASSES][:n] = q.T, m
    nothing = [np.zeros(8, np.uint8) for _ in range(3)] + [np.int64(0)]
    for x in launches:
        ptx_machine.run(text, x.name, [held[b] for b in x.buffers] + nothing, x.blocks, x.block)
    places, _ = ptx_tree_text.arrays_of(n)
    wide, around = levels_of(n)[-1][0] + GROUP, -(-n // GROUP) * GROUP
    space = held[WORKSPACE]

    def array(name, kind, *shape):
        begin = places[name]
        return space[begin : begin + np.dtype(kind).itemsize * int(np.prod(shape))].view(kind).reshape(shape)

    return (
        array("order", np.int32, n),
        array("rows", np.float64, around, 4),
        array("nodes", np.float64, wide, BOX),
        array("boxes", np.float64, wide, PLANES - BOX),
    )


PLACES = {
    "a cluster": lambda n: plummer(n, seed=1)["q"],
    "a few places": lambda n: np.random.default_rng(1).integers(0, 3, (n, 3)).astype(float),
    "one place": lambda n: np.ones((n, 3)),
    "one nowhere": lambda n: np.where(
        np.arange(n)[:, None] == n // 2, np.inf, np.random.default_rng(2).normal(size=(n, 3))
    ),
}


@pytest.mark.parametrize(
    ("n", "where", "most"),
    [
        *((n, where, 1 << 20) for n in (9, 300) for where in PLACES),
        (300, "a few places", 0),
        (3001, "a cluster", 0),
    ],
)
def test_a_tree_that_the_device_makes_is_the_processor_s(monkeypatch, n, where, most):
    """By rank, or in passes if there are more than `most`."""
    monkeypatch.setattr(ptx_tree_text, "RANKED", most)
    q, m = PLACES[where](n), np.where(np.arange(n) % 5, np.random.default_rng(3).uniform(0, 1, n), 0.0)
    with np.errstate(all="ignore"):
        expected = tree.planted(q.T, m, tree_functions())
    order, rows, nodes, boxes = grown_there(q, m)
    assert np.array_equal(order, expected.order) and np.array_equal(rows.T, expected.points)
    for begin, count in levels_of(n):
        these = slice(begin, begin + count)
        assert np.array_equal(nodes[these].T, expected.nodes[:BOX, these], equal_nan=True)
        assert np.array_equal(boxes[these].T, expected.nodes[BOX:, these], equal_nan=True)


def test_the_levels_of_a_tree_are_those_of_its_nodes():
    assert levels_of(1) == [(0, 1), (8, 1)] and levels_of(65) == [(0, 9), (16, 2), (24, 1)]
    assert len(levels_of(ptx_tree_text.MOST)) == 10  # eight levels wait, with eight bits each


# --- runs -----------------------------------------------------------------------------------------
def test_steps_are_queued_as_graphs_and_nothing_comes_back(fake_cuda):
    sim, s = tp.compile(gravity, backend="cuda", **HOW), plummer(20, seed=1)
    runs = [sim.evolve(**s, softening=0.1, steps=n, frames=2) for n in (4, 16)]
    assert runs[0].metrics["bytes_moved"] == runs[1].metrics["bytes_moved"]
    assert runs[1].metrics["launches"] < 2 * runs[0].metrics["launches"]
    assert runs[1].hash == tp.compile(gravity, **HOW).evolve(**s, softening=0.1, steps=16).hash


def test_a_long_sort_has_the_bits_of_the_processor(fake_cuda, monkeypatch):
    monkeypatch.setattr(ptx_tree_text, "RANKED", 0)
    monkeypatch.setattr(ptx_tree_text, "OWN", 4)
    both(plummer(90, seed=1), HOW | {"method": "leapfrog_dkd"}, softening=0.1, steps=1)


@pytest.mark.parametrize("method", ("leapfrog", "leapfrog_dkd", "yoshida4"))
@pytest.mark.parametrize("n", (9, 65))
def test_every_splitting_has_the_bits_of_the_processor(fake_cuda, method, n):
    both(plummer(n, seed=1), HOW | {"method": method}, softening=0.1, steps=2, save_every=1)


def test_several_levels_are_walked(fake_cuda):
    assert len(levels_of(520)) == 4
    both(
        plummer(520, seed=1), dict(dt=0.02, approximate=1e-2, method="leapfrog_dkd"), softening=0.05, steps=1
    )


def test_warps_in_another_order_make_the_same_bits(fake_cuda):
    fake_cuda.warps = True
    both(plummer(100, seed=2), softening=0.1, steps=1)


def test_many_steps_and_what_is_looked_at(fake_cuda):
    look = dict(
        softening=0.1,
        steps=6,
        save_every=3,
        observe={"x": lambda q, p: q.sum(), "E": "energy"},
        observe_every=2,
    )
    for method in ("leapfrog", "leapfrog_dkd"):
        there, ours = (
            tp.compile(gravity, backend=b, method=method, **HOW).evolve(**plummer(17, seed=4), **look)
            for b in ("cuda", "llvm")
        )
        plain = tp.compile(gravity, backend="cuda", method=method, **HOW).evolve(
            **plummer(17, seed=4), softening=0.1, steps=6
        )
        assert (
            there.hash == ours.hash
            and np.array_equal(there["E"], ours["E"])
            and np.array_equal(there["x"], ours["x"])
        )
        assert (
            np.array_equal(plain.final.q, there.final.q)
            and plain.metrics["approximate"] == there.metrics["approximate"]
        )


def test_every_member_has_its_own_tree_and_angle(fake_cuda):
    starts = [plummer(60, seed=1), cold_sphere(60, seed=2)]
    both(
        {name: np.stack([s[name] for s in starts]) for name in ("q", "p")} | {"m": starts[0]["m"]},
        softening=0.1,
        steps=3,
    )


@pytest.mark.parametrize("method", ("leapfrog", "leapfrog_dkd"))
def test_a_checkpoint_goes_on_there_and_here(fake_cuda, tmp_path, method):
    s, options = cold_sphere(60, seed=1), dict(dt=0.05, approximate=3e-3, method=method)
    whole = tp.compile(gravity, **options).evolve(**s, softening=0.05, steps=9)
    tp.compile(gravity, backend="cuda", **options).evolve(
        **s, softening=0.05, steps=5, checkpoint=tmp_path / "c"
    )
    for backend in ("cuda", "llvm"):
        again = tp.compile(gravity, backend=backend, **options).evolve(resume=tmp_path / "c", steps=4)
        assert (
            np.array_equal(again.final.q, whole.final.q)
            and again.metrics["approximate"] == whole.metrics["approximate"]
        )


@pytest.mark.parametrize("method", ("leapfrog", "leapfrog_dkd"))
def test_a_point_that_goes_nowhere_stops_the_run_as_it_does_here(fake_cuda, method):
    s = plummer(30, seed=1)
    s["p"][3, 1] = 1.5e308
    out = both(s, HOW | {"method": method}, softening=0.1, steps=9)
    assert out.stopped is not None


def test_a_member_that_fails_is_named_and_the_others_go_on(fake_cuda):
    a, b = plummer(20, seed=1), plummer(20, seed=2)
    q = np.stack([a["q"], a["q"], b["q"]])
    q[1, 7] = q[1, 3]
    out = both(dict(q=q, p=np.stack([a["p"], a["p"], b["p"]]), m=a["m"]), steps=3, hash_every=2)
    assert out.stopped.member == 1


@pytest.mark.parametrize("method", ("leapfrog", "leapfrog_dkd"))
def test_steps_that_are_done_again_carefully_keep_their_tree(fake_cuda, method):
    @tp.hamiltonian
    def corrugated(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"] = 1.0):
        d = q[:, None] - q[None, :]
        pull = m[:, None] * m[None, :] / tp.sqrt((d**2).sum(-1) + 0.01)
        return (p**2).sum() / 2 - tp.cos(q).sum() - tp.pair_sum(pull)

    s = plummer(20, seed=1)
    s["q"][5] += 1e9  # too far for the fast path of a cosine
    both(s, HOW | {"method": method}, corrugated, steps=3)


def test_arrays_that_are_there_already_go_through_a_tree(fake_cuda):
    s, how = plummer(20, seed=1), dict(softening=0.1, steps=3, save_every=1)
    given = s | {name: there(s[name]) for name in ("q", "p")}
    out = tp.compile(gravity, backend="cuda", **HOW).evolve(**given, **how)
    ours = tp.compile(gravity, **HOW).evolve(**s, **how)
    assert out.hash == ours.hash and out.metrics["approximate"] == ours.metrics["approximate"]


@pytest.mark.parametrize(("method", "speed"), [("leapfrog", 3.0), ("leapfrog_dkd", 60.0)])
def test_neighbours_and_a_tree_in_one_step_have_the_bits_of_the_processor(fake_cuda, method, speed):
    @tp.hamiltonian
    def grains(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"], rc: float = 1.2):
        s6, d = 1 / tp.pair_distance2(q, cutoff=rc) ** 3, q[:, None] - q[None, :]
        pull = m[:, None] * m[None, :] / tp.sqrt((d**2).sum(-1) + 0.01)
        return (p**2).sum() / 2 + tp.pair_sum((s6 * s6 - s6) / 10) - tp.pair_sum(pull)

    rng = np.random.default_rng(1)
    start = dict(q=spread(40, 4.0, 1), p=speed * rng.normal(size=(40, 3)), m=rng.uniform(0.5, 1.5, 40))
    both(start, HOW | {"method": method}, grains, steps=3)


def test_two_bodies_in_one_place_stop_the_run_as_they_do_here(fake_cuda):
    s = plummer(40, seed=1)
    s["q"][7] = s["q"][31]
    assert both(s, steps=3).stopped is not None


@pytest.mark.parametrize(
    "q",
    [
        np.zeros((40, 3)),
        np.repeat(np.eye(3), 20, 0),
        np.linspace(0, 1, 50)[:, None] * [1.0, 0.0, 0.0],
        np.concatenate([np.random.default_rng(0).normal(size=(50, 3)), [[1e12, 0, 0]]]),
        -1e9 + np.random.default_rng(1).normal(size=(60, 3)),
    ],
    ids=("one place", "three places", "a line", "one far away", "far from the origin"),
)
def test_points_that_lie_badly_have_the_bits_of_the_processor(fake_cuda, q):
    both(dict(q=q, p=np.zeros_like(q), m=np.where(np.arange(len(q)) % 3, 1.0, 0.0)), softening=0.1, steps=2)


def test_what_a_tree_cannot_do_is_said_there_too(fake_cuda, monkeypatch):
    s = plummer(40, seed=1)
    with pytest.raises(InputError, match="the mass of body 0 is -1"):
        charge = np.where(np.arange(40) % 2, 1.0, -1.0)
        tp.compile(coulomb, backend="cuda", **HOW).evolve(q=s["q"], p=s["p"], charge=charge, steps=1)
    monkeypatch.setattr(tree, "NARROWEST", 1.0)
    with pytest.raises(PlanError, match="approximate=1e-17 cannot be met"):
        tp.compile(gravity, dt=0.02, approximate=1e-17, backend="cuda").evolve(
            **plummer(300, seed=1), softening=0.1, steps=1
        )


def test_the_text_rounds_to_nearest_and_contracts_nothing():
    text = tp.compile(gravity, sizes={"n": 300}, **HOW).ir("ptx")
    assert ".entry part_step_" in text and not re.findall(r"\.(?:approx|ftz|full)\b", text)
    assert {"vote.sync.ballot.b32"} == set(re.findall(r"\bvote\.[\w.]+", text))
    assert all(".rn." in x for x in re.findall(r"\b(?:add|sub|mul|div|fma|sqrt|rcp)\.[\w.]*f64", text))


def test_too_many_points_are_refused(monkeypatch):
    monkeypatch.setattr(ptx_nests, "MOST", 299)
    with pytest.raises(BackendError, match="tree codes of up to 299 points"):
        tp.compile(gravity, sizes={"n": 300}, **HOW).ir("ptx")
