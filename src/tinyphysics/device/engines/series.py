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
from tinyphysics.device.protocols import CLOCK, Code, Function, Memory, PlainEngine
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
    threads: int
    members: int
    steps: int = 0


class SeriesEngine(PlainEngine):
    """What runtime/engines/adaptive.py asks of an engine below it."""

    workers, program, kernel = 1, None, None
    faster, alone = 1, 1  # products in the time that a core has for one; members that take no longer than one

    def __init__(
        self,
        plan: SeriesPlan,
        states: Sequence[StateDecl],
        clock: str,
        load: Callable[[], Code],
        threads: int = 1,
        memory: Memory = MEMBERS,
    ) -> None:
        self.plan, self.threads, self.memory, self.launches = plan, threads, memory, 0
        self.states = (*states, StateDecl(clock, "auxiliary", Type(shape=(CLOCK,))))
        self.outputs = {s.name: (f64, s.type.shape) for s in states}
        self.padded = -(-len(plan.states) // QUAD) * QUAD
        self.numbers = (plan.order + 2) * self.padded + CLOCK
        self.constants = Constants(plan)
        began = time.perf_counter()
        self.code = load()
        self.compiling = time.perf_counter() - began
        self.made, self.found = self.code.made, self.code.found
        self.tables = self.sent(np.array(tables(plan)))

    def sent(self, numbers: Any) -> Any:
        """Numbers that all members share, where code reads them."""
        return numbers

    def lanes(self, members: int) -> int:
        """Columns for so many members."""
        return members

    def begun(
        self,
        arrays: Mapping[str, Any],
        params: Mapping[str, Any],
        members: int,
        until: float,
        threads: int | None,
    ) -> SeriesState:
        fixed, lanes = self.constants(params), self.lanes(members)
        alike = len(fixed) == 1 or not fixed.size
        if not members:
            rows = self.memory.empty((self.numbers, lanes), np.float64)
        else:
            rows = self.memory.encode(arrays, self.numbers, members, lanes, np.float64)
        own = self.sent(fixed)
        if not alike:
            own = self.memory.encode({"": fixed}, fixed.shape[1], members, lanes, np.float64)
        return SeriesState(rows, own, alike, until, threads or self.threads, members)

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
        return max(LEAST, int(self.faster * work / (operations * max(m.members, self.alone))))

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

    def each(self, f: Function, m: SeriesState, count: int, out: Any = None) -> None:
        def run(some: range) -> None:
            scratch = np.zeros(self.code.scratch)
            for k in some:
                f(m.state[k], m.constants[0 if m.alike else k], self.tables, scratch, m.until, count)
                if out is not None:
                    out[k] = scratch[: out.shape[1]]

        self.launches += 1
        parts = max(1, min(m.threads, m.members))
        spread(lambda k: run(range(k, m.members, parts)), parts, parts)

    def advance(self, m: SeriesState, count: int) -> None:
        self.each(self.code.advance, m, count)

    def looked(self, m: SeriesState) -> Any:
        """The states at a time, as rows."""
        rows = self.memory.empty((len(self.plan.states), m.members), np.float64)
        self.each(self.code.look, m, 0, rows)
        return rows

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
