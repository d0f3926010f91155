"""Is H smooth?  An order of accuracy is claimed only where it is; a jump of the energy exerts no force at all.

One-sided: functions that may jump or have a kink are named, whether or not they do here. Poles and roots are
left to the run, which stops where they are met.
"""

from __future__ import annotations

from tinyphysics.facts import Fact
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.rules.formulas.cutoffs import CUT, SHIFTED, SWITCHED, cutoffs, within_cutoffs
from tinyphysics.system import System

JUMPS = (
    Ops.SIGN,
    Ops.FLOOR,
    Ops.RINT,
    Ops.WHERE,
)  # a choice between values may be continuous; that is not examined
AT_CUTOFF = {
    CUT: "at the cutoff the energy jumps, and a jump exerts no force: shift= ends that, switch= the jump of the force too",
    SHIFTED: "at the cutoff the force jumps, which limits the order to 1 there: switch= makes it continuous",
    SWITCHED: "at the cutoff two derivatives are continuous, which is enough for order 2",
}
KINKS = (Ops.ABS, Ops.MIN, Ops.MAX)


def smooth(system: System) -> Fact:
    assert system.energy is not None
    states = frozenset(system.q + system.p)

    def rough(u: UOp) -> bool:
        extreme = u.op is Ops.REDUCE and u.arg[0] not in ("sum", "pairs")
        return (u.op in JUMPS or u.op in KINKS or extreme) and bool(u.leaves & states)

    found = [u for u in toposort(within_cutoffs([system.energy])) if rough(u)]
    if not found and (ends := cutoffs([system.energy])):
        u, kind = min(ends.items(), key=lambda end: end[1])
        return Fact.no("smooth", because=AT_CUTOFF[kind], site=system.sites.get(u))
    if not found:
        return Fact.yes("smooth", because="no function in it jumps or has a kink")
    jumps = [u for u in found if u.op in JUMPS]
    u = (jumps or found)[0]
    what = "may jump, and a jump exerts no force" if jumps else "has a kink, where the order drops"
    return Fact.no("smooth", because=f"{u} {what}", site=system.sites.get(u))
