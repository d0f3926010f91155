"""WebGPU adapters of this machine, reached through wgpu: the only file that imports it.

A call goes on for as long as it has to, in dispatches that are short: drivers end what takes a second or two. How many steps
one of them has is found by measuring, and changes no bit.
"""

from __future__ import annotations

import os
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

from tinyphysics.context import WEBGPU_ADAPTER
from tinyphysics.device import cache
from tinyphysics.device.webgpu.probe import OURS, OWN, VERSION, Probe, every_switch, judged, triples
from tinyphysics.errors import BackendError
from tinyphysics.util import digest, plural

INSTALL = 'pip install "tinyphysics[webgpu]"'
GROUP = 64  # calls side by side: the workgroup_size of the text
MOST = 65_535 * GROUP  # members of a dispatch
SHORT, LONG = (
    0.02,
    0.08,
)  # seconds: a dispatch that takes less has twice as many steps next time, or half as many
FIRST = 1e6  # operations of the first dispatch
KINDS = ("DiscreteGPU", "IntegratedGPU", "CPU", "Unknown")  # in the order in which they are taken
Array = Any


@lru_cache(maxsize=1)
def wgpu() -> Any:
    try:
        return import_module("wgpu")
    except ImportError:
        raise BackendError("the backend `webgpu` needs wgpu", fix=INSTALL) from None


@dataclass(frozen=True)
class AdapterInfo:
    """One adapter, in words and as it is."""

    name: str
    backend: str  # Vulkan, Metal, D3D12, OpenGL
    kind: str
    adapter: Any

    def __str__(self) -> str:
        return f"{self.name} through {self.backend}"


@contextmanager
def a_runtime_folder() -> Iterator[None]:
    """Without a desktop, drivers of Mesa write errors of their own while they look for its folder."""
    name, there = "XDG_RUNTIME_DIR", "XDG_RUNTIME_DIR" in os.environ
    if not there:
        os.environ[name] = tempfile.gettempdir()
    try:
        yield
    finally:
        if not there:
            del os.environ[name]


@lru_cache(maxsize=1)
def adapters() -> tuple[AdapterInfo, ...]:
    """Every adapter: graphics processors before emulations, and OpenGL after the others."""
    found = []
    with a_runtime_folder():
        every = wgpu().gpu.enumerate_adapters_sync()
    for a in every:
        info = a.info
        found.append(AdapterInfo(info["device"] or "unnamed", info["backend_type"], info["adapter_type"], a))
    place = {kind: k for k, kind in enumerate(KINDS)}
    found.sort(key=lambda f: (f.backend == "OpenGL", place.get(f.kind, len(KINDS))))
    return tuple(found)


def chosen(number: int) -> AdapterInfo:
    every = adapters()
    if not every:
        raise BackendError(
            "wgpu is installed, but finds no WebGPU adapter",
            fix="A driver for Vulkan is one; Mesa's `lavapipe` (mesa-vulkan-drivers) needs no graphics processor.",
        )
    if not 0 <= number < len(every):
        raise BackendError(
            f"there is no WebGPU adapter {number} (TINYPHYSICS_WEBGPU_ADAPTER)",
            fix=f"Adapters are numbered from 0; there {'is' if len(every) == 1 else 'are'} "
            f"{plural(len(every), 'adapter')}: see tp doctor.",
        )
    return every[number]


class Machine:
    """An adapter that is open; one dispatch at a time."""

    def __init__(self, info: AdapterInfo) -> None:
        w = wgpu()
        self.info, self.lock = info, threading.RLock()
        try:
            self.device = info.adapter.request_device_sync()
        except Exception as error:
            raise BackendError(f"`{info}` could not be opened: {first_line(error)}") from error
        stage = w.ShaderStage.COMPUTE
        kinds = ["read-only-storage", "storage", *["read-only-storage"] * 3, "storage", "uniform"]
        self.layout = self.device.create_bind_group_layout(
            entries=[
                {"binding": k, "visibility": stage, "buffer": {"type": kind}} for k, kind in enumerate(kinds)
            ]
        )
        self.pipeline_layout = self.device.create_pipeline_layout(bind_group_layouts=[self.layout])
        self._probe: Probe | None = None
        self.done_here = 0  # blocks of members that were done by the processor instead
        self.off = 0.0  # by how much first blocks were off, where no bits are claimed

    def module(self, code: str | bytes, label: str = "") -> Any:
        try:
            return self.device.create_shader_module(code=code, label=label)
        except Exception as error:
            raise BackendError(f"`{self.info}` did not take the kernel: {first_line(error)}") from error

    def pipeline(self, module: Any, entry: str, switches: dict[str, bool]) -> Any:
        stage = {
            "module": module,
            "entry_point": entry,
            "constants": {k: int(v) for k, v in switches.items()},
        }
        try:
            return self.device.create_compute_pipeline(layout=self.pipeline_layout, compute=stage)
        except Exception as error:
            raise BackendError(f"`{self.info}` did not build the kernel: {first_line(error)}") from error

    def buffer(self, a: Array | int) -> Any:
        """A copy of an array there, or so many bytes of nothing; never empty, which a binding cannot be."""
        u = wgpu().BufferUsage
        usage = u.STORAGE | u.COPY_SRC | u.COPY_DST
        if isinstance(a, int):
            return self.device.create_buffer(size=max(a, 4), usage=usage)
        if not a.size:
            return self.device.create_buffer(size=4, usage=usage)
        return self.device.create_buffer_with_data(data=np.ascontiguousarray(a), usage=usage)

    def back(self, buffer: Any, like: Array) -> Array:
        if not like.size:
            return like.copy()
        return np.frombuffer(self.device.queue.read_buffer(buffer), like.dtype).reshape(like.shape)

    def dispatch(self, pipeline: Any, buffers: Sequence[Any], call: Sequence[int], members: int) -> None:
        """One dispatch, which is over when this returns."""
        w = wgpu()
        numbers = self.device.create_buffer_with_data(
            data=struct.pack("<8I", *call, *[0] * (8 - len(call))), usage=w.BufferUsage.UNIFORM
        )
        entries = [
            {"binding": k, "resource": {"buffer": b, "offset": 0, "size": b.size}}
            for k, b in enumerate((*buffers, numbers))
        ]
        group = self.device.create_bind_group(layout=self.layout, entries=entries)
        encoder = self.device.create_command_encoder()
        one = encoder.begin_compute_pass()
        one.set_pipeline(pipeline)
        one.set_bind_group(0, group)
        one.dispatch_workgroups(-(-members // GROUP))
        one.end()
        self.device.queue.submit([encoder.finish()])
        self.device.queue.read_buffer(buffers[-1], 0, 4)  # which is there when the dispatch is over

    def probe(self, text: str, second: Callable[[dict[str, bool]], str]) -> Probe:
        """What it rounds: found out once, by its own operations, then by what stands for those that are wrong."""
        with self.lock:
            if self._probe is None:
                told = " ".join(f"{k}={v}" for k, v in sorted(dict(self.info.adapter.info).items()))
                every = [text, *(second(s) for s in every_switch()), told, version("wgpu"), str(VERSION)]
                key = digest("\n".join(every).encode()) + ".adapter"
                self._probe = Probe.read(cache.read(key)) or self.probed(text, second)
                cache.write(key, self._probe.written())
            return self._probe

    def probed(self, text: str, second: Callable[[dict[str, bool]], str]) -> Probe:
        first = self.asked(text, OWN)
        again = self.asked(second(first.switches), OURS)
        return replace(first, wrong=first.wrong | again.wrong, subnormal=first.subnormal | again.subnormal)

    def asked(self, text: str, rows: Sequence[str]) -> Probe:
        given = triples()
        n = given.shape[1]
        out, marks = np.zeros((len(rows), n), np.float32), np.zeros(n, np.uint32)
        there, seen, none = self.buffer(out), self.buffer(marks), self.buffer(0)
        buffers = [self.buffer(given), there, none, none, none, seen]
        self.dispatch(self.pipeline(self.module(text), "probe", {}), buffers, (0, n, n, 1, 0), n)
        return judged(given, rows, self.back(there, out), self.back(seen, marks))


_open: dict[int, Machine] = {}
_opening = threading.Lock()


def machine() -> Machine:
    """The adapter that kernels of this process are built for."""
    number = WEBGPU_ADAPTER.value
    with _opening:
        if number not in _open:
            _open[number] = Machine(chosen(number))
        return _open[number]


def described() -> list[str]:
    """For people: the adapters that are here, or what is missing; never an error."""
    try:
        every = adapters()
        told = f"wgpu {version('wgpu')}"
        return [f"{told}: {a}" for a in every] or [f"none: {told} finds no adapter"]
    except BackendError as error:
        return [f"none: {error.what}"]


def first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:400]


# --- sections ---------------------------------------------------------------------------------------
class OnMembers:
    """The kernel of a section as a function of arrays: their columns from `begin` to `end` go there and come back.

    `handed(uniform, varying, first, steps)` gives the words that are computed before: for all, each member, each step.
    """

    def __init__(
        self,
        m: Machine,
        pipeline: Any,
        handed: Callable[[Array, Array, int, int], tuple[Array, Array, Array]],
        operations: int,
        loops: bool,
        most: int = 1 << 24,  # steps of a dispatch
    ) -> None:
        self.m, self.pipeline, self.handed, self.loops = m, pipeline, handed, loops
        self.operations, self.most = max(operations, 1), most
        self.at_once: dict[int, int] = {}  # steps of a dispatch, by the members that it has

    def steps_for(self, members: int) -> int:
        first = max(1, int(FIRST / (self.operations * members)))
        return self.at_once.setdefault(members, min(first, self.most))

    def __call__(
        self, source: Array, out: Array, uniform: Array, varying: Array, flags: Array, series: Array,
        begin: int, end: int, members: int, first: int, rows: int, stride: int,
    ) -> None:  # fmt: skip
        for at in range(begin, end, MOST):
            here = slice(at, min(at + MOST, end))
            try:
                self.part(source, out, uniform, varying, flags, here, first, rows)
            except Exception as error:  # of the driver: an adapter that is lost, memory that is not there
                raise BackendError(f"`{self.m.info}` failed: {first_line(error)}") from error

    def part(
        self, source: Array, out: Array, uniform: Array, varying: Array, flags: Array, here: slice,
        first: int, steps: int,
    ) -> None:  # fmt: skip
        count = here.stop - here.start
        own = None if varying is None else varying[:, here]
        given, raised = np.ascontiguousarray(source[:, here]), np.zeros(count, np.uint32)
        into = np.empty((len(out), count), out.dtype)
        with self.m.lock:
            a, b, seen = self.m.buffer(given), self.m.buffer(into.nbytes), self.m.buffer(raised)
            done, steps = 0, steps if self.loops else 1
            if not steps:
                a, b = b, a
            while done < steps:
                n = min(self.steps_for(count), steps - done)
                words = [self.m.buffer(w) for w in self.handed(uniform, own, first + done, n)]
                began = time.perf_counter()
                self.m.dispatch(self.pipeline, [a, b, *words, seen], (0, count, count, n, 0), count)
                self.learn(count, n, time.perf_counter() - began)
                done += n
                if done < steps:
                    a, b = b, a
            result, marks = self.m.back(b, into), self.m.back(seen, raised)
        well = marks == 0
        flags[here] = marks
        if well.all():
            out[:, here] = result
        else:
            out[:, here][:, well] = result[:, well]

    def learn(self, members: int, n: int, seconds: float) -> None:
        known = self.at_once[members]
        if seconds > LONG:
            self.at_once[members] = max(1, known // 2)
        elif seconds < SHORT and n == known:
            self.at_once[members] = min(2 * known, self.most)
