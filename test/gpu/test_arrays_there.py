"""Are runs on arrays of the GPU those on NumPy's, on a real one?  Frames, observables, hashes of leaves; of torch, CuPy, JAX."""

from __future__ import annotations


import numpy as np
import pytest

import tinyphysics as tp
from test_exchange import pendulum
from test_leaves import by_hashlib, numbers
from test_near import lennard_jones
from test_there import CASES, LOOPS, compare
from tinyphysics.device.cuda import driver as cuda, dlpack as exchange
from tinyphysics.physics.particles import gravity
from tinyphysics.runtime.state import digest
from tinyphysics.runtime.state.digest import LEAF

MEMBERS, STEPS = 100_003, 60
MAKE = {
    "torch": lambda library, a: library.tensor(a, device="cuda"),
    "cupy": lambda library, a: library.asarray(a),
    "jax": lambda library, a: library.numpy.asarray(a),
}
READ = {"torch": lambda a: a.cpu().numpy(), "cupy": lambda a: a.get(), "jax": np.asarray}


@pytest.mark.parametrize("kind", ["f8", "f4", "i8", "u4"])
def test_leaves_are_those_of_hashlib(gpu, kind):
    size = np.dtype(kind).itemsize
    counts = (0, 1, 127, 128, 129, LEAF // size - 1, LEAF // size, LEAF // size + 1, 200 * LEAF // size + 3)
    for count in counts if gpu.real else counts[:5]:
        a = numbers(kind, count)
        assert digest.leaves(exchange.sent(a)) == by_hashlib(a, LEAF), count


@pytest.mark.parametrize("which", [*CASES, *LOOPS])
def test_every_number_is_that_of_a_run_here(gpu, which):
    if which in CASES:
        system, options, state, run = CASES[which]
        given = {}
    else:
        system, state, given = LOOPS[which]
        options, run = {} if which == "components in front" else {"dt": 0.01}, dict(steps=5, save_every=2)
    if not gpu.real:
        pytest.skip("test/unit has it")
    here = tp.compile(system, backend="llvm", **options).evolve(**state, **given, **run)
    there = {n: exchange.sent(v) for n, v in state.items()}
    compare(tp.compile(system, backend="cuda", **options).evolve(**there, **given, **run), here)


def lattice(n):
    """Atoms in rows, a little off."""
    q = np.stack(np.meshgrid(*[np.arange(n) * 1.6] * 3), -1).reshape(-1, 3)
    rng = np.random.default_rng(7)
    return q + 0.05 * rng.normal(size=q.shape), 0.3 * rng.normal(size=q.shape)


@pytest.mark.parametrize("which", ["neighbours", "a tree"])
def test_lists_and_trees_begin_and_end_there(gpu, which):
    if not gpu.real:
        pytest.skip("takes half a minute behind a fake driver")
    n = 10
    q, p = lattice(n)
    if which == "neighbours":
        system, given, options = lennard_jones, dict(box=np.full(3, 1.6 * n + 1.6)), dict(dt=0.005)
    else:
        system, given, options = (
            gravity,
            dict(m=np.full(len(q), 1.0 / len(q))),
            dict(dt=0.02, approximate=1e-2),
        )
    run = dict(steps=40, save_every=2)
    here = tp.compile(system, backend="llvm", **options).evolve(q=q, p=p, **given, **run)
    sim = tp.compile(system, backend="cuda", **options)
    compare(sim.evolve(q=exchange.sent(q), p=exchange.sent(p), **given, **run), here)


@pytest.mark.parametrize("name", MAKE)
def test_frames_of_other_libraries(other_library, name):
    """Frames are arrays of theirs with an axis of time; what is moved is what was observed."""
    library = other_library(name)
    rng = np.random.default_rng(5)
    start = {"q": rng.uniform(-3, 3, MEMBERS), "p": rng.uniform(-1, 1, MEMBERS)}
    run = dict(steps=STEPS, save_every=20, hash_every=15, observe={"e": "energy"}, observe_every=30)
    here = tp.compile(pendulum, dt=0.01, backend="llvm").evolve(**start, **run)
    given = {n: MAKE[name](library, v) for n, v in start.items()}
    sim = tp.compile(pendulum, dt=0.01, backend="cuda")
    out = sim.evolve(**given, **run)
    assert type(out.q) is type(given["q"]) and tuple(out.q.shape) == (4, MEMBERS)
    assert out.hashes == here.hashes and out.hash == here.hash
    assert np.array_equal(READ[name](out.q), here.q) and np.array_equal(READ[name](out.final.p), here.final.p)
    assert np.array_equal(out["e"], here["e"]) and np.array_equal(out.energy, here.energy)
    observed, leaves = 3 * 8 * MEMBERS, 4 * 2 * 16 * -(-8 * MEMBERS // LEAF)
    assert out.metrics["bytes_moved"] < observed + leaves + 10_000
    again = sim.evolve(q=out.final.q, p=out.final.p, steps=STEPS)
    assert again.metrics["bytes_moved"] < 1_000
    assert (
        again.hash
        == tp.compile(pendulum, dt=0.01, backend="llvm")
        .evolve(q=here.final.q, p=here.final.p, steps=STEPS)
        .hash
    )


def test_how_long_a_hash_takes_there(gpu):
    """What it prints (-s) is for docs/cuda.md; it fails for wrong digests alone."""
    if not gpu.real:
        pytest.skip("a fake driver has no speed")
    a = np.random.default_rng(6).normal(size=1 << 24)
    there, whole = exchange.sent(a), digest.leaves(a)
    for count in (LEAF // 8, 64 * LEAF // 8, len(a)):
        digest.leaves(there[:count])
        with cuda.Timer() as timer:
            found = digest.leaves(there[:count])
        assert found == whole[: len(found)]
        print(f"{8 * count / 2**20:7.3f} MiB hashed on {cuda.device().name} in {timer.milliseconds:.3f} ms")
