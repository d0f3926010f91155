"""Constants of every type and shifted stores in loops: what NumPy says, on every backend."""

from __future__ import annotations

import numpy as np
import pytest
from here import HERE

import tinyphysics as tp
from tinyphysics.ir.dtype import DTYPES, bool_
from tinyphysics.tpir.kernels.loops import build_loops
from tinyphysics.tpir.kernels.nests import Buffer

N = 64
MASK = np.arange(N) % 3 == 0
TABLE = np.arange(2 * N).reshape(2, N) % 5 < 2
WHOLE = np.arange(N) * 7 % 5 - 9
PLACES = np.arange(N) * 5 % N

TYPES = [
    np.bool_,
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.uint8,
    np.uint32,
    np.uint64,
    np.float32,
    np.float64,
]

# what a map does, as NumPy does it
MASKED = {
    "choose": lambda s: np.where(MASK, -s, s),
    "multiply": lambda s: s * MASK,
    "and": lambda s: np.where((s > 3) & MASK, -s, s),
    "or": lambda s: np.where((s > 3) | MASK, -s, s),
    "not": lambda s: np.where(~MASK, -s, s),
    "gather": lambda s: np.where(MASK[PLACES], s[PLACES], s),
    "count": lambda s: s + np.sum(s > 3),
    "largest": lambda s: s + np.max(np.where(s > 3, WHOLE, WHOLE - 2)),
    "kept": lambda s: (
        np.where(np.roll(s * s > 3, 1), -s, s)
        + np.where(np.roll(s * s > 3, -1), 1.0, 2.0)
        + np.where(s * s > 3, 3.0, 4.0)
    ),
}


def mapped(f):
    @tp.map
    def step(s: tp.Vec[N]):
        return f(s)

    return step


def run(system, backend, **state):
    out = tp.compile(system, backend=backend).evolve(**state, steps=2)
    assert out.metrics["backend"]["used"] == backend
    return out


@pytest.mark.parametrize("backend", HERE)
@pytest.mark.parametrize("name", MASKED)
def test_a_mask_in_a_loop_is_that_of_numpy(name, backend):
    f, s = MASKED[name], np.linspace(0, 8, N)
    assert np.array_equal(run(mapped(f), backend, s=s).final.s, f(f(s)))


@pytest.mark.parametrize("backend", HERE)
def test_constants_of_every_type_are_those_of_numpy(backend):
    s = np.linspace(-4, 8, N)
    for kind in TYPES:
        c = (np.arange(N) % 7).astype(kind)
        f = mapped(lambda s, c=c: s * c + 1)
        assert np.array_equal(
            run(f, backend, s=s).final.s, (s * c.astype(float) + 1) * c.astype(float) + 1
        ), kind


@pytest.mark.parametrize("backend", HERE)
def test_a_mask_of_components_and_points(backend):
    @tp.map
    def flip(s: tp.Array[2, N]):
        return np.where(TABLE, -s, s)

    s = np.linspace(1, 8, 2 * N).reshape(2, N)
    final = tp.compile(flip, backend=backend).evolve(s=s, steps=1).final.s
    assert np.array_equal(final, np.where(TABLE, -s, s))


@pytest.mark.parametrize("backend", HERE)
def test_a_condition_is_observed_as_it_is(backend):
    s = np.linspace(0, 8, N)
    sim = tp.compile(mapped(MASKED["choose"]), backend=backend)
    out = sim.evolve(s=s, steps=1, observe={"large": lambda s: s > 3, "many": lambda s: np.sum(s > 3)})
    after = MASKED["choose"](s)
    assert np.array_equal(out.observed["large"][1], [s > 3, after > 3])
    assert np.array_equal(out.observed["many"][1], [np.sum(s > 3), np.sum(after > 3)])


def test_masks_on_a_gpu_are_those_of_numpy(fake_cuda):
    f, s = MASKED["kept"], np.linspace(0, 8, N)
    assert np.array_equal(run(mapped(f), "cuda", s=s).final.s, f(f(s)))


def test_nothing_smaller_than_a_byte_is_a_buffer():
    kernel = build_loops(tp.compile(mapped(MASKED["choose"])).tpir)
    assert all(b.dtype.bits >= 8 for b in kernel.buffers.values())
    for dtype in set(DTYPES.values()) - {bool_}:
        Buffer("x", 1, (N,), dtype)
    with pytest.raises(AssertionError, match="bytes"):
        Buffer("x", 1, (N,), bool_)


# what is stored further on than it is computed
SHIFTED = {
    "square": lambda u: np.roll(u * u, 1),
    "sine": lambda u: np.roll(np.sin(u), -3),
    "choice": lambda u: np.roll(np.where(u > 0.5, u, -u * u), 1),
    "two": lambda u: np.roll(u * u, 1) + 0.1 * np.roll(u, -2),
    "joined": lambda u: np.concatenate([u[1:] * u[1:], u[:1]]),
    "behind": lambda u: np.pad(u[1:] * u[:-1], (1, 0)),
}


@pytest.mark.parametrize("backend", [b for b in HERE if b != "python"])
@pytest.mark.parametrize("name", SHIFTED)
def test_what_is_stored_at_another_index_runs_at_every_size(name, backend):
    f = SHIFTED[name]

    @tp.map
    def step(u: tp.Vec["n"]):
        return f(u)

    for n in (5, 32, 33, 40, 64, 100, 1000):
        u = np.linspace(0.1, 0.9, n)
        expected = tp.compile(step, backend="python").evolve(u=u, steps=2).final.u if n < 100 else f(f(u))
        found = tp.compile(step, backend=backend).evolve(u=u, steps=2).final.u
        assert np.array_equal(found, expected) if n < 100 else np.allclose(found, expected, 1e-14, 0), n
