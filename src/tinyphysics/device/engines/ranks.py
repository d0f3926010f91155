"""How do several processes run one system?  Each does its parts of the nests, and is sent what it reads of the others before.

All of them make the same calls in the same order, and have whole states at the end: a run has the same result on each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol, Self

import numpy as np

from tinyphysics.device.engines.loops import NestEngine
from tinyphysics.device.host.copies import all_finite
from tinyphysics.device.host.memory import MemberBuffers, NestState
from tinyphysics.device.host.nests import view
from tinyphysics.errors import PlanError
from tinyphysics.tpir.kernels.nests import LoopSection, Round
from tinyphysics.tpir.kernels.ranked import (
    Held,
    Part,
    even,
    messages,
    missing,
    part_of,
    refusal,
    row_size,
    shares_work,
)
from tinyphysics.tpir.kernels.wavefront import Wavefront
from tinyphysics.util import prod


class Ranks(Protocol):
    """Processes that run one program together; cluster/mpi_ranks.py has those of MPI."""

    rank: int
    size: int
    sent: int  # bytes, by this one
    messages: int

    def exchange(self, out: Sequence[tuple[int, Any]], into: Sequence[tuple[int, Any]]) -> None:
        """Sends arrays to some, and fills others from some: (rank, contiguous array), each pair in one order."""
        ...

    def any(self, flag: bool) -> bool:
        """Is it true anywhere?"""
        ...


class RankEngine(NestEngine):
    ranks: Ranks

    @classmethod
    def of(cls, e: NestEngine, ranks: Ranks) -> Self:
        """The engine of one process, of that of all."""
        reason = refusal(e.kernel)
        if not reason and not e.loader.threads:
            reason = "its backend does whole nests at once"
        if not reason and not shares_work(e.kernel, ranks.size):
            reason = "its step has no long loops over rows or pairs"
        if reason:
            raise PlanError(
                f"on='mpi': processes cannot share `{e.program.name}`: {reason}",
                fix="Leave on= out: threads=8 takes the cores of one machine.",
            )
        probe = None if e.probe is None else cls.watching(e.probe, ranks)
        out = cls(e.program, e.kernel, e.loader, 1, e.lists_by, e.trees_by, probe)
        out.ranks, out._parts, out._sends = ranks, {}, {}
        out._functions = e._functions
        return out

    @classmethod
    def watching(cls, e: NestEngine, ranks: Ranks) -> Self:
        out = cls(e.program, e.kernel, e.loader, 1, e.lists_by, e.trees_by)
        out.ranks, out._parts, out._sends = ranks, {}, {}
        return out

    _parts: dict[tuple[str, int], Part]
    _sends: dict[Any, tuple[list[Any], list[Any]]]

    # --- who has what -------------------------------------------------------------------------------
    def array(self, m: MemberBuffers, name: str) -> Any:
        """A buffer where it is now: (planes, rows, ...)."""
        b = self.kernel.buffers[name]
        numbers = view(int(m.table[self.slots[name]]), b)
        return numbers.reshape(b.planes, b.plane)[:, : prod(b.axes)].reshape(b.planes, *b.axes)

    def fetch(
        self, m: MemberBuffers, reads: Mapping[str, int | None], bounds: tuple[int, ...] | None
    ) -> None:
        """What a part reads of buffers that others have written."""
        out: list[tuple[int, Any]] = []
        into: list[tuple[int, Any]] = []
        late: list[tuple[Any, Any]] = []
        for name in sorted(reads):
            held, off, b = m.held.get(name), reads[name], self.kernel.buffers[name]
            if not missing(b, held, off, bounds):
                continue
            assert held is not None
            array = self.array(m, name)
            key = name, held, off, bounds
            if key not in self._sends:
                every = list(messages(b, held, off, bounds, self.ranks.size))
                mine = [x[1:] for x in every if x[0] == self.ranks.rank]
                self._sends[key] = mine, [(x[0], *x[2:]) for x in every if x[1] == self.ranks.rank]
            sends, receives = self._sends[key]
            for to, (p, q), (a, e) in sends:
                out.append((to, np.ascontiguousarray(array[p:q, a:e])))
            for source, (p, q), (a, e) in receives:
                place = array[p:q, a:e]
                if place.flags.c_contiguous:
                    into.append((source, place))
                else:
                    late.append((place, np.empty(place.shape, place.dtype)))
                    into.append((source, late[-1][1]))
            if off is None or bounds is None:
                m.held.pop(name)
            elif not held.planes and held.bounds == bounds:
                m.held[name] = Held(bounds, False, off)
        self.ranks.exchange(out, into)
        for place, came in late:
            place[...] = came

    def complete(self, m: MemberBuffers, name: str) -> None:
        """All of a buffer, here as everywhere."""
        if name in m.held:
            self.fetch(m, {name: None}, None)

    # --- calls --------------------------------------------------------------------------------------
    def run(self, section: str, m: MemberBuffers, first: int, steps: int, careful: bool = False) -> bool:
        f, s = self.functions(careful), self.kernel.sections[section]
        flags = np.zeros(8, np.int8)
        self.launches += 1

        def do(turn: Round, now: int) -> bool:
            for k in range(turn.begin, turn.end):
                self.nest(s, k, f[f"part.{section}.{k}"], m, flags, now)
            for a, b in turn.swaps:
                i, j = self.slots[a], self.slots[b]
                m.table[i], m.table[j] = int(m.table[j]), int(m.table[i])
                held = {b: m.held.pop(a, None), a: m.held.pop(b, None)}
                m.held |= {name: h for name, h in held.items() if h is not None}
            if not turn.going:
                return True
            self.complete(m, turn.going)
            return bool(self.array(m, turn.going).reshape(-1).view(np.int32)[0])

        done, wave = 0, self.wave(section)
        if wave is not None and f"part.sweep.{section}" in f and self.has_room(wave):
            for _ in range(steps // wave.steps):
                self.sweep(s, wave, f, m, flags, first + done)
                done += wave.steps
        for now in range(first + done, first + steps):
            if not s.run(partial(do, now=now)):
                break
        if section == "final":
            for name, _, _ in self.kernel.outputs.values():
                self.complete(m, name)
        return not (self.ranks.any(bool(flags[0])) if self.kernel.guarded else flags[0])

    def nest(self, s: LoopSection, k: int, f: Any, m: MemberBuffers, flags: Any, now: int) -> None:
        key = s.name, k
        if key not in self._parts:
            self._parts[key] = part_of(s.nests[k], self.kernel, self.ranks.size)
        part = self._parts[key]
        self.fetch(m, part.reads, part.bounds)
        lo, hi = (
            (0, s.nests[k].extent)
            if part.bounds is None
            else (part.bounds[self.ranks.rank], part.bounds[self.ranks.rank + 1])
        )
        if lo < hi:
            f(m.table, m.uniform, flags, lo, hi, now)
        for name, held in part.writes.items():
            if held is None:
                m.held.pop(name, None)
            else:
                m.held[name] = held

    # --- several steps at once ----------------------------------------------------------------------
    def margin(self, wave: Wavefront) -> int:
        """Rows of others that are swept along with one's own, so that the rows at the edge are right."""
        return 2 * wave.stages * wave.reach

    def has_room(self, wave: Wavefront) -> bool:
        least = min(
            b - a for a, b in zip(even(wave.extent, self.ranks.size), even(wave.extent, self.ranks.size)[1:])
        )
        return self.ranks.size > 1 and least >= 2 * (self.margin(wave) + wave.reach)

    def sweep(self, s: LoopSection, wave: Wavefront, f: Any, m: MemberBuffers, flags: Any, now: int) -> None:
        """The steps of a wavefront: on own rows, on those of the neighbours beside them, then around both edges."""
        n, wide = wave.extent, self.margin(wave)
        bounds = even(n, self.ranks.size)
        changing = {x.buffer for nest in s.nests for p in nest.pieces for x in p.stores}
        used = changing | {u.arg[0] for nest in s.nests for u in nest.loads()}
        rows = {x for x in used if self.kernel.buffers[x].axes[:1] == (n,)}
        self.fetch(m, {x: wide + wave.reach if x in rows else None for x in used}, bounds)
        lo, hi = bounds[self.ranks.rank], bounds[self.ranks.rank + 1]
        over, edge = f[f"part.sweep.{s.name}"], f[f"part.edge.{s.name}"]
        for a, b in ((lo, hi), ((lo or n) - wide, lo or n), (hi % n, hi % n + wide)):
            over(m.table, m.uniform, flags, a, b, now)
        for c in (lo, hi % n):
            edge(m.table, m.uniform, flags, c, c, now)
        for x in changing:
            m.held[x] = Held(bounds)

    # --- what the runtime asks ----------------------------------------------------------------------
    def block(self, members: int) -> int:
        """As many steps as one process does in that time; whole passes of a wavefront."""
        steps, wave = super().block(members) * self.ranks.size, self.wave("step")
        return steps if wave is None or steps < wave.steps else steps // wave.steps * wave.steps

    def fill(self, one: MemberBuffers, name: str, values: Any) -> None:
        one.held.pop(name, None)
        super().fill(one, name, values)

    def contents(self, one: MemberBuffers, name: str) -> Any:
        self.complete(one, name)
        return super().contents(one, name)

    def bad(self, m: NestState) -> list[int]:
        """The members with a number that is not finite: each looks at its own rows."""
        wrong = False
        for one in m.members:
            for s in self.program.states:
                if s.counts:
                    continue
                name = self.kernel.inputs[s.name]
                b, held = self.kernel.buffers[name], one.held.get(name)
                rows = self.array(one, name).reshape(b.planes, -1)
                if held is not None and not held.planes:
                    lo, hi = held.of(self.ranks.rank)
                    rows = rows[:, lo * row_size(b) : hi * row_size(b)]
                wrong = wrong or not all_finite(rows, 1)
        return super().bad(m) if self.ranks.any(wrong) else []
