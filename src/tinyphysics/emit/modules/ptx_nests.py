"""Loop nests as LLVM IR for a CUDA device: kernels in which each index of a nest is a thread.

Neighbours along the innermost loop are neighbouring threads, so that what a warp reads lies in a row. Nothing here decides
a bit: sums are taken in the order that the nest says. Accumulators that different threads fill are combined by a launch
of their own, so that a thread waits for others of its block at most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from tinyphysics.emit.kinds.cnests import touched
from tinyphysics.emit.kinds.ptx_near import ASKED, LISTED, asked, listed_as, near
from tinyphysics.emit.kinds.ptx_pairs import RESIDENT, pair_block, pairs, rounds
from tinyphysics.emit.kinds.trees.ptx_tree_build import planting
from tinyphysics.emit.kinds.trees.ptx_tree_text import MOST, arrays_of
from tinyphysics.emit.loops.nest_writer import NestWriter
from tinyphysics.emit.loops.ptx_threads import (
    Kernel,
    Launch,
    Threads,
    unflattened,
)
from tinyphysics.emit.modules.opencl_nests import part_name
from tinyphysics.emit.text.print_llvm import LlvmPrinter
from tinyphysics.errors import BackendError
from tinyphysics.ir.dtype import i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels.kinds.map import MAP
from tinyphysics.tpir.kernels.loopir import Function, buffers_of
from tinyphysics.tpir.kernels.loopir import Threads as Share
from tinyphysics.tpir.kernels.neighbours import WITHIN
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest, Piece
from tinyphysics.tpir.precision.lattice import OVERFLOW

NUMBER = 8  # bytes of each
TRIPLE = 'target triple = "nvptx64-nvidia-cuda"'
LOOK = "look"  # the section that looks for numbers that are none
# the steps that a graph has done are counted on the device
TICK, TICKING = (
    "tick",
    """define ptx_kernel void @tick(ptr addrspace(1) %clock, i64 %steps) {
  %was = load i64, ptr addrspace(1) %clock
  %is = add i64 %was, %steps
  store i64 %is, ptr addrspace(1) %clock
  ret void
}""",
)
# behind the clock a word says where a run waits for a list of neighbours: the step, and the number of what is done in it
HALT, GO_ON = "halt", "go_on"
HALTING = f"""define ptx_kernel void @halt(ptr addrspace(1) %clock, ptr addrspace(1) %asked, i64 %ahead, i64 %number) {{
  %word.at = getelementptr i64, ptr addrspace(1) %clock, i64 1
  %word = load i64, ptr addrspace(1) %word.at
  %runs = icmp eq i64 %word, 0
  %mark = load i8, ptr addrspace(1) %asked
  %marked = icmp ne i8 %mark, 0
  %halts = and i1 %runs, %marked
  br i1 %halts, label %stop, label %leave
stop:
  %began = load i64, ptr addrspace(1) %clock
  %step = add i64 %began, %ahead
  %high = shl i64 %step, {WITHIN}
  %where = or i64 %high, %number
  %is = add i64 %where, 1
  store i64 %is, ptr addrspace(1) %word.at
  br label %leave
leave:
  ret void
}}
define ptx_kernel void @go_on(ptr addrspace(1) %clock, ptr addrspace(1) %asked) {{
  %word.at = getelementptr i64, ptr addrspace(1) %clock, i64 1
  store i64 0, ptr addrspace(1) %word.at
  store i8 0, ptr addrspace(1) %asked
  ret void
}}"""
TICKING_UNLESS_HALTED = TICKING.replace(
    "  %is = add i64 %was, %steps",
    """\
  %word.at = getelementptr i64, ptr addrspace(1) %clock, i64 1
  %word = load i64, ptr addrspace(1) %word.at
  %runs = icmp eq i64 %word, 0
  %more = select i1 %runs, i64 %steps, i64 0
  %is = add i64 %was, %more""",
)


@dataclass(frozen=True)
class NestsModule:
    """The text of a kernel's sections, and what is launched for each nest of each."""

    text: str
    launches: dict[str, list[list[Launch]]]
    workspace: int  # bytes

    @property
    def names(self) -> list[str]:
        """Of all kernels, each once."""
        return list(dict.fromkeys(x.name for nests in self.launches.values() for nest in nests for x in nest))


def nests_module(
    kernel: LoopKernel, careful: bool = False, estimates: bool = False, blocks: bool = True
) -> NestsModule:
    """Every nest of a kernel, and those that look at its states; do the device's `estimates` serve (ptx_rounded.py)?

    Without `blocks` no thread waits for another.
    """
    if kernel.tree is not None and kernel.tree.shape[0] > MOST:
        raise BackendError(
            f"the backend `cuda` supports tree codes of up to {MOST:,} points", fix="Choose another backend."
        )
    sections = {s.name: list(s.nests) for s in (kernel.careful if careful else kernel.sections).values()}
    sections[LOOK] = [
        look(kernel, buffer) for buffer in kernel.inputs.values() if buffer not in kernel.counts
    ]
    declared: dict[str, str] = {}
    texts: dict[
        str, str
    ] = {}  # what differs in the names of buffers alone is one kernel, with the name that it got first
    launches: dict[str, list[list[Launch]]] = {}
    for name, nests in sections.items():
        launches[name] = []
        for n, nest in enumerate(nests):
            made = kernels(kernel, nest, part_name(name, n), estimates, blocks)
            launches[name].append(
                [replace(k.launch, name=texts.setdefault(k.body, k.launch.name)) for k in made]
            )
            for k in made:
                declared |= k.declared
    written = [f"define ptx_kernel void @{name}{body}" for body, name in texts.items()]
    workspace = max(room(kernel, nest, blocks) for nests in sections.values() for nest in nests)
    beside = [TICKING_UNLESS_HALTED, HALTING] if kernel.lists else [TICKING]
    return NestsModule("\n".join([TRIPLE, *declared.values(), *beside, *written, ""]), launches, workspace)


def wants_estimates(kernel: LoopKernel) -> bool:
    """Is there a nest that is faster where those of the device serve?"""
    return any(
        rounds(nest)
        for sections in (kernel.sections, kernel.careful)
        for s in sections.values()
        for nest in s.nests
    )


def functions(kernel: LoopKernel, nest: Nest, blocks: bool) -> list[Function]:
    return (nest.way.blocked if blocks else nest.way.threaded)(nest, kernel)


def room(kernel: LoopKernel, nest: Nest, blocks: bool) -> int:
    if nest.kind == "tree":
        return arrays_of(nest.sizes[0])[1]
    return NUMBER * max((f.workspace for f in functions(kernel, nest, blocks)), default=0)


def look(kernel: LoopKernel, buffer: str) -> Nest:
    """A nest that stores nothing and raises the flag where a number is none."""
    b = kernel.buffers[buffer]
    variables = tuple(UOp.var(f"@i{k}", (), i64) for k in range(len(b.axes)))
    numbers = [UOp(Ops.LOAD, b.dtype, (), variables, (buffer, plane)) for plane in range(b.planes)]
    guards = tuple(
        (u - u).ne(0.0) if b.dtype.is_float else u.eq(UOp.const(int(OVERFLOW), b.dtype)) for u in numbers
    )
    return Nest(MAP, variables, b.axes, (Piece(0, b.axes[-1] if b.axes else 1, (), guards),))


def kernels(kernel: LoopKernel, nest: Nest, name: str, estimates: bool, blocks: bool) -> list[Kernel]:
    """What a nest needs launched, one after the other."""
    used, points = touched(nest), nest.sizes[0] if nest.sizes else 1
    match nest.kind:
        case "pairs" if nest.near is not None:
            made = [Threads(kernel, nest, name, points, [*used, *listed_as(nest, *LISTED)], near)]
        case "pairs":
            block, body = pair_block(nest, estimates), partial(pairs, estimates=estimates)
            made = [Threads(kernel, nest, name, points, used, body, block, RESIDENT // block)]
        case "list":
            made = [Threads(kernel, nest, name, points, [*used, *listed_as(nest, ASKED)], asked)]
        case kind:
            plain = functions(kernel, nest, blocks)
            made = [of_function(kernel, nest, f, f"{name}{f.name}") for f in plain]
            made += planting(kernel, nest, name) if kind == "tree" else []
    return [m.written() for m in made]


def of_function(kernel: LoopKernel, nest: Nest, f: Function, name: str) -> Threads:
    """A kernel from the statements of a thread."""
    shares = f.shares
    assert isinstance(shares, Share)

    def body(w: NestWriter, t: str) -> None:
        w.w.estimates = True
        p = LlvmPrinter(kernel, w.pointer, parallel=True, w=w.w)
        for v, value in zip(shares.variables, unflattened(w, t, shares.sizes)):
            p.bind(v, value)
        p.begin(f)
        p.statements(f.body)

    return Threads(kernel, nest, name, shares.count, buffers_of(f), body, shares.block, shares.resident)
