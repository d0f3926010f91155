"""How does a position move where friction is so strong that momenta are forgotten at once?  Brownian motion.

dq = F/ζ dt + √(2 k_BT/ζ) dW with ζ = mγ, in steps of Leimkuhler & Matthews (2013): each noise is half of that of two steps.
That is the limit of kick, drift, bath, drift, kick for a bath that draws momenta anew. So a momentum keeps the number that
two steps share: it is √(m k_BT) ξ, with Maxwell's law.
"""

from __future__ import annotations

from tinyphysics.ir import Ops, UOp

BROWNIAN = "brownian"


def diffused(
    q: UOp, p: UOp, force: UOp, kT: UOp, inverse: UOp, rate: UOp, noise: UOp, dt: UOp
) -> tuple[UOp, UOp]:
    """q + hF/ζ + √(2 k_BT h/ζ)(ξ + ξ')/2, and √(m k_BT) ξ': of p = √(m k_BT) ξ the noise is √(h/2γ) (p + p')/m."""
    if rate.op is Ops.CONST:  # in a register: a number of the user's is no coefficient of the method
        rate = rate * UOp.const(1.0)
    time = (dt.expand(rate.shape) / rate).expand(q.shape)  # h/γ
    w = inverse.expand(p.shape)
    new = (kT.expand(p.shape) / w).sqrt() * noise
    return q + w * (time * force + (0.5 * time).sqrt() * (p + new)), new
