"""How are points put in order along the curve on a CUDA device?  A stable sort of keys; no atomics.

Few points: each counts who comes before it. Many: in passes by six bits. A thread counts the digits of keys that follow
each other, what was counted is summed up digit by digit and thread by thread, and that is where each key goes, without the
digit that it was sorted by. Which way is taken changes no order: of equal keys the first stays first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tinyphysics.emit.kinds.trees.ptx_tree_text import (
    COUNTERS,
    DIGIT,
    DIGITS,
    KEYS,
    ORDER,
    OTHER_KEYS,
    OTHER_ORDER,
    PART,
    Numbers,
    in_eights,
    parts_of,
    ranked,
    shares,
)
from tinyphysics.emit.loops.nest_writer import NestWriter
from tinyphysics.tpir.kernels.tree import BITS

Body = Callable[[NestWriter, str], None]
assert 3 * BITS % (2 * DIGIT) == 0, "after an even number of passes the order is where it was"


def sorting(n: int) -> Iterator[tuple[str, int, Body]]:
    """(name, threads, body) of each launch."""
    if ranked(n):
        yield "rank", n, rank
        return
    _, threads = shares(n)
    sizes = parts_of(DIGITS * threads)
    there, other = (KEYS, ORDER), (OTHER_KEYS, OTHER_ORDER)
    for k in range(3 * BITS // DIGIT):
        yield f"digits{k}", threads, digits(there[0])
        for level in range(1, len(sizes)):
            yield f"sums{k}_{level}", sizes[level], sums(level)
        yield f"top{k}", 1, spread(len(sizes) - 1)
        for level in reversed(range(len(sizes) - 1)):
            yield f"spread{k}_{level}", sizes[level + 1], spread(level)
        yield f"move{k}", threads, move(there, other)
        there, other = other, there


def rank(f: NestWriter, _: str) -> None:
    c, n = Numbers(f), f.nest.sizes[0]
    key = c.get(KEYS, "%thread")

    def some(places: list[str], count: list[str]) -> list[str]:
        total = count[0]
        for place, other in zip(places, [c.get(KEYS, place) for place in places]):
            before = c.new(f"icmp slt i64 {place}, %thread")  # of equal keys the first comes first
            sooner = c.new(f"icmp slt i64 {other}, {key}")
            as_soon = c.new(f"and i1 {before}, {c.new(f'icmp eq i64 {other}, {key}')}")
            total = c.ints("add", total, c.new(f"zext i1 {c.new(f'or i1 {sooner}, {as_soon}')} to i64"))
        return [total]

    (place,) = in_eights(f, "0", str(n), [("i64", "0")], some)
    c.put(ORDER, place, "%thread", "i32")


def own(c: Numbers, each: int, n: int) -> tuple[str, str]:
    """From where to where a thread has numbers."""
    begin = c.ints("mul", "%thread", str(each))
    return begin, c.less(c.ints("add", begin, str(each)), str(n))


def counter(c: Numbers, key: str, threads: int) -> str:
    """Where a thread counts the digit of a key."""
    digit = c.ints("and", key, str(DIGITS - 1))
    return c.ints("add", c.ints("mul", digit, str(threads)), "%thread")


def digits(source: str) -> Body:
    def body(f: NestWriter, _: str) -> None:
        c, n = Numbers(f), f.nest.sizes[0]
        each, threads = shares(n)
        counters = f"{COUNTERS}0"
        for digit in range(DIGITS):
            c.put(counters, c.ints("add", "%thread", str(digit * threads)), "0", "i32")

        def some(places: list[str], _: list[str]) -> list[str]:
            for key in [c.get(source, i) for i in places]:
                at = counter(c, key, threads)
                c.put(counters, at, c.ints("add", c.get(counters, at, "i32"), "1"), "i32")
            return []

        in_eights(f, *own(c, each, n), [], some)

    return body


def sums(level: int) -> Body:
    """Of the numbers of a level, part by part: the next one."""

    def body(f: NestWriter, _: str) -> None:
        c = Numbers(f)
        below, above = f"{COUNTERS}{level - 1}", f"{COUNTERS}{level}"
        size = parts_of(DIGITS * shares(f.nest.sizes[0])[1])[level - 1]

        def some(places: list[str], total: list[str]) -> list[str]:
            for x in [c.get(below, i, "i32") for i in places]:
                total = [c.ints("add", total[0], x)]
            return total

        (total,) = in_eights(f, *own(c, PART, size), [("i64", "0")], some)
        c.put(above, "%thread", total, "i32")

    return body


def spread(level: int) -> Body:
    """Each number of a level becomes the sum of all before it; those before a thread's own are known in the next one."""

    def body(f: NestWriter, _: str) -> None:
        c = Numbers(f)
        sizes = parts_of(DIGITS * shares(f.nest.sizes[0])[1])
        name = f"{COUNTERS}{level}"
        before = c.get(f"{COUNTERS}{level + 1}", "%thread", "i32") if level + 1 < len(sizes) else "0"

        def some(places: list[str], total: list[str]) -> list[str]:
            for i, x in zip(places, [c.get(name, i, "i32") for i in places]):
                c.put(name, i, total[0], "i32")
                total = [c.ints("add", total[0], x)]
            return total

        in_eights(f, *own(c, PART, sizes[level]), [("i64", before)], some)

    return body


def move(there: tuple[str, str], other: tuple[str, str]) -> Body:
    def body(f: NestWriter, _: str) -> None:
        c, n = Numbers(f), f.nest.sizes[0]
        each, threads = shares(n)
        counters = f"{COUNTERS}0"

        def some(places: list[str], _: list[str]) -> list[str]:
            keys, points = [c.get(there[0], i) for i in places], [c.get(there[1], i, "i32") for i in places]
            for key, point in zip(keys, points):
                at = counter(c, key, threads)
                to = c.get(counters, at, "i32")
                c.put(counters, at, c.ints("add", to, "1"), "i32")
                c.put(other[0], to, c.ints("lshr", key, str(DIGIT)))
                c.put(other[1], to, point, "i32")
            return []

        in_eights(f, *own(c, each, n), [], some)

    return body
