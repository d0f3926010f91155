"""How does the virtual machine run an ensemble?  Member by member, in plain Python: the reference engine."""
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.tpir.isa import Program
from tinyphysics.tpir.vm import Loop, Machine

Arrays = Mapping[str, Any]
NUMPY_DTYPE = {"f64": np.float64, "f32": np.float32, "i64": np.int64, "i32": np.int32,
               "u64": np.uint64, "u32": np.uint32, "bool": np.bool_}  # fmt: skip


@dataclass
class Members:
    """The loop registers of every member, at one step."""

    loops: list[Loop]

    @property
    def steps(self) -> int:
        return self.loops[0].steps if self.loops else 0


class Host:
    """Runs one program on the VM. `params` values have a member axis; length 1 is shared."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.machine = Machine(program)

    def start(self, state: Arrays, params: Arrays, members: int, dt: float, t0: float) -> Members:
        loops = []
        for k in range(members):
            own = {n: v[k].tolist() for n, v in state.items()}
            given = {n: v[k if len(v) > 1 else 0].tolist() for n, v in params.items()}
            loops.append(self.machine.start(own, given, dt, t0))
        return Members(loops)

    def snapshot(self, m: Members) -> Members:
        """A copy to go back to."""
        return Members([loop.copy() for loop in m.loops])

    def advance(self, m: Members, steps: int, alive: list[bool]) -> None:
        for loop, going in zip(m.loops, alive):
            if going:
                self.machine.advance(loop, steps)

    def first_bad(self, m: Members, k: int) -> tuple[str, int] | None:
        """(state, index) of the first number of member k that is not finite."""
        for name, value in self.machine.state(m.loops[k]).items():
            flat = value if isinstance(value, list) else [value]
            for i, x in enumerate(flat):
                if not math.isfinite(x):
                    return name, i
        return None

    def restore(self, m: Members, k: int, source: Members) -> None:
        """Member k goes back to where it was in an earlier snapshot."""
        m.loops[k] = source.loops[k].copy()

    def synchronised(self, m: Members) -> dict[str, Any]:
        """Arrays (members, shape...) of a synchronised copy; the loop is not touched."""
        finals = [self.machine.final(loop) for loop in m.loops]
        return {
            s.name: np.array([f[s.name] for f in finals], NUMPY_DTYPE[s.type.dtype.name])
            .reshape(len(finals), *s.type.shape)
            for s in self.program.states
        }  # fmt: skip


class HostProbe:
    """Runs the program of some observables on synchronised states."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.machine = Machine(program)

    def __call__(
        self, state: Arrays, params: Arrays, members: int, dt: float, t0: float, step: int
    ) -> dict[str, Any]:
        rows: dict[str, list[Any]] = {}
        for k in range(members):
            own = {n: v[k].tolist() for n, v in state.items()}
            given = {n: v[k if len(v) > 1 else 0].tolist() for n, v in params.items()}
            for name, value in self.machine.observe(own, given, dt, t0, step).items():
                rows.setdefault(name, []).append(value)
        return {
            name: np.array(rows.get(name, []), NUMPY_DTYPE[t.dtype.name]).reshape(members, *t.shape)
            for name, t in self.machine.observed.items()
        }
