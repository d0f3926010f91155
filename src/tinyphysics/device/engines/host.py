"""How does the virtual machine run an ensemble?  Member by member, in plain Python: the reference engine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.device.numbers import LOST, NUMPY_DTYPE
from tinyphysics.device.protocols import PlainEngine
from tinyphysics.ir.dtype import DType
from tinyphysics.tpir.kernels.kernel import loop_registers
from tinyphysics.tpir.program.isa import Param, Program, Register
from tinyphysics.tpir.program.vm import DT, T0, Loop, Machine

Arrays = Mapping[str, Any]
BLOCK = 256  # steps between two looks at the keyboard and the numbers


@dataclass
class VmState:
    """The loop registers of every member, at one step."""

    loops: list[Loop]
    params: list[dict[str, Any]]
    dt: float
    t0: float

    @property
    def steps(self) -> int:
        return self.loops[0].steps

    @steps.setter
    def steps(self, n: int) -> None:
        for loop in self.loops:
            loop.steps = n


class VmEngine(PlainEngine):
    """Runs one program on the VM, and the probe of its observables beside it."""

    launches = 0
    compiling = 0.0
    numbers = room = 0  # nothing else can keep the registers of a loop
    workers = 1
    made = found = 0

    def __init__(self, program: Program, probe: Program | None = None) -> None:
        self.program, self.machine = program, Machine(program)
        self.probe = None if probe is None else Machine(probe)

    def block(self, members: int) -> int:
        return BLOCK

    def rows(self, m: VmState) -> int:
        return BLOCK

    def start(
        self, state: Arrays, params: Arrays, members: int, dt: float, t0: float, threads: int | None = None
    ) -> VmState:
        given = [{n: v[k if len(v) > 1 else 0].tolist() for n, v in params.items()} for k in range(members)]
        steps, begins = (np.broadcast_to(x, (members,)).tolist() for x in (dt, t0))  # each may have its own
        loops = [
            self.machine.start({n: v[k].tolist() for n, v in state.items()}, given[k], steps[k], begins[k])
            for k in range(members)
        ]
        return VmState(loops, given, dt, t0)

    def registers(self, m: VmState) -> dict[str, Any]:
        """All that the loop carries, by the names of the program: (members, numbers)."""
        return {
            name: np.array([loop.slots[slot] for loop in m.loops], NUMPY_DTYPE[dtype.name]).reshape(
                len(m.loops), -1
            )
            for name, slot, dtype, _ in self.carried
        }

    def restored(
        self,
        registers: Arrays,
        params: Arrays,
        members: int,
        dt: float,
        t0: float,
        steps: int,
        threads: int | None = None,
    ) -> VmState:
        """A loop from its registers after so many steps; what depends on parameters alone is computed again."""
        states = enumerate(self.machine.program.states)
        state = {s.name: registers[f"S{i}"].reshape(members, *s.type.shape) for i, s in states}
        m = self.start(state, params, members, dt, t0)
        for k, loop in enumerate(m.loops):
            for name, slot, _, shape in self.carried:
                values = registers[name].reshape(members, -1)[k].tolist()
                loop.slots[slot] = values if shape else values[0]
        m.steps = steps
        return m

    @cached_property
    def carried(self) -> list[tuple[str, int, DType, tuple[int, ...]]]:
        """(name, slot, dtype, shape) of each register."""
        slots = {str(r): slot for r, slot in self.machine.slot.items() if isinstance(r, Register)}
        found = loop_registers(self.machine.program)
        lists = [(name, slot, t.dtype, t.shape) for name, (slot, t) in self.machine.lists.items()]
        return [*((name, slots[name], dtype, shape) for name, (dtype, shape) in found.items()), *lists]

    # --- for a run whose steps have their own lengths (runtime/engines/adaptive.py) -------------------
    @property
    def states(self) -> Any:
        return self.machine.program.states

    def tell(self, m: VmState, name: str, value: float) -> None:
        """Another value of a parameter that all members share, for these loops alone."""
        for loop in m.loops:
            loop.slots[self.machine.slot[Param(name)]] = value

    def register(self, m: VmState, name: str) -> Any:
        return self.registers(m)[name]

    def patience(self, m: VmState, work: float) -> int:
        return BLOCK

    def snapshot(self, m: VmState) -> VmState:
        return VmState([loop.copy() for loop in m.loops], m.params, m.dt, m.t0)

    def some(self, m: VmState, members: Sequence[int]) -> VmState:
        return VmState([m.loops[k].copy() for k in members], [m.params[k] for k in members], m.dt, m.t0)

    def only(self, m: VmState, k: int) -> VmState:
        return VmState(m.loops[k : k + 1], m.params[k : k + 1], m.dt, m.t0)

    def again(self, m: VmState, state: Arrays) -> None:
        (loop,) = m.loops
        whole = {
            s.name: state[s.name][0].tolist() if s.name in state else self.machine.state(loop)[s.name]
            for s in self.states
        }
        m.loops[0] = self.machine.start(whole, m.params[0], loop.slots[DT], loop.slots[T0])

    def overwrite(self, m: VmState, members: Sequence[int], well: int) -> None:
        for k in members:
            m.loops[k] = m.loops[well].copy()

    def advance(self, m: VmState, steps: int) -> None:
        for loop in m.loops:
            self.machine.advance(loop, steps)

    def watch(self, m: VmState, rows: int, stride: int) -> dict[str, Any]:
        """Advances rows*stride steps; the observables after every stride: (rows, members, shape...)."""
        assert self.probe is not None
        out: dict[str, list[Any]] = {name: [] for name in self.probe.outputs}
        for _ in range(rows):
            self.advance(m, stride)
            for k, loop in enumerate(m.loops):
                dt, t0 = loop.slots[DT], loop.slots[T0]
                look = self.probe.start(self.machine.final(loop), m.params[k], dt, t0)
                look.steps = loop.steps
                for name, value in self.probe.final(look).items():
                    out[name].append(value)
        return {
            name: np.array(out[name], NUMPY_DTYPE[t.dtype.name]).reshape(rows, len(m.loops), *t.shape)
            for name, t in self.probe.outputs.items()
        }

    def bad(self, m: VmState) -> list[int]:
        """The members with a number that is not finite."""
        return [k for k in range(len(m.loops)) if self.first_bad(m, k) is not None]

    def first_bad(self, m: VmState, k: int) -> tuple[str, int] | None:
        """(state, index) of the first bad number of a member."""
        counts = {s.name for s in self.machine.program.states if s.counts}
        for name, value in self.machine.state(m.loops[k]).items():
            if name in counts:
                continue
            for i, x in enumerate(value if isinstance(value, list) else [value]):
                if x == LOST if isinstance(x, int) else not math.isfinite(x):
                    return name, i
        return None

    def named(self, m: VmState, names: Sequence[str]) -> dict[str, Any]:
        return {name: v for name, v in self.synchronised(m).items() if name in names}

    def synchronised(self, m: VmState) -> dict[str, Any]:
        """What `final` gives, as arrays (members, shape...); the loop is not touched."""
        finals = [self.machine.final(loop) for loop in m.loops]
        return {
            name: np.array([f[name] for f in finals], NUMPY_DTYPE[t.dtype.name]).reshape(
                len(finals), *t.shape
            )
            for name, t in self.machine.outputs.items()
        }
