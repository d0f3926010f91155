"""Is what a user wrote a bracket?  Skew, and with Jacobi's identity: proved, refuted with the place, or not shown."""

from __future__ import annotations

import math

from tinyphysics.errors import VerifyError
from tinyphysics.facts import Fact
from tinyphysics.ir import UOp, evaluate
from tinyphysics.rules.calculus.jacobi import identities
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.system import System

SEEN = 1e-9  # at numbers near 1
MOST_NUMBERS = 12  # of a state whose bracket is looked at place by place


def bracket(system: System) -> Fact | None:
    """Of z' = J(z) dH; a VerifyError where an identity does not hold."""
    if not system.tensor:
        return None
    (J,), (z,) = system.tensor, system.structure.states
    if z.size > MOST_NUMBERS:
        why = f"{z.size} numbers have too many places to look at: {MOST_NUMBERS} at most"
        return Fact.no("bracket", f"Jacobi's identity is not shown: {why}", system.site)
    normal = Normal()
    open_: list[str] = []
    for what, places, residual in identities(J, z):
        if normal.is_zero(residual):
            continue
        where = ", ".join(f"{name} = {k}" for name, k in zip("ijk", places))
        if is_something(residual):
            raise refuted(system, what, where, residual)
        open_.append(f"{what} for {where} is not shown to be zero: {residual}")
    if open_:
        return Fact.no("bracket", open_[0], system.site)
    constant = ", and constant" if z not in J.leaves else ""
    from tinyphysics.analysis.casimirs import casimirs  # by NumPy, which other facts do without

    found = casimirs(J, z)
    kept = f"; every energy keeps {' and '.join(str(c) for c in found)}" if found else ""
    return Fact.yes(
        "bracket", f"J(z) is skew and obeys Jacobi's identity{constant}, by algebra{kept}", casimirs=found
    )


def is_something(u: UOp) -> bool:
    """Is it not zero, at one of some places?  Rounding is 1e-16 of what is added up there."""
    for first in (0.7, 1.3):
        env = {
            str(v.arg): [first + 0.11 * k for k in range(v.size)]
            if v.shape
            else first + 0.05 * len(str(v.arg))
            for v in u.leaves
        }
        (value,) = evaluate([u], env)
        if math.isfinite(value) and abs(value) > SEEN:
            return True
    return False


def refuted(system: System, what: str, where: str, residual: UOp) -> VerifyError:
    skew = "J(z) is not skew" if what.startswith("J[i, j]") else "J(z) does not obey Jacobi's identity"
    mend = (
        "Write J with J[j][i] = -J[i][j]: then the energy is kept."
        if what.startswith("J[i, j]")
        else "Without it no coordinates are canonical anywhere; write the motion as @tp.ode instead."
    )
    return VerifyError(f"{skew}: {what} is {residual} for {where}", site=system.site, fix=mend)
