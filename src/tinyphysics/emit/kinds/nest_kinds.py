"""How is a nest written in LLVM IR that is not in LoopIR?  Sums over pairs, of all points or of neighbours."""

from __future__ import annotations

from tinyphysics.emit.kinds.nest_near import near
from tinyphysics.emit.kinds.nest_pairs import pairs
from tinyphysics.emit.loops.nest_writer import NestWriter


def write(f: NestWriter) -> list[str]:
    """The lines of a nest's function."""
    f.line("%seen = alloca i8")
    f.line("store i8 0, ptr %seen")
    (pairs if f.nest.near is None else near)(f)
    f.line("%was = load i8, ptr %seen")
    f.line("%any = icmp ne i8 %was, 0")
    f.line("br i1 %any, label %raise, label %leave")
    f.label("raise")
    f.line("store i8 1, ptr %flags")
    f.line("br label %leave")
    f.label("leave")
    return f.w.lines
