"""How do threads share the nests of a step?  Cut into pieces, which they take in order: emit/modules/team.py.

A piece may begin when all pieces before its call are done, and as a link of a chain, when the link before it is. Pieces of
one call are otherwise independent of each other. No number depends on which thread does a piece, or when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tinyphysics.tpir.kernels.nests import LINKS, LoopSection, Round
from tinyphysics.tpir.kernels.wavefront import Wavefront

# words of a job: what threads change has a cache line of its own
NEXT, DONE = 0, 8
COUNT, TOTAL, FIRST, STRIDE, ROUND, PIECES, CHAINS, TABLE, UNIFORM, FLAGS, YIELD = range(16, 27)
JOB = 32
WORDS = 6  # of a piece: function, lo, hi, pieces before its call, chain, place in it
APART = 8  # words from the counter of a chain to that of the next
PER_THREAD = 4  # pieces of a nest for each thread: the slower core takes fewer


@dataclass
class Shares:
    """Calls that follow each other, each cut into pieces for so many threads."""

    threads: int
    least: float  # operations that are worth a piece: some microseconds, in which a thread takes notice of it
    functions: Mapping[str, int]  # their addresses
    slots: Mapping[str, int]  # of buffers, in the table of where they are
    pieces: list[tuple[int, ...]] = field(default_factory=list)
    chains: int = 0

    def call(self, f: int, cuts: Iterable[tuple[int, int]]) -> None:
        before = len(self.pieces)
        self.pieces += [(f, lo, hi, before, -1, 0) for lo, hi in cuts]

    def chain(self, f: int, extent: int) -> None:
        """Links of all chains side by side: a chain goes on while other threads do other chains."""
        before, count = len(self.pieces), extent // LINKS
        for place in range(LINKS):
            for k in range(count):
                lo = k * LINKS + place
                self.pieces.append((f, lo, lo + 1, before, self.chains + k, place))
        self.chains += count

    def turn(self, section: LoopSection, turn: Round) -> Shares:
        for k in range(turn.begin, turn.end):
            self.nest(section, k)
        for a, b in turn.swaps:
            self.pieces.append((0, self.slots[a], self.slots[b], len(self.pieces), -1, 0))
        return self

    def nest(self, section: LoopSection, k: int) -> None:
        nest, f = section.nests[k], self.functions[f"part.{section.name}.{k}"]
        worth = int(nest.items * max(nest.operations, 1) / self.least)
        if nest.links > 1 and worth > 1:
            self.chain(f, nest.extent)
        else:
            self.call(f, cut(nest.extent, max(1, min(nest.extent, self.threads * PER_THREAD, worth))))

    def sweep(self, section: str, wave: Wavefront) -> Shares:
        """Several steps at once on slabs of rows, then around their edges."""
        cuts = wave.slabs(self.threads * PER_THREAD)
        self.call(self.functions[f"part.sweep.{section}"], zip(cuts, cuts[1:]))
        self.call(self.functions[f"part.edge.{section}"], ((c, c) for c in cuts[:-1]))
        return self


def cut(extent: int, pieces: int) -> Sequence[tuple[int, int]]:
    cuts = [extent * i // pieces for i in range(pieces + 1)]
    return list(zip(cuts, cuts[1:]))
