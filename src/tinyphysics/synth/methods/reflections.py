"""Is a bounce canonical?  Read off the expressions of the step: positions and the energy stay, p moves along the normal.

On g = 0 then (p' - p)·dq = 0 and H' = H, so that p·dq - H dt goes through the bounce as it is, and with it dq∧dp on the flow,
whose time of arrival moves with the state (Birkhoff 1927, Dynamical Systems, ch. VI).
"""

from __future__ import annotations

from tinyphysics.ir import substitute
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import same
from tinyphysics.synth.methods.meetings import Meetings


def is_canonical(m: Meetings, k: int) -> bool:
    """Is that shown of the wall with this number, for a state that comes to it?"""
    if m.system.energy is None:
        return False
    rate = m.slopes[k]
    after = dict(
        zip(m.z, substitute(m.jumps[k], {rate.minimum(0.0): rate}))
    )  # it comes: the rate is below zero
    if any(after[q] is not q for q in m.q):
        return False
    (energy,) = unroll([m.system.energy])[0]
    (kept,) = substitute([energy], after)
    if not same(kept, energy):
        return False
    normal = gradient(m.guards[k], m.q)
    push = [after[p] - p for p in m.p]
    pairs = [(i, j) for j in range(len(push)) for i in range(j)]
    return all(same(push[i] * normal[j], push[j] * normal[i]) for i, j in pairs)
