"""How does a system get walls and events?  Their functions are traced in its states, and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tinyphysics.errors import InputError, PlanError, ShapeError
from tinyphysics.front.walls import DRIFT, Event, Wall
from tinyphysics.ir import Ops, UOp, elements
from tinyphysics.ir.dtype import bool_, f64
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.equality.ranges import has_one_sign, range_of
from tinyphysics.rules.formulas.smoothness import JUMP, roughest
from tinyphysics.system import Crossing, Meeting, Parameter, State, System
from tinyphysics.util import did_you_mean, one_of

CHANGED = "field"  # the role of a parameter that events change: no energy moves it
MOST = 48  # guards of a system: each is looked at in every step, and its bit in a number says that it was crossed


def with_crossings(system: System, met: Sequence[Meeting]) -> System:
    """A system with walls and events."""
    if system.kind == "map":
        raise PlanError(
            f"`{met[0].name}` is {'a wall' if met[0].kind == 'wall' else 'an event'}, and `{system.name}` is a map: "
            "between two of its steps there is no time at which it could happen",
            site=system.site,
            fix="Write what happens inside the map, with tp.where.",
        )
    if system.time is not None:
        raise PlanError(
            f"`{system.name}` depends on t: walls and events of driven systems are not available yet",
            site=system.site,
            fix="Leave t out of the function, or write the wall as a potential.",
        )
    names = [x.name for x in met]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise PlanError(
            f'two walls or events of the sum are named `{twice}`: out.events("{twice}") would mean both',
            fix='Give one of them another name: name="left".',
        )
    check_location(met)
    system = with_changing(system, met)
    guards: list[UOp] = []
    jumps: list[UOp] = []
    crossings = []
    for one in met:
        own, c, new = of_wall(system, one) if isinstance(one, Wall) else of_event(system, one)
        guards += own
        jumps += new
        crossings.append(c)
    if len(guards) > MOST:
        raise PlanError(
            f"`{system.name}` has {len(guards)} walls and events, and {MOST} numbers at most are watched",
            fix="Join some of them in one function, such as the least distance of all: tp.minimum(a, b).",
        )
    return replace(
        system,
        name=" + ".join((system.name, *names)),
        guards=tuple(guards),
        jumps=tuple(jumps),
        crossings=tuple(crossings),
    )


def with_changing(system: System, met: Sequence[Meeting]) -> System:
    """Parameters that events change are states of a run, which nothing else moves: they begin with their defaults."""
    changed: dict[str, Parameter] = {}
    for e in met:
        if not isinstance(e, Event):
            continue
        written = e.values(known_in(system))
        changed |= {p.name: p for p in system.parameters if p.name in written}
    if not changed:
        return system
    for p in changed.values():
        if p.dtype is not f64 or p.var.op is not Ops.VAR:
            raise PlanError(
                f"an event changes `{p.name}`, which is no floating-point parameter of `{system.name}`",
                site=system.site,
                fix=f"Declare it as a number: {p.name}: float = 1.0.",
            )
    states = [
        State(
            p.name, p.var, CHANGED, p.unit, start=p.default if isinstance(p.default, (int, float)) else None
        )
        for p in changed.values()
    ]
    still = tuple(UOp.const(0.0, shape=s.var.shape) for s in states) if system.kind == "ode" else ()
    return replace(
        system,
        states=(*system.states, *states),
        parameters=tuple(p for p in system.parameters if p.name not in changed),
        update=(*system.update, *still),
    )


def check_location(met: Sequence[Meeting]) -> None:
    """A step is cut, or its drift reflects: not both."""
    drifts = [x.name for x in met if isinstance(x, Wall) and x.location == DRIFT]
    if drifts and (other := next((x for x in met if x.name not in drifts), None)) is not None:
        raise PlanError(
            f"`{drifts[0]}` reflects inside the drift, and `{other.name}` cuts the step: a system does one or the other",
            fix='Leave location="drift" out.'
            if isinstance(other, Event)
            else 'Give all walls location="drift", or none.',
        )


def known_in(system: System) -> dict[str, UOp]:
    return {s.name: s.var for s in system.states} | {p.name: p.symbol for p in system.parameters}


def of_wall(system: System, w: Wall) -> tuple[list[UOp], Crossing, list[UOp]]:
    if system.kind != "hamiltonian":
        raise PlanError(
            f"the wall `{w.name}` reflects in the metric of the masses, and `{system.name}` is given by its "
            f"{system.kind}",
            site=system.site,
            fix="Write its energy, with @tp.hamiltonian; or write what happens as tp.event(when, then).",
        )
    g = w.guard(known_in(system))
    if g.dtype is bool_:
        raise InputError(
            f"the wall `{w.name}` returns a condition", fix="Return a number that is positive inside: q[1]."
        )
    others = [s.name for s in system.states if s.role not in ("position", CHANGED) and s.var in g.leaves]
    if others:
        raise InputError(
            f"the wall `{w.name}` depends on `{others[0]}`, which is not a position",
            fix="A wall is a function of positions; what depends on velocities is a tp.event(when, then).",
        )
    if not any(q in g.leaves for q in system.q):
        raise InputError(
            f"the wall `{w.name}` is {g} whatever the state is: no position occurs in it",
            fix=f"Return what is positive inside, of {one_of([s.name for s in system.states if s.role == 'position'])}.",
        )
    check_continuous(system, g, f"the wall `{w.name}`")
    rows = [x.cast(f64) if not x.dtype.is_float else x for x in unroll([g])[0]]
    for x in rows:
        low, high = range_of(x, {})
        if low > 0.0:
            raise InputError(
                f"no state can reach the wall `{w.name}`: {x} is positive whatever the state is",
                fix="Leave the wall out, or write its distance from a level: lambda q: 1 - q @ q.",
            )
        if high < 0.0:
            raise InputError(
                f"every state is behind the wall `{w.name}`: {x} is negative whatever the state is",
                fix="A wall keeps its function positive: change the sign.",
            )
    return rows, Crossing(w.name, "wall", len(rows), w.restitution, location=w.location), []


def of_event(system: System, e: Meeting) -> tuple[list[UOp], Crossing, list[UOp]]:
    assert isinstance(e, Event)
    known = known_in(system)
    g = e.guard(known)
    if g.shape != ():
        raise InputError(
            f"the event `{e.name}` has shape {g.shape}",
            fix="An event function must return one number; the event is where that number changes sign.",
        )
    g = as_difference(g) if g.dtype is bool_ else g if g.dtype.is_float else g.cast(f64)
    if not any(s.var in g.leaves for s in system.states):
        raise InputError(
            f"the event `{e.name}` is {g} throughout a run: it does not depend on a state",
            fix="An event is where a number changes sign: return a function of the states, such as q[0].",
        )
    if (why := has_one_sign(g)) is not None:
        raise InputError(
            f"the event `{e.name}` never changes sign: {g} is {why} whatever the state is",
            fix="Watch what is inside, or its distance from a level: lambda q: q[0] - 0.5.",
        )
    check_continuous(system, g, f"the event `{e.name}`")
    states = {s.name: s.var for s in system.states}
    values = e.values(known)
    new = []
    for name, v in values.items():
        if name not in states:
            raise InputError(
                f"then of the event `{e.name}` returns `{name}`, which is neither a state nor a parameter of `{system.name}`",
                fix=f"{did_you_mean(name, known)}It has {one_of(list(known), 'and')}.",
            )
        if v.dtype is bool_:
            raise InputError(
                f"then of the event `{e.name}` returns `{name}` as a condition, {v}",
                fix=f"Return a number: {{'{name}': tp.where(condition, a, b)}}.",
            )
        if v.shape != states[name].shape:
            raise ShapeError(
                f"then of the event `{e.name}` returns `{name}` of shape {v.shape}, and it has {states[name].shape}",
                fix=f"Return an array of that shape: {{'{name}': 0.0 * {name}}} is one of zeros."
                if v.shape == ()
                else f"Return a value of the shape of `{name}`.",
            )
        v = v if v.dtype.is_float else v.cast(f64)
        new.append(v)
    return [g], Crossing(e.name, "event", 1, 1.0, e.direction, tuple(values), e.stops), new


def as_difference(condition: UOp) -> UOp:
    """A comparison is met where both sides are equal; it holds where the number is positive."""
    if condition.op is Ops.LT and condition.src[0].dtype.is_float:
        return condition.src[1] - condition.src[0]
    return condition.where(1.0, -1.0)


def check_continuous(system: System, g: UOp, what: str) -> None:
    """A root is looked for between two states by what the function does there; a jump has none."""
    worst = roughest([g], frozenset(s.var for s in system.states))
    if worst is not None and worst.order == JUMP:
        raise InputError(
            f"{what} jumps, at `{worst.node}`: where it changes sign it is not zero, and it would be passed unseen",
            fix="Return a continuous number, such as a distance: lambda q: q[1] - 0.5.",
        )


def numbers_of(system: System) -> list[UOp]:
    """The states, number by number."""
    return [x for s in system.states for x in elements(s.var)]
