"""How does a Taylor step in loops run?  A member's numbers side by side, one member after the other.

Of each member there are the coefficients of its states, a row for each order and padded to whole vectors, the error words of
the states, and the clock: time in two words, the length of the step that is next, steps done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.device.host.arrays import Evaluator
from tinyphysics.device.host.rows import MEMBERS
from tinyphysics.device.host.threads import spread
from tinyphysics.device.protocols import CLOCK, Code, Function, Launcher, Memory, PlainEngine
from tinyphysics.ir.dtype import f64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, substitute, toposort
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.series import QUAD, SeriesPlan, tables
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.tpir.program.isa import StateDecl, Type
from tinyphysics.util import prod

LEAST = 64  # steps of a call


@dataclass
class SeriesState:
    """The numbers of every member."""

    state: Any  # rows of a memory
    constants: Any  # likewise, or the numbers of all
    alike: bool  # have all members the same constants?
    until: float
    threads: int | None  # None: as many as the launcher has
    members: int
    steps: int = 0


class MemberThreads:
    """A launcher of series on this machine: a thread has some of the members."""

    faster, alone, room = 1, 1, 0

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def lanes(self, members: int) -> int:
        return members

    def run(self, f: Function, scratch: int, m: SeriesState, tables: Any, count: int, out: Any) -> None:
        def some(members: range) -> None:
            own = np.zeros(scratch)
            for k in members:
                f(m.state[k], m.constants[0 if m.alike else k], tables, own, m.until, count)
                if out is not None:
                    out[k] = own[: out.shape[1]]

        parts = max(1, min(m.threads or self.threads, m.members))
        spread(lambda k: some(range(k, m.members, parts)), parts, parts)


class SeriesEngine(PlainEngine):
    """What runtime/engines/adaptive.py asks of an engine below it; a launcher says how its code runs, a memory where."""

    workers, program, kernel = 1, None, None

    def __init__(
        self,
        plan: SeriesPlan,
        states: Sequence[StateDecl],
        clock: str,
        load: Callable[[], Code],
        launcher: Launcher,
        memory: Memory = MEMBERS,
    ) -> None:
        self.plan, self.launcher, self.memory, self.launches = plan, launcher, memory, 0
        self.states = (*states, StateDecl(clock, "auxiliary", Type(shape=(CLOCK,))))
        self.outputs = {s.name: (f64, s.type.shape) for s in states}
        self.padded = -(-len(plan.states) // QUAD) * QUAD
        self.numbers = (plan.order + 2) * self.padded + CLOCK
        self.constants = Constants(plan)
        began = time.perf_counter()
        self.code = load()
        self.compiling = time.perf_counter() - began
        self.made, self.found = self.code.made, self.code.found
        self.tables = memory.put(np.array(tables(plan)))

    @property
    def room(self) -> int:
        """Numbers in the loop states that fit at once."""
        return self.launcher.room

    def begun(
        self,
        arrays: Mapping[str, Any],
        params: Mapping[str, Any],
        members: int,
        until: float,
        threads: int | None,
    ) -> SeriesState:
        fixed, lanes = self.constants(params), self.launcher.lanes(members)
        alike = len(fixed) == 1 or not fixed.size
        if not members:
            rows = self.memory.empty((self.numbers, lanes), np.float64)
        else:
            rows = self.memory.encode(arrays, self.numbers, members, lanes, np.float64)
        own = self.memory.put(fixed)
        if not alike:
            own = self.memory.encode({"": fixed}, fixed.shape[1], members, lanes, np.float64)
        return SeriesState(rows, own, alike, until, threads, members)

    def start(
        self, state: Mapping[str, Any], params: Mapping[str, Any], members: int, dt: float, t0: float,
        threads: int | None = None,
    ) -> SeriesState:  # fmt: skip
        own, clock = [state[name] for name in self.outputs], state[self.states[-1].name]
        rest = self.numbers - CLOCK - sum(prod(shape) for _, shape in self.outputs.values())
        arrays = [*own, np.broadcast_to(np.float64(0.0), (members, rest)), clock]
        return self.begun(dict(zip(map(str, range(len(arrays))), arrays)), params, members, t0, threads)

    def restored(
        self, registers: Mapping[str, Any], params: Mapping[str, Any], members: int, dt: float, t0: float,
        steps: int, threads: int | None = None,
    ) -> SeriesState:  # fmt: skip
        rows = np.asarray(registers["S0"], np.float64).reshape(members, self.numbers)
        return self.begun({"S0": rows}, params, members, t0, threads)

    def registers(self, m: SeriesState) -> dict[str, Any]:
        return {"S0": np.array(self.memory.get(m.state)[:, : m.members].T, order="C")}

    def register(self, m: SeriesState, name: str) -> Any:
        return self.memory.get(m.state, self.numbers - CLOCK)[:, : m.members].T

    def coefficients(self, m: SeriesState) -> tuple[Any, Any]:
        """(members, order, numbers), and the error words."""
        whole = self.memory.get(m.state, 0, self.numbers - CLOCK)[:, : m.members].T
        rows = whole.reshape(m.members, self.plan.order + 2, self.padded)[:, :, : len(self.plan.states)]
        return rows[:, :-1], rows[:, -1]

    def tell(self, m: SeriesState, name: str, value: float) -> None:
        m.until = value

    def patience(self, m: SeriesState, work: float) -> int:
        sums = sum(len(s.out) for level in self.plan.sums for s in level)
        operations = self.plan.order**2 * sums * QUAD + 1
        return max(
            LEAST, int(self.launcher.faster * work / (operations * max(m.members, self.launcher.alone)))
        )

    def snapshot(self, m: SeriesState) -> SeriesState:
        return replace(m, state=self.memory.copy(m.state))

    def some(self, m: SeriesState, members: Sequence[int]) -> SeriesState:
        take = self.memory.take
        own = m.constants if m.alike else take(m.constants, members)
        return replace(m, state=take(m.state, members), constants=own, members=len(members))

    def only(self, m: SeriesState, k: int) -> SeriesState:
        own = m.constants if m.alike else m.constants[k : k + 1]
        return replace(m, state=m.state[k : k + 1], constants=own, members=1)

    def overwrite(self, m: SeriesState, members: Sequence[int], well: int) -> None:
        self.memory.fill(m.state, members, well)

    def run(self, f: Any, m: SeriesState, count: int, out: Any = None) -> None:
        if m.members:
            self.launches += 1
            self.launcher.run(f, self.code.scratch, m, self.tables, count, out)

    def advance(self, m: SeriesState, count: int) -> None:
        self.run(self.code.advance, m, count)

    def looked(self, m: SeriesState) -> Any:
        """The states at a time, as rows."""
        rows = self.memory.empty((self.padded, self.launcher.lanes(m.members)), np.float64)
        self.run(self.code.look, m, 0, rows)
        return rows

    def rows_of(self, m: SeriesState, name: str) -> Any:
        """Where the clock is on a device: its first row of all."""
        return (m.state, self.numbers - CLOCK) if self.memory.there else None

    def synchronised_there(self, m: SeriesState) -> dict[str, Any]:
        """Each output on the device, (members, shape...)."""
        return self.memory.arrays(self.looked(m), self.outputs, m.members)

    def named(self, m: SeriesState, names: Sequence[str]) -> dict[str, Any]:
        return self.synchronised(m)  # which are all

    def synchronised(self, m: SeriesState) -> dict[str, Any]:
        return self.memory.decode(self.looked(m), self.outputs, m.members, self.outputs, False)


class Constants:
    """What does not move, from the parameters of each member, or of all if none has its own."""

    def __init__(self, plan: SeriesPlan) -> None:
        roots = lower(inline(list(plan.constants)))
        given = [u for u in toposort(roots) if u.op is Ops.VAR and not u.shape or u.op is Ops.ELEMENT]
        self.leaves = {u: UOp.var(f"p{k}", (), u.dtype) for k, u in enumerate(given)}
        self.values = Evaluator(substitute(roots, self.leaves))
        self.last: tuple[Any, Any] | None = None

    def __call__(self, params: Mapping[str, Any]) -> Any:
        """Those of the last call again, if it was asked for the same."""
        key = tuple((name, np.asarray(v).tobytes()) for name, v in params.items())
        if self.last is None or self.last[0] != key:
            self.last = key, self.computed(params)
        return self.last[1]

    def computed(self, params: Mapping[str, Any]) -> Any:
        env = {}
        for u, v in self.leaves.items():
            name, index = (u.src[0].arg, u.arg) if u.op is Ops.ELEMENT else (u.arg, 0)
            given = params[str(name)]
            env[v] = np.asarray(given, np.float64).reshape(len(given), -1)[:, index]
        with np.errstate(all="ignore"):
            values = self.values(env)
        return np.ascontiguousarray(np.stack(np.broadcast_arrays(*values, np.zeros(1)), axis=1)[:, :-1])
