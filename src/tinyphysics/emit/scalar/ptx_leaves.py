"""The leaves of a hash where the data is: blake2b-128 of pieces of an array on a GPU, a thread for each.

What runtime/state/digest.py defines: an array's bytes in little-endian order, every NaN the same one. RFC 7693 names the
rest.
"""

from __future__ import annotations

from tinyphysics.emit.scalar.ptx import HEAD, SPECIAL
from tinyphysics.emit.scalar.ptx_tools import kernel

IV = (
    0x6A09E667F3BCC908,
    0xBB67AE8584CAA73B,
    0x3C6EF372FE94F82B,
    0xA54FF53A5F1D36F1,
    0x510E527FADE682D1,
    0x9B05688C2B3E6C1F,
    0x1F83D9ABFB41BD6B,
    0x5BE0CD19137E2179,
)
FIRST = IV[0] ^ 0x01010000 ^ 16  # no key, one node, and 16 bytes of digest
BLOCK = 128  # bytes that are mixed at a time
WORDS = 16  # of 64 bits, in a block
SIGMA = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
    (14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3),
    (11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4),
    (7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8),
    (9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13),
    (2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9),
    (12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11),
    (13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10),
    (6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5),
    (10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0),
)
ROUNDS = 12
MIXED = (
    (0, 4, 8, 12),
    (1, 5, 9, 13),
    (2, 6, 10, 14),
    (3, 7, 11, 15),
    (0, 5, 10, 15),
    (1, 6, 11, 12),
    (2, 7, 8, 13),
    (3, 4, 9, 14),
)
TURNS = (32, 24, 16, 63)
INFINITE = {"f64": 0x7FF << 52, "f32": 0xFF << 23}
NAN = {"f64": 0xFFF << 51, "f32": 0x1FF << 22}
# twelve rounds in a row take LLVM seconds to order, and the driver's assembler does it again
ATTRIBUTES = "attributes #0 = { nounwind noinline optnone }"


def element(kind: str, x: str, index: str) -> list[str]:
    """The number of an array at a place, as it is hashed; zero beyond the end of the leaf."""
    word = f"i{kind[1:]}"
    lines = [
        f"%{x}.in = icmp slt i64 {index}, %end",
        f"%{x}.safe = select i1 %{x}.in, i64 {index}, i64 %begin",
        f"%{x}.at = getelementptr {word}, ptr %data, i64 %{x}.safe",
        f"%{x}.raw = load {word}, ptr %{x}.at, align {int(kind[1:]) // 8}",
    ]
    raw = f"%{x}.raw"
    if kind in NAN:
        lines += [
            f"%{x}.size = and {word} {raw}, {(1 << int(kind[1:]) - 1) - 1}",
            f"%{x}.none = icmp ugt {word} %{x}.size, {INFINITE[kind]}",
            f"%{x}.one = select i1 %{x}.none, {word} {NAN[kind]}, {word} {raw}",
        ]
        raw = f"%{x}.one"
    return [*lines, f"%{x} = select i1 %{x}.in, {word} {raw}, {word} 0"]


def message(kind: str, k: int) -> list[str]:
    """The k-th word of a block."""
    if kind.endswith("64"):
        return [f"%i{k} = add i64 %first, {k}", *element(kind, f"m{k}", f"%i{k}")]
    lines = []
    for half, part in enumerate(("low", "high")):
        at = f"%i{k}.{part}"
        lines += [
            f"{at} = add i64 %first, {2 * k + half}",
            *element(kind, f"m{k}.{part}", at),
            f"%m{k}.{part}.wide = zext i32 %m{k}.{part} to i64",
        ]
    return [*lines, f"%m{k}.up = shl i64 %m{k}.high.wide, 32", f"%m{k} = or i64 %m{k}.up, %m{k}.low.wide"]


def mixing() -> tuple[list[str], list[str]]:
    """(the rounds, the names of what is left)."""
    v = [f"%h{k}" for k in range(8)] + [str(signed(x)) for x in IV[:4]]
    v += ["%v12", str(signed(IV[5])), "%v14", str(signed(IV[7]))]
    lines: list[str] = []

    def new(text: str) -> str:
        x = f"%x{len(lines)}"
        lines.append(f"{x} = {text}")
        return x

    def turned(a: str, b: str, turn: int) -> str:
        x = new(f"xor i64 {a}, {b}")
        return new(f"call i64 @llvm.fshr.i64(i64 {x}, i64 {x}, i64 {turn})")

    for r in range(ROUNDS):
        order = SIGMA[r % len(SIGMA)]
        for g, (a, b, c, d) in enumerate(MIXED):
            for half in (0, 1):
                v[a] = new(f"add i64 {v[a]}, {v[b]}")
                v[a] = new(f"add i64 {v[a]}, %m{order[2 * g + half]}")
                v[d] = turned(v[d], v[a], TURNS[2 * half])
                v[c] = new(f"add i64 {v[c]}, {v[d]}")
                v[b] = turned(v[b], v[c], TURNS[2 * half + 1])
    return lines, v


def signed(x: int) -> int:
    return x - (1 << 64) if x >> 63 else x


def leaves(kind: str) -> list[str]:
    """(data, how many numbers, how many of them a leaf has, where digests go, how many leaves)."""
    size = int(kind[1:]) // 8
    rounds, v = mixing()
    given = "ptr %data, i64 %numbers, i64 %leaf, ptr %out, i64 %count"
    return kernel(
        name(kind),
        given,
        "%count",
        [
            "%begin = mul i64 %k, %leaf",
            "%full = add i64 %begin, %leaf",
            "%short = icmp slt i64 %numbers, %full",
            "%end = select i1 %short, i64 %numbers, i64 %full",
            "br label %head",
            "head:",
            "%first = phi i64 [ %begin, %one ], [ %first.next, %head ]",
            *(
                f"%h{k} = phi i64 [ {signed(x if k else FIRST)}, %one ], [ %h{k}.next, %head ]"
                for k, x in enumerate(IV)
            ),
            f"%first.next = add i64 %first, {BLOCK // size}",
            "%last = icmp sge i64 %first.next, %end",
            "%done = select i1 %last, i64 %end, i64 %first.next",
            "%hashed = sub i64 %done, %begin",
            f"%bytes = mul i64 %hashed, {size}",
            f"%v12 = xor i64 %bytes, {signed(IV[4])}",
            f"%v14 = select i1 %last, i64 {signed(~IV[6] & (1 << 64) - 1)}, i64 {signed(IV[6])}",
            *(line for k in range(WORDS) for line in message(kind, k)),
            *rounds,
            *(
                line
                for k in range(8)
                for line in (f"%y{k} = xor i64 {v[k]}, {v[k + 8]}", f"%h{k}.next = xor i64 %h{k}, %y{k}")
            ),
            "br i1 %last, label %write, label %head",
            "write:",
            "%at = mul i64 %k, 2",
            "%low.at = getelementptr i64, ptr %out, i64 %at",
            "%high.at = getelementptr i64, ptr %low.at, i64 1",
            "store i64 %h0.next, ptr %low.at, align 8",
            "store i64 %h1.next, ptr %high.at, align 8",
            "br label %next",
        ],
    )


def name(kind: str) -> str:
    return f"leaves_{kind}"


def module(kind: str) -> str:
    """The kernel for one kind of numbers: each is long, and a run has one."""
    lines = leaves(kind)
    return (
        "\n".join([HEAD, *SPECIAL.values(), "declare i64 @llvm.fshr.i64(i64, i64, i64)", *lines, ATTRIBUTES])
        + "\n"
    )
