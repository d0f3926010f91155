"""How is the solution within a step looked at?  As programs of the registers that a run keeps of the step.

`Scan` notes the signs of event functions in some places of every step, `Look` is their values and the states at one place.
Both run on the engine of the run's own backend, with steps and members side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinyphysics.device.engines.host import VmEngine
from tinyphysics.device.protocols import StepRows
from tinyphysics.flows.map import Assignments, Map
from tinyphysics.ir import Ops, UOp, elements, f64, graph_rewrite, substitute, toposort
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.identities.real import products
from tinyphysics.runtime.engines.events import PLACES
from tinyphysics.step import Step
from tinyphysics.synth.methods.taylor import CLOCK, UNTIL
from tinyphysics.system import Parameter, State
from tinyphysics.tpir.kernels.kernel import hoist
from tinyphysics.tpir.program.isa import ParamDecl, Pointer, Program, Register, StateDecl
from tinyphysics.tpir.program.lower import ProgramBuilder, type_of

PLACE = UOp.var("run.place")  # the part of a step that is gone
ROUND, BIT, REACH = UOp.var("run.round"), UOp.var("run.bit"), UOp.var("run.reach")
LANES = 32  # steps that are looked at together, at least: vectors of one width serve few and many
ONCE = "run.once"  # of a step: a name that is no user's
POSITIVE, NUMBER, ZERO = "positive", "number", "zero"  # of a function: where it was, as bits
ONE, NONE = UOp.const(1.0, f64), UOp.const(0.0, f64)


def within(step: Step) -> tuple[dict[str, UOp], UOp]:
    """(the words of the states, the time) in a step, of the registers that a run keeps of it and PLACE.

    The last section of a step shows a run the time that it asked for; here that is a part of the step's length.
    """
    clock = next(s.var for s in step.states if s.name == CLOCK)
    high, low, h = elements(clock)[:3]
    gone = (PLACE < 1.0).where(PLACE * h, h)
    shown = {str(v.arg): u for flow in step.final for v, u in zip(flow.writes(), flow.expressions())}
    roots = substitute(list(shown.values()), {(UNTIL - high) - low: gone})
    # pairs of float64 subtract in other words: the clock that they see begins at zero
    roots = [
        substitute([u], {UNTIL: gone, high: NONE, low: NONE})[0] if UNTIL in u.leaves else u for u in roots
    ]
    return dict(zip(shown, roots)), high + (low + gone)


def seen_in(events: Mapping[str, UOp], step: Step, time: UOp) -> dict[str, UOp]:
    """Functions of the states and t, as they are within a step."""
    words, now = within(step)
    plain = graph_rewrite(list(events.values()), products)
    own = {s.var: words[s.name] for s in step.states if s.name in words}
    return dict(zip(events, substitute(plain, {**own, time: now})))


def program_of(
    name: str,
    states: Sequence[State],
    parameters: Sequence[Parameter],
    body: Assignments,
    observed: Mapping[str, UOp],
    first: Assignments = (),
) -> Program:
    """A program that moves some of its states by `body`, after setting some by `first`, and observes values of them."""
    b = ProgramBuilder(states, {})
    for i, s in enumerate(states):
        b.emit("init", "LOAD", Register("S", i), Pointer(s.name), u=s.var)
    for section, values in (("init", first), ("step", body)):
        if values:
            Map(tuple(values)).lower(b, section)
        b.current.clear()
    for title, u in observed.items():
        b.emit("final", "OBSERVE", Pointer(title), b.operand(u, "final"), u=u)
    return Program(
        name,
        (),
        tuple(StateDecl(s.name, "auxiliary", type_of(s.var)) for s in states),
        (ParamDecl("dt"), *(ParamDecl(p.name, type_of(p.var)) for p in parameters)),
        init=tuple(b.sections["init"]),
        step=tuple(b.sections["step"]),
        final=tuple(b.sections["final"]),
    )


def read_by(roots: Sequence[UOp], states: Sequence[State]) -> list[State]:
    """The states that occur in some expressions."""
    leaves = frozenset().union(*(u.leaves for u in roots))
    return [s for s in states if s.var in leaves]


def own_state(v: UOp) -> State:
    return State(str(v.arg), v, "auxiliary")


def scan_program(events: Mapping[str, UOp], step: Step, time: UOp) -> Program:
    """The signs of every function at the beginning of a step and in PLACES places more: a place in each of its rounds.

    REACH is the part of the step in which they lie.
    """
    place = (ROUND < float(PLACES)).where(ROUND * (1.0 / PLACES), ONE) * REACH
    functions = [u for (u,) in unroll(list(seen_in(events, step, time).values()))]
    fixed = frozenset(u for u in toposort(functions) if u.op is Ops.VAR) - {PLACE}
    moving, once = hoist(functions, fixed, ONCE)
    # what is only read is read in the loop, and conditions are no states
    again = [v for v, u in once.items() if u.op is Ops.ELEMENT or not u.src or u.dtype is not f64]
    moving = substitute(moving, {v: once.pop(v) for v in again})
    values = substitute(moving, {PLACE: place})
    notes = [
        tuple(UOp.var(f"run.{what}{k}") for what in (POSITIVE, NUMBER, ZERO)) for k in range(len(values))
    ]
    body = [(ROUND, ROUND + 1.0), (BIT, BIT + BIT)]
    for g, (positive, number, zero) in zip(values, notes):
        body += [
            (positive, positive + (0.0 < g).where(BIT, NONE)),
            (number, number + g.eq(g).where(BIT, NONE)),
            (zero, zero + g.eq(0.0).where(BIT, NONE)),
        ]
    mine = [own_state(v) for v in (ROUND, BIT, REACH, *once, *(v for row in notes for v in row))]
    observed = {str(v.arg): v for row in notes for v in row}
    roots = [*values, *once.values()]
    used = read_by(roots, step.states)
    first = tuple(once.items())
    return program_of(
        "scan", [*used, *mine], parameters_of(roots, step.parameters), tuple(body), observed, first
    )


def look_program(events: Mapping[str, UOp], step: Step, time: UOp) -> Program:
    """The values of every function, the words of the states, and the time, at a place."""
    words, now = within(step)
    values = {f"event {k}": u for k, u in enumerate(seen_in(events, step, time).values())}
    values |= {f"word {name}": u for name, u in words.items()} | {"time": now}
    roots = list(values.values())
    states = [*read_by(roots, step.states), own_state(PLACE)]
    return program_of("look", states, parameters_of(roots, step.parameters), (), values)


def parameters_of(roots: Sequence[UOp], parameters: Sequence[Parameter]) -> list[Parameter]:
    leaves = frozenset().union(*(u.leaves for u in roots))
    return [p for p in parameters if p.var in leaves]


class Dense:
    """The curves through some steps: engines of the two programs, and the registers that they read."""

    def __init__(self, scan: Any, look: Any, registers: Mapping[str, str], count: int) -> None:
        self.scan_engine, self.look_engine, self.count = scan, look, count
        self.registers = registers  # by the name of a state
        self.pad = 1 if isinstance(look, VmEngine) else LANES

    def given(self, engine: Any, rows: StepRows) -> dict[str, Any]:
        """What a program reads of steps that lie side by side: rows are (numbers, steps)."""
        out = {}
        for s in engine.states:
            if s.name in self.registers:
                own = rows[self.registers[s.name]].T
                nested = isinstance(engine, VmEngine) or not s.type.shape  # others take numbers as they lie
                out[s.name] = own.reshape(len(own), *s.type.shape) if nested else own
        return out

    def scan(self, rows: StepRows, params: Mapping[str, Any], reach: Any) -> tuple[Any, Any, Any]:
        """(positive, number, zero) of every function and step: whole numbers with a bit for each place."""
        engine = self.scan_engine
        own = self.given(engine, rows)
        steps = rows.table.shape[1]
        blank = np.zeros(steps)
        start = {s.name: own.get(s.name, blank) for s in engine.states} | {
            str(BIT.arg): blank + 1.0,
            str(REACH.arg): reach,
        }
        m = engine.start(start, params, steps, 0.0, 0.0)
        engine.advance(m, PLACES + 1)
        seen = engine.synchronised(m)
        return tuple(
            np.stack([seen[f"run.{what}{k}"].astype(np.int64) for k in range(self.count)])
            for what in (POSITIVE, NUMBER, ZERO)
        )  # type: ignore[return-value]

    def look(self, rows: StepRows, params: Mapping[str, Any], place: Any) -> dict[str, Any]:
        """Of each step at a place of its own: "event 0" and so on, "word q" and so on, "time"."""
        engine = self.look_engine
        start = self.given(engine, rows) | {str(PLACE.arg): place}
        start = {s.name: start[s.name] for s in engine.states}
        found: dict[str, Any] = engine.synchronised(engine.start(start, params, len(place), 0.0, 0.0))
        return found

    values = look
