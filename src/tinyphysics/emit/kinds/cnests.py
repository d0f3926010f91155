"""Loop nests as readable C: one function for each nest over a range of its outermost loop, one for each section.

The loops are those of the nest, written out; the compiler may vectorise them as it likes, since no two
iterations of a map share a number and sums are taken in the order that is spelt out.
"""

from __future__ import annotations

from collections.abc import Iterable

from tinyphysics.emit.text.dialects import C
from tinyphysics.emit.text.print_c import CPrinter
from tinyphysics.tpir.kernels.nests import LoopKernel, LoopSection, Nest, Repeat, Turn
from tinyphysics.tpir.kernels.wavefront import Wavefront, wavefront

ARGUMENTS = "void **buffers, const double *uniform, signed char *flags, int64_t lo, int64_t hi, int64_t now"


def touched(nest: Nest) -> list[str]:
    """The buffers that a nest reads or writes."""
    used = dict.fromkeys(u.arg[0] for u in nest.loads())
    return list(used | dict.fromkeys(s.buffer for p in nest.pieces for s in p.stores))


def driver(kernel: LoopKernel, section: LoopSection) -> str:
    slots = list(kernel.buffers)
    given = "void **buffers, const double *uniform, signed char *flags, int64_t first, int64_t steps"
    lines = [f"void {section.name}({given}) {{", "  int64_t k = 0;"]
    before: list[str] = []
    if (wave := wavefront(section, kernel.buffers)) is not None:
        before = [*sweep(section, wave), *edge(section, wave)]
        arguments = "buffers, uniform, flags, 0"
        lines += [
            f"  for (; k + {wave.steps} <= steps; k += {wave.steps}) {{",
            f"    part_sweep_{section.name}({arguments}, {wave.extent}, first + k);",
            f"    part_edge_{section.name}({arguments}, 0, first + k);",
            "  }",
        ]
    lines.append("  for (; k < steps; k++) {")
    lines += [f"    for (int s = 1; s <= {section.passes}; s++) {{"] if section.rolled else []
    lines += turn_lines(section, section.turns, slots)
    lines += ["    }"] if section.rolled else []
    return "\n".join(
        [*before, *lines, "  }", "  (void)buffers; (void)uniform; (void)flags; (void)first;", "}"]
    )


def turn_lines(section: LoopSection, turns: Iterable[Turn], slots: list[str]) -> list[str]:
    """What is done in a step; a loop ends where a number says so."""
    lines: list[str] = []
    for turn in turns:
        if isinstance(turn, Repeat):
            inner = turn_lines(section, turn.turns, slots)
            lines += [f"    for (int r = 0; r < {turn.most}; r++) {{", *("  " + x for x in inner), "    }"]
            continue
        lines += [f"    if (s % {turn.period} == 0) {{"] if turn.period > 1 else []
        for n in range(turn.begin, turn.end):
            extent = section.nests[n].extent
            lines.append(f"    part_{section.name}_{n}(buffers, uniform, flags, 0, {extent}, first + k);")
        for a, b in turn.swaps:
            i, j = slots.index(a), slots.index(b)
            lines.append(
                f"    {{ void *x = buffers[{i}]; buffers[{i}] = buffers[{j}]; buffers[{j}] = x; }}  /* {a}, {b} */"
            )
        lines += ["    }"] if turn.period > 1 else []
        lines += (
            [f"    if (!*(const int32_t *)buffers[{slots.index(turn.going)}]) break;"] if turn.going else []
        )
    return lines


def stage(section: LoopSection, wave: Wavefront, s: int, lo: str, hi: str) -> str:
    return (
        f"part_{section.name}_{s % wave.nests}(buffers, uniform, flags, {lo}, {hi}, now + {s // wave.nests});"
    )


def sweep(section: LoopSection, wave: Wavefront) -> list[str]:
    """Several steps on a slab of rows, each nest some rows behind the one before it."""
    lines = [
        f"void part_sweep_{section.name}({ARGUMENTS}) {{",
        f"  for (int64_t r = lo; r < hi; r += {wave.rows}) {{",
    ]
    for s in range(wave.stages):
        lag = wave.lag(s)
        lines += [
            f"    {{ int64_t a = r - {lag}, b = a + {wave.rows};",
            f"      a = a < lo + {lag} ? lo + {lag} : a; b = b > hi - {lag} ? hi - {lag} : b;",
            f"      if (a < b) {stage(section, wave, s, 'a', 'b')} }}",
        ]
    return [*lines, "  }", "}"]


def edge(section: LoopSection, wave: Wavefront) -> list[str]:
    """The rows around an edge that the sweeps of both sides have left, stage by stage."""
    lines = [
        f"void part_edge_{section.name}({ARGUMENTS}) {{",
        f"  const int64_t end = lo ? lo : {wave.extent}; (void)hi;",
    ]
    for s in range(1, wave.stages):
        lag = wave.lag(s)
        lines += [
            f"  {stage(section, wave, s, f'end - {lag}', 'end')}",
            f"  {stage(section, wave, s, 'lo', f'lo + {lag}')}",
        ]
    return [*lines, "}"]


def module(kernel: LoopKernel, careful: bool = False) -> str:
    """C of every section."""
    sections = kernel.careful if careful else kernel.sections
    out = [C.prelude]
    for section in sections.values():
        for k, nest in enumerate(section.nests):
            body = CPrinter(kernel).written(nest.way.ranged(nest, kernel))
            out.append("\n".join([f"void part_{section.name}_{k}({ARGUMENTS}) {{", *body, "}"]))
        out.append(driver(kernel, section))
    return "\n".join(out) + "\n"
