"""What do the programs mean without the compiler?  A stand-in for `tp` whose functions are NumPy's.

A program is Python text that names `tp`; executed with this class under that name, its decorators keep the user's
function as it is, and its functions are evaluated on plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import erf as erf_of_doubles

Array = Any


@dataclass
class Plain:
    """A user's function, and what kind of system it describes."""

    kind: str
    function: Callable[..., Any]
    pairs: list[tuple[str, str]] = field(default_factory=list)
    parts: list[Plain] = field(default_factory=list)  # of a sum, besides the first

    def __add__(self, other: Plain) -> Plain:
        return Plain(self.kind, self.function, self.pairs, [*self.parts, other, *other.parts])


class Shape:
    """`tp.Vec[3]` and `tp.Array[4, 2]` as annotations: without a meaning here."""

    def __class_getitem__(cls, item: Any) -> Any:
        return float


def decorator(kind: str) -> Callable[..., Any]:
    def decorate(function: Any = None, *, pairs: Any = None) -> Any:
        if function is None:
            return lambda f: Plain(kind, f, list(pairs or []))
        return Plain(kind, function)

    return decorate


def erf(x: Array) -> Array:
    return np.asarray(erf_of_doubles(np.asarray(x, float)), dtype=np.asarray(x).dtype)[()]


def stacked(parts: Any, axis: int = 0) -> Array:
    return np.stack([np.asarray(x) for x in parts], axis)


class Functions:
    """The names of `tp` that a program may use."""

    Vec = Array = Shape
    hamiltonian, lagrangian, forces = decorator("hamiltonian"), decorator("lagrangian"), decorator("forces")
    ode, map, potential = decorator("ode"), decorator("map"), decorator("potential")
    sin, cos, tan = np.sin, np.cos, np.tan
    arcsin, arccos, arctan, arctan2 = np.arcsin, np.arccos, np.arctan, np.arctan2
    sinh, cosh, tanh = np.sinh, np.cosh, np.tanh
    exp, expm1, log, log1p = np.exp, np.expm1, np.log, np.log1p
    sqrt, cbrt, hypot, abs, sign, floor = np.sqrt, np.cbrt, np.hypot, np.abs, np.sign, np.floor
    minimum, maximum, where, clip = np.minimum, np.maximum, np.where, np.clip
    sum, mean, prod, dot, outer, cross, einsum = (
        np.sum,
        np.mean,
        np.prod,
        np.dot,
        np.outer,
        np.cross,
        np.einsum,
    )
    roll, diff, take, concatenate, reshape, transpose = (
        np.roll,
        np.diff,
        np.take,
        np.concatenate,
        np.reshape,
        np.transpose,
    )
    erf, stack = staticmethod(erf), staticmethod(stacked)

    @staticmethod
    def norm(x: Array, axis: Any = None) -> Array:
        return np.sqrt((x * x).sum(axis))

    @staticmethod
    def pair_sum(x: Array) -> Array:
        return np.triu(x, 1).sum()

    @staticmethod
    def op(name: str, definition: Callable[..., Any], derivative: Any = None) -> Callable[..., Any]:
        return definition

    @staticmethod
    def fast(part: Plain) -> Plain:
        return part

    slow = fast


def understood(text: str) -> Plain:
    """The system that a program's text describes, without the compiler."""
    scope: dict[str, Any] = {"tp": Functions, "np": np}
    exec(compile(text, "<case>", "exec"), scope)
    system: Plain = scope["system"]
    return system
