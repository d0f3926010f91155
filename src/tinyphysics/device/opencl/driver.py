"""The OpenCL device: which one is there, programs built for it, and arrays copied there and back."""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache as once
from functools import wraps
from typing import Any

import numpy as np

from tinyphysics.context import OPENCL_DEVICE
from tinyphysics.device.cache import directory
from tinyphysics.device.host.nests import view
from tinyphysics.errors import BackendError
from tinyphysics.tpir.kernels.nests import Buffer, LoopSection, Nest, Round
from tinyphysics.util import plural

INSTALL = "pip install tinyphysics[opencl] brings pyopencl and PoCL, for processors that its LLVM knows."
NEWER = "its LLVM does not know this processor; a newer PoCL does"
OPTIONS = "-cl-std=CL1.2"  # and nothing that lets the compiler change a number
GROUP = 64  # work-items side by side, where there are many cores
SHARES = 4  # of a loop for each core of a processor: the slower one takes fewer
QUEUED = 256  # steps that may wait in a queue; then Ctrl-C is looked for
_lock = threading.RLock()  # setting a kernel's arguments and queueing it are one thing


def keeps_mode(work: Callable[..., Any]) -> Callable[..., Any]:
    """The function, after which this thread rounds as before: PoCL's libraries turn subnormals off where they are loaded."""
    library = ctypes.CDLL(None)

    @wraps(work)
    def call(*args: Any) -> Any:
        mode = ctypes.create_string_buffer(256)  # more than any fenv_t
        library.fegetenv(mode)
        try:
            return work(*args)
        finally:
            library.fesetenv(mode)

    return call


@once
@keeps_mode
def api() -> Any:
    """pyopencl, imported when first asked for.

    Both it and PoCL fail where they cannot write what they keep: drivers cache by themselves, PoCL beside our objects.
    """
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
    if (folder := directory()) is not None:
        os.environ.setdefault("POCL_CACHE_DIR", str(folder / "pocl"))
    try:
        import pyopencl
    except ImportError as error:
        raise BackendError(f"the backend `opencl` needs pyopencl: {error}", fix=INSTALL) from error
    return pyopencl


@keeps_mode
def platforms() -> list[Any]:
    cl = api()
    try:
        return list(cl.get_platforms())
    except cl.Error as error:
        raise BackendError(f"no OpenCL driver is installed: {error}", fix=INSTALL) from error


def compiles(device: Any) -> bool:
    """Does the driver build kernels?  PoCL calls a processor `generic` if its LLVM is older, and then builds none."""
    if not device.version.endswith("-generic"):
        return True
    cl = api()
    try:
        cl.Program(cl.Context([device]), "kernel void nothing(void) {}").build()
    except cl.Error:
        return False
    return True


def lacks(device: Any) -> str:
    """What a device lacks for the kernels of this backend; empty if it has all."""
    cl = api()
    if "cl_khr_fp64" not in device.extensions.split():
        return "no float64"
    config, needed = int(device.double_fp_config), cl.device_fp_config
    missing = [n for n in ("FMA", "ROUND_TO_NEAREST", "DENORM", "INF_NAN") if not config & getattr(needed, n)]
    if missing:
        return f"float64 without {', '.join(missing)}"
    if not int(device.single_fp_config) & needed.DENORM:  # r**-3 of many pairs begins in float32
        return "float32 without DENORM"
    if not device.endian_little:
        return "not little-endian"
    return "" if compiles(device) else NEWER


@dataclass(frozen=True)
class OpenClInfo:
    """One device, in words and as it is."""

    name: str
    lacks: str
    device: Any


def devices() -> Iterator[OpenClInfo]:
    """Every device of every driver."""
    cl = api()
    for p in platforms():
        try:
            there = p.get_devices()
        except cl.Error:  # a driver without a device
            continue
        yield from (OpenClInfo(f"{p.name.strip()}: {d.name.strip()}", lacks(d), d) for d in there)


@keeps_mode
def chosen(number: int) -> OpenClInfo:
    """The device that runs: of those with float64 the one of this number."""
    every = list(devices())
    usable = [f for f in every if not f.lacks]
    if not every:
        raise BackendError(
            "an OpenCL driver is installed, but finds no device",
            fix="PoCL finds no device if it cannot write its cache: set POCL_CACHE_DIR to a writable directory.",
        )
    if not usable:
        told = "; ".join(f"{f.name} ({f.lacks})" for f in every)
        raise BackendError(f"no OpenCL device can run the backend: {told}", fix=INSTALL)
    if not 0 <= number < len(usable):
        raise BackendError(
            f"there is no OpenCL device {number} (TINYPHYSICS_OPENCL_DEVICE)",
            fix=f"Devices are numbered from 0; {plural(len(usable), 'device')} can be used: see tp doctor.",
        )
    return usable[number]


@keeps_mode
def described() -> str:
    """What is here, for the doctor; never an error."""
    try:
        found = chosen(OPENCL_DEVICE.value)
        every = [f"{f.name} ({f.lacks or 'float64'})" for f in devices()]
    except BackendError as error:
        return f"none: {error.what}"
    return f"{'; '.join(every)}; taken: {found.name}"


@dataclass(frozen=True)
class Device:
    """A device with a queue, in whose order everything is done."""

    name: str
    context: Any
    queue: Any
    processor: bool  # few cores with vectors: loops over many lanes; else many cores with one lane each
    cores: int


@once
@keeps_mode
def device() -> Device:
    """The one that all kernels of this process are built for."""
    cl, found = api(), chosen(OPENCL_DEVICE.value)
    try:
        context = cl.Context([found.device])
        queue = cl.CommandQueue(context)
    except cl.Error as error:
        raise BackendError(f"`{found.name}` could not be opened: {error}") from error
    processor = bool(found.device.type & cl.device_type.CPU)
    return Device(found.name, context, queue, processor, int(found.device.max_compute_units))


@keeps_mode
def build(source: str, names: Sequence[str]) -> list[Any]:
    """The kernels of a program; drivers keep what they have built by themselves."""
    cl, d = api(), device()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pyopencl warns of any output of a compiler
            program = cl.Program(d.context, source).build(OPTIONS)
        return [cl.Kernel(program, name) for name in names]
    except cl.Error as error:
        raise BackendError(f"`{d.name}` did not build the kernel: {str(error).strip()[:600]}") from error


def enqueue(kernel: Any, items: int, args: Sequence[Any]) -> None:
    """At least so many work-items; groups of one size, for which drivers compile once."""
    d = device()
    group = 1 if d.processor else GROUP
    with _lock:
        kernel.set_args(*args)
        api().enqueue_nd_range_kernel(d.queue, kernel, (-(-items // group) * group,), (group,))


def there(a: Any) -> Any:
    """A copy of an array on the device; nothing of nothing."""
    cl = api()
    if a is None or not a.size:
        return None
    return cl.Buffer(device().context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=a)


def back(buffer: Any, out: Any) -> None:
    """The copy back; returns when it is there."""
    if buffer is None:
        return
    api().enqueue_copy(device().queue, out, buffer, is_blocking=True)


def failing(work: Callable[..., None]) -> Callable[..., None]:
    """A driver that gives up says so as a BackendError."""

    @keeps_mode
    def call(*args: Any) -> None:
        try:
            work(*args)
        except api().Error as error:
            raise BackendError(f"`{device().name}` failed: {str(error).strip()[:600]}") from error

    return call


def on_lanes(kernel: Any, lanes: int) -> Callable[..., None]:
    """The kernel of a section as a function of arrays: their columns from `begin` to `end` go there and come back."""

    def call(
        source: Any,
        out: Any,
        uniform: Any,
        varying: Any,
        flags: Any,
        series: Any,
        begin: int,
        end: int,
        members: int,
        *numbers: int,
    ) -> None:
        here, count = slice(begin, end), end - begin

        def part(a: Any) -> Any:
            return a if a is None or count == a.shape[-1] else np.ascontiguousarray(a[..., here])

        columns = [part(a) for a in (source, out, varying, flags, series)]
        copies = [there(a) for a in columns]
        scalars = [np.int64(n) for n in (0, count, count, *numbers)]
        enqueue(kernel, count // lanes, [*copies[:2], there(uniform), *copies[2:], *scalars])
        for k, array in ((1, out), (3, flags), (4, series)):
            back(copies[k], columns[k])
            if columns[k] is not array:
                array[..., here] = columns[k]

    return failing(call)


def on_loops(
    kernels: Sequence[Any], buffers: dict[str, Buffer], section: LoopSection, touched: Sequence[Sequence[str]]
) -> Callable[..., None]:
    """The nests of a section as a function of a table of addresses: what they touch goes there and comes back."""
    names = list(buffers)
    slots = {name: k for k, name in enumerate(names)}
    used = [n for n in names if any(n in t for t in touched) or any(n in swap for swap in section.swaps)]

    def span(nest: Nest) -> int:
        d, chains = device(), nest.extent // nest.links
        return nest.links * (-(-chains // (SHARES * d.cores)) if d.processor else 1)

    def call(table: Any, uniform: Any, flags: Any, first: int, steps: int) -> None:
        arrays = {name: view(int(table[slots[name]]), buffers[name]) for name in used}
        copies = {name: there(a) for name, a in arrays.items()}
        held = dict(copies)  # which copy a buffer's name stands for, after so many swaps
        shared, raised = there(uniform), there(flags)
        spans = [span(nest) for nest in section.nests]
        for k in range(steps):

            def do(turn: Round, now: int = first + k) -> bool:
                for n in range(turn.begin, turn.end):
                    share = spans[n]
                    args = [
                        *(held[name] for name in touched[n]),
                        shared,
                        raised,
                        np.int64(share),
                        np.int64(now),
                    ]
                    enqueue(kernels[n], -(-section.nests[n].extent // share), args)
                for a, b in turn.swaps:
                    i, j = slots[a], slots[b]
                    held[a], held[b] = held[b], held[a]
                    table[i], table[j] = table[j], table[i]
                if not turn.going:
                    return True
                back(held[turn.going], arrays[turn.going])
                return bool(arrays[turn.going][0])

            if not section.run(do):
                break
            if k % QUEUED == QUEUED - 1:
                device().queue.finish()
        for name, copy in copies.items():
            back(copy, arrays[name])
        back(raised, flags)

    return failing(call)
