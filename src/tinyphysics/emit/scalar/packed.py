"""How does one system of bodies run in vectors?  Its time loop with packs of operations, states as vectors round it.

Only where one member runs alone: an ensemble fills the lanes with members. Nothing here decides a bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tinyphysics.emit.scalar.packs import WIDE, Pack, Packs, is_negation, packs_of, packs_of_pairs, unsigned
from tinyphysics.emit.text.writer import TYPE, Writer, literal
from tinyphysics.ir.dtype import bool_
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.tpir.kernels.kernel import Section

COMPONENTS = 3  # of a point in space
SIGN = -(1 << 63)  # the bit of it in a double, as an integer
FEWEST = 3  # bodies, and pairs of them, that share vectors
LONGEST = 20_000  # operations of a step; sets of all that each of them needs take 50 MB


def columns(f: Section) -> list[tuple[int, ...]]:
    """Slots that are one component of bodies: rows but the first of each array of points."""
    arrays: dict[str, list[int]] = {}
    for slot, v in enumerate(f.loads):
        arrays.setdefault(str(v.arg).partition(".")[0], []).append(slot)
    out = []
    for slots in arrays.values():
        if len(slots) == COMPONENTS * (f.bodies + 1):
            for c in range(COMPONENTS):
                rows = slots[COMPONENTS + c :: COMPONENTS]
                out += [tuple(rows[k : k + WIDE]) for k in range(0, len(rows), WIDE)]
    return [rows for rows in out if len(rows) > 1]


Layout = tuple[
    list[tuple[int, ...]], Packs
]  # slots that go round the loop as vectors, and what is done in them


@dataclass
class Body:
    """One pass of the loop as it is written: names of vectors by what is in their lanes, and of scalars."""

    w: Writer
    packs: Packs
    scalars: dict[UOp, str]
    vectors: dict[Pack, str]
    loaded: dict[UOp, tuple[Pack, int]] = field(default_factory=dict)  # a load that is a lane of a vector

    def origin(self, u: UOp) -> tuple[Pack, int] | None:
        return self.packs.lane.get(u) or self.loaded.get(u)

    def type(self, u: UOp, lanes: int) -> str:
        return f"<{lanes} x {TYPE[u.dtype.name]}>"

    def scalar(self, u: UOp) -> str:
        if u.op is Ops.CONST:
            return literal(u)
        if u not in self.scalars:
            at = self.origin(u)
            if at is None and u.op is Ops.NEG:
                self.scalar(u.src[0])
                self.w.operation(u, self.scalars)
                return self.scalars[u]
            assert at is not None
            p, k = at
            self.scalars[u] = self.w.new(f"extractelement {self.type(u, len(p))} {self.vectors[p]}, i64 {k}")
        return self.scalars[u]

    def vector(self, p: Pack) -> str:
        """Some nodes side by side, wherever they are."""
        if p not in self.vectors:
            self.vectors[p] = self.gathered(p)
        return self.vectors[p]

    def gathered(self, p: Pack) -> str:
        flips = [is_negation(u) for u in p]
        if self.packs.signed and any(flips) and self.aside(unsigned(p)):
            return self.negated(self.vector(unsigned(p)), flips)
        w, t, e = self.w, self.type(p[0], len(p)), TYPE[p[0].dtype.name]
        if all(u.op is Ops.CONST for u in p):
            return "<" + ", ".join(f"{e} {literal(u)}" for u in p) + ">"
        if all(u is p[0] for u in p):
            one = self.scalar(p[0])
            w.width = len(p)
            out = w.splat(one, p[0].dtype)
            w.width = 1
            return out
        at = [self.origin(u) for u in p]
        sources = list(dict.fromkeys(x[0] for x in at if x is not None))
        if all(x is not None for x in at) and len(sources) <= 2 and len({len(s) for s in sources}) == 1:
            s = self.type(p[0], len(sources[0]))
            a, b = self.vectors[sources[0]], self.vectors[sources[1]] if len(sources) > 1 else "poison"
            lanes = ", ".join(
                f"i32 {x[1] + len(x[0]) * (x[0] is not sources[0])}" for x in at if x is not None
            )
            return w.new(f"shufflevector {s} {a}, {s} {b}, <{len(p)} x i32> <{lanes}>")
        if self.packs.signed and all(x is not None for x in at):
            return self.collected(p, [x for x in at if x is not None])
        out = "poison"
        for k, u in enumerate(p):
            out = w.new(f"insertelement {t} {out}, {e} {self.scalar(u)}, i64 {k}")
        return out

    def aside(self, p: Pack) -> bool:
        """Are all of them lanes of vectors?"""
        return all(self.origin(u) is not None for u in p)

    def negated(self, name: str, which: Sequence[bool]) -> str:
        """Other signs of some lanes, whatever is in them."""
        n, w = len(which), self.w
        if all(which):
            return w.new(f"fneg <{n} x double> {name}")
        flips = ", ".join(f"i64 {SIGN if x else 0}" for x in which)
        bits = w.new(f"bitcast <{n} x double> {name} to <{n} x i64>")
        other = w.new(f"xor <{n} x i64> {bits}, <{flips}>")
        return w.new(f"bitcast <{n} x i64> {other} to <{n} x double>")

    def collected(self, p: Pack, at: Sequence[tuple[Pack, int]]) -> str:
        """Lanes from any number of vectors, two at a time."""
        sources = list(dict.fromkeys(x[0] for x in at))
        most = max(len(p), *(len(s) for s in sources))
        t, w = self.type(p[0], most), self.w
        out, there = self.widened(sources[0], most), {k: x[1] for k, x in enumerate(at) if x[0] is sources[0]}
        for n, s in enumerate(sources[1:], 1):
            there |= {k: most + x[1] for k, x in enumerate(at) if x[0] is s}
            count = len(p) if n == len(sources) - 1 else most
            lanes = ", ".join(f"i32 {there[k]}" if k in there else "i32 poison" for k in range(count))
            out = w.new(f"shufflevector {t} {out}, {t} {self.widened(s, most)}, <{count} x i32> <{lanes}>")
            there = {k: k for k in there}
        return out

    def widened(self, p: Pack, most: int) -> str:
        if len(p) == most:
            return self.vectors[p]
        t = self.type(p[0], len(p))
        lanes = ", ".join(f"i32 {k}" if k < len(p) else "i32 poison" for k in range(most))
        return self.w.new(f"shufflevector {t} {self.vectors[p]}, {t} poison, <{most} x i32> <{lanes}>")

    def operands(self, p: Pack) -> list[Pack]:
        return [tuple(u.src[j] for u in p) for j in range(len(p[0].src))]

    def write(self, unit: object) -> None:
        if isinstance(unit, tuple):
            self.together(unit)
        elif isinstance(unit, UOp) and self.packs.signed and unit.op is Ops.NEG:
            return  # where it is asked for
        elif isinstance(unit, UOp) and unit not in self.scalars and unit.op not in (Ops.CONST, Ops.VAR):
            for s in unit.src:
                if s.op is not Ops.CONST:
                    self.scalar(s)
            self.w.operation(unit, self.scalars)

    def together(self, p: Pack) -> None:
        if p in self.vectors:
            return
        u, env, src = p[0], dict[UOp, str](), []
        if len({x.op for x in p}) > 1:
            self.vectors[p] = self.summed(p)
            return
        for j, xs in enumerate(self.operands(p)):
            if all(x is xs[0] for x in xs) and xs[0].op is Ops.CONST:
                src.append(xs[0])
                continue
            variable = UOp.var(f"lanes {j}", (), xs[0].dtype)
            env[variable] = self.vector(xs)
            src.append(variable)
        one = u.replace(tuple(src))
        self.w.width = len(p)
        self.w.operation(one, env)
        self.w.width = 1
        self.vectors[p] = env[one]

    def summed(self, p: Pack) -> str:
        """Sums and differences: a - b is a + (-b), in its bits too."""
        a, b = (self.vector(xs) for xs in self.operands(p))
        b = self.negated(b, [u.op is Ops.SUB for u in p])
        return self.w.new(f"fadd <{len(p)} x double> {a}, {b}")


def in_order(packs: Packs) -> list[object]:
    """Packs and single operations, each after what it needs."""
    done: dict[object, None] = {}
    for root in packs.order:
        stack: list[tuple[object, bool]] = [(packs.unit(root), False)]
        while stack:
            unit, ready = stack.pop()
            if unit in done:
                continue
            if ready:
                done[unit] = None
            else:
                stack.append((unit, True))
                stack += [(x, False) for x in packs.needs(unit) if x not in done]
    return list(done)


def orbits(f: Section) -> Layout:
    """Bodies that go on orbits, each like the others."""
    rows = columns(f)
    return rows, packs_of([tuple(f.roots[k] for k in slots) for slots in rows], [*f.roots, *f.guards])


def pairs(f: Section, wide: int) -> Layout | None:
    """Bodies that act on each other in pairs; None where vectors would gain little."""
    roots = [*f.roots, *f.guards]
    if f.rows < FEWEST or f.code > LONGEST:
        return None
    ops = [u.op for u in toposort(roots)]
    if ops.count(Ops.DIV) < FEWEST or Ops.SOLVED in ops:  # a solution takes all the time that there is
        return None
    arrays: dict[str, list[int]] = {}
    for slot, v in enumerate(f.loads):
        arrays.setdefault(str(v.arg).partition(".")[0], []).append(slot)
    rows = []
    for slots in arrays.values():
        each, rest = len(slots) // f.rows, f.rows % wide
        for c in range(each):
            rows += [tuple(slots[c : rest * each : each])]
            rows += [tuple(slots[c + k * each : (k + wide) * each : each]) for k in range(rest, f.rows, wide)]
    rows = [slots for slots in rows if len(slots) > 1]
    packs = packs_of_pairs([tuple(f.roots[k] for k in slots) for slots in rows], roots, wide)
    return (rows, packs) if packs.gains() else None


def loop(w: Writer, f: Section, env: dict[UOp, str], start: Sequence[str], layout: Layout) -> list[str]:
    """The time loop; afterwards `env` has the last step's roots. Returns what the guards have seen, if there are any."""
    rows, packs = layout
    held = [slots for slots in rows if tuple(f.roots[k] for k in slots) in set(packs.found())]
    alone = [k for k in range(len(f.loads)) if not any(k in slots for slots in held)]
    before = Body(w, packs, dict(env), {})
    for p in packs.found():  # what no step changes lies in vectors before the first
        for xs in before.operands(p):
            if all(x.op is Ops.CONST or x in env for x in xs) and not (
                xs[0].op is Ops.CONST and len(set(xs)) == 1
            ):
                before.vector(xs)
    loads = [tuple(f.loads[k] for k in slots) for slots in held]
    given = dict(zip(f.loads, start))
    first = [Body(w, packs, given, {}).gathered(p) for p in loads]
    guards = [g for g in f.guards if g in packs.lane]
    marks = list(dict.fromkeys(packs.lane[g][0] for g in guards))
    apart = [g for g in f.guards if g not in packs.lane]
    widths = sorted({len(p) for p in marks})

    w.lines += ["  br label %loop", "loop:", "  %i = phi i64 [ 0, %chunk ], [ %i.next, %loop ]"]
    if f.stages > 1:
        w.lines.append("  %stage = phi i64 [ 0, %chunk ], [ %stage.next, %loop ]")
    body = Body(w, packs, dict(env), dict(before.vectors))
    phis: list[tuple[int, str]] = []
    for n, (p, begin) in enumerate(zip(loads, first)):
        body.vectors[p] = f"%p{n}"
        body.loaded |= {v: (p, k) for k, v in enumerate(p)}
        phis.append((len(w.lines), f"  %p{n} = phi {body.type(p[0], len(p))} [ {begin}, %chunk ], "))
        w.lines.append("")
    for k in alone:
        v = f.loads[k]
        body.scalars[v] = f"%s{k}"
        phis.append((len(w.lines), f"  %s{k} = phi {TYPE[v.dtype.name]} [ {start[k]}, %chunk ], "))
        w.lines.append("")
    for n in widths:
        phis.append((len(w.lines), f"  %seen{n} = phi <{n} x i64> [ zeroinitializer, %chunk ], "))
        w.lines.append("")
    if apart:
        phis.append((len(w.lines), "  %seen = phi i64 [ 0, %chunk ], "))
        w.lines.append("")
    for v in f.weights:
        place = "%stage" if f.stages > 1 else "0"
        at = w.new(f"getelementptr {TYPE[v.dtype.name]}, ptr %{v.arg}, i64 {place}")
        body.scalars[v] = w.new(f"load {TYPE[v.dtype.name]}, ptr {at}")
    for unit in in_order(packs):
        body.write(unit)
    after = [body.vectors[tuple(f.roots[k] for k in slots)] for slots in held]
    after += [body.scalar(f.roots[k]) for k in alone]
    for n in widths:
        seen = f"%seen{n}"
        for p in marks:
            if len(p) == n:
                word = w.new(f"sext <{n} x {TYPE[bool_.name]}> {body.vectors[p]} to <{n} x i64>")
                seen = w.new(f"or <{n} x i64> {seen}, {word}")
        after.append(seen)
    if apart:
        seen = "%seen"
        for g in apart:
            word = w.new(f"sext i1 {body.scalar(g)} to i64")
            seen = w.new(f"or i64 {seen}, {word}")
        after.append(seen)
    for (line, text), name in zip(phis, after):
        w.lines[line] = f"{text}[ {name}, %loop ]"
    if f.stages > 1:
        w.lines += [
            "  %stage.up = add i64 %stage, 1",
            f"  %last = icmp eq i64 %stage.up, {f.stages}",
            "  %stage.next = select i1 %last, i64 0, i64 %stage.up",
            "  %whole = zext i1 %last to i64",
        ]
    w.lines += [
        f"  %i.next = add i64 %i, {'%whole' if f.stages > 1 else '1'}",
        "  %again = icmp slt i64 %i.next, %steps",
        "  br i1 %again, label %loop, label %done",
        "done:",
    ]
    for slots in held:
        p = tuple(f.roots[k] for k in slots)
        for lane, k in enumerate(slots):
            env[f.roots[k]] = w.new(f"extractelement {body.type(p[0], len(p))} {body.vectors[p]}, i64 {lane}")
    for k in alone:
        env[f.roots[k]] = body.scalar(f.roots[k])
    return finished(w, after[len(held) + len(alone) :], widths, bool(apart))


def finished(w: Writer, seen: Sequence[str], widths: Sequence[int], apart: bool) -> list[str]:
    """All that the guards have seen, in one word."""
    words = []
    for name, n in zip(seen, widths):
        reduce = f"@llvm.vector.reduce.or.v{n}i64"
        w.declared[reduce] = f"declare i64 {reduce}(<{n} x i64>)"
        words.append(w.new(f"call i64 {reduce}(<{n} x i64> {name})"))
    words += [seen[-1]] if apart else []
    out = words[:1]
    for word in words[1:]:
        out = [w.new(f"or i64 {out[0]}, {word}")]
    return out
