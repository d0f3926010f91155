"""@tp.constraint: functions of the positions that stay zero, as rods and joints keep them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tinyphysics.constrained import BRACKET
from tinyphysics.front.random import IN_ENERGY, Draws
from tinyphysics.front.trace import (
    Definition,
    check_no_defaults,
    definition,
    family,
    numbers,
    run,
    symbol,
)
from tinyphysics.given import shown
from tinyphysics.options import heeds
from tinyphysics.system import State, System
from tinyphysics.tracebacks import users_frames

NAMES = 'positions= names its arguments: ["q", ...].'


def trace_constraint(d: Definition, positions: Sequence[str], sizes: Mapping[str, int]) -> System:
    if isinstance(positions, str) or not isinstance(positions, Sequence) or not positions:
        raise d.wrong(f"positions={shown(positions)} is not a list of names", NAMES)
    if any(a.name == "t" for a in d.arguments):
        raise d.wrong(
            f"`{d.name}` depends on t: constraints that move on their own are not available yet",
            "Write g(q) = 0 without t; a drive can act through a potential, V(q, t).",
        )
    for n in positions:
        if not any(a.name == n for a in d.arguments):
            raise d.wrong(f"`{d.name}` has no position `{n}`", NAMES)
    check_no_defaults(d, positions, "a position")
    symbols = {a.name: symbol(a, sizes) for a in d.arguments}
    value, sites = run(d, symbols, Draws(refused=IN_ENERGY))
    g = numbers(d, value, sites)
    if not any(symbols[n] in g.leaves for n in positions):
        raise d.wrong(
            f"`{d.name}` returns `{g}`, in which no position occurs: nothing could keep it zero",
            "Return what is zero where the constraint holds: return q @ q - l**2.",
        )
    states = [State(n, symbols[n], "position", d[n].space.unit) for n in positions]
    made = d.system(
        "constraint", states, symbols, sizes, sites.table, positions, tensor=(g,), bracket=BRACKET
    )
    return made


@heeds("constraint", '@tp.constraint, or @tp.constraint(positions=["x", "y"])')
def constraint(function: Any = None, *, positions: Sequence[str] | None = None) -> Any:
    """Makes a constraint g(q, parameters) = 0, which is added to an energy: `energy + rod`.

    `function` returns what must stay zero: a number, or an array of any shape. Its first argument is the position;
    `positions` names several: positions=["x", "y"].

    >>> @constraint
    ... def held(x, l=1.0):
    ...     return x*x - l*l
    >>> held.tensor[0]
    x*x - l*l
    """
    if function is None:
        return users_frames(lambda f: constraint(f, positions=positions))
    d = definition(function, "constraint")
    if positions is None:
        if not d.arguments:
            raise d.wrong(f"`{d.name}` needs a position", f"Write def {d.name}(q, ...).")
        positions = [d.arguments[0].name]
    return family(d, "constraint", lambda sizes: trace_constraint(d, positions, sizes))
