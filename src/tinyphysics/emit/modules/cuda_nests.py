"""Loop nests as readable CUDA C: kernels in which each index of a nest is a thread, and a complete program around them.

What runs is PTX made from LLVM IR (emit/modules/ptx_nests.py); this says the same to a reader, and through nvcc it has
the same bits. Sums are taken in the order that the nest says. No thread waits for another: accumulators that several
threads fill are folded by a launch of their own, and a pair is computed by both of its points, once for each of its two
sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinyphysics.emit.kinds.cnests import NestText, touched
from tinyphysics.emit.kinds.kinds import KINDS
from tinyphysics.emit.modules.cloops import LoopHost, complete_loops
from tinyphysics.emit.modules.opencl_nests import part_name
from tinyphysics.emit.scalar.cuda import COMMAND, CUDA
from tinyphysics.emit.text.dialects import TYPE, Dialect
from tinyphysics.emit.text.loopir import WORKSPACE, Function, Threads, buffers_of
from tinyphysics.emit.text.print_c import CPrinter, c_name
from tinyphysics.errors import PlanError
from tinyphysics.ir.reduction import PAIR_LANES, slabs
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.tpir.kernels.nests import LoopKernel, LoopSection, Nest, Store
from tinyphysics.tpir.program.isa import Program

BLOCK = 128  # threads


@dataclass(frozen=True)
class Launch:
    """A kernel of a nest: how many threads it has, and which buffers it is given."""

    name: str
    text: str
    threads: int
    buffers: tuple[str, ...]


def product(names: Sequence[str | int]) -> str:
    return "*".join(map(str, names))


@dataclass
class CudaNest(NestText):
    dialect: Dialect = CUDA
    unused: str = "(void)uniform; (void)now;"

    def kernel_of(self, name: str, threads: int, body: Callable[[list[UOp]], None], *more: str) -> Launch:
        """One kernel; `body` writes what a thread does."""
        used = touched(self.nest)
        arguments = [self.pointer(b) for b in used] + [f"double *{x}" for x in more]
        arguments += ["const double *uniform", "signed char *flags", "int64_t now"]
        self.line("const int64_t thread = (int64_t)blockIdx.x*blockDim.x + threadIdx.x;")
        self.line(f"if (thread >= {threads}) return;")
        body(self.begin())
        self.line("if (seen) *flags = 1;")
        head = f"{self.dialect.function} {c_name(name)}({', '.join(arguments)}) {{"
        return Launch(c_name(name), "\n".join([head, *self.lines, "}"]), threads, (*used, *more))

    def fixed(self, roots: Sequence[UOp], moving: UOp) -> None:
        """What does not change in the loop that follows."""
        self.values([u for u in toposort(roots) if moving not in u.leaves])

    def sums(self, stores: Sequence[Store], name: str) -> None:
        for k, s in enumerate(stores):
            self.line(f"{TYPE[s.value.dtype.name]} {name}{k} = {self.identity(s)};")

    def added(self, stores: Sequence[Store], places: Sequence[str]) -> None:
        for s, place in zip(stores, places):
            self.line(f"{place} = {self.combined(s, place, self.of(s.value))};")

    # --- kinds --------------------------------------------------------------------------------
    def of_pairs(self, nodes: list[UOp]) -> None:
        """A thread for each point: the sum over later ones in eight accumulators, that over earlier ones slab by slab."""
        (size,), (piece,) = self.nest.sizes, self.nest.pieces
        i, j = self.nest.variables
        rows = [s for s in piece.stores if s.index[0] is i]
        columns = [s for s in piece.stores if s.index[0] is j]
        keep = dict(self.names)
        if rows or piece.guards:
            self.line("{")
            self.depth += 1
            self.names[i] = "i"
            self.line("const int64_t i = thread;")
            self.fixed([*(s.value for s in rows), *(u for s in rows for u in s.index), *piece.guards], j)
            for k, s in enumerate(rows):
                self.line(f"{TYPE[s.value.dtype.name]} row{k}[{PAIR_LANES}];")
                self.line(f"for (int l = 0; l < {PAIR_LANES}; l++) row{k}[l] = {self.identity(s)};")
            inner = dict(self.names)
            self.names[j] = "j"
            self.open(f"for (int64_t j = i + 1; j < {size}; j++)")
            self.values(toposort([*(s.value for s in rows), *piece.guards]))
            self.added(rows, [f"row{k}[j & {PAIR_LANES - 1}]" for k in range(len(rows))])
            self.guards(piece)
            self.close()
            self.scoped(inner)
            for k, s in enumerate(rows):
                self.fold(s, f"row{k}", PAIR_LANES)
                self.line(f"{self.place(s.buffer, s.plane, s.index)} = row{k}[0];")
            self.close()
            self.scoped(keep)
        if columns:
            cuts = slabs(size)
            self.names[j] = "j"
            self.line("const int64_t j = thread;")
            self.fixed([s.value for s in columns], i)
            self.line(f"{self.dialect.constant} int64_t cuts[] = {{{', '.join(map(str, cuts))}}};")
            self.open(f"for (int64_t slab = 0; slab < {len(cuts) - 1}; slab++)")
            self.sums(columns, "column")
            inner = dict(self.names)
            self.names[i] = "i"
            self.open("for (int64_t i = cuts[slab]; i < cuts[slab + 1] && i < j; i++)")
            self.values(toposort([s.value for s in columns]))
            self.added(columns, [f"column{k}" for k in range(len(columns))])
            self.close()
            self.scoped(inner)
            for k, s in enumerate(columns):
                planes = self.kernel.buffers[s.buffer].planes // (len(cuts) - 1)
                self.line(f"{self.place(s.buffer, f'slab*{planes} + {s.plane}', (j,))} = column{k};")
            self.close()
            self.scoped(keep)


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
    if (kind := KINDS.get(nest.kind)) is not None:
        return [of_function(kernel, f, f"{name}{f.name}") for f in kind.threaded(nest, kernel)]
    f = CudaNest(kernel, nest)
    return [f.kernel_of(name, nest.sizes[0], f.of_pairs)]


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
    for turn in section.turns:
        lines += [f"    if (s % {turn.period} == 0) {{"] if turn.period > 1 else []
        lines += [f"    {call(kernel, launch)}" for nest in made[turn.begin : turn.end] for launch in nest]
        for a, b in turn.swaps:
            i, j = slots.index(a), slots.index(b)
            lines.append(
                f"    {{ void *x = buffers[{i}]; buffers[{i}] = buffers[{j}]; buffers[{j}] = x; }}  /* {a}, {b} */"
            )
        lines += ["    }"] if turn.period > 1 else []
    lines += ["    }"] if section.rolled else []
    return "\n".join([*lines, "  }", "  (void)buffers; (void)uniform; (void)flags; (void)first;", "}"])


def room(kernel: LoopKernel, nest: Nest) -> int:
    """Numbers that wait."""
    functions = KINDS[nest.kind].threaded(nest, kernel) if nest.kind in KINDS else []
    return max((f.workspace for f in functions), default=0)


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
