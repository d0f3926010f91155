"""How does a thread do its share of calls that follow each other?  It takes the next piece, and waits until it is its turn.

What a piece is, tpir/kernels/shares.py says. Threads may come late or not at all, and none goes through Python between two
calls. The same twice: in LLVM IR, and in C for where there is a compiler instead.
"""

from __future__ import annotations

from tinyphysics.tpir.kernels.shares import (
    APART,
    CHAINS,
    COUNT,
    DONE,
    FIRST,
    FLAGS,
    NEXT,
    PIECES,
    ROUND,
    STRIDE,
    TABLE,
    TOTAL,
    UNIFORM,
    WORDS,
    YIELD,
)

SPINS = 200  # looks at a counter before a thread lets others run: some microseconds, where each has a core

C = f"""#include <stdatomic.h>
#include <stdint.h>
typedef void part(void **, const double *, signed char *, int64_t, int64_t, int64_t);

static void await(_Atomic int64_t *counter, int64_t least, int (*yield)(void)) {{
  for (int spins = 0; atomic_load_explicit(counter, memory_order_acquire) < least;)
    if (spins++ > {SPINS}) yield();
}}

void team(int64_t *job) {{
  _Atomic int64_t *next = (_Atomic int64_t *)job + {NEXT}, *done = (_Atomic int64_t *)job + {DONE};
  int (*yield)(void) = (int (*)(void))job[{YIELD}];
  void **table = (void **)job[{TABLE}];
  for (int64_t t; (t = atomic_fetch_add_explicit(next, 1, memory_order_relaxed)) < job[{TOTAL}];) {{
    const int64_t step = t / job[{COUNT}], *p = (int64_t *)job[{PIECES}] + {WORDS}*(t % job[{COUNT}]);
    await(done, step*job[{COUNT}] + p[3], yield);
    _Atomic int64_t *chain = (_Atomic int64_t *)job[{CHAINS}] + {APART}*p[4];
    if (p[4] >= 0) await(chain, step*job[{ROUND}] + p[5], yield);
    if (p[0])
      ((part *)p[0])(table, (double *)job[{UNIFORM}], (signed char *)job[{FLAGS}], p[1], p[2],
                     job[{FIRST}] + step*job[{STRIDE}]);
    else {{ void *x = table[p[1]]; table[p[1]] = table[p[2]]; table[p[2]] = x; }}
    if (p[4] >= 0) atomic_fetch_add_explicit(chain, 1, memory_order_release);
    atomic_fetch_add_explicit(done, 1, memory_order_acq_rel);
  }}
}}
"""


def word(name: str, base: str, place: int | str, t: str = "i64") -> str:
    return (
        f"  %{name}.at = getelementptr i64, ptr {base}, i64 {place}\n  %{name} = load {t}, ptr %{name}.at\n"
    )


def llvm(x86: bool) -> str:
    pause = "  call void @llvm.x86.sse2.pause()\n" if x86 else ""
    declared = "declare void @llvm.x86.sse2.pause()\n" if x86 else ""
    given = "".join(
        word(name, "%job", place, t)
        for t, names in (
            ("i64", {"count": COUNT, "total": TOTAL, "first": FIRST, "stride": STRIDE, "links": ROUND}),
            ("ptr", {"pieces": PIECES, "chains": CHAINS, "table": TABLE, "uniform": UNIFORM, "flags": FLAGS}),
            ("ptr", {"yield": YIELD}),
        )
        for name, place in names.items()
    )
    piece = "".join(
        word(name, "%p", k, "ptr" if name == "f" else "i64")
        for k, name in enumerate(("f", "lo", "hi", "before", "chain", "place"))
    )
    return f"""{declared}
define internal void @await(ptr %counter, i64 %least, ptr %yield) #0 {{
entry:
  br label %look
look:
  %spins = phi i64 [ 0, %entry ], [ %more, %spin ], [ %more, %give ]
  %now = load atomic i64, ptr %counter acquire, align 8
  %there = icmp sge i64 %now, %least
  br i1 %there, label %out, label %wait
wait:
  %more = add i64 %spins, 1
  %long = icmp sgt i64 %spins, {SPINS}
  br i1 %long, label %give, label %spin
give:
  %ignored = call i32 %yield()
  br label %look
spin:
{pause}  br label %look
out:
  ret void
}}
define void @team(ptr %job) #0 {{
entry:
  %next = getelementptr i64, ptr %job, i64 {NEXT}
  %done = getelementptr i64, ptr %job, i64 {DONE}
{given}  br label %take
take:
  %t = atomicrmw add ptr %next, i64 1 monotonic
  %some = icmp slt i64 %t, %total
  br i1 %some, label %piece, label %out
piece:
  %step = sdiv i64 %t, %count
  %k = srem i64 %t, %count
  %p.at = mul i64 %k, {WORDS}
  %p = getelementptr i64, ptr %pieces, i64 %p.at
{piece}  %passed = mul i64 %step, %count
  %least = add i64 %passed, %before
  call void @await(ptr %done, i64 %least, ptr %yield)
  %far = mul i64 %chain, {APART}
  %link = getelementptr i64, ptr %chains, i64 %far
  %chained = icmp sge i64 %chain, 0
  br i1 %chained, label %behind, label %ready
behind:
  %rounds = mul i64 %step, %links
  %linked = add i64 %rounds, %place
  call void @await(ptr %link, i64 %linked, ptr %yield)
  br label %ready
ready:
  %calls = icmp ne ptr %f, null
  br i1 %calls, label %call, label %swap
call:
  %steps = mul i64 %step, %stride
  %now = add i64 %first, %steps
  call void %f(ptr %table, ptr %uniform, ptr %flags, i64 %lo, i64 %hi, i64 %now)
  br label %over
swap:
  %a = getelementptr ptr, ptr %table, i64 %lo
  %b = getelementptr ptr, ptr %table, i64 %hi
  %x = load ptr, ptr %a
  %y = load ptr, ptr %b
  store ptr %y, ptr %a
  store ptr %x, ptr %b
  br label %over
over:
  br i1 %chained, label %forward, label %finish
forward:
  %was = atomicrmw add ptr %link, i64 1 release
  br label %finish
finish:
  %went = atomicrmw add ptr %done, i64 1 acq_rel
  br label %take
out:
  ret void
}}
attributes #0 = {{ nounwind }}
"""
