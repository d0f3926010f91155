"""Is every answer of NVIDIA's driver looked at, and what goes wrong said in words?  All through a fake driver."""

from __future__ import annotations

import ctypes
import gc
import threading

import numpy as np
import pytest
from fake_cuda import Card, FakeDriver, Graph, installed
from ptx_machine import Loaded

import tinyphysics as tp
from tinyphysics.context import CUDA_DEVICE
from tinyphysics.device import cache
from tinyphysics.device.cuda import driver as cuda
from tinyphysics.errors import BackendError
from tinyphysics.physics.zoo import pendulum

MiB = 2**20
DOUBLE = """
.version 7.8
.target sm_70
.address_size 64
.visible .entry twice(.param .u64 where, .param .u64 count)
{
	.reg .pred %p<2>;
	.reg .b32 %r<4>;
	.reg .b64 %rd<8>;
	ld.param.b64 %rd1, [where];
	ld.param.b64 %rd2, [count];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mad.lo.s32 %r1, %r2, %r3, %r1;
	cvt.u64.u32 %rd3, %r1;
	setp.ge.s64 %p1, %rd3, %rd2;
	@%p1 bra done;
	cvta.to.global.u64 %rd4, %rd1;
	shl.b64 %rd5, %rd3, 3;
	add.s64 %rd6, %rd4, %rd5;
	ld.global.f64 %rd7, [%rd6];
	add.rn.f64 %rd7, %rd7, %rd7;
	st.global.f64 [%rd6], %rd7;
done:
	ret;
}
"""


@pytest.fixture
def driver(fake_cuda):
    return fake_cuda


@pytest.fixture
def fake(objects_of_the_fake, monkeypatch):
    """fake(driver): this one is there until the test ends."""
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(objects_of_the_fake))
    open_ones = []

    def put(made):
        context = installed(made)
        context.__enter__()
        open_ones.append(context)
        return made

    yield put
    for context in reversed(open_ones):
        context.__exit__(None, None, None)


def twice(values, threads=32):
    """Numbers, doubled by the kernel."""
    (f,), _ = cuda.load(DOUBLE, ["twice"])
    there = cuda.upload(values)
    cuda.launch(f, -(-len(values) // threads), threads, [there, ctypes.c_int64(len(values))])
    return cuda.read(there, np.empty_like(values))


# --- devices ----------------------------------------------------------------------------------------------
def said(work):
    with pytest.raises(BackendError) as error:
        work()
    assert error.value.fix, "what to do about it"
    return str(error.value)


def test_without_a_library_the_driver_is_named(monkeypatch):
    with installed(FakeDriver()):
        monkeypatch.setattr(cuda, "open_library", OPEN_LIBRARY)
        monkeypatch.setattr(cuda, "LIBRARY", "libcuda.so.none")
        text = said(lambda: tp.compile(pendulum, dt=0.1, backend="cuda"))
        assert (
            "needs the driver of an NVIDIA GPU" in text
            and "libcuda.so.none" in text
            and "display driver" in text
        )
        assert cuda.described().startswith("none: ")


OPEN_LIBRARY = cuda.open_library
# fmt: off
MISSING = {
    "no device":   (lambda: FakeDriver(version=13000), "finds no GPU",                          "CUDA_ERROR_NO_DEVICE"),
    "old driver":  (lambda: FakeDriver(version=11080), "CUDA 11.8, which is too old",            "CUDA 12 or later"),
    "old card":    (lambda: FakeDriver(Card("Ancient", (6, 1))), "Ancient (compute capability 6.1, before 7.0)", "another backend"),
    "none at all": (lambda: FakeDriver(version=13000), "none is there",                         "another backend"),
}
# fmt: on


@pytest.mark.parametrize("what", MISSING)
def test_what_is_missing_is_said_when_compiling_and_by_the_doctor(fake, what):
    make, reason, rest = MISSING[what]
    made = fake(make())
    if what == "no device":
        made.cards.clear()
    if what == "none at all":  # a driver that starts, and counts to nothing
        made.cards.clear()
        made._cuInit = lambda flags: None
    text = said(lambda: tp.compile(pendulum, dt=0.1, backend="cuda"))
    assert reason in text and rest in text
    assert cuda.described().startswith("none: ") and reason in cuda.described()


@pytest.mark.parametrize(
    "code, words", [(3, "CUDA_ERROR_NOT_INITIALIZED"), (999, "unknown error"), (12345, "error 12345")]
)
def test_a_driver_that_does_not_start_says_why(driver, code, words):
    driver.fail("cuInit", code)
    assert words in said(lambda: cuda.chosen(0))
    assert cuda.chosen(0).name == "Fake GPU", "a failure is not remembered"


def test_the_flag_chooses_among_the_devices_that_can_run(fake):
    fake(FakeDriver(Card("Old", (5, 2)), Card("First"), Card("Second", (8, 0))))
    assert [f.name for f in cuda.devices()] == ["Old", "First", "Second"]
    assert cuda.chosen(0).name == "First" and cuda.chosen(1).name == "Second"
    for wanted in (2, -1):
        text = said(lambda wanted=wanted: cuda.chosen(wanted))
        assert f"no CUDA device {wanted} (TINYPHYSICS_CUDA_DEVICE)" in text and "2 devices can run" in text
    with CUDA_DEVICE(1):
        assert (
            "taken: Second" in cuda.described()
            and "Old (sm_52)" in cuda.described()
            and "CUDA 13.0" in cuda.described()
        )
        d = cuda.device()
        assert (d.name, d.capability) == ("Second", (8, 0))
        assert np.array_equal(twice(np.arange(5.0)), 2 * np.arange(5.0))


def test_code_for_a_later_device_is_not_run(fake):
    fake(FakeDriver(Card(capability=(7, 0))))
    with pytest.raises(BackendError, match="did not assemble the kernel"):
        cuda.load(DOUBLE.replace("sm_70", "sm_90"), ["twice"])


# --- every answer is looked at ----------------------------------------------------------------------------
def everything():
    """A use of all that device/cuda/driver.py offers."""
    assert np.array_equal(twice(np.arange(70.0)), 2 * np.arange(70.0))
    a, b = cuda.upload(np.arange(4.0)), cuda.Buffer(32)
    cuda.copy(a, b)
    cuda.zero(a)
    (f,), _ = cuda.load(DOUBLE, ["twice"])
    assert f.registers > 0 and f.local_bytes == 0
    with cuda.Timer() as timer:
        graph = cuda.Graph(lambda: cuda.launch(f, 1, 32, [b, ctypes.c_int64(4)]))
        graph.launch()
        graph.launch()
    assert timer.milliseconds > 0
    assert np.array_equal(cuda.read(b, np.empty(4)), 4 * np.arange(4.0)), "twice doubled"
    assert np.array_equal(cuda.read(a, np.empty(4)), np.zeros(4))
    cuda.available()
    cuda.release()


CHECKED = [
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuCtxSetCurrent",
    "cuStreamCreate",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemsetD8Async",
    "cuStreamSynchronize",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuFuncGetAttribute",
    "cuLaunchKernel",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuEventElapsedTime",
]
ASSEMBLER = ["cuLinkCreate_v2", "cuLinkAddData_v2", "cuLinkComplete", "cuLinkDestroy"]
GIVING_BACK = {
    "cuModuleUnload",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuEventDestroy_v2",
}  # nobody is there to be told
WORDS = {"cuGetErrorName", "cuGetErrorString"}


def test_the_list_of_functions_is_whole(driver, monkeypatch):
    monkeypatch.setattr(cache, "read", lambda key: None)
    everything()
    gc.collect()
    assert set(driver.counts) - WORDS == {*CHECKED, *ASSEMBLER, *GIVING_BACK}


@pytest.mark.parametrize("name", [*CHECKED, *ASSEMBLER])
def test_a_driver_that_fails_in_the_middle_is_a_backend_error_that_names_the_call(driver, monkeypatch, name):
    monkeypatch.setattr(cache, "read", lambda key: None)
    driver.fail(name, 999)
    with pytest.raises(BackendError) as error:
        everything()
    text = f"{error.value} {error.value.__cause__}"
    assert name in text and "CUDA_ERROR_UNKNOWN: unknown error" in text
    everything()  # and everything works afterwards


def test_a_run_in_which_the_driver_fails_is_a_backend_error_and_the_next_one_is_well(driver):
    sim = tp.compile(pendulum, dt=0.1, backend="cuda")
    start = dict(q=np.linspace(0.1, 1, 5), p=np.zeros(5))
    well = sim.evolve(**start, steps=5).hash
    for name in ("cuLaunchKernel", "cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2", "cuStreamSynchronize"):
        driver.fail(name, 719, at=2)
        with pytest.raises(tp.BackendError, match=name) as error:
            sim.evolve(**start, steps=5)
        assert "CUDA_ERROR_LAUNCH_FAILED" in str(error.value) and "new process" in str(error.value)
        assert sim.evolve(**start, steps=5).hash == well


def test_a_kernel_that_leaves_its_memory_is_told_when_somebody_waits_and_the_context_is_lost(driver):
    (f,), _ = cuda.load(DOUBLE, ["twice"])
    short = cuda.Buffer(80)
    cuda.launch(f, 1, 32, [short, ctypes.c_int64(11)])
    with pytest.raises(cuda.DeviceError, match="CUDA_ERROR_ILLEGAL_ADDRESS") as error:
        cuda.synchronise()
    assert error.value.code == 700 and "new process" in str(error.value)
    assert len(driver.faults) == 1 and "80 bytes into 80" in driver.faults.pop()
    with pytest.raises(cuda.DeviceError, match="ILLEGAL_ADDRESS"):
        cuda.zero(short)


def test_errors_can_be_sent_to_another_process():
    import pickle

    error = pickle.loads(pickle.dumps(cuda.DeviceError("it failed", 700, "Look.")))
    assert (error.what, error.code, error.fix) == ("it failed", 700, "Look.")


# --- memory -----------------------------------------------------------------------------------------------
def test_what_is_freed_is_used_again_and_counted_as_available(driver):
    first = cuda.Buffer(4096)
    pointer, before = first.pointer, cuda.available()
    del first
    assert cuda.available() == before + 4096 and driver.counts["cuMemFree_v2"] == 0
    assert cuda.Buffer(4096).pointer == pointer and driver.counts["cuMemAlloc_v2"] == 1
    assert cuda.Buffer(4097).pointer != pointer, "kept by size"
    cuda.release()
    assert driver.used == 0 and driver.counts["cuMemFree_v2"] == 2 and not cuda.device().free


def test_what_is_kept_is_given_back_where_memory_is_short(driver):
    driver.cards[0].memory = 4 * MiB
    for size in (MiB, MiB + 8):
        cuda.Buffer(size)
    assert driver.used == 2 * MiB + 8
    whole = cuda.Buffer(3 * MiB)
    assert driver.used == whole.size == 3 * MiB


def test_garbage_is_looked_for_before_memory_is_said_to_be_short(driver):
    driver.cards[0].memory = 4 * MiB
    gc.disable()
    try:
        ring = [cuda.Buffer(3 * MiB)]
        ring.append(ring)
        del ring
        assert cuda.Buffer(3 * MiB).size == driver.used
    finally:
        gc.enable()


def test_out_of_memory_says_how_much_is_needed_and_how_much_is_free(driver):
    driver.cards[0].memory = 8 * MiB
    held = cuda.Buffer(2 * MiB)
    with pytest.raises(cuda.DeviceError) as error:
        cuda.Buffer(7 * MiB)
    assert error.value.code == 2
    assert "`Fake GPU` cannot allocate 7.0 MiB more: 6.0 of 8.0 MiB are free" in str(error.value)
    assert "fewer members" in str(error.value)
    assert cuda.Buffer(6 * MiB).size and held.size


def test_a_failure_that_is_not_of_memory_is_not_tried_again(driver):
    driver.fail("cuMemAlloc_v2", 999)
    with pytest.raises(cuda.DeviceError, match="cuMemAlloc_v2"):
        cuda.Buffer(8)
    assert driver.counts["cuMemAlloc_v2"] == 1


def test_memory_that_could_not_be_freed_is_not_handed_out_again(driver):
    for size in (16, 32, 64):
        cuda.Buffer(size)
    driver.fail("cuMemFree_v2", 999)
    with pytest.raises(cuda.DeviceError):
        cuda.release()
    cuda.release()
    assert not cuda.device().free and driver.counts["cuMemFree_v2"] == 3
    assert sorted(driver.memory.freed.values()) != [16, 32, 64], "one of them failed"


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 5), (7, 0, 2)])
def test_arrays_of_every_shape_go_there_and_come_back(driver, shape):
    a = np.random.default_rng(0).normal(size=shape)
    b = cuda.upload(a)
    assert np.array_equal(cuda.read(b, np.empty_like(a)), a)
    assert cuda.device().transfers == 2 * bool(a.size) and cuda.device().moved == 2 * a.nbytes


def test_a_part_can_be_read(driver):
    b = cuda.upload(np.arange(10.0))
    assert cuda.read(b, np.empty(3), 16).tolist() == [2.0, 3.0, 4.0]
    with pytest.raises(AssertionError):
        cuda.read(b, np.empty(3), 64)


def test_an_array_that_was_sent_may_change_at_once(driver):
    a = np.arange(6.0)
    b = cuda.upload(a)
    a[:] = -1.0
    assert cuda.read(b, np.empty(6)).tolist() == list(range(6))


def test_memory_that_nobody_has_written_is_not_zero_by_luck(driver):
    assert np.all(cuda.read(cuda.Buffer(16), np.empty(16, np.uint8)) != 0)
    assert not cuda.read(cuda.zero(cuda.Buffer(16)), np.empty(16, np.uint8)).any()


# --- programs ---------------------------------------------------------------------------------------------
def test_machine_code_is_kept_and_found(driver, tmp_path, monkeypatch):
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(tmp_path))
    assert cuda.load(DOUBLE, ["twice"])[1] is False
    assert cuda.load(DOUBLE, ["twice"])[1] is True
    assert driver.counts["cuLinkComplete"] == 1 and driver.counts["cuModuleLoadData"] == 2
    assert len(list(tmp_path.glob("*.cubin"))) == 1


def test_machine_code_that_was_kept_and_is_not_for_this_device_is_made_again(driver, tmp_path, monkeypatch):
    monkeypatch.setenv("TINYPHYSICS_CACHE", str(tmp_path))
    cuda.load(DOUBLE, ["twice"])
    (file,) = tmp_path.glob("*.cubin")
    cache.write(file.name, b"of another device")
    functions, found = cuda.load(DOUBLE, ["twice"])
    assert not found and functions[0].name == "twice"
    assert cuda.load(DOUBLE, ["twice"])[1] is True
    driver.fail("cuModuleLoadData", 999)
    with pytest.raises(cuda.DeviceError, match="cuModuleLoadData"):
        cuda.load(DOUBLE, ["twice"])


def test_a_text_that_is_no_ptx_is_refused_in_the_words_of_the_assembler(driver):
    for text, words in [
        (DOUBLE.replace("%rd7, %rd7, %rd7", "%rd9, %rd7, %rd7"), "writes to %rd9"),
        ("nonsense", "nonsense"),
    ]:
        with pytest.raises(cuda.DeviceError) as error:
            cuda.load(text, ["twice"])
        assert "`Fake GPU` did not assemble the kernel" in str(error.value) and words in str(error.value)
    assert not driver.alive(dict), "the assembler's state is given back"


def test_a_kernel_that_is_not_there_is_named(driver):
    with pytest.raises(cuda.DeviceError, match="cuModuleGetFunction failed: CUDA_ERROR_NOT_FOUND"):
        cuda.load(DOUBLE, ["thrice"])
    gc.collect()
    assert not driver.alive(Loaded)


def test_nothing_is_launched_for_nobody(driver):
    (f,), _ = cuda.load(DOUBLE, ["twice"])
    cuda.launch(f, 0, 32, [None, ctypes.c_int64(0)])
    assert driver.counts["cuLaunchKernel"] == 0 and cuda.device().launches == 0


def test_a_launch_queues_and_waits_for_nothing(driver):
    (f,), _ = cuda.load(DOUBLE, ["twice"])
    b = cuda.upload(np.ones(3))
    cuda.launch(f, 1, 32, [b, ctypes.c_int64(3)])
    cuda.launch(f, 1, 32, [b, ctypes.c_int64(3)])
    assert driver.launches == [] and cuda.device().launches == 2
    assert cuda.read(b, np.empty(3)).tolist() == [4.0] * 3
    assert driver.launches == [("twice", 1, 32)] * 2


def test_memory_that_is_given_back_while_it_is_counted(driver):
    """The collector of garbage comes when it likes."""

    class Kept(list):
        def __len__(self):
            free.setdefault(24, [])
            return 1

    free = cuda.device().free
    free[16] = Kept()
    try:
        assert cuda.available() >= 16
    finally:
        del free[16]


# --- graphs, threads, handles -----------------------------------------------------------------------------
def test_a_graph_whose_work_fails_leaves_the_stream_usable(driver):
    def work():
        raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        cuda.Graph(work)
    assert driver.capturing is None and not driver.alive(Graph)
    everything()


@pytest.mark.parametrize("name", ["cuStreamBeginCapture_v2", "cuStreamEndCapture"])
def test_an_interrupt_where_a_graph_begins_or_ends_leaves_the_stream_usable(driver, monkeypatch, name):
    call, pressed = cuda.call, []

    def interrupted(what, *args):
        call(what, *args)
        if what == name and not pressed:
            pressed.append(what)
            raise KeyboardInterrupt

    monkeypatch.setattr(cuda, "call", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cuda.Graph(lambda: None)
    assert driver.capturing is None and not driver.alive(Graph)
    everything()


def test_a_graph_hears_nothing_of_what_other_threads_do(driver):
    """They share the stream: what one queues while another listens to it would become part of the graph."""
    (f,), _ = cuda.load(DOUBLE, ["twice"])
    b, found = cuda.upload(np.ones(3)), []
    other = threading.Thread(target=lambda: found.append(twice(np.arange(4.0)).tolist()))

    def work():
        other.start()
        other.join(0.2)  # time enough to do harm
        cuda.launch(f, 1, 32, [b, ctypes.c_int64(3)])

    graph = cuda.Graph(work)
    other.join()
    assert found == [[0.0, 2.0, 4.0, 6.0]]
    before = len(driver.launches)
    graph.launch()
    assert cuda.read(b, np.empty(3)).tolist() == [2.0] * 3 and len(driver.launches) == before + 1


def test_handles_are_given_back_also_by_another_thread(driver):
    everything()
    held = [cuda.Graph(lambda: None), cuda.Timer(), cuda.load(DOUBLE, ["twice"])]
    gc.collect()
    assert driver.alive(Loaded) and driver.alive(list)
    thread = threading.Thread(target=held.clear)  # the context is not that thread's yet
    thread.start()
    thread.join()
    gc.collect()
    assert [driver.alive(kind) for kind in (Loaded, list, Graph, dict, tuple)] == [[]] * 5


def test_threads_that_begin_together_share_one_stream(driver):
    go, found = threading.Barrier(4), []

    def work():
        go.wait()
        found.append(cuda.device())
        assert np.array_equal(twice(np.arange(9.0)), 2 * np.arange(9.0))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({id(d) for d in found}) == 1 and len(found) == 4 and driver.counts["cuStreamCreate"] == 1


def test_the_fake_driver_is_gone_after_a_test(driver):
    with installed(FakeDriver(Card("Another"))):
        assert cuda.device().name == "Another"
    assert cuda.device().name == "Fake GPU"


def test_control_the_fake_driver_sees_a_context_that_is_not_this_threads(driver):
    cuda.device()
    codes = []
    thread = threading.Thread(target=lambda: codes.append(driver.cuStreamSynchronize(cuda.device().stream)))
    thread.start()
    thread.join()
    assert codes == [201]


def test_control_the_fake_driver_sees_memory_that_is_freed_twice_and_used_when_free(driver):
    b = cuda.Buffer(64)
    cuda.call("cuMemFree_v2", ctypes.c_uint64(b.pointer))
    for work in (lambda: cuda.zero(b), lambda: cuda.call("cuMemFree_v2", ctypes.c_uint64(b.pointer))):
        with pytest.raises(cuda.DeviceError, match="CUDA_ERROR_INVALID_VALUE"):
            work()
    assert "freed" in driver.faults[0] and "freed again" in driver.faults[1]
    driver.faults.clear()
    b.pointer = 0
