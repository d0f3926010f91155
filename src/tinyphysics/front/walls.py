"""tp.wall and tp.event: what happens where a function of the state reaches zero, to be added to a system with +."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tinyphysics.errors import InputError
from tinyphysics.front.random import of_observable
from tinyphysics.front.trace import Definition, check_constants, observable, run
from tinyphysics.given import number, shown, word
from tinyphysics.ir import UOp, as_uop
from tinyphysics.options import heeds
from tinyphysics.system import Meeting

WALL = 'floor = tp.wall(lambda q: q[1], restitution=0.9, name="floor")'
EVENT = 'tp.event(when=lambda q: q[0], then=lambda p: {"p": -p}, name="kick")'
STOP = "stop"
STEP, DRIFT = "step", "drift"  # where a bounce is located


def named(function: Any, name: str | None, kind: str) -> str:
    if name is not None:
        word("name", name, 'name="floor"')
        if not name:
            raise InputError('name="" is no name', fix='Pass name="floor", or leave name= out.')
        return name
    own = getattr(function, "__name__", "")
    return own if own.isidentifier() else kind


@dataclass(frozen=True, eq=False)
class Wall(Meeting):
    """g(q) >= 0 holds: at zero the velocity across the wall changes its sign, and keeps the part `restitution`."""

    function: Callable[..., Any]
    restitution: float
    name: str
    location: str
    kind = "wall"

    def guard(self, known: Mapping[str, UOp]) -> UOp:
        return observable(self.function, known, self.name, "wall")

    def __repr__(self) -> str:
        return f"<wall {self.name}>"


@dataclass(frozen=True, eq=False)
class Event(Meeting):
    """Where `when` changes its sign, `then` gives states new values, or the member stops."""

    function: Callable[..., Any]
    then: Callable[..., Any] | str | None
    direction: int
    name: str
    kind = "event"

    def guard(self, known: Mapping[str, UOp]) -> UOp:
        return observable(self.function, known, self.name, "event")

    @property
    def stops(self) -> bool:
        return self.then == STOP

    def values(self, known: Mapping[str, UOp]) -> dict[str, UOp]:
        """What `then` returns, as expressions."""
        then = self.then
        if then is None or isinstance(then, str):
            return {}
        signature = inspect.signature(then).parameters
        arguments = [n for n, p in signature.items() if n in known or p.default is p.empty]
        for a in arguments:
            if a not in known:
                raise InputError(
                    f"then of the event `{self.name}` has an argument `{a}`, which this system does not have",
                    fix=f"Arguments are matched by name with {', '.join(known)}.",
                )
        d = Definition(self.name, (), lambda s: then(**s), None, then)
        value, sites = run(d, {a: known[a] for a in arguments}, of_observable(self.name))
        if not isinstance(value, Mapping) or not value:
            raise InputError(
                f"then of the event `{self.name}` returns {shown(value)}, not new values by name",
                fix='Return a dict: then=lambda p: {"p": -p}.',
            )
        out = {}
        for name, v in value.items():
            listed = isinstance(v, (list, tuple)) and any(isinstance(x, UOp) for x in v)
            out[str(name)] = as_uop(list(v)) if listed else as_uop(v)
            check_constants(d, out[str(name)], sites)
        return out

    def __repr__(self) -> str:
        return f"<event {self.name}>"


@heeds("wall", WALL)
def wall(
    g: Callable[..., Any], restitution: float = 1.0, *, name: str | None = None, location: str = STEP
) -> Wall:
    """Makes a wall that keeps g >= 0, which is added to an energy: `ball + floor`.

    `g` is a function of positions and parameters, matched by name; it may return an array, which is a wall for each number.
    At g = 0 the velocity across the wall changes its sign and keeps the part `restitution`, from 0 to 1. `name` is what
    out.events calls it; the default is the name of the function. The step of the method is cut where a wall is met, and keeps
    its order; location="drift" reflects inside the straight drift of leapfrog, which stays symplectic, with first order.
    """
    if not callable(g):
        raise InputError(f"tp.wall: {shown(g)} is not a function", fix=f"Write {WALL}.")
    e = number("restitution", restitution, "restitution=0.9", "number from 0 to 1")
    if not 0.0 <= e <= 1.0:
        raise InputError(
            f"restitution={e:g} is not from 0 to 1: it is the part of the speed that a bounce leaves",
            fix="restitution=1.0 is elastic, restitution=0.0 is a bounce without return.",
        )
    if location not in (STEP, DRIFT):
        raise InputError(
            f'location={shown(location)} is neither "step" nor "drift"',
            fix='location="step" cuts the step at the wall, location="drift" reflects inside the drift of leapfrog.',
        )
    if location == DRIFT and e != 1.0:
        raise InputError(
            f'location="drift" is for elastic walls, and restitution={e:g} takes energy: no step with it is symplectic',
            fix="Leave location= out: the step is cut at the wall, and keeps its order.",
        )
    return Wall(g, e, named(g, name, "wall"), location)


@heeds("event", EVENT)
def event(
    when: Callable[..., Any], then: Any = None, direction: int = 0, *, name: str | None = None
) -> Event:
    """Makes an event that changes the motion, which is added to a system: `orbit + burn`.

    `when` is a function of states and parameters, matched by name, that returns one number; the event is where it changes
    sign. `then` returns new values of states by name, `then="stop"` ends the run of that member, and None only records
    the event. `direction` is 1 for a number that rises, -1 for one that falls, 0 for both. `name` is what out.events calls
    it.
    """
    if not callable(when):
        raise InputError(f"tp.event: {shown(when)} is not a function", fix=f"Write {EVENT}.")
    if not (callable(then) or then is None or then == STOP):
        raise InputError(
            f'tp.event: then={shown(then)} is neither a function nor "stop"', fix=f"Write {EVENT}."
        )
    if isinstance(direction, bool) or direction not in (-1, 0, 1):
        raise InputError(
            f"tp.event: direction={shown(direction)} is not -1, 0 or 1",
            fix="1 is where the number rises through zero, -1 where it falls, 0 both.",
        )
    return Event(when, then, int(direction), named(when, name, "event"))
