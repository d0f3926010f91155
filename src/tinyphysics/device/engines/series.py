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
from tinyphysics.device.host.threads import spread
from tinyphysics.device.protocols import CLOCK, Code, Function, PlainEngine
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, substitute, toposort
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.series import QUAD, SeriesPlan, tables
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.tpir.program.isa import StateDecl, Type


@dataclass
class SeriesState:
    """The numbers of every member."""

    state: Any  # (members, numbers)
    constants: Any  # (members or 1, numbers)
    until: float
    threads: int
    steps: int = 0

    @property
    def members(self) -> int:
        return len(self.state)


class SeriesEngine(PlainEngine):
    """What runtime/engines/adaptive.py asks of an engine below it."""

    launches = 0
    workers = 1

    def __init__(
        self,
        plan: SeriesPlan,
        states: Sequence[StateDecl],
        clock: str,
        load: Callable[[], Code],
        threads: int,
    ) -> None:
        self.plan, self.threads = plan, threads
        self.states = (*states, StateDecl(clock, "auxiliary", Type(shape=(CLOCK,))))
        self.own = states
        self.padded = -(-len(plan.states) // QUAD) * QUAD
        self.size = (plan.order + 2) * self.padded + CLOCK
        self.tables, self.constants = np.array(tables(plan)), Constants(plan)
        began = time.perf_counter()
        self.code = load()
        self.compiling = time.perf_counter() - began
        self.made, self.found = self.code.made, self.code.found

    def start(
        self,
        state: Mapping[str, Any],
        params: Mapping[str, Any],
        members: int,
        dt: float,
        t0: float,
        threads: int | None = None,
    ) -> SeriesState:
        rows = np.zeros((members, self.size))
        flat = np.concatenate(
            [np.asarray(state[s.name], np.float64).reshape(members, -1) for s in self.own], axis=1
        )
        rows[:, : flat.shape[1]] = flat
        rows[:, -CLOCK:] = state[self.states[-1].name]
        return SeriesState(rows, self.constants(params), t0, threads or self.threads)

    def restored(
        self,
        registers: Mapping[str, Any],
        params: Mapping[str, Any],
        members: int,
        dt: float,
        t0: float,
        steps: int,
        threads: int | None = None,
    ) -> SeriesState:
        rows = np.array(registers["S0"], np.float64).reshape(members, self.size)
        return SeriesState(rows, self.constants(params), t0, threads or self.threads)

    def registers(self, m: SeriesState) -> dict[str, Any]:
        return {"S0": m.state.copy()}

    def register(self, m: SeriesState, name: str) -> Any:
        return m.state[:, -CLOCK:]

    def coefficients(self, m: SeriesState) -> tuple[Any, Any]:
        """(members, order, numbers), and the error words."""
        rows = m.state[:, :-CLOCK].reshape(m.members, self.plan.order + 2, self.padded)[
            :, :, : len(self.plan.states)
        ]
        return rows[:, :-1], rows[:, -1]

    def tell(self, m: SeriesState, name: str, value: float) -> None:
        m.until = value

    def patience(self, m: SeriesState, work: float) -> int:
        operations = (
            self.plan.order**2 * sum(len(s.out) for level in self.plan.sums for s in level) * QUAD + 1
        )
        return max(64, int(work / (operations * max(m.members, 1))))

    def snapshot(self, m: SeriesState) -> SeriesState:
        return replace(m, state=m.state.copy())

    def some(self, m: SeriesState, members: Sequence[int]) -> SeriesState:
        own = m.constants[members] if len(m.constants) > 1 else m.constants
        return replace(m, state=m.state[list(members)].copy(), constants=own)

    def only(self, m: SeriesState, k: int) -> SeriesState:
        own = m.constants[k : k + 1] if len(m.constants) > 1 else m.constants
        return replace(m, state=m.state[k : k + 1], constants=own)

    def overwrite(self, m: SeriesState, members: Sequence[int], well: int) -> None:
        m.state[list(members)] = m.state[well]

    def each(self, f: Function, m: SeriesState, count: int, out: Any = None) -> None:
        def run(some: range) -> None:
            scratch = np.zeros(self.code.scratch)
            for k in some:
                f(
                    m.state[k],
                    m.constants[k if len(m.constants) > 1 else 0],
                    self.tables,
                    scratch,
                    m.until,
                    count,
                )
                if out is not None:
                    out[k] = scratch[: out.shape[1]]

        self.launches += 1
        parts = min(m.threads, m.members)
        if parts <= 1:
            run(range(m.members))
            return
        spread(lambda k: run(range(k, m.members, parts)), parts, parts)

    def advance(self, m: SeriesState, count: int) -> None:
        self.each(self.code.advance, m, count)

    def named(self, m: SeriesState, names: Sequence[str]) -> dict[str, Any]:
        return self.synchronised(m)  # which are all

    def synchronised(self, m: SeriesState) -> dict[str, Any]:
        flat = np.empty((m.members, len(self.plan.states)))
        self.each(self.code.look, m, 0, flat)
        out, at = {}, 0
        for s in self.own:
            size = int(np.prod(s.type.shape, dtype=int))
            out[s.name] = flat[:, at : at + size].reshape(m.members, *s.type.shape).copy()
            at += size
        return out


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
