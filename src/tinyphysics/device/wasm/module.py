"""From LLVM IR to a WebAssembly module: code generation, and an export section in place of a linker.

An object of functions that call only each other needs no linker: the numbers of its functions are final. What is left is to
say which of them can be called, and to leave out what is for linkers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from tinyphysics.device import cache
from tinyphysics.device.host import llvm
from tinyphysics.util import digest

VERSION = 1  # of how modules are made here; with another, what was kept is made again
TRIPLE = "wasm32-unknown-unknown"
HEAD = b"\0asm\1\0\0\0"
CUSTOM, IMPORT, EXPORT, CODE = 0, 2, 7, 10
FUNCTION, TABLE, GLOBAL, OTHER = 0, 5, 2, 4  # kinds of symbols that have a number
DATA, SECTION = 1, 3
SYMBOLS, UNDEFINED = 8, 0x10
MEMORY, STACK = "__linear_memory", "__stack_pointer"
FINAL = (0, 6, 7)  # relocations by the number of a function, a type, a global: these are final
_ready = False


@lru_cache(maxsize=1)
def target_machine(ll: Any) -> Any:
    global _ready
    if not _ready:
        ll.initialize_all_targets()
        ll.initialize_all_asmprinters()
        _ready = True
    return ll.Target.from_triple(TRIPLE).create_target_machine(opt=llvm.OPTIMISATION)


def parsed(ll: Any, text: str) -> Any:
    module = ll.parse_assembly(f'target triple = "{TRIPLE}"\n{text}')
    module.verify()
    return module


def binary(text: str, exported: Sequence[str]) -> tuple[bytes, bool]:
    """(the module of LLVM IR with some of its functions exported, whether it was made before and kept)."""
    key = digest("\n".join([text, *exported, llvm.llvm_version(), str(VERSION)]).encode()) + ".wasm"
    kept = cache.read(key)
    if kept is not None:
        return kept, True
    with llvm._lock:
        ll = llvm.binding()
        made: bytes = target_machine(ll).emit_object(parsed(ll, text))
    out = linked(made, exported)
    cache.write(key, out)
    return out, False


def assembly(text: str) -> str:
    """The instructions of a module, as LLVM writes them."""
    with llvm._lock:
        ll = llvm.binding()
        out: str = target_machine(ll).emit_assembly(parsed(ll, text))
    return out.partition("\t.section\t.custom_section.target_features")[0].rstrip() + "\n"


def linked(code: bytes, exported: Sequence[str]) -> bytes:
    """An object without what is for linkers, its functions exported by name."""
    assert code.startswith(HEAD), "LLVM made no WebAssembly"
    out, numbers, done = [HEAD], {}, False
    sections = list(parts(code))
    for kind, body in sections:
        if kind == CUSTOM:
            name, rest = name_of(body)
            if name == "linking":
                numbers = functions(rest)
            assert not name.startswith("reloc.") or is_final(rest), "an address that only a linker knows"
    missing = [name for name in exported if name not in numbers]
    assert not missing, f"functions that are not there: {missing}"
    table = section(EXPORT, vector([text(n) + bytes([FUNCTION]) + leb(numbers[n]) for n in exported]))
    for kind, body in sections:
        if kind == CUSTOM:
            continue
        if not done and kind > EXPORT:
            out.append(table)
            done = True
        out.append(section(kind, body))
    return b"".join(out)


def imports(code: bytes) -> list[str]:
    """What a module has to be given, by name."""
    for kind, body in parts(code):
        if kind != IMPORT:
            continue
        found, (count, at) = [], number(body, 0)
        for _ in range(count):
            _, at = string(body, at)
            name, at = string(body, at)
            found.append(name)
            at = after_import(body, at)
        return found
    return []


def after_import(body: bytes, at: int) -> int:
    kind, at = body[at], at + 1
    if kind == 0:  # a function, by its type
        return number(body, at)[1]
    if kind == 3:  # a global: a type, and whether it changes
        return at + 2
    if kind == 1:  # a table: what is in it, then its limits
        at += 1
    limited, at = body[at], at + 1
    for _ in range(1 + limited % 2):
        _, at = number(body, at)
    return at


def functions(body: bytes) -> dict[str, int]:
    """The functions that an object defines, from the section for linkers: their numbers by name."""
    found: dict[str, int] = {}
    _, at = number(body, 0)
    while at < len(body):
        kind, size = body[at], number(body, at + 1)
        at, end = size[1], size[0] + size[1]
        if kind == SYMBOLS:
            count, at = number(body, at)
            for _ in range(count):
                what, (flags, at) = body[at], number(body, at + 1)
                assert what in (FUNCTION, GLOBAL, OTHER, TABLE), "data, which only a linker can place"
                index, at = number(body, at)
                if not flags & UNDEFINED or flags & 0x40:  # it has a name of its own here
                    name, at = string(body, at)
                    if what == FUNCTION and not flags & UNDEFINED:
                        found[name] = index
        at = end
    return found


def is_final(body: bytes) -> bool:
    """Are all relocations of a section by numbers that are final?"""
    _, at = number(body, 0)
    count, at = number(body, at)
    for _ in range(count):
        if body[at] not in FINAL:
            return False
        _, at = number(body, at + 1)
        _, at = number(body, at)
    return True


# --- the binary format -----------------------------------------------------------------------------
def parts(code: bytes) -> Iterator[tuple[int, bytes]]:
    at = len(HEAD)
    while at < len(code):
        kind, (size, begin) = code[at], number(code, at + 1)
        yield kind, code[begin : begin + size]
        at = begin + size


def number(body: bytes, at: int) -> tuple[int, int]:
    """(a whole number in groups of seven bits, where it ends)."""
    out = shift = 0
    while True:
        byte = body[at]
        out, at, shift = out | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return out, at


def string(body: bytes, at: int) -> tuple[str, int]:
    size, at = number(body, at)
    return body[at : at + size].decode(), at + size


def name_of(body: bytes) -> tuple[str, bytes]:
    name, at = string(body, 0)
    return name, body[at:]


def leb(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


def text(name: str) -> bytes:
    return leb(len(name.encode())) + name.encode()


def vector(items: Sequence[bytes]) -> bytes:
    return leb(len(items)) + b"".join(items)


def section(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + leb(len(body)) + body
