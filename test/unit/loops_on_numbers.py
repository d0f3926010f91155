"""LoopIR on plain numbers: the statements of a nest one after the other, a vector lane by lane. Slow, and it believes nothing.

A thread of a GPU is a call with its indices; threads run backwards, since none may need what another one does.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tinyphysics.device.host.nests import view
from tinyphysics.tpir.kernels.loopir import (
    HI,
    LO,
    WORKSPACE,
    Call,
    For,
    Function,
    Let,
    Local,
    Note,
    Store,
    Threads,
    When,
    While,
    Woven,
    buffers_of,
)
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.ir.value import scalar
from tinyphysics.tpir.kernels.kernel import NOW
from tinyphysics.tpir.kernels.nests import LoopKernel
from tinyphysics.util import prod


class OnNumbers:
    """One function; a name has a number, or a list of them where it is a vector."""

    def __init__(self, kernel: LoopKernel, memory: dict[str, Any], flags: Any) -> None:
        self.kernel, self.memory, self.flags = kernel, memory, flags

    def place(self, buffer: str, plane: int, index: list[int]) -> int:
        b = self.kernel.buffers.get(buffer)
        if b is None:
            return index[0]
        return plane * b.plane + sum(i * prod(b.axes[k + 1 :]) for k, i in enumerate(index))

    def value(self, u: UOp, env: dict[UOp, Any]) -> Any:
        lanes = max((len(env[v]) for v in u.leaves if isinstance(env[v], list)), default=0)
        if not lanes:
            return self.number(u, env)
        return [
            self.number(u, {v: x[k] if isinstance(x, list) else x for v, x in env.items()})
            for k in range(lanes)
        ]

    def number(self, u: UOp, env: dict[UOp, Any]) -> Any:
        values: dict[UOp, Any] = {}
        for x in toposort([u]):
            if x.op is Ops.VAR:
                values[x] = env[x]
            elif x.op is Ops.CONST:
                values[x] = x.arg
            elif x.op is Ops.LOAD:
                at = self.place(*x.arg, [int(values[i]) for i in x.src])
                values[x] = self.memory[x.arg[0]][at].item()
            else:
                values[x] = scalar(x.op, x.dtype, [s.dtype for s in x.src])(*(values[s] for s in x.src))
        return values[u]

    def run(self, body: Any, env: dict[UOp, Any]) -> None:
        for s in body:
            self.statement(s, env)

    def turn(self, s: For | While, env: dict[UOp, Any]) -> None:
        self.run(s.body, env)
        env |= dict(zip([c.name for c in s.carried], [self.value(c.next, env) for c in s.carried]))

    def statement(self, s: Any, env: dict[UOp, Any]) -> None:
        match s:
            case For():
                env |= dict(zip([c.name for c in s.carried], [self.value(c.first, env) for c in s.carried]))
                for i in range(self.value(s.begin, env), self.value(s.end, env), s.step):
                    env[s.variable] = i if s.lanes == 1 else [i + k for k in range(s.lanes)]
                    self.turn(s, env)
                env.pop(s.variable, None)
            case While():
                env |= dict(zip([c.name for c in s.carried], [self.value(c.first, env) for c in s.carried]))
                while self.value(s.more, env):
                    self.turn(s, env)
            case When():
                self.run(s.then if self.value(s.condition, env) else s.otherwise, env)
            case Let():
                env |= dict(zip(s.names, [self.value(u, env) for u in s.values]))
            case Local():
                self.memory[s.name] = np.full(s.count, np.nan)
            case Store():
                self.store(s, env)
            case Woven():
                for each in s.stores:
                    self.store(each, env)
            case Note():
                seen = self.value(s.condition, env)
                if any(seen) if isinstance(seen, list) else seen:
                    self.flags[0] = 1
            case Call():
                raise NotImplementedError

    def store(self, s: Store, env: dict[UOp, Any]) -> None:
        found = [self.value(u, env) for u in (s.value, *s.index)]
        lanes = max((len(x) for x in found if isinstance(x, list)), default=1)
        for k in range(lanes):
            value, *index = (x[k] if isinstance(x, list) else x for x in found)
            self.memory[s.buffer][self.place(s.buffer, s.plane, [int(i) for i in index])] = value


class LoopsOnNumbers:
    """What device/engines/loops.py calls a loader: the statements of every nest, as `form` has them."""

    threads = False
    made = found = 0

    def __init__(self, form: str, lanes: int = 4) -> None:
        self.form, self.lanes = form, lanes

    def functions(self, kernel: LoopKernel, nest: Any) -> list[Function]:
        kind = nest.way
        if self.form == "tiled":
            return [kind.tiled(nest, kernel, self.lanes)]
        return [kind.ranged(nest, kernel)] if self.form == "ranged" else kind.threaded(nest, kernel)

    def load(self, kernel: LoopKernel, careful: bool) -> dict[str, Any]:
        slots = {name: k for k, name in enumerate(kernel.buffers)}
        sections = kernel.careful if careful else kernel.sections

        def nest_of(nest: Any, table: Any, uniform: Any, flags: Any, now: int) -> None:
            functions = self.functions(kernel, nest)
            room = np.full(max(f.workspace for f in functions), np.nan)
            for f in functions:
                memory = {
                    b: view(int(table[slots[b]]), kernel.buffers[b]) for b in buffers_of(f) if b != WORKSPACE
                }
                memory[WORKSPACE] = room
                env = dict(zip(kernel.params, uniform.tolist())) | {NOW: float(now)}
                machine = OnNumbers(kernel, memory, flags)
                if isinstance(f.shares, Threads):
                    for at in reversed(list(product(*(range(n) for n in f.shares.sizes)))):
                        machine.run(f.body, env | dict(zip(f.shares.variables, at)))
                    continue
                third = nest.extent // nest.links // 3 * nest.links
                cuts = sorted({0, third, nest.extent})  # as two threads of a processor would have it
                for lo, hi in reversed(list(zip(cuts, cuts[1:]))):
                    machine.run(f.body, env | {LO: lo, HI: hi})

        def section(name: str) -> Any:
            s = sections[name]

            def call(table: Any, uniform: Any, flags: Any, first: int, steps: int) -> None:
                for k in range(steps):
                    for turn in s.sequence():
                        for nest in s.nests[turn.begin : turn.end]:
                            nest_of(nest, table, uniform, flags, first + k)
                        for a, b in turn.swaps:
                            i, j = slots[a], slots[b]
                            table[i], table[j] = table[j], table[i]

            return call

        return {name: section(name) for name in sections}
