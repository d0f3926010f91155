"""What is the kinetic energy of a fast particle?  sqrt(p**2 c**2 + m**2 c**4) - m c**2, without the difference.

As p**2/(m + s) with s = sqrt(m**2 + p**2/c**2) it loses no digits where p is small, and its derivative is what it is: p/s.
"""

from __future__ import annotations

from tinyphysics.ir.uop import UOp
from tinyphysics.rules.calculus.custom import op

NAME = "relativistic_energy"


def root(p2: UOp, m: UOp, c: UOp) -> UOp:
    """The energy over c**2; dT/dp is p over it."""
    return (m * m + p2 / (c * c)).sqrt()


def energy(p2: UOp, m: UOp, c: UOp) -> UOp:
    return p2 / (m + root(p2, m, c))


def slopes(p2: UOp, m: UOp, c: UOp) -> tuple[UOp, ...]:
    s = root(p2, m, c)
    return 0.5 / s, -(p2 / (s * (m + s))), 2.0 * energy(p2, m, c) / c - p2 / (c * s)


relativistic_energy = op(NAME, energy, slopes)
