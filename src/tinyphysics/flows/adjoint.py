"""What is the adjoint of a step?  The adjoints of its sub-flows, the last one first, beside what takes the states back.

It begins with the state where a run ends and the cotangents of that state, and ends with the state where the run began and
the cotangents of that: `init`, `body` and `final` are those of a step like any other.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.errors import PlanError
from tinyphysics.flows.cotangents import Cotangents, Total, bar_of, rest_of
from tinyphysics.flows.map import Map
from tinyphysics.flows.together import Together
from tinyphysics.ir import UOp
from tinyphysics.rules.identities.factors import common_cotangents, common_numbers
from tinyphysics.step import AS_WRITTEN, DT, SHEARS, Step, SubFlow
from tinyphysics.structure import COTANGENT
from tinyphysics.system import State
from tinyphysics.tpir.program.isa import Word
from tinyphysics.tpir.program.lower import ProgramBuilder, arithmetic, changing, decisions

Flows = tuple[SubFlow, ...]


@dataclass(frozen=True, eq=False)
class Stash(SubFlow):
    """Copies of states, to be put back after a sub-flow has moved them."""

    copies: tuple[tuple[UOp, UOp], ...]  # (copy, state)
    traits = frozenset()

    def writes(self) -> tuple[UOp, ...]:
        return ()

    def lower(self, b: ProgramBuilder, section: str) -> None:
        for copy, state in self.copies:
            b.current[copy] = register = b.temporary()
            b.emit(section, "MOVE", register, Word("reshape"), b.state(state), u=state, note=" ")

    @property
    def restored(self) -> Map:
        return Map(tuple((state, copy) for copy, state in self.copies))


@dataclass(frozen=True)
class MovingTime:
    """How a gradient by dt has its part from the times of the steps, t0 + (n + clock)*dt.

    What the time pulls on is summed up on the way back, as if it were a parameter; the sum so far, of all later steps, is
    added once a step: a step is so often later as it has steps before it. What a flow sees within its step is added at once.
    """

    time: UOp
    bar: UOp
    of_dt: UOp

    @property
    def later(self) -> SubFlow:
        return Cotangents((), (Total(self.of_dt, self.bar), Total(self.of_dt, rest_of(self.bar))))


def moving_times(step: Step, sums: Mapping[UOp, UOp]) -> tuple[MovingTime, ...]:
    if step.time is None or DT not in sums:
        return ()
    return (MovingTime(step.time, bar_of(step.time), sums[DT]),)


def together(flows: Flows) -> Flows:
    """Side by side where the order of some sub-flows does not matter."""
    for k, f in enumerate(flows):
        others = {x for other in flows[:k] + flows[k + 1 :] for x in other.writes()}
        if f.reads() & others or f.private() or not f.traits <= {SHEARS, AS_WRITTEN}:
            return flows
    return (Together(flows),) if len(flows) > 1 else flows


def irreversible(step: Step) -> SubFlow | None:
    """The first sub-flow of a step that has no inverse; None where all have one."""
    return next((f for f in step.body if f.inverse() is None), None)


def loses(step: Step) -> bool:
    """Does `final` show less than the loop carries, so that `init` does not lead back from it?"""
    return any(f.inverse() is None for f in step.final)


def adjoint_step(
    step: Step, wrt: Sequence[UOp], reverse: bool, precision: str = "float64", of_final: bool = False
) -> Step:
    """The step that pulls cotangents back, with its arithmetic decided; `wrt` are parameters, and dt.

    With `reverse` a body takes the states back by the inverses of its sub-flows. Without, it is given the state that its
    step began with, and leaves it as it is. With `of_final` it is that of `final` alone, as a body, at a loop state.
    """
    if step.coordinates.scales:
        raise PlanError(
            f"the adjoint of `{step.name}` is not known: its loop keeps the states in other units",
            fix="Leave scale= out.",
        )
    known = decisions(step, precision)
    bars = {s.var: bar_of(s.var) for s in step.states}
    sums = {v: bar_of(v) for v in wrt}
    times = moving_times(step, sums)
    sums |= {x.time: x.bar for x in times}
    found = {f: adjoint_of(f, step, bars, sums) for f in step.flows}
    for x in times:
        found = {f: tuple(g.within(x.bar, x.of_dt) for g in flows) for f, flows in found.items()}
    own = [u for flows in found.values() for g in flows for u in (*g.expressions(), *g.private())]
    shorter = dict(zip(own, common_cotangents(common_numbers(own), {*bars.values()})))
    beside = (*bars.values(), *sums.values(), *(rest_of(v) for v in sums.values()))
    made = arithmetic(list(shorter.values()), changing(step, own) | {*beside}, precision)
    new = {u: made[x] for u, x in shorter.items()}

    def forward(f: SubFlow) -> SubFlow:
        return f.rebuilt(known(f))

    def pulled(f: SubFlow) -> Flows:
        return tuple(g.rebuilt(ChainMap({}, new)) for g in found[f])

    def from_beginning(flows: Flows) -> Flows:
        """Cotangents through sub-flows whose first one sees the states as they are; they are the same after it."""
        out: list[SubFlow] = []
        stashes = []
        for k, f in enumerate(flows[:-1]):
            stash = Stash(tuple((UOp.var(f"stash {k} {x.arg}", x.shape), x) for x in f.writes()))
            stashes.append(stash)
            out += [stash, forward(f)]
        for k, f in reversed(list(enumerate(flows))):
            out += [*([stashes[k].restored] if k < len(stashes) else []), *pulled(f)]
        return tuple(out)

    def from_end(flows: Flows) -> Flows:
        """The same where they are as the last sub-flow leaves them; each is taken back before its cotangents."""
        out: list[SubFlow] = []
        for f in reversed(flows):
            back = forward(f).inverse()
            assert back is not None, "only what has an inverse is taken back"
            out += together((back, *pulled(f)))
        return tuple(out)

    states = tuple(State(str(v.arg), v, COTANGENT) for v in beside)
    if of_final:
        alone = replace(step, name=f"{step.name}_final_adjoint", states=(*step.states, *states), claims=())
        return replace(alone, terms=(), init=(), body=from_beginning(step.final), final=())
    return replace(
        step,
        name=f"{step.name}_adjoint",
        states=(*step.states, *states),
        claims=(),
        terms=(),
        init=(*map(forward, step.init), *from_beginning(step.final)),
        body=(*(x.later for x in times), *(from_end(step.body) if reverse else from_beginning(step.body))),
        final=(*map(forward, step.final), *from_beginning(step.init)),
    )


def adjoint_of(f: SubFlow, step: Step, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> Flows:
    found = step.coordinates.as_seen(f).adjoint(bars, sums)
    if found is None:
        raise PlanError(
            f"the adjoint of `{step.name}` is not known: {f.without_adjoint or f'a {type(f).__name__} of it has none yet'}",
            fix='Choose a method of kicks and drifts, or a Runge-Kutta method: method="leapfrog", method="rk4".',
        )
    return found
