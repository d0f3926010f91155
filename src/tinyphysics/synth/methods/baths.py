"""What does a bath do in a part of a step?  One flow for each kind of bath, for energies with T = sum of p**2/2m."""

from __future__ import annotations

from tinyphysics.analysis.masses import masses
from tinyphysics.flows.baths import BathFlow, Coupled
from tinyphysics.ir import UOp
from tinyphysics.rules.formulas.baths import stream_of
from tinyphysics.step import SubFlow
from tinyphysics.system import System


def in_bath(system: System, kinetic: UOp, weight: float, piece: int) -> SubFlow:
    """The flow of the bath for weight*dt, the piece of that number in a step."""
    kT, *rates = system.heat
    inverse = masses(system, kinetic).inverse
    momenta = [
        Coupled(p, rate, w, stream_of(k, piece))
        for k, (p, rate, w) in enumerate(zip(system.p, rates, inverse))
    ]
    return BathFlow(system.bath, tuple(momenta), kT, weight, kinetic)
