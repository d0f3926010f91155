"""How is a system stepped in another time than its own?  As a system with one more pair: t, and its momentum p_t.

On the extended space H + p_t is zero all along if p_t begins as -H. So the flow of g*(H + p_t), for any g > 0, is that of
H with dt = g ds; and so is that of ln(T + p_t) - ln(-V), for which g is 1/(-V) and which splits (Mikkola & Tanikawa 1999,
Preto & Tremaine 1999). A step in s is a step of an ordinary system: all that is known about those holds for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tinyphysics.analysis.separable import separable
from tinyphysics.constrained import BRACKET as CONSTRAINED
from tinyphysics.errors import InputError, PlanError
from tinyphysics.front.functions import log
from tinyphysics.front.trace import observable
from tinyphysics.ir import Ops, UOp
from tinyphysics.planner.conflicts import CONSTRAINTS, LEVELS, Ask, check
from tinyphysics.system import Clock, SizedFamily, State, System
from tinyphysics.util import one_of

TIME, MOMENTUM = "t", "p_t"
WAYS = ("logarithmic", "sundman")


def in_another_time(system: System | SizedFamily, time: Any) -> System | SizedFamily:
    """The system as it is stepped in s, where time= says how t follows from it; a function is dt/ds of the positions."""
    if isinstance(system, SizedFamily):
        build = system.build
        return replace(system, build=lambda sizes: transformed(build(sizes), time))
    return transformed(system, time)


def transformed(system: System, time: Any) -> System:
    if not (isinstance(time, UOp) or callable(time) or isinstance(time, str) and time in WAYS):
        raise PlanError(
            f"there is no time {time!r}",
            fix=f"time may be {one_of(WAYS)}, or a function of the positions: lambda q: ...",
        )
    check(
        "time",
        Ask({"time": time}, system, {LEVELS: system.levels, CONSTRAINTS: system.bracket == CONSTRAINED}),
    )
    if system.crossings:
        raise PlanError(
            f"time= does not go with the walls and events of `{system.name}` yet: a bounce would have to change the "
            "momentum of time too",
            fix="Leave time= out.",
        )
    assert system.energy is not None
    taken = [*(s.name for s in system.states), *(p.name for p in system.parameters)]
    for name in (TIME, MOMENTUM):
        if name in taken:
            raise InputError(
                f"`{system.name}` already has a `{name}`, and time= adds a state of that name",
                fix=f'Rename it: {system.name}.rename({name}="other").',
            )
    t = UOp.var(TIME) if system.time is None else system.time
    p_t = UOp.var(MOMENTUM)
    if not isinstance(time, str):
        way, rate = "function", time if isinstance(time, UOp) else traced(system, time)
        energy = rate * (system.energy + p_t)
    else:
        way = time
        T, V = parts(system, way)
        depth = V.src[0] if V.op is Ops.NEG else -V
        rate = 1.0 / depth
        energy = log(T + p_t) - log(depth) if way == "logarithmic" else (T + p_t) / depth
    pair = (State(TIME, t, "position"), State(MOMENTUM, p_t, "momentum"))
    return replace(
        system,
        states=(*system.states, *pair),
        energy=energy,
        time=None,
        clock=Clock(way, TIME, MOMENTUM, rate, system),
    )


def parts(system: System, way: str) -> tuple[UOp, UOp]:
    """T and V, of which the one is positive and the other must be negative wherever it goes."""
    split = separable(system)
    if not split:
        raise PlanError(
            f'time="{way}" needs H = T(p) + V(q), and H of `{system.name}` is not shown to have that form: '
            f"{split.because}",
            site=split.site,
            fix="Give dt/ds as a function of the positions: time=lambda q: ...",
        )
    T, V = split.T, split.V
    if not V.leaves & frozenset(system.q):
        raise PlanError(
            f'time="{way}" takes dt/ds from the potential, and `{system.name}` has none',
            fix="Leave time= out.",
        )
    if way == "logarithmic" and system.time is not None and system.time in T.leaves:
        raise PlanError(
            f'time="{way}": T of `{system.name}` depends on t, so ln(T + p_t) mixes t and p',
            fix="Leave time= out.",
        )
    return T, V


def traced(system: System, function: Callable[..., Any]) -> UOp:
    """dt/ds, a number that positions and parameters decide."""
    known = {s.name: s.var for s in system.states if s.role == "position"} | {
        p.name: p.var for p in system.parameters
    }
    rate = observable(function, known, "time", "function")
    if rate.shape:
        raise InputError(
            f"time= returns an array of shape {rate.shape}", fix="dt/ds is one number: lambda q: tp.norm(q)."
        )
    if not rate.leaves & frozenset(system.q):
        raise InputError(
            "time= returns a number that does not depend on the positions",
            fix="Leave time= out, and choose another dt.",
        )
    return rate
