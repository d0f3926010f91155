"""How does a user give a magnetic field?  As a function of positions, t and parameters: tp.magnetic(B, charge=1.0)."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

from tinyphysics.errors import InputError
from tinyphysics.front.brackets import Bracket, Tensor
from tinyphysics.given import no_number, shown
from tinyphysics.ir import UOp, as_uop
from tinyphysics.options import heeds
from tinyphysics.util import a_kind

BEGINS = "q: tp.Vec[3], p: tp.Vec[3]"


def wrong_axes(states: Sequence[UOp]) -> str:
    for q, p in zip(states[::2], states[1::2]):
        if not q.shape or q.shape[-1] not in (2, 3):
            return f"`{q.arg}` has shape {q.shape}, and its last axis must be of length 3, or of length 2 in a plane"
        if q.shape != p.shape:
            return f"`{q.arg}` has shape {q.shape} and `{p.arg}` has {p.shape}"
    return ""


@heeds("magnetic", "tp.magnetic(lambda q: [0.0, 0.0, 1.0], charge=1.0)")
def magnetic(B: Callable[..., Any], charge: Any = 1.0) -> Bracket:
    """The bracket of charges in a magnetic field: @tp.hamiltonian(bracket=tp.magnetic(B)).

    `B` is a function of the positions, of t if it depends on time, and of parameters, by their names in the energy. It
    returns three numbers for each charge, or one where motion is in a plane. `charge` multiplies it: a number, an array
    with one for each charge, or the name of a parameter. The momentum p is the kinetic one: p' = -dH/dq + charge * dH/dp x B.
    """
    if not callable(B):
        raise InputError(
            f"tp.magnetic takes a function of the positions, not {a_kind(B)}",
            fix="Write tp.magnetic(lambda q: [0.0, 0.0, 1.0]).",
        )
    if not isinstance(charge, (str, UOp)) and not is_charge(charge):
        raise InputError(
            f"charge={shown(charge)} is not a charge", fix='Pass a number, or a name: charge="e".'
        )
    own = inspect.signature(B)
    names = list(own.parameters)

    def field(**given: Any) -> Any:
        value = B(**{name: given[name] for name in names})
        return value, given[charge] if isinstance(charge, str) else charge

    more = [] if not isinstance(charge, str) or charge in names else [
        inspect.Parameter(charge, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    ]  # fmt: skip
    field.__signature__ = own.replace(parameters=[*own.parameters.values(), *more])  # type: ignore[attr-defined]
    field.__name__ = getattr(B, "__name__", "B")
    return Bracket("magnetic", ("position", "momentum"), BEGINS, wrong_axes, "magnetic", field, tensor)


def is_charge(charge: Any) -> bool:
    """Is it a finite number, or an array of some?"""
    if isinstance(charge, (list, tuple)):
        return bool(charge) and all(map(is_charge, charge))
    if kind := getattr(getattr(charge, "dtype", None), "kind", ""):
        return kind in "iuf" and charge.size > 0
    return not no_number(charge) and math.isfinite(charge)


def tensor(value: Any, states: Sequence[UOp]) -> Tensor:
    """Charge times B, of the shape that the positions have, or of their rows in a plane."""
    b, charge = value
    q = states[0]
    shape = q.shape if q.shape[-1] == 3 else q.shape[:-1]
    own = as_uop(b)
    if own.shape != shape:
        beside = zip(reversed(own.shape), reversed(shape))
        if len(own.shape) > len(shape) or any(a not in (1, b) for a, b in beside):
            raise InputError(
                f"B returns the shape {own.shape} for positions of shape {q.shape}, and {shape} is needed",
                fix="Return three numbers for each charge; in a plane, one: B[..., 2].",
            )
        own = own.expand(shape)
    c = as_uop(charge)
    if c.shape and c.shape != shape:
        c = c.reshape(*c.shape, *[1] * (len(shape) - len(c.shape)))
    return (own * c.expand(shape),)
