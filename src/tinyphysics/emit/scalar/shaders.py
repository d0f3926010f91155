"""A kernel in a shading language: a call for each member, for as many steps as it is asked for.

These languages have numbers of 32 bits and promise little of them. So what is of parameters alone, or of the time alone, is
computed before and handed in (`Handed`), float64 included; and what such a machine may not round once is a function in whole
numbers (rules/functions/whole_float.py), unless its own was found to be right: a switch that is set when a pipeline is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tinyphysics.emit.text.marks import C as SLASHES
from tinyphysics.emit.text.marks import mark, marking
from tinyphysics.emit.text.shading import ROUNDED, WORDS, Shading, as_bits, expression, literal
from tinyphysics.errors import BackendError
from tinyphysics.ir.dtype import DType, bool_, f32, i32, u32
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, substitute, toposort
from tinyphysics.rules.functions import whole_float
from tinyphysics.tpir.kernels.kernel import NOW, Section, Tail

# which of a machine's own operations are right, and does it keep subnormal numbers?  Set when a pipeline is made
SWITCHES = ("OWN_FUSED", "OWN_QUOTIENT", "OWN_ROOT", "KEEPS_SMALL")
HIGH = """  {low_a}
  {low_b}
  {high_a}
  {high_b}
  {middle}
  {rest}
  return high_a * high_b + (middle >> 16u) + (rest >> 16u);"""
ALIKE, EACH, TIMES, MOVING = range(
    4
)  # of what does a number depend: of all, of a member, of the time, of a state


@dataclass(frozen=True, eq=False)
class Handed:
    """What is computed before a call of a section: words for all members, for each of them, for each step."""

    alike: tuple[UOp, ...]
    own: tuple[UOp, ...]
    clock: tuple[UOp, ...]


def section_name(f: Section) -> str:
    return f"section_{f.name}"  # `final` is a word of WGSL


def kinds_of(f: Section, params: Sequence[UOp], varying: Sequence[bool]) -> dict[UOp, int]:
    """Of what each node depends."""
    known = {p: EACH if v else ALIKE for p, v in zip(params, varying)}
    known |= {NOW: TIMES} | dict.fromkeys([*f.loads, *f.weights], MOVING)
    for u in f.needed:
        if u not in known:
            found = {known[s] for s in u.src}
            # of a member and of the time: there is no table of both
            known[u] = MOVING if {EACH, TIMES} <= found else max(found, default=ALIKE)
    return known


def opened(f: Section) -> tuple[Section, dict[UOp, UOp]]:
    """The section with invariants where they are used and halves of 64 bits apart, and which of its nodes each was.

    What is handed in is found anew.
    """
    table = dict(f.invariants)
    halves = {u: half(u) for u in f.needed if u.op is Ops.CAST and u.dtype is u32 and u.src[0].op is Ops.OR}

    def put(roots: Sequence[UOp]) -> tuple[UOp, ...]:
        return tuple(substitute(substitute(list(roots), halves), table))

    before = list(f.needed)
    was = dict(zip(put(before), before)) if table or halves else {}
    new = replace(
        f, roots=put(f.roots), guards=put(f.guards), invariants={},
        weights={w: put(row) for w, row in f.weights.items()},
        tails=tuple(Tail(t.period, put(t.roots), put(t.guards)) for t in f.tails),
        going=None if f.going is None else put([f.going])[0],
    )  # fmt: skip
    return new, was


def half(u: UOp) -> UOp:
    """The low word of a | b, of a and of b: one of them may be of the member, the other of the time."""
    a, b = u.src[0].src
    return a.cast(u32) | b.cast(u32)


class ShaderWriter:
    """One section in one language."""

    def __init__(self, d: Shading, f: Section, params: Sequence[UOp], varying: Sequence[bool]) -> None:
        assert not f.watched, "observables are computed where float64 is"
        self.d = d
        self.f, self.was = opened(f)
        self.kinds = kinds_of(self.f, params, varying)
        self.handed: dict[int, list[UOp]] = {ALIKE: [], EACH: [], TIMES: []}
        self.places: dict[UOp, int] = {}  # rows of those that have a name
        self.rows: dict[
            UOp, tuple[int, int]
        ] = {}  # of what differs from stage to stage: (which table, first row)
        self.count = 0
        self.find()

    # --- what is handed in --------------------------------------------------------------------------
    def find(self) -> None:
        f, kinds = self.f, self.kinds
        for w, row in f.weights.items():
            kind = max(kinds[u] for u in row)
            if kind > EACH:
                refuse("a weight of a stage that depends on the time")
            self.rows[w] = kind, len(self.handed[kind])
            self.handed[kind] += row
        users = [u for u in f.needed if kinds[u] == MOVING]
        for u in dict.fromkeys([s for user in users for s in user.src] + f.everything):
            if kinds[u] != MOVING and u.op is not Ops.CONST:
                self.places[u] = len(self.handed[kinds[u]])
                self.handed[kinds[u]].append(u)
        for u in (*users, *(u for table in self.handed.values() for u in table)):
            if u.dtype not in WORDS:
                refuse(f"numbers of type {u.dtype.name}")

    @property
    def given(self) -> Handed:
        return Handed(*(tuple(self.handed[kind]) for kind in (ALIKE, EACH, TIMES)))

    # --- lines --------------------------------------------------------------------------------------
    def let(self, n: str, t: DType, x: str) -> str:
        return self.d.constant.format(n=n, t=self.d.types[t.name], x=x)

    def var(self, n: str, t: DType, x: str) -> str:
        return self.d.variable.format(n=n, t=self.d.types[t.name], x=x)

    def word(self, t: DType, text: str) -> str:
        return f"{text} != 0u" if t is bool_ else as_bits(self.d, u32, t, text)

    def lines(self, roots: Sequence[UOp], names: dict[UOp, str], indent: str) -> list[str]:
        out: list[str] = []
        for u in toposort(roots, dict.fromkeys(names)):
            if u in names:
                continue
            if u.op is Ops.CONST:
                names[u] = literal(self.d, u)
                continue
            text = expression(self.d, u, [names[s] for s in u.src])
            names[u] = f"v{self.count}"
            self.count += 1
            out.append(indent + self.let(names[u], u.dtype, text))
            mark(out, len(out) - 1, self.was.get(u, u), SLASHES)
        return out

    def tables(self, kind: int, array: str, place: str, names: dict[UOp, str], indent: str) -> list[str]:
        """The words of a table under names."""
        out: list[str] = []
        for u, row in self.places.items():
            if self.kinds[u] != kind:
                continue
            names[u] = f"{'pgw'[kind]}{row}"
            told = f"  // {u.arg}" if u.op is Ops.VAR else ""
            text = self.word(u.dtype, f"{array}[{place.format(k=row)}]")
            out.append(indent + self.let(names[u], u.dtype, text) + told)
            mark(out, len(out) - 1, self.was.get(u, u), SLASHES)
        return out

    def staged(self, names: dict[UOp, str], indent: str) -> list[str]:
        out = []
        for k, (w, (kind, first)) in enumerate(self.rows.items()):
            names[w] = f"o{k}"
            array, place = (
                ("alike", "{k}u + s") if kind == ALIKE else ("own", "({k}u + s)*call.members + lane")
            )
            out.append(
                indent + self.let(names[w], w.dtype, self.word(w.dtype, f"{array}[{place.format(k=first)}]"))
            )
            mark(out, len(out) - 1, w, SLASHES)
        return out

    def text(self, name: str) -> str:
        d, f = self.d, self.f
        out = [d.entry.format(name=name)]
        out += [
            "  " + self.let("lane", u32, f"call.begin + {d.member}"),
            "  if (lane >= call.end) { return; }",
        ]
        names: dict[UOp, str] = {}
        out += self.tables(ALIKE, "alike", "{k}", names, "  ")
        out += self.tables(EACH, "own", "{k}u*call.members + lane", names, "  ")
        for slot, v in enumerate(f.loads):
            line = self.var(f"s{slot}", v.dtype, f"source[{slot}u*call.members + lane]")
            out.append(f"  {line}  // {v.arg}")
            mark(out, len(out) - 1, v, SLASHES)
            names[v] = f"s{slot}"
        if f.guarded:
            out.append("  " + self.var("seen", bool_, "false"))

        def body(
            roots: Sequence[UOp], guards: Sequence[UOp], inner: dict[UOp, str], indent: str
        ) -> list[str]:
            found = self.lines([*roots, *guards], inner, indent)
            found += [f"{indent}seen = seen || {inner[g]};" for g in guards]
            return found

        def moved(roots: Sequence[UOp], inner: dict[UOp, str], indent: str) -> list[str]:
            changed = [(k, u) for k, u in enumerate(roots) if u is not f.loads[k]]
            new = [indent + self.let(f"n{k}", u.dtype, inner[u]) for k, u in changed]
            return [*new, *(f"{indent}s{k} = n{k};" for k, _ in changed)]

        results = [f"s{k}" for k in range(len(f.loads))]
        if f.loops:
            out.append(f"  for ({self.var('i', u32, '0u')} i < call.steps; i++) {{")
            inner = dict(names)
            if f.going is not None:
                gate = dict(inner)
                out += self.lines([f.going], gate, "    ")
                out.append(f"    if (!{gate[f.going]}) {{ break; }}")
            out += self.tables(TIMES, "clock", "{k}u*call.steps + i", inner, "    ")
            deep = "    " if f.stages == 1 else "      "
            if f.stages > 1:
                out.append(f"    for ({self.var('s', u32, '0u')} s < {f.stages}u; s++) {{")
                out += self.staged(inner, deep)
            stage = dict(inner)
            out += body(f.roots, f.guards, stage, deep) + moved(f.roots, stage, deep)
            for t in f.tails:
                tail = dict(inner)
                out.append(f"{deep}if ((s + 1u) % {t.period}u == 0u) {{")
                out += body(t.roots, t.guards, tail, deep + "  ") + moved(t.roots, tail, deep + "  ")
                out.append(deep + "}")
            out.append("  }" if f.stages == 1 else "    }\n  }")
        else:
            out += self.tables(TIMES, "clock", "{k}", names, "  ")
            out += body(f.roots, f.guards, names, "  ")
            results = [names[u] for u in f.roots]
        if f.guarded:
            out.append("  if (seen) { flags[lane] = 1u; return; }")
        if any(u.op in ROUNDED and u.src[0].dtype is f32 and self.kinds[u] == MOVING for u in f.needed):
            out.append("  if (lost) { flags[lane] = 2u; return; }")
        out += [f"  becomes[{k}u*call.members + lane] = {x};" for k, x in enumerate(results)]
        return "\n".join([*out, "}"])


def refuse(what: str) -> None:
    raise BackendError(
        f"a shader (WGSL or GLSL) computes with 32 bits here, and this kernel has {what}",
        fix='Choose precision="float32"; with float64, "wasm" runs in a browser, and "c", "cuda" and "opencl" are text.',
    )


def written(
    d: Shading,
    sections: Sequence[Section],
    params: Sequence[UOp],
    varying: Sequence[bool],
    known: Switches | None = None,
) -> tuple[str, list[Handed]]:
    """(a text with an entry for each section, what is handed to each), for an adapter that is known, or for any."""
    kinds = {v.dtype for f in sections for v in f.loads} | {u.dtype for f in sections for u in f.roots}
    if len(kinds) > 1:
        refuse(" and ".join(sorted(f"numbers of type {k.name}" for k in kinds)))
    kind = next(iter(kinds), f32)
    if kind not in WORDS:
        refuse(f"numbers of type {kind.name}")
    writers = [ShaderWriter(d, f, params, varying) for f in sections]
    entries = [w.text(section_name(f)) for w, f in zip(writers, sections)]
    head = d.head.format(T=d.types[kind.name])
    used = {name for name in ("mulhi", *HELPERS) if any(f" {name}(" in text for text in entries)}
    used |= {n for n in FROM if any(f" {n}(" in text for text in entries)}
    used |= {"plus"} if not used & set(HELPERS) and any("opposite(" in text for text in entries) else set()
    used |= {"same"} if any(" !same(" in text for text in entries) else set()
    return "\n".join([head, helpers(d, frozenset(used), known), *entries]) + "\n", [w.given for w in writers]


@dataclass(frozen=True)
class Helper:
    """An operation on floats: the machine's own, or in whole numbers where that may be wrong.

    `lost` says of the arguments and of the machine's result r whether subnormal numbers, if it loses them, could matter: then
    the member is marked, and done again elsewhere.
    """

    given: str
    own: str
    lost: str
    switch: str = ""  # its own may be wrong for normal numbers too
    whole: Callable[..., UOp] | None = None
    is_truth: bool = False


NORMAL = "0x00800000u"  # the size of 2**-126
FINITE = "0x7f800000u"  # sizes of finite numbers are below this one
PLAIN = f"0x{(127 - 100) << 23:08x}u"  # of 2**-100: a number below 2**-126, added, changes nothing
SMALL = f"size(x) < {NORMAL} && size(y) < {NORMAL} && (odd(x) || odd(y))"
SUM = f"size(r) < {PLAIN} && (odd(x) || odd(y) || (size(r) < {NORMAL} && size(x) != size(y)))"
HELPERS: dict[str, Helper] = {
    "fused":    Helper("xyz", "fma(x, y, z)", f"odd(x) || odd(y) || odd(z) || (size(r) < {NORMAL} && size(x) != 0u && "
                       "size(y) != 0u)", "OWN_FUSED", whole_float.fused),
    "quotient": Helper("xy", "x / y", f"odd(x) || odd(y) || (size(r) < {NORMAL} && size(x) != 0u && size(y) < {FINITE})",
                       "OWN_QUOTIENT", whole_float.quotient),
    "root":     Helper("x", "sqrt(x)", "odd(x)", "OWN_ROOT", whole_float.root),
    "plus":     Helper("xy", "x + y", SUM),
    "minus":    Helper("xy", "x - y", SUM),
    "times":    Helper("xy", "x * y", f"size(r) < {NORMAL} && size(x) != 0u && size(y) != 0u"),
    "below":    Helper("xy", "x < y", SMALL, is_truth=True),
    "atmost":   Helper("xy", "x <= y", SMALL, is_truth=True),
    "same":     Helper("xy", "x == y", SMALL, is_truth=True),
}  # fmt: skip
# a whole number by its halves, which are exact: their sum is rounded once
FROM = {
    "from_u32": "{t}(x >> 16u) * 65536.0 + {t}(x & 65535u)",
    "from_i32": "from_u32({size})",
}
Switches = Mapping[str, bool]


def helpers(d: Shading, names: frozenset[str], known: Switches | None = None) -> str:
    """The functions that entries call."""
    with marking(None):
        return helper_texts(d, names, None if known is None else tuple(sorted(known.items())))


@lru_cache(maxsize=32)
def helper_texts(d: Shading, names: frozenset[str], known: tuple[tuple[str, bool], ...] | None) -> str:
    table = None if known is None else dict(known)
    t = {f32: d.types["f32"], u32: d.types["u32"], bool_: d.types["bool"]}
    out: list[str] = []

    def head(name: str, given: Sequence[str], kind: DType) -> str:
        told = ", ".join(d.argument.format(n=n, t=t[f32]) for n in given)
        return d.helper.format(name=name, given=told, t=t[kind])

    used = [(n, h) for n, h in HELPERS.items() if n in names]
    if table is None:
        wanted = {h.switch for _, h in used} | ({"KEEPS_SMALL"} if used else set())
        out += [d.own.format(name=s, k=k) for k, s in enumerate(SWITCHES) if s in wanted]
    if "mulhi" in names or any(n == "fused" and (table is None or not table[h.switch]) for n, h in used):
        out.append(high_product(d))
    for name, body in FROM.items():
        if name in names or "from_i32" in names:
            given = d.argument.format(n="x", t=d.types[name[5:]])
            lines = body.format(
                t=t[f32], u=t[u32], size=as_bits(d, i32, u32, d.choice.format(c="x < 0", a="0 - x", b="x"))
            )
            choice = d.choice.format(c="x < 0", a="-r", b="r")
            out += [d.helper.format(name=name, given=given, t=t[f32])]
            r = d.constant.format(n="r", t=t[f32], x=lines)
            out += [f"  {r}", f"  return {'r' if name == 'from_u32' else choice};", "}"]
    if used:
        bare = f"{as_bits(d, f32, u32, 'x')} & 0x7fffffffu"
        out += [d.private.format(n="lost", t=t[bool_], x="false")]
        out += [head("size", "x", u32), f"  return {bare};", "}"]
        turned = as_bits(d, u32, f32, f"({as_bits(d, f32, u32, 'x')} ^ 0x80000000u)")
        out += [head("opposite", "x", f32), f"  return {turned};", "}"]
        out += [head("odd", "x", bool_), f"  return size(x) != 0u && size(x) < {NORMAL};", "}"]
    for name, h in used:
        out += [head(name, h.given, bool_ if h.is_truth else f32)]
        sure = table is not None and (not h.switch or table[h.switch])
        keeps = table is not None and table["KEEPS_SMALL"]
        mine = [d.constant.format(n="r", t=t[bool_ if h.is_truth else f32], x=h.own)]
        if not keeps:
            mine.append(f"lost = lost || ({'' if table is not None else '!KEEPS_SMALL && '}({h.lost}));")
        mine.append("return r;")
        if h.whole is None or sure:
            out += [*("  " + line for line in mine), "}"]
            continue
        if table is None:
            out += [f"  if ({h.switch}) {{", *("    " + line for line in mine), "  }"]
        arguments = [UOp.var(n, (), f32) for n in h.given]
        inside, result = leaf(d, arguments, h.whole(*arguments))
        out += [*inside, f"  return {result};", "}"]
    return "\n".join(out)


def high_product(d: Shading) -> str:
    """The upper half of a product, which WGSL has no operation for."""
    u = d.types["u32"]
    given = ", ".join(d.argument.format(n=n, t=u) for n in "ab")
    lines = {
        "low_a": "a & 65535u", "low_b": "b & 65535u", "high_a": "a >> 16u", "high_b": "b >> 16u",
        "middle": "high_a * low_b + ((low_a * low_b) >> 16u)",
        "rest": "low_a * high_b + (middle & 65535u)",
    }  # fmt: skip
    told = {n: d.constant.format(n=n, t=u, x=x) for n, x in lines.items()}
    body = HIGH.format(**told)
    return "\n".join([d.helper.format(name="mulhi", given=given, t=u), body, "}"])


def leaf(d: Shading, arguments: Sequence[UOp], value: UOp) -> tuple[list[str], str]:
    """(the lines of a function of numbers, its result); operations on floats in it are the machine's own."""
    names = {a: str(a.arg) for a in arguments}
    out: list[str] = []
    for k, u in enumerate(toposort([value], dict.fromkeys(arguments))):
        if u in names:
            continue
        if u.op is Ops.CONST:
            names[u] = literal(d, u)
            continue
        text = expression(d, u, [names[s] for s in u.src], plainly=True)
        names[u] = f"t{k}"
        out.append("  " + d.constant.format(n=names[u], t=d.types[u.dtype.name], x=text))
    return out, names[value]


# --- what an adapter is asked (device/webgpu/probe.py) ----------------------------------------------
PROBED = (
    "x + y",
    "x - y",
    "x * y",
    "x / y",
    "sqrt(abs(x))",
    "fma(x, y, z)",
    "(x + y) - x",
    "x * y + z",
    "-x",
)
# and what a kernel does in their place, with the bit of `flags` that says that a subnormal number was lost
OURS = ("plus(x, y)", "minus(x, y)", "times(x, y)", "quotient(x, y)", "root(abs(x))", "fused(x, y, z)",
        "minus(plus(x, y), x)", "plus(times(x, y), z)", "select(0.0, 1.0, below(x, y))",
        "select(0.0, 1.0, atmost(x, y))", "select(0.0, 1.0, same(x, y))", "opposite(x)",
        "from_u32(bitcast<u32>(x))", "from_i32(bitcast<i32>(x))")  # fmt: skip


@lru_cache(maxsize=8)
def probe_text(d: Shading) -> str:
    """What an adapter does itself, a row for each operation on the three numbers of a column."""
    return probing(d, PROBED, (), None)


def second_probe_text(d: Shading, known: Switches | None) -> str:
    """What kernels do there, by what was found; without it, with switches."""
    return probing(d, (), OURS, known)


def probing(d: Shading, plain: Sequence[str], ours: Sequence[str], known: Switches | None) -> str:
    out = [d.head.format(T=d.types["f32"])]
    out += [helpers(d, frozenset([*HELPERS, *FROM]), known)] if ours else []
    out += [d.entry.format(name="probe")]
    out.append("  " + d.constant.format(n="lane", t=d.types["u32"], x=f"call.begin + {d.member}"))
    out.append("  if (lane >= call.end) { return; }")
    for k, n in enumerate("xyz"):
        out.append("  " + d.constant.format(n=n, t=d.types["f32"], x=f"source[{k}u*call.members + lane]"))
    out += [f"  becomes[{k}u*call.members + lane] = {x};" for k, x in enumerate(plain)]
    for k, x in enumerate(ours):
        out += ["  lost = false;", f"  becomes[{k}u*call.members + lane] = {x};"]
        out.append(f"  if (lost) {{ flags[lane] = flags[lane] | {1 << k}u; }}")
    return "\n".join([*out, "}"]) + "\n"
