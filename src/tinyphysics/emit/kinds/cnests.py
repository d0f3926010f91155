"""Loop nests as readable C: one function for each nest over a range of its outermost loop, one for each section.

The loops are those of the nest, written out; the compiler may vectorise them as it likes, since no two
iterations of a map share a number and sums are taken in the order that is spelt out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tinyphysics.emit.kinds.kinds import KINDS
from tinyphysics.emit.loops.nest_writer import IDENTITY
from tinyphysics.emit.text.dialects import TYPE, C, Dialect, expression, literal
from tinyphysics.emit.text.print_c import CPrinter, c_name
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.reduction import PAIR_LANES, slabs
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.tpir.kernels.kernel import NOW
from tinyphysics.tpir.kernels.neighbours import FIRST
from tinyphysics.tpir.kernels.nests import LoopKernel, LoopSection, Nest, Piece, Store
from tinyphysics.tpir.kernels.wavefront import Wavefront, wavefront
from tinyphysics.util import prod

ARGUMENTS = "void **buffers, const double *uniform, signed char *flags, int64_t lo, int64_t hi, int64_t now"


def touched(nest: Nest) -> list[str]:
    """The buffers that a nest reads or writes."""
    used = dict.fromkeys(u.arg[0] for u in nest.loads())
    return list(used | dict.fromkeys(s.buffer for p in nest.pieces for s in p.stores))


@dataclass
class NestText:
    kernel: LoopKernel
    nest: Nest
    dialect: Dialect = C
    lines: list[str] = field(default_factory=list)
    names: dict[UOp, str] = field(default_factory=dict)
    pointers: dict[str, str] = field(default_factory=dict)
    depth: int = 1
    count: int = 0
    unused: str = "(void)uniform; (void)now; (void)lo; (void)hi;"

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def open(self, text: str) -> None:
        self.line(text + " {")
        self.depth += 1

    def independent(self) -> None:
        self.lines += [self.dialect.independent] if self.dialect.independent else []

    def close(self) -> None:
        self.depth -= 1
        self.line("}")

    def of(self, u: UOp) -> str:
        return literal(u) if u.op is Ops.CONST else self.names[u]

    def place(self, buffer: str, plane: int | str, index: Sequence[UOp]) -> str:
        b = self.kernel.buffers[buffer]
        parts = [str(plane * b.plane) if isinstance(plane, int) else f"({plane})*{b.plane}"]
        for k, i in enumerate(index):
            stride = prod(b.axes[k + 1 :])
            parts.append(self.of(i) if stride == 1 else f"{self.of(i)}*{stride}")
        return f"{self.pointers[buffer]}[{' + '.join(p for p in parts if p != '0') or '0'}]"

    def level(self, u: UOp) -> int:
        variables = [*self.nest.variables, *([self.nest.along[0]] if self.nest.along else [])]
        return max((k + 1 for k, v in enumerate(variables) if v in u.leaves), default=0)

    def values(self, nodes: Sequence[UOp], level: int | None = None) -> None:
        for u in nodes:
            if (
                u in self.names
                or u.op in (Ops.CONST, Ops.VAR)
                or level is not None
                and self.level(u) != level
            ):
                continue
            text = (
                self.place(u.arg[0], u.arg[1], u.src)
                if u.op is Ops.LOAD
                else expression(u, [self.of(s) for s in u.src])
            )
            self.count += 1
            self.names[u] = f"v{self.count}"
            self.line(f"const {TYPE[u.dtype.name]} v{self.count} = {text};")

    def scoped(self, keep: dict[UOp, str]) -> None:
        self.names = dict(keep)

    def pointer(self, buffer: str) -> str:
        """A buffer as it is declared."""
        self.pointers[buffer] = c_name(f"b_{buffer}")
        return f"{self.dialect.space}{TYPE[self.kernel.buffers[buffer].dtype.name]} *{self.pointers[buffer]}"

    def begin(self) -> list[UOp]:
        nodes = toposort([u for p in self.nest.pieces for u in p.roots])
        slots = list(self.kernel.buffers)
        for name in touched(self.nest):
            if name not in self.pointers:  # an argument of its own otherwise
                self.line(f"{self.pointer(name)} = buffers[{slots.index(name)}];  /* {name} */")
        for slot, p in enumerate(self.kernel.params):
            if any(p is u for u in nodes):
                name = c_name(str(p.arg))
                # in float32 a clock asks for dt in float64 too: two parameters of one name
                self.names[p] = f"{name}_{slot}" if name in self.names.values() else name
                self.line(f"const {TYPE[p.dtype.name]} {self.names[p]} = uniform[{slot}];")
        if any(u is NOW for u in nodes):
            self.names[NOW] = "clock"
            self.line("const double clock = (double)now;")
        self.line(self.unused)
        self.line("int seen = 0;")
        self.values(nodes, 0)
        return nodes

    def combined(self, s: Store, a: str, b: str) -> str:
        assert s.combine is not None
        if s.combine is Ops.ADD:
            return f"{a} + {b}"
        x, y = UOp.var("a", (), s.value.dtype), UOp.var("b", (), s.value.dtype)
        (graph,) = lower([x.alu(s.combine, y)])
        names = {x: a, y: b}
        for u in toposort([graph]):
            if u not in names:
                names[u] = (
                    literal(u) if u.op is Ops.CONST else f"({expression(u, [names[v] for v in u.src])})"
                )
        return names[graph]

    def identity(self, s: Store) -> str:
        assert s.combine is not None
        return literal(UOp.const(IDENTITY[s.combine], s.value.dtype))

    def guards(self, p: Piece) -> None:
        for g in p.guards:
            self.line(f"seen |= {self.of(g)};")

    def fold(self, s: Store, acc: str, lanes: int) -> None:
        self.line(
            f"for (int w = {lanes // 2}; w; w /= 2) for (int l = 0; l < w; l++) {acc}[l] = "
            f"{self.combined(s, f'{acc}[l]', f'{acc}[l + w]')};"
        )

    # --- kinds --------------------------------------------------------------------------------
    def write(self) -> list[str]:
        self.pairs(self.begin())
        self.line("if (seen) *flags = 1;")
        return self.lines

    def buffer(self, name: str) -> str:
        """One that no expression reads."""
        return f"buffers[{list(self.kernel.buffers).index(name)}]"

    def pairs(self, nodes: Sequence[UOp]) -> None:
        (size,), (piece,) = self.nest.sizes, self.nest.pieces
        i, j = self.nest.variables
        rows = [s for s in piece.stores if s.index[0] is i]
        columns = [s for s in piece.stores if s.index[0] is j]
        cuts = slabs(size, self.nest.near is not None)
        self.line(f"{self.dialect.constant} int64_t cuts[] = {{{', '.join(map(str, cuts))}}};")
        if self.nest.near is not None:
            self.line(f"const int64_t *spans = {self.buffer(f'near{self.nest.near}.spans')};")
        self.open("for (int64_t slab = lo; slab < hi; slab++)")
        for k, s in enumerate(columns):
            b = self.kernel.buffers[s.buffer]
            plane = f"slab*{b.planes // (len(cuts) - 1)} + {s.plane}"
            t = TYPE[s.value.dtype.name]
            self.line(f"{self.dialect.space}{t} *column{k} = &{self.place(s.buffer, plane, ())};")
            span = ("0", str(size)) if self.nest.near is None else ("spans[2*slab]", "spans[2*slab + 1]")
            self.line(f"for (int64_t l = {span[0]}; l < {span[1]}; l++) column{k}[l] = {self.identity(s)};")
        self.names[i], self.names[j] = "i", "j"
        self.open("for (int64_t i = cuts[slab]; i < cuts[slab + 1]; i++)")
        self.values(nodes, 1)
        for k, s in enumerate(rows):
            self.line(f"{TYPE[s.value.dtype.name]} row{k}[{PAIR_LANES}];")
            self.line(f"for (int l = 0; l < {PAIR_LANES}; l++) row{k}[l] = {self.identity(s)};")
        keep = dict(self.names)

        def body(lane: str) -> None:
            self.scoped(keep)
            self.values(toposort(piece.roots))
            for k, s in enumerate(rows):
                self.line(f"row{k}[{lane}] = {self.combined(s, f'row{k}[{lane}]', self.of(s.value))};")
            for k, s in enumerate(columns):
                self.line(f"column{k}[j] = {self.combined(s, f'column{k}[j]', self.of(s.value))};")
            self.guards(piece)

        if self.nest.near is not None:
            starts, blocks = (self.buffer(f"near{self.nest.near}.{what}") for what in ("starts", "blocks"))
            self.line(f"const int64_t *starts = {starts}; const int32_t *blocks = {blocks};")
            self.open("for (int64_t e = starts[i]; e < starts[i + 1]; e++)")
            self.line(
                f"const int64_t block = (int64_t)(blocks[e] >> {FIRST}) << 3, from = block > i ? block : i + 1;"
            )
            self.line(f"const int64_t to = block + {PAIR_LANES} < {size} ? block + {PAIR_LANES} : {size};")
            self.independent()
            self.open("for (int64_t j = from; j < to; j++)")
            body(f"j & {PAIR_LANES - 1}")
            self.close()
            self.close()
            self.scoped(keep)
            self.row_sums(rows)
            return
        edge = -PAIR_LANES
        self.line(f"int64_t block = (i + {PAIR_LANES}) & {edge};")
        self.open(f"for (int64_t j = i + 1; j < block && j < {size}; j++)")
        body(f"j & {PAIR_LANES - 1}")
        self.close()
        self.open(f"for (; block + {PAIR_LANES} <= {size}; block += {PAIR_LANES})")
        self.independent()
        self.open(f"for (int l = 0; l < {PAIR_LANES}; l++)")
        self.line("const int64_t j = block + l;")
        body("l")
        self.close()
        self.close()
        self.open(f"for (int64_t j = block; j < {size}; j++)")
        body(f"j & {PAIR_LANES - 1}")
        self.close()
        self.scoped(keep)
        self.row_sums(rows)

    def row_sums(self, rows: Sequence[Store]) -> None:
        """The end of a row of pairs, and of its slab."""
        for k, s in enumerate(rows):
            self.fold(s, f"row{k}", PAIR_LANES)
            self.line(f"{self.place(s.buffer, s.plane, s.index)} = row{k}[0];")
        self.close()
        self.close()


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
    for turn in section.turns:
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
    lines += ["    }"] if section.rolled else []
    return "\n".join(
        [*before, *lines, "  }", "  (void)buffers; (void)uniform; (void)flags; (void)first;", "}"]
    )


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


def nest_lines(kernel: LoopKernel, nest: Nest) -> list[str]:
    if (kind := KINDS.get(nest.kind)) is not None:
        return CPrinter(kernel).written(kind.ranged(nest, kernel))
    return NestText(kernel, nest).write()


def module(kernel: LoopKernel, careful: bool = False) -> str:
    """C of every section."""
    sections = kernel.careful if careful else kernel.sections
    out = [C.prelude]
    for section in sections.values():
        for k, nest in enumerate(section.nests):
            body = nest_lines(kernel, nest)
            out.append("\n".join([f"void part_{section.name}_{k}({ARGUMENTS}) {{", *body, "}"]))
        out.append(driver(kernel, section))
    return "\n".join(out) + "\n"
