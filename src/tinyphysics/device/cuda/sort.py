"""How are whole numbers on a CUDA device sorted and summed up?  By kernels of emit/kinds/neighbours/ptx_sort.py."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda import nvptx

BLOCK = 128  # threads
EACH = 16, 1 << 14  # numbers of a thread at least, threads at most
SUMMED = 64, 1 << 14  # the same, where numbers are summed up
SWEPT = 256  # threads of a block that does it alone
DIGIT, DIGITS = 8, 256  # bits of a pass
WORD = 8  # bytes of a number


class Kernels:
    """Kernels of one module, each for so many threads."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        functions, _ = cuda.load(nvptx.ptx(text, cuda.device().capability)[0], names)
        self.function = dict(zip(names, functions))

    def __call__(self, name: str, count: int, *args: Any) -> None:
        """The number of threads is the last argument of each."""
        given = [ctypes.c_int64(a) if isinstance(a, int) else a for a in (*args, count)]
        block = SWEPT if name == "sweep" else BLOCK
        cuda.launch(self.function[name], -(-count // block), block, given)


def words(count: int) -> cuda.Buffer:
    """Room for whole numbers."""
    return cuda.Buffer(WORD * count)


def summed(k: Kernels, numbers: cuda.Buffer, count: int) -> None:
    """Each number becomes the sum of all before it."""
    each = max(SUMMED[0], -(-count // SUMMED[1]))
    threads = -(-count // each)
    if threads <= SWEPT:
        k("sweep", SWEPT, numbers, count, -(-count // SWEPT), words(SWEPT))
        return
    before = words(threads)
    k("sums", threads, numbers, count, each, before)
    k("sweep", SWEPT, before, threads, -(-threads // SWEPT), words(SWEPT))
    k("spread", threads, numbers, count, each, before)


def ordered(k: Kernels, keys: cuda.Buffer, n: int, low: int, high: int) -> cuda.Buffer:
    """Keys sorted by their bits from `low` up to `high`; equal ones stay in order. What was given is written over."""
    each = max(EACH[0], -(-n // EACH[1]))
    threads = -(-n // each)
    counters, other = words(DIGITS * threads), words(n)
    for shift in range(low, high, DIGIT):
        cuda.zero(counters)
        k("digits", threads, keys, n, each, shift, counters)
        summed(k, counters, DIGITS * threads)
        k("move", threads, keys, n, each, shift, counters, other)
        keys, other = other, keys
    return keys
