"""How is an equation solved in machine code?  A function with a loop of rounds, for a number or the lanes of a vector.

A lane that has arrived stays as it is while others go on; the loop ends when all have. So a member has the bits that it
has alone, in LLVM's vectors as in the plain loop of C.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyphysics.ir.dtype import bool_, f64, i64
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.calculus.solve import RESIDUAL
from tinyphysics.rules.functions.rounds import BEFORE, FIRST, rounds_of
from tinyphysics.util import digest


def outputs(n: int) -> int:
    return n + RESIDUAL + 1


def name_of(u: UOp, careful: bool) -> str:
    kinds = " ".join(s.dtype.name for s in u.src)
    return f"solve_{digest(f'{u.arg[1:]} {kinds}'.encode())[:16]}{'_any' if careful else ''}"


# --- C ---------------------------------------------------------------------------------------------
def c_function(u: UOp, careful: bool, names: Any, types: dict[str, str]) -> str:
    """The text of the function for a SOLVED, for one member; `names` is an empty table of names, which it fills."""
    k = rounds_of(u, careful)
    given = [
        *(f"double x{j}" for j in range(k.n)),
        *(f"const double w{j}" for j in range(k.n)),
        *(f"const {types[y.dtype.name]} {y.arg}" for y in k.given),
    ]
    names.table |= {v: str(v.arg) for v in (*k.x, *k.scale, *k.given, BEFORE)}
    body = names.lines(k.roots, "    ")
    r, name = k.round, name_of(u, careful)
    body += [f"    const double n{j} = {names.of(x)};" for j, x in enumerate(r.x)]
    body += [f"    x{j} = n{j};" for j in range(k.n)]
    body += [
        f"    left = {names.of(r.residual)};",
        f"    before = {names.of(r.change)};",
        "    count += 1.0;",
    ]
    body += [f"    seen |= {names.of(g)};" for g in k.guards]
    body.append(f"    if ({names.of(r.over)}) {{ active = 0; break; }}")
    lines = [
        f"#ifndef has_{name}",
        f"#define has_{name}",
        f"{names.local} void {name}(double *out, {', '.join(given)}) {{",
        "  double before = INFINITY, left = 0.0, count = 0.0; int active = 1, seen = 0;",
        f"  for (int round = 0; round < {k.most}; round++) {{",
        *body,
        "  }",
    ]
    lines += [f"  out[{j}] = active ? NAN : x{j};" for j in range(k.n)]
    lines += [f"  out[{k.n}] = seen; out[{k.n + 1}] = count; out[{k.n + 2}] = left;", "}", "#endif"]
    return "\n".join(lines)


# --- LLVM ------------------------------------------------------------------------------------------
def loop_of_rounds(
    u: UOp, w: Any, write: Callable[[list[UOp], dict[UOp, str]], None]
) -> tuple[str, str, str]:
    """(name, type of what it gives, text) of the function for a SOLVED; `w` is a Writer without lines, `write` fills it."""
    careful, width = w.careful, w.width
    k = rounds_of(u, careful)
    T, word, mask = w.type(f64), w.type(i64), w.type(bool_)
    given = [
        *(f"{T} %x{j}.in" for j in range(k.n)),
        *(f"{T} %w{j}" for j in range(k.n)),
        *(f"{w.type(y.dtype)} %{y.arg}" for y in k.given),
    ]
    zero, one = w.constant(UOp.const(0.0)), w.constant(UOp.const(1.0))
    all_on, off = w.constant(UOp.const(-1, i64)), w.constant(UOp.const(0, i64))
    env = dict(zip(k.x, (f"%x{j}" for j in range(k.n)))) | {s: f"%{s.arg}" for s in (*k.scale, *k.given)}
    env[BEFORE] = "%before"
    write(k.roots, env)
    r = k.round
    w.lines.append(f"  %on = icmp ne {word} %active, {off}")
    for j, x in enumerate(r.x):
        w.lines.append(f"  %x{j}.next = select {mask} %on, {T} {w.ref(x, env)}, {T} %x{j}")
    w.lines.append(f"  %left.next = select {mask} %on, {T} {w.ref(r.residual, env)}, {T} %left")
    counted = w.new(f"select {mask} %on, {T} {one}, {T} {zero}")
    w.lines.append(f"  %count.next = fadd {T} %count, {counted}")
    seen = "%seen"
    for g in k.guards:
        fired = w.new(f"and {word} %active, {w.new(f'sext {mask} {w.ref(g, env)} to {word}')}")
        seen = w.new(f"or {word} {seen}, {fired}")
    over = w.new(f"sext {mask} {w.ref(r.over, env)} to {word}")
    running = w.new(f"xor {word} {over}, {all_on}")
    w.lines.append(f"  %active.next = and {word} %active, {running}")
    some = "%active.next"
    if width > 1:
        reduce = f"@llvm.vector.reduce.or.v{width}i64"
        w.declared[reduce] = f"declare i64 {reduce}({word})"
        some = w.new(f"call i64 {reduce}({word} %active.next)")
    going = w.new(f"icmp ne i64 {some}, 0")
    phis = [
        ("i64", "%r", "0", "%r.next"),
        (word, "%active", all_on, "%active.next"),
        (word, "%seen", off, seen),
        (T, "%before", w.constant(UOp.const(FIRST)), w.ref(r.change, env)),
        (T, "%left", zero, "%left.next"),
        (T, "%count", zero, "%count.next"),
        *((T, f"%x{j}", f"%x{j}.in", f"%x{j}.next") for j in range(k.n)),
    ]
    kinds = [*[T] * k.n, word, T, T]
    struct = f"{{ {', '.join(kinds)} }}"
    name = "@" + name_of(u, careful)
    lines = [
        f"define internal {struct} {name}({', '.join(given)}) nounwind {{",
        "entry:",
        "  br label %round",
        "round:",
    ]
    lines += [
        f"  {name_} = phi {t} [ {first}, %entry ], [ {later}, %round ]" for t, name_, first, later in phis
    ]
    lines += [
        *w.lines,
        "  %r.next = add i64 %r, 1",
        f"  %room = icmp ult i64 %r.next, {k.most}",
        f"  %again = and i1 {going}, %room",
        "  br i1 %again, label %round, label %done",
        "done:",
        f"  %lost = icmp ne {word} %active.next, {off}",
    ]
    nan = w.constant(UOp.const(float("nan")))
    lines += [f"  %x{j}.out = select {mask} %lost, {T} {nan}, {T} %x{j}.next" for j in range(k.n)]
    values = [*(f"%x{j}.out" for j in range(k.n)), seen, "%count.next", "%left.next"]
    last = "poison"
    for j, (t, v) in enumerate(zip(kinds, values)):
        lines.append(f"  %out{j} = insertvalue {struct} {last}, {t} {v}, {j}")
        last = f"%out{j}"
    lines += [f"  ret {struct} {last}", "}"]
    return name, struct, "\n".join(lines)
