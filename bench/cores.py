"""How many cores are there really?  A loop that only computes in registers, on several threads, and on pairs of processors.

    python bench/cores.py

Two processors that share a core have together hardly more than one of them: each pair is tried, pinned. What such a loop
gains on n threads is the most that any program gains there which keeps a core busy.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

from tinyphysics.device.host.cores import available
from tinyphysics.device.host.llvm import compile_text, link
from tinyphysics.device.host.processor import processor
from tinyphysics.device.host.threads import spread

CHAINS = 12  # sums beside each other: more than the units for them have under way
TURNS = 400_000  # some milliseconds
APART = 1.5  # the gain of two threads from which they are on two cores


@cache
def loop() -> Any:
    """Multiplications and additions of vectors in registers, so many turns."""
    cpu = processor()
    v = f"<{cpu.width} x double>"
    lines = ["define double @loop(i64 %n) {", "entry:", "  br label %head", "head:"]
    lines.append("  %k = phi i64 [ 0, %entry ], [ %k1, %head ]")
    number = "<" + ", ".join(["double 0x3FEFFFFFE0000000"] * cpu.width) + ">"
    lines += [f"  %x{c} = phi {v} [ zeroinitializer, %entry ], [ %s{c}, %head ]" for c in range(CHAINS)]
    for c in range(CHAINS):
        lines += [f"  %m{c} = fmul {v} %x{c}, {number}", f"  %s{c} = fadd {v} %m{c}, {number}"]
    lines += [
        "  %k1 = add i64 %k, 1",
        "  %more = icmp slt i64 %k1, %n",
        "  br i1 %more, label %head, label %out",
        "out:",
    ]
    total = "%s0"
    for c in range(1, CHAINS):
        lines.append(f"  %t{c} = fadd {v} {total}, %s{c}")
        total = f"%t{c}"
    lines += [f"  %one = extractelement {v} {total}, i32 0", "  ret double %one", "}"]
    code = compile_text("\n".join(lines) + "\n", cpu)
    return link(code, {"loop": ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)})["loop"]


def gain(threads: int, rounds: int = 3) -> float:
    """How many times as much so many threads compute as one does."""
    f, best = loop(), {1: 1e9, threads: 1e9}
    for _ in range(rounds):
        for n in best:
            pieces = 16 * n
            began = time.perf_counter()
            spread(lambda k: f(TURNS), pieces, n)
            best[n] = min(best[n], (time.perf_counter() - began) / pieces)
    return best[1] / best[threads]


def pinned(processors: Sequence[int]) -> float:
    """Seconds that a loop on each of these processors takes, at once."""
    f, ready = loop(), threading.Barrier(len(processors))
    took: list[float] = []

    def one(p: int) -> None:
        os.sched_setaffinity(0, {p})  # of this thread alone
        ready.wait()
        began = time.perf_counter()
        f(4 * TURNS)
        took.append(time.perf_counter() - began)

    threads = [threading.Thread(target=one, args=(p,)) for p in processors]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return max(took)


def cores() -> list[list[int]]:
    """The processors of this process, those that share a core together."""
    found: list[list[int]] = []
    for p in sorted(os.sched_getaffinity(0)):
        alone = min(pinned([p]) for _ in range(2))
        for core in found:
            if 2 * alone / min(pinned([core[0], p]) for _ in range(2)) < APART:
                core.append(p)
                break
        else:
            found.append([p])
    return found


def report(counts: Sequence[int]) -> dict[int, float]:
    """Prints both, and says what a loop in registers gains."""
    gains = {n: gain(n) if n > 1 else 1.0 for n in counts}
    print("registers: " + ", ".join(f"{n}: {x:.2f} x" for n, x in gains.items()))
    if hasattr(os, "sched_setaffinity"):
        found = cores()
        shared = [core for core in found if len(core) > 1]
        print(f"{len(found)} cores" + (f", shared by {shared}" if shared else ", none shared"), flush=True)
    return gains


if __name__ == "__main__":
    report([n for n in (1, 2, 4, 7, 8, 16, 32) if n <= available()])
