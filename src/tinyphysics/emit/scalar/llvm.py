"""A kernel as LLVM IR: lanes of members, several vectors interleaved, all steps in registers.

One function per section, all with one signature. A chunk of W*U members is loaded, stepped as often as
asked, and stored. Operations are written U times, one beside the other, because the latency of one vector
hides behind the others. No pass runs on this text: the graph is already simplified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from tinyphysics.emit.scalar import halves as first_bits
from tinyphysics.emit.scalar import packed
from tinyphysics.emit.scalar.passes import passes, steps_of
from tinyphysics.emit.text.marks import mark
from tinyphysics.emit.text.writer import TYPE as TYPE
from tinyphysics.emit.text.writer import Writer as Writer
from tinyphysics.emit.text.writer import lines_for
from tinyphysics.ir.dtype import DType, bool_, f32, f64, i32, i64
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import NOW, SAMPLED, Section, early

# %series takes what is watched, a row for each `stride` steps; elsewhere steps is what counts and stride is 1
ARGUMENTS = (
    "ptr %in, ptr %out, ptr %uniform, ptr %varying, ptr %flags, ptr %series, "
    "i64 %begin, i64 %end, i64 %members, i64 %first, i64 %steps, i64 %stride"
)


SET_MODE = """  %saved = alloca i32, align 4
  %plain = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %saved)
  store i32 8064, ptr %plain
  call void @llvm.x86.sse.ldmxcsr(ptr %plain)"""  # 0x1f80: round to nearest, keep subnormals
RESTORE_MODE = "  call void @llvm.x86.sse.ldmxcsr(ptr %saved)"
X86_MODE = {
    "@llvm.x86.sse.ldmxcsr": "declare void @llvm.x86.sse.ldmxcsr(ptr)",
    "@llvm.x86.sse.stmxcsr": "declare void @llvm.x86.sse.stmxcsr(ptr)",
}


@dataclass(frozen=True)
class FunctionFrame:
    """What stands around the chunks of a function: who calls it, and which of them are his."""

    define: str = "define void"
    opening: tuple[str, ...] = ()
    closing: tuple[str, ...] = ()
    declared: Mapping[str, str] = field(default_factory=dict)
    head: tuple[str, ...] = (
        "  br label %chunk",
        "chunk:",
        "  %lane = phi i64 [ %begin, %entry ], [ %lane.next, %next ]",
    )
    step: str = ""  # lanes from one chunk to the next; else those of one
    again: str = "chunk"  # where the next one begins
    estimates: bool = False  # does the machine divide by estimates (emit/text/inside.py)?


def host_frame(x86: bool) -> FunctionFrame:
    return (
        FunctionFrame(opening=(SET_MODE,), closing=(RESTORE_MODE,), declared=X86_MODE)
        if x86
        else FunctionFrame()
    )


def register_bits(f: Section) -> int:
    """Of one lane: what a section loads fills the registers."""
    return f.loads[0].dtype.bits if f.loads else 64


def function(
    f: Section, params: Sequence[UOp], varying: Sequence[bool], shape: VectorShape, frame: FunctionFrame
) -> tuple[list[str], dict[str, str]]:
    """The text of one section, and the intrinsics that it needs."""
    w = Writer(shape.width, i32 if register_bits(f) == 32 else i64, f.careful)
    U = range(shape.unroll)
    w.estimates = frame.estimates
    w.lines += frame.opening
    w.declared |= frame.declared
    needed = f.needed
    # what all members share is computed once, before the first chunk
    shared: dict[UOp, str] = {}
    for slot, p in enumerate(params):
        if p in needed and not varying[slot]:
            begin = len(w.lines)
            at = w.new(f"getelementptr double, ptr %uniform, i64 {slot}")
            value = w.new(f"load double, ptr {at}, align 8")
            if p.dtype is f32:
                value = w.new(f"fptrunc double {value} to float")
            shared[p] = w.splat(value, p.dtype)
            mark(w.lines, begin, p)
    own = frozenset(p for slot, p in enumerate(params) if varying[slot])
    common = {c: u for c, u in f.invariants.items() if not u.leaves & own}
    lines_for(w, list(common.values()), [shared])
    for c, u in common.items():
        shared[c] = w.ref(u, shared)
    envs = [dict(shared) for _ in U]
    apart = {
        v: row
        for v, row in f.weights.items()
        if any(u in own or u in f.invariants and u not in common for u in row)
    }
    for slot in stacked(f, shape):
        for r in U:
            t = f.loads[slot].dtype
            w.lines.append(f"  %k{slot}.{r} = alloca {w.type(t)}, align {alignment(w, t)}")
    for v in f.weights:  # room on the stack for what a stage is weighed by
        rows = f.stages * (len(U) if v in apart else 1)
        w.lines.append(f"  %{v.arg} = alloca [{rows} x {w.type(v.dtype)}], align {alignment(w, v.dtype)}")
    table(w, {v: row for v, row in f.weights.items() if v not in apart}, envs[:1])
    w.lines += frame.head
    for slot, p in enumerate(params):
        if p in needed and varying[slot]:
            for r in U:
                envs[r][p] = load(w, "%varying", slot, r, p.dtype)
    rest = {c: u for c, u in f.invariants.items() if c not in common}
    lines_for(w, list(rest.values()), envs)
    for c, u in rest.items():
        for env in envs:
            env[c] = w.ref(u, env)
    table(w, apart, envs)
    start = []
    for slot, v in enumerate(f.loads):
        begin = len(w.lines)
        start.append([load(w, "%in", slot, r, v.dtype) for r in U])
        mark(w.lines, begin, v)
    ends: list[list[str]] = []
    if f.going is not None:
        seen, ends = while_loop(w, f, envs, start)
    elif (layout := layout_of(f, shape, NOW in needed)) is not None:
        seen = packed.loop(w, f, envs[0], [name for (name,) in start], layout)
    elif f.loops:
        seen, ends = loop(w, f, envs, start, NOW in needed, frozenset(apart), shape)
    else:
        for slot, v in enumerate(f.loads):
            for r in U:
                envs[r][v] = start[slot][r]
        set_clock(w, envs, "%first", NOW in needed)
        seen = watched_lines(w, f.roots, f.guards, envs, [""] * len(envs))
    raise_flag(w, seen)
    for slot, u in enumerate(f.roots):
        begin = len(w.lines)
        for r in U:
            store(w, "%out", slot, r, u.dtype, ends[slot][r] if ends else w.ref(u, envs[r]))
        mark(w.lines, begin, u)
    w.lines += [
        "  br label %next",
        "next:",
        f"  %lane.next = add i64 %lane, {frame.step or shape.lanes}",
        "  %more = icmp slt i64 %lane.next, %end",
        f"  br i1 %more, label %{frame.again}, label %exit",
        "exit:",
    ]
    return [
        f"{frame.define} @{f.name}({ARGUMENTS}) #0 {{",
        "entry:",
        *w.lines,
        *frame.closing,
        "  ret void",
        "}",
    ], w.declared


def layout_of(f: Section, shape: VectorShape, clock: bool) -> packed.Layout | None:
    """How one member that runs alone has its bodies side by side, if they are alike."""
    plain = f.loops and not f.tails and not f.watched and not clock
    if not plain or shape.lanes > 1 or register_bits(f) != 64:
        return None
    if f.bodies > 1:
        return packed.orbits(f)
    return packed.pairs(f, shape.bodies) if shape.bodies > 1 else None


def set_clock(w: Writer, envs: list[dict[UOp, str]], step: str, wanted: bool) -> None:
    if wanted:
        now = w.splat(w.new(f"sitofp i64 {step} to double"), f64)
        for env in envs:
            env[NOW] = now


def watched_lines(
    w: Writer,
    roots: Sequence[UOp],
    guards: Sequence[UOp],
    envs: list[dict[UOp, str]],
    seen: list[str],
    kept: Mapping[UOp, tuple[UOp, int]] | None = None,
    in_turn: bool = False,
    beside: frozenset[UOp] = frozenset(),
) -> list[str]:
    """The roots, with every guard folded into what was seen so far as soon as it is known.

    As a word per lane: masks of single bits are slow without AVX-512. `kept` are the roots whose old and new
    value is on the stack; those `beside` the state come as soon as they can, so that nothing waits in a register for them.
    """
    marks = dict.fromkeys(guards)
    t = w.type(w.word)
    late = {old: slot for old, slot in kept.values()} if kept else {}
    aside = dict.fromkeys(u for u, (old, _) in kept.items() if old in beside) if kept else {}
    own = [u for u in roots if u not in aside]
    order = early(own, [*guards, *aside])
    shared = {*toposort([*own, *guards])} if aside else {}
    copies = range(len(envs))
    if in_turn:
        turns = [(u, r) for r in copies for u in order]
    else:
        turns = [
            (u, r)
            for is_shared, some in groupby(order, lambda u: not aside or u in shared)
            for us in ([[u] for u in some] if is_shared else [list(some)])
            for r in copies
            for u in us
        ]
    for u, r in turns:
        env = envs[r]
        old, slot = kept[u] if kept and u in kept else (None, 0)
        for v in u.src if late else ():
            if v in late and v not in env:
                env[v] = w.new(f"load {w.type(v.dtype)}, ptr %k{late[v]}.{r}")
        if u not in env:
            w.operation(u, env)
        if old is not None:
            w.lines.append(f"  store {w.type(u.dtype)} {env[u]}, ptr %k{slot}.{r}")
        if u in marks:
            word = w.new(f"sext {w.type(bool_)} {w.ref(u, env)} to {t}")
            seen[r] = w.new(f"or {t} {seen[r]}, {word}") if seen[r] else word
    return seen if all(seen) else []


def stacked(f: Section, shape: VectorShape) -> list[int]:
    """The slots that are kept on the stack while the loop runs."""
    added = f.accumulators if shape.in_turn and f.loops else frozenset()
    return [k for k, v in enumerate(f.loads) if v in added or shape.beside and v in f.beside]


def loop(
    w: Writer,
    f: Section,
    envs: list[dict[UOp, str]],
    start: list[list[str]],
    clock: bool,
    apart: frozenset[UOp],
    shape: VectorShape,
) -> tuple[list[str], list[list[str]]]:
    """The time loop: (the guards, what the states are after the last step, a name for each copy).

    With something to watch there are two: rows outside, `stride` steps inside, the watched expressions
    between them. Stages are no loop of their own: a pass is one of them, and after the last a step is done. What is
    done after some of them is a branch.
    """
    U = range(len(envs))
    before = "chunk"
    on_stack = stacked(f, shape)
    idle = [k for k, v in enumerate(f.loads) if v in f.idle]  # stay what they are, and in no register
    slots = [k for k in range(len(f.loads)) if k not in on_stack and k not in idle]
    for k in idle:
        for r in U:
            envs[r][f.loads[k]] = start[k][r]
    plain = not f.tails and f.stages == 1
    sampled = [k for k, v in enumerate(f.loads) if plain and v in f.sampled]
    for slot in on_stack:
        for r in U:
            w.lines.append(f"  store {w.type(f.loads[slot].dtype)} {start[slot][r]}, ptr %k{slot}.{r}")
    if f.watched:
        w.lines += ["  br label %row", "row:", "  %j = phi i64 [ 0, %chunk ], [ %j.next, %look ]"]
        outer = open_phis(w, f, slots, envs, start, "o", "chunk", "look")
        start = [[envs[r].get(v, "") for r in U] for v in f.loads]
        guards = [f"%og.{r}" for r in U]
        w.lines.append("  %done.steps = mul i64 %j, %stride")
        before = "row"
    steps = "%stride" if f.watched else "%steps"
    number, count = "i64", steps
    halves = first_bits.halves(f, shape)
    simple = plain and not (f.watched or clock or f.guarded or f.weights or idle or on_stack)
    many = steps_of(f, shape) if simple else 1
    if sampled:  # of which passes leave one step, or as many as are left in the last
        w.lines += ["  br label %part", "part:"]
        w.lines.append(f"  %part.at = phi i64 [ 0, %{before} ], [ %part.end, %sample ]")
        parts = open_phis(w, f, slots, envs, start, "p", before, "sample", guards if f.watched else None)
        start = [[envs[r].get(v, "") for r in U] for v in f.loads]
        guards = [f"%pg.{r}" for r in U]
        most = SAMPLED - many + 1
        w.lines += [
            f"  %part.left = sub i64 {steps}, %part.at",
            f"  %part.last = icmp slt i64 %part.left, {most}",
            "  %part.few = trunc i64 %part.left to i32",
            f"  %part.size = select i1 %part.last, i32 %part.few, i32 {most}",
        ]
        before, number, count = "part", "i32", "%part.size"
    latch = f"after{len(f.tails) - 1}" if f.tails else "loop"
    half = {(k, r): first_bits.first_half(w, start[k][r]) for k in halves for r in U}
    rounds = [k for k in slots if k not in sampled and k not in halves]
    begun = "0"
    if many > 1:
        moved = [f.roots[k] for k in rounds] + [u for us in halves.values() for u in us]

        def next_of(now: list[list[str]]) -> list[list[str]]:
            here = [envs[r] | {f.loads[k]: now[n][r] for n, k in enumerate(rounds)} for r in U]
            watched_lines(w, moved, (), here, [""] * len(here), in_turn=shape.in_turn)
            out = [[w.ref(f.roots[k], here[r]) for r in U] for k in rounds]
            least = ([now[n][r] for r in U] for n in range(len(rounds), len(now)))
            for one, us in zip(least, halves.values()):
                out.append([first_bits.lower(w, one[r], [w.ref(u, here[r]) for u in us]) for r in U])
            return out

        types = [*(w.type(f.loads[k].dtype) for k in rounds), *("i32" for _ in halves)]
        goes = [*(start[k] for k in rounds), *([half[k, r] for r in U] for k in halves)]
        goes = passes(w, types, goes, many, next_of, before, f"{number} {count}")
        for k, names in zip((*rounds, *halves), goes):
            if k in halves:
                half |= {(k, r): names[r] for r in U}
            else:
                start[k] = names
        begun, before = "%i.begun", "rest"
    w.lines += [
        "  br label %loop",
        "loop:",
        f"  %i = phi {number} [ {begun}, %{before} ], [ %i.next, %{latch} ]",
    ]
    if f.stages > 1:
        w.lines.append(f"  %stage = phi i64 [ 0, %{before} ], [ %stage.next, %{latch} ]")
    inner = open_phis(w, f, rounds, envs, start, "s", before, latch, guards if f.watched or sampled else None)
    least = {at: w.new("") for at in half}
    least_at = len(w.lines) - len(least)
    shared = [dict(env) for env in envs]
    if clock:
        step = w.new(f"add i64 %first, {w.new('zext i32 %i to i64') if sampled else '%i'}")
        for done in ("%part.at",) * bool(sampled) + ("%done.steps",) * bool(f.watched):
            step = w.new(f"add i64 {step}, {done}")
        set_clock(w, envs, step, True)
    for v in f.weights:
        for r in U:
            envs[r][v] = (
                envs[0][v] if r and v not in apart else weight(w, v, "%stage", r, len(U) if v in apart else 1)
            )
    guarded = f.guarded
    kept = {f.roots[k]: (f.loads[k], k) for k in on_stack if k not in sampled}
    marks = [f"%sg.{r}" if guarded else "" for r in U]
    roots = [u for k, u in enumerate(f.roots) if k not in sampled and k not in halves]
    roots += [u for us in halves.values() for u in us]
    seen = watched_lines(w, roots, f.guards, envs, marks, kept, shape.in_turn, f.beside)
    values = [[w.ref(u, envs[r]) if k in rounds else "" for r in U] for k, u in enumerate(f.roots)]
    for n, ((k, r), name) in enumerate(least.items()):
        lowest = first_bits.lower(w, name, [w.ref(u, envs[r]) for u in halves[k]])
        w.lines[least_at + n] = f"  {name} = phi i32 [ {half[k, r]}, %{before} ], [ {lowest}, %{latch} ]"
        half[k, r] = lowest
    if f.stages > 1:
        w.lines += [
            "  %stage.up = add i64 %stage, 1",
            f"  %last = icmp eq i64 %stage.up, {f.stages}",
            "  %stage.next = select i1 %last, i64 0, i64 %stage.up",
            "  %whole = zext i1 %last to i64",
        ]
    if f.tails:
        values, seen = tails(
            w,
            f,
            [shared[r] | {x: envs[r][x] for x in (*f.weights, NOW) if x in envs[r]} for r in U],
            values,
            seen,
        )
    close_phis(w, inner, [values[k] for k in rounds], seen)
    after = "look" if f.watched else "done"
    out = "sample" if sampled else after
    w.lines += [
        f"  %i.next = add {number} %i, {'%whole' if f.stages > 1 else '1'}",
        f"  %again = icmp slt {number} %i.next, {count}",
        f"  br i1 %again, label %loop, label %{out}",
        f"{out}:",
    ]
    for k, r in least:
        values[k][r] = first_bits.with_half(w, half[k, r])
    if sampled:  # of the state that the next step begins with
        here = [
            shared[r] | {v: values[slot][r] for slot, v in enumerate(f.loads) if slot in rounds} for r in U
        ]
        looks = {f.roots[k]: (f.loads[k], k) for k in sampled if k in on_stack}
        watched_lines(w, [f.roots[k] for k in sampled], (), here, [""] * len(envs), looks)
        for k in sampled:
            values[k] = [w.ref(f.roots[k], here[r]) for r in U]
        close_phis(w, parts, [values[k] for k in slots], seen)
        w.lines += [
            "  %part.done = zext i32 %part.size to i64",
            "  %part.end = add i64 %part.at, %part.done",
            f"  %more.parts = icmp slt i64 %part.end, {steps}",
            f"  br i1 %more.parts, label %part, label %{after}",
            f"{after}:",
        ]
    for k in on_stack:  # read again, so that it need not stay in a register
        values[k] = [w.new(f"load {w.type(f.roots[k].dtype)}, ptr %k{k}.{r}") for r in U]
    for k in idle:
        values[k] = start[k]
    if not f.watched:
        return seen, values
    for r in U:  # the watched expressions see the state after the steps
        envs[r].clear()
        envs[r].update(shared[r] | {v: values[slot][r] for slot, v in enumerate(f.loads)})
    w.lines.append("  %j.next = add i64 %j, 1")
    if clock:
        steps = w.new("mul i64 %j.next, %stride")
        set_clock(w, envs, w.new(f"add i64 %first, {steps}"), True)
    seen = watched_lines(w, f.watched, f.watched_guards, envs, seen or [""] * len(envs))
    row = w.new(f"mul i64 %j, {len(f.watched)}")
    for slot, u in enumerate(f.watched):
        for r in U:
            store(w, "%series", w.new(f"add i64 {row}, {slot}"), r, u.dtype, w.ref(u, envs[r]))
    close_phis(w, outer, [values[k] for k in slots], seen)
    w.lines += [
        "  %more.rows = icmp slt i64 %j.next, %steps",
        "  br i1 %more.rows, label %row, label %done",
        "done:",
    ]
    return seen, values


def tails(
    w: Writer, f: Section, envs: list[dict[UOp, str]], values: list[list[str]], seen: list[str]
) -> tuple[list[list[str]], list[str]]:
    """What is done after every so many stages: a branch each. (what becomes of the loads, the guards)."""
    U, block = range(len(envs)), "loop"
    for k, t in enumerate(f.tails):
        w.lines += [
            f"  %turn{k} = urem i64 %stage.up, {t.period}",
            f"  %due{k} = icmp eq i64 %turn{k}, 0",
            f"  br i1 %due{k}, label %tail{k}, label %after{k}",
            f"tail{k}:",
        ]
        here = [envs[r] | {v: values[slot][r] for slot, v in enumerate(f.loads)} for r in U]
        noted = watched_lines(w, t.roots, t.guards, here, list(seen) or [""] * len(envs))
        found = [[w.ref(u, here[r]) for r in U] for u in t.roots]
        w.lines += [f"  br label %after{k}", f"after{k}:"]

        def either(t: str, old: str, new: str, k: int = k, block: str = block) -> str:
            return old if old == new else w.new(f"phi {t} [ {old}, %{block} ], [ {new}, %tail{k} ]")

        values = [
            [either(w.type(v.dtype), *pair) for pair in zip(old, new)]
            for v, old, new in zip(f.loads, values, found)
        ]
        seen = [either(w.type(w.word), a, b) for a, b in zip(seen, noted)]
        block = f"after{k}"
    return values, seen


def while_loop(
    w: Writer, f: Section, envs: list[dict[UOp, str]], start: list[list[str]]
) -> tuple[list[str], list[list[str]]]:
    """A loop that ends where no lane goes on, and the numbers it leaves: a step would not change them."""
    assert f.going is not None and f.stages == 1 and not f.watched
    U, slots = range(len(envs)), range(len(f.loads))
    w.lines += ["  br label %loop", "loop:", "  %i = phi i64 [ 0, %chunk ], [ %i.next, %body ]"]
    phis = open_phis(w, f, slots, envs, start, "s", "chunk", "body")
    left = [[envs[r][v] for r in U] for v in f.loads]
    lines_for(w, [f.going], envs)
    one = w.ref(f.going, envs[0])
    for env in envs[1:]:
        one = w.new(f"or {w.type(bool_)} {one}, {w.ref(f.going, env)}")
    if w.width > 1:
        name = f"@llvm.vector.reduce.or.v{w.width}i1"
        w.declared[name] = f"declare i1 {name}({w.type(bool_)})"
        one = w.new(f"call i1 {name}({w.type(bool_)} {one})")
    elif len(envs) == 1:  # alone, it goes on wherever a step is done
        envs[0][f.going] = "true"
    w.lines += [
        "  %room = icmp slt i64 %i, %steps",
        f"  %on = and i1 {one}, %room",
        "  br i1 %on, label %body, label %done",
        "body:",
    ]
    marks = [f"%sg.{r}" if f.guards else "" for r in U]
    seen = watched_lines(w, f.roots, f.guards, envs, list(marks))
    close_phis(w, phis, [[w.ref(u, envs[r]) for r in U] for u in f.roots], seen)
    w.lines += ["  %i.next = add i64 %i, 1", "  br label %loop", "done:"]
    return marks if f.guards else [], left


def table(w: Writer, weights: Mapping[UOp, Sequence[UOp]], envs: Sequence[dict[UOp, str]]) -> None:
    """Writes what a stage is weighed by where the loop will look for it: a vector for each stage and copy."""
    for v, row in weights.items():
        lines_for(w, row, envs)
        for k, u in enumerate(row):
            for r, env in enumerate(envs):
                at = w.new(f"getelementptr {w.type(v.dtype)}, ptr %{v.arg}, i64 {k * len(envs) + r}")
                w.lines.append(f"  store {w.type(v.dtype)} {w.ref(u, env)}, ptr {at}")


def weight(w: Writer, v: UOp, stage: str, r: int, copies: int) -> str:
    place = stage if copies == 1 else w.new(f"add i64 {w.new(f'mul i64 {stage}, {copies}')}, {r}")
    at = w.new(f"getelementptr {w.type(v.dtype)}, ptr %{v.arg}, i64 {place}")
    return w.new(f"load {w.type(v.dtype)}, ptr {at}")


Phis = tuple[list[tuple[int, str]], list[int], str, str]


def open_phis(
    w: Writer,
    f: Section,
    slots: Sequence[int],
    envs: list[dict[UOp, str]],
    start: list[list[str]],
    prefix: str,
    before: str,
    latch: str,
    guards: list[str] | None = None,
) -> Phis:
    """The loaded variables as they go round a loop; their next values are filled in by `close_phis`."""
    lines: list[tuple[int, str]] = []
    for slot in slots:
        v = f.loads[slot]
        for r in range(len(envs)):
            envs[r][v] = f"%{prefix}{slot}.{r}"
            text = f"  {envs[r][v]} = phi {w.type(v.dtype)} [ {start[slot][r]}, %{before} ], "
            lines.append((len(w.lines), text))
            w.lines.append("")
    marks = []
    none = "0" if w.width == 1 else "zeroinitializer"
    for r in range(len(envs)) if f.guarded else ():
        first = guards[r] if guards else none
        marks.append(len(w.lines))
        w.lines.append(f"  %{prefix}g.{r} = phi {w.type(w.word)} [ {first}, %{before} ], ")
    return lines, marks, prefix, latch


def close_phis(w: Writer, phis: Phis, values: list[list[str]], seen: list[str]) -> None:
    lines, marks, _, latch = phis
    for (line, text), value in zip(lines, [v for row in values for v in row]):
        w.lines[line] = f"{text}[ {value}, %{latch} ]"
    for line, name in zip(marks, seen):
        w.lines[line] += f"[ {name}, %{latch} ]"


def raise_flag(w: Writer, seen: list[str]) -> None:
    """A chunk in which a guard fired stores nothing but a mark: it is done again, carefully."""
    if not seen:
        return
    word, t = TYPE[w.word.name], w.type(w.word)
    one = seen[0]
    for name in seen[1:]:
        one = w.new(f"or {t} {one}, {name}")
    if w.width > 1:
        name = f"@llvm.vector.reduce.or.v{w.width}{word}"
        w.declared[name] = f"declare {word} {name}({t})"
        one = w.new(f"call {word} {name}({t} {one})")
    bad = w.new(f"icmp ne {word} {one}, 0")
    w.lines += [
        f"  br i1 {bad}, label %flag, label %keep",
        "flag:",
        "  %flag.at = getelementptr i8, ptr %flags, i64 %lane",
        "  store i8 1, ptr %flag.at",
        "  br label %next",
        "keep:",
    ]


def alignment(w: Writer, d: DType) -> int:
    """Bytes: what LLVM expects of a vector, whose lanes may be three groups."""
    return 1 << (w.width * d.bits // 8 - 1).bit_length()


def address(w: Writer, base: str, slot: int | str, r: int, d: DType) -> str:
    """Where the numbers of one component for this chunk's r-th vector are."""
    row = w.new(f"mul i64 %members, {slot}")
    at = w.new(f"add i64 {row}, %lane")
    if r:
        at = w.new(f"add i64 {at}, {r * w.width}")
    return w.new(f"getelementptr {TYPE[d.name]}, ptr {base}, i64 {at}")


def load(w: Writer, base: str, slot: int, r: int, d: DType) -> str:
    return w.new(f"load {w.type(d)}, ptr {address(w, base, slot, r, d)}, align {d.bits // 8}")


def store(w: Writer, base: str, slot: int | str, r: int, d: DType, value: str) -> None:
    where = address(w, base, slot, r, d)
    w.lines.append(f"  store {w.type(d)} {value}, ptr {where}, align {d.bits // 8}")


def module(
    parts: Sequence[tuple[Section, VectorShape]], params: Sequence[UOp], varying: Sequence[bool], x86: bool
) -> str:
    """LLVM IR of some sections, a function each."""
    lines: list[str] = []
    declared: dict[str, str] = {}
    for f, shape in parts:
        text, wants = function(f, params, varying, shape, host_frame(x86))
        lines += text
        declared |= wants
    bits = min(512, max(shape.width * register_bits(f) for f, shape in parts))
    attributes = f'attributes #0 = {{ nounwind "prefer-vector-width"="{bits}" "stackrealign" }}'
    return "\n".join([*declared.values(), *lines, attributes]) + "\n"
