"""What would a run ask of a GPU?  A driver that computes nothing and writes down every call, for machines without a device.

What is read back is zero, and the word that says whether any member needs care is one: so all kernels of a run are loaded
and launched. Replayed on a device (gpu_launch.py) the calls do the run; those that redo marked members do nothing if none is.
Results are read as numbers that say where they were read, so that it is known what becomes of which bytes.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyphysics.device.cuda import driver as cuda
from tinyphysics.runtime.engines import backend
from tinyphysics.runtime.state import device_arrays

BASE = 1 << 44  # of addresses: no count or size is as large
ALIGNED = 256
MEMORY = 128 << 30  # bytes of the device that is not there
NAME, VERSION = b"no device: a recorder", 13000
ATTRIBUTES = {cuda.PROCESSORS: 132, cuda.SHARED: 232448, cuda.CLOCK: 1980000}  # of an H200
REGISTERS = 64
WORD, FLAG = 4, 8  # bytes of what results are counted in, and of an answer to a question
SIZES = {"8": ctypes.c_uint8, "16": ctypes.c_uint16, "32": ctypes.c_uint32, "64": ctypes.c_uint64}
ENTRY = re.compile(r"\.entry\s+(\w+)\s*\((.*?)\)", re.S)
PARAMETER = re.compile(r"\.param\s+\.[busf](\d+)")


@functools.lru_cache(maxsize=64)
def parameters_of(ptx: str) -> dict[str, list[str]]:
    """The bits of every argument of every kernel of a text."""
    return {name: PARAMETER.findall(text) for name, text in ENTRY.findall(ptx)}


@dataclass
class Recording:
    """Calls in their order, as JSON can hold them; `data` are the bytes of uploads, `texts` the PTX, `results` pieces."""

    calls: list[list[Any]] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    results: list[list[int]] = field(default_factory=list)


def target(reference: Any) -> Any:
    """What a ctypes.byref points at."""
    return reference._obj


def whole(value: Any) -> int:
    return int(value.value or 0) if hasattr(value, "value") else int(value or 0)


class Recorder:
    """The functions of the driver that device/cuda/driver.py calls; each returns 0, success."""

    def __init__(self, capability: tuple[int, int] = (9, 0)) -> None:
        self.capability = capability
        self.recording = Recording()
        self.next = BASE
        self.sizes: dict[int, int] = {}  # by address
        self.images: list[str] = []  # PTX, by handle - 1
        self.kernels: list[tuple[int, str]] = []  # (image, name), by handle - 1
        self.texts: dict[int, int] = {}  # where an image is in the recording
        self.graphs: list[list[list[Any]]] = []
        self.captured: list[list[Any]] | None = None
        self.raised: set[int] = set()  # addresses of words that read as one
        self.cleared: set[int] = set()  # those that were set to zero since the last mark
        self.places: list[int] = []  # of the results: the first number of each read
        self.linked: Any = None

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"the recorder does not know {name}: add it to tools/gpu_record.py and to tools/gpu_launch.py"
        )

    def begin(self) -> Recording:
        """A new recording; what is allocated stays."""
        self.recording, self.texts = Recording(), {}
        for address, size in self.sizes.items():
            self.note("alloc", address, size)
        return self.recording

    def note(self, *call: Any) -> int:
        (self.recording.calls if self.captured is None else self.captured).append(list(call))
        return 0

    def mark(self, word: str) -> None:
        """A place in the recording, for the launcher's clock; what is read after "done" is a result."""
        self.cleared.clear()
        self.places = [0] if word == "done" else []
        self.note("mark", word)

    # --- what there is ------------------------------------------------------------------------
    def cuInit(self, flags: Any) -> int:
        return 0

    def cuDriverGetVersion(self, out: Any) -> int:
        target(out).value = VERSION
        return 0

    def cuDeviceGetCount(self, out: Any) -> int:
        target(out).value = 1
        return 0

    def cuDeviceGet(self, out: Any, k: Any) -> int:
        target(out).value = 0
        return 0

    def cuDeviceGetName(self, buffer: Any, size: int, handle: int) -> int:
        buffer.value = NAME
        return 0

    def cuDeviceGetAttribute(self, out: Any, which: int, handle: Any) -> int:
        major, minor = self.capability
        found = {cuda.CAPABILITY_MAJOR: major, cuda.CAPABILITY_MINOR: minor, **ATTRIBUTES}
        target(out).value = found[which]
        return 0

    def cuDevicePrimaryCtxRetain(self, out: Any, handle: Any) -> int:
        target(out).value = 1
        return 0

    def cuCtxSetCurrent(self, context: Any) -> int:
        return 0

    def cuStreamCreate(self, out: Any, flags: Any) -> int:
        target(out).value = 1
        return 0

    def cuStreamSynchronize(self, stream: Any) -> int:
        return 0

    # --- memory -------------------------------------------------------------------------------
    def cuMemGetInfo_v2(self, free: Any, whole_memory: Any) -> int:
        target(free).value = target(whole_memory).value = MEMORY
        return 0

    def cuMemAlloc_v2(self, out: Any, size: Any) -> int:
        target(out).value = at = self.next
        self.sizes[at] = whole(size)
        self.next += -(-whole(size) // ALIGNED) * ALIGNED + ALIGNED
        return self.note("alloc", at, whole(size))

    def cuMemFree_v2(self, address: Any) -> int:
        del self.sizes[whole(address)]
        return self.note("free", whole(address))

    def cuMemcpyHtoDAsync_v2(self, to: Any, source: Any, size: Any, stream: Any) -> int:
        self.recording.data.append(ctypes.string_at(source, whole(size)))
        self.raised.discard(whole(to))
        return self.note("upload", whole(to), whole(size), len(self.recording.data) - 1)

    def cuMemcpyDtoHAsync_v2(self, to: Any, source: Any, size: Any, stream: Any) -> int:
        n, at = whole(size), whole(source)
        ctypes.memset(to, 0, n)
        if at in self.raised:
            ctypes.memset(to, 1, 1)
            return 0  # a question, not a result
        if at in self.cleared and n <= FLAG:
            return 0
        if self.places:
            words = np.arange(self.places[-1], self.places[-1] + n // WORD, dtype=np.uint32)
            ctypes.memmove(to, words.ctypes.data, words.nbytes)
            self.places.append(self.places[-1] + n // WORD)
        return self.note("read", at, n)

    def pieces(self, results: Iterable[Any]) -> list[list[int]]:
        """(read, offset, bytes) of what arrays are made of, in their order."""
        out: list[list[int]] = []
        for a in results:
            words = np.ascontiguousarray(a).reshape(-1).view(np.uint32).astype(np.int64)
            cuts = [0, *(np.flatnonzero(np.diff(words) != 1) + 1).tolist(), len(words)]
            for begin, end in zip(cuts, cuts[1:]):
                read = int(np.searchsorted(self.places, words[begin], side="right")) - 1
                assert words[end - 1] < self.places[read + 1], "a result that was not read"
                out.append([read, int(words[begin] - self.places[read]) * WORD, (end - begin) * WORD])
        return out

    def cuMemcpyDtoDAsync_v2(self, to: Any, source: Any, size: Any, stream: Any) -> int:
        return self.note("copy", whole(to), whole(source), whole(size))

    def cuMemsetD8Async(self, to: Any, value: Any, size: Any, stream: Any) -> int:
        self.raised.discard(whole(to))
        self.cleared.add(whole(to))
        return self.note("fill", whole(to), whole(value), whole(size))

    # --- programs -----------------------------------------------------------------------------
    def cuLinkCreate_v2(self, count: Any, options: Any, values: Any, out: Any) -> int:
        target(out).value = 1
        return 0

    def cuLinkAddData_v2(self, state: Any, kind: Any, image: bytes, size: Any, *rest: Any) -> int:
        self.linked = ctypes.create_string_buffer(image)
        return 0

    def cuLinkComplete(self, state: Any, code: Any, size: Any) -> int:
        """The machine code of no machine is the text itself."""
        target(code).value, target(size).value = ctypes.addressof(self.linked), len(self.linked)
        return 0

    def cuLinkDestroy(self, state: Any) -> int:
        return 0

    def cuModuleLoadData(self, out: Any, image: bytes) -> int:
        self.images.append(image.rstrip(b"\0").decode())
        target(out).value = len(self.images)
        return 0

    def cuModuleUnload(self, handle: Any) -> int:
        return 0

    def cuModuleGetFunction(self, out: Any, module: Any, name: bytes) -> int:
        self.kernels.append((whole(module) - 1, name.decode()))
        target(out).value = len(self.kernels)
        return 0

    def cuFuncGetAttribute(self, out: Any, which: int, handle: Any) -> int:
        target(out).value = REGISTERS if which == cuda.REGISTERS else 0
        return 0

    def text(self, image: int) -> int:
        """Where a module is in the recording."""
        if image not in self.texts:
            self.texts[image] = len(self.recording.texts)
            self.recording.texts.append(self.images[image])
        return self.texts[image]

    def cuLaunchKernel(self, f: Any, *rest: Any) -> int:
        (bx, by, bz, tx, ty, tz, shared, _, pointers, _) = rest
        image, name = self.kernels[whole(f) - 1]
        kinds = parameters_of(self.images[image])[name]
        values = [
            ctypes.cast(p, ctypes.POINTER(SIZES[bits])).contents.value for p, bits in zip(pointers, kinds)
        ]
        if name == "any":
            self.raised.add(values[1])
        args = [["at", v] if bits == "64" and v >= BASE else [int(bits), v] for bits, v in zip(kinds, values)]
        return self.note("launch", self.text(image), name, [bx, by, bz], [tx, ty, tz], shared, args)

    # --- graphs and times ---------------------------------------------------------------------
    def cuStreamBeginCapture_v2(self, stream: Any, mode: Any) -> int:
        self.captured = []
        return 0

    def cuStreamEndCapture(self, stream: Any, out: Any) -> int:
        assert self.captured is not None
        self.graphs.append(self.captured)
        self.captured = None
        target(out).value = len(self.graphs)
        return 0

    def cuGraphInstantiateWithFlags(self, out: Any, graph: Any, flags: Any) -> int:
        target(out).value = whole(graph)
        return 0

    def cuGraphDestroy(self, graph: Any) -> int:
        return 0

    def cuGraphExecDestroy(self, graph: Any) -> int:
        return 0

    def cuGraphLaunch(self, graph: Any, stream: Any) -> int:
        for call in self.graphs[whole(graph) - 1]:  # the launcher has no graphs: the launches one by one
            self.note(*call)
        return 0

    def cuEventCreate(self, out: Any, flags: Any) -> int:
        target(out).value = 1
        return 0

    def cuEventRecord(self, event: Any, stream: Any) -> int:
        return 0

    def cuEventSynchronize(self, event: Any) -> int:
        return 0

    def cuEventElapsedTime(self, out: Any, begin: Any, end: Any) -> int:
        target(out).value = 1.0
        return 0

    def cuEventDestroy_v2(self, event: Any) -> int:
        return 0


def forget() -> None:
    """What this process knows of a driver and of engines on it."""
    backend.engine_for.cache_clear()
    device_arrays.tools.cache_clear()
    gc.collect()  # buffers go back to the device while it is there
    for f in (cuda.library, cuda.driver_version, cuda.opened):
        f.cache_clear()
    cuda._here = threading.local()


@contextlib.contextmanager
def recorder(capability: tuple[int, int] = (9, 0)) -> Iterator[Recorder]:
    """A driver in whose place nothing runs, until the end of the block."""
    forget()
    real, r = cuda.open_library, Recorder(capability)
    cuda.open_library = lambda: r  # type: ignore[assignment]
    try:
        yield r
    finally:
        forget()
        cuda.open_library = real
