"""The CUDA device: NVIDIA's driver by ctypes alone, every return code looked at.

One primary context and one stream for each device, in whose order everything is done; other libraries that use the device
share the context. What was freed is kept for the next of its size. Runs have one device, or all
(device/engines/cuda_many.py).
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache as once
from typing import Any

import numpy as np

from tinyphysics.context import CUDA_DEVICE
from tinyphysics.device import cache
from tinyphysics.errors import BackendError
from tinyphysics.util import digest, plural

LIBRARY = "libcuda.so.1"
INSTALL = "It comes with NVIDIA's display driver (580 or the one of your card); nothing of the CUDA toolkit is needed."
OLDEST = 12000  # CUDA of the driver: what reads the PTX that is written here
LOG = 8192  # bytes of what the driver's assembler has to say

# numbers of cuda.h
OUT_OF_MEMORY = 2
NO_BINARY = (200, 209)  # machine code that is damaged, or of another device
LOST = range(700, 721)  # a kernel went wrong, and the context with it
LOST_CONTEXT = "The GPU's context is lost: what is saved stays, the rest needs a new process."
(CAPABILITY_MAJOR, CAPABILITY_MINOR, PROCESSORS, SHARED, CLOCK) = (75, 76, 16, 81, 13)
(LOCAL_BYTES, REGISTERS) = (3, 4)
DEVICE_ORDINAL = 9  # of what is known about a pointer
(MOST_REGISTERS, INFO_LOG, INFO_SIZE, ERROR_LOG, ERROR_SIZE) = (0, 3, 4, 5, 6)
PTX = 1
RELAXED = 2  # of a capture: other threads may do what they like

Pointer, Int, Bytes = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
ALL = -1  # of CUDA_DEVICE: every device that can
_here = threading.local()  # the context that is this thread's
_on: ContextVar[int | None] = ContextVar("cuda device", default=None)  # if not the first that is taken


def open_library() -> Any:
    """The driver; a BackendError where there is none."""
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise BackendError(
            f"the backend `cuda` needs the driver of an NVIDIA GPU: {error}", fix=INSTALL
        ) from error


@once
def library() -> Any:
    return open_library()


def told(code: int) -> str:
    """An error of the driver, in its words."""
    name, text = ctypes.c_char_p(), ctypes.c_char_p()
    lib = library()
    if lib.cuGetErrorName(code, ctypes.byref(name)) or lib.cuGetErrorString(code, ctypes.byref(text)):
        return f"error {code}"
    return f"{(name.value or b'').decode()}: {(text.value or b'').decode()}"


class DeviceError(BackendError):
    """The driver said no; its number is `code`."""

    def __init__(self, what: str, code: int, fix: str | None = None) -> None:
        super().__init__(what, fix=fix)
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return DeviceError, (self.what, self.code, self.fix)


def call(name: str, *args: Any) -> None:
    """A function of the driver in the context of this thread's device; threads in turn, since they share its stream."""
    d = entered()
    with d.lock:
        ask(name, *args)


def entered() -> Device:
    """This thread's device, in whose context it is then."""
    d = device()
    if getattr(_here, "device", None) is not d:
        ask("cuCtxSetCurrent", d.context)
        _here.device = d
    return d


def ask(name: str, *args: Any) -> None:
    code = getattr(library(), name)(*args)
    if code:
        raise DeviceError(f"CUDA's {name} failed: {told(code)}", code, LOST_CONTEXT if code in LOST else None)


def drop(home: int, name: str, handle: Any) -> None:
    """Gives something back, in whichever thread its last owner goes; what cannot be given back is the driver's.

    It does not wait: the collector may come while this thread or another has a device to itself.
    """
    if handle and not _closing():
        with suppress(BackendError), on(home):
            entered()
            ask(name, handle)


def number(name: str, *args: Any) -> int:
    """What a function of the driver writes into its first argument."""
    out = Int()
    ask(name, ctypes.byref(out), *args)
    return out.value


@dataclass(frozen=True)
class CudaInfo:
    """One device, in words and by its number."""

    number: int
    handle: int
    name: str
    capability: tuple[int, int]

    @property
    def lacks(self) -> str:
        """What it has not that kernels need; empty if it has all."""
        major, minor = self.capability
        return "" if major >= 7 else f"compute capability {major}.{minor}, before 7.0"


@once
def driver_version() -> int:
    ask("cuInit", 0)
    return number("cuDriverGetVersion")


def dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def devices() -> list[CudaInfo]:
    """Every device that the driver shows."""
    version = driver_version()
    if version < OLDEST:
        raise BackendError(
            f"the NVIDIA driver supports CUDA {dotted(version)}, which is too old for the PTX generated here",
            fix=f"Install a driver for CUDA {OLDEST // 1000} or later.",
        )
    out = []
    for k in range(number("cuDeviceGetCount")):
        handle = number("cuDeviceGet", k)
        name = ctypes.create_string_buffer(256)
        ask("cuDeviceGetName", name, 256, handle)
        major, minor = (
            number("cuDeviceGetAttribute", a, handle) for a in (CAPABILITY_MAJOR, CAPABILITY_MINOR)
        )
        out.append(CudaInfo(k, handle, name.value.decode(), (major, minor)))
    return out


def usable() -> list[CudaInfo]:
    try:
        every = devices()
    except DeviceError as error:  # 100: a driver without a device
        raise BackendError(
            f"the NVIDIA driver finds no GPU: {error.what}", fix="Check what `nvidia-smi` reports."
        ) from error
    found = [f for f in every if not f.lacks]
    if not found:
        what = "; ".join(f"{f.name} ({f.lacks})" for f in every) or "none is there"
        raise BackendError(
            f"no GPU can run the backend `cuda`: {what}", fix="Choose another backend, or leave backend= out."
        )
    return found


def chosen(wanted: int) -> CudaInfo:
    found = usable()
    if not 0 <= wanted < len(found):
        raise BackendError(
            f"there is no CUDA device {wanted} (TINYPHYSICS_CUDA_DEVICE)",
            fix=f"Devices are numbered from 0, and {ALL} means all of them; {plural(len(found), 'device')} can run.",
        )
    return found[wanted]


def taken() -> list[int]:
    """The devices that runs are given to."""
    return list(range(len(usable()))) if CUDA_DEVICE.value == ALL else [CUDA_DEVICE.value]


def described() -> str:
    """What is here, for the doctor; never an error."""
    try:
        names = ", ".join(chosen(k).name for k in taken())
        every = [f"{f.name} (sm_{f.capability[0]}{f.capability[1]})" for f in devices()]
    except BackendError as error:
        return f"none: {error.what}"
    return f"{'; '.join(every)}; taken: {names}; driver of CUDA {dotted(driver_version())}"


@dataclass(eq=False)
class Device:
    """A device with a context and a stream, and what was counted on it."""

    place: int  # among those that can run
    number: int
    name: str
    capability: tuple[int, int]
    processors: int
    context: Any
    stream: Any
    free: dict[int, list[int]] = field(default_factory=dict)  # pointers that are not in use, by their bytes
    lock: Any = field(default_factory=threading.RLock)
    launches: int = 0
    transfers: int = 0  # copies between host and device
    moved: int = 0  # bytes of them
    read: int = 0  # of these, from the device


def device() -> Device:
    """The one that this thread works with."""
    place = _on.get()
    with (
        _opening
    ):  # of two threads that ask at once the second gets the first one's: they must share a stream
        return opened(max(CUDA_DEVICE.value, 0) if place is None else place)


@contextmanager
def on(place: int) -> Iterator[None]:
    """Another device, in this thread."""
    token = _on.set(place)
    try:
        yield
    finally:
        _on.reset(token)


_opening = threading.RLock()


@once
def opened(place: int) -> Device:
    found = chosen(place)
    context, stream = Pointer(), Pointer()
    ask("cuDevicePrimaryCtxRetain", ctypes.byref(context), found.handle)
    ask("cuCtxSetCurrent", context)
    _here.device = None  # whichever this thread had before
    ask(
        "cuStreamCreate", ctypes.byref(stream), 0
    )  # one that waits for the default stream, where other libraries work
    processors = number("cuDeviceGetAttribute", PROCESSORS, found.handle)
    return Device(place, found.number, found.name, found.capability, processors, context, stream)


# --- memory ---------------------------------------------------------------------------------------------------
def memory() -> tuple[int, int]:
    """(free, all) bytes of the device."""
    free, whole = Bytes(), Bytes()
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(whole))
    return free.value, whole.value


def available() -> int:
    """Bytes that can be had: free ones, and those that are kept for later."""
    return memory()[0] + sum(size * len(kept) for size, kept in device().free.copy().items())


def release() -> None:
    """Gives what is kept for later back to the driver."""
    d = device()
    with d.lock:
        while d.free:
            _, kept = d.free.popitem()  # first out of the list: what fails to be freed is not used again
            for pointer in kept:
                call("cuMemFree_v2", ctypes.c_uint64(pointer))


class Buffer:
    """Memory of the device."""

    __slots__ = ("pointer", "size", "home")

    def __init__(self, size: int) -> None:
        self.home, self.size = device(), size
        self.pointer = allocate(size, self.home)

    def __del__(self) -> None:
        if pointer := getattr(self, "pointer", 0):
            self.home.free.setdefault(self.size, []).append(pointer)


def allocate(size: int, d: Device) -> int:
    with d.lock:
        if kept := d.free.get(size):
            return kept.pop()
    for last in (False, True):
        out = ctypes.c_uint64()
        try:
            call("cuMemAlloc_v2", ctypes.byref(out), Bytes(max(size, 1)))
        except DeviceError as error:
            if error.code != OUT_OF_MEMORY:
                raise
            if last:
                raise out_of_memory(size) from error
            gc.collect()  # buffers may lie in what only the collector finds
            release()
        else:
            return out.value
    raise AssertionError


def out_of_memory(size: int) -> DeviceError:
    free, whole = memory()
    return DeviceError(
        f"`{device().name}` cannot allocate {size / 2**20:,.1f} MiB more: "
        f"{free / 2**20:,.1f} of {whole / 2**20:,.1f} MiB are free",
        OUT_OF_MEMORY,
        "Run fewer members at once, save less often, or stop other programs that use the GPU.",
    )


def upload(a: Any) -> Buffer:
    """A copy of an array on the device."""
    a = np.ascontiguousarray(a)
    b = Buffer(a.nbytes)
    write(b, a)
    return b


def write(b: Buffer, a: Any) -> None:
    """An array that lies in one piece into memory of the device; returns when the array may change."""
    assert a.nbytes <= b.size
    write_at(b.pointer, a)


def write_at(pointer: int, a: Any) -> None:
    if not a.nbytes:
        return
    assert a.flags.c_contiguous
    counted(a.nbytes)
    call(
        "cuMemcpyHtoDAsync_v2",
        ctypes.c_uint64(pointer),
        Pointer(a.ctypes.data),
        Bytes(a.nbytes),
        device().stream,
    )
    synchronise()


def read(b: Buffer, out: Any, offset: int = 0) -> Any:
    """Memory of the device into an array that lies in one piece; returns when it is there."""
    assert offset + out.nbytes <= b.size
    return read_at(b.pointer + offset, out)


def read_at(pointer: int, out: Any) -> Any:
    if out.nbytes:
        assert out.flags.c_contiguous
        counted(out.nbytes, out.nbytes)
        call(
            "cuMemcpyDtoHAsync_v2",
            Pointer(out.ctypes.data),
            ctypes.c_uint64(pointer),
            Bytes(out.nbytes),
            device().stream,
        )
        synchronise()
    return out


def counted(size: int, read: int = 0) -> None:
    d = device()
    with d.lock:
        d.transfers, d.moved, d.read = d.transfers + 1, d.moved + size, d.read + read


def copy(source: Buffer, out: Buffer) -> Buffer:
    """From device to device."""
    assert out.size >= source.size
    between(out.pointer, source.pointer, source.size)
    return out


def between(to: int, source: int, size: int) -> None:
    if size:
        call(
            "cuMemcpyDtoDAsync_v2", ctypes.c_uint64(to), ctypes.c_uint64(source), Bytes(size), device().stream
        )


def zero(b: Buffer) -> Buffer:
    fill_at(b.pointer, 0, b.size)
    return b


def fill_at(pointer: int, byte: int, size: int) -> None:
    if size:
        call("cuMemsetD8Async", ctypes.c_uint64(pointer), ctypes.c_ubyte(byte), Bytes(size), device().stream)


def owner_of(pointer: int) -> int:
    """The number of the device that memory is of."""
    out = Int()
    call("cuPointerGetAttribute", ctypes.byref(out), DEVICE_ORDINAL, ctypes.c_uint64(pointer))
    return out.value


def wait_for(stream: int) -> None:
    """A stream of another library's."""
    call("cuStreamSynchronize", Pointer(stream))


def synchronise() -> None:
    call("cuStreamSynchronize", device().stream)


# --- programs -------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Function:
    """A kernel of a module."""

    handle: Any
    name: str
    module: Any = field(repr=False)  # lives as long as its functions

    def attribute(self, which: int) -> int:
        out = Int()
        call("cuFuncGetAttribute", ctypes.byref(out), which, self.handle)
        return out.value

    @property
    def registers(self) -> int:
        return self.attribute(REGISTERS)

    @property
    def local_bytes(self) -> int:
        """Of a thread that did not fit into registers, or is indexed."""
        return self.attribute(LOCAL_BYTES)


class Module:
    __slots__ = ("handle", "home")

    def __init__(self, image: bytes) -> None:
        self.home, self.handle = device().place, Pointer()
        call("cuModuleLoadData", ctypes.byref(self.handle), image)

    def __del__(self) -> None:
        drop(self.home, "cuModuleUnload", self.handle)

    def function(self, name: str) -> Function:
        out = Pointer()
        call("cuModuleGetFunction", ctypes.byref(out), self.handle, name.encode())
        return Function(out, name, self)


def _closing() -> bool:
    """Is the process ending?  Then the driver may be gone already."""
    return sys.is_finalizing()


def assemble(ptx: str) -> bytes:
    """Machine code of this device from PTX, by the driver's own assembler."""
    errors, state = ctypes.create_string_buffer(LOG), Pointer()
    options = (Int * 2)(ERROR_LOG, ERROR_SIZE)
    values = (Pointer * 2)(ctypes.cast(errors, Pointer), Pointer(LOG))
    call("cuLinkCreate_v2", 2, options, values, ctypes.byref(state))
    try:
        image = ptx.encode() + b"\0"
        call("cuLinkAddData_v2", state, PTX, image, Bytes(len(image)), b"kernel.ptx", 0, None, None)
        code, size = Pointer(), Bytes()
        call("cuLinkComplete", state, ctypes.byref(code), ctypes.byref(size))
        assert code.value is not None
        return ctypes.string_at(code.value, size.value)
    except DeviceError as error:
        said = errors.value.decode(errors="replace").strip()[:600]
        raise DeviceError(
            f"`{device().name}` did not assemble the kernel: {said or error.what}", error.code
        ) from error
    finally:
        call("cuLinkDestroy", state)


def load(ptx: str, names: Sequence[str]) -> tuple[list[Function], bool]:
    """(the kernels of a text, whether their machine code was kept from an earlier time)."""
    d = device()
    key = digest(f"{ptx}\n{d.name} {d.capability} {driver_version()}".encode()) + ".cubin"
    code = cache.read(key)
    found = code is not None
    if code is None:
        code = assemble(ptx)
        cache.write(key, code)
    try:
        module = Module(code)
    except DeviceError as error:
        if not found or error.code not in NO_BINARY:
            raise
        code, found = assemble(ptx), False  # what was kept is not for this device: it is made again
        cache.write(key, code)
        module = Module(code)
    return [module.function(name) for name in names], found


def launch(f: Function, blocks: int, threads: int, args: Sequence[Any], shared: int = 0) -> None:
    """Queues a kernel; its arguments are ctypes values and buffers."""
    if not blocks:
        return
    values = [
        ctypes.c_uint64(a.pointer) if isinstance(a, Buffer) else ctypes.c_uint64(0) if a is None else a
        for a in args
    ]
    pointers = (Pointer * len(values))(*map(ctypes.addressof, values))  # which `values` keeps alive
    d = entered()
    with d.lock:
        d.launches += 1
        ask("cuLaunchKernel", f.handle, blocks, 1, 1, threads, 1, 1, shared, d.stream, pointers, None)


class Graph:
    """Launches that were queued once and can be queued again as one."""

    def __init__(self, work: Callable[[], None]) -> None:
        d, graph = device(), Pointer()
        self.home, self.handle = d.place, Pointer()
        with d.lock:  # what other threads queue meanwhile would be taken for a part of it
            try:
                call("cuStreamBeginCapture_v2", d.stream, RELAXED)
                work()
                call("cuStreamEndCapture", d.stream, ctypes.byref(graph))
            except BaseException:  # the stream must not go on listening, wherever an interrupt comes
                with suppress(BackendError):
                    call("cuStreamEndCapture", d.stream, ctypes.byref(graph))
                drop(self.home, "cuGraphDestroy", graph)
                raise
        try:
            call("cuGraphInstantiateWithFlags", ctypes.byref(self.handle), graph, ctypes.c_ulonglong(0))
        finally:
            drop(self.home, "cuGraphDestroy", graph)

    def launch(self) -> None:
        d = device()
        with d.lock:
            d.launches += 1
        call("cuGraphLaunch", self.handle, d.stream)

    def __del__(self) -> None:
        drop(self.home, "cuGraphExecDestroy", self.handle)


class Timer:
    """Milliseconds on the device between two places of its stream."""

    def __init__(self) -> None:
        self.home, self.events = device().place, [Pointer(), Pointer()]
        for e in self.events:
            call("cuEventCreate", ctypes.byref(e), 0)

    def __enter__(self) -> Timer:
        call("cuEventRecord", self.events[0], device().stream)
        return self

    def __exit__(self, *_: Any) -> None:
        call("cuEventRecord", self.events[1], device().stream)

    @property
    def milliseconds(self) -> float:
        call("cuEventSynchronize", self.events[1])
        out = ctypes.c_float()
        call("cuEventElapsedTime", ctypes.byref(out), *self.events)
        return out.value

    def __del__(self) -> None:
        for e in self.events:
            drop(self.home, "cuEventDestroy_v2", e)
