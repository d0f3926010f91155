"""Are the leaves of a hash the same where the data is?  Digests of the device beside hashlib's, through the fake driver."""

import hashlib
import re

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.device.cuda import driver as cuda, dlpack as exchange, nvptx
from tinyphysics.emit.scalar import ptx_leaves
from tinyphysics.runtime.state import digest
from tinyphysics.runtime.stages import running
from tinyphysics.runtime.state import device_arrays as there
from tinyphysics.runtime.state.digest import LEAF, state_hash

SMALL = 512  # bytes of a leaf: as many blocks as make a difference, and not the 512 of a real one


def numbers(kind, count, seed=3):
    """All patterns of bits, NaNs among them."""
    size = np.dtype(kind).itemsize
    return np.random.default_rng(seed).integers(0, 256, count * size, np.uint8).view(kind)


def by_hashlib(a, leaf):
    data = digest.canonical(a).tobytes()
    return b"".join(
        hashlib.blake2b(data[k : k + leaf], digest_size=16).digest() for k in range(0, len(data), leaf)
    )


@pytest.mark.parametrize("kind", ["f8", "f4", "i8", "u4"])
def test_leaves_are_those_of_hashlib(fake_cuda, kind):
    """Around the ends of blocks, and of leaves."""
    for count in (0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300):
        a = numbers(kind, count)
        assert there.leaves(exchange.sent(a), SMALL) == by_hashlib(a, SMALL), count


def test_leaves_of_many_blocks(fake_cuda, monkeypatch):
    """One number less than a leaf, a whole one, and one number more; test/gpu has them in their real size."""
    monkeypatch.setattr(digest, "LEAF", 4096)
    for count in (511, 512, 513):
        a = numbers("f8", count)
        assert digest.leaves(exchange.sent(a)) == digest.leaves(a) == by_hashlib(a, 4096)


@pytest.mark.parametrize(
    "kind, word, patterns",
    [
        (
            "f8",
            "u8",
            [
                0x7FF8 << 48,
                0xFFF8 << 48,
                0x7FF0000000000001,
                0xFFFFFFFFFFFFFFFF,
                0x7FF0 << 48,
                0xFFF0 << 48,
                1 << 63,
                1,
                0,
            ],
        ),
        ("f4", "u4", [0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF, 0x7F800000, 0xFF800000, 1 << 31, 1, 0]),
    ],
)
def test_every_nan_is_one_and_nothing_else_changes(fake_cuda, kind, word, patterns):
    """Quiet and signalling ones, of both signs; infinities, -0.0 and subnormals are what they are."""
    found = [there.leaves(exchange.sent(np.array([bits], word).view(kind)), LEAF) for bits in patterns]
    assert len(set(found[:4])) == 1 and len(set(found)) == len(patterns) - 3
    assert found == [by_hashlib(np.array([bits], word).view(kind), LEAF) for bits in patterns]


def test_a_part_of_an_array_of_float32_need_not_lie_on_eight_bytes(fake_cuda):
    a = numbers("f4", 90)
    assert there.leaves(exchange.sent(a)[1:80], SMALL) == by_hashlib(a[1:80], SMALL)


def test_a_hash_reads_sixteen_bytes_a_leaf(fake_cuda):
    a, before = exchange.sent(np.zeros((3, 100))), cuda.device().moved
    assert state_hash({"q": a}) == state_hash({"q": np.zeros((3, 100))})
    assert cuda.device().moved - before == 16


def test_the_text_moves_bits_and_computes_with_no_floats():
    for kind in ("f64", "f32", "i64", "i32"):
        text = nvptx.compiled(ptx_leaves.module(kind))
        assert (
            not re.findall(r"\b(?:add|sub|mul|fma|div)\.[a-z.]*f(?:32|64)\b", text) and ".local" not in text
        )


@tp.hamiltonian
def pendulum(q, p):
    return p * p / 2 - tp.cos(q)


def test_a_chain_of_hashes_of_numpy_arrays_is_made_where_the_state_is(fake_cuda, monkeypatch):
    """Only if it is large, and nobody wants to see it."""
    q = np.linspace(-1, 1, 200)
    here = tp.compile(pendulum, dt=0.01, backend="llvm").evolve(q=q, p=0 * q, steps=6, hash_every=2, frames=2)
    sim = tp.compile(pendulum, dt=0.01, backend="cuda")
    read = sim.evolve(q=q, p=0 * q, steps=6, hash_every=2, frames=2)
    monkeypatch.setattr(running, "HASHED_THERE", 1000)
    out = sim.evolve(q=q, p=0 * q, steps=6, hash_every=2, frames=2)
    assert out.hashes == read.hashes == here.hashes and len(out.hashes) == 3
    # the last one is of a frame that is read anyway
    assert read.metrics["bytes_moved"] - out.metrics["bytes_moved"] == 2 * (2 * q.nbytes - 2 * 16)
