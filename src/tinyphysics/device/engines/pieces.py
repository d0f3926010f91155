"""How does an ensemble with steps of its own run that does not fit on its device?  Some members at a time.

Between two calls the loop states of all members are here, and only those of one piece there. Where all fit, nothing is
cut and the engine's own states are passed on. A member is the same whoever runs beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import DeviceArray, empty
from tinyphysics.device.protocols import PlainEngine

Arrays = Mapping[str, Any]


@dataclass
class BatchState:
    """The registers of every piece, and what its loop is begun with again."""

    held: list[dict[str, Any]]  # by name, (members, numbers); never changed in place
    who: list[slice]
    params: Arrays
    dt: float
    t0: float
    told: dict[str, float] = field(default_factory=dict)  # what has changed since

    @property
    def members(self) -> int:
        return int(self.who[-1].stop)


class MemberBatches(PlainEngine):
    """What runtime/engines/adaptive.py asks of an engine below it, of one that has so much room."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    launches = property(lambda self: self.engine.launches)
    compiling = property(lambda self: self.engine.compiling)
    made = property(lambda self: self.engine.made)
    found = property(lambda self: self.engine.found)
    states = property(lambda self: self.engine.states)

    def cut(self, members: int) -> list[slice]:
        most = max(1, int(self.engine.room // max(self.engine.numbers, 1)))
        return [slice(a, min(a + most, members)) for a in range(0, members, most)]

    @staticmethod
    def of(who: slice, arrays: Arrays) -> dict[str, Any]:
        return {name: v[who] if len(v) > 1 else v for name, v in arrays.items()}

    # --- one piece after the other ------------------------------------------------------------
    def load(self, m: BatchState, k: int) -> Any:
        who = m.who[k]
        own = self.engine.restored(m.held[k], self.of(who, m.params), who.stop - who.start, m.dt, m.t0, 0)
        for name, value in m.told.items():
            self.engine.tell(own, name, value)
        return own

    def each(self, m: BatchState, work: Callable[[Any], Any]) -> list[Any]:
        return [work(self.load(m, k)) for k in range(len(m.who))]

    def joined(self, found: Sequence[Arrays]) -> dict[str, Any]:
        return {name: np.concatenate([f[name] for f in found]) for name in found[0]}

    # --- what the runtime asks ----------------------------------------------------------------
    def start(
        self, state: Arrays, params: Arrays, members: int, dt: float, t0: float, threads: int | None = None
    ) -> Any:
        parts = self.cut(members)
        if len(parts) < 2:
            return self.engine.start(state, params, members, dt, t0, threads)
        held = []
        for who in parts:
            own = {name: v[who] for name, v in state.items()}
            m = self.engine.start(own, self.of(who, params), who.stop - who.start, dt, t0, threads)
            held.append(self.engine.registers(m))
        return BatchState(held, parts, params, dt, t0)

    def restored(
        self,
        registers: Arrays,
        params: Arrays,
        members: int,
        dt: float,
        t0: float,
        steps: int,
        threads: int | None = None,
    ) -> Any:
        parts = self.cut(members)
        if len(parts) < 2:
            return self.engine.restored(registers, params, members, dt, t0, steps, threads)
        return BatchState(
            [{name: v[who] for name, v in registers.items()} for who in parts], parts, params, dt, t0
        )

    def registers(self, m: Any) -> Any:
        return self.joined(m.held) if isinstance(m, BatchState) else self.engine.registers(m)

    def register(self, m: Any, name: str) -> Any:
        if not isinstance(m, BatchState):
            return self.engine.register(m, name)
        return np.concatenate(self.each(m, lambda own: self.engine.register(own, name)))

    def coefficients(self, m: Any) -> Any:
        """Of series in loops."""
        if not isinstance(m, BatchState):
            return self.engine.coefficients(m)
        return tuple(np.concatenate(part) for part in zip(*self.each(m, self.engine.coefficients)))

    def tell(self, m: Any, name: str, value: float) -> None:
        if isinstance(m, BatchState):
            m.told = {**m.told, name: value}
        else:
            self.engine.tell(m, name, value)

    def patience(self, m: Any, work: float) -> Any:
        return self.engine.patience(self.load(m, 0) if isinstance(m, BatchState) else m, work)

    def snapshot(self, m: Any) -> Any:
        return replace(m, held=list(m.held)) if isinstance(m, BatchState) else self.engine.snapshot(m)

    def some(self, m: Any, members: Sequence[int]) -> Any:
        """A few of all, which fit."""
        if not isinstance(m, BatchState):
            return self.engine.some(m, members)
        who = list(members)
        registers = {name: v[who] for name, v in self.joined(m.held).items()}
        params = {name: v[who] if len(v) > 1 else v for name, v in m.params.items()}
        return self.load(BatchState([registers], [slice(0, len(who))], params, m.dt, m.t0, m.told), 0)

    def overwrite(self, m: Any, members: Sequence[int], well: int) -> None:
        if not isinstance(m, BatchState):
            self.engine.overwrite(m, members, well)
            return
        whole = self.joined(m.held)
        for v in whole.values():
            v[list(members)] = v[well]
        m.held = [{name: v[who] for name, v in whole.items()} for who in m.who]

    def advance(self, m: Any, count: int) -> None:
        if not isinstance(m, BatchState):
            self.engine.advance(m, count)
            return
        for k in range(len(m.who)):
            own = self.load(m, k)
            self.engine.advance(own, count)
            m.held[k] = self.engine.registers(own)

    def record(self, m: Any, rows: int) -> Any:
        return super().record(m, rows) if isinstance(m, BatchState) else self.engine.record(m, rows)

    def named(self, m: Any, names: Sequence[str]) -> Any:
        if not isinstance(m, BatchState):
            return self.engine.named(m, names)
        return self.joined(self.each(m, lambda own: self.engine.named(own, names)))

    def named_there(self, m: Any, names: Sequence[str]) -> dict[str, DeviceArray]:
        """The same as arrays on the device."""
        if not isinstance(m, BatchState):
            return {name: v for name, v in self.engine.synchronised_there(m).items() if name in names}
        out: dict[str, DeviceArray] = {}
        for k, who in enumerate(m.who):
            for name, v in self.engine.synchronised_there(self.load(m, k)).items():
                if name in names:
                    out.setdefault(name, empty((m.members, *v.shape[1:]), v.dtype))[who] = v[
                        : who.stop - who.start
                    ]
        return out

    def rows_of(self, m: Any, name: str) -> Any:
        """Where a register of all members is on the device; None if it is nowhere in one piece."""
        return None if isinstance(m, BatchState) else self.engine.rows_of(m, name)

    def synchronised(self, m: Any) -> Any:
        if not isinstance(m, BatchState):
            return self.engine.synchronised(m)
        return self.joined(self.each(m, self.engine.synchronised))
