"""Is this installation well?  What is here, what is missing, and the same run on every backend."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from tinyphysics import __version__
from tinyphysics.context import PROCESSOR, WEBGPU_ADAPTER
from tinyphysics.device.cache import directory
from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.host.cores import available
from tinyphysics.device.opencl import driver as opencl
from tinyphysics.device.wasm import driver as wasm
from tinyphysics.device.webgpu import driver as webgpu
from tinyphysics.errors import BackendError
from tinyphysics.physics.zoo import ZOO
from tinyphysics.runtime.api.compile import compile as compiled
from tinyphysics.runtime.engines.backend import ready
from tinyphysics.target import BUILT, TARGETS, WASM
from tinyphysics.util import plural

NOT_HERE = "not here: "
EXAMINED = BUILT | {WASM.backend: WASM}  # backends that are said to give the same bits


def versions(packages: Iterable[str]) -> str:
    def version(name: str) -> str:
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            return f"{name} absent"

    return ", ".join(map(version, packages))


def requirements() -> dict[str, list[str]]:
    """Packages by extra, "" for those always needed, as the installed metadata says."""
    try:
        lines = importlib.metadata.requires("tinyphysics") or []
    except importlib.metadata.PackageNotFoundError:
        return {"": ["numpy", "llvmlite", "rich"]}  # run from a source tree
    out: dict[str, list[str]] = {}
    for line in lines:
        extra = re.search(r"extra == ['\"](\w+)", line)
        name = re.match(r"[\w.-]+", line)
        assert name is not None
        out.setdefault(extra[1] if extra else "", []).append(name[0])
    return out


def cpu() -> str:
    try:
        # here and not above: the doctor also has to speak where llvmlite is broken
        from llvmlite import binding
    except ImportError as error:
        return f"unknown: {error}"
    has = binding.get_host_cpu_features()
    features = [f for f in ("sse4.2", "avx2", "fma", "avx512f", "neon", "sve") if has.get(f)]
    named = f"; code is made for {PROCESSOR.value}" if PROCESSOR.value else ""
    return f"{binding.get_host_cpu_name()}, {available()} cores usable; {' '.join(features) or 'no vector units'}{named}"


def cache() -> str:
    where = directory()
    if where is None:
        return "none: the directory is not writable, or is not yours alone; kernels are compiled in every process"
    state = "writable" if os.access(where, os.W_OK) else "NOT writable"
    return f"{where} ({state}, {plural(sum(1 for _ in where.iterdir()), 'file')})"


def adapters() -> list[str]:
    """WebGPU adapters, each with what it rounds."""
    try:
        every = webgpu.adapters()
    except BackendError:
        every = ()
    if not every:
        return webgpu.described()
    from tinyphysics.runtime.engines.webgpu import probed  # an extra

    out = []
    for k, line in enumerate(webgpu.described()):
        with WEBGPU_ADAPTER(k):
            try:
                out.append(f"{line}: {probed()}")
            except BackendError as error:
                out.append(f"{line}: {error.what}")
    return out


def self_test() -> dict[str, str]:
    """The hash of one short run, by backend; or what is missing, or what went wrong."""
    d, out = ZOO["kepler"], {}
    for backend in EXAMINED:
        try:
            ready(backend)
        except BackendError as error:  # an extra that is not installed
            out[backend] = f"{NOT_HERE}{error.what}"
            continue
        try:
            out[backend] = (
                compiled(d.system, d.dt, backend=backend).evolve(**d.start, steps=100, frames=2).hash
            )
        except Exception as error:  # whatever it is, the doctor reports it and goes on
            out[backend] = f"FAILED: {type(error).__name__}: {error}"
    return out


def examine() -> int:
    """Prints what is here and tries every backend; 1 if anything is wrong."""
    needed = requirements()
    compilers = [
        f"{c} {'present' if shutil.which(c) else 'absent'}" for c in ("cc", "gcc", "clang", "zig", "nvcc")
    ]
    rows = [
        ("tinyphysics", f"{__version__}, {Path(__file__).parent}"),
        ("python", f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"),
        ("platform", platform.platform()),
        ("cpu", cpu()),
        ("packages", versions(needed.pop(""))),
        *((f"extra {name}", versions(packages)) for name, packages in needed.items()),
        ("compilers", ", ".join(compilers)),
        ("opencl", opencl.described()),
        ("cuda", cuda.described()),
        ("wasm", wasm.described()),
        ("cache", cache()),
        *(("webgpu", line) for line in adapters()),
        ("backends", ", ".join(TARGETS)),
    ]
    if not needed:
        rows.insert(5, ("extras", "unknown: this copy is not installed (pip install -e .)"))
    for name, value in rows:
        print(f"{name.ljust(14)} {value}")
    hashes = self_test()
    print("self-test: kepler, 100 steps on each backend")
    for backend, told in hashes.items():
        print(f"  {backend.ljust(12)} {told}")
    here = {backend: told for backend, told in hashes.items() if not told.startswith(NOT_HERE)}
    exact = {told for backend, told in here.items() if EXAMINED[backend].bit_exact}
    well = len(exact) == 1 and not any(told.startswith("FAILED") for told in hashes.values())
    every = "every backend" if len(here) == len(hashes) else "every backend that is here"
    print(f"  {every} gives the same bits" if well else "  NOT well: these should be one hash")
    return 0 if well else 1
