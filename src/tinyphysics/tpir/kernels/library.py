"""Which products of a program does a library do on a backend, in loops?"""

from __future__ import annotations

from tinyphysics.tpir.kernels.index import Unsupported
from tinyphysics.tpir.kernels.kinds.call import CALL, LEAST, LibraryProduct
from tinyphysics.tpir.kernels.loops import build_loops
from tinyphysics.tpir.program.isa import Program


def handed_over(program: Program, backend: str) -> list[LibraryProduct]:
    """Each once: careful sections say them again."""
    if program.math != "fast" or backend not in LEAST:
        return []
    try:
        kernel = CALL.for_backend(build_loops(program), backend)
    except Unsupported:
        return []
    found: list[LibraryProduct] = [n.detail for n in kernel.called.values() if n.way is CALL]
    return list({(p.left, p.right, p.into): p for p in found}.values())
