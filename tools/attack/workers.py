"""Cases in child processes: a child that does not answer is ended, and its case is a hang."""

from __future__ import annotations

import gc
import multiprocessing
import time
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait

from attack.findings import Tally
from attack.one import of_seed

PATIENCE = 12.0  # times the limit of CPU seconds: other work may be on the machine, and it may be slow
RENEW = 300  # cases of one child: caches of the compiler grow
# Python's search for cycles is a seventh of a case, and looks at all that the compiler keeps; here it is done once in so many
TIDY = 20
RARELY = (50_000, 20, 100)


def work(pipe: Connection, only: frozenset[str], limit: float) -> None:
    """A child: seeds come in, tallies go out."""
    of_seed(0)  # what a process does once is not counted
    gc.set_threshold(*RARELY)
    count = 0
    while (seed := pipe.recv()) is not None:
        if count % TIDY == 0:
            gc.unfreeze()
            gc.collect()
            gc.freeze()
        count += 1
        try:
            answer = of_seed(seed, only, limit).to_json()
        except Exception:
            answer = "!" + traceback.format_exc()
        try:
            pipe.send(answer)
        except BrokenPipeError:  # the parent was ended
            return


class Child:
    def __init__(self, only: frozenset[str], limit: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=work, args=(other, only, limit), daemon=True)
        self.process.start()
        other.close()
        self.seed: int | None = None
        self.since, self.count = 0.0, 0

    def give(self, seed: int) -> None:
        self.seed, self.since, self.count = seed, time.monotonic(), self.count + 1
        self.pipe.send(seed)

    def end(self) -> None:
        if self.process.is_alive():
            self.process.kill()
        self.process.join()


def lost(seed: int, why: str) -> Tally:
    t = Tally()
    t.cases["lost"] += 1
    t.report(seed, "hang", why, "the process was ended")
    return t


def tallies(
    seeds: Sequence[int], jobs: int, only: frozenset[str], limit: float
) -> Iterator[tuple[int, Tally]]:
    """(seed, tally) as they are done."""
    queue = list(reversed(seeds))
    children = [Child(only, limit) for _ in range(min(jobs, len(queue)))]
    for c in children:
        c.give(queue.pop())
    try:
        while any(c.seed is not None for c in children):
            busy = [c for c in children if c.seed is not None]
            ready = wait([c.pipe for c in busy], timeout=5.0)
            for c in busy:
                seed = c.seed
                assert seed is not None
                if c.pipe in ready:
                    try:
                        text = c.pipe.recv()
                    except EOFError:
                        yield seed, lost(seed, "the process died")
                        c = renewed(children, c, only, limit)
                    else:
                        if text.startswith("!"):
                            raise RuntimeError(f"seed {seed}: {text[1:]}")
                        yield seed, Tally.of_json(text)
                elif time.monotonic() - c.since > PATIENCE * limit:
                    yield seed, lost(seed, "no answer")
                    c = renewed(children, c, only, limit)
                else:
                    continue
                c.seed = None
                if queue:
                    if c.count >= RENEW:
                        c = renewed(children, c, only, limit)
                    c.give(queue.pop())
    finally:
        for c in children:
            c.end()


def renewed(children: list[Child], c: Child, only: frozenset[str], limit: float) -> Child:
    """Another child in the place of one."""
    at = children.index(c)
    c.end()
    children[at] = Child(only, limit)
    return children[at]
