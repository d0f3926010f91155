"""Small kernels that a run on a GPU needs beside its own: marks read, members copied, rows and columns exchanged.

They move bits and compare them; nothing is computed. A number is a word of 32 or 64 bits.
"""

from __future__ import annotations

from tinyphysics.emit.scalar.ptx import ATTRIBUTES, HEAD, KERNEL, SPECIAL, WHERE

EXPONENT = {"f64": 0x7FF << 52, "f32": 0xFF << 23}  # all ones: not a number, or infinite


def kernel(name: str, arguments: str, count: str, body: list[str]) -> list[str]:
    """A loop in which each thread of a grid has its own %k < count; a body ends by going to %next."""
    return [
        f"{KERNEL} @{name}({arguments}) #0 {{",
        "entry:",
        *WHERE,
        f"  %any = icmp slt i64 %thread, {count}",
        "  br i1 %any, label %one, label %exit",
        "one:",
        "  %k = phi i64 [ %thread, %entry ], [ %k.next, %next ]",
        *(f"  {line}" if not line.endswith(":") else line for line in body),
        "next:",
        "  %k.next = add i64 %k, %grid",
        f"  %more = icmp slt i64 %k.next, {count}",
        "  br i1 %more, label %one, label %exit",
        "exit:",
        "  ret void",
        "}",
    ]


def at(name: str, word: str, base: str, index: str) -> str:
    return f"%{name} = getelementptr {word}, ptr %{base}, i64 {index}"


def load(name: str, word: str) -> str:
    return f"%{name} = load {word}, ptr %{name}.at, align {int(word[1:]) // 8}"


def store(word: str) -> str:
    return f"store {word} %x, ptr %y.at, align {int(word[1:]) // 8}"


# is any mark set?  Then so is the word; all threads that find one write the same
ANY = kernel(
    "any",
    "ptr %marks, ptr %word, i64 %count",
    "%count",
    [
        at("m.at", "i8", "marks", "%k"),
        load("m", "i8"),
        "%on = icmp ne i8 %m, 0",
        "br i1 %on, label %set, label %next",
        "set:",
        "store i32 1, ptr %word",
        "br label %next",
    ],
)


def bad(kind: str) -> list[str]:
    """Marks every member that has a number which is none; a whole number that left its range is `lost`."""
    word = "i32" if kind.endswith("32") else "i64"
    if kind in EXPONENT:
        test = [f"%e = and {word} %x, {EXPONENT[kind]}", f"%off = icmp eq {word} %e, {EXPONENT[kind]}"]
    else:
        test = [
            "%wide = sext i32 %x to i64" if word == "i32" else "%wide = add i64 %x, 0",
            "%off = icmp eq i64 %wide, %lost",
        ]
    given = "ptr %rows, i64 %count, i64 %stride, i64 %members, i64 %lost, ptr %marks, ptr %word"
    return kernel(
        f"bad_{kind}",
        given,
        "%members",
        [
            "br label %head",
            "head:",
            "%r = phi i64 [ 0, %one ], [ %r.next, %well ]",
            "%in = icmp slt i64 %r, %count",
            "br i1 %in, label %row, label %next",
            "row:",
            "%base = mul i64 %r, %stride",
            "%index = add i64 %base, %k",
            at("x.at", word, "rows", "%index"),
            load("x", word),
            *test,
            "br i1 %off, label %lost.one, label %well",
            "well:",
            "%r.next = add i64 %r, 1",
            "br label %head",
            "lost.one:",
            at("m.at", "i8", "marks", "%k"),
            "store i8 1, ptr %m.at",
            "store i32 1, ptr %word",
            "br label %next",
        ],
    )


# the smallest and the largest number of a row, as whole numbers, among those that a thread sees
EXTREMES = [
    f"{KERNEL} @extremes(ptr %row, ptr %least, ptr %most, i64 %members) #0 {{",
    "entry:",
    *WHERE,
    "  %any = icmp slt i64 %thread, %members",
    "  br i1 %any, label %one, label %exit",
    "one:",
    "  %k = phi i64 [ %thread, %entry ], [ %k.next, %one ]",
    "  %low = phi i64 [ 9223372036854775807, %entry ], [ %low.next, %one ]",
    "  %high = phi i64 [ -9223372036854775808, %entry ], [ %high.next, %one ]",
    f"  {at('x.at', 'i64', 'row', '%k')}",
    f"  {load('x', 'i64')}",
    "  %less = icmp slt i64 %x, %low",
    "  %low.next = select i1 %less, i64 %x, i64 %low",
    "  %more.of = icmp sgt i64 %x, %high",
    "  %high.next = select i1 %more.of, i64 %x, i64 %high",
    "  %k.next = add i64 %k, %grid",
    "  %more = icmp slt i64 %k.next, %members",
    "  br i1 %more, label %one, label %done",
    "done:",
    f"  {at('a.at', 'i64', 'least', '%thread')}",
    "  store i64 %low.next, ptr %a.at, align 8",
    f"  {at('b.at', 'i64', 'most', '%thread')}",
    "  store i64 %high.next, ptr %b.at, align 8",
    "  br label %exit",
    "exit:",
    "  ret void",
    "}",
]


def gather(word: str) -> list[str]:
    """Columns of rows, by a list of which."""
    given = "ptr %source, i64 %from, ptr %out, i64 %to, ptr %which, i64 %rows, i64 %count"
    return kernel(
        f"gather_{word}",
        given,
        "%count",
        [
            at("w.at", "i64", "which", "%k"),
            load("w", "i64"),
            "br label %head",
            "head:",
            "%r = phi i64 [ 0, %one ], [ %r.next, %row ]",
            "%in = icmp slt i64 %r, %rows",
            "br i1 %in, label %row, label %next",
            "row:",
            "%a = mul i64 %r, %from",
            "%b = add i64 %a, %w",
            at("x.at", word, "source", "%b"),
            load("x", word),
            "%c = mul i64 %r, %to",
            "%d = add i64 %c, %k",
            at("y.at", word, "out", "%d"),
            store(word),
            "%r.next = add i64 %r, 1",
            "br label %head",
        ],
    )


def fill(word: str) -> list[str]:
    """Listed columns of rows become what another column is."""
    return kernel(
        f"fill_{word}",
        "ptr %data, i64 %stride, ptr %which, i64 %well, i64 %rows, i64 %count",
        "%count",
        [
            at("w.at", "i64", "which", "%k"),
            load("w", "i64"),
            "br label %head",
            "head:",
            "%r = phi i64 [ 0, %one ], [ %r.next, %row ]",
            "%in = icmp slt i64 %r, %rows",
            "br i1 %in, label %row, label %next",
            "row:",
            "%a = mul i64 %r, %stride",
            "%b = add i64 %a, %well",
            at("x.at", word, "data", "%b"),
            load("x", word),
            "%d = add i64 %a, %w",
            at("y.at", word, "data", "%d"),
            store(word),
            "%r.next = add i64 %r, 1",
            "br label %head",
        ],
    )


def turned(name: str, word: str, into_rows: bool) -> list[str]:
    """(members, numbers) as rows of lanes, the last member filling up what is left of them; or back."""
    count = "%lanes" if into_rows else "%members"
    body = [
        "%beyond = icmp slt i64 %k, %members",
        "%last = sub i64 %members, 1",
        "%who = select i1 %beyond, i64 %k, i64 %last",
        "%own = mul i64 %who, %numbers",
        "br label %head",
        "head:",
        "%r = phi i64 [ 0, %one ], [ %r.next, %row ]",
        "%in = icmp slt i64 %r, %numbers",
        "br i1 %in, label %row, label %next",
        "row:",
        "%flat = add i64 %own, %r",
        "%a = mul i64 %r, %lanes",
        "%b = add i64 %a, %k",
    ]
    source, out = ("%flat", "%b") if into_rows else ("%b", "%flat")
    body += [
        at("x.at", word, "source", source),
        load("x", word),
        at("y.at", word, "out", out),
        store(word),
        "%r.next = add i64 %r, 1",
        "br label %head",
    ]
    return kernel(
        f"{name}_{word}", "ptr %source, ptr %out, i64 %members, i64 %numbers, i64 %lanes", count, body
    )


def module() -> str:
    words = ("i32", "i64")
    lines = [*ANY, *EXTREMES, *(line for kind in ("f64", "f32", "i64", "i32") for line in bad(kind))]
    for word in words:
        lines += [*gather(word), *fill(word), *turned("rows", word, True), *turned("members", word, False)]
    return "\n".join([HEAD, *SPECIAL.values(), *lines, ATTRIBUTES]) + "\n"


NAMES = (
    "any",
    "extremes",
    "bad_f64",
    "bad_f32",
    "bad_i64",
    "bad_i32",
    *(f"{name}_{word}" for word in ("i32", "i64") for name in ("gather", "fill", "rows", "members")),
)
