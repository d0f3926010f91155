"""From LLVM IR text to a function that can be called: code generation without passes, objects cached."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from tinyphysics.device import cache
from tinyphysics.device.host.interruptible import interruptible
from tinyphysics.util import digest

SIGNATURE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 6, *[ctypes.c_int64] * 6)
OPTIMISATION = 2  # of code generation; 3 makes the same code
LONG = 50_000  # characters of a module that takes tenths of a second and more
QUICK = 0  # slow code, five times sooner

_lock = threading.Lock()  # LLVM's global state
_ready = False
_count = itertools.count()  # of libraries: each has a name of its own


def binding() -> Any:
    """llvmlite, loaded when it is first used."""
    global _ready
    import llvmlite.binding as ll

    if not _ready:
        ll.initialize_native_target()
        ll.initialize_native_asmprinter()
        _ready = True
    return ll


@dataclass(frozen=True)
class Cpu:
    name: str
    features: str
    triple: str

    @property
    def x86(self) -> bool:
        return self.triple.startswith(("x86_64", "i686"))

    @property
    def width(self) -> int:
        """Doubles in a vector register."""
        on = self.features.split(",")
        return 8 if "+avx512f" in on else 4 if "+avx" in on else 2

    @cached_property
    def has_fma(self) -> bool:
        return not self.x86 or "+fma" in self.features.split(",")


@lru_cache(maxsize=1)  # asking takes milliseconds
def host_cpu() -> Cpu:
    """The processor that this process runs on; what code is made for, device/host/processor.py says."""
    with _lock:
        ll = binding()
        return Cpu(ll.get_host_cpu_name(), ll.get_host_cpu_features().flatten(), ll.get_process_triple())


@lru_cache(maxsize=1)
def llvm_version() -> str:
    return ".".join(map(str, binding().llvm_version_info))


@lru_cache(maxsize=8)
def target_machine(ll: Any, cpu: Cpu, level: int = OPTIMISATION) -> Any:
    if cpu.triple != ll.get_process_triple():  # of another kind, whose text is looked at
        ll.initialize_all_targets()
        ll.initialize_all_asmprinters()
    target = ll.Target.from_triple(cpu.triple)
    return target.create_target_machine(cpu=cpu.name, features=cpu.features, opt=level, jit=True)


@lru_cache(maxsize=1)
def linker(ll: Any) -> Any:
    """One for the process: with one of its own, every object would be linked four times as slowly."""
    target = ll.Target.from_triple(ll.get_process_triple())
    return ll.create_lljit_compiler(target.create_target_machine(jit=True))


def object_name(text: str, cpu: Cpu, level: int = OPTIMISATION) -> str:
    """The name of a module's object in the cache."""
    return digest("\n".join([text, llvm_version(), cpu.name, cpu.features, str(level)]).encode()) + ".o"


def compile_text(text: str, cpu: Cpu, level: int = OPTIMISATION) -> bytes:
    """The object of a module; Ctrl-C ends a long one."""

    def compiled() -> bytes:
        with _lock:
            ll = binding()
            out: bytes = target_machine(ll, cpu, level).emit_object(ll.parse_assembly(text))
            return out

    return interruptible(compiled) if len(text) > LONG else compiled()


def link(code: bytes, signatures: Mapping[str, Any]) -> dict[str, Any]:
    """The functions of an object, by name."""
    with _lock:
        ll = binding()
        library = ll.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in signatures:
            library.export_symbol(name)
        tracker = library.link(linker(ll), f"library{next(_count)}")
        functions: dict[str, Any] = {name: signature(tracker[name]) for name, signature in signatures.items()}
        for f in functions.values():
            f.library = tracker  # the code lives as long as a function that points into it
        return functions


def stored(name: str, text: str, cpu: Cpu, level: int = OPTIMISATION) -> tuple[bytes, bool]:
    """(the object of a module, whether it was made before and came from the cache)."""
    code = cache.read(name)
    if code is not None:
        return code, True
    code = compile_text(text, cpu, level)
    cache.write(name, code)
    return code, False


def assembly(text: str, cpu: Cpu) -> str:
    with _lock:
        ll = binding()
        out: str = target_machine(ll, cpu).emit_assembly(ll.parse_assembly(text))
        return out
