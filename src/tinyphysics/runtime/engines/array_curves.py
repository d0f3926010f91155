"""How is the solution within a step on arrays looked at?  By loops over them, one step of one member at a time.

What does not depend on the place in the step, the slopes that its curve is made of, is computed once and kept: the signs of
event functions in some places of the step, their values while a place is searched, and frames are read off it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tinyphysics.device.protocols import StepRows
from tinyphysics.ir import Ops, UOp, elements, f64, graph_rewrite, substitute, toposort
from tinyphysics.rules.identities.real import products
from tinyphysics.runtime.engines.dense import (
    BIT,
    NONE,
    ONCE,
    ONE,
    REACH,
    ROUND,
    own_state,
    parameters_of,
    program_of,
    read_by,
)
from tinyphysics.runtime.engines.events import PLACES
from tinyphysics.step import Step
from tinyphysics.synth.methods.taylor import CLOCK, LOW, UNTIL
from tinyphysics.system import Parameter, State, System
from tinyphysics.tpir.kernels.kernel import hoist
from tinyphysics.tpir.program.isa import Program

GONE = UOp.var("run.gone")  # the time in the step that is looked at
NOTES = "run.notes"  # of a function: where it was positive, a number, zero, as bits; and its value
TERM = ".term"  # after the name of a state: its Taylor series
# of the engine of a run, a loop of one member, and names: its states, as far as they are among those
Read = Callable[[Any, Any, Iterable[str]], dict[str, Any]]


def curve_program(
    name: str,
    events: Mapping[str, UOp],
    states: Sequence[State],
    parameters: Sequence[Parameter],
    words: Mapping[UOp, UOp],
    time: UOp,
) -> Program:
    """Of the states that a loop keeps of a step: `words` are what a user's states are in it, after GONE.

    The first rounds note the signs of every function, each in its place, and later ones its value after GONE; what is
    observed is the solution there.
    """
    clock = next(s.var for s in states if s.name == CLOCK)
    high, low, h = elements(clock)[:3]
    now = high + (low + GONE)
    values = substitute(graph_rewrite(list(events.values()), products), {**words, time: now})
    roots = [*values, *words.values()]
    fixed = frozenset(u for u in toposort(roots) if u.op is Ops.VAR) - {GONE}
    moving, once = hoist(roots, fixed, ONCE)
    # what is only read is read where it is needed, and conditions are no states
    again = [
        v for v, u in once.items() if u.op is Ops.ELEMENT or not u.src or u.dtype is not f64 or repeats(u)
    ]
    moving = substitute(moving, {v: once.pop(v) for v in again})
    place = (ROUND < float(PLACES)).where(ROUND * (1.0 / PLACES), ONE) * REACH
    at = (ROUND < PLACES + 0.5).where((place < 1.0).where(place * h, h), GONE)
    found = substitute(moving[: len(values)], {GONE: at})
    body = [(ROUND, ROUND + 1.0), (BIT, BIT + BIT)]
    notes = [UOp.var(f"{NOTES}{k}", (4,)) for k in range(len(found))]
    for v, g in zip(notes, found):
        bits = [
            old + holds.where(BIT, NONE) for old, holds in zip(elements(v), (0.0 < g, g.eq(g), g.eq(0.0)))
        ]
        body.append((v, UOp.stack([*bits, g], (4,))))
    mine = [own_state(v) for v in (ROUND, BIT, *once, *notes)]
    used = read_by([*roots, h, now], states)
    observed = {f"word {v.arg}": u for v, u in zip(words, moving[len(values) :])}
    given = [*parameters_of(roots, parameters), *(Parameter(str(v.arg), v) for v in (GONE, REACH))]
    return program_of(name, [*used, *mine], given, tuple(body), observed, tuple(once.items()))


def repeats(u: UOp) -> bool:
    """Is it one number, in every place of an array?"""
    return bool(u.shape) and not any(v.shape and v.shape == u.shape for v in toposort([u])[:-1])


def of_attempts(step: Step) -> dict[UOp, UOp]:
    """The solution in a step that estimates its own error (synth/methods/embedded.py), after GONE."""
    clock = next(s.var for s in step.states if s.name == CLOCK)
    high, low = elements(clock)[:2]
    shown = {v: u for flow in step.final for v, u in zip(flow.writes(), flow.expressions())}
    return dict(zip(shown, substitute(list(shown.values()), {(UNTIL - high) - low: GONE})))


def of_series(system: System, order: int) -> tuple[list[State], dict[UOp, UOp]]:
    """(states of a program, the solution): of a Taylor series, whose terms are arrays of their own."""
    states: list[State] = []
    words: dict[UOp, UOp] = {}
    for s in system.states:
        rows = [UOp.var(f"{s.name}{TERM}{k}", s.var.shape) for k in range(order + 1)]
        low = UOp.var(f"{s.name}{LOW}", s.var.shape)
        total = rows[-1] * GONE
        for row in reversed(rows[1:-1]):
            total = (total + row) * GONE
        words[s.var] = rows[0] + (low + total)
        states += [own_state(v) for v in (*rows, low)]
    return [*states, own_state(UOp.var(CLOCK, (4,)))], words


class ArrayCurves:
    """The curve through one step of one member: an engine of its program, and what it reads of the loop's registers."""

    pad = 1

    def __init__(self, engine: Any, read: Read, count: int) -> None:
        self.engine, self.read, self.count = engine, read, count
        shapes = {s.name: s.type.shape for s in engine.states}
        self.shapes = shapes
        blank = {name: np.broadcast_to(0.0, (1, *shape)) for name, shape in shapes.items()}
        self.begin = {**blank, str(BIT.arg): np.ones(1)}
        self.notes = [f"S{list(shapes).index(f'{NOTES}{k}')}" for k in range(count)]
        names = (str(ROUND.arg), str(BIT.arg), *(f"{NOTES}{k}" for k in range(count)))
        self.scanned = {name: self.begin[name] for name in names}
        self.now: Any = None
        self.given: Any = None  # the parameters that it was made with
        self.pointed: tuple[Any, Any, Mapping[str, Any]] | None = None

    def point(self, inner: Any, one: Any, params: Mapping[str, Any]) -> None:
        """The step that a member with these parameters is at; it is taken when a frame or an event lies in it."""
        self.pointed = inner, one, params

    def take(self) -> None:
        if self.pointed is None:
            return
        (inner, one, params), self.pointed = self.pointed, None
        given = {n: v[None] for n, v in self.read(inner, one, self.shapes).items()}
        if self.given is params:
            self.engine.again(self.now, {**self.scanned, **given})
            return
        own = {**params, str(GONE.arg): np.zeros(1), str(REACH.arg): np.ones(1)}
        self.now, self.given = self.engine.start({**self.begin, **given}, own, 1, 0.0, 0.0), params

    def values(self, rows: StepRows, params: Mapping[str, Any], place: Any) -> dict[str, Any]:
        """The functions at some places of the step, "event 0" and so on."""
        self.take()
        out = np.empty((self.count, len(place)))
        for j, gone in enumerate(self.gone(rows, place).tolist()):
            self.engine.tell(self.now, str(GONE.arg), gone)
            self.engine.advance(self.now, 1)
            out[:, j] = self.noted()[:, 3]
        return {f"event {k}": v for k, v in enumerate(out)}

    def gone(self, rows: StepRows, place: Any) -> Any:
        h = rows.table[2]
        return np.where(place < 1.0, place * h, h)

    def scan(self, rows: StepRows, params: Mapping[str, Any], reach: Any) -> tuple[Any, Any, Any]:
        """(positive, number, zero) of every function: whole numbers with a bit for each place."""
        self.take()
        self.engine.tell(self.now, str(REACH.arg), float(reach[0]))
        self.engine.advance(self.now, PLACES + 1)
        positive, number, zero = self.noted()[:, :3].astype(np.int64).T[:, :, None]
        return positive, number, zero

    def noted(self) -> Any:
        """(functions, 4)"""
        return np.array([self.engine.register(self.now, at)[0] for at in self.notes])

    def look(self, rows: StepRows, params: Mapping[str, Any], place: Any) -> dict[str, Any]:
        """The words of the states, and the time, at some places of the step."""
        high, low = rows.table[:2]
        gone = self.gone(rows, place)
        return {**self.words(gone), "time": high + (low + gone)}

    def words(self, gone: Any) -> dict[str, Any]:
        """What is seen some times after the beginning of the step."""
        self.take()
        seen = []
        for t in gone.tolist():
            self.engine.tell(self.now, str(GONE.arg), t)
            seen.append(self.engine.synchronised(self.now))
        return {name: np.concatenate([one[name] for one in seen]) for name in seen[0]}
