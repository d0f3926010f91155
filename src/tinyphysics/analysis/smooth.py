"""Is H smooth?  An order of accuracy is claimed only where it is; a jump of the energy exerts no force at all."""

from __future__ import annotations

from tinyphysics.facts import Fact
from tinyphysics.rules.formulas.cutoffs import CUT, SHIFTED, SWITCHED
from tinyphysics.rules.formulas.smoothness import roughest
from tinyphysics.system import System

AT_CUTOFF = {
    CUT: "at the cutoff the energy jumps, and a jump exerts no force: shift= ends that, switch= the jump of the force too",
    SHIFTED: "at the cutoff the force jumps, which limits the order to 1 there: switch= makes it continuous",
    SWITCHED: "at the cutoff two derivatives are continuous, which is enough for order 2",
}


def smooth(system: System) -> Fact:
    assert system.energy is not None
    worst = roughest([system.energy], frozenset(system.q + system.p))
    motion = system.motion
    if worst is not None and motion is not None:
        # H is as smooth as L wherever the velocities are finite: there the mass matrix has an inverse
        worst = roughest([motion.lagrangian], frozenset((*system.q, *motion.v)))
    if worst is None:
        return Fact.yes("smooth", "no function in it jumps or has a kink")
    if worst.cutoff is not None:
        because = AT_CUTOFF[worst.cutoff]
    else:
        because = f"{worst.node} {worst.what()}"
    return Fact.no("smooth", because, system.sites.get(worst.node), jumps=worst.order < 0)


def smooth_rates(system: System) -> Fact:
    """Of a system that is given by its forces, or by derivatives."""
    moving = frozenset(s.var for s in system.states)
    worst = roughest([*system.forces, *system.update], moving)
    if worst is None:
        return Fact.yes("smooth", "no function in it jumps or has a kink")
    return Fact.no("smooth", f"{worst.node} {worst.what(of_energy=False)}", system.sites.get(worst.node))
