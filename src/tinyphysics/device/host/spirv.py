"""From LLVM IR to a SPIR-V module, in a process of its own: LLVM's generator ends the process at what it does not know.

>>> list(results(struct.pack("<9I", 0, 0, 0, 0, 0, 2 << 16 | LABEL, 7, 1 << 16 | 253, 2 << 16 | 17) + bytes(4)))
[7]
"""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Iterator

from tinyphysics.device import cache
from tinyphysics.device.host import llvm
from tinyphysics.errors import PlanError
from tinyphysics.util import digest

VERSION = 1
SECONDS = 60
MAGIC = b"\x03\x02\x23\x07"
CHILD = """
import sys
from llvmlite import binding as ll
ll.initialize_all_targets(); ll.initialize_all_asmprinters()
m = ll.parse_assembly(sys.stdin.read()); m.verify()
sys.stdout.buffer.write(ll.Target.from_triple(m.triple).create_target_machine(opt=2).emit_object(m))
"""
LABEL, HEAD = 248, 5  # words before the first instruction
ALONE = {7, 11, *range(19, 39), LABEL}  # instructions whose first word is the number of their result
WITHOUT = {
    0, *range(3, 7), 8, 10, *range(14, 18), 39, 56, 62, 63, 64, 71, 72, 74, 75, 224, 225, 246, 247, *range(249, 258), 317,
}  # fmt: skip


def binary(text: str) -> bytes:
    """The module of LLVM IR; a PlanError where LLVM does not write a valid one."""
    key = digest("\n".join([text, llvm.llvm_version(), str(VERSION)]).encode()) + ".spv"
    if (kept := cache.read(key)) is not None:
        return kept
    ran = subprocess.run(
        [sys.executable, "-c", CHILD], input=text.encode(), capture_output=True, timeout=SECONDS, check=False
    )
    code = ran.stdout
    if ran.returncode or not code.startswith(MAGIC):
        told = (ran.stderr.decode(errors="replace").strip().splitlines() or ["it ended without a word"])[-1]
        refuse(told[:200])
    found = list(results(code))
    if len(set(found)) < len(found):
        refuse("it gives two results one number")
    cache.write(key, code)
    return code


def results(code: bytes) -> Iterator[int]:
    """The numbers of what its instructions give: a module is valid if all differ."""
    words = struct.unpack(f"<{len(code) // 4}I", code)
    at = HEAD
    while at < len(words):
        size, op = words[at] >> 16, words[at] & 0xFFFF
        if op not in WITHOUT and size > 1:
            yield words[at + (1 if op in ALONE else 2)]
        at += max(size, 1)


def refuse(why: str) -> None:
    raise PlanError(
        f"LLVM's generator does not write this kernel as SPIR-V: {why}",
        fix='Take it as sim.kernel("opencl"), which is the same kernel as text.',
    )
