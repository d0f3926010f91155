"""How much does a first state matter later?  The derivative of a state at the end by one number of the first state."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.given import shown
from tinyphysics.runtime.measure.tangents import Wanted, run_with_directions
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import sizes_from
from tinyphysics.runtime.state.from_frame import opened
from tinyphysics.system import SizedFamily
from tinyphysics.tpir.program.lower import DIRECTION

EXAMPLE = 'sim.sensitivity(of="q[2]", to="q[1, 0]", until=100.0, q=..., p=...)'


def sensitivity(
    setup: Setup, of: Any, to: Any, given: Mapping[str, Any], steps: Any, until: Any, t0: Any, threads: Any
) -> Any:
    opens, _ = opened(setup.own_names, given, t0)
    if isinstance(setup.source, SizedFamily):
        setup.bind(setup.source, sizes_from(setup.source, opens))
    if setup._compiled is None:
        setup.evolve(**given, steps=0, frames=2)
    states = {s.name: s.var.shape for s in setup.system.states}
    name, index = one_number(to, states)
    seen = combination(of, states)
    first = {DIRECTION.format(0, n): np.zeros(shape) for n, shape in states.items()}
    way = np.zeros(states[name])
    way[index] = 1.0
    first[DIRECTION.format(0, name)] = way
    r = run_with_directions(setup, Wanted(), given, t0, 0, "sensitivity", first)
    out = r.setup.evolve(**r.given, t0=r.t0, steps=steps, until=until, threads=threads, frames=2)
    if out.stopped is not None:
        s = out.stopped
        raise InputError(
            f"the run stopped at step {s.step} (t = {s.t:g}): {s.cause}",
            fix="Shorten dt, or choose another state.",
        )
    moved = {n: np.asarray(out.final[DIRECTION.format(0, n)], float) for n in states}
    found = seen({n: v if r.is_ensemble else v[None] for n, v in moved.items()})
    return found if r.is_ensemble else found[0] if np.ndim(found[0]) else float(found[0])


def reference(node: ast.AST, states: Mapping[str, Any], said: str) -> tuple[str, Any]:
    """(state, index) of `q[1, 0]`."""
    index: Any = ()
    if isinstance(node, ast.Subscript):
        try:
            index = ast.literal_eval(node.slice)
        except ValueError:
            raise bad(said, states) from None
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in states:
        raise bad(said, states)
    index = index if isinstance(index, tuple) else (index,)
    shape = states[node.id]
    whole = len(index) <= len(shape) and all(type(i) is int and -n <= i < n for i, n in zip(index, shape))
    if not whole:
        raise InputError(f"`{said}`: `{node.id}` has shape {shape}", fix=f"Write {EXAMPLE}.")
    return node.id, index


def bad(said: Any, states: Mapping[str, Any]) -> InputError:
    return InputError(
        f"{shown(said)} does not name numbers of a state",
        fix=f"The states are {', '.join(states)}; write {EXAMPLE}.",
    )


def parsed(said: Any, states: Mapping[str, Any]) -> ast.AST:
    if not isinstance(said, str):
        raise bad(said, states)
    try:
        return ast.parse(said.strip(), mode="eval").body
    except SyntaxError:
        raise bad(said, states) from None


def one_number(to: Any, states: Mapping[str, Any]) -> tuple[str, Any]:
    name, index = reference(parsed(to, states), states, to)
    if len(index) != len(states[name]):
        raise InputError(
            f"to={to!r} is {len(states[name])} or more numbers of `{name}`, which has shape {states[name]}",
            fix=f"Name one number: {EXAMPLE}.",
        )
    return name, index


def combination(of: Any, states: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Any]:
    """A state, part of one, or a sum and difference of such, of arrays with a member axis."""

    def read(node: ast.AST) -> Callable[[Mapping[str, Any]], Any]:
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            a, b, sign = read(node.left), read(node.right), 1.0 if isinstance(node.op, ast.Add) else -1.0
            return lambda z: a(z) + sign * b(z)
        name, index = reference(node, states, of)
        return lambda z: z[name][(slice(None), *index)]

    return read(parsed(of, states))
