"""What do the loops of an array program cost?  Nests, operations and bytes of one step, and which of the two decides."""
from __future__ import annotations

from tinyphysics.report import Row
from tinyphysics.tpir.isa import Program
from tinyphysics.tpir.loops import build_loops
from tinyphysics.tpir.nests import LoopKernel, Nest
from tinyphysics.tpir.wavefront import wavefront
from tinyphysics.util import plural, prod

BALANCE = 4.0  # operations that a core does while one number comes from memory: 8 flops a cycle against 2 bytes or less


def moved(nest: Nest, kernel: LoopKernel) -> int:
    """Bytes that a nest reads and writes if nothing is in a cache: every plane it touches, once."""
    touched = {(u.arg[0], u.arg[1]) for u in nest.loads()}
    stored = {(s.buffer, s.plane) for p in nest.pieces for s in p.stores}
    size = {name: prod(b.axes) * b.dtype.bits // 8 for name, b in kernel.buffers.items()}
    return sum(size[name] for name, _ in touched) + sum(size[name] for name, _ in stored)


def loop_rows(program: Program) -> list[Row]:
    """Rows for the report of a program that runs in loops."""
    kernel = build_loops(program)
    step = kernel.sections["step"]
    kinds = ", ".join(f"{n.kind} over {' x '.join(map(str, n.sizes)) or 'numbers'}" for n in step.nests)
    wave = wavefront(step, kernel.buffers)
    work = sum(n.items * n.operations for n in step.nests)
    size = sum(moved(n, kernel) for n in step.nests)
    together = wave.steps if wave is not None else 1
    if wave is not None:  # what one nest leaves in the cache the next finds there
        size = max(moved(n, kernel) for n in step.nests) // together
    bound = "memory" if work < BALANCE * size / 8 else "arithmetic"
    memory = sum(b.size * b.dtype.bits // 8 for b in kernel.buffers.values())
    rows = [
        Row("loop nests", str(len(step.nests)), kinds),
        Row("in memory", f"{memory:,} bytes", plural(len(kernel.buffers), "buffer")),
        Row("a step", f"{work:,} operations, {size:,} bytes", f"bound by {bound}, if the arrays do not fit a cache"),
    ]
    if wave is not None:
        rows.append(Row("steps in a pass", str(wave.steps), f"nests follow each other by {plural(wave.reach, 'row')}"))
    return rows
