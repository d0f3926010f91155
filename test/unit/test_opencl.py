"""Does OpenCL give the bits of the other backends, and say what is missing where it is not there?"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache as once
from types import SimpleNamespace

import numpy as np
import pytest

import tinyphysics as tp
from here import need
from test_loops import SYSTEMS, cluster, compiled, fput, loops, mean_field, shifted, start_of, wave
from test_parity import SUITE, ensemble, henon_heiles, kepler, pendulum, program_hash, unfused
from tinyphysics.context import OPENCL_DEVICE
from tinyphysics.device.opencl import driver as device
from tinyphysics.device.host.arrays import ArraysLoader
from tinyphysics.device.engines.engine import stretches
from tinyphysics.device.host.llvm import host_cpu
from tinyphysics.emit.scalar import opencl as emit
from tinyphysics.runtime.engines.loaders import LlvmLoops
from tinyphysics.runtime.engines.opencl import OpenClLoader, OpenClLoops


@pytest.fixture
def here():
    need("opencl")


def hashes(system, options, start, **how):
    """The runs on OpenCL and on this processor."""
    return [tp.compile(system, backend=b, **options).evolve(**start, **how) for b in ("opencl", "llvm")]


# --- the same bits ------------------------------------------------------------------------------------
@pytest.mark.requirement("S4-03")
@pytest.mark.parametrize("name", SUITE)
def test_ensembles_have_the_bits_of_the_processor(here, name):
    system, options, start = SUITE[name]
    there, ours = hashes(system, options, ensemble(start, 7), steps=12, hash_every=4, save_every=5)
    assert there.metrics["backend"]["used"] == "opencl" and there.metrics["device"] == device.device().name
    assert there.hash == ours.hash and there.hashes == ours.hashes
    assert all(np.array_equal(there.frames[s], ours.frames[s]) for s in ours.frames)


def test_a_hash_is_that_of_the_virtual_machine(here):
    runs = [
        tp.compile(kepler, dt=0.02, backend=b).evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=40)
        for b in ("opencl", "python")
    ]
    assert runs[0].hash == runs[1].hash


@pytest.mark.parametrize("members", [1, 31, 33, 100, 1000])
def test_ensembles_of_every_size_agree(here, members):
    there, ours = hashes(pendulum, dict(dt=0.1), ensemble(dict(q=1.0, p=0.3), members), steps=50)
    assert there.hash == ours.hash


def test_parameters_may_vary_and_observables_are_fused_into_the_loop(here):
    start = ensemble(dict(q=[1.0, 0.0], p=[0.0, 1.2]), 5)
    how = dict(
        steps=60,
        save_every=2,
        observe={"r": lambda q: tp.norm(q)},
        observe_every=2,
        mu=np.linspace(0.9, 1.1, 5),
    )
    there, ours = hashes(kepler, dict(dt=0.02), start, **how)
    assert there.hash == ours.hash and np.array_equal(there["r"], ours["r"])
    assert np.array_equal(there.frames["q"], ours.frames["q"])


@pytest.fixture
def many_cores(here, monkeypatch):
    """The device is treated as one with a member or a row for each work-item, in groups."""
    same = replace(device.device(), processor=False)
    monkeypatch.setattr(device, "device", lambda: same)
    monkeypatch.setattr(device, "GROUP", 8)  # PoCL writes a group out


def test_one_member_for_each_work_item_has_the_same_bits(many_cores):
    start = ensemble(dict(q=1.0, p=0.3), 70)
    start["q"][[3, 4, 5, 69]] = 1e12  # these four are done again
    program = tp.compile(pendulum, dt=0.1).tpir
    assert program_hash(program, start, OpenClLoader()) == program_hash(program, start, ArraysLoader())


def test_chunks_that_are_done_again_go_together_where_they_lie_side_by_side():
    assert stretches(np.array([0, 32, 64, 128]), 32) == [(0, 96), (128, 160)]
    assert stretches(np.array([5]), 1) == [(5, 6)]


def test_a_member_that_fails_is_named_and_the_others_go_on(here):
    start = ensemble(dict(q=[1.0, 0.0], p=[0.0, 1.2]), 3)
    start["q"][1], start["p"][1] = 0.0, 0.0
    there, ours = hashes(kepler, dict(dt=0.02), start, steps=20)
    assert there.stopped == ours.stopped and there.stopped.member == 1 and there.hash == ours.hash


# --- loops --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("system", [s for s in SYSTEMS if s not in (wave, mean_field)], ids=lambda s: s.name)
def test_loop_nests_have_the_bits_of_the_processor(here, system):
    state, params = start_of(system, 40)
    sim = compiled(system, 40)
    there, ours = (loops(sim, loader(), state, params, 3) for loader in (OpenClLoops, LlvmLoops))
    assert all(np.array_equal(there[k], ours[k]) for k in state)


@pytest.mark.parametrize("system", [cluster, shifted], ids=lambda s: s.name)
def test_one_row_for_each_work_item_has_the_same_bits(many_cores, system):
    state, params = start_of(system, 40)
    sim = compiled(system, 40)
    there, ours = (loops(sim, loader(), state, params, 3) for loader in (OpenClLoops, LlvmLoops))
    assert all(np.array_equal(there[k], ours[k]) for k in state)


def test_arguments_too_large_for_the_fast_path_are_done_again_in_loops(here):
    state, params = start_of(mean_field, 40)
    state["q"][7] = 1e12
    sim = compiled(mean_field, 40)
    there, ours = (loops(sim, loader(), state, params, 2) for loader in (OpenClLoops, LlvmLoops))
    assert all(np.array_equal(there[k], ours[k]) for k in state)


def test_an_array_program_is_run_saved_and_observed(here):
    state, params = start_of(fput, 2000)
    how = dict(steps=6, save_every=2, hash_every=3, observe={"energy": "energy"})
    there, ours = hashes(fput, dict(dt=0.01, sizes={"n": 2000}), state, **params, **how)
    assert there.hashes == ours.hashes and np.array_equal(there.frames["q"], ours.frames["q"])
    assert np.array_equal(there["energy"], ours["energy"])


# --- controls: the comparison can fail ------------------------------------------------------------------
def test_control_an_fma_of_two_roundings_changes_the_hash_and_contraction_hides_it(here, monkeypatch):
    start = ensemble(dict(q=[0.1, 0.2], p=[0.3, -0.1]), 8)
    program = tp.compile(henon_heiles, dt=0.1).tpir
    fused = program_hash(program, start, OpenClLoader())
    assert fused == program_hash(program, start, ArraysLoader())
    rounded = emit.PRELUDE + "#undef fma\n#define fma(a, b, c) ((a)*(b) + (c))\n"
    monkeypatch.setattr(emit, "PRELUDE", rounded)
    assert program_hash(program, start, OpenClLoader()) != fused
    monkeypatch.setattr(emit, "PRELUDE", rounded.replace("FP_CONTRACT OFF", "FP_CONTRACT ON"))
    if (
        device.device().processor and host_cpu().has_fma
    ):  # elsewhere contraction is allowed and need not happen
        assert program_hash(program, start, OpenClLoader()) == fused


def test_separate_roundings_stay_separate(here):
    start = ensemble(dict(q=[0.1, 0.2], p=[0.3, -0.1]), 8)
    split = unfused(tp.compile(henon_heiles, dt=0.1).tpir)
    assert program_hash(split, start, OpenClLoader()) == program_hash(split, start, ArraysLoader())


# --- text -----------------------------------------------------------------------------------------------
@pytest.mark.requirement("S4-03")
def test_the_source_can_be_read_where_there_is_no_device():
    text = tp.compile(pendulum, dt=0.1).ir("opencl")
    assert "__kernel void section_step(" in text and "FP_CONTRACT OFF" in text and "get_global_id(0)" in text
    text = tp.compile(fput, dt=0.1, sizes={"n": 4000}).ir("opencl")
    assert "__kernel void part_step_0(__global double *" in text and "memcpy" not in text


# --- what is missing ------------------------------------------------------------------------------------
@pytest.fixture
def found(monkeypatch):
    """found(module): pyopencl is this one until the test ends; the device that others use stays open."""

    def pretend(module):
        monkeypatch.setitem(sys.modules, "pyopencl", module)
        for f in (device.api, device.device):
            monkeypatch.setattr(device, f.__name__, once(f.__wrapped__))

    return pretend


class DriverError(Exception):
    pass


FP = SimpleNamespace(FMA=32, ROUND_TO_NEAREST=4, DENORM=1, INF_NAN=2)


def card(extensions="cl_khr_fp64", config=63, single=63, version="OpenCL 3.0"):
    return SimpleNamespace(
        name="card",
        version=version,
        extensions=extensions,
        double_fp_config=config,
        single_fp_config=single,
        endian_little=True,
    )


def driver(*devices, raising=False):
    def none():
        raise DriverError("PLATFORM_NOT_FOUND_KHR")

    platform = SimpleNamespace(name="maker", get_devices=lambda: list(devices))
    return SimpleNamespace(
        Error=DriverError,
        device_fp_config=FP,
        get_platforms=none if raising else lambda: [platform],
        Context=lambda devices: None,
        Program=lambda context, source: SimpleNamespace(build=unknown_processor),
    )


def unknown_processor():
    raise DriverError("unknown target CPU 'generic'")


# fmt: off
MISSING = {
    "package":    (lambda: None,                          "needs pyopencl",              "pip install tinyphysics[opencl]"),
    "driver":     (lambda: driver(raising=True),          "no OpenCL driver",            "PLATFORM_NOT_FOUND_KHR"),
    "device":     (lambda: driver(),                      "finds no device",             "POCL_CACHE_DIR"),
    "float64":    (lambda: driver(card("cl_khr_fp16")),   "maker: card (no float64)",    "pip install"),
    "fma":        (lambda: driver(card(config=31)),       "float64 without FMA",         "pip install"),
    "subnormals": (lambda: driver(card(config=62)),       "float64 without DENORM",      "pip install"),
    "small ones": (lambda: driver(card(single=62)),       "float32 without DENORM",      "pip install"),
    "processor":  (lambda: driver(card(version="PoCL HSTR: pthread-x86_64-generic")), "does not know this processor", "a newer PoCL"),
}
# fmt: on


@pytest.mark.parametrize("what", MISSING)
def test_what_is_missing_is_said_when_compiling_and_by_the_doctor(found, what):
    module, reason, rest = MISSING[what]
    found(module())
    with pytest.raises(tp.BackendError) as error:
        tp.compile(pendulum, dt=0.1, backend="opencl")
    assert reason in str(error.value) and rest in str(error.value)
    assert device.described().startswith("none: ") and reason in device.described()


def test_the_first_device_with_float64_is_taken_and_the_flag_chooses_another(found):
    found(driver(card("nothing"), card(), SimpleNamespace(**vars(card()) | {"name": "second"})))
    assert [d.lacks for d in device.devices()] == ["no float64", "", ""]
    assert device.chosen(0).name == "maker: card" and device.chosen(1).name == "maker: second"
    assert device.described().endswith("taken: maker: card")
    with pytest.raises(tp.BackendError, match="no OpenCL device 2"):
        device.chosen(2)
    with OPENCL_DEVICE(1):
        assert device.described().endswith("taken: maker: second")


def test_float32_is_outside_the_contract_there(here):
    with pytest.raises(tp.PlanError, match=r"`opencl` does not run float32(.|\n)*precision=`float64`"):
        tp.compile(pendulum, dt=0.1, backend="opencl", precision="float32")


def test_nobody_gets_opencl_without_asking():
    assert tp.compile(pendulum, dt=0.1).target.backend == "llvm"


def test_a_driver_that_fails_is_a_backend_error(here, monkeypatch):
    with pytest.raises(tp.BackendError, match="did not build the kernel"):
        device.build("not a program", ["step"])
    sim = tp.compile(pendulum, dt=0.1, backend="opencl")

    def full(*_):
        raise device.api().MemoryError("out of device memory")

    monkeypatch.setattr(device, "enqueue", full)
    with pytest.raises(tp.BackendError, match="out of device memory"):
        sim.evolve(q=1.0, p=0.0, steps=3)


def test_subnormal_numbers_are_kept_here_and_there(here):
    """Loading PoCL turns them off in the thread that does; a run must leave that thread as it was."""

    @tp.map
    def halve(x):
        return x / 2

    tiny = np.array([2.0**-1040, 3.0 * 2.0**-1060, 1.0])
    cl = tp.compile(halve, backend="opencl").evolve(x=tiny, steps=7)
    vm = tp.compile(halve, backend="python").evolve(x=tiny, steps=7)
    assert cl.hash == vm.hash and cl.final.x[0] == 2.0**-1047 != 0.0
    assert 5e-324 * 1.0 != 0.0 and np.float64(2.0**-1040) / 2 != 0.0
