"""From LLVM IR to PTX, the text that NVIDIA's driver assembles; kept by content: a machine without LLVM can use it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from tinyphysics.device import cache
from tinyphysics.device.host import llvm
from tinyphysics.errors import BackendError
from tinyphysics.util import digest

VERSION = 1  # of how PTX is made here; with another, what was kept is made again
DEFAULT = (9, 0)  # of texts that are only looked at
CARRY = "Install llvmlite; or make the PTX elsewhere (tools/gpu_bundle.py) and let TINYPHYSICS_CACHE name the folder."
NAME = re.compile("[0-9a-f]+[.]ptx")  # of a text in the cache
_ready = False


def processor(capability: tuple[int, int]) -> str:
    """The newest that this LLVM knows and the device runs: PTX of an older one runs on all later ones."""
    known = [(7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0)]
    major, minor = max(c for c in known if c <= capability)
    return f"sm_{major}{minor}"


@lru_cache(maxsize=4)
def target_machine(ll: Any, name: str) -> Any:
    global _ready
    if not _ready:
        ll.initialize_all_targets()
        ll.initialize_all_asmprinters()
        _ready = True
    return ll.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(
        cpu=name, features="+ptx78", opt=3
    )


def parsed(ll: Any, text: str) -> Any:
    """A module that is known to be well formed: of one that is not, code generation ends the process."""
    module = ll.parse_assembly(text)
    module.verify()
    return module


def compiled(text: str, capability: tuple[int, int] = DEFAULT) -> str:
    with llvm._lock:
        try:
            ll = llvm.binding()
        except ImportError as error:
            raise BackendError(
                "the PTX of this kernel is not in the cache, and LLVM, which would generate it, is not installed",
                fix=CARRY,
            ) from error
        out: str = target_machine(ll, processor(capability)).emit_assembly(parsed(ll, text))
        return out


def key_of(text: str, capability: tuple[int, int]) -> str:
    """The name of a module's PTX in the cache."""
    return digest(f"{text}\n{processor(capability)} {VERSION}".encode()) + ".ptx"


def ptx(text: str, capability: tuple[int, int] = DEFAULT) -> tuple[str, bool]:
    """(the PTX of a module, whether it was made before and kept)."""
    key = key_of(text, capability)
    kept = cache.read(key)
    if kept is not None:
        return kept.decode(), True
    made = compiled(text, capability)
    cache.write(key, made.encode())
    return made, False
