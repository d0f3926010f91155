"""Does a real GPU make the lists of the processor?  Orders of a million points, rows and columns, and the bits of liquids."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from test_cuda_near import Read, listed, pairs_by_columns
from test_near import lennard_jones, made, open_space, spread, tilted
from tinyphysics.device.host.neighbours import arranged
from tinyphysics.tpir.kernels.neighbours import FIRST


def same(system, options, start, **how):
    """The run there; it has the bits of the one here, and did launch."""
    there, ours = (tp.compile(system, backend=b, **options).evolve(**start, **how) for b in ("cuda", "llvm"))
    assert there.metrics["backend"]["used"] == "cuda" and there.metrics["launches"] > 0
    assert there.hash == ours.hash and there.stopped == ours.stopped
    assert all(np.array_equal(there.frames[s], ours.frames[s]) for s in ours.frames)
    return there


def points_of(gpu, many, d, space, seed=1):
    n = many if gpu.real else 60
    rng = np.random.default_rng(seed)
    size = 8.0 if space != "open" else 1.1 * n ** (1 / d)
    return rng.uniform(-size, 2 * size, (n, d))


@pytest.mark.parametrize("curve", [0, 1])
@pytest.mark.parametrize(
    ("space", "d", "dtype"),
    [("cube", 3, "f64"), ("tilted", 3, "f32"), ("open", 3, "f64"), ("cube", 2, "f32"), ("open", 1, "f64")],
)
def test_a_million_points_have_the_order_of_the_processor(gpu, space, d, dtype, curve):
    real = {"f32": np.float32, "f64": float}[dtype]
    q = points_of(gpu, 1_000_003, d, space).astype(real)
    near = listed(q, space, curve, dtype, cutoff=2.0 if space != "cube" and not gpu.real else 0.05)
    near.make_at(q.T)
    found, periods = Read(near), np.empty(q.T.shape, real)
    order, *_ = arranged(q.T, near.domain, periods)
    assert np.array_equal(found.made["order"][: len(q)], order)
    assert np.array_equal(found.made["inverse"][order], np.arange(len(q)))
    assert np.array_equal(found.images, periods.T)


@pytest.mark.parametrize("space", ["cube", "open"])
def test_rows_and_columns_are_those_of_the_processor(gpu, space):
    q = points_of(gpu, 100_003, 3, space)
    near = listed(q, space, cutoff=2.0 if not gpu.real else 0.4 if space == "cube" else 2.5)
    near.make_at(q.T)
    here, there, n = made(q, near.domain), Read(near), len(q)

    def entries(x):
        starts = x.made["starts"][: n + 1]
        return (
            np.repeat(np.arange(n), np.diff(starts)) << 32
            | x.made["blocks"][: starts[n]].astype(np.int64) >> FIRST
        )

    missing = np.setdiff1d(entries(here), entries(there))
    assert np.array_equal(missing >> 35, missing & 0xFFFFFFFF)  # on a processor a point is near itself
    if not gpu.real:
        assert pairs_by_columns(there)
    columns, parts = there.made["columns"], len(near.cuts) - 1
    count = -(-n // 8) * parts
    owner = np.repeat(np.arange(count) // parts, np.diff(columns[: count + 1]))
    turned = np.sort(there.made["rows"][: columns[count]].astype(np.int64) << 32 | owner)
    assert np.array_equal(turned, np.sort(entries(there)))


@pytest.mark.parametrize(("n", "steps"), [(4_000, 300), (100_000, 60)])
def test_a_liquid_has_the_bits_of_the_processor(gpu, n, steps):
    n = n if gpu.real else 27
    box = 8.0 if not gpu.real else 1.09 * n ** (1 / 3)
    q = spread(n, [box] * 3, 3)
    p = np.random.default_rng(0).normal(size=q.shape)
    out = same(lennard_jones, dict(dt=0.004), dict(q=q, p=p, box=[box] * 3), steps=gpu.steps(steps))
    assert not gpu.real or out.metrics["bytes_moved"] < 1e3 * (
        n + steps
    )  # states go there and come back; lists do not


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["tilted", "open"])
def test_other_spaces_and_precisions(gpu, kind, precision):
    n = 5_000 if gpu.real else 27
    size = 8.0 if not gpu.real else 1.2 * n ** (1 / 3)
    cell = np.array([[1.0, 0, 0], [0.3, 0.95, 0], [-0.2, 0.3, 1.1]]) * size
    q = spread(n, [1.0] * 3, 3) @ cell
    p = np.random.default_rng(0).normal(size=q.shape)
    start = dict(q=q, p=p) | (dict(cell=cell) if kind == "tilted" else {})
    same(
        tilted if kind == "tilted" else open_space,
        dict(dt=0.004, precision=precision),
        start,
        steps=gpu.steps(100),
        save_every=20,
    )
