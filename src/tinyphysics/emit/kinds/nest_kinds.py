"""How is a nest written in LLVM IR that is not in LoopIR?  Sums over pairs, of all points or of neighbours."""

from __future__ import annotations

from tinyphysics.emit.kinds.nest_near import near
from tinyphysics.emit.kinds.nest_pairs import pairs
from tinyphysics.emit.loops.nest_writer import NestWriter


def write(f: NestWriter) -> list[str]:
    """The lines of a nest's function."""
    f.begin_marks()
    (pairs if f.nest.near is None else near)(f)
    f.end_marks()
    return f.w.lines
