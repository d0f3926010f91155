"""How do several GPUs run an ensemble?  Each has members of its own, in an engine of its own; threads wait for them.

A member is the same whoever runs it, so the parts are put together as if one had run them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.protocols import PlainEngine

Arrays = Mapping[str, Any]


@dataclass
class SpreadState:
    """Loop states of some members: for every device that has any, its own and which members of all they are."""

    own: dict[int, Any]  # by the place of the device
    who: dict[int, Any]  # numbers of members, rising

    @property
    def members(self) -> int:
        return sum(map(len, self.who.values()))

    @property
    def steps(self) -> int:
        return int(next(iter(self.own.values())).steps)

    @steps.setter
    def steps(self, n: int) -> None:
        for m in self.own.values():
            m.steps = n


class SpreadEngine(PlainEngine):
    """An engine (runtime/engines/engine.py) made of one for each device: of lanes, or of series in loops."""

    workers = 1

    def __init__(self, engines: dict[int, Any]) -> None:
        self.engines = engines
        self.first = next(iter(engines.values()))
        self.numbers, self.program, self.kernel = self.first.numbers, self.first.program, self.first.kernel

    launches = property(lambda self: sum(e.launches for e in self.engines.values()))
    compiling = property(lambda self: sum(e.compiling for e in self.engines.values()))
    made = property(lambda self: sum(e.made for e in self.engines.values()))
    found = property(lambda self: sum(e.found for e in self.engines.values()))
    states = property(lambda self: self.first.states)

    @property
    def room(self) -> int:
        return len(self.engines) * int(
            min(self.each(dict.fromkeys(self.engines), lambda e, _: e.room).values())
        )

    def each(self, parts: Mapping[int, Any], work: Callable[[Any, Any], Any]) -> dict[int, Any]:
        """The work on every part, side by side."""

        def one(place: int) -> Any:
            with cuda.on(place):
                return work(self.engines[place], parts[place])

        flags = {place: copy_context() for place in parts}  # a thread has those of whoever asks
        with ThreadPoolExecutor(max(len(parts), 1)) as pool:
            return dict(zip(parts, pool.map(lambda place: flags[place].run(one, place), parts)))

    def shared_out(self, members: int) -> dict[int, Any]:
        """Members for each device, side by side; none for those that would have none."""
        cuts = [members * k // len(self.engines) for k in range(len(self.engines) + 1)]
        out = {place: np.arange(a, b) for place, a, b in zip(self.engines, cuts, cuts[1:]) if b > a}
        return out or {next(iter(self.engines)): np.arange(0)}

    @staticmethod
    def of(who: Any, arrays: Arrays) -> dict[str, Any]:
        return {name: v[who] if len(v) > 1 else v for name, v in arrays.items()}

    def joined(self, m: SpreadState, found: Mapping[int, Mapping[str, Any]], axis: int = 0) -> dict[str, Any]:
        """Arrays of the parts as arrays of all members."""
        order = np.argsort(np.concatenate([m.who[place] for place in found]))
        names = next(iter(found.values()))
        return {
            name: np.take(np.concatenate([f[name] for f in found.values()], axis), order, axis)
            for name in names
        }

    # --- what the runtime asks ----------------------------------------------------------------
    def block(self, members: int) -> int:
        share = -(-members // len(self.engines))
        return int(min(self.each(dict.fromkeys(self.engines), lambda e, _: e.block(share)).values()))

    def expect(self, members: int, steps: int) -> None:
        self.each(self.shared_out(members), lambda e, w: e.expect(len(w), steps))

    def told(self, members: int) -> dict[str, Any]:
        """Of the first device; others may differ."""
        place, who = next(iter(self.shared_out(members).items()))
        with cuda.on(place):
            told: dict[str, Any] = self.engines[place].told(len(who))
            return told

    def rows(self, m: SpreadState) -> int:
        return int(min(self.each(m.own, lambda e, own: e.rows(own)).values()))

    def patience(self, m: SpreadState, work: float) -> int:
        return int(min(self.each(m.own, lambda e, own: e.patience(own, work)).values()))

    def start(
        self, state: Arrays, params: Arrays, members: int, dt: float, t0: float, threads: int | None = None
    ) -> SpreadState:
        who = self.shared_out(members)
        own = self.each(
            who,
            lambda e, w: e.start(
                {n: np.asarray(v)[w] for n, v in state.items()}, self.of(w, params), len(w), dt, t0
            ),
        )
        return SpreadState(own, who)

    def held(self, m: SpreadState) -> Any:
        return self.joined(m, self.each(m.own, lambda e, own: {"rows": e.held(own)}), 1)["rows"]

    def resume(
        self,
        rows: Sequence[Any],
        params: Arrays,
        members: int,
        dt: float,
        t0: float,
        steps: int,
        threads: int | None,
    ) -> SpreadState:
        who = self.shared_out(members)
        own = self.each(
            who,
            lambda e, w: e.resume([row[w] for row in rows], self.of(w, params), len(w), dt, t0, steps, None),
        )
        return SpreadState(own, who)

    def registers(self, m: SpreadState) -> dict[str, Any]:
        return self.together(m, self.each(m.own, lambda e, own: e.registers(own)))

    def restored(
        self,
        registers: Arrays,
        params: Arrays,
        members: int,
        dt: float,
        t0: float,
        steps: int,
        threads: int | None = None,
    ) -> SpreadState:
        who = self.shared_out(members)
        own = self.each(
            who,
            lambda e, w: e.restored(
                {n: v[w] for n, v in registers.items()}, self.of(w, params), len(w), dt, t0, steps
            ),
        )
        return SpreadState(own, who)

    def tell(self, m: SpreadState, name: str, value: float) -> None:
        self.each(m.own, lambda e, own: e.tell(own, name, value))

    def register(self, m: SpreadState, name: str) -> Any:
        return self.together(m, self.each(m.own, lambda e, own: {name: e.register(own, name)}))[name]

    def coefficients(self, m: SpreadState) -> tuple[Any, Any]:
        """Of series in loops."""
        found = self.joined(
            m, self.each(m.own, lambda e, own: dict(zip(("rows", "low"), e.coefficients(own))))
        )
        return found["rows"], found["low"]

    def snapshot(self, m: SpreadState) -> SpreadState:
        return SpreadState(self.each(m.own, lambda e, own: e.snapshot(own)), m.who)

    def some(self, m: SpreadState, members: Sequence[int]) -> SpreadState:
        """Members by the order in which they are asked for."""
        wanted = np.asarray(members)
        who = {place: np.flatnonzero(np.isin(wanted, w)) for place, w in m.who.items()}
        there = {
            place: np.searchsorted(m.who[place], wanted[w]).tolist() for place, w in who.items() if len(w)
        }
        own = {}
        for place, local in there.items():
            with cuda.on(place):
                own[place] = self.engines[place].some(m.own[place], local)
        return SpreadState(own, {place: who[place] for place in there})

    def overwrite(self, m: SpreadState, members: Sequence[int], well: int) -> None:
        """As copies of one that is well: of the same device if it has one, since they are not read."""
        gone = set(members)
        for place, w in m.who.items():
            local = [int(k) for k in np.flatnonzero(np.isin(w, list(gone)))]
            if not local:
                continue
            good = next((k for k in range(len(w)) if int(w[k]) not in gone), None)
            with cuda.on(place):
                if good is not None:
                    self.engines[place].overwrite(m.own[place], local, good)

    def advance(self, m: SpreadState, steps: int) -> None:
        self.each(m.own, lambda e, own: e.advance(own, steps))

    def watch(self, m: SpreadState, rows: int, stride: int) -> dict[str, Any]:
        return self.joined(m, self.each(m.own, lambda e, own: e.watch(own, rows, stride)), 1)

    def bad(self, m: SpreadState) -> list[int]:
        found = self.each(m.own, lambda e, own: e.bad(own))
        return sorted(
            int(m.who[place][k]) for place, local in found.items() for k in local if k < len(m.who[place])
        )

    def first_bad(self, m: SpreadState, k: int) -> tuple[str, int] | None:
        place = next(p for p, w in m.who.items() if k in w)
        with cuda.on(place):
            found: tuple[str, int] | None = self.engines[place].first_bad(
                m.own[place], int(np.searchsorted(m.who[place], k))
            )
        return found

    def synchronised(self, m: SpreadState) -> dict[str, Any]:
        return self.together(m, self.each(m.own, lambda e, own: e.synchronised(own)))

    def named(self, m: SpreadState, names: Sequence[str]) -> dict[str, Any]:
        return self.together(m, self.each(m.own, lambda e, own: e.named(own, names)))

    def together(self, m: SpreadState, found: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
        """The states of all members, without those that only fill up the lanes of a device."""
        return self.joined(m, {p: {n: v[: len(m.who[p])] for n, v in f.items()} for p, f in found.items()})
