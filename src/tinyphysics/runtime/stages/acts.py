"""Which acts does a call of evolve ask for?  Maps of the user's, traced in the shapes of the states and compiled."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

import numpy as np

from tinyphysics.device.numbers import NUMPY_DTYPE
from tinyphysics.errors import InputError, PlanError, ShapeError, StoreError, TinyPhysicsError
from tinyphysics.front.spaces import Space
from tinyphysics.front.trace import map_
from tinyphysics.given import shown
from tinyphysics.pipeline import BESIDE
from tinyphysics.plan import Goal
from tinyphysics.planner.conflicts import JUMPS, OWN_STEPS, Ask, check
from tinyphysics.runtime.stages.compiled import Compiled
from tinyphysics.runtime.stages.description import system_of
from tinyphysics.runtime.stages.resolve import Resolved
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.across import TOGETHER
from tinyphysics.runtime.state.acts import Act, Fault
from tinyphysics.runtime.state.ensemble import Inputs, addressed, sizes_from
from tinyphysics.runtime.state.run import BoundAct, told
from tinyphysics.system import SizedFamily, System
from tinyphysics.util import digest

WRITE = 'Write acts={"kick": tp.act(every=100, map=lambda p: -p)}.'


def bind_acts(r: Resolved, i: Inputs) -> tuple[BoundAct, ...]:
    """The acts of a call, ready to be done; those of a checkpoint if the call leaves them out."""
    given = r.request.acts
    if given is not None and not isinstance(given, Mapping):
        raise InputError(f"acts={shown(given)} is not a dict of acts", fix=WRITE)
    c = r.begun
    if not given:
        given = (
            {}
            if c is None
            else {name: Act(every, system_of(data), *since) for name, every, data, *since in c.acts}
        )
    if given and all(s.role != BESIDE for s in r.setup.system.states):
        compiled = r.setup.compiled
        traits = {OWN_STEPS: compiled.adaptive, JUMPS: compiled.jump is not None}
        check("acts", Ask.of(r.setup.goal, r.setup.system, traits, by=compiled.known.method, acts=given))
    out = tuple(bound(r, i, name, one) for name, one in given.items())
    if c is not None and told(out) != alone(c.run.acts):
        raise StoreError(
            f"the run in `{r.path}` has {named(alone(c.run.acts))}, and this call has {named(told(out))}",
            fix="Leave acts= out, or pass the same acts in the same order.",
        )
    return out


def alone(acts: str) -> str:
    """The acts of single members: those of all members together are left out."""
    return "; ".join(a for a in acts.split("; ") if not a.startswith(TOGETHER))


def named(acts: str) -> str:
    """Acts as messages name them."""
    return f"the acts `{acts}`" if acts else "no acts"


def bound(r: Resolved, i: Inputs, name: Any, one: Any) -> BoundAct:
    if not isinstance(name, str) or not name:
        raise InputError(f"acts= has {shown(name)} as a name", fix=WRITE)
    if not isinstance(one, Act):
        raise InputError(f"acts[{name!r}] is {shown(one)}, which is not an act", fix=WRITE)
    setup, encoding = r.setup, r.setup.compiled.encoding
    try:
        system = map_of(one.map, setup.system)
        compiled = compiled_map(setup, system)
    except TinyPhysicsError as error:
        raise type(error)(f"acts[{name!r}]: {error.what}", site=error.site, fix=error.fix) from None
    states = {s.name for s in setup.system.states}
    check_states(name, system, setup.system)
    params = [p.name for p in system.parameters]
    reads = tuple(p for p in params if p in states)
    if reads and not encoding.plain:
        raise PlanError(
            f"acts[{name!r}] only reads `{reads[0]}`, whose words in precision={setup.goal.precision!r} are not one number",
            fix=f"Return `{reads[0]}` too, unchanged.",
        )
    dtype = NUMPY_DTYPE[encoding.precision.given.name]
    own: dict[str, Any] = {}
    for p in system.parameters:
        if p.name in states or p.name in i.own:
            continue
        if p.default is None:
            raise InputError(
                f"acts[{name!r}] takes `{p.name}`, which is neither a state nor a parameter of `{setup.system.name}`",
                fix=f"Give it a default: {p.name}=1.0.",
            )
        own[p.name] = np.broadcast_to(np.asarray(p.default, dtype), p.var.shape)[None]
    if compiled.known.draws:  # from a stream of its own
        seed = int(digest(f"{int(r.seed)} {name}".encode())[:16], 16)
        own |= addressed(Inputs({}, {}, i.members, i.is_ensemble), seed, encoding.precision.given).params
    return BoundAct(
        name,
        one.every,
        system,
        compiled.program,
        compiled.known.program,
        compiled.in_loops(i.members),
        tuple(w for s in system.states for w in encoding.precision.names(s.name)),
        reads,
        tuple(p for p in params if p in i.own and p not in states),
        own,
        {s.name for s in system.states} <= {s.name for s in setup.system.states if s.role == BESIDE},
        one.since,
    )


def check_states(name: str, what: System, system: System) -> None:
    """Does a map change states of the system, in their shapes?"""
    states = {s.name: s.var.shape for s in system.states}
    for s in what.states:
        if s.name not in states:
            raise InputError(
                f"acts[{name!r}] changes `{s.name}`, which is not a state of `{system.name}`",
                fix=f"Its states are {' and '.join(f'`{n}`' for n in states)}.",
            )
        if s.var.shape != states[s.name]:
            raise ShapeError(
                f"acts[{name!r}]: `{s.name}` has shape {s.var.shape}, and {states[s.name]} in `{system.name}`",
                fix="Leave the annotation out: the shape is that of the state.",
            )


def map_of(what: Any, system: System) -> System:
    """The map of an act, in the shapes of a system."""
    shapes = {s.name: s.var.shape for s in system.states}
    shapes |= {p.name: p.var.shape for p in system.parameters}
    if isinstance(what, Fault):
        what = with_fault(what, system)
    if isinstance(what, FunctionType):
        what = map_(with_shapes(what, shapes))
    if not isinstance(what, (System, SizedFamily)) or what.kind != "map":
        raise InputError(f"{shown(what)} is not a map of states", fix=WRITE)
    if isinstance(what, SizedFamily):
        return what.bind(sizes_from(what, {n: np.empty(s) for n, s in shapes.items() if n in what.shapes}))
    return what


def with_fault(f: Fault, system: System) -> FunctionType:
    """A function of the state that a fault names: one of its numbers is multiplied by a factor."""
    own = next((s for s in system.states if s.name == f.state and s.role != BESIDE), None)
    if own is None:
        raise InputError(
            f"there is no state `{f.state}` in `{system.name}`",
            fix=f"Its states are {' and '.join(f'`{s.name}`' for s in system.states if s.role != BESIDE)}.",
        )
    shape = own.var.shape
    if len(f.index) != len(shape) or any(k >= n for k, n in zip(f.index, shape)):
        raise ShapeError(
            f"{f.state}[{', '.join(map(str, f.index))}] is no number of `{f.state}`, which has shape {shape}",
            fix=f"Pass {len(shape)} whole numbers, each below the length of its axis.",
        )
    factors = np.ones(shape)
    factors[f.index] = f.factor
    taken = {*(s.name for s in system.states), *(p.name for p in system.parameters)}
    by = next(name for k in range(len(taken) + 1) if (name := f"factors{'_' * k}") not in taken)
    named = eval(f"lambda {f.state}, {by}: {f.state} * {by}")
    assert isinstance(named, FunctionType)
    named.__name__, named.__defaults__ = f"fault of {f.state}", (factors,)
    named.__annotations__ = {by: Space(shape)} if shape else {}
    return named


def with_shapes(f: FunctionType, shapes: Mapping[str, tuple[int, ...]]) -> FunctionType:
    """A function whose arguments have the shapes of the states and parameters of those names, if it says nothing else."""
    new = FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    new.__kwdefaults__, new.__qualname__, new.__module__ = f.__kwdefaults__, f.__qualname__, f.__module__
    known = {name: Space(shape) for name, shape in shapes.items() if shape}
    new.__annotations__ = {**known, **f.__annotations__}
    return new


def compiled_map(setup: Setup, system: System) -> Compiled:
    g = setup.goal
    return Compiled(
        system, Goal(None, precision=g.precision, lattice=g.lattice, math=g.math), setup.requested
    )
