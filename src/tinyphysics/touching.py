"""How does an energy move bodies that touch?  As without contacts; impulses come on top, of which nothing is shown."""

from __future__ import annotations

from dataclasses import dataclass

from tinyphysics.canonical import Canonical
from tinyphysics.ir import UOp

BRACKET = "contacts"
IMPULSE, RUB = "_impulse", "_rub"  # after the name of a contact: the names of its states


def velocity_of(q: UOp) -> UOp:
    """What stands for the velocity in slips."""
    return UOp.var(f"velocity of {q.arg}", q.shape, q.dtype)


@dataclass(frozen=True, eq=False)
class Touching(Canonical):
    """Pairs of positions and momenta, with gaps that impulses keep open."""

    bracket = BRACKET
    claims = ("symplectic", "volume-preserving", "symmetric", "reversible", "consistent")
    facts = (  # type: ignore[assignment]
        "linked", "Legendre", "separable", "T quadratic", "explicit time", "smooth", "even in p", "reads", "units",
    )  # fmt: skip
    families = ("impulses",)
    unasked = "its bodies touch"
    keeps_energy = False
