"""Loop nests as readable CUDA C: kernels in which each index of a nest is a thread, and a complete program around them.

What runs is PTX made from LLVM IR (emit/modules/ptx_nests.py); this says the same to a reader, and through nvcc it has
the same bits. Sums are taken in the order that the nest says. No thread waits for another: accumulators that several
threads fill are folded by a launch of their own, and a pair is computed by both of its points, once for each of its two
sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tinyphysics.emit.modules.cloops import LoopHost, complete_loops
from tinyphysics.emit.modules.opencl_nests import part_name
from tinyphysics.emit.scalar.cuda import COMMAND, CUDA
from tinyphysics.emit.text.dialects import TYPE
from tinyphysics.emit.text.print_c import CPrinter, c_name
from tinyphysics.errors import PlanError
from tinyphysics.tpir.kernels.loopir import WORKSPACE, Function, Threads, buffers_of
from tinyphysics.tpir.kernels.nests import LoopKernel, LoopSection, Nest, Repeat, Turn
from tinyphysics.tpir.kernels.rounds import ON
from tinyphysics.tpir.program.isa import Program

BLOCK = 128  # threads


@dataclass(frozen=True)
class Launch:
    """A kernel of a nest: how many threads it has, and which buffers it is given."""

    name: str
    text: str
    threads: int
    buffers: tuple[str, ...]


def of_function(kernel: LoopKernel, f: Function, name: str) -> Launch:
    """A kernel from the statements of a thread."""
    assert isinstance(f.shares, Threads)
    text, used = CPrinter(kernel, CUDA), buffers_of(f)
    arguments = [text.pointer(b) for b in used]
    arguments += ["const double *uniform", "signed char *flags", "int64_t now"]
    text.line("const int64_t thread = (int64_t)blockIdx.x*blockDim.x + threadIdx.x;")
    text.line(f"if (thread >= {f.shares.count}) return;")
    body = text.written(f, "(void)uniform; (void)now;")
    head = f"{CUDA.function} {c_name(name)}({', '.join(arguments)}) {{"
    return Launch(c_name(name), "\n".join([head, *body, "}"]), f.shares.count, tuple(used))


def launches(kernel: LoopKernel, nest: Nest, name: str) -> list[Launch]:
    """What a nest needs launched, one after the other."""
    return [of_function(kernel, f, f"{name}{f.name}") for f in nest.way.threaded(nest, kernel)]


def call(kernel: LoopKernel, launch: Launch) -> str:
    slots = list(kernel.buffers)
    given = [
        f"({TYPE[kernel.buffers[b].dtype.name]} *)buffers[{slots.index(b)}]" if b != WORKSPACE else b
        for b in launch.buffers
    ]
    blocks = -(-launch.threads // BLOCK)
    return f"{launch.name}<<<{blocks}, {BLOCK}>>>({', '.join([*given, 'uniform', 'flags', 'first + k'])});"


def driver(kernel: LoopKernel, section: LoopSection, made: Sequence[Sequence[Launch]]) -> str:
    """What this machine does: it queues the kernels of so many steps, and lets buffers change places."""
    slots = list(kernel.buffers)
    lines = [
        f"static void {section.name}(void **buffers, const double *uniform, signed char *flags, int64_t first, "
        "int64_t steps) {",
        "  for (int64_t k = 0; k < steps; k++) {",
    ]
    lines += [f"    for (int s = 1; s <= {section.passes}; s++) {{"] if section.rolled else []
    lines += turn_lines(kernel, section.turns, made, slots)
    lines += ["    }"] if section.rolled else []
    return "\n".join([*lines, "  }", "  (void)buffers; (void)uniform; (void)flags; (void)first;", "}"])


def turn_lines(
    kernel: LoopKernel, turns: Iterable[Turn], made: Sequence[Sequence[Launch]], slots: list[str]
) -> list[str]:
    """What is done in a step; rounds of a solution go on until it has arrived."""
    lines: list[str] = []
    for turn in turns:
        if isinstance(turn, Repeat):
            inner = turn_lines(kernel, turn.turns, made, slots)
            lines += [f"    for (int r = 0; r < {turn.most}; r++) {{", *("  " + x for x in inner), "    }"]
            continue
        lines += [f"    if (s % {turn.period} == 0) {{"] if turn.period > 1 else []
        lines += [f"    {call(kernel, launch)}" for nest in made[turn.begin : turn.end] for launch in nest]
        for a, b in turn.swaps:
            i, j = slots.index(a), slots.index(b)
            lines.append(
                f"    {{ void *x = buffers[{i}]; buffers[{i}] = buffers[{j}]; buffers[{j}] = x; }}  /* {a}, {b} */"
            )
        lines += ["    }"] if turn.period > 1 else []
        if turn.going.endswith(ON):  # the number is in memory that both sides see
            lines += [
                "    cudaDeviceSynchronize();",
                f"    if (!*(const signed char *)buffers[{slots.index(turn.going)}]) break;",
            ]
    return lines


def room(kernel: LoopKernel, nest: Nest) -> int:
    """Numbers that wait."""
    return max((f.workspace for f in nest.way.threaded(nest, kernel)), default=0)


ALLOCATING = """static void *managed(size_t count, size_t size) {  /* memory that both sides see, with zeros in it */
  void *p = 0;
  if (cudaMallocManaged(&p, count * size) != cudaSuccess) { fprintf(stderr, "the device has no memory\\n"); exit(1); }
  return memset(p, 0, count * size);
}
"""


def module(kernel: LoopKernel, careful: bool = False) -> str:
    """CUDA C of every nest and section."""
    sections = (kernel.careful if careful else kernel.sections).values()
    largest = max((room(kernel, nest) for s in sections for nest in s.nests), default=0)
    out = [
        CUDA.prelude + ALLOCATING,
        *([f"static __managed__ double {WORKSPACE}[{largest}];"] if largest else []),
    ]
    for section in sections:
        made = [launches(kernel, nest, part_name(section.name, k)) for k, nest in enumerate(section.nests)]
        out += [launch.text for nest in made for launch in nest]
        out.append(driver(kernel, section, made))
    return "\n".join(out) + "\n"


DEVICE = LoopHost(
    COMMAND,
    module,
    "managed({count}, sizeof({t}))",
    ("static __managed__ double uniform[{n}];", "static __managed__ signed char flags[1];"),
    (),
    'if (cudaDeviceSynchronize() != cudaSuccess) { fprintf(stderr, "the device failed\\n"); return 1; }',
)


def complete_cuda_loops(k: LoopKernel, program: Program) -> str:
    """A program that runs on a GPU and prints the hash of its state, like that of emit/modules/cloops.py."""
    if k.lists or k.tree is not None:
        what = "sums over neighbours" if k.lists else "sums through a tree"
        raise PlanError(
            f'ir("cuda"): a program that {what} cannot be written as one complete program: tinyphysics builds the '
            f"{'lists' if k.lists else 'tree'} between launches",
            fix='See sim.ir("ptx") or sim.ir("llvm"), or sum over all pairs.',
        )
    return complete_loops(k, program, DEVICE)
