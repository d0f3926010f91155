"""The part of an energy without momenta, as the user wrote it."""

from __future__ import annotations

from tinyphysics.analysis.separable import separable
from tinyphysics.ir import UOp
from tinyphysics.system import System


def potential_of(system: System) -> UOp:
    found: UOp = separable(system.seen).V
    return found
