"""What do the loops of an array program cost?  Nests, operations and bytes of one step, and which of the two decides."""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.report import Row
from tinyphysics.tpir.kernels.loops import build_loops
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest, rounds
from tinyphysics.tpir.kernels.wavefront import wavefront
from tinyphysics.tpir.program.isa import Program
from tinyphysics.util import plural, prod

# Operations that a core does while one number comes from memory: about 24e9 a second (two vectors of four at 3 GHz)
# against 24 GB, both as bench/run.py finds them. What follows from it is an estimate, and called one.
BALANCE = 8.0


def moved(nests: Sequence[Nest], kernel: LoopKernel) -> int:
    """Bytes that nests read and write if each finds what the others of them touched: every plane once, each way."""
    read = {(u.arg[0], u.arg[1]) for nest in nests for u in nest.loads()}
    written = {(s.buffer, s.plane) for nest in nests for p in nest.pieces for s in p.stores}
    size = {name: prod(b.axes) * b.dtype.bits // 8 for name, b in kernel.buffers.items()}
    return sum(size[name] for name, _ in read) + sum(size[name] for name, _ in written)


def loop_rows(program: Program) -> list[Row]:
    """Rows for the report of a program that runs in loops."""
    kernel = build_loops(program)
    step = kernel.sections["step"]
    kinds = ", ".join(f"{n.kind} over {' x '.join(map(str, n.sizes)) or 'numbers'}" for n in step.nests)
    work = step.work
    wave = wavefront(step, kernel.buffers)
    if wave is None:
        nests = [(times, n) for t, times in step.times() for n in step.nests[t.begin : t.end]]
        size = sum(times * moved([n], kernel) for times, n in nests)
    else:
        size = moved(step.nests, kernel) // wave.steps
    bound = "memory" if work < BALANCE * size / 8 else "arithmetic"
    told = f"by estimate, {bound} is the bound where the arrays do not fit a cache"
    places = f"{plural(len(kernel.buffers), 'buffer')}, some in one place"
    rows = [
        Row("loop nests", str(len(step.nests)), kinds),
        Row("in memory", f"{kernel.bytes:,} bytes", places),
        Row("a step", f"{work:,} operations, {size:,} bytes", told),
    ]
    if step.rolled:
        less = [t for t in rounds(step.turns) if t.period > 1]
        slower = "".join(f", of which {t.end - t.begin} after every {t.period}" for t in less)
        rows.append(Row("passes in a step", str(step.passes), f"a loop over its nests{slower}"))
    if wave is not None:
        rows.append(
            Row("steps in a pass", str(wave.steps), f"nests follow each other by {plural(wave.reach, 'row')}")
        )
    return rows
