"""Do loop nests on a CUDA device have the bits of the processor?  The same LLVM IR here, and its PTX in a machine that runs it."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
import test_gather
from ptx_on_host import OnHost
from test_loops import (
    SYSTEMS,
    carried,
    cluster,
    compiled,
    fput,
    loops,
    pendulums,
    ring,
    rotors,
    shifted,
    start_of,
    wave,
)
from test_near import lennard_jones, open_space

import tinyphysics as tp
from tinyphysics.device.cuda import driver as cuda, nvptx
from tinyphysics.device.engines import cuda_loops
from tinyphysics.emit.modules import ptx_nests
from tinyphysics.runtime.engines import backend
from tinyphysics.runtime.engines.loaders import LlvmLoops
from tinyphysics.tpir.kernels.loops import build_loops


def agree(sim, state, params, steps, loader=OnHost):
    out, expected = (loops(sim, load(), state, params, steps) for load in (loader, LlvmLoops))
    return all(np.array_equal(out[k], expected[k]) for k in state)


# --- threads of this processor -----------------------------------------------------------------------------
@pytest.mark.parametrize("system", [*SYSTEMS, ring, pendulums, carried], ids=lambda s: s.name)
@pytest.mark.parametrize("n", [33, 40])
def test_every_nest_has_the_bits_of_the_processor(system, n):
    assert agree(compiled(system, n), *start_of(system, n), 2)


@pytest.mark.parametrize("n", [34, 63, 65, 260, 520])  # 512 points and more are several slabs
def test_a_thread_that_owns_a_point_sums_in_the_order_of_slabs(n):
    assert agree(compiled(cluster, n), *start_of(cluster, n), 1)


@pytest.mark.parametrize(
    "system",
    [test_gather.molecule, test_gather.mixture, test_gather.ends, test_gather.cells],
    ids=lambda s: s.name,
)
def test_what_is_gathered_and_scattered_has_the_bits_of_the_processor(system):
    state, params, sizes = test_gather.start_of(system, 40, 45)
    assert agree(test_gather.compiled(system, sizes), state, params, 2)


def test_a_sum_in_chunks_has_the_bits_of_the_processor():
    @tp.hamiltonian
    def mean(q: tp.Vec["n"], p: tp.Vec["n"]):
        return (p**2).sum() / 2 + q.sum() ** 2 / 2

    n = (1 << 16) + 70
    sim = tp.compile(mean, dt=0.01, sizes={"n": n}, backend="llvm")
    rng = np.random.default_rng(0)
    assert agree(sim, dict(q=rng.normal(size=n), p=rng.normal(size=n)), {}, 1)


@pytest.fixture
def on_host(monkeypatch):
    """The backend `c` is these kernels."""
    monkeypatch.setitem(backend.LOOPS, "c", OnHost)
    backend.engine_for.cache_clear()
    yield
    backend.engine_for.cache_clear()


@pytest.mark.parametrize("precision", ["float32", "mixed", "compensated", "lattice", "dd"])
@pytest.mark.parametrize("system", [fput, cluster], ids=lambda s: s.name)
def test_every_precision_has_the_bits_of_the_processor(on_host, system, precision):
    state, params = start_of(system, 40)
    how = dict(dt=0.01, sizes={"n": 40}, precision=precision)
    ours, expected = (
        tp.compile(system, backend=b, **how).evolve(**state, **params, steps=2) for b in ("c", "llvm")
    )
    assert ours.hash == expected.hash


def grid_of(n, box):
    """Points a little off a lattice, and momenta that carry them out of their lists."""
    rng, k = np.random.default_rng(n), round(n ** (1 / 3) + 0.499)
    points = np.stack(np.meshgrid(*[np.arange(k)] * 3), -1).reshape(-1, 3)[:n] * (box / k)
    return points + rng.normal(size=(n, 3)) * 0.05, rng.normal(size=(n, 3))


@pytest.mark.parametrize(
    ("system", "n", "box"), [(lennard_jones, 300, 8.0), (lennard_jones, 2060, 14.0), (open_space, 150, 6.0)]
)
def test_a_list_turned_round_gives_the_sums_of_the_processor(on_host, system, n, box):
    """2,048 points and more are several slabs."""
    q, p = grid_of(n, box)
    params = {} if system is open_space else {"box": (box,) * 3}
    ours, expected = (
        tp.compile(system, dt=0.01, backend=b).evolve(q=q, p=p, steps=8, **params) for b in ("c", "llvm")
    )
    assert ours.hash == expected.hash


# --- the text ----------------------------------------------------------------------------------------------
def ptx_of(system, n):
    return nvptx.compiled(ptx_nests.nests_module(build_loops(compiled(system, n).tpir)).text)


def instructions(text):
    return Counter(re.findall(r"^\s+(?:@!?%p\d+ )?([a-z][\w.]+)", text, re.M))


@pytest.mark.parametrize("system", [cluster, rotors, shifted], ids=lambda s: s.name)
def test_only_instructions_that_round_once_to_nearest(system):
    used = instructions(ptx_of(system, 40))
    rounding = [
        i for i in used if re.match(r"(add|sub|mul|fma|div|rcp|sqrt)\.", i) and i.endswith(("f64", "f32"))
    ]
    assert rounding and all(".rn." in i for i in rounding)
    assert not [
        i
        for i in used
        if "approx" in i or "ftz" in i or ".full" in i or i.startswith(("mad.f", "atom", "red."))
    ]


def test_memory_is_known_to_be_the_devices_and_points_are_read_as_vectors():
    used = instructions(ptx_of(cluster, 64))
    assert used["ld.global.v2.b64"] and not [i for i in used if re.match(r"(ld|st)\.(v2\.)?b", i)]


def test_many_pairs_take_no_root_and_no_division_of_doubles():
    used = instructions(ptx_of(cluster, 64))
    assert used["sqrt.rn.f32"] and not used["sqrt.rn.f64"]
    assert used["div.rn.f64"] == 1  # 1/m, once for each body before the loop


def test_nests_that_differ_in_their_buffers_alone_are_one_kernel():
    module = ptx_nests.nests_module(build_loops(compiled(cluster, 40).tpir))
    pairs = [
        x
        for s in ("init", "step", "final")
        for nest in module.launches[s]
        for x in nest
        if x.name == "part_init_0"
    ]
    assert len(pairs) == 3 and len({x.buffers for x in pairs}) == 3
    assert module.text.count("@part_init_0(") == 1 and "@part_step_1(" not in module.text


def test_neighbouring_threads_read_neighbouring_numbers():
    """The innermost index is the thread's number modulo its size."""
    text = ptx_nests.nests_module(build_loops(compiled(shifted, 40).tpir)).text
    assert "urem i32 %number, 40" in text and "udiv i32 %number, 40" in text


def test_a_system_that_is_listed_as_ptx_is_what_runs():
    sim = tp.compile(wave, dt=0.01, sizes={"n": 40})
    assert ".entry part_step_0(" in sim.ir("ptx")
    assert "__global__" in sim.ir("cuda")


# --- a run on a device -------------------------------------------------------------------------------------
def both(system, n, steps, evolve=None, **how):
    state, params = start_of(system, n)
    options = {} if system in (shifted, carried) else {"dt": 0.01}
    return [
        tp.compile(system, sizes={"n": n}, backend=b, **options, **how).evolve(
            **state, **params, steps=steps, t0=0.25, **(evolve or {})
        )
        for b in ("cuda", "llvm")
    ]


def alike(there, ours):
    return there.hash == ours.hash and all(
        np.array_equal(there.frames[k], ours.frames[k]) for k in ours.frames
    )


@pytest.mark.requirement("S3-21", "S4-03")
@pytest.mark.parametrize("system", [fput, wave, rotors, shifted, carried], ids=lambda s: s.name)
def test_a_run_on_the_device_has_the_bits_of_the_processor(fake_cuda, system):
    there, ours = both(system, 36, 3, dict(save_every=1))
    assert there.metrics["backend"]["used"] == "cuda" and alike(there, ours)


def test_pairs_on_the_device_have_the_bits_of_the_processor(fake_cuda):
    assert alike(*both(cluster, 34, 1))


def test_an_ensemble_of_arrays_with_parameters_of_their_own(fake_cuda):
    rng = np.random.default_rng(2)
    state = dict(q=rng.normal(size=(3, 36)), p=rng.normal(size=(3, 36)))
    runs = [
        tp.compile(ring, dt=0.01, sizes={"n": 36}, backend=b).evolve(
            **state,
            m=rng.uniform(1, 2, (3, 36)) * 0 + [[1.0], [1.5], [2.0]],
            k=np.array([0.5, 0.6, 0.7]),
            steps=3,
        )
        for b in ("cuda", "llvm")
    ]
    assert alike(*runs)


@pytest.mark.parametrize("system", [shifted, carried, rotors], ids=lambda s: s.name)  # swaps, and a clock
def test_many_steps_are_one_graph_with_the_same_bits(fake_cuda, monkeypatch, system):
    monkeypatch.setattr(cuda_loops, "NODES", 48)
    monkeypatch.setattr(cuda_loops, "WORTH", 2)
    there, ours = both(system, 33, 15, dict(save_every=15))
    assert alike(there, ours)
    assert fake_cuda.counts["cuGraphLaunch"] >= 2 and fake_cuda.counts["cuGraphInstantiateWithFlags"] == 1


def test_arguments_too_large_for_the_fast_path_are_done_again_on_the_device(fake_cuda):
    state, _ = start_of(pendulums, 36)
    state["q"][5] = 1e12
    there, ours = (
        tp.compile(pendulums, dt=0.01, sizes={"n": 36}, backend=b).evolve(**state, steps=3)
        for b in ("cuda", "llvm")
    )
    assert alike(there, ours)


def test_a_number_that_is_none_is_found_on_the_device(fake_cuda):
    state, params = start_of(fput, 36)
    state["q"] *= 1e3
    there, ours = (
        tp.compile(fput, dt=0.9, sizes={"n": 36}, backend=b).evolve(**state, **params, steps=30)
        for b in ("cuda", "llvm")
    )
    assert there.stopped == ours.stopped and there.stopped.cause == "not finite"


def test_what_is_observed_is_computed_on_the_device(fake_cuda):
    look = dict(observe={"heat": lambda pi: (pi**2).sum(), "left": lambda phi: phi[:, 0]}, observe_every=2)
    there, ours = both(wave, 33, 6, look)
    assert alike(there, ours)
    assert np.array_equal(there["heat"], ours["heat"]) and np.array_equal(there["left"], ours["left"])


def test_a_run_goes_on_from_a_checkpoint_of_the_device(fake_cuda, tmp_path):
    state, params = start_of(shifted, 33)
    sims = {b: tp.compile(shifted, sizes={"n": 33}, backend=b) for b in ("cuda", "llvm")}
    sims["cuda"].evolve(**state, **params, steps=5, checkpoint=tmp_path / "c")
    ours = sims["llvm"].evolve(**state, **params, steps=9)
    assert sims["cuda"].evolve(steps=4, resume=tmp_path / "c").hash == ours.hash


def test_states_stay_on_the_device_between_blocks(fake_cuda, monkeypatch):
    monkeypatch.setattr(cuda_loops, "BLOCK_LAUNCHES", 12)
    moved = []
    for steps in (10, 40):
        before = cuda.device().moved
        both(wave, 33, steps)
        moved.append(cuda.device().moved - before)
    assert moved[1] - moved[0] < 100  # a flag for each block


def test_neighbours_on_the_device_have_the_bits_of_the_processor(fake_cuda):
    q, p = grid_of(64, 8.0)
    there, ours = (
        tp.compile(lennard_jones, dt=0.01, backend=b).evolve(q=q, p=p, steps=3, save_every=2)
        for b in ("cuda", "llvm")
    )
    assert alike(there, ours)
