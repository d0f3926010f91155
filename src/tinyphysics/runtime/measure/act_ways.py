"""How does an act move a direction beside the states?  By the derivative of its map, at the states before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tinyphysics.errors import InputError, PlanError, TinyPhysicsError, TraceError
from tinyphysics.given import shown
from tinyphysics.ir import UOp, toposort
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.identities.real import simplify
from tinyphysics.runtime.measure.loss_function import STEPS
from tinyphysics.runtime.stages.acts import WRITE, check_states, map_of
from tinyphysics.runtime.state.acts import Act
from tinyphysics.system import Parameter, State, System
from tinyphysics.tpir.program.lower import DIRECTION


def check_smooth(name: str, s: System) -> None:
    """An error where a map has no derivative, by its line."""
    for u in toposort(list(s.equations)):
        if u.op in STEPS:
            raise TraceError(
                f"acts[{name!r}] is not differentiable: `{u.op.value}` jumps",
                site=next((s.sites[x] for x in reversed(toposort([u])) if x in s.sites), None),
                fix="Write it with smooth functions, or leave the act out.",
            )


def with_ways(system: System, acts: Any, by: Sequence[str], what: str) -> dict[str, Act] | None:
    """The acts of a call that move directions of states, and of the parameters `by`, beside them."""
    if not acts:
        return None
    if not isinstance(acts, Mapping):
        raise InputError(f"acts={shown(acts)} is not a dict of acts", fix=WRITE)
    if system.crossings:
        raise PlanError(
            f"{what}: acts change the state between steps that are cut at walls and events",
            fix="Leave acts= out.",
        )
    return {name: with_way(system, name, one, by) for name, one in acts.items()}


def with_way(system: System, name: str, one: Any, by: Sequence[str]) -> Act:
    if not isinstance(one, Act):
        raise InputError(f"acts[{name!r}] is {shown(one)}, which is not an act", fix=WRITE)
    try:
        own = map_of(one.map, system)
    except TinyPhysicsError as error:
        raise type(error)(f"acts[{name!r}]: {error.what}", site=error.site, fix=error.fix) from None
    check_states(name, own, system)
    check_smooth(name, own)
    states = {s.name for s in system.states}
    written = {s.name for s in own.states}
    read = [p for p in own.parameters if p.name in states]  # states that it leaves as they are
    moved: list[State | Parameter] = [*own.states, *read, *(p for p in own.parameters if p.name in by)]
    ways = {x.name: UOp.var(DIRECTION.format(0, x.name), x.var.shape) for x in moved}
    slopes = simplify(jvp(list(own.equations), [x.var for x in moved], [ways[x.name] for x in moved]))
    role = own.states[0].role
    still = [x.var for x in read] + [way for x, way in ways.items() if x not in written]
    new = {s.var: u for s, u in zip(own.states, own.equations)} | {v: v for v in still}
    new |= {ways[s.name]: u for s, u in zip(own.states, slopes)}
    both = replace(
        own,
        states=tuple(State(str(v.arg), v, role) for v in new),
        parameters=tuple(p for p in own.parameters if p.name not in states),
        update=tuple(new.values()),
        axes={},
    )
    return replace(one, map=both)
