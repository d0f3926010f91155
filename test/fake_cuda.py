"""A driver of NVIDIA GPUs without one: the functions that device/cuda/driver.py calls, on memory of this process.

What is queued is done as late as the driver may: when somebody waits. Memory that nobody has allocated, kernels that
the device cannot run and handles that are gone are errors, as there; the reason is in `faults`.
"""

from __future__ import annotations

import ctypes
import gc
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import ptx_machine
from ptx_text import Module, parsed

from tinyphysics.device.cuda import driver as cuda
from tinyphysics.runtime.engines import backend
from tinyphysics.runtime.engines import cuda as loading
from tinyphysics.runtime.measure import loop_numbers
from tinyphysics.runtime.state import device_arrays

# fmt: off
ERRORS = {
    1: ("CUDA_ERROR_INVALID_VALUE", "invalid argument"),
    2: ("CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
    3: ("CUDA_ERROR_NOT_INITIALIZED", "initialization error"),
    100: ("CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"),
    101: ("CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"),
    201: ("CUDA_ERROR_INVALID_CONTEXT", "invalid device context"),
    209: ("CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"),
    218: ("CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"),
    400: ("CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"),
    500: ("CUDA_ERROR_NOT_FOUND", "named symbol not found"),
    700: ("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"),
    701: ("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"),
    716: ("CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"),
    717: ("CUDA_ERROR_INVALID_ADDRESS_SPACE", "operation not supported on global/shared address space"),
    719: ("CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"),
    901: ("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"),
    999: ("CUDA_ERROR_UNKNOWN", "unknown error"),
}
# fmt: on
(INVALID, MEMORY, NOT_READY, NO_DEVICE, NO_CONTEXT, NO_BINARY, BAD_PTX, BAD_HANDLE, NOT_FOUND, RESOURCES) = (
    1,
    2,
    3,
    100,
    201,
    209,
    218,
    400,
    500,
    701,
)
WITHOUT_CONTEXT = {  # what may be called before there is one
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxSetCurrent",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuDeviceTotalMem_v2",
    "cuCtxGetCurrent",
    "cuDeviceGetUuid",
}
CUBIN = b"machine code of the fake driver, "
CONTEXT = 0xC0DE  # of the first card
MOST_SHARED, MOST_THREADS = 232448, 1024


class Refused(Exception):
    """The function returns this number."""

    def __init__(self, code: int) -> None:
        self.code = code


@dataclass
class Card:
    """A device that is there."""

    name: str = "Fake GPU"
    capability: tuple[int, int] = (9, 0)
    processors: int = 2
    memory: int = 1 << 26  # bytes
    estimates: bool = False  # do they serve (runtime/engines/estimates.py)?

    def attribute(self, which: int) -> int:
        known = {
            75: self.capability[0],
            76: self.capability[1],
            16: self.processors,
            81: MOST_SHARED,
            97: MOST_SHARED,
            13: 1_000_000,
            1: MOST_THREADS,
            8: 49152,
            10: 32,
            12: 65536,
            38: 1 << 22,
            39: 2048,
            82: 65536,
            36: 1_000_000,
            37: 4096,
            106: 32,
            95: 1,
        }
        return known[which]


@dataclass
class Graph:
    work: list[Callable[[], None]] = field(default_factory=list)


APART = 1 << 36  # from the memory of one card to that of the next


class Own:
    """What a card has of its own: nothing of it can be used in the context of another."""

    def __init__(self, place: int) -> None:
        self.memory = ptx_machine.Memory(ptx_machine.DEVICE + place * APART)
        self.used = 0
        self.handles: dict[int, Any] = {}
        self.queue: list[Callable[[], None]] = []
        self.capturing: Graph | None = None
        self.broken = 0  # an error of a kernel: the context is lost


def of_card(name: str) -> Any:
    return property(
        lambda self: getattr(self.own(), name), lambda self, value: setattr(self.own(), name, value)
    )


def number(x: Any) -> int:
    value = x.value if hasattr(x, "value") else x
    return int(value or 0)


class FakeDriver:
    """Every function by its name; `counts` says how often it was called, `fail` lets calls fail."""

    def __init__(self, *cards: Card, version: int = 13000) -> None:
        self.cards = list(cards) if cards else [Card()]
        self.version = version
        self.counts: Counter[str] = Counter()
        self.failing: dict[str, dict[int, int]] = {}
        self.here = threading.local()
        self.lock = threading.RLock()
        self.places = [Own(k) for k in range(len(self.cards))]
        self.next_handle = 0x1000
        self.faults: list[str] = []
        self.texts: list[str] = []  # PTX that was assembled
        self.executed: Counter[str] = Counter()
        self.launches: list[tuple[str, int, int]] = []  # (kernel, blocks, threads) of those that ran
        self.retained: set[int] = set()
        self.clock = 0.0
        self.strings: dict[int, Any] = {}
        self.warps = False  # one warp after another, and not all at once
        self.outside = 0  # bytes that another process has

    memory, used, handles, queue = of_card("memory"), of_card("used"), of_card("handles"), of_card("queue")
    capturing, broken = of_card("capturing"), of_card("broken")

    @property
    def place(self) -> int:
        """The card of this thread's context; before there is one, the first."""
        return max(getattr(self.here, "context", CONTEXT) - CONTEXT, 0)

    def own(self) -> Own:
        return self.places[self.place]

    def fail(self, name: str, code: int, at: int = 1) -> None:
        """The at-th call of a function from now on returns this number and does nothing."""
        self.failing.setdefault(name, {})[self.counts[name] + at] = code

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        try:
            work = object.__getattribute__(self, f"_{name}")
        except AttributeError:
            raise AttributeError(
                f"the fake driver has no {name}: it is in test/fake_cuda.py that it should be"
            ) from None

        def call(*args: Any) -> int:
            with self.lock:
                self.counts[name] += 1
                if code := self.failing.get(name, {}).pop(self.counts[name], 0):
                    if name == "cuStreamEndCapture":  # it ends in any case
                        self.capturing = None
                    return code
                if name not in WITHOUT_CONTEXT:
                    if not getattr(self.here, "context", 0):
                        return NO_CONTEXT
                    if self.broken:
                        return self.broken
                try:
                    work(*args)
                except Refused as no:
                    return no.code
                return 0

        return call

    # --- handles ------------------------------------------------------------------------------------
    def new(self, out: Any, thing: Any) -> None:
        self.next_handle += 16
        self.handles[self.next_handle] = thing
        out._obj.value = self.next_handle

    def get(self, handle: Any, kind: type) -> Any:
        thing = self.handles.get(number(handle))
        if not isinstance(thing, kind):
            raise Refused(BAD_HANDLE)
        return thing

    def drop(self, handle: Any, kind: type) -> Any:
        self.get(handle, kind)
        return self.handles.pop(number(handle))

    def alive(self, kind: type) -> list[Any]:
        return [x for own in self.places for x in own.handles.values() if isinstance(x, kind)]

    # --- the driver and its devices -----------------------------------------------------------------
    def _cuInit(self, flags: int) -> None:
        if not self.cards:
            raise Refused(NO_DEVICE)

    def _cuDriverGetVersion(self, out: Any) -> None:
        out._obj.value = self.version

    def _cuGetErrorName(self, code: Any, out: Any) -> None:
        self.say(code, 0, out)

    def _cuGetErrorString(self, code: Any, out: Any) -> None:
        self.say(code, 1, out)

    def say(self, code: Any, which: int, out: Any) -> None:
        if number(code) not in ERRORS:
            raise Refused(INVALID)
        out._obj.value = ERRORS[number(code)][which].encode()

    def _cuDeviceGetCount(self, out: Any) -> None:
        out._obj.value = len(self.cards)

    def _cuDeviceGet(self, out: Any, k: Any) -> None:
        if number(k) >= len(self.cards):
            raise Refused(101)
        out._obj.value = number(k)

    def card(self, handle: Any) -> Card:
        if not 0 <= number(handle) < len(self.cards):
            raise Refused(101)
        return self.cards[number(handle)]

    def _cuDeviceGetName(self, out: Any, size: Any, handle: Any) -> None:
        out.value = self.card(handle).name.encode()[: number(size) - 1]

    def _cuDeviceGetAttribute(self, out: Any, which: Any, handle: Any) -> None:
        try:
            out._obj.value = self.card(handle).attribute(number(which))
        except KeyError:
            raise Refused(INVALID) from None

    def _cuDeviceTotalMem_v2(self, out: Any, handle: Any) -> None:
        out._obj.value = self.card(handle).memory

    def _cuDevicePrimaryCtxRetain(self, out: Any, handle: Any) -> None:
        self.card(handle)
        self.retained.add(number(handle))
        out._obj.value = CONTEXT + number(handle)

    def _cuDevicePrimaryCtxRelease_v2(self, handle: Any) -> None:
        self.card(handle)

    def _cuCtxSetCurrent(self, context: Any) -> None:
        if number(context) - CONTEXT not in self.retained:
            raise Refused(NO_CONTEXT)
        self.here.context = number(context)

    def _cuCtxGetCurrent(self, out: Any) -> None:
        out._obj.value = getattr(self.here, "context", 0)

    # --- the stream ---------------------------------------------------------------------------------
    def _cuStreamCreate(self, out: Any, flags: Any) -> None:
        self.new(out, "stream")

    def _cuStreamDestroy_v2(self, stream: Any) -> None:
        self.drop(stream, str)

    def queued(self, work: Callable[[], None], stream: Any) -> None:
        if number(stream):
            self.get(stream, str)
        (self.capturing.work if self.capturing else self.queue).append(work)

    def wait(self) -> None:
        if self.capturing:
            raise Refused(901)
        try:
            while self.queue:
                self.queue.pop(0)()
        except ptx_machine.Fault as fault:
            self.queue.clear()
            self.faults.append(str(fault))
            self.broken = fault.code
            raise Refused(fault.code) from None

    def _cuStreamSynchronize(self, stream: Any) -> None:
        self.get(stream, str)
        self.wait()

    def _cuCtxSynchronize(self) -> None:
        self.wait()

    def _cuStreamQuery(self, stream: Any) -> None:
        self.get(stream, str)
        self.wait()

    # --- memory -------------------------------------------------------------------------------------
    def whole(self) -> int:
        return self.cards[self.place].memory

    def _cuMemGetInfo_v2(self, free: Any, whole: Any) -> None:
        free._obj.value, whole._obj.value = self.whole() - self.used - self.outside, self.whole()

    def _cuPointerGetAttribute(self, out: Any, which: Any, pointer: Any) -> None:
        assert number(which) == 9, "the device of it"
        place = next((k for k, own in enumerate(self.places) if number(pointer) in own.memory.blocks), None)
        if place is None:
            raise Refused(INVALID)
        out._obj.value = place

    def _cuMemAlloc_v2(self, out: Any, size: Any) -> None:
        n = number(size)
        if not n:
            raise Refused(INVALID)
        if self.used + self.outside + n > self.whole():
            raise Refused(MEMORY)
        self.used += n
        out._obj.value = self.memory.allocate(n)

    def _cuMemFree_v2(self, pointer: Any) -> None:
        self.wait()
        try:
            block = self.memory.blocks.get(number(pointer))
            self.memory.free(number(pointer))
            assert block is not None
            self.used -= block.size
        except ptx_machine.Fault as fault:
            self.faults.append(str(fault))
            raise Refused(INVALID) from None

    def copied(self, work: Callable[[], None], *there: tuple[Any, Any]) -> Callable[[], None]:
        """A copy, whose memory must be there already now."""
        try:
            for address, size in there:
                self.memory.bytes(number(address), number(size))
        except ptx_machine.Fault as fault:
            self.faults.append(str(fault))
            raise Refused(INVALID) from None
        return work

    def _cuMemcpyHtoDAsync_v2(self, to: Any, source: Any, size: Any, stream: Any) -> None:
        a, host, n = number(to), number(source), number(size)

        def work() -> None:
            self.memory.bytes(a, n)[:] = memoryview(ctypes.string_at(host, n))

        self.queued(self.copied(work, (to, size)), stream)

    def _cuMemcpyDtoHAsync_v2(self, to: Any, source: Any, size: Any, stream: Any) -> None:
        host, a, n = number(to), number(source), number(size)
        self.queued(
            self.copied(lambda: ctypes.memmove(host, self.memory.bytes(a, n).tobytes(), n), (source, size)),
            stream,
        )

    def _cuMemcpyDtoDAsync_v2(self, to: Any, source: Any, size: Any, stream: Any) -> None:
        a, b, n = number(to), number(source), number(size)

        def work() -> None:
            self.memory.bytes(a, n)[:] = self.memory.bytes(b, n).copy()

        self.queued(self.copied(work, (to, size), (source, size)), stream)

    def _cuMemcpyHtoD_v2(self, to: Any, source: Any, size: Any) -> None:
        self._cuMemcpyHtoDAsync_v2(to, source, size, 0)
        self.wait()

    def _cuMemcpyDtoH_v2(self, to: Any, source: Any, size: Any) -> None:
        self._cuMemcpyDtoHAsync_v2(to, source, size, 0)
        self.wait()

    def _cuMemsetD8Async(self, to: Any, value: Any, size: Any, stream: Any) -> None:
        a, v, n = number(to), number(value), number(size)
        self.queued(self.copied(lambda: self.memory.bytes(a, n).fill(v), (to, size)), stream)

    def _cuMemsetD32Async(self, to: Any, value: Any, count: Any, stream: Any) -> None:
        a, v, n = number(to), number(value), number(count)
        self.queued(self.copied(lambda: self.memory.bytes(a, 4 * n).view("u4").fill(v), (to, 4 * n)), stream)

    # --- programs -----------------------------------------------------------------------------------
    def _cuLinkCreate_v2(self, count: Any, options: Any, values: Any, out: Any) -> None:
        logs = {int(options[k]): values[k] for k in range(number(count))}
        self.new(out, {"logs": logs, "image": b""})

    def _cuLinkAddData_v2(self, state: Any, kind: Any, data: Any, size: Any, *_: Any) -> None:
        link = self.get(state, dict)
        text = bytes(data[: number(size)]).rstrip(b"\0").decode()
        try:
            module = parsed(text)
            for f in module.functions.values():
                ptx_machine.compiled(text, f.name)
        except ptx_machine.Unknown:
            raise
        except ptx_machine.BadPtx as error:
            if 5 in link["logs"]:
                said = f"ptxas error   : {error}".encode()[: number(link["logs"].get(6, 1)) - 1] + b"\0"
                ctypes.memmove(link["logs"][5], said, len(said))
            raise Refused(BAD_PTX) from None
        self.runs_here(module)
        self.texts.append(text)
        link["image"] = CUBIN + text.encode()

    def runs_here(self, module: Module) -> None:
        major, minor = self.cards[self.place].capability
        if int(module.target.removeprefix("sm_").rstrip("af")) > 10 * major + minor:
            raise Refused(NO_BINARY)

    def _cuLinkComplete(self, state: Any, code: Any, size: Any) -> None:
        link = self.get(state, dict)
        link["kept"] = ctypes.create_string_buffer(link["image"], len(link["image"]))
        code._obj.value, size._obj.value = ctypes.addressof(link["kept"]), len(link["image"])

    def _cuLinkDestroy(self, state: Any) -> None:
        self.drop(state, dict)

    def _cuModuleLoadData(self, out: Any, image: Any) -> None:
        text = bytes(image).rstrip(b"\0").removeprefix(CUBIN).decode()
        try:
            module = parsed(text)
        except ptx_machine.BadPtx:
            raise Refused(NO_BINARY if not text.startswith(".") else BAD_PTX) from None
        self.runs_here(module)
        self.new(out, ptx_machine.load(text, self.memory))

    def _cuModuleUnload(self, module: Any) -> None:
        self.wait()
        handle = number(module)
        self.drop(module, ptx_machine.Loaded).forget(self.memory)
        for k in [k for k, v in self.handles.items() if isinstance(v, tuple) and v[0] == handle]:
            del self.handles[k]

    def _cuModuleGetFunction(self, out: Any, module: Any, name: bytes) -> None:
        loaded = self.get(module, ptx_machine.Loaded)
        if name.decode() not in loaded.module.entries:
            raise Refused(NOT_FOUND)
        self.new(out, (number(module), name.decode()))

    def _cuModuleGetGlobal_v2(self, out: Any, size: Any, module: Any, name: bytes) -> None:
        loaded = self.get(module, ptx_machine.Loaded)
        if name.decode() not in loaded.symbols:
            raise Refused(NOT_FOUND)
        out._obj.value = loaded.symbols[name.decode()]
        if size is not None:
            size._obj.value = loaded.module.variables[name.decode()].size

    def _cuFuncGetAttribute(self, out: Any, which: Any, function: Any) -> None:
        module, name = self.get(function, tuple)
        f = self.handles[module].module.functions[name]
        local = sum(v.size for v in f.variables.values() if v.space == "local")
        out._obj.value = {0: MOST_THREADS, 1: 0, 3: local, 4: min(255, 16 + len(f.registers) // 4)}[
            number(which)
        ]

    def _cuFuncSetAttribute(self, function: Any, which: Any, value: Any) -> None:
        self.get(function, tuple)
        if number(which) == 8 and number(value) > MOST_SHARED:
            raise Refused(INVALID)

    def _cuOccupancyMaxActiveBlocksPerMultiprocessor(
        self, out: Any, function: Any, threads: Any, shared: Any
    ) -> None:
        self.get(function, tuple)
        out._obj.value = 2048 // max(number(threads), 1)

    def _cuLaunchKernel(self, function: Any, *rest: Any) -> None:
        *shape, shared, stream, params, _ = rest
        module, name = self.get(function, tuple)
        loaded, (gx, gy, gz, bx, by, bz) = self.handles[module], (number(x) for x in shape)
        if min(gx, gy, gz, bx, by, bz) < 1 or gx > 2**31 - 1 or max(gy, gz) > 65535:
            raise Refused(INVALID)
        if bx * by * bz > MOST_THREADS or number(shared) > MOST_SHARED:
            raise Refused(RESOURCES if number(shared) > MOST_SHARED else INVALID)
        sizes = [v.size for v in loaded.module.functions[name].params]
        given = [
            ctypes.string_at(params[k], n) for k, n in enumerate(sizes)
        ]  # now: the caller may change them

        def work() -> None:
            launch = ptx_machine.Launch(
                loaded, name, self.memory, given, (gx, gy, gz), (bx, by, bz), number(shared), self.warps
            )
            self.launches.append((name, gx * gy * gz, bx * by * bz))
            launch.run()
            self.executed.update(launch.executed)
            self.clock += launch.instructions * 1e-6

        if len(params) != len(sizes):
            raise AssertionError(f"{name} takes {len(sizes)} arguments, not {len(params)}")
        self.queued(work, stream)

    def _cuLaunchCooperativeKernel(self, function: Any, *rest: Any) -> None:
        self._cuLaunchKernel(function, *rest, None)

    # --- graphs and events --------------------------------------------------------------------------
    def _cuStreamBeginCapture_v2(self, stream: Any, mode: Any) -> None:
        self.get(stream, str)
        self.capturing = Graph()

    def _cuStreamEndCapture(self, stream: Any, out: Any) -> None:
        self.get(stream, str)
        if self.capturing is None:
            raise Refused(901)
        graph, self.capturing = self.capturing, None
        self.new(out, graph)

    def _cuGraphInstantiateWithFlags(self, out: Any, graph: Any, flags: Any) -> None:
        self.new(out, ("graph", list(self.get(graph, Graph).work)))

    def _cuGraphDestroy(self, graph: Any) -> None:
        self.drop(graph, Graph)

    def _cuGraphLaunch(self, graph: Any, stream: Any) -> None:
        for work in self.get(graph, tuple)[1]:
            self.queued(work, stream)

    def _cuGraphExecDestroy(self, graph: Any) -> None:
        self.wait()
        self.drop(graph, tuple)

    def _cuEventCreate(self, out: Any, flags: Any) -> None:
        self.new(out, [None])

    def _cuEventRecord(self, event: Any, stream: Any) -> None:
        place = self.get(event, list)
        self.queued(lambda: place.__setitem__(0, self.clock), stream)

    def _cuEventSynchronize(self, event: Any) -> None:
        self.get(event, list)
        self.wait()

    def _cuEventQuery(self, event: Any) -> None:
        self.get(event, list)
        self.wait()

    def _cuEventElapsedTime(self, out: Any, a: Any, b: Any) -> None:
        times = [self.get(e, list)[0] for e in (a, b)]
        if None in times:
            raise Refused(400)
        out._obj.value = times[1] - times[0]

    _cuEventElapsedTime_v2 = _cuEventElapsedTime

    def _cuEventDestroy_v2(self, event: Any) -> None:
        self.drop(event, list)


# --- in place of the real one -----------------------------------------------------------------------------
def forget() -> None:
    """Nothing of a driver is remembered: neither devices nor engines that hold kernels of it."""
    backend.gpu_here.cache_clear()
    if not cuda.library.cache_info().currsize:
        return
    for made in (
        backend.engine_for,
        backend.series_engine,
        device_arrays.tools,
        loading.kernels_of,
        device_arrays.moves,
        device_arrays.hashing,
        loop_numbers.kernels,
    ):
        made.cache_clear()
    driver = cuda.library()
    if isinstance(driver, FakeDriver) and (
        driver.alive(ptx_machine.Loaded) or driver.alive(list) or driver.alive(tuple)
    ):
        gc.collect()  # what the engines held gives its handles back while the driver is still there
    for known in (cuda.opened, cuda.driver_version, cuda.library):
        known.cache_clear()
    cuda._here = threading.local()


@contextmanager
def installed(driver: FakeDriver) -> Iterator[FakeDriver]:
    """The driver is this one; afterwards nothing of it is left."""
    forget()
    kept, cuda.open_library = cuda.open_library, lambda: driver
    served, loading.serve = (
        loading.serve,
        lambda device: driver.cards[0].estimates,
    )  # there are more than can be looked at
    try:
        yield driver
    finally:
        forget()
        cuda.open_library, loading.serve = kept, served
