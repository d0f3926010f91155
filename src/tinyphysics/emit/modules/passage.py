"""How does a thread take the members of a tile from arrays to arrays?  A few at a time, order by order.

What an order is, tpir/kernels/passage.py says; threads take tiles as emit/modules/team.py does pieces. The same twice: in
LLVM IR, and in C for where there is a compiler instead.
"""

from __future__ import annotations

from tinyphysics.tpir.kernels.passage import (
    AT,
    CALL,
    CHECK,
    COLUMNS,
    COUNT,
    END,
    FETCH,
    FIRST,
    KEEP,
    KIND,
    KINDS,
    LANES,
    LEAST,
    MOST,
    ORDERS,
    OUT,
    OWN,
    PLACE,
    ROOM,
    ROWS,
    STEPS,
    STORE,
    STRIDE,
    TILE,
    TILES,
    WORDS,
)

OF_ONE_SIZE = """
static int row_{n}(int64_t kind, char *at, int64_t stride, {t} *row, int64_t n, int64_t full, int64_t tile) {{
  int bad = 0;
  {t} *there = ({t} *)at;
  switch (kind) {{
  case {FETCH}:
    for (int64_t i = 0; i < n; i++) row[i] = there[i*stride];
    for (int64_t i = n; i < full; i++) row[i] = row[n - 1];
    break;
  case {STORE}:
    for (int64_t i = 0; i < n; i++) there[i*stride] = row[i];
    break;
  case {CHECK}:
    for (int64_t i = 0; i < n; i++) bad |= row[i] - row[i] != 0;
    break;
  case {LEAST}:
    there += tile*stride;
    for (int64_t i = 0; i < n; i++) {{ bad |= row[i] != row[i]; *there = row[i] < *there ? row[i] : *there; }}
    break;
  case {MOST}:
    there += tile*stride;
    for (int64_t i = 0; i < n; i++) {{ bad |= row[i] != row[i]; *there = row[i] > *there ? row[i] : *there; }}
  }}
  return bad;
}}
"""

C = (
    """#include <stdint.h>
typedef void section(const void *, void *, const double *, const void *, signed char *, double *,
                     int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);
"""
    + "".join(
        OF_ONE_SIZE.format(n=n, t=t, FETCH=FETCH, STORE=STORE, CHECK=CHECK, LEAST=LEAST, MOST=MOST)
        for n, t in ((8, "double"), (4, "float"))
    )
    + f"""
void passage(void **table, const double *uniform, signed char *unwell, int64_t tile, int64_t ignored, int64_t step) {{
  const int64_t *t = (int64_t *)table, *own = (int64_t *)t[{TILES}] + {TILE}*tile;
  const int64_t columns = t[{COLUMNS}], lanes = t[{LANES}], first = own[{FIRST}], end = own[{END}];
  char *room = (char *)own[{ROOM}];
  for (int64_t a = first; a < end; a += columns) {{
    const int64_t n = end - a < columns ? end - a : columns, full = (n + lanes - 1)/lanes*lanes;
    int bad = 0;
    for (int64_t k = 0; k < t[{COUNT}]; k++) {{
      const int64_t *o = (int64_t *)t[{ORDERS}] + {WORDS}*k;
      char *place = room + o[{PLACE}];
      if (o[{KIND}] == {CALL}) {{
        for (int64_t i = 0; i < columns; i++) room[i] = 0;
        ((section *)o[{AT}])(place, room + o[{OUT}], uniform, o[{OWN}] < 0 ? 0 : room + o[{OWN}], (signed char *)room, 0,
                             0, full, columns, o[{STEPS}], o[{ROWS}], 1);
        for (int64_t i = 0; i < full; i++) bad |= room[i];
      }} else {{
        const int64_t size = o[{KIND}] < {KINDS} ? 8 : 4, kind = o[{KIND}] % {KINDS}, stride = o[{STRIDE}];
        const int64_t keeps = kind == {KEEP}, order = keeps ? {STORE} : kind, apart = keeps ? 1 : stride;
        const int64_t kept = first*(stride - 1) + (end - first)*o[{OUT}] + a;
        char *at = (char *)o[{AT}] + size*(keeps ? kept : kind <= {STORE} ? a*stride : 0);
        bad |= size == 8 ? row_8(order, at, apart, (double *)place, n, full, tile)
                         : row_4(order, at, apart, (float *)place, n, full, tile);
      }}
    }}
    if (bad) {{ unwell[tile] = 1; return; }}
  }}
}}
"""
)


def loop(
    name: str, first: str, end: str, body: str, kept: tuple[tuple[str, str, str], ...] = (), last: str = ""
) -> str:
    """Over %name; where it goes on is name.out. What is kept (name, type, first value) has the value name.new in its body.

    `last`: the block in which the body ends, if it has several.
    """
    last = last or f"{name}.do"
    phis = "".join(
        f"  %{k} = phi {t} [ {value}, %{name}.begin ], [ %{k}.new, %{last} ]\n" for k, t, value in kept
    )
    return f"""  br label %{name}.begin
{name}.begin:
  br label %{name}.look
{name}.look:
  %{name} = phi i64 [ {first}, %{name}.begin ], [ %{name}.next, %{last} ]
{phis}  %{name}.some = icmp slt i64 %{name}, {end}
  br i1 %{name}.some, label %{name}.do, label %{name}.out
{name}.do:
{body}  %{name}.next = add i64 %{name}, 1
  br label %{name}.look
{name}.out:
"""


def element(name: str, base: str, index: str, t: str) -> str:
    """A number of a row."""
    return f"  %{name}.p = getelementptr {t}, ptr {base}, i64 {index}\n  %{name} = load {t}, ptr %{name}.p\n"


def row_function(n: int, t: str) -> str:
    """The orders about one row of numbers of n bytes; is one of them none?"""

    def note(name: str, test: str) -> str:
        return f"{test}  %{name}.bad.new = or i1 %{name}.bad, %{name}.none\n"

    def extreme(name: str, better: str) -> str:
        body = (
            element(f"{name}.x", "%row", f"%{name}", t)
            + f"  %{name}.is = fcmp {better} {t} %{name}.x, %{name}.best\n"
            + f"  %{name}.best.new = select i1 %{name}.is, {t} %{name}.x, {t} %{name}.best\n"
            + note(name, f"  %{name}.none = fcmp uno {t} %{name}.x, %{name}.x\n")
        )
        kept = ((f"{name}.best", t, f"%{name}.was"), (f"{name}.bad", "i1", "false"))
        whole = loop(name, "0", "%n", body, kept)
        return f"  %{name}.was = load {t}, ptr %mine\n{whole}  store {t} %{name}.best, ptr %mine\n  ret i1 %{name}.bad\n"

    def apart(name: str) -> str:
        return f"  %{name}.far = mul i64 %{name}, %stride\n"

    fetched = (
        apart("f") + element("f.x", "%at", "%f.far", t)
        + f"  %f.to = getelementptr {t}, ptr %row, i64 %f\n  store {t} %f.x, ptr %f.to\n"
    )  # fmt: skip
    filled = f"  %p.to = getelementptr {t}, ptr %row, i64 %p\n  store {t} %last, ptr %p.to\n"
    stored = (
        element("s.x", "%row", "%s", t) + apart("s")
        + f"  %s.to = getelementptr {t}, ptr %at, i64 %s.far\n  store {t} %s.x, ptr %s.to\n"
    )  # fmt: skip
    checked = element("c.x", "%row", "%c", t) + note(
        "c", f"  %c.zero = fsub {t} %c.x, %c.x\n  %c.none = fcmp une {t} %c.zero, 0.0\n"
    )
    return f"""define internal i1 @row_{n}(i64 %kind, ptr %at, i64 %stride, ptr %row, i64 %n, i64 %full, i64 %tile) #0 {{
entry:
  %mine.far = mul i64 %tile, %stride
  %mine = getelementptr {t}, ptr %at, i64 %mine.far
  switch i64 %kind, label %over [
    i64 {FETCH}, label %fetch
    i64 {STORE}, label %store
    i64 {CHECK}, label %check
    i64 {LEAST}, label %least.from
    i64 {MOST}, label %most.from
  ]
fetch:
{loop("f", "0", "%n", fetched)}  %before = sub i64 %n, 1
{element("last", "%row", "%before", t)}{loop("p", "%n", "%full", filled)}  br label %over
store:
{loop("s", "0", "%n", stored)}  br label %over
check:
{loop("c", "0", "%n", checked, (("c.bad", "i1", "false"),))}  ret i1 %c.bad
least.from:
{extreme("least", "olt")}most.from:
{extreme("most", "ogt")}over:
  ret i1 false
}}
"""


def word(name: str, base: str, place: int, t: str = "i64") -> str:
    return f"  %{name}.w = getelementptr i64, ptr {base}, i64 {place}\n  %{name} = load {t}, ptr %{name}.w\n"


def words(base: str, *rows: tuple[str, int, str]) -> str:
    return "".join(word(name, base, place, t) for name, place, t in rows)


def llvm() -> str:
    given = words(
        "%table", ("orders", ORDERS, "ptr"), ("count", COUNT, "i64"), ("tiles", TILES, "ptr"),
        ("columns", COLUMNS, "i64"), ("lanes", LANES, "i64"),
    )  # fmt: skip
    tile = words("%tile.p", ("first", FIRST, "i64"), ("end", END, "i64"), ("room", ROOM, "ptr"))
    order = words(
        "%o", ("kind", KIND, "i64"), ("at", AT, "ptr"), ("stride", STRIDE, "i64"), ("place", PLACE, "i64"),
        ("out.place", OUT, "i64"), ("own.place", OWN, "i64"), ("steps", STEPS, "i64"), ("rows", ROWS, "i64"),
    )  # fmt: skip
    given_to_section = (
        "ptr %row, ptr %out, ptr %uniform, ptr %own, ptr %room, ptr null, "
        "i64 0, i64 %full, i64 %columns, i64 %steps, i64 %rows, i64 1"
    )
    cleared = "  %y.p = getelementptr i8, ptr %room, i64 %y\n  store i8 0, ptr %y.p\n"
    seen = element("z.x", "%room", "%z", "i8") + "  %z.any.new = or i8 %z.any, %z.x\n"
    body = f"""  %o.far = mul i64 %k, {WORDS}
  %o = getelementptr i64, ptr %orders, i64 %o.far
{order}  %row = getelementptr i8, ptr %room, i64 %place
  %calls = icmp eq i64 %kind, {CALL}
  br i1 %calls, label %call, label %number
call:
{loop("y", "0", "%columns", cleared)}  %out = getelementptr i8, ptr %room, i64 %out.place
  %own.at = getelementptr i8, ptr %room, i64 %own.place
  %none = icmp slt i64 %own.place, 0
  %own = select i1 %none, ptr null, ptr %own.at
  call void %at({given_to_section})
{loop("z", "0", "%full", seen, (("z.any", "i8", "0"),))}  %guard = icmp ne i8 %z.any, 0
  br label %after
number:
  %wide = icmp slt i64 %kind, {KINDS}
  %what = srem i64 %kind, {KINDS}
  %keeps = icmp eq i64 %what, {KEEP}
  %order = select i1 %keeps, i64 {STORE}, i64 %what
  %others = sub i64 %stride, 1
  %others.far = mul i64 %first, %others
  %members = sub i64 %end, %first
  %rows.far = mul i64 %members, %out.place
  %rows.at = add i64 %others.far, %rows.far
  %kept.at = add i64 %rows.at, %a
  %plain.at = mul i64 %a, %stride
  %moves = icmp sle i64 %what, {STORE}
  %moved = select i1 %moves, i64 %plain.at, i64 0
  %far = select i1 %keeps, i64 %kept.at, i64 %moved
  %apart = select i1 %keeps, i64 1, i64 %stride
  br i1 %wide, label %eight, label %four
eight:
  %at.8 = getelementptr double, ptr %at, i64 %far
  %bad.8 = call i1 @row_8(i64 %order, ptr %at.8, i64 %apart, ptr %row, i64 %n, i64 %full, i64 %tile)
  br label %after
four:
  %at.4 = getelementptr float, ptr %at, i64 %far
  %bad.4 = call i1 @row_4(i64 %order, ptr %at.4, i64 %apart, ptr %row, i64 %n, i64 %full, i64 %tile)
  br label %after
after:
  %found = phi i1 [ %guard, %z.out ], [ %bad.8, %eight ], [ %bad.4, %four ]
  %bad.new = or i1 %bad, %found
"""
    return f"""{row_function(8, "double")}{row_function(4, "float")}
define void @passage(ptr %table, ptr %uniform, ptr %unwell, i64 %tile, i64 %ignored, i64 %step) #0 {{
entry:
{given}  %tile.far = mul i64 %tile, {TILE}
  %tile.p = getelementptr i64, ptr %tiles, i64 %tile.far
{tile}  br label %some
some:
  %a = phi i64 [ %first, %entry ], [ %a.next, %well ]
  %going = icmp slt i64 %a, %end
  br i1 %going, label %go, label %return
go:
  %left = sub i64 %end, %a
  %few = icmp slt i64 %left, %columns
  %n = select i1 %few, i64 %left, i64 %columns
  %up = add i64 %n, %lanes
  %up.less = sub i64 %up, 1
  %vectors = sdiv i64 %up.less, %lanes
  %full = mul i64 %vectors, %lanes
{loop("k", "0", "%count", body, (("bad", "i1", "false"),), "after")}  br i1 %bad, label %tell, label %well
well:
  %a.next = add i64 %a, %columns
  br label %some
tell:
  %verdict = getelementptr i8, ptr %unwell, i64 %tile
  store i8 1, ptr %verdict
  br label %return
return:
  ret void
}}
attributes #0 = {{ nounwind }}
"""
