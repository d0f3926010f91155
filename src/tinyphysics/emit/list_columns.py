"""Which rows of a list of neighbours hold a block?  The list turned round, as LLVM IR: a counting sort.

Called with `fill` 0 it counts, into the place behind its own, the rows of each block and slab; with 1 it stores them in
ascending order, each at the place that its block and slab has come to.
"""
from __future__ import annotations

from tinyphysics.tpir.lists import FIRST

TEXT = f"""define void @columns(ptr %starts, ptr %blocks, i64 %n, i64 %parts, ptr %cuts, ptr %places, ptr %rows, i64 %fill) {{
entry:
  %filling = icmp ne i64 %fill, 0
  %shift = sub i64 1, %fill
  br label %row
row:
  %i = phi i64 [ 0, %entry ], [ %i.next, %row.end ]
  %slab = phi i64 [ 0, %entry ], [ %slab.here, %row.end ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %cut, label %exit
cut:
  %slab.here = phi i64 [ %slab, %row ], [ %slab.next, %cut ]
  %slab.next = add i64 %slab.here, 1
  %cut.at = getelementptr i64, ptr %cuts, i64 %slab.next
  %cut.is = load i64, ptr %cut.at
  %past = icmp sge i64 %i, %cut.is
  br i1 %past, label %cut, label %begin
begin:
  %begin.at = getelementptr i64, ptr %starts, i64 %i
  %end.at = getelementptr i64, ptr %begin.at, i64 1
  %e.begin = load i64, ptr %begin.at
  %e.end = load i64, ptr %end.at
  br label %entries
entries:
  %e = phi i64 [ %e.begin, %begin ], [ %e.next, %latch ]
  %some = icmp slt i64 %e, %e.end
  br i1 %some, label %one, label %row.end
one:
  %word.at = getelementptr i32, ptr %blocks, i64 %e
  %word = load i32, ptr %word.at
  %block = ashr i32 %word, {FIRST}
  %block.64 = sext i32 %block to i64
  %first = mul i64 %block.64, %parts
  %own = add i64 %first, %slab.here
  %key = add i64 %own, %shift
  %place.at = getelementptr i64, ptr %places, i64 %key
  %place = load i64, ptr %place.at
  %place.next = add i64 %place, 1
  store i64 %place.next, ptr %place.at
  br i1 %filling, label %store, label %latch
store:
  %to = getelementptr i32, ptr %rows, i64 %place
  %i.32 = trunc i64 %i to i32
  store i32 %i.32, ptr %to
  br label %latch
latch:
  %e.next = add i64 %e, 1
  br label %entries
row.end:
  %i.next = add i64 %i, 1
  br label %row
exit:
  ret void
}}
"""
