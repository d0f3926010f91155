"""tp.contact: bodies that push and rub where a gap closes, to be added to a system with +."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tinyphysics.errors import InputError
from tinyphysics.front.trace import observable
from tinyphysics.given import number, shown
from tinyphysics.ir import UOp
from tinyphysics.options import heeds
from tinyphysics.system import Meeting

CONTACT = 'tp.contact(lambda q: q[1], slip=lambda v: v[0], friction=0.3, name="floor")'
MOST_ITERATIONS = 1000


@dataclass(frozen=True, eq=False)
class Contact(Meeting):
    """Gaps that impulses keep open, and slips that friction slows down."""

    function: Callable[..., Any]
    slip: Callable[..., Any] | None
    friction: float | str
    iterations: int
    name: str
    kind = "contact"

    def gap(self, known: Mapping[str, UOp]) -> UOp:
        return observable(self.function, known, self.name, "contact")

    def slipping(self, known: Mapping[str, UOp]) -> UOp | None:
        return None if self.slip is None else observable(self.slip, known, self.name, "contact")

    def __repr__(self) -> str:
        return f"<contact {self.name}>"


@heeds("contact", CONTACT)
def contact(
    gap: Callable[..., Any],
    slip: Callable[..., Any] | None = None,
    friction: float | str = 0.0,
    iterations: int = 10,
    *,
    name: str | None = None,
) -> Contact:
    """Makes a contact, which is added to an energy: `boxes + floor`. Contacts are soft, and nothing is certified of them.

    `gap` is a function of positions and parameters, matched by name: the distance of the bodies, one number or an array of
    them. `slip` is the velocity along the surface, a function that may take `v`, the velocity, besides: one number for each
    gap, or a vector for each. `friction` is the coefficient of friction, a number or the name of a parameter. Impulses are
    found by `iterations` sweeps of projected Gauss–Seidel in every step, from those of the step before. `name` is what
    out.contacts calls it; the default is the name of the function.
    """
    for what, function in (("gap", gap), ("slip", slip)):
        if not callable(function) and not (what == "slip" and function is None):
            raise InputError(
                f"tp.contact: {what}={shown(function)} is not a function", fix=f"Write {CONTACT}."
            )
    if (
        isinstance(iterations, bool)
        or not isinstance(iterations, int)
        or not 1 <= iterations <= MOST_ITERATIONS
    ):
        raise InputError(
            f"tp.contact: iterations={shown(iterations)} is not a number of sweeps",
            fix=f"Pass a whole number from 1 to {MOST_ITERATIONS}: iterations=10.",
        )
    if not isinstance(friction, str):
        friction = number("friction", friction, "friction=0.3", "coefficient, or the name of a parameter")
        if friction < 0.0:
            raise InputError(
                f"tp.contact: friction={friction:g} is negative: it would push along the motion",
                fix="A coefficient of friction is zero or above: friction=0.3.",
            )
    if friction and slip is None:
        raise InputError(
            f"tp.contact: friction={shown(friction)} without slip=: along which direction the bodies rub is not known",
            fix=f"Write {CONTACT}.",
        )
    own = name if name is not None else getattr(gap, "__name__", "")
    if name is not None and (not isinstance(name, str) or not name.isidentifier()):
        raise InputError(f"tp.contact: name={shown(name)} is not a name", fix='Write name="floor".')
    return Contact(gap, slip, friction, iterations, own if own.isidentifier() else "contact")
