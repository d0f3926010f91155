"""The C backend: sections compiled by the C compiler that is there, loaded as a shared library."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache as once
from importlib.util import find_spec
from pathlib import Path

from tinyphysics.context import C_LEVEL, PROCESSOR
from tinyphysics.device import cache
from tinyphysics.device.host.processor import processor, runs
from tinyphysics.errors import BackendError
from tinyphysics.util import digest

NATIVE, LEVEL = "-march=native", "-O3"
# contraction off, integers that wrap, and nothing that would let the compiler reorder a sum; where gcc 12 makes vectors of
# single numbers with AVX2, it takes (double)(float)x for x, and loops over lanes do not need that; where gcc 13 computes
# the end of a loop from its beginning, b += s with s += 1 of int64 comes out wrong
FLAGS = (
    LEVEL,
    NATIVE,
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-math-errno",
    "-fno-tree-slp-vectorize",
    "-fno-tree-scev-cprop",
    "-std=c11",
    "-shared",
    "-fPIC",
)
NAMES = ("cc", "gcc", "clang")
OTHER = "Try another compiler: CC=gcc."


@once
def compiler() -> tuple[str, ...]:
    """The command of a C compiler: $CC, cc, gcc, clang, or the ziglang wheel."""
    given = os.environ.get("CC")
    for name in ([given] if given else []) + list(NAMES):
        if (path := shutil.which(name)) is not None:
            return (path,)
    if find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "cc")
    raise BackendError("there is no C compiler", fix="Install gcc or clang, or pip install tinyphysics[c].")


def build(source: str, flags: Sequence[str] = FLAGS, *, march: str | None = None) -> bytes:
    """The shared library of a C source, from the cache if it was built before; `march` as `for_processor` gives it."""
    asked = {NATIVE: march or for_processor(), LEVEL: f"-O{C_LEVEL.value}"}
    flags = [asked.get(f, f) for f in flags]
    key = digest("\n".join([source, *compiler(), *flags, version(), machine()]).encode()) + ".so"
    if (stored := cache.read(key)) is not None:
        return stored
    with tempfile.TemporaryDirectory() as folder:
        body = compiled(source, flags, Path(folder, "kernel.so")).read_bytes()
    cache.write(key, body)
    return body


def executable(source: str, target: Path, static: bool) -> None:
    """A complete C program as a file that runs by itself; static: it needs no library of the machine that it runs on."""
    flags = ["-O2", for_processor(), *FLAGS[2:-2], *(["-static"] if static else [])]
    fix = OTHER
    if static:
        fix = "Static libraries may be missing: install libc6-dev or glibc-static, or leave --static out."
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        os.replace(compiled(source, flags, Path(folder, "program"), fix), target)


def compiled(source: str, flags: Sequence[str], made: Path, fix: str = OTHER) -> Path:
    """The file that a C source was compiled to, with the source beside it."""
    command, file = compiler(), made.with_suffix(".c")
    file.write_text(source)
    try:
        done = subprocess.run(
            [*command, *flags, str(file), "-o", str(made), "-lm"], capture_output=True, text=True, timeout=600
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BackendError(f"`{command[0]}` could not be run: {error}") from error
    if done.returncode or not made.exists():
        raise BackendError(f"`{command[0]}` failed: {done.stderr.strip()[:600]}", fix=fix)
    return made


def for_processor() -> str:
    """The option for the processor that code is made for now."""
    if not PROCESSOR.value:
        return NATIVE
    runs(processor())
    zig = compiler()[1:] != ()  # which writes x86_64_v3
    return f"-march={PROCESSOR.value.replace('-', '_') if zig else PROCESSOR.value}"


@once
def version() -> str:
    try:
        return subprocess.run([*compiler(), "--version"], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BackendError(f"`{compiler()[0]}` could not be run: {error}") from error


@once
def machine() -> str:
    """What -march=native means here: a library built on another processor must not be loaded."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        import platform

        return platform.machine() + platform.processor()
    return next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), "")


def load_library(body: bytes) -> ctypes.CDLL:
    with tempfile.NamedTemporaryFile(suffix=".so", delete=False) as file:
        file.write(body)
    try:
        return ctypes.CDLL(file.name)
    except OSError as error:
        raise BackendError(f"the compiled kernel could not be loaded: {error}") from error
    finally:
        os.unlink(file.name)  # the library stays mapped
