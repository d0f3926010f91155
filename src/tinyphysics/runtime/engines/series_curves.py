"""How is the solution within a step of a Taylor series in loops looked at?  By NumPy, with all steps side by side.

Such a step has thousands of coefficients, too many to write a program of them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tinyphysics.device.host.arrays import Evaluator
from tinyphysics.device.protocols import CLOCK, StepRows
from tinyphysics.ir import Ops, UOp, substitute, toposort
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.series import QUAD
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.runtime.engines.events import PLACES
from tinyphysics.system import System


class SeriesCurves:
    """The coefficients of some steps: rows of all numbers of the states, an order after the other, and a clock."""

    pad = 1

    def __init__(
        self, system: System, clock: UOp, events: Mapping[str, UOp], register: str, order: int
    ) -> None:
        self.system, self.clock, self.register = system, clock, register
        self.order, self.count = order, len(events)
        self.size = sum(s.var.size for s in system.states)
        self.padded = -(-self.size // QUAD) * QUAD
        self.functions = []
        for u in events.values():
            (flat,) = unroll([u])
            roots = lower(inline(flat))
            leaves = [x for x in toposort(roots) if x.op is Ops.VAR and not x.shape or x.op is Ops.ELEMENT]
            names = {x: UOp.var(f"x{k}", (), x.dtype) for k, x in enumerate(leaves)}
            self.functions.append((Evaluator(substitute(roots, names)), names))

    def states(self, rows: Any, gone: Any) -> Any:
        """All numbers of the states at some time after the beginning of each step: (numbers, steps)."""
        table = rows[:-CLOCK].reshape(self.order + 2, self.padded, -1)[:, : self.size]
        total: Any = np.zeros(table.shape[1:])
        for c in table[self.order : 0 : -1]:
            total = (total + c) * gone
        return table[0] + (table[-1] + total)

    def functions_of(self, states: Any, t: Any, params: Mapping[str, Any]) -> list[Any]:
        at, begins = 0, {}
        for s in self.system.states:
            begins[str(s.var.arg)] = at
            at += s.var.size
        out = []
        for evaluate, names in self.functions:
            env = {}
            for u, v in names.items():
                name, index = (str(u.src[0].arg), u.arg) if u.op is Ops.ELEMENT else (str(u.arg), 0)
                if name in begins:
                    env[v] = states[begins[name] + index]
                elif u is self.clock:
                    env[v] = t
                else:
                    env[v] = params[name].reshape(len(params[name]), -1)[:, index]
            with np.errstate(all="ignore"):
                out.append(np.broadcast_to(evaluate(env)[0], states.shape[1]))
        return out

    def at(self, rows: StepRows, params: Mapping[str, Any], place: Any) -> tuple[Any, Any, list[Any]]:
        """(states, time, values) at a place of each step."""
        own = rows[self.register]
        high, low, h = own[-CLOCK:][:3]
        gone = np.where(place < 1.0, place * h, h)
        states, t = self.states(own, gone), high + (low + gone)
        return states, t, self.functions_of(states, t, params)

    def scan(self, rows: StepRows, params: Mapping[str, Any], reach: Any) -> tuple[Any, Any, Any]:
        notes: Any = np.zeros((3, self.count, rows[self.register].shape[1]), np.int64)
        for k in range(PLACES + 1):
            place = reach * (k * (1.0 / PLACES) if k < PLACES else 1.0)
            for j, g in enumerate(self.at(rows, params, place)[2]):
                for note, holds in zip(notes, (g > 0.0, g == g, g == 0.0)):
                    note[j] |= holds.astype(np.int64) << k
        return tuple(notes)

    def look(self, rows: StepRows, params: Mapping[str, Any], place: Any) -> dict[str, Any]:
        states, t, values = self.at(rows, params, place)
        out = {f"event {k}": g for k, g in enumerate(values)} | {"time": t}
        at = 0
        for s in self.system.states:
            out[f"word {s.name}"] = states[at : at + s.var.size].T.reshape(-1, *s.var.shape)
            at += s.var.size
        return out

    values = look
