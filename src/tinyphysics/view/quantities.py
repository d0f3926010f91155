"""Which numbers of a run does a name mean?  "t", "q[0]", "energy" and observables, each over the frames."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, ShapeError
from tinyphysics.system import System
from tinyphysics.trajectory import Trajectory
from tinyphysics.util import did_you_mean


@dataclass(frozen=True, eq=False)
class Quantity:
    """Curves over time: one column for each member and each component."""

    label: str
    t: Any  # (times,)
    values: Any  # (times, columns)


def quantity(out: Trajectory, system: System, axis: str, asked: Any) -> Quantity:
    """What x=, y= or z= names: a name with or without an index, or an array with a row for each frame."""
    if not isinstance(asked, str):
        return given(out, axis, asked)
    name, index = parsed(axis, asked)
    t, values, lead = found(out, system, axis, name)
    if index is not None:
        try:
            values = values[(slice(None),) * (1 + lead) + index]
        except IndexError:
            shape = values.shape[1 + lead :]
            raise ShapeError(
                f"{axis}={asked!r}: `{name}` has the shape {shape}" if shape
                else f"{axis}={asked!r}: `{name}` is a single number",
                fix=f"Write {axis}={name!r}, or an index within its shape." if shape else f"Write {axis}={name!r}.",
            ) from None  # fmt: skip
    return Quantity(asked, np.asarray(t), np.asarray(values).reshape(len(t), -1))


def parsed(axis: str, asked: str) -> tuple[str, tuple[Any, ...] | None]:
    """The name and the index of a text such as "q", "q[0]" or "q[:, 1]".

    >>> parsed("x", "q[:, 1]")
    ('q', (slice(None, None, None), 1))
    """
    try:
        node = ast.parse(asked.strip(), mode="eval").body
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return node.value.id, tuple(item(i) for i in items)
        if isinstance(node, ast.Name):
            return node.id, None
    except (SyntaxError, ValueError):
        pass
    if asked.isprintable() and "[" not in asked:  # an observable may have any name
        return asked, None
    raise InputError(
        f"{axis}={asked!r} is not a name with an index",
        fix=f'Write {axis}="q", {axis}="q[0]" or {axis}="q[:, 1]"; or pass an array with a row for each frame.',
    )


def item(node: ast.expr) -> int | slice:
    """An index or a slice of numbers."""
    if isinstance(node, ast.Slice):
        return slice(*(None if n is None else index(n) for n in (node.lower, node.upper, node.step)))
    return index(node)


def index(node: ast.expr) -> int:
    value = ast.literal_eval(node)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("not a whole number")
    return value


def found(out: Trajectory, system: System, axis: str, name: str) -> tuple[Any, Any, int]:
    """(times, values, ensemble axes between the times and the shape)."""
    first = system.states[0]
    lead = np.ndim(out.frames[first.name]) - 1 - len(first.var.shape)
    if name in out.frames:
        return out.t, np.asarray(out.frames[name]), lead
    if name in ("t", "time"):
        return out.t, np.asarray(out.t), 0
    if name in ("step", "steps"):
        return out.t, np.asarray(out.steps), 0
    if name in out.observed:
        t, values = out.observed[name]
        return t, np.asarray(values), lead
    if name == "energy" and system.energy is not None:
        return out.t, np.asarray(out.energy), lead
    velocities = getattr(out.origin, "velocities", {})
    if name in velocities:
        return out.t, np.asarray(getattr(out, name)), lead
    known = [*out.frames, *velocities, *out.observed, *["energy"] * (system.energy is not None), "t", "step"]
    raise InputError(
        f"{axis}={name!r} was not recorded in this run",
        fix=f"{did_you_mean(name, known)}It has {', '.join(known)}; observe={{{name!r}: function}} adds to them.",
    )


def given(out: Trajectory, axis: str, asked: Any) -> Quantity:
    """An array of the user's own."""
    try:
        values = np.asarray(asked, float)
    except (TypeError, ValueError):
        raise InputError(
            f"{axis}= is a {type(asked).__name__}, and not of real numbers",
            fix=f'Pass a name, {axis}="q[0]", or an array with a row for each frame.',
        ) from None
    if values.ndim == 0 or len(values) != len(out.t):
        rows = f" with {len(values)} rows" if values.ndim and values.size else ""
        raise InputError(
            f"{axis}= is a {type(asked).__name__}{rows}, and the run has {len(out.t)} frames",
            fix=f'Pass a name, {axis}="q[0]", or an array with a row for each frame.',
        )
    return Quantity(axis, np.asarray(out.t), values.reshape(len(values), -1))


def together(axes: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """The same quantities at the times that all have, in as many columns each."""
    t = None
    for one in axes.values():
        t = one.t if t is None else t[np.isin(t, one.t)]
    assert t is not None
    if not len(t):
        raise InputError(
            f"{' and '.join(f'{a}={one.label!r}' for a, one in axes.items())} have no times in common",
            fix="Observe as often as frames are saved: give observe_every= and save_every= the same number.",
        )
    most = max(one.values.shape[1] for one in axes.values())
    out = {}
    for axis, one in axes.items():
        values = one.values[np.isin(one.t, t)]
        if values.shape[1] not in (1, most):
            counts = ", ".join(f"{a} has {o.values.shape[1]}" for a, o in axes.items())
            raise ShapeError(
                f"the axes have different numbers of curves: {counts}",
                fix=f'Choose components: {axis}="{one.label}[0]".',
            )
        out[axis] = replace(one, t=t, values=np.broadcast_to(values, (len(t), most)))
    return out
