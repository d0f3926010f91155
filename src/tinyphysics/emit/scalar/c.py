"""A kernel as readable C: a chunk of members in local arrays, one lane loop that the compiler vectorises.

The arithmetic is spelt out, fused multiply-adds included, so any compiler that is told not to contract
gives the bits of every other backend.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.emit.text.dialects import PRELUDE, TYPE, C, Dialect, expression, literal
from tinyphysics.emit.text.marks import C as SLASHES
from tinyphysics.emit.text.marks import mark, marking
from tinyphysics.emit.text.solved import c_function, name_of, outputs
from tinyphysics.ir.dtype import bool_
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.rules.calculus.solve import part
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import NOW, Section

CHUNK = 32  # lanes of doubles; 64 spills, 16 leaves latency uncovered

ARGUMENTS = (
    "{S}const {T} *in, {S}{R} *out, {S}const double *uniform, {S}const {P} *varying, {S}signed char *flags, "
    "{S}double *series, int64_t {begin}, int64_t {end}, int64_t members, int64_t first, int64_t steps, "
    "int64_t stride"
)


class Names:
    """C names of nodes: variables as they are stored, everything else numbered in order."""

    def __init__(
        self, careful: bool = False, helpers: dict[str, str] | None = None, local: str = "static"
    ) -> None:
        self.table: dict[UOp, str] = {}
        self.local = local  # before a function
        self.careful = careful  # which form functions have that are called
        self.helpers = {} if helpers is None else helpers  # their texts

    def of(self, u: UOp) -> str:
        return literal(u) if u.op is Ops.CONST else self.table[u]

    def lines(self, roots: Sequence[UOp], indent: str) -> list[str]:
        out: list[str] = []
        for u in toposort(roots):
            if u in self.table or u.op in (Ops.CONST, Ops.VAR):
                continue
            if u.op is Ops.SOLVED:
                begin = len(out)
                out += self.solved(u, indent)
                mark(out, begin, u, SLASHES)
                continue
            text = expression(u, [self.of(s) for s in u.src])
            self.table[u] = f"v{len(self.table)}"
            out.append(f"{indent}const {TYPE[u.dtype.name]} {self.table[u]} = {text};")
            mark(out, len(out) - 1, u, SLASHES)
        return out

    def solved(self, u: UOp, indent: str) -> list[str]:
        """One number of a solution; the others come from the same call."""
        which, n, *_ = u.arg
        call, out = part(u, -1), []
        name = name_of(u, self.careful)
        if call not in self.table:
            if name not in self.helpers:
                with marking(None):
                    self.helpers[name] = c_function(
                        u, self.careful, Names(self.careful, self.helpers, self.local), TYPE
                    )
            self.table[call] = f"g{len(self.table)}"
            args = ", ".join([self.table[call], *(self.of(s) for s in u.src)])
            out.append(f"{indent}double {self.table[call]}[{outputs(n)}]; {name}({args});")
        self.table[u] = f"v{len(self.table)}"
        value = f"{self.table[call]}[{which}]{' != 0.0' if u.dtype is bool_ else ''}"
        return [*out, f"{indent}const {TYPE[u.dtype.name]} {self.table[u]} = {value};"]


def function(
    f: Section,
    params: Sequence[UOp],
    varying: Sequence[bool],
    chunk: int,
    name: str = "",
    dialect: Dialect = C,
) -> str:
    """One section as a C function; with a chunk of 1 the lane loop disappears."""
    T = TYPE[f.loads[0].dtype.name] if f.loads else "double"
    lane = "l" if chunk > 1 else "0"
    R = TYPE[f.roots[0].dtype.name] if f.roots else T  # of what it gives: a probe makes doubles of floats
    P = next(
        (TYPE[p.dtype.name] for slot, p in enumerate(params) if varying[slot]), T
    )  # of parameters, one for all
    begin, end = ("start", "stop") if dialect.share else ("begin", "end")
    given = ARGUMENTS.format(T=T, R=R, P=P, S=dialect.space, begin=begin, end=end)
    out = [f"{dialect.function} {name or f.name}({given}) {{"]
    if dialect.share:
        out.append("  " + dialect.share.format(n=chunk))
    out += [
        "  (void)uniform; (void)varying; (void)flags; (void)series; (void)first; (void)steps; (void)stride;"
    ]
    needed = f.needed
    helpers: dict[str, str] = {}
    outer = Names(f.careful, helpers, dialect.local)
    own = frozenset(p for slot, p in enumerate(params) if varying[slot])
    for slot, p in enumerate(params):
        if p in needed and not varying[slot]:
            outer.table[p] = f"p{slot}"
            out.append(f"  const {TYPE[p.dtype.name]} p{slot} = uniform[{slot}];  /* {p.arg} */")
            mark(out, len(out) - 1, p, SLASHES)
    shared = {c: u for c, u in f.invariants.items() if not u.leaves & own}
    out += outer.lines(list(shared.values()), "  ")
    for c, u in shared.items():
        outer.table[c] = outer.of(u)
    # what a stage is weighed by, the same for all members or a row for each stage
    apart = {
        v
        for v, row in f.weights.items()
        if any(u in own or u in f.invariants and u not in shared for u in row)
    }
    for k, (v, row) in enumerate(f.weights.items()):
        if v not in apart:
            out.append(f"  const {TYPE[v.dtype.name]} w{k}[] = {{{', '.join(map(outer.of, row))}}};")
    out.append(f"  for (int64_t lane = begin; lane < end; lane += {chunk}) {{")
    for slot, v in enumerate(f.loads):
        copied = dialect.load.format(a=f"s{slot}", at=f"in + {slot}*members + lane", n=chunk)
        out.append(f"    {T} s{slot}[{chunk}]; {copied}  /* {v.arg} */")
        mark(out, len(out) - 1, v, SLASHES)
    guarded = f.guarded
    if guarded:
        word = "int32_t" if T == "float" else "int64_t"  # as wide as the states
        out.append(f"    {word} seen[{chunk}] = {{0}};")
    for slot, p in enumerate(params):
        if p in needed and varying[slot]:
            out.append(
                f"    {dialect.space}const {P} *p{slot} = varying + {slot}*members + lane;  /* {p.arg} */"
            )

    def inner(indent: str) -> Names:
        names = Names(f.careful, helpers, dialect.local)
        names.table |= outer.table
        names.table |= {p: f"p{slot}[{lane}]" for slot, p in enumerate(params) if p in own}
        for slot, v in enumerate(f.loads):
            names.table[v] = f"s{slot}[{lane}]"
        for k, v in enumerate(f.weights):
            names.table[v] = f"w{k}[s][{lane}]" if v in apart else f"w{k}[s]"
        return names

    def lanes(
        indent: str, roots: Sequence[UOp], guards: Sequence[UOp], store: Sequence[str], by: str = "="
    ) -> list[str]:
        names = inner(indent)
        if f.going is not None and chunk == 1 and by == "=":  # alone, it goes on wherever a step is done
            names.table[f.going] = "1"
        if NOW in needed:
            names.table[NOW] = "now"
        deeper = indent + ("  " if chunk > 1 else "")
        extra = [u for c, u in f.invariants.items() if c not in shared]
        body = names.lines(extra, deeper)
        for c, u in f.invariants.items():
            if c not in shared:
                names.table[c] = names.of(u)
        body += names.lines([*roots, *guards], deeper)
        body += [f"{deeper}seen[{lane}] |= {names.of(g)};" for g in guards]
        values = [names.of(u) for u in roots]
        if store and store[0].startswith("s"):  # all old values are read before the first is replaced
            body += [
                f"{deeper}const {TYPE[u.dtype.name]} n{k} = {v};"
                for k, (u, v) in enumerate(zip(roots, values))
            ]
            values = [f"n{k}" for k in range(len(values))]
        body += [f"{deeper}{where} {by} {v};" for where, v in zip(store, values)]
        if chunk == 1:
            return body
        mark = [dialect.independent] if dialect.independent else []
        return [*mark, f"{indent}for (int l = 0; l < {chunk}; l++) {{", *body, f"{indent}}}"]

    def stored(name: str, count: int) -> list[str]:
        return [
            "    " + dialect.store.format(a=f"{name}{k}", at=f"out + {k}*members + lane", n=chunk)
            for k in range(count)
        ]

    for k, (v, row) in enumerate(f.weights.items()):
        if v in apart:
            out.append(f"    {TYPE[v.dtype.name]} w{k}[{f.stages}][{chunk}];")
            out += lanes("    ", row, (), [f"w{k}[{stage}][{lane}]" for stage in range(f.stages)])
    if f.loops:
        state = [f"s{k}[{lane}]" for k in range(len(f.loads))]
        if f.watched:
            out += ["    for (int64_t j = 0; j < steps; j++) {", "    for (int64_t i = 0; i < stride; i++) {"]
            clock = "first + j*stride + i"
        else:
            out.append("    for (int64_t i = 0; i < steps; i++) {")
            clock = "first + i"
        if f.going is not None:
            out += [
                "      int on = 0;",
                "      {",
                *lanes("      ", [f.going], (), ["on"], "|="),
                "      }",
                "      if (!on) break;",
            ]
        if NOW in needed:
            out.append(f"      const double now = (double)({clock});")
        if f.stages > 1:
            out.append(f"      for (int s = 0; s < {f.stages}; s++) {{")
        out += lanes("      ", f.roots, f.guards, state)
        for t in f.tails:
            out += [
                f"      if ((s + 1) % {t.period} == 0) {{",
                *lanes("        ", t.roots, t.guards, state),
                "      }",
            ]
        out.append("    }" if f.stages == 1 else "    }}")
        if f.watched:
            if NOW in needed:
                out.append("      const double now = (double)(first + (j + 1)*stride);")
            rows = len(f.watched)
            where = [f"series[(j*{rows} + {k})*members + lane + {lane}]" for k in range(rows)]
            out += [*lanes("      ", f.watched, f.watched_guards, where), "    }"]
        out += flag(chunk) if guarded else []
        out += stored("s", len(f.loads))
    else:
        if NOW in needed:
            out.append("    const double now = (double)first;")
        for k in range(len(f.roots)):
            out.append(f"    {R} o{k}[{chunk}];")
        out += lanes("    ", f.roots, f.guards, [f"o{k}[{lane}]" for k in range(len(f.roots))])
        out += flag(chunk) if guarded else []
        out += stored("o", len(f.roots))
    return "\n".join([*helpers.values(), *out, "  }", "}"])


def flag(chunk: int) -> list[str]:
    """A chunk in which a guard fired stores nothing but a mark."""
    return [
        "    int64_t any = 0;",
        f"    for (int l = 0; l < {chunk}; l++) any |= seen[l];",
        "    if (any) { flags[lane] = 1; continue; }",
    ]


def module(
    parts: Sequence[tuple[Section, VectorShape]], params: Sequence[UOp], varying: Sequence[bool]
) -> str:
    """C of some sections, a function each."""
    return PRELUDE + "\n".join(function(f, params, varying, shape.lanes) for f, shape in parts) + "\n"
