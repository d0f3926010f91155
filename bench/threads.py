"""How much faster is a whole run on several threads?  Seconds by the clock of evolve, and the ratio to one thread.

    python bench/threads.py                          all rows with 1, 2, 4, 7, 8, 16 threads, as far as there are processors
    python bench/threads.py --only pendulums --threads 1,16 --rounds 7
    python bench/threads.py --backend c              where there is no LLVM
    python bench/threads.py --serial --threads 7,16  what no thread shares, on any number of processors
    python bench/threads.py --where --threads 1,16   what the threads do all the while

Thread counts are interleaved and the least of the rounds counts. The hash of every run has to be that of one thread.
`registers` is what the cores can do: the gain of a loop in registers on as many threads (bench/cores.py, which also finds
the processors that share a core). `copy` is what memory can do: bytes read and written a second by copying 256 MB. The bound
of a row is the time that its threads need at best: that of one thread over what `registers` gains, or over the number of
chains that the order of its sums allows at once (eight slabs of a sum over neighbours, of which the first has 16 % more pairs
than the mean); or the time that memory needs for what a step moves, if that is longer.

`--serial` lets one thread do what a run would share among so many, and counts the CPU time of what is outside: the part of a
run that more threads do not shorten, and the gain that Amdahl's law leaves.

`--where` takes the time of what a run is made of, in every thread: seconds by the clock and of CPU, summed over threads.
Where the clock has more than the CPU, a thread waited: for Python's lock or for memory that the system gives. `--room` is the
size of tiles in numbers (device/engines/engine.py: ROOM), to see whether another one does better.
"""

from __future__ import annotations

import argparse
import resource
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_systems import gravity, waves
from cores import report
from liquid import liquid
from liquid import start as crystal

import tinyphysics as tp
from tinyphysics.device.host.cores import available
from tinyphysics.device.host.threads import spread
from tinyphysics.ir.reduction import NEAR_SLABS, SLABS

COUNTS = (1, 2, 4, 7, 8, 16)
PIECE = 1 << 20  # bytes


@tp.hamiltonian
def pendulum(q: float, p: float) -> Any:
    return p**2 / 2 - tp.cos(q)


@dataclass(frozen=True)
class Row:
    system: Any
    dt: float
    steps: int
    start: Callable[[], dict[str, Any]]
    moved: Callable[[dict[str, Any]], float] = lambda given: (
        0.0
    )  # bytes of a step that go through memory at least
    must: str = ""
    loop: bool = False  # keep the loop of a quadratic energy
    chains: int = 1 << 20  # what can be done at once, by the order of its sums


def pendulums(members: int) -> dict[str, Any]:
    return {"q": np.linspace(0.1, 2.0, members), "p": np.zeros(members)}


def bodies(n: int) -> dict[str, Any]:
    r = np.random.default_rng(1)
    return {"q": r.normal(size=(n, 3)), "p": r.normal(size=(n, 3)) / n, "m": np.full(n, 1.0 / n)}


def argon(cells: int) -> dict[str, Any]:
    q, p, box = crystal(cells)
    return {"q": q, "p": p, "L": box}


def sheet(n: int) -> dict[str, Any]:
    x = np.sin(np.linspace(0.0, 2.0 * np.pi, n, endpoint=False))
    return {"q": x[:, None] * x, "p": np.zeros((n, n))}


# fmt: off
ROWS = {
    "pendulums": Row(pendulum, 0.01, 200, lambda: pendulums(4_000_000), must="16 threads: 12"),
    "gravity":   Row(gravity, 1e-4, 200, lambda: bodies(4_096), must="7 threads: 5.5", chains=SLABS),
    "argon":     Row(liquid, 0.004, 20, lambda: argon(38), must="within 15 % of the bound", chains=NEAR_SLABS),
    "wave":      Row(waves, 0.1, 40, lambda: sheet(4_096), lambda x: 4.0 * x["q"].nbytes, "within 15 % of the bound", True),
}
# fmt: on


def copying(threads: int) -> float:
    """Bytes a second, read and written."""
    source, out = np.ones(32 << 20), np.zeros(32 << 20)
    size, best = PIECE // 8, 0.0

    def one(k: int) -> None:
        out[k * size : (k + 1) * size] = source[k * size : (k + 1) * size]

    for _ in range(5):
        began = time.perf_counter()
        spread(one, len(out) // size, threads)
        best = max(best, 2 * out.nbytes / (time.perf_counter() - began))
    return best


def measured(row: Row, backend: str, counts: list[int], rounds: int) -> dict[int, tuple[float, float]]:
    """(seconds of evolve, seconds of the hash) by the number of threads."""
    given = row.start()
    options = {"propagator": "loop"} if row.loop else {}
    sim = tp.compile(row.system, dt=row.dt, backend=backend, **options)
    best: dict[int, tuple[float, float]] = {}
    hashes: dict[int, str] = {}
    for turn in range(rounds + 1):
        for n in counts:
            out = None  # to free the last result is no part of a run
            began = time.perf_counter()
            out = sim.evolve(**given, steps=row.steps, frames=2, progress=False, threads=n)
            ran = time.perf_counter()
            hashes[n] = out.hash
            took = ran - began, time.perf_counter() - ran
            if turn:  # the first compiles
                best[n] = min(best.get(n, took), took)
    assert len(set(hashes.values())) == 1, hashes
    return best


class Alone:
    """In place of `spread`: the caller does all pieces, and its CPU time is counted."""

    def __init__(self) -> None:
        self.seconds, self.within = 0.0, False

    def take_over(self) -> None:
        """In every module that has been imported by now."""
        for name, module in list(sys.modules.items()):
            if name.startswith("tinyphysics.") and vars(module).get("spread") is spread:
                module.spread = self  # type: ignore[attr-defined]
        self.seconds = 0.0

    def __call__(self, work: Callable[[int], Any], pieces: int, threads: int) -> list[Any]:
        if threads <= 1 or pieces <= 1 or self.within:
            return [work(k) for k in range(pieces)]
        self.within, began = True, time.thread_time()
        try:
            return [work(k) for k in range(pieces)]
        finally:
            self.within = False
            self.seconds += time.thread_time() - began


def serial(row: Row, backend: str, threads: int, rounds: int, alone: Alone) -> tuple[float, float]:
    """(CPU seconds of a run, those outside what is shared), where the latter are the least."""
    given, options = row.start(), {"propagator": "loop"} if row.loop else {}
    sim, found = tp.compile(row.system, dt=row.dt, backend=backend, **options), []
    for _ in range(rounds + 1):
        alone.take_over()
        began = time.thread_time()
        sim.evolve(**given, steps=row.steps, frames=2, progress=False, threads=threads)
        spent = time.thread_time() - began
        found.append((spent - alone.seconds, spent))
    own, whole = min(found[1:])
    return whole, own


class Spans:
    """What functions take, by name: calls, seconds by the clock, of CPU; what one calls inside another is its own."""

    def __init__(self) -> None:
        self.own, self.threads = threading.local(), list[dict[str, list[float]]]()

    def timed(self, name: str, f: Callable[..., Any]) -> Callable[..., Any]:
        def call(*a: Any, **more: Any) -> Any:
            outer, self.own.inside = getattr(self.own, "inside", None), (inside := [0.0, 0.0])
            wall, cpu = time.perf_counter(), time.thread_time()
            try:
                return f(*a, **more)
            finally:
                took = time.perf_counter() - wall, time.thread_time() - cpu
                self.own.inside = outer
                if outer is not None:
                    outer[0], outer[1] = outer[0] + took[0], outer[1] + took[1]
                row = self.here().setdefault(name, [0, 0.0, 0.0])
                row[0] += 1
                row[1] += took[0] - inside[0]
                row[2] += took[1] - inside[1]

        return call

    def here(self) -> dict[str, list[float]]:
        """Those of this thread."""
        if not hasattr(self.own, "rows"):
            self.own.rows = {}
            self.threads.append(self.own.rows)
        return self.own.rows

    def taken(self) -> dict[str, list[float]]:
        """The sums over threads, which begin anew."""
        out: dict[str, list[float]] = {}
        for rows in self.threads:
            for name, row in rows.items():
                out[name] = [a + b for a, b in zip(out.get(name, [0, 0.0, 0.0]), row)]
            rows.clear()
        return out

    def put_in(self) -> None:
        from tinyphysics.device.engines import engine, passages
        from tinyphysics.device.host import copies, rows
        from tinyphysics.runtime.stages import block, loop
        from tinyphysics.runtime.state import record, tiles

        for name, place, word in (
            ("whole tiles at once", passages, "take"),
            ("arrays copied", copies, "copy_all"),
            ("the loop itself", engine.LaneEngine, "launch"),
            ("calls of sections", engine.LaneEngine, "call"),
            ("states put in rows", rows.HostMemory, "encode"),
            ("states taken out of rows", rows.HostMemory, "decode"),
            ("looks for NaN", engine.LaneEngine, "bad"),
            ("tiles loaded", engine.LaneEngine, "resume"),
            ("loops begun", engine.LaneEngine, "begun"),
            ("tiles put back", tiles.Tile, "put"),
            ("blocks of tiles, the rest", loop, "advance_block"),
            ("looks for poles", block, "look_for_poles"),
            ("looks of watches", loop, "look_inside"),
            ("digests", record.Record, "digest"),
        ):
            setattr(place, word, self.timed(name, getattr(place, word)))


def tell_where(names: list[str], counts: list[int], backend: str, rounds: int) -> None:
    spans = Spans()
    spans.put_in()
    for name in names:
        row = ROWS[name]
        given, options = row.start(), {"propagator": "loop"} if row.loop else {}
        sim = tp.compile(row.system, dt=row.dt, backend=backend, **options)
        for n in counts:
            best: tuple[float, Any] = (1e9, None)
            for _ in range(rounds + 1):
                spans.taken()
                before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
                whole = spans.timed("evolve, the rest", sim.evolve)
                out = whole(**given, steps=row.steps, frames=2, progress=False, threads=n)
                took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
                assert out.stopped is None
                out = None  # to free it is no part of a run
                best = min(
                    best,
                    (took, (before, after, spans.taken())),
                    key=lambda x: x[0],
                )
            took, (before, after, found) = best
            user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
            print(
                f"{name}, {n} threads: {1e3 * took:.1f} ms by the clock; CPU {1e3 * user:.0f} of the program,"
                f" {1e3 * system:.0f} of the system, {after.ru_minflt - before.ru_minflt} new pages,"
                f" {after.ru_nivcsw - before.ru_nivcsw} + {after.ru_nvcsw - before.ru_nvcsw} changes of thread"
            )
            for what, (calls, wall, cpu) in sorted(found.items(), key=lambda x: -x[1][1]):
                print(
                    f"    {what:28} {calls:6.0f} calls {1e3 * wall:9.2f} ms by the clock, {1e3 * cpu:9.2f} of CPU"
                )
            sys.stdout.flush()


def touching(threads: int) -> float:
    """Bytes a second of fresh memory, written for the first time."""
    size, best = PIECE // 8, 0.0
    for _ in range(3):
        out = np.empty(32 << 20)

        def one(k: int) -> None:
            out[k * size : (k + 1) * size] = 1.0  # noqa: B023

        began = time.perf_counter()
        spread(one, len(out) // size, threads)
        best = max(best, out.nbytes / (time.perf_counter() - began))
    return best


def tell_serial(names: list[str], counts: list[int], backend: str, rounds: int) -> None:
    alone = Alone()
    for name in names:
        for n in counts:
            whole, own = serial(ROWS[name], backend, n, rounds, alone)
            part = own / whole
            gain = 1 / (part + (1 - part) / n)
            print(
                f"{name}, {n} threads: {1e3 * own:.1f} of {1e3 * whole:.0f} ms are not shared, {100 * part:.2f} %;"
                f" by that alone {gain:.1f} times",
                flush=True,
            )


def main() -> None:
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--only", default=",".join(ROWS))
    parse.add_argument("--threads", default=",".join(map(str, COUNTS)))
    parse.add_argument("--rounds", type=int, default=5)
    parse.add_argument("--backend", default="llvm")
    parse.add_argument("--serial", action="store_true", help="the part of a run that no threads share")
    parse.add_argument("--where", action="store_true", help="what the threads do")
    parse.add_argument("--room", type=int, help="numbers of a tile")
    args = parse.parse_args()
    if args.room:
        from tinyphysics.device.engines import engine

        engine.ROOM = args.room
    if args.where:
        touch = {n: touching(n) for n in map(int, args.threads.split(","))}
        print("fresh memory: " + ", ".join(f"{n}: {x / 1e9:.1f} GB/s" for n, x in touch.items()))
        tell_where(args.only.split(","), [int(n) for n in args.threads.split(",")], args.backend, args.rounds)
        return
    if args.serial:
        tell_serial(
            args.only.split(","), [int(n) for n in args.threads.split(",")], args.backend, args.rounds
        )
        return
    counts = [n for n in map(int, args.threads.split(",")) if n <= available()]
    speed, gains = {n: copying(n) for n in counts}, report(counts)
    print(f"{available()} processors; copy: " + ", ".join(f"{n}: {speed[n] / 1e9:.1f} GB/s" for n in counts))
    for name in args.only.split(","):
        row = ROWS[name]
        try:
            best = measured(row, args.backend, counts, args.rounds)
        except (ImportError, tp.TinyPhysicsError) as error:  # lists of neighbours are made by LLVM alone
            print(f"{name}: left out, {error}")
            continue
        bytes_moved = row.steps * row.moved(row.start())
        print(f"{name}{f', must: {row.must}' if row.must else ''}")
        for n, (ran, hashed) in best.items():
            first = best[counts[0]]
            ratios = f"{first[0] / ran:6.2f} x, hash {1e3 * hashed:7.1f} ms {first[1] / hashed:6.2f} x"
            bound = max(first[0] / min(gains[n], row.chains), bytes_moved / speed[n])
            print(
                f"  {n:3} threads {1e3 * ran:9.1f} ms {ratios}, {100 * bound / ran:.0f} % of the bound",
                flush=True,
            )


if __name__ == "__main__":
    main()
