"""A kernel as readable C: a chunk of members in local arrays, one lane loop that the compiler vectorises.

The arithmetic is spelt out, fused multiply-adds included, so any compiler that is told not to contract
gives the bits of every other backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinyphysics.emit.text.solved import c_function, name_of, outputs
from tinyphysics.ir.dtype import DType, bool_, f32
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.rules.calculus.solve import part
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import NOW, Section

CHUNK = 32  # lanes of doubles; 64 spills, 16 leaves latency uncovered

TYPE = {
    "f64": "double",
    "f32": "float",
    "i64": "int64_t",
    "i32": "int32_t",
    "i16": "int16_t",
    "i8": "int8_t",
    "u64": "uint64_t",
    "u32": "uint32_t",
    "bool": "int",
}
PRELUDE = """#include <math.h>
#include <stdint.h>
#include <string.h>
static inline int64_t f64_to_i64(double x) { int64_t b; memcpy(&b, &x, 8); return b; }
static inline double i64_to_f64(int64_t b) { double x; memcpy(&x, &b, 8); return x; }
static inline int32_t f32_to_i32(float x) { int32_t b; memcpy(&b, &x, 4); return b; }
static inline float i32_to_f32(int32_t b) { float x; memcpy(&x, &b, 4); return x; }
#define div_f32(a, b) ((a) / (b))
"""
ARGUMENTS = (
    "{S}const {T} *in, {S}{R} *out, {S}const double *uniform, {S}const {P} *varying, {S}signed char *flags, "
    "{S}double *series, int64_t {begin}, int64_t {end}, int64_t members, int64_t first, int64_t steps, "
    "int64_t stride"
)


@dataclass(frozen=True)
class Dialect:
    """What languages of the C family say differently; all else is the same text after their preludes."""

    prelude: str
    function: str  # what stands before the name of a function that the host calls
    space: str  # before a pointer to memory that the host gave
    constant: str  # before a table of constants inside a function
    independent: str  # a line before a loop whose iterations share nothing; empty: none
    load: str  # a local array {a} of {n} numbers, filled from a place {at} in memory
    store: str
    share: str  # which lanes are its own, where a function is called for all at once; {n}: lanes of a chunk
    local: str = "static"  # before a function that only this text calls


C = Dialect(
    PRELUDE,
    "void",
    "",
    "static const",
    "#pragma GCC ivdep",
    "memcpy({a}, {at}, sizeof {a});",
    "memcpy({at}, {a}, sizeof {a});",
    "",
)

INFIX = {
    Ops.ADD: "+",
    Ops.SUB: "-",
    Ops.MUL: "*",
    Ops.DIV: "/",
    Ops.AND: "&",
    Ops.OR: "|",
    Ops.XOR: "^",
    Ops.LT: "<",
    Ops.LE: "<=",
    Ops.EQ: "==",
    Ops.NE: "!=",
}


def literal(u: UOp) -> str:
    if u.dtype.is_float:
        x = float(u.arg)
        if x != x:
            return "NAN"
        if x in (float("inf"), float("-inf")):
            return "INFINITY" if x > 0 else "(-INFINITY)"
        text = x.hex() if u.dtype is not f32 else x.hex() + "f"
        return f"({text})" if x < 0 or text.startswith("-") else text
    if u.dtype is bool_:
        return "1" if u.arg else "0"
    if u.dtype.bits == 64:
        return f"(int64_t)UINT64_C({u.arg % 2**64})" if u.dtype.kind == "i" else f"UINT64_C({u.arg})"
    if u.dtype.bits < 32:
        return f"({TYPE[u.dtype.name]})({u.arg})"
    return f"(int32_t)UINT32_C({u.arg % 2**32})" if u.dtype.kind == "i" else f"UINT32_C({u.arg})"


def bitcast(source: DType, target: DType, a: str) -> str:
    if source.is_float == target.is_float:
        return f"({TYPE[target.name]}){a}"
    if source.is_float:
        return f"({TYPE[target.name]}){source.name}_to_i{source.bits}({a})"
    return f"i{target.bits}_to_{target.name}((int{target.bits}_t){a})"


def expression(u: UOp, a: Sequence[str]) -> str:
    """One operation on named values."""
    t = TYPE[u.dtype.name]
    own = f"uint{u.dtype.bits}_t"
    wide = f"uint{max(u.dtype.bits, 32)}_t"  # shorter ones would be made int, which does not wrap
    match u.op:
        case Ops.FMA:
            return f"{'fmaf' if u.dtype is f32 else 'fma'}({a[0]}, {a[1]}, {a[2]})"
        case Ops.SQRT:
            return f"{'sqrtf' if u.dtype is f32 else 'sqrt'}({a[0]})"
        case Ops.DIV if u.dtype is f32:
            return f"div_f32({a[0]}, {a[1]})"
        case Ops.WHERE:
            return f"{a[0]} ? {a[1]} : {a[2]}"
        case Ops.NEG:
            return f"-{a[0]}" if u.dtype.is_float else f"({t})(0 - ({wide}){a[0]})"
        case Ops.NOT:
            return f"!{a[0]}" if u.dtype is bool_ else f"~{a[0]}"
        case Ops.CAST:
            return f"({t}){a[0]}"
        case Ops.BITCAST:
            return bitcast(u.src[0].dtype, u.dtype, a[0])
        case Ops.SHL:
            return f"({t})(({wide}){a[0]} << {a[1]})"
        case Ops.SHR:
            return f"({t})(({own}){a[0]} >> {a[1]})"
        case Ops.SAR:  # of what is negative, the complement: C leaves it open what comes in from the left
            return f"({t})({a[0]} < 0 ? ~(~{a[0]} >> {a[1]}) : {a[0]} >> {a[1]})"
        case Ops.TDIV:
            return f"({t})({a[0]} / {a[1]})"
        case Ops.MULHI:
            return f"(uint32_t)(((uint64_t){a[0]} * {a[1]}) >> 32)"
        case Ops.ADD | Ops.SUB | Ops.MUL if u.dtype.is_int:  # integers wrap
            return f"({t})(({wide}){a[0]} {INFIX[u.op]} ({wide}){a[1]})"
    return f"{a[0]} {INFIX[u.op]} {a[1]}"


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
        out = []
        for u in toposort(roots):
            if u in self.table or u.op in (Ops.CONST, Ops.VAR):
                continue
            if u.op is Ops.SOLVED:
                out += self.solved(u, indent)
                continue
            text = expression(u, [self.of(s) for s in u.src])
            self.table[u] = f"v{len(self.table)}"
            out.append(f"{indent}const {TYPE[u.dtype.name]} {self.table[u]} = {text};")
        return out

    def solved(self, u: UOp, indent: str) -> list[str]:
        """One number of a solution; the others come from the same call."""
        which, n, *_ = u.arg
        call, out = part(u, -1), []
        name = name_of(u, self.careful)
        if call not in self.table:
            if name not in self.helpers:
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
