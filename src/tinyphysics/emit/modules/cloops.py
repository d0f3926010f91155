"""Loop nests as a complete C program: reads arrays, runs them, prints the hash of the state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyphysics.emit.kinds.cnests import module
from tinyphysics.emit.scalar.cmain import BLAKE2B, header
from tinyphysics.emit.text.dialects import TYPE, literal
from tinyphysics.emit.text.print_c import c_name
from tinyphysics.errors import PlanError
from tinyphysics.ir.uop import Shape
from tinyphysics.ir.value import strides
from tinyphysics.tpir.kernels.at_index import is_component
from tinyphysics.tpir.kernels.nests import Buffer, LoopKernel
from tinyphysics.tpir.program.isa import Program
from tinyphysics.util import prod


@dataclass(frozen=True)
class LoopHost:
    """What a complete program says differently for a device: how it is compiled, where memory is, how it waits."""

    command: str = "cc -O3 -march=native -ffp-contract=off -fwrapv -fno-tree-slp-vectorize -fno-tree-scev-cprop this.c -lm"
    module: Callable[..., str] = module
    allocate: str = "calloc({count}, sizeof({t}))"
    above: tuple[str, ...] = ()  # memory that the device sees, too; {n}: numbers of uniform
    local: tuple[str, ...] = ("double uniform[{n}];", "signed char flags[1] = {{0}};")
    wait: str = ""
    entry: str = "int main(int argc, char **argv)"
    read: str = "fread(&x, sizeof x, 1, stdin) != 1"  # the next number of an array; true if there is none


HERE = LoopHost()


def place(b: Buffer, shape: Shape, components: int) -> str:
    """Where the number with indices i0, i1, ... lies in its buffer."""
    in_a_row = len(b.axes) == len(shape)  # no axis is one of components
    short = [a for a, n in enumerate(shape) if not in_a_row and is_component(n, components)]
    long = [a for a in range(len(shape)) if a not in short]
    plane = strides(tuple(shape[a] for a in short))
    along = strides(tuple(shape[a] for a in long))
    terms = [f"i{a}*{s * b.plane}" for a, s in zip(short, plane)] + [f"i{a}*{s}" for a, s in zip(long, along)]
    return " + ".join(terms) or "0"


def each(shape: Shape, body: str) -> str:
    """Over all numbers of an array, row-major."""
    loops = "".join(f"for (int64_t i{a} = 0; i{a} < {n}; i{a}++) " for a, n in enumerate(shape))
    return f"  {loops}{body}"


def complete_loops(k: LoopKernel, program: Program, host: LoopHost = HERE) -> str:
    """`./a.out STEPS DT T0 parameters... < arrays` runs one member and prints the hash of its state."""
    if k.tree is not None:
        raise PlanError(
            "a program that sums with a tree code cannot be written as one complete C program",
            fix="Leave approximate= out to see the direct sum.",
        )
    if k.lists:
        raise PlanError(
            "a program that sums over neighbours cannot be written as one complete C program: "
            "tinyphysics builds its neighbour lists",
            fix='See sim.ir("llvm"), or sum over all pairs.',
        )
    slots = {name: i for i, name in enumerate(k.buffers)}
    order = [str(p.arg)[1:] for p in k.params]
    given = [n for n in order if n not in ("dt", "t0")]
    shapes = {p.name: p.type.shape for p in program.params} | {s.name: s.type.shape for s in program.states}
    lines = []
    for name, b in k.buffers.items():
        memory = host.allocate.format(count=b.size, t=TYPE[b.dtype.name])
        lines.append(f"  buffers[{slots[name]}] = {memory};  /* {name} */")
    for slot, name in enumerate(order):
        source = {"dt": "dt", "t0": "t0"}.get(name) or f"atof(argv[{4 + given.index(name)}])"
        lines.append(f"  uniform[{slot}] = {source};  /* {name} */")
    for buffer, u in k.constants.items():
        b, listed = k.buffers[buffer], ", ".join(literal(x) for x in u.src)
        t = TYPE[b.dtype.name]
        copy = f"(({t} *)buffers[{slots[buffer]}])[{place(b, u.shape, k.components)}] = *from++;"
        lines.append(
            f"  {{ static const {t} list[] = {{{listed}}}; const {t} *from = list;\n  {each(u.shape, copy)} }}"
        )
    for name in [*k.arrays, *k.inputs]:
        shape, targets = shapes[name], [{**k.arrays, **k.inputs}[name]]
        targets += [k.flat[name]] if name in k.flat else []
        t = TYPE[k.buffers[targets[0]].dtype.name]
        stores = [
            f"(({t} *)buffers[{slots[b]}])[{place(k.buffers[b], shape, k.components)}] = x;" for b in targets
        ]
        read = f"{t} x; if ({host.read}) return 3;"
        lines.append(f"  /* {name} */\n" + each(shape, f"{{ {read} {' '.join(stores)} }}"))
    lines.append(
        "  if (steps > 0) { init(buffers, uniform, flags, 0, 1); step(buffers, uniform, flags, 0, steps); "
        "final(buffers, uniform, flags, steps, 1); }"
    )
    lines += [f"  {host.wait}"] if host.wait else []
    for name, (buffer, dtype, shape) in k.outputs.items():
        t, source = TYPE[k.buffers[buffer].dtype.name], k.inputs[name]
        c = c_name(name)
        lines += [
            f"  {t} *out_{c} = ({t} *)malloc({max(prod(shape), 1)} * sizeof({t})), *to_{c} = out_{c};",
            f"  const {t} *from_{c} = (const {t} *)buffers[steps > 0 ? {slots[buffer]} : {slots[source]}];",
            each(shape, f"*to_{c}++ = from_{c}[{place(k.buffers[buffer], shape, k.components)}];"),
            f'  add_array(&h, "{header(dtype, shape)}", out_{c}, {prod(shape)} * sizeof({t}));',
        ]
    usage = " ".join(["STEPS", "DT", "T0", *given])
    arrays = ", ".join(f"{name} {list(shapes[name])}" for name in [*k.arrays, *k.inputs])
    body, numbers = "\n".join(lines), max(len(order), 1)
    above, local = (
        "".join(f"{indent}{line.format(n=numbers)}\n" for line in part)
        for indent, part in (("", host.above), ("  ", host.local))
    )
    return f"""/* {program.name}: {host.command}
   usage: {usage} < arrays; the arrays are raw numbers, row by row: {arrays} */
#include <stdio.h>
#include <stdlib.h>
{host.module(k, careful=True)}{BLAKE2B}{above}
{host.entry} {{
  if (argc != {4 + len(given)}) {{ fprintf(stderr, "usage: {usage} < arrays\\n"); return 2; }}
  const long long steps = atoll(argv[1]);
  const double dt = atof(argv[2]), t0 = atof(argv[3]);
{local}  void *buffers[{len(k.buffers)}];
  hasher h; uint8_t digest[16];
  (void)dt; (void)t0;
  begin_hash(&h);
{body}
  end_hash(&h, digest);
  for (int i = 0; i < 16; i++) printf("%02x", digest[i]);
  printf("\\n");
  return 0;
}}
"""
