"""How are whole numbers sorted and summed up on a CUDA device?  Each thread a few that follow each other; no atomics.

A pass of the sort is by eight bits: every thread counts the digits of its own numbers, what was counted is summed up digit by
digit and thread by thread, and that is where each number goes. Numbers of one digit stay in order.
"""

from __future__ import annotations

from functools import partial

from tinyphysics.emit.text.code import Code, kernel
from tinyphysics.emit.text.lines import Values

DIGITS = 256
NAMES = ("sums", "spread", "sweep", "digits", "move")
BARRIER = "declare void @llvm.nvvm.barrier0()"


def own(c: Code) -> tuple[str, str]:
    """From where to where a thread has numbers."""
    begin = c.times("%thread", "%each")
    return begin, c.minimum(c.add(begin, "%each"), "%n")


def sums(c: Code) -> None:
    total = c.loop(*own(c), [("i64", "0")], lambda i, v: [c.add(v[0], c.get("%numbers", i))])[0]
    c.put("%out", "%thread", total)


def spread(c: Code) -> None:
    """Each number becomes the sum of all before it; those before a thread's own are known."""
    c.loop(*own(c), [("i64", c.get("%before", "%thread"))], partial(replaced, c, "%numbers"))


def replaced(c: Code, numbers: str, i: str, v: Values) -> Values:
    after = c.add(v[0], c.get(numbers, i))
    c.put(numbers, i, v[0])
    return [after]


def sweep(c: Code) -> None:
    """Both at once, for few numbers: the threads of one block, the first of which sums up what they have found."""
    sums(c)
    c.line("call void @llvm.nvvm.barrier0()")

    def first() -> None:
        c.loop("0", "%count", [("i64", "0")], partial(replaced, c, "%out"))

    c.when(c.is_("eq", "%thread", 0), first)
    c.line("call void @llvm.nvvm.barrier0()")
    c.loop(*own(c), [("i64", c.get("%out", "%thread"))], partial(replaced, c, "%numbers"))


def counter(c: Code, key: str) -> str:
    """Where a thread counts the digit of a key."""
    digit = c.new(f"and i64 {c.new(f'lshr i64 {key}, %shift')}, {DIGITS - 1}")
    return c.add(c.times(digit, "%count"), "%thread")


def digits(c: Code) -> None:
    def one(i: str, _: Values) -> Values:
        at = counter(c, c.get("%keys", i))
        c.put("%counters", at, c.add(c.get("%counters", at), 1))
        return []

    c.loop(*own(c), [], one)


def move(c: Code) -> None:
    def one(i: str, _: Values) -> Values:
        key = c.get("%keys", i)
        at = counter(c, key)
        to = c.get("%counters", at)
        c.put("%counters", at, c.add(to, 1))
        c.put("%out", to, key)
        return []

    c.loop(*own(c), [], one)


def kernels() -> list[str]:
    return [
        *kernel("sums", ["*numbers", "n", "each", "*out"], sums),
        *kernel("spread", ["*numbers", "n", "each", "*before"], spread),
        *kernel("sweep", ["*numbers", "n", "each", "*out"], sweep),
        *kernel("digits", ["*keys", "n", "each", "shift", "*counters"], digits),
        *kernel("move", ["*keys", "n", "each", "shift", "*counters", "*out"], move),
    ]
