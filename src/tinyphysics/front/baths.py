"""Which baths are there, by name or as an object that says more: tp.nose_hoover(length=5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tinyphysics.errors import PlanError
from tinyphysics.given import shown
from tinyphysics.options import heeds
from tinyphysics.rules.formulas.baths import ANDERSEN, LANGEVIN
from tinyphysics.rules.formulas.memory import Rows
from tinyphysics.rules.formulas.overdamped import BROWNIAN
from tinyphysics.rules.formulas.thermostats import BUSSI, NOSE_HOOVER, NOSE_POINCARE, TRIGGER
from tinyphysics.util import did_you_mean, one_of

BATHS = (LANGEVIN, ANDERSEN, BROWNIAN, BUSSI, NOSE_HOOVER, NOSE_POINCARE, TRIGGER)
CHAIN = 3  # links of a chain, where nothing else is asked for
MOST = 32


@dataclass(frozen=True)
class Bath:
    """How heat comes and goes: tp.compile(H, dt, temperature=1.0, bath=...)."""

    way: str
    length: int = 0  # of a chain
    A: Rows = ()  # of a bath that remembers
    C: Rows = ()


@heeds("nose_hoover", "tp.nose_hoover(length=3)")
def nose_hoover(length: int = CHAIN) -> Bath:
    """A chain of `length` Nosé-Hoover thermostats: deterministic, reversible, with an extended energy that is conserved.

    One alone is not ergodic for oscillators, and warns when it is compiled.
    """
    if isinstance(length, bool) or not isinstance(length, int) or not 1 <= length <= MOST:
        raise PlanError(
            f"nose_hoover(length={shown(length)})", fix=f"A chain has 1 to {MOST} links: length=3."
        )
    return Bath(NOSE_HOOVER, length)


def bath_of(bath: Any) -> Bath:
    """One that is given by its name or as an object."""
    if isinstance(bath, Bath):
        return bath
    if bath is nose_hoover or bath == NOSE_HOOVER:
        return nose_hoover()
    if not isinstance(bath, str) or bath not in BATHS:
        raise PlanError(
            f"there is no bath {shown(bath)}",
            fix=f"{did_you_mean(str(bath), BATHS)}bath may be {one_of(BATHS)}.",
        )
    return Bath(bath)
