"""Small kernels for loop states and cotangents that stay on a GPU: largest numbers, differences, sums, powers of two.

Arrays are (members, numbers), and what a kernel says of a member is a float64. Numbers that are not negative are compared
by their bits, among which what is no number is the largest.
"""

from __future__ import annotations

from tinyphysics.emit.scalar.ptx import ATTRIBUTES, HEAD, SPECIAL
from tinyphysics.emit.scalar.ptx_tools import at, kernel

WORDS = {"f64": ("double", 8), "f32": ("float", 4), "i64": ("i64", 8)}
POSITIVE = 0x7FFFFFFFFFFFFFFF  # all bits but the sign
INFINITE = 0x7FF << 52
LEAST = 1074  # 2**-1074 is the smallest number


def of(kind: str, name: str, base: str, index: str) -> list[str]:
    """A number of an array."""
    word, size = WORDS[kind]
    return [at(f"{name}.at", word, base, index), f"%{name} = load {word}, ptr %{name}.at, align {size}"]


def wide(kind: str, name: str) -> tuple[list[str], str]:
    """It as a float64: (lines, its name)."""
    if kind == "f64":
        return [], f"%{name}"
    how = "fpext float" if kind == "f32" else "sitofp i64"
    return [f"%{name}.wide = {how} %{name} to double"], f"%{name}.wide"


def larger(value: str, so_far: str, out: str) -> list[str]:
    """The bits of the larger one of |value| and of bits that are there."""
    return [
        f"%{out}.bits = bitcast double {value} to i64",
        f"%{out}.size = and i64 %{out}.bits, {POSITIVE}",
        f"%{out}.more = icmp ugt i64 %{out}.size, {so_far}",
        f"%{out} = select i1 %{out}.more, i64 %{out}.size, i64 {so_far}",
    ]


def over_numbers(name: str, arguments: str, first: list[str], each: list[str], last: list[str]) -> list[str]:
    """A kernel of members: `each` makes %most.next of %most for number %i; `last` ends with %most of all."""
    return kernel(
        name,
        f"{arguments}, ptr %out, i64 %numbers, i64 %members",
        "%members",
        [
            at("out.at", "i64", "out", "%k"),
            "%before = load i64, ptr %out.at, align 8",
            "%own = mul i64 %k, %numbers",
            *first,
            "br label %head",
            "head:",
            "%j = phi i64 [ 0, %one ], [ %j.next, %number ]",
            "%most = phi i64 [ %begin, %one ], [ %most.next, %number ]",
            "%in = icmp slt i64 %j, %numbers",
            "br i1 %in, label %number, label %done",
            "number:",
            "%i = add i64 %own, %j",
            *each,
            "%j.next = add i64 %j, 1",
            "br label %head",
            "done:",
            *last,
            "store i64 %result, ptr %out.at, align 8",
            "br label %next",
        ],
    )


def largest(kind: str) -> list[str]:
    """The largest number of a member, and of what is in `out` already; infinite where one is no number."""
    lines, x = wide(kind, "x")
    return over_numbers(
        f"largest_{kind}",
        "ptr %a",
        ["%begin = add i64 %before, 0"],
        [*of(kind, "x", "a", "%i"), *lines, *larger(x, "%most", "most.next")],
        [
            f"%none = icmp ugt i64 %most, {INFINITE}",
            f"%result = select i1 %none, i64 {INFINITE}, i64 %most",
        ],
    )


def apart(kind: str, low: bool) -> list[str]:
    """The largest difference of two states of a member, in parts of a size; 0 of equal ones, infinite of what is none."""

    def minus(a: str, b: str, out: str) -> list[str]:
        word = WORDS[kind][0]
        sub = "sub" if kind == "i64" else "fsub"
        return [
            *of(kind, a, a.upper(), "%i"),
            *of(kind, b, b.upper(), "%i"),
            f"%{out} = {sub} {word} %{a}, %{b}",
        ]

    each = minus("a", "b", "d")
    lines, d = wide(kind, "d")
    each += lines
    if low:
        each += minus("c", "e", "f")
        lines, f = wide(kind, "f")
        each += [*lines, f"%sum = fadd double {d}, {f}"]
        d = "%sum"
    return over_numbers(
        f"apart_{'low_' if low else ''}{kind}",
        "ptr %A, ptr %B, " + ("ptr %C, ptr %E, " if low else "") + "ptr %sizes",
        ["%begin = add i64 0, 0"],
        [*each, *larger(d, "%most", "most.next")],
        [
            *of("f64", "size", "sizes", "%k"),
            "%far = bitcast i64 %most to double",
            "%part = fdiv double %far, %size",
            "%part.bits = bitcast double %part to i64",
            "%none = fcmp uno double %part, 0.0",
            f"%told = select i1 %none, i64 {INFINITE}, i64 %part.bits",
            "%same = icmp eq i64 %most, 0",
            "%now = select i1 %same, i64 0, i64 %told",
            "%more.now = icmp ugt i64 %now, %before",
            "%result = select i1 %more.now, i64 %now, i64 %before",
        ],
    )


def peak(name: str, ratio: bool) -> list[str]:
    """The largest number of every so many, of float64 that are not negative; or of quotients, where 0/0 counts as 0."""
    value = of("f64", "x", "a", "%i")
    if ratio:
        value += [
            *of("f64", "y", "b", "%i"),
            "%q = fdiv double %x, %y",
            "%none = fcmp uno double %q, 0.0",
            "%r = select i1 %none, double 0.0, double %q",
        ]
    return kernel(
        name,
        ("ptr %a, ptr %b, " if ratio else "ptr %a, ") + "ptr %out, i64 %count, i64 %slots",
        "%slots",
        [
            "br label %head",
            "head:",
            "%i = phi i64 [ %k, %one ], [ %i.next, %number ]",
            "%most = phi i64 [ 0, %one ], [ %most.next, %number ]",
            "%in = icmp slt i64 %i, %count",
            "br i1 %in, label %number, label %done",
            "number:",
            *value,
            *larger("%r" if ratio else "%x", "%most", "most.next"),
            "%i.next = add i64 %i, %slots",
            "br label %head",
            "done:",
            at("out.at", "i64", "out", "%k"),
            "store i64 %most, ptr %out.at, align 8",
            "br label %next",
        ],
    )


# the power of two of the largest number of a member, where it is more than allowed: kept beside, and added to its exponent
SHIFTS = kernel(
    "shifts",
    "ptr %largest, ptr %exponents, ptr %new, ptr %out, i64 %allowed, i64 %members",
    "%members",
    [
        *of("i64", "x", "largest", "%k"),
        "%field = lshr i64 %x, 52",
        "%power = sub i64 %field, 1022",
        "%high = icmp sgt i64 %power, %allowed",
        "%finite = icmp ult i64 %field, 2047",
        "%on = and i1 %high, %finite",
        "%shift = select i1 %on, i64 %power, i64 0",
        *of("i64", "e", "exponents", "%k"),
        "%sum = add i64 %e, %shift",
        at("new.at", "i64", "new", "%k"),
        "store i64 %sum, ptr %new.at, align 8",
        at("out.at", "i64", "out", "%k"),
        "store i64 %shift, ptr %out.at, align 8",
        "br label %next",
    ],
)


def power(name: str, shift: str) -> list[str]:
    """2 to the power of minus `shift`, which is between 0 and LEAST."""
    return [
        f"%{name}.normal = sub i64 1023, {shift}",
        f"%{name}.field = shl i64 %{name}.normal, 52",
        f"%{name}.place = sub i64 {LEAST}, {shift}",
        f"%{name}.small = icmp ugt i64 {shift}, 1022",
        f"%{name}.at = select i1 %{name}.small, i64 %{name}.place, i64 0",
        f"%{name}.one = shl i64 1, %{name}.at",
        f"%{name}.bits = select i1 %{name}.small, i64 %{name}.one, i64 %{name}.field",
        f"%{name} = bitcast i64 %{name}.bits to double",
    ]


def scaled(kind: str) -> list[str]:
    """Numbers times 2 to the power of minus that of their member, rounded once."""
    lines, x = wide(kind, "x")
    word, size = WORDS[kind]
    narrow = [f"%y = fptrunc double %w to {word}"] if kind == "f32" else ["%y = fadd double %w, -0.0"]
    return kernel(
        f"scaled_{kind}",
        "ptr %a, ptr %shifts, ptr %out, i64 %numbers, i64 %count",
        "%count",
        [
            "%member = udiv i64 %k, %numbers",
            *of("i64", "e", "shifts", "%member"),
            f"%far = icmp ugt i64 %e, {LEAST}",
            "%e.most = sub i64 %e, 1022",  # so that the first product is exact wherever the second is not 0
            f"%very.far = icmp ugt i64 %e.most, {LEAST}",
            f"%e.some = select i1 %very.far, i64 {LEAST}, i64 %e.most",
            "%e.first = select i1 %far, i64 %e.some, i64 %e",
            "%e.rest = sub i64 %e, %e.first",
            f"%too.far = icmp ugt i64 %e.rest, {LEAST}",
            f"%e.second = select i1 %too.far, i64 {LEAST}, i64 %e.rest",
            *power("first", "%e.first"),
            *power("second", "%e.second"),
            *of(kind, "x", "a", "%k"),
            *lines,
            f"%v = fmul double {x}, %first",
            "%w = fmul double %v, %second",
            *narrow,
            at("y.at", word, "out", "%k"),
            f"store {word} %y, ptr %y.at, align {size}",
            "br label %next",
        ],
    )


def added(kind: str, exactly: bool) -> list[str]:
    """The sum of two arrays; exactly: and what it has lost."""
    word, size = WORDS[kind]
    lost = [
        f"%part = fsub {word} %s, %a",
        f"%over = fsub {word} %s, %part",
        f"%left = fsub {word} %a, %over",
        f"%right = fsub {word} %b, %part",
        f"%e = fadd {word} %left, %right",
        at("e.at", word, "lost", "%k"),
        f"store {word} %e, ptr %e.at, align {size}",
    ]
    return kernel(
        f"{'two_sum' if exactly else 'sum'}_{kind}",
        "ptr %A, ptr %B, ptr %out, " + ("ptr %lost, " if exactly else "") + "i64 %count",
        "%count",
        [
            *of(kind, "a", "A", "%k"),
            *of(kind, "b", "B", "%k"),
            f"%s = fadd {word} %a, %b",
            at("s.at", word, "out", "%k"),
            f"store {word} %s, ptr %s.at, align {size}",
            *(lost if exactly else []),
            "br label %next",
        ],
    )


KERNELS = {
    **{f"largest_{kind}": largest(kind) for kind in WORDS},
    **{f"apart_{kind}": apart(kind, False) for kind in WORDS},
    **{f"apart_low_{kind}": apart(kind, True) for kind in ("f64", "f32")},
    "peak": peak("peak", False),
    "ratio": peak("ratio", True),
    "shifts": SHIFTS,
    **{f"scaled_{kind}": scaled(kind) for kind in ("f64", "f32")},
    **{f"sum_{kind}": added(kind, False) for kind in ("f64", "f32")},
    **{f"two_sum_{kind}": added(kind, True) for kind in ("f64", "f32")},
}
NAMES = tuple(KERNELS)


def module() -> str:
    lines = [line for text in KERNELS.values() for line in text]
    return "\n".join([HEAD, *SPECIAL.values(), *lines, ATTRIBUTES]) + "\n"
