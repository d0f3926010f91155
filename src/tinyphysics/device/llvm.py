"""From LLVM IR text to a function that can be called: code generation without passes, objects cached."""
from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tinyphysics.device import cache
from tinyphysics.util import digest

SIGNATURE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 6, *[ctypes.c_int64] * 6)
OPTIMISATION = 2  # of code generation; 0 makes slow code, 3 the same code

_lock = threading.Lock()  # LLVM's global state
_ready = False


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

    @property
    def has_fma(self) -> bool:
        return not self.x86 or "+fma" in self.features.split(",")


@functools.cache  # asking takes milliseconds
def host_cpu() -> Cpu:
    with _lock:
        ll = binding()
        return Cpu(ll.get_host_cpu_name(), ll.get_host_cpu_features().flatten(), ll.get_process_triple())


def target_machine(ll: Any, cpu: Cpu) -> Any:
    target = ll.Target.from_triple(cpu.triple)
    return target.create_target_machine(cpu=cpu.name, features=cpu.features, opt=OPTIMISATION, jit=True)


def compile_text(text: str, names: Sequence[str], cpu: Cpu) -> list[Any]:
    """Functions of a module, by name; its object comes from the cache if it was made before."""
    with _lock:
        ll = binding()
        version = ".".join(map(str, ll.llvm_version_info))
        key = digest("\n".join([text, version, cpu.name, cpu.features]).encode()) + ".o"
        stored = cache.read(key)
        if stored is None:
            stored = target_machine(ll, cpu).emit_object(ll.parse_assembly(text))
            cache.write(key, stored)
        engine = ll.create_mcjit_compiler(ll.parse_assembly("", None), target_machine(ll, cpu))
        engine.add_object_file(ll.ObjectFileRef.from_data(stored))
        engine.finalize_object()
        functions: list[Any] = [SIGNATURE(engine.get_function_address(name)) for name in names]
        for f in functions:
            f.engine = engine  # the code lives as long as a function that points into it
        return functions


def assembly(text: str, cpu: Cpu) -> str:
    with _lock:
        ll = binding()
        out: str = target_machine(ll, cpu).emit_assembly(ll.parse_assembly(text))
        return out
